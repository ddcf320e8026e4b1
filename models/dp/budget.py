"""Exact numbers for a privacy budget: what may be charged, and what is not a number to charge.

Sequential composition (Dwork and Roth 2014, theorem 3.16): releases of overlapping data that are (e_i, d_i)-DP are
together (sum e_i, sum d_i)-DP, and so is a process with several publications; of disjoint data, (max e_i, max d_i)
(`parallel`). Sums are of fractions: a float sum of ten
times 0.1 is below 1, and a ledger must not be. The ledger and the refusal to pass a limit: stream.release.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal

from models.errors import InputError

LONGEST = 400
"""Characters of a number, and digits before or after its point: read at once, and more than any number needs."""

LARGEST = 10**300
"""Above it a number could not be shown as a float."""


def exact(value: Any, name: str = "epsilon") -> Fraction:
    """Return the number exactly as written: `0.1` is a tenth.

    Parameters
    ----------
    value
        A number, or its text: `0.1`, `"1/3"`. A float is the decimal that Python writes for it.
    name
        Name of the setting, for messages.

    Raises
    ------
    InputError
        If the number is NaN, infinite, negative, subnormal or a boolean.
    """
    if hasattr(value, "item"):
        value = value.item()  # a number of numpy
    if isinstance(value, float) and math.isfinite(value) and 0.0 < abs(value) < sys.float_info.min:
        raise InputError(f"{name} is a subnormal number: too small to mean anything")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction, Decimal)):
        raise InputError(f"{name} must be a number")
    if isinstance(value, (str, Decimal)) and _extreme(value):
        raise InputError(f"{name} is too large or too small to mean anything")
    try:
        number = Fraction(repr(value) if isinstance(value, float) else value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"{name} must be a finite number") from None
    if number < 0 or 0 < number < Fraction(sys.float_info.min):
        raise InputError(f"{name} must not be negative or subnormal")
    if number > LARGEST:
        raise InputError(f"{name} is too large or too small to mean anything")
    return number


def shown(spent: Fraction) -> float:
    """Return the float that represents an exact amount in a document.

    It is the nearest float, or the next one above if its decimals would read as less: 3/10 is 0.3, 1/3 is
    0.33333333333333337.

    Parameters
    ----------
    spent
        The amount.
    """
    nearest = float(spent)
    return nearest if Fraction(repr(nearest)) >= spent else math.nextafter(nearest, math.inf)


def format_amount(amount: Fraction | float, digits: int | None = None) -> str:
    """Format an amount for a sentence, never less than it is.

    Parameters
    ----------
    amount
        Epsilon, delta or rho.
    digits
        Significant digits, at most 6, to which it is rounded up. None: as `shown` writes it.
    """
    exactly = repr(shown(amount) if isinstance(amount, Fraction) else float(amount))
    if digits is None:
        return exactly.removesuffix(".0")
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exactly)):g}"


def as_decimal(value: Fraction) -> Decimal:
    """Return a fraction in the precision of the current decimal context.

    Parameters
    ----------
    value
        The fraction.
    """
    return Decimal(value.numerator) / Decimal(value.denominator)


def _extreme(value: str | Decimal) -> bool:
    """Return whether a number is long or has a large power of ten: 1e999999999 has a gigabyte of digits."""
    if isinstance(value, str) and len(value) > LONGEST:
        return True
    try:
        number = Decimal(value)
    except InvalidOperation:  # "1/3", or no number at all
        return False
    return number.is_finite() and abs(number.adjusted()) > LONGEST


def positive(value: Any, name: str = "epsilon") -> Fraction:
    """Read a number by `exact`; it must be above zero.

    Parameters
    ----------
    value
        The number as it is written.
    name
        Name of the setting, for messages.

    Raises
    ------
    InputError
        If it is no number, or not above 0.
    """
    number = exact(value, name)
    if number == 0:
        raise InputError(f"{name} must be above 0")
    return number


def probability(value: Any) -> Fraction:
    """Read a number by `exact`; it must be strictly between 0 and 1.

    Parameters
    ----------
    value
        The number as it is written: a delta_dp.

    Raises
    ------
    InputError
        If it is no number, or not between 0 and 1.
    """
    number = positive(value, "delta_dp")
    if number >= 1:
        raise InputError("delta_dp must be strictly between 0 and 1")
    return number


@dataclass(frozen=True, slots=True)
class Charge:
    """Privacy budget of one release: exact numbers, composed by addition.

    Attributes
    ----------
    epsilon
        0 under zCDP.
    delta
        Under zCDP, that of thresholds alone.
    rho
        Parameter of zCDP (models.dp.zcdp); 0 without it.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def __add__(self, other: Charge) -> Charge:
        """Return both charges together (sequential composition)."""
        return Charge(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)

    def __sub__(self, other: Charge) -> Charge:
        """Return what is left of this charge without the other one."""
        return Charge(self.epsilon - other.epsilon, self.delta - other.delta, self.rho - other.rho)

    def times(self, number: int) -> Charge:
        """Return `number` times the charge.

        Parameters
        ----------
        number
            Releases with this charge.
        """
        return Charge(number * self.epsilon, number * self.delta, number * self.rho)


@dataclass(frozen=True, slots=True)
class Draw:
    """Noise that a release draws, as far as its privacy loss depends on it.

    `laplace`: discrete Laplace noise on counts. `truncated`: that noise cut off, redrawn beyond its reach
    (models.dp.truncated). `gaussian`: discrete Gaussian noise on counts. `pure`: any stage that is
    (sensitivity / scale, 0)-DP, such as many draws of which the data decides the number.

    Attributes
    ----------
    scale
        Scale of the noise, exactly that of the draw.
    sensitivity
        The most that one person changes the noised numbers: in L1, for `gaussian` in L2.
    delta
        Chance with which the draw shows more than its scale says: of a threshold, or of the end of truncated noise.
    times
        How often a release draws it, each time on other numbers that the same person may change so.
    """

    kind: Literal["laplace", "truncated", "gaussian", "pure"]
    scale: Fraction
    sensitivity: Fraction
    delta: Fraction = Fraction(0)
    times: int = 1

    def __post_init__(self) -> None:
        """Check the numbers; InputError if noise cannot have them."""
        if self.scale <= 0 or self.sensitivity <= 0 or not 0 <= self.delta < 1 or self.times < 1:
            raise InputError("a draw needs scale > 0, sensitivity > 0, 0 <= delta < 1 and times >= 1")

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of one draw but for the chance `delta`. Gaussian noise has none: it is a ratio then."""
        return self.sensitivity / self.scale


def covers(paid: Sequence[Draw], needed: Sequence[Draw]) -> bool:
    """Return whether a charge for the draws `paid` pays for those of `needed`, one by one.

    Without draws a charge pays for all that is (epsilon, delta)-DP.

    Parameters
    ----------
    paid, needed
        Draws of two releases, in the same order.
    """
    if not paid:
        return True
    if len(paid) != len(needed):
        return False
    return all(_covers(*pair) for pair in zip(paid, needed, strict=True))


def _covers(paid: Draw, needed: Draw) -> bool:
    """Return whether the needed noise is wider. Privacy loss of Gaussian noise depends on the scale too."""
    if (paid.kind == "gaussian") != (needed.kind == "gaussian"):
        return False
    if needed.kind == "gaussian" and needed.scale < paid.scale:
        return False
    return needed.epsilon <= paid.epsilon and needed.delta <= paid.delta and needed.times <= paid.times


def parallel(charges: Iterable[Charge]) -> Charge:
    """Return what releases of disjoint data cost together: the largest epsilon, delta and rho.

    No person is in two of them, so no person pays twice.

    Parameters
    ----------
    charges
        The charge of each release.

    References
    ----------
    McSherry 2009, theorem 4.
    """
    all_charges = list(charges)
    return Charge(
        max((charge.epsilon for charge in all_charges), default=Fraction(0)),
        max((charge.delta for charge in all_charges), default=Fraction(0)),
        max((charge.rho for charge in all_charges), default=Fraction(0)),
    )
