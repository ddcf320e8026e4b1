"""Logs in and out: DataFrames, EventLogs of pm4py and of `models`, and files, as one columnar log."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from models.errors import InputError
from veilstream._arguments import checked
from veilstream._wording import in_python, python_words

if TYPE_CHECKING:
    import pandas as pd

    from connectors.columns import ColumnNames
    from connectors.lifecycle import Lifecycle
    from models.eventlog import EventLog

Log: TypeAlias = Any
"""A pandas DataFrame with one row per event, an EventLog of pm4py, an EventLog of `models`, or the path of a file."""

Names: TypeAlias = str | Sequence[str]
"""One name, or several."""

TIME_BASIS = "veilstream:time_basis"
"""Key of `DataFrame.attrs` for the meaning of a release's times: a measure of risk has to know that they are made."""

_OF_PM4PY = "@@"
"""Begin of the names of columns that pm4py adds for itself; one of them numbers the cases."""


@dataclass(frozen=True, slots=True)
class GivenLog:
    """A log as `models` reads it, and the form in which it was given, so that its release has the same form.

    Attributes
    ----------
    form
        frame, pm4py (its EventLog) or models (our EventLog).
    names
        Columns of a frame.
    time_unit
        Unit of its datetimes: s, ms, us or ns.
    categories
        Columns of a frame that are categorical.
    time_basis
        Meaning of the times that a release states; None if the log states nothing.
    path
        The file or folder that was read; None for an object.
    """

    log: EventLog
    form: Literal["frame", "pm4py", "models"]
    names: ColumnNames | None = None
    time_unit: str = "ns"
    categories: frozenset[str] = frozenset()
    time_basis: str | None = None
    path: Path | None = None

    def like(self, log: EventLog, time_basis: str | None) -> Log:
        """Return a released log in the form of this one.

        Parameters
        ----------
        log
            The released log.
        time_basis
            Meaning of its times, which a frame or a pm4py log keeps among its attributes. None if it is no
            release.

        Returns
        -------
        Log
            A DataFrame with the columns and units of the caller's, an EventLog of pm4py, or the log itself.
        """
        if self.form == "models":
            return log
        if self.form == "pm4py":
            return _to_pm4py(log, time_basis)
        return to_frame(
            log, names=self.names, time_unit=self.time_unit, categories=self.categories, time_basis=time_basis
        )


def example_log() -> Path:
    """Return the path of the bundled log: a made-up hospital, as an office exports it (CSV).

    It has 2,041 patients and 11,715 events. Its times carry no zone: they are those of Berlin.

    Returns
    -------
    pathlib.Path
        A file for `read_log(..., timezone="Europe/Berlin")`.

    Examples
    --------
    >>> example_log().name
    'hospital.csv.gz'
    """
    from stream.commands.demo import BUNDLED

    return BUNDLED / "hospital.csv.gz"


@python_words()
@checked
def read_log(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    object_type: str | None = None,
    lifecycle: Lifecycle | None = None,
    skip_bad_rows: bool = False,
    bad_rows: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Read an event log from a file into a DataFrame as pm4py makes it.

    Guesses, such as the separator of a CSV file, are reported as warnings. `veilstream inspect FILE` shows how the
    program reads a file.

    Parameters
    ----------
    path
        .xes, .csv or .tsv (also .gz), .parquet, OCEL 2.0 (.json, .sqlite, .xml), or a folder of files of one kind.
    columns
        Columns of a table, if they have other names: case, activity, time, resource, lifecycle.
    timezone
        IANA name of the zone of times that carry none, such as "Europe/Berlin".
    time_format
        A format of strptime, or day-first, month-first, year-first, iso, excel, excel-1904, s, ms, us, ns.
    encoding, separator
        Of CSV files: "cp1252"; "semicolon".
    object_type
        Of object-centric logs: the objects that are the cases.
    lifecycle
        Transitions that count as events; all by default.
    skip_bad_rows
        Leave out rows that cannot be read. By default they refuse the log.
    bad_rows
        File for the rows that were left out.

    Returns
    -------
    pandas.DataFrame
        One row per event: case:concept:name, concept:name, time:timestamp (UTC), org:resource if there is one, and all
        attributes; those of a case are called case:X.

    Raises
    ------
    InputError
        The log cannot be read. The message names place, reason and remedy, and no content.

    Examples
    --------
    >>> frame = read_log("examples/hospital.xes.gz")
    >>> frame["case:concept:name"].nunique(), len(frame)
    (2041, 11715)
    """
    from connectors import read_log as read
    from connectors.logs import declared_times
    from connectors.reading import Reading

    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"read_log reads a file, not a {type(path).__name__}; give a DataFrame or an EventLog to the function that "
            "works on it, with the same keywords: replay(frame, columns=...)"
        )
    reading = Reading(
        columns=_checked_columns(columns),
        timezone=timezone,
        time_format=time_format,
        encoding=encoding,
        separator=separator,
        object_type=object_type,
        lifecycle=lifecycle,
        skip_bad_rows=skip_bad_rows or None,
        say=_warn,
    )
    if bad_rows is not None:
        reading = replace(reading, on_bad_rows=_bad_rows_into(Path(bad_rows)))
    log = read(Path(path), reading=reading)
    return to_frame(log, time_basis=declared_times(Path(path)))


def _bad_rows_into(path: Path) -> Any:
    from connectors.bad_rows import BadRows, write

    def keep(bad: BadRows) -> None:
        write(bad, path)
        _warn(f"{bad.report()}; the rows are in {path}")

    return keep


def _warn(note: str) -> None:
    """Warn at the line that called this package, wherever the note comes from."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        frame = frame.f_back
        level += 1
    warnings.warn(in_python(note), UserWarning, stacklevel=level)


_OURS = frozenset({"veilstream", "stream", "connectors", "models", "contextlib"})
"""Packages between a note and the line that caused it; errors are worded by a decorator of contextlib."""


def given_log(
    log: Log,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    name: str = "the log",
) -> GivenLog:
    """Return a log of any accepted kind as `models` reads it; the caller's object stays as it is.

    Parameters
    ----------
    log
        A DataFrame, an EventLog, or a path.
    columns, timezone, time_format
        Statements about a frame or a file, as `read_log` takes them. An EventLog needs none.
    name
        Name of the log in messages.

    Raises
    ------
    InputError
        It is not an event log, or cannot be read.
    """
    import pandas as pd

    from models.eventlog import EventLog

    columns = _checked_columns(columns)
    if isinstance(log, EventLog):
        return GivenLog(log, "models")
    if isinstance(log, str | os.PathLike):
        frame = read_log(log, columns=columns, timezone=timezone, time_format=time_format)
        return replace(_of_frame(frame, None, None, None, os.fspath(log)), path=Path(log))
    if isinstance(log, pd.DataFrame):
        return _with_lifecycle_reported(_of_frame(log, columns, timezone, time_format, name), columns, name)
    if type(log).__module__.startswith("pm4py.") and type(log).__name__ == "EventLog":
        return _with_lifecycle_reported(_of_pm4py_log(log, name), None, name)
    kind = type(log).__name__
    # Frames of pandas' kind, of Spark, and of libraries that compute later (polars, Dask).
    conversions = {
        "to_pandas": ".to_pandas()",
        "toPandas": ".toPandas()",
        "collect": ".collect().to_pandas()",
        "compute": ".compute()",
    }
    known_conversions = [call for method, call in conversions.items() if hasattr(log, method)]
    hint = f"; convert it with {known_conversions[0]}" if known_conversions else ""
    raise InputError(
        f"{name}: {kind} is no event log; give a pandas DataFrame with one row per event, an EventLog of pm4py or of "
        f"models, or the path of a file{hint}"
    )


def _of_frame(
    frame: pd.DataFrame,
    columns: Mapping[str, str] | None,
    timezone: str | None,
    time_format: str | None,
    name: str,
) -> GivenLog:
    import pandas as pd

    from connectors.case_ids import doubts, doubts_of_source
    from connectors.frame import check_columns, from_frame, names_of_log
    from connectors.reading import Reading

    # Copies the columns only if somebody writes to them: rows are counted from 0, names are texts.
    table = frame.reset_index(drop=True)
    table.columns = pd.Index([str(column) for column in frame.columns])
    header = [column for column in table.columns if not column.startswith(_OF_PM4PY)]
    table = table[header]
    reading = Reading(
        columns=_columns_of_header(header, columns), timezone=timezone, time_format=time_format, say=_warn
    )
    if header and not columns and all(isinstance(column, int) for column in frame.columns):
        raise InputError(
            f"{name}: the columns of the DataFrame have numbers for names; name them with columns={{'case': 0, "
            "'activity': 1, 'time': 2}"
        )
    names = names_of_log(header, reading)
    required_columns = {names.case, names.activity, names.time}
    in_index = [str(level) for level in frame.index.names if level is not None and str(level) not in header]
    if in_index and not required_columns <= set(header):
        raise InputError(
            f"{name}: {', '.join(map(repr, in_index))} is in the index of the DataFrame, and not a column; "
            "call .reset_index() first"
        )
    check_columns(header, names, name)
    _refuse_containers(table, name)
    log = from_frame(table, names, reading, name, lambda row: f"{name}: row {row} (.iloc[{row}])")
    sentences = doubts(log)
    if TIME_BASIS not in frame.attrs:
        sentences += doubts_of_source(log)
    for sentence in sentences:
        _warn(f"{name}: {sentence}")
    times = table[names.time]
    unit = "ns"
    if pd.api.types.is_datetime64_any_dtype(times):
        unit = times.dt.unit
    elif pd.api.types.is_timedelta64_dtype(times) and TIME_BASIS not in frame.attrs:
        # A release has such a column. In another log it may be how long each event took.
        _warn(
            f"{name}: {names.time!r} holds durations, which are read as times since the start of 1970; if "
            "they are the lengths of the events, name the column of their moments: columns={'time': ...}"
        )
    categories = frozenset(column for column in header if isinstance(table[column].dtype, pd.CategoricalDtype))
    return GivenLog(log, "frame", names, unit, categories, frame.attrs.get(TIME_BASIS))


def _with_lifecycle_reported(log: GivenLog, columns: Mapping[str, str] | None, name: str) -> GivenLog:
    """Return the log of an object, with a warning if its starts and completes are events alike.

    Of a file, `read_log` has warned.
    """
    from connectors.columns import ColumnNames
    from connectors.lifecycle import counted_twice, has_starts_and_completes

    column = ColumnNames.of(columns).lifecycle
    if log.time_basis is None and has_starts_and_completes(log.log, column):
        remedy = f"log[log[{column!r}] == 'complete'] of a DataFrame keeps"
        _warn(f"{name}: {counted_twice(column, len(log.log.event_attributes[column].values), remedy)}")
    return log


def _columns_of_header(header: Sequence[str], columns: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the columns that were named; XES names if the log has these and none of the named ones, as releases do."""
    from connectors.columns import ColumnNames

    usual = ColumnNames()
    has_usual_names = {usual.case, usual.activity, usual.time} <= set(header)
    if columns and has_usual_names and not set(columns.values()) & set(header):
        return None
    return columns


def _refuse_containers(table: pd.DataFrame, name: str) -> None:
    """Refuse cells that hold lists, arrays, sets or mappings: they are not values that two events can share."""
    import pandas as pd

    for column in table.columns:
        if not pd.api.types.is_object_dtype(table[column]):
            continue
        for row, value in enumerate(table[column].tolist()):
            if not isinstance(value, Hashable):
                raise InputError(
                    f"{name}: row {row} (.iloc[{row}]): column {column!r} holds a {type(value).__name__}; "
                    "drop the column, or write its parts into columns of their own"
                )


def _of_pm4py_log(log: Any, name: str) -> GivenLog:
    from models.utility.discovery import quiet_pm4py

    with quiet_pm4py() as pm4py:
        frame = pm4py.convert_to_dataframe(log)
    source = _of_frame(frame, None, None, None, name)
    return replace(source, form="pm4py", time_basis=log.attributes.get("privacy:time_basis"))


def _to_pm4py(log: EventLog, time_basis: str | None) -> Any:
    from models.utility.discovery import quiet_pm4py

    frame = to_frame(log)
    with quiet_pm4py() as pm4py:
        released = pm4py.convert_to_event_log(frame)
    if time_basis is not None:
        released.attributes["privacy:time_basis"] = time_basis
    return released


def to_frame(
    log: EventLog,
    *,
    names: ColumnNames | None = None,
    time_unit: str = "ns",
    categories: Iterable[str] = (),
    time_basis: str | None = None,
) -> pd.DataFrame:
    """Return a log as a DataFrame with one row per event, rows numbered from 0.

    Its index is new: one that was carried over would link the events of a release with those of its source.

    Parameters
    ----------
    log
        The log. Cases without events have no row.
    names
        Columns of the frame; XES names if not set.
    time_unit
        Unit of its datetimes.
    categories
        Columns that become categorical, with the values that the log shows and no others.
    time_basis
        Meaning of the times, if the log is a release.
    """
    frame = log.to_dataframe()
    if not len(log.resource.values):
        frame = frame.drop(columns="org:resource")
    frame["time:timestamp"] = frame["time:timestamp"].dt.as_unit(time_unit)
    if names is not None:
        frame = frame.rename(
            columns={
                "case:concept:name": names.case,
                "concept:name": names.activity,
                "time:timestamp": names.time,
                "org:resource": names.resource,
            }
        )
    for column in categories:
        if column in frame.columns:
            frame[column] = frame[column].astype("category")
    if time_basis is not None:
        frame.attrs[TIME_BASIS] = time_basis
    return frame


def listed(names: Names) -> list[str]:
    """Return one name or several as a list.

    Parameters
    ----------
    names
        A single name, or several. A text counts as one name, not as its letters.
    """
    return [names] if isinstance(names, str) else [str(name) for name in names]


def attributes(names: Names) -> list[str]:
    """Return names of attributes; the column `case:X` of a frame is the attribute X.

    Parameters
    ----------
    names
        One name or several, as attributes or as columns of a frame.
    """
    return [name.removeprefix("case:") for name in listed(names)]


def _checked_columns(columns: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(
            "columns: give a mapping from case, activity, time, resource to the name of the column, such as "
            "{'case': 'Patient'}"
        )
    # A DataFrame without a header numbers its columns.
    return None if columns is None else {role: str(column) for role, column in columns.items()}
