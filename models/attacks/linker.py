"""The base linker of each n, and what it says when none exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks import flows
from models.attacks.best_linker import fewest_leaving, most_free
from models.attacks.flows import Scratch
from models.attacks.linkability import LEAST, Edges, edges
from models.attacks.links import LOGGED, RECORDS, ROW1, ROW2, Linker, no_links, undo
from models.attacks.pairs import Pair, Rows
from models.content_free import content_free
from models.eventlog import Ints

Flags = npt.NDArray[np.bool_]

FEW = 5
"""Where the search of the least n begins to grow: to list the links of 1, 2 and 3 as well costs more than it saves."""


@content_free("earlier", "later", "least_n")
@dataclass(frozen=True, slots=True)
class Obstacle:
    """A Hall witness: `earlier` records of one sensitive value that can only be `later` < `earlier` later records.

    `least_n`: the smallest n with which the records of this value can all be linked; None where it was not asked for,
    and where no n up to 127 is enough, above all where the later release has fewer records of the value (it changed, or
    cases were dropped).
    """

    value: Any
    earlier: int
    later: int
    least_n: int | None


@content_free("n", "left")
@dataclass(frozen=True)
class BaseLinker:
    """One linker for one n (as a flow over record classes), from which every candidate starts.

    `linker`: see models.attacks.links; it moves on when the next n is asked for. `left`: records of the earlier
    release without partner (0: a linker exists), `excess`: by row.
    """

    n: int
    linkable: Edges
    linker: Linker
    scratch: Scratch
    left: int
    excess: Ints

    @property
    def exists(self) -> bool:
        return self.left == 0

    def links(self) -> Ints:
        """int64[P, 3]: earlier row, later row, records; the current pairs."""
        pairs = self.linker.pairs
        return pairs[np.flatnonzero(pairs[:, RECORDS] > 0)][:, [ROW1, ROW2, RECORDS]]

    @cached_property
    def loose(self) -> Ints:
        """The links that are no subsequence pairs: only these can leave a matching set."""
        loose = np.empty((len(self.linker.pairs), 3), dtype=np.int64)
        return loose[: flows.loose_links(self.linker, self.linkable.forward, loose)].copy()

    @cached_property
    def reachable(self) -> Flags:
        """Later rows of which some linker leaves a record free."""
        flows.reachable(self.linker, self.linkable.backward, self.n, self._rows, self.scratch)
        reached: Flags = self.scratch.came2 >= 0
        return reached

    @property
    def _rows(self) -> Ints:
        return np.asarray([0, len(self.linker.head1), 0, len(self.linker.free)], dtype=np.int64)

    def most_free(self, in2: Flags, enough: int) -> int:
        """Exact BA of a candidate, or `enough` if it is not less; changes the linker until `undo`."""
        return int(most_free(self.linker, self.linkable.backward, self.n, in2, self._rows, enough, self.scratch))

    def fewest_leaving(self, in1: Flags, in2: Flags) -> int:
        """|ms1| - M of a candidate; changes the linker until `undo`."""
        loose = self.loose
        if not (in1[loose[:, 0]] & ~in2[loose[:, 1]]).any():
            return 0
        return int(fewest_leaving(self.linker, self.linkable.forward, self.n, in1, in2, loose, self.scratch))

    def undo(self) -> None:
        """Back to the base linker."""
        if self.linker.used[LOGGED]:
            undo(self.linker)


def base_linkers(given: Pair, linkable: Edges, ns: Sequence[int]) -> Iterator[BaseLinker]:
    """One base linker for each n, ascending: what links with n also links with n + 1. Use each before the next."""
    linker = no_links(given.earlier.count, given.later.count)
    scratch = flows.scratch_for(len(given.earlier.count), len(given.later.count))
    left = given.earlier.count.astype(np.int64)
    for n in sorted(ns):
        scratch.excess[:] = left
        found = flows.link(linker, linkable.forward, given.earlier.linked, given.later.linked, n, scratch)
        left = scratch.excess.copy()
        yield BaseLinker(n, linkable, linker, scratch, found, left)


def obstacles(given: Pair, base: BaseLinker, found: dict[int, int | None] | None, most: int) -> list[Obstacle]:
    """For each sensitive value whose records cannot all be linked with this n: a witness and its least n. `found`:
    the least n of each value that had none with a smaller n either; memoised: expensive and independent of n.
    None: it is not asked for. `most`: the largest n of the audit, the first to be tried."""
    values = np.unique(given.earlier.value[base.excess > 0]).tolist()
    if found is None:
        return [_obstacle(given, base, value, None) for value in values]
    for value in values:
        if value not in found:
            found[value] = _least_n(restrict(given, value), base.n, most)
    return [_obstacle(given, base, value, found[value]) for value in values]


def _obstacle(given: Pair, base: BaseLinker, value: int, least: int | None) -> Obstacle:
    own = np.where(given.earlier.value == value, base.excess, 0)
    seen1, seen2 = flows.hall(base.linker, base.linkable.forward, base.n, own)
    return Obstacle(
        value=given.values[value],
        earlier=int(given.earlier.count[seen1].sum()),
        later=int(given.later.count[seen2].sum()),
        least_n=least,
    )


def restrict(given: Pair, value: int) -> Pair:
    """The records of one sensitive value."""
    return replace(given, earlier=_only(given.earlier, value), later=_only(given.later, value))


def _only(rows: Rows, value: int) -> Rows:
    keep = rows.value == value
    return Rows(rows.linked[keep], rows.known[keep], rows.value[keep], rows.count[keep], rows.row_of_case[:0])


def _least_n(one: Pair, low: int, high: int) -> int | None:
    """Growing by half, then bisection, so that links far beyond the answer are not listed; with n = longest trace all
    link. `low`: an n without a linker; `high`: where to begin."""
    if one.earlier.n_cases > one.later.n_cases:
        return None
    longest = min(LEAST, int(np.diff(one.linked.start).max()))
    high = min(longest, high if high > low else _more(low))
    linkable = edges(one, high)
    while high < longest and not _exists(one, linkable, high):
        low, high = high, min(longest, _more(high))
        linkable = edges(one, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _exists(one, linkable, middle) else (middle, high)
    return high if _exists(one, linkable, high) else None


def _more(n: int) -> int:
    return max(FEW, n + 1, n + n // 2)


def _exists(one: Pair, linkable: Edges, n: int) -> bool:
    return next(base_linkers(one, linkable, [n])).exists
