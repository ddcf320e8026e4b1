"""Uniform words and the draws made of them, at the edges of what a kernel is given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from models.dp import discrete
from models.dp.discrete import CHUNK, discrete_laplace, fractions
from models.dp.entropy import system_words


@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_words_are_asked_of_the_operating_system_by_their_number(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """n words are eight bytes each, all of them as they were given."""
    given = np.random.default_rng(1).bytes(8 * size)
    monkeypatch.setattr("secrets.token_bytes", lambda count: given[:count] if count == 8 * size else b"")
    words = system_words(size)
    assert words.dtype == np.uint64
    assert words.tobytes() == given


@pytest.mark.parametrize("scale", [2.0**-10, 1 / 3, 1.0, 2.0**53 - 1, 2.0**53, 2.0**54 + 4, 2.0**56])
def test_a_scale_is_its_fraction(scale: float) -> None:
    """t / 2^k is the float exactly, over the whole range that is allowed."""
    (t,), (k,) = (column.tolist() for column in fractions(np.asarray([scale])))
    assert Fraction(t, 2**k) == Fraction(scale)
    assert 2**52 <= t <= 2**56


def test_draws_of_many_chunks_take_words_as_they_come() -> None:
    """Beyond one chunk each draw stands at its own scale and takes the words after those of the draw before it: the
    same as all words at once."""
    words = np.random.default_rng(2).integers(0, 2**64, size=12 * (CHUNK + 500), dtype=np.uint64)
    scales, which = np.asarray([1.0, 1e9]), np.arange(CHUNK + 500) % 2
    given = [0]

    def some(size: int) -> np.ndarray:
        given[0] += size
        return words[given[0] - size : given[0]]

    drawn = discrete_laplace(scales, which, some)
    assert np.array_equal(drawn, discrete_laplace(scales, which, lambda size: words))
    assert np.median(np.abs(drawn[1::2])) > 1e8
    assert np.abs(drawn[::2]).max() < 1e3
