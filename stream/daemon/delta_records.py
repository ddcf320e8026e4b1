"""Records of the delta topic as the runner takes them: complete, decoded, at their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from models.errors import RefusedError
from stream.daemon.delta_log import Anchor
from stream.fold.records import READABLE, AnyRecord, Delta
from stream.run.runner import Arrival

DeltaRecord = tuple[int, bytes | None, int]
"""Offset, value, leader epoch (-1: unknown) of a record of the delta topic."""


@dataclass(frozen=True, slots=True)
class DeltaRecords:
    """A `RecordSource` over records of the delta topic. `readable` converts a record of an earlier program to the
    present form."""

    records: Iterable[DeltaRecord]
    anchor: Anchor
    readable: Callable[[AnyRecord], AnyRecord]

    def after(self, position: int) -> Iterator[Arrival]:
        """Return the records behind `position`; the state has the others already."""
        for offset, value, epoch in self.records:
            here = self.anchor.position(offset)
            if here <= position:
                continue
            record = self.readable(decode_record(offset, value))
            yield Arrival(here, record, len(record.rows) if isinstance(record, Delta) else 0, epoch)


Reread = Callable[[int, int], Iterable[DeltaRecord]]
"""The records from an offset up to another (exclusive), read once more by another consumer."""


def whole(records: Iterable[DeltaRecord], first: int, reread: Reread) -> Iterator[DeltaRecord]:
    """Records from offset `first` on, in order, without holes that a consumer made. Missing offsets are read once more:
    the marker of a transaction has an offset and is no record; a record that was left out takes its place.

    This comes before the fold: a record that a second look finds is folded where it stands, before any later cut.
    """
    for record in records:
        if record[0] > first:
            yield from reread(first, record[0])
        if record[0] >= first:
            yield record
            first = record[0] + 1


def decode_record(offset: int, value: bytes | None) -> AnyRecord:
    """Decode a record of the delta topic. RefusedError for another version or bytes that are no record: a fold that
    guesses cannot be replayed."""
    try:
        record: Any = DECODER.decode(value or b"")
    except msgspec.DecodeError:
        raise RefusedError(f"delta offset {offset}: {_version_of(value)}; {_READS}") from None
    if record.v not in READABLE:
        raise RefusedError(f"delta offset {offset}: version {record.v}; {_READS}")
    return record  # type: ignore[no-any-return]  # the decoder's type is the union of the records


_READS = f"this program reads versions {' and '.join(map(str, READABLE))}"

DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class _Version(msgspec.Struct):
    v: int


def _version_of(value: bytes | None) -> str:
    try:
        return f"version {msgspec.json.decode(value or b'', type=_Version).v}"
    except msgspec.DecodeError:
        return "not a delta record"
