"""Actions of an operator: changes of topics and groups, the output of `status`, `gap` orders."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.conftest import ROOT
from tests.kafka.chaos.kinds import ALARM_SECONDS, Finding
from tests.kafka.chaos.world import HOSTS, PARTITIONS, World
from tests.patience import patient_time


def topic_of(world: World, name: str) -> str:
    return f"veilstream.{world.site.name}.{name}"


def send(world: World, values: Sequence[tuple[int, bytes]], topic: str = "") -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=world.site.bootstrap, max_request_size=8_000_000)
    try:
        futures = [producer.send(topic or world.site.topic, value, partition=number) for number, value in values]
        for future in futures:
            future.get(timeout=30)
    finally:
        producer.close(timeout=10)


@contextmanager
def admin(world: World) -> Iterator[Any]:
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=world.site.bootstrap)
    try:
        yield client
    finally:
        client.close()


def set_group(world: World, role: str, topic: str, offsets: dict[int, int]) -> None:
    """Set the group's position once its members have left; others are gone when their session ends."""
    from kafka import TopicPartition
    from kafka.errors import NoError
    from kafka.structs import OffsetAndMetadata

    wanted = {TopicPartition(topic, number): OffsetAndMetadata(at, "", -1) for number, at in offsets.items()}
    deadline = patient_time() + 30
    with admin(world) as client:
        while True:
            outcome = client.alter_group_offsets(f"veilstream.{world.site.name}.{role}", wanted)
            if all(error is NoError for error in outcome.values()):
                return
            if patient_time() > deadline:
                raise TimeoutError(f"the group of {role} keeps its members")
            time.sleep(0.5)


def log_ends(world: World, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Return begin and end of each partition."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=world.site.bootstrap)
    try:
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        begins, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
        return {part.partition: (begins[part], ends[part]) for part in parts}
    finally:
        consumer.close(autocommit=False)


def delete_records(world: World, topic: str, before: dict[int, int]) -> None:
    from kafka import TopicPartition

    with admin(world) as client:
        client.delete_records({TopicPartition(topic, number): at for number, at in before.items()})


def status(world: World, host: str) -> dict[str, Any]:
    """Return the last status of a host's coordinator; `at` is the time of the file. A process under `clock-set` may
    have written a time hours ahead, and would look newer than its successor for as long.
    """
    path = world.site.output(host) / "operator" / "status.json"
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found | {"at": path.stat().st_mtime}
    except (OSError, ValueError):
        return {}


def alarmed(world: World, patience: float = ALARM_SECONDS) -> str:
    """Wait until the active coordinator reports that something is missing; return its host. Silence is a finding."""
    begin, deadline = time.time(), patient_time() + patience
    while patient_time() < deadline:
        statuses = {host: status(world, host) for host in HOSTS}
        host = max(HOSTS, key=lambda one: statuses[one].get("at", 0.0))
        if statuses[host].get("at", 0.0) > begin and statuses[host].get("state") == "gap":
            return host
        time.sleep(0.5)
    raise Finding(f"silent: no alarm within {patience:g} s")


def answer(world: World, host: str, action: str, *, looked_again: bool = False) -> None:
    """Run `veilstream gap rewind|accept`, again while the group still has members or nothing is reported yet.

    `looked_again`: the caller looks at the state after this. An order of a moment ago may have mended the gap while the
    state still reported it; then there is nothing to answer."""
    command = [sys.executable, "-m", "stream.commands", "gap", action, "-c", str(world.site.config), "-o"]
    deadline = patient_time() + 60
    while True:
        outcome = subprocess.run(
            [*command, str(world.site.output(host))], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        if outcome.returncode == 0 or (looked_again and "reports no gap" in outcome.stderr):
            return
        if patient_time() > deadline:
            raise Finding(f"refused: gap {action} ended with {outcome.returncode}: {outcome.stderr.strip()[-200:]}")
        time.sleep(0.5)


def accept_all(world: World) -> None:
    """Accept until no gap is left: each partition's may be reported later than the one before."""
    alarmed(world)
    deadline = patient_time() + 2 * ALARM_SECONDS
    with world.pump.held():
        world.pump.burst(8 * PARTITIONS)
        while not all_folded(world):
            if status(world, telling(world)).get("state") == "gap":
                answer(world, telling(world), "accept", looked_again=True)
            if patient_time() > deadline:
                raise Finding(f"hung: accepted gaps stay: {folded_marks(world)}")
            time.sleep(0.5)


def rewind_all(world: World) -> None:
    """Rewind until no gap is left: each partition's may be reported later than the one before."""
    alarmed(world)
    deadline = patient_time() + 2 * ALARM_SECONDS
    with world.pump.held():
        former = folded_marks(world)
        while any(end <= former.get(number, -1) + 1 for number, (_, end) in source_log_ends(world).items()):
            world.pump.burst(8 * PARTITIONS)  # a mark of the log before must not look like the end of this one
        while not all_folded(world):
            if status(world, telling(world)).get("state") == "gap":
                with world.down(world.of("ingest")):
                    answer(world, telling(world), "rewind", looked_again=True)
            if patient_time() > deadline:
                raise Finding(f"hung: gaps stay that were rewound: {folded_marks(world)}")
            time.sleep(0.5)


def source_log_ends(world: World) -> dict[int, tuple[int, int]]:
    return log_ends(world, world.site.topic, PARTITIONS)


def telling(world: World) -> str:
    """Return the host whose coordinator wrote the last status."""
    return max(HOSTS, key=lambda host: status(world, host).get("at", 0.0))


def folded_marks(world: World) -> dict[int, int]:
    """Return high-water marks by partition, as the active coordinator reports them."""
    return {one["p"]: one["last"] for one in status(world, telling(world)).get("partitions", ())}


def all_folded(world: World) -> bool:
    """Return whether the coordinator has no gap and the last record of every partition, while nothing is sent."""
    if status(world, telling(world)).get("state") == "gap":
        return False
    marks = folded_marks(world)
    return all(marks.get(number) == end - 1 for number, (_, end) in source_log_ends(world).items() if end)
