"""The first minute of a new user: installation, time to the verdict of the demo (cold and warm), and `--help`.

`python -m benchmarks.first_minute --json` measures this program. `--wheel FILE` installs a wheel into a new environment
with pip first, which is measured too, and measures the program there. `--before PROGRAM` measures an older program in
the same run, which may have no `demo`: it replays the same log and writes the report.

In the figures, `cold` has an empty cache of compiled code, and `warm` the one that the cold run left.
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
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LOG, CONFIG = str(EXAMPLES / "hospital.xes.gz"), str(EXAMPLES / "hospital.toml")

DEMO = ("demo -o {out}",)
WITHOUT_DEMO = (f"replay {LOG} -c {CONFIG} -o {{out}} --final", f"report {{out}} --source {LOG} -o {{out}}.html")
"""Commands that show the same with a program without `demo`."""


def timed(words: Sequence[str], folder: Path, cache: Path) -> dict[str, float]:
    """Run a program with compiled code in `cache`.

    Returns
    -------
    dict
        Wall and CPU seconds, wall seconds to the first line and to the verdict, if it prints one. Children that the
        program waits for count.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    moments: dict[str, float] = {}
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            moments.setdefault("seconds_to_first_line", time.perf_counter() - start)
            if line.startswith("[+] SAFE"):
                moments.setdefault("seconds_to_verdict", time.perf_counter() - start)
    if process.returncode != 0:
        raise SystemExit(f"{words}: exit {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.perf_counter() - start
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, **moments}


def measure(program: str, commands: Sequence[str], folder: Path) -> dict[str, object]:
    """Return the figures of one program: cold, warm, and the best of five `--help`."""
    folder.mkdir()
    cache = folder / "cache"
    figures: dict[str, object] = {}
    for run in ("cold", "warm"):
        parts = []
        for command in commands:
            words = command.format(out=folder / run).split()
            parts.append(timed([program, *words], folder, cache))
        total = {name: sum(part[name] for part in parts) for name in ("seconds", "cpu_seconds")}
        figures[run] = rounded({**parts[0], **total})
    helps = [timed([program, "--help"], folder, cache) for _ in range(5)]
    figures["help"] = rounded(min(helps, key=lambda attempt: attempt["cpu_seconds"]))
    return figures


def rounded(figures: dict[str, float]) -> dict[str, float]:
    """Return the figures with two decimals."""
    return {name: round(figure, 2) for name, figure in figures.items()}


def install(wheel: Path, folder: Path) -> tuple[str, dict[str, float]]:
    """Install a wheel with its libraries into a new environment; return its program, and what pip took."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = str(environment / "bin" / "pip")
    figures = timed([pip, "install", "--quiet", str(wheel.resolve())], folder, folder / "no-cache")
    return str(environment / "bin" / "veilstream"), rounded(figures)


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON (the only form)")
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("veilstream")))
    parser.add_argument("--wheel", type=Path, help="install this wheel, and measure it instead of --program")
    parser.add_argument("--before", help="an older program to measure in the same run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures: dict[str, object] = {"load": os.getloadavg()[0]}
        program = options.program
        if options.wheel is not None:
            program, figures["install"] = install(options.wheel, folder)
        if options.before is not None:
            figures["before"] = measure(options.before, WITHOUT_DEMO, folder / "before")
        figures["after"] = measure(program, DEMO, folder / "after")
        figures["load_after"] = os.getloadavg()[0]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
