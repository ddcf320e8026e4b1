"""Matching sets (Def. 8, Theorem 1): which records can belong to a case of which bk is known.

A record is in ms^n(bk) iff |bk| - LCS(bk, trace) <= n. Per variant the walk over bk keeps `position[k]`, the earliest
position reached with k symbols of bk unmatched: `position'[k] = min(after[position[k]][symbol], position[k - 1])`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.pairs import ReleasePair, Sequences
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints

LONGEST = 32_000
"""Positions are int16, two bytes per position and symbol: a longer trace would overflow them silently."""

CELLS = 1 << 30
"""Most cells of `NextOccurrences.after` (2 GiB): with more the system would end the audit
instead of a clear line."""


@content_free("symbols")
@dataclass(frozen=True)
class NextOccurrences:
    """Next occurrence of each symbol in each known variant.

    `after[first[v] + p, a]` is the position after the next symbol a at or after position p of variant v, -1 if there
    is none. For variant v = `aba` and symbols a, b:

        p          0  1  2  3
        after a    1  3  3 -1
        after b    2  2 -1 -1

    Parameters
    ----------
    first
        int64[variants], row of position 0 of each variant.
    symbols
        Number of symbols.
    make
        Makes `after` at its first use.
    answers
        Answers of `unmatched`, which several measures and several n ask again.
    part_of
        The tables over more releases that these are a part of. They are asked once for all of their parts.
    """

    first: Ints
    symbols: int
    make: Callable[[], npt.NDArray[np.int16]]
    answers: dict[bytes, npt.NDArray[np.int16]] = field(default_factory=dict, compare=False)
    part_of: PartOfTables | None = None

    @cached_property
    def after(self) -> npt.NDArray[np.int16]:
        """int16[positions of all variants, symbols]."""
        return self.make()


@content_free()
@dataclass(frozen=True, slots=True)
class PartOfTables:
    """A part of larger tables.

    Parameters
    ----------
    occurrences
        The tables of all parts.
    variants, symbols
        The variants and symbols of this part, by their place in `occurrences`.
    shared
        Totals that the searches of all parts share (`totals.SharedTotals`). None if there are none.
    """

    occurrences: NextOccurrences
    variants: Ints
    symbols: Codes
    shared: Any = None


def next_occurrences(pair: ReleasePair) -> NextOccurrences:
    """Return the tables of next occurrences in the known variants of a pair.

    Raises
    ------
    InputError
        If they would not fit: very long traces, or very many activities.
    """
    lengths = np.diff(pair.known.start)
    first = (pair.known.start[:-1] + np.arange(len(lengths))).astype(np.int64)
    positions, symbols = int(lengths.sum() + len(lengths)), len(pair.alphabet)
    if lengths.size and int(lengths.max()) > LONGEST:
        raise InputError(f"a trace has {int(lengths.max())} events; at most {LONGEST} can be searched")
    if positions * symbols > CELLS:
        raise InputError(
            f"{symbols} activities and {positions} positions need {positions * symbols} cells, more than {CELLS}: "
            "project the log on fewer activities"
        )
    return NextOccurrences(first, symbols, partial(next_occurrence_table, pair.known, pair.match_related, symbols))


def next_occurrence_table(known: Sequences, related: tuple[Ints, Codes], symbols: int) -> npt.NDArray[np.int16]:
    """Return `NextOccurrences.after` of some variants; `related`: the symbols that each item may mean (CSR)."""
    after = np.full((len(known.items) + len(known), symbols), -1, dtype=np.int16)
    _fill_after(known.items, known.start, *related, after)
    return after


@kernel
def _fill_after(items, start, related_start, related, after):  # type: ignore[no-untyped-def]
    """Fill the rows of each variant from its end: a row is the one behind it, but for the symbols of its own item."""
    for v in range(len(start) - 1):
        for p in range(start[v + 1] - start[v] - 1, -1, -1):
            row = start[v] + v + p
            for a in range(after.shape[1]):
                after[row, a] = after[row + 1, a]
            item = items[start[v] + p]
            for k in range(related_start[item], related_start[item + 1]):
                after[row, related[k]] = p + 1


@part
def advance(begin, after, position, a, n, reached):  # type: ignore[no-untyped-def]
    """Set the positions of one variant after symbol a; returns how many symbols are unmatched (n + 1: too many).

    `position[k]` is the earliest position with k symbols of bk unmatched, -1 if k cannot be. With k unmatched after a,
    either a is matched behind position[k], or a is the last unmatched one:

        reached[k] = min(after[position[k], a], position[k - 1])

    `begin`: first row of the variant in `after`. `position` and `reached` may be the same array.
    """
    previous, least = -1, n + 1
    for k in range(n + 1):
        before = position[k]
        behind = -1 if before < 0 else np.int64(after[begin + before, a])
        if previous >= 0 and (behind < 0 or previous < behind):
            behind = previous
        reached[k] = behind
        if behind >= 0 and k < least:
            least = k
        previous = before
    return least


@part
def is_in(first, after, position, missing, v, a, n):  # type: ignore[no-untyped-def]
    """Whether variant v leaves at most n symbols unmatched after one more symbol a (`missing[v]`: before it)."""
    if missing[v] != n:
        return missing[v] < n
    return after[first[v] + position[v, n], a] >= 0


@kernel
def _count_unmatched(first, after, bk, position, result):  # type: ignore[no-untyped-def]
    """Set result[v] to |bk| - LCS(bk, v)."""
    for v in range(len(first)):
        position[:] = 0
        result[v] = 0
        for a in bk:
            result[v] = advance(first[v], after, position, a, len(bk), position)


MOST_ANSWERS = 64
"""Answers of `unmatched` kept with the tables: the worst bk of a few measures are asked again and again."""


def unmatched(table: NextOccurrences, bk: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Return |bk| - LCS(bk, v) for each known variant v.

    Parameters
    ----------
    table
        Next occurrences.
    bk
        Symbol codes of one background knowledge.

    Returns
    -------
    int16[variants], not to be written to. v is in ms^n(bk) iff its number is at most n (Def. 8, Theorem 1).
    """
    codes = np.asarray(bk, dtype=np.int32)
    key = codes.tobytes()
    answer = table.answers.get(key)
    if answer is not None:
        return answer
    if table.part_of is not None:
        answer = _unmatched_in_part(table.part_of, table.part_of.symbols[codes])
    else:
        answer = np.zeros(len(table.first), dtype=np.int16)
        position = np.zeros(len(codes) + 1, dtype=np.int16)
        _count_unmatched(table.first, table.after, codes, position, answer)
    _remember(table.answers, key, answer)
    return answer


def _unmatched_in_part(part: PartOfTables, codes: Codes) -> npt.NDArray[np.int16]:
    """Return the same for a part of the tables, read from the totals of all parts where they hold it."""
    answers, key = part.occurrences.answers, codes.tobytes()
    if part.shared is not None and key not in answers:
        column = part.shared.column(codes)
        if column is not None:
            _remember(answers, key, column.astype(np.int16))
    return unmatched(part.occurrences, codes)[part.variants]


def _remember(answers: dict[bytes, npt.NDArray[np.int16]], key: bytes, answer: npt.NDArray[np.int16]) -> None:
    if len(answers) >= MOST_ANSWERS:
        answers.clear()
    answers[key] = answer
