"""Releases in a folder of this machine."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from connectors.files import FileOps
from connectors.store.base import (
    PUBLIC,
    FenceCheck,
    Store,
    check_name,
    check_unfinished,
    folder_names,
    number_taken,
    publication_names,
    release_name,
    release_numbers,
)
from models.errors import InputError


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """Releases in a folder of this machine.

    Attributes
    ----------
    root
        The output folder.
    ops
        Operations on files.
    private
        The operator's folder.
    """

    root: Path
    ops: FileOps
    private: Path

    def _folder(self, publication: str) -> Path:
        return self.root / PUBLIC / check_name(publication)

    def _release(self, publication: str, sequence: int) -> Path:
        return self._folder(publication) / release_name(sequence)

    def staging_folder(self, publication: str) -> Path:
        """Return the folder next to the releases: a rename makes a release visible."""
        return self._folder(publication)

    def location(self, publication: str, sequence: int) -> str:
        """Return the folder of a release, whether it exists or not."""
        return str(self._release(publication, sequence))

    def _make_visible(
        self, folder: Path, publication: str, sequence: int, moment: int | None, check_fence: FenceCheck
    ) -> None:
        """Rename the folder of the release to its number; the rename itself refuses a number that exists."""
        target = self._release(publication, sequence)
        try:
            folder.chmod(stat.S_IMODE(target.parent.stat().st_mode))
            if moment is not None:
                for path in (*folder.iterdir(), folder):
                    self.ops.stamp(path, moment)
                    self.ops.fsync(path)
            self.ops.rename_noreplace(folder, target)
        except FileExistsError as error:
            check_unfinished(folder)  # a successor has published these very bytes
            raise number_taken(str(target)) from error
        except FileNotFoundError:
            check_unfinished(folder)
            raise
        self.ops.fsync(target.parent)

    def exists(self, publication: str, sequence: int) -> bool:
        """Return whether a folder of the release's name exists.

        A folder of another program counts: the rename must not hide it.
        """
        return os.path.lexists(self._release(publication, sequence))

    def publications(self) -> list[str]:
        """Return the names of all publications with a folder, of any process."""
        return publication_names(folder_names(self.root / PUBLIC))

    def releases(self, publication: str) -> list[int]:
        """Return the numbers of the visible releases, ascending."""
        return release_numbers(folder_names(self._folder(publication)))

    def file_bytes(self, publication: str, sequence: int, name: str) -> bytes:
        """Return a file of a visible release.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        path = self._release(publication, sequence) / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    def free_bytes(self) -> int | None:
        """Return the space left on the file system of the releases, in bytes."""
        return self.ops.free_bytes(self.root)
