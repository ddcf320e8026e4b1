"""Exact discrete Laplace draws in bulk, from uniform 64-bit words.

Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy", algorithms 1 and 2. For a scale
t / s with whole t and s: U uniform below t, kept with chance exp(-U / t); V the number of exp(-1) coins that succeed
before one fails; floor((U + t V) / s) with a random sign, a negative zero drawn again, has P(z) proportional to
exp(-|z| s / t) exactly. A coin of chance exp(-g), g in [0, 1], is the parity of a run of coins g/1, g/2, g/3, ...

A float scale is such a fraction (s a power of two). Every comparison is of whole numbers below a whole bound, drawn
without bias; no float enters. The library does the same in big integers at 8 us a draw; 64 bits take 0.4 us and suffice
for scales in [2^-10, 2^56]: only a draw of more than 126 scales, chance e^-126, could leave them, and saturates.
Promises that rest on each of the two: docs/decisions/009.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.eventlog import Ints

Words = npt.NDArray[np.uint64]
"""Uniform 64-bit words."""

CHUNK = 1 << 16
"""Draws between two requests for words: 8 MB of words at a time."""

WORDS_A_DRAW = 9
"""A little above the mean, so that most chunks need one request; what is left over serves the next one."""

MANTISSA = 53

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_ZERO = np.uint64(0)
_WORD = np.uint64(0xFFFFFFFFFFFFFFFF)
_LARGEST = np.uint64(0x7FFFFFFFFFFFFFFF)


def system_words(size: int) -> Words:
    """Return `size` words of the operating system's cryptographic source, uint64[size].

    Nobody can foresee them or draw them again: the raw material of every sampler here.

    Parameters
    ----------
    size
        Number of words.
    """
    return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)


def fractions(scales: npt.NDArray[np.float64]) -> tuple[Words, Words]:
    """Return each scale as an exact fraction t / 2^k: the arrays of t and of k, both uint64.

    Scales are in [2^-10, 2^56]. Then t is at most 2^56, and k at most 62.

    Parameters
    ----------
    scales
        float64[n], between 2^-10 and 2^56.

    Returns
    -------
    t, k
        uint64[n] each.
    """
    mantissa, exponent = np.frexp(scales)
    integer_mantissa = np.ldexp(mantissa, MANTISSA).astype(np.uint64)
    shift = exponent.astype(np.int64) - MANTISSA
    numerator = integer_mantissa << np.maximum(shift, 0).astype(np.uint64)
    return numerator, np.maximum(-shift, 0).astype(np.uint64)


def discrete_laplace(
    scales: npt.NDArray[np.float64],
    scale_of_draw: Ints,
    words: Callable[[int], Words],
) -> Ints:
    """Draw discrete Laplace noise of several scales in bulk.

    Parameters
    ----------
    scales
        float64[S], scales that `models.dp.noise.checked_scale` accepts.
    scale_of_draw
        int64[n], place of the scale of each draw.
    words
        Returns as many uniform words as it is asked for.

    Returns
    -------
    Ints
        int64[n].
    """
    numerator, shift = fractions(scales)
    drawn = np.empty(len(scale_of_draw), dtype=np.int64)
    words_left = np.zeros(0, dtype=np.uint64)
    done = 0
    while done < len(scale_of_draw):
        until = min(done + CHUNK, len(scale_of_draw))
        # A draw that the words did not suffice for starts again on the same words: fresh ones would favour short draws.
        missing = max((until - done) * WORDS_A_DRAW - len(words_left), WORDS_A_DRAW)
        words_left = np.concatenate((words_left, words(missing)))
        done, used = _draw(numerator, shift, scale_of_draw, words_left, done, until, drawn)
        words_left = words_left[used:]
    return drawn


@kernel
def _draw(
    numerator: Words, shift: Words, scale_of_draw: Ints, words: Words, begin: int, until: int, drawn: Ints
) -> tuple[int, int]:
    """Draws begin .. until-1, as far as the words suffice: (first draw not made, words used by those made)."""
    used = 0
    for place in range(begin, until):
        t, at = numerator[scale_of_draw[place]], used
        multiple = _multiple(t)
        while True:
            kept = False
            u = _ZERO
            while not kept:
                u, at = _below(t, multiple, words, at)
                kept, at = _exp_coin(u, t, multiple, words, at)
            v, success = _ZERO, True
            most = (_LARGEST - u) // t
            while success and v <= most:
                success, at = _exp_coin(_ONE, _ONE, _WORD, words, at)
                if success:
                    v += _ONE
            y = np.int64((u + t * min(v, most)) >> shift[scale_of_draw[place]])
            negative, at = _below(_TWO, _WORD - _ONE, words, at)
            if at > len(words):
                return place, used
            if negative == _ZERO or y != 0:
                break
        drawn[place] = -y if negative == _ONE else y
        used = at
    return until, used


@kernel
def _exp_coin(u: np.uint64, t: np.uint64, multiple: np.uint64, words: Words, at: int) -> tuple[bool, int]:
    """Toss a coin of probability exp(-u / t), u <= t.

    Toss coins of u / (t j), j = 1, 2, ..., until one fails; heads if j is odd.
    """
    j = _ONE
    while True:
        if j > _ONE:
            ticket, at = _below(j, _multiple(j), words, at)
            if ticket != _ZERO:
                break
        if u < t:
            ticket, at = _below(t, multiple, words, at)
            if ticket >= u:
                break
        j += _ONE
    return j & _ONE == _ONE, at


@kernel
def _multiple(bound: np.uint64) -> np.uint64:
    """Return the largest multiple of the bound that is a word: words below it fall on every remainder equally often."""
    return _WORD - _WORD % bound


@kernel
def _below(bound: np.uint64, multiple: np.uint64, words: Words, at: int) -> tuple[np.uint64, int]:
    """Return a uniform number below the bound and the next place; words from `multiple` on are passed over.

    Past the end it returns bound - 1, which ends every loop above; the caller discards the draw.
    """
    while at < len(words):
        word = words[at]
        at += 1
        if word < multiple:
            return word % bound, at
    return bound - _ONE, len(words) + 1
