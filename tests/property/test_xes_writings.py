"""However an XES file is written, the reader that knows tags by their text reads what an XML parser reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import read_log
from tests.conftest import examples
from tests.oracles import xes

VALUES = st.text(st.sampled_from("ab&<>\"' \n\té\U0001f600/"), max_size=4)
INSIDE = ["", "text", "<!-- <event> -->", "<![CDATA[<event>]]>", "<?p <x/> ?>", '<string key="note" value="nested"/>']


@st.composite
def tags(draw, key: str, value: str, kind: str = "string") -> str:
    """One attribute in one of the ways in which XML lets it be written."""
    quote = draw(st.sampled_from("\"'"))
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(quote, "&#34;" if quote == '"' else "&#39;")
    escaped = escaped if draw(st.booleans()) else escaped.replace("\n", "&#10;").replace("\t", "&#9;")
    pairs = [f"key={quote}{key}{quote}", f"value={quote}{escaped}{quote}"]
    blank = draw(st.sampled_from([" ", "  ", "\n"]))
    head = blank.join([f"<{kind}", *draw(st.permutations(pairs)), *draw(st.sampled_from([[], ['other="1"']]))])
    open_tag = f"{head}>{draw(st.sampled_from(INSIDE))}</{kind}>"
    return draw(st.sampled_from([f"{head}/>", f"{head} />", open_tag]))


@st.composite
def documents(draw) -> bytes:
    """A log that has two writings of each attribute, so that most of its tags come again."""
    twice = st.lists(VALUES, min_size=2, max_size=2)
    pool = {key: [draw(tags(key, value)) for value in draw(twice)] for key in ("note", "a", "b")}
    pool["concept:name"] = [draw(tags("concept:name", "A" + value)) for value in draw(twice)]
    traces = []
    for case in range(draw(st.integers(1, 3))):
        body = [draw(tags("concept:name", f"case {case}"))]
        for second in range(draw(st.integers(0 if case else 1, 4))):
            keys = ["concept:name", *draw(st.lists(st.sampled_from(["note", "a", "b"]), unique=True))]
            written = [draw(st.sampled_from(pool[key])) for key in keys]
            written.append(draw(tags("time:timestamp", f"2020-01-01T00:00:0{second}.000+00:00", "date")))
            between = draw(st.sampled_from(["", "\n", "<!-- -->"]))
            body.append(draw(st.sampled_from(["<event>", "<event >"])) + between.join(draw(st.permutations(written))))
            body.append("</event>")
        traces.append(f"<trace>{draw(st.sampled_from(['', ' ']))}{''.join(body)}</trace>")
    text = f"<log>{''.join(traces)}</log>"
    if draw(st.booleans()):
        text = text.replace("<log>", '<log xmlns="urn:xes">')
    return text.encode()


@pytest.mark.parametrize("known", [2, 1 << 15])
@examples(30)
@given(documents(), st.sampled_from([23, 1 << 18]))
def test_every_writing_is_read_as_an_xml_parser_reads_it(known: int, document: bytes, chunk: int) -> None:
    """Also where fewer tags are remembered than the log has, and where every tag is cut between two chunks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.xes"
        file.write_bytes(document)
        limits = mock.patch("connectors.xes._MOST_SEEN", known), mock.patch("connectors.xes_stream._CHUNK", chunk)
        with limits[0], limits[1]:
            log = read_log(file)
    expected = xes.events(document)
    assert log.activity.decode() == [event["concept:name"] for event in expected]
    for key in ("note", "a", "b"):
        column = log.event_attributes.get(key)
        found = [None] * log.n_events if column is None else column.decode()
        assert found == [event.get(key) for event in expected]
