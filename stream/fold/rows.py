"""Rows into the state: one loop over columns, which ends where a trigger can fire.

The fold asks for the next row that could bring a cut (`next_stop`), accepts all rows before it at once (`take`), and
accepts that row alone, after it has moved the clocks to it. Counts are taken over columns. Only where a trigger counts
completions does `take` go through its rows one after the other, because each may complete its case or reopen it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stream.fold.cases import ColumnTable
from stream.fold.completion import Completions
from stream.fold.intake import Batch, Partition, State
from stream.fold.publications import Publications
from stream.fold.rules import FoldRules
from stream.fold.triggers import NEVER, Clocks, PublicationState


@dataclass(slots=True)
class PendingGrowth:
    """The pending events of one publication that events_per_case fires alone.

    `count` keeps changed numbers in a dictionary, which is several times faster than to write single values into a
    column; `flush` writes them. `counted`: pending events by case before that. Events before `first_time` are left out
    as late.
    """

    counters: PublicationState
    x: int
    fraction: float
    counted: npt.NDArray[np.int32]
    first_time: int
    changed: dict[int, int] = field(default_factory=dict)

    def count(self, case: int, more: int, *, before: bool | None, closed: bool) -> None:
        """Count `more` pending events of a case that is `closed` now; `before`: was it? (None: it is new)."""
        counters = self.counters
        pending = self.changed.get(case)
        if before is None:
            pending = 0
        else:
            if pending is None:
                pending = int(self.counted[case])
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
        """Return the first row from `row` on that could bring a cut, or that must be accepted alone."""
        exact = self._completions.exact
        if self._state.earliest is None or (exact and not self._in_order(batch, row)):
            return row
        stop = len(batch)
        for rules, counters in self._publications:
            if counters.window_end is None and rules.window.every is not None:
                return row
            unseen = self._publications.rows_with_unseen_case(rules, counters, batch, row)
            stop = min(stop, row + counters.rows_until(rules, unseen, len(batch) - row))
            stop = min(stop, _first_at(batch, counters.window_bound(rules)))
        if exact:
            stop = min(stop, _first_at(batch, self._completions.next_silence()))
        if self._embedded and (deadline := self.next_deadline()) is not None:
            stop = min(stop, _first_at(batch, deadline))
        return max(stop, row)

    def next_deadline(self) -> int | None:
        """Return the next moment (ns) after `now` at which a tick alone could bring a cut or a completion, if any."""
        bound = min(self._completions.next_deadline(), self._publications.next_deadline())
        return None if bound == NEVER else bound

    def _in_order(self, batch: Batch, row: int) -> bool:
        """Whether each row from here on is the last event of its case, and its time alone moves the watermark.

        This holds where one partition speaks and time does not go back. Then no case of these rows can be silent, and
        the flag on a row tells whether its case is complete. `max_wait` counts from a row that is accepted alone.
        """
        waits = all(counters.waiting_since is not None for rules, counters in self._publications if rules.window.alone)
        one_partition = self._state.ordered and len(self._state.partitions) == 1 and not self._clocks.gap
        if not waits or not one_partition:
            return False
        return batch.ordered and bool(batch.times[row] >= self._state.latest)

    # take

    def take(self, batch: Batch, begin: int, end: int, partition: Partition) -> int:
        """Accept rows from `begin` on, up to `end` at most.

        Returns
        -------
        int
            The row before which it stopped: `end`, or the one after a row at which a trigger that counts completions
            may hold, or one at whose time a case falls silent.
        """
        cases, closed = self._state.cases, dict[int, bool]()
        growths = self._growths()
        if self._completions.exact:
            end = self._complete(batch, begin, end, growths, closed)
        self._state.admit(batch, begin, end, self._clocks.arrival)
        time = int(batch.running[end - 1])
        partition.reach_time(time)
        partition.hwm = int(batch.offsets[end - 1])
        if self._embedded:
            self._clocks.tick(time)
        partition.active = self._clocks.now
        self._publications.count(batch, begin, end, partition)
        if closed:
            cases["closed"][list(closed)] = list(closed.values())
        for growth in growths:
            growth.flush(cases)
        return end

    def _growths(self) -> list[PendingGrowth]:
        growths, cases = [], self._state.cases
        for rules, counters in self._publications:
            rule = rules.window.events_per_case
            if rule is not None and rules.window.alone:
                counted = cases[f"pending:{rules.name}"]
                growths.append(PendingGrowth(counters, rule.x, rule.fraction, counted, counters.first_kept_time(rules)))
        return growths

    def _complete(
        self, batch: Batch, begin: int, end: int, growths: list[PendingGrowth], closed: dict[int, bool]
    ) -> int:
        """Count completions and pending events, row by row; `closed` takes whether each case is complete at the end."""
        was_closed, deadlines = self._state.cases["closed"], self._completions.deadlines
        silence = deadlines.inactivity
        closes = batch.ends[begin:end].tolist()
        if end == begin + 1:  # any row: its case may have later events, or be silent in spite of it
            closes = [self._completions.after_row(batch, begin)]
        goal = self._publications.missing_completions()
        limit, completed, row = NEVER, 0, begin
        rows = slice(begin, end)
        for case, time, closing, fresh in zip(
            batch.cases[rows].tolist(), batch.times[rows].tolist(), closes, batch.fresh[rows].tolist(), strict=True
        ):
            if time >= limit:
                break
            before = closed.get(case)
            if before is None and not fresh:
                before = bool(was_closed[case])
            fires = False
            for growth in growths:
                growth.count(case, time >= growth.first_time, before=before, closed=closing)
                fires = fires or growth.fires
            closed[case] = closing
            row += 1
            # A case that is open now, and was not: only these are missing among the deadlines.
            if not closing and before is not False and silence is not None:
                deadlines.push(case, time + silence)
                limit = min(limit, time + silence)
            if closing and not before:
                completed += 1
            if fires or completed >= goal:
                break
        self._publications.completed(completed)
        return row

    def close(self, case: int) -> None:
        """Complete an open case that has become silent."""
        for growth in self._growths():
            growth.count(case, 0, before=False, closed=True)
            growth.flush(self._state.cases)
        self._completions.close(case)
        self._publications.completed(1)


def _first_at(batch: Batch, time: int) -> int:
    """Return the first row of a batch by which this time is reached."""
    return int(np.searchsorted(batch.running, time))
