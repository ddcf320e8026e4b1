"""The counters of each publication since its last cut, and what it did with every event (the columns `flag:`, `known:`
and `pending:` of its name)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stream.fold.cases import DROPPED, EXPOSED, PENDING, RETIRED
from stream.fold.clocks import Clocks
from stream.fold.intake import Batch, Partition, State
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import NEVER, PublicationState


class Publications:
    """Owns the counters (`states`, by name) and the dead letters of late events."""

    def __init__(
        self, rules: FoldRules, state: State, clocks: Clocks, restored: Iterable[PublicationState] = ()
    ) -> None:
        self.states = {one.name: one for one in restored}
        self.dead_letters: list[tuple[str, int, int, str]] = []
        """(source, partition, offset, reason) of late events for the dlq, since the caller last cleared the list."""
        self._state, self._clocks = state, clocks
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put rules into effect: publications of a known name keep what they have exposed."""
        self._rules = rules
        events, cases = self._state.events, self._state.cases
        names = [one.name for one in rules.publications]
        for name in [name for name in self.states if name not in names]:
            del self.states[name]
            events.drop_column(f"flag:{name}")
            cases.drop_column(f"known:{name}")
            cases.drop_column(f"pending:{name}")
        for name in names:
            if name not in self.states:
                self.states[name] = PublicationState(name)
                events.add_column(f"flag:{name}", "|u1")
            if f"known:{name}" not in cases:
                cases.add_column(f"known:{name}", "|b1")
                cases.add_column(f"pending:{name}", "<i4")
        for one, own in self:
            # windows from a public moment are open before the first event
            if one.start is not None:
                self.open_windows(one, own)

    def __iter__(self) -> Iterator[tuple[PublicationRules, PublicationState]]:
        """Rules and counters of each publication, by name."""
        for rules in self._rules.publications:
            yield rules, self.states[rules.name]

    def open_windows(self, rules: PublicationRules, own: PublicationState) -> None:
        """Set the end of the first window of `every`, where it can be known."""
        clock = self._clocks.read(rules.window.idle_timeout)
        own.open_windows(rules, clock, self._state.earliest, simulated=self._rules.embedded)

    # counted anew

    def recount(self) -> None:
        """Count again, case by case, what follows from the events: after a restore, a new configuration, an erasure."""
        for rules, _ in self:
            self.recount_one(rules)

    def recount_one(self, rules: PublicationRules) -> None:
        """`recount` of one publication."""
        events, cases, name = self._state.events, self._state.cases, rules.name
        flags, size, own = events[f"flag:{name}"], cases.size, self.states[name]
        waiting = np.bincount(events["case"][flags == PENDING], minlength=size)
        cases[f"known:{name}"][:] = np.bincount(events["case"][flags != DROPPED], minlength=size) > 0
        own.orphans = size - int(np.count_nonzero(cases[f"known:{name}"]))
        if rules.window.alone and rules.window.events_per_case is not None:
            closed = cases["closed"]
            cases[f"pending:{name}"][:] = waiting
            own.unfinished = int(np.count_nonzero((waiting > 0) | ~closed))
            own.ready = int(np.count_nonzero((waiting > 0) & ((waiting >= rules.window.events_per_case.x) | closed)))

    # events

    def count_rows(self, batch: Batch, begin: int, end: int) -> None:
        """Count accepted rows that fire nothing and of which none is left out as late."""
        fresh = int(np.count_nonzero(batch.fresh[begin:end]))
        for own in self.states.values():
            self._state.cases[f"known:{own.name}"][batch.cases[begin:end]] = True
            own.new_events += end - begin
            own.new_cases += fresh
            if own.late_before is not None:
                own.late_included += int(np.count_nonzero(batch.times[begin:end] < own.late_before))

    def count_row(self, rules: PublicationRules, batch: Batch, row: int, partition: Partition) -> bool:
        """Count one accepted event for one publication; False where it is left out as late."""
        own, case = self.states[rules.name], int(batch.cases[row])
        late = own.late_before is not None and bool(batch.times[row] < own.late_before)
        known = self._state.cases[f"known:{rules.name}"]
        fresh = bool(batch.fresh[row])
        if late and rules.late != "next_release":
            self._state.events[f"flag:{rules.name}"][-1] = DROPPED
            own.orphans += fresh
            if rules.late == "dlq":
                name = next(name for name, one in self._state.partitions.items() if one is partition)
                self.dead_letters.append((*name, int(batch.offsets[row]), f"late for publication {rules.name}"))
            return False
        if not known[case]:
            own.orphans -= not fresh
            own.new_cases += 1
            known[case] = True
        own.new_events += 1
        own.late_included += late
        return True

    def grow(self, rules: PublicationRules, case: int, before: bool | None, closed: bool, more: int) -> None:
        """Update the number of cases that events_per_case waits for: `case` has `more` pending events and is now
        `closed`. `before`: whether it was closed; None: it is new."""
        own, rule = self.states[rules.name], rules.window.events_per_case
        if rule is None:
            return
        pending = self._state.cases[f"pending:{rules.name}"]
        old = (False, False) if before is None else _standing(int(pending[case]), before, rule.x)
        pending[case] += more
        new = _standing(int(pending[case]), closed, rule.x)
        own.unfinished += new[0] - old[0]
        own.ready += new[1] - old[1]
        if more and own.waiting_since is None:
            own.waiting_since = self._clocks.now

    def completed(self) -> None:
        """One more case is complete."""
        for own in self.states.values():
            own.completed += 1

    # what is asked of them

    def next_deadline(self) -> int:
        """The next moment (ns) after `now` at which a tick alone could bring a cut; NEVER where there is none."""
        bounds = [NEVER]
        now = -NEVER if self._clocks.now is None else self._clocks.now
        for rules, own in self:
            bounds.extend(bound for bound in own.wall_bounds(rules) if bound > now)
            bounds.append(self._clocks.passes(own.window_bound(rules), rules.window.idle_timeout))
        return min(bounds)

    def waiting(self, name: str) -> bool:
        """Whether an event is pending."""
        return bool(np.any(self._state.events[f"flag:{name}"] == PENDING))

    def accounting(self, name: str) -> dict[str, int]:
        """Where every accepted event is: seen = exposed + pending + late. `removed_*` (erasure, retention) and
        `refused` (events of such cases), `duplicates`, `foreign` (another pseudonym key) are not among `seen`."""
        flags = self._state.events[f"flag:{name}"]
        state, own = self._state, self.states[name]
        return {
            "seen": int(np.count_nonzero(flags != RETIRED)),
            "exposed": int(np.count_nonzero(flags == EXPOSED)),
            "pending": int(np.count_nonzero(flags == PENDING)),
            "late": int(np.count_nonzero(flags == DROPPED)),
            "late_included": own.late_included,
            "cuts": own.cuts,
            "cases": state.cases.size,
            "new_cases": own.new_cases,
            "new_events": own.new_events,
            **{name: own.unreleased.get(name, 0) for name in ("non_append_insertions",)},
            "removed_cases": state.removed_cases,
            "removed_events": state.removed_events,
            "refused": state.refused,
            "duplicates": state.duplicates,
            "foreign": state.foreign,
        }


def _standing(pending: int, closed: bool, x: int) -> tuple[bool, bool]:
    """Return (whether the case is not finished, whether it is ready to grow). A complete case is ready with whatever is
    pending."""
    return pending > 0 or not closed, pending >= x or (closed and pending > 0)
