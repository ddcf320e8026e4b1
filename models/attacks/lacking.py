"""Which background knowledge each variant of many releases matches, and the totals that a search reads off it.

A search at one pair of releases adds up the records of its variants for every background knowledge that it meets. Over
the pairs of one candidate with all earlier releases the variants are the same, and how many symbols a variant leaves
unmatched depends on the variant alone. So it is looked up once for all pairs (`Lacking.table`), and from one pair to
the next only the variants whose records differ are added and taken away (`Lacking.totals`). What it gives is equal to
adding up all; `tests/property/test_attacks_shared_search.py` holds both against each other.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.matching import Walk, advance
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Ints

Table = npt.NDArray[np.uint8]

MOST_COLUMNS = 1 << 13
"""Background knowledge that is looked up for every variant; of more, a search meets a part only."""

MOST_CELLS = 1 << 27
"""Cells of one table, a byte each; there are two while one takes over from the other."""


@content_free()
class Totals(NamedTuple):
    """One kind of weights, added up: `all_in` over the variants with at most n symbols unmatched, for each background
    knowledge; `core` over those that no further symbol can lose, for each that is not the longest; `often` over those
    that lack nothing, for each symbol. `weights`: what they are the totals of."""

    weights: Ints
    all_in: Ints
    core: Ints
    often: Ints


def columns_of(symbols: int, length: int) -> Ints:
    """Where the background knowledge of each length 1..length begins among all, and how much there is: int64[length +
    1]. Within its length, bk stands in the order of its symbols, the first one first."""
    return np.cumsum([0, *(symbols**long for long in range(1, length + 1))], dtype=np.int64)


@content_free("symbols")
class Kept(NamedTuple):
    """A table, over how many symbols it is, and the number of the variant of each row: a number stands for the same
    variant, and a symbol keeps its place, from one candidate to the next."""

    table: Table
    symbols: int
    numbers: Ints


@content_free()
@dataclass
class Lacking:
    """Over the variants and symbols of `walk`. Everything is made when it is asked for. `numbers`: of the variants;
    `kept`: by length, the tables of the candidate before, whose rows are taken over; they make room for this one's."""

    walk: Walk
    numbers: Ints
    kept: dict[int, Kept] = field(default_factory=dict)
    _tables: dict[int, Table] = field(default_factory=dict)
    _totals: dict[Hashable, Totals] = field(default_factory=dict)

    def table(self, length: int) -> Table | None:
        """uint8[variants, background knowledge of length 1..length]: symbols unmatched. None where it is too large."""
        if length not in self._tables:
            variants, symbols = len(self.walk.first), self.walk.symbols
            if symbols**length > MOST_COLUMNS:
                return None
            columns = columns_of(symbols, length)
            if columns[-1] > MOST_COLUMNS or variants * columns[-1] > MOST_CELLS:
                return None
            table = np.empty((variants, columns[-1]), dtype=np.uint8)
            reached = np.zeros((2, max(1, symbols ** (length - 1)), length + 1), dtype=np.int64)
            fresh = self._taken_over(length, symbols, table)
            if len(fresh):
                _look_up(self.walk.first, self.walk.after, columns, reached, fresh, table)
            self._tables[length] = table
            self.kept[length] = Kept(table, symbols, self.numbers)
        return self._tables[length]

    def column(self, bk: Ints) -> Table | None:
        """uint8[variants]: symbols of one background knowledge unmatched, where some table has it."""
        for length, table in self._tables.items():
            if 0 < len(bk) <= length:
                number = 0
                for symbol in bk.tolist():
                    number = number * self.walk.symbols + symbol
                return table[:, columns_of(self.walk.symbols, length)[len(bk) - 1] + number]
        return None

    def _taken_over(self, length: int, symbols: int, table: Table) -> Ints:
        """Fill the rows that are known; returns the others."""
        before = self.kept.pop(length, None)
        if before is None or before.symbols != symbols:
            return np.arange(len(table))
        place = np.full(max(int(before.numbers.max(initial=-1)), int(self.numbers.max(initial=-1))) + 1, -1)
        place[before.numbers] = np.arange(len(before.numbers))
        row = place[self.numbers]
        known = np.flatnonzero(row >= 0)
        table[known] = before.table[row[known]]
        return np.flatnonzero(row < 0)

    def totals(self, kind: Hashable, weights: Ints, n: int, length: int) -> Totals:
        """The totals of `weights` (int64[variants]), from those that were asked for last under the same kind. Hold them
        until the next question of this kind only. There must be a table."""
        table, columns = self.table(length), columns_of(self.walk.symbols, length)
        key = (kind, n, length)
        if key not in self._totals:
            sizes = (len(self.walk.first), columns[-1], columns[-2], columns[1])
            self._totals[key] = Totals(*(np.zeros(size, dtype=np.int64) for size in sizes))
        found = self._totals[key]
        _add_up(table, columns, n, weights, *found)
        return found


@kernel
def _look_up(first, after, columns, reached, rows, table):  # type: ignore[no-untyped-def]
    """Fill some rows. `reached`: positions after each bk of one length, and of the next one."""
    symbols, length = after.shape[1], len(columns) - 1
    for v in rows:
        reached[0, 0] = 0
        known, here = 1, 0
        position = np.zeros(length + 1, dtype=np.int64)
        for d in range(length):
            for prefix in range(known):
                for a in range(symbols):
                    own = prefix * symbols + a
                    table[v, columns[d] + own] = advance(first[v], after, reached[here, prefix], a, length, position)
                    if d < length - 1:
                        reached[1 - here, own] = position
            known *= symbols
            here = 1 - here


@kernel
def _add_up(table, columns, n, weights, before, all_in, core, often):  # type: ignore[no-untyped-def]
    """Bring totals of the weights `before` to those of `weights`, and `before` with them."""
    for v in range(len(weights)):
        more = weights[v] - before[v]
        if more != 0:
            before[v] = weights[v]
            add_records(table[v], columns, n, more, all_in, core, often)


@part
def add_records(row, columns, n, more, all_in, core, often):  # type: ignore[no-untyped-def]
    """Add `more` records of the variant that lacks `row` to totals of one kind (see `Totals`)."""
    length = len(columns) - 1
    for k in range(len(all_in)):
        all_in[k] += more * np.int64(row[k] <= n)
    for d in range(length - 1):
        kept = n - (length - d - 1)
        if kept >= 0:
            for k in range(columns[d], columns[d + 1]):
                core[k] += more * np.int64(row[k] <= kept)
    for k in range(len(often)):
        often[k] += more * np.int64(row[k] == 0)


@kernel
def leaving(table, columns, n, loose, all_in, core):  # type: ignore[no-untyped-def]
    """Records that the links `loose` (variant, variant or -1, records) send out of each matching set; `core`: out of
    what no further symbol can lose."""
    for x in range(len(loose)):
        add_link(table, columns, n, loose[x, 0], loose[x, 1], loose[x, 2], all_in, core)


@part
def add_link(table, columns, n, one, two, records, all_in, core):  # type: ignore[no-untyped-def]
    """Add what `records` of variant `one` whose partners have variant `two` (-1: none) send out. A pair of which one is
    a subsequence of `two` never sends any."""
    length, row1, row2, gone = len(columns) - 1, table[one], table[max(two, 0)], two < 0
    for k in range(len(all_in)):
        all_in[k] += records * np.int64((row1[k] <= n) & (gone | (row2[k] > n)))
    for d in range(length - 1):
        kept = n - (length - d - 1)
        if kept >= 0:
            for k in range(columns[d], columns[d + 1]):
                core[k] += records * np.int64((row1[k] <= kept) & (gone | (row2[k] > kept)))
