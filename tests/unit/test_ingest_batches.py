"""One batch becomes durable while the next is sent: in order, and acknowledged never before the broker has it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from faust.types import TP

from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from connectors.kafka.lineage import Leader, Lineage
from connectors.kafka.source import Source
from stream.daemon import ingest as ingest_module
from stream.daemon.deltas import DeltaWriter
from stream.daemon.faust_consumer import FetchMessage
from stream.daemon.ingest import Ingest
from stream.values.pseudonym import Pseudonyms

PLACE = TP("orders", 0)
TAKEN = SimpleNamespace(timestamp=1_735_689_600_000)
"""Broker's answer for an accepted record: its stamp."""


class Producer:
    """Takes records in order; each becomes durable when the test lets it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.durable: list[asyncio.Future[Any]] = []

    async def send(self, _topic: str, _key: None, value: bytes, *_: object) -> asyncio.Future[Any]:
        self.sent.append(msgspec.json.decode(value))
        self.durable.append(asyncio.get_running_loop().create_future())
        return self.durable[-1]


class App:
    """Attributes of Faust that `Ingest` reads: one partition, committed nowhere, and tasks that end the process when
    they fail.
    """

    rebalancing = False

    consumer_generation_id = 1

    def __init__(self) -> None:
        self.producer = Producer()
        self.crashes: list[BaseException] = []
        self.acknowledged: list[int] = []

        self.committed: int | None = None
        self.end = 0

        async def committed(*_: object) -> int | None:
            return self.committed

        async def ends(*places: TP) -> dict[TP, int]:
            return dict.fromkeys(places, self.end)

        self.consumer = SimpleNamespace(
            committed=committed,
            highwaters=ends,
            assignment=lambda: {PLACE},
            acknowledge=lambda fetches: self.acknowledged.extend(
                one.offset for fetch in fetches for records in fetch.records.values() for one in records
            ),
        )

    def add_future(self, task: asyncio.Future[None]) -> None:
        def done(ended: asyncio.Future[None]) -> None:
            if not ended.cancelled() and (error := ended.exception()) is not None:
                self.crashes.append(error)

        task.add_done_callback(done)

    def events(self, first: int, count: int) -> FetchMessage:
        def event(offset: int) -> Any:
            body = {"case:concept:name": "c", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"}
            return SimpleNamespace(
                offset=offset, value=msgspec.json.encode(body), headers=(), timestamp=1000, timestamp_type=0
            )

        return FetchMessage({PLACE: [event(offset) for offset in range(first, first + count)]}, 1)


def worker(app: App) -> Ingest:
    writer = DeltaWriter(event_decoder(Schema()), Pseudonyms(bytes(32)), 300 * 10**9, 512 * 1024)
    return Ingest(app, "p", Source(topics=("orders",)), writer)  # type: ignore[arg-type]


class Log:
    """Answers of the broker about the topic: its id, its leader epochs and its end; tests change them."""

    topic, epochs, end = "first", ((0, 0),), 99

    def __init__(self) -> None:
        self.first = {PLACE: 0}

    def leaders(self, _topics: Any) -> dict[Any, Leader]:
        own = {(f"veilstream.p.{kind}", 0): Leader("own", 0, 1) for kind in ("delta", "dlq")}
        return {tuple(PLACE): Leader(self.topic, self.epochs[-1][0], 1), **own}

    def lineages(self, _places: Any) -> dict[Any, Lineage]:
        return {tuple(PLACE): Lineage(self.topic, self.epochs, self.end)}

    def begins(self, _places: Any) -> dict[TP, int]:
        return dict(self.first)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log behind the partition."""
    found = Log()
    monkeypatch.setattr(ingest_module, "LogClient", lambda _source: found)
    return found


@pytest.fixture
def begins(log: Log) -> dict[TP, int]:
    """Return the begin of the log, as the broker would report it."""
    return log.first


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
        app.producer.durable[1].set_result(TAKEN)  # the later one first: the order of acknowledgement does not change
        await settle()
        assert app.acknowledged == []
        app.producer.durable[0].set_result(TAKEN)
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
        app.producer.durable[0].set_result(TAKEN)
        await settle()
        assert app.acknowledged == [0, 1]

    asyncio.run(scenario())


@pytest.mark.parametrize("question", ["leaders", "begins"])
def test_a_rebalance_while_the_broker_is_asked_about_a_batch_is_no_hole(
    log: Log, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """Two workers start at once, and the first one has sent a batch that is not durable yet. The next batch was
    compared with the committed position of the new generation, "offsets 0 to 2 were skipped", and the worker ended."""
    answer = getattr(log, question)

    async def scenario() -> None:
        app = App()
        ingest = worker(app)
        await ingest.batch(app.events(0, 3))

        def rebalance(places: Any) -> Any:
            app.consumer_generation_id = 2
            return answer(places)

        setattr(log, question, rebalance)
        ingest._logs_checked_at = float("-inf")
        if question == "begins":
            ingest._generation.covered.clear()  # another partition of the batch is new
        stale = asyncio.ensure_future(ingest.batch(app.events(3, 2)))
        while ingest._generation.number != 2:
            await asyncio.sleep(0)
        app.producer.durable[0].set_result(TAKEN)
        await stale
        assert [(one["prev"], one["last"]) for one in app.producer.sent] == [(-1, 2)]
        app.producer = Broker()
        again = app.events(0, 5)
        again.generation_id = 2
        await ingest.batch(again)
        await settle()
        assert [(one["prev"], one["last"]) for one in app.producer.sent] == [(-1, 4)]
        assert app.crashes == []

    monkeypatch.setattr(ingest_module, "first_record", lambda *_: 0)
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
            durable.set_result(TAKEN)
        app.producer.durable[0].set_exception(TimeoutError("the broker is away"))
        await settle()
        assert [type(error) for error in app.crashes] == [TimeoutError]
        assert app.acknowledged == []
        if behind is not None:
            with pytest.raises(TimeoutError):
                await behind

    asyncio.run(scenario())


class Broker(Producer):
    """A producer whose records are durable at once."""

    async def send(self, topic: str, key: None, value: bytes, *more: object) -> asyncio.Future[None]:
        durable = await super().send(topic, key, value, *more)
        durable.set_result(TAKEN)
        return durable


@pytest.mark.parametrize(
    ("committed", "spoken", "first"),
    [
        (None, False, [(-1, 6, 0), (6, 7, 1)]),  # a first start on an old topic: nothing was promised, no gap
        (None, True, [(6, 6, 0), (6, 7, 1)]),  # a group whose commits are lost: 0 to 6 were promised
        (5, True, [(6, 6, 0), (6, 7, 1)]),  # retention was faster: 5 and 6 are missing
        (7, True, [(6, 7, 1)]),  # all that is gone was read
    ],
)
def test_what_a_log_has_lost_is_reported_before_its_events(
    begins: dict[TP, int],
    monkeypatch: pytest.MonkeyPatch,
    committed: int | None,
    spoken: bool,
    first: list[tuple[int, int, int]],
) -> None:
    """A log that begins at 7: (prev, last, rows) of the deltas. A gap to the fold is a `prev` above what it has."""

    async def scenario() -> None:
        begins[PLACE] = 7
        monkeypatch.setattr(ingest_module, "seen_in_delta_topic", lambda *_: spoken)
        app = App()
        app.producer, app.committed = Broker(), committed
        await worker(app).batch(app.events(7, 1))
        assert [(one["prev"], one["last"], len(one["rows"])) for one in app.producer.sent] == first

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("begin", "deltas"),
    [
        (0, [(-1, 2, 3), (2, 6, 2)]),  # transactions and compaction leave holes: nothing is missing
        (3, [(-1, 2, 3), (2, 6, 2)]),  # all that was deleted had been read
        (4, [(-1, 2, 3), (3, 3, 0), (3, 6, 2)]),  # 3 was deleted before it was read
        (6, [(-1, 2, 3), (3, 3, 0), (3, 4, 1), (5, 5, 0), (5, 6, 1)]),  # so was 5, between two events of a fetch
        (9, [(-1, 2, 3), (3, 3, 0), (3, 4, 1), (5, 5, 0), (5, 6, 1)]),  # what was read goes out nevertheless
    ],
)
def test_events_deleted_while_a_worker_runs_are_a_gap(
    begins: dict[TP, int], begin: int, deltas: list[tuple[int, int, int]]
) -> None:
    """Offsets 3 and 5 are missing in the fetches of one worker. A gap to the fold is a `prev` above what it has."""

    async def scenario() -> None:
        app = App()
        app.producer = Broker()
        ingest = worker(app)
        await ingest.batch(app.events(0, 3))
        begins[PLACE] = begin
        events = [record for first in (4, 6) for record in app.events(first, 1).records[PLACE]]
        await ingest.batch(FetchMessage({PLACE: events}, 1))
        assert [(one["prev"], one["last"], len(one["rows"])) for one in app.producer.sent] == deltas

    asyncio.run(scenario())


@pytest.mark.parametrize(("record", "idle"), [(4, False), (5, True)])
def test_a_partition_that_ends_in_markers_is_idle(monkeypatch: pytest.MonkeyPatch, record: int, idle: bool) -> None:
    """Everything before 3 is covered, the log ends at 5: it is idle only where the broker has no record in between,
    and is asked when the partition has not moved from one report to the next, once."""
    asked: list[tuple[int, int]] = []

    def first_record(_source: Source, _place: TP, begin: int, end: int) -> int:
        asked.append((begin, end))
        return record

    async def scenario() -> None:
        app = App()
        app.producer, app.committed, app.end = Broker(), 3, 5
        ingest = worker(app)
        beats = []
        for _ in range(4):
            app.producer.sent.clear()
            await ingest.report()
            beats.append(sum(one["t"] == "hb" for one in app.producer.sent))
        assert beats == [0, *[int(idle)] * 3]
        assert ingest.progress.lag == {"orders/0": 0 if idle else 2}
        assert asked == [(3, 5)] * (1 if idle else 3)

    monkeypatch.setattr(ingest_module, "first_record", first_record)
    asyncio.run(scenario())
