"""Records of the delta topic that a consumer leaves out: a second one is asked before what is behind is folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import VeilstreamError
from stream.daemon.delta_topic import Anchor, DeltaRecord, DeltaTopic
from stream.fold.records import Delta, Heartbeat, Row, Tick
from tests.unit.test_coordinator_close import DAY, Unopened
from tests.unit.test_fetches import ONE, consumer, records, taken
from tests.unit.test_fetches import _Parts as Parts
from tests.unit.test_ingest_batches import App, worker
from tests.unit.test_ingest_batches import begins as begins  # noqa: PLC0414 - a fixture of that module, used here
from tests.unit.test_ingest_batches import log as log  # noqa: PLC0414 - the same


def _delta(partition: int, offset: int) -> bytes:
    rows = [Row(offset, f"c{partition}", "a", (offset + 1) * DAY)]
    return msgspec.json.encode(Delta(src="s", p=partition, prev=offset - 1, last=offset, n=1, rows=rows))


MARKER = 4
"""An offset without a record: the marker of a transaction."""
BODIES = {
    0: _delta(0, 0),
    1: _delta(1, 0),  # the only one of its partition
    2: _delta(0, 1),
    3: _delta(0, 2),
    5: _delta(0, 3),
    6: msgspec.json.encode(Tick(at=DAY)),
    7: _delta(0, 4),
}
"""A delta topic; every second event of it is a cut."""
TOPIC: list[DeltaRecord] = [(offset, body, 0) for offset, body in BODIES.items()]


class Reader:
    """A consumer of the topic that leaves some records out, and where it was asked to read."""

    def __init__(self, left_out: frozenset[int] = frozenset()) -> None:
        self.left_out, self.asked, self.closed = left_out, [], 0  # type: tuple[frozenset[int], list[Any], int]

    def begin(self) -> int:
        return 0

    def read(self, first: int, until: int) -> Iterator[DeltaRecord]:
        self.asked.append((first, until))
        return (one for one in TOPIC if first <= one[0] < until and one[0] not in self.left_out)

    def close(self) -> None:
        self.closed += 1


class Taking(Unopened):
    """An engine whose topic is `TOPIC`; it remembers its cuts and how many events each exposed."""

    def __init__(self, first: Reader, second: Reader) -> None:
        super().__init__()
        topic: Any = object.__new__(DeltaTopic)
        topic.name, topic.anchor = "delta", Anchor("")
        topic._reader, topic._second = first, lambda: second
        self.delta, self.cuts = topic, {}

    def decide(self, cut: Any) -> None:
        self.cuts[cut.id] = int(self.fold.exposed(cut).new.sum())
        super().decide(cut)


def _undisturbed() -> Taking:
    engine = Taking(Reader(), Reader())
    engine.apply(TOPIC)
    return engine


def test_nobody_is_asked_where_nothing_is_left_out() -> None:
    """But about the offset of a marker, which holds no record."""
    engine = _undisturbed()
    assert engine.delta._second().asked == [(MARKER, MARKER + 1)]
    assert not engine.fold.gap
    assert len(engine.cuts) == 3


@given(st.frozensets(st.sampled_from(sorted(BODIES)[:-1])), st.integers(0, 7), st.integers(0, 8))
def test_what_was_left_out_once_is_folded_at_its_place(left_out: frozenset[int], begin: int, split: int) -> None:
    """Records that Faust or the reader left out do not matter: the state and the cuts are those of a run without."""
    second = Reader()
    engine, wanted = Taking(Reader(left_out), second), _undisturbed()
    given_by_faust = [one for one in TOPIC if one[0] not in left_out and one[0] >= begin]
    for batch in (given_by_faust[:split], given_by_faust[split:]):
        if batch:
            engine.catch_up(batch[0][0])
            engine.apply(batch)
    assert engine.cuts == wanted.cuts
    assert engine.fold.snapshot() == wanted.fold.snapshot()
    assert second.closed == len(second.asked)


@pytest.mark.parametrize("again", [True, False], ids=["once", "always"])
def test_a_record_that_no_consumer_gives_is_a_gap(again: bool, caplog: pytest.LogCaptureFixture) -> None:
    """And one that the second gives is none, but it is said."""
    gone = frozenset({2})
    engine = Taking(Reader(gone), Reader(frozenset() if again else gone))
    engine.apply([one for one in TOPIC if one[0] not in gone])
    assert engine.fold.gap == (not again)
    assert ("gap: s/0: offsets 1 to 1 are missing" in caplog.text) == (not again)
    assert ("the record at offset 2 was left out by one consumer" in caplog.text) == again


def test_the_last_record_of_a_partition_is_missed_at_its_next_report() -> None:
    """No record of its partition follows: a cut before the report goes without its event, and none behind it."""
    gone = frozenset({1})
    engine = Taking(Reader(gone), Reader(gone))
    engine.apply([one for one in TOPIC if one[0] not in gone])
    assert not engine.fold.gap
    assert engine.cuts
    engine.apply([(8, msgspec.json.encode(Heartbeat(src="s", p=1, at=9 * DAY, last=0)), 0)])
    assert engine.gaps() == ["s/1: offsets 0 to 0 are missing"]
    before = dict(engine.cuts)
    engine.apply([(9, _delta(0, 5), 0), (10, _delta(0, 6), 0)])
    assert engine.cuts == before


def test_fetches_are_counted_in_their_generation() -> None:
    """From the first; one that holds nothing new is none."""
    one = consumer(4, Parts(4, {ONE: records([5, 6])}))
    assert [message.number for _, message in taken(one) + taken(one)] == [0, 1]
    one.app.consumer_generation_id = 5
    assert taken(one) == []

    async def wait(_timeout: float) -> Any:
        return Parts(5, {ONE: records([6, 7])}), {ONE}

    one._wait_next_records = wait
    assert [message.number for _, message in taken(one)] == [0]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_worker_that_misses_a_fetch_ends_before_it_sends_a_later_one(number: int) -> None:
    """The delta of the later one would say that nothing is between, and its acknowledgement would take the lost
    events for done."""
    import asyncio

    async def scenario() -> None:
        app = App()
        ingest = worker(app)
        fetch = app.events(0, 2)
        fetch.number = number
        if number == 0:
            await ingest.batch(fetch)
            return
        with pytest.raises(VeilstreamError, match=f"{number} fetches were lost"):
            await ingest.batch(fetch)
        assert app.producer.sent == []

    asyncio.run(scenario())
