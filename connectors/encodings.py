"""In which encoding a text file is written: byte order mark, UTF-8, else the likeliest of the usual ones.

The libraries' guess between code pages that differ in a few letters is a toss-up (a French export is taken for
Cyrillic), so Windows' western code page stands until another one is clearly better.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from connectors.xes_stream import opened
from models.errors import InputError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_USUAL = ("cp1252", "cp1251", "cp1253", "cp932", "gb18030", "big5", "euc_kr")
_HEAD = 4096
_SAMPLE = 1 << 16
"""Bytes of lines with letters beyond ASCII that are shown to the detector."""


def known(name: str) -> str:
    """The codec's own name; InputError when Python has no such encoding of text."""
    try:
        b"x".decode(name, "ignore")
        return codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise InputError(f"--encoding {name}: no encoding of this name; use utf-8, cp1252, utf-16 ...") from None


def by_head(path: Path) -> str:
    """The encoding that the first bytes tell: a byte order mark, or the zero bytes of UTF-16; else UTF-8."""
    with opened(path) as stream:
        head = stream.read(_HEAD)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    pairs = len(head) // 2
    if pairs and head[1 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-le"
    if pairs and head[0 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-be"
    return "utf-8-sig"


def guessed(path: Path) -> str:
    """The likeliest encoding of a file that is not UTF-8."""
    from charset_normalizer import from_bytes

    sample, size = [], 0
    with opened(path) as stream:
        while size < _SAMPLE and (line := stream.readline(_SAMPLE)):
            if not line.isascii():
                sample.append(line)
                size += len(line)
    text = b"".join(sample)
    matches = from_bytes(text, cp_isolation=list(_USUAL))
    best = matches.best()
    if best is not None and "cp1252" not in best.could_be_from_charset:
        western = next((match for match in matches if match.encoding == "cp1252"), None)
        if western is None or (best.coherence > western.coherence and best.chaos <= western.chaos):
            return str(best.encoding)
    try:
        text.decode("cp1252")
    except UnicodeDecodeError:  # five bytes mean nothing in it
        return "latin-1"
    return "cp1252"
