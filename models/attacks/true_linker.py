"""Anonymity left by the true linker: the holder knows the real partners and need not search for linkers.

    FA* = CA* = number of records of ms1 whose real partner is in ms2
    BA*       = number of records of ms2 that are no partner of an earlier record

The real linker is one of "any linker". Therefore, on releases that fit the model, these counts are never above the
exact ones. They stay defined where cases were dropped or changed, over the cases that survive.

The minima are those of the search of models.attacks.search that starts from the real linker and asks for no other one.
Pairs of one candidate share the totals that the search looks up, so a further pair costs only what differs.

References
----------
correspondence-attacks-2021, Def. 9-12, with the one linker that is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.attacks.correspondence import Anonymity, AttackResult, attack_result, check_parameters
from models.attacks.linkability import may_leave
from models.attacks.pairs import NextOccurrences, ReleasePair, join_releases, next_occurrences, unmatched
from models.attacks.search import FLOOR, Minimum, search
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
    """Return the least true-linker anonymity over all background knowledge, for each n.

    Parameters
    ----------
    earlier, later, bk_length, n, minimum, known, taxonomy, foreign
        As `correspondence.anonymity`.
    partner
        int64[cases of earlier], the case of `later` that each is, -1 if it did not survive. Such a case has no partner
        in any matching set. Sensitive values are not compared: they may have changed.

    Raises
    ------
    InputError
        If a parameter is out of range, or two cases have the same partner.
    """
    check_parameters(bk_length, n)
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return true_linker_of_pair(pair, next_occurrences(pair), partner, bk_length, n, minimum)


def true_linker_of_pair(
    pair: ReleasePair,
    table: NextOccurrences,
    partner: Ints,
    bk_length: int,
    n: Sequence[int],
    minimum: Minimum = "realisable",
) -> Anonymity:
    """Return the same for a numbered pair and its tables, which other measures share."""
    links = real_links(pair, partner)
    loose = links[may_leave(pair.known_variants, links)]
    results = [true_linker_minima(pair, table, links, loose, number, bk_length, minimum) for number in sorted(set(n))]
    cases = (pair.earlier.n_cases, pair.later.n_cases)
    return Anonymity(bk_length, "true_linker", minimum, cases, results)


def real_links(pair: ReleasePair, partner: Ints) -> Ints:
    """Return the real linker over known variants.

    Returns
    -------
    int64[P, 3]: known variant, its partner's known variant (-1: none), records.

    Raises
    ------
    InputError
        If `partner` does not name one partner for each earlier case, or one partner twice.
    """
    row_of_case = pair.earlier.row_of_case
    if len(partner) != len(row_of_case):
        raise InputError(f"{len(partner)} partners for {len(row_of_case)} cases of the earlier release")
    survived = partner[partner >= 0]
    if np.bincount(survived).max(initial=0) > 1:
        raise InputError("two cases of the earlier release have the same partner in the later one")
    before = pair.earlier.known_variant[row_of_case]
    partner_row = pair.later.row_of_case[partner]
    after = np.where(partner >= 0, pair.later.known_variant[partner_row], -1)
    # Both variants in one integer, which sorts as the pair of them does; 0 in the place of no partner.
    width = pair.n_known + 1
    keys, count = np.unique(before * np.int64(width) + after + 1, return_counts=True)
    variant, partner_variant = keys // width, keys % width - 1
    return np.column_stack((variant, partner_variant, count)).astype(np.int64)


def true_linker_minima(
    pair: ReleasePair, table: NextOccurrences, links: Ints, loose: Ints, n: int, bk_length: int, minimum: Minimum
) -> AttackResult:
    """Return the minima at one n. `links`: of `real_links`; `loose`: those that can leave a matching set."""
    variants = pair.n_known
    taken = np.zeros(variants, dtype=np.int64)  # later records that are somebody's partner
    with_partner = links[links[:, 1] >= 0]
    np.add.at(taken, with_partner[:, 1], with_partner[:, 2])
    before, after = pair.earlier.per_known(variants), pair.later.per_known(variants)
    # No other linker is asked about, so no record can become free besides (column OPEN).
    weights = np.column_stack((before, after, after - taken, np.zeros_like(taken)))
    best, worst, _ = search(table, weights, loose, n, bk_length, FLOOR[minimum])
    return attack_result(pair, table, n, best, worst)


def true_counts(pair: ReleasePair, table: NextOccurrences, partner: Ints, bk: Sequence[Any], n: int) -> dict[str, int]:
    """Return {fa, ca, ba} of one background knowledge; 0 if no real case is behind a matching set."""
    return true_counts_of_links(pair, table, real_links(pair, partner), bk, n)


def true_counts_of_links(
    pair: ReleasePair, table: NextOccurrences, links: Ints, bk: Sequence[Any], n: int
) -> dict[str, int]:
    """Return the same from the links of `real_links`, which several candidates share."""
    code = {symbol: number for number, symbol in enumerate(pair.alphabet)}
    matches = unmatched(table, [code[symbol] for symbol in bk]) <= n
    with_partner = links[links[:, 1] >= 0]
    partner_matches = matches[with_partner[:, 1]]
    both_match = partner_matches & matches[with_partner[:, 0]]
    in_both = int(with_partner[both_match, 2].sum())
    partners_in_ms2 = int(with_partner[partner_matches, 2].sum())
    ms2 = int(pair.later.per_known(pair.n_known)[matches].sum())
    return {"fa": in_both, "ca": in_both, "ba": ms2 - partners_in_ms2}


@dataclass(frozen=True, slots=True)
class RealPartners:
    """The anonymity that the real partners leave between two releases.

    Parameters
    ----------
    survivors
        Cases of the earlier release that the later one holds.
    gone
        Cases of the earlier release that the later one does not hold.
    changed
        Survivors with another sensitive value in the later release; 0 if a case is gone (then nobody asks).
    least
        For fa, ca and ba the least value over all n in records (None: no value), and a bk that attains it.
    """

    survivors: int
    gone: int
    changed: int
    least: dict[str, tuple[int | None, list[Any] | None]]
