"""CSV and Parquet: columns, zones, types, and bad input."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from connectors import read_log, write_log
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import EventLog

HEADER = "case:concept:name,concept:name,time:timestamp"


@pytest.fixture
def table(tmp_path: Path):
    """Writes lines as a CSV file."""

    def write(*lines: str, name: str = "log.csv") -> Path:
        file = tmp_path / name
        body = ("\n".join(lines) + "\n").encode()
        file.write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
        return file

    return write


def refused(file: Path, **options) -> str:
    """The one line with which the file is refused."""
    with pytest.raises(InputError) as error:
        read_log(file, **options)
    assert "\n" not in str(error.value)
    assert "SECRET" not in str(error.value)
    return str(error.value)


def test_importing_connectors_is_light():
    """No pandas, pyarrow or lxml before a log of that kind is read."""
    program = "import sys, connectors; sys.exit(bool({'pandas', 'pyarrow', 'lxml', 'fsspec'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_amun_example_is_read_in_its_zone(logs):
    """Zoneless times such as `2020-08-08 10:20:0.000` need --timezone and are then exact."""
    file = logs / "amun-paper-example.csv"
    assert "line 2" in refused(file)
    assert "--timezone" in refused(file)
    log = read_log(file, timezone="UTC")
    assert (log.n_cases, log.time[0]) == (5, 1596882000 * 10**9)
    assert read_log(file, timezone="Europe/Berlin").time[0] == 1596874800 * 10**9


def test_rows_are_grouped_and_sorted(table):
    """Cases in order of first appearance, each by time, ties in file order, `row` is the file's."""
    log = read_log(
        table(
            HEADER, "b,B,2020-01-02T00:00:00Z", "a,X,2020-01-01T00:00:00Z", "b,A,2020-01-01T00:00:00Z", name="l.csv.gz"
        )
    )
    assert (log.case_ids, log.traces(), log.row.tolist()) == (("b", "a"), [("A", "B"), ("X",)], [2, 0, 1])


def test_columns_are_mapped_and_case_columns_belong_to_the_case(table):
    """`case:X` is case attribute X; other columns are event attributes; semicolons and a BOM do no harm."""
    log = read_log(
        table("\ufeffid;act;at;who;case:age;note", "1;A;2020-01-01T00:00:00Z;R;40;x", "1;B;2020-01-02T00:00:00Z;;;"),
        columns={"case": "id", "activity": "act", "time": "at", "resource": "who"},
    )
    assert log.case_attributes["age"].decode() == [40]
    assert log.event_attributes["note"].decode() == ["x", None]
    assert log.resource.decode() == ["R", None]


def test_only_canonical_numbers_become_numbers(table):
    """`007` and `1.50` stay text, whole columns of ints, floats and booleans are typed, NA is text."""
    log = read_log(
        table(
            f"{HEADER},code,price,count,flag,big,text",
            "1,A,2020-01-01T00:00:00Z,007,1.50,1,True,123456789012345678901,NA",
            "1,B,2020-01-01T00:00:00Z,008,2.25,2,False,1,nan",
        )
    )
    values = {name: column.decode()[0] for name, column in log.event_attributes.items()}
    assert values == {
        "code": "007",
        "price": "1.50",
        "count": 1,
        "flag": True,
        "big": 123456789012345678901,
        "text": "NA",
    }


@pytest.mark.parametrize(("unit", "text"), [("s", "1.5"), ("ms", "1500"), ("us", "1500000"), ("ns", "1500000000")])
def test_counted_time_is_exact(table, unit, text):
    """A column that counts since 1970 is read in the unit named."""
    assert read_log(table(HEADER, f"1,A,{text}"), unit=unit).time.tolist() == [1_500_000_000]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([""], "the file is empty"),
        ([HEADER], "no events"),
        (
            ["a,b,c", "1,2,3"],
            "no column 'case:concept:name' (case), 'concept:name' (activity), 'time:timestamp' (time)",
        ),
        (["a,b,c", "1,2,3"], "it has a, b, c; map them with --columns case=...,activity=...,time=..."),
        ([f"{HEADER},x,x", "1,A,2020-01-01T00:00:00Z,1,2"], "column 'x' appears twice"),
        ([HEADER, "1,A,2020-01-01T00:00:00Z", '"SECRET\nS",A,SECRET'], "line 3: time:timestamp is not a time"),
        ([HEADER, "1,A,2020-01-01T00:00:00Z", '"1\n2",A,2020-01-01T00:00:00Z', "", "SECRET,A,x"], "line 6"),
        ([HEADER, ",A,2020-01-01T00:00:00Z"], "line 2: no case:concept:name"),
        ([HEADER, "1,,2020-01-01T00:00:00Z"], "line 2: no concept:name"),
        ([HEADER, "SECRET,A,"], "line 2: no time:timestamp"),
        ([HEADER, "1,A,2020-02-30T00:00:00Z"], "line 2: time:timestamp is not a time"),
        ([HEADER, "1,A,2020-01-01T00:00:00Z", "1,A,2020-01-01T00:00:00Z,SECRET"], "line 3 has 4 fields"),
        ([HEADER, "1,A,2020-01-01T00:00:00Z,SECRET", "1,A,2020-01-01T00:00:00Z"], "line 2 has 4 fields"),
        ([HEADER, *["1,A,2020-01-01T00:00:00Z,SECRET"] * 3], "line 2 has 4 fields, the header names 3"),
        ([HEADER, "1,A,2020-01-01T00:00:00Z", '"SECRET'], "not well-formed CSV"),
        (
            [f"{HEADER},case:x", "1,A,2020-01-01T00:00:00Z,SECRET", "1,B,2020-01-01T00:00:00Z,2"],
            "line 2: the case that begins here has two values of 'case:x'",
        ),
    ],
)
def test_bad_tables_are_refused_with_file_and_line(table, lines, said):
    """One line that says where and what to do, and never what a record holds."""
    assert said in refused(table(*lines))


def test_long_names_and_separators_at_the_end_of_a_line_are_read(table):
    """A header field of 200,000 letters; and lines that end in one more separator lose nothing."""
    long = "x" * 200_000
    log = read_log(table(f"{HEADER},{long}", "1,A,2020-01-01T00:00:00Z,v,", "1,B,2020-01-02T00:00:00Z,w,"))
    assert log.event_attributes[long].decode() == ["v", "w"]


def test_damaged_files_are_refused(tmp_path, table):
    """Cut off gzip, not in the encoding that is named, no Parquet: one line each."""
    packed = table(HEADER, *(f"{n},A,2020-01-01T00:00:00Z" for n in range(2000)), name="l.csv.gz").read_bytes()
    for name, data, said in [
        ("cut.csv.gz", packed[: len(packed) // 2], "damaged or cut off"),
        ("false.parquet", b"PAR1 no", "not a readable Parquet file"),
        ("empty.parquet", b"", "not a readable Parquet file"),
    ]:
        (tmp_path / name).write_bytes(data)
        assert said in refused(tmp_path / name)
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xe9,A,2020-01-01T00:00:00Z\n")
    assert "not written in utf-8" in refused(tmp_path / "latin.csv", reading=Reading(encoding="utf-8"))


def frame(**columns) -> pd.DataFrame:
    """A table of two events of case 7."""
    usual = {"case:concept:name": [7, 7], "concept:name": ["A", "B"], "time:timestamp": ["2020-01-01T00:00:00Z"] * 2}
    return pd.DataFrame({**usual, **columns})


def test_parquet_times_with_and_without_zone(tmp_path):
    """Zoned datetimes as they are, zoneless ones in the zone named, else refused with the row."""
    file = tmp_path / "log.parquet"
    local = pd.to_datetime(["2020-07-01 12:00", "2020-07-01 13:00"])
    frame(**{"time:timestamp": local}).to_parquet(file)
    assert "row 1" in refused(file)
    assert "--timezone" in refused(file)
    berlin = read_log(file, timezone="Europe/Berlin")
    frame(**{"time:timestamp": local.tz_localize("Europe/Berlin")}).to_parquet(file)
    assert read_log(file).time.tolist() == berlin.time.tolist() == [1593597600 * 10**9, 1593601200 * 10**9]
    assert berlin.case_ids == ("7",)


def test_parquet_times_that_nanoseconds_do_not_hold_are_refused(tmp_path):
    """The year 38504 in microseconds would wrap around to 1677; an unknown zone is one line too."""
    file = tmp_path / "log.parquet"
    far = pd.Series([0, 2**60]).astype("datetime64[us]")
    frame(**{"time:timestamp": far.dt.tz_localize("UTC")}).to_parquet(file)
    assert "row 2: time:timestamp is outside the years 1678 to 2261" in refused(file)
    frame(when=far).to_parquet(file)
    assert str(read_log(file).event_attributes["when"].decode()[1]).startswith("38504-08-17")
    frame(**{"time:timestamp": pd.to_datetime(["2020-07-01 12:00"] * 2)}).to_parquet(file)
    assert "not known" in refused(file, timezone="Mars/Base")


def test_parquet_lists_tables_and_bytes_are_text(tmp_path):
    """A value that is not a single value becomes its JSON, as in the records of the daemon."""
    file = tmp_path / "log.parquet"
    frame(l=[[1, 2], None], t=[{"a": "x"}, {"a": "y"}], b=[b"A", b"\xff"]).to_parquet(file)
    values = {name: column.decode() for name, column in read_log(file).event_attributes.items()}
    assert values == {"l": ["[1, 2]", None], "t": ['{"a": "x"}', '{"a": "y"}'], "b": ["A", "\\xff"]}


def test_parquet_nulls_and_types(tmp_path):
    """Null is missing, an int column with nulls stays int, case columns belong to the case."""
    file = tmp_path / "log.parquet"
    frame(**{"n": pd.array([1, None], dtype="Int64"), "case:x": ["v", None], "org:resource": [None, "R"]}).to_parquet(
        file
    )
    log = read_log(file)
    assert log.event_attributes["n"].decode() == [1, None]
    assert log.case_attributes["x"].decode() == ["v"]
    assert log.resource.decode() == [None, "R"]
    frame(**{"time:timestamp": ["2020-01-01T00:00:00Z", None]}).to_parquet(file)
    assert "row 2: no time:timestamp" in refused(file)
    frame()[:0].to_parquet(file)
    assert "no events" in refused(file)
    frame()[["concept:name"]].to_parquet(file)
    assert "no column 'case:concept:name'" in refused(file)


@pytest.mark.parametrize("suffix", ["xes", "csv", "parquet"])
def test_a_name_that_the_format_needs_is_refused_and_nothing_is_written(tmp_path, suffix):
    """An event attribute called concept:name would be read back as the activity."""
    log = EventLog.from_events(["1"], ["A"], pd.array([0]), event_attributes={"concept:name": ["other"]}, unit="ns")
    with pytest.raises(InputError, match="cannot be written"):
        write_log(log, tmp_path / f"log.{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_target_is_one_clear_line(tmp_path):
    """A folder that does not exist: InputError, no draft left."""
    log = EventLog.from_events(["1"], ["A"], pd.array([0]), unit="ns")
    with pytest.raises(InputError, match="cannot be written"):
        write_log(log, tmp_path / "absent" / "log.csv")
