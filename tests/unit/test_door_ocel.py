"""Foreign object-centric files: a SQLite file runs nothing, OCEL 1.0 is named, and every type has its command."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from connectors import ocel, read_log
from connectors.reading import Reading
from models.errors import InputError
from models.utility.discovery import quiet_pm4py
from stream.commands import execute
from tests.unit.test_ocel import document

HOW = Reading(object_type="order")
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A log of OCEL 2.0 in SQLite."""
    (tmp_path / "log.json").write_text(json.dumps(document()))
    with quiet_pm4py() as pm4py:
        pm4py.write_ocel2_sqlite(pm4py.read_ocel2_json(str(tmp_path / "log.json")), str(tmp_path / "log.sqlite"))
    return tmp_path / "log.sqlite"


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize("table", ["event", "object", "event_object", "event_map_type", "event_Place", "object_Order"])
def test_a_view_is_refused_and_not_run(base: Path, table: str) -> None:
    """Each of these has rows without an end: who reads one, never returns."""
    endless = f"CREATE VIEW {table} AS {ENDLESS} SELECT x AS ocel_id, x AS ocel_type, x AS ocel_type_map FROM n"
    changed(base, f"ALTER TABLE {table} RENAME TO old_{table}", endless)
    with pytest.raises(InputError, match=f"'{table}' is not a plain table"):
        read_log(base, reading=HOW)


def test_a_column_that_is_computed_is_refused(base: Path) -> None:
    """It could be as large as it likes."""
    changed(base, "ALTER TABLE object_Order ADD COLUMN big TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000)))")
    with pytest.raises(InputError, match="'object_Order' is not a plain table"):
        read_log(base, reading=HOW)


def test_reading_stops_after_the_steps_that_a_file_may_take(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with its usual bound the same file is read."""
    assert read_log(base, reading=HOW).n_cases == 2
    monkeypatch.setattr(ocel, "LEAST_STEPS", 0)
    monkeypatch.setattr(ocel, "STEPS_PER_BYTE", 0)
    monkeypatch.setattr(ocel, "_HEARTBEAT", 10)
    with pytest.raises(InputError, match="far longer than its size explains"):
        read_log(base, reading=HOW)


def test_a_field_that_is_too_long_is_refused(base: Path) -> None:
    """Before anything reads it whole; the value is not in the message."""
    changed(base, "UPDATE object_Order SET country = printf('%.*c', 70000000, 'S')")
    with pytest.raises(InputError, match="a field has more than 64 MB"):
        read_log(base, reading=HOW)


def test_too_many_rows_are_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number, the bound and what to do."""
    monkeypatch.setattr(ocel, "MOST_ROWS", 5)
    with pytest.raises(InputError, match=r"'event' has 6 rows, and at most 5 are read; .*--engine duckdb"):
        read_log(base, reading=HOW)


@pytest.mark.parametrize(("kind", "suffix"), [("json", ".jsonocel"), ("xml", ".xmlocel")])
def test_ocel_1_is_named_and_its_conversion_works(
    base: Path, kind: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the message makes a file that is read."""
    old = base.with_name(f"old{suffix}")
    with quiet_pm4py() as pm4py:
        getattr(pm4py, f"write_ocel_{kind}")(pm4py.read_ocel2_sqlite(str(base)), str(old))
    with pytest.raises(InputError, match=r"OCEL 1\.0") as error:
        read_log(old, reading=HOW)
    _, program, code = shlex.split(str(error.value).partition("convert it with pm4py: ")[2])
    assert program == "-c"
    # In this process, which has imported pm4py already: another one would take seconds for that.
    monkeypatch.chdir(old.parent)
    with quiet_pm4py():
        exec(code, {})
    assert read_log(old.with_name(f"old-ocel2.{kind}"), reading=HOW).n_cases == 2


def test_inspect_prints_a_command_for_each_type(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be copied as it is; the folders differ."""
    assert execute(["inspect", str(base), "--json"]) == 0
    commands = json.loads(capsys.readouterr().out)["commands"]
    assert len(commands) == 2
    for kind, line in zip(("item", "order"), commands, strict=True):
        assert f"--object-type {kind} " in line
        assert line.endswith(f"-o first-{kind}")


def test_exact_copies_of_rows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do; a row that differs in one column is not a copy."""
    rows = [f"c{number},{act},2025-01-01T00:0{number}:00Z,x" for number in range(5) for act in ("in", "out")]
    near = "c1,in,2025-01-01T00:01:00Z,y"
    (tmp_path / "log.csv").write_text("\n".join(["case,act,time,note", *rows, rows[0], rows[0], rows[3], near]) + "\n")
    assert execute(["inspect", str(tmp_path / "log.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["duplicates"] == 3
    assert any(note.startswith("3 rows are exact copies") and "drop_duplicates" in note for note in found["notes"])
