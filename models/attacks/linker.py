"""The base linker of each n, and what it says when none exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks import flows
from models.attacks.linkability import LEAST, SUBSEQUENCE, Edges, edges
from models.attacks.pairs import Pair, Rows
from models.eventlog import Ints


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A Hall witness: `earlier` records of one sensitive value that can only be `later` < `earlier` later records.

    `least_n`: the smallest n with which the records of this value can all be linked; None where the later release
    has fewer records of the value (it changed, or cases were dropped).
    """

    value: Any
    earlier: int
    later: int
    least_n: int | None


@dataclass(slots=True)
class BaseLinker:
    """One linker for one n (as a flow over record classes), from which every candidate starts.

    `state`: see models.attacks.flows; `left`: records of the earlier release without partner (0: a linker exists).
    """

    n: int
    graph: tuple[Any, ...]
    state: tuple[Any, ...]
    left: int
    excess: Ints
    _loose: Ints | None = None

    @property
    def exists(self) -> bool:
        return self.left == 0

    def links(self) -> Ints:
        """int64[P, 3]: earlier row, later row, records; the current pairs."""
        row1, row2, amount = self.state[4], self.state[5], self.state[6]
        used = np.flatnonzero(amount > 0)
        return np.column_stack((row1[used], row2[used], amount[used]))

    def loose(self) -> Ints:
        """The links that are no subsequence pairs: only these can leave a matching set. Read once for each n."""
        if self._loose is None:
            start, later, least = self.graph[:3]
            links = self.links()
            width = len(self.state[8])
            # Edges stand sorted by earlier and then later row, so one search over joint keys finds all links.
            edge = np.repeat(np.arange(len(start) - 1), np.diff(start)) * width + later
            at = np.searchsorted(edge, links[:, 0] * width + links[:, 1])
            self._loose = links[(least[at] & SUBSEQUENCE) == 0] if len(links) else links
        return self._loose

    def reachable(self) -> npt.NDArray[np.bool_]:
        """Later rows of which some linker leaves a record free."""
        reached = np.zeros(len(self.state[8]), dtype=np.bool_)
        flows.reachable(self.state, self.graph, self.n, reached)
        return reached


def base_linkers(given: Pair, linkable: Edges, ns: Sequence[int]) -> Iterator[BaseLinker]:
    """One base linker for each n, ascending: what links with n also links with n + 1."""
    graph = linkable.graph
    state = flows.no_links(given.earlier.count, given.later.count)
    excess = given.earlier.count.astype(np.int64).copy()
    for n in sorted(ns):
        left = flows.link(state, graph, given.earlier.linked, given.later.linked, n, excess)
        yield BaseLinker(n, graph, state, int(left), excess)


def obstacles(given: Pair, base: BaseLinker) -> list[Obstacle]:
    """For each sensitive value whose records cannot all be linked with this n: a witness and its least n."""
    return [_obstacle(given, base, value) for value in np.unique(given.earlier.value[base.excess > 0]).tolist()]


def _obstacle(given: Pair, base: BaseLinker, value: int) -> Obstacle:
    seen1, seen2 = np.zeros(len(base.excess), dtype=np.bool_), np.zeros(len(base.state[8]), dtype=np.bool_)
    own = np.where(given.earlier.value == value, base.excess, 0)
    flows.hall(base.state, base.graph, base.n, own, seen1, seen2)
    return Obstacle(
        value=given.values[value],
        earlier=int(given.earlier.count[seen1].sum()),
        later=int(given.later.count[seen2].sum()),
        least_n=_least_n(restrict(given, value), base.n),
    )


def restrict(given: Pair, value: int) -> Pair:
    """The records of one sensitive value."""
    return replace(given, earlier=_only(given.earlier, value), later=_only(given.later, value))


def _only(rows: Rows, value: int) -> Rows:
    keep = rows.value == value
    return Rows(rows.linked[keep], rows.known[keep], rows.value[keep], rows.count[keep], rows.row_of_case[:0])


def _least_n(one: Pair, low: int) -> int | None:
    """Doubling, then bisection, so that links beyond the answer are not listed; with n = longest trace all link."""
    if one.earlier.n_cases > one.later.n_cases:
        return None
    longest = min(LEAST, int(np.diff(one.linked.start).max()))
    high = min(longest, 2 * low + 1)
    linkable = edges(one, high)
    while high < longest and not _exists(one, linkable, high):
        low, high = high, min(longest, 2 * high)
        linkable = edges(one, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _exists(one, linkable, middle) else (middle, high)
    return high if _exists(one, linkable, high) else None


def _exists(one: Pair, linkable: Edges, n: int) -> bool:
    return next(base_linkers(one, linkable, [n])).exists
