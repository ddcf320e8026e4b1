"""Measure dp-model: errors and intervals of its counts, and fitness and precision of its model.

Run `python -m benchmarks.process_map --json`. Means over `--rounds` releases with noise from the cryptographic source,
delta_dp 1e-6, activities declared, everything else by default.

* `dfg_error`: of the counts of the map, as in models.utility.similarity.
* `case_weight`: B of the first release. `cases`: noisy number of cases as a part of the true one.
* `coverage`: share of the pairs of the log whose interval holds the true steps; `coverage_capped`: the same of steps as
  the level counts them, without frequent variants, by the interval of the noise alone; `coverage_cases`: of the number
  of cases.
* `f1`, `fitness`, `precision`: of the discovered model on the true log, with `--discovery` as a method of
  models.utility.discovery.
* `medians`: with `--times` (max_duration of 30 days), of the pairs that 200 cases have, the share whose median is
  within a fifth of the truth (or a second, where that is more); `medians_covered`: whose interval holds it (or a second
  from it); `throughput`: median throughput time as a part of the true one.
* `cpu`: seconds of the mechanism, without the files.

Reach (issue 39): DFG error .10 / .010 / .040 at epsilon 1 (Sepsis, BPIC 2013, BPIC 2012), .33 / .030 / .11 at .1; F1
at least that of dp-synthetic (.948 / .948 BPIC 2013, .584 / .502 Sepsis) and .95 on BPIC 2013; coverage .93 to .97 over
200 draws; medians .58 / .75 / .80 at epsilon 1. Logs: the folder VEILSTREAM_LOGS.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import numpy as np

from benchmarks.synthetic import durations
from connectors import read_log
from models.dp import process_map
from models.dp.noise import SECURE
from models.dp.process_map import COVERAGE, MapTimes, StepCounts
from models.dp.strict import Terms
from models.dp.synthesis import contexts
from models.dp.synthesis.table import Variant, VariantCounts
from models.dp.synthesis.times import PublicTimeBounds
from models.dp.synthetic import StageBudget
from models.eventlog import EventLog, Ints
from models.utility.discovery import model_quality, quiet_pm4py
from models.utility.map_model import petri_net

LOGS = ("sepsis", "bpic2013-incidents", "bpic2012")
EPSILONS = ("1", "0.1")
DELTA = "1e-6"
BOUNDS = PublicTimeBounds(30 * 86_400_000)
LEAST_CASES = 200
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", action="append", choices=LOGS, help="only this log; repeatable")
    parser.add_argument("--epsilon", action="append", help="only this epsilon; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", action="store_true", help="release times too")
    parser.add_argument("--discovery", choices=("replay", "alignment"), help="measure the model by this fitness")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    results: dict[str, Any] = {}
    for name in arguments.log or LOGS:
        log = read_log(folder / f"{name}.xes.gz")
        results[name] = {
            epsilon: _measure(log, epsilon, arguments.rounds, arguments.discovery, times=arguments.times)
            for epsilon in arguments.epsilon or EPSILONS
        }
    print(json.dumps(results, indent=2))


def _measure(log: EventLog, epsilon: str, rounds: int, discovery: Any, *, times: bool) -> dict[str, float]:
    """Return the means of all figures."""
    names = tuple(sorted(map(str, log.activity.values)))
    table = VariantCounts.of(log, names)
    terms, design = Terms.of(epsilon, DELTA), process_map.map_design(activities=names, bounds=BOUNDS if times else None)
    budget = StageBudget.of(terms, design)
    rows = []
    for _ in range(rounds):
        source = SECURE
        begin = time.process_time()
        noisy = process_map.noisy_stages(table, design, budget, terms, source)
        steps = process_map.consistent_steps(noisy, names, design, source)
        seconds = time.process_time() - begin
        row = _row(table, steps) | {"cpu": seconds, "coverage_capped": _capped_coverage(table, noisy, steps)}
        if times:
            of_times = replace(design, case_weight=process_map.usual_time_weight(noisy.case_weight))
            released = process_map.measure_times(log, steps, BOUNDS, budget, terms, of_times, source)
            row |= _times_row(log, names, released)
        if discovery:
            row |= _quality(log, steps, discovery)
        rows.append(row)
    return {key: round(fmean(row[key] for row in rows), 4) for key in rows[0]}


def _row(table: VariantCounts, steps: StepCounts) -> dict[str, float]:
    true = _true_steps(table.variants, table.counts, len(table.alphabet))
    occurs = true > 0
    covered = (steps.low <= true) & (true <= steps.high)
    cases = int(table.counts.sum())
    error = 1.0
    if steps.counts.any():
        error = 0.5 * float(np.abs(true / true.sum() - steps.counts / steps.counts.sum()).sum())
    return {
        "dfg_error": error,
        "case_weight": steps.case_weight,
        "cases": steps.cases.count / cases,
        "coverage": float(covered[occurs].mean()),
        "coverage_cases": float(steps.cases.low <= cases <= steps.cases.high),
    }


def _capped_coverage(table: VariantCounts, noisy: process_map.NoisyStages, steps: StepCounts) -> float:
    """Return the coverage of steps as the level counts them, by the interval of the noise alone."""
    capped = _true_steps(*table.without(noisy.variants), len(table.alphabet), steps.case_weight)
    margin = NormalDist().inv_cdf((1 + COVERAGE) / 2) * steps.deviation
    covered = np.abs(noisy.level.cells / contexts.UNIT - capped) <= margin
    return float(covered[capped > 0].mean())


def _true_steps(variants: Sequence[Variant], counts: Ints, labels: int, case_weight: int | None = None) -> Any:
    """Return float64[A + 1, A + 1]: steps of all cases, each as 1, or with its weight for a bound `case_weight`."""
    steps = contexts.VariantSteps.of(variants, labels)
    weights = counts[steps.variant].astype(np.float64)
    if case_weight is not None:
        weights *= contexts.step_weights(steps, case_weight, 1) / contexts.UNIT
    cells = np.zeros((labels + 1, labels + 1))
    np.add.at(cells, (steps.before, steps.after), weights)
    return cells


def _times_row(log: EventLog, names: tuple[str, ...], released: MapTimes) -> dict[str, float]:
    """Return how many medians are near to the true ones, and how many intervals hold them."""
    near, covered = [], []
    for (before, after), (cases, seconds) in durations(log).items():
        if cases < LEAST_CASES:
            continue
        true = float(np.median(seconds))
        found = released.steps.get((names.index(str(before)), names.index(str(after))))
        near.append(found is not None and abs(found.median / 1000 - true) <= max(true / 5, 1.0))
        covered.append(found is not None and found.low / 1000 - 1 <= true <= found.high / 1000 + 1)
    throughput = np.median(log.time[log.starts[1:] - 1] - log.time[log.starts[:-1]]) / 1e6
    return {
        "medians": fmean(near),
        "medians_covered": fmean(covered),
        "throughput": released.throughput / float(throughput),
    }


def _quality(log: EventLog, steps: StepCounts, method: Any) -> dict[str, float]:
    with quiet_pm4py() as pm4py:
        net = petri_net(pm4py, steps.traces, steps.labels)
        quality = model_quality(pm4py, log, net, method)
    return {"fitness": quality.fitness, "precision": quality.precision, "f1": quality.f1}


if __name__ == "__main__":
    main()
