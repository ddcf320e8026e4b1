"""A ledger that is only read is checked like one that is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from models.dp.budget import Charge
from models.errors import RefusedError
from stream.commands import execute
from stream.ledger.entries import charge_entry
from stream.ledger.sqlite import SqliteLedger, open_readonly, owner_of, version_of
from stream.operator.history import history


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """An empty ledger of the process `hospital` in an output folder."""
    path = tmp_path / "out" / "operator" / "ledger.sqlite"
    path.parent.mkdir(parents=True)
    SqliteLedger(path, "hospital").close()
    return path


def change(path: Path, statement: str) -> None:
    """Another program's hand in the file."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_a_newer_ledger_is_refused_by_readers_too(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The meaning of its entries is unknown: a list of them would be a guess."""
    change(ledger, "UPDATE about SET version = 2")
    with pytest.raises(RefusedError, match=r"ledger version 2 is newer than this program reads \(1\)"):
        open_readonly(ledger)
    folder = ledger.parent.parent
    assert execute(["releases", str(folder)]) == 4
    assert "ledger version 2 is newer" in capsys.readouterr().err
    with pytest.raises(RefusedError, match="newer"):
        history(folder)


def test_a_ledger_of_another_process_is_refused_where_the_process_is_known(ledger: Path) -> None:
    """As for the writer; a reader that does not ask gets any."""
    assert open_readonly(ledger, "hospital") == open_readonly(ledger) == []
    assert owner_of(ledger) == "hospital"
    with pytest.raises(RefusedError, match="belongs to process 'hospital', not 'clinic'"):
        open_readonly(ledger, "clinic")


def test_a_ledger_that_says_of_no_process_is_refused(ledger: Path) -> None:
    """Tables without an owner are not a ledger of ours."""
    change(ledger, "DELETE FROM about")
    for read in (open_readonly, owner_of, version_of):
        with pytest.raises(RefusedError, match="does not name its process"):
            read(ledger)


def test_a_reader_leaves_nothing_next_to_the_ledger(ledger: Path) -> None:
    """SQLite's log and its index would belong to the reader: to root, and the daemon could not write any more."""
    open_readonly(ledger)
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.sqlite"]


def test_a_reader_sees_what_a_writer_has_just_appended(ledger: Path) -> None:
    """It is in the writer's log, not yet in the file."""
    writer = SqliteLedger(ledger, "hospital")
    try:
        writer.append(charge_entry("research", "cut", Charge(Fraction(1))))
        assert [entry.kind for entry in open_readonly(ledger)] == ["charge"]
    finally:
        writer.close()


@pytest.mark.parametrize("torn", [False, True])
def test_a_writer_that_comes_while_a_reader_reads_is_noticed(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, torn: bool
) -> None:
    """If no process wrote at first and a writer's log exists at the end, the file is read once more, with the log; also
    if the content in between could not be read.
    """
    writers: list[SqliteLedger] = []
    connect = sqlite3.connect

    def connect_late(target: str | Path, *args: Any, **options: Any) -> sqlite3.Connection:
        if "immutable" in str(target) and not writers:
            writers.append(SqliteLedger(ledger, "hospital"))
            writers[0].append(charge_entry("research", "cut", Charge(Fraction(1))))
            if torn:
                raise sqlite3.DatabaseError("database disk image is malformed")
        return connect(target, *args, **options)

    monkeypatch.setattr("stream.ledger.sqlite.sqlite3.connect", connect_late)
    try:
        assert [entry.kind for entry in open_readonly(ledger)] == ["charge"]
        assert len(writers) == 1
    finally:
        for writer in writers:
            writer.close()


def test_a_file_that_stays_torn_is_refused(ledger: Path) -> None:
    """No writer came: the file itself is damaged, and nothing is read again and again."""
    ledger.write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(RefusedError, match="the ledger cannot be read"):
        open_readonly(ledger)
