"""Amun: the content of its releases, the operator's figures, released times by hand, and refusals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
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
from tests.conftest import examples
from tests.unit.known_noise import DAY_MS, RecordingNoise, ScriptedNoise, timed_log

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
    assert np.all(released.resource.codes == -1)  # the code that readers and writers use for no resource
    assert np.array_equal(released.time[np.argsort(released.row)], np.sort(released.time))


def test_origin_names_the_source_case() -> None:
    """Every released case has the variant of the case it is an instance of."""
    log = _log()
    result = amun.release(log, delta=0.3, variant="sampling")
    source = log.traces()
    assert result.log.traces() == [source[case] for case in result.origin]


def test_oversampling_keeps_every_case() -> None:
    """Oversampling only adds: each source case is there at least once.

    With a delta of .4 no transition would get a copy once in 3,000 releases; with .05 once in thousands of millions.
    """
    log = _log()
    result = amun.release(log, delta=0.05, variant="oversampling")
    assert set(result.origin.tolist()) == set(range(log.n_cases))
    assert result.log.n_cases > log.n_cases


def test_a_filter_that_leaves_nothing_is_reported() -> None:
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
    of_counts = amun.AmunSettings(0.3).epsilon_counts
    assert amun.AmunSettings(0.3, releases=4).epsilon_counts == pytest.approx(of_counts / 4)
    assert amun.AmunSettings(0.3, releases=4, cases_per_person=2).epsilon_counts == pytest.approx(of_counts / 8)


def test_copies_share_their_epsilon() -> None:
    """A case released D times has its eps_t divided by the largest number of copies, or by its own."""
    copies = np.asarray([0, 1, 2, 5])
    assert amun._shares(copies, amun.AmunSettings(0.3)).tolist() == [1, 1, 5, 5]
    assert amun._shares(copies, amun.AmunSettings(0.3, replicas="own")).tolist() == [1, 1, 2, 5]


@examples(40)
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
    """Among the variants of a transition each case has the same chance (false alarm 1e-9)."""
    from scipy.stats import binomtest

    log = EventLog.from_traces([*[("xa", None)] * 3, ("xb", None)])
    annotated = annotate(log)
    shared = int(annotated.transition[0])
    needed = np.zeros(annotated.dafsa.n_transitions, dtype=np.int64)
    needed[shared] = 2000
    sampled = sample_cases(annotated.dafsa, annotated.variant_of_case, needed, noise.SECURE)
    chosen = sampled.copies - 1
    assert chosen.sum() == 2000
    assert binomtest(int(chosen[3]), 2000, 0.25).pvalue > 1e-9
    assert binomtest(int(chosen[3]), 2000, 0.5).pvalue < 1e-9  # negative control: as if variants had equal chances


def test_time_noise_has_the_scale_of_its_group() -> None:
    """Noise is Lap(range / eps_t): right at that scale, wrong 30 % off (false alarm 1e-9); constants have none."""
    from scipy.stats import gamma

    def two_sided(errors: np.ndarray, scale: float) -> float:  # the sum of n exponentials |error| / scale is Gamma(n)
        total = float(np.abs(errors).sum()) / scale
        return 2 * min(gamma.cdf(total, len(errors)), gamma.sf(total, len(errors)))

    size = 3000
    group = np.repeat([0, 1, 2], size)
    relative = np.concatenate((np.tile([0, 600_000], size // 2), np.tile([5, 3_600_005], size // 2), np.full(size, 77)))
    epsilon = np.repeat([0.5, 2.0, 1.0], size)
    everything = np.arange(3 * size)
    times, silent = noise_times(group, relative, epsilon, everything, noise.SECURE)
    error = (times - relative).astype(float)
    for number, scale in ((0, 600_000 / 0.5), (1, 3_600_000 / 2.0)):
        mine = error[group == number]
        assert two_sided(mine, scale) > 1e-9
        assert two_sided(mine, scale * 1.3) < 1e-9
        assert two_sided(mine, scale * 0.7) < 1e-9
    assert np.all(error[group == 2] == 0)
    assert np.array_equal(silent, group == 2)


def test_low_digits_do_not_shine_through() -> None:
    """If the lattice is coarser than a millisecond, outputs of different inputs have the same residues."""
    spread = 10 * 365 * 86_400_000
    relative = np.asarray([0, spread, 123_456_789_123 % spread])
    times, _ = noise_times(np.zeros(3, dtype=np.int64), relative, np.ones(3), np.repeat([2, 1], 300), noise.SECURE)
    nearest = np.round(times / spread * LATTICE).astype(np.int64)
    assert np.array_equal(scaled(nearest, np.full(600, spread)), times)
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
def test_times_are_ordered_and_ties_keep_their_order(moments: list[int], narrow: bool) -> None:
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
    """A date that represents "unknown" (1700) among real ones is bad input, not an overflow."""
    log = EventLog.from_events(["1", "1"], ["a", "b"], np.asarray([-(85 * 10**17), 17 * 10**17]), unit="ns")
    with pytest.raises(InputError, match="spans more than 278 years"):
        amun.release(log, delta=0.3, variant="sampling")


class _Recorder(RecordingNoise):
    """Records the scales of bulk draws, one a draw, in addition to those of counts."""

    __slots__ = ()

    def laplace_each(self, scales: np.ndarray, scale_of_draw: np.ndarray) -> np.ndarray:
        self.asked.extend((scale, 1) for scale in scales[scale_of_draw].tolist())
        return super().laplace_each(scales, scale_of_draw)


@pytest.mark.parametrize(
    ("design", "epsilon"), [("sampling", 0.8109302162163284), ("oversampling", 0.1777254424094585)]
)
def test_counts_are_noised_at_eps_d(design: amun.Design, epsilon: float) -> None:
    """Transition counts get Lap(1 / eps_d), A.6 where oversampling; no time gets less than its eps_t asks for."""
    recorder = _Recorder(seed=2)
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


class _Chosen(ScriptedNoise):
    """Noise of the counts as written, and of the times in steps of the lattice (0 beyond those that are written)."""

    __slots__ = ()

    def laplace_each(self, scales: np.ndarray, scale_of_draw: np.ndarray) -> np.ndarray:
        return np.asarray([*self.of_times, *[0] * len(scale_of_draw)][: len(scale_of_draw)], dtype=np.int64)


def _released(log: EventLog, steps: Sequence[int] = (), **keys: object) -> list[tuple[str, list[float]]]:
    """Released cases as (trace, days), in the order of the release; the counts have no noise."""
    released = amun.release(log, delta=0.3, draw=_Chosen(0, steps), **{"variant": "sampling", **keys}).log  # type: ignore[arg-type]
    days = (released.time / (DAY_MS * 1_000_000)).tolist()
    return [
        ("".join(trace), days[begin:end])
        for trace, begin, end in zip(released.traces(), released.starts[:-1], released.starts[1:], strict=True)
    ]


def test_what_the_operator_gets() -> None:
    """Six variants with a transition each: a and e stay, b and c lose every case, d gets three copies and f one."""
    counted = {"a": (1, 0), "b": (1, -1), "c": (3, -3), "d": (1, 3), "e": (2, 0), "f": (1, 1)}
    log = timed_log(*((name, (0,)) for name, (cases, _) in counted.items() for _ in range(cases)))
    result = amun.release(log, delta=0.3, variant="sampling", draw=_Chosen([more for _, more in counted.values()]))
    assert [sum(trace == (name,) for trace in result.log.traces()) for name in counted] == [1, 0, 0, 4, 2, 2]
    figures = dict(result.operator)
    assert {key: figures[key] for key in list(figures)[:9]} == {
        "cases": 9,
        "cases_filtered": 0,
        "cases_deleted": 4,
        "cases_copied": 2,
        "variants_lost": 2,
        "singletons_released": 3,
        "largest_number_of_copies": 4,
        "events_without_time_noise": 9,
        "events_released": 9,
    }
    assert figures["dafsa"] == {"states": 2, "transitions": 6}


def test_what_a_case_would_spend_were_variants_public() -> None:
    """The epsilons of the longest trace's counts and of the times of the case that has most of them."""
    log = timed_log(
        ("abc", (0, 5, 9)), ("abc", (DAY_MS * 9, DAY_MS * 10, DAY_MS * 11)), ("ab", (DAY_MS * 30, DAY_MS * 30 + 60_000))
    )
    result = amun.release(log, delta=0.3, variant="sampling", draw=_Chosen(0))
    by_case = [sum(result.epsilon_times[begin:end]) for begin, end in ((0, 3), (3, 6), (6, 8))]
    assert len(set(by_case)) > 1
    total = 3 * result.epsilon_counts + max(by_case)
    assert result.operator["epsilon_total_if_variants_were_public"] == pytest.approx(total, rel=1e-12)
    assert result.operator["advantage_if_variants_were_public"] == pytest.approx(math.tanh(total / 4), rel=1e-12)
    assert result.operator["mean_epsilon_times"] == pytest.approx(sum(by_case) / 8, rel=1e-12)


def test_starts_are_pressed_together_by_equation_4() -> None:
    """Starts 10 days apart, noised to 20 days: all times by 10 / (2 * 30); without noise by a quarter; or left."""
    log = timed_log(("ab", (3 * DAY_MS, 4 * DAY_MS)), ("ab", (13 * DAY_MS, 15 * DAY_MS)))
    half = LATTICE // 2  # half of a range: 5 days of the starts, 12 hours of the steps
    pressed = _released(log, (-half, 0, half, 0))
    assert [trace for trace, _ in pressed] == ["ab", "ab"]
    expected = [3 - 5 / 6, 3 - 5 / 6 + 1 / 6, 3 + 15 / 6, 3 + 15 / 6 + 2 / 6]
    assert [day for _, days in pressed for day in days] == pytest.approx(expected, abs=1e-4)
    still = [day for _, days in _released(log) for day in days]
    assert still == pytest.approx([3, 3.25, 5.5, 6], abs=1e-4)
    alone = [day for _, days in _released(log, (-half, 0, half, 0), compression="none") for day in days]
    assert alone == pytest.approx([-2, -1, 18, 20], abs=1e-4)


def test_ties_of_time_come_in_the_order_that_was_drawn() -> None:
    """Never in that of the source: here the reverse."""
    assert [trace for trace, _ in _released(timed_log(("a", (0,)), ("b", (0,)), ("c", (0,))))] == ["c", "b", "a"]


def test_the_filter_takes_what_reaches_one() -> None:
    """A prior of a half is risky from delta = 1/2 on; designs without a filter keep every case."""
    log = timed_log(("ab", (0, 0)), ("ab", (9 * DAY_MS, 9 * DAY_MS + 60_000)))
    annotated = annotate(log)
    with pytest.raises(BoundError, match="all 2 cases"):
        amun.filtered(annotated, amun.AmunSettings(0.5, "filtering"))
    assert amun.filtered(annotated, amun.AmunSettings(0.49, "filtering"))[1].tolist() == [True, True]
    for design in ("sampling", "oversampling"):
        assert amun.filtered(annotated, amun.AmunSettings(0.9, design))[1].tolist() == [True, True]  # type: ignore[arg-type]


def test_what_the_filter_takes_is_counted() -> None:
    """Nine steps of one minute and one of ninety: the nine go, and the operator is informed."""
    steps = [1] * 9 + [90]
    log = timed_log(*(("ab", (day * DAY_MS, day * DAY_MS + step * 60_000)) for day, step in enumerate(steps)))
    result = amun.release(log, delta=0.2, variant="filtering", draw=_Chosen(0))
    assert (result.operator["cases"], result.operator["cases_filtered"], result.log.n_cases) == (10, 9, 1)
    assert result.origin.tolist() == [9]


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 0.8, 0.9])
def test_the_scale_of_counts_is_rounded_up(delta: float) -> None:
    """Never less noise than 1 / eps_d, however the division rounds."""
    draw = _Chosen(0)
    result = amun.release(timed_log(("a", (0,))), delta=delta, variant="oversampling", draw=draw)
    assert Fraction(draw.asked[0]) * Fraction(result.epsilon_counts) >= 1
