"""Keys and answers of the ledger, and the account that is made of its entries."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from models.dp.budget import Charge
from models.errors import RefusedError, UnavailableError, VeilstreamError
from stream.ledger.entries import Entry, charge_entry, key_of
from stream.ledger.sqlite import (
    SqliteLedger,
    open_readonly,
    unreadable,
)
from stream.ledger.view import LedgerView
from tests.entries import body_of, entry


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite", "demo")


def _entry(kind: str, cut: str = "a", sequence: int = 1, publication: str = "p", owner: str = "") -> Entry:
    return entry(kind, publication=publication, cut=cut, sequence=sequence, owner=owner)


@pytest.mark.parametrize(
    ("kind", "by_cut", "by_number"),
    [
        ("charge", True, False),
        ("withheld", True, False),
        ("seal", False, True),
        ("published", False, True),
        ("burned", False, False),
        ("erased", False, False),
        ("note", False, False),
    ],
)
def test_what_makes_an_entry_the_only_one(ledger: SqliteLedger, kind: str, by_cut: bool, by_number: bool) -> None:
    """One charge and one refusal a cut, one seal and one announcement a number and publication; others repeat."""
    first = _entry(kind, owner="first")
    assert ledger.append(first) == first
    same_cut = ledger.append(_entry(kind, sequence=2, owner="second"))
    assert same_cut.owner == ("first" if by_cut else "second")
    same_number = ledger.append(_entry(kind, cut="b", sequence=1, owner="third"))
    assert same_number.owner == ("first" if by_number else "third")
    assert ledger.append(_entry(kind, cut="c", sequence=1, publication="q", owner="fourth")).owner == "fourth"
    assert ledger.append(_entry(kind, cut="d", sequence=4, owner="fifth")).owner == "fifth"
    assert ledger.count() == 5 - by_cut - by_number


def test_kinds_do_not_stand_in_each_others_way() -> None:
    """The same cut and number give every kind a key of its own."""
    keys = [key_of(_entry(kind)) for kind in ("charge", "seal", "withheld", "published")]
    assert len(set(keys)) == 4
    assert None not in keys


def test_entries_come_in_order(ledger: SqliteLedger) -> None:
    """Also across publications, and as they went in."""
    given = [_entry("note", publication=name, cut=str(place)) for place, name in enumerate("pqpq")]
    for one in given:
        ledger.append(one)
    assert list(ledger.entries()) == given
    assert (ledger.count(), len(open_readonly(ledger.path))) == (4, 4)


def test_every_entry_is_on_the_disk_before_the_answer(ledger: SqliteLedger) -> None:
    """synchronous = FULL (2) with a write-ahead log: what `append` answered survives a loss of power."""
    assert ledger._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_full_disk_refuses_the_release(ledger: SqliteLedger) -> None:
    """A release that cannot be written is not released; the line names the file."""
    ledger._db.execute("PRAGMA query_only = ON")
    with pytest.raises(RefusedError, match=r"ledger\.sqlite: the ledger cannot be written .* nothing is released"):
        ledger.append(_entry("seal"))
    ledger.close()


def test_a_ledger_without_an_owner_is_refused(ledger: SqliteLedger) -> None:
    """A file whose `about` is empty, or that some other program made, is never written to."""
    ledger._db.execute("DELETE FROM about")
    ledger.close()
    with pytest.raises(RefusedError, match="does not name its process"):
        SqliteLedger(ledger.path, "demo")


def test_the_version_of_this_program_is_read_and_older_ones(ledger: SqliteLedger) -> None:
    """This version and what came before; one more is refused, with both numbers."""
    path = ledger.path
    for version in (1, 0):
        ledger._db.execute("UPDATE about SET version = ?", (version,))
        ledger.close()
        ledger = SqliteLedger(path, "demo")
    newest = 2
    ledger._db.execute("UPDATE about SET version = ?", (newest,))
    ledger.close()
    with pytest.raises(RefusedError, match=r"ledger version 2 is newer than this program reads \(1\)"):
        SqliteLedger(path, "demo")
    with closing(sqlite3.connect(path)) as db, db:  # a refusal changed nothing, and left the file free
        assert db.execute("SELECT version, process FROM about").fetchall() == [(2, "demo")]
    db.close()


def test_a_ledger_of_another_process_or_of_no_database_is_refused(ledger: SqliteLedger, tmp_path: Path) -> None:
    """Each gets one clear line; neither file is touched."""
    ledger.close()
    with pytest.raises(RefusedError, match="belongs to process"):
        SqliteLedger(ledger.path, "other")
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"not a database at all" * 100)
    with pytest.raises(RefusedError, match="cannot be read"):
        SqliteLedger(broken, "demo")
    assert broken.read_bytes() == b"not a database at all" * 100


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    """A file that SQLite cannot open, or that does not exist, is one clear refusal."""
    (tmp_path / "ledger.sqlite").mkdir()
    with pytest.raises(VeilstreamError, match=r"the ledger cannot be (read|opened)"):
        SqliteLedger(tmp_path / "ledger.sqlite", "demo")
    with pytest.raises(RefusedError, match="the ledger cannot be read"):
        open_readonly(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()  # a reader makes nothing


def test_an_account_knows_its_own_publication_only(ledger: SqliteLedger) -> None:
    """Entries of another publication are not in the sums nor in the numbers."""
    for publication, number in (("p", 1), ("q", 7)):
        ledger.append(charge_entry(publication, publication, Charge(Fraction(number), Fraction(number, 100))))
        ledger.append(_entry("seal", cut=publication, sequence=number, publication=publication))
    account = ledger.view.account("p")
    assert account.spending.summed == Charge(Fraction(1), Fraction(1, 100))
    assert (account.released_numbers, account.last_number) == ([1], 1)
    assert (
        ledger.view.account("r").released_numbers,
        ledger.view.account("r").last_number,
        ledger.view.account("r").spending.summed,
    ) == (
        [],
        0,
        Charge(),
    )


def test_what_each_kind_means_to_an_account(ledger: SqliteLedger) -> None:
    """Live and after a restart alike: charges add up, burned numbers are used up, erasures count their cases."""
    account = ledger.view.account("p")
    ledger.append(charge_entry("p", "a", Charge(Fraction(1, 3), Fraction(1, 7))))
    ledger.append(_entry("seal", cut="a", sequence=1))
    ledger.append(_entry("seal", cut="b", sequence=2))
    ledger.append(_entry("burned", cut="b", sequence=2))
    ledger.append(_entry("burned", cut="z", sequence=5))
    ledger.append(_entry("withheld", cut="c"))
    ledger.append(_entry("published", sequence=1))
    ledger.append(entry("erased", publication="p", body={"cases": 3, "releases": [1, 2]}))
    ledger.append(entry("erased", publication="p", body={"releases": [2, 4]}))
    for one in (account, LedgerView(ledger.entries()).account("p")):
        assert one.spending.summed == Charge(Fraction(1, 3), Fraction(1, 7))
        assert (one.released_numbers, one.last_number) == ([1], 5)
        assert (set(one.seals), set(one.burned), one.published) == ({1, 2}, {2, 5}, {1})
        assert (set(one.sealed_cuts), set(one.withheld)) == ({"a"}, {"c"})
        assert (one.erased, one.erased_releases) == (4, {1, 2, 4})


def test_an_account_takes_in_existing_entries(ledger: SqliteLedger) -> None:
    """The loser of a race for a number knows the winner's seal, not its own."""
    ledger.append(_entry("seal", cut="a", owner="winner"))
    second = SqliteLedger(ledger.path, "demo")
    account = second.view.account("p")
    assert second.append(_entry("seal", cut="b", owner="loser")).owner == "winner"
    assert account.seals[1].owner == "winner"
    assert set(account.sealed_cuts) == {"a"}


def test_a_cut_is_charged_once(ledger: SqliteLedger) -> None:
    """A retry of a cut after a crash reuses its charge; those of other cuts add up exactly."""
    account = ledger.view.account("p")
    for cut in ("a", "a", "b", "c"):
        ledger.append(charge_entry("p", cut, Charge(Fraction(1, 10), Fraction(1, 10**6))))
    assert account.spending.summed == Charge(Fraction(3, 10), Fraction(3, 10**6))


def test_charges_are_exact_in_the_file() -> None:
    """Thirds stay thirds, epsilon and delta each in its place."""
    one = charge_entry("p", "a", Charge(Fraction(1, 3), Fraction(2, 7)))
    assert body_of(one) == {"epsilon": "1/3", "delta": "2/7"}
    assert (one.kind, one.publication, one.cut) == ("charge", "p", "a")
    assert one.body.charge == Charge(Fraction(1, 3), Fraction(2, 7))


def test_a_ledger_is_used_by_more_than_one_thread(ledger: SqliteLedger) -> None:
    """The daemon decides in a worker thread with the ledger that its main thread opened."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ledger.append, _entry("seal")).result().kind == "seal"
        assert pool.submit(ledger.count).result() == 1


def test_a_closed_ledger_is_closed(ledger: SqliteLedger) -> None:
    """Its file is let go, and nothing more is read or written through it."""
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        ledger.count()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, UnavailableError),
        (sqlite3.SQLITE_CANTOPEN, UnavailableError),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, UnavailableError),  # the low byte says what it is, the rest says more of it
        (sqlite3.SQLITE_IOERR, UnavailableError),
        (sqlite3.SQLITE_NOMEM, UnavailableError),
        (sqlite3.SQLITE_CORRUPT, RefusedError),
        (sqlite3.SQLITE_NOTADB, RefusedError),
        (None, RefusedError),
    ],
)
def test_what_is_short_is_not_damaged(code: int | None, kind: type[VeilstreamError]) -> None:
    """A disk, memory or descriptors that are used up ask for another start; everything else for a backup."""
    error = sqlite3.OperationalError("as SQLite says")
    if code is not None:
        error.sqlite_errorcode = code
    found = unreadable(Path("ledger.sqlite"), error)
    assert type(found) is kind
    assert "as SQLite says" in str(found)
    assert type(unreadable(Path("ledger.sqlite"), "it does not name its process")) is RefusedError


def test_a_folder_asks_for_a_look_at_the_machine(tmp_path: Path) -> None:
    """The message of SQLite about a file that it cannot open is shown."""
    with pytest.raises(UnavailableError, match="look at free space, permissions and limits"):
        SqliteLedger(tmp_path, "demo")


def test_which_cuts_are_paid_and_undecided(ledger: SqliteLedger) -> None:
    """Those whose next draw has its charge, neither sealed nor withheld; a draw that was lost needs a new charge."""
    charge = Charge(Fraction(1), Fraction(1, 10))
    account = ledger.view.account("p")
    for cut in ("open", "sealed", "withheld", "lost", "again"):
        ledger.append(charge_entry("p", cut, charge))
    ledger.append(_entry("withheld", cut="unpaid"))
    ledger.append(_entry("withheld", cut="withheld"))
    for number, cut in enumerate(("sealed", "lost", "again"), 1):
        ledger.append(_entry("seal", cut=cut, sequence=number))
    for number, cut in ((2, "lost"), (3, "again")):
        ledger.append(_entry("burned", cut=cut, sequence=number))
    ledger.append(charge_entry("p", "again", charge, redraw=1))
    for one in (account, LedgerView(ledger.entries()).account("p")):
        assert one.unfinished == {"open", "again"}
        assert (one.redraws["open"], one.redraws["lost"], one.redraws["again"]) == (0, 1, 1)
        assert (one.paid("open"), one.paid("lost"), one.paid("again")) == (charge, Charge(), charge)
        assert (one.sealed(), one.sealed(charged=True), one.sealed(charged=False)) == (3, 3, 3)


def test_numbers_that_were_charged(ledger: SqliteLedger) -> None:
    """Counted alone where asked; burned ones stay sealed."""
    account = ledger.view.account("p")
    ledger.append(charge_entry("p", "paid", Charge(Fraction(1))))
    for number, cut in enumerate(("paid", "free", "free too"), 1):
        ledger.append(_entry("seal", cut=cut, sequence=number))
    ledger.append(_entry("burned", cut="free", sequence=2))
    assert (account.sealed(), account.sealed(charged=True)) == (3, 1)


def test_a_series_goes_on_naming_resources_as_it_began(ledger: SqliteLedger) -> None:
    """By process and key from the start; by the key alone once a seal does not say otherwise."""
    account = ledger.view.account("p")
    assert account.resource_form == "process"
    ledger.append(entry("seal", publication="p", cut="a", sequence=1, body={"resources": "process"}))
    assert account.resource_form == "process"
    ledger.append(entry("seal", publication="p", cut="b", sequence=2))
    assert account.resource_form == "key"


def test_the_streak_counts_refusals_since_the_last_seal(ledger: SqliteLedger) -> None:
    """Each refused cut once; a seal ends it; a seal that is folded again (another appender's is valid) does not."""
    account = ledger.view.account("p")
    assert account.streak == 0
    for cut, streak in (("a", 1), ("a", 1), ("b", 2)):
        ledger.append(_entry("withheld", cut=cut))
        assert account.streak == streak
    ledger.append(_entry("seal", cut="c", sequence=1))
    assert account.streak == 0
    ledger.append(_entry("withheld", cut="d"))
    ledger.append(_entry("seal", cut="c", sequence=1))
    assert account.streak == LedgerView(ledger.entries()).account("p").streak == 1
    ledger.append(_entry("seal", cut="e", sequence=2))
    assert account.streak == LedgerView(ledger.entries()).account("p").streak == 0
