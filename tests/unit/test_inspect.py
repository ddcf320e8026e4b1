"""`veilstream inspect`: what it says of a file is true, and its flags read the file."""

from __future__ import annotations

import io
import json
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from connectors import read_log
from stream.commands import execute
from tests.conftest import ROOT

TWIN = ROOT / "examples" / "hospital.csv.gz"
OFFICE = """;Vorgangsnr;Schritt;Erledigt am;Bearbeiter;Diagnose;Alter;Kommentar
0;1001;Anmeldung;13.02.2020 08:00;Anna Berg;x1;40;
1;1001;Prüfung;13.02.2020 09:00;Carl Dorn;x1;40;eilig
2;1002;Anmeldung;14.02.2020 08:00;Anna Berg;x2;41;
3;1002;Prüfung;15.02.2020 09:00;Carl Dorn;x2;41;
4;1002;Ende;15.02.2020 10:00;Carl Dorn;x2;41;
"""


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """The JSON of one inspection; it exits with 2 where it reports a problem, and proposes no command then."""
    code = execute(["inspect", *arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (2 if found["problems"] else 0)
    assert bool(found["commands"]) == (code == 0)
    return found


def test_an_office_table_is_reported_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encoding, separator, header, rows; each part with a reason; roles of what is left; no value."""
    file = tmp_path / "export.csv"
    file.write_bytes(OFFICE.encode("cp1252"))
    found = inspected(capsys, str(file))
    assert (found["encoding"], found["separator"], found["header_line"], found["rows"]) == ("cp1252", "semicolon", 1, 5)
    parts = {one["part"]: one["name"] for one in found["columns"] if one["part"]}
    assert parts == {"case": "Vorgangsnr", "activity": "Schritt", "time": "Erledigt am", "resource": "Bearbeiter"}
    assert all(one["reason"] for one in found["columns"])
    assert {one["name"]: one["role"] for one in found["columns"] if one["role"]} == {
        "Diagnose": "sensitive",
        "Alter": "quasi",
    }
    assert found["time"] == {"format": "%d.%m.%Y %H:%M", "zone": False}
    assert [decision["flag"] for decision in found["decisions"]] == ["--timezone"]
    assert found["log"] == {"cases": 2, "events": 5, "variants": 2}
    for value in ("Anna", "1001", "Prüfung", "x1", "eilig", "13.02"):
        assert value not in json.dumps(found, ensure_ascii=False)


def test_its_command_runs_once_what_is_to_decide_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proposed flags, the zone filled in, give the very events."""
    file = tmp_path / "ein export.csv"
    file.write_text(OFFICE, encoding="utf-8")
    found = inspected(capsys, str(file))
    words = shlex.split(found["commands"][0].replace("ZONE", "Europe/Berlin"))
    assert words[:3] == ["veilstream", "replay", str(file)]
    flags = words[3 : words.index("-o")]
    again = inspected(capsys, str(file), *[flag for flag in flags if flag not in ("--sensitive", "Diagnose")])
    assert (again["decisions"], again["problems"]) == ([], [])
    monkeypatch.chdir(tmp_path)
    assert execute([*words[1:], "--json"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)["events"] == 5


def test_dates_of_two_readings_are_a_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both readings are offered; pasted as it is, the command refuses."""
    file = tmp_path / "log.csv"
    file.write_text("Case ID,Activity,Timestamp\n1,A,05/03/2020 10:00\n1,B,06/03/2020 10:00\n")
    found = inspected(capsys, str(file), "--timezone", "UTC")
    assert found["decisions"][0]["flag"] == "--time-format"
    assert found["decisions"][0]["choices"] == ["day-first", "month-first"]
    assert execute(shlex.split(found["commands"][0])[1:]) == 2
    assert "--time-format" in capsys.readouterr().err
    answer = inspected(capsys, str(file), "--timezone", "UTC", "--time-format", "day-first")
    assert (answer["decisions"], answer["log"]) == ([], {"cases": 1, "events": 2, "variants": 1})
    assert "--time-format day-first" in answer["commands"][0]


def test_a_day_and_a_time_of_day_in_two_columns_are_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read by the day alone, events of one day would be in no order; a full time next to a clock is not a problem."""
    file = tmp_path / "log.csv"
    file.write_text("Case ID,Activity,Date,Time\n1,A,31/12/2020,14:05\n1,B,31/12/2020,08:06\n")
    (problem,) = inspected(capsys, str(file))["problems"]
    assert "'Date' has days and 'Time' the time of day: join them" in problem
    file.write_text("Case ID,Activity,Timestamp,Clock\n1,A,31/12/2020 14:05,14:05\n1,B,31/12/2020 14:06,14:06\n")
    assert inspected(capsys, str(file))["problems"] == []


def test_the_twin_is_the_example_log() -> None:
    """The bundled CSV holds the events of the bundled XES, to the second and the attribute."""

    def content(log) -> dict:
        people = [log.case_values(name).decode() for name in ("diagnosis", "age")]
        starts = log.starts.tolist()
        return {
            case: (
                trace,
                log.time[begin:end].tolist(),
                log.resource.decode()[begin:end],
                [one[place] for one in people],
            )
            for place, (case, trace, begin, end) in enumerate(
                zip(log.case_ids[:200], log.traces(), starts, starts[1:], strict=False)
            )
        }

    twin, log = read_log(TWIN, timezone="Europe/Berlin"), read_log(ROOT / "examples" / "hospital.xes.gz")
    assert content(twin.select_cases(_order(twin, log))) == content(log)


def _order(twin, log):
    import numpy as np

    place = {case: number for number, case in enumerate(twin.case_ids)}
    return np.asarray([place[case] for case in log.case_ids])


def test_the_twin_needs_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """The output is that of getting-started: recognised columns, the zone to decide, the sensitive attribute."""
    found = inspected(capsys, str(TWIN))
    assert found["commands"][0] == f"veilstream replay {TWIN} --timezone ZONE --sensitive diagnosis -o first"
    assert found["log"] == {"cases": 2041, "events": 11715, "variants": 63}


def test_standard_input_is_inspected_and_named_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No path of the file in which it is kept meanwhile."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OFFICE.encode())))
    found = inspected(capsys, "-")
    assert (found["file"], found["rows"]) == ("-", 5)
    assert "tmp" not in json.dumps(found)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"case,event,completeTime\n1,A,x\n")))
    assert execute(["risk", "-"]) == 2
    assert "standard input: line 2: completeTime is not a time" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "parquet", "xes"])
def test_standard_input_may_be_any_kind(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bytes decide."""
    from connectors import write_log

    log = read_log(TWIN, timezone="Europe/Berlin").select_cases(_first(3))
    write_log(log, tmp_path / f"log.{form}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / f"log.{form}").read_bytes())))
    again = read_log("-")
    assert (again.traces(), again.time.tolist()) == (log.traces(), log.time.tolist())


def _first(cases: int):
    import numpy as np

    return np.arange(cases)


def test_a_folder_is_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of one case may be in several files, columns in another order; errors name the file."""
    (tmp_path / "a.csv").write_text("Case ID,Activity,Timestamp\n1,A,05/03/2020\n2,A,31/12/2020\n")
    (tmp_path / "b.tsv").write_text("Timestamp\tActivity\tCase ID\n01/04/2020\tB\t1\n")
    (tmp_path / ".hidden.csv").write_text("x\n")
    log = read_log(tmp_path, timezone="UTC")
    assert dict(zip(log.case_ids, log.traces(), strict=True)) == {"1": ("A", "B"), "2": ("A",)}
    assert str(log.time[1].astype("datetime64[ns]"))[:10] == "2020-04-01"
    (tmp_path / "b.tsv").write_text("Timestamp\tActivity\tCase ID\nnever\tB\t1\n")
    assert execute(["inspect", str(tmp_path)]) == 2
    problem = "1 of 3 rows cannot be read: 1 with a time that cannot be read"
    assert problem in (shown := capsys.readouterr().out.replace("\n", " "))
    assert "b.tsv: line 2)" in shown
    assert "continue with" not in shown
    assert execute(["risk", str(tmp_path), "--timezone", "UTC"]) == 2
    assert "b.tsv: line 2: Timestamp is not a time" in capsys.readouterr().err
    (tmp_path / "c.csv").write_text("Case ID,Activity,Timestamp,more\n3,A,31/12/2020,x\n")
    assert execute(["risk", str(tmp_path)]) == 2
    assert "c.csv" in (error := capsys.readouterr().err)
    assert "'more'" in error
    (tmp_path / "log.xes").write_text("<log/>")
    assert execute(["inspect", str(tmp_path)]) == 2
    assert "several kinds" in capsys.readouterr().err


def test_the_configuration_says_the_same_as_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`[file]` for replay; advise leaves the flags in what it proposes."""
    from models.errors import InputError
    from stream.config import sources

    config = tmp_path / "c.toml"
    config.write_text(
        '[process]\ntimezone = "UTC"\n[file]\ntime_format = "day-first"\nseparator = "semicolon"\n'
        '[[publication]]\nname = "p"\nwindow = { new_cases = 1 }\nmechanism = { kind = "identity" }\n'
    )
    (tmp_path / "log.csv").write_text("Case ID;Activity;Timestamp\n1;A;05/03/2020\n1;B;06/03/2020\n")
    how = sources.load(config, {}).reading(lambda _: None)
    assert str(read_log(tmp_path / "log.csv", reading=how).time[0].astype("datetime64[ns]"))[:10] == "2020-03-05"
    bare = sources.load(None, {"process": {"timezone": "UTC"}})
    configured = sources.load(None, {"process": {"timezone": "UTC"}, "file": {"time_format": "day-first"}})
    assert bare.digest == configured.digest  # how a file is written is not part of what a release promises
    config.write_text('[file]\ntime_fromat = "x"\n')
    with pytest.raises(InputError, match="time_fromat"):
        sources.load(config, {})


@pytest.mark.parametrize(
    "name", ["replay", "advise", "anonymize", "attack", "leakage", "risk", "utility", "report", "inspect"]
)
def test_every_command_that_reads_a_log_takes_the_flags(name: str) -> None:
    """One list of flags, the same everywhere."""
    import importlib
    import inspect

    command = importlib.import_module(f"stream.commands.{name}").command
    wanted = {"columns", "timezone", "time_format", "encoding", "separator", "object_type"}
    assert wanted <= set(inspect.signature(command).parameters)


def test_the_table_of_pm4py_holds_the_log() -> None:
    """XES names, zoned times, case attributes on each row."""
    log = read_log(ROOT / "examples" / "hospital.xes.gz").select_cases(_first(2))
    frame = log.to_dataframe()
    assert list(frame) == [
        "case:concept:name", "concept:name", "time:timestamp", "org:resource", "case:diagnosis", "case:age",
    ]  # fmt: skip
    assert frame["time:timestamp"].astype("int64").tolist() == log.time.tolist()
    assert frame["case:age"].tolist() == [log.case_values("age").decode()[case] for case in log.case_of_event]


def test_eighty_columns_cut_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flags need the names of the columns, so a long one continues in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    name, path = "Sachbearbeiterkennung", tmp_path / "office.csv"
    rows = [f"{case};{act};0{day}.01.2025 10:00;A" for case in "xy" for day, act in ((1, "in"), (2, "out"))]
    path.write_text("\n".join([f"Case ID;Activity;Complete Timestamp;{name}", *rows]))
    assert execute(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert name in "".join(line.split()[0] for line in shown.splitlines()[4:] if line.strip())


def test_where_nothing_looks_sensitive_a_note_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The columns without a role are named: without --sensitive nothing bounds what a group shares."""
    path = tmp_path / "office.csv"
    for column, asked in (("Leistung", True), ("Behinderung", False)):
        rows = [
            f"{case};{act};0{day}.01.2025 10:00;{case * 3}" for case in "xy" for day, act in ((1, "in"), (2, "out"))
        ]
        path.write_text("\n".join([f"Case ID;Activity;Complete Timestamp;{column}", *rows]))
        found = inspected(capsys, str(path))
        assert any("looks sensitive" in note and f"({column})" in note for note in found["notes"]) == asked
        assert ("--sensitive" in found["commands"][0]) != asked


def test_a_case_id_of_blanks_alone_is_not_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readers refuse it; blanks alone can name an activity."""
    file = tmp_path / "log.csv"
    rows = ["case,activity,time", "1,a,2024-01-01T00:00:00Z", "  ,b,2024-01-02T00:00:00Z", "2, ,2024-01-03T00:00:00Z"]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    facts = inspected(capsys, str(file))
    filled = {column["name"]: (column["filled"], column["distinct"]) for column in facts["columns"]}
    assert filled == {"case": (2, 2), "activity": (3, 3), "time": (3, 3)}
    assert facts["bad_rows"]


def test_activities_are_shown_where_somebody_asks_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a line that a configuration reads, with the warning that it is not public; otherwise no label is printed."""
    file = tmp_path / "export.csv"
    file.write_text(OFFICE, encoding="utf-8")
    assert inspected(capsys, str(file))["activities"] == []
    assert execute(["inspect", str(file)]) == 0
    assert "Anmeldung" not in capsys.readouterr().out
    labels = ["Anmeldung", "Ende", "Prüfung"]
    assert inspected(capsys, str(file), "--activities")["activities"] == labels
    assert execute(["inspect", str(file), "--activities"]) == 0
    shown = capsys.readouterr().out
    (line,) = [row for row in shown.splitlines() if row.startswith("activities = ")]
    assert tomllib.loads(line) == {"activities": labels}
    assert "derived from the data, so it is not public" in shown


@pytest.mark.parametrize("rows", ["", "c1,a,,x\n"])
def test_no_format_of_times_is_claimed_without_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: str
) -> None:
    """A header alone was described as times in ISO 8601 with a zone, and declared so for mechanisms with epsilon."""
    file = tmp_path / "header.csv"
    file.write_text(f"case:concept:name,concept:name,time:timestamp,note\n{rows}", encoding="utf-8")
    found = inspected(capsys, str(file))
    assert found["time"] == {"format": None, "zone": None}
    assert "iso" not in " ".join(found["declared"])
    assert execute(["inspect", str(file)]) == 2
    assert "ISO 8601" not in capsys.readouterr().out
