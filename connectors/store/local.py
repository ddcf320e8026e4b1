"""Releases in a folder of this machine."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from connectors.files import FileOps
from connectors.store.base import (
    MANIFEST,
    Prepared,
    check_name,
    check_unfinished,
    folder_names,
    names_only,
    refused,
    release_name,
    release_number,
)
from connectors.store.unsealed import UnsealedReleases
from models.errors import InputError


@dataclass(frozen=True, slots=True)
class LocalStore(UnsealedReleases):
    """Releases in a folder of this machine; `private` takes quarantined bytes."""

    root: Path
    ops: FileOps
    private: Path

    def _folder(self, publication: str) -> Path:
        return self.root / "public" / check_name(publication)

    def _release(self, publication: str, sequence: int) -> Path:
        return self._folder(publication) / release_name(sequence)

    def waiting(self, publication: str) -> Path:
        """Beside the releases: a rename makes one visible."""
        return self._folder(publication)

    def location(self, publication: str, sequence: int) -> str:
        """The folder of a release, whether it exists or not."""
        return str(self._release(publication, sequence))

    def commit(self, prepared: Prepared, sequence: int) -> str:
        """Make the release visible under its number; RefusedError when that number is there already."""
        self._rename(prepared.tmp, self._release(prepared.publication, sequence), prepared.moment)
        return self.location(prepared.publication, sequence)

    def _rename(self, source: Path, target: Path, moment: int | None) -> None:
        try:
            source.chmod(stat.S_IMODE(target.parent.stat().st_mode))
            if moment is not None:
                for path in (*source.iterdir(), source):
                    self.ops.stamp(path, moment)
                    self.ops.fsync(path)
            self.ops.rename_noreplace(source, target)
        except FileExistsError as error:
            check_unfinished(source)  # a successor has published these very bytes
            raise refused(str(target)) from error
        except FileNotFoundError:
            check_unfinished(source)
            raise
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

    def exists(self, publication: str, sequence: int) -> bool:
        """Whether the release's folder is there (a foreign folder of that name counts: it must not be hidden)."""
        return os.path.lexists(self._release(publication, sequence))

    def publications(self) -> list[str]:
        """Names of the publications that have a folder here, of whatever process."""
        return names_only(folder_names(self.root / "public"))

    def releases(self, publication: str) -> list[int]:
        """Numbers of the releases that are visible, ascending."""
        return sorted(number for name in folder_names(self._folder(publication)) if (number := release_number(name)))

    def manifest_bytes(self, publication: str, sequence: int) -> bytes:
        """`manifest.json` of a release; InputError when it is missing."""
        path = self._release(publication, sequence) / MANIFEST
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    def free_bytes(self) -> int | None:
        """Space left where the releases lie."""
        return self.ops.free_bytes(self.root)
