"""Open the store of a path or URL."""

from __future__ import annotations

import os
from pathlib import Path

from connectors.files import FileOps
from connectors.store.base import PUBLIC, Store
from connectors.store.local import LocalStore
from models.errors import InputError


def open_store(url: str | Path, ops: FileOps | None = None, private: Path | None = None) -> Store:
    """Open the store at a path or URL.

    Parameters
    ----------
    url
        A path, a `file://` URL or any other fsspec URL (`memory://`, `s3://bucket/prefix`). A local folder is made if
        it does not exist.
    ops
        The steps that touch the disk; tests replace them.
    private
        Local folder for quarantined bytes and held releases, and on object stores for unsealed ones too. The default
        is `<root>/operator` of a local store, and a temporary folder for an object store.

    Raises
    ------
    InputError
        The folder cannot be made or written, or the kind of URL is unknown.
    """
    ops = ops or FileOps()
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        from connectors.store.objects import ObjectStore

        return ObjectStore(text, ops, private)
    root = Path(text.removeprefix("file://"))
    try:
        (root / PUBLIC).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot hold releases ({error.strerror}); choose another folder with -o") from error
    if not os.access(root / PUBLIC, os.W_OK | os.X_OK):
        raise InputError(f"{root}: is not writable; choose another folder with -o, or change its owner")
    return LocalStore(root, ops, private or root / "operator")
