"""Compiled kernels that make an index (models.risk.index): in time linear in the events, without a sort of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.eventlog import Codes, Ints
from models.risk.points import Whole

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


@kernel
def mark_different(own: Whole, before: Whole, starts: Ints, starts_before: Ints, former: Ints, changed: Flags) -> None:
    """Mark the cases with a changed event.

    Of a case that is not marked yet, as many events are known from before (case `former[c]`).
    """
    for case in range(len(changed)):
        if changed[case]:
            continue
        behind = starts_before[former[case]] - starts[case]
        for event in range(starts[case], starts[case + 1]):
            if own[event] != before[event + behind]:
                changed[case] = True
                break


@kernel
def number_ranks(points: Codes, starts: Ints, group: Ints, rank: Codes, most: Codes) -> None:
    """`rank`: how often the case had the point of an event before; `most`: how often a case has each point at most."""
    last, had = np.full(len(most), -1, dtype=np.int32), np.zeros(len(most), dtype=np.int32)
    for case in range(len(group)):
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                point = points[event, column]
                if last[point] != case:
                    last[point] = case
                    had[point] = 0
                rank[event, column] = had[point]
                had[point] += 1
                if had[point] > most[point]:
                    most[point] = had[point]
        if group[case] >= 0 and most[group[case]] == 0:
            most[group[case]] = 1


@kernel
def count_items(points: Codes, group: Ints, base: Codes, item: Codes, support: Codes) -> None:
    """From ranks to items (`item`), and how many cases each has (`support`)."""
    for event in range(len(points)):
        for column in range(points.shape[1]):
            item[event, column] += base[points[event, column]]
            support[item[event, column]] += 1
    for case in range(len(group)):
        if group[case] >= 0:
            support[base[group[case]]] += 1


@kernel
def place_cases(
    points: Codes, starts: Ints, group: Ints, base: Codes, item: Codes, support: Codes, free: Codes, cases: Codes,
    row: Codes, bits: Words, alone: Flags,
) -> None:  # fmt: skip
    """Write each case under its items and into their bitsets, and whether a point belongs to no other case.

    `free` holds the next free place of each item.
    """
    for case in range(len(group)):
        word, bit = case >> 6, np.uint64(1) << np.uint64(case & 63)
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                one = item[event, column]
                cases[free[one]] = case
                free[one] += 1
                if row[one] >= 0:
                    bits[row[one], word] |= bit
                if support[base[points[event, column]]] == 1:
                    alone[event] = True
        if group[case] >= 0:
            one = base[group[case]]
            cases[free[one]] = case
            free[one] += 1
            if row[one] >= 0:
                bits[row[one], word] |= bit


@kernel
def digests(points: Codes, starts: Ints, group: Ints, digest: Words) -> None:
    """Return a number for each case that is equal for equal points in equal order and group.

    Different cases seldom share a number.
    """
    prime, fold = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
    for case in range(len(group)):
        found = np.uint64(group[case] + 1)
        for event in range(starts[case], starts[case + 1]):
            for column in range(points.shape[1]):
                found = (found ^ np.uint64(points[event, column] + 1)) * prime
                found ^= found >> fold
        digest[case] = found


@kernel
def mark_equal(points: Codes, starts: Ints, group: Ints, digest: Words, order: Ints, twin: Flags) -> bool:
    """Mark the cases that another one equals. `order`: cases by digest. False where two that share a digest differ."""
    for place in range(1, len(order)):
        one, two = order[place - 1], order[place]
        if digest[one] != digest[two]:
            continue
        length = starts[one + 1] - starts[one]
        if group[one] != group[two] or starts[two + 1] - starts[two] != length:
            return False
        for k in range(length):
            for column in range(points.shape[1]):
                if points[starts[one] + k, column] != points[starts[two] + k, column]:
                    return False
        twin[one] = True
        twin[two] = True
    return True
