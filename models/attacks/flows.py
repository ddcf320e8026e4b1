"""Linkers as flows on record classes, and the exact crack sizes of Def. 10-12 (compiled).

A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). On classes with
counts it is a flow. A `linker` here is a list of (earlier row, later row, amount) threaded through two linked lists,
so that a step along a residual path costs the degree of the rows it touches:

    (head1, next1, head2, next2, row1, row2, amount, spare, free, log)

`free[j]`: records of later row j that no one links to. `spare[0]`: how many pair slots `spare[1:]` has unused.
`log`: changes since the last `undo`, `log[0, 0]` of them, so that a question about one candidate leaves no trace.
A `graph` is (start, later, least, back_start, earlier, back_least) of `linkability.Edges`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.attacks.linkability import LEAST, SUBSEQUENCE
from models.compiled import kernel
from models.eventlog import Ints

FAR = 1 << 30


def no_links(counts1: Ints, counts2: Ints) -> tuple[Any, ...]:
    """No record linked. A pair holds at least one record, so there are never more pairs than records."""
    slots = int(counts1.sum()) + 1
    spare = np.concatenate(([slots], np.arange(slots))).astype(np.int64)
    heads = [np.full(length, -1, dtype=np.int64) for length in (len(counts1), slots, len(counts2), slots)]
    pairs = [np.zeros(slots, dtype=np.int64) for _ in range(3)]
    # Never touched beyond what one candidate needs; the system gives memory for touched pages only.
    log = np.empty((1 << 21, 3), dtype=np.int32)
    log[0] = 0
    return (*heads, *pairs, spare, counts2.astype(np.int64).copy(), log)


@kernel
def shift(linker, i, j, change):  # type: ignore[no-untyped-def]
    """Add `change` to the amount that row i sends to row j, and write it down."""
    head1, next1, head2, next2, row1, row2, amount, spare, free, log = linker
    at = log[0, 0] + 1
    if at >= len(log):
        raise RuntimeError("a linker changed more often than its log can hold")
    log[at, 0], log[at, 1], log[at, 2] = i, j, change
    log[0, 0] = at
    free[j] -= change
    p = head1[i]
    before = -1
    while p >= 0 and row2[p] != j:
        before = p
        p = next1[p]
    if p < 0:
        p = spare[spare[0]]
        spare[0] -= 1
        row1[p], row2[p], amount[p] = i, j, change
        next1[p], next2[p] = head1[i], head2[j]
        head1[i], head2[j] = p, p
        return
    amount[p] += change
    if amount[p] != 0:
        return
    if before < 0:
        head1[i] = next1[p]
    else:
        next1[before] = next1[p]
    q = head2[j]
    before = -1
    while q != p:
        before = q
        q = next2[q]
    if before < 0:
        head2[j] = next2[p]
    else:
        next2[before] = next2[p]
    spare[0] += 1
    spare[spare[0]] = p


@kernel
def undo(linker):  # type: ignore[no-untyped-def]
    """Back to where the log began."""
    log = linker[9]
    for at in range(log[0, 0], 0, -1):
        log[0, 0] = at - 1
        shift(linker, log[at, 0], log[at, 1], -log[at, 2])
    log[0, 0] = 0


@kernel
def held(linker, i, j):  # type: ignore[no-untyped-def]
    """Amount that row i sends to row j."""
    p = linker[0][i]
    while p >= 0:
        if linker[5][p] == j:
            return linker[6][p]
        p = linker[1][p]
    return 0


@kernel
def _place(linker, graph, n, mode, in1, in2, source, units, came1, came2, queue):  # type: ignore[no-untyped-def]
    """One augmenting path from row `source` to a free later record; returns how many records it carries (0: none).

    mode 0: any linkable pair; 1: subsequence pairs only; 2: no pair that leaves the matching sets (`in1`, `in2`).
    `came1`, `came2` hold where the path came from, -1 where no search of this phase has been: what an earlier search
    visited in vain cannot reach a free record now either.
    """
    start, later, least = graph[0], graph[1], graph[2]
    head2, next2, row1, free = linker[2], linker[3], linker[4], linker[8]
    if came1[source] >= 0:
        return 0
    queue[0] = source
    came1[source] = source
    filled, at = 1, 0
    while at < filled:
        i = queue[at]
        at += 1
        for k in range(start[i], start[i + 1]):
            j = later[k]
            if came2[j] >= 0 or (least[k] & LEAST) > n:
                continue
            if (mode == 1 and (least[k] & SUBSEQUENCE) == 0) or (mode == 2 and in1[i] and not in2[j]):
                continue
            came2[j] = i
            if free[j] > 0:
                return _carry(linker, came1, came2, j, units)
            p = head2[j]
            while p >= 0:
                if came1[row1[p]] < 0:
                    came1[row1[p]] = len(came1) + j
                    queue[filled] = row1[p]
                    filled += 1
                p = next2[p]
    return 0


@kernel
def _carry(linker, came1, came2, end, units):  # type: ignore[no-untyped-def]
    """Move as many records as fit along the path that ends in the free later row `end`."""
    size = len(came1)
    carried = min(units, linker[8][end])
    i = came2[end]
    while came1[i] >= size:
        j = came1[i] - size
        carried = min(carried, held(linker, i, j))
        i = came2[j]
    j = end
    i = came2[j]
    shift(linker, i, j, carried)
    while came1[i] >= size:
        j = came1[i] - size
        shift(linker, i, j, -carried)
        i = came2[j]
        shift(linker, i, j, carried)
    return carried


@kernel
def _place_all(linker, graph, n, mode, in1, in2, excess, came1, came2, queue):  # type: ignore[no-untyped-def]
    """Place what `excess` holds (records per earlier row), phase by phase; returns how many found no place."""
    left = excess.sum()
    while left > 0:
        before = left
        came1[:] = -1
        came2[:] = -1
        for i in range(len(excess)):
            if excess[i] > 0:
                moved = _place(linker, graph, n, mode, in1, in2, i, excess[i], came1, came2, queue)
                excess[i] -= moved
                left -= moved
        if left == before:
            break
    return left


@kernel
def link(linker, graph, linked1, linked2, n, excess):  # type: ignore[no-untyped-def]
    """Extend a linker to one with n: equal variants first, then subsequence pairs, then any linkable pair.

    Returns how many records find no partner; 0 means that a linker exists. `excess` keeps them.
    """
    start, later, free, log = graph[0], graph[1], linker[8], linker[9]
    rows1, rows2 = len(linked1), len(linked2)
    came1, came2 = np.empty(rows1, dtype=np.int64), np.empty(rows2, dtype=np.int64)
    queue = np.empty(rows1 + 1, dtype=np.int64)
    flags = np.zeros(1, dtype=np.bool_)
    for i in range(rows1):
        for k in range(start[i], start[i + 1]):
            if linked1[i] == linked2[later[k]] and excess[i] > 0 and free[later[k]] > 0:
                moved = min(excess[i], free[later[k]])
                shift(linker, i, later[k], moved)
                excess[i] -= moved
                log[0, 0] = 0
    for mode in (1, 0):
        left = _place_all(linker, graph, n, mode, flags, flags, excess, came1, came2, queue)
        log[0, 0] = 0
    return left


@kernel
def hall(linker, graph, n, excess, seen1, seen2):  # type: ignore[no-untyped-def]
    """Mark a Hall witness: earlier rows that, together, link to fewer later records than they hold."""
    came1 = np.full(len(seen1), -1, dtype=np.int64)
    came2 = np.full(len(seen2), -1, dtype=np.int64)
    queue = np.empty(len(seen1) + 1, dtype=np.int64)
    flags = np.zeros(1, dtype=np.bool_)
    for i in range(len(seen1)):
        if excess[i] > 0:
            _place(linker, graph, n, 0, flags, flags, i, 1, came1, came2, queue)
            break
    for i in range(len(seen1)):
        seen1[i] = came1[i] >= 0
    for j in range(len(seen2)):
        seen2[j] = came2[j] >= 0


@kernel
def reachable(linker, graph, n, reached):  # type: ignore[no-untyped-def]
    """Mark the later rows with a record that some linker leaves free: exact BA >= 1 iff one of them is in ms2."""
    back_start, earlier, back_least = graph[3], graph[4], graph[5]
    head1, next1, row2, free = linker[0], linker[1], linker[5], linker[8]
    seen1 = np.zeros(len(head1), dtype=np.bool_)
    queue = np.empty(len(free) + 1, dtype=np.int64)
    filled, at = 0, 0
    for j in range(len(free)):
        reached[j] = free[j] > 0
        if reached[j]:
            queue[filled] = j
            filled += 1
    while at < filled:
        j = queue[at]
        at += 1
        for k in range(back_start[j], back_start[j + 1]):
            i = earlier[k]
            if seen1[i] or (back_least[k] & LEAST) > n:
                continue
            seen1[i] = True
            p = head1[i]
            while p >= 0:
                if not reached[row2[p]]:
                    reached[row2[p]] = True
                    queue[filled] = row2[p]
                    filled += 1
                p = next1[p]


@kernel
def most_free(linker, graph, n, in2, enough):  # type: ignore[no-untyped-def]
    """Exact BA: the most records of ms2 that one linker leaves free, = |ms2| - |L1| + nu(L1, L2 minus ms2).

    Stops once `enough` is reached. Leaves the linker changed: call `undo` afterwards.
    """
    free = linker[8]
    total, every = 0, 0
    for j in range(len(in2)):
        every += free[j]
        if in2[j]:
            total += free[j]
    enough = min(enough, every)
    if total >= enough:
        return total
    came1, came2 = np.empty(len(linker[0]), dtype=np.int64), np.empty(len(in2), dtype=np.int64)
    queue = np.empty(len(in2) + 1, dtype=np.int64)
    while total < enough:
        moved = _move_free(linker, graph, n, in2, came1, came2, queue)
        if moved == 0:
            break
        total += moved
    return total


@kernel
def _move_free(linker, graph, n, in2, came1, came2, queue):  # type: ignore[no-untyped-def]
    """Give a place outside ms2 to a record that holds one inside, directly or through others that move up."""
    back_start, earlier, back_least = graph[3], graph[4], graph[5]
    head1, next1, row2, free = linker[0], linker[1], linker[5], linker[8]
    came1[:] = -1
    came2[:] = -1
    filled, at = 0, 0
    for j in range(len(in2)):
        if free[j] > 0 and not in2[j]:
            came2[j] = len(came1)
            queue[filled] = j
            filled += 1
    while at < filled:
        j = queue[at]
        at += 1
        for k in range(back_start[j], back_start[j + 1]):
            i = earlier[k]
            if came1[i] >= 0 or (back_least[k] & LEAST) > n:
                continue
            came1[i] = j
            p = head1[i]
            while p >= 0:
                other = row2[p]
                if came2[other] < 0:
                    came2[other] = i
                    if in2[other]:
                        return _move_up(linker, came1, came2, other)
                    queue[filled] = other
                    filled += 1
                p = next1[p]
    return 0


@kernel
def _move_up(linker, came1, came2, end):  # type: ignore[no-untyped-def]
    moved = FAR
    j = end
    while came2[j] < len(came1):
        moved = min(moved, held(linker, came2[j], j))
        j = came1[came2[j]]
    moved = min(moved, linker[8][j])
    j = end
    while came2[j] < len(came1):
        i = came2[j]
        shift(linker, i, j, -moved)
        shift(linker, i, came1[i], moved)
        j = came1[i]
    return moved


@kernel
def most_matching(linker, graph, n, in1, in2, loose1, loose2, size):  # type: ignore[no-untyped-def]
    """Exact M: the most of the `size` records of ms1 that one total linker sends into ms2.

    `loose1`, `loose2`: pairs of the base linker that are no subsequence pairs; the others never leave ms. The pairs
    that leave are taken out and placed again at no cost where possible; shortest paths are needed only when some fit
    and some do not. Leaves the linker changed: call `undo` afterwards.
    """
    leaving = 0
    for k in range(len(loose1)):
        leaving += in1[loose1[k]] and not in2[loose2[k]]
    if leaving == 0:
        return size
    excess = np.zeros(len(in1), dtype=np.int64)
    leaving = 0
    for k in range(len(loose1)):
        if in1[loose1[k]] and not in2[loose2[k]]:
            amount = held(linker, loose1[k], loose2[k])
            shift(linker, loose1[k], loose2[k], -amount)
            excess[loose1[k]] += amount
            leaving += amount
    came1, came2 = np.empty(len(in1), dtype=np.int64), np.empty(len(in2), dtype=np.int64)
    queue = np.empty(len(in1) + 1, dtype=np.int64)
    left = _place_all(linker, graph, n, 2, in1, in2, excess, came1, came2, queue)
    if left == 0 or left == leaving:
        return size - left
    return size - _cheapest(linker, graph, n, in1, in2, excess, left, came1, came2)


@kernel
def _cheapest(linker, graph, n, in1, in2, excess, left, came1, came2):  # type: ignore[no-untyped-def]
    """Successive shortest paths: place the rest with the fewest pairs that leave the matching sets."""
    start, later, least = graph[0], graph[1], graph[2]
    head2, next2, row1, free = linker[2], linker[3], linker[4], linker[8]
    rows1 = len(in1)
    far1, far2 = np.empty(rows1, dtype=np.int64), np.empty(len(in2), dtype=np.int64)
    queue, waiting = np.empty(rows1 + 1, dtype=np.int64), np.empty(rows1, dtype=np.bool_)
    cost = 0
    while left > 0:
        far1[:], far2[:], waiting[:] = FAR, FAR, False
        at, filled = 0, 0
        for i in range(rows1):
            if excess[i] > 0:
                far1[i], came1[i], waiting[i] = 0, i, True
                queue[filled] = i
                filled += 1
        while at != filled:
            i = queue[at]
            at = (at + 1) % (rows1 + 1)
            waiting[i] = False
            for k in range(start[i], start[i + 1]):
                j = later[k]
                away = far1[i] + (in1[i] and not in2[j])
                if (least[k] & LEAST) > n or away >= far2[j]:
                    continue
                far2[j], came2[j] = away, i
                p = head2[j]
                while p >= 0:
                    other = row1[p]
                    back = away - (in1[other] and not in2[j])
                    if back < far1[other]:
                        far1[other], came1[other] = back, rows1 + j
                        if not waiting[other]:
                            waiting[other] = True
                            queue[filled] = other
                            filled = (filled + 1) % (rows1 + 1)
                    p = next2[p]
        end = -1
        for j in range(len(in2)):
            if free[j] > 0 and far2[j] < FAR and (end < 0 or far2[j] < far2[end]):
                end = j
        i = came2[end]
        while came1[i] >= rows1:
            i = came2[came1[i] - rows1]
        moved = _carry(linker, came1, came2, end, excess[i])
        excess[i] -= moved
        left -= moved
        cost += moved * far2[end]
    return cost
