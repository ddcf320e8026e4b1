"""Records in the shape that Debezium's documentation shows for PostgreSQL and MySQL (its table `customers`, with a
column `status` more), and of its outbox event router."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]

SCHEMA: Row = {
    "type": "struct",
    "optional": False,
    "name": "PostgreSQL_server.inventory.customers.Envelope",
    "fields": [
        {"type": "struct", "optional": True, "field": "before", "fields": [{"type": "int32", "field": "id"}]},
        {"type": "struct", "optional": True, "field": "after", "fields": [{"type": "int32", "field": "id"}]},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
}
"""Schema that Kafka Connect's JSON converter writes next to a payload with `schemas.enable`; shortened, and never
read."""


def customer(**changed: Any) -> Row:
    """The row of the documentation."""
    row = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org", "status": "new"}
    return {**row, **changed}


def postgres(op: str, before: Row | None, after: Row | None, lsn: int = 24023128, **source: Any) -> Row:
    """A change event of the PostgreSQL connector."""
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "3.0.5.Final",
            "connector": "postgresql",
            "name": "PostgreSQL_server",
            "ts_ms": 1559033904863,
            "ts_us": 1559033904863123,
            "ts_ns": 1559033904863123000,
            "snapshot": "false",
            "db": "postgres",
            "sequence": '["24023119","24023128"]',
            "schema": "public",
            "table": "customers",
            "txId": 555,
            "lsn": lsn,
            "xmin": None,
            **source,
        },
        "op": op,
        "ts_ms": 1559033904870,
        "ts_us": 1559033904870012,
        "ts_ns": 1559033904870012345,
        "transaction": None,
    }


def mysql(op: str, before: Row | None, after: Row | None, pos: int = 484, **source: Any) -> Row:
    """A change event of the MySQL connector."""
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "3.0.5.Final",
            "connector": "mysql",
            "name": "mysql-server-1",
            "ts_ms": 1465581029100,
            "ts_us": 1465581029100000,
            "ts_ns": 1465581029100000000,
            "snapshot": "false",
            "db": "inventory",
            "table": "customers",
            "server_id": 223344,
            "gtid": None,
            "file": "mysql-bin.000003",
            "pos": pos,
            "row": 0,
            "thread": 7,
            "query": "UPDATE customers SET status='paid' WHERE id=1",
            **source,
        },
        "op": op,
        "ts_ms": 1465581029523,
        "ts_us": 1465581029523123,
        "ts_ns": 1465581029523123456,
    }


def encoded(record: Row, *, wrapped: bool = False) -> bytes:
    """As the JSON converter writes it."""
    return json.dumps({"schema": SCHEMA, "payload": record} if wrapped else record).encode()


ORDER = {
    "id": 1,
    "lineItems": [{"id": 1, "item": "Debezium in Action", "status": "ENTERED", "quantity": 2, "totalPrice": 39.98}],
    "orderDate": "2019-01-31T12:13:01",
    "customerId": 123,
}

OUTBOX_ROUTED = json.dumps(json.dumps(ORDER)).encode()
"""The value that the event router writes: the text of the column `payload`, as a JSON text; its key is `"1"`, the
message's stamp 1556890294484."""

OUTBOX_HEADERS = [("id", b"4d47e190-0402-4048-bc2c-89dd54343cdc"), ("eventType", b"OrderCreated")]

OUTBOX_ROW = postgres(
    "c",
    None,
    {
        "id": "406c07f3-26f0-4eea-a50c-109940064b8f",
        "aggregateid": "1",
        "aggregatetype": "Order",
        "payload": json.dumps(ORDER),
        "timestamp": 1556890294344,
        "type": "OrderCreated",
    },
    table="outboxevent",
)
"""The change of the outbox table itself, where no router runs."""
