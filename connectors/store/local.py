"""Releases in a folder of this machine."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.files import FileOps, Writer
from connectors.store.base import (
    MANIFEST,
    Prepared,
    check_name,
    folder_names,
    is_sealed,
    leftovers_in,
    names_only,
    parse_manifest,
    refused,
    release_name,
    release_number,
    set_aside,
    write_release,
)
from models.errors import InputError


@dataclass(frozen=True, slots=True)
class LocalStore:
    """Releases in a folder of this machine; `private` takes quarantined bytes."""

    root: Path
    ops: FileOps
    private: Path

    def _folder(self, publication: str) -> Path:
        return self.root / "public" / check_name(publication)

    def _release(self, publication: str, sequence: int) -> Path:
        return self._folder(publication) / release_name(sequence)

    def location(self, publication: str, sequence: int) -> str:
        """The folder of a release, whether it exists or not."""
        return str(self._release(publication, sequence))

    def prepare(
        self, publication: str, candidate: int, files: Mapping[str, Writer], manifest: Mapping[str, Any]
    ) -> Prepared:
        """Write the files in the order given, then `manifest.json` (the manifest with the list of files), durably."""
        return write_release(self._folder(publication), publication, candidate, files, manifest, self.ops)

    def commit(self, prepared: Prepared, sequence: int) -> str:
        """Make the release visible under its number; RefusedError when that number is there already."""
        self._rename(prepared.tmp, self._release(prepared.publication, sequence), prepared.moment)
        return self.location(prepared.publication, sequence)

    def _rename(self, source: Path, target: Path, moment: int | None) -> None:
        source.chmod(stat.S_IMODE(target.parent.stat().st_mode))
        if moment is not None:
            for path in (*source.iterdir(), source):
                self.ops.stamp(path, moment)
                self.ops.fsync(path)
        try:
            self.ops.rename_noreplace(source, target)
        except FileExistsError as error:
            raise refused(str(target)) from error
        self.ops.fsync(target.parent)

    def resume(
        self, publication: str, sequence: int, temporary: str, manifest_sha256: str, moment: int | None = None
    ) -> bool:
        """Finish a commit that was cut off, or had to wait; False when the sealed bytes are gone or are not what was
        sealed."""
        if not self.holds(publication, temporary, manifest_sha256):
            return False
        self._rename(self._folder(publication) / temporary, self._release(publication, sequence), moment)
        return True

    def holds(self, publication: str, temporary: str, manifest_sha256: str) -> bool:
        """Whether the sealed bytes wait here, to the byte."""
        return is_sealed(self._folder(publication) / temporary, manifest_sha256)

    def exists(self, publication: str, sequence: int) -> bool:
        """Whether the release's folder is there (a foreign folder of that name counts: it must not be hidden)."""
        return os.path.lexists(self._release(publication, sequence))

    def publications(self) -> list[str]:
        """Names of the publications that have a folder here, of whatever process."""
        return names_only(folder_names(self.root / "public"))

    def releases(self, publication: str) -> list[int]:
        """Numbers of the releases that are visible, ascending."""
        return sorted(number for name in folder_names(self._folder(publication)) if (number := release_number(name)))

    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]:
        """The manifest of a release; InputError when it is missing or no JSON object."""
        return parse_manifest(self._manifest(publication, sequence), self.location(publication, sequence))

    def manifest_sha256(self, publication: str, sequence: int) -> str:
        """SHA-256 of `manifest.json` as it lies there; InputError when it is missing."""
        return hashlib.sha256(self._manifest(publication, sequence)).hexdigest()

    def _manifest(self, publication: str, sequence: int) -> bytes:
        path = self._release(publication, sequence) / MANIFEST
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    def quarantine(self, prepared: Prepared) -> Path:
        """Set the bytes of a release that lost its number aside, in the private folder; where they lie now."""
        return set_aside(prepared.tmp, self.private / "quarantine" / prepared.publication, self.ops)

    def leftovers(self, publication: str) -> list[Path]:
        """Temporary folders of unsealed releases, lowest candidate first."""
        return leftovers_in(self._folder(publication))

    def clear_leftovers(self, publication: str, keep: Collection[str] = ()) -> None:
        """Quarantine every leftover but those named in `keep`: nobody has seen them, and an operator may want to know
        why they are there."""
        for tmp in self.leftovers(publication):
            if tmp.name not in keep:
                set_aside(tmp, self.private / "quarantine" / publication, self.ops)

    def free_bytes(self) -> int | None:
        """Space left where the releases lie."""
        return self.ops.free_bytes(self.root)
