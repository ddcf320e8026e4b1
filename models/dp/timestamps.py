"""Noise on times: relative times of each group on one lattice, noised as integers, compressed, and put together.

Source: differentially-private-release-2023, sections 3.6 and 3.7, proposition A.7, equation 4. A group's relative times
are normalised to [0, 1] and noised by Lap(1 / eps_t), times the range of the group. Here the unit interval is the
lattice 0 .. 2^20: values are rounded to it *before* the noise (else their low digits would shine through it), the noise
is an integer on it, and what follows is integer arithmetic only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from models.dp.annotation import MILLISECOND
from models.dp.guessing import Floats
from models.dp.noise import Source, grid_down
from models.dp.priors import group_extent
from models.eventlog import Ints

LATTICE_BITS = 20
"""2^20 steps a range: 31 ms in 9 hours, a minute in 2 years; more bits would overflow for logs of many decades."""

LATTICE = 1 << LATTICE_BITS


@dataclass(frozen=True, slots=True)
class NoisyTimes:
    """`relative`: int64[E] milliseconds, noised, before clamping; `silent`: bool[E], True where a group has no range
    and so no noise."""

    relative: Ints
    silent: npt.NDArray[np.bool_]


def noise_times(group: Ints, relative: Ints, epsilon: Floats, copy_of: Ints, draw: Source) -> NoisyTimes:
    """Noised relative times of released events.

    `group`, `relative` describe the source events (int64[E]); `copy_of` names the source event of each released event
    (int64[R]), `epsilon` its eps_t (float64[R]). The guarantee per value: exp(eps_t |x - y| / range), definition 2.4.
    """
    least, extent = group_extent(group, relative)
    spread = extent[copy_of]
    silent = spread == 0
    result = relative[copy_of].copy()
    noisy = np.flatnonzero(~silent)
    if len(noisy):
        event = copy_of[noisy]
        steps = (relative[event] - least[event]) * LATTICE // spread[noisy]
        steps += draw.laplace_each(LATTICE / grid_down(epsilon[noisy]))
        result[noisy] = least[event] + scaled(steps, spread[noisy])
    return NoisyTimes(result, silent)


def scaled(steps: Ints, spread: Ints) -> Ints:
    """floor(steps * spread / 2^20) without leaving 64 bits."""
    return (steps >> LATTICE_BITS) * spread + (((steps & (LATTICE - 1)) * spread) >> LATTICE_BITS)


def compression_factor(original_range: int, noised_range: int) -> Fraction:
    """Equation 4 as printed: original / (noised + original) * 1/2. It is 1/4 where noise left the range as it was."""
    if original_range <= 0:
        return Fraction(1)
    return Fraction(original_range, 2 * (max(noised_range, 0) + original_range))


def compressed(values: Ints, factor: Fraction) -> Ints:
    """Values times the factor (rounded down to 20 bits), in integers."""
    return scaled(values, np.full(len(values), int(factor * LATTICE), dtype=np.int64))


def case_times(starts: Ints, first: npt.NDArray[np.bool_], relative: Ints, origin_ms: int) -> Ints:
    """Time of each event in nanoseconds, int64[R]: start of the case, then its durations added up (none negative)."""
    durations = np.where(first, relative, np.maximum(relative, 0))
    total = np.cumsum(durations)
    before = np.repeat(total[starts[:-1]] - durations[starts[:-1]], np.diff(starts))
    return np.asarray((origin_ms + total - before) * MILLISECOND, dtype=np.int64)
