"""Noise on times: relative times of each group on one lattice, noised as integers, compressed, and put together.

Source: differentially-private-release-2023, sections 3.6 and 3.7, proposition A.7, equation 4. A group's relative times
are normalised to [0, 1] and noised by Lap(1 / eps_t), times the range of the group. Here the unit interval is the
lattice 0 .. 2^20: values are rounded to it *before* the noise (else their low digits would shine through it), the noise
is an integer on it, and what follows is integer arithmetic only.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.dp.annotation import MAX_TIME_MS, MILLISECOND
from models.dp.noise import NoiseSource, grid_down
from models.dp.priors import group_extent
from models.eventlog import Floats, Ints

LATTICE_BITS = 20
"""2^20 steps a range: 31 ms in 9 hours, a minute in 2 years; more bits would overflow for logs of many decades."""

LATTICE = 1 << LATTICE_BITS

FURTHEST_MS = 1 << 60
"""Noise that would carry a relative time further is cut there: the multiplication by the range must fit 64 bits."""


def noise_times(
    group: Ints, relative: Ints, epsilon: Floats, copy_of: Ints, draw: NoiseSource
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return noised relative times of released events, and which of them got no noise.

    The guarantee per value: exp(eps_t |x - y| / range), definition 2.4.

    Parameters
    ----------
    group, relative : int64[E]
        Group and relative time (ms) of each source event.
    epsilon : float64[E]
        eps_t of each instance of a source event.
    copy_of : int64[R]
        Source event of each released event.

    Returns
    -------
    int64[R]
        Milliseconds, noised, before clamping.
    bool[R]
        Whether the group has no range, and so no noise.
    """
    least, extent = group_extent(group, relative)
    steps = (relative - least) * LATTICE // np.maximum(extent, 1)
    silent = (extent == 0)[copy_of]
    noisy = copy_of[~silent]
    noise = np.zeros(0, dtype=np.int64)
    if len(noisy):
        noise = draw.laplace_each(np.nextafter(LATTICE / grid_down(epsilon), np.inf), noisy)
    return _off_the_lattice(copy_of, least, extent, steps, noise), silent


@kernel
def _off_the_lattice(copy_of: Ints, least: Ints, extent: Ints, steps: Ints, noise: Ints) -> Ints:
    """Return `steps` plus noise, in milliseconds again; noise only if the group has a range."""
    result = np.empty(len(copy_of), dtype=np.int64)
    used = 0
    for place, event in enumerate(copy_of):
        spread, step = extent[event], steps[event]
        if spread > 0:
            furthest = min(FURTHEST_MS // spread, 1 << 42) << LATTICE_BITS
            step = min(max(step + noise[used], -furthest), furthest)
            used += 1
        result[place] = least[event] + scaled(step, spread)
    return result


@kernel
def scaled(steps: Ints, spread: Ints | int) -> Ints:
    """Return floor(steps * spread / 2^20) without leaving 64 bits; numbers or arrays."""
    return (steps >> LATTICE_BITS) * spread + (((steps & (LATTICE - 1)) * spread) >> LATTICE_BITS)


def compression_factor(original_range: int, noised_range: int) -> Fraction:
    """Return the factor of equation 4 as it is printed: original / (noised + original) * 1/2.

    It is 1/4 if noise left the range as it was.
    """
    if original_range <= 0:
        return Fraction(1)
    return Fraction(original_range, 2 * (max(noised_range, 0) + original_range))


def compressed(values: Ints, factor: Fraction) -> Ints:
    """Return values times the factor (rounded down to 20 bits), in integers."""
    return scaled(values, int(factor * LATTICE))


@kernel
def case_times(starts: Ints, order: Ints, relative: Ints, origin_ms: int) -> Ints:
    """Return the time of each event in nanoseconds, int64[R], with the cases in a new order.

    It is the start of the case (its first relative time, counted from the origin) plus its durations, none negative.
    Times end with the calendar (MAX_TIME_MS), and so does the length of a case.

    Parameters
    ----------
    starts : int64[cases + 1]
        Case c has the places starts[c] .. starts[c + 1] - 1 in `relative`, and at least one.
    order : int64[cases]
        The cases in their new order.
    relative : int64[R]
        Milliseconds, at most FURTHEST_MS, in the old order of the cases.
    origin_ms : int
        Moment from which the first relative time of a case counts.
    """
    times = np.empty(len(relative), dtype=np.int64)
    place = 0
    for case in order:
        now = min(max(origin_ms + relative[starts[case]], -MAX_TIME_MS), MAX_TIME_MS)
        latest = min(now + MAX_TIME_MS, MAX_TIME_MS)
        for event in range(starts[case], starts[case + 1]):
            if event > starts[case]:
                now = min(now + max(relative[event], 0), latest)
            times[place] = now * MILLISECOND
            place += 1
    return times


def order_of_times(times: Ints) -> Ints:
    """Return `argsort(times, kind="stable")` of whole milliseconds in nanoseconds, int64[R].

    Time and place share one word if both fit, as they do for spans below centuries: sorting numbers is quicker than
    sorting places by them.
    """
    bits = len(times).bit_length()
    if not bits or ((int(times.max()) - int(times.min())) // MILLISECOND).bit_length() + bits > 63:
        return np.argsort(times, kind="stable").astype(np.int64)
    packed = times // MILLISECOND
    packed -= packed.min()
    packed <<= bits
    packed |= np.arange(len(times))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
