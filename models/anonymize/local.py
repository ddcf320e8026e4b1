"""Local suppression: events are removed from single cases, not from the whole log (not in the paper).

1. In every *original* case events enter by priority of their item. An event that would complete a ban stays out.
2. The minimal violating candidates of the result become bans.
3. Repeat until there are none.

Every round adds a ban that no case may contain any more, and the empty result is always possible, so the loop ends. Its
exit test is the definition of TLKC-privacy itself.

A ban applies to every case, not only to cases with a value above C. Therefore the cases that lose events
depend on traces and bans, not on sensitive values.

References
----------
tlkc-privacy-extended-2021, Def. 14 (the definition that is tested).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from models.anonymize.local_model import Bans, Reach, SafeState, attempt, close, moved, ranks
from models.anonymize.suppression import losses
from models.anonymize.view import TraceView
from models.anonymize.violations import BELOW_K, TlkcBounds, minimal_violations
from models.content_free import content_free
from models.eventlog import Codes, Flags, Ints
from models.variants import amounts, of_events

if TYPE_CHECKING:
    from models.anonymize.minimality import Minimality


def default_priority(view: TraceView, suppressed: Iterable[int]) -> Ints:
    """Return the rank of each item: items that global suppression keeps, then others, frequent ones first.

    Parameters
    ----------
    view
        The log as the adversary sees it.
    suppressed
        Codes of the items that global suppression removes.

    Returns
    -------
    Ints
        int64[A]; the item of rank 0 enters first.
    """
    gone = set(suppressed)
    total = [int(loss.sum()) for loss in losses(view)]
    order = sorted(range(len(total)), key=lambda item: (item in gone, -total[item], item))
    return ranks(order)


PLAIN = 10
"""Default value of an event. Values are whole numbers, so that no sum depends on its order."""


@content_free()
@dataclass(frozen=True, slots=True)
class Choice:
    """Preferences of local suppression.

    Without it, items enter in the order that global suppression suggests.

    Attributes
    ----------
    first
        Items that enter before all others; the others enter by frequency.
    value
        Value of an event by item, `PLAIN` if the item is not named; the search maximizes it.
    owed
        Items of which the search may not lose all events.
    """

    first: tuple[Any, ...] = ()
    value: Mapping[Any, int] = field(default_factory=dict)
    owed: frozenset[Any] = frozenset()

    def priority(self, view: TraceView, events: Ints) -> Ints:
        """Return the rank of each item, int64[items]; 0 enters first.

        Parameters
        ----------
        view
            The log as the adversary sees it.
        events
            int64[P], number of events at each position.
        """
        code = {item: number for number, item in enumerate(view.alphabet)}
        first = tuple(code[item] for item in self.first if item in code)
        return entering(view.codes, events, len(view.alphabet), first)

    def valued(self, view: TraceView, events: Ints) -> Ints:
        """Return the value of the events at each position, int64[P].

        Parameters
        ----------
        view
            The log as the adversary sees it.
        events
            int64[P], number of events at each position.
        """
        value = np.asarray([self.value.get(item, PLAIN) for item in view.alphabet], dtype=np.int64)
        return events * value[view.codes]


def entering(codes: Codes, events: Ints, items: int, first: Sequence[int] = ()) -> Ints:
    """Return the rank of each item: `first`, then the others by their events, most first.

    Parameters
    ----------
    codes
        int32[P], item at each position.
    events
        int64[P], number of events at each position.
    items
        Number of items.
    first
        Codes of the items that enter before all others.

    Returns
    -------
    Ints
        int64[A]; the item of rank 0 enters first.
    """
    total = np.bincount(codes, events, items)
    most_first = np.argsort(-total, kind="stable").tolist()
    return ranks([*first, *(item for item in most_first if item not in first)])


def events_at_positions(view: TraceView) -> Ints:
    """Return the number of events of the log at each position of the rows' traces, over all cases of a row.

    Parameters
    ----------
    view
        The log as the adversary sees it.

    Returns
    -------
    Ints
        int64[P].
    """
    return amounts(_position_of_event(view), of_events(view.cases, view.case_starts), len(view.codes))


def kept_events(view: TraceView, kept: Flags) -> Flags:
    """Return the events of the log whose position stays, bool[E].

    Parameters
    ----------
    view
        The log as the adversary sees it.
    kept
        bool[P], positions that stay.
    """
    chosen: Flags = kept[_position_of_event(view)]
    return chosen


def _position_of_event(view: TraceView) -> Ints:
    """Return the position of each event in the traces of the rows, int64[E]."""
    rows = np.repeat(view.row_of_case, np.diff(view.case_starts))
    position: Ints = view.starts[rows] + view.slot_of_event
    return position


def suppress(
    view: TraceView,
    bounds: TlkcBounds,
    preferred: Iterable[int] | Choice,
    *,
    bans: Sequence[tuple[int, ...]] = (),
    effort: int = 0,
    seed: int = 0,
    max_minimality: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[SafeState, Minimality]:
    """Suppress events of single cases until no candidate violates.

    Parameters
    ----------
    view, bounds
        The log as the adversary sees it; L, K and C.
    preferred
        Items that global suppression would remove, which enter last; or a `Choice`.
    bans
        Candidates that no case may match, whatever their counts.
    effort, seed
        Number of proposals of the search, and its seed.
    max_minimality
        Most candidates that may have fewer than K possible cases for somebody who knows the rules. None: any number.
    progress
        Called with the number of finished proposals.

    Returns
    -------
    state
        The events that stay, and the bans and priorities.
    minimality
        How many candidates have fewer than K possible cases for somebody who knows the rules.
    """
    from models.anonymize.minimality import audit, withstanding

    events = events_at_positions(view)
    if isinstance(preferred, Choice):
        priority = preferred.priority(view, events)
        value = preferred.valued(view, events)
    else:
        priority = default_priority(view, preferred)
        value = events
    reach = Reach(view)
    fixed = Bans.of(bans)
    state = close(reach, bounds, priority, fixed, value)
    if effort:
        generator = np.random.default_rng(seed)
        state = improve(reach, bounds, state, value, effort, generator, fixed=fixed, progress=progress)
    if max_minimality is None:
        return state, audit(reach, bounds, state)
    return withstanding(reach, bounds, state, value, max_minimality)


# Search: other priorities and fewer bans, kept when more events stay. Every state that is tried ends in `attempt`, so
# every state is safe; the search only chooses among safe ones. It draws from a seeded generator: the choice is
# reproducible and is not a noise of the release.
#
# A proposal keeps the bans that no method can avoid and changes the rest of the current state in one of three ways:
#
# * `_reinserted`: an item, drawn by the events it has lost, enters earlier, free of the bans that name it;
# * `_parted`: the bans that name two items of one ban go;
# * `_thinned`: a random part of the bans goes, and half of the time one item changes its place.
#
# The rounds of `attempt` add again what a proposal drops in excess. Acceptance is simulated annealing on the events
# kept (Kirkpatrick, Gelatt and Vecchi 1983), with a temperature that falls to 0.

COOLING = 0.001
"""Temperature at the start, as a share of all events (15 events of Sepsis). Tried on Sepsis only (Diagnose, seq)."""

REINSERT, PART = 0.4, 0.3
"""Shares of the first two kinds of proposals; the third has the rest."""

Proposal = tuple[Ints, Ints]
"""Priorities, and the numbers of the avoidable bans that stay."""


def improve(
    reach: Reach,
    bounds: TlkcBounds,
    start: SafeState,
    events: Ints,
    effort: int,
    generator: np.random.Generator,
    *,
    fixed: Bans,
    progress: Callable[[int], None] = lambda _: None,
) -> SafeState:
    """Return the best of `start` and `effort` proposals of simulated annealing.

    Most proposals cost less than closing from nothing: they keep bans, and they end once they fall behind.

    Parameters
    ----------
    reach
        The log as the adversary sees it.
    bounds
        L, K and C.
    start
        A safe state.
    events
        int64[P], value of the events at each position.
    effort
        Number of proposals.
    generator
        Seeded; its draws are not noise of the release.
    fixed
        Bans that every proposal keeps.
    progress
        Called with the number of finished proposals.

    References
    ----------
    Kirkpatrick, Gelatt and Vecchi (1983), Optimization by simulated annealing.
    """
    lasting = reach.numbers(unavoidable(reach.view, bounds))
    lasting = np.concatenate((lasting, _others(reach.numbers(fixed), lasting)))
    best = current = start
    for step in range(effort):
        temperature = COOLING * float(events.sum()) * (1 - step / effort)
        avoidable = _others(current.numbers, lasting)
        priority, kept = _proposal(reach, current, avoidable, events, generator)
        # Accept a state of `loss` fewer events with the chance exp(-loss / temperature).
        least = current.events + math.floor(temperature * math.log(1 - generator.random()))
        trial = attempt(reach, bounds, priority, np.concatenate((lasting, kept)), events, least=least)
        if trial is not None:
            current = trial
            best = max(best, trial, key=lambda state: state.events)
        progress(step + 1)
    return best


def unavoidable(view: TraceView, bounds: TlkcBounds) -> Bans:
    """Return the minimal candidates below K in the source, in order.

    Removing events never raises a support, so every method must ban them.

    Parameters
    ----------
    view
        The source as the adversary sees it.
    bounds
        L, K and C.
    """
    levels = minimal_violations(view, bounds).levels
    return Bans.of_levels([level.candidates[level.reason == BELOW_K] for level in levels])


def _others(numbers: Ints, than: Ints) -> Ints:
    """Return the numbers that are not among others."""
    others: Ints = numbers[~np.isin(numbers, than)]
    return others


def _proposal(
    reach: Reach, current: SafeState, avoidable: Ints, events: Ints, generator: np.random.Generator
) -> Proposal:
    kind = generator.random()
    view = reach.view
    lost = np.bincount(view.codes[~current.kept], events[~current.kept], len(view.alphabet))
    if kind < REINSERT and lost.any():
        priority, item = _reinserted(current.priority, lost, generator)
        return priority, avoidable[~reach.bans(avoidable).naming((item,))]
    if kind < REINSERT + PART and len(avoidable):
        bans = reach.bans(avoidable)
        return current.priority, avoidable[~bans.naming(_parted(bans, generator))]
    return _thinned(current.priority, avoidable, generator)


def _reinserted(priority: Ints, lost: Ints, generator: np.random.Generator) -> tuple[Ints, int]:
    """Return priorities in which an item enters earlier, and the item."""
    item = int(generator.choice(len(lost), p=lost / lost.sum()))
    place = int(generator.integers(priority[item] + 1))
    return moved(priority, item, place), item


def _parted(bans: Bans, generator: np.random.Generator) -> list[int]:
    """Return two items of one ban, or its only one."""
    number = int(generator.integers(len(bans)))
    ban = bans.codes[bans.starts[number] : bans.starts[number + 1]]
    pair: list[int] = generator.choice(ban, min(2, len(ban)), replace=False).tolist()
    return pair


def _thinned(priority: Ints, avoidable: Ints, generator: np.random.Generator) -> Proposal:
    """Return some of the avoidable bans, and half of the time priorities in which one item changes its place."""
    share = generator.random()
    if generator.random() < 1 / 2:
        item, place = (int(number) for number in generator.integers(len(priority), size=2))
        priority = moved(priority, item, place)
    return priority, avoidable[generator.random(len(avoidable)) < share]
