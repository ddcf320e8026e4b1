"""The engine `spark`: a cluster that exists, or `local[*]`. Needs the extra `spark` and Java 17.

Executors read, sort, group and count; labels, times of other zones and classes are decided on distinct values in the
driver, by the same functions as for a log in memory. Nothing of ours runs on an executor, so the cluster needs no
veilstream. What a case draws is a function of its id and the key of the release: a task that is run again, or twice at
once, draws the same. The key stands in the plan of the query, which those who run the cluster can see, as they can see
the data; event logs, which would keep it, are off.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.frame import plain
from connectors.time_columns import zoneless
from connectors.times import SECOND
from models.errors import InputError, NoEventsError, VeilstreamError
from models.eventlog import MISSING, Column
from models.instants import FIRST_YEAR, LAST_YEAR
from models.knowledge import NANOSECONDS, Knowledge, Unit
from models.variants import GONE, VariantPlan, VariantTable, table_of
from stream.engine import source
from stream.engine.contract import ID_DIGITS, Counted, CountQuery, Draws, Leaving, Tell, silent
from stream.engine.source import (
    CSV,
    MINUTE,
    DataFiles,
    alphabet_of,
    floor_sql,
    is_url,
    item_sql,
    local_minutes,
    units_coarser_than,
    without_unit,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# A session of Spark, and its errors as one line.

SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}
"""What our queries rest on."""

EVENT_LOG = "spark.eventLog.enabled"
"""Event logs would keep the key of a release, which stands in the plan of the query."""


COLLECTOR = "-XX:+UseParallelGC"
"""Of a local JVM. The default one collects beside the work, on cores that the work needs (a quarter more CPU)."""

JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Where options of every JVM are told."""


def session(work: Path, memory: str | None) -> tuple[SparkSession, bool]:
    """A session with our settings, and whether Spark was started for it: the one of spark-submit, or a local one. Where
    a session runs in this process already it is another one of the same application, which is not ours to stop.
    InputError for an application that keeps an event log, and for a `memory` that is no amount."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError('--engine spark needs pyspark: install "veilstream[spark]"') from error
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # of pandas' next version
    running = SparkSession.getActiveSession()
    made = _started(work, memory) if running is None else running.newSession()
    if made.sparkContext.getConf().get(EVENT_LOG, "false").lower() == "true":
        raise InputError(
            "--engine spark: this session keeps an event log, where the key of the release would stand; start it with "
            f"{EVENT_LOG}=false"
        )
    for name, value in SQL.items():
        made.conf.set(name, value)
    made.sparkContext.setLogLevel("OFF")
    return made, running is None


def _started(work: Path, memory: str | None) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("veilstream")
    settings = {
        EVENT_LOG: "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(work),
    }
    if memory is not None:
        settings |= dict.fromkeys(("spark.driver.memory", "spark.executor.memory"), megabytes(memory))
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"} & os.environ.keys():  # else told elsewhere
        settings |= {"spark.master": "local[*]", "spark.sql.shuffle.partitions": "8"}
        if not any("GC" in os.environ.get(name, "") for name in JAVA):  # a JVM takes one collector
            settings["spark.driver.extraJavaOptions"] = COLLECTOR
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise VeilstreamError(f"--engine spark: no session ({type(error).__name__}); is Java 17 installed?") from None
    return made


def megabytes(memory: str) -> str:
    """`2GB`, `512m`, `1.5GiB` as Spark writes amounts of memory: a JVM knows no `GB`. As for duckdb, GB and g are
    10^9 bytes, GiB 2^30."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([kmgt])(i?)b?", memory.strip().lower())
    if found is None:
        raise InputError(f"--memory {memory}: not an amount of memory such as 2GB")
    number, unit, binary = found.groups()
    return f"{int(float(number) * (1024 if binary else 1000) ** ('kmgt'.index(unit) + 1)) >> 20}m"


class SparkErrors:
    """Errors of Spark as one clear line without content: its messages quote values."""

    def __init__(self, source: DataFiles) -> None:
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if isinstance(error, (PySparkException, Py4JError, ConnectionError)):  # no connection: its JVM is dead
            raise VeilstreamError(
                f"{self._source.name}: spark failed ({type(error).__name__}); its own log says where"
            ) from None


# The columns of a data set in Spark's SQL: which it can read, and as what.

LAST = 2**63 - 1
"""The largest number of 64 bits; nanoseconds reach it in the year 2262."""


def readable(source: DataFiles) -> DataFiles:
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


def text_of(source: DataFiles, column: str, role: str) -> str:
    import pyarrow as pa

    kind = source.types.get(column, pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        return f"CAST({_name(column)} AS STRING)"
    raise InputError(f"{source.name}: column {column!r} ({role}) is {kind}; only --engine embedded reads it")


def attribute_of(source: DataFiles, column: str | None) -> str:
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


def time_of(source: DataFiles) -> tuple[str, str]:
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


BATCH = 50_000
"""Cases that are handed on at once."""

HELD = 2_000_000
"""Cases that leave of which the driver holds id and trace at once, some 100 MB."""

SENT = 64 << 20
"""Bytes of a table of variants that is sent to every executor."""

ROW_BITS = 40
"""As for duckdb: a row's place in the data set is one number."""


class Spark:
    """A data set under Spark. `work`: where `local[*]` keeps what does not fit into memory."""

    def __init__(self, source: DataFiles, work: Path, memory: str | None = None) -> None:
        self._source = readable(source)
        self._session, self._own = session(work, memory)
        self._asked = CountQuery(Knowledge())
        self._cases = 0
        self._public: dict[str, Column] = {}
        self._kept: list[DataFrame] = []
        self._variants: DataFrame | None = None
        self._held: DataFrame | None = None
        self._firsts = np.empty(0, dtype=np.int64)
        self._span = (0, 0)
        self._table_bytes = 0

    @property
    def cases(self) -> int:
        return self._cases

    def close(self) -> None:
        """Also where its JVM is dead: what went wrong is said already."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(Py4JError, PySparkException, OSError):
            for frame in self._kept:
                frame.unpersist()
            if self._own:
                self._session.stop()

    def values(self, name: str) -> Column:
        return self._public[name]

    def count(self, asked: CountQuery, tell: Tell = silent) -> Counted:
        """The table of the data set. InputError as the readers of a log in memory, with file and row."""
        with SparkErrors(self._source):
            self._asked = asked
            source.check_bins(asked)
            known = asked.knowledge
            if known.structure == "rel" and known.clock == "log" and known.T in ("hours", "days"):
                raise InputError('clock = "log": this log does not say by which clock it was written; use "utc"')
            tell("reading")
            rows = self._timed(self._placed())
            tell("labels")
            items, rows = self._items(known, rows)
            tell("cases")
            gathered = self._gathered(known, items, rows)
            tell("variants")
            table = self._table(known, items, gathered, rows)
            return Counted(table, self._unit(known.T, rows) if known.structure == "rel" else None)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._asked.sensitive, *self._asked.public)))

    def _keep(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    # Rows

    def _placed(self) -> DataFrame:
        """Case c, activity a, resource r, time t (ns), whether it is in UTC z, file f and row n, attributes x0, y0
        (own, of events) ..."""
        source, names = self._source, self._source.names
        reader = self._session.read.option("mergeSchema", "false")
        if source.partitions:
            reader = reader.option("basePath", source.name)
        files = [file if is_url(file) else Path(file).absolute().as_uri() for file in source.files]
        found = reader.parquet(*files)
        time, zoned = time_of(source)
        has_resource = names.resource in source.header
        resource = text_of(source, names.resource, "resource") if has_resource else "CAST(NULL AS STRING)"
        columns = [
            f"{text_of(source, names.case, 'case')} AS c",
            f"{text_of(source, names.activity, 'activity')} AS a",
            f"{resource} AS r",
            f"{time} AS t",
            f"{zoned} AS z",
            "_metadata.row_index AS n",
        ]
        for place, name in enumerate(self._names):
            own, of_events = source.column(name)
            columns += [f"{attribute_of(source, own)} AS x{place}", f"{attribute_of(source, of_events)} AS y{place}"]
        if len(files) == 1:
            return found.selectExpr(*columns, "CAST(0 AS BIGINT) AS f")
        # Spark writes file:/x or file:///x: both are looked up, so that no row needs a pattern
        spelt = {name: place for place, file in enumerate(files) for name in (file, file.replace("file:///", "file:/"))}
        places = self._session.createDataFrame(list(spelt.items()), "path STRING, f BIGINT")
        rows = found.selectExpr(*columns, "_metadata.file_path AS path")
        return rows.join(places.hint("broadcast"), "path", "left").drop("path")

    def _checked(self, rows: DataFrame) -> Any:
        """One pass over all rows: how many have no zone, and the first and the last time. InputError for a row without
        case, activity or time."""
        source = self._source
        tests = {"c": "c IS NULL OR trim(c) = ''", "a": "a IS NULL OR a = ''", "t": "t IS NULL", "f": "f IS NULL"}
        found = rows.selectExpr(
            "count(*) AS rows",
            *(f"count_if({test}) AS bad_{name}" for name, test in tests.items()),
            "count_if(NOT z) AS local",
            "min(t) AS begin",
            "max(t) AS end",
        )
        counts = found.collect()[0]
        if not counts["rows"]:
            raise NoEventsError(f"{source.name}: the log holds no events")
        if counts["bad_f"]:
            raise VeilstreamError(f"{source.name}: spark names its files otherwise than they were listed")
        for name, role in (("c", "case"), ("a", "activity"), ("t", "time")):
            if counts[f"bad_{name}"]:
                where, column = self._first(rows, tests[name]), getattr(source.names, role)
                raise InputError(f"{where}: no {column}; every event needs one (another column: --columns {role}=...)")
        return counts

    def _first(self, rows: DataFrame, test: str) -> str:
        file, row = rows.where(test).orderBy("f", "n").select("f", "n").first()
        return f"{self._source.files[file]}: row {row + 1}"

    def _timed(self, rows: DataFrame) -> DataFrame:
        """The rows with all times in UTC. Keeps the first and the last."""
        counts = self._checked(rows)
        begin, end = counts["begin"], counts["end"]
        self._refuse_outside(rows, begin, end)  # first: the clocks of zones know no such years
        if counts["local"]:
            rows = self._in_utc(rows)
            begin, end = rows.selectExpr("min(t)", "max(t)").collect()[0]
            self._refuse_outside(rows, begin, end)
        self._span = begin, end
        return rows

    def _refuse_outside(self, rows: DataFrame, begin: int, end: int) -> None:
        """InputError with the first row whose time is outside the years that are read; `begin`, `end` (ns): of all."""
        first, behind = (
            int(np.datetime64(f"{year}-01-01", "ns").astype(np.int64)) for year in (FIRST_YEAR, LAST_YEAR + 1)
        )
        if begin < first or end >= behind:
            where, name = self._first(rows, f"t < {first}L OR t >= {behind}L"), self._source.names.time
            raise InputError(f"{where}: {name} is outside the years {FIRST_YEAR} to {LAST_YEAR}")

    def _in_utc(self, rows: DataFrame) -> DataFrame:
        local = rows.where("NOT z").selectExpr(f"t div {MINUTE} AS m").distinct().toArrow()["m"].to_numpy()
        if self._source.zone is None:
            raise zoneless(self._first(rows, "NOT z"), self._source.names.time)
        minute, moment, still = local_minutes(local, self._source.zone, self._source.name, texts=False)
        small = self._small({"m": minute, "moment": moment, "still": still})
        shift = f"CASE WHEN z THEN t WHEN still THEN moment ELSE moment + (t - m * {MINUTE}L) END AS t"
        others = [f"rows.{name}" for name in rows.columns if name not in ("t", "z")]
        rows = rows.alias("rows").join(small.hint("broadcast"), _condition(f"NOT z AND t div {MINUTE} = m"), "left")
        return rows.selectExpr(*others, shift)

    def _small(self, columns: dict[str, Any]) -> DataFrame:
        import pyarrow as pa

        return self._session.createDataFrame(pa.table(columns))

    # Items

    def _items(self, known: Knowledge, rows: DataFrame) -> tuple[dict[str, Column], DataFrame]:
        """Labels of activities and resources, and the rows with their codes `ka`, `kr`."""
        import pyarrow as pa

        found = {}
        for role, column in (("activity", "a"), ("resource", "r")):
            if role not in known.carries:
                continue
            texts = self._first_seen(rows, column)
            labels = source.labels(texts, self._asked, resource=role == "resource")
            codes = self._small(
                {column: pa.array(texts, pa.string()), f"k{column}": pa.array(labels.codes, pa.int64())}
            )
            rows = rows.join(codes.hint("broadcast"), column, "left")
            found[role] = labels
        if "resource" in found and not (found["resource"].codes >= 0).any():
            raise InputError("the log has no resource; attribute re and ar need one (XES key org:resource)")
        return found, rows

    def _gathered(self, known: Knowledge, items: dict[str, Column], rows: DataFrame) -> DataFrame:
        """Of each case its items in order, its first row, its attributes."""
        if known.structure == "rel":
            rows = rows.join(rows.groupBy("c").agg({"t": "min"}).withColumnRenamed("min(t)", "begin"), "c")
            unit = NANOSECONDS[known.T]
            rows = rows.selectExpr("*", f"{floor_sql('t', unit, 'div')} - {floor_sql('begin', unit, 'div')} AS tick")
        item = item_sql(known, items, "ka", "coalesce(kr, -1) + 1", "tick")
        attributes = [
            text
            for place in range(len(self._names))
            for text in (
                f"max(x{place}) AS x{place}",
                f"coalesce(min(x{place}) <> max(x{place}), false) AS v{place}",
                f"max(IF(y{place} IS NULL, NULL, struct(t, f, n, y{place}))).y{place} AS y{place}",
            )
        ]
        kind = "BIGINT" if known.structure == "rel" or len(items) > 1 else "INT"
        order = "t, n" if len(self._source.files) == 1 else "t, f, n"
        # Rows are sorted before they are grouped: that spills where memory ends, as a table of lists by case would not.
        # So the lists come in order; Spark does not promise it, and sorting what is sorted is cheap.
        sorted_rows = rows.repartition("c").sortWithinPartitions("c", *order.split(", "))
        sorted_rows.createOrReplaceTempView("veilstream_rows")
        trace = f"sort_array(collect_list(struct({order}, CAST({item} AS {kind}) AS k))).k"
        first = f"min(shiftleft(f, {ROW_BITS}) + n)"
        listed = ", ".join([f"{trace} AS trace", f"{first} AS first", *attributes])
        gathered = self._keep(self._session.sql(f"SELECT c, {listed} FROM veilstream_rows GROUP BY c"))  # noqa: S608
        self._cases = gathered.count()
        return gathered

    # Attributes and the table

    def _classes(self, place: int, name: str, gathered: DataFrame, rows: DataFrame) -> tuple[Column, DataFrame]:
        """The class or value of each kind of case by an attribute, and the kinds with their codes."""
        from pyspark.sql.types import IntegerType, StructField, StructType

        varying = gathered.where(f"v{place}").agg({"first": "min"}).collect()[0][0]
        if varying is not None:
            file, row = varying >> ROW_BITS, varying & ((1 << ROW_BITS) - 1)
            raise InputError(
                f"{self._source.files[file]}: row {row + 1}: the case that begins here has two values of "
                f"'case:{name}'; a column that varies in a case may not be called case:..."
            )
        own_name, last_name = self._source.column(name)
        kinds = gathered.groupBy(f"x{place}", f"y{place}")
        found = sorted(kinds.agg({"*": "count", "first": "min"}).collect(), key=lambda row: row["min(first)"])
        cases = np.asarray([row["count(1)"] for row in found], dtype=np.int64)
        own = self._coded([row[f"x{place}"] for row in found], f"x{place}", rows) if own_name else None
        last = self._coded([row[f"y{place}"] for row in found], f"y{place}", rows) if last_name else None
        column = source.attribute(name, own, last, cases, self._asked)
        types = {field.name: field.dataType for field in gathered.schema}
        lines = [
            (row[f"x{place}"], row[f"y{place}"], code) for row, code in zip(found, column.codes.tolist(), strict=True)
        ]
        schema = StructType(
            [
                StructField(f"x{place}", types[f"x{place}"]),
                StructField(f"y{place}", types[f"y{place}"]),
                StructField(f"k{place}", IntegerType()),
            ]
        )
        return column, self._session.createDataFrame(lines, schema)

    @staticmethod
    def _first_seen(rows: DataFrame, column: str) -> list[Any]:
        """The values of a column in order of their first rows, as the readers number them."""
        known = rows.where(f"{column} IS NOT NULL").groupBy(column)
        every = known.agg(_expression(f"min(shiftleft(f, {ROW_BITS}) + n) AS first")).collect()
        return [row[column] for row in sorted(every, key=lambda row: row["first"])]

    def _coded(self, found: list[Any], column: str, rows: DataFrame) -> Column:
        """The values of kinds, over all values of the column in order of first appearance."""
        order = self._first_seen(rows, column)
        code = {value: place for place, value in enumerate(order)}
        codes = [MISSING if value is None else code[value] for value in found]
        return Column(np.asarray(codes, dtype=np.int32), tuple(plain(value) for value in order))

    def _table(self, known: Knowledge, items: dict[str, Column], gathered: DataFrame, rows: DataFrame) -> VariantTable:
        held, classes = gathered, []
        for place, name in enumerate(self._names):
            column, kinds = self._classes(place, name, gathered, rows)
            self._public[name] = column
            classes.append(column)
            same = f"held.x{place} <=> own.x{place} AND held.y{place} <=> own.y{place}"
            joined = held.alias("held").join(kinds.alias("own").hint("broadcast"), _condition(same))
            held = joined.selectExpr("held.*", f"own.k{place}")
        keys = [f"k{place}" for place, name in enumerate(self._names) if name in self._asked.sensitive]
        self._held = held
        grouped = held.groupBy("trace", *keys).agg(_expression("count(*) AS cases"), _expression("min(first) AS first"))
        self._variants = self._keep(grouped)
        found = self._variants.orderBy("first").toArrow().combine_chunks()
        self._firsts = found["first"].to_numpy()
        self._table_bytes = found.nbytes
        trace = found["trace"].chunk(0)
        offsets = trace.offsets.to_numpy().astype(np.int64)
        flat, codes = np.unique(trace.values.to_numpy()[offsets[0] : offsets[-1]], return_inverse=True)
        own = {
            self._names[place]: Column(found[f"k{place}"].to_numpy().astype(np.int32), column.values).take(slice(None))
            for place, column in enumerate(classes)
            if f"k{place}" in keys
        }
        count = found["cases"].to_numpy().astype(np.int64)
        alphabet = alphabet_of(flat.astype(np.int64), known, items)
        return table_of(known, alphabet, offsets - offsets[0], codes.astype(np.int32), own, count)

    def _unit(self, T: Unit, rows: DataFrame) -> str | None:
        begin, end = self._span
        units = units_coarser_than(T)
        if end == begin or not units:
            return None
        fits = rows.selectExpr(*(f"bool_and((t - {begin}) % {size} = 0)" for _, size in units)).collect()[0]
        fitting = [unit for (unit, _), fit in zip(units, fits, strict=True) if fit]
        return fitting[-1] if fitting else None

    # What leaves

    def leaving(self, plan: VariantPlan, draws: Draws, tell: Tell = silent) -> Iterator[Leaving]:
        tell("cases")
        with SparkErrors(self._source):
            leaving = self._leaving(plan, draws)
            bounds = _bounds(plan.cases)
            if len(bounds) > 1:
                leaving = self._keep(leaving)
            for low, high in bounds:
                part = leaving if len(bounds) == 1 else leaving.where(f"id >= '{low}' AND id < '{high}'")
                yield from self._batches(part.toArrow().sort_by("id").combine_chunks())

    def _batches(self, found: Any) -> Iterator[Leaving]:
        for batch in found.to_batches(max_chunksize=BATCH):
            codes = [batch[f"p{place}"].to_numpy(zero_copy_only=False) for place in range(len(self._asked.public))]
            attributes = {name: own.astype(np.int32) for name, own in zip(self._asked.public, codes, strict=True)}
            yield Leaving(batch["id"].to_pylist(), batch["leaves"].to_numpy(), batch["v"].to_numpy(), attributes)

    def _leaving(self, plan: VariantPlan, draws: Draws) -> DataFrame:
        """Released id, trace, row and public attributes of each case that leaves."""
        if self._held is None or self._variants is None:
            raise AssertionError("count comes before leaving")
        ends = np.cumsum(plan.count)
        before = np.concatenate(([0], ends))[np.searchsorted(plan.row, plan.row)]
        parts = self._small(
            {
                "first_of_row": self._firsts[plan.row],
                "v": plan.row.astype(np.int64),
                "leaves": plan.trace.astype(np.int64),
                "low": (ends - plan.count - before).astype(np.int64),
                "high": (ends - before).astype(np.int64),
            }
        )
        keys = ["trace", *(f"k{place}" for place, name in enumerate(self._names) if name in self._asked.sensitive)]
        same = _condition(" AND ".join(f"held.{key} <=> rows.{key}" for key in keys))
        rows = self._variants.selectExpr("first AS first_of_row", *keys)
        codes = [f"k{self._names.index(name)} AS p{place}" for place, name in enumerate(self._asked.public)]
        drawn = [f"substr({_drawn(draws, 'id')}, 1, {ID_DIGITS}) AS id", *(f"held.{code}" for code in codes)]
        shown = ["id", "leaves", "v", *(f"p{place}" for place in range(len(codes)))]
        held = self._held.alias("held")
        if len(np.unique(plan.row)) == len(plan.row):  # one trace a row: only cases that leave draw
            rows = rows.join(parts.hint("broadcast"), "first_of_row").where(f"leaves <> {GONE}")
            return held.join(self._sent(rows).alias("rows"), same).selectExpr(*drawn, "leaves", "v").select(shown)
        place = f"row_number() OVER (PARTITION BY first_of_row ORDER BY {_drawn(draws, 'place')}) - 1 AS place"
        placed = held.join(self._sent(rows).alias("rows"), same).selectExpr(*drawn, "first_of_row", place)
        chosen = placed.join(parts.hint("broadcast"), "first_of_row")
        return chosen.where(f"leaves <> {GONE} AND place >= low AND place < high").select(shown)

    def _sent(self, rows: DataFrame) -> DataFrame:
        """The rows of the table, sent to every executor where they are few enough: else all cases are sorted by
        trace."""
        return rows.hint("broadcast") if self._table_bytes <= SENT else rows


def _bounds(cases: int) -> list[tuple[str, str]]:
    """Parts of the released ids, which are equally likely: each is what the driver holds and sorts at once."""
    parts = min(1 << 12, max(1, -(-cases // HELD)))
    ends = [f"{(place << 16) // parts:04x}" for place in range(parts)]
    return list(zip(ends, [*ends[1:], "g"], strict=True))


def _drawn(draws: Draws, purpose: str) -> str:
    """HMAC-SHA256 of the case in SQL."""
    inner, outer = draws.pads(purpose)
    inside = f"sha2(concat(unhex('{inner.hex()}'), encode(c, 'utf-8')), 256)"
    return f"sha2(concat(unhex('{outer.hex()}'), unhex({inside})), 256)"


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


_condition = _expression
