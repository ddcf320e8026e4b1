"""Times of dp-synthetic against definitions: bins, weighted histograms, their noise, and drawn times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.annotation import MAX_TIME_MS
from models.dp.noise import NoiseSource
from models.dp.synthesis import times
from models.dp.synthesis.times import PublicTimeBounds
from models.errors import InputError
from models.eventlog import Column, EventLog

MS = 1_000_000


HOUR = 3_600_000


DAY = 24 * HOUR


WEEK = 7 * DAY


UNIT = 2**16


YEARS_35 = 2**40


class NoisePerCall(NoiseSource):
    """Noise call by call (none without), and words as given (drawn without); notes what was asked for."""

    __slots__ = ("asked", "given", "noise", "scripted")

    def __init__(self, noise: Sequence[int] = (), scripted: Sequence[int] = (), seed: int = 1) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(seed))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "given", [])
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "scripted", scripted)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return np.full(size, self.noise[len(self.asked) - 1] if self.noise else 0, dtype=np.int64)

    def words(self, size: int) -> np.ndarray:
        drawn = np.asarray(self.scripted, dtype=np.uint64) if self.scripted else super().words(size)
        self.given.append(drawn.tolist())
        return drawn


def _log(*cases: tuple[str, Sequence[int]]) -> EventLog:
    """Cases of labels and moments in milliseconds; a case may be empty."""
    log = EventLog.from_events(
        [str(number) for number, (trace, _) in enumerate(cases) for _ in trace or "x"],
        [label for trace, _ in cases for label in trace or "x"],
        np.asarray([moment * MS for trace, moments in cases for moment in (moments if trace else [0])], dtype=np.int64),
        unit="ns",
    )
    return log.select_events(np.asarray([value != "x" for value in log.activity.values])[log.activity.codes])


def test_bounds_lie_between_a_second_and_35_years() -> None:
    """Durations, and ranges of starts that a clock of nanoseconds can hold."""
    for duration in (1_000, YEARS_35 - 1):
        assert PublicTimeBounds(duration).range == (0, 0)
    for duration in (999, 0, YEARS_35):
        with pytest.raises(InputError, match="max_duration must be between a second and 35 years"):
            PublicTimeBounds(duration)
    for start in ((0, 1), (-5, YEARS_35 - 6), (-MAX_TIME_MS, -MAX_TIME_MS + 9), (MAX_TIME_MS - 9, MAX_TIME_MS)):
        assert PublicTimeBounds(DAY, start).range == start
    for start in ((3, 3), (3, 2), (0, YEARS_35)):
        with pytest.raises(InputError, match="the last start must be after the first"):
            PublicTimeBounds(DAY, start)
    for start in ((-MAX_TIME_MS - 1, -MAX_TIME_MS + 9), (MAX_TIME_MS - 9, MAX_TIME_MS + 1)):
        with pytest.raises(InputError, match="within the years 1678 to 2261"):
            PublicTimeBounds(DAY, start)


@pytest.mark.parametrize(
    "duration", [1_000, 1_413, 1_414, 1_415, 1_999, 2_000, 4_001, 30_000, DAY, 30 * DAY, YEARS_35 - 1]
)
def test_bins_of_durations_double_in_two_steps(duration: int) -> None:
    """0, then a second times the powers of the root of 2 that are not above the bound, rounded."""
    edges = [0]
    power = 0
    while 1_000**2 * 2**power <= duration**2:
        edges.append(round(1_000 * 2 ** (power / 2)))
        power += 1
    found = PublicTimeBounds(duration).edges
    assert found.dtype == np.int64
    assert found.tolist() == edges


def test_parts_of_epsilon_of_times() -> None:
    """Two thirds for durations and a sixth for each histogram of starts; all of it without these."""
    assert PublicTimeBounds(DAY).parts(Fraction(5)) == (5, 0, 0)
    assert PublicTimeBounds(DAY, (0, 9)).parts(Fraction(6)) == (4, 1, 1)


def _random_log(rng: np.random.Generator, cases: int) -> list[tuple[str, list[int]]]:
    found = []
    for _ in range(cases):
        size = int(rng.integers(0, 9))
        moments = np.cumsum(rng.choice([0, 400, 999, 1_000, 1_500, HOUR, DAY - 1, DAY, 5 * DAY], size)) + 3 * DAY
        found.append(("".join(rng.choice(list("abc"), size)), moments.tolist()))
    return found


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_steps_are_counted_by_pair_and_duration(bound: int) -> None:
    """Each with weight min(1, B / n) of a case of n pairs, rounded down; pairs that are not released are not counted;
    too long ones count as the longest."""
    rng = np.random.default_rng(bound)
    bounds = PublicTimeBounds(DAY)
    edges = bounds.edges.tolist()
    for pairs in ([0 * 3 + 1, 1 * 3 + 1, 2 * 3 + 0], list(range(9)), [5], [0], []):
        cases = _random_log(rng, 12)
        expected = [[0] * len(edges) for _ in pairs]
        for trace, moments in cases:
            for place in range(1, len(trace)):
                key = "abc".index(trace[place - 1]) * 3 + "abc".index(trace[place])
                took = min(moments[place] - moments[place - 1], DAY)
                if key in pairs:
                    column = max(one for one, edge in enumerate(edges) if edge <= took)
                    expected[pairs.index(key)][column] += min(UNIT, UNIT * bound // (len(trace) - 1))
        log = _log(*cases)
        codes = times._codes(log, "abc")
        found = times.durations_of(log, codes, 3, np.asarray(pairs, dtype=np.int64), bounds, bound)
        assert found.dtype == np.int64
        assert found.tolist() == expected
    nobody = _log()
    assert times.durations_of(nobody, times._codes(nobody, "abc"), 3, np.asarray([4]), bounds, 1).sum() == 0


def test_a_step_back_in_time_took_none() -> None:
    """Clocks that disagree: the shortest bin, not the longest."""
    log = _log(("ab", [5_000, 9_000]))
    back = replace(log, time=log.time[::-1].copy())
    found = times.durations_of(back, times._codes(back, "ab"), 2, np.asarray([1]), PublicTimeBounds(DAY), 1)
    assert found[0].tolist() == [UNIT] + [0] * (len(PublicTimeBounds(DAY).edges) - 1)


def test_labels_have_their_place_in_the_alphabet() -> None:
    """The order of the log's own alphabet does not matter."""
    log = _log(("cab", [1, 2, 3]))
    assert times._codes(log, "abc").tolist() == [2, 0, 1]
    assert times._codes(log, ["b", "q", "c"])[[0, 2]].tolist() == [2, 0]
    assert times._codes(log, ["b", "q", "c"])[1] < 0
    nameless = replace(log, activity=Column(np.asarray([0, -1, 1], dtype=np.int32), ("a", "b")))
    assert times._codes(nameless, "ab")[[0, 2]].tolist() == [0, 1]
    assert times._codes(nameless, "ab")[1] < 0


def test_pairs_are_those_of_the_released_traces() -> None:
    """Each once, in order."""
    assert times._pairs([((2, 0, 1), 5), ((), 1), ((0, 1), 2), ((1,), 9)], 3).tolist() == [0 * 3 + 1, 2 * 3 + 0]
    assert times._pairs([], 3).tolist() == []


@pytest.mark.parametrize("length", [5 * HOUR, WEEK - 1, WEEK, 20 * DAY])
def test_starts_are_counted_by_week_and_hour(length: int) -> None:
    """Of the public range, to which they are cut; each case with an event once in each."""
    first = 11 * DAY + 3
    bounds = PublicTimeBounds(DAY, (first, first + length))
    moments = [0, first - 1, first, first + HOUR - 1, first + HOUR, first + length, first + length + 1, first + 9 * DAY]
    cases = [("ab", [moment, moment + 5 * DAY]) for moment in moments[1:]]
    weeks, hours = times.starts_of(_log(("a", moments[:1]), *cases[:3], ("", []), *cases[3:]), bounds)
    begun = [min(max(moment, first), first + length) - first for moment in moments]
    assert len(hours) == 168
    assert weeks.tolist() == [sum(one // WEEK == week for one in begun) for week in range(length // WEEK + 1)]
    assert hours.tolist() == [sum(one % WEEK // HOUR == hour for one in begun) for hour in range(168)]


def test_noisy_cells_count_from_three_scales_on() -> None:
    """At three scales, and not one below; noise is added in every cell."""
    source = NoisePerCall([7])
    assert times._noised(np.asarray([[5, 4, 100], [0, -50, 6]]), 4.0, source).tolist() == [[12, 0, 107], [0, 0, 13]]
    assert source.asked == [(4.0, 6)]


def test_durations_are_smoothed_over_neighbouring_bins() -> None:
    """A third of each bin goes to each neighbour and what would leave at an end stays; below a second nothing moves. A
    bin counts from 3 times the noise that is left in it on, the first one from 2 scales on."""
    noisy = np.asarray([[36, 90, 0, 0, 360, 0], [7, 0, 0, 120, 0, -60], [8, 60, 60, 0, 0, 90]])
    third, end = 3 * 4.0 * (3 / 9) ** 0.5, 3 * 4.0 * (5 / 9) ** 0.5
    expected = [[36, 60, 30, 120, 120, 120], [0, 0, 40, 40, 20, -40], [8, 60, 40, 20, 30, 60]]
    least = [8.0, end, third, third, third, end]
    kept = [[n if n >= bound else 0 for n, bound in zip(row, least, strict=True)] for row in expected]
    assert times._smoothed(noisy, 4.0).ravel().tolist() == pytest.approx([n for row in kept for n in row])
    assert kept[1] == [0, 0, 40, 40, 20, 0]


def test_bins_that_stand_far_above_the_noise_are_left_as_they_are() -> None:
    """From 500 scales in a row on, not one unit below: then 3 scales a bin, 2 in the first one."""
    settled = np.asarray([[8, 1_969, 12, 11, 0], [7, 2_000, 0, 0, -7]])
    assert times._smoothed(settled, 4.0).tolist() == [[8, 1_969, 12, 0, 0], [0, 2_000, 0, 0, 0]]
    assert times._smoothed(np.asarray([[0, 1_999, 0, 0]]), 4.0)[0, 2] == pytest.approx(1_999 / 3)


def test_a_row_without_cells_is_that_of_all_rows() -> None:
    """And even if there is none at all."""
    cells = np.asarray([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    assert times._chances(cells).tolist() == [[0.75, 0.25, 0], [3 / 8, 1 / 8, 4 / 8], [0, 0, 1]]
    assert times._chances(np.zeros((2, 4))).tolist() == [[0.25] * 4] * 2


def _place(chances: Sequence[Fraction], word: int) -> int:
    """The bin at that place of the chances."""
    point, place = Fraction(word >> 11, 2**53), 0
    while place < len(chances) - 1 and point >= sum(chances[: place + 1]):
        place += 1
    return place


def test_durations_are_drawn_from_their_row_and_evenly_within_a_bin() -> None:
    """Below a second all are 0; the last bin ends at the bound."""
    bounds = PublicTimeBounds(3_000)
    low, high = [0, 1_000, 1_414, 2_000, 2_828], [0, 1_413, 1_999, 2_827, 3_000]
    cells = np.asarray([[1, 2, 3, 4, 6], [0, 0, 0, 0, 0], [8, 0, 0, 1, 1]], dtype=np.float64)
    histogram = times._Histogram.of(cells, bounds)
    assert (histogram.low.tolist(), histogram.high.tolist()) == (low, high)
    rows = np.tile([0, 1, 2], 40)
    source = NoisePerCall()
    found = histogram.sample(rows, source).tolist()
    whole = [cells[0], cells.sum(axis=0), cells[2]]
    exact = [[Fraction(int(n), int(row.sum())) for n in row] for row in whole]
    for duration, row, word, within in zip(found, rows.tolist(), *source.given, strict=True):
        place = _place(exact[row], word)
        assert duration == low[place] + within % (high[place] - low[place] + 1)
    assert {place for place in range(5) for duration in found if low[place] <= duration <= high[place]} == set(range(5))


def test_a_bound_at_the_edge_of_a_bin() -> None:
    """The last bin holds one duration."""
    histogram = times._Histogram.of(np.asarray([[0.0, 0, 0, 5.0]]), PublicTimeBounds(2_000))
    assert histogram.high.tolist() == [0, 1413, 1999, 2000]
    assert set(histogram.sample(np.zeros(20, dtype=np.int64), NoisePerCall()).tolist()) == {2_000}
    assert times._Histogram.of(np.zeros((1, 2)), PublicTimeBounds(1_000)).high.tolist() == [0, 1000]


def test_the_largest_word_is_still_in_its_row() -> None:
    """Row and place add up to the next whole number by rounding: it is the last bin, not one of the next row."""
    flat = times._flat(np.asarray([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]))
    top = 2**64 - 1
    assert times._drawn(flat, np.asarray([1, 1, 0, 2]), 2, NoisePerCall(scripted=[top, 0, top, top])).tolist() == [
        1,
        0,
        1,
        1,
    ]


def test_rows_add_up_from_the_start() -> None:
    """Starts from the histogram of weeks and hours, else 0; then one duration after the other, in nanoseconds."""
    first = 100 * DAY
    bounds = PublicTimeBounds(3_000, (first, first + 3 * WEEK))
    histogram = times._Histogram.of(np.asarray([[1.0, 1, 1, 1, 1], [0, 0, 0, 0, 9.0]]), bounds)
    pairs = np.asarray([0 * 3 + 1, 1 * 3 + 2])
    hour = np.zeros(168)
    hour[5] = 1.0
    starts = (np.asarray([0.0, 1.0, 0.0, 0.0]), hour)
    source = NoisePerCall()
    rows = times._rows((0, 1, 2), 6, pairs, 3, histogram, bounds, starts, source)
    assert rows.shape == (6, 3)
    assert rows.dtype == np.int64
    assert (rows % MS == 0).all()
    begun = rows[:, 0] // MS - first
    assert (begun // HOUR).tolist() == [168 + 5] * 6
    within = source.given[-1]
    assert (begun % HOUR).tolist() == [word % HOUR for word in within]
    again = histogram.sample(np.tile([0, 1], 6), NoisePerCall()).reshape(6, 2)
    assert (np.diff(rows, axis=1) // MS).tolist() == again.tolist()
    assert (again[:, 1] >= 2_828).all()
    none = times._rows((0, 1, 2), 6, pairs, 3, histogram, bounds, None, NoisePerCall())
    assert none[:, 0].tolist() == [0] * 6
    assert (np.diff(none, axis=1) // MS).tolist() == again.tolist()
    assert times._rows((2,), 3, pairs, 3, histogram, bounds, None, NoisePerCall()).tolist() == [[0]] * 3
    alone = times._rows((2,), 2, pairs, 3, histogram, bounds, starts, NoisePerCall())
    assert (alone // MS >= first + WEEK + 5 * HOUR).all()
    assert times._rows((), 2, pairs, 3, histogram, bounds, starts, NoisePerCall()).shape == (2, 0)


def test_each_step_is_drawn_from_the_row_of_its_pair() -> None:
    """Rows are those of the pairs in order, whatever the order in the trace."""
    bounds = PublicTimeBounds(3_000)
    pairs = np.asarray([0 * 3 + 1, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 1])
    histogram = times._Histogram.of(np.eye(4, 5), bounds)
    rows = times._rows((2, 1, 0, 1, 2), 7, pairs, 3, histogram, bounds, None, NoisePerCall())
    steps = np.diff(rows, axis=1) // MS
    for column, row in enumerate([3, 1, 0, 2]):
        assert ((steps[:, column] >= histogram.low[row]) & (steps[:, column] <= histogram.high[row])).all()


def test_no_time_is_behind_the_last_one() -> None:
    """A start is cut to the range, and a sum of durations to what a clock of nanoseconds holds."""
    bounds = PublicTimeBounds(DAY, (0, 2 * HOUR))
    hour = np.zeros(168)
    hour[100] = 1.0
    begun = times._begun(5, bounds, (np.asarray([1.0]), hour), NoisePerCall())
    assert begun.tolist() == [2 * HOUR] * 5
    end = PublicTimeBounds(DAY, (MAX_TIME_MS - HOUR, MAX_TIME_MS))
    histogram = times._Histogram.of(np.asarray([[0.0] * (len(end.edges) - 1) + [1.0]]), end)
    rows = times._rows((0, 0), 4, np.asarray([0]), 1, histogram, end, (np.asarray([1.0]), hour), NoisePerCall())
    assert rows.tolist() == [[MAX_TIME_MS * MS] * 2] * 4


@pytest.mark.parametrize("person", [1, 2])
@pytest.mark.parametrize("start", [None, (0, 20 * DAY)])
def test_every_cell_is_noised_with_its_part(start: tuple[int, int] | None, person: int) -> None:
    """Durations at scale B c / epsilon_d, weeks and hours at c / epsilon_s, also the empty cells; what noise puts above
    three scales is drawn."""
    bounds = PublicTimeBounds(3_000, start)
    log = _log(*[("ab", [9 * DAY + HOUR, 9 * DAY + HOUR + 1_500])] * 900)
    source = NoisePerCall()
    released = [((0, 1), 5), ((1, 0, 1), 2)]
    given = times.add(log, "ab", released, bounds, Fraction(6), 3, source, *([person] if person > 1 else []))
    unit = 3 * UNIT * person
    if start is None:
        assert source.asked == [(unit / 6, 2 * 5)]
    else:
        assert source.asked == [(unit / 4, 2 * 5), (person / 1, 3), (person / 1, 168)]
    assert [rows.shape for rows in given] == [(5, 2), (2, 3)]
    for rows in given:
        steps = np.diff(rows, axis=1) // MS
        assert ((steps >= 1_414) & (steps < 2_000)).all(), "the row of b a is that of all pairs"
        expected = 0 if start is None else WEEK + 2 * DAY + HOUR
        assert ((rows[:, 0] // MS - expected >= 0) & (rows[:, 0] // MS - expected < HOUR)).all()
    assert times.add(log, "ab", [], bounds, Fraction(6), 3, NoisePerCall()) == []


def test_too_many_bins_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By public numbers alone: pairs of released traces, and bins up to the bound."""
    log = _log(("ab", [0, 1]))
    monkeypatch.setattr(times, "MOST_CELLS", 10)
    source = NoisePerCall()
    assert len(times.add(log, "ab", [((0, 1, 0), 1)], PublicTimeBounds(3_000), Fraction(1), 1, source)) == 1
    with pytest.raises(InputError, match="3 directly-follows pairs have too many bins"):
        times.add(log, "ab", [((0, 1, 0, 0), 1)], PublicTimeBounds(3_000), Fraction(1), 1, source)
    assert [size for _, size in source.asked] == [10], "of the first alone"


def test_what_is_left_of_the_noise_decides_which_bins_stay() -> None:
    """Noise of scale 10 and five bins. A third of a bin goes to each neighbour, so of an inner bin's noise sqrt(1/3) is
    left and at an end sqrt(5)/3: 20 is above three scales of the one and below three of the other. A row of 500 scales
    is left as it is, and its bins stay from three whole scales on; the first bin from two on."""
    noisy = np.asarray([[0, 0, 60, 0, 0], [5000, 29, 31, 0, 0], [19, 0, 0, 0, 0], [21, 0, 0, 0, 0]])
    assert times._smoothed(noisy, 10.0).tolist() == [
        pytest.approx([0, 0, 20, 20, 0]),
        [5000, 0, 31, 0, 0],
        [0, 0, 0, 0, 0],
        [21, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize("bins", [9, 21, 39])
def test_chances_that_round_to_more_than_one_stay_in_their_row(bins: int) -> None:
    """The smallest word of a row gives its first bin, whatever the row before adds up to."""
    chances = np.full((2, bins), 1 / bins)
    assert np.cumsum(chances[0])[-1] > 1.0
    drawn = times._drawn(times._flat(chances), np.asarray([0, 1]), bins, NoisePerCall(scripted=[0, 0]))
    assert drawn.tolist() == [0, 0]


TRACE = st.lists(st.integers(0, 3), max_size=40).map(tuple)


@settings(deadline=None)
@given(st.lists(TRACE.filter(len), min_size=1, max_size=5), TRACE.filter(len), st.integers(1, 4))
def test_times_of_a_case_are_bounded(cases: list[tuple[int, ...]], more: tuple[int, ...], bound: int) -> None:
    """One case more adds at most B to all histograms of durations together, and one to each histogram of starts."""
    bounds = PublicTimeBounds(7 * DAY, (0, 60 * DAY))
    pairs = np.arange(16, dtype=np.int64)
    sums = []
    for log in (cases, [*cases, more]):
        source = _log(
            *(
                ("".join("ABCD"[i] for i in case), [(number + 5 * place) * HOUR for place in range(len(case))])
                for number, case in enumerate(log)
            )
        )
        codes = times._codes(source, "ABCD")
        starts = times.starts_of(source, bounds)
        sums.append((times.durations_of(source, codes, 4, pairs, bounds, bound), *starts))
    changes = [after - before for before, after in zip(*sums, strict=True)]
    assert all(change.min() >= 0 for change in changes)
    assert changes[0].sum() <= bound * UNIT
    assert [int(change.sum()) for change in changes[1:]] == [1, 1]
