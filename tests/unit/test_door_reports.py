"""The log and the status of a coordinator: every gap by its partition, a decision once, a status from the start."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.kafka.source import Source
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon import coordinator as coordinators
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.state_machine import ActiveCoordinator, CoordinatorContext
from stream.daemon.status import Alarms, CoordinatorSnapshot, read_status
from stream.fold.fold import Fold
from stream.fold.records import Delta
from stream.fold.rules import FoldRules, PublicationRules
from stream.release.contract import Decision


def _fold() -> Fold:
    return Fold(FoldRules((PublicationRules("p", read_window({"new_events": 99}), "next"),)))


def _delta(partition: int, first: int) -> Delta:
    """One event at offset `first`, which claims that nothing is missing before it."""
    row = (first, "c", "a", 0, None, None, None, False)
    return Delta(src="s", p=partition, prev=first - 1, last=first, n=1, rows=[row])


def test_a_gap_that_opens_during_another_one_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """Repairing the first gap alone would wait for releases that do not come; no gap is logged twice."""
    fold, alarms = _fold(), Alarms()
    position = 0
    with caplog.at_level(logging.ERROR, "veilstream"):
        for partition in (0, 1):  # both begin sound, then each misses an offset, one after the other
            list(fold.apply(position, _delta(partition, 0)))
            position += 1
        for partition in (0, 1):
            list(fold.apply(position, _delta(partition, 5)))
            position += 1
            alarms.look(fold)
            alarms.look(fold)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "s/0" in texts[0]
    assert "s/1" not in texts[0]
    assert "s/1" in texts[1]


@pytest.mark.parametrize("again", [False, True])
def test_a_decision_that_exists_already_is_not_logged_as_a_new_one(
    again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """After a crash the deltas behind the checkpoint are folded again: no release is new."""
    engine: Any = ActiveCoordinator.__new__(ActiveCoordinator)
    sealed = Decision("p@1", "sealed", 7)
    account = SimpleNamespace(last_number=6)
    pipeline = SimpleNamespace(decided=lambda _cut: sealed if again else None, account=account)
    engine.service = SimpleNamespace(pipelines={"p": pipeline}, decide_attempt=lambda _publication, _attempt: sealed)
    engine.host = SimpleNamespace(spans=None)
    with caplog.at_level(logging.INFO, "veilstream"):
        assert engine._decide(SimpleNamespace(id="p@1", publication="p"), None)
    (text,) = [record.getMessage() for record in caplog.records]
    assert ("sealed as release 7 in" in text) is not again
    assert ("decided before" in text) is again


def test_there_is_a_status_before_the_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who has just started the daemon asks for it first, and the source may be silent for hours."""
    (tmp_path / "operator").mkdir()
    settings = Settings.model_validate({"process": {"name": "p"}})
    host = CoordinatorContext(settings, Source(topics=("t",)), tmp_path, (("t", 0),))
    opened = SimpleNamespace(
        fold=_fold(), position=-1, snapshot=CoordinatorSnapshot(_fold(), -1, -1, Anchor("d"), None)
    )
    monkeypatch.setattr(coordinators, "_open", lambda _host, _stopped: opened)
    Coordinator(SimpleNamespace(), host)._active()  # type: ignore[arg-type]
    status = read_status(tmp_path)
    assert status is not None
    assert status["state"] == "active"
