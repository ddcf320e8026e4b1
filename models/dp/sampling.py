"""Case sampling: how the noise of the transition counts becomes copies and deletions of whole cases.

Source: differentially-private-release-2023, definitions 3.12-3.14 and algorithm 1, lines 8-25. Every transition has a
number of moves to make (its noise). While one has moves left, a transition is picked at random (weighted by its count),
then as many random cases that pass it as it lacks; a picked case is copied or deleted whole, and counts as a move of
every transition on its path. Copies and deletions are counted apart, so the loop ends: the paper's condition
|added| < |needed| alone could walk forever between the two. A transition that has no case left is done (its noisy
count is rounded up to 0), unless later copies bring it one: a second pass makes the deletions that it still owes. No
variant appears that was not there (requirement R1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.compiled import kernel
from models.content_free import content_free
from models.dp.dafsa import Dafsa
from models.dp.discrete import Words
from models.dp.noise import NoiseSource
from models.eventlog import Codes, Ints, starts_of

SPARE_WORDS = 64
"""Words beyond one a move: a word is drawn again with chance below 2^-32, so these are never used up."""


@content_free()
@dataclass(frozen=True, slots=True)
class Sampled:
    """The moves of the sampling step.

    Attributes
    ----------
    copies : int64[C]
        Instances of each source case in the released log (0: deleted, 1: as it was, 2: ...).
    added, removed : int64[T]
        Moves made on each transition.
    """

    copies: Ints
    added: Ints
    removed: Ints


def sample_cases(dafsa: Dafsa, variant_of_case: Ints, needed: Ints, draw: NoiseSource) -> Sampled:
    """Copy and delete cases until every transition has made its moves.

    Parameters
    ----------
    dafsa
        The automaton of the variants, with T transitions.
    variant_of_case
        int64[C].
    needed
        int64[T], moves of each transition: copies if positive, deletions if negative.
    draw
        Source of the random choices.
    """
    n_variants = len(dafsa.starts) - 1
    counts = np.bincount(variant_of_case, minlength=n_variants).astype(np.int64)
    owner = np.repeat(np.arange(n_variants, dtype=np.int64), np.diff(dafsa.starts))
    by_transition = np.argsort(dafsa.path, kind="stable")
    weight = np.bincount(dafsa.path, weights=counts[owner], minlength=dafsa.n_transitions).astype(np.int64)
    pending = np.flatnonzero((needed != 0) & (weight > 0))
    order = pending[draw.weighted_order(weight[pending])]
    # Deletions come once more at the end, when all copies exist that they may take.
    rounds = np.concatenate((order, order[needed[order] < 0]))
    # Variants through each transition: a path of an acyclic automaton passes it once.
    variants = owner[by_transition]
    variant_starts = np.searchsorted(dafsa.path[by_transition], np.arange(dafsa.n_transitions + 1))
    cases_by_variant = np.argsort(variant_of_case, kind="stable")
    n_words = int(np.abs(needed[pending]).sum()) + SPARE_WORDS
    copies = np.ones(len(variant_of_case), dtype=np.int64)
    moves = np.zeros((2, dafsa.n_transitions), dtype=np.int64)
    _make_moves(
        rounds,
        needed,
        variants,
        variant_starts,
        dafsa.starts,
        dafsa.path,
        cases_by_variant,
        starts_of(counts),
        draw.words(n_words),
        copies,
        moves,
    )
    return Sampled(copies, moves[0], moves[1])


@kernel
def _make_moves(
    order: Ints,
    needed: Ints,
    passing: Ints,
    passing_begins: Ints,
    starts: Ints,
    path: Codes,
    cases: Ints,
    case_begins: Ints,
    words: Words,
    copies: Ints,
    moves: Ints,
) -> None:
    """Work through the transitions in `order`, changing `copies` and `moves`.

    Copies are of source cases, each with equal chance; deletions of instances present, each with equal chance.
    """
    used = 0
    counts = np.diff(case_begins)
    alive = counts.copy()
    for transition in order:
        kind = 0 if needed[transition] > 0 else 1
        through = passing[passing_begins[transition] : passing_begins[transition + 1]]
        instances = counts if kind == 0 else alive
        present = instances[through].sum()
        while moves[kind, transition] < abs(needed[transition]) and present > 0:
            bound = np.uint64(present)
            while words[used] >= (np.uint64(0xFFFFFFFFFFFFFFFF) // bound) * bound:
                used += 1
            ticket = np.int64(words[used] % bound)
            used += 1
            place = 0
            while ticket >= instances[through[place]]:
                ticket -= instances[through[place]]
                place += 1
            variant = through[place]
            if kind == 0:
                copies[cases[case_begins[variant] + ticket]] += 1
                alive[variant] += 1
            else:
                position = case_begins[variant]
                while ticket >= copies[cases[position]]:
                    ticket -= copies[cases[position]]
                    position += 1
                copies[cases[position]] -= 1
                alive[variant] -= 1
                present -= 1
            for position in range(starts[variant], starts[variant + 1]):
                moves[kind, path[position]] += 1
