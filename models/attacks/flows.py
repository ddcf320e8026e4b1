"""Linkers as flows: the first one for each n, along paths on which records make room for one another (compiled).

`linker`: the arrays of models.attacks.flows; `forward` and `backward`: those of `linkability.Edges`; `scratch`: those
of `Scratch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import LEAST, SUBSEQUENCE
from models.compiled import kernel, part
from models.eventlog import Ints

# --- One linker as arrays ---
#
# One linker as arrays: who sends how many records to whom, and how that is changed and taken back (compiled).
#
# A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). On
# classes with counts it is a list of (earlier row, later row, records), threaded here through two linked
# lists, so that a step along a residual path costs the degree of the rows it touches:
#
#     (head1, head2, pairs, free, log, used)
#
# `pairs[p]`: next pair of the same earlier row, next of the same later row, earlier row, later row, records
# (0: unused). `free[j]`: records of later row j that no one links to. `used`: the first unused pair, and how
# many changes `log` holds since the last `undo`, so that a question about one candidate leaves no trace.


NEXT1, NEXT2, ROW1, ROW2, RECORDS = 0, 1, 2, 3, 4
"""Columns of `pairs`."""

SPARE, LOGGED = 0, 1
"""Entries of `used`."""

MOST_CHANGES = 1 << 21
"""Changes that one candidate may make; the system gives memory for touched pages only."""


class Linker(NamedTuple):
    """The arrays of one linker, in the order that the kernels take."""

    head1: Ints
    head2: Ints
    pairs: Ints
    free: Ints
    log: npt.NDArray[np.int32]
    used: Ints


def empty_linker(counts1: Ints, counts2: Ints, records: int = 0) -> Linker:
    """No record linked. A pair holds at least one record, so there are never more pairs than records. `records`: so
    many can be earlier ones later on, where these are more."""
    slots = max(int(counts1.sum()), records) + 1
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
    """The same linker to go on with. Both write the same log, so what one of them changed is to be undone, or forgotten
    (`used`), before the other is asked."""
    head1, head2, pairs, free, log, used = one
    return Linker(head1.copy(), head2.copy(), pairs.copy(), free.copy(), log, used.copy())


@part
def shift(linker, i, j, change):  # type: ignore[no-untyped-def]
    """Add `change` to the records that row i sends to row j, and write it down."""
    head1, head2, pairs, free, log, used = linker
    at = used[LOGGED]
    if at == len(log):
        raise RuntimeError("a linker changed more often than its log can hold")
    log[at, 0], log[at, 1], log[at, 2] = i, j, change
    used[LOGGED] = at + 1
    free[j] -= change
    p = head1[i]
    before = -1
    while p >= 0 and pairs[p, ROW2] != j:
        before = p
        p = pairs[p, NEXT1]
    if p < 0:
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
    if before < 0:
        head1[i] = pairs[p, NEXT1]
    else:
        pairs[before, NEXT1] = pairs[p, NEXT1]
    q = head2[j]
    before = -1
    while q != p:
        before = q
        q = pairs[q, NEXT2]
    if before < 0:
        head2[j] = pairs[p, NEXT2]
    else:
        pairs[before, NEXT2] = pairs[p, NEXT2]
    pairs[p, NEXT1] = used[SPARE]
    used[SPARE] = p


@kernel
def undo(linker):  # type: ignore[no-untyped-def]
    """Back to where the log began."""
    log, used = linker[4], linker[5]
    for at in range(used[LOGGED] - 1, -1, -1):
        used[LOGGED] = at
        shift(linker, log[at, 0], log[at, 1], -log[at, 2])
    used[LOGGED] = 0


@part
def records_sent(linker, i, j):  # type: ignore[no-untyped-def]
    """Records that row i sends to row j."""
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
"""Which links a search for places may use (`mode`): all linkable pairs; those whose earlier trace is a subsequence of
the later one; those that do not leave the matching sets."""


class Scratch(NamedTuple):
    """Where a search for paths came from at each row, its queue, what each earlier row has still to place, how far
    each row is from those, and the first link of each earlier row that was not yet tried."""

    came1: Ints
    came2: Ints
    queue: Ints
    excess: Ints
    level1: Ints
    level2: Ints
    next1: Ints


def scratch_for(rows1: int, rows2: int) -> Scratch:
    """Room for the searches between so many earlier and later rows."""
    sizes = (rows1, rows2, max(rows1, rows2) + 1, rows1, rows1, rows2, rows1)
    return Scratch(*(np.zeros(size, dtype=np.int64) for size in sizes))


@part
def _open(link, n, mode, in1, in2, i, j):  # type: ignore[no-untyped-def]
    """Whether row i may send a record to row j, by the least n (and SUBSEQUENCE) of their link.

    mode 0: any linkable pair; 1: subsequence pairs only; 2: no pair that leaves the matching sets (`in1`, `in2`).
    """
    if (link & LEAST) > n:
        return False
    if mode == SUBSEQUENCE_PAIRS:
        return (link & SUBSEQUENCE) != 0
    return mode == ANY_PAIR or not in1[i] or in2[j]


@kernel
def levels(linker, forward, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Breadth first from the earlier rows with something in `scratch.excess`, up to the nearest free later records;
    returns whether there are any. `level1`, `level2` of `scratch`: steps to each row, -1 where none lead there."""
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
    """One augmenting path from row `source` along rising levels to a free later record; returns how many records it
    carries (0: none). Rows that lead nowhere lose their level, and `next1` of `scratch` forgets links tried in vain.
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
    """Place what `scratch.excess` holds (records per earlier row) along shortest paths, phase by phase (Dinitz);
    returns how many found no place. What was changed can be taken back after mode 2 only: the others build a linker."""
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
    """Fill `loose` (int64[P, 3]: earlier row, later row, records) with the links that are no subsequence pairs; returns
    how many there are. Links of a row stand by later rows."""
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

    Returns how many records find no partner; 0 means that a linker exists. `scratch.excess` keeps them.
    """
    link_equal(linker, forward, linked1, linked2, scratch.excess)
    none = np.zeros(1, dtype=np.bool_)
    for mode in (1, 0):
        left = place_all(linker, forward, n, mode, none, none, scratch)
    return int(left)


def hall_witness(
    linker: Linker, forward: Any, n: int, excess: Ints
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """A Hall witness: earlier rows that, together, link to fewer later records than they hold, and those later rows."""
    scratch = scratch_for(len(excess), len(linker.free))
    scratch.excess[np.flatnonzero(excess)[0]] = 1
    none = np.zeros(1, dtype=np.bool_)
    levels(linker, forward, n, 0, none, none, scratch)
    return scratch.level1 >= 0, scratch.level2 >= 0


@kernel
def reachable(linker, backward, n, rows, scratch):  # type: ignore[no-untyped-def]
    """Let `came2` of `scratch` be >= 0 at the later rows with a record that some linker leaves free: exact BA >= 1 iff
    one of them is in ms2.

    Breadth first from the later rows with a free record: a record whose row could link to a reached row may move there
    and leave its own place free. `rows`: first and last + 1 row to look at, of the earlier and of the later release.
    `came1`, `came2`: the row that the search came from, -1 where it has not been, the number of earlier rows where it
    began.
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
# The best linker for one candidate: the most records that stay in, or stay free in, its matching sets
# (compiled).
#
# These are the two numbers behind the exact crack sizes (Def. 10-12): F = |ms1| - M, C = |ms2| - M, B = |ms2|
# - (most free records of ms2). Both start from a given linker and leave it changed: call `links.undo`
# afterwards.


@kernel
def most_free(linker, backward, n, in2, rows, enough, scratch):  # type: ignore[no-untyped-def]
    """Exact BA: the most records of ms2 that one linker leaves free, = |ms2| - |L1| + nu(L1, L2 minus ms2).

    `rows`: first and last + 1 row to look at, of the earlier and of the later release; links never leave a sensitive
    value, so one value or all of them are such ranges. Stops once `enough` is reached.
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
    """Give places outside ms2 to records that hold one inside, directly or through others that move up, along the paths
    of one search; returns how many, 0 where there is none. Stops once `wanted` have moved.

    The search is that of `flows.reachable`, from places outside ms2 and not beyond rows inside it. What moves along one
    path may have taken what another needs: that one then carries nothing, and is looked for by the next search.
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
    """Move as many records as fit along the path to a later row inside ms2; 0 where another path has taken its."""
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

    `loose`: int64[P, 3], pairs of the linker (earlier row, later row, records) that are no subsequence pairs; the
    others never leave ms. The pairs that leave are taken out and placed again at no cost where possible; shortest
    paths are needed only when some fit and some do not.
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
    """Successive shortest paths: place the rest with the fewest pairs that leave the matching sets."""
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
    """Place as many records as fit along the path to a free later row; 0 where another path has taken what it needs."""
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
