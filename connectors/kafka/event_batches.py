"""Source events by the batch: the records of a fetch as columns, decoded as `events.decoder` decodes each.

What is cheap is done here: an event in plain JSON without a fault. Every other record (another format, an envelope, no
event at all) is left to `events.decoder`, which alone says what is wrong with one. So there is one set of refusals,
and the fast way can only be slower than it might be, never another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from connectors.kafka.events import Headers, Poison, Schema, _check, _struct
from connectors.times import parser

Value = bytes | None

ENVELOPE = b'"specversion"'
ENVELOPE_WITHIN = 512
"""As `events` looks for a structured CloudEvent."""

SPEAKING = frozenset({"ce_specversion", "content-type"})
"""Headers that say what a record is."""

ODD = (msgspec.DecodeError, ValueError, OverflowError, TypeError, RecursionError)
"""What a record that is no event raises on the way; UnicodeDecodeError and ZonelessError are ValueErrors."""


@dataclass(slots=True)
class Columns:
    """Events by column, in the order of their records; `places` are their places among the records. `odd`: places of
    the records that are left to `events.decoder`."""

    places: Sequence[int] = ()
    case: Sequence[str] = ()
    activity: Sequence[str] = ()
    time_ns: Sequence[int] = ()
    resource: Sequence[str | None] = ()
    attributes: Sequence[dict[str, dict[str, Any]] | None] = ()
    event_id: Sequence[str | None] = ()
    end: Sequence[bool] = ()
    odd: list[int] = field(default_factory=list)

    def without(self, bad: Collection[int]) -> Columns:
        """These columns, with the events at some indexes of theirs left to `events.decoder`."""
        if not bad:
            return self

        def kept(column: Sequence[Any]) -> list[Any]:
            return [value for index, value in enumerate(column) if index not in bad]

        return Columns(
            places=kept(self.places),
            case=kept(self.case),
            activity=kept(self.activity),
            time_ns=kept(self.time_ns),
            resource=kept(self.resource),
            attributes=kept(self.attributes),
            event_id=kept(self.event_id),
            end=kept(self.end),
            odd=self.odd + [self.places[index] for index in bad],
        )


BatchDecoder = Callable[[Sequence[Value], Sequence[Headers]], Columns]


def leave_all(values: Sequence[Value], _headers: Sequence[Headers]) -> Columns:
    """A `BatchDecoder` without a fast way."""
    return Columns(odd=list(range(len(values))))


def batch_decoder(schema: Schema) -> BatchDecoder:
    """A function from the values and headers of some records to their events by column; it raises nothing."""
    if schema.format not in ("auto", "json"):
        return leave_all
    struct = _struct(schema)
    read, parse = msgspec.json.Decoder(struct).decode, parser(schema.timezone)
    names: tuple[str, ...] = struct.__struct_fields__
    split = attrgetter(*names)
    attributes = _attribute_columns(schema.attributes, names)

    def decode(values: Sequence[Value], headers: Sequence[Headers]) -> Columns:
        found = Columns()
        odd = found.odd
        plain = _plain(values, headers) if schema.format == "auto" else range(len(values))
        if len(plain) < len(values):
            odd.extend(set(range(len(values))).difference(plain))
        places, reads, times = [], [], []
        for place in plain:
            try:
                event = read(values[place])
                when = parse(event.time)
            except ODD:
                odd.append(place)
                continue
            if event.case == "" or event.activity == "":
                odd.append(place)
                continue
            places.append(place)
            reads.append(event)
            times.append(when)
        if not reads:
            return found
        columns = dict(zip(names, zip(*map(split, reads), strict=True), strict=True))
        made, bad = attributes(columns, len(reads))
        found.places, found.time_ns, found.attributes = places, times, made
        found.case = [*map(str, columns["case"])]
        found.activity = columns["activity"]
        found.resource = _texts(columns["resource"])
        found.event_id = _texts(columns["event_id"]) if "event_id" in columns else [None] * len(reads)
        found.end = columns["end"] if "end" in columns else [False] * len(reads)
        return found.without(bad)

    return decode


def _plain(values: Sequence[Value], headers: Sequence[Headers]) -> Sequence[int]:
    """Places of the records that are read as plain JSON."""
    speaking = {place for place, one in enumerate(headers) if one and _speaks(one)}
    speaking |= {
        place for place, value in enumerate(values) if value is None or value.find(ENVELOPE, 0, ENVELOPE_WITHIN) >= 0
    }
    return [place for place in range(len(values)) if place not in speaking] if speaking else range(len(values))


def _speaks(headers: Headers) -> bool:
    return not SPEAKING.isdisjoint(dict(headers or ()))


def _texts(column: Sequence[Any]) -> Sequence[str | None]:
    if set(map(type, column)) <= {str, type(None)}:
        return column
    return [None if value is None else str(value) for value in column]


def _attribute_columns(
    wanted: Iterable[str], names: Sequence[str]
) -> Callable[[dict[str, Any], int], tuple[Sequence[dict[str, dict[str, Any]] | None], set[int]]]:
    """From columns to {"case": {..}, "event": {..}} for each event, and the places of those with a value that
    `events.decoder` must look at."""
    fields = [
        (f"{prefix}_{index}", prefix, name)
        for index, name in enumerate(wanted)
        for prefix in ("case", "event")
        if f"{prefix}_{index}" in names
    ]

    def read(columns: dict[str, Any], count: int) -> tuple[Sequence[dict[str, dict[str, Any]] | None], set[int]]:
        there = [(columns[field], prefix, name) for field, prefix, name in fields]
        there = [one for one in there if one[0].count(None) < count]
        bad = {place for column, _, _ in there for place in _unfit(column)}
        if not there:
            return [None] * count, bad
        if len(there) == 1:
            ((column, prefix, name),) = there
            return [None if value is None else {prefix: {name: value}} for value in column], bad
        made: list[dict[str, dict[str, Any]] | None] = []
        for place in range(count):
            one: dict[str, dict[str, Any]] = {}
            for column, prefix, name in there:
                if (value := column[place]) is not None:
                    one.setdefault(prefix, {})[name] = value
            made.append(one or None)
        return made, bad

    return read


def _unfit(column: Sequence[Any]) -> Sequence[int]:
    """Places of values that cannot be kept."""
    if set(map(type, column)) <= {str, float, bool, type(None)}:
        return ()
    return [place for place, value in enumerate(column) if type(value) is not str and not _fits(value)]


def _fits(value: Any) -> bool:
    try:
        _check(value)
    except Poison:
        return False
    return True
