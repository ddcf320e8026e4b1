"""Each source format from a real topic to a release: with a schema that evolves, and a bad record of each kind."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.debezium_records import customer, encoded, postgres
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, Site, publication
from tests.schema_registry import SchemaRegistry, framed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

CASES = 4
COLUMNS = 'columns = { case = "order", activity = "step", time = "at", resource = "by" }\n'
NOON = "2024-01-01T12:00:00Z"
MILLIS = 1_704_110_400_000


@dataclass(slots=True)
class Feed:
    """Input of a process's topic, and its expected result."""

    source: str
    good: list[bytes | None]
    """By the first schema for the first half of the cases, by a later one for the others."""
    bad: dict[bytes | None, str]
    """Records, each with its reason in the dlq."""
    activities: dict[str, int]
    """Of the release."""
    process: str = COLUMNS
    sensitive: str = '["channel"]'
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    channels: int = CASES // 2
    """Rows with the attribute that only the later schema has."""
    left_out: list[bytes | None] = field(default_factory=list)


def avro(registry: SchemaRegistry) -> Feed:
    """Records of two schemas; one id is unknown, one schema is none, one body is cut short."""
    fields = [
        {"name": "order", "type": "string"},
        {"name": "step", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    first: dict[str, Any] = {"type": "record", "name": "Step", "fields": fields}
    second = {**first, "fields": [{"name": "channel", "type": "string", "default": "web"}, *fields]}

    def body(case: int, schema: dict[str, Any], step: str = "pack") -> bytes:
        stream = io.BytesIO()
        value = {"order": f"order-{case}", "step": step, "at": MILLIS + case, "channel": "shop"}
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        return framed(registry.register("orders-value", json.dumps(schema)), stream.getvalue())

    whole = body(9, first)
    return Feed(
        source=f'format = "avro"\nregistry = {{ url = "{registry.url}" }}\n',
        good=[body(case, first if case < CASES // 2 else second) for case in range(CASES)],
        bad={
            None: "null_value",
            b'{"order": 1}': "no_schema_id",
            framed(77, whole[5:]): "unknown_schema",
            framed(registry.register("x", '{"type": "record"}'), whole[5:]): "bad_schema",
            framed(registry.register("y", "{}", "JSON"), b"{}"): "schema_type",
            whole[:-1]: "body",
            body(9, first, ""): "schema",
        },
        activities={"pack": CASES},
    )


def protobuf(registry: SchemaRegistry) -> Feed:
    """The wire format written by hand: tags and lengths, as the encoding of Protobuf documents them."""
    text = 'syntax = "proto3"; message Other {} message Step { string order = 1; string step = 2; string at = 3;%s }'
    numbers = [registry.register("orders", text % more, "PROTOBUF") for more in ("", " string channel = 9;")]

    def body(case: int, later: bool) -> bytes:
        parts = {1: f"order-{case}", 2: "pack", 3: NOON} | ({9: "shop"} if later else {})
        made = b"".join(bytes([number << 3 | 2, len(text)]) + text.encode() for number, text in parts.items())
        return framed(numbers[later], b"\x02\x02" + made)

    broken = registry.register("z", 'syntax = "proto3"; message', "PROTOBUF")
    return Feed(
        source=f'format = "protobuf"\nregistry = {{ url = "{registry.url}" }}\n',
        good=[body(case, case >= CASES // 2) for case in range(CASES)],
        bad={
            body(9, False)[:-1]: "body",
            framed(numbers[0], b"\x02\x10"): "message_index",
            framed(numbers[0], b"\x02\x02"): "schema",
            framed(broken, b"\x00"): "bad_schema",
        },
        activities={"pack": CASES},
    )


def json_schema(registry: SchemaRegistry) -> Feed:
    """The later schema asks for one field more."""
    shape: dict[str, Any] = {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}}
    later = {**shape, "required": ["order", "channel"]}
    numbers = [registry.register("orders", json.dumps(one), "JSON") for one in (shape, later)]
    record = {"step": "pack", "at": NOON}

    def body(case: Any, number: int, **more: str) -> bytes:
        return framed(number, json.dumps({"order": case, **record, **more}).encode())

    half = CASES // 2
    return Feed(
        source=f'format = "json-schema"\nregistry = {{ url = "{registry.url}" }}\n',
        good=[
            *(body(f"order-{case}", numbers[0]) for case in range(half)),
            *(body(f"order-{case}", numbers[1], channel="shop") for case in range(half, CASES)),
        ],
        bad={
            body(7, numbers[0]): "invalid",
            body("order-9", numbers[1]): "invalid",
            framed(numbers[0], b'{"order": "9"'): "not_json",
            framed(numbers[0], b'{"order": "9"}'): "schema",
        },
        activities={"pack": CASES},
    )


def cloudevents(_registry: SchemaRegistry) -> Feed:
    """Structured mode; another minor version of the envelope, and later a field more in its data."""

    def body(case: int, version: str, **more: str) -> bytes:
        data = {"order": f"order-{case}", "step": "pack", "at": NOON, **more}
        return json.dumps({"specversion": version, "id": f"id-{case}", "source": "/shop", "data": data}).encode()

    return Feed(
        source='format = "cloudevents"\nevent_id = "ce:id"\n',
        good=[
            *(body(case, "1.0") for case in range(CASES // 2)),
            *(body(case, "1.1", channel="shop", dataschema="2") for case in range(CASES // 2, CASES)),
            body(0, "1.0"),  # a repeat: the fold knows its id
        ],
        bad={body(9, "2.0"): "version", b'{"specversion": "1.0"': "not_json", b'{"specversion": "1.0"}': "schema"},
        activities={"pack": CASES},
    )


def debezium(_registry: SchemaRegistry) -> Feed:
    """Changes of a table that gets a column more; a record that changes two columns is two events; the repeat of a
    record is none."""
    good: list[bytes | None] = []
    for case in range(CASES):
        more = {"channel": "shop"} if case >= CASES // 2 else {}
        old, new = customer(id=case, **more), customer(id=case, **more, status="paid", email="new@noanswer.org")
        good.append(encoded(postgres("c", None, old, lsn=100 + case), wrapped=case % 2 == 0))
        good.append(encoded(postgres("u", old, new, lsn=200 + case), wrapped=case % 2 == 0))
    mapping = (
        '[[source.mapping]]\ntable = "customers"\ncolumn = ["status", "email"]\nop = ["u"]\n'
        'activity = "{table}.{column} changed"\ncase = "customer-{row.id}"\n'
        '[[source.mapping]]\ntable = "customers"\nop = "c"\nactivity = "created"\ncase = "customer-{row.id}"\n'
        'attributes = { channel = "after.channel" }\n'
    )
    return Feed(
        source=f'format = "debezium"\n{mapping}',
        good=[*good, good[1]],
        bad={
            b"{": "not_json",
            b'{"order": 1}': "envelope",
            encoded(postgres("u", None, customer())): "no_before",
            encoded(postgres("c", None, customer(), ts_ns="soon")): "time",
            encoded(postgres("c", None, {"name": "x"})): "schema",
        },
        activities={"created": CASES, "customers.status changed": CASES, "customers.email changed": CASES},
        process="",
        left_out=[
            None,
            encoded(postgres("r", None, customer())),
            encoded(postgres("d", customer(), None)),
            encoded(postgres("u", customer(), customer(first_name="Ann"))),
        ],
    )


@pytest.mark.parametrize("make", [avro, protobuf, json_schema, cloudevents, debezium], ids=lambda make: make.__name__)
def test_from_a_topic_to_a_release(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path, make: Callable[[SchemaRegistry], Feed]
) -> None:
    """Good records are released, bad ones are in the dlq each with its reason, the others are counted as left out, and
    every offset is covered. The registry is away when the records come: ingestion waits and refuses nothing."""
    registry = SchemaRegistry()
    registry.start()
    feed = make(registry)
    registry.stop()
    window = f"{{ new_cases = {CASES}, manual = true }}"
    one = Site(
        broker.bootstrap,
        name,
        tmp_path,
        publication("plain", window, IDENTITY),
        sensitive=feed.sensitive,
        process=feed.process,
        source=feed.source,
    )
    values = [*feed.bad, *feed.left_out, *feed.good]
    one.send(values, 0)
    try:
        workers = [one.start("ingest"), one.start("coordinator")]
        if "registry" in feed.source:
            one.wait(lambda: "does not answer" in one.logs(), "word of the registry that is away")
            assert (one.json("dlq"), one.covered()) == ([], 0)
            registry.start()
        one.wait(lambda: _reached(one) == len(values) - 1, "the intake of everything")
        one.command("release", "-c", str(one.config))
        one.wait(lambda: _released(one) == feed.activities, "the release of everything")
        assert one.stop(*workers) == [0, 0]
    finally:
        one.close()
        registry.stop()
    kinds = ("tombstone", "snapshot", "no_mapping", "unchanged") if feed.left_out else ()
    assert [kind for kind in kinds if f"records become no event: {kind};" not in one.logs()] == []
    letters = Counter(record["error"] for _, record in one.json("dlq"))
    assert letters == Counter(feed.bad.values())
    rows = [row for _, record in one.json("delta") if record["t"] == "delta" for row in record["rows"]]
    channels = Counter(row[5]["event"]["channel"] for row in rows if row[5])
    assert channels == {"shop": feed.channels}


@pytest.mark.parametrize("make", [avro, protobuf], ids=lambda make: make.__name__)
def test_a_killed_worker_leaves_no_event_out_and_takes_none_twice(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path, make: Callable[[SchemaRegistry], Feed]
) -> None:
    """kill -9 while it reads, and once more while it waits for a registry that is away: its schemas are gone with it.
    Each offset is in a delta, as an event or as a dead letter. A delta may be written again, and the release still has
    every event once."""
    registry = SchemaRegistry()
    registry.start()
    feed = make(registry)
    one = Site(
        broker.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ manual = true }", IDENTITY),
        sensitive=feed.sensitive,
        process=feed.process,
        source=feed.source,
    )
    first, second = [*feed.bad, *feed.good[::2]], feed.good[1::2]
    try:
        coordinator, ingest = one.start("coordinator"), one.start("ingest")
        one.send(first, 0)
        one.wait(lambda: _reached(one) >= 0, "a first delta")
        registry.stop()
        ingest.kill()
        one.send([*first, *second], 0)
        ingest = one.start("ingest")
        one.wait(lambda: "does not answer" in one.logs(), "word of the registry that is away")
        ingest.kill()
        registry.start()
        ingest = one.start("ingest")
        n_records = 2 * len(first) + len(second)
        one.wait(lambda: _reached(one) == n_records - 1, "the intake of everything")
        one.command("release", "-c", str(one.config))
        events = {activity: 2 * len(feed.good[::2]) + len(second) for activity in feed.activities}
        one.wait(lambda: _released(one) == events, "the release of everything")
        assert one.stop(coordinator, ingest) == [0, 0]
    finally:
        one.close()
        registry.stop()
    deltas = [record for _, record in one.json("delta") if record["t"] == "delta"]
    offsets = {offset for record in deltas for offset in (*(row[0] for row in record["rows"]), *record["dlq"])}
    assert offsets == set(range(n_records))
    letters = {(record["offset"], record["error"]) for _, record in one.json("dlq")}
    assert Counter(error for _, error in letters) == Counter(dict.fromkeys(feed.bad.values(), 2))


def _reached(one: Site) -> int:
    """The last offset that deltas cover."""
    return max((record["last"] for _, record in one.json("delta") if record["t"] == "delta"), default=-1)


def _released(one: Site) -> dict[str, int]:
    """Activities of the newest release, with their events."""
    found = sorted(one.output().glob("public/**/log.xes.gz"))
    if not found:
        return {}
    text = gzip.decompress(found[-1].read_bytes()).decode()
    events = text[text.index("<trace") :].split("<event>")[1:]
    names = [re.search(r'key="concept:name" value="([^"]*)"', event) for event in events]
    return dict(Counter(name[1] for name in names if name))
