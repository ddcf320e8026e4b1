"""advise: candidates, the choice between them, and a proposal that reads back as a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.eventlog import Column, EventLog
from stream.commands.advise import candidate_row
from stream.config.settings import Completion, Process, Settings
from stream.config.sources import load
from stream.release.gate import GatePolicy
from stream.run import advise
from stream.run.advise import CandidateTrial, as_toml, candidates, frontier, nearest, propose

SETTINGS = Settings(process=Process(sensitive=("diagnosis",), completion=Completion(log_end=True)))


def _log(cases: int = 40) -> EventLog:
    """Every case registers, is tested and leaves, one an hour; two diagnoses in turn."""
    hour = 3_600_000_000_000
    owner = np.repeat(np.arange(cases), 3)
    times = owner * hour + np.tile([0, 1, 2], cases) * 60_000_000_000
    names = ["register", "test", "release"] * cases
    diagnosis = Column.encode(["flu", "cold"] * (cases // 2))
    ids = [f"c{case}" for case in owner]
    return replace(EventLog.from_events(ids, names, times, unit="ns"), case_attributes={"diagnosis": diagnosis})


def test_each_kind_is_tried_with_each_k() -> None:
    """The K that is asked for, 10 and 20. Noise has no K."""
    names = [candidate.publication.name for candidate in candidates(_log(), 4, ())]
    of_groups = ["cohorts-local", "cohorts-exact", "repair-local", "repair-exact", "plain-local", "plain-exact"]
    assert names == [
        *(f"{name}-{least}" for least in (20, 10, 4) for name in of_groups),
        "dp-variants",
        "dp-synthetic",
    ]


def test_a_proposal_holds_over_the_series_and_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On equal cases the cohorts hold, all bounds are kept, and the file that is proposed is a valid configuration."""
    monkeypatch.setattr(advise, "LEAST", (20,))
    log = _log()
    seen: list[str] = []
    trials, best = propose(log, SETTINGS, 4, tmp_path / "work", seen.append)
    assert len(seen) == len(set(seen)) == len(trials)
    assert {
        "cohorts-local-4",
        "cohorts-local-20",
        "repair-exact-4",
        "plain-exact-20",
        "dp-variants",
        "dp-synthetic",
    } <= set(seen)
    assert best is not None
    assert best.candidate.publication.gate.min_ba == 4
    assert min(value for value in best.worst.values() if value is not None) >= 4
    assert all(trial.kept is None or 0 <= trial.kept <= 1 for trial in trials)
    file = tmp_path / "proposed.toml"
    file.write_text(as_toml(SETTINGS, best.candidate.publication), encoding="utf-8")
    read = load(file)
    assert read.publication == (best.candidate.publication.model_copy(update={"name": "research"}),)
    assert read.process.sensitive == ("diagnosis",)


def test_windows_bring_at_least_k_cases() -> None:
    """BA cannot reach K in a window of fewer new cases, so no candidate has one. Cohorts count completed cases."""
    for log, tenth in ((_log(), 4), (_log(400), 40)):
        for candidate in candidates(log, 10, ()):
            counted = "completed_cases" if candidate.publication.name.startswith("cohorts") else "new_cases"
            assert candidate.publication.window == {counted: max(candidate.least or 20, tenth)}


@pytest.mark.parametrize(("cases", "brought"), [(400, 40), (402, 41), (1000, 100), (1008, 101), (40, 10)])
def test_completed_cases_leave_no_few_at_the_end(cases: int, brought: int) -> None:
    """Cut by completed cases at K = 10: none or at least 30 are left when the log ends (402 = 9 * 41 + 33)."""
    (one,) = [c for c in candidates(_log(cases), 10, ()) if c.publication.name == "cohorts-local-10"]
    assert one.publication.window == {"completed_cases": brought}


def test_without_sensitive_attributes_no_share_is_bounded() -> None:
    """C = 1 if there is nothing to protect, one half otherwise."""
    assert {c.publication.mechanism.get("C", 1.0) for c in candidates(_log(), 4, ())} == {1.0}
    assert {c.publication.mechanism.get("C", 0.5) for c in candidates(_log(), 4, ("diagnosis",))} == {0.5}
    assert {c.publication.mechanism.get("C", 0.7) for c in candidates(_log(), 4, ("diagnosis",), 0.7)} == {0.7}


@pytest.mark.parametrize(
    ("releases", "withheld", "refused", "holds"),
    [(2, 0, "", True), (2, 1, "", True), (0, 0, "", False), (2, 0, "no", False)],
)
def test_what_holds(releases: int, withheld: int, refused: str, holds: bool) -> None:
    """A candidate holds iff something was released, as `replay` says; proposed is one of which every cut was."""
    (first, *_) = candidates(_log(), 4, ())
    found = CandidateTrial(first, releases, withheld, 0.5, {}, (), refused, verdict="SAFE")
    assert (found.holds, found.proposable) == (holds, holds and not withheld)


def test_a_cut_that_waits_is_not_withheld_and_keeps_a_candidate_from_being_proposed() -> None:
    """`advise --json` counts the two apart, as `replay` does."""
    (first, *_) = candidates(_log(), 4, ())
    trial = CandidateTrial(first, 2, 0, 0.5, {}, ("waits",), verdict="SAFE", waiting=1)
    assert (trial.holds, trial.proposable, trial.unreleased) == (True, False, 1)
    assert (candidate_row(trial)["withheld"], candidate_row(trial)["waiting"]) == (0, 1)


def test_what_holds_for_people_who_do_not_know_the_rules_is_not_proposed() -> None:
    """LIMITED is not a proposal, whatever bounds were set."""
    (first, *_) = candidates(_log(), 4, ())
    found = CandidateTrial(first, 2, 0, 0.5, {}, (), verdict="LIMITED")
    assert (found.holds, found.proposable) == (True, False)


def _trial(
    name: str, kept: float, wait: float, gate: dict[str, int], *, least: int = 20, withheld: int = 0
) -> CandidateTrial:
    (first, *_) = candidates(_log(), 20, ())
    renamed = first.publication.model_copy(update={"name": name, "gate": GatePolicy(**gate)})
    one = replace(first, publication=renamed, least=least)
    return CandidateTrial(one, 10, withheld, kept, {}, ("too few cases",) * bool(withheld), wait_days=wait)


ALL = {"min_ka": 20, "min_fa": 20, "min_ca": 20, "min_ba": 20}


def test_the_frontier_leaves_out_what_another_one_beats() -> None:
    """Less kept and a longer wait than another: out. Candidates that hold for one release alone, or that withheld a
    cut, are excluded."""
    trials = [
        _trial("most", 0.9, 10, ALL),
        _trial("soon", 0.7, 1, ALL),
        _trial("beaten", 0.6, 2, ALL),
        _trial("alone", 0.99, 0, {"min_ka": 20}),
        _trial("withheld", 0.99, 0, ALL, withheld=1),
    ]
    assert [trial.candidate.publication.name for trial in frontier(trials)] == ["most", "soon"]


def _served(monkeypatch: pytest.MonkeyPatch, trials: list[CandidateTrial]) -> None:
    """`propose` meets these trials, in this order."""
    found = iter(trials)
    monkeypatch.setattr(advise, "candidates", lambda *_: [trial.candidate for trial in trials])
    monkeypatch.setattr(advise, "attempt", lambda *_: next(found))


def test_nothing_is_proposed_that_holds_for_single_releases_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No silent fall back: the nearest is the series trial with the fewest cuts withheld."""
    refused = [_trial(f"w{cuts}", 0.5, 1, ALL, withheld=cuts) for cuts in (3, 1, 2)]
    _served(monkeypatch, [_trial("alone", 0.9, 1, {"min_ka": 20}), *refused])
    trials, best = propose(_log(), SETTINGS, 20, tmp_path)
    assert best is None
    near = nearest(trials, 20)
    assert near is not None
    assert near.candidate.publication.name == "w1"


def test_a_candidate_that_only_waited_is_proposed_if_none_released_at_every_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut that waits breaks no bound; one that was withheld does. A release at every cut comes first."""
    waited = replace(_trial("waited", 0.8, 2, ALL), waiting=1, verdict="SAFE")
    limited = replace(_trial("limited", 0.9, 2, ALL), waiting=1, verdict="LIMITED")
    withheld = _trial("withheld", 0.9, 2, ALL, withheld=1)
    alone = _trial("alone", 0.99, 1, {"min_ka": 20})
    for others, name in (([], "waited"), ([_trial("every", 0.5, 9, ALL)], "every")):
        _served(monkeypatch, [alone, limited, withheld, waited, *others])
        _, best = propose(_log(), SETTINGS, 20, tmp_path / name)
        assert best is not None
        assert best.candidate.publication.name == name


@pytest.mark.parametrize(("goal", "name"), [("utility", "keeps"), ("safety", "safest"), ("timeliness", "soonest")])
def test_a_goal_decides_between_what_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: advise.Goal, name: str
) -> None:
    """Most kept, the largest K, or the shortest wait; never below the K asked for."""
    _served(
        monkeypatch,
        [
            _trial("keeps", 0.9, 9, ALL),
            _trial("safest", 0.8, 9, ALL, least=40),
            _trial("soonest", 0.7, 1, ALL),
            _trial("weaker", 0.99, 0, ALL, least=10),
        ],
    )
    _, best = propose(_log(), SETTINGS, 20, tmp_path, goal=goal)
    assert best is not None
    assert best.candidate.publication.name == name


def test_a_frequent_activity_that_is_lost_counts_more_than_a_few_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.02 of the events do not outweigh an activity that 5 % of the cases have; .1 do."""
    lossy = replace(_trial("lossy", 0.92, 1, ALL), loses=("scan",))
    for kept, name in ((0.9, "whole"), (0.82, "lossy")):
        _served(monkeypatch, [lossy, _trial("whole", kept, 9, ALL)])
        _, best = propose(_log(), SETTINGS, 20, tmp_path / name)
        assert best is not None
        assert best.candidate.publication.name == name
