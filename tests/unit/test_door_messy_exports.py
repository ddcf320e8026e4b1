"""Exports as hospitals and tools write them: what inspect would have read wrongly without a word."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import veilstream as vs
from connectors import read_log
from connectors.reading import Reading
from models.spelling import spelled_twice
from stream.commands import execute

BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)
STEPS = ("Aufnahme", "Visite", "Entlassung")
CASES = 40


def table_of(path: Path, header: str, row: Any, separator: str = ",") -> Path:
    """Write a row for each event: `row(case, step, time)`, a list of texts."""
    lines = [header]
    for case in range(CASES):
        for step, activity in enumerate(STEPS):
            lines.append(
                separator.join(row(100_000 + case, activity, BEGIN + timedelta(minutes=97 * case + 13 * step)))
            )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def inspected(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, Any]:
    execute(["inspect", str(path), *options, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def part(found: dict[str, Any], name: str) -> list[str]:
    return [column["name"] for column in found["columns"] if column["part"] == name]


def test_the_time_of_day_of_sap_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The activity became the case, the diagnosis the activity, and the hours were an attribute."""
    path = table_of(
        tmp_path / "sap.csv",
        "FALNR,VORGANG,DATUM,UZEIT,DIAGNOSE",
        lambda case, step, time: [str(case), step, f"{time:%Y%m%d}", f"{time:%H%M%S}", "AB"[case % 2]],
    )
    found = inspected(capsys, path)
    assert (part(found, "case"), part(found, "activity"), part(found, "time")) == (["FALNR"], ["VORGANG"], ["DATUM"])
    assert any(problem.startswith("'DATUM' has days and 'UZEIT' the time of day") for problem in found["problems"])


def test_numbers_of_six_digits_are_no_time_of_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table_of(
        tmp_path / "log.csv",
        "FALNR,VORGANG,DATUM,MENGE",
        lambda case, step, time: [str(case), step, f"{time:%Y%m%d}", f"{time:%H%M%S}"],
    )
    assert not any("the time of day" in problem for problem in inspected(capsys, path)["problems"])


@pytest.mark.parametrize(
    ("form", "n_notes"),
    [("{:%Y-%m-%d %I:%M:%S}", 1), ("{:%Y-%m-%d %H:%M:%S}", 0), ("{:%m/%d/%Y %I:%M:%S %p}", 0)],
    ids=["12-hours", "24-hours", "with-pm"],
)
def test_a_clock_of_twelve_hours_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, n_notes: int
) -> None:
    """Afternoons came before mornings, and each case became a variant of its own."""
    path = table_of(
        tmp_path / "log.csv", "case,activity,time", lambda case, step, time: [str(case), step, form.format(time)]
    )
    notes = inspected(capsys, path)["notes"]
    assert sum("clock of 12 hours" in note for note in notes) == n_notes


def test_office_hours_are_no_clock_of_twelve_hours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table_of(
        tmp_path / "log.csv",
        "case,activity,time",
        lambda case, step, time: [str(case), step, f"2024-01-{1 + case % 28:02} {8 + STEPS.index(step):02}:00:00"],
    )
    assert not any("clock of 12 hours" in note for note in inspected(capsys, path)["notes"])


@pytest.mark.parametrize(
    ("form", "separator", "found"),
    [
        ("{:.5E}", ",", "differ by steps of 10000 seconds"),
        ("{:.5E}", ";", "differ by steps of 10000 seconds"),
        ("{:.12E}", ",", ""),
        ("{:.0f}", ",", ""),
    ],
    ids=["saved-by-a-spreadsheet", "with-decimal-commas", "all-digits", "plain"],
)
def test_milliseconds_that_a_spreadsheet_shortened_are_reported(
    tmp_path: Path, form: str, separator: str, found: str
) -> None:
    """Events within three hours had one time, and the order of the file became the order of the trace."""

    def row(case: int, step: str, time: datetime) -> list[str]:
        written = form.format(time.timestamp() * 1000)
        return [str(case), step, written.replace(".", ",") if separator == ";" else written]

    path = table_of(tmp_path / "log.csv", separator.join(["case", "activity", "time"]), row, separator)
    notes: list[str] = []
    read_log(path, reading=Reading(time_format="ms", say=notes.append))
    shortened = [note for note in notes if "shortened" in note]
    assert len(shortened) == bool(found)
    assert all(f"time: {CASES * len(STEPS)} times" in note and found in note for note in shortened)


def test_numbers_without_zeros_at_the_end_are_not_shortened(tmp_path: Path) -> None:
    """1.7E+12 is exact if the other times have all their digits."""
    path = tmp_path / "log.csv"
    path.write_text("case,activity,time\n1,a,1.7E+12\n1,b,1.700000123456E+12\n", encoding="utf-8")
    notes: list[str] = []
    read_log(path, reading=Reading(time_format="ms", say=notes.append))
    assert not any("shortened" in note for note in notes)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_numbers_of_a_unit_are_no_days(tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str) -> None:
    """The note said that the times have no time of day."""
    factor = {"s": 1, "ms": 1000}[unit]
    path = table_of(
        tmp_path / "log.csv",
        "case,activity,time",
        lambda case, step, time: [str(case), step, f"{time.timestamp() * factor:.1f}"],
    )
    assert not any("without a time of day" in note for note in inspected(capsys, path)["notes"])


@pytest.mark.parametrize(
    ("header", "case"),
    [("case_id,diagnosis,ward", "case_id"), ("Patient,Diagnose,Station", "Patient"), ("Person,Befund,Ort", "Person")],
)
def test_a_column_for_each_activity_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], header: str, case: str
) -> None:
    """The advice was to name a column of activities, which the table does not have, and a diagnosis was the case."""
    lines = [f"{header},Admission,Triage,Surgery,Discharge"]
    for number in range(CASES):
        times = [f"{BEGIN + timedelta(hours=5 * number + step):%Y-%m-%dT%H:%M:%SZ}" for step in range(4)]
        lines.append(",".join([f"P{number}", ("flu", "cold")[number % 2], ("A", "B", "C")[number % 3], *times]))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = inspected(capsys, path)
    (problem,) = [text for text in found["problems"] if "columns hold times" in text]
    assert problem.startswith("4 columns hold times ('Admission', 'Triage', 'Surgery', 'Discharge')")
    assert f".melt({header.split(',')}, var_name='activity', value_name='time')" in problem
    assert part(found, "case") == [case]
    roles = {column["name"]: column["role"] for column in found["columns"]}
    assert [roles[name] for name in ("Admission", "Triage", "Surgery", "Discharge")] == [None] * 4


def test_a_table_of_events_with_ids_keeps_its_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each event has an id and three times, and the activity a name that says nothing."""

    def row(case: int, step: str, time: datetime) -> list[str]:
        times = [f"{time + timedelta(minutes=9 * place):%Y-%m-%dT%H:%M:%SZ}" for place in range(3)]
        return [f"{case}-{step}", str(case), step, *times]

    for header in ("event_id,case_id,what,planned,started,ended", "row,case_nr,thing,planned,started,ended"):
        path = table_of(tmp_path / "log.csv", header, row)
        assert part(inspected(capsys, path), "case") == [header.split(",")[1]]


def test_the_time_that_orders_is_named_beside_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Begin and end of each event in columns: an order by the end is another one."""

    def row(case: int, step: str, time: datetime) -> list[str]:
        return [str(case), step, f"{time:%Y-%m-%dT%H:%M:%SZ}", f"{time + timedelta(minutes=40):%Y-%m-%dT%H:%M:%SZ}"]

    path = table_of(tmp_path / "log.csv", "case_id,activity,start_time,end_time", row)
    (note,) = [note for note in inspected(capsys, path)["notes"] if "ordered by" in note]
    assert note.startswith("events are ordered by 'end_time', and 'start_time' holds times as well")

    def with_birth(case: int, step: str, time: datetime) -> list[str]:
        return [str(case), step, f"19{case % 100:02}-05-01", f"{time:%Y-%m-%dT%H:%M:%SZ}"]

    path = table_of(tmp_path / "log.csv", "case_id,activity,birthday,end_time", with_birth)
    assert not any("ordered by" in note for note in inspected(capsys, path)["notes"])


@pytest.mark.parametrize("invisible", ["\u200b", "\ufeff", "\u00ad", "\u200e"])
def test_values_with_invisible_characters_are_spellings(invisible: str) -> None:
    """Two values that look the same: C bounds the share of each alone."""
    assert spelled_twice(["HIV", f"H{invisible}IV", "flu", f"cold{invisible}"]) == [0, 1]


def test_values_that_two_encodings_wrote_are_spellings() -> None:
    """Two joined exports, one of which was read as a Western encoding: C bounds the share of each value alone."""
    broken = ["Krätze".encode().decode("cp1252"), "Prüfung".encode().decode("latin-1")]
    assert spelled_twice(["Krätze", "Prüfung", "Ärger", *broken]) == [0, 1, 3, 4]
    assert spelled_twice(["Ãrger", "Ärger", "Größe", "Grosse"]) == []


def said_of(folder: Path, time_of: Callable[[int, datetime], str], time_format: str | None = None) -> list[str]:
    """Return what a reader says of a table, by the text of the time of each row."""
    numbers = iter(range(CASES * len(STEPS)))

    def row(case: int, step: str, time: datetime) -> list[str]:
        return [str(case), step, time_of(next(numbers), time)]

    said: list[str] = []
    path = table_of(folder / "log.csv", "case,activity,time", row)
    read_log(path, reading=Reading(timezone="Europe/Berlin", time_format=time_format, say=said.append))
    return said


@pytest.mark.parametrize(
    ("form", "step", "n_days"),
    [
        ("%Y-%m-%d", 5, 24),
        ("%d.%m.%Y", 40, 3),
        ("%Y-%m-%d", 1, 0),
        ("%Y-%m-%d %H:%M", 5, 0),
        ("%Y-%m-%dT%H", 5, 0),
    ],
)
def test_days_among_times_are_reported(tmp_path: Path, form: str, step: int, n_days: int) -> None:
    """They were read as midnight, so that their events came first, in an order that nobody recorded."""
    german = "." in form

    def time_of(number: int, time: datetime) -> str:
        whole = "%d.%m.%Y %H:%M" if german else "%Y-%m-%d %H:%M"
        return time.strftime(whole if number % step else form)

    said = said_of(tmp_path, time_of, "day-first" if german else None)
    notes = [text for text in said if "without a time of day" in text]
    assert [text.partition(",")[0] for text in notes] == (
        [f"time: {n_days} of the times are days without a time of day"] if n_days else []
    )


@pytest.mark.parametrize(
    ("odd", "n_distant"),
    [
        ("1900-01-01 00:00", 3),
        ("1970-01-01 00:00", 3),
        ("2099-12-31 00:00", 3),
        ("2204-03-01 08:00", 3),
        ("2021-03-01 08:00", 0),
        ("2034-02-01 08:00", 0),
    ],
)
def test_times_far_from_all_others_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], odd: str, n_distant: int
) -> None:
    """Such an event is the first or last of its case, and a case with one in 1900 was silent for a century."""
    said = said_of(tmp_path, lambda number, time: f"{time:%Y-%m-%d %H:%M}" if number % 40 else odd)
    sentence = f"{n_distant} events are more than 10 years before or after all others"
    assert sum(sentence in text for text in said) == bool(n_distant)
    notes = inspected(capsys, tmp_path / "log.csv", "--timezone", "Europe/Berlin")["notes"]
    assert sum(sentence in text for text in notes) == bool(n_distant)
    frame = pd.read_csv(tmp_path / "log.csv", parse_dates=["time"])
    names = {"case": "case", "activity": "activity", "time": "time"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.risk(frame, projection="A", points="1", columns=names, timezone="UTC")
    assert sum(sentence in str(warning.message) for warning in caught) == bool(n_distant)


@pytest.mark.parametrize(
    ("newest_first", "has_ties", "noted"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["newest-first", "no-ties", "oldest-first"],
)
def test_ties_of_a_file_from_the_newest_to_the_oldest_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], newest_first: bool, has_ties: bool, noted: bool
) -> None:
    """The two steps of an admission at one minute were read in the wrong order, in every case."""

    def row(case: int, step: str, time: datetime) -> list[str]:
        is_tie = has_ties and step == "Visite"
        return [str(case), step, f"{time - timedelta(minutes=13 * is_tie):%Y-%m-%dT%H:%M:%SZ}"]

    path = table_of(tmp_path / "log.csv", "case,activity,time", row)
    header, *rows = path.read_text("utf-8").splitlines()
    rows = rows[::-1] if newest_first else rows
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    said: list[str] = []
    log = read_log(path, reading=Reading(say=said.append))
    sentence = f"{CASES} events have the time of another one of their case"
    assert sum(sentence in text for text in said) == noted
    assert (log.traces()[0][0] == "Visite") == noted
    assert sum(sentence in note for note in inspected(capsys, path)["notes"]) == noted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.risk(
            pd.read_csv(path, parse_dates=["time"], dtype={"case": str}),
            projection="A",
            points="1",
            columns={name: name for name in ("case", "activity", "time")},
        )
    assert sum(sentence in str(warning.message) for warning in caught) == noted
