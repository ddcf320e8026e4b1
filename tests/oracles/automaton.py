"""The transition system of a log, counted event by event in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from models.leakage.automaton import TransitionSystem
from models.leakage.states import END, START, State, StateFunction, StateSpace, escaped


@dataclass(slots=True)
class Automaton:
    """The automaton of all cases seen so far. An event is the next one of its case."""

    function: StateFunction
    space: StateSpace = field(init=False)
    counts: dict[tuple[State, State], int] = field(default_factory=dict)
    at: dict[str, State] = field(default_factory=dict)
    """The state of each case."""

    def __post_init__(self) -> None:
        """Make the counters of a new automaton."""
        self.space = StateSpace(self.function)

    def begin(self, case: str) -> None:
        """Start a case (the artificial start event)."""
        self.at[case] = 0
        self._move(case, START)

    def observe(self, case: str, activity: str) -> None:
        """Add the next event of a case; an unknown case starts with it."""
        if case not in self.at:
            self.begin(case)
        self._move(case, escaped(activity))

    def end(self, case: str) -> None:
        """Complete a case (the artificial end event). Idempotent."""
        if not self.space.ends[self.at[case]]:
            self._move(case, END)

    def _move(self, case: str, activity: str) -> None:
        state = self.at[case]
        after = self.space.follow(state, activity)
        self.counts[state, after] = self.counts.get((state, after), 0) + 1
        self.at[case] = after

    def system(self, cases: int | None = None) -> TransitionSystem:
        """Return the transition system so far (`cases`: number of cases, if some were forgotten)."""
        return from_counts(self.space, self.counts, len(self.at) if cases is None else cases)


def from_counts(space: StateSpace, counts: Mapping[tuple[State, State], int], cases: int) -> TransitionSystem:
    """Build the transition system of counted state pairs."""
    pairs = np.asarray(list(counts.keys()), dtype=np.int64).reshape(-1, 2)
    return TransitionSystem(space, pairs[:, 0], pairs[:, 1], np.asarray(list(counts.values()), dtype=np.int64), cases)
