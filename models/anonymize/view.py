"""A log as one adversary sees it: traces of items in one common structure, with the sensitive classes.

All four types of knowledge become *subsequence of a trace* (tlkc-privacy-extended-2021, Def. 9-12): a subset is a
subsequence of the sorted distinct items, a sub-multiset one of the sorted items, `seq` and `rel` keep trace order.
So one search, one checker and one local suppression serve them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.content_free import content_free
from models.eventlog import Codes, Column, EventLog, Ints, places_of
from models.keys import case_blocks
from models.knowledge import Knowledge, Structure, items
from models.variants import amounts


@content_free("structure")
@dataclass(frozen=True)
class TraceView:
    """Rows are the distinct pairs (trace, sensitive classes) of a log.

    Parameters
    ----------
    structure
        Structure of the knowledge.
    alphabet
        Items in canonical order; codes are ranks in it.
    starts, codes
        int64[R + 1] and int32[P], the trace of each row: sorted (set, mult) or in order (seq, rel).
    weight
        int64[R], cases of each row.
    values
        int32[A, R], class by sensitive attribute, -1 if missing.
    names, classes
        Names of the sensitive attributes, and of the classes of each.
    row_of_case
        int64[C], row of each case.
    case_starts
        int64[C + 1], where the events of each case begin.
    slot_of_event
        int32[E], position of each event within the trace of its case's row.
    cases
        int64[C], number of cases that each case of the log represents (a table of variants). None: one each.
    """

    structure: Structure
    alphabet: tuple[Any, ...]
    starts: Ints
    codes: Codes
    weight: Ints
    values: Codes
    names: tuple[str, ...]
    classes: tuple[tuple[Any, ...], ...]
    row_of_case: Ints
    case_starts: Ints
    slot_of_event: Codes
    cases: Ints | None = None

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return int(self.weight.sum())

    @property
    def row_of_position(self) -> Ints:
        """Row of each position, int64[P]."""
        return np.repeat(np.arange(len(self.weight), dtype=np.int64), np.diff(self.starts))

    @cached_property
    def item_of_event(self) -> Codes:
        """Item code of each event, int32[E]."""
        items = np.empty(self.case_starts[-1], dtype=np.int32)
        for begin, end in case_blocks(self.case_starts):
            part = slice(self.case_starts[begin], self.case_starts[end])
            trace_starts = self.starts[self.row_of_case[begin:end]]
            trace_of_event = np.repeat(trace_starts, np.diff(self.case_starts[begin : end + 1]))
            items[part] = self.codes[trace_of_event + self.slot_of_event[part]]
        return items

    @cached_property
    def ordinal_of_event(self) -> Codes:
        """Number of earlier events of its case that have the same item, int32[E]."""
        ordinals = np.empty(self.case_starts[-1], dtype=np.int32)
        for begin, end in case_blocks(self.case_starts):
            part = slice(self.case_starts[begin], self.case_starts[end])
            case = np.repeat(np.arange(end - begin), np.diff(self.case_starts[begin : end + 1]))
            key = case * max(len(self.alphabet), 1) + self.item_of_event[part]
            order = np.argsort(key, kind="stable")
            ordered = key[order]
            ordinals[part][order] = np.arange(len(key)) - np.searchsorted(ordered, ordered)
        return ordinals

    def decode(self, candidate: Iterable[int]) -> tuple[Any, ...]:
        """Return the items of a candidate in canonical form.

        Parameters
        ----------
        candidate
            Item codes.
        """
        return tuple(self.alphabet[code] for code in candidate)


def canonical(item: Any) -> tuple[Any, ...]:
    """Sort key of items: by type, then by value, tuples part by part; any mixture of types has an order.

    Parameters
    ----------
    item
        An item: a value, or a tuple of values.
    """
    if isinstance(item, tuple):
        return ("tuple", tuple(canonical(part) for part in item))
    if item is None:
        return ("", 0)
    if isinstance(item, (int, float)):
        return ("number", item)
    return (type(item).__name__, item if isinstance(item, str) else repr(item))


def view(
    log: EventLog,
    knowledge: Knowledge,
    sensitive: Mapping[str, Column],
    cases: Ints | None = None,
) -> TraceView:
    """Return the log as seen through `knowledge`, with one class column per attribute.

    Parameters
    ----------
    log
        The source log.
    knowledge
        Structure and perspectives of the adversary's knowledge.
    sensitive
        The class of each case, by sensitive attribute.
    cases
        int64[C], number of cases that each case represents; None: one each.
    """
    return view_of_items(log.starts, items(log, knowledge), knowledge.structure, sensitive, cases)


def view_of_items(
    starts: Ints,
    column: Column,
    structure: Structure,
    sensitive: Mapping[str, Column],
    cases: Ints | None = None,
) -> TraceView:
    """Return the view of given items, one per event.

    A simple log whose relative times are already numbers has no events to read them from: its view is made here.

    Parameters
    ----------
    starts
        int64[C + 1], where the events of each case begin.
    column
        The item of each event.
    structure
        "set", "mult", "seq" or "rel".
    sensitive
        The class of each case, by sensitive attribute.
    cases
        As for `view`.
    """
    alphabet, codes = _canonical_codes(column)
    ordered, ends, slots = _traces(starts, codes, structure)
    columns = list(sensitive.values())
    class_codes = np.asarray([part.codes for part in columns], dtype=np.int32)
    classes = class_codes.reshape(len(columns), len(starts) - 1)  # also without a column
    first, row_of_case = distinct_rows(ordered, ends, classes)
    begins, places = places_of(ends, first)
    return TraceView(
        structure=structure,
        alphabet=alphabet,
        starts=begins,
        codes=ordered[places],
        weight=amounts(row_of_case, cases, len(first)),
        values=np.ascontiguousarray(classes[:, first]),
        names=tuple(sensitive),
        classes=tuple(tuple(part.values) for part in columns),
        row_of_case=row_of_case,
        case_starts=starts,
        slot_of_event=slots,
        cases=cases,
    )


def _canonical_codes(column: Column) -> tuple[tuple[Any, ...], Codes]:
    order = sorted(range(len(column.values)), key=lambda code: canonical(column.values[code]))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    alphabet = tuple(column.values[code] for code in order)
    return alphabet, rank[column.codes] if order else column.codes


def _traces(starts: Ints, codes: Codes, structure: Structure) -> tuple[Codes, Ints, Codes]:
    """Return the traces of all cases in the common structure.

    Returns
    -------
    codes
        The traces end to end.
    ends
        int64[C + 1], where each begins.
    slots
        The place of each event in the trace of its case.
    """
    if structure not in ("set", "mult"):
        return codes, starts, _places(starts)
    lengths = np.diff(starts)
    case = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    if structure == "set":
        width = int(codes.max(initial=0)) + 1
        pairs, slots = np.unique(case * width + codes, return_inverse=True)
        ends = np.searchsorted(pairs // width, np.arange(len(lengths) + 1)).astype(np.int64)
        return (pairs % width).astype(np.int32), ends, (slots - ends[case]).astype(np.int32)
    order = np.lexsort((codes, case))  # stable: equal items stay in the order of their events
    slots = np.empty(len(codes), dtype=np.int32)
    slots[order] = _places(starts)
    return codes[order], starts, slots


def _places(starts: Ints) -> Codes:
    """Return the place of each event in its case, int32[E]."""
    places = np.arange(starts[-1], dtype=np.int32)
    places -= np.repeat(starts[:-1].astype(np.int32), np.diff(starts))
    return places


def distinct_rows(codes: Codes, starts: Ints, classes: Codes) -> tuple[Ints, Ints]:
    """Return the first of each group of equal rows, and the group of each row.

    A row is a trace with its classes. Rows are compared as bytes: the classes first, which have a fixed width, then the
    trace.

    Parameters
    ----------
    codes
        int32, the traces end to end.
    starts
        int64[N + 1], where each begins.
    classes
        int32[A, N], class of each row by attribute.

    Returns
    -------
    first
        int64[D], the first row of each group; groups are in the order of these.
    group
        int64[N].
    """
    codes = codes.astype(np.int32, copy=False)
    width = codes.itemsize
    traces, class_bytes = codes.tobytes(), np.ascontiguousarray(classes.T).tobytes()
    class_bytes_of_row = len(classes) * width

    def bytes_of_rows() -> Iterator[bytes]:
        for row, (begin, end) in enumerate(itertools.pairwise((starts * width).tolist())):
            at = row * class_bytes_of_row
            yield class_bytes[at : at + class_bytes_of_row] + traces[begin:end]

    index: dict[bytes, int] = {}
    groups = (index.setdefault(key, len(index)) for key in bytes_of_rows())
    group_of_row = np.fromiter(groups, np.int64, len(starts) - 1)
    # Backwards, so that of equal rows the first one is written last.
    first = np.empty(len(index), dtype=np.int64)
    first[group_of_row[::-1]] = np.arange(len(group_of_row))[::-1]
    return first, group_of_row
