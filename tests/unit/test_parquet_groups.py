"""Parquet by the row group: the same log as in the general way, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors import parquet
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import EventLog

UTC = pa.timestamp("ns", tz="UTC")


def _table(**columns: Any) -> pa.Table:
    usual = {
        "case:concept:name": pa.array(["2", "1", "2", "2", "1", "3"]),
        "concept:name": pa.array(["b", "a", "a", "b", "c", "b"]),
        "time:timestamp": pa.array([5, 1, 4, 4, 9, 0], type=UTC),
        "org:resource": pa.array([None, "x", "y", None, "", "x"]),
        "case:S": pa.array(["s", None, "s", None, "t", "u"]),
        "note": pa.array(["n", "m", None, "n", "k", "m"]),
    }
    return pa.table({**usual, **columns})


def _generally(path: Path, monkeypatch: pytest.MonkeyPatch) -> EventLog:
    with monkeypatch.context() as without:
        without.setattr(parquet, "read_row_groups", lambda *_: None)
        return parquet.read(path, Reading())


def _same(one: EventLog, two: EventLog) -> None:
    assert one.case_ids == two.case_ids
    for name in ("starts", "time", "row"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert list(one.case_attributes) == list(two.case_attributes)
    assert list(one.event_attributes) == list(two.event_attributes)
    pairs = [(one.activity, two.activity), (one.resource, two.resource)]
    pairs += [(one.case_attributes[name], two.case_attributes[name]) for name in one.case_attributes]
    pairs += [(one.event_attributes[name], two.event_attributes[name]) for name in one.event_attributes]
    for own, other in pairs:
        assert own.values == other.values
        assert np.array_equal(own.codes, other.codes)


@pytest.mark.parametrize("rows", [1, 2, 4, 100])
def test_row_groups_make_the_log_of_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Rows of several cases, ties, missing texts, values that come again in another group."""
    path = tmp_path / "log.parquet"
    pq.write_table(_table(), path, row_group_size=rows)
    found = parquet.read_row_groups(path, Reading())
    assert found is not None
    _same(found, _generally(path, monkeypatch))


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_make_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Sorted by case and time, or not."""
    draws = np.random.default_rng(seed)
    size = int(draws.integers(1, 40))
    case, time = np.sort(draws.integers(0, 6, size)), draws.integers(0, 9, size)
    order = np.lexsort((time, case)) if seed % 2 else draws.permutation(size)
    table = pa.table(
        {
            "case:concept:name": pa.array([str(own) for own in case[order].tolist()]),
            "concept:name": pa.array([str(own) for own in draws.integers(0, 3, size).tolist()]),
            "time:timestamp": pa.array(time[order], type=UTC),
        }
    )
    path = tmp_path / "log.parquet"
    pq.write_table(table, path, row_group_size=int(draws.integers(1, 10)))
    found = parquet.read_row_groups(path, Reading())
    assert found is not None
    _same(found, _generally(path, monkeypatch))


@pytest.mark.parametrize(
    "columns",
    [
        {"case:concept:name": pa.array(["2", None, "2", "2", "1", "3"])},
        {"concept:name": pa.array(["b", "", "a", "b", "c", "b"])},
        {"time:timestamp": pa.array([5, None, 4, 4, 9, 0], type=UTC)},
        {"time:timestamp": pa.array([-(2**63) + 1, 1, 4, 4, 9, 0], type=UTC)},
        {"case:S": pa.array(["s", None, "other", None, "t", "u"])},
    ],
)
def test_what_is_to_be_refused_is_left_to_the_general_way(tmp_path: Path, columns: dict[str, Any]) -> None:
    """It names the row."""
    path = tmp_path / "log.parquet"
    pq.write_table(_table(**columns), path)
    assert parquet.read_row_groups(path, Reading()) is None
    with pytest.raises(InputError, match="row"):
        parquet.read(path, Reading())


@pytest.mark.parametrize(
    "columns",
    [
        {"note": pa.array([1, 2, 3, 4, 5, 6])},
        {"time:timestamp": pa.array([5, 1, 4, 4, 9, 0], type=pa.timestamp("us", tz="UTC"))},
        {"time:timestamp": pa.array([5, 1, 4, 4, 9, 0], type=pa.timestamp("ns", tz="Europe/Berlin"))},
        {"case:concept:name": pa.array([2, 1, 2, 2, 1, 3])},
    ],
)
def test_other_types_are_left_to_the_general_way(tmp_path: Path, columns: dict[str, Any]) -> None:
    """Numbers, and times of another unit or zone."""
    path = tmp_path / "log.parquet"
    pq.write_table(_table(**columns), path)
    assert parquet.read_row_groups(path, Reading()) is None
    assert parquet.read(path, Reading()).n_events == 6
