"""The first minute of a new user: time to the verdict of the demo, cold, again, and with compiled code; `--help`.

`python -m benchmarks.first_minute --json` measures this program. `--program OTHER --commands "replay ... -o {out}"`
measures another installation, which may have no `demo`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
REPLAY = ("replay", str(EXAMPLES / "hospital.xes.gz"), "-c", str(EXAMPLES / "hospital.toml"), "--final")


def timed(words: Sequence[str], folder: Path, cache: Path) -> dict[str, float]:
    """Run a program with compiled code in `cache`; return wall and CPU seconds, and wall until the verdict."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    verdict = None
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if verdict is None and line.startswith("[+] SAFE"):
                verdict = time.perf_counter() - start
    if process.returncode != 0:
        raise SystemExit(f"{words}: exit {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }
    if verdict is not None:
        figures["seconds_to_verdict"] = verdict
    return {name: round(figure, 2) for name, figure in figures.items()}


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON (the only form)")
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("veilstream")))
    parser.add_argument("--commands", default="demo -o {out}", help="the run with the verdict; {out} is a new folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = folder / "cache"
        figures: dict[str, object] = {"program": options.program, "load": os.getloadavg()[0]}
        for run in ("cold", "again", "compiled"):
            if run == "compiled":  # a replay compiles all kernels that the demo uses
                timed([options.program, *REPLAY, "-o", str(folder / "replayed")], folder, cache)
            words = shlex.split(options.commands.format(out=folder / run))
            figures[run] = timed([options.program, *words], folder, cache)
        figures["help"] = min(
            (timed([options.program, "--help"], folder, cache) for _ in range(5)), key=lambda run: run["cpu_seconds"]
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
