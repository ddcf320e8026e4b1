"""XES files (IEEE 1849), read as a stream.

Only the columns of the result grow with the log; of the XML nothing is kept (`connectors.xes_stream`). Every
attribute of a trace and of an event is kept with its XES type (string and id as str, int, float, boolean as
bool, date as aware datetime). Of a nested attribute the parent's value is kept. Its children are not, nor
those of a `list` or `container`, which have no value of their own: they are reported. A NaN is left out.
Events outside of traces belong to no case and are left out.

Two readers give the same log (docs/decisions/001): a compiled scan for files with one element a line, which nearly
all programs write (`connectors.xes_lines`), and expat for all others and for the error messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from operator import length_hint
from pathlib import Path

from connectors.bad_rows import BadRows
from connectors.columns import ColumnNames
from connectors.xes_columns import Collector
from connectors.xes_stream import DEEPEST, attribute, check_shape, line_of, local, refusal, tags
from models.eventlog import EventLog

# From the tags of an XES file, as they are written, to the columns of `xes.read`.

_MOST_SEEN, _LONGEST_SEEN = 1 << 15, 256
"""Tags of event attributes that are known by their text: at most 16 MiB of Latin text (four times that where every
character needs four bytes), however long the log and however many different tags it has. The first ones stay."""

_LOG, _TRACE, _EVENT = 1, 2, 3
"""Depth of `<log>`, of a trace and of an event. Attributes are one deeper than their trace or event."""


class TagReader:
    """Adds the tags of an XES file to a collector.

    An attribute of an event that came before with the same value is known by its text: it costs one look-up and one
    append. Times rarely repeat and are cut out of the tag.

    Parameters
    ----------
    to
        Receives the values.
    time_key
        Key of the attribute that holds the time of an event.
    """

    def __init__(self, to: Collector, time_key: str) -> None:
        self._to, self._time_key = to, time_key
        self._time_prefix = f'<date key="{time_key}" value="'
        # By text of a tag: the append of its column, and the code of its value.
        self._seen: dict[str, tuple[Callable[[int], None], int]] = {}
        # Number of open elements, and whether they are those of a trace and of an event.
        self._depth = 0
        self._in_trace = self._in_event = False
        # Row of the last event, and the number that a code is added to: both as one integer in the columns.
        self._row, self._base = -1, 0

    def take(self, tags_of_chunk: Iterator[str]) -> None:
        """Add the next tags of the file.

        The loop runs for every tag of the file, so its state is in local variables, and the most frequent tags are
        read here: known attributes, times as programs write them, and the begin and end of an event.

        Parameters
        ----------
        tags_of_chunk
            Tags as they are written (`xes_stream.tags`).
        """
        look_up = self._seen.get
        time_prefix, begin_of_time = self._time_prefix, len(self._time_prefix)
        depth, in_event, base = self._depth, self._in_event, self._base
        for tag in tags_of_chunk:
            if in_event and depth == _EVENT:
                append_and_code = look_up(tag)
                if append_and_code is not None:
                    append, code = append_and_code
                    append(base + code)
                    continue
                if tag == "</event>":
                    depth = _TRACE
                    continue
                if tag.startswith(time_prefix) and tag.endswith('"/>'):
                    text = tag[begin_of_time:-3]
                    if '"' not in text and "&" not in text and text.isprintable():
                        self._add_time(text)
                        continue
            elif tag == "<event>" and depth == _TRACE and self._in_trace:
                self._begin_event()
                in_event, base, depth = True, self._base, _EVENT
                continue
            if tag.startswith("</"):
                depth -= 1
            elif tag.startswith("<") and tag[1] not in "!?":
                self._open(tag, depth + 1)
                in_event, base = self._in_event, self._base
                depth += not tag.endswith("/>")
        self._depth = depth

    def _open(self, tag: str, depth: int) -> None:
        """Read a tag that opens an element at a depth; it may close it as well."""
        if depth == _EVENT + 1 and self._in_event:
            self._add_attribute(tag)
        elif depth == _EVENT:
            name, pair = attribute(tag)
            self._in_event = self._in_trace and local(name) == "event"
            if self._in_event:
                self._begin_event()
            elif self._in_trace:
                self._to.case_attribute(name, pair)
        elif depth == _TRACE:
            self._in_trace, self._in_event = local(attribute(tag)[0]) == "trace", False
            if self._in_trace:
                self._to.starts.append(self._row + 1)
        elif depth == _LOG or depth > DEEPEST:
            check_shape(attribute(tag)[0], depth)
        elif self._in_trace:
            self._to.count_nested(attribute(tag)[1])

    def _begin_event(self) -> None:
        self._in_event = True
        self._row += 1
        self._base = self._row << 32
        self._to.events = self._row + 1

    def _add_attribute(self, tag: str) -> None:
        """Add an attribute of an event, and remember its text if it is short and closes its element."""
        name, pair = attribute(tag)
        if pair is None:
            return
        key, text = pair
        if key == self._time_key:
            self._add_time(text)
            return
        column = self._to.event_column(name, key)
        code = column.index[text]
        column.append(self._base + code)
        if len(tag) <= _LONGEST_SEEN and len(self._seen) < _MOST_SEEN and tag.endswith("/>"):
            self._seen[tag] = column.append, code

    def _add_time(self, text: str) -> None:
        """Add the time of an event, and the end of its text if that is an offset (`+02:00`)."""
        to = self._to
        to.time.append(to.parse(text))
        to.timed.append(self._row)
        end = text[-6:]
        # Otherwise the end may be digits of a fraction.
        offset = end if end[:1] in "+-" else ""
        to.offset.append(to.suffixes.setdefault(offset, len(to.suffixes)))


_LARGE = 1 << 18
"""Bytes of a packed file, a sixteenth of a plain one, from which on compiled code is worth its import."""


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    bad: BadRows | None = None,
    clock_times: array[int] | None = None,
    say: Callable[[str], None] | None = None,
) -> EventLog:
    """Return the log of an XES file, the events of a case sorted by time.

    Ties are in file order; `row` is the position in the file. A trace without events stays as an empty case.

    Parameters
    ----------
    path
        The file, packed if its name ends in `.gz`.
    columns
        Part of the log (case, activity, time, resource) to XES key.
    timezone
        IANA name of the zone of times that have none.
    bad
        Collects the events and traces that cannot be read; they are left out. Broken XML is refused nevertheless.
    clock_times
        Collects the local times (ns) of events whose times have no zone.
    say
        Called with a sentence if the file has attributes that are not read.

    Raises
    ------
    InputError
        With file and line, or trace and event: broken XML, a document type, a trace without a name or with the name
        of an earlier one, an event without activity or time, a time without a zone, an attribute given twice, an
        empty log.
    """
    names = ColumnNames.of(columns)
    log = quickly(path, names, timezone, clock_times) if _large(path) else None
    if log is not None:
        return log
    if clock_times is not None:
        # The reader of lines may have collected some before it met another layout.
        del clock_times[:]
    return read_generally(path, names, timezone, bad, clock_times, say)


def quickly(
    path: Path, names: ColumnNames, timezone: str | None = None, clock_times: array[int] | None = None
) -> EventLog | None:
    """Return the log of a file with one element a line, or None for any other file.

    It imports compiled code, and on long logs then takes a quarter of the time. If kernels run as plain Python,
    expat is faster.

    Parameters
    ----------
    path
        The file.
    names
        Names of case id, activity, time and resource.
    timezone
        IANA name of the zone of times without one. None: they are refused.
    clock_times
        Extended by the local time of each time without a zone (`times.parser_that_notes`).
    """
    from models.compiled import runs_plainly

    if runs_plainly():
        return None
    from connectors import xes_lines

    return xes_lines.read(path, Collector(path, names, timezone, clock_times=clock_times))


def _large(path: Path) -> bool:
    try:
        return path.stat().st_size > (_LARGE if path.suffix.lower() == ".gz" else 16 * _LARGE)
    except OSError:
        return False


def read_generally(
    path: Path,
    names: ColumnNames,
    timezone: str | None = None,
    bad: BadRows | None = None,
    clock_times: array[int] | None = None,
    say: Callable[[str], None] | None = None,
) -> EventLog:
    """Return the log of a file of any layout, or report what is wrong with it.

    Parameters
    ----------
    path
        The file.
    names
        Names of the columns.
    timezone
        Zone of times without an offset.
    bad
        Collects rows that cannot be read; None to refuse the file instead.
    clock_times
        Collects the local times (ns) of events whose times have no zone.
    say
        Called with a sentence if the file has attributes that are not read.
    """
    collector = Collector(path, names, timezone, bad, clock_times)
    reader, passed = TagReader(collector, names.time), 0
    for chunk in tags(path):
        tags_left = iter(chunk)
        try:
            reader.take(tags_left)
        except (ValueError, OverflowError) as error:
            # The tag that failed is the last one that was taken from the chunk.
            failed_tag = passed + len(chunk) - length_hint(tags_left) - 1
            raise refusal(error, path, line_of(path, failed_tag)) from None
        passed += len(chunk)
    log = collector.log()
    if say is not None and collector.nested:
        say(collector.report_of_nested())
    return log
