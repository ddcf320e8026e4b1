"""Stage 3, re-weighting: how many cases are nearest to each of a public list of traces.

The candidates are known before (stage 1's variants, traces drawn from stage 2's model, a file). Each case goes to its
nearest one (normalised Levenshtein, ties by the order of the list): a function of that case alone, so the cells are a
partition and c cases change them by at most c in L1, however many there are. Discrete Laplace noise of scale c /
epsilon on every cell is epsilon-DP; cells below `DROP` scales are dropped. Every case is in some cell: none is left
out.

The choice of candidates among the drawn traces is post-processing (`representative`): those that bring the others of
the sample nearest, one after another (greedy k-medoids; the gain is submodular).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain, pairwise

import numpy as np
import numpy.typing as npt

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

CUTOFFS = (0.2, 0.3, 0.4, 1.0)
"""Distances within which the nearest candidate is looked for, one after the other.

Of the variants of BPIC 2012 at epsilon 1 half have one within the first, and all but 18 in 4,366 within .4.
"""

FREQUENT = 1_500
"""Most frequent variants of a pool among which the representatives are chosen.

With 640 of them three of twenty releases of BPIC 2012 at epsilon .1 had more than one and a half times the
usual DFG error (docs/decisions/141).
"""

FIRST = 500
"""Most frequent variants of a pool among which the first representatives are chosen, to bring these near."""

PART_OF_FIRST = 0.35
"""Part of the representatives that are chosen first. The mean distance of the pool is within a hundredth of
the one with all chosen at once, and the choice takes two thirds of the time or less (docs/decisions/144)."""

CHUNK = 100
"""Variants of similar lengths compared at once."""


def nearest(variants: Sequence[Variant], candidates: Sequence[Variant]) -> Ints:
    """Return the place of the nearest candidate of each variant, int64[V]; the first one of several."""
    place, _ = _nearest(_texts(variants), _texts(candidates))
    return place


def _nearest(texts: Sequence[str], candidates: Sequence[str]) -> tuple[Ints, Floats]:
    """Return the place of the nearest candidate of each text, and the distance to it.

    Of several it is the first one. It is looked for within a small distance first: most candidates of another
    length need no comparison.
    """
    lengths, candidate_lengths = _lengths(texts), _lengths(candidates)
    # A text that is a candidate is nearest to itself.
    place_of_candidate = {candidate: place for place, candidate in reversed(list(enumerate(candidates)))}
    place = np.asarray([place_of_candidate.get(text, -1) for text in texts], dtype=np.int64)
    distance = np.where(place >= 0, 0.0, 1.0)
    unplaced = np.flatnonzero(place < 0)
    unplaced = unplaced[np.argsort(lengths[unplaced], kind="stable")]  # the shortest first
    for cutoff in CUTOFFS:
        for begin in range(0, len(unplaced), CHUNK):
            chunk = unplaced[begin : begin + CHUNK]
            compared = _may_be_within(cutoff, lengths[chunk], candidate_lengths)
            if not len(compared):
                continue
            near = distances(_at(texts, chunk), _at(candidates, compared), cutoff=cutoff)
            place[chunk] = compared[near.argmin(axis=1)]
            distance[chunk] = near.min(axis=1)
        unplaced = unplaced[distance[unplaced] > cutoff]
    return place, distance


def _may_be_within(cutoff: float, lengths: Ints, candidate_lengths: Ints) -> Ints:
    """Return the places of the candidates that one of some texts may be within a distance of.

    Parameters
    ----------
    cutoff
        The distance, 0 to 1.
    lengths
        Lengths of the texts, the shortest first.
    candidate_lengths
        Length of each candidate.
    """
    # Two texts differ by their difference in length at least, as a part of the longer one. One letter more
    # is allowed, so that rounding excludes no candidate: the place of a text must not depend on the texts
    # that are compared with it.
    long_enough = candidate_lengths + 1 >= (1 - cutoff) * lengths[0]
    short_enough = (1 - cutoff) * candidate_lengths <= lengths[-1] + 1
    return np.flatnonzero(long_enough & short_enough)


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
    before. It is one of the `FREQUENT` most frequent ones; the first ones are found among the `FIRST` most
    frequent ones alone.
    """
    known = set(known_variants)
    ranked, weights = _pool({variant: n for variant, n in drawn.items() if variant not in known}, pool)
    if len(ranked) <= most:
        return ranked
    texts = _texts(ranked)
    _, to_nearest = _nearest(texts, _texts(known_variants))

    # A few representatives, chosen among a few texts, bring all texts so near that most of the distances
    # between all texts cannot matter any more.
    few = texts[:FIRST]
    n_first = min(int(PART_OF_FIRST * most), len(few))
    chosen = _chosen(few, weights[:FIRST], to_nearest[:FIRST], n_first, len(few))
    _, to_first = _nearest(texts, [texts[place] for place in chosen])
    to_nearest = np.minimum(to_nearest, to_first)
    chosen += _chosen(texts, weights, to_nearest, most - len(chosen), max(FREQUENT, most))
    return [ranked[place] for place in chosen]


def _chosen(
    texts: Sequence[str],
    weights: Floats,
    to_nearest: Floats,
    most: int,
    n_frequent: int,
) -> list[int]:
    """Return the places of so many texts that bring all texts nearest, in the order of the choice.

    Parameters
    ----------
    texts
        All texts, the most frequent ones first.
    weights
        float64[texts], what each of them weighs.
    to_nearest
        float64[texts], distance of each text to the nearest one chosen before.
    most
        How many are chosen.
    n_frequent
        They are some of so many most frequent texts.
    """
    order, between = _compared(texts, texts[:n_frequent], to_nearest)
    left = to_nearest[order].astype(np.float32)
    weights = weights[order].astype(np.float32)
    nearer = np.empty_like(left)

    def gain_of(place: int) -> float:
        # Most of the time of the choice: no array is made for a gain.
        np.subtract(left, between[place], out=nearer)
        np.maximum(nearer, 0, out=nearer)
        return float(weights @ nearer)

    # Entries are (-gain, place, how many were chosen when the gain was computed), the largest gain first.
    # Gains only shrink as the list grows. So an old gain is an upper bound, and most gains are never
    # computed again. What was chosen, now or before, has no gain any more.
    heap = [(-gain_of(place), place, 0) for place in range(len(between))]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < most:
        _, place, n_chosen_then = heapq.heappop(heap)
        if n_chosen_then < len(chosen):
            heapq.heappush(heap, (-gain_of(place), place, len(chosen)))
            continue
        chosen.append(place)
        np.minimum(left, between[place], out=left)
    return chosen


def _compared(texts: Sequence[str], frequent: Sequence[str], limits: Floats) -> tuple[Ints, npt.NDArray[np.float32]]:
    """Return the distances of texts from the frequent ones, as far as they are below a limit for each text.

    Parameters
    ----------
    texts, frequent
        The texts. A frequent one is among them too.
    limits
        float64[texts]. The distance of a text that is not below it may be 1 instead.

    Returns
    -------
    order : int64[texts]
        Place of the text of each column.
    between : float32[frequent, texts]
        Distance of each frequent text from the text of each column.
    """
    lengths, frequent_lengths = _lengths(texts), _lengths(frequent)
    # Texts with about the same limit and about the same length are compared at once.
    group = np.searchsorted(CUTOFFS, limits)
    order = np.lexsort((lengths, group)).astype(np.int64)
    group_starts = np.searchsorted(group[order], range(len(CUTOFFS) + 1)).tolist()
    between = np.ones((len(frequent), len(texts)), dtype=np.float32)
    for group_begin, group_end in pairwise(group_starts):
        for begin in range(group_begin, group_end, CHUNK):
            end = min(begin + CHUNK, group_end)
            chunk = order[begin:end]
            limit = float(limits[chunk].max())
            near = _may_be_within(limit, lengths[chunk], frequent_lengths)
            if len(near):
                rows, columns = _at(frequent, near), _at(texts, chunk)
                between[near, begin:end] = distances(rows, columns, np.float32, limit)
    return order, between


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


def _lengths(texts: Sequence[str]) -> Ints:
    return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def _at(texts: Sequence[str], places: Ints) -> list[str]:
    return [texts[place] for place in places.tolist()]


def _texts(variants: Sequence[Variant]) -> list[str]:
    """Return each variant as a string, one character a label."""
    labels = list(chain.from_iterable(variants))
    letters = {label: letter(label) for label in set(labels)}
    text = "".join([letters[label] for label in labels])
    return [text[begin:end] for begin, end in pairwise(accumulate(map(len, variants), initial=0))]
