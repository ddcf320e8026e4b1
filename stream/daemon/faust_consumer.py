"""Faust consumer that seeks uncommitted partitions to the start of the log, and requests that detect skipped offsets.

A rebalance discards the response of an open fetch and seeks back to the committed offsets. Faust 0.15 seeks only
partitions that have a committed offset: the first events of a partition, fetched before the first commit, were skipped
and later committed over, without a trace. Here such a partition is sought to its start.

What the group commits is what `acknowledge` was told, and nothing else. Faust commits what it counts itself, and where
a partition goes on at a later offset than it was read to it counts the offsets between as done. After three rebalances
within two seconds (a host that was cut off came back, a worker joined and left) a group had committed three events that
no delta had: the fold saw the gap, and nothing was released until somebody set the group back.

The flow of records stops at every rebalance. Faust stops it for members that had a partition; it clears the queues of
its streams when it resumes the flow. A member that had none (a standby, a worker that joins) may have fetched records
of its new partition by then: a standby that took over was handed the records before and behind one that was cleared
away, and told a gap. Ingest would have gone on without a word.

It reads committed records only. Faust does so for its own transactions alone, but a transaction that a source aborted
never happened, and all readers of the delta topic must see the same records.

Each message carries the leader epoch under which its record was written (in `checksum`, which no record with an epoch
has): it shows that a log lost its tail and gave the offsets again (`connectors.kafka.lineage`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import faust
from aiokafka import ConsumerRecord
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from connectors.kafka.lineage import leader_epochs
from connectors.kafka.source import Source
from stream.daemon.unreadable import unreadable_partitions

__all__ = ["ISOLATION", "TP", "App", "SeekingConsumer", "first_record", "leader_epoch"]

HOLE_SECONDS = 30.0
"""How long the broker may take to say where a partition goes on."""


ISOLATION = "read_committed"


class _Records:
    """The record batches of a fetch response, and the leader epoch of the one that was given last: aiokafka reads the
    field over.

    A broker always sends one whole batch, however large. Where the bytes hold none, the length in its head is damaged.
    aiokafka would take the batch for one that is too large, skip an offset, and raise.
    """

    def __init__(self, data: bytes) -> None:
        self._batches = MemoryRecords(data)
        self._epochs = leader_epochs(data)
        self._damaged = bool(data) and not self._batches.has_next()
        self.epoch = -1

    def has_next(self) -> bool:
        return self._damaged or bool(self._batches.has_next())

    def size_in_bytes(self) -> int:
        return int(self._batches.size_in_bytes())

    def next_batch(self) -> Any:
        if self._damaged:
            raise CorruptRecordException("the length of the batch is damaged")
        self.epoch = next(self._epochs, -1)
        return self._batches.next_batch()


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # the library has no types
    def __next__(self) -> Any:
        """The next record. At a batch that cannot be decoded the fetch ends behind the last record before it, and the
        partition stops. Were the error raised, the client would lose what it took of the other partitions."""
        try:
            return super().__next__()
        except StopIteration:
            raise
        except Exception as error:  # noqa: BLE001 - each codec has errors of its own
            unreadable_partitions.stop(TP(*self._tp), self.next_fetch_offset, error)
            raise StopIteration from None

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        """As the client makes it, for bytes that nobody deserializes: one call for each record."""
        key, value = record.key, record.value
        return ConsumerRecord(
            tp.topic,
            tp.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            key,
            value,
            self._records.epoch,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            tuple(record.headers),
        )


fetcher.MemoryRecords = _Records
fetcher.PartitionRecords = _PartitionRecords


def leader_epoch(message: Any) -> int:
    """Leader epoch of a consumed message; -1 where its record has none."""
    epoch = getattr(message, "checksum", None)
    return -1 if epoch is None else int(epoch)


def _last_answer(consumer: Any, place: Any) -> Any:
    """When the broker answered a fetch of this partition last, ms; None before the first answer."""
    return consumer.last_poll_timestamp(place)


class SeekingThread(driver.AIOKafkaConsumerThread):
    """The thread of Faust's consumer, with a client that reads committed records only."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tries: dict[TP, Any] = {}
        """Stopped partition that is tried again -> the broker's last answer before the try."""

    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> Any:
        consumer = super()._create_consumer(loop)
        consumer._isolation_level = ISOLATION  # taken at its start; Faust has no setting for it
        return consumer

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        """Fetch as Faust does, without the partitions that have stopped until they are due to be tried again."""
        assigned = {TP(*place): place for place in consumer.assignment()}
        due = [tp for tp in unreadable_partitions.due() if tp in assigned]
        # A try has its answer where the broker has sent something since; it is looked at below.
        answered = [tp for tp in due if tp in self._tries and self._tries[tp] != _last_answer(consumer, assigned[tp])]
        for tp in due:
            self._tries.setdefault(tp, _last_answer(consumer, assigned[tp]))
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
    """Faust's consumer; a partition that its group never committed is sought back to its begin like any other, and
    the group commits what it is told by `acknowledge`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._behind: dict[TP, tuple[int, int]] = {}
        """Generation, and the offset at which the group goes on."""

    def acknowledge(self, messages: Iterable[Any]) -> None:
        """The group goes on behind these messages, those of a partition in order. Messages of an earlier generation
        count for nothing: their partition is read again from where the group was."""
        for message in messages:
            message.acked = True
            self._unacked_messages.discard(message)
            if message.generation_id == self.app.consumer_generation_id:
                self._behind[message.tp] = (message.generation_id, message.offset + 1)

    def ack(self, message: Any) -> bool:
        """What Faust acknowledges by itself is not committed."""
        return False

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop the flow first; the end of the rebalance resumes it. Called at every rebalance, also with nothing to
        revoke."""
        self.stop_flow()
        self.app.flow_control.suspend()
        unreadable_partitions.clear()
        await super().on_partitions_revoked(revoked)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Our own progress check looks; Faust's asks for a position that a partition being sought has not."""

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Offsets that no fetch brought are not done."""

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in list(self._behind) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        generation, offset = self._behind.get(tp, (None, None))
        return offset if generation == self.app.consumer_generation_id else None

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return SeekingThread(self, loop=self.loop, beacon=self.beacon)

    async def committed(self, tp: TP) -> int | None:
        """Return the committed position of the group; None if it never committed one."""
        offset: int | None = await self._thread.call_thread(self._ask_committed, tp)
        return offset

    async def _ask_committed(self, tp: TP) -> int | None:
        """Ask the client, in its thread."""
        offset: int | None = await self._thread._ensure_consumer().committed(tp)
        return offset

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Every assigned partition to where its group is; the committed offsets, None where there is none."""
        offsets: Mapping[TP, int] = await self._thread.call_thread(self._seek_back)
        return offsets

    async def _seek_back(self) -> Mapping[TP, int]:
        """In the consumer's thread. Offset 0 that retention has taken becomes the begin by the reset policy."""
        consumer = self._thread._ensure_consumer()
        offsets: Mapping[TP, int] = await consumer.seek_to_committed()
        for partition, offset in offsets.items():
            if not offset:
                consumer.seek(partition, 0)
        return offsets


class _SeekingTransport(driver.Transport):
    Consumer = SeekingConsumer


class App(faust.App):
    """A Faust application that uses `SeekingConsumer`."""

    def _new_transport(self) -> Any:
        return _SeekingTransport(self.conf.broker_consumer, self)


def first_record(source: Source, partition: TP, offset: int, until: int) -> int:
    """Offset of the first record at or behind `offset`, `until` where there is none before that. Asks the broker by a
    consumer without a group; TimeoutError where it does not tell. Compaction and transactions leave holes in a log;
    a worker that was given a later offset than this has skipped events.
    """
    place = TopicPartition(partition.topic, partition.partition)
    told = f"{partition.topic}/{partition.partition}: cannot be read at offset {offset}"
    try:
        with _without_group(source) as consumer:
            consumer.assign([place])
            consumer.seek(place, offset)
            deadline = time.monotonic() + HOLE_SECONDS
            while consumer.position(place) < until:
                for records in consumer.poll(timeout_ms=200, max_records=1).values():
                    for record in records:
                        return min(int(record.offset), until)
                if time.monotonic() > deadline:
                    raise TimeoutError(told)
            return until
    except KafkaError as error:
        raise TimeoutError(told) from error


@contextmanager
def _without_group(source: Source) -> Iterator[Any]:
    """A consumer that only asks and reads: no group, no commits."""
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
