"""The compiled walk of the checker: every supported candidate, depth first."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.compiled import kernel

Array = Any


@kernel
def _tally(
    rows: Array,
    places: Array,
    size: int,
    starts: Array,
    flat: Array,
    stands: Array,
    values: Array,
    count: Array,
    share: Array,
) -> None:
    """Cases (and classes) in which each item follows: each item once per case."""
    count[:] = 0
    share[:] = 0
    stamp = np.full(len(count), -1, dtype=np.int64)
    for k in range(size):
        row = rows[k]
        for place in range(places[k], starts[row + 1]):
            item = flat[place]
            if stamp[item] != k:
                stamp[item] = k
                count[item] += stands[row]
                for a in range(values.shape[0]):
                    if values[a, row] >= 0:
                        share[item, values[a, row]] += stands[row]


@kernel
def _project(
    rows: Array, places: Array, size: int, starts: Array, flat: Array, item: int, new_rows: Array, new_places: Array
) -> int:
    """The cases in which `item` follows, each with the place after its first occurrence."""
    n = 0
    for k in range(size):
        for place in range(places[k], starts[rows[k] + 1]):
            if flat[place] == item:
                new_rows[n] = rows[k]
                new_places[n] = place + 1
                n += 1
                break
    return n


@kernel
def walk(
    starts: Array,
    flat: Array,
    stands: Array,
    values: Array,
    n_values: int,
    n_items: int,
    L: int,
    K: int,
    share_of: int,
    whole: int,
) -> tuple[Array, int, int, int]:
    """(path, its length or 0, support, worst count) of the first violating candidate. `stands`: cases behind each row;
    of `whole` cases `share_of` may have one value."""
    n = len(starts) - 1
    rows = np.empty((L + 1, n), dtype=np.int64)
    places = np.empty((L + 1, n), dtype=np.int64)
    sizes = np.zeros(L + 1, dtype=np.int64)
    counts = np.zeros((L, n_items), dtype=np.int64)
    share = np.zeros((n_items, n_values), dtype=np.int64)
    path = np.full(L + 1, -1, dtype=np.int64)
    for row in range(n):
        rows[0, row] = row
        places[0, row] = starts[row]
    sizes[0] = n
    depth = 0
    fresh = True
    while depth >= 0:
        if fresh:
            _tally(rows[depth], places[depth], sizes[depth], starts, flat, stands, values, counts[depth], share)
            for item in range(n_items):
                support = counts[depth, item]
                worst = share[item].max()
                if support > 0 and (support < K or worst > share_of * support // whole):
                    path[depth] = item
                    return path, depth + 1, support, worst
            path[depth] = -1
            fresh = False
        path[depth] += 1
        if path[depth] >= n_items or depth == L - 1:
            depth -= 1
        elif counts[depth, path[depth]] > 0:
            sizes[depth + 1] = _project(
                rows[depth], places[depth], sizes[depth], starts, flat, path[depth], rows[depth + 1], places[depth + 1]
            )
            depth += 1
            fresh = True
    return path, 0, 0, 0
