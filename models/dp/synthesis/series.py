"""dp-synthetic of disjoint cases, with an accumulated log for each release: models and weights that add up.

Unit: one person with at most c cases in all releases together. `models.dp.accumulation` keeps the counts.
With L levels each stage's epsilon is divided by L, and a case enters one node a level, so the series costs
epsilon once. With correlated noise (`models.dp.factorization`) all stages of all releases are one Gaussian
pair (`models.dp.privacy_loss`), which is (epsilon, delta_dp)-DP.

Times have fresh Gaussian noise in each release. A person with k of c cases in a release moves its histograms by k / c
of their distance m, and the squares over all releases add up to at most m^2. With correlated noise m^2 is a part of the
one pair. Without it the times of all releases are (e, delta_dp)-DP, e their part of epsilon, and the other stages are
pure: all together are (epsilon, delta_dp)-DP.

Of the stages of `models.dp.synthetic` those that are linear add up: the cells of the context model (2) and the numbers
of cases nearest to each candidate (3). The alphabet (0) is declared or, with correlated noise, selected once; stage 1
is left out, since variants of a single window seldom pass a threshold. Each release continues from what all before it
made public:

* a context is opened once the noisy counts over all releases so far are high enough, and is counted from
  then on;
* candidates are given traces and representatives of a sample from the model so far; one whose count over all releases
  does not rise above its noise is given up, and others take its place (`_refill`). It reads noisy counts alone.

Released are, of the same candidates, the counts of this release, and those of all so far; cells below some scales of
their noise are dropped. In the accumulated log half of a cell's cases are the candidate, the others drawn traces that
are nearest to it (`spreading`), and all are fitted to the first level over all releases (`fitting`). Times (4) leave
with the release only.

Not guaranteed: anything beyond a single release. The operator's state holds true counts: of open nodes of a tree, or of
earlier releases.

Plan of the file: the noise of each stage (`check` to `label_rule`); `release_synthetic`, one release with its
accumulated log; `_NoisyCounts`, the counts that go from release to release, with a method for each stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp.accumulation import Counts, Shape
from models.dp.factorization import CorrelatedCounts, Factorization
from models.dp.noise import NoiseSource, or_secure, scale_for
from models.dp.privacy_loss import gaussian_part, scale_at
from models.dp.series import Accumulated
from models.dp.strict import MAX_EVENTS, StrictRelease, Terms, assembled, ordinal_rows
from models.dp.synthesis import candidates, contexts
from models.dp.synthesis.contexts import UNIT, ContextLevel, Model, VariantSteps, Weigh
from models.dp.synthesis.fitting import fit, follows, nearby
from models.dp.synthesis.flows import balanced
from models.dp.synthesis.labels import LabelRule
from models.dp.synthesis.spreading import Spread
from models.dp.synthesis.table import Variant, VariantCounts, only
from models.dp.synthetic import Design, StageBudget, over_labels, release_times
from models.dp.zcdp import rho_of, scale_of
from models.errors import InputError
from models.eventlog import EventLog, Floats, Ints

CASES_A_CELL = 2.0
"""Cases that a candidate needs on average, in scales of the noise of its count over all releases."""

DROP = 2.0
"""Cells of the model below so many scales of their noise open no context, and those of longer contexts count as 0. Rare
contexts pass later, since counts grow faster than their noise; a context that is opened by noise alone stays."""

PATIENCE = 3
"""Releases after which a candidate that has not risen above its noise is given up."""


LABELS = "labels"
"""Key of the selected labels in the memory of a series, also without accumulated logs. A file format: a release that
does not find them selects others."""


def usual_order(epsilon: Fraction, activities: Sequence[str] | None) -> int:
    """Return the default order of the model, by public facts.

    It is 2 from a hundredth of epsilon for each declared label on, else 1. A series has one order for its life, so no
    noisy count may choose it.

    Parameters
    ----------
    epsilon
        The declared epsilon.
    activities
        The declared labels, if they are.
    """
    if activities is not None and 100 * epsilon < len(set(activities)):
        return 1
    return 2


def check(terms: Terms, design: Design, shape: Shape) -> None:
    """Refuse a series that could not be drawn.

    Releases that add up need one alphabet, and no stage that selects the variants of one window.

    Parameters
    ----------
    terms
        The promise, and the most cases of one person.
    design
        Design of the model.
    shape
        How releases share their noise.

    Raises
    ------
    InputError
        If labels are not declared where they must be, variants have a share, or noise does not fit 64 bits.
    """
    if design.activities is None and not shape.factorized:
        raise InputError("releases add up over the same labels only: declare activities")
    if design.split(terms.epsilon).variants:
        raise InputError("shares.variants must be 0: variants of one window are not selected where releases add up")
    _scales(terms, design, shape)
    times_scale(terms, design, shape)


def _scales(terms: Terms, design: Design, shape: Shape) -> tuple[float, float]:
    """Return the scale of the cells of each level of the model, and that of the weights."""
    budget, person = StageBudget.summed(terms, design), terms.cases_per_person
    if shape.factorized:
        return _correlated_scales(terms, design, budget, shape.declared_horizon)
    model = scale_for(design.case_weight * UNIT * person * shape.levels * design.order, budget.model)
    return model, scale_for(person * shape.levels, budget.weights)


def _correlated_scales(terms: Terms, design: Design, budget: StageBudget, horizon: int) -> tuple[float, float]:
    """Return scales of discrete Gaussian noise, in parts of a mixture, for which the series keeps the terms.

    A person moves all draws of a level, over all releases, by at most `case_weight` and `cases_per_person` times the
    sensitivity of the factorization, and all draws of the weights by the latter. Labels, levels, weights and times
    divide the square of one distance by their shares.
    """
    moved = Factorization.of(horizon).sensitivity * terms.cases_per_person
    level = _distance_of("model", terms, budget) / design.order
    weights = _distance_of("weights", terms, budget)
    return scale_at(level, moved * design.case_weight * UNIT), scale_at(weights, moved)


def _distance_of(stage: str, terms: Terms, budget: StageBudget) -> Fraction:
    """Return the part of a stage in the squared distance of all Gaussian stages of a series of correlated noise."""
    share: Fraction = getattr(budget, stage) / terms.epsilon
    return gaussian_part(terms.epsilon, budget.delta_composed, []) * share


def times_scale(terms: Terms, design: Design, shape: Shape) -> float | None:
    """Return the scale of the noise of the times of each release, in units of 1 / UNIT.

    The result is None if no times leave.

    Parameters
    ----------
    terms
        The promise, and the most cases of one person.
    design
        Design of the model.
    shape
        How releases share their noise.
    """
    budget = StageBudget.summed(terms, design)
    if not budget.times:
        return None
    sensitivity = design.times_norm * terms.cases_per_person
    if shape.factorized:
        return scale_at(_distance_of("times", terms, budget), sensitivity)
    return scale_of(rho_of(budget.times, budget.delta_composed), sensitivity)


def label_rule(terms: Terms, design: Design) -> LabelRule:
    """Return the rule by which a series of correlated noise selects its labels, once.

    A release that selects none leaves the choice to the next one, with fresh noise. A person with k of c cases in a
    release moves its weights by k / c of the distance, and the squares add up to at most its square; the chance of a
    label of that person alone is k / c of the delta (`models.dp.synthesis.labels`).

    Parameters
    ----------
    terms
        The promise, and the most cases of one person.
    design
        Design of the model.
    """
    budget = StageBudget.summed(terms, design)
    unscaled = LabelRule(Fraction(1), budget.delta_labels, design.max_labels, terms.cases_per_person)
    scale = scale_at(_distance_of("labels", terms, budget), unscaled.sensitivity)
    return replace(unscaled, rho=Fraction(unscaled.sensitivity**2) / (2 * Fraction(scale) ** 2))


def _counts_of(shape: Shape) -> type[Counts] | type[CorrelatedCounts]:
    """Return how counts are kept in that shape."""
    return CorrelatedCounts if shape.factorized else Counts


def release_synthetic(
    log: EventLog,
    *,
    terms: Terms,
    design: Design,
    shape: Shape,
    number: int,
    state: Mapping[str, Any] | None = None,
    draw: NoiseSource | None = None,
) -> Accumulated:
    """Release synthetic logs of the cases of release `number`, and of all cases so far.

    Parameters
    ----------
    number
        Number of the release in its series, from 1.
    state
        The state that the release before left (`Accumulated.state`); None for the first.
    """
    check(terms, design, shape)
    draw = or_secure(draw)

    # Stage 0: labels, declared or selected once.
    selected = _selected(log, terms, design, number, state, draw) if design.activities is None else None
    may_leave = design.activities if selected is None else selected["labels"]
    kept, table = over_labels(log, tuple(sorted(set(may_leave or ()))), design)
    extended = design.extended(table.alphabet)

    # Stages 2 and 3: the counts of this release are added to those so far; its own weights are released.
    scales = _scales(terms, design, shape)
    series = _NoisyCounts.continued_from(state, extended, len(table.alphabet), design, shape, scales, number)
    series.measure(table, number, draw)
    series.refill(draw)
    weights_of_cut = series.weigh(table, number, draw)
    shown = _rows(series.traces, weights_of_cut, series.weights.release_scale)
    if _events(shown) > MAX_EVENTS:
        # To withhold it would depend on nodes that this number draws, and the next attempt would draw them again.
        shown = []

    # Stage 4: times of this release.
    timed = release_times(kept, extended, shown, design, times_scale(terms, design, shape), draw)
    released = assembled(extended, [variant for variant, _ in shown], timed.rows, draw)

    dropped = log.n_events - kept.n_events
    operator = {
        "cases": {"in": log.n_cases, "out": sum(count for _, count in shown)},
        "labels": {"may_leave": len(table.alphabet), "dropped_events": dropped},
        "candidates": len(series.traces),
        "warnings": [f"{dropped} of {log.n_events} events have labels that are not declared"] if dropped else [],
    }
    release = StrictRelease(released, terms, 0, draw.private, operator, facts=timed.facts)
    accumulated, public = series.accumulated(draw)
    kept_state = series.state()
    if selected is not None and selected["labels"]:
        kept_state[LABELS] = selected
    return Accumulated(release, accumulated, kept_state, public)


def _selected(
    log: EventLog, terms: Terms, design: Design, number: int, state: Mapping[str, Any] | None, draw: NoiseSource
) -> Mapping[str, Any]:
    """Return the labels of the series and the number of the release that selected them: this one if none has."""
    kept: Mapping[str, Any] | None = None if state is None else state.get(LABELS)
    if kept is not None:
        return kept
    candidates_to_leave = (str(value) for value in log.activity.values if str(value) != design.other)
    all_variants = VariantCounts.of(only(log, candidates_to_leave))
    return {"labels": list(label_rule(terms, design).select(all_variants, draw)), "release": number}


@content_free("labels")
@dataclass(slots=True)
class _NoisyCounts:
    """Noisy counts so far, by level of the model.

    Attributes
    ----------
    opened
        Keys of the level's contexts, in the order of their opening.
    cells
        A + 1 counts for each context.
    traces
        The candidates.
    weights
        A count for each candidate.
    """

    alphabet: tuple[str, ...]
    labels: int
    design: Design
    opened: list[list[int]]
    cells: Sequence[Counts | CorrelatedCounts]
    traces: list[Variant]
    weights: Counts | CorrelatedCounts
    drawn: dict[Variant, int] = field(default_factory=dict)
    """A sample of the model so far."""

    @classmethod
    def continued_from(
        cls,
        state: Mapping[str, Any] | None,
        alphabet: tuple[str, ...],
        labels: int,
        design: Design,
        shape: Shape,
        scales: tuple[float, float],
        number: int,
    ) -> _NoisyCounts:
        """Return the counts that an earlier release left.

        New counts begin without a state, and after one of another design or of other noise.

        Parameters
        ----------
        state
            State that the release before left, or None.
        alphabet
            All labels: those that the log may have, then further ones of declared candidates.
        labels
            Number of labels that the log may have.
        design, shape
            Public parameters of a release, and how counts add up.
        scales
            Scale of the cells of each level, and that of the weights.
        number
            Number of the release.
        """
        made, kind = [list(alphabet), labels, design.order, design.case_weight], _counts_of(shape)
        if state is not None and state.get("made") == made:
            opened = [list(keys) for keys in state["opened"]]
            restored = []
            for cell_state, keys in zip(state["cells"], opened, strict=True):
                counts = kind.from_state(cell_state, _flat(keys, labels), shape, scales[0])
                if counts is not None:
                    restored.append(counts)
            traces = [tuple(trace) for trace in state["traces"]]
            weights = kind.from_state(state["weights"], list(traces), shape, scales[1])
            # Counts with other noise cannot be continued (`from_state` gives None): then all of them begin
            # again.
            if weights is not None and len(restored) == len(opened):
                return cls(alphabet, labels, design, opened, restored, traces, weights)
        begun = [kind.begin(shape, scales[0], number) for _ in range(design.order)]
        weights_begun = kind.begin(shape, scales[1], number)
        return cls(alphabet, labels, design, [[] for _ in begun], begun, [], weights_begun)

    def measure(self, table: VariantCounts, number: int, draw: NoiseSource) -> None:
        """Measure the cells of this release, level after level (stage 2).

        A level opens by the counts of the level above so far.
        """
        steps = VariantSteps.of(table.variants, self.labels)
        cases_of_step = table.counts[steps.variant]
        for order in range(1, self.design.order + 1):
            self._open(order, draw)
            keys = np.asarray(self.opened[order - 1], dtype=np.int64)
            rank = np.argsort(keys)
            weights = self._step_weights(steps, self.design.case_weight, order) * cases_of_step
            true = np.zeros((len(keys), self.labels + 1), dtype=np.int64)
            true[rank] = contexts.true_cells(steps, weights, keys[rank], order)
            self.cells[order - 1].add(number, true.ravel(), draw)

    @property
    def _step_weights(self) -> Weigh:
        """The weights of steps: in L2 for Gaussian noise, in L1 for Laplace noise."""
        return contexts.step_weights if self.weights.shape.factorized else contexts.case_weights

    def _open(self, order: int, draw: NoiseSource) -> None:
        """Open contexts of a level: all of the first one, later ones by the noisy counts of the level above.

        A context that is open stays open.
        """
        opened_keys = set(self.opened[order - 1])
        if order == 1:
            justified = list(range(self.labels + 1))
        else:
            # A frequent step of a shorter context makes a context one label longer; the part of it without
            # its first label must be open too.
            radix, above = self.labels + 1, set(self.opened[order - 2])
            level = self._level(order - 1)
            row, label = np.nonzero(level.cells[:, : self.labels] >= DROP * level.scale[:, None])
            keys = (level.contexts[row] * radix + label).tolist()
            justified = [key for key in keys if key % radix ** (order - 1) in above]
        fresh = [key for key in justified if key not in opened_keys]
        if (len(opened_keys) + len(fresh)) * (self.labels + 1) > contexts.MOST_CELLS:
            raise InputError(f"level {order} of the context model has too many cells: declare fewer activities")
        self.opened[order - 1] += fresh
        self.cells[order - 1].extend(_flat(fresh, self.labels), draw, backlog=False)

    def _level(self, order: int) -> ContextLevel:
        """Return a level with the counts over all releases so far; contexts in the order of their keys."""
        counts, keys = self.cells[order - 1], np.asarray(self.opened[order - 1], dtype=np.int64)
        rank = np.argsort(keys)
        cells = counts.total.reshape(len(keys), self.labels + 1)[rank]
        scale = counts.total_scale.reshape(len(keys), self.labels + 1)[rank, 0]
        return ContextLevel(keys[rank], cells, scale)

    def refill(self, draw: NoiseSource) -> None:
        """Replace candidates that do not rise above their noise by representatives of the model."""
        public_traces = dict.fromkeys(self.design.coded_given(self.alphabet))  # each once, in their order

        # Declared candidates are kept, and so are those that are new or have risen above their noise.
        total, noise = self.weights.total, self.weights.total_scale
        is_declared = np.asarray([trace in public_traces for trace in self.traces], dtype=np.bool_)
        keep = is_declared | (self.weights.draws < PATIENCE) | (total >= noise)
        self.weights.keep(keep)
        self.traces = [trace for trace, kept in zip(self.traces, keep.tolist(), strict=True) if kept]

        # A sample of the model so far, and how many cases the model describes.
        levels = [self._level(order) for order in range(1, self.design.order + 1)]
        fitted = [balanced(levels[0]), *levels[1:]]
        drawn = Model.of(fitted, DROP).sample(self.design.sample, self.design.max_length, draw)
        self.drawn = drawn
        cases = contexts.cases(levels[0], drawn, self.design.case_weight, self._step_weights)

        # As many candidates as there are cases enough for.
        affordable = max(int(cases / (CASES_A_CELL * self.weights.next_scale)), 1)
        most = min(self.design.candidates, affordable)
        fresh = [trace for trace in public_traces if trace not in set(self.traces)]
        listed = self.traces + fresh
        fresh += candidates.representative(drawn, listed, most - len(listed))
        self.weights.extend(fresh, draw, backlog=False)
        self.traces = [*self.traces, *fresh]

    def weigh(self, table: VariantCounts, number: int, draw: NoiseSource) -> Ints:
        """Return this release's noisy number of cases nearest to each candidate (stage 3)."""
        true = np.zeros(len(self.traces), dtype=np.int64)
        if self.traces:
            np.add.at(true, candidates.nearest(table.variants, self.traces), table.counts)
        return self.weights.add(number, true, draw)

    def accumulated(self, draw: NoiseSource) -> tuple[EventLog | None, dict[str, Any]]:
        """Return the log over all releases so far, and its part of the manifest."""
        counts = self.weights
        shown = self._fitted(_rows(self.traces, counts.total, counts.total_scale), draw)
        section = counts.section()
        if _events(shown) > MAX_EVENTS:
            return None, {**section, "status": "too large"}
        variants = [variant for variant, _ in shown]
        return assembled(self.alphabet, variants, ordinal_rows(shown), draw), {**section, "status": "ok"}

    def _fitted(self, cells: list[tuple[Variant, int]], draw: NoiseSource) -> list[tuple[Variant, int]]:
        """Spread the cases of some cells over drawn traces, and fit them to the first level over all releases too."""
        # Most candidates are from models of earlier releases.
        near = Spread.of(cells, self.traces, self.drawn, draw, keep_half=set(self.traces))
        count_of_trace = dict(cells)
        counts = np.asarray([count_of_trace.get(trace, 0) for trace in self.traces], dtype=np.int64)
        weights = nearby(near, counts, self.weights.total_scale)
        follow = follows(near, self._level(1), self.design.case_weight, self._step_weights)
        return fit(near, [weights, follow], draw)

    def state(self) -> dict[str, Any]:
        """Return the state for the next release, as JSON can hold it."""
        return {
            "made": [list(self.alphabet), self.labels, self.design.order, self.design.case_weight],
            "opened": self.opened,
            "cells": [counts.to_state() for counts in self.cells],
            "traces": [list(trace) for trace in self.traces],
            "weights": self.weights.to_state(),
        }


def _flat(opened: Sequence[int], labels: int) -> list[tuple[int, int]]:
    """Return the cells of some contexts, one after another."""
    return [(context, label) for context in opened for label in range(labels + 1)]


def _rows(traces: Sequence[Variant], counts: Ints, scales: Floats) -> list[tuple[Variant, int]]:
    """Return the candidates with counts above some scales of their own noise; the empty trace is left out."""
    is_above = (counts >= candidates.DROP * scales).tolist()
    rows = []
    for trace, count, above in zip(traces, counts.tolist(), is_above, strict=True):
        if trace and above:
            rows.append((trace, int(count)))
    return rows


def _events(shown: Sequence[tuple[Variant, int]]) -> int:
    return sum(len(variant) * count for variant, count in shown)
