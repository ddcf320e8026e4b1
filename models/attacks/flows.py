"""Linkers as flows: the first one for each n, along paths on which records make room for one another (compiled).

`linker`: the arrays of models.attacks.links; `forward` and `backward`: those of `linkability.Edges`; `scratch`: those
of `Scratch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import LEAST, SUBSEQUENCE
from models.attacks.links import LOGGED, NEXT1, NEXT2, RECORDS, ROW1, ROW2, Linker, held, shift
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Ints

FAR = 1 << 30


@content_free()
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
    if mode == 1:
        return (link & SUBSEQUENCE) != 0
    return mode == 0 or not in1[i] or in2[j]


@kernel
def levels(linker, forward, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Breadth first from the earlier rows with something in `scratch.excess`, up to the nearest free later records;
    returns whether there are any. `level1`, `level2` of `scratch`: steps to each row, -1 where none lead there."""
    start, later, least = forward
    queue, excess, level1, level2 = scratch[2], scratch[3], scratch[4], scratch[5]
    head2, pairs, free = linker[1], linker[2], linker[3]
    for j in range(len(level2)):
        level2[j] = -1
    filled, at, end = 0, 0, FAR
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
    return end < FAR


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
        carried = min(carried, held(linker, i, j))
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
                if mode != 2:
                    linker[5][LOGGED] = 0
    return left


@kernel
def link_equal(linker, forward, linked1, linked2, excess):  # type: ignore[no-untyped-def]
    """Link records of equal variants, as far as both sides go."""
    start, later, free, used = forward[0], forward[1], linker[3], linker[5]
    for i in range(len(linked1)):
        for k in range(start[i], start[i + 1]):
            j = later[k]
            if linked1[i] == linked2[j] and excess[i] > 0 and free[j] > 0:
                moved = min(excess[i], free[j])
                shift(linker, i, j, moved)
                excess[i] -= moved
                used[LOGGED] = 0


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


def link(linker: Linker, forward: Any, linked1: Any, linked2: Any, n: int, scratch: Scratch) -> int:
    """Extend a linker to one with n: equal variants first, then subsequence pairs, then any linkable pair.

    Returns how many records find no partner; 0 means that a linker exists. `scratch.excess` keeps them.
    """
    link_equal(linker, forward, linked1, linked2, scratch.excess)
    none = np.zeros(1, dtype=np.bool_)
    for mode in (1, 0):
        left = place_all(linker, forward, n, mode, none, none, scratch)
    return int(left)


def hall(linker: Linker, forward: Any, n: int, excess: Ints) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
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
