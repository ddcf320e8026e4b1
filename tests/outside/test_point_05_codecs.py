"""Another system writes compressed batches, and a topic of the process is set to compress."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.site import Site
from tests.outside.brokers import broker, events, releases_every_five_cases, set_topic

__all__ = ["broker"]

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]


def _produce(site: Site, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": site.bootstrap, "compression.type": codec, "linger.ms": 500})
    for event in events(5):
        producer.produce(site.topic, event, partition=0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_events_in_compressed_batches_are_released(broker: Broker, tmp_path: Path, codec: str) -> None:
    site = releases_every_five_cases(broker.bootstrap, tmp_path)
    try:
        worker = site.start("ingest")
        site.start("coordinator")
        _produce(site, codec)
        site.wait(lambda: worker.poll() is not None or bool(site.json("releases")), "an end or a release")
        assert worker.poll() is None, f"the ingest worker ended with {worker.poll()}: {site.logs()[-3000:]}"
        assert len(site.json("releases")) == 1
    finally:
        site.close()


def test_a_delta_topic_that_compresses_with_zstd_is_read(broker: Broker, tmp_path: Path) -> None:
    """`topics check` reports no problem, so the coordinator must be able to read the topic."""
    site = releases_every_five_cases(broker.bootstrap, tmp_path)
    set_topic(site.bootstrap, f"veilstream.{site.name}.delta", "compression.type", "zstd")
    try:
        site.command("topics", "check", "-c", str(site.config))
        site.start("ingest")
        coordinator = site.start("coordinator")
        _produce(site, "none")
        site.wait(lambda: coordinator.poll() is not None or bool(site.json("releases")), "an end or a release")
        assert coordinator.poll() is None, f"the coordinator ended with {coordinator.poll()}: {site.logs()[-3000:]}"
        assert len(site.json("releases")) == 1
    finally:
        site.close()
