"""Budgets that keep every TPL of a series at or under a bound alpha.

Beyond the paper, after its reference [2]: with constant budgets BPL and FPL tend to the fixed points
aB = AL_B(aB) + e and aF = AL_F(aF) + e, and TPL to aB + aF - e. Solved for TPL = alpha:

* horizon unknown: e in every release;
* horizon T known: aB first, e between, aF last: TPL_i = alpha at every i.

If a step is extreme (always so on prefix automata of useful depth) the only fixed point is e = 0: only a finite
total works, alpha / T or a geometric series. Budgets are exact fractions. They are held to the bound in fractions, with
AL never below its true value, and lowered until they keep it.
All e are under replacement of a case's state (see `accumulation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from models.dp.budget import positive
from models.errors import InputError
from models.leakage.steps import LeakageStep

BITS = 48
"""Budgets are cut to this many significant bits: it keeps the numbers in the ledger short. Other values keep the bound
as well."""

LEAST_STEP = Fraction(1, 2**47)
"""By how much of alpha the roots are lowered first; doubled until the budgets keep the bound. Larger: budget is given
away; smaller: some more attempts."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Budgets that keep a bound on TPL. Zero: none is possible.

    Attributes
    ----------
    alpha
        The bound on TPL, in nats.
    first, last
        Budget of the first and of the last release.
    constant
        Budget of each release between, or of every one if the number of releases is unknown.
    """

    alpha: Fraction
    first: Fraction
    constant: Fraction
    last: Fraction

    def series(self, T: int) -> list[Fraction]:
        """Return budgets of T releases; in the extreme case alpha / T each.

        Parameters
        ----------
        T
            Number of releases.

        Raises
        ------
        InputError
            If it is below 1.
        """
        if T < 1:
            raise InputError(f"T = {T}: a series has at least 1 release")
        if self.constant <= 0 or T == 1:
            return [self.alpha / T] * T
        return [self.first, *([self.constant] * (T - 2)), self.last]


def allocate(backward: LeakageStep, forward: LeakageStep, alpha: Fraction) -> Allocation:
    """Allocate a bound on TPL to the releases of an endless series over a chain that does not change.

    It solves aB - AL_B(aB) = aF - AL_F(aF) = e, aB + aF - e = alpha, and rounds towards safety.

    Parameters
    ----------
    backward, forward
        AL_B and AL_F of each step.
    alpha
        Bound on TPL, in nats.

    Raises
    ------
    InputError
        If alpha is not above 0.
    """
    positive(alpha, "alpha")
    if backward.extreme or forward.extreme:
        return Allocation(alpha, Fraction(0), Fraction(0), Fraction(0))
    bound = float(alpha)

    def gap(a: float) -> float:
        other = bound - float(backward(a))
        return other - float(forward(other)) - (a - float(backward(a)))

    first = _root(gap, bound)
    last, lower = bound - float(backward(first)), alpha * LEAST_STEP
    while lower < alpha:
        kept = _kept(backward, forward, alpha, _down(first, lower), _down(last, lower))
        if kept is not None:
            return kept
        lower *= 2
    return Allocation(alpha, Fraction(0), Fraction(0), Fraction(0))


def _kept(
    backward: LeakageStep, forward: LeakageStep, alpha: Fraction, first: Fraction, last: Fraction
) -> Allocation | None:
    """Return the allocation with these ends, or None if it does not keep the bound for every T.

    With aB = first, aF = last and e no more than aB - AL_B(aB) and aF - AL_F(aF), every BPL_i is at most aB and every
    FPL_i at most aF (AL never falls), so TPL_i <= aB + aF - e between, and less at the ends.
    """
    constant = _down(min(first - backward.above(first), last - forward.above(last)))
    if constant <= 0 or first + last - constant > alpha:
        return None
    return Allocation(alpha, first, constant, last)


def _root(gap: Callable[[float], float], bound: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(gap, 0.0, bound, xtol=5e-324, rtol=8.9e-16, maxiter=500))


def _down(value: Fraction | float, lower: Fraction = Fraction(0)) -> Fraction:
    """`value` less `lower`, cut to BITS significant bits, towards zero; nothing negative."""
    exact = Fraction(value) - lower
    if exact <= 0:
        return Fraction(0)
    scale = Fraction(2) ** (BITS - (exact.numerator.bit_length() - exact.denominator.bit_length()))
    return Fraction(int(exact * scale)) / scale


def geometric(total: Fraction, ratio: Fraction, i: int) -> Fraction:
    """Return total (1 - r) r^(i-1), the budget of a release of an endless series that spends `total` at most.

    Parameters
    ----------
    total
        Epsilon of all releases together.
    ratio
        r, between 0 and 1.
    i
        Number of the release, from 1.

    Raises
    ------
    InputError
        If the ratio or the number is out of range.
    """
    if not 0 < ratio < 1:
        raise InputError(f"ratio = {ratio} of a geometric series is not between 0 and 1")
    if i < 1:
        raise InputError(f"release {i}: releases are numbered from 1")
    return total * (1 - ratio) * ratio ** (i - 1)
