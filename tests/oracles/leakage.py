"""Leakage the slow, obvious way: subsets, linear programs, walks in fractions, the recursions as printed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

DIGITS = 40

Matrix = Sequence[Sequence[float]]
Row = dict[tuple[str, ...], Fraction]


def by_subsets(matrix: Matrix, alpha: float) -> float:
    """AL(alpha) over all ordered pairs of rows and all sets of columns."""
    t, best = math.expm1(alpha), 0.0
    for q, d in itertools.permutations(matrix, 2):
        for size in range(1, len(q) + 1):
            for J in itertools.combinations(range(len(q)), size):
                mass_q, mass_d = sum(q[j] for j in J), sum(d[j] for j in J)
                best = max(best, math.log((mass_q * t + 1) / (mass_d * t + 1)))
    return best


def by_linear_programs(matrices: Sequence[Matrix], alphas: Sequence[float]) -> list[float]:
    """AL of each matrix: per pair of rows, max q.y with d.y = 1 and z <= y_j <= e^alpha z (Charnes and Cooper's form
    of maximising q.x / d.x where no two x differ by more than e^alpha). All programs are in one block program."""
    pairs = [
        (number, np.asarray(q), np.asarray(d))
        for number, matrix in enumerate(matrices)
        for q, d in itertools.permutations(matrix, 2)
    ]
    objective = np.concatenate([np.append(-q, 0.0) for _, q, _ in pairs])
    equal = sparse.block_diag([np.append(d, 0.0)[None, :] for _, _, d in pairs], format="csr")
    limits = sparse.block_diag([_ratio_limits(len(q), alphas[number]) for number, q, _ in pairs], format="csr")
    found = linprog(
        objective, A_ub=limits, b_ub=np.zeros(limits.shape[0]), A_eq=equal, b_eq=np.ones(len(pairs)), method="highs"
    )
    best = [0.0] * len(matrices)
    start = 0
    for number, q, _ in pairs:
        value = float(q @ found.x[start : start + len(q)])
        best[number] = max(best[number], math.log(value))
        start += len(q) + 1
    return best


def exact_step(matrix: Matrix | None, alpha: Fraction) -> Fraction:
    """AL(alpha) to DIGITS digits by all subsets; the floats of the matrix count as what they are. None: keeps all."""
    if matrix is None:
        return alpha
    with localcontext() as context:
        context.prec = DIGITS
        t, best = _decimal(alpha).exp() - 1, Decimal(0)
        for q, d in itertools.permutations([[Fraction(float(v)) for v in row] for row in matrix], 2):
            for size in range(1, len(q) + 1):
                for J in itertools.combinations(range(len(q)), size):
                    Q, D = (_decimal(sum((row[j] for j in J), Fraction(0))) for row in (q, d))
                    best = max(best, ((Q * t + 1) / (D * t + 1)).ln())
        return Fraction(best) * (1 - Fraction(1, 10 ** (DIGITS - 5)))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def exact_series(
    epsilon: Sequence[Fraction], backward: Sequence[Matrix | None], forward: Sequence[Matrix | None]
) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """(BPL, FPL, TPL) by the recursions as printed, to DIGITS digits (a hair below)."""
    n = len(epsilon)
    bpl, fpl = [epsilon[0]], [epsilon[-1]]
    for i in range(1, n):
        bpl.append(exact_step(backward[i - 1], bpl[-1]) + epsilon[i])
        fpl.insert(0, exact_step(forward[n - 1 - i], fpl[0]) + epsilon[n - 1 - i])
    return bpl, fpl, [b + f - e for b, f, e in zip(bpl, fpl, epsilon, strict=True)]


def _ratio_limits(m: int, alpha: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    ones, z = np.eye(m), np.ones((m, 1))
    return np.block([[ones, -math.exp(alpha) * z], [-ones, z]])


def prefixes(traces: Sequence[Sequence[str]]) -> Counter[tuple[str, ...]]:
    """Return how many traces have each prefix (traces with their artificial events)."""
    return Counter(tuple(trace[:k]) for trace in traces for k in range(len(trace) + 1))


def forward(traces: Sequence[Sequence[str]], scenario: str, x: int) -> dict[tuple[str, ...], Row]:
    """Forward rows of the prefix automaton, walking event by event; ends stay."""
    visits = prefixes(traces)
    children = {s: [c for c in visits if c[:-1] == s and c] for s in visits}

    def walk(state: tuple[str, ...], events: int) -> Row:
        if events == 0 or not children[state]:
            return {state: Fraction(1)}
        out = sum(visits[c] for c in children[state])
        row: Row = {}
        for child in children[state]:
            for end, p in walk(child, events - 1).items():
                row[end] = row.get(end, Fraction(0)) + p * Fraction(visits[child], out)
        return row

    def furthest(state: tuple[str, ...]) -> int:
        return max(len(s) for s in visits if s[: len(state)] == state) - len(state)

    if scenario == "certain":
        return {s: walk(s, x) for s in visits}
    return {s: _mean([walk(s, k) for k in range(min(x, furthest(s)) + 1)]) for s in visits}


def backward(traces: Sequence[Sequence[str]], scenario: str, x: int) -> dict[tuple[str, ...], Row]:
    """Backward rows: the ancestor x events before, or the mean over the last min(x, depth) + 1 prefixes."""
    states = prefixes(traces)
    if scenario == "certain":
        return {s: {s[: len(s) - x]: Fraction(1)} for s in states if len(s) >= x}
    rows = {}
    for state in states:
        ancestors = [state[: len(state) - back] for back in range(min(x, len(state)) + 1)]
        rows[state] = _mean([{ancestor: Fraction(1)} for ancestor in ancestors])
    return rows


def _mean(rows: Sequence[Row]) -> Row:
    total: Row = {}
    for row in rows:
        for state, p in row.items():
            total[state] = total.get(state, Fraction(0)) + p / len(rows)
    return total


def coarse(
    traces: Sequence[Sequence[str]], states: Callable[[tuple[str, ...]], object], direction: str, scenario: str, x: int
) -> list[list[float]]:
    """Rows of the chain whose states are `states(prefix)` (prefixes with artificial events, the empty one included):
    S1 the x-th power, S2 the mean of the powers 0..x; a state that leads nowhere stays."""
    moves: Counter[tuple[object, object]] = Counter()
    for trace in traces:
        passed = [states(tuple(trace[:k])) for k in range(len(trace) + 1)]
        moves.update(itertools.pairwise(passed if direction == "forward" else passed[::-1]))
    names = list(dict.fromkeys(state for pair in moves for state in pair))

    def step(row: dict[object, Fraction]) -> dict[object, Fraction]:
        after: dict[object, Fraction] = {}
        for state, p in row.items():
            ways = {target: count for (source, target), count in moves.items() if source == state} or {state: 1}
            for target, count in ways.items():
                after[target] = after.get(target, Fraction(0)) + p * Fraction(count, sum(ways.values()))
        return after

    result = []
    for name in names:
        powers: list[dict[object, Fraction]] = [{name: Fraction(1)}]
        for _ in range(x):
            powers.append(step(powers[-1]))
        chosen = powers[-1:] if scenario == "certain" else powers
        result.append([float(sum((p.get(c, Fraction(0)) for p in chosen), Fraction(0)) / len(chosen)) for c in names])
    return result


def dense(rows: dict[tuple[str, ...], Row]) -> list[list[float]]:
    """Rows as a matrix of floats."""
    columns = sorted({state for row in rows.values() for state in row})
    return [[float(row.get(c, 0)) for c in columns] for row in rows.values()]


def reference_step(traces: Sequence[Sequence[str]], x: int, alpha: float) -> float:
    """Return the result of the authors' program for S2 backwards: rows from depth 1 on, no columns with d_j = 0."""
    rows = [row for state, row in backward(traces, "uncertain", x).items() if state]
    t, best = math.expm1(alpha), 0.0
    for q, d in itertools.permutations(rows, 2):
        shared = [s for s in q if q[s] > d.get(s, 0) > 0]
        Q, D = (float(sum(row[s] for s in shared)) for row in (q, d))
        best = max(best, math.log((Q * t + 1) / (D * t + 1)))
    return best
