"""Guessing advantage and epsilon: how much noise keeps an adversary's gain below delta.

An adversary who knows all but one value guesses it with probability P before the release and P' after it; the
advantage is P' - P (differentially-private-release-2023, definitions 3.6 and 3.9). For an e-DP release of a value in
[0, 1], P' <= 1 / (1 + exp(-e) (1 - P) / P) (proposition A.1). These bounds hold for *one* noised number. A release is
many: k cells of a person's own compose to k e, whose worst-case advantage is tanh(k e / 4).
"""

from __future__ import annotations

import math

import numpy as np

from models.errors import InputError
from models.eventlog import Floats


def checked_delta(delta: float) -> float:
    """Check the guessing advantage threshold, and return it.

    Parameters
    ----------
    delta
        Most by which a release may raise the chance of a guess.

    Raises
    ------
    InputError
        If it is not strictly between 0 and 1, or nearer than 1e-9 to one of them.
    """
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0.0 < delta < 1.0:
        raise InputError("delta (guessing advantage) must be strictly between 0 and 1")
    if delta < 1e-9 or delta > 1 - 1e-9:
        raise InputError("delta (guessing advantage) is too close to 0 or 1 for any noise to mean it")
    return float(delta)


def worst_case_prior(delta: float) -> float:
    """Return the prior that needs most noise, P = (1 - delta) / 2 (equation 2).

    It is used if no distribution is known.

    Parameters
    ----------
    delta
        Guessing advantage, between 0 and 1.
    """
    return (1.0 - delta) / 2.0


def epsilon_of_counts(delta: float) -> float:
    """Return eps_d of one cell at the worst prior, 2 ln((1 + delta) / (1 - delta)) (equation 3, proposition A.4).

    Parameters
    ----------
    delta
        Guessing advantage, between 0 and 1.
    """
    return 2.0 * math.log1p(2.0 * checked_delta(delta) / (1.0 - delta))


def epsilon_of_oversampling(delta: float) -> float:
    """Return eps_d if |z| copies are added and none removed (proposition A.6).

    Small noise then reveals more. The result solves exp(-e) tanh(e / 4) + 1 - exp(-e) = delta in closed form.

    Parameters
    ----------
    delta
        Guessing advantage, between 0 and 1.
    """
    checked_delta(delta)
    c = 6.0 ** (1.0 / 3.0)
    root = math.sqrt(3.0) * math.sqrt(2.0 * delta**3 + 21.0 * delta**2 - 48.0 * delta + 25.0)
    b = (root - 9.0 * delta + 9.0) ** (1.0 / 3.0)
    return -2.0 * math.log(b / c**2 - (delta - 1.0) / (c * b))


def epsilon_of_times(priors: Floats, delta: float) -> Floats:
    """Return eps_t of normalised times (r = 1), ln((1 - P)(delta + P) / (P (1 - delta - P))) (equation 3).

    If P + delta >= 1, the equation has no value: no release can raise P by delta, and the paper filters such cases.
    Designs without a filter keep them. They get the eps_d of the worst case, so as much noise as any other event, or
    more.

    Parameters
    ----------
    priors
        float64[E], the P of each event, in (0, 1].
    delta
        Guessing advantage.

    Returns
    -------
    Floats
        float64[E].
    """
    checked_delta(delta)
    if np.any(~((priors > 0.0) & (priors <= 1.0))):
        raise InputError("prior guessing probabilities must be in (0, 1]")
    risky = priors + delta >= 1.0
    prior = np.where(risky, worst_case_prior(delta), priors)
    numerator = (1.0 - prior) * (delta + prior)
    denominator = prior * (1.0 - delta - prior)
    return np.asarray(np.log(numerator / denominator), dtype=np.float64)


def worst_case_advantage(epsilon: float) -> float:
    """Return the largest advantage over all priors that an epsilon-DP release can give, tanh(epsilon / 4).

    It is the inverse of `epsilon_of_counts`.

    Parameters
    ----------
    epsilon
        Epsilon of the release, at least 0.
    """
    return math.tanh(epsilon / 4.0)
