"""Choose the decoder of a source: JSON by columns, a format of a schema registry, or records by mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from connectors.columns import CASE_PREFIX
from connectors.kafka import avro, json_schema, protobuf
from connectors.kafka.events import (
    ENVELOPE_ID,
    Decode,
    JsonDecoder,
    LeftOut,
    Poison,
    Schema,
    SourceEvent,
    SourceMessage,
    decode_one_by_one,
    kept_activity,
)
from connectors.kafka.mapping import (
    CompiledMappings,
    EventMapping,
    attribute_of,
    case_name,
    compile_mappings,
    decode_key,
    optional_name,
    time_of,
)
from connectors.kafka.paths import ABSENT, find
from connectors.kafka.registry import RegistryOptions, Schemas, SchemaType, json_text, require_library
from connectors.times import parser
from models.errors import InputError, UnavailableError

Format = Literal["auto", "json", "cloudevents", "avro", "protobuf", "json-schema", "debezium"]

TYPES: Final[Mapping[str, SchemaType]] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""Format of a source -> the registry's name of its type of schema."""

_MODULES: Final[Mapping[SchemaType, tuple[str, ...]]] = {
    "AVRO": ("fastavro",),
    "PROTOBUF": ("google.protobuf", "grpc_tools"),
    "JSON": ("jsonschema",),
}


class Prepare(Protocol):
    """Ask the registry for the schemas of records; `answered` is called at each answer."""

    def __call__(self, messages: Iterable[SourceMessage], answered: Callable[[], None] = ...) -> None:
        """Fetch what is not known yet."""


@dataclass(frozen=True, slots=True)
class EventDecoder:
    """The way from the records of a source to its events.

    Parameters
    ----------
    decode
        Decodes a batch of records and never waits.
    prepare
        Requests the schemas of a batch from the registry, before it is decoded. It raises UnavailableError while the
        registry does not answer. None: there is nothing to ask.
    """

    decode: Decode
    prepare: Prepare | None = None


def _ignore_answer() -> None:
    pass


def event_decoder(
    schema: Schema,
    *,
    registry: RegistryOptions | None = None,
    mappings: tuple[EventMapping, ...] = (),
    snapshots: bool = False,
    reader_schema: Path | None = None,
) -> EventDecoder:
    """Make the decoder of a source.

    Parameters
    ----------
    schema
        The fields of an event and the format of the records.
    registry
        Options of the schema registry, for records in its wire format.
    mappings
        Rules from records to events; without them a record is one event, read by the names of the schema.
    snapshots
        Debezium: whether rows of a snapshot become events.
    reader_schema
        Avro: the file of the reader's schema.

    Raises
    ------
    InputError
        If a library or a file is missing, or the schema reads one field as two things.
    """
    plain = JsonDecoder(schema)  # made for every format: it refuses a field that plays two parts
    if registry is None and not mappings and schema.time_unit is None:
        return EventDecoder(plain.decode)
    changes = schema.format == "debezium"
    make_events = _by_mappings(schema, mappings, changes, snapshots) if mappings else _by_columns(schema)
    if registry is None:
        return EventDecoder(
            _guarded(lambda message: make_events(message, _json(message), partial(decode_key, message.key)))
        )
    schemas = Schemas(registry.client(), _compilers(schema.format, reader_schema), registry.url)
    uses_key = "@key" in repr(mappings)

    def prepare(messages: Iterable[SourceMessage], answered: Callable[[], None] = _ignore_answer) -> None:
        framed: list[bytes | None] = []
        for message in messages:
            framed.append(message.value)
            if uses_key:
                framed.append(message.key)
        schemas.fetch(framed, answered)

    def key_of(message: SourceMessage) -> Any:
        if message.key is None:
            return None
        try:
            return schemas.read(message.key)
        except Poison:
            return decode_key(message.key)  # a key of its own format, as the outbox router writes it

    def events_of(message: SourceMessage) -> list[SourceEvent]:
        body = ABSENT if message.value is None else schemas.read(message.value)
        return make_events(message, body, partial(key_of, message))

    return EventDecoder(_guarded(events_of), prepare)


def _guarded(events_of: Callable[[SourceMessage], Sequence[SourceEvent]]) -> Decode:
    """Refuse a record that causes any other error, such as a value deeper than the stack.

    One such record must not end the worker at each start.
    """

    def guarded(message: SourceMessage) -> Sequence[SourceEvent]:
        try:
            return events_of(message)
        except (Poison, LeftOut, UnavailableError, MemoryError):
            raise
        except Exception:  # noqa: BLE001
            raise Poison("schema") from None

    return decode_one_by_one(guarded)


MakeEvents = Callable[[SourceMessage, Any, Callable[[], Any]], list[SourceEvent]]
"""From a record, its decoded value and a function that decodes its key, to its events."""


def _compilers(source_format: str, reader_schema: Path | None) -> dict[SchemaType, Any]:
    """Choose the compilers of the schemas that a format may meet; a table change comes in any of them."""
    chosen = (TYPES[source_format],) if source_format in TYPES else tuple(TYPES.values())
    for kind in chosen:
        for module in _MODULES[kind]:
            require_library(module, f'source.format = "{source_format}"')
    reader = None if reader_schema is None else json_text(reader_schema)
    if reader is not None and not avro.is_schema(reader):
        raise InputError(f"source.reader_schema: {reader_schema} is not an Avro schema")
    every: dict[SchemaType, Any] = {
        "AVRO": partial(avro.compiled, reader=reader),
        "PROTOBUF": protobuf.compiled,
        "JSON": json_schema.compiled,
    }
    return {kind: every[kind] for kind in chosen}


_parse_json = msgspec.json.Decoder().decode


def _json(message: SourceMessage) -> Any:
    """Decode the value of a JSON record; ABSENT for a tombstone."""
    if message.value is None:
        return ABSENT
    try:
        return _parse_json(message.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Poison("not_json") from None


def _by_mappings(
    schema: Schema,
    mappings: tuple[EventMapping, ...],
    changes: bool,
    snapshots: bool,
) -> MakeEvents:
    compiled: CompiledMappings = compile_mappings(
        mappings, parser(schema.timezone), schema.time_unit, changes=changes, snapshots=snapshots
    )

    def make(message: SourceMessage, body: Any, key: Callable[[], Any]) -> list[SourceEvent]:
        if body is ABSENT:
            if changes:
                raise LeftOut("tombstone")
            raise Poison("null_value")
        return compiled.events(message, body, key)

    return make


def _by_columns(schema: Schema) -> MakeEvents:
    """Make one event of a record, by the names of `process.columns`; dots in a name reach into records."""
    names, parse = schema.names, parser(schema.timezone)

    def make(message: SourceMessage, body: Any, _key: Callable[[], Any]) -> list[SourceEvent]:
        if body is ABSENT:
            raise Poison("null_value")
        activity = optional_name(find(body, names.activity))
        if not activity:
            raise Poison("schema")
        if schema.lifecycle is not None:
            activity = kept_activity(schema.lifecycle, activity, optional_name(find(body, names.lifecycle)))
        time = find(body, names.time)
        if time is ABSENT or time is None:
            raise Poison("schema")
        event = SourceEvent(
            case_name(find(body, names.case)),
            activity,
            time_of(time, parse, schema.time_unit),
            optional_name(find(body, names.resource)),
            _attributes(body, schema.attributes),
            _event_id(schema, message, body),
            _end(schema, body),
        )
        return [event]

    return make


def _attributes(body: Any, names: Iterable[str]) -> dict[str, dict[str, Any]] | None:
    result: dict[str, dict[str, Any]] = {}
    for name in names:
        for level, column in (("case", CASE_PREFIX + name), ("event", name)):
            value = attribute_of(find(body, column))
            if value is not None:
                result.setdefault(level, {})[name] = value
    return result or None


def _event_id(schema: Schema, message: SourceMessage, body: Any) -> str | None:
    if schema.event_id is None:
        return None
    if schema.event_id == ENVELOPE_ID:
        value = dict(message.headers or ()).get("ce_id")
        return None if value is None else value.decode("utf-8", "replace")
    return optional_name(find(body, schema.event_id))


def _end(schema: Schema, body: Any) -> bool:
    if schema.end is None:
        return False
    value = find(body, schema.end)
    if value is ABSENT or value is None:
        return False
    if not isinstance(value, bool):
        raise Poison("schema")
    return value
