"""Neighbouring logs for the stages of dp-synthetic and of dp-model, and what an adversary sees of each output alone.

Each stage is audited with all of epsilon and delta on the pair that its promise is most likely to fail on:

* labels: a person with labels that nobody else has: one in a case, one in many cases, many at once in a case; and a
  person with many labels that others nearly show;
* variants: a person with a variant that nobody else has, or one more of a frequent one;
* variants and model: a person whose case decides whether stage 1 takes a variant, and so which cases stage 2 sees;
  a person whose case decides, below an epsilon of `synthetic.SMALL`, whether variants are counted at all;
* model: a person whose trace is longer than any other, and holds a step that nobody else takes;
* weights: a person whose case is the only one near its candidate, or one more near a frequent one;
* times: a person whose step takes longer than any other, in one case, in many cases, or many times in one case.

Stages of `models.dp.process_map` are audited alike (`map_stage_pairs`): labels as above, the number of cases with one
case more, norms and steps with the trace that is longer than any, norms and steps together with a case that decides how
much a case adds, norms and times alike, cases, variants and steps with a case that decides whether variants are counted
and whether its own is frequent, and the whole map with the longest trace, with a label that one person alone has, and
with a step that takes longer than any.

Events are about the victim's cells alone: an auditor who looked everywhere would need more runs for the same power.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from models.dp import process_map, synthetic
from models.dp.audit import NeighbourPair
from models.dp.budget import Charge
from models.dp.neighbours import DAY, HOUR, hourly_log
from models.dp.noise import NoiseSource, or_secure
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, labels, times
from models.dp.synthesis.table import VariantCounts
from models.dp.zcdp import rho_of, scale_of
from models.eventlog import EventLog, Ints

NAMES = ("A", "B", "C")
LONG = 400
"""Events of the longest trace: its cells are a hundred times what they may be together in L2."""

COMMON = 200
"""Cases of everybody else."""

MANY_COMMON = 1_000
"""The same where a larger number of cases asks for a larger B."""

LONG_CASE = "AC" * 20
"""Its steps from A to C and back alone have a norm of more than 24."""

MANY_LABELS = 64
"""Labels of the case with many labels, and labels of a case that count."""

MANY_CASES = 3
"""Cases of the person with many cases."""

A_THEN_B, A_THEN_C = 1, 2
"""Keys of the pairs A B and A C: the place of A among `NAMES` times their number, and the place of B, or of C."""

MOST_DURATION = 30 * DAY
LONG_STEP = 29 * DAY
"""A step that falls into the last cells below `MOST_DURATION`, where nobody else has one."""

LONGEST_OTHER = 2 * DAY
"""The other cases of these logs take less from their first event to their last one."""

Events = Iterator[Hashable]


@dataclass(frozen=True, slots=True)
class StagePair:
    """A pair of neighbouring logs, and what the audited stages claim on it."""

    pair: NeighbourPair
    claim: Charge


def stage_pairs(
    epsilon: Fraction, delta: Fraction, draw: NoiseSource | None = None, only: Sequence[str] = ()
) -> list[StagePair]:
    """Return pairs for every stage of dp-synthetic alone, each with the whole of epsilon and delta.

    Parameters
    ----------
    epsilon, delta
        Budget of each audited stage.
    draw
        Source of the noise; the cryptographic one if not given.
    only
        Names of the pairs to return; all of them if empty.
    """
    draw = or_secure(draw)
    pairs = {
        **_label_pairs(epsilon, delta, draw),
        **_variant_pairs(epsilon, delta, draw),
        **_model_and_weight_pairs(epsilon, delta, draw),
        **_time_pairs(epsilon, delta, draw),
    }
    return [pair for name, pair in pairs.items() if not only or name in only]


def map_stage_pairs(
    epsilon: Fraction, delta: Fraction, draw: NoiseSource | None = None, only: Sequence[str] = ()
) -> list[StagePair]:
    """Return the stages of dp-model and the whole map, each with the whole of epsilon and delta.

    Parameters
    ----------
    epsilon, delta
        Budget of each audited stage.
    draw
        Source of the noise; the cryptographic one if not given.
    only
        Of these: `labels` and `times` (the stages of dp-synthetic, on all their pairs), `cases`, `norms`, `steps`,
        `variants and steps`, `norms and steps`, `norms and times`, `map`, `map with labels` and `map with times`; all
        of them if empty.
    """
    draw = or_secure(draw)
    pairs: list[StagePair] = []
    if not only or "labels" in only:
        pairs += _label_pairs(epsilon, delta, draw).values()
    if not only or "times" in only:
        pairs += _time_pairs(epsilon, delta, draw).values()
    pairs += [pair for name, pair in _map_pairs(epsilon, delta, draw).items() if not only or name in only]
    return pairs


def _label_pairs(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> dict[str, StagePair]:
    claim = Charge(epsilon, delta)
    one_case = _LabelsStage(epsilon, delta, draw)
    many_cases = _LabelsStage(epsilon, delta, draw, MANY_CASES)
    many_labels = _many_labels()
    almost_shown = [[label] for label in many_labels for _ in range(one_case.cases_at_threshold)]
    return {
        "label": _stage_pair(
            "stage labels: a label of one person",
            one_case,
            _log(),
            _log("X"),
            claim,
        ),
        "label of many": _stage_pair(
            "stage labels: a label of one person with many cases",
            many_cases,
            _log(),
            _log(*["X"] * MANY_CASES),
            claim,
        ),
        "labels at once": _stage_pair(
            "stage labels: many labels of one person in one case",
            one_case,
            _log(),
            _log(many_labels),
            claim,
        ),
        "near labels": _stage_pair(
            "stage labels: a case of many labels that others nearly show",
            one_case,
            _log(*almost_shown, common=0),
            _log(*almost_shown, many_labels, common=0),
            claim,
        ),
    }


def _variant_pairs(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> dict[str, StagePair]:
    claim = Charge(epsilon, delta)
    stage = _VariantsStage(epsilon, delta, draw)
    deciding_stages = _VariantsAndModel.of(epsilon, delta, draw)
    # One case less than the threshold asks for: one more case decides whether the variant is taken.
    almost_taken = deciding_stages.threshold - 1
    return {
        "variants": _stage_pair("stage variants: a variant of one person", stage, _log(), _log("AC"), claim),
        "counts": _stage_pair("stage variants: a case of a frequent variant", stage, _log(), _log("AB"), claim),
        "taken": _stage_pair(
            "stages variants and model: a case that decides which cases the model sees",
            deciding_stages,
            _log(common=almost_taken),
            _log("AB", common=almost_taken),
            claim,
        ),
        "preview": _preview_pair(epsilon, delta, draw),
    }


def _preview_pair(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> StagePair:
    stage = _Preview.of(epsilon, delta, draw)
    too_few = stage.least_cases - 1
    return _stage_pair(
        "preview: a case that decides whether variants are counted",
        stage,
        _log(common=too_few),
        _log("AB", common=too_few),
        Charge(epsilon, delta),
    )


def _model_and_weight_pairs(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> dict[str, StagePair]:
    model, weights = _Cells(epsilon, delta, draw), _Weights(epsilon, draw)
    longest = _log("AC" * (LONG // 2))
    with_delta, pure = Charge(epsilon, delta), Charge(epsilon)
    return {
        "model": _stage_pair("stage model: a trace longer than any", model, _log(), longest, with_delta),
        "weights": _stage_pair("stage weights: the only case near a candidate", weights, _log(), _log("CC"), pure),
        "nearest": _stage_pair("stage weights: a case near a frequent candidate", weights, _log(), _log("ABA"), pure),
    }


def _time_pairs(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> dict[str, StagePair]:
    claim = Charge(epsilon, delta)
    one_case = _TimesStage(epsilon, delta, draw)
    many_cases = _TimesStage(epsilon, delta, draw, MANY_CASES)
    return {
        "times": _stage_pair(
            "stage times: a step longer than any",
            one_case,
            _log(),
            _log("AB", took=LONG_STEP),
            claim,
        ),
        "times of many": _stage_pair(
            "stage times: a person with many cases of one long step",
            many_cases,
            _log(),
            _log(*["AB"] * MANY_CASES, took=LONG_STEP),
            claim,
        ),
        "many times": _stage_pair(
            "stage times: many long steps in one case",
            one_case,
            _log(),
            _log("AB" * (LONG // 2), took=LONG_STEP),
            claim,
        ),
    }


def _map_pairs(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> dict[str, StagePair]:
    longest = _log("AC" * (LONG // 2))
    declared_labels = _WholeMap.of(epsilon, delta, draw, NAMES)
    selected_labels = _WholeMap.of(epsilon, delta, draw, None)
    with_times = _WholeMap.of(epsilon, delta, draw, NAMES, times.PublicTimeBounds(MOST_DURATION))
    with_delta, pure = Charge(epsilon, delta), Charge(epsilon)
    return {
        "cases": _stage_pair("stage cases: one case more", _CasesStage(epsilon, draw), _log(), _log("AB"), pure),
        "steps": _stage_pair(
            "stage steps: a trace longer than any",
            _StepsStage(epsilon, delta, draw),
            _log(),
            longest,
            with_delta,
        ),
        "variants and steps": _variants_and_steps_pair(epsilon, delta, draw),
        "norms": _stage_pair(
            "stage norms: a trace longer than any", _NormsStage(epsilon, delta, draw), _log(), longest, with_delta
        ),
        "norms and steps": _norms_and_steps_pair(epsilon, delta, draw),
        "norms and times": _norms_and_times_pair(epsilon, delta, draw),
        "map": _stage_pair("the map: a trace longer than any", declared_labels, _log(), longest, with_delta),
        "map with labels": _stage_pair(
            "the map: a label of one person",
            selected_labels,
            _log(),
            _log("X"),
            with_delta,
        ),
        "map with times": _stage_pair(
            "the map: a step longer than any",
            with_times,
            _log(),
            _log("AB", took=LONG_STEP),
            with_delta,
        ),
    }


def _variants_and_steps_pair(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> StagePair:
    stage = _VariantsAndSteps.of(epsilon, delta, draw)
    # One case of B A less than its threshold, and one case less than the stages of variants asks for.
    almost_taken = ["BA"] * (stage.threshold - 1)
    others = (process_map.CASES_A_THRESHOLD - 1) * stage.threshold
    return _stage_pair(
        "stages cases, variants and steps: a case that decides what is counted",
        stage,
        _log(*almost_taken, common=others),
        _log(*almost_taken, "BA", common=others),
        Charge(epsilon, delta),
    )


def _norms_and_steps_pair(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> StagePair:
    stage = _NormsAndSteps.of(epsilon, delta, draw)
    almost_larger = [LONG_CASE] * (stage.long_cases - 1)
    return _stage_pair(
        "stages norms and steps: a case that decides how much a case adds",
        stage,
        _log(*almost_larger),
        _log(*almost_larger, LONG_CASE),
        Charge(epsilon, delta),
    )


def _norms_and_times_pair(epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> StagePair:
    stage = _NormsAndTimes.of(epsilon, delta, draw)
    others = [("AB", HOUR)] * MANY_COMMON + [(LONG_CASE, HOUR)] * (stage.long_cases - 1)
    return _stage_pair(
        "stages norms and times: a case of long steps that decides how much a case adds",
        stage,
        hourly_log(others),
        hourly_log([*others, ("AC" * (LONG // 2), LONG_STEP)]),
        Charge(epsilon, delta),
    )


def _stage_pair(
    difference: str, run: Callable[[EventLog], Events], first: EventLog, other: EventLog, claim: Charge
) -> StagePair:
    """Return runs of the audited stages on both logs. Stage labels cannot show a label that a log does not have."""
    if not isinstance(run, _LabelsStage):
        return StagePair(NeighbourPair(difference, _runs(run, first), _runs(run, other)), claim)
    pair = NeighbourPair(
        difference,
        _runs(run, first),
        _runs(run, other),
        possible_one=_only_its_labels(first),
        possible_other=_only_its_labels(other),
    )
    return StagePair(pair, claim)


def _only_its_labels(log: EventLog) -> Callable[[Hashable], bool]:
    labels_of_log = set(log.activity.values)
    has_private_label = not labels_of_log.isdisjoint(_private_labels())

    def is_possible(event: Hashable) -> bool:
        if event == PRIVATE_LABEL:
            return has_private_label
        return not (isinstance(event, tuple) and event[0] == "label") or event[1] in labels_of_log

    return is_possible


def _runs(run: Callable[[EventLog], Events], log: EventLog) -> Callable[[], Events]:
    return lambda: run(log)


PRIVATE_LABEL = "a label that nobody else has"
"""Event: some label of the victim leaves."""


def _many_labels() -> list[str]:
    return [f"L{number}" for number in range(MANY_LABELS)]


def _private_labels() -> set[str]:
    return {"X", *_many_labels()}


def _log(*victims: Sequence[str], took: int = HOUR, common: int = COMMON) -> EventLog:
    """Return a log with `common` cases of A B, an hour each, and further cases, whose steps take `took`."""
    others = [("AB", HOUR)] * common
    return hourly_log([*others, *((trace, took) for trace in victims)])


def _buckets(name: Hashable, value: int, scale: float, around: int = 0) -> Events:
    """Return the cell of a noisy number, in steps of half its scale, and whether it is 0."""
    if value == 0:
        yield name, "is 0"
    for step in range(-4, 9):
        bound = around + round(step * scale / 2)
        yield name, "at least" if value >= bound else "below", bound


@dataclass(frozen=True, slots=True)
class _LabelsStage:
    """Half of delta for the threshold, half for the conversion of rho."""

    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource
    person: int = 1

    @property
    def rule(self) -> labels.LabelRule:
        return labels.LabelRule(rho_of(self.epsilon, self.delta / 2), self.delta / 2, MANY_LABELS, self.person)

    @property
    def cases_at_threshold(self) -> int:
        """Cases of a single label with which it leaves every other time."""
        return self.rule.threshold // labels.UNIT

    def __call__(self, log: EventLog) -> Events:
        selected = self.rule.select(VariantCounts.of(log), self.draw)
        for label in selected:
            yield "label", label
        if not _private_labels().isdisjoint(selected):
            yield PRIVATE_LABEL
        for number in range(0, MANY_LABELS, 4):
            yield "labels, at least" if len(selected) >= number else "labels, fewer than", number


@dataclass(frozen=True, slots=True)
class _VariantsStage:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        table, terms = VariantCounts.of(log, NAMES), Terms.of(self.epsilon, self.delta)
        budget = _budget(variants=self.epsilon, delta=self.delta)
        for variant, count in synthetic.frequent_variants(table, budget, terms, self.draw).items():
            yield "variant", variant
            yield from _buckets(variant, count, budget.frequent(terms).scale, COMMON)


@dataclass(frozen=True, slots=True)
class _VariantsAndModel:
    """Stage variants decides which cases stage model sees. Each has half of epsilon."""

    terms: Terms
    budget: synthetic.StageBudget
    design: synthetic.Design
    # Noisy cases with which a variant is taken.
    threshold: int
    draw: NoiseSource

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> _VariantsAndModel:
        half = epsilon / 2
        budget, terms = _budget(variants=half, model=half, delta=delta), Terms.of(epsilon, delta)
        design = synthetic.Design(activities=NAMES, order=1, case_weight=3)
        return cls(terms, budget, design, budget.thresholds(terms, design)["threshold"], draw)

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        frequent = synthetic.frequent_variants(table, self.budget, self.terms, self.draw)
        (level,) = synthetic.residual_model(table, frequent, self.design, self.budget, self.terms, self.draw)
        cell = int(level.cells[0, 1])
        kind = "taken" if frequent else "left"
        yield kind
        # If the variant is not taken, the model sees its cases, of which there are about as many as the threshold. A
        # step of a case of so few steps weighs half of B (`contexts.root_weights`).
        around = 0 if frequent else (self.threshold - 1) * self.design.case_weight * contexts.UNIT // 2
        for event in _buckets("A then B", cell, float(level.scale[0]), around):
            yield kind, event


@dataclass(frozen=True, slots=True)
class _Preview:
    """Stages variants and model as below an epsilon of `synthetic.SMALL`, with noise of all of epsilon.

    A release of small epsilon has more noise. Only the cases that decide are as many as the noise asks for.
    """

    terms: Terms
    budget: synthetic.StageBudget
    design: synthetic.Design
    draw: NoiseSource

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> _Preview:
        budget = _budget(variants=epsilon / 4, model=epsilon * 3 / 4, delta=delta)
        design = synthetic.Design(activities=NAMES, order=2, case_weight=3)
        return cls(Terms.of(synthetic.SMALL / 2, delta), budget, design, draw)

    @property
    def least_cases(self) -> int:
        """Cases of A B with which the preview would have enough steps a cell if it had no noise."""
        rho = self.budget.rho("model") * synthetic.PART_OF_PREVIEW
        scale = scale_of(rho, self.design.case_weight * contexts.UNIT) / contexts.LAPLACE
        # Each cell pays its price (`flows.thinned`); a step of so short a case weighs half of B.
        price = contexts.LAPLACE * math.log(len(NAMES) + 1) / 2
        least = (synthetic.PREVIEW_STEPS_A_CELL + price) * scale
        return math.ceil(least / (self.design.case_weight * contexts.UNIT / 2))

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        frequent, levels = synthetic.variants_and_model(table, self.design, self.budget, self.terms, self.draw)
        first = levels[0]
        # The scale shows how the rho was divided, and so whether variants were counted.
        kind = len(levels), round(float(first.scale[0]))
        yield kind
        for variant in frequent:
            yield "variant", variant
        around = self.least_cases * self.design.case_weight * contexts.UNIT // 2
        for event in _buckets("A then B", int(first.cells[0, 1]), float(first.scale[0]), around):
            yield kind, event


@dataclass(frozen=True, slots=True)
class _Cells:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource
    bound: int = 3

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        each = [rho_of(self.epsilon, self.delta) / 2] * 2
        first, second = contexts.measure(
            table.variants,
            table.counts,
            len(NAMES),
            each,
            self.bound,
            self.draw,
            weigh=contexts.root_weights,
        )
        yield from _level_events(first)
        row = np.flatnonzero(second.contexts == 0 * 4 + 2)  # after A C
        for place in row.tolist():
            yield "A C is open"
            yield from _buckets("A C then A", int(second.cells[place, 0]), float(second.scale[place]))


@dataclass(frozen=True, slots=True)
class _Weights:
    epsilon: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        cells = candidates.reweigh(VariantCounts.of(log, NAMES), [(0, 1), (2, 2)], self.epsilon, self.draw)
        yield from _buckets("C C", int(cells[1]), float(1 / self.epsilon))
        yield from _buckets("A B", int(cells[0]), float(1 / self.epsilon), COMMON)


@dataclass(frozen=True, slots=True)
class _TimesStage:
    """The noisy histograms of times, before anything is drawn from them.

    The victim's cells are those of the longest steps and of cases that take 29 days. Both together are looked at along
    the direction in which a single long step moves them.
    """

    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource
    person: int = 1

    def __call__(self, log: EventLog) -> Events:
        bounds = times.PublicTimeBounds(MOST_DURATION)
        design = synthetic.Design(activities=NAMES, case_weight=1, bounds=bounds)
        terms = Terms.of(self.epsilon, self.delta, self.person)
        scale = _budget(times=self.epsilon, delta=self.delta).times_scale(terms, design)
        norm = design.times_norm
        noisy = times.measure(log, NAMES, np.asarray([A_THEN_B]), bounds, norm, scale, self.draw)
        place = int(np.searchsorted(bounds.throughput_edges, LONG_STEP, side="right")) - 1
        long_steps = float(noisy.steps[0, -1]) * contexts.UNIT
        block_unit = times.block_weight(bounds.blocks["throughput"], norm)
        long_cases, case_unit = _along_bin(noisy, place, bounds.throughput_edges, block_unit)
        along = (long_steps * contexts.UNIT + long_cases * case_unit) / math.hypot(contexts.UNIT, case_unit)
        yield from _buckets("long steps", round(long_steps), scale)
        yield from _buckets("long cases", round(long_cases), scale)
        yield from _buckets("long steps and cases", round(along), scale)


@dataclass(frozen=True, slots=True)
class _CasesStage:
    epsilon: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        table, terms = VariantCounts.of(log, NAMES), Terms.of(self.epsilon, Fraction(1, 2))
        cases = process_map.count_cases(table, _budget(weights=self.epsilon), terms, self.draw)
        yield from _buckets("cases", cases.count, float(1 / self.epsilon), COMMON)


@dataclass(frozen=True, slots=True)
class _StepsStage:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        table, terms = VariantCounts.of(log, NAMES), Terms.of(self.epsilon, self.delta)
        budget = _budget(model=self.epsilon, delta=self.delta)
        design = process_map.map_design(activities=NAMES, case_weight=process_map.MOST_CASE_WEIGHT)
        level = process_map.measure_steps(table, {}, budget.rho("model"), terms, design, self.draw)
        yield from _level_events(level)


@dataclass(frozen=True, slots=True)
class _VariantsAndSteps:
    """The number of cases decides whether variants are counted, and these which cases the steps have.

    Each stage has a third of epsilon.
    """

    terms: Terms
    budget: synthetic.StageBudget
    design: synthetic.Design
    # Noisy cases with which a variant is taken.
    threshold: int
    draw: NoiseSource

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> _VariantsAndSteps:
        third, terms = epsilon / 3, Terms.of(epsilon, delta)
        budget = _budget(variants=third, model=third, weights=third, delta=delta)
        design = process_map.map_design(activities=NAMES, case_weight=3)
        return cls(terms, budget, design, budget.thresholds(terms, design)["threshold"], draw)

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        noisy = process_map.noisy_stages(table, self.design, self.budget, self.terms, self.draw, adapt_weight=False)
        kind = "counted" if noisy.variants_deviation else "not counted", (1, 0) in noisy.variants
        yield kind
        yield from _buckets(
            "cases", noisy.cases.count, float(3 / self.terms.epsilon), process_map.CASES_A_THRESHOLD * self.threshold
        )
        # A step of so short a case has the weight 1. Without the variant the steps have none of its cases.
        around = 0 if (1, 0) in noisy.variants else (self.threshold - 1) * contexts.UNIT
        for event in _buckets("B then A", int(noisy.level.cells[1, 0]), float(noisy.level.scale[0]), around):
            yield kind, event


@dataclass(frozen=True, slots=True)
class _NormsStage:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        table, terms = VariantCounts.of(log, NAMES), Terms.of(self.epsilon, self.delta)
        norms = process_map.measure_norms(table, {}, rho_of(self.epsilon, self.delta), terms, self.draw)
        # All common cases are in the first range, and a longer one is in one of the others.
        in_others = norms.cases[1:]
        yield from _buckets("longest", round(in_others[-1]), norms.deviation)
        yield from _buckets("longer", round(in_others.sum()), norms.deviation * math.sqrt(len(in_others)))


@dataclass(frozen=True, slots=True)
class _NormsAndSteps:
    """The norms of cases decide how much a case adds to the steps. Model and weights have half of epsilon each."""

    terms: Terms
    budget: synthetic.StageBudget
    design: synthetic.Design
    draw: NoiseSource

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> _NormsAndSteps:
        half = epsilon / 2
        budget = _budget(model=half, weights=half, delta=delta)
        return cls(Terms.of(epsilon, delta), budget, process_map.map_design(activities=NAMES), draw)

    @property
    def long_cases(self) -> int:
        return _long_cases(self.budget, self.terms, process_map.LEAST_WITHOUT_VARIANTS)

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        noisy = process_map.noisy_stages(table, self.design, self.budget, self.terms, self.draw)
        yield "case weight", noisy.case_weight == process_map.LEAST_WITHOUT_VARIANTS


@dataclass(frozen=True, slots=True)
class _NormsAndTimes:
    """The norms of cases decide how much a case adds to the histograms of times.

    Steps, cases and times have a third of epsilon each. The histograms are those of the steps from A to C and of the
    cases. Both together are looked at along the direction in which the victim's case moves them.
    """

    terms: Terms
    budget: synthetic.StageBudget
    design: synthetic.Design
    draw: NoiseSource

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, draw: NoiseSource) -> _NormsAndTimes:
        third = epsilon / 3
        budget = _budget(model=third, weights=third, times=third, delta=delta)
        design = process_map.map_design(activities=NAMES, bounds=times.PublicTimeBounds(MOST_DURATION))
        return cls(Terms.of(epsilon, delta), budget, design, draw)

    @property
    def long_cases(self) -> int:
        # B of times is half of that of steps, rounded down.
        return _long_cases(self.budget, self.terms, 2 * process_map.LEAST_TIME_WEIGHT + 1)

    def __call__(self, log: EventLog) -> Events:
        steps = process_map.noisy_stages(VariantCounts.of(log, NAMES), self.design, self.budget, self.terms, self.draw)
        design = replace(self.design, case_weight=process_map.usual_time_weight(steps.case_weight))
        kind = "case weight", design.case_weight
        yield kind

        bounds, norm = times.PublicTimeBounds(MOST_DURATION), design.times_norm
        scale = self.budget.times_scale(self.terms, design)
        noisy = times.measure(log, NAMES, np.asarray([A_THEN_C]), bounds, norm, scale, self.draw)
        step_unit, block_unit = (times.block_weight(bounds.blocks[name], norm) for name in ("steps", "throughput"))
        long_steps = float(noisy.steps[0, -1]) * contexts.UNIT
        long_cases, case_unit = _along_bin(noisy, -1, bounds.throughput_edges, block_unit)
        along = (long_steps * step_unit + long_cases * case_unit) / math.hypot(step_unit, case_unit)
        for event in _buckets("long steps and cases", round(along), scale):
            yield kind, event


def _long_cases(budget: synthetic.StageBudget, terms: Terms, case_weight: int) -> int:
    """Return how many cases of the largest norm make the B of the steps larger than this one, without noise."""
    rho = budget.rho("model") * (1 - process_map.PART_OF_NORMS)
    least = process_map.LEAST_WITHOUT_VARIANTS

    def is_larger(number: int) -> bool:
        cases = np.zeros(len(process_map.NORMS))
        cases[-1] = number
        norms = process_map.NoisyNorms(cases, 0.0)
        return process_map.case_weight_by_norms(norms, least, len(NAMES), rho, terms) > case_weight

    return bisect_left(range(1, MANY_COMMON), True, key=is_larger) + 1


@dataclass(frozen=True, slots=True)
class _WholeMap:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource
    design: synthetic.Design
    budget: synthetic.StageBudget

    @classmethod
    def of(
        cls,
        epsilon: Fraction,
        delta: Fraction,
        draw: NoiseSource,
        activities: tuple[str, ...] | None,
        bounds: times.PublicTimeBounds | None = None,
    ) -> _WholeMap:
        design = process_map.map_design(activities=activities, sample=200, bounds=bounds)
        return cls(epsilon, delta, draw, design, synthetic.StageBudget.of(Terms.of(epsilon, delta), design))

    def __call__(self, log: EventLog) -> Events:
        terms = Terms.of(self.epsilon, self.delta)
        released = process_map.map_within(log, terms, self.budget, self.design, self.draw)
        steps = released.steps
        yield "case weight", steps.case_weight
        yield from _buckets("cases", steps.cases.count, float(20 / self.epsilon), COMMON)
        for label in steps.labels:
            yield "label", label
        if "X" in steps.labels:
            yield PRIVATE_LABEL
        if {"A", "C"} <= set(steps.labels):
            before, after = steps.labels.index("A"), steps.labels.index("C")
            yield from _buckets("A then C at most", int(steps.high[before, after]), steps.deviation)
            yield from _buckets("A then C", int(steps.counts[before, after]), steps.deviation)
        if released.times is not None:
            days = released.times.throughput_90 // DAY
            yield "nine tenths of the cases take at least so many days", days


def _along_bin(noisy: times.NoisyTimes, place: int, edges: Ints, block_unit: int) -> tuple[float, float]:
    """Return how far the cells of throughput times are along the direction of a case of a bin.

    Return also how far the case moves them.

    The direction is the part of the case's cells that cases of less than `LONGEST_OTHER` cannot add to.
    Both numbers are in units of 1 / UNIT, of which `block_unit` make a case.
    """
    of_case = noisy.throughput_weights[:, place]
    of_others = noisy.throughput_weights[:, : int(np.searchsorted(edges, LONGEST_OTHER))]
    others_part, *_ = np.linalg.lstsq(of_others, of_case)
    direction = of_case - of_others @ others_part
    length = float(np.linalg.norm(direction))
    return float(noisy.throughput @ direction) / length * block_unit, length * block_unit


def _level_events(first: contexts.ContextLevel) -> Events:
    """Return the cells of a first level that the longest trace fills: A then C, C then A, and C then the end."""
    for before, after in ((0, 2), (2, 0), (2, 3)):
        yield from _buckets((before, after), int(first.cells[before, after]), float(first.scale[0]))


def _budget(
    *,
    variants: Fraction = Fraction(0),
    model: Fraction = Fraction(0),
    weights: Fraction = Fraction(0),
    times: Fraction = Fraction(0),
    delta: Fraction = Fraction(0),
) -> synthetic.StageBudget:
    """All of delta: half for the threshold and half for the conversion of rho, or all of it for the conversion."""
    none, selects = Fraction(0), 1 if variants else 0
    each = delta / (1 + selects)
    return synthetic.StageBudget(none, variants, model, weights, times, none, each * selects, each)
