"""Zero-concentrated differential privacy: rho of many releases, exactly added, and the (epsilon, delta) that it is.

Bun and Steinke (2016, arXiv 1605.02065): M is d-approximately rho-zCDP if for all neighbours there are events, each of
probability at least 1 - d, given which the Renyi divergence of order a is at most a rho, for all a > 1. Releases of
overlapping data add up: (sum rho_i, sum d_i) (lemmas 2.3 and 8.2; adaptively too). That is tighter than adding epsilon:
n releases cost sqrt(n) times the noise of one instead of n times.

Canonne, Kamath and Steinke (2020, arXiv 2004.00010): discrete Gaussian noise of scale s on counts that one person
changes by at most c in L2 is c^2 / (2 s^2)-zCDP (theorem 4), and rho-zCDP is (epsilon, e)-DP for every a > 1 with
epsilon = a rho + ln(1 - 1/a) + (ln(1/e) - ln a) / (a - 1) (proposition 12). Given the events of above, the release is
(epsilon, d + e)-DP.

`Gaussian`: the thresholded histogram of `models.dp.counts` with that noise. A variant that only one of two neighbours
has is released with a chance of at most delta_dp (the d of above): that it is not, is the event.
"""

from __future__ import annotations

import decimal
import itertools
import math
import sys
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from models.dp.budget import Charge, as_decimal, positive, probability
from models.dp.counts import NoisyCounts
from models.dp.noise import NoiseSource, checked_scale
from models.dp.truncated import DIGITS
from models.errors import InputError
from models.eventlog import Ints

Kind = Literal["pure", "zcdp"]

CONVERSION_DELTA = Fraction(1, 1_000_000)
"""Delta of the conversion to (epsilon, delta) if none is declared."""

STEPS = 10**12
"""An epsilon of a conversion is rounded up to so many parts of 1: never below the true one."""

PARTS = 1 << 30
"""Of epsilon: a rho that an epsilon allows is rounded down to so many parts of it, and never more than all of it."""

MAX_SCALE = 50_000.0
"""A wider noise has a threshold above `models.dp.strict.MAX_THRESHOLD` for every delta_dp below .02: it is refused."""

FINEST = 1e-9
"""Orders of a conversion differ by so much, and none is nearer to 1."""

_SLACK = Decimal("1e-40")
"""More than all rounding of `DIGITS` digits adds up to."""

_NEAR = 1e-9
"""By so much the logarithm of a tail is rounded up: a thousand times what floats and what is left out add up to."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """The way in which a process adds its charges up.

    Attributes
    ----------
    pure
        epsilon and delta.
    zcdp
        rho and the delta of thresholds, shown as (epsilon, delta) at `conversion_delta`, a public constant.
    """

    kind: Kind = "pure"
    conversion_delta: Fraction = CONVERSION_DELTA

    def loss(self, composed: Charge) -> Charge:
        """Return the (epsilon, delta) of all charges, `composed` being their sum. It grows with every charge.

        Parameters
        ----------
        composed
            Sum of the charges of a publication.
        """
        if self.kind == "pure":
            return composed
        if not composed.rho and not composed.delta:
            return Charge()
        return Charge(
            epsilon_of(composed.rho, self.conversion_delta), min(composed.delta + self.conversion_delta, Fraction(1))
        )


PURE = Accounting()


@lru_cache(maxsize=4096)
def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon such that rho-zCDP is (epsilon, delta)-DP, rounded up.

    Each order gives a valid bound. Floating point only decides how near the bound is to the best one.

    Parameters
    ----------
    rho
        Parameter of zCDP, at least 0.
    delta
        Probability with which the promise may fail, between 0 and 1.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if rho < 0 or not 0 < delta < 1:
        raise InputError("a conversion needs rho >= 0 and 0 < delta < 1")
    if rho == 0:
        return Fraction(0)
    order = Fraction(_best_order(float(rho), -math.log(delta)))
    with decimal.localcontext() as context:
        context.prec = DIGITS
        a = as_decimal(order)
        beyond = (1 - 1 / a).ln() - (as_decimal(delta).ln() + a.ln()) / (a - 1)
        bound = order * rho + Fraction(beyond + _SLACK)
    return max(Fraction(math.ceil(bound * STEPS), STEPS), Fraction(0))


def _best_order(rho: float, toll: float) -> float:
    """Return the order a > 1 at which the derivative of the bound is 0, in parts of `FINEST`.

    It solves rho (a - 1)^2 + ln a = toll, toll = ln(1 / delta).
    """

    def slope(parts: int) -> float:
        above_one = parts * FINEST
        return rho * above_one**2 + math.log1p(above_one)

    return 1.0 + FINEST * bisect_right(range(sys.maxsize), toll, key=slope)


@lru_cache(maxsize=1024)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho, in `PARTS` parts of epsilon, that is (epsilon, delta)-DP by `epsilon_of`.

    It is never above the true one, and 0 if even one part is more.

    Parameters
    ----------
    epsilon, delta
        The promise to keep; epsilon is above 0.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if epsilon <= 0:
        raise InputError("a rho needs epsilon > 0")
    least = Fraction(epsilon, PARTS)
    beyond = bisect_right(range(1, PARTS + 1), epsilon, key=lambda parts: epsilon_of(parts * least, delta))
    return beyond * least


@lru_cache(maxsize=1024)
def scale_of(rho: Fraction, sensitivity: int = 1) -> float:
    """Return the least float s with sensitivity^2 / (2 s^2) <= rho, exactly.

    The noise is never smaller than asked for.

    Parameters
    ----------
    rho
        Parameter of zCDP, above 0.
    sensitivity
        Largest change of the query (L2 norm) between neighbouring logs, a whole number.

    Raises
    ------
    InputError
        If a parameter is out of its range, or the noise does not fit 64 bits.
    """
    if rho <= 0 or sensitivity < 1:
        raise InputError("noise needs rho > 0 and a sensitivity of at least 1")
    square = Fraction(sensitivity**2) / (2 * rho)
    if square > Fraction(2) ** 100:
        raise InputError("rho is too small: its noise does not fit 64 bits; raise it")
    scale = math.sqrt(square)
    while Fraction(scale) ** 2 < square:
        scale = math.nextafter(scale, math.inf)
    return checked_scale(scale, "rho")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The terms of a thresholded histogram with discrete Gaussian noise.

    It is delta_dp-approximately rho-zCDP for a person with at most `cases_per_person` cases.

    Attributes
    ----------
    rho
        Parameter of zCDP, above 0.
    delta_dp
        Probability with which the promise may fail.
    cases_per_person
        Most cases of one person.
    """

    rho: Fraction
    delta_dp: Fraction
    cases_per_person: int = 1

    def __post_init__(self) -> None:
        """Check the terms; InputError names the number that cannot be one."""
        if self.scale > MAX_SCALE:
            raise InputError("rho is too small: no variant of a log would be released; raise it")

    @property
    def scale(self) -> float:
        """Scale of the noise. All cases of a person may be of one variant, so they change counts by their number."""
        return scale_of(self.rho, self.cases_per_person)

    @property
    def threshold(self) -> int:
        """The least noisy count that is released."""
        return threshold(self.scale, self.delta_dp, self.cases_per_person)

    def counts(self, counts: Ints, draw: NoiseSource) -> NoisyCounts:
        """Return noisy counts of the variants that occur, as far as they reach the threshold.

        Parameters
        ----------
        counts
            int64[V], true number of cases of each variant.
        draw
            Source of the noise.
        """
        least = self.threshold
        present = np.flatnonzero(counts > 0)
        noisy = counts[present] + draw.gaussian(self.scale, len(present))
        above = noisy >= least
        return NoisyCounts(present[above], noisy[above], least)


@lru_cache(maxsize=256)
def threshold(scale: float, delta: Fraction, cases_per_person: int = 1) -> int:
    """Return the least noisy count T that is released.

    The c cases of one person may fill j variants that nobody else has. P[N >= T - x] is convex in the cases x of one of
    these variants while T >= x. So the worst division is one variant, or c of them, and T is the least number with
    max(P[N >= T - c], c P[N >= T - 1]) <= delta.

    If only k < c cases of the person count, the chance is at most k / c of delta, since P[N >= T - x] / x is
    quasi-convex in x. Series of disjoint cases rest on this.

    Parameters
    ----------
    scale
        Scale of the discrete Gaussian noise N of each count.
    delta
        Probability with which a variant that only one person has may be released.
    cases_per_person
        c, the most cases of one person.

    Raises
    ------
    InputError
        If delta is not between 0 and 1, or c is below 1.
    """
    if not 0 < delta < 1 or cases_per_person < 1:
        raise InputError("the threshold needs 0 < delta_dp < 1 and cases_per_person >= 1")
    c, allowed = cases_per_person, math.log(delta)
    return max(c + _reached(scale, allowed), 1 + _reached(scale, allowed - math.log(c)))


def _reached(scale: float, allowed: float) -> int:
    """Return the least z >= 0 with ln P[N >= z] <= `allowed`.

    It is above the quantile of the continuous distribution: half of an integer's probability is on each side of
    it.
    """
    quantile = -scale * NormalDist().inv_cdf(min(math.exp(allowed), 0.5))
    return next(z for z in itertools.count(math.floor(quantile)) if tail(scale, z) <= allowed)


@lru_cache(maxsize=4096)
def tail(scale: float, least: int) -> float:
    """Return ln P[N >= least] of the discrete Gaussian, rounded up by less than 10^-8.

    Parameters
    ----------
    scale
        Scale of the noise N, at most `MAX_SCALE` (nine numbers are kept for each 1 of it).
    least
        Begin of the tail, at least 0.

    Raises
    ------
    InputError
        If the tail begins below 0.
    """
    if least < 0:
        raise InputError("a tail begins at 0 or above")
    both = 2.0 * _from(scale, 0) - 1.0
    return _NEAR - least**2 / (2.0 * scale**2) + math.log(_from(scale, least) / both)


def _from(scale: float, least: int) -> float:
    """Sum of P(N = z) / P(N = least) over z >= least; those nine scales further are left out, each below e^-40."""
    beyond = np.arange(math.ceil(9 * scale))
    return float(np.exp(-beyond * (beyond + 2 * least) / (2.0 * scale**2)).sum())


def checked(rho: Any, delta_dp: Any, cases_per_person: int) -> Gaussian:
    """Return terms that can be kept.

    Parameters
    ----------
    rho, delta_dp
        The promise, as numbers are written.
    cases_per_person
        Most cases of one person.

    Raises
    ------
    InputError
        If one of them is out of its range; the message names it.
    """
    return Gaussian(positive(rho, "rho"), probability(delta_dp), cases_per_person)
