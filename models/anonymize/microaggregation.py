"""Published times by univariate microaggregation: every time is a mean over at least K cases.

1. Starts of the released cases, and the times that passed in each directly-follows pair of the *released* log, are
   sorted and grouped into runs of at least K cases. A run counts cases, since one case can show a pair several times.
2. Each time of a run is replaced by the mean of the run.
3. The means of a pair are assigned at random to the events of that pair.

Pairs that fewer than K cases show are pooled by their second activity. The pools that are still too small are pooled
together. If the last pool has fewer than K cases too, it takes a mean of pairs that are published anyway. (A mean over
rare and frequent pairs together would reveal the rare times: the sums of the frequent ones are public.)

No published time is after `latest`, the moment of the cut. Elapsed times are assigned first. Starts are then assigned
so that each case ends by `latest`, uniformly among all assignments that do so. A case for which no start is early
enough ends at the latest of the published starts. Both steps read only `latest` and values that are published anyway
(traces, and the means in sorted order), so they reveal nothing more about the times of a single case.

Claim: each published start and each published elapsed time is computed from means over at least K released cases. No
two of these means share the time of a case, and the case that shows a mean is drawn at random. (The start of a case
that was moved back is one such start minus the elapsed times that the case shows.) Sums per pair of at least K cases
are kept up to rounding, and so are performance maps. For cohorts see `microaggregated_after`.

Relation: linkage of one case by one of its times. Unit: one case.

Not claimed: anything against an adversary who knows how many cases had such a time, or the times of all other cases of
a run; anything that a time reveals about the whole group.

References
----------
Domingo-Ferrer and Mateo-Sanz 2002 (MDAV; its groups are runs in one dimension).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.chance import in_random_order
from models.content_free import content_free
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Unit

STEP = 1_000
"""Nanoseconds that means of elapsed times are rounded to.

Whole milliseconds would change the means of quick pairs: on BPIC 2012 some take .3 ms, as most of their events have
equal times.
"""

Below = Callable[[int], int]
"""A uniformly random number of 0..n-1."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Times of one directly-follows pair that no published mean counts yet.

    Parameters
    ----------
    cases, events
        Cases that show the pair, and their events. Fewer than K cases, unless a negative debt of them is left.
    owed
        Their true times minus the times that were published in their place, in ns.
    mean
        Mean that was published last for the pair, in ns. None: no mean was published.
    """

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
    """Return the published times of a cohort that joins earlier ones, and the times that no mean counts yet.

    A pair of fewer than K cases shows the mean that was published last, or 0 (a larger value could not be taken back).
    The difference to its true times is owed. Once K cases whose times no mean counts yet show the pair, in this cohort
    and in earlier ones, their sum is disclosed: the events of this cohort include the owed time, so that all published
    times of the pair add up to the true sum. Therefore every case is counted in one mean only, and no two means differ
    by fewer than K cases.

    Parameters
    ----------
    log, K, T, below, latest
        As `microaggregated`.
    before
        The second value that the cohort before returned.

    Returns
    -------
    times
        int64[E], published time of each event in ns.
    pending
        State of each pair, for the next cohort.
    """
    passed, pending = _after(log, K, below, before)
    return _clocks(log, passed, K, T, below, latest), pending


def _clocks(log: EventLog, elapsed: Ints, K: int, T: Unit, below: Below, latest: int | None) -> Ints:
    """Return the times of events, from starts that are assigned here and elapsed times (0 for first events)."""
    if log.n_cases < K:
        raise ValueError(f"{log.n_cases} cases cannot represent K = {K}")
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
    """Return the published starts, ascending, each the mean of its run."""
    ticks = time // unit
    return _means(ticks, np.arange(len(ticks)), K, 1) * unit


def _dealt_in_time(starts: Ints, durations: Ints, latest: int, unit: int, below: Below) -> Ints:
    """Assign ascending `starts` so that each start plus the duration of its case is at most `latest`.

    The longest case chooses first. Every start that it can have is also early enough for all cases after it, so a
    uniform choice at each step gives a uniform choice among all arrangements that fit.
    """
    cases = _dealt(np.arange(len(durations)), below)  # the order of cases of equal duration must reveal nothing
    longest_first = cases[np.argsort(-durations[cases], kind="stable")]
    dealt = np.empty(len(durations), dtype=np.int64)
    open_starts: list[int] = []
    offered = 0
    without_start: list[int] = []
    for case in longest_first.tolist():
        while offered < len(starts) and starts[offered] + durations[case] <= latest:
            open_starts.append(int(starts[offered]))
            offered += 1
        if not open_starts:
            without_start.append(case)
            continue
        chosen = below(len(open_starts))
        dealt[case] = open_starts[chosen]
        open_starts[chosen] = open_starts[-1]
        open_starts.pop()
    # Ending exactly at `latest` would publish the moment of the cut, which can be the time of one event.
    last_start = min(int(starts[-1]), latest // unit * unit)
    dealt[without_start] = last_start - durations[without_start]
    return dealt


@content_free()
@dataclass(frozen=True, slots=True)
class _Steps:
    """The directly-follows steps of a log.

    event, passed, case, target : int64[steps], event that ends the step, its time (ns), its case, code of its activity
    groups : for each pair of activities the places of its steps
    """

    event: Ints
    passed: Ints
    case: Ints
    target: Ints
    groups: list[Ints]

    @classmethod
    def of(cls, log: EventLog) -> _Steps:
        """Return the steps of a log: all events but the first of each case end one."""
        ends_step = np.ones(log.n_events, dtype=np.bool_)
        ends_step[log.starts[:-1][log.lengths > 0]] = False
        event = np.flatnonzero(ends_step)
        source = log.activity.codes[event - 1].astype(np.int64)
        target = log.activity.codes[event].astype(np.int64)
        pair = source * (len(log.activity.values) + 1) + target
        passed = log.time[event] - log.time[event - 1]
        groups = _groups(pair) if len(event) else []
        return cls(event, passed, log.case_of_event[event], target, groups)

    def n_cases(self, places: Ints) -> int:
        """Return the number of cases that have some of the steps."""
        return len(np.unique(self.case[places]))

    def mean(self, places: Ints) -> int:
        """Return the mean time of some steps."""
        return _rounded(int(self.passed[places].sum()), len(places), STEP)


def _elapsed(log: EventLog, K: int, below: Below) -> Ints:
    """Return int64[E]: published time since the event before, 0 for the first event of a case."""
    steps, result = _Steps.of(log), np.zeros(log.n_events, dtype=np.int64)
    frequent_pairs: list[Ints] = []
    rare_pairs: list[Ints] = []
    for places in steps.groups:
        if steps.n_cases(places) >= K:
            means = _means(steps.passed[places], steps.case[places], K, STEP)
            result[steps.event[places]] = _dealt(means, below)
            frequent_pairs.append(places)
        else:
            rare_pairs.append(places)

    # Rare pairs are pooled by their second activity.
    rare = _joined(rare_pairs)
    small_pools: list[Ints] = []
    for target in np.unique(steps.target[rare]):
        pool = rare[steps.target[rare] == target]
        if steps.n_cases(pool) >= K:
            result[steps.event[pool]] = steps.mean(pool)
        else:
            small_pools.append(pool)

    # Pools that are still too small share one mean, or show one that is published anyway.
    frequent, last_pool = _joined(frequent_pairs), _joined(small_pools)
    has_mean = steps.n_cases(last_pool) >= K
    for pool in small_pools:
        if has_mean:
            result[steps.event[pool]] = steps.mean(last_pool)
        else:
            result[steps.event[pool]] = _public_mean(steps, frequent, int(steps.target[pool[0]]))
    return result


def _public_mean(steps: _Steps, frequent: Ints, target: int) -> int:
    """Return the mean of the frequent steps to an activity, otherwise of all frequent steps, otherwise 0."""
    to_target = frequent[steps.target[frequent] == target]
    if len(to_target):
        return steps.mean(to_target)
    return steps.mean(frequent) if len(frequent) else 0


def _after(
    log: EventLog,
    K: int,
    below: Below,
    before: Mapping[Pair, Pending],
) -> tuple[Ints, dict[Pair, Pending]]:
    """Return the elapsed times of a cohort that joins earlier ones, and the state of each pair afterwards."""
    steps, result = _Steps.of(log), np.zeros(log.n_events, dtype=np.int64)
    pending, names = dict(before), log.activity.values
    for places in steps.groups:
        end = int(steps.event[places[0]])
        pair = names[int(log.activity.codes[end - 1])], names[int(log.activity.codes[end])]
        earlier, cases_here = pending.get(pair, Pending()), steps.n_cases(places)
        cases, events = earlier.cases + cases_here, earlier.events + len(places)
        mean, owed = earlier.mean, earlier.owed + int(steps.passed[places].sum())
        if cases < K:
            values = np.full(len(places), mean or 0, dtype=np.int64)
        else:
            values = _values_of_sum(steps, places, K, owed, below, by_runs=cases_here >= K)
            mean = max(0, owed + earlier.events * (mean or 0)) // events
        result[steps.event[places]] = values
        owed -= int(values.sum())
        # Less than a step for each event is rounding; a larger negative debt must still be paid back.
        is_pending = cases < K or owed < -STEP * len(places)
        pending[pair] = Pending(cases, events, owed, mean) if is_pending else Pending(mean=mean)
    return result, pending


def _values_of_sum(steps: _Steps, places: Ints, K: int, owed: int, below: Below, *, by_runs: bool) -> Ints:
    """Return values for some steps that add up to the required total, none below 0.

    `by_runs`: the steps are of at least K cases, so their values can be means of runs, scaled to the sum. Otherwise all
    values are equal.
    """
    total = int(steps.passed[places].sum())
    if owed <= 0 or not by_runs or not total:
        return np.full(len(places), _rounded(max(0, owed), len(places), STEP))
    means = _means(steps.passed[places], steps.case[places], K, STEP)
    scaled = [_rounded(mean * owed, total, STEP) for mean in means.tolist()]
    return _dealt(np.asarray(scaled), below)


def _joined(groups: Sequence[Ints]) -> Ints:
    return np.concatenate([*groups, np.empty(0, dtype=np.int64)])


def _groups(keys: Ints) -> list[Ints]:
    """Return the places of each distinct key, keys ascending."""
    order = np.argsort(keys, kind="stable")
    return [np.asarray(part) for part in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)]


def _means(values: Ints, case: Ints, K: int, step: int) -> Ints:
    """Return the mean of each value's run, in whole steps, ascending. All values are of at least K cases together."""
    order = np.argsort(values, kind="stable")
    result = np.empty(len(values), dtype=np.int64)
    for first, last in runs(values[order].tolist(), case[order].tolist(), K):
        run = values[order[first:last]]
        result[first:last] = _rounded(int(run.sum()), last - first, step)
    return result


def _rounded(total: int, count: int, step: int) -> int:
    """Return total / count, rounded to the nearest whole step."""
    return (2 * total + count * step) // (2 * count * step) * step


def runs(values: list[int], case: list[Any], K: int) -> list[tuple[int, int]]:
    """Return runs of ascending values, each of at least K distinct cases.

    Each run begins at the end of the remaining values that is farther from their mean, and takes as few values as hold
    K cases. If fewer than K cases would remain, it takes all remaining values.

    Parameters
    ----------
    values, case
        Ascending values, and the case of each.
    K
        Least number of cases of a run.

    Returns
    -------
    Place of the first value of each run, and of the last one + 1, ascending.
    """
    remaining: dict[Any, int] = {}  # values that remain, by case
    for name in case:
        remaining[name] = remaining.get(name, 0) + 1
    low, high, total = 0, len(values), sum(values)
    result: list[tuple[int, int]] = []
    while low < high:
        count = high - low
        from_below = total - values[low] * count >= values[high - 1] * count - total
        place, direction = (low, 1) if from_below else (high - 1, -1)
        inside: set[Any] = set()
        run_sum = 0
        while low <= place < high and len(inside) < K:
            inside.add(case[place])
            remaining[case[place]] -= 1
            if not remaining[case[place]]:
                del remaining[case[place]]
            run_sum += values[place]
            place += direction
        if len(remaining) < K:
            result.append((low, high))
            break
        if from_below:
            result.append((low, place))
            low = place
        else:
            result.append((place + 1, high))
            high = place + 1
        total -= run_sum
    return sorted(result)


def _dealt(values: Ints, below: Below) -> Ints:
    """Return the values in uniformly random order."""
    return np.asarray(in_random_order(values.tolist(), below), dtype=np.int64)
