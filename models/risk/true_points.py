"""The attack by true events: look for a person in a release, knowing true events of that person.

Uniqueness (equation 2 of reidentification-risk-2020) draws the known points from the record that it looks for, so it
counts every released value as known. If released times are artificial, nobody knows those. Here the points are drawn
from the person's true events, and looked for in the release as it is.

Measured, never a guarantee: points are drawn at random, and the adversary takes a record only if it has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.compiled import kernel
from models.content_free import content_free
from models.eventlog import EventLog, Ints, place_in_run, starts_of
from models.knowledge import Unit
from models.risk.points import ACTIVITY, TIME, KnownColumns, PointCoder
from models.risk.uniqueness import Points, known_points

MOST_PERSONS = 400
"""Persons that are looked for, at most: a share of them then has a standard error of at most .025."""


@dataclass(frozen=True, slots=True)
class PersonSearch:
    """Shares of the persons for one amount of knowledge; the four shares add up to 1.

    Attributes
    ----------
    m
        The amount: a number of points, or a share.
    persons
        Persons that were drawn.
    right
        One record fits, and it is theirs.
    wrong
        One record fits, and it is another's.
    several, none
        Several records fit, or none does.
    """

    m: Points
    persons: int
    right: float
    wrong: float
    several: float
    none: float


def search_persons(
    true: EventLog,
    released: EventLog,
    origin: Ints,
    amounts: Sequence[Points],
    unit: Unit | None,
    rng: np.random.Generator,
) -> list[PersonSearch]:
    """Look for persons in a release by true events of theirs.

    Parameters
    ----------
    true : EventLog
        The source, with true times, removed events included.
    released : EventLog
        The release.
    origin : Ints
        int64[released cases], case of `true`; -1 for a record that is not a single case.
    amounts : sequence of Points
        Number or share of the events that are known.
    unit : Unit or None
        Accuracy of the known times; None: only activities are known.
    rng : numpy.random.Generator
        Draws the persons and the known events.

    Returns
    -------
    list of PersonSearch
        One for each amount; empty if no record is one case of the source.
    """
    records = np.flatnonzero(origin >= 0)
    if not len(records):
        return []
    chosen = rng.choice(records, size=min(MOST_PERSONS, len(records)), replace=False)
    columns = (ACTIVITY,) if unit is None else (ACTIVITY, TIME)
    coder = PointCoder(KnownColumns(columns, (), unit or "seconds"), joint=True)
    true_points, released_points = _points(coder, true), _points(coder, released)
    index = _PointIndex.of(released_points, released.case_of_event, coder.size)
    return [_search(m, true, true_points, index, chosen, origin, rng) for m in amounts]


def _points(coder: PointCoder, log: EventLog) -> Ints:
    """Points of the events of a log by UTC: a release has no clock of its own, and the adversary can convert."""
    raw = coder.raw_events(replace(log, offset=None))
    return np.asarray(coder.points(raw, log.n_events)[:, 0], dtype=np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class _PointIndex:
    """Released records by point.

    Point p occurs in the records `records[starts[p]:starts[p + 1]]`, which ascend; `counts`: occurrences in each.
    """

    starts: Ints
    records: Ints
    counts: Ints

    @classmethod
    def of(cls, points: Ints, record_of_event: Ints, n_points: int) -> _PointIndex:
        """Index the points of released events, which are codes below `n_points`."""
        order = np.lexsort((record_of_event, points))
        sorted_points, sorted_records = points[order], record_of_event[order]
        new_pair = np.ones(len(order), dtype=np.bool_)
        new_pair[1:] = (np.diff(sorted_points) != 0) | (np.diff(sorted_records) != 0)
        first = np.flatnonzero(new_pair)
        counts = np.diff(first, append=len(order))
        pairs_of_point = np.bincount(sorted_points[first], minlength=n_points)
        return cls(starts_of(pairs_of_point), sorted_records[first], counts)


def _search(
    m: Points,
    true: EventLog,
    points: Ints,
    index: _PointIndex,
    chosen: Ints,
    origin: Ints,
    rng: np.random.Generator,
) -> PersonSearch:
    persons = origin[chosen]
    lengths = true.lengths[persons]
    take = known_points(true.lengths, m)[persons]
    sampled = _sample(lengths, take, rng)
    points_of_persons = points[np.repeat(true.starts[persons], take) + sampled]
    outcomes = _outcomes(points_of_persons, starts_of(take), index.starts, index.records, index.counts, chosen)
    right, wrong, several, none = (np.bincount(outcomes, minlength=4) / len(chosen)).tolist()
    return PersonSearch(m, len(chosen), right, wrong, several, none)


LONG, SHARE = 10_000, 50
"""`Generator.choice` shuffles a population above LONG from its end, if it takes more than one SHARE-th of it."""


def _sample(lengths: Ints, take: Ints, rng: np.random.Generator) -> Ints:
    """Take `take[k]` of `lengths[k]` events for each person k, int64[sum of take]: places in the trace.

    All numbers are drawn in one call. They are those that `rng.choice(lengths[k], take[k], replace=False)` draws for
    one person after the other, so a seed gives the same sample; that call takes 4 microseconds a person.
    For n events and a sample of k, `choice` draws numbers from 0 to each of the bounds n - k, ..., n - 1, and then
    k - 1, ..., 1 to shuffle the sample. In a long trace the bounds are n - 1, ..., max(n - k, 1).
    """
    shuffled = (lengths > LONG) & (take > lengths // SHARE)
    amount_if_shuffled = lengths - np.maximum(lengths - take, 1)
    amount_if_sampled = np.maximum(2 * take - 1, 0)
    amounts = np.where(shuffled, amount_if_shuffled, amount_if_sampled)
    starts = starts_of(amounts)
    place = place_in_run(starts)
    n, k = np.repeat(lengths, amounts), np.repeat(take, amounts)
    bounds = np.where(place < k, n - k + place, 2 * k - 1 - place)
    bounds = np.where(np.repeat(shuffled, amounts), n - 1 - place, bounds)
    numbers = rng.integers(0, bounds, endpoint=True)
    sampled = np.empty(int(take.sum()), dtype=np.int64)
    _fill_samples(numbers, starts, lengths, take, shuffled, np.arange(int(lengths.max())), sampled)
    return sampled


@kernel
def _fill_samples(
    numbers: Any, number_starts: Any, lengths: Any, take: Any, shuffled: Any, order: Any, sampled: Any
) -> None:
    """Turn the drawn numbers into samples without repetition, in the order of the persons.

    `order` is 0, 1, 2, ..., up to the longest trace, and is so again at the end.
    """
    # Plain loops over arrays that the caller made: array expressions take four times as long to compile.
    is_taken = np.zeros(len(order), dtype=np.bool_)
    filled = 0
    for person in range(len(lengths)):
        first, n, k = number_starts[person], lengths[person], take[person]
        if shuffled[person]:
            # Fisher and Yates from the end: the last k places are the sample.
            for j in range(number_starts[person + 1] - first):
                last, other = n - 1 - j, numbers[first + j]
                swapped = order[last]
                order[last] = order[other]
                order[other] = swapped
            for j in range(k):
                sampled[filled + j] = order[n - k + j]
            for place in range(n):
                order[place] = place
        else:
            # Floyd: number j is at most n - k + j; if it was taken before, this bound itself was not.
            for j in range(k):
                place = numbers[first + j]
                if is_taken[place]:
                    place = n - k + j
                is_taken[place] = True
                sampled[filled + j] = place
            for j in range(k):
                is_taken[sampled[filled + j]] = False
        filled += k


RIGHT, WRONG, SEVERAL, NONE = range(4)


@kernel
def _outcomes(
    known_points: Any, known_starts: Any, starts: Any, records: Any, counts: Any, chosen: Any
) -> Any:  # fmt: skip
    """Look for each chosen record by the known points of its person: RIGHT, WRONG, SEVERAL or NONE, int64[persons].

    `starts`, `records` and `counts` are the index of released records by point.
    """
    outcomes = np.empty(len(chosen), dtype=np.int64)
    times = np.zeros(len(starts) - 1, dtype=np.int64)
    distinct = np.empty(len(known_points), dtype=np.int64)
    for person in range(len(chosen)):
        # Count the known points. The rarest come first: they leave the fewest records to search.
        n_distinct = 0
        for place in range(known_starts[person], known_starts[person + 1]):
            point = known_points[place]
            times[point] += 1
            if times[point] > 1:
                continue
            size = starts[point + 1] - starts[point]
            k = n_distinct
            while k > 0 and starts[distinct[k - 1] + 1] - starts[distinct[k - 1]] > size:
                distinct[k] = distinct[k - 1]
                k -= 1
            distinct[k] = point
            n_distinct += 1
        # Count the records that have all of them, up to two. Somebody who knows nothing has every record left.
        fitting, fits = 2, -1
        if n_distinct:
            fitting = 0
            rarest = distinct[0]
            for place in range(starts[rarest], starts[rarest + 1]):
                if counts[place] < times[rarest]:
                    continue
                if _has_all(records[place], distinct[1:n_distinct], times, starts, records, counts):
                    fitting += 1
                    fits = records[place]
                    if fitting == 2:
                        break
        if fitting == 0:
            outcomes[person] = NONE
        elif fitting == 2:
            outcomes[person] = SEVERAL
        else:
            outcomes[person] = RIGHT if fits == chosen[person] else WRONG
        for k in range(n_distinct):
            times[distinct[k]] = 0
    return outcomes


@kernel
def _has_all(record: int, distinct: Any, times: Any, starts: Any, records: Any, counts: Any) -> bool:
    """Whether a record has each of the points at least `times[point]` times."""
    for point in distinct:
        low, end = starts[point], starts[point + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if records[middle] < record:
                low = middle + 1
            else:
                high = middle
        if low == end or records[low] != record or counts[low] < times[point]:
            return False
    return True
