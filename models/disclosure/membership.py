"""Membership: decide whether a person was in the log that the release was made from.

Two scores from the files alone:

* distance: how near the nearest record is to the whole case of the target (normalised Levenshtein);
* density: how much likelier the case is under a model of the release than under one of people who were not in the log
  (DOMIAS, van Breugel et al. 2023), by the three items before each. The people outside are divided into two folds: a
  case outside is scored by the model of the other fold, which has never seen it, as it has seen no case of the log.

Neither is the best attack. Against noisy kinds both are weak (arXiv 2405.10994): their proven epsilon bounds every
attack. If the counts of variants were released with noise of a known design, a third score is the likelihood ratio of
somebody who knows all other cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.anonymize.view import TraceView
from models.disclosure.intervals import AttackRisk, area_over_folds, area_under_curve
from models.disclosure.material import Material
from models.eventlog import Floats, Ints
from models.utility.distance import distances

BEFORE = 3
"""Items before an item that its probability depends on."""

SMOOTHING = 0.1
"""Added to each count."""

FALSE_POSITIVES = (0.01, 0.001)
"""Shares of false positives at which the share of true positives is reported."""


FOLDS = 2
"""Parts of the people outside: each is scored by a model of the others."""

DISTANCE = "distance to the nearest record"
"""Name of the score by distance."""

DENSITY = "density against people outside"
"""Name of the score by density."""

LIKELIHOOD = "likelihood ratio of the noise"
"""Name of the score that knows the design of the noise, and all other cases."""

MOST_RATIO = 700.0
"""Largest logarithm of a likelihood ratio: a count that only one of both worlds can show has an infinite one."""


class CountNoise(Protocol):
    """Design of a release of noisy counts of variants."""

    def log_probability(self, shown: Ints, true: Ints) -> Floats:
        """Return the log probability of each released count (0: not released) for a true one, float64[N].

        Parameters
        ----------
        shown, true
            int64[N], released counts and true ones.
        """


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
        Original, control and release in one coding.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Divides the control into folds.
    noise
        Noise of the counts of variants, if its design is known: adds the likelihood ratio.

    Notes
    -----
    A model of people outside that was fitted to a case scores it lower, although the release reveals nothing about it.
    So no case is scored by a model of its own fold. Members are scored by the models of both folds, and compared with
    the cases outside that the same model scores. Without a leak, members and these cases are drawn alike, and the
    area has the expectation .5, whatever the models are.
    """
    if material.n_control < 4 or len(targets) < 2 or len(controls) < 2:
        return {}
    original, control, _ = material.rows(material.traces)
    rows, other_rows = original[targets], control[controls]
    weight = material.released_weight
    units = (targets, controls)
    near, near_outside = (-_nearest_distance(material, some) for some in (rows, other_rows))
    results = {
        DISTANCE: Membership(
            area_under_curve(near, near_outside, measures, units=units),
            _true_positives([(near, near_outside)]),
        )
    }

    fold_of_case = _folds(material.n_control, controls, rng)
    shown = TraceModel(material.traces, weight)
    members, outside = [], np.zeros(len(controls))
    for fold in range(FOLDS):
        # The model of people outside is fitted to the other folds, and scores the cases of this one.
        reference = np.bincount(control[fold_of_case != fold], minlength=len(weight))
        expected = TraceModel(material.traces, reference)
        is_scored = fold_of_case[controls] == fold
        members.append(_density_ratio(shown, expected, rows))
        outside[is_scored] = _density_ratio(shown, expected, other_rows[is_scored])
    fold_of_other = fold_of_case[controls]
    scored = [(members[fold], outside[fold_of_other == fold]) for fold in range(FOLDS)]
    area = area_over_folds(members, outside, fold_of_other, measures, units=units)
    results[DENSITY] = Membership(area, _true_positives(scored))

    if noise is not None:
        pairs = _likelihood_ratios(material, targets, controls, noise)
        groups = _variants(material, targets, controls)
        area = area_under_curve(*pairs, measures, units=units, groups=groups)
        results[LIKELIHOOD] = Membership(area, _true_positives([pairs]))
    return results


def _folds(n_control: int, controls: Ints, rng: np.random.Generator) -> Ints:
    """Return the fold of each case of the control, int64[n_control]. Attacked cases are divided evenly."""
    other_cases = np.setdiff1d(np.arange(n_control), controls)
    order = np.concatenate((rng.permutation(controls), rng.permutation(other_cases)))
    fold_of_case = np.empty(n_control, dtype=np.int64)
    fold_of_case[order] = np.arange(n_control) % FOLDS
    return fold_of_case


def _density_ratio(shown: TraceModel, expected: TraceModel, rows: Ints) -> Floats:
    """Return the log ratio of the densities of each row, float64[rows]."""
    distinct, place = np.unique(rows, return_inverse=True)
    ratios = [shown.log_density(row) - expected.log_density(row) for row in distinct.tolist()]
    return np.asarray(ratios)[place]


def _variants(material: Material, targets: Ints, controls: Ints) -> tuple[Ints, Ints]:
    """Return the sequence of activities of each target: all cases of one saw the same noise."""
    original, control, _ = material.rows(material.steps)
    return original[targets], control[controls]


def _likelihood_ratios(
    material: Material,
    targets: Ints,
    controls: Ints,
    noise: CountNoise,
) -> tuple[Floats, Floats]:
    """Return how much likelier the released count is with the target than without, by somebody who knows all others.

    That is the strongest attacker that the promise of epsilon covers: they know all cases of the original but the
    target, and the design of the noise. The likelihood ratio is the best test of one against the other.
    """
    original, _, released = material.rows(material.steps)
    size = len(material.steps.weight)
    true, shown = np.bincount(original, minlength=size), np.bincount(released, minlength=size)
    of_targets, of_others = _variants(material, targets, controls)

    def score(variants: Ints, count_of_others: Ints) -> Floats:
        present = np.maximum(noise.log_probability(shown[variants], count_of_others + 1), -MOST_RATIO)
        absent = np.maximum(noise.log_probability(shown[variants], count_of_others), -MOST_RATIO)
        return np.asarray(present - absent)

    # A target is one of the cases of its variant in the original; a case outside is none of them.
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

    def log_density(self, row: int) -> float:
        """Return the logarithm of the probability of a row's trace.

        Parameters
        ----------
        row
            Row of the material's traces.
        """
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


def _true_positives(scored: Sequence[tuple[Floats, Floats]]) -> dict[float, float | None]:
    """Return the share of members above the score that at most a share of the others pass, for `FALSE_POSITIVES`.

    Parameters
    ----------
    scored
        Scores of members and others under each model; the result is the mean over the models.

    Returns
    -------
    dict
        None if so few others were scored that none of them may pass.
    """
    rates: dict[float, float | None] = {}
    for share in FALSE_POSITIVES:
        rates[share] = None
        if all(int(share * len(outside)) for _, outside in scored):
            passing = [_share_above(members, outside, share) for members, outside in scored]
            rates[share] = float(np.mean(passing))
    return rates


def _share_above(members: Floats, outside: Floats, share: float) -> float:
    allowed = int(share * len(outside))
    threshold = np.sort(outside)[len(outside) - allowed - 1]
    return float((members > threshold).mean())
