"""advise: candidates, the choice between them, and a proposal that reads back as a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.eventlog import Column, EventLog
from stream.config.settings import Completion, Process, Settings
from stream.config.sources import load
from stream.replay.advise import Trial, as_toml, candidates, propose

SETTINGS = Settings(process=Process(sensitive=("diagnosis",), completion=Completion(log_end=True)))


def _log(cases: int = 40) -> EventLog:
    """Every case registers, is tested and leaves, one an hour; two diagnoses in turn."""
    hour = 3_600_000_000_000
    owner = np.repeat(np.arange(cases), 3)
    times = owner * hour + np.tile([0, 1, 2], cases) * 60_000_000_000
    names = ["register", "test", "release"] * cases
    diagnosis = Column.encode(["flu", "cold"] * (cases // 2))
    ids = [f"c{case}" for case in owner]
    return replace(EventLog.from_events(ids, names, times), case_attributes={"diagnosis": diagnosis})


def test_a_proposal_holds_over_the_series_and_reads_back(tmp_path: Path) -> None:
    """On equal cases the cohorts hold, all bounds are kept, and the file that is proposed is a valid configuration."""
    log = _log()
    seen: list[str] = []
    trials, best = propose(log, SETTINGS, 4, tmp_path / "work", seen.append)
    assert seen == ["cohorts", "series", "single", "local", "sets"]
    assert best is not None
    assert best.candidate.publication.gate.min_ba == 4
    assert min(value for value in best.worst.values() if value is not None) >= 4
    assert all(trial.kept is None or 0 <= trial.kept <= 1 for trial in trials)
    file = tmp_path / "proposed.toml"
    file.write_text(as_toml(SETTINGS, best.candidate.publication), encoding="utf-8")
    read = load(file)
    assert read.publication == (best.candidate.publication,)
    assert read.process.sensitive == ("diagnosis",)


def test_windows_bring_at_least_k_cases() -> None:
    """BA cannot reach K in a window of fewer new cases, so no candidate has one."""
    assert {c.publication.window["new_cases"] for c in candidates(_log(), 10, ())} == {10}
    assert {c.publication.window["new_cases"] for c in candidates(_log(400), 10, ())} == {40}


def test_without_sensitive_attributes_no_share_is_bounded() -> None:
    """C = 1 where there is nothing to protect, one half otherwise."""
    assert {c.publication.mechanism["C"] for c in candidates(_log(), 4, ())} == {1.0}
    assert {c.publication.mechanism["C"] for c in candidates(_log(), 4, ("diagnosis",))} == {0.5}


@pytest.mark.parametrize(
    ("releases", "withheld", "refused", "holds"),
    [(2, 0, "", True), (2, 1, "", False), (0, 0, "", False), (2, 0, "no", False)],
)
def test_what_holds(releases: int, withheld: int, refused: str, holds: bool) -> None:
    """A candidate holds iff every cut became a release and there was one."""
    (first, *_) = candidates(_log(), 4, ())
    assert Trial(first, releases, withheld, 0.5, {}, (), refused).holds is holds
