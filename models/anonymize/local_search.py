"""Search around local suppression: other priorities and fewer bans, kept when more events stay.

Every state that is tried ends in `attempt`, so every state is safe; the search only chooses among safe ones. It draws
from a seeded generator: the choice is reproducible and no noise of the release.

A proposal keeps the bans that no method can avoid and changes the rest of the current state in one of three ways:

* `_reinserted`: an item, drawn by the events it has lost, enters earlier, free of the bans that name it;
* `_parted`: the bans that name two items of one ban go;
* `_thinned`: a random part of the bans goes, and half of the time one item changes its place.

What they drop in excess is found again by the rounds of `attempt`. Acceptance is simulated annealing on the events
kept (Kirkpatrick, Gelatt and Vecchi 1983), with a temperature that falls to 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

import numpy as np

from models.anonymize.local_model import Bans, Reach, SafeState, attempt
from models.anonymize.view import TraceView
from models.anonymize.violations import BELOW_K, TlkcBounds, minimal_violations
from models.eventlog import Ints

COOLING = 0.001
"""Temperature at the start, as a share of all events (15 events of Sepsis). Tried on Sepsis only (Diagnose, seq)."""

REINSERT, PART = 0.4, 0.3
"""Shares of the first two kinds of proposals; the third has the rest."""

Ban = tuple[int, ...]
Proposal = tuple[Ints, list[Ban]]
"""Priorities, and the avoidable bans that stay."""


def improve(
    view: TraceView,
    bounds: TlkcBounds,
    start: SafeState,
    events: Ints,
    effort: int,
    generator: np.random.Generator,
    *,
    fixed: Collection[Ban] = (),
    value_aware: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> SafeState:
    """The best of `start` and `effort` proposals; most cost less than closing from nothing, as they keep bans and are
    given up once they fall behind."""
    lasting = {**unavoidable(view, bounds), **dict.fromkeys(fixed)}
    reach = Reach(view)
    best = current = start
    for step in range(effort):
        heat = COOLING * float(events.sum()) * (1 - step / effort)
        priority, kept = _proposal(view, current, _avoidable(current.bans, lasting), events, generator)
        least = current.events + math.floor(heat * math.log(1 - generator.random()))
        bans = Bans((*lasting, *kept))
        trial = attempt(reach, bounds, priority, bans, events, value_aware=value_aware, least=least)
        if trial is not None:
            current = trial
            best = max(best, trial, key=lambda state: state.events)
        progress(step + 1)
    return best


def unavoidable(view: TraceView, bounds: TlkcBounds) -> dict[Ban, None]:
    """Minimal candidates below K in the source, in order: removal never raises a support, so every method must ban
    them."""
    found = minimal_violations(view, bounds)
    return dict.fromkeys(
        tuple(row) for level in found.levels for row in level.candidates[level.reason == BELOW_K].tolist()
    )


def _avoidable(bans: Bans, lasting: Collection[Ban]) -> list[Ban]:
    """The other bans; those of some rows only are found anew."""
    return [ban for k, ban in enumerate(bans.candidates) if ban not in lasting and k not in bans.holders]


def _proposal(
    view: TraceView, current: SafeState, bans: list[Ban], events: Ints, generator: np.random.Generator
) -> Proposal:
    kind = generator.random()
    lost = np.bincount(view.codes[~current.kept], events[~current.kept], len(view.alphabet))
    if kind < REINSERT and lost.any():
        return _reinserted(current.priority, bans, lost, generator)
    if kind < REINSERT + PART and bans:
        return current.priority, _parted(bans, generator)
    return _thinned(current.priority, bans, generator)


def _reinserted(priority: Ints, bans: list[Ban], lost: Ints, generator: np.random.Generator) -> Proposal:
    item = int(generator.choice(len(lost), p=lost / lost.sum()))
    place = int(generator.integers(priority[item] + 1))
    return moved(priority, item, place), [ban for ban in bans if item not in ban]


def _parted(bans: list[Ban], generator: np.random.Generator) -> list[Ban]:
    ban = bans[int(generator.integers(len(bans)))]
    pair = set(generator.choice(ban, min(2, len(ban)), replace=False).tolist())
    return [other for other in bans if not pair.issubset(other)]


def _thinned(priority: Ints, bans: Iterable[Ban], generator: np.random.Generator) -> Proposal:
    share = generator.random()
    if generator.random() < 1 / 2:
        item, place = (int(number) for number in generator.integers(len(priority), size=2))
        priority = moved(priority, item, place)
    return priority, [ban for ban in bans if generator.random() < share]


def moved(priority: Ints, item: int, place: int) -> Ints:
    """Return the same order but for one item, which now has rank `place`."""
    order = [int(other) for other in np.argsort(priority) if other != item]
    order.insert(place, item)
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order))
    return result
