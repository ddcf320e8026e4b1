"""The clocks of the fold, and the trigger state of each publication.

Time-driven triggers are `every`, `first.until` and `max_wait`; the others count. A guard delays a counting trigger
until it is satisfied, and skips a window of `every`, whose events then go to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stream.fold.intake import BEFORE_ALL, Partition
from stream.fold.rules import FoldRules, PublicationRules, SourcePartition
from stream.fold.window import First

NEVER = (1 << 63) - 1
"""A deadline that no clock reaches (event times are int64 ns)."""


@dataclass(frozen=True, slots=True)
class TriggerClock:
    """The time for a publication: `now` by ticks, `watermark` by events; None while unknown."""

    now: int | None
    watermark: int | None


class Clocks:
    """Owns `now` (ns, by ticks; embedded: by event times); reads the event times of the partitions."""

    def __init__(
        self, rules: FoldRules, partitions: Mapping[SourcePartition, Partition], now: int | None = None
    ) -> None:
        self.now = now
        self._partitions = partitions
        self._embedded = rules.embedded

    def install(self, rules: FoldRules) -> None:
        """Put new rules into effect."""
        self._embedded = rules.embedded

    def tick(self, time: int) -> None:
        """Move the clock to `time`; it never goes back."""
        self.now = time if self.now is None else max(self.now, time)

    def reach(self, time: int) -> None:
        """Move the clock to `time`; embedded, the event times of all partitions too."""
        self.tick(time)
        for partition in self._partitions.values() if self._embedded else ():
            partition.reach_time(time)

    @property
    def arrival(self) -> int | None:
        """Arrival time of an event that comes now; None if the clock is that of the events."""
        return None if self._embedded else self.now

    @property
    def gap(self) -> bool:
        """Whether a partition misses offsets: nothing is released until `gap rewind|accept`."""
        return any(partition.gap for partition in self._partitions.values())

    def read(self, idle_timeout: int | None = None) -> TriggerClock:
        """`now`, and the least watermark over partitions that are not idle (all idle: the clock itself)."""
        if self._embedded:
            return TriggerClock(self.now, self.now)
        awake, latest = [], []
        for partition in self._partitions.values():
            if not self._idle(partition, idle_timeout):
                awake.append(partition.latest)
            if partition.latest is not None:
                latest.append(partition.latest)
        if awake:
            times = [time for time in awake if time is not None]
            return TriggerClock(self.now, min(times) if len(times) == len(awake) else None)
        return TriggerClock(self.now, max([*latest, self.now]) if self.now is not None and latest else None)

    def of_cases(self, *, private: bool) -> TriggerClock:
        """Return the clock by which a case becomes silent.

        For dp releases these are ticks alone, which do not depend on any event.
        """
        return TriggerClock(self.now, None) if private else self.read()

    def _idle(self, partition: Partition, idle_timeout: int | None) -> bool:
        """Whether it was silent for `idle_timeout`; without one, whether it reported and never had an event."""
        if partition.active is None or self.now is None:
            return False
        if idle_timeout is None:
            return partition.latest is None
        return self.now - partition.active >= idle_timeout

    def passes(self, bound: int, idle_timeout: int | None) -> int:
        """Return the clock, after `now`, at which the watermark passes `bound` without another event.

        NEVER, if it does not.
        """
        now = -NEVER if self.now is None else self.now
        if bound == NEVER:
            return NEVER
        if self._embedded:
            return bound if bound > now else NEVER
        behind = [
            partition for partition in self._partitions.values() if partition.latest is None or partition.latest < bound
        ]
        if idle_timeout is None or not behind or any(partition.active is None for partition in behind):
            return NEVER
        idle = max(partition.active for partition in behind if partition.active is not None) + idle_timeout
        moment = idle if len(behind) < len(self._partitions) else max(idle, bound)
        return moment if moment > now else NEVER


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger that holds. `end`: only events before it are exposed; `certain`: None without events_per_case."""

    trigger: str
    start: int | None = None
    end: int | None = None
    certain: bool | None = None


@dataclass(slots=True)
class PublicationState:
    """Counters since the last cut and totals, of one publication. All of it is part of the fold's state."""

    name: str
    new_cases: int = 0
    new_events: int = 0
    completed: int = 0
    ready: int = 0
    unfinished: int = 0
    window_end: int | None = None
    late_before: int | None = None
    last_cut: int | None = None
    waiting_since: int | None = None
    paused: bool = False
    first_done: bool = False
    cuts: int = 0
    last_place: tuple[int, int] = (-1, -1)
    index: int = 0
    late_included: int = 0
    orphans: int = 0
    unreleased: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    """Cases exposed so far by the pseudonym of their person, where `most_cases` bounds them: it outlives the cases."""

    def to_state(self) -> dict[str, Any]:
        """Return plain values, for `from_state`."""
        state = asdict(self)
        if not self.taken:  # programs that do not know it read the state of publications that do not use it
            del state["taken"]
        return state

    @classmethod
    def from_state(cls, table: dict[str, Any]) -> PublicationState:
        """Return the state that `to_state` described."""
        return cls(**{**table, "last_place": tuple(table["last_place"])})

    def reset(self, now: int | None) -> None:
        """Begin to count anew: a cut was taken, or a trigger was consumed without one."""
        self.new_cases = self.new_events = self.completed = 0
        self.last_cut = now if now is not None else self.last_cut
        self.waiting_since = None

    def first_kept_time(self, rules: PublicationRules) -> int:
        """Return the time (ns) before which events are left out as late."""
        if rules.late == "next_release" or self.late_before is None:
            return BEFORE_ALL
        return self.late_before

    def open_windows(
        self, rules: PublicationRules, clock: TriggerClock, earliest: int | None, *, simulated: bool = False
    ) -> None:
        """Set the end of the first window of `every`.

        With a `start` it is the window of `start`, whatever the first event says; wall time begins with the window that
        contains the first tick, or, if time is `simulated`, with the first one too. Without: aligned to 1970-01-01 UTC,
        because the first event would depend on how partitions interleave. Event time starts with the window of the
        earliest event once every partition has reported; wall time with the first tick after an event.
        """
        if rules.window.every is None or self.window_end is not None:
            return
        if rules.start is not None:
            begin = rules.start if rules.window.tumbling or simulated else clock.now
            self.window_end = None if begin is None else rules.window_end_after(begin)
            return
        time = clock.watermark if rules.window.tumbling else clock.now
        if time is not None and earliest is not None:
            self.window_end = rules.window_end_after(min(earliest, time) if rules.window.tumbling else time)

    def skip_window(self, rules: PublicationRules, clock: TriggerClock) -> None:
        """Go on to the next window.

        It is the one after in event time, and the one that contains `now` in wall time.
        """
        every = rules.window.every
        if every is None or self.window_end is None:
            return
        # with a `start` that came later, or moved, the next window ends on the new grid
        self.window_end = self.window_end + every if rules.start is None else rules.window_end_after(self.window_end)
        if not rules.window.tumbling and clock.now is not None:
            self.window_end = max(self.window_end, rules.window_end_after(clock.now))

    def window_bound(self, rules: PublicationRules) -> int:
        """Return the watermark at which the current event-time window (or `first.until`) closes."""
        first = rules.window.first
        if first is not None and not self.first_done:
            return first.until + 1 if first.until is not None and not rules.private else NEVER
        if rules.window.tumbling and self.window_end is not None:
            return self.window_end + rules.window.allowed_lateness
        return NEVER

    def wall_bounds(self, rules: PublicationRules) -> list[int]:
        """Return the clocks at which time alone may bring a cut.

        A wall window closes, `max_wait` is over, or `min_interval` releases a trigger that waits; for dp releases
        `first.until` too, which no event may bring nearer.
        """
        window, first, bounds = rules.window, rules.window.first, []
        if first is not None and first.until is not None and rules.private and not self.first_done:
            bounds.append(first.until + 1)
        if self.first_done or first is None:
            if window.every is not None and window.time == "wall" and self.window_end is not None:
                bounds.append(self.window_end)
            rule = window.events_per_case
            if rule is not None and rule.max_wait is not None and window.alone and self.waiting_since is not None:
                bounds.append(self.waiting_since + rule.max_wait)
        if window.min_interval is not None and self.last_cut is not None:
            bounds.append(self.last_cut + window.min_interval)
        return bounds

    def rows_until(self, rules: PublicationRules, fresh: npt.NDArray[np.int64], count: int) -> int:
        """Return how many of the next `count` events surely fire no counting trigger.

        `fresh`: int64, places of the events that bring an unseen case.
        """
        window, first = rules.window, rules.window.first
        cases, events = window.new_cases, window.new_events
        if first is not None and not self.first_done:
            cases, events = first.new_cases, first.new_events
        rows = count
        for goal in (cases, window.min_new_cases):
            missing = NEVER if goal is None else goal - self.new_cases
            if 1 <= missing <= len(fresh):
                rows = min(rows, int(fresh[missing - 1]))
        if events is not None and events > self.new_events:
            rows = min(rows, events - self.new_events - 1)
        return rows

    def firing(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        """Return the trigger that holds now, guards aside."""
        first = rules.window.first
        if first is not None and not self.first_done:
            return self._first(first, clock.now if rules.private else clock.watermark)
        return self._timed(rules, clock) or self._counted(rules) or self._ready(rules, clock)

    def _first(self, first: First, time: int | None) -> Firing | None:
        if first.until is not None:
            return Firing("first", end=first.until + 1) if time is not None and time > first.until else None
        by_cases = first.new_cases is not None and self.new_cases >= first.new_cases
        by_events = first.new_events is not None and self.new_events >= first.new_events
        return Firing("first") if by_cases or by_events else None

    def _timed(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        every, end = rules.window.every, self.window_end
        if every is None or end is None:
            return None
        if rules.window.tumbling:
            closed = clock.watermark is not None and clock.watermark >= end + rules.window.allowed_lateness
            return Firing("every", end - every, end) if closed else None
        return Firing("every", end - every) if clock.now is not None and clock.now >= end else None

    def _counted(self, rules: PublicationRules) -> Firing | None:
        window = rules.window
        for trigger, wanted, reached in (
            ("new_cases", window.new_cases, self.new_cases),
            ("new_events", window.new_events, self.new_events),
            ("completed_cases", window.completed_cases, self.completed),
        ):
            if wanted is not None and reached >= wanted:
                return Firing(trigger)
        return None

    def _ready(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        rule = rules.window.events_per_case
        if rule is None or not rules.window.alone:
            return None
        if self.ready and self.ready >= rule.fraction * self.unfinished:
            return Firing("events_per_case")
        waited = None if clock.now is None or self.waiting_since is None else clock.now - self.waiting_since
        if rule.max_wait is not None and waited is not None and waited >= rule.max_wait:
            return Firing("max_wait", certain=False)
        return None

    def held(self, rules: PublicationRules, clock: TriggerClock) -> bool:
        """Whether a guard delays the cut."""
        window = rules.window
        interval = window.min_interval
        if interval is not None and self.cuts:
            if clock.now is None:  # without a tick nobody knows how long ago the last cut was
                return True
            # A cut before the first tick has no moment. Were it taken for now, the guard would hold for ever.
            if self.last_cut is not None and clock.now - self.last_cut < interval:
                return True
        return window.min_new_cases is not None and not window.tumbling and self.new_cases < window.min_new_cases
