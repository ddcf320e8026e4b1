"""Avro, Protobuf and JSON Schema in Confluent's wire format: evolution, and each kind of bad record."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import ValidationError

from connectors.columns import ColumnNames
from connectors.kafka import protobuf
from connectors.kafka.events import Poison, Schema, SourceEvent
from connectors.kafka.formats import EventDecoder, event_decoder
from connectors.kafka.mapping import EventMapping
from connectors.kafka.registry import RegistryOptions
from models.errors import InputError, UnavailableError
from tests.kafka.secure import certificates
from tests.schema_registry import SchemaRegistry, framed
from tests.source_records import Message, events_of

NAMES = ColumnNames(case="order", activity="step", time="at", resource="by.name")
NOON = 1_704_110_400_000_000_000
"""2024-01-01T12:00:00Z"""


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry of this test's own."""
    with SchemaRegistry() as one:
        yield one


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits for the registry; no time passes."""
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=time.monotonic)
    monkeypatch.setattr("connectors.kafka.registry.time", clock)
    return slept


def reader(registry: SchemaRegistry, kind: str, **options: Any) -> EventDecoder:
    """Return the reader of records of a kind."""
    schema = Schema(names=NAMES, attributes=("amount", "channel"), format=kind, event_id="id")
    return event_decoder(schema, registry=RegistryOptions(url=registry.url), **options)


def event(source: EventDecoder, value: bytes | None) -> SourceEvent:
    """The one event of a record."""
    message = Message("orders", None, value)
    assert source.prepare is not None
    source.prepare([message])
    (found,) = events_of(source.decode, message)
    return found


def refusal(source: EventDecoder, value: bytes | None) -> str:
    """The class of error of a record."""
    with pytest.raises(Poison) as caught:
        event(source, value)
    return caught.value.kind


# Avro

FIELDS: list[dict[str, Any]] = [
    {"name": "order", "type": "long"},
    {"name": "step", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {
        "name": "by",
        "type": ["null", {"type": "record", "name": "Clerk", "fields": [{"name": "name", "type": "string"}]}],
    },
]
FIRST = {"type": "record", "name": "Step", "namespace": "shop", "fields": FIELDS}
AMOUNT = {
    "name": "amount",
    "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
    "default": None,
}
SECOND = {**FIRST, "fields": [AMOUNT, *FIELDS, {"name": "channel", "type": "string", "default": "web"}]}
ORDER = {"order": 7, "step": "pack", "at": 1_704_110_400_000, "by": {"name": "Ann"}}


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """A body."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def test_avro_records_of_two_schemas_stand_in_one_topic(registry: SchemaRegistry) -> None:
    """Each record is read by the schema that it was written with; what a later schema adds is an attribute from then
    on, and the registry is asked once for each id."""
    from decimal import Decimal

    source = reader(registry, "avro")
    one, two = (registry.register("orders-value", json.dumps(schema)) for schema in (FIRST, SECOND))
    old = event(source, framed(one, avro(FIRST, ORDER)))
    assert old == SourceEvent("7", "pack", NOON, "Ann", None, None, False)
    new = framed(two, avro(SECOND, {**ORDER, "amount": Decimal("12.50"), "channel": "shop", "by": None}))
    for _ in range(3):
        assert event(source, new) == SourceEvent(
            "7", "pack", NOON, None, {"event": {"amount": 12.5, "channel": "shop"}}, None, False
        )
    assert registry.requests == ["/schemas/ids/1", "/schemas/ids/2"]


def test_a_readers_schema_brings_defaults_and_aliases(registry: SchemaRegistry, tmp_path: Path) -> None:
    """A field that was renamed is read under its new name, and one that an old record lacks has its default."""
    written = {**FIRST, "fields": [{"name": "ticket", "type": "int"}, *FIELDS[1:]]}
    renamed = {"name": "order", "type": "long", "aliases": ["ticket"]}
    path = tmp_path / "reader.avsc"
    path.write_text(
        json.dumps({**FIRST, "fields": [renamed, *FIELDS[1:], {"name": "channel", "type": "string", "default": "web"}]})
    )
    number = registry.register("orders-value", json.dumps(written))
    source = reader(registry, "avro", reader_schema=path)
    found = event(source, framed(number, avro(written, {**ORDER, "ticket": 9})))
    assert (found.case, found.attributes) == ("9", {"event": {"channel": "web"}})


def test_avro_schemas_refer_to_others(registry: SchemaRegistry) -> None:
    """A type that is under a subject of its own is fetched by subject and version."""
    clerk = {"type": "record", "name": "shop.Clerk", "fields": [{"name": "name", "type": "string"}]}
    registry.register("clerk", json.dumps(clerk))
    outer = {**FIRST, "fields": [*FIELDS[:3], {"name": "by", "type": "shop.Clerk"}]}
    reference = {"name": "shop.Clerk", "subject": "clerk", "version": 1}
    number = registry.register("orders-value", json.dumps(outer), references=(reference,))
    assert event(reader(registry, "avro"), framed(number, avro(FIRST, ORDER).replace(b"\x02\x06Ann", b"\x06Ann"))) == (
        SourceEvent("7", "pack", NOON, "Ann", None, None, False)
    )


def test_bad_avro_records_have_a_reason_each(registry: SchemaRegistry) -> None:
    """No magic byte, an id that nobody registered, a body that ends early or continues, one of another schema.

    A schema that cannot be parsed, one of another type, and values that are not an event.
    """
    source, body = reader(registry, "avro"), avro(FIRST, ORDER)
    number = registry.register("orders-value", json.dumps(FIRST))
    assert refusal(source, None) == "null_value"
    assert refusal(source, b"") == refusal(source, b"\0\0\0\0") == "no_schema_id"
    assert refusal(source, json.dumps(ORDER).encode()) == "no_schema_id"
    assert refusal(source, framed(77, body)) == "unknown_schema"
    for size in range(len(body)):
        assert refusal(source, framed(number, body[:size])) == "body"
    assert refusal(source, framed(number, body + b"\0")) == "body"
    assert refusal(source, framed(number, b"\xff" * 20)) == "body"
    empty = avro(FIRST, {**ORDER, "step": ""})
    assert refusal(source, framed(number, empty)) == "schema"
    late = avro(FIRST, {**ORDER, "at": 1 << 60})
    assert refusal(source, framed(number, late)) in ("body", "time")
    plain = {**FIRST, "fields": [*FIELDS[:2], {"name": "at", "type": "long"}, FIELDS[3]]}
    assert refusal(source, framed(registry.register("p", json.dumps(plain)), avro(plain, ORDER))) == "time"
    assert refusal(source, framed(registry.register("x", '{"type": "record"}'), body)) == "bad_schema"
    assert refusal(source, framed(registry.register("j", '{"type": "object"}', "JSON"), b"{}")) == "schema_type"


def test_a_number_is_a_time_if_its_unit_is_declared(registry: SchemaRegistry) -> None:
    """`time_unit` says what a bare long counts."""
    plain = {**FIRST, "fields": [*FIELDS[:2], {"name": "at", "type": "long"}, FIELDS[3]]}
    number = registry.register("orders-value", json.dumps(plain))
    schema = Schema(names=NAMES, format="avro", time_unit="ms")
    source = event_decoder(schema, registry=RegistryOptions(url=registry.url))
    assert source is not None
    assert event(source, framed(number, avro(plain, ORDER))).time_ns == NOON


@pytest.mark.parametrize("at", [9_300_000_000_000, -62_135_596_800_000])
def test_a_time_outside_64_bits_is_no_time(registry: SchemaRegistry, at: int) -> None:
    """A timestamp of Avro that Python's calendar takes and nanoseconds in 64 bits do not: the years 2264 and 1."""
    source, number = reader(registry, "avro"), registry.register("orders-value", json.dumps(FIRST))
    assert refusal(source, framed(number, avro(FIRST, {**ORDER, "at": at}))) == "time"


DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}


def test_decimal_ids_keep_all_digits(registry: SchemaRegistry) -> None:
    """Two keys that differ in the last digit are two cases, and a whole number has no fraction."""
    from decimal import Decimal

    schema = {**FIRST, "fields": [{"name": "order", "type": DIGITS}, *FIELDS[1:]]}
    source, number = reader(registry, "avro"), registry.register("orders-value", json.dumps(schema))
    shown = {
        "12345678901234567890123456789012.00": "12345678901234567890123456789012",
        "12345678901234567890123456789013.00": "12345678901234567890123456789013",
        "1234567890123456789012345678901.50": "1234567890123456789012345678901.5",
        "7.25": "7.25",
        "100.00": "100",
        "0.00": "0",
    }
    values = {text: framed(number, avro(schema, {**ORDER, "order": Decimal(text)})) for text in shown}
    assert {text: event(source, value).case for text, value in values.items()} == shown


# Protobuf

CLERK = 'syntax = "proto3"; package shop; message Clerk { string name = 1; }'
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "shop/clerk.proto";
message Other { string nothing = 1; }
message Step {
  enum Kind { UNKNOWN = 0; PACK = 1; }
  int64 order = 1;
  Kind step = 2;
  google.protobuf.Timestamp at = 3;
  Clerk by = 4;
  optional double amount = 5;
  message Deep { int64 order = 1; string step = 2; google.protobuf.Timestamp at = 3; }
}
"""


def proto_types(folder: Path, name: str, text: str) -> Any:
    """The message classes of a file, compiled by protoc as a producer would."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    (folder / "shop").mkdir(exist_ok=True)
    (folder / "shop" / "clerk.proto").write_text(CLERK)
    (folder / name).write_text(text)
    own = str(Path(protoc.__file__).parent / "_proto")
    out = str(folder / "out.bin")
    arguments = ["protoc", f"-I{folder}", f"-I{own}", f"--descriptor_set_out={out}", "--include_imports", name]
    assert protoc.main(arguments) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(Path(out).read_bytes()).file:
        pool.Add(file)
    return lambda kind: message_factory.GetMessageClass(pool.FindMessageTypeByName(kind))


def proto_step(kind: Any, **more: Any) -> Any:
    """A message."""
    step = kind(order=7, step=1, **more)
    step.at.seconds = NOON // 10**9
    step.by.name = "Ann"
    return step


def register_proto(registry: SchemaRegistry, text: str) -> int:
    """The id of a schema that imports the clerk's."""
    registry.register("shop/clerk.proto", CLERK, "PROTOBUF")
    reference = {"name": "shop/clerk.proto", "subject": "shop/clerk.proto", "version": 1}
    return registry.register("orders-value", text, "PROTOBUF", (reference,))


def test_protobuf_messages_by_their_index(registry: SchemaRegistry, tmp_path: Path) -> None:
    """The second message of a file, one inside of it, and the short form of the first; enums are names; an optional
    field that is not set is absent; fields of a later schema come with it."""
    types = proto_types(tmp_path, "one.proto", PROTO)
    number, source = register_proto(registry, PROTO), reader(registry, "protobuf")
    body = proto_step(types("shop.Step")).SerializeToString()
    assert event(source, framed(number, b"\x02\x02" + body)) == SourceEvent("7", "PACK", NOON, "Ann", None, None, False)
    deep = types("shop.Step.Deep")(order=8, step="deep")
    deep.at.seconds, deep.at.nanos = 1, 5
    found = event(source, framed(number, b"\x04\x02\x00" + deep.SerializeToString()))
    assert (found.case, found.activity, found.time_ns) == ("8", "deep", 1_000_000_005)
    assert refusal(source, framed(number, b"\x00" + types("shop.Other")(nothing="x").SerializeToString())) == "schema"
    evolved = PROTO.replace("optional double", "string channel = 9; optional double")
    later = register_proto(registry, evolved)
    message = proto_step(proto_types(tmp_path, "two.proto", evolved)("shop.Step"), amount=2.5, channel="web")
    value = framed(later, b"\x02\x02" + message.SerializeToString())
    assert event(source, value).attributes == {"event": {"amount": 2.5, "channel": "web"}}
    assert event(source, framed(number, value[5:])).attributes == {"event": {"amount": 2.5}}


def test_bad_protobuf_records_have_a_reason_each(registry: SchemaRegistry, tmp_path: Path) -> None:
    """An index of no message, a body that ends early, and a schema that protoc refuses."""
    number, source = register_proto(registry, PROTO), reader(registry, "protobuf")
    body = proto_step(proto_types(tmp_path, "one.proto", PROTO)("shop.Step")).SerializeToString()
    assert refusal(source, b"\0\0\0") == "no_schema_id"
    assert refusal(source, framed(number + 9, b"\x00")) == "unknown_schema"
    for indexes in (b"", b"\x02", b"\x02\x08", b"\x04\x02\x08", b"\x01", b"\x02\x01", b"\xff\xff\xff\xff\xff\xff"):
        assert refusal(source, framed(number, indexes)) == "message_index"
    assert refusal(source, framed(number, b"\x02\x02" + body[:-1])) == "body"
    assert refusal(source, framed(number, b"\x02\x02" + b"\xff" * 9)) == "body"
    broken = registry.register("broken", PROTO.replace("int64 order", "int65 order"), "PROTOBUF")
    assert refusal(source, framed(broken, b"\x00")) == "bad_schema"
    for name in ("../../outside.proto", "/outside.proto", "a\0b.proto", "shop", "shop/clerk.proto/a", "a" * 300):
        known = {"name": "shop/clerk.proto", "subject": "shop/clerk.proto", "version": 1}
        reference = {"name": name, "subject": "shop/clerk.proto", "version": 1}
        odd = registry.register("odd", PROTO, "PROTOBUF", (known, reference))
        assert refusal(source, framed(odd, b"\x00")) == "bad_schema"


def test_protobuf_as_confluents_serializer_writes_it(registry: SchemaRegistry, tmp_path: Path) -> None:
    """The bytes of the library that producers use, and the references that it registers."""
    kind = proto_types(tmp_path, "one.proto", PROTO)("shop.Step")
    client = SchemaRegistryClient({"url": registry.url})
    serialize = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    value = serialize(proto_step(kind), SerializationContext("orders", MessageField.VALUE))
    for schema, text in zip(registry.schemas, (CLERK, PROTO), strict=True):
        schema["schema"] = text  # it registers descriptors in base64, of which a registry makes text
    assert event(reader(registry, "protobuf"), value) == SourceEvent("7", "PACK", NOON, "Ann", None, None, False)


ANY = """
syntax = "proto3";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Step { int64 order = 1; string step = 2; google.protobuf.Timestamp at = 3; google.protobuf.Struct amount = 4; }
"""


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_struct_that_is_no_json_has_a_reason(registry: SchemaRegistry, tmp_path: Path, value: float) -> None:
    """Protobuf carries a NaN where JSON has none."""
    number, source = registry.register("orders-value", ANY, "PROTOBUF"), reader(registry, "protobuf")
    message = proto_types(tmp_path, "any.proto", ANY)("Step")(order=7, step="pack")
    message.at.seconds = 5
    message.amount["x"] = 1.5
    sound = framed(number, b"\x00" + message.SerializeToString())
    assert event(source, sound).attributes == {"event": {"amount": {"x": 1.5}}}
    message.amount["x"] = value
    assert refusal(source, framed(number, b"\x00" + message.SerializeToString())) == "body"


def test_a_machine_without_room_reports_no_schema(
    registry: SchemaRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder for temporary files, and a protoc that is killed or cannot write: asked again, then read."""
    number, source = register_proto(registry, PROTO), reader(registry, "protobuf")
    step = proto_step(proto_types(tmp_path, "one.proto", PROTO)("shop.Step"))
    value = framed(number, b"\x02\x02" + step.SerializeToString())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnavailableError, match="protoc cannot run"):
        event(source, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    program = protobuf._PROTOC
    for ending in ("import os; os.kill(os.getpid(), 9)", "raise MemoryError", "import os; os.mkdir(sys.argv[2])\n"):
        monkeypatch.setattr(protobuf, "_PROTOC", f"import sys\n{ending}" + (program if "mkdir" in ending else ""))
        with pytest.raises(UnavailableError, match="protoc ended with code"):
            event(source, value)
    monkeypatch.setattr(protobuf, "_PROTOC", program)
    assert event(source, value).case == "7"


# JSON Schema

SHAPE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"order": {"type": "integer"}, "step": {"type": "string"}, "by": {"$ref": "clerk.json"}},
    "required": ["order", "step"],
}
PLAIN = {"order": 7, "step": "pack", "at": "2024-01-01T12:00:00Z", "by": {"name": "Ann"}}


def test_json_with_a_schema_is_checked_by_it(registry: SchemaRegistry) -> None:
    """A record must be of the schema that its id names, references included; a later schema may ask for less."""
    registry.register("clerk", '{"type": "object", "required": ["name"]}', "JSON")
    reference = {"name": "clerk.json", "subject": "clerk", "version": 1}
    number = registry.register("orders-value", json.dumps(SHAPE), "JSON", (reference,))
    loose = registry.register("orders-value", json.dumps({**SHAPE, "properties": {}, "required": []}), "JSON")
    source = reader(registry, "json-schema")
    assert event(source, framed(number, json.dumps(PLAIN).encode())) == (
        SourceEvent("7", "pack", NOON, "Ann", None, None, False)
    )
    text = json.dumps({**PLAIN, "order": "A-7", "channel": "web"}).encode()
    assert refusal(source, framed(number, text)) == "invalid"
    assert event(source, framed(loose, text)).attributes == {"event": {"channel": "web"}}
    assert refusal(source, framed(number, json.dumps({**PLAIN, "by": {}}).encode())) == "invalid"
    assert refusal(source, framed(number, b'{"order": 7')) == "not_json"
    assert refusal(source, framed(number, b"\xff\xfe")) == "not_json"
    assert refusal(source, framed(loose, b"[]")) == "invalid"
    assert refusal(source, json.dumps(PLAIN).encode()) == "no_schema_id"
    lost = registry.register("lost", '{"$ref": "http://127.0.0.1:1/elsewhere.json"}', "JSON")
    assert refusal(source, framed(lost, b"{}")) == "bad_schema"
    wrong = registry.register("wrong", '{"type": "nothing"}', "JSON")
    assert refusal(source, framed(wrong, b"{}")) == "bad_schema"


# Debezium by a registry

COLUMNS_OF_ROW = [{"name": "id", "type": "int"}, {"name": "status", "type": ["null", "string"], "default": None}]
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "server.public.customers",
    "fields": [
        {
            "name": "before",
            "type": ["null", {"type": "record", "name": "Value", "fields": COLUMNS_OF_ROW}],
            "default": None,
        },
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "table", "type": "string"},
                    {"name": "lsn", "type": ["null", "long"], "default": None},
                ],
            },
        },
        {"name": "op", "type": "string"},
    ],
}


def test_changes_come_in_avro_with_an_avro_key(registry: SchemaRegistry) -> None:
    """The envelope by its schema, then by one with a column more; the case from a key that has a schema too."""
    key_schema = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    key = framed(registry.register("k", json.dumps(key_schema)), avro(key_schema, {"id": 7}))
    mappings = (
        EventMapping(column=("status",), activity="{table} {value}", case="@key.id"),
        EventMapping(column=("channel",), activity="channel {value}", case="row.id"),
    )
    options = RegistryOptions(url=registry.url)
    source = event_decoder(Schema(format="debezium"), registry=options, mappings=mappings)
    assert source is not None
    assert source.prepare is not None

    def events(schema: dict[str, Any], **row: Any) -> list[tuple[str, str]]:
        before, after = {"id": 7, "status": "new"}, {"id": 7, "status": "paid", **row}
        change = {"before": before, "after": after, "op": "u", "source": {"ts_ms": 5, "table": "customers", "lsn": 9}}
        message = Message("t", key, framed(registry.register("v", json.dumps(schema)), avro(schema, change)))
        source.prepare([message])  # type: ignore[union-attr, misc]
        return [(event.case, event.activity) for event in events_of(source.decode, message)]  # type: ignore[union-attr]

    assert events(ENVELOPE) == [("7", "customers paid")]
    wider = json.loads(json.dumps(ENVELOPE))
    wider["fields"][0]["type"][1]["fields"].append({"name": "channel", "type": "string", "default": "web"})
    assert events(wider, channel="shop") == [("7", "customers paid"), ("7", "channel shop")]


# the registry itself


def test_an_outage_is_no_reason_for_the_dlq(registry: SchemaRegistry) -> None:
    """While the registry is away, answers 5xx or refuses us, nothing is decided about a record; then it is read."""
    number = registry.register("orders-value", json.dumps(FIRST))
    source, value = reader(registry, "avro"), framed(number, avro(FIRST, ORDER))
    for status in (500, 503, 401, 403, 429):
        registry.status = status
        with pytest.raises(UnavailableError, match=f"HTTP {status}"):
            event(source, value)
    registry.stop()
    with pytest.raises(UnavailableError, match="does not answer"):
        event(source, value)
    registry.status = None
    registry.start()
    assert event(source, value).case == "7"
    registry.stop()
    assert event(source, value).case == "7"  # known by now


def test_an_id_that_is_registered_late_becomes_known(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, naps: list[float]
) -> None:
    """An unknown id is asked for twice, not with every record, and not refused forever."""
    source, value = reader(registry, "avro"), framed(1, avro(FIRST, ORDER))
    for _ in range(4):
        assert refusal(source, value) == "unknown_schema"
    assert (len(registry.requests), naps) == (2, [1.0])
    registry.register("orders-value", json.dumps(FIRST))
    later = time.monotonic() + 61
    monkeypatch.setattr("connectors.kafka.registry.time", SimpleNamespace(monotonic=lambda: later))
    assert event(source, value).case == "7"


def test_a_schema_that_comes_a_moment_after_its_record_is_waited_for(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes of a registry agree a moment late: one short wait for all unknown ids of a batch, and no dead letter."""
    source, naps = reader(registry, "avro"), []

    def registered(seconds: float) -> None:
        naps.append(seconds)
        registry.register("orders-value", json.dumps(FIRST))
        registry.register("orders-value", json.dumps(SECOND))

    monkeypatch.setattr("connectors.kafka.registry.time", SimpleNamespace(sleep=registered, monotonic=time.monotonic))
    values = [framed(1, avro(FIRST, ORDER)), framed(2, avro(SECOND, {**ORDER, "channel": "web"}))]
    messages = [Message("orders", None, value) for value in values]
    assert source.prepare is not None
    source.prepare(messages)
    assert [found.case for message in messages for found in events_of(source.decode, message)] == ["7", "7"]
    assert naps == [1.0]


def test_an_address_that_is_no_registry_is_an_outage(registry: SchemaRegistry) -> None:
    """A wrong path answers 404 to everything: no record may go to the dlq for it."""
    number = registry.register("orders-value", json.dumps(FIRST))
    found = event_decoder(Schema(names=NAMES, format="avro"), registry=RegistryOptions(url=registry.url + "/elsewhere"))
    assert found is not None
    with pytest.raises(UnavailableError, match=r"/elsewhere: the address answers, but is not a registry"):
        event(found, framed(number, avro(FIRST, ORDER)))
    registry.status = 404
    with pytest.raises(UnavailableError, match="is not a registry"):
        event(reader(registry, "avro"), framed(number, avro(FIRST, ORDER)))


def test_ids_that_no_registry_gives_are_not_asked_for(registry: SchemaRegistry) -> None:
    """Four bytes hold more than the registry's `int`; and what it calls a bad request will not become a good one."""
    source, body = reader(registry, "avro"), avro(FIRST, ORDER)
    for number in (1 << 31, (1 << 32) - 1):
        assert refusal(source, framed(number, body)) == "unknown_schema"
    assert registry.requests == []
    for status, number in ((400, 5), (422, 6)):
        registry.status = status
        assert refusal(source, framed(number, body)) == "unknown_schema"


def test_each_answer_of_the_registry_is_progress(registry: SchemaRegistry, naps: list[float]) -> None:
    """A fetch full of unknown ids takes long: each answer is reported, and all of them wait once."""
    source, answers = reader(registry, "avro"), []
    assert source.prepare is not None
    messages = [Message("orders", None, framed(number, b"")) for number in range(1, 31)]
    source.prepare(messages, lambda: answers.append(len(registry.requests)))
    assert (answers, naps) == ([*range(1, 61)], [1.0])


def test_an_outage_between_two_looks_leaves_the_second_one(registry: SchemaRegistry, naps: list[float]) -> None:
    """An id that was unknown when the registry went away is asked for again when it is back."""
    source, value = reader(registry, "avro"), framed(1, avro(FIRST, ORDER))
    assert source.prepare is not None

    def stop() -> None:
        registry.status = 503

    message = Message("orders", None, value)
    with pytest.raises(UnavailableError, match="HTTP 503"):
        source.prepare([message], stop)
    registry.status = None
    registry.register("orders-value", json.dumps(FIRST))
    source.prepare([message])
    assert [one.case for one in events_of(source.decode, message)] == ["7"]


def test_references_in_a_circle_end(registry: SchemaRegistry) -> None:
    """A schema that refers to itself by way of another is refused, or read; it does not hang."""
    reference = [{"name": name, "subject": name, "version": 1} for name in ("a", "b")]
    registry.register("a", '"shop.B"', references=(reference[1],))
    number = registry.register("b", '"shop.A"', references=(reference[0],))
    assert refusal(reader(registry, "avro"), framed(number, b"\0")) == "bad_schema"


@pytest.mark.parametrize("way", ["basic", "bearer"])
def test_credentials_come_from_files(way: str, tmp_path: Path) -> None:
    """Basic by username and password file, a bearer token from a file that is read again when it is renewed; no secret
    is in an error."""
    secret = tmp_path / "secret"
    secret.write_text("wrong-secret\n")
    basic, bearer = (("vera", "right"), None) if way == "basic" else (None, "right")
    with SchemaRegistry(basic=basic, bearer=bearer) as registry:
        number = registry.register("orders-value", json.dumps(FIRST))
        given: dict[str, Any] = {"username": "vera", "password_file": secret} if basic else {"token_file": secret}

        def source() -> EventDecoder:
            options = RegistryOptions(url=registry.url, allow_credentials_without_tls=True, **given)
            found = event_decoder(Schema(names=NAMES, format="avro"), registry=options)
            assert found is not None
            return found

        one = source()
        with pytest.raises(UnavailableError) as caught:
            event(one, framed(number, avro(FIRST, ORDER)))
        assert "refuses our credentials" in str(caught.value)
        assert "wrong-secret" not in str(caught.value)
        secret.write_text("right\n")
        assert event(one if bearer else source(), framed(number, avro(FIRST, ORDER))).case == "7"


def test_tls_is_verified_and_shows_our_certificate(tmp_path: Path) -> None:
    """An authority that we do not know is an outage, and the registry sees the certificate that it asks for."""
    certificates(tmp_path)
    served = SchemaRegistry().encrypted(
        tmp_path / "broker-cert.pem", tmp_path / "broker-key.pem", clients=tmp_path / "ca.pem"
    )
    with served as registry:
        number = registry.register("orders-value", json.dumps(FIRST))
        own = {"cert_file": tmp_path / "client-cert.pem", "key_file": tmp_path / "client-key.pem"}
        wrong: list[dict[str, Any]] = [{"ca_file": tmp_path / "stranger.pem", **own}, {"ca_file": tmp_path / "ca.pem"}]
        for given in (*wrong, {"ca_file": tmp_path / "ca.pem", **own}):
            options = RegistryOptions(url=registry.url, **given)
            source = event_decoder(Schema(names=NAMES, format="avro"), registry=options)
            assert source is not None
            if given in wrong:
                with pytest.raises(UnavailableError, match="does not answer"):
                    event(source, framed(number, avro(FIRST, ORDER)))
        assert event(source, framed(number, avro(FIRST, ORDER))).case == "7"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": "registry:8081"}, "http://host:port"),
        ({"url": "https://vera:secret-word@registry"}, "the address contains credentials"),
        ({"url": "http://registry", "token": "secret-word"}, "allow_credentials_without_tls"),
        ({"url": "https://registry", "username": "vera"}, "go together"),
        ({"url": "https://registry", "username": "v", "password": "secret-word", "token": "t"}, "not both"),
        ({"url": "https://registry", "key_file": "k"}, "key_file needs cert_file"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(given: dict[str, Any], message: str) -> None:
    """One reason, and no secret in it."""
    with pytest.raises(ValidationError) as caught:
        RegistryOptions(**given)
    assert message in str(caught.value)
    assert "secret-word" not in str(caught.value)


def test_a_missing_library_or_file_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line to type where the extra is not installed; the setting and the file where one cannot be read."""
    options = RegistryOptions(url="http://127.0.0.1:1", ca_file=tmp_path / "none.pem")
    with pytest.raises(InputError, match="TLS files cannot be used"):
        event_decoder(Schema(format="avro"), registry=options)
    options = RegistryOptions(url="http://127.0.0.1:1")
    with pytest.raises(InputError, match=r"source.reader_schema: .*none.avsc cannot be read"):
        event_decoder(Schema(format="avro"), registry=options, reader_schema=tmp_path / "none.avsc")
    other = tmp_path / "other.avsc"
    for text in ('{"type": "record"}', '{"a": 1}', "[]x", '"shop.Unknown"'):
        other.write_text(text)
        with pytest.raises(InputError, match=r"source.reader_schema: .*other.avsc is no"):
            event_decoder(Schema(format="avro"), registry=options, reader_schema=other)
    import sys

    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(InputError, match=r"pip install 'veilstream\[registry\]'"):
        event_decoder(Schema(format="avro"), registry=options)
