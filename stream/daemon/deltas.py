"""From source records to delta records: one partition's events, decoded, pseudonymized, split, each offset covered.

Every offset of a batch is either a row or in `dlq`; the next delta begins where this one ends. A fold that has all
deltas has all events, and sees where one is missing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from connectors.kafka.event_batches import BatchDecoder, Columns, leave_all
from connectors.kafka.events import Event, Headers, Poison
from stream.fold.records import VERSION, Delta, Row, with_person
from stream.values.pseudonym import Pseudonyms

MOST_NAMES = 100_000
"""Pseudonyms of resources, and of cases, that are remembered; a log that has more forgets and starts again."""

OVERHEAD = 1024
"""Room for the fields around the rows, so that a split record stays below the limit as a whole."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What Kafka gave: coordinates, bytes, and the clock an event time may not run ahead of (ns)."""

    offset: int
    value: bytes | None
    headers: Headers
    clock_ns: int


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Source records of one partition by column; `clocks`: one for all where it is an integer."""

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]
    clocks: int | Sequence[int]

    def clock(self, place: int) -> int:
        return self.clocks if isinstance(self.clocks, int) else self.clocks[place]

    def record(self, place: int) -> SourceRecord:
        return SourceRecord(self.offsets[place], self.values[place], self.headers[place], self.clock(place))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Coordinates and class of an unusable record; its payload only where the operator asked for it."""

    offset: int
    error: str
    payload: bytes | None = None

    def encode(self, source: str, partition: int) -> bytes:
        body: dict[str, Any] = {"v": VERSION, "src": source, "p": partition, "offset": self.offset, "error": self.error}
        if self.payload is not None:
            body["payload"] = base64.b64encode(self.payload).decode("ascii")
        return msgspec.json.encode(body)


@dataclass(frozen=True, slots=True)
class LogState:
    """Of which log events come, as a delta tells it (`stream.fold.records.Delta`)."""

    log: str = ""
    epoch: int = -1
    epochs: tuple[tuple[int, int], ...] = ()
    end: int | None = None


UNKNOWN = LogState()


@dataclass(slots=True)
class _Chunk:
    rows: list[msgspec.Raw]
    dead: list[int]
    size: int = 0
    last: int = -1
    watermark: int | None = None


AnyRow = tuple[int, str, str, int, str | None, dict[str, dict[str, Any]] | None, str | None, bool]
"""The values of a `Row`."""

Made = tuple[bytes, int] | Poison
"""Of a record: its encoded row and its time, or why it has none."""


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """How one process turns source records into delta records. Stateless: `prev` is the caller's."""

    decode: Callable[[bytes | None, Headers], Event]
    pseudonyms: Pseudonyms
    max_skew_ns: int
    limit: int
    dlq_payload: bool = False
    earliest: int | None = None
    """Event time (ns) before which an event is none of this process."""
    raw_resources: bool = False
    person: str | None = None
    """The attribute that names the person of a case: only its pseudonym goes on."""
    decode_batch: BatchDecoder = leave_all
    """The fast way of `decode` for whole batches."""
    _names: dict[str, str] = field(default_factory=dict)
    _cases: dict[str, str] = field(default_factory=dict)

    def write(
        self, source: str, partition: int, prev: int, records: Iterable[SourceRecord], log: LogState = UNKNOWN
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """Delta records in order, and the dead letters among `records` (one partition, ascending offsets, one leader
        epoch). What `log` says beside id and epoch stands in the first one."""
        return self._written(source, partition, prev, ((record, self._made(record)) for record in records), log)

    def write_batch(
        self, source: str, partition: int, prev: int, batch: SourceBatch, log: LogState = UNKNOWN
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """What `write` makes of the same records, byte for byte, by column. Where all are plain events that fit into
        one delta, no record is looked at alone."""
        found = self._in_time(batch, self.decode_batch(batch.values, batch.headers))
        rows = self._rows(batch, found)
        if rows and not found.odd:
            body = msgspec.json.encode(rows)
            if len(body) - 1 + OVERHEAD <= self.limit:  # so many bytes `_chunks` counts: a row and its comma each
                last, latest, raw = batch.offsets[-1], max(found.time_ns), msgspec.Raw(body)
                return [self._delta(source, partition, prev, last, (len(rows), raw, latest), [], log)], []
        made: dict[int, Made] = {place: self._made(batch.record(place)) for place in found.odd}
        made |= {place: self._fitting(row) for place, row in zip(found.places, rows, strict=True)}
        records = ((batch.record(place), made[place]) for place in range(len(batch.offsets)))
        return self._written(source, partition, prev, records, log)

    def _written(
        self, source: str, partition: int, prev: int, records: Iterable[tuple[SourceRecord, Made]], log: LogState
    ) -> tuple[list[bytes], list[DeadLetter]]:
        letters: list[DeadLetter] = []
        encoded = []
        for chunk in self._chunks(records, letters):
            encoded.append(self._encode(source, partition, prev, chunk, log))
            prev, log = chunk.last, LogState(log.log, log.epoch)
        return encoded, letters

    def opening(self, source: str, partition: int, prev: int, last: int, log: LogState = UNKNOWN) -> bytes:
        """A delta without an event: what lies up to `last` is gone from the log, or was never asked for. With -1 and -1
        it only says what the log is."""
        return self._encode(source, partition, prev, _Chunk([], [], last=last), log)

    def _chunks(self, records: Iterable[tuple[SourceRecord, Made]], letters: list[DeadLetter]) -> Iterator[_Chunk]:
        chunk = _Chunk([], [])
        for record, made in records:
            if isinstance(made, Poison):
                letters.append(DeadLetter(record.offset, made.kind, record.value if self.dlq_payload else None))
                chunk.dead.append(record.offset)
                chunk.size += 24
            else:
                row, time_ns = made
                if chunk.rows and chunk.size + len(row) + OVERHEAD > self.limit:
                    yield chunk
                    chunk = _Chunk([], [])
                chunk.rows.append(msgspec.Raw(row))
                chunk.size += len(row) + 1
                chunk.watermark = time_ns if chunk.watermark is None else max(chunk.watermark, time_ns)
            chunk.last = record.offset
        if chunk.last >= 0:
            yield chunk

    def _made(self, record: SourceRecord) -> Made:
        try:
            return self._fitting(self._row(record))
        except Poison as poison:
            return poison

    def _fitting(self, row: AnyRow) -> Made:
        encoded = msgspec.json.encode(row)
        return Poison("too_large") if len(encoded) + OVERHEAD > self.limit else (encoded, row[3])

    def _row(self, record: SourceRecord) -> AnyRow:
        event = self.decode(record.value, record.headers)
        if event.time_ns > record.clock_ns + self.max_skew_ns:
            raise Poison("future")
        if self.earliest is not None and event.time_ns < self.earliest:
            raise Poison("past")
        return Row(
            offset=record.offset,
            case=self._case(event.case),
            activity=event.activity,
            time_ns=event.time_ns,
            resource=None if event.resource is None else self._named(event.resource),
            attributes=self._attributes(event.attributes),
            event_id=None if event.event_id is None else self.pseudonyms.event(event.event_id),
            end=event.end,
        )

    def _in_time(self, batch: SourceBatch, found: Columns) -> Columns:
        """The events without those that are too late or too early: `_row` says which they are."""
        if not found.places:
            return found
        clock = batch.clocks if isinstance(batch.clocks, int) else min(batch.clocks)
        first = min(found.time_ns) if self.earliest is None else self.earliest
        if max(found.time_ns) <= clock + self.max_skew_ns and min(found.time_ns) >= first:
            return found
        timed = enumerate(zip(found.places, found.time_ns, strict=True))
        return found.without(
            {index for index, (place, when) in timed if when > batch.clock(place) + self.max_skew_ns or when < first}
        )

    def _rows(self, batch: SourceBatch, found: Columns) -> list[AnyRow]:
        """The rows of the events that were found."""
        whole = len(found.places) == len(batch.offsets)
        event_ids, resources, attributes = found.event_id, found.resource, found.attributes
        cases, names = self._cases, self._names
        if not self.raw_resources:
            resources = [None if name is None else names.get(name) or self._named(name) for name in resources]
        if event_ids.count(None) < len(event_ids):
            event_ids = [None if one is None else self.pseudonyms.event(one) for one in event_ids]
        if self.person is not None:
            attributes = [self._attributes(one) for one in attributes]
        columns = (
            batch.offsets if whole else [batch.offsets[place] for place in found.places],
            [cases.get(case) or self._case(case) for case in found.case],
            found.activity,
            found.time_ns,
            resources,
            attributes,
            event_ids,
            found.end,
        )
        return list(zip(*columns, strict=True))

    def _case(self, case: str) -> str:
        if case not in self._cases:
            if len(self._cases) >= MOST_NAMES:
                self._cases.clear()
            self._cases[case] = self.pseudonyms.case(case)
        return self._cases[case]

    def _attributes(self, attributes: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
        return attributes if self.person is None else with_person(attributes, self.person, self.pseudonyms.person)

    def _named(self, resource: str) -> str:
        if self.raw_resources:
            return resource
        if resource not in self._names:
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[resource] = self.pseudonyms.resource(resource)
        return self._names[resource]

    def _encode(self, source: str, partition: int, prev: int, chunk: _Chunk, log: LogState) -> bytes:
        rows = len(chunk.rows), chunk.rows, chunk.watermark
        return self._delta(source, partition, prev, chunk.last, rows, chunk.dead, log)

    def _delta(
        self,
        source: str,
        partition: int,
        prev: int,
        last: int,
        rows: tuple[int, Any, int | None],
        dead: list[int],
        log: LogState,
    ) -> bytes:
        """`rows`: how many, encoded, and the latest time; msgspec writes raw JSON as it stands."""
        delta = Delta(
            src=source,
            p=partition,
            prev=prev,
            last=last,
            n=rows[0],
            dlq=dead,
            wm=rows[2],
            key=self.pseudonyms.id,
            named=not self.raw_resources,
            rows=rows[1],
            log=log.log,
            epoch=log.epoch,
            epochs=log.epochs,
            end=log.end,
        )
        return msgspec.json.encode(delta)
