"""Patches of a table of plain values: what changed since it was last written, and where.

They know nothing of the fold, so a later version reads the patches of the one before together with the table that they
belong to, and brings the result to its own shape. A patch is a list: its kind, the path of what it changes, and

* `update`, a map: the keys of a map that have these values now;
* `more`, bytes or a list: stands behind what is there;
* `at`, width, positions (<u4), values: items of that width, in bytes, that are others now;
* `pairs`, a list of [key, value]: of a list of such pairs in order of their keys, those that have these values now.

A name in a path leads to the value of a map or, in a list of pairs, of the pair with that key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import msgspec
import numpy as np

Path = Sequence[str | int]
Patch = list[Any]


def update(path: Path, values: Mapping[str, Any]) -> Patch:
    """A map has these values for these keys."""
    return ["update", list(path), dict(values)]


def more(path: Path, values: bytes | list[Any]) -> Patch:
    """These values follow the ones that are there."""
    return ["more", list(path), values]


def at(path: Path, width: int, positions: bytes, values: bytes) -> Patch:
    """The items of a column at these positions (<u4) are others."""
    return ["at", list(path), width, positions, values]


def pairs(path: Path, values: list[tuple[Any, Any]]) -> Patch:
    """A list of pairs has these values for these keys."""
    return ["pairs", list(path), values]


def added(some: Iterable[Patch]) -> int:
    """Bytes that patches add to the columns of a table, at least so many to all of it."""
    return sum(len(values) for kind, _, *what in some if kind == "more" for values in what if isinstance(values, bytes))


def merged(raw: bytes, patches: Iterable[bytes]) -> bytes:
    """A table in MessagePack after the patches, each a list in MessagePack, in order."""
    table = _Patched(msgspec.msgpack.decode(raw))
    for some in patches:
        for kind, path, *what in msgspec.msgpack.decode(some):
            table.apply(kind, path, what)
    return msgspec.msgpack.encode(table.whole(), order="sorted")


class _Patched:
    """A table that patches are applied to. What grows is kept in a form that grows in place until `whole`, so that
    applying costs what the patches hold."""

    def __init__(self, table: Any) -> None:
        self._root = [table]
        self._open: dict[int, tuple[Any, Any]] = {}

    def apply(self, kind: str, path: Path, what: Sequence[Any]) -> None:
        """Apply one patch."""
        parent, key = self._place([0, *path])
        _KINDS[kind](self, parent, key, *what)

    def whole(self) -> Any:
        """The table with all patches, in plain values."""
        for parent, key in self._open.values():
            parent[key] = sorted(map(list, parent[key].items()))
        self._open.clear()
        return self._root[0]

    def update(self, parent: Any, key: Any, values: Mapping[str, Any]) -> None:
        parent[key].update(values)

    def more(self, parent: Any, key: Any, values: bytes | list[Any]) -> None:
        if isinstance(parent[key], bytes):
            parent[key] = bytearray(parent[key])
        parent[key].extend(values)

    def at(self, parent: Any, key: Any, width: int, positions: bytes, values: bytes) -> None:
        column = parent[key] = bytearray(parent[key]) if isinstance(parent[key], bytes) else parent[key]
        items = np.frombuffer(column, dtype=np.uint8).reshape(-1, width)
        items[np.frombuffer(positions, dtype="<u4")] = np.frombuffer(values, dtype=np.uint8).reshape(-1, width)

    def pairs(self, parent: Any, key: Any, values: list[tuple[Any, Any]]) -> None:
        self._opened(parent, key).update(map(tuple, values))

    def _place(self, path: Path) -> tuple[Any, Any]:
        """The map or list that holds what a path leads to, and its key there."""
        parent: Any = self._root
        for key, following in pairwise(path):
            inside = parent[key]
            if isinstance(inside, list) and isinstance(following, str):
                inside = self._opened(parent, key)
            parent = inside
        return parent, path[-1]

    def _opened(self, parent: Any, key: Any) -> dict[Any, Any]:
        """A list of pairs as a map, until `whole`."""
        if isinstance(parent[key], list):
            parent[key] = dict(parent[key])
            self._open[id(parent[key])] = parent, key
        return cast(dict[Any, Any], parent[key])


_KINDS: dict[str, Callable[..., None]] = {
    "update": _Patched.update,
    "more": _Patched.more,
    "at": _Patched.at,
    "pairs": _Patched.pairs,
}
