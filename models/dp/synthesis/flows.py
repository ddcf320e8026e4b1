"""Flow conservation: noisy cells of the first level of a context model are made to fit each other.

In numbers of steps, what enters a label adds up to what leaves it, and so do all starts and all ends. The same holds
for the true cells of a first level in which every step of a case weighs the same (`step_weights`), and about so for
`root_weights`. Noise breaks this equality, and restoring it takes noise away. The result has cells that keep the
equality, are not below 0, and are nearest to the noisy ones less a price on each (least squares with a price on nonzero
cells, the lasso: Tibshirani 1996). It reads noisy cells alone, so it is post-processing, which costs no epsilon (Hay et
al. 2010, "Boosting the accuracy of differentially private histograms through consistency").

With potentials u the solution is max(0, noisy - price + u_a - u_b) in the cell (a, b), and u has the least sum of
squares of that (the dual problem, smooth and convex in as many unknowns as there are labels).

A price may differ from cell to cell (the adaptive lasso: Zou 2006). `thinned_by_labels` asks less for cells between
frequent labels: more of them are steps of the log, and fewer are noise.

Not guaranteed: anything about the cases. A cell that the price removes may be a rare step of the log.
"""

from __future__ import annotations

import numpy as np

from models.dp.synthesis.contexts import LAPLACE, ContextLevel
from models.eventlog import Floats

MOST_STEPS = 1_000
"""Of the solver; a hundred are enough for logs of 30 labels."""

MOST_WORK = 10**9
"""Cells times steps: many labels have fewer steps, and fit each other less well."""

BY_LABELS = 0.3
"""Part of the price that depends on how frequent the labels of a cell are (`thinned_by_labels`). At .5 the error of
Sepsis is less, but that of logs whose labels have a fixed order is more (docs/decisions/135)."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


def balanced(level: ContextLevel, price: float | Floats | None = None, ratios: Floats | None = None) -> ContextLevel:
    """Return a first level without the noise that contradicts a flow of cases.

    The level is int64[A + 1, A + 1]; start and end are the same row and column. The scale of the result is 0: none of
    it is below the noise any more.

    Parameters
    ----------
    price : float or float64[A + 1, A + 1], optional
        In scales of the noise; ln(A + 1) / 2 by default, since more cells are filled by noise alone if there are more.
    ratios : float64[A + 1, A + 1], optional
        Factors of the cells less the price, which turn weights of steps into numbers of steps.
    """
    each = np.log(len(level.contexts)) / 2 if price is None else price
    priced = level.cells - each * level.scale[:, None]
    cells = circulation(priced if ratios is None else priced * ratios)
    return ContextLevel(level.contexts, np.rint(cells).astype(np.int64), np.zeros(len(level.scale)))


def thinned(level: ContextLevel, factor: float = 1.0, ratios: Floats | None = None) -> ContextLevel:
    """Run `balanced` on a level with Gaussian noise, at a price of `factor` ln(A + 1) / 2 deviations.

    Parameters
    ----------
    level
        A level with Gaussian noise.
    factor
        Multiple of the price.
    ratios
        As `balanced` takes them.
    """
    return balanced(level, factor * _usual_price(level), ratios)


def thinned_by_labels(level: ContextLevel, factor: float = 1.0) -> ContextLevel:
    """Run `thinned`, then again at prices that depend on the labels of a cell.

    The first result shows how frequent each label is. If labels followed each other by chance, the cell (a, b) would
    have n_a n_b / n of all n steps. A cell without such steps pays 1 + `BY_LABELS` times the price, one with the mean
    number pays the price, and one with twice the mean or more pays 1 - `BY_LABELS` times the price.

    The start and the end of a case are seldom among its steps, but every case has them: their cells pay the price at
    most. If they were left out, drawn traces would have no end.

    Parameters
    ----------
    level
        A level with Gaussian noise.
    factor
        Multiple of all prices.
    """
    price = factor * _usual_price(level)
    first = balanced(level, price)
    steps_of_label = first.cells.sum(axis=1).astype(np.float64)
    if not steps_of_label.any():
        return first

    by_chance = np.outer(steps_of_label, steps_of_label)
    times_the_mean = np.minimum(by_chance / by_chance.mean(), 2.0)
    factors = 1 + BY_LABELS * (1 - times_the_mean)
    factors[-1] = np.minimum(factors[-1], 1.0)  # starts
    factors[:, -1] = np.minimum(factors[:, -1], 1.0)  # ends
    return balanced(level, price * factors)


def _usual_price(level: ContextLevel) -> float:
    """Return the price of a cell with Gaussian noise: ln(A + 1) / 2 deviations, in scales of the noise."""
    return float(LAPLACE * np.log(len(level.contexts)) / 2)


def circulation(matrix: Floats) -> Floats:
    """Return the nearest square matrix without negative cells whose row sums equal its column sums.

    Parameters
    ----------
    matrix
        float64[n, n], flow from each row to each column.

    Returns
    -------
    Floats
        float64[n, n], the nearest in squared distance, as far as `MOST_STEPS` steps of the search come.
    """
    from scipy.optimize import minimize

    unit = float(np.abs(matrix).max(initial=0.0))
    if not unit:
        return np.zeros(matrix.shape)
    scaled = matrix / unit

    def kept(u: Vector) -> Floats:
        return np.asarray(np.maximum(scaled + u[:, None] - u[None, :], 0.0))

    def dual(u: Vector) -> tuple[float, Floats]:
        cells = kept(u)
        return 0.5 * float((cells**2).sum()), np.asarray(cells.sum(axis=1) - cells.sum(axis=0))

    steps = max(min(MOST_STEPS, MOST_WORK // matrix.size), 10)
    optimum = minimize(
        dual,
        np.zeros(len(matrix)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 0.0, "gtol": 1e-9},
    )
    return kept(optimum.x) * unit
