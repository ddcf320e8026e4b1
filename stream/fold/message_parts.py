"""MessagePack in parts: a large value is encoded without a second copy of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from stream.values.memory import Bytes

ITEMS = 1 << 16
"""Items of a list that are encoded at a time. A list of all names at once would be a second copy of them."""


class Binary:
    """A binary value whose bytes are in several parts.

    It is not a dataclass: the encoder would write one as a map, without asking `_without_parts`.
    """

    def __init__(self, parts: Sequence[Bytes]) -> None:
        self.parts = parts


def plain_number(value: Any) -> Any:
    """Return the Python number of a NumPy scalar."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state cannot contain a {type(value).__name__}")


def _without_parts(value: Any) -> Any:
    """Join a binary value in parts that is behind the places at which `_has_columns` looks."""
    return b"".join(value.parts) if isinstance(value, Binary) else plain_number(value)


_ENCODER = msgspec.msgpack.Encoder(order="sorted", enc_hook=_without_parts)


def encoded_parts(value: Any) -> list[Bytes]:
    """Return the encoding of a value in parts, with the keys of its maps in order.

    Joined, they are what `msgspec.msgpack.encode(value, order="sorted")` returns. Columns (memoryviews and
    bytearrays) are parts themselves and are not copied, so they must not change until the parts are
    written.

    References
    ----------
    The formats of lengths: https://github.com/msgpack/msgpack/blob/master/spec.md
    """
    parts: list[Bytes] = []
    _encode(value, parts)
    return parts


def _encode(value: Any, parts: list[Bytes]) -> None:
    if isinstance(value, memoryview | bytearray):
        value = Binary([value])
    if isinstance(value, Binary):
        parts.append(_binary_header(sum(len(part) for part in value.parts)))
        parts.extend(value.parts)
    elif isinstance(value, Mapping) and _has_columns(value):
        parts.append(_header(len(value), 0x80, 0xDE))
        for key in sorted(value):
            parts.append(_ENCODER.encode(key))
            _encode(value[key], parts)
    elif isinstance(value, list | tuple):
        parts.append(_header(len(value), 0x90, 0xDC))
        if _has_columns(value):
            for item in value:
                _encode(item, parts)
        else:
            for begin in range(0, len(value), ITEMS):
                items = value[begin : begin + ITEMS]
                length_of_header = len(_header(len(items), 0x90, 0xDC))
                parts.append(_ENCODER.encode(items)[length_of_header:])
    else:
        parts.append(_ENCODER.encode(value))


def _has_columns(value: Any) -> bool:
    """Return whether a value is a column or contains one.

    The items of a list have one shape, and those with a column have it in one of the first two places: only
    these are looked at, since a list can have an item for each case.
    """
    if isinstance(value, Mapping):
        return any(_has_columns(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_columns(item) for item in value[:2])
    return isinstance(value, Binary | memoryview | bytearray)


def _header(size: int, short: int, tag: int) -> bytes:
    """Return the header of a map or list: in one byte below 16 items, else a tag and 2 or 4 bytes."""
    if size < 16:
        return bytes([short | size])
    if size < 1 << 16:
        return bytes([tag]) + size.to_bytes(2, "big")
    return bytes([tag + 1]) + size.to_bytes(4, "big")


def _binary_header(size: int) -> bytes:
    for place, n_bytes in enumerate((1, 2, 4)):
        if size < 1 << (8 * n_bytes):
            return bytes([0xC4 + place]) + size.to_bytes(n_bytes, "big")
    raise OverflowError(f"a binary value of {size} bytes is too long: the most is 4 GiB")
