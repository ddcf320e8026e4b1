"""Strict mode: the threshold, the counts, the times, and that nothing else depends on the data."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp import noise, strict
from models.dp.counts import threshold
from models.dp.strict import TimeBounds, release_log, release_variants
from models.errors import InputError
from models.eventlog import EventLog
from tests.oracles.dp import tail

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

    Which of them a release names is chance: each variant passes with its own chance, summed from the definition of the
    noise, and the number released follows the law of their sum (false alarm 1e-6). One more or less is usual: BPIC 2012
    gives 42 in 21 of 100 releases and 41 in 16, Urineweginfectie 7 in 52 and 8 in 37.
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
    assert min(law[: released + 1].sum(), law[released:].sum()) > 0.5e-6
    assert min(law[: 2 * variants + 6].sum(), law[2 * variants + 5 :].sum()) < 0.5e-6  # negative control: twice as many
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
    """Every start and duration lies within the declared bounds, whatever the noise."""
    bounds = TimeBounds(2 * DAY, (0, 50 * DAY), 20)
    released = release_log(_log(), bounds=bounds, **LOOSE).log
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
    """Where no public range of starts is declared every case begins at 1970-01-01."""
    released = release_log(_log(), **LOOSE).log
    assert not released.time[released.starts[:-1]].any()


def test_events_beyond_the_cap_hold_no_data() -> None:
    """Times beyond max_events are the public default, and the noise is split over the capped number only."""
    log = EventLog.from_traces([("a" * 9, None)] * 60)
    released = release_log(log, epsilon=20, delta_dp="0.1", bounds=TimeBounds(DAY, None, 3)).log
    steps = np.diff(released.time.reshape(-1, 9), axis=1) // 1_000_000
    assert np.all(steps[:, 3:] == DAY // 2)
    assert np.all(np.any(steps[:, :3] != DAY // 2, axis=0))


class _Recorder(noise.NoiseSource):
    """A seeded source that notes the scales it was asked for."""

    __slots__ = ("scales",)

    def __init__(self) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "scales", [])

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.scales.append(scale)
        return super().laplace(scale, size)


def test_every_value_gets_its_share_of_epsilon() -> None:
    """Scales are sensitivity over share: counts c / eps_counts; each of d values of a row range * d * c / eps_times."""
    log = EventLog.from_traces([("abc", None)] * 500)
    recorder = _Recorder()
    bounds = TimeBounds(2 * DAY, (0, 50 * DAY), 20)
    release_log(log, epsilon=1, delta_dp="1e-3", bounds=bounds, time_share="0.25", cases_per_person=2, draw=recorder)
    shares = [2 / 0.75, 50 * DAY * 3 * 2 / 0.25, 2 * DAY * 3 * 2 / 0.25, 2 * DAY * 3 * 2 / 0.25]
    assert recorder.scales == pytest.approx(shares, rel=1e-12)


def test_release_says_nothing_of_ids_attributes_and_order() -> None:
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


def test_bad_bounds() -> None:
    """Bounds that are none, or so wide that the noise would not fit, are refused before anything is drawn."""
    year_3 = -62_072_000_000_000  # 64 bits of nanoseconds begin in 1677
    for arguments in ((0, None, 1), (DAY, (5, 5), 1), (DAY, None, 0), (1 << 41, None, 1), (DAY, (year_3, 0), 1)):
        with pytest.raises(InputError):
            TimeBounds(*arguments)
    with pytest.raises(InputError, match="within the years 1678 to 2261"):
        TimeBounds(DAY, (year_3, year_3 + DAY), 1)
    with pytest.raises(InputError, match="64 bits"):
        release_log(_log(), epsilon="1e-9", delta_dp="0.5", draw=_Recorder())
    with pytest.raises(InputError, match="time_share"):
        release_log(_log(), epsilon=1, delta_dp="0.5", time_share=1)


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
