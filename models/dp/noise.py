"""The one accessor of released randomness: every random bit that leaves in a dp release is drawn here.

Noise is the discrete Laplace distribution, P(Z = z) proportional to exp(-|z| / scale) on the integers, sampled exactly
in 64 bits: by OpenDP (`laplace`: all counts, and all that a promise about a whole release rests on), whose random bits
are those of OpenSSL's generator, seeded by the operating system; and in bulk by models.dp.discrete (`laplace_each`: the
times of Amun; docs/decisions/009) on words of the operating system's own cryptographic source. Adding Z to an integer
query of sensitivity D gives e = D / scale: pure differential privacy, without the gaps that floating point leaves (a
naive float Laplace at scale 1 proves on more than a quarter of its outputs that the true value was another one).

No function here takes a seed, save `simulated`, whose draws are marked `private = False`; `source` refuses to mix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.eventlog import Floats, Ints

if TYPE_CHECKING:
    from models.dp.discrete import Words

MIN_SCALE = 2.0**-10
"""Below this a draw is 0 but for one in e^1024: noise in name only (OpenDP takes 0 and 5e-324 without a word)."""

MAX_SCALE = 2.0**56
"""Above this a draw could leave 64 bits (chance e^-126 at this scale), and samplers saturate: the tail is wrong."""


def scale_for(sensitivity: Fraction | int, epsilon: Fraction) -> float:
    """Return sensitivity / epsilon as a float, rounded up, so that the noise is never too small.

    Parameters
    ----------
    sensitivity
        Largest change of the query (L1 norm) between neighbouring logs, above 0.
    epsilon
        Epsilon of the query.

    Raises
    ------
    InputError
        If a parameter is not above 0, or the noise does not fit 64 bits.
    """
    if epsilon <= 0 or sensitivity <= 0:
        raise InputError("noise needs epsilon > 0 and sensitivity > 0")
    exact = Fraction(sensitivity) / epsilon
    if exact > Fraction(MAX_SCALE):
        raise InputError(
            f"noise of scale {float(min(exact, Fraction(10**300))):.3g} does not fit 64 bits: raise epsilon"
        )
    scale = float(exact)
    return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)


def checked_scale(scale: float, term: str = "epsilon (amun: delta)") -> float:
    """Check that noise can have this scale, and return it.

    Parameters
    ----------
    scale
        Scale of the noise.
    term
        Setting to change, which the message names.

    Raises
    ------
    InputError
        If the scale is NaN, infinite, below `MIN_SCALE` or above `MAX_SCALE`.
    """
    if not (math.isfinite(scale) and MIN_SCALE <= scale <= MAX_SCALE):
        remedy = f"lower {term}" if scale < MIN_SCALE else f"raise {term}"
        raise InputError(f"noise scale {scale:.3g} is outside [2^-10, 2^56]; {remedy}")
    return float(scale)


GRID_STEPS = 200
"""Distinct epsilons up to which none is rounded. More cost time: the first draw of each scale is slow."""


def grid_down(epsilons: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round each epsilon down to a value of a geometric grid.

    The grid has at most `GRID_STEPS` + 1 values, from the least epsilon to the largest. A smaller epsilon has more
    noise, never less. The grid saves time: the first draw of each scale costs the library as much as twenty further
    ones. Up to `GRID_STEPS` distinct values stay as they are.

    Parameters
    ----------
    epsilons
        float64[n], all above 0.

    Returns
    -------
    ndarray
        float64[n], none above its epsilon.
    """
    distinct = np.unique(epsilons)
    if len(distinct) <= GRID_STEPS:
        return epsilons
    grid = np.geomspace(distinct[0], distinct[-1], GRID_STEPS + 1)
    grid[0], grid[-1] = distinct[0], distinct[-1]
    return np.asarray(grid[np.searchsorted(grid, epsilons, side="right") - 1], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Source of a mechanism's noise: the cryptographic source (`private`), or a seeded generator (never private).

    Attributes
    ----------
    generator
        A seeded generator. None: the cryptographic source.
    """

    generator: np.random.Generator | None = None

    @property
    def private(self) -> bool:
        """Whether a release drawn from here may be called private."""
        return self.generator is None

    def laplace(self, scale: float, size: int) -> Ints:
        """Return `size` independent draws of discrete Laplace noise, int64[size].

        Parameters
        ----------
        scale
            Scale of the noise: P(Z = z) is proportional to exp(-|z| / scale).
        size
            Number of draws.

        Raises
        ------
        InputError
            If noise cannot have this scale (`checked_scale`).
        """
        checked = checked_scale(scale)
        if size == 0:
            return np.zeros(0, dtype=np.int64)
        if self.generator is None:
            return np.asarray(_measurement(checked)(np.zeros(size, dtype=np.int64)), dtype=np.int64)
        success = -math.expm1(-1.0 / checked)
        both = self.generator.geometric(success, size=(2, size))
        return np.asarray(both[0] - both[1], dtype=np.int64)

    def gaussian(self, scale: float, size: int) -> Ints:
        """Draw `size` independent values of discrete Gaussian noise, int64[size].

        P(Z = z) is proportional to exp(-z^2 / (2 scale^2)).

        Parameters
        ----------
        scale
            Scale of the noise.
        size
            Number of draws.

        Raises
        ------
        InputError
            If noise cannot have this scale (`checked_scale`).

        References
        ----------
        Canonne, Kamath and Steinke 2020, algorithm 3.
        """
        checked = checked_scale(scale)
        if size == 0:
            return np.zeros(0, dtype=np.int64)
        if self.generator is None:
            return np.asarray(_gaussian(checked)(np.zeros(size, dtype=np.int64)), dtype=np.int64)
        return _simulated(self.generator, checked, size)

    def laplace_each(self, scales: npt.NDArray[np.float64], scale_of_draw: Ints) -> Ints:
        """Draw discrete Laplace noise of scale `scales[scale_of_draw[i]]` for each i, int64[n].

        It is drawn in bulk by `models.dp.discrete`.

        Parameters
        ----------
        scales
            float64, the distinct scales, at least one.
        scale_of_draw
            int64[n], place in `scales` of each draw.

        Raises
        ------
        InputError
            If noise cannot have one of the scales (`checked_scale`).
        """
        # Not imported above: budgets need this module too, and `discrete` loads the compiler, a third of a second.
        from models.dp.discrete import discrete_laplace

        for extreme in (scales.min(), scales.max()):  # NaN is both
            checked_scale(float(extreme))
        return discrete_laplace(scales, scale_of_draw, self.words)

    def words(self, size: int) -> Words:
        """Draw uniform 64-bit words, uint64[size].

        Parameters
        ----------
        size
            Number of words.
        """
        if self.generator is None:
            from models.dp.discrete import system_words  # as in `laplace_each`

            return system_words(size)
        return self.generator.integers(0, 2**64, size=size, dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        """Draw uniform numbers from 0 to below 1, float64[size]: multiples of 2^-53, the finest that floats have.

        Parameters
        ----------
        size
            Number of draws.
        """
        return (self.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def permutation(self, size: int) -> Ints:
        """Return a uniform order of 0 .. size-1 (two equal sort keys among n have probability n^2 / 2^65).

        Parameters
        ----------
        size
            Number of places.
        """
        return np.argsort(self.words(size), kind="stable").astype(np.int64)

    def weighted_order(self, weights: npt.NDArray[Any]) -> Ints:
        """Return all places in the order of weighted draws without replacement.

        The chance of a place is in proportion to its weight, which is positive.

        Parameters
        ----------
        weights
            float64[n], all above 0.

        References
        ----------
        Efraimidis and Spirakis 2006: sort by Exp(1) / weight.
        """
        exponential = -np.log1p(-self.uniform(len(weights)))
        return np.argsort(exponential / weights, kind="stable").astype(np.int64)

    def identifiers(self, size: int) -> tuple[str, ...]:
        """Return fresh case ids of 80 random bits, which reveal nothing about the cases or their order.

        Parameters
        ----------
        size
            Number of identifiers.
        """
        raw = self.words(-(-10 * size // 8)).tobytes()[: 10 * size].hex().encode()
        return tuple(np.frombuffer(raw, dtype="S20").astype("U20").tolist())


SECURE = NoiseSource()
"""The source of every release: cryptographic, not seedable. It has no state, so all releases share it."""


def or_secure(draw: NoiseSource | None) -> NoiseSource:
    """Return the given source of noise, or the cryptographic one if none is given.

    Parameters
    ----------
    draw
        A source of noise, or None.
    """
    return SECURE if draw is None else draw


def simulated(seed: int) -> NoiseSource:
    """Return a seeded source for tests and benchmarks.

    Its draws can be repeated, so it is not `private`.

    Parameters
    ----------
    seed
        Seed of the source.
    """
    return NoiseSource(np.random.default_rng(seed))


def source(seed: int | None = None, *, private: bool = True) -> NoiseSource:
    """Return the source that a caller asked for.

    Parameters
    ----------
    seed
        Seed of a simulation. None: the cryptographic source.
    private
        Whether the release claims privacy.

    Raises
    ------
    InputError
        If a release that claims privacy gives a seed.
    """
    if seed is None:
        return SECURE
    if private:
        raise InputError("released noise takes no seed: who knows the seed knows the noise; mark the run not private")
    return simulated(seed)


@lru_cache(maxsize=1024)
def _measurement(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return space >> dp.m.then_laplace(scale=scale)


@lru_cache(maxsize=1024)
def _gaussian(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    return space >> dp.m.then_gaussian(scale=scale)


WIDE = 1e4
"""Scales from which a seeded source does not list the chances of each number any more."""


def _simulated(generator: np.random.Generator, scale: float, size: int) -> Ints:
    """Draw discrete Gaussian noise from a seeded source, by its probabilities in floats.

    No draw is beyond nine scales, whose mass is e^-40 in all. Wide noise is the rounded normal one.
    """
    if scale > WIDE:
        return np.rint(generator.normal(0.0, scale, size)).astype(np.int64)
    reach = math.ceil(9 * scale)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * scale**2))
    return generator.choice(len(weights), size, p=weights / weights.sum()) - reach
