"""One release as the audits see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
import numpy as np
import numpy.typing as npt

from models.errors import RefusedError, UnreadableError, shortage
from models.eventlog import Codes, Column, EventLog, Ints, SimpleLog, starts_of
from models.knowledge import NANOSECONDS, Unit, joint, perspective

if TYPE_CHECKING:
    import pyarrow as pa


# Arrow arrays of whole numbers and texts, from their buffers.
#
# `pyarrow.array` imports all of pandas, to check whether its argument is a pandas object. The import costs a fifth of
# a CPU second in every process that writes a release.


def integers(values: Ints | Codes, is_valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of int64 or int32, the type of the values; null if `is_valid` is false."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype)
    buffers = [_bitmap(is_valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def texts(values: Sequence[str | None]) -> pa.Array:
    """Return a column of strings, null for None."""
    import pyarrow as pa

    written = [b"" if value is None else value.encode() for value in values]
    offsets = starts_of(np.fromiter(map(len, written), dtype=np.int64, count=len(written)))
    if offsets[-1] > np.iinfo(np.int32).max:
        return pa.array(values, type=pa.string())  # more bytes than one array of strings can have: a chunked one
    is_valid = None
    if None in values:
        is_valid = np.asarray([value is not None for value in values], dtype=np.bool_)
    buffers = [_bitmap(is_valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(written))]
    return pa.Array.from_buffers(pa.string(), len(written), buffers)


def _bitmap(is_valid: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    import pyarrow as pa

    if is_valid is None or is_valid.all():
        return None
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def parquet_table(content: bytes | memoryview, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file that is in memory, in this thread alone.

    Arrow reads files, and decodes columns, in threads that it starts when they are first needed. If memory is too
    short to start one, its reader waits for that thread for ever, also when there is memory again.

    Parameters
    ----------
    content
        The bytes of the file.
    columns
        Names of the columns to decode; all of them if not given.

    Raises
    ------
    pyarrow.ArrowInvalid, OSError
        If the bytes are not a Parquet file, or a damaged one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table: pa.Table = pq.ParquetFile(pa.BufferReader(content)).read(columns=columns, use_threads=False)
    return table


class StoredRelease(Protocol):
    """The file of a release, from which its log is read again."""

    def log(self) -> EventLog:
        """Return the log of the release. All columns are read."""

    def case_ids(self) -> tuple[str, ...]:
        """Return the identifiers of the cases."""


KEPT_PARTS = ("cut", "counts", "n_actual")
"""The part of an earlier release's audit that later audits need. The rest, which grows with the number of releases that
it was compared with, is in its file."""


class ReleaseRecord:
    """One release as the audits see it: the candidate, or an earlier one read back from variants.parquet.

    `log.case_ids` are the pseudonyms of the source cases ("" for a record that is not a single case), so partners in
    other releases are found by equal ids. `cache`: where audits keep what they would compute again (per process).
    `stored`: its file, once it was released; the log can leave memory then (`leave_memory`), and is read when it is
    asked for.
    """

    __slots__ = ("T", "_log", "audit", "cache", "carries", "publication", "sensitive", "sequence", "stored")

    def __init__(
        self,
        sequence: int,
        log: EventLog | None,
        carries: tuple[str, ...],
        T: str,
        sensitive: tuple[str, ...],
        audit: Mapping[str, Any] | None = None,
        cache: dict[str, Any] | None = None,
        publication: str = "",
    ) -> None:
        self.sequence, self.carries, self.T, self.sensitive = sequence, carries, T, sensitive
        self.audit = {} if audit is None else audit
        self.cache = {} if cache is None else cache
        self.publication = publication
        self.stored: StoredRelease | None = None
        self._log = log  # None: it is in the file alone

    @property
    def log(self) -> EventLog:
        """The released log. It is read into memory again if it had left it."""
        if self._log is None:
            self._log = cast(StoredRelease, self.stored).log()  # without a file it never left
        return self._log

    @property
    def case_ids(self) -> tuple[str, ...]:
        """`log.case_ids`. If the log has left memory, only this column is read."""
        return self.stored.case_ids() if self._log is None and self.stored is not None else self.log.case_ids

    def released(
        self, audit: Mapping[str, Any], stored: StoredRelease, publication: str | None = None
    ) -> ReleaseRecord:
        """Return the record of a sealed release, whose log is in a file and may leave memory.

        It keeps the log and the cache of this record.

        Parameters
        ----------
        audit
            Audit of the release. Only the parts that later audits read are kept.
        stored
            The file of the release.
        publication
            Name of its publication, if this record does not have it.
        """
        kept = {name: audit[name] for name in KEPT_PARTS if name in audit}
        name = self.publication if publication is None else publication
        record = ReleaseRecord(
            self.sequence, self.log, self.carries, self.T, self.sensitive, kept, self.cache, publication=name
        )
        record.stored = stored
        return record

    def leave_memory(self) -> None:
        """Drop the log from memory, if a file has it."""
        if self.stored is not None:
            self._log = None

    def carrying(self, columns: tuple[str, ...]) -> ReleaseRecord:
        """Return the same release as if it carried some of its columns only, with a cache of its own."""
        record = ReleaseRecord(
            self.sequence, self._log, columns, self.T, self.sensitive, self.audit, {}, self.publication
        )
        record.stored = self.stored
        return record

    def showing(self, log: EventLog) -> ReleaseRecord:
        """Return the same release with another log, and nothing kept with it."""
        return ReleaseRecord(self.sequence, log, self.carries, self.T, self.sensitive, self.audit, {}, self.publication)

    @property
    def key(self) -> tuple[str, int]:
        """Number of the release within the process."""
        return self.publication, self.sequence

    def items(self, carries: Sequence[str] | None = None) -> Column:
        """Return the joint item of each released event over `carries` (by default all that the release carries).

        Relative times are taken as they are: they keep the anchor of the source case, which suppression of the
        first event must not move.
        """
        names = tuple(carries if carries is not None else self.carries)
        if "relative_time" not in names:
            return perspective(self.log, names, cast(Unit, self.T))
        ticks = self.log.time // NANOSECONDS[self.T]
        distinct, codes = np.unique(ticks, return_inverse=True)
        column = Column(codes.astype(np.int32), tuple(distinct.tolist()))
        other_names = tuple(name for name in names if name != "relative_time")
        return joint([perspective(self.log, (name,)) for name in other_names] + [column])

    def simple(self, carries: Sequence[str] | None = None) -> SimpleLog:
        """Return the simple log of the release over those items and the joint sensitive value."""
        return SimpleLog.from_items(self.log.starts, self.items(carries), self.log.sensitive(self.sensitive))


# variants.parquet: the cases of each release, kept by the operator so that later releases can be audited
# against them.
#
# One row a released case: its source pseudonym ("" if a record is not a single case), its items in released
# order, and its sensitive values. Never published; an erased case is removed from every such file.

VERSION = b"1"
_VALUE = "sensitive:"
_REPEATED = ["activity.list.element", "resource.list.element"]
"""Columns written with a dictionary: labels repeat. Pseudonyms and times hardly do, and a dictionary costs time."""


def write(path: Path, record: ReleaseRecord) -> None:
    """Write the record's cases. Values are kept as JSON text, since an attribute may be of any type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = record.log
    offsets = integers(log.starts)
    columns: dict[str, Any] = {
        "case": texts(log.case_ids),
        "activity": pa.LargeListArray.from_arrays(offsets, _dictionary(log.activity)),
        "resource": pa.LargeListArray.from_arrays(offsets, _dictionary(log.resource)),
        "time": pa.LargeListArray.from_arrays(offsets, integers(log.time)),
    }
    for name in record.sensitive:
        columns[_VALUE + name] = texts([_json_or_none(value) for value in _values(log, name)])
    metadata = {
        b"veilstream": VERSION,
        b"sequence": str(record.sequence).encode(),
        b"carries": ",".join(record.carries).encode(),
        b"T": record.T.encode(),
    }
    table = pa.table(columns).replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd", use_dictionary=_REPEATED)


def _json_or_none(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def read(path: Path) -> ReleaseRecord:
    """Read one release back.

    Raises
    ------
    RefusedError
        If the file is missing or damaged: nothing can be audited then.
    """
    table = _table(path)
    meta = table.schema.metadata
    columns_of_values = [name for name in table.column_names if name.startswith(_VALUE)]
    return ReleaseRecord(
        sequence=int(meta[b"sequence"]),
        log=_log(table),
        carries=tuple(meta[b"carries"].decode().split(",")),
        T=meta[b"T"].decode(),
        sensitive=tuple(name.removeprefix(_VALUE) for name in columns_of_values),
    )


@dataclass(frozen=True, slots=True)
class VariantsFile:
    """A `StoredRelease`. Errors: as `read`."""

    path: Path

    def log(self) -> EventLog:
        """Read the log from the file."""
        return _log(_table(self.path))

    def case_ids(self) -> tuple[str, ...]:
        """Return the identifiers of the cases, without reading other columns."""
        return tuple(_table(self.path, ["case"]).column("case").to_pylist())


def _table(path: Path, columns: list[str] | None = None) -> pa.Table:
    import pyarrow as pa

    try:
        table = parquet_table(path.read_bytes(), columns)
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and (short := shortage(error)) is not None:
            raise short from None
        raise UnreadableError(f"{path}: cannot be read ({type(error).__name__}); restore it from a backup") from None
    if (table.schema.metadata or {}).get(b"veilstream") != VERSION:
        raise RefusedError(f"{path}: not a variants file of this version")
    return table


def without_cases(record: ReleaseRecord, erased: set[str]) -> ReleaseRecord:
    """Return the record without the erased cases."""
    keep = np.asarray([case not in erased for case in record.case_ids], dtype=np.bool_)
    remaining = record.log.select_cases(keep)
    return ReleaseRecord(
        record.sequence, remaining, record.carries, record.T, record.sensitive, publication=record.publication
    )


def _values(log: EventLog, name: str) -> list[Any]:
    return log.case_attributes[name].decode() if name in log.case_attributes else [None] * log.n_cases


def _dictionary(column: Column) -> pa.DictionaryArray:
    import pyarrow as pa

    column = column.take(np.arange(len(column)))  # only labels in use: an erased case may have had one of its own
    codes = integers(column.codes, column.codes >= 0)
    return pa.DictionaryArray.from_arrays(codes, texts([str(value) for value in column.values]))


def _column(table: pa.Table, name: str) -> Column:
    flat = table.column(name).combine_chunks().flatten().dictionary_encode()
    codes = flat.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Column(codes.astype(np.int32), tuple(flat.dictionary.to_pylist()))


def _log(table: pa.Table) -> EventLog:
    import msgspec

    lists = table.column("time").combine_chunks()
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    starts = starts_of(lengths)
    values = {}
    for name in table.column_names:
        if name.startswith(_VALUE):
            texts = table.column(name).to_pylist()
            items = (None if text is None else item_of_json(msgspec.json.decode(text)) for text in texts)
            values[name.removeprefix(_VALUE)] = Column.encode(items)
    return EventLog(
        case_ids=tuple(table.column("case").to_pylist()),
        starts=starts,
        activity=_column(table, "activity"),
        time=lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64),
        resource=_column(table, "resource"),
        row=np.arange(starts[-1], dtype=np.int64),
        case_attributes=values,
    )


def item_of_json(value: Any) -> Any:
    """Return an item as the program has it: JSON writes tuples as lists."""
    return tuple(value) if isinstance(value, list) else value
