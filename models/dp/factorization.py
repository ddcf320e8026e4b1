"""Counts of releases and of their running sum, from one correlated Gaussian noise over all releases.

A key has the true count x_i in release i; releases are of disjoint cases. Independent noise in each release adds up in
the running sum. A matrix factorization (Li et al. 2010; Denisov et al. 2022) measures mixtures instead: with a lower
triangular matrix C, release i draws

    y_i = sum over j <= i of C_ij x_j + w_i,      w_i fresh discrete Gaussian noise of one scale s,

and the count of the release is what is left after the earlier ones: e_i = (y_i - sum over j < i of C_ij e_j) / C_ii.
The noise of e is then C^-1 w: later releases take back a part of the noise of earlier ones, so it nearly cancels in the
running sum.

**The matrix.** C_ij = c_(i - j), the coefficients of (1 - z)^-a. With a = 1/2 it is the square root of the matrix of
running sums (Henzinger, Upadhyay and Upadhyay 2023), whose single releases are up to 1.9 times noisier than with
independent noise. `Factorization.of` takes the largest a at which they are at most `MOST_RELEASE_NOISE` times noisier.
Coefficients are whole numbers of 1 / `UNIT`, rounded down, and 0 from `BAND` on, so a series may go on for ever.

**Privacy.** The coefficients and the true counts are integers, so each y_i is an integer query with discrete Gaussian
noise. Everything that leaves (e, sums of e, the keys that are counted next) is computed from y, in whatever arithmetic:
post-processing.

* *A case in one window.* A case that adds v_j to the counts of window j moves y_i by c_(i - j) v_j: over all releases
  by g |v_j| in L2, g^2 = sum of the squares of all c_k. `Factorization.sensitivity` is g in parts of `UNIT`, rounded
  up.
* *A person with cases in several windows.* By the triangle inequality the m cases move y by at most m g |v| together,
  in whichever windows they are. The bound is reached if all are in one window, so it costs nothing.
* *Keys that come and go.* A key enters with the releases from then on, and leaves the later ones: y has fewer rows for
  it. The counted keys follow from earlier y. Given any earlier outputs, release i moves by at most the sum over
  the person's cases of c_(i - j) |v_j|, and the squares of these bounds add up to at most (m g |v|)^2. The scale is
  fixed, so the releases compose to one Gaussian mechanism of that sensitivity (`models.dp.privacy_loss`).
* *Each row once.* Row i belongs to release number i. A number that was burned may have been seen: it is never drawn
  again, its cases are in no later release, and the rows after it keep their own numbers. Then the rows that somebody
  saw are some of the rows of C, each with its own noise. A row that is drawn twice would count c_(i - j)^2 twice.

Not guaranteed: anything against somebody who reads the state. It holds true counts of the last `BAND` releases: with
them, or with the noise, which is the same, everybody's counts can be computed from what was published. The pipeline
keeps it encrypted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.accumulation import Shape
from models.dp.noise import NoiseSource
from models.errors import InputError
from models.eventlog import Floats, Ints

UNIT = 1 << 12
"""A coefficient is a whole number of so many parts of 1. Sums of true counts up to 2^31 cases then fit 64 bits."""

BAND = 512
"""Releases that a draw mixes at most: the operator's state holds so many counts of each key."""

MOST_RELEASE_NOISE = 1.3
"""Deviation of the noise of a single release at most, in that of independent noise for the same promise."""

EXPONENTS = [Fraction(step, 100) for step in range(50, -1, -1)]
"""Exponents a, the largest first; 0 is independent noise."""


@dataclass(frozen=True, slots=True)
class Factorization:
    """Coefficients c_0, c_1, ... of the matrix C in parts of `UNIT`, and their exponent a."""

    exponent: Fraction
    coefficients: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, horizon: int) -> Factorization:
        """Return the factorization for so many releases; a series that lasts longer goes on with it.

        Parameters
        ----------
        horizon
            Number of releases that are to come.
        """
        length = min(horizon, BAND)
        exponent = next(a for a in EXPONENTS if _release_noise(a, length) <= MOST_RELEASE_NOISE)
        return cls(exponent, _coefficients(exponent, length))

    @property
    def sensitivity(self) -> int:
        """The most that a case of norm 1 moves all draws together, in L2 and in parts of `UNIT`, rounded up."""
        square = sum(coefficient**2 for coefficient in self.coefficients)
        return math.isqrt(square - 1) + 1

    def mixed(self, lags: Ints) -> Ints:
        """Return the coefficient of a release so many numbers before the drawn one, int64[releases].

        Parameters
        ----------
        lags
            int64[releases], how many numbers before the drawn release each one is.
        """
        coefficients = np.asarray(self.coefficients, dtype=np.int64)
        inside = lags < len(coefficients)
        return np.where(inside, coefficients[np.where(inside, lags, 0)], 0)

    def responses(self, numbers: Ints, target: Floats) -> Floats:
        """Return how much of the noise of each draw is in a sum of counts, float64[releases].

        Parameters
        ----------
        numbers : int64[releases]
            Ascending numbers of the releases that were drawn.
        target : float64[releases]
            Weight of the count of each release in the sum.
        """
        # The sum is target e = target C^-1 w, so the response v solves C^T v = target, from the last release back.
        response = np.zeros(len(numbers))
        for place in range(len(numbers) - 1, -1, -1):
            later = self.mixed(numbers[place + 1 :] - numbers[place]) / UNIT
            response[place] = target[place] - later @ response[place + 1 :]
        return response


def power_series(exponent: Fraction, length: int) -> list[Fraction]:
    """Return the first coefficients of (1 - z)^-exponent, from that of z^0 on.

    With an exponent of 1/2 the lower triangular matrix of c_(i - j) is the root of that of running sums.
    """
    coefficients = [Fraction(1)]
    for power in range(length - 1):
        coefficients.append(coefficients[-1] * (exponent + power) / (power + 1))
    return coefficients


def _coefficients(exponent: Fraction, length: int) -> tuple[int, ...]:
    """Coefficients of (1 - z)^-exponent in parts of `UNIT`, rounded down: exact, so the same on every machine."""
    return tuple(math.floor(UNIT * coefficient) for coefficient in power_series(exponent, length))


def _release_noise(exponent: Fraction, length: int) -> float:
    """Return the noise of the last release, in that of independent noise for the same promise."""
    powers = np.arange(length - 1)
    a = float(exponent)
    forward = np.cumprod(np.concatenate(([1.0], (a + powers) / (powers + 1))))
    inverse = np.cumprod(np.concatenate(([1.0], (powers - a) / (powers + 1))))
    return float(np.linalg.norm(forward) * np.linalg.norm(inverse))


@content_free("factorization", "scale", "since", "numbers")
@dataclass(slots=True)
class CorrelatedCounts:
    """Noisy counts of `keys` in each release and over all of them.

    Attributes
    ----------
    scale
        Scale of the discrete Gaussian noise of every draw, in parts of `UNIT` of a count.
    since
        First number of the series.
    numbers
        Numbers of the releases that were drawn, ascending.
    first : int64[keys]
        Number of releases that were drawn before each key was counted.
    true, noisy : int64[releases, keys]
        True counts (the operator's alone) and noisy ones, in parts of `UNIT`, of the last releases that a draw may mix.
    sums : int64[keys]
        Sums of all noisy counts, in parts of `UNIT`.
    """

    shape: Shape
    scale: float
    keys: list[Any]
    since: int
    numbers: list[int]
    first: Ints
    true: Ints
    noisy: Ints
    sums: Ints

    @classmethod
    def begin(cls, shape: Shape, scale: float, since: int = 1) -> CorrelatedCounts:
        """Return counts without a key, before the first release, which has the number `since`.

        Parameters
        ----------
        shape
            How releases share their noise.
        scale
            Scale of the discrete Gaussian noise, in parts of `UNIT`.
        since
            Number of the first release.
        """
        none = np.zeros(0, dtype=np.int64)
        return cls(shape, scale, [], since, [], none, none.reshape(0, 0), none.reshape(0, 0), none)

    @property
    def factorization(self) -> Factorization:
        """The factorization for the declared horizon."""
        return Factorization.of(self.shape.declared_horizon)

    @property
    def last(self) -> int:
        """Number of the last release that was drawn."""
        return self.numbers[-1] if self.numbers else self.since - 1

    def extend(self, keys: Sequence[Any], draw: NoiseSource, *, backlog: bool) -> None:
        """Add public keys, which are counted from now on.

        Parameters
        ----------
        keys
            The new keys.
        draw
            Not used: nothing is drawn for past releases. `Counts.extend` has the same parameters.
        backlog
            Whether the keys were found in the data. Such keys are refused.

        Raises
        ------
        InputError
            If `backlog` is set.
        """
        if backlog:
            raise InputError("keys that are found in the data cannot share correlated noise")
        added = len(keys)
        self.keys = [*self.keys, *keys]
        self.first = np.concatenate([self.first, np.full(added, len(self.numbers), dtype=np.int64)])
        self.sums = np.concatenate([self.sums, np.zeros(added, dtype=np.int64)])
        zeros = np.zeros((len(self.true), added), dtype=np.int64)
        self.true, self.noisy = np.hstack([self.true, zeros]), np.hstack([self.noisy, zeros])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only the keys of the mask, a choice that reads noisy counts.

        Parameters
        ----------
        mask
            bool[keys].
        """
        self.keys = [key for key, kept in zip(self.keys, mask.tolist(), strict=True) if kept]
        self.first, self.sums = self.first[mask], self.sums[mask]
        self.true, self.noisy = self.true[:, mask], self.noisy[:, mask]

    def query(self, number: int, true: Ints) -> Ints:
        """Return the exact mixture that release `number` measures, int64[keys], in parts of `UNIT`.

        Parameters
        ----------
        number
            Number of the release.
        true
            int64[keys], exact counts of this release alone.
        """
        return UNIT * true + self._mixed(number) @ self.true

    def add(self, number: int, true: Ints, draw: NoiseSource) -> Ints:
        """Take in the true counts of release `number`, int64[keys]; return its own noisy counts.

        Parameters
        ----------
        number
            Number of the release, above that of the one before. Numbers may be left out.
        true
            int64[keys], exact counts of this release alone.
        draw
            Source of the noise.

        Raises
        ------
        InputError
            If the release was counted before.
        """
        if number <= self.last:
            raise InputError(f"release {number} was counted before")
        measured = self.query(number, true) + draw.gaussian(self.scale, len(true))
        # From here on only drawn values are read. A plain sum gives the same floats whatever library multiplies.
        earlier = (self._mixed(number)[:, None] / UNIT * self.noisy).sum(axis=0)
        count = measured - np.rint(earlier).astype(np.int64)
        self.numbers = [*self.numbers, number]
        n_kept = self._held_after(number)
        self.true = np.vstack([self.true, true])[len(self.true) + 1 - n_kept :]
        self.noisy = np.vstack([self.noisy, count])[len(self.noisy) + 1 - n_kept :]
        self.sums = self.sums + count
        return _whole(count)

    def _mixed(self, number: int) -> Ints:
        """Coefficients of the held releases in the draw of release `number`."""
        held_numbers = np.asarray(self.numbers[len(self.numbers) - len(self.true) :], dtype=np.int64)
        return self.factorization.mixed(number - held_numbers)

    def _held_after(self, number: int) -> int:
        """Return how many of the last releases a draw after `number` may mix."""
        length = len(self.factorization.coefficients)
        return sum(number + 1 - drawn < length for drawn in self.numbers)

    @property
    def total(self) -> Ints:
        """Noisy counts over all releases so far, int64[keys]."""
        return _whole(self.sums)

    @property
    def draws(self) -> Ints:
        """Number of releases in which each key was counted, int64[keys]."""
        return len(self.numbers) - self.first

    @property
    def total_scale(self) -> Floats:
        """Scale of Laplace noise with the deviation of each total, float64[keys]."""
        return self._scales(np.ones(len(self.numbers)), self.numbers)[self.first]

    @property
    def release_scale(self) -> Floats:
        """Scale of Laplace noise with the deviation of the last release's counts, float64[keys]."""
        target = np.zeros(len(self.numbers))
        target[-1:] = 1.0
        return self._scales(target, self.numbers)[self.first]

    @property
    def next_scale(self) -> float:
        """Scale of a total after one more release, for a key that is counted from the beginning.

        Laplace noise of this scale has the deviation of the total.
        """
        numbers = [*self.numbers, self.last + 1]
        return float(self._scales(np.ones(len(numbers)), numbers)[0])

    def _scales(self, target: Floats, numbers: list[int]) -> Floats:
        """Laplace scales of a sum of counts for keys since each release, and 0 for keys without any."""
        response = self.factorization.responses(np.asarray(numbers, dtype=np.int64), target)
        # A key that is counted from release f on has the noise of the draws from f on.
        squares = np.cumsum(response[::-1] ** 2)[::-1]
        deviations = np.sqrt(np.append(squares, 0.0)) * self.scale / UNIT
        return np.asarray(deviations / math.sqrt(2.0))

    def section(self) -> dict[str, Any]:
        """Describe the counts for a manifest; all of it follows from the numbers of the releases and the terms.

        `release` and `total` are deviations of the noise in a count of the last release, and in one over all releases
        of a key that was counted from the beginning.
        """
        release = np.zeros(len(self.numbers))
        release[-1:] = 1.0
        deviations = {}
        for name, target in (("release", release), ("total", np.ones(len(self.numbers)))):
            deviations[name] = float(self._scales(target, self.numbers)[0]) * math.sqrt(2.0)
        return {
            "how": self.shape.how,
            "since": self.since,
            "horizon": self.shape.horizon,
            "exponent": float(self.factorization.exponent),
            "noise": {"kind": "discrete gaussian", **deviations},
        }

    def to_state(self) -> dict[str, Any]:
        """Return the state for JSON, without the keys."""
        tables = {name: getattr(self, name).tolist() for name in ("first", "true", "noisy", "sums")}
        return {**self._settings(), **tables, "numbers": self.numbers, "since": self.since}

    def _settings(self) -> dict[str, Any]:
        factorization = self.factorization
        exponent = float(factorization.exponent)
        return {"exponent": exponent, "length": len(factorization.coefficients), "unit": UNIT, "scale": self.scale}

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], keys: list[Any], shape: Shape, scale: float
    ) -> CorrelatedCounts | None:
        """Read a state back, or return None if it cannot continue.

        A state cannot continue if its coefficients or its noise were other ones, or if it is one of `Counts`.

        Parameters
        ----------
        state
            The state as `to_state` returned it.
        keys
            Counted keys, in the order of the state's columns.
        shape, scale
            Shape of the series and scale of its noise, as they are configured now.
        """
        counts = cls.begin(shape, scale, state["since"])
        if any(state.get(name) != value for name, value in counts._settings().items()):
            return None
        counts.keys, counts.numbers = keys, list(state["numbers"])
        counts.first, counts.sums = (np.asarray(state[name], dtype=np.int64) for name in ("first", "sums"))
        counts.true, counts.noisy = (
            np.asarray(state[name], dtype=np.int64).reshape(len(state[name]), len(keys)) for name in ("true", "noisy")
        )
        return counts


def _whole(parts: Ints) -> Ints:
    """Round parts of `UNIT` to whole counts."""
    return (parts + UNIT // 2) // UNIT
