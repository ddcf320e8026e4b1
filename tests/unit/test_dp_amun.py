"""Amun: what its releases look like, what they never contain, and what it refuses."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp import amun, noise
from models.dp.annotation import annotate
from models.dp.sampling import sample_cases
from models.dp.timestamps import (
    LATTICE,
    case_times,
    compressed,
    compression_factor,
    noise_times,
    order_of_times,
    scaled,
)
from models.errors import BoundError, InputError
from models.eventlog import EventLog

MINUTE = 60_000_000_000
DAY = 1440 * MINUTE
DESIGNS: tuple[amun.Design, ...] = ("sampling", "filtering", "oversampling")


def _log(cases: int = 60, seed: int = 1) -> EventLog:
    """Cases of three variants with spread times, over 60 days."""
    random = np.random.default_rng(seed)
    case, activity, time = [], [], []
    for number in range(cases):
        moment = int(random.integers(0, 60 * 1440)) * MINUTE
        for name in ("abc", "abd", "ac")[number % 3]:
            case.append(f"patient-{number}")
            activity.append(name)
            time.append(moment)
            moment += int(random.integers(1, 3000)) * MINUTE
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


@pytest.mark.parametrize("design", DESIGNS)
def test_release_keeps_variants_order_and_nothing_else(design: amun.Design) -> None:
    """No new variant (R1), times in order within a case, cases in order of time, fresh ids, no attributes."""
    log = _log()
    released = amun.release(log, delta=0.3, variant=design).log
    assert set(released.traces()) <= set(log.traces())
    inside = np.ones(released.n_events, dtype=bool)
    inside[released.starts[:-1]] = False
    assert np.all(np.diff(released.time, prepend=0)[inside] >= 0)
    assert np.all(np.diff(released.time[released.starts[:-1]]) >= 0)
    assert not set(released.case_ids) & set(log.case_ids)
    assert len(set(released.case_ids)) == released.n_cases
    assert not released.case_attributes
    assert not released.event_attributes  # epsilon of an event is never published
    assert np.all(released.resource.codes < 0)
    assert np.array_equal(released.time[np.argsort(released.row)], np.sort(released.time))


def test_origin_names_the_source_case() -> None:
    """Every released case has the variant of the case it is an instance of."""
    log = _log()
    result = amun.release(log, delta=0.3, variant="sampling")
    source = log.traces()
    assert result.log.traces() == [source[case] for case in result.origin]


def test_oversampling_keeps_every_case() -> None:
    """Oversampling only adds: each source case is there at least once."""
    log = _log()
    result = amun.release(log, delta=0.4, variant="oversampling")
    assert set(result.origin.tolist()) == set(range(log.n_cases))
    assert result.log.n_cases > log.n_cases


def test_filter_drops_risky_cases_whole() -> None:
    """With nearly all times alike the filter drops exactly the cases whose P_k + delta reaches 1."""
    step = [MINUTE] * 9 + [90 * MINUTE]
    stamps = [number * 1440 * MINUTE + extra for number, last in enumerate(step) for extra in (0, last)]
    log = EventLog.from_events(
        np.repeat([str(n) for n in range(10)], 2), ["a", "b"] * 10, np.asarray(stamps), unit="ns"
    )
    kept, mask = amun.filtered(annotate(log), amun.AmunSettings(0.2, "filtering"))
    assert np.flatnonzero(mask).tolist() == [9]  # nine of ten take one minute: P_k = 0.9
    assert kept.log.n_cases == 1
    assert amun.filtered(annotate(log), amun.AmunSettings(0.05, "filtering"))[1].all()


def test_a_filter_that_leaves_nothing_says_so() -> None:
    """The paper's exception: all cases filtered is a bound that cannot hold, with the numbers."""
    stamps = np.asarray([day * 86_400_000_000_000 for day in (0, 0, 0, 0, 1, 1)])
    log = EventLog.from_events([str(n) for n in range(6)], ["a"] * 6, stamps, unit="ns")
    with pytest.raises(BoundError, match="all 6 cases"):
        amun.release(log, delta=0.3, variant="filtering")


@pytest.mark.parametrize("design", DESIGNS)
def test_one_case_log(design: amun.Design) -> None:
    """A single case is answered: a release of its variant, or a refusal that nothing is left."""
    log = EventLog.from_traces([("ab", None)])
    answers = Counter(_answer(log, design, seed) for seed in range(12))
    assert set(answers) <= {"ab", "deleted"}
    assert answers["ab"]
    assert (answers["deleted"] > 0) == (design != "oversampling")


def _answer(log: EventLog, design: amun.Design, seed: int) -> str:
    try:
        released = amun.release(log, delta=0.3, variant=design, draw=noise.simulated(seed)).log
    except BoundError as error:
        return "deleted" if "deleted all 1 cases" in str(error) else str(error)
    return "+".join(sorted({"".join(trace) for trace in released.traces()}))


def test_empty_logs_and_empty_cases() -> None:
    """No events is bad input; cases without events are left out."""
    empty = EventLog.from_traces([("", None)])
    with pytest.raises(InputError, match="no events"):
        amun.release(empty, delta=0.3)
    log = EventLog.from_traces([("", None), *[("ab", None)] * 30])
    result = amun.release(log, delta=0.3, variant="oversampling")
    assert 0 not in result.origin
    assert set(result.log.traces()) == {("a", "b")}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta", math.nan),
        ("delta", 1.0),
        ("delta", 0.0),
        ("delta", 5e-324),
        ("variant", "shuffling"),
        ("prior", "guess"),
        ("time_correlation", "cubic"),
        ("replicas", "none"),
        ("compression", "zip"),
        ("releases", 0),
        ("cases_per_person", 1.5),
    ],
)
def test_bad_parameters(name: str, value: object) -> None:
    """Each parameter out of its range is one clear error that names it."""
    with pytest.raises(InputError, match=name.split("_", maxsplit=1)[0]):
        amun.release(_log(), **{"delta": 0.3, name: value})  # type: ignore[arg-type]


def test_seeded_release_is_marked() -> None:
    """A seeded release is reproducible in its content and says that it is not private."""
    first, second = (amun.release(_log(), delta=0.3, draw=noise.simulated(4)) for _ in range(2))
    assert not first.private
    assert first.log.time.tolist() == second.log.time.tolist()
    assert amun.release(_log(), delta=0.3).private


def test_repetition_and_several_cases_divide_epsilon() -> None:
    """Section 3.1: every epsilon is divided by planned releases and by cases per person; A.7 by the longest trace."""
    annotated = annotate(_log())
    plain = amun.event_epsilons(annotated, amun.AmunSettings(0.3))
    divided = amun.event_epsilons(annotated, amun.AmunSettings(0.3, releases=4, cases_per_person=2))
    linear = amun.event_epsilons(annotated, amun.AmunSettings(0.3, time_correlation="linear"))
    assert np.allclose(divided * 8, plain)
    assert np.allclose(linear * 3, plain)
    assert amun.AmunSettings(0.3, releases=4).epsilon_counts * 4 == pytest.approx(amun.AmunSettings(0.3).epsilon_counts)


def test_copies_share_their_epsilon() -> None:
    """A case released D times has its eps_t divided by the largest number of copies, or by its own."""
    copies = np.asarray([0, 1, 2, 5])
    assert amun._shares(copies, amun.AmunSettings(0.3)).tolist() == [1, 1, 5, 5]
    assert amun._shares(copies, amun.AmunSettings(0.3, replicas="own")).tolist() == [1, 1, 2, 5]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["ab", "abc", "bc", "c", "abb"]), min_size=1, max_size=12), st.data())
def test_sampling_makes_every_move(traces: list[str], data: st.DataObject) -> None:
    """Every transition gets its copies, and its deletions unless no case is left; the books agree with the copies."""
    annotated = annotate(EventLog.from_traces([(trace, None) for trace in traces]))
    size = annotated.dafsa.n_transitions
    needed = np.asarray(data.draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size)), dtype=np.int64)
    sampled = sample_cases(annotated.dafsa, annotated.variant_of_case, needed, noise.simulated(3))
    left = np.zeros(size, dtype=np.int64)
    np.add.at(left, annotated.transition, np.repeat(sampled.copies, annotated.log.lengths))
    assert np.array_equal(left, annotated.counts + sampled.added - sampled.removed)
    assert np.all(sampled.added >= np.maximum(needed, 0))
    assert np.all((sampled.removed >= np.maximum(-needed, 0)) | (left == 0))
    assert np.all(sampled.copies >= 0)
    if not np.any(needed > 0):
        assert not sampled.added.any()


def test_sampling_chooses_cases_by_their_number() -> None:
    """Among the variants of a transition each case has the same chance (false alarm 1e-6)."""
    from scipy.stats import binomtest

    log = EventLog.from_traces([*[("xa", None)] * 3, ("xb", None)])
    annotated = annotate(log)
    shared = int(annotated.transition[0])
    needed = np.zeros(annotated.dafsa.n_transitions, dtype=np.int64)
    needed[shared] = 2000
    sampled = sample_cases(annotated.dafsa, annotated.variant_of_case, needed, noise.secure())
    chosen = sampled.copies - 1
    assert chosen.sum() == 2000
    assert binomtest(int(chosen[3]), 2000, 0.25).pvalue > 1e-6
    assert binomtest(int(chosen[3]), 2000, 0.5).pvalue < 1e-6  # negative control: as if variants had equal chances


def test_time_noise_has_the_scale_of_its_group() -> None:
    """Noise is Lap(range / eps_t): right at that scale, wrong 30 % off (false alarm 1e-6); constants have none."""
    from scipy.stats import gamma

    def two_sided(errors: np.ndarray, scale: float) -> float:  # the sum of n exponentials |error| / scale is Gamma(n)
        total = float(np.abs(errors).sum()) / scale
        return 2 * min(gamma.cdf(total, len(errors)), gamma.sf(total, len(errors)))

    size = 3000
    group = np.repeat([0, 1, 2], size)
    relative = np.concatenate((np.tile([0, 600_000], size // 2), np.tile([5, 3_600_005], size // 2), np.full(size, 77)))
    epsilon = np.repeat([0.5, 2.0, 1.0], size)
    everything = np.arange(3 * size)
    times = noise_times(group, relative, epsilon, everything, noise.secure())
    error = (times.relative - relative).astype(float)
    for number, scale in ((0, 600_000 / 0.5), (1, 3_600_000 / 2.0)):
        mine = error[group == number]
        assert two_sided(mine, scale) > 1e-6
        assert two_sided(mine, scale * 1.3) < 1e-6
        assert two_sided(mine, scale * 0.7) < 1e-6
    assert np.all(error[group == 2] == 0)
    assert np.array_equal(times.silent, group == 2)


def test_low_digits_do_not_shine_through() -> None:
    """Where the lattice is coarser than a millisecond, outputs of different inputs have the same residues."""
    spread = 10 * 365 * 86_400_000
    relative = np.asarray([0, spread, 123_456_789_123 % spread])
    times = noise_times(np.zeros(3, dtype=np.int64), relative, np.ones(3), np.repeat([2, 1], 300), noise.secure())
    nearest = np.round(times.relative / spread * LATTICE).astype(np.int64)
    assert np.array_equal(scaled(nearest, np.full(600, spread)), times.relative)
    raw = relative[np.repeat([2, 1], 300)] + 17 * spread // LATTICE  # negative control: noise added to the raw value
    nearest = np.round(raw / spread * LATTICE).astype(np.int64)
    assert not np.array_equal(scaled(nearest, np.full(600, spread)), raw)


@settings(deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(1, 10**12))
def test_lattice_arithmetic(steps: list[int], spread: int) -> None:
    """steps * range / 2^20, rounded down, without overflow."""
    result = scaled(np.asarray(steps, dtype=np.int64), np.full(len(steps), spread))
    assert result.tolist() == [step * spread // LATTICE for step in steps]


def test_compression_is_equation_4() -> None:
    """The factor as printed, and applied in integers."""
    assert compression_factor(100, 100) == Fraction(1, 4)
    assert compression_factor(100, 300) == Fraction(1, 8)
    assert compression_factor(0, 50) == 1
    assert compressed(np.asarray([4000, -4000]), Fraction(1, 4)).tolist() == [1000, -1000]


def test_case_times_add_up() -> None:
    """Start plus durations, negative durations clamped, each case for itself, the cases in the order asked for."""
    starts, relative = np.asarray([0, 3, 4]), np.asarray([-5, 10, -3, 7])
    times = case_times(starts, np.asarray([0, 1]), relative, 100)
    assert (times // 1_000_000).tolist() == [95, 105, 105, 107]
    assert (case_times(starts, np.asarray([1, 0]), relative, 100) // 1_000_000).tolist() == [107, 95, 105, 105]


@given(st.lists(st.integers(-(2**43), 2**43), max_size=30), st.booleans())
def test_times_are_ordered_with_ties_as_they_stood(moments: list[int], narrow: bool) -> None:
    """The packed sort and the plain one, which it falls back to where times span more than a word holds."""
    times = np.asarray([moment % 5 if narrow else moment for moment in moments], dtype=np.int64) * 1_000_000
    assert order_of_times(times).tolist() == sorted(range(len(times)), key=lambda place: times[place])
    if len(times) > 1:
        times[:2] = (2**62, -(2**62))
        assert order_of_times(times).tolist() == sorted(range(len(times)), key=lambda place: times[place])


def test_noise_beyond_the_calendar_is_cut_and_never_wraps_around() -> None:
    """At a delta near 0 noise is longer than 64 bits of nanoseconds: times end there, in order within each case."""
    for design in ("sampling", "oversampling"):
        draw = noise.simulated(1)
        released = amun.release(_log(), delta=1e-4, variant=design, compression="none", draw=draw).log
        inside = np.ones(released.n_events, dtype=bool)
        inside[released.starts[:-1]] = False
        assert np.all((released.time[1:] >= released.time[:-1])[inside[1:]])
        years = released.time.astype("datetime64[ns]").astype("datetime64[Y]").astype(int) + 1970
        assert (years.min(), years.max()) == (1678, 2261)  # the noise did go as far as times can, and no further
    huge = np.asarray([2**60, 2**60, -(2**60), 2**60])
    times = case_times(np.asarray([0, 2, 4]), np.asarray([0, 1]), huge, 0).tolist()
    year = 365 * DAY
    assert times[0] == times[1] > 291 * year
    assert times[2] == -times[0]
    assert times[3] == 0  # no case is longer than a difference of times can be


def test_ranges_that_the_lattice_cannot_hold_are_refused() -> None:
    """A date that stands for "unknown" (1700) beside real ones is bad input, not an overflow."""
    log = EventLog.from_events(["1", "1"], ["a", "b"], np.asarray([-(85 * 10**17), 17 * 10**17]), unit="ns")
    with pytest.raises(InputError, match="spans more than 278 years"):
        amun.release(log, delta=0.3, variant="sampling")


class _Recorder(noise.NoiseSource):
    """A seeded source that notes the scales it was asked for."""

    __slots__ = ("scales",)

    def __init__(self) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(2))
        object.__setattr__(self, "scales", [])

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.scales.append(scale)
        return super().laplace(scale, size)

    def laplace_each(self, scales: np.ndarray, which: np.ndarray) -> np.ndarray:
        self.scales.extend(scales[which].tolist())
        return super().laplace_each(scales, which)


@pytest.mark.parametrize(
    ("design", "epsilon"), [("sampling", 0.8109302162163284), ("oversampling", 0.1777254424094585)]
)
def test_counts_are_noised_at_eps_d(design: amun.Design, epsilon: float) -> None:
    """Transition counts get Lap(1 / eps_d), A.6 where oversampling; no time gets less than its eps_t asks for."""
    recorder = _Recorder()
    result = amun.release(_log(), delta=0.2, variant=design, draw=recorder)
    assert recorder.scales[0] == pytest.approx(1 / epsilon, rel=1e-12)
    assert min(recorder.scales[1:]) >= LATTICE / result.epsilon_times.max() * (1 - 1e-12)
    copies = int(np.bincount(result.origin).max())
    assert max(recorder.scales[1:]) >= LATTICE * copies / result.epsilon_times.max()


def test_ties_are_answered() -> None:
    """Events at one moment, and a log of one moment, come out with zero durations and no error."""
    log = EventLog.from_events(
        [str(n // 2) for n in range(40)], ["a", "b"] * 20, np.zeros(40, dtype=np.int64), unit="ns"
    )
    released = amun.release(log, delta=0.3, variant="oversampling").log
    assert Counter(released.time.tolist()) == {0: released.n_events}
