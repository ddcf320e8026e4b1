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
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from models.dp.budget import Charge, positive, probability
from models.dp.counts import DIGITS, NoisyCounts
from models.dp.noise import Source, checked_scale
from models.errors import InputError
from models.eventlog import Ints

Kind = Literal["pure", "zcdp"]

CONVERSION_DELTA = Fraction(1, 1_000_000)
"""What the conversion to (epsilon, delta) spends of delta where nothing else is declared."""

STEPS = 10**12
"""An epsilon of a conversion is rounded up to so many parts of 1: never below the true one."""

MAX_SCALE = 50_000.0
"""A wider noise has a threshold above `models.dp.strict.MAX_THRESHOLD` for every delta_dp below .02: it is refused
before its tail is added up."""

_SLACK = Decimal(10) ** -40
"""More than all rounding of `DIGITS` digits adds up to."""

_NEAR = Decimal(10) ** -9
"""A tail is rounded up by so much of itself: far above all rounding of `DIGITS` digits."""

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
"""Rounded down."""

_MOST_TERMS = 1_000_000


@dataclass(frozen=True, slots=True)
class Accounting:
    """How a process adds its charges up. `pure`: epsilon and delta; `zcdp`: rho and the delta of thresholds, shown as
    (epsilon, delta) at `conversion_delta`, a public constant."""

    kind: Kind = "pure"
    conversion_delta: Fraction = CONVERSION_DELTA

    def loss(self, composed: Charge) -> Charge:
        """The (epsilon, delta) that charges are together, `composed` being their sum. It grows with every charge."""
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
    """An epsilon such that rho-zCDP is (epsilon, delta)-DP, rounded up. Whatever order the search finds, the bound that
    it gives is one; only how near it is to the best depends on floating point."""
    if rho < 0 or not 0 < delta < 1:
        raise InputError("a conversion needs rho >= 0 and 0 < delta < 1")
    if rho == 0:
        return Fraction(0)
    order = Fraction(_best_order(float(rho), math.log(delta.denominator) - math.log(delta.numerator)))
    with decimal.localcontext() as context:
        context.prec = DIGITS
        a = _decimal(order)
        beyond = (-_decimal(delta).ln() - a.ln()) / (a - 1)
        bound = a * _decimal(rho) + (1 - 1 / a).ln() + beyond + _SLACK * (1 + 1 / (a - 1)) * (1 + a)
    return max(Fraction(math.ceil(Fraction(bound) * STEPS), STEPS), Fraction(0))


def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, rounded down, whose `epsilon_of` at delta is at most `epsilon`."""
    if epsilon <= 0:
        raise InputError("rho_for needs epsilon > 0")
    low, high = Fraction(0), epsilon  # rho-zCDP is never (rho, delta)-DP: half a mean of the privacy loss is rho
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(60):
        middle = _grid((low + high) / 2)
        if epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _grid(value: Fraction) -> Fraction:
    """The number with 30 significant binary digits, rounded down: short enough to be written into a configuration."""
    shift = 30 - math.frexp(float(value))[1]
    scaled = value * Fraction(2) ** shift
    return Fraction(scaled.numerator // scaled.denominator) / Fraction(2) ** shift


def _best_order(rho: float, toll: float) -> float:
    """An order above 1 near the best one, by golden section over ln(a - 1). `toll`: ln(1 / delta)."""

    def bound(at: float) -> float:
        a = 1.0 + math.exp(at)
        return a * rho + math.log1p(-1.0 / a) + (toll - math.log(a)) / (a - 1.0)

    middle = math.log(math.sqrt(toll / rho)) if toll > 0 else 0.0
    low, high, ratio = middle - 5.0, middle + 5.0, (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return 1.0 + math.exp(min(max((low + high) / 2.0, -30.0), 60.0))


def scale_of(rho: Fraction, sensitivity: int = 1) -> float:
    """The least float s with sensitivity^2 / (2 s^2) <= rho, exactly: the noise is never smaller than asked for."""
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
    """The terms of a thresholded histogram with discrete Gaussian noise: delta_dp-approximately rho-zCDP for a person
    with at most `cases_per_person` cases."""

    rho: Fraction
    delta_dp: Fraction
    cases_per_person: int = 1

    @property
    def scale(self) -> float:
        """Of the noise: all cases of a person may be of one variant, so they change counts by their number in L2."""
        return scale_of(self.rho, self.cases_per_person)

    @property
    def threshold(self) -> int:
        """The least noisy count that is released."""
        return threshold(self.scale, self.delta_dp, self.cases_per_person)

    def counts(self, counts: Ints, draw: Source) -> NoisyCounts:
        """Noisy counts of the variants that occur (`counts`: int64[V], true ones) and reach the threshold."""
        least = self.threshold
        present = np.flatnonzero(counts > 0)
        noisy = counts[present] + draw.gaussian(self.scale, len(present))
        above = noisy >= least
        return NoisyCounts(present[above], noisy[above], least)


@lru_cache(maxsize=256)
def threshold(scale: float, delta: Fraction, cases_per_person: int = 1) -> int:
    """Least noisy count T that is released: what one person's c cases can do to variants that nobody else has.

    These cases fill j new variants. P[N >= T - x] is convex in the cases x of one of them while T >= x, so the worst
    division is one variant or c of them: max(P[N >= T - c], c P[N >= T - 1]) <= delta. That of k < c of them is at most
    k / c of it (x -> P[N >= T - x] / x is quasi-convex), which series of disjoint cases rest on.
    """
    if not 0 < delta < 1 or cases_per_person < 1:
        raise InputError("the threshold needs 0 < delta_dp < 1 and cases_per_person >= 1")
    c, allowed = cases_per_person, _decimal(delta)

    def holds(least: int) -> bool:
        return max(tail(scale, least - c), c * tail(scale, least - 1)) <= allowed

    # The continuous distribution is near: the search looks at a few whole numbers around its quantile.
    toll = 2.0 * (math.log(delta.denominator) - math.log(delta.numerator) + math.log(c))
    least = c + max(0, math.floor(scale * math.sqrt(max(toll - math.log(max(toll, 1.0)) - 1.8, 0.0))))
    step = max(1, math.ceil(scale / 50.0))
    while not holds(least):
        least += step
    while least > c and holds(max(least - step, c)):
        least = max(least - step, c)
    low = max(least - step, c - 1)  # what is below c is not asked: x of a division stays below T
    while least - low > 1:
        middle = (low + least) // 2
        low, least = (low, middle) if holds(middle) else (middle, least)
    return least


@lru_cache(maxsize=4096)
def tail(scale: float, least: int) -> Decimal:
    """P[N >= least] of the discrete Gaussian, rounded up by less than 10^-8 of itself, for least >= 0."""
    if least < 0:
        raise InputError("a tail begins at 0 or above")
    with decimal.localcontext() as context:
        context.prec = DIGITS
        width = 2 * _decimal(Fraction(scale)) ** 2
        # The mass is the root of pi width, times 1 + 2 e^(-pi^2 width) + ... (Poisson): all of it above scale 2.
        mass = (_PI * width).sqrt() if scale > 2 else 2 * _from(width, 0, upward=False) - 1
        return _from(width, least, upward=True) / mass * (1 + _NEAR)


def _from(width: Decimal, least: int, *, upward: bool) -> Decimal:
    """Sum of exp(-z^2 / width) over z >= least, from above or from below, within `_NEAR` of itself."""
    term, step = (-(Decimal(least) ** 2) / width).exp(), (-1 / width).exp()
    ratio, square = step ** (2 * least + 1), step * step
    total = term
    for _ in range(_MOST_TERMS):
        term *= ratio
        ratio *= square
        total += term
        # Ratios fall, so what is left is below a geometric series of the next one.
        if term * ratio < (1 - ratio) * total * _NEAR:
            return total + term * ratio / (1 - ratio) if upward else total
    raise InputError("rho is too small: the tail of its noise is too long to be added up; raise it")


def checked(rho: Any, delta_dp: Any, cases_per_person: int) -> Gaussian:
    """Terms that can be kept; InputError names the number that cannot."""
    found = Gaussian(positive(rho, "rho"), probability(delta_dp), cases_per_person)
    if found.scale > MAX_SCALE:
        raise InputError("rho is too small: no variant of a log would be released; raise it")
    return found


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
