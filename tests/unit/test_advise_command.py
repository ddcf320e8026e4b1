"""`veilstream advise`: what it prints, the file it writes, and the exit code if nothing holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import write_log
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.config.sources import load
from stream.run import advise

HOUR = 3_600_000_000_000


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a table is cut, whatever width the terminal of the tests has."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module", autouse=True)
def _replayed_once() -> Iterator[None]:
    """Replay the candidates once for each K: the tests show the same proposal as text, as JSON and as a picture.

    No further K is tried. `test_proposal` has more.
    """
    propose = advise.propose
    proposals: dict[int, Any] = {}

    def remembered(events: EventLog, settings: Any, K: int, *rest: Any, **options: Any) -> Any:
        if K not in proposals:
            proposals[K] = propose(events, settings, K, *rest, **options)
        return proposals[K]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advise, "propose", remembered)
        patch.setattr(advise, "LEAST", ())
        yield


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Forty equal cases, one an hour."""
    owner = np.repeat(np.arange(40), 3)
    times = owner * HOUR + np.tile([0, 1, 2], 40) * 60_000_000_000
    path = tmp_path / "log.csv"
    write_log(
        EventLog.from_events([f"c{case}" for case in owner], ["register", "test", "release"] * 40, times, unit="ns"),
        path,
    )
    return path


def test_the_proposal_is_printed_and_written(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row a candidate, the chosen name, and the configuration; the file holds the same and can be loaded."""
    target = tmp_path / "proposed.toml"
    assert veilstream(["advise", str(log), "--K", "4", "-o", str(target)]) == 0
    shown = capsys.readouterr().out
    (publication,) = load(target).publication
    assert (
        publication.name == "research"
    )  # as that of a replay without a configuration: the documentation continues with it
    assert "as publication research" in shown
    (chosen,) = re.findall(r"^proposed: ([\w-]+),", shown, re.MULTILINE)
    assert f"# {chosen} of veilstream advise" in target.read_text(encoding="utf-8")
    assert target.read_text(encoding="utf-8").strip() in shown
    assert all(name in shown for name in ("cohorts-local-4", "repair-exact-4", "plain-local-4", "dp-variants"))


def test_the_same_as_json(log: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Every candidate with its parameters and worst values; the proposed one holds, and is on the frontier."""
    assert veilstream(["advise", str(log), "--K", "4", "--json"]) == 0
    body: dict[str, Any] = json.loads(capfdbinary.readouterr().out)
    rows = {row["name"]: row for row in body["candidates"]}
    assert len(rows) == len(body["candidates"])
    assert body["proposed"] in body["frontier"]
    assert body["nearest"] is None
    assert rows[body["proposed"]]["holds"]
    assert rows[body["proposed"]]["withheld"] == 0
    assert body["configuration"]


def test_nothing_is_proposed_where_no_candidate_holds(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forty cases cannot hide among a thousand: exit 3, and no file."""
    target = tmp_path / "proposed.toml"
    assert veilstream(["advise", str(log), "--K", "1000", "-o", str(target)]) == 3
    shown = capsys.readouterr().out
    assert "no candidate holds over the series" in shown
    assert "nearest: " in shown
    assert "too few cases for K = 1000: give a longer log or a smaller --K" in shown
    assert not target.exists()


def test_a_proposal_with_a_cut_that_waited_states_it(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is too short for a release at every cut gets a proposal, and the reader learns what to expect."""
    propose = advise.propose

    def waited(*arguments: Any, **options: Any) -> Any:
        trials, best = propose(*arguments, **options)
        assert best is not None
        return trials, replace(best, releases=3, waiting=1)

    monkeypatch.setattr(advise, "propose", waited)
    assert veilstream(["advise", str(log), "--K", "4"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 4 cuts waited for more cases" in shown
    assert "[[publication]]" in shown


def test_a_folder_that_does_not_exist_is_reported_before_the_work(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input: exit 2."""
    assert veilstream(["advise", str(log), "-o", str(tmp_path / "absent" / "proposed.toml")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_the_frontier_is_drawn(log: Path, tmp_path: Path) -> None:
    """A picture with every candidate that released cases; an unknown suffix is reported before the work."""
    assert veilstream(["advise", str(log), "--K", "4", "--plot", str(tmp_path / "frontier.svg")]) == 0
    assert (tmp_path / "frontier.svg").read_text().count("<use") > 5
    assert veilstream(["advise", str(log), "--plot", str(tmp_path / "frontier.txt")]) == 2


def test_a_goal_that_is_none_is_refused(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad usage: exit 2, with the names."""
    assert veilstream(["advise", str(log), "--goal", "fun"]) == 2
    assert "utility, safety, timeliness" in capsys.readouterr().err
