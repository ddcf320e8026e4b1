"""Crack sizes of one candidate: by the group formulas of the paper, or exactly by flows (compiled).

Groups are the maximal classes of one sensitive value; rows are sorted by value, so a group is a slice.
"""

from __future__ import annotations

import numpy as np

from models.attacks.flows import most_free, most_matching, undo
from models.attacks.linkability import LEAST
from models.compiled import kernel

EXACT, SOUND, PAPER, REFERENCE, SIZES = 0, 1, 2, 3, 4
METHODS = {"exact": EXACT, "sound": SOUND, "paper": PAPER, "reference": REFERENCE, "sizes": SIZES}
"""`sizes` is `sound` without the comparability test: F and C by the sizes of the groups alone, as section 7 adds them.
Sound as well, since a link never leaves its sensitive value."""


@kernel
def group_cracks(start1, start2, count1, count2, graph, n, method, in1, in2, g1, linked, out):  # type: ignore[no-untyped-def]
    """out = [F, C, B] summed over groups. `g1`: scratch for the rows of G1; `linked`: per value [F, C, B] to report.

    paper: Theorems 3-5 as printed, an empty group is comparable to all; sound: the same over the exact relation, with
    `|G2 minus g2|`; reference: values of ms2 only, no comparability test, nothing when G1 is empty, nothing at all
    when a matching set is empty.
    """
    out[:] = 0
    linked[:, :] = 0
    if method == REFERENCE and not (in1.any() and in2.any()):
        return
    for s in range(len(start1) - 1):
        size1, size2, rows1, rows2 = 0, 0, 0, 0
        for i in range(start1[s], start1[s + 1]):
            size1 += count1[i] * in1[i]
            rows1 += in1[i]
        for j in range(start2[s], start2[s + 1]):
            size2 += count2[j] * in2[j]
            rows2 += in2[j]
        if size1 == 0 and size2 == 0:
            continue
        if method == REFERENCE and size2 == 0:
            continue
        if method >= REFERENCE or _comparable(start1[s], start1[s + 1], graph, n, in1, in2, rows1 * rows2):
            linked[s, 0] = size1 - min(size1, size2)
            linked[s, 1] = size2 - min(size1, size2)
        if size2 > 0:
            linked[s, 2] = _backward(s, start1, start2, count1, count2, graph, n, method, in2, g1, size2)
        out += linked[s]


@kernel
def _comparable(low, high, graph, n, in1, in2, pairs):  # type: ignore[no-untyped-def]
    """Def. 15: every record of the one group is comparable to every record of the other."""
    found = 0
    for i in range(low, high):
        if in1[i]:
            for k in range(graph[0][i], graph[0][i + 1]):
                found += in2[graph[1][k]] and (graph[2][k] & LEAST) <= n
    return found == pairs


@kernel
def _backward(s, start1, start2, count1, count2, graph, n, method, in2, g1, size2):  # type: ignore[no-untyped-def]
    """Theorem 5 for the group of value s in ms2."""
    all1, all2, outside2 = 0, 0, 0
    for i in range(start1[s], start1[s + 1]):
        g1[i] = False
        for k in range(graph[0][i], graph[0][i + 1]):
            if in2[graph[1][k]] and (graph[2][k] & LEAST) <= n:
                g1[i] = True
                all1 += count1[i]
                break
    if all1 == 0 and method != PAPER:
        return 0
    for j in range(start2[s], start2[s + 1]):
        for k in range(graph[3][j], graph[3][j + 1]):
            if g1[graph[4][k]] and (graph[5][k] & LEAST) <= n:
                all2 += count2[j]
                outside2 += 0 if in2[j] else count2[j]
                break
    return max(0, all1 - (outside2 if method in (SOUND, SIZES) else all2 - size2))


@kernel
def exact_cracks(count1, count2, graph, linker, loose1, loose2, n, in1, in2, open2, memo, out):  # type: ignore[no-untyped-def]
    """out = [F, C, B] by Def. 10-12: F = |ms1| - M, C = |ms2| - M, B = |ms2| - most free records.

    The most free records depend only on which rows of `open2` (those that some linker leaves free) are in ms2, since
    no path between linkers leaves them. `memo`: uint64[slots, 3], two hashes of these and the answer + 1.
    """
    size1, size2 = 0, 0
    for i in range(len(in1)):
        size1 += count1[i] * in1[i]
    h1, h2 = np.uint64(0), np.uint64(0)
    for j in range(len(in2)):
        if in2[j]:
            size2 += count2[j]
            if open2[j]:
                key = np.uint64(j + 1) * np.uint64(0x9E3779B97F4A7C15)
                key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                h1 ^= key ^ (key >> np.uint64(27))
                h2 += (key ^ (key >> np.uint64(33))) * np.uint64(0x94D049BB133111EB)
    m = most_matching(linker, graph, n, in1, in2, loose1, loose2, size1)
    undo(linker)
    at = h1 & np.uint64(len(memo) - 1)
    if memo[at, 2] == 0 or memo[at, 0] != h1 or memo[at, 1] != h2:
        free = most_free(linker, graph, n, in2, size2)
        undo(linker)
        memo[at, 0], memo[at, 1], memo[at, 2] = h1, h2, np.uint64(free + 1)
    out[2] = size2 - np.int64(memo[at, 2] - np.uint64(1))
    out[0], out[1] = size1 - m, size2 - m
