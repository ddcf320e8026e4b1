"""A partition that a worker gave away is the lag of another worker: this one reports nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from faust.types import TP
from prometheus_client import generate_latest

from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from connectors.kafka.lineage import Leader, Lineage
from connectors.kafka.source import Source
from stream.daemon import ingest as ingest_module
from stream.daemon.deltas import DeltaWriter
from stream.daemon.ingest import Ingest
from stream.run.exporter import Metrics
from stream.values.pseudonym import Pseudonyms
from tests.unit.test_ingest_batches import TAKEN, App

ORDERS, RETURNS = TP("orders", 0), TP("returns", 0)


class Producer:
    """A broker that takes every record at once."""

    async def send(self, *_: object) -> asyncio.Future[Any]:
        taken: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        taken.set_result(TAKEN)
        return taken


class Log:
    """Answers of the broker about the topics."""

    def leaders(self, topics: Any) -> Mapping[tuple[str, int], Leader]:
        return {(topic, 0): Leader(topic, 0, 1) for topic in topics}

    def lineages(self, places: Any) -> Mapping[tuple[str, int], Lineage]:
        return {place: Lineage(place[0], ((0, 0),), 99) for place in places}

    def begins(self, places: Any) -> Mapping[tuple[str, int], int]:
        return dict.fromkeys(places, 0)


def _lag(metrics: Metrics) -> dict[str, float]:
    """The gauge by partition, as it is scraped."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    shown = [line for line in lines if line.startswith("veilstream_ingest_lag_records{")]
    return {line.split('partition="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in shown}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> tuple[App, Ingest, Metrics]:
    """A worker that has two partitions, of which it has taken nothing yet."""
    monkeypatch.setattr(ingest_module, "first_record", lambda _source, _place, begin, _end: begin)
    monkeypatch.setattr(ingest_module, "LogClient", lambda _source: Log())
    app, metrics = App(), Metrics("p", live=True)
    app.producer, app.end = Producer(), 40  # type: ignore[assignment]
    app.consumer.assignment = lambda: {ORDERS, RETURNS}
    writer = DeltaWriter(event_decoder(Schema()), Pseudonyms(bytes(32)), 300 * 10**9, 512 * 1024)
    source = Source(topics=("orders", "returns"))
    return app, Ingest(app, "p", source, writer, metrics), metrics  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [{ORDERS}, set()], ids=["one of two", "all"])
def test_a_partition_that_was_given_away_has_no_lag(worker: tuple[App, Ingest, Metrics], kept: set[TP]) -> None:
    """A second worker joins and takes a partition, or both: after the next report the series are gone."""
    app, ingest, metrics = worker

    async def scenario() -> None:
        await ingest.report()
        assert _lag(metrics) == {"orders/0": 40, "returns/0": 40}
        app.consumer.assignment = lambda: kept
        app.consumer_generation_id = 2
        await ingest.report()
        assert _lag(metrics) == {f"{tp.topic}/{tp.partition}": 40 for tp in kept}

    asyncio.run(scenario())
