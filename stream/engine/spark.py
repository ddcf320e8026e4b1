"""The engine `spark`: a cluster that exists, or `local[*]`. Needs the extra `spark` and Java 17.

Executors read, sort, group and count, by the queries of `stream.engine.sql`. Nothing of ours runs on an executor, so
the cluster needs no veilstream. The draws of a case are a function of its id and the key of the release: a task that is
run again, or twice at once, draws the same. The key is in the plan of the query, which those who run the cluster can
see, as they can see the data; event logs, which would keep it, are off.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.times import SECOND
from models.errors import InputError, VeilstreamError
from stream.engine.source import CSV, DataFiles, is_url, without_unit
from stream.engine.sql import BATCH, SqlEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_NANOSECONDS = 2**63 - 1
"""The largest number of 64 bits; nanoseconds reach it in the year 2262."""

CASES_AT_ONCE = 2_000_000
"""Cases that leave of which the driver holds id and trace at once, some 100 MB."""


class Spark(SqlEngine):
    """A data set under Spark.

    Parameters
    ----------
    files
        The data set.
    work
        Folder for data of `local[*]` that does not fit into memory; the caller removes it.
    memory
        Memory of the driver and of each executor, such as `2GB`.
    """

    NAME = "spark"
    QUOTE = "`"
    DIVIDE = "div"
    ENCODED_CASE = "encode(c, 'utf-8')"

    def __init__(self, files: DataFiles, work: Path, memory: str | None = None) -> None:
        super().__init__(readable(files))
        self._session, self._started = session(work, memory)
        self._kept: list[DataFrame] = []

    def close(self) -> None:
        """Drop stored tables, and end Spark if it was started for this engine."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        # If the JVM is dead there is nothing to release, and the error that ended it has been reported already.
        with suppress(Py4JError, PySparkException, OSError):
            for frame in self._kept:
                frame.unpersist()
            if self._started:
                self._session.stop()

    # Queries and tables

    def _view(self, name: str, query: str) -> None:
        self._session.sql(query).createOrReplaceTempView(name)

    def _store(self, name: str, query: str) -> None:
        self._persisted(self._session.sql(query)).createOrReplaceTempView(name)

    def _persisted(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def _add(self, name: str, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa

        self._session.createDataFrame(pa.table(dict(columns))).createOrReplaceTempView(name)

    def _arrow(self, query: str) -> Any:
        return self._session.sql(query).toArrow()

    def _batches(self, query: str, cases: int) -> Iterator[Any]:
        leaving = self._leaving_cases(query)
        id_ranges = _id_ranges(cases)
        if len(id_ranges) > 1:
            leaving = self._persisted(leaving)
        for low, high in id_ranges:
            part = leaving
            if len(id_ranges) > 1:
                part = leaving.where(f"id >= '{low}' AND id < '{high}'")
            # The driver sorts each part: a global sort of Spark would compute all of it twice.
            yield from part.toArrow().sort_by("id").combine_chunks().to_batches(max_chunksize=BATCH)

    def _leaving_cases(self, query: str) -> DataFrame:
        """Return the cases that leave, in any order."""
        return self._session.sql(query)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        # Messages of Spark quote values: none of them is passed on. A dead JVM is a ConnectionError.
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise VeilstreamError(
                f"{self._source.name}: spark failed ({type(error).__name__}); its own log has the row"
            ) from None

    # Rows

    def _make_raw_events(self, columns: Mapping[str, str]) -> None:
        reader = self._session.read.option("mergeSchema", "false")
        if self._source.partitions:
            reader = reader.option("basePath", self._source.name)
        paths = [file if is_url(file) else Path(file).absolute().as_uri() for file in self._source.files]
        rows = reader.parquet(*paths)
        expressions = [f"{expression} AS {name}" for name, expression in columns.items()]
        expressions.append("_metadata.row_index AS n")
        if len(paths) == 1:
            rows.selectExpr(*expressions, "CAST(0 AS BIGINT) AS f").createOrReplaceTempView("raw_events")
            return
        # Spark writes file:/x or file:///x. Both are in the table, so a row needs no pattern.
        numbers = {}
        for number, path in enumerate(paths):
            numbers[path] = number
            numbers[path.replace("file:///", "file:/")] = number
        files = self._session.createDataFrame(list(numbers.items()), "path STRING, f BIGINT")
        raw_events = rows.selectExpr(*expressions, "_metadata.file_path AS path")
        raw_events.join(files.hint("broadcast"), "path", "left").drop("path").createOrReplaceTempView("raw_events")

    # Columns

    def _check_attribute_type(self, column: str, kind: Any) -> None:
        import pyarrow as pa

        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not (is_text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise InputError(f"{self._source.name}: column {column!r} is {kind}; --engine duckdb or embedded reads it")

    def _time(self) -> tuple[str, str]:
        files = self._source
        name, kind = self._quoted(files.names.time), files.types[files.names.time]
        if files.unit is not None:
            return _product(name, files.unit), "true"
        zoned = "true" if kind.tz is not None else "false"
        if kind.unit == "ns":  # read as a number (nanosAsLong): Spark's own times end at the microsecond
            return name, zoned
        return _product(f"unix_micros(CAST({name} AS TIMESTAMP))", SECOND // 1_000_000), zoned

    def _no_time(self, place: str) -> str:
        name = self._source.names.time
        return f"{place}: no {name}; every event needs one (another column: --columns time=...)"

    # Expressions

    def _sorted_by_case(self, rows: str, order: str) -> str:
        # Rows are sorted before they are grouped: that spills where memory ends, as a table of lists by case would not.
        by_case = f"SELECT /*+ REPARTITION(c) */ * FROM ({rows}) AS events"  # noqa: S608 - a query of ours
        return f"SELECT * FROM ({by_case}) AS events SORT BY c, {order}"  # noqa: S608 - a query of ours

    def _ordered_items(self, item: str, order: str) -> str:
        # The rows come in order already; Spark does not promise that, and sorting sorted rows is cheap.
        return f"sort_array(collect_list(struct({order}, {item} AS k))).k"

    def _last(self, value: str, order: str) -> str:
        return f"max_by({value}, struct({order})) FILTER (WHERE {value} IS NOT NULL)"

    def _sha256(self, data: str) -> str:
        return f"sha2({data}, 256)"


def readable(files: DataFiles) -> DataFiles:
    """Return the data set; InputError with the engine that reads it if Spark does not."""
    import pyarrow as pa

    if files.kind == CSV:
        raise InputError(f"{files.name}: CSV is not a data set for spark; write Parquet, or use --engine duckdb")
    kind = files.types.get(files.names.time, pa.string())
    if any(name.lower() == "_metadata" for name in files.header):
        raise InputError(
            f"{files.name}: spark needs the name '_metadata' itself; rename this column, or use --engine duckdb"
        )
    if files.unit is None and pa.types.is_integer(kind):
        raise InputError(without_unit(files))
    if files.unit is None and not pa.types.is_timestamp(kind):
        raise InputError(f"{files.name}: times of type {kind} are read by --engine duckdb or embedded")
    return files


def _product(number: str, unit: int) -> str:
    """Return the product, or the end of the range if 64 bits do not hold it.

    Spark would end with an exception of its own, and the check of the years could not name the row.
    """
    end = f"IF({number} IS NULL, NULL, IF({number} < 0, -{MOST_NANOSECONDS}L, {MOST_NANOSECONDS}L))"
    return f"coalesce(try_multiply({number}, {unit}L), {end})"


def _id_ranges(cases: int) -> list[tuple[str, str]]:
    """Return ranges of released ids [low, high) that hold about `CASES_AT_ONCE` cases each.

    The driver holds and sorts one range at once. Ids are equally likely hexadecimal texts, so their first four digits
    divide them evenly; "g" is above every id.
    """
    parts = min(1 << 12, max(1, -(-cases // CASES_AT_ONCE)))
    ends = [f"{(place << 16) // parts:04x}" for place in range(parts)]
    return list(zip(ends, [*ends[1:], "g"], strict=True))


# A session of Spark.

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}
"""Our queries need these."""

EVENT_LOG = "spark.eventLog.enabled"
"""Event logs would keep the key of a release, which is in the plan of the query."""

COLLECTOR = "-XX:+UseParallelGC"
"""Of a local JVM. The default one collects concurrently, on cores that the work needs (a quarter more CPU)."""

JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Variables with options of every JVM."""


def session(work: Path, memory: str | None) -> tuple[SparkSession, bool]:
    """Return a session with our settings, and whether Spark was started for it.

    Spark is started as configured by spark-submit, or locally. If a session runs in this process already, ours is
    another one of the same application, which is not ours to stop.

    Parameters
    ----------
    work
        Folder for data of a local Spark that does not fit into memory.
    memory
        Memory of the driver and of each executor, such as `2GB`.

    Raises
    ------
    InputError
        If pyspark is not installed, the application keeps an event log, or `memory` is not an amount.
    VeilstreamError
        If no session can be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError('--engine spark needs pyspark: install "veilstream[spark]"') from error
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # of pandas' next version
    running = SparkSession.getActiveSession()
    made = _started(work, memory) if running is None else running.newSession()
    if made.sparkContext.getConf().get(EVENT_LOG, "false").lower() == "true":
        raise InputError(
            "--engine spark: this session keeps an event log, which would hold the key of the release; start it with "
            f"{EVENT_LOG}=false"
        )
    for name, value in SETTINGS.items():
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
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"} & os.environ.keys():  # else set elsewhere
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
    """Return an amount of memory such as `2GB`, `512m`, `1.5GiB` as a JVM takes it.

    As for duckdb, GB and g are 10^9 bytes, GiB is 2^30. InputError for a text that is not an amount.
    """
    amount = re.fullmatch(r"(\d+(?:\.\d+)?) *([kmgt])(i?)b?", memory.strip().lower())
    if amount is None:
        raise InputError(f"--memory {memory}: not an amount of memory such as 2GB")
    number, unit, binary = amount.groups()
    base = 1024 if binary else 1000
    size = float(number) * base ** ("kmgt".index(unit) + 1)
    return f"{int(size) >> 20}m"
