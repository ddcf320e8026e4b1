"""A session of Spark, and its errors as one line."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError, VeilstreamError
from stream.engine.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


class Said:
    """Errors of Spark as one clear line without content: its messages quote values."""

    def __init__(self, source: Source) -> None:
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
