"""Object-centric logs: flattened by one type of object, counts reported, three formats alike."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors import read_log
from connectors.ocel import objects_of
from connectors.reading import Reading
from models.errors import InputError
from models.utility.discovery import quiet_pm4py
from stream.commands import execute

# o1 has the items i1 and i2, o2 the item i3; both orders go out in one parcel, and i4 has no order
EVENTS = (
    ("e1", "place", "2022-01-09T14:00:00.123456789+01:00", ("o1", "i1", "i2")),
    ("e2", "pick", "2022-01-09T15:00:00Z", ("o1", "i1")),
    ("e3", "pick", "2022-01-09T16:00:00Z", ("o1", "i2")),
    ("e4", "place", "2022-01-09T16:30:00Z", ("o2", "i3")),
    ("e5", "pick", "2022-01-09T17:00:00Z", ("i4",)),
    ("e6", "ship", "2022-01-10T15:00:00Z", ("o1", "o2", "o1")),
)
OBJECTS = {"o1": "order", "o2": "order", "i1": "item", "i2": "item", "i3": "item", "i4": "item"}
TRACES = {"o1": ("place", "pick", "pick", "ship"), "o2": ("place", "ship")}


def document() -> dict:
    """The log as OCEL 2.0 in JSON."""
    return {
        "objectTypes": [
            {"name": "order", "attributes": [{"name": "country", "type": "string"}]},
            {"name": "item", "attributes": []},
        ],
        "eventTypes": [{"name": name, "attributes": []} for name in ("place", "pick", "ship")],
        "objects": [
            {
                "id": one,
                "type": kind,
                "attributes": [{"name": "country", "value": "NL", "time": "1970-01-01T00:00:00Z"}] * (one == "o1"),
                "relationships": [],
            }
            for one, kind in OBJECTS.items()
        ],
        "events": [
            {
                "id": event,
                "type": activity,
                "time": time,
                "attributes": [],
                "relationships": [{"objectId": one, "qualifier": str(n)} for n, one in enumerate(related)],
            }
            for event, activity, time, related in EVENTS
        ],
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The JSON file."""
    file = tmp_path / "log.json"
    file.write_text(json.dumps(document()))
    return file


def test_objects_of_a_type_are_the_cases(log: Path) -> None:
    """Traces, exact times as they are written (pm4py drops nanoseconds), attributes of the objects."""
    read = read_log(log, reading=Reading(object_type="order"))
    assert dict(zip(read.case_ids, read.traces(), strict=True)) == TRACES
    first = datetime(2022, 1, 9, 13, tzinfo=UTC)
    assert read.time[0] == int(first.timestamp()) * 10**9 + 123_456_789
    assert dict(zip(read.case_ids, read.case_attributes["country"].decode(), strict=True)) == {"o1": "NL", "o2": None}
    items = read_log(log, reading=Reading(object_type="item"))
    assert dict(zip(items.case_ids, items.traces(), strict=True)) == {
        "i1": ("place", "pick"),
        "i2": ("place", "pick"),
        "i3": ("place",),
        "i4": ("pick",),
    }


def test_what_flattening_does_to_counts_is_said(log: Path) -> None:
    """One event left out, one counted twice, one order of two that repeats an activity by its items."""
    notes: list[str] = []
    read_log(log, reading=Reading(object_type="order", say=notes.append))
    printed = "\n".join(notes)
    assert "2 cases, 6 events; 1 of 6 events have no such object and are left out" in printed
    assert "convergence: events of several cases are counted in each (1); 1 of the 6 are such copies" in printed
    assert "divergence: 1 of 2 cases by 'item' repeat an activity for different objects" in printed
    notes.clear()
    read_log(log, reading=Reading(object_type="item", say=notes.append))
    printed = "\n".join(notes)
    assert "4 cases, 6 events; 1 of 6 events" in printed
    assert "events of several cases are counted in each (1); 1 of the 6" in printed
    assert "divergence: none" in printed


def test_without_a_type_the_types_are_listed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command refuses with the types and their counts; inspect offers them."""
    assert execute(["risk", str(log)]) == 2
    assert "--object-type: item (4 objects, 5 events), order (2 objects, 5 events)" in capsys.readouterr().err
    assert execute(["inspect", str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["object_types"] == {"item": {"objects": 4, "events": 5}, "order": {"objects": 2, "events": 5}}
    assert [line.partition("--object-type ")[2] for line in found["commands"]] == [
        "item -o first-item",
        "order -o first-order",
    ]
    assert execute(["inspect", str(log), "--object-type", "order", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["log"] == {"cases": 2, "events": 6, "variants": 2}


@pytest.mark.parametrize("suffix", ["sqlite", "xml"])
def test_the_three_formats_give_one_log(log: Path, tmp_path: Path, suffix: str) -> None:
    """The JSON that pm4py writes is read like the original, to its microseconds."""
    other = tmp_path / f"log.{suffix}"
    with quiet_pm4py() as pm4py:
        getattr(pm4py, f"write_ocel2_{suffix}")(pm4py.read_ocel2_json(str(log)), str(other))
    how = Reading(object_type="order")
    one, two = read_log(log, reading=how), read_log(other, reading=how)
    assert sorted(objects_of(log).relations) == sorted(objects_of(other).relations)
    for case, trace in TRACES.items():
        place, there = one.case_ids.index(case), two.case_ids.index(case)
        assert two.traces()[there] == trace
        mine = one.time[one.starts[place] : one.starts[place + 1]]
        theirs = two.time[two.starts[there] : two.starts[there + 1]]
        assert (mine // 1000).tolist() == (theirs // 1000).tolist()


def test_a_database_without_zones_asks_for_the_zone(log: Path, tmp_path: Path) -> None:
    """pm4py would read them as UTC."""
    base = tmp_path / "log.sqlite"
    with quiet_pm4py() as pm4py:
        pm4py.write_ocel2_sqlite(pm4py.read_ocel2_json(str(log)), str(base))
    with closing(sqlite3.connect(base)) as connection, connection:
        connection.execute("UPDATE event_Place SET ocel_time = '2022-07-09 14:00:00'")
    how = Reading(object_type="order")
    with pytest.raises(InputError, match=r"event \d: time has no time zone; .*--timezone"):
        read_log(base, reading=how)
    read = read_log(base, timezone="Europe/Amsterdam", reading=how)
    placed = [time for time, name in zip(read.time.tolist(), read.activity.decode(), strict=True) if name == "place"]
    assert set(placed) == {int(datetime(2022, 7, 9, 12, tzinfo=UTC).timestamp()) * 10**9}
