"""Columns of times that are not ISO 8601: formats of strptime, counts of a unit, Excel's days.

One reading has to hold for a whole column. `05/03/2020` alone is the fifth of March and the third of May: if no value
of the column decides, the column is refused, and the error names both readings. pandas and dateutil guess formats too,
but swap day and month silently where a value does not fit (docs/decisions/041); pandas parses the values here, by a
format that all of a text has to fit.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

import numpy as np

from models.errors import InputError
from models.instants import FIRST_YEAR, LAST_YEAR, UNITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Moments = NDArray[np.datetime64]

DAY_FIRST, MONTH_FIRST, YEAR_FIRST = "day-first", "month-first", "year-first"
EXCEL, EXCEL_1904 = "excel", "excel-1904"
ISO = "iso"
"""ISO 8601, which is also the default if all texts of a column fit it."""
ORDERS = (DAY_FIRST, MONTH_FIRST, YEAR_FIRST)
WORDS = (ISO, *ORDERS, EXCEL, EXCEL_1904, *UNITS)
"""Values of `--time-format` other than a format of strptime."""

# The grammar of texts that are recognised as times. Each named group is replaced by a directive of strptime.
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_MONTH = r"(?P<month>0?[1-9]|1[0-2])"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_SIGN, _SAME_SIGN = r"(?P<sign>[-/. ])", r"(?P=sign)"
_CLOCK = (
    r"(?:(?:\s*,\s*|\s+|[Tt_-])(?P<hour>\d{1,2})[:.h](?P<minute>\d{2})"
    r"(?:[:.](?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?(?:\s*(?P<half>[AaPp][Mm]))?)?"
    r"(?:\s*(?P<offset>Z|[+-]\d{2}:?\d{2})|\s+(?P<zone>UTC|GMT))?"
)
_MONTHS = ["january", "february", "march", "april", "may", "june"]
_MONTHS += ["july", "august", "september", "october", "november", "december"]
_MONTH_NAME = f"(?P<month_name>(?i:{'|'.join([*_MONTHS, *(name[:3] for name in _MONTHS)])}))"
_WEEKDAY = r"(?:(?P<weekday>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*),?\s+)?"
_FULL_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}}){_SIGN}{_MONTH}{_SAME_SIGN}{_DAY}{_CLOCK}", re.ASCII)
_NAMED_MONTH = (
    re.compile(rf"{_WEEKDAY}(?P<day>\d{{1,2}})[-/. ]?\s*{_MONTH_NAME}[-/., ]?\s*{_YEAR}{_CLOCK}"),
    re.compile(rf"{_WEEKDAY}{_MONTH_NAME}\s+(?P<day>\d{{1,2}}),?\s+(?P<year>\d{{4}}){_CLOCK}"),
)
_BY_ORDER = {
    DAY_FIRST: re.compile(rf"{_DAY}{_SIGN}{_MONTH}{_SAME_SIGN}{_YEAR}{_CLOCK}", re.ASCII),
    MONTH_FIRST: re.compile(rf"{_MONTH}{_SIGN}{_DAY}{_SAME_SIGN}{_YEAR}{_CLOCK}", re.ASCII),
    YEAR_FIRST: re.compile(rf"(?P<year>\d{{2}}){_SIGN}{_MONTH}{_SAME_SIGN}{_DAY}{_CLOCK}", re.ASCII),
}
_COMPACT = {12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
"""Formats of dates that are written as digits alone, by their length."""

_DURATION = re.compile(r"P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?", re.ASCII)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?", re.ASCII)

_FROM, _TO = 315_532_800, 4_102_444_800
"""1980 to 2100 in seconds. Within these years, counts of units, Excel's days and dates of digits do not overlap."""
_EXCEL_FROM, _EXCEL_TO = 29_221, 73_051
"""The same years in Excel's days."""
_EXCEL_EPOCH = {EXCEL: -2_209_161_600, EXCEL_1904: -2_082_844_800}
"""Seconds from 1970 to day 0: 1899-12-30 (Excel's 1900 with its 29 February), and 1904-01-01 of old Macs."""

NO_TIME = (
    "is not a time; write it as 2026-01-31T12:00:00+01:00, or give the unit it counts or its format: --time-format "
    "s|ms|us|ns|excel or --time-format '%d.%m.%Y %H:%M'"
)


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """The reading of a column: a unit of counts, Excel's days, or a format for each text.

    Parameters
    ----------
    unit
        The unit in which numbers count since 1970-01-01 UTC.
    excel
        The kind of Excel's day numbers.
    formats
        A format of strptime for each distinct text.
    note
        A line for the user about the reading.
    """

    unit: str | None = None
    excel: str | None = None
    formats: tuple[str, ...] = ()
    note: str | None = None

    @property
    def flag(self) -> str:
        """The value of `--time-format` for this reading; empty if there is none."""
        if self.unit or self.excel:
            return self.unit or self.excel or ""
        if len(set(self.formats)) == 1:
            return self.formats[0]
        return ""


class UnknownTimesError(ValueError):
    """A column has no reading, or several.

    Parameters
    ----------
    place
        Number of the first faulty text.
    reason
        Its fault, and the remedy.
    readings
        The words for `--time-format` if there are several readings.
    """

    def __init__(self, place: int, reason: str, readings: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.place, self.reason, self.readings = place, reason, readings


def numbers(texts: Sequence[str]) -> bool:
    """Return whether all texts are plain numbers, and not all are days (`20200131`).

    Parameters
    ----------
    texts
        Distinct texts of a column.
    """
    if not texts or not all(map(_NUMBER.fullmatch, texts)):
        return False
    return not all(map(_is_compact_day, texts))


def _is_compact_day(text: str) -> bool:
    if len(text) != 8 or not text.isdigit():
        return False
    return "1980" <= text[:4] < "2100" and text[4:6] <= "12" and text[6:] <= "31"


def durations(texts: Sequence[str]) -> bool:
    """Return whether all texts are durations of ISO 8601: times since the start of their case.

    Parameters
    ----------
    texts
        Distinct texts of a column.
    """
    return bool(texts) and all(map(_DURATION.fullmatch, texts))


def lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return durations of ISO 8601 in nanoseconds, exactly.

    Parameters
    ----------
    texts
        Durations, such as `P1DT2H`.

    Returns
    -------
    Ints
        int64[texts].
    """
    import pandas as pd

    return np.asarray([pd.Timedelta(text).as_unit("ns").value for text in texts], dtype=np.int64)


def plan(texts: Sequence[str]) -> ColumnFormat:
    """Return the one reading that holds for all distinct texts of a column.

    Parameters
    ----------
    texts
        Distinct texts of a column.

    Raises
    ------
    UnknownTimesError
        No reading holds for all texts, or several do and differ.
    """
    if numbers(texts):
        return _plan_of_counts(texts)
    formats_of: dict[str, list[str]] = {}
    moments_by_order: dict[str, Moments] = {}
    misfits: dict[str, list[int]] = {}
    for order in ORDERS:
        formats = formats_in_order(texts, order)
        moments = moments_of(texts, formats)
        misfits[order] = np.flatnonzero(np.isnat(moments)).tolist()
        if misfits[order]:
            continue
        # Orders in which all texts are the same times are one reading.
        if not any(np.array_equal(moments, other) for other in moments_by_order.values()):
            formats_of[order], moments_by_order[order] = formats, moments
    if not formats_of:
        raise _no_reading(misfits)
    if len(formats_of) > 1:
        raise _several_readings(formats_of)
    (formats,) = formats_of.values()
    return ColumnFormat(formats=tuple(formats), note=f"times are read as {_shown(formats)}")


def plan_for_most(texts: Sequence[str]) -> tuple[ColumnFormat, list[int]] | None:
    """Return the reading of all texts that are times in some order of day and month, and the places of the others.

    A text that is a time in only one order decides the order of the column, even against a majority. None if there is
    no reading.

    Parameters
    ----------
    texts
        Distinct texts of a column.

    Raises
    ------
    UnknownTimesError
        Several readings hold for most texts, and differ.
    """
    counts = [place for place, text in enumerate(texts) if _NUMBER.fullmatch(text) and not _is_compact_day(text)]
    dates: set[int] = set()
    for order in ORDERS:
        moments = moments_of(texts, formats_in_order(texts, order))
        dates.update(np.flatnonzero(~np.isnat(moments)).tolist())
    kept = max((sorted(dates), counts), key=len)
    if not kept:
        return None
    try:
        reading = plan([texts[place] for place in kept])
    except UnknownTimesError as error:
        # A few dates in a column of other texts leave no order to choose.
        if error.readings and 2 * len(kept) > len(texts):
            raise UnknownTimesError(kept[error.place], error.reason, error.readings) from None
        return None
    misfits = sorted(set(range(len(texts))) - set(kept))
    if not reading.formats:
        return reading, misfits
    formats = [""] * len(texts)
    for place, form in zip(kept, reading.formats, strict=True):
        formats[place] = form
    return replace(reading, formats=tuple(formats)), misfits


def formats_in_order(texts: Sequence[str], order: str) -> list[str]:
    """Return the format of strptime of each text, "" if it is not a time in this order.

    Parameters
    ----------
    texts
        Texts of a column.
    order
        One of `ORDERS`.
    """
    return [strptime_format(text, order) or "" for text in texts]


def strptime_format(text: str, order: str) -> str | None:
    """Return the format of strptime of a text, or None if it is not a time.

    Parameters
    ----------
    text
        The text. Blanks around it do not count.
    order
        Order of day, month and year: one of `ORDERS`.

    Examples
    --------
    >>> strptime_format("25/03/2020 14:05", "day-first")
    '%d/%m/%Y %H:%M'
    >>> strptime_format("25/03/2020 14:05", "month-first")
    """
    text = text.strip()
    if text.isdigit() and len(text) in _COMPACT:
        return _COMPACT[len(text)]
    for pattern in (_FULL_YEAR_FIRST, _BY_ORDER[order], *_NAMED_MONTH):
        match = pattern.fullmatch(text)
        if match is not None:
            return _with_directives(text, match)
    return None


def _with_directives(text: str, match: re.Match[str]) -> str:
    """Return the text with each named part replaced by its directive of strptime."""
    pieces: list[str] = []
    copied = 0
    # The groups of a pattern are numbered from left to right.
    for name, number in match.re.groupindex.items():
        begin, end = match.span(number)
        is_absent = begin < 0
        if is_absent or name == "sign":
            continue
        pieces.append(text[copied:begin])
        pieces.append(_directive(name, end - begin, match))
        copied = end
    pieces.append(text[copied:])
    return "".join(pieces)


_DIRECTIVES = {"day": "%d", "month": "%m", "minute": "%M", "second": "%S", "fraction": "%f", "half": "%p"}
_DIRECTIVES |= {"offset": "%z", "zone": "%Z"}


def _directive(name: str, length: int, match: re.Match[str]) -> str:
    """Return the directive of a named part, which may depend on how long it is written."""
    if name == "year":
        return "%Y" if length == 4 else "%y"
    if name == "month_name":
        return "%b" if length == 3 else "%B"
    if name == "weekday":
        return "%a" if length == 3 else "%A"
    if name == "hour":
        return "%H" if match["half"] is None else "%I"
    return _DIRECTIVES[name]


def moments_of(texts: Sequence[str], formats: Sequence[str]) -> Moments:
    """Return each text by its own format of strptime, in ns; NaT if it does not fit.

    Parameters
    ----------
    texts
        Texts of a column.
    formats
        Format of each text, "" if it has none.

    Returns
    -------
    Moments
        datetime64[ns], on the clock that the text shows (UTC if it has a zone).
    """
    result = np.full(len(texts), np.datetime64("NaT", "ns"))
    by_format: dict[str, list[int]] = {}
    for place, form in enumerate(formats):
        by_format.setdefault(form, []).append(place)
    for form, places in by_format.items():
        if form:
            result[places] = parsed([texts[place] for place in places], form)
    return result


def parsed(texts: Sequence[str], form: str) -> Moments:
    """Return texts by one format of strptime, in ns.

    Times are in UTC if the format has a zone, and else on the clock of the file. NaT for a text that does not fit or
    is outside the years 1678 to 2261.

    Parameters
    ----------
    texts
        The texts. Blanks around them do not count.
    form
        The format.

    Raises
    ------
    InputError
        It is not a format of strptime.
    """
    import pandas as pd

    series = pd.Series([text.strip() for text in texts], dtype=object)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas warns that a later version will drop some zones
            moments = pd.to_datetime(series, format=form, exact=True, errors="coerce", utc=zoned(form))
    except (ValueError, TypeError):
        raise InputError(
            f"--time-format {form!r} is neither a format of strptime such as '%d.%m.%Y %H:%M' nor one of "
            f"{', '.join(WORDS)}"
        ) from None
    if zoned(form):
        moments = moments.dt.tz_localize(None)
    plain = np.asarray(moments.to_numpy())
    years = plain.astype("datetime64[Y]").astype(np.int64) + 1970
    within_years = np.where((years >= FIRST_YEAR) & (years <= LAST_YEAR), plain, np.datetime64("NaT"))
    return within_years.astype("datetime64[ns]")


def zoned(form: str) -> bool:
    """Return whether a format of strptime reads a zone.

    Parameters
    ----------
    form
        The format.
    """
    return "%z" in form or "%Z" in form


def _plan_of_counts(texts: Sequence[str]) -> ColumnFormat:
    """Return the unit in which all numbers are times between 1980 and 2100."""
    ranges = {name: (_FROM * 10**9 // factor, _TO * 10**9 // factor) for name, factor in UNITS.items()}
    ranges[EXCEL] = (_EXCEL_FROM, _EXCEL_TO)
    values = [Decimal(text.replace(",", ".")) for text in texts]
    unit = next((name for name, (low, high) in ranges.items() if low <= values[0] < high), None)
    if unit is None:
        form = _COMPACT.get(len(texts[0]), "")
        same_length = all(len(text) == len(texts[0]) for text in texts)
        if form and same_length and not np.isnat(parsed(texts, form)).any():
            return ColumnFormat(formats=(form,) * len(texts), note=f"times are read as {form!r}")
        raise UnknownTimesError(
            0, f"is a number of an unknown unit; name it: --time-format {'|'.join([*UNITS, EXCEL])}"
        )
    low, high = ranges[unit]
    for place, value in enumerate(values):
        if not low <= value < high:
            raise UnknownTimesError(
                place,
                f"is not a time between 1980 and 2100 in {unit}, as the values before it are; if it is right, confirm "
                f"it: --time-format {unit}",
            )
    if unit == EXCEL:
        return ColumnFormat(excel=EXCEL, note="times are read as Excel's days since 1899-12-30 (--time-format excel)")
    return ColumnFormat(unit=unit, note=f"times are read as {unit} since 1970-01-01 UTC (--time-format {unit})")


def excel_days(text: str, kind: str) -> np.datetime64:
    """Return the time of a day number of Excel, to the millisecond, which is the precision of a cell.

    Parameters
    ----------
    text
        The number, with a decimal point or comma.
    kind
        Epoch of the workbook: EXCEL (1900) or EXCEL_1904.

    Raises
    ------
    ValueError
        If the text is not such a number.
    """
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError("not a number")
    days = Decimal(text.strip().replace(",", "."))
    milliseconds = (days * 86_400_000).to_integral_value(ROUND_HALF_EVEN) + _EXCEL_EPOCH[kind] * 1000
    moment = np.datetime64(int(milliseconds), "ms")
    year = int(moment.astype("datetime64[Y]").astype(np.int64)) + 1970
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def _shown(formats: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(formats))
    return ", ".join(map(repr, distinct[:3])) + (" ..." if len(distinct) > 3 else "")


def _several_readings(formats_of: Mapping[str, Sequence[str]]) -> UnknownTimesError:
    both = " or ".join(f"{order} ({formats[0]!r})" for order, formats in formats_of.items())
    reason = f"can be read {both}, and no value of the column decides; choose one: --time-format "
    return UnknownTimesError(0, reason + " or ".join(formats_of), tuple(formats_of))


def _no_reading(misfits: Mapping[str, Sequence[int]]) -> UnknownTimesError:
    """Return the error for a column; `misfits` are the places that do not fit, by order."""
    fit_nowhere = set.intersection(*map(set, misfits.values()))
    if fit_nowhere:
        return UnknownTimesError(min(fit_nowhere), NO_TIME)
    first_conflict = max(places[0] for places in misfits.values())
    return UnknownTimesError(
        first_conflict,
        "fits no order of day and month that all values before it fit; a column has one order: write ISO 8601",
    )
