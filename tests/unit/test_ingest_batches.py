"""One batch becomes durable while the next is sent: in order, and acknowledged never before the broker has it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from faust.types import TP

from connectors.kafka.events import Schema, decoder
from connectors.kafka.source import Source
from stream.daemon.deltas import DeltaWriter
from stream.ingest import Ingest
from stream.pseudonym import Pseudonyms

PLACE = TP("orders", 0)


class Producer:
    """Takes records in order; each becomes durable when the test says so."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.durable: list[asyncio.Future[None]] = []

    async def send(self, _topic: str, _key: None, value: bytes, *_: object) -> asyncio.Future[None]:
        self.sent.append(msgspec.json.decode(value))
        self.durable.append(asyncio.get_running_loop().create_future())
        return self.durable[-1]


class App:
    """What `Ingest` asks of Faust: one partition, committed nowhere, and tasks that end the process when they fail."""

    consumer_generation_id = 1

    def __init__(self) -> None:
        self.producer = Producer()
        self.crashes: list[BaseException] = []
        self.acknowledged: list[int] = []

        async def nothing(*_: object) -> None:
            return None

        async def begin(place: TP) -> dict[TP, int]:
            return {place: 0}

        thread = SimpleNamespace(call_thread=nothing, _consumer=SimpleNamespace(committed=None))
        self.consumer = SimpleNamespace(_thread=thread, earliest_offsets=begin)

    def add_future(self, task: asyncio.Future[None]) -> None:
        def done(ended: asyncio.Future[None]) -> None:
            if not ended.cancelled() and (error := ended.exception()) is not None:
                self.crashes.append(error)

        task.add_done_callback(done)

    def events(self, first: int, count: int) -> list[Any]:
        def event(offset: int) -> Any:
            body = {"case:concept:name": "c", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"}
            message = SimpleNamespace(
                tp=PLACE,
                offset=offset,
                generation_id=1,
                value=msgspec.json.encode(body),
                headers=(),
                timestamp=1.0,
                timestamp_type=0,
            )
            return SimpleNamespace(message=message, ack=lambda: self.acknowledged.append(offset))

        return [event(offset) for offset in range(first, first + count)]


def worker(app: App) -> Ingest:
    writer = DeltaWriter(decoder(Schema()), Pseudonyms(bytes(32)), 300 * 10**9, 512 * 1024)
    return Ingest(app, "p", Source(topics=("orders",)), writer, fresh=True)  # type: ignore[arg-type]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_next_batch_is_sent_before_and_the_third_waits() -> None:
    """Two batches are with the producer, the deltas chain, and nothing is acknowledged until the first is durable."""

    async def scenario() -> None:
        app = App()
        ingest = worker(app)
        await ingest.batch(app.events(0, 3))
        second = asyncio.ensure_future(ingest.batch(app.events(3, 2)))
        await settle()
        assert [(one["prev"], one["last"]) for one in app.producer.sent] == [(-1, 2), (2, 4)]
        assert not second.done()
        assert app.acknowledged == []
        app.producer.durable[1].set_result(None)  # the later one first: the order of acknowledgement does not change
        await settle()
        assert app.acknowledged == []
        app.producer.durable[0].set_result(None)
        await second
        await settle()
        assert app.acknowledged == [0, 1, 2, 3, 4]
        assert app.crashes == []

    asyncio.run(scenario())


def test_a_batch_alone_is_acknowledged_without_another_one() -> None:
    """A quiet topic is not held up by the batch that does not come."""

    async def scenario() -> None:
        app = App()
        await worker(app).batch(app.events(0, 2))
        app.producer.durable[0].set_result(None)
        await settle()
        assert app.acknowledged == [0, 1]

    asyncio.run(scenario())


@pytest.mark.parametrize("followed", [True, False], ids=["with a batch behind it", "alone"])
def test_a_batch_that_fails_ends_the_process_and_nothing_behind_it_is_acknowledged(followed: bool) -> None:
    """Also where the batch behind it is durable: its offsets would be committed over those that are lost."""

    async def scenario() -> None:
        app = App()
        ingest = worker(app)
        await ingest.batch(app.events(0, 3))
        behind = asyncio.ensure_future(ingest.batch(app.events(3, 2))) if followed else None
        await settle()
        for durable in app.producer.durable[1:]:
            durable.set_result(None)
        app.producer.durable[0].set_exception(TimeoutError("the broker is away"))
        await settle()
        assert [type(error) for error in app.crashes] == [TimeoutError]
        assert app.acknowledged == []
        if behind is not None:
            with pytest.raises(TimeoutError):
                await behind

    asyncio.run(scenario())
