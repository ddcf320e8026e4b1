"""An output folder after years of releases: its size, and how long start-up and the commands that read it take.

`python -m benchmarks.years [--releases 10000] [--folder DIR] [--json]`. Half of the releases are of a publication by
TLKC (audited against the last one), half of one by differential privacy with its leakage, of a log of 60 cases. The
first of each is built and audited; the others are the same build again, through the rest of the pipeline as it is:
charge, manifest, files, fsync, seal, rename, publication, and what shortens old audits. Only drawing, measuring and
reading back are left out, which leave nothing in the folder.

The targets are issue 26's, for 10,000 releases: start-up and each command below 10 s, and the operator's folder below
1 MB for 100 releases, beyond the files that a release itself has there (`audit.json`, `variants.parquet`,
`memory.json`); `operator_kb_a_release` counts these too. Wall time is how long a person waits; on a loaded machine
use `cpu`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release import public_files
from stream.release.contract import Attempt, Exposure
from stream.release.pipeline import Pipeline
from stream.release.schedule import RealClock, Slot
from stream.release.stages import Audited, Built, Charged
from stream.run.service import ProcessContext, ReleaseService

ROOT = Path(__file__).resolve().parent.parent
SECONDS, KB = 10.0, 10.0
HOUR = 3_600_000_000_000
COMMANDS = {
    "releases": ("releases", "{}", "--json"),
    "report": ("report", "{}", "-o", "{}.html"),
    "verify": ("verify", "{}", "--json"),
}


def settings() -> Settings:
    """Return settings of a publication by TLKC and one by differential privacy, with their default measures."""
    return Settings.model_validate(
        {
            "process": {"name": "years"},
            "publication": [
                {
                    "name": "research",
                    "window": {"manual": True},
                    "mechanism": {"kind": "tlkc", "L": 2, "K": 20, "C": 1.0},
                    "audit": {
                        "bk_length": 2,
                        "n": [0, 1],
                        "against": "last",
                        "series": False,
                        "risk": False,
                        "utility": False,
                    },  # what looks at all grows with all
                    "gate": {"min_ka": 20, "on_violation": "warn"},
                },
                {
                    "name": "statistics",
                    "window": {"manual": True},
                    "mechanism": {"kind": "dp-variants", "epsilon": 0.01, "delta_dp": 1e-6},
                    "gate": {"public_cut": True, "max_epsilon": 1000.0, "max_tpl": 1000.0},
                    "audit": {"risk": False, "utility": False},
                },
            ],
        }
    )


def log() -> EventLog:
    """Return a log of cases with five events each, of six variants."""
    kinds = ["abcde", "abdce", "abcce", "acbde", "abcdd", "accde"]
    return EventLog.from_traces([(tuple(kinds[number % 6]), None) for number in range(60)])


def release(service: ReleaseService, exposed: EventLog, number: int) -> None:
    """Decide one cut of each publication in turn."""
    name = ("research", "statistics")[number % 2]
    exposure = Exposure(exposed, np.ones(exposed.n_cases, dtype=np.bool_), (), number * HOUR)
    counts = {"seen": len(exposed.time), "pending": 0, "late": 0, "new_cases": 0, "new_events": 0}
    cut = Attempt(f"{name}/{number}/0/0", "manual", number * HOUR, exposure, counts)
    decision = service.pipelines[name].attempt(cut)
    assert decision.status == "sealed", decision.because


def sizes(output: Path) -> dict[str, float]:
    """Return the megabytes of the operator's folder by kind of file, and of the releases."""
    totals: Counter[str] = Counter()
    for path in output.rglob("*"):
        if path.is_file():
            inside = path.relative_to(output).parts
            if inside[0] == "public":
                kind = "public"
            elif inside[0] == "operator" and len(inside) == 4:  # a file of one release
                kind = path.name
            else:
                kind = "beside"
            totals[kind] += path.stat().st_size
    return {name: round(size / 1e6, 3) for name, size in sorted(totals.items())}


def timed(output: Path, arguments: tuple[str, ...]) -> dict[str, float]:
    """Return seconds, CPU seconds and megabytes of a command in a separate process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [word.format(output) for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "stream.commands", *words], check=False, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, words
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(wall, 2), "cpu": round(cpu, 2)}


def start(output: Path) -> dict[str, float]:
    """Open the folder as a run does: ledger, recovery, earlier releases."""
    began, cpu = time.monotonic(), time.process_time()
    ReleaseService(settings(), output).close()
    return {"seconds": round(time.monotonic() - began, 2), "cpu": round(time.process_time() - cpu, 2)}


def again(pipeline: Pipeline) -> None:
    """Let a pipeline that has built and audited once give the same build to each later cut, with lists that grow."""
    builder, auditor = pipeline._build, pipeline._audit
    first: dict[str, Any] = {}

    def build(charged: Charged) -> Built:
        if "built" not in first:
            first["built"] = builder(charged)
        return replace(first["built"], charged=charged)

    def audit(built: Built) -> Audited:
        if "audited" not in first:
            first["audited"] = auditor(built)
        audited, number = first["audited"], built.charged.inputs.number
        leakage = dict(audited.measures.get("leakage") or {})
        if "epsilon" in leakage:
            leakage["epsilon"] = leakage["epsilon"][:1] * number
        record = copy.copy(audited.record)
        record.sequence = number
        return replace(audited, built=built, record=record, measures={**audited.measures, "leakage": leakage})

    pipeline._build, pipeline._audit = build, audit  # type: ignore[method-assign]


def made(releases: int, output: Path) -> list[float]:
    """Make the releases, and return the CPU seconds of each."""
    service = ReleaseService(settings(), output, context=ProcessContext(clock=Now()))
    exposed = log()
    spent: list[float] = []
    for pipeline in service.pipelines.values():
        again(pipeline)
    read_back = public_files.faults
    try:
        for number in range(releases):
            began = time.process_time()
            release(service, exposed, number)
            spent.append(time.process_time() - began)
            public_files.faults = lambda *_: []  # type: ignore[assignment]
    finally:
        public_files.faults = read_back
        service.close()
    return spent


class Now(RealClock):
    """A clock for which no release waits for its moment."""

    def slot(self, cut: int | None, delay: int) -> Slot:
        return None  # type: ignore[return-value]


def measure(releases: int, output: Path) -> dict[str, Any]:
    """Make the releases if there are none, then measure the folder."""
    spent = [] if output.exists() else made(releases, output)
    file_sizes = sizes(output)
    tenth = max(1, releases // 10)
    operator_bytes = sum(file_sizes.get(name, 0) for name in ("audit.json", "variants.parquet", "memory.json"))
    cpu_of_tenths = {"first": sum(spent[:tenth]), "last": sum(spent[-tenth:])}
    result = {
        "benchmark": "years",
        "releases": releases,
        "load": round(os.getloadavg()[0], 1),
        "cpu_a_release": {name: round(seconds / tenth, 4) for name, seconds in cpu_of_tenths.items()},
        "megabytes": file_sizes,
        "beside_kb_a_release": round(1000 * file_sizes.get("beside", 0) / releases, 2),
        "operator_kb_a_release": round(1000 * (file_sizes.get("beside", 0) + operator_bytes) / releases, 2),
        "start": start(output),
        **{name: timed(output, arguments) for name, arguments in COMMANDS.items()},
    }
    result["within"] = bool(
        result["beside_kb_a_release"] < KB and all(result[name]["seconds"] < SECONDS for name in ("start", *COMMANDS))
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="keep it here; what a run before has made here is measured")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as opened:
        folder = arguments.folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        result = measure(arguments.releases, folder / "out")
    print(json.dumps(result, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
