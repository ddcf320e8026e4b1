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

FALSE_ALARM = 1e-9
"""Chance that one statistical test below fails for a right sampler; there are about thirty."""


DRAWS = 4000

LEAST, MOST = 2.0**-10, 2.0**56
"""Scales that noise can have."""


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
    return noise.SECURE.laplace_each(np.asarray([scale]), np.zeros(size, dtype=np.int64))


SAMPLERS = pytest.mark.parametrize("sampler", [noise.SECURE.laplace, _bulk], ids=["library", "bulk"])


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
    """Every draw of a published mechanism, noise or choices, comes from a private source; it makes no other."""
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
    """Draws of several scales are in the places they were asked for."""
    draws = np.abs(noise.SECURE.laplace_each(np.asarray([1.0, 1e12]), np.arange(4000) % 2))
    assert draws[::2].max() < 100 < np.median(draws[1::2])


@pytest.mark.parametrize("scale", [0.0, 5e-324, -1.0, math.nan, math.inf, 1e300, 2.0**57])
def test_impossible_scales_are_refused(scale: float) -> None:
    """Scales that OpenDP would take silently, or that leave 64 bits, are bad input."""
    with pytest.raises(InputError, match="noise scale"):
        noise.SECURE.laplace(scale, 1)
    with pytest.raises(InputError, match="noise scale"):
        noise.SECURE.laplace_each(np.asarray([1.0, scale, 2.0]), np.zeros(1, dtype=np.int64))


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


def test_released_noise_takes_no_seed() -> None:
    """A seed is refused unless the run is marked not private, and a seeded source reports it."""
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

    source = noise.SECURE
    firsts = np.bincount([int(source.permutation(4)[0]) for _ in range(2000)], minlength=4)
    assert chisquare(firsts).pvalue > FALSE_ALARM
    heavy = sum(int(source.weighted_order(np.asarray([3.0, 1.0]))[0]) == 0 for _ in range(2000))
    assert binomtest(heavy, 2000, 0.75).pvalue > FALSE_ALARM
    assert binomtest(heavy, 2000, 0.5).pvalue < FALSE_ALARM


def test_scales_that_noise_can_have() -> None:
    """From 2^-10 to 2^56, both of them; beyond, the message says which way to go."""
    assert noise.checked_scale(LEAST) == LEAST
    assert noise.checked_scale(MOST) == MOST
    with pytest.raises(InputError, match="lower epsilon"):
        noise.checked_scale(math.nextafter(LEAST, 0))
    for scale in (math.nextafter(MOST, math.inf), math.inf):
        with pytest.raises(InputError, match="raise epsilon"):
            noise.checked_scale(scale)


def test_noise_needs_an_epsilon_and_a_sensitivity_above_zero() -> None:
    """Each alone is refused, and by its own words."""
    for sensitivity, epsilon in ((1, Fraction(0)), (1, Fraction(-1)), (0, Fraction(1)), (-1, Fraction(1))):
        with pytest.raises(InputError, match="epsilon > 0 and sensitivity > 0"):
            noise.scale_for(sensitivity, epsilon)


def test_a_scale_beyond_64_bits_is_shown() -> None:
    """The message names the scale, and one that no float holds as 1e+300."""
    assert noise.scale_for(2**56, Fraction(1)) == MOST
    with pytest.raises(InputError, match=r"noise of scale 1\.15e\+18 does not fit"):
        noise.scale_for(1, Fraction(1, 2**60))
    for power in (302, 400):
        with pytest.raises(InputError, match=r"noise of scale 1e\+300 does not fit"):
            noise.scale_for(10**power, Fraction(1))


def test_two_hundred_epsilons_stay_as_they_are() -> None:
    """As many distinct values as the grid has steps are their own grid; one more goes to it."""
    values = 1.0 + np.arange(200) ** 2 / 1000
    assert noise.grid_down(values).tolist() == values.tolist()
    more = np.append(values, 99.0)
    assert noise.grid_down(more).tolist() != more.tolist()


def test_the_grid_has_two_hundred_steps_from_the_least_to_the_largest() -> None:
    """Never above the value asked for, at most one step below it, and both ends exact."""
    values = np.geomspace(0.3, 7.1, 40_001)
    found = noise.grid_down(values)
    step = (7.1 / 0.3) ** (1 / 200)
    assert len(np.unique(found)) == 201
    assert np.all(found <= values)
    assert np.all(values <= found * step * (1 + 1e-12))
    assert (found[0], found[-1]) == (values[0], values[-1])
    gap = np.append(np.geomspace(0.3, 1.0, 1000), 7.1)  # steps are those of the whole range, also if nothing is
    assert len(np.unique(noise.grid_down(gap))) == 1 + 1 + int(np.log(1.0 / 0.3) / np.log(step))


def test_nothing_is_drawn_for_nothing() -> None:
    """No draw gives no number, at every source."""
    for source in (noise.SECURE, noise.simulated(1)):
        assert source.laplace(1.0, 0).shape == (0,)
        assert source.words(0).shape == (0,)
        assert source.permutation(0).shape == (0,)
        assert source.identifiers(0) == ()


@pytest.mark.parametrize("source", [noise.SECURE, noise.simulated(7)], ids=["secure", "simulated"])
def test_every_bit_of_a_word_is_drawn(source: noise.NoiseSource) -> None:
    """Of 4,000 words each of the 64 bits is set in 1,700 to 2,300 (false alarm 1e-19)."""
    words = source.words(4000)
    assert words.dtype == np.uint64
    bits = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    assert all(1700 < number < 2300 for number in bits), bits


def test_weights_are_chances() -> None:
    """The first of a weighted order is drawn with the chance that its weight has: 1, 2 and 5 of 8 in 8,000 draws."""
    source = noise.simulated(3)
    weights = np.asarray([1.0, 2.0, 5.0])
    first = np.bincount([source.weighted_order(weights)[0] for _ in range(8000)], minlength=3)
    assert np.all(np.abs(first - np.asarray([1000, 2000, 5000])) < 250), first  # 5.6 standard deviations and more
    assert sorted(source.weighted_order(weights).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 1000])
def test_identifiers_are_eighty_bits(size: int) -> None:
    """Twenty hexadecimal digits each, all of them different, whatever the number; also those of two calls."""
    found = [*noise.SECURE.identifiers(size), *noise.SECURE.identifiers(size)]
    assert len(set(found)) == 2 * size
    assert all(len(one) == 20 and set(one) <= set("0123456789abcdef") for one in found)
