"""Speed as ratios of two things measured in turn, in one run, each with the bound that it should keep.

`python -m benchmarks.ratios [--json]`; exit code 1 if a bound is broken. These are not tests, since on a
loaded machine a ratio of times depends more on the load than on the program. The figures themselves are in the other
benchmarks.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import fold as fold_benchmark
from connectors import read_log, xes
from stream.fold.records import Delta
from stream.run.log_source import records_from_log

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "examples" / "hospital.xes.gz"
ROUNDS = 4

READER, FOLD, HELP = 0.9, 8.0, 25.0
"""The reader against pm4py's faster variant; the fold, decoding included, against decoding; `--help` against a bare
interpreter."""


def main() -> None:
    """Measure, print, and exit with 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.parse_args()
    results = {
        "xes_reader_to_pm4py": {"ratio": _reader(), "bound": READER},
        "fold_to_bare_decoding": {"ratio": _fold(), "bound": FOLD},
        "help_to_bare_python": {"ratio": _help(), "bound": HELP},
    }
    print(json.dumps({"benchmark": "ratios", "results": results}, indent=2))
    broken = [
        name for name, result in results.items() if result["ratio"] is not None and result["ratio"] > result["bound"]
    ]
    sys.exit(f"above its bound: {', '.join(broken)}" if broken else 0)


def least(*works: Callable[[], object], clock: Callable[[], float] = time.process_time) -> list[float]:
    """Return the least CPU seconds of each over several rounds in turn: other work on the machine only adds to them."""
    least_seconds = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            gc.collect()
            begin = clock()
            work()
            least_seconds[place] = min(least_seconds[place], clock() - begin)
    return least_seconds


def _reader() -> float | None:
    """Compare reading Sepsis with the faster of pm4py's fastest variants; None without the public logs."""
    log = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs")) / "sepsis.xes.gz"
    if not log.exists():
        return None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from pm4py.objects.log.importer.xes import importer

        quiet: dict[str, Any] = {"show_progress_bar": False}
        ours, *theirs = least(
            lambda: xes.read(log),
            lambda: importer.apply(str(log), variant=importer.Variants.LINE_BY_LINE, parameters=quiet),
            lambda: importer.apply(str(log), variant=importer.Variants.CHUNK_REGEX, parameters=quiet),
        )
    return round(ours / min(theirs), 3)


def _fold() -> float:
    """Compare the fold of ten samples in a row with the decoding of the same bytes by msgspec."""
    log = read_log(SAMPLE)
    (_, record), *_ = records_from_log(log, pseudonym=fold_benchmark.name, batch=log.n_events)
    span = record.rows[-1][3] - record.rows[0][3] + 1
    rows = [
        (offset + copy * log.n_events, f"{copy}{case[1:]}", activity, time_ns + copy * span, *remaining)
        for copy in range(10)
        for offset, case, activity, time_ns, *remaining in record.rows
    ]
    blobs = [
        (
            begin,
            msgspec.json.encode(
                Delta(src="log", p=0, prev=begin - 1, last=begin + len(part) - 1, n=len(part), rows=part)
            ),
        )
        for begin in range(0, len(rows), 2000)
        for part in [rows[begin : begin + 2000]]
    ]
    rules, decoder = fold_benchmark.rules_of(log.n_cases), msgspec.json.Decoder(Delta)
    total, decoding = least(
        lambda: fold_benchmark.fold_all(rules, blobs), lambda: fold_benchmark.decode_all(decoder, blobs)
    )
    return round(total / decoding, 3)


def _help() -> float:
    """Return the cost of `veilstream --help`, and that of an interpreter that does nothing."""

    def children() -> float:
        times = os.times()
        return times.children_user + times.children_system

    def run(program: str) -> Callable[[], object]:
        command = [sys.executable, "-c", program]
        return lambda: subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT, check=True)

    help_seconds, bare = least(run("from stream.commands import execute; execute(['--help'])"), run(""), clock=children)
    return round(help_seconds / max(bare, 0.01), 3)


if __name__ == "__main__":
    main()
