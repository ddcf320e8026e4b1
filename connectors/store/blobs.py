"""Private objects that several hosts reach, in a folder or under an fsspec URL.

Names are slash-separated. Each `put` writes the whole object or nothing: in a folder the bytes are written to a
temporary file next to it, made durable and renamed; elsewhere it is one object.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from connectors.files import FileOps, bytes_writer
from connectors.store.base import check_name
from connectors.store.reached import make_folder, reached_at
from models.errors import InputError

ASIDE = ".new"
"""Suffix of an unfinished write; a crash may leave one, which the next put of that name replaces."""


class Blobs(Protocol):
    """A place for the objects of a mirror.

    Attributes
    ----------
    private
        Whether only the owner of the process can read the objects.
    location
        The place, as messages name it.
    """

    private: bool
    location: str

    def put(self, name: str, body: bytes) -> None:
        """Create or replace an object, durably and at once.

        Parameters
        ----------
        name
            Name of the object, with its folder.
        body
            Its bytes.
        """

    def get(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None if it does not exist.

        Parameters
        ----------
        name
            Name of the object, with its folder.
        """

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects directly in a folder, sorted.

        Parameters
        ----------
        folder
            Name of the folder.
        """

    def delete(self, name: str) -> None:
        """Remove an object. Do nothing if it does not exist.

        Parameters
        ----------
        name
            Name of the object, with its folder.
        """


def open_blobs(url: str | Path, prefix: str, ops: FileOps | None = None) -> Blobs:
    """Open the objects below `prefix` of a path, a `file://` URL or an fsspec URL.

    Parameters
    ----------
    url
        The path or URL.
    prefix
        First part of all names.
    ops
        Operations on the disk, for tests of faults.

    Raises
    ------
    InputError
        The kind of URL is unknown.
    """
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        return UrlBlobs(text, prefix)
    return FolderBlobs(Path(text.removeprefix("file://")) / prefix, ops or FileOps())


def _parts(name: str) -> list[str]:
    return [check_name(part) for part in name.split("/")]


class FolderBlobs:
    """Objects as files (0600) in a folder (0700) of a file system that both hosts mount.

    Parameters
    ----------
    root
        The folder.
    ops
        Operations on files.
    """

    private = True
    """Only its owner can read it."""

    def __init__(self, root: Path, ops: FileOps) -> None:
        self.root, self._ops, self.location = root, ops, str(root)

    def _path(self, name: str) -> Path:
        return self.root.joinpath(*_parts(name))

    def put(self, name: str, body: bytes) -> None:
        """Create or replace an object, durably and at once.

        OSError of the disk passes through.
        """
        path = self._path(name)
        self._folder(path.parent)
        aside = path.with_name(path.name + ASIDE)
        aside.touch(mode=0o600)
        self._ops.write(aside, bytes_writer(body))
        self._ops.fsync(aside)
        self._ops.replace(aside, path)
        self._ops.fsync(path.parent)

    def _folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            self._ops.fsync(path.parent)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None if it does not exist."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects directly in a folder, sorted.

        Parameters
        ----------
        folder
            Name of the folder. Files that are being written are left out.
        """
        path = self._path(folder)
        if not path.is_dir():
            return []
        file_names = [entry.name for entry in path.iterdir() if entry.is_file()]
        return sorted(f"{folder}/{name}" for name in file_names if not name.endswith(ASIDE))

    def delete(self, name: str) -> None:
        """Remove an object. Do nothing if it does not exist."""
        self._path(name).unlink(missing_ok=True)
        if self._path(name).parent.is_dir():
            self._ops.fsync(self._path(name).parent)


class UrlBlobs:
    """Objects under an fsspec URL.

    The store decides who can read them, so they are `private` only if they are encrypted.

    Parameters
    ----------
    url
        URL of the store, with its protocol.
    prefix
        Path below it.
    """

    private = False

    def __init__(self, url: str, prefix: str) -> None:
        self._fs, root = reached_at(url)
        self._root = f"{root.rstrip('/')}/{prefix}"
        self.location = str(self._fs.unstrip_protocol(self._root))

    def _path(self, name: str) -> str:
        return "/".join((self._root, *_parts(name)))

    def put(self, name: str, body: bytes) -> None:
        """Create or replace an object.

        Raises
        ------
        InputError
            The bucket or container does not exist.
        """
        path = self._path(name)
        make_folder(self._fs, os.path.dirname(path))
        try:
            self._fs.pipe_file(path, body)
        except FileNotFoundError:
            raise InputError(
                f"{self.location}: cannot be written (no such bucket or container); make it first"
            ) from None

    def get(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None if it does not exist."""
        try:
            return bytes(self._fs.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects directly in a folder, sorted."""
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        files = [entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "file"]
        return sorted(f"{folder}/{name}" for name in files)

    def delete(self, name: str) -> None:
        """Remove an object. Do nothing if it does not exist."""
        if self.get(name) is not None:
            self._fs.rm_file(self._path(name))
