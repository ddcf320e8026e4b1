"""Announcements of a release on the topics, without a broker."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from connectors.kafka.source import Source
from models.eventlog import Column, EventLog
from stream.daemon import publisher
from stream.daemon.publisher import Announcer, frames

LOGS = {
    "log.csv.gz": "case:concept:name,concept:name,time:timestamp\n",
    "log.xes.gz": '<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n</log>\n',
}


@pytest.mark.parametrize("name", LOGS)
def test_a_release_without_events_is_announced(tmp_path: Path, name: str) -> None:
    """Noise can leave no variant above the threshold: the release is announced, with nothing between begin and end."""
    import gzip

    (tmp_path / name).write_bytes(gzip.compress(LOGS[name].encode()))
    sent: list[tuple[str, Any]] = []
    source = Source.model_validate({"topics": ["t"], "bootstrap": "b:1", "released_events": True})
    announce = Announcer("p", source, lambda records: sent.extend((to, json.loads(value)) for to, _, value in records))
    announce("statistics", 3, {"files": [{"path": name}]}, str(tmp_path))
    assert [to for to, _ in sent] == ["veilstream.p.releases", *["veilstream.p.released-events"] * 2]
    begin, end = sent[1][1], sent[2][1]
    assert (begin["t"], begin["cases"], begin["events"], begin["sequence"]) == ("begin", 0, 0, 3)
    assert (end["t"], end["events"], end["sha256"]) == ("end", 0, hashlib.sha256().hexdigest())


def _log(events: int, size: int) -> EventLog:
    """One case an event, each with an attribute of so many bytes."""
    values = tuple(f"{case:0{size}d}" for case in range(events))
    log = EventLog.from_events(
        [f"c{case}" for case in range(events)],
        ["a"] * events,
        np.arange(events) * 10**9,
        [None] * events,
        {},
        unit="ns",
    )
    return replace(log, case_attributes={"Diagnose": Column(np.arange(events, dtype=np.int32), values)})


@pytest.mark.parametrize(("events", "size"), [(2500, 10), (400, 4000), (3, 600_000)])
def test_frames_are_cut_by_rows_and_by_bytes(events: int, size: int) -> None:
    """None above the megabyte that a broker takes, none above a thousand rows; the digest is of the rows as sent."""
    announced = list(frames("research", 1, _log(events, size)))
    assert max(len(frame) for frame in announced) < 1_000_000
    decoded = [json.loads(frame) for frame in announced]
    inner = [frame for frame in decoded if frame["t"] == "events"]
    assert all(len(frame["rows"]) <= 1000 for frame in inner)
    assert [frame["first"] for frame in inner] == [
        sum(len(before["rows"]) for before in inner[:place]) for place in range(len(inner))
    ]
    assert [row[0] for frame in inner for row in frame["rows"]] == [f"c{case}" for case in range(events)]
    digest = hashlib.sha256()
    for frame in announced[1:-1]:
        digest.update(frame[frame.index(b'"rows":') + 7 : -1])
    assert decoded[-1] == decoded[-1] | {"events": events, "sha256": digest.hexdigest()}


def test_rows_are_made_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames are those of all rows at once; the rows of a year of events would fill the memory."""
    traces = [("ab" * (case % 4 + 1), {"age": None if case % 3 else str(case)}) for case in range(50)]
    log = EventLog.from_traces([(trace, None) for trace, _ in traces])
    ages = Column.encode(attributes["age"] for _, attributes in traces)
    log = replace(log, case_attributes={"age": ages})
    at_once = list(frames("research", 1, log))
    blocks: list[int] = []
    made = publisher._rows_of_block
    monkeypatch.setattr(publisher, "BLOCK_EVENTS", 30)
    monkeypatch.setattr(publisher, "_rows_of_block", lambda block: blocks.append(block.n_events) or made(block))
    assert list(frames("research", 1, log)) == at_once
    assert sum(blocks) == log.n_events
    assert max(blocks) <= 30 + 8, "a block ends with a whole case"


def test_a_local_release_is_streamed_without_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container with a read-only root may have none, and its events were left out with an error in the log."""
    monkeypatch.setattr("stream.daemon.publisher.tempfile.TemporaryDirectory", lambda: pytest.fail("a copy is made"))
    announce, sent = _announcer(tmp_path, [])
    announce("statistics", 3, {"files": [{"path": "log.csv.gz"}]}, str(tmp_path))
    assert [json.loads(value).get("events") for to, _, value in sent if to == "veilstream.p.releases"] == [None]
    assert any(to == "veilstream.p.released-events" for to, _, _ in sent)


@pytest.mark.parametrize(
    ("failures", "raised", "announced"),
    [
        ([MessageSizeTooLargeError()], False, ["not_streamed"]),
        ([KafkaTimeoutError()], False, [None]),
        ([KafkaTimeoutError(), KafkaTimeoutError()], False, ["not_streamed"]),
        ([MessageSizeTooLargeError(), MessageSizeTooLargeError()], False, []),
        ([KafkaTimeoutError()] * 3, True, []),
    ],
    ids=["too large", "a broker that comes back", "frames that time out", "not even the manifest", "no broker"],
)
def test_a_failed_announcement_is_logged_and_stops_nothing(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    failures: list[Exception],
    raised: bool,
    announced: list[str | None],
) -> None:
    """Only a broker that is away ends the process: the next start announces the release again."""
    announce, sent = _announcer(tmp_path, failures)
    manifest = {"files": [{"path": "log.csv.gz"}]}
    if raised:
        with pytest.raises(KafkaTimeoutError):
            announce("statistics", 3, manifest, str(tmp_path))
    else:
        announce("statistics", 3, manifest, str(tmp_path))
    heads = [json.loads(value) for to, _, value in sent if to == "veilstream.p.releases"]
    assert [head.get("events") for head in heads] == announced
    assert ("could not be streamed" in caplog.text) == (announced != [None] and not raised)


@pytest.mark.parametrize("refusals", [1, 2, 3])
def test_a_release_that_the_broker_does_not_let_us_announce_is_not_passed(tmp_path: Path, refusals: int) -> None:
    """Consumers would never learn of it. The process ends, and announces it again when the permission is given."""
    announce, sent = _announcer(tmp_path, [TopicAuthorizationFailedError("veilstream.p.releases")] * refusals)
    manifest = {"files": [{"path": "log.csv.gz"}]}
    if refusals == 3:
        with pytest.raises(TopicAuthorizationFailedError):
            announce("statistics", 3, manifest, str(tmp_path))
    else:  # given meanwhile, or only the events may not be written
        announce("statistics", 3, manifest, str(tmp_path))
    assert [to for to, _, _ in sent] == [] if refusals == 3 else ["veilstream.p.releases"]


def test_a_release_that_cannot_be_read_back_is_announced_without_its_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is gone, or its store does not answer: the release is sealed, and others wait behind it."""
    announce, sent = _announcer(tmp_path, [])
    announce("statistics", 3, {"files": [{"path": "log.csv.gz"}]}, str(tmp_path / "gone"))
    assert [json.loads(value).get("events") for _, _, value in sent] == ["not_streamed"]
    assert "release 3 of statistics is sealed and in the store" in caplog.text


def _announcer(folder: Path, failures: list[Exception]) -> tuple[Announcer, list[Any]]:
    """An announcer whose broker fails so often, over a release without events."""
    import gzip

    (folder / "log.csv.gz").write_bytes(gzip.compress(LOGS["log.csv.gz"].encode()))
    sent: list[Any] = []
    left = list(failures)

    def send(records: Any) -> None:
        if left:
            raise left.pop(0)
        sent.extend(records)

    return Announcer("p", Source.model_validate({"topics": ["t"], "bootstrap": "b:1"}), send), sent


def test_a_map_is_announced_without_events(tmp_path: Path) -> None:
    """Its manifest says what it holds; no frame follows, and nothing is read from the store."""
    sent: list[tuple[str, Any]] = []
    source = Source.model_validate({"topics": ["t"], "bootstrap": "b:1", "released_events": True})
    announce = Announcer("p", source, lambda records: sent.extend((to, json.loads(value)) for to, _, value in records))
    manifest = {"content": "map", "files": [{"path": "dfg.json"}]}
    announce("maps", 3, manifest, str(tmp_path / "nowhere"))
    ((to, body),) = sent
    assert to == "veilstream.p.releases"
    assert (body["manifest"], body["events"]) == (manifest, "none")
