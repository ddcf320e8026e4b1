"""The standing releases of an audience, as audits look back at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

from stream.ledger.release_record import Record
from stream.release.contract import Audit

Key = tuple[str, int]
"""Publication and number of a release."""


class Earlier(Sequence[Record]):
    """Oldest first. In memory are the last `reach` records (None: all); an older one is read anew when it is asked
    for, which only an erasure does: a daemon's memory does not grow with releases that nobody compares any more."""

    def __init__(self, read: Callable[[Key], Record], keys: Iterable[Key], reach: int | None) -> None:
        self._read, self._reach = read, reach
        self._keys = list(keys)
        near = self._keys if reach is None else self._keys[max(0, len(self._keys) - reach) :]
        self._held = {key: read(key) for key in near}

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        key = self._keys[place]
        return self._held[key] if key in self._held else self._read(key)

    def __setitem__(self, place: int, record: Record) -> None:
        """What is kept of a release has been written anew. What audits keep with other releases shows what it was."""
        for held in self._held.values():
            held.cache.clear()
        if self._keys[place] in self._held:
            self._held[self._keys[place]] = record

    def append(self, record: Record) -> None:
        """The release that was sealed last."""
        self._keys.append(record.key)
        self._held[record.key] = record
        if self._reach is not None and len(self) > self._reach:
            self._held.pop(self._keys[-self._reach - 1], None)


def reach(audits: Iterable[Audit]) -> int | None:
    """How many earlier releases the audits look back at, at most; None: all."""
    asked = [audit.looks_back for audit in audits]
    return None if None in asked else max((one for one in asked if one is not None), default=0)
