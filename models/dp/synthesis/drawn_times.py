"""Times of the released traces, drawn from noisy histograms: post-processing of `models.dp.synthesis.times`.

1. Shapes. Released traces give the number of steps of a pair, so its noisy cells only give the shape. A cell is
   pulled towards what the shape of a parent predicts, by the noise: with prediction m and noise of deviation s, it
   becomes m + v / (v + s^2) (noisy - m), v = m N / (`CONCENTRATION` + 1) for N steps. That is the best linear estimate
   where shapes vary around that of the parent like draws of a Dirichlet distribution of that concentration. Parents: of
   a pair, all pairs with the same second label together; of these, all pairs; of all pairs, equal shares.
2. Quantiles are read off cumulative sums, made monotone by least squares (isotonic regression; consistency as in Hay et
   al. 2010), with equal ratios within a bin. Sums of many cells are nearer to the truth than single cells.
3. Durations. The n steps of a pair get one quantile in each n-th of its shape: medians then have no error of sampling.
4. Throughput. Steps that are drawn one by one add up to throughput times which are only near to the true
   ones. The noisy cells of these, pulled towards the drawn ones, give the target times. A cell holds cases
   of several bins, so that all bins are estimated at once (`throughput_shape`). Durations are exchanged
   among the cases that have a step of the same pair until cases come near to the target (`_exchanged`): the
   durations of a pair stay what they are.

It reads noisy cells and released traces only, and costs nothing.

Not guaranteed: that a step of a case fits the other steps of the case beyond their sum.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp.annotation import MAX_TIME_MS, MILLISECOND
from models.dp.noise import NoiseSource
from models.dp.synthesis.contexts import UNIT
from models.dp.synthesis.table import Variant
from models.dp.synthesis.times import HOUR, SECOND, WEEK, NoisyTimes, PublicTimeBounds, step_weight
from models.eventlog import Floats, Ints, starts_of

CONCENTRATION = 1.0
"""How near shapes of durations are to that of their parent. A half and 3 give about as many right medians on three
public logs, 10 gives fewer."""

FLOOR = 1e-3
"""Least predicted share of a bin, so that no parent excludes it."""

READABLE = 20.0
"""Deviations of the noise that the steps of a pair must weigh for its median to be readable."""

LEAST_START = 2.0
"""Cells of starts below so many deviations of the noise count as 0: of a long range most weeks are empty."""

PASSES = 3
"""Exchanges of all durations. Each brings the cases nearer to the target times; a fourth changes hardly anything."""

ROUNDS_A_STEP = 12
"""Rounds of exchanges by ratio for each step of a mean case, so that a step takes part in about so many.
Throughput times come as near to the target ones as with 20 passes over all steps, in less time
(docs/decisions/144)."""

MINUTE = 60 * SECOND
"""Added to throughput times before their ratio to the target is taken: short cases then count less."""


@content_free()
@dataclass(frozen=True, slots=True)
class TimedTraces:
    """Times of released traces.

    Attributes
    ----------
    rows : list of int64[cases, length]
        Times in nanoseconds, one array for each variant.
    facts : mapping
        Statements of the manifest about the times; made from noisy numbers only.
    """

    rows: list[Ints]
    facts: Mapping[str, Any]


def pairs_of(released: Sequence[tuple[Variant, int]], n_labels: int) -> Ints:
    """Return the sorted keys of the pairs of the released traces, int64[P]."""
    keys = {a * n_labels + b for variant, _ in released for a, b in itertools.pairwise(variant)}
    return np.asarray(sorted(keys), dtype=np.int64)


def draw_times(
    noisy: NoisyTimes,
    released: Sequence[tuple[Variant, int]],
    alphabet: Sequence[str],
    bounds: PublicTimeBounds,
    norm: int,
    draw: NoiseSource,
) -> TimedTraces:
    """Draw times for all cases of the released traces.

    Parameters
    ----------
    noisy
        Noisy histograms over the pairs of `released`.
    released
        Variants (places in the alphabet) and their cases.
    norm
        The most that one case added to the histograms, as they were measured: the weight of steps follows from it.
    """
    n_labels = len(alphabet)
    # Durations by the shape of each pair.
    weighted = weighted_steps(released, noisy.pairs, n_labels, bounds, norm)
    shapes = pair_shapes(noisy, weighted, n_labels)
    steps = ReleasedSteps.of(released, noisy.pairs, n_labels)
    duration = _durations(steps, shapes, bounds.step_edges, draw)

    # Throughput times: durations are exchanged until cases come near to the noisy histogram.
    drawn_throughput = steps.sums(duration)
    parent = shape_of_cases(drawn_throughput, bounds.throughput_edges)
    throughput = throughput_shape(noisy, float(steps.n_cases), parent)
    target_throughput = _target_throughput(drawn_throughput, throughput, bounds.throughput_edges, draw)
    duration = _exchanged(steps, duration, target_throughput, draw)

    starts = _starts(noisy, steps.n_cases, bounds, draw)
    unreadable = np.flatnonzero(weighted < READABLE * noisy.step_noise)
    facts = {
        "throughput_seconds": {
            "median": _seconds(throughput, bounds.throughput_edges, 0.5),
            "quantile_90": _seconds(throughput, bounds.throughput_edges, 0.9),
        },
        "noise": {"steps": round(noisy.step_noise, 3), "cases": round(noisy.cases_noise, 3)},
        "readable_from_steps": round(READABLE * noisy.step_noise, 1),
        "unreadable": [_names(noisy.pairs[row], alphabet) for row in unreadable.tolist()],
    }
    return TimedTraces(_rows(released, starts, duration), facts)


# shapes


def pair_shapes(noisy: NoisyTimes, weighted: Floats, n_labels: int) -> Floats:
    """Return the shape of the durations of each pair, float64[P, bins]; each row adds up to 1."""
    n_pairs, n_bins = noisy.steps.shape
    shapes = np.zeros((n_pairs, n_bins))
    equal = np.full(n_bins, 1.0 / n_bins)
    overall = _shape_of_sum(noisy, weighted, np.arange(n_pairs), equal)
    target = noisy.pairs % n_labels
    for label in np.unique(target).tolist():
        rows = np.flatnonzero(target == label)
        of_target = _shape_of_sum(noisy, weighted, rows, overall)
        for row in rows.tolist():
            shapes[row] = shape(noisy.steps[row], float(weighted[row]), of_target, noisy.step_noise)
    return shapes


def _shape_of_sum(noisy: NoisyTimes, weighted: Floats, rows: Ints, parent: Floats) -> Floats:
    """Return the shape of some pairs together; their noise adds up in squares."""
    noise = noisy.step_noise * len(rows) ** 0.5
    return shape(noisy.steps[rows].sum(axis=0), float(weighted[rows].sum()), parent, noise)


def shape(noisy: Floats, total: float, parent: Floats, noise: float) -> Floats:
    """Return the shape of one histogram: its cells pulled towards its parent, and consistent.

    Parameters
    ----------
    noisy : float64[bins]
        Noisy cells.
    total
        Approximate sum of the cells.
    parent : float64[bins]
        Shape to which the cells are pulled; adds up to 1.
    noise
        Deviation of the noise of each cell.

    Returns
    -------
    float64[bins]
        Adds up to 1.
    """
    prediction, expected, variance = _predicted(total, parent)
    trust = variance / (variance + noise**2) if total > 0 else np.zeros(len(parent))
    return consistent(expected + trust * (noisy - expected), prediction)


def throughput_shape(noisy: NoisyTimes, total: float, parent: Floats) -> Floats:
    """Return the shape of throughput times, float64[bins], pulled towards a parent.

    All cells are read together, since each holds cases of several bins.

    Parameters
    ----------
    noisy
        Noisy cells, each of cases of several bins.
    total
        Approximate number of cases.
    parent : float64[bins]
        Shape to which the cases are pulled; adds up to 1.
    """
    prediction, expected, variance = _predicted(total, parent)
    if total <= 0:
        return prediction
    # The best linear estimate of the bins from cells = weights bins + noise.
    weights = noisy.throughput_weights
    covariance = (weights * variance) @ weights.T + noisy.throughput_noise**2 * np.eye(len(weights))
    unexplained = np.linalg.solve(covariance, noisy.throughput - weights @ expected)
    return consistent(expected + variance * (weights.T @ unexplained), prediction)


def _predicted(total: float, parent: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the shape that a parent predicts, the cells of it that add up to `total`, and their variance."""
    prediction = (parent + FLOOR) / (1.0 + FLOOR * len(parent))
    expected = total * prediction
    return prediction, expected, total * expected / (CONCENTRATION + 1.0)


def consistent(cells: Floats, otherwise: Floats) -> Floats:
    """Return cells as a shape whose cumulative sums are the nearest monotone ones.

    A histogram without anything above 0 has the shape `otherwise`.
    """
    from scipy.optimize import isotonic_regression

    cumulative = np.concatenate(([0.0], np.cumsum(cells)))
    monotone = np.asarray(isotonic_regression(cumulative).x, dtype=np.float64)
    monotone = np.maximum(monotone, 0.0)
    if monotone[-1] <= 0.0:
        return otherwise
    # The first sum is 0, or the mean of a block that begins with 0 and is not above it.
    return np.asarray(np.diff(monotone) / monotone[-1], dtype=np.float64)


def shape_of_cases(throughput: Ints, edges: Ints) -> Floats:
    """Return the shape of the throughput times of drawn cases, float64[bins]; equal shares without cases."""
    n_bins = len(edges) - 1
    if not len(throughput):
        return np.full(n_bins, 1.0 / n_bins)
    place = np.searchsorted(edges, np.minimum(throughput, edges[-1] - 1), side="right") - 1
    return np.bincount(place, minlength=n_bins) / len(throughput)


def quantiles(shape_of_times: Floats, edges: Ints, at: Floats) -> Ints:
    """Return quantiles of a shape in milliseconds, int64[n]; times within a bin have equal ratios.

    Everything in the bin below a second is 0: most such steps are of one moment. A quantile in an empty bin is its
    middle.
    """
    upper = np.cumsum(shape_of_times)
    place = np.minimum(np.searchsorted(upper, at, side="right"), len(upper) - 1)
    mass = shape_of_times[place]
    part = np.divide(at - (upper[place] - mass), mass, out=np.full(len(place), 0.5), where=mass > 0)
    low = np.log(np.maximum(edges[place], 1))
    high = np.log(edges[place + 1])
    time = np.exp(low + np.clip(part, 0.0, 1.0) * (high - low))
    return np.asarray(np.where(place == 0, 0, np.rint(time)), dtype=np.int64)


# steps


@content_free("n_cases")
@dataclass(frozen=True, slots=True)
class ReleasedSteps:
    """All steps of the released cases, one after another.

    Attributes
    ----------
    pair : int64[S]
        Row of the pair of each step.
    case : int64[S]
        Case of each step; cases are numbered variant by variant.
    """

    pair: Ints
    case: Ints
    n_cases: int

    @classmethod
    def of(cls, released: Sequence[tuple[Variant, int]], pairs: Ints, n_labels: int) -> ReleasedSteps:
        """Return the steps of all cases of the released traces."""
        pair_parts, case_parts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        first_case = 0
        for variant, count in released:
            rows = np.searchsorted(pairs, _keys(variant, n_labels))
            pair_parts.append(np.tile(rows, count))
            case_parts.append(np.repeat(np.arange(first_case, first_case + count), len(rows)))
            first_case += count
        return cls(np.concatenate(pair_parts), np.concatenate(case_parts), first_case)

    def sums(self, duration: Ints) -> Ints:
        """Return the throughput time of each case, int64[cases]."""
        sums = np.zeros(self.n_cases, dtype=np.int64)
        np.add.at(sums, self.case, duration)
        return sums


def _keys(variant: Variant, n_labels: int) -> Ints:
    return np.asarray([a * n_labels + b for a, b in itertools.pairwise(variant)], dtype=np.int64)


def weighted_steps(
    released: Sequence[tuple[Variant, int]], pairs: Ints, n_labels: int, bounds: PublicTimeBounds, norm: int
) -> Floats:
    """Return the weight of the steps of each pair in the released traces.

    The noisy cells of a pair add up to about this weight. A case that takes the steps of a pair in different times adds
    a little more to the cells, which released traces cannot show.

    Parameters
    ----------
    released
        Variants, and their released cases.
    pairs
        int64[P], sorted keys of the pairs.
    n_labels, bounds, norm
        Number of labels, bounds of the times, and weight of a case, as the cells were measured.

    Returns
    -------
    Floats
        float64[P].
    """
    weighted = np.zeros(len(pairs))
    for variant, count in released:
        steps = Counter(_keys(variant, n_labels).tolist())
        if steps:
            square = sum(number**2 for number in steps.values())
            weight = step_weight(square, bounds.blocks["steps"], norm) / UNIT
            row = np.searchsorted(pairs, list(steps))
            weighted[row] += weight * count * np.asarray(list(steps.values()))
    return weighted


def _durations(steps: ReleasedSteps, shapes: Floats, edges: Ints, draw: NoiseSource) -> Ints:
    """Draw the duration of each step in milliseconds, int64[S]: one in each n-th of the shape of its pair."""
    duration = np.zeros(len(steps.pair), dtype=np.int64)
    by_pair = np.argsort(steps.pair, kind="stable")
    ends = np.searchsorted(steps.pair[by_pair], np.arange(len(shapes) + 1))
    for row, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):
        # A random order of the n-ths, and a random place within each.
        n_steps = end - begin
        within = draw.uniform(n_steps)
        at = (draw.permutation(n_steps) + within) / n_steps
        duration[by_pair[begin:end]] = quantiles(shapes[row], edges, at)
    return duration


def _target_throughput(drawn: Ints, throughput: Floats, edges: Ints, draw: NoiseSource) -> Ints:
    """Return the target throughput time of each case, int64[cases]: by its rank among the drawn ones.

    Durations are only exchanged, so that the target times must add up to the drawn ones. The slowest
    twentieth of the cases takes the difference; the median and the .9 quantile stay what they are.
    """
    n_cases = len(drawn)
    by_throughput = draw.permutation(n_cases)  # ties at random
    by_throughput = by_throughput[np.argsort(drawn[by_throughput], kind="stable")]
    ranked = quantiles(throughput, edges, (np.arange(n_cases) + 0.5) / n_cases).astype(np.float64)
    slowest = ranked[n_cases * 19 // 20 :]
    if slowest.sum() > 0:
        difference = float(drawn.sum()) - ranked.sum()
        slowest[:] = np.maximum(slowest * (1.0 + difference / slowest.sum()), slowest.min())
    target_throughput = np.zeros(n_cases, dtype=np.int64)
    target_throughput[by_throughput] = np.rint(ranked).astype(np.int64)
    return target_throughput


def _exchanged(steps: ReleasedSteps, duration: Ints, target_throughput: Ints, draw: NoiseSource) -> Ints:
    """Exchange durations among the cases with a step of the same pair, so that cases come near to the target times.

    First by difference (`_sort_by_lack`), which the longest cases decide: the median of the others may
    still be off by a third. Then by ratio (`_exchange_pairs`).
    """
    duration = duration.copy()
    sums = steps.sums(duration)
    groups = _exchangeable(steps)
    for _ in range(PASSES):
        for group in groups:
            _sort_by_lack(steps, group, duration, sums, target_throughput)
    n_steps = np.bincount(steps.case, minlength=steps.n_cases)
    for _ in range(ROUNDS_A_STEP * len(duration) // max(steps.n_cases, 1)):
        one, other = _meeting(steps, n_steps, draw)
        _exchange_pairs(steps, one, other, duration, sums, target_throughput)
    return duration


def _sort_by_lack(steps: ReleasedSteps, group: Ints, duration: Ints, sums: Ints, target_throughput: Ints) -> None:
    """Give the longest duration of a group of steps to the case that lacks most.

    Among all exchanges within the group this has the least sum of squares of what cases lack. `duration`
    and `sums`, the throughput time of each case, are updated.
    """
    case = steps.case[group]
    other_steps = sums[case] - duration[group]  # the other steps of each case
    lacking = target_throughput[case] - other_steps
    by_lack = group[np.argsort(lacking, kind="stable")]
    sums[case] -= duration[group]
    duration[by_lack] = np.sort(duration[group])
    sums[case] += duration[group]


def _meeting(steps: ReleasedSteps, n_steps: Ints, draw: NoiseSource) -> tuple[Ints, Ints]:
    """Draw steps that meet: the places of the one and of the other, both of the same pair.

    Each case takes part with one of its steps, chosen at random. Those of a pair meet in random order.

    Parameters
    ----------
    steps
        All steps.
    n_steps
        int64[cases], number of steps of each case.
    draw
        Source of the choice.
    """
    has_steps = np.flatnonzero(n_steps)
    n_steps_each = n_steps[has_steps]
    chosen = starts_of(n_steps)[has_steps] + (draw.uniform(len(has_steps)) * n_steps_each).astype(np.int64)
    by_pair = chosen[np.argsort(steps.pair[chosen] + draw.uniform(len(chosen)))]  # at random within a pair
    one, other = by_pair[:-1:2], by_pair[1::2]
    same_pair = steps.pair[one] == steps.pair[other]
    return one[same_pair], other[same_pair]


def _exchange_pairs(
    steps: ReleasedSteps, one: Ints, other: Ints, duration: Ints, sums: Ints, target_throughput: Ints
) -> None:
    """Exchange durations of two steps if their cases' times come nearer to the target ones by ratio.

    Each of the steps `one` is compared with the step of `other` at its place. No two of them are of the
    same case. `duration` and `sums` are updated.
    """
    first, second = steps.case[one], steps.case[other]
    gain = duration[other] - duration[one]  # of the first case; the second one loses it

    def distance(case: Ints, time: Ints) -> Floats:
        return np.abs(np.log((time + MINUTE) / (target_throughput[case] + MINUTE)))

    before = distance(first, sums[first]) + distance(second, sums[second])
    after = distance(first, sums[first] + gain) + distance(second, sums[second] - gain)
    better = after < before
    duration[one[better]] += gain[better]
    duration[other[better]] -= gain[better]
    sums[first[better]] += gain[better]
    sums[second[better]] -= gain[better]


def _exchangeable(steps: ReleasedSteps) -> list[Ints]:
    """Return groups of steps of one pair with at most one step of each case."""
    # The occurrence of a step: its number among the steps of the same pair in its case, from 0.
    by_case = np.lexsort((steps.pair, steps.case))
    is_first = np.ones(len(by_case), dtype=np.bool_)
    same_case = np.diff(steps.case[by_case]) == 0
    same_pair = np.diff(steps.pair[by_case]) == 0
    is_first[1:] = ~(same_case & same_pair)
    place = np.arange(len(by_case))
    occurrence = np.zeros(len(by_case), dtype=np.int64)
    occurrence[by_case] = place - np.maximum.accumulate(np.where(is_first, place, 0))

    # Steps of one pair and one occurrence are of different cases: they are a group.
    order = np.lexsort((occurrence, steps.pair))
    changes = np.flatnonzero((np.diff(steps.pair[order]) != 0) | (np.diff(occurrence[order]) != 0)) + 1
    return [group for group in np.split(order, changes) if len(group) > 1]


# starts and rows


def _starts(noisy: NoisyTimes, n_cases: int, bounds: PublicTimeBounds, draw: NoiseSource) -> Ints:
    """Draw the start of each case in milliseconds, int64[cases]; 0 if starts are not released."""
    if bounds.start is None:
        return np.zeros(n_cases, dtype=np.int64)
    first, last = bounds.range
    week = _drawn_cells(noisy.weeks, noisy.start_noise, n_cases, draw)
    hour = _drawn_cells(noisy.hours, noisy.start_noise, n_cases, draw)
    within = (draw.words(n_cases) % np.uint64(HOUR)).astype(np.int64)
    return np.asarray(np.minimum(first + week * WEEK + hour * HOUR + within, last))


def _drawn_cells(noisy: Floats, noise: float, size: int, draw: NoiseSource) -> Ints:
    """Draw cells by their noisy counts, int64[size]; any cell if none is above the noise."""
    kept = np.where(noisy >= LEAST_START * noise, noisy, 0.0)
    if not kept.any():
        kept = np.ones(len(noisy))
    place = np.searchsorted(np.cumsum(kept / kept.sum()), draw.uniform(size), side="right")
    return np.asarray(np.minimum(place, len(kept) - 1), dtype=np.int64)


def _rows(released: Sequence[tuple[Variant, int]], starts: Ints, duration: Ints) -> list[Ints]:
    """Return the times of each variant's cases in nanoseconds, int64[cases, length] each."""
    rows: list[Ints] = []
    first_case = first_step = 0
    for variant, count in released:
        n_steps = max(len(variant) - 1, 0)
        times = np.zeros((count, len(variant)), dtype=np.int64)
        if len(variant):
            times[:, 0] = starts[first_case : first_case + count]
            times[:, 1:] = duration[first_step : first_step + count * n_steps].reshape(count, n_steps)
        rows.append(np.minimum(np.cumsum(times, axis=1), MAX_TIME_MS) * MILLISECOND)
        first_case += count
        first_step += count * n_steps
    return rows


def _seconds(shape_of_times: Floats, edges: Ints, at: float) -> int:
    """Return a quantile in whole seconds."""
    return round(int(quantiles(shape_of_times, edges, np.asarray([at]))[0]) / 1000)


def _names(pair: int, alphabet: Sequence[str]) -> list[str]:
    before, after = divmod(int(pair), len(alphabet))
    return [alphabet[before], alphabet[after]]
