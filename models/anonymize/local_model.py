"""The state of local suppression: bans, the rows that they reach, a projection, and the rounds that close it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.content_free import content_free
from models.eventlog import Codes, Flags, Ints, places_of, starts_of


@content_free()
@dataclass(frozen=True, slots=True, eq=False)
class Bans:
    """Candidates that no released case may contain.

    A log of many activities has hundreds of thousands of them, so they are arrays.

    Attributes
    ----------
    starts : int64[N + 1]
        Where each candidate begins in `codes`.
    codes : int32
        Items of the candidates.
    """

    starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    codes: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    @classmethod
    def of(cls, candidates: Sequence[tuple[int, ...]]) -> Bans:
        """Return the bans of candidates that are written as tuples.

        Parameters
        ----------
        candidates
            Item codes of each candidate.
        """
        starts = starts_of(np.asarray([len(candidate) for candidate in candidates], dtype=np.int64))
        codes = np.asarray([code for candidate in candidates for code in candidate], dtype=np.int32)
        return cls(starts, codes)

    @classmethod
    def of_levels(cls, levels: Sequence[Codes]) -> Bans:
        """Return the bans of candidates that are sorted by their size.

        Parameters
        ----------
        levels
            int32[N, size], the candidates of each size.
        """
        sizes = [level.shape[1] for level in levels]
        candidates_of_size = [len(level) for level in levels]
        lengths = np.repeat(sizes, candidates_of_size)
        codes = [np.empty(0, dtype=np.int32), *(level.ravel() for level in levels)]
        return cls(starts_of(lengths), np.concatenate(codes))

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.starts) - 1

    @property
    def candidates(self) -> list[tuple[int, ...]]:
        """The candidates as tuples."""
        codes = self.codes.tolist()
        return [tuple(codes[begin:end]) for begin, end in itertools.pairwise(self.starts.tolist())]

    @property
    def alone(self) -> Codes:
        """Items that are a ban by themselves."""
        items: Codes = self.codes[self.starts[:-1][np.diff(self.starts) == 1]]
        return items

    @property
    def by_first_item(self) -> Bans:
        """The same candidates in the order of their first item."""
        starts, places = places_of(self.starts, np.argsort(self.codes[self.starts[:-1]], kind="stable"))
        return Bans(starts, self.codes[places])

    @property
    def ban_of_code(self) -> Ints:
        """Place of the candidate that each item of `codes` belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def naming(self, items: Collection[int]) -> Flags:
        """Return bool[N]: the candidates that have each of some items.

        Parameters
        ----------
        items
            Codes of items.
        """
        names_all = np.ones(len(self), dtype=np.bool_)
        for item in items:
            names_item = np.zeros(len(self), dtype=np.bool_)
            names_item[self.ban_of_code[self.codes == item]] = True
            names_all &= names_item
        return names_all

    def where(self, chosen: Flags) -> Bans:
        """Return the chosen candidates.

        Parameters
        ----------
        chosen
            bool[N].
        """
        starts, places = places_of(self.starts, np.flatnonzero(chosen))
        return Bans(starts, self.codes[places])

    def plus(self, more: Bans) -> Bans:
        """Return these bans and more.

        Parameters
        ----------
        more
            Candidates that follow these.
        """
        starts = np.concatenate((self.starts, self.starts[-1] + more.starts[1:]))
        return Bans(starts, np.concatenate((self.codes, more.codes)))

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
        starts, codes = self.starts, self.codes
        # Each ban in the order in which its events enter.
        entering = codes[np.lexsort((priority[codes], self.ban_of_code))]

        longer = np.flatnonzero(np.diff(starts) > 1)
        trigger = entering[starts[longer + 1] - 2]
        order = np.argsort(trigger, kind="stable")
        longer = longer[order]
        trigger_starts = np.searchsorted(trigger[order], np.arange(len(priority) + 1)).astype(np.int64)
        ban_starts, places = places_of(starts, longer)
        return ban_starts, codes[places], entering[starts[longer + 1] - 1], trigger_starts, self.alone


class Reach:
    """The rows whose source trace contains each ban, found once: whatever the priorities, a ban binds only there.

    A search compares thousands of lists of bans that have most bans in common. So every ban has a number here, and a
    list of bans is put together from arrays.

    Parameters
    ----------
    view
        The source as the adversary sees it.
    """

    def __init__(self, view: TraceView) -> None:
        self.view = view
        # By size of the candidates: their keys, ascending, and the number of each.
        self._numbers: dict[int, tuple[npt.NDArray[Any], Ints]] = {}
        # Candidate n is `_codes[_starts[n] : _starts[n + 1]]`; `_rows[_row_starts[n] : _row_starts[n + 1]]` contain it.
        self._starts = self._row_starts = np.zeros(1, dtype=np.int64)
        self._codes = np.empty(0, dtype=np.int32)
        self._masks = np.empty(0, dtype=np.uint64)  # of each candidate: its items as bits
        self._rows = np.empty(0, dtype=np.int32)
        self._contained: tuple[Ints, Codes] | None = None  # by row, of all candidates so far

    def numbers(self, bans: Bans) -> Ints:
        """Return the number of each candidate, int64[N]; those that are met for the first time are compared.

        Parameters
        ----------
        bans
            Candidates. New ones are compared with all rows, and numbered.
        """
        numbers = np.empty(len(bans), dtype=np.int64)
        lengths = np.diff(bans.starts)
        for size in np.flatnonzero(np.bincount(lengths)).tolist():
            of_size = np.flatnonzero(lengths == size)
            _, places = places_of(bans.starts, of_size)
            numbers[of_size] = self._numbers_of_size(bans.codes[places].reshape(-1, size))
        return numbers

    def _numbers_of_size(self, candidates: Codes) -> Ints:
        """Return the number of each of some candidates of one size, int32[N, size]."""
        size = candidates.shape[1]
        keys = _keys(candidates, len(self.view.alphabet))
        numbered_keys, numbers = self._numbers.get(size, (keys[:0], np.empty(0, dtype=np.int64)))
        places = np.searchsorted(numbered_keys, keys)
        is_new = places == len(numbered_keys)
        is_new[~is_new] = numbered_keys[places[~is_new]] != keys[~is_new]
        if not is_new.any():
            return numbers[places]
        new_keys, first = np.unique(keys[is_new], return_index=True)
        new_numbers = self._compare(candidates[is_new][first])
        into = np.searchsorted(numbered_keys, new_keys)  # keys ascend
        numbered_keys = np.insert(numbered_keys, into, new_keys)
        numbers = np.insert(numbers, into, new_numbers)
        self._numbers[size] = numbered_keys, numbers
        return numbers[np.searchsorted(numbered_keys, keys)]

    def _compare(self, candidates: Codes) -> Ints:
        """Find the rows that contain each of some new candidates, int32[N, size], and return their new numbers.

        Numbers follow the first row: the bans of a row, which a projection reads together, are neighbours
        in memory.
        """
        from models.anonymize.local_kernels import containing, masks_of

        new = Bans.of_levels([candidates])
        row_ends, rows = containing(self.view.starts, self.view.codes, new.starts, new.codes)
        row_starts = np.concatenate(([0], row_ends))
        by_first_row = np.argsort(np.append(rows, len(self.view.weight))[row_starts[:-1]], kind="stable")
        row_starts, places = places_of(row_starts, by_first_row)
        new = Bans.of_levels([candidates[by_first_row]])

        numbers = np.empty(len(candidates), dtype=np.int64)
        numbers[by_first_row] = len(self._masks) + np.arange(len(candidates))
        self._starts = np.concatenate((self._starts, self._starts[-1] + new.starts[1:]))
        self._codes = np.concatenate((self._codes, new.codes))
        self._masks = np.concatenate((self._masks, masks_of(new.starts, new.codes)))
        self._row_starts = np.concatenate((self._row_starts, self._row_starts[-1] + row_starts[1:]))
        self._rows = np.concatenate((self._rows, rows[places]))
        self._contained = None
        return numbers

    def bans(self, numbers: Ints) -> Bans:
        """Return the numbered candidates.

        Parameters
        ----------
        numbers
            int64, numbers of candidates, as `numbers` returns them.
        """
        starts, places = places_of(self._starts, numbers)
        return Bans(starts, self._codes[places])

    def rows_with_any(self, numbers: Ints) -> Ints:
        """Return the rows that contain at least one of the numbered candidates, ascending.

        Parameters
        ----------
        numbers
            int64, numbers of candidates.
        """
        _, places = places_of(self._row_starts, numbers)
        contains_any = np.zeros(len(self.view.weight), dtype=np.bool_)
        contains_any[self._rows[places]] = True
        return np.flatnonzero(contains_any)

    def counts(self, bans: Bans) -> Ints:
        """Return the number of rows that contain each candidate.

        Parameters
        ----------
        bans
            Candidates.

        Returns
        -------
        Ints
            int64[N].
        """
        numbers = self.numbers(bans)  # which may add rows
        counts: Ints = np.diff(self._row_starts)[numbers]
        return counts

    def project(self, rows: Ints, numbers: Ints, priority: Ints, kept: Flags) -> None:
        """Set `kept` for some rows to the events that stay under numbered bans and priorities.

        Parameters
        ----------
        rows
            int64, rows to rebuild.
        numbers
            int64, numbers of the bans.
        priority
            int64[items], rank of each item, 0 enters first.
        kept
            bool[P], set at the positions of these rows.
        """
        from models.anonymize.local_kernels import project

        view, candidates = self.view, (self._starts, self._codes, self._masks)
        is_ban = np.zeros(len(self._masks), dtype=np.bool_)
        is_ban[numbers] = True
        project(rows, view.starts, view.codes, priority, kept, *candidates, *self._contained_by_row(), is_ban)

    def _contained_by_row(self) -> tuple[Ints, Codes]:
        """Return where the candidates of each row begin, and the numbers of those that it contains."""
        if self._contained is None:
            n_rows = len(self.view.weight)
            by_row = np.argsort(self._rows.astype(np.min_scalar_type(n_rows)), kind="stable")
            number_of_pair = np.repeat(np.arange(len(self._masks), dtype=np.int32), np.diff(self._row_starts))
            self._contained = starts_of(np.bincount(self._rows, minlength=n_rows)), number_of_pair[by_row]
        return self._contained


def _keys(candidates: Codes, n_items: int) -> npt.NDArray[Any]:
    """Return a key for each candidate, int32[N, size]; keys sort as the candidates do."""
    size, bits = candidates.shape[1], n_items.bit_length()
    if size * bits < 64:
        numbers = np.zeros(len(candidates), dtype=np.int64)
        for item in candidates.T:
            numbers = numbers << bits | item
        return numbers
    # Texts of big-endian bytes: any length, and some four times as slow to compare.
    return np.ascontiguousarray(candidates, dtype=">i4").view(f"S{4 * size}").ravel()


@content_free("events", "rounds")
@dataclass(frozen=True, slots=True)
class SafeState:
    """A safe state: priorities and bans, which are both public, and the events that stay.

    Attributes
    ----------
    numbers : int64[N]
        The numbers of the bans in the `Reach` of the search.
    kept : bool[P]
        The positions of the rows' traces that stay.
    events : int
        Number of events that stay.
    rounds : int
        Rounds of the search.
    """

    priority: Ints
    bans: Bans
    numbers: Ints
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
) -> SafeState:
    """Project, find the minimal violating candidates, ban them, until none is left.

    Parameters
    ----------
    reach
        The rows.
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
    state = attempt(reach, bounds, priority, reach.numbers(bans), events, cases=cases)
    if state is None:
        raise AssertionError("no number of events is below 0")
    return state


def attempt(
    reach: Reach,
    bounds: TlkcBounds,
    priority: Ints,
    numbers: Ints,
    events: Ints,
    *,
    cases: Ints | None = None,
    least: int = 0,
) -> SafeState | None:
    """Do the same as `close` for numbered bans, but return None as soon as fewer than `least` events stay.

    Further bans hardly ever bring events back.

    Parameters
    ----------
    reach
        Rows that contain each candidate.
    bounds
        L, K and C.
    priority
        int64[items], rank of each item, 0 enters first.
    numbers
        int64, numbers of the bans at the beginning.
    events
        int64[P], number (or value) of the events at each position.
    cases
        int64[R], cases of each row, if they are others than those of the view.
    least
        Events that must stay.

    Returns
    -------
    SafeState or None
        The bans at which no candidate violates any more, and what stays under them.
    """
    view = reach.view if cases is None else replace(reach.view, weight=cases)
    has_cases = view.weight > 0
    kept = np.repeat(has_cases, np.diff(view.starts))
    _rebuild(reach, has_cases, priority, numbers, numbers, kept)
    for rounds in range(1, len(view.codes) + 2):
        amount = int(events[kept].sum())
        if amount < least:
            return None
        violations = minimal_violations(projected(view, kept), bounds)
        if not len(violations):
            return SafeState(priority, reach.bans(numbers), numbers, kept, amount, rounds)
        new_numbers = reach.numbers(Bans.of_levels([level.candidates for level in violations.levels]))
        numbers = np.concatenate((numbers, new_numbers))
        _rebuild(reach, has_cases, priority, numbers, new_numbers, kept)
    raise AssertionError("every round removes an event")


def projected(view: TraceView, kept: Flags) -> TraceView:
    """Return the view of the events that stay; rows may then repeat or be empty.

    Parameters
    ----------
    view
        The log as the adversary sees it.
    kept
        bool[P], events that stay.
    """
    counts = starts_of(kept)
    return replace(view, starts=counts[view.starts], codes=view.codes[kept])


def project_onto(reach: Reach, priority: Ints, numbers: Ints) -> Flags:
    """Return the events of the view of `reach` that stay under numbered bans and priorities.

    Parameters
    ----------
    reach
        Rows that contain each candidate.
    priority
        int64[items], rank of each item, 0 enters first.
    numbers
        int64, numbers of the bans.

    Returns
    -------
    Flags
        bool[P].
    """
    kept = np.ones(len(reach.view.codes), dtype=np.bool_)
    _rebuild(reach, reach.view.weight > 0, priority, numbers, numbers, kept)
    return kept


def _rebuild(
    reach: Reach,
    has_cases: Flags,
    priority: Ints,
    numbers: Ints,
    new_numbers: Ints,
    kept: Flags,
) -> None:
    """Set `kept` anew for the rows with cases whose source contains a new ban: the others stay as they are."""
    rows = reach.rows_with_any(new_numbers)
    rows = rows[has_cases[rows]]
    if len(rows):
        reach.project(rows, numbers, priority, kept)


def ranks(order: Sequence[int]) -> Ints:
    """Return the rank of each item, 0 first, given the items in order.

    Parameters
    ----------
    order
        Each item once.

    Returns
    -------
    Ints
        int64[items].
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def moved(priority: Ints, item: int, place: int) -> Ints:
    """Return the same order but for one item, which now has rank `place`.

    Parameters
    ----------
    priority
        int64[items], rank of each item.
    item, place
        The item, and its new rank.
    """
    order = [int(other) for other in np.argsort(priority) if other != item]
    order.insert(place, item)
    return ranks(order)
