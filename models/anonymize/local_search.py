"""Search around local suppression: other priorities and fewer bans, kept when more events stay.

Every state that is tried ends in `close`, so every state is safe; the search only chooses among safe ones. It draws
from a seeded generator: the choice is reproducible and no noise of the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from models.anonymize.local import Bans, Projection, Reach, attempt
from models.anonymize.view import View
from models.anonymize.violations import BELOW_K, Bounds, minimal_violations
from models.eventlog import Ints

COOLING = 0.0005
"""Temperature at the start, as a share of all events. Measured on Sepsis, 2/60/.2: larger wanders and ends lower."""


def improve(
    view: View,
    bounds: Bounds,
    start: Projection,
    events: Ints,
    effort: int,
    generator: np.random.Generator,
    *,
    value_aware: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Projection:
    """The best of `effort` more projections, by simulated annealing on the events kept."""
    lasting = unavoidable(view, bounds)
    reach = Reach(view)
    best = current = start
    for step in range(effort):
        heat = COOLING * float(events.sum()) * (1 - step / effort)
        priority = _perturbed(current.priority, generator)
        bans = _thinned(current.bans, lasting, generator)
        least = current.events + math.floor(heat * math.log(1 - generator.random()))
        trial = attempt(reach, bounds, priority, bans, events, value_aware=value_aware, least=least)
        if trial is not None:
            current = trial
            best = max(best, trial, key=lambda state: state.events)
        progress(step + 1)
    return best


def unavoidable(view: View, bounds: Bounds) -> frozenset[tuple[int, ...]]:
    """Minimal candidates below K in the source: removal never raises a support, so every method must ban them."""
    found = minimal_violations(view, bounds)
    return frozenset(tuple(row) for level in found.levels for row in level.candidates[level.reason == BELOW_K].tolist())


def _perturbed(priority: Ints, generator: np.random.Generator) -> Ints:
    """One item moved to another place of the order, or (half of the time) swapped with a neighbour."""
    order = np.argsort(priority).tolist()
    place, other = (int(number) for number in generator.integers(len(order), size=2))
    order.insert(other if generator.random() < 1 / 2 else max(place - 1, 0), order.pop(place))
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order))
    return result


def _thinned(bans: Bans, lasting: frozenset[tuple[int, ...]], generator: np.random.Generator) -> Bans:
    """The bans that no method can avoid, and a random part of the others; limited ones are found anew."""
    keep = generator.random(len(bans.candidates)) < generator.random()
    return Bans(
        tuple(
            ban
            for number, ban in enumerate(bans.candidates)
            if ban in lasting or (keep[number] and number not in bans.holders)
        )
    )
