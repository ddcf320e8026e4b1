"""Words that exports write for a missing value, as sensitive values and as activities of a daemon: every door warns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from models.anonymize.sensitive import (
    class_columns,
    is_numeric,
    refuse_infeasible,
    warnings_of_missing_words,
    warnings_of_mixed_numbers,
)
from models.anonymize.values import written
from models.anonymize.violations import TlkcBounds
from models.errors import InputError
from models.eventlog import EventLog
from stream.commands import execute
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Row
from stream.run.service import ReleaseService
from tests.sensitive_daemon import DAY, daemon

SHARE = "exports write for a missing one (NULL): C bounds its share like that of any other value"
NUMBERS = "with it the attribute is no number, so C bounds each single number and no range of them"
DAEMON = daemon()


def write(path: Path, values: Sequence[str]) -> Path:
    """Write 60 cases of A and B, which have these sensitive values by turns."""
    lines = ["case:concept:name,concept:name,time:timestamp,diag"]
    for case in range(60):
        for place, activity in enumerate("AB"):
            moment = f"2025-01-{1 + case % 28:02d}T{case // 28:02d}:{place:02d}:00Z"
            lines.append(f"c{case},{activity},{moment},{values[case % len(values)]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("engine", [[], ["--engine", "duckdb"]], ids=["memory", "duckdb"])
def test_anonymize_warns(tmp_path: Path, capfd: Any, engine: list[str]) -> None:
    """Of a third of the cases nobody knows the value. In a log whose fields are empty instead, nothing is warned of."""
    words = ["--sensitive", "diag", "--K", "5", "--C", "0.9", *engine]
    log = write(tmp_path / "words.csv", ["flu", "cold", "NULL"])
    assert execute(["anonymize", str(log), *words, "-o", str(tmp_path / "words"), "--json"]) == 0
    (warning,) = json.loads(capfd.readouterr().out)["details"]["warnings"]
    assert warning.startswith("20 cases have a value of the sensitive attribute 'diag' that " + SHARE)
    log = write(tmp_path / "empty.csv", ["flu", "cold", ""])
    assert execute(["anonymize", str(log), *words, "-o", str(tmp_path / "empty")]) == 0
    assert "missing one" not in capfd.readouterr().out


def test_replay_and_the_python_api_warn(tmp_path: Path, capfd: Any) -> None:
    log = write(tmp_path / "words.csv", ["flu", "cold", "NULL"])
    execute(["replay", str(log), "--sensitive", "diag", "-o", str(tmp_path / "out")])
    assert SHARE in " ".join(capfd.readouterr().out.split())
    assert SHARE in " ".join(vs.anonymize(str(log), sensitive="diag", K=5, C=0.9).summary().split())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["34", "NULL", "51"], NUMBERS),
        ([34, 51, "n/a"], NUMBERS),
        (["34,5", "NULL", "51,0"], NUMBERS),
        (["flu", " none ", "cold"], "(none): C bounds its share"),
        (["flu", "  ", "nan"], "(nan): C bounds its share"),
        (["flu", "  ", "cold"], None),
        ([34, "", 51], f"(an empty text): {NUMBERS}"),
        (["flu", "Nancy", None], None),
        ([34, 51, None], None),
    ],
)
def test_a_word_among_numbers_does_more_harm(values: list[Any], said: str | None) -> None:
    """The ranges of the numbers would be bounded, and are not: each number is a class of its own."""
    log = EventLog.from_traces([("ab", value) for value in values], "S")
    warnings = warnings_of_missing_words(log, ["S", "absent"])
    assert [said in warning for warning in warnings] == ([] if said is None else [True])  # type: ignore[operator]
    assert warnings_of_missing_words(log, ["S"], {"S": (40.0,)}) == []


BESIDE = "that is no number, beside numbers: all its values are texts then"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([Decimal("34.5"), "<5"], f"1 case has a value of the sensitive attribute 'S' {BESIDE}"),
        ([34, "12", 36], f"1 case has a value of the sensitive attribute 'S' {BESIDE}"),
        ([34, "<5", "<5"], f"2 cases have a value of the sensitive attribute 'S' {BESIDE}"),
        ([34.5, True, False], f"2 cases have a value of the sensitive attribute 'S' {BESIDE}"),
        (["1,5", "2", None], "2 cases have a value of the sensitive attribute 'S' that is a number written as text"),
        (["12.50", "3"], "2 cases have a value of the sensitive attribute 'S' that is a number written as text: all"),
        (["3", "4"] * 9 + ["<5"], f"1 case has a value of the sensitive attribute 'S' {BESIDE}"),
        ([34, 36.5, None], None),  # JSON writes 36.0 as 36
        ([34, "", 36], None),  # a word for a missing value has a warning of its own
        (["401.9", "V45.1"], None),  # a classification
        (["250", "401"], None),
        (["flu", "1,5"], None),
        ([True, False], None),
        (
            [True, False, "yes"],
            "2 cases have a value of the sensitive attribute 'S' that is a boolean, beside texts: true",
        ),
    ],
)
def test_numbers_that_count_as_texts_are_reported(values: list[Any], said: str | None) -> None:
    """One text makes texts of a whole column of numbers, whose ranges C then bounds no more."""
    log = EventLog.from_traces([("ab", value) for value in values], "S")
    warnings = warnings_of_mixed_numbers(log, ["S", "absent"])
    assert [warning.startswith(said or "") for warning in warnings] == ([] if said is None else [True])
    assert warnings_of_mixed_numbers(log, ["S"], {"S": (40.0,)}) == []


def test_every_door_reports_numbers_that_count_as_texts(tmp_path: Path, capfd: Any) -> None:
    log = write(tmp_path / "comma.csv", ['"1,5"', '"2,5"', "3"])
    comma = "60 cases have a value of the sensitive attribute 'diag' that is a number written as text"
    words = ["--sensitive", "diag", "--K", "5", "--C", "0.9"]
    assert execute(["anonymize", str(log), *words, "-o", str(tmp_path / "comma"), "--json"]) == 0
    assert comma in json.loads(capfd.readouterr().out)["details"]["warnings"][0]
    assert comma in " ".join(vs.anonymize(str(log), sensitive="diag", K=5, C=0.9).summary().split())
    execute(["replay", str(log), "--sensitive", "diag", "-o", str(tmp_path / "out")])
    assert comma in " ".join(capfd.readouterr().out.split())


def test_decimals_of_a_database_are_numbers() -> None:
    """They became texts, so that C bounded each amount and no range of them."""
    amounts = [Decimal(number).scaleb(-1) for number in range(90)]
    log = written(EventLog.from_traces([("ab", amount) for amount in amounts], "S"), ["S"])
    assert is_numeric(log.case_values("S"))
    with pytest.raises(InputError, match="S has 3 values"):
        refuse_infeasible(90, class_columns(log, ["S"]), TlkcBounds.of(1, 2, 0.2))
    close = [Decimal("0.12345678901234567"), Decimal("0.12345678901234568")]  # one float
    log = written(EventLog.from_traces([("ab", amount) for amount in close], "S"), ["S"])
    assert len(log.case_values("S").values) == 2


def test_a_daemon_reports_numbers_in_quotes_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """JSON keeps 12 and "12" apart, and a changed information system may begin to write the other."""
    path = tmp_path / "veilstream.toml"
    path.write_text(DAEMON, encoding="utf-8")
    with closing(ReleaseService(sources.load(path), tmp_path / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        for begin, values in ((0, (36, 36.5)), (10, ("4711", "36,5")), (20, ("4712", "4713"))):
            rows = [
                Row(begin + k, f"c{begin + k}", "a", DAY, attributes={"case": {"diag": values[k % 2]}})
                for k in range(4)
            ]
            prev = begin - 7 if begin else -1
            delta = Delta(src="t", p=0, prev=prev, last=begin + 3, n=4, key=service.pseudonyms.id, rows=rows)
            assert not list(fold.apply(2 * begin, delta))
            for cut in fold.apply(2 * begin + 1, Command(name="release")):
                service.attempt(fold, cut)
                fold.decided(cut, released=False)
            assert caplog.text.count(f"the sensitive attribute 'diag' {BESIDE}") == (1 if begin else 0)
        assert "4711" not in caplog.text


def test_cases_of_a_table_of_variants_are_counted() -> None:
    import numpy as np

    log = EventLog.from_traces([("ab", "flu"), ("ab", "NULL")], "S")
    (warning,) = warnings_of_missing_words(log, ["S"], cases=np.array([5, 7]))
    assert warning.startswith("7 cases have a value of the sensitive attribute 'S'")


def test_a_daemon_logs_each_word_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """JSON events have no reader of a log that could warn. A line names the word of our list, not that of the event."""
    path = tmp_path / "veilstream.toml"
    path.write_text(DAEMON, encoding="utf-8")
    with closing(ReleaseService(sources.load(path), tmp_path / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        for begin, activity, value in ((0, "a", "flu"), (10, "NULL ", "N/A"), (20, "Null", "nan")):
            rows = []
            for number in range(4):
                attributes = {"case": {"diag": value}}
                rows.append(Row(begin + number, f"c{begin + number}", activity, DAY, attributes=attributes))
            key = service.pseudonyms.id
            delta = Delta(src="t", p=0, prev=begin - 7 if begin else -1, last=begin + 3, n=4, key=key, rows=rows)
            assert not list(fold.apply(2 * begin, delta))
            for cut in fold.apply(2 * begin + 1, Command(name="release")):
                service.attempt(fold, cut)
                fold.decided(cut, released=False)
            if not begin:
                assert "missing one" not in caplog.text
        assert caplog.text.count("4 events have an activity that exports write for a missing one (null)") == 1
        assert caplog.text.count("the sensitive attribute 'diag' that exports write for a missing one (N/A)") == 1
        assert caplog.text.count("missing one") == 2


def test_inspect_names_each_attribute_with_such_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is released, and also of an attribute that has no role yet."""
    assert execute(["inspect", str(write(tmp_path / "words.csv", ["34", "51", "NULL"]))]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "note: diag: 40 rows have a word that exports write for a missing value (NULL)" in shown
    assert execute(["inspect", str(write(tmp_path / "empty.csv", ["34", "51", ""]))]) == 0
    assert "missing value" not in capsys.readouterr().out


def test_inspect_reports_mixed_zones_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two formats and two clocks in one column: two sentences with different numbers contradict each other."""
    times = ["13.03.2024 08:15", "14.03.2024 08:15", "2024-03-15 08:15:00", "2024-03-16T08:15:00+01:00"]
    rows = [f"{100 + case};{activity};{times[case % 4]}" for case in range(40) for activity in ("in", "out")]
    path = tmp_path / "export.csv"
    path.write_text("\n".join(["case;activity;time", *rows]) + "\n", encoding="utf-8-sig")
    assert execute(["inspect", str(path), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    (mixed,) = [problem for problem in problems if problem.startswith("mixed zones")]
    assert mixed.startswith("mixed zones in one column: 1 distinct times have a zone and 3 have none")
