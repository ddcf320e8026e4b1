"""Exact numbers: what an epsilon means as it is written, and what is no number to charge."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import pytest

from models.dp.budget import exact, positive, probability, shown
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
    """A short text can stand for a number that fills the memory: it is refused before it is one."""
    with pytest.raises(InputError, match="too large or too small"):
        exact(bad)


def test_exactness_of_spellings() -> None:
    """0.1 means a tenth, however it is written, and ten tenths are one where floats lose a little."""
    spellings = (0.1, "0.1", "1/10", "1e-1", Decimal("0.1"), Fraction(1, 10))
    assert {exact(value) for value in spellings} == {configured(value) for value in spellings} == {Fraction(1, 10)}
    assert sum(exact(0.1) for _ in range(10)) == 1 != reduce(add, [0.1] * 10)  # Python 3.12 sums floats exactly


def test_ranges() -> None:
    """Epsilon is positive; delta_dp lies strictly between 0 and 1."""
    with pytest.raises(InputError, match="epsilon must be above 0"):
        positive(0)
    for value in (0, 1, 2):
        with pytest.raises(InputError, match="delta_dp"):
            probability(value)
    assert probability("1e-6") == Fraction(1, 10**6)


@pytest.mark.parametrize("spent", [Fraction(3, 10), Fraction(1, 3), Fraction(2, 3), Fraction(10**17 + 1, 10**17)])
def test_a_shown_amount_never_reads_as_less(spent: Fraction) -> None:
    """Its decimals are the amount, or the next float above: a third is not printed as .3333333333333333."""
    assert Fraction(repr(shown(spent))) >= spent
    assert float(spent) <= shown(spent) <= math.nextafter(float(spent), math.inf)
    assert shown(Fraction("0.3")) == 0.3
