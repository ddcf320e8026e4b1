"""The state of local suppression: bans, the rows that they reach, a projection, and the rounds that close it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from models.anonymize.view import TraceView
from models.anonymize.violations import ABOVE_C, TlkcBounds, Violations, minimal_violations
from models.content_free import content_free
from models.eventlog import Codes, Flags, Ints, places_of, starts_of


@content_free()
@dataclass(frozen=True, slots=True)
class Bans:
    """Candidates that no released case may contain; with holders, only the listed rows may not contain it."""

    candidates: tuple[tuple[int, ...], ...] = ()
    holders: dict[int, frozenset[int]] = field(default_factory=dict)

    def plus(self, new: Iterable[tuple[int, ...]], holders: Sequence[frozenset[int] | None] = ()) -> Bans:
        """Return these bans and more; `holders[k]` limits the k-th new one to some rows."""
        first_new = len(self.candidates)
        limited = {first_new + k: rows for k, rows in enumerate(holders) if rows is not None}
        return Bans((*self.candidates, *new), {**self.holders, **limited})

    def by_trigger(self, priority: Ints) -> tuple[Ints, Codes, Codes, Ints, Codes]:
        """Return the bans by an item that a released trace must show for the ban to hide an event.

        Of the events of a ban the one that enters last is hidden, and only if the trace shows all others. The trigger
        is the one of these that enters last: frequent items enter first, so it is the rarest of them.

        Parameters
        ----------
        priority
            int64[items], rank of each item, 0 enters first.

        Returns
        -------
        starts
            int64[N + 1], where each ban of several events begins in `codes`.
        codes
            int32, items of these bans.
        hidden
            int32[N], the item of each ban that enters last.
        trigger_starts
            int64[items + 1], where the bans of each trigger begin.
        alone
            int32, items that are a ban without any other event.
        """
        starts, codes = flat(self.candidates)
        lengths = np.diff(starts)
        ban_of_code = np.repeat(np.arange(len(lengths)), lengths)
        # Each ban in the order in which its events enter.
        entering = codes[np.lexsort((priority[codes], ban_of_code))]
        alone = entering[starts[:-1][lengths == 1]]

        longer = np.flatnonzero(lengths > 1)
        trigger = entering[starts[longer + 1] - 2]
        order = np.argsort(trigger, kind="stable")
        longer = longer[order]
        trigger_starts = np.searchsorted(trigger[order], np.arange(len(priority) + 1)).astype(np.int64)
        ban_starts, places = places_of(starts, longer)
        return ban_starts, codes[places], entering[starts[longer + 1] - 1], trigger_starts, alone


class Reach:
    """The rows whose source trace contains each ban, found once: whatever the priorities, a ban binds only there.

    A search compares thousands of lists of bans that have most bans in common. So every ban has a number here, and a
    list of bans is put together from arrays.
    """

    def __init__(self, view: TraceView) -> None:
        self.view = view
        self._numbers: dict[tuple[int, ...], int] = {}
        # Candidate n is `_codes[_starts[n] : _starts[n + 1]]`; `_rows[_row_starts[n] : _row_starts[n + 1]]` contain it.
        self._starts = self._row_starts = np.zeros(1, dtype=np.int64)
        self._codes = np.empty(0, dtype=np.int32)
        self._rows = np.empty(0, dtype=np.int64)

    def numbers(self, candidates: Sequence[tuple[int, ...]]) -> Ints:
        """Return the number of each candidate, int64[N]; those that are met for the first time are compared."""
        from models.anonymize.local_kernels import containing

        new = list(dict.fromkeys(candidate for candidate in candidates if candidate not in self._numbers))
        if new:
            starts, codes = flat(new)
            row_ends, rows = containing(self.view.starts, self.view.codes, starts, codes)
            self._numbers.update(zip(new, itertools.count(len(self._numbers))))
            self._starts = np.concatenate((self._starts, self._starts[-1] + starts[1:]))
            self._codes = np.concatenate((self._codes, codes))
            self._row_starts = np.concatenate((self._row_starts, self._row_starts[-1] + row_ends))
            self._rows = np.concatenate((self._rows, rows))
        return np.fromiter(map(self._numbers.__getitem__, candidates), dtype=np.int64, count=len(candidates))

    def rows_with_any(self, numbers: Ints) -> Ints:
        """Return the rows that contain at least one of the numbered candidates, ascending."""
        _, places = places_of(self._row_starts, numbers)
        contains_any = np.zeros(len(self.view.weight), dtype=np.bool_)
        contains_any[self._rows[places]] = True
        return np.flatnonzero(contains_any)

    def counts(self, candidates: Sequence[tuple[int, ...]]) -> Ints:
        """Return the number of rows that contain each candidate."""
        numbers = self.numbers(candidates)  # which may add rows
        counts: Ints = np.diff(self._row_starts)[numbers]
        return counts

    def binding(
        self, numbers: Ints, holders: Mapping[int, Collection[int]], rows: Ints
    ) -> tuple[Ints, Codes, Ints, Ints]:
        """Return the bans in compressed form, and the bans that bind each of some rows.

        Parameters
        ----------
        numbers
            int64[N], the number of each ban.
        holders
            as in `Bans`.
        rows
            the rows that are asked for; the others get no bans.

        Returns
        -------
        starts
            int64[N + 1], where each ban begins in `codes`.
        codes
            int32, items of the bans.
        row_starts
            int64[R + 1], where the bans of each row begin in `row_bans`.
        row_bans
            int64, which of the N bans bind each row.
        """
        n_rows = len(self.view.weight)
        is_asked = np.zeros(n_rows, dtype=np.bool_)
        is_asked[rows] = True

        starts, code_places = places_of(self._starts, numbers)
        by_ban, row_places = places_of(self._row_starts, numbers)
        row_of_pair = self._rows[row_places]  # a pair is a ban and a row that contains it
        binds = is_asked[row_of_pair]
        for number, holding_rows in holders.items():
            part = slice(by_ban[number], by_ban[number + 1])
            binds[part] &= np.isin(row_of_pair[part], list(holding_rows))
        ban_of_pair = np.repeat(np.arange(len(numbers)), np.diff(by_ban))[binds]
        row_of_pair = row_of_pair[binds]

        order = np.argsort(row_of_pair.astype(np.min_scalar_type(n_rows)), kind="stable")
        row_starts = np.searchsorted(row_of_pair[order], np.arange(n_rows + 1)).astype(np.int64)
        return starts, self._codes[code_places], row_starts, ban_of_pair[order]


def flat(candidates: Sequence[tuple[int, ...]]) -> tuple[Ints, Codes]:
    """Return candidates one after the other: starts and codes."""
    starts = starts_of(np.asarray([len(candidate) for candidate in candidates], dtype=np.int64))
    return starts, np.asarray([code for candidate in candidates for code in candidate], dtype=np.int32)


@content_free("events", "rounds")
@dataclass(frozen=True, slots=True)
class SafeState:
    """A safe state: priorities and bans, which are both public, and the events that stay.

    Attributes
    ----------
    kept : bool[P]
        The positions of the rows' traces that stay.
    events : int
        Number of events that stay.
    rounds : int
        Rounds of the search.
    """

    priority: Ints
    bans: Bans
    kept: Flags
    events: int
    rounds: int


def close(
    reach: Reach,
    bounds: TlkcBounds,
    priority: Ints,
    bans: Bans,
    events: Ints,
    *,
    cases: Ints | None = None,
    value_aware: bool = False,
) -> SafeState:
    """Project, find the minimal violating candidates, ban them, until none is left.

    Parameters
    ----------
    reach
        The rows, one per case if `value_aware`.
    bounds
        L, K and C.
    priority
        Rank of each item, 0 enters first.
    bans
        Candidates that no case may contain from the start.
    events
        int64[P], value of the events at each position (several events under `set`).
    cases
        int64[R], number of cases of each row that are published, in place of those of the view. A row without
        cases keeps nothing.
    """
    state = attempt(reach, bounds, priority, bans, events, cases=cases, value_aware=value_aware)
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
    cases: Ints | None = None,
    value_aware: bool = False,
    least: int = 0,
) -> SafeState | None:
    """Do the same as `close`, but return None as soon as fewer than `least` events stay.

    Further bans hardly ever bring events back.
    """
    view = reach.view if cases is None else replace(reach.view, weight=cases)
    has_cases = view.weight > 0
    kept = np.repeat(has_cases, np.diff(view.starts))
    numbers = reach.numbers(bans.candidates)
    _rebuild(reach, has_cases, priority, numbers, bans, numbers, kept)
    for rounds in range(1, len(view.codes) + 2):
        amount = int(events[kept].sum())
        if amount < least:
            return None
        violations = minimal_violations(projected(view, kept), bounds)
        if not len(violations):
            return SafeState(priority, bans, kept, amount, rounds)
        new, holders = _new_bans(view, kept, violations, bounds, value_aware)
        bans = bans.plus(new, holders)
        new_numbers = reach.numbers(new)
        numbers = np.concatenate((numbers, new_numbers))
        _rebuild(reach, has_cases, priority, numbers, bans, new_numbers, kept)
    raise AssertionError("every round removes an event")


def projected(view: TraceView, kept: Flags) -> TraceView:
    """Return the view of the events that stay; rows may then repeat or be empty."""
    counts = starts_of(kept)
    return replace(view, starts=counts[view.starts], codes=view.codes[kept])


def project_onto(reach: Reach, priority: Ints, bans: Bans) -> Flags:
    """Return the events of the view of `reach` that stay under bans and priorities."""
    kept = np.ones(len(reach.view.codes), dtype=np.bool_)
    numbers = reach.numbers(bans.candidates)
    _rebuild(reach, reach.view.weight > 0, priority, numbers, bans, numbers, kept)
    return kept


def _rebuild(
    reach: Reach, has_cases: Flags, priority: Ints, numbers: Ints, bans: Bans, new_numbers: Ints, kept: Flags
) -> None:
    """Rebuild the rows with cases whose source contains a new ban: the others would come out as they are."""
    from models.anonymize.local_kernels import project

    rows = reach.rows_with_any(new_numbers)
    rows = rows[has_cases[rows]]
    if len(rows):
        binding = reach.binding(numbers, bans.holders, rows)
        project(rows, reach.view.starts, reach.view.codes, priority, kept, *binding)


def ranks(order: Sequence[int]) -> Ints:
    """Return the rank of each item, 0 first, given the items in order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def moved(priority: Ints, item: int, place: int) -> Ints:
    """Return the same order but for one item, which now has rank `place`."""
    order = [int(other) for other in np.argsort(priority) if other != item]
    order.insert(place, item)
    return ranks(order)


def _new_bans(
    view: TraceView, kept: Flags, violations: Violations, bounds: TlkcBounds, value_aware: bool
) -> tuple[list[tuple[int, ...]], list[frozenset[int] | None]]:
    """Return the candidates to ban, and the rows that each binds.

    None binds all rows; an empty list has None for each candidate.
    """
    candidates = violations.candidates()
    if not value_aware:
        return candidates, []
    holders = []
    reasons = [int(reason) for level in violations.levels for reason in level.reason]
    for candidate, reason in zip(candidates, reasons, strict=True):
        is_cured_by_few = reason == ABOVE_C
        holders.append(fewest_holders(view, kept, candidate, bounds) if is_cured_by_few else None)
    return candidates, holders


def fewest_holders(
    view: TraceView, kept: Flags, candidate: tuple[int, ...], bounds: TlkcBounds
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
            remaining = np.asarray([row for row in matching if row not in removed], dtype=np.int64)
            holders = remaining[values[remaining] == value]
            over = len(holders) * bounds.C.denominator - bounds.C.numerator * len(remaining)
            if over > 0:
                slack = bounds.C.denominator - bounds.C.numerator  # above 0: a share of 1 is never exceeded
                n_removed = -(-over // slack)  # rounded up
                removed.update(holders[:n_removed].tolist())
    if len(matching) - len(removed) >= bounds.K:
        return frozenset(removed)
    return None
