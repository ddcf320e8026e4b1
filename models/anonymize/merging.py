"""Compiled parts of Baseline-2: longest common subsequences and the cheapest partner of a group."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.compiled import kernel

Array = Any


@kernel
def lcs_table(one: Array, two: Array, table: Array) -> int:
    """Length of a longest common subsequence; `table[i, j]` for the suffixes from i and j."""
    for i in range(len(one) - 1, -1, -1):
        table[i, len(two)] = 0
        for j in range(len(two) - 1, -1, -1):
            if i == len(one) - 1:
                table[i + 1, j] = 0
            if one[i] == two[j]:
                table[i, j] = table[i + 1, j + 1] + 1 if i + 1 < len(one) and j + 1 < len(two) else 1
            else:
                below = table[i + 1, j] if i + 1 < len(one) else 0
                right = table[i, j + 1] if j + 1 < len(two) else 0
                table[i, j] = max(below, right)
    return table[0, 0] if len(one) and len(two) else 0


@kernel
def common(one: Array, two: Array, table: Array) -> Array:
    """One longest common subsequence (the leftmost choice)."""
    length = lcs_table(one, two, table)
    result = np.empty(length, dtype=np.int32)
    i = j = n = 0
    while n < length:
        if one[i] == two[j]:
            result[n] = one[i]
            n, i, j = n + 1, i + 1, j + 1
        elif i + 1 < len(one) and table[i + 1, j] >= table[i, j]:
            i += 1
        else:
            j += 1
    return result


@kernel
def cheapest_partner(
    group: int, traces: Array, lengths: Array, sizes: Array, alive: Array, K: int, table: Array
) -> tuple[int, int]:
    """The group whose merger with `group` loses the fewest events, or -1 where nothing is common with any.

    A group of K or more cases is no violating one: it may be joined, but loses nothing.
    """
    best, found = -1, -1
    own, n = lengths[group], sizes[group]
    for other in range(len(lengths)):
        if other == group or not alive[other]:
            continue
        least = max(own - lengths[other], 0) * n + max(lengths[other] - own, 0) * sizes[other]
        if found >= 0 and least >= best:
            continue
        length = lcs_table(traces[group, :own], traces[other, : lengths[other]], table)
        if length == 0 or (sizes[other] >= K and length < lengths[other]):
            continue
        cost = (own - length) * n + (lengths[other] - length) * sizes[other]
        if found < 0 or cost < best:
            best, found = cost, other
    return int(found), int(best) if found >= 0 else 0
