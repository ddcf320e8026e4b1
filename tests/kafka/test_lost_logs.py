"""Logs that are not what they were: a source or the delta topic deleted and created again, or cut at its tail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.kafka import surgery
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
ALARM = "nothing is released until `veilstream gap rewind|accept`"


def _site(broker: AnyBroker, name: str, folder: Path) -> Site:
    """Nothing is released but by command: what a release holds is what the fold has then."""
    return Site(broker.bootstrap, name, folder, publication("plain", "{ manual = true }"))


def _send(one: Site, prefix: str, count: int) -> None:
    """One event of each of `count` cases, each a batch of its own on the broker's disk."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=one.bootstrap, acks="all")
    for number in range(count):
        event = {"case:concept:name": f"{prefix}-{number}", "concept:name": "register"}
        value = json.dumps({**event, "time:timestamp": f"2024-01-01T00:{number:02d}:00Z"}).encode()
        producer.send(one.topic, value, partition=0).get(timeout=30)
    producer.close()


def _seen(one: Site) -> int:
    """Events that the coordinator has folded, by its own last word."""
    path = one.output() / "operator" / "status.json"
    return json.loads(path.read_bytes())["publications"]["plain"]["seen"] if path.exists() else -1


def _released(one: Site) -> int:
    """Cases of a release taken now."""
    before = len(one.json("releases"))
    one.command("release", "-c", str(one.config))
    one.wait(lambda: len(one.json("releases")) > before, "a release")
    return int(one.json("releases")[-1][1]["manifest"]["counts"]["cases"])


def _gap(one: Site, action: str) -> None:
    one.command("gap", action, "-c", str(one.config), "-o", str(one.output()))


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_source_that_lost_its_tail_is_a_gap(broker: AnyBroker, name: str, tmp_path: Path, stopped: bool) -> None:
    """An unclean restart of the broker takes five of ten events, and eight new ones get offsets from the fifth on:
    `gap rewind` brings all eight, and nothing is released before."""
    if isinstance(broker, ForeignBroker):
        missing("kafka", "a foreign broker's disk is not ours to cut")
    one = _site(broker, name, tmp_path)
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "old", 10)
        one.wait(lambda: _seen(one) == 10, "ten events")
        if stopped:
            assert one.stop(ingest, coordinator) == [0, 0]
        surgery.lose_tail(broker, one.topic, 5)
        _send(one, "new", 8)
        if stopped:
            ingest, coordinator = one.start("ingest"), one.start("coordinator")
        one.wait(lambda: ALARM in one.logs(), "the alarm", 60)
        one.stop(ingest)
        _gap(one, "rewind")
        one.start("ingest")
        one.wait(lambda: _seen(one) == 18, "ten events and eight")
        assert _released(one) == 18
        one.stop()
    finally:
        one.close()


@pytest.mark.parametrize(
    ("stopped", "action"), [(False, "rewind"), (True, "rewind"), (True, "accept")], ids=["running", "stopped", "accept"]
)
def test_a_source_created_again_is_a_gap(
    broker: AnyBroker, name: str, tmp_path: Path, stopped: bool, action: str
) -> None:
    """A topic of the same name is not the same log: its ten events are not repeats of the ten before."""
    one = _site(broker, name, tmp_path)
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "old", 10)
        one.wait(lambda: _seen(one) == 10, "ten events")
        if stopped:
            assert one.stop(ingest, coordinator) == [0, 0]
        surgery.recreate(one.bootstrap, one.topic)
        _send(one, "new", 10)
        if stopped:
            ingest, coordinator = one.start("ingest"), one.start("coordinator")
        one.wait(lambda: ALARM in one.logs(), "the alarm", 60)
        assert "was deleted and created again" in one.logs()
        if action == "rewind":
            one.stop(ingest)
        _gap(one, action)
        if action == "rewind":
            one.start("ingest")
        one.wait(lambda: _seen(one) == 20, "ten events and ten")
        assert _released(one) == 20
        assert one.json("releases")[-1][1]["manifest"].get("gaps_accepted", 0) == (action == "accept")
        one.stop()
    finally:
        one.close()


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_delta_topic_created_again_is_a_gap(broker: AnyBroker, name: str, tmp_path: Path, stopped: bool) -> None:
    """Deltas that nobody folded are gone: the coordinator ends with 4, and `gap rewind` has the events read again from
    the sources. No cut of the new topic is named as one of the old."""
    one = _site(broker, name, tmp_path)
    delta = f"veilstream.{name}.delta"
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "old", 10)
        one.wait(lambda: _seen(one) == 10, "ten events")
        assert _released(one) == 10
        if stopped:
            assert one.stop(coordinator) == [0]
            _send(one, "lost", 5)
            one.wait(lambda: one.covered() == 15, "deltas that nobody folds")
            assert one.stop(ingest) == [0]
        surgery.recreate(one.bootstrap, delta)
        if stopped:
            ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "new", 5)
        # 1 where the group saw first that the topic was gone, and took the partition away
        code = coordinator.wait(PATIENCE)
        assert code in ((4,) if stopped else (1, 4))
        if code == 1:
            assert one.start("coordinator").wait(PATIENCE) == 4, "it refuses until somebody decides"
        assert "was deleted and created again" in one.logs()
        one.stop(ingest)
        _gap(one, "rewind")
        one.start("ingest"), one.start("coordinator")
        one.wait(lambda: _seen(one) == (20 if stopped else 15), "every event")
        assert _released(one) == (20 if stopped else 15)
        cuts = [entry["cut"] for entry in one.ledger("seal")]
        assert len(set(cuts)) == 2
        one.stop()
    finally:
        one.close()


def test_a_delta_topic_that_lost_its_tail_is_a_gap(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """The broker gives offsets again that the state has folded: what appears there now would be skipped as old. After
    `gap accept` it is folded, under positions that no cut has had, and the manifest says that a gap was accepted."""
    if isinstance(broker, ForeignBroker):
        missing("kafka", "a foreign broker's disk is not ours to cut")
    one = _site(broker, name, tmp_path)
    delta = f"veilstream.{name}.delta"
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "old", 10)
        one.wait(lambda: _seen(one) == 10, "ten events")
        assert _released(one) == 10
        assert one.stop(ingest) == [0]
        assert one.stop(coordinator) == [0]
        surgery.lose_tail(broker, delta, max(offset for _, offset, _ in one.records(delta)) - 1)
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _send(one, "new", 5)
        assert coordinator.wait(PATIENCE) == 4
        assert "the topic lost its records from offset" in one.logs()
        _gap(one, "accept")
        one.start("coordinator")
        one.wait(lambda: _seen(one) == 15, "every event")
        assert _released(one) == 15
        assert len({entry["cut"] for entry in one.ledger("seal")}) == 2
        assert one.json("releases")[-1][1]["manifest"]["gaps_accepted"] == 1
        one.stop()
    finally:
        one.close()
