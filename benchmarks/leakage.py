"""Temporal leakage: the 24 runs of the paper, coarser states, and a long mixing chain.

Run `python -m benchmarks.leakage --json`. CPU seconds after reading; the logs are those of the log folder
(VEILSTREAM_LOGS). Reach (DESIGN section 7): any paper log, 5 releases, all windows <= 1 s; issue: 24 runs <= 30 s,
1,000 releases of a mixing chain under 40,000 evaluations of the step.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from models.eventlog import EventLog
from models.leakage.accumulation import TemporalLeakage
from models.leakage.experiment import SimulationSettings, run
from models.leakage.states import StateFunction
from models.leakage.steps import LeakageStep

LOGS = ("sepsis", "bpic2012-app", "bpic2013-incidents")
LARGER = "bpic2012"
WINDOWS = (1, 2, 3, 4)
SCENARIOS = ("certain", "uncertain")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.parse_args()
    print(json.dumps(measure(), indent=2))


def measure() -> dict[str, Any]:
    """All figures."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("VEILSTREAM_LOGS", root.parent / "shared" / "logs"))
    logs = {name: read_log(folder / f"{name}.xes.gz") for name in (*LOGS, LARGER)}
    papers = {name: {scenario: windows(logs[name], scenario, "prefix") for scenario in SCENARIOS} for name in LOGS}
    return {
        "definition": papers,
        "24 runs, CPU s": sum(entry["cpu"] for log in papers.values() for entry in log.values()),
        "bpic2012": {scenario: windows(logs[LARGER], scenario, "prefix") for scenario in SCENARIOS},
        "last": {name: {scenario: windows(logs[name], scenario, "last") for scenario in SCENARIOS} for name in LOGS},
        "mixing chain": mixing_chain(1000),
    }


def windows(log: EventLog, scenario: Any, states: str) -> dict[str, Any]:
    """Five releases at every window: CPU seconds and the largest TPL of each window."""
    function = StateFunction.parse(states)
    each = [SimulationSettings(scenario=scenario, window=x, states=function) for x in WINDOWS]
    outcomes, seconds = cpu(lambda: [run(log, settings) for settings in each])
    return {
        "cpu": seconds,
        "max_tpl": [float(outcome.max_tpl()) for outcome in outcomes],
        "sum_epsilon": [float(sum(outcome.epsilon)) for outcome in outcomes],
    }


def mixing_chain(releases: int) -> dict[str, Any]:
    """Own random correlations at every step."""
    rng = np.random.default_rng(3)
    steps = [LeakageStep(rows=rng.dirichlet(np.full(4, 3.0), size=4)) for _ in range(2 * releases)]
    leakage = TemporalLeakage()

    def series() -> None:
        for i in range(releases):
            leakage.release(Fraction(1, 10), steps[2 * i], steps[2 * i + 1])

    _, seconds = cpu(series)
    every = releases * (releases - 1) // 2
    return {"cpu": seconds, "evaluations": leakage.evaluations, "evaluations without stopping": every}


def cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result and CPU seconds (the machine has other work)."""
    started = time.process_time()
    result = work()
    return result, round(time.process_time() - started, 3)


if __name__ == "__main__":
    main()
