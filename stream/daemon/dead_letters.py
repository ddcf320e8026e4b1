"""Dead letters: the records that could not be read, listed and sent again once their cause is gone.

A letter names the place of its record in the source topic. `replay_letters` reads the record there, and sends the same
bytes to the same partition, where the ingest workers read it like any new record. Each record goes together with a note
in the dlq, in one transaction, so a second `replay_letters` does not send it again, and neither does one after a crash.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from connectors.kafka import topics
from connectors.kafka.faults import explained
from connectors.kafka.producing import producer
from connectors.kafka.source import Source
from models.errors import InputError
from stream.daemon.partition_reader import PATIENCE_SECONDS, PartitionReader
from stream.fold.records import VERSION

LATE = "late"
"""Reason of an event that could be read and came too late. Sent again it would be late again."""

HEADER = "veilstream-replayed"
"""Header of a record that was sent again: the place of the first one, as topic/partition/offset."""

BATCH = 500
"""Records of one transaction."""

TRANSACTION_MS = 60_000
"""A transaction that a crash left open ends after this time, or when the next replay begins."""


class SourcePlace(NamedTuple):
    """Place of a record in a source topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """Return topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class _LetterBody(msgspec.Struct, omit_defaults=True):
    """A record of the dlq: a letter with its reason (`error`), or a note that its record was sent again."""

    v: int
    src: str
    p: int
    offset: int
    error: str = ""
    payload: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that could not be read.

    Attributes
    ----------
    place
        Place of the record.
    reason
        Class of the problem (docs/sources.md).
    at
        Unix time, in seconds, at which the letter was written.
    payload
        Bytes of the record, if the daemon keeps them.
    replayed
        Whether the record was sent again.
    """

    place: SourcePlace
    reason: str
    at: float
    payload: bytes | None = field(default=None, repr=False)
    replayed: bool = False


def read_letters(process: str, source: Source) -> list[Letter]:
    """Read all letters that the dlq of a process still has, each record once, in the order of the topic.

    Raises
    ------
    InputError
        If the topic is missing, or holds a record that is not a letter.
    UnavailableError
        If no broker answers.
    """
    name = topics.topic(process, "dlq")
    topics.require(source, [name])
    letters: dict[SourcePlace, Letter] = {}
    replayed: set[SourcePlace] = set()
    with explained(source), closing(PartitionReader(name, 0, source)) as reader:
        for record in reader.records(reader.begin(), reader.end()):
            try:
                body = msgspec.json.decode(record.value or b"", type=_LetterBody)
            except msgspec.DecodeError:
                raise InputError(f"{name}: the record at offset {record.offset} is not a dead letter") from None
            place = SourcePlace(body.src, body.p, body.offset)
            if body.replayed:
                replayed.add(place)
                continue
            payload = base64.b64decode(body.payload) if body.payload else None
            # A crash of ingest repeats letters: the first one counts.
            letters.setdefault(place, Letter(place, body.error, record.timestamp / 1000, payload))
    return [
        Letter(letter.place, letter.reason, letter.at, letter.payload, place in replayed)
        for place, letter in letters.items()
    ]


def count_by_reason(letters: Iterable[Letter]) -> Mapping[str, int]:
    """Return the number of letters of each reason, most frequent first."""
    return dict(Counter(letter.reason for letter in letters).most_common())


def replay_letters(
    process: str,
    source: Source,
    letters: Sequence[Letter],
    reasons: Collection[str],
) -> tuple[int, int]:
    """Send the records of letters to their source topic again.

    Parameters
    ----------
    process, source
        Name of the process, and the configuration of its source.
    letters
        The letters of the dlq (`read_letters`).
    reasons
        Reasons whose cause is gone. Letters of other reasons, and records that were sent again before, are left alone.

    Returns
    -------
    sent
        Records that were sent again.
    gone
        Records that the source topic no longer has, and whose bytes the dlq does not keep.

    Raises
    ------
    InputError
        If no letter has one of the reasons, or a reason is `late`.
    UnavailableError
        If no broker answers.
    """
    _check_reasons(letters, reasons)
    chosen = [letter for letter in letters if letter.reason in reasons and not letter.replayed]
    chosen.sort(key=lambda letter: letter.place)
    dlq = topics.topic(process, "dlq")
    sent = 0
    transactional = {"transactional_id": dlq, "transaction_timeout_ms": TRANSACTION_MS}
    with explained(source), closing(_SourceReader(source)) as reader, producer(source, **transactional) as client:
        client.init_transactions()
        for start in range(0, len(chosen), BATCH):
            sent += _send_batch(client, dlq, reader, chosen[start : start + BATCH])
    return sent, len(chosen) - sent


def _check_reasons(letters: Sequence[Letter], reasons: Collection[str]) -> None:
    """Refuse reasons that no letter has, and `late`."""
    if LATE in reasons:
        raise InputError(
            "late: these events could be read, and came after their window; sent again they would be late again. "
            "Choose a longer lateness of the window (docs/runbooks/VeilstreamDeadLetters.md)"
        )
    counts = count_by_reason(letters)
    unknown = sorted(set(reasons) - counts.keys())
    if unknown:
        present = ", ".join(counts) or "none"
        raise InputError(f"no dead letter has the reason {unknown[0]!r}; reasons in the dlq: {present}")


def _send_batch(client: Any, dlq: str, reader: _SourceReader, letters: Sequence[Letter]) -> int:
    """Send the records of some letters and their notes in one transaction; return how many records there were."""
    records = []
    for letter in letters:
        record = reader.read(letter.place)
        if record is not None:
            records.append((letter.place, record.key, record.value, tuple(record.headers or ())))
        elif letter.payload is not None:
            records.append((letter.place, None, letter.payload, ()))
    if not records:
        return 0
    client.begin_transaction()
    try:
        futures = []
        for place, key, value, headers in records:
            marked = [*headers, (HEADER, str(place).encode())]
            futures.append(client.send(place.topic, value, key=key, headers=marked, partition=place.partition))
            note = _LetterBody(VERSION, *place, replayed=True)
            futures.append(client.send(dlq, msgspec.json.encode(note), partition=0))
        for future in futures:
            future.get(timeout=PATIENCE_SECONDS)
    except BaseException:
        client.abort_transaction()
        raise
    client.commit_transaction()
    return len(records)


class _SourceReader:
    """Reads records of source topics by their place, with one consumer for each partition."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._readers: dict[tuple[str, int], tuple[PartitionReader, int, int]] = {}

    def close(self) -> None:
        """Close the connections."""
        for reader, _, _ in self._readers.values():
            reader.close()

    def read(self, place: SourcePlace) -> Any:
        """Return the record at a place; None if the topic no longer has it."""
        reader, begin, end = self._partition(place)
        if not begin <= place.offset < end:
            return None
        record = next(reader.records(place.offset, end), None)
        # Compaction removes records from the middle of a topic: the next one comes in its place.
        if record is not None and record.offset == place.offset:
            return record
        return None

    def _partition(self, place: SourcePlace) -> tuple[PartitionReader, int, int]:
        """Return the reader of a partition, its first offset and the one behind its last record."""
        partition = (place.topic, place.partition)
        if partition not in self._readers:
            reader = PartitionReader(*partition, self._source)
            self._readers[partition] = (reader, reader.begin(), reader.end())
        return self._readers[partition]
