"""CSV cells that a spreadsheet would evaluate: written as text, read back as they were."""

from __future__ import annotations

import csv
import gzip
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from connectors import read_log, write_log
from connectors.formulas import guarded, unguarded
from models.eventlog import EventLog

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
labels = st.builds(
    lambda quotes, start, rest: "'" * quotes + start + rest,
    st.integers(0, 3),
    st.sampled_from(["", *STARTS]),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=5),
).filter(lambda text: text != "")


@given(labels)
@example("'=1+1")
@example("''=1+1")
@example("'it's")
def test_the_guard_is_undone_by_the_reader(label: str) -> None:
    """Any label, quotes of its own included; and two labels never become one cell."""
    assert unguarded(guarded(label)) == label


@given(labels)
def test_no_guarded_cell_begins_a_formula(label: str) -> None:
    """Unless it is a plain number, which a spreadsheet shows as it is."""
    cell = guarded(label)
    assert not cell.startswith(STARTS) or _number(cell)


@given(st.lists(labels, min_size=1, max_size=6))
def test_a_written_log_is_read_back(names: list[str]) -> None:
    """Activities, resources, cases, attribute values and the names of attributes."""
    size = len(names)
    cases = [f"{name}1" for name in names]  # blanks alone are not a case id
    log = EventLog.from_events(cases, names, np.arange(size), names, {}, {"=note": [*names[1:], "text"]}, unit="ns")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv.gz"
        write_log(log, path)
        again = read_log(path)
        with gzip.open(path, "rt", newline="") as text:
            cells = [cell for row in csv.reader(text) for cell in row]
    assert sorted(again.case_ids) == sorted(log.case_ids)
    by_case = {case: place for place, case in enumerate(again.case_ids)}
    order = [row for case in log.case_ids for row in _rows(again, by_case[case])]
    for ours, theirs in ((log.activity, again.activity), (log.resource, again.resource)):
        assert [theirs.decode()[row] for row in order] == ours.decode()
    noted = again.event_attributes["=note"].decode()
    assert [str(noted[row]) for row in order] == [str(one) for one in log.event_attributes["=note"].decode()]
    assert [cell for cell in cells if cell.startswith(STARTS) and not _number(cell)] == []


def _rows(log: EventLog, case: int) -> range:
    return range(int(log.starts[case]), int(log.starts[case + 1]))


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
