"""Spark on this machine: the same tables and the same draws as in memory, also where tasks fail and are run again."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.reading import Reading
from stream.engine.contract import Draws
from stream.engine.embedded import Embedded
from stream.engine.source import opened
from tests.conftest import missing
from tests.property.test_engines_agree import ASKED, cases_of, random_plan, random_rows, written_as

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(autouse=True)
def master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads of this machine; a task may fail three times."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        missing("spark", 'pyspark or Java is not installed (extra "spark", Java 17)')
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master local[2,4] --conf spark.sql.shuffle.partitions=2 --driver-memory 512m pyspark-shell",
    )


@pytest.mark.parametrize(("asked", "zoned"), [(ASKED[0], True), (ASKED[2], False)], ids=["zoned", "local"])
def test_the_same_table_and_the_same_cases(asked: Any, zoned: bool, tmp_path: Path) -> None:
    """Row by row, in the same order; ids and traces case by case, where every task of the last step fails once."""
    from stream.engine.spark import Spark

    class FailsOnce(Spark):
        """What leaves goes through tasks of which each fails the first time."""

        def _leaving(self, plan: Any, draws: Any) -> Any:
            whole = super()._leaving(plan, draws)
            return whole.mapInArrow(fail_once, whole.schema)

    generator = np.random.default_rng(7)
    data = written_as("parquet", random_rows(generator, zoned), tmp_path / "data", zoned)
    reading = Reading() if zoned else Reading(timezone="Europe/Berlin")
    (tmp_path / "work").mkdir()
    one, other = Embedded(data, reading), FailsOnce(opened(data, reading), tmp_path / "work")
    try:
        wanted, found = one.count(asked), other.count(asked)
        assert list(found.table.decoded().items()) == list(wanted.table.decoded().items())
        assert found.unit == wanted.unit
        plan, draws = random_plan(generator, wanted.table.log, wanted.table.count), Draws()
        assert cases_of(other, plan, draws, asked) == cases_of(one, plan, draws, asked)
    finally:
        other.close()


def fail_once(batches: Any) -> Any:
    """The batches as they are, in the second attempt of a task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is not None and task.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails")
    yield from batches


def test_csv_is_refused_with_the_engine_that_reads_it(tmp_path: Path) -> None:
    """Before a JVM is started."""
    from models.errors import InputError
    from stream.engine.spark import Spark

    (tmp_path / "log.csv").write_text("case:concept:name,concept:name,time:timestamp\n1,a,2024-01-01T00:00:00Z\n")
    with pytest.raises(InputError, match="--engine duckdb"):
        Spark(opened(tmp_path / "log.csv", Reading()), tmp_path)
