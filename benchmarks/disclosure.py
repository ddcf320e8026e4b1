"""Rate at which an assessment detects a planted leak, and at which it accuses a release that cannot leak.

The log is cut into three random parts: original, control, and a third part that is released as it is. Nothing of that
release depends on the original, so whatever is seen is a false accusation. For the planted leak, 5 % of the cases of
the original are added to it word for word. In the third kind the release is original and control together, word for
word: the control was drawn from what was released, so nothing distinguishes the two, and nobody may be accused.

`python -m benchmarks.disclosure [--runs 40] [--first-seed 1000] [--log sepsis.xes.gz] --json`; logs from
VEILSTREAM_LOGS, else from `../shared/logs` beside the checkout. Reach (semantics of disclosure): a planted leak seen
in 95 of 100 runs, a false accusation in at most 5 of 100; Sepsis in 60 CPU s, BPIC 2012 in 600.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from models.disclosure.assessment import Assessment, Attackers, assess
from models.disclosure.material import Profile, pooled
from models.eventlog import EventLog

FOLDER = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
SHARE = 20
"""One of so many cases of the original is leaked."""


def thirds(log: EventLog, rng: np.random.Generator) -> list[EventLog]:
    """Return original, control and the part that is released."""
    return [log.select_cases(np.sort(part)) for part in np.array_split(rng.permutation(log.n_cases), 3)]


def seen(assessment: Assessment) -> list[str]:
    """Return the attacks that saw a leak."""
    return [f"{measure.attack}: {measure.how}" for result in assessment.results for measure in result.seen]


def main() -> None:
    """Print the shares as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="sepsis.xes.gz")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=1000, help="of the first division; the next ones follow")
    parser.add_argument("--json", action="store_true", help="accepted for all benchmarks; the output is JSON")
    arguments = parser.parse_args()
    log = read_log(FOLDER / arguments.log)
    default = Profile(name="default")
    profiles = [default, default.stronger(())]
    kinds = ("independent", "planted", "control_was_released")
    counted: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    runs_with: Counter[str] = Counter()
    seconds: list[float] = []
    for run in range(arguments.runs):
        rng = np.random.default_rng(arguments.first_seed + run)
        original, control, released = thirds(log, rng)
        leaked = rng.choice(original.n_cases, size=original.n_cases // SHARE, replace=False)
        planted = pooled([released, original.select_cases(np.sort(leaked))])
        everybody = pooled([original, control])
        for kind, release in zip(kinds, (released, planted, everybody), strict=True):
            begin = time.process_time()
            attacks = seen(assess(original, release, control, Attackers(profiles, seed=run)))
            seconds.append(time.process_time() - begin)
            counted[kind].update(set(attacks))
            runs_with[kind] += bool(attacks)
    result: dict[str, Any] = {
        "log": arguments.log,
        "cases_each": log.n_cases // 3,
        "runs": arguments.runs,
        "first_seed": arguments.first_seed,
        "accused": runs_with["independent"],
        "planted_seen": runs_with["planted"],
        "accused_where_the_control_was_released": runs_with["control_was_released"],
        "by_attack": {kind: dict(counter.most_common()) for kind, counter in counted.items()},
        "cpu_seconds_each": float(np.median(seconds)),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
