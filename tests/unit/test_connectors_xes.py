"""The XES reader: the public logs' figures, all kinds of attributes, and hostile input."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors import read_log
from connectors.logs import suffix_of
from models.errors import InputError
from tests.oracles.xes import iter_traces

TIME = '<date key="time:timestamp" value="2020-01-01T10:00:00.000+00:00"/>'
EVENT = f'<event><string key="concept:name" value="A"/>{TIME}</event>'


def event(activity: str = "A", time: str = "2020-01-01T10:00:00.000+00:00", more: str = "") -> str:
    """One event's XML."""
    return (
        f'<event><string key="concept:name" value="{activity}"/>'
        f'<date key="time:timestamp" value="{time}"/>{more}</event>'
    )


def trace(name: str = "1", body: str = EVENT, more: str = "") -> str:
    """One trace's XML."""
    return f'<trace><string key="concept:name" value="{name}"/>{more}{body}</trace>'


@pytest.fixture
def xes(tmp_path: Path):
    """Writes the body of a log and gives the file."""

    def write(*body: str, head: str = "<log>") -> Path:
        file = tmp_path / "log.xes"
        file.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n' + "\n".join(body) + "\n</log>\n")
        return file

    return write


def refused(file: Path, **options) -> str:
    """The one line with which both ways of reading refuse the file."""
    with pytest.raises(InputError) as error:
        read_log(file, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "cases", "events", "variants", "activities"),
    [
        ("sepsis", 1050, 15214, 846, 16),
        ("bpic2012-app", 13087, 60849, 17, 10),
        ("bpic2013-incidents", 7554, 65533, 1511, 4),
        ("urineweginfectie", 1650, 6973, 50, 10),
        ("ccc19", 20, 697, 20, 29),
        ("bpic2012", 13087, 262200, 4366, 24),
    ],
)
def test_public_logs_have_their_published_figures(logs, name, cases, events, variants, activities):
    """Cases, events, variants and activities are those that the logs are known for."""
    log = read_log(logs / f"{name}.xes.gz")
    assert (log.n_cases, log.n_events, len(set(log.traces())), len(log.activity.values)) == (
        cases,
        events,
        variants,
        activities,
    )


def test_sensitive_values_on_the_first_event_are_found(logs):
    """Sepsis keeps Diagnose and Age on the first event; 797 cases have a diagnosis, all have an age as a number."""
    log = read_log(logs / "sepsis.xes.gz")
    assert sum(value is not None for value in log.case_values("Diagnose").decode()) == 797
    assert log.case_values("Age").decode()[0] == 90


def test_case_prefixed_copies_on_events_are_the_case_attribute(logs):
    """BPIC-2012-App repeats AMOUNT_REQ as case:AMOUNT_REQ on every event: one case attribute remains."""
    log = read_log(logs / "bpic2012-app.xes.gz")
    assert log.case_attributes["AMOUNT_REQ"].decode()[0] == "20000"
    assert [name for name in log.event_attributes if name.startswith("case:")] == []


def test_attributes_keep_their_types(xes):
    """Every type of XES becomes its Python value; a nested attribute keeps the parent's value only."""
    more = (
        '<int key="i" value="7"/><float key="f" value="1.50"/><boolean key="b" value="true"/><id key="u" value="x-1"/>'
        '<date key="d" value="2020-01-01T00:00:00+02:00"/><string key="s" value=""/>'
        '<string key="parent" value="kept"><string key="child" value="dropped"/></string>'
        '<list key="l"><values><int key="in" value="1"/></values></list><container key="c"/>'
        '<float key="nan" value="NaN"/><string key="no value"/>'
    )
    log = read_log(xes(trace(body=event(more=more), more='<int key="age" value="40"/>')))
    values = {name: column.decode()[0] for name, column in log.event_attributes.items()}
    assert values.pop("d") == datetime(2019, 12, 31, 22, tzinfo=UTC)
    assert values == {"i": 7, "f": 1.5, "b": True, "u": "x-1", "s": "", "parent": "kept", "nan": None}
    assert values["b"] is True
    assert log.case_attributes["age"].decode() == [40]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T02:00:01+02:00", 1_000_000_000),
        ("1970-01-01T00:00:00.001+00:00", 1_000_000),
        ("1970-01-01T00:00:00.000001+00:00", 1_000),
        ("1970-01-01T00:00:00.123456789+00:00", 123_456_789),
        ("1969-12-31T23:59:59.999999999-05:30", 19_799_999_999_999),
        ("1970-01-01T00:00:00.1234567Z", 123_456_700),
        ("1970-01-01T00:00:00.12345678+0000", 123_456_780),
        ("1969-12-31T23:59:59.999+00:00", -1_000_000),
        ("1970-1-1 0:0:1.5-00:30", 1_801_500_000_000),
        ("19700101T000001.123456Z", 1_123_456_000),
        ("19700101T000001.123+0000", 1_123_000_000),
    ],
)
def test_times_are_exact_in_every_spelling(xes, text, nanoseconds):
    """Zones, no fraction, and up to nine digits give the exact nanosecond."""
    assert read_log(xes(trace(body=event(time=text)))).time.tolist() == [nanoseconds]


def test_a_time_without_zone_names_the_way_out(xes):
    """Zoneless: refused with line and --timezone; with the zone it is that zone's local time."""
    file = xes(trace(body=event(time="2020-07-01T12:00:00")))
    assert "line 3" in refused(file)
    assert "--timezone" in refused(file)
    assert read_log(file, timezone="Europe/Berlin").time[0] == 1593597600 * 10**9
    assert "not known" in refused(file, timezone="Mars/Base")


def test_events_are_sorted_by_time_and_ties_keep_file_order(xes):
    """Time may go backwards in the file; `row` remembers the position there."""
    body = event("B", "2020-01-01T11:00:00Z") + event("A", "2020-01-01T10:00:00Z") + event("C", "2020-01-01T11:00:00Z")
    log = read_log(xes(trace(body=EVENT), trace("2", body)))
    assert log.traces() == [("A",), ("A", "B", "C")]
    assert log.row.tolist() == [0, 2, 1, 3]


def test_namespaces_comments_and_attribute_order_do_not_matter(xes):
    """A default namespace, a prefix, comments, and value before key read the same."""
    swapped = (
        '<event><string value="A" key="concept:name"/><date value="2020-01-01T10:00:00Z" key="time:timestamp"/></event>'
    )
    plain = read_log(xes(trace(body="<!-- x -->" + swapped), head='<log xmlns="urn:x" xes.version="1.0">'))
    prefixed = (trace() + "</log>").replace("<", "<x:").replace("<x:/", "</x:").replace("</x:log>", "")
    file = xes(prefixed)
    file.write_text(f'<x:log xmlns:x="urn:x">{prefixed}</x:log>')
    assert plain.traces() == read_log(file).traces() == [("A",)]


def test_columns_can_be_mapped(xes):
    """Other attributes play the parts of case, activity, time and resource; the usual ones stay as attributes."""
    more = '<string key="step" value="S"/><date key="when" value="2021-01-01T00:00:00Z"/><string key="who" value="R"/>'
    log = read_log(
        xes(trace(body=event(more=more), more='<string key="patient" value="P"/>')),
        columns={"case": "patient", "activity": "step", "time": "when", "resource": "who"},
    )
    assert (log.case_ids, log.traces(), log.resource.decode()) == (("P",), [("S",)], ["R"])
    assert log.time[0] == 1609459200 * 10**9
    assert log.event_attributes["concept:name"].decode() == ["A"]


def test_globals_and_events_outside_of_traces_are_no_data(xes):
    """Defaults of globals and loose events of the log belong to no case."""
    scope = '<global scope="event"><string key="concept:name" value="G"/><string key="x" value="G"/></global>'
    log = read_log(xes(scope, event("LOOSE"), trace()))
    assert (log.traces(), dict(log.event_attributes)) == ([("A",)], {})


def test_a_trace_without_events_stays(xes):
    """An empty case is a case."""
    assert read_log(xes(trace(body=""), trace("2"))).lengths.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "no events"),
        ([trace(body="")], "no events"),
        ([trace(), f"<trace>{EVENT}</trace>"], "trace 2: no concept:name"),
        ([trace(), trace(name="")], "trace 2: no concept:name"),
        ([trace("SECRET"), trace("2"), trace("SECRET")], "trace 3: has the concept:name of trace 1"),
        ([trace(), trace("2", EVENT + f"<event>{TIME}</event>")], "trace 2, event 2: no concept:name"),
        ([trace("2", EVENT + '<event><string key="concept:name" value="SECRET"/></event>')], "event 2: no time"),
        ([trace(body=event(time="SECRET"))], "line 3"),
        ([trace(body=event(time="9999-12-31T00:00:00Z"))], "line 3"),
        ([trace(body=event(time="19700101T000001.123456789Z"))], "line 3: a time finer than a microsecond"),
        ([trace(body=event(more=TIME))], "appears twice"),
        ([trace(more='<int key="x" value="1"/><int key="x" value="2"/>')], "trace 1: attribute 'x' appears twice"),
        ([trace(more='<int key="x" value="1"/><string key="x" value="2"/>')], "trace 1: attribute 'x' appears twice"),
        ([trace(body=event(more='<int key="x" value="1"/><string key="x" value="2"/>'))], "'x' appears twice"),
        ([trace(), trace("2", event(more='<int key="x" value="SECRET"/>'))], "trace 2, event 1: x is not a valid int"),
        ([trace(body=event(more='<date key="x" value="SECRET"/>'))], "x is not a valid date"),
        (
            [trace(body=event(more='<int key="case:x" value="1"/>') + event(more='<int key="case:x" value="2"/>'))],
            "trace 1: its events disagree about 'case:x'",
        ),
        ([trace(), "<trace>"], "not well-formed XML at line 5"),
        ([trace(body="<a>" * 300 + "</a>" * 300)], "deeper"),
        (
            [trace(body=event(more="".join(f'<int key="k{n}" value="1"/>' for n in range(5000))))],
            "different attributes",
        ),
    ],
)
def test_bad_logs_are_refused_with_coordinates_and_without_content(xes, body, said):
    """One line that says where, and never what a record holds."""
    message = refused(xes(*body))
    assert said in message
    assert "SECRET" not in message


def test_the_iterator_gives_the_same_traces(xes):
    """`iter_traces` yields what `read_log` collects, in file order."""
    file = xes(
        trace(more='<int key="age" value="4"/>'), trace("2", event("B", more='<string key="org:resource" value="R"/>'))
    )
    first, second = iter_traces(file)
    assert (first.name, first.attributes, first.events[0].activity) == ("1", {"age": 4}, "A")
    assert (second.events[0].resource, second.events[0].time) == ("R", 1577872800 * 10**9)


def test_the_iterator_agrees_with_the_log_on_sepsis(logs):
    """Two code paths, one log: names, activities in time order, and every attribute of every event."""
    log = read_log(logs / "sepsis.xes.gz")
    assert (log.row == range(log.n_events)).all()
    decoded = {name: column.decode() for name, column in log.event_attributes.items()}
    row = 0
    for number, one in enumerate(iter_traces(logs / "sepsis.xes.gz")):
        assert one.name == log.case_ids[number]
        for single in one.events:
            assert single.time == log.time[row]
            assert dict(single.attributes) == {k: v[row] for k, v in decoded.items() if v[row] is not None}
            row += 1


def test_the_iterator_refuses_what_the_reader_refuses(xes):
    """The same coordinates: trace and event."""
    for file_body, said in [
        ([trace(), f"<trace>{EVENT}</trace>"], "trace 2: no concept:name"),
        ([trace(body=EVENT + f"<event>{TIME}</event>")], "trace 1, event 2: no concept:name"),
        ([trace(body=event(time="2020-01-01T00:00:00"))], "--timezone"),
        ([trace(body=event(more=TIME))], "line 3: attribute 'time:timestamp' appears twice"),
    ]:
        with pytest.raises(InputError, match=said):
            list(iter_traces(xes(*file_body)))


ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    "document_type",
    [
        f'<!DOCTYPE log [<!ENTITY l0 "lol">{ENTITIES}]>',
        '<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE log SYSTEM "http://127.0.0.1:9/log.dtd">',
        '<!DOCTYPE log [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p.dtd"> %p;]>',
    ],
    ids=["billion laughs", "external entity", "external DTD", "parameter entity"],
)
def test_a_document_type_is_refused_before_anything_is_expanded(xes, document_type):
    """Entity bombs and external entities need a DOCTYPE; there is no log with one."""
    file = xes(trace(name="&l11;"), head=document_type + "<log>")
    assert "DOCTYPE" in refused(file)
    with pytest.raises(InputError, match="DOCTYPE"):
        list(iter_traces(file))


def test_a_value_of_two_megabytes_is_read(xes):
    """Long, but honest."""
    log = read_log(xes(trace(body=event(more=f'<string key="note" value="{"x" * 2_000_000}"/>'))))
    assert len(log.event_attributes["note"].values[0]) == 2_000_000


def test_an_endless_tag_is_refused_before_it_fills_the_memory(xes):
    """A tag beyond 16 MiB is not waited for."""
    assert "longer than" in refused(xes(trace(body=event(more=f'<string key="note" value="{"x" * (17 << 20)}"/>'))))


def test_broken_files_are_refused(tmp_path, xes):
    """Truncated and false gzip, other XML, no XML, unknown suffix, missing file, a folder: one line each."""
    packed = gzip.compress(xes(*(trace(str(n)) for n in range(500))).read_bytes())
    for name, data, said in [
        ("cut.xes.gz", packed[: len(packed) // 2], "damaged or cut off"),
        ("false.xes.gz", b"no gzip", "damaged or cut off"),
        ("bits.xes.gz", packed[:-8] + b"\0" * 8, "damaged or cut off"),
        ("page.xes", b"<html><body/></html>", "root element is not <log>"),
        ("text.xes", b"hello", "not well-formed XML at line 1"),
        ("empty.xes", b"", "not well-formed XML"),
        ("half.xes", b"<log>\n<trace>\n<event", "not well-formed XML at line 3"),
        ("log.txt", b"", "unknown kind of log (if it is a table with a header, name it .csv (or .tsv)); use one of"),
        ("log.XLSX", b"", "unknown kind of log (a spreadsheet: save its sheet as CSV (UTF-8)); use one of"),
        ("log.tar.gz", b"", "unknown kind of log (an archive: unpack it); use one of"),
        ("log.pdf", b"", "unknown kind of log; use one of"),
    ]:
        (tmp_path / name).write_bytes(data)
        assert said in refused(tmp_path / name)
    assert "no such file" in refused(tmp_path / "absent.xes")
    with pytest.raises(InputError, match="columns: activty unknown"):
        read_log(xes(trace()), columns={"activty": "x"})


def test_a_file_to_write_gets_no_hint_about_reading(tmp_path):
    """`save its sheet as CSV` would say nothing to somebody who asked for a spreadsheet."""
    with pytest.raises(InputError, match=r"unknown kind of log; use one of \.xes, "):
        suffix_of(tmp_path / "out.xlsx")


FIRST_FILE = """<log><trace><string key="concept:name" value="1"/><string key="ward" value="A"/>
<event><string key="concept:name" value="b"/><date key="time:timestamp" value="2024-01-01T08:00:00+01:00"/></event>
<event><string key="concept:name" value="a"/><date key="time:timestamp" value="2024-01-01T09:00:00+01:00"/></event>
</trace></log>"""
SECOND_FILE = """<log><trace><string key="concept:name" value="2"/>
<event><string key="concept:name" value="a"/><string key="org:resource" value="Ann"/>
<date key="time:timestamp" value="2024-01-02T08:00:00Z"/></event></trace>
<trace><string key="concept:name" value="3"/><string key="ward" value="A"/>
<event><string key="concept:name" value="c"/><date key="time:timestamp" value="2024-01-03T08:00:00Z"/></event>
</trace></log>"""


def test_the_files_of_a_folder_are_one_log(tmp_path: Path) -> None:
    """Cases and rows follow each other; a value of several files has one code, and an absent column is missing."""
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "1.xes").write_text(FIRST_FILE)
    (folder / "2.xes").write_text(SECOND_FILE)
    log = read_log(folder)
    assert log.case_ids == ("1", "2", "3")
    assert log.starts.tolist() == [0, 2, 3, 4]
    assert log.row.tolist() == [0, 1, 2, 3]
    assert log.activity.decode() == ["b", "a", "a", "c"]
    assert log.activity.values == ("b", "a", "c")
    assert log.resource.decode() == [None, None, "Ann", None]
    assert log.case_attributes["ward"].decode() == ["A", None, "A"]
    assert log.case_attributes["ward"].values == ("A",)


def test_a_case_in_two_files_of_a_folder_is_refused(tmp_path: Path) -> None:
    """A file of XES has whole cases only."""
    folder = tmp_path / "log"
    folder.mkdir()
    for name in ("1.xes", "2.xes"):
        (folder / name).write_text(FIRST_FILE)
    with pytest.raises(InputError, match="a case appears in two files of the folder"):
        read_log(folder)
