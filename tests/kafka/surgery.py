"""Damage to topics by operators, retention and crashes: created again, a tail cut off, garbage appended."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.kafka.broker import Broker
from tests.patience import patient_time

HEAD = struct.Struct(">qi")
"""Base offset and length of a record batch; what follows has that length."""


def recreate(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it again under its name, with the configuration that it had."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        configs = {
            key: str(item["value"])
            for by_name in found.values()
            for items in by_name.values()
            for key, item in items.items()
            if key
            in ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type", "compression.type")
        }
        _delete(admin, topic)
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)], wait_for_metadata=True)
    finally:
        admin.close()


def delete(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        _delete(admin, topic)
    finally:
        admin.close()


def _delete(admin, topic: str) -> None:  # type: ignore[no-untyped-def]  # the client has no types
    admin.delete_topics([topic])
    deadline = patient_time() + 60
    while topic in admin.list_topics():
        assert patient_time() < deadline, f"{topic} is not deleted"
        time.sleep(0.1)


def lose_tail(broker: Broker, topic: str, keep: int) -> None:
    """Kill the broker (kill -9) and cut partition 0 behind offset `keep`, as if this part was not on its disk yet.

    The broker gives these offsets again.
    """
    broker.kill()
    (segment,) = sorted((broker.folder / "data" / f"{topic}-0").glob("*.log"))
    _cut(segment, keep)
    broker.start()


def _cut(segment: Path, keep: int) -> None:
    data, place = segment.read_bytes(), 0
    while place < len(data):
        base, length = HEAD.unpack_from(data, place)
        if base >= keep:
            break
        place += HEAD.size + length
    assert 0 < place < len(data), "nothing to cut"
    with segment.open("r+b") as file:
        file.truncate(place)


def compress(bootstrap: str, topics: Sequence[str], codec: str) -> None:
    """Let the broker store every batch of some topics in a codec, regardless of who writes it."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        changes = {"compression.type": codec}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(changes)) for topic in topics])
    finally:
        admin.close()


def batches(broker: Broker, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Return (base offset, bytes) of every record batch of a partition, as the broker's disk has them."""
    found = []
    for segment in sorted((broker.folder / "data" / f"{topic}-{partition}").glob("*.log")):
        data, place = segment.read_bytes(), 0
        while place + HEAD.size <= len(data):
            base, length = HEAD.unpack_from(data, place)
            if length <= 0:  # what the broker has reserved and not written
                break
            found.append((base, data[place : place + HEAD.size + length]))
            place += HEAD.size + length
    return found


@contextmanager
def damaged_batch(broker: Broker, topic: str, partition: int, offset: int) -> Iterator[None]:
    """Change one byte of the batch that begins at `offset`, as a failing disk does; it is whole again at the end. The
    broker sends what its disk has and looks at no checksum."""
    (segment,) = sorted((broker.folder / "data" / f"{topic}-{partition}").glob("*.log"))
    data, place = segment.read_bytes(), 0
    base, length = HEAD.unpack_from(data, place)
    while base != offset:
        place += HEAD.size + length
        base, length = HEAD.unpack_from(data, place)
    last = place + HEAD.size + length - 1
    with segment.open("r+b") as file:
        _put(file, last, data[last] ^ 0xFF)
        try:
            yield
        finally:
            _put(file, last, data[last])


def _put(file: IO[bytes], place: int, value: int) -> None:
    file.seek(place)
    file.write(bytes([value]))
    file.flush()


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Delete records of partition 0, as kafka-delete-records does."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.delete_records({TopicPartition(topic, 0): before})
    finally:
        admin.close()
