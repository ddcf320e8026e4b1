"""Crack sizes of one candidate by the group formulas of the paper (compiled); the exact ones need flows (best_linker).

Groups are the maximal classes of one sensitive value; rows are sorted by value, so a group is a slice.
"""

from __future__ import annotations

from models.attacks.linkability import LEAST
from models.compiled import kernel, part

SOUND, PAPER, REFERENCE, SIZES = 1, 2, 3, 4
METHODS = {"sound": SOUND, "paper": PAPER, "reference": REFERENCE, "sizes": SIZES}
"""`sizes` is `sound` without the comparability test: F and C by the sizes of the groups alone, as section 7 adds them.
Sound as well, since a link never leaves its sensitive value (docs/decisions/010)."""


@kernel
def group_cracks(start1, start2, count1, count2, forward, backward, n, method, in1, in2, g1, linked):  # type: ignore[no-untyped-def]
    """linked[s] = [F, C, B] of each sensitive value; they add up. `g1`: scratch for the rows of G1.

    paper: Theorems 3-5 as printed, an empty group is comparable to all; sound: the same over the exact relation, with
    `|G2 minus g2|`; reference: values of ms2 only, no comparability test, nothing when G1 is empty, nothing at all
    when a matching set is empty.
    """
    any1, any2 = False, False
    for i in range(len(in1)):
        any1 |= in1[i]
    for j in range(len(in2)):
        any2 |= in2[j]
    for s in range(len(linked)):
        linked[s, 0], linked[s, 1], linked[s, 2] = 0, 0, 0
    if method == REFERENCE and not (any1 and any2):
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
        if method >= REFERENCE or _comparable(start1[s], start1[s + 1], forward, n, in1, in2, rows1 * rows2):
            linked[s, 0] = size1 - min(size1, size2)
            linked[s, 1] = size2 - min(size1, size2)
        if size2 > 0:
            linked[s, 2] = _backward(s, start1, start2, count1, count2, forward, backward, n, method, in2, g1, size2)


@part
def _comparable(low, high, forward, n, in1, in2, pairs):  # type: ignore[no-untyped-def]
    """Def. 15: every record of the one group is comparable to every record of the other."""
    found = 0
    for i in range(low, high):
        if in1[i]:
            for k in range(forward[0][i], forward[0][i + 1]):
                found += in2[forward[1][k]] and (forward[2][k] & LEAST) <= n
    return found == pairs


@part
def _backward(s, start1, start2, count1, count2, forward, backward, n, method, in2, g1, size2):  # type: ignore[no-untyped-def]
    """Theorem 5 for the group of value s in ms2."""
    all1, all2, outside2 = 0, 0, 0
    for i in range(start1[s], start1[s + 1]):
        g1[i] = False
        for k in range(forward[0][i], forward[0][i + 1]):
            if in2[forward[1][k]] and (forward[2][k] & LEAST) <= n:
                g1[i] = True
                all1 += count1[i]
                break
    if all1 == 0 and method != PAPER:
        return 0
    for j in range(start2[s], start2[s + 1]):
        for k in range(backward[0][j], backward[0][j + 1]):
            if g1[backward[1][k]] and (backward[2][k] & LEAST) <= n:
                all2 += count2[j]
                outside2 += 0 if in2[j] else count2[j]
                break
    return max(0, all1 - (outside2 if method in (SOUND, SIZES) else all2 - size2))
