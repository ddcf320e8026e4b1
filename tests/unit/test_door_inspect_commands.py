"""The commands and flags that `inspect` prints work, on files that a hospital or a shop exports."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

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
