"""A replay holds its log no longer than the fold needs it."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.config import sources
from stream.run.replay import Replay
from tests.replay.approving import configured
from tests.replay.crashing import sample

PLAIN = {"name": "plain", "window": {"new_cases": 25}, "mechanism": {"kind": "identity"}}


@pytest.mark.parametrize("is_kept", [False, True], ids=["the caller lets go", "the caller keeps it"])
def test_releases_have_the_memory_of_the_log(tmp_path: Path, monkeypatch: Any, *, is_kept: bool) -> None:
    """The log is gone at each cut, if the caller lets go too: its events are in columns of their own."""
    sample(tmp_path)
    configured(tmp_path, PLAIN)
    replay = Replay(sources.load(tmp_path / "approval.toml"), tmp_path / "out", batch=40)
    handed = [read_log(tmp_path / "log.xes")]
    kept = list(handed) if is_kept else []
    times, there = weakref.ref(handed[0].time), list[bool]()
    decide = replay.service.decide

    def looking(fold: Any, cut: Any) -> Any:
        there.append(times() is not None)
        return decide(fold, cut)

    monkeypatch.setattr(replay.service, "decide", looking)
    outcome = replay.run(handed.pop(), final=True)
    assert len(outcome.decisions) == len(there) > 2
    assert set(there) == {bool(kept)}
