"""The status of a coordinator on a compacted topic, which a person reads from any host (decision 101).

The topic keeps two records: the last status, and the last start. A start does not replace the status of the coordinator
before it, so a reader has figures from the first second, with their age. Records hold positions, counts, release
numbers and names of the configuration; no case, activity or attribute.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version

import msgspec

from connectors.kafka import topics
from connectors.kafka.faults import explained
from connectors.kafka.producing import producer
from connectors.kafka.source import Source
from models.errors import VeilstreamError
from stream.daemon.partition_reader import PartitionReader
from stream.daemon.status import Status

log = logging.getLogger("veilstream")

LEAST_SECONDS = 1.0
"""Shortest time between two statuses on the topic. A coordinator makes ten a second while events come."""

BLOCK_MS = 5000
"""Longest wait of the producer for a broker that is away. Its thread must end with the process."""

CLOSE_SECONDS = 10.0
"""Longest wait for the last status at a stop."""

TAIL_RECORDS = 200
"""Records from the end that are read. A start that is older than so many statuses is older than the last of them."""

STATUS_KEY, START_KEY = b"status", b"start"

STATUS_NAME = re.compile(r"veilstream\.(.+)\.status")


class CoordinatorStart(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator that has received the partition and opens its state.

    Attributes
    ----------
    at
        Time of the record, in seconds since 1970.
    ended_by
        Why it ended before its state was open; empty if it has not.
    """

    at: float
    pid: int
    host: str
    version: str
    ended_by: str = ""


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """The records of a status topic. Before the first coordinator of this program starts, it has none.

    Attributes
    ----------
    status, stamped
        The last status, and when the broker received it (seconds since 1970).
    start
        The last start, if it is later than the status: its coordinator still opens its state, or has ended meanwhile.
    """

    status: Status | None
    stamped: float
    start: CoordinatorStart | None


class StatusTopic:
    """Writes statuses to the topic from a thread of its own: neither a fold nor a build waits for it.

    It is not part of the ledger's transactions. A former coordinator that was paused may write one status more, until
    it notices that it was replaced; the status names its host and process.

    Parameters
    ----------
    process
        Name of the process.
    source
        Configuration of the broker.
    """

    def __init__(self, process: str, source: Source) -> None:
        self._name, self._source = topics.topic(process, "status"), source
        self._records: dict[bytes, bytes] = {}
        """Records that were not sent yet, by key. A later one replaces an earlier one."""
        self._lock = threading.Lock()
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._logged = False
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="status topic", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Write that a coordinator opens its state."""
        self._put_start("")

    def failed(self, ended_by: str) -> None:
        """Write that the coordinator ends, and its state was never open: it has no status to write this in.

        Parameters
        ----------
        ended_by
            Text of its error, as in the log.
        """
        self._put_start(ended_by)

    def _put_start(self, ended_by: str) -> None:
        start = CoordinatorStart(
            at=time.time(),
            pid=os.getpid(),
            host=socket.gethostname(),
            version=version("veilstream"),
            ended_by=ended_by,
        )
        self._put(START_KEY, msgspec.json.encode(start))

    def write(self, status: Status) -> None:
        """Write a status, at the next moment at which one is due."""
        self._put(STATUS_KEY, msgspec.json.encode(status))

    def _put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            self._records[key] = value
        self._changed.set()

    def close(self) -> None:
        """Write what was not written, and end the thread, if the broker answers in time."""
        self._stopping.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            try:
                with explained(self._source), producer(self._source, max_block_ms=BLOCK_MS) as client:
                    self._send_until_stopped(client.send)
                return
            except VeilstreamError as error:
                if not self._logged:
                    log.warning("%s: the status cannot be written (%s); releases continue", self._name, error)
                self._logged = True
            if self._stopping.wait(self._source.heartbeat):
                return

    def _send_until_stopped(self, send: Callable[..., object]) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            with self._lock:
                records, self._records = self._records, {}
            for key, value in records.items():
                future = send(self._name, value, key=key)
                future.get(timeout=BLOCK_MS / 1000)  # type: ignore[attr-defined]
                self._logged = False
            if self._stopping.wait(LEAST_SECONDS) and not self._records:
                return


def status_processes(source: Source) -> list[str]:
    """Return the processes whose status topics the broker shows us.

    Raises
    ------
    VeilstreamError
        If no broker answers, or it refuses the credentials.
    """
    with topics.admin(source) as client:
        names = client.list_topics()
    return sorted(found[1] for name in names if (found := STATUS_NAME.fullmatch(name)))


def read_remote(process: str, source: Source) -> RemoteStatus:
    """Read the last status and the last start of a process.

    Parameters
    ----------
    process
        Name of the process.
    source
        Configuration of the broker.

    Raises
    ------
    InputError
        If the topic is missing.
    VeilstreamError
        If the broker does not let us read it, or does not answer.
    """
    name = topics.topic(process, "status")
    topics.require(source, [name])
    status, stamped, start, started = None, 0.0, None, 0.0
    with explained(source), closing(PartitionReader(name, 0, source)) as reader:
        for key, value, at in _tail(reader):
            if key == STATUS_KEY:
                status, stamped = msgspec.json.decode(value, type=Status), at
            elif key == START_KEY:
                start, started = msgspec.json.decode(value, type=CoordinatorStart), at
    is_opening = start is not None and (status is None or started > stamped)
    return RemoteStatus(status, stamped, start if is_opening else None)


def _tail(reader: PartitionReader) -> Iterator[tuple[bytes, bytes, float]]:
    """Yield key, value and broker's time of the last records."""
    end = reader.end()
    for record in reader.records(max(reader.begin(), end - TAIL_RECORDS), end):
        yield record.key or b"", record.value or b"null", record.timestamp / 1000
