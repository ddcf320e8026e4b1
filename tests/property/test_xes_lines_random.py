"""For every file, the quick reader gives the result of the general one, or nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from connectors import xes
from connectors.columns import ColumnNames
from models.errors import InputError
from models.eventlog import Column, EventLog
from tests.conftest import examples

TEXTS = st.sampled_from(
    ["a", "b", "7", "", "x &amp; y", "x & y", "&#233;", "\u00e9", "<", "\x01", "'", "A B", "\u2028"]
)
KINDS = st.sampled_from(["string", "int", "float", "boolean", "id", "date", "list", "x:string"])
KEYS = st.sampled_from(["a", "b", "case:a", "org:resource", "concept:name", "time:timestamp", "&lt;"])
TIMES = st.sampled_from(
    [
        "2020-01-01T00:00:00.000+00:00", "2020-02-29T23:59:59.999-05:30", "2021-02-29T00:00:00.000+00:00",
        "1678-01-01T00:00:00.000+14:00", "1677-12-31T23:59:59.999+00:00", "2261-12-31T23:59:59.999999-14:00",
        "2020-01-01T00:00:00.123456+01:00", "2020-01-01T00:00:00.123456789+01:00", "2020-01-01T24:00:00.000+00:00",
        "2020-01-01T00:00:00+02:00", "2020-01-01", "2020-01-01T00:00:00.000Z", "2020-1-1T00:00:00.000+00:00",
        "2020-01-01T00:00:00.000+24:00", "2020-01-01T00:00:00.000", "2020-01-01T00:00:0a.000+00:00", "&amp;", "",
    ]
)  # fmt: skip
LINES = st.sampled_from(
    [
        "<!-- <event> -->", "<![CDATA[", "</event>", "<event>", "<trace>", "</trace>", "</log>", "<event/>", "text",
        '<string key="a" value="n">', "</string>", '<string key="a" value="b" />', "<string value='b' key='a'/>", "",
        '<string key="a"/>', "<!DOCTYPE log>", "<?p?>", '<string key="a" value="b"/><string key="b" value="b"/>',
    ]
)  # fmt: skip


@st.composite
def documents(draw) -> str:
    """A log with one element a line, in which little or nothing is amiss."""
    indent = draw(st.sampled_from(["", " ", "\t"]))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<log>", '\t<string key="creator" value="x"/>']
    for case in range(draw(st.integers(1, 4))):
        lines += [f"{indent}<trace>", f'{indent}<string key="concept:name" value="{case}"/>']
        lines += [f'{indent}<{draw(KINDS)} key="{draw(KEYS)}" value="{draw(TEXTS)}"/>'] * draw(
            st.sampled_from([0, 0, 1])
        )
        for second in range(draw(st.integers(0 if case else 1, 4))):
            body = [f'<string key="concept:name" value="{draw(st.sampled_from("ab"))}"/>']
            body.append(f'<date key="time:timestamp" value="2020-01-01T00:00:0{second}.000+00:00"/>')
            if draw(st.integers(0, 5)) == 0:
                body[1] = f'<date key="time:timestamp" value="{draw(TIMES)}"/>'
            if draw(st.integers(0, 3)) == 0:
                body.append(f'<{draw(KINDS)} key="{draw(KEYS)}" value="{draw(TEXTS)}"/>')
            lines += [f"{indent}<event>", *(indent + one for one in draw(st.permutations(body))), f"{indent}</event>"]
        lines.append(f"{indent}</trace>")
    lines.append("</log>")
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(lines) - 1))
        amiss = draw(st.sampled_from(["out", "in", "twice"]))
        lines[at : at + (amiss == "out")] = [] if amiss == "out" else [draw(LINES) if amiss == "in" else lines[at]]
    return "\n".join(lines) + draw(st.sampled_from(["\n", ""]))


@examples(600)
@given(documents(), st.sampled_from([5, 100, 1 << 20]), st.sampled_from(["utf-8", "latin-1"]))
def test_the_quick_reader_agrees_with_the_general_one_or_is_silent(document: str, chunk: int, encoding: str) -> None:
    """Sound files, files with nested or doubled elements, broken ones, and those that no XML parser takes."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("connectors.xes_lines._CHUNK", chunk):
        file = Path(folder) / "log.xes"
        file.write_bytes(document.encode(encoding, "replace"))
        found = xes.quickly(file, ColumnNames.of(None))
        if found is None:
            return
        try:
            expected = xes.read_generally(file, ColumnNames.of(None))
        except InputError as error:
            raise AssertionError(f"the general reader refuses it: {error}") from error
    _same(found, expected)


def _same(one: EventLog, two: EventLog) -> None:
    assert one.case_ids == two.case_ids
    for name in ("starts", "time", "row", "offset"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    for own, other in ((one.case_attributes, two.case_attributes), (one.event_attributes, two.event_attributes)):
        assert list(own) == list(other)
        for name in own:
            _same_column(own[name], other[name])
    _same_column(one.activity, two.activity)
    _same_column(one.resource, two.resource)


def _same_column(one: Column, two: Column) -> None:
    assert list(map(repr, one.values)) == list(map(repr, two.values))
    assert np.array_equal(one.codes, two.codes)


def test_a_plain_file_is_read_quickly() -> None:
    """The test above compares something."""
    lines = ["<log>", "<trace>", '<string key="concept:name" value="1"/>', "<event>"]
    lines += ['<string key="concept:name" value="a"/>', '<date key="time:timestamp" value="2020-01-01T00:00:00.000Z"/>']
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.xes"
        file.write_text("\n".join([*lines, "</event>", "</trace>", "</log>", ""]), encoding="utf-8")
        assert xes.quickly(file, ColumnNames.of(None)) is not None
