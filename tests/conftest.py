"""Shared fixtures: the public logs, and skips that CI turns into failures."""

from __future__ import annotations

import gc
import json
import os
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

FAST_EXAMPLES = 12
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("any machine"), max_examples=FAST_EXAMPLES)  # `make fast`
settings.load_profile("any machine")  # no test depends on how fast the machine is, or on what else it does


def examples(number: int) -> settings:
    """Set the number of examples of a property test; `make fast` runs a quarter of them, at most FAST_EXAMPLES."""
    in_fast_lane = min(number // 4, FAST_EXAMPLES)
    return settings(max_examples=in_fast_lane if _in_fast_lane() else number)


def random_inputs(number: int) -> int:
    """Return how many seeded inputs a test draws in a loop of its own; `make fast` draws a tenth of them."""
    return max(number // 10, 1) if _in_fast_lane() else number


def _in_fast_lane() -> bool:
    return settings().max_examples == FAST_EXAMPLES


FOREIGN = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS")
FOREIGN += ("TZ", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "TYPER_STANDARD_TRACEBACK")
# Containers often set it: each process that a test starts would compile the whole program again.
FOREIGN += ("PYTHONDONTWRITEBYTECODE",)
for _name in [*FOREIGN, *(name for name in os.environ if name.startswith("VEILSTREAM_"))]:
    if _name not in ("VEILSTREAM_REQUIRE", "VEILSTREAM_KAFKA", "VEILSTREAM_LOGS"):
        os.environ.pop(_name, None)  # what a terminal, a CI service or the developer's own daemon leaves there

# Tests run in several processes. Threads of OpenBLAS wait busily for a core in each of them, which took four times the
# time of the small problems here. Workers read it before they import numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
DECLARED = '\n[file]\nencoding = "utf-8"\nseparator = "comma"\ntime_format = "iso"\n'
"""Reading of the CSV files of tests in a configuration, for mechanisms that promise epsilon."""
DECLARED_FLAGS = ("--encoding", "utf-8", "--separator", "comma", "--time-format", "iso")
"""The same as options of a command."""
GOLDEN = ROOT / "tests" / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing that runs in this process wait for the disk.

    A test ends processes and never the machine, and what a process wrote before its end is read back without a sync.
    With syncs, a replay of a small log waits for as long as it computes. Processes that a test starts do sync.
    """
    os.fsync = _check_descriptor


def _check_descriptor(descriptor: int) -> None:
    """Fail as `os.fsync` does if the descriptor is not open."""
    os.fstat(descriptor)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and exempt from it what stays for the whole session.

    Modules and test items are a million objects. The collector would look through all of them again and again: a fifth
    of the time of a collection, and more during the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


NIGHT: dict[str, str] = {
    variant["test"]: variant["covered_by"]
    for variant in tomllib.loads((ROOT / "tests" / "night.toml").read_text(encoding="utf-8"))["variant"]
}
"""Tests that `make test` leaves out, and for each the test that covers its behaviour there."""
collected: set[str] = set()
"""Ids of all tests that this process has found, whatever its options leave out then."""

_files_with_slow_tests: set[str] = set()
# Kept before `make fast` leaves the slow tests out: the others of these files take longer than those of most files.


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test that reads the public logs, so that no lane depends on a marker that somebody forgot.

    Those of tests/night.toml are marked too.
    """
    collected.add(item.nodeid)
    if item.nodeid in NIGHT:
        item.add_marker("night")
    if "logs" in getattr(item, "fixturenames", ()):
        item.add_marker("logs")
    if item.get_closest_marker("slow"):
        _files_with_slow_tests.add(item.nodeid.split("::")[0])


FAST_FOLDERS = ("tests/unit/", "tests/property/", "tests/golden/")
SLOW_MARKERS = {"kafka", "prometheus", "chromium", "logs", "slow"}
"""`make fast` runs the tests of these folders that have none of these markers."""


LONGEST = {
    "tests/deploy/test_dossier_browser.py",
    "tests/deploy/test_release.py",
    "tests/docs/test_snippets.py",
    "tests/kafka/test_acls.py",
    "tests/kafka/test_bad_input.py",
    "tests/kafka/test_codecs.py",
    "tests/kafka/test_crashes.py",
    "tests/kafka/test_equality.py",
    "tests/kafka/test_faults.py",
    "tests/kafka/test_hosts.py",
    "tests/kafka/test_lost_logs.py",
    "tests/kafka/test_operation.py",
    "tests/kafka/test_rebalance.py",
    "tests/kafka/test_security.py",
    "tests/property/test_engine_spark.py",
    "tests/property/test_engine_spark_killed.py",
    "tests/replay/test_advise_logs.py",
    "tests/replay/test_crash_replay.py",
    "tests/replay/test_engine_replay.py",
    "tests/replay/test_pipeline_audit.py",
    "tests/replay/test_pipeline_audit_once.py",
}
"""Files that take longer than two minutes next to three others on two cores (`--durations`)."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that may take minutes come first: one that came last would keep one process busy alone.

    The longest begin, in a random order as all others.
    Files that wait for a broker come by turns with files that compute, so that each can use the time of the other.
    """
    items_by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        items_by_file.setdefault(item.nodeid.split("::")[0], []).append(item)
    with_broker, computing, quick = [], [], []
    for file, tests in items_by_file.items():
        markers = {marker.name for test in tests for marker in test.iter_markers()}
        if "kafka" in markers:
            with_broker.append(file)
        elif markers & SLOW_MARKERS or file in _files_with_slow_tests or not file.startswith(FAST_FOLDERS):
            computing.append(file)
        else:
            quick.append(file)
    for files in (with_broker, computing):
        files.sort(key=lambda file: file not in LONGEST)
    # The place of a file within its list, from 0 to 1: both lists last as long.
    place = {file: number / len(files) for files in (with_broker, computing) for number, file in enumerate(files)}
    order = [*sorted(place, key=lambda file: place[file]), *quick]
    items[:] = [item for file in order for item in items_by_file[file]]


def missing(what: str, reason: str) -> None:
    """Skip with a reason, or fail where VEILSTREAM_REQUIRE names what is missing."""
    required = os.environ.get("VEILSTREAM_REQUIRE", "").split(",")
    if what in required:
        pytest.fail(f"VEILSTREAM_REQUIRE names {what}, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of public event logs (VEILSTREAM_LOGS, else ../shared/logs next to the checkout)."""
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    if not (folder / "sepsis.xes.gz").exists():
        missing("logs", "the public event logs are not here; set VEILSTREAM_LOGS to their folder")
    return folder


def golden(name: str) -> Any:
    """A vector file of tests/golden."""
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))
