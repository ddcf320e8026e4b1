"""Compiled kernels are compiled once: from the cache they are loaded quickly, and answer the same."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

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
