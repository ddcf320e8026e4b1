"""XES files in the layout of our own writer: one element a line, nothing but plain attributes.

But for their times most events of a release are repetitions, byte for byte. Each distinct event without its time is
parsed once, by the rules of XML, and the file is then a row of codes beside a row of times, which are read by the
chunk: a tenth of the time of `connectors.xes`, so that every release can be read back before it is sealed. What is laid
out in another way is left to that reader.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from connectors.columns import as_text, sorted_by_time
from connectors.times import FIRST_YEAR, LAST_YEAR, parser
from connectors.xes_columns import CONVERT
from connectors.xes_stream import attribute, opened
from models.eventlog import Column, EventLog, Ints

_CHUNK = 1 << 20
_EVENT, _EVENT_END = b"\t\t<event>\n", b"\t\t</event>\n"
_TRACE, _TRACE_END = b"\t<trace>\n", b"\t</trace>\n"
_TAIL = _TRACE_END + b"</log>\n"
_TIME, _TIME_END = b'\t\t\t<date key="time:timestamp" value="', b'"/>\n'
_NAME, _NAME_END = b'\t\t<string key="concept:name" value="', b'"/>\n'
_FORM = b"0000-00-00T00:00:00."
"""How a time begins, each 0 a digit; 3, 6 or 9 digits and the offset of UTC follow."""
_UTC = b"+00:00"


class _OtherLayoutError(ValueError):
    """The file is not laid out as our writer does it."""


def read(path: Path) -> EventLog | None:
    """The log of the file, as `connectors.xes.read` gives it; None where that reader has to read it."""
    try:
        return _Pieces().log(path)
    except (ValueError, KeyError, expat.ExpatError):
        return None


class _Pieces(dict[bytes, int]):
    """Codes of distinct events, by their bytes without the time; a piece that begins a trace gets a code below 0."""

    def __init__(self) -> None:
        super().__init__()
        self.parse = parser(None)
        self.lines: dict[bytes, tuple[str, str, Any]] = {}
        self.events: list[tuple[str, Any]] = []
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
        name = own[len(_NAME) : -len(_NAME_END)]
        if own.startswith(_NAME) and own.endswith(_NAME_END) and name.isalnum():  # in ASCII, so written as it is
            self.traces.append({"concept:name": name.decode("ascii")})
        else:
            self.traces.append(self._attributes(own))
        self.first.append(self[begin + body])
        return -len(self.traces)

    def _event(self, body: bytes) -> tuple[str, Any]:
        found = self._attributes(body)
        activity, resource = str(found.pop("concept:name")), found.pop("org:resource", None)
        if found or not activity:
            raise _OtherLayoutError
        return activity, resource

    def _attributes(self, body: bytes) -> dict[str, Any]:
        """Values by key."""
        found: dict[str, Any] = {}
        for line in body.splitlines(keepends=True):
            key, kind, value = self.lines.get(line) or self._line(line)
            if key in found:
                raise _OtherLayoutError
            found[key] = CONVERT[kind](value)
        return found

    def _line(self, line: bytes) -> tuple[str, str, Any]:
        text = line.decode("utf-8").strip("\t\n")
        kind, pair = attribute(text) if text.endswith("/>") else ("", None)
        if pair is None:
            raise _OtherLayoutError
        self.lines[line] = (pair[0], kind, pair[1])
        return self.lines[line]

    def log(self, path: Path) -> EventLog:
        codes, times = array("q"), []
        for pieces in _pieces(path):
            rests, moments = self._split(pieces)
            codes.extend([self[rest] for rest in rests])
            times.append(moments)
        own = np.frombuffer(codes, dtype=np.int64).copy()
        begin = np.flatnonzero(own < 0)
        own[begin] = self.first
        if not len(own) or begin[0] != 0:
            raise _OtherLayoutError
        names = [str(trace.pop("concept:name")) for trace in self.traces]
        if len(set(names)) != len(names) or "" in names:
            raise _OtherLayoutError
        activity, resource = zip(*self.events, strict=True)
        attributes = sorted({key for trace in self.traces for key in trace})
        return sorted_by_time(
            EventLog(
                tuple(names),
                np.append(begin, len(own)).astype(np.int64),
                _column(activity, own),
                np.concatenate(times),
                as_text(_column(resource, own)),
                np.arange(len(own), dtype=np.int64),
                {key: Column.encode(trace.get(key) for trace in self.traces) for key in attributes},
            )
        )

    def _split(self, pieces: list[bytes]) -> tuple[list[bytes], Ints]:
        """Events without their times, which stand last in each, and the times. Times of one length in the form of our
        writer are read together, others one by one."""
        size = len(pieces[0]) - pieces[0].rfind(_TIME) if pieces else 0
        moments = _together(np.asarray([piece[-size:] for piece in pieces])) if size else None
        if moments is not None:
            return [piece[:-size] for piece in pieces], moments
        parts = [piece.rpartition(_TIME) for piece in pieces]
        return [rest for rest, _, _ in parts], self._any_times([text for _, _, text in parts])

    def _any_times(self, texts: list[bytes]) -> Ints:
        """Times of other forms, one by one."""
        found = []
        for text in texts:
            key, kind, value = self._line(_TIME + text) if text.count(b"\n") == 1 else ("", "", "")
            if (key, kind) != ("time:timestamp", "date"):
                raise _OtherLayoutError
            found.append(self.parse(value))
        return np.asarray(found, dtype=np.int64)


def _together(written: np.ndarray[Any, Any]) -> Ints | None:
    """The times of elements that all are as long as our writer makes them; None where one is written otherwise."""
    fraction = written.itemsize - len(_TIME) - len(_FORM) - len(_UTC) - len(_TIME_END)
    if fraction not in (3, 6, 9):
        return None
    form = np.frombuffer(_TIME + _FORM + b"0" * fraction + _UTC + _TIME_END, dtype=np.uint8)
    begin, end = len(_TIME), len(form) - len(_UTC) - len(_TIME_END)
    digits = np.zeros(len(form), dtype=np.bool_)
    digits[begin:end] = form[begin:end] == ord("0")
    table = written.view(np.uint8).reshape(len(written), len(form))
    shown = table[:, digits]
    if np.any(table[:, ~digits] != form[~digits]) or np.any(shown < ord("0")) or np.any(shown > ord("9")):
        return None
    years = (shown[:, :4] - ord("0")) @ np.asarray([1000, 100, 10, 1], dtype=np.int64)
    if years.min() < FIRST_YEAR or years.max() > LAST_YEAR:
        return None
    local = np.ascontiguousarray(table[:, begin:end]).view(f"S{end - begin}").ravel()
    return local.astype("datetime64[ns]").astype(np.int64)


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
