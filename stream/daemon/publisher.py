"""Announce a release: its manifest on `releases`, its events framed on `released-events`.

Each release is one transaction: readers of committed records see all of it or nothing. After a crash a release may be
announced again; consumers recognize it by (publication, sequence). A release is in the store before it is announced. If
it cannot be announced (a record that the broker does not take, files that cannot be read back), the log has an error
and the announcement a mark, and later releases continue.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from connectors.kafka.faults import forbidden, may_pass, of_the_client, too_large
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import NoEventsError
from models.eventlog import EventLog
from models.keys import case_blocks
from stream.values.log_fields import log_fields
from stream.values.visible import visible_json

log = logging.getLogger("veilstream")

VERSION = 1
FRAME_EVENTS = 1000
FRAME_BYTES = 700_000
"""A frame ends at the first of the two. Neither the producer nor a broker as it comes takes a record of more than a
megabyte; what is around the rows, key and head, is below a kilobyte."""

BLOCK_EVENTS = 20_000
"""Events whose rows are in memory together."""

NOT_STREAMED = "not_streamed"
"""Value of `events` in an announcement if they could not be announced; the files are at `location`."""

NO_LOG = "none"
"""Value of `events` in an announcement if the release holds no log, and so no events."""

LOGS = ("log.parquet", "log.csv.gz", "log.xes.gz")

Records = Sequence[tuple[str, bytes | None, bytes]]


class Announcer:
    """A `Publisher` of the pipeline. It runs after the rename, and in recovery if the announcement is not certain."""

    def __init__(self, process: str, source: Source, send: Callable[[Records], Any]) -> None:
        self._releases, self._events = topic(process, "releases"), topic(process, "released-events")
        self._source, self._send = source, send

    def __call__(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> None:
        """Announce a release."""
        head = {"v": VERSION, "manifest": manifest, "location": folder}
        if "content" in manifest:
            head["events"] = NO_LOG
        # Releases of a fixed delay are announced outside of a decision.
        with log_fields(publication=publication, release=sequence):
            reason = self._send_announcement(publication, sequence, head)
            if reason:
                log.error(
                    "release %d of %s is sealed and in the store; its events could not be streamed (%s)",
                    *(sequence, publication, reason),
                )

    def _send_announcement(self, publication: str, sequence: int, head: Mapping[str, Any]) -> str:
        """Send the announcement, without its events if they cannot be sent.

        Returns the reason for leaving them out, or "". If the broker is away or does not allow it, the error ends the
        process, and the next start announces the release again.
        """
        key = f"{publication}/{sequence}".encode()
        reason = ""
        try:
            streamed = self._framed(publication, sequence, head["manifest"], head["location"])
        except Exception as error:  # noqa: BLE001 - of a store or a reader; the release is sealed, others wait behind it
            streamed, reason = [], type(error).__name__
        # Two attempts, so that a short failure does not leave the events out.
        for _ in range(0 if reason else 2):
            try:
                self._send([(self._releases, key, msgspec.json.encode(head)), *streamed])
                return ""
            except Exception as error:
                if not of_the_client(error):
                    raise
                reason = type(error).__name__
                if too_large(error):
                    break
        # Consumers learn of the release in any case, and can read its events from the store.
        try:
            self._send([(self._releases, key, msgspec.json.encode({**head, "events": NOT_STREAMED}))])
        except Exception as error:
            # A permission that is missing is given by a person. Until then the release is not announced, so the process
            # must not pass it.
            if not of_the_client(error) or may_pass(error) or forbidden(error):
                raise
            reason = type(error).__name__
        return reason

    def _framed(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> Records:
        if not self._source.released_events or "content" in manifest:
            return []
        key = f"{publication}/{sequence}".encode()
        log = _read(folder, manifest)
        return [(self._events, key, frame) for frame in frames(publication, sequence, log)]


def frames(publication: str, sequence: int, log: EventLog | None) -> Iterator[bytes]:
    """Yield the frames of a release: `begin`, `events`, and `end` with a digest.

    Rows are [case, activity, time_ns, resource, {case attributes}]. A release without events (None), as noise or
    suppression can make it, has no frame between begin and end.

    Parameters
    ----------
    publication, sequence
        The release.
    log
        Its public log; None for a release without events.
    """
    head = {"v": VERSION, "publication": publication, "sequence": sequence}
    n_cases, n_events = (0, 0) if log is None else (log.n_cases, log.n_events)
    yield msgspec.json.encode({**head, "t": "begin", "cases": n_cases, "events": n_events})
    digest = hashlib.sha256()
    for first, body in _bodies(() if log is None else _rows(log)):
        digest.update(body)
        yield msgspec.json.encode({**head, "t": "events", "first": first, "rows": msgspec.Raw(body)})
    yield msgspec.json.encode({**head, "t": "end", "events": n_events, "sha256": digest.hexdigest()})


def _bodies(rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the place of the first row and the JSON array of each frame."""
    part: list[bytes] = []
    first = size = 0
    for place, row in enumerate(rows):
        encoded = visible_json(msgspec.json.encode(row, enc_hook=str))
        if part and (len(part) == FRAME_EVENTS or size + len(encoded) > FRAME_BYTES):
            yield first, b"[" + b",".join(part) + b"]"
            part, first, size = [], place, 0
        part.append(encoded)
        size += len(encoded) + 1
    if part:
        yield first, b"[" + b",".join(part) + b"]"


def _rows(log: EventLog) -> Iterator[list[Any]]:
    """Yield the rows. Those of all events at once would be many times as large as the log."""
    for begin, end in case_blocks(log.starts, BLOCK_EVENTS):
        yield from _rows_of_block(log.select_cases(np.arange(begin, end)))


def _rows_of_block(log: EventLog) -> list[list[Any]]:
    activity, resource, owner = log.activity.decode(), log.resource.decode(), log.case_of_event.tolist()
    columns = {name: column.decode() for name, column in log.case_attributes.items()}
    attributes = [
        {name: values[case] for name, values in columns.items() if values[case] is not None}
        for case in range(log.n_cases)
    ]
    return [
        [log.case_ids[case], activity[event], int(log.time[event]), resource[event], attributes[case]]
        for event, case in enumerate(owner)
    ]


def _read(folder: str, manifest: Mapping[str, Any]) -> EventLog | None:
    """Read the released log from the store: what is streamed is what was sealed. None if it has no events."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    from connectors import read_log

    present = {str(entry["path"]) for entry in manifest["files"]}
    name = next(name for name in LOGS if name in present)
    system, path = url_to_fs(folder)
    if isinstance(system, LocalFileSystem):
        # Without a copy: a container may have no temporary folder, or one that is smaller than the release.
        with suppress(NoEventsError):
            return read_log(Path(path) / name)
        return None
    with tempfile.TemporaryDirectory() as copy:
        target = Path(copy) / name
        system.get_file(f"{path}/{name}", str(target))
        with suppress(NoEventsError):
            return read_log(target)
    return None
