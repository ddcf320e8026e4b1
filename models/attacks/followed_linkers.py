"""The exact attacks of one release beside many earlier ones, from one earlier release to the next by what differs.

A pair begins with a linker for each n (models.attacks.linker), which takes most of its time: it places every record of
the earlier release anew. Between neighbours of a series few records differ. So one linker for each n is kept over the
record classes of some releases (`Against.together`) and goes back through the series: links of records that the earlier
of two releases does not hold are taken out, records that it holds besides find their place, and the rest stays. What a
search finds does not depend on the linker that it starts from, so each pair gets what it gives alone;
`tests/property/test_attacks_followed_linkers.py` holds both against each other.

Where no linker exists the answer names a witness, and which one depends on the linker. Records that link to nothing
are one whichever linker is looked at, if they stand first (`evident`); any other is asked of the pair alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from models.attacks import flows
from models.attacks.against import Against, Known, Together
from models.attacks.correspondence import Audit
from models.attacks.flows import Scratch
from models.attacks.linkability import LEAST, SUBSEQUENCE, Bytes
from models.attacks.linker import BaseLinker, Obstacle, base_linkers
from models.attacks.links import LOGGED, RECORDS, ROW1, ROW2, Linker, copied, no_links, shift
from models.attacks.outcome import Minimum, Result, unlinkable
from models.attacks.pairs import Pair
from models.compiled import kernel
from models.content_free import content_free
from models.eventlog import Codes, Ints

Forward = tuple[Ints, Codes, Bytes]
"""Links by earlier rows, as `linkability.Edges.forward`."""

BLOCK = 16
"""Earlier releases that are numbered together: each search passes by the classes of all, each numbering takes a while.
Between 8 and 32 the cuts of BPIC 2012 cost the same."""


@content_free("n")
@dataclass
class FollowedLinker:
    """A linker for one n. `count`: records of each earlier row that it places; `excess`: those that find no place;
    `forward`: the links that are open to it, `inside`: of these, the subsequence pairs."""

    n: int
    together: Together
    linker: Linker
    count: Ints
    excess: Ints
    forward: Forward = field(init=False)
    inside: Forward = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        """Pass over the links that only a larger n opens once, and not in each search."""
        start, later, least = self.together.linkable.forward
        self.forward = _kept((start, later, least), (least & LEAST) <= self.n)
        self.inside = _kept(self.forward, (self.forward[2] & SUBSEQUENCE) != 0) if self.n > 0 else self.forward

    @classmethod
    def each(cls, given: Pair, together: Together, ns: Sequence[int], records: int) -> Iterator[FollowedLinker]:
        """One for each n, ascending, placed for the earlier release of `given`; none holds more than `records`."""
        linker = no_links(given.earlier.count, given.later.count, records)
        excess = given.earlier.count.astype(np.int64)
        scratch = flows.scratch_for(len(given.earlier.count), len(given.later.count))
        for n in ns:
            linker = copied(linker)
            scratch.excess[:] = excess
            flows.link(linker, together.linkable.forward, given.earlier.linked, given.later.linked, n, scratch)
            excess = scratch.excess.copy()
            yield cls(n, together, linker, given.earlier.count, excess)

    def move_to(self, given: Pair, together: Together, scratch: Scratch) -> BaseLinker:
        """The linker of another earlier release, whose numbering holds the classes of the one so far. Use it before the
        next."""
        if together is not self.together:
            self._renumber(together)
        count, forward = given.earlier.count, self.forward
        _give_back(self.linker, self.count, count, self.excess)
        scratch.excess[:] = np.maximum(count - self.count, 0)
        _link_equal(self.linker, forward, given.earlier.linked, given.later.linked, scratch.excess)
        nowhere = np.zeros(1, dtype=np.bool_)
        if self.n > 0:  # without removed events all links are subsequence pairs
            flows.place_all(self.linker, self.inside, self.n, 1, nowhere, nowhere, scratch)
        scratch.excess[:] += self.excess
        left = int(flows.place_all(self.linker, forward, self.n, 0, nowhere, nowhere, scratch))
        self.count, self.excess = count, scratch.excess.copy()
        return BaseLinker(self.n, together.linkable, self.linker, scratch, left, self.excess)

    def _renumber(self, now: Together) -> None:
        """Go on among other record classes."""
        before, self.together = self.together.keys, now
        self._open()
        stay = np.flatnonzero(np.isin(before, now.keys))
        place = np.full(len(before), -1, dtype=np.int64)
        place[stay] = np.searchsorted(now.keys, before[stay])
        count, excess, head1 = (np.full(len(now.keys), empty, dtype=np.int64) for empty in (0, 0, -1))
        for one, was in ((count, self.count), (excess, self.excess), (head1, self.linker.head1)):
            one[place[stay]] = was[stay]
        used = self.linker.pairs[:, RECORDS] > 0
        self.linker.pairs[used, ROW1] = place[self.linker.pairs[used, ROW1]]
        self.count, self.excess, self.linker = count, excess, self.linker._replace(head1=head1)


def _kept(forward: Forward, chosen: npt.NDArray[np.bool_]) -> Forward:
    """Some of the links, in their order."""
    start, later, least = forward
    begin = np.concatenate(([0], np.cumsum(chosen))).astype(np.int64)
    return begin[start], later[chosen], least[chosen]


@kernel
def _give_back(linker, before, now, excess):  # type: ignore[no-untyped-def]
    """Take out the records of each earlier row that are no more, those without a place first."""
    head1, pairs, used = linker[0], linker[2], linker[5]
    for i in range(len(now)):
        gone = max(0, before[i] - now[i])
        least = min(gone, excess[i])
        excess[i] -= least
        gone -= least
        while gone > 0:
            p = head1[i]
            records = min(gone, pairs[p, RECORDS])
            shift(linker, i, pairs[p, ROW2], -records)
            used[LOGGED] = 0
            gone -= records


@kernel
def _link_equal(linker, forward, linked1, linked2, excess):  # type: ignore[no-untyped-def]
    """`flows.link_equal`, of the rows that have records without a place."""
    start, later, free, used = forward[0], forward[1], linker[3], linker[5]
    for i in range(len(excess)):
        for k in range(start[i], start[i + 1] if excess[i] > 0 else start[i]):
            j = later[k]
            if linked1[i] == linked2[j] and free[j] > 0:
                moved = min(excess[i], free[j])
                shift(linker, i, j, moved)
                excess[i] -= moved
                used[LOGGED] = 0


def followed(
    against: Against, earlier: Sequence[Known], bk_length: int, ns: Sequence[int], minimum: Minimum,
    alone: Callable[[int], Audit],
) -> list[list[Result]]:  # fmt: skip
    """The exact minima of each earlier release for each n (ascending), as `Audit.run` gives them for the pair alone.
    `alone`: the audit of one earlier release by itself, by its place. InputError as `Against.together`."""
    most = max(int(one.numbered.count.sum()) for one in earlier)
    linkers: list[FollowedLinker] = []
    found: list[list[Result]] = []
    for place, together in _backwards(against, earlier):
        given, table = against.whole(together, earlier[place])
        if not linkers:
            linkers = list(FollowedLinker.each(given, together, ns, most))
        audit = Audit(given, bk_length, ns, "exact", minimum, table, linkable=together.linkable, least_n=False)
        scratch = flows.scratch_for(len(given.earlier.count), len(given.later.count))
        results, without = [], list[list[Obstacle] | None]()
        for one in linkers:
            base = one.move_to(given, together, scratch)
            if base.exists:
                results.append(audit.least(base))
            else:
                without.append(evident(given, base))
        own = ns[: len(without)]  # what links with n also links with more
        found.append([*_unlinkable(own, without, partial(alone, place)), *results])
    return found[::-1]


def _backwards(against: Against, earlier: Sequence[Known]) -> Iterator[tuple[int, Together]]:
    """The place of each earlier release, the last one first, and the numbering of it and some before it. Each numbering
    holds the release before whose linkers go on in it, too."""
    for end in range(len(earlier), 0, -BLOCK):
        together = against.together(earlier[max(0, end - BLOCK) : end + 1])
        for place in range(end - 1, max(0, end - BLOCK) - 1, -1):
            yield place, together


def _unlinkable(
    ns: Sequence[int], evident: Sequence[list[Obstacle] | None], alone: Callable[[], Audit]
) -> Iterator[Result]:
    """The answers for the n without a linker, of the pair alone where their witnesses are not evident."""
    known = [one for one in evident if one is not None]
    if len(known) == len(ns):
        yield from map(unlinkable, ns, known)
    else:
        audit = alone()
        yield from map(audit.least, base_linkers(audit.given, audit.linkable, ns))


def evident(given: Pair, base: BaseLinker) -> list[Obstacle] | None:
    """The witnesses that any linker gives where records are left (`linker.obstacles`); None where that is not sure. To
    be asked before anything else is asked of `base`.

    A witness begins with the first row of its value that has a record left. In some linker a row can have one only if
    an alternating path leads there from a row that has one in this linker: where two of them differ, the records that
    one places and the other does not are exchanged along such paths, as no record can be placed besides. If the first
    of all these rows links to nothing, it is the first one in every linker, and all that is reached from it.
    """
    reached = np.flatnonzero(base.scratch.level1 >= 0)  # by the last search for places, from all that have none
    value, (start, _, least) = given.earlier.value[reached], base.linkable.forward
    found = []
    for own in np.unique(given.earlier.value[base.excess > 0]).tolist():
        first = int(reached[np.argmax(value == own)])
        if (least[start[first] : start[first + 1]] & LEAST <= base.n).any():
            return None
        found.append(Obstacle(given.values[own], int(given.earlier.count[first]), 0, None))
    return found
