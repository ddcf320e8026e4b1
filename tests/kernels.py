"""Compile most kernels, before several test processes would compile the same ones: `python -m tests.kernels`.

numba keeps what it compiles in `__pycache__`. In a fresh clone each of the test processes meets kernels that no other
has kept yet, and compiles them too. This program needs the product alone: `make setup` runs it, and CI while it
installs the rest.
A kernel that is left out here is compiled by the first test that needs it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stream.commands import execute

DECLARED_FLAGS = ("--encoding", "utf-8", "--separator", "comma", "--time-format", "iso")
CASES = 90
ENDS = (0, 3)
"""Codes of a command that has run to its end; 3: it has an answer that a user should look at."""


def _write_log(path: Path) -> None:
    """Cases of a few variants, with an attribute."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    lines = ["case:concept:name,concept:name,time:timestamp,case:diagnosis"]
    for case in range(CASES):
        trace = ("admit", "abcd"[case % 4], "xyz"[case % 3], "discharge")
        for step, activity in enumerate(trace):
            moment = begin + timedelta(hours=5 * case, minutes=(7 + case % 5) * step)
            lines.append(f"c{case},{activity},{moment.isoformat()},{'pqr'[case % 3]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _commands(folder: Path) -> list[list[str]]:
    log, first, second = (str(folder / name) for name in ("log.csv", "first.xes.gz", "second.xes.gz"))
    sensitive = ["--sensitive", "diagnosis"]
    cohorts = ["--mechanism", "tlkc-cohorts", *(f"--set={key}" for key in ("K=10", "L=2", "C=0.5"))]
    noise = ["--mechanism", "dp-log", "--epsilon", "1", "--delta-dp", "1e-2", "--set", "max_duration=7d"]
    sampled = ["--mechanism", "amun", "--variant", "sampling", "--delta", "0.2"]
    return [
        ["advise", log, *sensitive, "--json"],
        ["assess", "--original", log, *cohorts, *sensitive, "--json"],
        ["anonymize", log, "-o", first, "--K", "5", *sensitive],
        ["anonymize", log, "-o", second, "--mechanism", "baseline-2", "--K", "10"],
        ["anonymize", log, "-o", str(folder / "noisy.xes.gz"), *noise, *DECLARED_FLAGS],
        ["anonymize", log, "-o", str(folder / "sampled.xes.gz"), *sampled, *DECLARED_FLAGS],
        ["attack", first, second, "--bk-length", "2", "--n", "0,1", "--json"],
        ["attack", first, second, "--method", "sound", "--bk-length", "2", "--n", "1", "--json"],
        ["attack", first, log, "--method", "exact", "--bk-length", "2", "--n", "1", "--json"],
        ["risk", log, "--json"],
        ["risk", log, "--projection", "A", "--resolution", "days", "--points", "1,2", "--json"],
        ["utility", log, second, "--json"],
    ]


def main() -> int:
    """Run the commands, and print those that did not come to their end."""
    with tempfile.TemporaryDirectory() as folder:
        _write_log(Path(folder) / "log.csv")
        ended = {}
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            for command in _commands(Path(folder)):
                ended[" ".join(command)] = execute(command)
    failed = {command: code for command, code in ended.items() if code not in ENDS}
    for command, code in failed.items():
        print(f"exit code {code}: veilstream {command}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
