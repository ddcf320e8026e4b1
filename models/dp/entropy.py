"""Uniform random words of the operating system's cryptographic source: the raw material of every sampler here."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
"""Uniform 64-bit words."""


def system_words(size: int) -> Words:
    """`size` words, uint64[size], that nobody can foresee or draw again."""
    return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
