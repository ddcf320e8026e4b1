"""Exact numbers in a configuration: `epsilon = 0.1` means one tenth, not the double nearest to it."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from models.dp import budget
from models.errors import InputError


def exact(value: Any) -> Fraction:
    """Return the exact number that a configuration contains.

    Raises
    ------
    ValueError
        For NaN, infinities, negative and subnormal numbers.
    """
    try:
        return budget.exact(value, "the number")
    except InputError as error:
        raise ValueError(str(error)) from None


Exact = Annotated[Fraction, BeforeValidator(exact), PlainSerializer(float, return_type=float, when_used="json")]
"""A non-negative exact number; JSON shows it as a float."""
