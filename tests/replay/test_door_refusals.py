"""A refusal names the step that ends it, and that step does."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import RefusedError
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import configuration, replay, sample


def test_checkpoints_that_cannot_be_read_are_moved_away(tmp_path: Path) -> None:
    """No backup is needed: everything is folded again, and decisions that were taken stay."""
    sample(tmp_path)
    configuration(tmp_path, 3)
    replay(tmp_path, tmp_path / "calm")
    with pytest.raises(Aborted):
        replay(tmp_path, at=at_nth("checkpointed", 4, abort))
    folder = tmp_path / "out" / "operator" / "checkpoints"
    before = verifier.digests(tmp_path / "out")
    for path in folder.iterdir():
        path.write_bytes(b"garbage")
    with pytest.raises(RefusedError, match="move these files away and start again"):
        replay(tmp_path)
    for path in folder.iterdir():
        path.rename(tmp_path / path.name)
    replay(tmp_path)
    assert verifier.decisions(tmp_path / "out") == verifier.decisions(tmp_path / "calm")
    after = verifier.digests(tmp_path / "out")
    assert all(after[key] == files for key, files in before.items())
