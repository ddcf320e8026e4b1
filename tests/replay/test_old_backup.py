"""An old backup: restored where the store is newer, older, or gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from models.errors import RefusedError
from stream.commands import execute as veilstream
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import configuration, replay, sample


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A run that was backed up in its middle, with releases before and behind, and continued to its end."""
    sample(tmp_path)
    configuration(tmp_path, 3)
    out = tmp_path / "out"
    with pytest.raises(Aborted):
        replay(tmp_path, out, at=at_nth("checkpointed", 3, abort))
    assert verifier.digests(out) != {}
    shutil.copytree(out / "public", tmp_path / "early-public")
    assert veilstream(["backup", str(out), str(tmp_path / "early.tar.gz"), "--with-key"]) == 0
    replay(tmp_path, out)
    return tmp_path


def restored(world: Path, public: str | None) -> Path:
    """The old backup on a new disk, with what is left of the store."""
    out = world / "new"
    out.mkdir()
    if public is not None:
        shutil.copytree(world / public, out / "public")
    assert veilstream(["restore", str(world / "early.tar.gz"), str(out)]) in (0, 4)
    return out


def test_with_a_store_that_is_newer_nothing_is_unpacked(world: Path) -> None:
    """Releases newer than the backup would be drawn again: exit 4."""
    assert not (restored(world, "out/public") / "operator").exists()


def test_without_the_store_nothing_is_released(world: Path) -> None:
    """The ledger knows releases that are nowhere: what cannot be audited is not followed by another release."""
    out = restored(world, None)
    with pytest.raises(RefusedError, match="is gone from the store"):
        replay(world, out)


def test_with_the_store_of_its_day_the_run_continues(world: Path) -> None:
    """As if it had died then: the same cuts, the same decisions; only that nobody can know here of what was released in
    between (the daemon knows by its ledger topic)."""
    out = restored(world, "early-public")
    before = verifier.digests(out)
    replay(world, out)
    assert verifier.verify(out) == []
    assert verifier.decisions(out) == verifier.decisions(world / "out")
    after = verifier.digests(out)
    assert all(after[key] == files for key, files in before.items())
