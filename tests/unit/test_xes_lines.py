"""The quick reader of one element a line: the same log as the reader of any XES file, or none."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log, write_log, xes, xes_lines
from connectors.columns import ColumnNames
from models.errors import InputError
from models.eventlog import Column, EventLog


def _log() -> EventLog:
    return EventLog.from_events(
        ["1", "1", "2", "3", "3"],
        ["a", '<b> & "c"', "a", "a", "é"],
        np.asarray([0, 60_000_000_000, 0, 0, 1_500_000_000]),
        ["ann", None, "bob", None, "ann"],
        {"S": {"1": "x", "3": "y"}, "age": {"1": 3, "2": 4}, "ok": {"2": True}},
        unit="ns",
    )


def _quickly(path: Path) -> EventLog | None:
    return xes.quickly(path, ColumnNames.of(None))


def _same(one: EventLog, two: EventLog) -> None:
    assert one.case_ids == two.case_ids
    assert (one.starts.tolist(), one.time.tolist()) == (two.starts.tolist(), two.time.tolist())
    assert one.traces() == two.traces()
    assert one.resource.decode() == two.resource.decode()
    assert {name: column.decode() for name, column in one.case_attributes.items()} == {
        name: column.decode() for name, column in two.case_attributes.items()
    }


@pytest.mark.parametrize("name", ["log.xes", "log.xes.gz"])
def test_it_reads_what_the_general_reader_reads(tmp_path: Path, name: str) -> None:
    """Log-level metadata, escaped labels, missing values, typed values, several cases."""
    path = tmp_path / name
    write_log(_log(), path, privacy={"mechanism": "tlkc", "parameters": {"L": 2}}, time_basis="relative")
    found = _quickly(path)
    assert found is not None
    _same(found, read_log(path))


def test_events_that_never_repeat_are_read(tmp_path: Path) -> None:
    """Each event has a resource of its own; the scan must not leave such a log to the general reader."""
    n_events = 20_000
    resources = [f"resource {number}" for number in range(n_events)]
    cases = [str(number // 10) for number in range(n_events)]
    log = EventLog.from_events(cases, ["a"] * n_events, np.arange(n_events) * 10**9, resources, unit="ns")
    path = tmp_path / "log.xes"
    write_log(log, path)
    found = _quickly(path)
    assert found is not None
    assert found.resource.decode() == resources
    _same(found, read_log(path))


def test_an_attribute_that_an_event_has_twice_is_left_to_the_general_reader(tmp_path: Path) -> None:
    """The general reader reports the event; also if both lines are the same."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    line = '<string key="org:resource" value="bob"/>\n'
    text = path.read_text(encoding="utf-8")
    for second in (line, line.replace("bob", "eve")):
        path.write_text(text.replace(line, line + second), encoding="utf-8")
        assert _quickly(path) is None
        with pytest.raises(InputError, match="appears twice"):
            read_log(path)


def test_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that arrives seven bytes at a time."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    monkeypatch.setattr(xes_lines, "_CHUNK", 7)
    found = _quickly(path)
    assert found is not None
    _same(found, read_log(path))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\t</trace>\n</log>\n", "</trace></log>"),
        ("\t</trace>\n</log>\n", ""),
        ("\t\t<event>\n", "\t\t<event><!-- -->\n"),
        ('value="a"/>', 'value="a">'),
        ('value="1"/>', 'value="2"/>'),
        ('<string key="concept:name" value="a"/>', '<string key="concept:name" value=""/>'),
        ("\t\t<event>\n", '\t\t<event>\n\t\t\t<list key="n" value="1"/>\n'),
        ("\t<trace>\n", "\t<trace>\n\t</trace>\n\t<trace>\n"),
        ("<log ", "<nolog "),
    ],
)  # fmt: skip
def test_another_layout_is_left_to_the_general_reader(tmp_path: Path, old: str, new: str) -> None:
    """A layout that our writer does not write is left to the general reader."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert _quickly(path) is None


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:00.000+01:00", "1969-12-31T23:59:59.999+00:00", "1970-01-01T00:00:00+00:00",
        "1678-01-01T00:00:00.000+00:00", "2261-12-31T23:59:59.999+00:00", "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.123456+00:00", "1970-01-01T00:00:00.123456789+00:00", "19700101T000000.000+0000",
    ],
)  # fmt: skip
def test_times_in_other_forms_next_to_our_own_are_the_same_moments(tmp_path: Path, text: str) -> None:
    """Other offsets, other precision, the first and the last year."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    written = path.read_text(encoding="utf-8")
    assert 'value="1970-01-01T00:01:00.000+00:00"' in written
    path.write_text(written.replace("1970-01-01T00:01:00.000+00:00", text), encoding="utf-8")
    found = _quickly(path)
    assert found is not None
    _same(found, read_log(path))


@pytest.mark.parametrize("precision", [1, 1_000, 1_000_000, 1_000_000_000])
def test_times_of_our_own_form_are_read_to_the_nanosecond(tmp_path: Path, precision: int) -> None:
    """Milliseconds, microseconds and nanoseconds, before and after 1970."""
    path = tmp_path / "log.xes"
    rng = np.random.default_rng(7)
    time = rng.integers(-(9 * 10**18) // precision, 9 * 10**18 // precision, 500) * precision
    log = EventLog.from_events([str(number % 9) for number in range(500)], ["a"] * 500, time, unit="ns")
    write_log(log, path)
    found = _quickly(path)
    assert found is not None
    assert sorted(found.time.tolist()) == sorted(time.tolist())
    _same(found, read_log(path))


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:61:00.000+00:00", "1970-02-30T00:01:00.000+00:00", "1970-01-01 00:01:0 .000+00:00",
        "1677-01-01T00:01:00.000+00:00", "2262-01-01T00:01:00.000+00:00", "1970-01-01T00:01:00.000", "NaT",
    ],
)  # fmt: skip
def test_what_is_no_time_is_left_to_the_general_reader(tmp_path: Path, text: str) -> None:
    """It names the line, or knows better."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    written = path.read_text(encoding="utf-8")
    path.write_text(written.replace("1970-01-01T00:01:00.000+00:00", text), encoding="utf-8")
    assert _quickly(path) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\t\t\t<date", '\t\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>\n\t\t\t<date'),
        ('<date key="time:timestamp" value="1970-01-01T00:01:00.000+00:00"/>\n', ""),
        ('<date key="time:timestamp" value="1970-01-01T00:01', '<string key="time:timestamp" value="1970-01-01T00:01'),
    ],
)  # fmt: skip
def test_an_event_has_one_time(tmp_path: Path, old: str, new: str) -> None:
    """Two of them, none, and one that is a text."""
    path = tmp_path / "log.xes"
    write_log(_log(), path)
    written = path.read_text(encoding="utf-8")
    assert old in written
    path.write_text(written.replace(old, new), encoding="utf-8")
    assert _quickly(path) is None


def test_damaged_gzip_is_no_log(tmp_path: Path) -> None:
    """The general reader then says what is wrong."""
    path = tmp_path / "log.xes.gz"
    write_log(_log(), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert _quickly(path) is None
    with pytest.raises(InputError, match="gzip"):
        read_log(path)


def test_a_log_without_cases_is_left_to_the_general_reader(tmp_path: Path) -> None:
    """It says that there is no event."""
    path = tmp_path / "log.xes.gz"
    none = Column(np.zeros(0, dtype=np.int32), ())
    zero = np.zeros(0, dtype=np.int64)
    write_log(EventLog((), np.zeros(1, dtype=np.int64), none, zero, none, zero), path)
    assert gzip.decompress(path.read_bytes()).endswith(b"</log>\n")
    assert _quickly(path) is None
