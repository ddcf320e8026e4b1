"""Times as texts of ISO 8601, exact to the nanosecond."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import numpy as np

from models.eventlog import Codes, Ints
from models.instants import FIRST_YEAR, LAST_YEAR, time_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000
# Beyond ISO 8601: one-digit fields (`10:20:0.000`), slashes, a comma or nine digits in the fraction.
_LENIENT = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,9})\d*)?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)

_FINE = re.compile(r"[.,]\d{7}", re.ASCII)


class ZonelessError(ValueError):
    """A time without a zone, and no zone was given to read it in."""


def zone(name: str | None) -> tzinfo | None:
    """Return the time zone of an IANA name, or None for None.

    Raises
    ------
    InputError
        If it is unknown.
    """
    return None if name is None else time_zone(name)


def offsets(time: Ints, name: str) -> Codes:
    """Return the minutes by which the clocks of a zone are ahead of UTC at each time.

    Parameters
    ----------
    time
        int64[E], ns since 1970-01-01 UTC.
    name
        IANA name of the zone.

    Returns
    -------
    Codes
        int32[E].
    """
    import pandas as pd

    # Clocks change at quarters of hours: one look-up for each of them.
    quarter = 15 * 60 * SECOND
    distinct, place = np.unique(time // quarter, return_inverse=True)
    in_utc = pd.DatetimeIndex(distinct * quarter, tz="UTC")
    on_clock = in_utc.tz_convert(zone(name)).tz_localize(None)
    ahead = (on_clock - in_utc.tz_localize(None)) // pd.Timedelta(minutes=1)
    return np.asarray(ahead, dtype=np.int32)[place]


def nanoseconds(moment: datetime, extra: int = 0) -> int:
    """Return an aware datetime as exact nanoseconds since 1970-01-01 UTC.

    ValueError outside of the years 1678 to 2261.

    Parameters
    ----------
    moment
        The datetime.
    extra
        Nanoseconds to add: a datetime holds microseconds.
    """
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"a time outside the years {FIRST_YEAR} to {LAST_YEAR}")
    delta = moment - EPOCH
    return (delta.days * 86400 + delta.seconds) * SECOND + delta.microseconds * 1000 + extra


def parser(local_zone: str | None) -> Callable[[str], int]:
    """Return a function from the text of a time to nanoseconds since 1970-01-01 UTC.

    The function raises `ZonelessError` for a time without a zone if `local_zone` is None, and ValueError for another
    text that is not a time. A local time that the change to winter time repeats is read as its first occurrence, and
    one that the change to summer time skips as if the clocks had not changed yet.

    Parameters
    ----------
    local_zone
        IANA name of the zone of times without one. None: they are refused.

    Raises
    ------
    InputError
        If the zone is unknown.
    """
    local = zone(local_zone)
    fromiso = datetime.fromisoformat

    def parse(text: str) -> int:
        # `fromisoformat` drops digits behind the microsecond. It reads only texts that are too short to have more
        # digits, and the form of our own writers: six digits of a second and an offset.
        size = len(text)
        has_nanoseconds = size == 35 and text[19] == "." and text[29] in "+-" and text[10] == "T"
        if has_nanoseconds and text.isascii() and text[26:29].isdigit():
            # The form of released logs: nine digits of a second and an offset. The last three are added afterwards.
            try:
                return nanoseconds(fromiso(text[:26] + text[29:]), int(text[26:29]))
            except ValueError:
                return _lenient(text, local)
        is_own_form = size == 32 and text[19] == "." and text[26] in "+-" and text[10] == "T"
        has_no_more_digits = size <= 26 or (size <= 29 and text[-6] in "+-")
        if not is_own_form and not has_no_more_digits:
            return _lenient(text, local)
        if size > 22 and text[4] != "-" and _FINE.search(text):  # the short form, without its dashes
            raise ValueError("a time finer than a microsecond; write it with dashes and colons")
        try:
            moment = fromiso(text)
        except ValueError:
            return _lenient(text, local)
        if moment.tzinfo is None:
            moment = _in_zone(moment, local)
        return nanoseconds(moment)

    return parse


def parser_that_notes(local_zone: str, clock_times: array[int]) -> Callable[[str], int]:
    """Return `parser(local_zone)`, which also adds the local time of each text without a zone to `clock_times`.

    Parameters
    ----------
    local_zone
        IANA name of the zone of times without one.
    clock_times
        Nanoseconds that the clock showed, as if it showed UTC; extended by each call.
    """
    parse, parse_with_zone, parse_in_utc = parser(local_zone), parser(None), parser("UTC")

    def parse_and_note(text: str) -> int:
        try:
            return parse_with_zone(text)
        except ZonelessError:
            instant = parse(text)
            # Read in UTC, a time without a zone stays what the clock showed.
            clock_times.append(parse_in_utc(text))
        return instant

    return parse_and_note


def _in_zone(moment: datetime, local: tzinfo | None) -> datetime:
    if local is None:
        raise ZonelessError("no time zone")
    return moment.replace(tzinfo=local)


def _lenient(text: str, local: tzinfo | None) -> int:
    match = _LENIENT.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time that is not a date and time of ISO 8601")
    year, _, month, day, hour, minute, second, fraction, offset = match.groups()
    digits = (fraction or "").ljust(9, "0")
    moment = datetime(  # noqa: DTZ001 - the zone follows
        int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), int(digits[:6])
    )
    moment = _in_zone(moment, local) if offset is None else moment.replace(tzinfo=_offset(offset))
    return nanoseconds(moment, int(digits[6:]))


def _offset(text: str) -> tzinfo:
    if text.upper() in ("Z", "UTC"):
        return UTC
    sign = -1 if text[0] == "-" else 1
    hours, minutes = int(text[1:3]), int(text[3:].strip(":") or 0)
    return timezone(sign * timedelta(hours=hours, minutes=minutes))


def offset_minutes(text: str) -> int:
    """Return the minutes ahead of UTC of a time that ends with `text`.

    `+02:00` is 120; a text without such an offset is 0.

    Parameters
    ----------
    text
        Text of a time.
    """
    match = re.search(r"([+-])(\d{2}):(\d{2})$", text, re.ASCII)
    if match is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3])
    return -minutes if match[1] == "-" else minutes
