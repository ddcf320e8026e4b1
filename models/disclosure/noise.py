"""Probability of a released count of a variant, if the design of its noise is known (`models.dp.counts`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.dp import truncated
from models.dp.counts import Rule, rule_of
from models.eventlog import Floats, Ints


@dataclass(frozen=True, slots=True)
class LaplaceCounts:
    """Counts with discrete Laplace noise, released from a least count on.

    Parameters
    ----------
    rule
        Scale, least released count, and the reach of noise that is truncated.
    """

    rule: Rule

    @classmethod
    def of(cls, epsilon: Fraction, delta_dp: Fraction, cases_per_person: int = 1) -> LaplaceCounts:
        """Return the noise of the terms of a release.

        Parameters
        ----------
        epsilon, delta_dp
            Promise of the release.
        cases_per_person
            Most cases of one person.
        """
        return cls(rule_of(epsilon, delta_dp, cases_per_person))

    def log_probability(self, shown: Ints, true: Ints) -> Floats:
        """Return the log probability of each released count for a true one.

        Parameters
        ----------
        shown
            int64[N], released counts; 0 if a variant was not released.
        true
            int64[N], counts in the original. A variant that no case has is never released.

        Returns
        -------
        float64[N]

        Examples
        --------
        >>> noise = LaplaceCounts.of(Fraction(1), Fraction(1, 100))
        >>> counts = np.arange(200)
        >>> released = np.where(counts < noise.rule.least, 0, counts)
        >>> total = np.exp(noise.log_probability(np.unique(released), np.full(len(np.unique(released)), 30))).sum()
        >>> bool(abs(total - 1) < 1e-9)
        True
        """
        chance_of_none = self._at_most(self.rule.least - 1 - true)
        probability = np.where(shown == 0, chance_of_none, self._exactly(shown - true))
        probability = np.where((shown > 0) & (shown < self.rule.least), 0.0, probability)
        probability = np.where(true == 0, (shown == 0).astype(np.float64), probability)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probability))

    def _exactly(self, noise: Ints) -> Floats:
        a = math.exp(-1 / self.rule.scale)
        probability = (1 - a) / (1 + a) * a ** np.abs(noise).astype(np.float64)
        if self.rule.reach is None:
            return probability
        inside = np.abs(noise) <= self.rule.reach
        return np.where(inside, probability / truncated.kept(self.rule.scale, self.rule.reach), 0.0)

    def _at_most(self, noise: Ints) -> Floats:
        reach = self.rule.reach
        if reach is None:
            return self._endless(noise)
        below = self._endless(np.asarray([-reach - 1]))[0]
        kept = truncated.kept(self.rule.scale, reach)
        inside = (self._endless(np.minimum(noise, reach)) - below) / kept
        return np.asarray(np.clip(inside, 0.0, 1.0))

    def _endless(self, noise: Ints) -> Floats:
        """Return the probability that noise without an end is at most so large."""
        a = math.exp(-1 / self.rule.scale)
        size = noise.astype(np.float64)
        lower = a ** np.maximum(-size, 0.0) / (1 + a)
        upper = 1 - a ** (np.maximum(size, 0.0) + 1) / (1 + a)
        return np.where(size < 0, lower, upper)
