"""The catalogue of faults: what each does, and what must come of it (DESIGN section 3).

A fault is a function of the world and its drawn numbers; it returns when the fault is over (healed), and the daemon
then has to come to rest by itself. `quiet` faults strike alone: an operator's hand is in them, or they damage what
stands still. `last` faults end a round: a topic is not what it was, so only the tally of the last release judges, or
the daemon has to refuse.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream.testing.armed import BAD_DISK, NO_SPACE
from tests.conftest import ROOT
from tests.kafka import verifier
from tests.kafka.chaos.world import HOSTS, PARTITIONS, Unit, World, entries_of

WAITS: dict[str, str] = {}
"""Kinds that the product does not survive or tell yet, and the point whose mend they wait for. They are drawn only when
they are asked for (`--also NAME`, `--also waiting`). Take a line out when it is mended."""

BOUNDARIES = ("opened", "charged", "built", "files_written", "sealed", "renamed", "published", "checkpoint")
INTAKE = ("taken", "sent")

ALARM_SECONDS = 90.0
"""How long the daemon may take to say what an operator has to answer."""


@dataclass(frozen=True)
class Draw:
    """The drawn numbers of one fault: `u`, `v` in [0, 1) choose, `seconds` is how long it lasts."""

    u: float
    v: float
    seconds: float


Strike = Callable[[World, Draw], None]


@dataclass(frozen=True)
class Kind:
    """One kind of fault; `outcome` is what must come of it."""

    name: str
    outcome: str
    strike: Strike
    weight: int
    place: str
    """any, quiet or last"""


CATALOGUE: dict[str, Kind] = {}
SURVIVED = "everything goes on by itself; nothing is lost or told twice"


def kind(name: str, outcome: str = SURVIVED, *, weight: int = 2, place: str = "any") -> Callable[[Strike], Strike]:
    """Enter a fault into the catalogue."""

    def entered(strike: Strike) -> Strike:
        CATALOGUE[name] = Kind(name, outcome, strike, weight, place)
        return strike

    return entered


class Finding(AssertionError):
    """The daemon did not do what must come of a fault."""


def pick(things: Sequence[Any], u: float) -> Any:
    """One of them."""
    return things[int(u * len(things))]


# processes


def _kill(units: Sequence[Unit], number: int = signal.SIGKILL) -> None:
    for unit in units:
        unit.send(number)


@kind("kill-ingest", weight=4)
def _(world: World, draw: Draw) -> None:
    _kill([pick(world.of("ingest"), draw.u)])


@kind("kill-coordinator", weight=4)
def _(world: World, draw: Draw) -> None:
    _kill([pick(world.of("coordinator"), draw.u)])


@kind("kill-host")
def _(world: World, draw: Draw) -> None:
    _kill(world.of(host=pick(HOSTS, draw.u)))


@kind("kill-everything", weight=1)
def _(world: World, draw: Draw) -> None:
    _kill(world.units)


@kind("terminate-ingest")
def _(world: World, draw: Draw) -> None:
    _kill([pick(world.of("ingest"), draw.u)], signal.SIGTERM)


@kind("terminate-coordinator", weight=3)
def _(world: World, draw: Draw) -> None:
    _kill([pick(world.of("coordinator"), draw.u)], signal.SIGTERM)


@kind("host-down-for-a-while")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of(host=pick(HOSTS, draw.u))):
        time.sleep(draw.seconds)


@kind("pause-ingest")
def _(world: World, draw: Draw) -> None:
    _pause([pick(world.of("ingest"), draw.u)], draw.seconds)


@kind("pause-coordinator", weight=3)
def _(world: World, draw: Draw) -> None:
    _pause([pick(world.of("coordinator"), draw.u)], draw.seconds)


@kind("pause-host", weight=1)
def _(world: World, draw: Draw) -> None:
    _pause(world.of(host=pick(HOSTS, draw.u)), draw.seconds)


def _pause(units: Sequence[Unit], seconds: float) -> None:
    _kill(units, signal.SIGSTOP)
    time.sleep(seconds)
    _kill(units, signal.SIGCONT)


@kind("die-at-a-boundary", weight=6)
def _(world: World, draw: Draw) -> None:
    _ordered(world, world.of("coordinator"), draw, at=pick(BOUNDARIES, draw.u))


@kind("freeze-at-a-boundary", weight=3)
def _(world: World, draw: Draw) -> None:
    _ordered(world, world.of("coordinator"), draw, at=pick(BOUNDARIES, draw.u), do="stop")
    _kill(world.of("coordinator"), signal.SIGCONT)


@kind("ingest-dies-with-a-batch", weight=3)
def _(world: World, draw: Draw) -> None:
    _ordered(world, [pick(world.of("ingest"), draw.v)], draw, at=pick(INTAKE, draw.u))


def _ordered(world: World, units: Sequence[Unit], draw: Draw, **what: Any) -> None:
    """An order that stands for at least as long as events need to come to a cut."""
    pids = world.order(units, **what)
    time.sleep(draw.seconds + 2)
    world.withdraw(pids, *what)


@kind("more-workers-for-a-while")
def _(world: World, draw: Draw) -> None:
    """A worker more joins, and leaves again; and a second coordinator on the folder of the first."""
    more = Unit(world, pick(("ingest", "coordinator"), draw.u), pick(HOSTS, draw.v))
    time.sleep(draw.seconds + 3)
    more.stop()
    more.close()


# network


@contextmanager
def _network(world: World, hosts: Sequence[str], verb: str, *arguments: float) -> Iterator[None]:
    proxies = [world.broker.proxies[host] for host in hosts]
    for proxy in proxies:
        getattr(proxy, verb)(*arguments)
    yield
    for proxy in proxies:
        proxy.heal()


@kind("cut-host", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "cut"):
        time.sleep(draw.seconds)


@kind("stall-host", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "stall"):
        time.sleep(draw.seconds)


@kind("cut-both-hosts", weight=1)
def _(world: World, draw: Draw) -> None:
    with _network(world, HOSTS, "cut"):
        time.sleep(draw.seconds)


@kind("slow-network")
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "slow", 0.02 + 0.2 * draw.v):
        time.sleep(draw.seconds + 2)


@kind("reset-connections", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "reset"):
        pass


# broker


@kind("kill-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.kill()
        time.sleep(draw.seconds / 2)
        world.broker.start()


@kind("restart-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.stop()
        time.sleep(draw.seconds / 2)
        world.broker.start()


@kind("pause-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.signal(signal.SIGSTOP)
        time.sleep(draw.seconds)
        world.broker.signal(signal.SIGCONT)


# disk, memory, descriptors, clock


@kind("disk-full", weight=3)
def _(world: World, draw: Draw) -> None:
    """The daemon's own writes fail with ENOSPC."""
    _ordered(world, world.of("coordinator", pick(HOSTS, draw.u)), draw, errno=NO_SPACE)


@kind("disk-fails")
def _(world: World, draw: Draw) -> None:
    _ordered(world, world.of("coordinator", pick(HOSTS, draw.u)), draw, errno=BAD_DISK)


@kind("disk-slow")
def _(world: World, draw: Draw) -> None:
    _ordered(world, world.of("coordinator"), draw, slow=0.1 + 0.5 * draw.v)


@contextmanager
def _limited(units: Sequence[Unit], what: int, limit: Callable[[int], int]) -> Iterator[None]:
    """A limit of the kernel on running processes, lifted afterwards."""
    before: dict[int, tuple[int, int]] = {}
    for unit in units:
        pid = unit.pid
        if pid is None:
            continue
        try:
            before[pid] = resource.prlimit(pid, what)
            resource.prlimit(pid, what, (limit(pid), before[pid][1]))
        except (ProcessLookupError, FileNotFoundError):
            before.pop(pid, None)
    yield
    for pid, pair in before.items():
        if any(unit.pid == pid for unit in units):
            try:
                resource.prlimit(pid, what, pair)
            except ProcessLookupError:
                continue


@kind("no-file-grows", weight=3)
def _(world: World, draw: Draw) -> None:
    """The kernel refuses to write beyond a size: SQLite, checkpoints, Parquet and temporary files alike."""
    with _limited(world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_FSIZE, lambda _: 8192 << int(4 * draw.v)):
        time.sleep(draw.seconds + 2)


@kind("no-more-descriptors")
def _(world: World, draw: Draw) -> None:
    """As many open files as there are now, and a few."""
    few = int(4 * draw.v)
    with _limited(
        world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_NOFILE, lambda pid: len(os.listdir(f"/proc/{pid}/fd")) + few
    ):
        time.sleep(draw.seconds + 2)


@kind("no-more-memory")
def _(world: World, draw: Draw) -> None:
    """As much address space as there is now, and a little."""

    def little(pid: int) -> int:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize() + int(8_000_000 * draw.v)

    with _limited(world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_AS, little):
        time.sleep(draw.seconds + 2)


@kind("clock-set", weight=2)
def _(world: World, draw: Draw) -> None:
    """The wall clock of a host jumps by up to a day forth or back, and returns."""
    _ordered(world, world.of(host=pick(HOSTS, draw.u)), draw, clock=(draw.v - 0.5) * 2 * 86_400)


# what comes in


@kind("burst")
def _(world: World, draw: Draw) -> None:
    world.pump.burst(50 + int(150 * draw.u))


POISON: tuple[bytes, ...] = (
    b"\x00" * 1000,
    b'{"case:concept:name": "x", "concept:name": null, "time:timestamp": "2024-01-01T00:00:00Z"}',
    b'{"case:concept:name": "x", "concept:name": "a", "time:timestamp": "2099-01-01T00:00:00Z"}',
    b'{"case:concept:name": "", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"}',
    b"[" * 100_000,
    b'"' + b"x" * 700_000 + b'"',
)


@kind("poison", "each bad record is in the dlq once or more, and nothing waits for it")
def _(world: World, draw: Draw) -> None:
    _send(world, [(int(draw.u * PARTITIONS), value) for value in POISON])


@kind("large-integers", "the event is in the dlq; no checkpoint fails")
def _(world: World, draw: Draw) -> None:
    """In an attribute that is kept."""
    body = {"case:concept:name": f"big-{draw.u}", "concept:name": "big", "time:timestamp": "2024-01-01T00:00:00+00:00"}
    large = ({"case:amount": 2**200}, {"amount": -(2**90)}, {"amount": {"of": [2**63]}})
    _send(world, [(0, json.dumps({**body, **one}).encode()) for one in large])


@kind("aborted-transaction", "what was aborted is no event")
def _(world: World, draw: Draw) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=world.site.bootstrap, transactional_id=f"chaos-{secrets.token_hex(4)}")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        body = {"case:concept:name": "aborted", "concept:name": "aborted", "time:timestamp": "2024-01-01T00:00:00Z"}
        producer.send(world.site.topic, json.dumps(body).encode(), partition=int(draw.u * PARTITIONS)).get(timeout=20)
        producer.abort_transaction()
    finally:
        producer.close(timeout=10)


@kind("repeated-deltas")
def _(world: World, draw: Draw) -> None:
    """What a producer's retry across its own restart does: recorded deltas stand in the topic once more."""
    deltas = [value for _, _, value in world.site.records(_topic(world, "delta")) if value and b'"delta"' in value[:40]]
    _send(world, [(0, value) for value in deltas[int(draw.u * len(deltas)) :][:20]], _topic(world, "delta"))


def _topic(world: World, name: str) -> str:
    return f"veilstream.{world.site.name}.{name}"


def _send(world: World, values: Sequence[tuple[int, bytes]], topic: str = "") -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=world.site.bootstrap, max_request_size=8_000_000)
    try:
        futures = [producer.send(topic or world.site.topic, value, partition=number) for number, value in values]
        for future in futures:
            future.get(timeout=30)
    finally:
        producer.close(timeout=10)


# what an operator, a backup or a retention does to what stands still


@contextmanager
def _admin(world: World) -> Iterator[Any]:
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=world.site.bootstrap)
    try:
        yield client
    finally:
        client.close()


def _set_group(world: World, role: str, topic: str, offsets: dict[int, int]) -> None:
    """The group's position; its members have left, or will be gone with their session."""
    from kafka import TopicPartition
    from kafka.errors import NoError
    from kafka.structs import OffsetAndMetadata

    wanted = {TopicPartition(topic, number): OffsetAndMetadata(at, "", -1) for number, at in offsets.items()}
    deadline = time.monotonic() + 30
    with _admin(world) as client:
        while True:
            outcome = client.alter_group_offsets(f"veilstream.{world.site.name}.{role}", wanted)
            if all(error is NoError for error in outcome.values()):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the group of {role} keeps its members")
            time.sleep(0.5)


def _ends(world: World, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Begin and end of each partition."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=world.site.bootstrap)
    try:
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        begins, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
        return {part.partition: (begins[part], ends[part]) for part in parts}
    finally:
        consumer.close(autocommit=False)


def _delete_records(world: World, topic: str, before: dict[int, int]) -> None:
    from kafka import TopicPartition

    with _admin(world) as client:
        client.delete_records({TopicPartition(topic, number): at for number, at in before.items()})


@kind("groups-set-back", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.units):
        begins = {number: begin for number, (begin, _) in _ends(world, world.site.topic, PARTITIONS).items()}
        _set_group(world, "ingest", world.site.topic, begins)


@kind("group-set-forward", "a gap: alarm, no release, until `gap rewind` brings the events", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("ingest")):
        world.pump.burst(40)
        with world.pump.held():
            ends = {number: end for number, (_, end) in _ends(world, world.site.topic, PARTITIONS).items()}
        _set_group(world, "ingest", world.site.topic, ends)
    world.pump.burst(20)
    host = _alarmed(world)
    with world.down(world.of("ingest")):
        _answer(world, host, "rewind")


@kind("unread-source-records-deleted", "a gap: alarm, no release, until `gap accept`", place="last")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        world.site.all_read()
        with world.down(world.of("ingest")):
            before = _ends(world, world.site.topic, PARTITIONS)
            world.pump.burst(60)
            with world.pump.held():
                ends = _ends(world, world.site.topic, PARTITIONS)
            unread = {number: end + 1 + int(3 * draw.u) for number, (_, end) in before.items()}
            _delete_records(world, world.site.topic, {n: at for n, at in unread.items() if at <= ends[n][1]})
    _accept_all(world)


def _status(world: World, host: str) -> dict[str, Any]:
    path = world.site.output(host) / "operator" / "status.json"
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def _alarmed(world: World, patience: float = ALARM_SECONDS) -> str:
    """Wait until the active coordinator says that something is missing; its host. Silence is the finding."""
    begin, deadline = time.time(), time.monotonic() + patience
    while time.monotonic() < deadline:
        told = {host: _status(world, host) for host in HOSTS}
        host = max(HOSTS, key=lambda one: told[one].get("at", 0.0))
        if told[host].get("at", 0.0) > begin and told[host].get("state") == "gap":
            return host
        time.sleep(0.5)
    raise Finding(f"silent: no alarm within {patience:g} s")


def _answer(world: World, host: str, action: str, *, looked_again: bool = False) -> None:
    """`veilstream gap rewind|accept`, again while the group still has members or nothing is reported yet.

    `looked_again`: the caller looks at the state after this. An order of a moment ago may have mended the gap while the
    state still told of it; then there is nothing to answer."""
    command = [sys.executable, "-m", "stream.commands", "gap", action, "-c", str(world.site.config), "-o"]
    deadline = time.monotonic() + 60
    while True:
        outcome = subprocess.run(
            [*command, str(world.site.output(host))], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        if outcome.returncode == 0 or (looked_again and "reports no gap" in outcome.stderr):
            return
        if time.monotonic() > deadline:
            raise Finding(f"refused: gap {action} ended with {outcome.returncode}: {outcome.stderr.strip()[-200:]}")
        time.sleep(0.5)


def _accept_all(world: World) -> None:
    """Accept until no gap is left: each partition's may be reported later than the one before."""
    _alarmed(world)
    deadline = time.monotonic() + 2 * ALARM_SECONDS
    with world.pump.held():
        world.pump.burst(8 * PARTITIONS)
        while not _all_folded(world):
            if _status(world, _telling(world)).get("state") == "gap":
                _answer(world, _telling(world), "accept", looked_again=True)
            if time.monotonic() > deadline:
                raise Finding(f"hung: accepted gaps stay: {_marks(world)}")
            time.sleep(0.5)


def _rewind_all(world: World) -> None:
    """Rewind until no gap is left: each partition's may be reported later than the one before."""
    _alarmed(world)
    deadline = time.monotonic() + 2 * ALARM_SECONDS
    with world.pump.held():
        former = _marks(world)
        while any(end <= former.get(number, -1) + 1 for number, (_, end) in _source_ends(world).items()):
            world.pump.burst(8 * PARTITIONS)  # a mark of the log before must not look like the end of this one
        while not _all_folded(world):
            if _status(world, _telling(world)).get("state") == "gap":
                with world.down(world.of("ingest")):
                    _answer(world, _telling(world), "rewind", looked_again=True)
            if time.monotonic() > deadline:
                raise Finding(f"hung: gaps stay that were rewound: {_marks(world)}")
            time.sleep(0.5)


def _source_ends(world: World) -> dict[int, tuple[int, int]]:
    return _ends(world, world.site.topic, PARTITIONS)


def _telling(world: World) -> str:
    """The host whose coordinator said something last."""
    return max(HOSTS, key=lambda host: _status(world, host).get("at", 0.0))


def _marks(world: World) -> dict[int, int]:
    """High-water marks by partition, as the active coordinator says."""
    return {one["p"]: one["last"] for one in _status(world, _telling(world)).get("partitions", ())}


def _all_folded(world: World) -> bool:
    """Whether the coordinator has no gap and the last record of every partition, while nothing is sent."""
    if _status(world, _telling(world)).get("state") == "gap":
        return False
    marks = _marks(world)
    return all(marks.get(number) == end - 1 for number, (_, end) in _source_ends(world).items() if end)


@kind("checkpoint-damaged", "the generation before is used, and said", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        for host in HOSTS:
            newest = world.site.output(host) / "operator" / "checkpoints" / "fold.checkpoint"
            if newest.exists():
                data = bytearray(newest.read_bytes())
                data[int(draw.u * len(data))] ^= 0xFF
                newest.write_bytes(data)


@kind("checkpoints-gone", "the mirror's is used", place="quiet")
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    with world.down(world.of("coordinator", host)):
        for path in (world.site.output(host) / "operator" / "checkpoints").glob("*"):
            path.unlink()


@kind("ledger-copy-gone", "it is read from the topic again", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        for host in HOSTS:
            for path in (world.site.output(host) / "operator").glob("ledger.sqlite*"):
                path.unlink()


@kind("host-folder-gone", "a bare host goes on from store and topics", place="quiet", weight=3)
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    with world.down(world.of(host=host)):
        shutil.rmtree(world.site.output(host), ignore_errors=True)


@kind("host-folder-old", "an old copy of a host's folder is brought up to date", place="quiet", weight=3)
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    folder, copy = world.site.output(host), world.folder / f"backup-{host}"
    with world.down(world.of(host=host)):
        if copy.exists() and draw.v > 0.3:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(copy, folder)
        elif folder.exists():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)


@kind("read-source-records-deleted", "no gap: they were read", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        ends = _ends(world, world.site.topic, PARTITIONS)
    covered = dict.fromkeys(ends, 0)
    for _, record in world.site.json("delta"):
        if record["t"] == "delta":
            covered[record["p"]] = max(covered[record["p"]], record["last"] + 1)
    _delete_records(world, world.site.topic, {number: int(at * draw.u) for number, at in covered.items() if at})


# what ends a round


@kind("delta-garbage", "the coordinator refuses (exit 4) and names topic and offset", place="last")
def _(world: World, draw: Draw) -> None:
    _send(world, [(0, b"\x00garbage")], _topic(world, "delta"))
    _refuses(world, "delta offset")


@kind("ledger-garbage", "the coordinator refuses (exit 4) and names topic and offset", place="last")
def _(world: World, draw: Draw) -> None:
    _send(world, [(0, b"\x00garbage")], _topic(world, "ledger"))
    _kill(world.of("coordinator"))
    _refuses(world, "ledger")


@kind("ledger-recreated", "the coordinator refuses (exit 4): budgets and numbers would be forgotten", place="last")
def _(world: World, draw: Draw) -> None:
    with world.down(world.units):
        _recreate(world, "ledger")
    _refuses(world, "ledger")


def _refuses(world: World, words: str) -> None:
    """Both coordinators end with 4 and say why; nobody starts them again."""
    deadline = time.monotonic() + ALARM_SECONDS
    while time.monotonic() < deadline:
        told = [unit.refusal for unit in world.of("coordinator")]
        if any(text and text.startswith("exit 4") and words in text for text in told):
            return
        time.sleep(0.5)
    raise Finding(f"silent: no coordinator refused within {ALARM_SECONDS:g} s: {told}, {dict(world.crashes)}")


def _recreate(world: World, name: str) -> None:
    """A topic deleted and created again under the same name, with the settings that `topics create` gives."""
    from kafka.admin import NewTopic

    topic = world.site.topic if name == "source" else _topic(world, name)
    world.recreated = True
    with world.pump.held():
        if name == "source" and all(unit.pid for unit in world.of("ingest")):
            world.site.all_read()
        world.site.look()
        with _admin(world) as client:
            client.delete_topics([topic])
            deadline = time.monotonic() + 30
            while topic in client.list_topics():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} is not deleted")
                time.sleep(0.2)
            if name == "source":
                client.create_topics([NewTopic(topic, PARTITIONS, -1)], wait_for_metadata=True)
        if name != "source":
            world.site.command("topics", "create", "-c", str(world.site.config))
        former = world.site.forget(topic)
        if name == "source":
            world.former.append(former)


@kind("dlq-recreated", "the dlq begins anew; what was in it is the operator's loss", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, "dlq")
    world.pump.burst(80)


@kind("releases-recreated", "the topic begins anew; releases go on", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, pick(("releases", "released-events"), draw.u))
    world.pump.burst(80)


@kind("source-recreated-while-stopped", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        world.site.all_read()
        with world.down(world.units):
            _recreate(world, "source")
            world.pump.burst(20 + int(100 * draw.u))
    _rewind_all(world)


@kind("source-recreated-while-running", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, "source")
    world.pump.burst(20 + int(100 * draw.u))
    _rewind_all(world)


@kind("source-tail-lost", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    """The broker comes back without its last records, which were read; new ones take their offsets."""
    with world.lock, world.pump.held():
        world.site.all_read()
        world.broker.kill()
        for number in range(PARTITIONS):
            world.broker.cut_tail(world.site.topic, number, 1 + int(3 * draw.u))
        world.broker.start()
        world.former.append(world.site.forget(world.site.topic))
    world.pump.burst(60)
    _rewind_all(world)


@kind("delta-recreated", "refused (exit 4) until `gap rewind`; then every event counts", place="last")
def _(world: World, draw: Draw) -> None:
    """What the topic held is in the checkpoints, or read again from the sources."""
    if draw.u < 0.5:
        with world.down(world.units):
            _recreate(world, "delta")
    else:
        _recreate(world, "delta")
    world.pump.burst(60)
    _rewind_delta(world)


def _rewind_delta(world: World) -> None:
    """The operator's order for a delta topic that is not the one of the state, given for each host that refuses: the
    standby may have an older state. Over when a coordinator goes on and has all that was sent: of some partitions the
    gap shows later than of others, and a coordinator may be active in between."""
    begin, answered, deadline = time.time(), 0, time.monotonic() + 2 * ALARM_SECONDS
    while time.monotonic() < deadline:
        for host in HOSTS:
            (unit,) = world.of("coordinator", host)
            if (unit.refusal or "").startswith("exit 2"):  # it looked while there was no topic
                unit.start()
            if not (unit.refusal or "").startswith("exit 4"):
                continue
            if "gap rewind|accept" not in str(unit.refusal):
                raise Finding(f"refused: {unit}: {unit.refusal}")
            with world.down(world.of("ingest")):
                _answer(world, host, "rewind")
            answered += 1
            unit.start()
        told, where = max(((_status(world, host), host) for host in HOSTS), key=lambda one: one[0].get("at", 0.0))
        if answered and told.get("at", 0.0) > begin and told.get("state") == "active":
            if _goes_on(world):
                return
            told = _status(world, where)
        if answered and told.get("at", 0.0) > begin and told.get("state") == "gap":
            # The host with the older state goes on, and the group stands where the newer one's order has set it.
            with world.down(world.of("ingest")):
                _answer(world, where, "rewind", looked_again=True)
        time.sleep(0.5)
    raise Finding(f"silent: {answered} refusals within {2 * ALARM_SECONDS:g} s, and no coordinator goes on")


def _goes_on(world: World) -> bool:
    """Whether everything that was sent is folded before another gap shows."""
    with world.pump.held():
        for _ in range(60):
            if _all_folded(world):
                return True
            if _status(world, _telling(world)).get("state") == "gap":
                return False
            time.sleep(0.5)
    return False


@kind("ledger-copy-lacks-rows", "it is compared with the topic at the start and rebuilt aloud", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        damaged = []
        for host in HOSTS:
            path = _copy(world, host)
            if path.exists():
                with closing(sqlite3.connect(path)) as db, db:
                    if db.execute("DELETE FROM entries WHERE id % 3 = ?", (int(3 * draw.u),)).rowcount:
                        damaged.append(host)
                world.site.damaged[host] = entries_of(path)
        before = _rebuilt(world)
        begin = time.time()
    deadline = time.monotonic() + ALARM_SECONDS
    while time.monotonic() < deadline:
        active = [host for host in HOSTS if _active_since(world, host, begin)]
        if _rebuilt(world) > before or (active and not set(active) & set(damaged)):
            return
        time.sleep(0.5)
    raise Finding(f"silent: nobody said within {ALARM_SECONDS:g} s that a copy of the ledger lacked rows")


def _copy(world: World, host: str) -> Path:
    return world.site.output(host) / "operator" / "ledger.sqlite"


def _rebuilt(world: World) -> int:
    """How often a coordinator said that it made its copy of the ledger anew."""
    logs = (path.read_text(errors="replace") for path in world.folder.glob("coordinator-*.log"))
    return sum(text.count("it is rebuilt from the topic") for text in logs)


def _active_since(world: World, host: str, begin: float) -> bool:
    told = _status(world, host)
    return bool(told.get("at", 0.0) > begin and told.get("state") == "active")


@kind("ledger-copy-is-garbage", "it is rebuilt from the topic aloud, or refused (exit 4)", place="last")
def _(world: World, draw: Draw) -> None:
    """Refused, it is the operator who takes the file away: all of it is in the topic."""
    with world.down(world.of("coordinator")):
        there = [host for host in HOSTS if _copy(world, host).exists()]
        for host in there:
            path = _copy(world, host)
            data = bytearray(path.read_bytes())
            for place in range(100 + int(3000 * draw.u), len(data), 97):
                data[place] ^= 0x55
            path.write_bytes(data)
        before = _rebuilt(world)
        begin = time.time()
    deadline = time.monotonic() + ALARM_SECONDS
    while time.monotonic() < deadline:
        told = [unit.refusal or "" for unit in world.of("coordinator")]
        active = [host for host in HOSTS if _active_since(world, host, begin)]
        refused = any(text.startswith("exit 4") and "ledger.sqlite" in text for text in told)
        if refused or _rebuilt(world) > before or (active and not set(active) & set(there)):
            break
        time.sleep(0.5)
    else:
        raise Finding(f"silent: nobody said within {ALARM_SECONDS:g} s that a copy of the ledger is garbage: {told}")
    with world.down(world.of("coordinator")):
        for host in there:
            for path in _copy(world, host).parent.glob("ledger.sqlite*"):
                path.unlink()


JUDGED_BY_REFUSAL = {"delta-garbage", "ledger-garbage", "ledger-recreated"}
"""Kinds after which nothing goes on: that the daemon says so is what is judged."""


def former_events(world: World) -> list[dict[str, Any]]:
    """Good events of the source topic, also of its former lives; each event has a time of its own."""
    good: dict[tuple[str, str], dict[str, Any]] = {}
    for records in (*world.former, list(world.site.records(world.site.topic))):
        for event in _good(records):
            good[event["case:concept:name"], event["time:timestamp"]] = event
    return list(good.values())


def _good(records: Sequence[tuple[int, int, bytes | None]]) -> list[dict[str, Any]]:
    class _Records:
        topic = ""

        def records(self, _topic: str) -> Sequence[tuple[int, int, bytes | None]]:
            return records

    return list(verifier.source_events(_Records())[0].values())
