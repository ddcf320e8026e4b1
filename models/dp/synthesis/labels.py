"""Stage 0, labels: the activities that may leave at all, if none are declared.

The set of labels of a log is read off the data: a label that one person brought would show that person. Each case
counts once for each of its first `max_labels` distinct labels (public bound q), so the histogram of labels changes by
at most q c in L1 with the c cases of one person, and each label's count by at most c. Discrete Laplace noise of scale
q c / epsilon on each count that is not 0 makes the labels that both logs have epsilon-DP; a label of only one of them
passes the threshold with chance at most delta in all (`threshold`).

Not guaranteed: that nothing is lost: a label that comes late in its cases may never be counted, however frequent.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from models.dp.counts import Rule, rule
from models.dp.noise import NoiseSource, scale_for
from models.dp.synthesis.table import VariantCounts
from models.dp.truncated import DIGITS
from models.errors import InputError
from models.eventlog import Ints


def threshold(epsilon: Fraction, delta: Fraction, max_labels: int, cases_per_person: int = 1) -> int:
    """Least noisy count with which a label is released, k + 1, by noise without an end (`rule_of` may have less).

    With a = e^(-epsilon / (q c)), noise reaches z >= 0 with chance a^z / (1 + a). Of labels that nobody else has,
    one person brings q c at most, no label more than c; the two worst divisions are q labels of c cases each and q c
    labels of one case (the tail is convex between them): max(q a^(k+1-c), q c a^k) / (1 + a) <= delta.
    """
    if epsilon <= 0 or not 0 < delta < 1 or max_labels < 1 or cases_per_person < 1:
        raise InputError("labels need epsilon > 0, 0 < delta_dp < 1, max_labels >= 1 and cases_per_person >= 1")
    q, c = max_labels, cases_per_person
    with decimal.localcontext() as context:
        context.prec = DIGITS
        step = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / (q * c)
        allowed = (Decimal(delta.numerator) / Decimal(delta.denominator) * (1 + (-step).exp())).ln()
        slack = Decimal(10) ** -40
        together = ((Decimal(q).ln() - allowed + slack) / step).to_integral_value(decimal.ROUND_CEILING) + c - 1
        spread = ((Decimal(q * c).ln() - allowed + slack) / step).to_integral_value(decimal.ROUND_CEILING)
        return int(max(together, spread, Decimal(c - 1))) + 1


def select(
    table: VariantCounts,
    epsilon: Fraction,
    delta: Fraction,
    max_labels: int,
    draw: NoiseSource,
    cases_per_person: int = 1,
) -> tuple[str, ...]:
    """(epsilon, delta)-DP choice of labels, see the module's docstring; sorted, may be empty."""
    chosen = rule_of(epsilon, delta, max_labels, cases_per_person)
    counts = first_labels(table, max_labels)
    present = np.flatnonzero(counts > 0)
    noisy = counts[present] + chosen.noise(draw, len(present))
    return tuple(table.alphabet[label] for label in present[noisy >= chosen.least].tolist())


def rule_of(epsilon: Fraction, delta: Fraction, max_labels: int, cases_per_person: int = 1) -> Rule:
    """Return the rule of labels: q counts of a person change, by c at most each."""
    endless = threshold(epsilon, delta, max_labels, cases_per_person)
    return rule(scale_for(max_labels * cases_per_person, epsilon), endless, delta, cases_per_person, max_labels)


def first_labels(table: VariantCounts, max_labels: int) -> Ints:
    """int64[A]: cases that have each label among their first `max_labels` distinct ones."""
    counts = np.zeros(len(table.alphabet), dtype=np.int64)
    for variant, cases in zip(table.variants, table.counts.tolist(), strict=True):
        counts[_first(variant, max_labels)] += cases
    return counts


def _first(variant: Iterable[int], most: int) -> list[int]:
    distinct_labels: dict[int, None] = {}
    for label in variant:
        if label not in distinct_labels:
            distinct_labels[label] = None
            if len(distinct_labels) == most:
                break
    return list(distinct_labels)
