"""JVMs of Spark in tests: options with which they start in half the CPU time."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.conftest import ROOT

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives some seconds: the time to compile well would not come back."""

KEPT = ROOT / "tests" / "target"

RECORDED = """
import sys
import numpy as np
from connectors import write_log
from models.eventlog import EventLog
from stream.commands import execute

names = [str(case) for case in range(30) for _ in range(2)]
log = EventLog.from_events(names, list("ab" * 30), np.arange(60) * 60_000_000_000, unit="ns")
write_log(log, "log.parquet")
code = execute(["anonymize", "log.parquet", "-o", "out", "--engine", "spark", "--K", "5"])
if code:
    sys.exit(code)

from pyspark import SparkContext

gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()  # the JVM ends with its standard input, and writes the archive
gateway.proc.wait()
"""


def java_options() -> str:
    """Return the options, with an archive of the classes of Spark as Java has loaded them.

    The first caller of a clone records it, in twice the time of a command; others wait for it.
    Java ignores an archive of other jars, of another Java, or that is missing.
    """
    KEPT.mkdir(exist_ok=True)
    archive = KEPT / f"spark-{version('pyspark')}.jsa"
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _record(archive)
    return f"{QUICK} {shlex.quote(f'-XX:SharedArchiveFile={archive}')}"


def _record(archive: Path) -> None:
    """Run a command on Spark and end its JVM in good order."""
    with tempfile.TemporaryDirectory(prefix="veilstream-spark-") as folder:
        made = Path(folder) / archive.name
        options = shlex.quote(f"{QUICK} -XX:ArchiveClassesAtExit={made}")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"--master local[1] --driver-java-options {options} pyspark-shell",
        }
        environment.pop("JDK_JAVA_OPTIONS", None)
        command = [sys.executable, "-c", RECORDED]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            printed = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            raise RuntimeError(f"no archive of the classes of Spark:\n{printed}")
        # Under its name only when it is whole.
        partial = archive.with_suffix(".partial")
        partial.write_bytes(made.read_bytes())
        partial.rename(archive)
