"""`[[source.mapping]]`: rules from records (table changes, or anything that a path reaches) to events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from connectors.columns import CASE_PREFIX
from connectors.kafka import debezium
from connectors.kafka.events import LeftOut, Poison, SourceEvent, SourceMessage, check_value
from connectors.kafka.paths import ABSENT, Template, as_text, find, getter, json_value, nanoseconds, unit_of
from connectors.times import ZonelessError
from models.content_free import content_free
from models.errors import InputError

Op = Literal["c", "u", "d", "r", "t", "m"]
Scalar = str | int | float | bool
Unit = Literal["s", "ms", "us", "ns"]

_ROWS: Final = ("c", "u", "d", "r")
_CHANGES: Final = ("c", "u", "r")
"""Operations by default; where columns are named, a deleted row has none that changed."""

_TIMES: Final = ("source.ts_ns", "source.ts_us", "source.ts_ms", "ts_ms")
"""Fields of Debezium with the time of the change, the finest first."""


class EventMapping(BaseModel):
    """One kind of event. All mappings that match a record make an event each (`column`: one for each that changed)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: tuple[str, ...] = ()
    """Only records of these topics; all by default. Set it when several source topics need different mappings."""
    table: tuple[str, ...] = ()
    """Debezium: only changes of these tables, as `orders`, `public.orders`, `shop.orders` or `shop.public.orders`. Set
    it when a topic carries changes of several tables."""
    op: tuple[Op, ...] = ()
    """Debezium: only these operations (c create, u update, d delete, r snapshot, t truncate, m message). By default c,
    u, d and r; with `column` c, u and r. Set it when only the creation or the deletion of a row is an event."""
    column: tuple[str, ...] = ()
    """Debezium: an event for each of these columns that the change gave another value. Set it when a status column
    says which step was done."""
    where: dict[str, Scalar | tuple[Scalar, ...]] = {}
    """Only records that have these values at these paths (one of them, where a list is given). Set it when a topic
    also carries records that are not events, such as drafts."""
    activity: str = Field(min_length=1)
    """A text with paths in braces: `{table}.{column} set to {value}`. Every value that you put here appears in
    released activities. Choose paths with few values that reveal nothing about a person."""
    case: str = Field(min_length=1)
    """Path, or a text with paths in braces. Debezium: `row.order_id`, the row after the change, or before a delete.
    Choose what all events of one course have in common, such as an order number."""
    time: str | None = Field(default=None, min_length=1)
    """Path. Debezium: when the database changed (`source.ts_ns`, `ts_us` or `ts_ms`) by default. Set it when the row
    itself says when a step was done, and for every format but debezium."""
    time_unit: Unit | None = None
    """Unit of a time that is a number; `source.time_unit` by default, and by name at Debezium's `ts_ms` and its like.
    Set it when mappings read numbers of different units."""
    resource: str | None = Field(default=None, min_length=1)
    """Path, or a text with paths in braces. Set it when records say which employee or machine did a step, and a
    publication counts resources."""
    attributes: dict[str, str] = {}
    """Attribute to path; `case:X` is an attribute of the case. Set it when attributes with a role are nested in the
    record: each of them needs a path."""
    event_id: str | None = Field(default=None, min_length=1)
    """Path of the name of the event, by which a repeat is dropped. Debezium: the place in the database's log by
    default. Set it when producers of another format may send a record twice."""
    end: bool = False
    """The event ends its case. Set it when a certain record, such as the deletion of a row, is the last one of a
    case."""

    @field_validator("topic", "table", "op", "column", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _templates(self) -> Self:
        for name in ("activity", "case", "resource"):
            try:
                Template.parse(getattr(self, name) or "")
            except InputError as error:
                raise ValueError(f"{name}: {error}") from None
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The paths whose values become part of activities; words about the change are the database's own."""
        paths = Template.parse(self.activity).paths
        return tuple(path for path in dict.fromkeys(paths) if path not in ("table", "op", "operation", "column"))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it gives, without their level."""
        return tuple(name.removeprefix(CASE_PREFIX) for name in self.attributes)


@content_free()
class MappedRecord(NamedTuple):
    """A record as mappings see it: its decoded value, and the change if it is one.

    Attributes
    ----------
    message
        The record as it was consumed.
    body
        Its decoded value; of a change, the envelope.
    change
        The change, if the source has changes.
    key
        Decodes the key when it is needed.
    """

    message: SourceMessage
    body: Any
    change: debezium.RowChange | None
    key: Callable[[], Any]

    def get(self, path: str, column: str | None = None) -> Any:
        """Return the value at a path: of the record, of its message, or a word about the change.

        Paths of the message are `@key`, `@header.X`, `@topic` and `@timestamp`; words about a change are `table`, `op`,
        `operation`, `column`, `value` and `row...`.

        Parameters
        ----------
        path
            The path, or a word.
        column
            Column of the row that the mapping is about, for `column` and `value`.

        Returns
        -------
        Any
            `ABSENT` if there is no value.
        """
        if path.startswith("@"):
            return self._about(path[1:])
        if self.change is not None:
            if path in _WORDS:
                return _WORDS[path](self.change, column)
            if path.startswith("row."):
                return find(self.change.row, path[4:])
        return find(self.body, path)

    def _about(self, path: str) -> Any:
        root, _, path_below = path.partition(".")
        if root == "header":
            value = dict(self.message.headers or ()).get(path_below)
            return ABSENT if value is None else value.decode("utf-8", "replace")
        if root == "key":
            value = self.key()
            if value is None:
                return ABSENT
            return find(value, path_below) if path_below else value
        if path == "topic":
            return self.message.topic
        if path == "timestamp" and self.message.timestamp is not None:
            return self.message.timestamp
        return ABSENT


_WORDS: Final[Mapping[str, Callable[[debezium.RowChange, str | None], Any]]] = {
    "table": lambda change, _: change.table if change.table is not None else ABSENT,
    "op": lambda change, _: change.op,
    "operation": lambda change, _: debezium.OPERATIONS[change.op],
    "column": lambda _, column: ABSENT if column is None else column,
    "value": lambda change, column: ABSENT if column is None else change.value(column),
}


def decode_key(key: bytes | None) -> Any:
    """Decode the key of a record: JSON if it is JSON (of Connect's wrapper the payload), else text.

    Parameters
    ----------
    key
        Bytes of the key.
    """
    if key is None:
        return None
    try:
        value = msgspec.json.decode(key)
    except (ValueError, RecursionError):
        return key.decode("utf-8", "replace")
    if isinstance(value, dict) and set(value) == {"schema", "payload"}:
        value = value["payload"]
    return value if isinstance(value, str | dict) else key.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class CompiledMappings:
    """The mappings of a source, compiled by `compile_mappings`.

    Attributes
    ----------
    compiled
        The rules, in the order of the configuration.
    changes
        Whether records are change events.
    snapshots
        Whether the rows of a snapshot count.
    """

    compiled: tuple[_Rule, ...]
    changes: bool
    snapshots: bool

    def events(self, message: SourceMessage, body: Any, key: Callable[[], Any]) -> list[SourceEvent]:
        """Return the events of a decoded record.

        Parameters
        ----------
        message
            The record as it was consumed.
        body
            Its decoded value.
        key
            Decodes its key when a mapping needs it.

        Raises
        ------
        LeftOut
            If no mapping makes an event of it.
        Poison
            If an event cannot be made.
        """
        if isinstance(body, str):
            body = _unquoted(body)
        change = debezium.change(body) if self.changes else None
        if change is not None and change.op == "r" and not self.snapshots:
            raise LeftOut("snapshot")
        record = MappedRecord(message, body if change is None else change.body, change, key)
        matching = [rule for rule in self.compiled if rule.matches(record)]
        if not matching:
            raise LeftOut("no_mapping")
        events = [event for rule in matching for event in rule.events(record)]
        # Mappings of columns make no event of a change that leaves these columns as they were.
        if not events:
            raise LeftOut("unchanged")
        return events


def _unquoted(text: str) -> Any:
    """Decode a JSON text whose whole is a JSON text: the payload of the outbox event router."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise Poison("schema") from None


@dataclass(frozen=True, slots=True)
class _Rule:
    digest: str
    """Distinguishes its events from those that other mappings create from the same record."""
    mapping: EventMapping
    parse: Callable[[str], int]
    unit: str | None
    activity: Callable[[Callable[[str], Any]], Any]
    case: Callable[[Callable[[str], Any]], Any]
    resource: Callable[[Callable[[str], Any]], Any] | None

    def matches(self, record: MappedRecord) -> bool:
        mapping, change = self.mapping, record.change
        if mapping.topic and record.message.topic not in mapping.topic:
            return False
        if change is not None and not self._takes(change):
            return False
        return all(_is_one(record.get(path), value) for path, value in mapping.where.items())

    def _takes(self, change: debezium.RowChange) -> bool:
        mapping = self.mapping
        if mapping.table and not set(mapping.table) & set(change.tables):
            return False
        return change.op in (mapping.op or (_CHANGES if mapping.column else _ROWS))

    def events(self, record: MappedRecord) -> Iterator[SourceEvent]:
        if not self.mapping.column or record.change is None:
            yield self._event(record, None)
            return
        for column in self.mapping.column:
            if record.change.changed(column):
                yield self._event(record, column)

    def _event(self, record: MappedRecord, column: str | None) -> SourceEvent:
        def get(path: str) -> Any:
            return record.get(path, column)

        activity = self.activity(get)
        if activity is ABSENT or not activity:
            raise Poison("mapping")
        return SourceEvent(
            case_name(self.case(get)),
            activity,
            self._time(get),
            None if self.resource is None else optional_name(self.resource(get)),
            self._attributes(get),
            self._event_id(record, get, column),
            self.mapping.end,
        )

    def _time(self, get: Callable[[str], Any]) -> int:
        paths = _TIMES if self.mapping.time is None else (self.mapping.time,)
        for path in paths:
            value = get(path)
            if value is not ABSENT and value is not None:
                return time_of(value, self.parse, self._unit_at(path))
        raise Poison("time")

    def _unit_at(self, path: str) -> str | None:
        if self.mapping.time_unit is not None:
            return self.mapping.time_unit
        return unit_of(path) or self.unit

    def _attributes(self, get: Callable[[str], Any]) -> dict[str, dict[str, Any]] | None:
        result: dict[str, dict[str, Any]] = {}
        for name, path in self.mapping.attributes.items():
            value = attribute_of(get(path))
            if value is not None:
                level = "case" if name.startswith(CASE_PREFIX) else "event"
                result.setdefault(level, {})[name.removeprefix(CASE_PREFIX)] = value
        return result or None

    def _event_id(self, record: MappedRecord, get: Callable[[str], Any], column: str | None) -> str | None:
        """Return an id that a repeat of the event has again.

        Events of one record are different events: the id of each contains its mapping and its column.
        """
        if self.mapping.event_id is not None:
            base = optional_name(get(self.mapping.event_id))
        else:
            base = None if record.change is None else record.change.position()
        if base is None:
            return None
        return "\x1f".join((base, self.digest, column or ""))


def compile_mappings(
    mappings: Sequence[EventMapping],
    parse: Callable[[str], int],
    unit: str | None,
    *,
    changes: bool,
    snapshots: bool,
) -> CompiledMappings:
    """Compile mappings.

    Parameters
    ----------
    mappings
        In the order of the configuration.
    parse
        Parses times that are text.
    unit
        Unit of times that are numbers, if the mapping has none.
    changes
        Whether records are table changes of Debezium.
    snapshots
        Whether rows of a snapshot become events.
    """
    rules = []
    for mapping in mappings:
        activity = Template.parse(mapping.activity).fill
        resource = None
        if mapping.resource is not None:
            resource = getter(mapping.resource)
        rules.append(_Rule(_digest(mapping), mapping, parse, unit, activity, getter(mapping.case), resource))
    return CompiledMappings(tuple(rules), changes, snapshots)


def _digest(mapping: EventMapping) -> str:
    """Return a digest of a mapping: two that differ in a condition or a time make two events of one record."""
    body = mapping.model_dump(mode="json", exclude_defaults=True)
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_one(value: Any, choices: Scalar | tuple[Scalar, ...]) -> bool:
    # In Python True equals 1; in a record they are different values.
    is_bool = isinstance(value, bool)
    return any(value == choice and isinstance(choice, bool) == is_bool for choice in _listed(choices))


def _listed(choices: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return choices if isinstance(choices, tuple) else (choices,)


def case_name(value: Any) -> str:
    """Return a case id: a text or a whole number.

    Parameters
    ----------
    value
        The value of the mapped path.

    Raises
    ------
    Poison
        "schema", for anything else; blanks name no case.
    """
    name = optional_name(value)
    if not name or not name.strip():
        raise Poison("schema")
    return name


def optional_name(value: Any) -> str | None:
    """Return a resource or an event id; None if it is absent.

    Parameters
    ----------
    value
        The value of the mapped path.

    Raises
    ------
    Poison
        "schema", for a value that is no name.
    """
    if value is None or value is ABSENT:
        return None
    if isinstance(value, bool | float | list | Mapping):
        raise Poison("schema")
    try:
        return as_text(value)
    except ValueError:
        raise Poison("schema") from None


def time_of(value: Any, parse: Callable[[str], int], unit: str | None) -> int:
    """Return a time in ns since 1970.

    Parameters
    ----------
    value
        The value of the mapped path.
    parse
        Reads the text of a time (`connectors.times.parser`).
    unit
        Unit of numbers: s, ms, us or ns. None: a number is no time.

    Raises
    ------
    Poison
        "time" or "zoneless_time".
    """
    try:
        return nanoseconds(value, parse, unit)
    except ZonelessError:
        raise Poison("zoneless_time") from None
    except (ValueError, OverflowError):
        raise Poison("time") from None


def attribute_of(value: Any) -> Any:
    """Return the value of an attribute as JSON has it; None if it is absent.

    Parameters
    ----------
    value
        The value of the mapped path.

    Raises
    ------
    Poison
        "schema", for a value that no file can hold.
    """
    if value is None or value is ABSENT:
        return None
    try:
        value = json_value(value)
    except (ValueError, OverflowError, RecursionError):
        raise Poison("schema") from None
    check_value(value)
    if isinstance(value, float) and not isfinite(value):
        raise Poison("schema")
    return value
