"""`[[source.mapping]]`: table changes of Debezium, an outbox, and plain JSON, each to events or to a reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors.kafka.events import LeftOut, Poison, Schema, SourceEvent
from connectors.kafka.formats import event_decoder
from connectors.kafka.mapping import EventMapping
from connectors.kafka.source import Source
from stream.commands import execute
from tests.debezium_records import (
    OUTBOX_HEADERS,
    OUTBOX_ROUTED,
    OUTBOX_ROW,
    Row,
    customer,
    encoded,
    mysql,
    postgres,
)
from tests.source_records import Message, events_of

CHANGED = 1_559_033_904_863_123_000
STATUS = {"table": "customers", "column": "status", "activity": "{table}.{column} set to {value}", "case": "row.id"}


def read(
    record: Row | bytes | None, *mappings: dict[str, Any], take: bool = False, wrapped: bool = False, **message: Any
) -> list[SourceEvent]:
    """The events of a change."""
    source = event_decoder(
        Schema(format="debezium"),
        mappings=tuple(EventMapping.model_validate(one) for one in mappings),
        snapshots=take,
    )
    value = encoded(record, wrapped=wrapped) if isinstance(record, dict) else record
    return events_of(source.decode, Message("server.public.customers", message.pop("key", None), value, **message))


def read_json(value: Any, *mappings: dict[str, Any], **message: Any) -> list[SourceEvent]:
    """The events of a plain JSON record."""
    source = event_decoder(Schema(format="json"), mappings=tuple(EventMapping.model_validate(one) for one in mappings))
    return events_of(
        source.decode,
        Message(
            "orders",
            message.pop("key", None),
            value if isinstance(value, bytes) else json.dumps(value).encode(),
            **message,
        ),
    )


def left_out(*given: Any, **more: Any) -> str:
    """Why a sound record is not an event."""
    with pytest.raises(LeftOut) as caught:
        read(*given, **more)
    return caught.value.kind


def refusal(*given: Any, **more: Any) -> str:
    """The class of error of a record."""
    with pytest.raises(Poison) as caught:
        read(*given, **more)
    return caught.value.kind


@pytest.mark.parametrize("wrapped", [False, True], ids=["payload", "schema and payload"])
def test_each_operation_is_an_event(wrapped: bool) -> None:
    """Create, update and delete of a row, with and without Connect's wrapper; the time is the database's, in its finest
    unit, and the row of a delete is the one before it."""
    mapping = {
        "table": ["orders", "public.customers"],
        "activity": "{operation} {table}",
        "case": "customer-{row.id}",
        "resource": "source.txId",
        "attributes": {"case:mail": "row.email", "status": "after.status"},
    }
    rows = {"c": (None, customer()), "u": (customer(), customer(status="paid")), "d": (customer(status="paid"), None)}
    found = {op: read(postgres(op, *pair), mapping, wrapped=wrapped) for op, pair in rows.items()}
    assert {op: [event[:4] for event in events] for op, events in found.items()} == {
        op: [("customer-1", f"{name} customers", CHANGED, "555")]
        for op, name in (("c", "create"), ("u", "update"), ("d", "delete"))
    }
    mail = {"case": {"mail": "annek@noanswer.org"}}
    assert [events[0].attributes for events in found.values()] == [
        {**mail, "event": {"status": "new"}},
        {**mail, "event": {"status": "paid"}},
        mail,
    ]


def test_mysql_changes_have_their_own_source() -> None:
    """No schema; the table is known by its database; a tombstone follows a delete and is not an event."""
    mapping = {"table": "inventory.customers", "activity": "{op}", "case": "row.id", "end": True, "op": ["d"]}
    (event,) = read(mysql("d", customer(), None), mapping)
    assert (event.case, event.activity, event.time_ns, event.end) == ("1", "d", 1_465_581_029_100_000_000, True)
    assert left_out(None, mapping) == "tombstone"
    assert left_out(mysql("u", customer(), customer(status="x")), mapping) == "no_mapping"
    assert left_out(mysql("d", customer(), None, table="others"), mapping) == "no_mapping"


def test_a_column_makes_an_event_where_it_changed() -> None:
    """One event for each mapped column with another value, none if nothing of it changed; a create has its first
    value."""
    both = {**STATUS, "column": ["status", "email"], "activity": "{column} set"}
    (event,) = read(postgres("u", customer(), customer(status="paid", first_name="Ann")), STATUS)
    assert event.activity == "customers.status set to paid"
    pair = read(postgres("u", customer(), customer(status="paid", email="new@noanswer.org")), both)
    assert [one.activity for one in pair] == ["status set", "email set"]
    assert len({one.event_id for one in pair}) == 2
    assert left_out(postgres("u", customer(), customer(first_name="Ann")), STATUS) == "unchanged"
    assert left_out(postgres("d", customer(), None), STATUS) == "no_mapping"
    assert [one.activity for one in read(postgres("c", None, customer(email=None)), both)] == ["status set"]
    (event,) = read(postgres("u", customer(), customer(status=None)), STATUS)
    assert event.activity == "customers.status set to null"
    toasted = postgres("u", customer(), customer(status="__debezium_unavailable_value"))
    assert left_out(toasted, STATUS) == "unchanged"


def test_an_update_without_the_row_before_it_is_reported() -> None:
    """PostgreSQL sends no `before` without REPLICA IDENTITY FULL: whether a column changed is not guessed."""
    assert refusal(postgres("u", None, customer()), STATUS) == "no_before"
    assert len(read(postgres("u", None, customer()), {"activity": "touched", "case": "row.id"})) == 1


def test_all_mappings_that_match_make_events() -> None:
    """Two mappings, one record, two events; where one of them cannot be made the record is refused whole."""
    touched = {"activity": "touched", "case": "row.id", "where": {"after.status": ["paid", "open"]}}
    change = postgres("u", customer(), customer(status="paid"))
    found = read(change, STATUS, touched)
    assert [one.activity for one in found] == ["customers.status set to paid", "touched"]
    assert len({one.event_id for one in found}) == 2
    assert [one.activity for one in read(postgres("u", customer(), customer(status="shut")), STATUS, touched)] == [
        "customers.status set to shut"
    ]
    assert refusal(change, STATUS, {**touched, "case": "row.nothing"}) == "schema"


def test_snapshots_are_taken_or_skipped() -> None:
    """A row of a snapshot says that something is so, not when it happened: left out unless it is asked for."""
    row = postgres("r", None, customer(), snapshot="first")
    assert left_out(row, STATUS) == "snapshot"
    (event,) = read(row, STATUS, take=True)
    assert event.activity == "customers.status set to new"
    assert left_out(row, {**STATUS, "op": ["u"]}, take=True) == "no_mapping"


def test_a_repeat_has_the_id_of_the_first() -> None:
    """The place in the database's log names the event, whatever Debezium's own clock says; another place, another row
    of the same place, and another operation are other events."""
    change = postgres("u", customer(), customer(status="paid"))
    again = {**change, "ts_ms": 1, "ts_us": 2, "ts_ns": 3}
    ids = {read(one, STATUS)[0].event_id for one in (change, again)}
    assert len(ids) == 1
    assert None not in ids
    others = [
        postgres("u", customer(), customer(status="paid"), lsn=24023129),
        postgres("u", customer(id=2), customer(id=2, status="paid")),
        postgres("c", None, customer(status="paid")),
        mysql("u", customer(), customer(status="paid")),
        mysql("u", customer(), customer(status="paid"), pos=485),
        mysql("u", customer(), customer(status="paid"), row=1),
        mysql("u", customer(), customer(status="paid"), file="mysql-bin.000004"),
    ]
    ids |= {read(one, STATUS)[0].event_id for one in others}
    assert len(ids) == 1 + len(others)
    nowhere = {**change, "source": {"table": "customers", "ts_ms": 5}}
    (event,) = read(nowhere, STATUS)
    assert (event.event_id, event.time_ns) == (None, 5_000_000)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (b"{", "not_json"),
        (b"[]", "envelope"),
        (b"null", "envelope"),
        (b'"text"', "schema"),
        (encoded(customer()), "envelope"),
        (encoded({**postgres("c", None, customer()), "op": "x"}), "envelope"),
        (encoded({**postgres("c", None, customer()), "op": ["c"]}), "envelope"),
        (encoded({**postgres("c", None, customer()), "source": None}), "envelope"),
        (encoded({**postgres("c", None, customer()), "after": 7}), "envelope"),
        (b'{"schema": null, "payload": null}', "envelope"),
        (encoded(postgres("c", None, customer(id=None))), "schema"),
        (encoded(postgres("c", None, customer(id=True))), "schema"),
        (encoded(postgres("c", None, customer(), ts_ns="soon", ts_us="soon")), "time"),
        (encoded(postgres("c", None, customer(), ts_ns=1 << 80)), "time"),
        (encoded(postgres("c", None, customer(), ts_ns=None, ts_us=None, ts_ms=1 << 60)), "time"),
    ],
)
def test_bad_changes_have_a_reason(record: bytes, kind: str) -> None:
    """A record that is not a change, or from which no event can be made: never a crash, never another class."""
    assert refusal(record, {"activity": "{operation}", "case": "row.id"}) == kind


def deep(levels: int) -> str:
    """A JSON list in lists."""
    return "[" * levels + "1" + "]" * levels


@pytest.mark.parametrize(
    ("mapping", "row"),
    [
        pytest.param({"activity": "to {row.x}"}, '{"id": 1, "x": %s}', marks=pytest.mark.slow),
        ({"activity": "a"}, '{"id": 1, "x": %s}'),
        ({"activity": "a", "column": "x"}, '{"id": 1, "x": %s}'),
        ({"activity": "to {row.x}", "event_id": "row.id"}, '{"id": 1, "x": {"y": %s}}'),
    ],
    ids=["template", "position", "column", "object"],
)
def test_a_value_deeper_than_the_stack_has_a_reason(mapping: dict[str, Any], row: str) -> None:
    """A value that JSON's reader just accepts is too deep for the following steps: a dead letter, and the worker
    continues.
    """
    limit = sys.getrecursionlimit()
    reasons = set()
    for levels in (*range(limit // 4, limit - 300, limit // 16), *range(limit - 300, limit)):
        change = postgres("u", customer(), None)
        text = json.dumps(change).replace('"after": null', '"after": ' + row % deep(levels))
        text = text.replace('"before": {', f'"before": {{"x": {deep(levels)}, ')
        try:
            read(text.encode(), {"case": "row.id", **mapping})
        except (Poison, LeftOut) as reason:
            reasons.add(reason.kind)
    assert reasons
    assert reasons <= {"schema", "not_json", "unchanged"}


def test_a_null_names_no_case_and_no_resource() -> None:
    """A template with a null in it would put all such rows into one case; an activity may say that a value is gone."""
    row = {"activity": "by {row.email}", "case": "o-{row.id}", "resource": "u-{row.email}"}
    (event,) = read(postgres("c", None, customer(email=None)), row)
    assert (event.case, event.activity, event.resource) == ("o-1", "by null", None)
    assert refusal(postgres("c", None, customer(id=None)), row) == "schema"


def test_mappings_that_differ_in_anything_have_ids_of_their_own() -> None:
    """The fold drops a second event with an id that its case has had."""
    one = {"activity": "a", "case": "row.id"}
    others: list[dict[str, Any]] = [
        {"time": "source.ts_ms"},
        {"where": {"row.status": "paid"}},
        {"where": {"row.status": ["paid", "new"]}},
        {"case": "c-{row.id}"},
        {"resource": "row.email"},
        {"attributes": {"mail": "row.email"}},
        {"column": "status"},
        {"end": True},
    ]
    change = postgres("u", customer(), customer(status="paid"))
    found = read(change, one, *({**one, **more} for more in others))
    assert len({event.event_id for event in found}) == len(found) == 1 + len(others)
    (alone,) = read(change, {**one, "end": False})
    assert alone.event_id == found[0].event_id


def test_changes_of_oracle_that_share_a_number_are_two() -> None:
    """Rows of one SCN and content are distinguished by their record of the redo log."""
    oracle = {"lsn": None, "txId": None, "scn": "2122185", "ssn": 0}
    ids = {
        read(postgres("c", None, customer(), **oracle, rs_id=place), {"activity": "a", "case": "row.id"})[0].event_id
        for place in ("001234.00012345.0124", "001234.00012345.0125")
    }
    assert len(ids) == 2


def test_a_template_without_its_value_is_reported() -> None:
    """A path that leads nowhere makes no activity with a hole in it."""
    mapping = {"activity": "to {after.stage}", "case": "row.id"}
    assert refusal(postgres("c", None, customer()), mapping) == "mapping"


def test_the_outbox_router_writes_a_text_in_a_text() -> None:
    """Case from the key, activity and id from headers, time from the message, attributes from the payload."""
    mapping = {
        "activity": "{@header.eventType}",
        "case": "@key",
        "time": "@timestamp",
        "event_id": "@header.id",
        "attributes": {"customer": "customerId", "first": "lineItems.0.status"},
    }
    given = {"key": b'"1"', "headers": OUTBOX_HEADERS, "timestamp": 1556890294484}
    (event,) = read_json(OUTBOX_ROUTED, mapping, **given)
    assert event[:3] == ("1", "OrderCreated", 1_556_890_294_484_000_000)
    assert event.attributes == {"event": {"customer": 123, "first": "ENTERED"}}
    (again,) = read_json(OUTBOX_ROUTED, mapping, **{**given, "timestamp": 1})
    (other,) = read_json(OUTBOX_ROUTED, mapping, **{**given, "headers": [("id", b"x"), OUTBOX_HEADERS[1]]})
    assert again.event_id == event.event_id != other.event_id


def test_the_outbox_table_itself_is_read_into_its_payload() -> None:
    """Without a router: paths continue inside of the column that holds JSON as text."""
    mapping = {
        "table": "outboxevent",
        "op": "c",
        "activity": "{after.type}",
        "case": "{after.aggregatetype}-{after.aggregateid}",
        "time": "after.timestamp",
        "time_unit": "ms",
        "event_id": "after.id",
        "attributes": {"customer": "after.payload.customerId"},
    }
    (event,) = read(OUTBOX_ROW, mapping)
    assert event[:3] == ("Order-1", "OrderCreated", 1_556_890_294_344_000_000)
    assert event.attributes == {"event": {"customer": 123}}


def test_plain_json_by_paths_and_conditions() -> None:
    """Records of other programs than Debezium are mapped by paths; a record of no mapping is left out, and counted."""
    placed = {"activity": "placed", "case": "order.id", "time": "at", "where": {"type": "placed", "order.test": False}}
    paid = {"activity": "paid by {how}", "case": "order.id", "time": "at", "time_unit": "s", "where": {"type": "paid"}}
    order = {"id": 7, "test": False}
    (event,) = read_json({"type": "placed", "order": order, "at": "2024-01-01T12:00:00Z"}, placed, paid)
    assert event == SourceEvent("7", "placed", 1_704_110_400_000_000_000, None, None, None, False)
    (event,) = read_json({"type": "paid", "order": order, "at": 1_704_110_400, "how": "{card}"}, placed, paid)
    assert (event.activity, event.time_ns) == ("paid by {card}", 1_704_110_400_000_000_000)
    for other in ({"type": "lost"}, {"type": "placed", "order": {"id": 7, "test": 0}}, {}):
        with pytest.raises(LeftOut, match="no_mapping"):
            read_json(other, placed, paid)
    for bad in ({"type": "placed", "order": order}, {"type": "placed", "order": order, "at": 5}):
        with pytest.raises(Poison, match="time"):
            read_json(bad, placed, paid)


def test_flattened_changes_are_plain_json() -> None:
    """Debezium's extraction of the new state adds fields for the operation and its time to the columns."""
    mapping = {
        "activity": "status {status}",
        "case": "id",
        "time": "__source_ts_ms",
        "where": {"__table": "customers", "__op": ["c", "u"]},
    }
    added = {"__op": "u", "__table": "customers", "__source_ts_ms": 1589362330904, "__deleted": "false"}
    (event,) = read_json({**customer(), **added}, mapping)
    assert event[:3] == ("1", "status new", 1_589_362_330_904_000_000)
    with pytest.raises(LeftOut, match="no_mapping"):
        read_json({**customer(), **added, "__op": "d"}, mapping)
    with pytest.raises(Poison, match="time"):
        read_json({**customer(), **added, "counts_ms": 5}, {**mapping, "time": "counts_ms"})


def test_keys_are_json_or_text() -> None:
    """A key that only looks like a number stays the text that it is."""
    mapping = {"activity": "a", "case": "@key", "time": "at", "time_unit": "s"}
    keys = {b'"1"': "1", b"007": "007", b"1e5": "1e5", b"42": "42", b"a-b": "a-b", b"true": "true"}
    assert {key: read_json({"at": 1}, mapping, key=key)[0].case for key in keys} == keys
    wrapped = b'{"schema": {"type": "struct"}, "payload": {"id": 1004}}'
    assert read_json({"at": 1}, {**mapping, "case": "@key.id"}, key=wrapped)[0].case == "1004"
    with pytest.raises(Poison, match="schema"):
        read_json({"at": 1}, mapping)


def test_values_that_no_file_holds_are_refused() -> None:
    """An integer beyond 64 bits and a list deeper than 32 levels, as in plain events."""
    mapping = {"activity": "a", "case": "id", "time": "at", "time_unit": "s", "attributes": {"x": "x"}}
    deep: Any = 1
    for _ in range(33):
        deep = [deep]
    for value in (1 << 64, deep):
        with pytest.raises(Poison, match="schema"):
            read_json({"id": "c", "at": 1, "x": value}, mapping)


ONE = {"activity": "a", "case": "id", "time": "at"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "avro"}, "needs [source.registry]"),
        ({"format": "json", "registry": {"url": "http://r"}}, "reads plain JSON"),
        ({"format": "debezium"}, "at least one [[source.mapping]]"),
        ({"format": "json", "mapping": [{**ONE, "table": "t"}]}, 'mapping 1: table is for format = "debezium"'),
        ({"format": "json", "mapping": [{"activity": "a", "case": "id"}]}, "mapping 1: time is missing"),
        ({"mapping": [{**ONE, "topic": "elsewhere"}]}, "mapping 1: topic 'elsewhere' is none of source.topics"),
        ({"mapping": [{**ONE, "attributes": {"x": "a", "case:x": "b"}}]}, "appears twice"),
        ({"mapping": [ONE], "event_id": "id"}, "set event_id and end in each mapping"),
        ({"mapping": [{**ONE, "activity": "to {status"}]}, "a brace without a path"),
        ({"mapping": [{**ONE, "activity": "to {}"}]}, "a brace without a path"),
        ({"mapping": [{**ONE, "op": "x"}]}, "op"),
        ({"format": "json", "reader_schema": "f"}, "reader_schema is for"),
        ({"time_unit": "ms"}, "time_unit needs another format"),
    ],
)
def test_configurations_that_cannot_work_are_refused(given: dict[str, Any], message: str) -> None:
    """One clear reason at the start."""
    with pytest.raises(ValidationError) as caught:
        Source.model_validate({"topics": ["orders"], **given})
    assert message in str(caught.value)


def test_a_log_is_not_published_into_a_topic_of_another_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`publish` writes plain JSON: into a topic of Debezium's changes all of it would go to the dlq."""
    config, log = tmp_path / "c.toml", tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\nc,a,2024-01-01T00:00:00Z\n")
    mapping = '[[source.mapping]]\nactivity = "a"\ncase = "row.id"\n'
    config.write_text(f'[source]\ntopics = ["t"]\nformat = "debezium"\n{mapping}')
    assert execute(["publish", str(log), "-c", str(config)]) == 2
    assert "publish writes plain JSON events; the source reads debezium" in capsys.readouterr().err
