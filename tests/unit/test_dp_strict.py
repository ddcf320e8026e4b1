"""Strict mode: thresholds, counts and times against definitions, with random noise and with noise that the test sets.

With set noise the released times are computed by hand. A missing clamp changes them far more than random noise could.
"""

from __future__ import annotations

import decimal
import inspect
import itertools
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp import counts, noise, strict
from models.dp.annotation import MAX_TIME_MS
from models.dp.counts import NoisyCounts, release_counts, threshold
from models.dp.strict import Terms, TimeBounds, least_count, release_log, release_variants
from models.errors import BoundError, InputError
from models.eventlog import EventLog, SimpleLog
from tests.oracles.dp import tail
from tests.unit.known_noise import RecordingNoise, ScriptedNoise, timed_log

DAY = 86_400_000


LOOSE = {"epsilon": 20, "delta_dp": "0.1"}
"""So little noise that counts are nearly true."""


@settings(deadline=None)
@given(st.fractions(Fraction(1, 5), 4), st.floats(1e-9, 0.2))
def test_threshold_is_the_least_that_keeps_delta(epsilon: Fraction, delta: float) -> None:
    """A single new case passes k + 1 with chance at most delta, and one lower threshold would not do."""
    least = threshold(epsilon, Fraction(delta))
    assert tail(float(epsilon), least - 1) <= delta * (1 + 1e-9)
    if least > 1:
        assert tail(float(epsilon), least - 2) > delta * (1 - 1e-9)


def test_threshold_of_the_page() -> None:
    """At epsilon 1, delta 1e-5 the continuous formula would release with chance 1.22e-5: too often."""
    least = threshold(Fraction(1), Fraction(1, 10**5))
    continuous = math.ceil(1 + math.log(1 / (2e-5)))
    assert tail(1.0, continuous - 1) == pytest.approx(1.22e-5, rel=0.01)
    assert least == continuous + 1


@pytest.mark.parametrize("cases", [2, 3])
def test_threshold_covers_every_division_of_a_person(cases: int) -> None:
    """With c cases per person no division of them over new variants passes with chance above delta."""
    epsilon, delta = Fraction(3, 2), 0.001
    least = threshold(epsilon, Fraction(delta), cases)
    divisions = {2: [(2,), (1, 1)], 3: [(3,), (2, 1), (1, 1, 1)]}[cases]
    worst = [sum(tail(float(epsilon) / cases, least - part) for part in parts) for parts in divisions]
    assert max(worst) <= delta
    lower = [sum(tail(float(epsilon) / cases, least - 1 - part) for part in parts) for parts in divisions]
    assert max(lower) > delta


@pytest.mark.logs
@pytest.mark.parametrize(
    ("name", "variants", "share"), [("sepsis", 3, 0.077), ("bpic2012", 42, 0.56), ("urineweginfectie", 7, 0.904)]
)
def test_coverage_of_public_logs(logs: Path, name: str, variants: int, share: float) -> None:
    """At epsilon 1, delta 1e-6 the listed number of variants has as many cases as the threshold asks for.

    The variants that a release shows are chosen by chance: each variant passes with its own chance, summed from the
    definition of the noise, and the number released follows the law of their sum (false alarm 1e-9). One more or less
    is usual: BPIC 2012 gives 42 in 21 of 100 releases and 41 in 16, Urineweginfectie 7 in 52 and 8 in 37.
    """
    from scipy.stats import binom

    from connectors import read_log

    log = read_log(logs / f"{name}.xes.gz")
    result = release_variants(log, epsilon=1, delta_dp="1e-6")
    least = result.operator["threshold"]
    counts = np.asarray(list(Counter(log.traces()).values()))
    assert int(np.sum(counts >= least)) == variants
    assert counts[counts >= least].sum() / log.n_cases == pytest.approx(share, abs=0.0005)
    law = np.ones(1)
    for count, alike in Counter(counts.tolist()).items():
        law = np.convolve(law, binom.pmf(np.arange(alike + 1), alike, tail(1.0, least - count)))
    released = result.operator["variants"]["out"]
    assert min(law[: released + 1].sum(), law[released:].sum()) > 0.5e-9
    assert min(law[: 2 * variants + 6].sum(), law[2 * variants + 5 :].sum()) < 0.5e-9  # negative control: twice as many
    assert bool(result.operator["warnings"]) == (name == "sepsis")


def _log(cases: int = 40) -> EventLog:
    case, activity, time = [], [], []
    for number in range(cases):
        for position, name in enumerate("abc" if number % 2 else "ab"):
            case.append(f"patient-{number}")
            activity.append(name)
            time.append((number * DAY + position * 3_600_000) * 1_000_000)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


def test_only_frequent_variants_leave() -> None:
    """Common variants come with about their counts; a variant of one person does not."""
    log = EventLog.from_traces([*[("ab", None)] * 50, ("secret", None)])
    released = release_variants(log, epsilon=1, delta_dp="1e-6").log
    assert set(released.traces()) == {("a", "b")}
    assert 20 < released.n_cases < 80
    assert set(released.activity.values) == {"a", "b"}


def test_nothing_frequent_gives_an_empty_release() -> None:
    """A log of rare variants is answered by an empty release and an operator's warning, not by an error."""
    result = release_log(EventLog.from_traces([("ab", None), ("ba", None)]), epsilon=1, delta_dp="1e-9")
    assert result.log.n_cases == 0
    assert result.log.n_events == 0
    assert "low coverage" in result.operator["warnings"][0]
    assert release_variants(EventLog.from_traces([]), epsilon=1, delta_dp="1e-9").log.n_cases == 0


def test_times_stay_within_public_bounds() -> None:
    """Every start and duration is within the declared bounds, whatever the noise."""
    bounds = TimeBounds(2 * DAY, (0, 50 * DAY), 20)
    released = release_log(_log(120), bounds=bounds, **LOOSE).log
    starts = released.time[released.starts[:-1]] // 1_000_000
    assert starts.min() >= 0
    assert starts.max() <= 50 * DAY
    inside = np.ones(released.n_events, dtype=bool)
    inside[released.starts[:-1]] = False
    steps = np.diff(released.time // 1_000_000, prepend=0)[inside]
    assert steps.min() >= 0
    assert steps.max() <= 2 * DAY
    assert len(np.unique(steps)) > len(steps) // 4


def test_without_start_bounds_no_start_leaves() -> None:
    """If no public range of starts is declared, every case begins at 1970-01-01."""
    released = release_log(_log(), **LOOSE).log
    assert not released.time[released.starts[:-1]].any()


def test_every_value_gets_its_share_of_epsilon() -> None:
    """Scales are sensitivity over share: counts c / eps_counts; each of d values of a row range * d * c / eps_times."""
    log = EventLog.from_traces([("abc", None)] * 500)
    recorder = RecordingNoise()
    bounds = TimeBounds(2 * DAY, (0, 50 * DAY), 20)
    release_log(log, epsilon=1, delta_dp="1e-3", bounds=bounds, time_share="0.25", cases_per_person=2, draw=recorder)
    shares = [2 / 0.75, 50 * DAY * 3 * 2 / 0.25, 2 * DAY * 3 * 2 / 0.25, 2 * DAY * 3 * 2 / 0.25]
    assert recorder.scales == pytest.approx(shares, rel=1e-12)


def test_release_is_independent_of_ids_attributes_and_order() -> None:
    """Fresh ids, no attributes or resources, and labels in sorted order whatever the source mentioned first."""
    traces = [("zy", "x")] * 30 + [("yz", "y")] * 30
    released = release_variants(EventLog.from_traces(traces), **LOOSE).log
    assert released.activity.values == ("y", "z")
    assert not released.case_attributes
    assert np.all(released.resource.codes < 0)
    kinds = [trace == ("z", "y") for trace in released.traces()]
    assert sum(a != b for a, b in itertools.pairwise(kinds)) > 5  # the two variants are interleaved


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": -1},
        {"epsilon": 5e-324},
        {"delta_dp": 0},
        {"delta_dp": 1},
        {"delta_dp": "x"},
        {"cases_per_person": 0},
    ],
)
def test_bad_terms(changed: dict[str, object]) -> None:
    """Epsilon, delta_dp and the cap out of range are refused by both mechanisms, by name."""
    for mechanism in (release_variants, release_log):
        with pytest.raises(InputError, match=next(iter(changed))):
            mechanism(_log(), **{"epsilon": 1, "delta_dp": "1e-6", **changed})


def test_no_mechanism_takes_a_seed() -> None:
    """The strict mechanisms have no parameter that could seed what is released."""
    for mechanism in (release_variants, release_log, strict.Terms.of):
        assert not {"seed", "random", "rng"} & set(inspect.signature(mechanism).parameters)
    assert release_variants(_log(), **LOOSE).private
    assert not release_variants(_log(), **LOOSE, draw=noise.simulated(1)).private


def test_a_variant_without_rows_is_no_release() -> None:
    """Each variant that is put together has its rows; one that lacks them is not left out without a word."""
    rows = [np.zeros((3, 1), dtype=np.int64)]
    assert strict.assembled(("A", "B"), [(0,)], rows, noise.simulated(1)).traces() == [("A",)] * 3
    with pytest.raises(ValueError, match="zip"):
        strict.assembled(("A", "B"), [(0,), (1,)], rows, noise.simulated(1))


EASY = {"epsilon": 20, "delta_dp": "0.9999999"}
"""A threshold of 1: every variant that is there leaves unless its noise takes it below."""


def _released(log: EventLog, draw: noise.NoiseSource, bounds: TimeBounds | None = None) -> list[tuple[str, list[int]]]:
    """Released cases as (trace, milliseconds), in the order of the release."""
    released = release_log(log, bounds=bounds, draw=draw, **EASY).log
    times = (released.time // 1_000_000).tolist()
    return [
        ("".join(trace), times[begin:end])
        for trace, begin, end in zip(released.traces(), released.starts[:-1], released.starts[1:], strict=True)
    ]


BOUNDS = TimeBounds(2 * DAY, (10 * DAY, 50 * DAY), 20)


@pytest.mark.parametrize(
    ("start", "duration", "of_start", "of_duration", "expected"),
    [
        (30 * DAY, DAY, 0, 0, (30 * DAY, DAY)),  # inside: as it is
        (30 * DAY, 9 * DAY, 0, -DAY, (30 * DAY, DAY)),  # a long step is cut to 2 days, then a day of noise is taken off
        (90 * DAY, DAY, -5 * DAY, 0, (45 * DAY, DAY)),  # a late start is cut to the last one before the noise
        (2 * DAY, DAY, 5 * DAY, 0, (15 * DAY, DAY)),  # and an early one to the first
        (30 * DAY, DAY, 0, 7 * DAY, (30 * DAY, 2 * DAY)),  # what the noise carries beyond the bounds is cut again
        (30 * DAY, DAY, 0, -7 * DAY, (30 * DAY, 0)),
        (30 * DAY, DAY, 99 * DAY, 0, (50 * DAY, DAY)),
        (30 * DAY, DAY, -99 * DAY, 0, (10 * DAY, DAY)),
    ],
)
def test_times_are_cut_to_the_bounds_before_and_after_the_noise(
    start: int, duration: int, of_start: int, of_duration: int, expected: tuple[int, int]
) -> None:
    """The cut before the noise is what bounds the sensitivity of a value; without it one long step would show through
    any noise of its scale."""
    begin, step = expected
    found = _released(timed_log(("ab", (start, start + duration))), ScriptedNoise(0, (of_start, of_duration)), BOUNDS)
    assert found == [("ab", [begin, begin + step])]


def test_no_case_moves_a_value_further_than_its_scale_was_made_for() -> None:
    """Given the counts, replacing one case by any other moves each released value, before its noise is cut, by at most
    the range that its noise was scaled for: the bound on sensitivity, from outside."""
    extremes = ((0, 0), (10 * DAY, 10 * DAY), (0, 999 * DAY), (999 * DAY, 9999 * DAY), (30 * DAY, 31 * DAY))
    for of_start, of_duration in ((0, 0), (-20 * DAY, -DAY), (20 * DAY, DAY)):
        rows = []
        for moments in extremes:
            draw = ScriptedNoise(0, (of_start, of_duration))
            rows.append(_released(timed_log(("ab", moments)), draw, BOUNDS)[0][1])
            scales = [scale * float(EASY["epsilon"]) / 2 / 2 for scale in draw.asked[1:]]  # two values, half of epsilon
            assert scales == pytest.approx([40 * DAY, 2 * DAY])
        starts, steps = zip(*((row[0], row[1] - row[0]) for row in rows), strict=True)
        assert max(starts) - min(starts) <= 40 * DAY
        assert max(steps) - min(steps) <= 2 * DAY
        # one cut before the noise: an extreme plus noise towards the middle lands inside, not on the other bound
        if of_start < 0:
            assert max(starts) == 30 * DAY
            assert max(steps) == DAY


def test_missing_cases_are_the_public_default() -> None:
    """If the noisy count exceeds the true one, the further rows start as the middle of the public bounds, and get noise
    like any other.
    """
    log = timed_log(("ab", (20 * DAY, 20 * DAY + 5)))
    found = _released(log, ScriptedNoise(2, (3, 7)), BOUNDS)
    assert sorted(found) == [("ab", [20 * DAY + 3, 20 * DAY + 15]), *[("ab", [30 * DAY + 3, 31 * DAY + 10])] * 2]


def test_surplus_is_dropped_by_the_permutation_that_was_drawn() -> None:
    """If the noisy count is below the true one, the cases that stay are the first of a random order, never those of the
    source; here the order drawn is the reverse.
    """
    log = timed_log(*(("a", (day * DAY,)) for day in (11, 12, 13, 14, 15)))
    assert _released(log, ScriptedNoise(-3), BOUNDS) == [("a", [14 * DAY]), ("a", [15 * DAY])]


def test_every_case_has_the_same_chance_to_stay() -> None:
    """600 draws of one case in four: each is kept between 90 and 210 times (expected 150; false alarm 1e-7)."""

    class OneOfFour(noise.NoiseSource):
        def laplace(self, scale: float, size: int) -> np.ndarray:
            return np.full(size, -3 if scale < 1 else 0, dtype=np.int64)

    log = timed_log(*(("a", (day * DAY,)) for day in (11, 12, 13, 14)))
    draw = OneOfFour(np.random.default_rng(5))
    kept = Counter(_released(log, draw, BOUNDS)[0][1][0] // DAY for _ in range(600))
    assert set(kept) == {11, 12, 13, 14}
    assert all(90 < number < 210 for number in kept.values()), kept


def test_each_variant_keeps_its_own_times() -> None:
    """Cases of one variant never take times of another, whatever the order of the source."""
    log = timed_log(
        ("b", (20 * DAY,)), ("ab", (30 * DAY, 30 * DAY + 9)), ("b", (22 * DAY,)), ("ab", (33 * DAY, 34 * DAY))
    )
    assert _released(log, ScriptedNoise(), BOUNDS) == [
        ("b", [20 * DAY]),
        ("b", [22 * DAY]),
        ("ab", [30 * DAY, 30 * DAY + 9]),
        ("ab", [33 * DAY, 34 * DAY]),
    ]


def test_values_beyond_the_cap_are_the_default_and_get_no_noise() -> None:
    """`max_events` counts the start; what is beyond is the middle of its bound for every case, without noise."""
    log = timed_log(("abcd", (20 * DAY, 20 * DAY + 1, 20 * DAY + 2, 20 * DAY + 3)))
    draw = ScriptedNoise(0, (5, 5, 5, 5))
    found = _released(log, draw, TimeBounds(2 * DAY, (10 * DAY, 50 * DAY), 2))
    begin = 20 * DAY + 5
    assert found == [("abcd", [begin, begin + 6, begin + 6 + DAY, begin + 6 + 2 * DAY])]
    assert len(draw.asked) == 3  # the counts, the start and one step


def test_without_a_range_of_starts_the_start_is_no_value() -> None:
    """Every case then begins at 1970, without noise, and epsilon is shared among the steps alone."""
    draw = ScriptedNoise(0, (4,))
    assert _released(timed_log(("ab", (20 * DAY, 20 * DAY + 1))), draw, TimeBounds(2 * DAY)) == [("ab", [0, 5])]
    assert draw.asked[1:] == pytest.approx([2 * DAY / 10])


def test_a_start_before_1970_has_its_range() -> None:
    """The scale of starts is last minus first also where the first is negative."""
    draw = ScriptedNoise()
    assert _released(timed_log(("a", (-3 * DAY,))), draw, TimeBounds(DAY, (-5 * DAY, DAY))) == [("a", [-3 * DAY])]
    assert draw.asked[1:] == pytest.approx([6 * DAY / 10])


def test_times_end_with_the_calendar() -> None:
    """A case that would run beyond the year 2261 stays at its last moment: nanoseconds never wrap around."""
    bounds = TimeBounds(10 * DAY, (MAX_TIME_MS - DAY, MAX_TIME_MS))
    found = _released(timed_log(("ab", (MAX_TIME_MS - DAY, MAX_TIME_MS - 1))), ScriptedNoise(0, (0, 9 * DAY)), bounds)
    assert found == [("ab", [MAX_TIME_MS - DAY, MAX_TIME_MS])]


def test_cases_are_in_order_of_their_released_start_and_ties_at_random() -> None:
    """Order reveals nothing beyond the released times: equal starts come in the order drawn (here the reverse)."""
    log = timed_log(("b", (20 * DAY,)), ("ab", (20 * DAY, 20 * DAY)), ("c", (15 * DAY,)))
    assert [trace for trace, _ in _released(log, ScriptedNoise(), BOUNDS)] == ["c", "ab", "b"]


def test_an_empty_case_begins_in_1970_like_others_without_a_start() -> None:
    """Its place among cases that begin at 0 is chance (here the reverse of the variants), not first nor last."""
    for log in (((), ("a",)), (("a",), ())):
        source = EventLog.from_traces([(trace, None) for trace in log])
        released = release_log(source, bounds=TimeBounds(DAY), draw=ScriptedNoise(), **EASY).log
        assert released.traces() == list(reversed(log))


def test_empty_cases_come_first_and_hold_nothing() -> None:
    """The variant without events is a variant; its cases have no start, and no noise is drawn for them."""
    log = EventLog.from_traces([((), None), ((), None), (("a",), None)])
    draw = ScriptedNoise()
    released = release_log(log, bounds=TimeBounds(DAY, (10 * DAY, 20 * DAY)), draw=draw, **EASY).log
    assert released.traces() == [(), (), ("a",)]
    assert len(draw.asked) == 2


def test_events_without_times_stand_a_second_apart() -> None:
    """dp-variants releases the place of an event in seconds, as DESIGN 4 says of ordinal times."""
    released = release_variants(
        EventLog.from_traces([(("a", "b", "c"), None)]), draw=ScriptedNoise(), **{**EASY, "epsilon": 10}
    ).log
    assert released.time.tolist() == [0, 10**9, 2 * 10**9]


def test_counts_are_true_counts_plus_noise_from_the_threshold_on() -> None:
    """Each variant that is there gets its own noise; from the threshold on it leaves, one below it does not; a variant
    without a case draws nothing. At epsilon 4 noise has no end."""
    least = threshold(Fraction(4), Fraction(1, 100))
    true = np.asarray([10, 0, 10, 10], dtype=np.int64)
    draw = ScriptedNoise([least - 10, least - 11, 7])
    found = release_counts(true, Fraction(4), Fraction(1, 100), draw)
    assert found.variants.tolist() == [0, 3]
    assert found.counts.tolist() == [least, 17]
    assert found.threshold == least
    assert draw.asked == [0.25]


@pytest.mark.parametrize("least", [99_999, 100_000, 100_001])
def test_no_threshold_above_a_hundred_thousand(least: int) -> None:
    """An epsilon whose threshold is 100,000 still releases; one more is refused, by its number."""
    delta = Fraction(1, 10**5)
    low, high = Fraction(1, 10**5), Fraction(1, 10**3)
    while threshold(middle := (low + high) / 2, delta) != least:
        low, high = (middle, high) if threshold(middle, delta) > least else (low, middle)
    if least <= 100_000:
        assert least_count(middle, delta) == least
    else:
        with pytest.raises(InputError, match=f"would need {least} cases"):
            least_count(middle, delta)


def test_a_threshold_that_is_too_large_is_refused_by_both_mechanisms() -> None:
    """Before anything is drawn."""
    draw = ScriptedNoise()
    for mechanism in (release_variants, release_log):
        _refused(
            "epsilon is too small",
            lambda one=mechanism: one(timed_log(("a", (0,))), epsilon="1e-5", delta_dp="1e-9", draw=draw),
        )
    assert draw.asked == []


def test_a_tie_within_forty_digits_counts_as_above_delta() -> None:
    """At epsilon = ln 2 and delta = 1/3 the tail of k = 1 is delta exactly. Just above, by h, it is below delta by less
    than is computed: the slack of 10^-40 in the logarithm takes k = 2 up to h = 1.5 10^-40, and k = 1 from there."""
    with decimal.localcontext() as context:
        context.prec = 90
        log_two = Fraction(Decimal(2).ln())
    for hair, least in ((Fraction(14, 10), 3), (Fraction(16, 10), 2)):
        assert threshold(log_two + hair / 10**40, Fraction(1, 3)) == least


def test_noise_of_no_scale_is_refused_before_it_is_drawn() -> None:
    """An epsilon so large that counts would get no noise is refused where the threshold is asked for."""
    with pytest.raises(InputError, match="lower epsilon"):
        least_count(Fraction(1025), Fraction(1, 100))
    assert least_count(Fraction(1024), Fraction(1, 100)) == 2


@pytest.mark.parametrize(("events", "refused"), [(50_000_000, False), (50_000_001, True)])
def test_no_release_of_more_than_fifty_million_events(events: int, refused: bool) -> None:
    """The noisy counts decide, so that the refusal reveals no more than the release; no row is made before it."""
    log = EventLog.from_traces([(("a", "b"), None), (("a",), None)])
    simple = SimpleLog.from_log(log)
    lengths = [len(variant) for variant in simple.variants]
    noisy = [20_000_000 if length == 2 else events - 40_000_000 for length in lengths]
    draw = ScriptedNoise([count - 1 for count in noisy])
    arguments = (simple, strict._true_counts(simple), Terms.of("20", "0.1"), Fraction(20), draw)
    if refused:
        with pytest.raises(BoundError, match=f"add up to {events} events"):
            strict._noisy_counts(*arguments)
    else:
        assert strict._noisy_counts(*arguments).counts.tolist() == noisy


def _refused(match: str, make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_bounds_at_their_edges() -> None:
    """The least and the largest bound that is one, and the first that is none."""
    most = 2**40  # 35 years of milliseconds
    assert TimeBounds(1).duration == 1
    assert TimeBounds(most - 1).duration == most - 1
    _refused("max_duration", lambda: TimeBounds(0))
    _refused("max_duration", lambda: TimeBounds(most))
    assert TimeBounds(1, (0, 1)).start == (0, 1)
    assert TimeBounds(1, (5, most + 4)).start == (5, most + 4)
    _refused("must be after the first", lambda: TimeBounds(1, (5, 5)))
    _refused("must be after the first", lambda: TimeBounds(1, (6, 5)))
    _refused("must be after the first", lambda: TimeBounds(1, (5, most + 5)))
    year_1678, year_2262 = -9_214_560_000_000, 9_214_560_000_000  # 106,650 days of 86,400,000 ms
    assert TimeBounds(1, (year_1678, year_1678 + 1)).start is not None
    assert TimeBounds(1, (year_2262 - 1, year_2262)).start is not None
    _refused("1678 to 2261", lambda: TimeBounds(1, (year_1678 - 1, year_1678)))
    _refused("1678 to 2261", lambda: TimeBounds(1, (year_2262, year_2262 + 1)))
    assert TimeBounds(1, None, 1).max_events == 1
    _refused("max_events", lambda: TimeBounds(1, None, 0))


def test_bounds_that_are_not_said() -> None:
    """30 days between two events, no starts, 20 values a case (docs/dp.md); one case a person."""
    assert TimeBounds() == TimeBounds(30 * DAY, None, 20)
    assert Terms.of(1, "0.1") == Terms(Fraction(1), Fraction(1, 10)) == Terms(Fraction(1), Fraction(1, 10), 1)


def test_scales_of_bounds_are_checked_before_anything_is_drawn() -> None:
    """The widest range at the smallest share must fit 64 bits, and the narrowest at the whole epsilon must be noise."""
    wide, narrow = 2**39, 2**10
    for bounds in (TimeBounds(wide, None, 512), TimeBounds(narrow, (-wide // 2, wide // 2), 512)):
        bounds.check(Fraction(1, 256))  # 2^39 * 512 * 256 = 2^56
        _refused("64 bits", lambda bounds=bounds: bounds.check(Fraction(1, 257)))
    for bounds in (TimeBounds(narrow, None, 1), TimeBounds(wide, (5 * wide, 5 * wide + narrow), 1)):
        bounds.check(Fraction(2**20))  # 2^10 / 2^20 = 2^-10
        _refused("lower epsilon", lambda bounds=bounds: bounds.check(Fraction(2**20 + 1)))


def test_bounds_are_checked_at_the_share_that_times_get() -> None:
    """`release_log` asks about the epsilon of the times, divided by the cases of a person."""
    log = timed_log(("ab", (0, 1)))
    bounds = TimeBounds(2**39, None, 512)
    wide = {"epsilon": Fraction(1, 32), "delta_dp": "0.1", "bounds": bounds, "draw": ScriptedNoise()}
    release_log(log, time_share=Fraction(1, 4), cases_per_person=2, **wide)
    _refused("64 bits", lambda: release_log(log, time_share=Fraction(1, 4), cases_per_person=3, **wide))
    _refused("64 bits", lambda: release_log(log, time_share=Fraction(1, 5), cases_per_person=2, **wide))


@pytest.mark.parametrize("share", [0, 1, "1.5"])
def test_shares_that_leave_one_part_nothing(share: object) -> None:
    """Counts and times both need a part of epsilon."""
    _refused("time_share", lambda: release_log(timed_log(("a", (0,))), epsilon=1, delta_dp="0.1", time_share=share))


@pytest.mark.parametrize("cases", [True, 0, -1, 1.0, "2"])
def test_cases_per_person_is_a_whole_number(cases: object) -> None:
    """True is not a count of cases."""
    _refused("whole number", lambda: Terms.of(1, "0.1", cases))  # type: ignore[arg-type]
    assert Terms.of(1, "0.1", 1).cases_per_person == 1


def test_coverage_counts_variants_and_cases() -> None:
    """In are variants with a case; covered are the true cases of those that leave; half of the cases is not a
    warning."""
    true = np.asarray([5, 0, 1, 4], dtype=np.int64)

    def of(*variants: int) -> dict[str, object]:
        chosen = np.asarray(variants, dtype=np.int64)
        return strict.coverage(true, NoisyCounts(chosen, np.full(len(chosen), 9, dtype=np.int64), 3))

    half = of(0)
    assert half["variants"] == {"in": 3, "out": 1}
    assert half["cases"] == {"in": 10, "covered": 5, "out": 9}
    assert (half["coverage_variants"], half["coverage_cases"], half["threshold"]) == (1 / 3, 1 / 2, 3)
    assert half["warnings"] == []
    low = of(3)
    assert low["coverage_cases"] == 0.4
    assert low["warnings"] == [
        "low coverage: the released variants represent 4 of 10 cases (1 of 3 variants reach the threshold of 3)"
    ]
    nothing = strict.coverage(np.zeros(2, dtype=np.int64), NoisyCounts(np.zeros(0, np.int64), np.zeros(0, np.int64), 3))
    assert (nothing["coverage_variants"], nothing["coverage_cases"], nothing["warnings"]) == (None, None, [])


def test_threshold_asks_for_terms_that_can_be() -> None:
    """epsilon above 0, delta strictly between 0 and 1, at least one case."""
    half = Fraction(1, 2)
    for arguments in ((0, half, 1), (-1, half, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, -1, 1), (1, half, 0)):
        _refused("threshold needs", lambda arguments=arguments: counts.threshold(*arguments))


@pytest.mark.parametrize(
    ("epsilon", "delta", "cases", "least"),
    [
        # k is the least integer with e^(-k ln 2) / (1 + 1/2) <= delta; ln 2 as a fraction just above and just below
        (Fraction(693147180559945, 10**15), Fraction(1, 3), 1, 3),  # e^-k just above 1/2^k: k = 1 misses 1/3 by a hair
        (Fraction(693147180559946, 10**15), Fraction(1, 3), 1, 2),
        (Fraction(20), Fraction(1, 2), 1, 2),  # e^-20 / (1 + e^-20) <= 1/2 needs k = 1: 1/(1 + e^-20) is above 1/2
        (Fraction(20), Fraction(999, 1000), 1, 2),
        (Fraction(20), Fraction(9999999999, 10**10), 1, 1),
        (Fraction(1, 10), Fraction(9, 10), 1, 1),  # a delta so large asks for nothing: still a case must be seen
        # two cases in one new variant at scale 1/3 each: e^-9 / (1 + e^-3) is .00012, e^-6 / (1 + e^-3) .0024
        (Fraction(6), Fraction(1, 1000), 2, 5),
        # several cases: never below the cases themselves, so that one person alone fills no variant
        (Fraction(60), Fraction(9999999999, 10**10), 3, 3),
    ],
)
def test_threshold_at_its_edges(epsilon: Fraction, delta: Fraction, cases: int, least: int) -> None:
    """Computed by hand from the definition: where the tail meets delta the next integer is taken."""
    assert threshold(epsilon, delta, cases) == least
