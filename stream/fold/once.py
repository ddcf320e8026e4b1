"""Each case once (`cases = "completed"`): a cut exposes the cases that completed since the one before, and no other.

Which cut a case falls into depends on its own events and on the clock of ticks alone, so two logs that differ by the
cases of one person differ in the cuts of these cases and nowhere else. What comes to a case after its cut is lost.

Where the person of a case is known, at most `most_cases` cases of one person are exposed, over all cuts: by when each
began, which is that person's own order. The number is kept as long as the publication, by pseudonym: retention and
erasure take cases away, and a person whose cases were forgotten could begin anew. Complete cases
without a person are dropped: they could exceed that person's cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream.fold.cases import DROPPED, EXPOSED, PENDING, RETIRED, Array
from stream.fold.clocks import Clocks
from stream.fold.completion import Completions
from stream.fold.exposure import Positions, trace_order
from stream.fold.intake import State
from stream.fold.rules import PublicationRules
from stream.fold.triggers import PublicationState


@dataclass(frozen=True, slots=True)
class Once:
    """Chooses what a cut exposes where each case is exposed once. `person`: the attribute that names whose it is."""

    state: State
    completions: Completions
    clocks: Clocks
    person: str | None = None

    def choose(
        self, rules: PublicationRules, own: PublicationState, end: int | None
    ) -> tuple[Positions, Mapping[str, int]]:
        """The events to expose, ascending, and what was left out. `end`: of the window, where it is one of event
        time."""
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
            chosen, capped = self._within_cap(own, flags, chosen, rules.most_cases)
        return chosen, {"late_lost": lost, "capped_cases": capped}

    def _lose(self, flags: Array, case: Array) -> int:
        """Leave out, for good, what came to cases after their cut. Returns how many events."""
        gone = np.zeros(self.state.cases.size, dtype=np.bool_)
        gone[case[(flags == EXPOSED) | (flags == RETIRED)]] = True
        late = (flags == PENDING) & gone[case]
        flags[late] = DROPPED
        return int(np.count_nonzero(late))

    def _within_cap(self, own: PublicationState, flags: Array, chosen: Positions, most: int) -> tuple[Positions, int]:
        """The chosen events without those of cases beyond `most` of one person; how many cases these are."""
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
            if person is None or own.taken.get(person, 0) >= most:
                out.append(code)
            else:
                own.taken[person] = own.taken.get(person, 0) + 1
        left = np.zeros(self.state.cases.size, dtype=np.bool_)
        left[out] = True
        away = left[events["case"][chosen]]
        flags[chosen[away]] = RETIRED  # let go: what comes to such a case later is lost too
        return chosen[~away], len(out)

    def _persons(self, ordered: Positions, case: Array) -> dict[int, str]:
        """Pseudonym of the person by case: the last one that its events name."""
        column = self.state.case_attributes.get(self.person or "")
        if column is None:
            return {}
        codes = column.dense(self.state.events.size)[ordered]
        named = np.flatnonzero(codes >= 0)
        values = list(column.values)
        return {int(case[place]): str(values[codes[place]]) for place in named.tolist()}
