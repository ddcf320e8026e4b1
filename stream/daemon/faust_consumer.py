"""Faust's consumer with safe seeks and commits, and whole fetches as messages.

This is the one file that uses inner names of Faust (docs/dependencies.md). Group membership, generations, heartbeats
and flow control are Faust's. These parts differ (decisions 011, 017 and 023):

* **Seeks.** A rebalance discards the response of an open fetch and seeks back to the committed offsets. Faust 0.15
  seeks only partitions that have one. The first events of a partition, fetched before its first commit, were skipped
  and later committed over, without a trace. Here such a partition is sought to its start.
* **Commits.** The group commits what `acknowledge` received, and nothing else. Faust commits what it counts itself, and
  counts offsets between two fetches as done. After three rebalances within two seconds a group had committed three
  events that no delta had.
* **Flow.** The flow of records stops at every rebalance. Faust stops it for members that had a partition, and clears
  the queues of its streams when it resumes. A member that had none (a standby, a worker that joins) could have fetched
  records of its new partition by then: a standby that took over was handed the records before and behind one that was
  cleared away.
* **Messages.** With `FetchConsumer`, a fetch of the client passes through Faust as one message. Faust makes a message,
  an event, some tasks and two futures of each record, which cost ten times the work of ingest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from connectors.kafka.source import Source
from stream.daemon.aiokafka_records import ISOLATION, configure_reader, leader_epoch
from stream.daemon.unreadable import unreadable_partitions

__all__ = ["ISOLATION", "TP", "FetchMessage", "FetchTransport", "SeekingTransport", "first_record", "leader_epoch"]

HOLE_SECONDS = 30.0
"""Longest wait for the broker's answer about the next offset of a partition."""

TAKE = 500
"""Records of a fetch below which more are waited for: each message pays a round trip of acknowledgements."""

WITHIN = 0.25
"""Seconds that a smaller fetch waits: the price of latency if traffic is low."""

MOST = 2000
"""Records of one message at most. More would hold more unacknowledged events and block the event loop for longer; less
would pay more round trips an event."""

WAITING = 2
"""Messages that may wait in a stream's buffer; the client holds the others back."""

Records = Mapping[TP, Sequence[Any]]
"""Records of a fetch as the client gives them, by partition: `offset`, `timestamp` (ms), `timestamp_type`, `headers`,
`value`, and the leader epoch in `checksum`."""


class FetchMessage(ConsumerMessage):
    """A fetch as a message of Faust. Its coordinates are those of the last record of its first partition.

    Parameters
    ----------
    records
        The records of the fetch, by partition; at least one.
    generation
        The generation of the group in which the fetch was made.
    number
        Its place among the fetches of its generation, from 0. The receiver sees by it that a fetch was lost on the way
        through Faust; a later one would hide that, since the group continues behind what is acknowledged. None: not
        counted.
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


class SeekingThread(driver.AIOKafkaConsumerThread):
    """The thread of a `SeekingConsumer`, with a client that reads committed records only."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tries: dict[TP, Any] = {}
        """Stopped partition that is tried again -> the broker's last answer before the try."""

    async def committed(self, tp: TP) -> int | None:
        """Return the committed position of the group; None if it never committed one."""
        offset: int | None = await self.call_thread(self._ask_committed, tp)
        return offset

    async def _ask_committed(self, tp: TP) -> int | None:
        offset: int | None = await self._ensure_consumer().committed(tp)
        return offset

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek every assigned partition to the position of its group, or to its start.

        Returns
        -------
        Mapping[TP, int]
            The committed offsets; None for a partition without one.
        """
        offsets: Mapping[TP, int] = await self.call_thread(self._seek_back)
        return offsets

    async def _seek_back(self) -> Mapping[TP, int]:
        consumer = self._ensure_consumer()
        offsets: Mapping[TP, int] = await consumer.seek_to_committed()
        for partition, offset in offsets.items():
            if not offset:
                consumer.seek(partition, 0)  # an offset that retention has taken becomes the begin of the log
        return offsets

    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> Any:
        consumer = super()._create_consumer(loop)
        transport: Any = self.transport  # a `SeekingTransport`
        configure_reader(consumer, transport.reading)
        return consumer

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: Any,
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Any:
        """Fetch as Faust does, without the partitions that have stopped until they are due to be tried again."""
        assigned = {TP(*place): place for place in consumer.assignment()}
        due = [tp for tp in unreadable_partitions.due() if tp in assigned]
        # A try is answered once the broker has sent something since; the answer is examined below.
        answered = []
        for tp in due:
            last_answer = consumer.last_poll_timestamp(assigned[tp])
            if tp in self._tries and self._tries[tp] != last_answer:
                answered.append(tp)
            self._tries.setdefault(tp, last_answer)
            consumer.resume(assigned[tp])
        fetched = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        for place, records in fetched.items():
            unreadable_partitions.read(TP(*place), records[-1].offset)
        assigned = {TP(*place): place for place in consumer.assignment()}
        waiting = unreadable_partitions.partitions - set(unreadable_partitions.due())
        for tp in assigned.keys() & unreadable_partitions.partitions:
            if tp in waiting:  # it has failed, now or within the last seconds
                self._tries.pop(tp, None)
                consumer.pause(assigned[tp])
            elif tp in answered:
                unreadable_partitions.recovered(tp)
        return fetched


class SeekingConsumer(driver.Consumer):
    """Faust's consumer with safe seeks and commits."""

    _thread: SeekingThread

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._acknowledged: dict[TP, tuple[int, int]] = {}
        """Generation, and the offset at which the group continues."""
        self._committed: dict[TP, int] = {}
        """The highest offset that this process committed."""

    @property
    def thread_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the consumer's thread."""
        return self._thread.thread_loop

    def acknowledge(self, messages: Iterable[Any]) -> None:
        """Let the group continue behind these messages.

        Messages of an earlier generation have no effect: their partition is read again from the position of the group.

        Parameters
        ----------
        messages
            Messages; those of one partition in order.
        """
        for message in messages:
            self._forget(message)
            if message.generation_id == self.app.consumer_generation_id:
                self._acknowledged[message.tp] = (message.generation_id, message.offset + 1)

    def _forget(self, message: Any) -> None:
        """Remove a message from those that Faust waits for."""
        message.acked = True
        self.unacked.discard(message)

    def ack(self, message: Any) -> bool:
        """Commit no offset that Faust acknowledges automatically."""
        return False

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit what was acknowledged in this generation, and was not committed before."""
        offsets = {}
        for tp, (generation, offset) in self._acknowledged.items():
            is_selected = topics is None or tp in topics or tp.topic in topics
            current = generation == self.app.consumer_generation_id
            if is_selected and current and tp in self.assignment() and offset > self._committed.get(tp, 0):
                offsets[tp] = offset
        if not offsets:
            return False
        committed = await self._thread.commit(offsets)
        if committed:
            self._committed.update(offsets)
        return committed

    async def committed(self, tp: TP) -> int | None:
        """Return the committed position of the group; None if it never committed one."""
        return await self._thread.committed(tp)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop the flow first; the end of the rebalance resumes it.

        Faust calls this at every rebalance, also if there is nothing to revoke.
        """
        self.stop_flow()
        self.app.flow_control.suspend()
        unreadable_partitions.clear()
        await super().on_partitions_revoked(revoked)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Check nothing: Faust's check asks for a position that a partition being sought does not have.

        The progress check of the process does this work.
        """

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Count nothing as done that no fetch brought; Faust would keep each gap in memory."""

    def _new_consumer_thread(self) -> SeekingThread:
        return SeekingThread(self, loop=self.loop, beacon=self.beacon)


class _Parts(dict[Any, list[Any]]):
    """Records of several fetches by partition, in the parts in which they came, and their generation."""

    def __init__(self, generation: int, fetched: Mapping[Any, Any]) -> None:
        super().__init__()
        self.generation, self.count = generation, 0
        self.add(fetched)

    def add(self, fetched: Mapping[Any, Any]) -> None:
        for tp, part in fetched.items():
            self.setdefault(tp, []).append(part)
            self.count += len(part)


class _FetchThread(SeekingThread):
    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: Any,
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> _Parts:
        """Return at least `TAKE` records, or what came `WITHIN` seconds of the first.

        Records of an earlier generation are dropped: their partitions go back to the position of the group.
        """
        parts = _Parts(self._current_generation(), {})
        deadline = float("inf")
        while True:
            fetched = await super()._fetch_records(consumer, active_partitions, timeout, MOST - parts.count)
            if self._current_generation() != parts.generation:
                parts = _Parts(self._current_generation(), {})
            parts.add(fetched)
            deadline = min(deadline, time.monotonic() + WITHIN)
            timeout = deadline - time.monotonic()
            if not fetched or parts.count >= TAKE or timeout <= 0 or not self.consumer.flow_active:
                return parts

    def _current_generation(self) -> int:
        return int(self.app.consumer_generation_id)


class FetchConsumer(SeekingConsumer):
    """A consumer whose messages are whole fetches (`FetchMessage`)."""

    _thread: _FetchThread

    _last_number: tuple[int, int] = (-1, -1)
    """A generation, and the number of the last fetch that was handed over in it."""

    def _new_consumer_thread(self) -> _FetchThread:
        return _FetchThread(self, loop=self.loop, beacon=self.beacon)

    def acknowledge(self, messages: Iterable[FetchMessage]) -> None:
        """Let the group continue behind all records of these fetches.

        Fetches of an earlier generation have no effect.
        """
        for message in messages:
            self._forget(message)
            if message.generation_id == self.app.consumer_generation_id:
                for tp, records in message.records.items():
                    self._acknowledged[tp] = (message.generation_id, records[-1].offset + 1)

    def on_buffer_full(self, tp: TP) -> None:
        """Let the buffer of the stream make the fetcher wait.

        Faust would stop fetching the partition, and sleep a second if none is left.
        """

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing, as in `on_buffer_full`."""

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, FetchMessage]]:
        """Yield the next fetch as a message, if there is one.

        As in Faust, if the flow was stopped meanwhile, everything goes back to the committed offsets, and a record
        below what was read is dropped. A fetch of an earlier generation is dropped: its partitions have gone back.
        """
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
        for place, tp_parts in parts.items():
            tp = TP(place.topic, place.partition)
            if active is None or tp in active:
                unread = self._unread(tp, tp_parts)
                if unread:
                    records[tp] = unread
        if not records or parts.generation != int(self.app.consumer_generation_id):
            return
        message = FetchMessage(records, parts.generation, self._next_number(parts.generation))
        # Before the message is handed over: that may wait for a full buffer, and a rebalance meanwhile sets these
        # offsets back. Written afterwards, they would drop the records that are read again.
        for tp, tp_records in records.items():
            self._read_offset[tp] = tp_records[-1].offset
        yield message.tp, message

    def _next_number(self, generation: int) -> int:
        """Return the number of the next fetch of a generation."""
        last_generation, last_number = self._last_number
        number = last_number + 1 if last_generation == generation else 0
        self._last_number = generation, number
        return number

    def _unread(self, tp: TP, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the records that are not below the one that was read last; offsets rise within a part."""
        last_read = self._read_offset[tp]
        unread: list[Any] = []
        for part in parts:
            records = part
            if last_read is not None and part[0].offset < last_read:
                records = [record for record in part if record.offset >= last_read]
            if records:
                last_read = records[-1].offset
                unread += records
        return unread


class SeekingTransport(driver.Transport):
    """A transport with a `SeekingConsumer`: messages are single records."""

    Consumer = SeekingConsumer

    reading: Mapping[str, Any] = {}
    """Properties of the client that reads (`ClientProperties.reading`)."""


class FetchTransport(SeekingTransport):
    """A transport with a `FetchConsumer`: messages are whole fetches."""

    Consumer = FetchConsumer


def first_record(source: Source, partition: TP, offset: int, until: int) -> int:
    """Return the offset of the first record at or behind `offset`, as a consumer without a group sees it.

    Compaction and transactions leave holes in a log; a worker that was given a later offset than this has skipped
    events.

    Parameters
    ----------
    source
        Configuration of the broker.
    partition
        Topic and partition to read.
    offset
        First offset to look at.
    until
        Returned if there is no record before it.

    Raises
    ------
    TimeoutError
        If the broker does not answer in time.
    """
    place = TopicPartition(partition.topic, partition.partition)
    unanswered = f"{partition.topic}/{partition.partition}: cannot be read at offset {offset}"
    try:
        with _consumer_without_group(source) as consumer:
            consumer.assign([place])
            consumer.seek(place, offset)
            deadline = time.monotonic() + HOLE_SECONDS
            while consumer.position(place) < until:
                for records in consumer.poll(timeout_ms=200, max_records=1).values():
                    for record in records:
                        return min(int(record.offset), until)
                if time.monotonic() > deadline:
                    raise TimeoutError(unanswered)
            return until
    except KafkaError as error:
        raise TimeoutError(unanswered) from error


@contextmanager
def _consumer_without_group(source: Source) -> Iterator[Any]:
    """Open a consumer that only asks and reads: no group, no commits."""
    consumer = KafkaConsumer(
        bootstrap_servers=source.servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=ISOLATION,
        **source.security.kafka_python(),
    )
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False)
