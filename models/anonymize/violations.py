"""Violating and minimal violating sets of TLKC-privacy (tlkc-privacy-extended-2021, Def. 14-16).

A candidate of 1..L items violates when fewer than K cases match it, or when some value of a sensitive attribute has
more than C of the matching cases. C is not monotone, but "contains a violating candidate" is: a level-wise search
extends only supported, non-violating candidates all of whose one-item deletions survive, and what it finds
violating is exactly the set of minimal violating candidates. All counts are integers; C is a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, starts_of

CHUNK = 1 << 20
"""Entries of the output buffers of one pass; a pass that fills them continues in the next."""

BELOW_K, ABOVE_C = 1, 2

CELLS = 1 << 20
"""Most pairs of items times classes that are counted in one table; with more the table would not fit the cache, and
pairs are counted parent by parent as larger candidates are."""

MAX_CANDIDATES = 50_000_000
"""Candidates that survive in one level before the search gives up (about 32 bytes each, times the level)."""


@dataclass(frozen=True, slots=True)
class TlkcBounds:
    """The parameters of TLKC-privacy.

    Attributes
    ----------
    L
        Items that background knowledge may have at most.
    K
        Cases that must match it at least.
    C
        Largest share of these cases that one sensitive class may have. A float is read as the decimal
        printed.
    """

    L: int
    K: int
    C: Fraction

    @classmethod
    def of(cls, L: int, K: int, C: float | str | Fraction) -> TlkcBounds:
        """Return checked bounds.

        Parameters
        ----------
        L
            Largest number of items that an adversary knows, at least 1.
        K
            Least number of matching cases, at least 1.
        C
            Largest share of one sensitive value, in (0, 1]; a float is read as the decimal that it prints.

        Raises
        ------
        InputError
            If a parameter is out of range; the message names it.
        """
        try:
            share = C if isinstance(C, Fraction) else Fraction(str(C))
        except (ValueError, ZeroDivisionError):
            raise InputError(f"C = {C!r} is not a number") from None
        if L < 1:
            raise InputError(f"L = {L} is not a positive size of background knowledge")
        if K < 1:
            raise InputError(f"K = {K} is not a positive number of cases")
        if not 0 < share <= 1:
            raise InputError(f"C = {C} is not in (0, 1]")
        return cls(L, K, share)

    def most(self, cases: int) -> Ints:
        """Return how many of 0 .. `cases` cases may have one value, int64[cases + 1].

        The table is exact for any denominator of C, whose products with counts may not fit into 64 bits.

        Parameters
        ----------
        cases
            Largest number of cases.
        """
        return _most(self.C, cases)


@lru_cache(maxsize=16)
def _most(C: Fraction, cases: int) -> Ints:
    fits = max(C.numerator * cases, C.denominator) < 1 << 63
    numbers = np.arange(cases + 1, dtype=np.int64 if fits else object)
    return (C.numerator * numbers // C.denominator).astype(np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class CandidateLevel:
    """Candidates of one size in lexicographic order.

    Attributes
    ----------
    candidates
        int32[N, size], items of each.
    support
        int64[N], cases that match.
    reason
        int32[N]: 0 nothing is wrong, BELOW_K cases, or K cases but a share ABOVE_C.
    """

    candidates: Codes
    support: Ints
    reason: Codes

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.candidates)

    def where(self, chosen: npt.NDArray[np.bool_]) -> CandidateLevel:
        """Return the chosen candidates of the level.

        Parameters
        ----------
        chosen
            bool[N].
        """
        return CandidateLevel(self.candidates[chosen], self.support[chosen], self.reason[chosen])


@content_free("counted")
@dataclass(frozen=True, slots=True)
class Violations:
    """Minimal violating candidates.

    Attributes
    ----------
    levels
        The candidates by size, 1 first.
    surviving
        Number of candidates of each size that violate nothing.
    counted
        Number of candidates whose cases were counted.
    """

    levels: tuple[CandidateLevel, ...]
    surviving: tuple[int, ...]
    counted: int

    def __len__(self) -> int:
        """Return the number of candidates of all sizes."""
        return sum(len(level) for level in self.levels)

    def candidates(self) -> list[tuple[int, ...]]:
        """Return all minimal violating candidates as code tuples, sizes ascending."""
        candidates: list[tuple[int, ...]] = []
        for level in self.levels:
            columns = level.candidates.T.tolist()
            candidates.extend(zip(*columns, strict=True))
        return candidates


def minimal_violations(view: TraceView, bounds: TlkcBounds) -> Violations:
    """Return the minimal violating candidates of sizes 1..L.

    Parameters
    ----------
    view
        The log as the adversary sees it.
    bounds
        L, K and C.

    Returns
    -------
    Violations
        By size, in lexicographic order.

    Raises
    ------
    InputError
        If more than `MAX_CANDIDATES` candidates survive in one level: no promise is made then.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 14-16.
    """
    single = single_items(view, bounds)
    fine = single.reason == 0
    minimal, surviving, counted = [single.where(~fine)], [int(fine.sum())], len(single)
    search = LevelSearch(view, single.candidates[fine, 0], bounds)
    for size in range(2, bounds.L + 1):
        if not surviving[-1]:
            break
        level = search.next_level()
        bad = level.reason > 0
        minimal.append(level.where(bad))
        surviving.append(int((~bad).sum()))
        counted += len(level)
        if surviving[-1] > MAX_CANDIDATES:
            raise InputError(
                f"more than {MAX_CANDIDATES} candidates of size {size} have {bounds.K} cases: raise K or lower L"
            )
        if size < bounds.L:
            search.keep(~bad)
    return Violations(tuple(minimal), tuple(surviving), counted)


def single_items(view: TraceView, bounds: TlkcBounds) -> CandidateLevel:
    """Return all candidates of a single item.

    Parameters
    ----------
    view
        The log as the adversary sees it.
    bounds
        L, K and C.

    Returns
    -------
    CandidateLevel
        With the items that some case has, and whether each is below K or above C.
    """
    from models.anonymize.kernels import alone

    items = len(view.alphabet)
    support, worst = np.zeros(items, dtype=np.int64), np.zeros(items, dtype=np.int64)
    columns = list(zip(view.values, view.classes, strict=True))
    if not columns:
        # Without a sensitive attribute nobody has a class: one pass still counts the supports.
        columns = [(np.full(len(view.weight), -1, dtype=np.int32), ())]
    for value, names in columns:
        alone(view.starts, view.codes, view.weight, value, len(names), support, worst)
    shares = worst > bounds.most(view.n_cases)[support]
    reason = np.where(support < bounds.K, BELOW_K, np.where(shares, ABOVE_C, 0))
    level = CandidateLevel(np.arange(items, dtype=np.int32)[:, None], support, reason.astype(np.int32))
    return level.where(support > 0)


def _sums(index: Ints, amounts: Ints, length: int) -> Ints:
    result = np.zeros(length, dtype=np.int64)
    np.add.at(result, index, amounts)
    return result


Extensions = tuple[Codes, Codes, Ints, Codes]
"""Parent and last item of each candidate, its support, and what is wrong with it."""


class LevelSearch:
    """The trie of surviving candidates, one level at a time, over the items that survive alone.

    Parameters
    ----------
    view
        The log as the adversary sees it.
    alive
        Codes of the items that survive alone.
    bounds
        L, K and C.
    """

    def __init__(self, view: TraceView, alive: Codes, bounds: TlkcBounds) -> None:
        self.bounds = bounds
        self.alive = alive.astype(np.int32)
        self.starts, self.codes = _only(view, alive)
        self.weight = view.weight
        self.most = bounds.most(view.n_cases)
        self.values, self.n_values = _heavy_classes(view, bounds)
        self.paths = np.arange(len(alive), dtype=np.int32)[:, None]
        self.deletions = np.zeros((len(alive), 1), dtype=np.int32)
        self.child_start = np.asarray([0, len(alive)], dtype=np.int64)
        self.child_item = np.arange(len(alive), dtype=np.int32)
        self.keys = np.arange(len(alive), dtype=np.int64)
        self.occurrences: tuple[Ints, Codes, Ints] | None = None

    def next_level(self) -> CandidateLevel:
        """Return every supported candidate that is one item larger and whose deletions all survive."""
        items = len(self.alive)
        small = items * items * self.n_values <= CELLS
        self.parent, self.item, support, reason = (
            self._pairs() if self.paths.shape[1] == 1 and small else self._extended()
        )
        self.next_paths = np.concatenate((self.paths[self.parent], self.item[:, None]), axis=1)
        return CandidateLevel(self.alive[self.next_paths], support, reason)

    def _pairs(self) -> Extensions:
        """Return the candidates of two items, all counted in one pass over the rows."""
        from models.anonymize.kernels import followed, judged

        items = len(self.alive)
        support = np.zeros((items, items), dtype=np.int64)
        shares = np.zeros((items, items, self.n_values), dtype=np.int64)
        followed(self.starts, self.codes, self.weight, self.values, support, shares)
        bad = np.zeros((items, items), dtype=np.int32)
        judged(support, shares, min(self.bounds.K, len(self.most)), self.most, bad)
        parent, item = np.nonzero(support > 0)
        return parent.astype(np.int32), item.astype(np.int32), support[parent, item], bad[parent, item]

    def _extended(self) -> Extensions:
        """Return the candidates of any size, counted parent by parent."""
        from models.anonymize.kernels import Cases, Extended, Parents, extend, first_occurrences

        if self.occurrences is None:
            self.occurrences = first_occurrences(self.starts, self.codes, len(self.alive))
        items = len(self.alive)
        size = max(items, min(CHUNK, items * len(self.paths)))
        buffers: list[Any] = [np.empty(size, dtype=kind) for kind in (np.int32, np.int32, np.int64, np.int32)]
        parts: list[list[npt.NDArray[Any]]] = [[], [], [], []]
        parents = Parents(self.paths, self.deletions, self.child_start, self.child_item)
        cases = Cases(self.occurrences, self.starts, self.weight, self.values)
        least = min(self.bounds.K, len(self.most))
        first = 0
        while first < len(self.paths):
            first, written = extend(first, parents, cases, items, self.n_values, least, self.most, Extended(*buffers))
            for part, buffer in zip(parts, buffers, strict=True):
                part.append(buffer[:written].copy())
        parent, item, support, reason = (np.concatenate(part) for part in parts)
        return parent, item, support, reason

    def keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Make the chosen candidates of the last level the parents of the next.

        Parameters
        ----------
        chosen
            bool[N], candidates of the last level.
        """
        parent, item = self.parent[chosen].astype(np.int64), self.item[chosen].astype(np.int64)
        deletions = np.empty((len(parent), self.paths.shape[1] + 1), dtype=np.int32)
        for k in range(self.paths.shape[1]):
            shorter = self.deletions[parent, k].astype(np.int64) * len(self.alive) + item
            deletions[:, k] = np.searchsorted(self.keys, shorter)
        deletions[:, -1] = parent
        counts = np.bincount(parent, minlength=len(self.paths))
        self.child_start = starts_of(counts)
        self.child_item = item.astype(np.int32)
        self.keys = parent * len(self.alive) + item
        self.paths, self.deletions = self.next_paths[chosen], deletions


def _only(view: TraceView, alive: Codes) -> tuple[Ints, Codes]:
    """Return starts and recoded codes of the traces, without items that do not survive alone."""
    rank = np.full(len(view.alphabet), -1, dtype=np.int32)
    rank[alive] = np.arange(len(alive), dtype=np.int32)
    keep = rank[view.codes] >= 0
    counts = starts_of(keep)
    return counts[view.starts], rank[view.codes[keep]]


def _heavy_classes(view: TraceView, bounds: TlkcBounds) -> tuple[Codes, int]:
    """int32[A, R]: classes that can exceed C at all, numbered through over all attributes; -1 for the others.

    A class of at most C * K cases can never be more than C of K or more cases, and below K a candidate is out anyway.
    """
    values = np.full(view.values.shape, -1, dtype=np.int32)
    harmless = bounds.most(view.n_cases)[min(bounds.K, view.n_cases)]
    used = 0
    for number, names in enumerate(view.classes):
        has_value = view.values[number] >= 0
        total = _sums(view.values[number][has_value], view.weight[has_value], len(names))
        heavy = total > harmless
        rank = np.where(heavy, used + np.cumsum(heavy) - 1, -1).astype(np.int32)
        values[number, has_value] = rank[view.values[number][has_value]]
        used += int(heavy.sum())
    return values, max(used, 1)
