"""`publication.window`: the table as it is written, checked once, and the `Window` of the fold that it says.

Every number is checked here, so that the fold never meets a window that cannot close.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, Strict, ValidationError, model_validator

from connectors.times import nanoseconds as instant
from models.errors import InputError
from stream.config.faults import explain
from stream.config.process import ConfigTable
from stream.fold.rules import MOST, Clock, EventsPerCase, First, FirstKind, Mode, Window
from stream.values.duration import Duration, as_duration

Count = Annotated[int, Strict(), Field(ge=1, le=MOST)]
Natural = Annotated[int, Strict(), Field(ge=0, le=MOST)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Flag = Annotated[bool, Strict()]


def moment(value: Any, where: str) -> int:
    """A time with its zone, in ns since 1970-01-01 UTC. InputError names `where`."""
    try:
        return _moment(value)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _moment(value: Any) -> int:
    try:
        given = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a time such as 2014-05-01T00:00:00Z") from None
    if given.tzinfo is None:
        raise ValueError(f"{str(value)!r} has no time zone; write 2014-05-01T00:00:00Z")
    return instant(given)


def _no_wait(value: Any) -> int:
    return 0 if value in ("0s", "0m", "0h", "0d") else as_duration(value)


class EventsPerCaseTable(ConfigTable):
    """`events_per_case`: by how many events each case grows. See `stream.fold.rules.EventsPerCase`."""

    x: Count
    mode: Mode = "exactly"
    fraction: Share = 1.0
    max_wait: Duration | None = None
    lockstep: Flag = False
    releases: Count = 5
    seed: Natural = 0


class FirstTable(ConfigTable):
    """`first`: what shapes the first release; exactly one key."""

    events_fraction: Share | None = None
    cases_fraction: Share | None = None
    paper_split: Annotated[float, Strict(), Field(gt=0, lt=1)] | None = None
    until: Annotated[int, BeforeValidator(_moment)] | None = None
    new_cases: Count | None = None
    new_events: Count | None = None

    @model_validator(mode="after")
    def _one(self) -> FirstTable:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError(f"give exactly one of {', '.join(type(self).model_fields)}")
        return self

    def first(self) -> First:
        """The key that stands, with its value."""
        ((kind, value),) = self.model_dump(exclude_none=True).items()
        return First(cast(FirstKind, kind), value)


class WindowTable(ConfigTable):
    """`window`: triggers and guards. See `stream.fold.rules.Window`."""

    new_cases: Count | None = None
    new_events: Count | None = None
    completed_cases: Count | None = None
    events_per_case: (
        Annotated[EventsPerCaseTable, BeforeValidator(lambda value: {"x": value} if isinstance(value, int) else value)]
        | None
    ) = None
    every: Duration | None = None
    time: Clock = "event"
    manual: Flag = False
    allowed_lateness: Annotated[int, BeforeValidator(_no_wait)] = 0
    idle_timeout: Duration | None = None
    first: FirstTable | None = None
    min_interval: Duration | None = None
    min_new_cases: Count | None = None
    skip_if_unchanged: Flag = False

    @model_validator(mode="after")
    def _closes(self) -> WindowTable:
        triggers = (self.new_cases, self.new_events, self.completed_cases, self.events_per_case, self.every)
        if all(trigger is None for trigger in triggers) and not self.manual:
            raise InputError("window: no trigger; set new_cases, every, events_per_case, manual = true, ...")
        for key in ("time", "allowed_lateness", "idle_timeout"):
            if key in self.model_fields_set and self.every is None:
                raise InputError(f"window.{key} says how `every` is measured, but window.every is not set")
        for key in ("allowed_lateness", "idle_timeout"):
            if key in self.model_fields_set and self.time == "wall":
                raise InputError(f"window.{key} belongs to event time; window.time is wall")
        return self

    def window(self) -> Window:
        """The window of the fold."""
        plain = {name: getattr(self, name) for name in type(self).model_fields}
        rule, first = self.events_per_case, self.first
        plain["events_per_case"] = None if rule is None else EventsPerCase(**rule.model_dump())
        plain["first"] = None if first is None else first.first()
        return Window(**plain)


def window_of(table: Mapping[str, Any]) -> Window:
    """The window that a table says (with `first` beside the triggers); durations are written `7d`, `1h`, `30s`.

    InputError names the key of what is unknown, zero, negative, not a number, or alone without meaning.
    """
    try:
        return WindowTable.model_validate(table).window()
    except ValidationError as error:
        raise InputError("; ".join(f"window.{fault}" for fault in explain(error))) from None
