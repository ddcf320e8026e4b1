"""Sensitive values and activities that differ in spelling alone: C bounds each spelling, so every door warns."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.logs import read_log
from connectors.reading import Reading
from models.anonymize.sensitive import warnings_of_spellings
from models.eventlog import Column, EventLog
from stream.commands import execute
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Row
from stream.run.service import ReleaseService
from tests.sensitive_daemon import DAY, daemon

DOUBT = "a value of the sensitive attribute 'diag' that differs from another one only by upper and lower case, spaces"
DAEMON = daemon()


def write(path: Path, *values: str, activity: str = "B") -> Path:
    """Write 60 cases of A and an activity, which have these sensitive values by turns."""
    lines = ["case:concept:name,concept:name,time:timestamp,diag"]
    for case in range(60):
        for place, name in enumerate(("A", activity)):
            moment = f"2025-01-{1 + case % 28:02d}T{case // 28:02d}:{place:02d}:00Z"
            lines.append(f"c{case},{name},{moment},{values[case % len(values)]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("values", "n_cases"),
    [
        (["HIV", "hiv ", "flu"], 2),
        (["HIV", "HIV\u00a0", "HIV"], 3),
        (["caf\u00e9", "cafe\u0301", None], 2),
        (["hay fever", "hay  fever", 3], 2),
        (["Straße", "STRASSE", "x"], 2),
        (["HIV", "flu", "HIV1"], 0),
        (["m2", "m²", ""], 0),
        ([True, "true", 1], 0),
    ],
)
def test_cases_whose_value_has_another_spelling_are_counted(values: list[Any], n_cases: int) -> None:
    log = EventLog.from_traces([("ab", value) for value in values], "diag")
    warnings = warnings_of_spellings(log, ["diag", "absent"])
    assert [warning.startswith(f"{n_cases} cases have {DOUBT}") for warning in warnings] == [True] * bool(n_cases)
    assert warnings_of_spellings(log, ["diag"], {"diag": (40.0,)}) == []


def test_a_spelling_of_cases_and_one_of_events_are_compared() -> None:
    """C bounds the value of a case, which may come from either."""
    log = EventLog.from_traces([("ab", "HIV"), ("ab", None), ("ab", "flu")], "diag")
    log = replace(log, event_attributes={"diag": Column.encode([None, None, "hiv", None, None, None])})
    (warning,) = warnings_of_spellings(log, ["diag"])
    assert warning.startswith(f"2 cases have {DOUBT}")


def test_cases_of_a_table_of_variants_are_counted() -> None:
    log = EventLog.from_traces([("ab", "flu"), ("ab", "Flu"), ("ab", "cold")], "diag")
    (warning,) = warnings_of_spellings(log, ["diag"], cases=np.array([5, 7, 9]))
    assert warning.startswith("12 cases have a value")


@pytest.mark.parametrize(
    "command",
    [
        ["anonymize", "-o", "out.csv", "--K", "5", "--C", "0.9"],
        ["anonymize", "-o", "out", "--K", "5", "--C", "0.9", "--engine", "duckdb"],
        ["replay", "-o", "out"],
    ],
    ids=["anonymize", "duckdb", "replay"],
)
def test_commands_warn(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """In a group of two thirds `HIV` C = 0.5 can hold for each of two spellings."""
    monkeypatch.chdir(tmp_path)
    name, *options = command
    for values, n_warnings in ((("HIV", "hiv", "flu"), 1), (("HIV", "cold", "flu"), 0)):
        file = write(tmp_path / f"log{n_warnings}.csv", *values)
        options_with_place = [option.replace("out", f"out{n_warnings}") for option in options]
        assert execute([name, str(file), "--sensitive", "diag", *options_with_place]) == 0
        assert " ".join("".join(capfd.readouterr()).split()).count(f"40 cases have {DOUBT}") == n_warnings


def test_readers_and_inspect_report_activities_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "log.csv", "HIV", "hiv", "flu", activity="a ")
    sentence = "2 activities differ from another one only by upper and lower case, spaces"
    said: list[str] = []
    read_log(file, reading=Reading(say=said.append))
    assert [text.startswith(f"{file}: {sentence}") for text in said if "differ" in text] == [True]
    assert execute(["inspect", str(file)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(sentence) == 1
    assert printed.count("diag: 2 values differ from another one only by upper and lower case") == 1


def attempt_cuts(folder: Path, *cuts: tuple[str, str, str, str]) -> None:
    """Attempt a release after each four cases of a daemon, which have these sensitive values."""
    path = folder / "veilstream.toml"
    path.write_text(DAEMON, encoding="utf-8")
    with closing(ReleaseService(sources.load(path), folder / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        for place, values in enumerate(cuts):
            begin = 10 * place
            rows = [
                Row(
                    begin + number,
                    f"c{begin + number}",
                    ("Lab", "lab ")[number % 2],
                    DAY,
                    attributes={"case": {"diag": value}},
                )
                for number, value in enumerate(values)
            ]
            prev = begin - 7 if begin else -1
            delta = Delta(src="t", p=0, prev=prev, last=begin + 3, n=4, key=service.pseudonyms.id, rows=rows)
            assert not list(fold.apply(2 * begin, delta))
            for cut in fold.apply(2 * begin + 1, Command(name="release")):
                service.attempt(fold, cut)
                fold.decided(cut, released=False)


def test_a_daemon_logs_it_once_and_without_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = ("Kruimel", "kruimel", "flu", "flu")
    attempt_cuts(tmp_path, values, values)
    assert caplog.text.count(DOUBT) == 1
    assert caplog.text.count("2 activities differ from another one only by upper and lower case, spaces") == 1
    assert "ruimel" not in caplog.text
    assert "lab" not in caplog.text.lower()


def test_a_daemon_logs_spellings_after_a_word_for_a_missing_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The word was logged at the first cut, and silenced every other doubt about the attribute."""
    attempt_cuts(tmp_path, ("n/a", "flu", "flu", "cold"), ("HIV", "hiv", "n/a", "flu"))
    assert caplog.text.count("that exports write for a missing one (n/a)") == 1
    assert caplog.text.count(DOUBT) == 1


def test_the_officer_sees_it_before_signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of releases, the console and the dossier state it, of a release with such values only."""
    from stream.operator.console.releases import queue
    from stream.operator.history import read

    monkeypatch.chdir(tmp_path)
    configuration = Path("veilstream.toml")
    configuration.write_text(DAEMON.replace('name = "p"', 'name = "p"\napproval = "required"'), encoding="utf-8")
    for values, sentences in ((("HIV", "hiv", "flu"), 1), (("HIV", "cold", "flu"), 0)):
        out = Path(f"out{sentences}")
        log = write(Path("log.csv"), *values)
        execute(["replay", str(log), "-c", str(configuration), "-o", str(out), "--final"])
        (row,) = read(out).rows
        assert row["status"] == "held"
        assert " ".join(row["reasons"]).count(DOUBT) == sentences
        (held,) = queue(out)
        assert [DOUBT in text for label, text in held.facts if label == "Doubtful values"] == [True] * sentences
        execute(["dossier", str(out), "p", "-c", str(configuration), "-o", "dossier.html"])
        page = " ".join(unescape(Path("dossier.html").read_text(encoding="utf-8")).split())
        assert page.count(f"Check before you sign: 40 cases have {DOUBT}") == sentences


def test_the_list_of_releases_is_not_filled_with_doubts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release of a series has the same: of those that have left, only audit.json and the dossier state them."""
    from stream.operator.history import read

    monkeypatch.chdir(tmp_path)
    configuration = Path("veilstream.toml")
    configuration.write_text(DAEMON, encoding="utf-8")
    log = write(Path("log.csv"), "HIV", "hiv", "flu")
    execute(["replay", str(log), "-c", str(configuration), "-o", "out", "--final"])
    (row,) = read(Path("out")).rows
    assert (row["status"], row["reasons"]) == ("published", [])
    audit = json.loads(Path("out/operator/p/000001/audit.json").read_text(encoding="utf-8"))
    assert [DOUBT in doubt for doubt in audit["doubts"]] == [True]
