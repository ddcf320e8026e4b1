"""The memory of a mechanism in the folders of old releases: it is dropped, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger.folder import read_digests
from stream.operator.verify import verify
from stream.release import audience
from stream.release.contract import Attempt, Exposure
from stream.run.service import ReleaseService

SETTINGS = {
    "publication": [
        {
            "name": "p",
            "window": {"manual": True},
            "mechanism": {"kind": "tlkc-cohorts", "K": 4, "C": 1.0},
            "audit": {"risk": False, "utility": False},
        }
    ]
}


def exposure(number: int) -> Exposure:
    """Four further cases for each release."""
    log = EventLog.from_traces([("ab", None)] * (4 * number))
    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)


def release(output: Path, numbers: range) -> None:
    """Publish some releases by one process."""
    service = ReleaseService(Settings.model_validate(SETTINGS), output)
    try:
        for number in numbers:
            attempt = Attempt(f"p/{number}/0/0", "manual", 0, exposure(number), {})
            assert service.pipelines["p"].attempt(attempt).status == "sealed"
    finally:
        service.close()


def memories(output: Path) -> list[object]:
    """Return memory.json of each release."""
    return [json.loads(path.read_bytes()) for path in sorted(output.glob("operator/p/*/memory.json"))]


def audits(output: Path) -> list[dict[str, object]]:
    """Return the measures of each release."""
    documents = [json.loads(path.read_bytes()) for path in sorted(output.glob("operator/p/*/audit.json"))]
    return [{name: document[name] for name in ("anonymity", "series", "cohorts")} for document in documents]


def test_the_last_memories_alone_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases are those of a run that keeps them all, also through a restart, and the folder verifies.

    A series that an earlier program began drops the older ones at its next release.
    """
    release(tmp_path / "all", range(1, 8))
    assert None not in memories(tmp_path / "all")

    release(tmp_path / "few", range(1, 4))
    monkeypatch.setattr(audience, "KEPT_MEMORIES", 2)
    for numbers in (range(4, 6), range(6, 8)):
        release(tmp_path / "few", numbers)
    kept = memories(tmp_path / "few")
    assert [memory is None for memory in kept] == [True] * 5 + [False] * 2
    assert audits(tmp_path / "few") == audits(tmp_path / "all")
    assert verify(tmp_path / "few").holds
    for folder in tmp_path.glob("few/operator/p/0*"):
        assert len(read_digests(folder)["memory.json"]) == 1
