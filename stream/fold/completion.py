"""Completion of cases, and their removal from the state.

A case is complete if its last event ends it, if it has had all activities of `end_all` (in any order, even if other
events follow), or if it has been silent for `inactivity`. Silence is measured twice, and either is enough: in event
time, by the least watermark of the partitions; and by ticks, since the last event was recorded (so that replaying an
old log into a topic does not complete its cases at once).

Parts of the file, from the rule to what follows from it:

* `complete_now` and `silent_now`: the rule over all cases at once, from their columns.
* `Inactivity`: which open case falls silent next.
* `Completions`: the rule row by row, if a trigger counts completed cases.
* `Retention`: removes cases that an operator erases, complete cases after `retention`, and the events of
  cases that no later cut shows.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stream.fold.named_events import NamedEvents, named_events
from stream.fold.records import without_cases
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.state import EXPOSED, PENDING, RETIRED, Batch, ColumnTable, State, digest, is_exposed
from stream.fold.triggers import NEVER, Clocks, PendingGrowth, Publications, TriggerClock

NO_CASE = -1
"""In place of a case code: no case will be completed by silence."""


def complete_now(cases: ColumnTable, inactivity: int | None, clock: TriggerClock) -> npt.NDArray[np.bool_]:
    """Return, by case code, whether a case is complete: bool[C].

    Parameters
    ----------
    cases
        Table of the cases (`stream.fold.state.CASE_COLUMNS`).
    inactivity
        Length of the silence (ns) that completes a case; None: silence does not.
    clock
        Time of the ticks, and least watermark.
    """
    return cases["ended"] | silent_now(cases, inactivity, clock)


def silent_now(cases: ColumnTable, inactivity: int | None, clock: TriggerClock) -> npt.NDArray[np.bool_]:
    """Return, by case code, whether a case has been silent for `inactivity`: bool[C].

    Parameters
    ----------
    cases
        Table of the cases (`stream.fold.state.CASE_COLUMNS`).
    inactivity
        Length of the silence (ns); None: no case is silent.
    clock
        Time of the ticks, and least watermark.
    """
    result = np.zeros(cases.size, dtype=np.bool_)
    if inactivity is None:
        return result
    if clock.watermark is not None:
        result |= cases["last"] <= clock.watermark - inactivity
    if clock.now is not None:
        result |= np.maximum(cases["last"], cases["arrival"]) <= clock.now - inactivity
    return result


class Inactivity:
    """Open cases in the order in which silence will complete them.

    Two heaps have one entry (deadline, case) for each open case: one by event time, one by ticks. An event
    of a case changes no entry. If an entry is due and its case has had later events, it is put back with
    the new deadline.
    """

    def __init__(self, inactivity: int | None) -> None:
        self.inactivity = inactivity
        self._by_event_time: list[tuple[int, int]] = []
        self._by_ticks: list[tuple[int, int]] = []

    def rebuild(self, cases: ColumnTable) -> None:
        """Rebuild from the state: deadlines are derived, and therefore not part of a snapshot."""
        self._by_event_time, self._by_ticks = [], []
        for case in np.flatnonzero(~cases["closed"]).tolist():
            self.opened(case, cases)

    def opened(self, case: int, cases: ColumnTable) -> None:
        """Add an open case."""
        if self.inactivity is not None:
            last = int(cases["last"][case])
            self.push(case, last + self.inactivity)

    def push(self, case: int, deadline: int) -> None:
        """Add an open case with a deadline that is right or too early.

        One that is too early is put back when it is due.
        """
        heapq.heappush(self._by_event_time, (deadline, case))
        heapq.heappush(self._by_ticks, (deadline, case))

    def next_event(self, cases: ColumnTable) -> tuple[int, int]:
        """Return (deadline in event time, case) of the next completion; (NEVER, NO_CASE) if no case is open."""
        return self._top(self._by_event_time, cases, by_ticks=False)

    def next_wall(self, cases: ColumnTable) -> tuple[int, int]:
        """Return (deadline by ticks, case) of the next completion; (NEVER, NO_CASE) if no case is open."""
        return self._top(self._by_ticks, cases, by_ticks=True)

    def _top(self, heap: list[tuple[int, int]], cases: ColumnTable, *, by_ticks: bool) -> tuple[int, int]:
        """Return the first entry that is right, after the entries before it were dropped or put back."""
        while heap:
            deadline, case = heap[0]
            if cases["closed"][case]:
                heapq.heappop(heap)
                continue
            silent_since = int(cases["last"][case])
            if by_ticks:
                silent_since = max(silent_since, int(cases["arrival"][case]))
            present_deadline = silent_since + (self.inactivity or 0)
            if present_deadline == deadline:
                return deadline, case
            heapq.heapreplace(heap, (present_deadline, case))
        return NEVER, NO_CASE


class Completions:
    """Complete cases (column `closed`), and the next case that silence completes.

    Both are kept up to date only if a trigger counts completed cases (`counts_completions`); otherwise no
    case is ever due. If the state is `restored`, it contains the closed cases, and they are not computed
    again.
    """

    def __init__(
        self,
        rules: FoldRules,
        cases: ColumnTable,
        clocks: Clocks,
        *,
        restored: bool = False,
    ) -> None:
        self._cases, self._clocks = cases, clocks
        self.counts_completions = restored and rules.counts_completions
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put rules into effect; `rebuild` follows."""
        self.silence = rules.inactivity
        counted_before = self.counts_completions
        self.counts_completions = rules.counts_completions
        # The column is cleared as well when counting ends: a restored state then has no old marks.
        if not (counted_before and self.counts_completions):
            complete = self.complete(self._clocks.read()) | self._cases["settled"]
            self._cases["closed"][:] = complete & self.counts_completions
        self.rebuild()

    def rebuild(self) -> None:
        """Build the deadlines of silence from the state: after a restore, new rules, an erasure."""
        self.deadlines = Inactivity(self.silence)
        if self.counts_completions:
            self.deadlines.rebuild(self._cases)

    def complete(self, clock: TriggerClock) -> npt.NDArray[np.bool_]:
        """Return, by case code, whether a case is complete at `clock`: bool[C]."""
        return complete_now(self._cases, self.silence, clock)

    def next_silence(self) -> tuple[int, int]:
        """Return the event time (ns) at which the next case falls silent, and the case.

        (NEVER, NO_CASE): no case will, or completions are not counted (`counts_completions`).
        """
        return self.deadlines.next_event(self._cases)

    def next_by_watermark(self) -> int | None:
        """Return the next case that the watermark completes by silence, if there is one."""
        deadline, case = self.next_silence()
        if case == NO_CASE:
            return None
        watermark = self._clocks.read().watermark
        return case if watermark is not None and deadline <= watermark else None

    def next_by_clock(self) -> int | None:
        """Return the next case that the clock of ticks completes by silence, if there is one."""
        deadline, case = self.deadlines.next_wall(self._cases)
        now = self._clocks.now
        is_due = case != NO_CASE and now is not None and deadline <= now
        return case if is_due else None

    def next_deadline(self) -> int:
        """Return the next moment (ns) at which the clock alone completes a case, or NEVER."""
        deadline, _ = self.deadlines.next_wall(self._cases)
        return deadline

    def count(
        self, batch: Batch, begin: int, end: int, goal: int, growths: Sequence[PendingGrowth]
    ) -> tuple[int, int, dict[int, bool]]:
        """Count completions and pending events row by row, before the rows are admitted.

        It stops behind the row at which a trigger that counts them may hold, and before a row at whose time
        a case of these rows falls silent. If completions are not counted (`counts_completions`), it passes
        over the rows.

        Parameters
        ----------
        batch
            The staged rows.
        begin, end
            First row, and the row after the last.
        goal
            Number of completions at which a trigger may hold.
        growths
            Pending events of the publications with `events_per_case`.

        Returns
        -------
        stop : int
            The row before which counting stopped.
        completed : int
            How many cases the rows complete.
        closed : dict of int to bool
            Whether each case of the rows is complete after them, by its code.
        """
        completed, closed = 0, dict[int, bool]()
        if not self.counts_completions:
            return end, completed, closed

        # Lists, since reading single values of an array is several times slower.
        rows = slice(begin, end)
        case_of_row = batch.cases[rows].tolist()
        time_of_row = batch.times[rows].tolist()
        is_fresh = batch.fresh[rows].tolist()
        is_closing = batch.ends[rows].tolist()
        is_settled = [False] * (end - begin)
        if batch.settled is not None:
            is_settled = batch.settled[rows].tolist()
        if end == begin + 1:
            # A single row may come in any order: its case may have later events, or be silent all the same.
            is_closing = [self._after_row(batch, begin)]

        was_closed, silence = self._cases["closed"], self.silence
        next_silence = NEVER
        stop = begin
        in_rows = zip(case_of_row, time_of_row, is_closing, is_fresh, is_settled, strict=True)
        for case, time, closing, fresh, settled in in_rows:
            if time >= next_silence:
                break
            if settled:  # its events complete nothing, and it is never open again
                closed[case] = True
                stop += 1
                continue

            # Whether the case was closed before this row: by an earlier one of these rows, or in the state.
            # None: new.
            before = closed.get(case)
            if before is None and not fresh:
                before = bool(was_closed[case])
            fires = False
            for growth in growths:
                growth.count(case, time >= growth.first_time, before=before, closed=closing)
                fires = fires or growth.fires
            closed[case] = closing
            stop += 1

            # Deadlines contain every open case. Those that were complete or unseen before this row are added.
            if not closing and before is not False and silence is not None:
                self.deadlines.push(case, time + silence)
                next_silence = min(next_silence, time + silence)
            if closing and not before:
                completed += 1
            if fires or completed >= goal:
                break
        return stop, completed, closed

    def _after_row(self, batch: Batch, row: int) -> bool:
        """Return whether a case is complete once it has this row, also if it has had later events."""
        case, last = int(batch.cases[row]), int(batch.times[row])
        ends = bool(batch.ends[row])
        arrival = self._clocks.arrival
        if not batch.fresh[row]:
            last_before = int(self._cases["last"][case])
            if last < last_before:
                # A late event: the last event of its case decides. `end_all` does not depend on the order of events.
                has_had_all = batch.met is not None and bool(batch.met[row])
                ends = bool(self._cases["ended"][case]) or has_had_all
            last = max(last, last_before)
            if arrival is None:
                arrival = int(self._cases["arrival"][case])
        recorded = last if arrival is None else max(last, arrival)
        return ends or self._silent(last, recorded)

    def _silent(self, last: int, recorded: int) -> bool:
        """Return whether a case is silent, by the time of its last event or by when it was recorded."""
        if self.silence is None:
            return False
        clock = self._clocks.read()
        if clock.watermark is not None and last + self.silence <= clock.watermark:
            return True
        return clock.now is not None and recorded + self.silence <= clock.now

    def close(self, case: int) -> None:
        """Complete an open case."""
        self._cases["closed"][case] = True

    def close_settled(self) -> None:
        """Complete the settled cases for good."""
        if self.counts_completions:
            self._cases["closed"][self._cases["settled"]] = True


FORGET_SHARE = 4
"""Events of settled cases are dropped when they are at least a quarter of what stays. Dropping goes through the whole
state, and the next checkpoint is a whole one. With a smaller share both would cost more than the new events do. With a
larger one the state holds more events that nobody needs."""

DIGESTS_PER_EVENT = 2
"""Digests of forgotten cases that are as large as an event (16 and 30 bytes): they are in each whole checkpoint too."""


class Retention:
    """Removes cases from the state and has the counters of the others updated.

    * An erased case, and one whose retention is over, leaves for good (`erase`, `retire`): later events of it are
      refused.
    * If every publication exposes each case once, a case that each of them has cut is *settled*: its later events
      complete nothing, and no later cut shows it, unless it waits for a release. Its events are dropped. The state
      keeps a digest of the case, so its later events still count as late and it does not count as a new case, and for
      each publication the numbers of dropped events. When the events are dropped changes no cut and no count: it
      depends on sizes alone.

    Attributes
    ----------
    dropped
        Dropped events for the archive, if the rules ask for one. The host writes them before it saves the state that no
        longer has them, and then clears the list.
    """

    def __init__(
        self,
        rules: FoldRules,
        state: State,
        clocks: Clocks,
        publications: Publications,
        completions: Completions,
    ) -> None:
        self._state, self._clocks = state, clocks
        self._publications, self._completions = publications, completions
        self.dropped: list[NamedEvents] = []
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put new rules into effect."""
        self._rules = rules

    def erase(self, cases: Sequence[str]) -> int:
        """Remove cases by pseudonym, for good: their events are refused from now on.

        Returns
        -------
        int
            How many of them were in the state, or were forgotten.
        """
        state = self._state
        # Otherwise the counts of an erased case would depend on whether its events were dropped before.
        self.forget()
        names = list(dict.fromkeys(cases))
        in_state = [name for name in names if dict.__contains__(state.index, name)]
        n_known = self.count_known(names)
        keep = np.ones(state.cases.size, dtype=np.bool_)
        keep[[state.index[name] for name in in_state]] = False
        self._remove(keep)
        state.removed_cases += n_known - len(in_state)
        for partition in state.partitions.values():
            partition.held = [(position, without_cases(record, cases)) for position, record in partition.held]
        digests = {digest(name) for name in names}
        state.refuse(digests)
        self.dropped[:] = [events.without(digests) for events in self.dropped]
        return n_known

    def count_known(self, cases: Sequence[str]) -> int:
        """Return how many of the cases (by pseudonym) are in the state, or were forgotten."""
        state = self._state
        names = set(cases)
        not_in_state = [name for name in names if not dict.__contains__(state.index, name)]
        n_forgotten = int(np.count_nonzero(state.forgotten.contains([digest(name) for name in not_in_state])))
        return len(names) - len(not_in_state) + n_forgotten

    def after_cut(self) -> None:
        """Settle the cases that every publication has cut, and drop their events; the log of the last cut was taken.

        Its decision may still come. No state is saved before it (`Fold.snapshot`), so after a crash the cut is taken
        again, with all its events.
        """
        if not self._rules.forgets:
            return
        self._state.settle(self._cut_by_all())
        self._completions.close_settled()
        if not self._rules.waits:
            self._drop_if_many()

    def _drop_if_many(self) -> None:
        """Drop the events of settled cases if there are enough of them."""
        state = self._state
        leaves = self._droppable()
        n_leaving = int(np.count_nonzero(leaves))
        staying = state.events.size - n_leaving + len(state.forgotten) // DIGESTS_PER_EVENT
        if n_leaving and n_leaving * FORGET_SHARE >= staying:
            self.forget()

    def _cut_by_all(self) -> npt.NDArray[np.bool_]:
        """Return, by case code, whether every publication has exposed the case, or left it out for good."""
        state = self._state
        result = np.ones(state.cases.size, dtype=np.bool_)
        for rules in self._rules.publications:
            flags = state.events[f"flag:{rules.name}"]
            result &= state.cases_with(is_exposed(flags) | (flags == RETIRED))
        return result

    def _droppable(self) -> npt.NDArray[np.bool_]:
        """Return the events of settled cases that no publication has yet to count as late, or to release."""
        state = self._state
        result = state.cases["settled"][state.events["case"]]
        for rules in self._rules.publications:
            flags = state.events[f"flag:{rules.name}"]
            result &= flags != PENDING
            if rules.waits:
                waits = state.cases_with(flags == EXPOSED)
                result &= ~waits[state.events["case"]]
        return result

    def forget(self, *, archive: bool | None = None) -> None:
        """Drop the events of settled cases, and the cases that have no other event.

        Parameters
        ----------
        archive
            Whether the events go to the archive; None: as the rules say.
        """
        state = self._state
        settled = state.cases["settled"]
        if not settled.any():
            return
        leaves = self._droppable()
        keep = ~settled
        # A settled case stays as long as it has an event that stays.
        keep[state.events["case"][~leaves]] = True
        if not leaves.any() and keep.all():
            return
        for rules in self._rules.publications:
            counters = self._publications.states[rules.name]
            counters.forget(state.events[f"flag:{rules.name}"][leaves])
        if archive is None:
            archive = self._rules.archive
        if archive and leaves.any():
            state.drops += 1
            self.dropped.append(named_events(state, leaves, state.drops))
        state.forget(keep, ~leaves)
        self._completions.rebuild()
        self._publications.recount()

    def before_cut(self, rules: PublicationRules) -> None:
        """Remove, before a cut of one publication, the cases whose retention is over.

        If cases wait for a release, the events of those that were released are dropped here: the decision on the cut
        before has come by now, so the state does not depend on when it came.
        """
        if self._rules.forgets and self._rules.waits:
            self._drop_if_many()
        if self._rules.retention is None:
            return
        self._forget_due(self._rules.retention)
        if rules.private:
            self._retire_for(rules)
        self.retire()

    def _forget_due(self, retention: int) -> None:
        """Drop the events of settled cases at the latest when the retention of one of these cases is over."""
        now, cases = self._clocks.now, self._state.cases
        if now is None:
            return
        is_due = np.maximum(cases["last"], cases["arrival"]) <= now - retention
        is_due &= cases["settled"]
        if np.any(is_due):
            self._state.purged += 1
            self._end_wait(is_due)
            self.forget()

    def _end_wait(self, cases: npt.NDArray[np.bool_]) -> None:
        """Retire the events of cases, bool by case code, that still wait for a release: none will show them."""
        events = self._state.events
        for rules in self._rules.publications:
            if rules.waits:
                flags = events[f"flag:{rules.name}"]
                flags[(flags == EXPOSED) & cases[events["case"]]] = RETIRED

    def _retire_for(self, rules: PublicationRules) -> None:
        """Retire, at a cut of one publication with a dp promise, the cases whose retention is over for it.

        This depends on the last event and the arrival of each case and on the clock, never on a watermark: otherwise
        the event of one person could remove others from the release. Later events of a retired case are retired too.
        Settled cases are not retired but forgotten.
        """
        state, retention, now = self._state, self._rules.retention, self._clocks.now
        flags, case = state.events[f"flag:{rules.name}"], state.events["case"]
        is_retired = state.cases_with(flags == RETIRED)
        if now is not None and retention is not None:
            silent_since = np.maximum(state.cases["last"], state.cases["arrival"])
            is_due = self._completions.complete(TriggerClock(now, None))
            is_due &= silent_since <= now - retention
            is_due[case[flags == PENDING]] = False
            is_retired |= is_due
        is_retired &= ~state.cases["settled"]
        flags[is_retired[case]] = RETIRED
        # Also a case of which the publication counted no event, since all came too late: it is over, so its later
        # events are not those of a new case.
        self._publications.mark_known(rules, is_retired)

    def retire(self) -> None:
        """Remove complete cases without pending events, `retention` after their last event.

        A late event of such a case is refused: it would look like a new case. A publication with a dp promise must
        have retired the case before.
        """
        state, retention = self._state, self._rules.retention
        if retention is None:
            return
        leaves = ~state.cases["settled"]  # these are forgotten, and do not count as removed
        if not all(rules.private for rules in self._rules.publications):
            clock = self._clocks.read()
            if clock.watermark is None:
                return
            leaves &= self._completions.complete(clock)
            leaves &= state.cases["last"] <= clock.watermark - retention
        for rules in self._rules.publications:
            flags = state.events[f"flag:{rules.name}"]
            is_needed = flags != RETIRED if rules.private else flags == PENDING
            leaves[state.events["case"][is_needed]] = False
        if np.any(leaves):
            self._remove(~leaves)

    def _remove(self, keep: npt.NDArray[np.bool_]) -> None:
        if np.all(keep):
            return
        self._state.remove(keep)
        self._completions.rebuild()
        self._publications.recount()
