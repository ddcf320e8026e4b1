"""The changes since a whole checkpoint, in a file of their own: sealed one by one, each chained to the one before.

A frame is the length of the body, a check sum of that length (8 and 4 bytes), and a sealed body
(`stream.ledger.envelope`). The body holds the digest of the bytes before it (the whole checkpoint, then the last sealed
body), and the change. So a frame of another checkpoint does not fit, nor one behind a frame that is missing.

A frame that is cut short is one whose writing was broken off: nothing was acknowledged by it, and it is ignored.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from models.errors import RefusedError
from stream.ledger.envelope import Damaged, Keys, header_of, seal, unseal

FORMAT = "veilstream-checkpoint-changes"
VERSION = 1
NAME = "fold.checkpoint"
"""Of the newest whole checkpoint, and how the names of all others begin."""

_LENGTH = struct.Struct(">QI")


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a log that could be read. `fault`: why some could not, or ""."""

    changes: list[bytes]
    fault: str = ""


class _Frame(msgspec.Struct, array_like=True, frozen=True):
    before: bytes
    change: bytes


def log_path(base: Path, link: bytes) -> Path:
    """Return the path of the log of a whole checkpoint with this link; renaming the checkpoint takes it along."""
    return base.with_name(f"{NAME}.{link.hex()[:32]}.changes")


def logs(folder: Path) -> list[Path]:
    """Return every log in a folder."""
    return sorted(folder.glob(f"{NAME}.*.changes"))


def link_of(sealed: bytes) -> bytes:
    """Return the digest that the next frame names as the one before it."""
    return hashlib.sha256(sealed).digest()


def link_in(path: Path) -> bytes:
    """Return `link_of` the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def framed(change: bytes, keys: Keys, before: bytes) -> tuple[bytes, bytes]:
    """Return a change as a frame, and the link of the next one.

    Parameters
    ----------
    change
        Bytes of the change.
    keys
        Keys of the operator.
    before
        Link of the frame before, or of the whole checkpoint.
    """
    sealed = seal(msgspec.msgpack.encode(_Frame(before, change)), keys, FORMAT, VERSION)
    return _length(sealed) + sealed, link_of(sealed)


def read(path: Path, keys: Keys, before: bytes, *, plain_too: bool = False) -> Changes:
    """Return the changes behind a whole checkpoint with the link `before`.

    Parameters
    ----------
    path
        The log of changes.
    keys
        Keys of the operator.
    before
        Link of the whole checkpoint.
    plain_too
        Whether changes that are not encrypted are accepted though there is a key.

    Raises
    ------
    RefusedError
        For a log of a later version: falling back could undo what that program decided.
    """
    changes: list[bytes] = []
    if not path.exists():
        return Changes(changes)
    unread = memoryview(path.read_bytes())
    try:
        while (sealed := _next(unread)) is not None:
            _refuse_newer(sealed, path)
            frame = msgspec.msgpack.decode(unseal(sealed, keys, FORMAT, plain_too=plain_too).body, type=_Frame)
            if frame.before != before:
                raise Damaged("does not follow what is before it")
            changes.append(frame.change)
            before, unread = link_of(sealed), unread[_LENGTH.size + len(sealed) :]
    except (Damaged, msgspec.DecodeError) as damage:
        return Changes(changes, f"{path}: change {len(changes) + 1} {damage}")
    return Changes(changes)


def _length(sealed: bytes) -> bytes:
    length = len(sealed).to_bytes(8, "big")
    return _LENGTH.pack(len(sealed), zlib.crc32(length))


def _next(unread: memoryview) -> bytes | None:
    """Return the sealed body of the next frame; None at the end, or if it is cut short."""
    if len(unread) < _LENGTH.size:
        return None
    length, check = _LENGTH.unpack_from(unread)
    if zlib.crc32(unread[:8]) != check:
        raise Damaged("has no readable length")
    end = _LENGTH.size + length
    return bytes(unread[_LENGTH.size : end]) if end <= len(unread) else None


def _refuse_newer(sealed: bytes, path: Path) -> None:
    version = header_of(sealed, FORMAT).version
    if version > VERSION:
        raise RefusedError(f"{path} has version {version}, newer than {VERSION}, this program's")
