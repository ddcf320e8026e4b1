"""Compare dp-synthetic with dp-variants: likeness of the release to its log, and the time of the mechanism.

Run `python -m benchmarks.synthetic --json`. Means and extremes over `--rounds` releases with noise from the
cryptographic source, delta_dp 1e-6, activities declared, everything else by default. `similarity` and `dfg_error` as
in models.utility.similarity; `itself`: the log against itself, which is what a sampled similarity reaches at most;
`support`: the control, the log's own list of variants, each once, which no promise covers and no noise touches. A
generative tool whose support leaks looks like it. `medians`: of the pairs with at least 200 cases, the share whose
median duration is within a fifth of the truth, for times of at most 30 days; `medians_readable`: the same of the
released pairs that the manifest does not name as unreadable, 1 if there are none (`unreadable`: how many it names).
`throughput_median_off`: relative error of the throughput time that the manifest states, `..._of_log_off`: of that of
the released cases. `labels`: how many labels were released, if they are selected. `--kind` names rows of the table,
such as "dp-synthetic, labels selected".

Reach with selected labels (issue 39): epsilon 1: BPIC 2012 .88 / .08, Sepsis .70 / .22, BPIC 2013 .96 / .016; epsilon
.1: BPIC 2013 .89 / .06. Reach with declared labels (issue 21): epsilon 1: BPIC 2012 >= .875 / <= .08, BPIC 2013
incidents >= .96 / <= .016, Sepsis >= .67 / <= .27; epsilon .1: BPIC 2013 >= .89 / <= .075; at most 30 CPU s at the size
of BPIC 2012. Logs: the folder VEILSTREAM_LOGS.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors import read_log
from models.dp import strict, synthetic
from models.dp.synthesis.times import PublicTimeBounds
from models.dp.zcdp import rho_of
from models.eventlog import EventLog
from models.utility.similarity import likeness

LOGS = ("sepsis", "bpic2012", "bpic2013-incidents")
EPSILONS = ("1", "0.1")
DELTA = "1e-6"
DAY_MS = 86_400_000
ROOT = Path(__file__).resolve().parent.parent

VARIANTS, DECLARED = "dp-variants", "dp-synthetic"
SELECTED, TIMED = "dp-synthetic, labels selected", "dp-synthetic, times"
KINDS = (VARIANTS, DECLARED, SELECTED, TIMED)

SHARES_OF_SUMS = {"variants": "0.05", "model": "0.575", "weights": "0.375"}
"""Shares before the weights got a part of what exact composition saves (docs/decisions/138)."""

Release = Callable[[], strict.StrictRelease]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", action="append", choices=LOGS, help="only this log; repeatable")
    parser.add_argument("--epsilon", action="append", help="only this epsilon; repeatable")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this row; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    names, epsilons = arguments.log or LOGS, arguments.epsilon or EPSILONS
    print(json.dumps(measure(names, epsilons, arguments.rounds, arguments.kind or KINDS), indent=2))


def measure(names: Sequence[str], epsilons: Sequence[str], rounds: int, kinds: Sequence[str]) -> dict[str, Any]:
    """Return all figures by log, epsilon and kind of release."""
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    results: dict[str, Any] = {}
    for name in names:
        log = read_log(folder / f"{name}.xes.gz")
        results[name] = {"itself": _shown(log, log), "support": _shown(log, _support(log))}
        for epsilon in epsilons:
            terms: dict[str, Any] = {"epsilon": epsilon, "delta_dp": DELTA}
            activities = tuple(log.activity.values)
            design = synthetic.Design(activities=activities, order=synthetic.usual_order(activities))
            timed = replace(design, bounds=PublicTimeBounds(30 * DAY_MS))
            releases = {
                VARIANTS: _variants(log, terms),
                DECLARED: _synthetic(log, terms, design),
                SELECTED: _synthetic(log, terms, synthetic.Design()),
                TIMED: _synthetic(log, terms, timed),
            }
            results[name][epsilon] = {kind: _mean(log, releases[kind], rounds, times=kind == TIMED) for kind in kinds}
            results[name][epsilon]["noise"] = _noise_beside_sums(terms, design)
    return results


def _noise_beside_sums(terms: dict[str, Any], design: synthetic.Design) -> dict[str, float]:
    """Return the noise of the model and of the weights, as a part of the noise required by sums of epsilons.

    The sums are those of the version before exact composition: half of delta_dp for the conversion of the Gaussian
    stages, the other half for the threshold of variants, and from an epsilon of a half on `SHARES_OF_SUMS`.
    """
    exact_terms = strict.Terms.of(**terms)
    budget = synthetic.StageBudget.of(exact_terms, design)
    before = design
    if exact_terms.epsilon >= synthetic.SMALL:
        before = replace(design, shares=synthetic.Shares.of(SHARES_OF_SUMS, labels=False, times=False))
    summed = synthetic.StageBudget.summed(exact_terms, before)
    gaussian = summed.variants + summed.model
    rho_of_sums = rho_of(gaussian, exact_terms.delta_dp / 2) * summed.model / gaussian
    model = math.sqrt(rho_of_sums / budget.rho("model"))
    weights = float(summed.weights / budget.pure("weights"))
    return {"model": round(model, 3), "weights": round(weights, 3)}


def _variants(log: EventLog, terms: dict[str, Any]) -> Release:
    return lambda: strict.release_variants(log, **terms)


def _synthetic(log: EventLog, terms: dict[str, Any], design: synthetic.Design) -> Release:
    return lambda: synthetic.release_synthetic(log, **terms, design=design)


def _mean(log: EventLog, release: Release, rounds: int, *, times: bool = False) -> dict[str, Any]:
    rows: list[dict[str, float]] = []
    for _ in range(rounds):
        begin = time.process_time()
        release_result = release()
        released = release_result.log
        seconds = time.process_time() - begin
        row = _shown(log, released) | {"cpu": seconds, "cases": released.n_cases / log.n_cases}
        row["labels"] = float(len(release_result.labels))
        rows.append(row | (_times(log, release_result) if times else {}))
    mean = {key: round(fmean(row[key] for row in rows), 4) for key in rows[0]}
    worst = {
        f"{key}_worst": worst(row[key] for row in rows) for key, worst in (("similarity", min), ("dfg_error", max))
    }
    return mean | {key: round(value, 4) for key, value in worst.items()}


def _shown(log: EventLog, released: EventLog) -> dict[str, float]:
    figures = likeness(log, released)
    return {"similarity": figures.similarity, "dfg_error": figures.dfg_error}


def _support(log: EventLog) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in sorted(set(log.traces()))])


def _times(log: EventLog, release: strict.StrictRelease) -> dict[str, float]:
    """Return how near the times of a release, and those that its manifest states, are to the true ones."""
    facts = release.facts
    unreadable = {tuple(pair) for pair in facts["unreadable"]}
    figures = {"medians": _medians(log, release.log), "unreadable": float(len(unreadable))}
    figures["medians_readable"] = _medians(log, release.log, without=unreadable)
    true, drawn = _throughput(log), _throughput(release.log)
    for name, part in (("median", 0.5), ("quantile_90", 0.9)):
        truth = float(np.quantile(true, part))
        figures[f"throughput_{name}_off"] = abs(facts["throughput_seconds"][name] / truth - 1)
        figures[f"throughput_{name}_of_log_off"] = abs(float(np.quantile(drawn, part)) / truth - 1)
    return figures


def _throughput(log: EventLog) -> npt.NDArray[np.float64]:
    """Return the time from the first to the last event of each case with events, in seconds."""
    has_events = log.lengths > 0
    first, last = log.starts[:-1][has_events], log.starts[1:][has_events] - 1
    return np.asarray((log.time[last] - log.time[first]) / 1e9)


def _medians(log: EventLog, released: EventLog, least: int = 200, without: Collection[tuple[str, ...]] = ()) -> float:
    """Return the share of frequent pairs whose median is within a fifth of the truth.

    Frequent pairs are those that at least `least` cases take. A median below a second counts as right if that of the
    release is below a second too. Pairs of `without`, and pairs that are not released, are left out if `without` is
    given, and count as wrong otherwise.
    """
    true, released_durations = durations(log), durations(released)
    frequent_pairs = [pair for pair, (cases, _) in true.items() if cases >= least]
    if without:
        frequent_pairs = [pair for pair in frequent_pairs if pair in released_durations and pair not in without]
    near = 0
    for pair in frequent_pairs:
        here = float(np.median(true[pair][1]))
        if pair in released_durations:
            median = float(np.median(released_durations[pair][1]))
            near += abs(median - here) <= max(here / 5, 1.0)
    return near / len(frequent_pairs) if frequent_pairs else 1.0


def durations(log: EventLog) -> dict[tuple[str, str], tuple[int, list[float]]]:
    """Return, by pair, how many cases have it, and all its durations in seconds."""
    cases: dict[tuple[str, str], set[int]] = defaultdict(set)
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    names = log.activity.decode()
    owner = log.case_of_event
    for event in range(1, log.n_events):
        if owner[event] == owner[event - 1]:
            pair = names[event - 1], names[event]
            cases[pair].add(int(owner[event]))
            took[pair].append((int(log.time[event]) - int(log.time[event - 1])) / 1e9)
    return {pair: (len(case_codes), took[pair]) for pair, case_codes in cases.items()}


if __name__ == "__main__":
    main()
