"""The linkers of a pair of releases: one linker as arrays, its paths, and the base linker of each n.

A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). The exact attacks
ask about the best of all linkers for each background knowledge. They start from one linker for each n, the base linker
(`base_linkers`), and change it along residual paths: on these, records make room for one another.

On record classes with counts, a linker is a list of pairs (earlier row, later row, records). Each pair is in two linked
lists, that of its earlier row and that of its later row, so that a step along a residual path costs the degree of the
rows it touches:

    head1[i] -> p -> pairs[p, NEXT1] -> ... -> -1     the pairs of earlier row i
    head2[j] -> p -> pairs[p, NEXT2] -> ... -> -1     the pairs of later row j

An alternating path leads from an earlier row with a record to place, over links to later rows and back over pairs of
the linker, to a later row with a free record. Along it every record moves to the next later row:

    i0 --link--> j0 ==pair== i1 --link--> j1 ==pair== i2 --link--> j2 (free)
    becomes   i0 == j0,  i1 == j1,  i2 == j2

Arguments of the compiled functions: `linker`, the arrays of `Linker`; `forward` and `backward`, the links of
`linkability.Edges` by earlier and by later rows; `scratch`, the arrays of `Scratch`; `in1`, `in2`, which rows are in
the matching sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import LEAST, SUBSEQUENCE, Edges
from models.attacks.pairs import ReleasePair
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Ints

Flags = npt.NDArray[np.bool_]

# --- One linker ---


NEXT1, NEXT2, ROW1, ROW2, RECORDS = 0, 1, 2, 3, 4
"""Columns of `pairs`."""

SPARE, LOGGED = 0, 1
"""Entries of `used`."""

MOST_CHANGES = 1 << 21
"""Changes that one candidate may make. The system gives memory for touched pages only."""


@content_free()
class Linker(NamedTuple):
    """The arrays of one linker, in the order that the kernels take.

    head1, head2 : int64[earlier rows], int64[later rows], first pair of each row, -1 if it has none
    pairs : int64[slots, 5], columns NEXT1 to RECORDS; unused slots are a list of their own, along NEXT1
    free : int64[later rows], records that no earlier record is sent to
    log : int32[MOST_CHANGES, 3], changes since the last `undo`: earlier row, later row, records
    used : int64[2], first unused slot (SPARE) and number of logged changes (LOGGED)
    """

    head1: Ints
    head2: Ints
    pairs: Ints
    free: Ints
    log: npt.NDArray[np.int32]
    used: Ints


def empty_linker(counts1: Ints, counts2: Ints, records: int = 0) -> Linker:
    """Return a linker without links.

    Parameters
    ----------
    counts1, counts2
        Records of each earlier and of each later row.
    records
        Earlier records that the linker may hold later on, if these are more.
    """
    slots = max(int(counts1.sum()), records) + 1  # a pair holds at least one record
    pairs = np.zeros((slots, 5), dtype=np.int64)
    pairs[:, NEXT1] = np.arange(1, slots + 1)
    return Linker(
        np.full(len(counts1), -1, dtype=np.int64),
        np.full(len(counts2), -1, dtype=np.int64),
        pairs,
        counts2.astype(np.int64).copy(),
        np.empty((MOST_CHANGES, 3), dtype=np.int32),
        np.zeros(2, dtype=np.int64),
    )


def copy_linker(one: Linker) -> Linker:
    """Return a copy of a linker.

    Both write the same log. Undo or forget (`used`) the changes of one before the other is asked.
    """
    head1, head2, pairs, free, log, used = one
    return Linker(head1.copy(), head2.copy(), pairs.copy(), free.copy(), log, used.copy())


@part
def shift(linker, i, j, change):  # type: ignore[no-untyped-def]
    """Add `change` to the records that row i sends to row j, and log it."""
    head1, head2, pairs, free, log, used = linker
    at = used[LOGGED]
    if at == len(log):
        raise RuntimeError("a linker changed more often than its log can hold")
    log[at, 0], log[at, 1], log[at, 2] = i, j, change
    used[LOGGED] = at + 1
    free[j] -= change

    before1, p = -1, head1[i]
    while p >= 0 and pairs[p, ROW2] != j:
        before1 = p
        p = pairs[p, NEXT1]
    if p < 0:  # a new pair, first in both lists
        p = used[SPARE]
        used[SPARE] = pairs[p, NEXT1]
        pairs[p, ROW1], pairs[p, ROW2], pairs[p, RECORDS] = i, j, change
        pairs[p, NEXT1], pairs[p, NEXT2] = head1[i], head2[j]
        head1[i] = p
        head2[j] = p
        return
    pairs[p, RECORDS] += change
    if pairs[p, RECORDS] != 0:
        return

    # The pair is empty: take it out of both lists, and give its slot back.
    if before1 < 0:
        head1[i] = pairs[p, NEXT1]
    else:
        pairs[before1, NEXT1] = pairs[p, NEXT1]
    before2, q = -1, head2[j]
    while q != p:
        before2 = q
        q = pairs[q, NEXT2]
    if before2 < 0:
        head2[j] = pairs[p, NEXT2]
    else:
        pairs[before2, NEXT2] = pairs[p, NEXT2]
    pairs[p, NEXT1] = used[SPARE]
    used[SPARE] = p


@kernel
def undo(linker):  # type: ignore[no-untyped-def]
    """Take back all logged changes, the last one first."""
    log, used = linker[4], linker[5]
    for at in range(used[LOGGED] - 1, -1, -1):
        used[LOGGED] = at
        shift(linker, log[at, 0], log[at, 1], -log[at, 2])
    used[LOGGED] = 0


@part
def records_sent(linker, i, j):  # type: ignore[no-untyped-def]
    """Return the records that row i sends to row j."""
    pairs = linker[2]
    p = linker[0][i]
    while p >= 0:
        if pairs[p, ROW2] == j:
            return pairs[p, RECORDS]
        p = pairs[p, NEXT1]
    return 0


UNREACHED = 1 << 30
"""A distance longer than any path, and a number larger than that of any records."""

ANY_PAIR, SUBSEQUENCE_PAIRS, STAYING_PAIRS = 0, 1, 2
"""Links that a search for places may use (`mode`): all linkable pairs; those whose earlier trace is a subsequence of
the later one; those that do not leave the matching sets."""


@content_free()
class Scratch(NamedTuple):
    """The arrays of a search for paths, int64.

    came1, came2 : by earlier and by later row, the row that the path came from
    queue : rows to visit
    excess : by earlier row, records that have still to be placed
    level1, level2 : steps from those records to each row, -1 if no path leads there
    next1 : by earlier row, the first link that has not been tried in this phase
    """

    came1: Ints
    came2: Ints
    queue: Ints
    excess: Ints
    level1: Ints
    level2: Ints
    next1: Ints


def scratch_for(rows1: int, rows2: int) -> Scratch:
    """Return the arrays for searches between `rows1` earlier and `rows2` later rows."""
    sizes = (rows1, rows2, max(rows1, rows2) + 1, rows1, rows1, rows2, rows1)
    return Scratch(*(np.zeros(size, dtype=np.int64) for size in sizes))


@part
def _open(link, n, mode, in1, in2, i, j):  # type: ignore[no-untyped-def]
    """Whether row i may send a record to row j, by the least n (and SUBSEQUENCE) of their link.

    `mode`: ANY_PAIR, SUBSEQUENCE_PAIRS or STAYING_PAIRS, the last one by the matching sets `in1` and `in2`.
    """
    if (link & LEAST) > n:
        return False
    if mode == SUBSEQUENCE_PAIRS:
        return (link & SUBSEQUENCE) != 0
    return mode == ANY_PAIR or not in1[i] or in2[j]


@kernel
def levels(linker, forward, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Set `level1` and `level2` of `scratch`: the steps from earlier rows with something in `scratch.excess`.

    Breadth first, up to the nearest later rows with a free record. Returns whether there are any.
    """
    start, later, least = forward
    queue, excess, level1, level2 = scratch[2], scratch[3], scratch[4], scratch[5]
    head2, pairs, free = linker[1], linker[2], linker[3]
    for j in range(len(level2)):
        level2[j] = -1
    filled, at, end = 0, 0, UNREACHED
    for i in range(len(level1)):
        level1[i] = -1
        if excess[i] > 0:
            level1[i] = 0
            queue[filled] = i
            filled += 1
    while at < filled and level1[queue[at]] + 1 <= end:
        i = queue[at]
        at += 1
        for k in range(start[i], start[i + 1]):
            j = later[k]
            if level2[j] >= 0 or not _open(least[k], n, mode, in1, in2, i, j):
                continue
            level2[j] = level1[i] + 1
            if free[j] > 0:
                end = level2[j]
            if level2[j] == end:
                continue
            p = head2[j]
            while p >= 0:
                other = pairs[p, ROW1]
                if level1[other] < 0:
                    level1[other] = level2[j] + 1
                    queue[filled] = other
                    filled += 1
                p = pairs[p, NEXT2]
    return end < UNREACHED


@part
def _place(linker, forward, n, mode, in1, in2, source, units, scratch):  # type: ignore[no-untyped-def]
    """Walk one augmenting path from row `source` along rising levels to a free later record.

    Returns how many records it carries, 0 if there is none. A row that leads nowhere loses its level, and `next1` of
    `scratch` skips links tried in vain, so that a phase tries each link once.
    """
    start, later, least = forward
    came1, came2, level1, level2, next1 = scratch[0], scratch[1], scratch[4], scratch[5], scratch[6]
    head2, pairs, free = linker[1], linker[2], linker[3]
    came1[source] = source
    i = source
    while True:
        j = -1
        while next1[i] < start[i + 1]:
            k = next1[i]
            j = later[k]
            if level2[j] == level1[i] + 1 and _open(least[k], n, mode, in1, in2, i, j):
                break
            next1[i] += 1
            j = -1
        if j >= 0:
            came2[j] = i
            if free[j] > 0:
                return carry(linker, came1, came2, j, units)
        elif i == source:
            return 0
        else:
            level1[i] = -1
            j = came1[i] - len(came1)
        p = head2[j]
        while p >= 0 and level1[pairs[p, ROW1]] != level2[j] + 1:
            p = pairs[p, NEXT2]
        if p >= 0:
            i = pairs[p, ROW1]
            came1[i] = len(came1) + j
        else:
            level2[j] = -1
            i = came2[j]


@part
def carry(linker, came1, came2, end, units):  # type: ignore[no-untyped-def]
    """Move as many records as fit along the path that ends in the free later row `end`."""
    size = len(came1)
    carried = min(units, linker[3][end])
    i = came2[end]
    while came1[i] >= size:
        j = came1[i] - size
        carried = min(carried, records_sent(linker, i, j))
        i = came2[j]
    j = end
    while True:
        i = came2[j]
        shift(linker, i, j, carried)
        if came1[i] < size:
            return carried
        j = came1[i] - size
        shift(linker, i, j, -carried)


@kernel
def place_all(linker, forward, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Place the records of `scratch.excess` along shortest paths, phase by phase (Dinitz).

    Returns how many found no place; `scratch.excess` keeps them. Only after STAYING_PAIRS can the changes be undone:
    the other modes build a linker, which nobody takes back.
    """
    start = forward[0]
    excess, next1 = scratch[3], scratch[6]
    left = 0
    for i in range(len(excess)):
        left += excess[i]
    while left > 0 and levels(linker, forward, n, mode, in1, in2, scratch):
        for i in range(len(excess)):
            next1[i] = start[i]
        for i in range(len(excess)):
            moved = 1
            while excess[i] > 0 and moved > 0:
                moved = _place(linker, forward, n, mode, in1, in2, i, excess[i], scratch)
                excess[i] -= moved
                left -= moved
                if mode != STAYING_PAIRS:
                    linker[5][LOGGED] = 0
    return left


@kernel
def link_equal(linker, forward, linked1, linked2, excess):  # type: ignore[no-untyped-def]
    """Link records of equal variants, as far as both sides go; `excess` keeps those without a partner."""
    start, later, free, used = forward[0], forward[1], linker[3], linker[5]
    for i in range(len(excess)):
        if excess[i] == 0:
            continue
        for k in range(start[i], start[i + 1]):
            j = later[k]
            if linked1[i] == linked2[j] and excess[i] > 0 and free[j] > 0:
                moved = min(excess[i], free[j])
                shift(linker, i, j, moved)
                excess[i] -= moved
                used[LOGGED] = 0  # the links of a base linker are never undone


@kernel
def give_back(linker, before, now, excess):  # type: ignore[no-untyped-def]
    """Take out the records of each earlier row that `now` holds no more, those without a partner first.

    `before`, `now`: records of each earlier row that the linker holds, and is to hold; `excess`: of these, those
    without a partner.
    """
    head1, pairs, used = linker[0], linker[2], linker[5]
    for i in range(len(now)):
        gone = max(0, before[i] - now[i])
        unplaced = min(gone, excess[i])
        excess[i] -= unplaced
        gone -= unplaced
        while gone > 0:
            p = head1[i]
            records = min(gone, pairs[p, RECORDS])
            shift(linker, i, pairs[p, ROW2], -records)
            used[LOGGED] = 0
            gone -= records


@kernel
def loose_links(linker, forward, loose):  # type: ignore[no-untyped-def]
    """Fill `loose` with the links that are no subsequence pairs, and return how many there are.

    `loose`: int64[P, 3], earlier row, later row, records. The links of a row are sorted by later rows.
    """
    start, later, least = forward
    head1, pairs = linker[0], linker[2]
    filled = 0
    for i in range(len(head1)):
        p = head1[i]
        while p >= 0:
            low, high = start[i], start[i + 1]
            while low < high:
                middle = (low + high) // 2
                if later[middle] < pairs[p, ROW2]:
                    low = middle + 1
                else:
                    high = middle
            if (least[low] & SUBSEQUENCE) == 0:
                loose[filled, 0], loose[filled, 1], loose[filled, 2] = i, pairs[p, ROW2], pairs[p, RECORDS]
                filled += 1
            p = pairs[p, NEXT1]
    return filled


def extend_linker(linker: Linker, forward: Any, linked1: Any, linked2: Any, n: int, scratch: Scratch) -> int:
    """Extend a linker to one with n: equal variants first, then subsequence pairs, then any linkable pair.

    Records that stay within subsequence pairs never leave a matching set, so a search needs few flows.

    Returns
    -------
    Records that find no partner; 0 means that a linker exists. `scratch.excess` keeps them by row.
    """
    link_equal(linker, forward, linked1, linked2, scratch.excess)
    everywhere = np.zeros(1, dtype=np.bool_)  # no matching sets: any record may go anywhere
    for mode in (SUBSEQUENCE_PAIRS, ANY_PAIR):
        left = place_all(linker, forward, n, mode, everywhere, everywhere, scratch)
    return int(left)


@kernel
def reachable_rows(linker, backward, n, rows, scratch):  # type: ignore[no-untyped-def]
    """Set `came2` of `scratch` >= 0 at the later rows with a record that some linker leaves free.

    Exact BA >= 1 iff one of these rows is in ms2.

    Breadth first from the later rows with a free record: a record whose row could link to a reached row may move there
    and leave its own place free. `rows`: first and last + 1 row to look at, of the earlier and of the later release.
    `came1`, `came2`: the row that the search came from; -1 if it has not been there; the number of earlier rows if it
    began there.
    """
    start, earlier, least = backward
    came1, came2, queue = scratch[0], scratch[1], scratch[2]
    head1, pairs, free = linker[0], linker[2], linker[3]
    for i in range(rows[0], rows[1]):
        came1[i] = -1
    filled, at = 0, 0
    for j in range(rows[2], rows[3]):
        came2[j] = -1
        if free[j] > 0:
            came2[j] = len(came1)
            queue[filled] = j
            filled += 1
    while at < filled:
        j = queue[at]
        at += 1
        for k in range(start[j], start[j + 1]):
            i = earlier[k]
            if came1[i] >= 0 or (least[k] & LEAST) > n:
                continue
            came1[i] = j
            p = head1[i]
            while p >= 0:
                other = pairs[p, ROW2]
                if came2[other] < 0:
                    came2[other] = i
                    queue[filled] = other
                    filled += 1
                p = pairs[p, NEXT1]


# --- The best linker for one candidate ---
#
# The two numbers behind the exact crack sizes (Def. 10-12):
#
#     M          most records of ms1 that a linker sends into ms2: F = |ms1| - M, C = |ms2| - M
#     most free  most records of ms2 that a linker leaves free:    B = |ms2| - most free
#
# Both searches start from a base linker and leave it changed: call `undo` afterwards.


@kernel
def most_free(linker, backward, n, in2, rows, enough, scratch):  # type: ignore[no-untyped-def]
    """Exact BA: the most records of ms2 that one linker leaves free, = |ms2| - |L1| + nu(L1, L2 minus ms2).

    `rows`: first and last + 1 row to look at, of the earlier and of the later release. Links never leave a sensitive
    value, so the rows of one value or of all values are such ranges. Stops once `enough` is reached.
    """
    free = linker[3]
    total, every = 0, 0
    for j in range(rows[2], rows[3]):
        every += free[j]
        if in2[j]:
            total += free[j]
    enough = min(enough, every)
    while total < enough:
        moved = _move_free(linker, backward, n, in2, rows, enough - total, scratch)
        if moved == 0:
            break
        total += moved
    return total


@part
def _move_free(linker, backward, n, inside, rows, wanted, scratch):  # type: ignore[no-untyped-def]
    """Give places outside ms2 to records that hold one inside, along the paths of one search.

    A record moves directly, or through others that move up. Returns how many moved, 0 if no path exists; stops once
    `wanted` have. The search is that of `reachable_rows`, from free places outside ms2, and goes not beyond rows inside
    it. One path may move records that another path needs. That one then carries nothing, and the next search looks for
    it again.
    """
    start, earlier, least = backward
    came1, came2, queue, ends = scratch[0], scratch[1], scratch[2], scratch[5]
    head1, pairs, free = linker[0], linker[2], linker[3]
    for i in range(rows[0], rows[1]):
        came1[i] = -1
    filled, at, total = 0, 0, 0
    for j in range(rows[2], rows[3]):
        came2[j] = -1
        if free[j] > 0 and not inside[j]:
            came2[j] = len(came1)
            queue[filled] = j
            filled += 1
    while at < filled and total < wanted:
        j = queue[at]
        at += 1
        reached = 0
        for k in range(start[j], start[j + 1]):
            i = earlier[k]
            if came1[i] >= 0 or (least[k] & LEAST) > n:
                continue
            came1[i] = j
            p = head1[i]
            while p >= 0:
                other = pairs[p, ROW2]
                p = pairs[p, NEXT1]
                if came2[other] < 0:
                    came2[other] = i
                    if inside[other]:
                        ends[reached] = other
                        reached += 1
                    else:
                        queue[filled] = other
                        filled += 1
        for k in range(reached):
            if total < wanted:
                total += _move_up(linker, came1, came2, ends[k])
    return total


@part
def _move_up(linker, came1, came2, end):  # type: ignore[no-untyped-def]
    """Move as many records as fit along the path to a later row inside ms2; returns 0 if another path took its own."""
    moved = UNREACHED
    j = end
    while came2[j] < len(came1):
        moved = min(moved, records_sent(linker, came2[j], j))
        j = came1[came2[j]]
    moved = min(moved, linker[3][j])
    if moved == 0:
        return 0
    j = end
    while came2[j] < len(came1):
        i = came2[j]
        shift(linker, i, j, -moved)
        j = came1[i]
        shift(linker, i, j, moved)
    return moved


@kernel
def fewest_leaving(linker, forward, n, in1, in2, loose, scratch):  # type: ignore[no-untyped-def]
    """|ms1| - M: the fewest records of ms1 that one total linker sends out of ms2.

    `loose`: int64[P, 3], pairs of the linker (earlier row, later row, records) that are no subsequence pairs; the other
    pairs never leave a matching set. The pairs that leave are taken out and placed again without leaving, as far as
    possible. If all of them fit, or none, the number is known. Shortest paths are needed only if some fit and some do
    not, since one that stays may then force another one to leave.
    """
    excess = scratch[3]
    for i in range(len(excess)):
        excess[i] = 0
    leaving = 0
    for k in range(len(loose)):
        i, j, records = loose[k, 0], loose[k, 1], loose[k, 2]
        if in1[i] and not in2[j]:
            shift(linker, i, j, -records)
            excess[i] += records
            leaving += records
    left = place_all(linker, forward, n, STAYING_PAIRS, in1, in2, scratch)
    if left == 0 or left == leaving:
        return left
    return _cheapest(linker, forward, n, in1, in2, left, scratch)


@part
def _cheapest(linker, forward, n, in1, in2, left, scratch):  # type: ignore[no-untyped-def]
    """Place the `left` records with the fewest pairs that leave the matching sets; returns that number.

    Successive shortest paths (Bellman-Ford with a queue of earlier rows). A link from inside ms1 to outside ms2 costs
    1, every other link 0; the way back over a pair of the linker costs the negative. far1 and far2 are the distances.
    """
    start, later, least = forward
    came1, came2, queue, excess = scratch[0], scratch[1], scratch[2], scratch[3]
    head2, pairs, free = linker[1], linker[2], linker[3]
    rows1 = len(in1)
    far1, far2, waiting = np.empty(rows1, np.int64), np.empty(len(in2), np.int64), np.empty(rows1, np.int64)
    cost = 0
    while left > 0:
        at, filled = 0, 0
        for j in range(len(in2)):
            far2[j] = UNREACHED
        for i in range(rows1):
            far1[i], waiting[i] = UNREACHED, 0
            if excess[i] > 0:
                far1[i], came1[i], waiting[i] = 0, i, 1
                queue[filled] = i
                filled += 1
        while at != filled:
            i = queue[at]
            at = at + 1 if at < rows1 else 0
            waiting[i] = 0
            for k in range(start[i], start[i + 1]):
                j = later[k]
                away = far1[i] + (in1[i] and not in2[j])
                if (least[k] & LEAST) > n or away >= far2[j]:
                    continue
                far2[j], came2[j] = away, i
                p = head2[j]
                while p >= 0:
                    other = pairs[p, ROW1]
                    back = away - (in1[other] and not in2[j])
                    if back < far1[other]:
                        far1[other], came1[other] = back, rows1 + j
                        if waiting[other] == 0:
                            waiting[other] = 1
                            queue[filled] = other
                            filled = filled + 1 if filled < rows1 else 0
                    p = pairs[p, NEXT2]
        nearest = UNREACHED
        for j in range(len(in2)):
            if free[j] > 0:
                nearest = min(nearest, far2[j])
        # Every link on these paths is tight (the distances are potentials), and so is the way back along it: a path
        # stays a shortest one whichever others of its length were used before.
        for end in range(len(in2)):
            if free[end] > 0 and far2[end] == nearest:
                moved = _along(linker, came1, came2, end, excess)
                left -= moved
                cost += moved * nearest
    return cost


@part
def _along(linker, came1, came2, end, excess):  # type: ignore[no-untyped-def]
    """Place as many records as fit along the path to the free later row `end`.

    Returns 0 if another path has taken what it needs.
    """
    size = len(came1)
    units, i = linker[3][end], came2[end]
    while came1[i] >= size:
        j = came1[i] - size
        units = min(units, records_sent(linker, i, j))
        i = came2[j]
    units = min(units, excess[i])
    if units > 0:
        carry(linker, came1, came2, end, units)
        excess[i] -= units
    return units


# --- The base linker of each n ---


@content_free("n", "left")
@dataclass(frozen=True, slots=True)
class BaseLinker:
    """One linker for one n, as a flow over record classes, from which every candidate starts.

    Parameters
    ----------
    n
        Events removed at most.
    linkable
        Linkable pairs of record classes.
    linker, scratch
        The arrays. They move on when the next n is asked for.
    left
        Records of the earlier release without a partner; 0 if a linker exists.
    excess
        int64[earlier rows], these by row.
    loose
        int64[P, 3], the links that are no subsequence pairs (earlier row, later row, records). Only these can leave a
        matching set. Empty if no linker exists.
    reachable
        bool[later rows], rows of which some linker leaves a record free. Empty if no linker exists.
    """

    n: int
    linkable: Edges
    linker: Linker
    scratch: Scratch
    left: int
    excess: Ints
    loose: Ints
    reachable: Flags

    @classmethod
    def of(cls, linker: Linker, linkable: Edges, n: int, left: int, scratch: Scratch) -> BaseLinker:
        """Return the base linker whose records are placed, except those in `scratch.excess`, which are `left`."""
        excess = scratch.excess.copy()
        if left > 0:
            no_links, no_rows = np.zeros((0, 3), dtype=np.int64), np.zeros(0, dtype=np.bool_)
            return cls(n, linkable, linker, scratch, left, excess, no_links, no_rows)
        loose = np.empty((len(linker.pairs), 3), dtype=np.int64)
        n_loose = loose_links(linker, linkable.forward, loose)
        reachable_rows(linker, linkable.backward, n, _all_rows(linker), scratch)
        return cls(n, linkable, linker, scratch, left, excess, loose[:n_loose].copy(), scratch.came2 >= 0)

    @property
    def exists(self) -> bool:
        """Whether a linker exists for this n."""
        return self.left == 0

    def links(self) -> Ints:
        """Return the current pairs: int64[P, 3], earlier row, later row, records."""
        pairs = self.linker.pairs
        used = np.flatnonzero(pairs[:, RECORDS] > 0)
        return pairs[used][:, [ROW1, ROW2, RECORDS]]

    def most_free(self, in2: Flags, enough: int) -> int:
        """Return the exact BA of a candidate, or `enough` if it is not less. Changes the linker until `undo`."""
        rows = _all_rows(self.linker)
        return int(most_free(self.linker, self.linkable.backward, self.n, in2, rows, enough, self.scratch))

    def fewest_leaving(self, in1: Flags, in2: Flags) -> int:
        """Return |ms1| - M of a candidate. Changes the linker until `undo`."""
        starts_inside, ends_inside = in1[self.loose[:, 0]], in2[self.loose[:, 1]]
        if not (starts_inside & ~ends_inside).any():
            return 0
        return int(fewest_leaving(self.linker, self.linkable.forward, self.n, in1, in2, self.loose, self.scratch))

    def undo(self) -> None:
        """Go back to the base linker."""
        undo(self.linker)


def _all_rows(linker: Linker) -> Ints:
    """Return the range of earlier rows and the range of later rows that the compiled searches look at."""
    return np.asarray([0, len(linker.head1), 0, len(linker.free)], dtype=np.int64)


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
    linker = empty_linker(pair.earlier.count, pair.later.count, records)
    scratch = scratch_for(len(pair.earlier.count), len(pair.later.count))
    excess = pair.earlier.count.astype(np.int64)
    for n in sorted(ns):
        scratch.excess[:] = excess
        left = extend_linker(linker, linkable.forward, pair.earlier.linked, pair.later.linked, n, scratch)
        base = BaseLinker.of(linker, linkable, n, left, scratch)
        excess = base.excess
        yield base
