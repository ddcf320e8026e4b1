"""The default of `replay`: its windows count completed cases, so no cut is refused before anything could be released.

Shapes of the logs (`benchmarks/_shapes.py`):

* closed problems: 1,487 cases, 6,700 events, 4 activities; they begin over six years and all end in the last months.
* helpdesk: 4,580 cases, 21,000 events, 14 activities; each ends weeks after it was resolved.
* twenty cases: all alike, all different, or with one frequent diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks._shapes import closed_problems_like, helpdesk_like
from models.eventlog import EventLog
from stream.commands import execute
from stream.config.settings import Completion, Process, Settings
from stream.run import presets
from stream.run.replay import Replay, ReplayOutcome, settings_for

HOUR = 3_600_000_000_000


def _cases(traces: list[list[str]], diagnoses: list[str] | None = None) -> EventLog:
    """A case begins each hour, and has an event each minute."""
    ids, names, times = [], [], []
    for case, trace in enumerate(traces):
        for place, activity in enumerate(trace):
            ids.append(f"c{case}")
            names.append(activity)
            times.append(case * HOUR + place * HOUR // 60)
    values = None
    if diagnoses is not None:
        values = {"diagnosis": {f"c{case}": value for case, value in enumerate(diagnoses)}}
    return EventLog.from_events(ids, names, np.asarray(times, dtype=np.int64), case_attributes=values, unit="ns")


def _alike(cases: int = 20) -> EventLog:
    return _cases([["register", "test", "release"]] * cases)


def _different() -> EventLog:
    """Twenty cases that have nothing in common."""
    return _cases([[f"step {case}", f"end {case}"] for case in range(20)])


def _one_diagnosis() -> EventLog:
    """Three of four of the twenty have one diagnosis: C = .5 cannot hold."""
    return _cases([["register", "release"]] * 20, ["flu"] * 15 + ["cold"] * 5)


def _replay(log: EventLog, folder: Path, process: Process | None = None, *, final: bool = False) -> ReplayOutcome:
    settings = settings_for(Settings(process=process or Process()), log)
    return Replay(settings, folder).run(log, final=final)


def _statuses(outcome: ReplayOutcome) -> list[str]:
    """`waits` and `sealed`, or why a cut was refused, in order."""
    rows = []
    for _, decision in outcome.decisions:
        if decision.refused:
            rows.append("; ".join(decision.reasons))
        else:
            rows.append("waits" if decision.waits else decision.status)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "released"), [(closed_problems_like, 10), (helpdesk_like, 11)], ids=["closed problems", "helpdesk"]
)
def test_every_cut_is_a_release(make: Callable[[], EventLog], released: int, tmp_path: Path) -> None:
    """Nothing waits and nothing is refused: a window closes when so many cases are complete.

    1,487 cases are nine windows of 149 and a rest. 4,580 are ten of 458: the last event closes the tenth, and the cases
    that wait for like ones leave in a last cut all the same.
    """
    outcome = _replay(make(), tmp_path, final=True)
    assert _statuses(outcome) == ["sealed"] * released
    assert outcome.decisions[-1][1].audit["trigger"] == "final"
    assert outcome.total()["pending"] == 0
    assert [verdict.verdict for verdict in outcome.verdicts()] == ["SAFE"]
    assert outcome.exit_code == 0


def test_windows_by_started_cases_would_wait_on_closed_problems(tmp_path: Path) -> None:
    """The shape shows the defect that the default had: cuts at which no case is complete."""
    log = closed_problems_like()
    settings = presets.with_default(Settings(), log)
    (default,) = settings.publication
    started = default.model_copy(update={"window": presets.growing_window(log)})
    started = type(default).model_validate(started.model_dump())
    outcome = Replay(settings.model_copy(update={"publication": (started,)}), tmp_path).run(log)
    assert _statuses(outcome)[:5] == ["waits"] * 5


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("make", [_alike, _different, _one_diagnosis])
def test_twenty_cases_are_never_refused(make: Callable[[], EventLog], final: bool, tmp_path: Path) -> None:
    """Twenty alike cases are released. Others wait for more cases, and the verdict says that nothing is out."""
    log = make()
    outcome = _replay(log, tmp_path, Process(sensitive=tuple(log.case_attributes)), final=final)
    statuses = _statuses(outcome)
    if make is _alike:
        assert statuses == ["sealed"]
        assert outcome.exit_code == 0
        return
    assert set(statuses) == {"waits"}
    assert len(statuses) == 1 + final
    assert [verdict.verdict for verdict in outcome.verdicts()] == ["NOTHING RELEASED" if final else "WAITING"]
    assert outcome.exit_code == 3


@pytest.mark.parametrize("final", [False, True])
def test_one_case_waits(final: bool, tmp_path: Path) -> None:
    """No window closes; a last cut at the end of the log has too few cases."""
    outcome = _replay(_alike(1), tmp_path, final=final)
    assert _statuses(outcome) == ["waits"] * final
    assert [verdict.verdict for verdict in outcome.verdicts()] == ["NOTHING RELEASED"]
    assert outcome.exit_code == 3


def test_an_empty_log_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with a header and no row has nothing to replay."""
    empty = tmp_path / "empty.csv"
    empty.write_text("case,activity,time\n", encoding="utf-8")
    assert execute(["replay", str(empty), "-o", str(tmp_path / "out")]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line == f"veilstream: {empty}: the log holds no events"
    assert not (tmp_path / "out").exists()


def test_a_rule_of_completion_decides_which_cases_count(tmp_path: Path) -> None:
    """Without a rule a case is complete after its last event in the log; with one, only by the rule."""
    log = _cases([["register", "release" if case % 2 else "test"] for case in range(80)])
    ruled = Process(completion=Completion(end_activities=("release",)))
    assert len(_replay(log, tmp_path / "none").decisions) == 4
    assert len(_replay(log, tmp_path / "ruled", ruled).decisions) == 2


def test_a_finished_replay_makes_no_new_cuts_when_it_is_repeated(tmp_path: Path) -> None:
    """The last event closed a window, where the state is saved: later cuts keep their names, and noise is paid once."""
    log = _different()
    settings = {
        "process": {"completion": "log_end"},
        "publication": [
            {"name": "p", "window": {"completed_cases": 20}, "mechanism": {"kind": "tlkc-cohorts"}},
            {
                "name": "q",
                "audience": "public",
                "window": {"every": "1h"},
                "start": "1970-01-01T00:00:00Z",
                "mechanism": {"kind": "dp-variants", "epsilon": 1.0, "delta_dp": 1e-6},
            },
        ],
    }
    first, again, third = (Replay(Settings.model_validate(settings), tmp_path).run(log, final=True) for _ in range(3))
    cuts = [decision.cut for _, decision in first.decisions]
    assert sorted(decision.cut for _, decision in again.decisions) == sorted(cuts)
    assert sorted(decision.cut for _, decision in third.decisions) == sorted(cuts)
