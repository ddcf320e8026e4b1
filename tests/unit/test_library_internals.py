"""Inner names of libraries that the program uses exist in the installed versions.

docs/dependencies.md lists them. When a newer version removes or renames one, the test names the library, the inner name
and the file of ours that has to change.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.conftest import ROOT

FAUST_CONSUMER = "stream/daemon/faust_consumer.py"
BATCH_CONSUMER = "stream/daemon/batch_consumer.py"
FAUST_APP = "stream/daemon/faust_app.py"
LINEAGE = "connectors/kafka/lineage.py"
TOPICS = "connectors/kafka/topics.py"
CODECS = ("gzip", "snappy", "lz4", "zstd")

DRIVER = "faust.transport.drivers.aiokafka"

# (module, dotted name inside it, our file that uses it)
NAMES = [
    (DRIVER, "AIOKafkaConsumerThread._create_consumer", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread._ensure_consumer", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread._fetch_records", BATCH_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread.call_thread", FAUST_CONSUMER),
    (DRIVER, "Consumer._add_gap", FAUST_CONSUMER),
    (DRIVER, "Consumer._filter_tps_with_pending_acks", FAUST_CONSUMER),
    (DRIVER, "Consumer._new_offset", FAUST_CONSUMER),
    (DRIVER, "Consumer._new_consumer_thread", FAUST_CONSUMER),
    (DRIVER, "Consumer._wait_next_records", BATCH_CONSUMER),
    (DRIVER, "Consumer.verify_event_path", FAUST_CONSUMER),
    (DRIVER, "Consumer.perform_seek", BATCH_CONSUMER),
    (DRIVER, "Consumer.getmany", BATCH_CONSUMER),
    (DRIVER, "Consumer.on_buffer_full", BATCH_CONSUMER),
    (DRIVER, "Consumer.on_buffer_drop", BATCH_CONSUMER),
    ("faust", "App._new_transport", FAUST_CONSUMER),
    ("faust", "Worker._schedule_shutdown", FAUST_APP),
    ("faust", "Worker._on_sigusr1", FAUST_APP),
    ("faust", "Worker._on_sigusr2", FAUST_APP),
    ("faust", "Worker._setup_logging", FAUST_APP),
    ("faust", "Worker._setproctitle", FAUST_APP),
    ("aiokafka.consumer.fetcher", "MemoryRecords", FAUST_CONSUMER),
    ("aiokafka.consumer.fetcher", "PartitionRecords._consumer_record", FAUST_CONSUMER),
    ("aiokafka.consumer.fetcher", "PartitionRecords.__next__", FAUST_CONSUMER),
    *((f"{client}.codec", f"has_{codec}", TOPICS) for client in ("aiokafka", "kafka") for codec in CODECS),
    ("kafka.protocol.metadata", "MetadataRequest.MetadataRequestTopic", LINEAGE),
    ("kafka.protocol.consumer.offsets", "OffsetForLeaderEpochRequest.OffsetForLeaderTopic", LINEAGE),
    ("kafka.net.sasl.oauth", "AbstractTokenProvider", "connectors/kafka/security.py"),
    ("numba.core.runtime.nrt", "rtsys.initialize", "models/compiled.py"),
    ("numba.core.dispatcher", "Dispatcher.get_call_template", "models/compiled.py"),
    ("numba.core.caching", "FunctionCache._load_overload", "models/compiled.py"),
    ("numba.core.caching", "FunctionCache._guard_against_spurious_io_errors", "models/compiled.py"),
    ("numba.core.caching", "FunctionCache.cache_path", "models/compiled.py"),
    ("ot.lp.emd_wrap", "emd_c_sparse", "models/utility/transport.py"),
]

# (module, class, attribute that its instances have, our file that uses it)
ATTRIBUTES = [
    (DRIVER, "Consumer", "_unacked_messages", FAUST_CONSUMER),
    (DRIVER, "Consumer", "_read_offset", BATCH_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread", "_consumer", FAUST_CONSUMER),
    ("faust", "Worker", "_signal_stop_time", FAUST_APP),
    ("faust", "Worker", "crash_reason", FAUST_APP),
    ("aiokafka", "AIOKafkaConsumer", "_isolation_level", FAUST_CONSUMER),
    ("aiokafka.consumer.fetcher", "PartitionRecords", "next_fetch_offset", FAUST_CONSUMER),
    ("aiokafka.consumer.fetcher", "PartitionRecords", "_tp", FAUST_CONSUMER),
    ("kafka.admin", "KafkaAdminClient", "_manager", LINEAGE),
    ("prometheus_client", "Gauge", "_labelnames", "stream/run/exporter.py"),
]

BOUNDED = ["faust-streaming", "mode-streaming", "aiokafka", "kafka-python", "numba", "POT"]


def sources_of(kind: type[Any]) -> Iterator[str]:
    """The source of a class and of those it is made from."""
    for base in kind.__mro__:
        if base is not object:
            try:
                yield inspect.getsource(base)
            except (OSError, TypeError):  # compiled: nothing to read
                continue


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "name", "file"), NAMES)
def test_an_inner_name_exists(module: str, name: str, file: str) -> None:
    place: Any = import_module(module)
    for part in name.split("."):
        assert hasattr(place, part), f"{module} has no {name} any more: {file} uses it"
        place = getattr(place, part)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "kind", "attribute", "file"), ATTRIBUTES)
def test_instances_have_the_attribute(module: str, kind: str, attribute: str, file: str) -> None:
    sources = "\n".join(sources_of(getattr(import_module(module), kind)))
    assert re.search(rf"\b{attribute}\b", sources), f"{module}.{kind} has no {attribute} any more: {file} uses it"


@pytest.mark.parametrize("library", BOUNDED)
def test_a_library_with_used_inner_names_has_an_upper_bound(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = [line for line in project["dependencies"] if re.split(r"[<>=\[]", line)[0] == library]
    assert "<" in line, f"{library} needs an upper bound: its inner names are used (docs/dependencies.md)"


def test_our_files_exist() -> None:
    """A file that moves takes its rows along."""
    files = {row[-1] for row in [*NAMES, *ATTRIBUTES]}
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []
