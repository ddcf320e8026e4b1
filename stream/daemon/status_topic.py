"""The status of a coordinator on a compacted topic, which a person reads from any host (decision 101).

The topic keeps two records: the last status, and the last start. A start does not replace the status of the coordinator
before it, so a reader has figures from the first second, with their age. It is written again at each heartbeat until
the state is open, so a reader sees that a process was killed meanwhile. Records hold positions, counts, release
numbers and names of the configuration; no case, activity or attribute.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable
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
from stream.daemon.status import MISSED, Status

log = logging.getLogger("veilstream")

LEAST_SECONDS = 1.0
"""Shortest time between two statuses on the topic. A coordinator makes ten a second while events come."""

BLOCK_MS = 5000
"""Longest wait of the producer for a broker that is away. Its thread must end with the process."""

CLOSE_SECONDS = 10.0
"""Longest wait for the last status at a stop."""

TAIL_RECORDS = 200
"""Records that are read at a time, from the end, until a status is among them."""

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
    seconds
        Seconds since it received the partition.
    heartbeat
        Seconds until the record is written again. 0 in records of earlier programs, which write it once.
    """

    at: float
    pid: int
    host: str
    version: str
    ended_by: str = ""
    seconds: float = 0.0
    heartbeat: float = 0.0


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """The records of a status topic. Before the first coordinator of this program starts, it has none.

    Attributes
    ----------
    status, stamped
        The last status, and when the broker received it (seconds since 1970).
    start
        The last start, if it is later than the status: its coordinator still opens its state, or has ended meanwhile.
    started
        When the broker received the start (seconds since 1970).
    """

    status: Status | None
    stamped: float
    start: CoordinatorStart | None
    started: float

    def failed_start(self, now: float) -> str | None:
        """Return why the last start will not open its state; None if it may, or if there is none.

        A process that was killed writes nothing about its end. So it is a fault that its record is not written again.

        Parameters
        ----------
        now
            Seconds since 1970. Only the broker's stamp is compared with it: the clock of the other host may be wrong.
        """
        if self.start is None:
            return None
        if self.start.ended_by:
            return f"a coordinator ended before its state was open: {self.start.ended_by}"
        heartbeat = self.start.heartbeat
        if heartbeat and now - self.started > MISSED * heartbeat:
            return (
                "a coordinator has not been heard of since, and its state was not open: its process was killed (by the "
                "kernel if memory was short), or its host or network failed; read its log, and start it again"
            )
        return None


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
        self._opening_since: float | None = None
        """When the partition came (monotonic), until the state is open or the process ends."""

    def watch(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="status topic", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Write that a coordinator opens its state, and again at each heartbeat until the first status."""
        self._opening_since = time.monotonic()
        self._put(START_KEY, self._start_record(0.0))

    def failed(self, ended_by: str) -> None:
        """Write that the coordinator ends, and its state was never open: it has no status to write this in.

        Parameters
        ----------
        ended_by
            Text of its error, as in the log.
        """
        with self._lock:
            opening_since, self._opening_since = self._opening_since, None
        seconds = 0.0 if opening_since is None else time.monotonic() - opening_since
        self._put(START_KEY, self._start_record(seconds, ended_by))

    def _start_record(self, seconds: float, ended_by: str = "") -> bytes:
        start = CoordinatorStart(
            at=time.time(),
            pid=os.getpid(),
            host=socket.gethostname(),
            version=version("veilstream"),
            ended_by=ended_by,
            seconds=seconds,
            heartbeat=self._source.heartbeat,
        )
        return msgspec.json.encode(start)

    def write(self, status: Status) -> None:
        """Write a status, at the next moment at which one is due."""
        self._put(STATUS_KEY, msgspec.json.encode(status))

    def _put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            if key == STATUS_KEY:
                self._opening_since = None
            self._records[key] = value
        self._changed.set()

    def _repeat_start(self) -> None:
        """Write the start again while the state opens."""
        # In one step: a start that follows a status would say that the state is not open.
        with self._lock:
            if self._opening_since is not None:
                self._records[START_KEY] = self._start_record(time.monotonic() - self._opening_since)

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
            if not self._changed.wait(self._source.heartbeat):
                self._repeat_start()
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
    matches = map(STATUS_NAME.fullmatch, names)
    return sorted(match[1] for match in matches if match)


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
    with explained(source), closing(PartitionReader(name, 0, source)) as reader:
        latest = _latest(reader)
    status, start = None, None
    value, stamped = latest.get(STATUS_KEY, (None, 0.0))
    if value is not None:
        status = msgspec.json.decode(value, type=Status)
    value, started = latest.get(START_KEY, (None, 0.0))
    if value is not None and (status is None or started > stamped):
        start = msgspec.json.decode(value, type=CoordinatorStart)
    return RemoteStatus(status, stamped, start, started)


def _latest(reader: PartitionReader) -> dict[bytes, tuple[bytes | None, float]]:
    """Return value and broker's time of the last record of each key, from the end back to the last status.

    Starts are repeated, so more than `TAIL_RECORDS` of them may follow it.
    """
    latest: dict[bytes, tuple[bytes | None, float]] = {}
    begin, until = reader.begin(), reader.end()
    while until > begin and STATUS_KEY not in latest:
        first = max(begin, until - TAIL_RECORDS)
        earlier = {}
        for record in reader.records(first, until):
            earlier[record.key or b""] = (record.value, record.timestamp / 1000)
        latest = {**earlier, **latest}
        until = first
    return latest
