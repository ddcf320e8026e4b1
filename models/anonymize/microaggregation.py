"""Times worth mining that are bound to nobody: univariate microaggregation of starts and of elapsed times.

The starts of the released cases, and for each directly-follows pair of the *released* log the times that passed, are
sorted and grouped into runs that hold at least K cases (after MDAV: Domingo-Ferrer and Mateo-Sanz 2002, whose groups
are runs in one dimension; here a run counts cases, as one case can bear a pair several times). Each run is replaced by
its mean, and the means are dealt out at random among all who bear the pair. A pair that fewer than K cases bear takes
the mean of all times to its second activity, or, where these are of fewer than K cases too, of all pairs.

Promise: each published start and each published elapsed time is a mean over at least K released cases, and which case
shows it is drawn at random. Sums per pair of at least K cases are kept but for rounding, and so are performance maps.
Relation: linkage of one case by a time of its own; unit: one case. Not guaranteed: against who knows how many cases had
such a time, or the times of all the others of a run; what a time tells of the whole group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Unit

STEP = 1_000
"""Nanoseconds that means of elapsed times are rounded to. A millisecond bends the means of quick pairs: on BPIC 2012
some take .3 ms, as most of their events have equal times."""

Below = Callable[[int], int]
"""A uniformly random number of 0..n-1."""


def microaggregated(log: EventLog, K: int, T: Unit, below: Below) -> Ints:
    """Published time of each event, int64[E] nanoseconds. `log`: the released cases and events, with their true times;
    starts are means in whole T. A log of fewer than K cases gives ValueError: it has nothing to hide among."""
    if log.n_cases < K:
        raise ValueError(f"{log.n_cases} cases cannot stand for K = {K}")
    first = log.starts[:-1][log.lengths > 0]
    elapsed = _elapsed(log, K, below)
    elapsed[first] = _starts(log.time[first], K, NANOSECONDS[T], below)
    total = np.cumsum(elapsed)
    before = np.repeat(total[first] - elapsed[first], log.lengths[log.lengths > 0])
    return np.asarray(total - before, dtype=np.int64)


def _starts(time: Ints, K: int, unit: int, below: Below) -> Ints:
    """Starts of cases in another order, each the mean of its run."""
    ticks = time // unit
    return _dealt(_means(ticks, np.arange(len(ticks)), K, 1) * unit, below)


def _elapsed(log: EventLog, K: int, below: Below) -> Ints:
    """Time since the event before, int64[E], by pair; 0 for the first of a case."""
    result = np.zeros(log.n_events, dtype=np.int64)
    follows = np.ones(log.n_events, dtype=np.bool_)
    follows[log.starts[:-1][log.lengths > 0]] = False
    event = np.flatnonzero(follows)
    if not len(event):
        return result
    passed = log.time[event] - log.time[event - 1]
    case, target = log.case_of_event[event], log.activity.codes[event].astype(np.int64)
    pairs = log.activity.codes[event - 1].astype(np.int64) * (len(log.activity.values) + 1) + target
    overall = _rounded(int(passed.sum()), len(passed), STEP)
    of_target = {int(one): _mean_of_many(passed, case, target == one, K, overall) for one in np.unique(target)}
    for places in _groups(pairs):
        if len(np.unique(case[places])) >= K:
            result[event[places]] = _dealt(_means(passed[places], case[places], K, STEP), below)
        else:
            result[event[places]] = of_target[int(target[places[0]])]
    return result


def _mean_of_many(passed: Ints, case: Ints, chosen: npt.NDArray[np.bool_], K: int, otherwise: int) -> int:
    if len(np.unique(case[chosen])) < K:
        return otherwise
    return _rounded(int(passed[chosen].sum()), int(chosen.sum()), STEP)


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
