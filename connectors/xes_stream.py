"""The bytes of an XES file as a stream of XML elements, hardened.

Expat and not lxml: measured side by side on BPIC 2012 (benchmarks/read_xes.py) it is the faster of the two, keeps
nothing of the XML (iterparse keeps a trace), and every error knows its line. Expat opens no second file and no
connection by itself, and a document type is refused outright: entity bombs and external entities need one.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from xml.parsers import expat

from connectors.times import ZonelessError
from models.errors import InputError

Start = Callable[[str, list[str]], None]
End = Callable[[str], None]

_CHUNK, _LARGEST_CHUNK = 1 << 16, 1 << 20
_LONGEST = 16 << 20
"""Bytes of one tag with all its attributes; a longer one would be held in memory as a whole."""
DEEPEST = 256
"""Levels of nesting; real logs have fewer than ten."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked when its name ends in `.gz`; damage to it becomes InputError."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield cast(IO[bytes], stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the gzip data is damaged or cut off; fetch the file again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'no reason given'})") from error


def elements(path: Path, start: Start, end: End) -> Iterator[None]:
    """Feed the file through `start(tag, [name, value, ...])` and `end(tag)`, yielding after each chunk.

    ValueError raised by a callback becomes InputError with file and line.
    """
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end

    def refuse(*_: Any) -> None:
        raise InputError(f"{path}: holds a document type (DOCTYPE), which no XES log needs; remove it")

    parser.StartDoctypeDeclHandler = refuse
    fed = waiting = 0
    with opened(path) as stream:
        # Expat looks at an unfinished tag anew with every chunk: chunks that grow with it keep that cheap.
        while chunk := stream.read(min(max(_CHUNK, waiting), _LARGEST_CHUNK)):
            _parse(parser, chunk, False, path)
            fed += len(chunk)
            waiting = fed - parser.CurrentByteIndex
            if waiting > _LONGEST:
                raise InputError(f"{path}: line {parser.CurrentLineNumber}: an element longer than {_LONGEST} bytes")
            yield
        _parse(parser, b"", True, path)
        yield


def _parse(parser: expat.XMLParserType, chunk: bytes, final: bool, path: Path) -> None:
    try:
        parser.Parse(chunk, final)
    except expat.ExpatError as error:
        raise InputError(f"{path}: not well-formed XML at line {error.lineno}, column {error.offset}") from None
    except ZonelessError:
        raise InputError(
            f"{path}: line {parser.CurrentLineNumber}: a time without a zone; name the zone of the log with --timezone"
        ) from None
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: line {parser.CurrentLineNumber}: {error}") from None


def local(tag: str) -> str:
    """The tag without its namespace prefix."""
    return tag.rpartition(":")[2]


def key_value(attributes: list[str]) -> tuple[str, str] | None:
    """The `key` and `value` of an XES attribute's element, in whatever order they stand; None when one is missing."""
    pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
    return (pairs["key"], pairs["value"]) if "key" in pairs and "value" in pairs else None
