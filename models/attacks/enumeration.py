"""Every background knowledge with its values, in every method (compiled).

`exact` goes through the trie once: what all children of a node share (records that match whatever comes next) is
counted once for them, and a flow is looked up by which of the records that it depends on are in the matching set. The
group formulas of the other methods are evaluated for each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.candidates import METHODS, CandidateValuer, group_cracks
from models.attacks.flows import UNREACHED, fewest_leaving, most_free, undo
from models.attacks.matching import advance, is_in
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Ints

MOST_CANDIDATES = 60_000_000
"""An enumeration of more takes longer than anybody waits (about a minute in group formulas at the limit)."""

MEMO = 1 << 19
"""Remembered flows (a power of two, 24 bytes each); a newer one takes the place of an older one."""

Block = tuple[npt.NDArray[np.int16], npt.NDArray[np.int32]]


def how_many(symbols: int, length: int, exactly: bool) -> int:
    """Candidates of length 1..length, or of exactly that length."""
    return symbols**length if exactly else sum(symbols**k for k in range(1, length + 1))


def enumerate_all(valuer: CandidateValuer, bk_length: int) -> Iterator[Block]:
    """Every candidate of length 1..bk_length with ms1, ms2, F, C, B, one block for each first symbol.

    Yields (int16[N, bk_length] symbol codes, -1 after the end; int32[N, 5]). InputError names how many there are when
    they are too many.
    """
    symbols = valuer.table.symbols
    total = how_many(symbols, bk_length, False)
    if total > MOST_CANDIDATES:
        raise InputError(
            f"{symbols} activities and bk_length {bk_length} make {total} candidates, too many to enumerate "
            f"(at most {MOST_CANDIDATES}); method exact searches them by branch and bound without listing them"
        )
    size = how_many(symbols, bk_length - 1, False) + 1
    walk = _exact(valuer, bk_length) if valuer.method == "exact" else _grouped(valuer, bk_length)
    for first in range(symbols):
        codes, found = np.full((size, bk_length), -1, dtype=np.int16), np.zeros((size, 5), dtype=np.int32)
        walk(first, codes, found)
        yield codes, found


@content_free()
class GroupTables(NamedTuple):
    """What the walk by group formulas reads: symbol tables, and the rows of both releases (1: earlier, 2: later) with
    the known variant, count and start by sensitive value of each, and which of them link."""

    first: Any
    after: Any
    known1: Any
    known2: Any
    start1: Any
    start2: Any
    count1: Any
    count2: Any
    forward: Any
    backward: Any


@content_free()
class GroupRoom(NamedTuple):
    """What it writes: positions by depth, known variants and rows that match, rows of G1, cracks by value."""

    position: Any
    inside: Any
    in1: Any
    in2: Any
    g1: Any
    by_value: Any


@content_free()
class ExactTables(NamedTuple):
    """What the exact walk reads: symbol tables, rows of both releases, `counts` by known variant; `part`, `order`,
    `row_start`: later rows by what BA adds up over; `keys`: what hashes are made of; `ranges`: rows of each part;
    `loose`, `by_variant`: links of the base linker that can leave a matching set; and that linker."""

    first: Any
    after: Any
    known1: Any
    known2: Any
    counts: Any
    part: Any
    order: Any
    row_start: Any
    keys: Any
    ranges: Any
    loose: Any
    by_variant: Any
    forward: Any
    backward: Any
    linker: Any


@content_free()
class ExactRoom(NamedTuple):
    """What it writes: positions, missing symbols and active variants (`sizes` of them) by depth; by child `hashes` of
    what its flows depend on and `totals` that match; rows that match; flows known by hash; scratch of the flows."""

    positions: Any
    missing: Any
    active: Any
    sizes: Any
    hashes: Any
    totals: Any
    in1: Any
    in2: Any
    memo: Any
    scratch: Any


def _grouped(valuer: CandidateValuer, length: int) -> Any:
    pair, table = valuer.pair, valuer.table
    rows1, rows2 = pair.earlier, pair.later
    position = np.zeros((length + 1, len(table.first), valuer.n + 1), dtype=np.int16)
    inside, in2 = np.zeros(len(table.first), dtype=np.bool_), np.zeros(len(rows2.known), dtype=np.bool_)
    in1, g1 = np.zeros((2, len(rows1.known)), dtype=np.bool_)
    by_value = np.zeros((len(pair.values), 3), dtype=np.int64)

    tables = GroupTables(
        table.first, table.after, rows1.known, rows2.known, *valuer.starts(), rows1.count, rows2.count,
        valuer.linkable.forward, valuer.linkable.backward,
    )  # fmt: skip
    room = GroupRoom(position, inside, in1, in2, g1, by_value)

    def walk(first: int, codes: Any, found: Any) -> None:
        _enumerate_groups(tables, room, valuer.n, METHODS[valuer.method], first, codes, found)

    return walk


def _exact(valuer: CandidateValuer, length: int) -> Any:
    """The tables of the exact walk, by known variant."""
    pair, table, base = valuer.pair, valuer.table, valuer.base
    variants, symbols = len(table.first), table.symbols
    part, ranges = _parts(valuer)
    keys = np.random.default_rng(0).integers(1, 1 << 63, (2, len(part) + variants), dtype=np.uint64)
    order = np.argsort(pair.later.known, kind="stable")
    order = order[part[order] >= 0]
    row_start = np.searchsorted(pair.later.known[order], np.arange(variants + 1)).astype(np.int64)
    counts = np.column_stack((pair.earlier.per_known(variants), pair.later.per_known(variants)))
    loose = base.loose
    by_variant = loose.copy()
    by_variant[:, 0], by_variant[:, 1] = pair.earlier.known[loose[:, 0]], pair.later.known[loose[:, 1]]
    levels = (
        np.zeros((length, variants, valuer.n + 1), dtype=np.int16),
        np.zeros((length, variants), dtype=np.int16),
        np.zeros((length, variants), dtype=np.int32),
    )
    levels[2][0] = np.arange(variants)
    sizes = np.zeros(length, dtype=np.int64)
    sizes[0] = variants
    hashes = np.zeros((symbols + 1, len(ranges) + 1, 2), dtype=np.uint64)
    totals = np.zeros((symbols, 2), dtype=np.int64)
    in1, in2 = np.zeros(len(pair.earlier.known), dtype=np.bool_), np.zeros(len(part), dtype=np.bool_)
    memo = np.zeros((MEMO, 3), dtype=np.uint64)

    tables = ExactTables(
        table.first, table.after, pair.earlier.known, pair.later.known, counts, part, order, row_start, keys, ranges,
        loose, by_variant, base.linkable.forward, base.linkable.backward, base.linker,
    )  # fmt: skip
    room = ExactRoom(*levels, sizes, hashes, totals, in1, in2, memo, base.scratch)

    def walk(first: int, codes: Any, found: Any) -> None:
        _enumerate_exact(tables, room, valuer.n, first, codes, found)

    return walk


def _parts(valuer: CandidateValuer) -> tuple[Ints, Ints]:
    """What BA adds up over: sensitive values with a record that some linker leaves free.

    For each later row its part, -1 where no linker leaves it free; for each part the rows of its value (see
    `most_free`).
    """
    pair, reachable = valuer.pair, valuer.base.reachable
    values = np.unique(pair.later.value[reachable])
    start1, start2 = valuer.starts()
    ranges = np.column_stack((start1[values], start1[values + 1], start2[values], start2[values + 1]))
    part = np.where(reachable, np.searchsorted(values, pair.later.value), -1).astype(np.int64)
    return part, np.ascontiguousarray(ranges)


@kernel
def _enumerate_exact(tables, room, n, begin, codes, found):  # type: ignore[no-untyped-def]
    """Depth first over the candidates that begin with symbol `begin`; all children of a node at once."""
    first, after, by_variant, ranges = tables.first, tables.after, tables.by_variant, tables.ranges
    hashes, totals, in1, in2, memo = room.hashes, room.totals, room.in1, room.in2, room.memo
    symbols, length, parts = after.shape[1], codes.shape[1], len(ranges)
    turn, depth, filled = 0, 0, 0
    path = codes[len(codes) - 1].copy()
    path[0] = begin
    while depth >= 0:
        position, missing = room.positions[depth], room.missing[depth]
        if turn == 0:
            _count(tables, room, depth, n)
            for a in range(symbols):
                if depth == 0 and a != begin:
                    continue
                leaving = 0
                for k in range(len(by_variant)):
                    if is_in(first, after, position, missing, by_variant[k, 0], a, n) and not is_in(
                        first, after, position, missing, by_variant[k, 1], a, n
                    ):
                        leaving += by_variant[k, 2]
                if leaving > 0:
                    at = _look_up(memo, hashes[a, parts, 0], hashes[a, parts, 1])
                    if memo[at, 2] == 0:
                        for i in range(len(in1)):
                            in1[i] = is_in(first, after, position, missing, tables.known1[i], a, n)
                        for j in range(len(in2)):
                            in2[j] = is_in(first, after, position, missing, tables.known2[j], a, n)
                        memo[at, 2] = 1 + fewest_leaving(
                            tables.linker, tables.forward, n, in1, in2, tables.loose, room.scratch
                        )
                        undo(tables.linker)
                    leaving = int(memo[at, 2]) - 1
                free = 0
                for p in range(parts):
                    if hashes[a, p, 0] == 0 and hashes[a, p, 1] == 0:
                        continue
                    at = _look_up(memo, hashes[a, p, 0], hashes[a, p, 1])
                    if memo[at, 2] == 0:
                        for j in range(ranges[p, 2], ranges[p, 3]):
                            in2[j] = is_in(first, after, position, missing, tables.known2[j], a, n)
                        memo[at, 2] = 1 + most_free(
                            tables.linker, tables.backward, n, in2, ranges[p], UNREACHED, room.scratch
                        )
                        undo(tables.linker)
                    free += int(memo[at, 2]) - 1
                for d in range(depth):
                    codes[filled, d] = path[d]
                codes[filled, depth] = a
                found[filled, 0], found[filled, 1] = totals[a, 0], totals[a, 1]
                found[filled, 2] = leaving
                found[filled, 3] = totals[a, 1] - totals[a, 0] + leaving
                found[filled, 4] = totals[a, 1] - free
                filled += 1
        if depth == length - 1 or turn == symbols or (depth == 0 and turn > 0):
            depth -= 1
            turn = path[depth] + 1
            continue
        if depth > 0:
            path[depth] = turn
        _descend(tables, room, depth, path[depth], n)
        depth += 1
        turn = 0


@part
def _count(tables, room, depth, n):  # type: ignore[no-untyped-def]
    """For each child: records that match, and a hash of the rows that its flows depend on (by part; last: all rows).

    What matches whatever comes next is counted once, in the last row of `hashes`.
    """
    first, after, counts, part, order = tables.first, tables.after, tables.counts, tables.part, tables.order
    row_start, keys, hashes, totals = tables.row_start, tables.keys, room.hashes, room.totals
    position, missing, active, size = room.positions[depth], room.missing[depth], room.active[depth], room.sizes[depth]
    leaves = 1 if len(tables.by_variant) > 0 else 0
    symbols, parts, rows = len(totals), hashes.shape[1] - 1, len(part)
    base1, base2 = 0, 0
    for a in range(symbols + 1):
        for p in range(parts + 1):
            hashes[a, p, 0], hashes[a, p, 1] = np.uint64(0), np.uint64(0)
    for a in range(symbols):
        totals[a, 0], totals[a, 1] = 0, 0
    for x in range(size):
        v = active[x]
        if missing[v] > n:
            continue
        always = missing[v] < n
        row = first[v] + position[v, n]
        if always:
            base1 += counts[v, 0]
            base2 += counts[v, 1]
        else:
            for a in range(symbols):
                if after[row, a] >= 0:
                    totals[a, 0] += counts[v, 0]
                    totals[a, 1] += counts[v, 1]
        low, high = row_start[v], row_start[v + 1]
        for y in range(low, high + leaves):
            p, key = (part[order[y]], order[y]) if y < high else (parts, rows + v)
            for a in range(symbols if always else 0, symbols + 1 if always else symbols):
                if always or after[row, a] >= 0:
                    hashes[a, p, 0] ^= keys[0, key]
                    hashes[a, p, 1] += keys[1, key]
    for a in range(symbols):
        totals[a, 0] += base1
        totals[a, 1] += base2
        for p in range(parts + 1):
            hashes[a, p, 0] ^= hashes[symbols, p, 0]
            hashes[a, p, 1] += hashes[symbols, p, 1]


@part
def _look_up(memo, h1, h2):  # type: ignore[no-untyped-def]
    """The place of these two hashes; its third number is 0 where nothing is known."""
    at = np.int64(h1 & np.uint64(len(memo) - 1))
    if memo[at, 0] != h1 or memo[at, 1] != h2:
        memo[at, 0], memo[at, 1], memo[at, 2] = h1, h2, np.uint64(0)
    return at


@part
def _descend(tables, room, depth, a, n):  # type: ignore[no-untyped-def]
    """Positions after symbol a; variants with more than n symbols unmatched drop out."""
    first, after, sizes = tables.first, tables.after, room.sizes
    position, active = room.positions[depth], room.active[depth]
    reached, next_missing, kept = room.positions[depth + 1], room.missing[depth + 1], room.active[depth + 1]
    for v in range(len(first)):
        next_missing[v] = n + 1
    filled = 0
    for x in range(sizes[depth]):
        v = active[x]
        least = advance(first[v], after, position[v], a, n, reached[v])
        next_missing[v] = least
        if least <= n:
            kept[filled] = v
            filled += 1
    sizes[depth + 1] = filled


@kernel
def _enumerate_groups(tables, room, n, method, begin, codes, found):  # type: ignore[no-untyped-def]
    """Depth first over the candidates that begin with symbol `begin`."""
    first, after, known1, known2 = tables.first, tables.after, tables.known1, tables.known2
    count1, count2 = tables.count1, tables.count2
    position, inside, in1, in2, by_value = room.position, room.inside, room.in1, room.in2, room.by_value
    symbols, length = after.shape[1], codes.shape[1]
    path = codes[len(codes) - 1].copy()
    path[0] = begin
    depth, at = 1, 0
    while depth > 0:
        for v in range(len(first)):
            inside[v] = advance(first[v], after, position[depth - 1, v], path[depth - 1], n, position[depth, v]) <= n
        size1, size2 = 0, 0
        for i in range(len(in1)):
            in1[i] = inside[known1[i]]
            size1 += count1[i] * in1[i]
        for j in range(len(in2)):
            in2[j] = inside[known2[j]]
            size2 += count2[j] * in2[j]
        group_cracks(
            tables.start1, tables.start2, count1, count2, tables.forward, tables.backward, n, method, in1, in2,
            room.g1, by_value,
        )  # fmt: skip
        for d in range(depth):
            codes[at, d] = path[d]
        found[at, 0], found[at, 1] = size1, size2
        for c in range(3):
            for s in range(len(by_value)):
                found[at, 2 + c] += by_value[s, c]
        at += 1
        if depth < length:
            path[depth] = 0
            depth += 1
            continue
        while depth > 1 and path[depth - 1] == symbols - 1:
            depth -= 1
        if depth == 1:
            break
        path[depth - 1] += 1
