"""A log as its variants, and a release as a plan on them.

Some logs are too large to process case by case. The variant table has one row for each distinct (variant, sensitive
classes), with the number of its cases; a variant is the sequence of items that an adversary sees
(`models.knowledge`). Tables add up: the tables of the parts of a log give the table of the log. A mechanism builds on
the table as on a log whose cases count more than once. The result of such a build is a plan: the released traces that
the cases of a row get, and how many cases get each. The assignment to cases is drawn where the cases are
(`VariantPlan.assigned`).

Rows are in the order in which their first cases begin in the source: a mechanism that breaks a tie by the order of
variants breaks it as on the log itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import MISSING, Codes, Column, EventLog, Ints, starts_of
from models.keys import case_blocks
from models.knowledge import NANOSECONDS, Knowledge, items

GONE = -1
"""In a plan: the released trace of cases that do not leave. In its `row`: records that are nobody's case."""

_RELEASED_EVENT = np.dtype([("activity", "<i4"), ("resource", "<i4"), ("time", "<i8")])


def amounts(codes: npt.NDArray[Any], cases: Ints | None, size: int = 0) -> Ints:
    """Return how often each code occurs.

    Parameters
    ----------
    codes
        int[N], not negative.
    cases
        int64[N], how often each entry counts; once by default.
    size
        Least length of the result.
    """
    # floats hold whole numbers up to 2^53, more than any log has cases
    return np.bincount(codes, cases, minlength=size).astype(np.int64)


def of_events(cases: Ints | None, starts: Ints) -> Ints | None:
    """Repeat a number of each case for each of its events.

    Parameters
    ----------
    cases
        int64[C], or None.
    starts
        int64[C + 1], where the events of each case begin.

    Returns
    -------
    Ints or None
        int64[E]; None for None.
    """
    return None if cases is None else np.repeat(cases, np.diff(starts))


def total(each: npt.NDArray[Any], cases: Ints | None) -> int:
    """Return the sum over all cases.

    Parameters
    ----------
    each
        int[N], a value of each row.
    cases
        int64[N], cases of each row; one by default.
    """
    return int(each.sum() if cases is None else (each * cases).sum())


@content_free("knowledge")
@dataclass(frozen=True)
class VariantTable:
    """Distinct variants with their classes and numbers of cases.

    Parameters
    ----------
    log
        One case for each row, with its classes as case attributes.
    count
        int64[R], cases of each row.
    knowledge
        The knowledge whose items make the variants.
    """

    log: EventLog
    count: Ints
    knowledge: Knowledge

    @property
    def n_cases(self) -> int:
        """Number of cases of all rows."""
        return int(self.count.sum())

    @property
    def n_events(self) -> int:
        """Number of events of all rows."""
        return total(self.log.lengths, self.count)

    def decoded(self) -> dict[tuple[Any, ...], int]:
        """Return {(items, class by attribute): cases}, for tests and small logs."""
        all_items = items(self.log, self.knowledge).decode()
        traces = [tuple(all_items[begin:end]) for begin, end in itertools.pairwise(self.log.starts.tolist())]
        names = sorted(self.log.case_attributes)
        classes = zip(*(self.log.case_attributes[name].decode() for name in names), strict=True)
        joint = list(classes) if names else [()] * len(traces)
        return {(trace, values): int(n) for trace, values, n in zip(traces, joint, self.count, strict=True)}


def table_of(
    knowledge: Knowledge,
    alphabet: tuple[Any, ...],
    starts: Ints,
    codes: Codes,
    classes: Mapping[str, Column],
    count: Ints,
) -> VariantTable:
    """Return the table of variants that are given as coded items.

    Parameters
    ----------
    knowledge
        The knowledge whose items these are.
    alphabet
        Distinct items, by code.
    starts, codes
        int64[R + 1] and int32[I]: row r has the items `alphabet[codes[starts[r] : starts[r + 1]]]`.
    classes
        Class of each row by sensitive attribute.
    count
        int64[R], cases of each row.
    """
    parts = {}
    for place, name in enumerate(knowledge.carries):
        is_only_part = len(knowledge.carries) == 1
        parts[name] = Column.encode(alphabet if is_only_part else [item[place] for item in alphabet])
    nothing = Column(np.full(len(codes), MISSING, dtype=np.int32), ())
    time = np.zeros(len(codes), dtype=np.int64)
    if "relative_time" in parts:
        ticks = np.asarray(parts["relative_time"].decode(), dtype=np.int64)
        time = ticks[codes] * NANOSECONDS[knowledge.T]
    spread = {}
    for name, part in parts.items():
        if name != "relative_time":
            spread[name] = Column(part.codes[codes], part.values)
    log = EventLog(
        case_ids=tuple(map(str, range(len(count)))),
        starts=starts,
        activity=spread.get("activity", nothing),
        time=time,
        resource=spread.get("resource", nothing),
        row=np.arange(len(codes), dtype=np.int64),
        case_attributes=dict(classes),
    )
    return VariantTable(log, count, knowledge)


def variant_table(
    log: EventLog,
    knowledge: Knowledge,
    classes: Mapping[str, Column],
) -> tuple[VariantTable, Ints]:
    """Return the table of a log in memory, and the row of each case.

    Parameters
    ----------
    log
        The log, C cases.
    knowledge
        The knowledge whose items make the variants.
    classes
        Class of each case by sensitive attribute.

    Returns
    -------
    table : VariantTable
        R rows.
    row_of_case : Ints
        int64[C].
    """
    column = items(log, knowledge)
    width = column.codes.itemsize
    # The bytes of a trace's item codes identify its variant.
    all_bytes = column.codes.astype(np.int32, copy=False).tobytes()
    class_codes: Iterable[tuple[int, ...]] = itertools.repeat(())
    if classes:
        class_codes = zip(*(part.codes.tolist() for part in classes.values()), strict=True)
    index: dict[tuple[bytes, tuple[int, ...]], int] = {}
    bounds = itertools.pairwise((log.starts * width).tolist())
    rows = [
        index.setdefault((all_bytes[begin:end], codes_of_case), len(index))
        for (begin, end), codes_of_case in zip(bounds, class_codes, strict=False)
    ]
    row_of_case = np.asarray(rows, dtype=np.int64)
    _, first = np.unique(row_of_case, return_index=True)
    lengths = log.lengths[first]
    starts = starts_of(lengths)
    codes = np.frombuffer(b"".join(trace for trace, _ in index), dtype=np.int32)
    codes_of_case = {name: part.take(first) for name, part in classes.items()}
    count = np.bincount(row_of_case, minlength=len(index)).astype(np.int64)
    return table_of(knowledge, column.values, starts, codes, codes_of_case, count), row_of_case


@content_free()
@dataclass(frozen=True)
class VariantPlan:
    """The released traces that the cases of each row of a table get.

    Parameters
    ----------
    traces
        The distinct released traces, one case each, with released times.
    row, trace, count
        int64[P]: `count` cases of `row` get `trace`. Rows ascend. The counts of a row add up to its cases, including
        those that are not released (`trace` is GONE). `row` is GONE for records of no case: noisy counts that were
        drawn when the plan was made.
    """

    traces: EventLog
    row: Ints
    trace: Ints
    count: Ints

    @classmethod
    def of(cls, released: EventLog, origin: Ints, count: Ints) -> VariantPlan:
        """Return the plan of a build on a table.

        Parameters
        ----------
        released
            Log of the build: one case for each row that leaves.
        origin
            int64, the row of each released case, or -1.
        count
            int64[R], cases of each row.
        """
        trace, n_traces = _distinct_traces(released)
        _, first = np.unique(trace, return_index=True)
        traces = released.with_columns(case={}, event={}).select_cases(first)
        if len(origin) and int(origin.min()) < 0:
            made = np.bincount(trace, minlength=n_traces).astype(np.int64)
            return cls(traces, np.full(n_traces, GONE, dtype=np.int64), np.arange(n_traces), made)
        of_row = np.full(len(count), GONE, dtype=np.int64)
        of_row[origin] = trace
        return cls(traces, np.arange(len(count), dtype=np.int64), of_row, count)

    @property
    def is_made(self) -> bool:
        """Whether the released records belong to no case."""
        return bool(len(self.row)) and bool((self.row == GONE).any())

    @property
    def cases(self) -> int:
        """Number of released cases."""
        return int(self.count[self.trace != GONE].sum())

    @property
    def events(self) -> int:
        """Number of released events."""
        leaving = self.trace != GONE
        return int((self.traces.lengths[self.trace[leaving]] * self.count[leaving]).sum())

    def assigned(self, row: Ints, draw: npt.NDArray[Any]) -> Ints:
        """Return the released trace of each case, GONE for none.

        Parameters
        ----------
        row
            int64[C], the row of each case.
        draw
            The draw of each case, distinct within a row and unknown outside. The cases of a row are taken in the
            order of their draws.

        Returns
        -------
        Ints
            int64[C].
        """
        first = np.searchsorted(self.row, np.arange(int(row.max(initial=-1)) + 2))
        if (np.diff(first) == 1).all():
            # Each row has one trace: nothing is drawn.
            return self.trace[first[row]]
        order = np.lexsort((draw, row))
        # Place of each case within its row, and cases of all rows before it.
        place = np.arange(len(row)) - np.searchsorted(row[order], row[order])
        starts = starts_of(self.count)
        before = starts[first[row[order]]]
        result = np.empty(len(row), dtype=np.int64)
        result[order] = self.trace[np.searchsorted(starts[1:], before + place, side="right")]
        return result

    def made(self) -> Ints:
        """Return the trace of each record of a plan without rows, int64[records]."""
        return np.repeat(self.trace, self.count)


def _distinct_traces(released: EventLog) -> tuple[Ints, int]:
    """Return the number of each case's trace, in order of first appearance, and how many traces there are."""
    index: dict[bytes, int] = {}
    trace = np.empty(released.n_cases, dtype=np.int64)
    # Without events there is no block, and all cases have the empty trace.
    for first, last in case_blocks(released.starts) if released.n_events else [(0, released.n_cases)]:
        events = slice(released.starts[first], released.starts[last])
        # The bytes of activity, resource and time of its events identify a trace.
        rows = np.empty(events.stop - events.start, dtype=_RELEASED_EVENT)
        rows["activity"], rows["resource"] = released.activity.codes[events], released.resource.codes[events]
        rows["time"] = released.time[events]
        all_bytes = rows.tobytes()
        bounds = (released.starts[first : last + 1] - events.start) * rows.itemsize
        bytes_of_traces = (all_bytes[begin:end] for begin, end in itertools.pairwise(bounds.tolist()))
        trace[first:last] = [index.setdefault(key, len(index)) for key in bytes_of_traces]
    return trace, len(index)
