"""A source renames a sensitive field while earlier cases still have the old one: C bounds nothing of the new cases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilstream as vs
from models.anonymize import sensitive
from models.anonymize.sensitive import warnings_of_late_values, warnings_of_lost_values
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


PARTIAL = "of the sensitive attribute 'diag', and"


def half_lost(n_before: int, n_after: int) -> list[bool]:
    """Return cases with a value, and then cases of which every second one has none: one of two sources lost it."""
    return [True] * n_before + [number % 2 == 0 for number in range(n_after)]


@pytest.mark.parametrize("level", ["case", "event"])
@pytest.mark.parametrize(
    ("has_value", "sentence"),
    [
        (half_lost(80, 80), f"40 of 79 cases from number 82 on have no value {PARTIAL} 0 of the 81 before"),
        (half_lost(80, 6), None),
        (half_lost(0, 160), None),
        ([True] * 900 + [number % 12 > 0 for number in range(600)], None),
        ([number % 3 > 0 for number in range(300)] + half_lost(0, 300), None),
        ([number % 2 > 0 for number in range(80)] + [True] * 80, None),
    ],
    ids=["one-of-two", "few", "always", "below-a-tenth", "no-doubling", "one-that-gained-it"],
)
def test_a_source_that_lost_the_field_is_reported(has_value: list[bool], sentence: str | None, level: str) -> None:
    """As long as another source had it, nothing was said, and C bounded nothing of half of the cases."""
    warnings = warnings_of_lost_values(log_of(has_value, level), ["diag"], K)
    assert [warning.partition(": C bounds")[0].endswith(sentence or "") for warning in warnings] == (
        [True] if sentence else []
    )


@pytest.mark.parametrize(("is_late", "n_warnings"), [(True, 0), (False, 1)])
def test_values_that_come_late_are_not_lost(is_late: bool, n_warnings: int) -> None:
    """Of every second case, the value comes two hours after the begin: half of the last 120 cases wait for it."""
    frame = frame_of([True] * 200 if is_late else half_lost(80, 120), "event")
    number = frame["case:concept:name"].str.removeprefix("c").astype(int)
    if is_late:
        frame.loc[(frame["concept:name"] == "b") & (number % 2 == 0), "time:timestamp"] += pd.Timedelta(hours=2)
    end_of_log = pd.Timestamp(DAY, tz="UTC") + pd.Timedelta(minutes=200)
    from veilstream._logs import given_log

    log = given_log(frame[frame["time:timestamp"] <= end_of_log]).log
    assert len(warnings_of_lost_values(log, ["diag"], K)) == n_warnings


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.9])
def test_the_chance_of_a_partial_loss_is_bounded(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """With a chance of 5 % in the place of one in a million, at most 5 % of logs without any change are reported.

    3,000 logs: a true chance of 5 % exceeds 6.6 % of them once in 10^4 runs. Seeded.
    """
    monkeypatch.setattr(sensitive, "LOST_BY_CHANCE", 0.05)
    monkeypatch.setattr(sensitive, "LEAST_SHARE_LOST", 0.0)
    monkeypatch.setattr(sensitive, "LEAST_RISE", 1)
    random = np.random.default_rng(7)
    n_reported = sum(
        sensitive._cases_before_partial_loss(random.random(60) >= share, 1) is not None for _ in range(3_000)
    )
    assert n_reported <= 0.066 * 3_000


def released(folder: Path, has_field: Sequence[bool], approval: str = "") -> Decision:
    """Release cases with the attribute, and those of a source that renamed the field, as a daemon does."""
    path = folder / "veilstream.toml"
    path.write_text(daemon(K=K, C=0.9) + approval, encoding="utf-8")
    with closing(ReleaseService(sources.load(path), folder / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        rows = []
        for number, has_name in enumerate(has_field):
            field = "diag" if has_name else "diagnosis"
            attributes = {"case": {field: "flu" if number % 2 else "cold"}}
            rows.append(Row(number, f"c{number}", "a", DAY + number, attributes=attributes))
        delta = Delta(src="t", p=0, prev=-1, last=len(rows) - 1, n=len(rows), key=service.pseudonyms.id, rows=rows)
        assert not list(fold.apply(0, delta))
        cut = next(iter(fold.apply(1, Command(name="release"))))
        return service.decide(fold, cut)


@pytest.mark.parametrize(
    ("has_field", "doubt", "n_doubts"),
    [([True] * 40 + [False] * K, LOST, 1), (half_lost(80, 80), PARTIAL, 1), ([True] * 40, "", 0)],
    ids=["all", "one-of-two", "none"],
)
def test_operator_and_officer_see_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_field: list[bool], doubt: str, n_doubts: int
) -> None:
    """Only a log in which no case at all had a value was reported."""
    decision = released(tmp_path, has_field, 'approval = "required"\n')
    assert decision.status == "held"
    assert [doubt in text for text in decision.audit.get("doubts", [])] == [True] * n_doubts
    assert sum(bool(doubt) and doubt in record.getMessage() for record in caplog.records) == n_doubts
    (waiting,) = queue(tmp_path / "out")
    assert sum(doubt in text for name, text in waiting.facts if name == "Doubtful values") == n_doubts


@pytest.mark.parametrize(("n_lost", "n_warnings"), [(20, 1), (0, 0)])
def test_an_export_with_a_renamed_column_is_reported(n_lost: int, n_warnings: int) -> None:
    frame = frame_of([True] * 40 + [False] * n_lost)
    release = vs.anonymize(frame, mechanism="tlkc", sensitive="diag", K=20, L=1, C=0.9)
    assert release.summary().count(LOST) == n_warnings
    assert vs.replay(frame, sensitive="diag").summary().count(LOST) == n_warnings


FIRST = "cases that began first has a value of the sensitive attribute 'diag', and"


@pytest.mark.parametrize("level", ["case", "event"])
@pytest.mark.parametrize(
    ("has_value", "n_warnings"),
    [
        ([False] * K + [True] * 40, 1),
        ([False] * (K - 1) + [True] * 40, 0),
        ([False] * K + [True, False, False, False] * 10, 0),
        ([True] + [False] * K + [True] * 40, 0),
        ([False] * 40, 0),
    ],
    ids=["renamed", "fewer-than-K", "rare", "there-before", "none"],
)
def test_first_cases_without_a_value_are_counted(has_value: list[bool], n_warnings: int, level: str) -> None:
    warnings = warnings_of_late_values(log_of(has_value, level), ["diag"], K)
    assert [f"none of the {K} {FIRST} 40 of 40 cases after them have one" in warning for warning in warnings] == (
        [True] * n_warnings
    )


@pytest.mark.parametrize(("n_first", "n_warnings"), [(60, 1), (0, 0)])
def test_an_export_whose_first_rows_lack_the_column_is_reported(n_first: int, n_warnings: int) -> None:
    """The first releases of a replay had no value to bound, and its verdict was SAFE without a word."""
    frame = frame_of([False] * n_first + [True] * 60)
    release = vs.anonymize(frame, mechanism="tlkc", sensitive="diag", K=20, L=1, C=0.9)
    assert release.summary().count(FIRST) == n_warnings
    assert vs.replay(frame, sensitive="diag").summary().count(FIRST) == n_warnings
