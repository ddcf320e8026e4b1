"""Decode records of a source topic to events, a batch at a time and column by column.

Each step converts a whole column. Only if a step fails it goes through its column value by value: the rows at which it
fails leave the batch, each with the reason that goes to the dead letter queue. A reason never contains a word of the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from connectors.columns import CASE_PREFIX, ColumnNames
from connectors.lifecycle import Lifecycle, activity_of
from connectors.times import ZonelessError, parser
from models.content_free import content_free
from models.errors import InputError

SPEC_MAJOR: Final = "1"
"""Major version of CloudEvents. Another one is another envelope, and guessing would misread people's events."""

ENVELOPE_ID: Final = "ce:id"
"""In `source.event_id`: the id of the CloudEvent, in place of a field of its data."""

ENVELOPE_FIELD: Final = b'"specversion"'
ENVELOPE_WITHIN: Final = 512
"""A structured CloudEvent names its version within so many bytes. More would search large plain events to their end."""

ENVELOPE_HEADERS: Final = frozenset({"ce_specversion", "content-type"})
"""Headers that can make a record a CloudEvent."""

DEEPEST: Final = 32
"""Levels of lists and objects in a value. The limit of a JSON reader depends on the depth of its own stack: without a
bound here, the coordinator could fail on what ingest could just read."""

_INT64 = range(-(1 << 63), 1 << 63)

_PLAIN_TYPES = frozenset({str, float, bool, type(None)})
"""Types whose every value can be stored."""

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None
"""Headers as the client gives them. Kafka allows a header without a value, which counts as absent."""

Attributes = dict[str, dict[str, Any]]
"""{"case": {..}, "event": {..}}, each by attribute name; an empty level is absent."""


class SourceMessage(Protocol):
    """A record of a source topic, with the names that the client gives its records."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def key(self) -> bytes | None:
        """The key, as it was sent."""

    @property
    def value(self) -> bytes | None:
        """The body, as it was sent."""

    @property
    def headers(self) -> Headers:
        """The headers."""

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970."""

    @property
    def offset(self) -> int:
        """Offset in its partition."""


@content_free("end")
class SourceEvent(NamedTuple):
    """One decoded event. Nothing is pseudonymized yet.

    Attributes
    ----------
    case, activity
        Case id and activity, as texts.
    time_ns
        Nanoseconds since 1970-01-01 UTC.
    resource
        Name of the resource, if the record has one.
    attributes
        Values by name of the attribute.
    event_id
        Identifier by which a repeated event is recognised, if the configuration names one.
    end
        Whether the event completes its case.
    """

    case: str
    activity: str
    time_ns: int
    resource: str | None
    attributes: Attributes | None
    event_id: str | None
    end: bool


class Poison(Exception):  # noqa: N818 - the field's word for such a record, and it is not a failure of ours
    """A record that is not an event.

    Parameters
    ----------
    kind
        One of `POISONS`: a metric's label and the reason in the dlq.
    """

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


class LeftOut(Exception):  # noqa: N818 - no failure either: the configuration says that such a record is not an event
    """A sound record that becomes no event.

    Parameters
    ----------
    kind
        One of `LEFT_OUT`: a metric's label.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


LEFT_OUT: Final = ("lifecycle", "tombstone", "snapshot", "no_mapping", "unchanged")


@content_free()
@dataclass(slots=True)
class DecodedBatch:
    """The events of a batch by column, and the reasons of the records that are none.

    Parameters
    ----------
    place
        For each event, the place in the batch of its record; ascending. A record may have several events.
    case, activity, time_ns, resource, attributes, event_id, end
        The values of `SourceEvent`, one column each, as long as `place`.
    refused
        Place of each record that is not an event -> one of `POISONS`.
    left_out
        Place of each record that becomes no event by the configuration -> one of `LEFT_OUT`.
    """

    place: Sequence[int] = ()
    case: Sequence[str] = ()
    activity: Sequence[str] = ()
    time_ns: Sequence[int] = ()
    resource: Sequence[str | None] = ()
    attributes: Sequence[Attributes | None] = ()
    event_id: Sequence[str | None] = ()
    end: Sequence[bool] = ()
    refused: dict[int, str] = field(default_factory=dict, kw_only=True)
    left_out: dict[int, str] = field(default_factory=dict, kw_only=True)

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        """The seven columns, in the order of `SourceEvent`."""
        return self.case, self.activity, self.time_ns, self.resource, self.attributes, self.event_id, self.end

    def without(self, places: Mapping[int, str]) -> DecodedBatch:
        """Return the batch with some more records refused, each for its reason.

        Parameters
        ----------
        places
            Reason by place of a record in the batch.
        """
        kept = [row for row, place in enumerate(self.place) if place not in places]
        columns = [[column[row] for row in kept] for column in (self.place, *self.columns)]
        return DecodedBatch(*columns, refused={**self.refused, **places}, left_out=self.left_out)


Decode = Callable[[Sequence[SourceMessage]], DecodedBatch]


def decode_one_by_one(events_of: Callable[[SourceMessage], Sequence[SourceEvent]]) -> Decode:
    """Make a batch decoder of a function from one record to its events.

    Parameters
    ----------
    events_of
        Returns the events of a record, or raises `Poison` or `LeftOut`.
    """

    def decode(messages: Sequence[SourceMessage]) -> DecodedBatch:
        places: list[int] = []
        events: list[SourceEvent] = []
        refused: dict[int, str] = {}
        left_out: dict[int, str] = {}
        for place, message in enumerate(messages):
            try:
                decoded = events_of(message)
            except Poison as poison:
                refused[place] = poison.kind
            except LeftOut as left:
                left_out[place] = left.kind
            else:
                places += [place] * len(decoded)
                events += decoded
        columns = zip(*events, strict=True) if events else ()
        return DecodedBatch(places, *columns, refused=refused, left_out=left_out)

    return decode


def kept_activity(lifecycle: Lifecycle, activity: str, transition: str | None) -> str:
    """Return the activity under which an event of this transition counts.

    Parameters
    ----------
    lifecycle
        Transitions that count.
    activity, transition
        Activity and transition of the event.

    Raises
    ------
    LeftOut
        If the configuration does not count this transition.
    """
    name = activity_of(lifecycle, activity, transition)
    if name is None:
        raise LeftOut("lifecycle")
    return name


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of an event to read, and the format of the records."""

    names: ColumnNames = field(default_factory=ColumnNames)
    attributes: tuple[str, ...] = ()
    timezone: str | None = None
    event_id: str | None = None
    end: str | None = None
    format: str = "auto"
    time_unit: str | None = None
    """Unit of times that are numbers; texts need none. Only for formats of a registry, and JSON by mappings."""
    lifecycle: Lifecycle | None = None
    """The transitions that become events. None: all, as events of the same name."""


@content_free("specversion")
class _Envelope(msgspec.Struct):
    specversion: str
    id: str
    data: msgspec.Raw = msgspec.Raw()


class JsonDecoder:
    """Decode JSON events with XES names (or mapped ones), plain or in a CloudEvents envelope.

    Fields that the schema does not name are skipped while parsing: they never become objects.

    Parameters
    ----------
    schema
        The fields to read.

    Raises
    ------
    InputError
        If the schema reads one field as two things.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        struct = _struct(schema)
        self._names: tuple[str, ...] = struct.__struct_fields__
        self._values = attrgetter(*self._names)
        self._read: Callable[[Any], Any] = msgspec.json.Decoder(struct).decode
        self._read_envelope = msgspec.json.Decoder(_Envelope).decode
        self._parse_time = parser(schema.timezone)
        # (column of the struct, level, attribute) of each wanted attribute that is a field of its own.
        self._attributes = [
            (f"{level}_{number}", level, name)
            for number, name in enumerate(schema.attributes)
            for level in ("case", "event")
            if f"{level}_{number}" in self._names
        ]

    def decode(self, messages: Sequence[SourceMessage]) -> DecodedBatch:
        """Decode a batch. Records that are not events are refused, each with its reason.

        Parameters
        ----------
        messages
            Records of source topics.
        """
        table = _Table(messages)
        self._open_envelopes(table)
        table.convert("body", self._read, (msgspec.DecodeError, UnicodeDecodeError, RecursionError), _json_reason)
        self._split_into_columns(table)
        table.refuse(_unnamed(table.columns))
        if self._schema.lifecycle is not None:
            # Before the times are read: rows of a transition that does not count need no further check.
            table.keep_transitions(self._schema.lifecycle)
        table.convert("time", self._parse_time, (ValueError, OverflowError), _time_reason)
        for column, _, _ in self._attributes:
            if not set(map(type, table.columns[column])) <= _PLAIN_TYPES:
                table.convert(column, _checked, (Poison,), _kind)
        columns, count = table.columns, len(table.places)
        return DecodedBatch(
            place=table.places,
            case=columns["case"],
            activity=columns["activity"],
            time_ns=columns["time"],
            resource=_texts(columns["resource"]),
            attributes=self._attribute_column(columns, count),
            event_id=_texts(columns["event_id"]) if "event_id" in columns else [None] * count,
            end=columns["end"] if "end" in columns else [False] * count,
            refused=table.refused,
            left_out=table.left_out,
        )

    def _open_envelopes(self, table: _Table) -> None:
        """Set the columns `body`, the JSON of each event, and `envelope_id`, if `event_id` names it."""
        values = [message.value for message in table.messages]
        table.columns["body"] = values
        envelope_ids: Sequence[str | None] = [None] * len(values)
        if None in values or not self._all_plain(table.messages, values):
            table.columns["body"] = table.messages
            table.convert("body", self._open_envelope, (Poison,), _kind)
            opened = table.columns["body"]
            table.columns["body"] = [body for body, _ in opened]
            envelope_ids = [envelope_id for _, envelope_id in opened]
        if self._schema.event_id == ENVELOPE_ID:
            table.columns["envelope_id"] = envelope_ids

    def _all_plain(self, messages: Sequence[SourceMessage], values: Sequence[Any]) -> bool:
        """Return whether no record is in an envelope."""
        if self._schema.format != "auto":
            return self._schema.format == "json"
        for message in messages:
            if message.headers and not ENVELOPE_HEADERS.isdisjoint(dict(message.headers)):
                return False
        return all(value.find(ENVELOPE_FIELD, 0, ENVELOPE_WITHIN) < 0 for value in values)

    def _open_envelope(self, message: SourceMessage) -> tuple[bytes, str | None]:
        """Return the JSON of an event and the id of its CloudEvent: by its headers, else by its first bytes."""
        value = message.value
        if value is None:
            raise Poison("null_value")
        if self._schema.format == "json":
            return value, None
        headers = {name: text for name, text in dict(message.headers or ()).items() if text is not None}
        if "ce_specversion" in headers:
            _check_version(headers["ce_specversion"].decode("utf-8", "replace"))
            return value, headers.get("ce_id", b"").decode("utf-8", "replace") or None
        structured = (
            headers.get("content-type", b"").startswith(b"application/cloudevents+json")
            or self._schema.format == "cloudevents"
            or ENVELOPE_FIELD in value[:ENVELOPE_WITHIN]
        )
        if not structured:
            return value, None
        try:
            envelope = self._read_envelope(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Poison(_json_reason(error)) from None
        _check_version(envelope.specversion)
        return bytes(envelope.data), envelope.id

    def _split_into_columns(self, table: _Table) -> None:
        """Replace the decoded bodies by one column for each field."""
        events = table.columns.pop("body")
        fields: Iterable[Sequence[Any]] = repeat(())
        if events:
            fields = zip(*map(self._values, events), strict=True)
        table.columns.update(zip(self._names, fields, strict=False))
        table.columns["case"] = [*map(str, table.columns["case"])]
        if "envelope_id" in table.columns:
            table.columns["event_id"] = table.columns.pop("envelope_id")

    def _attribute_column(
        self,
        columns: Mapping[str, Sequence[Any]],
        count: int,
    ) -> Sequence[Attributes | None]:
        """Return the attributes of each event."""
        present = []
        for column_name, level, attribute in self._attributes:
            column = columns[column_name]
            if column.count(None) < count:
                present.append((column, level, attribute))
        if not present:
            return [None] * count
        if len(present) == 1:  # the usual case: one sensitive attribute
            ((column, level, attribute),) = present
            return [None if value is None else {level: {attribute: value}} for value in column]
        made: list[Attributes | None] = []
        for row in range(count):
            attributes: Attributes = {}
            for column, level, attribute in present:
                value = column[row]
                if value is not None:
                    attributes.setdefault(level, {})[attribute] = value
            made.append(attributes or None)
        return made


class _Table:
    """A batch while it is decoded: the columns of the records that are still events."""

    def __init__(self, messages: Sequence[SourceMessage]) -> None:
        self.messages = messages
        # Place in the batch of each row.
        self.places: Sequence[int] = range(len(messages))
        self.columns: dict[str, Sequence[Any]] = {}
        self.refused: dict[int, str] = {}
        self.left_out: dict[int, str] = {}

    def convert(
        self,
        name: str,
        function: Callable[[Any], Any],
        faults: tuple[type[Exception], ...],
        reason: Callable[[Exception], str],
    ) -> None:
        """Apply a function to a column; refuse the rows at which it fails."""
        values = self.columns[name]
        try:
            self.columns[name] = [function(value) for value in values]
            return
        except faults:
            pass  # at least one row is not an event
        converted: list[Any] = []
        reasons: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                converted.append(function(value))
            except faults as fault:
                converted.append(None)
                reasons[row] = reason(fault)
        self.columns[name] = converted
        self.refuse(reasons)

    def refuse(self, reasons: Mapping[int, str]) -> None:
        """Remove rows, each for its reason."""
        if reasons:
            self.refused |= {self.places[row]: kind for row, kind in reasons.items()}
            self._remove(reasons)

    def keep_transitions(self, lifecycle: Lifecycle) -> None:
        """Remove the rows of transitions that do not count; name the activities of the others."""
        pairs = zip(self.columns["activity"], self.columns["lifecycle"], strict=True)
        names = [activity_of(lifecycle, activity, transition) for activity, transition in pairs]
        self.columns["activity"] = names
        unwanted = [row for row, name in enumerate(names) if name is None]
        self.left_out |= {self.places[row]: "lifecycle" for row in unwanted}
        self._remove(unwanted)

    def _remove(self, rows: Collection[int]) -> None:
        kept = sorted(set(range(len(self.places))).difference(rows))
        self.places = [self.places[row] for row in kept]
        self.columns = {name: [column[row] for row in kept] for name, column in self.columns.items()}


def _unnamed(columns: Mapping[str, Sequence[Any]]) -> dict[int, str]:
    """Return the rows without a case or an activity; a case of blanks is none."""
    if all(map(str.strip, columns["case"])) and "" not in columns["activity"]:
        return {}
    pairs = zip(columns["case"], columns["activity"], strict=True)
    return {row: "schema" for row, (case, activity) in enumerate(pairs) if not case.strip() or not activity}


def _json_reason(error: Exception) -> str:
    return "schema" if isinstance(error, msgspec.ValidationError) else "not_json"


def _time_reason(error: Exception) -> str:
    return "zoneless_time" if isinstance(error, ZonelessError) else "time"


def _kind(error: Exception) -> str:
    return error.kind if isinstance(error, Poison) else "schema"


def _checked(value: Any) -> Any:
    check_value(value)
    return value


def _check_version(version: str) -> None:
    if version.partition(".")[0] != SPEC_MAJOR:
        raise Poison("version")


def _texts(column: Sequence[Any]) -> Sequence[str | None]:
    """Convert numbers to text; None stays."""
    if set(map(type, column)) <= {str, type(None)}:
        return column
    return [None if value is None else str(value) for value in column]


def _struct(schema: Schema) -> type[msgspec.Struct]:
    """Define the JSON object as a struct: columns, wanted attributes (both as `X` and as `case:X`), nothing else."""
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
    for number, name in enumerate(schema.attributes):
        for level, column in (("case", CASE_PREFIX + name), ("event", name)):
            if column not in rename.values():
                fields.append((f"{level}_{number}", Any, None))
                rename[f"{level}_{number}"] = column
    _refuse_twice(rename)
    return msgspec.defstruct("SourceEvent", fields, rename=rename)


def _refuse_twice(rename: Mapping[str, str]) -> None:
    columns = list(rename.values())
    for column in columns:
        if columns.count(column) > 1:
            raise InputError(f"source: field {column!r} is named for two purposes")


def check_value(value: Any, depth: int = 0) -> None:
    """Check that files and checkpoints can hold a value.

    Parameters
    ----------
    value
        A value as JSON has it.
    depth
        Lists and objects around it.

    Raises
    ------
    Poison
        If it contains an integer beyond 64 bits, or is nested deeper than `DEEPEST`.
    """
    if isinstance(value, int):
        if value not in _INT64:
            raise Poison("schema")
    elif isinstance(value, list | dict):
        if depth == DEEPEST:
            raise Poison("schema")
        for part in value.values() if isinstance(value, dict) else value:
            check_value(part, depth + 1)
