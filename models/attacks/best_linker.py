"""The best linker for one candidate: the most records that stay in, or stay free in, its matching sets (compiled).

These are the two numbers behind the exact crack sizes (Def. 10-12): F = |ms1| - M, C = |ms2| - M, B = |ms2| - (most
free records of ms2). Both start from a given linker and leave it changed: call `links.undo` afterwards.
"""

from __future__ import annotations

import numpy as np

from models.attacks.flows import FAR, carry, place_all
from models.attacks.linkability import LEAST
from models.attacks.links import NEXT1, NEXT2, ROW1, ROW2, held, shift
from models.compiled import kernel, part


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
    moved = FAR
    j = end
    while came2[j] < len(came1):
        moved = min(moved, held(linker, came2[j], j))
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
    left = place_all(linker, forward, n, 2, in1, in2, scratch)
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
            far2[j] = FAR
        for i in range(rows1):
            far1[i], waiting[i] = FAR, 0
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
        nearest = FAR
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
        units = min(units, held(linker, i, j))
        i = came2[j]
    units = min(units, excess[i])
    if units > 0:
        carry(linker, came1, came2, end, units)
        excess[i] -= units
    return units
