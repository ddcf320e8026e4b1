"""Read one partition of a topic without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from connectors.kafka.faults import NOT_ALLOWED, forbidden, undecodable
from connectors.kafka.source import Source
from models.errors import RefusedError, UnavailableError, VeilstreamError
from stream.daemon.aiokafka_records import ISOLATION

PATIENCE_SECONDS = 60.0
"""Longest wait for a record in a read before the end of the topic. After it the broker counts as away, and the process
ends, to be started again."""


def poll_records(consumer: Any, partition: Any) -> Any:
    """Poll a kafka-python consumer of one partition.

    Raises
    ------
    RefusedError
        If the next record batch cannot be decoded: a restart would only read it again.
    VeilstreamError
        If the broker does not let us read the topic.
    """
    try:
        return consumer.poll(timeout_ms=200)
    except Exception as error:
        if forbidden(error):
            raise VeilstreamError(f"topic {partition.topic}: cannot be read: {NOT_ALLOWED}") from None
        if not undecodable(error):
            raise
        raise RefusedError(
            f"{partition.topic}: the record batch at offset {consumer.position(partition)} cannot be decoded "
            f"({type(error).__name__}); see docs/runbooks/VeilstreamUnreadableBatch.md"
        ) from None


class PartitionReader:
    """A consumer without a group on one partition.

    Parameters
    ----------
    name, number
        Topic and number of the partition.
    source
        Configuration of the broker.
    """

    def __init__(self, name: str, number: int, source: Source) -> None:
        from kafka import TopicPartition

        self._source = source
        self._partition = TopicPartition(name, number)
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
        """Return the first offset that the topic still has."""
        return int(self._open().beginning_offsets([self._partition])[self._partition])

    def end(self) -> int:
        """Return the offset behind the last record."""
        return int(self._open().end_offsets([self._partition])[self._partition])

    def records(self, first: int, until: int) -> Iterator[Any]:
        """Yield the client's records from `first` up to `until` (exclusive), in order."""
        consumer = self._open()
        consumer.seek(self._partition, first)
        last_answer = time.monotonic()
        while consumer.position(self._partition) < until:
            for records in poll_records(consumer, self._partition).values():
                last_answer = time.monotonic()
                for record in records:
                    if record.offset >= until:
                        return
                    yield record
            if time.monotonic() - last_answer > PATIENCE_SECONDS:
                raise UnavailableError(f"{self._partition.topic}: cannot be read up to offset {until}")

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer = None
