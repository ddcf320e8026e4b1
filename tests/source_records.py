"""Source records and their events, for tests that look at one record at a time."""

from __future__ import annotations

from typing import NamedTuple

from connectors.kafka.events import Decode, Headers, LeftOut, Poison, SourceEvent


class Message(NamedTuple):
    """A record of a source topic (`SourceMessage`)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = None
    timestamp: int | None = None
    offset: int = -1


def source_record(offset: int, value: bytes | None, headers: Headers = None) -> Message:
    """A record as the client gives it."""
    return Message("t", None, value, headers, offset=offset)


def events_of(decode: Decode, message: Message) -> list[SourceEvent]:
    """The events of one record; Poison or LeftOut with the reason if it has none."""
    batch = decode([message])
    for kind in batch.refused.values():
        raise Poison(kind)
    for kind in batch.left_out.values():
        raise LeftOut(kind)
    assert list(batch.place) == [0] * len(batch.place)
    return [SourceEvent(*row) for row in zip(*batch.columns, strict=True)]
