"""Commits of a worker's group: acknowledged offsets, never those that Faust counts by itself."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from faust.transport.consumer import Consumer
from faust.types import TP
from intervaltree import IntervalTree

from stream.daemon.faust_consumer import SeekingConsumer

PLACE = TP("orders", 3)


class Message(SimpleNamespace):
    """Attributes of a message that the consumer reads; Faust holds it weakly."""

    __hash__ = object.__hash__


def message(offset: int, generation: int) -> Message:
    return Message(tp=PLACE, topic=PLACE.topic, offset=offset, generation_id=generation, acked=False)


def consumer(generation: int) -> Any:
    """The real consumer's books, without the thread that would meet a broker."""
    one: Any = object.__new__(SeekingConsumer)
    topics = SimpleNamespace(acks_enabled_for=lambda _topic: True)
    one.app = SimpleNamespace(consumer_generation_id=generation, topics=topics)
    one._acknowledged, one._committed, one.commits = {}, {}, []
    one.assignment = lambda: {PLACE}

    async def commit(offsets: dict[TP, int]) -> bool:
        one.commits.append(offsets)
        return True

    one._thread = SimpleNamespace(commit=commit)
    one._unacked_messages = WeakSet()
    one._committed_offset = defaultdict(lambda: None)
    one._gap, one._acked, one._acked_index = defaultdict(IntervalTree), defaultdict(list), defaultdict(set)
    one._n_acked, one._waiting_for_ack = 0, None
    return one


def test_offsets_that_a_fetch_skipped_are_not_committed() -> None:
    """The worker had 156 when its partition was taken; given back, it continues at 173. Faust counts 157 to 172 as done
    then, and one acknowledgement is enough to commit them. No delta had them, and nobody would read them again."""
    fausts = consumer(2)
    asyncio.run(Consumer._add_gap(fausts, PLACE, 157, 173))
    Consumer.ack(fausts, message(172, 1))
    assert Consumer._new_offset(fausts, PLACE) == 173  # the day this is mended, ours may go
    one = consumer(2)
    asyncio.run(one._add_gap(PLACE, 157, 173))
    one.ack(message(172, 1))
    one.acknowledge([message(172, 1)])
    assert not asyncio.run(one.force_commit())
    one.acknowledge([message(156, 2)])
    assert asyncio.run(one.force_commit())
    assert one.commits == [{PLACE: 157}]


def test_acknowledgements_of_an_earlier_generation_commit_nothing() -> None:
    """Their partition may be another worker's, or is read again from where the group was."""
    one = consumer(2)
    one.acknowledge([message(10, 1), message(11, 1)])
    assert not asyncio.run(one.force_commit())
    one.acknowledge([message(10, 2)])
    one.app.consumer_generation_id = 3
    assert not asyncio.run(one.force_commit([PLACE]))
    one.app.consumer_generation_id = 2
    assert asyncio.run(one.force_commit([PLACE]))
    assert one.commits == [{PLACE: 11}]


def test_a_partition_that_was_taken_away_is_not_committed() -> None:
    """Nor one that was not asked for."""
    one = consumer(2)
    one.acknowledge([message(10, 2)])
    assert not asyncio.run(one.force_commit([TP("orders", 4)]))
    one.assignment = set
    assert not asyncio.run(one.force_commit())
    assert one.commits == []


def test_what_is_committed_is_not_committed_again() -> None:
    """A quiet partition asks nothing of the broker; a commit that failed is asked again."""
    one = consumer(2)
    one.acknowledge([message(4, 2), message(5, 2)])
    taken = one._thread.commit

    async def refused(_offsets: dict[TP, int]) -> bool:
        return False

    one._thread.commit = refused
    assert not asyncio.run(one.force_commit())
    one._thread.commit = taken
    assert asyncio.run(one.force_commit())
    assert not asyncio.run(one.force_commit())
    assert one.commits == [{PLACE: 6}]
