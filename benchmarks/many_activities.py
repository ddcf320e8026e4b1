"""Growth of the cost of a build with its log, where the log has 1,000 activities.

`python -m benchmarks.many_activities [--events 20000,40000,80000] [--activities 1000] [--shape zipf|flat]
[--mechanism cohorts|tlkc] [--profile] [--json]`. A case has 2 to 18 events, each of an activity drawn apart from all
others: `zipf`, the r-th activity with a weight of 1 / r; `flat`, all alike. Two releases, at half of the cases and at
the end, with the bounds and audits of the default; one process for each log. Printed for each log: CPU seconds of all
and of each stage (`build`, the audits by name, `files`, `read_back`), `pairs`: pairs of activities in order that a
case contains, `violating`: how many of these have fewer than K cases (no mechanism can keep one of them in a case);
and between a log and the next, the exponent of each figure in the number of events. `--profile` prints the functions
with the most CPU time of the largest log.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from models.anonymize.view import view
from models.anonymize.violations import TlkcBounds, minimal_violations, single_items
from models.eventlog import Column, EventLog
from models.knowledge import Knowledge
from stream.config.settings import Completion, Process, Settings
from stream.run import presets
from stream.run.replay import Replay

ROOT = Path(__file__).resolve().parent.parent
MINUTE = 60_000_000_000
TARGET = {"exponent": 1.2}
LEAST_SECONDS = 0.2
"""Below, the exponent of a stage is of its fixed cost, and is left out."""


def drawn_log(events: int, activities: int, shape: str) -> EventLog:
    """Return a log of cases of 2 to 18 events; cases begin every few minutes."""
    generator = np.random.default_rng(0)
    weight = np.ones(activities) if shape == "flat" else 1 / np.arange(1, activities + 1)
    lengths = generator.integers(2, 19, events // 10)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    n_events = int(starts[-1])
    begins = np.cumsum(generator.integers(1, 10, len(lengths))) * MINUTE
    place = np.arange(n_events) - np.repeat(starts[:-1], lengths)
    return EventLog(
        case_ids=tuple(f"c{case}" for case in range(len(lengths))),
        starts=starts,
        activity=Column(
            generator.choice(activities, n_events, p=weight / weight.sum()).astype(np.int32),
            tuple(f"activity {number:04d}" for number in range(activities)),
        ),
        time=np.repeat(begins, lengths) + place * MINUTE,
        resource=Column(np.zeros(n_events, dtype=np.int32), ("r",)),
        row=np.arange(n_events, dtype=np.int64),
    )


def settings(mechanism: str, log: EventLog) -> Settings:
    """Return the default publication, or plain TLKC with the same bounds, with two cuts."""
    kind = {"cohorts": "tlkc-cohorts", "tlkc": "tlkc"}[mechanism]
    table = {"kind": kind, **presets.bounds(log, ()), "suppression": "local"}
    counted = "completed_cases" if mechanism == "cohorts" else "new_cases"
    gate = presets.series_gate(presets.K, local=True) | {"on_violation": "warn"}
    publication = presets.publication("research", {counted: log.n_cases // 2 + 1}, table, gate)
    return Settings(process=Process(completion=Completion(log_end=True)), publication=(publication,))


def violating_pairs(log: EventLog) -> tuple[int, int]:
    """Return how many pairs of activities some case contains in order, and how many of them fewer than K cases do.

    Pairs of an activity that has fewer than K cases itself are not counted.
    """
    traces = view(log, Knowledge("seq", "ac"), {})
    bounds = TlkcBounds.of(2, presets.K, 1)
    violations = minimal_violations(traces, bounds)
    return violations.counted - len(single_items(traces, bounds)), len(violations.levels[-1])


def measured(log: EventLog, mechanism: str) -> dict[str, Any]:
    """Return the CPU seconds of a replay of two releases, by stage."""
    clock = SimpleNamespace(monotonic=time.process_time)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, mock.patch("stream.release.pipeline.time", clock):
        outcome = Replay(settings(mechanism, log), Path(folder) / "out").run(log, final=True)
    total = time.process_time() - began
    stages: Counter[str] = Counter()
    for _, decision in outcome.decisions:
        stages.update(decision.audit.get("seconds") or {})
    return {
        "statuses": [decision.status for _, decision in outcome.decisions],
        "events_out": (outcome.decisions[-1][1].audit.get("counts") or {}).get("released"),
        "cpu": round(total, 2),
        "stages": {name: round(seconds, 2) for name, seconds in stages.most_common()},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the exponent of each figure in the number of events, between each log and the next."""
    comparisons = []
    for smaller, larger in pairwise(rows):
        growth_of_events = math.log(larger["events"] / smaller["events"])
        slopes = {}
        for name in ("cpu", "pairs", "violating"):
            slopes[name] = round(math.log(larger[name] / smaller[name]) / growth_of_events, 2)
        for stage, seconds in smaller["stages"].items():
            later_seconds = larger["stages"].get(stage, 0.0)
            if min(seconds, later_seconds) >= LEAST_SECONDS:
                slopes[f"stage {stage}"] = round(math.log(later_seconds / seconds) / growth_of_events, 2)
        comparisons.append({"from": smaller["events"], "to": larger["events"], **slopes})
    return comparisons


def _measure_one(events: int, chosen: argparse.Namespace) -> None:
    """Print the figures of one log as JSON; compiled kernels are loaded before, by a small log."""
    measured(drawn_log(2_000, 20, chosen.shape), chosen.mechanism)
    log = drawn_log(events, chosen.activities, chosen.shape)
    pairs, violating = violating_pairs(log)
    sizes = {"events": log.n_events, "cases": log.n_cases, "pairs": pairs, "violating": violating}
    if not chosen.profile:
        print(json.dumps({**sizes, **measured(log, chosen.mechanism)}))
        return
    profile = cProfile.Profile(time.process_time)
    row = profile.runcall(measured, log, chosen.mechanism)
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    print(json.dumps({**sizes, **row}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", default="20000,40000,80000", help="sizes of the logs, by comma")
    parser.add_argument("--activities", type=int, default=1_000)
    parser.add_argument("--shape", choices=["zipf", "flat"], default="zipf")
    parser.add_argument("--mechanism", choices=["cohorts", "tlkc"], default="cohorts")
    parser.add_argument("--profile", action="store_true", help="profile the largest log")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.measure is not None:
        _measure_one(chosen.measure, chosen)
        return
    sizes = sorted({int(text) for text in chosen.events.split(",")})
    rows = []
    for events in sizes:
        command = [sys.executable, "-m", "benchmarks.many_activities", "--measure", str(events)]
        command += ["--activities", str(chosen.activities), "--shape", chosen.shape, "--mechanism", chosen.mechanism]
        if chosen.profile and events == sizes[-1]:
            command.append("--profile")
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        rows.append({**json.loads(done.stdout), "load": round(os.getloadavg()[0], 1)})
        print(rows[-1], file=sys.stderr)
    results = {
        "mechanism": chosen.mechanism,
        "shape": chosen.shape,
        "activities": chosen.activities,
        "logs": rows,
        "exponents": exponents(rows),
        "target": TARGET,
    }
    if chosen.json:
        print(json.dumps(results))
    print(results["exponents"], file=sys.stderr)


if __name__ == "__main__":
    main()
