"""The compiled walk of models.attacks.search over totals that are there (models.attacks.lacking): it visits the same
candidates in the same order and asks the same questions as `search_kernels.walk_on`, and adds nothing up itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from models.attacks.search_kernels import (
    ASKED,
    BA,
    C1,
    C2,
    DEPTH,
    DONE,
    FLOWS,
    LAST,
    LENGTH,
    LIMIT,
    NEW,
    NODES,
    OPEN,
    ORDER,
    PLACE,
    SURPLUS,
    WITNESS,
    M,
    N,
    insert,
    key_of,
    offer,
    promising,
)
from models.compiled import kernel, part
from models.content_free import content_free


@content_free()
class SharedTables(NamedTuple):
    """What the walk reads: `table` by variant and background knowledge of all releases; `variants`, `symbols`: which of
    theirs those of this pair are; `columns`: where each length begins; totals by column of `weights` and background
    knowledge (see `lacking.Totals`); what the loose links send out of each matching set."""

    table: Any
    variants: Any
    symbols: Any
    columns: Any
    all_in: Any
    core: Any
    often: Any
    leaving: Any
    core_leaving: Any


@content_free()
class SharedRoom(NamedTuple):
    """What it writes: as `search_kernels.SearchRoom`; `path` = (symbols, number of the symbols so far among all of
    their length, next child to enter) by depth."""

    nodes: Any
    path: Any
    witness: Any
    inside: Any
    best: Any
    worst: Any
    cursor: Any


@kernel
def walk_shared(tables, room):  # type: ignore[no-untyped-def]
    """Go on until a flow is needed (`cursor[ASKED]` says which, `inside` for whom), or until all is searched (DONE)."""
    nodes, path, cursor = room.nodes, room.path, room.cursor
    symbols, length, n = len(tables.symbols), cursor[LENGTH], cursor[N]
    depth = cursor[DEPTH]
    while depth >= 0:
        if cursor[PLACE] == 0 and cursor[ASKED] == 0:
            _order(tables, room, depth)
        while cursor[PLACE] < symbols:
            a = nodes[depth, cursor[PLACE], ORDER]
            path[0, depth] = a
            if _value(tables, room, depth, a):
                column = _column(tables, path, depth, a)
                for v in range(len(tables.variants)):
                    room.inside[v] = tables.table[tables.variants[v], column] <= n
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
            path[1, depth + 1] = _column(tables, path, depth, a) - tables.columns[depth]
            depth += 1
            path[2, depth] = 0
            cursor[PLACE] = 0
    cursor[ASKED] = DONE


@part
def _column(tables, path, depth, a):  # type: ignore[no-untyped-def]
    """Where the background knowledge stands that ends in child a."""
    return tables.columns[depth] + path[1, depth] * tables.columns[1] + tables.symbols[a]


@part
def _order(tables, room, depth):  # type: ignore[no-untyped-def]
    """The order to visit the children, as in `search_kernels`."""
    children, last = room.nodes[depth], depth == room.cursor[LENGTH] - 1
    for a in range(len(children)):
        k, own = _column(tables, room.path, depth, a), tables.symbols[a]
        core = tables.all_in[C1, k] + tables.all_in[C2, k] if last else tables.core[C1, k] + tables.core[C2, k]
        often = tables.often[C1, own] + tables.often[C2, own]
        insert(children, a, key_of(tables.all_in[C1, k] + tables.all_in[C2, k], core, often))


@part
def _witnessed(tables, room, column, enough):  # type: ignore[no-untyped-def]
    """Whether a linker found before leaves `enough` records of this matching set free. The last to answer is first."""
    witness, cursor = room.witness, room.cursor
    known = min(cursor[WITNESS], len(witness))
    for turn in range(known):
        one = witness[(cursor[LAST] + turn) % known]
        free = 0
        for k in range(len(one)):
            if one[k, 1] == 0:
                break
            if tables.table[tables.variants[one[k, 0]], column] <= cursor[N]:
                free += one[k, 1]
        if free >= enough:
            cursor[LAST] = (cursor[LAST] + turn) % known
            return True
    return False


@part
def _value(tables, room, depth, a):  # type: ignore[no-untyped-def]
    """Value child a and offer it as incumbent. True: stop, a flow is needed first."""
    cursor, best, stat, k = room.cursor, room.best, room.nodes[depth, a], _column(tables, room.path, depth, a)
    floor, surplus, kept = cursor[LIMIT], cursor[SURPLUS], cursor[N] - (cursor[LENGTH] - depth - 1)
    last = depth == cursor[LENGTH] - 1
    c1, c2, is_open = tables.all_in[C1, k], tables.all_in[C2, k], tables.all_in[OPEN, k]
    if cursor[ASKED] == 0:
        cursor[NODES] += 1
        cursor[M], cursor[BA] = -1, -1
    cursor[ASKED] = 0
    m, ba, most = c1 - tables.leaving[k], tables.all_in[NEW, k], c1
    if cursor[M] >= 0:
        m = cursor[M]
        most = m
    elif surplus >= 0 and m < c1 and max(m, floor) < max(best[4], best[5]):
        cursor[ASKED] = M
    if surplus < 0:
        most = m
    elif cursor[BA] >= 0:
        ba = cursor[BA]
    elif cursor[ASKED] == 0 and is_open > 0 and ba < surplus and max(ba, floor) < best[6]:
        if _witnessed(tables, room, k, best[6]):
            ba = best[6]
        else:
            cursor[ASKED] = BA
    if cursor[ASKED] != 0:
        cursor[FLOWS] += 1
        return True
    offer(room, depth, c1, c2, m, ba)
    core1, core2, core_new, out = 0, 0, 0, 0
    if last:
        core1, core2, core_new, out = c1, c2, tables.all_in[NEW, k], tables.leaving[k]
    elif kept >= 0:
        core1, core2, core_new = tables.core[C1, k], tables.core[C2, k], tables.core[NEW, k]
        out = tables.core_leaving[k]
    stat[0], stat[1], stat[2], stat[3] = c1, c2, core1, core2
    stat[4], stat[6], stat[7] = most, is_open if surplus >= 0 else ba, core_new
    stat[5] = core1 - out
    return False
