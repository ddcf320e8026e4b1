"""Resources are pseudonyms from ingest on; deltas and states that hold raw ones are read, and hold them no longer."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon.deltas import DeltaWriter
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Delta
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.service import ReleaseService
from stream.values.pseudonym import Pseudonyms
from tests.source_records import source_record

RESOURCE = "Nurse Canary"
NOW = 1_800_000_000_000_000_000
BODY = b'{"case:concept:name":"c","concept:name":"a","time:timestamp":"2025-01-01T00:00:00Z","org:resource":"%s"}'


def written(pseudonyms: Pseudonyms, resource: str = RESOURCE, *, raw: bool = False) -> bytes:
    writer = DeltaWriter(event_decoder(Schema()), pseudonyms, 0, 4096, raw_resources=raw)
    (encoded,), _ = writer.write("t", 0, -1, [source_record(0, BODY % resource.encode())], NOW)
    return encoded


def old_delta(offset: int, prev: int | None = None) -> Delta:
    """As ingest wrote it before: raw resources, and not a word of it."""
    row = [offset, "c", "a", 1, RESOURCE, None, None, False]
    body = {"t": "delta", "v": 1, "src": "t", "p": 0, "prev": offset - 1 if prev is None else prev, "last": offset}
    found: Delta = msgspec.json.decode(json.dumps({**body, "n": 1, "rows": [row]}).encode(), type=AnyRecord)  # type: ignore[arg-type]
    return found


def service(folder: Path, **process: object) -> ReleaseService:
    window = {"name": "p", "window": {"new_events": 2}, "mechanism": {"kind": "identity", "attribute": "ar"}}
    return ReleaseService(
        Settings.model_validate({"process": {"name": "x", **process}, "publication": [window]}), folder
    )


def fold() -> Fold:
    return Fold(FoldRules((PublicationRules("p", read_window({"manual": True})),), embedded=False))


@pytest.mark.parametrize("resource", [RESOURCE, "r-0123456789abcdef"])
def test_no_resource_enters_the_delta_topic(resource: str) -> None:
    """Also none that looks like a pseudonym: the same name gives the same pseudonym, and `raw_resources` keeps it."""
    pseudonyms = Pseudonyms(bytes(32))
    delta = msgspec.json.decode(written(pseudonyms, resource), type=Delta)
    assert (delta.rows[0][4], delta.named) == (pseudonyms.resource(resource), True)
    assert resource.encode() not in written(pseudonyms, resource)
    kept = msgspec.json.decode(written(pseudonyms, resource, raw=True), type=Delta)
    assert (kept.rows[0][4], kept.named) == (resource, False)


def test_an_old_delta_is_read_under_the_same_names(tmp_path: Path) -> None:
    """A resource that an earlier ingest wrote and the same resource of a present one are one name in the state."""
    one = service(tmp_path / "out")
    try:
        state = fold()
        list(state.apply(0, one.with_pseudonyms(old_delta(0))))
        new = msgspec.json.decode(written(one.pseudonyms), type=Delta)
        list(state.apply(1, one.with_pseudonyms(msgspec.structs.replace(new, src="u", key=""))))
        assert state.state.resource_names == (one.pseudonyms.resource(RESOURCE),)
        assert RESOURCE.encode() not in state.snapshot()
    finally:
        one.close()


def test_a_state_with_raw_resources_is_named_when_it_is_read(tmp_path: Path) -> None:
    """Of rows, and of what waits behind a gap; the next checkpoint holds none. `raw_resources` keeps them."""
    before = fold()
    for position, record in enumerate((old_delta(0), old_delta(9, prev=8))):
        list(before.apply(position, record))
    table = msgspec.msgpack.decode(before.snapshot())
    del table["state"]["named"]  # as it was before
    state = msgspec.msgpack.encode(table)
    assert state.count(RESOURCE.encode()) == 2
    for raw in (False, True):
        one = service(tmp_path / str(raw), raw_resources=raw)
        try:
            again = one.restored(state)
            name = RESOURCE if raw else one.pseudonyms.resource(RESOURCE)
            assert again.state.resource_names == (name,)
            assert (RESOURCE.encode() in again.snapshot()) == raw
            assert one.restored(again.snapshot()).snapshot() == again.snapshot()
        finally:
            one.close()
