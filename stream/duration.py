"""Durations as people write them in a configuration: `30s`, `10m`, `1h`, `7d`, `2w`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

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
_FORM = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)")


def nanoseconds(value: Any, where: str = "duration") -> int:
    """`7d` -> 604800000000000. A bare number has no unit and is refused; so are zero and negative ones."""
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise InputError(f"{where}: {value!r} is not a duration such as 30s, 10m, 1h, 7d or 2w, above zero")
    return int(match[1]) * UNITS[match[2]]


def _validate(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else nanoseconds(value)


Duration = Annotated[int, BeforeValidator(_validate)]
"""Nanoseconds in the program, `7d` in the file."""
