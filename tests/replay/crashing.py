"""A small log and its configurations for crash tests, and runs in processes of their own that really die."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from connectors import read_log, write_log
from connectors.files import FileOps
from models.eventlog import EventLog
from stream.config import sources
from stream.release.failpoints import Faults, Hook, nothing
from stream.run.replay import Replay, ReplayOutcome
from tests import preloaded
from tests.patience import wait_for_end

MINUTE = 60_000_000_000
IDENTITY = {"name": "plain", "window": {"new_cases": 25}, "mechanism": {"kind": "identity"}}
WITHHELD = {"name": "never", "window": {"new_cases": 40}, "mechanism": {"kind": "baseline-1", "K": 1000}}
PRIVATE = {
    "name": "private",
    "start": "1970-01-01T00:00:00Z",
    "window": {"every": "1h", "time": "event"},
    "mechanism": {"kind": "dp-variants", "epsilon": 1.0, "delta_dp": 1e-3},
}
CONFIGURATIONS: dict[int, list[dict[str, Any]]] = {0: [], 1: [PRIVATE], 3: [IDENTITY, WITHHELD, PRIVATE]}


def sample(folder: Path, cases: int = 100) -> Path:
    """A log of short cases that overlap in time, with a sensitive value."""
    rng = np.random.default_rng(7)
    names, activities, times = [], [], []
    for number in range(cases):
        moment = number * 3 * MINUTE
        for activity in ["a", *rng.choice(["b", "c"], rng.integers(1, 3)), "d"]:
            names.append(f"case{number}")
            activities.append(str(activity))
            times.append(moment)
            moment += int(rng.integers(1, 30)) * MINUTE
    ill = {f"case{number}": str(rng.choice(["influenza", "cold"])) for number in range(cases)}
    log = EventLog.from_events(names, activities, np.asarray(times), case_attributes={"ill": ill}, unit="ns")
    path = folder / "log.xes"
    write_log(log, path)
    return path


def configuration(folder: Path, publications: int) -> Path:
    """A TOML file with that many publications."""
    lines = ["checkpoint_every = 60", "[process]", 'name = "crash"', 'sensitive = ["ill"]']
    for publication in CONFIGURATIONS[publications]:
        lines.append("[[publication]]")
        lines += [f"{key} = {_toml(value)}" for key, value in publication.items()]
    path = folder / f"config{publications}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def replay(
    world: Path,
    output: Path | None = None,
    publications: int = 3,
    *,
    at: Hook = nothing,
    ops: FileOps | None = None,
    **options: Any,
) -> ReplayOutcome:
    """One replay of the small log in this process, into `out` next to it; `at` may raise Aborted, as a crash would."""
    loaded = sources.load(world / f"config{publications}.toml")
    return Replay(loaded, output or world / "out", batch=40, faults=Faults(at, ops), **options).run(
        read_log(world / "log.xes")
    )


def run(log: Path, config: Path, output: Path, **death: Any) -> int:
    """Exit code of a replay in a process of its own; -SIGKILL where the planned death came."""
    return dying("replay", log=str(log), config=str(config), output=str(output), **death)


def dying(function: str, **arguments: Any) -> int:
    """Call a function of `stream.testing.killer` in a process of its own, and return its exit code."""
    words = [function, json.dumps(arguments)]
    with open(os.devnull, "rb") as nothing, TemporaryFile() as printed:
        process = preloaded.start("tests.replay.dying", words, os.environ, nothing, printed, printed)
        code = wait_for_end(process, LONGEST_RUN)
        printed.seek(0)
        if code not in (0, KILLED):
            print(printed.read().decode())
    return code


KILLED = -signal.SIGKILL
LONGEST_RUN = 120.0
"""Seconds; see `wait_for_end`."""
