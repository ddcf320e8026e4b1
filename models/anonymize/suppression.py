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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.content_free import content_free
from models.eventlog import Ints, places_of, starts_of
from models.variants import amounts, of_events

Candidates = list[tuple[int, ...]]
Caps = dict[int, int]
"""Item code -> most occurrences of it that may stay in a case; 0 suppresses the item."""


FINEST = 1_000_000
"""Denominator of alpha and beta up to which scores are reckoned in 64 bits."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of Def. 20, exact.

    Attributes
    ----------
    alpha
        Weight of the privacy gain.
    beta
        Weight of the utility loss.
    """

    alpha: Fraction = Fraction(1, 2)
    beta: Fraction = Fraction(1, 2)


def algorithm_1(candidates: Candidates, frequent: Candidates, items: int) -> list[int]:
    """Return suppressed items in order: highest PG / (UL + 1) first (Def. 18), ties to the smallest item.

    Parameters
    ----------
    candidates
        Violating candidates, each of which loses an item (PG counts them).
    frequent
        Maximal frequent traces (UL counts those that an item is in).
    items
        Number of items.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 18.
    """
    gain, loss = _Alive(candidates, items), _Alive(frequent, items)
    result = []
    while gain.sets_left:
        # Quotients of small integers are equal as floats exactly when they are equal as fractions.
        winner = int(np.argmax(gain.count / (loss.count + 1)))
        gain.remove(winner)
        loss.remove(winner)
        result.append(winner)
    return result


def algorithm_2(
    candidates: Candidates,
    cases_with: Ints,
    n_cases: int,
    weights: Weights = Weights(),
) -> list[int]:
    """Return suppressed items in order: highest alpha * rPG + beta * nUL first, ties to the least item.

    Only items of remaining candidates are scored.

    Parameters
    ----------
    candidates
        Violating candidates, each of which loses an item.
    cases_with
        int64[items], cases in which each item occurs.
    n_cases
        Number of cases.
    weights
        Alpha and beta.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 19 and 20.
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


@content_free()
@dataclass(frozen=True, slots=True)
class UnitSets:
    """Sets of units, as arrays: set n is `units[starts[n] : starts[n + 1]]`, ascending.

    A log of many activities has a million violating candidates. As objects of Python they would need
    seconds in which a daemon hardly folds records.

    Attributes
    ----------
    starts : int64[N + 1]
        Where each set begins.
    units : int64
        Items; or cap levels, each as item * base + t.
    """

    starts: Ints
    units: Ints

    @classmethod
    def of(cls, candidates: Candidates, *, base: int | None = None) -> UnitSets:
        """Return the items of each candidate; with a base, their cap levels: how often it has each item.

        Parameters
        ----------
        candidates
            Item codes of each candidate.
        base
            Above the number of events of one item in a candidate: cap level t of item i is the unit i *
            base + t. None: units are items.
        """
        lengths = np.fromiter(map(len, candidates), np.int64, len(candidates))
        items = np.fromiter(itertools.chain.from_iterable(candidates), np.int64, int(lengths.sum()))
        owner = np.repeat(np.arange(len(lengths)), lengths)
        items = items[np.lexsort((items, owner))]
        is_first = np.ones(len(items), dtype=np.bool_)
        is_first[1:] = (items[1:] != items[:-1]) | (owner[1:] != owner[:-1])
        places = np.flatnonzero(is_first)
        units = items[places]
        if base is not None:
            units = units * base + np.diff(np.append(places, len(items)))
        return cls(starts_of(np.bincount(owner[places], minlength=len(lengths))), units)

    def __len__(self) -> int:
        """Return the number of sets."""
        return len(self.starts) - 1

    def of_size(self, size: int) -> Ints:
        """Return the sets of one size, each once, in lexicographic order: int64[N, size].

        Parameters
        ----------
        size
            Units of a set.
        """
        _, places = places_of(self.starts, np.flatnonzero(np.diff(self.starts) == size))
        rows = self.units[places].reshape(-1, size)
        rows = rows[np.lexsort(rows.T[::-1])]
        return rows[_begins_run(rows)]

    def holders(self, n_units: int) -> tuple[Ints, Ints]:
        """Return where the sets of each unit begin, and the sets that have it.

        Parameters
        ----------
        n_units
            Number of units.

        Returns
        -------
        starts
            int64[n_units + 1].
        sets
            int64, numbers of sets, ascending for each unit.
        """
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts))
        starts = starts_of(np.bincount(self.units, minlength=n_units))
        return starts, owner[np.argsort(self.units, kind="stable")]


class _Alive:
    """Candidates still to be hit, and in how many of them each item occurs."""

    def __init__(self, candidates: Candidates, items: int) -> None:
        self.sets = UnitSets.of(candidates)
        self.count = np.bincount(self.sets.units, minlength=items)
        self.holder_starts, self.holders = self.sets.holders(items)
        self.is_alive = np.ones(len(self.sets), dtype=np.bool_)
        self.sets_left = len(self.sets)

    def remove(self, item: int) -> None:
        """Drop every candidate that contains the item."""
        holders = self.holders[self.holder_starts[item] : self.holder_starts[item + 1]]
        dropped = holders[self.is_alive[holders]]
        self.is_alive[dropped] = False
        self.sets_left -= len(dropped)
        _, places = places_of(self.sets.starts, dropped)
        self.count -= np.bincount(self.sets.units[places], minlength=len(self.count))


def losses(view: TraceView) -> list[Ints]:
    """Return for each item the cost of its cap levels.

    loss[t - 1]: cases with at least t events of the item, which is the number of events that the t-th level costs.

    Parameters
    ----------
    view
        The log as the adversary sees it.
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
    """Return the chosen items without those that are not needed, most expensive dropped first.

    Parameters
    ----------
    chosen
        Items that together hit every candidate.
    candidates
        Violating candidates.
    loss
        for each item the cases that have it at least once, twice, ... (`losses`).

    Returns
    -------
    list
        Items that still hit every candidate, ascending.
    """
    sets = UnitSets.of(candidates)
    starts, holders = sets.holders(len(loss))
    of_item = {item: holders[starts[item] : starts[item + 1]] for item in chosen}
    hits = np.zeros(len(sets), dtype=np.int64)
    for numbers in of_item.values():
        hits[numbers] += 1
    for item in sorted(of_item, key=lambda code: (-int(loss[code].sum()), code)):
        if (hits[of_item[item]] > 1).all():
            hits[of_item[item]] -= 1
            del of_item[item]
    return sorted(of_item)


def raise_caps(chosen: Iterable[int], candidates: Candidates, loss: list[Ints]) -> Caps:
    """Return caps for multisets: each suppressed item gets back as many occurrences as no candidate forbids.

    Parameters
    ----------
    chosen, candidates, loss
        As for `prune`.

    Returns
    -------
    dict
        Most occurrences of an item that may stay, for each item that loses some.
    """
    caps: Caps = dict.fromkeys(chosen, 0)
    needs = [{item: candidate.count(item) for item in set(candidate)} for candidate in candidates]
    for item in sorted(caps, key=lambda code: (-int(loss[code].sum()), code)):
        rivals = [need for need in needs if item in need and not _hit(need, caps, item)]
        caps[item] = min((need[item] - 1 for need in rivals), default=len(loss[item]))
    return {item: cap for item, cap in caps.items() if cap < len(loss[item])}


def _hit(need: dict[int, int], caps: Caps, besides: int) -> bool:
    """Return whether a cap on another item than `besides` removes an occurrence that a candidate needs."""
    for item, n_needed in need.items():
        n_kept = caps.get(item, n_needed)
        if item != besides and n_kept < n_needed:
            return True
    return False


def cases_with(view: TraceView) -> Ints:
    """Count the cases in which each item occurs, int64[items].

    Parameters
    ----------
    view
        The log as the adversary sees it.
    """
    counts = np.zeros(len(view.alphabet), dtype=np.int64)
    for item, loss in enumerate(losses(view)):
        if len(loss):
            counts[item] = loss[0]
    return counts


# The cheapest suppression: a minimum weight hitting set, with proof of optimality (branch and bound of HiGHS).
# Variables are cap levels: x[item, t] = 1 when at most t - 1 occurrences of the item stay; its cost is the number of
# cases with at least t of them, and x[item, t] <= x[item, t + 1]. Without capping only t = 1 exists, at full cost.

TIME_LIMIT = 20.0
"""Seconds of branch and bound before the caller falls back to `pruned`."""


@dataclass(frozen=True, slots=True)
class Cover:
    """A minimum cover.

    Attributes
    ----------
    caps
        Its caps. None if the bound on work came before they were proven best.
    loss
        Events that it loses.
    """

    caps: Caps | None
    loss: int


def minimum_cover(
    candidates: Candidates,
    loss: list[Ints],
    *,
    capping: bool,
    time_limit: float = TIME_LIMIT,
) -> Cover:
    """Return the caps that hit every candidate at the least loss of events.

    Parameters
    ----------
    candidates
        Minimal violating candidates.
    loss
        Per item, the events that each cap level costs (`losses`).
    capping
        Whether occurrences above a cap may go instead of the whole item.
    time_limit
        Seconds of branch and bound.

    Returns
    -------
    Cover
        Caps and their loss in events; caps are None if the time did not suffice for a proof of optimality.
    """
    base = 1 + max(map(len, candidates), default=0)
    sets = UnitSets.of(candidates, base=base)
    if not capping:
        # The only level of an item is that which removes it.
        sets = replace(sets, units=sets.units // base * base + 1)
    rows = _minimal(sets)
    forced = rows.pop(1).ravel() if 1 in rows else np.empty(0, dtype=np.int64)
    chosen = _solve(list(rows.values()), forced, loss, base, capping, time_limit) if rows else forced
    if chosen is None:
        return Cover(None, 0)
    caps: Caps = {}
    for unit in chosen.tolist():
        item, t = divmod(unit, base)
        caps[item] = min(caps.get(item, t - 1), t - 1)
    n_lost_events = 0
    for item, cap in caps.items():
        n_lost_events += int(loss[item][cap:].sum())
    return Cover(caps, n_lost_events)


def _minimal(sets: UnitSets) -> dict[int, Ints]:
    """Return the sets that contain no other set, by size: int64[N, size] each. Hitting these hits all."""
    minimal: dict[int, Ints] = {}
    for size in np.unique(np.diff(sets.starts)).tolist():
        rows = sets.of_size(size)
        is_minimal = np.ones(len(rows), dtype=np.bool_)
        for smaller, others in minimal.items():
            for columns in itertools.combinations(range(size), smaller):
                is_minimal &= ~_among(rows[:, columns], others)
        if is_minimal.any():
            minimal[size] = rows[is_minimal]
    return minimal


def _among(rows: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Return bool[N]: the rows that are among others; both int64[, size]."""
    if rows.shape[1] == 1:
        return np.isin(rows[:, 0], others[:, 0])
    both = np.concatenate((others, rows))
    order = np.lexsort(both.T[::-1])  # stable: of equal rows, that of `others` is first
    begins_run = _begins_run(both[order])
    begin_of_run = np.maximum.accumulate(np.where(begins_run, np.arange(len(both)), 0))
    first_of_run = order[begin_of_run]
    among = np.empty(len(both), dtype=np.bool_)
    among[order] = first_of_run < len(others)
    return among[len(others) :]


def _begins_run(rows: Ints) -> npt.NDArray[np.bool_]:
    """Return bool[N]: the rows that differ from the row before."""
    begins_run = np.ones(len(rows), dtype=np.bool_)
    begins_run[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return begins_run


def _solve(
    rows: list[Ints], forced: Ints, loss: list[Ints], base: int, capping: bool, time_limit: float
) -> Ints | None:
    """Return the cheapest units that hit every row and hold the forced ones; None if time ran out.

    The variables are the units, in ascending order. Constraints are the rows of a sparse matrix:

                          units   u0  u1  u2
        a row of u0 and u2         1   0   1    >= 1    one of them is chosen
        u1 is forced               0   1   0    >= 1
        u0 is a level below u1    -1   1   0    >= 0    a level is chosen only with its next higher level
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    units = np.unique(np.concatenate([forced, *(row.ravel() for row in rows)]))

    # One of the units of each row, and each forced unit.
    sizes_of_rows = [np.full(len(row), row.shape[1]) for row in rows]
    sizes = np.concatenate([*sizes_of_rows, np.ones(len(forced), dtype=np.int64)])
    hitting_constraint = np.repeat(np.arange(len(sizes)), sizes)
    hitting_unit = np.searchsorted(units, np.concatenate([*(row.ravel() for row in rows), forced]))

    # Levels of one item are neighbours among the units.
    lower_level = np.flatnonzero(units[:-1] // base == units[1:] // base)
    level_constraint = len(sizes) + np.arange(len(lower_level))

    constraint = np.concatenate((hitting_constraint, level_constraint, level_constraint))
    unit = np.concatenate((hitting_unit, lower_level + 1, lower_level))
    factor = np.concatenate((np.ones(len(hitting_unit) + len(lower_level)), -np.ones(len(lower_level))))
    least = np.concatenate((np.ones(len(sizes)), np.zeros(len(lower_level))))
    matrix = coo_array((factor, (constraint, unit)), shape=(len(least), len(units))).tocsr()
    answer = milp(
        np.asarray(_costs(units, loss, base, capping), dtype=np.float64),
        constraints=LinearConstraint(matrix, least, np.inf),
        integrality=np.ones(len(units), dtype=np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit, "mip_rel_gap": 0.0},
    )
    if answer.status != 0 or answer.x is None:
        return None
    return units[answer.x > 0.5]


def _costs(units: Ints, loss: list[Ints], base: int, capping: bool) -> list[int]:
    """Return the events that each unit costs beyond the next higher level of its item, if that is a unit."""
    costs = []
    next_units = [*units[1:].tolist(), None]
    for unit, next_unit in zip(units.tolist(), next_units, strict=True):
        item, t = divmod(unit, base)
        if not capping:
            costs.append(int(loss[item].sum()))
            continue
        next_t = len(loss[item]) + 1
        if next_unit is not None and next_unit // base == item:
            next_t = next_unit % base
        costs.append(int(loss[item][t - 1 : next_t - 1].sum()))
    return costs
