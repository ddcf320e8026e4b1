"""Bits of 64-bit words, for compiled kernels."""

from __future__ import annotations

import numpy as np

from models.compiled import part, wraps_around


@part
@wraps_around
def count_ones(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a uint64 are set, int64.

    Sums of 2, 4 and 8 bits are made in parallel, and one multiplication adds up the bytes.

    Parameters
    ----------
    word
        uint64.
    """
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
