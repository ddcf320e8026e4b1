"""The transition system of a release, kept incrementally as events arrive.

Source: temporal-privacy-leakage-2022, definitions 5 and 8. With the state function `prefix` it is the paper's prefix
automaton, a tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import Ints
from models.leakage.states import END, START, State, StateFunction, StateSpace, plain


@content_free("cases")
@dataclass(frozen=True, slots=True)
class TransitionSystem:
    """Counted transitions: `count[k]` cases moved from `source[k]` to `target[k]` (int64 each, pairs distinct).

    `states`: the sorted numbers of the states that take part; state 0, where cases begin, always does.
    """

    space: StateSpace
    source: Ints
    target: Ints
    count: Ints
    cases: int

    @property
    def states(self) -> Ints:
        """Distinct states, ascending."""
        return np.flatnonzero(self._marked(self.source, self.target))

    @property
    def depth(self) -> int:
        """In a tree: length of the longest prefix, artificial events included."""
        depth = np.asarray(self.space.depth, dtype=np.int64)
        return int(depth[self.target].max(initial=0))

    def leaves(self) -> Ints:
        """States without a way out."""
        return np.flatnonzero(self._marked(self.target) & ~self._marked(self.source, start=False))

    def _marked(self, *states: Ints, start: bool = True) -> npt.NDArray[np.bool_]:
        """Mark the given states and those where cases begin, bool[space].

        Sorting for distinct values took twice as long.
        """
        marks = np.zeros(len(self.space), dtype=np.bool_)
        marks[0] = start
        for some in states:
            marks[some] = True
        return marks

    def into(self) -> Ints:
        """Transitions into each state of `states`, int64; Pr(s) of definition 8 is this divided by `cases`."""
        total = np.zeros(len(self.space), dtype=np.int64)
        np.add.at(total, self.target, self.count)
        return total[self.states]

    def at_least(self, cases: int) -> TransitionSystem:
        """Return the automaton without transitions of fewer than `cases` cases (section 6)."""
        kept = self.count >= cases
        return TransitionSystem(self.space, self.source[kept], self.target[kept], self.count[kept], self.cases)

    def digest(self) -> str:
        """sha256 over the number of cases, states, transitions and counts, in whatever order they were met."""
        rows = (
            self.space.digest(int(s)) + self.space.digest(int(t)) + int(c).to_bytes(8, "big")
            for s, t, c in zip(self.source, self.target, self.count, strict=True)
        )
        return hashlib.sha256(b"".join([self.cases.to_bytes(8, "big"), *sorted(rows)])).hexdigest()


@content_free("function")
@dataclass(slots=True)
class Automaton:
    """The automaton of all cases seen so far, extended event by event.

    Growth is append-only, as the leakage model assumes: an event that arrives out of order must be counted as such by
    the caller; it is taken here as the case's next event.
    """

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
        self._move(case, plain(activity))

    def end(self, case: str) -> None:
        """Complete a case (the artificial end event). Idempotent."""
        if not self.space.ends[self.at[case]]:
            self._move(case, END)

    def forget(self, cases: Iterable[str]) -> None:
        """Stop following cases that will get no further event; their counts stay."""
        for case in cases:
            del self.at[case]

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


def from_moves(space: StateSpace, source: Ints, target: Ints, cases: int) -> TransitionSystem:
    """Build the transition system of single moves source[k] -> target[k] (int64, repeats are counted)."""
    if space.function.tree:
        count = np.bincount(target, minlength=len(space))
        reached = np.flatnonzero(count)
        return TransitionSystem(space, np.asarray(space.parent)[reached], reached, count[reached], cases)
    joint, count = np.unique(source * len(space) + target, return_counts=True)
    return TransitionSystem(space, joint // len(space), joint % len(space), count.astype(np.int64), cases)
