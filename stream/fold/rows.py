"""Rows into the state: in bulk where nothing can fire, by strides where completions count, else one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream.fold.cases import ColumnTable
from stream.fold.clocks import Clocks
from stream.fold.completion import Completions, Inactivity
from stream.fold.intake import Batch, Partition, State
from stream.fold.publications import Publications
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import NEVER, PublicationState

# Many rows at once where each completion counts: one tight loop instead of a full step a row.
#
# Only where time does not go back and one partition speaks, so that an event is the last of its case and
# cannot be silent; the loop ends before a case falls silent and after the row at which a completion
# trigger may hold.


@dataclass(slots=True)
class Growth:
    """One publication that events_per_case fires alone, and the pending counts that this stride has changed."""

    own: PublicationState
    x: int
    fraction: float
    column: str
    pending: dict[int, int] = field(default_factory=dict)

    def count(self, cases: ColumnTable, case: int, *, fresh: bool, before: bool, closed: bool) -> None:
        """One more event of `case`, which was complete `before` and now is `closed`."""
        held = self.pending.get(case)
        if held is None:
            held = 0 if fresh else int(cases[self.column][case])
        self.pending[case] = held + 1
        self.own.unfinished += 1 - (not fresh and (held > 0 or not before))
        was_ready = not fresh and (held >= self.x or (before and held > 0))
        self.own.ready += (closed or held + 1 >= self.x) - was_ready

    @property
    def fires(self) -> bool:
        return self.own.ready > 0 and self.own.ready >= self.fraction * self.own.unfinished


@dataclass(slots=True)
class Stride:
    """The rows begin .. end-1 of a batch, walked: what `flush` writes once they are admitted."""

    end: int
    closed: dict[int, bool]
    growths: list[Growth]

    def flush(self, cases: ColumnTable) -> None:
        keys = list(self.closed)
        cases["closed"][keys] = list(self.closed.values())
        for growth in self.growths:
            cases[growth.column][list(growth.pending)] = list(growth.pending.values())


def walk(
    batch: Batch,
    begin: int,
    end: int,
    cases: ColumnTable,
    silence: Inactivity,
    goals: list[int | None],
    growths: list[Growth],
    everyone: list[PublicationState],
) -> Stride:
    """Walk from `begin` to `end` at most. `goals`: completions that publications wait for (None: they do not)."""
    top = silence.next_event(cases)
    limit = NEVER if top is None else top[0]
    gap = silence.inactivity
    closed: dict[int, bool] = {}
    known, completed, row = cases["closed"], 0, begin
    goal = min((one for one in goals if one is not None), default=NEVER)
    rows = slice(begin, end)
    for case, time, ended, fresh in zip(
        batch.cases[rows].tolist(),
        batch.times[rows].tolist(),
        batch.ends[rows].tolist(),
        batch.fresh[rows].tolist(),
        strict=True,
    ):
        if time >= limit:
            break
        before = closed.get(case)
        if before is None:
            before = not fresh and bool(known[case])
        for growth in growths:
            growth.count(cases, case, fresh=fresh, before=before, closed=ended)
        closed[case] = ended
        row += 1
        if not ended and (fresh or before) and gap is not None:
            silence.push(case, time + gap)
            limit = min(limit, time + gap)
        if ended and not before:
            completed += 1
        if completed >= goal or any(growth.fires for growth in growths):
            break
    for own in everyone:
        own.completed += completed
    return Stride(row, closed, growths)


class RowFolder:
    """Adds rows to the state, and knows how many may be added before a cut is possible. Has no state of its own."""

    def __init__(
        self, rules: FoldRules, state: State, clocks: Clocks, publications: Publications, completions: Completions
    ) -> None:
        self._state, self._clocks, self._publications, self._completions = state, clocks, publications, completions
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put new rules into effect."""
        self._embedded = rules.embedded

    # how far

    def next_stop(self, batch: Batch, row: int) -> int:
        """Return the first row from `row` on that could bring a cut or must be accepted alone."""
        if self._state.earliest is None or (self._completions.exact and not self._in_order(batch, row)):
            return row
        stop = len(batch)
        fresh = np.flatnonzero(batch.fresh[row:])
        for rules, own in self._publications:
            if own.orphans or (own.window_end is None and rules.window.every is not None):
                return row
            stop = min(stop, row + own.rows_until(rules, fresh, len(batch) - row))
            stop = min(stop, _late_row(batch, row, rules, own))
            bound = own.window_bound(rules)
            stop = min(stop, int(np.searchsorted(batch.running, bound)))
        if self._embedded and (deadline := self.next_deadline()) is not None:
            stop = min(stop, int(np.searchsorted(batch.running, deadline)))
        return max(stop, row)

    def next_deadline(self) -> int | None:
        """The next moment (ns) after `now` at which a tick alone could bring a cut or a completion; None: none."""
        bound = min(self._completions.next_deadline(), self._publications.next_deadline())
        return None if bound == NEVER else bound

    def _in_order(self, batch: Batch, row: int) -> bool:
        """Whether a stride may be taken: one partition, time not going back, every wait for max_wait begun."""
        waits = all(own.waiting_since is not None for rules, own in self._publications if rules.window.alone)
        one = self._state.ordered and len(self._state.partitions) == 1 and not self._clocks.gap
        return waits and one and bool(batch.times[row] >= self._state.latest and np.all(batch.times == batch.running))

    # in bulk

    def take_bulk(self, batch: Batch, begin: int, end: int, partition: Partition) -> None:
        """Accept rows that fire nothing."""
        self._state.admit(batch, begin, end, self._clocks.arrival)
        time = int(batch.times[begin:end].max())
        partition.reach_time(time)
        partition.hwm = int(batch.offsets[end - 1])
        if self._embedded:
            self._clocks.tick(time)
        partition.active = self._clocks.now
        self._state.earliest = min(self._state.earliest or 0, int(batch.times[begin:end].min()))
        self._publications.count_rows(batch, begin, end)

    def take_stride(self, batch: Batch, begin: int, end: int, partition: Partition) -> int:
        """Accept rows up to the one at which a completion trigger may hold, at most up to `end`; return where it
        stopped."""
        stride = self._walk(batch, begin, end)
        if stride.end > begin:
            self.take_bulk(batch, begin, stride.end, partition)
            stride.flush(self._state.cases)
        return stride.end

    def _walk(self, batch: Batch, begin: int, end: int) -> Stride:
        goals, growths = [], []
        for rules, own in self._publications:
            rule, wanted = rules.window.events_per_case, rules.window.completed_cases
            goals.append(None if wanted is None else max(1, wanted - own.completed))
            if rules.window.alone and rule is not None:
                growths.append(Growth(own, rule.x, rule.fraction, f"pending:{rules.name}"))
        everyone = list(self._publications.states.values())
        deadlines = self._completions.deadlines
        return walk(batch, begin, end, self._state.cases, deadlines, goals, growths, everyone)

    # one by one

    def take_one(self, batch: Batch, row: int, partition: Partition) -> None:
        """Accept one row, with all that is counted case by case."""
        cases, exact = self._state.cases, self._completions.exact
        case, fresh = int(batch.cases[row]), bool(batch.fresh[row])
        before = not fresh and bool(cases["closed"][case])
        self._state.admit(batch, row, row + 1, self._clocks.arrival)
        partition.hwm = int(batch.offsets[row])
        closed = bool(cases["ended"][case]) or (exact and self._completions.silent(case))
        for rules, _ in self._publications:
            admitted = self._publications.count_row(rules, batch, row, partition)
            if rules.window.alone:
                self._publications.grow(rules, case, None if fresh else before, closed, int(admitted))
        if not exact:
            return
        cases["closed"][case] = closed
        if not closed and (fresh or before):
            self._completions.deadlines.opened(case, cases)
        if closed and not before:
            self._publications.completed()

    def close(self, case: int) -> None:
        """An open case completes by silence."""
        for rules, _ in self._publications:
            if rules.window.alone:
                self._publications.grow(rules, case, False, True, 0)
        self._completions.close(case)
        self._publications.completed()


def _late_row(batch: Batch, row: int, rules: PublicationRules, own: PublicationState) -> int:
    """The next row that the publication leaves out as late."""
    bound = own.late_before
    if rules.late == "next_release" or bound is None:
        return len(batch)
    late = batch.times[row:] < bound
    return row + int(np.argmax(late)) if np.any(late) else len(batch)
