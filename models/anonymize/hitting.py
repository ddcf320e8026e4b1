"""Minimum weight hitting set: the cheapest suppression, with proof of optimality (branch and bound of HiGHS).

Variables are cap levels: x[item, t] = 1 when at most t - 1 occurrences of the item stay; its cost is the number of
cases with at least t of them, and x[item, t] <= x[item, t + 1]. Without capping only t = 1 exists, at full cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from models.anonymize.suppression import Candidates, Caps
from models.eventlog import Ints

Unit = tuple[int, int]
"""(item, t): the suppression that leaves at most t - 1 of the item."""

TIME_LIMIT = 20.0
"""Seconds of branch and bound before the caller falls back to `pruned`."""


@dataclass(frozen=True, slots=True)
class Cover:
    """`caps`: None where the bound on work was hit before optimality was proven; `loss`: events."""

    caps: Caps | None
    loss: int


def minimum_cover(candidates: Candidates, loss: list[Ints], *, capping: bool, time_limit: float = TIME_LIMIT) -> Cover:
    """The caps that hit every candidate at the least loss of events."""
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


def _units(candidate: tuple[int, ...], capping: bool) -> frozenset[Unit]:
    return frozenset((item, candidate.count(item) if capping else 1) for item in candidate)


def _minimal(rows: Iterable[frozenset[Unit]]) -> list[frozenset[Unit]]:
    """The rows that contain no other row: hitting these hits all."""
    result: list[frozenset[Unit]] = []
    by_unit: dict[Unit, list[frozenset[Unit]]] = {}
    for row in sorted(set(rows), key=lambda units: (len(units), sorted(units))):
        if any(other < row for unit in row for other in by_unit.get(unit, ())):
            continue
        result.append(row)
        by_unit.setdefault(min(row), []).append(row)
    return result


def _solve(
    rows: list[frozenset[Unit]], forced: set[Unit], loss: list[Ints], capping: bool, time_limit: float
) -> set[Unit] | None:
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


def _cost(unit: Unit, units: list[Unit], loss: list[Ints], capping: bool) -> int:
    """Events that this level costs beyond the next higher level of the same item that is a unit."""
    item, t = unit
    if not capping:
        return int(loss[item].sum())
    above = min((other for code, other in units if code == item and other > t), default=len(loss[item]) + 1)
    return int(loss[item][t - 1 : above - 1].sum())
