"""The automaton of a set of variants and the sampling of whole cases, by fixed inputs and by the slow counterparts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from models.dp import noise
from models.dp.dafsa import Dafsa, minimal_dafsa
from models.dp.sampling import sample_cases
from tests.oracles.dp import right_languages

Variants = list[tuple[int, ...]]


def _languages() -> Iterator[Variants]:
    """Every set of up to three sequences of at most two of two labels, and 150 larger ones of up to five labels."""
    short = [word for length in range(3) for word in itertools.product(range(2), repeat=length)]
    for size in (1, 2, 3):
        yield from (list(chosen) for chosen in itertools.permutations(short, size))
    rng = np.random.default_rng(5)
    for number in range(150):
        labels, length = 2 + number % 4, 1 + number % 7
        words = {tuple(rng.integers(0, labels, rng.integers(0, length + 1)).tolist()) for _ in range(1 + number)}
        yield [list(words)[place] for place in rng.permutation(len(words))]


def test_the_automaton_is_minimal_and_accepts_the_variants_only() -> None:
    """As few states and transitions as the right languages allow; each path spells its variant from state 0 to a
    state that accepts; the words of the automaton are the variants and no others."""
    for variants in _languages():
        automaton = minimal_dafsa(variants)
        assert (automaton.n_states, automaton.n_transitions) == right_languages(variants), variants
        assert len(automaton.path) == sum(map(len, variants))
        for number, variant in enumerate(variants):
            path = automaton.path[automaton.starts[number] : automaton.starts[number + 1]]
            assert tuple(automaton.label[path].tolist()) == variant
            states = [0, *automaton.target[path].tolist()]
            assert automaton.source[path].tolist() == states[:-1]
            assert automaton.final[states[-1]]
        assert sorted(_words(automaton)) == sorted(variants)


def _words(automaton: Dafsa) -> list[tuple[int, ...]]:
    rows = list(zip(automaton.source.tolist(), automaton.label.tolist(), automaton.target.tolist(), strict=True))
    found, ends = [], [(0, ())]
    while ends:
        state, word = ends.pop()
        if automaton.final[state]:
            found.append(word)
        ends += [(target, (*word, label)) for source, label, target in rows if source == state]
    return found


def test_states_are_numbered_as_the_sorted_variants_reach_them() -> None:
    """ab, ac, b: the root 0; a leads to 1; every end is one state, reached from 1 first. Transitions are in order of
    state and label; the path of each variant names them, whatever the order of the variants."""
    automaton = minimal_dafsa([(1,), (0, 2), (0, 1)])
    assert automaton.source.tolist() == [0, 0, 1, 1]
    assert automaton.label.tolist() == [0, 1, 1, 2]
    assert automaton.target.tolist() == [1, 2, 2, 2]
    assert automaton.final.tolist() == [False, False, True]
    assert automaton.starts.tolist() == [0, 1, 3, 5]
    assert automaton.path.tolist() == [1, 0, 3, 0, 2]
    assert [column.dtype for column in (automaton.source, automaton.label, automaton.target)] == [np.int32] * 3


def test_the_automaton_of_nothing() -> None:
    """The empty variant alone is one state that accepts; no variant is one that does not."""
    for variants, accepts in (([()], [True]), ([], [False])):
        automaton = minimal_dafsa(variants)
        assert (automaton.final.tolist(), automaton.n_transitions) == (accepts, 0)
        assert automaton.starts.tolist() == [0] * (len(variants) + 1)


class ScriptedWords(noise.NoiseSource):
    """The words that are given, and the transitions in the order of their numbers (or backwards)."""

    __slots__ = ("asked", "backwards", "given")

    def __init__(self, given: Sequence[int], *, backwards: bool = False) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "backwards", backwards)
        object.__setattr__(self, "asked", [])

    def words(self, size: int) -> np.ndarray:
        self.asked.append(size)
        return np.asarray(self.given, dtype=np.uint64)

    def weighted_order(self, weights: np.ndarray) -> np.ndarray:
        self.asked.append(weights.tolist())
        order = np.arange(len(weights), dtype=np.int64)
        return order[::-1].copy() if self.backwards else order


def by_hand(
    automaton: Dafsa, variant_of_case: Sequence[int], needed: Sequence[int], given: Sequence[int], backwards: bool
) -> tuple[list[int], list[int], list[int]]:
    """Algorithm 1, lines 8-25, over lists of instances: a copy is of a source case that passes the transition, a
    deletion of an instance that is there, counted variant by variant and case by case."""
    words = iter(given)
    cases = range(len(variant_of_case))
    paths = [automaton.path[a:b].tolist() for a, b in itertools.pairwise(automaton.starts)]
    copies = [1 for _ in cases]
    moves = [[0] * len(needed), [0] * len(needed)]

    def below(bound: int) -> int:
        while True:
            word = next(words)
            if word < (2**64 - 1) // bound * bound:
                return word % bound

    order = [one for one in range(len(needed)) if needed[one] and any(one in paths[v] for v in variant_of_case)]
    order = order[::-1] if backwards else order
    for one in [*order, *(one for one in order if needed[one] < 0)]:
        adds = needed[one] > 0
        while moves[not adds][one] < abs(needed[one]):
            there = sorted(
                (case for case in cases if one in paths[variant_of_case[case]]),
                key=lambda case: (variant_of_case[case], case),
            )
            instances = there if adds else [case for case in there for _ in range(copies[case])]
            if not instances:
                break
            case = instances[below(len(instances))]
            copies[case] += 1 if adds else -1
            for passed in paths[variant_of_case[case]]:
                moves[not adds][passed] += 1
    return copies, moves[0], moves[1]


@pytest.mark.parametrize("backwards", [False, True])
def test_moves_are_those_of_the_algorithm(backwards: bool) -> None:
    """Word by word the compiled sampling makes the moves that lists of instances make: copies and deletions, cases
    that run out, variants without a case, words that would favour one and are passed over."""
    rng = np.random.default_rng(11)
    for _ in range(120):
        variants = list({tuple(rng.integers(0, 3, rng.integers(1, 4)).tolist()) for _ in range(5)})
        automaton = minimal_dafsa(variants)
        variant_of_case = rng.integers(0, len(variants), rng.integers(1, 9))
        needed = rng.integers(-6, 7, automaton.n_transitions)
        words = rng.integers(0, 2**64, size=2000, dtype=np.uint64)
        words[rng.random(2000) < 0.2] = 2**64 - 1
        sampled = sample_cases(automaton, variant_of_case, needed, ScriptedWords(words.tolist(), backwards=backwards))
        expected = by_hand(automaton, variant_of_case.tolist(), needed.tolist(), words.tolist(), backwards)
        assert (sampled.copies.tolist(), sampled.added.tolist(), sampled.removed.tolist()) == expected


def test_the_edge_of_a_fair_ticket() -> None:
    """Of three cases a word is taken below 3 * ((2^64 - 1) // 3), and that one and all above are passed over."""
    automaton = minimal_dafsa([(0,)])
    edge = (2**64 - 1) // 3 * 3
    for first, copied in ((edge - 1, 2), (edge, 1), (2**64 - 1, 1)):
        sampled = sample_cases(automaton, np.zeros(3, dtype=np.int64), np.asarray([1]), ScriptedWords([first, 1, 0]))
        assert np.flatnonzero(sampled.copies == 2).tolist() == [copied], first


def test_what_is_asked_of_the_source() -> None:
    """One order, by how many cases pass each transition that has moves to make and a case; and a word a move, with
    64 to spare. Variants without a case or without noise are not requested."""
    automaton = minimal_dafsa([(0,), (1,), (2,), (3,)])
    source = ScriptedWords([0] * 100)
    sampled = sample_cases(automaton, np.asarray([0, 0, 1, 2]), np.asarray([2, 0, -1, 5]), source)
    assert source.asked == [[2, 1], 3 + 64]
    assert sampled.copies.tolist() == [3, 1, 1, 0]
    assert (sampled.added.tolist(), sampled.removed.tolist()) == ([2, 0, 0, 0], [0, 0, 1, 0])


def test_a_deletion_that_found_no_case_is_made_where_copies_brought_one() -> None:
    """The deletions of a come first and take its only case; b then copies it back (it copies source cases); the second
    pass over a makes the deletion that it still owed. A third pass there is none."""
    automaton = minimal_dafsa([(0, 1)])
    sampled = sample_cases(automaton, np.asarray([0]), np.asarray([-2, 2]), ScriptedWords([0] * 80))
    assert (sampled.copies.tolist(), sampled.added.tolist(), sampled.removed.tolist()) == ([1], [2, 2], [2, 2])
