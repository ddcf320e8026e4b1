"""Backup and restore of the operator's folder: ledger, checkpoints, audits and variants, as one tar file.

The key is left out unless it is requested: a backup with both lets its finder name the cases.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
import tempfile
import time
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import TypedDict, cast

from connectors.output import replacing
from connectors.store.base import HELD, PUBLIC
from connectors.store.open import open_store
from models.errors import InputError, RefusedError
from stream.ledger.entries import BurnedEntry, Entry, SealEntry
from stream.ledger.folder import UNFINISHED, ledger_in
from stream.ledger.layout import ERASED, KEY, LEDGER, LEDGER_FILES, LISTED, LOCK, OperatorLayout
from stream.ledger.sqlite import SqliteLedger, copy_ledger, open_readonly, read_view
from stream.ledger.view import LedgerView

VERSION = 1
PATIENCE = 5.0
"""Seconds for a running daemon to give a sealed release its number: a rename and an fsync."""
ABOUT = "veilstream-backup.json"
_LEFT_OUT = {LOCK, KEY, ERASED, LISTED, *LEDGER_FILES}
"""ERASED: an erasure may rewrite segments of the archive while they are copied. Without this file they are all read.
LISTED: segments may expire meanwhile. The next change of the archive lists those that were restored."""


class About(TypedDict):
    """Header of a backup: its version, how many ledger entries it holds, whether the key is in it."""

    version: int
    entries: int
    with_key: bool


def backup(output: Path, target: Path, *, with_key: bool = False) -> About:
    """Write `target` (0600) from the operator folder of `output`, also while a daemon runs.

    Checkpoints are copied first, then the ledger, then the files of its releases, so that none is newer than what it is
    compared with at the next start.

    Raises
    ------
    InputError
        If there is no ledger, the target exists or cannot be written.
    """
    layout = OperatorLayout(output)
    operator, ledger = layout.root, ledger_in(output)
    if target.exists():
        raise InputError(f"{target}: already exists")
    with (
        replacing(target) as draft,
        open(draft, "wb", opener=_private) as raw,
        tarfile.open(fileobj=raw, mode="w:gz") as tar,
    ):
        in_backup: set[Path] = set()
        _take(tar, in_backup, operator, layout.checkpoints)
        entries = _take_ledger(tar, ledger)
        for seal in LedgerView(entries).seals.values():
            unnamed = _unnamed(layout, seal)
            if unnamed is not None:
                _take(tar, in_backup, operator, unnamed, as_well=layout.release(seal.publication, seal.sequence))
        _take(tar, in_backup, operator, operator)
        # A key that is given from outside is in no file of the folder.
        has_key = with_key and layout.key.is_file()
        if has_key:
            tar.add(layout.key, KEY)
        about: About = {"version": VERSION, "entries": len(entries), "with_key": has_key}
        _add_about(tar, about)
    return about


def _take(
    tar: tarfile.TarFile, in_backup: set[Path], operator: Path, folder: Path, as_well: Path | None = None
) -> None:
    """Add the files of `folder`, a part of `operator`, except files taken before and those that are being written.

    Files that also appear in `as_well` are not taken there again.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        has_unfinished_name = any(part.endswith((".tmp", UNFINISHED)) for part in name.parts)
        is_held = HELD in name.parts[:-2]  # it has the name of an unfinished release until it is approved
        is_unfinished = has_unfinished_name and not is_held
        if path in in_backup or is_unfinished or path.name in _LEFT_OUT or not path.is_file():
            continue
        with suppress(FileNotFoundError), path.open("rb") as file:  # replaced or renamed meanwhile
            tar.addfile(tar.gettarinfo(arcname=str(path.relative_to(operator)), fileobj=file), file)
        in_backup |= {path} if as_well is None else {path, as_well / name}


def _unnamed(layout: OperatorLayout, seal: SealEntry) -> Path | None:
    """Return the folder of a sealed release that has no number yet.

    It gets its number a moment after the seal or, if a crash came between, at the next start. None if it has its
    number, or was burned.
    """
    temporary = layout.publication(seal.publication) / seal.body.operator
    numbered = layout.release(seal.publication, seal.sequence)
    deadline = time.monotonic() + PATIENCE
    while temporary.is_dir() and time.monotonic() < deadline:
        time.sleep(0.05)
    return temporary if temporary.is_dir() and not numbered.exists() else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def restore(source: Path, output: Path, store: str | None = None) -> About:
    """Unpack a backup into the (absent or empty) operator folder of `output`.

    RefusedError where the store holds a release that the backup's ledger does not know: the backup is older than
    what was published, and continuing would publish numbers twice. Charges of attempts that had not come to their seal
    pay for nothing more: what they paid for may have been sealed, seen and lost since.
    """
    operator = OperatorLayout(output).root
    if operator.exists() and any(operator.iterdir()):
        raise InputError(f"{operator}: is not empty; move it away first")
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder)
        about = _unpack(source, unpacked)
        _refuse_behind(unpacked / LEDGER, output, store)
        _give_up_open_charges(unpacked / LEDGER)
        operator.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted(unpacked.rglob("*")):
            _place(path, operator / path.relative_to(folder))
    return about


def _unpack(source: Path, folder: Path) -> About:
    """Return the backup's description of itself; the other files are in `folder`."""
    try:
        with tarfile.open(source, "r:gz") as tar:
            tar.extractall(folder, filter="data")
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, ArithmeticError) as error:
        # The last two: numbers of a damaged header that tarfile takes as they are.
        raise InputError(f"{source}: cannot be read as a backup ({type(error).__name__})") from None
    about = _about(folder / ABOUT, source)
    (folder / ABOUT).unlink()
    return about


def _take_ledger(tar: tarfile.TarFile, path: Path) -> list[Entry]:
    """Add the ledger as it is now, copied by SQLite; its entries."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy_ledger(path, copy)
        tar.add(copy, path.name)
        return open_readonly(copy)


def _add_about(tar: tarfile.TarFile, about: About) -> None:
    text = json.dumps(about).encode()
    info = tarfile.TarInfo(ABOUT)
    info.size = len(text)
    tar.addfile(info, io.BytesIO(text))


def _about(path: Path, source: Path) -> About:
    if not path.is_file():
        raise InputError(f"{source}: is not a backup of veilstream")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        version = int(about["version"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{source}: is not a backup of veilstream") from None
    if version > VERSION:
        raise RefusedError(f"{source}: backup version {version} is newer than this program reads ({VERSION})")
    return cast(About, about)


def _refuse_behind(ledger: Path, output: Path, url: str | None) -> None:
    view = read_view(ledger)
    # A release that was held when the backup was made, and is in the store now, was decided on since.
    sealed = view.seals.keys() - {(seal.publication, seal.sequence) for seal in view.held}
    names = view.accounts.keys() - {""}
    public = output / PUBLIC
    if public.is_dir():
        names |= {path.name for path in public.iterdir() if path.is_dir()}
    store = open_store(url or output)
    for name in sorted(names):
        for number in store.releases(name):
            if (name, number) not in sealed:
                raise RefusedError(
                    f"release {number} of {name} is in the store but not in this backup: the backup is behind; "
                    "restore a newer one"
                )


def _give_up_open_charges(path: Path) -> None:
    """Burn what was charged and neither sealed nor withheld when the backup was made: number 0, since none was known.

    Not in the copy of a ledger topic: the topic knows what came of them.
    """
    with closing(sqlite3.connect(path)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        (process,) = db.execute("SELECT process FROM about").fetchone()
    if "topic" in tables:
        return
    ledger = SqliteLedger(path, process)
    try:
        for name, account in sorted(ledger.view.accounts.items()):
            for cut in sorted(account.unfinished):
                ledger.append(BurnedEntry(publication=name, cut=cut))
    finally:
        ledger.close()


def _place(path: Path, target: Path) -> None:
    if path.is_dir():
        target.mkdir(exist_ok=True)
        return
    target.write_bytes(path.read_bytes())
    target.chmod(0o600)
