"""Budget: exact sums, and a refusal that says spent, asked and limit."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import charge, exact, positive, probability, releases_left
from models.errors import BoundError, InputError


def test_ten_tenths_are_one() -> None:
    """Ten charges of 0.1 fit a limit of 1 exactly, and the eleventh does not."""
    spent: Any = 0
    for _ in range(10):
        spent = charge(spent, 0.1, 1)
    assert spent == 1
    with pytest.raises(BoundError, match="spent 1, asked 1/10, limit 1"):
        charge(spent, 0.1, 1)


def test_a_hair_above_the_limit_is_above() -> None:
    """No tolerance: one part in 10^30 too much is refused."""
    with pytest.raises(BoundError):
        charge("0.9", Fraction(1, 10) + Fraction(1, 10**30), 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -0.1, 5e-324, "nan", "inf", "x", None, True, "1/0"])
def test_numbers_that_are_none(bad: Any) -> None:
    """NaN, infinities, negatives, subnormals and non-numbers are refused wherever they stand."""
    for place in range(3):
        arguments: list[Any] = [0, 0, 1]
        arguments[place] = bad
        with pytest.raises(InputError):
            charge(*arguments)


def test_exactness_of_spellings() -> None:
    """0.1 means a tenth, however it is written."""
    assert {exact(value) for value in (0.1, "0.1", "1/10", Decimal("0.1"), Fraction(1, 10))} == {Fraction(1, 10)}


def test_ranges() -> None:
    """Epsilon is positive; delta_dp lies strictly between 0 and 1."""
    with pytest.raises(InputError, match="epsilon must be above 0"):
        positive(0)
    for value in (0, 1, 2):
        with pytest.raises(InputError, match="delta_dp"):
            probability(value)
    assert probability("1e-6") == Fraction(1, 10**6)


def test_releases_left() -> None:
    """The number of further releases is exact where floats would lose one."""
    assert releases_left(0, 0.1, 0.3) == 3
    assert releases_left("0.25", 0.1, 0.3) == 0
    assert releases_left(2, 1, 1) == 0
