"""Gaussian noise as it is drawn and released: its distribution, its terms, an audit of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import pytest

from models.dp import noise, strict
from models.dp.audit import Many, NeighbourPair, audit
from models.dp.zcdp import Gaussian, epsilon_of, scale_of
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from tests.unit.test_zcdp import TINY, probabilities

FALSE_ALARM = 1e-9


def chi_square(draws: np.ndarray, scale: float) -> float:
    """p-value of the draws against the definition, values beyond three scales in one bin a side."""
    from scipy.stats import chisquare

    reach, chances = math.ceil(3 * scale), probabilities(scale)
    seen = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    due = np.zeros(2 * reach + 1)
    for z, chance in chances.items():
        due[min(max(z, -reach), reach) + reach] += chance * len(draws)
    return float(chisquare(seen, due * len(draws) / due.sum()).pvalue)


@pytest.mark.parametrize("source", [noise.SECURE, noise.simulated(3)], ids=["library", "simulated"])
@pytest.mark.parametrize("scale", [0.7, pytest.param(3.0, marks=pytest.mark.slow), 12.5])
def test_noise_has_the_scale_that_was_asked_for(source: noise.NoiseSource, scale: float) -> None:
    """Draws follow the definition; one of a tenth more, or of a tenth less, they do not."""
    draws = source.gaussian(scale, 40_000)
    assert chi_square(draws, scale) > FALSE_ALARM
    assert chi_square(draws, scale * 1.1) < FALSE_ALARM
    assert chi_square(draws, scale * 0.9) < FALSE_ALARM


class Normal(np.random.Generator):
    """A generator whose normal draws are known, and which notes of what."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(5))
        self.asked: list[tuple[float, float, int]] = []

    def normal(self, loc: float, scale: float, size: int) -> np.ndarray:  # type: ignore[override]
        self.asked.append((loc, scale, size))
        return np.asarray([0.4, -0.6, 12.5001, -3.0])


def test_wide_noise_of_a_seeded_source_is_the_rounded_normal_one() -> None:
    """About 0, above a scale of 10,000; at it the chance of each number is listed still."""
    generator = Normal()
    found = noise.NoiseSource(generator).gaussian(math.nextafter(1e4, math.inf), 4)
    assert found.tolist() == [0, -1, 13, -3]
    assert found.dtype == np.int64
    assert generator.asked == [(0.0, math.nextafter(1e4, math.inf), 4)]
    assert len(noise.NoiseSource(generator).gaussian(1e4, 4)) == 4
    assert len(generator.asked) == 1


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**57])
def test_scales_that_are_none_are_refused(scale: float) -> None:
    """As for Laplace noise: the library would take some of them without a word."""
    with pytest.raises(InputError):
        noise.SECURE.gaussian(scale, 1)


def test_releases_show_counts_above_the_threshold_alone() -> None:
    """Counts are near the true ones, no variant is invented, rare ones are not there."""
    log = EventLog.from_traces([(("A", "B"), None)] * 400 + [(("A", "C"), None)] * 300 + [(("X",), None)])
    found = strict.release_gaussian(log, rho="1/18", delta_dp=TINY)
    traces = found.log.traces()
    assert found.threshold == 16
    assert set(traces) == {("A", "B"), ("A", "C")}
    assert abs(traces.count(("A", "B")) - 400) < 40
    assert found.private
    assert found.terms.rho == Fraction(1, 18)
    assert found.terms.epsilon == 0


def test_what_a_release_spends_and_shows_without_further_terms() -> None:
    """One case a person unless said otherwise; a release by epsilon has no rho; events are a second apart."""
    assert strict.gaussian("1/18", TINY) == Gaussian(Fraction(1, 18), TINY, 1)
    assert strict.Terms.of("1", TINY).rho == 0
    log = EventLog.from_traces([(("A", "B"), None)] * 400)
    draw = noise.simulated(2)
    found = strict.release_gaussian(log, rho="1/18", delta_dp=TINY, draw=draw)
    assert not found.private
    assert found.terms == strict.Terms(Fraction(0), TINY, 1, Fraction(1, 18))
    assert set(found.log.traces()) == {("A", "B")}
    assert found.log.time.reshape(-1, 2).tolist() == [[0, 1_000_000_000]] * found.log.n_cases


def test_thresholds_that_no_log_reaches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most that a threshold may be is allowed; above it no release is made, nor one of too many events."""
    least = Gaussian(Fraction(1, 18), TINY).threshold
    monkeypatch.setattr(strict, "MAX_THRESHOLD", least)
    assert strict.gaussian("1/18", TINY).threshold == least
    log = EventLog.from_traces([(("A", "B"), None)] * 400)
    with monkeypatch.context() as fewer:
        fewer.setattr(strict, "MAX_EVENTS", 100)
        with pytest.raises(BoundError, match="events"):
            strict.release_gaussian(log, rho="1/18", delta_dp=TINY)
    monkeypatch.setattr(strict, "MAX_THRESHOLD", least - 1)
    with pytest.raises(InputError, match=f"would need {least} cases"):
        strict.gaussian("1/18", TINY)


def test_no_draw_is_asked_for_nothing() -> None:
    """No noise if there is no count, of either source; one draw is one."""
    for source in (noise.SECURE, noise.simulated(1)):
        assert source.gaussian(3.0, 0).tolist() == []
        assert source.gaussian(3.0, 1).shape == (1,)
        assert source.gaussian(3.0, 0).dtype == np.int64


@pytest.mark.parametrize(
    ("rho", "delta", "cases", "said"),
    [
        ("0", TINY, 1, "rho must be above 0"),
        ("nan", TINY, 1, "rho must be a finite number"),
        ("1e-12", TINY, 1, "rho is too small"),
        ("1e-40", TINY, 1, "rho is too small"),
        ("1e-9", TINY, 1, "rho is too small"),
        ("1e9", TINY, 1, "outside"),
        ("1", 0, 1, "delta_dp must be above 0"),
        ("1", 1, 1, "delta_dp must be"),
    ],
)
def test_terms_that_cannot_be_are_refused(rho: str, delta: Fraction, cases: int, said: str) -> None:
    """In one line that names the number."""
    with pytest.raises(InputError, match=said):
        strict.gaussian(rho, delta, cases)


def test_an_audit_refutes_noise_that_is_too_small_and_not_the_right_one() -> None:
    """The right scale is not refuted at its own (epsilon, delta); a third of it is."""
    rho, delta = Fraction(1, 2), Fraction(1, 10**4)
    claimed = float(epsilon_of(rho, delta))

    def pair(scale: float) -> NeighbourPair:
        def counted(count: int) -> Many:
            def many(runs: int) -> Counter[Hashable]:
                drawn = count + noise.SECURE.gaussian(scale, runs)
                return Counter({("at least", bound): int((drawn >= bound).sum()) for bound in range(-6, 8)})

            return many

        return NeighbourPair("a case added", tuple, tuple, many_one=counted(0), many_other=counted(1))

    right = scale_of(rho)
    assert not audit(pair(right), 4000, delta=float(delta)).refutes(claimed)
    assert audit(pair(right / 6), 4000, delta=float(delta)).refutes(claimed)
