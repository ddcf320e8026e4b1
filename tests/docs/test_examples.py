"""The programs of examples/ do what their first lines say."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from examples import consume_releases
from models.eventlog import EventLog
from stream.daemon.publisher import frames

LOG = EventLog.from_events(
    ["a", "b", "a"],
    ["register", "register", "decide"],
    np.array([0, 60_000_000_000, 120_000_000_000]),
    ["x", "y", "x"],
    {},
    unit="ns",
)


def test_the_consumer_gives_each_whole_release_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced twice after a crash, it is delivered once; one whose end is missing does not come."""
    records = [*frames("research", 1, LOG), *frames("research", 1, LOG), *frames("research", 2, LOG)]
    cut = [*records[:-1], *frames("statistics", 1, None)]

    def consumer(topic: str, **options: Any) -> Iterator[SimpleNamespace]:
        assert topic == "veilstream.sepsis.released-events"
        assert options["isolation_level"] == "read_committed"
        return iter([SimpleNamespace(value=value) for value in cut])

    monkeypatch.setattr(consume_releases, "KafkaConsumer", consumer)
    found = list(consume_releases.releases("broker:9092", "sepsis"))
    assert [(name, number, len(rows)) for name, number, rows in found] == [("research", 1, 3), ("statistics", 1, 0)]
    assert {row[0] for row in found[0][2]} == {"a", "b"}
