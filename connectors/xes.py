"""XES files (IEEE 1849), read as a stream.

Only the columns of the result grow with the log; of the XML nothing is kept (`connectors.xes_stream`). Every
attribute of a trace and of an event is kept with its XES type (string and id as str, int, float, boolean as bool,
date as aware datetime). Of a nested attribute the parent's value is kept, and its children are not. `list` and
`container` have no value of their own and are left out, as is a NaN. Events outside of traces belong to no case and
are left out.

Two readers give the same log (docs/decisions/001): a compiled scan for files with one element a line, which nearly
all programs write (`connectors.xes_lines`), and expat for all others and for the error messages.
"""

from __future__ import annotations

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


def taker(to: Collector, time_key: str) -> Callable[[Iterator[str]], None]:
    """Return the function that adds the tags of a chunk to a collector.

    It is one flat closure, since its loop runs for every tag of the file. An attribute of an event that came before
    with the same value is known by its text (`seen`): it costs one look-up and one append. Times rarely repeat and
    are cut out of the tag.
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
                seen_before = seen.get(written)
                if seen_before is not None:
                    append, code = seen_before
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


def read(
    path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None, bad: BadRows | None = None
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

    Raises
    ------
    InputError
        With file and line, or trace and event: broken XML, a document type, a trace without a name or with the name
        of an earlier one, an event without activity or time, a time without a zone, an attribute given twice, an
        empty log.
    """
    names = ColumnNames.of(columns)
    log = quickly(path, names, timezone) if _large(path) else None
    return read_generally(path, names, timezone, bad) if log is None else log


def quickly(path: Path, names: ColumnNames, timezone: str | None = None) -> EventLog | None:
    """Return the log of a file with one element a line, or None for any other file.

    It imports compiled code, and on long logs then takes a quarter of the time. If kernels run as plain Python,
    expat is faster.
    """
    from models.compiled import runs_plainly

    if runs_plainly():
        return None
    from connectors import xes_lines

    return xes_lines.read(path, Collector(path, names, timezone))


def _large(path: Path) -> bool:
    try:
        return path.stat().st_size > (_LARGE if path.suffix.lower() == ".gz" else 16 * _LARGE)
    except OSError:
        return False


def read_generally(path: Path, names: ColumnNames, timezone: str | None = None, bad: BadRows | None = None) -> EventLog:
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
    """
    collector = Collector(path, names, timezone, bad)
    take, passed = taker(collector, names.time), 0
    for chunk in tags(path):
        tags_left = iter(chunk)
        try:
            take(tags_left)
        except (ValueError, OverflowError) as error:
            raise refusal(error, path, line_of(path, passed + len(chunk) - length_hint(tags_left) - 1)) from None
        passed += len(chunk)
    return collector.log()
