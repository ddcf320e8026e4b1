"""Rows that cannot be read: counted by cause, refused by default, left out one by one where that is asked for."""

from __future__ import annotations

import csv
import json
import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from connectors import read_log
from connectors.bad_rows import BadRows
from connectors.inspection import inspect
from connectors.reading import Reading
from models.errors import InputError
from stream.commands import execute

HEADER = "case:concept:name,concept:name,time:timestamp"
GOOD = [f"{case},A,2024-01-{1 + case:02}T10:00:00Z" for case in range(20)]


def written(folder: Path, rows: list[bytes | str], name: str = "log.csv") -> Path:
    """A CSV file of these rows."""
    lines = [row.encode() if isinstance(row, str) else row for row in [HEADER, *rows]]
    file = folder / name
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def counted(file: Path, **options: object) -> tuple[int, dict[str, list[str]]]:
    """Return the number of events read, and the lines of the examples of each cause."""
    found: list[BadRows] = []
    reading = Reading(skip_bad_rows=True, on_bad_rows=found.append, **options)  # type: ignore[arg-type]
    events = read_log(file, reading=reading).n_events
    lines = {
        cause: [place.rpartition("line ")[2] for place in one["examples"]]
        for bad in found
        for cause, one in bad.by_cause().items()
    }
    return events, lines


BAD: dict[str, tuple[str | bytes, str]] = {
    "a time that is none": ("SECRET,A,someday", "a time that cannot be read"),
    "a day that is none": ("SECRET,A,2024-02-30T10:00:00Z", "a time that cannot be read"),
    "no time": ("SECRET,A,", "no time"),
    "a short row": ("SECRET,A", "no time"),
    "no case": (",SECRET,2024-01-01T10:00:00Z", "no case id"),
    "a blank case": ("   ,SECRET,2024-01-01T10:00:00Z", "no case id"),
    "no activity": ("SECRET,,2024-01-01T10:00:00Z", "no activity"),
    "a field too many": ("SECRET,A,2024-01-01T10:00:00Z,more", "more fields than the header"),
    "an open quotation": ('"SECRET,A,2024-01-01T10:00:00Z', "quotation marks that do not match"),
    "a time without a zone": ("SECRET,A,2024-01-01T10:00:00", "a time without a zone"),
}


@pytest.mark.parametrize(("row", "cause"), BAD.values(), ids=BAD)
def test_one_bad_row_refuses_the_log_and_can_be_left_out(tmp_path: Path, row: str | bytes, cause: str) -> None:
    """By default the log is refused with the line and the flag that continues; with it all other rows are read."""
    file = written(tmp_path, [*GOOD[:7], row, *GOOD[7:]])
    with pytest.raises(InputError) as refused:
        read_log(file)
    assert "line 9" in str(refused.value)
    assert "--skip-bad-rows" in str(refused.value)
    assert "SECRET" not in str(refused.value)
    assert counted(file) == (20, {cause: ["9"]})


def test_bytes_that_are_not_of_the_declared_encoding_are_one_row(tmp_path: Path) -> None:
    """One letter of a Windows code page in a file that is declared as UTF-8."""
    file = written(tmp_path, [*GOOD[:7], b"SECRET,M\xfcller,2024-01-01T10:00:00Z", *GOOD[7:]])
    with pytest.raises(InputError, match=r"line 9 is not written in utf-8"):
        read_log(file, reading=Reading(encoding="utf-8"))
    assert counted(file, encoding="utf-8") == (20, {"bytes that are not of the encoding": ["9"]})
    assert counted(file) == (21, {})  # not declared: the file is taken for one of the code page


def test_bad_rows_are_counted_by_cause_with_lines(tmp_path: Path) -> None:
    """Five examples of each; the rest is counted. All causes appear in one message, not the first alone."""
    many = [f"x{number},A,never" for number in range(7)]
    file = written(tmp_path, [*GOOD, *many, ",A,2024-01-01T10:00:00Z", "x,A,2024-01-01T10:00:00Z,1"])
    with pytest.raises(InputError) as refused:
        read_log(file)
    said = str(refused.value)
    assert "9 of 29 rows cannot be read" in said
    assert "7 with a time that cannot be read" in said
    assert "line 22, line 23, line 24, line 25, line 26, ...)" in said
    assert "1 with no case id" in said
    assert "1 with more fields than the header" in said
    events, lines = counted(file)
    assert events == 20
    assert lines["no case id"] == ["29"]
    assert lines["more fields than the header"] == ["30"]


def test_a_bad_record_of_several_lines_costs_its_first_line_alone(tmp_path: Path) -> None:
    """Two open quotations would make one record of all rows between them."""
    rows = [*GOOD[:3], '"x,A,2024-01-01T10:00:00Z', *GOOD[3:15], 'y,"A,2024-01-01T10:00:00Z', *GOOD[15:]]
    assert counted(written(tmp_path, rows)) == (20, {"quotation marks that do not match": ["5", "18"]})
    sound = written(tmp_path, [*GOOD, '"a\nb",A,2024-01-01T10:00:00Z', "x,A,never"], name="sound.csv")
    assert counted(sound) == (21, {"a time that cannot be read": ["24"]})


def test_no_majority_decides_between_day_first_and_month_first(tmp_path: Path) -> None:
    """Rows of both orders: nobody can say which are the bad ones, so the order must be declared."""
    rows = [f"{day},A,{day}/03/2024" for day in range(13, 25)]
    file = written(tmp_path, [*rows, "x,A,03/25/2024"])
    for skip in (False, True):
        with pytest.raises(InputError, match="a column has one order"):
            read_log(file, reading=Reading(timezone="UTC", skip_bad_rows=skip))
    assert counted(file, timezone="UTC", time_format="day-first") == (12, {"a time that cannot be read": ["14"]})
    assert counted(file, timezone="UTC", time_format="%d/%m/%Y") == (12, {"a time that cannot be read": ["14"]})


def test_counts_with_words_among_them(tmp_path: Path) -> None:
    """`n/a` in a column of milliseconds. Without the unit the column is refused, as one without such a word is."""
    rows = [f"{number},A,{1704067200000 + number}" for number in range(9)]
    file = written(tmp_path, [*rows, "x,A,n/a"])
    assert counted(file, time_format="ms") == (9, {"a time that cannot be read": ["11"]})
    with pytest.raises(InputError, match="needs its unit; all rows together look like --time-format ms"):
        read_log(file, reading=Reading(skip_bad_rows=True))


def test_a_few_bad_rows_do_not_hide_which_column_is_which(tmp_path: Path) -> None:
    """One unreadable time and one missing case id in an export whose columns must be guessed."""
    rows = ["Fall;Schritt;Zeitpunkt;Bearbeiter"]
    for case in range(40):
        for step, activity in enumerate(["open", "check", "close"]):
            rows.append(f"F{case};{activity};{1 + case % 28:02d}.0{1 + step}.2024 1{step}:00;u{(case + step) % 3}")
    rows[10] = rows[10].replace(".2024", ".20x4")
    rows[20] = rows[20][rows[20].index(";") :]
    file = tmp_path / "export.csv"
    file.write_text("\n".join(rows))
    found = inspect(file, Reading(timezone="UTC", skip_bad_rows=True))
    roles = {one.part: [one.name] for one in found.columns}
    assert roles == {"case": ["Fall"], "activity": ["Schritt"], "time": ["Zeitpunkt"], "resource": ["Bearbeiter"]}
    assert {cause: entry["rows"] for cause, entry in found.bad_rows.items()} == {
        "a time that cannot be read": 1,
        "no case id": 1,
    }


def test_a_log_of_bad_rows_alone_is_refused_whatever_is_asked_for(tmp_path: Path) -> None:
    """There is nothing to continue with, and no flag is proposed."""
    file = written(tmp_path, ["1,,2024-01-01T10:00:00Z", ",B,2024-01-01T10:00:00Z"])
    with pytest.raises(InputError, match="2 of 2 rows cannot be read") as refused:
        read_log(file, reading=Reading(skip_bad_rows=True))
    assert "--skip-bad-rows" not in str(refused.value)


def test_parquet_rows_are_left_out_by_row_number(tmp_path: Path) -> None:
    """Missing and blank case ids, a missing time; row 1 is the first."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "case:concept:name": ["1", " ", None, "2", "3"],
            "concept:name": ["A"] * 5,
            "time:timestamp": pd.to_datetime(["2024-01-01", "2024-01-01", "2024-01-01", None, "2024-01-02"], utc=True),
        }
    )
    frame.to_parquet(tmp_path / "log.parquet")
    found: list[BadRows] = []
    log = read_log(tmp_path / "log.parquet", reading=Reading(skip_bad_rows=True, on_bad_rows=found.append))
    assert log.case_ids == ("1", "3")
    places = {cause: one["examples"] for cause, one in found[0].by_cause().items()}
    file = tmp_path / "log.parquet"
    assert places == {"no case id": [f"{file}: row 2", f"{file}: row 3"], "no time": [f"{file}: row 4"]}


def test_a_blank_case_id_of_xes_is_missing(tmp_path: Path) -> None:
    """As in a table: blanks name nobody."""
    file = tmp_path / "log.xes"
    file.write_text(
        '<log><trace><string key="concept:name" value="  "/><event><string key="concept:name" value="A"/>'
        '<date key="time:timestamp" value="2024-01-01T00:00:00Z"/></event></trace></log>'
    )
    with pytest.raises(InputError, match="trace 1: no concept:name"):
        read_log(file)


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    """Exit code and JSON of an inspection."""
    code = execute(["inspect", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_inspect_counts_bad_rows_and_proposes_no_command_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """50 bad rows: exit 2, the counts, no `continue with`; with --skip-bad-rows the command that is proposed runs."""
    file = written(tmp_path, [*GOOD * 5, *["x,A,never"] * 48, *[" ,A,2024-01-01T10:00:00Z"] * 2])
    code, found = inspected(capsys, str(file))
    assert code == 2
    assert {cause: one["rows"] for cause, one in found["bad_rows"].items()} == {
        "a time that cannot be read": 48,
        "no case id": 2,
    }
    assert found["bad_rows"]["no case id"]["examples"] == [f"{file}: line 150", f"{file}: line 151"]
    assert found["commands"] == []
    assert execute(["inspect", str(file)]) == 2
    shown = capsys.readouterr().out
    assert "continue with" not in shown
    assert "50 of 150 rows cannot be read" in " ".join(shown.split())
    code, found = inspected(capsys, str(file), "--skip-bad-rows")
    assert (code, found["log"]["events"]) == (0, 100)
    (command,) = [line for line in found["commands"] if line.startswith("veilstream replay")]
    words = shlex.split(command)
    output = tmp_path / "first"
    assert execute([*words[1 : words.index("-o")], "-o", str(output), "--json"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)["events"] == 100


def test_two_clocks_in_one_column_are_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some times with a zone, some without: a problem, until the zone of the others is named, and a note then."""
    rows = [f"{day},A,2024-01-{day}T10:00:00{'Z' if day % 2 else ''}" for day in range(10, 20)]
    file = written(tmp_path, rows)
    code, found = inspected(capsys, str(file))
    assert code == 2
    assert any(
        "mixed zones in one column: 5 distinct times have a zone and 5 have none" in p for p in found["problems"]
    )
    code, found = inspected(capsys, str(file), "--timezone", "Europe/Berlin")
    assert code == 0
    assert any("5 of the times have a zone and 5 have none" in note for note in found["notes"])


def test_two_clocks_in_one_xes_file_are_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The advice was to leave out the events without a zone; with a zone named, nothing was said of two clocks."""
    file = tmp_path / "log.xes"

    def write(zones: Sequence[str]) -> None:
        events = "".join(
            f'<event><string key="concept:name" value="A"/>'
            f'<date key="time:timestamp" value="2024-01-{10 + place}T10:00:00{zone}"/></event>'
            for place, zone in enumerate(zones)
        )
        file.write_text(f'<log><trace><string key="concept:name" value="1"/>{events}</trace></log>', encoding="utf-8")

    write(["Z", "", "+01:00", "", ""])
    code, found = inspected(capsys, str(file))
    assert code == 2
    (problem,) = found["problems"]
    assert problem.startswith("mixed zones in one column: 2 times have a zone and 3 have none")
    assert [decision["flag"] for decision in found["decisions"]] == ["--timezone"]
    code, found = inspected(capsys, str(file), "--timezone", "Europe/Berlin")
    assert code == 0
    assert sum("2 of the times have a zone and 3 have none" in note for note in found["notes"]) == 1
    for zones in (["Z", "+01:00"], ["", ""]):
        write(zones)
        code, found = inspected(capsys, str(file), "--timezone", "Europe/Berlin")
        assert code == 0
        assert not any("have a zone and" in note for note in found["notes"])


def test_replay_gives_the_rows_to_the_operator_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The count on stderr and in the JSON, the rows in the operator's folder with mode 0600, nothing in public."""
    file = written(tmp_path, [*GOOD, "SECRET,A,never", ",SECRET,2024-01-01T10:00:00Z"])
    output = tmp_path / "out"
    before = os.umask(0)
    try:
        assert execute(["replay", str(file), "-o", str(output), "--skip-bad-rows", "--json"]) in (0, 3)
    finally:
        os.umask(before)
    said = capsys.readouterr()
    assert {cause: one["rows"] for cause, one in json.loads(said.out)["bad_rows"].items()} == {
        "a time that cannot be read": 1,
        "no case id": 1,
    }
    assert "2 rows were left out" in said.err
    assert "SECRET" not in said.err + said.out
    kept = output / "operator" / "bad-rows.csv"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with kept.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["where"].rpartition(": ")[2], row["why"], row["row"]) for row in rows] == [
        ("line 23", "no case id", ",SECRET,2024-01-01T10:00:00Z"),
        ("line 22", "a time that cannot be read", "SECRET,A,never"),
    ]
    for path in (output / "public").rglob("*"):
        assert not path.is_file() or b"SECRET" not in path.read_bytes()


def test_other_commands_write_next_to_the_log_or_to_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file next to a log is not a log: a folder is read as before."""
    folder = tmp_path / "logs"
    folder.mkdir()
    file = written(folder, [*GOOD, "SECRET,A,never"])
    assert execute(["risk", str(file), "--skip-bad-rows", "--json"]) == 0
    bad_rows_file = folder / "log.csv.bad-rows"
    assert stat.S_IMODE(bad_rows_file.stat().st_mode) == 0o600
    assert "SECRET" in bad_rows_file.read_text()
    assert execute(["risk", str(folder), "--skip-bad-rows", "--bad-rows", str(tmp_path / "bad"), "--json"]) == 0
    assert "SECRET" in (tmp_path / "bad").read_text()
    assert execute(["risk", str(file), "--skip-bad-rows", "--bad-rows", str(tmp_path / "no" / "bad")]) == 2
    assert "--bad-rows FILE" in " ".join(capsys.readouterr().err.split())


def test_the_configuration_asks_for_it_too(tmp_path: Path) -> None:
    """`[file] skip_bad_rows = true`, for a feed whose export always has some."""
    config = tmp_path / "c.toml"
    config.write_text(
        '[file]\nskip_bad_rows = true\n[[publication]]\nname = "p"\nwindow = { new_cases = 1 }\n'
        'mechanism = { kind = "identity" }\n'
    )
    file = written(tmp_path, [*GOOD, "SECRET,A,never"])
    assert execute(["replay", str(file), "-c", str(config), "-o", str(tmp_path / "out"), "--json"]) in (0, 3)
    assert (tmp_path / "out" / "operator" / "bad-rows.csv").is_file()


XES = """<?xml version="1.0" encoding="UTF-8"?>
<log>
{traces}
</log>
"""


def trace(name: str, *events: str) -> str:
    """A trace with these events."""
    own = f'<string key="concept:name" value="{name}"/>' if name else ""
    return f"<trace>{own}{''.join(f'<event>{event}</event>' for event in events)}</trace>"


def step(name: str = "A", time: str = "2024-01-01T10:00:00Z", more: str = "") -> str:
    """The attributes of an event."""
    parts = [f'<string key="concept:name" value="{name}"/>'] if name else []
    parts += [f'<date key="time:timestamp" value="{time}"/>'] if time else []
    return "".join([*parts, more])


@pytest.mark.parametrize(
    ("bad", "cause", "place"),
    [
        (trace("9", step(), step(time="someday")), "a time that cannot be read", "trace 2, event 2"),
        (trace("9", step(), step(time="")), "no time", "trace 2, event 2"),
        (trace("9", step(), step(time="2024-01-01T10:00:00")), "a time without a zone", "trace 2, event 2"),
        (trace("9", step(), step(name="")), "no activity", "trace 2, event 2"),
        (
            trace("9", step(), step(more='<int key="n" value="many"/>')),
            "a value that is not of its type",
            "trace 2, event 2",
        ),
        (
            trace("9", step(), step(more='<int key="n" value="1"/><int key="n" value="2"/>')),
            "an attribute or a case id that appears twice",
            "trace 2, event 2",
        ),
        (trace("", step()), "no case id", "trace 2"),
        (trace(" ", step()), "no case id", "trace 2"),
        (trace("1", step("X")), "an attribute or a case id that appears twice", "trace 2"),
    ],
)
def test_events_and_traces_of_xes_are_left_out_by_themselves(tmp_path: Path, bad: str, cause: str, place: str) -> None:
    """Refused by default; left out one by one where that is asked for, and all others are as without them."""
    file = tmp_path / "log.xes"
    others = [trace("1", step(), step("B", "2024-01-02T10:00:00Z")), trace("2", step("C"))]
    file.write_text(XES.format(traces="\n".join([others[0], bad, others[1]])))
    with pytest.raises(InputError):
        read_log(file)
    found: list[BadRows] = []
    log = read_log(file, reading=Reading(skip_bad_rows=True, on_bad_rows=found.append))
    kept = [one for one in zip(log.case_ids, log.traces(), strict=True) if one[0] != "9"]
    assert kept == [("1", ("A", "B")), ("2", ("C",))]
    assert [trace for case, trace in zip(log.case_ids, log.traces(), strict=True) if case == "9"] in ([], [("A",)])
    assert found[0].by_cause() == {cause: {"rows": 1, "examples": [f"{file}: {place}"]}}


def test_rows_that_the_lifecycle_leaves_out_were_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 21 rows one cannot be read; `inspect` said "1 of 11", since ten of the others are starts."""
    rows = [f"c{row},A,2024-01-01T10:{row:02d}:00Z,{('start', 'complete')[row % 2]}" for row in range(20)]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(["case,activity,time,lifecycle:transition", *rows, "x,A,never,start"]) + "\n")
    assert execute(["inspect", str(file), "--lifecycle", "complete"]) == 2
    assert "1 of 21 rows cannot be read" in " ".join(capsys.readouterr().out.split())
