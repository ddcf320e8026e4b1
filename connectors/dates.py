"""How a column of texts or numbers that is not ISO 8601 stands for times: formats of strptime, counts, Excel's days.

One reading has to hold for the whole column. `05/03/2020` alone is the fifth of March and the third of May: where no
value of the column tells, it is refused, with both.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

import numpy as np

from models.errors import InputError
from models.instants import FIRST_YEAR, LAST_YEAR, UNITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY_FIRST, MONTH_FIRST, YEAR_FIRST = "day-first", "month-first", "year-first"
EXCEL, EXCEL_1904 = "excel", "excel-1904"
ISO = "iso"
"""ISO 8601: what is read by default where all texts of a column are of it."""
ORDERS = (DAY_FIRST, MONTH_FIRST, YEAR_FIRST)
WORDS = (ISO, *ORDERS, EXCEL, EXCEL_1904, *UNITS)
"""What `--time-format` takes beside a format of strptime."""

_ORDERS: Mapping[str, str] = {DAY_FIRST: "dmy", MONTH_FIRST: "mdy", YEAR_FIRST: "ymd"}

_CLOCK = (
    r"(?:(?:\s*,\s*|\s+|[Tt_-])(?P<hour>\d{1,2})(?P<mark>[:.h])(?P<minute>\d{2})"
    r"(?:[:.](?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?(?:\s*(?P<half>[AaPp][Mm]))?)?"
    r"(?:\s*(?P<offset>Z|[+-]\d{2}:?\d{2})|\s+(?P<zone>UTC|GMT))?"
)
_NUMERIC = re.compile(r"(?P<a>\d{1,4})(?P<sign>[-/. ])(?P<b>\d{1,2})(?P=sign)(?P<c>\d{4}|\d{1,2})" + _CLOCK, re.ASCII)
_WEEKDAY = r"(?:(?P<weekday>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*),?\s+)?"
_NAMED = (
    re.compile(
        _WEEKDAY + r"(?P<day>\d{1,2})[-/. ]?\s*(?P<month>[A-Za-z]{3,9})[-/., ]?\s*(?P<year>\d{4}|\d{2})" + _CLOCK
    ),
    re.compile(_WEEKDAY + r"(?P<month>[A-Za-z]{3,9})\s+(?P<day>\d{1,2}),?\s+(?P<year>\d{4})" + _CLOCK),
)
_MONTHS = frozenset(
    ["january", "february", "march", "april", "may", "june", "july"]
    + ["august", "september", "october", "november", "december"]
)
_SHORT = frozenset(month[:3] for month in _MONTHS)
_DURATION = re.compile(r"P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?", re.ASCII)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?", re.ASCII)
_COMPACT = {12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}

_FROM, _TO = 315_532_800, 4_102_444_800
"""1980 to 2100 in seconds: in it the units of counts, Excel's days and dates written without signs do not overlap."""
_EXCEL_FROM, _EXCEL_TO = 29_221, 73_051
"""The same years in Excel's days."""
_EXCEL_EPOCH = {EXCEL: -2_209_161_600, EXCEL_1904: -2_082_844_800}
"""Seconds from 1970 to day 0: 1899-12-30 (Excel's 1900 with its 29 February), and 1904-01-01 of old Macs."""


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """How a column is read: a unit of counts, Excel's days, or a format of strptime for each text.

    `said` is what a person is told of the guess.
    """

    unit: str | None = None
    excel: str | None = None
    formats: tuple[str, ...] = ()
    said: str | None = None

    @property
    def flag(self) -> str:
        """What `--time-format` would take to read the column so."""
        return self.unit or self.excel or (self.formats[0] if len(set(self.formats)) == 1 else "")


NO_TIME = (
    "is not a time; write it as 2026-01-31T12:00:00+01:00, or give the unit it counts or its format: --time-format "
    "s|ms|us|ns|excel or --time-format '%d.%m.%Y %H:%M'"
)


class UnknownTimesError(ValueError):
    """The text at `place` has no place in a reading of the column, or (`readings`) in more than one; `reason` says
    what to do."""

    def __init__(self, place: int, reason: str, readings: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.place, self.reason, self.readings = place, reason, readings


def numbers(texts: Sequence[str]) -> bool:
    """Whether every text is a plain number and the column thus a count, and no text of ISO 8601 (`20200131`)."""
    return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts) and not all(map(_compact_day, texts))


def _compact_day(text: str) -> bool:
    return len(text) == 8 and text.isdigit() and "1980" <= text[:4] < "2100" and text[4:6] <= "12" and text[6:] <= "31"


def durations(texts: Sequence[str]) -> bool:
    """Whether every text is a duration of ISO 8601: a time relative to the start of its case."""
    return bool(texts) and all(_DURATION.fullmatch(text) for text in texts)


def lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    """Durations of ISO 8601 in nanoseconds, exact."""
    import pandas as pd

    return np.asarray([pd.Timedelta(text).as_unit("ns").value for text in texts], dtype=np.int64)


def plan(texts: Sequence[str], order: str | None = None) -> ColumnFormat:
    """How distinct texts stand for times; `order` is one of day-first, month-first, year-first.

    UnknownTimesError: no reading, more than one, or none that holds for all.
    """
    if order is None and numbers(texts):
        return _counts(texts)
    readings: dict[str, tuple[tuple[str, ...], NDArray[np.int64]]] = {}
    misfits: dict[str, list[int]] = {}
    for one in ("dmy", "mdy", "ymd") if order is None else (_ORDERS[order],):
        formats = [strptime_format(text, one) or "" for text in texts]
        moments = moments_of(texts, formats)
        misfits[one] = np.flatnonzero(np.isnat(moments)).tolist()
        if misfits[one]:
            continue
        whole = moments.astype(np.int64)
        if not any(np.array_equal(whole, other) for _, other in readings.values()):
            readings[one] = (tuple(formats), whole)
    if not readings:
        raise _no_reading(misfits)
    if len(readings) > 1:
        raise _ambiguous({one: formats for one, (formats, _) in readings.items()})
    formats_left, _ = next(iter(readings.values()))
    return ColumnFormat(formats=formats_left, said=f"times are read as {_shown(formats_left)}")


def plan_for_most(texts: Sequence[str]) -> tuple[ColumnFormat, list[int]] | None:
    """Return the plan for the texts that are some time, and the places of the others; None where there is no plan.

    A text that is a time in one order of day and month and none in another is no misfit: whoever wrote it decides which
    order the column has, and a majority does not.
    """
    counts = [place for place, text in enumerate(texts) if _NUMBER.fullmatch(text) and not _compact_day(text)]
    dated: set[int] = set()
    for order in ORDERS:
        moments = moments_of(texts, formats_in_order(texts, order))
        dated.update(np.flatnonzero(~np.isnat(moments)).tolist())
    kept = max((sorted(dated), counts), key=len)
    if not kept:
        return None
    try:
        found = plan([texts[place] for place in kept])
    except UnknownTimesError:
        return None
    misfits = sorted(set(range(len(texts))) - set(kept))
    if not found.formats:
        return found, misfits
    formats = [""] * len(texts)
    for place, form in zip(kept, found.formats, strict=True):
        formats[place] = form
    return replace(found, formats=tuple(formats)), misfits


def formats_in_order(texts: Sequence[str], order: str) -> list[str]:
    """The format of strptime of each text, day and month in the order of this word; "" where it is no time."""
    return [strptime_format(text, _ORDERS[order]) or "" for text in texts]


def moments_of(texts: Sequence[str], formats: Sequence[str]) -> NDArray[np.datetime64]:
    """Each text by its own format of strptime, in nanoseconds; NaT where it does not fit or there is none."""
    result = np.full(len(texts), np.datetime64("NaT", "ns"))
    by_format: dict[str, list[int]] = {}
    for place, form in enumerate(formats):
        by_format.setdefault(form, []).append(place)
    for form, places in by_format.items():
        if form:
            result[places] = parsed([texts[place] for place in places], form)
    return result


def _shown(formats: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(formats))
    return ", ".join(map(repr, kinds[:3])) + (" ..." if len(kinds) > 3 else "")


def _ambiguous(readings: Mapping[str, Sequence[str]]) -> UnknownTimesError:
    words = {short: word for word, short in _ORDERS.items()}
    both = " or ".join(f"{words[order]} ({formats[0]!r})" for order, formats in readings.items())
    flags = tuple(words[order] for order in readings)
    return UnknownTimesError(
        0,
        f"can be read {both}, and no value of the column tells; say which: --time-format {' or '.join(flags)}",
        flags,
    )


def _no_reading(misfits: Mapping[str, Sequence[int]]) -> UnknownTimesError:
    nowhere = set.intersection(*(set(places) for places in misfits.values()))
    if nowhere:
        return UnknownTimesError(min(nowhere), NO_TIME)
    return UnknownTimesError(
        max(places[0] for places in misfits.values()),
        "fits no order of day and month that all values before it fit; a column has one order: write ISO 8601",
    )


def strptime_format(text: str, order: str) -> str | None:
    """The format of strptime in which the text is a time, day and month in this order; None where it is none."""
    text = text.strip()
    if text.isdigit() and len(text) in _COMPACT:
        return _COMPACT[len(text)]
    found = _NUMERIC.fullmatch(text)
    if found is not None:
        return _numeric_format(text, found, order)
    for pattern in _NAMED:
        found = pattern.fullmatch(text)
        month = "" if found is None else found["month"].lower()
        if found is not None and (month in _MONTHS or month in _SHORT):
            parts = {"day": "%d", "month": "%b" if month in _SHORT else "%B", "year": _year(found["year"])}
            weekday = found["weekday"]
            if weekday:
                parts["weekday"] = "%a" if len(weekday) == 3 else "%A"
            return _format(text, found, parts)
    return None


def _year(digits: str) -> str:
    return "%Y" if len(digits) == 4 else "%y"


def _numeric_format(text: str, found: re.Match[str], order: str) -> str | None:
    if len(found["a"]) > 2:
        if len(found["a"]) != 4 or len(found["c"]) > 2:
            return None
        order = "ymd"
    elif len(found["c"]) == 4 and order == "ymd":
        return None
    if any(
        len(found[place]) != 2
        for place, part in zip("abc", order, strict=True)
        if part == "y" and len(found[place]) != 4
    ):
        return None
    values = {part: int(found[place]) for place, part in zip("abc", order, strict=True)}
    if not (1 <= values["m"] <= 12 and 1 <= values["d"] <= 31):
        return None
    kinds = {"d": "%d", "m": "%m"}
    parts = {place: kinds.get(part) or _year(found[place]) for place, part in zip("abc", order, strict=True)}
    return _format(text, found, parts)


def _format(text: str, found: re.Match[str], parts: Mapping[str, str]) -> str:
    """The text with its parts replaced by the directives of strptime."""
    clock = {
        "hour": "%I" if found["half"] else "%H",
        "minute": "%M",
        "second": "%S",
        "fraction": "%f",
        "half": "%p",
        "offset": "%z",
        "zone": "%Z",
    }
    spans = sorted((found.span(name), sign) for name, sign in {**parts, **clock}.items() if found[name] is not None)
    result, at = [], 0
    for (begin, end), sign in spans:
        result += [text[at:begin], sign]
        at = end
    return "".join([*result, text[at:]])


def parsed(texts: Sequence[str], form: str) -> NDArray[np.datetime64]:
    """The texts by a format of strptime, in nanoseconds; NaT for what does not fit or lies outside 1678 to 2261.

    In UTC where the format has a zone, else as they stand. InputError when the format is none.
    """
    import pandas as pd

    series = pd.Series([text.strip() for text in texts], dtype=object)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas warns of zones that it means to drop
            moments = pd.to_datetime(series, format=form, exact=True, errors="coerce", utc=zoned(form))
    except (ValueError, TypeError):
        raise InputError(
            f"--time-format {form!r} is neither a format of strptime such as '%d.%m.%Y %H:%M' nor one of "
            f"{', '.join(WORDS)}"
        ) from None
    plain = np.asarray((moments.dt.tz_localize(None) if zoned(form) else moments).to_numpy())
    years = plain.astype("datetime64[Y]").astype(np.int64) + 1970
    held = np.where((years >= FIRST_YEAR) & (years <= LAST_YEAR), plain, np.datetime64("NaT"))
    return held.astype("datetime64[ns]")


def zoned(form: str) -> bool:
    """Whether a format of strptime reads a zone."""
    return "%z" in form or "%Z" in form


def _counts(texts: Sequence[str]) -> ColumnFormat:
    """The unit in which all numbers lie between 1980 and 2100."""
    ranges = {name: (_FROM * 10**9 // factor, _TO * 10**9 // factor) for name, factor in UNITS.items()}
    ranges[EXCEL] = (_EXCEL_FROM, _EXCEL_TO)
    values = [Decimal(text.replace(",", ".")) for text in texts]
    first = [name for name, (low, high) in ranges.items() if low <= values[0] < high]
    if not first and len(texts[0]) in _COMPACT:
        form = _COMPACT[len(texts[0])]
        if all(len(text) == len(texts[0]) for text in texts) and not np.isnat(parsed(texts, form)).any():
            return ColumnFormat(formats=(form,) * len(texts), said=f"times are read as {form!r}")
    if not first:
        raise UnknownTimesError(
            0, f"is a number whose unit cannot be told; name it: --time-format {'|'.join([*UNITS, EXCEL])}"
        )
    name = first[0]
    for place, value in enumerate(values):
        if not ranges[name][0] <= value < ranges[name][1]:
            raise UnknownTimesError(
                place,
                f"is no time between 1980 and 2100 in {name}, as the values before it are; if it is right, say so: "
                f"--time-format {name}",
            )
    if name == EXCEL:
        return ColumnFormat(excel=EXCEL, said="times are read as Excel's days since 1899-12-30 (--time-format excel)")
    return ColumnFormat(unit=name, said=f"times are read as {name} since 1970-01-01 UTC (--time-format {name})")


def excel_days(text: str, kind: str) -> np.datetime64:
    """A day number of Excel with its fraction, to the millisecond that a cell holds; ValueError when it is none."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError("not a number")
    days = Decimal(text.strip().replace(",", "."))
    stamp = (days * 86_400_000).to_integral_value(ROUND_HALF_EVEN) + _EXCEL_EPOCH[kind] * 1000
    moment = np.datetime64(int(stamp), "ms")
    year = int(moment.astype("datetime64[Y]").astype(np.int64)) + 1970
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment
