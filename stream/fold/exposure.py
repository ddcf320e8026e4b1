"""The events that a cut exposes, as a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import MISSING, Column, EventLog
from stream.fold.completion import Completions, silent_now
from stream.fold.rules import PublicationRules
from stream.fold.state import DROPPED, EXPOSED, PENDING, RETIRED, Array, AttributeValues, ColumnTable, State
from stream.fold.triggers import Clocks, PublicationState, TriggerClock
from stream.fold.window import EventsPerCase

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Projection:
    """The log that a cut exposes.

    * `log`: every event exposed so far; case ids are pseudonyms;
    * `complete`: bool[C];
    * `new`: bool[E], events that this cut is the first to expose.
    """

    log: EventLog
    complete: Flags
    new: Flags


def trace_order(events: ColumnTable, chosen: Positions, rank: Array | None) -> Positions:
    """`chosen` (ascending) by case, then (event time, source and partition, offset).

    `rank`: place of each partition code in the order of (source, partition); None if acceptance is the order of
    time already (one partition, time never went back), so that the sort by case is enough.
    """
    return _grouped(events, chosen, rank)[1]


def _grouped(events: ColumnTable, chosen: Positions, rank: Array | None) -> tuple[Array, Positions]:
    """(case, position) of the events `chosen` in the order of `trace_order`."""
    case = events["case"][chosen]
    if rank is None:
        # one sort of (case, position) packed into an integer: several times faster than a stable argsort
        packed = case.astype(np.int64) << 32 | chosen
        packed.sort()
        return packed >> 32, packed & 0xFFFFFFFF
    order = np.lexsort((chosen, rank[events["partition"][chosen]], events["time"][chosen], case))
    return case[order], chosen[order]


def within_quota(
    events: ColumnTable, pending: Positions, complete: Flags, rule: EventsPerCase, step: int, rank: Array | None
) -> Positions:
    """Return the first `step` pending events of each case, in trace order.

    `exactly`: an open case with fewer pending events than `step` gives none, a complete one gives its remainder.
    `up_to`: each case gives what it has. `complete`: bool by case code.

    References
    ----------
    temporal-privacy-leakage-2022, scenarios S1 and S2.
    """
    if step < 1:
        return pending[:0]
    case, ordered = _grouped(events, pending, rank)
    first = np.ones(len(case), dtype=np.bool_)  # among the first `step` of its case: `step` places back is another
    first[step:] = case[step:] != case[:-step]
    chosen, case = ordered[first], case[first]
    if rule.mode == "exactly":
        full = np.bincount(case, minlength=len(complete)) >= step
        chosen = chosen[(full | complete)[case]]
    exposed = np.zeros(events.size, dtype=np.bool_)
    exposed[chosen] = True
    return np.flatnonzero(exposed)  # ascending, without a sort


def insertions(events: ColumnTable, flags: Array, chosen: Positions, rank: Array | None) -> int:
    """Count the events of `chosen` that come, in their trace, before an event that was exposed already."""
    if rank is None:
        return 0
    mixed = np.concatenate((np.flatnonzero(flags == EXPOSED), chosen))
    ordered = trace_order(events, mixed, rank)
    fresh = flags[ordered] == PENDING
    case = events["case"][ordered]
    last = np.full(int(case.max(initial=-1)) + 1, -1, dtype=np.int64)
    old = np.flatnonzero(~fresh)
    last[case[old]] = old
    return int(np.count_nonzero(np.flatnonzero(fresh) < last[case[fresh]]))


def project(
    events: ColumnTable,
    ordered: Positions,
    names: list[str],
    activities: tuple[Any, ...],
    resources: tuple[Any, ...],
    case_attributes: Mapping[str, AttributeValues],
    event_attributes: Mapping[str, AttributeValues],
) -> EventLog:
    """Build the log of the events `ordered` (already in trace order); cases in order of their first acceptance.

    A case attribute is its last non-missing value among these events.
    """
    case = events["case"][ordered]
    present = np.unique(case)
    starts = np.searchsorted(case, np.append(present, present[-1:] + 1)) if len(present) else np.zeros(1, np.int64)
    size = events.size
    return EventLog(
        case_ids=tuple(names[code] for code in present),
        starts=starts.astype(np.int64),
        activity=Column(events["activity"][ordered], activities),
        time=events["time"][ordered],
        resource=Column(events["resource"][ordered], resources),
        row=ordered.astype(np.int64, copy=False),
        case_attributes={
            name: Column(_last_value(values.dense(size)[ordered], case, present), tuple(values.values))
            for name, values in sorted(case_attributes.items())
        },
        event_attributes={
            name: Column(values.dense(size)[ordered], tuple(values.values))
            for name, values in sorted(event_attributes.items())
        },
    )


def _last_value(codes: npt.NDArray[np.int32], case: Array, present: Array) -> npt.NDArray[np.int32]:
    result = np.full(len(present), MISSING, dtype=np.int32)
    carrying = np.flatnonzero(codes != MISSING)
    # The last assignment wins, and events are in trace order.
    result[np.searchsorted(present, case[carrying])] = codes[carrying]
    return result


def complete_in(
    state: State, ordered: Positions, flags: Array, end: int | None, silence: int | None, clock: TriggerClock
) -> Flags:
    """Return which exposed cases are complete as far as the cut can see: bool[C].

    Nothing of such a case is pending (before `end`), and its last exposed event ended it or is `silence` ago (for a
    window: before its end), or it shows all of `end_all`.

    Parameters
    ----------
    ordered : int64[E]
        The exposed events, in trace order.
    flags : uint8[all events]
        State of each event in the publication (`PENDING`, `EXPOSED`, ...).
    end : int or None
        End of the window, if it is one of event time.
    silence : int or None
        The rule of inactivity, in ns.
    """
    events, cases = state.events, state.cases
    case = events["case"][ordered]
    final = np.flatnonzero(np.diff(case, append=-1))
    present, last = case[final], events["time"][ordered[final]]
    complete = events["end"][ordered[final]] | _had_all(state, ordered, final)
    if end is None:
        complete |= silent_now(cases, silence, clock)[present]
    elif silence is not None:
        complete |= last <= end - silence
    waiting = np.flatnonzero(flags == PENDING)
    if end is not None:
        waiting = waiting[events["time"][waiting] < end]
    more = np.zeros(cases.size, dtype=np.bool_)
    more[events["case"][waiting]] = True
    return complete & ~more[present]


def _had_all(state: State, ordered: Positions, final: Positions) -> Flags:
    """Return whether the exposed events of each case hold all activities of `end_all`."""
    rule = state.end_all
    if not rule.activities or not len(ordered):
        return np.zeros(len(final), dtype=np.bool_)
    bits = rule.bits(state.activities, state.events["activity"][ordered])
    first = np.concatenate(([0], final[:-1] + 1))
    complete: Flags = np.bitwise_or.reduceat(bits, first) == rule.all
    return complete


# Each case once (`cases = "completed"`): a cut exposes the cases that completed since the one before, and no other.
#
# Which cut a case falls into depends on its own events and on the clock of ticks alone, so two logs that differ by the
# cases of one person differ in the cuts of these cases and nowhere else. Events of a case after its cut are lost.
#
# If the person of a case is known, at most `most_cases` cases of one person are exposed over all cuts, in the order in
# which they began: that order depends on the person alone. The number is kept by pseudonym as long as the publication
# exists, since retention and erasure remove cases, and a person whose cases were forgotten could begin anew. Complete
# cases without a person are dropped: they could exceed that person's cap.


@dataclass(frozen=True, slots=True)
class Once:
    """Chooses the events of a cut if each case is exposed once. `person`: attribute that names the person of a case."""

    state: State
    completions: Completions
    clocks: Clocks
    person: str | None = None

    def choose(
        self, rules: PublicationRules, counters: PublicationState, end: int | None
    ) -> tuple[Positions, Mapping[str, int]]:
        """Return the events to expose, ascending, and the counts of what was left out.

        `end`: end of the window, if it is one of event time.
        """
        events = self.state.events
        flags, case = events[f"flag:{rules.name}"], events["case"]
        lost = self._lose(flags, case)
        pending = np.flatnonzero(flags == PENDING)
        complete = self.completions.complete(self.clocks.of_cases(private=True))
        if end is not None:  # complete by what lies before the end: a case that goes on is one of a later window
            complete[case[pending[events["time"][pending] >= end]]] = False
        chosen = pending[complete[case[pending]]]
        capped = 0
        if rules.most_cases is not None:
            chosen, capped = self._within_cap(counters, flags, chosen, rules.most_cases)
        return chosen, {"late_lost": lost, "capped_cases": capped}

    def _lose(self, flags: Array, case: Array) -> int:
        """Drop the events that came to cases after their cut, and return how many."""
        gone = np.zeros(self.state.cases.size, dtype=np.bool_)
        gone[case[(flags == EXPOSED) | (flags == RETIRED)]] = True
        late = (flags == PENDING) & gone[case]
        flags[late] = DROPPED
        return int(np.count_nonzero(late))

    def _within_cap(
        self, counters: PublicationState, flags: Array, chosen: Positions, most: int
    ) -> tuple[Positions, int]:
        """Return the chosen events without those of cases beyond `most` of one person.

        The second value tells how many cases were left out.
        """
        events = self.state.events
        ordered = trace_order(events, chosen, self.state.rank)
        case = events["case"][ordered]
        begins = np.flatnonzero(np.diff(case, prepend=-1))
        whose = self._persons(ordered, case)
        names = self.state.index.names(self.state.cases.size)
        cases = sorted(
            (int(events["time"][ordered[begin]]), names[code], code)
            for begin, code in zip(begins.tolist(), case[begins].tolist(), strict=True)
        )
        out = []
        for _, _, code in cases:
            person = whose.get(code)
            if person is None or counters.taken.get(person, 0) >= most:
                out.append(code)
            else:
                counters.taken[person] = counters.taken.get(person, 0) + 1
        left = np.zeros(self.state.cases.size, dtype=np.bool_)
        left[out] = True
        away = left[events["case"][chosen]]
        flags[chosen[away]] = RETIRED  # let go: what comes to such a case later is lost too
        return chosen[~away], len(out)

    def _persons(self, ordered: Positions, case: Array) -> dict[int, str]:
        """Return the pseudonym of the person by case: the last one that its events name."""
        column = self.state.case_attributes.get(self.person or "")
        if column is None:
            return {}
        codes = column.dense(self.state.events.size)[ordered]
        named = np.flatnonzero(codes >= 0)
        values = list(column.values)
        return {int(case[place]): str(values[codes[place]]) for place in named.tolist()}
