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

from models.attacks.pairs import Pair, Sequences
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints

LONGEST = 32_000
"""Positions are int16, two bytes per position and symbol: a longer trace would overflow them silently."""

CELLS = 1 << 30
"""Most cells of `Walk.after` (2 GiB): beyond it the audit would be ended by the system instead of by a clear line."""


@content_free("symbols")
@dataclass(frozen=True)
class Walk:
    """`after[first[v] + p, a]`: position after the next a at or after position p of known variant v, -1 for none.

    `make`: makes it when it is asked for; `symbols`: how many there are; `asked`: what `unmatched` answered, which
    several measures and numbers of missing symbols ask again; `whole`: the walk over more releases that this one is a
    part of, asked once for all of its parts.
    """

    first: Ints
    symbols: int
    make: Callable[[], npt.NDArray[np.int16]]
    asked: dict[bytes, npt.NDArray[np.int16]] = field(default_factory=dict, compare=False)
    whole: Part | None = None

    @cached_property
    def after(self) -> npt.NDArray[np.int16]:
        return self.make()


@content_free()
@dataclass(frozen=True, slots=True)
class Part:
    """Which variants and symbols of `walk` a part of it has; `shared`: what searches of all parts share."""

    walk: Walk
    variants: Ints
    symbols: Codes
    shared: Any = None


def walk(given: Pair) -> Walk:
    """Tables of next occurrences. InputError where they would not fit (very long traces, huge alphabets)."""
    lengths = np.diff(given.known.start)
    first = (given.known.start[:-1] + np.arange(len(lengths))).astype(np.int64)
    positions, symbols = int(lengths.sum() + len(lengths)), len(given.alphabet)
    if lengths.size and int(lengths.max()) > LONGEST:
        raise InputError(f"a trace has {int(lengths.max())} events; at most {LONGEST} can be searched")
    if positions * symbols > CELLS:
        raise InputError(
            f"{symbols} activities and {positions} positions need {positions * symbols} cells, more than {CELLS}: "
            "project the log on fewer activities"
        )
    return Walk(first, symbols, partial(tables, given.known, given.match_related, symbols))


def tables(known: Sequences, related: tuple[Ints, Codes], symbols: int) -> npt.NDArray[np.int16]:
    """`Walk.after` of some variants; `related`: the symbols that each item can stand for."""
    after = np.full((len(known.items) + len(known), symbols), -1, dtype=np.int16)
    _after(known.items, known.start, *related, after)
    return after


@kernel
def _after(items, start, related_start, related, after):  # type: ignore[no-untyped-def]
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
    """Positions of one variant after symbol a, and how many symbols it leaves unmatched (n + 1: too many).

    `begin`: first row of the variant in `after`; `position`, `reached`: before and after, by symbols left unmatched
    (may be the same array).
    """
    previous, least = -1, n + 1
    for k in range(n + 1):
        old = position[k]
        new = -1 if old < 0 else np.int64(after[begin + old, a])
        if previous >= 0 and (new < 0 or previous < new):
            new = previous
        reached[k] = new
        if new >= 0 and k < least:
            least = k
        previous = old
    return least


@part
def is_in(first, after, position, missing, v, a, n):  # type: ignore[no-untyped-def]
    """Whether variant v leaves at most n symbols unmatched after one more symbol a (`missing[v]`: before it)."""
    if missing[v] != n:
        return missing[v] < n
    return after[first[v] + position[v, n], a] >= 0


@kernel
def _unmatched(first, after, bk, position, result):  # type: ignore[no-untyped-def]
    for v in range(len(first)):
        position[:] = 0
        result[v] = 0
        for a in bk:
            result[v] = advance(first[v], after, position, a, len(bk), position)


REMEMBERED = 64
"""Answers of `unmatched` kept with a walk: the worst background knowledge of a few measures comes again and again."""


def unmatched(given: Walk, bk: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """|bk| - LCS(bk, v) for each known variant v: v is in ms^n(bk) iff this is at most n. Not to be written to."""
    codes = np.asarray(bk, dtype=np.int32)
    key = codes.tobytes()
    found = given.asked.get(key)
    if found is None:
        if given.whole is not None:
            found = _of_part(given.whole, given.whole.symbols[codes])
        else:
            found = np.zeros(len(given.first), dtype=np.int16)
            _unmatched(given.first, given.after, codes, np.zeros(len(codes) + 1, dtype=np.int16), found)
        _remember(given.asked, key, found)
    return found


def _of_part(part: Part, codes: Codes) -> npt.NDArray[np.int16]:
    """The same for a part of a walk, from what is looked up for all of its parts where there is such a table."""
    asked, key = part.walk.asked, codes.tobytes()
    looked_up = None if part.shared is None or key in asked else part.shared.column(codes)
    if looked_up is not None:
        _remember(asked, key, looked_up.astype(np.int16))
    return unmatched(part.walk, codes)[part.variants]


def _remember(asked: dict[bytes, npt.NDArray[np.int16]], key: bytes, found: npt.NDArray[np.int16]) -> None:
    if len(asked) >= REMEMBERED:
        asked.clear()
    asked[key] = found
