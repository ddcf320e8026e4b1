"""Uniform words and the draws made of them, at the edges of what a kernel is given."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest

from models.dp.discrete import CHUNK, discrete_laplace, fractions
from models.dp.entropy import system_words
from tests.oracles.dp import discrete_laplace as discrete_laplace_of_any_size


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


@pytest.mark.parametrize("u", [0, 5, 2**56 - 1])
@pytest.mark.parametrize(("coins", "times"), [(1, 1), (126, 126), (127, 127), (128, 127), (500, 127)])
@pytest.mark.parametrize("negative", [False, True])
def test_a_draw_that_would_leave_64_bits_is_the_last_one_that_does_not(
    u: int, coins: int, times: int, negative: bool
) -> None:
    """At the largest scale, t = 2^56, 127 coins of chance exp(-1) may succeed: u + 127 t fits for every u, up to
    2^63 - 1. A further one is not asked for, so the next word is the sign."""
    t = 2**56
    words = [u, u, *[0, 1] * min(coins, 128), *([1] if coins < 128 else []), int(negative)]  # [0, 1]: heads; [1]: tails
    given = np.asarray([*words, *[9] * 20], dtype=np.uint64)
    drawn = discrete_laplace(np.asarray([float(t)]), np.zeros(1, dtype=np.int64), lambda size: given)
    assert drawn.tolist() == [-(u + t * times) if negative else u + t * times]


@pytest.mark.parametrize("portion", [1, 2, 5, 7, 11, 600])
def test_words_that_end_within_a_draw_are_kept_for_it(portion: int) -> None:
    """Words that come a few at a time, down to none left: each draw is the one of all words at once. Asked for is nine
    words for each draw that is left, less the words that are held, and never fewer than nine."""
    words = np.random.default_rng(3).integers(0, 2**64, size=4000, dtype=np.uint64)
    scales, which = [2.5, 0.3, 1e12], np.arange(90) % 3
    taken, ends, expected = iter(words.tolist()), [0], []
    for one in which:
        expected.append(discrete_laplace_of_any_size(Fraction(scales[one]), lambda: next(taken)))
        ends.append(len(words) - operator.length_hint(taken))
    given, asked = [0], []

    def some(size: int) -> np.ndarray:
        made = max(number for number, end in enumerate(ends) if end <= given[0])
        asked.append((size, max(9 * (90 - made) - (given[0] - ends[made]), 9)))
        given[0] += portion
        return words[given[0] - portion : given[0]]

    assert discrete_laplace(np.asarray(scales), which, some).tolist() == expected
    assert [size for size, _ in asked] == [needed for _, needed in asked]


def test_chunks_bound_how_many_words_are_held() -> None:
    """Words are asked for one chunk at a time: 65,536 draws, nine words each."""
    assert CHUNK == 65_536
    asked: list[int] = []

    def some(size: int) -> np.ndarray:
        asked.append(size)
        return np.random.default_rng(len(asked)).integers(0, 2**64, size=size, dtype=np.uint64)

    discrete_laplace(np.asarray([4.0]), np.zeros(2 * CHUNK + 9, dtype=np.int64), some)
    assert asked[0] == max(asked) == 9 * CHUNK
