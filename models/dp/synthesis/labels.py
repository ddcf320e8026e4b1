"""Stage 0, labels: choose which activities may leave, if none are declared.

The set of labels of a log is read off the data: a label that only one person has would show that person. Labels are
therefore selected by weighted Gaussian set union (Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, *Differentially
Private Set Union*, ICML 2020, section 4).

Unit: one person with at most c = `cases_per_person` cases. Neighbours: logs with and without that person's cases.

* Weights. A case counts for its first K = `max_labels` distinct labels, k of them, with floor(UNIT / sqrt(k)) units
  each. Their L2 norm is at most UNIT for every k, so the weights of all labels change by at most c UNIT in L2
  (triangle inequality).
* Noise. Each label that occurs gets discrete Gaussian noise of scale s with (c UNIT)^2 / (2 s^2) <= rho: on the labels
  that both logs have this is rho-zCDP (Canonne, Kamath and Steinke 2020, theorem 4).
* Threshold. A label leaves if its noisy weight is at least T, the least whole number such that the labels that only one
  person has leave with chance at most delta, all of them together (`threshold`).

Given that no such label leaves, outputs on both logs are functions of the same noisy weights: the stage is
delta-approximately rho-zCDP (Bun and Steinke 2016, definition 8.1). Its rho is a part of the rho of all Gaussian stages
of a release; delta stays apart (`models.dp.synthetic`).

Not guaranteed: that a label leaves. A rare label seldom does. Labels of a case after its first K are not counted.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from models.dp.budget import as_decimal
from models.dp.noise import NoiseSource
from models.dp.synthesis.table import VariantCounts
from models.dp.truncated import DIGITS
from models.dp.zcdp import scale_of
from models.errors import InputError
from models.eventlog import Ints

UNIT = 1 << 16
"""Units of the weight of a case with a single label. Weights are rounded down to whole units, so that no norm passes
UNIT; of 64 labels each loses less than a part in 8,000."""

FRACTION_TERMS = 80
"""Terms of the continued fraction of a Gaussian tail. It must be even: odd numbers of terms bound the tail from below,
and a threshold computed from them would be too low."""

_SLACK = Decimal("1e-40")
"""More than all rounding of `DIGITS` digits adds up to, as a part of a tail."""

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


@dataclass(frozen=True, slots=True)
class LabelRule:
    """The rule by which labels leave: delta-approximately rho-zCDP, see the docstring of the module.

    Attributes
    ----------
    rho
        Part of the labels in the rho of all Gaussian stages.
    delta
        Most chance with which some label of a single person leaves.
    max_labels
        Distinct labels of a case that count.
    cases_per_person
        Cases of one person that are protected together.
    """

    rho: Fraction
    delta: Fraction
    max_labels: int
    cases_per_person: int = 1

    @property
    def sensitivity(self) -> int:
        """The most that one person changes the weights, in L2 and in units of 1 / UNIT of a case."""
        return self.cases_per_person * UNIT

    @property
    def scale(self) -> float:
        """Scale of the noise, in units of 1 / UNIT of a case."""
        return scale_of(self.rho, self.sensitivity)

    @property
    def threshold(self) -> int:
        """Least noisy weight with which a label leaves, in units of 1 / UNIT of a case."""
        return threshold(self.scale, self.delta, self.max_labels, self.cases_per_person)

    @property
    def least_cases(self) -> int:
        """The threshold in cases of a single label, rounded up."""
        return -(-self.threshold // UNIT)

    def select(self, table: VariantCounts, draw: NoiseSource) -> tuple[str, ...]:
        """Return the labels that leave, sorted; there may be none.

        Parameters
        ----------
        table
            The variants and their counts.
        draw
            Source of the noise.
        """
        least = self.threshold
        weights = label_weights(table, self.max_labels)
        present = np.flatnonzero(weights > 0)
        noisy = weights[present] + draw.gaussian(self.scale, len(present))
        return tuple(table.alphabet[label] for label in present[noisy >= least].tolist())


def label_weight(distinct_labels: int) -> int:
    """Return floor(UNIT / sqrt(k)), the weight that a case of k distinct labels gives each of them.

    Parameters
    ----------
    distinct_labels
        k, at least 1.
    """
    return math.isqrt(UNIT**2 // distinct_labels)


def label_weights(table: VariantCounts, max_labels: int) -> Ints:
    """Return the weight of each label over all cases, int64[A], in units of 1 / UNIT of a case.

    Parameters
    ----------
    table
        The variants and their counts.
    max_labels
        Distinct labels of a case that count; the first ones do.
    """
    weights = np.zeros(len(table.alphabet), dtype=np.int64)
    for variant, cases in zip(table.variants, table.counts.tolist(), strict=True):
        counted = _first_distinct(variant, max_labels)
        if counted:
            weights[counted] += cases * label_weight(len(counted))
    return weights


@lru_cache(maxsize=256)
def threshold(scale: float, delta: Fraction, max_labels: int, cases_per_person: int = 1) -> int:
    """Return the least threshold T that keeps delta, in the units of `scale`.

    Let c cases of one person have labels that nobody else has. With f(x) = P[N >= T - x], N the noise, label j of c_j
    of these cases, each of weight w_i, leaves with chance f(sum of w_i). f is convex below T, since the chances of
    the discrete Gaussian fall from 0 on. So by Jensen's inequality

        f(sum of w_i) <= (1 / c_j) sum of f(c_j w_i),

    and summed over labels, then over the k_i labels of each case, all of them together leave with chance at most

        c max over k <= K and b <= c of (k / b) f(b w(k)).

    f(b w) / b is quasi-convex in b (f is convex), so b = 1 or b = c has the maximum: T is the least number with
    k f(c w(k)) <= delta and c k f(w(k)) <= delta for every k <= K. The first is the threshold of Gopi et al. (one
    person, k labels at once); the second holds for persons whose cases have different labels. Of j < c cases the same
    sum is at most j / c of delta, which a series of disjoint cases rests on.

    P[N >= m] <= P[X >= m - 1] for m >= 1, X the continuous Gaussian of that scale (Canonne, Kamath and Steinke 2020,
    proposition 25), and P[X >= x] is bounded from above in decimals (`_log_tail`): no float decides.

    Parameters
    ----------
    scale
        Scale of the discrete Gaussian noise, in units of 1 / UNIT of a case.
    delta
        Probability with which labels of one person alone may leave.
    max_labels
        K, the distinct labels of a case that count.
    cases_per_person
        c, the most cases of one person.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if not 0 < delta < 1 or max_labels < 1 or cases_per_person < 1:
        raise InputError("labels need 0 < delta_dp < 1, max_labels >= 1 and cases_per_person >= 1")
    new_labels = {
        new
        for k in range(1, max_labels + 1)
        for new in ((cases_per_person * label_weight(k), k), (label_weight(k), cases_per_person * k))
    }
    # Floats only say where to look, and put the number that decides first; `_keeps` decides.
    near = {new: new[0] + _quantile(scale, delta, new[1]) for new in new_labels}
    in_order = sorted(new_labels, key=lambda new: -near[new])

    def is_kept(least: int) -> bool:
        return all(_keeps(scale, least - weight, delta, number) for weight, number in in_order)

    least = near[in_order[0]]
    while is_kept(least):
        least -= 1
    while not is_kept(least):
        least += 1
    return least


def _quantile(scale: float, delta: Fraction, labels: int) -> int:
    """Return about the least z >= 0 with P[N >= z] <= delta / labels."""
    return round(-scale * NormalDist().inv_cdf(min(float(delta) / labels, 0.5)))


def _keeps(scale: float, distance: int, delta: Fraction, labels: int) -> bool:
    """Return whether noise reaches `distance` for some of so many labels with chance at most delta."""
    if distance < 1:
        return False
    if 2 * delta >= labels:  # noise above 0 has less than half of the chance
        return True
    if distance == 1:
        return False
    with decimal.localcontext() as context:
        context.prec = DIGITS
        allowed = (as_decimal(delta) / labels).ln()
        return _log_tail(as_decimal(Fraction(distance - 1) / Fraction(scale))) <= allowed


def _log_tail(x: Decimal) -> Decimal:
    """Return an upper bound of ln P[X >= x], X the standard Gaussian, x > 0.

    P[X >= x] = phi(x) / (x + 1 / (x + 2 / (x + 3 / ...))): every even number of terms gives an upper bound
    (Abramowitz and Stegun 1964, 26.2.14).
    """
    fraction = x
    for term in range(FRACTION_TERMS, 0, -1):
        fraction = x + term / fraction
    return -x * x / 2 - (2 * PI).ln() / 2 - fraction.ln() + _SLACK


def _first_distinct(variant: Iterable[int], most: int) -> list[int]:
    return list(dict.fromkeys(variant))[:most]
