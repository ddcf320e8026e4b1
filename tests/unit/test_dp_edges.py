"""The edges of noise, budgets and guessing: the last value that is taken, the first that is refused, and how each is
rounded."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from models.dp import guessing, noise
from models.dp.budget import Charge, exact, probability
from models.dp.noise import checked_scale, grid_down, scale_for, secure, simulated
from models.errors import InputError

LEAST, MOST = 2.0**-10, 2.0**56


def test_scales_that_noise_can_have() -> None:
    """From 2^-10 to 2^56, both of them; beyond, the message says which way to go."""
    assert checked_scale(LEAST) == LEAST
    assert checked_scale(MOST) == MOST
    with pytest.raises(InputError, match="lower epsilon"):
        checked_scale(math.nextafter(LEAST, 0))
    for scale in (math.nextafter(MOST, math.inf), math.inf):
        with pytest.raises(InputError, match="raise epsilon"):
            checked_scale(scale)


def test_noise_needs_an_epsilon_and_a_sensitivity_above_zero() -> None:
    """Each alone is refused, and by its own words."""
    for sensitivity, epsilon in ((1, Fraction(0)), (1, Fraction(-1)), (0, Fraction(1)), (-1, Fraction(1))):
        with pytest.raises(InputError, match="epsilon > 0 and sensitivity > 0"):
            scale_for(sensitivity, epsilon)


def test_a_scale_beyond_64_bits_is_shown() -> None:
    """The message names the scale, and one that no float holds as 1e+300."""
    assert scale_for(2**56, Fraction(1)) == MOST
    with pytest.raises(InputError, match=r"noise of scale 1\.15e\+18 does not fit"):
        scale_for(1, Fraction(1, 2**60))
    for power in (302, 400):
        with pytest.raises(InputError, match=r"noise of scale 1e\+300 does not fit"):
            scale_for(10**power, Fraction(1))


def test_two_hundred_epsilons_stay_as_they_are() -> None:
    """As many distinct values as the grid has steps are their own grid; one more goes to it."""
    values = 1.0 + np.arange(200) ** 2 / 1000
    assert grid_down(values).tolist() == values.tolist()
    more = np.append(values, 99.0)
    assert grid_down(more).tolist() != more.tolist()


def test_the_grid_has_two_hundred_steps_from_the_least_to_the_largest() -> None:
    """Never above the value asked for, at most one step below it, and both ends exact."""
    values = np.geomspace(0.3, 7.1, 40_001)
    found = grid_down(values)
    step = (7.1 / 0.3) ** (1 / 200)
    assert len(np.unique(found)) == 201
    assert np.all(found <= values)
    assert np.all(values <= found * step * (1 + 1e-12))
    assert (found[0], found[-1]) == (values[0], values[-1])
    assert len(np.unique(grid_down(values, steps=10))) == 11
    gap = np.append(np.geomspace(0.3, 1.0, 1000), 7.1)  # steps are those of the whole range, also where nothing lies
    assert len(np.unique(grid_down(gap))) == 1 + 1 + int(np.log(1.0 / 0.3) / np.log(step))


def test_nothing_is_drawn_for_nothing() -> None:
    """No draw gives no number, at every source."""
    for source in (secure(), simulated(1)):
        assert source.laplace(1.0, 0).shape == (0,)
        assert source.words(0).shape == (0,)
        assert source.permutation(0).shape == (0,)
        assert source.identifiers(0) == ()


@pytest.mark.parametrize("source", [secure(), simulated(7)], ids=["secure", "simulated"])
def test_every_bit_of_a_word_is_drawn(source: noise.NoiseSource) -> None:
    """Of 4,000 words each of the 64 bits is set in 1,700 to 2,300 (false alarm 1e-19)."""
    words = source.words(4000)
    assert words.dtype == np.uint64
    bits = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    assert all(1700 < number < 2300 for number in bits), bits


def test_weights_are_chances() -> None:
    """The first of a weighted order is drawn with the chance that its weight has: 1, 2 and 5 of 8 in 8,000 draws."""
    source = simulated(3)
    weights = np.asarray([1.0, 2.0, 5.0])
    first = np.bincount([source.weighted_order(weights)[0] for _ in range(8000)], minlength=3)
    assert np.all(np.abs(first - np.asarray([1000, 2000, 5000])) < 250), first  # 5.6 standard deviations and more
    assert sorted(source.weighted_order(weights).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 1000])
def test_identifiers_are_eighty_bits(size: int) -> None:
    """Twenty hexadecimal digits each, all of them different, whatever the number."""
    found = secure().identifiers(size)
    assert len(set(found)) == size
    assert all(len(one) == 20 and set(one) <= set("0123456789abcdef") for one in found)


def test_numbers_at_the_edge_of_a_float() -> None:
    """The least normal number is taken, the next below is none; 1e300 is taken, and nothing above."""
    least = sys.float_info.min
    assert exact(least) == Fraction(repr(least))
    assert exact(Fraction(least)) == Fraction(least)
    for below in (math.nextafter(least, 0), Fraction(least) / 2, "1e-320", Decimal("1e-320")):
        with pytest.raises(InputError, match="subnormal"):
            exact(below)
    for subnormal in (5e-324, -5e-324, math.nextafter(least, 0)):
        with pytest.raises(InputError, match="is a subnormal number"):
            exact(subnormal)
    assert exact(10**300) == exact("1e300") == 10**300
    for above in (10**300 + 1, "1e301", 1e301):
        with pytest.raises(InputError, match="too large"):
            exact(above)
    assert exact(0) == exact(0.0) == 0


def test_texts_at_the_edge_of_what_is_read() -> None:
    """400 characters, and 400 digits before or after the point, are read; one more is refused at once."""
    assert exact("1." + "0" * 398) == 1
    with pytest.raises(InputError, match="too large or too small"):
        exact("1." + "0" * 399)
    for text in ("1e401", "1e-401"):
        with pytest.raises(InputError, match="too large or too small to mean"):
            exact(text)
    for text in ("1e400", Decimal("1e400")):  # read, and then above 1e300
        with pytest.raises(InputError, match="too large"):
            exact(text)
    with pytest.raises(InputError, match="subnormal"):
        exact("1e-400")


@pytest.mark.parametrize("value", ["1", "2", 1, 1.0])
def test_probabilities_end_below_one(value: object) -> None:
    """Strictly between 0 and 1: 1 is no delta, whatever writes it."""
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        probability(value)
    assert probability(Fraction(999_999_999, 10**9)) < 1


def test_charges_add_up_exactly() -> None:
    """Sequential composition: the sum of both, each on its own."""
    total = Charge(Fraction(1, 10), Fraction(1, 7)) + Charge(Fraction(2, 10), Fraction(1, 3))
    assert total == Charge(Fraction(3, 10), Fraction(10, 21))
    assert Charge() == Charge(Fraction(0), Fraction(0))
    one, other = (
        Charge(Fraction(1, 10), Fraction(1, 7), Fraction(1, 9)),
        Charge(Fraction(1, 3), Fraction(1, 2), Fraction(2)),
    )
    assert one + other == Charge(Fraction(13, 30), Fraction(9, 14), Fraction(19, 9))
    assert one - other == Charge(Fraction(-7, 30), Fraction(-5, 14), Fraction(-17, 9))
    assert one.times(3) == Charge(Fraction(3, 10), Fraction(3, 7), Fraction(1, 3))


def test_advantages_at_their_edges() -> None:
    """From a billionth to a billionth below 1, both of them, and only numbers."""
    for delta in (1e-9, 1 - 1e-9, 0.5):
        assert guessing.checked_delta(delta) == delta
    for delta in (0, 0.0, 1, 1.0, -0.5, 1.5, True, False, "0.5", None, math.nan):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            guessing.checked_delta(delta)  # type: ignore[arg-type]
    for delta in (math.nextafter(1e-9, 0), math.nextafter(1 - 1e-9, 1)):
        with pytest.raises(InputError, match="too close to 0 or 1"):
            guessing.checked_delta(delta)


def test_priors_at_their_edges() -> None:
    """A prior of 1 counts as risky and gets the worst case; 0 and above 1 are none; delta is checked here too."""
    worst = guessing.epsilon_of_counts(0.2)
    found = guessing.epsilon_of_times(np.asarray([1.0, 0.8, 0.9, 0.4]), 0.2)
    assert found == pytest.approx([worst] * 4)  # 0.8 + 0.2 is 1, 0.4 is the worst prior itself
    for bad in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(InputError, match=r"\(0, 1\]"):
            guessing.epsilon_of_times(np.asarray([0.5, bad]), 0.2)
    with pytest.raises(InputError, match="delta"):
        guessing.epsilon_of_times(np.asarray([0.5]), 0.0)
    below = guessing.epsilon_of_times(np.asarray([0.7]), 0.2)[0]
    assert below == pytest.approx(math.log((1 - 0.7) * 0.9 / (0.7 * (1 - 0.2 - 0.7))))
