"""Tags as they are written: what the fast way of the XES reader must read just as an XML parser would."""

from __future__ import annotations

import pytest

from connectors import read_log
from models.errors import InputError
from tests.oracles.xes import iter_traces

TIME = '<date key="time:timestamp" value="2020-01-01T10:00:00.000+00:00"/>'

ONE_LOG = f"""<!-- a comment with <event> in it -->
<log>
<trace><string key="concept:name" value="1"/>
<event><string key="concept:name" value="A &amp; &#66;"/>{TIME}<string key="note" value="a > b"/></event>
<event ><string value='A "quoted"' key='concept:name'></string>
<date   key="time:timestamp"
  value="2020-01-01T10:00:01.000+00:00" /><string key="note" value="two
lines"><string key="note" value="nested"/></string></event>
<event><string key="concept:name" value="é"/>{TIME.replace("10:00:00", "10:00:02")}<![CDATA[<event>]]></event>
</trace></log>
"""


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", "UTF-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-8", None),
        ("utf-16", "UTF-16"),
        ("iso-8859-1", "ISO-8859-1"),
        ("cp1252", "windows-1252"),
        ("big5", "Big5"),
    ],
)
def test_every_way_of_writing_a_tag_is_read_alike(tmp_path, encoding, declared):
    """References, quotes, blanks, line breaks, closed and open elements, comments, CDATA, in every encoding."""
    file = tmp_path / "log.xes"
    head = "" if declared is None else f'<?xml version="1.0" encoding="{declared}"?>\n'
    letter = "中" if encoding == "big5" else "é"
    file.write_bytes((head + ONE_LOG.replace("é", letter)).encode(encoding))
    log = read_log(file)
    assert log.activity.decode() == ["A & B", 'A "quoted"', letter]
    assert log.event_attributes["note"].decode() == ["a > b", "two lines", None]
    (one,) = iter_traces(file)
    assert [event.activity for event in one.events] == log.activity.decode()
    assert [event.time for event in one.events] == log.time.tolist()


def test_an_encoding_that_is_none_is_refused(tmp_path):
    """Unknown, no encoding of text, or not the one the bytes are in: one line."""
    no_codecs = [(name, b"<log/>") for name in ("x-none", "base64", "undefined", "idna")]
    for name, body in (*no_codecs, ("cp1252", b"<log a='\x81'/>")):
        file = tmp_path / "log.xes"
        file.write_bytes(f'<?xml version="1.0" encoding="{name}"?>'.encode() + body)
        for read in (read_log, lambda path: list(iter_traces(path))):
            with pytest.raises(InputError, match="not well-formed") as error:
                read(file)
            assert "\n" not in str(error.value)


def test_a_fault_far_into_the_file_names_its_line(tmp_path):
    """Also when a whole chunk and more is before it, and many tags on its line."""
    event = f'<event><string key="concept:name" value="A"/>{TIME}</event>'
    good = "".join(f'<trace><string key="concept:name" value="{n}"/>\n{event}\n{event}</trace>\n' for n in range(4000))
    bad = f'<trace><string key="concept:name" value="bad"/>\n{event}{event.replace("10:00", "soon")}</trace>'
    file = tmp_path / "log.xes"
    file.write_text(f"<log>\n{good}{bad}\n</log>")
    with pytest.raises(InputError, match=f"line {2 + 3 * 4000 + 1}:"):
        read_log(file)
