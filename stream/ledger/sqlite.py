"""The ledger: what was charged, sealed, withheld and published, in order, for ever.

Entries are appended and never changed. A charge is keyed by its cut and redraw number; a redraw after
lost bytes is charged again, because the bytes may have been seen. A seal is keyed by its number: the first
one wins, and an appender gets the entry that counts.

SQLite (WAL, synchronous=FULL) keeps them here; in the daemon the truth is the
ledger topic and this file is its copy, entry for entry.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol, TypeVar, cast

from models.dp.budget import Charge, parallel
from models.dp.zcdp import Kind as AccountingKind
from models.errors import RefusedError, UnavailableError, VeilstreamError
from stream.ledger.entries import (
    CASES,
    ApprovalEntry,
    BurnedEntry,
    ChargeBody,
    ChargeEntry,
    Entry,
    ErasedEntry,
    PublishedEntry,
    SealEntry,
    WithheldEntry,
    charge_key,
    key_of,
    read_entry,
    write_entry,
)
from stream.ledger.folder import make_private

VERSION = 1

Kind = TypeVar("Kind", bound=Entry)
"""Two entries with one key are of one kind."""
Answer = TypeVar("Answer")


class Ledger(Protocol):
    """What the pipeline needs of a ledger, wherever it is kept."""

    def append(self, entry: Kind) -> Kind:
        """Make `entry` durable and return the one that stands: itself, or the earlier one with its key."""

    def entries(self, publication: str | None = None) -> Iterator[Entry]:
        """All entries in order, of one publication or of all."""

    def count(self) -> int:
        """Number of entries: a checkpoint remembers it, so that an older ledger is recognised."""

    def close(self) -> None:
        """Let go of files and connections."""


def refuse_other_accounting(process: str, kind: AccountingKind, entries: Iterable[Entry]) -> None:
    """RefusedError where the ledger has a charge that is added up in another way: rho and epsilon do not add up.
    Charges of programs before are `pure`."""
    for entry in entries:
        if isinstance(entry, ChargeEntry) and entry.body.accounting != kind:
            raise RefusedError(
                f"process {process!r}: its ledger adds up charges as process.budget.accounting = "
                f'"{entry.body.accounting}", and the configuration now says "{kind}": it is one for the life of a '
                "ledger; go back, or give the process a new name and folder"
            )


class NewerLedgerError(RefusedError):
    """A ledger of a later program: nothing is wrong with it, and what its entries mean is not known here."""


class SqliteLedger:
    """The ledger in one SQLite file. Every append is fsynced before it returns."""

    def __init__(self, path: Path, process: str) -> None:
        self.path = path
        # SQLite gives its -wal and -shm files the mode of the database.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                make_private(file)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise unreadable(path, error) from error
        try:
            self._open(process)
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise unreadable(path, error) from error
            raise

    def _open(self, process: str) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        if not self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            self._create(process)
        _check(self._db, self.path, process)

    def _create(self, process: str) -> None:
        """Tables and owner in one transaction: a crash leaves a file without tables, or a whole ledger."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("CREATE TABLE about(version INTEGER NOT NULL, process TEXT NOT NULL)")
        self._db.execute(
            "CREATE TABLE entries(id INTEGER PRIMARY KEY, key TEXT UNIQUE, publication TEXT NOT NULL, "
            "body BLOB NOT NULL)"
        )
        self._db.execute("INSERT INTO about VALUES(?, ?)", (VERSION, process))
        self._db.execute("COMMIT")

    def append(self, entry: Kind) -> Kind:
        """Make `entry` durable and return the one that stands: itself, or the earlier one with its key."""
        key = key_of(entry)
        try:
            self._db.execute(
                "INSERT INTO entries(key, publication, body) VALUES(?, ?, ?) ON CONFLICT(key) DO NOTHING",
                (key, entry.publication, write_entry(entry)),
            )
        except sqlite3.Error as error:
            raise unwritable(self.path, error) from error
        if key is None:
            return entry
        (body,) = self._db.execute("SELECT body FROM entries WHERE key = ?", (key,)).fetchone()
        return cast(Kind, read_entry(body))

    def entries(self, publication: str | None = None) -> Iterator[Entry]:
        """All entries in order, of one publication or of all."""
        rows = self._db.execute(
            "SELECT body FROM entries WHERE ?1 IS NULL OR publication = ?1 ORDER BY id", (publication,)
        ).fetchall()
        return (read_entry(body) for (body,) in rows)

    def count(self) -> int:
        """Number of entries."""
        return int(self._db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        self._db.close()


_SHORT = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}
"""What SQLite says where the disk, the memory or the file descriptors are used up: nothing is wrong with the ledger."""


def is_short(error: sqlite3.Error) -> bool:
    """Return whether SQLite failed for want of space, memory or file descriptors."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _SHORT  # the low byte is the primary code, what is above it says more of it


def unwritable(path: Path, error: sqlite3.Error) -> VeilstreamError:
    """Return what to raise where a ledger takes no entry; nothing is released before it does."""
    if is_short(error):
        return UnavailableError(
            f"{path}: the ledger cannot be written ({error}); nothing is released; free some space and start again"
        )
    return RefusedError(f"{path}: the ledger cannot be written ({error}); nothing is released")


def unreadable(path: Path, why: object) -> VeilstreamError:
    """What to raise where a ledger's file cannot be opened or read."""
    if isinstance(why, sqlite3.Error) and is_short(why):
        return UnavailableError(
            f"{path}: the ledger cannot be opened ({why}); look at free space, permissions and limits, and start again"
        )
    return RefusedError(
        f"{path}: the ledger cannot be read ({why}); restore it from a backup. A daemon's is a copy of its topic: move "
        "it away, and the next start makes it again"
    )


def _check(db: sqlite3.Connection, path: Path, process: str | None = None) -> str:
    """Whose ledger it is. RefusedError for a version that this program does not read and, where `process` is given, for
    another one's ledger."""
    row = db.execute("SELECT version, process FROM about").fetchone()
    if row is None:
        raise unreadable(path, "it does not say whose it is")
    version, owner = row
    if version > VERSION:
        raise NewerLedgerError(f"{path}: ledger version {version} is newer than this program reads ({VERSION})")
    if process not in (None, owner):
        raise RefusedError(f"{path}: this ledger belongs to process {owner!r}, not {process!r}")
    return str(owner)


def owner_of(path: Path) -> str:
    """The process that a ledger file belongs to. RefusedError as `open_readonly`."""
    return _read(path, None)[0]


def open_readonly(path: Path, process: str | None = None) -> list[Entry]:
    """All entries of a ledger file, without a lock: readers never stand in the way of the writer. A newer ledger is
    refused, since what its entries mean is not known here; so is that of another process, where one is given."""
    return [read_entry(body) for body in _read(path, process)[1]]


def is_copy(path: Path) -> bool:
    """Whether a ledger file is the copy of a daemon's ledger topic: what is appended here is lost at its next start."""
    ask = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'topic'"
    return bool(_asked(path, lambda db: db.execute(ask).fetchone()[0]))


def version_of(path: Path) -> int:
    """The version of a ledger file, also of a newer one. RefusedError where it cannot be read."""
    row = _asked(path, lambda db: db.execute("SELECT version FROM about").fetchone())
    if row is None:
        raise RefusedError(f"{path}: the ledger cannot be read (it does not say whose it is)")
    return int(row[0])


def _read(path: Path, process: str | None) -> tuple[str, list[bytes]]:
    """Owner and entries."""

    def ask(db: sqlite3.Connection) -> tuple[str, list[bytes]]:
        return _check(db, path, process), [body for (body,) in db.execute("SELECT body FROM entries ORDER BY id")]

    return _asked(path, ask)


def _asked(path: Path, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """What a ledger file that is only read answers. Where nobody writes there is no log beside the file; SQLite would
    make one for a reader too, of the reader's owner, and leave it. Where one has come meanwhile, a writer has: what was
    read may be torn."""
    log = path.with_name(f"{path.name}-wal")
    alone = not log.exists()
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as db:
            found = ask(db)
    except sqlite3.DatabaseError as error:
        if alone and log.exists():
            return _asked(path, ask)
        raise RefusedError(f"{path}: the ledger cannot be read ({error})") from error
    return _asked(path, ask) if alone and log.exists() else found


def held_seals(found: Sequence[Entry]) -> list[SealEntry]:
    """The seals of a ledger's entries whose releases wait for a decision."""
    done = {
        (entry.publication, entry.sequence)
        for entry in found
        if isinstance(entry, BurnedEntry) or (isinstance(entry, ApprovalEntry) and entry.body.decision != "refused")
    }
    waiting: dict[tuple[str, int], SealEntry] = {}
    for entry in found:
        key = (entry.publication, entry.sequence)
        if isinstance(entry, SealEntry) and entry.body.held_at is not None and key not in done:
            waiting.setdefault(key, entry)
    return list(waiting.values())


class Account:
    """A publication's view of the ledger, folded from its entries once and kept up to date by the pipeline."""

    def __init__(self, ledger: Ledger, publication: str) -> None:
        self.ledger, self.publication = ledger, publication
        self.charges: dict[str, Charge] = {}
        """By key: what was paid for each draw."""
        self.terms: dict[str, ChargeBody] = {}
        """By key: with which scope and terms it was paid."""
        self._adding, self._largest = Charge(), Charge()
        self.charged_cuts: set[str] = set()
        self.redraws: Counter[str] = Counter()
        """Numbers that each cut lost after their seal: their bytes may have been seen."""
        self.seals: dict[int, SealEntry] = {}
        self.sealed_cuts: dict[str, SealEntry] = {}
        self.withheld: dict[str, WithheldEntry] = {}
        self.streak = 0
        """Attempts withheld since the last seal."""
        self.burned: dict[int, BurnedEntry] = {}
        self.rulings: dict[int, ApprovalEntry] = {}
        """Decisions on held releases, by number."""
        self.rejected: set[int] = set()
        """Numbers that were held and are never published: rejected, or superseded by a newer candidate."""
        self._held: set[int] = set()
        self.published: set[int] = set()
        self.erased = 0
        self.erased_releases: set[int] = set()
        for entry in ledger.entries(publication):
            self._fold(entry)

    def append(self, entry: Kind) -> Kind:
        """Append to the ledger and take in what stands."""
        standing = self.ledger.append(entry)
        self._fold(standing)
        return standing

    def _fold(self, entry: Entry) -> None:
        match entry:
            case ChargeEntry():
                self._charged(key_of(entry) or "", entry.body)
                self.charged_cuts.add(entry.cut)
            case SealEntry():
                self.streak = self.streak if entry.sequence in self.seals else 0  # one may be folded again
                self.seals[entry.sequence] = entry
                self.sealed_cuts[entry.cut] = entry
                decided = entry.sequence in self.rulings or entry.sequence in self.burned
                if entry.body.held_at is not None and not decided:
                    self._held.add(entry.sequence)
            case WithheldEntry():
                self.streak += entry.cut not in self.withheld and not entry.waits_for
                self.withheld[entry.cut] = entry
            case BurnedEntry():
                self.burned[entry.sequence] = entry
                self._held.discard(entry.sequence)
                self.sealed_cuts.pop(entry.cut, None)
                self.redraws[entry.cut] += 1
            case ApprovalEntry() if entry.body.decision != "refused":
                self.rulings[entry.sequence] = entry
                self._held.discard(entry.sequence)
                if entry.body.decision != "approved":
                    self.rejected.add(entry.sequence)
            case PublishedEntry():
                self.published.add(entry.sequence)
            case ErasedEntry():
                self.erased += entry.body.cases
                self.erased_releases.update(entry.body.releases)

    @property
    def last_number(self) -> int:
        """The last sealed or burned number; the next candidate is one more."""
        return max([0, *self.seals, *self.burned])

    @property
    def standing(self) -> list[int]:
        """Numbers of the releases that exist, in order: not those that are held, nor those that were rejected."""
        return sorted(set(self.seals) - set(self.burned) - self._held - self.rejected)

    @property
    def held(self) -> list[int]:
        """Numbers of the releases that wait for a person's approval, in order."""
        return sorted(self._held)

    def paid(self, cut: str) -> Charge:
        """What was charged for the draw of a cut that comes next, by an attempt that a crash ended before its seal.

        What was sealed may have been seen, also where its bytes are gone since: it is paid, and pays for nothing else.
        """
        return self.charges.get(charge_key(cut, self.redraws[cut]), Charge())

    def sealed(self, *, charged: bool = False) -> int:
        """How many numbers were sealed, burned ones included; only those whose cut was charged, where asked."""
        seals = self.seals.values()
        return sum(seal.cut in self.charged_cuts for seal in seals) if charged else len(seals)

    @property
    def resource_form(self) -> Literal["process", "key"]:
        """How releases of this publication name resources: by key and process, or by the key alone where the series
        began with a program that knew nothing else. Seals say it, so that every host goes on as the series began."""
        former = any(seal.body.resources != "process" for seal in self.seals.values())
        return "key" if former else "process"

    @property
    def unfinished(self) -> set[str]:
        """Cuts whose next draw is paid for, and which have no decision: an attempt is on its way, or died."""
        return {cut for cut in self.charged_cuts if self._is_open(cut)}

    def _is_open(self, cut: str) -> bool:
        decided = cut in self.sealed_cuts or cut in self.withheld
        return not decided and charge_key(cut, self.redraws[cut]) in self.charges

    def _charged(self, key: str, body: ChargeBody) -> None:
        if key in self.terms:  # one may be folded again
            return
        self.terms[key], self.charges[key] = body, body.charge
        self._adding, self._largest = _with(self._adding, self._largest, body)

    @property
    def spent(self) -> Charge:
        """What all charges are together, also of withheld and burned attempts: the ledger never under-counts. They add
        up, and those of disjoint cases are together the largest of them."""
        return self._adding + self._largest

    def cost(self, cut: str, asked: Charge, *, once: bool) -> tuple[Charge, Charge]:
        """(spent without the next draw of the cut, what that draw adds). `once`: it composes in parallel with others of
        its scope, and after the first of them mostly adds nothing."""
        key = charge_key(cut, self.redraws[cut])
        adding, largest = self._adding, self._largest
        if key in self.terms:  # a crashed attempt paid for it
            adding, largest = Charge(), Charge()
            for name, body in self.terms.items():
                adding, largest = (adding, largest) if name == key else _with(adding, largest, body)
        before = adding + largest
        after = adding + parallel([largest, asked]) if once else before + asked
        return before, after - before


def _with(adding: Charge, largest: Charge, body: ChargeBody) -> tuple[Charge, Charge]:
    """The charges that add up, and the largest of those of disjoint cases, with one more."""
    if body.scope == CASES:
        return adding, parallel([largest, body.charge])
    return adding + body.charge, largest
