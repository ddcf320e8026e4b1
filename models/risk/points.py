"""Knowledge of an adversary about a case: projections, points, and their coding into small integers.

Source: reidentification-risk-2020, section 3 and Table 3. A point is the joint tuple of an event over the columns of
a projection; case attributes are one tuple a case. Codes are kept between logs (`PointCoder`), so that an index can
follow a growing log without coding again what it has seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from models.errors import InputError, check_choice
from models.eventlog import Codes, Column, EventLog, Ints, starts_of
from models.keys import grouped
from models.knowledge import NANOSECONDS, Unit

Projection = Literal["A", "B", "C", "D", "E", "F"]
"""Table 3. A: activities, timestamps. B: activities, event and case attributes. C: activities, event attributes.
D: activities, case attributes. E: activities. F: case attributes."""

PROJECTIONS: tuple[Projection, ...] = get_args(Projection)

Semantics = Literal["joint", "per-column"]
"""joint: a point is the tuple of all columns (equation 2). per-column: each column's multiset is matched on its own,
as the paper's program does."""

Whole = npt.NDArray[np.integer[Any]]
"""int32 if all numbers fit, else int64: an index is kept from release to release, and most of it is such numbers."""

RECORDED = 0.9
"""Share of events that must carry an attribute before it is taken for one by default; BPIC 2012 lacks 7 % of the
resources, Sepsis three quarters of its laboratory values."""

ACTIVITY, TIME, RESOURCE = "activity", "time", "resource"

XES_RESOURCE = "org:resource"
"""Names of the resource in files: a reader makes a column of it, so no event attribute has that name."""

BLOCK = 1 << 20
"""Rows that are coded together: on the way they take ten times the memory of their codes."""


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The columns by which an adversary knows a case.

    Attributes
    ----------
    event
        Names among `activity`, `time`, `resource` and event attributes; empty for projection F.
    case
        Names of attributes of cases, which must match exactly.
    resolution
        Unit to which times are floored, on the clock that the file is written in (an adversary knows the
        date of a visit, not its date in UTC); in UTC if the log names none.
    """

    event: tuple[str, ...]
    case: tuple[str, ...] = ()
    resolution: Unit = "seconds"


def view(
    projection: Projection,
    event_attributes: Sequence[str],
    case_attributes: Sequence[str],
    resolution: Unit = "seconds",
) -> KnownColumns:
    """Return the view of a projection over the attributes that a log has.

    Parameters
    ----------
    projection
        Known parts of a case, A to F (reidentification-risk-2020, Table 3).
    event_attributes, case_attributes
        Names of the attributes that an adversary may know.
    resolution
        Unit in which times are known.

    Raises
    ------
    InputError
        If the log lacks what the projection needs, or for an unknown projection or resolution.
    """
    if projection not in get_args(Projection):
        raise InputError(f"projection {projection!r} is not one of A, B, C, D, E, F or all")
    check_choice("resolution", resolution, NANOSECONDS)
    reason = lacking(projection, event_attributes, case_attributes)
    if reason:
        raise InputError(reason)
    event: tuple[str, ...] = () if projection == "F" else (ACTIVITY,)
    if projection == "A":
        event += (TIME,)
    if projection in "BC":
        event += tuple(event_attributes)
    return KnownColumns(event, tuple(case_attributes) if projection in "BDF" else (), resolution)


def lacking(projection: Projection, event_attributes: Sequence[str], case_attributes: Sequence[str]) -> str:
    """Return why a projection is not available with these attributes; empty if it is.

    Parameters
    ----------
    projection
        Known parts of a case, A to F (reidentification-risk-2020, Table 3).
    event_attributes, case_attributes
        Names of the attributes that an adversary may know.
    """
    if projection in "BC" and not event_attributes:
        return f"projection {projection} needs event attributes and none is chosen or recorded"
    if projection in "BDF" and not case_attributes:
        return f"projection {projection} needs case attributes and none is chosen or recorded"
    return ""


def chosen_event_attributes(log: EventLog, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of attributes as a view knows them, each once.

    The resource column is `resource`, also if its XES name is given, unless an event attribute has that
    name.

    Parameters
    ----------
    log
        The log.
    names
        Names of event attributes.

    Raises
    ------
    InputError
        For an attribute that the log does not have, and for a resource column without values.
    """
    chosen = tuple(dict.fromkeys(_event_attribute(log, name) for name in names))
    if RESOURCE in chosen and not np.any(log.resource.codes >= 0):
        raise InputError("the log has no resource that could be known as an event attribute")
    return chosen


def _event_attribute(log: EventLog, name: str) -> str:
    if name in log.event_attributes or name in (ACTIVITY, TIME, RESOURCE):
        return name
    if name == XES_RESOURCE:
        return RESOURCE
    raise InputError(f"the log has no event attribute {name!r}")


def default_event_attributes(log: EventLog) -> tuple[str, ...]:
    """Return the attributes recorded at nearly every event and not constant, the resource too.

    On Sepsis: the department `org:group`, and no laboratory value.
    """
    names = [RESOURCE] if _informative(log.resource) else []
    return (*names, *(name for name, column in log.event_attributes.items() if _informative(column)))


def default_case_attributes(log: EventLog, sensitive: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the case attributes of the file.

    If there are none: the attributes recorded exactly once in every case that are not yes/no findings (Sepsis:
    `Age`, the paper's choice). Sensitive attributes are left out: the adversary wants to learn them and does not
    know them.

    Parameters
    ----------
    log
        The log.
    sensitive
        Names of sensitive attributes.
    """
    present = tuple(name for name, column in log.case_attributes.items() if np.any(column.codes >= 0))
    if not present:
        present = tuple(name for name, column in log.event_attributes.items() if _once_a_case(log, column))
    return tuple(name for name in present if name not in sensitive)


def _informative(column: Column) -> bool:
    return len(column.values) > 1 and bool(np.mean(column.codes >= 0) >= RECORDED)


def _once_a_case(log: EventLog, column: Column) -> bool:
    if not log.n_cases or np.any(log.lengths == 0):
        return False
    values_by_case = np.add.reduceat(column.codes >= 0, log.starts[:-1])
    is_flag = all(str(value).lower() in ("true", "false") for value in column.values)
    return bool(np.all(values_by_case == 1)) and not is_flag


def by_resource(log: EventLog) -> EventLog:
    """Return the same events with the resource as the person: one "case" a resource, its events in order of time.

    Events without a resource belong to nobody and are left out, and so are case attributes, which describe the old
    cases.

    Raises
    ------
    InputError
        If the log has no resource.
    """
    owned = np.flatnonzero(log.resource.codes >= 0)
    if not len(owned):
        raise InputError("unit = 'resource' needs a resource column and the log has none (XES key org:resource)")
    owner = log.resource.codes[owned]
    order = owned[np.lexsort((log.row[owned], log.time[owned], owner))]
    people, counts = np.unique(owner, return_counts=True)
    no_resource = Column(np.full(len(order), -1, dtype=np.int32), ())
    return EventLog(
        case_ids=tuple(str(log.resource.values[code]) for code in people),
        starts=starts_of(counts),
        activity=log.activity.take(order),
        time=log.time[order],
        resource=no_resource,
        row=log.row[order],
        event_attributes={name: column.take(order) for name, column in log.event_attributes.items()},
        offset=None if log.offset is None else log.offset[order],
    )


HALF = 32
"""Bits of half a number."""


class PointCoder:
    """Codes of points that stay the same from log to log.

    Case tuples share the code space, so that a case's attributes are one more item of its index entry.

    Parameters
    ----------
    seen
        Columns that the adversary knows.
    joint
        Whether a row has one code, of the tuple of its columns; else it has one for each column.
    """

    def __init__(self, seen: KnownColumns, *, joint: bool) -> None:
        self.view = seen
        self.joint = joint
        self._values: dict[str, dict[Hashable, int]] = {}
        self._kinds: dict[str, _RowCodes] = {}
        self._moment = seen.event.index(TIME) if TIME in seen.event else None
        self.size = 0

    def raw_events(self, log: EventLog) -> list[Whole]:
        """Return for each column, [E]: the value codes of each event; times are ticks of the resolution."""
        return [self._event_column(log, name) for name in self.view.event]

    def raw_cases(self, log: EventLog) -> list[Whole]:
        """Return for each case attribute, [C]: the value codes of each case."""
        return [self._stable(f"case {name}", log.case_values(name)) for name in self.view.case]

    def forget(self) -> None:
        """Drop what only the codes of another log need."""
        self._values, self._kinds = {}, {}

    def points(self, raw: Sequence[Whole], rows: int) -> Codes:
        """Return int32[rows, 1] joint codes, or int32[rows, columns] with one code a column.

        Parameters
        ----------
        raw
            Value codes by column (`raw_events`), of some events.
        rows
            Number of these events.
        """
        if self.joint:
            return self._code("event", raw, rows, self._moment)[:, None]
        if not raw:
            return np.zeros((rows, 0), dtype=np.int32)
        columns = []
        for k, column in enumerate(raw):
            moment = 0 if k == self._moment else None
            columns.append(self._code(f"column {k}", [column], rows, moment))
        return np.stack(columns, axis=1)

    def groups(self, raw: Sequence[Whole]) -> Codes:
        """Return one code for the tuple of case attributes, int32[rows].

        Parameters
        ----------
        raw
            Value codes by case attribute (`raw_cases`), at least one.
        """
        return self._code("case", raw, len(raw[0]))

    def _event_column(self, log: EventLog, name: str) -> Whole:
        if name == TIME:
            clock = log.time
            if log.offset is not None:
                clock = clock + log.offset.astype(np.int64) * NANOSECONDS["minutes"]
            return _narrow(clock // NANOSECONDS[self.view.resolution])
        if name == ACTIVITY:
            return self._stable(name, log.activity)
        if name == RESOURCE:
            return self._stable(name, log.resource)
        if name not in log.event_attributes:
            raise InputError(f"the log has no event attribute {name!r}")
        return self._stable(name, log.event_attributes[name])

    def _stable(self, name: str, column: Column) -> Codes:
        """Codes by value, equal in every log; missing is -1, a value like any other ("none" in the paper's Table 2)."""
        code_of_value = self._values.setdefault(name, {})
        codes = [code_of_value.setdefault(value, len(code_of_value)) for value in column.values]
        table = np.asarray([*codes, -1], dtype=np.int32)
        return table[column.codes]

    def _code(self, kind: str, raw: Sequence[Whole], rows: int, moment: int | None = None) -> Codes:
        row_codes, codes = self._kinds.setdefault(kind, _RowCodes(moment)), np.empty(rows, dtype=np.int32)
        for begin in range(0, rows, BLOCK):
            part = slice(begin, min(begin + BLOCK, rows))
            codes[part] = row_codes.code([column[part] for column in raw], part.stop - begin, self.size)
            self.size = max(self.size, int(codes[part].max(initial=-1)) + 1)
        return codes


def _narrow(numbers: Ints) -> Whole:
    """Return the numbers as int32 if all of them fit."""
    bounds = np.iinfo(np.int32)
    fits = bounds.min <= int(numbers.min(initial=0)) and int(numbers.max(initial=0)) <= bounds.max
    return numbers.astype(np.int32) if fits else numbers


class _RowCodes:
    """Codes of rows, the same in every log.

    Columns are folded in one after the other: the code of the row so far and its value in the next column are the two
    halves of one number. `moment` names the column that holds times.
    """

    def __init__(self, moment: int | None) -> None:
        self._moment = moment
        self._moments = _Numbers()
        self._folded: dict[int, _Numbers] = {}

    def code(self, columns: Sequence[Whole], rows: int, free: int) -> Codes:
        """Return the code of each row, int32[rows]; new ones are numbered from `free` on."""
        code, last = np.zeros(rows, dtype=np.int32), max(len(columns) - 1, 0)
        for place in range(last + 1):
            number = self._value(place, columns[place]).astype(np.int64) if columns else code.astype(np.int64)
            if place:
                number &= (1 << HALF) - 1
                number |= code.astype(np.int64) << HALF
            numbers = self._folded.setdefault(place, _Numbers())
            code = numbers.code(number, free if place == last else numbers.size)
        return code

    def _value(self, place: int, column: Whole) -> Whole:
        """Return a moment by its code; values of other columns are codes already."""
        if place != self._moment:
            return column
        moments = self._moments
        return moments.code(column.astype(np.int64), moments.size)


class _Numbers:
    """Codes of numbers, in two columns in the order of the numbers: 12 bytes a number."""

    def __init__(self) -> None:
        self._numbers, self._codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)

    @property
    def size(self) -> int:
        return len(self._numbers)

    def code(self, numbers: Ints, free: int) -> Codes:
        """Return the code of each, int32[numbers]; new ones are numbered from `free` on."""
        least = int(numbers.min(initial=0))
        distinct, group_of_number = grouped(numbers - least, int(numbers.max(initial=0)) - least + 1)
        distinct += least
        place = np.searchsorted(self._numbers, distinct)
        is_numbered = np.append(self._numbers, 0)[place] == distinct
        is_numbered &= place < self.size
        fresh = distinct[~is_numbered]
        if len(fresh):
            joined = np.concatenate((self._numbers, fresh))
            order = np.argsort(joined, kind="stable")  # two runs in order: merged in one pass
            self._numbers = joined[order]
            new_codes = np.arange(free, free + len(fresh), dtype=np.int32)
            self._codes = np.concatenate((self._codes, new_codes))[order]
            place = np.searchsorted(self._numbers, distinct)
        return self._codes[place][group_of_number]
