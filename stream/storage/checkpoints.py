"""The fold's state on disk: written aside, made durable, renamed; the generation before is kept.

What a file looks like stands in `stream.storage.envelope`. `FileOperations` is what a fault kit replaces.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.errors import RefusedError
from stream.fold.snapshot import STATE_VERSION, readable
from stream.storage.envelope import Damaged, Keys, Protection, header_of, seal, unseal

FORMAT = "veilstream-checkpoint"
CURRENT, PREVIOUS, TEMPORARY = "fold.checkpoint", "fold.checkpoint.previous", "fold.checkpoint.tmp"


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class FileOperations:
    """The three operations whose order makes a checkpoint durable; `fsync` takes files and folders."""

    write: Callable[[Path, bytes], None] = _write
    fsync: Callable[[Path], None] = _fsync
    rename: Callable[[Path, Path], None] = os.replace


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state read back. `generation`: 0 the newest, 1 the one before; `warning`: why it is not the newest, or ""."""

    state: bytes
    generation: int
    warning: str


class Checkpoints:
    """The checkpoints of one process in one folder (which exists). `keys`: one key of 32 bytes, several, or None."""

    def __init__(
        self, folder: Path, keys: Keys | bytes | None = None, operations: FileOperations | None = None
    ) -> None:
        self.folder = folder
        self.keys = keys if isinstance(keys, Keys) else Keys(keys)
        self._do = operations or FileOperations()

    def save(self, state: bytes) -> None:
        """Make `state` the newest generation. Whatever fails, a whole generation stays in the folder; OSError says
        what failed."""
        temporary, current = self.folder / TEMPORARY, self.folder / CURRENT
        self._do.write(temporary, seal(state, self.keys, FORMAT, STATE_VERSION))
        self._do.fsync(temporary)
        if current.exists():
            self._do.rename(current, self.folder / PREVIOUS)
        self._do.rename(temporary, current)
        self._do.fsync(self.folder)

    def newest(self) -> os.stat_result | None:
        """Size and time of the newest generation; None where nothing was saved yet."""
        try:
            return (self.folder / CURRENT).stat()
        except FileNotFoundError:
            return None

    def load(self) -> Loaded | None:
        """The newest readable generation; None where there never was one. RefusedError names every file and what is
        wrong with it where none can be read."""
        faults: list[str] = []
        for generation, name in enumerate((CURRENT, PREVIOUS)):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                state = opened(path.read_bytes(), self.keys, str(path))[0]
            except Damaged as damage:
                faults.append(f"{path}: {damage}")
                continue
            if generation and not faults:
                faults.append(f"{self.folder / CURRENT}: is missing")
            return Loaded(state, generation, "; ".join(faults))
        if faults:
            raise RefusedError(f"no checkpoint can be read ({'; '.join(faults)}): restore a backup of the folder")
        return None


def opened(data: bytes, keys: Keys, where: str, *, plain_too: bool = False) -> tuple[bytes, int, Protection]:
    """A sealed checkpoint: its state, the version of it, and what it lies under. Damaged where it cannot be read;
    RefusedError for a version that is not read here: there is no falling back, since the generation before may be
    older than decisions that are durable."""
    version = header_of(data, FORMAT).version
    if not readable(version):
        age = "newer" if version > STATE_VERSION else "older"
        raise RefusedError(f"{where} has state version {version}, {age} than {STATE_VERSION}, this program's")
    found = unseal(data, keys, FORMAT, plain_too=plain_too)
    return found.body, found.version, found.protection
