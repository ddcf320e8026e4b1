"""Cost of reading every release back before its seal and of checking the promise on its bytes.

`python -m benchmarks.read_back [--json]`. Ten audited releases of whole public logs by the default of `veilstream
replay` (tlkc) and by cohorts, once for each format; `share` is the time of reading and checking as a part of the whole
release (build, audits, files, read_back), all of one run. Reach: a tenth. Above that it ends with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from connectors import read_log
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.run.replay import Replay

ROOT = Path(__file__).resolve().parent.parent
LOGS: dict[str, tuple[str, ...]] = {"sepsis": ("Diagnose",), "bpic2012": ()}
FORMATS = ("xes", "csv", "parquet")
MECHANISMS: dict[str, dict[str, Any]] = {
    "tlkc": {"kind": "tlkc", "suppression": "exact"},
    "cohorts": {"kind": "tlkc-cohorts", "suppression": "local", "min_share": 0},
}
REACH = 0.1


def measure(log: EventLog, sensitive: tuple[str, ...], mechanism: dict[str, Any], format_: str) -> dict[str, Any]:
    """Return the seconds of each stage over all releases, and the share of reading back."""
    publication = {
        "name": "research",
        "window": {"new_cases": -(-log.n_cases // 10)},
        "mechanism": {"L": 2, "K": 20, "C": 0.5 if sensitive else 1.0, **mechanism},
        "audit": {"bk_length": 2, "n": [0, 1]},
        "formats": [format_],
    }
    process = {"name": "bench", "sensitive": sensitive, "completion": {"log_end": True}}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate({"process": process, "publication": [publication]})
        outcome = Replay(settings, Path(folder) / "out").run(log, final=True)
    released = [decision.audit for _, decision in outcome.decisions if decision.status == "sealed"]
    seconds: Counter[str] = Counter()
    for audit in released:
        seconds.update(audit["seconds"])
    total = sum(seconds.values())
    stages = {name: round(spent, 3) for name, spent in seconds.items()}
    return {
        "releases": len(released),
        "stages": stages,
        "share": round(seconds["read_back"] / total, 4) if total else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    results: dict[str, Any] = {}
    for name, sensitive in LOGS.items():
        path = folder / f"{name}.xes.gz"
        if not path.exists():
            continue
        log = read_log(path)
        measure(log.select_cases(log.lengths > 0), sensitive, MECHANISMS["tlkc"], "csv")  # kernels, imports
        for kind, mechanism in MECHANISMS.items():
            for format_ in FORMATS:
                results[f"{name} {kind} {format_}"] = measure(log, sensitive, mechanism, format_)
    if chosen.json:
        print(json.dumps({"reach": REACH, "results": results}))
    for name, result in results.items():
        print(f"{name}: {result['releases']} releases, {result['share']:.1%} to read back", file=sys.stderr)
    if any(result["share"] is None or result["share"] > REACH for result in results.values()):
        raise SystemExit(f"reading back takes more than {REACH:.0%} of a release")


if __name__ == "__main__":
    main()
