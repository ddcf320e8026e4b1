"""Ingest record by record: the first way from source records to deltas, one event at a time.

The program decodes a batch by columns. This is what each batch must give, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from connectors.kafka.events import (
    ENVELOPE_ID,
    Headers,
    LeftOut,
    Poison,
    Schema,
    SourceEvent,
    _struct,
    check_value,
    kept_activity,
)
from connectors.times import ZonelessError, parser
from stream.daemon.deltas import MOST_NAMES, OVERHEAD, UNKNOWN, Clocks, DeadLetter, LogState
from stream.fold.records import SEVERAL_VERSION, TIMES, VERSION, Attributes, Delta, Row, with_person
from stream.values.pseudonym import Pseudonyms
from tests.source_records import Message

SPEC_MAJOR = "1"


class _Envelope(msgspec.Struct):
    specversion: str
    id: str
    data: msgspec.Raw = msgspec.Raw()


def event_decoder(schema: Schema) -> Callable[[bytes | None, Headers], SourceEvent]:
    """Return a function from value and headers to a `SourceEvent`; it raises `Poison` or `LeftOut` and nothing else.

    Fields that the schema does not name are skipped while parsing: they never become objects.
    """
    plain = _plain_decoder(schema)
    envelope = msgspec.json.Decoder(_Envelope)

    def structured(value: bytes) -> SourceEvent:
        try:
            outer = envelope.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Poison(_kind(error)) from None
        _check_version(outer.specversion)
        return plain(bytes(outer.data), outer.id)

    def decode(value: bytes | None, headers: Headers) -> SourceEvent:
        if value is None:
            raise Poison("null_value")
        if schema.format == "json":
            return plain(value, None)
        if headers:
            found = {name: value for name, value in dict(headers).items() if value is not None}
            if "ce_specversion" in found:
                _check_version(found["ce_specversion"].decode("utf-8", "replace"))
                return plain(value, found.get("ce_id", b"").decode("utf-8", "replace") or None)
            if found.get("content-type", b"").startswith(b"application/cloudevents+json"):
                return structured(value)
        if schema.format == "cloudevents" or _looks_structured(value):
            return structured(value)
        return plain(value, None)

    return decode


def _looks_structured(value: bytes) -> bool:
    return b'"specversion"' in value[:512]


def _check_version(version: str) -> None:
    if version.partition(".")[0] != SPEC_MAJOR:
        raise Poison("version")


def _plain_decoder(schema: Schema) -> Callable[[bytes, str | None], SourceEvent]:
    raw: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(schema))
    parse = parser(schema.timezone)
    attributes = _attribute_reader(schema.attributes)
    take_envelope_id = schema.event_id == ENVELOPE_ID
    wanted = schema.lifecycle

    def decode(value: bytes, envelope_id: str | None) -> SourceEvent:
        try:
            read = raw.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Poison(_kind(error)) from None
        if not str(read.case).strip() or read.activity == "":  # blanks name no case
            raise Poison("schema")
        event_id = envelope_id if take_envelope_id else getattr(read, "event_id", None)
        return SourceEvent(
            str(read.case),
            read.activity if wanted is None else kept_activity(wanted, read.activity, read.lifecycle),
            _time(parse, read.time),
            None if read.resource is None else str(read.resource),
            attributes(read),
            None if event_id is None else str(event_id),
            getattr(read, "end", False),
        )

    return decode


def _time(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ZonelessError:
        raise Poison("zoneless_time") from None
    except (ValueError, OverflowError):
        raise Poison("time") from None


def _kind(error: Exception) -> str:
    return "schema" if isinstance(error, msgspec.ValidationError) else "not_json"


def _attribute_reader(names: Iterable[str]) -> Callable[[Any], dict[str, dict[str, Any]] | None]:
    """From a decoded record to {"case": {..}, "event": {..}}, None if it carries no wanted attribute."""
    wanted = list(enumerate(names))

    def read(record: Any) -> dict[str, dict[str, Any]] | None:
        result: dict[str, dict[str, Any]] = {}
        for index, name in wanted:
            for prefix in ("case", "event"):
                value = getattr(record, f"{prefix}_{index}", None)
                if value is not None:
                    if type(value) is not str:
                        check_value(value)
                    result.setdefault(prefix, {})[name] = value
        return result or None

    return read


@dataclass(slots=True)
class _Chunk:
    """The content of one delta; rows are encoded."""

    rows: list[Any]
    dead: list[int]
    size: int = 0
    last: int = -1
    watermark: int | None = None
    several: bool = False


@dataclass(frozen=True, slots=True)
class RecordWriter:
    """Turns source records into delta records of one process. Stateless: `prev` is the caller's."""

    decode: Callable[[bytes | None, Headers], SourceEvent]
    pseudonyms: Pseudonyms
    max_skew_ns: int
    limit: int
    dlq_payload: bool = False
    earliest: int | None = None
    """Events before this time (ns) are ignored."""
    raw_resources: bool = False
    person: str | None = None
    """The attribute that names the person of a case: only its pseudonym continues."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that became no event by the configuration, by kind: counted, since nothing else shows them.
    """
    _names: dict[str, str] = field(default_factory=dict)
    _cases: dict[str, str] = field(default_factory=dict)

    def write(
        self,
        source: str,
        partition: int,
        prev: int,
        records: Sequence[Message],
        clocks: Clocks,
        log: LogState = UNKNOWN,
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """Delta records in order, and the dead letters among `records` (one partition, ascending offsets, one leader
        epoch). The fields of `log` other than id and epoch are in the first one."""
        letters: list[DeadLetter] = []
        encoded = []
        for chunk in self._chunks(records, clocks, letters):
            encoded.append(self.encode(source, partition, prev, chunk, log))
            prev, log = chunk.last, LogState(log.log, log.epoch)
        return encoded, letters

    def _chunks(self, records: Sequence[Message], clocks: Clocks, letters: list[DeadLetter]) -> Iterator[_Chunk]:
        chunk = _Chunk([], [])
        for place, record in enumerate(records):
            clock = clocks if isinstance(clocks, int) else clocks[place]
            try:
                row, time_ns = self._row(record, self.decode(record.value, record.headers), clock)
                rows = [row]
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
                    chunk = _Chunk([], [])
                chunk.rows += map(msgspec.Raw, rows)  # of one record in one delta: the next begins behind its offset
                chunk.size += size
                chunk.several = chunk.several or len(rows) > 1
                chunk.watermark = time_ns if chunk.watermark is None else max(chunk.watermark, time_ns)
            chunk.last = record.offset
        if chunk.last >= 0:
            yield chunk

    def _row(self, record: Message, event: SourceEvent, clock: int) -> tuple[bytes, int]:
        if event.time_ns not in TIMES:
            raise Poison("time")  # no decoder gives one; in a delta it would stay forever
        if event.time_ns > clock + self.max_skew_ns:
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

    def encode(self, source: str, partition: int, prev: int, chunk: _Chunk, log: LogState) -> bytes:
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
            rows=chunk.rows,  # encoded already, as `msgspec.Raw`: it is written as it is
            log=log.log,
            epoch=log.epoch,
            epochs=log.epochs,
            end=log.end,
        )
        return msgspec.json.encode(delta)
