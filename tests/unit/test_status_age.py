"""`status` of a coordinator that is gone, hangs or gets nothing: it reports it, and exits 4."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.errors import TakenOverError
from stream.commands import execute
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.status import CoordinatorSnapshot, StatusFile, read_status
from stream.fold.fold import Fold
from stream.fold.rules import FoldRules

HEARTBEAT = 300.0
"""Long, so that a busy machine does not make three of them pass."""


def status_of(folder: Path, **changed: Any) -> Path:
    """The status file of a coordinator that lives and moves, but for what is changed."""
    (folder / "operator").mkdir(exist_ok=True)
    engine = CoordinatorSnapshot(Fold(FoldRules(())), 7, 6, Anchor("log"), None)
    StatusFile(folder, HEARTBEAT).write(engine, "active")
    file = folder / "operator" / "status.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    return folder


def asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = execute(["status", "-o", str(folder)])
    return code, capsys.readouterr().out


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as one:
        one.wait()
    return one.pid


def test_one_that_moves_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its process and age are shown; a build that takes minutes is a move."""
    code, said = asked(status_of(tmp_path), capsys)
    assert code == 0
    assert f"process {os.getpid()} on {socket.gethostname()}, " in said
    assert said.rstrip().count(" s ago:") == 0
    now = time.time()
    assert asked(status_of(tmp_path, moved=now - 6000, busy_seconds=5999.0), capsys)[0] == 0


def test_one_that_ended_long_ago_is_no_longer_active(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file says `active` forever; its age contradicts it."""
    code, said = asked(status_of(tmp_path, at=time.time() - 26 * 60, pid=gone()), capsys)
    assert code == 4
    assert " s ago: its process has ended" in said


def test_one_that_is_silent_elsewhere_or_hangs_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another host's process cannot be asked for; three heartbeats of silence say enough."""
    silent = time.time() - 3 * HEARTBEAT - 1
    code, said = asked(status_of(tmp_path, at=silent, host="another", pid=gone()), capsys)
    assert (code, "not been heard of since" in said) == (4, True)
    code, said = asked(status_of(tmp_path, at=silent), capsys)
    assert (code, "not been heard of since" in said) == (4, True)


def test_without_ingest_nothing_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The coordinator lives and gets not even a heartbeat."""
    code, said = asked(status_of(tmp_path, moved=time.time() - 3 * HEARTBEAT - 1), capsys)
    assert (code, "ingest" in said) == (4, True)


def test_a_file_of_before_is_read_by_its_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names neither host nor heartbeat."""
    file = status_of(tmp_path) / "operator" / "status.json"
    old = {k: v for k, v in json.loads(file.read_text()).items() if k not in ("host", "heartbeat", "moved")}
    file.write_text(json.dumps(old))
    assert asked(tmp_path, capsys)[0] == 0
    file.write_text(json.dumps({**old, "at": time.time() - 60}))
    assert asked(tmp_path, capsys)[0] == 4


def test_a_life_sign_leaves_everything_else(tmp_path: Path) -> None:
    """Between two batches only the age is new; a stop is said; before the first batch there is nothing to say."""
    (tmp_path / "operator").mkdir()
    one = StatusFile(tmp_path, HEARTBEAT)
    one.alive("active", 0.0)
    assert read_status(tmp_path) is None
    engine = CoordinatorSnapshot(Fold(FoldRules(())), 7, 6, Anchor("log"), None)
    one.write(engine, "active")
    first = read_status(tmp_path) or {}
    one.stopped("")
    then = read_status(tmp_path) or {}
    assert then["at"] >= first["at"]
    assert {**then, "at": 0, "state": ""} == {**first, "at": 0, "state": ""}
    assert execute(["status", "-o", str(tmp_path)]) == 4


def test_a_status_that_cannot_be_read_is_not_a_missing_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another user runs the coordinator. A folder in its place cannot be read either: root may read every file."""
    (tmp_path / "operator" / "status.json").mkdir(parents=True)
    assert execute(["status", "-o", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "status.json: cannot be read (Is a directory); ask as the user who runs the coordinator" in error
    assert "no coordinator has run here" not in error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (None, "the coordinator was stopped"),
        (TakenOverError("another one is active"), "the coordinator ended: another one is active"),
        (ValueError("Vera's case"), "the coordinator ended: ValueError; the log has its stack"),
        (
            OSError(errno.ENOSPC, "No space left on device", "f"),
            "the coordinator ended: f: No space left on device; free some space",
        ),
    ],
    ids=["stopped", "ours", "unexpected", "full-disk"],
)
def test_the_status_keeps_why_the_process_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: BaseException | None, sentence: str
) -> None:
    """An end by SIGTERM and one by an error are distinguished, also after the process is gone; no content is shown."""
    (tmp_path / "operator").mkdir()
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator._stopping = SimpleNamespace(set=lambda: None)
    coordinator._thread = SimpleNamespace(shutdown=lambda wait: None)
    coordinator.engine = SimpleNamespace(building=None, close=lambda: None)
    coordinator.state, coordinator.status_topic = "lost", SimpleNamespace(close=lambda: None)
    coordinator.status = StatusFile(tmp_path, HEARTBEAT)
    coordinator.status.write(CoordinatorSnapshot(Fold(FoldRules(())), 7, 6, Anchor("log"), None), "active")
    coordinator.close(error)
    code, printed = asked(tmp_path, capsys)
    assert code == 4
    assert sentence in printed
    assert "Vera" not in printed
