"""Reports of an ingest worker on the log of a partition: once, when it changes, and before its other records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from models.errors import InputError
from stream.daemon import ingest as ingest_module
from stream.daemon.faust_consumer import FetchMessage
from tests.unit.test_ingest_batches import PLACE, TAKEN, App, Broker, Log, worker
from tests.unit.test_ingest_batches import begins as begins  # noqa: PLC0414 - a fixture of that module, used here
from tests.unit.test_ingest_batches import log as log  # noqa: PLC0414 - the same


def _app() -> App:
    app = App()
    app.producer = Broker()
    return app


def _under(fetch: FetchMessage, epoch: int) -> FetchMessage:
    for record in fetch.records[PLACE]:
        record.checksum = epoch
    return fetch


def _joined(*fetches: FetchMessage) -> FetchMessage:
    return FetchMessage({PLACE: [record for fetch in fetches for record in fetch.records[PLACE]]}, 1)


def _sent(app: App) -> list[tuple[Any, ...]]:
    """(prev, last, topic id, epoch, epochs, end) of the deltas sent since the last look."""
    found = [one for one in app.producer.sent if one["t"] == "delta"]
    app.producer.sent.clear()
    return [(one["prev"], one["last"], one["log"], one["epoch"], one["epochs"], one["end"]) for one in found]


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "LOOK_SECONDS", 0.0)


def test_the_log_is_described_once_and_named_always(log: Log) -> None:
    """Its leaders in the first delta of an assignment, its id in each."""

    async def scenario() -> None:
        app = _app()
        ingest = worker(app)
        await ingest.batch(_under(app.events(0, 2), 0))
        await ingest.batch(_under(app.events(2, 1), 0))
        assert _sent(app) == [(-1, 1, "first", 0, [[0, 0]], None), (1, 2, "first", 0, [], None)]
        log.epochs = ((0, 0), (2, 3))
        await ingest.batch(_under(app.events(3, 1), 2))
        assert _sent(app) == [(2, 3, "first", 2, [[0, 0], [2, 3]], None)]

    asyncio.run(scenario())


def test_a_batch_over_two_leaders_is_two_deltas(log: Log) -> None:
    """A delta has the epoch of all its rows: where the next leader cut what is before, the fold would not see it."""

    async def scenario() -> None:
        app = _app()
        log.epochs = ((0, 0), (1, 2))
        await worker(app).batch(_joined(_under(app.events(0, 2), 0), _under(app.events(2, 2), 1)))
        assert [(prev, last, epoch) for prev, last, _, epoch, *_ in _sent(app)] == [(-1, 1, 0), (1, 3, 1)]

    asyncio.run(scenario())


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in the next"])
def test_offsets_that_begin_again_are_no_repeats_to_the_worker(log: Log, together: bool) -> None:
    """A consumer that is out of range begins at 0: the delta begins there too, and says of which log it is."""

    async def scenario() -> None:
        app = _app()
        ingest = worker(app)
        await ingest.batch(_under(app.events(0, 5), 0))
        _sent(app)
        more = [_under(app.events(5, 1), 0)]
        if not together:
            await ingest.batch(more.pop())
            _sent(app)
        log.topic = "second"
        await ingest.batch(_joined(*more, _under(app.events(0, 3), 0)))
        assert _sent(app)[-1][:3] == (-1, 2, "second")
        await ingest.batch(_under(app.events(3, 1), 0))
        assert _sent(app) == [(2, 3, "second", 0, [], None)]

    asyncio.run(scenario())


def test_a_log_that_ends_before_what_was_read_is_reported_at_once(log: Log) -> None:
    """Without an event, once, and with no report of an idle partition; a fetching client that is behind its leader is
    no proof."""

    async def scenario() -> None:
        app = _app()
        ingest = worker(app)
        await ingest.batch(_under(app.events(0, 5), 0))
        app.producer.sent.clear()
        app.end = 3
        await ingest.report()
        assert [one["t"] for one in app.producer.sent] == ["tick"]
        app.producer.sent.clear()
        log.epochs, log.end = ((0, 0), (2, 3)), 3
        await ingest.report()
        assert [one["t"] for one in app.producer.sent] == ["delta", "tick"]
        assert _sent(app) == [(-1, -1, "first", -1, [[0, 0], [2, 3]], 3)]
        await ingest.report()
        assert [one["t"] for one in app.producer.sent] == ["tick"]

    asyncio.run(scenario())


def test_an_idle_partition_reports_how_far_its_deltas_go(log: Log) -> None:
    """So that a delta that was lost is missed without an event behind it."""

    async def scenario() -> None:
        app = _app()
        ingest = worker(app)
        app.end = 2
        await ingest.batch(_under(app.events(0, 2), 0))
        app.producer.sent.clear()
        await ingest.report()
        assert [(one["t"], one.get("last")) for one in app.producer.sent] == [("hb", 1), ("tick", None)]
        assert PLACE.partition == app.producer.sent[0]["p"]

    asyncio.run(scenario())


def test_a_batch_that_is_never_acknowledged_is_no_progress() -> None:
    """All is read and sent, and nothing durable: a worker whose producer waits forever must end."""

    async def scenario() -> list[bool]:
        """Return the progress that was reported before the batch was durable."""
        app = App()
        ingest = worker(app)
        app.end = 2
        await ingest.batch(_under(app.events(0, 2), 0))
        moves: list[bool] = []
        ingest.check.moved = lambda: moves.append(True)  # type: ignore[method-assign]
        reported = asyncio.ensure_future(ingest.report())
        while not reported.done():  # it asks the broker in other threads, which a busy machine starts late
            await asyncio.sleep(0.001)
            for durable in app.producer.durable[1:]:  # what it reports is durable, the batch is not
                if not durable.done():
                    durable.set_result(TAKEN)
        await reported
        before = list(moves)
        app.producer.durable[0].set_result(TAKEN)
        while not moves:  # the test's own timeout ends what never comes
            await asyncio.sleep(0.001)
        return before

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize("kind", ["dlq", "delta"])
def test_a_worker_without_its_own_topics_names_the_one(log: Log, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It ends: what it cannot put anywhere must not be acknowledged."""
    leaders = log.leaders
    monkeypatch.setattr(log, "leaders", lambda topics: {k: v for k, v in leaders(topics).items() if kind not in k[0]})

    async def scenario() -> None:
        app = _app()
        with pytest.raises(InputError, match=rf"topic veilstream\.p\.{kind}: missing"):
            await worker(app).report()

    asyncio.run(scenario())
