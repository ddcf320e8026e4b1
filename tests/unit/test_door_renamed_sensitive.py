"""A source renames a sensitive field while earlier cases still have the old one: C bounds nothing of the new cases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilstream as vs
from models.anonymize.sensitive import warnings_of_lost_values
from models.eventlog import EventLog
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Row
from stream.operator.console.releases import queue
from stream.release.contract import Decision
from stream.run.service import ReleaseService
from tests.sensitive_daemon import DAY, daemon

LOST = "cases that began last has a value of the sensitive attribute 'diag', and"
K = 4


def frame_of(has_value: Sequence[bool], level: str = "case") -> pd.DataFrame:
    """Return a log of one case a minute, in another order than that of their begins."""
    rows = []
    for number in reversed(range(len(has_value))):
        for step in range(2):
            # At the level of events, only the second event has the value.
            is_shown = has_value[number] and (level == "case" or step == 1)
            rows.append(
                {
                    "case:concept:name": f"c{number}",
                    "concept:name": "ab"[step],
                    "time:timestamp": pd.Timestamp(DAY, tz="UTC") + pd.Timedelta(minutes=number, seconds=step),
                    "case:diag" if level == "case" else "diag": ("flu", "cold")[number % 2] if is_shown else None,
                }
            )
    return pd.DataFrame(rows)


def log_of(has_value: Sequence[bool], level: str = "case") -> EventLog:
    from veilstream._logs import given_log

    return given_log(frame_of(has_value, level)).log


@pytest.mark.parametrize("level", ["case", "event"])
@pytest.mark.parametrize(
    ("has_value", "n_lost"),
    [
        ([True] * 40 + [False] * K, 1),
        ([True] * 40 + [False] * (K - 1), 0),
        ([True] * 40 + [False] * K + [True], 0),
        ([False] * K + [True] * 40, 0),
        ([True, False, False, False] * 10 + [False] * K, 0),
        ([True] * 40, 0),
        ([False] * 40, 0),
    ],
    ids=["renamed", "fewer-than-K", "still-there", "begun-later", "rare", "all", "none"],
)
def test_newest_cases_without_a_value_are_counted(has_value: list[bool], n_lost: int, level: str) -> None:
    """Cases are taken in the order of their begins, and a rare value is missing by chance."""
    warnings = warnings_of_lost_values(log_of(has_value, level), ["diag"], K)
    assert [f"none of the {K} {LOST} 40 of 40 cases before them have one" in warning for warning in warnings] == [
        True
    ] * n_lost


def test_open_cases_may_get_their_value_later() -> None:
    log = log_of([True] * 40 + [False] * K)
    is_open = np.array([not int(name[1:]) < 40 for name in log.case_ids])
    assert warnings_of_lost_values(log, ["diag"], K, ~is_open) == []
    # Without a rule of completion no case is complete, and all of them are looked at.
    assert len(warnings_of_lost_values(log, ["diag"], K, np.zeros(log.n_cases, dtype=np.bool_))) == 1


def released(folder: Path, renamed: int, approval: str = "") -> Decision:
    """Release 40 cases with the attribute and some with another field, as a daemon does."""
    path = folder / "veilstream.toml"
    path.write_text(daemon(K=K, C=0.9) + approval, encoding="utf-8")
    with closing(ReleaseService(sources.load(path), folder / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        rows = []
        for number in range(40 + renamed):
            field = "diag" if number < 40 else "diagnosis"
            attributes = {"case": {field: "flu" if number % 2 else "cold"}}
            rows.append(Row(number, f"c{number}", "a", DAY + number, attributes=attributes))
        delta = Delta(src="t", p=0, prev=-1, last=len(rows) - 1, n=len(rows), key=service.pseudonyms.id, rows=rows)
        assert not list(fold.apply(0, delta))
        cut = next(iter(fold.apply(1, Command(name="release"))))
        return service.decide(fold, cut)


@pytest.mark.parametrize(("renamed", "n_doubts"), [(K, 1), (0, 0)])
def test_operator_and_officer_see_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, renamed: int, n_doubts: int
) -> None:
    """Only a log in which no case at all had a value was reported."""
    decision = released(tmp_path, renamed, 'approval = "required"\n')
    assert decision.status == "held"
    assert [LOST in doubt for doubt in decision.audit.get("doubts", [])] == [True] * n_doubts
    assert caplog.text.count(LOST) == n_doubts
    (waiting,) = queue(tmp_path / "out")
    assert sum(LOST in text for name, text in waiting.facts if name == "Doubtful values") == n_doubts


@pytest.mark.parametrize(("n_lost", "n_warnings"), [(20, 1), (0, 0)])
def test_an_export_with_a_renamed_column_is_reported(n_lost: int, n_warnings: int) -> None:
    frame = frame_of([True] * 40 + [False] * n_lost)
    release = vs.anonymize(frame, mechanism="tlkc", sensitive="diag", K=20, L=1, C=0.9)
    assert release.summary().count(LOST) == n_warnings
    assert vs.replay(frame, sensitive="diag").summary().count(LOST) == n_warnings
