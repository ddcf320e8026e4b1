"""The state of local suppression: bans, the rows that they reach, a projection, and the rounds that close it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.anonymize.violations import ABOVE_C, TlkcBounds, Violations, minimal_violations
from models.content_free import content_free
from models.eventlog import Codes, Ints, starts_of

Kept = npt.NDArray[np.bool_]
"""bool[P]: which positions of the rows' traces stay."""


@content_free()
@dataclass(frozen=True, slots=True)
class Bans:
    """Candidates that no released case may contain; with holders, only the listed rows may not contain it."""

    candidates: tuple[tuple[int, ...], ...] = ()
    holders: dict[int, frozenset[int]] = field(default_factory=dict)

    def plus(self, new: Iterable[tuple[int, ...]], holders: Sequence[frozenset[int] | None] = ()) -> Bans:
        """Return these bans and more; `holders[k]` limits the k-th new one to some rows."""
        added = tuple(new)
        limited = {len(self.candidates) + k: rows for k, rows in enumerate(holders) if rows is not None}
        return Bans(self.candidates + added, {**self.holders, **limited})

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
        for number, holders in bans.holders.items():
            rows[number] = np.asarray([row for row in rows[number].tolist() if row in holders], dtype=np.int64)
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


def close(
    view: TraceView, bounds: TlkcBounds, priority: Ints, bans: Bans, events: Ints, *, value_aware: bool = False
) -> SafeState:
    """Project, find the minimal violating candidates, ban them, until none is left.

    `events`: events at each position (several under `set`). Value-aware needs one case per row.
    """
    state = attempt(Reach(view), bounds, priority, bans, events, value_aware=value_aware)
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
    value_aware: bool = False,
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
        new, holders = _new_bans(view, kept, violations, bounds, value_aware)
        bans = bans.plus(new, holders)
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


def _new_bans(
    view: TraceView, kept: Kept, violations: Violations, bounds: TlkcBounds, value_aware: bool
) -> tuple[list[tuple[int, ...]], list[frozenset[int] | None]]:
    candidates = violations.candidates()
    if not value_aware:
        return candidates, []
    reasons = [int(reason) for level in violations.levels for reason in level.reason]
    return candidates, [
        fewest_holders(view, kept, candidate, bounds) if reason == ABOVE_C else None
        for candidate, reason in zip(candidates, reasons, strict=True)
    ]


def fewest_holders(
    view: TraceView, kept: Kept, candidate: tuple[int, ...], bounds: TlkcBounds
) -> frozenset[int] | None:
    """Return the fewest matching rows whose removal brings every share to at most C.

    For a value with count c among s matching cases, x removed holders suffice if c - x <= C * (s - x).

    Returns
    -------
    frozenset or None
        row numbers; None if fewer than K matching cases would stay.
    """
    from models.anonymize.local_kernels import touched

    matching = np.flatnonzero(touched(view.starts, view.codes, kept, *flat((candidate,))))
    removed: set[int] = set()
    for values, names in zip(view.values, view.classes, strict=True):
        for value in range(len(names)):
            left = np.asarray([row for row in matching if row not in removed], dtype=np.int64)
            holders = left[values[left] == value]
            over = len(holders) * bounds.C.denominator - bounds.C.numerator * len(left)
            if over > 0:
                spare = bounds.C.denominator - bounds.C.numerator
                removed.update(holders[: -(-over // spare)].tolist())
    return frozenset(removed) if len(matching) - len(removed) >= bounds.K else None
