"""Read the delta topic beside Faust, so that a host whose state is behind its group can catch up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from connectors.kafka.faults import undecodable
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import RefusedError, UnavailableError
from stream.daemon.faust_consumer import ISOLATION

PATIENCE_SECONDS = 60.0
"""Without a record for this long before the end: the broker is away, and the process ends to be started again."""


def poll_records(consumer: Any, partition: Any) -> Any:
    """Poll a kafka-python consumer of one partition. RefusedError where the next record batch cannot be decoded: a
    restart would only read it again."""
    try:
        return consumer.poll(timeout_ms=200)
    except Exception as error:
        if not undecodable(error):
            raise
        raise RefusedError(
            f"{partition.topic}: the record batch at offset {consumer.position(partition)} cannot be decoded "
            f"({type(error).__name__}); see docs/runbooks/VeilstreamUnreadableBatch.md"
        ) from None


class DeltaReader:
    """A consumer without a group on the one partition of the delta topic."""

    def __init__(self, process: str, source: Source) -> None:
        from kafka import TopicPartition

        self._source = source
        self._partition = TopicPartition(topic(process, "delta"), 0)
        self._consumer: Any = None

    def _open(self) -> Any:
        from kafka import KafkaConsumer

        if self._consumer is None:
            self._consumer = KafkaConsumer(
                bootstrap_servers=self._source.servers,
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=8 * 1024 * 1024,
                isolation_level=ISOLATION,
                **self._source.security.kafka_python(),
            )
            self._consumer.assign([self._partition])
        return self._consumer

    def begin(self) -> int:
        """First offset that the topic still has."""
        return int(self._open().beginning_offsets([self._partition])[self._partition])

    def end(self) -> int:
        """Offset behind the last record."""
        return int(self._open().end_offsets([self._partition])[self._partition])

    def read(self, first: int, until: int) -> Iterator[tuple[int, bytes | None, int]]:
        """(offset, value, leader epoch) of the records from `first` up to `until` (exclusive), in order."""
        consumer = self._open()
        consumer.seek(self._partition, first)
        heard = time.monotonic()
        while consumer.position(self._partition) < until:
            for records in poll_records(consumer, self._partition).values():
                heard = time.monotonic()
                for record in records:
                    if record.offset >= until:
                        return
                    yield record.offset, record.value, int(record.leader_epoch)
            if time.monotonic() - heard > PATIENCE_SECONDS:
                raise UnavailableError(f"{self._partition.topic}: cannot be read up to offset {until}")

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer = None


class _Subject(msgspec.Struct):
    """The source partition that a record is about; ticks, commands and configurations have none."""

    src: str | None = None
    p: int | None = None


def seen_in_delta_topic(process: str, source: Source, topic: str, number: int) -> bool:
    """Whether a record of the delta topic is about a source partition, now or in a part that the topic no longer has:
    its later events were then promised to the fold. UnavailableError where the topic cannot be read."""
    subject = msgspec.json.Decoder(_Subject)
    reader = DeltaReader(process, source)
    try:
        if reader.begin() > 0:
            return True
        found = (subject.decode(value or b"{}") for _, value, _ in reader.read(0, reader.end()))
        return any((one.src, one.p) == (topic, number) for one in found)
    finally:
        reader.close()
