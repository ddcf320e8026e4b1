"""Local suppression that leaves enough possible cases to somebody who knows its rules.

A release by local suppression satisfies TLKC-privacy against what is seen in it. Its rules are public, so a reader also
knows where an event could have been left out. The audit of minimality (models.anonymize.minimality) counts the
candidates for which fewer than K released cases are possible for such a reader. Here the state of local suppression is
changed until no more than `most` such candidates are left:

* an item of such a candidate leaves all cases: then every case can have had it anywhere;
* or it enters last: then more cases can have had it without showing it.

Every step ends in `attempt`, so every state satisfies TLKC-privacy. The steps are among the rules that the audit
supposes to be known: bans and priorities. An item that left all cases stays out, so the loop ends.
Measured for the candidates of the audit (bans, and pairs of up to 40 items), not proven for others; nothing is said
about shares of sensitive values, or about which cases wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from models.anonymize.local_model import Bans, Reach, SafeState, attempt
from models.anonymize.local_search import moved
from models.anonymize.minimality import narrowed
from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds
from models.eventlog import Ints

Candidates = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _RemovalStep:
    """A state, and the candidates that it leaves with fewer than K possible cases."""

    state: SafeState
    below: Candidates

    @property
    def left_out(self) -> set[int]:
        """Items that no case shows, by a ban of their own."""
        return {ban[0] for ban in self.state.bans.candidates if len(ban) == 1}


def withstanding(view: TraceView, bounds: TlkcBounds, state: SafeState, events: Ints, most: int) -> SafeState:
    """Return a state in which at most `most` candidates have fewer than K possible cases.

    Parameters
    ----------
    state
        A safe state of `view`.
    events
        What an event at each position is worth: the steps that lose least are taken.
    most
        `max_minimality`.

    Returns
    -------
    The state itself if it holds the bound. If nothing can be changed any more, the last state: the gate refuses it.
    """
    reach = Reach(view)
    step = _RemovalStep(state, narrowed(view, bounds, state))
    while len(step.below) > most:
        trials = list(_trials(reach, bounds, step, events))
        better = _best(step, trials)
        if better is None:
            break
        step = better
    return step.state


def _trials(reach: Reach, bounds: TlkcBounds, step: _RemovalStep, events: Ints) -> Iterator[_RemovalStep]:
    """Each item of the candidates left out of all cases, and each as the last of the order. (Trying four more places
    took three times as long on Sepsis, and kept .864 of its events instead of .860.)"""
    state = step.state
    last = len(state.priority) - 1
    items = {item for candidate in step.below for item in candidate}
    for item in sorted(items - step.left_out):
        # A longer ban that names this item can never be completed again.
        others = [ban for ban in state.bans.candidates if item not in ban]
        yield _tried(reach, bounds, state.priority, Bans((*others, (item,))), events)
        if state.priority[item] != last:
            yield _tried(reach, bounds, moved(state.priority, item, last), state.bans, events)


def _tried(reach: Reach, bounds: TlkcBounds, priority: Ints, bans: Bans, events: Ints) -> _RemovalStep:
    state = attempt(reach, bounds, priority, bans, events)
    if state is None:
        raise AssertionError("no number of events is below 0")
    return _RemovalStep(state, narrowed(reach.view, bounds, state))


def _best(before: _RemovalStep, trials: list[_RemovalStep]) -> _RemovalStep | None:
    """The step that loses least for each candidate that it mends. If none mends any, the item that is cheapest to leave
    out: removals are what the loop ends by. None if no item is left."""

    def cost(after: _RemovalStep) -> float:
        lost = max(0, before.state.events - after.state.events)
        return lost / (len(before.below) - len(after.below))

    mending = [one for one in trials if len(one.below) < len(before.below)]
    if mending:
        return min(mending, key=cost)
    removals = [one for one in trials if len(one.left_out) > len(before.left_out)]
    return max(removals, key=lambda one: one.state.events, default=None)
