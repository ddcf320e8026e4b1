"""Every stage of dp-model and the whole map against their claims; planted bugs are caught.

Runs are seeded, so each audit is decided once. `ALPHA` is the chance that an audit of a right stage refutes it. At 600
runs an event that never happens on the other log refutes a claim of 1 where it happens in a fifth of the runs
(`test_dp_synthetic_audit.test_power_of_these_audits`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.dp import audit, noise, process_map
from models.dp.budget import Charge
from models.dp.noise import NoiseSource
from models.dp.synthesis import contexts, times
from models.dp.synthesis.neighbours import map_stage_pairs
from models.eventlog import EventLog

EPSILON, DELTA = Fraction(1), Fraction(1, 100)
ALPHA = 1e-3
RUNS = 600
MAP_RUNS = 80
"""Runs of the whole map, which are slow. An event that happens in 39 of 40 runs, and never on the other log, refutes a
claim of 1; with 60 runs no event would. A true number, label or time of the log is such an event in every run."""


def _finding(stage: str, runs: int = RUNS, source: NoiseSource | None = None) -> audit.Finding:
    (found,) = map_stage_pairs(EPSILON, DELTA, source or noise.simulated(5), only=[stage])
    return audit.audit(found.pair, runs, delta=float(found.claim.delta), alpha=ALPHA)


def test_each_stage_has_its_neighbours_and_its_claim() -> None:
    """All of epsilon each, and delta where Gaussian noise or a threshold needs it."""
    found = map_stage_pairs(EPSILON, DELTA, noise.simulated(1))
    assert [(stage.pair.name, stage.claim) for stage in found[7:]] == [
        ("stage cases: one case more", Charge(EPSILON)),
        ("stage steps: a trace longer than any", Charge(EPSILON, DELTA)),
        ("stages cases, variants and steps: a case that decides what is counted", Charge(EPSILON, DELTA)),
        ("stage norms: a trace longer than any", Charge(EPSILON, DELTA)),
        ("stages norms and steps: a case that decides how much a case adds", Charge(EPSILON, DELTA)),
        ("stages norms and times: a case of long steps that decides how much a case adds", Charge(EPSILON, DELTA)),
        ("the map: a trace longer than any", Charge(EPSILON, DELTA)),
        ("the map: a label of one person", Charge(EPSILON, DELTA)),
        ("the map: a step longer than any", Charge(EPSILON, DELTA)),
    ]
    assert all(stage.pair.name.startswith("stage labels") for stage in found[:4])
    assert all(stage.pair.name.startswith("stage times") for stage in found[4:7])
    assert [stage.pair.name for stage in map_stage_pairs(EPSILON, DELTA, only=["cases"])] == [
        "stage cases: one case more"
    ]
    assert len(map_stage_pairs(EPSILON, DELTA, only=["labels"])) == 4


@pytest.mark.parametrize(
    ("stage", "runs"),
    [
        ("cases", RUNS),
        ("steps", RUNS),
        ("variants and steps", RUNS),
        ("norms", RUNS),
        ("norms and steps", 200),
        ("norms and times", 200),
        ("map", MAP_RUNS),
        pytest.param("map with labels", MAP_RUNS, marks=pytest.mark.slow),
        pytest.param("map with times", MAP_RUNS, marks=pytest.mark.slow),
    ],
)
def test_no_stage_is_refuted(stage: str, runs: int) -> None:
    """A bound above the claim of a stage would refute it."""
    assert not _finding(stage, runs).refutes(1.0)


def test_the_runs_of_the_whole_map_can_refute_it() -> None:
    """By an event that happens in 39 of 40 runs."""
    needed = audit.power(MAP_RUNS, 1.0, delta=float(DELTA), alpha=ALPHA).probability
    assert needed is not None
    assert needed <= 39 / 40


def test_the_auditor_is_not_blind() -> None:
    """It sees a good part of the epsilon of the cases."""
    assert _finding("cases", 1_000).epsilon > 0.3


class _Half(NoiseSource):
    """Noise of half the scale, or deviation."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return super().laplace(scale / 2, size)

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return super().gaussian(scale / 2, size)


def test_half_the_scale_of_the_cases_is_caught() -> None:
    """It spends twice the epsilon."""
    assert _finding("cases", 1_500, _Half(np.random.default_rng(6))).refutes(1.0)


def test_steps_without_a_cap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: every step of a long case counts in full."""
    monkeypatch.setattr(
        contexts, "step_weights", lambda steps, bound, order: np.full(len(steps.variant), contexts.UNIT)
    )
    assert _finding("steps", 200).refutes(1.0)


@pytest.mark.parametrize(("stage", "runs"), [("steps", 300), pytest.param("map", 200, marks=pytest.mark.slow)])
def test_noise_of_the_least_case_weight_is_caught(stage: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the steps weigh as the chosen B allows, and the noise is that of the least one."""
    weights = contexts.step_weights
    plain = process_map.measure_steps

    def narrow(table: Any, frequent: Any, rho: Any, terms: Any, design: Any, draw: Any) -> contexts.ContextLevel:
        monkeypatch.setattr(contexts, "step_weights", lambda steps, _, order: weights(steps, 24, order))
        level = plain(table, frequent, rho, terms, replace(design, case_weight=3), draw)
        monkeypatch.setattr(contexts, "step_weights", weights)
        return level

    monkeypatch.setattr(process_map, "measure_steps", narrow)
    assert _finding(stage, runs).refutes(1.0)


def test_a_case_in_all_ranges_up_to_its_norm_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the longest case changes nine numbers by 1, three times as much in L2 as one number."""
    measure = process_map.measure_norms

    def in_lower_ranges_too(
        table: Any, frequent: Any, rho: Any, terms: Any, draw: NoiseSource
    ) -> process_map.NoisyNorms:
        noisy = measure(table, frequent, rho, terms, draw)
        true = _true_norms(table, frequent)
        return replace(noisy, cases=noisy.cases + np.cumsum(true[::-1])[::-1] - true)

    monkeypatch.setattr(process_map, "measure_norms", in_lower_ranges_too)
    assert _finding("norms", 4_000).refutes(1.0)


@pytest.mark.parametrize("stages", ["norms and steps", "norms and times"])
def test_a_case_weight_by_true_norms_is_caught(stages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the true norms of cases choose B, of the steps and so of the times."""

    def without_noise(table: Any, frequent: Any, *_rest: Any) -> process_map.NoisyNorms:
        return process_map.NoisyNorms(_true_norms(table, frequent), 0.0)

    monkeypatch.setattr(process_map, "measure_norms", without_noise)
    assert _finding(stages, 200).refutes(1.0)


def test_long_steps_without_a_cap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: every step of a case counts in full in the histograms of times."""
    monkeypatch.setattr(times, "step_weight", lambda *_: contexts.UNIT)
    assert _finding("norms and times", 200).refutes(1.0)


def _true_norms(table: Any, frequent: Any) -> Any:
    """Cases of each range of norms, float64[ranges]."""
    others, counts = table.without(frequent)
    ranges = process_map._ranges_of_norms(others, len(table.alphabet))
    return np.bincount(ranges, weights=counts, minlength=len(process_map.NORMS))


def test_a_true_number_of_cases_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: B, or anything else of the map, follows from the true number of cases."""

    def true_number(table: Any, *_rest: Any) -> process_map.NoisyNumber:
        cases = int(table.counts.sum())
        return process_map.NoisyNumber(cases, cases, cases)

    monkeypatch.setattr(process_map, "count_cases", true_number)
    monkeypatch.setattr(process_map, "usual_case_weight", lambda cases, *_rest: 2 + cases % 2)
    monkeypatch.setattr(process_map, "case_weight_by_norms", lambda *_: process_map.MOST_CASE_WEIGHT)
    assert _finding("map", MAP_RUNS).refutes(1.0)


def test_variants_counted_by_the_true_number_of_cases_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the noisy number of cases is published, and the true one decides whether variants are counted."""
    after_cases = process_map.budget_after_cases
    found_cases: list[int] = []
    plain = process_map.count_cases

    def noted(table: Any, *rest: Any) -> process_map.NoisyNumber:
        found_cases.append(int(table.counts.sum()))
        return plain(table, *rest)

    monkeypatch.setattr(process_map, "count_cases", noted)
    monkeypatch.setattr(process_map, "budget_after_cases", lambda _, *rest: after_cases(found_cases[-1], *rest))
    assert _finding("variants and steps", 200).refutes(1.0)


def test_variants_taken_by_their_true_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: noise is added to the counts, but the true ones are compared with the threshold."""

    def by_true_counts(table: Any, budget: Any, terms: Any, draw: NoiseSource) -> dict[Any, int]:
        if not budget.variants:
            return {}
        rule = budget.frequent(terms)
        noise_of = draw.gaussian(rule.scale, len(table.variants)).tolist()
        rows = zip(table.variants, table.counts.tolist(), noise_of, strict=True)
        return {variant: count + noise for variant, count, noise in rows if count >= rule.threshold}

    monkeypatch.setattr(process_map, "frequent_variants", by_true_counts)
    assert _finding("variants and steps", 200).refutes(1.0)


def test_labels_of_the_raw_log_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the alphabet of the map is that of the log."""

    def all_labels(log: EventLog, *_rest: Any, **_kept: Any) -> tuple[str, ...]:
        return tuple(sorted(map(str, log.activity.values)))

    monkeypatch.setattr(process_map, "chosen_labels", all_labels)
    assert _finding("map with labels", MAP_RUNS).refutes(1.0)


def test_true_throughput_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the times of the map are those of the slowest case."""

    def true_times(log: EventLog, *_rest: Any) -> process_map.MapTimes:
        slowest = int((log.time[log.starts[1:] - 1] - log.time[log.starts[:-1]]).max()) // 1_000_000
        return process_map.MapTimes({}, slowest, slowest)

    monkeypatch.setattr(process_map, "measure_times", true_times)
    assert _finding("map with times", MAP_RUNS).refutes(1.0)
