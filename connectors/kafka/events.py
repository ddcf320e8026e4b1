"""The schema of source events: JSON with XES names (or mapped ones), plain or in a CloudEvents envelope.

A record becomes an `SourceEvent` or a `Poison`: a class of error without a word of the record's content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from connectors.columns import CASE_PREFIX, ColumnNames
from connectors.lifecycle import Lifecycle, activity_of
from connectors.times import ZonelessError, parser
from models.content_free import content_free
from models.errors import InputError

SPEC_MAJOR: Final = "1"
"""Of CloudEvents: another major version means another envelope, and guessing would misread people's events."""

ENVELOPE_ID: Final = "ce:id"
"""In `source.event_id`: the id of the CloudEvent, in place of a field of its data."""

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None
"""As the client gives them. Kafka allows a header without a value; it counts as absent here."""


@content_free("end")
class SourceEvent(NamedTuple):
    """One event, as decoded: nothing pseudonymized yet. `attributes` as in a delta row."""

    case: str
    activity: str
    time_ns: int
    resource: str | None
    attributes: dict[str, dict[str, Any]] | None
    event_id: str | None
    end: bool


class Poison(Exception):  # noqa: N818 - the field's word for such a record, and it is no failure of ours
    """A record that is no event. `kind` is bounded: it is a metric's label and stands in the dlq."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


POISONS: Final = (
    "null_value",
    "not_json",
    "schema",
    "time",
    "zoneless_time",
    "future",
    "past",
    "version",
    "too_large",
    "no_schema_id",
    "unknown_schema",
    "bad_schema",
    "schema_type",
    "message_index",
    "body",
    "invalid",
    "envelope",
    "no_before",
    "mapping",
)


class LeftOut(Exception):  # noqa: N818 - no failure either: the configuration says that such a record is no event
    """A sound record that becomes no event. `kind` is one of `LEFT_OUT`: a metric's label."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


LEFT_OUT: Final = ("lifecycle", "tombstone", "snapshot", "no_mapping", "unchanged")


@content_free("topic")
class Message(NamedTuple):
    """A record of a source topic as the client gives it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = None
    timestamp_ms: int | None = None


@content_free("specversion")
class _Envelope(msgspec.Struct):
    specversion: str
    id: str
    data: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True, slots=True)
class Schema:
    """What to read of an event; compiled once by `decoder`."""

    names: ColumnNames = field(default_factory=ColumnNames)
    attributes: tuple[str, ...] = ()
    timezone: str | None = None
    event_id: str | None = None
    end: str | None = None
    format: str = "auto"
    time_unit: str | None = None
    """Of times that are numbers; texts need none. Formats of a registry, and JSON by mappings."""
    lifecycle: Lifecycle | None = None
    """Which transitions become events; None: all, as events of the same name."""


def decoder(schema: Schema) -> Callable[[bytes | None, Headers], SourceEvent]:
    """A function from value and headers to an `SourceEvent`; it raises `Poison` or `LeftOut` and nothing else.

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
            read.activity if wanted is None else kept(wanted, read.activity, read.lifecycle),
            _time(parse, read.time),
            None if read.resource is None else str(read.resource),
            attributes(read),
            None if event_id is None else str(event_id),
            getattr(read, "end", False),
        )

    return decode


def kept(lifecycle: Lifecycle, activity: str, transition: str | None) -> str:
    """The activity under which an event of this transition counts; LeftOut where it does not."""
    name = activity_of(lifecycle, activity, transition)
    if name is None:
        raise LeftOut("lifecycle")
    return name


def _time(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ZonelessError:
        raise Poison("zoneless_time") from None
    except (ValueError, OverflowError):
        raise Poison("time") from None


def _kind(error: Exception) -> str:
    return "schema" if isinstance(error, msgspec.ValidationError) else "not_json"


def _struct(schema: Schema) -> type[msgspec.Struct]:
    """The JSON object as a struct: columns, wanted attributes (both as `X` and as `case:X`), nothing else."""
    text = str | int
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("case", text),
        ("activity", str),
        ("time", str),
        ("resource", text | None, None),
    ]
    names = schema.names
    rename = {"case": names.case, "activity": names.activity, "time": names.time, "resource": names.resource}
    if schema.event_id not in (None, ENVELOPE_ID):
        fields.append(("event_id", text | None, None))
        rename["event_id"] = str(schema.event_id)
    if schema.end is not None:
        fields.append(("end", bool, False))
        rename["end"] = schema.end
    if schema.lifecycle is not None:
        fields.append(("lifecycle", str | None, None))
        rename["lifecycle"] = names.lifecycle
    for index, name in enumerate(schema.attributes):
        for prefix, column in (("case", CASE_PREFIX + name), ("event", name)):
            if column not in rename.values():
                fields.append((f"{prefix}_{index}", Any, None))
                rename[f"{prefix}_{index}"] = column
    _refuse_twice(rename)
    return msgspec.defstruct("SourceEvent", fields, rename=rename)


def _refuse_twice(rename: Mapping[str, str]) -> None:
    columns = list(rename.values())
    for column in columns:
        if columns.count(column) > 1:
            raise InputError(f"source: field {column!r} is asked to play two parts")


DEEPEST: Final = 32
"""Levels of lists and objects in a value. A reader's own limit depends on how deep its stack stands then: what ingest
could just read, the coordinator might not."""

_INT64 = range(-(1 << 63), 1 << 63)


def check_value(value: Any, depth: int = 0) -> None:
    """Poison for a value that a file or a checkpoint cannot hold: an integer beyond 64 bits, or too deep."""
    if isinstance(value, int):
        if value not in _INT64:
            raise Poison("schema")
    elif isinstance(value, list | dict):
        if depth == DEEPEST:
            raise Poison("schema")
        for part in value.values() if isinstance(value, dict) else value:
            check_value(part, depth + 1)


def _attribute_reader(names: Iterable[str]) -> Callable[[Any], dict[str, dict[str, Any]] | None]:
    """From a decoded record to {"case": {..}, "event": {..}}, None where it carries no wanted attribute."""
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
