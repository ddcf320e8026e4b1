"""The ledger: append-only, first one wins, exact sums."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from models.dp.budget import Charge
from models.errors import RefusedError
from stream.ledger.entries import charge_entry
from stream.ledger.sqlite import SqliteLedger, open_readonly
from tests.entries import entry


def _ledger(folder: Path) -> SqliteLedger:
    return SqliteLedger(folder / "ledger.sqlite", "demo")


def test_the_first_seal_of_a_number_wins(tmp_path: Path) -> None:
    """A second seal of the same number is answered with the first one."""
    ledger = _ledger(tmp_path)
    first = entry("seal", publication="p", cut="a", sequence=1, owner="one")
    assert ledger.append(first).owner == "one"
    assert ledger.append(entry("seal", publication="p", cut="b", sequence=1, owner="two")).owner == "one"
    assert ledger.count() == 1


def test_a_cut_is_charged_once(tmp_path: Path) -> None:
    """A crash retry of a cut reuses its charge; other cuts and withheld ones add up exactly."""
    ledger = _ledger(tmp_path)
    account = ledger.view.account("p")
    tenth = Charge(Fraction(1, 10), Fraction(1, 10**6))
    for cut in ("a", "a", "b", "c"):
        ledger.append(charge_entry("p", cut, tenth))
    assert account.spent == Charge(Fraction(3, 10), Fraction(3, 10**6))


def test_an_account_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """What an account knows comes from the file alone."""
    ledger = _ledger(tmp_path)
    ledger.append(charge_entry("p", "a", Charge(Fraction(1, 3))))
    ledger.append(entry("seal", publication="p", cut="a", sequence=1, owner="x"))
    ledger.append(entry("published", publication="p", sequence=1))
    ledger.append(entry("seal", publication="p", cut="b", sequence=2, owner="y"))
    ledger.append(entry("burned", publication="p", cut="b", sequence=2))
    ledger.close()
    again = _ledger(tmp_path).view.account("p")
    assert (again.standing, again.last_number, again.published) == ([1], 2, {1})
    assert again.spent.epsilon == Fraction(1, 3)
    assert set(again.sealed_cuts) == {"a"}


def test_entries_are_read_without_a_lock(tmp_path: Path) -> None:
    """A reader sees what was appended while the writer still has the file."""
    ledger = _ledger(tmp_path)
    ledger.append(entry("withheld", publication="p", cut="a", body={"reasons": ["ka: 1 is below 20"]}))
    assert [entry.kind for entry in open_readonly(tmp_path / "ledger.sqlite")] == ["withheld"]


def test_a_foreign_a_newer_and_a_broken_ledger_are_refused(tmp_path: Path) -> None:
    """Each gets one clear line and exit code 4."""
    _ledger(tmp_path).close()
    with pytest.raises(RefusedError, match="belongs to process"):
        SqliteLedger(tmp_path / "ledger.sqlite", "other")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute("UPDATE about SET version = 99")
    db.close()
    with pytest.raises(RefusedError, match="newer"):
        _ledger(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ledger.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(RefusedError, match="cannot be read"):
        _ledger(tmp_path / "broken")
