"""veilstream's own topics when they, or the copies of them, are not as they were left: ledger, announcements, dlq."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from connectors.kafka.source import Source
from models.dp.budget import Charge
from models.errors import RefusedError
from stream.daemon.kafka_ledger import TopicLedger
from stream.ledger.entries import Entry, charge_entry
from tests.entries import entry
from tests.kafka import scenario, surgery
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
MEGABYTE = 1_048_588


def _ledger(one: Site, name: str) -> TopicLedger:
    return TopicLedger(one.folder / "ledger.sqlite", name, Source(topics=(one.topic,), bootstrap=one.bootstrap))


def _filled(one: Site, name: str) -> list[Entry]:
    """A ledger with three charges and a seal; its entries."""
    ledger = _ledger(one, name)
    try:
        for number in range(3):
            ledger.append(charge_entry("noisy", f"noisy/{number}/0/0", Charge(Fraction(1, 2))))
        ledger.append(entry("seal", publication="noisy", cut="noisy/0/0/0", sequence=1, owner="one"))
        ledger.append(entry("seal", publication="noisy", cut="noisy/1/0/0", sequence=1, owner="loser"))
        return list(ledger.entries())
    finally:
        ledger.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM entries WHERE key LIKE 'charge/%'",
        "DELETE FROM entries",
        "UPDATE entries SET body = replace(body, '1/2', '1/9') WHERE key LIKE 'charge/%'",
        "UPDATE entries SET body = 'garbage' WHERE key LIKE 'charge/%'",
        "INSERT INTO entries(key, publication, body) "
        'VALUES(\'charge/x\', \'noisy\', \'{"kind":"note","publication":""}\')',
    ],
    ids=["charges missing", "all missing", "charges less", "garbage", "one more"],
)
def test_a_copy_of_the_ledger_that_differs_is_rebuilt_aloud(
    broker: AnyBroker, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """The topic is the truth: what was spent stays spent, whatever happened to the local file."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    before = _filled(one, name)
    assert len(before) == 4
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute(damage)
    db.close()
    with caplog.at_level(logging.ERROR, "veilstream"):
        for _ in range(2):
            ledger = _ledger(one, name)
            assert list(ledger.entries()) == before
            assert ledger.view.account("noisy").spending.summed == Charge(Fraction(3, 2))
            ledger.close()
    messages = [record.getMessage() for record in caplog.records if record.name == "veilstream"]
    assert [line.count("it is rebuilt from the topic") for line in messages] == [1], messages


@pytest.mark.parametrize("garbage", [b"garbage", None, b'{"kind":"later","publication":"noisy"}', b"\xff"])
def test_a_record_that_is_no_entry_is_named(
    broker: AnyBroker, name: str, tmp_path: Path, garbage: bytes | None
) -> None:
    """The topic and the offset, before anything is taken for spent or not spent; also where it comes while the ledger
    is open."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    _filled(one, name)
    end = max(offset for offset, _ in one.json("ledger")) + 2  # a marker ends each transaction
    line = rf"veilstream\.{name}\.ledger: the record at offset {end} is not a ledger entry"
    ledger = _ledger(one, name)
    try:
        _append(one, f"veilstream.{name}.ledger", garbage)
        with pytest.raises(RefusedError, match=line):
            ledger.append(entry("note", publication="noisy"))
    finally:
        ledger.close()
    with pytest.raises(RefusedError, match=line):
        _ledger(one, name)


def test_garbage_in_the_ledger_topic_ends_the_coordinator_with_4(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A service manager must not start it again and again."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    _append(one, f"veilstream.{name}.ledger", b"garbage")
    try:
        assert one.start("coordinator").wait(PATIENCE) == 4
        assert f"stops: veilstream.{name}.ledger: the record at offset 0 is not a ledger entry" in one.logs()
    finally:
        one.close()


def _append(one: Site, topic: str, value: bytes | None) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=one.bootstrap)
    producer.send(topic, value, key=b"k", partition=0).get(timeout=20)
    producer.close()


def test_a_failed_announcement_stops_no_release(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A release of some megabytes comes in frames that a broker takes. If it accepts none, the manifest is announced
    with a mark, the log reports it, and the next release comes."""
    one = Site(
        broker.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ manual = true }", IDENTITY),
    )
    events = f"veilstream.{name}.released-events"
    try:
        one.start("ingest"), one.start("coordinator")
        one.send([_large(case) for case in range(400)], 0)
        one.wait(lambda: one.covered() == 400, "the events")
        _release(one, 1)
        one.wait(lambda: _rows(one) == {1: 400}, "its events")  # each topic has its own marker of the transaction
        sizes = [len(value or b"") for _, _, value in one.records(events)]
        assert sum(sizes) > 1.5 * MEGABYTE
        assert max(sizes) < MEGABYTE
        _limit(one, events, 2000)
        _release(one, 2)
        _limit(one, events, MEGABYTE)
        _release(one, 3)
        one.wait(lambda: _rows(one) == {1: 400, 3: 400}, "the events of the third")
        assert [record.get("events") for _, record in one.json("releases")] == [None, "not_streamed", None]
        assert "release 2 of plain is sealed and in the store; its events could not be streamed" in one.logs()
        assert one.stop() == [0, 0]
    finally:
        one.close()


def _large(case: int) -> bytes:
    """An event of four kilobytes that leaves as it is."""
    event = {"case:concept:name": f"c-{case}", "concept:name": f"{case:04d}" * 1000}
    return json.dumps(event | {"time:timestamp": "2024-01-01T00:00:00Z"}).encode()


def _release(one: Site, number: int) -> None:
    one.command("release", "-c", str(one.config))
    one.wait(lambda: len(one.json("releases")) == number, f"the announcement of release {number}")


def _rows(one: Site) -> dict[int, int]:
    """Rows of each release on `released-events`, as a consumer takes them: what is before a begin is forgotten.

    After a record that the broker refused, frames of the attempt before may come again.
    """
    found: dict[int, int] = {}
    for _, record in one.json("released-events"):
        before = 0 if record["t"] == "begin" else found.get(record["sequence"], 0)
        found[record["sequence"]] = before + len(record.get("rows", ()))
    return found


def _limit(one: Site, topic: str, size: int) -> None:
    """Return the largest record that a broker accepts in a topic."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(size)})])
    admin.close()


def test_without_its_dlq_a_worker_ends_and_says_which_topic(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A bad record that cannot be put anywhere is not acknowledged: the worker ends, its next start ends with 2 and
    names the topic, and after `topics create` everything is there."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    good = scenario.events(cases=5)
    try:
        ingest = one.start("ingest")
        scenario.send(one, good)
        one.wait(lambda: one.covered() == len(good), "the first events")
        surgery.delete(one.bootstrap, f"veilstream.{name}.dlq")
        one.send([b"{", *scenario.events(first=10, cases=5)], 0)
        assert ingest.wait(PATIENCE) in (1, 2)  # 1 where its client does not stop in time
        line = f"topic veilstream.{name}.dlq: missing; run `veilstream topics create`"
        assert line in one.logs()
        run = ("run", "--role", "ingest", "-c", str(one.config), "-o", str(one.output()))
        assert line in one.command(*run, expect=2)
        one.command("topics", "create", "-c", str(one.config))
        one.start("ingest")
        one.wait(lambda: one.covered() == 2 * len(good) + 1, "all events")
        bad = 1 + len(scenario.BAD)  # of the second batch; a letter may come again
        one.wait(lambda: len({record["offset"] for _, record in one.json("dlq")}) == bad, "all letters")
        one.stop()
    finally:
        one.close()
