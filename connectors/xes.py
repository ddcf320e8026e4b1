"""XES files (IEEE 1849), read as a stream.

What grows with the log are the columns of the result; of the XML nothing is kept (see connectors.xes_stream).
Which attributes are kept: every attribute of a trace and of an event, with its XES type (string and id as str,
int, float, boolean as bool, date as aware datetime). Of a nested attribute the parent's value is kept and the
children are not; `list` and `container` have no value of their own and are left out, as is a NaN. Events that
stand in no trace belong to no case and are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import length_hint
from pathlib import Path
from typing import Any, cast

import numpy as np

from connectors.columns import CASE_PREFIX, Names, Sparse, as_text, constant_per_case, sorted_by_time
from connectors.times import offset_minutes, parser
from connectors.xes_stream import check_shape, elements, key_value, line_of, local, refusal, tags
from connectors.xes_tags import taker
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints

_MOST_ATTRIBUTES = 4096
"""Distinct attribute names. Each becomes a column over the whole log: names made from data would fill the memory."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of `iter_traces`: its activity, time in nanoseconds, resource, and all further attributes."""

    activity: str
    time: int
    resource: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace of `iter_traces`, events in file order."""

    name: str
    events: tuple[Event, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None) -> EventLog:
    """The whole log. Events of a case are sorted by time (ties in file order); `row` is the position in the file.

    InputError (file and line, or trace and event): broken XML, a document type, a trace without a name or with the
    name of an earlier one, an event without activity or time, a time without a zone while `timezone` is None, an
    attribute given twice, an empty log. A trace without events stays as an empty case.
    """
    names = Names.of(columns)
    collector = Collector(path, names, timezone)
    take, passed = taker(collector, names.time), 0
    for chunk in tags(path):
        left = iter(chunk)
        try:
            take(left)
        except (ValueError, OverflowError) as error:
            raise refusal(error, path, line_of(path, passed + len(chunk) - length_hint(left) - 1)) from None
        passed += len(chunk)
    return collector.log()


def iter_traces(path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None) -> Iterator[Trace]:
    """The traces one at a time, in file order and with their events as they stand in the file: memory does not grow
    with the log. Errors as `read`, except that the names of traces are not compared with one another."""
    names = Names.of(columns)
    builder = _Builder(path, names, timezone)
    for _ in elements(path, builder.start, builder.end):
        yield from builder.finished
        builder.finished.clear()


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false", "1", "0"):
        raise ValueError("not a boolean")
    return lowered in ("true", "1")


def _date(text: str) -> datetime | str:
    """An aware datetime; a date without a zone stays the text that it is (only the event time needs an instant)."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else text


_CONVERT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "id": str,
    "int": int,
    "float": float,
    "boolean": _boolean,
    "date": _date,
}


class _Builder:
    """Whole traces, built as their elements pass."""

    def __init__(self, path: Path, names: Names, timezone: str | None) -> None:
        self.path, self.names, self.parse = path, names, parser(timezone)
        self.finished: list[Trace] = []
        self.number = 0
        self.open: list[str] = []
        self.own: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        self.events: list[Event] = []

    def start(self, tag: str, attributes: list[str]) -> None:
        self.open.append(local(tag))
        if self.open[1:] == ["trace"]:
            self.number, self.own, self.events = self.number + 1, {}, []
        elif self.open[1:] == ["trace", "event"]:
            self.attributes = {}
        elif self.open[1:3] == ["trace", "event"] and len(self.open) == 4:
            self._attribute(self.attributes, attributes, self.names.time)
        elif self.open[1:2] == ["trace"] and len(self.open) == 3:
            self._attribute(self.own, attributes, None)
        check_shape(tag, len(self.open))

    def end(self, _: str) -> None:
        if self.open[1:] == ["trace", "event"]:
            self._event()
        elif self.open[1:] == ["trace"]:
            name = self._required(self.own, self.names.trace_name, f"trace {self.number}")
            self.finished.append(Trace(name, tuple(self.events), self.own))
        self.open.pop()

    def _attribute(self, target: dict[str, Any], attributes: list[str], time: str | None) -> None:
        pair, kind = key_value(attributes), self.open[-1]
        if pair is None or kind not in _CONVERT:
            return
        key, text = pair
        if key in target:
            raise ValueError(f"attribute {key!r} stands twice")
        value = self.parse(text) if key == time else _converted(text, key, kind)
        if value == value:
            target[key] = value

    def _event(self) -> None:
        where = f"trace {self.number}, event {len(self.events) + 1}"
        activity = self._required(self.attributes, self.names.activity, where)
        time = self.attributes.pop(self.names.time, None)
        if time is None:
            raise InputError(_lacking(f"{self.path}: {where}", self.names.time))
        resource = self.attributes.pop(self.names.resource, None)
        self.events.append(Event(activity, time, None if resource is None else str(resource), self.attributes))

    def _required(self, attributes: dict[str, Any], name: str, where: str) -> str:
        value = attributes.pop(name, None)
        if value is None or value == "":
            raise InputError(_lacking(f"{self.path}: {where}", name))
        return str(value)


def _converted(text: str, key: str, kind: str) -> Any:
    try:
        return _CONVERT[kind](text)
    except ValueError:
        raise ValueError(f"{key} is not a valid {kind}") from None


def _lacking(where: str, name: str) -> str:
    return f"{where}: no {name}; every trace and event needs one (name other columns with --columns)"


class Collector:
    """Sparse columns of all attributes, and the log that they make."""

    def __init__(self, path: Path, names: Names, timezone: str | None) -> None:
        self.path, self.names = path, names
        self.parse = parser(timezone)
        self.case_columns: dict[tuple[str, str], Sparse] = {}
        self.event_columns: dict[tuple[str, str], Sparse] = {}
        self.starts = array("q")
        self.time = array("q")
        self.timed = array("i")
        self.offset = array("i")
        self.suffixes: dict[str, int] = {}
        self.attributes = 0
        self.events = 0

    def event_column(self, tag: str, key: str) -> Sparse:
        column = self.event_columns.get((key, tag))
        if column is None:
            self._count()
            column = self.event_columns[key, tag] = Sparse(local(tag))
        return column

    def _count(self) -> None:
        self.attributes += 1
        if self.attributes > _MOST_ATTRIBUTES:
            raise ValueError(f"more than {_MOST_ATTRIBUTES} different attributes; are data used as names?")

    def case_attribute(self, tag: str, pair: tuple[str, str] | None) -> None:
        kind = local(tag)
        if pair is None or kind not in _CONVERT:
            return
        key, text = pair
        column = self.case_columns.get((key, kind))
        if column is None:
            self._count()
            column = self.case_columns[key, kind] = Sparse(kind)
        column.append(((len(self.starts) - 1) << 32) + column.index[text])

    def log(self) -> EventLog:
        starts = self._starts()
        events, cases = int(starts[-1]), len(starts) - 1
        if not events:
            raise NoEventsError(f"{self.path}: the log holds no events")
        names = self.names
        time = self._times(events)
        by_case = self._dense(self.case_columns, cases, self._where_case)
        by_event = self._dense(self.event_columns, events, self._where)
        activity = self._complete(by_event.pop(names.activity, None), events, names.activity, self._where)
        ids = self._case_ids(by_case.pop(names.trace_name, None), cases)
        resource = by_event.pop(names.resource, Column(np.full(events, MISSING, dtype=np.int32), ()))
        by_event.pop(names.case, None)
        self._lift(by_event, by_case, starts)
        return sorted_by_time(
            EventLog(
                ids, starts, activity, time, as_text(resource), np.arange(events), by_case, by_event, self._offsets()
            )
        )

    def _starts(self) -> Ints:
        begin = np.frombuffer(self.starts, dtype=np.int64)
        return np.append(begin, self.events)

    def _where(self, row: int) -> str:
        starts = self._starts()
        case = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{self.path}: trace {case + 1}, event {row - int(starts[case]) + 1}"

    def _where_case(self, case: int) -> str:
        return f"{self.path}: trace {case + 1}"

    def _times(self, events: int) -> Ints:
        counts = np.bincount(np.frombuffer(self.timed, dtype=np.int32), minlength=events)
        self._once(counts, self.names.time, self._where)
        if counts.min() < 1:
            raise InputError(_lacking(self._where(int(np.argmin(counts))), self.names.time))
        return cast(Ints, np.frombuffer(self.time, dtype=np.int64))

    def _offsets(self) -> Codes:
        """Minutes ahead of UTC, from how each time ends: `+02:00`; anything else is read as UTC."""
        return np.asarray([offset_minutes(text) for text in self.suffixes], dtype=np.int32)[
            np.frombuffer(self.offset, dtype=np.int32)
        ]

    @staticmethod
    def _once(counts: Ints, key: str, where: Callable[[int], str]) -> None:
        if counts.max(initial=0) > 1:
            raise InputError(f"{where(int(np.argmax(counts > 1)))}: attribute {key!r} stands twice")

    def _dense(
        self, sparse: Mapping[tuple[str, str], Sparse], size: int, where: Callable[[int], str]
    ) -> dict[str, Column]:
        """One dense column a key; the parts of a key that has several types are put together."""
        result: dict[str, Column] = {}
        for (key, _), part in sparse.items():
            if part.kind not in _CONVERT:
                continue
            self._once(np.bincount(part.rows, minlength=size), key, where)
            column = _column(part, key, size, where)
            result[key] = _merged(result[key], column, key, where) if key in result else column
        return result

    @staticmethod
    def _complete(column: Column | None, size: int, key: str, where: Callable[[int], str]) -> Column:
        """The column as text, when every row has a value that is not empty."""
        text = as_text(column or Column(np.full(size, MISSING, dtype=np.int32), ()))
        empty = [code for code, value in enumerate(text.values) if value == ""]
        bad = np.flatnonzero((text.codes < 0) | np.isin(text.codes, empty))
        if len(bad):
            raise InputError(_lacking(where(int(bad[0])), key))
        return text

    def _case_ids(self, column: Column | None, cases: int) -> tuple[str, ...]:
        complete = self._complete(column, cases, self.names.trace_name, self._where_case)
        counts = np.bincount(complete.codes)
        if counts.max() > 1:
            first, second = np.flatnonzero(complete.codes == np.argmax(counts > 1))[:2]
            raise InputError(
                f"{self._where_case(int(second))}: has the {self.names.trace_name} of trace {first + 1}; "
                "a case id may stand once"
            )
        return tuple(complete.decode())

    def _lift(self, by_event: dict[str, Column], by_case: dict[str, Column], starts: Ints) -> None:
        """Events that carry `case:X`: X becomes an attribute of the case; copies of a trace attribute are dropped."""
        for key in [key for key in by_event if key.startswith(CASE_PREFIX)]:
            lifted, varying = constant_per_case(by_event.pop(key), starts)
            if varying is not None:
                raise InputError(f"{self._where_case(varying)}: its events disagree about {key!r}")
            by_case.setdefault(key.removeprefix(CASE_PREFIX), lifted)


def _column(part: Sparse, key: str, size: int, where: Callable[[int], str]) -> Column:
    convert = _CONVERT[part.kind]
    try:
        return part.column(size, convert)
    except (ValueError, OverflowError):
        row = int(part.rows[np.argmax(part.codes == _first_bad(part, convert))])
        raise InputError(f"{where(row)}: {key} is not a valid {part.kind}") from None


def _first_bad(part: Sparse, convert: Callable[[str], Any]) -> int:
    for code, text in enumerate(part.index):
        try:
            convert(text)
        except (ValueError, OverflowError):
            return code
    return 0


def _merged(one: Column, two: Column, key: str, where: Callable[[int], str]) -> Column:
    both = np.flatnonzero((one.codes >= 0) & (two.codes >= 0))
    if len(both):
        raise InputError(f"{where(int(both[0]))}: attribute {key!r} stands twice")
    return Column.encode(b if a is None else a for a, b in zip(one.decode(), two.decode(), strict=True))
