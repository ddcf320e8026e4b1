"""When a release is taken: the window of a publication, as it stands in the configuration.

A window is any-of: the first trigger that holds fires. Every number is checked here, once, so that the fold never
meets a window that cannot close.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from connectors.times import nanoseconds as instant
from models.errors import InputError
from stream.values.duration import nanoseconds

Mode = Literal["exactly", "up_to"]
Clock = Literal["event", "wall"]
MOST = (1 << 31) - 1
"""Cases are coded as int32: a trigger that waits for more of anything would never fire."""

FirstKind = Literal["events_fraction", "cases_fraction", "paper_split", "until", "new_cases", "new_events"]


@dataclass(frozen=True, slots=True)
class EventsPerCase:
    """The exposure rule of the papers' scenarios: each case grows by exactly `x` (S1) or by up to `x` (S2) events.

    `fraction` of the open cases must be ready for the rule to fire alone, or `max_wait` ns pass; `lockstep` (replay
    only) advances all cases together after the end of the log, at most `releases` releases, with `seed` for S2.
    """

    x: int
    mode: Mode = "exactly"
    fraction: float = 1.0
    max_wait: int | None = None
    lockstep: bool = False
    releases: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class First:
    """What shapes the first release. `until` is in ns since 1970-01-01 UTC; the other kinds hold a number."""

    kind: FirstKind
    value: float


@dataclass(frozen=True, slots=True)
class Window:
    """Triggers and guards of one publication; durations in nanoseconds. See `Window.from_mapping`."""

    new_cases: int | None = None
    new_events: int | None = None
    completed_cases: int | None = None
    events_per_case: EventsPerCase | None = None
    every: int | None = None
    time: Clock = "event"
    manual: bool = False
    allowed_lateness: int = 0
    idle_timeout: int | None = None
    first: First | None = None
    min_interval: int | None = None
    min_new_cases: int | None = None
    skip_if_unchanged: bool = False

    @property
    def alone(self) -> bool:
        """Whether events_per_case must fire by itself: no other trigger stands beside it."""
        others = (self.new_cases, self.new_events, self.completed_cases, self.every)
        rule = self.events_per_case
        return rule is not None and not rule.lockstep and not self.manual and all(other is None for other in others)

    @property
    def tumbling(self) -> bool:
        """Whether this is a tumbling event-time window, which exposes only events before its end."""
        return self.every is not None and self.time == "event"

    @property
    def replay_only(self) -> tuple[str, ...]:
        """Keys that need the whole log, and so cannot stand in a daemon's configuration."""
        kinds = {"events_fraction", "cases_fraction", "paper_split"}
        first = (f"first.{self.first.kind}",) if self.first is not None and self.first.kind in kinds else ()
        lockstep = ("events_per_case.lockstep",) if self.events_per_case and self.events_per_case.lockstep else ()
        return first + lockstep

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any]) -> Window:
        """Parse the `window` table of a configuration file (with `first` beside the triggers).

        Durations are written `7d`, `1h`, `30s`. InputError names the key of what is unknown, zero, negative, not a
        number, or alone without meaning.
        """
        _known(table, _WINDOW, "window")
        window = cls(**{key: _WINDOW[key](value, f"window.{key}") for key, value in table.items()})
        window._refuse_idle(table)
        return window

    def _refuse_idle(self, table: Mapping[str, Any]) -> None:
        triggers = (self.new_cases, self.new_events, self.completed_cases, self.events_per_case, self.every)
        if all(trigger is None for trigger in triggers) and not self.manual:
            raise InputError("window: no trigger; set new_cases, every, events_per_case, manual = true, ...")
        for key in ("time", "allowed_lateness", "idle_timeout"):
            if key in table and self.every is None:
                raise InputError(f"window.{key} says how `every` is measured, but window.every is not set")
        for key in ("allowed_lateness", "idle_timeout"):
            if key in table and self.time == "wall":
                raise InputError(f"window.{key} belongs to event time; window.time is wall")

    def to_mapping(self) -> dict[str, Any]:
        """All fields as plain values, for the state of the fold; `Window.from_state` is its inverse."""
        return asdict(self)

    @classmethod
    def from_state(cls, table: Mapping[str, Any]) -> Window:
        """A window from `to_mapping` (durations already in ns)."""
        rule, first = table["events_per_case"], table["first"]
        fields = dict(table)
        fields["events_per_case"] = None if rule is None else EventsPerCase(**rule)
        fields["first"] = None if first is None else First(**first)
        return cls(**fields)


def _known(table: Any, allowed: Mapping[str, Any], where: str) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: must be a table of {', '.join(allowed)}")
    for key in table:
        if key not in allowed:
            raise InputError(f"{where}.{key} is unknown; known are {', '.join(allowed)}")


def _whole(value: Any, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise InputError(f"{where}: must be a whole number from {least} to {MOST}, not {value!r}")
    return value


def _count(value: Any, where: str) -> int:
    return _whole(value, where, 1)


def _natural(value: Any, where: str) -> int:
    return _whole(value, where, 0)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{where}: must be true or false, not {value!r}")
    return value


def _fraction(value: Any, where: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 < value <= 1:
        raise InputError(f"{where}: must be a number above 0 and at most 1, not {value!r}")
    return float(value)


def _split(value: Any, where: str) -> float:
    if _fraction(value, where) == 1:
        raise InputError(f"{where}: must be below 1, or nothing is left for a second release")
    return float(value)


def _choice(*allowed: str) -> Callable[[Any, str], str]:
    def parse(value: Any, where: str) -> str:
        if value not in allowed:
            raise InputError(f"{where}: must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return parse


def _lateness(value: Any, where: str) -> int:
    return 0 if value in ("0s", "0m", "0h", "0d") else nanoseconds(value, where)


def moment(value: Any, where: str) -> int:
    """A time with its zone, in ns since 1970-01-01 UTC. InputError names `where`."""
    try:
        given = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise InputError(f"{where}: {value!r} is not a time such as 2014-05-01T00:00:00Z") from None
    if given.tzinfo is None:
        raise InputError(f"{where}: {str(value)!r} has no time zone; write 2014-05-01T00:00:00Z")
    try:
        return instant(given)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _events_per_case(value: Any, where: str) -> EventsPerCase:
    table = {"x": value} if isinstance(value, int) and not isinstance(value, bool) else value
    _known(table, _RULE, where)
    if "x" not in table:
        raise InputError(f"{where}.x is missing: how many events a case grows by")
    return EventsPerCase(**{key: _RULE[key](item, f"{where}.{key}") for key, item in table.items()})


def _first(value: Any, where: str) -> First:
    _known(value, _FIRST, where)
    if len(value) != 1:
        raise InputError(f"{where}: give exactly one of {', '.join(_FIRST)}")
    ((kind, raw),) = value.items()
    return First(kind, _FIRST[kind](raw, f"{where}.{kind}"))


_RULE: dict[str, Callable[[Any, str], Any]] = {
    "x": _count,
    "mode": _choice("exactly", "up_to"),
    "fraction": _fraction,
    "max_wait": nanoseconds,
    "lockstep": _flag,
    "releases": _count,
    "seed": _natural,
}
_FIRST: dict[str, Callable[[Any, str], Any]] = {
    "events_fraction": _fraction,
    "cases_fraction": _fraction,
    "paper_split": _split,
    "until": moment,
    "new_cases": _count,
    "new_events": _count,
}
_WINDOW: dict[str, Callable[[Any, str], Any]] = {
    "new_cases": _count,
    "new_events": _count,
    "completed_cases": _count,
    "events_per_case": _events_per_case,
    "every": nanoseconds,
    "time": _choice("event", "wall"),
    "manual": _flag,
    "allowed_lateness": _lateness,
    "idle_timeout": nanoseconds,
    "first": _first,
    "min_interval": nanoseconds,
    "min_new_cases": _count,
    "skip_if_unchanged": _flag,
}
