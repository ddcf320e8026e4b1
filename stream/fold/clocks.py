"""The time of the fold: the clock of ticks, the watermark of the partitions, and which partitions are idle."""

from __future__ import annotations

from collections.abc import Mapping

from stream.fold.intake import Partition
from stream.fold.rules import FoldRules, SourcePartition
from stream.fold.triggers import NEVER, TriggerClock


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
        """Arrival time of an event that comes now; None where the clock is that of the events."""
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
            known = [one for one in awake if one is not None]
            return TriggerClock(self.now, min(known) if len(known) == len(awake) else None)
        return TriggerClock(self.now, max([*latest, self.now]) if self.now is not None and latest else None)

    def of_cases(self, *, private: bool) -> TriggerClock:
        """Return the clock by which a case becomes silent: for dp releases ticks alone, which do not depend on any
        event."""
        return TriggerClock(self.now, None) if private else self.read()

    def _idle(self, partition: Partition, idle_timeout: int | None) -> bool:
        """Silent for `idle_timeout`; without one, only a partition that reported and never had an event."""
        if partition.active is None or self.now is None:
            return False
        if idle_timeout is None:
            return partition.latest is None
        return self.now - partition.active >= idle_timeout

    def passes(self, bound: int, idle_timeout: int | None) -> int:
        """The clock, after `now`, at which the watermark passes `bound` without another event; NEVER where it does
        not."""
        now = -NEVER if self.now is None else self.now
        if bound == NEVER:
            return NEVER
        if self._embedded:
            return bound if bound > now else NEVER
        behind = [one for one in self._partitions.values() if one.latest is None or one.latest < bound]
        if idle_timeout is None or not behind or any(one.active is None for one in behind):
            return NEVER
        idle = max(one.active for one in behind if one.active is not None) + idle_timeout
        moment = idle if len(behind) < len(self._partitions) else max(idle, bound)
        return moment if moment > now else NEVER
