"""Truncated geometric noise: the selection that lets the most through.

Source: Desfontaines, Voss, Gipson and Mandayam 2020, arXiv 2006.03684, "Differentially private partition selection".

The noise Z is on -k .. k, with P(z) proportional to a^|z| and a = e^(-1/scale). A count n >= 1 leaves as n + Z if that
is above k; a count of 0 never leaves.

Take two logs that differ in one case, with the counts n and n + 1. The chances of each output are within the factor
1 / a of each other, except for the largest output of n + 1 (and, above 2 k, the least output of n). Its chance is
P(k) = (1 - a) a^k / (1 + a - 2 a^(k+1)). So k is the least number with P(k) <= delta (`reach`), and no
(1/scale, delta)-DP rule keeps any count more often (theorem 1 there).

If the noise has no end, its whole tail must stay below delta. The tail is about `scale` times as large, so thresholds
are higher by scale * ln(scale): 133 and not 110 at epsilon .1 and delta 1e-6, and the same at epsilon 1.

A person with c cases changes a count by c in c steps, each of which costs 1/scale. This costs
delta (1 + 1/a + ... + a^(1-c)) in all, and q times that over q counts.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from models.dp.noise import NoiseSource
from models.errors import InputError
from models.eventlog import Ints

DIGITS = 60
"""Precision of the arithmetic; a value within 10^-40 of a bound counts as above it."""

_SLACK = Decimal("1e-40")

LEAST_KEPT = 0.05
"""A reach far below the scale keeps less than this of the draws: they would take long, and noise without an end is used
instead."""


@lru_cache(maxsize=256)
def reach(scale: float, delta: Fraction, cases: int = 1) -> int:
    """Return the least k, exactly for that float scale.

    Parameters
    ----------
    cases : int
        By how much a person may change all counts together.
    """
    if not 0 < delta < 1 or cases < 1:
        raise InputError("a reach needs 0 < delta_dp < 1, and at least one case")
    with decimal.localcontext() as context:
        context.prec = DIGITS
        exact = Fraction(scale)
        step = Decimal(exact.denominator) / Decimal(exact.numerator)
        a = (-step).exp()
        steps = ((step * cases).exp() - 1) / (step.exp() - 1)
        each = Decimal(delta.numerator) / Decimal(delta.denominator) / steps * (1 - _SLACK)
        power = each * (1 + a) / (1 - a + 2 * each * a)  # P(k) <= d is a^k (1 - a + 2 d a) <= d (1 + a)
        return int((-power.ln() / step).to_integral_value(decimal.ROUND_CEILING))


def kept(scale: float, least: int) -> float:
    """Return the share of untruncated draws that are within -least .. least.

    Parameters
    ----------
    scale
        Scale of the untruncated discrete Laplace noise.
    least
        Largest absolute value of a draw.
    """
    step = -1.0 / scale
    a = math.exp(step)
    return (-math.expm1(step * (least + 1)) - a * math.expm1(step * least)) / (1.0 + a)


def draw(source: NoiseSource, scale: float, least: int, size: int) -> Ints:
    """Draw discrete Laplace noise on -least .. least, int64[size].

    The draws are exact; those beyond are drawn again: 1 / `kept` draws for each value, so a rule keeps at
    least `LEAST_KEPT` of them.

    Parameters
    ----------
    source
        Source of the noise.
    scale
        Scale of the untruncated noise.
    least
        Largest absolute value of a draw.
    size
        Number of draws.
    """
    noise = source.laplace(scale, size)
    while len(beyond := np.flatnonzero(np.abs(noise) > least)):
        noise[beyond] = source.laplace(scale, len(beyond))
    return noise
