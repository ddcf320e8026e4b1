"""Discrete Laplace draws from 64-bit words, word by word against whole numbers of any size."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest

from models.dp import noise
from models.dp.discrete import CHUNK, discrete_laplace, fractions, system_words
from tests.oracles.dp import discrete_laplace as reference


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
    """Beyond one chunk each draw is at its own scale and takes the words after those of the draw before it: the
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
        expected.append(reference(Fraction(scales[one]), lambda: next(taken)))
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


@pytest.mark.parametrize("scale", [2.0**-10, 0.3, 1.0, 6.5, 2.0**20 / 0.811, 1e9, 2.0**53 + 2, 2.0**56])
def test_bulk_draws_are_those_of_whole_numbers_of_any_size(scale: float) -> None:
    """Draw by draw the 64-bit kernel does with its words what the algorithm does with whole numbers of any size."""
    words = np.random.default_rng(8).integers(0, 2**64, size=8000, dtype=np.uint64)
    drawn = discrete_laplace(np.asarray([scale]), np.zeros(200, dtype=np.int64), lambda size: words)
    following = iter(words.tolist())
    assert drawn.tolist() == [reference(Fraction(scale), lambda: next(following)) for _ in range(200)]


@pytest.mark.parametrize("scale", [0.3, 6.5, 2.0**20 / 0.811, 2.0**56])
def test_words_at_the_edge_of_a_bound_are_passed_over(scale: float) -> None:
    """Words that would make remainders uneven are so rare that random ones never are: they are given here. The kernel
    takes and passes over the same ones as whole numbers of any size do."""
    bounds = [2, 3, 5, 6, 7, *(int(t) for t in fractions(np.asarray([scale]))[0])]
    largest_word = 2**64 - 1
    edges = []
    for bound in bounds:
        edge = largest_word - largest_word % bound
        edges += [edge - 1, edge, edge + 1]
    rng = np.random.default_rng(6)
    words = rng.integers(0, 2**64, size=20_000, dtype=np.uint64)
    given = np.asarray([edge for edge in [0, 2**64 - 1, *edges] if edge < 2**64], dtype=np.uint64)
    replaced = rng.random(len(words)) < 0.5
    words[replaced] = rng.choice(given, size=int(replaced.sum()))
    drawn = discrete_laplace(np.asarray([scale]), np.zeros(200, dtype=np.int64), lambda size: words)
    following = iter(words.tolist())
    assert drawn.tolist() == [reference(Fraction(scale), lambda: next(following)) for _ in range(200)]


def test_bulk_words_are_those_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulk draws of a private source are a function of the bytes that `secrets` gave, and of nothing else."""
    given = np.random.default_rng(4).bytes(8 * 4000)
    taken = [0]

    def token_bytes(size: int) -> bytes:
        taken[0] += size
        return given[taken[0] - size : taken[0]]

    monkeypatch.setattr("secrets.token_bytes", token_bytes)
    drawn = noise.SECURE.laplace_each(np.asarray([6.5]), np.zeros(100, dtype=np.int64))
    words = iter(np.frombuffer(given, dtype=np.uint64).tolist())
    assert drawn.tolist() == [reference(Fraction(13, 2), lambda: next(words)) for _ in range(100)]


def test_fractions_are_the_floats() -> None:
    """Numerator and shift give back the float exactly, over the whole range of scales."""
    scales = np.ldexp(np.random.default_rng(3).uniform(0.5, 1, 1000), np.random.default_rng(4).integers(-9, 57, 1000))
    for scale, t, k in zip(scales.tolist(), *(column.tolist() for column in fractions(scales)), strict=True):
        assert Fraction(t, 2**k) == Fraction(scale)
        assert t <= 2**56
        assert k <= 62
