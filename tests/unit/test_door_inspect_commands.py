"""The commands and flags that `inspect` prints work, on files that a hospital or a shop exports."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from connectors import read_log
from stream.commands import execute


def _clinic(folder: Path) -> Path:
    """cp1252, semicolons, German days; every tenth case has days as ISO 8601 writes them."""
    rows = ["Fallnummer;Maßnahme;Zeitpunkt"]
    for case in range(60):
        day, month = 1 + case % 28, 1 + case // 28
        for hour, activity in ((8, "Aufnahme"), (9, "Röntgen"), (10, "Entlassung")):
            date = f"2024-{month:02d}-{day:02d}" if case % 10 == 7 else f"{day:02d}.{month:02d}.2024"
            seconds = ":00" if case % 10 == 7 else ""
            rows.append(f"F{case:03d};{activity};{date} {hour:02d}:15{seconds}")
    path = folder / "klinik.csv"
    path.write_bytes("\r\n".join(rows).encode("cp1252"))
    return path


def test_the_declaration_that_is_shown_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`day-first|month-first|year-first` was shown, which no command takes."""
    path = _clinic(tmp_path)
    assert execute(["inspect", str(path), "--timezone", "Europe/Berlin"]) == 0
    shown = capsys.readouterr().out
    declared = re.search(r"^  (--encoding .*)$", shown, re.M)
    assert declared is not None
    flags = shlex.split(declared[1])
    assert flags[flags.index("--time-format") + 1] == "day-first"
    command = ["anonymize", str(path), "-o", str(tmp_path / "out.csv"), "--mechanism", "dp-variants"]
    noise = ["--epsilon", "1", "--delta-dp", "1e-3", "--json"]
    columns = ["--columns", "case=Fallnummer,activity=Maßnahme,time=Zeitpunkt"]
    assert execute([*command, *noise, *columns, *flags]) == 0
    assert '"cases":{"in":60' in capsys.readouterr().out


def test_a_problem_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _clinic(tmp_path)
    path.write_bytes(path.read_bytes() + "\r\n;Labor;01.02.2024 09:30".encode("cp1252"))
    assert execute(["inspect", str(path)]) == 2
    shown = capsys.readouterr().out
    assert "inspect the file again with the flags above" in shown
    assert "continue with" not in shown


def _shop(folder: Path) -> Path:
    """An OCEL 2.0 database as pm4py writes it from a table without zones."""
    import pm4py
    from pm4py.objects.ocel.obj import OCEL

    events, relations = [], []
    for order in range(30):
        for step, activity in enumerate(("place", "pick", "ship")):
            name, time = f"e{order}-{step}", pd.Timestamp("2024-05-01") + pd.Timedelta(hours=5 * order + step)
            events.append({"ocel:eid": name, "ocel:activity": activity, "ocel:timestamp": time})
            row = {"ocel:oid": f"o{order}", "ocel:type": "order"}
            relations.append({**events[-1], **row})
    objects = pd.DataFrame({"ocel:oid": [f"o{order}" for order in range(30)], "ocel:type": "order"})
    path = folder / "shop.sqlite"
    pm4py.write_ocel2_sqlite(
        OCEL(events=pd.DataFrame(events), objects=objects, relations=pd.DataFrame(relations)), str(path)
    )
    return path


def test_the_command_for_an_object_type_names_the_zone_that_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `--timezone` the command that was shown had to fail."""
    path = _shop(tmp_path)
    assert execute(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "to decide: --timezone ZONE" in shown
    (command,) = re.findall(r"^  veilstream (replay .*)$", shown, re.M)
    words = shlex.split(command.replace("ZONE", "Europe/Berlin"))
    assert "Europe/Berlin" in words
    words[words.index("-o") + 1] = str(tmp_path / "out")
    assert execute(words) in (0, 3), capsys.readouterr().err  # 3: the series of so few cases may be withheld


def test_a_statement_on_a_folder_that_is_missing_names_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It named a publication without a name."""
    assert execute(["statement", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: no such folder" in " ".join(capsys.readouterr().err.split())


def _office(folder: Path, transition: str = "lifecycle:transition") -> Path:
    """30 cases of three activities, each with its start and its complete, in times without a zone."""
    rows = [f"case,activity,time,{transition}"]
    for case in range(30):
        for hour, activity in ((8, "register"), (9, "check"), (10, "decide")):
            day = f"2024-06-{1 + case % 28:02d}"
            rows.append(f"c{case},{activity},{day}T{hour:02d}:00:00,start")
            rows.append(f"c{case},{activity},{day}T{hour:02d}:30:00,complete")
    path = folder / "office.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def _zoneless_xes(folder: Path) -> Path:
    """The same log as XES."""
    traces: dict[str, list[str]] = {}
    for line in _office(folder).read_text().splitlines()[1:]:
        case, activity, time, transition = line.split(",")
        strings = {"concept:name": activity, "lifecycle:transition": transition}
        tags = "".join(f'<string key="{key}" value="{value}"/>' for key, value in strings.items())
        traces.setdefault(case, []).append(f'<event>{tags}<date key="time:timestamp" value="{time}"/></event>')
    whole = "".join(
        f'<trace><string key="concept:name" value="{case}"/>{"".join(events)}</trace>'
        for case, events in traces.items()
    )
    path = folder / "office.xes"
    path.write_text(f'<?xml version="1.0"?>\n<log>{whole}</log>')
    return path


def test_xes_without_zones_is_asked_for_its_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was "a problem", without a flag to decide and without a command."""
    assert execute(["inspect", str(_zoneless_xes(tmp_path))]) == 0
    shown = capsys.readouterr().out
    assert "to decide: --timezone ZONE" in shown
    assert re.search(r"^  veilstream replay .* --timezone ZONE ", shown, re.M)


@pytest.mark.parametrize("written", [_office, _zoneless_xes])
@pytest.mark.parametrize(("lifecycle", "events"), [("complete", 90), ("start", 90), ("both", 180)])
def test_the_command_keeps_the_transitions_and_the_zone_that_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Callable[[Path], Path], lifecycle: str, events: int
) -> None:
    """Copied without them, it published starts and completes alike, and refused XES without zones."""
    path = written(tmp_path)
    assert execute(["inspect", str(path), "--lifecycle", lifecycle, "--timezone", "Europe/Berlin"]) == 0
    shown = capsys.readouterr().out
    assert "of its own" not in shown
    (command,) = re.findall(r"^  veilstream (replay .*)$", shown, re.M)
    words = shlex.split(command)
    assert words[words.index("--lifecycle") + 1] == lifecycle
    words[words.index("-o") + 1] = str(tmp_path / "out")
    assert execute([*words, "--json"]) in (0, 3)  # 3: the series of so few cases may be withheld
    assert json.loads(capsys.readouterr().out)["events"] == events


def test_the_command_keeps_the_column_of_transitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readers look for the name of XES only."""
    path = _office(tmp_path, transition="transition")
    flags = ["--lifecycle", "complete", "--columns", "lifecycle=transition", "--timezone", "UTC"]
    for given in (flags, [flag for flag in flags if flag not in ("--columns", "lifecycle=transition")]):
        assert execute(["inspect", str(path), *given]) == 0
        (command,) = re.findall(r"^  veilstream (replay .*)$", capsys.readouterr().out, re.M)
        words = shlex.split(command)
        assert "lifecycle=transition" in words[words.index("--columns") + 1].split(",")


def test_the_command_for_xes_keeps_the_columns_that_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _zoneless_xes(tmp_path)
    path.write_text(path.read_text().replace("lifecycle:transition", "step"))
    columns = "activity=concept:name,lifecycle=step"
    assert execute(["inspect", str(path), "--columns", columns, "--lifecycle", "start", "--timezone", "UTC"]) == 0
    (command,) = re.findall(r"^  veilstream (replay .*)$", capsys.readouterr().out, re.M)
    words = shlex.split(command)
    assert words[words.index("--columns") + 1] == columns


def test_a_note_asks_about_starts_and_completes_only_where_both_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _office(tmp_path)
    assert execute(["inspect", str(path), "--timezone", "UTC"]) == 0
    assert "each start and each complete is an event of its own" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("role", ["case", "activity", "time", "resource", "lifecycle"])
def test_a_given_column_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    """Another column was taken in its place, and the command was printed with that one."""
    path = _office(tmp_path)
    assert execute(["inspect", str(path), "--columns", f"{role}=foo", "--timezone", "UTC"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    message = " ".join(output.err.split())
    assert f"no column 'foo' ({role}); it has case, activity, time, lifecycle:transition" in message


def test_lines_above_the_header_are_named_as_a_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another separator does not help where a title comes before the header."""
    path = tmp_path / "export.csv"
    path.write_text("\nExport vom 03.04.2024\n\ncase;activity;time\n1;a;2024-04-01T08:00:00Z\n")
    for command in (["inspect", str(path)], ["risk", str(path)]):
        assert execute(command) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "export.csv: line 2: one column ('AAAAAA AAA 99.99.9999')" in message
        assert "if lines come before the header, remove them; otherwise name the sign between columns" in message


def test_a_folder_of_object_centric_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was opened as a database, and a disk error was reported."""
    for name in ("a.json", "b.sqlite"):
        (tmp_path / name).write_text("{}")
    for command in (["inspect", str(tmp_path)], ["risk", str(tmp_path)]):
        assert execute(command) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "each is a log of its own; name one file, or a folder of files of one other kind (.xes, " in message
        assert "disk" not in message


def _notes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert execute(["inspect", *arguments, "--json"]) == 0
    notes: list[str] = json.loads(capsys.readouterr().out)["notes"]
    return notes


_CLOCK_TIMES = [
    "2024-03-31T01:59:59",
    "2024-03-31T02:30:00",  # does not exist in Berlin
    "2024-03-31T03:00:00",
    "2024-10-27T01:59:59",
    "2024-10-27T02:30:00",  # occurs twice
    "2024-10-27T02:10:00",  # occurs twice
    "2024-10-27T02:10:00",
    "2024-10-27T03:00:00",
]


_TABLE = {"case": "case", "activity": "activity", "time": "time"}
_COLUMNS = {"iso": _TABLE, "german": _TABLE, "parquet": _TABLE, "xes": None}
_SKIPPED_IN_UTC = ["2024-03-31T00:59:59Z", "2024-03-31T01:30:00Z", "2024-03-31T01:00:00Z"]
"""The first three times; 02:30 does not exist, and is later than 03:00 of the next case."""


def _write_xes(path: Path, frame: pd.DataFrame) -> None:
    """Write one element a line, as most programs do."""
    lines = ['<?xml version="1.0"?>', "<log>"]
    for case, rows in frame.groupby("case"):
        lines += ["<trace>", f'<string key="concept:name" value="{case}"/>']
        for activity, time in zip(rows["activity"], rows["time"], strict=True):
            name = f'<string key="concept:name" value="{activity}"/>'
            lines += ["<event>", name, f'<date key="time:timestamp" value="{time}"/>', "</event>"]
        lines.append("</trace>")
    path.write_text("\n".join([*lines, "</log>"]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("form", ["iso", "german", "parquet", "xes"])
def test_times_at_a_change_of_the_clocks_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """They were resolved silently, by which the events of a case change their order."""
    frame = pd.DataFrame({"case": list("aabbccdd"), "activity": list("xyxyxyxy"), "time": _CLOCK_TIMES})
    path = tmp_path / {"parquet": "log.parquet", "xes": "log.xes"}.get(form, "log.csv")
    if form == "xes":
        _write_xes(path, frame)
    elif form == "parquet":
        frame.assign(time=pd.to_datetime(frame["time"])).to_parquet(path)
    else:
        if form == "german":
            frame["time"] = pd.to_datetime(frame["time"]).dt.strftime("%d.%m.%Y %H:%M:%S")
        frame.to_csv(path, index=False)
    # A skipped time is read with the offset before the change: 02:30 is 03:30 in summer time.
    skipped_hour = read_log(path, _COLUMNS[form], "Europe/Berlin").time[:3].tolist()
    assert skipped_hour == pd.to_datetime(_SKIPPED_IN_UTC).as_unit("ns").asi8.tolist()
    (note,) = [note for note in _notes(capsys, str(path), "--timezone", "Europe/Berlin") if "clocks" in note]
    assert note.startswith("3 times occur twice in Europe/Berlin, where the clocks are set back, and are read as the ")
    assert "; 1 times do not exist in Europe/Berlin, where the clocks are set forward, " in note
    for zone in ("UTC", "Asia/Tokyo"):
        assert not [note for note in _notes(capsys, str(path), "--timezone", zone) if "clocks" in note]


def test_times_with_an_offset_are_never_ambiguous(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{case},x,{time}+01:00" for case, time in zip("aabbccdd", _CLOCK_TIMES, strict=True)]
    path.write_text("\n".join(["case,activity,time", *rows]) + "\n")
    assert not [note for note in _notes(capsys, str(path), "--timezone", "Europe/Berlin") if "clocks" in note]


def test_case_ids_that_mean_a_missing_value_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of them is one case of unrelated rows."""
    path = tmp_path / "log.csv"
    ids = ["secret7", "secret7", "NaN", "NaN", "null", "N/A", "-", "None", "NA", "nano", "NAOMI"]
    rows = [f"{name},x,2024-01-01T00:{minute:02d}:00Z" for minute, name in enumerate(ids)]
    path.write_text("\n".join(["case,activity,time", *rows]) + "\n")
    notes = _notes(capsys, str(path))
    (note,) = [note for note in notes if "missing one" in note]
    assert note.startswith("7 rows have a case id that exports write for a missing one (-, N/A, NA, NaN, None, null):")
    assert not [note for note in notes if "secret7" in note or "nano" in note]


def test_case_ids_that_differ_by_spaces_or_by_a_fraction_of_zero_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """17, with spaces around it, and 17.0 are four cases; a version such as v1.0 is another id than v1."""
    path = tmp_path / "log.csv"
    ids = ["17", " 17", "17 ", "17.0", "18", "18", "19.0", "v1", "v1.0"]
    rows = [f"{name},x,2024-01-01T00:{minute:02d}:00Z" for minute, name in enumerate(ids)]
    path.write_text("\n".join(["case,activity,time", *rows]) + "\n")
    notes = _notes(capsys, str(path))
    (note,) = [note for note in notes if "spaces around" in note]
    assert note.startswith(
        "4 case ids differ from another one only by spaces around them, by upper and lower case, by .0 at the end"
    )
    assert not [note for note in notes if "missing one" in note]
