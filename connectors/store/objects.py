"""Releases on an object store, by fsspec: see connectors.store.base for what is promised and what is not."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from connectors.files import FileOps
from connectors.store.base import (
    MANIFEST,
    Prepared,
    check_name,
    names_only,
    refused,
    release_name,
    release_number,
)
from connectors.store.reached import ReachedFileSystem, make_folder
from connectors.store.unsealed import UnsealedReleases
from models.errors import InputError


class ObjectStore(UnsealedReleases):
    """Releases under an fsspec URL. Unsealed bytes wait in `<private>/staging`, a local folder.

    Without a private folder of its own (a temporary one is then made) a sealed release whose upload a crash cut off
    may be lost with it: its number is then burned, its charge kept.
    """

    def __init__(self, url: str, ops: FileOps, private: Path | None = None) -> None:
        import fsspec

        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise InputError(f"{url.partition('://')[0]}://: this kind of store cannot be opened ({error})") from error
        self._fs: Any = ReachedFileSystem(fs)
        self._root = root.rstrip("/")
        self.ops = ops
        self.private = private or Path(tempfile.mkdtemp(prefix="veilstream-"))

    def _folder(self, publication: str) -> str:
        return f"{self._root}/public/{check_name(publication)}"

    def _release(self, publication: str, sequence: int) -> str:
        return f"{self._folder(publication)}/{release_name(sequence)}"

    def waiting(self, publication: str) -> Path:
        """A staging folder of this machine, from which releases are uploaded."""
        return self.private / "staging" / check_name(publication)

    def location(self, publication: str, sequence: int) -> str:
        """The URL of a release's objects."""
        return str(self._fs.unstrip_protocol(self._release(publication, sequence)))

    def commit(self, prepared: Prepared, sequence: int) -> str:
        """Upload the files, then the manifest, exclusively; RefusedError when the number is there already. When an
        object was written is the store's to say: it is the time of the upload."""
        self._upload(prepared.tmp, prepared.publication, sequence)
        return self.location(prepared.publication, sequence)

    def _upload(self, tmp: Path, publication: str, sequence: int) -> None:
        target = self._release(publication, sequence)
        if self.exists(publication, sequence):
            raise refused(self.location(publication, sequence))
        make_folder(self._fs, target)
        names = sorted(path.name for path in tmp.iterdir())
        for name in [*(name for name in names if name != MANIFEST), MANIFEST]:
            self._create(f"{target}/{name}", (tmp / name).read_bytes())
        shutil.rmtree(tmp)

    def _create(self, path: str, body: bytes) -> None:
        """Put an object that must not exist yet. One that does is ours from a cut-off upload, or refused."""
        try:
            self._fs.pipe_file(path, body, mode="create")
        except FileExistsError:
            if self._fs.cat_file(path) != body:
                raise refused(str(self._fs.unstrip_protocol(path))) from None
        except FileNotFoundError:
            where = self._fs.unstrip_protocol(path)
            raise InputError(f"{where}: cannot be written (no such bucket or container); make it first") from None

    def resume(
        self, publication: str, sequence: int, temporary: str, manifest_sha256: str, moment: int | None = None
    ) -> bool:
        """Finish an upload that was cut off, or had to wait; False when the sealed bytes are gone or are not what was
        sealed."""
        if not self.holds(publication, temporary, manifest_sha256):
            return False
        self._upload(self.waiting(publication) / temporary, publication, sequence)
        return True

    def exists(self, publication: str, sequence: int) -> bool:
        """Whether the release's manifest is there."""
        return bool(self._fs.exists(f"{self._release(publication, sequence)}/{MANIFEST}"))

    def publications(self) -> list[str]:
        """Names of the publications that have objects here, of whatever process."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(f"{self._root}/public", detail=False)
        except FileNotFoundError:
            return []
        return names_only(entry.rstrip("/").rpartition("/")[2] for entry in found)

    def releases(self, publication: str) -> list[int]:
        """Numbers of the releases whose manifest is there, ascending."""
        self._fs.invalidate_cache()
        try:
            names = [
                entry.rstrip("/").rpartition("/")[2] for entry in self._fs.ls(self._folder(publication), detail=False)
            ]
        except FileNotFoundError:
            return []
        numbers = sorted(number for name in names if (number := release_number(name)))
        return [number for number in numbers if self.exists(publication, number)]

    def manifest_bytes(self, publication: str, sequence: int) -> bytes:
        """`manifest.json` of a release; InputError when it is missing."""
        try:
            return bytes(self._fs.cat_file(f"{self._release(publication, sequence)}/{MANIFEST}"))
        except FileNotFoundError as error:
            raise InputError(f"{self.location(publication, sequence)}: has no manifest") from error

    def free_bytes(self) -> int | None:
        """Space left in the staging folder's file system (an object store tells none of its own)."""
        self.private.mkdir(parents=True, exist_ok=True)
        return self.ops.free_bytes(self.private)
