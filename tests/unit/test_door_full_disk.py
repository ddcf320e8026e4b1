"""A lock that is held and a disk that is full: a daemon ends with 1, in one line, and a later start continues."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.kafka.source import Source
from models.errors import RefusedError, UnavailableError, VeilstreamError
from stream.commands import execute
from stream.config.settings import Settings
from stream.daemon import coordinator as coordinators
from stream.daemon.coordinator import Coordinator
from stream.daemon.roles import ending
from stream.daemon.state_machine import CoordinatorContext
from stream.daemon.status import StatusFile
from stream.daemon.worker_status import WorkerStatusFile, stopped_partitions
from stream.ledger import release_record
from stream.ledger.folder import OperatorFolder, create_key
from stream.ledger.sqlite import SqliteLedger
from stream.release import audit_document
from stream.run.exporter import Metrics
from tests.entries import entry
from tests.unit.test_pipeline_rules import _attempt, _service, _settings


def _full(*_arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "operator/checkpoints/state")


def _context(output: Path) -> CoordinatorContext:
    settings = Settings.model_validate({"process": {"name": "p"}})
    return CoordinatorContext(settings, Source(topics=("t",)), output, (("t", 0),))


def test_a_standby_whose_folder_stays_locked_ends_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator that hangs has the lock of the shared folder. With 4 nobody would start this one again, and
    nobody would take over when the other one is ended."""
    monkeypatch.setattr(coordinators, "LOCK_SECONDS", 0.0)
    folder = OperatorFolder(tmp_path)
    try:
        standby = Coordinator(SimpleNamespace(), _context(tmp_path))  # type: ignore[arg-type]
        with pytest.raises(VeilstreamError, match="another veilstream process") as ended:
            standby._active()
    finally:
        folder.close()
    assert ended.value.exit_code == 1
    assert "operator/lock" in str(ended.value)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.EROFS])
def test_a_full_disk_ends_a_daemon_in_one_line(code: int, caplog: pytest.LogCaptureFixture) -> None:
    """Exit code 1 and no stack trace: nothing is wrong with the program, and the log of a host may be read by many."""

    def work() -> None:
        raise OSError(code, os.strerror(code), "operator/checkpoints/state")

    with caplog.at_level(logging.INFO, "veilstream"):
        assert ending(work, Path("out")) == 1
    (record,) = caplog.records
    assert record.exc_info is None
    assert "operator/checkpoints/state" in record.getMessage()
    assert os.strerror(code) in record.getMessage()
    assert ("free some space" in record.getMessage()) == (code != errno.EROFS)


def test_a_full_disk_without_a_file_in_its_error_names_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A write to an open file names none: the line said "the disk", and a host has several."""

    def write(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert ending(write, tmp_path) == 1
    assert f"stops: {tmp_path}: No space left on device" in caplog.text
    coordinator = Coordinator(SimpleNamespace(), _context(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(VeilstreamError, match=f"{tmp_path}: No space left on device"):
        asyncio.run(coordinator._run(write))


def test_an_ingest_worker_continues_while_its_status_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its work needs no disk. It crashed with a stack, and a restart crashed again: no event came in any more."""
    status, put = WorkerStatusFile(tmp_path, heartbeat=5.0), Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", _full)
    for _beat in range(3):
        status.write(["orders/3 at offset 5"])
    (record,) = caplog.records
    assert "cannot be written (No space left on device)" in record.getMessage()
    assert stopped_partitions(tmp_path, time.time()) == []
    monkeypatch.setattr(Path, "write_bytes", put)
    status.write(["orders/3 at offset 5"])
    assert stopped_partitions(tmp_path, time.time()) == ["orders/3 at offset 5"]


def test_a_write_that_was_cut_off_is_no_foreign_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk leaves one. `verify` said that it is not veilstream's."""
    settings = _settings({"mechanism": {"kind": "identity"}})
    with _service(tmp_path, settings) as service:
        service.decide_attempt("p", _attempt())
    leftover = tmp_path / "out" / "operator" / "started_build.json.new"
    leftover.touch()
    assert execute(["verify", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "operator/started_build.json.new: a write that was cut off; the next start removes it" in shown
    with _service(tmp_path, settings):
        assert not leftover.exists()


def test_a_start_on_a_disk_that_became_read_only_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with 2, as for a wrong path, with which a container waits for ever, though the disk was mended."""

    def refuse(path: object, *_arguments: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", refuse)
        with pytest.raises(UnavailableError, match="start again when the disk can be written") as ended:
            OperatorFolder(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(UnavailableError, match=r"key: Read-only file system") as no_key:
            create_key(tmp_path / "key")
    assert (ended.value.exit_code, no_key.value.exit_code) == (1, 1)
    OperatorFolder(tmp_path / "out").close()


def test_another_error_of_the_system_keeps_its_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong assumption of the program is found by its stack only."""

    def work() -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x")

    with caplog.at_level(logging.INFO, "veilstream"):
        assert ending(work, Path("out")) == 1
    assert caplog.records[0].exc_info


def _full_database() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA max_page_count = 1")
        db.execute("CREATE TABLE entries(body BLOB)")


@pytest.mark.parametrize("fails", [_full, _full_database])
def test_a_step_of_the_coordinator_that_finds_the_disk_full_is_an_expected_error(
    tmp_path: Path, fails: Callable[[], None]
) -> None:
    """The application framework logs every other error with its stack before the process ends."""
    coordinator = Coordinator(SimpleNamespace(), _context(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(VeilstreamError, match=r"full|No space left") as ended:
        asyncio.run(coordinator._run(fails))
    assert ended.value.exit_code == 1


def test_a_status_that_cannot_be_written_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is written by the timer too, also of a process that is just ending for a reason of its own."""
    (tmp_path / "operator").mkdir()
    status = StatusFile(tmp_path)
    put = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", _full)
    with caplog.at_level(logging.WARNING, "veilstream"):
        for _beat in range(3):
            status._put({"state": "active"})
    assert len(caplog.records) == 1
    monkeypatch.setattr(Path, "write_bytes", put)
    status._put({"state": "active"})
    assert (tmp_path / "operator" / "status.json").exists()


def test_a_ledger_on_a_full_disk_can_be_tried_again(tmp_path: Path) -> None:
    """SQLite's own "database or disk is full": with space, the same ledger takes the entry."""
    with closing(SqliteLedger(tmp_path / "ledger.sqlite", "p")) as ledger:
        ledger._db.execute("PRAGMA max_page_count = 1")
        large = entry("note", publication="", body={"missing": ["x" * 1_000_000]})
        with pytest.raises(VeilstreamError, match="cannot be written") as ended:
            ledger.append(large)
        assert ended.value.exit_code == 1
        ledger._db.execute("PRAGMA max_page_count = 1000000")
        ledger.append(large)
        assert ledger.count() == 1


def test_a_ledger_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """That is not about space: a person has to look at it."""
    with closing(SqliteLedger(tmp_path / "ledger.sqlite", "p")) as ledger:
        ledger._db.execute("DROP TABLE entries")
        with pytest.raises(RefusedError, match="cannot be written"):
            ledger.append(entry("note", publication=""))


def test_too_few_descriptors_are_no_reason_for_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the operator that cannot be opened now is whole: a later start reads it."""

    def short(*_arguments: Any, **_options: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Path, "read_bytes", short)
    monkeypatch.setattr("pyarrow.parquet.read_table", short)
    for read in (
        lambda: audit_document.read_audit(tmp_path),
        lambda: release_record.read(tmp_path / "variants.parquet"),
    ):
        with pytest.raises(VeilstreamError) as ended:
            read()
        assert ended.value.exit_code == 1
        assert "backup" not in str(ended.value)


def test_the_free_space_is_exported_for_each_place_and_asked_at_each_scrape(tmp_path: Path) -> None:
    """Also before the folder exists, and while a process is only a standby."""
    metrics = Metrics("p", live=True)
    registry = metrics.registry
    free = {"operator": 5000.0}
    metrics.free_space("operator", lambda: free["operator"])
    metrics.free_bound(64)
    labels = {"process": "p", "place": "operator"}
    assert registry.get_sample_value("veilstream_free_bytes", labels) == 5000.0
    free["operator"] = 70.0
    assert registry.get_sample_value("veilstream_free_bytes", labels) == 70.0
    assert registry.get_sample_value("veilstream_free_bound_bytes", {"process": "p"}) == 64


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_a_command_that_fills_the_disk_names_its_folder_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """Libraries that write leave the file out of their error: "the disk" is one of several on a server."""

    def full(*_arguments: Any, **_options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\n1,a,2024-01-01T00:00:00Z\n")
    monkeypatch.setattr(OperatorFolder, "__init__", full)
    assert execute(["replay", str(log), option, str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path / 'out'}: No space left on device; free some space" in error
