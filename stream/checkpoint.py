"""The fold's state on disk: written aside, made durable, renamed; the generation before is kept.

A file is a header line of JSON (format, state version, sha256 of the body, nonce where it is encrypted), a newline
and the body. With a key the body is AES-256-GCM with the header's meaning as associated data, so that neither can be
exchanged. `FileOperations` is what a fault kit replaces.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from models.errors import RefusedError
from stream.folding.snapshot import STATE_VERSION

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = "veilstream-checkpoint"
CURRENT, PREVIOUS, TEMPORARY = "fold.checkpoint", "fold.checkpoint.previous", "fold.checkpoint.tmp"
KEY_BYTES = 32
NONCE_BYTES = 12
"""96 bits, drawn anew for every file: the size for which GCM is specified; repeated under one key it would be void."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First line of a checkpoint."""

    format: str
    version: int
    sha256: str
    nonce: str | None = None


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
    """The checkpoints of one process in one folder (which exists). `key`: 32 bytes, or None for plain files."""

    def __init__(self, folder: Path, key: bytes | None = None, operations: FileOperations | None = None) -> None:
        if key is not None and len(key) != KEY_BYTES:
            raise RefusedError(f"the checkpoint key has {len(key)} bytes; AES-256 needs {KEY_BYTES}")
        self.folder = folder
        self._key = key
        self._do = operations or FileOperations()

    def save(self, state: bytes) -> None:
        """Make `state` the newest generation. Whatever fails, a whole generation stays in the folder; OSError says
        what failed."""
        temporary, current = self.folder / TEMPORARY, self.folder / CURRENT
        self._do.write(temporary, self._seal(state))
        self._do.fsync(temporary)
        if current.exists():
            self._do.rename(current, self.folder / PREVIOUS)
        self._do.rename(temporary, current)
        self._do.fsync(self.folder)

    def load(self) -> Loaded | None:
        """The newest readable generation; None where there never was one. RefusedError names every file and what is
        wrong with it where none can be read."""
        faults: list[str] = []
        for generation, name in enumerate((CURRENT, PREVIOUS)):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                state = self._open(path)
            except _Damaged as damage:
                faults.append(f"{path}: {damage}")
                continue
            if generation and not faults:
                faults.append(f"{self.folder / CURRENT}: is missing")
            return Loaded(state, generation, "; ".join(faults))
        if faults:
            raise RefusedError(f"no checkpoint can be read ({'; '.join(faults)}): restore a backup of the folder")
        return None

    def _seal(self, state: bytes) -> bytes:
        # of the bytes as they lie on disk when plain; of nothing when encrypted: a digest of the state would say
        # whether two states are equal, and GCM authenticates the body
        digest = hashlib.sha256(state).hexdigest() if self._key is None else ""
        nonce = None if self._key is None else secrets.token_bytes(NONCE_BYTES)
        header = msgspec.json.encode(Header(FORMAT, STATE_VERSION, digest, None if nonce is None else nonce.hex()))
        if self._key is None or nonce is None:
            return header + b"\n" + state
        return header + b"\n" + self._cipher(self._key).encrypt(nonce, state, header)

    def _open(self, path: Path) -> bytes:
        line, _, body = path.read_bytes().partition(b"\n")
        try:
            header = msgspec.json.decode(line, type=Header)
        except msgspec.DecodeError:
            header = None
        if header is None or header.format != FORMAT:
            raise _Damaged("is not a veilstream checkpoint")
        if header.version != STATE_VERSION:
            age = "newer" if header.version > STATE_VERSION else "older"
            # no fallback: the generation before it may be older than decisions that are durable
            raise RefusedError(f"{path} has state version {header.version}, {age} than {STATE_VERSION}, this program's")
        if (header.nonce is None) != (self._key is None):
            raise _Damaged("is encrypted and no key is given" if self._key is None else "is not encrypted, a key is")
        state = self._decrypted(header, line, body)
        if header.nonce is None and hashlib.sha256(state).hexdigest() != header.sha256:
            raise _Damaged("is truncated or corrupt (its sha256 differs)")
        return state

    def _decrypted(self, header: Header, line: bytes, body: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        if header.nonce is None or self._key is None:
            return body
        try:
            return self._cipher(self._key).decrypt(bytes.fromhex(header.nonce), body, line)
        except (InvalidTag, ValueError):
            raise _Damaged("does not open: the key is another one, or the file is truncated or corrupt") from None

    @staticmethod
    def _cipher(key: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(key)


class _Damaged(Exception):  # noqa: N818 - not an error of its own: it becomes part of one
    """Why one file cannot be read."""
