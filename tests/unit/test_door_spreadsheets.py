"""Tables as people export them from a spreadsheet: merged cells, days of two digits each with odd ones among them."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.guessing import filled_down, in_first_rows, looks_like_times
from connectors.logs import read_log
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import Column
from stream.commands import execute

HEADER = "Fallnr,Befund,Tätigkeit,Uhrzeit,Zeitpunkt"


def table(folder: Path, *, merged: bool = False, odd: str = "") -> Path:
    """Write 40 cases of three rows each; `odd` is the time of one of them."""
    lines = [HEADER]
    for case in range(40):
        for place, step in enumerate(("Aufnahme", "Labor", "Entlassung")):
            number = "" if merged and place else f"{case:05d}"
            clock = f"{case % 24:02d}:{place:02d}:{case:02d}"
            day = f"{1 + case % 28:02d}.03.24"
            lines.append(f"{number},I{case % 3},{step},{clock},{day} {clock}")
    if odd:
        lines[20] = lines[20][: lines[20].rindex(",") + 1] + odd
    path = folder / "log.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def inspected(path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    execute(["inspect", str(path), "--json"])
    facts: dict[str, Any] = json.loads(capfd.readouterr().out)
    return facts


def parts(facts: dict[str, Any]) -> dict[str, str]:
    return {column["part"]: column["name"] for column in facts["columns"] if column["part"]}


def test_merged_cells_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The activity was taken for the case, and --skip-bad-rows left each case its first event."""
    facts = inspected(table(tmp_path, merged=True), capfd)
    assert parts(facts) == {"case": "Fallnr", "activity": "Tätigkeit", "time": "Zeitpunkt"}
    assert [problem for problem in facts["problems"] if "as merged cells of a spreadsheet have" in problem]
    assert facts["commands"] == []
    reading = Reading(
        columns={"case": "Fallnr", "activity": "Tätigkeit", "time": "Zeitpunkt"},
        time_format="day-first",
        timezone="UTC",
    )
    with pytest.raises(InputError, match=r"line 3: no Fallnr; .*merged cells: write the value into every row"):
        read_log(tmp_path / "log.csv", reading=reading)


def test_a_table_without_merged_cells_has_no_such_problem(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    facts = inspected(table(tmp_path), capfd)
    assert parts(facts) == {"case": "Fallnr", "activity": "Tätigkeit", "time": "Zeitpunkt"}
    assert facts["problems"] == []


@pytest.mark.parametrize("filled_of_20", [11, 16])
def test_a_number_that_most_rows_have_is_no_merged_case(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], filled_of_20: int
) -> None:
    """The numbers of documents were taken for the case, and no command was proposed."""
    lines = ["Kennung,Document,Tätigkeit,Zeitpunkt"]
    for row in range(120):
        number = f"D{row:05d}" if row % 20 < filled_of_20 else ""
        step = ("Aufnahme", "Labor", "Entlassung")[row % 3]
        lines.append(f"P{row // 3:05d},{number},{step},2024-03-{1 + row % 28:02d}T10:00:00Z")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = inspected(path, capfd)
    assert parts(facts) == {"case": "Kennung", "activity": "Tätigkeit", "time": "Zeitpunkt"}
    assert facts["commands"]


@pytest.mark.parametrize(
    ("codes", "n_values", "merged"),
    [
        ([0, -1, -1, 1, -1], 2, True),
        ([0, 0, -1, 1, -1], 2, False),
        ([-1, 0, -1, 1, -1], 2, False),
        ([0, -1, -1, -1, -1], 1, False),
        ([0, 1, 2, 3, 4], 5, False),
    ],
)
def test_merged_cells_have_each_value_once_from_the_first_row_on(codes: list[int], n_values: int, merged: bool) -> None:
    import numpy as np

    column = Column(np.asarray(codes, dtype=np.int32), tuple("abcde"[:n_values]))
    assert in_first_rows(column) == merged
    expected = [0, 0, 0, 1, 1] if merged else codes
    assert filled_down(column).codes.tolist() == expected


@pytest.mark.parametrize("odd", ["31.03.24 24:00:00", "unbekannt"])
def test_one_odd_time_leaves_the_order_of_days_and_years_to_decide(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], odd: str
) -> None:
    """01.03.24 may be the 24th of a month of 2001. One cell that is no time hid that: the column was taken for the
    case, and a reader asked for ISO 8601."""
    path = table(tmp_path, odd=odd)
    facts = inspected(path, capfd)
    assert parts(facts) == {"case": "Fallnr", "activity": "Tätigkeit", "time": "Zeitpunkt"}
    (choices,) = [one["choices"] for one in facts["decisions"] if one["flag"] == "--time-format"]
    assert choices == ["day-first", "year-first"]
    assert any("1 with a time that cannot be read" in problem for problem in facts["problems"])
    reading = Reading(columns={"case": "Fallnr", "activity": "Tätigkeit", "time": "Zeitpunkt"}, timezone="UTC")
    with pytest.raises(InputError, match="choose one: --time-format day-first or year-first"):
        read_log(path, reading=reading)


def test_a_few_dates_of_two_readings_among_iso_times_are_bad_rows(tmp_path: Path) -> None:
    """The column is ISO 8601, and its odd rows are refused or left out one by one."""
    path = tmp_path / "log.csv"
    rows = [f"c{case},A,2024-03-{1 + case % 28:02d}T10:00:00Z" for case in range(40)]
    path.write_text("\n".join(["case,activity,time", *rows, "c0,B,01.03.24", "c1,B,unknown"]) + "\n", encoding="utf-8")
    log = read_log(path, reading=Reading(skip_bad_rows=True, on_bad_rows=lambda bad: None))
    assert log.n_events == 40


def test_a_column_with_few_dates_is_no_time() -> None:
    texts = [*(f"note {number}" for number in range(20)), "01.03.24", "02.03.24"]
    assert not looks_like_times(Column.encode(texts))


@pytest.mark.parametrize(("n_notes", "has_choice"), [(98, False), (3, False), (2, True), (0, True)])
def test_an_order_is_asked_for_only_if_most_texts_are_dates(tmp_path: Path, n_notes: int, has_choice: bool) -> None:
    """A column of notes was refused for the order of its two dates."""
    texts = [*(f"note {number}" for number in range(n_notes)), "01.03.24", "02.03.24", "03.03.24"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["case,activity,time", *(f"1,A,{text}" for text in texts)]) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_log(path, reading=Reading(timezone="UTC"))
    assert ("choose one: --time-format day-first" in str(error.value)) is has_choice


@pytest.mark.parametrize(
    ("first", "note"),
    [
        ("Patient,,Ereignis,,", "3 columns without a name are left out; if the header has two rows, remove the first"),
        ("Patient,a,b,c,", "a column without a name is left out"),
    ],
)
def test_a_header_of_two_rows_is_hinted_at(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], first: str, note: str
) -> None:
    """Groups of columns in merged cells are the first row, and most columns were gone with one short note."""
    path = table(tmp_path)
    path.write_text(f"{first}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert [text for text in inspected(path, capfd)["notes"] if "without a name" in text] == [f"{path}: {note}"]


@pytest.mark.parametrize(
    ("odd", "form", "hinted"),
    [
        ("31.03.24 24:00:00", "day-first", True),
        ("2024-03-31T24:00", "iso", True),
        ("31.03.24 25:00", "day-first", False),
        ("31.02.2024 10:24:00", "day-first", False),
    ],
)
def test_the_end_of_a_day_is_named(tmp_path: Path, odd: str, form: str, hinted: bool) -> None:
    """Its shape is that of all good times, so nobody saw the fault."""
    path = tmp_path / "log.csv"
    path.write_text(f"case,activity,time\n1,A,{odd}\n", encoding="utf-8")
    with pytest.raises(InputError, match="its shape is") as error:
        read_log(path, reading=Reading(timezone="UTC", time_format=form))
    assert ("(24:00: write 00:00 of the next day)" in str(error.value)) is hinted


def packed(*members: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for member in members:
            archive.writestr(member, "<x/>")
    return content.getvalue()


def parquet() -> bytes:
    content = io.BytesIO()
    pd.DataFrame({"case": ["1"]}).to_parquet(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (packed("[Content_Types].xml", "xl/workbook.xml"), "a spreadsheet (.xlsx, .ods)"),
        (packed("mimetype", "content.xml"), "a spreadsheet (.xlsx, .ods)"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(4000), "a workbook of Excel (.xls)"),
        (b"\xef\xbb\xbf \r\n<HTML><table><tr><td>case</td></tr></table></HTML>", "a page of HTML"),
        (b"<table><tr><td>case</td></tr></table>", "a page of HTML"),
        (parquet(), "Parquet: name it .parquet"),
        (gzip.compress(b"case,activity,time\n"), "gzip data: name it .csv.gz"),
    ],
    ids=["xlsx", "ods", "xls", "html", "table", "parquet", "gzip"],
)
def test_another_file_that_was_named_csv_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes, kind: str
) -> None:
    """The advice was to name an encoding, or to remove lines before the header."""
    path = tmp_path / "export.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{path}: named as a table, but it is {kind}")):
        read_log(path)
    assert execute(["inspect", str(path)]) == 2
    assert kind in " ".join(capfd.readouterr().err.split())


def test_a_table_whose_first_column_is_named_like_a_kind_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("PAR1,case,activity,time\nPK,1,a,2024-01-01T00:00:00Z\n", encoding="utf-8")
    assert read_log(path).n_events == 1
