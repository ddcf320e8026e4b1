"""A ledger that a crash left half made, and a disk that takes no more entries."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from models.errors import RefusedError, UnavailableError
from stream.ledger.sqlite import SqliteLedger, unreadable
from tests.entries import entry


def test_a_ledger_that_a_crash_left_without_tables_is_made_again(tmp_path: Path) -> None:
    """kill -9 between the file's creation and its tables: nothing was charged yet, so the next start continues."""
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
    with closing(SqliteLedger(path, "p")) as ledger:
        ledger.append(entry("note", publication=""))
        assert ledger.count() == 1


def test_tables_and_owner_are_made_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No crash can leave tables that belong to nobody: a later start could not know whose charges they contain."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setattr("stream.ledger.sqlite._check", _die)
    with pytest.raises(KeyboardInterrupt):
        SqliteLedger(path, "p")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT process FROM about").fetchall() == [("p",)]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM about")
    monkeypatch.undo()
    with pytest.raises(RefusedError, match="restore it from a backup"):
        SqliteLedger(path, "p")


def _die(*_arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("statement", ["INSERT INTO entries(key, publication, body) VALUES('k', '', '')", "VACUUM"])
def test_a_ledger_that_may_not_be_written_is_not_to_be_restored(tmp_path: Path, statement: str) -> None:
    """After a command of root, or on a disk that has become read-only. A backup would know fewer releases."""
    path = tmp_path / "ledger.sqlite"
    SqliteLedger(path, "p").close()
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db,
        pytest.raises(sqlite3.OperationalError, match="readonly") as error,
    ):
        db.execute(statement)
    refusal = unreadable(path, error.value)
    assert refusal.exit_code == 4
    assert "it is not damaged: look at the owner" in str(refusal)
    assert "backup" not in str(refusal)


def test_a_ledger_that_cannot_be_written_refuses_in_one_line(tmp_path: Path) -> None:
    """A full disk under the ledger is an expected error with exit code 1: a later start may go well."""
    with closing(SqliteLedger(tmp_path / "ledger.sqlite", "p")) as ledger:
        ledger._db.execute("PRAGMA max_page_count = 1")  # SQLite's own "database or disk is full"
        large = entry("note", publication="", body={"missing": ["x" * 1_000_000]})
        with pytest.raises(UnavailableError, match="cannot be written") as error:
            ledger.append(large)
        assert error.value.exit_code == 1
