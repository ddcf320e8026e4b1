"""What `status` and `migrate` print for people; their JSON has tests beside the daemon's and the migration's."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from connectors import read_log
from stream.commands import execute as veilstream
from stream.config.sources import load
from stream.daemon.delta_log import Anchor
from stream.daemon.status import Standing, write_status
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
    with closing(ReleaseService(load(world / "config3.toml"), output)) as service:
        fold = Fold(service.rules(embedded=True), log_facts(log))
        key = service.pseudonyms
        records = list(records_from_log(log, pseudonym=key.case, attributes=("ill",), batch=40, key=key.id))
        for position, record in records:
            if not (lost and position == records[1][0]):
                for cut in fold.apply(position, record):
                    service.decide(fold, cut)
        service.checkpoint(fold)
        last = records[-1][0]
        write_status(output, Standing(fold, last, last, Anchor("log"), None), "gap" if lost else "ready")
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


LONG = "a-publication-whose-name-leaves-no-room-for-any-number-beside-x"


def test_eighty_columns_hold_every_table(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer, no word is cut, reasons stand below; a long name goes on in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    text = (world / "config3.toml").read_text(encoding="utf-8")
    assert 'name = "plain"' in text
    config, output = tmp_path / "long.toml", tmp_path / "out"
    config.write_text(text.replace('name = "plain"', f'name = "{LONG}"'), encoding="utf-8")
    log = str(world / "log.xes")
    assert veilstream(["replay", log, "-c", str(config), "-o", str(output), "--compare"]) in (0, 3)
    for command in (["releases", str(output)], ["verify", str(output)], ["risk", log, "--projection", "all"]):
        assert veilstream(command) == 0
    shown = capsys.readouterr().out
    lines = [line.rstrip() for line in shown.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
    assert "…" not in shown
    assert LONG in "".join(part for line in lines for part in line.split())
    heads = [line.split() for line in lines if line.startswith((" no", "no"))]
    assert any({"status", "kept"} <= set(head) for head in heads)
    assert any({"trigger", "kept", "KA"} <= set(head) for head in heads)


def test_reasons_stand_below_the_table(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A withheld attempt is an x in its row; its reasons are a line of their own, whole."""
    output = tmp_path / "out"
    assert veilstream(["replay", str(world / "log.xes"), "-c", str(world / "config3.toml"), "-o", str(output)]) == 3
    capsys.readouterr()
    assert veilstream(["releases", str(output), "--json"]) == 0
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    refused = ["; ".join(row["reasons"]) for row in attempts if row["status"] == "withheld"]
    assert refused
    assert veilstream(["releases", str(output)]) == 0
    shown = capsys.readouterr().out
    assert [reason for reason in refused if not any(line.endswith(reason) for line in shown.splitlines())] == []


def test_columns_without_a_value_are_left_out(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of releases with noise are told to nobody: no empty columns in their place."""
    output = tmp_path / "out"
    veilstream(["replay", str(world / "log.xes"), "-c", str(world / "config3.toml"), "-o", str(output)])
    capsys.readouterr()
    assert veilstream(["releases", str(output)]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if "status" in line]
    assert any("kept" not in line for line in shown)
    assert any("kept" in line for line in shown)
