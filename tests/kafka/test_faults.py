"""Faults of hosts, groups and topics: repeats, rewinds, damaged checkpoints, gaps, sleepers, a dying broker."""

from __future__ import annotations

import json
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import PATIENCE, Site

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker


def _settle(one: Site, sent: int) -> None:
    one.wait(lambda: scenario.settled(one, sent), "the end of the scenario")


def _rewind(one: Site, role: str, topic: str, partitions: int) -> None:
    """Set a group's offsets to 0."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient
    from kafka.structs import OffsetAndMetadata

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    offsets = {TopicPartition(topic, number): OffsetAndMetadata(0, "", -1) for number in range(partitions)}
    admin.alter_group_offsets(f"veilstream.{one.name}.{role}", offsets)
    admin.close()


def _members(one: Site) -> int:
    """Return the number of ingest workers of the group; 0 while there is no group yet."""
    from kafka import errors
    from kafka.admin import KafkaAdminClient

    name = f"veilstream.{one.name}.ingest"
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    try:
        return len(admin.describe_groups([name])[name].get("members") or ())
    except errors.KafkaError:
        return 0
    finally:
        admin.close()


def _delete(one: Site, topic: str, before: int) -> None:
    """Delete the records of partition 0 below an offset, as retention does."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): before})
    admin.close()


def _append(one: Site, topic: str, values: list[bytes]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=one.bootstrap)
    for value in values:
        producer.send(topic, value, partition=0)
    producer.flush()
    producer.close()


def test_repeated_deltas_rewound_groups_and_a_corrupt_checkpoint_change_nothing(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """Everything comes twice, from the begin, onto a damaged state: the releases are the same, and continue."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    values = scenario.events(cases=20)
    delta = f"veilstream.{name}.delta"
    try:
        workers = one.start("ingest"), one.start("coordinator")
        scenario.send(one, values)
        _settle(one, len(values))
        assert one.stop(*workers) == [0, 0]
        before = [entry for entry in one.ledger() if entry["kind"] == "seal"]
        assert len(before) == 4
        deltas = [value for _, _, value in one.records(delta) if value and json.loads(value)["t"] == "delta"]
        _append(one, delta, deltas)
        _rewind(one, "ingest", one.topic, 2)
        _rewind(one, "coordinator", delta, 1)
        newest = one.output() / "operator" / "checkpoints" / "fold.checkpoint"
        newest.write_bytes(newest.read_bytes()[:-7] + b"garbage")
        more = scenario.events(first=20, cases=20)
        scenario.send(one, more)
        one.start("ingest"), one.start("coordinator")
        _settle(one, len(values) + len(more))
        one.stop()
    finally:
        one.close()
    assert [entry for entry in one.ledger() if entry["kind"] == "seal"][:4] == before
    assert "the generation before is used" in one.logs()
    assert scenario.disagreements(one) == []


def test_missing_source_events_stop_releases_until_accepted(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Retention takes events that nobody read: nothing is released any more, until the operator accepts;
    the manifests then report it. A host without the releases, or without checkpoint and deltas, refuses to
    start."""
    one = scenario.site(broker.bootstrap, name, tmp_path, partitions=1)
    values = scenario.events(cases=10)
    try:
        workers = one.start("ingest"), one.start("coordinator")
        scenario.send(one, values, partitions=1)
        _settle(one, len(values))
        assert one.stop(workers[0]) == [0]
        one.command("gap", "accept", "-c", str(one.config), "-o", str(one.output()), expect=2)
        more = scenario.events(first=10, cases=10)
        scenario.send(one, more, partitions=1)
        _delete(one, one.topic, len(values) + 5)
        ingest = one.start("ingest")
        one.wait(lambda: "nothing is released until" in one.logs(), "the alarm")
        one.wait(lambda: one.covered() == len(values) + len(more) - 5, "the rest of the events")
        time.sleep(2)
        assert len(one.ledger("seal")) == 2
        status = json.loads(one.command("status", "-o", str(one.output()), "--json", expect=4) or "{}")
        assert status == {}
        one.command("gap", "accept", "-c", str(one.config), "-o", str(one.output()))
        one.wait(lambda: len(one.ledger("seal")) == 4, "releases after the gap")
        one.wait(lambda: len(one.json("releases")) == 4, "their announcement")
        assert one.stop(ingest, workers[1]) == [0, 0]
        manifests = [record["manifest"] for _, record in one.json("releases")]
        assert [json.dumps(manifest).count('"gaps_accepted": 1') for manifest in manifests] == [0, 0, 1, 1]
        _delete(one, f"veilstream.{name}.delta", 3)
        bare = one.start("coordinator", "b")
        assert bare.wait(PATIENCE) == 4
        assert "was published and is gone from the store" in one.logs()
        for checkpoint in (one.output() / "operator" / "checkpoints").iterdir():
            checkpoint.unlink()
        assert one.start("coordinator", "a").wait(PATIENCE) == 4
        assert "its first records are gone" in one.logs()
    finally:
        one.close()


def test_events_deleted_before_a_running_worker_read_them_are_a_gap(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """A worker that hangs for some seconds keeps its partition. Records that retention removes meanwhile must be
    noticed: its client continues silently at the new begin of the log."""
    one = scenario.site(broker.bootstrap, name, tmp_path, partitions=1)
    one.config.write_text(one.config.read_text().replace('session_timeout = "3s"', 'session_timeout = "60s"'))
    read = scenario.events(cases=10)
    deleted = scenario.events(first=10, cases=10)
    later = scenario.events(first=20, cases=10)
    begin = len(read) + 2 * len(deleted)
    end = begin + len(later)
    try:
        ingest = one.start("ingest")
        scenario.send(one, read, partitions=1)
        one.wait(lambda: one.covered() == len(read), "the first events")
        ingest.send_signal(signal.SIGSTOP)
        for _ in range(2):  # the broker may answer an open fetch with the first ones
            scenario.send(one, deleted, partitions=1)
        _delete(one, one.topic, begin)
        scenario.send(one, later, partitions=1)
        ingest.send_signal(signal.SIGCONT)
        one.wait(lambda: max(delta["last"] for delta in _deltas(one)) == end - 1, "the last event")
        deltas = _deltas(one)
    finally:
        one.close()
    # A delta covers what is between `prev` and `last`. None may cover an event that nobody read.
    covered = {offset for delta in deltas for offset in range(delta["prev"] + 1, delta["last"] + 1)}
    seen = {row[0] for delta in deltas for row in delta["rows"]} | {
        offset for delta in deltas for offset in delta["dlq"]
    }
    assert covered == seen
    assert covered < set(range(end))


def _deltas(one: Site) -> list[Any]:
    return [record for _, record in one.json("delta") if record["t"] == "delta"]


def test_a_sleeping_coordinator_is_fenced_by_its_successor(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """SIGSTOP beyond the session timeout: the standby on another host takes over; the sleeper, awake, seals nothing."""
    top = f'key = "{secrets.token_hex(32)}"\nstore = "{tmp_path}/shared"\n'
    one = scenario.site(broker.bootstrap, name, tmp_path, top=top)
    # A session that a busy host does not miss: only the one that is stopped leaves the group.
    one.config.write_text(one.config.read_text().replace('session_timeout = "3s"', 'session_timeout = "15s"'))
    values = scenario.events()
    try:
        ingest = one.start("ingest")
        sleeper = one.start("coordinator", "a", "stop charged:1")
        one.wait(lambda: "coordinator is active" in one.logs(), "an active coordinator")
        standby = one.start("coordinator", "b")
        one.wait(lambda: "on standby" in one.logs(), "a standby")
        scenario.send(one, values)
        _settle(one, len(values))
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(PATIENCE) != 0
        assert one.stop(ingest, standby) == [0, 0]
    finally:
        one.close()
    assert "another coordinator has taken over" in one.logs() or "is active now" in one.logs()
    assert scenario.disagreements(one, "shared") == []


def test_a_rebalance_storm_and_a_dying_broker_lose_nothing(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Workers come and go, one by kill -9, and the broker is killed and started again, while events arrive."""
    if isinstance(broker, ForeignBroker):
        missing("kafka", "a foreign broker is not ours to kill")
    one = scenario.site(broker.bootstrap, name, tmp_path)
    first, second = scenario.events(cases=20), scenario.events(first=20, cases=20)
    try:
        keepers = [Keeper(one, "ingest"), Keeper(one, "coordinator")]
        scenario.send(one, first)
        # A worker that took over a partition in a rebalance may end with 1, to read from its delta again.
        storm = [Keeper(one, "ingest"), Keeper(one, "ingest")]
        one.wait(lambda: _members(one) == 3, "three workers in the group")
        storm[0].abandon()
        storm[1].stop()
        broker.kill()
        time.sleep(1)
        broker.start()
        scenario.send(one, second)
        keepers.append(Keeper(one, "ingest"))
        _settle(one, len(first) + len(second))
        for keeper in keepers:
            keeper.stop()
        one.stop()
    finally:
        one.close()
    assert scenario.disagreements(one) == []
