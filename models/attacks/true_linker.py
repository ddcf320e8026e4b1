"""The anonymity left when the real partners are known: what the holder can count without any search for linkers.

`FA* = CA* = #{records of ms1 whose real partner is in ms2}`, `BA* = |ms2 minus image(L1)|` (semantics/attacks.md). The
real linker is one of "any linker", so on releases that fit the model these counts are never above the exact ones; and
they stay defined where cases were dropped or changed, on the cases that survive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from models.attacks.linkability import may_leave
from models.attacks.matching import Walk, unmatched, walk
from models.attacks.outcome import FLOOR, Anonymity, Minimum, Result, check, result
from models.attacks.pairs import Pair, pair
from models.attacks.search import search
from models.errors import InputError
from models.eventlog import Ints, SimpleLog


def true_linker(
    earlier: SimpleLog,
    later: SimpleLog,
    partner: Ints,
    *,
    bk_length: int = 2,
    n: Sequence[int] = (0, 1),
    minimum: Minimum = "realisable",
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> Anonymity:
    """Least true-linker anonymity over all background knowledge of length 1..bk_length, for each n.

    `partner`: int64[cases of earlier], the case of `later` that each is, -1 where it did not survive (such a case has
    no partner in any matching set). Sensitive values are not compared: they may have changed.
    """
    check(bk_length, n)
    given = pair(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return of_pair(given, walk(given), partner, bk_length, n, minimum)


def of_pair(
    given: Pair, table: Walk, partner: Ints, bk_length: int, n: Sequence[int], minimum: Minimum = "realisable"
) -> Anonymity:
    """The same on a numbered pair and its tables, which other measures share."""
    links = real_links(given, partner)
    leaving = links[may_leave(given.known, links)]
    results = [least(given, table, links, leaving, number, bk_length, minimum) for number in sorted(set(n))]
    return Anonymity(bk_length, "true_linker", minimum, (given.earlier.n_cases, given.later.n_cases), results)


def real_links(given: Pair, partner: Ints) -> Ints:
    """int64[P, 3]: known variant, its partner's known variant (-1: none), records."""
    if len(partner) != len(given.earlier.row_of_case):
        raise InputError(f"{len(partner)} partners for {len(given.earlier.row_of_case)} cases of the earlier release")
    survived = partner[partner >= 0]
    if np.bincount(survived).max(initial=0) > 1:
        raise InputError("two cases of the earlier release have the same partner in the later one")
    before = given.earlier.known[given.earlier.row_of_case]
    after = np.where(partner >= 0, given.later.known[given.later.row_of_case[partner]], -1)
    width = given.n_known + 1  # both variants in one integer, which sorts as the pair does
    pairs, count = np.unique(before * np.int64(width) + after + 1, return_counts=True)
    return np.column_stack((pairs // width, pairs % width - 1, count)).astype(np.int64)


def least(given: Pair, table: Walk, links: Ints, leaving: Ints, n: int, bk_length: int, minimum: Minimum) -> Result:
    """One n. `leaving`: the links that can leave a matching set."""
    variants = given.n_known
    taken = np.zeros(variants, dtype=np.int64)
    met = links[links[:, 1] >= 0]
    np.add.at(taken, met[:, 1], met[:, 2])
    before, after = given.earlier.per_known(variants), given.later.per_known(variants)
    weights = np.column_stack((before, after, after - taken, np.zeros_like(taken)))
    best, worst, _ = search(table, weights, leaving, n, bk_length, FLOOR[minimum])
    return result(given, table, n, best, worst)


def behind(given: Pair, table: Walk, partner: Ints, bk: Sequence[Any], n: int) -> dict[str, int]:
    """{fa, ca, ba} of one background knowledge by the real partners: 0 where no real case is behind a matching set."""
    return behind_links(given, table, real_links(given, partner), bk, n)


def behind_links(given: Pair, table: Walk, links: Ints, bk: Sequence[Any], n: int) -> dict[str, int]:
    """The same from the links of `real_links`, which several candidates share."""
    code = {symbol: number for number, symbol in enumerate(given.alphabet)}
    match = unmatched(table, [code[symbol] for symbol in bk]) <= n
    met = links[links[:, 1] >= 0]
    both = int(met[match[met[:, 0]] & match[met[:, 1]], 2].sum())
    later_size = int(given.later.per_known(given.n_known)[match].sum())
    return {"fa": both, "ca": both, "ba": later_size - int(met[match[met[:, 1]], 2].sum())}
