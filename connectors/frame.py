"""Event logs as flat tables with the XES column names: what CSV and Parquet share.

One row an event; case attributes stand as `case:X` on every row of the case, the case id as
`case:concept:name`. A table holds no case without events, and no difference between "" and missing in CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.columns import CASE_PREFIX, Names, as_text, constant_per_case
from connectors.times import FIRST_YEAR, LAST_YEAR, UNITS, ZonelessError, parser, zone
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Column, EventLog, Ints

if TYPE_CHECKING:
    import pandas as pd

Where = Callable[[int], str]
"""From a row of the table (0 is the first) to words that say where it stands."""


def from_frame(
    frame: pd.DataFrame, names: Names, timezone: str | None, unit: str | None, source: str, where: Where
) -> EventLog:
    """Group the rows into cases in order of first appearance, each in time order; `row` is the table's row.

    InputError: missing columns (which, and which exist), no rows, a row without case, activity or time, a bad
    or zoneless time, a `case:` attribute with two values in one case.
    """
    check_columns([str(name) for name in frame.columns], names, source)
    if not len(frame):
        raise NoEventsError(f"{source}: the log holds no events")
    owner = _required(frame[names.case], names.case, where)
    activity = _required(frame[names.activity], names.activity, where)
    time = times(frame[names.time], names.time, timezone, unit, where)
    order = np.lexsort((time, owner.codes))
    starts = np.concatenate(([0], np.cumsum(np.bincount(owner.codes, minlength=len(owner.values))))).astype(np.int64)
    known = {names.case, names.activity, names.time, names.resource}
    attributes = {str(name): encode(frame[name]) for name in frame.columns if name not in known}
    resource = (
        as_text(encode(frame[names.resource]))
        if names.resource in frame.columns
        else Column(np.full(len(frame), MISSING, dtype=np.int32), ())
    )
    by_event = {
        name: Column(column.codes[order], column.values)
        for name, column in attributes.items()
        if not name.startswith(CASE_PREFIX)
    }
    return EventLog(
        tuple(owner.values),
        starts,
        Column(activity.codes[order], activity.values),
        time[order],
        Column(resource.codes[order], resource.values),
        order.astype(np.int64),
        _case_attributes(attributes, order, starts, where),
        by_event,
    )


def check_columns(found: list[str], names: Names, source: str) -> None:
    """InputError unless case, activity and time are among the columns and no column stands twice."""
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise InputError(f"{source}: column {', '.join(map(repr, twice))} stands twice; rename one")
    wanted = {"case": names.case, "activity": names.activity, "time": names.time}
    missing = {role: name for role, name in wanted.items() if name not in found}
    if missing:
        lacking = ", ".join(f"{name!r} ({role})" for role, name in missing.items())
        hint = ",".join(f"{role}=..." for role in missing)
        raise InputError(f"{source}: no column {lacking}; it has {', '.join(found)}; map them with --columns {hint}")


def encode(series: pd.Series[Any]) -> Column:
    """A pandas column, coded; null becomes missing, numpy scalars become Python's."""
    import pandas as pd

    codes, values = pd.factorize(series, use_na_sentinel=True)
    return Column(codes.astype(np.int32), tuple(_plain(value) for value in values))


def _plain(value: Any) -> Any:
    if hasattr(value, "to_pydatetime"):
        try:
            return value.to_pydatetime()
        except ValueError:  # a year that Python has no date for
            return str(value.to_numpy())
    return value.item() if isinstance(value, np.generic) else value


def _required(series: pd.Series[Any], name: str, where: Where) -> Column:
    column = as_text(encode(series))
    empty = [code for code, value in enumerate(column.values) if value == ""]
    bad = np.flatnonzero((column.codes < 0) | np.isin(column.codes, empty))
    if len(bad):
        raise InputError(f"{where(int(bad[0]))}: no {name}; every event needs one")
    return column


def times(series: pd.Series[Any], name: str, timezone: str | None, unit: str | None, where: Where) -> Ints:
    """The time column in nanoseconds: text, datetimes with or without zone, or counts of `unit` since 1970."""
    import pandas as pd

    if unit is not None and unit not in UNITS:
        raise InputError(f"unit {unit!r} is not known; use one of {', '.join(UNITS)}")
    bad = np.flatnonzero(series.isna().to_numpy())
    if len(bad):
        raise InputError(f"{where(int(bad[0]))}: no {name}; every event needs one")
    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        return _from_datetimes(series, name, timezone, where)
    if unit is not None:
        return _counted(series, name, UNITS[unit], where)
    return _parsed(series, name, timezone, where)


def _from_datetimes(series: pd.Series[Any], name: str, timezone: str | None, where: Where) -> Ints:
    if series.dt.tz is None:
        if timezone is None:
            raise zoneless(where(0), name)
        # fold as in the text parser: the first of two equal local times; a skipped local time moves forward
        series = series.dt.tz_localize(
            zone(timezone), ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )
    moments = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    bad = np.flatnonzero((years < FIRST_YEAR) | (years > LAST_YEAR))
    if len(bad):
        raise InputError(f"{where(int(bad[0]))}: {name} is outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return np.asarray(moments.astype("datetime64[ns]").astype(np.int64))


def _counted(series: pd.Series[Any], name: str, factor: int, where: Where) -> Ints:
    result = np.empty(len(series), dtype=np.int64)
    for row, value in enumerate(series.tolist()):
        try:
            result[row] = int(value) * factor if isinstance(value, int) else _decimal(str(value), factor)
        except (ValueError, ArithmeticError):
            raise InputError(f"{where(row)}: {name} is not a number of the unit given") from None
    return result


def _decimal(text: str, factor: int) -> int:
    from decimal import Decimal

    return int(Decimal(text) * factor)


def _parsed(series: pd.Series[Any], name: str, timezone: str | None, where: Where) -> Ints:
    parse = parser(timezone)
    distinct = Column.encode(series.tolist())  # times of releases repeat: each text is parsed once
    result = np.empty(len(distinct.values), dtype=np.int64)
    for code, text in enumerate(distinct.values):
        try:
            result[code] = parse(text if isinstance(text, str) else str(text))
        except ZonelessError:
            raise zoneless(where(_first(distinct, code)), name) from None
        except ValueError:
            raise InputError(
                f"{where(_first(distinct, code))}: {name} is not a time; write it as 2026-01-31T12:00:00+01:00, or "
                "give the unit it counts"
            ) from None
    return np.asarray(result[distinct.codes])


def _first(column: Column, code: int) -> int:
    """The first row with a value."""
    return int(np.argmax(column.codes == code))


def zoneless(where: str, name: str) -> InputError:
    """The one message for a time without a zone."""
    return InputError(f"{where}: {name} has no time zone; name the zone of the log with --timezone")


def _case_attributes(attributes: Mapping[str, Column], order: Ints, starts: Ints, where: Where) -> dict[str, Column]:
    result = {}
    for name, column in attributes.items():
        if not name.startswith(CASE_PREFIX):
            continue
        lifted, varying = constant_per_case(Column(column.codes[order], column.values), starts)
        if varying is not None:
            row = int(order[starts[varying]])
            raise InputError(
                f"{where(row)}: the case that begins here has two values of {name!r}; "
                f"a column that varies in a case may not be called {CASE_PREFIX}..."
            )
        result[name.removeprefix(CASE_PREFIX)] = lifted
    return result


def flat_columns(log: EventLog) -> dict[str, Column]:
    """The columns of the log's table but case id, activity and time, one row an event, case by case.

    InputError where an attribute bears a name that the table needs itself.
    """
    cases = log.case_of_event
    columns = {"org:resource": log.resource} if log.resource.values else {}
    named = [
        *(
            (f"{CASE_PREFIX}{name}", Column(part.codes[cases], part.values))
            for name, part in log.case_attributes.items()
        ),
        *log.event_attributes.items(),
    ]
    for name, column in named:
        if name in columns or name in ("case:concept:name", "concept:name", "time:timestamp"):
            raise InputError(f"attribute {name!r} cannot be written: the table needs that column itself")
        columns[name] = column
    return columns
