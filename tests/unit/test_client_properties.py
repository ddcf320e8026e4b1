"""`[source.client]`: which properties a client accepts, and which the daemon decides."""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, KafkaProducer
from pydantic import ValidationError

from connectors.kafka.client_properties import DECIDED, ClientProperties
from connectors.kafka.source import Source
from models.errors import InputError
from stream.config import sources
from stream.daemon import faust_app
from stream.daemon.aiokafka_records import configure_reader
from stream.daemon.faust_consumer import FetchTransport, SeekingTransport

PROPERTIES: dict[str, Any] = {
    "client_rack": "zone-a",
    "fetch_min_bytes": 2,
    "fetch_max_wait_ms": 700,
    "fetch_max_bytes": 3_000_000,
    "max_partition_fetch_bytes": 2_000_000,
}


def test_every_property_is_one_of_the_client_library() -> None:
    """A property that the client does not know would be set without an effect."""
    accepted = inspect.signature(AIOKafkaConsumer.__init__).parameters
    assert set(ClientProperties.model_fields) <= accepted.keys()
    assert set(DECIDED) <= accepted.keys() | KafkaConsumer.DEFAULT_CONFIG.keys() | KafkaProducer.DEFAULT_CONFIG.keys()
    assert not set(DECIDED) & set(ClientProperties.model_fields)


@pytest.mark.parametrize(
    "text",
    [
        'client_rack = "a"\nfetch_min_bytes = 5',
        'client.rack = "a"\nfetch.min.bytes = 5',
        '"client.rack" = "a"\n"fetch.min.bytes" = 5',
    ],
)
def test_names_may_have_dots_or_underscores(text: str) -> None:
    """As in Kafka's documentation, quoted or as TOML reads them, and as in the environment."""
    assert ClientProperties.model_validate(tomllib.loads(text)).reading() == {"client_rack": "a", "fetch_min_bytes": 5}


@pytest.mark.parametrize(("name", "reason"), DECIDED.items())
def test_what_the_daemon_decides_is_refused_with_the_reason(name: str, reason: str) -> None:
    """Isolation, commits and the like carry the guarantees."""
    for spelled in (name, name.replace("_", ".")):
        with pytest.raises(ValidationError) as error:
            ClientProperties.model_validate({spelled: "x"})
        assert f"{name} cannot be changed: {reason}" in str(error.value)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"fetch.minimum.bytes": 1}, "fetch_minimum_bytes: no property that can be set here; use client_rack, "),
        ({"fetch.min.bytes": 1, "fetch_min_bytes": 1}, "fetch_min_bytes is set twice"),
        ({"fetch.min.bytes": 0}, "greater than or equal to 1"),
        ({"fetch.max.wait.ms": 60_000}, "less than or equal to 30000"),
        ({"fetch.max.bytes": "many"}, "valid integer"),
        ({"group.instance.id": ""}, "1 to 249 letters"),
        ({"group.instance.id": ".."}, "1 to 249 letters"),
        ({"group.instance.id": "a b"}, "1 to 249 letters"),
    ],
)
def test_what_is_not_a_property_or_a_value_is_refused(body: dict[str, Any], line: str) -> None:
    """The message names what can be set."""
    with pytest.raises(ValidationError, match=line):
        ClientProperties.model_validate(body)


def test_the_error_of_a_file_names_key_and_file(tmp_path: Any) -> None:
    """One line, as for every key."""
    path = tmp_path / "c.toml"
    path.write_text('[source]\ntopics = ["t"]\n[source.client]\nenable.auto.commit = true\n')
    with pytest.raises(InputError, match=r"c\.toml: source\.client: enable_auto_commit cannot be changed: ") as error:
        sources.load(path)
    assert "\n" not in str(error.value)


def test_an_ingest_worker_is_named_by_the_environment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker has another name, and all share the file."""
    path = tmp_path / "c.toml"
    path.write_text('[source]\ntopics = ["t"]\n[source.client]\nclient.rack = "a"\n')
    monkeypatch.setenv("VEILSTREAM_SOURCE__CLIENT__GROUP_INSTANCE_ID", "worker-3")
    source = sources.load(path).source
    assert source is not None
    assert (source.client.group_instance_id, source.client.client_rack) == ("worker-3", "a")


def test_a_client_reads_the_properties_when_it_starts() -> None:
    """A property that is not set keeps the client's default; the isolation level is always the daemon's."""
    source = Source.model_validate({"topics": ["t"], "client": PROPERTIES})

    async def attributes(properties: dict[str, Any]) -> dict[str, Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers="localhost:1")
        configure_reader(consumer, properties)
        values = {name: getattr(consumer, f"_{name}") for name in (*PROPERTIES, "isolation_level")}
        await consumer.stop()
        return values

    expected = {**PROPERTIES, "isolation_level": "read_committed"}
    assert asyncio.run(attributes(source.client.reading())) == expected
    defaults = inspect.signature(AIOKafkaConsumer.__init__).parameters
    untouched = {name: defaults[name].default for name in PROPERTIES}
    assert asyncio.run(attributes({})) == {**untouched, "isolation_level": "read_committed"}


@pytest.mark.parametrize("transport", [SeekingTransport, FetchTransport])
def test_the_transport_of_each_role_passes_the_properties(
    transport: type[Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only a name that the role asks for makes a static member."""
    options: dict[str, Any] = {}

    def app(_name: str, **more: Any) -> Any:
        options.update(more)
        return SimpleNamespace(conf=SimpleNamespace(broker_consumer=[]), loop=None)

    monkeypatch.setattr(faust_app, "App", app)
    monkeypatch.setattr(transport, "__init__", lambda self, *_: None)
    source = Source.model_validate({"topics": ["t"], "client": {**PROPERTIES, "group_instance_id": "worker-3"}})
    made = faust_app.application("p", "coordinator", source, tmp_path / "faust", transport)
    assert made.transport.reading == PROPERTIES
    assert "consumer_group_instance_id" not in options
