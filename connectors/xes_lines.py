"""XES files in the layout of our own writer: one element a line, nothing but plain attributes.

Most events of a release are repetitions, byte for byte. Each distinct event is parsed once, by the rules of XML, and
the file is then a row of codes: a fifth of the time of `connectors.xes`, so that every release can be read back before
it is sealed. What is laid out in another way is left to that reader.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from connectors.columns import as_text, sorted_by_time
from connectors.times import parser
from connectors.xes_columns import CONVERT
from connectors.xes_stream import attribute, opened
from models.eventlog import Column, EventLog

_CHUNK = 1 << 20
_EVENT, _EVENT_END = b"\t\t<event>\n", b"\t\t</event>\n"
_TRACE, _TRACE_END = b"\t<trace>\n", b"\t</trace>\n"
_TAIL = _TRACE_END + b"</log>\n"


class _OtherLayoutError(ValueError):
    """The file is not laid out as our writer does it."""


def read(path: Path) -> EventLog | None:
    """The log of the file, as `connectors.xes.read` gives it; None where that reader has to read it."""
    try:
        return _Pieces().log(path)
    except (ValueError, KeyError, expat.ExpatError):
        return None


class _Pieces(dict[bytes, int]):
    """Codes of distinct events, by their bytes; a piece that begins a trace gets a code below 0."""

    def __init__(self) -> None:
        super().__init__()
        self.parse = parser(None)
        self.lines: dict[bytes, tuple[str, str, Any]] = {}
        self.events: list[tuple[str, int, str | None]] = []
        self.traces: list[dict[str, Any]] = []
        self.first: list[int] = []
        """Code of the first event of each trace."""

    def __missing__(self, piece: bytes) -> int:
        if piece.startswith(_EVENT):
            code = self[piece] = len(self)
            self.events.append(self._event(piece[len(_EVENT) :]))
            return code
        head, begin, body = piece.partition(_EVENT)
        before, trace, own = head.partition(_TRACE)
        if not (begin and trace) or (before if self.traces else b"") != (_TRACE_END if self.traces else b""):
            raise _OtherLayoutError
        if not self.traces:
            expat.ParserCreate("utf-8").Parse(before + b"</log>\n", True)
        self.traces.append(self._attributes(own))
        self.first.append(self[begin + body])
        return -len(self.traces)

    def _event(self, body: bytes) -> tuple[str, int, str | None]:
        found = self._attributes(body)
        activity, time = str(found.pop("concept:name")), self.parse(found.pop("time:timestamp"))
        resource = found.pop("org:resource", None)
        if found or not activity:
            raise _OtherLayoutError
        return activity, time, resource

    def _attributes(self, body: bytes) -> dict[str, Any]:
        """Values by key; the time stays text, since it has nanoseconds."""
        found: dict[str, Any] = {}
        for line in body.splitlines(keepends=True):
            key, kind, value = self.lines.get(line) or self._line(line)
            if key in found:
                raise _OtherLayoutError
            found[key] = value if key == "time:timestamp" else CONVERT[kind](value)
        return found

    def _line(self, line: bytes) -> tuple[str, str, Any]:
        text = line.decode("utf-8").strip("\t\n")
        kind, pair = attribute(text) if text.endswith("/>") else ("", None)
        if pair is None:
            raise _OtherLayoutError
        self.lines[line] = (pair[0], kind, pair[1])
        return self.lines[line]

    def log(self, path: Path) -> EventLog:
        codes = array("q")
        for pieces in _pieces(path):
            codes.extend([self[piece] for piece in pieces])
        own = np.frombuffer(codes, dtype=np.int64).copy()
        begin = np.flatnonzero(own < 0)
        own[begin] = self.first
        if not len(own) or begin[0] != 0:
            raise _OtherLayoutError
        names = [str(trace.pop("concept:name")) for trace in self.traces]
        if len(set(names)) != len(names) or "" in names:
            raise _OtherLayoutError
        activity, time, resource = zip(*self.events, strict=True)
        attributes = sorted({key for trace in self.traces for key in trace})
        return sorted_by_time(
            EventLog(
                tuple(names),
                np.append(begin, len(own)).astype(np.int64),
                _column(activity, own),
                np.asarray(time, dtype=np.int64)[own],
                as_text(_column(resource, own)),
                np.arange(len(own), dtype=np.int64),
                {key: Column.encode(trace.get(key) for trace in self.traces) for key in attributes},
            )
        )


def _column(values: tuple[Any, ...], codes: Any) -> Column:
    """The value of each event from that of each distinct one."""
    distinct = Column.encode(values)
    return Column(distinct.codes[codes], distinct.values)


def _pieces(path: Path) -> Iterator[list[bytes]]:
    """The file cut behind each event, chunk by chunk; _OtherLayoutError where it does not end as a log does."""
    rest = b""
    with opened(path) as stream:
        while chunk := stream.read(_CHUNK):
            *pieces, rest = (rest + chunk).split(_EVENT_END)
            yield pieces
    if rest != _TAIL:
        raise _OtherLayoutError
