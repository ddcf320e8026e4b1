"""Stage 3, re-weighting: how many cases are nearest to each of a public list of traces.

The candidates are known before (stage 1's variants, traces drawn from stage 2's model, a file). Each case goes to its
nearest one (normalised Levenshtein, ties by the order of the list): a function of that case alone, so the cells are a
partition and c cases change them by at most c in L1, however many there are. Discrete Laplace noise of scale c /
epsilon on every cell is epsilon-DP; cells below `DROP` scales are dropped. Every case is in some cell: none is left
out.

The choice of candidates among the drawn traces is post-processing (`representative`): those that bring the others of
the sample nearest, one after another (greedy k-medoids, within 1 - 1/e of the best: the gain is submodular).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from models.dp.noise import NoiseSource, scale_for
from models.dp.synthesis.table import Variant, VariantCounts
from models.eventlog import Floats, Ints
from models.utility.distance import distances, letter

DROP = 2.0
"""Cells below so many scales of the noise are dropped. Of a thousand empty cells 1.5 lets 110 through (a third of the
cases of Sepsis would be invented), 2 lets 70; 2.5 costs as much in small cells as it saves."""

LOW_DROP = 1.0
"""The same for logs of few variants: their rare variants have a cell each, which no other trace is near."""

POOL = 2_000
"""Drawn variants that the representatives bring nearest, the most frequent ones."""

LARGE_POOL = 4_000
"""The same for a few hundred representatives. With 2,000 Sepsis has a similarity of .750 at epsilon 1, not
.752."""

MOST_COMPARED = 2_000_000
"""Representatives times the variants that they bring nearest. A thousand of them represent BPIC 2012 as
well if these are 2,000 (docs/decisions/139)."""

CUTOFFS = (0.2, 0.4, 1.0)
"""Distances within which the nearest candidate is looked for, one after the other.

Of the variants of BPIC 2012 at epsilon 1 half have one within the first, and all but 18 in 4,366 within the
second. The search takes about three quarters of the time of one that compares all lengths within .4.
"""

FREQUENT = 1_500
"""Most frequent variants of a pool among which the representatives are chosen.

With 640 of them three of twenty releases of BPIC 2012 at epsilon .1 had more than one and a half times the
usual DFG error (docs/decisions/141).
"""

CHUNK = 250
"""Variants of similar lengths compared at once."""


def nearest(variants: Sequence[Variant], candidates: Sequence[Variant]) -> Ints:
    """Return the place of the nearest candidate of each variant, int64[V]; the first one of several.

    It is looked for within a small distance first: most candidates of another length need no comparison.
    """
    texts = [_text(variant) for variant in variants]
    candidate_texts = [_text(candidate) for candidate in candidates]
    lengths = np.asarray([len(text) for text in texts], dtype=np.int64)
    candidate_lengths = np.asarray([len(text) for text in candidate_texts], dtype=np.int64)
    place = np.zeros(len(texts), dtype=np.int64)
    unplaced = np.argsort(lengths, kind="stable")  # variants without a place yet, the shortest first
    for cutoff in CUTOFFS:
        found = np.zeros(len(texts), dtype=np.bool_)
        for begin in range(0, len(unplaced), CHUNK):
            chunk = unplaced[begin : begin + CHUNK]
            # Two texts differ by their difference in length at least, as a part of the longer one. One
            # letter more is allowed, so that rounding excludes no candidate: the place of a variant must
            # not depend on the others of its chunk.
            shortest, longest = lengths[chunk[0]], lengths[chunk[-1]]
            long_enough = candidate_lengths + 1 >= (1 - cutoff) * shortest
            short_enough = (1 - cutoff) * candidate_lengths <= longest + 1
            compared = np.flatnonzero(long_enough & short_enough)
            if not len(compared):
                continue
            near = distances(_at(texts, chunk), _at(candidate_texts, compared), cutoff=cutoff)
            place[chunk] = compared[near.argmin(axis=1)]
            found[chunk] = near.min(axis=1) <= cutoff
        unplaced = unplaced[~found[unplaced]]
    return place


def reweigh(
    table: VariantCounts,
    candidates: Sequence[Variant],
    epsilon: Fraction,
    draw: NoiseSource,
    cases_per_person: int = 1,
    drop: float = DROP,
) -> Ints:
    """Return the noisy number of cases in the cell of each candidate.

    A case belongs to the cell of its nearest candidate, so one case changes one number by 1, and the numbers together
    are epsilon-DP. Numbers below `drop` scales of the noise are set to 0.

    Parameters
    ----------
    table
        Variants of the true cases.
    candidates
        Public traces, or traces that follow from noisy outputs.
    epsilon
        The epsilon that the numbers spend.
    draw
        Source of the noise.
    cases_per_person
        Most cases of one person.
    drop
        Scales of the noise below which a number is set to 0: a public choice, or one that reads noisy outputs.

    Returns
    -------
    Ints
        int64[len(candidates)].
    """
    if not candidates:
        return np.zeros(0, dtype=np.int64)
    scale = scale_for(cases_per_person, epsilon)
    cells = np.zeros(len(candidates), dtype=np.int64)
    np.add.at(cells, nearest(table.variants, candidates), table.counts)
    cells += draw.laplace(scale, len(cells))
    return np.asarray(np.where(cells >= drop * scale, cells, 0), dtype=np.int64)


def pool_size(most: int) -> int:
    """Return how many drawn variants so many representatives bring nearest, from an epsilon of a half on.

    Parameters
    ----------
    most
        Most representatives.
    """
    return min(max(MOST_COMPARED // most, POOL), LARGE_POOL)


def representative(
    drawn: Mapping[Variant, int], known_variants: Sequence[Variant], most: int, pool: int = POOL
) -> list[Variant]:
    """Choose at most `most` drawn variants, none of `known_variants`, to represent the sample.

    Each one is the variant that most reduces the mean distance of `pool` variants to those that were chosen
    before. It is one of the `FREQUENT` most frequent ones.
    """
    known = set(known_variants)
    ranked, drawn_of_each = _pool({variant: n for variant, n in drawn.items() if variant not in known}, pool)
    if len(ranked) <= most:
        return ranked
    texts = [_text(variant) for variant in ranked]
    n_frequent = min(max(FREQUENT, most), len(ranked))
    between = distances(texts[:n_frequent], texts, np.float32)
    weights = drawn_of_each.astype(np.float32)
    # The distance of each variant to the nearest one chosen so far.
    to_nearest = np.ones(len(ranked), dtype=np.float32)
    if known_variants:
        to_nearest = distances(texts, [_text(variant) for variant in known_variants], np.float32).min(axis=1)
    nearer = np.empty_like(to_nearest)

    def gain_of(place: int) -> float:
        # Most of the time of the choice: no array is made for a gain.
        np.subtract(to_nearest, between[place], out=nearer)
        np.maximum(nearer, 0, out=nearer)
        return float(weights @ nearer)

    # Entries are (-gain, place, how many were chosen when the gain was computed), the largest gain first.
    # Gains only shrink as the list grows. So an old gain is an upper bound, and most gains are never
    # computed again.
    heap = [(-gain_of(place), place, 0) for place in range(n_frequent)]
    heapq.heapify(heap)
    chosen: list[Variant] = []
    while len(chosen) < most:
        _, place, n_chosen_then = heapq.heappop(heap)
        if n_chosen_then < len(chosen):
            heapq.heappush(heap, (-gain_of(place), place, len(chosen)))
            continue
        chosen.append(ranked[place])
        np.minimum(to_nearest, between[place], out=to_nearest)
    return chosen


def _pool(drawn: Mapping[Variant, int], pool: int) -> tuple[list[Variant], Floats]:
    """Return at most `pool` drawn variants and the weight of each.

    The more frequent half of the pool represents itself. As many of the others, in the order in which they were drawn,
    represent all the others.
    """
    ranked = sorted(drawn, key=lambda variant: -drawn[variant])
    weights = np.asarray([drawn[variant] for variant in ranked], dtype=np.float64)
    if len(ranked) <= pool:
        return ranked, weights
    kept = pool // 2
    less_frequent = np.arange(kept, pool)  # of equal frequency first drawn first: the sort is stable
    weights[less_frequent] *= weights[kept:].sum() / weights[less_frequent].sum()
    return ranked[:pool], weights[:pool]


def _at(texts: Sequence[str], places: Ints) -> list[str]:
    return [texts[place] for place in places.tolist()]


def _text(variant: Variant) -> str:
    """Return a variant as a string, one character a label."""
    return "".join(map(letter, variant))
