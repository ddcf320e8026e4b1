"""variants.parquet: what each release held, kept by the operator so that later releases can be audited against it.

One row a released case: its source pseudonym ("" where a record is no one case), its items in released order, and
its sensitive values. Never published; an erased case is taken out of every such file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.errors import RefusedError, UnreadableError, shortage
from models.eventlog import Column, EventLog
from stream.ledger import arrow
from stream.ledger.release_record import Record

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = b"1"
_VALUE = "sensitive:"
_REPEATED = ["activity.list.element", "resource.list.element"]
"""Columns of labels. Pseudonyms stand once, and times hardly ever again: to look for repetitions takes longer."""


def write(path: Path, record: Record) -> None:
    """Write the record's cases. Values are kept as JSON text, since an attribute may be of any type."""
    import msgspec
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = record.log
    offsets = arrow.integers(log.starts)
    columns: dict[str, Any] = {
        "case": arrow.texts(log.case_ids),
        "activity": pa.LargeListArray.from_arrays(offsets, _dictionary(log.activity)),
        "resource": pa.LargeListArray.from_arrays(offsets, _dictionary(log.resource)),
        "time": pa.LargeListArray.from_arrays(offsets, arrow.integers(log.time)),
    }
    for name in record.sensitive:
        values = [None if value is None else msgspec.json.encode(value).decode() for value in _values(log, name)]
        columns[_VALUE + name] = arrow.texts(values)
    metadata = {
        b"veilstream": VERSION,
        b"sequence": str(record.sequence).encode(),
        b"carries": ",".join(record.carries).encode(),
        b"T": record.T.encode(),
    }
    table = pa.table(columns).replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd", use_dictionary=_REPEATED)


def read(path: Path) -> Record:
    """Read one release back. RefusedError where the file is missing or damaged: nothing can be audited then."""
    table = _table(path)
    meta = table.schema.metadata
    return Record(
        sequence=int(meta[b"sequence"]),
        log=_log(table),
        carries=tuple(meta[b"carries"].decode().split(",")),
        T=meta[b"T"].decode(),
        sensitive=tuple(name.removeprefix(_VALUE) for name in table.column_names if name.startswith(_VALUE)),
    )


@dataclass(frozen=True, slots=True)
class VariantsFile:
    """A `StoredRelease`. Errors: as `read`."""

    path: Path

    def log(self) -> EventLog:
        """What it held."""
        return _log(_table(self.path))

    def case_ids(self) -> tuple[str, ...]:
        """Its cases, without reading the rest."""
        return tuple(_table(self.path, ["case"]).column("case").to_pylist())


def _table(path: Path, columns: list[str] | None = None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and (short := shortage(error)) is not None:
            raise short from None
        raise UnreadableError(f"{path}: cannot be read ({type(error).__name__}); restore it from a backup") from None
    if (table.schema.metadata or {}).get(b"veilstream") != VERSION:
        raise RefusedError(f"{path}: not a variants file of this version")
    return table


def without_cases(record: Record, erased: set[str]) -> Record:
    """The record without the erased cases."""
    keep = np.asarray([case not in erased for case in record.case_ids], dtype=np.bool_)
    rest = record.log.select_cases(keep)
    return Record(record.sequence, rest, record.carries, record.T, record.sensitive, publication=record.publication)


def _values(log: EventLog, name: str) -> list[Any]:
    return log.case_attributes[name].decode() if name in log.case_attributes else [None] * log.n_cases


def _dictionary(column: Column) -> pa.DictionaryArray:
    import pyarrow as pa

    column = column.take(np.arange(len(column)))  # only labels in use: an erased case may have had one of its own
    codes = arrow.integers(column.codes, column.codes >= 0)
    return pa.DictionaryArray.from_arrays(codes, arrow.texts([str(value) for value in column.values]))


def _column(table: pa.Table, name: str) -> Column:
    flat = table.column(name).combine_chunks().flatten().dictionary_encode()
    codes = flat.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Column(codes.astype(np.int32), tuple(flat.dictionary.to_pylist()))


def _log(table: pa.Table) -> EventLog:
    import msgspec

    lists = table.column("time").combine_chunks()
    lengths: Sequence[int] = lists.value_lengths().to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    values = {
        name.removeprefix(_VALUE): Column.encode(
            None if text is None else _hashable(msgspec.json.decode(text)) for text in table.column(name).to_pylist()
        )
        for name in table.column_names
        if name.startswith(_VALUE)
    }
    return EventLog(
        case_ids=tuple(table.column("case").to_pylist()),
        starts=starts,
        activity=_column(table, "activity"),
        time=lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64),
        resource=_column(table, "resource"),
        row=np.arange(starts[-1], dtype=np.int64),
        case_attributes=values,
    )


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
