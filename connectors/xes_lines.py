"""The compiled reader of XES files with one element a line and no nested attributes.

Nearly all programs write logs in this layout. Except for times, most lines are repetitions, byte for byte. So each
distinct line is parsed once, by the rules of XML, and the file becomes a sequence of line numbers and a sequence of
times. A compiled scan reads it, on long logs in a quarter of the time of the general reader; therefore every release
can be read back before it is sealed. The general reader reads other layouts and broken logs, and reports their faults
(docs/decisions/001). Both readers give the same log (`tests/unit/test_xes_lines.py`).
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from connectors.times import offset_minutes
from connectors.xes_columns import CONVERT, Collector
from connectors.xes_stream import attribute, declared_encoding, local
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, EventLog, Ints
from models.instants import FIRST_YEAR, LAST_YEAR

# The compiled scan reads the bytes of a file, and returns the lines and the times of all events.
#
# An event is the lines between `<event>` and `</event>`. Each of its lines except that of its time is looked up in a
# hash table by its bytes: two lines have the same number only if these bytes are equal.

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_EVENT, _EVENT_END = (np.frombuffer(text, dtype=np.uint8) for text in (b"<event>\n", b"</event>\n"))
_NEWLINE, _BLANK, _TAB = (np.uint8(ord(letter)) for letter in "\n \t")
_ZERO, _PLUS, _MINUS, _COLON, _POINT, _T = (np.uint8(ord(letter)) for letter in "0+-:.T")
_PRIME, _BEGIN, _FOLD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xCBF29CE484222325), np.uint64(29)
_SECOND = 1_000_000_000
_DAYS_TO_1970 = 719_468
"""Days from the first of March of year 0 to 1970-01-01."""

OTHER = -1
"""Result of `scan` for a file with another layout."""
UNREAD = 1 << 14
"""Value of `minutes` for a time in another form, which must be read from its text."""


@content_free()
class DistinctLines(NamedTuple):
    """Distinct lines of events, numbered in the order in which they first appear.

    Attributes
    ----------
    slots
        int32, a hash table of the numbers of lines (-1: free).
    hashes
        uint64, the hash of each slot.
    store, begin
        Line n is `store[begin[n]:begin[n + 1]]`.
    n_lines
        int64[1], the number of lines.
    """

    slots: Codes
    hashes: Words
    store: Bytes
    begin: Ints
    n_lines: Ints


@content_free()
class ParsedEvents(NamedTuple):
    """Events in the order of the file.

    Attributes
    ----------
    line
        int32[L], numbers of the lines of all events, without those of times.
    line_end
        int64[E], the end of each event's lines in `line`.
    time
        int64[E], ns since 1970-01-01 UTC.
    minutes
        int32[E], minutes that its clock is ahead of UTC; UNREAD if the time has another form.
    time_line
        int64[E, 2], begin and end of the line of its time.
    head
        int64[E, 2], begin and end of the bytes since the event before.
    """

    line: Codes
    line_end: Ints
    time: Ints
    minutes: Codes
    time_line: Ints
    head: Ints


@kernel
def scan(data: Bytes, prefix: Bytes, suffix: Bytes, lines: DistinctLines, events_out: ParsedEvents) -> int:
    """Return the number of events in `data`, or OTHER for another layout.

    Parameters
    ----------
    data
        Bytes that end with an event.
    prefix, suffix
        The bytes around a time, on a line of its own.
    lines
        Receives new lines; it must have room for all lines of `data`.
    events_out
        Receives the events and their lines; it must have room for all.
    """
    # `at` is the begin of a line, `first` its first letter, `end` the begin of the next line. `head` is the end of the
    # event before.
    events, n_lines, at, head = 0, 0, 0, 0
    inside, has_time = False, False
    while at < len(data):
        first = at
        while first < len(data) and (data[first] == _BLANK or data[first] == _TAB):
            first += 1
        if inside and _begins_with(data, first, prefix):
            end = _line_end(data, first)
            if has_time or end > len(data):
                return OTHER
            _read_time(data, first, end, prefix, suffix, events_out, events)
            has_time = True
        elif inside and _begins_with(data, first, _EVENT_END):
            end = first + len(_EVENT_END)
            if not has_time:
                return OTHER
            events_out.line_end[events] = n_lines
            events += 1
            inside, head = False, end
        elif not inside and _begins_with(data, first, _EVENT):
            end = first + len(_EVENT)
            events_out.head[events, 0], events_out.head[events, 1] = head, at
            inside, has_time = True, False
        elif inside:
            end = _line_end(data, first)
            if end > len(data):
                return OTHER
            events_out.line[n_lines] = _number(data, at, end, lines)
            n_lines += 1
        else:
            end = _line_end(data, first)
        at = end
    return events if not inside and head == len(data) else OTHER


@part
def _begins_with(data, at, text):  # type: ignore[no-untyped-def]
    """Return whether the text is at this place."""
    if at + len(text) > len(data):
        return False
    same = 0
    while same < len(text) and data[at + same] == text[same]:
        same += 1
    return same == len(text)


@part
def _line_end(data, at):  # type: ignore[no-untyped-def]
    """Return the place behind the line."""
    remainder = data[at:]  # an index that begins at 0 needs no test whether it is negative
    for k in range(len(remainder)):
        if remainder[k] == _NEWLINE:
            return at + k + 1
    return len(data) + 1


@part
def _hash(data, at, end):  # type: ignore[no-untyped-def]
    """Return a hash of these bytes."""
    mixed = _BEGIN
    line = data[at:end]
    n_words = len(line) // 8
    for word_at in range(n_words):
        word = np.uint64(0)
        for k in range(8):
            word |= np.uint64(line[8 * word_at + k]) << np.uint64(8 * k)
        mixed = (mixed ^ word) * _PRIME
        mixed ^= mixed >> _FOLD
    for k in range(8 * n_words, len(line)):
        mixed = (mixed ^ np.uint64(line[k])) * _PRIME
    return mixed ^ (mixed >> np.uint64(32))


@part
def _equal(first, second):  # type: ignore[no-untyped-def]
    """Return whether two pieces of the same length have the same bytes."""
    differ = 0
    for k in range(len(first)):
        differ += first[k] != second[k]
    return differ == 0


@part
def _number(data, at, end, lines):  # type: ignore[no-untyped-def]
    """Return the number of the line from `at` to `end`; a new one if no line has its bytes."""
    line_hash = _hash(data, at, end)
    mask = len(lines.slots) - 1
    slot = np.int64(line_hash & np.uint64(mask))
    while lines.slots[slot] >= 0:
        number = lines.slots[slot]
        start, stop = lines.begin[number], lines.begin[number + 1]
        same_length = stop - start == end - at
        if lines.hashes[slot] == line_hash and same_length and _equal(lines.store[start:stop], data[at:end]):
            return number
        slot = (slot + 1) & mask
    number = lines.n_lines[0]
    lines.n_lines[0] = number + 1
    lines.slots[slot], lines.hashes[slot] = number, line_hash
    start = lines.begin[number]
    for k in range(end - at):
        lines.store[start + k] = data[at + k]
    lines.begin[number + 1] = start + end - at
    return number


@part
def _read_time(data, begin, end, prefix, suffix, events_out, event):  # type: ignore[no-untyped-def]
    """Read a time such as `2011-10-01T00:38:44.546+02:00`, with 3, 6 or 9 digits of a second."""
    events_out.time_line[event, 0], events_out.time_line[event, 1] = begin, end
    events_out.minutes[event] = UNREAD
    at, zone = begin + len(prefix), end - len(suffix) - 6
    fraction = zone - at - 20
    if (fraction != 3 and fraction != 6 and fraction != 9) or not _begins_with(data, zone + 6, suffix):
        return
    if data[at + 4] != _MINUS or data[at + 7] != _MINUS or data[at + 10] != _T:
        return
    if data[at + 13] != _COLON or data[at + 16] != _COLON or data[at + 19] != _POINT:
        return
    if (data[zone] != _PLUS and data[zone] != _MINUS) or data[zone + 3] != _COLON:
        return
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    hour, minute, second = _digits(data, at + 11, 2), _digits(data, at + 14, 2), _digits(data, at + 17, 2)
    second_fraction = _digits(data, at + 20, fraction)
    hours, minutes = _digits(data, zone + 1, 2), _digits(data, zone + 4, 2)
    if min(year, month, day, hour, minute, second, second_fraction, hours, minutes) < 0:
        return
    if year < FIRST_YEAR or year > LAST_YEAR or month < 1 or month > 12 or day < 1 or day > _days(year, month):
        return
    if hour > 23 or minute > 59 or second > 59 or hours > 23 or minutes > 59:
        return
    for _ in range(9 - fraction):
        second_fraction *= 10
    ahead = hours * 60 + minutes
    if data[zone] == _MINUS:
        ahead = -ahead
    events_out.minutes[event] = ahead
    seconds = ((_since(year, month, day) * 24 + hour) * 60 + minute - ahead) * 60 + second
    events_out.time[event] = seconds * _SECOND + second_fraction


@part
def _digits(data, at, count):  # type: ignore[no-untyped-def]
    """Return a whole number, or -1 if it is none."""
    number = np.int64(0)
    for k in range(count):
        digit: Any = np.int64(data[at + k]) - np.int64(_ZERO)
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@part
def _days(year, month):  # type: ignore[no-untyped-def]
    """Return the number of days of a month."""
    if month == 2:
        return 29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@part
def _since(year, month, day):  # type: ignore[no-untyped-def]
    """Return the days since 1970-01-01 in the Gregorian calendar. Here a year begins in March."""
    if month <= 2:
        year -= 1
    month = (month + 9) % 12
    days_before_year = 365 * year + year // 4 - year // 100 + year // 400
    days_before_month = (month * 153 + 2) // 5
    return days_before_year + days_before_month + day - 1 - _DAYS_TO_1970


def no_lines() -> DistinctLines:
    """Return an empty table."""
    slots = np.full(1 << 10, -1, dtype=np.int32)
    empty = np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return DistinctLines(slots, np.zeros(len(slots), dtype=np.uint64), *empty)


def with_room(lines: DistinctLines, more: int, size: int) -> DistinctLines:
    """Return the same lines with room for so many more of them, and for so many more bytes.

    Parameters
    ----------
    lines
        Distinct lines so far.
    more
        Number of further lines.
    size
        Bytes of these lines.
    """
    count = int(lines.n_lines[0])
    most, used = count + more, int(lines.begin[count])
    slots, hashes = lines.slots, lines.hashes
    if 2 * most > len(slots):
        slots, hashes = _wider(slots, hashes, 1 << (4 * most).bit_length())
    store, begin = _longer(lines.store, used + size), _longer(lines.begin, most + 1)
    return DistinctLines(slots, hashes, store, begin, lines.n_lines)


def _longer(column: Any, size: int) -> Any:
    if size <= len(column):
        return column
    longer = np.zeros(max(size, 2 * len(column)), dtype=column.dtype)
    longer[: len(column)] = column
    return longer


def _wider(slots: Codes, hashes: Words, size: int) -> tuple[Codes, Words]:
    wider, wider_hashes = np.full(size, -1, dtype=np.int32), np.zeros(size, dtype=np.uint64)
    _move(slots, hashes, wider, wider_hashes)
    return wider, wider_hashes


@kernel
def _move(slots, hashes, wider, wider_hashes):  # type: ignore[no-untyped-def]
    """Insert all entries of a table into a wider one."""
    mask = len(wider) - 1
    for slot in range(len(slots)):
        if slots[slot] >= 0:
            hashed = hashes[slot]
            place = np.int64(hashed & np.uint64(mask))
            while wider[place] >= 0:
                place = (place + 1) & mask
            wider[place], wider_hashes[place] = slots[slot], hashed


_CHUNK = 1 << 20
_LONGEST = 16 << 20
"""Most bytes without the end of an event. With more, the general reader decides whether they are a log."""
_END = b"</event>\n"
_TRACE = re.compile(rb"([ \t]*</trace>\n)?[ \t]*<trace>\n((?:[ \t]*<[^\n]*/>\n)*)")
_FIRST = re.compile(rb"^[ \t]*<trace>\n", re.MULTILINE)
_PLAIN = re.compile(
    rb'[ \t]*<(string|date|int|float|boolean|id) key="([A-Za-z0-9 _.:+-]*)" value="([A-Za-z0-9 _.:+-]*)"/>\n'
)
"""An attribute that is sound XML in any context."""
_TAIL = re.compile(rb"[ \t]*</trace>\n[ \t]*</log>\n?")
_MOST_KEPT = 1 << 26
"""Most bytes of distinct lines that are kept."""


class _OtherLayoutError(ValueError):
    """The file has another layout."""


def read(path: Path, collector: Collector) -> EventLog | None:
    """Return the log of a file, or None if the general reader has to read it.

    Parameters
    ----------
    path
        The file.
    collector
        A collector without events.
    """
    try:
        _Lines(collector).take(path)
        return collector.log()
    except (ValueError, KeyError, OverflowError, InputError, OSError, expat.ExpatError, zlib.error):
        return None


class _Lines:
    """Adds the results of a scan to a collector."""

    def __init__(self, to: Collector) -> None:
        self.to, self.lines = to, no_lines()
        self.prefix = f'<date key="{to.names.time}" value="'.encode()
        self.suffix = b'"/>\n'
        # Attributes that needed the rules of XML, by their bytes.
        self.seen: dict[bytes, tuple[str, tuple[str, str]]] = {}
        name = f'<string key="{to.names.trace_name}" value="'.encode()
        self.bare = b"\t</trace>\n\t<trace>\n\t\t" + name, self.suffix
        """The bytes around the name of a trace without other attributes, in the layout of `connectors.xes_write`."""
        # By piece of the file: the numbers of all lines, how many each event has, and the minutes of its clock.
        self.line: list[Codes] = []
        self.n_lines: list[Ints] = []
        self.minutes: list[Any] = []

    def take(self, path: Path) -> None:
        """Add all events of a file, in pieces that end with an event."""
        unpack = _unpacked if path.suffix.lower() == ".gz" else _chunks
        with path.open("rb") as stream:
            for piece, is_last in _pieces(unpack(stream)):
                if is_last:
                    self._end(piece)
                else:
                    self._events(piece)
        self._columns()
        self._check_xml()

    def _events(self, piece: bytes) -> None:
        """Scan a piece, and add its traces and times; the columns are made at the end."""
        texts = (piece, self.prefix, self.suffix)
        data, prefix, suffix = (np.frombuffer(text, dtype=np.uint8) for text in texts)
        n_newlines = int(np.count_nonzero(data == _NEWLINE))
        most = n_newlines // 2  # an event has two lines of its own: its begin and its end
        parsed = ParsedEvents(
            np.empty(n_newlines, dtype=np.int32),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.int32),
            np.empty((most, 2), dtype=np.int64),
            np.empty((most, 2), dtype=np.int64),
        )
        self.lines = with_room(self.lines, n_newlines, len(piece))
        events = int(scan(data, prefix, suffix, self.lines, parsed))
        bytes_of_lines = int(self.lines.begin[self.lines.n_lines[0]])
        if events == OTHER or bytes_of_lines > _MOST_KEPT:
            raise _OtherLayoutError
        # Between two events there may be the end of a trace and the beginning of another.
        head = parsed.head[:events]
        for event in np.flatnonzero(head[:, 1] > head[:, 0]).tolist():
            self._head(piece[head[event, 0] : head[event, 1]], self.to.events + event)
        if not self.to.starts:
            raise _OtherLayoutError
        # Times in forms that the scan does not read.
        for event in np.flatnonzero(parsed.minutes[:events] == UNREAD).tolist():
            begin, end = parsed.time_line[event]
            parsed.time[event], parsed.minutes[event] = self._other_time(piece[begin:end])
        self.to.time.frombytes(parsed.time[:events].tobytes())
        line_end = parsed.line_end[:events]
        self.line.append(parsed.line[: line_end[-1]].copy())
        self.n_lines.append(np.diff(line_end, prepend=0))
        self.minutes.append(parsed.minutes[:events].astype(np.int16))
        self.to.events += events

    def _head(self, written: bytes, event: int) -> None:
        """Read the lines between two events: the end of a trace, and the beginning of another."""
        if not self.to.starts:
            first = _FIRST.search(written)
            if first is None:
                raise _OtherLayoutError
            _check_beginning(written[: first.start()])
            written = b"</trace>\n" + written[first.start() :]
        self.to.starts.append(event)
        before, behind = self.bare
        name = written[len(before) : len(written) - len(behind)]
        if name.isalnum() and written.startswith(before) and written.endswith(behind):  # of bytes: ASCII letters only
            names = self.to.case_column(self.to.names.trace_name, "string")
            names.append(((len(self.to.starts) - 1) << 32) + names.index[name.decode("ascii")])
            return
        trace = _TRACE.fullmatch(written)
        if trace is None or trace[1] is None:
            raise _OtherLayoutError
        for line in trace[2].splitlines(keepends=True):
            self.to.case_attribute(*self._line(line))

    def _line(self, written: bytes) -> tuple[str, tuple[str, str]]:
        """Return element, key and value of an attribute."""
        plain = _PLAIN.fullmatch(written)
        if plain is not None:
            element, key, value = plain.groups()
            return element.decode("ascii"), (key.decode("ascii"), value.decode("ascii"))
        parsed = self.seen.get(written)
        if parsed is None:
            text = written.decode("utf-8").strip(" \t\n")
            element, pair = attribute(text) if text.endswith("/>") else ("", None)
            if pair is None or local(element) not in CONVERT:
                raise _OtherLayoutError
            parsed = self.seen[written] = element, pair
        return parsed

    def _other_time(self, line: bytes) -> tuple[int, int]:
        _, (_, text) = self._line(line)
        return self.to.parse(text), offset_minutes(text[-6:])

    def _end(self, tail: bytes) -> None:
        if not self.to.starts or _TAIL.fullmatch(tail) is None:
            raise _OtherLayoutError

    def _columns(self) -> None:
        """Add the columns of the events. Each distinct line is parsed once."""
        to = self.to
        columns, column_of_line, code_of_line = self._attributes()
        line = np.concatenate(self.line)
        events = np.arange(to.events, dtype=np.int32)
        event = np.repeat(events, np.concatenate(self.n_lines))
        column = column_of_line[line]
        for number, (element, key) in enumerate(columns):
            in_column = column == number
            rows = event[in_column]
            if (rows[1:] == rows[:-1]).any():  # an event has the attribute twice
                raise _OtherLayoutError
            to.event_column(element, key).extend(rows.astype(np.int64), code_of_line[line[in_column]])
        to.timed.frombytes(events.tobytes())
        minutes, offset = np.unique(np.concatenate(self.minutes), return_inverse=True)
        to.suffixes.update({_suffix(ahead): code for code, ahead in enumerate(minutes.tolist())})
        to.offset.frombytes(offset.astype(np.int32).tobytes())

    def _attributes(self) -> tuple[list[tuple[str, str]], Codes, Codes]:
        """Return the element and key of each column, and for each line its column and the code of its text there."""
        bounds = self.lines.begin[: self.lines.n_lines[0] + 1].tolist()
        store = self.lines.store[: bounds[-1]].tobytes()
        self.lines = no_lines()
        numbers: dict[tuple[str, str], int] = {}
        column_of_line = np.empty(len(bounds) - 1, dtype=np.int32)
        code_of_line = np.empty(len(bounds) - 1, dtype=np.int32)
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            element, (key, text) = self._line(store[begin:end])
            if key == self.to.names.time:
                raise _OtherLayoutError
            column_of_line[number] = numbers.setdefault((element, key), len(numbers))
            code_of_line[number] = self.to.event_column(element, key).index[text]
        return list(numbers), column_of_line, code_of_line

    def _check_xml(self) -> None:
        """Raise ExpatError if a line is not XML, such as one with an invalid letter or reference."""
        checker = expat.ParserCreate("utf-8")
        checker.Parse(b"<log>", False)
        for line in self.seen:
            checker.Parse(line, False)
        checker.Parse(b"</log>", True)


def _suffix(ahead: int) -> str:
    """Return the suffix of a time whose clock is so many minutes ahead of UTC."""
    sign = "-" if ahead < 0 else "+"
    hours, minutes = divmod(abs(ahead), 60)
    return f"{sign}{hours:02}:{minutes:02}"


def _check_beginning(written: bytes) -> None:
    """Check that the bytes before the first trace begin a log, in UTF-8 and without a document type."""
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


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _unpacked(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a gzip file of one member, and check its checksum."""
    unpacking = zlib.decompressobj(wbits=31)
    while (chunk := stream.read(max(1, _CHUNK // 8))) or unpacking.unconsumed_tail:
        while chunk:
            yield unpacking.decompress(chunk, _CHUNK)
            chunk = unpacking.unconsumed_tail
    yield unpacking.flush()
    if not unpacking.eof or unpacking.unused_data:
        raise _OtherLayoutError


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the file cut behind events, then its remainder, which is marked by True."""
    pending = b""
    for chunk in chunks:
        pending += chunk
        end = pending.rfind(_END) + len(_END)
        if end >= len(_END):
            yield pending[:end], False
            pending = pending[end:]
        elif len(pending) > _LONGEST:
            raise _OtherLayoutError
    yield pending, True
