"""The rows of a data set in duckdb's SQL: which files in which order, and what each column is read as."""

from __future__ import annotations

from collections.abc import Iterable

from models.errors import InputError
from stream.engine.contract import sql_name, sql_text
from stream.engine.moments import ISO
from stream.engine.source import CSV, Source, clamp_microseconds, without_unit

_GUARDED = "^'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def raw(source: Source, attributes: Iterable[str]) -> tuple[str, str, str]:
    """The rows of the files as they are, in the columns that are needed, and the names of two columns of ours: the
    file's place and the row's. No column of the source has such a name, nor is in their place."""
    names = source.names
    needed = [names.case, names.activity, names.time, *([names.resource] if names.resource in source.header else [])]
    needed += [column for name in attributes for column in source.column(name) if column is not None]
    shown = ", ".join(map(sql_name, dict.fromkeys(needed)))
    named, file, row = (
        sql_name(source.free(name)) for name in ("veilstream_name", "veilstream_file", "veilstream_row")
    )
    if source.kind != CSV:
        if any(name.lower() == "file_row_number" for name in source.header):
            raise InputError(
                f"{source.name}: duckdb needs the name 'file_row_number' itself; rename this column, or use --engine "
                "embedded"
            )
        files = ", ".join(map(sql_text, source.files))
        places = " ".join(f"WHEN {sql_text(path)} THEN {place}" for place, path in enumerate(source.files))
        hive = "true, hive_types_autocast = false" if source.partitions else "false"
        place = f"CASE {named} {places} END" if len(source.files) > 1 else "0"
        text = (
            f"SELECT {shown}, ({place})::BIGINT AS {file}, file_row_number AS {row} "  # noqa: S608
            f"FROM read_parquet([{files}], filename = {sql_text(source.free('veilstream_name'))}, "
            f"file_row_number = true, union_by_name = true, hive_partitioning = {hive})"
        )
        return text, file, row
    text = " UNION ALL ".join(
        f"SELECT {shown}, {place}::BIGINT AS {file}, row_number() OVER () - 1 AS {row} FROM {_csv(source, path)}"  # noqa: S608
        for place, path in enumerate(source.files)
    )
    return text, file, row


def _csv(source: Source, file: str) -> str:
    dialect = source.dialect
    columns = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in dialect.header)
    hive = "hive_partitioning = true, hive_types_autocast = false, " if source.partitions else ""
    return (
        f"read_csv({sql_text(file)}, auto_detect = false, header = true, skip = {dialect.skipped}, {hive}"
        f"delim = {sql_text(dialect.separator)}, quote = '\"', escape = '\"', null_padding = true, "
        f"columns = {{{columns}}}, max_line_size = 16777216, parallel = false)"
    )


def text_of(source: Source, column: str, role: str) -> str:
    """A column as text; empty texts of CSV are missing."""
    import pyarrow as pa

    kind = source.types.get(column, pa.string())
    if source.kind == CSV:
        text = f"nullif({sql_name(column)}, '')"
        if role != "case":
            return text
        # a quote that was set before what a spreadsheet would run (connectors.formulas)
        return f"CASE WHEN regexp_matches({text}, {sql_text(_GUARDED)}) THEN substr({text}, 2) ELSE {text} END"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        return f"{sql_name(column)}::VARCHAR"
    raise InputError(f"{source.name}: column {column!r} ({role}) is {kind}; only --engine embedded reads it")


def attribute_of(source: Source, column: str | None) -> str:
    import pyarrow as pa

    if column is None:
        return "NULL::INTEGER"
    name = sql_name(column)
    if source.kind == CSV:
        return f"nullif({name}, '')"
    kind = source.types.get(column, pa.string())
    if pa.types.is_floating(kind):
        return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(f"{source.name}: column {column!r} is {kind}; only --engine embedded reads it")
    return name


def time_of(source: Source) -> tuple[str, str]:
    """Two expressions: nanoseconds since 1970 (NULL where there is no time), and whether that is in UTC."""
    import pyarrow as pa

    name, kind = sql_name(source.names.time), source.types.get(source.names.time, pa.string())
    if source.unit is not None:
        return f"{name}::BIGINT * {source.unit}", "true"
    if pa.types.is_timestamp(kind):
        moment = f"epoch_ns({name})"
        if kind.unit != "ns":
            # Moments beyond the years that nanoseconds hold become the nearest of them, which is refused with a clear
            # line; epoch_ns alone would fail without one.
            first, last = clamp_microseconds()
            moment = f"greatest(least(epoch_us({name}), {last}), {first}) * 1000"
        return moment, "true" if kind.tz is not None else "false"
    if pa.types.is_integer(kind):
        raise InputError(without_unit(source))
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{source.name}: times of type {kind} are read by --engine embedded only")
    text = f"trim({name})"
    found = f"regexp_extract({text}, {sql_text(ISO)}, ['date', 'clock', 'fraction', 'zone'])"
    moment = f"epoch_us(TRY_CAST({found}.date || ' ' || {found}.clock AS TIMESTAMP)) * 1000"
    fraction = f"rpad({found}.fraction, 9, '0')::BIGINT"
    offset = (
        f"CASE WHEN length({found}.zone) < 2 THEN 0 ELSE (CASE WHEN {found}.zone[1] = '-' THEN -1 ELSE 1 END) * "
        f"({found}.zone[2:3]::BIGINT * 60 + {found}.zone[-2:]::BIGINT) * 60000000000 END"
    )
    whole = f"CASE WHEN regexp_full_match({text}, {sql_text(ISO)}) THEN {moment} + {fraction} - {offset} END"
    return whole, f"{found}.zone <> ''"
