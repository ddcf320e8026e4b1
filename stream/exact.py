"""Exact numbers in a configuration: `epsilon = 0.1` means one tenth, not the double nearest to it."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer


def exact(value: Any) -> Fraction:
    """The decimal as written. ValueError for NaN, infinities, negative and subnormal numbers."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    if isinstance(value, float) and (not math.isfinite(value) or 0 < value < sys.float_info.min):
        raise ValueError("must be a finite, not subnormal number")
    try:
        number = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError("must be a number") from None
    if number < 0:
        raise ValueError("must not be negative")
    return number


Exact = Annotated[Fraction, BeforeValidator(exact), PlainSerializer(float, return_type=float, when_used="json")]
"""A non-negative exact number; JSON shows it as a float."""
