"""The columns of a data set in Spark's SQL: which it can read, and as what."""

from __future__ import annotations

from connectors.times import SECOND
from models.errors import InputError
from stream.engine.source import CSV, Source, without_unit

LAST = 2**63 - 1
"""The largest number of 64 bits; nanoseconds reach it in the year 2262."""


def readable(source: Source) -> Source:
    """The data set, or InputError with the engine that reads it."""
    import pyarrow as pa

    if source.kind == CSV:
        raise InputError(f"{source.name}: CSV is no data set for spark; write Parquet, or use --engine duckdb")
    kind = source.types.get(source.names.time, pa.string())
    if any(name.lower() == "_metadata" for name in source.header):
        raise InputError(
            f"{source.name}: spark needs the name '_metadata' itself; rename this column, or use --engine duckdb"
        )
    if source.unit is None and pa.types.is_integer(kind):
        raise InputError(without_unit(source))
    if source.unit is None and not pa.types.is_timestamp(kind):
        raise InputError(f"{source.name}: times of type {kind} are read by --engine duckdb or embedded")
    return source


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def text_of(source: Source, column: str, role: str) -> str:
    import pyarrow as pa

    kind = source.types.get(column, pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        return f"CAST({_name(column)} AS STRING)"
    raise InputError(f"{source.name}: column {column!r} ({role}) is {kind}; only --engine embedded reads it")


def attribute_of(source: Source, column: str | None) -> str:
    import pyarrow as pa

    if column is None:
        return "CAST(NULL AS INT)"
    kind = source.types.get(column, pa.string())
    if pa.types.is_floating(kind):
        return f"IF(isnan({_name(column)}), NULL, {_name(column)})"
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
    ):
        return _name(column)
    raise InputError(f"{source.name}: column {column!r} is {kind}; --engine duckdb or embedded reads it")


def time_of(source: Source) -> tuple[str, str]:
    """Nanoseconds since 1970, and whether they are in UTC."""
    kind, name = source.types[source.names.time], _name(source.names.time)
    if source.unit is not None:
        return _times(name, source.unit), "true"
    zoned = "true" if kind.tz is not None else "false"
    if kind.unit == "ns":  # read as a number (nanosAsLong): Spark's own times end at the microsecond
        return name, zoned
    return _times(f"unix_micros(CAST({name} AS TIMESTAMP))", SECOND // 1_000_000), zoned


def _times(number: str, unit: int) -> str:
    """The product, or the end of the range where 64 bits do not hold it: Spark would end with an exception of its own,
    and the check of the years could not name the row."""
    end = f"IF({number} IS NULL, NULL, IF({number} < 0, -{LAST}L, {LAST}L))"
    return f"coalesce(try_multiply({number}, {unit}L), {end})"
