"""A replay holds its log no longer than the fold needs it."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

from connectors import read_log
from stream.config import sources
from stream.run.replay import Replay
from tests.replay.approving import configured
from tests.replay.crashing import sample

PLAIN = {"name": "plain", "window": {"new_cases": 25}, "mechanism": {"kind": "identity"}}


def test_the_last_release_has_the_memory_of_the_log(tmp_path: Path, monkeypatch: Any) -> None:
    """Gone at the last cut, which comes after the last event, where the caller lets go too; there at the first."""
    sample(tmp_path)
    configured(tmp_path, PLAIN)
    replay = Replay(sources.load(tmp_path / "approval.toml"), tmp_path / "out", batch=40)
    handed = [read_log(tmp_path / "log.xes")]
    times, there = weakref.ref(handed[0].time), list[bool]()
    decide = replay.service.decide

    def looking(fold: Any, cut: Any) -> Any:
        there.append(times() is not None)
        return decide(fold, cut)

    monkeypatch.setattr(replay.service, "decide", looking)
    outcome = replay.run(handed.pop(), final=True)
    assert len(outcome.decisions) == len(there) > 2
    assert (there[0], there[-1]) == (True, False)
