"""Branch and bound over the trie of background knowledge, for the least anonymity (Def. 16-18) at one n.

Every measure is a number of records in matching sets that never grows when bk is extended. So a node's value bounds
its subtree from above, and its value on the records with at most n - (symbols left) unmatched symbols, which no
extension can lose, bounds it from below.

The walk is compiled (search_kernels). Where the gap between the base linker and the best one matters it stops and asks
for a flow. What a flow finds is kept as a witness: its free records bound BA from below for other candidates too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from models.attacks.flows import FAR
from models.attacks.lacking import Lacking, Table, columns_of, leaving
from models.attacks.matching import Part, Walk
from models.attacks.search_kernels import (
    ASKED,
    CELLS,
    DONE,
    FLOWS,
    LENGTH,
    LIMIT,
    NEW,
    NODES,
    OPEN,
    PAUSE,
    SURPLUS,
    WITNESS,
    N,
    SearchRoom,
    SearchTables,
    walk_on,
)  # fmt: skip
from models.attacks.shared_search import SharedRoom, SharedTables, walk_shared
from models.eventlog import Codes, Ints

MEASURES = ("ka1", "ka2", "ka1_common", "ka2_common", "fa", "ca", "ba")

WITNESSES = 16
"""Linkers remembered for their free records; of the sixteen latest nearly always one answers."""

STATES = 1 << 17
"""Remembered positions (16 bytes each); a full neighbourhood forgets nothing and learns nothing."""

STRIDE = 50_000
"""Nodes between two looks at the outside: a signal (Ctrl-C, a stopping daemon) waits for a compiled walk to return."""

Flags = npt.NDArray[np.bool_]

Answer = tuple[int, Ints | None]
"""M or BA of a candidate; for BA the records that the linker found leaves free, by known variant."""


def search(
    table: Walk, weights: Ints, loose: Ints, n: int, length: int, floor: int, surplus: int = 0,
    ask: Callable[[int, Flags, int], Answer] | None = None,
) -> tuple[Ints, Codes, Ints]:  # fmt: skip
    """The least of each measure over all bk of length 1..length (FAR: none), its bk, and (nodes, flows).

    `weights`: int64[known variants, 4], records of the earlier and of the later release, records that the base linker
    leaves free, whether some linker can leave one free; `loose`: int64[P, 3], pairs of the base linker that may leave
    the matching sets (known variant, known variant or -1, records); `surplus`: |L2| - |L1|; `floor`: least value that
    counts (1: realisable, 0: all, -1: all that match in both releases); `ask(M or BA, which known variants are in,
    enough)`: resolves the gap between the base linker and the best one (None: the base linker is the true one).
    """
    variants, symbols = len(table.first), table.symbols
    if table.whole is not None and table.whole.shared is not None:
        shared: Lacking = table.whole.shared
        looked_up = shared.table(length)
        if looked_up is not None:
            return _shared(table.whole, shared, looked_up, weights, loose, n, length, floor, surplus, ask)
    best, worst = nothing_found(length)
    cursor = np.zeros(CELLS, dtype=np.int64)
    cursor[[N, LENGTH, LIMIT, SURPLUS]] = n, length, floor, surplus if ask else -1
    active = np.zeros((length + 1, variants), dtype=np.int32)
    active[0] = np.arange(variants)
    nodes = np.zeros((length + 1, symbols, 10), dtype=np.int64)
    path = np.zeros((3, length + 2), dtype=np.int64)
    path[1, 0] = variants
    seen, inside = np.zeros((_states(symbols, length), 2), dtype=np.uint64), np.zeros(variants, dtype=np.bool_)
    totals = np.zeros((3, weights.shape[1], symbols), dtype=np.int64)
    witness = np.zeros((WITNESSES, min(surplus, variants), 2), dtype=np.int64)
    tables = SearchTables(table.first, table.after, weights, loose)
    room = SearchRoom(
        positions=np.zeros((length + 1, variants, n + 1), dtype=np.int16),
        missing=np.zeros((length + 1, variants), dtype=np.int16),
        active=active,
        nodes=nodes,
        path=path,
        totals=totals,
        seen=seen,
        witness=witness,
        inside=inside,
        best=best,
        worst=worst,
        cursor=cursor,
    )
    while True:
        cursor[PAUSE] = cursor[NODES] + STRIDE
        walk_on(tables, room)
        if cursor[ASKED] == DONE:
            return best, worst, cursor[[NODES, FLOWS]]
        _answer(room, ask)


def _shared(
    part: Part, shared: Lacking, table: Table, weights: Ints, loose: Ints, n: int, length: int, floor: int,
    surplus: int, ask: Callable[[int, Flags, int], Answer] | None,
) -> tuple[Ints, Codes, Ints]:  # fmt: skip
    """The same from totals that the pairs of one candidate share."""
    variants, symbols, columns = len(part.variants), len(part.symbols), columns_of(part.walk.symbols, length)
    best, worst = nothing_found(length)
    cursor = np.zeros(CELLS, dtype=np.int64)
    cursor[[N, LENGTH, LIMIT, SURPLUS]] = n, length, floor, surplus if ask else -1
    totals = []
    for column, own in enumerate(weights.T):
        over_all = np.zeros(len(table), dtype=np.int64)
        over_all[part.variants] = own
        # What the later release holds, and what a linker leaves free, changes little from one earlier one to the next.
        totals.append(shared.totals((column, column in (NEW, OPEN) and ask is None), over_all, n, length))
    out, core_out = np.zeros(columns[-1], dtype=np.int64), np.zeros(columns[-2], dtype=np.int64)
    links = np.column_stack((part.variants[loose[:, 0]], part.variants[loose[:, 1]], loose[:, 2]))
    links[loose[:, 1] < 0, 1] = -1
    leaving(table, columns, n, links, out, core_out)
    all_in, core, often = (np.stack([one[at] for one in totals]) for at in (1, 2, 3))
    symbol = part.symbols.astype(np.int64)
    tables = SharedTables(table, part.variants, symbol, columns, all_in, core, often, out, core_out)
    room = SharedRoom(
        nodes=np.zeros((length + 1, symbols, 10), dtype=np.int64),
        path=np.zeros((3, length + 2), dtype=np.int64),
        witness=np.zeros((WITNESSES, min(surplus, variants), 2), dtype=np.int64),
        inside=np.zeros(variants, dtype=np.bool_),
        best=best,
        worst=worst,
        cursor=cursor,
    )
    while True:
        walk_shared(tables, room)
        if cursor[ASKED] == DONE:
            return best, worst, cursor[[NODES, FLOWS]]
        _answer(room, ask)


def _answer(room: SearchRoom | SharedRoom, ask: Callable[[int, Flags, int], Answer] | None) -> None:
    """Answer what a walk asks for, if it asks for anything."""
    cursor, witness = room.cursor, room.witness
    question = int(cursor[ASKED])
    if question == 0 or ask is None:
        return
    value, free = ask(question, room.inside, int(room.best[6]))
    cursor[question] = value
    if free is not None:
        _remember(witness[cursor[WITNESS] % WITNESSES], free)
        cursor[WITNESS] += 1


def _states(symbols: int, length: int) -> int:
    """Room for all states that the walk can enter, a power of two with three quarters to spare, at most STATES."""
    most, level = 1, 1
    for _ in range(length - 1):
        level *= max(1, symbols)
        most += level
        if 4 * most >= STATES:
            return STATES
    return max(64, 1 << (4 * most - 1).bit_length())


def _remember(witness: Ints, free: Ints) -> None:
    """(variant, free records) one after another, up to the first with 0."""
    some = np.flatnonzero(free)
    witness[: len(some), 0], witness[: len(some), 1] = some, free[some]
    witness[len(some) : len(some) + 1] = 0


def nothing_found(length: int) -> tuple[Ints, Codes]:
    """Incumbents before a search: no value, no bk."""
    best = np.full(len(MEASURES), FAR, dtype=np.int64)
    return best, np.full((len(MEASURES), length), -1, dtype=np.int32)
