"""XES files with one element a line and no attribute within another, as nearly all programs write the traces of a log.

But for their times most events are repetitions, byte for byte. Each distinct event without its time is parsed once, by
the rules of XML, and the file is then a row of codes beside a row of times, which a compiled scan reads: a fifth of the
time of the general way, so that every release can be read back before it is sealed. What is laid out in another way,
or is no sound log, is left to the general way; what both read is the same (`tests/unit/test_xes_lines.py`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import numpy as np

from connectors.times import offset_minutes
from connectors.xes_columns import CONVERT, Collector
from connectors.xes_scan import OTHER, UNREAD, Found, no_bodies, scan, with_room
from connectors.xes_stream import attribute, declared_encoding, local
from models.errors import InputError
from models.eventlog import Codes, EventLog, Ints

_CHUNK = 1 << 20
_LONGEST = 16 << 20
"""Bytes without the end of an event; of more, the general way says whether they are a log."""
_END = b"</event>\n"
_SHORTEST = len(b"<event>\n") + len(_END)
_TRACE = re.compile(rb"([ \t]*</trace>\n)?[ \t]*<trace>\n((?:[ \t]*<[^\n]*/>\n)*)")
_FIRST = re.compile(rb"^[ \t]*<trace>\n", re.MULTILINE)
_PLAIN = re.compile(
    rb'[ \t]*<(string|date|int|float|boolean|id) key="([A-Za-z0-9 _.:+-]*)" value="([A-Za-z0-9 _.:+-]*)"/>\n'
)
"""An attribute that is sound XML, whatever stands around it."""
_TAIL = re.compile(rb"[ \t]*</trace>\n[ \t]*</log>\n?")
_MANY = 1 << 14
"""Events from which on at least as many must be alike as are not: else the general way is as quick."""

_MOST_KEPT = 1 << 26
"""Bytes of distinct events that are held."""


class _OtherLayoutError(ValueError):
    """The file is not laid out so."""


def read(path: Path, collector: Collector) -> EventLog | None:
    """The log of the file by an empty `collector`, as `connectors.xes.read` gives it; None where that has to read it in
    its general way, and to say what is wrong with the file."""
    try:
        _Lines(collector).take(path)
        return collector.log()
    except (ValueError, KeyError, OverflowError, InputError, OSError, expat.ExpatError, zlib.error):
        return None


class _Lines:
    """What a scan finds, taken into a collector."""

    def __init__(self, to: Collector) -> None:
        self.to, self.bodies = to, no_bodies()
        self.prefix = f'<date key="{to.names.time}" value="'.encode()
        self.suffix = b'"/>\n'
        self.seen: dict[bytes, tuple[str, tuple[str, str]]] = {}
        """Attributes that are not plain."""
        name = f'<string key="{to.names.trace_name}" value="'.encode()
        self.bare = b"\t</trace>\n\t<trace>\n\t\t" + name, self.suffix
        """What stands around the name of a trace that has nothing else, as our own writer lays it out."""
        self.order: list[Codes] = []
        """The bodies of the events."""
        self.minutes: list[Any] = []

    def take(self, path: Path) -> None:
        with path.open("rb") as stream:
            for piece, last in _pieces(_unpacked(stream) if path.suffix.lower() == ".gz" else _plain(stream)):
                if last:
                    self._end(piece)
                else:
                    self._events(piece)
        self._columns()
        self._sound()

    def _events(self, piece: bytes) -> None:
        most = len(piece) // _SHORTEST + 1
        found = Found(
            np.empty(most, dtype=np.int32),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.int32),
            np.empty((most, 2), dtype=np.int64),
            np.empty((most, 2), dtype=np.int64),
        )
        self.bodies = with_room(self.bodies, most, len(piece))
        data, prefix, suffix = (np.frombuffer(text, dtype=np.uint8) for text in (piece, self.prefix, self.suffix))
        events = int(scan(data, prefix, suffix, self.bodies, found))
        known, many = int(self.bodies.known[0]), self.to.events + events
        kept = int(self.bodies.begin[known])
        if events == OTHER or (many > _MANY and 2 * known > many) or kept > _MOST_KEPT:
            raise _OtherLayoutError
        head = found.head[:events]
        for event in np.flatnonzero(head[:, 1] > head[:, 0]).tolist():
            self._head(piece[head[event, 0] : head[event, 1]], self.to.events + event)
        if not self.to.starts:
            raise _OtherLayoutError
        for event in np.flatnonzero(found.minutes[:events] == UNREAD).tolist():
            begin, end = found.time_line[event]
            found.time[event], found.minutes[event] = self._other_time(piece[begin:end])
        self.to.time.frombytes(found.time[:events].tobytes())
        self.order.append(found.body[:events].copy())
        self.minutes.append(found.minutes[:events].astype(np.int16))
        self.to.events += events

    def _head(self, written: bytes, event: int) -> None:
        """What stands between two events: the end of a trace, and the beginning of another."""
        if not self.to.starts:
            first = _FIRST.search(written)
            if first is None:
                raise _OtherLayoutError
            _check_beginning(written[: first.start()])
            written = b"</trace>\n" + written[first.start() :]
        self.to.starts.append(event)
        before, behind = self.bare
        name = written[len(before) : len(written) - len(behind)]
        if name.isalnum() and written.startswith(before) and written.endswith(behind):  # in ASCII, as bytes are
            names = self.to.case_column(self.to.names.trace_name, "string")
            names.append(((len(self.to.starts) - 1) << 32) + names.index[name.decode("ascii")])
            return
        found = _TRACE.fullmatch(written)
        if found is None or found[1] is None:
            raise _OtherLayoutError
        for line in found[2].splitlines(keepends=True):
            self.to.case_attribute(*self._line(line))

    def _line(self, written: bytes) -> tuple[str, tuple[str, str]]:
        """Element, key and value of an attribute."""
        plain = _PLAIN.fullmatch(written)
        if plain is not None:
            element, key, value = plain.groups()
            return element.decode("ascii"), (key.decode("ascii"), value.decode("ascii"))
        known = self.seen.get(written)
        if known is None:
            text = written.decode("utf-8").strip(" \t\n")
            element, pair = attribute(text) if text.endswith("/>") else ("", None)
            if pair is None or local(element) not in CONVERT:
                raise _OtherLayoutError
            known = self.seen[written] = element, pair
        return known

    def _other_time(self, line: bytes) -> tuple[int, int]:
        _, (_, text) = self._line(line)
        return self.to.parse(text), offset_minutes(text[-6:])

    def _end(self, rest: bytes) -> None:
        if not self.to.starts or _TAIL.fullmatch(rest) is None:
            raise _OtherLayoutError

    def _columns(self) -> None:
        """The columns of the events, each distinct body parsed once."""
        to, known, store = self.to, int(self.bodies.known[0]), self.bodies.store.tobytes()
        begin = self.bodies.begin.tolist()
        of_body: dict[tuple[str, str], Ints] = {}
        for body in range(known):
            for line in store[begin[body] : begin[body + 1]].splitlines(keepends=True):
                element, (key, text) = self._line(line)
                code = to.event_column(element, key).index[text]
                table = of_body.setdefault((element, key), np.full(known, -1, dtype=np.int64))
                if key == to.names.time or table[body] >= 0:
                    raise _OtherLayoutError
                table[body] = code
        order, rows = np.concatenate(self.order), np.arange(to.events, dtype=np.int64)
        for (element, key), table in of_body.items():
            codes = table[order]
            there = codes >= 0
            to.event_column(element, key).extend(rows[there], codes[there])
        to.timed.frombytes(rows.astype(np.int32).tobytes())
        minutes, offset = np.unique(np.concatenate(self.minutes), return_inverse=True)
        to.suffixes.update({_suffix(ahead): code for code, ahead in enumerate(minutes.tolist())})
        to.offset.frombytes(offset.astype(np.int32).tobytes())

    def _sound(self) -> None:
        """ExpatError where a line is no XML: a letter or a reference that it does not know."""
        checker = expat.ParserCreate("utf-8")
        checker.Parse(b"<log>", False)
        for line in self.seen:
            checker.Parse(line, False)
        checker.Parse(b"</log>", True)


def _suffix(ahead: int) -> str:
    """How a time ends whose clock is so many minutes ahead of UTC."""
    hours, minutes = divmod(abs(ahead), 60)
    return f"{'-' if ahead < 0 else '+'}{hours:02}:{minutes:02}"


def _check_beginning(written: bytes) -> None:
    """What stands before the first trace is the beginning of a log, in UTF-8 and without a document type."""
    if declared_encoding(written) is not None:
        raise _OtherLayoutError
    checker, opened = expat.ParserCreate("utf-8"), []

    def refuse(*_: Any) -> None:
        raise _OtherLayoutError

    checker.StartDoctypeDeclHandler = refuse
    checker.StartElementHandler = lambda tag, _: opened.append(tag)
    checker.Parse(written + b"</log>", True)
    if opened[0] != "log":
        raise _OtherLayoutError


def _plain(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _unpacked(stream: IO[bytes]) -> Iterator[bytes]:
    """A gzip file of one member, by the chunk; its checksum is looked at."""
    unpacking = zlib.decompressobj(wbits=31)
    while (chunk := stream.read(max(1, _CHUNK // 8))) or unpacking.unconsumed_tail:
        while chunk:
            yield unpacking.decompress(chunk, _CHUNK)
            chunk = unpacking.unconsumed_tail
    yield unpacking.flush()
    if not unpacking.eof or unpacking.unused_data:
        raise _OtherLayoutError


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The file cut behind events, and its rest, which is told apart by True."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        end = rest.rfind(_END) + len(_END)
        if end >= len(_END):
            yield rest[:end], False
            rest = rest[end:]
        elif len(rest) > _LONGEST:
            raise _OtherLayoutError
    yield rest, True
