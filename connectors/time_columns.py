"""The time column of a table, in nanoseconds: datetimes, durations, counts of a unit, or texts.

Texts are read in their declared format (`--time-format`), each by itself. If no format is declared, they are read as
ISO 8601, or in the only other format that the whole column has (`connectors.dates`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from connectors import bad_rows, dates
from connectors.bad_rows import Fault, PlaceOfRow
from connectors.columns import shape
from connectors.reading import Reading, UndeclaredError
from connectors.times import SECOND, ZonelessError, offsets, parser, zone
from models.errors import InputError
from models.eventlog import Column, Flags, Ints
from models.instants import FIRST_YEAR, INSTANTS, LAST_YEAR, OUTSIDE, UNITS, in_utc

if TYPE_CHECKING:
    import pandas as pd


_NO_TIME = bad_rows.TIME, dates.NO_TIME
"""Cause and reason of a text that is not a time: one object, since all texts of a column may have it at first."""


def times(series: pd.Series, name: str, reading: Reading, place_of: PlaceOfRow) -> Ints:
    """Return the time column in ns since 1970-01-01 UTC.

    Parameters
    ----------
    series
        The column.
    name
        Its name, for messages.
    reading
        How times are read.
    place_of
        Returns the place of a row, for messages.

    Raises
    ------
    InputError
        A time cannot be read.
    """
    instants, faults = readable_times(series, name, reading, place_of)
    for fault in faults:
        raise InputError(f"{place_of(int(fault.rows[0]))}{fault.reason}")
    return instants


def readable_times(
    series: pd.Series,
    name: str,
    reading: Reading,
    place_of: PlaceOfRow,
) -> tuple[Ints, list[Fault]]:
    """Return the time column in ns, and the rows whose time cannot be read.

    Parameters
    ----------
    series
        The column.
    name
        Its name, for messages.
    reading
        The user's statements about the file.
    place_of
        Place of a row.

    Returns
    -------
    instants : Ints
        int64[N]; an unreadable row has any number.
    faults : list of Fault
        The unreadable rows, by cause.

    Raises
    ------
    InputError
        The column as a whole cannot be read: an unknown format, or a unit or order that no value decides.
    """
    import pandas as pd

    unit, form = _unit_and_format(reading)
    missing = np.flatnonzero(series.isna().to_numpy())
    faults = Fault.of(
        missing, bad_rows.NO_TIME, f": no {name}; every event needs one (another column: --columns time=...)"
    )
    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        instants, unreadable = _from_datetimes(series, name, reading.timezone, place_of)
        if series.dt.tz is None:
            clock_times = series.dropna().to_numpy()
            report_clock_changes(clock_times, np.ones(len(clock_times), dtype=np.int64), reading)
    elif pd.api.types.is_timedelta64_dtype(series):
        instants, unreadable = _from_durations(series, name)
    elif unit is not None:
        instants, unreadable = _from_counts(series, name, UNITS[unit])
        _report_shortened(series, name, UNITS[unit], reading)
    else:
        instants, unreadable = _TimeTexts(series, name, reading, place_of).read(form)
    return instants, faults + unreadable


def zoneless(place: str, name: str) -> InputError:
    """Return the error for a time without a zone.

    Parameters
    ----------
    place
        Place of the row.
    name
        Name of the column.
    """
    return InputError(f"{place}: {name} has no time zone; {bad_rows.NAME_THE_ZONE}")


def _unit_and_format(reading: Reading) -> tuple[str | None, str | None]:
    """Return the unit, and the format if it is not a unit; `time_format` may name either."""
    unit, form = reading.unit, reading.time_format
    if unit is not None and unit not in UNITS:
        raise InputError(f"unit {unit!r} is not known; use one of {', '.join(UNITS)}")
    if form is not None and form in UNITS:
        return form, None
    if form is not None and form not in dates.WORDS:
        if "%" not in form:
            raise InputError(f"--time-format {form!r}: give a format of strptime, or one of {', '.join(dates.WORDS)}")
        # Refuses a wrong format here, and not as a fault of the first row.
        dates.parsed(["0"], form)
    return unit, form


def _from_datetimes(
    series: pd.Series, name: str, timezone: str | None, place_of: PlaceOfRow
) -> tuple[Ints, list[Fault]]:
    """Convert datetimes as `models.instants.of_datetimes` does, but report each unreadable row."""
    if series.dt.tz is None and timezone is None:
        raise zoneless(place_of(0), name)
    moments = in_utc(series, zone(timezone))
    first, end = np.datetime64(f"{FIRST_YEAR:04}", "Y"), np.datetime64(f"{LAST_YEAR + 1:04}", "Y")
    outside = (moments < first) | (moments >= end)
    readable = np.where(outside | np.isnat(moments), np.datetime64(0, "s"), moments)
    instants = np.asarray(readable.astype("datetime64[ns]").view(np.int64))
    return instants, Fault.of(np.flatnonzero(outside), bad_rows.YEAR, f": {name} {OUTSIDE}")


def report_clock_changes(clock_times: dates.Moments, rows: Ints, reading: Reading) -> None:
    """Report how many local times occur twice in the zone of the reading, and how many do not exist there.

    Parameters
    ----------
    clock_times
        datetime64[T], the local times without their zone.
    rows
        int64[T], the number of rows of each.
    reading
        Has the zone, and receives the report.
    """
    import pandas as pd

    local = zone(reading.timezone)
    if local is None or reading.on_clock_changes is None:
        return
    moments = pd.DatetimeIndex(clock_times)
    first_of_two = np.ones(len(moments), dtype=bool)
    with_first = moments.tz_localize(local, ambiguous=first_of_two, nonexistent="NaT")
    with_neither = moments.tz_localize(local, ambiguous="NaT", nonexistent="NaT")
    skipped = np.asarray(with_first.isna(), dtype=bool)
    repeated_or_skipped = np.asarray(with_neither.isna(), dtype=bool)
    repeated = repeated_or_skipped & ~skipped
    if repeated_or_skipped.any():
        reading.on_clock_changes(int(rows[repeated].sum()), int(rows[skipped].sum()))


def _from_durations(series: pd.Series, name: str) -> tuple[Ints, list[Fault]]:
    """Convert durations since 1970; int64 nanoseconds hold 292 years in each direction."""
    lengths = np.asarray(series.to_numpy())
    limit = np.timedelta64(np.iinfo(np.int64).max // SECOND, "s")
    outside = (lengths > limit) | (lengths < -limit)
    readable = np.where(outside | np.isnat(lengths), np.timedelta64(0, "s"), lengths)
    instants = np.asarray(readable.astype("timedelta64[ns]").view(np.int64))
    return instants, Fault.of(np.flatnonzero(outside), bad_rows.YEAR, f": {name} is a duration beyond 292 years")


def _from_counts(series: pd.Series, name: str, factor: int) -> tuple[Ints, list[Fault]]:
    """Convert numbers that count a unit of `factor` nanoseconds."""
    instants = np.zeros(len(series), dtype=np.int64)
    missing = series.isna().to_numpy()
    unreadable: list[int] = []
    outside: list[int] = []
    first_shape = ""
    for row, value in enumerate(series.tolist()):
        if missing[row]:
            continue
        try:
            instant = int(value) * factor if isinstance(value, int) else _scaled(str(value), factor)
        except (ValueError, ArithmeticError):
            first_shape = first_shape or shape(str(value))
            unreadable.append(row)
            continue
        if instant not in INSTANTS:
            outside.append(row)
            continue
        instants[row] = instant
    no_number = f": {name} is not a number of the unit given (--time-format); its shape is {first_shape!r}"
    beyond = f": {name} {OUTSIDE} if it counts the unit given; check the unit"
    faults = Fault.of(unreadable, bad_rows.TIME, no_number) + Fault.of(outside, bad_rows.YEAR, beyond)
    return instants, faults


_EXPONENT = re.compile(r"\s*\d(?:[.,](\d*))?E\+?(\d\d?)\s*", re.IGNORECASE | re.ASCII)
"""A long number as a spreadsheet shows and then saves it; its digits after the point, and the power of ten."""


def _report_shortened(series: pd.Series, name: str, factor: int, reading: Reading) -> None:
    """Report numbers such as 1.70928E+12, if they have too few digits for a second.

    Of milliseconds that a spreadsheet has saved, nearly three hours have the same number. A program that writes numbers
    so leaves out zeros at the end: then other times have more digits.
    """
    texts = {value for value in series.dropna().tolist() if isinstance(value, str)}
    written = [match for match in map(_EXPONENT.fullmatch, texts) if match is not None]
    if not written:
        return
    steps = []
    for match in written:
        decimals, power = match.groups()
        lost_digits = int(power) - len(decimals or "")
        steps.append(10 ** max(lost_digits, 0))
    seconds = min(steps) * factor // SECOND
    if seconds > 1:
        n_rows = int(series.isin([match.string for match in written]).sum())
        reading.say(
            f"{name}: {n_rows} times are numbers that a spreadsheet has shortened, such as 1.70928E+12: they differ by "
            f"steps of {seconds} seconds, and events of a case within a step stay in the order of the file; export "
            "them without opening the file in a spreadsheet"
        )


def _scaled(text: str, factor: int) -> int:
    return int(Decimal(text.strip().replace(",", ".")) * factor)


_DAY = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{8}", re.ASCII)
_LONGEST_DAY = len("2026-01-31")


class _TimeTexts:
    """A column of times as texts.

    Each distinct text is parsed once, since times of releases repeat. All arrays below have one entry per distinct
    text.
    """

    def __init__(self, series: pd.Series, name: str, reading: Reading, place_of: PlaceOfRow) -> None:
        self.name, self.reading, self.place_of = name, reading, place_of
        column = Column.encode(series.tolist())
        self.codes = column.codes
        self.texts = [text if isinstance(text, str) else str(text) for text in column.values]
        self.stripped = [text.strip() for text in self.texts]
        self.instants = np.zeros(len(self.texts), dtype=np.int64)
        # Texts that cannot be read: cause and reason.
        self.unreadable: dict[int, tuple[str, str]] = {}
        # Texts that carry a zone, and those that need one.
        self.with_zone = np.zeros(len(self.texts), dtype=np.bool_)
        self.without_zone = np.zeros(len(self.texts), dtype=np.bool_)
        # Moments of the texts, without their zone, if a format of strptime has read them.
        self.moments: dates.Moments | None = None

    def read(self, form: str | None) -> tuple[Ints, list[Fault]]:
        """Return the instants by a format; without one by the reading that holds for the column."""
        if form is None and self.reading.declared:
            raise UndeclaredError(self.place_of(0).rpartition(":")[0], ["--time-format"])
        if form in (dates.EXCEL, dates.EXCEL_1904):
            self._read_excel_days(form)
        elif form == dates.ISO:
            self._read_iso()
        elif form in dates.ORDERS:
            self._read_in_order(form)
        elif form is not None:
            self._read_by_formats([form] * len(self.texts))
        elif dates.durations(self.stripped):
            self._read_durations()
        elif dates.numbers(self.stripped):
            self._read_numbers()
        else:
            self._detect()
        self._check_zones()
        self._report_clock_changes()
        self._report_days_among_times()
        # The last place is that of missing values, whose code is -1.
        return np.append(self.instants, 0)[self.codes], self._faults()

    def _report_days_among_times(self) -> None:
        """Report days without a time of day among times with one: they come before all others of their day."""
        days = [
            code
            for code, text in enumerate(self.stripped)
            if len(text) <= _LONGEST_DAY and _DAY.fullmatch(text) and code not in self.unreadable
        ]
        if not days or not any(":" in text for text in self.stripped):
            return
        n_rows = int(np.isin(self.codes, days).sum())
        self.reading.say(
            f"{self.name}: {n_rows} of the times are days without a time of day, and are read as midnight: such an "
            "event comes before all others of its day, in an order that nobody recorded; export its time of day, or "
            "empty the field and leave such rows out with --skip-bad-rows"
        )

    def _detect(self) -> None:
        """Read by ISO 8601 if all texts fit it, else by the plan of all texts, else by the reading of most."""
        self._read_iso()
        misfits = [code for code, (cause, _) in self.unreadable.items() if cause == bad_rows.TIME]
        if not misfits:
            return
        try:
            self._read_by_plan(dates.plan(self.stripped), [])
            return
        except dates.UnknownTimesError as error:
            has_several_readings = bool(error.readings)
            refusal = self._refusal_of_column(error, misfits[0])
        read_by_iso = len(self.texts) - len(misfits)
        try:
            plan = dates.plan_for_most(self.stripped)
        except dates.UnknownTimesError as error:
            if 2 * read_by_iso <= len(self.texts):
                raise self._refusal(error.place, error.reason) from None
            plan = None
        read_by_plan = 0 if plan is None else len(self.texts) - len(plan[1])
        if has_several_readings or 2 * max(read_by_plan, read_by_iso) <= len(self.texts):
            # No reading holds for most texts: the format is unknown, and no single row is to blame.
            raise refusal
        # Otherwise the reading by ISO 8601 stays.
        if plan is not None and read_by_plan > read_by_iso:
            self._read_by_plan(*plan)

    def _read_numbers(self) -> None:
        """Read dates of digits alone. Counts are refused, with the unit that fits all of them."""
        try:
            self._read_by_plan(dates.plan(self.stripped), [])
        except dates.UnknownTimesError as error:
            raise self._refusal_of_column(error) from None

    def _refusal_of_column(self, error: dates.UnknownTimesError, misfit: int | None = None) -> InputError:
        """Return the error for a column without a plan; `misfit` is the first text that is not ISO 8601."""
        if misfit:
            # The texts before it are ISO 8601: this one should be, too.
            return self._refusal(misfit, dates.NO_TIME)
        return self._refusal(error.place, error.reason)

    def _read_durations(self) -> None:
        try:
            self.instants = np.asarray(dates.lengths(self.stripped))
        except (ValueError, OverflowError):  # pandas holds no more than 292 years
            raise self._refusal(0, "is a duration beyond 292 years, or one of the column is") from None

    def _read_iso(self) -> None:
        """Read each text by itself as ISO 8601."""
        parse_with_zone, parse_in_zone = parser(None), parser(self.reading.timezone)
        for code, text in enumerate(self.texts):
            try:
                self.instants[code] = parse_with_zone(text)
                self.with_zone[code] = True
            except ZonelessError:
                self.without_zone[code] = True
                if self.reading.timezone is not None:
                    self.instants[code] = parse_in_zone(text)
            except (ValueError, OverflowError):
                self.unreadable[code] = _NO_TIME

    def _read_by_plan(self, plan: dates.ColumnFormat, misfits: Sequence[int]) -> None:
        """Read all texts but the misfits by a plan that holds for them."""
        if plan.unit is not None or plan.excel is not None:
            # A number does not state its unit, and one row more could change the unit that fits all.
            first_number = min(set(range(len(self.texts))) - set(misfits))
            raise self._refusal(
                first_number,
                f"is a number, which needs its unit; all rows together look like --time-format {plan.flag}: pass this "
                "if it is right (veilstream inspect shows the result)",
            )
        self.unreadable = dict.fromkeys(misfits, _NO_TIME)
        self._read_by_formats(plan.formats)
        if plan.note is not None:
            self.reading.say(f"{self.name}: {plan.note}")

    def _read_in_order(self, order: str) -> None:
        """Read each text by itself, with day, month and year in this order."""
        formats = dates.formats_in_order(self.stripped, order)
        if formats and not any(formats):
            raise self._refusal(0, f"is not a date with its parts {order} (--time-format)")
        self._read_by_formats(formats)

    def _read_excel_days(self, kind: str) -> None:
        moments = np.full(len(self.stripped), np.datetime64("NaT", "ns"))
        for code, text in enumerate(self.stripped):
            try:
                moments[code] = dates.excel_days(text, kind)
            except (ValueError, ArithmeticError):
                self.unreadable[code] = bad_rows.TIME, f"is not a day number of Excel (--time-format {kind})"
        self._take(moments, np.ones(len(self.stripped), dtype=bool))

    def _read_by_formats(self, formats: Sequence[str]) -> None:
        """Read each text by its own format of strptime; "" fits no text."""
        moments = dates.moments_of(self.stripped, formats)
        for code in np.flatnonzero(np.isnat(moments)).tolist():
            reason = dates.NO_TIME
            if formats[code]:
                reason = f"is not a time of the format {formats[code]!r} (--time-format)"
            self.unreadable[code] = bad_rows.TIME, reason
        self._take(moments, np.asarray([not dates.zoned(form) for form in formats], dtype=bool))

    def _take(self, moments: dates.Moments, local: Flags) -> None:
        """Take moments, of which some are on the clock of the log; NaT stays unreadable."""
        import pandas as pd

        self.moments = moments
        readable = ~np.isnat(moments)
        self.instants = np.where(readable, moments, np.datetime64(0, "ns")).astype(np.int64)
        self.without_zone = local & readable
        self.with_zone = ~local & readable
        local_codes = np.flatnonzero(self.without_zone)
        if not len(local_codes) or self.reading.timezone is None:
            return
        series = pd.Series(moments[local_codes])
        self.instants[local_codes], outside = _from_datetimes(series, self.name, self.reading.timezone, str)
        for fault in outside:
            for place in fault.rows.tolist():
                self.unreadable[int(local_codes[place])] = fault.cause, fault.reason.removeprefix(f": {self.name} ")

    def _check_zones(self) -> None:
        """Mark texts without a zone if no zone is named, and report a column that mixes both.

        Two clocks in one column may differ, and then events of a case change their order.
        """
        without = np.flatnonzero(self.without_zone)
        if not len(without):
            return
        rows_without = int(np.isin(self.codes, without).sum())
        rows_with = int(np.isin(self.codes, np.flatnonzero(self.with_zone)).sum())
        mixed = f"{rows_with} of the times have a zone and {rows_without} have none"
        if self.reading.timezone is None:
            if not rows_with and not self.reading.declared:
                raise zoneless(self.place_of(self._first_row(int(without[0]))), self.name)
            reason = f"has no time zone; {bad_rows.NAME_THE_ZONE}; {mixed}"
            self.unreadable.update(dict.fromkeys(without.tolist(), (bad_rows.ZONELESS, reason)))
        elif rows_with:
            self.reading.say(f"{self.name}: {mixed}, which are read in {self.reading.timezone}")

    def _report_clock_changes(self) -> None:
        """Report the texts that show a local time that occurs twice or not at all."""
        if self.reading.timezone is None or self.reading.on_clock_changes is None:
            return
        if not self.without_zone.any():
            return
        # Only texts within a day of a change are looked at: ISO 8601 has to be parsed again for it.
        local_codes = np.flatnonzero(self.without_zone)
        day = 86_400 * SECOND
        before = offsets(self.instants[local_codes] - day, self.reading.timezone)
        after = offsets(self.instants[local_codes] + day, self.reading.timezone)
        codes = local_codes[before != after]
        if self.moments is None:
            # Read in UTC, a time without a zone stays what the clock showed.
            parse = parser("UTC")
            clock_times = [parse(self.texts[code]) for code in codes]
            shown = np.asarray(clock_times, dtype=np.int64).astype("datetime64[ns]")
        else:
            shown = self.moments[codes]
        rows = np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts))[codes]
        report_clock_changes(shown, rows, self.reading)

    def _faults(self) -> list[Fault]:
        """Return the rows of the unreadable texts by cause, in the order of the file."""
        codes_by_cause: dict[str, list[int]] = {}
        for code in sorted(self.unreadable):
            cause, _ = self.unreadable[code]
            codes_by_cause.setdefault(cause, []).append(code)
        faults = []
        for cause, codes in codes_by_cause.items():
            _, reason = self.unreadable[codes[0]]
            words = f": {self.name} {reason}; {_shape_of(self.texts[codes[0]])}"
            faults += Fault.of(np.flatnonzero(np.isin(self.codes, codes)), cause, words)
        return faults

    def _first_row(self, code: int) -> int:
        """Return the first row with a text."""
        return int(np.argmax(self.codes == code))

    def _refusal(self, code: int, reason: str) -> InputError:
        place = self.place_of(self._first_row(code))
        return InputError(f"{place}: {self.name} {reason}; {_shape_of(self.texts[code])}")


# Not in 10:24:00, which has minute 24.
_END_OF_DAY = re.compile(r"(?<![\d:])24:00(?!\d)", re.ASCII)


def _shape_of(text: str) -> str:
    """Return the shape of a text that is no time; that of 24:00 is the one of a good time, so it is named."""
    end_of_day = " (24:00: write 00:00 of the next day)" if _END_OF_DAY.search(text) else ""
    return f"its shape is {shape(text)!r}{end_of_day}"
