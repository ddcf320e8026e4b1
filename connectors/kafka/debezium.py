"""Debezium's envelope of a table change: before, after, source, op; with and without Kafka Connect's schema wrapper."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from connectors.kafka.events import Poison
from models.content_free import content_free

OPERATIONS: Final = {"c": "create", "u": "update", "d": "delete", "r": "read", "t": "truncate", "m": "message"}

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""The value of `after` for a large value (TOAST) that the update did not touch."""

_POSITION: Final = (
    *("name", "db", "schema", "table", "collection"),
    *("lsn", "txId"),  # PostgreSQL
    *("gtid", "file", "pos", "row"),  # MySQL, MariaDB
    *("change_lsn", "commit_lsn", "event_serial_no"),  # SQL Server, Db2
    *("scn", "ssn", "rs_id"),  # Oracle
    *("ord", "rs"),  # MongoDB
)
"""Fields of `source` with the place of a change in the database's log, by connector."""

_PLACES: Final = ("lsn", "pos", "change_lsn", "commit_lsn", "scn", "ord")


@content_free("op")
class RowChange(NamedTuple):
    """One change of a row.

    Attributes
    ----------
    body
        The whole envelope.
    op
        A letter of `OPERATIONS`.
    tables
        Names of the table, as mappings may write them.
    before, after
        The row before and after the change; None if the envelope has none.
    """

    body: Mapping[str, Any]
    op: str
    tables: tuple[str, ...]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def row(self) -> Mapping[str, Any] | None:
        """The row after the change, or before a delete."""
        return self.before if self.after is None else self.after

    @property
    def table(self) -> str | None:
        """The plain name of the table."""
        return self.tables[0] if self.tables else None

    def value(self, column: str) -> Any:
        """Return the value of a column after the change, or before a delete.

        Parameters
        ----------
        column
            Name of the column.
        """
        return None if self.row is None else self.row.get(column)

    def changed(self, column: str) -> bool:
        """Return whether the change gave a column another value.

        In an update the rows are compared; otherwise the column must have a value.

        Parameters
        ----------
        column
            Name of the column.

        Raises
        ------
        Poison
            "no_before", for an update without the row before it (PostgreSQL without REPLICA IDENTITY FULL).
        """
        if self.row is None or column not in self.row:
            return False
        if self.op != "u":
            return self.row[column] is not None
        if self.before is None or column not in self.before:
            raise Poison("no_before")
        return bool(self.row[column] != UNAVAILABLE and self.row[column] != self.before[column])

    def position(self) -> str | None:
        """Return the place of the change in the database's log, as a text that is the same in each repeat of it.

        Rows that share a place (a snapshot, a COPY) differ by their content, of which only a digest is included.

        Returns
        -------
        str | None
            None if `source` names no place.
        """
        source = self.body["source"]
        if all(source.get(name) is None for name in _PLACES):
            return None
        place = [repr(source.get(name)) for name in _POSITION]
        rows = hashlib.sha256(repr((self.before, self.after)).encode("utf-8", "surrogatepass")).hexdigest()
        return "\x1f".join([*place, self.op, rows])


def change(record: Any) -> RowChange:
    """Return the change of a decoded record.

    Parameters
    ----------
    record
        The record, with or without the wrapper of Kafka Connect (`schema`, `payload`).

    Raises
    ------
    Poison
        "envelope", if the record is not a change event.
    """
    if isinstance(record, Mapping) and "payload" in record and "schema" in record and "op" not in record:
        record = record["payload"]
    if not isinstance(record, Mapping):
        raise Poison("envelope")
    op, source = record.get("op"), record.get("source")
    if not isinstance(op, str) or op not in OPERATIONS or not isinstance(source, Mapping):
        raise Poison("envelope")
    rows = [record.get("before"), record.get("after")]
    if any(row is not None and not isinstance(row, Mapping) for row in rows):
        raise Poison("envelope")
    return RowChange(record, op, _tables(source), *rows)


def _tables(source: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the table's names, the plain one first: `orders`, `public.orders`, `shop.orders`, `shop.public.orders`."""
    table = source.get("table") or source.get("collection")
    if not isinstance(table, str):
        return ()
    db, schema = source.get("db"), source.get("schema")
    more = [f"{prefix}.{table}" for prefix in (schema, db) if prefix]
    return (table, *more, *([f"{db}.{schema}.{table}"] if db and schema else []))
