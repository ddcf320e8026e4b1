"""Every file of the catalogue goes in with its very events, or gets one line that says where and what mends it."""

from __future__ import annotations

from typing import Any

import pytest

from connectors import read_log
from connectors.inspection import inspect
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import EventLog
from tests.file_catalogue import Entry, catalogue

ENTRIES = catalogue()
GOOD = [entry for entry in ENTRIES if entry.events]
BAD = [entry for entry in ENTRIES if not entry.events]


def titled(entry: Entry) -> str:
    """The test's name."""
    return entry.title


def reading(entry: Entry) -> Reading:
    """Return the statements about the file."""
    return Reading(
        **entry.options.get("reading", {key: value for key, value in entry.options.items() if key != "reading"})
    )


def events(log: EventLog) -> list[tuple[str, str, int]]:
    """(case, activity, nanoseconds) in the order of the file."""
    cases = [log.case_ids[case] for case in log.case_of_event.tolist()]
    rows = zip(log.row.tolist(), cases, log.activity.decode(), log.time.tolist(), strict=True)
    return [row[1:] for row in sorted(rows)]


def in_file_order(log: EventLog, name: str) -> list[Any]:
    """The values of an event column."""
    column = log.resource if name == "org:resource" else log.event_attributes[name]
    return [value for _, value in sorted(zip(log.row.tolist(), column.decode(), strict=True), key=lambda pair: pair[0])]


def test_the_catalogue_is_large_and_titles_are_distinct() -> None:
    """200 files and more, about half of them refused."""
    assert len(ENTRIES) >= 200
    assert len({entry.title for entry in ENTRIES}) == len(ENTRIES)
    assert min(len(GOOD), len(BAD)) >= 90


@pytest.mark.parametrize("entry", GOOD, ids=titled)
def test_goes_in_with_its_very_events(entry: Entry, tmp_path) -> None:
    """Case, activity and exact time of each event, and the attributes that are named. `inspect` counts the same log and
    leaves nothing to decide."""
    file = tmp_path / entry.name
    file.write_bytes(entry.data)
    notes: list[str] = []
    log = read_log(file, reading=Reading(**entry.options, say=notes.append))
    assert events(log) == [(case, activity, int(when.timestamp()) * 10**9) for case, activity, when in entry.events]
    for name, expected in entry.attributes.items():
        assert in_file_order(log, name) == expected
    assert all("\n" not in note and not any(activity in note for _, activity, _ in entry.events) for note in notes)
    inspected = inspect(file, Reading(**entry.options))
    assert inspected.problems == []
    assert inspected.decisions == []
    assert inspected.log is not None
    assert (inspected.log["cases"], inspected.log["events"]) == (2, 3)


@pytest.mark.parametrize("entry", BAD, ids=titled)
def test_is_refused_in_one_line(entry: Entry, tmp_path) -> None:
    """The line has file, place, shape and flag, and no cell. `inspect` refuses the file or reports its problems, and
    shows no cell either."""
    file = tmp_path / entry.name
    file.write_bytes(entry.data)
    with pytest.raises(InputError) as error:
        read_log(file, reading=reading(entry))
    message = str(error.value)
    for words in entry.said:
        assert words in message
    assert "\n" not in message
    assert "SECRET" not in message
    assert len(message) < 700
    try:
        inspected = inspect(file, reading(entry))
    except InputError as refusal:
        shown = str(refusal)
        assert "\n" not in shown
    else:
        samples = [column.samples for column in inspected.columns]
        shown = str([inspected.notes, inspected.problems, inspected.decisions, samples])
        assert inspected.log is None or inspected.decisions or inspected.flags
    assert "SECRET" not in shown
