"""Compiled loops of hiding: background knowledge counted by group of cases, and events taken from single cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.compiled import kernel

Array = Any


@kernel
def exposing(
    starts: Array,
    codes: Array,
    kept: Array,
    group: Array,
    outside: Array,
    least: Array,
    length: Array,
    n_items: int,
) -> tuple[Array, Array, Array]:
    """Find sequences that 1..least - 1 cases outside some release match, while their prefixes have enough.

    Parameters
    ----------
    starts, codes
        int64[C + 1] and int64[E], traces of the cases.
    kept
        bool[E], events that may be shown.
    group
        int64[C], group of each case: its cases were shown by the same releases.
    outside
        bool[G, T], whether a group is outside target t.
    least, length
        int64[T], cases that must match, and longest sequence that is searched, by target.
    n_items
        Number of items.

    Returns
    -------
    sizes
        int64[V], length of each sequence found.
    sequences
        int64[V, longest], their items.
    must
        bool[V, G], groups that must lose it (see `_peeled`).
    """  # fmt: skip
    n, deepest, targets = len(starts) - 1, int(length.max()), len(least)
    rows = np.empty((deepest, n), dtype=np.int64)
    places = np.empty((deepest, n), dtype=np.int64)
    sizes = np.zeros(deepest, dtype=np.int64)
    path = np.zeros(deepest, dtype=np.int64)
    alive = np.ones((deepest + 1, targets), dtype=np.bool_)
    counts = np.zeros((deepest, n_items, outside.shape[0]), dtype=np.int64)
    found_size = np.zeros(64, dtype=np.int64)
    found_paths = np.zeros((64, deepest), dtype=np.int64)
    must = np.zeros((64, outside.shape[0]), dtype=np.bool_)
    filled = 0
    for row in range(n):
        rows[0, row] = row
        places[0, row] = starts[row]
    sizes[0] = n
    depth = 0
    _by_group(rows[0], places[0], n, starts, codes, kept, group, counts[0])
    path[0] = -1
    while depth >= 0:
        path[depth] += 1
        if path[depth] == n_items:
            depth -= 1
            continue
        count, size = counts[depth, path[depth]], depth + 1
        if count.max() == 0:
            continue
        if filled == len(found_size):
            found_size, found_paths, must = _longer(found_size, found_paths, must)
        extend = _goes_on(count, outside, least, length, size, alive[depth], alive[size])
        if _peeled(count, outside, least, length, size, alive[depth], must[filled]):
            found_size[filled] = size
            found_paths[filled, :size] = path[:size]
            filled += 1
        if extend:
            sizes[size] = _follow(
                rows[depth], places[depth], sizes[depth], starts, codes, kept, path[depth], rows[size], places[size]
            )
            depth = size
            _by_group(rows[depth], places[depth], sizes[depth], starts, codes, kept, group, counts[depth])
            path[depth] = -1
    return found_size[:filled], found_paths[:filled], must[:filled]


@kernel
def _longer(found_size: Array, found_paths: Array, must: Array) -> tuple[Array, Array, Array]:
    room = 2 * len(found_size)
    more_size = np.zeros(room, dtype=np.int64)
    more = np.zeros((room, found_paths.shape[1]), dtype=np.int64)
    more_must = np.zeros((room, must.shape[1]), dtype=np.bool_)
    more_size[: len(found_size)] = found_size
    more[: len(found_size)] = found_paths
    more_must[: len(found_size)] = must
    return more_size, more, more_must


@kernel
def _by_group(
    rows: Array,
    places: Array,
    size: int,
    starts: Array,
    codes: Array,
    kept: Array,
    group: Array,
    counts: Array,
) -> None:
    """Cases by group in which each item follows: each item once a case."""
    counts[:] = 0
    stamp = np.full(counts.shape[0], -1, dtype=np.int64)
    for k in range(size):
        row = rows[k]
        for place in range(places[k], starts[row + 1]):
            item = codes[place]
            if kept[place] and stamp[item] != k:
                stamp[item] = k
                counts[item, group[row]] += 1


@kernel
def _outside(count: Array, outside: Array, t: int, lost: Array) -> int:
    """Cases of the groups outside target t that still show it."""
    total = 0
    for g in range(len(count)):
        if count[g] and outside[g, t] and not lost[g]:
            total += count[g]
    return total


@kernel
def _goes_on(
    count: Array, outside: Array, least: Array, length: Array, size: int, alive: Array, next_alive: Array
) -> bool:
    """Return whether a longer sequence can be short of cases first; fills for which targets."""
    nobody = np.zeros(len(count), dtype=np.bool_)
    for t in range(len(least)):
        next_alive[t] = alive[t] and size < length[t] and _outside(count, outside, t, nobody) >= least[t]
    return bool(next_alive.any())


@kernel
def _peeled(
    count: Array,
    outside: Array,
    least: Array,
    length: Array,
    size: int,
    alive: Array,
    lost: Array,
) -> bool:
    """Fill `lost` with the groups that must lose the sequence; return whether there are any.

    A group is lost if it is outside a target that counts too few of it. This takes the group from the counts of
    other targets, so the step is repeated until each target counts none or enough.
    """
    lost[:] = False
    changed = True
    while changed:
        changed = False
        for t in range(len(least)):
            if alive[t] and size <= length[t] and 0 < _outside(count, outside, t, lost) < least[t]:
                for g in range(len(count)):
                    lost[g] |= outside[g, t]
                changed = True
    return bool(lost.any())


@kernel
def _follow(
    rows: Array, places: Array, size: int, starts: Array, codes: Array, kept: Array, item: int, new_rows: Array,
    new_places: Array,
) -> int:  # fmt: skip
    """Return the number of cases in which `item` follows; write each with its next place.

    The checker has its own copy (check.py) on purpose: it shares no code with the code that it checks.
    """
    n = 0
    for k in range(size):
        for place in range(places[k], starts[rows[k] + 1]):
            if kept[place] and codes[place] == item:
                new_rows[n] = rows[k]
                new_places[n] = place + 1
                n += 1
                break
    return n


@kernel
def hide(
    starts: Array, codes: Array, kept: Array, fixed: Array, group: Array, sizes: Array, bans: Array, must: Array,
    price: Array, rank: Array,
) -> Array:  # fmt: skip
    """Take from `kept` what each case must lose.

    A case loses all its free events of an item: of the item with most of the case's bans by `price` of the
    events, then of least `rank`. Its fixed events stay.

    Parameters
    ----------
    starts, codes
        int64[C + 1] and int64[E], traces of the cases.
    kept
        bool[E], events that may be shown; changed here.
    fixed
        bool[E], events that some release showed.
    group
        int64[C], group of each case.
    sizes, bans, must
        Sequences to lose, as `exposing` returns them.
    price, rank
        int64[items], price of an event of each item, and the order in which ties are broken.

    Returns
    -------
    Flags
        bool[V], the sequences that some case can only lose with a fixed event.
    """  # fmt: skip
    stuck = np.zeros(len(sizes), dtype=np.bool_)
    present = np.empty(len(sizes), dtype=np.int64)
    for row in range(len(starts) - 1):
        first, last = starts[row], starts[row + 1]
        n = 0
        for v in range(len(sizes)):
            if must[v, group[row]] and _matches(codes, kept, fixed, first, last, bans[v, : sizes[v]], -1):
                present[n] = v
                n += 1
        while n:
            item = _best(codes, kept, fixed, first, last, sizes, bans, present, n, price, rank)
            if item < 0:
                for k in range(n):
                    stuck[present[k]] = True
                break
            for place in range(first, last):
                if codes[place] == item and not fixed[place]:
                    kept[place] = False
            n_remaining = 0
            for k in range(n):
                v = present[k]
                if _matches(codes, kept, fixed, first, last, bans[v, : sizes[v]], -1):
                    present[n_remaining] = v
                    n_remaining += 1
            n = n_remaining
    return stuck


@kernel
def _best(
    codes: Array, kept: Array, fixed: Array, first: int, last: int, sizes: Array, bans: Array, present: Array, n: int,
    price: Array, rank: Array,
) -> int:  # fmt: skip
    """Return the item to hide: most bans of the case for the price of its free events, or -1."""
    best, hits, cost = -1, 0, 1
    for k in range(n):
        for j in range(sizes[present[k]]):
            item = bans[present[k], j]
            free = 0
            for place in range(first, last):
                if kept[place] and codes[place] == item and not fixed[place]:
                    free += price[item]
            if not free or item == best:
                continue
            killed = 0
            for m in range(n):
                v = present[m]
                killed += not _matches(codes, kept, fixed, first, last, bans[v, : sizes[v]], item)
            more = killed * cost - hits * free
            if more > 0 or (more == 0 and killed and rank[item] < rank[best]):
                best, hits, cost = item, killed, free
    return best


@kernel
def _matches(
    codes: Array,
    kept: Array,
    fixed: Array,
    first: int,
    last: int,
    ban: Array,
    without: int,
) -> bool:
    """Return whether the kept events match the ban, leaving out the free events of the item `without`."""
    need = 0
    for place in range(first, last):
        item = codes[place]
        if kept[place] and item == ban[need] and (item != without or fixed[place]):
            need += 1
            if need == len(ban):
                return True
    return False


@kernel
def embed(
    starts: Array, item: Array, most: Array, row: Array, trace_starts: Array, traces: Array, fixed: Array
) -> None:
    """Mark the events of each case that its newest trace shows.

    The trace of a case is `row` of `traces` (-1: none), and its first embedding is marked in `fixed`. If it
    does not fit, or for an item that it lacks, the first `most` events of the item are marked.

    Parameters
    ----------
    starts, item
        int64[C + 1] and int64[E], traces of the cases.
    most
        int64[E], how many events of this item a release showed of the case at most.
    row
        int64[C], newest trace of each case, -1 if there is none.
    trace_starts, traces
        Items of these traces, end to end.
    fixed
        bool[E]; events that a release showed become true.
    """
    for case in range(len(row)):
        first, last = starts[case], starts[case + 1]
        a = b = 0
        if row[case] >= 0:
            a, b = trace_starts[row[case]], trace_starts[row[case] + 1]
        at = a
        for place in range(first, last):
            if at < b and item[place] == traces[at]:
                fixed[place] = True
                at += 1
        if at < b:
            fixed[first:last] = False
            b = a
        for place in range(first, last):
            if not most[place]:
                continue
            shown = False
            for k in range(a, b):
                if traces[k] == item[place]:
                    shown = True
                    break
            before = 0
            for other in range(first, place):
                before += item[other] == item[place]
            if not shown and before < most[place]:
                fixed[place] = True
