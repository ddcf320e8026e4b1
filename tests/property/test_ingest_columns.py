"""Ingest by columns against the oracle, record by record: the same deltas byte for byte, and the same dead letters,
whatever the records hold."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.columns import ColumnNames
from connectors.kafka import events
from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from stream.daemon.deltas import Clocks, DeltaWriter, LogState
from stream.values.pseudonym import Pseudonyms
from tests.conftest import examples
from tests.oracles.ingest import RecordWriter
from tests.oracles.ingest import event_decoder as record_decoder
from tests.source_records import Message, source_record

NOW = 1_735_689_600_000_000_000
"""2025-01-01, UTC."""

CASE, ACTIVITY, TIME, RESOURCE = "case:concept:name", "concept:name", "time:timestamp", "org:resource"
PLAIN = {CASE: "a", ACTIVITY: "x", TIME: "2025-01-01T00:00:00Z"}

EDGES = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**40)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(EDGES),
    st.floats(),
    st.text(max_size=4),
)
anything = st.one_of(
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    st.sampled_from(["[" * 33 + "]" * 33, "9" * 400, "1e999", '"\\ud800"', '"' + "x" * 900 + '"']).map(
        lambda one: msgspec.Raw(one.encode())
    ),
)
times = st.one_of(
    st.sampled_from(
        [
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00+01:00",
            "2024-12-31 23:00:00.123456789Z",
            "2025-01-01T00:01:00Z",
            "2025-01-01T00:01:00.001Z",
            "2025-01-01T00:00:00",
            "1969-01-01",
            "1500-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "20250101T000000.1234567Z",
            "",
            "yesterday",
        ]
    ),
    anything,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        CASE: st.one_of(st.sampled_from(["a", "b", "", 7]), anything),
        ACTIVITY: st.one_of(st.sampled_from(["x", "y", ""]), anything),
        TIME: times,
        RESOURCE: st.one_of(st.sampled_from(["Ann", "", 3]), anything),
        "id": st.one_of(st.sampled_from(["1", 2]), anything),
        "last": st.one_of(st.booleans(), anything),
        "who": anything,
        "case:who": anything,
        "note": anything,
        "lifecycle:transition": st.one_of(st.sampled_from(["start", "COMPLETE", "suspend"]), anything),
        "case:note": anything,
        "specversion": st.sampled_from(["1.0", "2.0", 1]),
        "data": anything,
    },
)
good = st.fixed_dictionaries(
    {
        CASE: st.sampled_from(["a", "b", 7]),
        ACTIVITY: st.sampled_from(["x", "y"]),
        TIME: st.just("2025-01-01T00:00:00Z"),
        "who": st.one_of(st.text(max_size=3), st.sampled_from([1, 2.5, True])),
    },
    optional={
        RESOURCE: st.sampled_from(["Ann", 3]),
        "lifecycle:transition": st.sampled_from(["start", "COMPLETE", "suspend"]),
        "case:note": st.just("n"),
        "last": st.booleans(),
        "id": st.just(1),
    },
)
AROUND = ("2024-12-31T23:59:59.999999Z", "2025-01-01T00:01:00Z", "2025-01-01T00:01:00.000001Z")
"""Before the earliest, at the end of what may run ahead of the clock, and behind it."""
NAMES = (CASE, ACTIVITY, RESOURCE, "id", "last", "who", "case:who", "note", "case:note", "specversion")
nearly = st.one_of(
    st.builds(lambda whole, name: {**whole, name: ""}, good, st.sampled_from([CASE, ACTIVITY, "specversion"])),
    st.builds(lambda whole, name, value: {**whole, name: value}, good, st.sampled_from(NAMES), anything),
    st.builds(lambda whole, value: {**whole, "who": value}, good, st.sampled_from([*EDGES, [], {"a": 2**70}])),
    st.builds(lambda whole, size: {**whole, "who": "w" * size}, good, st.integers(0, 200)),
    st.builds(lambda whole, when: {**whole, TIME: when}, good, times),
    st.builds(lambda whole, when: {**whole, TIME: when}, good, st.sampled_from(AROUND)),
)
"""An event of which one field may be anything."""


def text(fields: dict[str, Any]) -> bytes:
    """As a producer writes it, with a raw value as it is."""
    members = []
    for name, value in fields.items():
        raw = bytes(value).decode() if isinstance(value, msgspec.Raw) else json.dumps(value)
        members.append(f"{json.dumps(name)}: {raw}")
    return ("{" + ", ".join(members) + "}").encode()


def structured(fields: dict[str, Any], version: str) -> bytes:
    """The event in a CloudEvent."""
    return b'{"specversion": "' + version.encode() + b'", "id": "e1", "data": ' + text(fields) + b"}"


bodies = st.one_of(
    good.map(text),
    good.map(text),
    nearly.map(text),
    nearly.map(text),
    nearly.map(text),
    fields.map(text),
    st.builds(structured, good, st.sampled_from(["1.0", "2.0"])),
    st.none(),
    st.binary(max_size=8),
    st.sampled_from([b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"case:concept:name": "\xff"}', b"[" * 5000]),
    st.builds(lambda one, two: one + b"," + two, good.map(text), good.map(text)),
)
headers = st.sampled_from(
    [
        *[()] * 12,
        (("trace", b"1"),),
        (("ce_specversion", b"1.0"), ("ce_id", b"e9")),
        (("ce_specversion", None), ("content-type", b"application/cloudevents+json; charset=utf-8")),
        (("ce_specversion", b"3"),),
    ]
)
plain = st.tuples(good.map(text), st.just(()))
other = st.tuples(st.one_of(nearly.map(text), nearly.map(text), bodies), headers)
few = st.builds(
    lambda some, one, place: [*some[:place], one, *some[place:]],
    st.lists(plain, max_size=4),
    other,
    st.integers(0, 4),
)


def repeated(count: int, some: list[Any], begin: int) -> list[Any]:
    """So many records: plain ones up to `begin`, then the given ones over and over."""
    return [some[place % len(some)] if place >= begin else (text(PLAIN), ()) for place in range(count)]


many = st.builds(
    repeated,
    st.integers(1, 30),
    st.lists(st.one_of(plain, plain, other), min_size=1, max_size=5),
    st.integers(0, 30),
)
"""Several records that may be anything, anywhere behind `begin`."""
batches = st.one_of(few, few, many)

schemas = st.builds(
    Schema,
    names=st.just(ColumnNames()),
    attributes=st.sampled_from([("who",), ("who", "note"), ("note", "who", "missing")]),
    timezone=st.sampled_from([None, "UTC", "Europe/Berlin"]),
    event_id=st.sampled_from([None, "id", "ce:id"]),
    end=st.sampled_from([None, "last"]),
    lifecycle=st.sampled_from([None, None, "complete", "both"]),
    format=st.sampled_from(["auto", "auto", "auto", "json", "cloudevents"]),
)


def writers(schema: Schema, **more: Any) -> tuple[DeltaWriter, RecordWriter]:
    """The program's writer and the oracle, with the same settings."""
    program = DeltaWriter(event_decoder(schema), Pseudonyms(bytes(32)), 60_000_000_000, **more)
    return program, RecordWriter(record_decoder(schema), Pseudonyms(bytes(32)), 60_000_000_000, **more)


def fetched(values: list[tuple[bytes | None, Any]]) -> list[Message]:
    """As the client gives them."""
    return [source_record(3 + 2 * place, value, top) for place, (value, top) in enumerate(values)]


@examples(400)
@given(
    schemas,
    batches,
    st.one_of(st.integers(1150, 1600), st.just(524_288)),
    st.sampled_from([None, NOW]),
    st.sampled_from([None, "who"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@example(Schema(), [(b"[" * 5000, ()), (None, ())], 1200, None, None, False, True, False)
def test_columns_make_the_bytes_of_the_oracle(
    schema: Schema,
    values: list[tuple[bytes | None, Any]],
    limit: int,
    earliest: int | None,
    person: str | None,
    raw: bool,
    stamped: bool,
    payload: bool,
) -> None:
    """Rows, splits, refusals with their offsets and classes, and what a second batch makes of remembered names."""
    program, oracle = writers(
        schema, limit=limit, earliest=earliest, person=person, raw_resources=raw, dlq_payload=payload
    )
    batch, log = fetched(values), LogState("topic id", 4, ((4, 0),))
    clocks: Clocks = [NOW - place * 1_000_000 for place in range(len(values))] if stamped else NOW
    for prev in (2, 0):
        assert program.write("t", 1, prev, batch, clocks, log) == oracle.write("t", 1, prev, batch, clocks, log)
    assert program.left_out == oracle.left_out


def test_a_plain_batch_is_decoded_once_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record is looked at alone, whether the rows fit into one delta or not: speed is promised for this case."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a record left a plain batch")

    monkeypatch.setattr(events._Table, "_remove", refuse)
    schema = Schema(attributes=("who",), event_id="id", end="last")
    value = text({**PLAIN, "who": 2**63 - 1, "id": 4, "last": True})
    batch = fetched([(value, (("trace", b"1"),)), (value, ()), (value, ())])
    for limit, last in ((524_288, [7]), (1200, [3, 5, 7])):
        encoded, letters = writers(schema, limit=limit)[0].write("t", 0, 2, batch, NOW)
        assert letters == []
        deltas = [msgspec.json.decode(one) for one in encoded]
        assert [one["last"] for one in deltas] == last
        assert [one["prev"] for one in deltas] == [2, *last[:-1]]
        assert [row[0] for one in deltas for row in one["rows"]] == [3, 5, 7]
        assert {one["wm"] for one in deltas} == {NOW}


def test_splits_are_those_of_the_oracle_at_every_limit() -> None:
    """Also where a row just fits, and where it just does not."""
    event = {ACTIVITY: "x", TIME: "2025-01-01T00:00:00Z"}
    batch = fetched([(text({**event, CASE: "c", RESOURCE: "r" * place}), ()) for place in range(6)])
    counts = set()
    for limit in range(1100, 1900):
        program, oracle = writers(Schema(), limit=limit, raw_resources=True)
        encoded, letters = program.write("t", 0, 2, batch, NOW)
        assert (encoded, letters) == oracle.write("t", 0, 2, batch, NOW)
        counts.add(len(encoded))
    assert counts >= {1, 2, 3, 6}


def test_remembered_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudonyms of cases and resources stay the same when the memory of them begins again."""
    monkeypatch.setattr("stream.daemon.deltas.MOST_NAMES", 2)
    program, _ = writers(Schema(), limit=524_288)
    event = {ACTIVITY: "x", TIME: "2025-01-01T00:00:00Z"}
    values = [text({**event, CASE: f"c{place % 5}", RESOURCE: f"r{place % 4}"}) for place in range(20)]
    (encoded,), _ = program.write("t", 0, -1, fetched([(value, ()) for value in values]), NOW)
    names = Pseudonyms(bytes(32))
    rows = msgspec.json.decode(encoded)["rows"]
    assert [row[1] for row in rows] == [names.case(f"c{place % 5}") for place in range(20)]
    assert [row[4] for row in rows] == [names.resource(f"r{place % 4}") for place in range(20)]
    assert len(program._case_names) <= 2
    assert len(program._resource_names) <= 2
