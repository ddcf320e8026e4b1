"""Measure `veilstream replay` of whole public logs without a configuration: cuts by completed cases, cohorts with
TLKC-privacy, and every audit.

`python -m benchmarks.replay [--json]`. Each replay is a process of its own, from the log file to sealed releases:
wall and CPU seconds, releases, how many events were released, suppressed or are pending, and the seconds of each
audit over all releases. It ends with an error if an event is not accounted for. pm4py reads the last release back
(`iterparse`, warnings as errors) and mines it, outside the time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOGS: dict[str, list[str]] = {"sepsis": ["--sensitive", "Diagnose"], "bpic2012": []}
"""Log -> arguments."""
TARGET = {"bpic2012": {"wall": 60.0}}


def measure(log: Path, arguments: list[str], *, mine: bool = True) -> dict[str, Any]:
    """Measure one replay into a separate folder; `mine`: pm4py mines the last release as well."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        command = [sys.executable, "-m", "stream.commands", "replay", str(log), "-o", str(output), "--json", *arguments]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        report = json.loads(done.stdout)
        audits = [json.loads(path.read_bytes()) for path in sorted(output.glob("operator/*/[0-9]*/audit.json"))]
        for audit in audits:
            accounted(audit["counts"])
        seconds: Counter[str] = Counter()
        for audit in audits:
            seconds.update(audit["seconds"])
        return {
            "wall": round(wall, 1),
            "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
            "releases": len(report["releases"]),
            "released": audits[-1]["counts"]["released"],
            "tail": {name: report["tail"][name] for name in ("released", "suppressed", "pending", "late")},
            "true_linker": [
                {name: pair[name] for name in ("earlier", "fa", "ca", "ba")}
                for pair in audits[-1]["anonymity"]["true_linker"]
            ],
            "stages": {name: round(spent, 1) for name, spent in seconds.items()},
            "read_by_pm4py": read_back(max(output.glob("public/*/release-*/log.xes.gz")), mine),
        }


def accounted(counts: dict[str, int]) -> None:
    """Return whether every event of the log was released or suppressed, is pending, or came too late."""
    parts = sum(counts[name] for name in ("released", "suppressed_events", "pending", "late"))
    if counts["seen"] != parts:
        raise SystemExit(f"{counts['seen']} events were seen, {parts} are accounted for")


def read_back(path: Path, mine: bool) -> dict[str, int | str]:
    """Return the view of pm4py on a release: its events, variants and directly-follows pairs, and the tree that it
    mines.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pm4py
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pm4py.read_xes(str(path), variant="iterparse")
    made: dict[str, int | str] = {
        "events": len(frame),
        "variants": len(pm4py.get_variants(frame)),
        "directly_follows": len(pm4py.discover_dfg(frame)[0]),
    }
    if mine:
        made["tree"] = str(pm4py.discover_process_tree_inductive(frame))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    results = {
        name: measure(folder / f"{name}.xes.gz", arguments) | {"target": TARGET.get(name)}
        for name, arguments in LOGS.items()
        if (folder / f"{name}.xes.gz").exists()
    }
    if chosen.json:
        print(json.dumps(results))
    for name, result in results.items():
        print(f"{name}: {result['releases']} releases, {result['wall']} s wall, {result['cpu']} CPU s", file=sys.stderr)


if __name__ == "__main__":
    main()
