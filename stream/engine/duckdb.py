"""The engine `duckdb`: one host, data sets larger than memory. Needs the extra `duckdb`.

Rows are read in place. Data that do not fit into the permitted memory go to a folder that is removed afterwards. The
queries are those of `stream.engine.sql`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError, VeilstreamError
from stream.engine.source import CSV, ISO, DataFiles, clamp_microseconds, is_url, without_unit
from stream.engine.sql import BATCH, SqlEngine

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A quote before a sign that a spreadsheet would take for a formula (connectors.formulas).
_GUARDED = "^'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


class DuckDb(SqlEngine):
    """A data set under duckdb.

    Parameters
    ----------
    files
        The data set.
    work
        A folder for data that does not fit into `memory`; the caller removes it.
    memory
        Most that duckdb may use, such as `2GB`.
    """

    NAME = "duckdb"
    QUOTE = '"'
    DIVIDE = "//"
    ENCODED_CASE = "encode(c)"

    def __init__(self, files: DataFiles, work: Path, memory: str | None = None) -> None:
        super().__init__(files)
        self._connection = connected(files, work, memory)

    def close(self) -> None:
        """Close the connection, and with it all tables."""
        self._connection.close()

    # Queries and tables

    def _view(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def _store(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def _add(self, name: str, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa

        # duckdb reads a registered table in place, so the rows are copied before it is unregistered.
        self._connection.register("python_columns", pa.table(dict(columns)))
        self._store(name, "SELECT * FROM python_columns")
        self._connection.unregister("python_columns")

    def _arrow(self, query: str) -> Any:
        return self._connection.sql(query).to_arrow_table()

    def _batches(self, query: str, cases: int) -> Iterator[Any]:
        yield from self._connection.sql(f"{query} ORDER BY id").to_arrow_reader(BATCH)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import duckdb

        name = self._source.name
        # Messages of duckdb quote values: none of them is passed on.
        try:
            yield
        except duckdb.OutOfMemoryException as error:
            if "max_temp_directory_size" in str(error) or "No space left" in str(error):
                raise VeilstreamError(f"{name}: the disk is full; make room, or write elsewhere") from None
            raise VeilstreamError(f"{name}: more memory is needed than --memory allows; raise it") from None
        except duckdb.IOException as error:
            raise VeilstreamError(f"{name}: cannot be read, or the disk is full ({type(error).__name__})") from None
        except duckdb.Error as error:
            raise InputError(
                f"{name}: duckdb cannot read this ({type(error).__name__}); try --engine embedded, which names the row"
            ) from None

    # Rows

    def _make_raw_events(self, columns: Mapping[str, str]) -> None:
        rows, file, row = self._raw()
        listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
        query = f"SELECT {listed}, {file} AS f, {row} AS n FROM ({rows}) AS raw"  # noqa: S608 - names are quoted
        # Parquet is read again by each query that needs it; CSV is parsed once.
        if self._source.kind == CSV:
            self._store("raw_events", query)
        else:
            self._view("raw_events", query)

    def _raw(self) -> tuple[str, str, str]:
        """Return a query of all needed columns as the files have them, and the names of its columns of file and row.

        No column of the source has these two names.
        """
        files, names = self._source, self._source.names
        needed = [names.case, names.activity, names.time]
        if names.resource in files.header:
            needed.append(names.resource)
        for attribute in self._names:
            needed += [column for column in files.column(attribute) if column is not None]
        shown = ", ".join(self._quoted(column) for column in dict.fromkeys(needed))
        file = self._quoted(files.free("veilstream_file"))
        row = self._quoted(files.free("veilstream_row"))
        if files.kind != CSV:
            return self._raw_parquet(shown, file, row), file, row
        parts = [
            f"SELECT {shown}, CAST({place} AS BIGINT) AS {file}, row_number() OVER () - 1 AS {row} "  # noqa: S608
            f"FROM {self._read_csv(path)}"
            for place, path in enumerate(files.files)
        ]
        return " UNION ALL ".join(parts), file, row

    def _raw_parquet(self, shown: str, file: str, row: str) -> str:
        files = self._source
        if any(column.lower() == "file_row_number" for column in files.header):
            raise InputError(
                f"{files.name}: duckdb needs the name 'file_row_number' itself; rename this column, or use --engine "
                "embedded"
            )
        name = files.free("veilstream_name")
        place = "0"
        if len(files.files) > 1:
            cases = " ".join(f"WHEN {_literal(path)} THEN {number}" for number, path in enumerate(files.files))
            place = f"CASE {self._quoted(name)} {cases} END"
        listed = ", ".join(map(_literal, files.files))
        hive = "true, hive_types_autocast = false" if files.partitions else "false"
        return (
            f"SELECT {shown}, CAST({place} AS BIGINT) AS {file}, file_row_number AS {row} "  # noqa: S608
            f"FROM read_parquet([{listed}], filename = {_literal(name)}, file_row_number = true, "
            f"union_by_name = true, hive_partitioning = {hive})"
        )

    def _read_csv(self, path: str) -> str:
        dialect = self._source.dialect
        columns = ", ".join(f"{_literal(column)}: 'VARCHAR'" for column in dialect.header)
        hive = "hive_partitioning = true, hive_types_autocast = false, " if self._source.partitions else ""
        return (
            f"read_csv({_literal(path)}, auto_detect = false, header = true, skip = {dialect.skipped}, {hive}"
            f"delim = {_literal(dialect.separator)}, quote = '\"', escape = '\"', null_padding = true, "
            f"columns = {{{columns}}}, max_line_size = 16777216, parallel = false)"
        )

    # Columns

    def _text(self, column: str, role: str) -> str:
        if self._source.kind != CSV:
            return super()._text(column, role)
        text = self._csv_text(column)
        if role != "case":
            return text
        return f"CASE WHEN regexp_matches({text}, {_literal(_GUARDED)}) THEN substr({text}, 2) ELSE {text} END"

    def _csv_text(self, column: str) -> str:
        """Return a column of CSV; an empty text is missing."""
        return f"nullif({self._quoted(column)}, '')"

    def _attribute(self, column: str | None) -> str:
        if column is not None and self._source.kind == CSV:
            return self._csv_text(column)
        return super()._attribute(column)

    def _check_attribute_type(self, column: str, kind: Any) -> None:
        import pyarrow as pa

        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise InputError(f"{self._source.name}: column {column!r} is {kind}; only --engine embedded reads it")

    def _time(self) -> tuple[str, str]:
        import pyarrow as pa

        files = self._source
        name, kind = self._quoted(files.names.time), files.types.get(files.names.time, pa.string())
        if files.unit is not None:
            return f"{name}::BIGINT * {files.unit}", "true"
        if pa.types.is_timestamp(kind):
            moment = f"epoch_ns({name})"
            if kind.unit != "ns":
                # Moments beyond the years that nanoseconds hold become the nearest of them, which is refused with a
                # clear line; epoch_ns alone would fail without one.
                first, last = clamp_microseconds()
                moment = f"greatest(least(epoch_us({name}), {last}), {first}) * 1000"
            return moment, "true" if kind.tz is not None else "false"
        if pa.types.is_integer(kind):
            raise InputError(without_unit(files))
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"{files.name}: times of type {kind} are read by --engine embedded only")
        return _time_of_text(name)

    def _no_time(self, place: str) -> str:
        name = self._source.names.time
        return f"{place}: {name} is missing, or no time of ISO 8601 with seconds; only --engine embedded reads others"

    # Expressions

    def _ordered_items(self, item: str, order: str) -> str:
        return f"list({item} ORDER BY {order})"

    def _last(self, value: str, order: str) -> str:
        return f"last({value} ORDER BY {order}) FILTER (WHERE {value} IS NOT NULL)"

    def _sha256(self, data: str) -> str:
        return f"sha256({data})"


def _literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _time_of_text(name: str) -> tuple[str, str]:
    """Return two expressions: nanoseconds of a text of ISO 8601, NULL for another text; and whether it has a zone.

    duckdb reads date and clock. The fraction (up to nine digits) and the offset of the zone, such as +02:00, are added
    here, since its own times end at the microsecond.
    """
    text = f"trim({name})"
    parts = f"regexp_extract({text}, {_literal(ISO)}, ['date', 'clock', 'fraction', 'zone'])"
    moment = f"epoch_us(TRY_CAST({parts}.date || ' ' || {parts}.clock AS TIMESTAMP)) * 1000"
    fraction = f"rpad({parts}.fraction, 9, '0')::BIGINT"
    sign = f"CASE WHEN {parts}.zone[1] = '-' THEN -1 ELSE 1 END"
    minutes = f"{parts}.zone[2:3]::BIGINT * 60 + {parts}.zone[-2:]::BIGINT"
    offset = f"CASE WHEN length({parts}.zone) < 2 THEN 0 ELSE ({sign}) * ({minutes}) * 60000000000 END"
    is_iso = f"regexp_full_match({text}, {_literal(ISO)})"
    return f"CASE WHEN {is_iso} THEN {moment} + {fraction} - {offset} END", f"{parts}.zone <> ''"


def connected(files: DataFiles, work: Path, memory: str | None) -> DuckDBPyConnection:
    """Return a connection that spills into `work` and fetches no extension.

    Parameters
    ----------
    files
        The data set; the file system of a URL is registered.
    work
        A folder for data that does not fit into memory.
    memory
        Most that duckdb may use, such as `2GB`.

    Raises
    ------
    InputError
        If duckdb is not installed, or `memory` is not an amount.
    """
    try:
        import duckdb
    except ImportError as error:
        raise InputError('--engine duckdb needs duckdb: install "veilstream[duckdb]"') from error
    spill = work / "spill"
    spill.mkdir(mode=0o700, exist_ok=True)
    settings: dict[str, Any] = {
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    if memory is not None:
        settings["memory_limit"] = memory
    try:
        connection = duckdb.connect(":memory:", config=settings)
    except duckdb.Error as error:
        raise InputError(f"--memory {memory}: not an amount of memory such as 2GB") from error
    if is_url(files.name):
        import fsspec

        connection.register_filesystem(fsspec.filesystem(files.name.partition("://")[0]))
    return connection
