"""Topics as they are in the field: sources whose begin is gone, sources with transactions, a ledger with two owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.source import Source
from models.errors import TakenOverError
from stream.daemon.kafka_ledger import TopicLedger
from tests.entries import entry
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import Site
from tests.kafka.test_faults import _delete

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]


def _transactions(one: Site, aborted: list[bytes | None], committed: list[bytes | None]) -> None:
    """An information system that writes in transactions; each ends in a marker, which takes an offset."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=one.bootstrap, transactional_id=f"{one.name}.system")
    producer.init_transactions()
    for values, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.send(one.topic, value, key=b"k", partition=0)
        producer.flush()
        end()
    producer.close()


def _deltas(one: Site) -> list[dict[str, Any]]:
    return [record for _, record in one.json("delta") if record["t"] == "delta"]


def _idle_behind(one: Site, rows: int) -> bool:
    """Whether the partition is reported idle behind that many events."""
    seen = 0
    for _, record in one.json("delta"):
        seen += len(record.get("rows", ()))
        if record["t"] == "hb" and seen == rows:
            return True
    return False


def test_an_old_topic_is_no_gap_and_an_aborted_event_is_none(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """A topic that lost its begin before the first start is idle and not a gap, whichever role starts first. Events of
    an aborted transaction are in no delta, and a log that ends in a marker is at its end. A later loss is a gap, at
    once and not with the next event."""
    one = scenario.site(broker.bootstrap, name, tmp_path, partitions=1)
    before, aborted = scenario.events(cases=5, prefix="before"), scenario.events(cases=5, prefix="aborted")
    values = scenario.events(cases=10)
    good = len(values) - len(scenario.BAD)
    try:
        scenario.send(one, before, partitions=1)
        _delete(one, one.topic, len(before))
        coordinator = one.start("coordinator")
        one.wait(lambda: "coordinator: state at delta offset" in one.logs(), "an active coordinator")
        ingest = one.start("ingest")
        one.wait(lambda: _idle_behind(one, 0), "a report of an idle partition")
        assert [(delta["prev"], delta["last"], delta["n"]) for delta in _deltas(one)] == [(-1, len(before) - 1, 0)]
        _transactions(one, aborted, values)
        one.wait(lambda: len(one.ledger("published")) == 2, "a release of both publications")
        one.wait(lambda: _idle_behind(one, good), "a report of an idle partition behind the last marker")
        assert sum(len(delta["rows"]) for delta in _deltas(one)) == good
        assert "nothing is released until" not in one.logs()
        assert one.stop(ingest) == [0]
        scenario.send(one, scenario.events(first=10, cases=1), partitions=1)
        _delete(one, one.topic, -1)
        ingest = one.start("ingest")
        one.wait(lambda: "nothing is released until" in one.logs(), "the alarm")
        assert one.stop(ingest, coordinator) == [0, 0]
    finally:
        one.close()


def test_a_ledger_that_was_taken_over_takes_nothing_more(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """Opening the ledger fences the former owner, even if that never noticed: it appends nothing to the ledger and
    sends nothing to another topic.
    """
    one = scenario.site(broker.bootstrap, name, tmp_path)
    source = Source(topics=(one.topic,), bootstrap=one.bootstrap)
    first = TopicLedger(tmp_path / "first.sqlite", name, source)
    try:
        first.append(entry("note", publication="", body={"missing": ["first"]}))
        second = TopicLedger(tmp_path / "second.sqlite", name, source)
        try:
            for attempt in (
                lambda: first.append(entry("note", publication="", body={"missing": ["the sleeper"]})),
                lambda: first.send([(f"veilstream.{name}.releases", None, b"{}")]),
            ):
                with pytest.raises(TakenOverError, match="another coordinator has taken over"):
                    attempt()
            second.append(entry("note", publication="", body={"missing": ["second"]}))
        finally:
            second.close()
    finally:
        first.close()
    assert [entry["body"]["missing"][0] for entry in one.ledger()] == ["first", "second"]
    assert one.json("releases") == []
