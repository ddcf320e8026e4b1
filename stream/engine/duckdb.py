"""The engine `duckdb`: one host, data sets larger than memory. Needs the extra `duckdb`.

Rows are read where they lie; what does not fit the memory it may use goes to a folder that is removed afterwards. What
a text means (labels, times of other zones, classes) is decided in Python on distinct values, by the same functions as
for a log in memory; SQL groups, sorts and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.columns import typed
from connectors.formulas import unguarded
from connectors.frame import plain
from connectors.time_columns import zoneless
from models.errors import InputError, NoEventsError, VeilstreamError
from models.eventlog import MISSING, Column
from models.instants import FIRST_YEAR, LAST_YEAR
from models.knowledge import NANOSECONDS, Knowledge, Unit
from models.variants import GONE, VariantPlan, table_of
from stream.engine import source
from stream.engine.contract import ID_DIGITS, Counted, CountQuery, Draws, Leaving, Tell, silent, sql_name, sql_text
from stream.engine.source import (
    CSV,
    ISO,
    DataFiles,
    alphabet_of,
    clamp_microseconds,
    floor_sql,
    is_url,
    item_sql,
    local_minutes,
    units_coarser_than,
    without_unit,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# The rows of a data set in duckdb's SQL: which files in which order, and what each column is read as.

_GUARDED = "^'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def raw(source: DataFiles, attributes: Iterable[str]) -> tuple[str, str, str]:
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


def _csv(source: DataFiles, file: str) -> str:
    dialect = source.dialect
    columns = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in dialect.header)
    hive = "hive_partitioning = true, hive_types_autocast = false, " if source.partitions else ""
    return (
        f"read_csv({sql_text(file)}, auto_detect = false, header = true, skip = {dialect.skipped}, {hive}"
        f"delim = {sql_text(dialect.separator)}, quote = '\"', escape = '\"', null_padding = true, "
        f"columns = {{{columns}}}, max_line_size = 16777216, parallel = false)"
    )


def text_of(source: DataFiles, column: str, role: str) -> str:
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


def attribute_of(source: DataFiles, column: str | None) -> str:
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


def time_of(source: DataFiles) -> tuple[str, str]:
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


# A connection of duckdb, and its errors as one line.


def connected(source: DataFiles, work: Path, memory: str | None) -> DuckDBPyConnection:
    """A connection that spills into `work` and fetches no extension from anywhere."""
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
    if is_url(source.name):
        import fsspec

        connection.register_filesystem(fsspec.filesystem(source.name.partition("://")[0]))
    return connection


class DuckdbErrors:
    """Errors of duckdb as one clear line without content: its messages quote values."""

    def __init__(self, source: DataFiles) -> None:
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import duckdb

        name = self._source.name
        if isinstance(error, duckdb.OutOfMemoryException):
            if "max_temp_directory_size" in str(error) or "No space left" in str(error):
                raise VeilstreamError(f"{name}: the disk is full; make room, or write elsewhere") from None
            raise VeilstreamError(f"{name}: more memory is needed than --memory allows; raise it") from None
        if isinstance(error, duckdb.IOException):
            raise VeilstreamError(f"{name}: cannot be read, or the disk is full ({type(error).__name__})") from None
        if isinstance(error, duckdb.Error):
            raise InputError(
                f"{name}: duckdb cannot read this ({type(error).__name__}); try --engine embedded, which says where"
            ) from None


BATCH = 50_000
"""Cases that are handed on at once."""

ROW_BITS = 40
"""A row's place in the data set is one number: the file's place above the row's."""


class DuckDb:
    """A data set under duckdb. `work`: a folder for what does not fit into `memory` (such as `2GB`); both are the
    caller's to remove."""

    def __init__(self, source: DataFiles, work: Path, memory: str | None = None) -> None:
        self._source = source
        self._connection = connected(source, work, memory)
        self._cases = 0
        self._asked = CountQuery(Knowledge())
        self._public: dict[str, Column] = {}

    @property
    def cases(self) -> int:
        return self._cases

    def close(self) -> None:
        self._connection.close()

    def count(self, asked: CountQuery, tell: Tell = silent) -> Counted:
        """The table of the data set. InputError as the readers of a log in memory, with file and row."""
        with DuckdbErrors(self._source):
            return self._counted(asked, tell)

    def _counted(self, asked: CountQuery, tell: Tell) -> Counted:
        self._asked = asked
        source.check_bins(asked)
        known = asked.knowledge
        if known.structure == "rel" and known.clock == "log" and known.T in ("hours", "days"):
            raise InputError('clock = "log": this log does not say by which clock it was written; use "utc"')
        tell("reading")
        self._read()
        tell("labels")
        items = self._items(known)
        tell("cases")
        self._gather(known, items)
        tell("variants")
        classes = [self._classes(place, name) for place, name in enumerate(self._names)]
        table = self._table(known, items, classes)
        unit = self._unit(known.T) if known.structure == "rel" else None
        return Counted(table, unit)

    @property
    def _names(self) -> tuple[str, ...]:
        """Attributes of the columns x0, x1, ..."""
        asked = self._asked
        return tuple(dict.fromkeys((*asked.sensitive, *asked.public)))

    def _sql(self, text: str) -> list[Any]:
        found: list[Any] = self._connection.execute(text).fetchall()
        return found

    def _arrow(self, text: str) -> Any:
        return self._connection.sql(text).to_arrow_table()

    def _keep(self, name: str, **columns: Any) -> None:
        """A small table from Python."""
        import pyarrow as pa

        small = pa.table(columns)
        self._connection.register("handed_in", small)
        self._sql(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM handed_in")  # noqa: S608 - a name of ours
        self._connection.unregister("handed_in")

    # Rows

    def _read(self) -> None:
        """The view `base`: case c, activity a, resource r, time t (ns), file f and row n, attributes x0, y0 (own, of
        events) ..."""
        source, names = self._source, self._source.names
        columns = {"c": text_of(source, names.case, "case"), "a": text_of(source, names.activity, "activity")}
        columns["r"] = (
            text_of(source, names.resource, "resource") if names.resource in source.header else "NULL::VARCHAR"
        )
        for place, name in enumerate(self._names):
            own, of_events = source.column(name)
            columns[f"x{place}"] = attribute_of(source, own)
            columns[f"y{place}"] = attribute_of(source, of_events)
        shown = ", ".join(f"{text} AS {name}" for name, text in columns.items())
        rows, f, n = raw(source, self._names)
        kind = "VIEW" if source.kind != CSV else "TABLE"
        time, zoned = time_of(source)
        self._sql(
            f"CREATE OR REPLACE TEMP {kind} placed AS "  # noqa: S608 - names are quoted
            f"SELECT {shown}, {time} AS t, {zoned} AS z, {f} AS f, {n} AS n FROM ({rows}) AS raw"
        )
        self._check()
        self._zones()

    def _check(self) -> None:
        """InputError for the first row without case, activity or time, and for a data set without rows."""
        source = self._source
        rows, bad_case, bad_activity, bad_time, unplaced = self._sql(
            "SELECT count(*), count(*) FILTER (c IS NULL OR trim(c) = ''), count(*) FILTER (a IS NULL OR a = ''), "
            "count(*) FILTER (t IS NULL), count(*) FILTER (f IS NULL) FROM placed"
        )[0]
        if not rows:
            raise NoEventsError(f"{source.name}: the log holds no events")
        if unplaced:
            raise VeilstreamError(f"{source.name}: duckdb names its files otherwise than they were listed")
        for count, name, role, test in (
            (bad_case, source.names.case, "case", "c IS NULL OR trim(c) = ''"),
            (bad_activity, source.names.activity, "activity", "a IS NULL OR a = ''"),
        ):
            if count:
                raise InputError(
                    f"{self._first(test)}: no {name}; every event needs one (another column: --columns {role}=...)"
                )
        if bad_time:
            where, name = self._first("t IS NULL"), source.names.time
            raise InputError(
                f"{where}: {name} is missing, or no time of ISO 8601 with seconds; only --engine embedded reads others"
            )

    def _first(self, test: str) -> str:
        """Where the first row stands that fulfils a test."""
        file, row = self._sql(f"SELECT f, n FROM placed WHERE {test} ORDER BY f, n LIMIT 1")[0]  # noqa: S608
        return f"{self._source.files[file]}: row {row + 1}"

    def _zones(self) -> None:
        """The view `base` with all times in UTC: those that carry no zone are read in the one that was told."""
        local = self._arrow("SELECT DISTINCT t // 60000000000 AS m FROM placed WHERE NOT z")["m"].to_numpy()
        if not len(local):
            self._sql("CREATE OR REPLACE TEMP VIEW base AS SELECT * EXCLUDE (z) FROM placed")
            self._years()
            return
        if self._source.zone is None:
            raise zoneless(self._first("NOT z"), self._source.names.time)
        minute, moment, still = local_minutes(
            local, self._source.zone, self._source.name, texts=self._source.times_are_texts
        )
        self._keep("minutes", m=minute, moment=moment, still=still)
        self._sql(
            "CREATE OR REPLACE TEMP VIEW base AS SELECT placed.* EXCLUDE (t, z), CASE WHEN z THEN t "
            "WHEN still THEN moment ELSE moment + (t - m * 60000000000) END AS t "
            "FROM placed LEFT JOIN minutes ON NOT z AND t // 60000000000 = m"
        )
        self._years()

    def _years(self) -> None:
        first, last = self._sql("SELECT year(make_timestamp_ns(min(t))), year(make_timestamp_ns(max(t))) FROM base")[0]
        if first < FIRST_YEAR or last > LAST_YEAR:
            name = self._source.names.time
            raise InputError(f"{self._source.name}: {name} is outside the years {FIRST_YEAR} to {LAST_YEAR}")

    # Items

    def _items(self, known: Knowledge) -> dict[str, Column]:
        """The labels of activities and resources that items are made of; tables `acts` and `actors` code their
        texts."""
        found = {}
        for role, column, table in (("activity", "a", "acts"), ("resource", "r", "actors")):
            if role in known.carries:
                found[role] = self._labels(column, table, resource=role == "resource")
        if "resource" in found and not (found["resource"].codes >= 0).any():
            raise InputError("the log has no resource; attribute re and ar need one (XES key org:resource)")
        return found

    def _labels(self, column: str, table: str, *, resource: bool) -> Column:
        import pyarrow as pa

        texts = self._arrow(
            f"SELECT {column} AS v FROM base WHERE {column} IS NOT NULL GROUP BY v "  # noqa: S608
            f"ORDER BY min((f::BIGINT << {ROW_BITS}) + n)"  # as the readers do: a tie has one witness
        )["v"]
        plain_texts = texts.to_pylist()
        shown = [unguarded(text) for text in plain_texts] if self._source.kind == CSV else plain_texts
        labels = source.labels(shown, self._asked, resource=resource)
        self._keep(table, v=pa.array(plain_texts, pa.string()), k=labels.codes)
        return labels

    def _gather(self, known: Knowledge, items: dict[str, Column]) -> None:
        """The table `gathered`: of each case its items in order, its first row, its attributes."""
        joins = ""
        if "activity" in items:
            joins += " JOIN acts ON base.a = acts.v"
        if "resource" in items:
            joins += " LEFT JOIN actors ON base.r = actors.v"
        tick = "0::BIGINT"
        if known.structure == "rel":
            self._sql("CREATE OR REPLACE TEMP TABLE begins AS SELECT c, min(t) AS begin FROM base GROUP BY c")
            joins += " JOIN begins USING (c)"
            unit = NANOSECONDS[known.T]
            tick = f"({floor_sql('t', unit, '//')} - {floor_sql('begin', unit, '//')})"
        item = item_sql(known, items, "acts.k", "coalesce(actors.k, -1) + 1", tick)
        kind = "BIGINT" if known.structure == "rel" or len(items) > 1 else "INTEGER"
        attributes = "".join(
            f", max(x{place}) AS x{place}, min(x{place}) <> max(x{place}) AS v{place}, "
            f"last(y{place} ORDER BY t, f, n) FILTER (y{place} IS NOT NULL) AS y{place}"
            for place in range(len(self._names))
        )
        self._sql(
            f"CREATE OR REPLACE TEMP TABLE gathered AS SELECT c, list(({item})::{kind} ORDER BY t, f, n) AS trace, "  # noqa: S608
            f"min((f::BIGINT << {ROW_BITS}) + n) AS first{attributes} FROM base{joins} GROUP BY c"
        )
        self._cases = self._sql("SELECT count(*) FROM gathered")[0][0]

    # Attributes

    def _classes(self, place: int, name: str) -> Column:
        """The class or value of each kind of case by an attribute; table `kinds<place>` codes own and last value."""
        import pyarrow as pa

        varying = self._sql(f"SELECT min(first) FROM gathered WHERE v{place}")[0][0]  # noqa: S608
        if varying is not None:
            file, row = varying >> ROW_BITS, varying & ((1 << ROW_BITS) - 1)
            raise InputError(
                f"{self._source.files[file]}: row {row + 1}: the case that begins here has two values of "
                f"'case:{name}'; a column that varies in a case may not be called case:..."
            )
        self._sql(
            f"CREATE OR REPLACE TEMP TABLE kinds{place} AS SELECT x{place} AS x, y{place} AS y, count(*) AS cases, "  # noqa: S608
            f"row_number() OVER (ORDER BY min(first)) - 1 AS kind FROM gathered GROUP BY ALL"
        )
        found = self._arrow(f"SELECT x, y, cases FROM kinds{place} ORDER BY kind")  # noqa: S608
        own_name, last_name = self._source.column(name)
        own = self._coded(found["x"], f"x{place}") if own_name else None
        last = self._coded(found["y"], f"y{place}") if last_name else None
        column = source.attribute(name, own, last, found["cases"].to_numpy(), self._asked)
        codes = pa.array(column.codes, pa.int32())
        self._keep(f"codes{place}", kind=pa.array(np.arange(len(column)), pa.int64()), code=codes)
        self._public[name] = column
        return column

    def _coded(self, found: Any, column: str) -> Column:
        """The values of kinds, over all values of the column in order of first appearance."""
        every = self._arrow(
            f"SELECT {column} AS v FROM base WHERE {column} IS NOT NULL GROUP BY v "  # noqa: S608
            f"ORDER BY min((f::BIGINT << {ROW_BITS}) + n)"
        )["v"].to_pylist()
        code = {value: place for place, value in enumerate(every)}
        codes = [MISSING if value is None else code[value] for value in found.to_pylist()]
        whole = Column(np.asarray(codes, dtype=np.int32), tuple(plain(value) for value in every))
        if self._source.kind != CSV:
            return whole
        texts = Column(whole.codes, tuple(unguarded(text) for text in whole.values))
        return typed(texts, self._source.dialect.separator != ",")

    # The table

    def _table(self, known: Knowledge, items: dict[str, Column], classes: list[Column]) -> Any:
        held = [place for place, name in enumerate(self._names) if name in self._asked.sensitive]
        joins = "".join(
            f" JOIN (SELECT x, y, code AS k{place} FROM kinds{place} JOIN codes{place} USING (kind)) AS own{place} "  # noqa: S608
            f"ON x{place} IS NOT DISTINCT FROM own{place}.x AND y{place} IS NOT DISTINCT FROM own{place}.y"
            for place in range(len(self._names))
        )
        codes = "".join(f", k{place}" for place in range(len(self._names)))
        self._sql(f"CREATE OR REPLACE TEMP VIEW held AS SELECT c, trace, first{codes} FROM gathered{joins}")  # noqa: S608
        grouped = "".join(f", k{place}" for place in held)
        self._sql(
            f"CREATE OR REPLACE TEMP TABLE variants AS SELECT *, row_number() OVER (ORDER BY first) - 1 AS v FROM "  # noqa: S608
            f"(SELECT trace{grouped}, count(*) AS cases, min(first) AS first FROM held GROUP BY ALL)"
        )
        found = self._arrow("SELECT * EXCLUDE (first, v) FROM variants ORDER BY v").combine_chunks()
        trace = found["trace"].chunk(0) if found.num_rows else found["trace"]
        offsets = trace.offsets.to_numpy().astype(np.int64)
        flat, codes_flat = np.unique(trace.values.to_numpy()[offsets[0] : offsets[-1]], return_inverse=True)
        alphabet = alphabet_of(flat.astype(np.int64), known, items)
        own = {self._names[place]: _renumbered(found[f"k{place}"].to_numpy(), classes[place]) for place in held}
        count = found["cases"].to_numpy().astype(np.int64)
        return table_of(known, alphabet, offsets - offsets[0], codes_flat.astype(np.int32), own, count)

    def _unit(self, T: Unit) -> str | None:
        begin, end = self._sql("SELECT min(t), max(t) FROM base")[0]
        tests = [
            (unit, self._sql(f"SELECT bool_and((t - {begin}) % {size} = 0) FROM base")[0][0])  # noqa: S608
            for unit, size in units_coarser_than(T)
        ]
        fitting = [unit for unit, fits in tests if fits]
        return fitting[-1] if fitting and end > begin else None

    # What leaves

    def values(self, name: str) -> Column:
        return self._public[name]

    def leaving(self, plan: VariantPlan, draws: Draws, tell: Tell = silent) -> Iterator[Leaving]:
        tell("cases")
        names = self._asked.public
        held = [place for place, name in enumerate(self._names) if name in self._asked.sensitive]
        same = " AND ".join(
            ["held.trace = variants.trace", *(f"held.k{p} IS NOT DISTINCT FROM variants.k{p}" for p in held)]
        )
        codes = "".join(f", held.k{self._names.index(name)} AS p{place}" for place, name in enumerate(names))
        ends = np.cumsum(plan.count)
        before = np.concatenate(([0], ends))[np.searchsorted(plan.row, plan.row)]
        self._keep("parts", v=plan.row, trace=plan.trace, low=ends - plan.count - before, high=ends - before)
        parted = len(np.unique(plan.row)) < len(plan.row)
        place = f"row_number() OVER (PARTITION BY v ORDER BY {_drawn(draws, 'place')}) - 1" if parted else "0"
        between = "AND place >= parts.low AND place < parts.high" if parted else ""
        query = (
            f"SELECT id, parts.trace AS trace, v{''.join(f', p{k}' for k in range(len(names)))} FROM "  # noqa: S608
            f"(SELECT substr({_drawn(draws, 'id')}, 1, {ID_DIGITS}) AS id, v, {place} AS place{codes} "
            f"FROM held JOIN variants ON {same}) AS placed_cases JOIN parts USING (v) "
            f"WHERE parts.trace <> {GONE} {between} ORDER BY id"
        )
        with DuckdbErrors(self._source):
            for batch in self._connection.sql(query).to_arrow_reader(BATCH):
                attributes = {name: _ints(batch[f"p{k}"]) for k, name in enumerate(names)}
                yield Leaving(batch["id"].to_pylist(), batch["trace"].to_numpy(), batch["v"].to_numpy(), attributes)


def _renumbered(codes: Any, column: Column) -> Column:
    return Column(np.asarray(codes, dtype=np.int32), column.values).take(slice(None))


def _ints(column: Any) -> Any:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int32)


def _drawn(draws: Draws, purpose: str) -> str:
    """HMAC-SHA256 of the case in SQL. The pads are the key: they stand in no message and in no file."""
    inner, outer = draws.pads(purpose)
    return f"sha256(unhex('{outer.hex()}') || unhex(sha256(unhex('{inner.hex()}') || encode(c))))"
