"""Removal of cases from the state: those that an operator erases, and complete ones after `retention`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stream.fold.cases import PENDING, RETIRED, digest
from stream.fold.clocks import Clocks
from stream.fold.completion import Completions
from stream.fold.intake import State
from stream.fold.publications import Publications
from stream.fold.records import without_cases
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import TriggerClock


class Retention:
    """Removes cases from the state and has the counters of the others updated."""

    def __init__(
        self, rules: FoldRules, state: State, clocks: Clocks, publications: Publications, completions: Completions
    ) -> None:
        self._state, self._clocks, self._publications, self._completions = state, clocks, publications, completions
        self.install(rules)

    def install(self, rules: FoldRules) -> None:
        """Put new rules into effect."""
        self._rules = rules

    def erase(self, cases: Sequence[str]) -> int:
        """Remove cases by pseudonym, for good: their events are refused from now on. Returns how many were known."""
        state = self._state
        known = [state.index[case] for case in cases if dict.__contains__(state.index, case)]
        keep = np.ones(state.cases.size, dtype=np.bool_)
        keep[known] = False
        self._remove(keep)
        for partition in state.partitions.values():
            partition.held = [(position, without_cases(record, cases)) for position, record in partition.held]
        state.index.gone.update(digest(case) for case in cases)
        return len(known)

    def before_cut(self, rules: PublicationRules) -> None:
        """Remove, before a cut of one publication, the cases whose retention is over."""
        if self._rules.retention is None:
            return
        if rules.private:
            self._retire_for(rules)
        self.retire()

    def _retire_for(self, rules: PublicationRules) -> None:
        """Retire, at a cut of one publication with a dp promise, the cases whose retention is over for it.

        This depends on the last event and the arrival of each case and on the clock, never on a watermark: otherwise
        the event of one person could remove others from the release. Later events of such a case are retired too,
        whether or not the state still holds the rest.
        """
        state, retention, now = self._state, self._rules.retention, self._clocks.now
        flags, case = state.events[f"flag:{rules.name}"], state.events["case"]
        over = np.zeros(state.cases.size, dtype=np.bool_)
        over[case[flags == RETIRED]] = True
        if now is not None and retention is not None:
            since = np.maximum(state.cases["last"], state.cases["arrival"])
            leave = self._completions.complete(TriggerClock(now, None))
            leave &= since <= now - retention
            leave[case[flags == PENDING]] = False
            over |= leave
        flags[over[case]] = RETIRED

    def retire(self) -> None:
        """Remove complete cases with nothing pending, `retention` after their last event. A late event of such a case
        is refused: it would look like a new case. Publications with a dp promise have retired the case before."""
        state, retention = self._state, self._rules.retention
        if retention is None:
            return
        leave = np.ones(state.cases.size, dtype=np.bool_)
        if not all(rules.private for rules in self._rules.publications):
            clock = self._clocks.read()
            if clock.watermark is None:
                return
            leave &= self._completions.complete(clock)
            leave &= state.cases["last"] <= clock.watermark - retention
        for rules in self._rules.publications:
            flags = state.events[f"flag:{rules.name}"]
            leave[state.events["case"][(flags != RETIRED) if rules.private else (flags == PENDING)]] = False
        if np.any(leave):
            self._remove(~leave)

    def _remove(self, keep: npt.NDArray[np.bool_]) -> None:
        if np.all(keep):
            return
        self._state.remove(keep)
        self._completions.rebuild()
        self._publications.recount()
