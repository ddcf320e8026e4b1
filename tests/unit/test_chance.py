"""Draws by the block are uniform: a word's first bits, drawn again where they reach the bound."""

from __future__ import annotations

import secrets
from collections import Counter

import numpy as np
import pytest

from models.chance import BLOCK, Chance


def _words(monkeypatch: pytest.MonkeyPatch, *words: int) -> None:
    drawn = np.resize(np.asarray(words, dtype=np.uint64), BLOCK).tobytes()
    monkeypatch.setattr(secrets, "token_bytes", lambda size: drawn[:size])


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8])
def test_every_number_reads_as_many_words(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    _words(monkeypatch, *(first << 61 for first in range(8)))  # every beginning of three bits once
    chance = Chance()
    counts = Counter(chance.below(bound) for _ in range(120 * bound))
    assert counts == dict.fromkeys(range(bound), 120)


def test_a_word_that_reaches_the_bound_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    _words(monkeypatch, 3 << 62, 1 << 62)
    assert [Chance().below(3) for _ in range(2)] == [1, 1]


def test_the_widest_bound_takes_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    _words(monkeypatch, (1 << 64) - 1, 7)
    chance = Chance()
    assert [chance.below(1 << 64), chance.below(1 << 64)] == [(1 << 64) - 1, 7]


def test_two_sources_have_nothing_in_common() -> None:
    one, other = Chance(), Chance()
    assert [one.below(1 << 64) for _ in range(4)] != [other.below(1 << 64) for _ in range(4)]
