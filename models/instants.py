"""Times as int64 nanoseconds since 1970-01-01 UTC, converted by their type.

The type of a column of datetimes states its unit and zone: numpy and pandas hold seconds to nanoseconds, pm4py under
pandas 3 holds microseconds. Integers state nothing. Reading them in a guessed unit moves a log of 2025 to 1970 and
makes the times of all its cases alike, so that every measured risk is too low. They are therefore refused without a
unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from models.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]

FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years that int64 nanoseconds hold; beyond them a column would wrap around silently."""

OUTSIDE = f"is outside the years {FIRST_YEAR} to {LAST_YEAR}"
NO_ZONE = "has no time zone"

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds of the units in which integers may count time since 1970."""

_YEARS = np.asarray([f"{FIRST_YEAR:04}", f"{LAST_YEAR + 1:04}"], dtype="datetime64[Y]")

INSTANTS = range(*(int(moment.astype("datetime64[ns]").astype(np.int64)) for moment in _YEARS))
"""Nanoseconds since 1970 of these years."""


def utc_text(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as text: ISO 8601 in UTC, to the second.

    Examples
    --------
    >>> utc_text(1_600_000_000.9)
    '2020-09-13T12:26:40+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class TimeColumnError(InputError):
    """A time that cannot be converted.

    Parameters
    ----------
    row
        Its row; 0 is the first.
    reason
        Continues "the time ...".
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"event {row + 1}: the time {reason}")
        self.row = row
        self.reason = reason


def instants(time: Any, *, unit: str | None = None, timezone: str | tzinfo | None = None) -> Ints:
    """Return times as int64 nanoseconds since 1970-01-01 UTC.

    Parameters
    ----------
    time
        One time per event: a pandas series or index of datetimes, an Arrow column of timestamps, a numpy array
        ``datetime64`` of any unit, or a sequence of ``datetime``; integers with `unit` only.
    unit
        ns, us, ms or s: the unit in which integers count since 1970-01-01 UTC. Datetimes take none.
    timezone
        Zone of datetimes that carry none, as an IANA name. Without it, such times of pandas, Arrow and Python are
        refused; ``datetime64`` of numpy, whose type cannot carry a zone, is in UTC.

    Raises
    ------
    InputError
        Integers without a unit, datetimes with one, a missing time, a time without a zone, a time outside the years
        1678 to 2261, or values that are not times.

    Examples
    --------
    >>> import numpy as np
    >>> instants(np.array(["1970-01-01T00:00:01"], dtype="datetime64[ms]")).tolist()
    [1000000000]
    >>> instants([1, 2], unit="s").tolist()
    [1000000000, 2000000000]
    """
    if unit is not None and unit not in UNITS:
        raise InputError(f"unit {unit!r} is not known; use one of {', '.join(UNITS)}")
    local = None if timezone is None else time_zone(timezone)
    if hasattr(time, "to_pandas"):  # Arrow and polars
        time = time.to_pandas()
    if hasattr(time, "dtype") and not isinstance(time, np.ndarray):
        return _of_pandas(time, unit, local)
    values = time if isinstance(time, np.ndarray) else _array(time)
    if values.dtype.kind == "M":
        _refuse_unit(unit)
        return _of_numpy(values, local)
    if values.dtype.kind in "iu":
        return _counted(values, unit)
    if values.dtype == object or not len(values):
        return _of_objects(values.tolist(), unit, local)
    raise InputError(
        f"times of type {values.dtype} are not datetimes; convert them, for example with pandas.to_datetime"
    )


def of_datetimes(series: pd.Series, local: tzinfo | None) -> Ints:
    """Return a pandas series of datetimes as nanoseconds since 1970-01-01 UTC.

    The first of two equal local times is meant, and a local time that the clock skips moves forward by the
    length of the gap.

    Parameters
    ----------
    series
        Datetimes, all with a zone or all without.
    local
        Zone of times without one. None: such times are refused.

    Raises
    ------
    TimeColumnError
        If a time is missing, has no zone, or does not fit 64 bits.
    """
    missing = np.flatnonzero(series.isna().to_numpy())
    if len(missing):
        raise TimeColumnError(int(missing[0]), "is missing")
    if series.dt.tz is None and local is None:
        raise TimeColumnError(0, NO_ZONE)
    return _checked(in_utc(series, local))


def in_utc(series: pd.Series, local: tzinfo | None) -> npt.NDArray[np.datetime64]:
    """Return a pandas series of datetimes as moments in UTC, of its own unit.

    Missing datetimes are NaT.

    Parameters
    ----------
    series
        The datetimes.
    local
        Zone of datetimes without one; required if the series has none.
    """
    if series.dt.tz is None:
        # Arrow's own tz_localize cannot choose between two equal local times.
        naive = series.astype(getattr(series.dtype, "numpy_dtype", series.dtype))
        first_of_two = np.ones(len(series), dtype=bool)
        series = naive.dt.tz_localize(local, ambiguous=first_of_two, nonexistent="shift_backward")
        # A skipped local time is read with the offset before the gap, as `datetime.replace` reads it: the last moment
        # before the gap plus the distance to it. Distances between times of the skipped hour are kept.
        skipped_distance = naive - series.dt.tz_localize(None)
        in_zone_of_utc = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return np.asarray((in_zone_of_utc + skipped_distance).to_numpy())
    return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())


def _of_pandas(column: Any, unit: str | None, local: tzinfo | None) -> Ints:
    import pandas as pd

    series = pd.Series(column).reset_index(drop=True)
    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        _refuse_unit(unit)
        return of_datetimes(series, local)
    if pd.api.types.is_integer_dtype(series):
        missing = np.flatnonzero(series.isna().to_numpy())
        if len(missing):
            raise TimeColumnError(int(missing[0]), "is missing")
        return _counted(series.to_numpy(), unit)
    if series.dtype == object:
        return _of_objects(series.tolist(), unit, local)
    raise InputError(
        f"times of type {series.dtype} are not datetimes; convert them with pandas.to_datetime(..., utc=True)"
    )


def _array(time: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a sequence as an array whose type does not depend on numpy's guess for datetimes."""
    values = list(time)
    if values and all(type(value) is int for value in values):
        return np.asarray(values, dtype=object)
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _of_objects(values: list[Any], unit: str | None, local: tzinfo | None) -> Ints:
    is_integer = [isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values]
    if values and all(is_integer):
        return _counted(np.asarray([int(value) for value in values], dtype=object), unit)
    if values:
        _refuse_unit(unit)
    result = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if value is None or value != value:
            raise TimeColumnError(row, "is missing")
        if isinstance(value, np.datetime64):
            result[row] = _of_one_numpy(value, row, local)
        elif isinstance(value, datetime):
            result[row] = _of_datetime(value, row, local)
        else:
            raise TimeColumnError(row, f"is of type {type(value).__name__} and no datetime")
    return result


def _of_datetime(moment: datetime, row: int, local: tzinfo | None) -> int:
    if moment.tzinfo is None:
        if local is None:
            raise TimeColumnError(row, NO_ZONE)
        moment = moment.replace(tzinfo=local)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise TimeColumnError(row, OUTSIDE)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    # A Timestamp of pandas is a datetime with an extra field for times finer than a microsecond.
    finer = int(getattr(moment, "nanosecond", 0))
    return (delta.days * 86400 + delta.seconds) * UNITS["s"] + delta.microseconds * 1000 + finer


def _of_one_numpy(value: np.datetime64, row: int, local: tzinfo | None) -> int:
    try:
        return int(_of_numpy(np.asarray([value]), local)[0])
    except TimeColumnError as error:
        raise TimeColumnError(row, error.reason) from None


def _of_numpy(values: npt.NDArray[Any], local: tzinfo | None) -> Ints:
    missing = np.flatnonzero(np.isnat(values))
    if len(missing):
        raise TimeColumnError(int(missing[0]), "is missing")
    if local is None:
        return _checked(values)
    import pandas as pd

    _checked(values)  # before pandas, which has no days or months as a unit
    unit = np.datetime_data(values.dtype)[0]
    of_known_unit = values if unit in UNITS else values.astype("datetime64[ns]")
    return of_datetimes(pd.Series(of_known_unit), local)


def _checked(moments: npt.NDArray[Any]) -> Ints:
    """Return UTC moments of any unit in nanoseconds, after a check that these do not wrap around."""
    bad = np.flatnonzero((moments < _YEARS[0]) | (moments >= _YEARS[1]))
    if len(bad):
        raise TimeColumnError(int(bad[0]), OUTSIDE)
    return np.asarray(moments.astype("datetime64[ns]").view(np.int64))


def _counted(values: npt.NDArray[Any], unit: str | None) -> Ints:
    if unit is None:
        raise InputError(
            "times are integers without a unit; give datetimes, or the unit in which they count since 1970-01-01 UTC: "
            "unit='s', 'ms', 'us' or 'ns'"
        )
    factor = UNITS[unit]
    lowest, end = -(-INSTANTS.start // factor), -(-INSTANTS.stop // factor)
    bad = np.flatnonzero((values < lowest) | (values >= end))
    if len(bad):
        raise TimeColumnError(int(bad[0]), f"{OUTSIDE} if it counts {unit}; look at the unit")
    return np.asarray(values.astype(np.int64) * factor)


def _refuse_unit(unit: str | None) -> None:
    if unit is not None:
        raise InputError(f"unit {unit!r} is for integers; these times are datetimes, which carry their unit themselves")


def time_zone(name: str | tzinfo) -> tzinfo:
    """Return the time zone of an IANA name (`Europe/Berlin`, `UTC`).

    Parameters
    ----------
    name
        The name, or a zone, which is returned as it is.

    Raises
    ------
    InputError
        The name is unknown.
    """
    if isinstance(name, tzinfo):
        return name
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(
            f"timezone {name!r} is not known; use a name of the IANA list, such as Europe/Berlin"
        ) from error
