"""Fetches as messages: what a consumer gives away, what it leaves out, and behind what its group continues."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from stream.daemon import faust_consumer
from stream.daemon.faust_consumer import (
    MOST,
    TAKE,
    FetchConsumer,
    FetchMessage,
    SeekingThread,
    _FetchThread,
    _Parts,
)
from stream.daemon.ingest import _runs

ONE, TWO = TP("orders", 1), TP("orders", 2)


def records(offsets: Iterable[int]) -> list[Any]:
    return [SimpleNamespace(offset=offset, timestamp_type=0) for offset in offsets]


def offsets(found: Sequence[Any]) -> list[int]:
    return [record.offset for record in found]


def committing(one: Any) -> Callable[[dict[TP, int]], Awaitable[bool]]:
    """The commit of a thread whose broker takes everything."""

    async def commit(offsets: dict[TP, int]) -> bool:
        one.commits.append(offsets)
        return True

    return commit


def consumer(generation: int, fetched: Any = None) -> Any:
    """The real consumer's books, without the thread that would meet a broker; `fetched` is its next fetch."""
    one: Any = object.__new__(FetchConsumer)
    one.app = SimpleNamespace(consumer_generation_id=generation)
    one._acknowledged, one._committed, one._unacked_messages = {}, {}, WeakSet()
    one.assignment = lambda: {ONE, TWO}
    one._thread, one.commits = SimpleNamespace(commit=committing(one)), []
    one._read_offset = defaultdict(lambda: None)
    one.flow_active, one._stopped = True, SimpleNamespace(is_set=lambda: False)
    one._crashed = one._stopped

    async def wait(_timeout: float) -> Any:
        return fetched, {ONE, TWO}

    one._wait_next_records = wait
    return one


def taken(one: Any) -> list[tuple[TP, Any]]:
    async def all_of_them() -> list[tuple[TP, Any]]:
        return [pair async for pair in one.getmany(1.0)]

    return asyncio.run(all_of_them())


def test_a_fetch_is_one_message_with_all_its_partitions() -> None:
    """Under the generation of the fetch; the next one continues behind it."""
    one = consumer(4, _Parts(4, {ONE: records([5, 6]), TWO: records([9])}))
    ((tp, message),) = taken(one)
    assert (tp, message.tp, message.generation_id) == (ONE, ONE, 4)
    assert {place: offsets(found) for place, found in message.records.items()} == {ONE: [5, 6], TWO: [9]}
    assert dict(one._read_offset) == {ONE: 6, TWO: 9}


def test_partitions_that_are_not_ours_are_left_out() -> None:
    """Partitions that a rebalance took away meanwhile belong to their new owner."""
    one = consumer(4, _Parts(4, {TP("orders", 3): records([5]), TWO: records([9])}))
    ((_, message),) = taken(one)
    assert set(message.records) == {TWO}


def test_a_fetch_of_an_earlier_generation_is_not_given() -> None:
    """Its partitions have gone back: to count it as read would drop what comes again."""
    one = consumer(5, _Parts(4, {ONE: records([5, 6])}))
    assert taken(one) == []
    assert one._read_offset[ONE] is None


def test_a_seek_back_while_a_fetch_is_handed_over_holds() -> None:
    """A full buffer makes the consumer wait with a fetch in its hands, and a rebalance sets the offsets back. Records
    that are then read again must not be dropped as duplicates: a worker ended with "offsets 0 to 2090 were skipped"."""
    one = consumer(4, _Parts(4, {ONE: records([5, 6])}))

    async def rebalance_during_the_hand_over() -> None:
        async for _message in one.getmany(1.0):
            one._read_offset[ONE] = None

    asyncio.run(rebalance_during_the_hand_over())
    assert one._read_offset[ONE] is None


@pytest.mark.parametrize("fetched", [_Parts(4, {ONE: records([5, 6])}), _Parts(5, {}), {}])
def test_a_stopped_flow_goes_back_to_the_committed_offsets(fetched: Any) -> None:
    """A rebalance began while the fetch was open; also where what it brought is left out already."""
    one, sought = consumer(4, fetched), []

    async def seek() -> None:
        sought.append(True)

    one.flow_active, one.perform_seek = False, seek
    assert taken(one) == []
    assert sought == [True]


@given(st.one_of(st.none(), st.integers(0, 12)), st.lists(st.sets(st.integers(0, 12), min_size=1), max_size=4))
def test_records_below_what_was_read_are_dropped_as_faust_does(read: int | None, given: list[set[int]]) -> None:
    """Record by record in Faust; here by parts, within which offsets rise."""
    parts, kept, last = [records(sorted(part)) for part in given], [], read
    for offset in (offset for part in given for offset in sorted(part)):
        if last is None or offset >= last:
            kept.append(offset)
            last = offset
    fetched = _Parts(1, {})
    for part in parts:
        fetched.add({ONE: part})
    one = consumer(1, fetched)
    one._read_offset[ONE] = read
    messages = [message for _, message in taken(one)]
    assert [offsets(message.records[ONE]) for message in messages] == ([kept] if kept else [])
    assert one._read_offset[ONE] == last


def test_fetches_are_numbered_within_their_generation() -> None:
    """The receiver sees by it that one was lost on its way through Faust. Partitions that were taken away, and records
    that were read before, use no number: nothing is handed over then."""
    one = consumer(4, _Parts(4, {ONE: records([5])}))

    async def fetch(generation: int, *given: int) -> list[int | None]:
        async def wait(_timeout: float) -> Any:
            return _Parts(generation, {ONE: records(given)}), {ONE}

        one._wait_next_records, one.app.consumer_generation_id = wait, generation
        return [message.number async for _, message in one.getmany(1.0)]

    numbers = [asyncio.run(fetch(*call)) for call in ((4, 5), (4, 6, 7), (4, 3), (4, 8), (5, 9), (5, 10))]
    assert numbers == [[0], [1], [], [2], [0], [1]]


def test_the_group_goes_on_behind_all_partitions_of_a_fetch() -> None:
    """And not behind those of an earlier generation."""
    one = consumer(4)
    one.acknowledge([FetchMessage({ONE: records([5, 8]), TWO: records([9])}, 4)])
    one.acknowledge([FetchMessage({ONE: records([20])}, 3)])
    assert asyncio.run(one.force_commit())
    assert one.commits == [{ONE: 9, TWO: 10}]


class Fetches:
    """A thread whose client gives these fetches, and None for a rebalance before the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *given: dict[TP, list[Any]] | None) -> None:
        self.thread: Any = object.__new__(_FetchThread)
        self.thread.consumer = SimpleNamespace(flow_active=True)
        self.thread.app = SimpleNamespace(consumer_generation_id=1)
        self.given, self.asked = list(given), []

        async def fetch(_self: Any, _client: Any, _active: Any, timeout: float, most: int) -> dict[TP, list[Any]]:
            self.asked.append(most)
            while self.given and self.given[0] is None:
                self.given.pop(0)
                self.thread.app.consumer_generation_id += 1
            return (self.given.pop(0) if self.given else None) or {}

        monkeypatch.setattr(SeekingThread, "_fetch_records", fetch)

    def taken(self) -> tuple[int, dict[TP, list[list[int]]]]:
        parts = asyncio.run(self.thread._fetch_records(None, {ONE}, 1.0))
        return parts.generation, {tp: [offsets(part) for part in found] for tp, found in parts.items()}


def test_small_fetches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there are enough, in the order in which they came; together they are never more than a message holds."""
    fetches = Fetches(monkeypatch, {ONE: records([1])}, {ONE: records([2]), TWO: records([7])}, {ONE: records([3])})
    assert fetches.taken() == (1, {ONE: [[1], [2], [3]], TWO: [[7]]})
    assert fetches.asked == [MOST, MOST - 1, MOST - 3, MOST - 4]
    fetches = Fetches(monkeypatch, {ONE: records(range(TAKE))}, {ONE: records([900])})
    assert fetches.taken() == (1, {ONE: [list(range(TAKE))]})


def test_a_small_fetch_waits_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that trickle in do not hold up the first of them forever."""
    monkeypatch.setattr(faust_consumer, "WITHIN", 0.0)
    assert Fetches(monkeypatch, {ONE: records([1])}, {ONE: records([2])}).taken() == (1, {ONE: [[1]]})


def test_what_an_earlier_generation_brought_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions go back after a rebalance; joined with what comes then, offsets would be reported twice."""
    fetches = Fetches(monkeypatch, {ONE: records([1])}, None, {ONE: records([0])})
    assert fetches.taken() == (2, {ONE: [[0]]})
    fetches = Fetches(monkeypatch, {ONE: records([1])}, None)
    assert fetches.taken() == (2, {})


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=12))
def test_a_run_ends_where_offsets_begin_again_or_another_leader_wrote(given: list[tuple[int, int]]) -> None:
    """Every record in one run, in order; a run has rising offsets and one epoch, and the next could not join it."""
    records = [SimpleNamespace(offset=offset, checksum=epoch) for offset, epoch in given]
    runs = [[(one.offset, one.checksum) for one in run] for run in _runs(records)]
    assert [pair for run in runs for pair in run] == given
    for run in runs:
        assert all(one[0] < two[0] and one[1] == two[1] for one, two in pairwise(run))
    for run, following in pairwise(runs):
        assert run[-1][0] >= following[0][0] or run[-1][1] != following[0][1]
