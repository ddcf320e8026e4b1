"""The index that answers "is this case the only one that contains these points" in microseconds.

Source: reidentification-risk-2020, equation 2, with postings by (point, occurrence rank); see `models.risk.matching`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.eventlog import Codes, EventLog, Ints
from models.risk.points import Matrix, PointCoder, View, Whole

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
    cases: Codes
    row: Ints
    bits: Words

    def entries(self) -> Entries:
        """What was posted."""
        point_of = np.repeat(np.arange(len(self.base) - 1, dtype=np.int32), np.diff(self.base))
        rank_of = (np.arange(len(point_of)) - self.base[point_of]).astype(np.int32)
        each = np.diff(self.offsets)
        return Entries(np.repeat(point_of, each), np.repeat(rank_of, each), self.cases)


@dataclass(frozen=True, slots=True)
class Entries:
    """int32[entries] each: a case has the point at least rank + 1 times."""

    point: Codes
    rank: Codes
    case: Codes

    def and_(self, other: Entries) -> Entries:
        """These and the other ones."""
        return Entries(
            np.concatenate((self.point, other.point)),
            np.concatenate((self.rank, other.rank)),
            np.concatenate((self.case, other.case)),
        )


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
    _raw: Whole = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    _raw_cases: Whole = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

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
        points = np.zeros((log.n_events, self._width(raw)), dtype=np.int32)
        points[events] = self.coder.points(raw[events])
        group = np.full(log.n_cases, -1, dtype=np.int64)
        if raw_cases.shape[1]:
            group[changed] = self.coder.groups(raw_cases[changed])
        kept = np.flatnonzero(~changed)
        points[~events] = self.points[_rows_of(self.starts, former[kept])]
        group[kept] = self.group[former[kept]]
        entries = self._merge(_entries(points, log.starts, group, changed, self.coder.size), former, changed)
        self.case_ids, self.starts, self.points, self.group = log.case_ids, log.starts, points, group
        self._raw, self._raw_cases = _narrow(raw), _narrow(raw_cases)
        del raw
        self.postings = _post(entries, self.coder.size, log.n_cases)
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

    def _merge(self, fresh: Entries, former: Ints, changed: Flags) -> Entries:
        """Entries of the unchanged cases under their present numbers, and the fresh ones."""
        if self.postings is None:
            return fresh
        present = np.full(self.n_cases + 1, -1, dtype=np.int32)
        present[former[~changed]] = np.flatnonzero(~changed)
        before, self.postings = self.postings.entries(), None
        case = present[before.case]
        stays = case >= 0
        return Entries(before.point[stays], before.rank[stays], case[stays]).and_(fresh)


def _narrow(numbers: Matrix) -> Whole:
    """The numbers as int32 where all of them fit."""
    bounds = np.iinfo(np.int32)
    fits = bounds.min <= int(numbers.min(initial=0)) and int(numbers.max(initial=0)) <= bounds.max
    return numbers.astype(np.int32) if fits else numbers


def _rows_of(starts: Ints, cases: Ints) -> Ints:
    """Rows of the events of the given cases, case after case."""
    lengths = np.diff(starts)[cases]
    begins = np.concatenate(([0], np.cumsum(lengths)))
    return np.repeat(starts[cases] - begins[:-1], lengths) + np.arange(begins[-1])


def _twins(points: Codes, starts: Ints, group: Ints) -> Flags:
    """Cases that another one equals, point by point and in its group: it contains whatever they reveal."""
    data, width = np.ascontiguousarray(points).tobytes(), points.itemsize * points.shape[1]
    ends = (starts * width).tolist()
    keys = [(data[a:b], own) for a, b, own in zip(ends, ends[1:], group.tolist(), strict=False)]
    counts = Counter(keys)
    return np.asarray([counts[key] > 1 for key in keys], dtype=np.bool_)


def _entries(points: Codes, starts: Ints, group: Ints, chosen: Flags, size: int) -> Entries:
    """Entries of the chosen cases; the group of a case is a point of rank 0. `size`: points are below it."""
    cases = np.repeat(np.arange(len(chosen)), np.diff(starts))
    rows = chosen[cases]
    keys = np.repeat(cases[rows] * size, points.shape[1]) + points[rows].ravel()
    keys.sort()
    new = np.ones(len(keys), dtype=bool)
    new[1:] = keys[1:] != keys[:-1]
    begins = np.flatnonzero(new)
    rank = np.arange(len(keys)) - np.repeat(begins, np.diff(np.append(begins, len(keys))))
    case, point = np.divmod(keys, size) if size else (keys, keys)
    grouped = np.flatnonzero(chosen & (group >= 0))
    own = Entries(point.astype(np.int32), rank.astype(np.int32), case.astype(np.int32))
    none = np.zeros(len(grouped), dtype=np.int32)
    return own.and_(Entries(group[grouped].astype(np.int32), none, grouped.astype(np.int32)))


def _post(entries: Entries, points: int, cases: int) -> Postings:
    ranks = np.zeros(points + 1, dtype=np.int64)
    np.maximum.at(ranks, entries.point + 1, entries.rank + 1)
    base = np.cumsum(ranks)
    keys = (base[entries.point] + entries.rank) * max(cases, 1) + entries.case
    keys.sort()
    item, case = np.divmod(keys, max(cases, 1))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(item, minlength=base[-1])))).astype(np.int64)
    case = case.astype(np.int32)
    row, bits = _bitsets(offsets, case, cases)
    return Postings(base, offsets, case, row, bits)


def _bitsets(offsets: Ints, case: Codes, cases: int) -> tuple[Ints, Words]:
    """Bitsets of the frequent items, beside their lists: 64 cases at a time, and a bit needs no search."""
    words = (cases + 63) // 64
    support = np.diff(offsets)
    dense = support * DENSITY > words
    row = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int64)
    bits = np.zeros((int(dense.sum()), words), dtype=np.uint64)
    line = np.repeat(row.astype(np.int32), support)
    chosen = line >= 0
    flat = line[chosen].astype(np.int64) * words + (case[chosen] >> 6)
    np.bitwise_or.at(bits.ravel(), flat, np.left_shift(np.uint64(1), (case[chosen] & 63).astype(np.uint64)))
    return row, bits
