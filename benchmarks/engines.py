"""One release of a log grown k times, by each engine: CPU and wall seconds, and the peak of memory.

`python -m benchmarks.engines [--times 1,4] [--engines embedded,duckdb,spark] [--memory 1GB] [--json]`. The log is that
of benchmarks.scale (BPIC 2012 grown; k = 64 has 16.8 million events); the release is `anonymize --mechanism tlkc
--suppression exact --K 20 --L 2`. Each run is a process of its own, its descendants count too (the JVM of spark); the
peak is that of the largest of them.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.scale import ROOT, grown
from connectors import parquet
from connectors.logs import read_log

PR_SET_CHILD_SUBREAPER = 36
"""Of Linux: what a command leaves running becomes our child, so that its time counts."""

TARGET = {"k": 64, "engine": "duckdb", "cpu": 60, "peak_mb": 2048}


def measured(log: Path, engine: str, memory: str, out: Path) -> dict[str, Any]:
    """Return the cost of one run; children that have ended are counted."""
    words = [sys.executable, "-m", "stream.commands", "anonymize", str(log), "-o", str(out), "--engine", engine]
    words += ["--mechanism", "tlkc", "--suppression", "exact", "--K", "20", "--L", "2", "--json"]
    words += ["--memory", memory] if engine != "embedded" else []
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after, result = resource.getrusage(resource.RUSAGE_CHILDREN), json.loads(done.stdout)
    return {
        "engine": engine,
        "events": result["events"],
        "variants": result["variants"],
        "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "wall": round(time.monotonic() - begin, 1),
        "mechanism": round(result["seconds"], 1),
        "peak_mb": after.ru_maxrss >> 10,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure each k and engine in a separate process, so that peaks are separate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", default="1,4")
    parser.add_argument("--engines", default="embedded,duckdb")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(measured(Path(chosen.one[0]), chosen.one[1], chosen.memory, Path(chosen.one[2]))))
        return
    logs = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    source, rows = read_log(logs / "bpic2012.xes.gz"), []
    for times in sorted({int(text) for text in chosen.times.split(",")}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "grown.parquet"
            parquet.write(grown(source, times), path)
            for engine in chosen.engines.split(","):
                words = [sys.executable, "-m", "benchmarks.engines", "--memory", chosen.memory]
                words += ["--one", str(path), engine, str(Path(folder) / engine)]
                done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
                rows.append({"k": times, **json.loads(done.stdout)})
                print(rows[-1], file=sys.stderr)
    if chosen.json:
        print(json.dumps({"runs": rows, "target": TARGET}))


if __name__ == "__main__":
    main()
