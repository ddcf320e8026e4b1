"""The content of a checkpoint.

Two layouts exist on disk, and both are still written: a replay writes a map without a position (the fold contains it),
a daemon an array with one. The first byte tells them apart: MessagePack tags maps and arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from models.errors import RefusedError
from stream.fold.patches import merged

Layout = Literal["replay", "daemon"]

_TAGS: dict[int, Layout] = {0x8: "replay", 0x9: "daemon"}
"""First four bits of a short map and of a short array."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The content of a checkpoint: a fold (`Fold.snapshot`), the position of its last record (None: the fold contains
    it) and the length of the ledger, which detects an older ledger.

    `epoch`: leader epoch of that record (-1: unknown, in states from before version 0.2, and in a replay).
    """

    layout: Layout
    fold: bytes
    ledger: int
    position: int | None = None
    epoch: int = -1

    def encode(self) -> bytes:
        """The bytes of a checkpoint."""
        if self.layout == "replay":
            return msgspec.msgpack.encode(_OfReplay(self.ledger, self.fold))
        position = -1 if self.position is None else self.position
        return msgspec.msgpack.encode(_OfDaemon(self.fold, position, self.ledger, self.epoch))

    def after(self, changes: Sequence[bytes]) -> SavedState:
        """The state after these changes (`SavedChange.encode`), in order."""
        if not changes:
            return self
        found = [msgspec.msgpack.decode(one, type=SavedChange) for one in changes]
        last = found[-1]
        position = None if self.layout == "replay" else last.position
        fold = merged(self.fold, [one.fold for one in found])
        return replace(self, fold=fold, ledger=last.ledger, position=position, epoch=last.epoch)

    @classmethod
    def decode(cls, raw: bytes) -> SavedState:
        """The inverse of `encode`. RefusedError for bytes that are neither layout."""
        layout = _TAGS.get(raw[0] >> 4) if raw else None
        try:
            if layout == "replay":
                replay = msgspec.msgpack.decode(raw, type=_OfReplay)
                return cls(layout, replay.fold, replay.entries)
            if layout == "daemon":
                daemon = msgspec.msgpack.decode(raw, type=_OfDaemon)
                return cls(layout, daemon.state, daemon.ledger, daemon.position, daemon.epoch)
        except msgspec.DecodeError:
            pass
        raise RefusedError("the checkpoint cannot be read: these bytes are no saved state")


class SavedChange(msgspec.Struct, array_like=True, frozen=True):
    """What changed since the checkpoint before: of the fold (`Fold.changes`), and of all else what it is now."""

    fold: bytes
    ledger: int
    position: int = -1
    epoch: int = -1

    def encode(self) -> bytes:
        """The bytes of a change."""
        return msgspec.msgpack.encode(self)


class _OfReplay(msgspec.Struct, frozen=True):
    entries: int
    fold: bytes


class _OfDaemon(msgspec.Struct, array_like=True, frozen=True):
    state: bytes
    position: int
    ledger: int
    epoch: int = -1
