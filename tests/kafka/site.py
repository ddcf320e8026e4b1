"""A process under test: its configuration, topics, daemon processes, and what an outsider can read of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from connectors.kafka.topics import KINDS
from stream.commands.topics import create
from tests import preloaded
from tests.conftest import ROOT
from tests.kafka import surgery
from tests.patience import patient_time, wait_for_end
from tests.preloaded import PreloadedProcess

AnyProcess = subprocess.Popen[bytes] | PreloadedProcess

CONFIG = """\
{top}
[process]
name = "{name}"
sensitive = {sensitive}
{process}
[source]
topics = ["{name}.events"]
bootstrap = "{bootstrap}"
heartbeat = "1s"
session_timeout = "3s"
{source}
{publications}
"""

IDENTITY = (
    'mechanism = { kind = "identity" }\n'
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
)


def publication(name: str, window: str, more: str = IDENTITY) -> str:
    """A [[publication]] table."""
    return f'[[publication]]\nname = "{name}"\nwindow = {window}\n{more}'


PATIENCE = 600.0
"""Seconds that anything may take. Only a failure waits that long; on a machine that does much else each start of a
process takes many seconds."""


class Site:
    """One process name on one broker, with a folder per host."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        folder: Path,
        publications: str,
        *,
        sensitive: str = "[]",
        process: str = "",
        source: str = "",
        top: str = "",
        partitions: int = 1,
        topics: bool = True,
        tree: Path = ROOT,
    ) -> None:
        self.bootstrap, self.name, self.folder = bootstrap, name, folder
        self.tree = tree  # the program that `start` and `command` run
        self.topic = f"{name}.events"
        self.config = folder / "veilstream.toml"
        self.config.write_text(
            CONFIG.format(
                name=name,
                bootstrap=bootstrap,
                publications=publications,
                sensitive=sensitive,
                process=process,
                source=source,
                top=top,
            )
        )
        self.processes: list[AnyProcess] = []
        if topics:
            assert create(self.config, partitions) == 0  # the command; in this process, since each test needs it
            if codec := os.environ.get("TEST_CODEC"):  # `make codecs`
                surgery.compress(bootstrap, [self.topic, *self.own_topics], codec)

    @property
    def own_topics(self) -> list[str]:
        """The topics of the process other than its source."""
        return [f"veilstream.{self.name}.{kind}" for kind in KINDS]

    # processes

    def command(self, *arguments: str, expect: int | None = 0, stdin: str | None = None, stdout: bool = False) -> str:
        """Run a veilstream command and return its output: stdout, or stderr if it fails and `stdout` is not set.

        `expect` is the exit code; None accepts every code.
        """
        done = self.outcome(*arguments, stdin=stdin)
        assert expect in (done.returncode, None), f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if expect == 0 or stdout else done.stderr

    def outcome(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a veilstream command and return its exit code and all that it printed."""
        with TemporaryFile() as given, TemporaryFile() as printed, TemporaryFile() as errors:
            given.write((stdin or "").encode())
            given.seek(0)
            code = self._run("stream.commands", arguments, self._environment(), given, printed, errors).wait(PATIENCE)
            texts = []
            for file in (printed, errors):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(arguments, code, *texts)

    def _run(
        self,
        module: str,
        arguments: Sequence[str],
        environment: dict[str, str],
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
    ) -> AnyProcess:
        """Run a module of `tree`; imports of this checkout are paid once, those of another tree each time."""
        if self.tree == ROOT:
            return preloaded.start(module, arguments, environment, stdin, stdout, stderr)
        words = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(words, cwd=self.tree, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)

    def _environment(self) -> dict[str, str]:
        """Use the modules of `tree`, whatever is installed."""
        return {**os.environ, "PYTHONPATH": str(self.tree)}

    def output(self, host: str = "a") -> Path:
        """Return the output folder of a host."""
        return self.folder / host

    def start(self, role: str, host: str = "a", fault: str = "", **environment: str) -> AnyProcess:
        """Start a daemon process of one role on a host; its log goes to `<folder>/<role>-<n>.log`."""
        path = self.folder / f"{role}-{len(self.processes)}.log"
        arguments = [role, str(self.config), str(self.output(host)), fault]
        with path.open("wb") as log, open(os.devnull, "rb") as nothing:
            everything = {**self._environment(), **environment}
            process = self._run("tests.kafka.driver", arguments, everything, nothing, log, log)
        self.processes.append(process)
        return process

    def stop(self, *processes: AnyProcess) -> list[int]:
        """Stop processes with SIGTERM; return their exit codes."""
        chosen = processes or tuple(process for process in self.processes if process.poll() is None)
        for process in chosen:
            process.send_signal(signal.SIGTERM)
        return [wait_for_end(process, PATIENCE) for process in chosen]

    def close(self) -> None:
        """Kill the processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def logs(self) -> str:
        """Return everything that the processes wrote."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    # topics

    def send(self, values: list[bytes | None], partition: int | None = None, **options: Any) -> None:
        """Send records to the source topic, and wait for the acknowledgements."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.bootstrap, max_request_size=8_000_000)
        futures = [
            producer.send(self.topic, value, partition=partition, **({"key": b"k"} if value is None else {}) | options)
            for value in values
        ]
        producer.flush()
        for future in futures:
            future.get(timeout=20)
        producer.close()

    def records(self, topic: str, *, committed: bool = True) -> Iterator[tuple[int, int, bytes | None]]:
        """Return (partition, offset, value) of all records that a topic has now."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        try:
            parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            consumer.assign(parts)
            ends = consumer.end_offsets(parts)
            consumer.seek_to_beginning(*parts)
            while any(consumer.position(part) < ends[part] for part in parts):
                for part, found in consumer.poll(timeout_ms=500).items():
                    for record in found:
                        if record.offset < ends[part]:
                            yield part.partition, record.offset, record.value
        finally:
            consumer.close(autocommit=False)

    def json(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        """Return (offset, record) of one of veilstream's own topics."""
        found = self.records(f"veilstream.{self.name}.{kind}")
        return [(offset, msgspec.json.decode(value or b"null")) for _, offset, value in found]

    def covered(self) -> int:
        """Return how many distinct source offsets the delta topic covers, as rows or as dead letters."""
        seen = set()
        for _, record in self.json("delta"):
            if record["t"] == "delta":
                seen.update((record["src"], record["p"], row[0]) for row in record["rows"])
                seen.update((record["src"], record["p"], offset) for offset in record["dlq"])
        return len(seen)

    def ledger(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the entries of the ledger topic, in order."""
        return [entry for _, entry in self.json("ledger") if kind in (None, entry["kind"])]

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait until a condition holds; print the logs of all processes if it does not."""
        deadline = patient_time() + seconds
        while patient_time() < deadline:
            if condition():
                return
            time.sleep(1.0)  # every look reads topics from their begin
        raise AssertionError(f"{what} did not happen in {seconds:g} s\n{self._state()}")

    def _state(self) -> str:
        """Return the state of each side, the logs without the noise of an absent broker, and the position of each
        process.
        """
        deltas = [record for _, record in self.json("delta") if record["t"] == "delta"]
        reach = [(one["src"], one["p"], one["prev"], one["last"], one["n"], one["dlq"]) for one in deltas]
        ends = {part: offset for part, offset, _ in self.records(self.topic)}
        logs = "\n".join(line for line in self.logs().splitlines() if "Unable " not in line and "NotReady" not in line)
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
        time.sleep(2)
        return f"source ends {ends}\ndeltas {reach}\n{logs[-6000:]}\n== stacks\n{self.logs()[-20000:]}"
