"""No sentence says less than is spent: numbers of promises are rounded up."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import Charge, format_amount
from stream.release.mechanisms import mechanism
from stream.release.mechanisms.dp_variants import strict_promise

THIRD = Fraction(1, 3)
AMOUNTS = [
    THIRD,
    Fraction(2, 3),
    Fraction(1, 7),
    Fraction("1.23456749"),
    Fraction(10**7 + 1, 3),
    Fraction(1, 3 * 10**9),
]


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("digits", [None, 3, 6])
def test_a_printed_amount_is_never_less(amount: Fraction, digits: int | None) -> None:
    """And not more than the last digit above."""
    said = Fraction(format_amount(amount, digits))
    assert amount <= said <= amount * (1 + Fraction(10) ** (1 - (digits or 16)))


@pytest.mark.parametrize(
    ("amount", "digits", "text"),
    [
        (Fraction(1), None, "1"), (Fraction(3, 10), None, "0.3"), (Fraction(1, 10**6), None, "1e-06"),
        (Fraction(1), 6, "1"), (0.3, 6, "0.3"), (1e-06, 6, "1e-06"), (2.7182818, 3, "2.72"), (2.711, 3, "2.72"),
    ],
)  # fmt: skip
def test_numbers_with_few_digits_stay_as_they_are_written(
    amount: Fraction | float, digits: int | None, text: str
) -> None:
    """A tenth is 0.1."""
    assert format_amount(amount, digits) == text


@pytest.mark.parametrize(
    "charge", [Charge(rho=THIRD, delta=Fraction(1, 30)), Charge(THIRD, Fraction(1, 30))], ids=["rho", "epsilon"]
)
def test_a_promise_is_not_better_than_its_charge(charge: Charge) -> None:
    """Every number of the formula that is near a third or a thirtieth is not below it."""
    sentence = strict_promise(charge, 1, "what leaves")["guaranteed"]
    numbers = [Fraction(text) for text in re.findall(r"0\.\d+(?:e-?\d+)?", sentence)]
    assert len(numbers) == (4 if charge.rho else 2)
    assert {min((THIRD, Fraction(1, 30)), key=lambda true: abs(true - one)) <= one for one in numbers} == {True}


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "dp-variants", "rho": "1/3", "delta_dp": "1/30"},
        {"kind": "dp-variants", "epsilon": "1/3", "delta_dp": "1/30"},
        {"kind": "dp-synthetic", "epsilon": "1/3", "delta_dp": "1/30", "activities": ["a"]},
    ],
    ids=["rho", "epsilon", "synthetic"],
)
def test_mechanisms_promise_what_they_charge(asked: dict[str, Any]) -> None:
    """By the configuration's own fractions."""
    sentence = str(mechanism(asked).promise()["guaranteed"])
    assert "0.33333333333333337" in sentence
    assert re.search(r"0\.033333333333333\d+", sentence)
    assert Fraction(re.findall(r"0\.0333\d+", sentence)[0]) >= Fraction(1, 30)
