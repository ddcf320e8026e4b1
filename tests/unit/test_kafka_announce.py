"""What the topics are told of a release, without a broker."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.source import Source
from stream.daemon.publisher import Announcer

LOGS = {
    "log.csv.gz": "case:concept:name,concept:name,time:timestamp\n",
    "log.xes.gz": '<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n</log>\n',
}


@pytest.mark.parametrize("name", LOGS)
def test_a_release_without_events_is_told(tmp_path: Path, name: str) -> None:
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
