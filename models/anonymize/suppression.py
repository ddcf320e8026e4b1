"""Which items to suppress so that no minimal violating candidate is left (global suppression).

Suppressing an item leaves every candidate without it unchanged, so hitting each minimal violating candidate once is
enough, provided that relative times keep their original anchor. Sources: tlkc-privacy-extended-2021, Algorithms 1
and 2 (Def. 18-20); `pruned` and `exact` are beyond the paper. For multisets capping the multiplicity of an item is
enough: a cap of c leaves every candidate with at most c of it unchanged and every other without a match.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.anonymize.view import TraceView
from models.eventlog import Ints
from models.variants import amounts, of_events

Candidates = list[tuple[int, ...]]
Caps = dict[int, int]
"""Item code -> most occurrences of it that may stay in a case; 0 suppresses the item."""


FINEST = 1_000_000
"""Denominator of alpha and beta up to which scores are reckoned in 64 bits."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Alpha (privacy gain) and beta (utility loss) of Def. 20, exact."""

    alpha: Fraction = Fraction(1, 2)
    beta: Fraction = Fraction(1, 2)


def algorithm_1(candidates: Candidates, frequent: Candidates, items: int) -> list[int]:
    """Suppressed items in order: highest PG / (UL + 1) first (Def. 18), ties to the smallest item."""
    gain, loss = _Alive(candidates, items), _Alive(frequent, items)
    result = []
    while gain.left:
        # Quotients of small integers are equal as floats exactly when they are equal as fractions.
        winner = int(np.argmax(gain.count / (loss.count + 1)))
        gain.remove(winner)
        loss.remove(winner)
        result.append(winner)
    return result


def algorithm_2(candidates: Candidates, cases_with: Ints, n_cases: int, weights: Weights = Weights()) -> list[int]:
    """Suppressed items in order: highest alpha * rPG + beta * nUL first (Def. 19, 20), ties to the smallest item.

    `cases_with`: int64[items], cases in which each item occurs. Only items of remaining candidates are scored.
    """
    gain = _Alive(candidates, len(cases_with))
    scale = math.lcm(weights.alpha.denominator, weights.beta.denominator)
    kind = np.int64 if scale <= FINEST else object
    alpha, beta, missing = int(weights.alpha * scale), int(weights.beta * scale), (n_cases - cases_with).astype(kind)
    result = []
    while gain.left:
        score = alpha * gain.count.astype(kind) * n_cases + beta * missing * gain.left
        winner = int(np.argmax(np.where(gain.count > 0, score, -1)))
        gain.remove(winner)
        result.append(winner)
    return result


class _Alive:
    """Candidates still to be hit, and in how many of them each item occurs."""

    def __init__(self, candidates: Candidates, items: int) -> None:
        self.sets = [frozenset(candidate) for candidate in candidates]
        self.count = np.zeros(items, dtype=np.int64)
        self.holders: dict[int, list[int]] = {}
        for number, members in enumerate(self.sets):
            for item in members:
                self.count[item] += 1
                self.holders.setdefault(item, []).append(number)
        self.dead = [False] * len(self.sets)
        self.left = len(self.sets)

    def remove(self, item: int) -> None:
        """Drop every candidate that contains the item."""
        for number in self.holders.get(item, ()):
            if not self.dead[number]:
                self.dead[number] = True
                self.left -= 1
                self.count[list(self.sets[number])] -= 1


def losses(view: TraceView) -> list[Ints]:
    """Per item: loss[t - 1] = cases with at least t events of the item = events that the t-th cap level costs."""
    if view.structure == "set":
        return _losses_by_event(view)  # its traces do not say how often a case has an item
    from models.anonymize.kernels import at_least, most_often

    most = np.zeros(len(view.alphabet) + 1, dtype=np.int64)
    most_often(view.starts, view.codes, most[1:])
    begins = np.cumsum(most)
    found = np.zeros(begins[-1], dtype=np.int64)
    at_least(view.starts, view.codes, view.weight, begins, found)
    return [found[low:high] for low, high in itertools.pairwise(begins.tolist())]


def _losses_by_event(view: TraceView) -> list[Ints]:
    """The same for any structure, from the events of each case."""
    item, ordinal = view.item_of_event, view.ordinal_of_event
    order = np.argsort(item, kind="stable")
    bounds = np.searchsorted(item[order], np.arange(len(view.alphabet) + 1))
    cases = of_events(view.cases, view.case_starts)
    parts = [order[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return [amounts(ordinal[part], None if cases is None else cases[part]) for part in parts]


def prune(chosen: Iterable[int], candidates: Candidates, loss: list[Ints]) -> list[int]:
    """The chosen items without those that are not needed, most expensive dropped first."""
    members = [frozenset(candidate) for candidate in candidates]
    hits = np.zeros(len(members), dtype=np.int64)
    holders: dict[int, list[int]] = {item: [] for item in chosen}
    for number, items in enumerate(members):
        for item in items & holders.keys():
            hits[number] += 1
            holders[item].append(number)
    for item in sorted(holders, key=lambda code: (-int(loss[code].sum()), code)):
        if (hits[holders[item]] > 1).all():
            hits[holders[item]] -= 1
            del holders[item]
    return sorted(holders)


def raise_caps(chosen: Iterable[int], candidates: Candidates, loss: list[Ints]) -> Caps:
    """Caps for multisets: each suppressed item gets back as many occurrences as no candidate forbids."""
    caps: Caps = dict.fromkeys(chosen, 0)
    needs = [{item: candidate.count(item) for item in set(candidate)} for candidate in candidates]
    for item in sorted(caps, key=lambda code: (-int(loss[code].sum()), code)):
        rivals = [need for need in needs if item in need and not _hit(need, caps, item)]
        caps[item] = min((need[item] - 1 for need in rivals), default=len(loss[item]))
    return {item: cap for item, cap in caps.items() if cap < len(loss[item])}


def _hit(need: dict[int, int], caps: Caps, besides: int) -> bool:
    return any(item != besides and caps.get(item, count) < count for item, count in need.items())


def cases_with(view: TraceView) -> Ints:
    """Cases in which each item occurs, int64[items]."""
    return np.asarray([int(loss[0]) if len(loss) else 0 for loss in losses(view)], dtype=np.int64)
