"""The clocks of the fold, and the counters of each publication, which decide when it is cut.

Time-driven triggers are `every`, `first.until` and `max_wait`; the others count. A guard delays a counting trigger
until it is satisfied, and skips a window of `every`, whose events then go to the next one.

The state has three columns for each publication: `flag:NAME` is the state of each event, `known:NAME` whether the
publication has counted the case, and `pending:NAME` how many events of the case are pending.

Parts of the file: `Clocks` reads the time; `PublicationState` has the counters of one publication and
decides whether a trigger holds (`firing`) and whether a guard delays it (`held`); `PendingGrowth` counts
for `events_per_case`; `Publications` counts accepted rows for all publications.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stream.fold.state import (
    BEFORE_ALL,
    DROPPED,
    PENDING,
    RETIRED,
    Batch,
    ColumnTable,
    Partition,
    State,
    blocks,
    is_exposed,
)

if TYPE_CHECKING:
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
        if self._embedded:
            for partition in self._partitions.values():
                partition.reach_time(time)

    @property
    def arrival(self) -> int | None:
        """Arrival time of an event that comes now; None if event time is the clock."""
        return None if self._embedded else self.now

    @property
    def gap(self) -> bool:
        """Whether a partition misses offsets: nothing is released until `gap rewind|accept`."""
        return any(partition.gap for partition in self._partitions.values())

    def read(self, idle_timeout: int | None = None) -> TriggerClock:
        """Return `now`, and the least watermark over partitions that are not idle (all idle: the clock itself)."""
        if self._embedded:
            return TriggerClock(self.now, self.now)
        return TriggerClock(self.now, self._watermark(idle_timeout))

    def _watermark(self, idle_timeout: int | None) -> int | None:
        partitions = self._partitions.values()
        awake = [partition for partition in partitions if not self._idle(partition, idle_timeout)]
        if any(partition.latest is None for partition in awake):
            return None  # its first event may be earlier than all others
        reporting = awake or partitions
        event_times = [partition.latest for partition in reporting if partition.latest is not None]
        if awake:
            return min(event_times)
        if not event_times or self.now is None:
            return None
        return max([*event_times, self.now])

    def of_cases(self, *, private: bool) -> TriggerClock:
        """Return the clock by which a case becomes silent.

        For dp releases these are ticks alone, which do not depend on any event.
        """
        return TriggerClock(self.now, None) if private else self.read()

    def _idle(self, partition: Partition, idle_timeout: int | None) -> bool:
        """Return whether a partition is idle.

        It is if it was silent for `idle_timeout`, or, if that is not set, if it reported and never had an event.
        """
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
        partitions = self._partitions.values()
        behind = [partition for partition in partitions if partition.latest is None or partition.latest < bound]
        last_active = [partition.active for partition in behind if partition.active is not None]
        if idle_timeout is None or not behind or len(last_active) < len(behind):
            return NEVER
        all_behind_idle = max(last_active) + idle_timeout
        # If no partition is left that is not idle, the clock itself is the watermark.
        moment = all_behind_idle if len(behind) < len(partitions) else max(all_behind_idle, bound)
        return moment if moment > now else NEVER


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger that holds.

    Attributes
    ----------
    start, end
        Window of `every`. Only events before `end` are exposed.
    certain
        Whether all cases of `events_per_case` were ready; None without this trigger.
    """

    trigger: str
    start: int | None = None
    end: int | None = None
    certain: bool | None = None


@dataclass(slots=True)
class PublicationState:
    """Counters since the last cut and totals of one publication. They are part of the fold's state.

    Attributes
    ----------
    new_cases, new_events, completed
        Cases and events that were counted since the last cut, and cases that were completed.
    ready, unfinished
        Of `events_per_case`: cases that are ready to grow, and cases that are open or have pending events.
    window_end
        End (ns) of the present window of `every`; None before the first.
    late_before
        Time (ns) before which events are late; None before the first cut.
    last_cut, waiting_since
        Clock (ns) at the last cut, and since when `events_per_case` waits.
    paused, first_done
        Whether an operator has paused the publication, and whether its `first` window is over.
    cuts
        Number of cuts so far.
    last_place, index
        Position and row of the last cut, and its number among the cuts there.
    late_included
        Late events since the last cut that the next release includes.
    orphans
        Cases in the state without an event that the publication counts.
    forgotten_exposed, forgotten_late
        Events that a cut exposed, or that came too late, and that were dropped since.
    unreleased
        Counts since the last release.
    taken
        Number of cases exposed so far, by pseudonym of the person, if `most_cases` bounds it. Kept after the cases.
    """

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
    forgotten_exposed: int = 0
    forgotten_late: int = 0
    unreleased: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def to_state(self) -> dict[str, Any]:
        """Return plain values, for `from_state`."""
        state = asdict(self)
        if not self.taken:  # earlier programs can read the state if the field is absent
            del state["taken"]
        return state

    @classmethod
    def from_state(cls, table: dict[str, Any]) -> PublicationState:
        """Return the state that `to_state` described."""
        return cls(**{**table, "last_place": tuple(table["last_place"])})

    def forget(self, flags: npt.NDArray[np.uint8]) -> None:
        """Count events that leave the state because their case is settled; `flags`: their states."""
        self.forgotten_exposed += int(np.count_nonzero(is_exposed(flags)))
        self.forgotten_late += int(np.count_nonzero(flags == DROPPED))

    def reset(self, now: int | None) -> None:
        """Begin to count again: a cut was taken, or a trigger was consumed without one."""
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

        With a `start`, event time begins with the window of `start`, and wall time with the window of the first tick
        (if time is `simulated`, with that of `start` too). Without a `start`, windows are aligned to 1970-01-01 UTC:
        the first event would depend on how partitions interleave. Event time then begins with the window of the
        earliest event once every partition has reported, and wall time with the first tick after an event.

        Parameters
        ----------
        rules
            Rules of the publication.
        clock
            The clock of its windows.
        earliest
            Time of the earliest event (ns); None before the first.
        simulated
            Whether wall time is simulated (replay).
        """
        if rules.window.every is None or self.window_end is not None:
            return
        is_event_time = rules.window.tumbling
        begin = None
        if rules.start is not None:
            begin = rules.start if is_event_time or simulated else clock.now
        elif earliest is not None:
            begin = clock.watermark if is_event_time else clock.now
            if begin is not None and is_event_time:
                begin = min(earliest, begin)
        if begin is not None:
            self.window_end = rules.window_end_after(begin)

    def skip_window(self, rules: PublicationRules, clock: TriggerClock) -> None:
        """Move to the next window: the following one in event time, the one that contains `now` in wall time."""
        every = rules.window.every
        if every is None or self.window_end is None:
            return
        if rules.start is None:
            self.window_end += every
        else:  # the start may have been set or moved since: the next window ends on the new grid
            self.window_end = rules.window_end_after(self.window_end)
        if not rules.window.tumbling and clock.now is not None:
            self.window_end = max(self.window_end, rules.window_end_after(clock.now))

    def window_bound(self, rules: PublicationRules) -> int:
        """Return the watermark at which the current event-time window (or `first.until`) closes."""
        first = rules.window.first
        if first is not None and not self.first_done:
            if first.until is None or rules.private:
                return NEVER
            return first.until + 1
        if rules.window.tumbling and self.window_end is not None:
            return self.window_end + rules.window.allowed_lateness
        return NEVER

    def wall_bounds(self, rules: PublicationRules) -> list[int]:
        """Return the clocks at which time alone may bring a cut.

        A wall window closes, `max_wait` is over, or `min_interval` permits a delayed trigger; for dp releases
        `first.until` too, since no event may move it.
        """
        window, first = rules.window, rules.window.first
        bounds = []
        if first is not None and not self.first_done:
            if first.until is not None and rules.private:
                bounds.append(first.until + 1)
        else:
            if window.every is not None and window.time == "wall" and self.window_end is not None:
                bounds.append(self.window_end)
            rule = window.events_per_case if window.only_events_per_case else None
            if rule is not None and rule.max_wait is not None and self.waiting_since is not None:
                bounds.append(self.waiting_since + rule.max_wait)
        if window.min_interval is not None and self.last_cut is not None:
            bounds.append(self.last_cut + window.min_interval)
        return bounds

    def rows_until(self, rules: PublicationRules, fresh: npt.NDArray[np.int64], count: int) -> int:
        """Return how many of the next `count` events surely fire no counting trigger.

        Parameters
        ----------
        rules
            Rules of the publication.
        fresh
            Places of the events that bring an unseen case.
        count
            Number of events that are looked at.
        """
        window, first = rules.window, rules.window.first
        case_goal, event_goal = window.new_cases, window.new_events
        if first is not None and not self.first_done:
            case_goal, event_goal = first.new_cases, first.new_events
        rows = count
        for goal in (case_goal, window.min_new_cases):
            missing = NEVER if goal is None else goal - self.new_cases
            if 1 <= missing <= len(fresh):
                rows = min(rows, int(fresh[missing - 1]))
        if event_goal is not None and event_goal > self.new_events:
            rows = min(rows, event_goal - self.new_events - 1)
        return rows

    def firing(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        """Return the trigger that holds now, without regard to guards."""
        first = rules.window.first
        if first is not None and not self.first_done:
            return self._first(first, clock.now if rules.private else clock.watermark)
        return self._timed(rules, clock) or self._counted(rules) or self._ready(rules, clock)

    def _first(self, first: First, time: int | None) -> Firing | None:
        if first.until is not None:
            is_over = time is not None and time > first.until
            return Firing("first", end=first.until + 1) if is_over else None
        by_cases = first.new_cases is not None and self.new_cases >= first.new_cases
        by_events = first.new_events is not None and self.new_events >= first.new_events
        return Firing("first") if by_cases or by_events else None

    def _timed(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        every, end = rules.window.every, self.window_end
        if every is None or end is None:
            return None
        if rules.window.tumbling:
            is_closed = clock.watermark is not None and clock.watermark >= end + rules.window.allowed_lateness
            return Firing("every", end - every, end) if is_closed else None
        is_over = clock.now is not None and clock.now >= end
        return Firing("every", end - every) if is_over else None

    def _counted(self, rules: PublicationRules) -> Firing | None:
        window = rules.window
        for trigger, goal, reached in (
            ("new_cases", window.new_cases, self.new_cases),
            ("new_events", window.new_events, self.new_events),
            ("completed_cases", window.completed_cases, self.completed),
        ):
            if goal is not None and reached >= goal:
                return Firing(trigger)
        return None

    def _ready(self, rules: PublicationRules, clock: TriggerClock) -> Firing | None:
        rule = rules.window.events_per_case
        if rule is None or not rules.window.only_events_per_case:
            return None
        if self.ready and self.ready >= rule.fraction * self.unfinished:
            return Firing("events_per_case")
        if rule.max_wait is None or clock.now is None or self.waiting_since is None:
            return None
        if clock.now - self.waiting_since < rule.max_wait:
            return None
        return Firing("max_wait", certain=False)

    def held(self, rules: PublicationRules, clock: TriggerClock) -> bool:
        """Return whether a guard delays the cut."""
        window = rules.window
        interval = window.min_interval
        if interval is not None and self.cuts:
            if clock.now is None:  # without a tick, the time since the last cut is unknown
                return True
            # A cut before the first tick has no time. If it counted as taken now, the guard would hold forever.
            if self.last_cut is not None and clock.now - self.last_cut < interval:
                return True
        return window.min_new_cases is not None and not window.tumbling and self.new_cases < window.min_new_cases


@dataclass(slots=True)
class PendingGrowth:
    """Pending events by case of one publication that only events_per_case fires.

    `count` keeps changed numbers in a dictionary, which is several times faster than writing single values into a
    column; `flush` writes them.

    Attributes
    ----------
    x, fraction
        The trigger: this share of the unfinished cases must have x pending events each.
    counted
        Pending events of each case before the changes.
    first_time
        Events before this time (ns) are left out as late.
    """

    counters: PublicationState
    x: int
    fraction: float
    counted: npt.NDArray[np.int32]
    first_time: int
    changed: dict[int, int] = field(default_factory=dict)

    def count(self, case: int, more: int, *, before: bool | None, closed: bool) -> None:
        """Count further pending events of a case.

        Parameters
        ----------
        case
            Code of the case.
        more
            Number of further events.
        before
            Whether the case was closed before them; None for a new case.
        closed
            Whether it is closed now.
        """
        counters = self.counters
        pending = 0
        if before is not None:
            # The case no longer counts as what it was.
            pending = self.changed[case] if case in self.changed else int(self.counted[case])
            counters.unfinished -= pending > 0 or not before
            counters.ready -= pending >= self.x or (before and pending > 0)
        pending += more
        self.changed[case] = pending
        counters.unfinished += pending > 0 or not closed
        counters.ready += pending >= self.x or (closed and pending > 0)

    @property
    def fires(self) -> bool:
        """Whether enough of the unfinished cases are ready to grow."""
        return self.counters.ready > 0 and self.counters.ready >= self.fraction * self.counters.unfinished

    def flush(self, cases: ColumnTable) -> None:
        """Write the changed numbers; the cases must have been admitted."""
        cases[f"pending:{self.counters.name}"][list(self.changed)] = list(self.changed.values())


def _leave_out_late(
    rules: PublicationRules,
    counters: PublicationState,
    times: npt.NDArray[np.int64],
    flags: npt.NDArray[np.uint8],
) -> npt.NDArray[np.bool_] | None:
    """Flag the rows that a publication leaves out as late, and return which ones; None if there are none."""
    if counters.late_before is None:
        return None
    is_late = times < counters.late_before
    if rules.late == "next_release":
        counters.late_included += int(np.count_nonzero(is_late))
        return None
    if not np.any(is_late):
        return None
    flags[is_late] = DROPPED
    return is_late


class Publications:
    """Counters of all publications (`states`, by name), and the dead letters of late events."""

    def __init__(
        self, rules: FoldRules, state: State, clocks: Clocks, restored: Iterable[PublicationState] = ()
    ) -> None:
        self.states = {counters.name: counters for counters in restored}
        self.dead_letters: list[tuple[str, int, int, str]] = []
        """(source, partition, offset, reason) of late events for the dlq, since the caller last cleared the list."""
        self._state, self._clocks = state, clocks
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put rules into effect: publications of a known name keep what they have exposed."""
        self._rules = rules
        events, cases = self._state.events, self._state.cases
        names = [publication.name for publication in rules.publications]
        for name in [name for name in self.states if name not in names]:
            del self.states[name]
            events.drop_column(f"flag:{name}")
            cases.drop_column(f"known:{name}")
            cases.drop_column(f"pending:{name}")
        for name in names:
            if name not in self.states:
                self.states[name] = PublicationState(name)
                events.add_column(f"flag:{name}", "|u1")
                # The other events of a settled case are gone, so a new publication never shows the case.
                events[f"flag:{name}"][cases["settled"][events["case"]]] = DROPPED
            if f"known:{name}" not in cases:
                cases.add_column(f"known:{name}", "|b1")
                cases.add_column(f"pending:{name}", "<i4")
        for publication, counters in self:
            # Windows with a declared start are open before the first event.
            if publication.start is not None:
                self.open_windows(publication, counters)

    def __iter__(self) -> Iterator[tuple[PublicationRules, PublicationState]]:
        """Yield rules and counters of each publication, by name."""
        for rules in self._rules.publications:
            yield rules, self.states[rules.name]

    def open_windows(self, rules: PublicationRules, counters: PublicationState) -> None:
        """Set the end of the first window of `every`, if it is determined already."""
        clock = self._clocks.read(rules.window.idle_timeout)
        counters.open_windows(rules, clock, self._state.earliest, simulated=self._rules.embedded)

    # counted again

    def recount(self) -> None:
        """Compute again the numbers that follow from the events: after a restore, a new configuration, an erasure."""
        for rules, _ in self:
            self.recount_publication(rules)

    def recount_publication(self, rules: PublicationRules) -> None:
        """Compute again the derived numbers of one publication (see `recount`)."""
        events, cases, name = self._state.events, self._state.cases, rules.name
        flags, size, counters = events[f"flag:{name}"], cases.size, self.states[name]
        has_counted_event = cases["settled"].copy()
        for block in blocks(events.size):
            is_counted = flags[block] != DROPPED
            has_counted_event[events["case"][block][is_counted]] = True
        cases[f"known:{name}"][:] = has_counted_event
        counters.orphans = size - int(np.count_nonzero(has_counted_event))
        rule = rules.window.events_per_case
        if rules.window.only_events_per_case and rule is not None:
            closed = cases["closed"]
            pending = cases[f"pending:{name}"]
            pending[:] = 0
            for block in blocks(events.size):
                is_pending = flags[block] == PENDING
                np.add.at(pending, events["case"][block][is_pending], 1)
            is_ready = (pending > 0) & ((pending >= rule.x) | closed)
            counters.unfinished = int(np.count_nonzero((pending > 0) | ~closed))
            counters.ready = int(np.count_nonzero(is_ready))

    def mark_known(self, rules: PublicationRules, cases: npt.NDArray[np.bool_]) -> None:
        """Note cases that a publication no longer counts as new when an event of them comes.

        Parameters
        ----------
        rules
            Rules of the publication.
        cases
            bool[C], the cases. `recount_publication` must find them known as well.
        """
        is_known = self._state.cases[f"known:{rules.name}"]
        self.states[rules.name].orphans -= int(np.count_nonzero(cases & ~is_known))
        is_known[cases] = True

    # events

    def growths(self) -> list[PendingGrowth]:
        """Return the pending events by case of each publication that only events_per_case fires."""
        growths = []
        for rules, counters in self:
            rule = rules.window.events_per_case
            if rule is not None and rules.window.only_events_per_case:
                pending_of_case = self._state.cases[f"pending:{rules.name}"]
                first_time = counters.first_kept_time(rules)
                growths.append(PendingGrowth(counters, rule.x, rule.fraction, pending_of_case, first_time))
        return growths

    def count(self, batch: Batch, begin: int, end: int, partition: Partition, completed: int) -> None:
        """Count the rows begin .. end-1, which the state has just admitted, and the cases that they complete.

        Parameters
        ----------
        batch
            The rows.
        begin, end
            First row, and the row after the last.
        partition
            The source partition.
        completed
            How many cases the rows complete.
        """
        self.count_completed(completed)
        rows = slice(begin, end)
        cases, times, is_fresh = batch.cases[rows], batch.times[rows], batch.fresh[rows]
        n_fresh = int(np.count_nonzero(is_fresh))
        is_settled = None if batch.settled is None else batch.settled[rows]
        # A forgotten case comes back under a new code, and no publication counts it again.
        if is_settled is not None:
            n_fresh -= int(np.count_nonzero(is_fresh & is_settled))

        dead_rows: list[tuple[int, str]] = []
        for rules, counters in self:
            # The rows are the last ones of the table.
            flags = self._state.events[f"flag:{rules.name}"][begin - end :]
            counted = cases
            is_left_out = _leave_out_late(rules, counters, times, flags)
            if is_left_out is not None:
                counted = cases[~is_left_out]
                if rules.late == "dlq":
                    late_places = np.flatnonzero(is_left_out).tolist()
                    dead_rows += [(begin + place, rules.name) for place in late_places]

            is_known = self._state.cases[f"known:{rules.name}"]
            if is_settled is not None:
                is_known[cases[is_settled]] = True
                if not rules.once:
                    # This publication is younger than the last cut of the case, as in `install`.
                    flags[is_settled] = DROPPED

            unseen = counted[~is_known[counted]]
            if len(unseen):
                unseen = np.unique(unseen)
                is_known[unseen] = True
            counters.orphans += n_fresh - len(unseen)
            counters.new_cases += len(unseen)
            counters.new_events += len(counted)
            if rules.window.only_events_per_case and counters.waiting_since is None and len(counted):
                counters.waiting_since = self._clocks.now
        if dead_rows:
            source = next(name for name, candidate in self._state.partitions.items() if candidate is partition)
            for row, name in sorted(dead_rows):
                self.dead_letters.append((*source, int(batch.offsets[row]), f"late for publication {name}"))

    def rows_with_unseen_case(
        self, rules: PublicationRules, counters: PublicationState, batch: Batch, begin: int
    ) -> npt.NDArray[np.int64]:
        """Return the rows, counted from `begin` on, that bring a case which the publication has not counted.

        Parameters
        ----------
        rules
            Rules of the publication.
        counters
            Its counters.
        batch
            The rows.
        begin
            First row that is looked at.
        """
        cases, first_time = batch.cases[begin:], counters.first_kept_time(rules)
        none_late = first_time == BEFORE_ALL or int(batch.times[begin:].min()) >= first_time
        is_settled = None if batch.settled is None else batch.settled[begin:]
        if none_late and not counters.orphans:
            is_unseen = batch.fresh[begin:]
            if is_settled is not None:
                is_unseen = is_unseen & ~is_settled
            return np.flatnonzero(is_unseen)

        # If events were left out as late, the first event of a case is not always the one that counts: of
        # each case that was not counted, it is the first row that is in time.
        is_known = self._state.cases[f"known:{rules.name}"]
        may_count = batch.times[begin:] >= first_time
        in_state = cases < len(is_known)
        may_count[in_state] &= ~is_known[cases[in_state]]
        if is_settled is not None:
            may_count &= ~is_settled
        rows = np.flatnonzero(may_count)
        _, first_of_case = np.unique(cases[rows], return_index=True)
        return np.sort(rows[first_of_case])

    def missing_completions(self) -> int:
        """Return how many cases must complete before a trigger that counts them may hold."""
        missing = NEVER
        for rules, counters in self:
            if rules.window.completed_cases is not None:
                # A trigger that holds already, but is delayed by a guard, is evaluated after each completion.
                missing = min(missing, max(1, rules.window.completed_cases - counters.completed))
        return missing

    def count_completed(self, number: int) -> None:
        """Count cases that have completed."""
        for counters in self.states.values():
            counters.completed += number

    # questions

    def next_deadline(self) -> int:
        """Return the next moment (ns) after `now` at which a tick alone could bring a cut, or NEVER."""
        bounds = [NEVER]
        now = -NEVER if self._clocks.now is None else self._clocks.now
        for rules, counters in self:
            bounds.extend(bound for bound in counters.wall_bounds(rules) if bound > now)
            bounds.append(self._clocks.passes(counters.window_bound(rules), rules.window.idle_timeout))
        return min(bounds)

    def waiting(self, name: str) -> bool:
        """Return whether an event is pending."""
        return bool(np.any(self._state.events[f"flag:{name}"] == PENDING))

    def accounting(self, name: str) -> dict[str, int]:
        """Count the accepted events by their outcome: seen = exposed + pending + late, events of forgotten cases too.

        `removed_*` (erasure, retention) and `refused` (events of such cases), `duplicates` and `foreign` (another
        pseudonym key) are not among `seen`.
        """
        flags = self._state.events[f"flag:{name}"]
        state, counters = self._state, self.states[name]
        forgotten = counters.forgotten_exposed + counters.forgotten_late
        return {
            "seen": int(np.count_nonzero(flags != RETIRED)) + forgotten,
            "exposed": int(np.count_nonzero(is_exposed(flags))) + counters.forgotten_exposed,
            "pending": int(np.count_nonzero(flags == PENDING)),
            "late": int(np.count_nonzero(flags == DROPPED)) + counters.forgotten_late,
            "late_included": counters.late_included,
            "cuts": counters.cuts,
            "cases": state.cases.size,
            "new_cases": counters.new_cases,
            "new_events": counters.new_events,
            "non_append_insertions": counters.unreleased.get("non_append_insertions", 0),
            "removed_cases": state.removed_cases,
            "removed_events": state.removed_events,
            "refused": state.refused,
            "duplicates": state.duplicates,
            "foreign": state.foreign,
        }
