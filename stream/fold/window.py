"""When a release is taken: the window of a publication, as the configuration says it and as the fold follows it.

A window is any-of: the first trigger that holds fires, and guards hold a cut back. The classes are plain dataclasses:
pydantic reads them from a configuration file by the annotations of their fields (`stream.config.window`), where
durations are written `7d` and moments with their zone. In the program both are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Strict

from connectors.times import nanoseconds as instant
from stream.values.duration import Duration, as_duration

Mode = Literal["exactly", "up_to"]
Clock = Literal["event", "wall"]

MOST = (1 << 31) - 1
"""Cases are coded as int32: a trigger that waits for more of anything would never fire."""

WHOLE_LOG_KINDS = ("events_fraction", "cases_fraction", "paper_split")
"""First releases that only a replay can shape, because they need the whole log."""

READING = ConfigDict(extra="forbid", allow_inf_nan=False)
"""How pydantic reads these tables: unknown keys are errors."""


def as_moment(value: Any) -> int:
    """Return a time with its zone in nanoseconds since 1970-01-01 UTC.

    Raises
    ------
    ValueError
        If the value is not a time, has no time zone, or lies outside what int64 nanoseconds hold.
    """
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a time such as 2014-05-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"{str(value)!r} has no time zone; write 2014-05-01T00:00:00Z")
    return instant(moment)


def _as_lateness(value: Any) -> int:
    return 0 if value in ("0s", "0m", "0h", "0d") else as_duration(value)


def _as_table(value: Any) -> Any:
    """Read `events_per_case = 3` like `events_per_case = { x = 3 }`."""
    return {"x": value} if isinstance(value, int) else value


Count = Annotated[int, Strict(), Field(ge=1, le=MOST)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
OpenShare = Annotated[float, Strict(), Field(gt=0, lt=1)]
Flag = Annotated[bool, Strict()]
Moment = Annotated[int, BeforeValidator(as_moment)]
Lateness = Annotated[int, BeforeValidator(_as_lateness)]


@dataclass(frozen=True, slots=True)
class EventsPerCase:
    """The exposure rule of the papers: each case grows by exactly `x` events (S1), or by up to `x` (S2).

    References
    ----------
    temporal-privacy-leakage-2022, scenarios S1 and S2.
    """

    __pydantic_config__ = READING

    x: Count
    """Events by which a case grows."""
    mode: Mode = "exactly"
    """`exactly`: an open case with fewer pending events waits; `up_to`: it grows by what it has."""
    fraction: Share = 1.0
    """The rule fires alone when this share of the open cases is ready."""
    max_wait: Duration | None = None
    """It fires at the latest after this time."""
    lockstep: Flag = False
    """Replay only: all cases advance together after the end of the log."""


@dataclass(frozen=True, slots=True)
class First:
    """The condition for the first release: exactly one of these.

    Raises
    ------
    ValueError
        If none is set, or more than one.
    """

    __pydantic_config__ = READING

    events_fraction: Share | None = None
    """Replay only: this share of the events of the log."""
    cases_fraction: Share | None = None
    """Replay only: this share of its cases."""
    paper_split: OpenShare | None = None
    """Replay only: the events up to the time of the one at this share of the file, as in the papers."""
    until: Moment | None = None
    """All events up to this moment."""
    new_cases: Count | None = None
    """As soon as there are this many cases."""
    new_events: Count | None = None
    """As soon as there are this many events."""

    def __post_init__(self) -> None:
        """Check that exactly one condition is set."""
        keys = [key.name for key in fields(self)]
        if sum(getattr(self, key) is not None for key in keys) != 1:
            raise ValueError(f"give exactly one of {', '.join(keys)}")

    @property
    def kind(self) -> str:
        """Name of the condition."""
        return next(key.name for key in fields(self) if getattr(self, key.name) is not None)

    @property
    def value(self) -> float:
        """The number that belongs to `kind`."""
        number: float = getattr(self, self.kind)
        return number

    @property
    def needs_whole_log(self) -> bool:
        """Whether only a replay can tell when it holds."""
        return self.kind in WHOLE_LOG_KINDS


@dataclass(frozen=True, slots=True)
class Window:
    """Any-of: the first trigger that holds fires; guards hold a cut back."""

    __pydantic_config__ = READING

    new_cases: Count | None = None
    """Set it for releases of a certain size: cut right after the event that brings this many unseen cases since the
    last cut."""
    new_events: Count | None = None
    """The same for accepted events."""
    completed_cases: Count | None = None
    """The same for cases that completed."""
    events_per_case: Annotated[EventsPerCase, BeforeValidator(_as_table)] | None = None
    """Set it to repeat the scenarios S1 and S2 of the papers: `{ x, mode = "exactly" or "up_to", fraction, max_wait,
    lockstep }`."""
    every: Duration | None = None
    """Set it for releases on a calendar: tumbling windows, counted from `start`, else aligned to 1970-01-01 UTC."""
    time: Clock = "event"
    """How `every` is measured: `"event"` by the times of events; set `"wall"` if releases must come on time whatever
    arrives (needed by dp releases with `cases = "completed"`)."""
    manual: Flag = False
    """Set it if a person decides: cut on `veilstream release`."""
    allowed_lateness: Lateness = 0
    """Event time only: set it if events arrive late: a window waits this long for them."""
    idle_timeout: Duration | None = None
    """Event time only: set it if a partition can be silent: after this time it no longer holds windows back."""
    first: First | None = None
    """Set it if the first release must hold a certain part: `{ events_fraction, cases_fraction, paper_split, until,
    new_cases or new_events = .. }`."""
    min_interval: Duration | None = None
    """Guard: set it if counting triggers can fire too often: least time between two cuts."""
    min_new_cases: Count | None = None
    """Guard: set it if a release of few new cases is not worth its cost: least new cases of a cut."""
    skip_if_unchanged: Flag = False
    """Guard: set it if `every` can pass without an event: no release where nothing is new."""

    @property
    def alone(self) -> bool:
        """Whether events_per_case must fire by itself, because there is no other trigger."""
        others = (self.new_cases, self.new_events, self.completed_cases, self.every)
        rule = self.events_per_case
        return rule is not None and not rule.lockstep and not self.manual and all(other is None for other in others)

    @property
    def tumbling(self) -> bool:
        """Whether this is a tumbling event-time window, which exposes only events before its end."""
        return self.every is not None and self.time == "event"

    @property
    def replay_only(self) -> tuple[str, ...]:
        """Keys that need the whole log, and so cannot be used by a daemon."""
        keys = []
        if self.first is not None and self.first.needs_whole_log:
            keys.append(f"first.{self.first.kind}")
        if self.events_per_case is not None and self.events_per_case.lockstep:
            keys.append("events_per_case.lockstep")
        return tuple(keys)

    def to_mapping(self) -> dict[str, Any]:
        """Return all fields as plain values, for the state of the fold and for `config` records."""
        table = asdict(self)
        if self.first is not None:
            table["first"] = {"kind": self.first.kind, "value": self.first.value}
        return table

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any]) -> Window:
        """Return the window that `to_mapping` described."""
        values = dict(table)
        if (rule := table["events_per_case"]) is not None:
            # States of earlier programs also hold `releases` and `seed` of lockstep, which are constants now.
            keys = {key.name for key in fields(EventsPerCase)}
            values["events_per_case"] = EventsPerCase(**{name: rule[name] for name in rule if name in keys})
        if (first := table["first"]) is not None:
            values["first"] = First(**{first["kind"]: first["value"]})
        return cls(**values)
