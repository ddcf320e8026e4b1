"""Columns in files without a name: the same log, outside of the heap, and nothing left behind."""

from __future__ import annotations

import errno
import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UnavailableError
from models.eventlog import Column, EventLog
from stream.values import paged
from stream.values.paged import ColumnFiles, drop_log_pages, drop_pages, parts_of

CASES = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["r", "s", None])), max_size=4), min_size=1, max_size=6
)


def log_of(cases: list[list[tuple[str, str | None]]]) -> EventLog:
    """Cases of (activity, resource), an event a second."""
    events = [event for case in cases for event in case]
    lengths = [len(case) for case in cases]
    return EventLog(
        case_ids=tuple(f"case-{number}" for number in range(len(cases))),
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        activity=Column.encode(name for name, _ in events),
        time=np.arange(len(events), dtype=np.int64) * 10**9,
        resource=Column.encode(actor for _, actor in events),
        row=np.arange(len(events), dtype=np.int64),
    )


def content(log: EventLog) -> list[object]:
    """All that a log without attributes has, by value."""
    arrays = [log.starts.tolist(), log.time.tolist(), log.row.tolist()]
    return [log.case_ids, log.activity.decode(), log.resource.decode(), *arrays]


@given(CASES, st.data(), st.integers(1, 5))
def test_the_same_cases_as_in_the_heap(
    tmp_path_factory: pytest.TempPathFactory, cases: list, data: st.DataObject, size: int
) -> None:
    """In any order, some more than once, some at a time: with the codes of the log, or with codes of their own."""
    log = log_of(cases)
    chosen = np.asarray(data.draw(st.lists(st.integers(0, len(cases) - 1), max_size=8)), dtype=np.int64)
    wanted = log.select_cases(chosen)
    pages = ColumnFiles(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged, "BLOCK", size)
        patch.setattr(paged, "SMALL", 0)
        alike = pages.joined(parts_of(log, chosen), wanted.n_events, alike=log)
        of_its_own = pages.joined(parts_of(log, chosen), wanted.n_events)
    assert content(alike) == content(wanted)
    assert alike.activity.values == log.activity.values
    assert alike.resource.values == log.resource.values
    assert content(of_its_own) == content(wanted)
    assert set(of_its_own.activity.values) == set(wanted.activity.values)


def test_a_column_is_in_no_file_that_has_a_name(tmp_path: Path) -> None:
    """Neither while it is read, nor after; it can be written to, as the kernels expect of every array."""
    kept = ColumnFiles(tmp_path).keep(np.arange(100_000))
    assert list(tmp_path.iterdir()) == []
    assert kept.flags.writeable
    assert kept.dtype == np.int64
    kept[7] = -1
    drop_pages(kept)
    assert kept[7] == -1
    assert kept[8:].tolist() == list(range(8, 100_000))


def test_a_system_that_reserves_nothing_gets_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room is then taken by writing it."""
    monkeypatch.delattr(os, "posix_fallocate")
    empty = ColumnFiles(tmp_path).empty(300_000, np.int64)
    assert len(empty) == 300_000
    assert not empty.any()
    assert paged._mapped(empty) is not None


def test_small_columns_stay_in_the_heap(tmp_path: Path) -> None:
    """A file each would be more than they are."""
    small = ColumnFiles(tmp_path).keep(np.arange(10))
    assert small.base is None
    drop_pages(small)
    assert small.tolist() == list(range(10))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_rests_is_not_in_memory(tmp_path: Path) -> None:
    """48 MB are joined, read, and dropped again; the heap never holds them."""
    cases = parts_of(log_of([[("a", "r")] * 10]), np.zeros(200_000, dtype=np.int64))
    tracemalloc.start()
    log = ColumnFiles(tmp_path).joined(cases, 2_000_000)
    heap = tracemalloc.get_traced_memory()[1] >> 20
    tracemalloc.stop()
    assert heap < 25, "one part, a case id, and the number where each case begins"
    assert resident(tmp_path) == 0
    assert (int(log.time.sum()), int(log.row.sum())) == (45 * 200_000 * 10**9, 45 * 200_000)
    assert resident(tmp_path) >= 30
    drop_log_pages(log)
    assert resident(tmp_path) == 0


def resident(folder: Path) -> int:
    """MB of the files of a folder that are in the memory of this process, whatever else the process does."""
    kilobytes, inside = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as file:
        for line in file:
            if "-" in line.partition(" ")[0]:
                inside = str(folder) in line
            elif inside and line.startswith("Rss:"):
                kilobytes += int(line.split()[1])
    return kilobytes >> 10


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is reserved before the file is mapped: a write to a page without room would kill the process."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UnavailableError, match="free some space") as raised:
        ColumnFiles(tmp_path).keep(np.arange(100_000))
    assert str(tmp_path) in str(raised.value)
