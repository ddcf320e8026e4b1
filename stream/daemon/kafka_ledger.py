"""The ledger of the daemon: the topic is the truth, and SQLite is its copy, entry for entry.

* One transactional producer per process name. Opening the ledger fences the previous coordinator, even one that was
  only paused: it cannot charge, seal or publish any more.
* An append is committed, then read back. Of several entries with one key, the first in topic order is valid, and
  `append` returns it. Nothing is published before that.
* The copy stores how far the topic was read, and a digest of all records up to there. A topic that is shorter or
  different (a restored snapshot, another cluster) is refused, since it lacks charges and release numbers.
* At every start the copy is compared with the topic, entry by entry. If rows are missing or different (a damaged or
  edited file), the copy is rebuilt from the topic, and this is logged.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import RefusedError, TakenOverError, UnavailableError
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.partition_reader import poll_records
from stream.ledger.entries import Entry, key_of, read_entry, write_entry
from stream.ledger.sqlite import Kind, SqliteLedger, unreadable, unwritable

log = logging.getLogger("veilstream")

READ_SECONDS = 60.0
"""Longest wait until the broker returns a record that it acknowledged. After it the process ends."""

FENCED = "another coordinator has taken over this process: this one publishes nothing"

TRANSACTION_MS = 60_000
"""A transaction that a crash left open blocks readers for at most this long; a successor ends it at once."""


class TopicLedger(SqliteLedger):
    """`Ledger` over the topic `veilstream.<process>.ledger`. One thread uses it.

    Parameters
    ----------
    path
        The SQLite file of the copy.
    process
        Name of the process.
    source
        Configuration of the broker.
    clock
        Updated with the broker's time of each appended record.

    Raises
    ------
    RefusedError
        If the topic is not the one that the copy was read from, or has a record that is not an entry.
    """

    def __init__(self, path: Path, process: str, source: Source, clock: BrokerClock | None = None) -> None:
        from kafka import KafkaConsumer, TopicPartition

        super().__init__(path, process)
        self._clock = clock or BrokerClock()
        self._db.execute("CREATE TABLE IF NOT EXISTS topic(next INTEGER NOT NULL, digest BLOB NOT NULL)")
        self._partition = TopicPartition(topic(process, "ledger"), 0)
        # Offset up to which this process has read the topic, and the chained digest of these records.
        self._next, self._digest = 0, b""
        # The same two values as the copy had them when it was opened.
        self._copied_next, self._copied_digest = 0, b""
        # Valid entries, by key or offset, while the topic is read from its begin; None afterwards.
        self._read_entries: dict[str | int, Entry] | None = None
        self._fenced = self._failed = False
        self._producer = self._open_producer(process, source)
        self._consumer = KafkaConsumer(
            bootstrap_servers=source.servers,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            **source.security.kafka_python(),
        )
        self._consumer.assign([self._partition])
        try:
            self._catch_up()
        except sqlite3.Error as error:
            raise unreadable(path, error) from error

    @staticmethod
    def _open_producer(process: str, source: Source) -> Any:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=source.servers,
            transactional_id=f"veilstream.{process}.ledger",
            transaction_timeout_ms=TRANSACTION_MS,
            acks="all",
            max_request_size=1_048_576,
            **source.security.kafka_python(),
        )
        producer.init_transactions()
        return producer

    @property
    def next_offset(self) -> int:
        """The offset behind the last ledger record that was read."""
        return self._next

    def append(self, entry: Kind) -> Kind:
        """Commit an entry to the topic, and read it back.

        Returns
        -------
        Entry
            The valid entry: an earlier one with the same key, if there is one.

        Raises
        ------
        TakenOverError
            If another coordinator has fenced this one.
        """
        (offset,) = self.send([(self._partition.topic, None, write_entry(entry))])
        self._read_until(offset + 1)
        return self._valid_entry(entry)

    def send(self, records: Sequence[tuple[str, bytes | None, bytes]]) -> list[int]:
        """Send (topic, key, value) records as one transaction, and return their offsets.

        Raises
        ------
        TakenOverError
            If another coordinator has fenced this one.
        """
        from kafka import errors

        fences = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
        if self._fenced:
            raise TakenOverError(FENCED)
        try:
            self._begin()
            futures = []
            for name, key, value in records:
                futures.append(self._producer.send(name, value, key=key, partition=0))
            acknowledged = [future.get(timeout=READ_SECONDS) for future in futures]
            self._producer.commit_transaction()
        except fences:
            self._fenced = True
            raise TakenOverError(FENCED) from None
        except errors.KafkaError:
            self._abort(fences)
            raise
        self._failed = False
        if acknowledged:
            self._clock.set_by(max(record.timestamp for record in acknowledged))
        return [int(record.offset) for record in acknowledged]

    def _begin(self) -> None:
        """Begin a transaction.

        After a failed transaction the client may have to renew its epoch, which takes a round trip: until then it
        raises an error, and the loop tries again. If a successor has a newer epoch, the client is fenced.
        """
        from kafka import errors

        deadline = time.monotonic() + READ_SECONDS
        while True:
            try:
                self._producer.begin_transaction()
                return
            except (errors.ProducerFencedError, errors.InvalidProducerEpochError):
                raise
            except errors.KafkaError:
                if not self._failed or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _abort(self, fences: tuple[type[Exception], ...]) -> None:
        """Abort a failed transaction, so that the next one can begin.

        If the client is renewing its epoch, the renewal aborts it.
        """
        from kafka import errors

        self._failed = True
        try:
            self._producer.abort_transaction()
        except fences:
            self._fenced = True
        except errors.KafkaError as error:
            log.info("%s: a failed transaction was not aborted (%s)", self._partition.topic, type(error).__name__)

    def _valid_entry(self, entry: Kind) -> Kind:
        """Return the first entry in the topic with the key of `entry`."""
        key = key_of(entry)
        if key is None:
            return entry
        (body,) = self._db.execute("SELECT body FROM entries WHERE key = ?", (key,)).fetchone()
        return cast(Kind, read_entry(body))

    # the copy

    def _catch_up(self) -> None:
        """Read the topic from its begin, compare it with the copy, and copy the entries that are new."""
        row = self._db.execute("SELECT next, digest FROM topic").fetchone()
        if row is not None:
            self._copied_next, self._copied_digest = row
        elif super().count():
            raise RefusedError(f"{self.path}: this ledger was not made by a daemon: start with a folder of its own")
        begin = self._consumer.beginning_offsets([self._partition])[self._partition]
        end = self._consumer.end_offsets([self._partition])[self._partition]
        if begin > 0:
            raise RefusedError(f"{self._partition.topic}: its first {begin} records are gone; it must be kept forever")
        if end < self._copied_next:
            raise RefusedError(
                f"{self._partition.topic}: ends at {end}, this host has read {self._copied_next}: the topic is older "
                "than the ledger here; restore the topic"
            )
        self._consumer.seek(self._partition, 0)
        entries: dict[str | int, Entry] = {}
        self._read_entries = entries
        self._read_until(end)
        if self._next <= self._copied_next:
            # The topic has no record behind the copy, so `_take` has not compared the digests.
            self._check_same_topic()
        self._rebuild(list(entries.values()))
        self._read_entries = None  # from now on each record is copied when it is read

    def _rebuild(self, entries: list[Entry]) -> None:
        """Rewrite the copy from the topic if the two differ."""
        try:
            if list(super().entries()) == entries:
                return
        except msgspec.DecodeError:
            pass  # the copy has rows that are not entries
        log.error(
            "%s: differs from %s (%d entries instead of %d): it is rebuilt from the topic",
            *(self.path, self._partition.topic, self.count(), len(entries)),
        )
        self._view = None
        with _transaction(self._db):
            self._db.execute("DELETE FROM entries")
            for entry in entries:
                super().append(entry)

    def _check_same_topic(self) -> None:
        """Refuse a topic whose first records are not those that the copy was read from."""
        if self._digest != self._copied_digest:
            raise RefusedError(f"{self._partition.topic}: is not the topic that {self.path} is a copy of")

    def _read_until(self, offset: int) -> None:
        deadline = time.monotonic() + READ_SECONDS
        while self._consumer.position(self._partition) < offset:
            for records in poll_records(self._consumer, self._partition).values():
                for record in records:
                    self._take(record.offset, record.value)
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._partition.topic}: cannot be read up to offset {offset}")

    def _take(self, offset: int, value: bytes | None) -> None:
        """Add one record of the topic to the digest, and to the copy if it is new.

        RefusedError for a record that is not an entry: it could be a charge, and budgets are never guessed.
        """
        entry = self._entry(offset, value)
        value = value or b""
        is_copied = offset < self._copied_next
        is_first_new = not is_copied and self._next <= self._copied_next
        if is_first_new:
            # All records of the copy have been read now, and none is written before they are confirmed.
            self._check_same_topic()
        self._digest = hashlib.sha256(self._digest + value).digest()
        self._next = offset + 1
        if self._read_entries is not None:
            # Of several entries with one key, the first is valid.
            self._read_entries.setdefault(key_of(entry) or offset, entry)
        if is_copied:
            return
        try:
            # Entry and position in one transaction: after a crash the copy has both, or neither.
            with _transaction(self._db):
                super().append(entry)
                self._db.execute("DELETE FROM topic")
                self._db.execute("INSERT INTO topic VALUES(?, ?)", (self._next, self._digest))
        except sqlite3.Error as error:
            raise unwritable(self.path, error) from error

    def _entry(self, offset: int, value: bytes | None) -> Entry:
        try:
            return read_entry(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise RefusedError(
                f"{self._partition.topic}: the record at offset {offset} is not a ledger entry that this program can "
                "read; find out who wrote it, and restore the topic without it"
            ) from None

    def close(self) -> None:
        """Close the connections. An open transaction is not committed; the successor aborts it."""
        self._producer.close(timeout=1)
        self._consumer.close(autocommit=False)
        super().close()


class _transaction:  # noqa: N801 - a context manager
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("ROLLBACK" if kind else "COMMIT")
