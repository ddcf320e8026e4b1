"""Membership: decide whether a person was in the log that the release was made from.

Two scores from the files alone:

* distance: how near the nearest record is to the whole case of the target (normalised Levenshtein);
* density: how much likelier the case is under a model of the release than under one of people who were not in the log
  (DOMIAS, van Breugel et al. 2023), by the three items before each.

Neither is the best attack. Against noisy kinds both are weak (arXiv 2405.10994): their proven epsilon bounds every
attack. If the counts of variants were released with noise of a known design, a third score is the likelihood ratio of
somebody who knows all other cases.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.anonymize.view import TraceView
from models.disclosure.intervals import AttackRisk, Floats, area_under_curve
from models.disclosure.material import Material
from models.eventlog import Ints
from models.utility.distance import distances

BEFORE = 3
"""Items before an item that its probability depends on."""

SMOOTHING = 0.1
"""Added to each count."""

FALSE_POSITIVES = (0.01, 0.001)
"""Shares of false positives at which the share of true positives is reported."""


DISTANCE = "distance to the nearest record"
"""Name of the score by distance."""

LIKELIHOOD = "likelihood ratio of the noise"
"""Name of the score that knows the design of the noise, and all other cases."""

MOST_RATIO = 700.0
"""Largest logarithm of a likelihood ratio: a count that only one of both worlds can show has an infinite one."""


class CountNoise(Protocol):
    """Design of a release of noisy counts of variants."""

    def log_probability(self, shown: Ints, true: Ints) -> Floats:
        """Return the log probability of each released count (0: not released) for a true one, float64[N]."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Result for one score.

    Parameters
    ----------
    risk
        Its `rate` is the area under the ROC curve.
    true_positives
        True-positive rate by false-positive rate; None if there are too few others for it.
    """

    risk: AttackRisk
    true_positives: dict[float, float | None]


def membership(
    material: Material,
    targets: Ints,
    controls: Ints,
    measures: int,
    rng: np.random.Generator,
    noise: CountNoise | None = None,
) -> dict[str, Membership]:
    """Return the result by score; empty without a control of at least four cases.

    Parameters
    ----------
    material
        The logs.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws the case that the reference of a member lacks.
    noise
        Noise of the counts of variants, if its design is known: adds the likelihood ratio.

    Notes
    -----
    The reference of the density score is all of the control, less the target itself. So that members are compared with
    as many cases, their reference lacks one random case. Of two equal cases, the one outside then scores a little
    higher. Where equal cases are many, the area is below .5 without a leak: too low and never too high.
    """
    if material.n_control < 4 or len(targets) < 2 or len(controls) < 2:
        return {}
    original, control, _ = material.rows(material.traces)
    rows, other_rows = original[targets], control[controls]
    weight = material.released_weight
    reference_weight = np.bincount(control, minlength=len(weight))
    shown = TraceModel(material.traces, weight)
    expected = TraceModel(material.traces, reference_weight)
    without = control[rng.integers(material.n_control, size=len(rows))]
    scores = {
        DISTANCE: [-_nearest_distance(material, some) for some in (rows, other_rows)],
        "density against people outside": [
            _density_ratio(shown, expected, rows, without),
            _density_ratio(shown, expected, other_rows, other_rows),
        ],
    }
    units = (targets, controls)
    risks = {
        name: area_under_curve(members, outside, measures, units=units) for name, (members, outside) in scores.items()
    }
    if noise is not None:
        pairs = _likelihood_ratios(material, targets, controls, noise)
        groups = _variants(material, targets, controls)
        risks[LIKELIHOOD] = area_under_curve(*pairs, measures, units=units, groups=groups)
        scores[LIKELIHOOD] = list(pairs)
    results = {}
    for name, risk in risks.items():
        members, outside = scores[name]
        rates = {share: _true_positives(members, outside, share) for share in FALSE_POSITIVES}
        results[name] = Membership(risk, rates)
    return results


def _density_ratio(shown: TraceModel, expected: TraceModel, rows: Ints, without: Ints) -> Floats:
    """Return the log ratio of the densities of each row; `without` is the row of a case that the reference lacks."""
    return np.asarray(
        [
            shown.log_density(row) - expected.log_density(row, lacking)
            for row, lacking in zip(rows.tolist(), without.tolist(), strict=True)
        ]
    )


def _variants(material: Material, targets: Ints, controls: Ints) -> tuple[Ints, Ints]:
    """Return the sequence of activities of each target: all cases of one saw the same noise."""
    original, control, _ = material.rows(material.steps)
    return original[targets], control[controls]


def _likelihood_ratios(material: Material, targets: Ints, controls: Ints, noise: CountNoise) -> tuple[Floats, Floats]:
    """Return how much likelier the released count is with the target than without, by somebody who knows all others.

    That is the strongest attacker that the promise of epsilon covers: they know all cases of the original but the
    target, and the design of the noise. The likelihood ratio is the best test of one against the other.
    """
    original, _, released = material.rows(material.steps)
    size = len(material.steps.weight)
    true, shown = np.bincount(original, minlength=size), np.bincount(released, minlength=size)
    of_targets, of_others = _variants(material, targets, controls)

    def score(variants: Ints, others: Ints) -> Floats:
        present = np.maximum(noise.log_probability(shown[variants], others + 1), -MOST_RATIO)
        absent = np.maximum(noise.log_probability(shown[variants], others), -MOST_RATIO)
        return np.asarray(present - absent)

    return score(of_targets, true[of_targets] - 1), score(of_others, true[of_others])


def _nearest_distance(material: Material, rows: Ints) -> Floats:
    """Return the normalised Levenshtein distance of each case to its nearest record, float64[cases]."""
    distinct, place = np.unique(rows, return_inverse=True)
    _, texts = material.shown_texts
    to_records = distances(material.texts[distinct].tolist(), texts.tolist(), np.float32)
    nearest = np.asarray(to_records.min(axis=1), dtype=np.float64)
    return nearest[place]


class TraceModel:
    """A model of traces: each item depends on the three before it, with the start and the end of a case.

    Parameters
    ----------
    view
        Traces; a case is scored by its row.
    weight
        int64[R], cases of each row that the model is fitted to.
    """

    def __init__(self, view: TraceView, weight: Ints) -> None:
        self._view = view
        self._choices = len(view.alphabet) + 1
        self._steps: dict[tuple[int, ...], float] = defaultdict(float)
        self._contexts: dict[tuple[int, ...], float] = defaultdict(float)
        for row in np.flatnonzero(weight).tolist():
            for step in self._steps_of(row):
                self._steps[step] += float(weight[row])
                self._contexts[step[:-1]] += float(weight[row])

    def log_density(self, row: int, lacking: int | None = None) -> float:
        """Return the logarithm of the probability of a row's trace.

        Parameters
        ----------
        row
            The row.
        lacking
            Row of one case that is left out of the model, which was fitted to it.
        """
        left_out: Counter[tuple[int, ...]] = Counter()
        if lacking is not None:
            for step in self._steps_of(lacking):
                left_out[step] += 1
                left_out[step[:-1]] += 1
        logarithm = 0.0
        for step in self._steps_of(row):
            context = step[:-1]
            likely = self._steps.get(step, 0.0) - left_out[step] + SMOOTHING
            possible = self._contexts.get(context, 0.0) - left_out[context] + SMOOTHING * self._choices
            logarithm += math.log(likely / possible)
        return logarithm

    def _steps_of(self, row: int) -> Iterator[tuple[int, ...]]:
        """Yield each item with those before it; -1 is outside of the case."""
        trace = self._view.codes[self._view.starts[row] : self._view.starts[row + 1]]
        bordered = [*[-1] * BEFORE, *trace.tolist(), -1]
        for end in range(BEFORE + 1, len(bordered) + 1):
            yield tuple(bordered[end - BEFORE - 1 : end])


def _true_positives(members: Floats, outside: Floats, share: float) -> float | None:
    """Return the share of members above the score that at most `share` of the others pass."""
    allowed = int(share * len(outside))
    if not allowed:
        return None
    threshold = np.sort(outside)[len(outside) - allowed - 1]
    return float((members > threshold).mean())
