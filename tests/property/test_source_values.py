"""Every record becomes events, is left out, or is refused with a documented reason: no other exception."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from connectors.columns import ColumnNames
from connectors.kafka import avro, json_schema, protobuf
from connectors.kafka.events import LEFT_OUT, POISONS, LeftOut, Poison, Schema
from connectors.kafka.formats import EventDecoder, event_decoder
from connectors.kafka.mapping import EventMapping
from tests.debezium_records import Row, customer, mysql, postgres
from tests.source_records import Message, events_of

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
PATHS = ["op", "source", "before", "after", "ts_ms", "source.table", "source.ts_ns", "source.lsn", "after.id"]
RECORDS = [postgres("u", customer(), customer(status="paid")), mysql("d", customer(), None), postgres("t", None, None)]

CHANGES = event_decoder(
    Schema(format="debezium"),
    mappings=(
        EventMapping(
            op=("c", "u", "d", "r", "t"), activity="{table} {after.status}", case="row.id", attributes={"x": "after"}
        ),
        EventMapping(column=("status",), activity="{value}", case="{row.id}", resource="row.email", event_id="@key.id"),
    ),
    snapshots=True,
)
COLUMNS = event_decoder(
    Schema(
        ColumnNames("id", "step", "at", "by.name"), ("x",), event_id="key", end="end", time_unit="ms", lifecycle="both"
    )
)


KNOWN = {*POISONS, *LEFT_OUT, "events"}


def outcome(source: EventDecoder, message: Message) -> str:
    """The reason, or `events` that a delta can hold; any other exception is the test's."""
    try:
        events = events_of(source.decode, message)
    except (Poison, LeftOut) as reason:
        return reason.kind
    for event in events:
        assert event.case
        assert event.activity
        json.dumps(event.attributes, allow_nan=False)
    return "events"


@given(st.sampled_from(RECORDS), st.lists(st.tuples(st.sampled_from(PATHS), values), max_size=3), st.booleans())
def test_changes(record: Row, planted: list[tuple[str, Any]], wrapped: bool) -> None:
    """Envelopes of Debezium with anything in any place."""
    body = json.loads(json.dumps(record))
    for path, value in planted:
        *way, last = path.split(".")
        place = body
        for name in way:
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = value
    text = json.dumps({"schema": {}, "payload": body} if wrapped else body)
    assert outcome(CHANGES, Message("t", b'{"id": 1}', text.encode("utf-8", "surrogatepass"))) in KNOWN


@given(st.dictionaries(st.sampled_from(["id", "step", "at", "by", "x", "key", "end", "lifecycle:transition"]), values))
def test_columns(record: dict[str, Any]) -> None:
    """Records read by their columns."""
    assert outcome(COLUMNS, Message("t", None, json.dumps(record).encode("utf-8", "surrogatepass"))) in KNOWN


AVRO = avro.compiled(
    json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "id", "type": ["null", "string", "long", "bytes"]},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                {"name": "more", "type": {"type": "map", "values": "double"}},
            ],
        }
    ),
    {},
)
PROTO = protobuf.compiled(
    'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";'
    "message M { string id = 1; google.protobuf.Timestamp at = 2; map<string, M> more = 3; "
    "google.protobuf.Struct s = 4; }",
    {},
)
JSON = json_schema.compiled('{"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}}', {})


@given(st.binary(max_size=40))
def test_bodies(body: bytes) -> None:
    """Bytes of any kind under each kind of schema."""
    for decode in (AVRO, PROTO, JSON):
        assert _reason(decode, body) in KNOWN


def _reason(decode: Callable[[bytes], Any], body: bytes) -> str:
    try:
        decode(body)
    except Poison as reason:
        return reason.kind
    return "events"
