"""Event logs as flat tables with the XES column names, for CSV and Parquet.

One row is one event. Case attributes are columns `case:X`, with the same value on all rows of a case; the case id is
`case:concept:name`. A table holds no case without events, and CSV does not distinguish "" and missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import bad_rows
from connectors.bad_rows import BadRows, Fault, PlaceOfRow, fields_as_text
from connectors.columns import CASE_PREFIX, ColumnNames, as_text, constant_per_case, recognised_columns, resolved, shape
from connectors.reading import Reading
from connectors.time_columns import readable_times
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Column, EventLog, Ints, starts_of

if TYPE_CHECKING:
    import pandas as pd


def from_frame(
    frame: pd.DataFrame, names: ColumnNames, reading: Reading, source: str, place_of: PlaceOfRow
) -> EventLog:
    """Group the rows of a table into cases, each in time order.

    Cases are in order of first appearance; `row` is the table's row.

    Parameters
    ----------
    frame
        The table.
    names
        Its columns for the parts of a log.
    reading
        The user's statements about the file.
    source
        Name of the file, for messages.
    place_of
        Place of a row.

    Raises
    ------
    InputError
        Missing columns (which, and which exist), no rows, a row without case, activity or time, a time that cannot be
        read or has no zone, a `case:` attribute with two values in one case.
    """
    check_columns([str(name) for name in frame.columns], names, source)
    bad = BadRows(source) if reading.bad_rows is None else reading.bad_rows
    # Lines that are not rows of a table: its reader has left them out already.
    lines_left_out = len(bad)
    if not len(frame) and not lines_left_out:
        raise NoEventsError(f"{source}: the log holds no events")
    owner = as_text(encode(frame[names.case]))
    activity = as_text(encode(frame[names.activity]))
    time, faulty_times = readable_times(frame[names.time], names.time, reading, place_of)
    faults = [
        *_blank(owner, names.case, "case", bad_rows.NO_CASE),
        *_blank(activity, names.activity, "activity", bad_rows.NO_ACTIVITY),
        *faulty_times,
    ]
    readable = _counted_out(faults, frame, bad, place_of)
    if bad and (not reading.leaves_out or not readable.any()):
        raise bad.refused(len(frame) + lines_left_out)
    if not readable.all():
        kept_rows = np.flatnonzero(readable)
        place_in_file = place_of
        frame = frame.loc[readable].reset_index(drop=True)
        time = time[readable]
        # Coded again: the values of rows that were left out are dropped.
        owner = as_text(encode(frame[names.case]))
        activity = as_text(encode(frame[names.activity]))

        def place_of(row: int) -> str:
            return place_in_file(int(kept_rows[row]))

    parts = {names.case, names.activity, names.time, names.resource}
    attributes = {str(name): encode(frame[name]) for name in frame.columns if name not in parts}
    resource = None
    if names.resource in frame.columns:
        resource = as_text(encode(frame[names.resource]))
    return log_of(owner, activity, time, resource, attributes, place_of, lenient=reading.declared)


def names_of_log(header: Sequence[str], reading: Reading) -> ColumnNames:
    """Return the names of the log's columns, and report those that were recognised.

    Parameters
    ----------
    header
        Names of the columns.
    reading
        Statements of the user about the file; its `say` gets the message about recognised columns.
    """
    names = resolved(header, reading.columns)
    note = recognised_columns(header, reading.columns, names)
    if note:
        reading.say(note)
    return names


def log_of(
    owner: Column,
    activity: Column,
    time: Ints,
    resource: Column | None,
    attributes: Mapping[str, Column],
    place_of: PlaceOfRow,
    *,
    lenient: bool = False,
) -> EventLog:
    """Return the rows of a table as cases in order of first appearance.

    Parameters
    ----------
    owner, activity, time, resource
        One entry per row; a log without resources has None.
    attributes
        All other columns.
    place_of
        Place of a row.
    lenient
        If a case has two values of a `case:` attribute, keep the one that the column names last, instead of an
        InputError.
    """
    n_cases, n_events = len(owner.values), len(time)
    if resource is None:
        resource = Column(np.full(n_events, MISSING, dtype=np.int32), ())
    order = _order(owner, time)
    if order is None:
        # All logs that this program writes are in order. Then no column is copied.
        case_numbers = np.arange(n_cases + 1, dtype=np.int32)
        starts = np.searchsorted(owner.codes, case_numbers).astype(np.int64, copy=False)
        row = np.arange(n_events, dtype=np.int64)
    else:
        starts = starts_of(np.bincount(owner.codes, minlength=n_cases))
        row = order.astype(np.int64, copy=False)
        time = time[order]
    event_attributes = {
        name: _taken(column, order) for name, column in attributes.items() if not name.startswith(CASE_PREFIX)
    }
    return EventLog(
        case_ids=tuple(owner.values),
        starts=starts,
        activity=_taken(activity, order),
        time=time,
        resource=_taken(resource, order),
        row=row,
        case_attributes=_case_attributes(attributes, order, starts, place_of, lenient=lenient),
        event_attributes=event_attributes,
    )


def _order(owner: Column, time: Ints) -> Ints | None:
    """Return the rows by case and time; None if they are in this order already."""
    case = owner.codes
    later_case = case[1:] > case[:-1]
    same_case = case[1:] == case[:-1]
    not_earlier = time[1:] >= time[:-1]
    if (later_case | same_case & not_earlier).all():
        return None
    return np.lexsort((time, case))


def _taken(column: Column, order: Ints | None) -> Column:
    return column if order is None else Column(column.codes[order], column.values)


def check_columns(header: list[str], names: ColumnNames, source: str) -> None:
    """Check that case, activity and time are among the columns, each name once.

    Parameters
    ----------
    header
        Names of the columns.
    names
        The names that the parts of the log have.
    source
        Name of the log in messages.

    Raises
    ------
    InputError
        If a column is missing, appears twice, or the header consists of values.
    """
    check_names(header, names, source)
    _refuse_missing(_missing(header, names), header, source)


def check_given_columns(header: list[str], columns: Mapping[str, str] | None, source: str) -> None:
    """Check that the columns that the user named for parts of the log are in the header.

    Parameters
    ----------
    header
        Names of the columns.
    columns
        Names of columns by part, as the user gave them.
    source
        Name of the log in messages.

    Raises
    ------
    InputError
        If a column is missing; the message lists those that exist.
    """
    missing = {role: name for role, name in (columns or {}).items() if name not in header}
    _refuse_missing(missing, header, source)


def _refuse_missing(missing: Mapping[str, str], header: list[str], source: str) -> None:
    """Raise InputError if a part of the log has no column; `missing` is part to the name of its column."""
    if not missing:
        return
    lacking = ", ".join(f"{name!r} ({role})" for role, name in missing.items())
    hint = ",".join(f"{role}=..." for role in missing)
    named = ", ".join(header[:_NAMED_COLUMNS]) or "none"
    if len(header) > _NAMED_COLUMNS:
        named += f" and {len(header) - _NAMED_COLUMNS} more"
    raise InputError(
        f"{source}: no column {lacking}; it has {named}; map them with --columns {hint} (veilstream inspect guesses)"
    )


MOST_COLUMNS = 16_384
"""Most columns of a table: no spreadsheet has more. `inspect` takes some milliseconds for each."""

_NAMED_COLUMNS = 50
"""Most columns that an error lists."""


def check_width(n_columns: int, source: str) -> None:
    """Refuse a table that has too many columns to be a log.

    Parameters
    ----------
    n_columns
        Number of columns.
    source
        Name of the log in messages.

    Raises
    ------
    InputError
        If it has more than `MOST_COLUMNS`.
    """
    if n_columns > MOST_COLUMNS:
        raise InputError(
            f"{source}: {n_columns} columns, and at most {MOST_COLUMNS} are read; a log has a row for each event "
            "(exchange rows and columns?), or name the sign between columns with --separator"
        )


def check_names(header: list[str], names: ColumnNames, source: str) -> None:
    """Check that the header consists of names, each of them once, and not of too many.

    Parameters
    ----------
    header
        Names of the columns.
    names
        The names that the parts of the log have.
    source
        Name of the log in messages.

    Raises
    ------
    InputError
        If there are too many columns, one appears twice, or the header consists of values.
    """
    check_width(len(header), source)
    if _missing(header, names):
        _check_header(header, source)
    twice = sorted(name for name, number in Counter(header).items() if number > 1)
    if twice:
        raise InputError(f"{source}: column {', '.join(map(repr, twice))} appears twice; rename one")


def _missing(header: list[str], names: ColumnNames) -> dict[str, str]:
    required = {"case": names.case, "activity": names.activity, "time": names.time}
    return {role: name for role, name in required.items() if name not in header}


_NUMBERED_NAME = re.compile(r"[^\W\d_]+[ _.-]?\d{1,3}|(?:19|20)\d\d")
"""Names of which more than half are digits: the questions q1 to q30 of a form, or a column for each year.

Case ids can look the same. A line of values has a time as well, which is neither of the two.
"""


def _check_header(header: list[str], source: str) -> None:
    """Raise InputError if the first line holds values and no names. The message shows their shapes only."""
    shapes = ", ".join(repr(shape(name)) for name in header[:8])
    for name in header:
        n_digits = sum(letter.isdigit() for letter in name)
        if 2 * n_digits <= len(name) or _NUMBERED_NAME.fullmatch(name.strip()):
            continue
        raise InputError(f"{source}: line 1 looks like values ({shapes}); add a line before it that names the columns")


def encode(series: pd.Series) -> Column:
    """Return a pandas column, coded. Null is missing, numpy scalars become Python's.

    Parameters
    ----------
    series
        A column of a DataFrame.
    """
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        # As below, but without the temporary codes of 64 bits that `factorize` makes.
        codes = series.cat.codes.to_numpy()
        used = pd.unique(codes)  # in order of appearance
        used = used[used >= 0]
        place = np.full(len(series.cat.categories) + 1, MISSING, dtype=np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        return Column(place[codes], tuple(python_value(value) for value in series.cat.categories.take(used)))
    codes, values = pd.factorize(series, use_na_sentinel=True)
    return Column(codes.astype(np.int32), tuple(python_value(value) for value in values))


def python_value(value: Any) -> Any:
    """Return a value of numpy or pandas as one of Python.

    Parameters
    ----------
    value
        A scalar. A time that Python cannot hold becomes text.
    """
    if hasattr(value, "to_pydatetime"):
        try:
            return value.to_pydatetime()
        except ValueError:  # a year that Python has no date for
            return str(value.to_numpy())
    return value.item() if isinstance(value, np.generic) else value


def _blank(column: Column, name: str, role: str, cause: str) -> list[Fault]:
    """Return the rows in which a required text is missing.

    Blanks alone are not a case id, but they are an activity.
    """
    texts = [value.strip() if role == "case" else value for value in column.values]
    empty = [code for code, text in enumerate(texts) if not text]
    rows = np.flatnonzero((column.codes < 0) | np.isin(column.codes, empty))
    remedy = f"another column: --columns {role}=..."
    if role == "case":
        remedy += "; merged cells: write the value into every row"
    return Fault.of(rows, cause, f": no {name}; every event needs one ({remedy})")


def _counted_out(
    faults: Sequence[Fault], frame: pd.DataFrame, bad: BadRows, place_of: PlaceOfRow
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows can be read, and count the others, each for its first cause."""
    readable = np.ones(len(frame), dtype=np.bool_)
    for fault in faults:
        for row in fault.rows[readable[fault.rows]].tolist():
            text = partial(_row_as_text, frame, row)
            bad.add(fault.cause, partial(place_of, row), text, partial(str, fault.reason))
        readable[fault.rows] = False
    return readable


def _row_as_text(frame: pd.DataFrame, row: int) -> str:
    """Return the fields of a row as a line of CSV."""
    return fields_as_text(None if missing else python_value(value) for value, missing in _fields(frame, row))


def _fields(frame: pd.DataFrame, row: int) -> list[tuple[Any, bool]]:
    return [(frame[name].iloc[row], bool(frame[name].isna().iloc[row])) for name in frame.columns]


def _case_attributes(
    attributes: Mapping[str, Column], order: Ints | None, starts: Ints, place_of: PlaceOfRow, *, lenient: bool
) -> dict[str, Column]:
    result = {}
    for name, column in attributes.items():
        if not name.startswith(CASE_PREFIX):
            continue
        lifted, varying = constant_per_case(_taken(column, order), starts)
        if varying is not None and not lenient:
            first = int(starts[varying])
            row = first if order is None else int(order[first])
            raise InputError(
                f"{place_of(row)}: the case that begins here has two values of {name!r}; "
                f"a column that varies in a case may not be called {CASE_PREFIX}..."
            )
        result[name.removeprefix(CASE_PREFIX)] = lifted
    return result


def flat_columns(log: EventLog) -> dict[str, Column]:
    """Return all columns of the log's table except case id, activity and time.

    They have one row per event, case by case.

    Returns
    -------
    dict
        Columns by name: the resource, `case:X` for each case attribute X, then the event attributes.

    Raises
    ------
    InputError
        An attribute has a name that the table needs itself.
    """
    columns = {"org:resource": log.resource} if log.resource.values else {}
    attributes: list[tuple[str, Column]] = []
    for name, column in log.case_attributes.items():
        code_of_event = np.repeat(column.codes, log.lengths)
        attributes.append((f"{CASE_PREFIX}{name}", Column(code_of_event, column.values)))
    attributes += log.event_attributes.items()
    for name, column in attributes:
        if name in columns or name in ("case:concept:name", "concept:name", "time:timestamp"):
            raise InputError(f"attribute {name!r} cannot be written: the table needs that column itself")
        columns[name] = column
    return columns
