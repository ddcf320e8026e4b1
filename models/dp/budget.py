"""Privacy budget as exact numbers: what may be spent, what was, and the refusal to pass the limit.

Sequential composition (Dwork and Roth 2014, theorem 3.16): releases of overlapping data that are (e_i, d_i)-DP are
together (sum e_i, sum d_i)-DP, and so is a process with several publications. All arithmetic is on fractions: a float
sum of ten times 0.1 is below 1, and a ledger must not be.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

from models.errors import BoundError, InputError


def exact(value: Any, name: str = "epsilon") -> Fraction:
    """The number as written, exactly: `0.1` is a tenth. InputError for NaN, infinity, negative, subnormal, boolean."""
    if isinstance(value, float) and math.isfinite(value) and 0.0 < abs(value) < sys.float_info.min:
        raise InputError(f"{name} is a subnormal number: too small to mean anything")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction, Decimal)):
        raise InputError(f"{name} must be a number")
    try:
        number = Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"{name} must be a finite number") from None
    if number < 0 or 0 < number < Fraction(sys.float_info.min):
        raise InputError(f"{name} must not be negative or subnormal")
    return number


def positive(value: Any, name: str = "epsilon") -> Fraction:
    """`exact`, and above zero."""
    number = exact(value, name)
    if number == 0:
        raise InputError(f"{name} must be above 0")
    return number


def probability(value: Any, name: str = "delta_dp") -> Fraction:
    """`exact`, strictly between 0 and 1."""
    number = positive(value, name)
    if number >= 1:
        raise InputError(f"{name} must lie strictly between 0 and 1")
    return number


def charge(spent: Any, asked: Any, limit: Any, name: str = "epsilon") -> Fraction:
    """What is spent after a charge; BoundError (with spent, asked, limit) where that would pass the limit.

    Fail-closed: numbers that are not finite and non-negative raise InputError, and nothing is charged.
    """
    before, more, bound = exact(spent, f"spent {name}"), exact(asked, f"asked {name}"), exact(limit, f"limit of {name}")
    if before + more > bound:
        raise BoundError(
            f"budget of {name} exhausted: spent {_show(before)}, asked {_show(more)}, limit {_show(bound)}"
        )
    return before + more


def releases_left(spent: Any, each: Any, limit: Any) -> int:
    """How many more releases of the same price the limit allows."""
    room = exact(limit, "limit") - exact(spent, "spent")
    return max(0, int(room // positive(each)))


def _show(number: Fraction) -> str:
    return str(number) if len(str(number)) <= 12 else f"{float(number):.6g}"
