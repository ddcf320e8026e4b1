"""The records of a fetch as aiokafka reads them, with leader epochs, and with a stop at a batch that cannot be decoded.

This is the one file that uses inner names of aiokafka (docs/dependencies.md). Importing it replaces two classes of the
client's fetcher, because the client makes its readers itself and has no parameter for them:

* A record carries the leader epoch under which it was written, in `checksum`, which no record with an epoch has. It
  shows that a log lost its tail and gave the offsets again (`connectors.kafka.lineage`). aiokafka skips the field.
* At a batch that cannot be decoded the fetch ends behind the last record before it, and the partition stops. aiokafka
  raises the error, and with it loses what it fetched from the other partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from connectors.kafka.lineage import leader_epochs
from stream.daemon.unreadable import unreadable_partitions

ISOLATION = "read_committed"
"""All readers of a topic must see the same records, and a transaction that a source aborted never happened."""


class EpochRecords:
    """The record batches of a fetch response, and the leader epoch of the last one that was returned.

    A broker always sends one whole batch, however large. If the bytes hold none, the length in its head is damaged.
    aiokafka would take it for a batch that is too large, skip an offset, and raise.
    """

    def __init__(self, data: bytes) -> None:
        self._batches = MemoryRecords(data)
        self._epochs = leader_epochs(data)
        self._damaged = bool(data) and not self._batches.has_next()
        self.epoch = -1

    def has_next(self) -> bool:
        """Return whether `next_batch` returns a batch or raises the error of a damaged one."""
        return self._damaged or bool(self._batches.has_next())

    def size_in_bytes(self) -> int:
        """Return the bytes of the response."""
        return int(self._batches.size_in_bytes())

    def next_batch(self) -> Any:
        """Return the next batch of records."""
        if self._damaged:
            raise CorruptRecordException("the length of the batch is damaged")
        self.epoch = next(self._epochs, -1)
        return self._batches.next_batch()


class StoppingPartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # the library has no types
    """The records of one partition in a fetch response."""

    def __next__(self) -> Any:
        """Return the next record; end before a batch that cannot be decoded, and stop the partition."""
        try:
            return super().__next__()
        except StopIteration:
            raise
        except Exception as error:  # noqa: BLE001 - each codec has errors of its own
            unreadable_partitions.stop((self._tp.topic, self._tp.partition), self.next_fetch_offset, error)
            raise StopIteration from None

    def _consumer_record(self, tp: TopicPartition, record: Any) -> ConsumerRecord:
        """Make a record as the client does, of bytes that are not deserialized. Called once for each record."""
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


fetcher.MemoryRecords = EpochRecords
fetcher.PartitionRecords = StoppingPartitionRecords


def configure_reader(consumer: Any, properties: Mapping[str, Any]) -> None:
    """Set isolation level and further properties of a client that has not started. Faust has no setting for them.

    Parameters
    ----------
    consumer
        The client, which reads these attributes when it starts.
    properties
        Its keyword arguments, as `ClientProperties.reading` returns them.
    """
    for name, value in properties.items():
        setattr(consumer, f"_{name}", value)
    consumer._isolation_level = ISOLATION


def leader_epoch(message: Any) -> int:
    """Return the leader epoch of a consumed message; -1 if its record has none."""
    epoch = getattr(message, "checksum", None)
    return -1 if epoch is None else int(epoch)
