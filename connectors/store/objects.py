"""Releases on an object store, by fsspec.

`connectors.store.base` states what is promised.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from connectors.files import FileOps
from connectors.store.base import (
    MANIFEST,
    PUBLIC,
    FenceCheck,
    Store,
    check_name,
    number_taken,
    publication_names,
    release_name,
    release_numbers,
)
from connectors.store.reached import make_folder, reached_at
from models.errors import InputError


class ObjectStore(Store):
    """Releases under an fsspec URL.

    Unsealed bytes wait in `<private>/staging`, a local folder. Without a private folder a temporary one is made. If a
    crash interrupts an upload, the sealed release may be lost with that folder: its number is then burned, and its
    charge kept.

    Parameters
    ----------
    url
        URL of the releases, with its protocol.
    ops
        Operations on local files.
    private
        The operator's folder. None: a temporary one.
    """

    def __init__(self, url: str, ops: FileOps, private: Path | None = None) -> None:
        self._fs, root = reached_at(url)
        self._root = root.rstrip("/")
        self.ops = ops
        self.private = private or Path(tempfile.mkdtemp(prefix="veilstream-"))

    def _folder(self, publication: str) -> str:
        return f"{self._root}/{PUBLIC}/{check_name(publication)}"

    def _release(self, publication: str, sequence: int) -> str:
        return f"{self._folder(publication)}/{release_name(sequence)}"

    def staging_folder(self, publication: str) -> Path:
        """Return the local folder from which releases are uploaded."""
        return self.private / "staging" / check_name(publication)

    def location(self, publication: str, sequence: int) -> str:
        """Return the URL of a release's objects."""
        return str(self._fs.unstrip_protocol(self._release(publication, sequence)))

    def _make_visible(
        self, folder: Path, publication: str, sequence: int, moment: int | None, check_fence: FenceCheck
    ) -> None:
        """Upload the files, then the manifest, each object exclusively.

        The store sets the modification times: they are those of the upload.
        """
        target = self._release(publication, sequence)
        check_fence()  # before recipients can list an object of a number that a successor has burned
        if self.exists(publication, sequence):
            raise number_taken(self.location(publication, sequence))
        make_folder(self._fs, target)
        names = sorted(path.name for path in folder.iterdir())
        for name in names:
            if name != MANIFEST:
                self._create(f"{target}/{name}", (folder / name).read_bytes())
        check_fence()  # the upload may have taken long, and with its manifest the release exists
        self._create(f"{target}/{MANIFEST}", (folder / MANIFEST).read_bytes())
        shutil.rmtree(folder)

    def _create(self, path: str, body: bytes) -> None:
        """Put an object that must not exist.

        An equal object is from an interrupted upload; another one is refused.
        """
        try:
            self._fs.pipe_file(path, body, mode="create")
        except FileExistsError:
            if self._fs.cat_file(path) != body:
                raise number_taken(str(self._fs.unstrip_protocol(path))) from None
        except FileNotFoundError:
            location = self._fs.unstrip_protocol(path)
            raise InputError(f"{location}: cannot be written (no such bucket or container); make it first") from None

    def exists(self, publication: str, sequence: int) -> bool:
        """Return whether the manifest of the release exists."""
        return bool(self._fs.exists(f"{self._release(publication, sequence)}/{MANIFEST}"))

    def publications(self) -> list[str]:
        """Return the names of all publications with objects, of any process."""
        return publication_names(self._names_in(f"{self._root}/{PUBLIC}"))

    def releases(self, publication: str) -> list[int]:
        """Return the numbers of the releases whose manifest exists, ascending."""
        numbers = release_numbers(self._names_in(self._folder(publication)))
        return [number for number in numbers if self.exists(publication, number)]

    def _names_in(self, folder: str) -> list[str]:
        """Return the names directly in a folder of the store; none if it does not exist."""
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        return [entry.rstrip("/").rpartition("/")[2] for entry in entries]

    def file_bytes(self, publication: str, sequence: int, name: str) -> bytes:
        """Return a file of a visible release."""
        try:
            return bytes(self._fs.cat_file(f"{self._release(publication, sequence)}/{name}"))
        except FileNotFoundError as error:
            raise InputError(f"{self.location(publication, sequence)}: has no {name}") from error

    def free_bytes(self) -> int | None:
        """Return the space left for the staging folder, in bytes.

        Object stores report none of their own.
        """
        self.private.mkdir(parents=True, exist_ok=True)
        return self.ops.free_bytes(self.private)
