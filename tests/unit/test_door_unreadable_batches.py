"""Record batches that cannot be decoded: the partition stops before them, and reports it where people look."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from stream.daemon import aiokafka_records
from stream.daemon.unreadable import RETRY_SECONDS, UnreadablePartitions
from stream.daemon.worker_status import WorkerStatusFile, stopped_partitions
from stream.ledger.layout import OperatorLayout

PLACE = TopicPartition("orders", 3)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> UnreadablePartitions:
    """The stopped partitions of a process of the test's own."""
    partitions = UnreadablePartitions()
    monkeypatch.setattr(aiokafka_records, "unreadable_partitions", partitions)
    return partitions


def _batch(first: int, count: int, compression: int = 0) -> bytes:
    """A record batch of offsets `first`.., as a broker sends it."""
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 1_000_000)
    for offset in range(count):
        builder.append(offset, timestamp=1000, key=None, value=b"x" * 40, headers=[])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, first)
    return bytes(built)


def _read(data: bytes, first: int) -> tuple[list[int], int]:
    """Offsets that the client gives of a fetch from `first` on, and where it fetches next."""
    records = fetcher.PartitionRecords(PLACE, fetcher.MemoryRecords(data), [], first, None, None, True, 0)
    return [record.offset for record in records], records.next_fetch_offset


def _changed(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def _damages() -> Iterator[tuple[str, bytes]]:
    sound = _batch(5, 4)
    yield "its last byte", _changed(sound, len(sound) - 1)
    yield "its checksum", _changed(sound, 17)
    yield "a length beyond the end", sound[:8] + struct.pack(">i", 1_000_000) + sound[12:]
    yield "a length below nothing", sound[:8] + struct.pack(">i", -12) + sound[12:]
    yield "a length of nothing", sound[:8] + struct.pack(">i", 0) + sound[12:]


@pytest.mark.parametrize("damaged", [pytest.param(data, id=name) for name, data in _damages()])
def test_what_comes_before_a_damaged_batch_is_read_and_nothing_is_skipped(
    stopped: UnreadablePartitions, damaged: bytes
) -> None:
    """The position stays before the batch, however it is damaged; a fetch that begins with it gives nothing."""
    assert _read(_batch(0, 5) + _batch(5, 4), 0) == (list(range(9)), 9)
    assert stopped.places == []
    offsets, position = _read(_batch(0, 5) + damaged, 0)
    assert (offsets, position) == ([0, 1, 2, 3, 4], 5)
    assert _read(damaged, 5) == ([], 5)
    assert stopped.places == ["orders/3 at offset 5"]


def test_a_partition_is_tried_again_after_a_while_and_goes_on_behind_its_batch() -> None:
    """Not at once, and logged as often as it stops at another batch. Records before the batch prove nothing."""
    now = [100.0]
    stopped = UnreadablePartitions(lambda: now[0])
    stopped.stop(PLACE, 5, ValueError("content"))
    assert stopped.due() == []
    now[0] += RETRY_SECONDS
    assert stopped.due() == [PLACE]
    stopped.stop(PLACE, 5, ValueError("content"))
    assert stopped.due() == []
    stopped.read(PLACE, 4)
    assert stopped.partitions == {PLACE}
    stopped.read(PLACE, 5)
    assert stopped.partitions == set()


def test_a_batch_is_named_once_and_without_content(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is tried."""
    stopped = UnreadablePartitions()
    for _ in range(3):
        stopped.stop(PLACE, 5, ValueError("Vera's case"))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "veilstream"]
    assert line.startswith("orders/3: the record batch at offset 5 cannot be decoded (ValueError)")
    assert "Vera" not in line


def test_status_knows_the_partitions_of_running_workers_alone(tmp_path: Path) -> None:
    """A worker that ended reports nothing: another one has its partitions. Its file goes after a day."""
    WorkerStatusFile(tmp_path, heartbeat=5.0).write(["orders/3 at offset 5"])
    (mine,) = OperatorLayout(tmp_path).faust("ingest").glob("status-*.json")
    other = mine.with_name("status-other-1.json")
    long_ago = time.time() - 60
    other.write_bytes(msgspec.json.encode({"at": long_ago, "heartbeat": 5.0, "unreadable": ["orders/1 at offset 9"]}))
    mine.with_name("status-torn-1.json").write_bytes(b'{"at": 1')
    assert stopped_partitions(tmp_path, time.time()) == ["orders/3 at offset 5"]
    assert stopped_partitions(tmp_path, time.time() + 60) == []
    os.utime(other, (time.time() - 90_000, time.time() - 90_000))
    WorkerStatusFile(tmp_path, heartbeat=5.0)
    assert not other.exists()
