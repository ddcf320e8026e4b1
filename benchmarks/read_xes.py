"""CPU time and memory of the XES reader against pm4py's fastest pure-Python variant and r4pm, in one run.

`python -m benchmarks.read_xes [--json] [LOG ...]`. Each reading is a process of its own: its CPU seconds from open to
result (imports excluded, least of `--repeat` runs, the two readers in turn) and the growth of its peak resident memory.
`iterator_mib` is that growth for `iter_traces` run to the end: it should not grow with the log. r4pm runs in the
interpreter VEILSTREAM_FIELD_PYTHON (extra `field`), else in this one; its figures are null where it is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOGS = ("bpic2012", "bpic2013-incidents", "bpic2012-app", "sepsis")

_MEASURE = """
import json, resource, sys, time
path = sys.argv[1]
{setup}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.process_time()
result = {read}
seconds = time.process_time() - started
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("RESULT " + json.dumps([seconds, grown / 1024]))
"""
_PM4PY = """
import contextlib, io, warnings
warnings.simplefilter("ignore")
with contextlib.redirect_stdout(io.StringIO()):
    import pm4py
    from pm4py.objects.log.importer.xes import importer
quiet = {{"show_progress_bar": False}}
"""
_VARIANT = "importer.apply(path, variant=importer.Variants.{name}, parameters=quiet)"
READERS = {
    "veilstream": ("from connectors import xes; from pathlib import Path", "xes.read(Path(path))"),
    "iterator": (
        "from tests.oracles.xes import iter_traces; from pathlib import Path",
        "sum(len(trace.events) for trace in iter_traces(Path(path)))",
    ),
    "pm4py line_by_line": (_PM4PY, _VARIANT.format(name="LINE_BY_LINE")),
    "pm4py iterparse": (_PM4PY, _VARIANT.format(name="ITERPARSE")),
    "pm4py chunk_regex": (_PM4PY, _VARIANT.format(name="CHUNK_REGEX")),
    "r4pm": ("from r4pm import df", "df.import_xes(path)"),
}
"""The statements that prepare each reader, and the expression that reads."""


FAILED = (float("inf"), 0.0)
"""Figures of a reader that fails; they are printed as null. pm4py's chunk_regex cannot read every public log."""


def measure(reader: str, log: Path) -> tuple[float, float]:
    """Return CPU seconds and MiB of one reading in a fresh process."""
    setup, read = READERS[reader]
    program = _MEASURE.format(setup=setup.replace("{{", "{").replace("}}", "}"), read=read)
    python = os.environ.get("VEILSTREAM_FIELD_PYTHON", sys.executable) if reader == "r4pm" else sys.executable
    done = subprocess.run(
        [python, "-c", program, str(log)],
        capture_output=True,
        text=True,
        check=reader == "veilstream",
        cwd=ROOT,
    )
    if done.returncode:
        return FAILED
    seconds, grown = json.loads(done.stdout.rpartition("RESULT ")[2])
    return seconds, grown


def compare(log: Path, repeat: int) -> dict[str, Any]:
    """Measure all readers on one log."""
    runs = {reader: [measure(reader, log)] for reader in READERS}
    for _ in range(repeat - 1):
        for reader, results in runs.items():
            results.append(measure(reader, log))
    seconds = {reader: min(run[0] for run in results) for reader, results in runs.items()}
    memory = {reader: max(run[1] for run in results) for reader, results in runs.items()}
    fastest = min((reader for reader in seconds if reader.startswith("pm4py")), key=seconds.__getitem__)
    return {
        "log": log.name,
        "cpu_seconds": {reader: None if value == FAILED[0] else round(value, 3) for reader, value in seconds.items()},
        "fastest_pm4py": fastest,
        "ratio": round(seconds["veilstream"] / seconds[fastest], 3),
        "ratio_to_r4pm": None if seconds["r4pm"] == FAILED[0] else round(seconds["veilstream"] / seconds["r4pm"], 3),
        "memory_mib": {reader: round(value, 1) for reader, value in memory.items()},
        "iterator_mib": round(memory["iterator"], 1),
    }


def chosen_logs(paths: list[Path]) -> list[Path]:
    """Return the named logs; without names the public logs that exist, or else the bundled sample."""
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    public = [folder / f"{name}.xes.gz" for name in LOGS]
    return paths or [path for path in public if path.exists()] or [ROOT / "examples" / "hospital.xes.gz"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("logs", nargs="*", type=Path)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--repeat", type=int, default=2)
    chosen = arguments.parse_args()
    results = [compare(log, chosen.repeat) for log in chosen_logs(chosen.logs)]
    report = {"benchmark": "read_xes", "target_ratio": 0.9, "target_ratio_to_r4pm": 1.1, "results": results}
    if chosen.json:
        print(json.dumps(report, indent=2))
        return
    for result in results:
        print(f"{result['log']}: {result['ratio']} x {result['fastest_pm4py']}, CPU s {result['cpu_seconds']}")


if __name__ == "__main__":
    main()
