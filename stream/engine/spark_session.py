"""A session of Spark, and its errors as one line."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError, VeilstreamError
from stream.engine.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(work: Path, memory: str | None) -> SparkSession:
    """The session of spark-submit where there is one, else a local one."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError('--engine spark needs pyspark: install "veilstream[spark]"') from error
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # of pandas' next version
    builder = SparkSession.builder.appName("veilstream")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.eventLog.enabled": "false",  # it would keep the key of a release, which stands in the plan
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(work),
    }
    if memory is not None:
        settings |= {"spark.driver.memory": memory, "spark.executor.memory": memory}
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"} & os.environ.keys():  # else told elsewhere
        settings |= {"spark.master": "local[*]", "spark.sql.shuffle.partitions": "8"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise VeilstreamError(f"--engine spark: no session ({type(error).__name__}); is Java 17 installed?") from None
    if made.sparkContext.getConf().get("spark.eventLog.enabled", "false").lower() == "true":
        raise InputError(
            "--engine spark: this session keeps an event log, where the key of the release would stand; start it with "
            "spark.eventLog.enabled=false"
        )
    made.sparkContext.setLogLevel("OFF")
    return made


class Said:
    """Errors of Spark as one clear line without content: its messages quote values."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if isinstance(error, (PySparkException, Py4JError)):
            raise VeilstreamError(
                f"{self._source.name}: spark failed ({type(error).__name__}); its own log says where"
            ) from None
