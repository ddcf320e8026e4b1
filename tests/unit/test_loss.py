"""Losses of a release by activity, by variant and by case; and the words about them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from connectors import write_log
from models.eventlog import EventLog
from models.utility.loss import loss
from stream.commands import execute


def log_of(traces: list[str]) -> EventLog:
    case = [f"c{k}" for k, trace in enumerate(traces) for _ in trace]
    time = [k * 1000 + place for k, trace in enumerate(traces) for place in range(len(trace))]
    return EventLog.from_events(
        case, [a for trace in traces for a in trace], np.asarray(time, dtype=np.int64) * 10**9, unit="ns"
    )


def test_each_activity_is_counted_in_the_source_and_in_the_release() -> None:
    """Cases and events of the source, events of the release; ordered by cases."""
    found = loss(log_of(["aab", "ab", "ac"]), log_of(["ab", "ab"]), np.asarray([0, 1]))
    rows = {row.activity: (row.cases, row.events, row.released) for row in found.activities}
    assert rows == {"a": (3, 4, 2), "b": (2, 2, 2), "c": (1, 1, 0)}
    assert [row.activity for row in found.activities] == ["a", "b", "c"]
    assert found.kept == 4 / 7
    assert found.lost == ("c",)
    assert (found.variants_in, found.variants_kept) == (3, 1)
    assert found.cases_as_they_were == 1 / 3


def test_a_rare_activity_is_not_counted_as_lost() -> None:
    """Below 5 % of the cases nothing is expected of a release."""
    found = loss(log_of(["ab"] * 97 + ["az"] * 3), log_of(["ab"] * 97))
    assert (found.frequent, found.lost) == (2, ())
    assert found.cases_as_they_were is None


def test_a_replay_says_what_its_last_release_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns `kept` and `acts`, and a warning below .8; 80 columns hold the table."""
    path = tmp_path / "log.xes"
    write_log(log_of(["ab"] * 60 + ["axxxxx", "ayyyyy", "azzzzz"] * 10), path)
    config = tmp_path / "c.toml"
    config.write_text(
        '[[publication]]\nname = "p"\nwindow = { new_cases = 90 }\nmechanism = { kind = "tlkc", L = 1, C = 1 }\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        assert execute(["replay", str(path), "-c", str(config), "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    audit = json.loads((tmp_path / "out/operator/p/000001/audit.json").read_text())["loss"]
    assert audit["kept"] == 150 / 295  # the cut comes with the first of six events of the last case
    assert audit["lost"] == ["x", "y", "z"]
    assert " 0.508 " in shown
    assert " 2/5 " in shown
    assert "warning: p: 0.51 of the events are in the release" in shown
    assert "3 activities of at least 5 % of the cases are missing" in shown


def test_a_dp_release_shows_no_loss_to_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its audit is the operator's; the table of a replay is passed on, and has no column for it."""
    path = tmp_path / "log.xes"
    write_log(log_of(["ab"] * 60), path)
    config = tmp_path / "c.toml"
    config.write_text(
        '[[publication]]\nname = "p"\nwindow = { manual = true }\n'
        'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }\n'
    )
    assert execute(["replay", str(path), "-c", str(config), "-o", str(tmp_path / "out"), "--final"]) == 0
    assert "kept" not in capsys.readouterr().out
    public = (tmp_path / "out/public/p/release-000001/manifest.json").read_text()
    assert "loss" not in public
