"""Earlier group-based models as special cases of TLKC-privacy (tlkc-privacy-extended-2021, section 5.2).

Each returns the bounds (K, C) to give to `tlkc.anonymize`; L and the knowledge stay those of TLKC. With an L as long
as the longest trace they are the original models, whose adversary knows the whole quasi-identifier.
"""

from __future__ import annotations

from fractions import Fraction

from models.anonymize.violations import TlkcBounds
from models.errors import InputError


def k_anonymity(k: int, L: int) -> TlkcBounds:
    """k-anonymity: at least k cases match, nothing is asked of sensitive values (C = 1)."""
    return TlkcBounds.of(L, k, 1)


def confidence_bounding(confidence: float | str | Fraction, L: int) -> TlkcBounds:
    """Confidence bounding: no sensitive value is inferred with more than `confidence`, groups of any size (K = 1)."""
    return TlkcBounds.of(L, 1, confidence)


def alpha_k_anonymity(alpha: float | str | Fraction, k: int, L: int) -> TlkcBounds:
    """(alpha, k)-anonymity: at least k cases, and each sensitive value in at most alpha of them."""
    return TlkcBounds.of(L, k, alpha)


def l_diversity(l: int, L: int) -> TlkcBounds:  # noqa: E741 - the model's own name of its parameter
    """l-diversity as frequency l-diversity: no value in more than 1/l of a group, so each group holds at least l.

    The probabilistic form of l-diversity; a case without a value counts in its group and as no value. Distinct
    l-diversity alone would be weaker.
    """
    if l < 1:
        raise InputError(f"l = {l} is not a positive number of values")
    return TlkcBounds.of(L, l, Fraction(1, l))
