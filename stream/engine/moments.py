"""Times as engines read them: texts of ISO 8601, and local times of a zone, minute by minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from connectors.times import nanoseconds, zone
from models.errors import InputError
from models.eventlog import Ints
from models.knowledge import NANOSECONDS, Unit

ISO = r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
"""Date, time, fraction and zone of a text that engines read; other ways to write a time are for `embedded`."""

MINUTE = NANOSECONDS["minutes"]

WHOLE_MINUTES_SINCE = 1973
"""From then on every zone is whole minutes ahead of UTC."""


def local_minutes(minutes: Ints, name: str, where: str, *, texts: bool) -> tuple[Ints, Ints, Any]:
    """For minutes of local time (since 1970): themselves, their begin in UTC (ns), and whether the clock jumps over
    them: all of such a minute is the moment after the jump. Of two equal local times the first is meant. As the readers
    do it, of which that of `texts` goes on by the old clock instead of jumping. InputError before 1973."""
    import pandas as pd

    minutes = np.sort(minutes.astype(np.int64))
    if name.upper() in ("UTC", "Z"):
        return minutes, minutes * MINUTE, np.zeros(len(minutes), dtype=np.bool_)
    if len(minutes) and int(minutes[0]) * MINUTE < pd.Timestamp(WHOLE_MINUTES_SINCE, 1, 1).value:
        raise InputError(f"{where}: times before {WHOLE_MINUTES_SINCE} in {name} are read by --engine embedded only")
    if texts:
        begin, own = datetime(1970, 1, 1), zone(name)  # noqa: DTZ001 - the zone follows
        moments = [nanoseconds((begin + timedelta(minutes=one)).replace(tzinfo=own)) for one in minutes.tolist()]
        return minutes, np.asarray(moments, dtype=np.int64), np.zeros(len(minutes), dtype=np.bool_)
    local = pd.DatetimeIndex(minutes * MINUTE)
    first = np.ones(len(local), dtype=bool)
    moved = local.tz_localize(zone(name), ambiguous=first, nonexistent="shift_forward")
    there = local.tz_localize(zone(name), ambiguous=first, nonexistent="NaT")
    moment = moved.tz_convert("UTC").tz_localize(None).as_unit("ns").to_numpy().astype(np.int64)
    return minutes, moment, np.asarray(there.isna())


def units_coarser_than(T: Unit) -> list[tuple[Unit, int]]:
    """Units above T with their nanoseconds, finest first."""
    return [(unit, size) for unit, size in NANOSECONDS.items() if size > NANOSECONDS[T]]  # type: ignore[misc]
