"""Values inside other values: nested attributes of XES, lists and records of Parquet. None is lost silently."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors import read_log
from connectors.reading import Reading
from models.errors import InputError
from stream.commands import execute

CHILD = '<string key="severity" value="3"/>'
NESTED = f'<string key="diag" value="flu">{CHILD}</string>'
LISTED = '<list key="drugs"><values><string key="drug" value="x"/><string key="drug" value="y"/></values></list>'


def xes_of(path: Path, of_trace: str = "", of_event: str = "", of_log: str = "") -> Path:
    event = (
        '<event><string key="concept:name" value="A"/>'
        f'<date key="time:timestamp" value="2020-01-01T10:00:00+00:00"/>{of_event}</event>'
    )
    trace = f'<trace><string key="concept:name" value="1"/>{of_trace}{event}</trace>'
    path.write_text(f"<log>{of_log}{trace}</log>", encoding="utf-8")
    return path


def notes_of(path: Path) -> list[str]:
    notes: list[str] = []
    read_log(path, reading=Reading(say=notes.append))
    return [note for note in notes if "not read" in note or "one text each" in note]


@pytest.mark.parametrize("level", ["of_trace", "of_event"])
@pytest.mark.parametrize(
    ("body", "count", "names"),
    [
        (NESTED, "1 values", "'severity'"),
        (LISTED, "2 values", "'drug'"),
        (NESTED + LISTED, "3 values", "'drug', 'severity'"),
    ],
    ids=["attribute", "list", "both"],
)
def test_values_inside_of_others_are_reported(tmp_path: Path, level: str, body: str, count: str, names: str) -> None:
    """They were left out, and only the docstring of the reader said so."""
    (note,) = notes_of(xes_of(tmp_path / "log.xes", **{level: body}))
    assert f"{count} are inside other attributes, lists or containers and are not read ({names})" in note


@pytest.mark.parametrize("level", ["of_trace", "of_event"])
def test_a_flat_log_has_no_such_note(tmp_path: Path, level: str) -> None:
    assert notes_of(xes_of(tmp_path / "log.xes", of_log=NESTED + LISTED, **{level: CHILD})) == []


def test_inspect_reports_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["inspect", str(xes_of(tmp_path / "log.xes", of_event=NESTED)), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert sum("1 values are inside other attributes" in note for note in notes) == 1


def parquet_of(path: Path, **columns: Any) -> Path:
    usual = {
        "case": ["1", "1", "2"],
        "activity": ["a", "b", "a"],
        "time": pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    }
    pq.write_table(pa.table({**usual, **columns}), path)
    return path


@pytest.mark.parametrize("role", ["case", "activity"])
@pytest.mark.parametrize(
    "cells", [[["a", "b"], ["a"], ["b"]], [{"code": "a"}, {"code": "b"}, {"code": "a"}]], ids=["lists", "records"]
)
def test_a_part_of_the_log_that_holds_lists_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str, cells: list[Any]
) -> None:
    """Events with two activities each became events with one activity, `["a", "b"]`."""
    path = parquet_of(tmp_path / "log.parquet", **{role: cells})
    with pytest.raises(InputError, match=f"column '{role}' \\({role}\\) holds lists or records"):
        read_log(path)
    assert execute(["inspect", str(path), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert sum("holds lists or records" in problem for problem in found["problems"]) == 1


def test_attributes_that_hold_lists_are_reported(tmp_path: Path) -> None:
    """C bounds the share of each whole list, so all cases of a group may have one value in their lists."""
    cells = [["flu"], ["flu", "cold"], ["cold"]]
    (note,) = notes_of(parquet_of(tmp_path / "lists.parquet", diag=cells))
    assert "'diag': lists or records are read as one text each" in note
    assert notes_of(parquet_of(tmp_path / "texts.parquet", diag=["flu", "cold", "cold"])) == []
