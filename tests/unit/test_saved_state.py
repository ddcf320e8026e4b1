"""Content of a checkpoint, in both layouts on disk."""

from __future__ import annotations

import msgspec
import pytest

from models.errors import RefusedError
from stream.ledger.checkpoints import SavedState
from tests.conftest import GOLDEN

STATES = [
    SavedState("replay", b"fold", 7),
    SavedState("daemon", b"fold", 7, 3, 2),
    SavedState("daemon", b"x" * 70_000, 1 << 40, 1 << 33, -1),
]


@pytest.mark.parametrize("state", STATES, ids=["replay", "daemon", "large"])
def test_a_layout_is_read_by_its_tag(state: SavedState) -> None:
    """The written state comes back, in its layout."""
    assert SavedState.decode(state.encode()) == state


def test_the_bytes_are_those_of_earlier_programs() -> None:
    """A replay's map and a daemon's array, as they always were; a state of before version 0.2 has no epoch."""
    assert msgspec.msgpack.decode(STATES[0].encode()) == {"entries": 7, "fold": b"fold"}
    assert msgspec.msgpack.decode(STATES[1].encode()) == [b"fold", 3, 7, 2]
    old = SavedState.decode((GOLDEN / "daemon_state_1.msgpack").read_bytes())
    assert (old.layout, old.position, old.ledger, old.epoch) == ("daemon", 2, 7, -1)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"\x80", b"\x90", b"\x93\x01\x02\x03", STATES[0].encode()[:-1], STATES[1].encode() + b"x"]
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    """Empty, of another kind, without its fields, cut, or with more behind."""
    with pytest.raises(RefusedError, match="not a saved state"):
        SavedState.decode(raw)
