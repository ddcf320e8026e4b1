"""Values as they are written: two values that look the same in a file become one value before a mechanism runs.

Bounds are counted on values, and a recipient counts the values of a file. Formats have fewer values than a log in
memory: CSV writes the number 1 and the text "1" in the same way, and nothing for the empty text; XML has no control
characters. Therefore every value gets a form that all formats can hold, once, before the mechanism sees it:

* activities and resources are texts; the values of an attribute are of one type: booleans, ints, floats, else texts;
* a label holds no control character (C0, DEL, C1 with NEL), no surrogate, no character that Unicode leaves without
  meaning, no line or paragraph separator, and none that reorders or hides its neighbours (bidirectional controls,
  zero-width spaces, the byte order mark, tags). Blanks among them become a space, the others U+FFFD;
* equal characters are coded in one way (Unicode's composed form, NFC);
* blanks at either end go, since readers of tables strip them; the empty text and NaN are missing values. An activity
  that has no character left is U+FFFD.

The difference between values that are merged is lost, and no claim is made about it.
"""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from models.eventlog import MISSING, Codes, Column, EventLog
from models.knowledge import NANOSECONDS, Unit

REPLACEMENT = "\ufffd"

_BLANK = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
"""Characters that end a line or separate fields in some format."""

_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero width, deprecated controls, annotations
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # surrogates, noncharacters
    "\U000e0000-\U000e007f]"  # tags
)

_LARGEST = 2**53
"""Ints up to here are floats without loss."""


def label(text: str) -> str:
    """Return the text as a label that any file can hold; empty if no character is left.

    Parameters
    ----------
    text
        Any text. Characters that nobody sees or that a format cannot hold become `REPLACEMENT`, and a run of line
        ends and tabs becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text.strip(" ")
    return unicodedata.normalize("NFC", _UNFIT.sub(REPLACEMENT, _BLANK.sub(" ", text)).strip())


def text_of(value: Any) -> str:
    """Return the text that a table shows for a value.

    Parameters
    ----------
    value
        A value of an attribute. Times with a zone are written in UTC.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return label(value.isoformat() if isinstance(value, (datetime, date)) else str(value))


def written(log: EventLog, sensitive: Sequence[str] = ()) -> EventLog:
    """Return the log with activities, resources and sensitive attributes in written form.

    The attributes become those of cases (`EventLog.case_values`), since releases carry them so.

    Parameters
    ----------
    log
        The source log.
    sensitive
        Names of the attributes to convert.
    """
    of_cases, of_events = dict(log.case_attributes), dict(log.event_attributes)
    for columns in (of_cases, of_events):
        columns.update([(name, attribute(columns[name])) for name in sensitive if name in columns])
    typed = replace(
        log,
        activity=_labels(log.activity, empty=REPLACEMENT),
        resource=_labels(log.resource, empty=None),
        case_attributes=of_cases,
        event_attributes=of_events,
    )
    # a case has one value, of its own or of its last event: they are of one type only when put together
    values = {name: attribute(typed.case_values(name)) for name in sensitive}
    return replace(typed, case_attributes={**typed.case_attributes, **values})


def attribute(column: Column) -> Column:
    """Return the values of one attribute in one type.

    All become booleans, ints or floats if every value is one, and texts otherwise.

    Parameters
    ----------
    column
        Values of any mixture of types. NaN counts as missing.
    """
    present_values = [value for value in column.values if not (isinstance(value, float) and math.isnan(value))]
    kinds = {_kind(value) for value in present_values}
    if len(kinds) == 1 and kinds <= {bool, int}:
        return _merged(column, column.values)
    if kinds and kinds <= {int, float} and all(_fits(value) for value in present_values):
        return _merged(column, [float(value) for value in column.values])
    return _merged(column, [text_of(value) or None for value in column.values])


_TYPES_OF_KIND: Mapping[type, tuple[type, ...]] = {
    bool: (bool, np.bool_),  # before int: in Python a bool is one
    int: (int, np.integer),
    float: (float, np.floating, Decimal),
}


def _kind(value: Any) -> type:
    """bool, int and float, also those of numpy and of databases (Decimal); object for all else."""
    for kind, types in _TYPES_OF_KIND.items():
        if isinstance(value, types):
            return kind
    return object


def _fits(value: Any) -> bool:
    """Return whether the number is the same as a float, and finite: `inf` is written in more ways than one."""
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > sys.float_info.dig:
        return False  # two such numbers could become one
    return abs(value) <= _LARGEST if isinstance(value, int) else math.isfinite(value)


def _labels(column: Column, empty: str | None) -> Column:
    return _merged(column, [text_of(value) or empty for value in column.values])


def _merged(column: Column, values: Iterable[Any]) -> Column:
    """Return the column with new values; equal ones share a code, None and NaN are missing."""
    coded = Column.encode(values)
    if coded.values == column.values and np.array_equal(coded.codes, np.arange(len(coded.values))):
        return column
    table: Codes = np.append(coded.codes, np.int32(MISSING))
    return Column(table[column.codes], coded.values)


def coarser_unit(log: EventLog, T: Unit) -> str | None:
    """Return the unit in which the log records its times, if it is coarser than `T`.

    Relative times in a finer unit than the log records show the same values under another name, so `T` protects less
    than it promises.

    Parameters
    ----------
    log
        The source.
    T
        Unit of the relative times.

    Returns
    -------
    str or None
        The coarsest unit of which all times of the log are whole multiples apart; None if none is coarser than `T`, or
        if all times are equal.
    """
    if log.n_events < 2:
        return None
    steps = np.asarray(np.diff(np.sort(log.time)), dtype=np.int64)
    if not steps.any():
        return None
    coarsest = None
    for unit, nanoseconds in NANOSECONDS.items():
        divides_all = not (steps % nanoseconds).any()
        if nanoseconds > NANOSECONDS[T] and divides_all:
            coarsest = unit
    return coarsest
