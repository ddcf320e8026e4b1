"""Exact composition: never below references in balls of 200 bits, and close to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from models.dp.privacy_loss import MAX_ATOMS, ROUNDED_EPSILON, Composition, gaussian_distance
from models.dp.zcdp import epsilon_of
from models.errors import InputError
from tests.conftest import examples
from tests.oracles.privacy_loss import ball, precision, reference

DELTA = Fraction(5, 10**7)
CLOSE = 1e-6
"""Most that a delta may exceed its reference by, as a part of it."""

EPSILONS = st.fractions(Fraction(1, 200), 2, max_denominator=400)


@pytest.fixture(autouse=True)
def two_hundred_bits() -> Iterator[None]:
    """Compute references in balls of 200 bits."""
    with precision(200):
        yield


@given(st.lists(EPSILONS, min_size=1, max_size=9), st.fractions(0, 3, max_denominator=1000))
@examples(100)
def test_pure_stages_are_composed_exactly(epsilons: list[Fraction], epsilon: Fraction) -> None:
    """Never below the reference, and above it by a millionth at most."""
    true = reference(Fraction(0), epsilons, epsilon)
    bound = Composition.of([], epsilons).delta(epsilon)
    assert not ball(bound) < true
    assert bound <= float(true.mid()) * (1 + CLOSE) + 1e-15


@given(
    st.fractions(Fraction(1, 10**5), 2, max_denominator=10**6),
    st.lists(EPSILONS, max_size=4),
    st.fractions(0, 4, max_denominator=1000),
)
@examples(100)
def test_gaussian_and_pure_stages_are_composed_exactly(
    distance: Fraction, pure: list[Fraction], epsilon: Fraction
) -> None:
    """Never below the reference; above it only by the epsilon that pays for the rounding of noise to integers."""
    bound = Composition.of([distance], pure).delta(epsilon)
    assert not ball(bound) < reference(distance, pure, epsilon)
    nearby = reference(distance, pure, epsilon - Fraction(2 * ROUNDED_EPSILON))
    assert bound <= float(nearby.mid()) * (1 + 10 * CLOSE) + 1e-12


@given(st.lists(EPSILONS, min_size=1, max_size=6), st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 2)]))
@examples(50)
def test_an_epsilon_keeps_its_delta_and_the_next_one_does_not(pure: list[Fraction], distance: Fraction) -> None:
    """The epsilon is the least one, but for what is rounded up."""
    composition = Composition.of([distance], pure)
    epsilon = composition.epsilon(DELTA)
    assert not ball(DELTA) < reference(distance, pure, epsilon)
    if epsilon > Fraction(1, 1000):
        assert reference(distance, pure, epsilon - Fraction(1, 1000)) > ball(DELTA)


@pytest.mark.parametrize(("releases", "most"), [(52, 0.57), (100, 0.41)])
def test_equal_releases_cost_less_than_their_sum(releases: int, most: float) -> None:
    """So many releases of 1 / so many: by sums they cost 1."""
    pure = [Fraction(1, releases)] * releases
    epsilon = Composition.of([], pure).epsilon(DELTA)
    assert epsilon <= most
    assert not ball(DELTA) < reference(Fraction(0), pure, epsilon)


def test_losses_beyond_the_limit_are_rounded_up_and_stay_close() -> None:
    """Several hundred releases with five epsilons have more sums of losses than are kept apart."""
    numbers = {
        Fraction(1, 90): 200,
        Fraction(1, 97): 150,
        Fraction(1, 101): 150,
        Fraction(1, 55): 80,
        Fraction(1, 40): 60,
    }
    pure = [epsilon for epsilon, number in numbers.items() for _ in range(number)]
    assert math.prod(number + 1 for number in numbers.values()) > MAX_ATOMS
    epsilon = Composition.of([], pure).epsilon(DELTA)
    # An independent reference: all losses on a grid of 1 / 3,000,000, which rounds each epsilon by hardly anything.
    exact = on_a_fine_grid(numbers, float(epsilon))
    assert exact <= float(DELTA)
    assert on_a_fine_grid(numbers, float(epsilon) - 1e-3) > float(DELTA)


def on_a_fine_grid(numbers: dict[Fraction, int], epsilon: float) -> float:
    """Return delta from the characteristic function of all losses, summed over a fine grid."""
    step, size = 1 / 60_000, 1 << 21
    frequencies = 2j * np.pi * np.fft.fftfreq(size)
    log_transform = np.zeros(size, dtype=np.complex128)
    for stage, number in numbers.items():
        higher = 1 / (1 + math.exp(-stage))
        places = float(stage) / step
        below, part = math.floor(places), places - math.floor(places)
        plus = (1 - part) * np.exp(-frequencies * below) + part * np.exp(-frequencies * (below + 1))
        minus = (1 - part) * np.exp(frequencies * below) + part * np.exp(frequencies * (below + 1))
        log_transform += number * np.log(higher * plus + (1 - higher) * minus)
    weights = np.fft.ifft(np.exp(log_transform)).real
    losses = np.fft.fftfreq(size) * size * step
    beyond = losses > epsilon
    return float((weights[beyond] * -np.expm1(epsilon - losses[beyond])).sum())


@pytest.mark.parametrize("scale", [1.0, 2.2222, 7.5, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.2, 0.6])
def test_discrete_laplace_noise_is_a_randomized_response(scale: float, epsilon: float) -> None:
    """The noise on a count that one person changes by 1, by its probabilities."""
    reach = math.ceil(60 * scale)
    unscaled = {z: (-ball(abs(z)) / ball(scale)).exp() for z in range(-reach, reach + 1)}
    norm = sum(unscaled.values(), arb(0))
    true = arb(0)
    for z in range(-reach, reach):
        difference = unscaled[z] / norm - ball(epsilon).exp() * unscaled[z + 1] / norm
        if difference > 0:
            true += difference
    bound = Composition.of([], [1 / Fraction(scale)]).delta(epsilon)
    assert bound == pytest.approx(float(true.mid()), rel=1e-6, abs=1e-12)


SHIFTS = [(1,), (3,), (1, 1), (2, 1), (1, 1, 1)]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("scale", [3.1, 5.0, 9.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_the_gaussian_pair_dominates_discrete_gaussian_noise(
    shift: tuple[int, ...], scale: float, epsilon: float
) -> None:
    """One person moves several counts: the noise's own delta, by its probabilities, is never above the bound."""
    norm_square = sum(part**2 for part in shift)
    losses = {0: 1.0}
    for part in shift:
        losses = plus_coordinate(losses, part, scale)
    # A loss of sum part (2 z + part) / (2 s^2); its numerator is the key.
    true = math.fsum(
        chance * -math.expm1(epsilon - numerator / (2 * scale**2))
        for numerator, chance in losses.items()
        if numerator / (2 * scale**2) > epsilon
    )
    sensitivity_square = Fraction(norm_square)
    distance = sensitivity_square * gaussian_distance(scale, 1)
    bound = Composition.of([distance], []).delta(epsilon)
    assert true * (1 - 1e-9) <= bound
    # Not far above either (a bound of 1 would pass the line before): a distance of a twentieth less is not enough.
    if scale >= 9.0 and true > 1e-12:
        assert Composition.of([distance * Fraction(19, 20)], []).delta(epsilon) <= true


def plus_coordinate(losses: dict[int, float], part: int, scale: float) -> dict[int, float]:
    """Compose losses with those of one coordinate that a person moves by `part`."""
    reach = math.ceil(9 * scale)
    weights = {z: math.exp(-(z**2) / (2 * scale**2)) for z in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    following: dict[int, float] = {}
    for (numerator, chance), (z, weight) in itertools.product(losses.items(), weights.items()):
        key = numerator + part * (2 * z + part)
        following[key] = following.get(key, 0.0) + chance * weight / total
    return following


def test_a_rounded_gaussian_is_the_discrete_gaussian_but_for_a_tiny_factor() -> None:
    """The sums that the proof rests on, in balls: rounding weights are constant to 2e-19."""
    smoothing = ball(Fraction(3, 2))
    sums = []
    for place in range(11):
        x = ball(Fraction(place, 10))
        sums.append(sum(((-((k - x) ** 2) / (2 * smoothing**2)).exp() for k in range(-60, 61)), arb(0)))
    expected = smoothing * (2 * arb.pi()).sqrt()
    for total in sums:
        assert abs(total / expected - 1) < ball(Fraction(2, 10**19))


@pytest.mark.parametrize("distance", [Fraction(1, 10**4), Fraction(1, 100), Fraction(1, 4), Fraction(4)])
def test_it_is_never_more_than_zcdp_and_sums_say(distance: Fraction) -> None:
    """The account that it replaces: rho = m^2 / 2 converted, plus the epsilons."""
    pure = [Fraction(45, 100), Fraction(1, 10)]
    before = epsilon_of(distance / 2, DELTA) + sum(pure)
    assert Composition.of([distance], pure).epsilon(DELTA) < before


def test_nothing_released_costs_nothing() -> None:
    """Stages of epsilon 0 are left out."""
    assert Composition.of([], [Fraction(0)]).epsilon(DELTA) == 0


def test_noise_of_too_small_a_scale_is_refused() -> None:
    """Its Gaussian pair would be far from it."""
    with pytest.raises(InputError, match="so small a scale"):
        gaussian_distance(3.0, 1)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1)])
def test_a_delta_outside_of_0_and_1_is_refused(delta: Fraction) -> None:
    """One clear line."""
    with pytest.raises(InputError, match="between 0 and 1"):
        Composition.of([], [Fraction(1)]).epsilon(delta)
