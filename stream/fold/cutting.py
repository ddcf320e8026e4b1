"""Turn a trigger that holds into a cut: guards, exposed events, counts.

The way of one cut through `Cutter`:

1. `evaluate` asks each publication for the trigger that holds (`_due`). A guard may delay it.
2. `_take` chooses the events that the cut exposes for the first time, counts them, and names the cut.
3. `_offer` yields the cut to the caller, who must decide it (`decided`), or take its log and decide it later
   (`defer`), before the fold continues.
4. While the cut is open, `exposed` returns its log.

A later decision changes the counts since the last release (`unreleased`) and which cases wait, and the next cut is the
first to read them. So `_take` waits for it, and cuts and state do not depend on how many records were folded meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from models.errors import RefusedError
from stream.fold.completion import Completions, Retention
from stream.fold.exposure import (
    Once,
    Positions,
    Projection,
    complete_in,
    insertions,
    project,
    trace_order,
    within_quota,
)
from stream.fold.records import Cut, Outcome
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.state import BEFORE_ALL, DROPPED, EXPOSED, PENDING, RELEASED, State
from stream.fold.triggers import Clocks, Firing, Publications, PublicationState
from stream.values.paged import HEAP, ColumnPlace

ACCUMULATED = ("new_cases", "new_events", "non_append_insertions")

LOCKSTEP_SEED = 0
"""Seed of the random steps of S2 in a replay. Another seed would change the cuts of a replay that is continued."""


class LaterDecision(Protocol):
    """A decision that is being made, such as a `concurrent.futures.Future`."""

    def done(self) -> bool:
        """Return whether `result` returns at once."""

    def result(self) -> Outcome:
        """Wait until the decision is durable, and return its outcome. An error of it is raised."""


class DeferredCut(NamedTuple):
    """A cut whose log was taken, and its decision."""

    cut: Cut
    decision: LaterDecision


class Cutter:
    """Takes the cuts that are due, one after the other.

    Owns the cut whose log can still be taken (`open_cut`), the one whose decision comes later (`deferred`), the record
    and row of the next cuts (`place`), and the events that the open cut exposes for the first time.
    """

    def __init__(
        self,
        rules: FoldRules,
        state: State,
        clocks: Clocks,
        publications: Publications,
        completions: Completions,
        retention: Retention,
    ) -> None:
        self.open_cut: Cut | None = None
        self.deferred: DeferredCut | None = None
        self.place = (-1, 0)
        self._state, self._clocks, self._publications = state, clocks, publications
        self._completions, self._retention = completions, retention
        self._new: Positions = np.zeros(0, dtype=np.int64)
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put new rules into effect."""
        self._rules = rules
        self._once = Once(self._state, self._completions, self._clocks, rules.person)

    # from trigger to cut

    def evaluate(self) -> Iterator[Cut]:
        """Take all cuts that are due now, publications in order of their names."""
        for rules, counters in self._publications:
            while (cut := self._due(rules, counters)) is not None:
                yield from self._offer(cut)

    def force(self, rules: PublicationRules, trigger: str) -> Iterator[Cut]:
        """Take a cut of one publication without a trigger of its window."""
        cut = self._take(rules, self._publications.states[rules.name], Firing(trigger))
        if cut is not None:
            yield from self._offer(cut)

    def _offer(self, cut: Cut) -> Iterator[Cut]:
        self.open_cut = cut
        yield cut
        self._refuse_undecided()
        # Whether the decision has come makes no difference here: what the cut shows was taken, and no decision brings
        # a case back.
        self._retention.after_cut()

    def _refuse_undecided(self) -> None:
        if self.open_cut is not None:
            raise RefusedError(f"cut {self.open_cut.id} was left undecided: the fold cannot continue behind it")

    def defer(self, cut: Cut, decision: LaterDecision) -> None:
        """Continue behind the open cut, whose log the caller has taken; `take_decision` ends the wait.

        Parameters
        ----------
        cut
            The open cut.
        decision
            Its decision.
        """
        self._refuse_not_open(cut)
        self.open_cut, self.deferred = None, DeferredCut(cut, decision)

    def take_decision(self) -> None:
        """Wait for the decision of the deferred cut, if there is one, and record it.

        If it raises an error, the cut stays undecided, and no snapshot can be taken any more.
        """
        if self.deferred is None:
            return
        cut, decision = self.deferred
        outcome = decision.result()
        self.deferred = None
        self._follow(cut, outcome)

    def decided(self, cut: Cut, outcome: Outcome) -> None:
        """Record that the decision on the open cut is durable.

        No trigger depends on a decision, since the fold does not read the ledger: events that a withheld attempt
        exposed stay exposed, and leave with the next release.
        """
        self._refuse_not_open(cut)
        self.open_cut = None
        self._follow(cut, outcome)

    def _follow(self, cut: Cut, outcome: Outcome) -> None:
        """Begin the counts since the last release again, and note the cases that the release shows."""
        if outcome.released:
            self._publications.states[cut.publication].unreleased = {}
        if not self._rules_of(cut.publication).waits:
            return
        is_shown = np.zeros(self._state.cases.size, dtype=np.bool_)
        for name in outcome.shown:
            # `get`, since the index itself gives a code to a name that it does not have.
            code = self._state.index.get(name)
            if code is not None:
                is_shown[code] = True
        flags = self._state.events[f"flag:{cut.publication}"]
        flags[(flags == EXPOSED) & is_shown[self._state.events["case"]]] = RELEASED

    def _rules_of(self, name: str) -> PublicationRules:
        return next(rules for rules in self._rules.publications if rules.name == name)

    def _refuse_not_open(self, cut: Cut) -> None:
        if self.open_cut is None or self.open_cut.id != cut.id:
            raise ValueError(f"cut {cut.id} is not open")

    def _due(self, rules: PublicationRules, counters: PublicationState) -> Cut | None:
        """Return the next cut that is due; None if no trigger holds, or a guard delays it."""
        if rules.start is not None:
            # No event moves a window with a declared start: it opens at the first tick, also during a pause or a gap.
            # A restart opens it too (`Publications.install`), and must not find another moment.
            self._publications.open_windows(rules, counters)
        if counters.paused or self._clocks.gap:
            return None
        clock = self._clocks.read(rules.window.idle_timeout)
        while True:
            self._publications.open_windows(rules, counters)
            firing = counters.firing(rules, clock)
            if firing is None:
                return None
            if counters.held(rules, clock):
                if firing.trigger != "every":
                    return None
                counters.skip_window(rules, clock)  # the events of this window go to the next one
                continue
            cut = self._take(rules, counters, firing, guarded=True)
            if cut is not None:
                return cut

    def _take(
        self, rules: PublicationRules, counters: PublicationState, firing: Firing, *, guarded: bool = False
    ) -> Cut | None:
        """Expose the events of `firing` and name the cut; None if a guard skips it (the trigger is consumed).

        Waits for the decision on the cut before: one cut is decided at a time, in the order of the cuts.
        """
        self.take_decision()
        self._retention.before_cut(rules)
        if rules.once:
            chosen, further_counts = self._once.choose(rules, counters, firing.end)
        else:
            chosen, further_counts = self._choose(rules, counters, firing), {}
        counts = {**self._count(rules, counters, chosen), **further_counts}
        if guarded and self._is_skipped(rules, counts):
            self._consume(rules, counters, firing)
            return None

        flags = self._state.events[f"flag:{rules.name}"]
        flags[chosen] = EXPOSED
        counts["pending"] = int(np.count_nonzero(flags == PENDING))
        self._new = chosen
        cut = self._named(rules, counters, firing, counts)

        self._consume(rules, counters, firing)
        counters.late_included = 0
        counters.cuts += 1
        counters.first_done = True
        late_before = self._late_bound(rules) if firing.end is None else firing.end
        if counters.late_before is not None:  # an event that was late once stays late
            late_before = max(counters.late_before, late_before)
        counters.late_before = late_before
        return cut

    @staticmethod
    def _is_skipped(rules: PublicationRules, counts: Mapping[str, int]) -> bool:
        """Return whether a guard skips a cut with these counts."""
        window, least = rules.window, rules.window.min_new_cases
        # Of other windows this guard delays the trigger (`PublicationState.held`), before anything
        # is counted.
        if window.tumbling and least is not None and counts["new_cases"] < least:
            return True
        return window.skip_if_unchanged and counts["new_events"] == 0

    def _late_bound(self, rules: PublicationRules) -> int:
        """Return the time before which events are late after the cut: that of the latest event, or (dp) the clock."""
        if not rules.private:
            return self._state.latest
        return BEFORE_ALL if self._clocks.now is None else self._clocks.now

    def _choose(self, rules: PublicationRules, counters: PublicationState, firing: Firing) -> Positions:
        """Return the pending events that the cut exposes: of its window, and as many a case as its rule takes."""
        events = self._state.events
        pending = np.flatnonzero(events[f"flag:{rules.name}"] == PENDING)
        if firing.end is not None:
            pending = pending[events["time"][pending] < firing.end]
        rule = rules.window.events_per_case
        if rule is None or firing.trigger == "first" or not len(pending):
            return pending
        step = rule.x
        if rule.lockstep:
            if rule.mode == "up_to":
                generator = np.random.default_rng([LOCKSTEP_SEED, counters.cuts])
                step = int(generator.integers(0, rule.x + 1))
            # The whole log was read, so every case is complete.
            complete = np.ones(self._state.cases.size, dtype=np.bool_)
        else:
            clock = self._clocks.of_cases(private=rules.private)
            complete = self._completions.complete(clock)
        return within_quota(events, pending, complete, rule, step, self._state.rank)

    def _count(
        self,
        rules: PublicationRules,
        counters: PublicationState,
        chosen: Positions,
    ) -> dict[str, int]:
        """Return the counts of a cut, before its events are marked as exposed."""
        state = self._state
        events, flags = state.events, state.events[f"flag:{rules.name}"]
        is_new = state.cases_with(chosen) & ~state.cases_with(flags == EXPOSED)
        return {
            "new_cases": int(np.count_nonzero(is_new)),
            "new_events": len(chosen),
            "non_append_insertions": insertions(events, flags, chosen, state.rank),
            "late_included": counters.late_included,
            "late": int(np.count_nonzero(flags == DROPPED)) + counters.forgotten_late,
            "removed_cases": state.removed_cases,
            "removed_events": state.removed_events,
        }

    def _consume(self, rules: PublicationRules, counters: PublicationState, firing: Firing) -> None:
        """Let the publication count again, and set the end of its next window."""
        every, now = rules.window.every, self._clocks.now
        counters.reset(now)
        first = rules.window.first
        if firing.trigger == "first" and first is not None and first.until is not None:
            counters.first_done = True  # this moment passes once, even if a guard skipped the release
        if firing.trigger == "every":
            counters.skip_window(rules, self._clocks.read(rules.window.idle_timeout))
        elif firing.trigger == "first" and every is not None:
            # Windows begin after the first release: in event time behind its last event, in wall time now.
            begin = self._state.latest if firing.end is None else firing.end - 1
            if not rules.window.tumbling and now is not None:
                begin = now
            counters.window_end = rules.window_end_after(begin)
        if rules.window.only_events_per_case:
            self._publications.recount_publication(rules)
            if np.any(self._state.cases[f"pending:{rules.name}"]):
                counters.waiting_since = now

    def _named(
        self, rules: PublicationRules, counters: PublicationState, firing: Firing, counts: dict[str, int]
    ) -> Cut:
        """Return the cut at the present place with its counts.

        Several cuts of a publication at one place are numbered by `index`.
        """
        rule, now = rules.window.events_per_case, self._clocks.now
        position, row = self.place
        if self._rules.embedded:
            # A cut is named by the rank of its event, so the size of a record does not change its name.
            position, row = position + row, 0
        counters.index = counters.index + 1 if counters.last_place == (position, row) else 0
        counters.last_place = position, row
        for name in ACCUMULATED:
            counters.unreleased[name] = counters.unreleased.get(name, 0) + counts[name]
        certain = None
        if rule is not None:
            certain = firing.certain is not False and rule.mode == "exactly"
        vector = [(*name, partition.hwm) for name, partition in self._state.partitions.items()]
        return Cut(
            publication=rules.name,
            position=position,
            row=row,
            index=counters.index,
            ordinal=counters.cuts + 1,
            time_ns=now if now is not None else self._state.latest,
            trigger=firing.trigger,
            vector=tuple(sorted(vector)),
            window=(firing.start, firing.end),
            certain=certain,
            counts=counts,
            accumulated=dict(counters.unreleased),
        )

    # exposure

    def exposed(self, cut: Cut, place: ColumnPlace = HEAP) -> Projection:
        """Return the log that the open cut exposes.

        It has all events of the publication exposed so far; if each case is exposed once, those of this cut, and of
        the cases that wait.
        """
        if self.open_cut is None or self.open_cut.id != cut.id:
            raise ValueError(f"cut {cut.id} is not open: its log is gone")
        state = self._state
        events = state.events
        flags = events[f"flag:{cut.publication}"]
        rules = self._rules_of(cut.publication)
        only_new = rules.once and not rules.waits
        shown = self._new if only_new else np.flatnonzero(flags == EXPOSED)
        ordered = trace_order(events, shown, state.rank)
        del shown  # as large as the order, and not read any more
        case_attributes = {**state.case_attributes}
        if self._rules.person is not None:
            case_attributes.pop(self._rules.person, None)
        log = project(
            events,
            ordered,
            state.index.names(state.cases.size),
            state.activity_names,
            state.resource_names,
            case_attributes,
            state.event_attributes,
            place,
        )
        state.drop_pages()
        new = np.zeros(events.size, dtype=np.bool_)
        new[self._new] = True
        if rules.once:
            state.drop_pages()
            return Projection(log, np.ones(log.n_cases, dtype=np.bool_), new[ordered])
        clock = self._clocks.of_cases(private=rules.private)
        complete = complete_in(state, ordered, flags, cut.window[1], self._rules.inactivity, clock)
        state.drop_pages()
        return Projection(log, complete, new[ordered])
