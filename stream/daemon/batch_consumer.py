"""Faust consumer that hands over whole fetches: one message of Faust for some hundred records of the broker.

Group membership, generations, commits, flow control and the way back to the committed offsets are those of
`SeekingConsumer`; only the unit is another. Faust makes a message, an event, some tasks and two futures of each record,
which cost ten times what the work of ingest costs. Here a fetch of the client passes through Faust as one message,
whose `records` are the client's own, by partition.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from stream.daemon.faust_consumer import App, SeekingConsumer, SeekingThread

TAKE = 500
"""Records of a fetch below which more are waited for: each message pays a round trip of acknowledgements."""

WITHIN = 0.25
"""Seconds that a smaller fetch waits: the price of latency where traffic is low."""

MOST = 2000
"""Records of one message at most. More would hold more unacknowledged events and block the event loop for longer; less
would pay more round trips an event."""

WAITING = 2
"""Messages that may wait in a stream's buffer; the client holds the rest back."""

Records = Mapping[TP, Sequence[Any]]
"""Records of a fetch as the client gives them, by partition: `offset`, `timestamp` (ms), `timestamp_type`, `headers`,
`value`, and the leader epoch in `checksum`."""


class FetchMessage(ConsumerMessage):
    """A fetch as a message. Its coordinates are those of the last record of its first partition.

    `number`: its place among the fetches of its generation, from 0; None: not counted. Who takes fetches sees by it
    that one was lost on the way through Faust, which a later one would hide: the group goes on behind what is
    acknowledged.
    """

    records: Records

    def __init__(self, records: Records, generation: int, number: int | None = None) -> None:
        tp = next(iter(records))
        last = records[tp][-1]
        super().__init__(
            tp.topic,
            tp.partition,
            last.offset,
            0.0,
            last.timestamp_type,
            None,
            None,
            None,
            None,
            tp=tp,
            generation_id=generation,
        )
        self.records, self.number = records, number


class _Parts(dict[Any, list[Any]]):
    """Records of a fetch by partition, in the parts in which they came, and the generation in which it was made."""

    def __init__(self, generation: int, fetched: Mapping[Any, Any]) -> None:
        super().__init__()
        self.generation, self.count = generation, 0
        self.add(fetched)

    def add(self, fetched: Mapping[Any, Any]) -> None:
        for tp, part in fetched.items():
            self.setdefault(tp, []).append(part)
            self.count += len(part)


class _Thread(SeekingThread):
    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> _Parts:
        """The records of a fetch: at least `TAKE`, or what came `WITHIN` seconds of the first. What an earlier
        generation brought is left out: its partitions go back to where the group is."""
        parts = _Parts(self._now(), {})
        until = float("inf")
        while True:
            fetched = await super()._fetch_records(consumer, active_partitions, timeout, MOST - parts.count)
            if self._now() != parts.generation:
                parts = _Parts(self._now(), {})
            parts.add(fetched)
            until = min(until, time.monotonic() + WITHIN)
            timeout = until - time.monotonic()
            if not fetched or parts.count >= TAKE or timeout <= 0 or not self.consumer.flow_active:
                return parts

    def _now(self) -> int:
        return int(self.app.consumer_generation_id)


class BatchConsumer(SeekingConsumer):
    """`SeekingConsumer` whose messages are fetches."""

    _thread: _Thread

    _given: tuple[int, int] = (-1, 0)
    """A generation, and how many fetches were handed over in it."""

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    def acknowledge(self, messages: Iterable[FetchMessage]) -> None:
        """The group goes on behind all records of these fetches; those of an earlier generation count for nothing."""
        for message in messages:
            message.acked = True
            self._unacked_messages.discard(message)
            if message.generation_id == self.app.consumer_generation_id:
                for tp, records in message.records.items():
                    self._behind[tp] = (message.generation_id, records[-1].offset + 1)

    def on_buffer_full(self, tp: TP) -> None:
        """The stream's buffer makes the fetcher wait. Faust would stop fetching the partition, and sleep a second where
        none is left."""

    def on_buffer_drop(self, tp: TP) -> None:
        """See `on_buffer_full`."""

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, FetchMessage]]:
        """The next fetch as a message, if there is one. As in Faust: where the flow was stopped meanwhile, all goes
        back to the committed offsets, and a record below what was read is dropped. A fetch of an earlier generation is
        left out: its partitions have gone back already."""
        parts: Any
        parts, active = await self._wait_next_records(timeout)
        if parts is None or self.should_stop:
            return
        if not self.flow_active:
            try:
                await self.perform_seek()
            except Exception as error:  # noqa: BLE001 - as in Faust: the rebalance that stopped the flow seeks again
                self.log.warning("cannot go back to the committed offsets now: %s", type(error).__name__)
            return
        records = {}
        for place, found in parts.items():
            tp = TP(place.topic, place.partition)
            if (active is None or tp in active) and (mine := self._unread(tp, found)):
                records[tp] = mine
        if not records or parts.generation != int(self.app.consumer_generation_id):
            return
        message = FetchMessage(records, parts.generation, self._number(parts.generation))
        # Before the message is handed over: that may wait for a full buffer, and a rebalance meanwhile sets these
        # offsets back. Written afterwards, they would drop the records that are read again.
        for tp, mine in records.items():
            self._read_offset[tp] = mine[-1].offset
        yield message.tp, message

    def _number(self, generation: int) -> int:
        """The number of the next fetch of a generation."""
        known, given = self._given
        number = given if known == generation else 0
        self._given = generation, number + 1
        return number

    def _unread(self, tp: TP, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """The records that are not below the one that was read last; offsets rise within a part."""
        read = self._read_offset[tp]
        kept: list[Any] = []
        for part in parts:
            mine = part
            if read is not None and part[0].offset < read:
                mine = [record for record in part if record.offset >= read]
            if mine:
                read = mine[-1].offset
                kept += mine
        return kept


class _BatchTransport(driver.Transport):
    Consumer = BatchConsumer


class BatchApp(App):
    """A Faust application whose consumer is a `BatchConsumer`."""

    def _new_transport(self) -> Any:
        return _BatchTransport(self.conf.broker_consumer, self)
