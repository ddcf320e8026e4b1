"""Which column of a log file plays which part, and columns collected value by value."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog, Ints

CASE_PREFIX = "case:"
"""In flat files, and on events of some XES exports, a case attribute `X` stands as `case:X`."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns that hold case id, activity, time, resource and transition; XES names by default."""

    case: str = "case:concept:name"
    activity: str = "concept:name"
    time: str = "time:timestamp"
    resource: str = "org:resource"
    lifecycle: str = "lifecycle:transition"

    @classmethod
    def of(cls, columns: Mapping[str, str] | None) -> ColumnNames:
        """From `{"case": .., "activity": .., "time": .., "resource": .., "lifecycle": ..}`, each optional."""
        unknown = sorted(set(columns or {}) - {"case", "activity", "time", "resource", "lifecycle"})
        if unknown:
            raise InputError(f"columns: {', '.join(unknown)} unknown; map case, activity, time, resource or lifecycle")
        return cls(**(columns or {}))

    @property
    def trace_name(self) -> str:
        """The case column as an attribute of an XES trace: without the `case:` prefix."""
        return self.case.removeprefix(CASE_PREFIX)


class _Index(dict[str, int]):
    """Codes of texts, in order of first appearance."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


class Sparse:
    """A column under construction: the rows that have a value, each with the code of its text.

    `append(row << 32 | index[text])` adds one: eight bytes an entry, each distinct text once. `kind` is the XES type.
    """

    __slots__ = ("_entries", "append", "index", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = _Index()
        self._entries = array("q")
        self.append = self._entries.append

    def extend(self, rows: Ints, codes: Ints) -> None:
        """Add many entries."""
        self._entries.frombytes(((rows << 32) + codes).tobytes())

    @property
    def rows(self) -> Ints:
        return np.frombuffer(self._entries, dtype=np.int64) >> 32

    @property
    def codes(self) -> Ints:
        return np.frombuffer(self._entries, dtype=np.int64) & 0xFFFFFFFF

    def column(self, size: int, convert: Callable[[str], Any]) -> Column:
        """The dense column of `size` rows; texts of equal value (1.0, 1.00) share a code, None and NaN are missing."""
        values = Column.encode(convert(text) for text in self.index)
        codes = np.full(size, MISSING, dtype=np.int32)
        codes[self.rows] = values.codes[self.codes]
        return Column(codes, values.values)


def as_text(column: Column) -> Column:
    """The same column with text values (`7` for 7); InputError never, missing stays missing."""
    texts = [str(value) for value in column.values]
    again = Column.encode(texts)
    table = np.append(again.codes, np.int32(MISSING))
    return Column(table[column.codes], again.values)


def constant_per_case(column: Column, starts: Ints) -> tuple[Column, int | None]:
    """An event column as a column of cases (missing entries do not count), and the first case in which it varies."""
    cases = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    present = column.codes >= 0
    low = np.full(len(starts) - 1, len(column.values), dtype=np.int32)
    high = np.full(len(starts) - 1, MISSING, dtype=np.int32)
    np.minimum.at(low, cases[present], column.codes[present])
    np.maximum.at(high, cases[present], column.codes[present])
    varying = np.flatnonzero((high >= 0) & (low != high))
    return Column(high, column.values), int(varying[0]) if len(varying) else None


def sorted_by_time(log: EventLog) -> EventLog:
    """The same log with the events of each case in time order; equal times keep their order."""
    same_case = np.ones(log.n_events, dtype=bool)
    same_case[log.starts[:-1][log.lengths > 0]] = False
    if not np.any((np.diff(log.time, prepend=log.time[:1]) < 0) & same_case):
        return log
    order = np.lexsort((log.time, log.case_of_event))
    return EventLog(
        log.case_ids,
        log.starts,
        Column(log.activity.codes[order], log.activity.values),
        log.time[order],
        Column(log.resource.codes[order], log.resource.values),
        log.row[order],
        log.case_attributes,
        {name: Column(column.codes[order], column.values) for name, column in log.event_attributes.items()},
        None if log.offset is None else log.offset[order],
    )
