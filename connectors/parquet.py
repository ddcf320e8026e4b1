"""Parquet files: one row an event, XES column names, typed columns."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import parquet_groups
from connectors.folders import joined, parts
from connectors.frame import Where, check_columns, check_names, flat_columns, from_frame
from connectors.headers import resolved, said
from connectors.output import clean, replacing
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import Codes, Column, EventLog

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_GROUP = 1 << 19
"""Rows of a row group, which are laid out together: the text of a whole log would not fit beside it."""


def read(path: Path, reading: Reading) -> EventLog:
    """The log of a Parquet file; errors as `connectors.frame.from_frame`, with file and row (1 is the first)."""
    import pyarrow as pa

    found = parquet_groups.read(path, reading)
    if found is not None:
        return found
    frame, where = whole(path, reading)
    header = [str(name) for name in frame.columns]
    names = resolved(header, reading.columns)
    note = said(header, reading.columns, names)
    if note:
        reading.say(note)
    log = from_frame(frame, names, reading, str(path), where)
    del frame
    pa.default_memory_pool().release_unused()  # Arrow keeps what it read with, as much again as the log
    return log


def whole(path: Path, reading: Reading, *, check: bool = True) -> tuple[pd.DataFrame, Where]:
    """All rows of the file or of the folder's files, and where each stands."""
    files = parts(path, (".parquet",))
    places: list[Where] = [lambda row, file=file: f"{file}: row {row + 1}" for file in files]  # type: ignore[misc]
    return joined([_table(file, reading, check) for file in files], places)


def _table(path: Path, reading: Reading, check: bool) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            (check_columns if check else check_names)(schema.names, resolved(schema.names, reading.columns), str(path))
        # A text column as codes: as texts, it is an object for each row.
        texts = [field.name for field in schema if pa.types.is_string(field.type)] if check else None
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            table = _plain(file.read())
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True, self_destruct=True)
        return frame
    except (pa.ArrowException, OSError) as error:
        if _short_of_memory(error):
            raise MemoryError from error  # the file is sound
        raise InputError(f"{path}: not a readable Parquet file; fetch it again") from error


def _short_of_memory(error: Exception) -> bool:
    """Arrow says so in several ways; one is that it can start no thread, which needs a stack."""
    by_number = getattr(error, "errno", None) == errno.ENOMEM
    return isinstance(error, MemoryError) or by_number or os.strerror(errno.EAGAIN) in str(error)


def _plain(table: pa.Table) -> pa.Table:
    """The table with lists, tables and bytes as text: what can be counted and published."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
        if binary or pa.types.is_nested(kind):
            texts = [None if value is None else _text(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, type=pa.string()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def write(log: EventLog, path: Path, metadata: Mapping[str, Any] | None = None, *, durations: bool = False) -> None:
    """Write `.parquet`: times as UTC nanoseconds, or (`durations`) as durations since 1970; columns typed where all
    values have one type, else text.

    `metadata` stands as JSON under `privacy` in the schema. Cases without events have no row.
    InputError where an attribute bears a name that the table needs itself.
    """
    import pyarrow.parquet as pq

    tables = _tables(log, metadata, durations=durations)
    with replacing(path) as draft:
        first = next(tables)
        with pq.ParquetWriter(draft, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            del first
            for one in tables:
                writer.write_table(one)


def table(log: EventLog, metadata: Mapping[str, Any] | None = None, *, durations: bool = False) -> pa.Table:
    """The table that `write` writes."""
    return next(_tables(log, metadata, durations=durations, rows=max(log.n_events, 1)))


def _tables(
    log: EventLog, metadata: Mapping[str, Any] | None, *, durations: bool, rows: int = _GROUP
) -> Iterator[pa.Table]:
    """The same, so many rows at a time; at least one, which may be empty."""
    import pyarrow as pa

    cases = np.repeat(np.arange(log.n_cases, dtype=np.int32), log.lengths)
    columns = {
        "case:concept:name": Column(cases, log.case_ids),
        "concept:name": log.activity,
        "time:timestamp": None,
        **flat_columns(log),
    }
    values = {name: _values(column) for name, column in columns.items() if column is not None}
    kind = pa.duration("ns") if durations else pa.timestamp("ns", tz="UTC")
    about = {"privacy": json.dumps(metadata, default=str, sort_keys=True)} if metadata else None
    for first in range(0, max(log.n_events, 1), rows):
        part = slice(first, first + rows)
        arrays = {
            name: pa.array(log.time[part], type=kind) if column is None else _array(column.codes[part], values[name])
            for name, column in columns.items()
        }
        found = pa.table(arrays)
        yield found.replace_schema_metadata(about) if about else found


def _values(column: Column) -> Any:
    """The values in their type of Arrow."""
    import pyarrow as pa

    kinds = {type(value) for value in column.values}
    plain = len(kinds) == 1 and kinds <= {int, float, bool, datetime}
    try:
        return pa.array([_utc(value) if plain else clean(str(value)) for value in column.values])
    except (pa.ArrowInvalid, OverflowError):  # an int beyond 64 bits
        return pa.array([str(value) for value in column.values])


def _array(codes: Codes, values: Any) -> Any:
    """The values of some rows."""
    import pyarrow as pa

    return values.take(pa.array(codes, mask=codes < 0)) if len(values) else pa.nulls(len(codes), pa.string())


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value
