"""Backup and restore of the operator's folder: ledger, checkpoints, audits and variants, as one tar file.

The key is left out unless it is asked for: a backup that holds both lets its finder name the cases.
"""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from connectors.store import open_store
from models.errors import InputError, RefusedError
from stream.release.folder import UNFINISHED
from stream.release.ledger import open_readonly

VERSION = 1
ABOUT = "veilstream-backup.json"
_LEFT_OUT = {"lock", "key", "ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"}


def backup(output: Path, target: Path, *, with_key: bool = False) -> dict[str, Any]:
    """Write `target` from the operator folder of `output`; the ledger is copied by SQLite while it may be in use.

    InputError where there is no ledger or the target stands already.
    """
    operator = output / "operator"
    if not (operator / "ledger.sqlite").is_file():
        raise InputError(f"{output}: no operator/ledger.sqlite here; give the output folder of a replay or daemon")
    if target.exists():
        raise InputError(f"{target}: stands already")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ledger.sqlite"
        _copy_ledger(operator / "ledger.sqlite", copy)
        about = {"version": VERSION, "entries": len(open_readonly(copy)), "with_key": with_key}
        with tarfile.open(target, "x:gz") as tar:
            _add_text(tar, ABOUT, json.dumps(about))
            tar.add(copy, "ledger.sqlite")
            for path in sorted(operator.rglob("*")):
                name = path.relative_to(operator)
                wanted = path.is_file() and (name.name not in _LEFT_OUT or (with_key and str(name) == "key"))
                if wanted and not any(part.endswith((".tmp", UNFINISHED)) for part in name.parts):
                    tar.add(path, str(name))
    target.chmod(0o600)
    return about


def restore(source: Path, output: Path, store: str | None = None) -> dict[str, Any]:
    """Unpack a backup into the (absent or empty) operator folder of `output`.

    RefusedError where the store holds a release that the backup's ledger does not know: the backup is older than
    what was published, and going on would publish numbers twice.
    """
    operator = output / "operator"
    if operator.exists() and any(operator.iterdir()):
        raise InputError(f"{operator}: is not empty; move it away first")
    try:
        with tarfile.open(source, "r:gz") as tar, tempfile.TemporaryDirectory() as folder:
            tar.extractall(folder, filter="data")
            about = _about(Path(folder) / ABOUT, source)
            _refuse_behind(Path(folder) / "ledger.sqlite", output, store)
            operator.mkdir(parents=True, exist_ok=True, mode=0o700)
            (Path(folder) / ABOUT).unlink()
            for path in sorted(Path(folder).rglob("*")):
                _place(path, operator / path.relative_to(folder))
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"{source}: cannot be read as a backup ({type(error).__name__})") from None
    return about


def _copy_ledger(source: Path, target: Path) -> None:
    with sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True) as one, sqlite3.connect(target) as two:
        one.backup(two)
    one.close()
    two.close()


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    tar.addfile(info, io.BytesIO(text.encode()))


def _about(path: Path, source: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{source}: is not a backup of veilstream")
    about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if about.get("version", 0) > VERSION:
        raise RefusedError(f"{source}: backup version {about['version']} is newer than this program reads ({VERSION})")
    return about


def _refuse_behind(ledger: Path, output: Path, url: str | None) -> None:
    entries = open_readonly(ledger)
    known = {(entry.publication, entry.sequence) for entry in entries if entry.kind == "seal"}
    names = {entry.publication for entry in entries} - {""}  # notes of the process belong to no publication
    public = output / "public"
    names |= {path.name for path in public.iterdir() if path.is_dir()} if public.is_dir() else set()
    store = open_store(url or output)
    for name in sorted(names):
        for number in store.releases(name):
            if (name, number) not in known:
                raise RefusedError(
                    f"release {number} of {name} is in the store but not in this backup: the backup is behind; "
                    "restore a newer one"
                )


def _place(path: Path, target: Path) -> None:
    if path.is_dir():
        target.mkdir(exist_ok=True)
        return
    target.write_bytes(path.read_bytes())
    target.chmod(0o600)
