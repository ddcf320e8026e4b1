"""AL(alpha): how much leakage survives one step of a temporal correlation.

Source: temporal-privacy-leakage-2022, section 4.4, equations 10 to 13, with the optimisation problem of its
reference [2]: over ordered pairs of rows (q, d) of a stochastic matrix and sets J of columns, with Q = q(J),
D = d(J) and t = e^alpha - 1,

    AL(alpha) = max log((Q t + 1) / (D t + 1)).

For one pair the best J takes columns by falling q_j / d_j (d_j = 0 first) while that ratio exceeds the value
reached. Equivalently the best value v solves max over pairs of sum_j (q_j - v d_j)^+ t + 1 - v = 0, which decides
all pairs and all sets together without sorting; that is how it is computed here.
AL(alpha) <= alpha, and AL(alpha) = alpha iff two rows share no column ("extreme").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Leakage = Fraction | float
"""A leakage in nats. It stays an exact fraction for as long as every step is extreme, or adds nothing."""

ROW_SUM_TOLERANCE = 1e-9
"""Rows are sums of products of ratios of counts; a larger gap from 1 is an error, not rounding."""

MOST_ROWS = 2_000
"""Distinct rows beyond which a matrix without a disjoint pair is refused: the work grows with their square
times the columns (2,000 rows of 2,000 columns take minutes)."""

ROUNDING = 2.0**-48
"""Largest error of an evaluation of AL, as a share of alpha: sixteen units of the last place, where a row's sums,
two exponentials, a division and a logarithm make up to about ten. A bound that is compared exactly needs a value that
is never too small (`Step.above`)."""

KEPT_BITS = 47
"""Bits of a value that is rounded up. More: a backward sweep runs on for changes in bits that no bound depends on."""

MOST_KNOWN = 4_096
"""Values remembered by one step; a sweep of a mixing chain asks for under a hundred."""

ROW_BLOCK = 256
"""Rows that are compared with all others in one sparse product: more take more memory, fewer more products."""

BLOCK = 1 << 20
"""Entries compared at once: bounds the memory of the comparison of all pairs (8 MiB a temporary)."""


def float_above(value: Fraction) -> float:
    """Return the least float that is not below `value`.

    Parameters
    ----------
    value
        An exact number.
    """
    nearest = float(value)
    if Fraction(nearest) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


@dataclass(frozen=True, slots=True)
class Point:
    """Q = q(J) and D = d(J) of one pair of rows and one set of columns: a candidate of the maximum."""

    Q: float
    D: float

    def value(self, alpha: float) -> float:
        """Return log((Q t + 1) / (D t + 1)), t = e^alpha - 1, without overflow and without cancellation.

        Parameters
        ----------
        alpha
            Leakage so far, in nats, at least 0.
        """
        if self.D == 0.0 and self.Q >= 1.0:
            return alpha
        u = math.exp(-alpha)
        gain = -math.expm1(-alpha)  # (1 - u): numerator and denominator are multiplied by u = e^-alpha
        bottom = self.D * gain + u
        if bottom == 0.0:
            return alpha + math.log1p(-(1.0 - self.Q) * gain) if self.Q > 0.0 else 0.0
        return min(alpha, math.log1p((self.Q - self.D) * gain / bottom))


EXTREME = Point(1.0, 0.0)


@content_free("evaluations")
@dataclass(slots=True)
class LeakageStep:
    """AL as a function, remembering the maximising points it has met.

    `rows`: the distinct rows (float64[n, m]) where points may still be missing, None if `points` are all.
    `witness`: indices of two rows of the original matrix that share no column, if any.
    `computed`: values computed already (a chain that repeats one step asks for the same few again and again).
    `evaluations`: how often a value had to be computed.
    """

    points: list[Point] = field(default_factory=list)
    rows: Floats | None = None
    witness: tuple[int, int] | None = None
    computed: dict[float, float] = field(default_factory=dict, repr=False, compare=False)
    evaluations: int = 0

    @property
    def extreme(self) -> bool:
        """AL is the identity: nothing is forgotten from one release to the next."""
        return EXTREME in self.points

    def __call__(self, alpha: Leakage) -> Leakage:
        """Return AL(alpha); `alpha` itself (exactly) if the step is extreme."""
        if self.extreme or alpha == 0:
            return alpha
        if len(self.computed) > MOST_KNOWN:
            self.computed.clear()
        alpha = float(alpha)
        if alpha not in self.computed:
            self.evaluations += 1
            self.computed[alpha] = self._maximum(alpha)
        return self.computed[alpha]

    def above(self, alpha: Fraction) -> Fraction:
        """Return AL(alpha) as an exact number, never below the true one: a series adds it up, a gate compares it.

        `alpha` itself if the step is extreme; else it depends on `float_above(alpha)` alone, and does not exceed it.
        Cut to KEPT_BITS, upwards: so a sweep ends where a change is in the last bits, and nothing of it is left out.

        Parameters
        ----------
        alpha
            Leakage so far, in nats, at least 0.
        """
        if self.extreme:
            return alpha
        least = float_above(alpha)
        value = float(self(least))
        if value == 0.0:
            return Fraction(0)
        mantissa, exponent = math.frexp(math.nextafter(value + ROUNDING * least, math.inf))
        return Fraction(min(least, math.ldexp(math.ceil(mantissa * 2**KEPT_BITS), exponent - KEPT_BITS)))

    def _maximum(self, alpha: float) -> float:
        best = max((point.value(alpha) for point in self.points), default=0.0)
        while self.rows is not None:
            point = _best_point(self.rows, math.exp(min(best, 700.0)))
            value = point.value(alpha)
            if not value > best:
                break
            self.points.append(point)
            best = value
        return best

    def complete(self) -> LeakageStep:
        """Return the same function by its points alone, for all alpha: the form that the ledger keeps.

        sum_j (q_j - v d_j)^+, maximised over pairs, is a convex, piecewise linear function of v; its pieces are the
        points. For two neighbouring pieces, the value at their crossing shows whether another piece is between
        them.
        """
        if self.rows is None:
            return self
        first, last = _best_point(self.rows, 1.0), _best_point(self.rows, 1e15)
        all_points = [first, *_between(self.rows, first, last), last]
        return LeakageStep(points=list(dict.fromkeys(all_points)), witness=self.witness)


def _between(rows: Floats, left: Point, right: Point) -> list[Point]:
    if left.D <= right.D:
        return []
    crossing = (left.Q - right.Q) / (left.D - right.D)
    middle = _best_point(rows, crossing)
    height = left.Q - crossing * left.D
    if middle.Q - crossing * middle.D <= height + 1e-15 or middle in (left, right):
        return []
    return [*_between(rows, left, middle), middle, *_between(rows, middle, right)]


def _best_point(rows: Floats, v: float) -> Point:
    """Return the pair of rows and set of columns with the largest sum_j (q_j - v d_j)^+, as (Q, D)."""
    n, m = rows.shape
    weighted = v * rows
    best, pair = -1.0, (0, 0)
    block = max(1, BLOCK // (n * m))
    for start in range(0, n, block):
        excess = rows[start : start + block, None, :] - weighted[None, :, :]
        totals = np.maximum(excess, 0.0, out=excess).sum(axis=2)
        best_index = int(np.argmax(totals))
        if totals.flat[best_index] > best:
            best, pair = float(totals.flat[best_index]), (start + best_index // n, best_index % n)
    q, d = rows[pair[0]], rows[pair[1]]
    chosen = q > v * d
    return Point(float(q[chosen].sum()), float(d[chosen].sum()))


def leakage_step(rows: Any, alpha: float) -> float:
    """Return AL(alpha) of a stochastic matrix.

    Parameters
    ----------
    rows
        The matrix, dense or scipy sparse. Rows are states, columns the states of the neighbouring release.
    alpha
        Leakage so far, in nats.

    Raises
    ------
    InputError
        If alpha is negative or not finite, a row is no distribution, or the matrix is too large to decide.
    """
    if not (math.isfinite(alpha) and alpha >= 0):
        raise InputError(f"alpha = {alpha!r} is not a finite number >= 0")
    return float(step(rows)(alpha))


def step(rows: Any) -> LeakageStep:
    """Return the function AL of a stochastic matrix.

    Parameters
    ----------
    rows
        The matrix, dense or scipy sparse. Rows are states, columns the states of the neighbouring release.

    Raises
    ------
    InputError
        If a row is no distribution, or the matrix is too large to decide.
    """
    matrix = stochastic(rows)
    if matrix.shape[0] < 2:
        return LeakageStep(points=[Point(0.0, 0.0)])
    witness = disjoint_pair(matrix)
    if witness is not None:
        return LeakageStep(points=[EXTREME], witness=witness)
    return LeakageStep(rows=_distinct(matrix))


def stochastic(rows: Any) -> csr_matrix:
    """Return a matrix as a sparse one without explicit zeros.

    Parameters
    ----------
    rows
        The matrix, dense or scipy sparse.

    Raises
    ------
    InputError
        If a row is not a distribution, up to `ROW_SUM_TOLERANCE`.
    """
    from scipy import sparse

    matrix = sparse.csr_matrix(rows, dtype=np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.all(np.isfinite(matrix.data)) or np.any(matrix.data < 0):
        raise InputError("a correlation holds a probability that is negative or not a number")
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
    if len(wrong):
        raise InputError(f"row {int(wrong[0])} of a correlation sums to {sums[wrong[0]]:.12g}, not to 1")
    return matrix


def disjoint_pair(matrix: csr_matrix) -> tuple[int, int] | None:
    """Find two rows without a common column.

    Rows of small support are tried first: they decide at once.

    Parameters
    ----------
    matrix
        A stochastic matrix without explicit zeros.

    Returns
    -------
    tuple of int or None
        Both rows; None if any two have a column in common.
    """
    support = matrix.copy()
    support.data[:] = 1.0
    sizes = np.diff(support.indptr)
    order = np.argsort(sizes, kind="stable")
    for start in range(0, len(order), ROW_BLOCK):
        chosen = order[start : start + ROW_BLOCK]
        meets = (support[chosen] @ support.T).tocsr()
        lacking = np.flatnonzero(np.diff(meets.indptr) < support.shape[0])
        if len(lacking):
            row = int(lacking[0])
            met = meets.indices[meets.indptr[row] : meets.indptr[row + 1]]
            other = np.setdiff1d(np.arange(support.shape[0]), met)[0]
            return int(chosen[row]), int(other)
    return None


def _distinct(matrix: csr_matrix) -> Floats:
    used = matrix[:, np.unique(matrix.indices)]
    seen: dict[bytes, int] = {}
    for row in range(used.shape[0]):
        part = slice(used.indptr[row], used.indptr[row + 1])
        seen.setdefault(used.indices[part].tobytes() + used.data[part].tobytes(), row)
        if len(seen) > MOST_ROWS:
            raise InputError(
                f"more than {MOST_ROWS} of {matrix.shape[0]} states have correlations that overlap pairwise; "
                "choose coarser states or a smaller window"
            )
    return np.asarray(used[list(seen.values())].toarray(), dtype=np.float64)
