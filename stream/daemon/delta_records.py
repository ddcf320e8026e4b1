"""Records of the delta topic as the runner takes them: decoded, at their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from models.errors import RefusedError
from stream.daemon.delta_log import Anchor
from stream.fold.records import VERSION, AnyRecord, Delta
from stream.runtime.runner import Arrival

DeltaRecord = tuple[int, bytes | None, int]
"""Offset, value, leader epoch (-1: unknown) of a record of the delta topic."""


@dataclass(frozen=True, slots=True)
class DeltaRecords:
    """A `RecordSource` over records of the delta topic. `readable`: an older record as this process folds it."""

    records: Iterable[DeltaRecord]
    anchor: Anchor
    readable: Callable[[AnyRecord], AnyRecord]

    def after(self, position: int) -> Iterator[Arrival]:
        """The records behind `position`; those that the state has already are skipped."""
        for offset, value, epoch in self.records:
            here = self.anchor.position(offset)
            if here <= position:
                continue
            record = self.readable(decode_record(offset, value))
            yield Arrival(here, record, len(record.rows) if isinstance(record, Delta) else 0, epoch)


def decode_record(offset: int, value: bytes | None) -> AnyRecord:
    """A record of the delta topic; RefusedError for another version or no record at all: a guess is not replayable."""
    try:
        record: Any = DECODER.decode(value or b"")
    except msgspec.DecodeError:
        raise RefusedError(
            f"delta offset {offset}: {_version_of(value)}; this program reads version {VERSION}"
        ) from None
    if record.v != VERSION:
        raise RefusedError(f"delta offset {offset}: version {record.v}; this program reads version {VERSION}")
    return record  # type: ignore[no-any-return]  # the decoder's type is the union of the records


DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class _Version(msgspec.Struct):
    v: int


def _version_of(value: bytes | None) -> str:
    try:
        return f"version {msgspec.json.decode(value or b'', type=_Version).v}"
    except msgspec.DecodeError:
        return "not a delta record"
