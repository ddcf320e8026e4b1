"""Parquet files: one row an event, XES column names, typed columns.

Files of texts and one time in UTC, as this program and most exports write them, are read by the row group: log and
table together would not fit into memory. All other files, and those with a row that cannot be read, are read as a
table (docs/decisions/001).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.bad_rows import PlaceOfRow
from connectors.columns import recognised_columns, resolved
from connectors.folders import joined, parts
from connectors.frame import check_columns, check_names, flat_columns, from_frame, log_of, names_of_log
from connectors.output import clean, replacing
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints
from models.instants import FIRST_YEAR, LAST_YEAR

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_GROUP = 1 << 19
"""Rows of a row group, which are laid out together: the text of a whole log would not fit into memory with it."""


def read(path: Path, reading: Reading) -> EventLog:
    """Return the log of a Parquet file.

    Errors are those of `connectors.frame.from_frame`, with file and row (1 is the first).

    Parameters
    ----------
    path
        The file, or a folder of files.
    reading
        Statements of the user about the file.
    """
    import pyarrow as pa

    log_of_groups = read_row_groups(path, reading)
    if log_of_groups is not None:
        return log_of_groups
    frame, place_of = read_parts(path, reading)
    names = names_of_log([str(name) for name in frame.columns], reading)
    log = from_frame(frame, names, reading, str(path), place_of)
    del frame
    pa.default_memory_pool().release_unused()  # Arrow keeps what it read with, as much again as the log
    return log


def read_row_groups(path: Path, reading: Reading) -> EventLog | None:
    """Return the log of a file of texts and one time in UTC, or None.

    None means that the file has to be read as a table.

    Parameters
    ----------
    path
        The file.
    reading
        Statements of the user about the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_dir() or reading.unit is not None or reading.time_format is not None:
        return None
    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            names = resolved(header, reading.columns)
            kinds = {field.name: field.type for field in file.schema_arrow}
        if not _has_plain_columns(header, kinds, names.time, {names.case, names.activity}):
            return None
        texts = [name for name in header if name != names.time]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            content = _columns_of_groups(file, names.time, texts)
    except (pa.ArrowException, OSError, ValueError, InputError):
        return None
    if content is None:
        return None
    time, columns = content
    owner, activity = columns.pop(names.case), columns.pop(names.activity)
    has_blank_ids = any(not case.strip() for case in owner.values)
    if has_blank_ids or not _complete(owner) or not _complete(activity):
        return None
    note = recognised_columns(header, reading.columns, names)
    try:
        log = log_of(owner, activity, time, columns.pop(names.resource, None), columns, str)
    except InputError:
        return None
    if note:
        reading.say(note)
    pa.default_memory_pool().release_unused()
    return log


def _has_plain_columns(header: list[str], kinds: dict[str, Any], time: str, needed: set[str]) -> bool:
    """Return whether the needed columns exist once, the time is in UTC, and all else is text."""
    import pyarrow as pa

    has_duplicates = len(kinds) < len(header)
    is_complete = {time, *needed} <= kinds.keys()
    has_two_roles = time in needed or len(needed) < 2  # one column would be two parts of the log
    if has_duplicates or has_two_roles or not is_complete:
        return False
    texts_only = all(pa.types.is_string(kind) for name, kind in kinds.items() if name != time)
    return kinds[time] == pa.timestamp("ns", tz="UTC") and texts_only


def _columns_of_groups(file: Any, time: str, texts: list[str]) -> tuple[Ints, dict[str, Column]] | None:
    """Return times and texts of all row groups; None if a time is missing or out of range."""
    import pyarrow as pa

    moments, coded = [np.zeros(0, dtype=np.int64)], {name: _Coded() for name in texts}
    for group in range(file.num_row_groups):
        part = file.read_row_group(group)
        if part.column(time).null_count:
            return None
        moments.append(part.column(time).cast(pa.int64()).to_numpy())
        for name, column in coded.items():
            for chunk in part.column(name).chunks:
                column.add(chunk)
    times = np.concatenate(moments)
    moments.clear()
    if not _has_known_years(times):
        return None
    return times, {name: column.column() for name, column in coded.items()}


def _has_known_years(time: Ints) -> bool:
    extremes = np.asarray([time.min(initial=0), time.max(initial=0)]).astype("datetime64[ns]")
    first, last = (extremes.astype("datetime64[Y]").astype(np.int64) + 1970).tolist()
    return len(time) > 0 and first >= FIRST_YEAR and last <= LAST_YEAR


def _complete(column: Column) -> bool:
    return "" not in column.values and bool(np.all(column.codes >= 0))


class _Coded:
    """A column of texts, coded in order of first appearance, chunk by chunk."""

    def __init__(self) -> None:
        self._code_of_text: dict[str, int] = {}
        self._codes: list[Codes] = [np.zeros(0, dtype=np.int32)]

    def add(self, chunk: pa.DictionaryArray) -> None:
        """Add the next rows."""
        texts, rows = chunk.dictionary.to_pylist(), chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        # First row of each text of the chunk; the last place belongs to missing values (code -1).
        first_row = np.full(len(texts) + 1, len(rows), dtype=np.int64)
        first_row[rows[::-1]] = np.arange(len(rows))[::-1]  # the last assignment wins: that of the first row
        new_code = np.full(len(texts) + 1, MISSING, dtype=np.int32)
        appearing = np.flatnonzero(first_row[:-1] < len(rows))
        for code in appearing[np.argsort(first_row[appearing])].tolist():
            new_code[code] = self._code_of_text.setdefault(texts[code], len(self._code_of_text))
        self._codes.append(new_code[rows])

    def column(self) -> Column:
        """Return all rows. It can be called once: it drops the parts, so that memory never holds a column twice."""
        codes = np.concatenate(self._codes)
        self._codes.clear()
        return Column(codes, tuple(self._code_of_text))


def read_parts(path: Path, reading: Reading, *, check: bool = True) -> tuple[pd.DataFrame, PlaceOfRow]:
    """Return all rows of the file or of the folder's files, and the place of each row.

    Parameters
    ----------
    path
        The file or folder.
    reading
        The user's statements about the files.
    check
        Whether columns of case, activity and time are required.
    """
    files = parts(path, (".parquet",))
    places = [partial(_place, file) for file in files]
    return joined([_table(file, reading, check) for file in files], places)


def _place(file: Path, row: int) -> str:
    return f"{file}: row {row + 1}"


def _table(path: Path, reading: Reading, check: bool) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = resolved(schema.names, reading.columns)
            if check:
                check_columns(schema.names, names, str(path))
                _refuse_containers(schema, {"case": names.case, "activity": names.activity}, path)
            else:
                check_names(schema.names, names, str(path))
        containers = [field.name for field in schema if _holds_containers(field)]
        if containers:
            reading.say(
                f"{path}: {', '.join(map(repr, containers))}: lists or records are read as one text each, "
                "and each text as a value of its own: C bounds the share of whole lists, and not of what they "
                "contain; write their parts into columns of their own"
            )
        # A text column as codes: as texts, it is an object for each row.
        texts = [field.name for field in schema if pa.types.is_string(field.type)] if check else None
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            table = _with_texts(file.read())
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True, self_destruct=True)
        return frame
    except (pa.ArrowException, OSError) as error:
        if _short_of_memory(error):
            raise MemoryError from error  # the file is sound
        raise InputError(f"{path}: not a readable Parquet file; fetch it again") from error


def _holds_containers(field: pa.Field) -> bool:
    """Return whether the cells of a column are lists, records or maps."""
    import pyarrow as pa

    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return bool(pa.types.is_nested(kind))


def _refuse_containers(schema: pa.Schema, columns: Mapping[str, str], path: Path) -> None:
    """Refuse a part of the log that consists of lists or records; `columns` is part to the name of its column."""
    for role, name in columns.items():
        if _holds_containers(schema.field(name)):
            raise InputError(
                f"{path}: column {name!r} ({role}) holds lists or records; an event has one {role}: write a row for "
                f"each event, or name another column with --columns {role}=..."
            )


def _short_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory is short, as for a thread that cannot start without a stack."""
    by_number = getattr(error, "errno", None) == errno.ENOMEM
    return isinstance(error, MemoryError) or by_number or os.strerror(errno.EAGAIN) in str(error)


def _with_texts(table: pa.Table) -> pa.Table:
    """Return the table with lists, structs and bytes converted to text, which can be counted and published."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if is_bytes or pa.types.is_fixed_size_binary(kind) or _holds_containers(field):
            texts = [None if value is None else _text(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, type=pa.string()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def write(
    log: EventLog,
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    *,
    durations: bool = False,
) -> None:
    """Write `.parquet`. A column has a type if all its values have it, and else is text.

    Parameters
    ----------
    log, path
        The log, and the file; an existing one is replaced. Cases without events have no row.
    metadata
        Written as JSON under `privacy` in the schema.
    durations
        Write times as durations since 1970, and not as UTC nanoseconds.

    Raises
    ------
    InputError
        An attribute has a name that the table needs itself.
    """
    import pyarrow.parquet as pq

    tables = _tables(log, metadata, durations=durations)
    with replacing(path) as draft:
        first = next(tables)
        with pq.ParquetWriter(draft, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            del first
            for part in tables:
                writer.write_table(part)


def table(log: EventLog, metadata: Mapping[str, Any] | None = None) -> pa.Table:
    """Return the table that `write` writes.

    Parameters
    ----------
    log
        The log.
    metadata
        Entries of the file's metadata, as JSON.
    """
    return next(_tables(log, metadata, durations=False, rows=max(log.n_events, 1)))


def _tables(
    log: EventLog, metadata: Mapping[str, Any] | None, *, durations: bool, rows: int = _GROUP
) -> Iterator[pa.Table]:
    """Yield the table, so many rows at a time; at least one part, which may be empty."""
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
        arrays = {}
        for name, column in columns.items():
            if column is None:  # the time of the event
                arrays[name] = pa.array(log.time[part], type=kind)
            else:
                arrays[name] = _array(column.codes[part], values[name])
        part_table = pa.table(arrays)
        yield part_table.replace_schema_metadata(about) if about else part_table


def _values(column: Column) -> Any:
    """Return the values as an array of their type."""
    import pyarrow as pa

    if not column.values:
        return pa.array([], type=pa.string())  # without a type, files of one series would have different ones
    kinds = {type(value) for value in column.values}
    plain = len(kinds) == 1 and kinds <= {int, float, bool, datetime}
    try:
        return pa.array([_utc(value) if plain else clean(str(value)) for value in column.values])
    except (pa.ArrowInvalid, OverflowError):  # an int beyond 64 bits
        return pa.array([str(value) for value in column.values])


def _array(codes: Codes, values: Any) -> Any:
    """Return the values of some rows."""
    import pyarrow as pa

    if not len(values):
        return pa.nulls(len(codes), pa.string())
    return values.take(pa.array(codes, mask=codes < 0))


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value
