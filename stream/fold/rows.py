"""Rows into the state: in bulk where nothing can fire, by strides where completions count, else one by one."""

from __future__ import annotations

import numpy as np

from stream.fold.cases import DROPPED
from stream.fold.cutting import Cutter
from stream.fold.intake import Batch, Partition
from stream.fold.rules import PublicationRules
from stream.fold.stride import Growth, Stride, walk
from stream.fold.triggers import NEVER


class Rows(Cutter):
    """How rows move the state of a `Cutter`, and how far one may go before a cut is possible."""

    def _next_stop(self, batch: Batch, row: int, partition: Partition) -> int:
        """The first row from `row` on that could bring a cut, or must be looked at alone."""
        if self.state.earliest is None or (self._exact and not self._in_order(batch, row)):
            return row
        stop = len(batch)
        fresh = np.flatnonzero(batch.fresh[row:])
        for rules in self.rules.publications:
            own = self.publications[rules.name]
            if own.orphans or (own.window_end is None and rules.window.every is not None):
                return row
            stop = min(stop, row + own.rows_until(rules, fresh, len(batch) - row))
            stop = min(stop, self._late_row(batch, row, rules))
            bound = own.window_bound(rules)
            stop = min(stop, int(np.searchsorted(batch.running, bound)))
        if self.rules.embedded and (deadline := self.next_deadline()) is not None:
            stop = min(stop, int(np.searchsorted(batch.running, deadline)))
        return max(stop, row)

    def _in_order(self, batch: Batch, row: int) -> bool:
        """Whether a stride may be taken: one partition, time not going back, every wait for max_wait begun."""
        waits = all(
            self.publications[one.name].waiting_since is not None for one in self.rules.publications if one.window.alone
        )
        one = self.state.ordered and len(self.state.partitions) == 1 and not self.gap
        return waits and one and bool(batch.times[row] >= self.state.latest and np.all(batch.times == batch.running))

    def _walk(self, batch: Batch, begin: int, end: int) -> Stride:
        goals, growths = [], []
        for rules in self.rules.publications:
            own, rule = self.publications[rules.name], rules.window.events_per_case
            wanted = rules.window.completed_cases
            goals.append(None if wanted is None else max(1, wanted - own.completed))
            if rules.window.alone and rule is not None:
                growths.append(Growth(own, rule.x, rule.fraction, f"pending:{rules.name}"))
        everyone = list(self.publications.values())
        return walk(batch, begin, end, self.state.cases, self.inactivity, goals, growths, everyone)

    def _late_row(self, batch: Batch, row: int, rules: PublicationRules) -> int:
        """The next row that the publication leaves out as late."""
        bound = self.publications[rules.name].late_before
        if rules.late == "next_release" or bound is None:
            return len(batch)
        late = batch.times[row:] < bound
        return row + int(np.argmax(late)) if np.any(late) else len(batch)

    def _bulk(self, batch: Batch, begin: int, end: int, partition: Partition) -> None:
        """Accept rows that fire nothing."""
        self.state.admit(batch, begin, end, self._arrival)
        for rules in self.rules.publications:
            self.state.cases[f"known:{rules.name}"][batch.cases[begin:end]] = True
        time = int(batch.times[begin:end].max())
        partition.latest = time if partition.latest is None else max(partition.latest, time)
        partition.hwm = int(batch.offsets[end - 1])
        if self.rules.embedded:
            self.now = time if self.now is None else max(self.now, time)
        partition.active = self.now
        self.state.earliest = min(self.state.earliest or 0, int(batch.times[begin:end].min()))
        fresh = int(np.count_nonzero(batch.fresh[begin:end]))
        for own in self.publications.values():
            own.new_events += end - begin
            own.new_cases += fresh
            if own.late_before is not None:
                own.late_included += int(np.count_nonzero(batch.times[begin:end] < own.late_before))

    @property
    def _arrival(self) -> int | None:
        return None if self.rules.embedded else self.now

    def _accept(self, batch: Batch, row: int, partition: Partition) -> None:
        """Accept one row, with all that is counted case by case."""
        case, fresh = int(batch.cases[row]), bool(batch.fresh[row])
        before = not fresh and bool(self.state.cases["closed"][case])
        self.state.admit(batch, row, row + 1, self._arrival)
        partition.hwm = int(batch.offsets[row])
        closed = bool(self.state.cases["ended"][case]) or (self._exact and self._silent(case))
        for rules in self.rules.publications:
            admitted = self._admit(rules, batch, row, partition)
            if rules.window.alone:
                self._move(rules, case, None if fresh else before, closed, int(admitted))
        if not self._exact:
            return
        self.state.cases["closed"][case] = closed
        if not closed and (fresh or before):
            self.inactivity.opened(case, self.state.cases)
        if closed and not before:
            self._completed()

    def _silent(self, case: int) -> bool:
        """Whether the case is complete by silence in spite of the event it just got (a late one)."""
        silence, clock = self.rules.inactivity, self.clock()
        if silence is None:
            return False
        last, arrival = int(self.state.cases["last"][case]), int(self.state.cases["arrival"][case])
        by_event = clock.watermark is not None and last + silence <= clock.watermark
        return by_event or (clock.now is not None and max(last, arrival) + silence <= clock.now)

    def _admit(self, rules: PublicationRules, batch: Batch, row: int, partition: Partition) -> bool:
        """Count the accepted event for one publication, or leave it out as late."""
        own, case = self.publications[rules.name], int(batch.cases[row])
        late = own.late_before is not None and bool(batch.times[row] < own.late_before)
        known = self.state.cases[f"known:{rules.name}"]
        fresh = bool(batch.fresh[row])
        if late and rules.late != "next_release":
            self.state.events[f"flag:{rules.name}"][-1] = DROPPED
            own.orphans += fresh
            if rules.late == "dlq":
                name = next(name for name, one in self.state.partitions.items() if one is partition)
                self.dead_letters.append((*name, int(batch.offsets[row]), f"late for publication {rules.name}"))
            return False
        if not known[case]:
            own.orphans -= not fresh
            own.new_cases += 1
            known[case] = True
        own.new_events += 1
        own.late_included += late
        return True

    def _move(self, rules: PublicationRules, case: int, before: bool | None, closed: bool, more: int) -> None:
        """Keep count of the cases that events_per_case waits for. `before`: was it complete; None: it was not there."""
        own, rule = self.publications[rules.name], rules.window.events_per_case
        if rule is None:
            return
        pending = self.state.cases[f"pending:{rules.name}"]
        old = (False, False) if before is None else _standing(int(pending[case]), before, rule.x)
        pending[case] += more
        new = _standing(int(pending[case]), closed, rule.x)
        own.unfinished += new[0] - old[0]
        own.ready += new[1] - old[1]
        if more and own.waiting_since is None:
            own.waiting_since = self.now

    def _close(self, case: int) -> None:
        """An open case completes by silence."""
        for rules in self.rules.publications:
            if rules.window.alone:
                self._move(rules, case, False, True, 0)
        self.state.cases["closed"][case] = True
        self._completed()

    def _completed(self) -> None:
        for own in self.publications.values():
            own.completed += 1

    def next_deadline(self) -> int | None:
        """The next moment (ns) after `now` at which a tick alone could bring a cut or a completion; None: none."""
        bounds = [NEVER]
        now = -NEVER if self.now is None else self.now
        if self._exact and (top := self.inactivity.next_wall(self.state.cases)) is not None:
            bounds.append(top[0])
        for rules in self.rules.publications:
            own = self.publications[rules.name]
            bounds.extend(bound for bound in own.wall_bounds(rules) if bound > now)
            bounds.append(self._idle_bound(own.window_bound(rules), rules.window.idle_timeout, now))
        bound = min(bounds)
        return None if bound == NEVER else bound

    def _idle_bound(self, bound: int, idle_timeout: int | None, now: int) -> int:
        """When the watermark passes `bound` without another event."""
        if bound == NEVER:
            return NEVER
        if self.rules.embedded:
            return bound if bound > now else NEVER
        behind = [one for one in self.state.partitions.values() if one.latest is None or one.latest < bound]
        if idle_timeout is None or not behind or any(one.active is None for one in behind):
            return NEVER
        idle = max(one.active for one in behind if one.active is not None) + idle_timeout
        moment = idle if len(behind) < len(self.state.partitions) else max(idle, bound)
        return moment if moment > now else NEVER


def _standing(pending: int, closed: bool, x: int) -> tuple[bool, bool]:
    """(the case is not finished, it is ready to grow): a complete case is ready with whatever it has left."""
    return pending > 0 or not closed, pending >= x or (closed and pending > 0)
