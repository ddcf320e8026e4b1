"""The transition system of a release: its states, and how many cases took each step.

Source: temporal-privacy-leakage-2022, definitions 5 and 8. With the state function `prefix` it is the paper's prefix
automaton, a tree.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import Ints
from models.leakage.states import StateSpace


@content_free("cases")
@dataclass(frozen=True, slots=True)
class TransitionSystem:
    """Counted transitions: `count[k]` cases moved from `source[k]` to `target[k]`.

    `states` are the sorted numbers of the states that take part; state 0, where cases begin, always does.

    Attributes
    ----------
    space
        Numbers of the states.
    source, target, count
        int64[K] each. Pairs of source and target are distinct.
    cases
        Number of cases of the log.
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
        """Return the states without a way out."""
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
        """Count transitions into each state of `states`, int64; Pr(s) of definition 8 is this divided by `cases`."""
        total = np.zeros(len(self.space), dtype=np.int64)
        np.add.at(total, self.target, self.count)
        return total[self.states]

    def at_least(self, cases: int) -> TransitionSystem:
        """Return the automaton without transitions of fewer than `cases` cases (section 6).

        Parameters
        ----------
        cases
            Cases that a transition needs.
        """
        kept = self.count >= cases
        return TransitionSystem(self.space, self.source[kept], self.target[kept], self.count[kept], self.cases)

    def digest(self) -> str:
        """Return the sha256 of the number of cases, the states, the transitions and their counts.

        It does not depend on the order in which they were found.
        """
        rows = (
            self.space.digest(int(s)) + self.space.digest(int(t)) + int(c).to_bytes(8, "big")
            for s, t, c in zip(self.source, self.target, self.count, strict=True)
        )
        return hashlib.sha256(b"".join([self.cases.to_bytes(8, "big"), *sorted(rows)])).hexdigest()


def from_moves(space: StateSpace, source: Ints, target: Ints, cases: int) -> TransitionSystem:
    """Build the transition system of single moves.

    Parameters
    ----------
    space
        Numbers of the states, and the function that makes them of traces.
    source, target
        int64[moves], codes of the states of each move; repeats are counted.
    cases
        Number of cases that the moves are of.
    """
    if space.function.tree:
        count = np.bincount(target, minlength=len(space))
        reached = np.flatnonzero(count)
        return TransitionSystem(space, np.asarray(space.parent)[reached], reached, count[reached], cases)
    joint, count = np.unique(source * len(space) + target, return_counts=True)
    return TransitionSystem(space, joint // len(space), joint % len(space), count.astype(np.int64), cases)
