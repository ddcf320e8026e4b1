"""Spark on this machine: the same tables and the same draws as in memory, also where tasks fail and are run again."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.reading import Reading
from models.errors import InputError
from stream.engine.contract import Draws
from stream.engine.embedded import Embedded
from stream.engine.source import opened
from tests.conftest import missing
from tests.property.test_engines_agree import ASKED, cases_of, random_plan, random_rows, written_as
from tests.property.test_engines_on_logs import agree
from tests.spark import java_options

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def java() -> Iterator[None]:
    """One JVM for all tests of this file; their sessions come and go in it. It ends with the file."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        missing("spark", 'pyspark or Java is not installed (extra "spark", Java 17)')
    from pyspark import SparkContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else the first python3 of the path: it may lack pyarrow
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv(
            "PYSPARK_SUBMIT_ARGS",
            f"--driver-memory 512m --driver-java-options {shlex.quote(java_options())} pyspark-shell",
        )
        yield
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends with its standard input
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


def started(master: str, **settings: Any) -> Any:
    """A session of `master`."""
    from pyspark.sql import SparkSession

    assert SparkSession.getActiveSession() is None
    builder = SparkSession.builder.master(master)
    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2, **settings}
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture
def local(java: None) -> Iterator[Any]:
    """Two threads of this machine; a task may fail three times."""
    running = started("local[2,4]")
    yield running
    running.stop()


@pytest.mark.parametrize(("asked", "zoned"), [(ASKED[0], True), (ASKED[2], False)], ids=["zoned", "local"])
def test_the_same_table_and_the_same_cases(asked: Any, zoned: bool, local: Any, tmp_path: Path) -> None:
    """Row by row, in the same order; ids and traces case by case, where every task of the last step fails once."""

    def fail(batches: Any) -> Any:
        """The batches as they are, in the second attempt of a task."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        yield from batches

    same(asked, zoned, tmp_path, fail)
    assert local.range(3).count() == 3, "a session that ran before is not stopped"


@pytest.mark.parametrize("name", ["ccc19", "sepsis"])
def test_small_public_logs(name: str, local: Any, logs: Path, tmp_path: Path) -> None:
    """The larger ones: `python -m benchmarks.engines_agree --engines spark`."""
    agree("spark", name, logs, tmp_path)


def same(asked: Any, zoned: bool, tmp_path: Path, faulty: Any) -> None:
    """Both engines count and draw the same; what leaves spark goes through `faulty`. It is an inner function of its
    test: a worker of Spark has no tests to import it from."""
    from stream.engine.spark import Spark

    class Faulty(Spark):
        def _leaving_cases(self, query: str) -> Any:
            leaving = super()._leaving_cases(query)
            return leaving.mapInArrow(faulty, leaving.schema)

    generator = np.random.default_rng(7)
    data = written_as("parquet", random_rows(generator, zoned), tmp_path / "data", zoned)
    reading = Reading() if zoned else Reading(timezone="Europe/Berlin")
    (tmp_path / "work").mkdir()
    one, other = Embedded(data, reading), Faulty(opened(data, reading), tmp_path / "work")
    try:
        wanted, found = one.count(asked), other.count(asked)
        assert list(found.table.decoded().items()) == list(wanted.table.decoded().items())
        assert found.unit == wanted.unit
        plan, draws = random_plan(generator, wanted.table.log, wanted.table.count), Draws()
        assert cases_of(other, plan, draws, asked) == cases_of(one, plan, draws, asked)
    finally:
        other.close()


def test_no_event_log_keeps_the_key(java: None, tmp_path: Path) -> None:
    """The key is in the plan, which an event log would keep: what the command line asks for is switched off, and a
    session that keeps one already is refused."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from stream.engine.spark import session

    events = tmp_path / "events"
    events.mkdir()
    SparkContext._ensure_initialized()
    system = SparkContext._jvm.java.lang.System
    options = {"spark.master": "local[1]", "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    for name, value in options.items():
        system.setProperty(name, value)  # as `spark-submit --conf` does
    try:
        made, own = session(tmp_path, None)
        assert own
        made.sql(f"SELECT sha2('{'5c' * 64}', 256)").collect()
        made.stop()
        assert list(events.iterdir()) == []
        running = SparkSession.builder.config("spark.eventLog.enabled", "true").getOrCreate()
        try:
            assert list(events.iterdir()) != []
            with pytest.raises(InputError, match="event log"):
                session(tmp_path, None)
        finally:
            running.stop()
    finally:
        for name in options:
            system.clearProperty(name)


@pytest.mark.parametrize("name", ["_metadata", "Concept:Name"])
def test_columns_that_spark_takes_for_others_are_refused(name: str, tmp_path: Path) -> None:
    """One line, before a session is made."""
    import pandas as pd

    from stream.engine.spark import Spark

    rows = {"case:concept:name": ["1"], "concept:name": ["a"], name: ["x"]}
    rows["time:timestamp"] = list(pd.to_datetime(["2024-01-01T00:00:00Z"]))
    pd.DataFrame(rows).to_parquet(tmp_path / "log.parquet", index=False)
    with pytest.raises(InputError, match=name):
        Spark(opened(tmp_path / "log.parquet", Reading()), tmp_path)


@pytest.fixture
def cluster(java: None, tmp_path: Path) -> Iterator[None]:
    """A session on a standalone master and two workers on this machine."""
    import pyspark

    run = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    room = "org.apache.spark.deploy"
    log = tmp_path / "master.log"
    options = java_options()
    environment = {**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "apps"), "SPARK_DAEMON_JAVA_OPTS": options}
    environment.pop("PYSPARK_SUBMIT_ARGS")
    processes = []
    try:
        with log.open("wb") as written:
            master = [*run, f"{room}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            processes.append(subprocess.Popen(master, stdout=written, stderr=written, env=environment))
            url = _announced(log, processes[0])
            worker = [*run, f"{room}.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            worker += ["--host", "127.0.0.1", url]
            processes += [subprocess.Popen(worker, stdout=written, stderr=written, env=environment) for _ in range(2)]
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": options,
            "spark.driver.host": "127.0.0.1",
            "spark.pyspark.python": sys.executable,
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
        running = started(url, **settings)
        yield
        running.stop()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _announced(log: Path, process: subprocess.Popen[bytes]) -> str:
    for _look in range(1200):
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_a_killed_executor_changes_nothing(cluster: None, tmp_path: Path) -> None:
    """A task kills the executor that runs it; another executor draws the same for its cases."""
    marker = tmp_path / "killed"

    def kill(batches: Any) -> Any:
        """Kill the executor above this worker of Python, once."""
        import os
        import signal
        from pathlib import Path

        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            yield from batches
            return
        process = os.getpid()
        while b"java" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes(), "no executor"
        os.kill(process, signal.SIGKILL)
        yield from batches

    same(ASKED[0], True, tmp_path, kill)
    assert marker.exists()


def test_csv_is_refused_with_the_engine_that_reads_it(tmp_path: Path) -> None:
    """Before a JVM is started."""
    from models.errors import InputError
    from stream.engine.spark import Spark

    (tmp_path / "log.csv").write_text("case:concept:name,concept:name,time:timestamp\n1,a,2024-01-01T00:00:00Z\n")
    with pytest.raises(InputError, match="--engine duckdb"):
        Spark(opened(tmp_path / "log.csv", Reading()), tmp_path)


@pytest.mark.parametrize(
    ("amount", "megabytes"),
    [("2GB", "1907m"), ("2g", "1907m"), ("512MiB", "512m"), ("1.5 GiB", "1536m"), ("1tb", "953674m")],
)
def test_amounts_of_memory_are_those_of_duckdb(amount: str, megabytes: str) -> None:
    """Rounded down to whole megabytes of 2^20 bytes, as a JVM takes them."""
    from stream.engine.spark import megabytes as megabytes_of

    assert megabytes_of(amount) == megabytes


@pytest.mark.parametrize("amount", ["much", "2", "-1GB", "2GB; x", ""])
def test_what_is_no_amount_of_memory_is_refused(amount: str) -> None:
    """In one line that shows what an amount looks like."""
    from stream.engine.spark import megabytes as megabytes_of

    with pytest.raises(InputError, match="such as 2GB"):
        megabytes_of(amount)
