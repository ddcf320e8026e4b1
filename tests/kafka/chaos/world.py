"""The world of the faults: a broker behind a proxy for each host, two hosts with their services, and a stream of
events.
"""

from __future__ import annotations

import itertools
import json
import secrets
import signal
import sqlite3
import struct
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from kafka.errors import KafkaError

from stream.testing import armed
from stream.testing.proxy import Proxy
from tests.kafka import scenario
from tests.kafka.broker import Broker, classpath
from tests.kafka.site import AnyProcess, Site, publication
from tests.patience import patient_time, wait_for_end
from tests.ports import free_ports

HOSTS = ("a", "b")
INGEST = ("a", "a", "b")
"""Hosts of the ingest workers; each host has one coordinator."""
PARTITIONS = 4

REFUSALS = (2, 4)
"""Exit codes after which a service manager leaves a process down (deploy/systemd)."""

MISSING = "missing; run `veilstream topics create`"
"""The refusal of a process that looked between the deletion of a topic and its creation."""

EAGER = {"reconnect_backoff_max_ms": 500}
"""Longest wait of the test's own clients before they try again a broker that was away; kafka-python waits 30 s."""

STOP_SECONDS = 60.0
"""A stop takes at most 20 s by itself; a machine that does much else needs more."""

LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},{inner}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},{outer}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{plain}
"""


class ChaosBroker(Broker):
    """A broker that each host reaches by its own proxy, and the test directly."""

    def _configure(self, port: int, controller: int, user: tuple[str, str] | None) -> None:
        super()._configure(port, controller, user)
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker")
        self.proxies = {host: Proxy() for host in HOSTS}
        names = {host: f"HOST{host.upper()}" for host in HOSTS}
        ports = dict(zip(HOSTS, free_ports(len(HOSTS)), strict=True))
        text = LISTENERS.format(
            port=port,
            controller=controller,
            inner=",".join(f"{names[host]}://127.0.0.1:{ports[host]}" for host in HOSTS),
            outer=",".join(f"{names[host]}://127.0.0.1:{self.proxies[host].port}" for host in HOSTS),
            plain=",".join(f"{name}:PLAINTEXT" for name in names.values()),
        )
        with Path(self._properties).open("a") as file:
            file.write(text)
        for host, proxy in self.proxies.items():
            proxy.start("127.0.0.1", ports[host])

    def start(self) -> None:
        """Start the broker in one lasting thread: it dies with the thread that started it (`_die_with_parent`)."""
        self._starter.submit(super().start).result()

    def stop(self) -> None:
        """Stop the broker with SIGTERM and wait for its end, for a clean restart."""
        self.signal(signal.SIGTERM)
        if self._process is not None:
            wait_for_end(self._process, STOP_SECONDS)

    def cut_tail(self, topic: str, partition: int, batches: int) -> int:
        """Remove the last record batches of a partition of a broker that is down; return how many records went.

        A machine that lost its power before they were on the disk has the same log.
        """
        folder = self.folder / "data" / f"{topic}-{partition}"
        segment = max(folder.glob("*.log"))
        data, places = segment.read_bytes(), []
        at = 0
        while at + 61 <= len(data):
            size, records = struct.unpack_from(">i", data, at + 8)[0], struct.unpack_from(">i", data, at + 57)[0]
            places.append((at, records))
            at += 12 + size
        gone = places[-batches:]
        if not gone:
            return 0
        with segment.open("r+b") as file:
            file.truncate(gone[0][0])
        for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")):
            index.unlink()
        (self.folder / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (self.folder / "data" / name).unlink(missing_ok=True)
        return sum(records for _, records in gone)

    def close(self) -> None:
        super().close()
        self._starter.shutdown()
        for proxy in self.proxies.values():
            proxy.close()


def chaos_broker() -> ChaosBroker:
    """Start the broker and its proxies; the caller closes them."""
    return ChaosBroker(classpath()).started()


class Witness(Site):
    """A site whose topics are read once: what was ever seen of a topic stays, whatever is done to it later.

    It reads the broker directly and has no part in a group.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen: dict[str, list[tuple[int, int, bytes | None]]] = defaultdict(list)
        self._decoded: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        self._reader: Any = None
        self._reading = threading.RLock()
        self.damaged: dict[str, list[dict[str, Any]]] = {}
        """Entries that a fault left in a host's copy of the ledger: wrong until a coordinator opens it."""
        self._starting = threading.Lock()

    def look(self) -> None:
        """Read the new records of all topics. KafkaError if the broker is away."""
        from kafka import KafkaConsumer, TopicPartition

        with self._reading:
            if self._reader is None:
                self._reader = KafkaConsumer(
                    bootstrap_servers=self.bootstrap,
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    isolation_level="read_committed",
                    **EAGER,
                )
                parts = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
                parts += [TopicPartition(name, 0) for name in self.own_topics]
                self._reader.assign(parts)
                for part in parts:
                    self._reader.seek(part, 0)
            parts = self._reader.assignment()
            ends = self._reader.end_offsets(parts)
            deadline = patient_time() + 20
            while any(self._reader.position(part) < ends[part] for part in parts) and patient_time() < deadline:
                for part, found in self._reader.poll(timeout_ms=200).items():
                    self._seen[part.topic] += [(part.partition, record.offset, record.value) for record in found]

    def unread(self) -> set[tuple[int, int]]:
        """Return (partition, offset) of the source records that were seen and are in no delta."""
        left = {(partition, offset) for partition, offset, _ in self._seen[self.topic]}
        for _, record in self.json("delta"):
            if record["t"] == "delta":
                left.difference_update((record["p"], row[0]) for row in record["rows"])
                left.difference_update((record["p"], offset) for offset in record["dlq"])
        return left

    def all_read(self, seconds: float = 60.0) -> None:
        """Wait until every source record that is there now is in a delta."""
        deadline = patient_time() + seconds
        while True:
            self.look()
            if not self.unread():
                return
            if patient_time() > deadline:
                raise TimeoutError(f"{len(self.unread())} source records are in no delta")
            time.sleep(0.2)

    def forget(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        """Begin again with a topic that was deleted and created again; return what was seen of the former one."""
        with self._reading:
            if self._reader is not None:
                self._reader.close(autocommit=False)
                self._reader = None
            former = self._seen.pop(topic, [])
            self._decoded.pop(topic, None)
            kept = {name: list(found) for name, found in self._seen.items()}
            self._seen.clear()
            self._again(kept)
            return former

    def _again(self, kept: dict[str, list[tuple[int, int, bytes | None]]]) -> None:
        """Return a new reader that continues behind the last seen record of each topic."""
        self.look()
        for name, found in kept.items():
            places = {(partition, offset) for partition, offset, _ in found}
            self._seen[name] = found + [one for one in self._seen[name] if one[:2] not in places]
            self._decoded.pop(name, None)

    def records(self, topic: str, *, committed: bool = True) -> Iterator[tuple[int, int, bytes | None]]:
        """Return the records of a topic up to the last `look`."""
        assert committed
        return iter(list(self._seen[topic]))

    def json(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        name = f"veilstream.{self.name}.{kind}"
        known, seen = self._decoded[name], self._seen[name]
        known += [(offset, decoded(value)) for _, offset, value in seen[len(known) :]]
        return list(known)

    def start(self, role: str, host: str = "a", fault: str = "", **environment: str) -> AnyProcess:
        with self._starting:
            process = super().start(role, host, fault, **environment)
            process.log = self.folder / f"{role}-{len(self.processes) - 1}.log"
            return process

    def close(self) -> None:
        super().close()
        if self._reader is not None:
            self._reader.close(autocommit=False)


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a copy of the ledger, in order. sqlite3.Error if it cannot be read."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return [json.loads(body) for (body,) in db.execute("SELECT body FROM entries ORDER BY id")]


def decoded(value: bytes | None) -> dict[str, Any]:
    """Decode a record. Garbage becomes a record of an unknown kind."""
    try:
        found = msgspec.json.decode(value or b"null")
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) else {"t": "garbage", "kind": "garbage", "publication": ""}


class Unit:
    """A service of one host under a manager: started again after a crash, left down after a refusal."""

    def __init__(self, world: World, role: str, host: str) -> None:
        self.world, self.role, self.host = world, role, host
        self.codes: list[int] = []
        self.refusal: str | None = None
        self._change = threading.Condition()
        self._wanted, self._closed = True, False
        self.process: AnyProcess | None = None
        self._thread = threading.Thread(target=self._keep, name=f"{role}@{host}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"{self.role}@{self.host}"

    def _keep(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or (self._wanted and self.refusal is None))
                if self._closed:
                    return
                process = self.process = self.world.spawn(self.role, self.host)
            code = process.wait()
            with self._change:
                self.codes.append(code)
                self.process = None
                if code in REFUSALS:
                    self.refusal = f"exit {code}: {last_line(process)}"
                elif code not in (0, -signal.SIGTERM, -signal.SIGKILL):
                    self.world.crashes[last_line(process)] += 1
                self._change.notify_all()
            time.sleep(0.2)

    @property
    def pid(self) -> int | None:
        process = self.process
        return None if process is None or process.poll() is not None else process.pid

    def send(self, number: int) -> bool:
        """Send a signal to its process, if there is one."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.send_signal(number)
        return True

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """Stop the process with SIGTERM until `start`. Return its exit code, None if it hung and was killed."""
        with self._change:
            self._wanted = False
            process = self.process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            code = wait_for_end(process, seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            process.kill()
            return None
        with self._change:
            self._change.wait_for(lambda: self.process is not process, 10)
        return code

    def start(self) -> None:
        """Start the process as a person does, also after a refusal."""
        with self._change:
            self._wanted, self.refusal = True, None
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        self.send(signal.SIGCONT)
        self.send(signal.SIGKILL)
        self._thread.join(10)


def last_line(process: AnyProcess) -> str:
    """Return the last line of a process, without its stack."""
    lines = [line for line in process.log.read_text(errors="replace").splitlines() if line.startswith(("{", "20"))]
    reason = ""
    for line in lines[-5:]:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = {"message": line}
        message = str(entry.get("message") or entry.get("event") or entry)
        if any(word in message for word in ("stops:", "crashed:", "ends", "stop took")):
            reason = message
    return reason or (lines[-1][-300:] if lines else "(said nothing)")


class Pump:
    """Sends events to the source topic, and now and then a bad record, until it is held.

    Each case has one partition, and each event its own time.
    """

    STEPS = ("register", "check", "decide", "pay", "close")
    BLOCK = 10
    BAD_EVERY = 37

    def __init__(self, site: Site, rate: float) -> None:
        self.sent = 0
        self._rate, self._site = rate, site
        self._producer = self._made()
        self._events, self._lock = self._stream(), threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)
        self._thread.start()

    def _made(self) -> Any:
        from kafka import KafkaProducer

        deadline = patient_time() + 60
        while True:
            try:
                return KafkaProducer(bootstrap_servers=self._site.bootstrap, acks="all", linger_ms=5, **EAGER)
            except KafkaError:
                if patient_time() > deadline:
                    raise

    def _stream(self) -> Iterator[tuple[int, bytes | None]]:
        start, count = datetime(2024, 1, 1, tzinfo=UTC), 0
        for block in itertools.count():
            for step, place in itertools.product(self.STEPS, range(self.BLOCK)):
                if step == "pay" and place % 3 == 0:
                    step = "reject"
                case, count = block * self.BLOCK + place, count + 1
                body = {
                    "case:concept:name": f"case-{case}",
                    "concept:name": step,
                    "time:timestamp": (start + timedelta(seconds=count)).isoformat(),
                }
                yield case % PARTITIONS, json.dumps(body).encode()
                if count % self.BAD_EVERY == 0:
                    yield 0, scenario.BAD[count // self.BAD_EVERY % len(scenario.BAD)]

    def _run(self) -> None:
        while not self._stopped.wait(1 / self._rate):
            self.burst(1)

    def burst(self, count: int) -> None:
        """Send so many events at once."""
        with self._lock:
            for partition, value in itertools.islice(self._events, count):
                with suppress(KafkaError):  # the broker is away for long: what the topic has is what counts
                    key = b"k" if value is None else None
                    self._producer.send(self._site.topic, value, partition=partition, key=key)
                    self.sent += 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop sending for the length of the block; all that was sent has arrived when it begins."""
        with self._lock:
            try:
                self._producer.flush(timeout=20)
            except KafkaError:  # kafka-python may wait forever on a broker that was restarted
                with suppress(KafkaError):
                    self._producer.close(timeout=1)
                self._producer = self._made()
            yield

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(10)
        self._producer.close(timeout=10)


KEPT = 'attributes = { public = ["amount"] }\ncompletion = { end_activities = ["close"] }'
GROUPS = (
    'audience = "groups"\n'
    'cases = "completed"\n'
    'mechanism = { kind = "tlkc-cohorts", L = 1, K = 3, C = 1 }\n'
    "audit = { risk = false, utility = false }\n"
)
"""A publication that shows each case once. What it shows depends on its releases, not on the topics alone."""
TOP = 'key = "{key}"\ncheckpoint_key = "{storage}"\nstore = "{store}"\nmin_free_bytes = 0\n'


class World:
    """One process name on the chaos broker: two hosts, their units, events, and orders to running processes."""

    def __init__(self, broker: ChaosBroker, name: str, folder: Path, *, rate: float, bug: str = "") -> None:
        self.broker, self.folder, self._bug = broker, folder, bug
        self.armoury = folder / "armed"
        self.armoury.mkdir(parents=True)
        top = TOP.format(key=secrets.token_hex(32), storage=secrets.token_hex(32), store=folder / "shared")
        publications = scenario.publications() + publication("groups", f"{{ new_cases = {scenario.WINDOW} }}", GROUPS)
        self.site = Witness(broker.bootstrap, name, folder, publications, partitions=PARTITIONS, process=KEPT, top=top)
        self.crashes: Counter[str] = Counter()
        """Last lines of the processes that ended by themselves and are started again."""
        self.hung: list[str] = []
        """Processes that did not end when they were asked to."""
        self.former: list[list[tuple[int, int, bytes | None]]] = []
        """Former contents of the source topic."""
        self.recreated = False
        """Whether a topic was deleted and created again."""
        self.lock = threading.Lock()
        """Lock of the broker, so that two faults do not restart it at once."""
        self.units = [Unit(self, "coordinator", host) for host in HOSTS]
        self.units += [Unit(self, "ingest", host) for host in INGEST]
        self.pump = Pump(self.site, rate)
        self.pump.burst(60)

    def spawn(self, role: str, host: str) -> AnyProcess:
        """Start a process of a role on a host: behind its proxy, under orders from `armoury`."""
        fault = f"armed {self.armoury}"
        if self._bug:
            fault = f"bug {self._bug} {fault}"
        proxy = self.broker.proxies[host]
        return self.site.start(role, host, fault, VEILSTREAM_SOURCE__BOOTSTRAP=f"127.0.0.1:{proxy.port}")

    def of(self, role: str = "", host: str = "") -> list[Unit]:
        return [unit for unit in self.units if role in ("", unit.role) and host in ("", unit.host)]

    def order(self, units: Sequence[Unit], **what: Any) -> list[int]:
        """Give the processes of these units an order; return their ids."""
        pids = [pid for unit in units if (pid := unit.pid) is not None]
        for pid in pids:
            armed.order(self.armoury, pid, **what)
        return pids

    def withdraw(self, pids: Sequence[int], *names: str) -> None:
        for pid in pids:
            armed.withdraw(self.armoury, pid, *names)

    def stop_all(self, units: Sequence[Unit]) -> list[str]:
        """Stop units at once with SIGTERM; return those that did not end well."""
        codes: dict[int, int | None] = {}
        threads = [threading.Thread(target=lambda unit=unit: codes.update({id(unit): unit.stop()})) for unit in units]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = []
        for unit in units:
            code = codes[id(unit)]
            if code is None:
                lines.append(f"hung: {unit} did not end")
            # A refusal may come in the moment in which its process is stopped.
            elif code not in (0, -signal.SIGTERM, -signal.SIGKILL) and not self.looked_too_early(unit.refusal or ""):
                lines.append(f"{unit} ended with {code}")
        return lines

    def looked_too_early(self, refusal: str) -> bool:
        """Return whether a process refused because it looked between the deletion of a topic and its creation."""
        return self.recreated and MISSING in refusal

    def start_all(self, units: Sequence[Unit]) -> None:
        for unit in units:
            unit.start()

    @contextmanager
    def down(self, units: Sequence[Unit]) -> Iterator[None]:
        """Stop their services for the length of the block, as an operator does."""
        self.hung += [line for line in self.stop_all(units) if line.startswith("hung:")]
        try:
            yield
        finally:
            self.start_all(units)

    def heal(self) -> None:
        """Undo all faults: every network is whole, every process awake, every order withdrawn."""
        for proxy in self.broker.proxies.values():
            proxy.heal()
        for unit in self.units:
            unit.send(signal.SIGCONT)
        for path in self.armoury.glob("*.json"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        with suppress(Exception):
            self.pump.close()
        for unit in self.units:
            unit.close()
        self.site.close()
