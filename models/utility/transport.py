"""Earth mover's distance, exact, over arcs that are priced in as they are needed.

A dense network simplex on two logs of thousands of variants spends minutes on arcs that no optimal plan would use.
Here it runs on the nearest neighbours only; its potentials price every other arc, those that would improve the plan
join, and it runs again. When none is left the plan is optimal for the whole problem (linear programming duality):
with total mass 1 and no reduced cost below -`TOLERANCE`, its cost is within `TOLERANCE` of the optimum.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.errors import VeilstreamError
from models.eventlog import Floats, Ints, starts_of

Arcs = tuple[Ints, Ints]

TOLERANCE = 1e-9
NEIGHBOURS = 15
"""Arcs a variant begins with, and may gain in a round. BPIC 2012 (4,366 x 3,876): 155,000 of 17 million arcs."""
DENSE = 10_000
"""Arcs up to which the whole problem is solved at once."""
PIVOTS = 100_000_000
"""Bound on the pivots of the simplex, far above any need: past it the plan would not be optimal, so it is an error."""
ROUNDS = 100
_OPTIMAL = 1
"""Result code of the simplex at the optimum."""
_IMPORTING = threading.Lock()


def least_cost(supply: Floats, demand: Floats, cost: Floats) -> float:
    """Return the cost of the cheapest transport plan.

    Parameters
    ----------
    supply : float64[n]
        Masses to move, sum 1.
    demand : float64[m]
        Masses to reach, sum 1.
    cost : float64[n, m]
        Not negative.

    Raises
    ------
    VeilstreamError
        If the solver stops before the optimum.
    """
    if cost.size <= DENSE:
        return _over(np.arange(cost.size, dtype=np.int64), supply, demand, cost)[0]
    no_potentials = np.zeros(len(supply)), np.zeros(len(demand))
    nearest = _nearest(cost, *no_potentials, np.inf)
    rows, columns = corner_arcs(supply, demand)
    corners = rows * cost.shape[1] + columns  # without them there may be no plan over the nearest arcs
    arcs = np.union1d(nearest, corners)
    for _ in range(ROUNDS):
        total, u, v = _over(arcs, supply, demand, cost)
        improving = _nearest(cost, u, v, -TOLERANCE)
        if not len(improving):
            return total
        arcs = np.union1d(arcs, improving)
    raise VeilstreamError(f"the transport of {cost.shape[0]} to {cost.shape[1]} variants did not reach its optimum")


def _over(arcs: Ints, supply: Floats, demand: Floats, cost: Floats) -> tuple[float, Floats, Floats]:
    rows, columns = np.divmod(arcs, cost.shape[1])
    return solve(supply, demand, (rows, columns), cost[rows, columns])


def solve(supply: Floats, demand: Floats, arcs: Arcs, cost: Floats) -> tuple[float, Floats, Floats]:
    """Return the least cost over the given arcs only, and the potentials of its plan.

    Parameters
    ----------
    supply, demand
        float64[n] and float64[m], the masses to move and to reach, of one sum.
    arcs
        Rows and columns of the arcs, each arc once. Some plan must exist over them.
    cost
        float64[A], cost of a unit of mass on each arc.

    Returns
    -------
    cost : float
        The least cost.
    u, v : Floats
        float64[n] and float64[m], the potentials of the rows and of the columns.

    Raises
    ------
    VeilstreamError
        If the solver stops before the optimum.
    """
    sources, targets = (ends.astype(np.uint64) for ends in arcs)
    masses = supply, demand * supply.sum() / demand.sum()  # in the order in which `ot.emd` rounds
    *_, total, u, v, code = _simplex().emd_c_sparse(*masses, sources, targets, cost.astype(np.float64), PIVOTS)
    if code != _OPTIMAL:
        raise VeilstreamError(f"the transport of {len(supply)} to {len(demand)} variants failed (code {code})")
    return float(total), u, v


def least_cost_over(supply: Ints, demand: Ints, arcs: Arcs, cost: Floats) -> float:
    """Return the least cost per unit of mass over the given arcs only.

    A node with a single arc sends all of its mass along it, so this part of the plan is forced. It is settled first,
    and the simplex solves the rest. Plans that move each case to its released form are mostly such chains of nodes, on
    which the simplex needs time with the square of their length.

    Parameters
    ----------
    supply : int64[n]
        Masses to move, above 0.
    demand : int64[m]
        Masses to reach, above 0, of the same sum.
    arcs
        Rows and columns, each arc once. Some plan must exist over them.
    cost : float64[A]
        Cost of a unit of mass on each arc.

    Raises
    ------
    VeilstreamError
        If no plan exists over the arcs.
    """
    rows, columns = arcs
    masses = np.concatenate((supply, demand))
    ends = np.stack((rows, columns + len(supply)), axis=1)
    arcs_by_node = np.argsort(ends.ravel(), kind="stable") // 2
    starts = starts_of(np.bincount(ends.ravel(), minlength=len(masses)))
    is_open = np.ones(len(rows), dtype=np.bool_)
    total = _settle_forced(masses, ends, cost, starts, arcs_by_node, is_open)
    is_left = np.zeros(len(masses), dtype=np.bool_)
    is_left[ends[is_open].ravel()] = True
    if masses.min() < 0 or masses[~is_left].any():
        raise VeilstreamError(f"the transport of {len(supply)} to {len(demand)} variants has no plan over its arcs")

    left_rows, left_columns = is_left[: len(supply)], is_left[len(supply) :]
    if left_rows.any():
        place_of_row = np.cumsum(left_rows) - 1
        place_of_column = np.cumsum(left_columns) - 1
        left_supply = masses[: len(supply)][left_rows]
        left_demand = masses[len(supply) :][left_columns]
        left_arcs = place_of_row[rows[is_open]], place_of_column[columns[is_open]]
        mass = left_supply.sum()
        total += float(mass) * solve(left_supply / mass, left_demand / mass, left_arcs, cost[is_open])[0]
    return total / float(supply.sum())


@kernel
def _settle_forced(
    masses: Ints, ends: Ints, cost: Floats, starts: Ints, arcs_by_node: Ints, is_open: npt.NDArray[np.bool_]
) -> float:
    """Move what nodes with a single open arc must send, until no node has one; return its cost.

    Takes the moved masses off `masses`, and closes the arcs that are decided: those moves, and the arcs of a node that
    has no mass left. The arcs of node i are `arcs_by_node[starts[i]:starts[i + 1]]`.
    """
    nodes = len(masses)
    degree = starts[1:] - starts[:-1]
    waiting = np.empty(2 * len(ends) + nodes, dtype=np.int64)
    size = 0
    for node in range(nodes):
        if degree[node] == 1:
            waiting[size] = node
            size += 1
    total = 0.0
    while size > 0:
        size -= 1
        node = waiting[size]
        if degree[node] != 1:
            continue  # its arc was closed meanwhile
        place = starts[node]
        while not is_open[arcs_by_node[place]]:
            place += 1
        arc = arcs_by_node[place]
        other = ends[arc, 0] + ends[arc, 1] - node
        total += masses[node] * cost[arc]
        masses[other] -= masses[node]
        masses[node] = 0
        is_open[arc] = False
        degree[node] -= 1
        degree[other] -= 1
        if masses[other] == 0:
            for place in range(starts[other], starts[other + 1]):
                arc = arcs_by_node[place]
                if is_open[arc]:
                    is_open[arc] = False
                    neighbour = ends[arc, 0] + ends[arc, 1] - other
                    degree[other] -= 1
                    degree[neighbour] -= 1
                    if degree[neighbour] == 1:
                        waiting[size] = neighbour
                        size += 1
        elif degree[other] == 1:
            waiting[size] = other
            size += 1
    return total


@cache
def _simplex() -> Any:
    """Load POT's compiled network simplex alone.

    `import ot` also imports all of scipy.stats, networkx and the needs of its other solvers: a second of every command
    that audits a release.
    """
    with _IMPORTING:
        if "ot" in sys.modules:
            from ot.lp import emd_wrap

            return emd_wrap
        try:
            # Packages without their `__init__`, which imports everything.
            for name, places in _packages():
                bare = sys.modules[name] = ModuleType(name)
                bare.__path__ = places
            from ot.lp import emd_wrap

            return emd_wrap
        finally:
            # A later import gets the complete packages.
            for name in [name for name in sys.modules if name.partition(".")[0] == "ot"]:
                del sys.modules[name]


def _packages() -> list[tuple[str, list[str]]]:
    """Return the packages that contain the simplex, and their folders."""
    spec = importlib.util.find_spec("ot")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return [("ot", places), ("ot.lp", [os.path.join(place, "lp") for place in places])]


def _nearest(cost: Floats, u: Floats, v: Floats, below: float) -> Ints:
    """Return the arcs (row * m + column, ascending) of least reduced cost of each row and of each column.

    Only arcs with a reduced cost less than `below` count.
    """
    rows, columns = cost.shape
    of_row = np.full((rows, NEIGHBOURS + 1), -1)
    of_column = np.full((columns, NEIGHBOURS + 1), -1)
    _least_of_each(cost, u, v, below, of_row, of_column)
    arcs = np.concatenate((of_row.ravel(), of_column.ravel()))
    return np.unique(arcs[arcs >= 0])


@kernel
def _least_of_each(cost, u, v, below, of_row, of_column):  # type: ignore[no-untyped-def]
    """Find the least arcs of each row and column in one pass over all arcs.

    A row and a column each keep their least so far, unsorted, and the largest of these, which the next arc has to beat.
    """
    kept = of_row.shape[1]
    row_cost, column_cost = np.full(kept, below), np.full((len(v), kept), below)
    column_most, column_at = np.full(len(v), below), np.zeros(len(v), dtype=np.int64)
    for i in range(len(u)):
        row_cost[:] = below
        row_most, row_at = below, 0
        for j in range(len(v)):
            reduced = cost[i, j] - u[i] - v[j]
            if reduced < row_most:
                row_cost[row_at] = reduced
                of_row[i, row_at] = i * len(v) + j
                row_at = int(np.argmax(row_cost))
                row_most = row_cost[row_at]
            if reduced < column_most[j]:
                column_cost[j, column_at[j]] = reduced
                of_column[j, column_at[j]] = i * len(v) + j
                column_at[j] = np.argmax(column_cost[j])
                column_most[j] = column_cost[j, column_at[j]]


def corner_arcs(supply: Floats | Ints, demand: Floats | Ints) -> Arcs:
    """Return the arcs of the north-west corner plan, with which a plan always exists.

    Masses that are whole numbers are added up exactly.

    Parameters
    ----------
    supply, demand
        Masses to move and to reach, float64 or int64, of one sum.

    Returns
    -------
    Arcs
        Rows and columns; some arcs occur twice.
    """
    # The plan fills rows and columns in order. Lay the masses of the rows end to end, and those of the columns beside
    # them. At each corner, where a row or a column ends, one arc of the plan ends and another one begins.
    row_ends, column_ends = np.cumsum(supply), np.cumsum(demand)
    corners = np.concatenate((row_ends, column_ends))
    last_row, last_column = len(supply) - 1, len(demand) - 1
    sides: tuple[Literal["left"], Literal["right"]] = ("left", "right")
    rows = [np.searchsorted(row_ends, corners, side=side) for side in sides]
    columns = [np.searchsorted(column_ends, corners, side=side) for side in sides]
    return np.minimum(np.concatenate(rows), last_row), np.minimum(np.concatenate(columns), last_column)
