"""A real Apache Kafka (KRaft, one node) for tests: fetched by Maven, started on free ports, killed with its parent."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.conftest import missing
from tests.ports import free_ports

HERE = Path(__file__).resolve().parent
CLASSPATH = HERE / "target" / "classpath"
CLASSES = HERE / "target" / "classes.jsa"
"""Classes of a broker as Java has loaded them. A broker that maps this file starts in half the CPU time."""

PR_SET_PDEATHSIG = 1
START_SECONDS = 300

CLUSTER = "dmVpbHN0cmVhbS10ZXN0cw"
"""16 bytes in base64. Not random: one id of 64 begins with a dash, and Kafka's tool takes that for an option."""

JAVA = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
"""Small and quick to start: the broker shares two cores with what it tests."""

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more_listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# Four brokers are there for the whole of a test run. Half of the CPU time of a broker without work went into heartbeats
# twice a second and empty records of its metadata log.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
metadata.max.idle.interval.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
{more}"""


class Broker:
    """One broker process. `bootstrap` stays the same across `kill` and `start`, and so does the data."""

    format_options: tuple[str, ...] = ()
    """Initial metadata of a kind of broker (SCRAM users)."""

    java_options: tuple[str, ...] = (f"-XX:SharedArchiveFile={CLASSES}",)
    """Java ignores an archive that is missing, or of other jars."""

    def __init__(self, classpath: str, *, user: tuple[str, str] | None = None) -> None:
        self.classpath = classpath
        self.folder = Path(tempfile.mkdtemp(prefix="veilstream-kafka-"))
        # All at once, also those of kinds of broker that listen on more: ports drawn later could be these again.
        port, controller, self.sasl_port, self.tls_port = free_ports(4)
        self.bootstrap = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._configure(port, controller, user)
        self._java(
            *("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", self._properties),
            *self.format_options,
        )

    @property
    def _properties(self) -> str:
        return str(self.folder / "server.properties")

    @property
    def log(self) -> str:
        """Return the output of the broker."""
        path = self.folder / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _configure(self, port: int, controller: int, user: tuple[str, str] | None) -> None:
        listener, more = "", ""
        if user is not None:
            listener = f",SASL_PLAINTEXT://127.0.0.1:{self.sasl_port}"
            more = (
                "sasl.enabled.mechanisms=PLAIN\n"
                "listener.name.sasl_plaintext.plain.sasl.jaas.config="
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'user_{user[0]}="{user[1]}";\n'
            )
        text = PROPERTIES.format(
            port=port, controller=controller, folder=self.folder, more_listeners=listener, more=more
        )
        (self.folder / "server.properties").write_text(text)

    def _java(self, *arguments: str) -> None:
        """Run a Java program of the broker. RuntimeError with what it printed if it fails."""
        command = ["java", *JAVA, *self.java_options, "-cp", self.classpath, *arguments]
        outcome = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS, check=False
        )
        if outcome.returncode:
            raise RuntimeError(f"{arguments[0]} ended with {outcome.returncode}:\n{outcome.stdout[-4000:]}")

    def throttle(self, client: str, bytes_per_second: int | None) -> None:
        """Let a client read no more than this; None lifts the quota."""
        quota = ("--delete-config", "consumer_byte_rate")
        if bytes_per_second is not None:
            quota = ("--add-config", f"consumer_byte_rate={bytes_per_second}")
        entity = ("--entity-type", "clients", "--entity-name", client)
        self._java("kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, "--alter", *quota, *entity)

    def start(self) -> None:
        """Start and wait until the port answers; the log is shown if it does not."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *JAVA, *self.java_options, "-cp", self.classpath, "kafka.Kafka", self._properties],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._wait()

    def started(self) -> Self:
        """Start the broker and return it; remove its data if it does not start."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            if _answers(self.bootstrap):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the test broker did not start:\n{self.log[-4000:]}")

    def signal(self, number: int) -> None:
        """Send a signal to the broker's own process group."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the broker (kill -9); its data stays for the next `start`."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def close(self) -> None:
        """Kill the broker and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class ForeignBroker:
    """The broker that VEILSTREAM_KAFKA names: used as it is, never killed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.log = "(the log of a foreign broker is not here)"


def classpath() -> str:
    """Return the jars of pom.xml: resolved once, by one of all test processes, and kept in target/classpath.

    The same process writes the archive of the broker's classes.
    """
    if not shutil.which("java"):
        missing("kafka", "Java is not installed")
    CLASSPATH.parent.mkdir(exist_ok=True)
    with (CLASSPATH.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars = _resolved() or _fetched()
        if not CLASSES.exists() or CLASSES.stat().st_mtime < CLASSPATH.stat().st_mtime:
            _archive_classes(jars)
        return jars


def _resolved() -> str | None:
    if CLASSPATH.exists() and CLASSPATH.stat().st_mtime >= (HERE / "pom.xml").stat().st_mtime:
        text = CLASSPATH.read_text()
        if all(Path(jar).exists() for jar in text.split(":")):
            return text
    return None


def _fetched() -> str:
    if not shutil.which("mvn"):
        missing("kafka", "Maven is not installed")
    command = ["mvn", "-q", "-B", "-ntp", "dependency:build-classpath", f"-Dmdep.outputFile={CLASSPATH}"]
    outcome = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600)
    if outcome.returncode:
        missing("kafka", f"Maven could not fetch the broker: {outcome.stdout[-500:]}")
    return CLASSPATH.read_text()


def _archive_classes(jars: str) -> None:
    """Start a broker and end it in good order: Java writes its classes into the archive."""
    recorder = Broker(jars)
    recorder.java_options = (f"-XX:ArchiveClassesAtExit={CLASSES}",)
    try:
        recorder.start()
        recorder.signal(signal.SIGTERM)
        if recorder._process is not None:
            recorder._process.wait(START_SECONDS)
    finally:
        recorder.close()


def new_broker(**options: tuple[str, str] | None) -> Broker:
    """Start a broker that no other test uses; the caller closes it."""
    return Broker(classpath(), **options).started()


@functools.cache
def shared_broker() -> Broker | ForeignBroker:
    """Yield the broker that all tests of a session share (VEILSTREAM_KAFKA, or one started here)."""
    if foreign := os.environ.get("VEILSTREAM_KAFKA"):
        return ForeignBroker(foreign)
    broker = new_broker()
    atexit.register(broker.close)
    return broker


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _answers(bootstrap: str) -> bool:
    """Whether the broker names itself in its metadata (request 3, version 1, no topics): registered and unfenced.

    By hand: a client library that is refused half-way leaves threads and sockets behind, and one that is caught at
    it fails whichever test runs at that moment.
    """
    host, _, port = bootstrap.partition(":")
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                head = answer.read(12)  # size, correlation, number of brokers
    except OSError:
        return False
    return len(head) == 12 and struct.unpack(">iii", head)[2] >= 1


if __name__ == "__main__":
    started = time.monotonic()
    one = new_broker()
    print(one.bootstrap, f"started in {time.monotonic() - started:.1f} s", file=sys.stderr)
    try:
        signal.pause()
    finally:
        one.close()
