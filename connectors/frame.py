"""Event logs as flat tables with the XES column names: what CSV and Parquet share.

One row an event; case attributes stand as `case:X` on every row of the case, the case id as
`case:concept:name`. A table holds no case without events, and no difference between "" and missing in CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import bad_rows, dates
from connectors.bad_rows import BadRows, fields_as_text
from connectors.columns import CASE_PREFIX, ColumnNames, as_text, constant_per_case, shape
from connectors.reading import Reading, UndeclaredError
from connectors.times import SECOND, ZonelessError, parser, zone
from models.content_free import content_free
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Column, EventLog, Ints
from models.instants import FIRST_YEAR, INSTANTS, LAST_YEAR, OUTSIDE, UNITS

if TYPE_CHECKING:
    import pandas as pd

Where = Callable[[int], str]
"""From a row of the table (0 is the first) to words that say where it stands."""


def from_frame(frame: pd.DataFrame, names: ColumnNames, reading: Reading, source: str, where: Where) -> EventLog:
    """Group the rows into cases in order of first appearance, each in time order; `row` is the table's row.

    InputError: missing columns (which, and which exist), no rows, a row without case, activity or time, a bad
    or zoneless time, a `case:` attribute with two values in one case.
    """
    check_columns([str(name) for name in frame.columns], names, source)
    bad = BadRows(source) if reading.bad_rows is None else reading.bad_rows
    unread = len(bad)  # rows that are no rows of a table, which its reader has left out already
    if not len(frame) and not unread:
        raise NoEventsError(f"{source}: the log holds no events")
    owner, activity = as_text(encode(frame[names.case])), as_text(encode(frame[names.activity]))
    time, faulty_times = _instants(frame[names.time], names.time, reading, where)
    faults = [
        *_blank(owner, names.case, "case", bad_rows.NO_CASE),
        *_blank(activity, names.activity, "activity", bad_rows.NO_ACTIVITY),
        *faulty_times,
    ]
    readable = _counted_out(faults, frame, bad, where)
    if bad and (not reading.leaves_out or not readable.any()):
        raise bad.refused(len(frame) + unread)
    if not readable.all():
        kept_rows = np.flatnonzero(readable)
        frame = frame.loc[readable].reset_index(drop=True)
        time, of_file = time[readable], where
        owner, activity = as_text(encode(frame[names.case])), as_text(encode(frame[names.activity]))

        def where(row: int) -> str:
            return of_file(int(kept_rows[row]))

    known = {names.case, names.activity, names.time, names.resource}
    attributes = {str(name): encode(frame[name]) for name in frame.columns if name not in known}
    resource = as_text(encode(frame[names.resource])) if names.resource in frame.columns else None
    return log_of(owner, activity, time, resource, attributes, where, lenient=reading.declared)


def log_of(
    owner: Column,
    activity: Column,
    time: Ints,
    resource: Column | None,
    attributes: Mapping[str, Column],
    where: Where,
    *,
    lenient: bool = False,
) -> EventLog:
    """The rows of a table as cases in order of first appearance, each in time order. InputError for a `case:` attribute
    with two values in one case; with `lenient` such a case has the value that the column names last."""
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
        _case_attributes(attributes, order, starts, where, lenient=lenient),
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


def check_columns(found: list[str], names: ColumnNames, source: str) -> None:
    """InputError unless case, activity and time are among the columns and no column appears twice."""
    check_names(found, names, source)
    missing = _missing(found, names)
    if missing:
        lacking = ", ".join(f"{name!r} ({role})" for role, name in missing.items())
        hint = ",".join(f"{role}=..." for role in missing)
        raise InputError(
            f"{source}: no column {lacking}; it has {', '.join(found)}; map them with --columns {hint} "
            "(veilstream inspect guesses)"
        )


def check_names(found: list[str], names: ColumnNames, source: str) -> None:
    """InputError where the header is none, or names a column twice."""
    if _missing(found, names):
        _check_header(found, source)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise InputError(f"{source}: column {', '.join(map(repr, twice))} appears twice; rename one")


def _missing(found: list[str], names: ColumnNames) -> dict[str, str]:
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


@content_free()
@dataclass(frozen=True, slots=True)
class _Fault:
    """Rows that cannot be read for one cause; `reason` goes on from the place of the first of them."""

    rows: Ints
    cause: str
    reason: str


def _blank(column: Column, name: str, role: str, cause: str) -> list[_Fault]:
    """The rows in which a required text is missing. Blanks alone are no case id; an activity may be named by one."""
    stripped = role == "case"
    empty = [code for code, value in enumerate(column.values) if not (value.strip() if stripped else value)]
    rows = np.flatnonzero((column.codes < 0) | np.isin(column.codes, empty))
    return _fault(rows, cause, f": no {name}; every event needs one (another column: --columns {role}=...)")


def _fault(rows: Any, cause: str, reason: str) -> list[_Fault]:
    return [_Fault(np.asarray(rows, dtype=np.int64), cause, reason)] if len(rows) else []


def _counted_out(
    faults: Sequence[_Fault], frame: pd.DataFrame, bad: BadRows, where: Where
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows can be read; the others are counted, each for the first of its causes."""
    readable = np.ones(len(frame), dtype=np.bool_)
    for fault in faults:
        for row in fault.rows[readable[fault.rows]].tolist():
            bad.add(
                fault.cause,
                lambda row=row: where(row),  # type: ignore[misc]
                lambda row=row: _row_as_text(frame, row),  # type: ignore[misc]
                lambda fault=fault: fault.reason,  # type: ignore[misc]
            )
        readable[fault.rows] = False
    return readable


def _row_as_text(frame: pd.DataFrame, row: int) -> str:
    """The fields of a row as a line of CSV."""
    return fields_as_text(None if missing else plain(value) for value, missing in _fields(frame, row))


def _fields(frame: pd.DataFrame, row: int) -> list[tuple[Any, bool]]:
    return [(frame[name].iloc[row], bool(frame[name].isna().iloc[row])) for name in frame.columns]


def times(series: pd.Series[Any], name: str, reading: Reading, where: Where) -> Ints:
    """The time column in nanoseconds: datetimes with or without zone, texts, or counts of a unit since 1970.
    InputError where one cannot be read."""
    found, faults = _instants(series, name, reading, where)
    for fault in faults:
        raise InputError(f"{where(int(fault.rows[0]))}{fault.reason}")
    return found


def _instants(series: pd.Series[Any], name: str, reading: Reading, where: Where) -> tuple[Ints, list[_Fault]]:
    """The time column in nanoseconds, and the rows whose time cannot be read (any number is in their place).

    InputError where the column as a whole cannot be read: an unknown format, a unit or an order that no value tells.
    """
    import pandas as pd

    unit, form = _unit(reading)
    missing = np.flatnonzero(series.isna().to_numpy())
    faults = _fault(
        missing, bad_rows.NO_TIME, f": no {name}; every event needs one (another column: --columns time=...)"
    )
    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        found, others = _from_datetimes(series, name, reading.timezone, where)
    elif pd.api.types.is_timedelta64_dtype(series):
        found, others = _from_durations(series, name)
    elif unit is not None:
        found, others = _counted(series, name, UNITS[unit])
    else:
        found, others = _Texts(series, name, reading, where).instants(form)
    return found, faults + others


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


def _from_datetimes(series: pd.Series[Any], name: str, timezone: str | None, where: Where) -> tuple[Ints, list[_Fault]]:
    """As `models.instants.of_datetimes`, with the rows that cannot be read."""
    if series.dt.tz is None:
        if timezone is None:
            raise zoneless(where(0), name)
        # Arrow's own tz_localize cannot choose between two equal local times.
        series = series.astype(getattr(series.dtype, "numpy_dtype", series.dtype))
        # fold as in the text parser: the first of two equal local times; a skipped local time moves forward
        series = series.dt.tz_localize(
            zone(timezone), ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )
    moments = np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    first, end = np.datetime64(f"{FIRST_YEAR:04}", "Y"), np.datetime64(f"{LAST_YEAR + 1:04}", "Y")
    outside = (moments < first) | (moments >= end)
    held = np.where(outside | np.isnat(moments), np.datetime64(0, "s"), moments)
    found = np.asarray(held.astype("datetime64[ns]").view(np.int64))
    return found, _fault(np.flatnonzero(outside), bad_rows.YEAR, f": {name} {OUTSIDE}")


def _from_durations(series: pd.Series[Any], name: str) -> tuple[Ints, list[_Fault]]:
    """Durations since 1970 in nanoseconds, which hold 292 years either way."""
    lengths = np.asarray(series.to_numpy())
    limit = np.timedelta64(np.iinfo(np.int64).max // SECOND, "s")
    outside = (lengths > limit) | (lengths < -limit)
    held = np.where(outside | np.isnat(lengths), np.timedelta64(0, "s"), lengths)
    found = np.asarray(held.astype("timedelta64[ns]").view(np.int64))
    return found, _fault(np.flatnonzero(outside), bad_rows.YEAR, f": {name} is a duration beyond 292 years")


def _counted(series: pd.Series[Any], name: str, factor: int) -> tuple[Ints, list[_Fault]]:
    result = np.zeros(len(series), dtype=np.int64)
    missing = series.isna().to_numpy()
    unread: list[int] = []
    outside: list[int] = []
    shown = ""
    for row, value in enumerate(series.tolist()):
        if missing[row]:
            continue
        try:
            counted = int(value) * factor if isinstance(value, int) else _decimal(str(value), factor)
        except (ValueError, ArithmeticError):
            shown = shown or shape(str(value))
            unread.append(row)
            continue
        if counted not in INSTANTS:
            outside.append(row)
            continue
        result[row] = counted
    no_number = f": {name} is not a number of the unit given (--time-format); its shape is {shown!r}"
    beyond = f": {name} {OUTSIDE} if it counts the unit given; look at the unit"
    return result, _fault(unread, bad_rows.TIME, no_number) + _fault(outside, bad_rows.YEAR, beyond)


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
        self.stripped = [text.strip() for text in self.texts]
        self.result = np.zeros(len(self.texts), dtype=np.int64)
        self.unread: dict[int, tuple[str, str]] = {}
        """Distinct texts that cannot be read: cause, and what is wrong."""
        self.zoned = np.zeros(len(self.texts), dtype=np.bool_)
        self.zoneless = np.zeros(len(self.texts), dtype=np.bool_)

    def instants(self, form: str | None) -> tuple[Ints, list[_Fault]]:
        """Nanoseconds by the format; without one by ISO 8601, or by the reading that holds for the column."""
        if form is None and self.reading.declared:
            raise UndeclaredError(self.where(0).rpartition(":")[0], ["--time-format"])
        if form in (dates.EXCEL, dates.EXCEL_1904):
            self._excel(self.stripped, form)
        elif form == dates.ISO:
            self._iso()
        elif form in dates.ORDERS:
            self._ordered(form)
        elif form is not None:
            self._by_formats([form] * len(self.texts))
        elif dates.durations(self.stripped):
            self._lengths()
        elif dates.numbers(self.stripped):
            self._counts()
        else:
            self._found_out()
        self._check_zones()
        found = np.append(self.result, 0)[self.codes]
        return found, self._faults()

    def _found_out(self) -> None:
        """By ISO 8601 where all are of it, else by the plan that holds for all, else by what most are of."""
        self._iso()
        misfits = [code for code, (cause, _) in self.unread.items() if cause == bad_rows.TIME]
        if not misfits:
            return
        of_iso = self.result.copy(), dict(self.unread), self.zoned.copy(), self.zoneless.copy()
        try:
            self._by_plan(dates.plan(self.stripped), [])
            return
        except dates.UnknownTimesError as error:
            several_readings, unknown = error.readings, self._unplanned(error, misfits[0])
        most = dates.plan_for_most(self.stripped)
        read_by_plan = 0 if most is None else len(self.texts) - len(most[1])
        read_by_iso = len(self.texts) - len(misfits)
        if several_readings or 2 * max(read_by_plan, read_by_iso) <= len(self.texts):
            raise unknown  # no reading holds for most: the format is unknown, and no single row is to blame
        if most is not None and read_by_plan > read_by_iso:
            self._by_plan(*most)
        else:
            self.result, self.unread, self.zoned, self.zoneless = of_iso

    def _counts(self) -> None:
        try:
            self._by_plan(dates.plan(self.stripped), [])
        except dates.UnknownTimesError as error:
            raise self._unplanned(error) from None

    def _lengths(self) -> None:
        try:
            self.result = np.asarray(dates.lengths(self.stripped))
        except (ValueError, OverflowError):  # pandas holds no more than 292 years
            raise self._refused(0, "is a duration beyond 292 years, or one of the column is") from None

    def _iso(self) -> None:
        """Each text by itself as ISO 8601."""
        with_zone, parse = parser(None), parser(self.reading.timezone)
        for code, text in enumerate(self.texts):
            try:
                self.result[code] = with_zone(text)
                self.zoned[code] = True
            except ZonelessError:
                self.zoneless[code] = True
                if self.reading.timezone is not None:
                    self.result[code] = parse(text)
            except (ValueError, OverflowError):
                self.unread[code] = bad_rows.TIME, dates.NO_TIME

    def _unplanned(self, error: dates.UnknownTimesError, misfit: int | None = None) -> InputError:
        """Why no plan holds for the whole column; `misfit` is the first text that is not ISO 8601."""
        if misfit:  # the texts before it are ISO 8601, and so should it be
            return self._refused(misfit, dates.NO_TIME)
        return self._refused(error.place, error.reason)

    def _by_plan(self, plan: dates.ColumnFormat, misfits: Sequence[int]) -> None:
        """By a plan that holds for all texts but some."""
        if plan.unit is not None or plan.excel is not None:
            # A number says nothing of its unit, and one row more could change what it looks like.
            first_number = min(set(range(len(self.texts))) - set(misfits))
            raise self._refused(
                first_number,
                f"is a number, which needs its unit; all rows together look like --time-format {plan.flag}: give this "
                "if it is right (veilstream inspect shows what it makes of the file)",
            )
        self._begin_again()
        self.unread = dict.fromkeys(misfits, (bad_rows.TIME, dates.NO_TIME))
        self._by_formats(plan.formats)
        if plan.said is not None:
            self.reading.say(f"{self.name}: {plan.said}")

    def _ordered(self, order: str) -> None:
        """Each text by itself, day and month in this order."""
        formats = dates.formats_in_order(self.stripped, order)
        misfits = [code for code, form in enumerate(formats) if not form]
        if len(misfits) == len(formats) and formats:
            raise self._refused(0, f"is no date with its parts {order} (--time-format)")
        self._by_formats(formats)

    def _begin_again(self) -> None:
        self.unread = {}
        self.zoned[:] = False
        self.zoneless[:] = False

    def _excel(self, stripped: list[str], kind: str) -> None:
        moments = np.full(len(stripped), np.datetime64("NaT", "ns"))
        for code, text in enumerate(stripped):
            try:
                moments[code] = dates.excel_days(text, kind)
            except (ValueError, ArithmeticError):
                self.unread[code] = bad_rows.TIME, f"is no day number of Excel (--time-format {kind})"
        self._local(moments, np.ones(len(stripped), dtype=bool))

    def _by_formats(self, formats: Sequence[str]) -> None:
        moments = dates.moments_of(self.stripped, formats)
        for code in np.flatnonzero(np.isnat(moments)).tolist():
            wrong = f"is not a time of the format {formats[code]!r} (--time-format)" if formats[code] else dates.NO_TIME
            self.unread[code] = bad_rows.TIME, wrong
        self._local(moments, np.asarray([not dates.zoned(form) for form in formats], dtype=bool))

    def _local(self, moments: Any, zoneless_: Any) -> None:
        """Instants of moments, of which some are in the zone of the log; NaT stays unread."""
        import pandas as pd

        there = ~np.isnat(moments)
        self.result = np.where(there, moments, np.datetime64(0, "ns")).astype(np.int64)
        self.zoneless = zoneless_ & there
        self.zoned = ~zoneless_ & there
        local = np.flatnonzero(self.zoneless)
        if len(local) and self.reading.timezone is not None:
            own = pd.Series(moments[local])
            self.result[local], outside = _from_datetimes(own, self.name, self.reading.timezone, str)
            for fault in outside:
                for place in fault.rows.tolist():
                    self.unread[int(local[place])] = fault.cause, fault.reason.removeprefix(f": {self.name} ")

    def _check_zones(self) -> None:
        """Texts without a zone cannot be read where none is named. Where some have a zone and others have none, that is
        reported: the two clocks may differ, and then events of one case change their order."""
        without = np.flatnonzero(self.zoneless)
        if not len(without):
            return
        rows_without = int(np.isin(self.codes, without).sum())
        rows_with = int(np.isin(self.codes, np.flatnonzero(self.zoned)).sum())
        mixed = f"{rows_with} of the times have a zone and {rows_without} have none"
        if self.reading.timezone is None:
            if not rows_with and not self.reading.declared:
                raise zoneless(self.where(self._row(int(without[0]))), self.name)
            wrong = f"has no time zone; name the zone of the log with --timezone ({mixed})"
            self.unread.update(dict.fromkeys(without.tolist(), (bad_rows.ZONELESS, wrong)))
        elif rows_with:
            self.reading.say(f"{self.name}: {mixed}, which are read in {self.reading.timezone}")

    def _faults(self) -> list[_Fault]:
        """The rows of the texts that cannot be read, by cause, in the order of the file."""
        codes_of: dict[str, list[int]] = {}
        for code in sorted(self.unread):
            codes_of.setdefault(self.unread[code][0], []).append(code)
        faults = []
        for cause, codes in codes_of.items():
            reason = self.unread[codes[0]][1]
            words = f": {self.name} {reason}; its shape is {shape(self.texts[codes[0]])!r}"
            faults += _fault(np.flatnonzero(np.isin(self.codes, codes)), cause, words)
        return faults

    def _row(self, code: int) -> int:
        """The first row with a text."""
        return int(np.argmax(self.codes == code))

    def _refused(self, code: int, reason: str) -> InputError:
        return InputError(
            f"{self.where(self._row(code))}: {self.name} {reason}; its shape is {shape(self.texts[code])!r}"
        )


def zoneless(where: str, name: str) -> InputError:
    """The one message for a time without a zone."""
    return InputError(f"{where}: {name} has no time zone; name the zone of the log with --timezone")


def _case_attributes(
    attributes: Mapping[str, Column], order: Ints | None, starts: Ints, where: Where, *, lenient: bool
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
