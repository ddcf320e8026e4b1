"""XES files (IEEE 1849), read as a stream.

What grows with the log are the columns of the result; of the XML nothing is kept (see connectors.xes_stream).
Which attributes are kept: every attribute of a trace and of an event, with its XES type (string and id as str,
int, float, boolean as bool, date as aware datetime). Of a nested attribute the parent's value is kept and the
children are not; `list` and `container` have no value of their own and are left out, as is a NaN. Events that
stand in no trace belong to no case and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.bad_rows import BadRows
from connectors.columns import ColumnNames
from connectors.times import parser
from connectors.xes_columns import CONVERT, Collector, converted, lacking
from connectors.xes_stream import DEEPEST, attribute, check_shape, elements, key_value, line_of, local, refusal, tags
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import EventLog

if TYPE_CHECKING:
    from connectors.xes_columns import Collector


# From the tags of an XES file, as they are written, to the columns of `xes.read`.

_MOST_SEEN, _LONGEST_SEEN = 1 << 15, 256
"""Tags of event attributes that are known by their text: at most 16 MiB of Latin text (four times that where every
character needs four bytes), however long the log and however many different tags it has. The first ones stay."""


def taker(to: Collector, time_key: str) -> Callable[[Iterator[str]], None]:
    """The function that takes the tags of a chunk, one flat closure, since its loop runs for every tag of the file.

    An attribute of an event that has come before, with the same value, is known by its text (`seen`): what is left to
    do is one look-up and one append. Times rarely repeat and are cut out of the tag.
    """
    depth, row, base = 0, -1, 0  # depth: open elements; 3 within an event of a trace
    in_trace = in_event = False
    seen: dict[str, tuple[Callable[[int], None], int]] = {}
    time, timed, parse = to.time.append, to.timed.append, to.parse
    offset, suffixes = to.offset.append, to.suffixes
    prefix = f'<date key="{time_key}" value="'
    start = len(prefix)

    def moment(text: str) -> None:
        time(parse(text))
        timed(row)
        end = text[-6:]
        offset(suffixes.setdefault(end if end[:1] in "+-" else "", len(suffixes)))  # not the digits of a fraction

    def attribute_of_event(written: str) -> None:
        tag, pair = attribute(written)
        if pair is None:
            return
        key, text = pair
        if key == time_key:
            moment(text)
            return
        column = to.event_column(tag, key)
        code = column.index[text]
        column.append(base + code)
        if len(written) <= _LONGEST_SEEN and len(seen) < _MOST_SEEN and written.endswith("/>"):
            seen[written] = column.append, code

    def opened(written: str) -> None:
        nonlocal row, base, in_trace, in_event
        at = depth + 1
        if at == 4:
            if in_event:
                attribute_of_event(written)
        elif at == 3:
            tag, pair = attribute(written)
            in_event = in_trace and local(tag) == "event"
            if in_event:
                row += 1
                base = row << 32
                to.events = row + 1
            elif in_trace:
                to.case_attribute(tag, pair)
        elif at == 2:
            in_trace, in_event = local(attribute(written)[0]) == "trace", False
            if in_trace:
                to.starts.append(row + 1)
        elif at == 1 or at > DEEPEST:
            check_shape(attribute(written)[0], at)

    def take(chunk: Iterator[str]) -> None:
        nonlocal depth, row, base, in_event
        for written in chunk:
            if depth == 3 and in_event:
                known = seen.get(written)
                if known is not None:
                    append, code = known
                    append(base + code)
                    continue
                if written == "</event>":
                    depth = 2
                    continue
                if written.startswith(prefix) and written.endswith('"/>'):
                    text = written[start:-3]
                    if '"' not in text and "&" not in text and text.isprintable():
                        moment(text)
                        continue
            elif written == "<event>" and depth == 2 and in_trace:
                row += 1
                base = row << 32
                to.events = row + 1
                in_event, depth = True, 3
                continue
            if written.startswith("</"):
                depth -= 1
            elif written.startswith("<") and written[1] not in "!?":
                opened(written)
                depth += not written.endswith("/>")

    return take


_LARGE = 1 << 18
"""Bytes of a packed file, a sixteenth of a plain one, from which on compiled code is worth its import."""


@content_free()
@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of `iter_traces`: its activity, time in nanoseconds, resource, and all further attributes."""

    activity: str
    time: int
    resource: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@content_free()
@dataclass(frozen=True, slots=True)
class Trace:
    """One trace of `iter_traces`, events in file order."""

    name: str
    events: tuple[TraceEvent, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def read(
    path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None, bad: BadRows | None = None
) -> EventLog:
    """The whole log. Events of a case are sorted by time (ties in file order); `row` is the position in the file.

    InputError (file and line, or trace and event): broken XML, a document type, a trace without a name or with the
    name of an earlier one, an event without activity or time, a time without a zone while `timezone` is None, an
    attribute given twice, an empty log. A trace without events stays as an empty case.
    With `bad`, events and traces that cannot be read are left out and counted there; broken XML is refused as before.
    """
    names = ColumnNames.of(columns)
    found = quickly(path, names, timezone) if _large(path) else None
    return read_generally(path, names, timezone, bad) if found is None else found


def quickly(path: Path, names: ColumnNames, timezone: str | None = None) -> EventLog | None:
    """The log of a file that is laid out as nearly all are, or None: it imports compiled code, and then takes a fifth
    of the time."""
    from connectors import xes_lines

    return xes_lines.read(path, Collector(path, names, timezone))


def _large(path: Path) -> bool:
    try:
        return path.stat().st_size > (_LARGE if path.suffix.lower() == ".gz" else 16 * _LARGE)
    except OSError:
        return False


def read_generally(path: Path, names: ColumnNames, timezone: str | None = None, bad: BadRows | None = None) -> EventLog:
    """The same of a file of any layout; what is wrong with one is said here."""
    collector = Collector(path, names, timezone, bad)
    take, passed = taker(collector, names.time), 0
    for chunk in tags(path):
        left = iter(chunk)
        try:
            take(left)
        except (ValueError, OverflowError) as error:
            raise refusal(error, path, line_of(path, passed + len(chunk) - length_hint(left) - 1)) from None
        passed += len(chunk)
    return collector.log()


def iter_traces(path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None) -> Iterator[Trace]:
    """The traces one at a time, in file order and with their events as they stand in the file: memory does not grow
    with the log. Errors as `read`, except that the names of traces are not compared with one another."""
    names = ColumnNames.of(columns)
    builder = _Builder(path, names, timezone)
    for _ in elements(path, builder.start, builder.end):
        yield from builder.finished
        builder.finished.clear()


class _Builder:
    """Whole traces, built as their elements pass."""

    def __init__(self, path: Path, names: ColumnNames, timezone: str | None) -> None:
        self.path, self.names, self.parse = path, names, parser(timezone)
        self.finished: list[Trace] = []
        self.number = 0
        self.open: list[str] = []
        self.own: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        self.events: list[TraceEvent] = []

    def start(self, tag: str, attributes: list[str]) -> None:
        self.open.append(local(tag))
        if self.open[1:] == ["trace"]:
            self.number, self.own, self.events = self.number + 1, {}, []
        elif self.open[1:] == ["trace", "event"]:
            self.attributes = {}
        elif self.open[1:3] == ["trace", "event"] and len(self.open) == 4:
            self._attribute(self.attributes, attributes, self.names.time)
        elif self.open[1:2] == ["trace"] and len(self.open) == 3:
            self._attribute(self.own, attributes, None)
        check_shape(tag, len(self.open))

    def end(self, _: str) -> None:
        if self.open[1:] == ["trace", "event"]:
            self._event()
        elif self.open[1:] == ["trace"]:
            name = self._required(self.own, self.names.trace_name, f"trace {self.number}")
            self.finished.append(Trace(name, tuple(self.events), self.own))
        self.open.pop()

    def _attribute(self, target: dict[str, Any], attributes: list[str], time: str | None) -> None:
        pair, kind = key_value(attributes), self.open[-1]
        if pair is None or kind not in CONVERT:
            return
        key, text = pair
        if key in target:
            raise ValueError(f"attribute {key!r} appears twice")
        value = self.parse(text) if key == time else converted(text, key, kind)
        if value == value:
            target[key] = value

    def _event(self) -> None:
        where = f"trace {self.number}, event {len(self.events) + 1}"
        activity = self._required(self.attributes, self.names.activity, where)
        time = self.attributes.pop(self.names.time, None)
        if time is None:
            raise InputError(lacking(f"{self.path}: {where}", self.names.time))
        resource = self.attributes.pop(self.names.resource, None)
        self.events.append(TraceEvent(activity, time, None if resource is None else str(resource), self.attributes))

    def _required(self, attributes: dict[str, Any], name: str, where: str) -> str:
        value = attributes.pop(name, None)
        if value is None or value == "":
            raise InputError(lacking(f"{self.path}: {where}", name))
        return str(value)
