"""Source events by the batch: the records of a fetch as columns, decoded as `events.decoder` decodes each.

Only a batch of plain JSON events without a fault is decoded here. Where one record is anything else (another format, an
envelope, no event at all), the whole batch is left to `events.decoder`, which alone says what is wrong with a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from connectors.kafka.events import Headers, Schema, _struct
from connectors.times import parser
from models.content_free import content_free

Value = bytes | None

ENVELOPE = b'"specversion"'
ENVELOPE_WITHIN = 512
"""As `events` looks for a structured CloudEvent."""

SPEAKING = frozenset({"ce_specversion", "content-type"})
"""Headers that say what a record is."""

ODD = (msgspec.DecodeError, ValueError, OverflowError, TypeError, RecursionError)
"""What a record that is no event raises on the way; UnicodeDecodeError and ZonelessError are ValueErrors."""

PARTS = frozenset({"case", "activity", "time", "resource", "event_id", "end"})
"""Fields of a record, beside attributes, that are read here. A schema with another one is left to `events.decoder`."""

FITS = frozenset({str, float, bool, type(None)})
"""Types whose every value can be kept."""

_INT64 = range(-(1 << 63), 1 << 63)


@content_free()
@dataclass(frozen=True, slots=True)
class EventColumns:
    """Events by column, in the order of their records."""

    case: Sequence[str]
    activity: Sequence[str]
    time_ns: Sequence[int]
    resource: Sequence[str | None]
    attributes: Sequence[dict[str, dict[str, Any]] | None]
    event_id: Sequence[str | None]
    end: Sequence[bool]


BatchDecoder = Callable[[Sequence[Value], Sequence[Headers]], EventColumns | None]
"""From the values and headers of some records to their events; None where `events.decoder` must look at them."""


def batch_decoder(schema: Schema) -> BatchDecoder | None:
    """The batch form of `events.decoder`; None where it has none for this schema. What it makes raises nothing."""
    struct = _struct(schema)
    names: tuple[str, ...] = struct.__struct_fields__
    others = {name for name in names if name.rpartition("_")[0] not in ("case", "event")} | {"event_id"} & set(names)
    if schema.format not in ("auto", "json") or not others <= PARTS:
        return None
    read: Callable[[Any], Any] = msgspec.json.Decoder(struct).decode
    parse = parser(schema.timezone)
    split = attrgetter(*names)
    attributes = _attribute_columns(schema.attributes, names)

    def decode(values: Sequence[Value], headers: Sequence[Headers]) -> EventColumns | None:
        if schema.format == "auto" and not _plain(values, headers):
            return None
        try:
            events = [read(value) for value in values]
            times = [parse(event.time) for event in events]
        except ODD:
            return None
        columns = dict(zip(names, zip(*map(split, events), strict=True), strict=True))
        cases = [*map(str, columns["case"])]
        if not all(map(str.strip, cases)) or "" in columns["activity"]:
            return None
        made = attributes(columns, len(events))
        if made is None:
            return None
        return EventColumns(
            case=cases,
            activity=columns["activity"],
            time_ns=times,
            resource=_texts(columns["resource"]),
            attributes=made,
            event_id=_texts(columns["event_id"]) if "event_id" in columns else [None] * len(events),
            end=columns["end"] if "end" in columns else [False] * len(events),
        )

    return decode


def _plain(values: Sequence[Value], headers: Sequence[Headers]) -> bool:
    """Whether all records are read as plain JSON."""
    if any(not SPEAKING.isdisjoint(dict(one)) for one in headers if one):
        return False
    return all(value is not None and value.find(ENVELOPE, 0, ENVELOPE_WITHIN) < 0 for value in values)


def _texts(column: Sequence[Any]) -> Sequence[str | None]:
    if set(map(type, column)) <= {str, type(None)}:
        return column
    return [None if value is None else str(value) for value in column]


AttributeColumns = Sequence[dict[str, dict[str, Any]] | None]


def _attribute_columns(
    wanted: Iterable[str], names: Sequence[str]
) -> Callable[[dict[str, Any], int], AttributeColumns | None]:
    """From columns to {"case": {..}, "event": {..}} for each event; None where a value is one that `events.decoder`
    must look at."""
    fields = [
        (f"{prefix}_{index}", prefix, name)
        for index, name in enumerate(wanted)
        for prefix in ("case", "event")
        if f"{prefix}_{index}" in names
    ]

    def read(columns: dict[str, Any], count: int) -> AttributeColumns | None:
        there = [(columns[field], prefix, name) for field, prefix, name in fields]
        there = [one for one in there if one[0].count(None) < count]
        if not all(_fit(column) for column, _, _ in there):
            return None
        if not there:
            return [None] * count
        if len(there) == 1:
            ((column, prefix, name),) = there
            return [None if value is None else {prefix: {name: value}} for value in column]
        made: list[dict[str, dict[str, Any]] | None] = []
        for place in range(count):
            one: dict[str, dict[str, Any]] = {}
            for column, prefix, name in there:
                if (value := column[place]) is not None:
                    one.setdefault(prefix, {})[name] = value
            made.append(one or None)
        return made

    return read


def _fit(column: Sequence[Any]) -> bool:
    """Whether all values are texts, numbers or truth values that can be kept."""
    types = set(map(type, column)) - FITS
    return not types or (types == {int} and all(value in _INT64 for value in column if type(value) is int))
