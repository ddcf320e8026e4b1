"""Durations as people write them in a configuration: `30s`, `10m`, `1h`, `7d`, `2w`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializationInfo, WrapSerializer

from models.errors import InputError

SECOND = 1_000_000_000
UNITS = {
    "ms": SECOND // 1000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86400 * SECOND,
    "w": 604800 * SECOND,
}
LONGEST = 36_525 * UNITS["d"]
"""A hundred years: the end of a longer window would not fit into int64 nanoseconds."""
_FORM = re.compile(r"(\d{1,18})\s*(ms|s|m|h|d|w)", re.ASCII)


def nanoseconds(value: Any, place: str = "duration") -> int:
    """Return a duration in nanoseconds.

    Raises
    ------
    InputError
        If `as_duration` refuses the value; the message begins with `place`.
    """
    try:
        return as_duration(value)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None


def as_duration(value: Any) -> int:
    """Return a duration in nanoseconds: `7d` -> 604800000000000.

    Raises
    ------
    ValueError
        For a number without a unit, for zero, and for negative durations and durations of centuries.
    """
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{value!r} is not a duration such as 30s, 10m, 1h, 7d or 2w, above zero")
    length = int(match[1]) * UNITS[match[2]]
    if length > LONGEST:
        raise ValueError(f"{value!r} is longer than a hundred years")
    return length


def as_text(length: int) -> str:
    """Return nanoseconds in the largest unit that divides them, up to days: `30d`."""
    for unit in ("d", "h", "m", "s"):
        if length % UNITS[unit] == 0:
            return f"{length // UNITS[unit]}{unit}"
    return f"{length // UNITS['ms']}ms"


AS_WRITTEN = {"durations": "as written"}
"""Context of a dump that shall be read again as a configuration; without it durations are nanoseconds."""


def written_duration(value: Any, plain: Callable[[Any], Any], info: SerializationInfo) -> Any:
    """Serialize a duration: as it is written in a file if the context asks for it, else in nanoseconds."""
    written = value is not None and info.context == AS_WRITTEN
    return f"{value // UNITS['ms']}ms" if written else plain(value)


Duration = Annotated[int, BeforeValidator(as_duration), WrapSerializer(written_duration)]
"""Nanoseconds in the program, `7d` in the file."""
