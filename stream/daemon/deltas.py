"""From source records to delta records: one partition's events, decoded, pseudonymized, split, each offset covered.

Every offset of a batch is either a row or in `dlq`; the next delta begins where this one ends. A fold that has all
deltas has all events, and sees where one is missing.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from connectors.kafka.events import Headers, LeftOut, Message, Poison, SourceEvent
from connectors.kafka.formats import Formats
from stream.fold.records import SEVERAL_VERSION, TIMES, VERSION, Attributes, Delta, Row, with_person
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
    key: bytes | None = None
    timestamp_ms: int | None = None


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
class Chunk:
    """What one delta holds; rows are encoded, or tuples of the values of a `Row`."""

    rows: list[Any]
    dead: list[int]
    size: int = 0
    last: int = -1
    watermark: int | None = None
    several: bool = False


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """How one process turns source records into delta records. Stateless: `prev` is the caller's."""

    decode: Callable[[bytes | None, Headers], SourceEvent]
    pseudonyms: Pseudonyms
    max_skew_ns: int
    limit: int
    dlq_payload: bool = False
    earliest: int | None = None
    """Events before this time (ns) are ignored."""
    raw_resources: bool = False
    person: str | None = None
    """The attribute that names the person of a case: only its pseudonym goes on."""
    formats: Formats | None = None
    """In place of `decode`: formats of a registry, and mappings, by which a record makes any number of events."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that became no event because the configuration says so, by kind: counted, since nothing else shows them.
    """
    _names: dict[str, str] = field(default_factory=dict)
    _cases: dict[str, str] = field(default_factory=dict)

    def write(
        self, source: str, partition: int, prev: int, records: Iterable[SourceRecord], log: LogState = UNKNOWN
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """Delta records in order, and the dead letters among `records` (one partition, ascending offsets, one leader
        epoch). What `log` says beside id and epoch stands in the first one."""
        letters: list[DeadLetter] = []
        encoded = []
        for chunk in self._chunks(source, records, letters):
            encoded.append(self.encode(source, partition, prev, chunk, log))
            prev, log = chunk.last, LogState(log.log, log.epoch)
        return encoded, letters

    def opening(self, source: str, partition: int, prev: int, last: int, log: LogState = UNKNOWN) -> bytes:
        """A delta without an event: what lies up to `last` is gone from the log, or was never asked for. With -1 and -1
        it only says what the log is."""
        return self.encode(source, partition, prev, Chunk([], [], last=last), log)

    def _chunks(self, source: str, records: Iterable[SourceRecord], letters: list[DeadLetter]) -> Iterator[Chunk]:
        chunk = Chunk([], [])
        for record in records:
            try:
                rows, time_ns = self._rows(source, record)
            except Poison as poison:
                letters.append(DeadLetter(record.offset, poison.kind, record.value if self.dlq_payload else None))
                chunk.dead.append(record.offset)
                chunk.size += 24
            except LeftOut as left:
                self.left_out[left.kind] += 1
            else:
                size = sum(map(len, rows)) + len(rows)  # with a comma behind each; behind the last one there is none
                if chunk.rows and chunk.size + size - 1 + OVERHEAD > self.limit:
                    yield chunk
                    chunk = Chunk([], [])
                chunk.rows += map(msgspec.Raw, rows)  # of one record in one delta: the next begins behind its offset
                chunk.size += size
                chunk.several = chunk.several or len(rows) > 1
                chunk.watermark = time_ns if chunk.watermark is None else max(chunk.watermark, time_ns)
            chunk.last = record.offset
        if chunk.last >= 0:
            yield chunk

    def _rows(self, source: str, record: SourceRecord) -> tuple[list[bytes], int]:
        """The encoded rows of a record, and the greatest of their times."""
        if self.formats is None:
            row, time_ns = self._row(record, self.decode(record.value, record.headers))
            return [row], time_ns
        message = Message(source, record.key, record.value, record.headers, record.timestamp_ms)
        made = [self._row(record, event) for event in self.formats.events(message)]
        if sum(len(row) + 1 for row, _ in made) - 1 + OVERHEAD > self.limit:
            raise Poison("too_large")
        return [row for row, _ in made], max(time_ns for _, time_ns in made)

    def _row(self, record: SourceRecord, event: SourceEvent) -> tuple[bytes, int]:
        if event.time_ns not in TIMES:
            raise Poison("time")  # no decoder gives one; in a delta it would stay for ever
        if event.time_ns > record.clock_ns + self.max_skew_ns:
            raise Poison("future")
        if self.earliest is not None and event.time_ns < self.earliest:
            raise Poison("past")
        event_id = None if event.event_id is None else self.pseudonyms.event(event.event_id)
        row = Row(
            offset=record.offset,
            case=self.case(event.case),
            activity=event.activity,
            time_ns=event.time_ns,
            resource=None if event.resource is None else self.named(event.resource),
            attributes=self.attributes(event.attributes),
            event_id=event_id,
            end=event.end,
        )
        encoded = msgspec.json.encode(row)
        if len(encoded) + OVERHEAD > self.limit:
            raise Poison("too_large")
        return encoded, event.time_ns

    def case(self, case: str) -> str:
        """The pseudonym of a case."""
        if case not in self._cases:
            if len(self._cases) >= MOST_NAMES:
                self._cases.clear()
            self._cases[case] = self.pseudonyms.case(case)
        return self._cases[case]

    def attributes(self, attributes: Attributes | None) -> Attributes | None:
        """The attributes of a row: the person of a case by pseudonym."""
        return attributes if self.person is None else with_person(attributes, self.person, self.pseudonyms.person)

    def named(self, resource: str) -> str:
        """The pseudonym of a resource, or its name where names are kept."""
        if self.raw_resources:
            return resource
        if resource not in self._names:
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            self._names[resource] = self.pseudonyms.resource(resource)
        return self._names[resource]

    def encode(self, source: str, partition: int, prev: int, chunk: Chunk, log: LogState) -> bytes:
        delta = Delta(
            v=SEVERAL_VERSION if chunk.several else VERSION,
            src=source,
            p=partition,
            prev=prev,
            last=chunk.last,
            n=len(chunk.rows),
            dlq=chunk.dead,
            wm=chunk.watermark,
            key=self.pseudonyms.id,
            named=not self.raw_resources,
            several=chunk.several,
            rows=chunk.rows,  # encoded already, as `msgspec.Raw`: it is written as it stands
            log=log.log,
            epoch=log.epoch,
            epochs=log.epochs,
            end=log.end,
        )
        return msgspec.json.encode(delta)
