"""Metrics of a coordinator and its group: records that wait, assignments, durations of checkpoints."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from connectors.kafka.lineage import Leader, Place
from connectors.kafka.source import Source
from models.errors import UnavailableError
from stream.config.settings import Settings
from stream.daemon import broker_contact
from stream.daemon.broker_contact import BrokerContact
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.ingest import Ingest
from stream.daemon.state_machine import CoordinatorContext
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from tests.patience import patient_time
from tests.unit.test_ingest_batches import App

SETTINGS = Settings.model_validate({"process": {"name": "p"}})
SOURCE = Source(topics=("t",))


class Ends:
    """A broker that answers with the end of the delta topic."""

    def __init__(self, end: int) -> None:
        self.end = end

    def ends(self, places: list[Place]) -> dict[Place, int]:
        assert places == [("veilstream.p.delta", 0)]
        return dict.fromkeys(places, self.end)


def _value(metrics: Metrics, name: str) -> float | None:
    """A sample as it is scraped; None without a series."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"veilstream_{name}{{")]
    assert len(values) < 2
    return values[0] if values else None


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Coordinator, Metrics]:
    """A coordinator that has not opened its state yet."""
    metrics = Metrics("p", live=True)
    watch = MetricsObserver(SETTINGS, metrics)
    host = CoordinatorContext(SETTINGS, SOURCE, tmp_path, (("t", 0),), watch=watch)
    return Coordinator(SimpleNamespace(), host), metrics  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "position", "end", "lag"),
    [
        (0, -1, 0, 0),  # nothing was written
        (0, -1, 3, 3),  # nothing was folded
        (0, 9, 10, 0),
        (0, 6, 10, 3),
        (100, 106, 10, 3),  # positions continue behind those of a former topic; offsets begin again
        (0, 9, 5, 0),  # folded since the end was asked for
    ],
)
def test_the_lag_is_what_lies_behind_the_last_folded_record(
    watched: tuple[Coordinator, Metrics], base: int, position: int, end: int, lag: int
) -> None:
    """By offsets of the topic that exists now."""
    coordinator, metrics = watched
    anchor = Anchor("id", base=base)
    coordinator.engine = SimpleNamespace(position=position, delta=SimpleNamespace(anchor=anchor))  # type: ignore[assignment]
    coordinator._measure_lag(Ends(end))  # type: ignore[arg-type]
    assert _value(metrics, "delta_lag_records") == lag


def test_a_standby_reports_no_lag(watched: tuple[Coordinator, Metrics]) -> None:
    """It folds nothing: its lag would be that of another host."""
    coordinator, metrics = watched
    coordinator._measure_lag(Ends(5))  # type: ignore[arg-type]
    assert _value(metrics, "delta_lag_records") is None


def test_assignments_count_in_both_roles_from_zero(watched: tuple[Coordinator, Metrics]) -> None:
    """An assignment of no partition is one too: a standby takes part in each rebalance."""
    coordinator, metrics = watched
    metrics.rebalanced(0)
    assert _value(metrics, "rebalances_total") == 0
    asyncio.run(coordinator.signals(None, set()))
    assert _value(metrics, "rebalances_total") == 1
    worker: Any = Ingest(App(), "p", SOURCE, SimpleNamespace(), metrics)  # type: ignore[arg-type]
    asyncio.run(worker.signals(None, set()))
    assert _value(metrics, "rebalances_total") == 2


def test_the_further_question_is_asked_at_each_answer_and_its_error_stops_no_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A delta topic that is being created again has no end for a moment."""
    questions: list[float] = []

    class Client:
        def leaders(self, _topics: Any) -> dict[Place, Leader]:
            return {}

    def ask(_client: Any) -> None:
        questions.append(time.monotonic())
        raise UnavailableError("no end")

    monkeypatch.setattr(broker_contact, "LogClient", lambda _source: Client())
    contact = BrokerContact(SOURCE, ["veilstream.p.delta"], 0.01, ask=ask)
    contact.watch()
    deadline = patient_time() + 60
    while len(questions) < 3 and patient_time() < deadline:
        time.sleep(0.01)
    assert len(questions) >= 3
    assert not contact.away
