"""Proposals of `veilstream advise` on the shared logs, and the result of replaying each proposal by itself.

Run `python -m benchmarks.advise [LOG ...] [--cases N]` (names of the shared logs; all of them without; `--cases`: only
the first N of each). JSON, one entry a log: `proposed` with `kept` and `wait` (days), `default` the same of the
default (`holds`: every cut became a release), `frontier` (name, kept, wait), `again`: releases, cuts withheld and the
least KA, FA, CA, BA of the proposal's replay, `refused`: candidates that did not hold over the series, with the first
reason; CPU `seconds`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults import BOUNDS, LOGS
from connectors import read_log
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release.gate import MEASURES, worst_anonymity
from stream.run.advise import GOALS, CandidateTrial, Goal, frontier, nearest, propose
from stream.run.presets import with_completion
from stream.run.replay import Replay


def measure(log: EventLog, sensitive: tuple[str, ...], folder: Path, goal: Goal) -> dict[str, Any]:
    """Measure one log."""
    started, K = time.process_time(), int(BOUNDS["K"])
    settings = Settings.model_validate({"process": {"name": "process", "sensitive": list(sensitive)}})
    settings = settings.model_copy(update={"process": with_completion(settings.process)})
    trials, best = propose(log, settings, K, folder / "trials", goal=goal)
    default = next(trial for trial in trials if trial.candidate.publication.name == f"cohorts-local-{K}")
    near = None if best is not None else nearest(trials, K)
    return {
        "proposed": None if best is None else shown(best),
        "nearest": None if near is None else shown(near),
        "default": {**shown(default), "holds": default.holds},
        "frontier": [shown(trial) for trial in frontier(trials)],
        "again": None if best is None else again(log, settings, best, folder / "again"),
        "refused": {
            trial.candidate.publication.name: trial.refused or next(iter(trial.reasons), "")
            for trial in trials
            if trial.series and not trial.holds
        },
        "seconds": time.process_time() - started,
    }


def shown(trial: CandidateTrial) -> dict[str, Any]:
    return {"name": trial.candidate.publication.name, "kept": trial.kept, "wait": trial.wait_days}


def again(log: EventLog, settings: Settings, best: CandidateTrial, folder: Path) -> dict[str, Any]:
    """Replay the proposal alone."""
    chosen = settings.model_copy(update={"publication": (best.candidate.publication,)})
    outcome = Replay(chosen, folder).run(log, final=True)
    audits = [decision.audit["anonymity"] or {} for _, decision in outcome.decisions if decision.status == "sealed"]
    least = {}
    for name in MEASURES:
        values = [worst_anonymity(audit, name) for audit in audits]
        least[name] = min((value for value in values if value), default=None)
    return {"releases": len(audits), "withheld": len(outcome.decisions) - len(audits), "least": least}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", choices=[[], *LOGS], help="names of shared logs")
    parser.add_argument("--cases", type=int, help="only the first N cases of each")
    parser.add_argument("--goal", choices=GOALS, default="utility")
    parser.add_argument("--json", action="store_true", help="as without: all is JSON")
    arguments = parser.parse_args()
    place = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    results = {}
    for name in arguments.logs or LOGS:
        file, sensitive = LOGS[name]
        log = read_log(place / file)
        log = log if arguments.cases is None else log.select_cases(np.arange(min(arguments.cases, log.n_cases)))
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(log, sensitive, Path(folder), arguments.goal)
    print(json.dumps({**BOUNDS, "goal": arguments.goal, "cases": arguments.cases, "logs": results}, indent=1))


if __name__ == "__main__":
    main()
