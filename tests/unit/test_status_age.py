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

from connectors.kafka.lineage import Lineage
from models.errors import TakenOverError
from stream.commands import execute
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor, LostDeltasError
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


def test_a_lost_delta_topic_is_in_the_last_status(tmp_path: Path) -> None:
    """`veilstream gap` reads from it what was lost. The end of the process once wrote the status before the loss again,
    and `gap rewind` answered that there was no gap (found by `make chaos`)."""
    (tmp_path / "operator").mkdir()
    anchor, fold = Anchor("old", 0, 0), Fold(FoldRules(()))
    lost = LostDeltasError("veilstream.p.delta", Lineage("new", 3, ((0, 0),)), anchor, 7, 0)

    def check_delta(*, compare_end: bool) -> None:
        engine.snapshot = CoordinatorSnapshot(fold, 7, 6, anchor, lost)
        raise lost

    engine: Any = SimpleNamespace(building=None, close=lambda: None, save_last=lambda: None, check_delta=check_delta)
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator._stopping = SimpleNamespace(set=lambda: None, is_set=lambda: False)
    coordinator._thread = SimpleNamespace(shutdown=lambda wait: None)
    coordinator.engine, coordinator.state = engine, "active"
    coordinator.host = SimpleNamespace(output=tmp_path)
    coordinator.status_topic = SimpleNamespace(close=lambda: None)
    coordinator.status = StatusFile(tmp_path, HEARTBEAT)
    coordinator.status.write(CoordinatorSnapshot(fold, 7, 6, anchor, None), "active")
    with pytest.raises(LostDeltasError):
        coordinator._confirm_delta(engine)
    coordinator.close(lost)
    last = read_status(tmp_path)
    assert last is not None
    assert (last["state"], last["delta"]["lost"]) == ("stopped", {"log": "new", "first": 0})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`veilstream run`, which leaves the signals and the logging of this process as they are."""
    monkeypatch.setattr("stream.daemon.roles.signal.signal", lambda *_given: None)
    monkeypatch.setattr("stream.daemon.logs.configure", lambda *_given: None)
    return lambda *arguments: execute(["run", *map(str, arguments)])


def test_a_start_that_fails_replaces_the_reason_of_the_run_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Any
) -> None:
    """Somebody mends what `status` shows; the figures are still those of the run before."""
    config = tmp_path / "c.toml"
    config.write_text('[source]\ntopics = ["t"]\nbootstrap = "127.0.0.1:1"\n')
    for role in ("coordinator", "all"):
        status_of(tmp_path, state="stopped", ended_by="the disk is full", pid=gone(), host="another")
        assert run("-c", config, "-o", tmp_path, "--role", role) == 2
        code, printed = asked(tmp_path, capsys)
        shown = " ".join(printed.split())
        assert code == 4
        assert f"process {os.getpid()} on {socket.gethostname()}, 0 s ago: the coordinator ended: " in shown
        assert "no [[publication]]" in shown
        assert "disk" not in shown
        assert (read_status(tmp_path) or {})["position"] == 7


def test_a_first_start_that_failed_is_thought_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A daemon whose first start fails leaves no status: `status` sent its operator to look for another folder."""
    assert execute(["status", "-o", str(tmp_path)]) == 2
    assert "or its first start failed (read its log)" in " ".join(capsys.readouterr().err.split())


def test_an_ingest_worker_leaves_the_status_of_the_coordinator(tmp_path: Path, run: Any) -> None:
    """Its failure says nothing about the coordinator of the folder."""
    status_of(tmp_path, state="stopped", ended_by="the disk is full", pid=gone())
    config = tmp_path / "c.toml"
    config.write_text("[process]\n")
    assert run("-c", config, "-o", tmp_path, "--role", "ingest") == 2
    assert (read_status(tmp_path) or {})["ended_by"] == "the disk is full"


def test_a_failed_start_leaves_the_status_of_a_coordinator_that_runs(tmp_path: Path) -> None:
    """A second one, started by mistake in the folder of the first, is refused and must not look like its end."""
    (tmp_path / "operator").mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        status_of(tmp_path, pid=running.pid)
        StatusFile(tmp_path).stopped("the folder is in use")
        assert (read_status(tmp_path) or {})["state"] == "active"
        running.communicate(b"\n")
    StatusFile(tmp_path).stopped("the key is missing")
    assert (read_status(tmp_path) or {})["ended_by"] == "the key is missing"
    status_of(tmp_path, host="another", pid=1)
    StatusFile(tmp_path).stopped("the folder is in use")
    assert (read_status(tmp_path) or {})["state"] == "active"


def test_a_state_that_cannot_be_opened_is_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The process ends in the thread that opens its state, before the first status is written."""
    status_of(tmp_path, state="stopped", pid=gone())
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator._stopping = SimpleNamespace(set=lambda: None)
    coordinator._thread = SimpleNamespace(shutdown=lambda wait: None)
    coordinator.engine, coordinator.status = None, StatusFile(tmp_path, HEARTBEAT)
    coordinator._start_is_shown, coordinator.status_topic = False, SimpleNamespace(close=lambda: None)
    coordinator.close(TakenOverError("the ledger is of another process"))
    assert "the coordinator ended: the ledger is of another process" in " ".join(asked(tmp_path, capsys)[1].split())
