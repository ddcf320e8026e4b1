"""Compiled loops of local suppression: which events of each trace stay under a list of bans.

The traces of all rows are stored one after the other, and so do the bans:

    starts       0      3    5        row r has the positions starts[r] .. starts[r + 1] - 1
    codes        2 0 1  0 2           item at each position
    kept         1 1 0  1 1           whether the event at a position stays
    ban_starts   0    2      5        ban b is ban_codes[ban_starts[b] : ban_starts[b + 1]]
    ban_codes    0 1  2 0 1

A row contains a ban as a subsequence of its kept positions. Before a row and a ban are compared, masks of items
(`_masks`) rule out most of these pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.compiled import kernel

Array = Any


@kernel
def contains(codes: Array, kept: Array, first: int, last: int, ban: Array) -> bool:
    """Return whether the kept positions first..last-1 contain the ban as a subsequence.

    Parameters
    ----------
    codes, kept
        Items of all positions, and which of them stay.
    first, last
        Begin and end of the row.
    ban
        int32, items of the ban, at least one.
    """
    n_matched = 0
    for place in range(first, last):
        if kept[place] and codes[place] == ban[n_matched]:
            n_matched += 1
            if n_matched == len(ban):
                return True
    return False


@kernel
def masks_of(ban_starts: Array, ban_codes: Array) -> Array:
    """Return the items of each ban as bits (code modulo 64).

    A row that lacks one of these bits does not contain the ban.

    Parameters
    ----------
    ban_starts, ban_codes
        Bans, or rows, end to end.

    Returns
    -------
    Array
        uint64[bans].
    """
    masks = np.zeros(len(ban_starts) - 1, dtype=np.uint64)
    for b in range(len(masks)):
        for k in range(ban_starts[b], ban_starts[b + 1]):
            masks[b] |= np.uint64(1) << np.uint64(ban_codes[k] & 63)
    return masks


@kernel
def containing(starts: Array, codes: Array, ban_starts: Array, ban_codes: Array) -> tuple[Array, Array]:
    """Return the rows whose whole trace contains each ban: (end of each ban's part, row numbers).

    Only the rows with the rarest item of a ban are compared: with many activities these are few.

    Parameters
    ----------
    starts, codes
        Rows, and the item at each position.
    ban_starts, ban_codes
        The bans, end to end; none is empty.

    Returns
    -------
    ends
        int64[bans], end of the part of each ban in `rows`.
    rows
        int32, row numbers, ascending for each ban.
    """
    everything = np.ones(len(codes), dtype=np.bool_)
    masks = masks_of(ban_starts, ban_codes)
    items_of_rows = masks_of(starts, codes)
    item_starts, item_rows = _rows_by_item(starts, codes, _one_above(codes, ban_codes))
    ends = np.zeros(len(masks), dtype=np.int64)
    found_rows = np.empty(1024, dtype=np.int32)
    filled = 0
    for b in range(len(masks)):
        ban = ban_codes[ban_starts[b] : ban_starts[b + 1]]
        rarest = ban[0]
        for item in ban:
            if item_starts[item + 1] - item_starts[item] < item_starts[rarest + 1] - item_starts[rarest]:
                rarest = item
        rows = item_rows[item_starts[rarest] : item_starts[rarest + 1]]
        if filled + len(rows) > len(found_rows):
            longer = np.empty(2 * len(found_rows) + len(rows), dtype=np.int32)
            longer[:filled] = found_rows[:filled]
            found_rows = longer
        for row in rows:
            has_items = masks[b] & ~items_of_rows[row] == 0
            if has_items and contains(codes, everything, starts[row], starts[row + 1], ban):
                found_rows[filled] = row
                filled += 1
        ends[b] = filled
    return ends, found_rows[:filled]


@kernel
def _one_above(codes: Array, ban_codes: Array) -> int:
    """Return the least number above every item."""
    above = 0
    for code in codes:
        above = max(above, code + 1)
    for code in ban_codes:
        above = max(above, code + 1)
    return above


@kernel
def _rows_by_item(starts: Array, codes: Array, n_items: int) -> tuple[Array, Array]:
    """Return the rows that have each item, ascending: (starts by item, row numbers)."""
    item_starts = np.zeros(n_items + 1, dtype=np.int64)
    last_row = np.full(n_items, -1, dtype=np.int64)
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            item = codes[place]
            if last_row[item] != row:
                last_row[item] = row
                item_starts[item + 1] += 1
    item_starts = np.cumsum(item_starts)
    item_rows = np.empty(item_starts[-1], dtype=np.int32)
    filled = item_starts[:-1].copy()
    last_row[:] = -1
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            item = codes[place]
            if last_row[item] != row:
                last_row[item] = row
                item_rows[filled[item]] = row
                filled[item] += 1
    return item_starts, item_rows


@kernel
def project(
    chosen: Array,
    starts: Array,
    codes: Array,
    priority: Array,
    kept: Array,
    ban_starts: Array,
    ban_codes: Array,
    masks: Array,
    contained_starts: Array,
    contained: Array,
    is_ban: Array,
) -> None:
    """Rebuild `kept` for the chosen rows.

    Events enter by priority of their item, then by place; one that would complete a ban stays out.

    Parameters
    ----------
    chosen
        int64, rows to rebuild.
    starts, codes
        Rows, and the item at each position.
    priority
        int64[items], rank of each item, 0 enters first.
    kept
        bool[P], set at the positions of the chosen rows.
    ban_starts, ban_codes
        All candidates, end to end.
    masks
        uint64[candidates], their items as bits (`masks_of`).
    contained_starts, contained
        The candidates that each row contains, end to end.
    is_ban
        bool[candidates], which of them are bans.
    """
    # The bans of a row by the item that enters last, as linked lists: only an event of that item can
    # complete a ban.
    newest = np.empty(len(priority), dtype=np.int64)
    older = np.empty(_longest(contained_starts), dtype=np.int64)
    for row in chosen:
        first, last = starts[row], starts[row + 1]
        # By priority of the item, and equal items from left to right.
        keys = np.empty(last - first, dtype=np.int64)
        for place in range(first, last):
            keys[place - first] = priority[codes[place]] * (last - first) + place - first
            newest[codes[place]] = -1
        bans = contained[contained_starts[row] : contained_starts[row + 1]]
        for number in range(len(bans)):
            b = bans[number]
            if is_ban[b]:
                item = _entering_last(ban_codes[ban_starts[b] : ban_starts[b + 1]], priority)
                older[number] = newest[item]
                newest[item] = number
        kept[first:last] = False
        entered_items = np.uint64(0)
        for k in np.argsort(keys):
            place = first + k
            kept[place] = True
            with_item = entered_items | np.uint64(1) << np.uint64(codes[place] & 63)
            number = newest[codes[place]]
            while number >= 0 and kept[place]:
                b = bans[number]
                if masks[b] & ~with_item == 0:
                    ban = ban_codes[ban_starts[b] : ban_starts[b + 1]]
                    kept[place] = not contains(codes, kept, first, last, ban)
                number = older[number]
            if kept[place]:
                entered_items = with_item


@kernel
def _entering_last(ban: Array, priority: Array) -> int:
    """Return the item of a ban that enters last."""
    item: int = ban[0]
    for other in ban:
        if priority[other] > priority[item]:
            item = other
    return item


@kernel
def next_gaps(
    starts: Array,
    codes: Array,
    priority: Array,
    ban_starts: Array,
    ban_codes: Array,
    hidden_by_ban: Array,
    trigger_starts: Array,
    alone: Array,
    once: Array,
) -> tuple[Array, Array]:
    """Find the next gap after an event of each item, shown in the released trace or hidden by the rules.

    A released trace of n events has the gaps 0..n; gap g is before event g. From gap g on, an event of an item is
    passed either where the trace shows it, or at a gap where local suppression would have removed it.

    Parameters
    ----------
    starts, codes
        The released traces.
    priority
        int64[items], rank of each item.
    ban_starts, ban_codes, hidden_by_ban, trigger_starts, alone
        The bans, as of `Bans.by_trigger`. No released trace contains one.
    once
        bool[items], items that no source case has twice: they are never hidden in a trace that shows them.

    Returns
    -------
    offsets
        int64[rows + 1], where each row begins in the table.
    table
        int32[sum of n + 1, items], the next gap after an event of each item; -1 if none can follow.
    """
    rows, n_items = len(starts) - 1, len(once)
    offsets = np.zeros(rows + 1, dtype=np.int64)
    for row in range(rows):
        offsets[row + 1] = offsets[row] + starts[row + 1] - starts[row] + 1
    table = np.full((offsets[rows], n_items), -1, dtype=np.int32)
    # Of the current row: shown items, gaps that hide an item, and the items for which there are such gaps.
    is_shown = np.zeros(n_items, dtype=np.bool_)
    hides = np.zeros((n_items, _longest(starts) + 1), dtype=np.bool_)
    is_hidden = np.zeros(n_items, dtype=np.bool_)
    for row in range(rows):
        trace = codes[starts[row] : starts[row + 1]]
        for code in trace:
            is_shown[code] = True
        for trigger in range(n_items):
            if not is_shown[trigger]:
                continue
            for number in range(trigger_starts[trigger], trigger_starts[trigger + 1]):
                item = hidden_by_ban[number]
                ban = ban_codes[ban_starts[number] : ban_starts[number + 1]]
                if is_shown[item] and once[item]:
                    continue
                low, high = _completing(trace, item, ban, priority)
                if low <= high:
                    hides[item, low : high + 1] = True
                    is_hidden[item] = True
        n = len(trace)
        for item in range(n_items):
            if not is_shown[item] and not is_hidden[item]:
                continue
            # From the last gap back: the next event that is shown, and the next gap that hides one.
            shown, hidden = -1, -1
            for gap in range(n, -1, -1):
                if gap < n and trace[gap] == item:
                    shown = gap + 1
                if hides[item, gap]:
                    hidden = gap
                is_hidden_first = hidden >= 0 and (shown < 0 or hidden < shown)
                table[offsets[row] + gap, item] = hidden if is_hidden_first else shown
            hides[item, : n + 1] = False
        # An item that is banned alone is hidden at every gap.
        for gap in range(n + 1):
            for item in alone:
                if not is_shown[item]:
                    table[offsets[row] + gap, item] = gap
        is_shown[:] = False
        is_hidden[:] = False
    return offsets, table


@kernel
def _longest(starts: Array) -> int:
    longest = 0
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@kernel
def _completing(trace: Array, item: int, ban: Array, priority: Array) -> tuple[int, int]:
    """First and last gap at which an event of the item completes the ban; the last is less if there is none.

    Events enter by priority, and equal items from left to right: a new event of the item meets those of lower rank, and
    those of its own item to the left. So it can only be the last event of that item in the ban.
    """
    k = len(ban) - 1
    while ban[k] != item:
        k -= 1
    # The items of the ban before it, matched as far left as possible.
    low, need = 0, 0
    for place in range(len(trace)):
        if need == k:
            break
        if trace[place] == ban[need] and (trace[place] == item or priority[trace[place]] < priority[item]):
            need += 1
            low = place + 1
    if need < k:
        return 0, -1
    # The items of the ban after it, matched as far right as possible.
    high, need = len(trace), len(ban) - 1
    for place in range(len(trace) - 1, low - 1, -1):
        if need == k:
            break
        if trace[place] == ban[need] and priority[trace[place]] < priority[item]:
            need -= 1
            high = place
    return (low, high) if need == k else (0, -1)


@kernel
def possible_cases(
    weight: Array,
    offsets: Array,
    gaps: Array,
    wanted_starts: Array,
    wanted_codes: Array,
) -> Array:
    """Count the released cases whose source trace may have contained each candidate, int64[wanted].

    The earliest gap after each item is enough: from an earlier gap everything a later one reaches is
    reached too.

    Parameters
    ----------
    weight
        int64[R], cases of each released row.
    offsets, gaps
        As `next_gaps` returns them.
    wanted_starts, wanted_codes
        The candidates, end to end, in the order of their first item: a row has few of all items, and skips
        the candidates of others.
    """
    result = np.zeros(len(wanted_starts) - 1, dtype=np.int64)
    n_items = gaps.shape[1]
    group_starts = np.searchsorted(wanted_codes[wanted_starts[:-1]], np.arange(n_items + 1))
    for row in range(len(weight)):
        for item in range(n_items):
            after_first = gaps[offsets[row], item]
            if after_first < 0:
                continue
            for w in range(group_starts[item], group_starts[item + 1]):
                gap = after_first
                for k in range(wanted_starts[w] + 1, wanted_starts[w + 1]):
                    gap = gaps[offsets[row] + gap, wanted_codes[k]]
                    if gap < 0:
                        break
                if gap >= 0:
                    result[w] += weight[row]
    return result
