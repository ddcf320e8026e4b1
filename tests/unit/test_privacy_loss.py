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

from models.dp import privacy_loss
from models.dp.privacy_loss import (
    MAX_ATOMS,
    ROUNDED_EPSILON,
    SMOOTHING,
    Composition,
    gaussian_distance,
    gaussian_part,
    scale_at,
)
from models.dp.zcdp import epsilon_of
from models.errors import InputError
from tests.conftest import examples
from tests.oracles.privacy_loss import ball, gaussian_delta, precision, reference

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
    composition = Composition.of([], pure)
    assert len(privacy_loss._pure_losses(composition.pure)[0]) <= 2**14
    epsilon = composition.epsilon(DELTA)
    # An independent reference: all losses on a grid of 1 / 15,000, which is finer than that of the account.
    exact = on_a_fine_grid(numbers, float(epsilon))
    assert exact <= float(DELTA)
    assert on_a_fine_grid(numbers, float(epsilon) - 1e-3) > float(DELTA)


def on_a_fine_grid(numbers: dict[Fraction, int], epsilon: float) -> float:
    """Return delta from the characteristic function of all losses, summed over a fine grid."""
    step, size = 1 / 15_000, 1 << 19
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


# rounding


def test_constants_of_the_rounding_keep_what_the_proof_needs() -> None:
    """k <= 2.1 exp(-2 pi^2 t^2) of each coordinate: over 2^40 of them epsilon grows by 4 k d, delta by exp(k d)."""
    k = ball(Fraction(21, 10)) * (-2 * arb.pi() ** 2 * ball(SMOOTHING) ** 2).exp()
    coordinates = ball(Fraction(2**40))
    assert 4 * k * coordinates < ball(ROUNDED_EPSILON)
    assert (k * coordinates).exp() - 1 < ball(ROUNDED_EPSILON)


@pytest.mark.parametrize(("scale", "sensitivity"), [(5, 1), (Fraction(31, 10), 2), (40, 3)])
def test_the_distance_of_a_pair_is_that_of_the_formula(scale: Fraction, sensitivity: int) -> None:
    """c^2 / (s^2 - t^2) with t = 3/2."""
    expected = Fraction(sensitivity) ** 2 / (Fraction(scale) ** 2 - Fraction(9, 4))
    assert gaussian_distance(scale, sensitivity) == expected


def test_the_factor_of_the_rounding_is_part_of_delta() -> None:
    """At epsilon 0 and m = 6 a shift of epsilon changes nothing: the factor exp(k d), k = 2e-19, d = 2^40, is left."""
    factor = (ball(Fraction(2, 10**19)) * ball(Fraction(2**40))).exp()
    assert not ball(Composition.of([Fraction(36)], []).delta(Fraction(0))) < factor * reference(
        Fraction(36), [], Fraction(0)
    )


@pytest.mark.parametrize("m", [1e-6, 1e-4, 1e-2, 0.3, 1.0, 4.0])
def test_a_gaussian_delta_is_rounded_up(m: float) -> None:
    """Also where it is the small difference of two large numbers, and far below 1: never below, and close to it."""
    epsilons = m * np.linspace(-3.0, 6.0, 181)
    bounds = privacy_loss._gaussian_delta(m, epsilons)
    for epsilon, bound in zip(epsilons.tolist(), bounds.tolist(), strict=True):
        true = gaussian_delta(Fraction(m) ** 2, ball(epsilon))
        assert not ball(bound) < true
        assert bound <= float(true.mid()) + 1e-7


def test_a_loss_is_never_moved_down() -> None:
    """Just below the largest loss of n equal stages: only that loss is above epsilon, and it has the chance p^n."""
    tiny = Fraction(1, 10**18)
    for denominator in range(3, 400):
        for number in (1, 3, 7):
            stage = Fraction(1, denominator)
            epsilon = number * stage - tiny
            chance = (1 / (1 + (-ball(stage)).exp())) ** number
            true = chance * (1 - (-ball(tiny)).exp())
            assert not ball(Composition.of([], [stage] * number).delta(epsilon)) < true


def test_as_many_losses_as_the_limit_are_kept_apart() -> None:
    """14 different stages have 2^14 losses, each kept as it is; those of 15 are spread over a grid of no more."""
    stages = [Fraction(1, 3 + place) for place in range(15)]
    losses, weights, infinite = privacy_loss._pure_losses(Composition.of([], stages[:14]).pure)
    exact = np.zeros(1)
    for stage in stages[:14]:
        exact = np.add.outer(exact, [-float(stage), float(stage)]).ravel()
    assert len(losses) == 2**14
    assert np.sort(losses) == pytest.approx(np.sort(exact), abs=1e-13)
    assert infinite == 0
    on_grid, grid_weights, _ = privacy_loss._pure_losses(Composition.of([], stages).pure)
    assert len(on_grid) <= 2**14
    # Probabilities under both distributions of the pair are kept: P adds up to 1, and so does Q = P exp(-loss).
    for at, chances in ((losses, weights), (on_grid, grid_weights)):
        assert chances.sum() == pytest.approx(1.0, abs=1e-12)
        assert (chances * np.exp(-at)).sum() == pytest.approx(1.0, abs=1e-8)


@given(st.lists(st.integers(2, 60), min_size=15, max_size=15, unique=True), st.fractions(0, 3, max_denominator=100))
@examples(10)
def test_losses_on_a_grid_are_never_below_the_reference(denominators: list[int], epsilon: Fraction) -> None:
    """15 different stages; the reference adds up all 2^15 losses, in floats with a margin."""
    stages = [Fraction(1, denominator) for denominator in denominators]
    losses, weights = np.zeros(1), np.ones(1)
    for stage in stages:
        higher = 1 / (1 + math.exp(-stage))
        losses = np.add.outer(losses, [float(stage), -float(stage)]).ravel()
        weights = np.multiply.outer(weights, [higher, 1 - higher]).ravel()
    beyond = losses > float(epsilon)
    true = math.fsum((weights[beyond] * -np.expm1(float(epsilon) - losses[beyond])).tolist())
    bound = Composition.of([], stages).delta(epsilon)
    assert true * (1 - 1e-12) <= bound <= true * (1 + 1e-3) + 1e-9


def test_rare_losses_count_as_infinite() -> None:
    """Of 2,000 stages the largest losses are rarer than 1e-40: their chance is in delta beyond every finite loss."""
    stage, number = Fraction(1, 100), 2000
    _, weights, infinite = privacy_loss._pure_losses(((stage, number),))
    higher = 1 / (1 + (-ball(stage)).exp())
    left_out = arb(1) - sum((ball(weight) for weight in weights.tolist()), arb(0))
    assert len(weights) < number + 1
    assert 0 < infinite < 1e-36
    assert weights.min() >= 1e-40
    assert abs(left_out) < ball(1e-9)
    assert not ball(Composition(Fraction(0), ((stage, number),)).delta(stage * number - 1)) < higher**number


def test_every_epsilon_leaves_a_delta_of_gaussian_noise() -> None:
    """The true one is below all floats, and above 0; nor is a delta above 1."""
    assert Composition.of([Fraction(1, 100)], []).delta(1000) > 0
    assert Composition.of([], [Fraction(1)]).delta(1000) == 0
    assert Composition.of([Fraction(4)], [Fraction(1)]).delta(-50) == 1.0
    assert Composition.of([], [Fraction(1)]).delta(-50) == 1.0


# what a delta allows


@pytest.mark.parametrize(
    ("distance", "pure"), [(0, [Fraction(1, 10)] * 30), (Fraction(1, 50), []), (Fraction(1, 7), [Fraction(1, 3)] * 2)]
)
def test_an_epsilon_is_the_least_one_in_billionths(distance: Fraction, pure: list[Fraction]) -> None:
    """A billionth less has a larger delta."""
    composition = Composition.of([Fraction(distance)], pure)
    epsilon = composition.epsilon(DELTA)
    assert (epsilon * 10**9).denominator == 1
    assert composition.delta(epsilon) <= float(DELTA) < composition.delta(epsilon - Fraction(1, 10**9))


def test_without_any_delta_to_spare_an_epsilon_is_the_sum() -> None:
    """A single stage at a delta of 10^-12: a billionth less would need 5e-10."""
    assert Composition.of([], [Fraction(1, 10)]).epsilon(Fraction(1, 10**12)) == Fraction(1, 10)


@pytest.mark.parametrize("distance", [Fraction(1, 10**6), Fraction(400), Fraction(10_000)])
def test_an_epsilon_is_found_for_small_and_large_distances(distance: Fraction) -> None:
    """m of .001, 20 and 100: the reference allows it, and .001 less has a larger delta."""
    epsilon = Composition.of([distance], []).epsilon(DELTA)
    assert not ball(DELTA) < reference(distance, [], epsilon)
    if epsilon > Fraction(1, 1000):
        assert reference(distance, [], epsilon - Fraction(1, 1000)) > ball(DELTA)


@pytest.mark.parametrize("distance", [Fraction(1, 10**4), Fraction(1), Fraction(400)])
@pytest.mark.parametrize("pure", [[], [Fraction(1, 3)] * 2])
def test_a_delta_below_that_of_rare_losses_has_an_epsilon(distance: Fraction, pure: list[Fraction]) -> None:
    """Losses rarer than 1e-40 count as infinite, so the bound of the tails is left: enough, and within a twentieth."""
    delta = Fraction(1, 10**60)
    epsilon = Composition.of([distance], pure).epsilon(delta)
    assert not ball(delta) < reference(distance, pure, epsilon - Fraction(ROUNDED_EPSILON))
    assert reference(distance, pure, epsilon * Fraction(19, 20)) > ball(delta)


def test_the_epsilon_of_a_tiny_distance_is_that_of_the_rounding() -> None:
    """Also if delta is below that of rare losses: tails of m = 10^-10 add no millionth."""
    epsilon = Composition.of([Fraction(1, 10**20)], []).epsilon(Fraction(1, 10**60))
    assert ROUNDED_EPSILON < epsilon < 1.01 * ROUNDED_EPSILON


def test_a_delta_that_is_smaller_by_a_hair_is_not_exceeded() -> None:
    """By a part in 10^10: the epsilon, or the noise, of the delta itself would exceed it."""
    composition = Composition.of([Fraction(1, 50)], [Fraction(1, 10)])
    epsilon = composition.epsilon(DELTA)
    hair = Fraction(composition.delta(epsilon)) * (1 - Fraction(1, 10**10))
    assert composition.epsilon(hair) > epsilon
    part = gaussian_part(Fraction(1), DELTA, [Fraction(1, 10)])
    hair = Fraction(Composition.of([part], [Fraction(1, 10)]).delta(1)) * (1 - Fraction(1, 10**10))
    assert gaussian_part(Fraction(1), hair, [Fraction(1, 10)]) < part


@pytest.mark.parametrize("pure", [[], [Fraction(1, 5)], [Fraction(1, 10)] * 4])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_the_part_of_gaussian_stages_is_the_largest(epsilon: Fraction, pure: list[Fraction]) -> None:
    """In ten-millionths of the square of epsilon: the reference allows it, and the next one has too large a delta."""
    part = gaussian_part(epsilon, DELTA, pure)
    assert (part * 10**7 / epsilon**2).denominator == 1
    assert not ball(DELTA) < reference(part, pure, epsilon)
    assert Composition.of([part], pure).delta(epsilon) <= float(DELTA)
    assert Composition.of([part + epsilon**2 / 10**7], pure).delta(epsilon) > float(DELTA)


def test_gaussian_stages_have_no_part_or_all_of_it() -> None:
    """Pure stages that take all of epsilon leave nothing; a delta of one half allows m = epsilon, the largest part."""
    assert gaussian_part(Fraction(1), DELTA, [Fraction(1)]) == 0
    assert gaussian_part(Fraction(1, 10), Fraction(1, 2), []) == Fraction(1, 100)


def test_the_scale_of_a_distance_is_the_least() -> None:
    """The pair of noise of that scale has at most the distance; a slightly smaller scale has more."""
    for distance, sensitivity in ((Fraction(1, 17), 5), (Fraction(3, 1000), 4096), (Fraction(1), 700)):
        scale = scale_at(distance, sensitivity)
        assert gaussian_distance(scale, sensitivity) <= distance
        assert gaussian_distance(math.nextafter(scale, 0.0), sensitivity) > distance
    for distance in (Fraction(0), Fraction(-1)):
        with pytest.raises(InputError, match="epsilon is too small"):
            scale_at(distance, 1)


def test_stages_are_composed_in_any_order() -> None:
    """And nothing is in a composition from the beginning."""
    one, other = Fraction(1, 10), Fraction(1, 7)
    assert Composition.of([], [one, other, one]) == Composition.of([], [other, one, one])
    assert Composition.of([], [one, other, one]).pure == ((one, 2), (other, 1))
    assert Composition() == Composition.of([], [])
    assert Composition().delta(0) == pytest.approx(0.0, abs=1e-300)
