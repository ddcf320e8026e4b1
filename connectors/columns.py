"""The part of the log that each column of a file holds, by its name.

Headers of common exports (Disco, Celonis, pm4py, ProM) are known, as are the words for these parts in hand-made
tables. Only whole names count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog, Ints

CASE_PREFIX = "case:"
"""In flat files, and on events of some XES exports, a case attribute `X` is named `case:X`."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns of the parts of a log.

    Attributes
    ----------
    case, activity, time, resource
        Columns of case id, activity, time and resource. XES names are the default.
    lifecycle
        Column of the transition.
    """

    case: str = "case:concept:name"
    activity: str = "concept:name"
    time: str = "time:timestamp"
    resource: str = "org:resource"
    lifecycle: str = "lifecycle:transition"

    @classmethod
    def of(cls, columns: Mapping[str, str] | None) -> ColumnNames:
        """Return the names of a mapping from parts to columns. XES names are the default.

        Parameters
        ----------
        columns
            Names of columns by part: case, activity, time, resource, lifecycle. Parts may be left out.

        Raises
        ------
        InputError
            If a part is unknown, or a column is given for two of case, activity and time.
        """
        unknown = sorted(set(columns or {}) - {"case", "activity", "time", "resource", "lifecycle"})
        if unknown:
            raise InputError(f"columns: {', '.join(unknown)} unknown; map case, activity, time, resource or lifecycle")
        parts_of_column: dict[str, list[str]] = {}
        for part in ("case", "activity", "time"):
            if part in (columns or {}):
                parts_of_column.setdefault((columns or {})[part], []).append(part)
        for column, parts in parts_of_column.items():
            if len(parts) > 1:
                raise InputError(
                    f"columns: {column!r} is given as {' and '.join(parts)}; each needs a column of its own"
                )
        return cls(**(columns or {}))

    @property
    def trace_name(self) -> str:
        """The case column as an attribute of an XES trace: without the `case:` prefix."""
        return self.case.removeprefix(CASE_PREFIX)


_TIERS: Mapping[str, tuple[frozenset[str], ...]] = {
    role: tuple(frozenset(tier.split()) for tier in tiers)
    for role, tiers in {
        "case": (
            "case:concept:name",
            "casekey caseid caseconceptname",
            "case caseno casenr casenumber caseidentifier traceid trace processinstance processinstanceid instanceid",
        ),
        "activity": (
            "concept:name",
            "activity activityen activityname",
            "activityid activitykey conceptname event eventname task taskname step stepname",
        ),
        "time": (
            "time:timestamp",
            "completetimestamp completetime endtimestamp endtime completiontime completedat",
            "timestamp eventtime eventtimestamp timetimestamp datetime eventdatetime",
            "time date eventdate",
            "starttimestamp starttime startedat",
        ),
        "resource": (
            "org:resource",
            "resource orgresource",
            "user username originator performer",
        ),
    }.items()
}
"""For each part, from the surest words to the least sure. The end of an activity goes before its begin, as in XES."""


_XES_NAMES = frozenset(["case:concept:name", "concept:name", "time:timestamp", "org:resource"])


def bare_name(name: str) -> str:
    """Return the name without case, blanks and signs.

    Parameters
    ----------
    name
        Name of a column. The XES names stay as they are.

    Examples
    --------
    >>> bare_name("Complete Timestamp")
    'completetimestamp'
    """
    bare = name.strip().casefold()
    return bare if bare in _XES_NAMES else _bare(bare)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name)


def candidates(header: Sequence[str], role: str) -> list[str]:
    """Return the columns of the surest tier that has any.

    Parameters
    ----------
    header
        Names of the columns.
    role
        Part of the log: case, activity, time, resource or lifecycle.
    """
    for tier in _TIERS[role]:
        matching = [name for name in header if bare_name(name) in tier]
        if matching:
            return matching
    return []


def resolved(header: Sequence[str], columns: Mapping[str, str] | None) -> ColumnNames:
    """Return the names of the log's columns.

    They are the given names, then XES names that the header has, then the only known name of the header. A part with
    two equally good columns keeps its XES name, so that the error about its absence lists all columns. A resource is
    looked for only if another part was recognised by its name.

    Parameters
    ----------
    header
        Names of the columns.
    columns
        Part to column name, as the user gave them.
    """
    named_by_user = dict(columns or {})
    names = ColumnNames.of(named_by_user)
    recognised: dict[str, str] = {}
    used_names = set(named_by_user.values())
    for role in ("case", "activity", "time"):
        if role in named_by_user or getattr(names, role) in header:
            continue
        free = [name for name in candidates(header, role) if name not in used_names]
        if len(free) == 1:
            recognised[role] = free[0]
            used_names.add(free[0])
    if recognised and "resource" not in named_by_user and names.resource not in header:
        free = [name for name in candidates(header, "resource") if name not in used_names]
        if len(free) == 1:
            recognised["resource"] = free[0]
    return ColumnNames(**{**asdict(names), **recognised})


def recognised_columns(
    header: Sequence[str],
    columns: Mapping[str, str] | None,
    names: ColumnNames,
) -> str | None:
    """Return a line about the columns that were recognised by their names, or None.

    Parameters
    ----------
    header
        Names of the columns.
    columns
        Names that the user gave, by part of the log.
    names
        The columns of the parts of the log.
    """
    usual, named_by_user = ColumnNames(), columns or {}
    guessed = []
    for role in ("case", "activity", "time", "resource"):
        name = getattr(names, role)
        if role not in named_by_user and name != getattr(usual, role) and name in header:
            guessed.append(f"{role}={name!r}")
    return f"columns known by their names: {', '.join(guessed)} (others with --columns)" if guessed else None


_LONGEST = 32


def shape(text: str) -> str:
    """Return the shape of a value: 9 for a digit, A for a letter.

    An error may show it, since it does not show the value.

    Parameters
    ----------
    text
        The value.

    Examples
    --------
    >>> shape("31/12/2020 14:05")
    '99/99/9999 99:99'
    """
    if not text.strip():
        return "blank" if text else "empty"
    head = text[:_LONGEST]
    letters_and_digits = re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", head))
    printable = "".join(letter if " " <= letter <= "~" else "?" for letter in letters_and_digits)
    return f"{printable}..." if len(text) > _LONGEST else printable


def as_text(column: Column) -> Column:
    """Return the same column with text values (`7` for 7).

    Parameters
    ----------
    column
        Values of any type.
    """
    # Encoded again, since several values may have one text.
    texts = Column.encode([str(value) for value in column.values])
    recode = np.append(texts.codes, np.int32(MISSING))
    return Column(recode[column.codes], texts.values)


def _boolean(text: str) -> bool:
    return {"True": True, "False": False}[text]


def typed(column: Column, decimal_comma: bool = False) -> Column:
    """Return the column with ints, floats or booleans, if all texts are such values.

    Each text has to be exactly how Python writes that value. With `decimal_comma`, numbers with a decimal comma are
    floats too (`1.234,50`).

    Parameters
    ----------
    column
        A column of texts.
    decimal_comma
        Whether the file may write numbers with a decimal comma.

    Examples
    --------
    >>> typed(Column.encode(["1", "20"])).values
    (1, 20)
    >>> typed(Column.encode(["01", "20"])).values
    ('01', '20')
    """
    for kind in (int, float, _boolean):
        try:
            values: list[Any] = [kind(text) for text in column.values]
        except (ValueError, KeyError):
            continue
        # 1e999 and nan would be read back as other values: inf is written otherwise, and nan does not equal itself.
        is_same_text = all(str(value) == text for value, text in zip(values, column.values, strict=True))
        if is_same_text and all(value == value for value in values):
            return Column(column.codes, tuple(values))
    if decimal_comma and _commas(column.values):
        return as_numbers(column)
    return column


_WITH_COMMA = re.compile(r"-?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})*", re.ASCII)


def _commas(texts: Sequence[str]) -> bool:
    """Return whether all texts are numbers with a decimal comma, and not all could be whole numbers.

    Commas could also separate thousands.
    """
    return (
        any("," in text for text in texts)
        and all(_WITH_COMMA.fullmatch(text) for text in texts)
        and not all(_THOUSANDS.fullmatch(text) for text in texts)
    )


def as_numbers(column: Column) -> Column:
    """Return texts with a decimal comma as floats; `1,50` and `1,5` are one value.

    Parameters
    ----------
    column
        A column of texts, all of which are such numbers.
    """
    values = Column.encode(float(text.replace(".", "").replace(",", ".")) for text in column.values)
    return Column(np.append(values.codes, np.int32(MISSING))[column.codes], values.values)


def constant_per_case(column: Column, starts: Ints) -> tuple[Column, int | None]:
    """Return a column of events as one of cases, and the first case in which it varies.

    Missing entries do not count.

    Parameters
    ----------
    column
        One entry per event.
    starts
        int64[C + 1], as in EventLog.

    Returns
    -------
    column
        One value for each case.
    varying
        Number of the first case with several values; None if there is none.
    """
    n_cases = len(starts) - 1
    case_of_event = np.repeat(np.arange(n_cases), np.diff(starts))
    present = column.codes >= 0
    # A case varies if its least code differs from its greatest.
    low = np.full(n_cases, len(column.values), dtype=np.int32)
    high = np.full(n_cases, MISSING, dtype=np.int32)
    np.minimum.at(low, case_of_event[present], column.codes[present])
    np.maximum.at(high, case_of_event[present], column.codes[present])
    varying = np.flatnonzero((high >= 0) & (low != high))
    return Column(high, column.values), int(varying[0]) if len(varying) else None


def sorted_by_time(log: EventLog) -> EventLog:
    """Return the log with the events of each case in time order; ties keep their order.

    Returns
    -------
    EventLog
        The same object if its events are in this order already.
    """
    follows_in_case = np.ones(log.n_events, dtype=bool)
    follows_in_case[log.starts[:-1][log.lengths > 0]] = False
    is_earlier = np.diff(log.time, prepend=log.time[:1]) < 0
    if not np.any(is_earlier & follows_in_case):
        return log
    order = np.lexsort((log.time, log.case_of_event))
    return EventLog(
        log.case_ids,
        log.starts,
        Column(log.activity.codes[order], log.activity.values),
        log.time[order],
        Column(log.resource.codes[order], log.resource.values),
        log.row[order],
        log.case_attributes,
        {name: Column(column.codes[order], column.values) for name, column in log.event_attributes.items()},
        None if log.offset is None else log.offset[order],
    )
