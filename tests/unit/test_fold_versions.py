"""States of before are read: what they do not know is unknown, and what they know stays."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Heartbeat, Row
from stream.ledger.checkpoints import Checkpoints, SavedState
from tests.conftest import ROOT
from tests.oracles.fold_runs import S

STATE_1 = ROOT / "tests" / "golden" / "daemon_state_1.msgpack"


def _read(path: Path) -> tuple[SavedState, Fold]:
    saved = SavedState.decode(path.read_bytes())
    return saved, Fold.restore(saved.fold)


def test_a_state_of_version_1_is_read_with_its_gap() -> None:
    """Three events in one partition, a gap in the other; its logs are unknown until a delta names them."""
    saved, fold = _read(STATE_1)
    assert (saved.position, saved.ledger, saved.epoch) == (2, 7, -1)
    assert fold.accounting("p")["seen"] == 3
    assert {name: (one.hwm, one.missing, one.log, one.epoch) for name, one in fold.state.partitions.items()} == {
        ("s", 0): (2, None, "", -1),
        ("s", 1): (-1, (0, 4), "", -1),
    }
    list(fold.apply(3, Command(name="gap", arguments={"action": "accept"})))
    list(fold.apply(4, _delta(prev=2, log="one", epoch=4)))
    assert not fold.gap
    assert (fold.state.partitions["s", 0].log, fold.state.partitions["s", 0].epoch) == ("one", 4)
    list(fold.apply(5, _delta(prev=3, log="two", epoch=0)))
    assert fold.state.partitions["s", 0].fault == "recreated"
    again = Fold.restore(fold.snapshot())
    assert again.snapshot() == fold.snapshot()
    assert again.state.partitions["s", 0].missing == (0, 3)


def _delta(prev: int, log: str, epoch: int) -> Delta:
    rows = [Row(prev + 1, "c", "a", 20 * S)]
    return Delta(src="s", p=0, prev=prev, last=prev + 1, n=1, key="k", rows=rows, log=log, epoch=epoch)


def test_an_idle_partition_behind_a_delta_that_never_came_is_a_gap() -> None:
    """Once, however often it reports; the delta that comes late closes it."""
    _, fold = _read(STATE_1)
    list(fold.apply(3, Command(name="gap", arguments={"action": "accept"})))
    for position in (4, 5):
        list(fold.apply(position, Heartbeat(src="s", p=0, at=20 * S, last=3)))
    partition = fold.state.partitions["s", 0]
    assert (partition.missing, partition.fault, len(partition.held)) == ((3, 3), "missing", 1)
    list(fold.apply(6, _delta(prev=2, log="one", epoch=0)))
    assert not fold.gap
    assert partition.hwm == 3


def test_a_record_of_before_does_not_name_its_log() -> None:
    """Deltas that d56300e wrote have neither id nor epochs: they are read, and raise no alarm."""
    old = b'{"t":"delta","v":1,"src":"s","p":0,"prev":2,"last":3,"n":0,"dlq":[3],"wm":null,"key":"k","rows":[]}'
    _, fold = _read(STATE_1)
    list(fold.apply(3, Command(name="gap", arguments={"action": "accept"})))
    list(fold.apply(4, _delta(prev=1, log="one", epoch=4)))
    list(fold.apply(5, msgspec.json.decode(old, type=Delta)))
    assert not fold.gap
    assert (fold.state.partitions["s", 0].hwm, fold.state.partitions["s", 0].log) == (3, "one")


@pytest.mark.parametrize(("name", "key"), [("plain", None), ("encrypted", bytes(range(32)))])
def test_the_first_changes_after_a_checkpoint_are_read(name: str, key: bytes | None) -> None:
    """A whole state of twelve cases with an event each, two cuts of six; then three changes: a second event of c0 and
    the end of c1; a new case and one more event in another partition; and an event behind a gap there."""
    loaded = Checkpoints(ROOT / "tests" / "fixtures" / "changes_1" / name, key).load()
    assert loaded is not None
    assert (loaded.generation, loaded.warning) == (0, "")
    saved = SavedState.decode(loaded.state)
    fold = Fold.restore(saved.fold)
    assert (saved.position, saved.ledger, saved.epoch, fold.now) == (5, 15, 4, 30 * S)
    book = fold.accounting("p")
    assert (book["seen"], book["exposed"], book["pending"], book["cuts"], book["cases"]) == (16, 12, 4, 2, 13)
    assert {key: (one.hwm, one.missing) for key, one in fold.state.partitions.items()} == {
        ("s", 0): (13, None),
        ("s", 1): (1, (2, 3)),
    }
    assert fold.state.index.names(13) == [*(f"c{i}" for i in range(12)), "new"]
    assert fold.state.activity_names == ("a", "b", "z")
    assert fold.state.resource_names == ("r1", "r2", "r3")
    assert fold.state.events["time"].tolist() == [*(i * S for i in range(1, 13)), 20 * S, 21 * S, 22 * S, 19 * S]
    assert np.flatnonzero(fold.state.cases["ended"]).tolist() == [1]
    assert fold.state.cases["last"].tolist()[:3] == [20 * S, 21 * S, 19 * S]
    assert fold.state.event_ids[0] == {"e0", "f0"}
    assert fold.state.event_ids[2] == {"e2", "f2"}
    assert list(fold.state.case_attributes["age"].values) == [*range(12), 70]
    assert list(fold.state.case_attributes["kin"].values) == [True]
    assert fold.state.event_attributes["ward"].dense(16).tolist() == [*[0] * 12, 1, -1, -1, -1]
