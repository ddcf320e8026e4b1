"""Case ids that may be the same person's: everything that reads a log says so, not only `inspect`."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilstream as vs
from connectors.case_ids import doubtful_case_ids
from connectors.logs import read_log
from connectors.reading import Reading
from stream.commands import execute

SIMILAR = "2 case ids differ from another one only by spaces around them, by upper and lower case, by .0 at the end"


def _log(folder: Path, *ids: str) -> Path:
    path = folder / "log.csv"
    rows = [f"{name},x,2024-01-01T00:{minute:02d}:00Z" for minute, name in enumerate(ids)]
    path.write_text("\n".join(["case,activity,time", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (("1", "1 ", "2"), SIMILAR),
        (("1.0", "1", "2"), SIMILAR),
        (("Pat-1", "pat-1", "Pat-2"), SIMILAR),
        (("1", "\ufeff1", "2"), SIMILAR),
        (("P-1", "P-\u200b1", "P-2"), SIMILAR),
        (("0017", "17", "18"), SIMILAR),
        (('"17,0"', "17", "18"), SIMILAR),
        (("1.234", "1234", "1235"), SIMILAR),
        (("1 234 567", "1234567", "999"), SIMILAR),
        (("'17", "17", "18"), SIMILAR),
        (('"=""17"""', "17", "18"), SIMILAR),
        (("9007199254740992.0", "12.0", "1.2345678901234568e+17"), "2 rows have a case id of 16 digits or more"),
        (("1.23457E+11", "1", "1.2E+05"), "2 rows have a case id that a spreadsheet has shortened"),
        (("NULL", "1", "NULL"), "2 rows have a case id that exports write for a missing one (NULL)"),
        (("1", "2", "Totaal:"), "1 rows have a case id that reports write in a row of totals (Totaal:)"),
    ],
)
def test_a_reader_is_told_of_doubtful_ids(tmp_path: Path, ids: tuple[str, ...], sentence: str) -> None:
    """A person under two ids counts as two, so a group of K cases may be of fewer persons. Once for each kind."""
    said: list[str] = []
    path = _log(tmp_path, *ids)
    read_log(path, reading=Reading(say=said.append))
    assert [text for text in said if text.startswith(f"{path}: {sentence}")] == said[-1:]


@pytest.mark.parametrize(("codes", "is_doubtful"), [(19, True), (20, False)])
def test_a_word_among_letter_codes_is_one_of_them(tmp_path: Path, codes: int, is_doubtful: bool) -> None:
    """Sepsis has the cases A to ZZ and more: `NA` is the case after `MZ`. Numbers and lower case say nothing of it."""
    said: list[str] = []
    others = [f"A{chr(ord('A') + code)}" for code in range(codes)]
    read_log(_log(tmp_path, "NA", *others, "ab", "17", "xyz"), reading=Reading(say=said.append))
    assert any("a case id that exports write for a missing one (NA)" in text for text in said) == is_doubtful


@pytest.mark.parametrize(
    "ids",
    [
        ("1.0", "2.0"),
        (" a", " b"),
        ("\ufeffa", "b"),
        ("v1", "v1.0"),
        ("1E05", "12E+05", "E+11"),
        ("0017", "0018", "0000"),
        ("1.234", "1.235", "999"),
        ("1.23", "123", "1.2345", "12345"),
        ("A0017", "A17"),
        ("9007199254740991.0", "1.5e+03", "9007199254740993"),
    ],
)
def test_ids_that_are_written_alike_are_not_doubtful(tmp_path: Path, ids: tuple[str, ...]) -> None:
    """An export that writes each id in the same odd way has no id twice."""
    said: list[str] = []
    read_log(_log(tmp_path, *ids), reading=Reading(say=said.append))
    assert not any("case id" in text for text in said)


@pytest.mark.parametrize("ids", [("Pat-1", "pat-1", "PAT-1 ", "Pat-2", "7.0", "7"), ("Pat-1",) * 2 + ("pat-1",)])
def test_each_of_several_ids_of_one_form_counts_once(ids: tuple[str, ...]) -> None:
    n_similar = len({name for name in ids if name != "Pat-2"})
    (sentence,) = doubtful_case_ids(ids, np.ones(len(ids), dtype=np.int64))
    assert sentence.startswith(f"{n_similar} case ids differ from another one only by")


@pytest.mark.parametrize(("form", "most"), [("Pat-{:06d}", 200), ("{:06d}", 1)])
def test_the_comparison_of_ids_takes_little_memory(form: str, most: int) -> None:
    """Every reader compares them: ids with a capital letter took 400 bytes each, ten million cases four gigabytes."""
    ids = [form.format(number) for number in range(20_000)]
    rows_of_case = np.ones(len(ids), dtype=np.int64)
    tracemalloc.start()
    try:
        assert doubtful_case_ids(ids, rows_of_case) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most * len(ids)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_word_for_a_missing_activity_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """It is released as an activity like any other, and everybody who mines the release draws it."""
    path = tmp_path / f"log.{suffix}"
    table = pd.DataFrame({"case": ["1", "1", "2", "2"], "activity": ["NULL", "n/a", "Nancy", "NULL"]})
    table["time"] = pd.to_datetime(["2024-01-01"] * 4, utc=True)
    if suffix == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    sentence = "3 rows have an activity that exports write for a missing one (NULL, n/a)"
    said: list[str] = []
    read_log(path, reading=Reading(say=said.append))
    assert [text.startswith(f"{path}: {sentence}") for text in said if "rows have" in text] == [True]
    with pytest.warns(UserWarning, match="3 rows have an activity"):
        vs.risk(table, projection="A", points="1", columns={name: name for name in ("case", "activity", "time")})
    assert execute(["inspect", str(path)]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(sentence) == 1


@pytest.mark.parametrize(
    ("times", "options", "noted"),
    [
        (["13-2-2024", "14-2-2024"], [], True),
        (["2024-02-13", "2024-02-14"], [], True),
        (["1-2-2024", "3-4-2024"], ["--time-format", "day-first"], True),
        (["13-2-2024 08:15", "14-2-2024 08:15"], [], False),
        (["2024-02-13T08", "2024-02-14T09"], [], False),
        (["20240213081500", "20240214081500"], ["--time-format", "%Y%m%d%H%M%S"], False),
    ],
)
def test_inspect_says_that_days_have_no_order_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times: list[str], options: list[str], noted: bool
) -> None:
    """An export that is sorted by name gives each case steps that nobody took in that order."""
    path = tmp_path / "export.csv"
    rows = [f"c{case};{activity};{times[case % 2]}" for case in range(20) for activity in ("in", "out")]
    path.write_text("\n".join(["case;activity;time", *rows]) + "\n", encoding="utf-8")
    assert execute(["inspect", str(path), "--timezone", "Europe/Amsterdam", *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert ("note: time: the times are days without a time of day" in shown) == noted


def test_a_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, beside the result."""
    assert execute(["risk", str(_log(tmp_path, "1", "1 ", "2")), "--projection", "A", "--points", "1"]) == 0
    assert SIMILAR in " ".join(capsys.readouterr().err.split())


def test_a_notebook_is_warned(tmp_path: Path) -> None:
    """pandas makes 1.0 of 1 in a column with a missing value, and somebody joins two such tables as texts."""
    ids = ["1", "1.0", "2"]
    times = pd.to_datetime(["2024-01-01"] * 3, utc=True)
    frame = pd.DataFrame({"case:concept:name": ids, "concept:name": "x", "time:timestamp": times})
    with pytest.warns(UserWarning, match=SIMILAR):
        vs.risk(frame, projection="A", points="1")


def test_a_frame_with_empty_cells_has_ids_of_floats() -> None:
    """Pandas keeps numbers as floats if a cell is empty: two persons get one id, and nothing said so."""
    person = 9_007_199_254_740_992
    frame = pd.DataFrame({"case": [float(person), float(person + 1), float(person + 4)], "activity": ["a"] * 3})
    frame["time"] = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"], utc=True)
    with pytest.warns(UserWarning, match="3 rows have a case id of 16 digits or more that was stored as a floating"):
        vs.risk(frame, projection="A", points="1", columns={name: name for name in ("case", "activity", "time")})
