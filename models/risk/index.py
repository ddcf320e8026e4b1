"""The index that answers "is this case the only one that contains these points" in microseconds.

Source: reidentification-risk-2020, equation 2, with postings by (point, occurrence rank); see `models.risk.matching`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.eventlog import EventLog, Ints
from models.risk.points import Matrix, PointCoder, View

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

DENSITY = 8
"""An item is a bitset too from an eighth of the length on at which list and bitset are equally long: bounds the bitsets
to eight times the memory of the lists. It is a rule of length alone, so where the rarest of some items is a bitset, all
of them are (`models.risk.matching`)."""

_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Postings:
    """Cases by item. `base[p]`: item of point p at rank 1; cases of item i are `cases[offsets[i]:offsets[i+1]]`,
    ascending; `row[i]`: line of item i in `bits`, -1 for rare items."""

    base: Ints
    offsets: Ints
    cases: Ints
    row: Ints
    bits: Words


@dataclass(slots=True)
class TraceIndex:
    """Traces of a log as an adversary with a given view sees them, kept up to date by `update`.

    * `points`: int64[E, k], point codes of each event (k = 1 joint, one a column otherwise);
    * `starts`: int64[C + 1]; `group`: int64[C], code of the case attributes, -1 without any.
    """

    coder: PointCoder
    case_ids: tuple[str, ...] = ()
    starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    points: Matrix = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))
    group: Ints = field(default_factory=lambda: _EMPTY)
    postings: Postings | None = None
    twin: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """bool[C]: another case has the same points in the same order, and the same case attributes."""
    _raw: Matrix = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    _raw_cases: Matrix = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    _entries: Matrix = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))

    @classmethod
    def build(cls, log: EventLog, seen: View, *, joint: bool = True) -> TraceIndex:
        """The index of one log."""
        index = cls(PointCoder(seen, joint=joint))
        index.update(log)
        return index

    @property
    def n_cases(self) -> int:
        return len(self.case_ids)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    def update(self, log: EventLog) -> int:
        """Follow the log: afterwards the index answers as a new one of `log` would. Cases are recognised by id; only
        those that grew or changed are coded and posted again. Returns how many did."""
        raw, raw_cases = self.coder.raw_events(log), self.coder.raw_cases(log)
        former = self._former(log)
        changed = self._changed(log, raw, raw_cases, former)
        if not changed.any() and log.case_ids == self.case_ids and self.postings is not None:
            return 0
        events = np.repeat(changed, log.lengths)
        points = np.zeros((log.n_events, self._width(raw)), dtype=np.int64)
        points[events] = self.coder.points(raw[events])
        group = np.full(log.n_cases, -1, dtype=np.int64)
        if raw_cases.shape[1]:
            group[changed] = self.coder.groups(raw_cases[changed])
        kept = np.flatnonzero(~changed)
        points[~events] = self.points[_rows_of(self.starts, former[kept])]
        group[kept] = self.group[former[kept]]
        self._entries = self._merge(_entries(points, log.starts, group, changed), former, changed)
        self.case_ids, self.starts, self.points, self.group = log.case_ids, log.starts, points, group
        self._raw, self._raw_cases = raw, raw_cases
        self.postings = _post(self._entries, self.coder.size, log.n_cases)
        self.twin = _twins(points, log.starts, group)
        return int(changed.sum())

    def unique(self, take: Ints, rng: np.random.Generator) -> Flags:
        """bool[C]: whether case c is the only one that contains `take[c]` of its points, drawn at random."""
        from models.risk.matching import unique_cases

        if self.postings is None or len(take) != self.n_cases or np.any((take < 0) | (take > self.lengths)):
            raise InputError("take must name, for each case, between 0 and all of its points")
        posted = self.postings
        return unique_cases(
            self.points,
            self.starts,
            self.group_items,
            take,
            rng.random(int(take.sum())),
            self.twin,
            posted.base,
            posted.offsets,
            posted.cases,
            posted.row,
            posted.bits,
        )

    @property
    def group_items(self) -> Ints:
        """int64[C]: item of the case attributes of each case, -1 without any."""
        if self.postings is None:
            return _EMPTY
        return np.where(self.group >= 0, self.postings.base[self.group], -1)

    def _width(self, raw: Matrix) -> int:
        return 1 if self.coder.joint else raw.shape[1]

    def _former(self, log: EventLog) -> Ints:
        number = {name: k for k, name in enumerate(self.case_ids)}
        return np.asarray([number.get(name, -1) for name in log.case_ids], dtype=np.int64)

    def _changed(self, log: EventLog, raw: Matrix, raw_cases: Matrix, former: Ints) -> Flags:
        """Cases whose points or attributes are not what they were."""
        changed = former < 0
        known = np.flatnonzero(~changed)
        changed[known] = log.lengths[known] != self.lengths[former[known]]
        known = np.flatnonzero(~changed)
        if not len(known):
            return changed
        changed[known] = np.any(raw_cases[known] != self._raw_cases[former[known]], axis=1)
        differs = np.any(raw[_rows_of(log.starts, known)] != self._raw[_rows_of(self.starts, former[known])], axis=1)
        changed[np.repeat(known, log.lengths[known])[differs]] = True
        return changed

    def _merge(self, fresh: Matrix, former: Ints, changed: Flags) -> Matrix:
        """Entries of the unchanged cases under their present numbers, and the fresh ones."""
        if not len(self._entries):
            return fresh
        present = np.full(self.n_cases + 1, -1, dtype=np.int64)
        present[former[~changed]] = np.flatnonzero(~changed)
        moved = self._entries.copy()
        moved[:, 2] = present[moved[:, 2]]
        return np.concatenate((moved[moved[:, 2] >= 0], fresh))


def _rows_of(starts: Ints, cases: Ints) -> Ints:
    """Rows of the events of the given cases, case after case."""
    lengths = np.diff(starts)[cases]
    begins = np.concatenate(([0], np.cumsum(lengths)))
    return np.repeat(starts[cases] - begins[:-1], lengths) + np.arange(begins[-1])


def _twins(points: Matrix, starts: Ints, group: Ints) -> Flags:
    """Cases that another one equals, point by point and in its group: it contains whatever they reveal."""
    data, width = np.ascontiguousarray(points).tobytes(), points.itemsize * points.shape[1]
    ends = (starts * width).tolist()
    keys = [(data[a:b], own) for a, b, own in zip(ends, ends[1:], group.tolist(), strict=False)]
    counts = Counter(keys)
    return np.asarray([counts[key] > 1 for key in keys], dtype=np.bool_)


def _entries(points: Matrix, starts: Ints, group: Ints, chosen: Flags) -> Matrix:
    """int64[entries, 3]: (point, rank from 0, case) of the chosen cases; the group of a case is a point of rank 0."""
    cases = np.repeat(np.arange(len(chosen)), np.diff(starts))
    rows = chosen[cases]
    case = np.repeat(cases[rows], points.shape[1])
    point = points[rows].ravel()
    order = np.lexsort((point, case))
    case, point = case[order], point[order]
    new = np.ones(len(point), dtype=bool)
    new[1:] = (case[1:] != case[:-1]) | (point[1:] != point[:-1])
    begins = np.flatnonzero(new)
    rank = np.arange(len(point)) - np.repeat(begins, np.diff(np.append(begins, len(point))))
    grouped = np.flatnonzero(chosen & (group >= 0))
    groups = np.stack((group[grouped], np.zeros(len(grouped), dtype=np.int64), grouped), axis=1)
    return np.concatenate((np.stack((point, rank, case), axis=1), groups))


def _post(entries: Matrix, points: int, cases: int) -> Postings:
    point, rank, case = entries.T
    ranks = np.zeros(points + 1, dtype=np.int64)
    np.maximum.at(ranks, point + 1, rank + 1)
    base = np.cumsum(ranks)
    item = base[point] + rank
    keys = np.sort(item * max(cases, 1) + case)
    item, case = keys // max(cases, 1), keys % max(cases, 1)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(item, minlength=base[-1])))).astype(np.int64)
    row, bits = _bitsets(offsets, case, cases)
    return Postings(base, offsets, case, row, bits)


def _bitsets(offsets: Ints, case: Ints, cases: int) -> tuple[Ints, Words]:
    """Bitsets of the frequent items, beside their lists: 64 cases at a time, and a bit needs no search."""
    words = (cases + 63) // 64
    support = np.diff(offsets)
    dense = support * DENSITY > words
    row = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int64)
    bits = np.zeros((int(dense.sum()), words), dtype=np.uint64)
    line = np.repeat(row, support)
    chosen = line >= 0
    flat = line[chosen] * words + (case[chosen] >> 6)
    np.bitwise_or.at(bits.ravel(), flat, np.left_shift(np.uint64(1), (case[chosen] & 63).astype(np.uint64)))
    return row, bits
