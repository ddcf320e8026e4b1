"""The index that answers "is this case the only one that contains these points" in microseconds.

Source: reidentification-risk-2020, equation 2, with postings by (point, occurrence rank); see `models.risk.matching`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from models.compiled import kernel, wraps_around
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, EventLog, Flags, Ints, places_of, starts_of
from models.risk.matching import Revealed, unique_cases
from models.risk.points import KnownColumns, PointCoder, Whole

Words = npt.NDArray[np.uint64]

DENSITY = 8
"""An item is a bitset too from an eighth of the length on at which list and bitset are equally long: bounds the bitsets
to eight times the memory of the lists. It is a rule of length alone, so if the rarest of some items is a bitset, all
of them are (`models.risk.matching`)."""

DRAWN = 1 << 20
"""Draws that are held at a time."""

_EMPTY = np.zeros(0, dtype=np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class Postings:
    """Cases by item.

    Attributes
    ----------
    base
        `base[p]`: item of point p at rank 1.
    cases, offsets
        Cases of item i are `cases[offsets[i]:offsets[i + 1]]`, ascending.
    row
        `row[i]`: line of item i in `bits`, -1 for rare items.
    alone
        `alone[e]`: whether no other case has a point of event e.
    """

    base: Codes
    offsets: Codes
    cases: Codes
    row: Codes
    bits: Words
    alone: Flags


@content_free()
@dataclass(slots=True)
class TraceIndex:
    """Traces of a log as an adversary with a given view sees them, kept up to date by `update`.

    * `points`: int32[E, k], point codes of each event (k = 1 joint, one a column otherwise);
    * `starts`: int64[C + 1]; `group`: int64[C], code of the case attributes, -1 without any.
    """

    coder: PointCoder
    case_ids: tuple[str, ...] = ()
    starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    points: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int32))
    group: Ints = field(default_factory=lambda: _EMPTY)
    postings: Postings | None = None
    twin: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """bool[C]: another case has the same points in the same order, and the same case attributes."""
    _raw: list[Whole] = field(default_factory=list)
    _raw_cases: list[Whole] = field(default_factory=list)
    _final: bool = False

    @classmethod
    def build(
        cls,
        log: EventLog,
        seen: KnownColumns,
        *,
        joint: bool = True,
        final: bool = False,
    ) -> TraceIndex:
        """Build the index of one log.

        A `final` index follows no other log, and keeps no data for comparisons.

        Parameters
        ----------
        log
            The log.
        seen
            Columns that the adversary knows.
        joint
            Whether a point is an event with all its columns, rather than one column of it.
        final
            Whether the index follows no other log.
        """
        index = cls(PointCoder(seen, joint=joint), _final=final)
        index.update(log)
        return index

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return len(self.case_ids)

    @property
    def lengths(self) -> Ints:
        """Number of events of each case."""
        return np.diff(self.starts)

    def update(self, log: EventLog) -> int:
        """Follow the log: afterwards the index answers as a new index of `log` would.

        Cases are recognised by id; only those that grew or changed are coded and posted again.

        Parameters
        ----------
        log
            The log, usually with more events than the last one.

        Returns
        -------
        int
            The number of cases that grew or changed.

        Raises
        ------
        ValueError
            If the index is final.
        """
        if self._final and self.n_cases:
            raise ValueError("the index is final")
        raw, raw_cases = self.coder.raw_events(log), self.coder.raw_cases(log)
        former = self._former(log)
        changed = self._changed(log, raw, raw_cases, former)
        if not changed.any() and log.case_ids == self.case_ids and self.postings is not None:
            return 0
        self.postings = None  # made again, and as large as the log
        points = self._points(log, raw, former, changed)
        group = np.full(log.n_cases, -1, dtype=np.int64)
        if raw_cases:
            group[changed] = self.coder.groups([column[changed] for column in raw_cases])
        kept = ~changed
        group[kept] = self.group[former[kept]]
        self.case_ids, self.starts, self.points, self.group = log.case_ids, log.starts, points, group
        if self._final:
            raw, raw_cases = [], []
            self.coder.forget()  # of a log with times it is as large as the points
        self._raw, self._raw_cases = raw, raw_cases
        self.postings = post(points, log.starts, group, self.coder.size)
        self.twin = twins(points, log.starts, group)
        return int(changed.sum())

    def unique(self, take: Ints, rng: np.random.Generator) -> Flags:
        """Return whether each case is the only one that contains its known points, bool[C].

        Parameters
        ----------
        take
            int64[C], number of points of each case that are known, drawn at random.
        rng
            Draws the points.

        Raises
        ------
        InputError
            If `take` is not between 0 and the points of each case.
        """
        if self.postings is None or len(take) != self.n_cases or np.any((take < 0) | (take > self.lengths)):
            raise InputError("take must name, for each case, between 0 and all of its points")
        posted = self.postings
        revealed = Revealed(self.points, self.starts, self.group_items, take, self.twin, posted.alone)
        unique = np.empty(self.n_cases, dtype=np.bool_)
        drawn = starts_of(take)
        longest = int(self.lengths.max(initial=1))
        for begin, end in _blocks(drawn, DRAWN):
            unique_cases(
                revealed,
                rng.random(int(drawn[end] - drawn[begin])),
                posted.base,
                posted.offsets,
                posted.cases,
                posted.row,
                posted.bits,
                longest,
                begin,
                unique[begin:end],
            )
        return unique

    @property
    def group_items(self) -> Ints:
        """int64[C]: item of the case attributes of each case, -1 without any."""
        if self.postings is None:
            return _EMPTY
        return np.where(self.group >= 0, self.postings.base[self.group], -1).astype(np.int64)

    def _points(self, log: EventLog, raw: list[Whole], former: Ints, changed: Flags) -> npt.NDArray[np.int32]:
        """Points of the log's events: those of the changed cases are coded, the others are known."""
        if changed.all():
            return self.coder.points(raw, log.n_events)
        points = np.zeros((log.n_events, 1 if self.coder.joint else len(raw)), dtype=np.int32)
        events, kept = np.repeat(changed, log.lengths), np.flatnonzero(~changed)
        points[events] = self.coder.points([column[events] for column in raw], int(np.count_nonzero(events)))
        points[~events] = self.points[places_of(self.starts, former[kept])[1]]
        return points

    def _former(self, log: EventLog) -> Ints:
        """Place of each case so far, -1 for new ones."""
        size = self.n_cases
        if log.case_ids[:size] == self.case_ids:
            return np.where(np.arange(log.n_cases) < size, np.arange(log.n_cases), -1)
        number = {name: k for k, name in enumerate(self.case_ids)}
        return np.asarray([number.get(name, -1) for name in log.case_ids], dtype=np.int64)

    def _changed(self, log: EventLog, raw: list[Whole], raw_cases: list[Whole], former: Ints) -> Flags:
        """Cases whose points or attributes are not what they were."""
        changed = former < 0
        unchanged = np.flatnonzero(~changed)
        changed[unchanged] = log.lengths[unchanged] != self.lengths[former[unchanged]]
        for column, before in zip(raw_cases, self._raw_cases, strict=False):
            unchanged = np.flatnonzero(~changed)
            changed[unchanged] = column[unchanged] != before[former[unchanged]]
        for column, before in zip(raw, self._raw, strict=False):
            mark_different(*alike(column, before), log.starts, self.starts, former, changed)
        return changed


def _blocks(drawn: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Cases begin .. end-1 after each other, with at most so many draws together, or a single case."""
    begin, cases = 0, len(drawn) - 1
    while begin < cases:
        end = max(int(np.searchsorted(drawn, drawn[begin] + most, side="right")) - 1, begin + 1)
        yield begin, end
        begin = end


def alike(first: Whole, other: Whole) -> tuple[Whole, Whole]:
    """Return both as int32, or both as int64 if either is.

    Parameters
    ----------
    first, other
        Arrays of int32 or int64.
    """
    if first.dtype == other.dtype:
        return first, other
    return first.astype(np.int64), other.astype(np.int64)


def twins(points: Codes, starts: Ints, group: Ints) -> Flags:
    """Return the cases that equal another one in all points and in the group, bool[C].

    The other one contains everything that they reveal.

    Parameters
    ----------
    points
        int[E, columns], coded points of the events.
    starts
        int64[C + 1], where the events of each case begin.
    group
        int64[C], code of the case attributes; -1: none.
    """
    digest = np.empty(len(group), dtype=np.uint64)
    digests(points, starts, group, digest)
    twin = np.zeros(len(group), dtype=np.bool_)
    if mark_equal(points, starts, group, digest, np.argsort(digest), twin):
        return twin
    return _counted_twins(points, starts, group)  # two digests are equal, and what they are of is not


def _counted_twins(points: Codes, starts: Ints, group: Ints) -> Flags:
    """Count the twins by the points themselves."""
    data, width = np.ascontiguousarray(points).tobytes(), points.itemsize * points.shape[1]
    ends = (starts * width).tolist()
    keys = []
    for (begin, end), group_of_case in zip(pairwise(ends), group.tolist(), strict=True):
        keys.append((data[begin:end], group_of_case))
    counts = Counter(keys)
    return np.asarray([counts[key] > 1 for key in keys], dtype=np.bool_)


def post(points: Codes, starts: Ints, group: Ints, size: int) -> Postings:
    """Return the cases by item; the group of a case is a point of rank 1.

    Parameters
    ----------
    points, starts, group
        As of `twins`.
    size
        Points and groups are below it.

    Raises
    ------
    InputError
        If the index would hold more than 2^31 entries.
    """
    entries = points.size + int(np.count_nonzero(group >= 0))
    if entries > np.iinfo(np.int32).max:
        raise InputError(f"{entries} points are more than an index of their cases holds")
    most, item = np.zeros(size, dtype=np.int32), np.empty(points.shape, dtype=np.int32)
    number_ranks(points, starts, group, item, most)
    base = starts_of(most).astype(np.int32)
    del most
    support = np.zeros(base[-1], dtype=np.int32)
    count_items(points, group, base, item, support)
    offsets = starts_of(support).astype(np.int32)
    words = (len(group) + 63) // 64
    dense = support.astype(np.int64) * DENSITY > words
    row = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int32)
    bits = np.zeros((int(dense.sum()), words), dtype=np.uint64)
    cases = np.empty(entries, dtype=np.int32)
    alone = np.zeros(len(points), dtype=np.bool_)
    place_cases(points, starts, group, base, item, support, offsets[:-1].copy(), cases, row, bits, alone)
    return Postings(base, offsets, cases, row, bits, alone)


# Compiled kernels that make an index: in time linear in the events, without a sort of them.


@kernel
def mark_different(
    column: Whole, before: Whole, starts: Ints, starts_before: Ints, former: Ints, changed: Flags
) -> None:
    """Mark the cases with a changed event.

    Of a case that is not marked yet, as many events are known from before (case `former[c]`).

    Parameters
    ----------
    column, before
        Value of each event, of this log and of the log before.
    starts, starts_before
        Place of the first event of each case, in this log and in the log before.
    former
        int64[C], the case before that each case continues.
    changed
        bool[C]; cases with a changed event become true.
    """
    for case in range(len(changed)):
        if changed[case]:
            continue
        behind = starts_before[former[case]] - starts[case]
        for event in range(starts[case], starts[case + 1]):
            if column[event] != before[event + behind]:
                changed[case] = True
                break


@kernel
def number_ranks(points: Codes, starts: Ints, group: Ints, rank: Codes, most: Codes) -> None:
    """Count how often points occur within a case.

    Parameters
    ----------
    points
        int32[E, columns], points of each event.
    starts
        int64[C + 1], where the events of each case begin.
    group
        int64[C], point of the case attributes of each case, -1 if none are known.
    rank
        int32[E, columns], set to how often the case had the point of an event before.
    most
        int32[points], raised to how often a case has each point at most.
    """
    last, had = np.full(len(most), -1, dtype=np.int32), np.zeros(len(most), dtype=np.int32)
    for case in range(len(group)):
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                point = points[event, column]
                if last[point] != case:
                    last[point] = case
                    had[point] = 0
                rank[event, column] = had[point]
                had[point] += 1
                if had[point] > most[point]:
                    most[point] = had[point]
        if group[case] >= 0 and most[group[case]] == 0:
            most[group[case]] = 1


@kernel
def count_items(points: Codes, group: Ints, base: Codes, item: Codes, support: Codes) -> None:
    """Set the items of all events, and count the cases that have each.

    An item is a point at its k-th occurrence within a case.

    Parameters
    ----------
    points
        int32[E, columns], points of each event.
    group
        int64[C], point of the case attributes of each case, -1 if none are known.
    base
        int32[points], number of the first item of each point.
    item
        int32[E, columns], ranks, which become items here.
    support
        int32[items], raised to the cases of each item.
    """
    for event in range(len(points)):
        for column in range(points.shape[1]):
            item[event, column] += base[points[event, column]]
            support[item[event, column]] += 1
    for case in range(len(group)):
        if group[case] >= 0:
            support[base[group[case]]] += 1


@kernel
def place_cases(
    points: Codes, starts: Ints, group: Ints, base: Codes, item: Codes, support: Codes, free: Codes, cases: Codes,
    row: Codes, bits: Words, alone: Flags,
) -> None:  # fmt: skip
    """Write each case under its items and into their bitsets, and mark events that belong to no other case.

    Parameters
    ----------
    points, starts, group, base
        As `count_items` and `number_ranks` take them.
    item
        int32[E, columns], items of each event.
    support
        int32[items], cases of each item.
    free
        int32[items], next free place of each item in `cases`; moved here.
    cases
        int32, posting lists of all items, end to end; filled here.
    row
        int32[items], row of `bits` for an item that has a bitset, -1 for the others.
    bits
        uint64[rows, words], a bit for each case; filled here.
    alone
        bool[E], events with a point that no other case has; filled here.
    """
    for case in range(len(group)):
        word, bit = case >> 6, np.uint64(1) << np.uint64(case & 63)
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                point = item[event, column]
                cases[free[point]] = case
                free[point] += 1
                if row[point] >= 0:
                    bits[row[point], word] |= bit
                if support[base[points[event, column]]] == 1:
                    alone[event] = True
        if group[case] >= 0:
            point = base[group[case]]
            cases[free[point]] = case
            free[point] += 1
            if row[point] >= 0:
                bits[row[point], word] |= bit


@kernel
@wraps_around
def digests(points: Codes, starts: Ints, group: Ints, digest: Words) -> None:
    """Set a number for each case that is equal for equal points in equal order and group.

    Different cases seldom share a number.

    Parameters
    ----------
    points, starts, group
        As `number_ranks` takes them.
    digest
        uint64[C], filled here.
    """
    prime, fold = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
    for case in range(len(group)):
        value = np.uint64(group[case] + 1)
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                value = (value ^ np.uint64(points[event, column] + 1)) * prime
                value ^= value >> fold
        digest[case] = value


@kernel
def mark_equal(points: Codes, starts: Ints, group: Ints, digest: Words, order: Ints, twin: Flags) -> bool:
    """Mark the cases that another one equals.

    Parameters
    ----------
    points, starts, group
        As `number_ranks` takes them.
    digest
        uint64[C], from `digests`.
    order
        int64[C], cases by digest.
    twin
        bool[C], filled here.

    Returns
    -------
    bool
        False if two different cases share a digest. `twin` is then incomplete.
    """
    for place in range(1, len(order)):
        first, second = order[place - 1], order[place]
        if digest[first] != digest[second]:
            continue
        length = starts[first + 1] - starts[first]
        if group[first] != group[second] or starts[second + 1] - starts[second] != length:
            return False
        for k in range(length):
            for column in range(points.shape[1]):
                if points[starts[first] + k, column] != points[starts[second] + k, column]:
                    return False
        twin[first] = True
        twin[second] = True
    return True
