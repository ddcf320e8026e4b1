"""The base linker of each n: of one pair, followed through a series, and its witness where none exists.

A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). The exact attacks
ask about the best of all linkers for each background knowledge. They start from one linker for each n, the base linker,
and change it along residual paths (models.attacks.flows). A pair of releases is a series of two: its base linkers are
built once (`base_linkers`). Over a longer series they move from one earlier release to the next (`FollowedLinker`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks import flows
from models.attacks.flows import (
    LOGGED,
    RECORDS,
    ROW1,
    ROW2,
    Linker,
    Scratch,
    fewest_leaving,
    most_free,
    undo,
)
from models.attacks.linkability import LEAST, SUBSEQUENCE, Edges, Listed, edges
from models.attacks.numbering import SharedClasses
from models.attacks.pairs import RecordClasses, ReleasePair
from models.content_free import content_free
from models.eventlog import Ints

Flags = npt.NDArray[np.bool_]

FIRST_N = 5
"""The search of the least n tries no smaller n than this: to list the links of 1, 2 and 3 costs more than it saves."""


@content_free("earlier", "later", "least_n")
@dataclass(frozen=True, slots=True)
class Obstacle:
    """A Hall witness: records of one sensitive value that link to fewer later records than they are.

    Parameters
    ----------
    value
        The sensitive value.
    earlier, later
        `earlier` records of the earlier release can only be `later` < `earlier` records of the later one.
    least_n
        The smallest n with which the records of this value can all be linked. None if it was not asked for, or if no n
        up to 127 is enough: above all where the later release has fewer records of the value.
    """

    value: Any
    earlier: int
    later: int
    least_n: int | None


@content_free("n", "left")
@dataclass(frozen=True)
class BaseLinker:
    """One linker for one n, as a flow over record classes, from which every candidate starts.

    Parameters
    ----------
    n
        Events removed at most.
    linkable
        Linkable pairs of record classes.
    linker, scratch
        The arrays of models.attacks.flows. They move on when the next n is asked for.
    left
        Records of the earlier release without a partner; 0 if a linker exists.
    excess
        int64[earlier rows], these by row.
    """

    n: int
    linkable: Edges
    linker: Linker
    scratch: Scratch
    left: int
    excess: Ints

    @property
    def exists(self) -> bool:
        """Whether a linker exists for this n."""
        return self.left == 0

    def links(self) -> Ints:
        """Return the current pairs: int64[P, 3], earlier row, later row, records."""
        pairs = self.linker.pairs
        used = np.flatnonzero(pairs[:, RECORDS] > 0)
        return pairs[used][:, [ROW1, ROW2, RECORDS]]

    @cached_property
    def loose(self) -> Ints:
        """The links that are no subsequence pairs: only these can leave a matching set."""
        room = np.empty((len(self.linker.pairs), 3), dtype=np.int64)
        filled = flows.loose_links(self.linker, self.linkable.forward, room)
        return room[:filled].copy()

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
        """Return the exact BA of a candidate, or `enough` if it is not less. Changes the linker until `undo`."""
        return int(most_free(self.linker, self.linkable.backward, self.n, in2, self._rows, enough, self.scratch))

    def fewest_leaving(self, in1: Flags, in2: Flags) -> int:
        """Return |ms1| - M of a candidate. Changes the linker until `undo`."""
        loose = self.loose
        if not (in1[loose[:, 0]] & ~in2[loose[:, 1]]).any():
            return 0
        return int(fewest_leaving(self.linker, self.linkable.forward, self.n, in1, in2, loose, self.scratch))

    def undo(self) -> None:
        """Go back to the base linker."""
        if self.linker.used[LOGGED]:
            undo(self.linker)


def base_linkers(pair: ReleasePair, linkable: Edges, ns: Sequence[int], records: int = 0) -> Iterator[BaseLinker]:
    """Yield one base linker for each n, ascending: what links with n also links with n + 1.

    Use each before the next: all of them go on in the same arrays.

    Parameters
    ----------
    pair, linkable
        The releases and their linkable pairs, up to the largest n.
    ns
        Events removed at most.
    records
        Records that an earlier release may hold to which the linker moves later on, if these are more.
    """
    linker = flows.empty_linker(pair.earlier.count, pair.later.count, records)
    scratch = flows.scratch_for(len(pair.earlier.count), len(pair.later.count))
    excess = pair.earlier.count.astype(np.int64)
    for n in sorted(ns):
        scratch.excess[:] = excess
        left = flows.extend_linker(linker, linkable.forward, pair.earlier.linked, pair.later.linked, n, scratch)
        excess = scratch.excess.copy()
        yield BaseLinker(n, linkable, linker, scratch, left, excess)


@content_free("n")
@dataclass
class FollowedLinker:
    """The base linker of one n, which moves from one earlier release of a series to the next.

    A base linker takes most of the time of a pair: it places every record of the earlier release. Between neighbours
    of a series few records differ. So the links of records that the next release does not hold are taken out, the
    records that it holds besides find their place, and all other links stay. The result of a search does not depend on
    the linker that it starts from.

    Parameters
    ----------
    n
        Events removed at most.
    classes
        The record classes among which the linker moves.
    linker
        Its arrays, for this n alone.
    count
        int64[earlier classes], records that it holds.
    excess
        int64[earlier classes], those of them without a partner.
    """

    n: int
    classes: SharedClasses
    linker: Linker
    count: Ints
    excess: Ints
    _links: Listed = field(init=False)
    _subsequence_links: Listed = field(init=False)

    def __post_init__(self) -> None:
        """Select the links of this n."""
        self._select_links()

    @classmethod
    def each(
        cls, pair: ReleasePair, classes: SharedClasses, ns: Sequence[int], records: int
    ) -> Iterator[FollowedLinker]:
        """Yield one for each n, ascending, that holds the earlier release of `pair`.

        `records`: the most records of any release of the series.
        """
        for base in base_linkers(pair, classes.linkable, ns, records):
            yield cls(base.n, classes, flows.copy_linker(base.linker), pair.earlier.count, base.excess)

    def move_to(self, pair: ReleasePair, classes: SharedClasses, scratch: Scratch) -> BaseLinker:
        """Return the base linker of another earlier release. Use it before the next move.

        `classes` must hold the classes of the release that the linker holds now.
        """
        if classes is not self.classes:
            self._renumber(classes)
        count = pair.earlier.count
        flows.give_back(self.linker, self.count, count, self.excess)
        scratch.excess[:] = np.maximum(count - self.count, 0)
        flows.link_equal(self.linker, self._links, pair.earlier.linked, pair.later.linked, scratch.excess)
        everywhere = np.zeros(1, dtype=np.bool_)  # no matching sets: any record may go anywhere
        if self.n > 0:  # without removed events all links are subsequence pairs
            links = self._subsequence_links
            flows.place_all(self.linker, links, self.n, flows.SUBSEQUENCE_PAIRS, everywhere, everywhere, scratch)
        scratch.excess[:] += self.excess
        left = flows.place_all(self.linker, self._links, self.n, flows.ANY_PAIR, everywhere, everywhere, scratch)
        self.count, self.excess = count, scratch.excess.copy()
        return BaseLinker(self.n, classes.linkable, self.linker, scratch, int(left), self.excess)

    def _select_links(self) -> None:
        """Select the links of this n once, so that no search passes over those of a larger n."""
        start, later, least = self.classes.linkable.forward
        self._links = _selected((start, later, least), (least & LEAST) <= self.n)
        self._subsequence_links = self._links
        if self.n > 0:
            self._subsequence_links = _selected(self._links, (self._links[2] & SUBSEQUENCE) != 0)

    def _renumber(self, classes: SharedClasses) -> None:
        """Go on among other record classes; those that both numberings have keep their links."""
        old_keys, new_keys = self.classes.keys, classes.keys
        self.classes = classes
        self._select_links()
        stay = np.flatnonzero(np.isin(old_keys, new_keys))
        new_row = np.full(len(old_keys), -1, dtype=np.int64)
        new_row[stay] = np.searchsorted(new_keys, old_keys[stay])
        count = np.zeros(len(new_keys), dtype=np.int64)
        excess = np.zeros(len(new_keys), dtype=np.int64)
        head1 = np.full(len(new_keys), -1, dtype=np.int64)
        count[new_row[stay]] = self.count[stay]
        excess[new_row[stay]] = self.excess[stay]
        head1[new_row[stay]] = self.linker.head1[stay]
        used = self.linker.pairs[:, RECORDS] > 0
        self.linker.pairs[used, ROW1] = new_row[self.linker.pairs[used, ROW1]]
        self.count, self.excess, self.linker = count, excess, self.linker._replace(head1=head1)


def _selected(links: Listed, chosen: Flags) -> Listed:
    """Return some of the links, in their order."""
    start, later, least = links
    chosen_before = np.concatenate(([0], np.cumsum(chosen))).astype(np.int64)
    return chosen_before[start], later[chosen], least[chosen]


def obstacles(pair: ReleasePair, base: BaseLinker, least_ns: dict[int, int | None] | None, most: int) -> list[Obstacle]:
    """Return a witness for each sensitive value whose records cannot all be linked with this n.

    Parameters
    ----------
    pair, base
        The releases and the linker that leaves records without partner.
    least_ns
        The least n of each value that was searched with a smaller n: it does not depend on n, and takes long. New ones
        are added. None: the least n is not searched.
    most
        The largest n of the audit, the first to be tried.
    """
    values = np.unique(pair.earlier.value[base.excess > 0]).tolist()
    if least_ns is None:
        return [_obstacle(pair, base, value, None) for value in values]
    for value in values:
        if value not in least_ns:
            least_ns[value] = _least_n(restrict(pair, value), base.n, most)
    return [_obstacle(pair, base, value, least_ns[value]) for value in values]


def _obstacle(pair: ReleasePair, base: BaseLinker, value: int, least: int | None) -> Obstacle:
    excess = np.where(pair.earlier.value == value, base.excess, 0)
    reached1, reached2 = flows.hall_witness(base.linker, base.linkable.forward, base.n, excess)
    return Obstacle(
        value=pair.values[value],
        earlier=int(pair.earlier.count[reached1].sum()),
        later=int(pair.later.count[reached2].sum()),
        least_n=least,
    )


def restrict(pair: ReleasePair, value: int) -> ReleasePair:
    """Return the records of one sensitive value."""
    return replace(pair, earlier=_only(pair.earlier, value), later=_only(pair.later, value))


def _only(rows: RecordClasses, value: int) -> RecordClasses:
    keep = rows.value == value
    return RecordClasses(rows.linked[keep], rows.known[keep], rows.value[keep], rows.count[keep], rows.row_of_case[:0])


def _least_n(one: ReleasePair, low: int, high: int) -> int | None:
    """Return the least n with a linker, or None.

    n grows by half, then bisection: links far beyond the answer are not listed. With n = longest trace all pairs link.
    `low`: an n without a linker; `high`: where to begin.
    """
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
    return max(FIRST_N, n + 1, n + n // 2)


def _exists(one: ReleasePair, linkable: Edges, n: int) -> bool:
    return next(base_linkers(one, linkable, [n])).exists


def evident_obstacles(pair: ReleasePair, base: BaseLinker) -> list[Obstacle] | None:
    """Return the witnesses that any linker gives where records are left (see `obstacles`), or None if not sure.

    Ask it before anything else is asked of `base`: it reads the last search for places.

    Which witness `obstacles` names depends on the linker: it begins with the first row of its value that has a record
    left. In some linker a row can have one only if an alternating path leads there from a row that has one in this
    linker: where two of them differ, the records that one places and the other does not are exchanged along such
    paths, as no record can be placed besides. If the first of all these rows links to nothing, it is the first one in
    every linker, and nothing but it is reached from it.
    """
    reached = np.flatnonzero(base.scratch.level1 >= 0)
    values = pair.earlier.value[reached]
    start, _, least = base.linkable.forward
    witnesses = []
    for value in np.unique(pair.earlier.value[base.excess > 0]).tolist():
        first = int(reached[np.argmax(values == value)])
        own_links = least[start[first] : start[first + 1]] & LEAST
        if (own_links <= base.n).any():
            return None
        witnesses.append(Obstacle(pair.values[value], int(pair.earlier.count[first]), 0, None))
    return witnesses
