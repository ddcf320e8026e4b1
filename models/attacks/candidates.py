"""Named candidates and the enumeration of all: every background knowledge with its values, in every method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.cracks import EXACT, METHODS, exact_cracks, group_cracks
from models.attacks.linkability import CLOSED_FORM, THEOREM_2, THEOREM_2_EMPTY_PREFIX, Edges, edges
from models.attacks.linker import BaseLinker
from models.attacks.matching import Walk, unmatched
from models.attacks.pairs import Pair
from models.compiled import kernel
from models.errors import InputError
from models.eventlog import Ints

MOST_CANDIDATES = 60_000_000
"""An enumeration of more takes longer than anybody waits (about a minute in group formulas at the limit)."""

MEMO = 1 << 16
"""Remembered flows (a power of two, 24 bytes each); a newer one takes the place of an older one."""

RELATION = {
    "exact": CLOSED_FORM,
    "sound": CLOSED_FORM,
    "sizes": CLOSED_FORM,
    "paper": THEOREM_2,
    "reference": THEOREM_2_EMPTY_PREFIX,
}


@dataclass(slots=True)
class Judge:
    """All that one method needs to value candidates at one n."""

    given: Pair
    table: Walk
    method: str
    n: int
    graph: tuple[Any, ...]
    base: BaseLinker

    def starts(self) -> tuple[Ints, Ints]:
        """Where each value's rows begin, in both releases."""
        codes = np.arange(len(self.given.values) + 1)
        return (
            np.searchsorted(self.given.earlier.value, codes).astype(np.int64),
            np.searchsorted(self.given.later.value, codes).astype(np.int64),
        )

    def loose(self) -> tuple[Ints, Ints]:
        links = self.base.loose()
        return links[:, 0].copy(), links[:, 1].copy()


def relation_edges(given: Pair, cap: int, method: str) -> Edges:
    """Linkable or comparable pairs as the method defines them."""
    return edges(given, cap, RELATION[method])


def value(judge: Judge, bk: Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
    """ms1, ms2, f, c, b, fa, ca, ba of one candidate (symbol codes), with the cracks of each sensitive value."""
    given, n = judge.given, judge.n
    inside = unmatched(judge.table, bk) <= n
    in1, in2 = inside[given.earlier.known], inside[given.later.known]
    ms1, ms2 = int(given.earlier.count[in1].sum()), int(given.later.count[in2].sum())
    out, table = np.zeros(3, dtype=np.int64), np.zeros((len(given.values), 3), dtype=np.int64)
    if judge.method == "exact":
        _exact(judge, in1, in2, out)
    else:
        _grouped(judge, in1, in2, table, out)
    f, c, b = (int(crack) for crack in out)
    return {"ms1": ms1, "ms2": ms2, "f": f, "c": c, "b": b, "fa": ms1 - f, "ca": ms2 - c, "ba": ms2 - b}


def by_value(judge: Judge, bk: Sequence[int] | npt.NDArray[Any]) -> Ints:
    """int64[values, 3]: F, C and B of each sensitive value; cracks add up over values."""
    given = judge.given
    inside = unmatched(judge.table, bk) <= judge.n
    in1, in2 = inside[given.earlier.known], inside[given.later.known]
    out, table = np.zeros(3, dtype=np.int64), np.zeros((len(given.values), 3), dtype=np.int64)
    if judge.method != "exact":
        _grouped(judge, in1, in2, table, out)
        return table
    for own in np.unique(np.concatenate((given.earlier.value[in1], given.later.value[in2]))).tolist():
        # Flags of one value alone give its part: links never cross values.
        _exact(judge, in1 & (given.earlier.value == own), in2 & (given.later.value == own), out)
        table[own] = out
    return table


def worst_group(judge: Judge, bk: Sequence[int], attack: str) -> dict[str, Any]:
    """The sensitive value with the most cracked records under a candidate: {value, ms1, ms2, cracked}."""
    given = judge.given
    inside = unmatched(judge.table, bk) <= judge.n
    cracked = by_value(judge, bk)[:, ("fa", "ca", "ba").index(attack)]
    sizes = [
        np.bincount(rows.value, weights=rows.count * inside[rows.known], minlength=len(given.values))
        for rows in (given.earlier, given.later)
    ]
    order = np.lexsort((sizes[0] + sizes[1], cracked))
    own = int(order[-1])
    return {
        "value": given.values[own],
        "ms1": int(sizes[0][own]),
        "ms2": int(sizes[1][own]),
        "cracked": int(cracked[own]),
    }


def _exact(judge: Judge, in1: npt.NDArray[Any], in2: npt.NDArray[Any], out: Ints) -> None:
    given = judge.given
    exact_cracks(
        given.earlier.count,
        given.later.count,
        judge.graph,
        judge.base.state,
        *judge.loose(),
        judge.n,
        in1,
        in2,
        judge.base.reachable(),
        np.zeros((1, 3), dtype=np.uint64),
        out,
    )


def _grouped(judge: Judge, in1: npt.NDArray[Any], in2: npt.NDArray[Any], table: Ints, out: Ints) -> None:
    given = judge.given
    group_cracks(
        *judge.starts(), given.earlier.count, given.later.count, judge.graph, judge.n, METHODS[judge.method],
        in1, in2, np.zeros(len(in1), dtype=np.bool_), table, out,
    )  # fmt: skip


def how_many(symbols: int, length: int, exactly: bool) -> int:
    """Candidates of length 1..length, or of exactly that length."""
    return symbols**length if exactly else sum(symbols**k for k in range(1, length + 1))


def enumerate_all(judge: Judge, bk_length: int) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Every candidate of length 1..bk_length with ms1, ms2, F, C, B, one block for each first symbol.

    Yields (int16[N, bk_length] symbol codes, -1 after the end; int32[N, 5]). InputError names how many there are when
    they are too many.
    """
    symbols = judge.table.symbols
    total = how_many(symbols, bk_length, False)
    if total > MOST_CANDIDATES:
        raise InputError(
            f"{symbols} activities and bk_length {bk_length} make {total} candidates, too many to enumerate "
            f"(at most {MOST_CANDIDATES}); --method exact searches them by branch and bound, or give fewer by --bk"
        )
    block = how_many(symbols, bk_length - 1, False) + 1
    given = judge.given
    rows = (given.earlier.known, given.later.known)
    open2, memo = judge.base.reachable(), np.zeros((MEMO, 3), dtype=np.uint64)
    for first in range(symbols):
        codes, found = np.full((block, bk_length), -1, dtype=np.int16), np.zeros((block, 5), dtype=np.int32)
        _enumerate(
            judge.table.first, judge.table.after, rows, *judge.starts(), given.earlier.count, given.later.count,
            judge.graph, judge.base.state, *judge.loose(), judge.n,
            METHODS[judge.method], bk_length, first, open2, memo, codes, found,
        )  # fmt: skip
        yield codes, found


@kernel
def _enumerate(  # type: ignore[no-untyped-def]
    first, after, rows, start1, start2, count1, count2, graph, linker, loose1, loose2, n, method, length, begin,
    open2, memo, codes, found,
):  # fmt: skip
    """Depth first over the candidates that begin with symbol `begin`."""
    symbols, variants = after.shape[1], len(first)
    position = np.zeros((length + 1, variants, n + 1), dtype=np.int16)
    inside = np.ones(variants, dtype=np.bool_)
    path = np.full(length, -1, dtype=np.int64)
    in1, in2 = np.zeros(len(rows[0]), dtype=np.bool_), np.zeros(len(rows[1]), dtype=np.bool_)
    g1, by_value = np.zeros(len(in1), dtype=np.bool_), np.zeros((len(start1) - 1, 3), dtype=np.int64)
    out = np.zeros(3, dtype=np.int64)
    path[0] = begin
    depth, at = 1, 0
    while depth > 0:
        _advance(first, after, position, depth, path[depth - 1], n, inside)
        size1, size2 = 0, 0
        for i in range(len(in1)):
            in1[i] = inside[rows[0][i]]
            size1 += count1[i] * in1[i]
        for j in range(len(in2)):
            in2[j] = inside[rows[1][j]]
            size2 += count2[j] * in2[j]
        if method == EXACT:
            exact_cracks(count1, count2, graph, linker, loose1, loose2, n, in1, in2, open2, memo, out)
        else:
            group_cracks(start1, start2, count1, count2, graph, n, method, in1, in2, g1, by_value, out)
        for d in range(depth):
            codes[at, d] = path[d]
        found[at, 0], found[at, 1] = size1, size2
        found[at, 2:] = out
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


@kernel
def _advance(first, after, position, depth, a, n, inside):  # type: ignore[no-untyped-def]
    for v in range(len(first)):
        previous = -1
        for k in range(n + 1):
            old = position[depth - 1, v, k]
            new = -1 if old < 0 else after[first[v] + old, a]
            if previous >= 0 and (new < 0 or previous < new):
                new = previous
            position[depth, v, k] = new
            previous = old
        inside[v] = position[depth, v, n] >= 0
