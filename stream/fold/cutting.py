"""From a trigger that holds to a cut: guards, what it exposes, what it counts, which cases leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from models.errors import RefusedError
from stream.fold.cases import DROPPED, EXPOSED, PENDING, RETIRED, Array, digest
from stream.fold.completion import Inactivity, complete_now, silent_now
from stream.fold.cut import Cut
from stream.fold.exposure import Positions, Projection, insertions, project, trace_order, within_quota
from stream.fold.intake import BEFORE_ALL, Partition, State
from stream.fold.records import without_cases
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import Clock, Firing, PublicationState

ACCUMULATED = ("new_cases", "new_events", "non_append_insertions")


class Cutter:
    """The publications of a process over its state. `Fold` adds how records move it."""

    def __init__(self, rules: FoldRules) -> None:
        self.rules = rules
        self.state = State()
        self.publications: dict[str, PublicationState] = {}
        self.now: int | None = None
        self.position = -1
        self.key = rules.key
        self.open_cut: Cut | None = None
        self.dead_letters: list[tuple[str, int, int, str]] = []
        """(source, partition, offset, reason) of late events for the dlq, since the caller last cleared the list."""
        self.inactivity = Inactivity(rules.inactivity)
        self._place = (-1, 0)
        self._restage = False
        self._exact = False
        self._new: Positions = np.zeros(0, dtype=np.int64)
        self._end: int | None = None
        self.install(rules)

    # configuration

    def install(self, rules: FoldRules) -> None:
        """Put rules into effect: publications of a known name keep what they have exposed."""
        self.rules = rules
        self.state.end_by(rules.end_activities, rules.end_all)
        for source in rules.sources:
            self.state.partition(source)
        names = [one.name for one in rules.publications]
        for name in [name for name in self.publications if name not in names]:
            del self.publications[name]
            self.state.events.drop_column(f"flag:{name}")
            self.state.cases.drop_column(f"known:{name}")
            self.state.cases.drop_column(f"pending:{name}")
        for name in names:
            if name not in self.publications:
                self.publications[name] = PublicationState(name)
                self.state.events.add_column(f"flag:{name}", "|u1")
            if f"known:{name}" not in self.state.cases:
                self.state.cases.add_column(f"known:{name}", "|b1")
                self.state.cases.add_column(f"pending:{name}", "<i4")
        for one in rules.publications:
            # windows from a public moment are open before the first event
            if one.start is not None:
                self._open_windows(one)
        was_exact, self._exact = self._exact, rules.exact
        if not was_exact:
            self.state.cases["closed"][:] = complete_now(self.state.cases, rules.inactivity, self.clock()) & rules.exact
        self.recount()

    def _open_windows(self, rules: PublicationRules) -> None:
        clock, own = self.clock(rules.window.idle_timeout), self.publications[rules.name]
        own.open_windows(rules, clock, self.state.earliest, simulated=self.rules.embedded)

    def recount(self) -> None:
        """Derive what is counted case by case from the events: after a restore, a new configuration, an erasure."""
        self.inactivity = Inactivity(self.rules.inactivity)
        if self._exact:
            self.inactivity.rebuild(self.state.cases)
        for rules in self.rules.publications:
            self._recount(rules)

    def _recount(self, rules: PublicationRules) -> None:
        events, cases, name = self.state.events, self.state.cases, rules.name
        flags, size = events[f"flag:{name}"], cases.size
        waiting = np.bincount(events["case"][flags == PENDING], minlength=size)
        cases[f"known:{name}"][:] = np.bincount(events["case"][flags != DROPPED], minlength=size) > 0
        self.publications[name].orphans = size - int(np.count_nonzero(cases[f"known:{name}"]))
        if rules.window.alone and rules.window.events_per_case is not None:
            closed, own = cases["closed"], self.publications[name]
            cases[f"pending:{name}"][:] = waiting
            own.unfinished = int(np.count_nonzero((waiting > 0) | ~closed))
            own.ready = int(np.count_nonzero((waiting > 0) & ((waiting >= rules.window.events_per_case.x) | closed)))

    # clocks

    @property
    def gap(self) -> bool:
        """Whether a partition misses offsets: nothing is released until `gap rewind|accept`."""
        return any(partition.gap for partition in self.state.partitions.values())

    def clock(self, idle_timeout: int | None = None) -> Clock:
        """`now`, and the least watermark over partitions that are not idle (all idle: the clock itself)."""
        if self.rules.embedded:
            return Clock(self.now, self.now)
        awake, latest = [], []
        for partition in self.state.partitions.values():
            if not self._idle(partition, idle_timeout):
                awake.append(partition.latest)
            if partition.latest is not None:
                latest.append(partition.latest)
        if awake:
            known = [one for one in awake if one is not None]
            return Clock(self.now, min(known) if len(known) == len(awake) else None)
        return Clock(self.now, max([*latest, self.now]) if self.now is not None and latest else None)

    def _idle(self, partition: Partition, idle_timeout: int | None) -> bool:
        """Silent for `idle_timeout`; without one, only a partition that reported and never had an event."""
        if partition.active is None or self.now is None:
            return False
        if idle_timeout is None:
            return partition.latest is None
        return self.now - partition.active >= idle_timeout

    # from trigger to cut

    def evaluate(self) -> Iterator[Cut]:
        """All cuts that are due at this point, publications by name."""
        for rules in self.rules.publications:
            while (cut := self._due(rules)) is not None:
                yield from self._offer(cut)

    def _offer(self, cut: Cut) -> Iterator[Cut]:
        self.open_cut = cut
        yield cut
        if self.open_cut is not None:
            raise RefusedError(f"cut {cut.id} was left undecided: the fold does not go past it")

    def _due(self, rules: PublicationRules) -> Cut | None:
        own = self.publications[rules.name]
        if own.paused or self.gap:
            return None
        clock = self.clock(rules.window.idle_timeout)
        while True:
            self._open_windows(rules)
            firing = own.firing(rules, clock)
            if firing is None:
                return None
            if own.held(rules, clock):
                if firing.trigger != "every":
                    return None
                own.skip_window(rules, clock)
                continue
            cut = self.take(rules, firing, guarded=True)
            if cut is not None:
                return cut

    def take(self, rules: PublicationRules, firing: Firing, *, guarded: bool = False) -> Cut | None:
        """Expose what `firing` exposes and name the cut; None where a guard skips it (the trigger is consumed)."""
        own, window = self.publications[rules.name], rules.window
        if self.rules.retention is not None:
            if rules.private:
                self._retire_for(rules)
            self.retire()
        chosen = self._choose(rules, firing)
        counts = self._count(rules, chosen)
        few = window.tumbling and window.min_new_cases is not None and counts["new_cases"] < window.min_new_cases
        if guarded and (few or (window.skip_if_unchanged and not len(chosen))):
            self._consume(rules, firing)
            return None
        self.state.events[f"flag:{rules.name}"][chosen] = EXPOSED
        counts["pending"] = int(np.count_nonzero(self.state.events[f"flag:{rules.name}"] == PENDING))
        self._new, self._end = chosen, firing.end
        cut = self._named(rules, firing, counts)
        self._consume(rules, firing)
        own.late_included = 0
        own.cuts += 1
        own.first_done = True
        bound = self._late_bound(rules) if firing.end is None else firing.end
        own.late_before = bound if own.late_before is None else max(own.late_before, bound)
        return cut

    def _late_bound(self, rules: PublicationRules) -> int:
        """What lies before it came after this cut: the latest event, of whomever; for dp releases the clock."""
        if not rules.private:
            return self.state.latest
        return BEFORE_ALL if self.now is None else self.now

    def _choose(self, rules: PublicationRules, firing: Firing) -> Positions:
        own, events = self.publications[rules.name], self.state.events
        pending = np.flatnonzero(events[f"flag:{rules.name}"] == PENDING)
        if firing.end is not None:
            pending = pending[events["time"][pending] < firing.end]
        rule = rules.window.events_per_case
        if rule is None or firing.trigger == "first" or not len(pending):
            return pending
        if rule.lockstep:
            # the whole log is here: every case stops where the log does
            step = rule.x
            if rule.mode == "up_to":
                step = int(np.random.default_rng([rule.seed, own.cuts]).integers(0, rule.x + 1))
            complete = np.ones(self.state.cases.size, dtype=np.bool_)
        else:
            step, complete = rule.x, self.complete(rules)
        return within_quota(events, pending, complete, rule, step, self.state.rank)

    def complete(self, rules: PublicationRules) -> npt.NDArray[np.bool_]:
        """bool by case code: complete as of now."""
        return complete_now(self.state.cases, self.rules.inactivity, self._clock_of(rules))

    def _clock_of(self, rules: PublicationRules) -> Clock:
        """The clock by which a case falls silent: for dp releases ticks alone, which nobody's events move."""
        return Clock(self.now, None) if rules.private else self.clock()

    def _count(self, rules: PublicationRules, chosen: Positions) -> dict[str, int]:
        events, own = self.state.events, self.publications[rules.name]
        flags = events[f"flag:{rules.name}"]
        shown = np.zeros(self.state.cases.size, dtype=np.bool_)
        shown[events["case"][flags == EXPOSED]] = True
        fresh = np.zeros(self.state.cases.size, dtype=np.bool_)
        fresh[events["case"][chosen]] = True
        return {
            "new_cases": int(np.count_nonzero(fresh & ~shown)),
            "new_events": len(chosen),
            "non_append_insertions": insertions(events, flags, chosen, self.state.rank),
            "late_included": own.late_included,
            "late": int(np.count_nonzero(flags == DROPPED)),
            "removed_cases": self.state.removed_cases,
            "removed_events": self.state.removed_events,
        }

    def _consume(self, rules: PublicationRules, firing: Firing) -> None:
        own, every = self.publications[rules.name], rules.window.every
        own.reset(self.now)
        if firing.trigger == "every":
            own.skip_window(rules, self.clock(rules.window.idle_timeout))
        elif firing.trigger == "first" and every is not None:
            last = firing.end - 1 if firing.end is not None else self.state.latest
            begin = last if rules.window.tumbling or self.now is None else self.now
            own.window_end = rules.window_end_after(begin)
        if rules.window.alone:
            self._recount(rules)
            if np.any(self.state.cases[f"pending:{rules.name}"]):
                own.waiting_since = self.now

    def _named(self, rules: PublicationRules, firing: Firing, counts: dict[str, int]) -> Cut:
        own, rule = self.publications[rules.name], rules.window.events_per_case
        own.index = own.index + 1 if own.last_place == self._place else 0
        own.last_place = self._place
        for name in ACCUMULATED:
            own.unreleased[name] = own.unreleased.get(name, 0) + counts[name]
        certain = None if rule is None else firing.certain is not False and rule.mode == "exactly"
        return Cut(
            publication=rules.name,
            position=self._place[0],
            row=self._place[1],
            index=own.index,
            ordinal=own.cuts + 1,
            time_ns=self.now if self.now is not None else self.state.latest,
            trigger=firing.trigger,
            vector=tuple(sorted((*name, one.hwm) for name, one in self.state.partitions.items())),
            window=(firing.start, firing.end),
            certain=certain,
            counts=counts,
            accumulated=dict(own.unreleased),
        )

    def decided(self, cut: Cut, released: bool) -> None:
        """The publication's decision on the open cut is durable. Cuts and exposure never depend on it (the fold does
        not read the ledger): what a withheld attempt exposed stays exposed, and leaves with the next release."""
        if self.open_cut is None or self.open_cut.id != cut.id:
            raise ValueError(f"cut {cut.id} is not open")
        self.open_cut = None
        if released:
            self.publications[cut.publication].unreleased = {}

    # what a cut shows

    def exposed(self, cut: Cut) -> Projection:
        """The log that the open cut exposes: all events of the publication exposed so far."""
        if self.open_cut is None or self.open_cut.id != cut.id:
            raise ValueError(f"cut {cut.id} is not open: its log is gone")
        state = self.state
        events = state.events
        flags = events[f"flag:{cut.publication}"]
        ordered = trace_order(events, np.flatnonzero(flags == EXPOSED), state.rank)
        log = project(
            events,
            ordered,
            state.index.names(state.cases.size),
            state.activity_names,
            state.resource_names,
            state.case_attributes,
            state.event_attributes,
        )
        new = np.zeros(events.size, dtype=np.bool_)
        new[self._new] = True
        rules = next(one for one in self.rules.publications if one.name == cut.publication)
        complete = self._complete_in(ordered, flags, cut.window[1], self._clock_of(rules))
        return Projection(log, complete, new[ordered])

    def _complete_in(self, ordered: Positions, flags: Array, end: int | None, clock: Clock) -> npt.NDArray[np.bool_]:
        """Complete as far as the cut can see: nothing of the case is pending (before `end`), and its last exposed
        event ended it or lies `inactivity` back (for a window, back from its end), or it shows all of `end_all`."""
        events, cases = self.state.events, self.state.cases
        case = events["case"][ordered]
        final = np.flatnonzero(np.diff(case, append=-1))
        present, last = case[final], events["time"][ordered[final]]
        complete = events["end"][ordered[final]] | self._had_all(ordered, case, final)
        if end is None:
            complete |= silent_now(cases, self.rules.inactivity, clock)[present]
        elif self.rules.inactivity is not None:
            complete |= last <= end - self.rules.inactivity
        waiting = np.flatnonzero(flags == PENDING)
        if end is not None:
            waiting = waiting[events["time"][waiting] < end]
        more = np.zeros(cases.size, dtype=np.bool_)
        more[events["case"][waiting]] = True
        return complete & ~more[present]

    def _had_all(self, ordered: Positions, case: Array, final: Positions) -> npt.NDArray[np.bool_]:
        """By exposed case: whether its exposed events hold all activities of `end_all`."""
        rule = self.state.end_all
        if not rule.activities or not len(ordered):
            return np.zeros(len(final), dtype=np.bool_)
        bits = rule.bits(self.state.activities, self.state.events["activity"][ordered])
        first = np.concatenate(([0], final[:-1] + 1))
        complete: npt.NDArray[np.bool_] = np.bitwise_or.reduceat(bits, first) == rule.all
        return complete

    def accounting(self, publication: str) -> dict[str, int]:
        """Where every accepted event is: seen = exposed + pending + late. `removed_*` (erasure, retention) and
        `refused` (events of such cases), `duplicates`, `foreign` (another pseudonym key) are not among `seen`."""
        flags = self.state.events[f"flag:{publication}"]
        state, own = self.state, self.publications[publication]
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

    # cases that leave

    def erase(self, cases: list[str]) -> int:
        """Remove cases by pseudonym, for good: their events are refused from now on. Returns how many were known."""
        state = self.state
        known = [state.index[case] for case in cases if dict.__contains__(state.index, case)]
        keep = np.ones(state.cases.size, dtype=np.bool_)
        keep[known] = False
        self._remove(keep)
        for partition in state.partitions.values():
            partition.held = [(position, without_cases(record, cases)) for position, record in partition.held]
        state.index.gone.update(digest(case) for case in cases)
        return len(known)

    def _retire_for(self, rules: PublicationRules) -> None:
        """Close the cases whose retention is over for one publication with a dp promise, at its cut.

        Asked of each case's own last event, its arrival and the clock, never of a watermark: one person's event would
        take others out of the release. What comes to such a case later is closed with it, whether or not the state
        still holds the rest.
        """
        state, retention = self.state, self.rules.retention
        flags, case = state.events[f"flag:{rules.name}"], state.events["case"]
        over = np.zeros(state.cases.size, dtype=np.bool_)
        over[case[flags == RETIRED]] = True
        if self.now is not None and retention is not None:
            since = np.maximum(state.cases["last"], state.cases["arrival"])
            leave = complete_now(state.cases, self.rules.inactivity, Clock(self.now, None))
            leave &= since <= self.now - retention
            leave[case[flags == PENDING]] = False
            over |= leave
        flags[over[case]] = RETIRED

    def retire(self) -> None:
        """Complete cases with nothing pending leave `retention` after their last event; a late event of theirs would
        make a new case out of a rest, so it is refused. Publications with a dp promise have let them go before."""
        state, retention = self.state, self.rules.retention
        if retention is None:
            return
        leave = np.ones(state.cases.size, dtype=np.bool_)
        if not all(rules.private for rules in self.rules.publications):
            watermark = self.clock().watermark
            if watermark is None:
                return
            leave &= complete_now(state.cases, self.rules.inactivity, self.clock())
            leave &= state.cases["last"] <= watermark - retention
        for rules in self.rules.publications:
            flags = state.events[f"flag:{rules.name}"]
            leave[state.events["case"][(flags != RETIRED) if rules.private else (flags == PENDING)]] = False
        if np.any(leave):
            self._remove(~leave)
            self._restage = True

    def _remove(self, keep: npt.NDArray[np.bool_]) -> None:
        if np.all(keep):
            return
        self.state.remove(keep)
        self.recount()
