"""Values in the form of files: what a mechanism solved on is what any reader finds, in every format."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import read_log, write_log
from connectors.logs import read_back
from models.anonymize.values import label, written
from models.eventlog import Column, EventLog
from tests.conftest import examples

FORMATS = ("log.xes", "log.csv", "log.parquet")
SPECIAL = [
    "1",
    "1.0",
    "",
    " ",
    "a",
    "a ",
    "a\tb",
    "a b",
    "a\x00",
    "a\x01",
    "\x7f",
    "a\x85b",
    "a\u2028b",
    "\u202ea",
    "\ud800",
]
VALUES = st.one_of(
    st.sampled_from(SPECIAL),
    st.text(max_size=4),
    st.integers(-(2**70), 2**70),
    st.integers(0, 2),
    st.floats(allow_nan=True, allow_infinity=True),
    st.decimals(-1000, 1000, places=2),
    st.booleans(),
    st.none(),
    st.sampled_from(
        [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))]
    ),
)


def _log(values: list[Any], labels: list[str]) -> EventLog:
    """One case a value, one event a case."""
    bare = EventLog.from_traces([([name], None) for name in labels], "other")
    return bare.with_columns(case={"value": Column.encode(values)})


def _partition(column: Column) -> list[int]:
    """Return the rows of equal values: the place of the first equal one of each row, -1 for missing."""
    rows = column.decode()
    first: dict[Any, int] = {}
    return [-1 if row is None else first.setdefault(row, place) for place, row in enumerate(rows)]


@pytest.mark.parametrize("name", FORMATS)
@examples(60)
@given(
    rows=st.lists(st.tuples(VALUES, st.one_of(st.sampled_from(SPECIAL), st.text(max_size=3))), min_size=1, max_size=8)
)
def test_equal_in_the_file_is_equal_before(name: str, rows: list[tuple[Any, str]]) -> None:
    """Two cases show one value (or label) in a file if and only if they had one when the mechanism counted."""
    log = written(_log([value for value, _ in rows], [text for _, text in rows]), ["value"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_log(log, path)
        for read in (read_log(path), read_back(path)):
            assert _partition(read.activity) == _partition(log.activity)
            found = read.case_attributes.get("value", Column.encode([None] * log.n_cases))
            assert _partition(found) == _partition(log.case_attributes["value"])


@pytest.mark.parametrize(
    ("one", "two"),
    [(1, "1"), (1, 1.0), (True, "True"), ("a\x01", "a\x02"), ("a\x7f", "a\x01"), ("a\x85", "a "), ("", None),
     ("é", "e\u0301"), ("a\u202eb", "a\u2066b"), (" a", "a")],
)  # fmt: skip
def test_what_a_file_may_show_as_one_is_one(one: Any, two: Any) -> None:
    """Values that some format or reader cannot distinguish."""
    values = written(_log([one, two, "other"], ["x"] * 3), ["value"]).case_attributes["value"].decode()
    assert values[0] == values[1]
    assert type(values[0]) is type(values[1])


@given(st.text(max_size=20))
def test_a_label_holds_nothing_that_hides(text: str) -> None:
    """No control character, no separator of lines, no override of direction; a label is its own form."""
    found = label(text)
    assert label(found) == found
    assert not any(ord(character) < 32 or 0x7F <= ord(character) <= 0x9F for character in found)
    assert not set(found) & set(
        "\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    )


def test_a_value_of_the_case_and_one_of_its_event_are_of_one_type() -> None:
    """A number on the one case and a text on the event of the other are compared as they will be written."""
    log = _log([1, None], ["x", "y"])
    log = log.with_columns(event={"value": Column.encode([None, "1"])})
    assert written(log, ["value"]).case_values("value").decode() == ["1", "1"]


def test_a_clean_log_is_left_as_it_is() -> None:
    """Numbers stay numbers, and nothing is coded again."""
    log = _log([3, 1, None], ["x", "y", "x"])
    found = written(log, ["value"])
    assert found.activity is log.activity
    assert found.case_attributes["value"].decode() == [3, 1, None]
