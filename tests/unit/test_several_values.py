"""Sensitive attributes that change within a case: only the last value is bounded, so every door warns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from models.eventlog import EventLog
from stream.commands import execute
from stream.config.sources import load
from stream.fold.fold import Fold
from stream.fold.records import Delta, Row
from stream.run.service import ReleaseService
from tests.sensitive_daemon import DAY, daemon

WARNING = "60 cases have several values of the sensitive attribute 'diag': C bounds the last value of each case"
DAEMON = daemon(C=0.5, window="new_events = 2")
KEYS = ("case:concept:name", "concept:name", "time:timestamp", "diag")


def write(path: Path, first: str) -> Path:
    """Write 60 cases of A, B and C; A and B have the diagnosis `first`, C has flu or cold by turns."""
    lines = [",".join(KEYS)]
    for case in range(60):
        last = ("flu", "cold")[case % 2]
        for place, activity in enumerate("ABC"):
            diagnosis = last if activity == "C" else first or last
            lines.append(f"c{case},{activity},2025-01-{1 + case % 28:02d}T{case // 28:02d}:{place:02d}:00Z,{diagnosis}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def varying(tmp_path: Path) -> Path:
    return write(tmp_path / "varying.csv", "HIV")


@pytest.fixture
def constant(tmp_path: Path) -> Path:
    return write(tmp_path / "constant.csv", "")


def test_anonymize_warns_in_print_and_json(varying: Path, constant: Path, tmp_path: Path, capfd: Any) -> None:
    words = ["--sensitive", "diag", "--K", "20", "--C", "0.5", "-o", str(tmp_path / "out.csv")]
    assert execute(["anonymize", str(varying), *words]) == 0
    assert f"warning: {WARNING}" in " ".join(capfd.readouterr().out.split())
    assert execute(["anonymize", str(varying), *words, "--json"]) == 0
    (warning,) = json.loads(capfd.readouterr().out)["details"]["warnings"]
    assert warning.startswith(WARNING)
    assert execute(["anonymize", str(constant), *words]) == 0
    assert "several values" not in capfd.readouterr().out


def test_an_engine_warns_as_the_log_in_memory_does(varying: Path, constant: Path, tmp_path: Path, capfd: Any) -> None:
    words = ["--sensitive", "diag", "--K", "20", "--C", "0.5", "--engine", "duckdb"]
    assert execute(["anonymize", str(varying), *words, "-o", str(tmp_path / "varying")]) == 0
    assert f"warning: {WARNING}" in " ".join(capfd.readouterr().out.split())
    assert execute(["anonymize", str(constant), *words, "-o", str(tmp_path / "constant")]) == 0
    assert "several values" not in capfd.readouterr().out


@pytest.mark.parametrize("rows", [1, 4, 8])
@pytest.mark.parametrize("level", ["case", "event"])
def test_a_daemon_logs_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, level: str, rows: int) -> None:
    """Of three cases one has another diagnosis in its second event, which the third cut shows. A cut in the middle of a
    record reads no row behind it."""
    diagnoses = [(0, "flu"), (1, "cold"), (2, "flu"), (0, "flu"), (1, "HIV"), (2, None), (2, "flu"), (1, "cold")]
    path = tmp_path / "veilstream.toml"
    path.write_text(DAEMON, encoding="utf-8")
    service = ReleaseService(load(path), tmp_path / "out")
    try:
        fold = Fold(service.rules(embedded=False))
        events = []
        for offset, (case, diagnosis) in enumerate(diagnoses):
            attributes = None if diagnosis is None else {level: {"diag": diagnosis}}
            events.append(Row(offset, f"c{case}", "a", DAY + offset, attributes=attributes))
        logged = []
        for begin in range(0, len(events), rows):
            last = begin + rows - 1
            record = Delta(
                src="t",
                p=0,
                prev=begin - 1,
                last=last,
                n=rows,
                key=service.pseudonyms.id,
                rows=events[begin : last + 1],
            )
            for cut in fold.apply(begin, record):
                service.attempt(fold, cut)
                fold.decided(cut, released=False)
                logged.append(caplog.text.count("1 case has several values of the sensitive attribute 'diag'"))
        assert logged == [0, 0, 1, 1]
    finally:
        service.close()


def test_replay_warns_beside_its_verdict(varying: Path, constant: Path, tmp_path: Path, capfd: Any) -> None:
    execute(["replay", str(varying), "--sensitive", "diag", "-o", str(tmp_path / "varying")])
    assert f"warning: {WARNING}" in " ".join(capfd.readouterr().out.split())
    execute(["replay", str(constant), "--sensitive", "diag", "-o", str(tmp_path / "constant")])
    assert "several values" not in capfd.readouterr().out


def test_the_python_api_has_the_warning_in_its_notes(varying: Path) -> None:
    release = vs.anonymize(str(varying), sensitive="diag", K=20, C=0.5)
    assert f"warning: {WARNING}" in " ".join(release.summary().split())


def test_inspect_names_the_cases_of_a_column_that_it_proposes_as_sensitive(tmp_path: Path, capfd: Any) -> None:
    log = write(tmp_path / "log.csv", "HIV")
    log.write_text(log.read_text().replace("diag", "diagnosis"))
    assert execute(["inspect", str(log), "--json"]) == 0
    (column,) = (one for one in json.loads(capfd.readouterr().out)["columns"] if one["name"] == "diagnosis")
    assert column["role"] == "sensitive"
    assert "cases with several values: 60, only the last one is bounded" in column["reason"]


def test_missing_values_and_neighbouring_cases_are_no_change() -> None:
    """Cases p (X, none, X), q (Y, Y) and r (none, Z, X): r alone has two values."""
    log = EventLog.from_events(
        list("pppqqrrr"),
        list("abcabcab"),
        np.arange(8),
        unit="s",
        event_attributes={"S": ["X", None, "X", "Y", "Y", None, "Z", "X"]},
    )
    assert log.cases_with_several_values("S") == 1
    assert log.cases_with_several_values("T") == 0
