"""The compiled scan of `connectors.xes_lines`: from the bytes of a file to the distinct events in it and their times.

An event is the lines between `<event>` and `</event>`. Its body, all but the line of its time, is looked up by its
bytes: two events have one body only if these are equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Codes, Ints
from models.instants import FIRST_YEAR, LAST_YEAR

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_EVENT, _EVENT_END = (np.frombuffer(text, dtype=np.uint8) for text in (b"<event>\n", b"</event>\n"))
_DIGIT, _NEWLINE, _BLANK, _TAB, _PLUS, _MINUS = (np.uint8(ord(letter)) for letter in "0\n \t+-")
_PRIME, _BEGIN, _FOLD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xCBF29CE484222325), np.uint64(29)
_SECOND = 1_000_000_000

OTHER = -1
"""What `scan` returns where the file is laid out in another way."""
UNREAD = 1 << 14
"""In the place of minutes: a time in another form, to be read from its text."""


@content_free()
class Bodies(NamedTuple):
    """Distinct bodies: `slots` int32, a hash table of their numbers (-1: free) under `hashes`; body b is
    `store[begin[b]:begin[b + 1]]`; `known` int64[1], how many there are."""

    slots: Codes
    hashes: Words
    store: Bytes
    begin: Ints
    known: Ints


@content_free()
class Found(NamedTuple):
    """By event: `body`; `time` in nanoseconds and `minutes` by which its clock is ahead of UTC (UNREAD: neither), its
    line `time_line` int64[E, 2]; `head` int64[E, 2], the bytes since the event before."""

    body: Codes
    time: Ints
    minutes: Codes
    time_line: Ints
    head: Ints


@kernel
def scan(data: Bytes, prefix: Bytes, suffix: Bytes, bodies: Bodies, found: Found) -> int:
    """The events in `data`, which ends where one ends, or OTHER. `prefix`, `suffix`: between these, on a line of its
    own, stands a time. There is room for all events, and in `bodies` for all bodies."""
    events, at, head = 0, 0, 0
    inside = False
    begin, time_begin, time_end = 0, -1, -1
    own = _BEGIN
    while at < len(data):
        first = at
        while first < len(data) and (data[first] == _BLANK or data[first] == _TAB):
            first += 1
        if inside and _stands(data, first, prefix):
            end = _line_end(data, first)
            if time_begin >= 0:
                return OTHER
            time_begin, time_end = at, end
        elif inside and _stands(data, first, _EVENT_END):
            end = first + len(_EVENT_END)
            if time_begin < 0:
                return OTHER
            found.body[events] = _number(data, begin, time_begin, time_end, at, own, bodies)
            _read_time(data, time_begin, time_end, prefix, suffix, found, events)
            events += 1
            inside, head = False, end
        elif not inside and _stands(data, first, _EVENT):
            end = first + len(_EVENT)
            found.head[events, 0], found.head[events, 1] = head, at
            inside, begin, time_begin, own = True, end, -1, _BEGIN
        elif inside:
            end = _line_end(data, first)
            own = _mixed(own, data, at, end)
        else:
            end = _line_end(data, first)
        at = end
    return events if not inside and head == len(data) else OTHER


@part
def _stands(data, at, text):  # type: ignore[no-untyped-def]
    """Whether the text stands there."""
    if at + len(text) > len(data):
        return False
    same = 0
    while same < len(text) and data[at + same] == text[same]:
        same += 1
    return same == len(text)


@part
def _line_end(data, at):  # type: ignore[no-untyped-def]
    """Behind the line."""
    rest = data[at:]  # an index that begins at 0 needs no look at whether it is negative
    for k in range(len(rest)):
        if rest[k] == _NEWLINE:
            return at + k + 1
    return len(data) + 1


@part
def _mixed(own, data, at, end):  # type: ignore[no-untyped-def]
    """A number for what was and these bytes."""
    line = data[at:end]
    whole = len(line) // 8
    for word_at in range(whole):
        word = np.uint64(0)
        for k in range(8):
            word |= np.uint64(line[8 * word_at + k]) << np.uint64(8 * k)
        own = (own ^ word) * _PRIME
        own ^= own >> _FOLD
    for k in range(8 * whole, len(line)):
        own = (own ^ np.uint64(line[k])) * _PRIME
    return own


@part
def _equal(one, other):  # type: ignore[no-untyped-def]
    """Whether two pieces of one length have the same bytes."""
    differ = 0
    for k in range(len(one)):
        differ += one[k] != other[k]
    return differ == 0


@part
def _number(data, begin, time_begin, time_end, end, own, bodies):  # type: ignore[no-untyped-def]
    """The number of a body, which is new where none has its bytes."""
    mask = len(bodies.slots) - 1
    mixed = own ^ (own >> np.uint64(32))
    slot = np.int64(mixed & np.uint64(mask))
    before, behind = time_begin - begin, end - time_end
    while bodies.slots[slot] >= 0:
        body = bodies.slots[slot]
        start = bodies.begin[body]
        if bodies.hashes[slot] == own and bodies.begin[body + 1] - start == before + behind:
            known = bodies.store[start : start + before + behind]
            if _equal(known[:before], data[begin:time_begin]) and _equal(known[before:], data[time_end:end]):
                return body
        slot = (slot + 1) & mask
    body = bodies.known[0]
    bodies.known[0] = body + 1
    bodies.slots[slot], bodies.hashes[slot] = body, own
    start = bodies.begin[body]
    for k in range(before):
        bodies.store[start + k] = data[begin + k]
    for k in range(behind):
        bodies.store[start + before + k] = data[time_end + k]
    bodies.begin[body + 1] = start + before + behind
    return body


@part
def _read_time(data, begin, end, prefix, suffix, found, event):  # type: ignore[no-untyped-def]
    """A time as nearly all files write it: `2011-10-01T00:38:44.546+02:00`, with 3, 6 or 9 digits of a second."""
    while data[begin] != prefix[0]:
        begin += 1
    found.time_line[event, 0], found.time_line[event, 1] = begin, end
    found.minutes[event] = UNREAD
    at, zone = begin + len(prefix), end - len(suffix) - 6
    fraction = zone - at - 20
    if (fraction != 3 and fraction != 6 and fraction != 9) or not _stands(data, zone + 6, suffix):
        return
    if not (_between(data, at, 4, 45) and _between(data, at, 7, 45) and _between(data, at, 10, 84)):
        return
    if not (_between(data, at, 13, 58) and _between(data, at, 16, 58) and _between(data, at, 19, 46)):
        return
    if (data[zone] != _PLUS and data[zone] != _MINUS) or data[zone + 3] != 58:
        return
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    hour, minute, second = _digits(data, at + 11, 2), _digits(data, at + 14, 2), _digits(data, at + 17, 2)
    rest = _digits(data, at + 20, fraction)
    hours, minutes = _digits(data, zone + 1, 2), _digits(data, zone + 4, 2)
    if min(year, month, day, hour, minute, second, rest, hours, minutes) < 0:
        return
    if year < FIRST_YEAR or year > LAST_YEAR or month < 1 or month > 12 or day < 1 or day > _days(year, month):
        return
    if hour > 23 or minute > 59 or second > 59 or hours > 23 or minutes > 59:
        return
    for _ in range(9 - fraction):
        rest *= 10
    ahead = hours * 60 + minutes
    if data[zone] == _MINUS:
        ahead = -ahead
    found.minutes[event] = ahead
    whole = ((_since(year, month, day) * 24 + hour) * 60 + minute - ahead) * 60 + second
    found.time[event] = whole * _SECOND + rest


@part
def _between(data, at, place, letter):  # type: ignore[no-untyped-def]
    return data[at + place] == letter


@part
def _digits(data, at, count):  # type: ignore[no-untyped-def]
    """A whole number; -1 where it is none."""
    number = np.int64(0)
    for k in range(count):
        digit: Any = np.int64(data[at + k]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@part
def _days(year, month):  # type: ignore[no-untyped-def]
    """Of a month."""
    if month == 2:
        return 29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@part
def _since(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01 of the Gregorian calendar; the year begins in March."""
    if month <= 2:
        year -= 1
    month = (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 + day - 1 - 719468


def no_bodies() -> Bodies:
    """None so far."""
    slots = np.full(1 << 10, -1, dtype=np.int32)
    empty = np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return Bodies(slots, np.zeros(len(slots), dtype=np.uint64), *empty)


def with_room(bodies: Bodies, events: int, size: int) -> Bodies:
    """The same with room for so many more, of so many bytes in all."""
    known = int(bodies.known[0])
    most, used = known + events, int(bodies.begin[known])
    slots, hashes, store, begin, count = bodies
    if 2 * most > len(slots):
        slots, hashes = _wider(slots, hashes, 1 << (4 * most).bit_length())
    return Bodies(slots, hashes, _longer(store, used + size), _longer(begin, most + 1), count)


def _longer(column: Any, size: int) -> Any:
    if size <= len(column):
        return column
    longer = np.zeros(max(size, 2 * len(column)), dtype=column.dtype)
    longer[: len(column)] = column
    return longer


def _wider(slots: Codes, hashes: Words, size: int) -> tuple[Codes, Words]:
    wider, own = np.full(size, -1, dtype=np.int32), np.zeros(size, dtype=np.uint64)
    _move(slots, hashes, wider, own)
    return wider, own


@kernel
def _move(slots, hashes, wider, own):  # type: ignore[no-untyped-def]
    """Put all of a table into a wider one."""
    mask = len(wider) - 1
    for slot in range(len(slots)):
        if slots[slot] >= 0:
            hashed = hashes[slot]
            place = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(mask))
            while wider[place] >= 0:
                place = (place + 1) & mask
            wider[place], own[place] = slots[slot], hashed
