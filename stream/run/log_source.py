"""A log file as the records of one partition: what the daemon reads from Kafka, without a broker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from datetime import time as clock_time
from decimal import Decimal
from typing import Any

import numpy as np

from models.content_free import content_free
from models.eventlog import Codes, Column, EventLog, Flags, Ints
from stream.fold.records import Delta, Row, with_person
from stream.fold.rules import LogFacts
from stream.run.runner import Arrival
from stream.values.paged import HEAP, ColumnPlace, drop_pages

SOURCE = "log"


@dataclass(frozen=True, slots=True)
class LogRecords:
    """A `RecordSource` over the records of a log.

    Attributes
    ----------
    taken
        Highest rank of an event that the state contains.
    pace
        Called before each record; it may wait.
    """

    records: Iterator[tuple[int, Delta]]
    taken: int
    pace: Callable[[Delta], None]

    def after(self, position: int) -> Iterator[Arrival]:
        """Return the records with a rank that the state lacks.

        Ranks decide and not positions: records may be of another size than in the run before.
        """
        last_taken = self.taken
        for position_of_record, record in self.records:
            if record.last > last_taken:
                self.pace(record)
                yield Arrival(position_of_record, record, record.last - last_taken)
                last_taken = record.last


def log_facts(log: EventLog) -> LogFacts:
    """Return the facts about the whole log that triggers of a first release may need."""
    return LogFacts(log.n_events, log.n_cases, log.time[np.argsort(log.row, kind="stable")])


def records_from_log(
    log: EventLog,
    *,
    pseudonym: Callable[[str], str] = str,
    attributes: Sequence[str] = (),
    log_end: bool = False,
    batch: int = 2000,
    key: str = "",
    resource: Callable[[str], str] | None = None,
    person: tuple[str, Callable[[str], str]] | None = None,
    place: ColumnPlace = HEAP,
) -> Iterator[tuple[int, Delta]]:
    """Yield the events of a log as (position, record), in order of time; ties are in order of file row.

    The offset of an event is its rank, and the position of a record is the rank of its first row. The fold makes
    virtual ticks itself (`FoldRules.embedded`): it stops at every pending deadline before the next event.

    Parameters
    ----------
    log
        The log.
    pseudonym
        Makes the pseudonym of a case.
    attributes
        Case and event attributes in the records. A case attribute is on the first event of its case.
    log_end
        Whether the last event of each case carries its end (completion = "log_end").
    batch
        Most events of a record.
    key
        Id of the pseudonym key.
    resource
        Makes the pseudonym of a resource; None leaves resources as they are.
    person
        The attribute that names the person of a case, and the function that makes the pseudonym of a person.
    place
        Where the events stay until they are in a record.
    """
    if resource is not None:
        names = tuple(resource(str(name)) for name in log.resource.values)
        log = replace(log, resource=Column(log.resource.codes, names))
    timeline = _timeline(log, pseudonym, attributes, place, log_end=log_end)
    del log  # its events are in the timeline, and a large log is not to be in memory twice
    # Rows are made as they are needed: all rows of a log at once would take 270 bytes each.
    for begin in range(0, len(timeline.time), batch):
        part = timeline.rows(begin, begin + batch)
        if person is not None:
            part = [row._replace(attributes=with_person(row.attributes, *person)) for row in part]
        delta = Delta(
            src=SOURCE,
            p=0,
            prev=begin - 1,
            last=begin + len(part) - 1,
            n=len(part),
            key=key,
            named=resource is not None,
            rows=part,
        )
        yield begin, delta


@content_free()
@dataclass(frozen=True, slots=True)
class _Timeline:
    """The events of a log in order of time.

    Attributes
    ----------
    cases
        Pseudonyms by number.
    case, activity, resource, time, end
        Columns of the events; `case` has the numbers.
    attributes
        {"case": {...}, "event": {...}} or None for each event; empty if no attributes are wanted.
    """

    cases: Sequence[str]
    case: Codes
    activity: Column
    resource: Column
    time: Ints
    end: Flags
    attributes: Sequence[dict[str, dict[str, Any]] | None]

    def rows(self, begin: int, end: int) -> list[Row]:
        """Return the rows of consecutive events; their offsets are their ranks."""
        part = slice(begin, end)
        cases, times, ends = self.case[part].tolist(), self.time[part].tolist(), self.end[part].tolist()
        activities, resources = _decoded(self.activity, part), _decoded(self.resource, part)
        columns = zip(cases, activities, times, resources, ends, strict=True)
        rows = []
        for rank, (case, activity, time, resource, is_end) in enumerate(columns, start=begin):
            attributes = self.attributes[rank] if self.attributes else None
            rows.append(Row(rank, self.cases[case], activity, time, resource, attributes, None, is_end))
        for array in (self.case, self.activity.codes, self.time, self.resource.codes, self.end):
            drop_pages(array)
        return rows


def _timeline(
    log: EventLog,
    pseudonym: Callable[[str], str],
    attributes: Sequence[str],
    place: ColumnPlace,
    *,
    log_end: bool,
) -> _Timeline:
    """Return the events of a log in order of time; ties are in order of file row."""
    order = np.lexsort((log.row, log.time))
    ends = np.zeros(log.n_events, dtype=np.bool_)
    filled = log.lengths > 0
    if log_end:
        ends[log.starts[1:][filled] - 1] = True
    case = np.repeat(np.arange(log.n_cases, dtype=np.int32), log.lengths)
    attributes_of_event = _attributes(log, attributes)
    if attributes_of_event:
        attributes_of_event = [attributes_of_event[event] for event in order.tolist()]
    return _Timeline(
        cases=[pseudonym(name) for name in log.case_ids],
        case=place.keep(case[order]),
        activity=Column(place.keep(log.activity.codes[order]), log.activity.values),
        resource=Column(place.keep(log.resource.codes[order]), log.resource.values),
        time=place.keep(log.time[order]),
        end=place.keep(ends[order]),
        attributes=attributes_of_event,
    )


def _decoded(column: Column, events: slice) -> list[Any]:
    table = (*column.values, None)
    return [table[code] for code in column.codes[events].tolist()]


def _attributes(log: EventLog, names: Sequence[str]) -> list[dict[str, dict[str, Any]] | None]:
    """Return the attributes of each event, {"case": {...}, "event": {...}}; None if it has none."""
    if not names:
        return []
    attributes_of_event: list[dict[str, dict[str, Any]] | None] = [None] * log.n_events
    for name in names:
        if name in log.event_attributes:
            column = log.event_attributes[name]
            values = [carried(value) for value in column.values]
            for event in np.flatnonzero(column.codes >= 0).tolist():
                _put(attributes_of_event, event, "event", name, values[column.codes[event]])
        if name in log.case_attributes:
            column = log.case_attributes[name]
            values = [carried(value) for value in column.values]
            for case in np.flatnonzero((column.codes >= 0) & (log.lengths > 0)).tolist():
                _put(attributes_of_event, int(log.starts[case]), "case", name, values[column.codes[case]])
    return attributes_of_event


def carried(value: Any) -> Any:
    """Return the value as a JSON record carries it, as in the daemon.

    Anything but text, truth values and plain numbers becomes text. The state, `variants.parquet` and `memory.json`
    return exactly this value. A date would return as another value, and the audits would see every case change.
    """
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    if isinstance(value, int):  # a truth value is an int, too
        fits = -(1 << 63) <= value < 1 << 63
    elif isinstance(value, float):
        fits = not math.isinf(value)
    else:
        fits = isinstance(value, str) or value != value
    return value if fits else str(value)


def _put(
    attributes_of_event: list[dict[str, dict[str, Any]] | None],
    event: int,
    level: str,
    name: str,
    value: object,
) -> None:
    attributes = attributes_of_event[event]
    if attributes is None:
        attributes = attributes_of_event[event] = {}
    attributes.setdefault(level, {})[name] = value
