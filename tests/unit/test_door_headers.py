"""First lines of tables: names that end with numbers are names, and a line of values is refused without showing it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import veilstream as vs
from connectors.frame import MOST_COLUMNS
from connectors.logs import read_log
from connectors.reading import Reading
from models.errors import InputError
from stream.commands import execute

NAMES = {"case": "Patient", "activity": "Schritt", "time": "Zeit"}


def _table(folder: Path, *header: str) -> Path:
    path = folder / "log.csv"
    row = ["P1", "x", "2024-01-01T00:00:00Z", *["1"] * (len(header) - 3)]
    path.write_text("\n".join([",".join(header), ",".join(row)]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("more", [("q1", "q10", "q125"), ("v_1", "v 2"), ("2019", "2020")], ids=" ".join)
def test_columns_of_a_form_or_of_years_have_names(tmp_path: Path, more: tuple[str, ...]) -> None:
    """An export of 30 questions was refused, with the advice to add a line, which made the header a row."""
    path = _table(tmp_path, "Patient", "Schritt", "Zeit", *more)
    assert read_log(path, reading=Reading(columns=NAMES)).n_events == 1
    with pytest.raises(InputError, match=f"it has Patient, Schritt, Zeit, {', '.join(more)}; map them"):
        read_log(path)


@pytest.mark.parametrize(
    "line", [("P12", "x", "2024-01-01 00:00:00"), ("P12", "x", "1704067200"), ("P0012", "x", "noon"), ("x", "P1", "17")]
)
def test_a_line_of_values_is_no_header(tmp_path: Path, line: tuple[str, ...]) -> None:
    """A case id can look like a numbered name, and its time cannot. The message shows shapes alone."""
    with pytest.raises(InputError, match="line 1 looks like values") as error:
        read_log(_table(tmp_path, *line))
    assert not set(line) & set(str(error.value).split("'"))


@pytest.mark.parametrize("given", [{}, {"separator": "comma"}], ids=str)
def test_a_table_that_is_too_wide_is_refused_before_it_is_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """A table with a column for each patient: to split its first line by every separator took half a minute."""
    path = _table(tmp_path, *NAMES.values(), *(f"c{number}" for number in range(MOST_COLUMNS)))
    monkeypatch.setattr("connectors.csv._records", None)  # nothing splits a line
    wide = f"log.csv: line 1: {MOST_COLUMNS + 3} columns, and at most {MOST_COLUMNS} are read"
    with pytest.raises(InputError, match=wide):
        read_log(path, reading=Reading(columns=NAMES, **given))


def test_the_widest_table_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """A spreadsheet may write all of its columns, most of them without a name."""
    path = _table(tmp_path, *NAMES.values(), *[""] * (MOST_COLUMNS - 3))
    assert read_log(path, reading=Reading(columns=NAMES)).n_events == 1


def test_a_missing_column_is_named_with_some_of_the_others(tmp_path: Path) -> None:
    """Not with ten thousand."""
    path = _table(tmp_path, *NAMES.values(), *(f"c{number}" for number in range(60)))
    named = r"no column 'Fall' \(case\); it has Patient, .*, c46 and 13 more; map"
    with pytest.raises(InputError, match=named):
        read_log(path, reading=Reading(columns={**NAMES, "case": "Fall"}))


def test_a_wide_frame_is_refused() -> None:
    """The same for a DataFrame, whose names are compared in one pass."""
    frame = pd.DataFrame([["x"] * (MOST_COLUMNS + 1)])
    with pytest.raises(InputError, match=f"{MOST_COLUMNS + 1} columns"):
        vs.risk(frame, projection="A", points="1", columns={"case": "0", "activity": "1", "time": "2"})


def test_one_column_for_two_parts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each case had one activity, its own id, so nearly all was suppressed, and nobody learned why."""
    path = tmp_path / "log.csv"
    path.write_text("id,step,time\n1,a,2024-01-01T00:00:00Z\n", encoding="utf-8")
    columns = "case=id,activity=id,time=time"
    assert execute(["anonymize", str(path), "--columns", columns, "-o", str(tmp_path / "out.csv")]) == 2
    assert "'id' is given as case and activity; each needs a column of its own" in capsys.readouterr().err
