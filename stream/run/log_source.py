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

from models.eventlog import Column, EventLog, Ints
from stream.fold.records import Delta, Row, with_person
from stream.fold.rules import LogFacts
from stream.run.runner import Arrival

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
    source: str = SOURCE,
    resource: Callable[[str], str] | None = None,
    person: tuple[str, Callable[[str], str]] | None = None,
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
    source
        Name of the source topic.
    resource
        Makes the pseudonym of a resource; None leaves resources as they are.
    person
        The attribute that names the person of a case, and the function that makes the pseudonym of a person.
    """
    order = np.lexsort((log.row, log.time))
    if resource is not None:
        names = tuple(resource(str(name)) for name in log.resource.values)
        log = replace(log, resource=Column(log.resource.codes, names))
    rows = _rows(log, pseudonym, attributes, log_end=log_end)
    # Rows are made as they are needed: all rows of a log at once would take 270 bytes each.
    for begin in range(0, len(order), batch):
        part = rows(order[begin : begin + batch], begin)
        if person is not None:
            part = [row._replace(attributes=with_person(row.attributes, *person)) for row in part]
        last = begin + len(part) - 1
        named = resource is not None
        yield begin, Delta(src=source, p=0, prev=begin - 1, last=last, n=len(part), key=key, named=named, rows=part)


def _rows(
    log: EventLog, pseudonym: Callable[[str], str], attributes: Sequence[str], *, log_end: bool
) -> Callable[[Ints, int], list[Row]]:
    """Return the rows of some events, given the rank of the first of them."""
    names = [pseudonym(case) for case in log.case_ids]
    ends = np.zeros(log.n_events, dtype=np.bool_)
    filled = log.lengths > 0
    if log_end:
        ends[log.starts[1:][filled] - 1] = True
    attributes_of_event = _attributes(log, attributes)

    def rows(events: Ints, first: int) -> list[Row]:
        owners = np.searchsorted(log.starts, events, side="right") - 1
        columns = zip(
            events.tolist(), owners.tolist(), _decoded(log.activity, events), log.time[events].tolist(),
            _decoded(log.resource, events), ends[events].tolist(), strict=True,
        )  # fmt: skip
        return [
            Row(
                rank,
                names[case],
                activity,
                time,
                resource,
                attributes_of_event[event] if attributes_of_event else None,
                None,
                end,
            )
            for rank, (event, case, activity, time, resource, end) in enumerate(columns, start=first)
        ]

    return rows


def _decoded(column: Column, order: Ints) -> list[Any]:
    table = (*column.values, None)
    return [table[code] for code in column.codes[order].tolist()]


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
    exceeds_64_bits = isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    is_plain = isinstance(value, str | bool | int | float) and not exceeds_64_bits and not is_infinite
    is_nan = value != value
    return value if is_plain or is_nan else str(value)


def _put(
    attributes_of_event: list[dict[str, dict[str, Any]] | None], event: int, level: str, name: str, value: object
) -> None:
    carried = attributes_of_event[event]
    if carried is None:
        carried = attributes_of_event[event] = {}
    carried.setdefault(level, {})[name] = value
