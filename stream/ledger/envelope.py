"""Bytes at rest: a header line and a body, whole or recognisably not, encrypted where a key is configured.

The header is one line of JSON (format, version, sha256 of the body, nonce if it is encrypted), then a newline and
the body. With a key the body is AES-256-GCM with the header line as associated data, so that neither can be exchanged.

A storage key is changed in two steps: the new key is configured in addition to the former one, which then only reads;
when `veilstream migrate --dry-run` finds nothing under the former key any more, that one is dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from models.errors import RefusedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
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

    body: bytes
    version: int
    protection: Protection


class Damaged(Exception):  # noqa: N818 - not an error of its own: it becomes part of one
    """Why sealed bytes cannot be read."""


def seal(body: bytes, keys: Keys, what: str, version: int) -> bytes:
    """Return `body` as bytes of the format `what`, encrypted with the current key if there is one.

    Parameters
    ----------
    body
        The content.
    keys
        Keys of the operator.
    what
        Name of the format.
    version
        Version of the format.
    """
    # The digest is that of plain bytes. Encrypted bytes have none: it would show whether two bodies are equal, and GCM
    # authenticates them anyway.
    digest = hashlib.sha256(body).hexdigest() if keys.current is None else ""
    nonce = None if keys.current is None else secrets.token_bytes(NONCE_BYTES)
    header = msgspec.json.encode(Header(what, version, digest, None if nonce is None else nonce.hex()))
    if keys.current is None or nonce is None:
        return header + b"\n" + body
    return header + b"\n" + _cipher(keys.current).encrypt(nonce, body, header)


def header_of(data: bytes, what: str) -> Header:
    """Read the header, unverified: the version is checked before anything is opened. Damaged for another format."""
    line = data.partition(b"\n")[0]
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError:
        header = None
    if header is None or header.format != what:
        raise Damaged(f"is not a {what.replace('-', ' ')}")
    return header


def unseal(data: bytes, keys: Keys, what: str, *, plain_too: bool = False) -> Opened:
    """Open sealed bytes.

    Parameters
    ----------
    data, keys, what
        The bytes, the storage keys, and the name of the format.
    plain_too
        Whether plain bytes are accepted although a key is configured. Otherwise somebody who can write the file could
        replace it by a state of their own.

    Raises
    ------
    Damaged
        If they cannot be opened. The message names the fault.
    """
    header = header_of(data, what)
    line, _, body = data.partition(b"\n")
    if header.nonce is None:
        if keys.current is not None and not plain_too:
            raise Damaged("is not encrypted, a key is")
        if hashlib.sha256(body).hexdigest() != header.sha256:
            raise Damaged("is truncated or corrupt (its sha256 differs)")
        return Opened(body, header.version, "plain")
    if keys.current is None:
        raise Damaged("is encrypted and no key is given")
    pairs: tuple[tuple[bytes | None, Protection], ...] = ((keys.current, "current"), (keys.former, "former"))
    for key, protection in pairs:
        opened = None if key is None else _decrypted(key, header.nonce, body, line)
        if opened is not None:
            return Opened(opened, header.version, protection)
    raise Damaged("does not open: the key is another one, or the file is truncated or corrupt")


def _decrypted(key: bytes, nonce: str, body: bytes, line: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(bytes.fromhex(nonce), body, line)
    except (InvalidTag, ValueError):
        return None


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
