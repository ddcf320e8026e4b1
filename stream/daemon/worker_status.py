"""The status of ingest workers for `veilstream status`: the partitions that they cannot read.

The coordinator does not know them: to it such a partition has no events. Each worker replaces a file of its own at
every report; a file that is no longer replaced belongs to a worker that ended, and is ignored.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from stream.ledger.layout import OperatorLayout

log = logging.getLogger("veilstream")

MISSED = 3
"""Reports without a new file after which its worker counts as ended."""

OLD_SECONDS = 86_400.0
"""Files of workers that ended before this are removed by the next worker that starts."""


class WorkerStatus(msgspec.Struct, frozen=True):
    """One file. `at`: seconds since 1970; `heartbeat`: seconds between two reports."""

    at: float
    heartbeat: float
    unreadable: tuple[str, ...] = ()


class WorkerStatusFile:
    """The file of this worker in the output folder."""

    def __init__(self, output: Path, heartbeat: float) -> None:
        folder = OperatorLayout(output).faust("ingest")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"status-{socket.gethostname()}-{os.getpid()}.json"
        self._heartbeat, self._failing = heartbeat, False
        for path in folder.glob("status-*.json"):
            with suppress(OSError):  # another worker removes it too
                if time.time() - path.stat().st_mtime > OLD_SECONDS:
                    path.unlink()

    def write(self, unreadable: Sequence[str]) -> None:
        """Replace the file: the stopped partitions, each as `topic/number at offset N`.

        A worker needs no disk for its work, so it continues if the disk is full or may not be written.
        """
        temporary = self._path.with_suffix(".tmp")
        status = WorkerStatus(time.time(), self._heartbeat, tuple(unreadable))
        try:
            temporary.write_bytes(msgspec.json.encode(status))
            temporary.replace(self._path)
        except OSError as error:
            if not self._failing:
                problem = "it stays as it was, and `veilstream status` does not see this worker"
                log.warning("%s: cannot be written (%s); %s", self._path, error.strerror, problem)
            self._failing = True
        else:
            self._failing = False


def stopped_partitions(output: Path, now: float) -> list[str]:
    """Return the partitions that running workers cannot read, each as `topic/number at offset N`.

    Parameters
    ----------
    output
        The folder of the workers.
    now
        The time in seconds since 1970. A worker without a recent heartbeat does not run.
    """
    stopped: set[str] = set()
    for path in (OperatorLayout(output).faust("ingest")).glob("status-*.json"):
        with suppress(OSError, msgspec.DecodeError):  # replaced or removed at this moment
            status = msgspec.json.decode(path.read_bytes(), type=WorkerStatus)
            if abs(now - status.at) <= MISSED * status.heartbeat:
                stopped.update(status.unreadable)
    return sorted(stopped)
