"""Neighbouring logs for each stage of `models.dp.synthetic`, and what an adversary sees of its output alone.

Each stage is audited with all of epsilon and delta on the pair that its promise is most likely to fail on:

* labels: a person with a label that nobody else has;
* variants: a person with a variant that nobody else has, or one more of a frequent one;
* variants and model: a person whose case decides whether stage 1 takes a variant, and so which cases stage 2 sees;
* model: a person whose trace is longer than any other, and holds a step that nobody else takes;
* weights: a person whose case is the only one near its candidate, or one more near a frequent one;
* times: a person whose step takes longer than any other.

Events are about the victim's cells alone: an auditor who looked everywhere would need more runs for the same power.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.dp import synthetic
from models.dp.annotation import MILLISECOND
from models.dp.audit import NeighbourPair
from models.dp.budget import Charge
from models.dp.noise import NoiseSource, secure
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, labels, times
from models.dp.synthesis.table import VariantCounts
from models.dp.zcdp import rho_of
from models.eventlog import EventLog, Ints

NAMES = ("A", "B", "C")
LONG = 400
"""Events of the longest trace: its cells are a hundred times what they may be together in L2."""

COMMON = 200
"""Cases of everybody else."""

HOUR = 3_600_000
DAY = 24 * HOUR

Events = Iterator[Hashable]


@dataclass(frozen=True, slots=True)
class StagePair:
    """A pair of neighbouring logs, and what the audited stages claim on it."""

    pair: NeighbourPair
    claim: Charge


def stage_pairs(
    epsilon: Fraction, delta: Fraction, draw: NoiseSource | None = None, only: Sequence[str] = ()
) -> list[StagePair]:
    """Every stage alone, each with the whole of epsilon and delta; `only`: of these stages."""
    source = secure() if draw is None else draw
    stages: dict[str, tuple[Callable[[EventLog], Events], EventLog, EventLog, Charge]] = {
        "labels": (_Labels(epsilon, delta, source), _log(), _log("AX"), Charge(epsilon, delta)),
        "variants": (_VariantsStage(epsilon, delta, source), _log(), _log("AC"), Charge(epsilon, delta)),
        "counts": (_VariantsStage(epsilon, delta, source), _log(), _log("AB"), Charge(epsilon, delta)),
        "taken": _taken(epsilon, delta, source),
        "model": (_Cells(epsilon, delta, source), _log(), _log("AC" * (LONG // 2)), Charge(epsilon, delta)),
        "weights": (_Weights(epsilon, source), _log(), _log("CC"), Charge(epsilon)),
        "nearest": (_Weights(epsilon, source), _log(), _log("ABA"), Charge(epsilon)),
        "times": (_TimesStage(epsilon, source), _log(), _log("AB", 29 * DAY), Charge(epsilon)),
    }
    said = {
        "labels": "stage labels: a label of one person",
        "variants": "stage variants: a variant of one person",
        "counts": "stage variants: a case of a frequent variant",
        "taken": "stages variants and model: a case that decides which cases the model sees",
        "model": "stage model: a trace longer than any",
        "weights": "stage weights: the only case near a candidate",
        "nearest": "stage weights: a case near a frequent candidate",
        "times": "stage times: a step longer than any",
    }
    return [
        StagePair(NeighbourPair(said[name], _runs(run, first), _runs(run, other)), claim)
        for name, (run, first, other, claim) in stages.items()
        if not only or name in only
    ]


def _runs(run: Callable[[EventLog], Events], log: EventLog) -> Callable[[], Events]:
    return lambda: run(log)


def _log(victim: str | None = None, took: int = HOUR, common: int = COMMON) -> EventLog:
    """Return a log with `common` cases of A B, an hour each, and the victim's case."""
    traces = ["AB"] * common + ([] if victim is None else [victim])
    case, activity, time = [], [], []
    for number, trace in enumerate(traces):
        step = took if number == common else HOUR
        for place, name in enumerate(trace):
            case.append(str(number))
            activity.append(name)
            time.append((number * HOUR + place * step) * MILLISECOND)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


def _buckets(name: Hashable, value: int, scale: float, around: int = 0) -> Events:
    """Return where a noisy number lies, by steps of half its scale near the true one; and whether it is exactly 0."""
    if value == 0:
        yield name, "is 0"
    for step in range(-4, 9):
        bound = around + round(step * scale / 2)
        yield name, "at least" if value >= bound else "below", bound


@dataclass(frozen=True, slots=True)
class _Labels:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        for label in labels.select(VariantCounts.of(log), self.epsilon, self.delta, 2, self.draw):
            yield "label", label


@dataclass(frozen=True, slots=True)
class _VariantsStage:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        table, terms = VariantCounts.of(log, NAMES), _terms(self.epsilon, self.delta)
        budget = _budget(variants=self.epsilon, delta=self.delta)
        for variant, count in synthetic.frequent_variants(table, budget, terms, self.draw).items():
            yield "variant", variant
            yield from _buckets(variant, count, budget.frequent(terms).scale, COMMON)


def _taken(
    epsilon: Fraction, delta: Fraction, draw: NoiseSource
) -> tuple[Callable[[EventLog], Events], EventLog, EventLog, Charge]:
    """Return a log whose only variant has as many cases as the threshold asks for; one more case decides."""
    half = epsilon / 2
    budget = _budget(variants=half, model=half, delta=delta)
    terms = _terms(epsilon, delta)
    design = synthetic.Design(activities=NAMES, order=1, case_weight=3)
    common = budget.thresholds(terms, design)["threshold"] - 1

    def run(log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        frequent = synthetic.frequent_variants(table, budget, terms, draw)
        (level,) = synthetic.residual_model(table, frequent, design, budget, terms, draw)
        cell = int(level.cells[0, 1])
        kind = "taken" if frequent else "left"
        yield kind
        for event in _buckets("A then B", cell, float(level.scale[0]), 0 if frequent else common * contexts.UNIT):
            yield kind, event

    return run, _log(common=common), _log("AB", common=common), Charge(epsilon, delta)


@dataclass(frozen=True, slots=True)
class _Cells:
    epsilon: Fraction
    delta: Fraction
    draw: NoiseSource
    bound: int = 3

    def __call__(self, log: EventLog) -> Events:
        table = VariantCounts.of(log, NAMES)
        each = [rho_of(self.epsilon, self.delta) / 2] * 2
        first, second = contexts.measure(table.variants, table.counts, len(NAMES), each, self.bound, self.draw)
        for before, after in ((0, 2), (2, 0), (2, 3)):  # A then C, C then A, C then the end
            yield from _buckets((before, after), int(first.cells[before, after]), float(first.scale[0]))
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
    epsilon: Fraction
    draw: NoiseSource

    def __call__(self, log: EventLog) -> Events:
        bounds = times.PublicTimeBounds(30 * DAY)
        rows = times.add(log, NAMES, [((0, 1), COMMON)], bounds, self.epsilon, 4, self.draw)
        took: Ints = (rows[0][:, 1] - rows[0][:, 0]) // MILLISECOND
        longest = int(took.max())
        for days in (1, 7, 15, 28):
            yield "some step takes at least" if longest >= days * DAY else "no step takes", days
        slow = int((took >= 20 * DAY).sum())
        yield from _buckets("slow steps", slow, 2.0)


def _terms(epsilon: Fraction, delta: Fraction) -> Terms:
    return Terms.of(epsilon, delta)


def _budget(
    *, variants: Fraction = Fraction(0), model: Fraction = Fraction(0), delta: Fraction = Fraction(0)
) -> synthetic.StageBudget:
    """All of delta: half for the threshold and half for the conversion of rho, or all of it for the conversion."""
    none, selects = Fraction(0), 1 if variants else 0
    each = delta / (1 + selects)
    return synthetic.StageBudget(none, variants, model, none, none, none, each * selects, each)
