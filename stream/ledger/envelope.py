"""Bytes at rest: a header line and a body, whole or recognisably not, encrypted where a key is configured.

The header is one line of JSON (format, version, sha256 of the body, nonce if it is encrypted), then a newline and
the body. With a key the body is AES-256-GCM with the header line as associated data, so that neither can be exchanged.

A storage key is changed in two steps: the new key is configured in addition to the former one, which then only reads;
when `veilstream migrate --dry-run` finds nothing under the former key any more, that one is dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal

import msgspec

from models.errors import RefusedError
from stream.values.memory import PIECE, Bytes, scratch

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import GCM

KEY_BYTES = 32
TAG_BYTES = 16
"""Bytes of the tag of GCM, behind the encrypted bytes."""

LONGEST_HEADER = 4096
"""Bytes that are read for a header, so that a file without a line end is not read whole for it."""

NONCE_BYTES = 12
"""96 bits, drawn again for every file: the size for which GCM is specified; repeated under one key it would be void."""

Protection = Literal["plain", "current", "former"]
"""Key that encrypts some bytes: none, the configured one, or the one before it."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First line of a sealed file."""

    format: str
    version: int
    sha256: str
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """The storage keys, 32 bytes each. `current` seals and opens; `former` only opens; None for plain files."""

    current: bytes | None = None
    former: bytes | None = None

    def __post_init__(self) -> None:
        """Check that each key has the length that AES-GCM needs."""
        for key in (self.current, self.former):
            if key is not None and len(key) != KEY_BYTES:
                raise RefusedError(f"the checkpoint key has {len(key)} bytes; AES-256 needs {KEY_BYTES}")

    @property
    def id(self) -> str:
        """Name of the current key, which reveals nothing about it; "" if files are plain."""
        if self.current is None:
            return ""
        return hmac.new(self.current, b"storage key id\0", hashlib.sha256).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Opened:
    """Opened bytes: the body, the version set by their writer, and how they were protected."""

    body: memoryview
    version: int
    protection: Protection


class Damaged(Exception):  # noqa: N818 - not an error of its own: it becomes part of one
    """Why sealed bytes cannot be read."""


class Unencrypted(Damaged):
    """Plain bytes, although a storage key is configured."""

    def __init__(self) -> None:
        super().__init__("is not encrypted, although a storage key is configured")


def seal(body: Bytes, keys: Keys, format_name: str, version: int) -> bytes:
    """Return `body` as bytes of the format `format_name`, as `sealed_parts` does."""
    return b"".join(sealed_parts([body], keys, format_name, version))


def sealed_parts(parts: Sequence[Bytes], keys: Keys, format_name: str, version: int) -> Iterator[Bytes]:
    """Yield bytes of the format `format_name`, encrypted with the current key if there is one.

    The body is never in memory a second time.

    Parameters
    ----------
    parts
        The content, in one or several parts.
    keys
        Keys that encrypt files of the operator; without a current one nothing is encrypted.
    format_name
        Name of the format.
    version
        Version of the format.
    """
    if keys.current is None:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        yield msgspec.json.encode(Header(format_name, version, digest.hexdigest())) + b"\n"
        yield from parts
        return
    # Encrypted bytes have no digest: it would show whether two bodies are equal, and GCM
    # authenticates them anyway.
    nonce = secrets.token_bytes(NONCE_BYTES)
    header = msgspec.json.encode(Header(format_name, version, "", nonce.hex()))
    yield header + b"\n"
    encryptor = _cipher(keys.current, nonce).encryptor()
    encryptor.authenticate_additional_data(header)
    for part in parts:
        view = memoryview(part)
        for begin in range(0, len(view), PIECE):
            yield encryptor.update(view[begin : begin + PIECE])
    yield encryptor.finalize()
    yield encryptor.tag


def header_of(file: BinaryIO, format_name: str) -> Header:
    """Read the header, unverified, for the version is checked first. Damaged if the format is another one."""
    return _decoded(_header_line(file), format_name)


def _header_line(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.readline(LONGEST_HEADER).removesuffix(b"\n")


def _decoded(line: bytes, format_name: str) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError:
        header = None
    if header is None or header.format != format_name:
        raise Damaged(f"is not a {format_name.replace('-', ' ')}")
    return header


def unseal(file: BinaryIO, keys: Keys, format_name: str, *, plain_too: bool = False) -> Opened:
    """Open sealed bytes. Their body is in scratch memory, and nowhere else.

    Parameters
    ----------
    file, keys, format_name
        The bytes, the storage keys, and the name of the format.
    plain_too
        Whether plain bytes are accepted although a key is configured. Otherwise somebody who can write the file could
        replace it by a state of their own.

    Raises
    ------
    Damaged
        If they cannot be opened. The message names the fault.
    """
    line = _header_line(file)
    header = _decoded(line, format_name)
    begin = len(line) + 1
    size = max(0, file.seek(0, os.SEEK_END) - begin)
    if header.nonce is None:
        if keys.current is not None and not plain_too:
            raise Unencrypted
        body = scratch(size)
        file.seek(begin)
        place = 0
        for piece in _read(file, size):
            body[place : place + len(piece)] = piece
            place += len(piece)
        if hashlib.sha256(body).hexdigest() != header.sha256:
            raise Damaged("is truncated or corrupt (its sha256 differs)")
        return Opened(body, header.version, "plain")
    if keys.current is None:
        raise Damaged("is encrypted and no key is given")
    pairs: tuple[tuple[bytes | None, Protection], ...] = ((keys.current, "current"), (keys.former, "former"))
    for key, protection in pairs:
        file.seek(begin)
        opened = None if key is None else _decrypted(file, size, key, header.nonce, line)
        if opened is not None:
            return Opened(opened, header.version, protection)
    raise Damaged("does not open: the key is another one, or the file is truncated or corrupt")


def _read(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes piece by piece; fewer if the file ends before."""
    while size > 0 and (piece := file.read(min(PIECE, size))):
        size -= len(piece)
        yield piece


def _decrypted(file: BinaryIO, size: int, key: bytes, nonce: str, line: bytes) -> memoryview | None:
    """Return the decrypted bytes, authenticated; None if they are not authentic.

    Parameters
    ----------
    file
        At the begin of the encrypted bytes.
    size
        Number of encrypted bytes; the last `TAG_BYTES` of them are the tag.
    key, nonce
        Key, and nonce in hexadecimal.
    line
        The header line, which the tag covers too.
    """
    from cryptography.exceptions import InvalidTag

    body = scratch(max(0, size - TAG_BYTES))
    try:
        decryptor = _cipher(key, bytes.fromhex(nonce)).decryptor()
        decryptor.authenticate_additional_data(line)
        place = 0
        for piece in _read(file, len(body)):
            plain = decryptor.update(piece)
            body[place : place + len(plain)] = plain
            place += len(plain)
        decryptor.finalize_with_tag(file.read(TAG_BYTES))
    except (InvalidTag, ValueError):
        return None
    return body


def _cipher(key: bytes, nonce: bytes) -> Cipher[GCM]:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import GCM

    return Cipher(AES(key), GCM(nonce))
