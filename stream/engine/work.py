"""Folders for the working data of an engine: one run at a time, and no remains of a run that was killed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import InputError, RefusedError, kind_of
from stream.engine.source import is_url

MARKER = ".veilstream-work"
"""Marker file; only folders that contain it are removed."""


@contextmanager
def workspace(target: str) -> Iterator[Path]:
    """Make a working folder `.NAME.<random>.tmp` next to the target, for this user only.

    If the target is a URL, the folder is in the system's folder for temporary files. It is removed at the end, and so
    is what a killed run left. RefusedError if another run works on the same target.
    """
    parent, name = _place(target)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with _alone(parent / f".{name}.lock", target):
            for leftover in parent.iterdir():
                if _ours(leftover, name):
                    shutil.rmtree(leftover, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=parent))
            try:
                (folder / MARKER).touch()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise kind_of(error)(f"{parent}: cannot be written ({error.strerror})") from error


def _place(target: str) -> tuple[Path, str]:
    if not is_url(target):
        path = Path(target.removeprefix("file://")).absolute()
        return path.parent, path.name
    digest = hashlib.sha256(target.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()), f"veilstream-{os.getuid()}-{digest}"


def _ours(folder: Path, name: str) -> bool:
    """Return whether a killed run for this name left the folder: by its name, and marked, or killed before it was."""
    if not re.fullmatch(rf"\.{re.escape(name)}\.[a-z0-9_]{{8}}\.tmp", folder.name):
        return False
    if folder.is_symlink() or not folder.is_dir():
        return False
    return (folder / MARKER).exists() or not any(folder.iterdir())


@contextmanager
def _alone(lock: Path, target: str) -> Iterator[None]:
    """Hold the lock of a target; the system gives it back if the process is killed."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise RefusedError(f"{target}: another run is just writing this; wait for it, or name another") from None
        if os.fstat(handle).st_size:  # ours are empty
            os.close(handle)
            raise InputError(f"{lock}: is not a lock file of veilstream; move it, or name another folder")
        if lock.exists() and os.fstat(handle).st_ino == lock.stat().st_ino:
            break
        os.close(handle)  # its last holder has removed it since
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
