"""The ledger: what was charged, sealed, withheld and published, in order, forever.

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
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol, TypeVar, cast

from models.dp.zcdp import Kind as AccountingKind
from models.errors import RefusedError, UnavailableError, VeilstreamError
from stream.ledger.entries import Entry, key_of, read_entry, write_entry
from stream.ledger.folder import make_private
from stream.ledger.view import LedgerView

VERSION = 1

Kind = TypeVar("Kind", bound=Entry)
"""Two entries with one key are of one kind."""
Answer = TypeVar("Answer")


class Ledger(Protocol):
    """The interface of a ledger, wherever it is kept."""

    @property
    def view(self) -> LedgerView:
        """The facts of all entries so far, up to date after each append."""

    def append(self, entry: Kind) -> Kind:
        """Make `entry` durable and return the entry that counts: itself, or the earlier one with its key."""

    def entries(self) -> Iterator[Entry]:
        """Return all entries in order."""

    def count(self) -> int:
        """Return the number of entries: a checkpoint stores it, so that an older ledger is recognised."""

    def close(self) -> None:
        """Close files and connections."""


def refuse_other_accounting(process: str, kind: AccountingKind, view: LedgerView) -> None:
    """Refuse a ledger whose charges are added up in another way, since rho and epsilon do not add up.

    Raises
    ------
    RefusedError
        If a charge is accounted for otherwise than by `kind`. Charges of earlier programs are `pure`.
    """
    for other in sorted(view.accounting_kinds - {kind}):
        raise RefusedError(
            f"process {process!r}: its ledger adds up charges as process.budget.accounting = "
            f'"{other}", and the configuration now has "{kind}": it cannot change during the life of a '
            "ledger; go back, or give the process a new name and folder"
        )


class NewerLedgerError(RefusedError):
    """The ledger was written by a later program, whose entries this one cannot read."""


class SqliteLedger:
    """The ledger in one SQLite file. Every append is fsynced before it returns."""

    def __init__(self, path: Path, process: str) -> None:
        self.path = path
        self._view: LedgerView | None = None
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
        # WAL lets reports and `verify` read while this process writes. FULL syncs every commit: an entry is
        # durable before noise is drawn or a release is renamed.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        if not self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            self._create(process)
        _check(self._db, self.path, process)

    def _create(self, process: str) -> None:
        """Make tables and owner in one transaction: a crash leaves a file without tables, or a whole ledger."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("CREATE TABLE about(version INTEGER NOT NULL, process TEXT NOT NULL)")
        self._db.execute(
            "CREATE TABLE entries(id INTEGER PRIMARY KEY, key TEXT UNIQUE, publication TEXT NOT NULL, "
            "body BLOB NOT NULL)"
        )
        self._db.execute("INSERT INTO about VALUES(?, ?)", (VERSION, process))
        self._db.execute("COMMIT")

    @property
    def view(self) -> LedgerView:
        """The facts of all entries so far, up to date after each append."""
        if self._view is None:
            self._view = LedgerView(self.entries())
        return self._view

    def append(self, entry: Kind) -> Kind:
        """Make `entry` durable and return the entry that counts: itself, or the earlier one with its key."""
        key = key_of(entry)
        try:
            cursor = self._db.execute(
                "INSERT INTO entries(key, publication, body) VALUES(?, ?, ?) ON CONFLICT(key) DO NOTHING",
                (key, entry.publication, write_entry(entry)),
            )
        except sqlite3.Error as error:
            raise unwritable(self.path, error) from error
        # An entry with a key is written once, such as the charge of a cut. A repeated attempt reads the first one back
        # and continues with it.
        kept = entry
        if key is not None:
            (body,) = self._db.execute("SELECT body FROM entries WHERE key = ?", (key,)).fetchone()
            kept = cast(Kind, read_entry(body))
        is_new = cursor.rowcount == 1
        if is_new and self._view is not None:
            self._view.take(kept)
        return kept

    def entries(self) -> Iterator[Entry]:
        """Return all entries in order."""
        rows = self._db.execute("SELECT body FROM entries ORDER BY id").fetchall()
        return (read_entry(body) for (body,) in rows)

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()


_SHORT = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}
"""Messages of SQLite if the disk, the memory or the file descriptors are used up. The ledger itself is not damaged."""


def is_short(error: sqlite3.Error) -> bool:
    """Return whether SQLite failed for lack of space, memory or file descriptors."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _SHORT  # the low byte is the primary code; the bits above refine it


_PROTECTED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
"""Messages of SQLite on a file that this user may not write, or a disk that is read-only: no damage."""


def unwritable(path: Path, error: sqlite3.Error) -> VeilstreamError:
    """Return what to raise where a ledger takes no entry; nothing is released before it does."""
    if is_short(error):
        return UnavailableError(
            f"{path}: the ledger cannot be written ({error}); nothing is released; free some space and start again"
        )
    return RefusedError(f"{path}: the ledger cannot be written ({error}); nothing is released")


def unreadable(path: Path, why: object) -> VeilstreamError:
    """Return the error for a ledger file that cannot be opened or read."""
    if isinstance(why, sqlite3.Error) and is_short(why):
        return UnavailableError(
            f"{path}: the ledger cannot be opened ({why}); look at free space, permissions and limits, and start again"
        )
    if isinstance(why, sqlite3.Error) and getattr(why, "sqlite_errorcode", 0) & 0xFF in _PROTECTED:
        # Not to be restored: an older ledger would know fewer releases.
        return RefusedError(
            f"{path}: this user may not write the ledger ({why}); it is not damaged: look at the owner and the "
            "permissions of the file and of its folder, and whether the disk is read-only, and start again"
        )
    return RefusedError(
        f"{path}: the ledger cannot be read ({why}); restore it from a backup. A daemon's is a copy of its topic: move "
        "it away, and the next start makes it again"
    )


def _check(db: sqlite3.Connection, path: Path, process: str | None = None) -> str:
    """Check the version and the owner of a ledger.

    Raises
    ------
    RefusedError
        For a version that this program does not read and, if `process` is given, for the ledger of another process.
    """
    row = db.execute("SELECT version, process FROM about").fetchone()
    if row is None:
        raise unreadable(path, "it does not name its process")
    version, owner = row
    if version > VERSION:
        raise NewerLedgerError(f"{path}: ledger version {version} is newer than this program reads ({VERSION})")
    if process not in (None, owner):
        raise RefusedError(f"{path}: this ledger belongs to process {owner!r}, not {process!r}")
    return str(owner)


def owner_of(path: Path) -> str:
    """Return the process that a ledger file belongs to; RefusedError as `open_readonly`."""
    return _read(path, None)[0]


def open_readonly(path: Path, process: str | None = None) -> list[Entry]:
    """Return all entries of a ledger file without a lock: readers never block the writer.

    A newer ledger is refused, since the meaning of its entries is not known here. The ledger of another process is
    refused if `process` is given.
    """
    return [read_entry(body) for body in _read(path, process)[1]]


def read_view(path: Path, process: str | None = None) -> LedgerView:
    """Return the facts of a ledger file, read without a lock. Raises as `open_readonly`."""
    return LedgerView(open_readonly(path, process))


def copy_ledger(path: Path, target: Path) -> None:
    """Copy a ledger file as it is now, while its process may write. Raises as `version_of`."""
    with closing(sqlite3.connect(target)) as duplicate:
        _asked(path, lambda db: db.backup(duplicate))


def is_copy(path: Path) -> bool:
    """Return whether a ledger file is the copy of a daemon's ledger topic.

    Entries that are appended to a copy are lost at the daemon's next start.
    """
    ask = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'topic'"
    return bool(_asked(path, lambda db: db.execute(ask).fetchone()[0]))


def version_of(path: Path) -> int:
    """Return the version of a ledger file, also of a newer one; RefusedError if it cannot be read."""
    row = _asked(path, lambda db: db.execute("SELECT version FROM about").fetchone())
    if row is None:
        raise RefusedError(f"{path}: the ledger cannot be read (it does not name its process)")
    return int(row[0])


def _read(path: Path, process: str | None) -> tuple[str, list[bytes]]:
    """Return the owner and the encoded entries."""

    def ask(db: sqlite3.Connection) -> tuple[str, list[bytes]]:
        return _check(db, path, process), [body for (body,) in db.execute("SELECT body FROM entries ORDER BY id")]

    return _asked(path, ask)


def _asked(path: Path, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Query a ledger file that is only read.

    If no process writes, there is no log of SQLite. SQLite would create one for a reader too, owned by the
    reader, and leave it. If one has appeared meanwhile, a writer has come, and what was read may be torn.
    """
    log = path.with_name(f"{path.name}-wal")
    alone = not log.exists()
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as db:
            answer = ask(db)
    except sqlite3.DatabaseError as error:
        if alone and log.exists():
            return _asked(path, ask)
        raise RefusedError(f"{path}: the ledger cannot be read ({error})") from error
    return _asked(path, ask) if alone and log.exists() else answer
