"""The events that a cut exposes, as a log.

Parts of the file: the order of events in a trace (`trace_order`); which pending events a cut takes
(`within_quota`, or `Once` if each case is exposed once); the log of the exposed events (`project`), and
which of its cases are complete (`complete_in`).

Events are rows of the table of the state. An array of `Positions` names some of them by their row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import MISSING, Column, EventLog, Flags
from stream.fold.completion import Completions, silent_now
from stream.fold.rules import PublicationRules
from stream.fold.state import (
    DROPPED,
    EXPOSED,
    PENDING,
    RETIRED,
    Array,
    AttributeValues,
    ColumnTable,
    State,
    is_exposed,
)
from stream.fold.triggers import Clocks, PublicationState, TriggerClock
from stream.fold.window import EventsPerCase
from stream.values.paged import HEAP, ColumnPlace

Positions = npt.NDArray[np.int64]

POSITION = 0xFFFFFFFF
"""Bits of a position where it is packed with its case."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The log that a cut exposes.

    Attributes
    ----------
    log
        Every event exposed so far; case ids are pseudonyms.
    complete
        bool[C], whether each case is complete.
    new
        bool[E], the events that this cut exposes for the first time.
    """

    log: EventLog
    complete: Flags
    new: Flags


def trace_order(events: ColumnTable, chosen: Positions, rank: Array | None) -> Positions:
    """Return the events `chosen` (ascending) in the order of case, event time, source and partition, and offset.

    `rank`: place of each partition code in the order of (source, partition); None if acceptance is the order of
    time already (one partition, time never went back). Then a sort by case is enough.
    """
    if rank is None:
        ordered = _by_case(events, chosen)
        ordered &= POSITION  # in place: each array of this length is a tenth of the state
        return ordered
    return _grouped(events, chosen, rank)[1]


def _grouped(events: ColumnTable, chosen: Positions, rank: Array | None) -> tuple[Array, Positions]:
    """Return case and position of the events `chosen`, in the order of `trace_order`."""
    if rank is None:
        packed = _by_case(events, chosen)
        return packed >> 32, packed & POSITION
    case = events["case"][chosen]
    order = np.lexsort((chosen, rank[events["partition"][chosen]], events["time"][chosen], case))
    return case[order], chosen[order]


def _by_case(events: ColumnTable, chosen: Positions) -> Positions:
    """Return (case, position) of the events `chosen`, each packed into one integer, in order.

    This is several times faster than a stable argsort.
    """
    packed: Positions = events["case"][chosen].astype(np.int64)
    packed <<= 32
    packed |= chosen
    packed.sort()
    return packed


def within_quota(
    events: ColumnTable,
    pending: Positions,
    complete: Flags,
    rule: EventsPerCase,
    step: int,
    rank: Array | None,
) -> Positions:
    """Return the first `step` pending events of each case, in trace order.

    In mode `exactly` an open case with fewer pending events than `step` gives none, and a complete one gives the rest.
    In mode `up_to` each case gives all that it has, up to `step`.

    Parameters
    ----------
    events
        Table of the events (`stream.fold.state.EVENT_COLUMNS`).
    pending
        int64[P], the pending events, ascending.
    complete
        bool by case code.
    rule, step
        The trigger, and the number of events of this step.
    rank
        See `trace_order`.

    Returns
    -------
    Positions
        int64, the chosen events, ascending.

    References
    ----------
    temporal-privacy-leakage-2022, scenarios S1 and S2.
    """
    if step < 1:
        return pending[:0]
    case, ordered = _grouped(events, pending, rank)
    # An event is among the first `step` of its case if the event `step` places before it is of another case.
    is_first = np.ones(len(case), dtype=np.bool_)
    is_first[step:] = case[step:] != case[:-step]
    chosen, case = ordered[is_first], case[is_first]
    if rule.mode == "exactly":
        full = np.bincount(case, minlength=len(complete)) >= step
        chosen = chosen[(full | complete)[case]]
    exposed = np.zeros(events.size, dtype=np.bool_)
    exposed[chosen] = True
    return np.flatnonzero(exposed)  # ascending, without a sort


def insertions(events: ColumnTable, flags: Array, chosen: Positions, rank: Array | None) -> int:
    """Count the events of `chosen` that come, in their trace, before an event that was exposed already.

    Parameters
    ----------
    events, flags
        Columns of the events, and their flags.
    chosen
        The events that the cut exposes.
    rank
        Place of each partition; see `trace_order`.
    """
    if rank is None:
        return 0
    # All events of interest in the order of their traces; a place is an index into this order.
    exposed_and_chosen = np.concatenate((np.flatnonzero(flags == EXPOSED), chosen))
    ordered = trace_order(events, exposed_and_chosen, rank)
    is_new = flags[ordered] == PENDING
    case = events["case"][ordered]
    exposed_places = np.flatnonzero(~is_new)
    last_exposed_place = np.full(int(case.max(initial=-1)) + 1, -1, dtype=np.int64)
    last_exposed_place[case[exposed_places]] = exposed_places  # the last assignment of a case wins
    is_before_exposed = np.flatnonzero(is_new) < last_exposed_place[case[is_new]]
    return int(np.count_nonzero(is_before_exposed))


def project(
    events: ColumnTable,
    ordered: Positions,
    names: list[str],
    activities: tuple[Any, ...],
    resources: tuple[Any, ...],
    case_attributes: Mapping[str, AttributeValues],
    event_attributes: Mapping[str, AttributeValues],
    place: ColumnPlace = HEAP,
) -> EventLog:
    """Build the log of some events, with cases in order of their first acceptance.

    Parameters
    ----------
    events
        Table of the events (`stream.fold.state.EVENT_COLUMNS`).
    ordered
        int64[E], the chosen events in trace order.
    names, activities, resources
        Pseudonyms of cases, activities and resources by code.
    case_attributes, event_attributes
        Values by attribute. A case attribute is its last value among these events.
    place
        Where the columns of events stay. Each is put there before the next one is made.
    """
    case = events["case"][ordered]
    first_place = _first_places(case)
    present = case[first_place]  # ascending: the order of traces begins with the case
    starts = np.append(first_place, len(case))

    columns_of_cases: dict[str, Column] = {}
    for name, values in sorted(case_attributes.items()):
        codes = values.dense(events.size)[ordered]
        columns_of_cases[name] = Column(_last_value(codes, case, present), tuple(values.values))
    columns_of_events: dict[str, Column] = {}
    for name, values in sorted(event_attributes.items()):
        codes = values.dense(events.size)[ordered]
        columns_of_events[name] = Column(place.keep(codes), tuple(values.values))
    return EventLog(
        case_ids=tuple(names[code] for code in present),
        starts=starts.astype(np.int64),
        activity=Column(place.keep(events["activity"][ordered]), activities),
        time=place.keep(events["time"][ordered]),
        resource=Column(place.keep(events["resource"][ordered]), resources),
        row=place.keep(ordered.astype(np.int64, copy=False)),
        case_attributes=columns_of_cases,
        event_attributes=columns_of_events,
    )


def _first_places(case: Array) -> Positions:
    """Return the place of the first event of each case. `case` is the case of each event, in trace order."""
    is_first = np.ones(len(case), dtype=np.bool_)
    is_first[1:] = case[1:] != case[:-1]
    return np.flatnonzero(is_first)


def _last_places(case: Array) -> Positions:
    """Return the place of the last event of each case. `case` is the case of each event, in trace order."""
    is_last = np.ones(len(case), dtype=np.bool_)
    is_last[:-1] = case[1:] != case[:-1]
    return np.flatnonzero(is_last)


def _last_value(codes: npt.NDArray[np.int32], case: Array, present: Array) -> npt.NDArray[np.int32]:
    """Return the last value of each case's events. `case` is the case of each event, in trace order."""
    result = np.full(len(present), MISSING, dtype=np.int32)
    carrying = np.flatnonzero(codes != MISSING)
    # The last assignment wins, and events are in trace order.
    result[np.searchsorted(present, case[carrying])] = codes[carrying]
    return result


def complete_in(
    state: State, ordered: Positions, flags: Array, end: int | None, silence: int | None, clock: TriggerClock
) -> Flags:
    """Return which exposed cases are complete, judged by the exposed events alone: bool[C].

    No event of such a case is pending (before `end`), and either its last exposed event ended it, or the case has been
    silent for `silence` (by the end of the window, if there is one), or it shows all activities of `end_all`.

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
    last_place = _last_places(case)  # of each case, among the exposed events
    present = case[last_place]
    complete = events["end"][ordered[last_place]] | _had_all(state, ordered, last_place)
    if end is None:
        complete |= silent_now(cases, silence, clock)[present]
    elif silence is not None:
        last_time = events["time"][ordered[last_place]]
        complete |= last_time <= end - silence
    pending = np.flatnonzero(flags == PENDING)
    if end is not None:
        pending = pending[events["time"][pending] < end]
    return complete & ~state.cases_with(pending)[present]


def _had_all(state: State, ordered: Positions, final: Positions) -> Flags:
    """Return whether the exposed events of each case contain all activities of `end_all`."""
    rule = state.end_all
    if not rule.activities or not len(ordered):
        return np.zeros(len(final), dtype=np.bool_)
    bits = rule.bits(state.activities, state.events["activity"][ordered])
    first_place = np.concatenate(([0], final[:-1] + 1))
    bits_of_case = np.bitwise_or.reduceat(bits, first_place)
    complete: Flags = bits_of_case == rule.all
    return complete


# Each case once (`cases = "completed"`): a cut exposes the cases that completed since the one before, and no other.
#
# The cut of a case depends on its own events and on the clock of ticks alone, so two logs that differ by the
# cases of one person differ in the cuts of these cases and nowhere else. Events of a case after its cut are lost.
#
# Without a dp promise a case may wait (`PublicationRules.waits`): the mechanism shows it when others are like it. Each
# cut exposes the cases that wait, as the cut after their completion took them, until a release has shown them.
#
# If the person of a case is known, at most `most_cases` cases of one person are exposed over all cuts, in the order in
# which they began: that order depends on the person alone. The number is kept by pseudonym as long as the publication
# exists, since retention and erasure remove cases, and a person whose cases were forgotten could begin again. Complete
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
        """Return the events to expose, ascending, and the counts of events and cases left out.

        Parameters
        ----------
        rules
            Rules of the publication.
        counters
            Its counters. The cases that are taken of each person are added (`taken`).
        end
            End of the window (ns), if it is one of event time.
        """
        events = self.state.events
        flags, case = events[f"flag:{rules.name}"], events["case"]
        n_lost = self._drop_after_cut(flags, case)
        pending = np.flatnonzero(flags == PENDING)
        complete = self.completions.complete(self.clocks.of_cases(private=rules.private))
        if end is not None:
            # A case with events behind the end of the window belongs to a later window.
            behind_end = pending[events["time"][pending] >= end]
            complete[case[behind_end]] = False
        chosen = pending[complete[case[pending]]]
        n_capped = 0
        if rules.most_cases is not None:
            chosen, n_capped = self._within_cap(counters, flags, chosen, rules.most_cases)
        return chosen, {"late_lost": n_lost, "capped_cases": n_capped}

    def _drop_after_cut(self, flags: Array, case: Array) -> int:
        """Drop the events that came to cases after their cut, and return how many."""
        had_cut = self.state.cases["settled"] | self.state.cases_with(is_exposed(flags) | (flags == RETIRED))
        late = (flags == PENDING) & had_cut[case]
        flags[late] = DROPPED
        return int(np.count_nonzero(late))

    def _within_cap(
        self, counters: PublicationState, flags: Array, chosen: Positions, most: int
    ) -> tuple[Positions, int]:
        """Return the chosen events without those of cases beyond `most` of one person, and how many cases these are."""
        events = self.state.events
        ordered = trace_order(events, chosen, self.state.rank)
        case = events["case"][ordered]
        first_places = _first_places(case)
        person_of_case = self._persons(ordered, case)

        # Cases in the order in which they began; of equal times by name, which depends on no other case.
        names = self.state.index.names(self.state.cases.size)
        cases_by_begin = []
        for place, code in zip(first_places.tolist(), case[first_places].tolist(), strict=True):
            begin_time = int(events["time"][ordered[place]])
            cases_by_begin.append((begin_time, names[code], code))
        cases_by_begin.sort()

        capped = []
        for _, _, code in cases_by_begin:
            person = person_of_case.get(code)
            if person is None or counters.taken.get(person, 0) >= most:
                capped.append(code)
            else:
                counters.taken[person] = counters.taken.get(person, 0) + 1

        is_capped = np.zeros(self.state.cases.size, dtype=np.bool_)
        is_capped[capped] = True
        is_left_out = is_capped[events["case"][chosen]]
        flags[chosen[is_left_out]] = RETIRED  # later events of these cases are lost too
        return chosen[~is_left_out], len(capped)

    def _persons(self, ordered: Positions, case: Array) -> dict[int, str]:
        """Return the pseudonym of the person by case: the last one that its events name."""
        column = self.state.case_attributes.get(self.person or "")
        if column is None:
            return {}
        codes = column.dense(self.state.events.size)[ordered]
        named = np.flatnonzero(codes >= 0)
        values = list(column.values)
        return {int(case[place]): str(values[codes[place]]) for place in named.tolist()}
