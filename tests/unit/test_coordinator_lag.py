"""Metrics of a coordinator and its group: records that wait, assignments, durations of checkpoints."""

from __future__ import annotations

import asyncio
import time
import weakref
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
from stream.daemon.coordinator import BATCH_RECORDS, Coordinator, coordinator_app
from stream.daemon.delta_topic import Anchor
from stream.daemon.ingest import DELTA_BYTES, Ingest
from stream.daemon.state_machine import CoordinatorContext
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from tests.patience import patient_time
from tests.unit.test_ingest_batches import App

SETTINGS = Settings.model_validate({"process": {"name": "p"}})
SOURCE = Source(topics=("t",))


DELTA, DLQ = ("veilstream.p.delta", 0), ("veilstream.p.dlq", 0)


class Offsets:
    """A broker with the begins and ends of these partitions; others are empty."""

    def __init__(self, **of: tuple[int, int]) -> None:
        self._of = {{"delta": DELTA, "dlq": DLQ, "t": ("t", 0)}[name]: bounds for name, bounds in of.items()}

    def begins(self, places: list[Place]) -> dict[Place, int]:
        return {place: self._of.get(place, (0, 0))[0] for place in places}

    def ends(self, places: list[Place]) -> dict[Place, int]:
        return {place: self._of.get(place, (0, 0))[1] for place in places}


def _engine(position: int = -1, base: int = 0, hwm: int | None = None) -> Any:
    partitions = {} if hwm is None else {("t", 0): SimpleNamespace(hwm=hwm)}
    fold = SimpleNamespace(state=SimpleNamespace(partitions=partitions))
    return SimpleNamespace(position=position, delta=SimpleNamespace(anchor=Anchor("id", base=base)), fold=fold)


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


def test_records_that_wait_take_little_memory(tmp_path: Path) -> None:
    """The fold may be hours behind: only the records of the next batches are in memory."""
    host = CoordinatorContext(SETTINGS, SOURCE, tmp_path, (("t", 0),))
    app, _ = coordinator_app(host, tmp_path / "faust")
    queue = app.topic("veilstream.p.delta").queue
    assert queue.maxsize > BATCH_RECORDS
    assert queue.maxsize * DELTA_BYTES <= 128 << 20


def test_a_folded_record_leaves_memory_before_it_is_acknowledged(tmp_path: Path) -> None:
    """During a gap nothing is acknowledged: hours of records would stay."""
    consumer = SimpleNamespace(acknowledged=list[int]())
    consumer.acknowledge = lambda messages: consumer.acknowledged.extend(each.offset for each in messages)
    app: Any = SimpleNamespace(consumer_generation_id=1, consumer=consumer, rebalancing=False)
    one: Any = Coordinator(app, CoordinatorContext(SETTINGS, SOURCE, tmp_path, (("t", 0),)))
    one._fold = lambda records: None
    one.engine = SimpleNamespace(acknowledged=lambda: -1)

    class Value:
        """A value that a weak reference can follow, as it cannot follow bytes."""

    def event(offset: int, value: Value) -> Any:
        message = SimpleNamespace(offset=offset, value=value, checksum=None, generation_id=1, timestamp=0.0)
        return SimpleNamespace(message=message, value=value)

    events = [event(0, Value()), event(1, Value())]
    values = [weakref.ref(each.value) for each in events]
    asyncio.run(one.batch(events))
    del events
    assert [value() for value in values] == [None, None]
    one.engine = SimpleNamespace(acknowledged=lambda: 0)
    one._acknowledge()
    assert consumer.acknowledged == [0]
    one.engine = SimpleNamespace(acknowledged=lambda: 1)
    one._acknowledge()
    assert consumer.acknowledged == [0, 1]


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
def test_the_lag_counts_records_behind_the_last_folded_one(
    watched: tuple[Coordinator, Metrics], base: int, position: int, end: int, lag: int
) -> None:
    """By offsets of the topic that exists now."""
    coordinator, metrics = watched
    coordinator.engine = _engine(position, base)
    coordinator._measure_lag(Offsets(delta=(0, end)))  # type: ignore[arg-type]
    assert _value(metrics, "delta_lag_records") == lag
    assert coordinator.status.lag is not None
    assert coordinator.status.lag["delta"] == lag


@pytest.mark.parametrize(
    ("hwm", "begin", "end", "lag"),
    [
        (None, 0, 4, 4),  # no worker has reported the partition yet
        (None, 2, 4, 2),
        (-1, 0, 4, 4),
        (1, 0, 4, 2),
        (3, 0, 4, 0),
        (1, 3, 4, 1),  # retention took a record that was not read: it waits no longer, and is a gap
    ],
)
def test_the_source_lag_is_what_no_delta_covers(
    watched: tuple[Coordinator, Metrics], hwm: int | None, begin: int, end: int, lag: int
) -> None:
    """And the dead letters are those that the queue still has."""
    coordinator, _ = watched
    coordinator.engine = _engine(hwm=hwm)
    coordinator._measure_lag(Offsets(t=(begin, end), dlq=(5, 12)))  # type: ignore[arg-type]
    assert coordinator.status.lag == {"source": {"t/0": lag}, "delta": 0, "dead_letters": 7}


def test_a_standby_reports_no_lag(watched: tuple[Coordinator, Metrics]) -> None:
    """It folds nothing: its lag would be that of another host."""
    coordinator, metrics = watched
    coordinator._measure_lag(Offsets(delta=(0, 5)))  # type: ignore[arg-type]
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
