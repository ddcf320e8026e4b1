"""Measure the path of a reader through the code: of a release, a record (with and without completions), an attack.

Run `python -m benchmarks.paths`. The bundled sample goes through the program under a profiler hook, so the counts come
from the calls that happen, and not from a list that somebody maintains.

A reader reads each function when it is called for the first time. A path is therefore the sequence of the files of all
functions, in the order of their first call. Nested functions belong to the function that contains them. Properties and
operators (`__len__`, `__getitem__`) are left out: where they are used, they look like a field or an expression. Two
numbers describe a path:

* files: how many different files it visits;
* returns: how often it goes back to a file that it was in before, to read another function there.

Each path is counted in three ways:

* `everything`: all functions of the three packages;
* `rooms`: only the packages that the path is about (second column of the output). A reader uses the others through
  their interfaces, like libraries;
* `steps`: like `rooms`, and a folder of plug-ins counts as one file. The configuration chooses which mechanism and
  which audits a release has, so which of their files it visits is not a property of the path.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np

from connectors import read_log, write_log
from models.eventlog import EventLog
from stream.commands import build_app
from stream.config import sources
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.run.log_source import records_from_log
from stream.run.replay import Replay
from stream.run.runner import Arrival, Host, Runner
from stream.run.service import ReleaseService

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PACKAGES = ("stream/", "connectors/", "models/")

PLUGINS = ("stream/release/mechanisms/", "stream/release/audits/")
"""Folders of kinds that the configuration chooses."""

ROOMS = {
    "release": ("stream/run/", "stream/release/"),
    "record": ("stream/run/", "stream/fold/"),
    "record, completions count": ("stream/run/", "stream/fold/"),
    "attack": ("stream/commands/", "models/attacks/"),
}
"""Packages that each path is about."""


class CallTrace:
    """Record the named functions of our packages in the order of their first call.

    Parameters
    ----------
    first
        Qualified name of the function at which the path begins. It ends when that function returns.
    """

    def __init__(self, first: str) -> None:
        self.functions: list[tuple[str, str]] = []
        self._first, self._seen = first, set[Any]()
        self._outermost: FrameType | None = None
        self._ended = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is called inside the block."""
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self._ended or event not in ("call", "return"):
            return
        code = frame.f_code
        if self._outermost is None:
            if event == "call" and code.co_qualname == self._first:
                self._outermost = frame
            else:
                return
        if event == "return":
            self._ended = frame is self._outermost
            return
        if code in self._seen or "<" in code.co_qualname:
            return
        self._seen.add(code)
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(PACKAGES) and code.co_firstlineno not in lines_of_expressions(path):
                self.functions.append((name, code.co_qualname))


@cache
def lines_of_expressions(path: Path) -> frozenset[int]:
    """Return the first lines of the properties and operators in a file."""
    lines = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            is_operator = node.name.startswith("__") and node.name not in ("__init__", "__post_init__", "__call__")
            if is_operator or any(name.endswith("property") for name in decorators):
                lines.add(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))
    return frozenset(lines)


def path_of(files: list[str]) -> tuple[list[str], int]:
    """Return the files of a path in the order of their first visit, and its returns."""
    visited: list[str] = []
    returns, current = 0, None
    for file in files:
        if file == current:
            continue
        if file in visited:
            returns += 1
        else:
            visited.append(file)
        current = file
    return visited, returns


def plugin_folder(file: str) -> str:
    """Return the folder of a plug-in, and any other file as it is."""
    return next((folder for folder in PLUGINS if file.startswith(folder)), file)


def trace_release(folder: Path, log: EventLog, settings: Settings) -> CallTrace:
    """Trace the first release of the sample's research publication, in a replay."""
    trace = CallTrace("ReleaseService.decide")
    replay = Replay(settings, folder / "release")
    with trace.recording():
        replay.run(log)
    return trace


class OneRecord:
    """A source that holds a single record."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival

    def after(self, _position: int) -> Iterator[Arrival]:
        """Return the record."""
        return iter((self.arrival,))


class QuietHost:
    """A host of the loop around a record with no cut: it adds no function of the program to the path."""

    def __getattr__(self, name: str) -> Callable[..., bool]:
        return lambda *_: True


def counting_started_cases(folder: Path) -> Settings:
    """Return the settings of the sample with a window that counts started cases: no completion decides a cut."""
    text = (EXAMPLES / "hospital.toml").read_text(encoding="utf-8")
    path = folder / "started.toml"
    path.write_text(text.replace("completed_cases", "new_cases"), encoding="utf-8")
    return sources.load(path)


def trace_record(folder: Path, log: EventLog, settings: Settings) -> CallTrace:
    """Trace one delta record without a cut through the loop and the fold, under the rules of a daemon."""
    trace = CallTrace("Runner.run")
    service = ReleaseService(settings, folder / "record")
    try:
        key = service.pseudonyms.id
        position, record = next(records_from_log(log, pseudonym=service.pseudonyms.case, key=key, batch=20))
        fold = Fold(replace(service.rules(embedded=False), sources=(("log", 0),)))
        runner = Runner(fold, cast(Host, QuietHost()), every=1_000_000)
        with trace.recording():
            runner.run(OneRecord(Arrival(position, record, events=20)))
    finally:
        service.close()
    return trace


def trace_attack(folder: Path, log: EventLog) -> CallTrace:
    """Trace `veilstream attack` on two releases of the sample: its first half, and all of it."""
    paths = [folder / "first.parquet", folder / "second.parquet"]
    halfway = int(np.median(log.time))
    write_log(log.select_events(log.time <= halfway, drop_empty=True), paths[0])
    write_log(log, paths[1])
    trace = CallTrace("command")
    with trace.recording(), redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        build_app("attack")(["attack", *map(str, paths), "--json"], standalone_mode=False)
    return trace


def counted(trace: CallTrace, rooms: tuple[str, ...]) -> dict[str, Any]:
    """Return files and returns of a path, counted in the three ways, and the files of its steps."""
    everything = [file for file, _ in trace.functions]
    inside = [file for file in everything if file.startswith(rooms)]
    steps = [plugin_folder(file) for file in inside]
    result: dict[str, Any] = {}
    for name, files in (("everything", everything), ("rooms", inside), ("steps", steps)):
        visited, returns = path_of(files)
        result[name] = {"files": len(visited), "returns": returns}
    result["path"] = path_of(steps)[0]
    return result


def measure() -> dict[str, Any]:
    """Return the counts of the three paths."""
    log, settings = read_log(EXAMPLES / "hospital.xes.gz"), sources.load(EXAMPLES / "hospital.toml")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Once without a trace: compiled kernels and lazy imports belong to no path.
        trace_release(folder / "warm", log, settings)
        trace_attack(folder, log)
        traces = {
            "release": trace_release(folder, log, settings),
            "record": trace_record(folder / "started", log, counting_started_cases(folder)),
            "record, completions count": trace_record(folder / "completed", log, settings),
            "attack": trace_attack(folder, log),
        }
    return {name: counted(trace, ROOMS[name]) for name, trace in traces.items()}


def table(result: dict[str, Any]) -> str:
    """Return the table of docs/architecture.md."""
    lines = ["| path | rooms | steps | rooms, all files | everything |", "|---|---|---|---|---|"]
    for name, counts in result.items():
        rooms = ", ".join(f"`{room.rstrip('/')}`" for room in ROOMS[name])
        cells = [
            f"{counts[way]['files']} files, {counts[way]['returns']} returns"
            for way in ("steps", "rooms", "everything")
        ]
        lines.append(f"| one {name} | {rooms} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="counts and the files of each path, as JSON")
    result = measure()
    print(json.dumps(result, indent=2) if parser.parse_args().json else table(result))


if __name__ == "__main__":
    main()
