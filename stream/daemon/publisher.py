"""Telling the world of a release: its manifest on `releases`, its events framed on `released-events`.

One transaction a release: who reads committed records sees all of it or nothing. After a crash a release may be told
again; consumers know it by (publication, sequence).
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import NoEventsError
from models.eventlog import EventLog
from stream.values.visible import visible_json

VERSION = 1
FRAME_EVENTS = 1000
"""Events of one frame: below a megabyte at a kilobyte an event, the broker's default limit of a record."""

LOGS = ("log.parquet", "log.csv.gz", "log.xes.gz")

Records = Sequence[tuple[str, bytes | None, bytes]]


class Announcer:
    """A `Publisher` of the pipeline: called after the rename, and again by recovery where that was not certain."""

    def __init__(self, process: str, source: Source, send: Callable[[Records], Any]) -> None:
        self._releases, self._events = topic(process, "releases"), topic(process, "released-events")
        self._source, self._send = source, send

    def __call__(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> None:
        key = f"{publication}/{sequence}".encode()
        records = [(self._releases, key, msgspec.json.encode({"v": VERSION, "manifest": manifest, "location": folder}))]
        if self._source.released_events:
            records += [(self._events, key, frame) for frame in frames(publication, sequence, _read(folder, manifest))]
        self._send(records)


def frames(publication: str, sequence: int, log: EventLog | None) -> Iterator[bytes]:
    """`begin`, `events` frames of rows [case, activity, time_ns, resource, {case attributes}], `end` with a digest.

    None: a release without events, as noise or suppression can make it; no frame stands between begin and end.
    """
    head = {"v": VERSION, "publication": publication, "sequence": sequence}
    rows = [] if log is None else _rows(log)
    yield msgspec.json.encode({**head, "t": "begin", "cases": 0 if log is None else log.n_cases, "events": len(rows)})
    digest = hashlib.sha256()
    for first in range(0, len(rows), FRAME_EVENTS):
        body = visible_json(msgspec.json.encode(rows[first : first + FRAME_EVENTS], enc_hook=str))
        digest.update(body)
        yield msgspec.json.encode({**head, "t": "events", "first": first, "rows": msgspec.Raw(body)})
    yield msgspec.json.encode({**head, "t": "end", "events": len(rows), "sha256": digest.hexdigest()})


def _rows(log: EventLog) -> list[list[Any]]:
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
    """The released log as it lies in the store: what is streamed is what was sealed. None where it has no events."""
    from fsspec.core import url_to_fs

    from connectors import read_log

    present = {str(entry["path"]) for entry in manifest["files"]}
    name = next(name for name in LOGS if name in present)
    system, path = url_to_fs(folder)
    with tempfile.TemporaryDirectory() as copy:
        target = Path(copy) / name
        system.get_file(f"{path}/{name}", str(target))
        with suppress(NoEventsError):
            return read_log(target)
    return None
