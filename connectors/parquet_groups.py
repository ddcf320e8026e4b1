"""Parquet files of texts and one time in UTC, read by the row group: the table of a whole log would not fit beside it.

What is in another form is left to `connectors.parquet`, and so is what is to be refused; what both read is the same
(`tests/unit/test_parquet_groups.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.frame import log_of
from connectors.headers import resolved, said
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints
from models.instants import FIRST_YEAR, LAST_YEAR

if TYPE_CHECKING:
    import pyarrow as pa


def read(path: Path, reading: Reading) -> EventLog | None:
    """The log of a file, as `connectors.parquet.read` gives it; None where that has to read it in its general way."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_dir() or reading.unit is not None or reading.time_format is not None:
        return None
    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            names = resolved(header, reading.columns)
            kinds = {field.name: field.type for field in file.schema_arrow}
        if not _plain(header, kinds, names.time, {names.case, names.activity}):
            return None
        texts = [name for name in header if name != names.time]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            time, columns = _columns(file, names.time, texts)
    except (pa.ArrowException, OSError, ValueError, InputError):
        return None
    owner, activity = columns.pop(names.case), columns.pop(names.activity)
    blank_ids = any(not case.strip() for case in owner.values)
    if time is None or blank_ids or not _complete(owner) or not _complete(activity):
        return None
    note = said(header, reading.columns, names)
    try:
        log = log_of(owner, activity, time, columns.pop(names.resource, None), columns, str)
    except InputError:
        return None
    if note:
        reading.say(note)
    pa.default_memory_pool().release_unused()
    return log


def _plain(header: list[str], kinds: dict[str, Any], time: str, needed: set[str]) -> bool:
    """Whether each column stands once, those needed are there, the time is in UTC, and all else is text."""
    import pyarrow as pa

    if len(kinds) < len(header) or not {time, *needed} <= kinds.keys() or time in needed or len(needed) < 2:
        return False
    return all(
        kind == pa.timestamp("ns", tz="UTC") if name == time else pa.types.is_string(kind)
        for name, kind in kinds.items()
    )


def _columns(file: Any, time: str, texts: list[str]) -> tuple[Ints | None, dict[str, Column]]:
    """The times (None: some row has none, or no year that we know) and the texts of all row groups."""
    import pyarrow as pa

    moments, coded = [np.zeros(0, dtype=np.int64)], {name: _Coded() for name in texts}
    for group in range(file.num_row_groups):
        part = file.read_row_group(group)
        if part.column(time).null_count:
            return None, {name: one.column() for name, one in coded.items()}
        moments.append(part.column(time).cast(pa.int64()).to_numpy())
        for name, one in coded.items():
            for chunk in part.column(name).chunks:
                one.add(chunk)
    found = np.concatenate(moments)
    moments.clear()
    return (found if _known(found) else None), {name: one.column() for name, one in coded.items()}


def _known(time: Ints) -> bool:
    years = np.asarray([time.min(initial=0), time.max(initial=0)]).astype("datetime64[ns]").astype("datetime64[Y]")
    first, last = (years.astype(np.int64) + 1970).tolist()
    return len(time) > 0 and first >= FIRST_YEAR and last <= LAST_YEAR


def _complete(column: Column) -> bool:
    return "" not in column.values and bool(np.all(column.codes >= 0))


class _Coded:
    """A column of texts, coded in order of first appearance, chunk by chunk."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._codes: list[Codes] = [np.zeros(0, dtype=np.int32)]

    def add(self, chunk: pa.DictionaryArray) -> None:
        """The next rows."""
        texts, rows = chunk.dictionary.to_pylist(), chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        first = np.full(len(texts) + 1, len(rows), dtype=np.int64)  # the last place is that of what is missing
        first[rows[::-1]] = np.arange(len(rows))[::-1]
        recode = np.full(len(texts) + 1, MISSING, dtype=np.int32)
        shown = np.flatnonzero(first[:-1] < len(rows))
        for code in shown[np.argsort(first[shown])].tolist():
            recode[code] = self._known.setdefault(texts[code], len(self._known))
        self._codes.append(recode[rows])

    def column(self) -> Column:
        """All rows. Asked once: the parts are let go, so that no second copy of all columns is there."""
        codes = np.concatenate(self._codes)
        self._codes.clear()
        return Column(codes, tuple(self._known))
