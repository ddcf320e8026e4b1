"""`publish` in record batches of its own: every event once, where and in what order a keyed producer would put it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from connectors.columns import ColumnNames
from connectors.kafka.producing import BATCH_BYTES, producer, publish_log, source_events
from connectors.kafka.source import Source
from connectors.kafka.topics import admin
from models.errors import InputError
from models.eventlog import EventLog
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.test_security import _source, secure, tables  # noqa: F401 - a fixture

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]

AnyBroker = Broker | ForeignBroker
COLUMNS = {
    "case": ColumnNames().case,
    "activity": ColumnNames().activity,
    "time": ColumnNames().time,
    "resource": ColumnNames().resource,
}


def log(cases: int, length: int = 10, extra: str = "") -> EventLog:
    """Cases whose events interleave."""
    return EventLog.from_traces([([f"{case} {step}{extra}" for step in range(length)], None) for case in range(cases)])


def create(source: Source, *topics: str) -> None:
    from kafka.admin import NewTopic

    with admin(source) as client:
        client.create_topics([NewTopic(topic, 5, 1) for topic in topics], wait_for_metadata=True)


def stored(source: Source, topic: str) -> dict[int, list[tuple[bytes, bytes]]]:
    """Keys and values by partition, in order."""
    from kafka import KafkaConsumer, TopicPartition

    found: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
    consumer = KafkaConsumer(bootstrap_servers=source.servers, enable_auto_commit=False, auto_offset_reset="earliest")
    places = [TopicPartition(topic, number) for number in range(5)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    while any(consumer.position(place) < ends[place] for place in places):
        for place, records in consumer.poll(timeout_ms=200).items():
            found[place.partition] += [(record.key, record.value) for record in records]
    consumer.close(autocommit=False)
    return dict(found)


def test_a_log_is_partitioned_as_by_a_keyed_producer(broker: AnyBroker, name: str) -> None:
    """More than one batch for each partition; the same partitions and the same order as with the other client."""
    source = Source(topics=("x",), bootstrap=broker.bootstrap)
    create(source, f"{name}.ours", f"{name}.keyed")
    events = log(400, extra=" " + "x" * 300)
    sent = publish_log(events, source, f"{name}.ours", COLUMNS)
    with producer(source) as client:
        for _, key, value in source_events(events, COLUMNS):
            client.send(f"{name}.keyed", value, key=key)
        client.flush()
    ours = stored(source, f"{name}.ours")
    assert ours == stored(source, f"{name}.keyed")
    assert sent.events == 4000
    assert sent.partitions == {partition: len(records) for partition, records in ours.items()}
    assert max(sum(len(value) for _, value in records) for records in ours.values()) > BATCH_BYTES


def test_an_event_that_the_broker_refuses_is_one_line(broker: AnyBroker, name: str) -> None:
    """Larger than a record may be: an error of the input that names the settings, not the event."""
    source = Source(topics=("x",), bootstrap=broker.bootstrap)
    create(source, f"{name}.ours")
    with pytest.raises(
        InputError, match=r"^broker .*: refuses a record for its size; raise max\.message\.bytes"
    ) as raised:
        publish_log(log(1, 2, extra="y" * 1_500_000), source, f"{name}.ours", COLUMNS)
    message = str(raised.value)
    assert "yyyy" not in message
    assert "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tls", "scram", "oauthbearer"])
def test_publish_passes_a_secure_listener(secure: Any, name: str, tmp_path: Path, way: str) -> None:  # noqa: F811
    """With the credentials of `source.security`."""
    source = _source(secure, way, tables(secure, tmp_path)[way])
    create(source, f"{name}.ours")
    assert publish_log(log(3), source, f"{name}.ours", COLUMNS).events == 30
