"""Performance maps of default releases: mean elapsed time by directly-follows pair, as published and as it is.

Run `python -m benchmarks.performance_maps [LOG ...]` (sepsis, bpic2012 without). The cuts are those of
`benchmarks.defaults`. Compared are the released steps themselves: the mean of their published times and the mean of
their true ones, for each pair that at least K released cases bear. JSON, one entry a log: `pairs`, `within` 1 % and 5 %
of the true mean at the last cut, `settled` (pairs of which nothing is pending, and how many of these are within 1 %),
`steps` (share of the steps of those pairs whose pair is within 1 %), and `off`, the others with their pending cases.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.defaults import BOUNDS, LOGS, exposures
from connectors import read_log
from models.errors import BoundError
from models.eventlog import EventLog
from stream.release.contract import Build
from stream.release.mechanisms import cohorts

Passed = dict[tuple[Any, Any], list[tuple[str, int]]]
NEAR, FAIR = 0.01, 0.05


def passed(log: EventLog) -> Passed:
    """Return (case, elapsed nanoseconds) of each directly-follows step, by pair."""
    passed: Passed = defaultdict(list)
    activity = log.activity.decode()
    for case, (a, b) in zip(log.case_ids, itertools.pairwise(log.starts.tolist()), strict=True):
        for place in range(a + 1, b):
            step = int(log.time[place] - log.time[place - 1])
            passed[activity[place - 1], activity[place]].append((case, step))
    return passed


def series(log: EventLog, sensitive: tuple[str, ...]) -> tuple[Build | None, Passed]:
    """Return the last release of the default, and the true times of every step that the cohorts released."""
    true: Passed = defaultdict(list)
    drawn = cohorts.microaggregated_after

    def watched(fresh: EventLog, *arguments: Any) -> Any:
        for pair, steps in passed(fresh).items():
            true[pair] += steps
        return drawn(fresh, *arguments)

    cohorts.microaggregated_after = watched  # the only place where a cohort still has its true times
    try:
        mechanism = cohorts.TlkcCohorts(**BOUNDS, times="microaggregated")
        memory, build = None, None
        for exposure in exposures(log, sensitive):
            try:
                build = mechanism.build(exposure, memory)
            except BoundError:
                continue
            memory = build.memory
    finally:
        cohorts.microaggregated_after = drawn
    return build, true


def compared(build: Build, true: Passed, K: int) -> dict[str, Any]:
    """Compare published with true means."""
    shown = passed(build.log)
    pending = {(source, target): cases for source, target, cases, *_ in build.memory["pending"]}
    rows = []
    for pair, steps in true.items():
        bearers, total = len({case for case, _ in steps}), sum(time for _, time in steps)
        if bearers < K or not total:
            continue
        error = sum(time for _, time in shown[pair]) / total - 1
        rows.append(
            {"pair": pair, "steps": len(steps), "cases": bearers, "pending": pending.get(pair, 0), "error": error}
        )
    settled = [row for row in rows if not row["pending"]]
    far = [row for row in rows if abs(row["error"]) > NEAR]

    def near(maps: list[dict[str, Any]], share: float) -> list[dict[str, Any]]:
        return [row for row in maps if abs(row["error"]) <= share]

    return {
        "pairs": len(rows),
        "within": {"1 %": len(near(rows, NEAR)), "5 %": len(near(rows, FAIR))},
        "settled": {"pairs": len(settled), "1 %": len(near(settled, NEAR))},
        "steps": sum(row["steps"] for row in near(rows, NEAR)) / sum(row["steps"] for row in rows),
        "off": sorted(far, key=lambda row: -abs(row["error"])),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", choices=[[], *LOGS], help="names of shared logs")
    parser.add_argument("--json", action="store_true", help="as without: all is JSON")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    results = {}
    for name in arguments.logs or ("sepsis", "bpic2012"):
        file, sensitive = LOGS[name]
        build, true = series(read_log(folder / file), sensitive)
        results[name] = None if build is None else compared(build, true, BOUNDS["K"])
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
