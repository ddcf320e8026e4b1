"""Counts over everything published so far, where each case counts once: sums of noisy counts, and trees of them.

A key (a variant, a cell of a model) has a true count in each release; releases are of disjoint cases. `Counts` keeps
for each key a noisy count over all releases so far.

* sum: every release's noisy count, added up. It costs nothing (post-processing); after t releases it holds t noises.
* tree: a case enters its release (level 0) and one node a level, over arity^level releases each, drawn once when its
  last release comes (Dwork et al. 2010; Chan, Shi and Song 2011). With L levels each gets epsilon / L, so all that a
  case enters costs epsilon; the count over 1..t then holds as many noises as t has units in its digits, of L times the
  scale. Arity and L are those with the least mean variance over the public horizon (two levels at some hundred
  releases; one, which is the sum, up to 48). Behind the horizon the top level continues and its noises add up.

A node is named by release numbers, and a number is never used twice. If the number that would have drawn a node was
burned, nobody knows whether its noise was seen. The node is then never drawn, and the sum of its parts takes its place.

Keys that are found in the data (variants) have noise from the first release on, also for releases in which nobody had
them. So the counts are those of a mechanism that adds noise to every possible key from the beginning, and of which only
the keys that somebody had are looked at. The `threshold` protects a key that one person alone has: the key is released
if its count reaches k + 1, and noise alone reaches it with chance at most delta in all releases together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.noise import NoiseSource
from models.errors import InputError
from models.eventlog import Floats, Ints

MOST_RELEASES = 100_000
"""A horizon beyond it is a mistake: hourly releases of eleven years."""

FAR = 60
"""Scales of a discrete Laplace draw beyond which its chance (e^-60) is counted as an error, not computed."""

EXACT_SCALE = 300.0
"""Above it the tail of a sum is bounded (Chernoff), not computed: distributions would be too long."""

MARGIN = 1e-6
"""By so much of itself a bound in floats is made stricter: far above all rounding."""

How = Literal["sum", "tree", "factorized"]

Whole = TypeVar("Whole", int, Ints)


@dataclass(frozen=True, slots=True)
class Shape:
    """Layout of kept counts: `levels` (1: a sum), `arity` children a node; `horizon`: declared number of releases.

    `factorized`: noise is correlated over the releases (`models.dp.factorization`), and there are no levels.
    """

    levels: int = 1
    arity: int = 0
    horizon: int | None = None
    factorized: bool = False

    @classmethod
    def of(cls, how: How, horizon: int | None) -> Shape:
        """Return how releases of a series share their noise.

        Parameters
        ----------
        how
            "sum", "tree" or "factorized".
        horizon
            Number of releases that are to come, if it is declared.

        Raises
        ------
        InputError
            For a tree or a factorization without a horizon, or a horizon that no series has.
        """
        if horizon is not None and not 1 <= horizon <= MOST_RELEASES:
            raise InputError(f"horizon must be between 1 and {MOST_RELEASES} releases")
        if how == "sum":
            return cls(horizon=horizon)
        if horizon is None:
            use_of_horizon = "divides epsilon by" if how == "tree" else "chooses its noise by"
            raise InputError(f'accumulate = "{how}" {use_of_horizon} how many releases are to come: declare horizon')
        if how == "factorized":
            return cls(horizon=horizon, factorized=True)
        return _best(horizon)

    @property
    def how(self) -> How:
        """The way in which releases add up, as it is declared."""
        if self.factorized:
            return "factorized"
        return "sum" if self.levels == 1 else "tree"

    @property
    def declared_horizon(self) -> int:
        """The horizon of a shape that needs one."""
        if self.horizon is None:
            raise InputError("declare horizon")
        return self.horizon

    def digits(self, number: Whole) -> list[Whole]:
        """Return the nodes of each level that the count over releases 1 .. number adds up.

        Parameters
        ----------
        number
            Number of a release, or an array of numbers.

        Returns
        -------
        list
            By level, from the releases upwards.
        """
        digits: list[Whole] = []
        for _ in range(self.levels - 1):
            digits.append(number % self.arity)
            number = number // self.arity
        digits.append(number)
        return digits

    def closes(self, level: int, number: int) -> bool:
        """Return whether a node of the level ends with that release.

        Parameters
        ----------
        level
            Level of the node; 0 are the releases.
        number
            Number of the release, from 1 on.
        """
        return number % self.arity**level == 0 if level else True

    def lost(self, level: int, last: int, number: int) -> bool:
        """Return whether a node of the level ended after release `last` and before `number`, so it was never drawn.

        Parameters
        ----------
        level
            Level of the node; 0 are the releases.
        last, number
            Numbers of two releases, the earlier one first.
        """
        width = self.arity**level
        return level > 0 and (number - 1) // width > last // width


@lru_cache(maxsize=64)
def _best(horizon: int) -> Shape:
    """Return the tree with the least mean variance over releases 1 .. horizon.

    Of equal trees, the one with fewer levels. Trees with two children a node, which all deeper trees are, never win.
    """
    numbers = np.arange(1, horizon + 1)

    def variance(shape: Shape) -> int:
        return int(np.sum(shape.digits(numbers))) * shape.levels**2

    trees = [Shape(horizon=horizon)]
    for levels in range(2, horizon.bit_length()):
        children = next(k for k in count() if k**levels >= horizon)
        trees.append(Shape(levels, children, horizon))
    return min(trees, key=variance)


@content_free("shape", "scale", "last", "since")
@dataclass(slots=True)
class Counts:
    """Noisy counts of `keys` over the releases up to number `last`.

    By level and key: `sums`, of the drawn nodes that the count so far adds up; `noises`, how many draws they hold;
    `open`, true counts of the node that is not drawn yet (the operator's alone). `nodes`: int by level, drawn nodes
    that a key of the beginning adds up. `scale`: of every draw.
    """

    shape: Shape
    scale: float
    keys: list[Any]
    sums: Ints
    noises: Ints
    open: Ints
    nodes: list[int]
    last: int = 0
    since: int = 1

    @classmethod
    def begin(cls, shape: Shape, scale: float, since: int = 1) -> Counts:
        """Return counts without a key, before the first release, which has the number `since`.

        Parameters
        ----------
        shape
            The levels of the noise.
        scale
            Scale of the discrete Laplace noise of each node.
        since
            Number of the first release.
        """
        none = np.zeros((shape.levels, 0), dtype=np.int64)
        return cls(shape, scale, [], none, none.copy(), none.copy(), [0] * shape.levels, since - 1, since)

    def extend(self, keys: Sequence[Any], draw: NoiseSource, *, backlog: bool) -> None:
        """Add further keys.

        Parameters
        ----------
        backlog
            Whether the keys were found in the data. They then get the noise of everything drawn before, as if they had
            existed from the start. Other keys are public (opened by noisy counts) and are counted from now on.
        """
        size = (self.shape.levels, len(keys))
        sums, noises = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for level, nodes in enumerate(self.nodes if backlog else ()):
            drawn = draw.laplace(self.scale, nodes * len(keys)).reshape(nodes, len(keys))
            sums[level], noises[level] = drawn.sum(axis=0), nodes
        self.keys = [*self.keys, *keys]
        self.sums, self.noises = np.hstack([self.sums, sums]), np.hstack([self.noises, noises])
        self.open = np.hstack([self.open, np.zeros(size, dtype=np.int64)])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only the keys of the mask, a choice that reads noisy counts.

        Parameters
        ----------
        mask
            bool[keys].
        """
        self.keys = [key for key, kept in zip(self.keys, mask.tolist(), strict=True) if kept]
        self.sums, self.noises, self.open = (array[:, mask] for array in (self.sums, self.noises, self.open))

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

        Returns
        -------
        Ints
            int64[keys].

        Raises
        ------
        InputError
            If the release was counted before.
        """
        if number <= self.last:
            raise InputError(f"release {number} was counted before")
        for level in range(1, self.shape.levels):
            if self.shape.lost(level, self.last, number):
                self._lift(level)
                self.open[level] = 0
        noisy_counts = true + draw.laplace(self.scale, len(true))
        self._draw(0, noisy_counts)
        for level in range(1, self.shape.levels):
            self.open[level] += true
            if self.shape.closes(level, number):
                self._forget_below(level)
                self._draw(level, self.open[level] + draw.laplace(self.scale, len(true)))
                self.open[level] = 0
        self.last = number
        return noisy_counts

    def _draw(self, level: int, noisy: Ints) -> None:
        self.sums[level] += noisy
        self.noises[level] += 1
        self.nodes[level] += 1

    def _lift(self, level: int) -> None:
        """Count what is below as the level's own: the node that would have held it was never drawn."""
        self.sums[level] += self.sums[:level].sum(axis=0)
        self.noises[level] += self.noises[:level].sum(axis=0)
        self.nodes[level] += sum(self.nodes[:level])
        self._forget_below(level)

    def _forget_below(self, level: int) -> None:
        self.sums[:level] = 0
        self.noises[:level] = 0
        self.nodes[:level] = [0] * level

    @property
    def total(self) -> Ints:
        """Noisy counts over all releases so far, int64[keys]."""
        return np.asarray(self.sums.sum(axis=0), dtype=np.int64)

    @property
    def draws(self) -> Ints:
        """Number of draws that each of them holds, int64[keys]."""
        return np.asarray(self.noises.sum(axis=0), dtype=np.int64)

    @property
    def total_scale(self) -> Floats:
        """Scale of Laplace noise with the deviation of each total, float64[keys]."""
        return self.scale * np.sqrt(self.draws)

    @property
    def release_scale(self) -> Floats:
        """Scale of the noise of the counts of a release, float64[keys]."""
        return np.full(len(self.keys), self.scale)

    @property
    def next_scale(self) -> float:
        """`total_scale` of a key of the beginning after one more release."""
        return self.scale * math.sqrt(sum(self.nodes) + 1)

    def section(self) -> dict[str, Any]:
        """Describe the counts for a manifest: releases, levels, and the noise in a count of the first release."""
        return {
            "how": self.shape.how,
            "since": self.since,
            "levels": self.shape.levels,
            "arity": self.shape.arity or None,
            "horizon": self.shape.horizon,
            "noise": {"draws": sum(self.nodes), "scale": self.scale},
        }

    def to_state(self) -> dict[str, Any]:
        """Return the state for JSON, without the keys."""
        tables = {name: getattr(self, name).tolist() for name in ("sums", "noises", "open")}
        settings = {**_shaped(self.shape), "scale": self.scale}
        return {**settings, **tables, "nodes": self.nodes, "last": self.last, "since": self.since}

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        keys: list[Any],
        shape: Shape,
        scale: float,
    ) -> Counts | None:
        """Read a state back, or return None if it cannot continue.

        A state cannot continue in another shape or under other noise. Nor can it under another horizon: the parts of
        delta that its releases spent and those to come would add up to more than delta.

        Parameters
        ----------
        state
            The state as `to_state` returned it.
        keys
            Counted keys, in the order of the state's columns.
        shape, scale
            Shape of the series and scale of its noise, as they are configured now.
        """
        if any(state.get(name, "") != value for name, value in {**_shaped(shape), "scale": scale}.items()):
            return None
        size = (shape.levels, len(keys))
        sums, noises, open_nodes = (
            np.asarray(state[name], dtype=np.int64).reshape(size) for name in ("sums", "noises", "open")
        )
        return cls(shape, scale, keys, sums, noises, open_nodes, list(state["nodes"]), state["last"], state["since"])


def _shaped(shape: Shape) -> dict[str, int | None]:
    return {"levels": shape.levels, "arity": shape.arity, "horizon": shape.horizon}


def delta_of(number: int, delta: Fraction, horizon: int | None) -> Fraction:
    """Return what release `number` may spend of delta.

    An equal part of the horizon, or delta / (n (n + 1)), which adds up to delta over all n. Nothing is left after the
    horizon.

    Parameters
    ----------
    number
        Number of the release, from 1 on.
    delta
        Delta of the whole series.
    horizon
        Number of releases, if it is declared.
    """
    if horizon is None:
        return delta / (number * (number + 1))
    return delta / horizon if number <= horizon else Fraction(0)


@lru_cache(maxsize=4096)
def threshold(scale: float, draws: int, delta: Fraction, cases_per_person: int = 1) -> int:
    """Return the least noisy count with which a key found in the data is released.

    At most c keys belong to one person, and no key has more than c of that person's cases. The result is the smallest
    k + 1 >= 2 with c P[c + noise >= k + 1] <= delta.

    Parameters
    ----------
    scale
        Scale of each draw of discrete Laplace noise.
    draws
        Draws that the count holds.
    delta
        Chance that a key of one person alone is released.
    cases_per_person
        The c of the formula.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if draws < 1 or not 0 < delta < 1 or cases_per_person < 1:
        raise InputError("a threshold needs noise, 0 < delta < 1 and cases_per_person >= 1")
    allowed = float(delta) / cases_per_person * (1 - MARGIN)
    least = _exact_tail(scale, draws, allowed) if scale <= EXACT_SCALE else _chernoff(scale, draws, allowed)
    return max(least + cases_per_person, 2)


def _exact_tail(scale: float, draws: int, allowed: float) -> int:
    """Return the smallest t with P[sum of the noises >= t] <= allowed."""
    pmf, error = _distribution(scale, draws)
    tail = np.cumsum(pmf)[::-1] + error  # the distribution is symmetric
    if error >= allowed:
        return _chernoff(scale, draws, allowed)
    below = np.flatnonzero(tail <= allowed)
    middle = len(pmf) // 2
    return int(below[0]) - middle if len(below) else len(pmf) - middle


@lru_cache(maxsize=256)
def _distribution(scale: float, draws: int) -> tuple[Floats, float]:
    """Return the distribution of the sum of so many draws around its middle, and a bound on the mass left out.

    All terms are positive, so convolutions lose at most a part in 2^30 to rounding (`threshold` allows a part in 10^6).
    """
    if draws == 1:
        reach = math.ceil(FAR * scale) + 1
        a = math.exp(-1.0 / scale)
        chance = (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1, dtype=np.float64))
        return chance, a**reach
    half, error = _distribution(scale, draws // 2)
    total, error = np.convolve(half, half), 2 * error
    if draws % 2:
        single, more = _distribution(scale, 1)
        total, error = np.convolve(total, single), error + more
    kept = np.flatnonzero(total >= 1e-40)
    out = int(kept[0])
    return total[out : len(total) - out], error + 2 * out * 1e-40


def _chernoff(scale: float, draws: int, allowed: float) -> int:
    """Return a t with P[sum of the noises >= t] <= allowed: the least that any of some exponents proves."""
    a = math.exp(-1.0 / scale)
    best = math.inf
    for step in range(1, 400):
        rate = step / 400 / scale
        growth = (1 - a) ** 2 / ((1 - a * math.exp(rate)) * (1 - a * math.exp(-rate)))
        best = min(best, (draws * math.log(growth) - math.log(allowed)) / rate)
    return math.ceil(best * (1 + MARGIN))
