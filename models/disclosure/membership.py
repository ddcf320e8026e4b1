"""Membership: decide whether a person was in the log that the release was made from.

Two scores, both from the files alone:

* distance: how near the nearest record is to the whole case of the target (normalised Levenshtein);
* density: how much likelier the case is under a model of the release than under one of people who were not in the log
  (DOMIAS, van Breugel et al. 2023), by the three items before each.

Neither is the best attack. Against noisy kinds both are weak (arXiv 2405.10994): their proven epsilon bounds every
attack.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

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
    material: Material, targets: Ints, controls: Ints, measures: int, rng: np.random.Generator
) -> dict[str, Membership]:
    """Return the result by score; empty without a control of at least four cases.

    Parameters
    ----------
    material
        The logs.
    targets, controls
        Attacked cases of the original and of the control, as indices. Cases of the control that are not attacked are
        the reference of the density score; if fewer than half are left, half of the control is kept for it.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Divides the control.
    """
    if material.n_control < 4:
        return {}
    shuffled = rng.permutation(material.n_control)
    reference = shuffled[: material.n_control // 2]
    others = np.setdiff1d(controls, reference)
    if len(others) < 2 or len(targets) < 2:
        return {}
    original, control, _ = material.rows(material.traces)
    rows, other_rows = original[targets], control[others]
    weight = material.released_weight
    reference_weight = np.bincount(control[reference], minlength=len(weight))
    shown = TraceModel(material.traces, weight)
    expected = TraceModel(material.traces, reference_weight)
    scores = {
        "distance to the nearest record": [-_nearest_distance(material, some) for some in (rows, other_rows)],
        "density against people outside": [
            np.asarray([shown.log_density(row) - expected.log_density(row) for row in some.tolist()])
            for some in (rows, other_rows)
        ],
    }
    return {
        name: Membership(
            area_under_curve(members, outside, measures),
            {share: _true_positives(members, outside, share) for share in FALSE_POSITIVES},
        )
        for name, (members, outside) in scores.items()
    }


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

    def log_density(self, row: int) -> float:
        """Return the logarithm of the probability of a row's trace."""
        logarithm = 0.0
        for step in self._steps_of(row):
            likely = self._steps.get(step, 0.0) + SMOOTHING
            possible = self._contexts.get(step[:-1], 0.0) + SMOOTHING * self._choices
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
