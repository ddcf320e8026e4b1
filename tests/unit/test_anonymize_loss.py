"""`veilstream anonymize` says what was lost in the words of `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import write_log
from models.eventlog import EventLog
from stream.commands import execute as run

TRACES = ["ax"] * 4 + ["abcd", "acdb", "adbc", "abdc", "acbd", "adcb"]
"""With K = 10 only `a` is shared: 10 of 32 events stay, and b, c, d, x (40 and 60 % of the cases) are lost."""
WORDS = ["0.31 of the events are in the release", "4 activities of at least 5 % of the cases are missing"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    cases = [f"p{n}" for n, trace in enumerate(TRACES) for _ in trace]
    names = [name for trace in TRACES for name in trace]
    log = EventLog.from_events(cases, names, np.arange(len(names)) * 10**9, unit="ns")
    write_log(log, tmp_path / "source.xes")
    return tmp_path / "source.xes"


def test_anonymize_warns_of_what_replay_warns_of(source: Path, tmp_path: Path, capfd: Any) -> None:
    """The same release by both commands: the same sentences, in JSON and in print."""
    out = str(tmp_path / "out.xes")
    assert run(["anonymize", str(source), "-o", out, "--K", "10", "--json"]) == 0
    alone = json.loads(capfd.readouterr().out)
    assert alone["satisfied"] is True
    assert alone["loss"]["warnings"] == WORDS
    assert sorted(alone["loss"]["lost"]) == ["b", "c", "d", "x"]
    config = tmp_path / "c.toml"
    config.write_text(
        '[process]\nname = "p"\n[[publication]]\nname = "p"\nwindow = { manual = true }\n'
        'mechanism = { kind = "tlkc", K = 10 }\n'
    )
    assert run(["replay", str(source), "-c", str(config), "-o", str(tmp_path / "o"), "--final", "--json"]) == 0
    (release,) = json.loads(capfd.readouterr().out)["releases"]
    assert release["loss"]["warnings"] == WORDS
    assert run(["anonymize", str(source), "-o", out, "--K", "10"]) == 0
    printed = capfd.readouterr().out
    assert all(f"warning: {words}" in printed for words in WORDS)


def test_a_release_that_keeps_everything_is_not_warned_of(source: Path, tmp_path: Path, capfd: Any) -> None:
    """No warning if nothing is lost, and none of a dp release, whose noise it would undo."""
    out = str(tmp_path / "out.xes")
    assert run(["anonymize", str(source), "-o", out, "--K", "1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["loss"]["warnings"] == []
    dp = ["--mechanism", "dp-variants", "--epsilon", "1", "--delta-dp", "0.01"]
    assert run(["anonymize", str(source), "-o", out, *dp, "--json"]) == 0
    assert "loss" not in json.loads(capfd.readouterr().out)
