"""State functions: what of a case's history a release is about.

Source: temporal-privacy-leakage-2022, definition 4 and section 6. `prefix` is the paper's full history; the others
are coarser. A coarser state is legitimate only if the released query is at that abstraction (counts by last
activity, say) and its chain is accepted as Markov: the numbers hold for such a query alone.

Positions of a trace: 1 is the artificial start, the activities follow, and complete traces end with the artificial
end; both count as events for a window. Position 0 is the empty prefix, a state of its own: merged with the state after
the start, a chain would seem to forget what it does not. Coarse states share one end state.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable
from dataclasses import dataclass, field

from models.content_free import content_free
from models.errors import InputError

START = "▶"
END = "■"

ESCAPE = "\\"

EMPTY = None
"""Key of the empty prefix of coarse states: before the artificial start."""


def escaped(activity: str) -> str:
    """Return the activity as states name it: never START or END, which a hostile log could name its activities.

    Parameters
    ----------
    activity
        Name of an activity in the log.
    """
    if activity[:1] in (START, END, ESCAPE):
        return ESCAPE + activity
    return activity


State = int
"""Number of a state within its `StateSpace`."""

NAMES = "prefix, last, suffix-K (K >= 1), set or multiset"


@dataclass(frozen=True, slots=True)
class StateFunction:
    """Rule by which the next state follows from a state and an activity.

    Attributes
    ----------
    kind
        prefix, suffix, set or multiset.
    k
        Activities of a suffix.
    """

    kind: str = "prefix"
    k: int = 0

    @classmethod
    def parse(cls, text: str) -> StateFunction:
        """Return the function with a name.

        Parameters
        ----------
        text
            `prefix`, `last`, `suffix-K`, `set` or `multiset`.

        Raises
        ------
        InputError
            For anything else.
        """
        if text in ("prefix", "set", "multiset"):
            return cls(text)
        if text == "last":
            return cls("suffix", 1)
        match = re.fullmatch(r"suffix-([1-9][0-9]{0,3})", text)
        if match is None:
            raise InputError(f"states = {text!r} is not one of {NAMES}")
        return cls("suffix", int(match[1]))

    def __str__(self) -> str:
        """Return the specification as it is written."""
        if self.kind == "suffix":
            return "last" if self.k == 1 else f"suffix-{self.k}"
        return self.kind

    @property
    def tree(self) -> bool:
        """The automaton is a tree: one way to each state."""
        return self.kind == "prefix"

    def _started(self) -> Hashable:
        """Key of the state after the artificial start, before any activity."""
        if self.kind == "set":
            return frozenset()
        return (START,) if self.kind == "suffix" else ()

    def follow(self, key: Hashable, activity: str) -> Hashable:
        """Return the key of the state after an activity. Not for `prefix`, whose keys are chained.

        Parameters
        ----------
        key
            Key of the state before.
        activity
            An activity, START or END.

        Raises
        ------
        TypeError
            If the case has ended.
        """
        if key is EMPTY:
            return self._started()
        if activity == END:
            return END
        if isinstance(key, frozenset):
            return key | {activity}
        if not isinstance(key, tuple):
            raise TypeError("an ended case has no further events")
        if self.kind == "suffix":
            return (*key, activity)[-self.k :]
        return tuple(sorted((*key, activity)))


@content_free("function")
@dataclass(slots=True)
class StateSpace:
    """Numbers for states, given as they are met; state 0 is where every case begins.

    * `parent`, `activity`: of each state, the state and activity by which it was first reached (-1, "" for state 0);
    * `depth`: events from state 0 when it was first reached (in a tree: always);
    * `ends`: whether a case is complete in it.
    """

    function: StateFunction
    parent: list[State] = field(default_factory=lambda: [-1])
    activity: list[str] = field(default_factory=lambda: [""])
    depth: list[int] = field(default_factory=lambda: [0])
    ends: list[bool] = field(default_factory=lambda: [False])
    successors: dict[tuple[State, str], State] = field(default_factory=dict)
    keys: list[Hashable] = field(default_factory=list)
    numbers: dict[Hashable, State] = field(default_factory=dict)
    digests: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the numbering, with the start state first."""
        if not self.function.tree:
            self.keys, self.numbers = [EMPTY], {EMPTY: 0}

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.parent)

    def follow(self, state: State, activity: str) -> State:
        """Return the state after `activity`, numbered when it first occurs.

        Parameters
        ----------
        state
            Number of the state before.
        activity
            An activity, START or END.
        """
        successor = self.successors.get((state, activity))
        if successor is None:
            successor = self.successors[state, activity] = self._new(state, activity)
        return successor

    def _new(self, state: State, activity: str) -> State:
        if not self.function.tree:
            key = self.function.follow(self.keys[state], activity)
            if key in self.numbers:
                return self.numbers[key]
            self.numbers[key] = len(self.parent)
            self.keys.append(key)
        self.parent.append(state)
        self.activity.append(activity)
        self.depth.append(self.depth[state] + 1)
        self.ends.append(activity == END)
        return len(self.parent) - 1

    def label(self, state: State) -> list[str]:
        """Describe the state: its activities (for `prefix` with START and END); START alone before the first.

        Parameters
        ----------
        state
            Number of the state.
        """
        if not self.function.tree:
            key = self.keys[state]
            if not key:
                return [] if key is EMPTY else [START]
            return sorted(key) if isinstance(key, frozenset) else [str(part) for part in _parts(key)]
        names: list[str] = []
        while state > 0:
            names.append(self.activity[state])
            state = self.parent[state]
        return names[::-1]

    def digest(self, state: State) -> bytes:
        """Return a name of the state that does not depend on the order in which states were met.

        Parameters
        ----------
        state
            Number of the state.
        """
        if not self.function.tree:
            return _hash(*(part.encode() for part in self.label(state)))
        for i in range(len(self.digests), len(self.parent)):
            above = self.digests[self.parent[i]] if i else b""
            self.digests.append(_hash(above, self.activity[i].encode()))
        return self.digests[state]


def _parts(key: Hashable) -> tuple[Hashable, ...]:
    return key if isinstance(key, tuple) else (key,)


def _hash(*parts: bytes) -> bytes:
    outer = hashlib.sha256()
    for part in parts:
        outer.update(hashlib.sha256(part).digest())
    return outer.digest()
