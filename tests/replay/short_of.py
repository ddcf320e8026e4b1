"""Replays that are short of something, as a process of its own: `python -m tests.replay.short_of memory|disk FOLDER`.

`disk` needs to mount, so it runs under `unshare --user --map-root-user --mount`. Each attempt prints one JSON line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas  # noqa: F401 - the same
import pyarrow.parquet  # noqa: F401 - what a replay imports on its way is before the limit

import connectors.csv
import connectors.parquet
import connectors.xes
import connectors.xes_lines
import connectors.xes_write  # noqa: F401 - the same
import stream.commands.replay
import stream.run.replay  # noqa: F401 - the same
from stream.commands import execute
from stream.testing import verifier

SIZES = (40, 80, 110, 140, 170, 200, 230, 260, 300)
"""Kilobytes of the disk: from too small for a ledger to enough for nearly everything."""

MARGINS = (1, 60)
"""Megabytes beyond what the imports took: too little to read the log, and too little to release it."""


def attempt(world: Path, output: Path, **details: Any) -> None:
    """One replay by the command line; its exit code and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = execute(["replay", str(world / "log.csv"), "-c", str(world / "c.toml"), "-o", str(output)])
    visible = sorted(path.name for path in output.glob("public/*/release-*"))
    wrong = [str(one) for one in verifier.verify(output, finished=False)] if visible else []
    print(json.dumps({"code": code, "said": err.getvalue(), "visible": visible, "wrong": wrong, **details}), flush=True)


def memory(world: Path) -> None:
    """Below a limit of the address space; the process ends with the attempt, so each margin has its own child."""
    for margin in MARGINS:
        child = os.fork()
        if not child:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
            limit = used + margin * 1_000_000
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            attempt(world, world / "out", margin=margin)
            os._exit(0)
        os.waitpid(child, 0)
    attempt(world, world / "out", margin=None)


def disk(world: Path) -> None:
    """On a file system that is full; it grows while what is there stays, as an operator would do it."""
    place = world / "disk"
    place.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZES[0]}k", "tmpfs", str(place))
    for size in SIZES:
        _run("mount", "-o", f"remount,size={size}k", str(place))
        attempt(world, place / "out", size=size)
    _run("mount", "-o", "remount,size=50m", str(place))
    attempt(world, place / "out", size=None)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def main(arguments: Sequence[str]) -> None:
    """Run with a shortage (first argument) in the folder of log and configuration."""
    {"memory": memory, "disk": disk}[arguments[0]](Path(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
