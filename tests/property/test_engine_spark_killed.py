"""Spark where its driver dies, its JVM dies, or the disk is full: no part of a release, and the next run makes it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log, write_log
from models.eventlog import EventLog
from stream.commands import execute
from stream.ledger.sqlite import open_readonly
from stream.testing import verifier
from tests.conftest import ROOT, missing
from tests.spark import java_options

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # two JVMs, one after the other

DYING = """
import errno, os, signal, sys
from stream.commands import execute
from stream.engine import building, dataset
from stream.engine.spark import Spark

def driver(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def jvm(self, *arguments):
    from pyspark import SparkContext
    process = SparkContext._gateway.proc
    process.kill()
    process.wait()
    return counted(self, *arguments)

def full(batches):
    yield from ()
    raise OSError(errno.ENOSPC, "No space left on device")

def leaving(self, query):
    cases = of_query(self, query)
    return cases.mapInArrow(full, cases.schema)

counted, of_query, place = Spark._table, Spark._leaving_cases, sys.argv[1]
if place == "driver":
    dataset._durable = driver
    building.applied = driver
elif place == "jvm":
    Spark._table = jvm
elif place == "disk":
    Spark._leaving_cases = leaving
sys.exit(execute(sys.argv[2:]))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A hundred cases of five variants."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        missing("spark", 'pyspark or Java is not installed (extra "spark", Java 17)')
    names = [str(case) for case in range(100) for _ in range(3)]
    activities = [label for case in range(100) for label in ("a", "bcdef"[case % 5], "z")]
    write_log(
        EventLog.from_events(names, activities, np.arange(300) * 60_000_000_000, unit="ns"), tmp_path / "log.parquet"
    )
    return tmp_path / "log.parquet"


def ran(place: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, and the end of its JVM."""
    marker = f"veilstream-test-{os.getpid()}-{time.monotonic_ns()}"
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": java_options(), "MARKER": marker,
    }  # fmt: skip
    command = [sys.executable, "-c", DYING, place, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    for _look in range(1200):
        if not _alive(marker):
            return done
        time.sleep(0.1)
    raise AssertionError("a JVM outlives its driver")


def in_memory(*words: str | Path) -> int:
    """A command in this process, which needs no JVM."""
    return execute([*map(str, words)])


def _alive(marker: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARKER={marker}".encode() in path.read_bytes():
                found.append(path)
        except OSError:  # ended meanwhile, or not ours to read
            continue
    return found


@pytest.mark.parametrize("place", ["driver", "jvm", "disk"])
def test_a_run_that_ends_early_leaves_no_release(place: str, log: Path, tmp_path: Path) -> None:
    """Of `anonymize`: what is left is nobody's release, and the next run with the same `-o` removes it."""
    words = ["anonymize", log, "-o", tmp_path / "out", "--engine", "spark", "--K", "5"]
    done = ran(place, *words)
    if place == "driver":
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        assert done.returncode == 1, done.stderr
        assert "spark failed" in done.stderr
        # Workers of Spark itself may print a stack when their connection ends; ours print none.
        assert not re.search(r'File ".*/(stream|models|connectors)/', done.stderr)
        assert "No space" not in done.stderr, "what Spark says can quote values"
    left = {path.name for path in tmp_path.iterdir()} - {"log.parquet"}
    assert all(name.startswith(".out.") for name in left)
    assert bool(left) == (place == "driver")
    if not left:
        # The next run meets what a first run meets.
        return
    assert ran("", *words).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"log.parquet", "out"}
    assert read_log(tmp_path / "out").n_cases == 100


@pytest.mark.parametrize("place", ["driver", "jvm"])
def test_a_cut_that_was_not_built_has_no_decision(place: str, log: Path, tmp_path: Path) -> None:
    """The ledger has the claim alone. The next run builds the cut, with the content of a run in memory.

    The next run is one of Spark, or of another engine.
    """
    config = tmp_path / "veilstream.toml"
    text = '[process]\nname = "dying"\n[[publication]]\nname = "p"\nwindow = { new_cases = 100 }\n'
    config.write_text(text + 'mechanism = { kind = "baseline-1", K = 5 }\ngate = { on_violation = "warn" }\n')
    words = ["replay", log, "-c", config, "--engine"]
    done = ran(place, *words, "spark", "-o", tmp_path / "out")
    assert done.returncode == (-signal.SIGKILL if place == "driver" else 1), done.stderr
    operator = tmp_path / "out" / "operator"
    assert [entry.kind for entry in open_readonly(operator / "ledger.sqlite")] == ["note"]
    if place == "driver":
        assert ran("", *words, "spark", "-o", tmp_path / "out").returncode == 0
    else:
        assert in_memory(*words, "embedded", "-o", tmp_path / "out") == 0
    assert not list(operator.glob(".cut-*"))
    assert in_memory(*words, "embedded", "-o", tmp_path / "calm") == 0
    assert verifier.verify(tmp_path / "out") == []
    assert verifier.contents(tmp_path / "out") == verifier.contents(tmp_path / "calm") != {}
