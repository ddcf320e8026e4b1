"""Growth of the cost with the log: BPIC 2012 grown k times, released twice, one process for each k.

`python -m benchmarks.scale [--times 1,4,16] [--mechanism tlkc|identity] [--json]`; `--times 1,4,16,64` takes the last
one as well. A grown log has k times the cases under fresh ids, arrivals spread over the same span, and traces with
swapped events so that variants grow as V(k) = V(1) k^.87, as they do from a tenth of BPIC 2012 to all of it. Printed
for each k: CPU and wall seconds of reading, of the whole replay and of each stage, the peak of memory an event,
checkpoints (the content at the end, and the bytes of all that was written), linkable pairs of record classes that
the audit listed and the CPU seconds that it took to list them; and between k and the next one the exponent of each in
events. Swapped neighbours make traces that are linkable with n = 1: the first copies bring more such pairs than the
log has of its own, which is why their number has a higher exponent from k = 1 to 4.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from connectors import parquet
from connectors.files import FileOps, Writer
from connectors.logs import read_log
from models.attacks import linkability, shared_pairs
from models.eventlog import Column, EventLog
from stream.config.settings import Settings
from stream.release.failpoints import Faults
from stream.run.replay import Replay
from stream.values.memory import give_back

ROOT = Path(__file__).resolve().parent.parent
GROWTH = 0.87
"""Exponent of the number of variants in the number of cases."""
TARGET = {"cpu": 1.15, "checkpoint_bytes": 1.0, "checkpoint_written": 1.0, "peak_bytes_an_event": 250}
"""Exponents in events, and bytes."""


class Counted(FileOps):
    """Counts the bytes written to checkpoints."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, path: Path, writer: Writer) -> None:
        before = path.stat().st_size if path.suffix == ".changes" and path.exists() else 0
        super().write(path, writer)
        self.written += path.stat().st_size - before if path.parent.name == "checkpoints" else 0


class Listed:
    """Counts the linkable pairs that are listed between two releases, and the CPU seconds that this takes."""

    def __init__(self) -> None:
        self.pairs, self.cpu, self._edges = 0, 0.0, linkability.edges

    def __call__(self, *arguments: Any) -> Any:
        began = time.process_time()
        edges = self._edges(*arguments)
        self.cpu += time.process_time() - began
        self.pairs += edges.n_links
        return edges


def grown(log: EventLog, times: int, seed: int = 0) -> EventLog:
    """Return a log that is `times` as large.

    The copies have fresh case ids, shifted arrivals, and mutated traces for the variants that a larger log would have.
    """
    rng = np.random.default_rng(seed)
    start = log.time[log.starts[:-1]]
    span = int(log.time.max() - log.time.min())
    variants = _variants(log)
    n_variants = len(variants)
    codes, moments = [log.activity.codes], [log.time]
    for copy in range(2, times + 1):
        copied_codes = log.activity.codes.copy()
        _mutate(copied_codes, log, variants, round(n_variants * copy**GROWTH), rng)
        codes.append(copied_codes)
        arrival = log.time.min() + rng.integers(0, span, log.n_cases)
        moments.append(log.time + np.repeat(arrival - start, log.lengths))
    starts_of_copies = [log.starts[:-1] + copy * log.n_events for copy in range(times)]
    starts = np.concatenate([*starts_of_copies, [times * log.n_events]])
    return EventLog(
        case_ids=tuple(f"{copy}-{case}" for copy in range(times) for case in log.case_ids),
        starts=starts.astype(np.int64),
        activity=Column(np.concatenate(codes), log.activity.values),
        time=np.concatenate(moments),
        resource=Column(np.tile(log.resource.codes, times), log.resource.values),
        row=np.arange(times * log.n_events, dtype=np.int64),
    )


def _variants(log: EventLog) -> set[bytes]:
    """Return the activity codes of each variant of a log."""
    codes = log.activity.codes
    return {codes[begin:end].tobytes() for begin, end in pairwise(log.starts.tolist())}


def _mutate(codes: Any, log: EventLog, variants: set[bytes], wanted: int, rng: np.random.Generator) -> None:
    """Swap neighbours in some traces, until so many variants were seen."""
    for case in rng.permutation(log.n_cases).tolist():
        begin, end = int(log.starts[case]), int(log.starts[case + 1])
        trace = codes[begin:end]
        if len(variants) >= wanted:
            return
        for _ in range(50):
            if len(trace) < 2 or trace.tobytes() not in variants:
                break
            at = int(rng.integers(0, len(trace) - 1))
            trace[at], trace[at + 1] = trace[at + 1], trace[at]
        variants.add(trace.tobytes())


def settings(mechanism: str, cases: int) -> Settings:
    """Return settings of two releases: a cut when half of the cases have begun, and one at the end."""
    kinds: dict[str, dict[str, Any]] = {
        "identity": {"kind": "identity"},
        "tlkc": {"kind": "tlkc", "knowledge": "seq", "attribute": "ac", "L": 2, "K": 20, "C": 1.0},
    }
    publication = {
        "name": "research",
        "window": {"new_cases": cases // 2 + 1},
        "mechanism": kinds[mechanism],
        "audit": {"bk_length": 2, "n": [0, 1], "against": "all"},
        "gate": {"min_ka": 1, "on_violation": "warn"},
        "formats": ["parquet"],
    }
    return Settings.model_validate({"process": {"name": "scale"}, "publication": [publication]})


def measured(path: Path, mechanism: str) -> dict[str, Any]:
    """Return the cost of one log; the peak of memory is that of this process."""
    give_back()
    began, wall = time.process_time(), time.monotonic()
    log = read_log(path)
    reading, events, cases = time.process_time() - began, log.n_events, log.n_cases
    only_reference = [log]  # popped below, so that the replay can free the log, as in the command
    del log
    read_peak = _peak()
    disk, listed = Counted(), Listed()
    shared_pairs.edges = listed
    with tempfile.TemporaryDirectory() as folder:
        outcome = Replay(settings(mechanism, cases), Path(folder) / "out", faults=Faults(ops=disk)).run(
            only_reference.pop(), final=True
        )
        checkpoints = [file.stat().st_size for file in (Path(folder) / "out").rglob("checkpoints/*") if file.is_file()]
    stages: Counter[str] = Counter()
    for _, decision in outcome.decisions:
        stages.update(decision.audit.get("seconds") or {})
    total = time.process_time() - began
    counts = [decision.audit.get("counts") or {} for _, decision in outcome.decisions]
    return {
        "events": events,
        "cases": cases,
        "releases": sum(decision.status == "sealed" for _, decision in outcome.decisions),
        "released": [count.get("released") for count in counts],
        "cpu": round(total, 1),
        "wall": round(time.monotonic() - wall, 1),
        "reading": round(reading, 1),
        "stages": {name: round(seconds, 2) for name, seconds in stages.most_common()},
        "linkable_pairs": listed.pairs,
        "listing_cpu": round(listed.cpu, 2),
        "checkpoint_bytes": sum(checkpoints),
        "checkpoint_written": disk.written,
        "read_peak_bytes_an_event": round(read_peak / events),
        "peak_bytes_an_event": round(_peak() / events),
        "peak_mb": _peak() >> 20,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the exponent of each figure in the number of events, between each log and the next."""
    comparisons = []
    for smaller, larger in pairwise(rows):
        names = ("cpu", "reading", "checkpoint_bytes", "checkpoint_written", "linkable_pairs", "listing_cpu")
        figures = {name: (smaller[name], larger[name]) for name in names}
        for stage, seconds in smaller["stages"].items():
            figures[f"stage {stage}"] = (seconds, larger["stages"].get(stage, 0))
        growth_of_events = math.log(larger["events"] / smaller["events"])
        slopes = {}
        for name, (before, after) in figures.items():
            if min(before, after) > 0.05:  # below, rounding decides
                slopes[name] = round(math.log(after / before) / growth_of_events, 2)
        comparisons.append({"from": smaller["k"], "to": larger["k"], **slopes})
    return comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="another log than BPIC 2012")
    parser.add_argument("--times", default="1,4,16", help="how many times the log, by comma")
    parser.add_argument("--mechanism", choices=["tlkc", "identity"], default="tlkc")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.measure is not None:
        print(json.dumps(measured(chosen.measure, chosen.mechanism)))
        return
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    source = read_log(chosen.log or folder / "bpic2012.xes.gz")
    rows = []
    for times in sorted({int(text) for text in chosen.times.split(",")}):
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "grown.parquet"
            log = grown(source, times)
            variants = len(_variants(log))
            parquet.write(log, path)
            del log
            command = [sys.executable, "-m", "benchmarks.scale", "--measure", str(path)]
            command += ["--mechanism", chosen.mechanism]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        row = {"k": times, "variants": variants, **json.loads(done.stdout), "load": round(os.getloadavg()[0], 1)}
        rows.append(row)
        print(
            f"k = {times}: {row['events']} events, {variants} variants, {row['cpu']} CPU s, {row['peak_mb']} MB",
            file=sys.stderr,
        )
    results = {"mechanism": chosen.mechanism, "logs": rows, "exponents": exponents(rows), "target": TARGET}
    if chosen.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
