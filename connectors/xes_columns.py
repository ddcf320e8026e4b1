"""Columns of a whole XES log, filled while its elements pass."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from connectors import bad_rows
from connectors.bad_rows import BadRows, fields_as_text
from connectors.columns import CASE_PREFIX, ColumnNames, as_text, constant_per_case, sorted_by_time
from connectors.times import ZonelessError, offset_minutes, parser, parser_that_notes
from connectors.xes_stream import local
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints

_MOST_ATTRIBUTES = 4096
"""Distinct attribute names. Each becomes a column over the whole log: names made from data would fill the memory."""


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false", "1", "0"):
        raise ValueError("not a boolean")
    return lowered in ("true", "1")


def _date(text: str) -> datetime | str:
    """Return an aware datetime. A date without a zone stays a text: only the event time needs an instant."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else text


CONVERT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "id": str,
    "int": int,
    "float": float,
    "boolean": _boolean,
    "date": _date,
}


def lacking(place: str, name: str) -> str:
    """Return the message for a trace or event without a required attribute.

    Parameters
    ----------
    place
        Place of the trace or event.
    name
        Name of the attribute.
    """
    return f"{place}: no {name}; every trace and event needs one (name other columns with --columns)"


_NAMED = 4
"""Nested attributes that a sentence names."""


class _Index(dict[str, int]):
    """Codes of texts, in order of first appearance."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


class Sparse:
    """A column under construction: rows that have a value, and the code of each.

    `append(row << 32 | index[text])` adds a row: eight bytes an entry, and each distinct text once.

    Parameters
    ----------
    kind
        The XES type.
    """

    __slots__ = ("_entries", "append", "index", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = _Index()
        self._entries = array("q")
        self.append = self._entries.append

    def extend(self, rows: Ints, codes: Ints) -> None:
        """Add many entries.

        Parameters
        ----------
        rows, codes
            int64[n], row of each entry, and code of its text.
        """
        self._entries.frombytes(((rows << 32) + codes).tobytes())

    @property
    def rows(self) -> Ints:
        """The rows that have a value, int64[N]."""
        return np.frombuffer(self._entries, dtype=np.int64) >> 32

    @property
    def codes(self) -> Ints:
        """The codes of their texts, int64[N]."""
        return np.frombuffer(self._entries, dtype=np.int64) & 0xFFFFFFFF

    def column(self, size: int, convert: Callable[[str], Any]) -> Column:
        """Return the dense column of `size` rows.

        Texts of equal value (1.0, 1.00) share a code; None and NaN are missing.

        Parameters
        ----------
        size
            Number of rows.
        convert
            Makes the value of a text.
        """
        values = Column.encode(convert(text) for text in self.index)
        codes = np.full(size, MISSING, dtype=np.int32)
        codes[self.rows] = values.codes[self.codes]
        return Column(codes, values.values)


class Collector:
    """Collects all attributes of a log in sparse columns, and makes the log of them."""

    def __init__(
        self,
        path: Path,
        names: ColumnNames,
        timezone: str | None,
        bad: BadRows | None = None,
        clock_times: array[int] | None = None,
    ) -> None:
        """Begin a log without events.

        Parameters
        ----------
        path
            The file, for messages.
        names
            Names of the parts of a log.
        timezone
            IANA name of the zone of times that have none.
        bad
            Collects events and traces that cannot be read, and are left out. Without it they are refused.
        clock_times
            Collects the local times (ns) of events whose times have no zone, if somebody counts them.
        """
        self.path, self.names, self.bad = path, names, bad
        if clock_times is None or timezone is None:
            self._parse = parser(timezone)
        else:
            self._parse = parser_that_notes(timezone, clock_times)
        self.parse = self._parse if bad is None else self._parse_or_mark
        # Events and cases that are left out, with the cause.
        self.unread_events: dict[int, str] = {}
        self.unread_cases: dict[int, str] = {}
        self.case_columns: dict[tuple[str, str], Sparse] = {}
        self.event_columns: dict[tuple[str, str], Sparse] = {}
        # First event of each trace.
        self.starts = array("q")
        # Times in the order of the file, the event of each, and the number of each one's suffix (`+02:00`).
        self.time = array("q")
        self.timed = array("i")
        self.offset = array("i")
        self.suffixes: dict[str, int] = {}
        # Distinct attribute names so far.
        self.attributes = 0
        self.events = 0
        # How often a key appears inside another attribute, a list or a container.
        self.nested = Counter[str]()

    def _parse_or_mark(self, text: str) -> int:
        """Parse the time of the current event. A time that cannot be read marks its event."""
        try:
            return self._parse(text)
        except ZonelessError:
            self.unread_events.setdefault(self.events - 1, bad_rows.ZONELESS)
        except (ValueError, OverflowError):
            self.unread_events.setdefault(self.events - 1, bad_rows.TIME)
        return 0

    def event_column(self, tag: str, key: str) -> Sparse:
        """Return the column of an event attribute; a new one for a new element and key.

        Parameters
        ----------
        tag
            Name of the element, which is the type.
        key
            Name of the attribute.
        """
        column = self.event_columns.get((key, tag))
        if column is None:
            self._count()
            column = self.event_columns[key, tag] = Sparse(local(tag))
        return column

    def _count(self) -> None:
        self.attributes += 1
        if self.attributes > _MOST_ATTRIBUTES:
            raise ValueError(f"more than {_MOST_ATTRIBUTES} different attributes; are data used as names?")

    def count_nested(self, pair: tuple[str, str] | None) -> None:
        """Count an attribute inside another one, a list or a container. Its value has no column, and is not read.

        Parameters
        ----------
        pair
            Key and value of the attribute; None if it lacks one, and is not counted.
        """
        if pair is None:
            return
        key, _ = pair
        if key not in self.nested:
            self._count()
        self.nested[key] += 1

    def report_of_nested(self) -> str:
        """Return the sentence on attributes that were not read."""
        keys = [key for key, _ in self.nested.most_common()]
        named = ", ".join(map(repr, keys[:_NAMED]))
        if len(keys) > _NAMED:
            named += f" and {len(keys) - _NAMED} more"
        return (
            f"{self.path}: {self.nested.total()} values are inside other attributes, lists or containers and are not "
            f"read ({named}): they are in no release, and no role applies to them; write those that matter as "
            "attributes of their trace or event"
        )

    def case_attribute(self, tag: str, pair: tuple[str, str] | None) -> None:
        """Add an attribute to the current trace.

        Parameters
        ----------
        tag
            Name of the element, which is the type. Elements of other types are left out.
        pair
            Key and value of the attribute; None if it lacks one, and is left out.
        """
        kind = local(tag)
        if pair is None or kind not in CONVERT:
            return
        key, text = pair
        column = self.case_column(key, kind)
        column.append(((len(self.starts) - 1) << 32) + column.index[text])

    def case_column(self, key: str, kind: str) -> Sparse:
        """Return the column of a trace attribute; a new one for a new key and type.

        Parameters
        ----------
        key
            Name of the attribute.
        kind
            Its type, the element without a prefix.
        """
        column = self.case_columns.get((key, kind))
        if column is None:
            self._count()
            column = self.case_columns[key, kind] = Sparse(kind)
        return column

    def log(self) -> EventLog:
        """Return the log of everything that was added. InputError if it is not a log."""
        starts = self._starts()
        n_events, n_cases = int(starts[-1]), len(starts) - 1
        if not n_events:
            raise NoEventsError(f"{self.path}: the log holds no events")
        names = self.names
        # Times first: errors about them are reported before those about other attributes.
        time = self._times(n_events)
        by_case = self._dense(self.case_columns, n_cases, self._case_place, self.unread_cases)
        by_event = self._dense(self.event_columns, n_events, self._event_place, self.unread_events)
        activity = self._complete(
            by_event.pop(names.activity, None),
            n_events,
            names.activity,
            self._event_place,
            (self.unread_events, bad_rows.NO_ACTIVITY),
        )
        case_ids = self._case_ids(by_case.pop(names.trace_name, None), n_cases)
        no_resource = Column(np.full(n_events, MISSING, dtype=np.int32), ())
        resource = by_event.pop(names.resource, no_resource)
        # A case id that each event repeats is not an attribute.
        by_event.pop(names.case, None)
        self._lift(by_event, by_case, starts)
        log = EventLog(
            case_ids=case_ids,
            starts=starts,
            activity=activity,
            time=time,
            resource=as_text(resource),
            row=np.arange(n_events),
            case_attributes=by_case,
            event_attributes=by_event,
            offset=self._offsets(n_events),
        )
        return sorted_by_time(self._readable(log))

    def _readable(self, log: EventLog) -> EventLog:
        """Drop the events and traces that cannot be read, and count them."""
        if self.bad is None or not (self.unread_events or self.unread_cases):
            return log
        keep_case = np.ones(log.n_cases, dtype=np.bool_)
        keep_case[list(self.unread_cases)] = False
        keep_event = np.repeat(keep_case, log.lengths)
        unread = [event for event in sorted(self.unread_events) if keep_event[event]]
        for case, cause in sorted(self.unread_cases.items()):
            self._count_bad(cause, self._case_place(case), f"{log.lengths[case]} events")
        for event in unread:
            fields = [f"{name}={column.decode()[event]}" for name, column in log.event_attributes.items()]
            shown = fields_as_text([log.activity.decode()[event], *fields])
            self._count_bad(self.unread_events[event], self._event_place(event), shown)
        keep_event[unread] = False
        kept = log.select_events(keep_event)
        emptied = (kept.lengths == 0) & (log.lengths > 0)  # a trace that never had events stays
        kept = kept.select_cases(keep_case & ~emptied)
        if not kept.n_events:
            raise self.bad.refused(len(self.bad))
        return kept

    def _count_bad(self, cause: str, place: str, text: str) -> None:
        assert self.bad is not None  # noqa: S101 - else nothing is left out
        reason = cause if cause != bad_rows.ZONELESS else f"{cause}; {bad_rows.NAME_THE_ZONE}"
        self.bad.add(cause, lambda: place, lambda: text, lambda: f": {reason}")

    def _starts(self) -> Ints:
        begin = np.frombuffer(self.starts, dtype=np.int64)
        return np.append(begin, self.events)

    def _event_place(self, row: int) -> str:
        starts = self._starts()
        case = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{self.path}: trace {case + 1}, event {row - int(starts[case]) + 1}"

    def _case_place(self, case: int) -> str:
        return f"{self.path}: trace {case + 1}"

    def _times(self, events: int) -> Ints:
        timed = np.frombuffer(self.timed, dtype=np.int32)
        counts = np.bincount(timed, minlength=events)
        self._once(counts, self.names.time, self._event_place, self.unread_events)
        if counts.min() < 1:
            if self.bad is None:
                raise InputError(lacking(self._event_place(int(np.argmin(counts))), self.names.time))
            for event in np.flatnonzero(counts < 1).tolist():
                self.unread_events.setdefault(event, bad_rows.NO_TIME)
        times = np.frombuffer(self.time, dtype=np.int64)
        if self.bad is None:
            return times
        return cast(Ints, self._at_events(times, events))

    def _at_events(self, values: Any, events: int) -> Any:
        """Return values, given in the order of the times, by event. An event may have no time, or two."""
        result = np.zeros(events, dtype=values.dtype)
        result[np.frombuffer(self.timed, dtype=np.int32)] = values
        return result

    def _offsets(self, events: int) -> Codes:
        """Return the minutes ahead of UTC of each event, from the end of its time (`+02:00`); others count as UTC."""
        minutes = np.asarray([offset_minutes(text) for text in self.suffixes], dtype=np.int32)
        ahead = minutes[np.frombuffer(self.offset, dtype=np.int32)]
        return cast(Codes, ahead if self.bad is None else self._at_events(ahead, events))

    def _once(self, counts: Ints, key: str, place_of: Callable[[int], str], unread: dict[int, str]) -> None:
        if counts.max(initial=0) <= 1:
            return
        if self.bad is None:
            raise InputError(f"{place_of(int(np.argmax(counts > 1)))}: attribute {key!r} appears twice")
        for row in np.flatnonzero(counts > 1).tolist():
            unread.setdefault(row, bad_rows.REPEATED)

    def _dense(
        self,
        sparse: Mapping[tuple[str, str], Sparse],
        size: int,
        place_of: Callable[[int], str],
        unread: dict[int, str],
    ) -> dict[str, Column]:
        """Return one dense column per key, and merge the columns of a key that has several types.

        Rows that cannot be read are added to `unread`, if such rows are left out.
        """
        result: dict[str, Column] = {}
        for (key, _), part in sparse.items():
            if part.kind not in CONVERT:
                continue
            self._once(np.bincount(part.rows, minlength=size), key, place_of, unread)
            if self.bad is not None:
                _mark_invalid(part, unread)
                column = part.column(size, partial(_converted_or_none, kind=part.kind))
            else:
                column = _column(part, key, size, place_of)
            if key not in result:
                result[key] = column
                continue
            both = np.flatnonzero((result[key].codes >= 0) & (column.codes >= 0)).tolist()
            if self.bad is not None:
                unread.update({row: bad_rows.REPEATED for row in both if row not in unread})
            result[key] = _merged(result[key], column, key, place_of, twice=self.bad is not None)
        return result

    def _complete(
        self,
        column: Column | None,
        size: int,
        key: str,
        place_of: Callable[[int], str],
        lacks: tuple[dict[int, str], str],
    ) -> Column:
        """Return the column as text, if each row has a value that is not empty.

        Rows without one are added to the first part of `lacks`, with the cause in its second part, if such rows are
        left out.
        """
        text = as_text(column or Column(np.full(size, MISSING, dtype=np.int32), ()))
        is_case_id = key == self.names.trace_name and place_of == self._case_place  # blanks are not a case id
        shown = [value.strip() if is_case_id else value for value in text.values]
        empty = [code for code, value in enumerate(shown) if not value]
        bad = np.flatnonzero((text.codes < 0) | np.isin(text.codes, empty))
        if len(bad) and self.bad is None:
            raise InputError(lacking(place_of(int(bad[0])), key))
        unread, cause = lacks
        for row in bad.tolist():
            unread.setdefault(row, cause)
        return text

    def _case_ids(self, column: Column | None, cases: int) -> tuple[str, ...]:
        lacks = self.unread_cases, bad_rows.NO_CASE
        names = self._complete(column, cases, self.names.trace_name, self._case_place, lacks)
        counts = np.bincount(names.codes[names.codes >= 0], minlength=1)
        if counts.max() > 1:
            same = np.flatnonzero(names.codes == np.argmax(counts > 1))
            if self.bad is None:
                raise InputError(
                    f"{self._case_place(int(same[1]))}: has the {self.names.trace_name} of trace {same[0] + 1}; "
                    "a case id appears once"
                )
            self._mark_repeated(names)
        return tuple("" if name is None else name for name in names.decode())

    def _mark_repeated(self, names: Column) -> None:
        """Mark the traces that have the name of an earlier one."""
        seen: set[int] = set()
        for case, code in enumerate(names.codes.tolist()):
            if code in seen:
                self.unread_cases.setdefault(case, bad_rows.REPEATED)
            seen.add(code)

    def _lift(self, by_event: dict[str, Column], by_case: dict[str, Column], starts: Ints) -> None:
        """Make event attributes `case:X` attributes of the case, and drop copies of trace attributes."""
        for key in [key for key in by_event if key.startswith(CASE_PREFIX)]:
            lifted, varying = constant_per_case(by_event.pop(key), starts)
            if varying is not None and self.bad is None:
                raise InputError(f"{self._case_place(varying)}: its events disagree about {key!r}")
            by_case.setdefault(key.removeprefix(CASE_PREFIX), lifted)


def _column(part: Sparse, key: str, size: int, place_of: Callable[[int], str]) -> Column:
    convert = CONVERT[part.kind]
    try:
        return part.column(size, convert)
    except (ValueError, OverflowError):
        row = int(part.rows[np.argmax(part.codes == _first_bad(part, convert))])
        raise InputError(f"{place_of(row)}: {key} is not a valid {part.kind}") from None


def _first_bad(part: Sparse, convert: Callable[[str], Any]) -> int:
    for code, text in enumerate(part.index):
        try:
            convert(text)
        except (ValueError, OverflowError):
            return code
    return 0


def _mark_invalid(part: Sparse, unread: dict[int, str]) -> None:
    """Mark the rows whose text is not a value of the type that the file states."""
    invalid = [code for text, code in part.index.items() if _converted_or_none(text, part.kind) is None]
    for row in part.rows[np.isin(part.codes, invalid)].tolist():
        unread.setdefault(row, bad_rows.TYPE)


def _converted_or_none(text: str, kind: str) -> Any:
    try:
        return CONVERT[kind](text)
    except (ValueError, OverflowError):
        return None


def _merged(
    first: Column,
    second: Column,
    key: str,
    place_of: Callable[[int], str],
    *,
    twice: bool = False,
) -> Column:
    both = np.flatnonzero((first.codes >= 0) & (second.codes >= 0))
    if len(both) and not twice:
        raise InputError(f"{place_of(int(both[0]))}: attribute {key!r} appears twice")
    pairs = zip(first.decode(), second.decode(), strict=True)
    return Column.encode(second_value if first_value is None else first_value for first_value, second_value in pairs)
