"""From fetches to delta records by column: what `DeltaWriter.write` makes of the same records, byte for byte.

Only plain events go this way: where one record of a batch is none, or may be refused, `DeltaWriter` takes the batch,
and it alone refuses. So there is one set of rules for what is an event and why one is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from connectors.kafka.event_batches import BatchDecoder, EventColumns
from stream.daemon.deltas import OVERHEAD, UNKNOWN, Chunk, DeadLetter, DeltaWriter, LogState, SourceRecord


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Records of one partition as the client gives them (`offset`, `key`, `value`, `headers`, `timestamp` in ms),
    rising offsets, one leader epoch. `clocks` as `SourceRecord.clock_ns`: one for all where it is an integer."""

    records: Sequence[Any]
    clocks: int | Sequence[int]

    def record(self, place: int) -> SourceRecord:
        one = self.records[place]
        clock = self.clocks if isinstance(self.clocks, int) else self.clocks[place]
        return SourceRecord(one.offset, one.value, one.headers, clock, one.key, one.timestamp)


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """A delta writer with a fast way. `decode`: the batch form of the writer's own decoder; None: there is none."""

    writer: DeltaWriter
    decode: BatchDecoder | None = None

    def write(
        self, source: str, partition: int, prev: int, batch: SourceBatch, log: LogState = UNKNOWN
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """As `DeltaWriter.write`."""
        chunks = self._chunks(batch)
        if chunks is None:
            records = map(batch.record, range(len(batch.records)))
            return self.writer.write(source, partition, prev, records, log)
        encoded = []
        for chunk in chunks:
            encoded.append(self.writer.encode(source, partition, prev, chunk, log))
            prev, log = chunk.last, LogState(log.log, log.epoch)
        return encoded, []

    def _chunks(self, batch: SourceBatch) -> list[Chunk] | None:
        """The deltas of a batch; None where a record of it is to be looked at alone."""
        if self.decode is None or self.writer.formats is not None:
            return None
        records = batch.records
        found = self.decode([record.value for record in records], [record.headers for record in records])
        if found is None or not self._in_time(batch, found):
            return None
        rows = self._rows([record.offset for record in records], found)
        encoded = [msgspec.json.encode(row) for row in rows]
        if max(map(len, encoded)) + OVERHEAD > self.writer.limit:
            return None
        return self._split(records, encoded, found.time_ns)

    def _split(self, records: Sequence[Any], rows: Sequence[bytes], times: Sequence[int]) -> list[Chunk]:
        """Rows by delta, none above the limit; as `DeltaWriter` splits them."""
        bounds, size = [0], 0
        for place, length in enumerate(map(len, rows)):
            if size and size + length + OVERHEAD > self.writer.limit:
                bounds.append(place)
                size = 0
            size += length + 1
        bounds.append(len(rows))
        return [
            Chunk([*map(msgspec.Raw, rows[begin:end])], [], 0, records[end - 1].offset, max(times[begin:end]))
            for begin, end in pairwise(bounds)
        ]

    def _in_time(self, batch: SourceBatch, found: EventColumns) -> bool:
        """Whether no event is in the future, nor before the earliest. With several clocks: by the least."""
        clock = batch.clocks if isinstance(batch.clocks, int) else min(batch.clocks)
        earliest = self.writer.earliest
        return max(found.time_ns) <= clock + self.writer.max_skew_ns and (
            earliest is None or min(found.time_ns) >= earliest
        )

    def _rows(self, offsets: Sequence[int], found: EventColumns) -> list[tuple[Any, ...]]:
        """The values of `Row`, by event."""
        writer = self.writer
        resources, attributes, event_ids = found.resource, found.attributes, found.event_id
        if not writer.raw_resources and resources.count(None) < len(resources):
            names = {name: None if name is None else writer.named(name) for name in set(resources)}
            resources = [*map(names.__getitem__, resources)]
        if writer.person is not None:
            attributes = [writer.attributes(one) for one in attributes]
        if event_ids.count(None) < len(event_ids):
            event_ids = [None if one is None else writer.pseudonyms.event(one) for one in event_ids]
        cases = {case: writer.case(case) for case in set(found.case)}
        whose = map(cases.__getitem__, found.case)
        columns = offsets, whose, found.activity, found.time_ns, resources, attributes, event_ids, found.end
        return list(zip(*columns, strict=True))
