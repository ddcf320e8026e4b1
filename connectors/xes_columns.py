"""Columns of a whole XES log, filled as its elements pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from connectors.columns import CASE_PREFIX, Names, Sparse, as_text, constant_per_case, sorted_by_time
from connectors.times import offset_minutes, parser
from connectors.xes_stream import local
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints

_MOST_ATTRIBUTES = 4096
"""Distinct attribute names. Each becomes a column over the whole log: names made from data would fill the memory."""


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false", "1", "0"):
        raise ValueError("not a boolean")
    return lowered in ("true", "1")


def _date(text: str) -> datetime | str:
    """An aware datetime; a date without a zone stays the text that it is (only the event time needs an instant)."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else text


CONVERT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "id": str,
    "int": int,
    "float": float,
    "boolean": _boolean,
    "date": _date,
}


def converted(text: str, key: str, kind: str) -> Any:
    try:
        return CONVERT[kind](text)
    except ValueError:
        raise ValueError(f"{key} is not a valid {kind}") from None


def lacking(where: str, name: str) -> str:
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
        if pair is None or kind not in CONVERT:
            return
        key, text = pair
        column = self.case_column(key, kind)
        column.append(((len(self.starts) - 1) << 32) + column.index[text])

    def case_column(self, key: str, kind: str) -> Sparse:
        column = self.case_columns.get((key, kind))
        if column is None:
            self._count()
            column = self.case_columns[key, kind] = Sparse(kind)
        return column

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
            raise InputError(lacking(self._where(int(np.argmin(counts))), self.names.time))
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
            if part.kind not in CONVERT:
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
            raise InputError(lacking(where(int(bad[0])), key))
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
    convert = CONVERT[part.kind]
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
