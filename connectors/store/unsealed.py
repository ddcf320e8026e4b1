"""What every store does alike: bytes that nobody can see yet wait in a local folder, and manifests are read."""

from __future__ import annotations

import errno
import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from connectors.files import FileOps, Writer
from connectors.store.base import (
    HELD,
    Prepared,
    check_name,
    is_sealed,
    leftovers_in,
    make_durable_folder,
    parse_manifest,
    set_aside,
    write_release,
)


class UnsealedReleases(ABC):
    """Base of the stores. `private`: the operator's folder, which takes quarantined bytes."""

    __slots__ = ()

    ops: FileOps
    private: Path

    @abstractmethod
    def waiting(self, publication: str) -> Path:
        """The local folder in which unsealed releases of a publication are written."""

    @abstractmethod
    def location(self, publication: str, sequence: int) -> str:
        """Where a release is, whether it exists or not: a folder or a URL."""

    @abstractmethod
    def manifest_bytes(self, publication: str, sequence: int) -> bytes:
        """`manifest.json` of a release; InputError when it is missing."""

    def held(self, publication: str) -> Path:
        """The operator's folder of releases that a person has not yet approved."""
        return self.private / check_name(publication) / HELD

    def prepare(
        self,
        publication: str,
        candidate: int,
        files: Mapping[str, Writer],
        manifest: Mapping[str, Any],
        *,
        held: bool = False,
    ) -> Prepared:
        """Write the files in the order given, then `manifest.json` (the manifest with the list of files), durably.
        `held`: in the operator's folder, where they stay until `let_go`."""
        folder = self.held(publication) if held else self.waiting(publication)
        return write_release(folder, publication, candidate, files, manifest, self.ops)

    def keeps(self, publication: str, temporary: str, manifest_sha256: str | None = None) -> bool:
        """Whether the bytes of a held release are in the operator's folder, to the byte; None: anything of them."""
        folder = self.held(publication) / temporary
        return folder.exists() if manifest_sha256 is None else is_sealed(folder, manifest_sha256)

    def keep(self, publication: str, temporary: str, files: Mapping[str, bytes]) -> None:
        """Put the files of a held release where this host has none, durably."""
        folder = self.held(publication) / temporary
        shutil.rmtree(folder, ignore_errors=True)
        make_durable_folder(folder.parent, self.ops)
        folder.mkdir(mode=0o700)
        for name, body in files.items():
            self.ops.write(folder / check_name(name), partial(_put, body))
            self.ops.fsync(folder / name)
        self.ops.fsync(folder)
        self.ops.fsync(folder.parent)

    def let_go(self, publication: str, temporary: str) -> None:
        """Move a held release to where it waits for `resume`. Does nothing when that was done before."""
        source, target = self.held(publication) / temporary, self.waiting(publication) / temporary
        if not source.exists():
            return
        make_durable_folder(target.parent, self.ops)
        shutil.rmtree(target, ignore_errors=True)  # of a copy that a crash cut off: the source still stands
        try:
            self.ops.rename_noreplace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(source, target)  # recipients' folder is on another file system
            shutil.rmtree(source)
        self.ops.fsync(target.parent)
        self.ops.fsync(source.parent)

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir(mode=0o700)
        for file in source.iterdir():
            self.ops.write(target / file.name, partial(shutil.copyfile, file))
            self.ops.fsync(target / file.name)
        self.ops.fsync(target)
        self.ops.fsync(target.parent)

    def drop(self, publication: str, temporary: str) -> None:
        """Delete the bytes of a held release that is never published."""
        folder = self.held(publication) / temporary
        if folder.exists():
            shutil.rmtree(folder)
            self.ops.fsync(folder.parent)

    def holds(self, publication: str, temporary: str, manifest_sha256: str) -> bool:
        """Whether the sealed bytes wait here, to the byte."""
        return is_sealed(self.waiting(publication) / temporary, manifest_sha256)

    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]:
        """The manifest of a release; InputError when it is missing or no JSON object."""
        return parse_manifest(self.manifest_bytes(publication, sequence), self.location(publication, sequence))

    def manifest_sha256(self, publication: str, sequence: int) -> str:
        """SHA-256 of `manifest.json` as it lies there; InputError when it is missing."""
        return hashlib.sha256(self.manifest_bytes(publication, sequence)).hexdigest()

    def quarantine(self, prepared: Prepared) -> Path:
        """Set the bytes of a release that lost its number aside, in the private folder; where they lie now."""
        return set_aside(prepared.tmp, self.private / "quarantine" / prepared.publication, self.ops)

    def leftovers(self, publication: str) -> list[Path]:
        """Temporary folders of unsealed releases, lowest candidate first."""
        return leftovers_in(self.waiting(publication))

    def clear_leftovers(self, publication: str, keep: Collection[str] = ()) -> None:
        """Quarantine every leftover but those named in `keep`: nobody has seen them, and an operator may want to know
        why they are there."""
        for tmp in [*self.leftovers(publication), *leftovers_in(self.held(publication))]:
            if tmp.name not in keep:
                set_aside(tmp, self.private / "quarantine" / publication, self.ops)


def _put(body: bytes, path: Path) -> None:
    path.write_bytes(body)
