"""Written logs are read back unchanged, for any log and all three formats; and pm4py reads our XES."""

from __future__ import annotations

import gzip
import tempfile
import warnings
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import read_log, write_log
from models.eventlog import EventLog
from tests.conftest import examples
from tests.oracles.xes import iter_traces

XML_TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters=[chr(n) for n in range(32) if n not in (9, 10, 13)])
    .filter(lambda letter: letter not in "\ufffe\uffff"),
    max_size=12,
)  # fmt: skip
NAMES = XML_TEXT.filter(lambda text: text != "")
CASE_IDS = NAMES.filter(lambda text: text.strip() != "")
"""Blanks alone are not a case id: a reader takes them for missing."""
VALUES = {
    "s": XML_TEXT,
    "i": st.integers(-(2**70), 2**70),
    "f": st.floats(allow_nan=False),
    "b": st.booleans(),
    "d": st.datetimes(
        datetime(1800, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        datetime(2200, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-720, 840).map(lambda m: timezone(timedelta(minutes=m))),
    ),
}


@st.composite
def logs(draw, resolution: int = 1) -> EventLog:
    """A small log with attributes of every type, some missing, and times of the resolution (nanoseconds)."""
    size = draw(st.integers(1, 12))
    cases = draw(
        st.lists(
            st.sampled_from(draw(st.lists(CASE_IDS, min_size=1, max_size=4, unique=True))), min_size=size, max_size=size
        )
    )
    many = {"min_size": size, "max_size": size}
    times = draw(st.lists(st.integers(-(10**18), 5 * 10**18).map(lambda t: t // resolution * resolution), **many))
    optional = {name: st.none() | values for name, values in VALUES.items()}
    return EventLog.from_events(
        cases,
        draw(st.lists(NAMES, **many)),
        np.asarray(times),
        draw(st.lists(st.none() | NAMES, **many)),
        {f"c{name}": {case: draw(values) for case in set(cases)} for name, values in optional.items()},
        {f"e{name}": draw(st.lists(values, **many)) for name, values in optional.items()},
        unit="ns",
    )


def written(log: EventLog, suffix: str) -> EventLog:
    """The log after a way through a file."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(log, Path(folder) / f"log.{suffix}")
        return read_log(Path(folder) / f"log.{suffix}")


def content(log: EventLog) -> tuple:
    """All that a log says, file positions and absent columns aside."""
    columns = [
        {name: column.decode() for name, column in attributes.items() if column.values}
        for attributes in (log.case_attributes, log.event_attributes)
    ]
    return log.case_ids, log.starts.tolist(), log.traces(), log.time.tolist(), log.resource.decode(), columns


@examples(15)
@given(logs())
def test_xes_gives_back_the_log(log):
    """Names, nanoseconds, types and missing values survive XES."""
    assert content(written(log, "xes.gz")) == content(log)


@examples(15)
@given(logs())
def test_parquet_gives_back_the_log_but_wide_ints(log):
    """Parquet too; ints beyond 64 bits come back as text."""
    ours, theirs = content(log), content(written(log, "parquet"))
    assert theirs[:-1] == ours[:-1]
    for before, after in zip(ours[-1], theirs[-1], strict=True):
        for name, values in before.items():
            wide = any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values)
            expected = [None if value is None else str(value) for value in values] if wide else values
            assert after[name] == expected


@examples(15)
@given(logs())
def test_csv_gives_back_the_log_as_text(log):
    """CSV keeps names and times exactly and every value's text; "" is missing there."""

    def text(value):
        return value.isoformat() if isinstance(value, datetime) else str(value)

    def plain(columns):
        shown = {}
        for name, values in columns.items():
            texts = [None if value in (None, "") else text(value) for value in values]
            if any(value is not None for value in texts):
                shown[name] = texts
        return shown

    ours, theirs = content(log), content(written(log, "csv.gz"))
    assert theirs[:-1] == ours[:-1]
    assert [plain(columns) for columns in theirs[-1]] == [plain(columns) for columns in ours[-1]]


@examples(10)
@given(logs())
def test_the_iterator_reads_what_the_reader_reads(log):
    """Two paths through the XML agree, event by event."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.xes"
        write_log(log, file)
        traces = list(iter_traces(file))
    assert [trace.name for trace in traces] == list(log.case_ids)
    assert [tuple(event.activity for event in trace.events) for trace in traces] == log.traces()
    assert [event.time for trace in traces for event in trace.events] == log.time.tolist()


@pytest.mark.parametrize("suffix", ["xes", "xes.gz", "csv", "csv.gz", "parquet"])
def test_equal_logs_give_equal_bytes(tmp_path, suffix):
    """No time of writing, no file name, no hash order in the bytes."""
    log = EventLog.from_traces([(["A", "B"], "x"), (["A"], None)])
    write_log(log, tmp_path / f"one.{suffix}", privacy={"mechanism": "m"}, time_basis="ordinal")
    write_log(log, tmp_path / f"two.{suffix}", privacy={"mechanism": "m"}, time_basis="ordinal")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_each_element_has_its_line(tmp_path):
    """pm4py's line reader sees nothing otherwise, so line breaks inside values are written as references."""
    from lxml import etree

    log = EventLog.from_traces([(["A\nB", 'quo"te <&>\t\r'], "x\ny")])
    write_log(log, tmp_path / "log.xes")
    body = (tmp_path / "log.xes").read_bytes()
    lines = [element.sourceline for element in etree.fromstring(body).iter()]
    assert len(lines) == len(set(lines))
    assert content(read_log(tmp_path / "log.xes")) == content(log)


def test_what_xml_cannot_hold_becomes_a_replacement_character(tmp_path):
    """A control character from a CSV source must not make a release unreadable."""
    log = EventLog.from_traces([(["A\x00\x1b", "B\ud800"], None)])
    for suffix in ("xes", "csv", "parquet"):
        assert written(log, suffix).traces() == [("A\ufffd\ufffd", "B\ufffd")]


@pytest.mark.parametrize("variant", ["iterparse", "line_by_line"])
def test_pm4py_reads_our_xes(tmp_path, variant):
    """Cases, activities, times, resources, attributes and the privacy metadata, with warnings as errors."""
    pm4py = pytest.importorskip("pm4py")
    log = EventLog.from_events(
        ["1", "1", "2"],
        ["A", 'B "quoted"', "A"],
        np.asarray([0, 1_500_000_000, 86_400_000_000_000]),
        ["R", None, "S"],
        {"age": {"1": 40, "2": 50}},
        {"ok": [True, None, False]},
        unit="ns",
    )
    privacy = {"mechanism": "tlkc", "parameters": {"K": 20}}
    write_log(log, tmp_path / "log.xes.gz", privacy=privacy, time_basis="ordinal")
    frame = pm4py.read_xes(str(tmp_path / "log.xes.gz"), variant=variant)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pm4py.read_xes(str(tmp_path / "log.xes.gz"), variant=variant)
    assert frame["case:concept:name"].tolist() == ["1", "1", "2"]
    assert (
        frame["time:timestamp"].dt.tz_convert(UTC).astype("datetime64[ns, UTC]").astype("int64").tolist()
        == log.time.tolist()
    )
    assert frame["case:age"].tolist() == [40, 40, 50]
    assert frame["concept:name"].tolist()[0] == "A"
    assert frame["org:resource"].tolist()[::2] == ["R", "S"]
    assert len(pm4py.get_variants(frame)) == 2


def test_privacy_metadata_are_on_the_log_only(tmp_path):
    """One declaration, one list, and nothing of it on traces or events."""
    log = EventLog.from_traces([(["A", "B"], "x")])
    operations = [{"mechanism": "tlkc", "parameters": {"K": 20, "none": None, "many": [1, 2]}}, {"mechanism": "other"}]
    write_log(log, tmp_path / "log.xes.gz", privacy=operations, time_basis="relative")
    head, body = gzip.decompress((tmp_path / "log.xes.gz").read_bytes()).decode().split("<trace>", 1)
    assert 'prefix="privacy"' in head
    assert '<string key="privacy:time_basis" value="relative"/>' in head
    assert head.count('<list key="privacy:anonymizations">') == 1
    assert head.count('<string key="privacy:anonymization" value=') == 2
    assert "privacy" not in body
    assert "epsilon" not in body
    write_log(log, tmp_path / "plain.xes")
    assert "privacy" not in (tmp_path / "plain.xes").read_text()
