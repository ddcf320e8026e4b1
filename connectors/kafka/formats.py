"""From a record of a source topic to its events, whatever its format: bytes to a value, and a value to events.

Pure but for `prepare`, which asks the schema registry. JSON and CloudEvents without mappings go by
`connectors.kafka.events.decoder`, which never makes an object of what nobody needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from connectors.columns import CASE_PREFIX
from connectors.kafka import avro, json_schema, protobuf
from connectors.kafka.events import ENVELOPE_ID, LeftOut, Message, Poison, Schema, SourceEvent, kept
from connectors.kafka.mapping import (
    CompiledMappings,
    EventMapping,
    attribute_of,
    key_of,
    name_of,
    optional_name,
    rules,
    time_of,
)
from connectors.kafka.paths import ABSENT, find
from connectors.kafka.registry import RegistryOptions, Schemas, SchemaType, json_text, needs
from connectors.times import parser
from models.errors import InputError, UnavailableError

Format = Literal["auto", "json", "cloudevents", "avro", "protobuf", "json-schema", "debezium"]

TYPES: Final[Mapping[str, SchemaType]] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""The type of schema that each format of a registry stands for."""

_MODULES: Final[Mapping[SchemaType, tuple[str, ...]]] = {
    "AVRO": ("fastavro",),
    "PROTOBUF": ("google.protobuf", "grpc_tools"),
    "JSON": ("jsonschema",),
}


class Prepare(Protocol):
    """Asks the registry for what records need; `answered` is called at each answer."""

    def __call__(self, messages: Iterable[Message], answered: Callable[[], None] = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Formats:
    """How the records of a source become events. `prepare` asks the registry for what records need, and raises
    UnavailableError while it does not answer; None: nothing to ask. `events` then never waits: it gives the events of
    one record, and raises Poison or LeftOut."""

    events: Callable[[Message], list[SourceEvent]]
    prepare: Prepare | None = None


def _nothing() -> None:
    pass


def formats(
    schema: Schema,
    *,
    registry: RegistryOptions | None = None,
    mappings: tuple[EventMapping, ...] = (),
    snapshots: bool = False,
    reader_schema: Path | None = None,
) -> Formats | None:
    """The way from records to events; None where `events.decoder` serves. InputError where a library or a file is
    missing."""
    if registry is None and not mappings and schema.time_unit is None:
        return None
    changes = schema.format == "debezium"
    make = _mapped(schema, mappings, changes, snapshots) if mappings else _by_columns(schema)
    if registry is None:
        return Formats(_guarded(lambda message: make(message, _json(message), partial(key_of, message.key))))
    schemas = Schemas(registry.client(), _compilers(schema.format, reader_schema), registry.url)
    uses_key = "@key" in repr(mappings)

    def prepare(messages: Iterable[Message], answered: Callable[[], None] = _nothing) -> None:
        parts = (part for one in messages for part in ((one.value, one.key) if uses_key else (one.value,)))
        schemas.fetch(parts, answered)

    def key(message: Message) -> Any:
        try:
            return key_of(message.key) if message.key is None else schemas.read(message.key)
        except Poison:
            return key_of(message.key)  # a key of its own format, as the outbox router writes it

    return Formats(_guarded(lambda message: make(message, _framed(schemas, message), partial(key, message))), prepare)


def _guarded(events: Callable[[Message], list[SourceEvent]]) -> Callable[[Message], list[SourceEvent]]:
    """The same, with a reason for whatever else a record brings about: a value deeper than the stack, a number with
    more digits than Python writes. One such record must not end the worker at each start."""

    def guarded(message: Message) -> list[SourceEvent]:
        try:
            return events(message)
        except (Poison, LeftOut, UnavailableError, MemoryError):
            raise
        except Exception:  # noqa: BLE001
            raise Poison("schema") from None

    return guarded


Make = Callable[[Message, Any, Callable[[], Any]], list[SourceEvent]]


def _compilers(wanted: str, reader_schema: Path | None) -> dict[SchemaType, Any]:
    """What compiles the schemas that this format may meet; a table change comes in any of them."""
    chosen = (TYPES[wanted],) if wanted in TYPES else tuple(TYPES.values())
    for kind in chosen:
        for module in _MODULES[kind]:
            needs(module, f'source.format = "{wanted}"')
    reader = None if reader_schema is None else json_text(reader_schema)
    if reader is not None and not avro.is_schema(reader):
        raise InputError(f"source.reader_schema: {reader_schema} is no Avro schema")
    every: dict[SchemaType, Any] = {
        "AVRO": partial(avro.compiled, reader=reader),
        "PROTOBUF": protobuf.compiled,
        "JSON": json_schema.compiled,
    }
    return {kind: every[kind] for kind in chosen}


_parse_json = msgspec.json.Decoder().decode


def _json(message: Message) -> Any:
    """The value of a JSON record; ABSENT for a tombstone."""
    if message.value is None:
        return ABSENT
    try:
        return _parse_json(message.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Poison("not_json") from None


def _framed(schemas: Schemas, message: Message) -> Any:
    return ABSENT if message.value is None else schemas.read(message.value)


def _mapped(schema: Schema, mappings: tuple[EventMapping, ...], changes: bool, snapshots: bool) -> Make:
    compiled: CompiledMappings = rules(
        mappings, parser(schema.timezone), schema.time_unit, changes=changes, snapshots=snapshots
    )

    def make(message: Message, body: Any, key: Callable[[], Any]) -> list[SourceEvent]:
        if body is ABSENT:
            if changes:
                raise LeftOut("tombstone")
            raise Poison("null_value")
        return compiled.events(message, body, key)

    return make


def _by_columns(schema: Schema) -> Make:
    """One event of a record, whose parts stand under the names of `process.columns`; dots reach into records."""
    names, parse = schema.names, parser(schema.timezone)

    def make(message: Message, body: Any, _key: Callable[[], Any]) -> list[SourceEvent]:
        if body is ABSENT:
            raise Poison("null_value")
        activity = optional_name(find(body, names.activity))
        if not activity:
            raise Poison("schema")
        if schema.lifecycle is not None:
            activity = kept(schema.lifecycle, activity, optional_name(find(body, names.lifecycle)))
        time = find(body, names.time)
        if time is ABSENT or time is None:
            raise Poison("schema")
        event = SourceEvent(
            name_of(find(body, names.case)),
            activity,
            time_of(time, parse, schema.time_unit),
            optional_name(find(body, names.resource)),
            _attributes(body, schema.attributes),
            _event_id(schema, message, body),
            _end(schema, body),
        )
        return [event]

    return make


def _attributes(body: Any, wanted: Iterable[str]) -> dict[str, dict[str, Any]] | None:
    result: dict[str, dict[str, Any]] = {}
    for name in wanted:
        for level, column in (("case", CASE_PREFIX + name), ("event", name)):
            value = attribute_of(find(body, column))
            if value is not None:
                result.setdefault(level, {})[name] = value
    return result or None


def _event_id(schema: Schema, message: Message, body: Any) -> str | None:
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
