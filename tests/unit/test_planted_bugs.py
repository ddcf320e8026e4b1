"""The bugs that `make crash` plants still fit the program: one that cannot be called shows nothing."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from stream.daemon.ingest import Ingest
from stream.daemon.kafka_ledger import TopicLedger
from stream.fold.state import State
from stream.release.pipeline import Pipeline
from stream.run.service import ReleaseService
from tests.kafka.bugs import BUGS

PLANTED_IN: tuple[type[Any], ...] = (State, Ingest, TopicLedger, Pipeline, ReleaseService)


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_takes_the_arguments_of_what_it_replaces(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the process would die of an error, or go on in health, and `make crash` would tell only after minutes."""
    before = {(owner, name): value for owner in PLANTED_IN for name, value in vars(owner).items() if callable(value)}
    for (owner, name), value in before.items():
        monkeypatch.setattr(owner, name, value)  # so that each is put back
    BUGS[bug]()
    now = {(owner, name): value for owner in PLANTED_IN for name, value in vars(owner).items() if callable(value)}
    assert now.keys() == before.keys(), "what it replaces has another name"
    replaced = [place for place, value in now.items() if value is not before[place]]
    assert len(replaced) == 1
    for place in replaced:
        assert len(inspect.signature(now[place]).parameters) == len(inspect.signature(before[place]).parameters)
