"""Noise: the right distribution, the right source, no gaps, no seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from models.dp import noise
from models.dp.discrete import _draw, discrete_laplace, fractions
from models.errors import InputError
from models.eventlog import EventLog
from stream.release.contract import Exposure
from stream.release.mechanisms import mechanism

FALSE_ALARM = 1e-6
"""Chance that one statistical test below fails for a right sampler; there are about thirty."""


DRAWS = 4000


def _chi_square(draws: npt.NDArray[np.int64], scale: float) -> float:
    """p-value of the draws against the definition P(z) ~ exp(-|z| / scale), over about 20 bins."""
    from scipy.stats import chisquare

    reach = max(2, int(3 * scale))
    width = max(1, (2 * reach + 1) // 20)
    edges = np.arange(-reach, reach + 1, width) - 0.5
    ratio = math.exp(-1.0 / scale)

    def below(edge: float) -> float:  # P(Z <= floor(edge)), summed in closed form from the definition
        z = math.floor(edge)
        return 1 - ratio ** (z + 1) / (1 + ratio) if z >= 0 else ratio ** (-z) / (1 + ratio)

    cumulative = np.asarray([0.0, *(below(edge) for edge in edges), 1.0])
    expected = np.diff(cumulative) * len(draws)
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1)
    return float(chisquare(observed, expected).pvalue)


Sampler = Callable[[float, int], npt.NDArray[np.int64]]


def _bulk(scale: float, size: int) -> npt.NDArray[np.int64]:
    return noise.secure().laplace_each(np.asarray([scale]), np.zeros(size, dtype=np.int64))


SAMPLERS = pytest.mark.parametrize("sampler", [noise.secure().laplace, _bulk], ids=["library", "bulk"])


@SAMPLERS
@pytest.mark.parametrize("scale", [1.0, 6.5, 1e9])
def test_scale_is_the_one_asked_for(sampler: Sampler, scale: float) -> None:
    """The cryptographic draws follow the definition at the right scale and fail at 30 % more and 30 % less."""
    draws = sampler(scale, DRAWS)
    assert _chi_square(draws, scale) > FALSE_ALARM
    assert _chi_square(draws, scale * 1.3) < FALSE_ALARM
    assert _chi_square(draws, scale * 0.7) < FALSE_ALARM


@pytest.mark.parametrize("scale", [1.0, 6.5, 1e9])
def test_bulk_draws_find_a_small_error_of_scale(scale: float) -> None:
    """A million draws: the bulk sampler passes, and a scale 2 % off fails either way (a quarter of a million
    once did not see it)."""
    draws = _bulk(scale, 1_000_000)
    assert _chi_square(draws, scale) > FALSE_ALARM
    assert _chi_square(draws, scale * 1.02) < FALSE_ALARM
    assert _chi_square(draws, scale * 0.98) < FALSE_ALARM


def _zero_twice(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Planted fault: minus zero is not drawn again, so that 0 comes twice as often as it should."""
    rng = np.random.default_rng(1)
    sizes = rng.geometric(-math.expm1(-1.0 / scale), size) - 1
    return sizes * rng.choice([-1, 1], size)


def _short_draws(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Planted fault: a draw without enough words begins again on fresh ones, which favours short, small draws."""
    parts = *fractions(np.asarray([scale])), np.zeros(1, dtype=np.int64)
    words, drawn, one = np.random.default_rng(2), [], np.zeros(1, dtype=np.int64)
    while len(drawn) < size:
        done, _ = _draw(*parts, words.integers(0, 2**64, size=9, dtype=np.uint64), 0, 1, one)
        drawn += one.tolist()[:done]
    return np.asarray(drawn)


def _stuck_bit(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Planted fault: a source of words whose last bit never changes."""
    rng = np.random.default_rng(3)
    even = np.uint64(2**64 - 2)
    return discrete_laplace(
        np.asarray([scale]),
        np.zeros(size, dtype=np.int64),
        lambda count: rng.integers(0, 2**64, size=count, dtype=np.uint64) & even,
    )


@pytest.mark.parametrize("faulty", [_zero_twice, _short_draws, _stuck_bit])
def test_planted_faults_are_seen(faulty: Sampler) -> None:
    """Negative controls that are not a wrong scale: the test that the samplers pass finds each at 20,000 draws."""
    assert _chi_square(_bulk(3.0, 20_000), 3.0) > FALSE_ALARM
    assert _chi_square(faulty(3.0, 20_000), 3.0) < FALSE_ALARM


@SAMPLERS
def test_no_seed_of_the_process_repeats_noise(sampler: Sampler) -> None:
    """The generators of Python and numpy, set back to the same state, leave no trace in what is drawn."""
    draws = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        draws.append(sampler(1e9, 20).tolist())
    assert draws[0] != draws[1]


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "amun", "delta": 0.3, "variant": "sampling"},
        {"kind": "dp-log", "epsilon": 5, "delta_dp": 1e-2},
        {"kind": "dp-variants", "epsilon": 5, "delta_dp": 1e-2},
    ],
    ids=lambda table: table["kind"],
)
def test_mechanisms_of_publications_draw_from_private_sources_only(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a published mechanism draws, noise or choices, comes from a private source; it makes no other."""
    monkeypatch.setattr(np.random, "default_rng", None)
    asked: list[bool] = []
    for name in ("laplace", "laplace_each", "words"):
        drawing = getattr(noise.NoiseSource, name)

        def recorded(source: noise.NoiseSource, *rest: Any, drawing: Any = drawing) -> Any:
            asked.append(source.private)
            return drawing(source, *rest)

        monkeypatch.setattr(noise.NoiseSource, name, recorded)
    times = np.arange(600) * 3_600_000_000_000
    log = EventLog.from_events([str(number // 2) for number in range(600)], ["a", "b"] * 300, times, unit="ns")
    build = mechanism(table).build(Exposure(log, np.ones(300, dtype=np.bool_), (), 0))
    assert build.log.n_events
    assert len(asked) >= 3
    assert all(asked)


def test_simulated_draws_follow_the_same_law() -> None:
    """The seeded source, used by tests and benchmarks, has the same distribution; its bulk draws repeat."""
    scale, which = np.asarray([6.5]), np.zeros(50, dtype=np.int64)
    assert np.array_equal(*(noise.simulated(7).laplace_each(scale, which) for _ in range(2)))
    draws = noise.simulated(7).laplace(6.5, DRAWS)
    assert _chi_square(draws, 6.5) > FALSE_ALARM
    assert _chi_square(draws, 8.45) < FALSE_ALARM


@SAMPLERS
def test_neighbouring_draws_are_independent(sampler: Sampler) -> None:
    """Successive draws are not correlated (|r| sqrt(n) is standard normal; bound at the stated false-alarm rate)."""
    from scipy.stats import norm

    draws = sampler(50.0, DRAWS).astype(np.float64)
    bound = norm.isf(FALSE_ALARM / 2)
    correlation = np.corrcoef(draws[:-1], draws[1:])[0, 1]
    assert abs(correlation) * math.sqrt(DRAWS) < bound
    repeated = np.repeat(draws[: DRAWS // 2], 2)  # negative control: each draw used twice
    assert abs(np.corrcoef(repeated[:-1], repeated[1:])[0, 1]) * math.sqrt(DRAWS) > bound


def test_each_event_gets_its_own_scale() -> None:
    """Draws of several scales stand in the places they were asked for."""
    draws = np.abs(noise.secure().laplace_each(np.asarray([1.0, 1e12]), np.arange(4000) % 2))
    assert draws[::2].max() < 100 < np.median(draws[1::2])


@pytest.mark.parametrize("scale", [0.0, 5e-324, -1.0, math.nan, math.inf, 1e300, 2.0**57])
def test_impossible_scales_are_refused(scale: float) -> None:
    """Scales that OpenDP would take silently, or that leave 64 bits, are bad input."""
    with pytest.raises(InputError, match="noise scale"):
        noise.secure().laplace(scale, 1)
    with pytest.raises(InputError, match="noise scale"):
        noise.secure().laplace_each(np.asarray([1.0, scale, 2.0]), np.zeros(1, dtype=np.int64))


@SAMPLERS
def test_large_scales_do_not_saturate(sampler: Sampler) -> None:
    """Draws at 100 days in nanoseconds stay far within 64 bits and are not cut at 32."""
    draws = np.abs(sampler(8.64e15, 200))
    assert draws.max() < 2**62
    assert np.median(draws) > 2**40


def test_scale_rounds_up() -> None:
    """sensitivity / epsilon as a float is never below the exact ratio."""
    for epsilon in (Fraction(1, 3), Fraction(1, 10), Fraction(7, 11), Fraction(2**60 + 1, 2**60)):
        scale = noise.scale_for(1, epsilon)
        assert Fraction(scale) >= 1 / epsilon
        assert Fraction(math.nextafter(scale, 0)) < 1 / epsilon


def test_grid_rounds_epsilon_down() -> None:
    """No epsilon grows on the grid, none shrinks by more than a step, and few stay as they are."""
    epsilons = np.random.default_rng(1).uniform(0.01, 9, 5000)
    rounded = noise.grid_down(epsilons)
    assert np.all(rounded <= epsilons)
    assert len(np.unique(rounded)) <= 201
    assert np.all(rounded >= epsilons / (900 ** (1 / 200)) / 1.0001)
    assert noise.grid_down(epsilons[:150]) is not None
    assert np.array_equal(noise.grid_down(epsilons[:150]), epsilons[:150])


def test_released_noise_takes_no_seed() -> None:
    """A seed is refused unless the run is marked not private, and a seeded source says so."""
    with pytest.raises(InputError, match="takes no seed"):
        noise.source(1)
    assert noise.source().private
    assert not noise.source(1, private=False).private


def _identifying(outputs: npt.NDArray[np.float64]) -> float:
    """Share of outputs of "0 + noise" that no float noise could have brought about from the true value 1."""
    needed = outputs - 1.0
    near = [needed, np.nextafter(needed, np.inf), np.nextafter(needed, -np.inf)]
    reachable = np.logical_or.reduce([1.0 + value == outputs for value in near])
    return float(np.mean(~reachable))


@SAMPLERS
def test_floating_point_attack(sampler: Sampler) -> None:
    """Mironov's attack: float Laplace betrays the true value on more than 20 % of outputs, ours on none."""
    uniform = np.random.default_rng(5).uniform(-0.5, 0.5, 20000)
    naive = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    assert _identifying(naive) > 0.20
    ours = sampler(1.0, 3000).astype(np.float64)
    assert _identifying(ours) == 0.0
    assert len(np.unique(ours)) > 8


def test_uniform_choices_are_uniform() -> None:
    """Permutations and weighted orders have the chances they claim."""
    from scipy.stats import binomtest, chisquare

    source = noise.secure()
    firsts = np.bincount([int(source.permutation(4)[0]) for _ in range(2000)], minlength=4)
    assert chisquare(firsts).pvalue > FALSE_ALARM
    heavy = sum(int(source.weighted_order(np.asarray([3.0, 1.0]))[0]) == 0 for _ in range(2000))
    assert binomtest(heavy, 2000, 0.75).pvalue > FALSE_ALARM
    assert binomtest(heavy, 2000, 0.5).pvalue < FALSE_ALARM


def test_identifiers_are_fresh() -> None:
    """Ids do not repeat, not even between two calls."""
    ids = {*noise.secure().identifiers(500), *noise.secure().identifiers(500)}
    assert len(ids) == 1000
    assert {len(name) for name in ids} == {20}
