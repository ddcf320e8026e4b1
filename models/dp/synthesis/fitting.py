"""Cases of the released traces, fitted to all noisy cells together: those of the weights and of the levels.

The weights count the cases near each candidate, a level the steps from each of its contexts to each label. All
are noisy counts of the same cases. Only the noise of shorter levels decides which contexts a longer one counts, so this
choice does not make its own noise larger or smaller. The fitted cases are those with the least

    sum over cells of ((what the cases give - noisy count) / its standard deviation)^2 / 2 + faith KL(cases, prior),

where the prior is what spreading alone gives (`models.dp.synthesis.spreading`) and KL is the relative entropy of
positive measures. It is found by exponentiated gradients (Kivinen and Warmuth 1997) with a step that halves until the
sum falls; a trace that the prior has stays positive. It reads noisy counts alone: post-processing.

Not guaranteed: that the true cases have the least sum, or that it is reached: `STEPS` bound the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.content_free import content_free
from models.dp.noise import NoiseSource
from models.dp.synthesis.contexts import LAPLACE, UNIT, ContextLevel, VariantSteps, Weigh
from models.dp.synthesis.spreading import Spread
from models.dp.synthesis.table import Variant
from models.eventlog import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FAITH = 0.1
"""Weight of the relative entropy of one case, unless the caller gives another one."""

STEPS = 200
"""Of the solver, at most; it ends where `LOOK` steps lessen the sum by less than a part of `ENOUGH`."""

LOOK = 10
ENOUGH = 1e-4

LARGEST = 3.0
"""A step changes a number of cases by a factor of e^3 at most."""


@content_free()
@dataclass(frozen=True, slots=True)
class Cells:
    """Noisy counts that cases contribute to.

    Attributes
    ----------
    of : sparse[cells, traces]
        The contribution of a case of each trace.
    noisy : float64[cells]
        Noisy counts.
    deviation : float64[cells]
        Deviation of the noise of each, in the same unit.
    """

    of: csr_array
    noisy: Floats
    deviation: Floats

    @classmethod
    def together(cls, parts: Sequence[Cells]) -> Cells:
        """Return the cells of all parts, which the same traces contribute to."""
        from scipy.sparse import vstack

        noisy = np.concatenate([part.noisy for part in parts])
        deviation = np.concatenate([part.deviation for part in parts])
        return cls(vstack([part.of for part in parts], format="csr"), noisy, deviation)

    def misfit(self, cases: Floats) -> Floats:
        """Return how far the sums of the cells are from their noisy values, in standard deviations.

        Parameters
        ----------
        cases
            float64[traces], cases of each trace.

        Returns
        -------
        Floats
            float64[cells].
        """
        return np.asarray((self.of @ cases - self.noisy) / self.deviation)


def fit(near: Spread, cells: Sequence[Cells], draw: NoiseSource, faith: float = FAITH) -> list[tuple[Variant, int]]:
    """Return the traces of a spread with whole numbers of fitted cases.

    Parameters
    ----------
    near
        Traces and cases near which the result stays.
    cells
        Noisy sums that it fits.
    draw
        Source of the rounding.
    faith
        Weight of the prior (`fitted`).
    """
    return near.whole_cases(fitted(near.cases, cells, faith), draw) if near.traces else []


def follows(
    near: Spread,
    level: ContextLevel,
    bound: int,
    weigh: Weigh,
    counted: Mapping[Variant, int] | None = None,
    order: int = 1,
) -> Cells:
    """Return the cells of a level that some trace contributes to.

    Parameters
    ----------
    near
        The traces whose cases are fitted.
    level
        Noisy level of the context model.
    bound
        The most that one case adds to the level (B).
    weigh
        Weights of steps, as the level was measured.
    counted
        Noisy counts of frequent variants. The model did not measure their cases, so they are added to the noisy cells.
    order
        Number of labels of a context.
    """
    noisy = level.cells.astype(np.float64).ravel() / UNIT
    if counted:
        counted_steps = _steps(list(counted), level, order, bound, weigh)
        noisy += counted_steps @ np.asarray(list(counted.values()), dtype=np.float64)
    deviation = np.repeat(level.scale, level.labels + 1) / UNIT * LAPLACE
    of = _steps(near.traces, level, order, bound, weigh)
    used_rows = np.flatnonzero(np.diff(of.indptr))
    return Cells(of[used_rows], noisy[used_rows], deviation[used_rows])


def nearby(near: Spread, counts: Ints, scale: Floats) -> Cells:
    """Return the noisy numbers of cases near each candidate as cells.

    Parameters
    ----------
    near
        The traces whose cases are fitted. Each belongs to the cell of one candidate.
    counts, scale
        Noisy number of cases of each candidate, and the scale of its noise.
    """
    from scipy.sparse import csr_array

    place = np.arange(len(near.traces))
    of = csr_array((np.ones(len(place)), (near.cell, place)), shape=(len(counts), len(place)))
    return Cells(of, counts.astype(np.float64), scale * LAPLACE)


def _steps(traces: Sequence[Variant], level: ContextLevel, order: int, bound: int, weigh: Weigh) -> csr_array:
    """Return the weight of each step of an opened context in a case of each trace, [contexts * (A + 1), traces].

    It is 0 for traces with labels beyond A.
    """
    from scipy.sparse import csr_array

    contexts, labels = level.contexts, level.labels
    steps = VariantSteps.of(traces, labels)
    # The end of a trace is its only step to a code of A or more, if it has no label beyond A.
    has_all_labels = np.bincount(steps.variant[steps.after >= labels], minlength=len(traces)) == 1
    if not has_all_labels.all():
        seen = [trace if is_complete else () for trace, is_complete in zip(traces, has_all_labels, strict=True)]
        steps = VariantSteps.of(seen, labels)
    row, is_open = steps.rows(level.contexts, order)
    counted = np.flatnonzero(is_open & has_all_labels[steps.variant])
    weights = weigh(steps, bound, order)[counted] / UNIT
    place = row[counted] * (labels + 1) + steps.after[counted]
    shape = (len(contexts) * (labels + 1), len(traces))
    return csr_array((weights, (place, steps.variant[counted])), shape=shape)


def fitted(prior: Floats, cells: Sequence[Cells], faith: float = FAITH) -> Floats:
    """Return the cases of each trace that fit the cells best, near the prior.

    Parameters
    ----------
    prior
        float64[traces], all above 0.
    cells
        Noisy sums, each with the traces that it adds up.
    faith
        Weight of the relative entropy of one case.

    Returns
    -------
    Floats
        float64[traces].
    """
    if not cells:
        return prior
    # One product with the cells of all parts takes less time than one with each.
    together = Cells.together(cells)
    transposed = together.of.T.tocsr()
    cases, log_ratio = prior, np.zeros(len(prior))  # log_ratio is ln(cases / prior)
    misfit = together.misfit(cases)
    least_sum = _sum(prior, cases, log_ratio, misfit, faith)
    sum_at_last_look = np.inf
    rate = 1e-3
    for step in range(STEPS):
        if step % LOOK == 0:
            if least_sum >= sum_at_last_look * (1 - ENOUGH):
                break
            sum_at_last_look = least_sum

        # The gradient of the sum, then a step against it that is halved until the sum falls.
        slope = faith * log_ratio + transposed @ (misfit / together.deviation)
        while rate > 1e-12:
            tried_log_ratio = log_ratio + np.clip(-rate * slope, -LARGEST, LARGEST)
            tried = prior * np.exp(tried_log_ratio)
            tried_misfit = together.misfit(tried)
            tried_sum = _sum(prior, tried, tried_log_ratio, tried_misfit, faith)
            if tried_sum <= least_sum:
                cases, log_ratio, misfit, least_sum = tried, tried_log_ratio, tried_misfit, tried_sum
                break
            rate /= 2
        rate *= 1.3  # the next step may be longer
    return cases


def _sum(prior: Floats, cases: Floats, log_ratio: Floats, misfit: Floats, faith: float) -> float:
    """Return the sum that fitted cases have least of: see the docstring of the module.

    Parameters
    ----------
    prior, cases, log_ratio
        float64[traces], the cases of each trace before and after, and ln(cases / prior).
    misfit
        float64[cells] (`Cells.misfit`).
    faith
        Weight of the relative entropy of one case.
    """
    entropy = float((cases * log_ratio - cases + prior).sum())
    return faith * entropy + 0.5 * float((misfit**2).sum())
