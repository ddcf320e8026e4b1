"""The state of local suppression: bans, the rows that they reach, a projection, and the rounds that close it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.content_free import content_free
from models.eventlog import Codes, Ints, starts_of

Kept = npt.NDArray[np.bool_]
"""bool[P]: which positions of the rows' traces stay."""


@content_free()
@dataclass(frozen=True, slots=True)
class Bans:
    """Candidates that no released case may contain."""

    candidates: tuple[tuple[int, ...], ...] = ()

    def plus(self, new: Iterable[tuple[int, ...]]) -> Bans:
        """Return these bans and more."""
        return Bans(self.candidates + tuple(new))

    def by_item(self, items: int) -> tuple[Ints, Codes, Ints, Ints]:
        """Return the bans in compressed form, by ban and by item.

        Returns
        -------
        starts
            int64[N + 1], where each ban begins in `codes`.
        codes
            int32, items of the bans.
        item_starts
            int64[items + 1], where the bans of each item begin in `item_bans`.
        item_bans
            int64, numbers of the bans that contain each item.
        """
        starts, codes = flat(self.candidates)
        member = [(item, number) for number, ban in enumerate(self.candidates) for item in set(ban)]
        member.sort()
        by_item = np.searchsorted([item for item, _ in member], np.arange(items + 1)).astype(np.int64)
        return starts, codes, by_item, np.asarray([number for _, number in member], dtype=np.int64)


class Reach:
    """The rows whose source trace contains each ban, found once: whatever the priorities, a ban binds only there."""

    def __init__(self, view: TraceView) -> None:
        self.view = view
        self.rows: dict[tuple[int, ...], Ints] = {}

    def of(self, candidates: Sequence[tuple[int, ...]]) -> list[Ints]:
        """Row numbers, ascending, for each candidate."""
        from models.anonymize.local_kernels import containing

        new = [candidate for candidate in candidates if candidate not in self.rows]
        if new:
            ends, rows = containing(self.view.starts, self.view.codes, *flat(new))
            bounds = [0, *ends.tolist()]
            self.rows.update((candidate, rows[bounds[k] : bounds[k + 1]]) for k, candidate in enumerate(new))
        return [self.rows[candidate] for candidate in candidates]

    def by_row(self, bans: Bans) -> tuple[Ints, Ints]:
        """Return the bans that bind each row, as starts and ban numbers."""
        rows = self.of(bans.candidates)
        numbers = np.repeat(np.arange(len(rows)), np.asarray([len(each) for each in rows], dtype=np.int64))
        flat_rows = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
        order = np.argsort(flat_rows.astype(np.min_scalar_type(len(self.view.weight))), kind="stable")
        starts = np.searchsorted(flat_rows[order], np.arange(len(self.view.weight) + 1)).astype(np.int64)
        return starts, numbers[order]


def flat(candidates: Sequence[tuple[int, ...]]) -> tuple[Ints, Codes]:
    """Candidates one after the other: starts and codes."""
    starts = starts_of(np.asarray([len(candidate) for candidate in candidates], dtype=np.int64))
    return starts, np.asarray([code for candidate in candidates for code in candidate], dtype=np.int32)


@content_free("events", "rounds")
@dataclass(frozen=True, slots=True)
class SafeState:
    """A safe state: priorities and bans (both public), and what stays. `events`: events kept."""

    priority: Ints
    bans: Bans
    kept: Kept
    events: int
    rounds: int


def close(view: TraceView, bounds: TlkcBounds, priority: Ints, bans: Bans, events: Ints) -> SafeState:
    """Project, find the minimal violating candidates, ban them, until none is left.

    `events`: events at each position (several under `set`).
    """
    state = attempt(Reach(view), bounds, priority, bans, events)
    if state is None:
        raise AssertionError("no number of events is below 0")
    return state


def attempt(
    reach: Reach,
    bounds: TlkcBounds,
    priority: Ints,
    bans: Bans,
    events: Ints,
    *,
    least: int = 0,
) -> SafeState | None:
    """Do the same as `close`, but return None as soon as fewer than `least` events stay.

    Further bans hardly ever bring events back.
    """
    view = reach.view
    kept = np.ones(len(view.codes), dtype=np.bool_)
    project_onto(reach, priority, bans, bans.candidates, kept)
    for rounds in range(1, len(view.codes) + 2):
        amount = int(events[kept].sum())
        if amount < least:
            return None
        violations = minimal_violations(projected(view, kept), bounds)
        if not len(violations):
            return SafeState(priority, bans, kept, amount, rounds)
        new = violations.candidates()
        bans = bans.plus(new)
        project_onto(reach, priority, bans, new, kept)
    raise AssertionError("every round removes an event")


def projected(view: TraceView, kept: Kept) -> TraceView:
    """Return the view of the events that stay; rows may then repeat or be empty."""
    counts = starts_of(kept)
    return replace(view, starts=counts[view.starts], codes=view.codes[kept])


def project_onto(reach: Reach, priority: Ints, bans: Bans, new: Sequence[tuple[int, ...]], kept: Kept) -> None:
    """Rebuild the rows whose source contains a new ban: the others would come out as they are."""
    from models.anonymize.local_kernels import project

    if not new:
        return
    rows = np.unique(np.concatenate(reach.of(new)))
    project(rows, reach.view.starts, reach.view.codes, priority, kept, *flat(bans.candidates), *reach.by_row(bans))


def moved(priority: Ints, item: int, place: int) -> Ints:
    """Return the same order but for one item, which now has rank `place`."""
    order = [int(other) for other in np.argsort(priority) if other != item]
    order.insert(place, item)
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order))
    return result
