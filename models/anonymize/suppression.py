"""Global suppression: the items to suppress so that no minimal violating candidate is left.

Suppressing an item changes no candidate without it. Therefore it is enough that each minimal violating candidate loses
one item, provided that relative times keep their original anchor. For multisets it is enough to cap the multiplicity of
an item: with a cap of c, candidates with at most c of the item do not change, and no case matches any other.

`pruned` and `exact` are not in the paper.

References
----------
tlkc-privacy-extended-2021, Algorithms 1 and 2 (Def. 18-20).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
    """Return suppressed items in order: highest PG / (UL + 1) first (Def. 18), ties to the smallest item."""
    gain, loss = _Alive(candidates, items), _Alive(frequent, items)
    result = []
    while gain.sets_left:
        # Quotients of small integers are equal as floats exactly when they are equal as fractions.
        winner = int(np.argmax(gain.count / (loss.count + 1)))
        gain.remove(winner)
        loss.remove(winner)
        result.append(winner)
    return result


def algorithm_2(candidates: Candidates, cases_with: Ints, n_cases: int, weights: Weights = Weights()) -> list[int]:
    """Return suppressed items in order: highest alpha * rPG + beta * nUL first (Def. 19, 20), ties to the least item.

    `cases_with`: int64[items], cases in which each item occurs. Only items of remaining candidates are scored.
    """
    gain = _Alive(candidates, len(cases_with))
    scale = math.lcm(weights.alpha.denominator, weights.beta.denominator)
    kind = np.int64 if scale <= FINEST else object
    alpha, beta = int(weights.alpha * scale), int(weights.beta * scale)
    missing = (n_cases - cases_with).astype(kind)
    result = []
    while gain.sets_left:
        score = alpha * gain.count.astype(kind) * n_cases + beta * missing * gain.sets_left
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
        self.sets_left = len(self.sets)

    def remove(self, item: int) -> None:
        """Drop every candidate that contains the item."""
        for number in self.holders.get(item, ()):
            if not self.dead[number]:
                self.dead[number] = True
                self.sets_left -= 1
                self.count[list(self.sets[number])] -= 1


def losses(view: TraceView) -> list[Ints]:
    """Return for each item the cost of its cap levels.

    loss[t - 1]: cases with at least t events of the item, which is the number of events that the t-th level costs.
    """
    if view.structure == "set":
        return _losses_by_event(view)  # its traces do not show how often a case has an item
    from models.anonymize.kernels import at_least, most_often

    most = np.zeros(len(view.alphabet) + 1, dtype=np.int64)
    most_often(view.starts, view.codes, most[1:])
    begins = np.cumsum(most)
    cases = np.zeros(begins[-1], dtype=np.int64)
    at_least(view.starts, view.codes, view.weight, begins, cases)
    return [cases[low:high] for low, high in itertools.pairwise(begins.tolist())]


def _losses_by_event(view: TraceView) -> list[Ints]:
    """Return the same from the events of each case, for any structure."""
    item, ordinal = view.item_of_event, view.ordinal_of_event
    order = np.argsort(item, kind="stable")
    bounds = np.searchsorted(item[order], np.arange(len(view.alphabet) + 1))
    cases = of_events(view.cases, view.case_starts)
    parts = [order[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return [amounts(ordinal[part], None if cases is None else cases[part]) for part in parts]


def prune(chosen: Iterable[int], candidates: Candidates, loss: list[Ints]) -> list[int]:
    """Return the chosen items without those that are not needed, most expensive dropped first."""
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
    """Return caps for multisets: each suppressed item gets back as many occurrences as no candidate forbids."""
    caps: Caps = dict.fromkeys(chosen, 0)
    needs = [{item: candidate.count(item) for item in set(candidate)} for candidate in candidates]
    for item in sorted(caps, key=lambda code: (-int(loss[code].sum()), code)):
        rivals = [need for need in needs if item in need and not _hit(need, caps, item)]
        caps[item] = min((need[item] - 1 for need in rivals), default=len(loss[item]))
    return {item: cap for item, cap in caps.items() if cap < len(loss[item])}


def _hit(need: dict[int, int], caps: Caps, besides: int) -> bool:
    return any(item != besides and caps.get(item, count) < count for item, count in need.items())


def cases_with(view: TraceView) -> Ints:
    """Count the cases in which each item occurs, int64[items]."""
    return np.asarray([int(loss[0]) if len(loss) else 0 for loss in losses(view)], dtype=np.int64)


# The cheapest suppression: a minimum weight hitting set, with proof of optimality (branch and bound of HiGHS).
# Variables are cap levels: x[item, t] = 1 when at most t - 1 occurrences of the item stay; its cost is the number of
# cases with at least t of them, and x[item, t] <= x[item, t + 1]. Without capping only t = 1 exists, at full cost.

CapLevel = tuple[int, int]
"""(item, t): the suppression that leaves at most t - 1 of the item."""

TIME_LIMIT = 20.0
"""Seconds of branch and bound before the caller falls back to `pruned`."""


@dataclass(frozen=True, slots=True)
class Cover:
    """A minimum cover: its caps (None if the bound on work came before they were proven best), and lost events."""

    caps: Caps | None
    loss: int


def minimum_cover(candidates: Candidates, loss: list[Ints], *, capping: bool, time_limit: float = TIME_LIMIT) -> Cover:
    """Return the caps that hit every candidate at the least loss of events.

    Parameters
    ----------
    candidates
        minimal violating candidates.
    loss
        per item, the events that each cap level costs (`losses`).
    capping
        whether occurrences above a cap may go instead of the whole item.
    time_limit
        seconds of branch and bound.

    Returns
    -------
    Cover
        caps and their loss in events; caps are None if the time did not suffice for a proof of optimality.
    """
    rows = _minimal(_units(candidate, capping) for candidate in candidates)
    forced = {unit for row in rows if len(row) == 1 for unit in row}
    open_rows = [row for row in rows if not row & forced]
    chosen = _solve(open_rows, forced, loss, capping, time_limit) if open_rows else forced
    if chosen is None:
        return Cover(None, 0)
    caps: Caps = {}
    for item, t in chosen:
        caps[item] = min(caps.get(item, t - 1), t - 1)
    return Cover(caps, sum(int(loss[item][cap:].sum()) for item, cap in caps.items()))


def _units(candidate: tuple[int, ...], capping: bool) -> frozenset[CapLevel]:
    return frozenset((item, candidate.count(item) if capping else 1) for item in candidate)


def _minimal(rows: Iterable[frozenset[CapLevel]]) -> list[frozenset[CapLevel]]:
    """Return the rows that contain no other row: hitting these hits all."""
    result: list[frozenset[CapLevel]] = []
    by_unit: dict[CapLevel, list[frozenset[CapLevel]]] = {}
    for row in _by_size(set(rows)):
        if any(other < row for unit in row for other in by_unit.get(unit, ())):
            continue
        result.append(row)
        by_unit.setdefault(min(row), []).append(row)
    return result


def _by_size(rows: Iterable[frozenset[CapLevel]]) -> Iterator[frozenset[CapLevel]]:
    """Yield the rows by their number of units, and then by their units in order.

    In many short sorts: one sort of all rows lets no other thread run for seconds, not even the fold of a daemon.
    """
    groups = defaultdict[tuple[int, CapLevel], list[frozenset[CapLevel]]](list)
    for row in rows:
        groups[len(row), min(row)].append(row)
    for group in sorted(groups):
        yield from sorted(groups[group], key=sorted)


def _solve(
    rows: list[frozenset[CapLevel]], forced: set[CapLevel], loss: list[Ints], capping: bool, time_limit: float
) -> set[CapLevel] | None:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    units = sorted({unit for row in rows for unit in row} | forced)
    number = {unit: k for k, unit in enumerate(units)}
    entries = [(r, number[unit], 1.0) for r, row in enumerate(rows) for unit in row]
    entries += [(len(rows) + k, number[unit], 1.0) for k, unit in enumerate(sorted(forced))]
    lower = [1.0] * (len(rows) + len(forced))
    for low, high in itertools.pairwise(units):
        if low[0] == high[0]:
            entries += [(len(lower), number[high], 1.0), (len(lower), number[low], -1.0)]
            lower.append(0.0)
    i, j, v = zip(*entries, strict=True)
    matrix = coo_array((v, (i, j)), shape=(len(lower), len(units))).tocsr()
    answer = milp(
        np.asarray([_cost(unit, units, loss, capping) for unit in units], dtype=np.float64),
        constraints=LinearConstraint(matrix, np.asarray(lower), np.inf),
        integrality=np.ones(len(units), dtype=np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit, "mip_rel_gap": 0.0},
    )
    if answer.status != 0 or answer.x is None:
        return None
    return {unit for unit, value in zip(units, answer.x, strict=True) if value > 0.5}


def _cost(unit: CapLevel, units: list[CapLevel], loss: list[Ints], capping: bool) -> int:
    """Events that this level costs beyond the next higher level of the same item that is a unit."""
    item, t = unit
    if not capping:
        return int(loss[item].sum())
    higher_levels = [level for other_item, level in units if other_item == item and level > t]
    next_level = min(higher_levels, default=len(loss[item]) + 1)
    return int(loss[item][t - 1 : next_level - 1].sum())
