"""What `status` and `migrate` print for people; their JSON has tests beside the daemon's and the migration's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connectors import read_log
from stream.commands import execute as veilstream
from stream.config.sources import load
from stream.daemon.delta_log import Anchor
from stream.daemon.status import write_status
from stream.fold.fold import Fold
from stream.replay.log_source import log_facts, records_from_log
from stream.runtime.service import ReleaseService


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a table is cut, whatever width the terminal of the tests has."""
    monkeypatch.setenv("COLUMNS", "200")


def coordinator(world: Path, *, lost: bool) -> Path:
    """The folder of a coordinator that took the small log (40 events a record), the second record lost or not."""
    log, output = read_log(world / "log.xes"), world / "out"
    service = ReleaseService(load(world / "config3.toml"), output)
    fold = Fold(service.rules(embedded=True), log_facts(log))
    pseudonyms = service.pseudonyms
    records = list(records_from_log(log, pseudonym=pseudonyms.case, attributes=("ill",), batch=40, key=pseudonyms.id))
    for position, record in records:
        if not (lost and position == records[1][0]):
            for cut in fold.apply(position, record):
                service.decide(fold, cut)
    service.checkpoint(fold)
    last = records[-1][0]
    engine = SimpleNamespace(fold=fold, position=last, saved=last, anchor=Anchor("log"), lost=None)
    write_status(output, cast(Any, engine), "gap" if lost else "ready")
    service.close()
    return output


def test_status_prints_a_row_for_each_publication(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """State and counts; exit 0."""
    output = coordinator(world, lost=False)
    assert veilstream(["status", "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ready, delta offset ")
    assert all(name in shown for name in ("plain", "never", "private"))
    assert str(read_log(world / "log.xes").n_events) in shown
    assert "gap:" not in shown


def test_status_names_what_a_gap_misses(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The offsets of the lost record; exit 4, since nothing is released until the operator decides."""
    output = coordinator(world, lost=True)
    assert veilstream(["status", "-o", str(output)]) == 4
    assert "gap: log/0 misses offsets 40 to 79" in capsys.readouterr().out


def test_migrate_prints_what_lies_where(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each file, and none of them written by --dry-run."""
    output = coordinator(world, lost=False)
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert veilstream(["migrate", "-c", str(world / "config3.toml"), "-o", str(output), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "lies under" in shown
    assert "checkpoints" in shown
    assert {path: path.read_bytes() for path in before} == before
