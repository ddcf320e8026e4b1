"""Linkability: two halves of the knowledge about one person lead to the same released record.

The case of a target is cut into two views. Each view is compared with the release alone, and its nearest records are
its candidates. The attack succeeds if the views have a candidate in common: somebody who holds both views, from two
sources, then knows that they are about one person. The files do not say which record stems from whom, so
agreement is what is counted (as Anonymeter does for tables).

Among records at the same distance the candidates are random. The probability that both views have one in common is
computed, not drawn: equal records are the rule in anonymized logs, and drawing would add noise to the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

from models.content_free import content_free
from models.disclosure.intervals import AttackRisk, Successes, TargetResults, against_guess, compared
from models.disclosure.material import Material
from models.eventlog import Codes, Ints

CANDIDATES = 5
"""Nearest records of a view; of records at the same distance, those are random."""

EXACT = 100
"""A computed probability counts as known from so many draws, for the effective number of targets."""

Halves = Callable[[Codes], tuple[Codes, Codes]]


def _odd_and_even(trace: Codes) -> tuple[Codes, Codes]:
    return trace[::2], trace[1::2]


def _early_and_late(trace: Codes) -> tuple[Codes, Codes]:
    middle = (len(trace) + 1) // 2
    return trace[:middle], trace[middle:]


VIEWS: Mapping[str, Halves] = {"odd and even items": _odd_and_even, "early and late items": _early_and_late}
"""The ways in which a case is cut into two views."""

ATTRIBUTES = "items and attributes"
"""The two views of a case if its attributes are known: the first half of its items, and its attributes."""


def linkability(
    material: Material,
    targets: Ints,
    controls: Ints,
    measures: int,
) -> dict[str, AttackRisk | None]:
    """Return the risk by the way in which cases are cut into two views.

    It is None for a way by which no target, or no case of the control, can be cut.

    Parameters
    ----------
    material
        Original, control and release in one coding.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    """
    original, control, _ = material.rows(material.traces)
    sides = ((targets, original), (controls, control))
    result: dict[str, AttackRisk | None] = {}
    for name, cut in VIEWS.items():
        agreements = [_agreements(material, cases, rows, cut) for cases, rows in sides]
        result[name] = _risk(material, agreements, measures)
    if len(material.traces.values):
        agreements = [_attribute_agreements(material, cases, rows) for cases, rows in sides]
        result[ATTRIBUTES] = _risk(material, agreements, measures)
    return result


def _risk(material: Material, agreements: list[Successes | None], measures: int) -> AttackRisk | None:
    original, control = agreements
    if original is None:
        return None
    if not material.n_control:
        chance = _chance(material.n_released)
        return against_guess(float(original.share.sum()), len(original.share), chance)
    return None if control is None else compared(TargetResults(original, control), measures)


def _chance(records: int) -> float:
    """Probability that two random choices of the candidates have one in common."""
    k = min(CANDIDATES, records)
    apart = 1.0
    for n_drawn in range(k):
        apart *= max(records - k - n_drawn, 0) / (records - n_drawn)
    return 1 - apart


def _agreements(material: Material, cases: Ints, row_of_case: Ints, cut: Halves) -> Successes | None:
    """Return how likely each target's views agree; None if no target can be cut in two."""
    lengths = np.diff(material.traces.starts)[row_of_case[cases]]
    chosen = cases[lengths >= 2]
    if not len(chosen):
        return None
    # Cases of one row have the same views.
    rows, place_of_case = np.unique(row_of_case[chosen], return_inverse=True)
    views = [cut(material.trace(row)) for row in rows.tolist()]
    first = _Nearest(material, [view for view, _ in views])
    second = _Nearest(material, [view for _, view in views])
    agreed = np.zeros(len(rows))
    for number in range(len(rows)):
        agreed[number] = _agreement(first.candidates(number), second.candidates(number), first.weight)
    return Successes(chosen, agreed[place_of_case], EXACT)


def _attribute_agreements(material: Material, cases: Ints, row_of_case: Ints) -> Successes | None:
    """As `_agreements`, for a view of the items and one of the attributes."""
    lengths = np.diff(material.traces.starts)
    chosen = cases[lengths[row_of_case[cases]] > 0]
    if not len(chosen):
        return None
    rows, place_of_case = np.unique(row_of_case[chosen], return_inverse=True)
    early_views = []
    for row in rows.tolist():
        early, _ = _early_and_late(material.trace(row))
        early_views.append(early)
    nearest = _Nearest(material, early_views)
    agreed = np.zeros(len(rows))
    for number, row in enumerate(rows.tolist()):
        alike = np.flatnonzero(material.same_attributes(row, nearest.rows))
        by_attributes = _Candidates.of([alike] if len(alike) else [], nearest.weight)
        agreed[number] = _agreement(nearest.candidates(number), by_attributes, nearest.weight)
    return Successes(chosen, agreed[place_of_case], EXACT)


@content_free("drawn")
@dataclass(frozen=True, slots=True)
class _Candidates:
    """The candidates of a view: all records of some rows, and some random records of further rows.

    Parameters
    ----------
    certain
        int64[A], rows (places in `_Nearest.rows`) whose records are all candidates.
    tied
        int64[B], rows at the same distance, of whose records `drawn` random ones are candidates.
    drawn
        How many.
    """

    certain: Ints
    tied: Ints
    drawn: int

    @classmethod
    def of(cls, levels: Sequence[Ints], weight: Ints) -> _Candidates:
        """Return the candidates among rows by distance, nearest first."""
        certain = np.zeros(0, dtype=np.int64)
        records_missing = CANDIDATES
        for places in levels:
            records = int(weight[places].sum())
            if records > records_missing:
                return cls(certain, places, records_missing)
            certain = np.concatenate((certain, places))
            records_missing -= records
        return cls(certain, np.zeros(0, dtype=np.int64), 0)


def _agreement(first: _Candidates, second: _Candidates, weight: Ints) -> float:
    """Return the probability that two views have a candidate in common.

    It is 1 if they have a certain candidate in common. Otherwise pairs of draws are counted that have none in common.
    The first draw avoids the certain candidates of the second view. Let `shared` of its records be among the tied
    records of the second view. The second draw then avoids these, and the certain candidates of the first view.
    """

    def records(places: Ints, other_places: Ints) -> int:
        return int(weight[np.intersect1d(places, other_places, assume_unique=True)].sum())

    if records(first.certain, second.certain):
        return 1.0
    size = int(weight[first.tied].sum())
    other_size = int(weight[second.tied].sum())
    free = size - records(first.tied, second.certain)
    other_free = other_size - records(second.tied, first.certain)
    both = records(first.tied, second.tied)
    apart = 0
    for shared in range(min(first.drawn, both) + 1):
        first_draws = math.comb(both, shared) * math.comb(max(free - both, 0), first.drawn - shared)
        second_draws = math.comb(max(other_free - shared, 0), second.drawn)
        apart += first_draws * second_draws
    all_pairs = math.comb(size, first.drawn) * math.comb(other_size, second.drawn)
    return 1 - apart / all_pairs


class _Nearest:
    """Nearest released records of several views.

    A record is nearer if it lacks fewer items of the view (longest common subsequence), and of records that lack as
    many, if its length is nearer to twice that of the view, which is half of a case.
    """

    def __init__(self, material: Material, views: list[Codes]) -> None:
        self.rows, texts = material.shown_texts
        self.weight = material.released_weight[self.rows]
        lengths = np.diff(material.traces.starts)[self.rows]
        sizes = np.asarray([len(view) for view in views], dtype=np.int64)
        queries = [material.text(view) for view in views]
        shared = cdist(queries, texts, scorer=LCSseq.similarity, dtype=np.int32)
        lacking = sizes[:, None] - shared
        length_difference = np.abs(lengths[None, :] - 2 * sizes[:, None])
        # One number for both: a lacking item weighs more than any difference of lengths.
        weight_of_item = int(lengths.max()) + 2 * int(sizes.max()) + 1
        self._distance = lacking * weight_of_item
        self._distance += length_difference

    def candidates(self, view: int) -> _Candidates:
        """Return the candidates of a view."""
        distance = self._distance[view]
        kth = min(CANDIDATES, len(distance))
        near = np.flatnonzero(distance <= np.partition(distance, kth - 1)[kth - 1])
        levels = [near[distance[near] == level] for level in np.unique(distance[near])]
        return _Candidates.of(levels, self.weight)
