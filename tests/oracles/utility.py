"""Slow, obvious utility: the edit distance by its recurrence, the transport as a linear program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog

Trace = Sequence[str]
Variants = Counter[tuple[Hashable, ...]]


def levenshtein(first: Trace, second: Trace) -> int:
    """Least number of insertions, deletions and substitutions."""
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, 1):
        previous, row[0] = row[0], i
        for j, two in enumerate(second, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (one != two))
    return row[-1]


def data_utility(original: Sequence[Trace], released: Sequence[Trace]) -> float:
    """1 - optimum of the transport problem between the variants of two lists of traces."""
    here, there = Counter(map(tuple, original)), Counter(map(tuple, released))
    rows, columns = list(here), list(there)
    cost = [[levenshtein(x, y) / max(len(x), len(y), 1) for y in columns] for x in rows]
    supply = [here[x] / len(original) for x in rows]
    demand = [there[y] / len(released) for y in columns]
    n, m = len(rows), len(columns)
    leaves = np.kron(np.eye(n), np.ones(m))
    arrives = np.kron(np.ones(n), np.eye(m))
    found = linprog(np.ravel(cost), A_eq=np.vstack((leaves, arrives)), b_eq=supply + demand)
    assert found.status == 0
    return 1.0 - float(found.fun)


def least_cost_over(
    supply: Sequence[int], demand: Sequence[int], arcs: Sequence[tuple[int, int]], cost: Sequence[float]
) -> float:
    """Least cost per unit of mass of moving `supply` to `demand` over some arcs (row, column), as a linear program."""
    leaves = [[float(row == end) for row, _ in arcs] for end in range(len(supply))]
    arrives = [[float(column == end) for _, column in arcs] for end in range(len(demand))]
    found = linprog(cost, A_eq=np.asarray(leaves + arrives), b_eq=[*supply, *demand])
    assert found.status == 0
    return float(found.fun) / sum(supply)


def directly_follows(traces: Sequence[Trace]) -> Counter[tuple[str, str]]:
    """Edges of the directly-follows graph with their counts."""
    return Counter(pair for trace in traces for pair in pairwise(trace))


def dfg_error(original: Variants, released: Variants) -> float:
    """Total variation distance of the two distributions of directly-follows pairs, with start and end."""
    original_edges, released_edges = _follows(original), _follows(released)
    if not original_edges or not released_edges:
        return 0.0 if original_edges == released_edges else 1.0
    first, second = sum(original_edges.values()), sum(released_edges.values())
    return 0.5 * sum(
        abs(original_edges[pair] / first - released_edges[pair] / second)
        for pair in original_edges.keys() | released_edges.keys()
    )


def _follows(variants: Variants) -> Counter[tuple[Hashable, Hashable]]:
    edge_counts: Counter[tuple[Hashable, Hashable]] = Counter()
    for variant, count in variants.items():
        steps = [("start",), *((label, None) for label in variant), ("end",)]
        for pair in pairwise(steps):
            edge_counts[pair] += count
    return edge_counts
