"""The changes since a whole checkpoint, in a file of their own: sealed one by one, each chained to the one before.

A frame is the length of the body, a check sum of that length (8 and 4 bytes), and a sealed body
(`stream.ledger.envelope`). The body holds the digest of the bytes before it (the whole checkpoint, then the last sealed
body), and the change. So a frame of another checkpoint does not fit, nor one behind a frame that is missing.

A frame that is cut short is one whose writing was broken off: nothing was acknowledged by it, and it is ignored.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from models.errors import RefusedError
from stream.ledger.envelope import Damaged, Keys, header_of, seal, unseal

FORMAT = "veilstream-checkpoint-changes"
VERSION = 1
NAME = "fold.checkpoint"
"""Of the newest whole checkpoint, and how the names of all others begin."""

_LENGTH = struct.Struct(">QI")


class _Frame(msgspec.Struct, array_like=True, frozen=True):
    before: bytes
    change: memoryview


def log_path(base: Path, link: bytes) -> Path:
    """Return the path of the log of a whole checkpoint with this link; renaming the checkpoint takes it along."""
    return base.with_name(f"{NAME}.{link.hex()[:32]}.changes")


def logs(folder: Path) -> list[Path]:
    """Return every log in a folder."""
    return sorted(folder.glob(f"{NAME}.*.changes"))


def link_of(sealed: bytes) -> bytes:
    """Return the digest that the next frame names as the one before it."""
    return hashlib.sha256(sealed).digest()


def link_in(file: io.BufferedReader) -> bytes:
    """Return `link_of` the bytes of a file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").digest()


def framed(change: bytes, keys: Keys, before: bytes) -> tuple[bytes, bytes]:
    """Return a change as a frame, and the link of the next one.

    Parameters
    ----------
    change
        Bytes of the change.
    keys
        Keys that encrypt files of the operator; without a current one nothing is encrypted.
    before
        Link of the frame before, or of the whole checkpoint.
    """
    sealed = seal(msgspec.msgpack.encode(_Frame(before, memoryview(change))), keys, FORMAT, VERSION)
    return _length(sealed) + sealed, link_of(sealed)


class ChangeReader:
    """The changes behind a whole checkpoint, read one by one.

    `fault`: why the changes behind the last one could not be read, or ""; set when the iteration has ended.
    """

    def __init__(self, path: Path, keys: Keys, before: bytes, *, plain_too: bool = False) -> None:
        """Begin to read.

        Parameters
        ----------
        path
            The log of changes. It may be missing.
        keys
            Keys that encrypt files of the operator; without a current one nothing is encrypted.
        before
            Link of the whole checkpoint.
        plain_too
            Whether changes that are not encrypted are accepted though there is a key.
        """
        self.fault = ""
        self._path, self._keys, self._before, self._plain_too = path, keys, before, plain_too

    def __iter__(self) -> Iterator[memoryview]:
        """Yield each change.

        Raises
        ------
        RefusedError
            For a log of a later version: falling back could undo what that program decided.
        """
        if not self._path.exists():
            return
        number = 1
        with self._path.open("rb") as file:
            try:
                while (sealed := _next(file)) is not None:
                    yield self._change(sealed)
                    number += 1
            except (Damaged, msgspec.DecodeError) as damage:
                self.fault = f"{self._path}: change {number} {damage}"

    def _change(self, sealed: bytes) -> memoryview:
        file = io.BytesIO(sealed)
        _refuse_newer(file, self._path)
        body = unseal(file, self._keys, FORMAT, plain_too=self._plain_too).body
        frame = msgspec.msgpack.decode(body, type=_Frame)
        if frame.before != self._before:
            raise Damaged("does not follow what is before it")
        self._before = link_of(sealed)
        return frame.change


def _length(sealed: bytes) -> bytes:
    length = len(sealed).to_bytes(8, "big")
    return _LENGTH.pack(len(sealed), zlib.crc32(length))


def _next(file: BinaryIO) -> bytes | None:
    """Return the sealed body of the next frame; None at the end, or if it is cut short."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    length, check = _LENGTH.unpack(head)
    if zlib.crc32(head[:8]) != check:
        raise Damaged("has no readable length")
    unread = os.fstat(file.fileno()).st_size - file.tell()
    return file.read(length) if length <= unread else None


def _refuse_newer(file: BinaryIO, path: Path) -> None:
    version = header_of(file, FORMAT).version
    if version > VERSION:
        raise RefusedError(f"{path} has version {version}, newer than {VERSION}, this program's")
