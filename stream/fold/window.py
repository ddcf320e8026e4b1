"""The window of a publication, which decides when a release is taken: in the configuration, and in the fold.

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
"""Settings of pydantic for these tables: unknown keys are errors."""


def as_moment(value: Any) -> int:
    """Return a time with its zone in nanoseconds since 1970-01-01 UTC.

    Raises
    ------
    ValueError
        If the value is not a time, has no time zone, or does not fit into int64 nanoseconds.
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
    """Events by which a case grows. Choose the window size of the experiment that you repeat; the paper takes 1 to
    4."""
    mode: Mode = "exactly"
    """`exactly`: an open case with fewer pending events waits (S1); `up_to`: it grows by the events that it has (S2).
    Set it when open cases with few new events must not wait."""
    fraction: Share = 1.0
    """The rule fires alone when this share of the open cases is ready. Set it when a few silent cases would hold every
    release back."""
    max_wait: Duration | None = None
    """It fires at the latest after this time. Set it when recipients need a release although cases have stopped
    growing."""
    lockstep: Flag = False
    """Replay only: all cases advance together after the end of the log, in at most five releases. Set it when you
    repeat the experiments of temporal-privacy-leakage-2022 with real releases."""


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
    """Replay only: this share of the events of the log. Set it when you compare series that begin with the same part
    of different logs."""
    cases_fraction: Share | None = None
    """Replay only: this share of the cases of the log. Set it when the later releases of a replay must bring a known
    share of new cases."""
    paper_split: OpenShare | None = None
    """Replay only: the events up to the time of the one at this share of the file. Set it when you repeat the
    experiments of the leakage paper, which split at 0.5."""
    until: Moment | None = None
    """All events up to this moment. Set it when history up to a date is to be released as one, before regular windows
    begin."""
    new_cases: Count | None = None
    """As soon as there are this many cases. Set it when the first release must hold more cases than a window brings,
    since it has no earlier group to hide in."""
    new_events: Count | None = None
    """As soon as there are this many events. Set it when `new_events` triggers the later releases and the first one
    needs more of them."""

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
        """Whether only a replay can decide when it is met."""
        return self.kind in WHOLE_LOG_KINDS


@dataclass(frozen=True, slots=True)
class Window:
    """Any-of: the first trigger that holds fires; guards hold a cut back."""

    __pydantic_config__ = READING

    new_cases: Count | None = None
    """Cut right after the event that brings this many unseen cases since the last cut. Set it when each release must
    bring a group of a known size, as `min_ba` and K need it."""
    new_events: Count | None = None
    """Cut after this many accepted events. Set it when recipients follow cases that run for months, so that new events
    matter more than new cases."""
    completed_cases: Count | None = None
    """Cut when this many cases have completed; with nothing configured `replay` takes a tenth of the log. Set it when
    cohorts are released, and each must have enough of its cases, however long these take."""
    events_per_case: Annotated[EventsPerCase, BeforeValidator(_as_table)] | None = None
    """Each case grows by the same number of events: see publication.window.events_per_case. Set it when you repeat the
    scenarios S1 and S2 of the papers."""
    every: Duration | None = None
    """Tumbling windows, counted from `start`, else aligned to 1970-01-01 UTC. Set it when releases follow a calendar,
    such as each week."""
    time: Clock = "event"
    """The clock of `every`: the times of events (`event`) or the broker's clock (`wall`). Set it when releases must
    come on time even if no event arrives; dp releases with `cases = "completed"` need `wall`."""
    manual: Flag = False
    """Cut on `veilstream release`. Set it when a person decides about the moment of each release."""
    allowed_lateness: Lateness = 0
    """Event time only: a window waits this long for late events. Set it when events reach the topic hours after they
    happened."""
    idle_timeout: Duration | None = None
    """Event time only: after this time a silent partition no longer holds windows back. Set it when a partition has no
    events at night or at weekends."""
    first: First | None = None
    """The condition for the first release: see publication.window.first. Set it when the first release must hold
    another part of the log than each later window."""
    min_interval: Duration | None = None
    """Guard: least time between two cuts. Set it when a burst of events would make counting triggers fire every
    minute."""
    min_new_cases: Count | None = None
    """Guard: least new cases of a cut. Set it when a release on a calendar with few new cases would not hide them, or
    is not worth its charge."""
    skip_if_unchanged: Flag = False
    """Guard: no release without new events. Set it when windows of `every` pass without an event, at night or on
    holidays."""

    @property
    def only_events_per_case(self) -> bool:
        """Whether events_per_case must fire by itself, because there is no other trigger."""
        other_triggers = (self.new_cases, self.new_events, self.completed_cases, self.every)
        rule = self.events_per_case
        return (
            rule is not None
            and not rule.lockstep
            and not self.manual
            and all(other is None for other in other_triggers)
        )

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
