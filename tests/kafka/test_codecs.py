"""Compressed record batches, as producers and brokers of others write them: on every topic, in every codec."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka import scenario, surgery
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, Site, publication
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Codec -> its number in the attributes of a record batch (https://kafka.apache.org/documentation/#recordbatch)."""

ATTRIBUTES = struct.Struct(">qiibIh")
"""Base offset, length, leader epoch, magic, CRC, attributes."""

CODEC_BITS, CONTROL_BIT = 0b111, 0b100000


def _site(broker: AnyBroker, name: str, folder: Path, partitions: int = 1, **more: str) -> Site:
    return Site(
        broker.bootstrap,
        name,
        folder,
        publication("plain", "{ manual = true }", IDENTITY),
        partitions=partitions,
        **more,
    )


def _produce(one: Site, values: Sequence[bytes | None], codec: str, partition: int = 0) -> None:
    """As an outside system writes: librdkafka, one compressed batch."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": one.bootstrap, "compression.type": codec, "linger.ms": 500})
    for value in values:
        producer.produce(one.topic, value, key=b"k", partition=partition)
    assert producer.flush(60) == 0


def _codecs(broker: Broker, topic: str) -> set[int]:
    """Codec numbers of the batches on the broker's disk, without those that only end a transaction."""
    found = set()
    for _, batch in surgery.batches(broker, topic, 0):
        attributes = ATTRIBUTES.unpack_from(batch)[-1]
        if not attributes & CONTROL_BIT:
            found.add(attributes & CODEC_BITS)
    return found


@pytest.fixture(autouse=True)
def no_other_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests choose their codecs, also where `make codecs` chooses one for all others."""
    monkeypatch.delenv("TEST_CODEC", raising=False)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_every_topic_may_be_compressed(broker: AnyBroker, name: str, tmp_path: Path, codec: str) -> None:
    """Source, delta with its commands, ledger, releases, released events and dead letters: a release leaves, and after
    the loss of ledger copy and checkpoints the coordinator reads both from their topics."""
    one = _site(broker, name, tmp_path)
    surgery.compress(one.bootstrap, one.own_topics, codec)
    values = scenario.events(cases=20)
    good = len(values) - len(scenario.BAD)
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _produce(one, values, codec)
        one.wait(lambda: one.covered() == len(values), "every event in the delta topic")
        one.command("release", "-c", str(one.config))
        one.wait(lambda: len(one.json("releases")) == 1, "a release")
        assert one.stop(coordinator) == [0]
        operator = one.output() / "operator"
        (operator / "ledger.sqlite").unlink()
        shutil.rmtree(operator / "checkpoints")
        one.start("coordinator")
        one.command("release", "-c", str(one.config))
        one.wait(lambda: len(one.json("releases")) == 2, "a release from what the topics hold")
        rows = sum(len(record.get("rows", ())) for _, record in one.json("released-events"))
        assert rows == 2 * good
        assert len(one.json("dlq")) == len(scenario.BAD)
        assert ingest.poll() is None
        assert one.stop() == [0, 0]
    finally:
        one.close()
    if isinstance(broker, Broker):
        for topic in (one.topic, *one.own_topics):
            assert _codecs(broker, topic) == {CODECS[codec]}, topic


@pytest.fixture
def damaged(broker: AnyBroker) -> Broker:
    """A broker whose disk the test may change."""
    if not isinstance(broker, Broker):
        pytest.skip("the disk of a foreign broker is not here")
    return broker


def test_a_batch_that_cannot_be_decoded_stops_its_partition_alone(damaged: Broker, name: str, tmp_path: Path) -> None:
    """Partition 1 has a damaged batch: what comes before it is taken, the other partition continues, the worker stays
    up and says where it is at /readyz, in `status` and as a metric. Once the batch is whole again nothing is lost."""
    health, metrics = free_ports(2)
    top = f"health_port = {health}\n[metrics]\nport = {metrics}"
    one = _site(damaged, name, tmp_path, partitions=2, top=top)
    before, broken, after = (scenario.events(first=first, cases=6)[:11] for first in (0, 20, 40))
    try:
        for values in (before, broken, after):
            _produce(one, values, "zstd", partition=1)
        with surgery.damaged_batch(damaged, one.topic, 1, offset=len(before)):
            coordinator = one.start("coordinator", VEILSTREAM_HEALTH_PORT="0", VEILSTREAM_METRICS__PORT="0")
            ingest = one.start("ingest")
            one.wait(lambda: _ready(health) == 503, "a worker that is not ready")
            _produce(one, scenario.events(first=60, cases=6)[:11], "lz4", partition=0)
            one.wait(lambda: one.covered() == len(before) + 11, "the first batch and the other partition")
            assert ingest.poll() is None
            place = f"{one.topic}/1 at offset {len(before)}"
            assert json.loads(_body(health))["unreadable"] == [place]
            one.wait(lambda: _status_names(one, place), "a status of both")
            assert f'veilstream_unreadable_partitions{{process="{name}"}} 1.0' in _page(metrics)
            assert one.logs().count(f"{one.topic}/1: the record batch at offset {len(before)} cannot be decoded") == 1
        one.wait(lambda: one.covered() == 44, "every event, once the batch is whole")
        one.wait(lambda: _ready(health) == 200, "a ready worker")
        assert f'veilstream_unreadable_partitions{{process="{name}"}} 0.0' in _page(metrics)
        one.wait(lambda: _status(one).returncode == 0, "a status without a fault")
        assert one.stop(ingest, coordinator) == [0, 0]
    finally:
        one.close()


def test_what_was_deleted_behind_a_stopped_partition_is_a_gap(damaged: Broker, name: str, tmp_path: Path) -> None:
    """Removing the damaged batch from the log loses its events: the fold must see the gap, and releases stop."""
    (health,) = free_ports(1)
    one = _site(damaged, name, tmp_path, top=f"health_port = {health}")
    values = scenario.events(cases=6)[:11]
    try:
        _produce(one, values, "zstd")
        _produce(one, values, "zstd")
        with surgery.damaged_batch(damaged, one.topic, 0, offset=len(values)):
            one.start("ingest")
            one.wait(lambda: _ready(health) == 503, "a worker that is not ready")
            surgery.delete_records(damaged.bootstrap, one.topic, before=2 * len(values))
            _produce(one, values, "zstd")
            one.wait(lambda: one.covered() == 2 * len(values), "the events behind the deleted ones")
        deltas = [record for _, record in one.json("delta") if record["t"] == "delta"]
        assert (22 - 1, 22 - 1, 0) in {(delta["prev"], delta["last"], delta["n"]) for delta in deltas}
    finally:
        one.close()


def test_a_delta_that_cannot_be_decoded_stops_the_coordinator_in_place(
    damaged: Broker, name: str, tmp_path: Path
) -> None:
    """It stays up, is not ready, and `status` names topic and offset; it continues when the batch is whole again."""
    (health,) = free_ports(1)
    one = _site(damaged, name, tmp_path)
    delta = f"veilstream.{name}.delta"
    values = scenario.events(cases=6)[:11]
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _produce(one, values, "zstd")
        one.wait(lambda: _status(one).returncode == 0, "an active coordinator")
        assert one.stop(coordinator) == [0]
        first = one.json("delta")[-1][0] + 1  # nobody has read what comes now
        _produce(one, values, "zstd")
        one.wait(lambda: one.covered() == 22, "more deltas")
        assert one.stop(ingest) == [0]
        offset = next(base for base, _ in surgery.batches(damaged, delta, 0) if base >= first)
        with surgery.damaged_batch(damaged, delta, 0, offset):
            coordinator = one.start("coordinator", VEILSTREAM_HEALTH_PORT=str(health))
            one.wait(lambda: _ready(health) == 503 and "unreadable" in _body(health), "a coordinator that reports it")
            one.wait(lambda: "cannot be decoded" in _status(one).stdout, "a status that reports it")
            shown = _status(one)
            assert shown.returncode == 4
            assert f"{delta}/0 at offset {offset}: cannot be decoded" in shown.stdout
            assert coordinator.poll() is None
        one.wait(lambda: _ready(health) == 200, "an active coordinator again")
        one.command("release", "-c", str(one.config))
        one.wait(lambda: len(one.json("releases")) == 1, "a release")
        one.stop()
    finally:
        one.close()


@pytest.mark.parametrize("kind", ["delta", "ledger"])
def test_a_start_from_a_topic_that_cannot_be_decoded_is_refused(
    damaged: Broker, name: str, tmp_path: Path, kind: str
) -> None:
    """A coordinator that must read the topic from its begin ends with 4, one line, and is not started again."""
    one = _site(damaged, name, tmp_path)
    topic = f"veilstream.{name}.{kind}"
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        _produce(one, scenario.events(cases=6)[:11], "zstd")
        one.wait(lambda: one.covered() == 11, "the events")
        one.wait(lambda: bool(one.ledger()), "a ledger")
        assert one.stop(ingest, coordinator) == [0, 0]
        (first, _), *_ = surgery.batches(damaged, topic, 0)
        with surgery.damaged_batch(damaged, topic, 0, offset=first):
            run = ("run", "--role", "coordinator", "-c", str(one.config), "-o", str(one.output("bare")))
            error = one.command(*run, expect=4)
        assert f"{topic}: the record batch at offset {first} cannot be decoded" in error
        assert "Traceback" not in error
    finally:
        one.close()


def test_topics_are_created_with_their_compression_and_checked_for_it(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """The default of the broker does not matter. `topics check` names a codec that this installation cannot decode, and
    no other.
    """
    one = _site(broker, name, tmp_path)
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    try:
        delta = ConfigResource(ConfigResourceType.TOPIC, f"veilstream.{name}.delta")
        (by_name,) = admin.describe_configs([delta], config_filter="all").values()
        (settings,) = by_name.values()
    finally:
        admin.close()
    assert settings["compression.type"]["value"] == "producer"
    assert "TOPIC" in str(settings["compression.type"]["config_source"]).upper()  # set for it, and no default
    surgery.compress(one.bootstrap, one.own_topics, "zstd")
    one.command("topics", "check", "-c", str(one.config))
    without = "import sys; sys.modules['cramjam'] = None; from stream.commands import main; sys.exit(main())"
    arguments = ("topics", "check", "-c", str(one.config))
    shown = subprocess.run([sys.executable, "-c", without, *arguments], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert f"topic veilstream.{name}.delta: compression.type = zstd, which this installation cannot decode" in " ".join(
        shown.stdout.split()
    )


def _status(one: Site) -> subprocess.CompletedProcess[str]:
    return one.outcome("status", "--json", "-o", str(one.output()))


def _status_names(one: Site, place: str) -> bool:
    """Return whether `status` ends with 4 and names a place."""
    shown = _status(one)
    return shown.returncode == 4 and place in shown.stdout


def _answer(port: int, path: str) -> Iterator[int | str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            yield answer.status
            yield answer.read().decode()
    except HTTPError as error:
        yield error.code
        yield error.read().decode()
    except OSError:
        yield 0
        yield ""


def _ready(port: int) -> int | str:
    return next(_answer(port, "/readyz"))


def _body(port: int) -> str:
    return str(list(_answer(port, "/readyz"))[1])


def _page(port: int) -> str:
    return str(list(_answer(port, "/metrics"))[1])
