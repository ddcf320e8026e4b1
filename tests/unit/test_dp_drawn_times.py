"""Times drawn from noisy histograms: shapes, quantiles, durations of pairs, throughput times, starts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.annotation import MAX_TIME_MS
from models.dp.noise import NoiseSource, simulated
from models.dp.strict import assembled
from models.dp.synthesis import drawn_times, times
from models.dp.synthesis.drawn_times import draw_times, pairs_of
from models.dp.synthesis.times import NoisyTimes, PublicTimeBounds, log_edges, throughput_weights
from models.eventlog import EventLog
from tests.unit.known_noise import ScriptedNoise

MS = 1_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
WEEK = 7 * DAY
UNIT = 2**16

Released = list[tuple[tuple[int, ...], int]]


def _noisy(released: Released, bounds: PublicTimeBounds, labels: int, noise: float = 0.0) -> NoisyTimes:
    """Histograms without cases, for tests that fill some of them."""
    pairs = pairs_of(released, labels)
    has_starts = bounds.start is not None
    return NoisyTimes(
        pairs=pairs,
        steps=np.zeros((len(pairs), len(bounds.step_edges) - 1)),
        throughput=np.zeros(len(bounds.throughput_edges) - 1),
        throughput_weights=np.eye(len(bounds.throughput_edges) - 1),
        weeks=np.zeros(bounds.weeks if has_starts else 0),
        hours=np.zeros(168 if has_starts else 0),
        step_noise=noise,
        throughput_noise=noise,
        start_noise=noise,
    )


def test_pairs_are_those_of_the_released_traces() -> None:
    """Each once, in order."""
    assert pairs_of([((2, 0, 1), 5), ((), 1), ((0, 1), 2), ((1,), 9)], 3).tolist() == [0 * 3 + 1, 2 * 3 + 0]
    assert pairs_of([], 3).tolist() == []


# shapes


@pytest.mark.parametrize("noise", [0.0, 1e9])
def test_a_histogram_is_pulled_to_its_parent_by_its_noise(noise: float) -> None:
    """Without noise it is what it is; with boundless noise it is its parent."""
    parent = np.asarray([0.5, 0.25, 0.25])
    shape = drawn_times.shape(np.asarray([10.0, 0.0, 30.0]), 40.0, parent, noise)
    assert shape == pytest.approx([0.25, 0.0, 0.75] if not noise else parent, abs=1e-3)


def test_the_pull_is_that_of_the_best_linear_estimate() -> None:
    """Shapes vary as Dirichlet draws of concentration 1 around the parent: before noise a cell of mean m =
    N q has the variance N m / 2. The estimate with the least mean square over many draws is the one that is
    used, cell by cell."""
    rng = np.random.default_rng(3)
    parent, total, noise = np.asarray([0.2, 0.3, 0.5]), 100.0, 30.0
    expected, variance = total * parent, total * total * parent / 2.0
    true = expected + rng.normal(0.0, variance**0.5, (200_000, 3))
    noisy = true + rng.normal(0.0, noise, true.shape)
    for cell in range(3):
        slope = np.cov(noisy[:, cell], true[:, cell])[0, 1] / np.var(noisy[:, cell])
        assert variance[cell] / (variance[cell] + noise**2) == pytest.approx(slope, abs=0.01)
    # One cell that is noisy by 20, all others as predicted.
    cells = np.asarray([40.0, 30.0, 50.0])
    shape = drawn_times.shape(cells, total, parent, noise)
    pulled = 20.0 + 1000.0 / (1000.0 + noise**2) * 20.0
    assert shape == pytest.approx(np.asarray([pulled, 30.0, 50.0]) / (pulled + 80.0), abs=2e-3)


def test_an_empty_histogram_has_the_shape_of_its_parent() -> None:
    """Nothing above 0 is left, or nothing was released."""
    parent = np.asarray([0.5, 0.5])
    assert drawn_times.shape(np.asarray([-9.0, -9.0]), 10.0, parent, 0.0).tolist() == [0.5, 0.5]
    for noise in (0.0, 1.0):
        assert drawn_times.shape(np.asarray([9.0, 0.0]), 0.0, parent, noise) == pytest.approx([0.5, 0.5])


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
@settings(deadline=None)
def test_cumulative_sums_are_the_nearest_monotone_ones(cells: list[float]) -> None:
    """No monotone curve is nearer to the noisy one, and cells that are a histogram stay what they are."""
    otherwise = np.full(len(cells), 1.0 / len(cells))
    shape = drawn_times.consistent(np.asarray(cells), otherwise)
    assert shape.min() >= 0
    assert shape.sum() == pytest.approx(1.0)
    if min(cells) >= 0 and sum(cells) > 1e-6:
        assert shape == pytest.approx(np.asarray(cells) / sum(cells), abs=1e-9)


def test_a_dip_of_the_cumulative_sums_is_averaged() -> None:
    """0, 6, 4, 10 becomes 0, 5, 5, 10."""
    shape = drawn_times.consistent(np.asarray([6.0, -2.0, 6.0]), np.full(3, 1 / 3))
    assert shape == pytest.approx([0.5, 0.0, 0.5])
    below = drawn_times.consistent(np.asarray([-4.0, 6.0, 2.0]), np.full(3, 1 / 3))
    assert below == pytest.approx([0.0, 0.5, 0.5]), "0, -4, 2, 4: the curve begins at 0"


def test_few_steps_and_one_bin_are_a_histogram_too() -> None:
    """Cells that add up to less than 1, and a last bin that holds all."""
    thirds = np.full(3, 1 / 3)
    assert drawn_times.consistent(np.asarray([0.25, 0.0, 0.5]), thirds) == pytest.approx([1 / 3, 0.0, 2 / 3])
    assert drawn_times.consistent(np.asarray([0.0, 0.0, 5.0]), thirds).tolist() == [0.0, 0.0, 1.0]
    parent = np.asarray([0.25, 0.75])
    shape = drawn_times.shape(np.asarray([0.4, 0.3]), 0.5, parent, 0.1)
    assert shape == pytest.approx(_pulled([0.4, 0.3], 0.5, parent, 0.1), abs=1e-12)


def test_pairs_without_steps_look_like_their_target() -> None:
    """A pair of few noisy steps has the durations of the other pairs that lead to the same label; a frequent pair has
    durations of its own."""
    bounds = PublicTimeBounds(DAY)
    released: Released = [((0, 2), 1000), ((1, 2), 1), ((0, 1), 1000)]
    noisy = _noisy(released, bounds, 3, noise=20.0)
    weighted = np.asarray([1000.0, 1000.0, 1.0])
    rows = {name: row for row, name in enumerate(["0 1", "0 2", "1 2"])}
    noisy.steps[rows["0 1"], 3] = 1000.0
    noisy.steps[rows["0 2"], 15] = 1000.0
    noisy.steps[rows["1 2"], 8] = 20.0
    shapes = drawn_times.pair_shapes(noisy, weighted, 3)
    assert shapes.sum(axis=1) == pytest.approx([1.0] * 3)
    assert shapes.argmax(axis=1).tolist() == [3, 15, 15]
    assert shapes.max(axis=1).min() > 0.9
    nothing = drawn_times.pair_shapes(_noisy([], bounds, 3), np.zeros(0), 3)
    assert nothing.shape == (0, 21)


def _pulled(cells: list[float], total: float, parent: np.ndarray, noise: float) -> np.ndarray:
    """m + v / (v + s^2) (noisy - m) of each cell, v = m N / 2, with a least share of .001 a bin."""
    expected = total * (parent + 0.001) / (1 + 0.001 * len(parent))
    variance = expected * total / 2
    estimate = expected + variance / (variance + noise**2) * (np.asarray(cells) - expected)
    assert estimate.min() >= 0, "otherwise its sums would not be monotone"
    return np.asarray(estimate / estimate.sum())


def test_a_pair_is_pulled_to_its_target_and_this_one_to_all_pairs() -> None:
    """Concentration 1; the noise of a sum of pairs is that of one pair times the root of their number."""
    bounds = PublicTimeBounds(1_001)  # two bins: below a second, and the rest
    released: Released = [((0, 1), 50), ((2, 1), 90), ((1, 2), 60), ((1, 0), 30)]
    noisy = _noisy(released, bounds, 3, noise=20.0)
    assert noisy.pairs.tolist() == [0 * 3 + 1, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 1]
    cells = {"0 1": [40.0, 25.0], "1 0": [20.0, 5.0], "1 2": [10.0, 45.0], "2 1": [80.0, 15.0]}
    noisy.steps[:] = list(cells.values())
    shapes = drawn_times.pair_shapes(noisy, np.asarray([50.0, 30.0, 60.0, 90.0]), 3)
    overall = _pulled([150.0, 90.0], 230.0, np.full(2, 0.5), 20.0 * 4**0.5)
    to_0 = _pulled([20.0, 5.0], 30.0, overall, 20.0)
    to_1 = _pulled([120.0, 40.0], 140.0, overall, 20.0 * 2**0.5)
    to_2 = _pulled([10.0, 45.0], 60.0, overall, 20.0)
    expected = [
        _pulled(cells["0 1"], 50.0, to_1, 20.0),
        _pulled(cells["1 0"], 30.0, to_0, 20.0),
        _pulled(cells["1 2"], 60.0, to_2, 20.0),
        _pulled(cells["2 1"], 90.0, to_1, 20.0),
    ]
    assert shapes == pytest.approx(np.asarray(expected), abs=1e-12)


@pytest.mark.parametrize("noise", [1.5, 6.0])
@pytest.mark.parametrize("of_case", [np.eye(4), np.tri(4) / 2, throughput_weights(4, UNIT) / UNIT])
def test_the_shape_of_throughput_times_explains_all_cells_together(of_case: np.ndarray, noise: float) -> None:
    """It has the least sum of squares of what the cells and the parent disagree with, each by its
    deviation."""
    parent, total, cells = np.asarray([6, 5, 3, 2]) / 16, 40.0, np.asarray([13.0, 19.0, 12.0, 16.0])
    noisy = replace(_noisy([], PublicTimeBounds(1_001), 3, noise), throughput=cells, throughput_weights=of_case)
    expected = total * (parent + 0.001) / 1.004
    deviation = np.sqrt(expected * total / 2)
    rows = np.concatenate((np.diag(1 / deviation), of_case / noise))
    least, *_ = np.linalg.lstsq(rows, np.concatenate((expected / deviation, cells / noise)))
    found = drawn_times.throughput_shape(noisy, total, parent)
    assert found == pytest.approx(drawn_times.consistent(least, parent), abs=1e-9)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)


def test_throughput_times_of_no_cases_are_those_of_the_parent() -> None:
    """Also without noise; a single case has a time of its own."""
    parent = np.full(81, 1 / 81)
    for noise in (0.0, 3.0):
        noisy = _noisy([], PublicTimeBounds(DAY), 3, noise)
        noisy.throughput[5] = 1.0
        assert drawn_times.throughput_shape(noisy, 0.0, parent) == pytest.approx(parent)
    one = replace(noisy, throughput_noise=0.0)
    assert drawn_times.throughput_shape(one, 1.0, parent)[5] == pytest.approx(1.0)


def test_drawn_cases_are_counted_by_throughput_time() -> None:
    """A case beyond the last edge is in the last bin. Without cases all bins are alike."""
    edges = log_edges(8_000, 3)
    assert edges.tolist() == [0, 1_000, 2_000, 4_000, 8_000]
    drawn = np.asarray([0] * 4 + [999] * 2 + [1_000] * 5 + [3_999] * 3 + [8_000, 10**9])
    assert drawn_times.shape_of_cases(drawn, edges) == pytest.approx(np.asarray([6, 5, 3, 2]) / 16)
    assert drawn_times.shape_of_cases(drawn[:0], edges) == pytest.approx([0.25] * 4)
    # Bins of a millisecond: a time in the last one, and one beyond it.
    shape = drawn_times.shape_of_cases(np.asarray([999, 1_000, 1_001, 5_000]), np.asarray([0, 1_000, 1_001]))
    assert shape == pytest.approx([1 / 4, 3 / 4])


# quantiles


def test_quantiles_have_equal_ratios_within_a_bin() -> None:
    """The middle of a bin is the root of the product of its edges; below a second all is 0."""
    edges = log_edges(16_000, 4)
    assert edges.tolist() == [0, 1_000, 2_000, 4_000, 8_000, 16_000]
    shape = np.asarray([0.5, 0.0, 0.25, 0.0, 0.25])
    at = np.asarray([0.0, 0.49, 0.5, 0.625, 0.74999999, 0.75, 0.875, 1.0])
    found = drawn_times.quantiles(shape, edges, at).tolist()
    assert found == [0, 0, 2_000, round((2_000 * 4_000) ** 0.5), 4_000, 8_000, round((8_000 * 16_000) ** 0.5), 16_000]


def test_a_quantile_in_an_empty_bin_is_its_middle() -> None:
    """All of a shape is below its last bin, and nothing is beyond the quantile of 1."""
    edges = log_edges(16_000, 4)
    (found,) = drawn_times.quantiles(np.asarray([0.5, 0.5, 0.0, 0.0, 0.0]), edges, np.asarray([1.0])).tolist()
    assert found == round((8_000 * 16_000) ** 0.5)


def test_a_median_is_found_through_noise_in_many_bins() -> None:
    """Noise of a fortieth of the steps in each of 21 bins: four of five medians are within a fifth."""
    rng = np.random.default_rng(1)
    edges = PublicTimeBounds(30 * DAY).step_edges
    duration = np.exp(rng.normal(np.log(2 * HOUR), 1.0, 20_000))
    true = np.histogram(duration, edges)[0] / 20.0
    found = []
    for _ in range(200):
        noisy = true + rng.normal(0.0, 25.0, len(true))
        shape = drawn_times.shape(noisy, 1000.0, np.full(len(true), 1 / len(true)), 25.0)
        found.append(int(drawn_times.quantiles(shape, edges, np.asarray([0.5]))[0]))
    near = np.abs(np.asarray(found) / np.median(duration) - 1) <= 0.2
    assert near.mean() >= 0.8


# drawn traces


RELEASED: Released = [((0, 1, 0, 1, 2), 7), ((2,), 3), ((0, 1), 90), ((), 0), ((1, 2, 2), 11)]


def _log(released: Released, rows: Sequence[np.ndarray], alphabet: str) -> EventLog:
    return assembled(tuple(alphabet), [variant for variant, _ in released], rows, simulated(1))


def _by_pair(log: EventLog) -> dict[tuple[str, str], list[int]]:
    durations: dict[tuple[str, str], list[int]] = {}
    for trace, begin in zip(log.traces(), log.starts[:-1].tolist(), strict=True):
        for place, pair in enumerate(itertools.pairwise(trace)):
            took = int(log.time[begin + place + 1] - log.time[begin + place]) // MS
            durations.setdefault(pair, []).append(took)
    return durations


def test_the_steps_of_a_pair_have_the_quantiles_of_its_shape() -> None:
    """n steps have one duration in each n-th of the shape, in whichever cases they are."""
    bounds = PublicTimeBounds(DAY)
    released = RELEASED
    noisy = _noisy(released, bounds, 3)
    rng = np.random.default_rng(2)
    noisy.steps[:] = rng.integers(1, 9, noisy.steps.shape)
    noisy.throughput[:] = rng.integers(1, 9, noisy.throughput.shape)
    timed = draw_times(noisy, released, "abc", bounds, 3 * UNIT, simulated(5))
    assert [rows.shape for rows in timed.rows] == [(count, len(variant)) for variant, count in released]
    weighted = drawn_times.weighted_steps(released, noisy.pairs, 3, bounds, 3 * UNIT)
    shapes = drawn_times.pair_shapes(noisy, weighted, 3)
    durations = _by_pair(_log(released, timed.rows, "abc"))
    for row, key in enumerate(noisy.pairs.tolist()):
        drawn = sorted(durations["abc"[key // 3], "abc"[key % 3]])
        parts = np.arange(len(drawn) + 1) / len(drawn)
        limits = drawn_times.quantiles(shapes[row], bounds.step_edges, parts)
        for value, low, high in zip(drawn, limits[:-1].tolist(), limits[1:].tolist(), strict=True):
            assert low <= value <= high


class _EqualWords(NoiseSource):
    """Every word is the same, such as 2^63, one half of all words; nothing is shuffled."""

    __slots__ = ("word",)

    def __init__(self, word: int = 2**63) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "word", word)

    def words(self, size: int) -> np.ndarray:
        return np.full(size, self.word, dtype=np.uint64)

    def permutation(self, size: int) -> np.ndarray:
        return np.arange(size, dtype=np.int64)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_word_is_a_place_within_a_part(count: int) -> None:
    """One half of all words is the middle of each n-th, of the cells of starts, and of an hour."""
    bounds = PublicTimeBounds(DAY)
    released: Released = [((0, 1), count), ((1, 0), 1)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    shape = np.arange(1.0, 22.0) / 231.0
    found = drawn_times._durations(steps, np.asarray([shape, shape]), bounds.step_edges, _EqualWords())
    middles = (np.arange(count) + 0.5) / count
    assert found[:count].tolist() == drawn_times.quantiles(shape, bounds.step_edges, middles).tolist()
    assert found[count:].tolist() == drawn_times.quantiles(shape, bounds.step_edges, np.asarray([0.5])).tolist()
    cells = np.asarray([30.0, 10.0, 21.0])
    assert drawn_times._drawn_cells(cells, 0.0, count, _EqualWords()).tolist() == [1] * count
    assert drawn_times._drawn_cells(cells[::-1], 0.0, count, _EqualWords()).tolist() == [1] * count
    with_starts = PublicTimeBounds(DAY, (3 * DAY, 3 * DAY + 5 * WEEK))
    noisy = _noisy(released, with_starts, 2)
    noisy.weeks[2], noisy.hours[50] = 1.0, 1.0
    starts = drawn_times._starts(noisy, count, with_starts, _EqualWords())
    assert starts.tolist() == [3 * DAY + 2 * WEEK + 50 * HOUR + 2**63 % HOUR] * count


def test_durations_and_ties_are_in_the_order_of_a_permutation() -> None:
    """It is the reverse one here: the first step of a pair takes longest, and so does the first of equal cases."""
    bounds = PublicTimeBounds(DAY)
    released: Released = [((0, 1), 30), ((1, 0), 9)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    shape = np.full(21, 1 / 21)
    found = drawn_times._durations(steps, np.asarray([shape, shape]), bounds.step_edges, ScriptedNoise())
    for durations in (found[:30], found[30:]):
        assert (np.diff(durations) <= 0).all()
        assert durations[0] > durations[-1]
    wanted = drawn_times._target_throughput(np.full(8, 5_000), shape, bounds.step_edges, ScriptedNoise())
    assert (np.diff(wanted) <= 0).all()
    assert wanted[0] > wanted[-1]


def test_the_largest_word_is_in_the_last_cell() -> None:
    """Ten tenths add up to less than 1 in floats."""
    tenths = np.ones(10)
    assert np.cumsum(tenths / tenths.sum())[-1] <= 1 - 2.0**-53
    assert drawn_times._drawn_cells(tenths, 0.0, 2, _EqualWords(2**64 - 1)).tolist() == [9, 9]


def test_throughput_times_follow_their_histogram() -> None:
    """Steps of a to b and of b to c take long in the same cases, which no pair shows: drawn alone, they would mix. The
    exchange brings the cases near to the histogram of throughput times, and changes no duration of a pair."""
    bounds = PublicTimeBounds(8 * DAY)
    released: Released = [((0, 1, 2), 1000)]
    noisy = _noisy(released, bounds, 3)
    edges = bounds.step_edges
    for duration in (2 * HOUR, 4 * DAY):
        noisy.steps[:, int(np.searchsorted(edges, duration)) - 1] = 500.0
        place = int(np.searchsorted(bounds.throughput_edges, 2 * duration)) - 1
        noisy.throughput[place] = 500.0
    timed = draw_times(noisy, released, "abc", bounds, 3 * UNIT, simulated(7))
    took = (timed.rows[0][:, 2] - timed.rows[0][:, 0]) // MS
    assert (took < DAY).mean() == pytest.approx(0.5, abs=0.02)
    assert (took > 4 * DAY).mean() == pytest.approx(0.5, abs=0.02)
    durations = _by_pair(_log(released, timed.rows, "abc"))
    for pair in (("a", "b"), ("b", "c")):
        assert np.mean(np.asarray(durations[pair]) < DAY) == pytest.approx(0.5, abs=0.002)


VARIANT = st.lists(st.integers(0, 2), max_size=7).map(tuple)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(VARIANT, st.integers(0, 6)), max_size=4), st.data())
def test_an_exchange_keeps_the_durations_of_each_pair(released: Released, data: st.DataObject) -> None:
    """In whichever order: by difference the cases lack least in squares, then each ratio only comes nearer
    to 1."""
    pairs = pairs_of(released, 3)
    steps = drawn_times.ReleasedSteps.of(released, pairs, 3)
    size = len(steps.pair)
    duration = np.asarray(data.draw(st.lists(st.integers(0, 1000), min_size=size, max_size=size)), dtype=np.int64)
    cases = steps.n_cases
    wanted = np.asarray(data.draw(st.lists(st.integers(0, 4000), min_size=cases, max_size=cases)), dtype=np.int64)
    drawn = duration.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn_times, "ROUNDS_A_STEP", 0)
        by_difference = drawn_times._exchanged(steps, duration, wanted, simulated(1))
    after = drawn_times._exchanged(steps, duration, wanted, simulated(1))
    assert duration.tolist() == drawn, "the drawn ones are not overwritten"
    for row in range(len(pairs)):
        assert sorted(by_difference[steps.pair == row]) == sorted(duration[steps.pair == row])
        assert sorted(after[steps.pair == row]) == sorted(duration[steps.pair == row])
    squares = [((steps.sums(durations) - wanted) ** 2).sum() for durations in (duration, by_difference)]
    assert squares[1] <= squares[0]
    ratios = [np.abs(np.log((steps.sums(d) + 60_000) / (wanted + 60_000))).sum() for d in (by_difference, after)]
    assert ratios[1] <= ratios[0] + 1e-9


def test_durations_are_exchanged_where_ratios_come_nearer_to_one() -> None:
    """A case of one step took 60 minutes, not 6; another one had 6 minutes, but 1000 for its other step. An
    exchange costs the longer case more minutes than the shorter one gains, and hardly anything of its
    ratio."""
    released: Released = [((0, 1), 1), ((2, 0, 1), 1)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 3), 3)
    minutes = 60_000
    duration = np.asarray([60, 1000, 6], dtype=np.int64) * minutes
    wanted = np.asarray([6, 1000], dtype=np.int64) * minutes
    after = drawn_times._exchanged(steps, duration, wanted, simulated(1))
    assert (after // minutes).tolist() == [6, 1000, 60]
    again = drawn_times._exchanged(steps, after, wanted, simulated(2))
    assert again.tolist() == after.tolist(), "none where both would go away from their times"


def test_a_case_that_takes_no_time_has_a_ratio() -> None:
    """A minute is added to both times; sums of cases follow the exchange."""
    released: Released = [((0, 1), 2)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    duration = np.asarray([1_000, 200_000], dtype=np.int64)
    one, other = np.arange(1), np.arange(1, 2)
    sums = steps.sums(duration)
    drawn_times._exchange_pairs(steps, one, other, duration, sums, np.asarray([0, 200_000]))
    assert duration.tolist() == [1_000, 200_000]
    assert sums.tolist() == [1_000, 200_000]
    drawn_times._exchange_pairs(steps, one, other, duration, sums, np.asarray([200_000, 0]))
    assert duration.tolist() == [200_000, 1_000]
    assert sums.tolist() == [200_000, 1_000]


def test_durations_of_one_case_are_not_exchanged_among_themselves() -> None:
    """Groups hold one step of each case: the k-th one of its pair."""
    released: Released = [((0, 0, 0, 1), 2), ((0, 0), 1), ((0, 1), 1), ((1, 1), 1)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    groups = [sorted(steps.case[group].tolist()) for group in drawn_times._exchangeable(steps) if len(group) > 1]
    assert sorted(groups) == [[0, 1], [0, 1, 2], [0, 1, 3]], "0 0 for the first and second time, and 0 1"


def test_any_two_steps_of_a_pair_are_exchanged_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cases the first two have each other's times: they meet in some pass, whatever their places
    are."""
    monkeypatch.setattr(drawn_times, "PASSES", 0)
    released: Released = [((0, 1), 4)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    duration = np.asarray([60, 6, 500, 4_000], dtype=np.int64) * 60_000
    wanted = np.asarray([6, 60, 500, 4_000], dtype=np.int64) * 60_000
    assert drawn_times._exchanged(steps, duration, wanted, simulated(3)).tolist() == wanted.tolist()


def test_a_step_takes_part_in_twelve_rounds_of_a_mean_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve cases of one, two or six steps have 32. So there are 32 rounds, in each of which a case takes part with
    one step at most. Those that meet are of one pair and of different cases."""
    released: Released = [((0, 1), 4), ((0, 1, 0), 5), ((0, 1, 0, 1, 0, 1, 1), 3)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    rounds = []

    def recorded(_: object, one: np.ndarray, other: np.ndarray, *rest: object) -> None:
        rounds.append((one.tolist(), other.tolist()))

    monkeypatch.setattr(drawn_times, "_exchange_pairs", recorded)
    duration = np.zeros(len(steps.pair), dtype=np.int64)
    drawn_times._exchanged(steps, duration, steps.sums(duration), simulated(1))
    assert len(rounds) == drawn_times.ROUNDS_A_STEP * 32 // 12 == 32
    for one, other in rounds:
        assert len(one) == len(other)
        assert steps.pair[one].tolist() == steps.pair[other].tolist()
        cases = steps.case[[*one, *other]].tolist()
        assert len(set(cases)) == len(cases)
    met = {step for one, other in rounds for step in (*one, *other)}
    assert set(steps.pair[list(met)].tolist()) == {0, 1, 2}
    assert {steps.case[step] for step in met} == set(range(12))


def test_an_exchange_that_changes_nothing_is_left_out() -> None:
    """Two cases of one target are as near to it either way."""
    released: Released = [((0, 1), 2)]
    steps = drawn_times.ReleasedSteps.of(released, pairs_of(released, 2), 2)
    duration = np.asarray([1_000, 2_000], dtype=np.int64)
    one, other = np.arange(1), np.arange(1, 2)
    drawn_times._exchange_pairs(steps, one, other, duration, steps.sums(duration), np.asarray([5_000, 5_000]))
    assert duration.tolist() == [1_000, 2_000]


def test_the_slowest_cases_take_what_the_steps_leave() -> None:
    """Wanted times add up to the drawn ones; those up to the .9 quantile are the quantiles of the histogram."""
    edges = log_edges(16_000, 4)
    shape = np.asarray([0.0, 0.5, 0.5, 0.0, 0.0])
    drawn = np.arange(1, 101, dtype=np.int64) * 80
    wanted = drawn_times._target_throughput(drawn, shape, edges, simulated(1))
    ranked = drawn_times.quantiles(shape, edges, (np.arange(100) + 0.5) / 100)
    assert wanted[:90].tolist() == ranked[:90].tolist(), "in the order of the drawn times"
    assert int(wanted.sum()) == pytest.approx(int(drawn.sum()), abs=10)
    little = drawn_times._target_throughput(drawn // 80, shape, edges, simulated(1))
    assert little[:90].tolist() == ranked[:90].tolist()
    assert little[90:].min() >= ranked[90], "never below the .9 quantile"
    assert drawn_times._target_throughput(drawn[:0], shape, edges, simulated(1)).tolist() == []


# facts


def test_facts_name_the_quantiles_and_the_pairs_that_are_too_noisy() -> None:
    """From noise and released counts only: a pair of few steps is unreadable whatever its durations are."""
    bounds = PublicTimeBounds(DAY)
    released: Released = [((0, 1), 1000), ((1, 0), 2)]
    noisy = _noisy(released, bounds, 2, noise=10.0056)
    hour = int(np.searchsorted(bounds.throughput_edges, HOUR)) - 1
    noisy.throughput[hour] = 1e7
    facts = draw_times(noisy, released, "ab", bounds, 3 * UNIT, simulated(1)).facts
    assert facts["unreadable"] == [["b", "a"]]
    assert facts["noise"] == {"steps": 10.006, "cases": 90.05}, "the root of 81 bins times that of a cell"
    assert facts["readable_from_steps"] == 200.1, "20 deviations"
    low, high = bounds.throughput_edges[hour : hour + 2].tolist()
    seconds = facts["throughput_seconds"]
    assert low / 1000 <= seconds["median"] <= seconds["quantile_90"] <= high / 1000
    assert seconds["median"] == pytest.approx((low * high) ** 0.5 / 1000, rel=0.01)
    assert seconds["quantile_90"] == pytest.approx(low * (high / low) ** 0.9 / 1000, rel=0.01)


@pytest.mark.parametrize(("steps", "unreadable"), [(200, []), (199, [["a", "b"]])])
def test_a_pair_of_20_deviations_is_readable(steps: int, unreadable: list[list[str]]) -> None:
    """Each step of a case of one step weighs one."""
    bounds = PublicTimeBounds(DAY)
    released: Released = [((0, 1), steps)]
    noisy = _noisy(released, bounds, 2, noise=10.0)
    facts = draw_times(noisy, released, "ab", bounds, 3 * UNIT, simulated(1)).facts
    assert facts["unreadable"] == unreadable


def test_the_weight_of_released_steps_is_that_of_the_histograms() -> None:
    """A case that takes each pair in one bin weighs in the released traces as it was measured."""
    bounds = PublicTimeBounds(DAY)
    traces = ["abab", "abab", "ab", "bca"]
    moments = [case * DAY + place * HOUR for case, trace in enumerate(traces) for place in range(len(trace))]
    log = EventLog.from_events(
        [str(case) for case, trace in enumerate(traces) for _ in trace],
        [label for trace in traces for label in trace],
        np.asarray(moments, dtype=np.int64) * MS,
        unit="ns",
    )
    counts = Counter(traces)
    released: Released = [(tuple("abc".index(label) for label in trace), count) for trace, count in counts.items()]
    pairs = pairs_of(released, 3)
    for bound in (1, 4):
        true = times.true_cells(log, "abc", pairs, bounds, bound * UNIT)["steps"].sum(axis=1) / UNIT
        weighted = drawn_times.weighted_steps(released, pairs, 3, bounds, bound * UNIT)
        assert weighted.tolist() == pytest.approx(true.tolist())


# starts and rows


def test_starts_are_drawn_from_weeks_and_hours() -> None:
    """Cells below two deviations of the noise count as 0; a start is in the range."""
    first = 100 * DAY
    bounds = PublicTimeBounds(DAY, (first, first + 3 * WEEK))
    noisy = _noisy(RELEASED, bounds, 3, noise=5.0)
    noisy.weeks[:] = [9.9, 10.0, -50.0, 0.0]
    noisy.hours[7] = 10.0
    rows = draw_times(noisy, RELEASED, "abc", bounds, 3 * UNIT, simulated(2)).rows
    starts = np.concatenate([each[:, 0] for each in rows if each.shape[1]]) // MS - first
    assert set((starts // WEEK).tolist()) == {1}
    assert set((starts % WEEK // HOUR).tolist()) == {7}
    assert len(set(starts.tolist())) > 50, "evenly within the hour"
    noisy.weeks[:] = [0.0, 0.0, 0.0, 10.0]
    noisy.hours[7], noisy.hours[99] = 0.0, 10.0
    late = draw_times(noisy, RELEASED, "abc", bounds, 3 * UNIT, simulated(2)).rows
    assert {int(each[0, 0]) // MS for each in late if each.size} == {first + 3 * WEEK}, "cut to the range"


def test_starts_without_anything_above_the_noise_are_anywhere() -> None:
    """Every cell is as likely."""
    found = drawn_times._drawn_cells(np.asarray([1.0, -3.0, 2.0, 0.0]), 5.0, 400, simulated(1))
    assert set(found.tolist()) == {0, 1, 2, 3}
    assert drawn_times._drawn_cells(np.asarray([0.0, 30.0, 10.0]), 5.0, 400, simulated(1)).tolist().count(1) > 250


def test_without_a_range_every_case_starts_at_zero_and_times_end_with_the_clock() -> None:
    """Sums of durations are cut to what a clock of nanoseconds holds."""
    bounds = PublicTimeBounds(DAY)
    rows = draw_times(_noisy(RELEASED, bounds, 3), RELEASED, "abc", bounds, 3 * UNIT, simulated(3)).rows
    assert all((each[:, 0] == 0).all() for each in rows if each.shape[1])
    assert all((np.diff(each, axis=1) >= 0).all() for each in rows)
    late = drawn_times._rows([((0, 0), 2)], np.asarray([MAX_TIME_MS - 5, 1]), np.asarray([9, 9]))
    assert late[0].tolist() == [[(MAX_TIME_MS - 5) * MS, MAX_TIME_MS * MS], [MS, 10 * MS]]


def test_an_empty_release_has_no_times() -> None:
    """No trace passed: the facts exist all the same, so that they do not depend on it."""
    bounds = PublicTimeBounds(DAY, (0, 9 * WEEK))
    timed = draw_times(_noisy([], bounds, 2, noise=3.0), [], "ab", bounds, 3 * UNIT, simulated(3))
    assert timed.rows == []
    assert timed.facts["unreadable"] == []
    assert set(timed.facts["throughput_seconds"]) == {"median", "quantile_90"}


def test_each_variant_has_its_own_cases_and_steps() -> None:
    """Also after cases without events, which have a start and no step."""
    released: Released = [((0, 1), 2), ((), 2), ((1,), 1), ((0, 1, 0), 1)]
    starts, duration = np.asarray([10, 20, 30, 40, 50, 60]), np.asarray([1, 2, 3, 4])
    rows = drawn_times._rows(released, starts, duration)
    assert [each.tolist() for each in rows] == [
        [[10 * MS, 11 * MS], [20 * MS, 22 * MS]],
        [[], []],
        [[50 * MS]],
        [[60 * MS, 63 * MS, 67 * MS]],
    ]


def test_stated_quantiles_are_in_whole_seconds() -> None:
    """The middle of a bin between 3 and 27 hours is 9 hours."""
    edges = np.asarray([0, 3 * HOUR, 27 * HOUR])
    assert drawn_times._seconds(np.asarray([0.0, 1.0]), edges, 0.5) == 9 * 3_600
    assert drawn_times._seconds(np.asarray([1.0, 0.0]), edges, 0.5) == 0
