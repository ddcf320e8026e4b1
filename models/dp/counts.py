"""Noisy counts of case variants, released above a threshold: (epsilon, delta_dp)-differential privacy.

Unbounded neighbours: logs that differ by all cases of one person, at most `cases_per_person` = c of them. The histogram
of variants then changes by at most c in L1, so discrete Laplace noise of scale c / epsilon on each count that is not 0
makes the counts of variants that both logs have epsilon-DP. A variant that only one log has would give its owner away:
it is released only if its noisy count reaches k + 1, which happens with probability at most delta_dp in all
(Korolova et al. 2009, for the discrete distribution). If noise truncated to a reach lets more through, it is used
(`models.dp.truncated`, Desfontaines et al. 2020: the best that any rule can; `rule`). The query is the one of
temporal-privacy-leakage-2022.

Not guaranteed: anything against linking by activity labels that are themselves identifying: the labels count as
public. Variants below the threshold are missing, so absence from the release reveals nothing.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from models.content_free import content_free
from models.dp import truncated
from models.dp.budget import Draw, as_decimal
from models.dp.noise import NoiseSource, scale_for
from models.dp.truncated import DIGITS
from models.errors import InputError
from models.eventlog import Ints


@content_free("threshold")
@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """Noisy counts of the released variants.

    Attributes
    ----------
    variants
        int64[R], indices of the variants.
    counts
        int64[R], noisy counts, each at least the threshold.
    threshold
        Least noisy count that leaves.
    """

    variants: Ints
    counts: Ints
    threshold: int


@lru_cache(maxsize=256)
def threshold(epsilon: Fraction, delta: Fraction, cases_per_person: int = 1) -> int:
    """Return the least noisy count that is released, k + 1.

    For c = 1, k is the smallest integer with e^(-epsilon k) / (1 + e^-epsilon) <= delta. This is the exact tail of the
    discrete Laplace distribution; the continuous 1 + ln(1 / (2 delta)) / epsilon is too low.

    For c > 1, a person's c cases may fill one new variant, or c of them. These are the two worst divisions, since the
    tail is convex. With a = e^(-epsilon / c), k is the smallest integer with max(a^(k+1-c), c a^k) / (1 + a) <= delta.

    Parameters
    ----------
    epsilon, delta
        The privacy that the counts spend.
    cases_per_person
        The c of the formulas.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if epsilon <= 0 or not 0 < delta < 1 or cases_per_person < 1:
        raise InputError("the threshold needs epsilon > 0, 0 < delta_dp < 1 and cases_per_person >= 1")
    c = cases_per_person
    with decimal.localcontext() as context:
        context.prec = DIGITS
        step = as_decimal(epsilon) / c
        slack = Decimal("1e-40")  # a tie counts as above delta (fail-closed)
        budget = (as_decimal(delta) * (1 + (-step).exp())).ln() - slack
        alone = (-budget / step).to_integral_value(decimal.ROUND_CEILING) + c - 1
        spread = ((Decimal(c).ln() - budget) / step).to_integral_value(decimal.ROUND_CEILING)
        k = int(max(alone, spread, Decimal(c - 1)))
    return k + 1


MOST_STEPS = 700.0
"""At a larger epsilon a step of truncated noise has delta e^-700 of all: it lets nothing more through, and that number
would leave the arithmetic."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which counts leave: those whose noisy count is at least `least`.

    Attributes
    ----------
    least : int
        Least noisy count that leaves.
    reach : int or None
        Of truncated noise (models.dp.truncated); None if the noise has no end.
    """

    scale: float
    least: int
    reach: int | None

    def noise(self, draw: NoiseSource, size: int) -> Ints:
        """Draw the noise of so many counts, int64[size].

        Parameters
        ----------
        draw
            Source of the noise.
        size
            Number of counts.
        """
        if self.reach is None:
            return draw.laplace(self.scale, size)
        return truncated.draw(draw, self.scale, self.reach, size)

    def drawn(self, cases_per_person: int, delta: Fraction) -> Draw:
        """Return the noise of all counts as the ledger keeps it; `delta` is that of the rule.

        Parameters
        ----------
        cases_per_person
            Most cases of one person: the sensitivity of the counts.
        delta
            Delta of the rule.
        """
        kind: Literal["laplace", "truncated"] = "laplace" if self.reach is None else "truncated"
        return Draw(kind, Fraction(self.scale), Fraction(cases_per_person), delta)


def rule_of(epsilon: Fraction, delta: Fraction, cases_per_person: int = 1) -> Rule:
    """Return the rule of variants that lets more counts through, by public terms alone.

    Truncated noise is used if its least count is below that of noise without an end, and enough draws are within its
    reach.

    Parameters
    ----------
    epsilon, delta
        The promise to keep.
    cases_per_person
        Most cases of one person.

    Raises
    ------
    InputError
        If a parameter is out of its range, or the noise does not fit 64 bits.
    """
    endless = threshold(epsilon, delta, cases_per_person)
    scale = scale_for(cases_per_person, epsilon)
    if cases_per_person / scale > MOST_STEPS:
        return Rule(scale, endless, None)
    reach = truncated.reach(scale, delta, cases_per_person)
    if reach + 1 >= endless or truncated.kept(scale, reach) < truncated.LEAST_KEPT:
        return Rule(scale, endless, None)
    return Rule(scale, reach + 1, reach)


def release_counts(
    counts: Ints, epsilon: Fraction, delta: Fraction, draw: NoiseSource, cases_per_person: int = 1
) -> NoisyCounts:
    """Release (epsilon, delta)-DP counts of variants, as the module's docstring defines them.

    Parameters
    ----------
    counts
        int64[V], true number of cases of each variant.
    epsilon, delta
        The privacy that the release spends.
    draw
        Source of the noise.
    cases_per_person
        Most cases of one person.
    """
    chosen = rule_of(epsilon, delta, cases_per_person)
    least = chosen.least
    present = np.flatnonzero(counts > 0)
    noisy = counts[present] + chosen.noise(draw, len(present))
    above = noisy >= least
    return NoisyCounts(present[above], noisy[above], least)
