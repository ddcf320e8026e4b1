"""Forward and backward temporal correlations: sparse stochastic rows over the states of an automaton.

Source: temporal-privacy-leakage-2022, definitions 9 (forward) and 10 (backward), for the scenarios S1 "certain"
(exactly x new events a case) and S2 "uncertain" (up to x). Corrected if the printed rows are not distributions:

* forward, branches that end before x absorb the missing mass at their end; a leaf stays with probability 1;
* backward, an ancestor in a tree is unique, so its conditional probability is 1 (the printed Bayes quotient passes 1
  where partial traces end at inner states); S2 is uniform over the chain of the last min(x, depth) + 1 prefixes.

Coarse states form a general chain: the forward step is into(c)/out of(s), the backward step is the same with time
reversed; S1 is the x-th power and S2 the mean of the powers 0..x, the end (backward: the start) being absorbing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from models.content_free import content_free
from models.errors import InputError, check_choice
from models.eventlog import Ints
from models.leakage.automaton import TransitionSystem
from models.leakage.steps import EXTREME, LeakageStep, Point, step, stochastic

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Scenario = Literal["certain", "uncertain"]
Direction = Literal["forward", "backward"]

MOST_ENTRIES = 50_000_000
"""Non-zero probabilities of one correlation (12 bytes each) beyond which it is refused instead of built."""


MOST_EVENTS = 10_000
"""Largest window. An uncertain one over coarse states costs a product of matrices for each of its events."""


@content_free()
@dataclass(frozen=True, slots=True)
class Correlation:
    """Probabilities Pr(column state | row state).

    Attributes
    ----------
    rows
        csr[len(states), len(columns)].
    states, columns
        Numbers of the states of the rows and of the columns.
    """

    rows: csr_matrix
    states: Ints
    columns: Ints


def correlation(system: TransitionSystem, direction: Direction, scenario: Scenario, x: int) -> Correlation:
    """Return the correlation of one step: how likely each state comes from, or leads to, each other one.

    Parameters
    ----------
    system
        The states, and how often cases move between them.
    direction
        backward or forward.
    scenario
        certain: x events of a case a release; uncertain: up to x.
    x
        Events of the window.

    Raises
    ------
    InputError
        If x is out of range, the scenario is unknown, or the correlations would be too large.
    """
    check(scenario, x)
    single_step, distance = _one_step(system, direction)
    tree = system.space.function.tree
    # In a tree the root (backward) or the furthest descendant (forward) can be nearer than x steps.
    reach = np.full(len(distance), x, dtype=np.int64)
    if tree:
        reach = np.minimum(distance, x)
    kept = np.arange(len(reach))
    if scenario == "certain":
        rows = _power(single_step, x)
        if tree and direction == "backward":
            kept = np.flatnonzero(distance >= x)
            rows = rows[kept]
    else:
        rows = _mixture(single_step, reach)
    return Correlation(stochastic(rows), system.states[kept], system.states)


def check(scenario: str, x: int) -> None:
    """Refuse an unknown scenario, and a window of no events or of more than `MOST_EVENTS`.

    Parameters
    ----------
    scenario
        "certain" (S1) or "uncertain" (S2), as `Scenario` lists them.
    x
        Events of a window for each case.

    Raises
    ------
    InputError
        If one of them is out of its range.
    """
    check_choice("scenario =", scenario, get_args(Scenario))
    if x < 1:
        raise InputError(f"window = {x}: a window holds at least 1 event a case")
    if x > MOST_EVENTS:
        raise InputError(f"window = {x}: a window holds at most {MOST_EVENTS} events a case")


def _one_step(system: TransitionSystem, direction: Direction) -> tuple[csr_matrix, Ints]:
    """Step probabilities (states that lead nowhere stay) and, in a tree, the furthest distance in the direction."""
    from scipy import sparse

    states = system.states
    ends = (system.source, system.target) if direction == "forward" else (system.target, system.source)
    tail, head = (np.searchsorted(states, side) for side in ends)
    total = np.bincount(tail, weights=system.count, minlength=len(states))
    stay = np.flatnonzero(total == 0)
    data = np.concatenate((system.count / total[tail], np.ones(len(stay))))
    indices = (np.concatenate((tail, stay)), np.concatenate((head, stay)))
    matrix = sparse.csr_matrix((data, indices), shape=(len(states), len(states)))
    return matrix, _distances(system, states, direction)


def _distances(system: TransitionSystem, states: Ints, direction: Direction) -> Ints:
    """In a tree: depth of each state (backward) or distance of its furthest descendant (forward)."""
    depth = np.asarray(system.space.depth, dtype=np.int64)
    if direction == "backward" or not system.space.function.tree:
        return depth[states]
    height = np.zeros(len(depth), dtype=np.int64)
    for child in system.target[np.argsort(-depth[system.target], kind="stable")].tolist():
        parent = system.space.parent[child]
        height[parent] = max(height[parent], height[child] + 1)
    return height[states]


def _power(single_step: csr_matrix, x: int) -> csr_matrix:
    from scipy import sparse

    result = sparse.identity(single_step.shape[0], format="csr")
    for bit in f"{x:b}":
        result = _bounded(result @ result)
        if bit == "1":
            result = _bounded(result @ single_step)
    return result


def _mixture(single_step: csr_matrix, reach: Ints) -> csr_matrix:
    """Mean of the powers 0..reach[s] in row s."""
    from scipy import sparse

    power = total = sparse.identity(single_step.shape[0], format="csr")
    for distance in range(1, int(reach.max(initial=0)) + 1):
        power = _bounded(power @ single_step)
        total = _bounded(total + sparse.diags((reach >= distance).astype(np.float64)) @ power)
    return (sparse.diags(1.0 / (reach + 1.0)) @ total).tocsr()


def _bounded(matrix: csr_matrix) -> csr_matrix:
    if matrix.nnz > MOST_ENTRIES:
        raise InputError(
            f"the correlations of {matrix.shape[0]} states hold over {MOST_ENTRIES} probabilities; "
            "choose coarser states or a smaller window"
        )
    return matrix


def steps(system: TransitionSystem, scenario: Scenario, x: int) -> tuple[LeakageStep, LeakageStep]:
    """Return AL_B and AL_F of one step. A tree needs no matrix (`tree_step`).

    Parameters
    ----------
    system, scenario, x
        As of `correlation`.

    Raises
    ------
    InputError
        As `correlation`.
    """
    check(scenario, x)
    if system.space.function.tree:
        return tree_step(system, "backward", scenario, x), tree_step(system, "forward", scenario, x)
    return _general(system, "backward", scenario, x), _general(system, "forward", scenario, x)


def _general(system: TransitionSystem, direction: Direction, scenario: Scenario, x: int) -> LeakageStep:
    computed = correlation(system, direction, scenario, x)
    result = step(computed.rows)
    if result.witness is not None:
        first, second = result.witness
        result.witness = (int(computed.states[first]), int(computed.states[second]))
    return result


def tree_step(system: TransitionSystem, direction: Direction, scenario: Scenario, x: int) -> LeakageStep:
    """Return AL of a prefix automaton, from its depth h and its leaves.

    Backward is extreme iff h >= x + 1 (a prefix of length x + 1 and one x events shorter have no common
    ancestor within reach); forward iff there are two leaves, or h >= x + 1. Otherwise every row of S1 is
    the same, AL = 0; and the rows of S2 are uniform over nested chains that share one end: the longest (h +
    1 states) against the shortest (1 state) decides, with Q = h / (h + 1) and D = 0: AL = log(1 + t h / (h
    + 1)).

    Parameters
    ----------
    system
        The automaton of prefixes.
    direction
        "backward" or "forward".
    scenario
        "certain" (S1) or "uncertain" (S2), as `Scenario` lists them.
    x
        Events of a window for each case.

    Returns
    -------
    LeakageStep
        The function AL. An extreme one has a witness: two states whose rows are disjoint.
    """
    h = system.depth
    leaves = system.leaves()
    if direction == "forward" and len(leaves) >= 2:
        return LeakageStep(points=[EXTREME], witness=(int(leaves[0]), int(leaves[1])))
    if h >= x + 1:
        return LeakageStep(points=[EXTREME], witness=_witness(system, direction, scenario, x))
    if scenario == "certain":
        return LeakageStep(points=[Point(0.0, 0.0)])
    return LeakageStep(points=[Point(h / (h + 1), 0.0)])


def _witness(system: TransitionSystem, direction: Direction, scenario: Scenario, x: int) -> tuple[int, int]:
    depth, parent = system.space.depth, system.space.parent
    deepest = int(system.target[np.argmax(np.asarray(depth)[system.target])])
    if direction == "forward":
        return 0, deepest
    while depth[deepest] > x + 1:
        deepest = parent[deepest]
    return (parent[deepest] if scenario == "certain" else 0), deepest
