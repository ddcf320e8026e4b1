"""Event logs as flat tables with the XES column names: what CSV and Parquet share.

One row an event; case attributes stand as `case:X` on every row of the case, the case id as
`case:concept:name`. A table holds no case without events, and no difference between "" and missing in CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import dates
from connectors.columns import CASE_PREFIX, Names, as_text, constant_per_case
from connectors.reading import Reading
from connectors.shapes import shape
from connectors.times import SECOND, ZonelessError, parser, zone
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Column, EventLog, Ints
from models.instants import INSTANTS, NO_ZONE, OUTSIDE, UNITS, TimeColumnError, of_datetimes

if TYPE_CHECKING:
    import pandas as pd

Where = Callable[[int], str]
"""From a row of the table (0 is the first) to words that say where it stands."""


def from_frame(frame: pd.DataFrame, names: Names, reading: Reading, source: str, where: Where) -> EventLog:
    """Group the rows into cases in order of first appearance, each in time order; `row` is the table's row.

    InputError: missing columns (which, and which exist), no rows, a row without case, activity or time, a bad
    or zoneless time, a `case:` attribute with two values in one case.
    """
    check_columns([str(name) for name in frame.columns], names, source)
    if not len(frame):
        raise NoEventsError(f"{source}: the log holds no events")
    owner = _required(frame[names.case], names.case, "case", where)
    activity = _required(frame[names.activity], names.activity, "activity", where)
    time = times(frame[names.time], names.time, reading, where)
    known = {names.case, names.activity, names.time, names.resource}
    attributes = {str(name): encode(frame[name]) for name in frame.columns if name not in known}
    resource = as_text(encode(frame[names.resource])) if names.resource in frame.columns else None
    return log_of(owner, activity, time, resource, attributes, where)


def log_of(
    owner: Column, activity: Column, time: Ints, resource: Column | None, attributes: Mapping[str, Column], where: Where
) -> EventLog:
    """The rows of a table as cases in order of first appearance, each in time order. InputError for a `case:` attribute
    with two values in one case."""
    order = _order(owner, time)
    if order is None:
        starts = np.searchsorted(owner.codes, np.arange(len(owner.values) + 1, dtype=np.int32))
    else:
        starts = np.concatenate(([0], np.cumsum(np.bincount(owner.codes, minlength=len(owner.values)))))
    by_event = {name: _taken(column, order) for name, column in attributes.items() if not name.startswith(CASE_PREFIX)}
    return EventLog(
        tuple(owner.values),
        starts.astype(np.int64, copy=False),
        _taken(activity, order),
        time if order is None else time[order],
        Column(np.full(len(time), MISSING, dtype=np.int32), ()) if resource is None else _taken(resource, order),
        np.arange(len(time), dtype=np.int64) if order is None else order.astype(np.int64, copy=False),
        _case_attributes(attributes, order, starts, where),
        by_event,
    )


def _order(owner: Column, time: Ints) -> Ints | None:
    """The rows by case and time; None where they stand so, as in all that we write."""
    case = owner.codes
    if ((case[1:] > case[:-1]) | (case[1:] == case[:-1]) & (time[1:] >= time[:-1])).all():
        return None
    return np.lexsort((time, owner.codes))


def _taken(column: Column, order: Ints | None) -> Column:
    return column if order is None else Column(column.codes[order], column.values)


def check_columns(found: list[str], names: Names, source: str) -> None:
    """InputError unless case, activity and time are among the columns and no column stands twice."""
    check_names(found, names, source)
    missing = _missing(found, names)
    if missing:
        lacking = ", ".join(f"{name!r} ({role})" for role, name in missing.items())
        hint = ",".join(f"{role}=..." for role in missing)
        raise InputError(
            f"{source}: no column {lacking}; it has {', '.join(found)}; map them with --columns {hint} "
            "(veilstream inspect guesses)"
        )


def check_names(found: list[str], names: Names, source: str) -> None:
    """InputError where the header is none, or names a column twice."""
    if _missing(found, names):
        _check_header(found, source)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise InputError(f"{source}: column {', '.join(map(repr, twice))} stands twice; rename one")


def _missing(found: list[str], names: Names) -> dict[str, str]:
    wanted = {"case": names.case, "activity": names.activity, "time": names.time}
    return {role: name for role, name in wanted.items() if name not in found}


def _check_header(found: list[str], source: str) -> None:
    """InputError where the first line holds values and no names; they are not repeated."""
    shapes = ", ".join(repr(shape(name)) for name in found[:8])
    if any(sum(letter.isdigit() for letter in name) * 2 > len(name) for name in found):
        raise InputError(f"{source}: line 1 looks like values ({shapes}); add a line before it that names the columns")


def encode(series: pd.Series[Any]) -> Column:
    """A pandas column, coded; null becomes missing, numpy scalars become Python's."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        # as below, without the codes of 64 bits that are on the way there
        codes = series.cat.codes.to_numpy()
        used = pd.unique(codes)  # in order of appearance
        used = used[used >= 0]
        place = np.full(len(series.cat.categories) + 1, MISSING, dtype=np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        return Column(place[codes], tuple(plain(value) for value in series.cat.categories.take(used)))
    codes, values = pd.factorize(series, use_na_sentinel=True)
    return Column(codes.astype(np.int32), tuple(plain(value) for value in values))


def plain(value: Any) -> Any:
    """A value as Python has it: no scalar of numpy or pandas."""
    if hasattr(value, "to_pydatetime"):
        try:
            return value.to_pydatetime()
        except ValueError:  # a year that Python has no date for
            return str(value.to_numpy())
    return value.item() if isinstance(value, np.generic) else value


def _required(series: pd.Series[Any], name: str, role: str, where: Where) -> Column:
    column = as_text(encode(series))
    empty = [code for code, value in enumerate(column.values) if value == ""]
    bad = np.flatnonzero((column.codes < 0) | np.isin(column.codes, empty))
    if len(bad):
        raise InputError(
            f"{where(int(bad[0]))}: no {name}; every event needs one (another column: --columns {role}=...)"
        )
    return column


def times(series: pd.Series[Any], name: str, reading: Reading, where: Where) -> Ints:
    """The time column in nanoseconds: datetimes with or without zone, texts, or counts of a unit since 1970."""
    import pandas as pd

    unit, form = _unit(reading)
    bad = np.flatnonzero(series.isna().to_numpy())
    if len(bad):
        raise InputError(f"{where(int(bad[0]))}: no {name}; every event needs one (another column: --columns time=...)")
    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        return _from_datetimes(series, name, reading.timezone, where)
    if pd.api.types.is_timedelta64_dtype(series):
        return _from_durations(series, name, where)
    if unit is not None:
        return _counted(series, name, UNITS[unit], where)
    return _Texts(series, name, reading, where).instants(form)


def _unit(reading: Reading) -> tuple[str | None, str | None]:
    """(unit, other format) of `unit` and `time_format`, which may name a unit too."""
    unit, form = reading.unit, reading.time_format
    if unit is not None and unit not in UNITS:
        raise InputError(f"unit {unit!r} is not known; use one of {', '.join(UNITS)}")
    if form is not None and form in UNITS:
        return form, None
    if form is not None and form not in dates.WORDS:
        if "%" not in form:
            raise InputError(f"--time-format {form!r}: give a format of strptime, or one of {', '.join(dates.WORDS)}")
        dates.parsed(["0"], form)  # refuses what is no format before a file is blamed
    return unit, form


def _from_datetimes(series: pd.Series[Any], name: str, timezone: str | None, where: Where) -> Ints:
    try:
        return of_datetimes(series, zone(timezone))
    except TimeColumnError as error:
        if error.reason == NO_ZONE:
            raise zoneless(where(error.row), name) from None
        raise InputError(f"{where(error.row)}: {name} {error.reason}") from None


def _from_durations(series: pd.Series[Any], name: str, where: Where) -> Ints:
    """Durations since 1970 in nanoseconds, which hold 292 years either way."""
    lengths = np.asarray(series.to_numpy())
    limit = np.timedelta64(np.iinfo(np.int64).max // SECOND, "s")
    bad = np.flatnonzero((lengths > limit) | (lengths < -limit))
    if len(bad):
        raise InputError(f"{where(int(bad[0]))}: {name} is a duration beyond 292 years")
    return np.asarray(lengths.astype("timedelta64[ns]").view(np.int64))


def _counted(series: pd.Series[Any], name: str, factor: int, where: Where) -> Ints:
    result = np.empty(len(series), dtype=np.int64)
    for row, value in enumerate(series.tolist()):
        try:
            counted = int(value) * factor if isinstance(value, int) else _decimal(str(value), factor)
        except (ValueError, ArithmeticError):
            raise InputError(
                f"{where(row)}: {name} is not a number of the unit given (--time-format); its shape is "
                f"{shape(str(value))!r}"
            ) from None
        if counted not in INSTANTS:
            raise InputError(f"{where(row)}: {name} {OUTSIDE} if it counts the unit given; look at the unit")
        result[row] = counted
    return result


def _decimal(text: str, factor: int) -> int:
    from decimal import Decimal

    return int(Decimal(text.strip().replace(",", ".")) * factor)


class _Texts:
    """A column of times as texts; each distinct text is parsed once, since times of releases repeat."""

    def __init__(self, series: pd.Series[Any], name: str, reading: Reading, where: Where) -> None:
        self.name, self.reading, self.where = name, reading, where
        column = Column.encode(series.tolist())
        self.codes = column.codes
        self.texts = [text if isinstance(text, str) else str(text) for text in column.values]

    def instants(self, form: str | None) -> Ints:
        """Nanoseconds by the format; without one by ISO 8601, or by the one reading that holds for all."""
        stripped = [text.strip() for text in self.texts]
        if form in (dates.EXCEL, dates.EXCEL_1904):
            return self._excel(stripped, form)
        if form is not None and form not in dates.WORDS:
            return self._by_formats(stripped, [form] * len(stripped))
        if form is None and dates.durations(stripped):
            return self._lengths(stripped)
        if form is not None or dates.numbers(stripped):
            return self._planned(stripped, form, None)
        return self._iso(stripped)

    def _lengths(self, stripped: list[str]) -> Ints:
        try:
            return np.asarray(dates.lengths(stripped)[self.codes])
        except (ValueError, OverflowError):  # pandas holds no more than 292 years
            raise self._refused(0, "is a duration beyond 292 years, or one of the column is") from None

    def _iso(self, stripped: list[str]) -> Ints:
        parse = parser(self.reading.timezone)
        result = np.empty(len(self.texts), dtype=np.int64)
        for code, text in enumerate(self.texts):
            try:
                result[code] = parse(text)
            except ZonelessError:
                raise self._zoneless(code) from None
            except ValueError:
                return self._planned(stripped, None, code)
        return np.asarray(result[self.codes])

    def _planned(self, stripped: list[str], order: str | None, misfit: int | None) -> Ints:
        """By the plan for the whole column; `misfit` is the first text that is not ISO 8601."""
        try:
            plan = dates.plan(stripped, order)
        except dates.UnknownTimesError as error:
            if misfit:  # the texts before it are ISO 8601, and so should it be
                raise self._refused(misfit, dates.NO_TIME) from None
            raise self._refused(error.place, error.reason) from None
        if plan.unit is not None or plan.excel is not None:
            # A number says nothing of its unit, and one row more could change what it looks like.
            raise self._refused(
                0,
                f"is a number, which needs its unit; all rows together look like --time-format {plan.flag}: give this "
                "if it is right (veilstream inspect shows what it makes of the file)",
            )
        result = self._by_formats(stripped, plan.formats)
        if plan.said is not None:
            self.reading.say(f"{self.name}: {plan.said}")
        return result

    def _excel(self, stripped: list[str], kind: str) -> Ints:
        moments = np.empty(len(stripped), dtype="datetime64[ns]")
        for code, text in enumerate(stripped):
            try:
                moments[code] = dates.excel_days(text, kind)
            except (ValueError, ArithmeticError):
                raise self._refused(code, f"is no day number of Excel (--time-format {kind})") from None
        return self._local(moments, np.ones(len(stripped), dtype=bool))

    def _by_formats(self, stripped: list[str], formats: Sequence[str]) -> Ints:
        moments = dates.moments_of(stripped, formats)
        bad = np.flatnonzero(np.isnat(moments))
        if len(bad):
            code = int(bad[0])
            raise self._refused(code, f"is not a time of the format {formats[code]!r} (--time-format)")
        return self._local(moments, np.asarray([not dates.zoned(form) for form in formats]))

    def _local(self, moments: Any, zoneless_: Any) -> Ints:
        """Instants of moments, of which some stand in the zone of the log."""
        import pandas as pd

        result = moments.astype(np.int64)
        bad = np.flatnonzero(zoneless_)
        if len(bad):
            if self.reading.timezone is None:
                raise self._zoneless(int(bad[0]))
            own = pd.Series(moments[bad])
            result[bad] = _from_datetimes(
                own, self.name, self.reading.timezone, lambda place: self.where(self._row(int(bad[place])))
            )
        return np.asarray(result[self.codes])

    def _row(self, code: int) -> int:
        """The first row with a text."""
        return int(np.argmax(self.codes == code))

    def _zoneless(self, code: int) -> InputError:
        return zoneless(self.where(self._row(code)), self.name)

    def _refused(self, code: int, reason: str) -> InputError:
        return InputError(
            f"{self.where(self._row(code))}: {self.name} {reason}; its shape is {shape(self.texts[code])!r}"
        )


def zoneless(where: str, name: str) -> InputError:
    """The one message for a time without a zone."""
    return InputError(f"{where}: {name} has no time zone; name the zone of the log with --timezone")


def _case_attributes(
    attributes: Mapping[str, Column], order: Ints | None, starts: Ints, where: Where
) -> dict[str, Column]:
    result = {}
    for name, column in attributes.items():
        if not name.startswith(CASE_PREFIX):
            continue
        lifted, varying = constant_per_case(_taken(column, order), starts)
        if varying is not None:
            first = int(starts[varying])
            row = first if order is None else int(order[first])
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
    columns = {"org:resource": log.resource} if log.resource.values else {}
    named = [
        *(
            (f"{CASE_PREFIX}{name}", Column(np.repeat(part.codes, log.lengths), part.values))
            for name, part in log.case_attributes.items()
        ),
        *log.event_attributes.items(),
    ]
    for name, column in named:
        if name in columns or name in ("case:concept:name", "concept:name", "time:timestamp"):
            raise InputError(f"attribute {name!r} cannot be written: the table needs that column itself")
        columns[name] = column
    return columns
