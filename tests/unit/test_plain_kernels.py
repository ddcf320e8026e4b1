"""On the bundled log, kernels that `veilstream demo` runs as plain Python give what they give compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.compiled import keeps_compiled
from stream.commands.demo import COMPILED
from tests.conftest import ROOT

RECORD = """
import copy, pickle, sys
from collections import Counter
import models.compiled
from stream.commands import demo, execute

kernel, calls, recorded = models.compiled.kernel, Counter(), open(sys.argv[1], "wb")

def recording(function):
    name = (function.__module__, function.__name__)
    runnable = kernel(function)
    def run(*arguments):
        calls[name] += 1
        if runnable is not function or calls[name] & (calls[name] - 1):  # compiled, or no power of two
            return runnable(*arguments)
        before = copy.deepcopy(arguments)
        result = runnable(*arguments)
        pickle.dump((name, before, arguments, result), recorded)
        return result
    return run if runnable is function else runnable

models.compiled.kernel = recording
models.compiled.keeps_compiled = lambda *names: False
models.compiled.cache_folder = lambda: None  # nothing is compiled aside
models.compiled.run_plainly(demo.COMPILED)  # before the modules with kernels are imported
import models.attacks.linker
models.attacks.linker.MOST_CHANGES = 1 << 12  # the room of the log, which is copied with every call
code = execute(["demo", "-o", sys.argv[2]])
recorded.close()
sys.exit(code)
"""

COMPARE = """
import importlib, json, pickle, sys
import numpy as np

def flat(value):
    if isinstance(value, tuple):
        return [part for one in value for part in flat(one)]
    return [np.asarray(value)]

compared, different = {}, []
def calls(path):
    with open(path, "rb") as recorded:
        while True:
            try:
                yield pickle.load(recorded)
            except EOFError:
                return

for (module, name), arguments, plain_arguments, plain_result in calls(sys.argv[1]):
    result = getattr(importlib.import_module(module), name)(*arguments)
    pairs = zip(flat((arguments, result)), flat((plain_arguments, plain_result)), strict=True)
    if not all(np.array_equal(one, other) for one, other in pairs):
        different.append(f"{module}.{name}")
    compared[f"{module}.{name}"] = compared.get(f"{module}.{name}", 0) + 1
print(json.dumps([compared, different]))
"""


def _python(program: str, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_demo_computes_the_same_with_and_without_compiling(tmp_path: Path) -> None:
    """Of each kernel the calls 1, 2, 4, 8 ... are repeated by its compiled form: equal results and arrays.

    No hash of a plain kernel warns that it wraps around.
    """
    recorded = tmp_path / "calls.pickle"
    shown = _python(RECORD, str(recorded), str(tmp_path / "demo"), PYTHONWARNINGS="error::RuntimeWarning")
    assert "[+] SAFE: research: 11 releases" in shown
    compared, different = json.loads(_python(COMPARE, str(recorded)))
    assert different == []
    assert len(compared) >= 25
    assert sum(compared.values()) >= 150
    assert "models.attacks.search.walk" in compared
    assert not COMPILED & set(compared)


def test_kernels_that_are_compiled_for_the_demo_exist() -> None:
    """A renamed kernel would be run as Python, for tens of seconds."""
    from importlib import import_module

    for name in COMPILED:
        module, _, function = name.rpartition(".")
        assert hasattr(import_module(module), function), name


def test_compiled_code_of_an_older_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade leaves the compiled code of the old files behind; numba would compile again."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))  # numba reads the variable when it is imported
    assert not keeps_compiled("models.attacks.search", "walk")
    index = tmp_path / "attacks_x" / "search.walk-327.py311.nbi"
    index.parent.mkdir()
    index.touch()
    assert keeps_compiled("models.attacks.search", "walk")
    os.utime(index, (0, 0))
    assert not keeps_compiled("models.attacks.search", "walk")
    assert not keeps_compiled("models.no_such_module", "walk")
