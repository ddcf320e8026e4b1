"""Leader epochs without a broker: read from fetched bytes, walked as a leader answers, and what they prove lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors

from connectors.kafka import lineage
from connectors.kafka.faults import FailedConnections
from connectors.kafka.lineage import MOST_EPOCHS, Leader, Lineage, LogClient, leader_epochs
from connectors.kafka.source import Source
from models.errors import UnavailableError
from stream.daemon.aiokafka_records import EpochRecords, StoppingPartitionRecords
from stream.daemon.delta_topic import Anchor, LostDeltasError, anchors, note
from stream.fold.state import lost_from
from stream.ledger.view import LedgerView
from tests.entries import entry


def _batch(base: int, epoch: int, count: int = 2) -> bytes:
    """A record batch as a broker keeps it: base offset and leader epoch are the broker's own fields."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    for place in range(count):
        builder.append(place, 1_000, None, b"value", [])
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def test_each_record_carries_the_epoch_of_its_batch() -> None:
    """Also behind a batch that is cut off, as fetch responses end."""
    data = _batch(10, 3) + _batch(12, 5) + _batch(14, 6)[:-1]
    assert list(leader_epochs(data)) == [3, 5, 6]
    place = TopicPartition("t", 0)
    records = StoppingPartitionRecords(place, EpochRecords(data), None, 11, None, None, True, 1)
    assert [(record.offset, record.checksum) for record in records] == [(11, 3), (12, 5), (13, 5)]


class Cache:
    """A leader's epochs as Kafka keeps them (LeaderEpochFileCache.endOffsetFor)."""

    def __init__(self, epochs: list[tuple[int, int]], end: int) -> None:
        self.epochs, self.end = epochs, end

    def end_of(self, asked: int) -> tuple[int, int]:
        if not self.epochs or asked > self.epochs[-1][0]:
            return -1, -1
        if asked == self.epochs[-1][0]:
            return asked, self.end
        later = next(begin for epoch, begin in self.epochs if epoch > asked)
        floor = max((epoch for epoch, _ in self.epochs if epoch <= asked), default=None)
        return (asked if floor is None else floor), later


caches = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=8)


@given(caches, st.integers(0, 3), st.integers(0, 5), st.integers(0, 7))
def test_a_walk_finds_every_epoch_that_the_leader_has(
    steps: list[tuple[int, int]], first: int, begin: int, end: int
) -> None:
    """Skipped epochs (leaders that wrote nothing) and the place of the cut by retention do not matter."""
    epochs, epoch, offset = [], first, begin
    for more, records in steps:
        epochs.append((epoch, offset))
        epoch, offset = epoch + more, offset + records
    if epochs == [(0, begin)]:
        epochs = [(0, 0)]
    cache = Cache(epochs, offset + end)
    client: Any = LogClient(Source(topics=("t",)))

    async def end_of(_place: Any, _leader: Any, asked: int) -> tuple[int, int]:
        return cache.end_of(asked)

    client._end_of = end_of
    found = asyncio.run(client._lineage(("t", 0), Leader("id", epochs[-1][0], 1)))
    assert found == Lineage("id", tuple(one for one in epochs if one[0] > 0 or len(epochs) == 1), cache.end)


def test_a_log_with_very_many_leaders_is_asked_for_the_last_ones() -> None:
    """The walk is bounded; the last epochs are those that a reader can have missed."""
    cache = Cache([(epoch, epoch) for epoch in range(1, 200)], 300)
    client: Any = LogClient(Source(topics=("t",)))

    async def end_of(_place: Any, _leader: Any, asked: int) -> tuple[int, int]:
        return cache.end_of(asked)

    client._end_of = end_of
    found = asyncio.run(client._lineage(("t", 0), Leader("id", 199, 1)))
    assert found is not None
    assert found.epochs == tuple((epoch, epoch) for epoch in range(200 - MOST_EPOCHS, 200))


@pytest.mark.parametrize(
    ("epoch", "offset", "end", "lost"),
    [
        (0, 9, None, None),  # another leader since, and nothing of ours is gone
        (0, 10, None, 10),  # the next leader's first record appears where we read one of the first leader's
        (0, 15, None, 10),
        (2, 19, None, None),
        (2, 20, None, 20),
        (3, 29, None, None),
        (-1, 29, None, None),  # read before epochs were kept: only an end can show it
        (-1, 29, 25, 25),
        (3, 29, 30, None),
        (0, 15, 5, 5),
    ],
)
def test_what_a_reader_has_lost(epoch: int, offset: int, end: int | None, lost: int | None) -> None:
    """Epoch 0 to offset 9, 2 to 19, 3 from 20 on."""
    assert lost_from(((0, 0), (2, 10), (3, 20)), end, epoch, offset) == lost


def test_positions_go_on_over_a_topic_that_is_created_again() -> None:
    """A cut is named by a position; the ledger gives back the anchors that say what the positions mean."""
    first, second = Anchor("one"), Anchor("two", base=41)
    entries = [note(first), entry("note", publication="p"), note(second)]
    ledger: Any = SimpleNamespace(view=LedgerView(entries))
    assert anchors(ledger) == [first, second]
    assert (second.begin, second.position(3), second.offset(44)) == (41, 44, 3)
    log = Lineage("two", ((0, 0),), 9)
    assert first.lost_from(log, 40, 0) == 0
    assert second.lost_from(log, 44, 0) is None
    assert second.lost_from(log, 41 + 9, 0) == 9  # it ends before what was folded
    assert "was deleted and created again" in str(LostDeltasError("delta", log, first, 40, 0))
    assert "lost its records" in str(LostDeltasError("delta", log, second, 50, 9))


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (
            errors.KafkaConnectionError("Handshake failed: certificate has expired"),
            "no broker answers us (KafkaTimeoutError), the last connection failed: Handshake failed: certificate has "
            "expired; check source.bootstrap and source.security",
        ),
        (errors.SaslAuthenticationFailedError("x"), "refuses the credentials of source.security"),
    ],
)
def test_a_daemon_states_why_no_connection_is_made(
    monkeypatch: pytest.MonkeyPatch, failed: Exception, said: str
) -> None:
    """It asked again and again for an answer that an expired certificate, or a new password, prevented."""
    client = LogClient(Source(topics=("t",), bootstrap="broker:9092"))

    def connect(_self: LogClient) -> None:
        logging.getLogger("kafka.net.manager").error("Connection failed: %s", failed)
        raise errors.KafkaTimeoutError

    monkeypatch.setattr(lineage, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(LogClient, "_connected", connect)
    for _question in range(2):
        with pytest.raises(UnavailableError) as raised:
            client.leaders(["t"])
        assert str(raised.value) == f"broker broker:9092: {said}"
    assert not any(isinstance(handler, FailedConnections) for handler in logging.getLogger("kafka").handlers)


def test_two_threads_share_one_client() -> None:
    """The worker's event loop asks from a pool of threads; the client under it is not made for two."""
    client: Any = LogClient(Source(topics=("t",)))
    inside: list[int] = []
    most: list[int] = []

    def run(_question: Any) -> dict[Any, Any]:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.01)
        inside.pop()
        return {}

    client._run = run
    threads = [threading.Thread(target=client.leaders, args=(["t"],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
