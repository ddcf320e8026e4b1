"""A series that shows everything again, built and audited by an engine: memory and CPU seconds of each stage.

`python -m benchmarks.engine_releases [--times 4,16] [--engine duckdb] [--memory 1GB] [--mechanism tlkc|identity]
[--json]`. The log is that of benchmarks.scale (BPIC 2012 grown; k = 64 has 16.8 million events), replayed with all
audits in a process of its own: a cut when half of the cases have begun, and one of all cases at the end. `heap` is
what only this process can free: anonymous memory, looked at 50 times a second. `resident` also counts pages of files,
which the system takes back when it needs them. Of each stage the larger figure of the two releases is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.scale import ROOT, grown, settings
from connectors import parquet
from connectors.logs import read_log
from stream.engine import building
from stream.fold.cutting import Cutter
from stream.release import audits, pipeline, public_files
from stream.run.replay import Replay
from stream.run.service import ReleaseService
from stream.values.memory import give_back

STAGES: list[tuple[Any, str, str]] = [
    (Cutter, "exposed", "cut"),
    (building, "write_cases", "cases to the engine"),
    (building, "counted", "count"),
    (building, "built_on", "plan"),
    (building, "_rows", "assign"),
    (building, "applied", "released log"),
    (public_files, "shuffled", "shuffle"),
    (public_files, "faults", "read back"),
    (pipeline.Pipeline, "_write_operator_files", "operator's files"),
    (ReleaseService, "checkpoint", "checkpoint"),
]
"""Owner and name of the function of each stage."""

TARGET = {"events": 50_000_000, "resident_mb": 4096}


class Watch:
    """The most memory of the process in each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}
        self._running: list[str] = ["fold"]
        threading.Thread(target=self._look, daemon=True).start()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Attribute memory and CPU seconds to a stage."""
        self._note()
        self._running.append(name)
        began = time.process_time()
        try:
            yield
        finally:
            self._note()
            self._running.pop()
            cpu = self.stages[name].get("cpu", 0) + time.process_time() - began
            self.stages[name]["cpu"] = round(cpu, 1)

    def _look(self) -> None:
        while True:
            self._note()
            time.sleep(0.02)

    def _note(self) -> None:
        figures = self.stages.setdefault(self._running[-1], {})
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                for field, name in (("RssAnon:", "heap_mb"), ("VmRSS:", "resident_mb")):
                    if line.startswith(field):
                        figures[name] = max(figures.get(name, 0), int(line.split()[1]) >> 10)


def watched(watch: Watch, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as a stage."""

    @wraps(function)
    def in_stage(*arguments: Any, **named: Any) -> Any:
        with watch.stage(name):
            return function(*arguments, **named)

    return in_stage


def measured(path: Path, mechanism: str, engine: str, memory: str | None) -> dict[str, Any]:
    """Return the figures of one replay; this process does nothing else."""
    give_back()
    watch = Watch()
    for owner, name, stage in STAGES:
        setattr(owner, name, watched(watch, stage, getattr(owner, name)))
    for name, kind in audits.kinds().items():
        kind.measure = watched(watch, f"audit {name}", kind.measure)  # type: ignore[method-assign]
    with watch.stage("read"):
        only_reference = [read_log(path)]  # popped below, so that the replay can free the log, as in the command
    events, cases = only_reference[0].n_events, only_reference[0].n_cases
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        output = Path(folder) / "out"
        replay = Replay(settings(mechanism, cases), output, built_by=building.builder(engine, output, memory))
        outcome = replay.run(only_reference.pop(), final=True)
    stages = {name: figures for name, figures in watch.stages.items() if figures.get("cpu", 1) or name == "fold"}
    return {
        "events": events,
        "cases": cases,
        "mechanism": mechanism,
        "engine": engine,
        "memory": memory,
        "statuses": [decision.status for _, decision in outcome.decisions],
        "released": [decision.audit.get("counts", {}).get("released") for _, decision in outcome.decisions],
        "cpu": round(time.process_time(), 1),
        "heap_mb": max(figures["heap_mb"] for figures in stages.values()),
        "resident_mb": max(figures["resident_mb"] for figures in stages.values()),
        "stages": stages,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", default="4", help="how many times the log, by comma")
    parser.add_argument("--engine", default="duckdb", choices=["embedded", "duckdb", "spark"])
    parser.add_argument("--memory", default="1GB", help="of the engine")
    parser.add_argument("--mechanism", choices=["tlkc", "identity"], default="tlkc")
    parser.add_argument("--folder", type=Path, help="folder of the grown logs and of the releases (on disk)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    memory = None if chosen.engine == "embedded" else chosen.memory
    if chosen.measure is not None:
        print(json.dumps(measured(chosen.measure, chosen.mechanism, chosen.engine, memory)))
        return
    logs = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    source, rows = read_log(logs / "bpic2012.xes.gz"), []
    for times in sorted({int(text) for text in chosen.times.split(",")}):
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            path = Path(folder) / "grown.parquet"
            parquet.write(grown(source, times), path)
            words = [sys.executable, "-m", "benchmarks.engine_releases", "--measure", str(path)]
            words += ["--mechanism", chosen.mechanism, "--engine", chosen.engine, "--memory", chosen.memory]
            done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        rows.append({"k": times, **json.loads(done.stdout)})
        row = rows[-1]
        sizes = f"heap {row['heap_mb']} MB, resident {row['resident_mb']} MB"
        print(f"k = {times}: {row['events']} events, {row['cpu']} CPU s, {sizes}", file=sys.stderr)
    if chosen.json:
        print(json.dumps({"runs": rows, "target": TARGET}))


if __name__ == "__main__":
    main()
