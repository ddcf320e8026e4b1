"""The store of a path or URL."""

from __future__ import annotations

import os
from pathlib import Path

from connectors.files import FileOps
from connectors.store.base import Store
from connectors.store.local import LocalStore
from models.errors import InputError


def open_store(url: str | Path, ops: FileOps | None = None, private: Path | None = None) -> Store:
    """The store at a path, a `file://` URL or any other fsspec URL (`memory://`, `s3://bucket/prefix`).

    `private` is a local folder for what nobody may see: quarantined bytes, and on object stores the unsealed ones too.
    It defaults to `<root>/operator` of a local store, and to a temporary folder for an object store.
    The local folder is made. InputError when it cannot be made or written, or the URL's kind is unknown.
    """
    ops = ops or FileOps()
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        from connectors.store.objects import ObjectStore

        return ObjectStore(text, ops, private)
    root = Path(text.removeprefix("file://"))
    try:
        (root / "public").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot hold releases ({error.strerror}); choose another folder with -o") from error
    if not os.access(root / "public", os.W_OK | os.X_OK):
        raise InputError(f"{root}: is not writable; choose another folder with -o, or change its owner")
    return LocalStore(root, ops, private or root / "operator")
