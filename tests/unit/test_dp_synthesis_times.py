"""The measured times of dp-synthetic against definitions: bins, weighted histograms, and their noise."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.annotation import MAX_TIME_MS
from models.dp.synthesis import times
from models.dp.synthesis.times import PublicTimeBounds
from models.errors import InputError
from models.eventlog import Column, EventLog
from tests.unit.known_noise import EqualNoise

MS = 1_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
WEEK = 7 * DAY
UNIT = 2**16
YEARS_35 = 2**40


def _log(*cases: tuple[str, Sequence[int]]) -> EventLog:
    """Cases of labels and moments in milliseconds; a case may be empty."""
    log = EventLog.from_events(
        [str(number) for number, (trace, _) in enumerate(cases) for _ in trace or "x"],
        [label for trace, _ in cases for label in trace or "x"],
        np.asarray([moment * MS for trace, moments in cases for moment in (moments if trace else [0])], dtype=np.int64),
        unit="ns",
    )
    return log.select_events(np.asarray([value != "x" for value in log.activity.values])[log.activity.codes])


def _pairs(*names: str, alphabet: str) -> np.ndarray:
    """Sorted keys of pairs that are written as two labels."""
    places = [(alphabet.index(name[0]), alphabet.index(name[1])) for name in names]
    return np.asarray(sorted(a * len(alphabet) + b for a, b in places), dtype=np.int64)


def test_bounds_are_between_a_second_and_35_years() -> None:
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


@pytest.mark.parametrize("duration", [60_000, DAY, 30 * DAY, YEARS_35 - 1])
def test_bins_have_equal_ratios_from_a_second_on(duration: int) -> None:
    """20 of durations up to the bound, 80 of throughput times up to 16 times the bound; one below a
    second."""
    bounds = PublicTimeBounds(duration)
    for edges, longest, bins in ((bounds.step_edges, duration, 20), (bounds.throughput_edges, 16 * duration, 80)):
        assert edges.dtype == np.int64
        assert edges[:2].tolist() == [0, 1_000]
        assert edges[-1] == longest
        assert len(edges) == bins + 2
        ratio = (longest / 1_000) ** (1 / bins)
        assert edges[2:] / edges[1:-1] == pytest.approx([ratio] * bins, rel=1e-3)


def test_bins_that_milliseconds_cannot_distinguish_are_joined() -> None:
    """Edges increase, also for a bound of a second."""
    assert PublicTimeBounds(1_000).step_edges.tolist() == [0, 1_000]
    edges = PublicTimeBounds(1_004).step_edges
    assert edges.tolist() == [0, 1_000, 1_001, 1_002, 1_003, 1_004]


@pytest.mark.parametrize("start", [None, (0, 9)])
def test_the_parts_of_a_case_add_up(start: tuple[int, int] | None) -> None:
    """Of the square of its weight."""
    blocks = PublicTimeBounds(DAY, start).blocks
    assert sum(blocks.values()) == 1
    assert set(blocks) == ({"steps", "throughput"} if start is None else {"steps", "throughput", "weeks", "hours"})


def test_a_case_adds_half_more_than_to_a_level_of_the_model() -> None:
    """In units."""
    assert [times.case_norm(weight) for weight in (1, 3)] == [UNIT * 3 // 2, UNIT * 9 // 2]


def test_weights_are_rounded_down() -> None:
    """The weight of a block is the root of its part of B^2, in units; a step weighs at most one."""
    for bound in (1, 3, 7):
        for part in (Fraction(1, 8), Fraction(1, 4), Fraction(3, 4)):
            weight = times.block_weight(part, bound * UNIT)
            assert weight**2 <= (bound * UNIT) ** 2 * part < (weight + 1) ** 2
            for square in (1, 2, 7, 10_000):
                step = times.step_weight(square, part, bound * UNIT)
                assert step <= UNIT
                assert step**2 * square <= (bound * UNIT) ** 2 * part
                assert step == UNIT or (step + 1) ** 2 * square > (bound * UNIT) ** 2 * part


def _random_cases(rng: np.random.Generator, cases: int) -> list[tuple[str, list[int]]]:
    chosen = []
    for _ in range(cases):
        size = int(rng.integers(0, 9))
        moments = np.cumsum(rng.choice([0, 400, 999, 1_000, 1_500, HOUR, DAY - 1, DAY, 5 * DAY], size)) + 3 * DAY
        chosen.append(("".join(rng.choice(list("abc"), size)), moments.tolist()))
    return chosen


def _bin(milliseconds: int, edges: list[int]) -> int:
    cut = min(max(milliseconds, 0), edges[-1] - 1)
    return max(place for place, edge in enumerate(edges) if edge <= cut)


@pytest.mark.parametrize("bound", [1, 2, 5])
@pytest.mark.parametrize("names", [["ab", "bb", "ca"], ["ab", "ba", "aa", "bb", "cc", "ac", "ca", "bc", "cb"], ["aa"]])
def test_steps_are_counted_by_pair_and_duration(bound: int, names: list[str]) -> None:
    """Each with the weight of its case, whose norm is that of its own cells; pairs that are not released are not
    counted, and too long steps count as the longest."""
    rng = np.random.default_rng(bound)
    bounds = PublicTimeBounds(DAY)
    edges = bounds.step_edges.tolist()
    pairs = _pairs(*names, alphabet="abc")
    cases = _random_cases(rng, 15)
    expected = np.zeros((len(pairs), len(edges) - 1), dtype=np.int64)
    for trace, moments in cases:
        cells: Counter[tuple[int, int]] = Counter()
        for place in range(1, len(trace)):
            key = "abc".index(trace[place - 1]) * 3 + "abc".index(trace[place])
            if key in pairs:
                cells[pairs.tolist().index(key), _bin(moments[place] - moments[place - 1], edges)] += 1
        for cell, number in cells.items():
            norm = math.sqrt(sum(each**2 for each in cells.values()))
            expected[cell] += number * min(UNIT, math.floor(bound * UNIT * math.sqrt(3 / 4) / norm))
    found = times.true_cells(_log(*cases), "abc", pairs, bounds, bound * UNIT)["steps"]
    assert found.dtype == np.int64
    assert found.tolist() == expected.tolist()


def test_a_log_without_steps_or_pairs_has_no_cells() -> None:
    """Cases of one event, cases without events, and no pair to count."""
    bounds = PublicTimeBounds(DAY)
    alone = _log(("a", [5]), ("", []))
    assert times.true_cells(alone, "ab", _pairs("ab", alphabet="ab"), bounds, UNIT)["steps"].sum() == 0
    none = np.zeros(0, dtype=np.int64)
    assert times.true_cells(_log(("ab", [1, 2])), "ab", none, bounds, UNIT)["steps"].shape == (0, 21)


def test_a_step_back_in_time_took_none() -> None:
    """Clocks that disagree: the shortest bin, not the longest; also of throughput times."""
    log = _log(("ab", [5_000, 9_000]))
    back = replace(log, time=log.time[::-1].copy())
    found = times.true_cells(back, "ab", _pairs("ab", alphabet="ab"), PublicTimeBounds(DAY), 2 * UNIT)
    assert np.flatnonzero(found["steps"][0]).tolist() == [0]
    weights = times.throughput_weights(81, times.block_weight(Fraction(1, 4), 2 * UNIT))
    assert found["throughput"].tolist() == weights[:, 0].tolist()


@pytest.mark.parametrize("alphabet", ["a", "ab", "abc", "abcd"])
def test_a_step_to_or_from_another_label_is_in_no_cell(alphabet: str) -> None:
    """Whatever pairs are counted: the place of a label that is missing makes the key of no pair."""
    names = ["".join(pair) for pair in itertools.product(alphabet, repeat=2)]
    pairs = _pairs(*names, alphabet=alphabet)
    log = _log(*((name, [0, 5_000]) for label in alphabet for name in (f"{label}z", f"z{label}")), ("zz", [0, 5_000]))
    assert not times.true_cells(log, alphabet, pairs, PublicTimeBounds(DAY), UNIT)["steps"].any()


def test_a_last_bin_of_one_millisecond_holds_all_longer_times() -> None:
    """A bound just above a second has such a bin."""
    bounds = PublicTimeBounds(1_001)
    assert bounds.step_edges.tolist() == [0, 1_000, 1_001]
    log = _log(("ab", [0, 999]), ("ab", [0, 1_000]), ("ab", [0, 5_000]), ("ab", [0, DAY]))
    (cells,) = times.true_cells(log, "ab", _pairs("ab", alphabet="ab"), bounds, UNIT)["steps"].tolist()
    assert cells[1] == 3 * cells[0] > 0


def test_labels_have_their_place_in_the_alphabet() -> None:
    """The order of the log's own alphabet does not matter; a label that is not there is in no pair."""
    log = _log(("cab", [1, 2, 3]))
    assert times._codes(log, "abc").tolist() == [2, 0, 1]
    nameless = replace(log, activity=Column(np.asarray([0, -1, 1], dtype=np.int32), ("a", "b")))
    every_pair = _pairs("aa", "ab", "ba", "bb", alphabet="ab")
    for missing in (log, nameless):
        cells = times.true_cells(missing, "ab", every_pair, PublicTimeBounds(DAY), UNIT)["steps"]
        names = [str(value) for value in missing.activity.decode()]
        counted = [pair for pair in itertools.pairwise(names) if set(pair) <= {"a", "b"}]
        assert int((cells > 0).sum()) == len(counted)


@pytest.mark.parametrize("length", [5 * HOUR, WEEK - 1, WEEK, 20 * DAY])
def test_starts_are_counted_by_week_and_hour(length: int) -> None:
    """Of the public range, to which they are cut; each case with an event once in each."""
    first = 11 * DAY + 3
    bounds = PublicTimeBounds(DAY, (first, first + length))
    moments = [0, first - 1, first, first + HOUR - 1, first + HOUR, first + length, first + length + 1, first + 9 * DAY]
    cases = [("ab", [moment, moment + 5 * DAY]) for moment in moments[1:]]
    log = _log(("a", moments[:1]), *cases[:3], ("", []), *cases[3:])
    found = times.true_cells(log, "ab", _pairs("ab", alphabet="ab"), bounds, 2 * UNIT)
    starts = [min(max(moment, first), first + length) - first for moment in moments]
    weight = math.isqrt((2 * UNIT) ** 2 // 8)
    weeks = [sum(start // WEEK == week for start in starts) * weight for week in range(length // WEEK + 1)]
    assert found["weeks"].tolist() == weeks
    hours = [sum(start % WEEK // HOUR == hour for start in starts) * weight for hour in range(168)]
    assert found["hours"].tolist() == hours


def test_cases_are_counted_by_throughput_time() -> None:
    """From the first event to the last one, up to 16 times the longest step; a case of one event takes no time."""
    bounds = PublicTimeBounds(DAY)
    edges = bounds.throughput_edges.tolist()
    spans = [0, 999, 1_000, HOUR, 5 * DAY, 16 * DAY - 1, 16 * DAY, 900 * DAY]
    log = _log(("a", [7]), ("", []), *(("aba", [7, 8, 7 + span]) for span in spans))
    found = times.true_cells(log, "ab", _pairs("ab", alphabet="ab"), bounds, 4 * UNIT)["throughput"]
    unit = math.isqrt((4 * UNIT) ** 2 // 4)
    expected = [0] * (len(edges) - 1)
    for span in [0, *spans]:
        first = _bin(span, edges)
        for cell in range(first, len(expected)):
            expected[cell] += _share_of_cell(cell - first, len(expected) - first, unit)
    assert found.tolist() == expected


def _share_of_cell(later: int, cells: int, unit: int) -> int:
    """The weight of a case in a cell so many places after its bin, rounded down, if it adds to so many cells."""
    squares = [Fraction(math.comb(2 * k, k), 4**k) ** 2 for k in range(cells)]
    return math.isqrt(math.floor(unit**2 * squares[later] / sum(squares)))


@pytest.mark.parametrize("cells", [1, 2, 3, 81])
def test_the_cells_of_a_case_are_the_root_of_cumulative_sums(cells: int) -> None:
    """The columns are those of a matrix whose square is that of the sums. No case adds more than its unit, and
    hardly less, whatever its bin."""
    for unit in (1, 100, 3 * UNIT):
        weights = times.throughput_weights(cells, unit)
        assert weights.dtype == np.int64
        assert not weights.flags.writeable, "all callers share it"
        squares = (weights.astype(object) ** 2).sum(axis=0).tolist()
        assert max(squares) <= unit**2
        assert min(squares) >= (unit - cells) * unit
    root = weights / np.diag(weights)
    assert root @ root == pytest.approx(np.tri(cells), abs=1e-4)
    three = [[847, 0, 0], [423, 894, 0], [317, 447, 1_000]]
    assert times.throughput_weights(3, 1_000).tolist() == three, "1, 1/2 and 3/8 by the root of 89/64; 1 and 1/2"


def test_sums_of_many_throughput_bins_have_little_noise() -> None:
    """If each of 81 bins had a cell, the noise of a sum would be nine times that of a cell. If all
    columns had the numbers of the first one, it would be 2.46 times that, the sum of squares of the series. It
    is less, since cases of late bins have their whole weight: the oracle inverts such a matrix."""
    log, pairs = _log(("ab", [0, HOUR])), _pairs("ab", alphabet="ab")
    noisy = times.measure(log, "ab", pairs, PublicTimeBounds(DAY), 3 * UNIT, 7.5 * UNIT, EqualNoise(5 * UNIT))
    series = np.asarray([math.comb(2 * k, k) / 4**k for k in range(81)])
    root = np.tril(series[np.subtract.outer(np.arange(81), np.arange(81))])
    of_cell = np.tri(81) @ np.linalg.inv(root / np.linalg.norm(root, axis=0))
    expected = float(np.linalg.norm(of_cell, axis=1).max())
    assert expected == pytest.approx(2.29, abs=0.005)
    assert float((series**2).sum()) == pytest.approx(2.46, abs=0.005)
    assert noisy.cases_noise == pytest.approx(noisy.throughput_noise * expected, rel=1e-3)
    cells = np.random.default_rng(2).normal(0.0, noisy.throughput_noise, (81, 20_000))
    sums = np.cumsum(np.linalg.solve(noisy.throughput_weights, cells), axis=0)
    assert sums.std(axis=1).max() == pytest.approx(noisy.cases_noise, rel=0.03)


@pytest.mark.parametrize("start", [None, (0, 20 * DAY)])
def test_every_cell_gets_noise_of_the_scale(start: tuple[int, int] | None) -> None:
    """One draw for all histograms, also for the empty cells; the results are in steps and cases."""
    bounds = PublicTimeBounds(DAY, start)
    log = _log(*[("ab", [9 * DAY + HOUR, 9 * DAY + HOUR + 1_500])] * 90)
    pairs = _pairs("ab", "ba", alphabet="ab")
    source = EqualNoise(5 * UNIT)
    noisy = times.measure(log, "ab", pairs, bounds, 3 * UNIT, 7.5 * UNIT, source)
    assert source.asked == [(7.5 * UNIT, 2 * 21 + 81 + (0 if start is None else 3 + 168))]
    true = times.true_cells(log, "ab", pairs, bounds, 3 * UNIT)
    assert noisy.steps == pytest.approx((true["steps"] + 5 * UNIT) / UNIT)
    assert noisy.steps.max() == pytest.approx(90 + 5)
    throughput = times.block_weight(Fraction(1, 4), 3 * UNIT)
    assert noisy.throughput == pytest.approx((true["throughput"] + 5 * UNIT) / throughput)
    assert noisy.throughput_weights == pytest.approx(times.throughput_weights(81, throughput) / throughput)
    assert (noisy.step_noise, noisy.throughput_noise) == (7.5, 7.5 * UNIT / throughput)
    if start is None:
        assert (len(noisy.weeks), len(noisy.hours), noisy.start_noise) == (0, 0, 0.0)
        return
    weight = times.block_weight(Fraction(1, 8), 3 * UNIT)
    assert np.argmax(noisy.weeks) == 1
    assert np.argmax(noisy.hours) == 2 * 24 + 1
    for block in (noisy.weeks, noisy.hours):
        assert block.max() == pytest.approx(90 + 5 * UNIT / weight)
        assert block.min() == pytest.approx(5 * UNIT / weight)
    assert noisy.start_noise == 7.5 * UNIT / weight


def test_too_many_bins_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By public numbers alone: pairs of released traces, bins and weeks."""
    log = _log(("ab", [0, 1]))
    bounds = PublicTimeBounds(DAY)
    pairs = _pairs("ab", "ba", alphabet="ab")
    source = EqualNoise()
    monkeypatch.setattr(times, "MOST_CELLS", 2 * 21 + 1)
    times.measure(log, "ab", pairs, bounds, UNIT, 9.0, source)
    monkeypatch.setattr(times, "MOST_CELLS", 2 * 21)
    with pytest.raises(InputError, match="2 directly-follows pairs have too many bins"):
        times.measure(log, "ab", pairs, bounds, UNIT, 9.0, source)
    assert len(source.asked) == 1, "of the first alone"


CASE = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40 * DAY)), min_size=1, max_size=40)


def _written(cases: Sequence[Sequence[tuple[int, int]]]) -> EventLog:
    rows = []
    for number, case in enumerate(cases):
        moments = [number * HOUR + sum(step for _, step in case[: place + 1]) for place in range(len(case))]
        rows.append(("".join("ABCD"[label] for label, _ in case), moments))
    return _log(*rows)


@settings(deadline=None)
@given(st.lists(CASE, max_size=3), st.lists(CASE, min_size=1, max_size=3), st.integers(1, 4), st.booleans())
def test_the_times_of_a_person_are_bounded(
    others: list[list[tuple[int, int]]], person: list[list[tuple[int, int]]], bound: int, has_starts: bool
) -> None:
    """A person with c cases changes all histograms together by at most c B in L2, however long the cases and steps."""
    bounds = PublicTimeBounds(7 * DAY, (0, 60 * DAY) if has_starts else None)
    pairs = np.arange(16, dtype=np.int64)
    without, with_person = (
        times.true_cells(_written(cases), "ABCD", pairs, bounds, bound * UNIT) for cases in (others, [*others, *person])
    )
    square = 0
    for name, cells in with_person.items():
        change = cells.ravel() - without[name].ravel()
        assert change.min() >= 0
        square += sum(each**2 for each in change.tolist())
    assert square <= (len(person) * bound * UNIT) ** 2
