"""Branch and bound over the trie of background knowledge, for the least anonymity (Def. 16-18) at one n (compiled).

Every measure is a number of records in matching sets that never grows when bk is extended. So a node's value bounds
its subtree from above, and its value on the records with at most n - (symbols left) unmatched symbols, which no
extension can lose, bounds it from below.
"""

from __future__ import annotations

import numpy as np

from models.attacks.flows import FAR, most_free, most_matching, undo
from models.compiled import kernel
from models.eventlog import Codes, Ints

MEASURES = ("ka1", "ka2", "ka1_common", "ka2_common", "fa", "ca", "ba")

C1, C2, NEW, OPEN = 0, 1, 2, 3
"""Columns of `weights`, per known variant: records of the earlier and of the later release; records that the base
linker leaves free; whether some linker can leave one free."""


@kernel
def _totals(after, first, position, missing, active, size, weights, threshold, totals):  # type: ignore[no-untyped-def]
    """totals[a]: weights of the variants with at most `threshold` symbols unmatched after one more symbol a."""
    base = np.zeros(weights.shape[1], dtype=np.int64)
    totals[:] = 0
    for x in range(size):
        v = active[x]
        if missing[v] < threshold:
            base += weights[v]
        elif missing[v] == threshold:
            row = after[first[v] + position[v, threshold]]
            for a in range(len(row)):
                if row[a] >= 0:
                    totals[a] += weights[v]
    for a in range(len(totals)):
        totals[a] += base


@kernel
def _inside(after, first, position, missing, v, a, threshold):  # type: ignore[no-untyped-def]
    if missing[v] != threshold:
        return missing[v] < threshold
    return after[first[v] + position[v, threshold], a] >= 0


@kernel
def _leaving(after, first, position, missing, loose, a, threshold):  # type: ignore[no-untyped-def]
    """Records that the base linker sends from inside the matching set to outside."""
    leaving = 0
    for k in range(len(loose)):
        if _inside(after, first, position, missing, loose[k, 0], a, threshold) and (
            loose[k, 1] < 0 or not _inside(after, first, position, missing, loose[k, 1], a, threshold)
        ):
            leaving += loose[k, 2]
    return leaving


@kernel
def _offer(best, worst, measure, value, floor, path, depth):  # type: ignore[no-untyped-def]
    if floor <= value < best[measure]:
        best[measure] = value
        worst[measure, :] = -1
        for d in range(depth):
            worst[measure, d] = path[d]


@kernel
def _promising(best, floor, stat):  # type: ignore[no-untyped-def]
    """Whether a subtree can hold a smaller value. stat: c1, c2, core1, core2, M, core M, most BA, core BA."""
    c1, c2, core1, core2, m, core_m, most, core_ba = stat
    if (c1 > 0 and max(core1, 1) < best[0]) or (c2 > 0 and max(core2, 1) < best[1]):
        return True
    if c1 > 0 and c2 > 0 and (max(core1, 1) < best[2] or max(core2, 1) < best[3]):
        return True
    if floor > 0:
        return (m > 0 and max(core_m, 1) < max(best[4], best[5])) or (most > 0 and max(core_ba, 1) < best[6])
    return c1 > 0 and c2 > 0 and (core_m < max(best[4], best[5]) or core_ba < best[6])


@kernel
def search(first, after, weights, loose, surplus, n, length, floor, exact, rows, graph, linker, best, worst):  # type: ignore[no-untyped-def]
    """Fill `best` (one per measure, FAR: none) and `worst` (its bk) over all bk of length 1..length.

    `loose[k]`: (known variant, known variant or -1, amount), pairs of the base linker that may leave the matching
    sets; `surplus`: |L2| - |L1|; `floor`: least value that counts (1: realisable, 0: all); `exact`: resolve the gap
    between the base linker and the best one by flows over `rows` = (known1, known2, loose row 1, loose row 2).
    Returns (nodes, flows).
    """
    variants, symbols = len(first), after.shape[1]
    position = np.zeros((length + 1, variants, n + 1), dtype=np.int16)
    missing = np.zeros((length + 1, variants), dtype=np.int16)
    active = np.zeros((length + 1, variants), dtype=np.int32)
    size, turn = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
    active[0], size[0] = np.arange(variants), variants
    totals = np.zeros((symbols, weights.shape[1]), dtype=np.int64)
    core = np.zeros_like(totals)
    order, key = np.zeros((length + 1, symbols), dtype=np.int64), np.zeros(symbols, dtype=np.int64)
    _totals(after, first, position[0], missing[0], active[0], size[0], weights, 0, core)
    often = core[:, C1] + core[:, C2]
    seen = np.zeros((1 << 17, 2), dtype=np.uint64)
    code = np.zeros(2, dtype=np.uint64)
    stat = np.zeros((length + 1, symbols, 8), dtype=np.int64)
    path = np.zeros(length + 1, dtype=np.int64)
    in1, in2 = np.zeros(len(rows[0]), dtype=np.bool_), np.zeros(len(rows[1]), dtype=np.bool_)
    depth, nodes, flows, fresh = 0, 0, 0, True
    while depth >= 0:
        pos, mis = position[depth], missing[depth]
        if fresh:
            kept = n - (length - depth - 1)
            _totals(after, first, pos, mis, active[depth], size[depth], weights, n, totals)
            if kept >= 0:
                _totals(after, first, pos, mis, active[depth], size[depth], weights, kept, core)
            else:
                core[:] = 0
            _rank(totals, core, often, key)
            order[depth] = np.argsort(key)
            for a in order[depth]:
                path[depth] = a
                c1, c2 = totals[a, C1], totals[a, C2]
                nodes += 1
                m, ba = c1 - _leaving(after, first, pos, mis, loose, a, n), totals[a, NEW]
                need_m = exact and m < c1 and max(m, floor) < max(best[4], best[5])
                need_ba = exact and totals[a, OPEN] > 0 and ba < surplus and max(ba, floor) < best[6]
                if need_m or need_ba:
                    for i in range(len(in1)):
                        in1[i] = _inside(after, first, pos, mis, rows[0][i], a, n)
                    for j in range(len(in2)):
                        in2[j] = _inside(after, first, pos, mis, rows[1][j], a, n)
                if need_m:
                    m = most_matching(linker, graph, n, in1, in2, rows[2], rows[3], c1)
                    undo(linker)
                    flows += 1
                if need_ba:
                    ba = most_free(linker, graph, n, in2, best[6])
                    undo(linker)
                    flows += 1
                if c1 > 0:
                    _offer(best, worst, 0, c1, 1, path, depth + 1)
                if c2 > 0:
                    _offer(best, worst, 1, c2, 1, path, depth + 1)
                if c2 > 0 and (floor > 0 or c1 > 0):
                    _offer(best, worst, 4, m, floor, path, depth + 1)
                    _offer(best, worst, 5, m, floor, path, depth + 1)
                    _offer(best, worst, 6, ba, floor, path, depth + 1)
                if c1 > 0 and c2 > 0:
                    _offer(best, worst, 2, c1, 1, path, depth + 1)
                    _offer(best, worst, 3, c2, 1, path, depth + 1)
                st = stat[depth, a]
                st[0], st[1], st[2], st[3] = c1, c2, core[a, C1], core[a, C2]
                st[4] = m if need_m or not exact else c1
                st[5] = core[a, C1] - (_leaving(after, first, pos, mis, loose, a, kept) if kept >= 0 else 0)
                st[6] = totals[a, OPEN] if exact else ba
                st[7] = core[a, NEW]
            turn[depth] = 0
            fresh = False
        if depth == length - 1 or turn[depth] == symbols:
            depth -= 1
            continue
        a = order[depth, turn[depth]]
        turn[depth] += 1
        if _promising(best, floor, stat[depth, a]):
            path[depth] = a
            _step(after, first, pos, mis, active[depth], size, depth, a, n, position, missing, active, code)
            if _is_new(seen, code):
                depth += 1
                fresh = True
    return nodes, flows


@kernel
def _rank(totals, core, often, key):  # type: ignore[no-untyped-def]
    """Visit small matching sets first, since a small incumbent prunes more; ties by what stays, then by rarity."""
    cap = np.int64((1 << 20) - 1)
    for a in range(len(key)):
        key[a] = min(totals[a, C1] + totals[a, C2], cap) << 40
        key[a] += (min(core[a, C1] + core[a, C2], cap) << 20) + min(often[a], cap)


@kernel
def _is_new(seen, code):  # type: ignore[no-untyped-def]
    """Whether this state was not met before; equal positions at equal depth have equal subtrees.

    States are told apart by 128 bits of hash: a mistake is less likely than one of the memory it runs in. A full
    neighbourhood of the table forgets nothing and learns nothing.
    """
    mask = np.uint64(len(seen) - 1)
    at = code[0] & mask
    for _ in range(16):
        if seen[at, 0] == code[0] and seen[at, 1] == code[1]:
            return False
        if seen[at, 0] == 0 and seen[at, 1] == 0:
            seen[at, 0], seen[at, 1] = code[0], code[1]
            return True
        at = (at + np.uint64(1)) & mask
    return True


@kernel
def _step(after, first, pos, mis, alive, size, depth, a, n, position, missing, active, code):  # type: ignore[no-untyped-def]
    """Positions of the next depth after symbol a; variants with more than n symbols unmatched drop out."""
    missing[depth + 1, :] = n + 1
    kept = 0
    h1, h2 = np.uint64(depth + 1), np.uint64(n + 7)
    for x in range(size[depth]):
        v = alive[x]
        if not _inside(after, first, pos, mis, v, a, n):
            continue
        previous, least = -1, n + 1
        for k in range(n + 1):
            old = pos[v, k]
            new = -1 if old < 0 else after[first[v] + old, a]
            if previous >= 0 and (new < 0 or previous < new):
                new = previous
            position[depth + 1, v, k] = new
            h1 = (h1 ^ np.uint64(new + 2)) * np.uint64(0x9E3779B97F4A7C15)
            h1 ^= h1 >> np.uint64(32)
            h2 = (h2 + np.uint64(new + 2)) * np.uint64(0xC2B2AE3D27D4EB4F)
            h2 ^= h2 >> np.uint64(29)
            if new >= 0 and k < least:
                least = k
            previous = old
        missing[depth + 1, v] = least
        active[depth + 1, kept] = v
        h1 ^= np.uint64(v)
        h2 += np.uint64(v)
        kept += 1
    size[depth + 1] = kept
    code[0], code[1] = h1, h2


def nothing_found(length: int) -> tuple[Ints, Codes]:
    """Incumbents before a search: no value, no bk."""
    best = np.full(len(MEASURES), FAR, dtype=np.int64)
    return best, np.full((len(MEASURES), length), -1, dtype=np.int32)
