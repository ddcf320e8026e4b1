"""Exact composition: the epsilon of Gaussian and pure stages together, from their privacy loss distributions.

Adding epsilons counts every stage at its worst outcome. Outcomes are rarely the worst for all stages at once, so the
same noise gives a smaller epsilon, or the same epsilon needs less noise.

**Dominating pairs.** A stage is replaced by a pair of distributions (P, Q) that distinguishes neighbours at least as
well for every epsilon. Pairs of several stages multiply, also if a later stage uses the output of an earlier one, as
long as the scales are fixed before the first draw (Zhu, Dong and Wang 2022, theorem 10).

* A stage that is (e, 0)-DP: randomized response, loss +e with probability 1 / (1 + exp(-e)), else -e (Kairouz, Oh and
  Viswanath 2015). Discrete Laplace noise on counts that one person changes by 1 in L1 is exactly this pair.
* Discrete Gaussian noise of scale s on integer counts that one person changes by at most c in L2: the continuous pair
  N(0, 1), N(m, 1) with m^2 = c^2 / (s^2 - t^2), t = `SMOOTHING`. All Gaussian stages together are one such pair, whose
  m^2 is the sum.

**Why the discrete Gaussian has that pair.** Draw x from N(0, s^2 - t^2) and round each coordinate to an integer y with
probability proportional to exp(-(y - x)^2 / (2 t^2)). Rounding commutes with integer shifts, so this noise is a
function of the Gaussian mechanism with variance s^2 - t^2, which dominates it. By Poisson summation the weights of a
rounding add up to t sqrt(2 pi) (1 +- k), k <= 2.1 exp(-2 pi^2 t^2) < 2e-19. The noise therefore has the discrete
Gaussian's probabilities but for a factor in [exp(-3k), exp(k)] for each coordinate. Over d <= 2^40 coordinates this
adds at most 4 k d < `ROUNDED_EPSILON` to epsilon and multiplies delta by at most exp(k d) (Peikert 2010, theorem 3.1).

**The number.** delta(e) = E over the losses l of the pure stages of delta_G(e - l), with that of the Gaussian pair
(Balle and Wang 2018, theorem 8): delta_G(e) = Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m). Losses are only ever moved
upwards, and the error of floats is added with a wide margin (`_FLOAT_ERROR`), so delta is never below the true one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from models.dp.zcdp import scale_of
from models.errors import InputError
from models.eventlog import Floats

SMOOTHING = Fraction(3, 2)
"""Scale t of the rounding above. A smaller one costs less variance, but its k would not be negligible any more."""

ROUNDED_EPSILON = 1e-6
"""More than the rounding adds to epsilon, and more than its factor on delta exceeds 1."""

STEPS = 10**9
"""An epsilon is rounded up to so many parts of 1."""

DISTANCES = 10**7
"""A distance that an epsilon allows is rounded down to so many parts of its square."""

MAX_ATOMS = 1 << 14
"""Losses that are kept apart. More of them are spread over a grid of so many steps."""

_LEAST_WEIGHT = 1e-40
"""Losses of a smaller probability count as infinite: their probability is added to delta, which is above 0 by it."""

_FLOAT_ERROR = 1e-14
"""Relative error of one probability, for each unit of its logarithm and of epsilon: ten times what floats have."""

_SUM_ERROR = 1e-9
"""Relative error of weights and of their sum: 100 times what floats have."""


def gaussian_distance(scale: Fraction | float, sensitivity: Fraction | int) -> Fraction:
    """Return m^2 of the Gaussian pair that dominates discrete Gaussian noise.

    Parameters
    ----------
    scale
        s of the noise: P(Z = z) is proportional to exp(-z^2 / (2 s^2)).
    sensitivity
        The most that one person changes the integer counts, in L2.

    Raises
    ------
    InputError
        If the scale is at most 3: the pair would be far from the noise.
    """
    square = Fraction(scale) ** 2
    if square <= 4 * SMOOTHING**2:
        raise InputError("noise of so small a scale has no Gaussian pair; lower epsilon")
    return Fraction(sensitivity) ** 2 / (square - SMOOTHING**2)


def scale_at(distance: Fraction, sensitivity: int) -> float:
    """Return the least float scale of discrete Gaussian noise whose pair has at most m^2 = `distance`.

    Parameters
    ----------
    distance
        Largest m^2 of the pair of Gaussians, m being the distance of their means in standard deviations.
    sensitivity
        Largest change of the query (L2 norm) between neighbouring logs, a whole number.

    Raises
    ------
    InputError
        If the distance is 0, or the noise does not fit 64 bits.
    """
    if distance <= 0:
        raise InputError("epsilon is too small for any noise; raise it")
    square = Fraction(sensitivity**2) / distance + SMOOTHING**2
    return scale_of(1 / (2 * square))


def gaussian_part(epsilon: Fraction, delta: Fraction, pure: Iterable[Fraction]) -> Fraction:
    """Return the largest squared distance m^2 that the Gaussian stages may have together.

    With it they are (epsilon, delta)-DP, together with other stages that are (pure_i, 0)-DP.

    Parameters
    ----------
    epsilon, delta
        The privacy of all stages together.
    pure
        The epsilon of each stage without a delta.

    Returns
    -------
    Fraction
        A multiple of epsilon^2 / `DISTANCES`; 0 if no such multiple is small enough.
    """
    least = Fraction(epsilon) ** 2 / DISTANCES
    stages = list(pure)

    def too_much(parts: int) -> bool:
        return Composition.of([parts * least], stages).delta(epsilon) > float(delta) * (1.0 - _SUM_ERROR)

    return bisect_left(range(1, DISTANCES + 1), True, key=too_much) * least


@dataclass(frozen=True, slots=True)
class Composition:
    """Stages that are released together, each by its dominating pair.

    Attributes
    ----------
    distance : Fraction
        Sum of m^2 of all Gaussian stages (`gaussian_distance`).
    pure : tuple of (Fraction, int)
        Epsilons of the pure stages, sorted, and how many stages have each.
    """

    distance: Fraction = Fraction(0)
    pure: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def of(cls, distances: Iterable[Fraction], pure: Iterable[Fraction]) -> Composition:
        """Compose stages; a stage of epsilon 0 releases nothing and is left out.

        Parameters
        ----------
        distances
            m^2 of each Gaussian stage.
        pure
            Epsilon of each other stage.
        """
        numbers = Counter(epsilon for epsilon in pure if epsilon)
        return cls(sum(distances, Fraction(0)), tuple(sorted(numbers.items())))

    def delta(self, epsilon: Fraction | float) -> float:
        """Return a delta such that the stages are (epsilon, delta)-DP together, rounded up.

        Parameters
        ----------
        epsilon
            Epsilon of all stages together.
        """
        losses, weights, infinite = _pure_losses(self.pure)
        # The rounding of the Gaussian noise is paid for here, once.
        rounded = ROUNDED_EPSILON if self.distance else 0.0
        # The next float below is not above the true epsilon: a smaller epsilon has a larger delta.
        below = math.nextafter(float(epsilon), -math.inf) - rounded
        bounds = _gaussian_delta(math.sqrt(self.distance), below - losses)
        total = float(weights @ bounds) * (1.0 + rounded) + infinite
        if self.distance:
            # A Gaussian pair has a delta above 0 for every epsilon, also where floats say 0.
            total += _LEAST_WEIGHT
        return min(total * (1.0 + _SUM_ERROR), 1.0)

    def epsilon(self, delta: Fraction) -> Fraction:
        """Return the least epsilon, in `STEPS` parts of 1, that `delta` allows.

        Parameters
        ----------
        delta
            Probability with which the promise may fail, between 0 and 1.

        Raises
        ------
        InputError
            If delta is not between 0 and 1.
        """
        if not 0 < delta < 1:
            raise InputError("an epsilon needs a delta between 0 and 1")
        allowed = float(delta) * (1.0 - _SUM_ERROR)
        summed = sum(epsilon * number for epsilon, number in self.pure)
        most = math.ceil((summed + _gaussian_most(self.distance, delta)) * STEPS)
        steps = bisect_left(range(most), True, key=lambda step: self.delta(Fraction(step, STEPS)) <= allowed)
        return Fraction(steps, STEPS)


def _gaussian_most(distance: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon that is enough for a Gaussian pair: m^2 / 2 + m z with P[N >= z] <= delta / 2.

    For z >= 0, P[N >= z] <= exp(-z^2 / 2) / 2. The half that is left of delta is far more than the factor of the
    rounding and the error of floats.
    """
    m = math.sqrt(distance)
    z = math.sqrt(-2.0 * math.log(delta))
    return Fraction(m * m / 2.0 + m * z + ROUNDED_EPSILON)


def _gaussian_delta(m: float, epsilon: Floats) -> Floats:
    """Return delta_G at each epsilon, float64[n], rounded up; without Gaussian stages, that of equal distributions."""
    if m == 0.0:
        # 1 - exp(epsilon) where epsilon is below 0; exp of a large one would overflow.
        return -np.expm1(np.minimum(epsilon, 0.0))
    from scipy.special import log_ndtr  # a sixth of the start of every command, and only noise needs it

    log_first = log_ndtr(m / 2.0 - epsilon / m)
    log_second = epsilon + log_ndtr(-m / 2.0 - epsilon / m)
    first = np.exp(log_first)
    # The difference may be much smaller than both terms: their errors count, not its own. That of an argument x of Phi
    # is u (m + |x|), and it moves the logarithm by at most 1 + |x| times as much. m, x^2 and m |x| are of the size of
    # 1 + |log_first| + |epsilon|, or Phi is flat there. The second term is less than the first one.
    error = _FLOAT_ERROR * first * (1.0 + np.abs(log_first) + np.abs(epsilon))
    return np.asarray(first - np.exp(log_second) + error, dtype=np.float64)


@lru_cache(maxsize=256)
def _pure_losses(pure: tuple[tuple[Fraction, int], ...]) -> tuple[Floats, Floats, float]:
    """Losses of all pure stages together, float64[n], their probabilities, float64[n], and that of an infinite loss."""
    stages = [_repeated(epsilon, number) for epsilon, number in pure]
    infinite = sum(stage_infinite for _, _, stage_infinite in stages)
    if math.prod(len(losses) for losses, _, _ in stages) > MAX_ATOMS:
        return *_composed_on_grid([(losses, weights) for losses, weights, _ in stages]), infinite
    losses, weights = np.zeros(1), np.ones(1)
    for stage_losses, stage_weights, _ in stages:
        # The next float above a sum of two floats is not below the true sum.
        losses = np.nextafter(np.add.outer(losses, stage_losses).ravel(), math.inf)
        weights = np.multiply.outer(weights, stage_weights).ravel()
    return losses, weights, infinite


def _repeated(epsilon: Fraction, number: int) -> tuple[Floats, Floats, float]:
    """Return losses of `number` equal pure stages, their probabilities, and the probability of an infinite loss.

    The number of stages that lose +epsilon is binomial. The rare ends are left out; the upper one counts as infinite.
    """
    higher = np.arange(number + 1)
    losses = np.nextafter((2 * higher - number) * float(epsilon), math.inf)
    # Not by scipy.special: its import takes a fifth of a second of every command that adds up a budget.
    log_factorials = np.array([math.lgamma(k + 1) for k in range(number + 1)])
    log_choose = log_factorials[number] - log_factorials - log_factorials[::-1]
    log_plus = -math.log1p(math.exp(-float(epsilon)))
    log_minus = log_plus - float(epsilon)
    weights = np.exp(log_choose + higher * log_plus + (number - higher) * log_minus)
    kept = weights >= _LEAST_WEIGHT
    return losses[kept], weights[kept], float(weights[~kept].sum())


def _composed_on_grid(stages: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Compose losses on one grid of at most `MAX_ATOMS` steps.

    A loss between two places of the grid is divided between them, so that the probability under both distributions of
    the pair stays what it is. 1 - exp(e - loss) is a convex function of exp(-loss), so no delta becomes smaller, and
    none grows by more than the square of a step (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).
    """
    widths = [losses[-1] - losses[0] for losses, _ in stages]
    step = sum(widths) / (MAX_ATOMS - 2 * len(stages))
    least, composed = 0.0, np.ones(1)
    for losses, weights in stages:
        positions = (losses - losses[0]) / step
        places = np.floor(positions).astype(np.int64)
        upper = weights * (np.expm1(-step * (positions - places)) / np.expm1(-step))
        lower = weights - upper
        longer = np.zeros(len(composed) + int(places[-1]) + 1)
        for place, below, above in zip(places.tolist(), lower.tolist(), upper.tolist(), strict=True):
            longer[place : place + len(composed)] += below * composed
            longer[place + 1 : place + 1 + len(composed)] += above * composed
        least += losses[0]
        composed = longer
    occupied = np.flatnonzero(composed)
    grid = least + occupied * step
    # Sums and products of floats: their error is far below a millionth of a step, which is added.
    return grid + step * 1e-6, composed[occupied]
