"""Output of `status` and `migrate` for people; their JSON has tests next to those of daemon and migration."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.commands import execute as veilstream
from stream.commands import releases, replay, verify
from stream.commands._output import filled, show_reasons, tables
from stream.config.sources import load
from stream.daemon.delta_topic import Anchor
from stream.daemon.status import CoordinatorSnapshot, StatusFile
from stream.fold.fold import Fold
from stream.run.log_source import log_facts, records_from_log
from stream.run.service import ReleaseService


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
        StatusFile(output).write(CoordinatorSnapshot(fold, last, last, Anchor("log"), None), "gap" if lost else "ready")
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


def test_migrate_prints_a_row_for_each_file(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each file, and none of them written by --dry-run."""
    output = coordinator(world, lost=False)
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert veilstream(["migrate", "-c", str(world / "config3.toml"), "-o", str(output), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "protection" in shown
    assert "checkpoints" in shown
    assert {path: path.read_bytes() for path in before} == before


REPLAYED = ("x", "2025-02-22T13:14", "completed_cases", 20412, 106630, "0.334", "7/10", 177, 20, 20, 20)
LISTED = (10, "published", "2025-02-22T13:14", "completed_cases", 20412, 106630, "0.334")
CHECKED = ("plain", 10, 10, 1, 1, 1, 1, 1, "3.5", "7e-06")


@pytest.mark.parametrize(
    ("names", "row"), [(replay.HEAD, REPLAYED), (releases.HEAD, LISTED), (("publication", *verify.COUNTS), CHECKED)]
)
def test_eighty_columns_divide_no_word_of_a_table(
    names: tuple[str, ...], row: tuple[Any, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headings, moments and triggers are whole where every column has a value: one space is between them then."""
    monkeypatch.setenv("COLUMNS", "80")
    tables().print(filled(names, [row], title="", word_columns=1))
    shown = capsys.readouterr().out
    head, values = (line.split() for line in shown.splitlines() if line.split() and "─" not in line)
    assert (head, values) == (list(names), [str(value) for value in row])
    assert max(map(len, shown.splitlines())) <= 80


def test_equal_reasons_stand_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With how often, and from when to when; a reason that was given once keeps its number and moment."""
    monkeypatch.setenv("COLUMNS", "80")
    rows = [("withheld", f"2025-01-0{day}T00:00", "ka: 3 < 5") for day in (1, 2, 3)]
    rows.insert(1, ("2", "2025-01-01T12:00", "repaired, since ba: 1 < 5"))
    show_reasons(tables(), [*rows, ("3", "2025-01-04T00:00", "")])
    assert capsys.readouterr().out.splitlines() == [
        "  withheld, 3 times, 2025-01-01T00:00 to 2025-01-03T00:00: ka: 3 < 5",
        "  2, 2025-01-01T12:00: repaired, since ba: 1 < 5",
    ]


def test_many_numbers_of_one_reason_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six are named; their rows are above."""
    monkeypatch.setenv("COLUMNS", "200")
    show_reasons(tables(), [(str(number), f"t{number}", "warned") for number in range(1, 10)])
    assert capsys.readouterr().out == "  1, 2, 3, 4, 5, 6 and 3 more, 9 times, t1 to t9: warned\n"


LONG = "a-publication-whose-name-leaves-no-room-for-any-number-beside-x"


def test_eighty_columns_hold_every_table(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer, no word is cut, reasons are below; a long name continues in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    text = (world / "config3.toml").read_text(encoding="utf-8")
    assert 'name = "plain"' in text
    config, output = tmp_path / "long.toml", tmp_path / "out"
    config.write_text(text.replace('name = "plain"', f'name = "{LONG}"'), encoding="utf-8")
    log = str(world / "log.xes")
    assert veilstream(["replay", log, "-c", str(config), "-o", str(output), "--compare"]) in (0, 3)
    for command in (["releases", str(output)], ["verify", str(output)], ["risk", log, "--projection", "all"]):
        # `never` has released nothing, which is exit 3 where verdicts are shown
        assert veilstream(command) == (3 if command[0] == "releases" else 0)
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
    assert veilstream(["releases", str(output), "--json"]) == 3  # `never` has released nothing
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    refused = ["; ".join(row["reasons"]) for row in attempts if row["status"] == "withheld"]
    assert refused
    assert veilstream(["releases", str(output)]) == 3  # `never` has released nothing
    shown = capsys.readouterr().out
    assert [reason for reason in refused if not any(line.endswith(reason) for line in shown.splitlines())] == []


def test_columns_without_a_value_are_left_out(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of releases with noise are reported to nobody: no empty columns in their place."""
    output = tmp_path / "out"
    veilstream(["replay", str(world / "log.xes"), "-c", str(world / "config3.toml"), "-o", str(output)])
    capsys.readouterr()
    assert veilstream(["releases", str(output)]) == 3  # `never` has released nothing
    shown = [line for line in capsys.readouterr().out.splitlines() if "status" in line]
    assert any("kept" not in line for line in shown)
    assert any("kept" in line for line in shown)
