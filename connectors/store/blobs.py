"""Private objects in a place that several hosts reach: a folder, or any fsspec URL. Names are slash-separated.

Each `put` is whole or not there: written aside, made durable and renamed in a folder; one object put elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from connectors.files import FileOps
from connectors.store.base import check_name
from connectors.store.reached import ReachedFileSystem, make_folder
from models.errors import InputError

ASIDE = ".new"
"""Suffix of what is being written; a crash may leave one, which the next put of that name replaces."""


class Blobs(Protocol):
    """What a mirror asks of the place where it lies (see FolderBlobs for each)."""

    private: bool
    where: str

    def put(self, name: str, body: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, folder: str) -> list[str]: ...
    def delete(self, name: str) -> None: ...


def open_blobs(url: str | Path, prefix: str, ops: FileOps | None = None) -> Blobs:
    """The objects below `prefix` of a path, a `file://` URL or any other fsspec URL. InputError for an unknown kind."""
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        return UrlBlobs(text, prefix)
    return FolderBlobs(Path(text.removeprefix("file://")) / prefix, ops or FileOps())


def _parts(name: str) -> list[str]:
    return [check_name(part) for part in name.split("/")]


class FolderBlobs:
    """Objects as files (0600) in a folder (0700) of a file system that both hosts mount."""

    private = True
    """Only its owner can read it."""

    def __init__(self, root: Path, ops: FileOps) -> None:
        self.root, self._ops, self.where = root, ops, str(root)

    def _path(self, name: str) -> Path:
        return self.root.joinpath(*_parts(name))

    def put(self, name: str, body: bytes) -> None:
        """Create or replace an object, durably and at once. OSError of the disk passes through."""
        path = self._path(name)
        self._folder(path.parent)
        aside = path.with_name(path.name + ASIDE)
        aside.touch(mode=0o600)
        self._ops.write(aside, lambda target: _write(target, body))
        self._ops.fsync(aside)
        self._ops.replace(aside, path)
        self._ops.fsync(path.parent)

    def _folder(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            self._ops.fsync(one.parent)

    def get(self, name: str) -> bytes | None:
        """The object's bytes, None where there is none."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """Names of the objects directly in a folder, sorted."""
        path = self._path(folder)
        found = [entry.name for entry in path.iterdir() if entry.is_file()] if path.is_dir() else []
        return sorted(f"{folder}/{name}" for name in found if not name.endswith(ASIDE))

    def delete(self, name: str) -> None:
        """Remove an object; nothing where there is none."""
        self._path(name).unlink(missing_ok=True)
        if self._path(name).parent.is_dir():
            self._ops.fsync(self._path(name).parent)


class UrlBlobs:
    """Objects under an fsspec URL: who may read them is the store's affair, so they are `private` only if sealed."""

    private = False

    def __init__(self, url: str, prefix: str) -> None:
        import fsspec

        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise InputError(f"{url.partition('://')[0]}://: this kind of store cannot be opened ({error})") from error
        self._fs: Any = ReachedFileSystem(fs)
        self._root = f"{root.rstrip('/')}/{prefix}"
        self.where = str(self._fs.unstrip_protocol(self._root))

    def _path(self, name: str) -> str:
        return "/".join((self._root, *_parts(name)))

    def put(self, name: str, body: bytes) -> None:
        path = self._path(name)
        make_folder(self._fs, os.path.dirname(path))
        try:
            self._fs.pipe_file(path, body)
        except FileNotFoundError:
            raise InputError(f"{self.where}: cannot be written (no such bucket or container); make it first") from None

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        files = [entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "file"]
        return sorted(f"{folder}/{name}" for name in files)

    def delete(self, name: str) -> None:
        if self.get(name) is not None:
            self._fs.rm_file(self._path(name))


def _write(path: Path, body: bytes) -> None:
    path.write_bytes(body)
