"""The bytes of an XES file as a stream of XML elements, hardened (docs/decisions/001).

Expat keeps nothing of the XML (iterparse of lxml keeps a trace), and every error has its line. It opens no second
file and no connection by itself. A document type is refused: entity bombs and external entities need one.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, cast
from xml.parsers import expat

from connectors.bad_rows import NAME_THE_ZONE, ZONELESS
from connectors.times import ZonelessError
from models.errors import InputError

Start = Callable[[str, list[str]], None]
End = Callable[[str], None]

_CHUNK, _LARGEST_CHUNK = 1 << 18, 1 << 20
_LONGEST = 16 << 20
"""Bytes of one tag with all its attributes; a longer one would be held in memory as a whole."""
_DECLARED = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z][A-Za-z0-9._-]*)[\"']")
_PLAIN = re.compile(r'<([^\s/>]+) key="([^"&\t\r\n]*)" value="([^"&\t\r\n]*)"\s*/?>')
"""The way in which XES attributes are nearly always written: no reference to resolve, no blank to normalise."""

DEEPEST = 256
"""Levels of nesting; real logs have fewer than ten."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the bytes of a file, unpacked if its name ends in `.gz`.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        The file cannot be read, or its gzip data is damaged.
    """
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield cast(IO[bytes], stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the gzip data is damaged or cut off; fetch the file again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'no reason given'})") from error


def elements(path: Path, start: Start, end: End) -> Iterator[None]:
    """Feed the file through `start` and `end` by the chunk, and yield after each.

    The callbacks are `start(tag, [name, value, ...])` and `end(tag)`. ValueError of a callback becomes InputError
    with file and line.

    Parameters
    ----------
    path
        The file.
    start, end
        Called for each opening and each closing tag.
    """
    parser = expat.ParserCreate("utf-8")
    parser.ordered_attributes = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    with opened(path) as stream:
        yield from _fed(parser, _as_utf8(stream, path), path)


def tags(path: Path) -> Iterator[list[str]]:
    """Yield the tags of the file as they are written, chunk by chunk.

    Among them are comments and the like (`<!`, `<?`) and the blanks outside the root element. Expat checks all of it
    as in `elements`, but makes no list of attributes, and the callback is a list's append: most tags of a log are
    repetitions, and the caller knows those by their text. This takes half the time of `elements`. A list is valid
    until the next one.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        If the file is not well-formed XML, or cannot be read.
    """
    tags_of_chunk: list[str] = []
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.CharacterDataHandler = len  # text between elements means nothing in XES
    parser.DefaultHandler = tags_of_chunk.append
    with opened(path) as stream:
        for _ in _fed(parser, _as_utf8(stream, path), path):
            yield tags_of_chunk
            tags_of_chunk.clear()


def line_of(path: Path, number: int) -> int:
    """Return the line on which tag `number` (from 0) of `tags` begins.

    The file is read once more.

    Parameters
    ----------
    path
        The file.
    number
        Number of the tag.
    """
    parser, counted, lines = expat.ParserCreate("utf-8"), count(), [0]

    def seen(_: str) -> None:
        if next(counted) == number:
            lines[0] = parser.CurrentLineNumber

    parser.CharacterDataHandler = len
    parser.DefaultHandler = seen
    with opened(path) as stream:
        for _ in _fed(parser, _as_utf8(stream, path), path):
            if lines[0]:
                break
    return lines[0]


def _fed(parser: expat.XMLParserType, read: Callable[[int], bytes], path: Path) -> Iterator[None]:
    """Feed the whole file into the parser, and yield after each chunk."""

    def refuse(*_: Any) -> None:
        raise InputError(f"{path}: holds a document type (DOCTYPE), which no XES log needs; remove it")

    parser.StartDoctypeDeclHandler = refuse
    fed = waiting = 0
    # Expat looks at an unfinished tag again with every chunk: chunks that grow with it keep that cheap.
    while chunk := read(min(max(_CHUNK, waiting), _LARGEST_CHUNK)):
        _parse(parser, chunk, False, path)
        fed += len(chunk)
        waiting = fed - parser.CurrentByteIndex
        if waiting > _LONGEST:
            raise InputError(f"{path}: line {parser.CurrentLineNumber}: an element longer than {_LONGEST} bytes")
        yield
    _parse(parser, b"", True, path)
    yield


def _as_utf8(stream: IO[bytes], path: Path) -> Callable[[int], bytes]:
    """Return a function that reads the stream as UTF-8, for every declared encoding.

    Expat itself knows few encodings, none of several bytes, and of others it hands out tags in pieces.
    """
    head = stream.read(_CHUNK)
    name = declared_encoding(head)
    try:
        decoder = None if name is None else codecs.getincrementaldecoder(name)()
        b"x".decode(name or "utf-8", "ignore")  # refuses codecs that are not an encoding of text
    except (LookupError, UnicodeError):  # the latter from `idna` and `undefined`, which decode no file either
        raise InputError(f"{path}: not well-formed XML at line 1: the encoding that it declares is not known") from None

    def read(size: int) -> bytes:
        nonlocal head
        chunk, head = head or stream.read(size), b""
        if decoder is None or not chunk:
            return chunk
        try:
            # an empty answer would mean the end of the file
            return decoder.decode(chunk).encode() or read(size)
        except UnicodeError:
            raise InputError(f"{path}: not well-formed XML: not in the encoding that it declares") from None

    return read


def declared_encoding(head: bytes) -> str | None:
    """Return the encoding by byte order mark or declaration; None for UTF-8 and ASCII.

    Parameters
    ----------
    head
        First bytes of the file.
    """
    for begin, name in (
        (codecs.BOM_UTF16, "utf-16"),
        (b"\xfe\xff", "utf-16"),
        (b"<\0", "utf-16-le"),
        (b"\0<", "utf-16-be"),
    ):
        if head.startswith(begin):
            return name
    declared = _DECLARED.match(head.removeprefix(codecs.BOM_UTF8))
    name = "utf-8" if declared is None else declared[1].decode("ascii").lower()
    return None if name in ("utf-8", "us-ascii", "ascii") else name


_NO_MEMORY = expat.errors.codes[expat.errors.XML_ERROR_NO_MEMORY]


def _parse(parser: expat.XMLParserType, chunk: bytes, final: bool, path: Path) -> None:
    try:
        parser.Parse(chunk, final)
    except expat.ExpatError as error:
        if error.code == _NO_MEMORY:
            raise MemoryError from error  # the machine is short of it, the file is sound
        raise InputError(f"{path}: not well-formed XML at line {error.lineno}, column {error.offset}") from None
    except (ValueError, OverflowError) as error:
        raise refusal(error, path, parser.CurrentLineNumber) from None


def refusal(error: Exception, path: Path, line: int) -> InputError:
    """Return the error for input that a callback could not read, with file and line.

    Parameters
    ----------
    error
        The error of the callback.
    path, line
        Place of the tag.
    """
    if isinstance(error, ZonelessError):
        error = ValueError(f"{ZONELESS}; {NAME_THE_ZONE}")
    return InputError(f"{path}: line {line}: {error}")


def check_shape(tag: str, depth: int) -> None:
    """Refuse a start tag that cannot be part of a log.

    Parameters
    ----------
    tag
        Name of the element.
    depth
        Its depth; the root element has 1.

    Raises
    ------
    ValueError
        If the root element is another one, or elements are nested too deep.
    """
    if depth == 1 and local(tag) != "log":
        raise ValueError("XML, but no XES log: the root element is not <log>")
    if depth > DEEPEST:
        raise ValueError(f"elements nested deeper than {DEEPEST}")


def local(tag: str) -> str:
    """Return the tag without its namespace prefix.

    Parameters
    ----------
    tag
        Name of an element.
    """
    return tag.rpartition(":")[2]


def key_value(attributes: list[str]) -> tuple[str, str] | None:
    """Return `key` and `value` of an attribute's element; None if one is missing.

    Parameters
    ----------
    attributes
        Names and values in turn.
    """
    pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
    return (pairs["key"], pairs["value"]) if "key" in pairs and "value" in pairs else None


def attribute(written: str) -> tuple[str, tuple[str, str] | None]:
    """Return the element, and its (key, value) or None, of a start tag of `tags`.

    Parameters
    ----------
    written
        The tag as it is written.
    """
    plain = _PLAIN.fullmatch(written)
    if plain is not None:
        tag, key, value = plain.groups()
        return tag, (key, value)
    elements_found: list[tuple[str, list[str]]] = []
    parser = expat.ParserCreate("utf-8")
    parser.ordered_attributes = True
    parser.StartElementHandler = lambda tag, attributes: elements_found.append((tag, attributes))
    parser.Parse(written if written.endswith("/>") else f"{written[:-1]}/>", True)
    tag, attributes = elements_found[0]
    return tag, key_value(attributes)
