"""The attack by true events: look for a person in a release, knowing true events of that person.

Uniqueness (equation 2 of reidentification-risk-2020) draws the known points from the record that it looks for, so it
counts every released value as known. Where released times are artificial, nobody knows those. Here the points are drawn
from the person's true events, and looked for in the release as it is.

Measured, never a guarantee: points are drawn at random, and the adversary takes a record only if it has all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.content_free import content_free
from models.eventlog import EventLog, Ints
from models.knowledge import Unit
from models.risk.points import ACTIVITY, TIME, KnownColumns, PointCoder
from models.risk.uniqueness import Points, known

MOST_PERSONS = 400
"""Persons that are looked for, at most: a share of them then has a standard error of at most .025."""


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of the persons for one amount of knowledge `m`; they add up to 1.

    `right`: one record fits, and it is theirs; `wrong`: one record fits, and it is another's; `several` records fit;
    `none` fits.
    """

    m: Points
    persons: int
    right: float
    wrong: float
    several: float
    none: float


def looked_for(
    true: EventLog,
    released: EventLog,
    origin: Ints,
    amounts: Sequence[Points],
    unit: Unit | None,
    rng: np.random.Generator,
) -> list[Found]:
    """Look for persons in a release by true events of theirs.

    Parameters
    ----------
    true : EventLog
        The source, with true times, removed events included.
    released : EventLog
        The release.
    origin : Ints
        int64[released cases], case of `true`; -1 for a record that is no one case.
    amounts : sequence of Points
        How many events are known, or which share of them.
    unit : Unit or None
        Accuracy of the known times; None: only activities are known.
    rng : numpy.random.Generator
        Draws the persons and the known events.

    Returns
    -------
    list of Found
        One for each amount; empty if no record is one case of the source.
    """
    records = np.flatnonzero(origin >= 0)
    if not len(records):
        return []
    chosen = rng.choice(records, size=min(MOST_PERSONS, len(records)), replace=False)
    columns = (ACTIVITY,) if unit is None else (ACTIVITY, TIME)
    coder = PointCoder(KnownColumns(columns, (), unit or "seconds"), joint=True)
    true_points, released_points = _points(coder, true), _points(coder, released)
    index = _PointIndex.of(released_points, released.case_of_event)
    return [_found(m, true, true_points, index, chosen, origin, rng) for m in amounts]


def _points(coder: PointCoder, log: EventLog) -> Ints:
    """Points of the events of a log by UTC: a release has no clock of its own, and the adversary can convert."""
    raw = coder.raw_events(replace(log, offset=None))
    return np.asarray(coder.points(raw, log.n_events)[:, 0], dtype=np.int64)


@content_free("width")
@dataclass(frozen=True, slots=True)
class _PointIndex:
    """Released cases by (point, how often): a case that has a point three times is listed for 1, 2 and 3."""

    keys: Ints
    cases: Ints
    width: int

    @classmethod
    def of(cls, points: Ints, case: Ints) -> _PointIndex:
        order = np.lexsort((points, case))
        sorted_points, sorted_cases = points[order], case[order]
        new_run = np.ones(len(order), dtype=np.bool_)
        new_run[1:] = (np.diff(sorted_points) != 0) | (np.diff(sorted_cases) != 0)
        run_begin = np.maximum.accumulate(np.where(new_run, np.arange(len(order)), 0))
        rank = np.arange(len(order)) - run_begin + 1
        width = int(rank.max(initial=0)) + 1
        keys = sorted_points * width + rank
        by_key = np.argsort(keys, kind="stable")
        return cls(keys[by_key], sorted_cases[by_key], width)

    def having(self, point: int, times: int) -> Ints:
        """Cases with a point at least so many times, ascending."""
        if times >= self.width:
            return self.cases[:0]
        key = point * self.width + times
        return self.cases[np.searchsorted(self.keys, key) : np.searchsorted(self.keys, key, side="right")]


def _found(
    m: Points, true: EventLog, points: Ints, index: _PointIndex, chosen: Ints, origin: Ints, rng: np.random.Generator
) -> Found:
    take = known(true.lengths, m)
    outcomes = Counter[str]()
    for record in chosen.tolist():
        person = int(origin[record])
        events = np.arange(true.starts[person], true.starts[person + 1])
        drawn = rng.choice(events, size=int(take[person]), replace=False)
        postings = [index.having(point, times) for point, times in Counter(points[drawn].tolist()).items()]
        outcomes[_outcome(_common(postings), record)] += 1
    shares = {name: outcomes[name] / len(chosen) for name in ("right", "wrong", "several", "none")}
    return Found(m, len(chosen), **shares)


def _common(postings: list[Ints]) -> Ints | None:
    """Return the cases that all postings (ascending) contain; None without postings.

    The shortest one comes first: the rest of the work is one search for each of its cases.
    """
    if not postings:
        return None
    shortest, *others = sorted(postings, key=len)
    cases = shortest
    for posting in others:
        if not len(cases):
            break
        place = np.searchsorted(posting, cases)  # the posting is as long as `cases` or longer, so it is not empty
        cases = cases[posting[np.minimum(place, len(posting) - 1)] == cases]
    return cases


def _outcome(candidates: Ints | None, record: int) -> str:
    if candidates is None or len(candidates) > 1:
        return "several"
    if not len(candidates):
        return "none"
    return "right" if int(candidates[0]) == record else "wrong"
