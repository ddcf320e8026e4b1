"""Times worth mining that are bound to nobody: univariate microaggregation of starts and of elapsed times.

The starts of the released cases, and for each directly-follows pair of the *released* log the times that passed, are
sorted and grouped into runs that hold at least K cases (after MDAV: Domingo-Ferrer and Mateo-Sanz 2002, whose groups
are runs in one dimension; here a run counts cases, as one case can bear a pair several times). Each run is replaced by
its mean, and the means are dealt out at random among all who bear the pair. Pairs that fewer than K cases bear are
pooled by their second activity, and what is left of them together; a pool of fewer than K cases takes a mean of pairs
that are published anyway. (A mean over rare and frequent pairs together would tell the rare times: the sums of the
frequent ones are public.)

No published time is after `latest`, the moment of the cut. Elapsed times are dealt out first. The starts are then dealt
out so that each case ends by `latest`: uniformly among all arrangements that do so. A case for which no start is left
that is early enough ends at the latest of the published starts instead. Both steps read nothing but `latest` and what
is published anyway (traces, and the means in sorted order), so they add nothing about the times of a single case.

Promise: each published start and each published elapsed time is made of means over at least K released cases, no two of
which share a case's time, and which case shows it is drawn at random. (The start of a case that was moved back is one
such start less the elapsed times that the case shows.) Sums per pair of at least K cases are kept but for rounding, and
so are performance maps. Cohorts: see `microaggregated_after`.
Relation: linkage of one case by a time of its own; unit: one case. Not guaranteed: against who knows how many cases had
such a time, or the times of all the others of a run; what a time tells of the whole group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.content_free import content_free
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Unit

STEP = 1_000
"""Nanoseconds that means of elapsed times are rounded to. A millisecond bends the means of quick pairs: on BPIC 2012
some take .3 ms, as most of their events have equal times."""

Below = Callable[[int], int]
"""A uniformly random number of 0..n-1."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What is not yet disclosed of one directly-follows pair: `cases` that bear it, fewer than K unless a debt below 0
    is left of them, and how many `events`; `owed`: their true times less what was shown in their place (ns); `mean`:
    what was disclosed last of the pair (ns), None: nothing."""

    cases: int = 0
    events: int = 0
    owed: int = 0
    mean: int | None = None


Pair = tuple[Any, Any]


def microaggregated(log: EventLog, K: int, T: Unit, below: Below, *, latest: int | None = None) -> Ints:
    """Return the published time of each event, int64[E] nanoseconds.

    Parameters
    ----------
    log : EventLog
        The released cases and events, with their true times.
    K : int
        Least number of cases in a mean.
    T : Unit
        Unit of the published starts.
    below : Below
        Source of uniformly random numbers.
    latest : int, optional
        Moment of the cut (ns). No published time is after it. The newest event of the log if not given.

    Raises
    ------
    ValueError
        If the log has fewer than K cases: there is nothing to hide among.
    """
    return _clocks(log, _elapsed(log, K, below), K, T, below, latest)


def microaggregated_after(
    log: EventLog, K: int, T: Unit, below: Below, before: Mapping[Pair, Pending], *, latest: int | None = None
) -> tuple[Ints, dict[Pair, Pending]]:
    """The same for a cohort that joins others, and what is then not yet disclosed. `before`: what it was.

    A pair of fewer than K cases shows what was last disclosed of it, else 0 (too much could not be taken back), and is
    owed the difference. Once K cases whose times no mean counts yet have it, here and in cohorts before, their sum is
    disclosed: the events of this cohort take what was owed on themselves, and all that was shown of the pair adds up to
    the truth. So every case is counted in one mean only, and no two means differ by fewer than K cases.
    """
    passed, pending = _after(log, K, below, before)
    return _clocks(log, passed, K, T, below, latest), pending


def _clocks(log: EventLog, elapsed: Ints, K: int, T: Unit, below: Below, latest: int | None) -> Ints:
    """Times of events, from starts that are dealt out here and elapsed times (0 for the first event of a case)."""
    if log.n_cases < K:
        raise ValueError(f"{log.n_cases} cases cannot stand for K = {K}")
    lengths = log.lengths[log.lengths > 0]
    first = log.starts[:-1][log.lengths > 0]
    if not len(first):
        return elapsed
    total = np.cumsum(elapsed)
    since_start = total - np.repeat(total[first], lengths)
    durations = since_start[first + lengths - 1]
    starts = _starts(log.time[first], K, NANOSECONDS[T])
    if latest is None:
        latest = int(log.time.max())
    dealt = _dealt_in_time(starts, durations, latest, NANOSECONDS[T], below)
    return np.asarray(since_start + np.repeat(dealt, lengths), dtype=np.int64)


def _starts(time: Ints, K: int, unit: int) -> Ints:
    """Starts of cases, ascending, each the mean of its run."""
    ticks = time // unit
    return _means(ticks, np.arange(len(ticks)), K, 1) * unit


def _dealt_in_time(starts: Ints, durations: Ints, latest: int, unit: int, below: Below) -> Ints:
    """Deal ascending `starts` out so that each start plus the duration of its case is at most `latest`.

    The longest case chooses first. Every start that it can have is also early enough for all cases after it, so a
    uniform choice at each step gives a uniform choice among all arrangements that fit.
    """
    cases = _dealt(np.arange(len(durations)), below)  # the order of cases of equal duration must say nothing
    longest_first = cases[np.argsort(-durations[cases], kind="stable")]
    dealt = np.empty(len(durations), dtype=np.int64)
    open_starts: list[int] = []
    offered = 0
    without: list[int] = []
    for case in longest_first.tolist():
        while offered < len(starts) and starts[offered] + durations[case] <= latest:
            open_starts.append(int(starts[offered]))
            offered += 1
        if not open_starts:
            without.append(case)
            continue
        chosen = below(len(open_starts))
        dealt[case] = open_starts[chosen]
        open_starts[chosen] = open_starts[-1]
        open_starts.pop()
    # Ending exactly at `latest` would publish the moment of the cut, which can be the time of one event.
    last_start = min(int(starts[-1]), latest // unit * unit)
    dealt[without] = last_start - durations[without]
    return dealt


@content_free()
@dataclass(frozen=True, slots=True)
class _Steps:
    """The directly-follows steps of a log: `event` that ends each, time `passed`, `case`, code of the `target`;
    `groups`: steps of each pair, `places`."""

    event: Ints
    passed: Ints
    case: Ints
    target: Ints
    groups: list[Ints]

    @classmethod
    def of(cls, log: EventLog) -> _Steps:
        follows = np.ones(log.n_events, dtype=np.bool_)
        follows[log.starts[:-1][log.lengths > 0]] = False
        event = np.flatnonzero(follows)
        target = log.activity.codes[event].astype(np.int64)
        pairs = log.activity.codes[event - 1].astype(np.int64) * (len(log.activity.values) + 1) + target
        passed = log.time[event] - log.time[event - 1]
        return cls(event, passed, log.case_of_event[event], target, _groups(pairs) if len(event) else [])

    def bearers(self, places: Ints) -> int:
        """Cases of some steps."""
        return len(np.unique(self.case[places]))

    def mean(self, places: Ints) -> int:
        """Mean time of some steps."""
        return _rounded(int(self.passed[places].sum()), len(places), STEP)


def _elapsed(log: EventLog, K: int, below: Below) -> Ints:
    """Time since the event before, int64[E], by pair; 0 for the first of a case.

    Pairs of fewer than K cases are pooled by their second activity, and what is then left with each other. A pool of
    K cases takes its mean; else nothing of it is told: it takes the mean of the pairs to its activity that are.
    """
    steps, result = _Steps.of(log), np.zeros(log.n_events, dtype=np.int64)
    many = [steps.bearers(places) >= K for places in steps.groups]
    for places in itertools.compress(steps.groups, many):
        result[steps.event[places]] = _dealt(_means(steps.passed[places], steps.case[places], K, STEP), below)
    told = _joined(list(itertools.compress(steps.groups, many)))
    rare = _joined([places for places, enough in zip(steps.groups, many, strict=True) if not enough])
    left = []
    for pool in (rare[steps.target[rare] == one] for one in np.unique(steps.target[rare])):
        if steps.bearers(pool) >= K:
            result[steps.event[pool]] = steps.mean(pool)
        else:
            left.append(pool)
    rest = _joined(left)
    enough = steps.bearers(rest) >= K
    for pool in left:
        result[steps.event[pool]] = steps.mean(rest) if enough else _instead(steps, told, int(steps.target[pool[0]]))
    return result


def _instead(steps: _Steps, told: Ints, target: int) -> int:
    """What a pair shows of which nothing may be told: the mean of the disclosed steps `told` to its second activity,
    of all of them, or 0."""
    same = told[steps.target[told] == target]
    return steps.mean(same) if len(same) else steps.mean(told) if len(told) else 0


def _after(log: EventLog, K: int, below: Below, before: Mapping[Pair, Pending]) -> tuple[Ints, dict[Pair, Pending]]:
    steps, result = _Steps.of(log), np.zeros(log.n_events, dtype=np.int64)
    pending, names = dict(before), log.activity.values
    for places in steps.groups:
        end = int(steps.event[places[0]])
        pair = names[int(log.activity.codes[end - 1])], names[int(log.activity.codes[end])]
        was, mine = pending.get(pair, Pending()), steps.bearers(places)
        cases, events = was.cases + mine, was.events + len(places)
        mean, owed = was.mean, was.owed + int(steps.passed[places].sum())
        if cases < K:
            values = np.full(len(places), mean or 0, dtype=np.int64)
        else:
            values = _repaid(steps, places, K, owed, below, alone=mine >= K)
            mean = max(0, owed + was.events * (mean or 0)) // events
        result[steps.event[places]] = values
        owed -= int(values.sum())
        left = cases < K or owed < -STEP * len(places)
        pending[pair] = Pending(cases, events, owed, mean) if left else Pending(mean=mean)
    return result, pending


def _repaid(steps: _Steps, places: Ints, K: int, owed: int, below: Below, *, alone: bool) -> Ints:
    """Values that add up to what is owed, none below 0: means of runs stretched to it where the steps are of K cases,
    else equal ones."""
    total = int(steps.passed[places].sum())
    if owed <= 0 or not alone or not total:
        return np.full(len(places), _rounded(max(0, owed), len(places), STEP))
    means = _means(steps.passed[places], steps.case[places], K, STEP)
    return _dealt(np.asarray([_rounded(int(one) * owed, total, STEP) for one in means.tolist()]), below)


def _joined(groups: Sequence[Ints]) -> Ints:
    return np.concatenate([*groups, np.empty(0, dtype=np.int64)])


def _groups(keys: Ints) -> list[Ints]:
    order = np.argsort(keys, kind="stable")
    return [np.asarray(part) for part in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)]


def _means(values: Ints, case: Ints, K: int, step: int) -> Ints:
    """The mean of each value's run, in whole steps, ascending. All values together are of at least K cases."""
    order = np.argsort(values, kind="stable")
    result = np.empty(len(values), dtype=np.int64)
    for first, last in runs(values[order].tolist(), case[order].tolist(), K):
        part = values[order[first:last]]
        result[first:last] = _rounded(int(part.sum()), last - first, step)
    return result


def _rounded(total: int, count: int, step: int) -> int:
    """total / count to the nearest whole step."""
    return (2 * total + count * step) // (2 * count * step) * step


def runs(values: list[int], case: list[Any], K: int) -> list[tuple[int, int]]:
    """Runs of ascending values, each of at least K distinct cases: from the end that is farther from the mean of what
    is left, as few values as hold K cases, as long as what is left then holds K cases too."""
    left: dict[Any, int] = {}
    for one in case:
        left[one] = left.get(one, 0) + 1
    low, high, total = 0, len(values), sum(values)
    found: list[tuple[int, int]] = []
    while low < high:
        count = high - low
        upward = total - values[low] * count >= values[high - 1] * count - total
        inside, place = set[Any](), low if upward else high - 1
        taken = 0
        while 0 <= place - low < count and len(inside) < K:
            inside.add(case[place])
            left[case[place]] -= 1
            if not left[case[place]]:
                del left[case[place]]
            taken += values[place]
            place += 1 if upward else -1
        if len(left) < K:
            found.append((low, high))
            break
        found.append((low, place) if upward else (place + 1, high))
        low, high, total = (place, high, total - taken) if upward else (low, place + 1, total - taken)
    return sorted(found)


def _dealt(values: Ints, below: Below) -> Ints:
    """The values in uniformly random order (Fisher-Yates)."""
    order = values.tolist()
    for last in range(len(order) - 1, 0, -1):
        other = below(last + 1)
        order[last], order[other] = order[other], order[last]
    return np.asarray(order, dtype=np.int64)
