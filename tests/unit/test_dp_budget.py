"""Exact numbers: what an epsilon means as it is written, and what is not a number to charge."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import pytest

from models.dp.budget import Charge, exact, positive, probability, shown
from models.errors import InputError
from stream.values.exact import exact as configured


@pytest.mark.parametrize(
    "bad",
    [math.nan, math.inf, -math.inf, -0.1, 5e-324, "nan", "inf", "x", None, True, "1/0", "-1/3", "", [1]],
)
def test_numbers_that_are_none(bad: Any) -> None:
    """NaN, infinities, negatives, subnormals and non-numbers are refused by the models and by the configuration."""
    for read in (exact, positive, probability):
        with pytest.raises(InputError):
            read(bad)
    with pytest.raises(ValueError, match="number"):
        configured(bad)


@pytest.mark.parametrize(
    "bad",
    [
        "1e350",
        10**350,
        "1" + "0" * 380 + "/3",
        "1e999999999",
        "1e-999999999",
        Decimal("1e999999"),
        "9" * 5000,
        "1/" + "9" * 5000,
    ],
)
def test_numbers_of_a_gigabyte_are_refused_at_once(bad: Any) -> None:
    """A short text can represent a number that fills the memory: it is refused before it is one."""
    with pytest.raises(InputError, match="too large or too small"):
        exact(bad)


def test_exactness_of_spellings() -> None:
    """0.1 means a tenth, however it is written, and ten tenths are one where floats lose a little."""
    spellings = (0.1, "0.1", "1/10", "1e-1", Decimal("0.1"), Fraction(1, 10))
    assert {exact(value) for value in spellings} == {configured(value) for value in spellings} == {Fraction(1, 10)}
    assert sum(exact(0.1) for _ in range(10)) == 1 != reduce(add, [0.1] * 10)  # Python 3.12 sums floats exactly


def test_epsilon_is_above_zero() -> None:
    """0 is a number, and no epsilon."""
    with pytest.raises(InputError, match="epsilon must be above 0"):
        positive(0)


@pytest.mark.parametrize("spent", [Fraction(3, 10), Fraction(1, 3), Fraction(2, 3), Fraction(10**17 + 1, 10**17)])
def test_a_shown_amount_never_reads_as_less(spent: Fraction) -> None:
    """Its decimals are the amount, or the next float above: a third is not printed as .3333333333333333."""
    assert Fraction(repr(shown(spent))) >= spent
    assert float(spent) <= shown(spent) <= math.nextafter(float(spent), math.inf)
    assert shown(Fraction("0.3")) == 0.3


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


@pytest.mark.parametrize("value", ["1", "2", 1, 2, 1.0])
def test_probabilities_end_below_one(value: object) -> None:
    """Strictly between 0 and 1: 1 is not a delta, whatever writes it."""
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        probability(value)
    with pytest.raises(InputError, match="delta_dp"):
        probability(0)
    assert probability(Fraction(999_999_999, 10**9)) < 1
    assert probability("1e-6") == Fraction(1, 10**6)


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
