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
AIOKAFKA_RECORDS = "stream/daemon/aiokafka_records.py"
LINEAGE = "connectors/kafka/lineage.py"

DRIVER = "faust.transport.drivers.aiokafka"

# (module, dotted name inside it, our file that uses it)
NAMES = [
    (DRIVER, "AIOKafkaConsumerThread._create_consumer", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread._ensure_consumer", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread._fetch_records", FAUST_CONSUMER),
    (DRIVER, "Consumer._add_gap", FAUST_CONSUMER),
    (DRIVER, "Consumer._new_consumer_thread", FAUST_CONSUMER),
    (DRIVER, "Consumer._wait_next_records", FAUST_CONSUMER),
    ("aiokafka.consumer.fetcher", "MemoryRecords", AIOKAFKA_RECORDS),
    ("aiokafka.consumer.fetcher", "PartitionRecords._consumer_record", AIOKAFKA_RECORDS),
    ("aiokafka.consumer.fetcher", "PartitionRecords.__next__", AIOKAFKA_RECORDS),
    ("kafka.protocol.consumer.offsets", "OffsetForLeaderEpochRequest.OffsetForLeaderTopic", LINEAGE),
    ("numba.core.runtime.nrt", "rtsys.initialize", "models/compiled.py"),
    ("numba.core.dispatcher", "Dispatcher.get_call_template", "models/compiled.py"),
    ("numba.core.caching", "FunctionCache._load_overload", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile._load_index", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile._save_index", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile._save_data", "models/compiled.py"),
    ("ot.lp.emd_wrap", "emd_c_sparse", "models/utility/transport.py"),
]

# (module, dotted name inside it, our file that uses it): public, and overridden or replaced here
PUBLIC = [
    (DRIVER, "AIOKafkaConsumerThread.call_thread", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread.commit", FAUST_CONSUMER),
    (DRIVER, "AIOKafkaConsumerThread.seek_to_committed", FAUST_CONSUMER),
    (DRIVER, "Consumer.force_commit", FAUST_CONSUMER),
    (DRIVER, "Consumer.getmany", FAUST_CONSUMER),
    (DRIVER, "Consumer.on_buffer_drop", FAUST_CONSUMER),
    (DRIVER, "Consumer.on_buffer_full", FAUST_CONSUMER),
    (DRIVER, "Consumer.perform_seek", FAUST_CONSUMER),
    (DRIVER, "Consumer.unacked", FAUST_CONSUMER),
    (DRIVER, "Consumer.verify_event_path", FAUST_CONSUMER),
    (DRIVER, "Transport.Consumer", FAUST_CONSUMER),
    ("faust", "App.transport", "stream/daemon/faust_app.py"),
    ("faust", "Worker.install_signal_handlers", "stream/daemon/faust_app.py"),
    ("faust", "Worker.on_execute", "stream/daemon/faust_app.py"),
    ("faust", "Worker.stop_and_shutdown", "stream/daemon/faust_app.py"),
    ("kafka.admin", "KafkaAdminClient.describe_topics", LINEAGE),
    ("kafka.net.sasl.oauth", "AbstractTokenProvider", "connectors/kafka/security.py"),
    ("numba.core.caching", "FunctionCache.flush", "models/compiled.py"),
    ("numba.core.caching", "FunctionCache.load_overload", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile.load", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile.save", "models/compiled.py"),
    ("numba.core.dispatcher", "Dispatcher.stats", "models/compiled.py"),
    ("prometheus_client", "Gauge.remove_by_labels", "stream/run/exporter.py"),
]

# (module, class, attribute that its instances have, our file that uses it)
ATTRIBUTES = [
    (DRIVER, "Consumer", "_read_offset", FAUST_CONSUMER),
    (DRIVER, "Consumer", "_thread", FAUST_CONSUMER),
    ("faust", "Worker", "crash_reason", "stream/daemon/faust_app.py"),
    ("faust", "Worker", "override_logging", "stream/daemon/faust_app.py"),
    ("aiokafka", "AIOKafkaConsumer", "_isolation_level", AIOKAFKA_RECORDS),
    ("aiokafka", "AIOKafkaConsumer", "_client_rack", AIOKAFKA_RECORDS),
    ("aiokafka", "AIOKafkaConsumer", "_fetch_min_bytes", AIOKAFKA_RECORDS),
    ("aiokafka", "AIOKafkaConsumer", "_fetch_max_wait_ms", AIOKAFKA_RECORDS),
    ("aiokafka", "AIOKafkaConsumer", "_fetch_max_bytes", AIOKAFKA_RECORDS),
    ("aiokafka", "AIOKafkaConsumer", "_max_partition_fetch_bytes", AIOKAFKA_RECORDS),
    ("aiokafka.consumer.fetcher", "PartitionRecords", "next_fetch_offset", AIOKAFKA_RECORDS),
    ("aiokafka.consumer.fetcher", "PartitionRecords", "_tp", AIOKAFKA_RECORDS),
    ("kafka.admin", "KafkaAdminClient", "_manager", LINEAGE),
    ("numba.core.caching", "FunctionCache", "_cache_file", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile", "_index_name", "models/compiled.py"),
    ("numba.core.caching", "IndexDataCacheFile", "_source_stamp", "models/compiled.py"),
]

BOUNDED = ["faust-streaming", "mode-streaming", "aiokafka", "kafka-python", "numba", "POT"]

# Inner names of a library are used in one file.
ONE_FILE = {"faust": FAUST_CONSUMER, "aiokafka": AIOKAFKA_RECORDS, "kafka": LINEAGE, "numba": "models/compiled.py"}


def sources_of(kind: type[Any]) -> Iterator[str]:
    """The source of a class and of those it is made from."""
    for base in kind.__mro__:
        if base is not object:
            try:
                yield inspect.getsource(base)
            except (OSError, TypeError):  # compiled: nothing to read
                continue


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "name", "file"), NAMES + PUBLIC)
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


@pytest.mark.parametrize(("library", "file"), ONE_FILE.items())
def test_inner_names_of_a_library_are_used_in_one_file(library: str, file: str) -> None:
    """All uses of inner names of a library are in one file, which must be read when its bound is raised."""
    files = {row[-1] for row in [*NAMES, *ATTRIBUTES] if row[0].split(".")[0] == library and "._" in f".{row[-2]}"}
    assert files == {file}


def test_our_files_exist() -> None:
    """A file that moves takes its rows along."""
    files = {row[-1] for row in [*NAMES, *PUBLIC, *ATTRIBUTES]}
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []
