"""Totals over background knowledge that the pairs of one candidate share.

A search at one pair of releases adds up the records of its variants for every background knowledge (bk) that it meets.
The number of symbols of a bk that a variant leaves unmatched depends on the variant alone, and the variants of
neighbouring releases are nearly the same. Therefore:

* `SharedTotals.table` holds this number for every variant of all releases and every bk, looked up once for all pairs;
* `SharedTotals.totals` adds and takes away only the variants whose records differ from the pair before.

The result equals adding up all records; `tests/property/test_attacks_shared_search.py` compares both.

The columns of a table are all bk of length 1..length, the short ones first. For symbols a, b and length 2:

    column      0   1   2    3    4    5
    bk          a   b   aa   ab   ba   bb
    starts      0       2                   6
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.pairs import Sequences, advance, identity_relation, next_occurrence_table
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Ints, starts_of
from models.keys import case_blocks

Table = npt.NDArray[np.uint8]

MOST_COLUMNS = 1 << 13
"""Background knowledge that is looked up at most. Of more, a search meets only a part, and adds up faster."""

MOST_CELLS = 1 << 27
"""Cells of one table at most, a byte each. Two exist while one replaces the other."""

BLOCK_CELLS = 1 << 21
"""Positions times symbols of which next occurrences are looked up together: 4 MB."""


@content_free()
class Totals(NamedTuple):
    """Totals of one kind of weights.

    weights : int64[variants], the weights that were added up
    all_in : int64[bk], over the variants with at most n symbols unmatched
    core : int64[bk shorter than the longest], over the variants that no further symbol can lose
    root : int64[symbols], over the variants that contain the symbol
    """

    weights: Ints
    all_in: Ints
    core: Ints
    root: Ints


def column_starts(symbols: int, length: int) -> Ints:
    """Return the column at which the bk of each length 1..length begin, and the number of columns.

    Parameters
    ----------
    symbols
        Number of symbols of background knowledge.
    length
        Symbols of the longest background knowledge.

    Returns
    -------
    int64[length + 1]. Within their length, bk are numbered as digits of base `symbols`, the first symbol first.
    """
    return np.cumsum([0, *(symbols**long for long in range(1, length + 1))], dtype=np.int64)


@content_free("symbols")
class KeptTable(NamedTuple):
    """A table of the candidate before.

    table : uint8[variants, bk]
    symbols : number of symbols; a symbol keeps its place from one candidate to the next
    numbers : int64[variants], number of each variant in the numbering of the series
    """

    table: Table
    symbols: int
    numbers: Ints


@content_free()
@dataclass
class SharedTotals:
    """Tables and totals over the variants of all releases, each made at its first use.

    Parameters
    ----------
    variants
        The variants of all releases, as background knowledge sees them.
    symbols
        Number of symbols of background knowledge.
    numbers
        int64[variants], their numbers in the numbering of the series.
    kept
        Tables of the candidate before, by length of bk. Their rows are copied, and this candidate's tables replace
        them.
    """

    variants: Sequences
    symbols: int
    numbers: Ints
    kept: dict[int, KeptTable] = field(default_factory=dict)
    _tables: dict[int, Table] = field(default_factory=dict)
    _totals: dict[Hashable, Totals] = field(default_factory=dict)

    def table(self, length: int) -> Table | None:
        """Return uint8[variants, bk of length 1..length]: symbols unmatched. None if it would be too large.

        Parameters
        ----------
        length
            Symbols of the longest background knowledge.
        """
        if length in self._tables:
            return self._tables[length]
        variants, symbols = len(self.variants), self.symbols
        if symbols**length > MOST_COLUMNS:
            return None
        starts = column_starts(symbols, length)
        if starts[-1] > MOST_COLUMNS or variants * starts[-1] > MOST_CELLS:
            return None
        table = np.empty((variants, starts[-1]), dtype=np.uint8)
        new_rows = self._copy_kept_rows(length, table)
        if len(new_rows):
            self._fill(new_rows, starts, table)
        self._tables[length] = table
        self.kept[length] = KeptTable(table, symbols, self.numbers)
        return table

    def _fill(self, rows: Ints, starts: Ints, table: Table) -> None:
        """Fill some rows of a table, in blocks: copies and next occurrences of all would be as large as the table."""
        length = len(starts) - 1
        widest = max(1, self.symbols ** (length - 1))
        reached = np.zeros((2, widest, length + 1), dtype=np.int64)
        row_starts = starts_of(np.diff(self.variants.start)[rows])
        for begin, end in case_blocks(row_starts, max(1, BLOCK_CELLS // max(1, self.symbols))):
            block = self.variants.take(rows[begin:end])
            after = next_occurrence_table(block, identity_relation(self.symbols), self.symbols)
            _fill_rows(block.first_positions, after, starts, reached, rows[begin:end], table)

    def column(self, bk: Ints) -> Table | None:
        """Return uint8[variants]: symbols of one bk unmatched. None if no table has been made that holds it.

        Parameters
        ----------
        bk
            Symbol codes of the background knowledge.
        """
        # Columns of longer bk come last, so a bk has one column in all tables that hold it.
        table = next((table for length, table in self._tables.items() if 0 < len(bk) <= length), None)
        if table is None:
            return None
        number = 0
        for symbol in bk.tolist():
            number = number * self.symbols + symbol
        starts = column_starts(self.symbols, len(bk))
        return table[:, starts[-2] + number]

    def totals(self, kind: Hashable, weights: Ints, n: int, length: int) -> Totals:
        """Return the totals of `weights`, brought forward from the last ones of the same kind.

        Parameters
        ----------
        kind
            Names weights that change little from one question to the next.
        weights
            int64[variants].
        n, length
            Events removed at most; longest bk. `table(length)` must not be None.

        Returns
        -------
        Totals that hold until the next question of this kind: its arrays are written again then.
        """
        starts = column_starts(self.symbols, length)
        key = (kind, n, length)
        if key not in self._totals:
            sizes = (len(self.variants), starts[-1], starts[-2], starts[1])
            self._totals[key] = Totals(*(np.zeros(size, dtype=np.int64) for size in sizes))
        totals = self._totals[key]
        _bring_forward(self.table(length), starts, n, weights, *totals)
        return totals

    def _copy_kept_rows(self, length: int, table: Table) -> Ints:
        """Copy the rows of variants that the candidate before had; return the other rows."""
        before = self.kept.pop(length, None)
        if before is None or before.symbols != self.symbols:
            return np.arange(len(table))
        largest = max(int(before.numbers.max(initial=-1)), int(self.numbers.max(initial=-1)))
        row_of_number = np.full(largest + 1, -1)
        row_of_number[before.numbers] = np.arange(len(before.numbers))
        old_row = row_of_number[self.numbers]
        kept_rows = np.flatnonzero(old_row >= 0)
        table[kept_rows] = before.table[old_row[kept_rows]]
        return np.flatnonzero(old_row < 0)


@kernel
def _fill_rows(first, after, starts, reached, rows, table):  # type: ignore[no-untyped-def]
    """Fill some rows of a table, length by length. `first` and `after` are of the variants of these rows.

    reached[current, prefix] holds the positions after each bk of one length; those of the next length are written to
    reached[1 - current], from which the round after it reads.
    """
    symbols, length = after.shape[1], len(starts) - 1
    for i in range(len(rows)):
        v = rows[i]
        reached[0, 0] = 0
        prefixes, current = 1, 0
        position = np.zeros(length + 1, dtype=np.int64)
        for d in range(length):
            for prefix in range(prefixes):
                for a in range(symbols):
                    number = prefix * symbols + a
                    unmatched = advance(first[i], after, reached[current, prefix], a, length, position)
                    table[v, starts[d] + number] = unmatched
                    if d < length - 1:
                        reached[1 - current, number] = position
            prefixes *= symbols
            current = 1 - current


@kernel
def _bring_forward(table, starts, n, weights, before, all_in, core, root):  # type: ignore[no-untyped-def]
    """Bring totals of the weights `before` to those of `weights`, and `before` with them."""
    for v in range(len(weights)):
        more = weights[v] - before[v]
        if more != 0:
            before[v] = weights[v]
            _add_records(table[v], starts, n, more, all_in, core, root)


@part
def _add_records(row, starts, n, more, all_in, core, root):  # type: ignore[no-untyped-def]
    """Add `more` records of the variant with the table row `row` to totals of one kind (see `Totals`).

    The core of a bk of length d + 1 are the variants that keep matching whatever follows: the length - d - 1 symbols
    that can still follow may all stay unmatched.
    """
    length = len(starts) - 1
    for k in range(len(all_in)):
        all_in[k] += more * np.int64(row[k] <= n)
    for d in range(length - 1):
        threshold = n - (length - d - 1)
        if threshold >= 0:
            for k in range(starts[d], starts[d + 1]):
                core[k] += more * np.int64(row[k] <= threshold)
    for k in range(len(root)):
        root[k] += more * np.int64(row[k] == 0)


@kernel
def add_leaving(table, starts, n, links, all_in, core):  # type: ignore[no-untyped-def]
    """Add the records that `links` send out of each matching set, and out of its core.

    Parameters
    ----------
    table
        uint8[variants, bk], symbols unmatched (`SharedTotals.table`).
    starts
        int64[length + 1], column at which each length begins.
    n
        Symbols that may be unmatched at most.
    links
        int64[P, 3], variant, partner's variant (-1: none), records. A link whose variant is a subsequence
        of the partner's never leaves a matching set, so callers pass the other links only.
    all_in, core
        int64, totals by background knowledge, to which the records are added (`Totals`).
    """
    length = len(starts) - 1
    for x in range(len(links)):
        records = links[x, 2]
        is_gone = links[x, 1] < 0
        row = table[links[x, 0]]
        partner_row = table[max(links[x, 1], 0)]
        for k in range(len(all_in)):
            leaves = is_gone | (partner_row[k] > n)
            all_in[k] += records * np.int64((row[k] <= n) & leaves)
        for d in range(length - 1):
            threshold = n - (length - d - 1)
            if threshold >= 0:
                for k in range(starts[d], starts[d + 1]):
                    leaves = is_gone | (partner_row[k] > threshold)
                    core[k] += records * np.int64((row[k] <= threshold) & leaves)
