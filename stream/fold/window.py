"""When a release is taken: the window of a publication, as it stands in the configuration.

A window is any-of: the first trigger that holds fires. `stream.config.window` reads and checks the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
    """Triggers and guards of one publication; durations in nanoseconds."""

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
