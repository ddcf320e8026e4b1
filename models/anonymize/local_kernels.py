"""Compiled loops of local suppression: which events of each trace stay under a list of bans."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.compiled import kernel

Array = Any


@kernel
def contains(codes: Array, kept: Array, first: int, last: int, ban: Array) -> bool:
    """Return whether the kept positions first..last-1 contain the ban as a subsequence."""
    need = 0
    for place in range(first, last):
        if kept[place] and codes[place] == ban[need]:
            need += 1
            if need == len(ban):
                return True
    return False


@kernel
def _masks(ban_starts: Array, ban_codes: Array) -> Array:
    """One bit an item (modulo 64): a quick necessary condition for containing a ban."""
    masks = np.zeros(len(ban_starts) - 1, dtype=np.uint64)
    for b in range(len(masks)):
        for k in range(ban_starts[b], ban_starts[b + 1]):
            masks[b] |= np.uint64(1) << np.uint64(ban_codes[k] & 63)
    return masks


@kernel
def containing(starts: Array, codes: Array, ban_starts: Array, ban_codes: Array) -> tuple[Array, Array]:
    """Rows whose whole trace contains each ban: (end of each ban's part, row numbers)."""
    everything = np.ones(len(codes), dtype=np.bool_)
    masks = _masks(ban_starts, ban_codes)
    items = _masks(starts, codes)
    ends = np.zeros(len(masks), dtype=np.int64)
    traces = np.empty(1024, dtype=np.int64)
    filled = 0
    for b in range(len(masks)):
        if filled + len(items) > len(traces):
            longer = np.empty(2 * len(traces) + len(items), dtype=np.int64)
            longer[:filled] = traces[:filled]
            traces = longer
        ban = ban_codes[ban_starts[b] : ban_starts[b + 1]]
        for row in range(len(items)):
            if masks[b] & ~items[row] == 0 and contains(codes, everything, starts[row], starts[row + 1], ban):
                traces[filled] = row
                filled += 1
        ends[b] = filled
    return ends, traces[:filled]


@kernel
def project(
    chosen: Array,
    starts: Array,
    codes: Array,
    priority: Array,
    kept: Array,
    ban_starts: Array,
    ban_codes: Array,
    row_starts: Array,
    row_bans: Array,
) -> None:
    """Rebuild `kept` for the chosen rows.

    Events enter by priority of their item, then by place; one that would complete a ban stays out.
    `row_starts` and `row_bans` give the bans that bind each row.
    """
    masks = _masks(ban_starts, ban_codes)
    for row in chosen:
        first, last = starts[row], starts[row + 1]
        kept[first:last] = False
        have = np.uint64(0)
        keys = np.empty(last - first, dtype=np.int64)
        for place in range(first, last):
            keys[place - first] = priority[codes[place]] * (last - first) + place - first
        for k in np.argsort(keys):
            place = first + k
            item = np.uint64(1) << np.uint64(codes[place] & 63)
            kept[place] = True
            for i in range(row_starts[row], row_starts[row + 1]):
                b = row_bans[i]
                if masks[b] & item == 0 or masks[b] & ~(have | item) != 0:
                    continue
                if contains(codes, kept, first, last, ban_codes[ban_starts[b] : ban_starts[b + 1]]):
                    kept[place] = False
                    break
            if kept[place]:
                have |= item


@kernel
def first_gaps(
    starts: Array,
    codes: Array,
    priority: Array,
    ban_starts: Array,
    ban_codes: Array,
    item_starts: Array,
    item_bans: Array,
    n_items: int,
) -> tuple[Array, Array]:
    """Find where an unseen event could be without showing in the released trace.

    For the released trace of each row and each item: from gap g on, the first gap at which an event of that item would
    have been skipped by the rules of local suppression, or -1. Gaps of a row of n events are 0..n.
    Returns (offset of each row in the table, int32[sum of n + 1, items]).
    """  # fmt: skip
    rows = len(starts) - 1
    offsets = np.zeros(rows + 1, dtype=np.int64)
    for row in range(rows):
        offsets[row + 1] = offsets[row] + starts[row + 1] - starts[row] + 1
    table = np.full((offsets[rows], n_items), -1, dtype=np.int32)
    trial = np.empty(_longest(starts) + 1, dtype=np.int32)
    masks = _masks(ban_starts, ban_codes)
    for row in range(rows):
        n = starts[row + 1] - starts[row]
        for item in range(n_items):
            later = -1
            for gap in range(n, -1, -1):
                size = _earlier(codes, starts[row], n, item, gap, priority, trial)
                if _completes(trial, size, item, ban_starts, ban_codes, item_starts, item_bans, masks):
                    later = gap
                table[offsets[row] + gap, item] = later
    return offsets, table


@kernel
def _longest(starts: Array) -> int:
    longest = 0
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@kernel
def _earlier(codes: Array, first: int, n: int, item: int, gap: int, priority: Array, trial: Array) -> int:
    """Write the events that entered before `item` at `gap`, and that event; return their number."""
    size = 0
    for k in range(n + 1):
        if k == gap:
            trial[size] = item
            size += 1
        if k < n:
            other = codes[first + k]
            if priority[other] < priority[item] or (other == item and k < gap):
                trial[size] = other
                size += 1
    return size


@kernel
def _completes(
    trial: Array, size: int, item: int, ban_starts: Array, ban_codes: Array, item_starts: Array, item_bans: Array,
    masks: Array,
) -> bool:  # fmt: skip
    have = np.uint64(0)
    for k in range(size):
        have |= np.uint64(1) << np.uint64(trial[k] & 63)
    for i in range(item_starts[item], item_starts[item + 1]):
        b = item_bans[i]
        if masks[b] & ~have != 0:
            continue
        need = ban_starts[b]
        for k in range(size):
            if trial[k] == ban_codes[need]:
                need += 1
                if need == ban_starts[b + 1]:
                    return True
    return False


@kernel
def possible_cases(
    starts: Array,
    codes: Array,
    weight: Array,
    offsets: Array,
    gaps: Array,
    once: Array,
    wanted_starts: Array,
    wanted_codes: Array,
) -> Array:
    """Per wanted candidate: released cases whose source trace may have contained it, int64[wanted].

    The earliest gap after each item is enough: from an earlier gap everything a later one reaches is reached too.
    """  # fmt: skip
    result = np.zeros(len(wanted_starts) - 1, dtype=np.int64)
    for row in range(len(weight)):
        n = starts[row + 1] - starts[row]
        for w in range(len(result)):
            gap = 0
            for k in range(wanted_starts[w], wanted_starts[w + 1]):
                gap = _after(
                    wanted_codes[k], gap, n, codes[starts[row] : starts[row + 1]], gaps[offsets[row] + gap], once
                )
                if gap < 0:
                    break
            if gap >= 0:
                result[w] += weight[row]
    return result


@kernel
def _after(item: int, gap: int, n: int, trace: Array, hidden: Array, once: Array) -> int:
    """Return the earliest gap after `item`, shown in the trace or hidden by the rules, or -1."""
    seen = -1
    for place in range(gap, n):
        if trace[place] == item:
            seen = place + 1
            break
    if once[item]:
        for place in range(n):
            if trace[place] == item:
                return seen
    if hidden[item] >= 0 and (seen < 0 or hidden[item] < seen):
        return int(hidden[item])
    return seen
