"""Stage 2, context model: how often each label, or the end, follows the last 1..k labels of a case.

Level j holds the steps whose last j labels (the start of the case counts as one) are a given context. A case of l
events takes L = l + 1 steps, the end included. The weight of a step, in units of 2^-16, rounded down, depends on its
own case alone, and is such that the case changes each level by at most B in L2, however long it is:

* `root_weights`: B / sqrt(L n), where the case takes n steps with this context and this label. The cell then has
  B sqrt(n / L). The squares of all cells of the case add up to B^2, since the numbers n add up to at most L.
* `step_weights`: min(1, B / m), where m is the L2 norm of the case's cells of level 1, each step as 1. A longer context
  only divides the steps of a cell among several, which makes no norm larger.

So c cases change a level by at most B c (triangle inequality), and discrete Gaussian noise of scale s on every cell
makes a level (B c)^2 / (2 s^2)-zCDP (Canonne, Kamath and Steinke 2020, theorem 4). The levels add up (Bun and Steinke
2016, lemma 2.3). *Every* cell of an opened context gets noise, also one that nobody fills. The noisy counts of the
level above decide which contexts a level opens, never the cases. The noisy first level may also decide how the rest of
the rho is divided; its sum stays.

Why not Laplace noise: it asks for the sum of a case's steps, so each step weighs B / L (`case_weights`), and with many
different steps the norm is about its square root.

After the noise: cells below `DROP` scales are 0; no cell exceeds that of its shorter context; a context is smoothed by
the shorter one with the weight of `SMOOTH` scales. Traces are drawn from it until the end, at most to a public length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.noise import NoiseSource
from models.dp.synthesis.table import Variant
from models.dp.zcdp import scale_of
from models.errors import BoundError, InputError
from models.eventlog import Floats, Ints, place_in_run, starts_of

UNIT = 1 << 16
"""Weights are whole multiples of 1 / UNIT, rounded down: a case never weighs more than B."""

LAPLACE = 2.0**0.5
"""Deviations of Laplace noise a scale: prices and least counts are in scales of it, whatever the noise is."""

DROP = 1.5
"""Cells below so many scales of the noise count as 0: eight of nine of the empty ones. At 2 scales the rare steps of
Sepsis go too: its DFG error at epsilon 1 is .28 then, not .24."""

SHORT = 4
"""Least L of `root_weights`. Without it the steps of very short cases weigh more; BPIC 2012 at epsilon .1 then has .003
less similarity and .009 more DFG error, which may be chance (docs/decisions/130)."""

FEW = 0.05
"""Weight that makes up for few traces in a cell of `step_ratios`, as a part of that of a mean cell."""

MOST_RATIO = 2.0
"""Largest ratio of `step_ratios`. Noise in the cell of a step from a label to itself makes traces that repeat it, whose
ratio raises the noise: without a limit one release of BPIC 2012 in twelve had twice the DFG error."""

SMOOTH = 3.0
"""Scales of the noise that the shorter context's opinion weighs."""

MOST_KEYS = int(np.iinfo(np.int64).max)
"""Of steps with their variant, so that a whole number of 64 bits holds each."""

MOST_CELLS = 30_000_000
"""Cells of a level beyond it would not fit the time of a release: refused by public values."""

MOST_LONG_CELLS = 3_000_000
"""Cells of a level of three labels or more. Beyond it the level is not measured, and its rho is not spent: among many
labels noise alone opens a seventh of all cells, and a release must not fail after its budget is charged."""


@content_free()
@dataclass(frozen=True, slots=True)
class ContextLevel:
    """A noisy level of the context model.

    Attributes
    ----------
    contexts : int64[C]
        Sorted keys of the opened contexts.
    cells : int64[C, A + 1]
        Noisy counts in units of 1 / UNIT, as drawn.
    scale : float64[C]
        Scale of Laplace noise with the deviation of the cells' noise, in the same unit.
    """

    contexts: Ints
    cells: Ints
    scale: Floats

    @property
    def labels(self) -> int:
        """Number of labels, A. It is also the key of the context at the start of a case."""
        return int(self.cells.shape[1]) - 1


@content_free("labels")
@dataclass(frozen=True, slots=True)
class VariantSteps:
    """All steps of some variants, S in all.

    Attributes
    ----------
    before : int64[S]
        Label before the step (A: the start).
    after : int64[S]
        Label of the step (A: the end).
    place : int64[S]
        Steps of the case before it.
    variant : int64[S]
        Variant of the step.
    labels : int
        A, the number of labels.
    """

    before: Ints
    after: Ints
    place: Ints
    variant: Ints
    labels: int

    @classmethod
    def of(cls, variants: Sequence[Variant], labels: int) -> VariantSteps:
        """Return the steps of each variant, one after another."""
        lengths = np.fromiter(map(len, variants), dtype=np.int64, count=len(variants)) + 1
        starts = starts_of(lengths)
        after = np.full(starts[-1], labels, dtype=np.int64)
        inner = np.ones(len(after), dtype=np.bool_)
        inner[starts[1:] - 1] = False
        after[inner] = np.fromiter(chain.from_iterable(variants), dtype=np.int64)
        before = np.concatenate(([labels], after))[: len(after)].astype(np.int64)
        variant = np.repeat(np.arange(len(variants)), lengths)
        return cls(before, after, place_in_run(starts), variant, labels)

    def keys(self, order: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the key of the context of `order` labels before each step, and whether the step has so many.

        The start of the case counts as a label.
        """
        # A key has one digit a label, the last label in the lowest place. The label `back` places before a
        # step is the entry of an earlier step; at the begin of a case it is of another case, and the step
        # has too few labels.
        radix, keys = self.labels + 1, np.zeros(len(self.before), dtype=np.int64)
        for back in range(order):
            moved = np.concatenate((np.zeros(back, dtype=np.int64), self.before))[: len(self.before)]
            keys += moved * radix**back
        return keys, self.place >= order - 1

    def of_case(self) -> Ints:
        """Return the number of steps of the variant of each step, int64[S]."""
        return np.bincount(self.variant)[self.variant]

    def repeats(self, order: int) -> Ints:
        """Return how often the variant takes each step, with the last `order` labels before it: int64[S]."""
        # The key of a step with too few labels reaches into the case before. It is never that of a step with enough
        # labels, whose weight would then depend on another case: the start is among its last labels, at another place.
        step, _ = self.keys(order)
        step *= self.labels + 1
        step += self.after
        steps = (self.labels + 1) ** (order + 1)
        # Among very many labels the steps are numbered anew, so that they fit 64 bits with their variant.
        if steps * len(self.variant) > MOST_KEYS:
            _, step = np.unique(step, return_inverse=True)
            steps = len(step)
        step += self.variant * steps
        # Equal steps of a variant are a run in order.
        by_step = np.argsort(step)
        step = step[by_step]
        run_begins = np.flatnonzero(np.diff(step, prepend=-1))
        run_lengths = np.diff(run_begins, append=len(step))
        times_taken = np.empty(len(step), dtype=np.int64)
        times_taken[by_step] = np.repeat(run_lengths, run_lengths)
        return times_taken

    def norms(self) -> Floats:
        """Return the L2 norm of the numbers of equal steps of each variant, float64[V]; each variant has a step."""
        # Each of n equal steps adds n: n^2 in all.
        return np.sqrt(np.bincount(self.variant, self.repeats(1)))

    def rows(self, opened: Ints, order: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the place of each step's context in the sorted keys `opened`, and whether it is among them.

        Contexts are `order` labels long.
        """
        keys, fits_order = self.keys(order)
        row, is_open = _rows(opened, keys)
        return row, is_open & fits_order


Weigh = Callable[[VariantSteps, int, int], Ints]
"""Weights of steps, int64[S], in units of 1 / UNIT: from the steps of some cases, the bound B, and the number of labels
of a context."""


def case_weights(steps: VariantSteps, bound: int, order: int) -> Ints:
    """Return weights with which a case adds at most `bound` to a level in sum, for Laplace noise.

    They are the same on every level.
    """
    return np.minimum(bound * UNIT // steps.of_case(), UNIT)


def step_weights(steps: VariantSteps, bound: int, order: int) -> Ints:
    """Return weights with which a case adds at most `bound` to a level in L2, for counts of steps.

    All steps of a case weigh the same, on every level. So the weights of a cell are a number of steps, and steps into a
    label weigh as much as the steps out of it.
    """
    repeats = steps.repeats(1)
    square_of_variant = np.bincount(steps.variant, repeats).astype(np.int64)  # each of n equal steps adds n: n^2 in all
    return np.minimum(_root((bound * UNIT) ** 2 // square_of_variant[steps.variant]), UNIT)


def root_weights(steps: VariantSteps, bound: int, order: int) -> Ints:
    """Return weights with which a case adds at most `bound` to a level in L2, for all its different steps.

    A step that occurs n times among the L steps of a case weighs B / sqrt(L n), so its cell has B sqrt(n / L), and the
    squares of all cells add up to B^2. Repeats leave more room for the other steps than with `step_weights`. But the
    cells are no numbers of steps: `step_ratios` estimates these. Of a case of fewer than `SHORT` steps L is `SHORT`.
    """
    return _root((bound * UNIT) ** 2 // (np.maximum(steps.of_case(), SHORT) * steps.repeats(order)))


def _root(squares: Ints) -> Ints:
    """Return the whole part of the square root of each number; of numbers below 2^52 floats give it exactly."""
    return np.sqrt(squares).astype(np.int64)


def measure(
    variants: Sequence[Variant],
    counts: Ints,
    labels: int,
    rhos: Sequence[Fraction],
    bound: int,
    draw: NoiseSource,
    cases_per_person: int = 1,
    divided: Callable[[ContextLevel, Sequence[Fraction]], Sequence[Fraction]] | None = None,
    *,
    weigh: Weigh,
    earlier: ContextLevel | None = None,
) -> list[ContextLevel]:
    """Measure the noisy levels of the context model.

    All levels together are (sum of rhos)-zCDP, as the docstring of the module shows.

    Parameters
    ----------
    variants, counts
        The true variants, and their cases, int64[V].
    labels
        Number of labels, A.
    rhos
        The rho of each level, from level 1 on.
    bound
        The most that one case adds to a level in L2 (B).
    draw
        Source of the noise.
    cases_per_person
        Most cases of one person.
    divided
        Divides what is left of the rhos after the noisy first level, which it reads with the rhos. It returns the rho
        of a second measurement of the first level, which becomes the mean of both, then that of each longer level. If
        not given, there is no second measurement, and each level has its own rho.
    weigh
        Weights of steps: `step_weights`, or `root_weights`.
    earlier
        A noisy first level of the same cases, measured before. The first level is the mean of both; the rho of the
        earlier one is none of `rhos`.

    Raises
    ------
    InputError
        If keys of contexts of so many labels would not fit 64 bits.
    BoundError
        If the first or the second level has too many cells.
    """
    if labels and (labels + 1) ** (len(rhos) + 1) > np.iinfo(np.int64).max:
        raise InputError(f"a context model of order {len(rhos)} over {labels} labels does not fit: lower the order")
    steps = VariantSteps.of(variants, labels)
    cases_of_step = counts[steps.variant]
    opened = np.arange(labels + 1, dtype=np.int64)
    moved = bound * UNIT * cases_per_person
    weights = weigh(steps, bound, 1) * cases_of_step
    first = _measured(steps, weights, opened, rhos[0], moved, draw)
    if earlier is not None:
        first = together(earlier, first)
    division: Sequence[Fraction] = [Fraction(0), *rhos[1:]]
    if divided is not None and len(rhos) > 1:
        division = divided(first, rhos)
    again, *longer = division
    if again:
        first = together(first, _measured(steps, weights, opened, again, moved, draw))
    levels = [first]
    for order, rho in enumerate(longer, start=2):
        opened = _next_contexts(levels)
        if order > 2 and len(opened) * (labels + 1) > MOST_LONG_CELLS:
            break
        weights = weigh(steps, bound, order) * cases_of_step
        levels.append(_measured(steps, weights, opened, rho, moved, draw, order))
    return levels


def _measured(
    steps: VariantSteps, weights: Ints, opened: Ints, rho: Fraction, moved: int, draw: NoiseSource, order: int = 1
) -> ContextLevel:
    """Measure one level.

    Parameters
    ----------
    steps, weights
        The steps of all variants, and the weight of each in all cases.
    opened
        Sorted keys of the contexts that are counted.
    rho
        The rho of the measurement.
    moved
        The most that one person changes a level in L2, in units of 1 / UNIT.
    draw
        Source of the noise.
    order
        Number of labels of a context.
    """
    size = len(opened) * (steps.labels + 1)
    if size > MOST_CELLS:
        raise BoundError(f"level {order} of the context model has {size} cells: too many labels")
    scale = scale_of(rho, moved)
    cells = true_cells(steps, weights, opened, order)
    cells += draw.gaussian(scale, cells.size).reshape(cells.shape)
    return ContextLevel(opened, cells, np.full(len(opened), scale / LAPLACE))


def together(first: ContextLevel, other: ContextLevel) -> ContextLevel:
    """Return the mean of two measurements of one level, weighted by their rhos: 1 / scale^2."""
    rhos = first.scale**-2.0, other.scale**-2.0
    part = (rhos[0] / (rhos[0] + rhos[1]))[:, None]
    cells = np.rint(part * first.cells + (1 - part) * other.cells).astype(np.int64)
    return ContextLevel(first.contexts, cells, (rhos[0] + rhos[1]) ** -0.5)


def without_counted(level: ContextLevel, counted: Mapping[Variant, int], bound: int, weigh: Weigh) -> ContextLevel:
    """Return a noisy first level without the steps of some variants, by their noisy counts.

    Parameters
    ----------
    level
        A noisy first level of all cases.
    counted
        The variants, and their noisy counts.
    bound, weigh
        The bound B and the weights with which the level was measured.
    """
    if not counted:
        return level
    steps = VariantSteps.of(list(counted), level.labels)
    cases_of_step = np.asarray(list(counted.values()), dtype=np.int64)[steps.variant]
    steps_of_counted = true_cells(steps, weigh(steps, bound, 1) * cases_of_step, level.contexts, 1)
    return replace(level, cells=level.cells - steps_of_counted)


def true_cells(steps: VariantSteps, weights: Ints, opened: Ints, order: int) -> Ints:
    """Add up the weights of steps by context and next label.

    Parameters
    ----------
    steps, weights
        The steps, and the weight of each.
    opened
        int64[C], sorted keys of the contexts that are counted.
    order
        Number of labels of a context.

    Returns
    -------
    Ints
        int64[C, A + 1].
    """
    row, is_open = steps.rows(opened, order)
    cells = np.zeros((len(opened), steps.labels + 1), dtype=np.int64)
    np.add.at(cells, (row[is_open], steps.after[is_open]), weights[is_open])
    return cells


def _rows(opened: Ints, keys: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the place of each key among the opened contexts, and whether the context is open."""
    row = np.searchsorted(opened, keys)
    inside = np.minimum(row, len(opened) - 1)
    if not len(opened):
        return inside, np.zeros(len(keys), dtype=np.bool_)
    return inside, opened[inside] == keys


def _next_contexts(levels: list[ContextLevel]) -> Ints:
    """Return longer contexts with a noisy count of at least `DROP` scales and an open shorter context."""
    level = levels[-1]
    radix = level.labels + 1
    row, label = np.nonzero(level.cells[:, : level.labels] >= DROP * level.scale[:, None])
    keys = level.contexts[row] * radix + label
    _, is_open = _rows(level.contexts, keys % radix ** len(levels))
    return np.sort(keys[is_open])


@content_free("labels")
@dataclass(frozen=True, slots=True)
class Model:
    """Probabilities of the next label after each context.

    Attributes
    ----------
    contexts : list of int64
        `contexts[j - 1]`: sorted keys of level j.
    rows : list of int
        `rows[j - 1]`: first row of level j in `chances`.
    chances : float64[all contexts, A + 1]
        Each row adds up to 1.
    """

    contexts: tuple[Ints, ...]
    rows: tuple[int, ...]
    chances: Floats
    labels: int

    @classmethod
    def of(cls, levels: Sequence[ContextLevel], drop: float = DROP) -> Model:
        """Build the model of noisy levels, with cells below `drop` scales set to 0.

        It is post-processing and reads nothing else.
        """
        labels = levels[0].labels
        radix = labels + 1
        contexts: list[Ints] = []
        rows: list[int] = []
        chances: list[Floats] = []
        limits: Floats | None = None
        for order, level in enumerate(levels, start=1):
            noise = level.scale[:, None]
            cells = np.where(level.cells >= drop * noise, level.cells, 0).astype(np.float64)
            total = cells.sum(axis=1, keepdims=True)
            if limits is None:
                # The first level has no shorter context. After a label whose cells are all 0 the trace ends.
                at_once = np.zeros_like(cells)
                at_once[:, labels] = 1.0
                chance = np.divide(cells, total, out=at_once, where=total > 0)
            else:
                # No cell exceeds that of its shorter context, which counts the same steps and more. The
                # shorter context smooths the chances with the weight of so many steps.
                shorter, _ = _rows(contexts[-1], level.contexts % radix ** (order - 1))
                cells = np.minimum(cells, limits[shorter])
                weight, total = SMOOTH * noise, cells.sum(axis=1, keepdims=True)
                chance = (cells + weight * chances[-1][shorter]) / (total + weight)
            limits = cells
            rows.append(sum(map(len, contexts)))
            contexts.append(level.contexts)
            chances.append(chance)
        return cls(tuple(contexts), tuple(rows), np.concatenate(chances), labels)

    def sample(self, size: int, longest: int, draw: NoiseSource) -> dict[Variant, int]:
        """Draw traces, and count how often each was drawn.

        Parameters
        ----------
        size
            Number of draws.
        longest
            Most labels of a trace; longer ones end there.
        draw
            Source of the random numbers.

        Returns
        -------
        dict of Variant to int
            In the order in which the traces were first drawn.
        """
        radix = self.labels + 1
        upper = np.minimum(np.cumsum(self.chances, axis=1), 1.0)  # rounding may pass 1, into the next row
        # Row r of the flat table has values between r and r + 1: one search finds the label in the row of each trace.
        # If rounding ends a row below 1, values beyond it are the end of the trace as well.
        flat = (upper + np.arange(len(upper))[:, None]).ravel()
        small = self.labels <= np.iinfo(np.int16).max  # half of the memory
        traces = np.full((size, longest), -1, dtype=np.int16 if small else np.int32)
        live = np.arange(size)

        # All traces grow by one label a round; `live` are those that have not ended, `keys` their contexts
        # by length. At the start only the shortest context exists: the start itself.
        keys = [np.full(size, self.labels, dtype=np.int64)]
        keys += [np.full(size, -1, dtype=np.int64)] * (len(self.contexts) - 1)
        for place in range(longest):
            state = self._deepest(keys)
            label = np.searchsorted(flat, state + draw.uniform(len(live)), side="right") - state * radix
            going = label < self.labels
            live, label = live[going], label[going]
            if not len(live):
                break
            traces[live, place] = label
            keys = [label, *(_longer(key[going], label, radix) for key in keys[:-1])]

        # Equal traces are found as equal bytes: a tuple for each draw would take several times as long.
        width = int((traces >= 0).sum(axis=1).max(initial=1))
        rows = np.ascontiguousarray(traces[:, :width])
        times_drawn = Counter(rows.view(f"V{rows.itemsize * width}").ravel().tolist())
        distinct = np.frombuffer(b"".join(times_drawn), dtype=rows.dtype).reshape(-1, width)
        drawn_labels = distinct[distinct >= 0].tolist()
        ends = starts_of((distinct >= 0).sum(axis=1)).tolist()
        variants = (tuple(drawn_labels[begin:end]) for begin, end in pairwise(ends))
        return dict(zip(variants, times_drawn.values(), strict=True))

    def _deepest(self, keys: list[Ints]) -> Ints:
        """Return the row of `chances` of the longest opened context of each trace."""
        best = self.rows[0] + np.searchsorted(self.contexts[0], keys[0])
        for key, contexts, first in zip(keys[1:], self.contexts[1:], self.rows[1:], strict=True):
            row, is_open = _rows(contexts, key)
            best = np.where(is_open, first + row, best)
        return best


def cases(level: ContextLevel, drawn: Mapping[Variant, int], bound: int, weigh: Weigh) -> float:
    """Estimate how many cases the first level saw, from its noisy cells.

    The noisy weight of all starts is divided by the mean weight of a start in drawn traces.

    Parameters
    ----------
    level
        The noisy first level.
    drawn
        Drawn traces, and how often each was drawn.
    bound, weigh
        The bound B and the weights with which the level was measured.
    """
    steps = VariantSteps.of(list(drawn), level.labels)
    weights = weigh(steps, bound, 1)[steps.place == 0]
    begun = max(float(level.cells[level.labels].sum()), 0.0)
    each = np.asarray(list(drawn.values()), dtype=np.int64)
    return begun / float(weights @ each / each.sum())


def step_ratios(level: ContextLevel, order: int, drawn: Mapping[Variant, int], bound: int, weigh: Weigh) -> Floats:
    """Estimate how many steps a unit of weight is in each cell, from drawn traces.

    Parameters
    ----------
    level
        A noisy level.
    order
        Number of labels of its contexts.
    drawn
        Traces that are like the cases, and how often each occurs.
    bound, weigh
        The bound B and the weights with which the level was measured.

    Returns
    -------
    Floats
        float64[C, A + 1], relative to all cells together, between 1 / `MOST_RATIO` and `MOST_RATIO`. Cells that few of
        the traces have are near to 1.
    """
    steps = VariantSteps.of(list(drawn), level.labels)
    taken = np.asarray(list(drawn.values()), dtype=np.int64)[steps.variant]
    number = true_cells(steps, taken * UNIT, level.contexts, order).astype(np.float64)
    weight = true_cells(steps, taken * weigh(steps, bound, order), level.contexts, order).astype(np.float64)
    if not weight.any():
        return np.ones(weight.shape)
    mean_ratio = number.sum() / weight.sum()
    least_weight = FEW * weight[weight > 0].mean()
    ratios: Floats = (number / mean_ratio + least_weight) / (weight + least_weight)
    return np.clip(ratios, 1 / MOST_RATIO, MOST_RATIO)


def _longer(keys: Ints, label: Ints, radix: int) -> Ints:
    """Return keys one label longer; -1 stays: the trace is shorter than the context."""
    return np.where(keys >= 0, keys * radix + label, -1)
