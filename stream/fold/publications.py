"""The counters of each publication since its last cut, and what it did with every event.

The latter is in columns: `flag:`, `known:` and `pending:` with the name of the publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from stream.fold.cases import DROPPED, EXPOSED, PENDING, RETIRED
from stream.fold.intake import BEFORE_ALL, Batch, Partition, State
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import NEVER, Clocks, PublicationState


class Publications:
    """Owns the counters (`states`, by name) and the dead letters of late events."""

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
            if f"known:{name}" not in cases:
                cases.add_column(f"known:{name}", "|b1")
                cases.add_column(f"pending:{name}", "<i4")
        for publication, counters in self:
            # windows from a public moment are open before the first event
            if publication.start is not None:
                self.open_windows(publication, counters)

    def __iter__(self) -> Iterator[tuple[PublicationRules, PublicationState]]:
        """Rules and counters of each publication, by name."""
        for rules in self._rules.publications:
            yield rules, self.states[rules.name]

    def open_windows(self, rules: PublicationRules, counters: PublicationState) -> None:
        """Set the end of the first window of `every`, if it can be known."""
        clock = self._clocks.read(rules.window.idle_timeout)
        counters.open_windows(rules, clock, self._state.earliest, simulated=self._rules.embedded)

    # counted anew

    def recount(self) -> None:
        """Count again, case by case, what follows from the events: after a restore, a new configuration, an erasure."""
        for rules, _ in self:
            self.recount_one(rules)

    def recount_one(self, rules: PublicationRules) -> None:
        """`recount` of one publication."""
        events, cases, name = self._state.events, self._state.cases, rules.name
        flags, size, counters = events[f"flag:{name}"], cases.size, self.states[name]
        waiting = np.bincount(events["case"][flags == PENDING], minlength=size)
        cases[f"known:{name}"][:] = np.bincount(events["case"][flags != DROPPED], minlength=size) > 0
        counters.orphans = size - int(np.count_nonzero(cases[f"known:{name}"]))
        if rules.window.alone and rules.window.events_per_case is not None:
            closed = cases["closed"]
            cases[f"pending:{name}"][:] = waiting
            counters.unfinished = int(np.count_nonzero((waiting > 0) | ~closed))
            counters.ready = int(
                np.count_nonzero((waiting > 0) & ((waiting >= rules.window.events_per_case.x) | closed))
            )

    # events

    def count(self, batch: Batch, begin: int, end: int, partition: Partition) -> None:
        """Count the rows begin .. end-1, which the state has just admitted."""
        cases, times = batch.cases[begin:end], batch.times[begin:end]
        fresh = int(np.count_nonzero(batch.fresh[begin:end]))
        dead: list[tuple[int, str]] = []
        for rules, counters in self:
            counted = cases
            if counters.late_before is not None:
                late = times < counters.late_before
                if rules.late == "next_release":
                    counters.late_included += int(np.count_nonzero(late))
                elif np.any(late):
                    counted = cases[~late]
                    self._state.events[f"flag:{rules.name}"][begin - end :][late] = DROPPED
                    if rules.late == "dlq":
                        dead += [(begin + place, rules.name) for place in np.flatnonzero(late).tolist()]
            known = self._state.cases[f"known:{rules.name}"]
            unseen = counted[~known[counted]]
            if len(unseen):
                unseen = np.unique(unseen)
                known[unseen] = True
            counters.orphans += fresh - len(unseen)
            counters.new_cases += len(unseen)
            counters.new_events += len(counted)
            if rules.window.alone and counters.waiting_since is None and len(counted):
                counters.waiting_since = self._clocks.now
        if dead:
            source = next(name for name, candidate in self._state.partitions.items() if candidate is partition)
            for row, name in sorted(dead):
                self.dead_letters.append((*source, int(batch.offsets[row]), f"late for publication {name}"))

    def rows_with_unseen_case(
        self, rules: PublicationRules, counters: PublicationState, batch: Batch, begin: int
    ) -> npt.NDArray[np.int64]:
        """Return the rows, counted from `begin` on, that bring a case which the publication has not counted."""
        cases, first_time = batch.cases[begin:], counters.first_kept_time(rules)
        none_late = first_time == BEFORE_ALL or int(batch.times[begin:].min()) >= first_time
        if none_late and not counters.orphans:
            return np.flatnonzero(batch.fresh[begin:])
        # Where events were left out as late, the first event of a case is not always the one that counts.
        known = self._state.cases[f"known:{rules.name}"]
        unseen = batch.times[begin:] >= first_time
        in_state = cases < len(known)
        unseen[in_state] &= ~known[cases[in_state]]
        rows = np.flatnonzero(unseen)
        _, first = np.unique(cases[rows], return_index=True)
        return np.sort(rows[first])

    def missing_completions(self) -> int:
        """Return how many cases must complete before a trigger that counts them may hold."""
        missing = NEVER
        for rules, counters in self:
            if rules.window.completed_cases is not None:
                # A trigger that holds already, but is held back by a guard, is looked at after each completion.
                missing = min(missing, max(1, rules.window.completed_cases - counters.completed))
        return missing

    def completed(self, number: int) -> None:
        """Count cases that have completed."""
        for counters in self.states.values():
            counters.completed += number

    # what is asked of them

    def next_deadline(self) -> int:
        """Return the next moment (ns) after `now` at which a tick alone could bring a cut, or NEVER."""
        bounds = [NEVER]
        now = -NEVER if self._clocks.now is None else self._clocks.now
        for rules, counters in self:
            bounds.extend(bound for bound in counters.wall_bounds(rules) if bound > now)
            bounds.append(self._clocks.passes(counters.window_bound(rules), rules.window.idle_timeout))
        return min(bounds)

    def waiting(self, name: str) -> bool:
        """Whether an event is pending."""
        return bool(np.any(self._state.events[f"flag:{name}"] == PENDING))

    def accounting(self, name: str) -> dict[str, int]:
        """Return where every accepted event is: seen = exposed + pending + late.

        `removed_*` (erasure, retention) and `refused` (events of such cases), `duplicates` and `foreign` (another
        pseudonym key) are not among `seen`.
        """
        flags = self._state.events[f"flag:{name}"]
        state, counters = self._state, self.states[name]
        return {
            "seen": int(np.count_nonzero(flags != RETIRED)),
            "exposed": int(np.count_nonzero(flags == EXPOSED)),
            "pending": int(np.count_nonzero(flags == PENDING)),
            "late": int(np.count_nonzero(flags == DROPPED)),
            "late_included": counters.late_included,
            "cuts": counters.cuts,
            "cases": state.cases.size,
            "new_cases": counters.new_cases,
            "new_events": counters.new_events,
            **{name: counters.unreleased.get(name, 0) for name in ("non_append_insertions",)},
            "removed_cases": state.removed_cases,
            "removed_events": state.removed_events,
            "refused": state.refused,
            "duplicates": state.duplicates,
            "foreign": state.foreign,
        }
