"""Read the window of a publication from its table.

The table is checked here once, so that the fold never meets a window that cannot close.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from models.errors import InputError
from stream.fold.window import Window, as_moment

_WINDOW = TypeAdapter(Window)


def moment(value: Any, place: str) -> int:
    """Return a time with its zone, in ns since 1970-01-01 UTC.

    Raises
    ------
    InputError
        If it is not such a time; the message begins with `place`.
    """
    try:
        return as_moment(value)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None


def read_window(table: Mapping[str, Any]) -> Window:
    """Return the window of a table, checked.

    Raises
    ------
    ValidationError
        For a key that is unknown, or a value that is zero, negative or no number.
    InputError
        For keys that mean nothing together.
    """
    window = _WINDOW.validate_python(dict(table))
    triggers = (window.new_cases, window.new_events, window.completed_cases, window.events_per_case, window.every)
    if all(trigger is None for trigger in triggers) and not window.manual:
        raise InputError("window: no trigger; set new_cases, every, events_per_case, manual = true, ...")
    for key in ("time", "allowed_lateness", "idle_timeout"):
        if key in table and window.every is None:
            raise InputError(f"window.{key} is the measure of `every`, but window.every is not set")
    for key in ("allowed_lateness", "idle_timeout"):
        if key in table and window.time == "wall":
            raise InputError(f"window.{key} belongs to event time; window.time is wall")
    return window
