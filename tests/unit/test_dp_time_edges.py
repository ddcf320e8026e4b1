"""Times of Amun at their edges: what is one window, what is one range, and where the calendar ends."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest

from models.dp.annotation import MAX_TIME_MS, annotate, sorted_alphabet
from models.dp.priors import _share, group_extent, prior_probabilities
from models.dp.timestamps import (
    LATTICE,
    case_times,
    compressed,
    compression_factor,
    noise_times,
    order_of_times,
    scaled,
)
from models.errors import InputError
from models.eventlog import EventLog
from tests.unit.known_noise import ScriptedNoise

SECOND, DAY = 1_000_000_000, 86_400_000_000_000


def _log(*cases: tuple[str, tuple[int, ...]]) -> EventLog:
    """Cases as (trace, nanoseconds)."""
    case, activity, time = [], [], []
    for number, (trace, moments) in enumerate(cases):
        case += [str(number)] * len(trace)
        activity += list(trace)
        time += list(moments)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


def test_relative_times_are_whole_milliseconds_since_the_predecessor() -> None:
    """The first event of a case counts from the start of the log, also before 1970; parts of a millisecond are cut."""
    log = _log(("ab", (-3_000_001, 1_999_999)), ("ab", (5_000_000, 5_999_999)))
    annotated = annotate(log)
    assert annotated.origin_ms == -4
    assert annotated.relative.tolist() == [0, 5, 9, 0]
    assert annotated.first.tolist() == [True, False, True, False]
    assert annotated.group[0] == annotated.group[2] == annotated.dafsa.n_transitions
    assert annotated.group[1] == annotated.group[3] < annotated.dafsa.n_transitions
    assert annotated.counts.sum() == 4
    chosen = annotated.select(np.asarray([False, True]))
    assert (chosen.relative.tolist(), chosen.first.tolist(), chosen.origin_ms) == ([9, 0], [True, False], -4)
    assert chosen.log.n_cases == len(chosen.variant_of_case) == 1


def test_a_span_of_278_years_is_the_last() -> None:
    """2^43 milliseconds do not fit the lattice; one less do."""
    most = (2**43 - 1) * 1_000_000
    assert annotate(_log(("ab", (0, most)))).relative.tolist() == [0, 2**43 - 1]
    with pytest.raises(InputError, match="278 years"):
        annotate(_log(("ab", (0, most + 1_000_000))))


def test_labels_in_sorted_order() -> None:
    """By their text, with the new code of each old one."""
    assert sorted_alphabet(("b", "a", 10, "c"))[0] == (10, "a", "b", "c")
    assert sorted_alphabet(("b", "a", 10, "c"))[1].tolist() == [2, 1, 0, 3]


def test_a_guess_is_right_within_ten_seconds_and_one_day() -> None:
    """Both ends belong to the window; a second or a day further does not. By hand from equation 1."""
    starts = (0, 1, 2, 5)
    steps = (0, 10, 20, 21)
    log = _log(*(("ab", (day * DAY, day * DAY + step * SECOND)) for day, step in zip(starts, steps, strict=True)))
    found = prior_probabilities(annotate(log), 0.2)
    assert found[0::2].tolist() == [2 / 4, 3 / 4, 2 / 4, 1 / 4]
    assert found[1::2].tolist() == [2 / 4, 3 / 4, 3 / 4, 2 / 4]


def test_times_are_read_in_whole_seconds_and_days() -> None:
    """10.9 seconds are 10, so that 0 and 10.9 are one guess; a start at noon is that of its day."""
    log = _log(
        ("ab", (0, 0)), ("ab", (DAY * 3 // 2, DAY * 3 // 2 + 10_900_000_000)), ("ab", (9 * DAY, 9 * DAY + 40 * SECOND))
    )
    found = prior_probabilities(annotate(log), 0.2)
    assert found.tolist() == [2 / 3, 2 / 3, 2 / 3, 2 / 3, 1 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("prior", "apart", "together"),
    [("closed-window", 10_999, True), ("closed-window", 11_000, False), ("paper-tables", 659_999, True)],
)
def test_where_a_second_and_a_minute_end(prior: str, apart: int, together: bool) -> None:
    """10.999 seconds are 10 seconds, and 11 are 11; 10 minutes and 59.999 seconds are 10 minutes."""
    log = _log(("ab", (0, 0)), ("ab", (0, apart * 1_000_000)))
    found = prior_probabilities(annotate(log), 0.2, prior)[1::2]  # type: ignore[arg-type]
    if prior == "closed-window":
        assert found.tolist() == [1.0 if together else 0.5] * 2
    else:
        assert found.tolist() == [0.5, 0.5]  # (0, 10] and (0, 20] hold the second value, and lose the first


def test_where_a_day_ends() -> None:
    """A millisecond before its midnight a day is the same day: one day from the first."""
    log = _log(("a", (0,)), ("a", (2 * DAY - 1_000_000,)), ("a", (5 * DAY,)))
    assert prior_probabilities(annotate(log), 0.2).tolist() == [2 / 3, 2 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("values", "above", "up_to", "shares"),
    [
        ((10, 0), (5, 0), (10, 10), (1.0, 0.0)),
        ((9, 0), (8, -9), (9, 0), (1.0, 1.0)),
        ((9, 1), (5, 5), (9, 9), (1.0, 0.0)),
        ((0, 0), (-1, -1), (9, 9), (1.0, 1.0)),
        ((2, 0), (-1, -1), (0, 0), (0.0, 1.0)),
    ],
)
def test_groups_do_not_reach_into_each_other(
    values: tuple[int, int], above: tuple[int, int], up_to: tuple[int, int], shares: tuple[float, float]
) -> None:
    """Here the largest of one group comes as near to the least of the next as values and windows permit."""
    found = _share(np.asarray([0, 1]), np.asarray(values), np.asarray(above), np.asarray(up_to))
    assert tuple(found.tolist()) == shares


@pytest.mark.parametrize("prior", ["closed-window", "paper-tables"])
def test_a_group_of_one_value_is_the_worst_case(prior: str) -> None:
    """Equation 2: nothing is known of a distribution that shows one value."""
    log = _log(("ab", (0, SECOND)), ("ab", (0, SECOND)))
    assert prior_probabilities(annotate(log), 0.2, prior).tolist() == [0.4] * 4  # type: ignore[arg-type]


def test_the_windows_of_the_papers_tables() -> None:
    """Whole minutes, (max(t - 10, least), t + 10]: the least value itself is lost; nobody is below one share."""
    minute = 60 * SECOND
    log = _log(*(("ab", (0, step * minute)) for step in (0, 10, 11, 30)))
    found = prior_probabilities(annotate(log), 0.2, "paper-tables")
    # t = 0: (0, 10] holds 10; t = 10: (0, 20] holds 10, 11; t = 11: (1, 21] both; t = 30: (20, 40] itself
    assert found[1::2].tolist() == [1 / 4, 2 / 4, 2 / 4, 1 / 4]


def test_nobody_guesses_worse_than_by_one_share() -> None:
    """The least value, whose window is empty, has one share of its group."""
    minute = 60 * SECOND
    log = _log(*(("ab", (0, step * minute)) for step in (0, 30, 60)))
    assert prior_probabilities(annotate(log), 0.2, "paper-tables")[1::2].tolist() == [1 / 3] * 3


def test_where_a_minute_ends() -> None:
    """10 minutes and 59.999 seconds are 10 minutes, and are within 10 minutes of the first value."""
    log = _log(("ab", (0, 0)), *[("ab", (0, 659_999 * 1_000_000))] * 2)
    assert prior_probabilities(annotate(log), 0.2, "paper-tables")[1::2].tolist() == [2 / 3] * 3


def test_the_calendar_begins_with_1678() -> None:
    """The first whole year that 64 bits of nanoseconds hold, and as far after 1970."""
    assert timedelta(milliseconds=MAX_TIME_MS) == date(1970, 1, 1) - date(1678, 1, 1)


def test_starts_of_the_papers_tables() -> None:
    """Whole days d as d / max, window (d - 1/max^2, d + 1/max^2]: the same day alone, and the next where max is 1."""
    found = prior_probabilities(annotate(_log(*(("a", (day * DAY,)) for day in (0, 1, 1, 3)))), 0.2, "paper-tables")
    assert found.tolist() == [1 / 4, 2 / 4, 2 / 4, 1 / 4]
    found = prior_probabilities(annotate(_log(*(("a", (day * DAY,)) for day in (0, 1, 1)))), 0.2, "paper-tables")
    assert found.tolist() == [1.0, 2 / 3, 2 / 3]
    found = prior_probabilities(annotate(_log(*(("a", (day * DAY,)) for day in (0, 1, 2)))), 0.2, "paper-tables")
    assert found.tolist() == [1 / 3] * 3


def test_a_prior_that_is_none() -> None:
    """By its name."""
    with pytest.raises(InputError, match="prior = 'guess' is not one of closed-window, paper-tables"):
        prior_probabilities(annotate(_log(("a", (0,)))), 0.2, "guess")  # type: ignore[arg-type]


def test_the_range_of_each_group() -> None:
    """Least value and largest minus least, each group for itself, also below 0 and where a number has no member."""
    least, extent = group_extent(np.asarray([0, 2, 0, 2]), np.asarray([-5, 3, 9, 3]))
    assert (least.tolist(), extent.tolist()) == ([-5, 3, -5, 3], [14, 0, 14, 0])
    empty = np.zeros(0, dtype=np.int64)
    assert [part.tolist() for part in group_extent(empty, empty)] == [[], []]


class _Steps(ScriptedNoise):
    """Noise of the lattice as written."""

    __slots__ = ()

    def laplace_each(self, scales: np.ndarray, scale_of_draw: np.ndarray) -> np.ndarray:
        self.asked.append(scales[scale_of_draw].tolist())
        return np.asarray(self.of_times[: len(scale_of_draw)], dtype=np.int64)


def test_noise_is_added_on_the_lattice_of_the_group() -> None:
    """Values go down to the lattice of 2^20 steps a range, noise is steps, and a group of one value has none."""
    relative = np.asarray([100, 100 + LATTICE, 100 + LATTICE // 2, 7, 7])
    draw = _Steps(of_times=(5, -3))
    found, silent = noise_times(
        np.asarray([0, 0, 0, 1, 1]), relative, np.asarray([2.0] * 5), np.asarray([2, 3, 0]), draw
    )
    assert found.tolist() == [100 + LATTICE // 2 + 5, 7, 100 - 3]
    assert silent.tolist() == [False, True, False]
    (scales,) = draw.asked
    assert scales == pytest.approx([LATTICE / 2] * 2)
    assert min(scales) > LATTICE / 2  # rounded up: never less noise than asked for


def test_a_range_of_a_millisecond_is_a_range() -> None:
    """Without noise both ends come back; half a range down is half a millisecond, rounded down."""
    found, _ = noise_times(
        np.zeros(2, dtype=np.int64), np.asarray([7, 8]), np.ones(2), np.asarray([0, 1, 1]), _Steps(of_times=(0, 0, -1))
    )
    assert found.tolist() == [7, 8, 7]


def test_noise_that_would_leave_64_bits_is_cut() -> None:
    """At the furthest step that a range allows, on both sides; a short range goes as far as 2^42 times itself."""
    for spread in (1, 1000, 2**40):
        relative = np.asarray([0, spread])
        draw = _Steps(of_times=(2**62, -(2**62)))
        found, _ = noise_times(np.zeros(2, dtype=np.int64), relative, np.ones(2), np.asarray([0, 0]), draw)
        furthest = min(2**60 // spread, 2**42) * spread
        assert found.tolist() == [furthest, -furthest]


def test_steps_times_a_range_round_down() -> None:
    """Also below 0, and where the product alone would leave 64 bits."""
    assert [scaled(step, 3) for step in (LATTICE, LATTICE - 1, -1, -LATTICE, -LATTICE - 1)] == [3, 2, -1, -3, -4]
    assert scaled(5 * LATTICE + 1, 2**43) == 5 * 2**43 + 2**23


def test_compression_at_its_edges() -> None:
    """Equation 4; a noised range below 0 is none; without an original range nothing is compressed."""
    assert compression_factor(1, 0) == compression_factor(1, -9) == Fraction(1, 2)
    assert compression_factor(1, 1) == Fraction(1, 4)
    assert compression_factor(0, 9) == compression_factor(-1, 9) == 1
    assert compressed(np.asarray([10, -10]), Fraction(1, 3)).tolist() == [3, -4]
    assert compressed(np.asarray([10]), Fraction(1)).tolist() == [10]


def test_times_end_where_the_calendar_does() -> None:
    """At both ends, and a case at most that much after its start."""
    most = 9_214_560_000_000
    found = case_times(np.asarray([0, 2, 4]), np.asarray([0, 1]), np.asarray([most, 5, -most - 9, 7]), 0) // 1_000_000
    assert found.tolist() == [most, most, -most, -most + 7]
    assert case_times(np.asarray([0, 1]), np.asarray([0]), np.asarray([-most]), 5)[0] == (5 - most) * 1_000_000


def test_order_of_few_times() -> None:
    """Ties in their earlier order; none and one."""
    times = np.asarray([0, 5, 5, 0], dtype=np.int64) * 1_000_000
    assert order_of_times(times).tolist() == [0, 3, 1, 2]
    assert order_of_times(times[:0]).tolist() == []
    assert order_of_times(times[:1]).tolist() == [0]


@pytest.mark.parametrize("span", [2**43 - 1, 2**43, 2**43 + 1])
def test_order_of_a_million_times_over_centuries(span: int) -> None:
    """A million places leave 43 bits for the span in milliseconds; beyond, they are sorted without packing."""
    times = np.random.default_rng(3).integers(-(span // 2), span // 2, 2**20) * 1_000_000
    times[7], times[9_999] = -(span // 2) * 1_000_000, (span - span // 2) * 1_000_000
    assert np.array_equal(order_of_times(times), np.argsort(times, kind="stable"))


@pytest.mark.parametrize("middle", [2**42, 2**43])
def test_order_of_a_million_times_of_one_year_far_from_1970(middle: int) -> None:
    """The span is packed, not the distance from 1970: with the place 2^42 milliseconds (2109) would not fit, and 2^43
    (2248) would lose their highest digit."""
    times = (middle + np.random.default_rng(4).integers(-3, 3, 2**20)) * 1_000_000
    assert np.array_equal(order_of_times(times), np.argsort(times, kind="stable"))
