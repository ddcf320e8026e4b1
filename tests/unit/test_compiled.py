"""Compiled kernels are compiled once: from the cache they are loaded quickly, and answer the same."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
import numpy as np
from models.attacks.linkability import may_leave
from models.attacks.pairs import Sequences
found = may_leave(Sequences.of([(0, 1), (0, 2, 1), (1, 0)]), np.array([[0, 1, 1], [0, 2, 1], [1, -1, 1]]))
print(json.dumps([found.tolist(), "numba.np.linalg" in sys.modules]))
"""


def answer(cache: Path) -> tuple[list[bool], bool]:
    """Return the findings of a separate process, and whether it loaded the compiler of numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    found, compiled = json.loads(done.stdout)
    return found, compiled


def test_a_kernel_from_the_cache_is_loaded_without_what_only_compiling_needs(tmp_path: Path) -> None:
    """The first process compiles into an empty cache; the second loads. (A link leaves no matching set where the
    earlier trace is a subsequence of the later one.)"""
    assert answer(tmp_path) == ([False, True, True], True)
    assert answer(tmp_path) == ([False, True, True], False)


MODULE = """
from typing import NamedTuple
import numpy as np
from models.compiled import kernel

class {name}(NamedTuple):
    numbers: np.ndarray

@kernel
def add_up(table):
    return table.numbers.sum()

print(add_up({name}(np.arange(4))))
"""


@pytest.mark.slow
def test_code_of_a_version_with_other_classes_is_compiled_again(tmp_path: Path) -> None:
    """An upgrade keeps the cache folder, and an index in it may name a class that was renamed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name in ("Former", "Renamed", "Renamed"):
        (tmp_path / "kernels.py").write_text(MODULE.format(name=name))
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import kernels"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr


CALLED = """
from limits import LIMIT
from models.compiled import {1}

@{1}
def step(number):
    return number + {0}
"""

CALLING = """
from called import LIMIT, step
from models.compiled import kernel

@kernel
def answer(number):
    return beyond(number)

@kernel
def beyond(number):
    return step(number) + LIMIT
"""

ALONE = """
from models.compiled import kernel

@kernel
def answer(number):
    return number + {}
"""


class Process:
    """Imports and runs modules as a process of its own does: it knows kernels from the cache alone."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def write(self, name: str, text: str) -> None:
        """Write a module; its time is another one than before."""
        path = self.folder / f"{name}.py"
        time = path.stat().st_mtime + 1 if path.exists() else 1_000_000_000
        path.write_text(text, encoding="utf-8")
        os.utime(path, (time, time))

    def kernel(self, *modules: str) -> Any:
        """Import these modules, and return `answer` of the last one."""
        for name in modules:
            spec = importlib.util.spec_from_file_location(name, self.folder / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            self.monkeypatch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
        return module.answer


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Modules in an empty folder."""
    return Process(tmp_path, monkeypatch)


@pytest.mark.parametrize("decorator", ["part", "inlined_part"])
def test_a_kernel_is_compiled_again_when_what_is_compiled_into_it_changes(process: Process, decorator: str) -> None:
    """A kernel that it calls, also through its own file, or a constant: numba compares its own file alone."""
    modules = ("limits", "called", "calling")
    process.write("limits", "LIMIT = 100")
    process.write("called", CALLED.format(1, decorator))
    process.write("calling", CALLING)
    assert process.kernel(*modules)(0) == 101
    unchanged = process.kernel(*modules)
    assert unchanged(0) == 101
    assert sum(unchanged.stats.cache_hits.values()) == 1
    process.write("called", CALLED.format(2, decorator))
    assert process.kernel(*modules)(0) == 102
    process.write("limits", "LIMIT = 200")
    assert process.kernel(*modules)(0) == 202


def test_a_process_that_reads_while_another_one_writes_runs_no_earlier_code(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has changed, and a process reads when one of the two files (index, code) is written."""
    process.write("alone", ALONE.format(1))
    assert process.kernel("alone")(0) == 1
    process.write("alone", ALONE.format(2))
    replace, read = os.replace, []

    def replace_and_read(*arguments: Any) -> None:
        replace(*arguments)
        monkeypatch.setattr(os, "replace", replace)
        read.append(process.kernel("alone")(0))

    writing = process.kernel("alone")
    monkeypatch.setattr(os, "replace", replace_and_read)
    assert writing(0) == 2
    assert read == [2]
    assert len(list(process.folder.rglob("alone.answer*.nbc"))) <= 2, "earlier code is removed"


def test_two_processes_that_compile_at_once_do_not_take_one_name(process: Process) -> None:
    """Each has read an empty index, and writes code for another type; the index of the first one stays."""
    process.write("alone", ALONE.format(1))
    assert process.kernel("alone")(0) == 1
    (index,) = process.folder.rglob("alone.answer*.nbi")
    first = index.read_bytes()
    index.unlink()
    assert process.kernel("alone")(0.5) == 1.5
    index.write_bytes(first)
    assert repr(process.kernel("alone")(0)) == "1", "1.0 is the answer of the other code"


@pytest.mark.slow
def test_a_command_at_a_terminal_reports_that_it_compiles(tmp_path: Path) -> None:
    """A first run takes half a minute longer; without a word it seems to hang. The second one has nothing to report."""
    log = tmp_path / "log.csv"
    log.write_text("case,activity,time\na,x,2025-01-01T00:00:00Z\nb,x,2025-01-02T00:00:00Z\n", encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [
        sys.executable,
        "-m",
        "stream.commands",
        "risk",
        str(log),
        "--columns",
        "case=case,activity=activity,time=time",
    ]
    assert "compiling for this computer" in at_a_terminal(command, environment)
    assert "compiling for this computer" not in at_a_terminal(command, environment)


def at_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Run a command whose stderr is a terminal, and return what it prints there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while chunk := read_terminal(ours):
            printed += chunk
        assert process.wait() == 0, printed
    os.close(ours)
    return printed.decode()


def read_terminal(descriptor: int) -> bytes:
    """Read from a terminal; empty when its other end is closed, which Linux reports as an error."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
