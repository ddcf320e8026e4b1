"""The compiled walk of models.attacks.search: it stops where it needs a flow, and goes on with the answer.

Arrays: `positions`, `missing`, `active` (variants) of each depth; `nodes[d, a]` = the statistics of child a of the
node at depth d, and in the last two columns the order of its children; `path` = (symbols, active variants, next child
to enter) by depth; `totals` = weights by column and child (all that match; those that no extension can lose; those in
the root); `witness[w]` = (known variant, records that a linker leaves free), up to one with 0; `cursor` holds the
parameters and where the walk stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from models.attacks.matching import advance, is_in
from models.compiled import kernel, part
from models.content_free import content_free

C1, C2, NEW, OPEN = 0, 1, 2, 3
"""Columns of `weights`, per known variant: records of the earlier and of the later release; records that the base
linker leaves free; whether some linker can leave one free."""

DEPTH, PLACE, ASKED, M, BA, N, LENGTH, LIMIT, SURPLUS, NODES, FLOWS, WITNESS, LAST, PAUSE = range(14)
"""Entries of `cursor`: depth; next child to value; what was asked (M, BA, or DONE); the answers (-1: not asked);
n; longest bk; least value that counts (-1: 0, but of bk that matches in both releases only); |L2| - |L1| (-1: no
flows); counts; witnesses so far; the one that answered last; the count of nodes at which to stop for a moment
(nothing is asked then)."""

CELLS, DONE = 14, -1

ORDER, KEY = 8, 9
"""Columns of `nodes` behind the statistics c1, c2, core1, core2, M, core M, most BA, core BA."""


@content_free()
class SearchTables(NamedTuple):
    """What the walk reads: symbol tables; `weights` by known variant (columns C1 to OPEN); `loose` links of the base
    linker (known variant, known variant or -1, records)."""

    first: Any
    after: Any
    weights: Any
    loose: Any


@content_free()
class SearchRoom(NamedTuple):
    """What it writes (see above); `seen`: hashes of states; `inside`: whom it asks about; `best`, `worst`:
    incumbents."""

    positions: Any
    missing: Any
    active: Any
    nodes: Any
    path: Any
    totals: Any
    seen: Any
    witness: Any
    inside: Any
    best: Any
    worst: Any
    cursor: Any


@kernel
def walk_on(tables, room):  # type: ignore[no-untyped-def]
    """Go on until a flow is needed (`cursor[ASKED]` says which, `inside` for whom), until PAUSE nodes are valued (0: no
    question), or until all is searched (DONE)."""
    first, after, nodes, path, cursor = tables.first, tables.after, room.nodes, room.path, room.cursor
    symbols, length, n = after.shape[1], cursor[LENGTH], cursor[N]
    depth = cursor[DEPTH]
    while depth >= 0:
        if cursor[ASKED] == 0 and cursor[NODES] >= cursor[PAUSE]:
            cursor[DEPTH] = depth
            return
        if cursor[PLACE] == 0 and cursor[ASKED] == 0:
            _open(tables, room, depth)
        while cursor[PLACE] < symbols:
            a = nodes[depth, cursor[PLACE], ORDER]
            path[0, depth] = a
            if _value(tables, room, depth, a):
                for v in range(len(first)):
                    room.inside[v] = is_in(first, after, room.positions[depth], room.missing[depth], v, a, n)
                cursor[DEPTH] = depth
                return
            cursor[PLACE] += 1
        if depth == length - 1 or path[2, depth] == symbols:
            path[2, depth] = 0
            depth -= 1
            continue
        a = nodes[depth, path[2, depth], ORDER]
        path[2, depth] += 1
        if promising(room.best, cursor[LIMIT], nodes[depth, a]):
            path[0, depth] = a
            if _step(tables, room, depth, a, n):
                depth += 1
                path[2, depth] = 0
                cursor[PLACE] = 0
    cursor[ASKED] = DONE


@part
def _open(tables, room, depth):  # type: ignore[no-untyped-def]
    """Totals of all children, and the order to visit them: small matching sets first, since a small incumbent prunes
    more; ties by what stays, then by rarity."""
    cursor, totals, children = room.cursor, room.totals, room.nodes[depth]
    n, kept = cursor[N], cursor[N] - (cursor[LENGTH] - depth - 1)
    if depth == 0:
        _totals(tables, room, depth, 0, totals[2])
    if depth == 0 and n == 0:
        totals[0] = totals[2]
    else:
        _totals(tables, room, depth, n, totals[0])
    if kept == n:  # the last symbol: what matches stays, and most of the walk is done here
        totals[1] = totals[0]
    else:
        _totals(tables, room, depth, kept, totals[1])
    for a in range(len(children)):
        all_in, core, often = totals[0, :, a], totals[1, :, a], totals[2, :, a]
        insert(children, a, key_of(all_in[C1] + all_in[C2], core[C1] + core[C2], often[C1] + often[C2]))


@part
def insert(children, a, key):  # type: ignore[no-untyped-def]
    """Put child `a` among the children before it, in the order of keys."""
    at = a
    while at > 0 and children[at - 1, KEY] > key:
        children[at, KEY], children[at, ORDER] = children[at - 1, KEY], children[at - 1, ORDER]
        at -= 1
    children[at, KEY], children[at, ORDER] = key, a


@part
def key_of(all_in, core, often):  # type: ignore[no-untyped-def]
    """All three in one integer, the first one first."""
    cap = (1 << 20) - 1
    return (min(all_in, cap) << 40) + (min(core, cap) << 20) + min(often, cap)


@part
def offer(room, depth, c1, c2, m, ba):  # type: ignore[no-untyped-def]
    """Let the background knowledge of the path be the incumbent of every measure of which it has the least value."""
    best, worst, floor = room.best, room.worst, room.cursor[LIMIT]
    both = c1 > 0 and c2 > 0
    for measure in range(7):
        value = c1 if measure % 2 == 0 else c2
        least, counts = 1, value > 0 and (measure < 2 or both)
        if measure >= 4:
            value = ba if measure == 6 else m
            least, counts = max(floor, 0), both or (floor >= 0 and c1 + c2 > 0)
        if counts and least <= value < best[measure]:
            best[measure] = value
            for d in range(worst.shape[1]):
                worst[measure, d] = room.path[0, d] if d <= depth else -1


@part
def _totals(tables, room, depth, threshold, totals):  # type: ignore[no-untyped-def]
    """totals[:, a]: weights of the variants with at most `threshold` symbols unmatched after one more symbol a."""
    first, after, weights = tables.first, tables.after, tables.weights
    position, missing, active = room.positions[depth], room.missing[depth], room.active[depth]
    records1, records2, new, open_to = totals[C1], totals[C2], totals[NEW], totals[OPEN]
    base1, base2, base_new, base_open = 0, 0, 0, 0
    for a in range(len(records1)):
        records1[a], records2[a], new[a], open_to[a] = 0, 0, 0, 0
    if threshold < 0:
        return
    for x in range(room.path[1, depth]):
        v = active[x]
        if missing[v] < threshold:
            base1 += weights[v, C1]
            base2 += weights[v, C2]
            base_new += weights[v, NEW]
            base_open += weights[v, OPEN]
        elif missing[v] == threshold:
            # Most of the walk is done here: without branches and by column, several symbols are added at once.
            row = after[first[v] + position[v, threshold]]
            own1, own2, own_new, own_open = weights[v, C1], weights[v, C2], weights[v, NEW], weights[v, OPEN]
            for a in range(len(records1)):
                follows = np.int64(row[a] >= 0)
                records1[a] += follows * own1
                records2[a] += follows * own2
                new[a] += follows * own_new
                open_to[a] += follows * own_open
    for a in range(len(records1)):
        records1[a] += base1
        records2[a] += base2
        new[a] += base_new
        open_to[a] += base_open


@part
def _leaving(after, first, position, missing, loose, a, threshold):  # type: ignore[no-untyped-def]
    """Records that the base linker sends from inside the matching set to outside."""
    leaving = 0
    for k in range(len(loose)):
        if is_in(first, after, position, missing, loose[k, 0], a, threshold) and (
            loose[k, 1] < 0 or not is_in(first, after, position, missing, loose[k, 1], a, threshold)
        ):
            leaving += loose[k, 2]
    return leaving


@part
def _witnessed(after, first, position, missing, witness, a, cursor, enough):  # type: ignore[no-untyped-def]
    """Whether a linker found before leaves `enough` records of this matching set free. The last to answer is first."""
    known = min(cursor[WITNESS], len(witness))
    for turn in range(known):
        one = witness[(cursor[LAST] + turn) % known]
        free = 0
        for k in range(len(one)):
            if one[k, 1] == 0:
                break
            if is_in(first, after, position, missing, one[k, 0], a, cursor[N]):
                free += one[k, 1]
        if free >= enough:
            cursor[LAST] = (cursor[LAST] + turn) % known
            return True
    return False


@part
def _value(tables, room, depth, a):  # type: ignore[no-untyped-def]
    """Value child a and offer it as incumbent. True: stop, a flow is needed first."""
    first, after, loose = tables.first, tables.after, tables.loose
    position, missing = room.positions[depth], room.missing[depth]
    totals, best, cursor, stat = room.totals, room.best, room.cursor, room.nodes[depth, a]
    n, floor, surplus, kept = cursor[N], cursor[LIMIT], cursor[SURPLUS], cursor[N] - (cursor[LENGTH] - depth - 1)
    c1, c2, core = totals[0, C1, a], totals[0, C2, a], totals[1, :, a]
    if cursor[ASKED] == 0:
        cursor[NODES] += 1
        cursor[M], cursor[BA] = -1, -1
    cursor[ASKED] = 0
    m, ba, most = c1 - _leaving(after, first, position, missing, loose, a, n), totals[0, NEW, a], c1
    if cursor[M] >= 0:
        m = cursor[M]
        most = m
    elif surplus >= 0 and m < c1 and max(m, floor) < max(best[4], best[5]):
        cursor[ASKED] = M
    if surplus < 0:
        most = m
    elif cursor[BA] >= 0:
        ba = cursor[BA]
    elif cursor[ASKED] == 0 and totals[0, OPEN, a] > 0 and ba < surplus and max(ba, floor) < best[6]:
        if _witnessed(after, first, position, missing, room.witness, a, cursor, best[6]):
            ba = best[6]
        else:
            cursor[ASKED] = BA
    if cursor[ASKED] != 0:
        cursor[FLOWS] += 1
        return True
    offer(room, depth, c1, c2, m, ba)
    stat[0], stat[1], stat[2], stat[3] = c1, c2, core[C1], core[C2]
    stat[4], stat[6], stat[7] = most, totals[0, OPEN, a] if surplus >= 0 else ba, core[NEW]
    stat[5] = core[C1] - (_leaving(after, first, position, missing, loose, a, kept) if kept >= 0 else 0)
    return False


@part
def promising(best, floor, stat):  # type: ignore[no-untyped-def]
    """Whether a subtree can hold a smaller value. stat: c1, c2, core1, core2, M, core M, most BA, core BA."""
    c1, c2, core1, core2 = stat[0], stat[1], max(stat[2], 1), max(stat[3], 1)
    m, core_m, most, core_ba = stat[4], stat[5], stat[6], stat[7]
    if (c1 > 0 and core1 < best[0]) or (c2 > 0 and core2 < best[1]):
        return True
    if c1 > 0 and c2 > 0 and (core1 < best[2] or core2 < best[3]):
        return True
    if floor > 0:
        return (m > 0 and max(core_m, 1) < max(best[4], best[5])) or (most > 0 and max(core_ba, 1) < best[6])
    matches = c1 > 0 and c2 > 0 if floor < 0 else c1 + c2 > 0
    return matches and (core_m < max(best[4], best[5]) or core_ba < best[6])


@part
def _is_new(seen, h1, h2):  # type: ignore[no-untyped-def]
    """Whether this state was not met before; equal positions at equal depth have equal subtrees.

    States are told apart by 128 bits of hash: a mistake is less likely than one of the memory it runs in.
    """
    mask = np.uint64(len(seen) - 1)
    at = h1 & mask
    for _ in range(16):
        if seen[at, 0] == h1 and seen[at, 1] == h2:
            return False
        if seen[at, 0] == 0 and seen[at, 1] == 0:
            seen[at, 0], seen[at, 1] = h1, h2
            return True
        at = (at + np.uint64(1)) & mask
    return True


@part
def _step(tables, room, depth, a, n):  # type: ignore[no-untyped-def]
    """Positions of the next depth after symbol a; variants with more than n symbols unmatched drop out. Returns whether
    the state is new."""
    first, after, sizes = tables.first, tables.after, room.path[1]
    position, missing, alive = room.positions[depth], room.missing[depth], room.active[depth]
    reached, lacking, active = room.positions[depth + 1], room.missing[depth + 1], room.active[depth + 1]
    for v in range(len(first)):
        lacking[v] = n + 1
    kept = 0
    h1, h2 = np.uint64(depth + 1), np.uint64(n + 7)
    for x in range(sizes[depth]):
        v = alive[x]
        if not is_in(first, after, position, missing, v, a, n):
            continue
        least = advance(first[v], after, position[v], a, n, reached[v])
        for k in range(n + 1):
            # One word for variant and position: added one after the other, those of two states could be equal in sum.
            word = np.uint64((np.int64(v) << 16) + reached[v, k] + 2)
            h1 = (h1 ^ word) * np.uint64(0x9E3779B97F4A7C15)
            h1 ^= h1 >> np.uint64(32)
            h2 = (h2 + word) * np.uint64(0xC2B2AE3D27D4EB4F)
            h2 ^= h2 >> np.uint64(29)
        lacking[v] = least
        active[kept] = v
        kept += 1
    sizes[depth + 1] = kept
    return _is_new(room.seen, h1, h2)
