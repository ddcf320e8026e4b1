"""Anonymity left by the true linker: the holder knows the real partners and need not search for linkers.

    FA* = CA* = number of records of ms1 whose real partner is in ms2
    BA*       = number of records of ms2 that are not a partner of an earlier record

The real linker is one of "any linker". Therefore, on releases that fit the model, these counts are never above the
exact ones. They stay defined where cases were dropped or changed, over the cases that survive.

Two ways lead to the minima (docs/decisions/035-one-true-linker.md):

* of one pair, the search of models.attacks.search that starts from the real linker and asks for no other one;
* of one candidate and all releases before it, totals over every background knowledge that go from one earlier release
  to the next. The real linker is fixed, so the counts are sums over its links, and only links that differ are added.

References
----------
correspondence-attacks-2021, Def. 9-12, with the one linker that is true.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np

from models.attacks.correspondence import Anonymity, AttackResult, attack_result, check_parameters
from models.attacks.linkability import may_leave
from models.attacks.pairs import NextOccurrences, ReleasePair, join_releases, next_occurrences, unmatched
from models.attacks.search import (
    BA,
    CA,
    FA,
    FLOOR,
    KA1,
    KA1_COMMON,
    KA2,
    KA2_COMMON,
    MEASURES,
    NO_VALUE,
    Minimum,
    search,
)
from models.attacks.shared_pairs import NumberedRelease, SharedPairs
from models.attacks.totals import column_starts
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog, starts_of


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
    """Return the least true-linker anonymity of two releases that are numbered already.

    Other measures share the numbering and the tables.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    partner, bk_length, n, minimum
        As `true_linker`.

    Raises
    ------
    InputError
        As `real_links`.
    """
    links = real_links(pair, partner)
    loose = links[may_leave(pair.known_variants, links)]
    ns = sorted(set(n))
    results = [true_linker_minima(pair, table, links, loose, number, bk_length, minimum) for number in ns]
    cases = (pair.earlier.n_cases, pair.later.n_cases)
    return Anonymity(bk_length, "true_linker", minimum, cases, results)


def real_links(pair: ReleasePair, partner: Ints) -> Ints:
    """Return the real linker over known variants.

    Parameters
    ----------
    pair
        The two releases.
    partner
        int64[cases of the earlier release], the case of the later one that each is, -1 if it did not survive.

    Returns
    -------
    int64[P, 3]: known variant, its partner's known variant (-1: none), records.

    Raises
    ------
    InputError
        If `partner` does not name one partner for each earlier case, or one partner twice.
    """
    known_of_case = pair.earlier.known_variant[pair.earlier.row_of_case]
    later_known = pair.later.known_variant[pair.later.row_of_case]
    links, records = _coded_links(known_of_case, later_known, partner, pair.n_known)
    variant, partner_code = np.divmod(links, pair.n_known + 1)
    return np.column_stack((variant, partner_code - 1, records)).astype(np.int64)


def _coded_links(known_of_case: Codes, later_known: Codes, partner: Ints, n_known: int) -> tuple[Ints, Ints]:
    """Return each link of the real linker as one integer, ascending, and the records of each.

    The integer is the known variant times (n_known + 1), plus its partner's known variant plus 1 (0: no
    partner). It sorts as the pair of variants does.

    Parameters
    ----------
    known_of_case, later_known
        Known variant of each case of the earlier and of the later release.
    partner
        As of `real_links`.
    n_known
        Number of known variants.
    """
    _refuse_ambiguous(partner, len(known_of_case))
    partner_known = np.where(partner >= 0, later_known[partner], -1)
    of_cases = known_of_case.astype(np.int64) * (n_known + 1) + partner_known + 1
    return np.unique(of_cases, return_counts=True)


def _refuse_ambiguous(partner: Ints, n_cases: int) -> None:
    """Refuse partners that are not one for each earlier case, or that name a later case twice."""
    if len(partner) != n_cases:
        raise InputError(f"{len(partner)} partners for {n_cases} cases of the earlier release")
    survived = partner[partner >= 0]
    if np.bincount(survived).max(initial=0) > 1:
        raise InputError("two cases of the earlier release have the same partner in the later one")


def true_linker_minima(
    pair: ReleasePair, table: NextOccurrences, links: Ints, loose: Ints, n: int, bk_length: int, minimum: Minimum
) -> AttackResult:
    """Return the least values at one n over all background knowledge, for a known linker.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    links
        int64[P, 3], as `real_links` returns them.
    loose
        Those of the links that can leave a matching set (`linkability.may_leave`).
    n
        Events removed from a case at most.
    bk_length, minimum
        As `correspondence.anonymity`.
    """
    variants = pair.n_known
    later_partners = np.zeros(variants, dtype=np.int64)  # later records that are somebody's partner
    with_partner = links[links[:, 1] >= 0]
    np.add.at(later_partners, with_partner[:, 1], with_partner[:, 2])
    before, after = pair.earlier.per_known(variants), pair.later.per_known(variants)
    # No other linker is asked about, so no other record can become free (column OPEN).
    weights = np.column_stack((before, after, after - later_partners, np.zeros_like(later_partners)))
    best, worst = search(table, weights, loose, n, bk_length, FLOOR[minimum])
    return attack_result(pair, table, n, best, worst)


def true_counts(pair: ReleasePair, table: NextOccurrences, partner: Ints, bk: Sequence[Any], n: int) -> dict[str, int]:
    """Return the true-linker values of one background knowledge.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    partner
        As of `real_links`.
    bk
        The symbols that are known.
    n
        Events removed from a case at most.

    Returns
    -------
    dict
        fa, ca, ba, in records; 0 if no real case is behind a matching set.
    """
    return true_counts_of_links(pair, table, real_links(pair, partner), bk, n)


def true_counts_of_links(
    pair: ReleasePair, table: NextOccurrences, links: Ints, bk: Sequence[Any], n: int
) -> dict[str, int]:
    """Return `true_counts` for links that several candidates share.

    Parameters
    ----------
    pair, table, bk, n
        As `true_counts`.
    links
        int64[P, 3], as `real_links` returns them.
    """
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
    results
        The least values for each n, ascending.
    """

    survivors: int
    gone: int
    changed: int
    results: list[AttackResult]

    @property
    def least(self) -> dict[str, tuple[int | None, list[Any] | None]]:
        """For fa, ca and ba the least value over all n in records (None: no value), and a bk that attains it."""
        return least_over_n(self.results)


def least_over_n(results: Sequence[AttackResult]) -> dict[str, tuple[int | None, list[Any] | None]]:
    """Return the least FA, CA and BA over all n, each with the background knowledge that attains it.

    Parameters
    ----------
    results
        Results of one pair, one for each n.

    Returns
    -------
    dict
        By attack: the least value and its knowledge, both None if no n has a value.
    """
    least: dict[str, tuple[int | None, list[Any] | None]] = {}
    for name in ("fa", "ca", "ba"):
        measured = [result for result in results if result.values[name] is not None]
        candidates = [(result.values[name], result.worst[name]) for result in measured]
        least[name] = min(candidates, default=(None, None), key=itemgetter(0))
    return least


# --- One candidate and all releases before it ---


@content_free()
class LinkChanges(NamedTuple):
    """Differences between the real links of each earlier release and those of the release before it.

    start : int64[R + 1], where the changes of each release begin; those of the first add all its links
    variant, partner : int32, known variant of the earlier record, and of its partner (-1: none)
    records : int64, records that are added (negative: taken away)
    """

    start: Ints
    variant: Codes
    partner: Codes
    records: Ints


def least_true_counts(
    shared: SharedPairs,
    earlier: Sequence[NumberedRelease],
    partners: Iterable[Ints],
    bk_length: int,
    ns: Sequence[int],
    minimum: Minimum,
) -> list[list[AttackResult]] | None:
    """Return the true-linker minima of each earlier release with the candidate, for each n.

    Parameters
    ----------
    shared
        The candidate, and the tables of all releases.
    earlier, partners
        The earlier releases, and for each the place of its cases in the candidate, int64[cases] (-1: not there).
    bk_length, ns, minimum
        As `true_linker`.

    Returns
    -------
    For each earlier release its results, n ascending; the values are those of `true_linker`, and several
    background knowledges may attain one. None if the background knowledge does not fit into a table: each
    pair then needs a search of its own.

    Raises
    ------
    InputError
        As `real_links`.
    """
    table = shared.table(bk_length)
    if table is None:
        return None
    changes = _link_changes(shared, earlier, partners)
    later_records = np.bincount(shared.known_of_case(shared.later), minlength=len(table))
    is_symbol = np.stack([shared.is_symbol(release) for release in earlier])
    starts = column_starts(is_symbol.shape[1], bk_length)
    results: list[list[AttackResult]] = [[] for _ in earlier]
    for n in sorted(set(ns)):
        minima = Minima.of(len(earlier))
        _follow_links(table <= n, changes, later_records, is_symbol, starts, FLOOR[minimum], minima)
        for release, of_release in enumerate(results):
            of_release.append(_result(shared, n, minima, release, starts))
    return results


@content_free()
class Minima(NamedTuple):
    """The least values of each earlier release at one n, by measure in the order of MEASURES.

    value : int64[R, measures], NO_VALUE if no background knowledge has a value
    column : int64[R, measures], column of a background knowledge that attains it
    first, second : int64[R, measures], records of the earlier and of the later release that match it
    """

    value: Ints
    column: Ints
    first: Ints
    second: Ints

    @classmethod
    def of(cls, releases: int) -> Self:
        """Make the arrays for some earlier releases, without a value so far.

        Parameters
        ----------
        releases
            Number of earlier releases.
        """
        shape = (releases, len(MEASURES))
        no_values = np.full(shape, NO_VALUE, dtype=np.int64)
        column, first, second = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        return cls(no_values, column, first, second)


def _result(shared: SharedPairs, n: int, minima: Minima, release: int, starts: Ints) -> AttackResult:
    """Return the result of one earlier release, with symbols in place of the columns that attain its values."""
    values: dict[str, int | None] = {}
    worst: dict[str, list[Any] | None] = {}
    matching: dict[str, int | None] = {}
    for measure, name in enumerate(MEASURES):
        value = int(minima.value[release, measure])
        if value >= NO_VALUE:
            values[name] = worst[name] = None
            continue
        values[name] = value
        worst[name] = shared.knowledge(int(minima.column[release, measure]), starts)
        if measure in (FA, CA, BA):
            attacked = minima.first if measure == FA else minima.second
            matching[name] = int(attacked[release, measure])
    return AttackResult(n, "exists", values, worst, matching=matching)


def _link_changes(shared: SharedPairs, earlier: Sequence[NumberedRelease], partners: Iterable[Ints]) -> LinkChanges:
    """List the differences between the real links of each earlier release and those of the release before it."""
    later_known = shared.known_of_case(shared.later)
    before_links, before_records = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    links, records, sizes = [], [], []
    for release, partner in zip(earlier, partners, strict=True):
        known_of_case = shared.known_of_case(release)
        release_links, release_records = _coded_links(known_of_case, later_known, partner, shared.n_known)
        all_links, place = np.unique(np.concatenate((before_links, release_links)), return_inverse=True)
        signed_records = np.concatenate((-before_records, release_records))
        change = np.bincount(place, signed_records, len(all_links)).astype(np.int64)
        has_changed = change != 0
        links.append(all_links[has_changed])
        records.append(change[has_changed])
        sizes.append(len(links[-1]))
        before_links, before_records = release_links, release_records
    variant, partner_code = np.divmod(np.concatenate(links), shared.n_known + 1)
    return LinkChanges(
        start=starts_of(np.asarray(sizes)),
        variant=variant.astype(np.int32),
        partner=(partner_code - 1).astype(np.int32),
        records=np.concatenate(records),
    )


@kernel
def _follow_links(matches, changes, later_records, is_symbol, starts, floor, minima):  # type: ignore[no-untyped-def]
    """Lower the least values of each earlier release to those at one n.

    matches : bool[variants, bk]; later_records : int64[variants]; is_symbol : bool[R, symbols], those of each pair
    """
    columns = matches.shape[1]
    in_first = np.zeros(columns, dtype=np.int64)  # earlier records that match
    in_both = np.zeros(columns, dtype=np.int64)  # of these, records whose partner matches too
    in_second = np.zeros(columns, dtype=np.int64)  # later records that match
    no_partner = np.zeros(columns, dtype=np.int64)  # of these, records that are nobody's partner
    for v in range(len(later_records)):
        if later_records[v] != 0:
            for k in range(columns):
                in_second[k] += later_records[v] * np.int64(matches[v, k])
    no_partner[:] = in_second
    is_asked = np.zeros(columns, dtype=np.bool_)
    for release in range(len(minima.value)):
        for x in range(changes.start[release], changes.start[release + 1]):
            more, variant, partner = changes.records[x], changes.variant[x], changes.partner[x]
            for k in range(columns):
                in_first[k] += more * np.int64(matches[variant, k])
            if partner >= 0:
                for k in range(columns):
                    in_both[k] += more * np.int64(matches[variant, k] & matches[partner, k])
                    no_partner[k] -= more * np.int64(matches[partner, k])
        if release == 0 or not np.array_equal(is_symbol[release], is_symbol[release - 1]):
            _mark_asked(is_symbol[release], starts, is_asked)
        for k in range(columns):
            if is_asked[k]:
                _offer(minima, release, k, floor, in_first[k], in_second[k], in_both[k], no_partner[k])


@part
def _offer(minima, release, column, floor, first, second, both, no_partner):  # type: ignore[no-untyped-def]
    """Lower the least values of one earlier release to those of one background knowledge, as a search does."""
    first_matches, second_matches = first > 0, second > 0
    if first_matches:
        _lower(minima, release, KA1, column, first, first, second)
    if second_matches:
        _lower(minima, release, KA2, column, second, first, second)
    if first_matches and second_matches:
        _lower(minima, release, KA1_COMMON, column, first, first, second)
        _lower(minima, release, KA2_COMMON, column, second, first, second)

    is_attacked = first_matches and second_matches if floor < 0 else first_matches or second_matches
    if not is_attacked:
        return
    least_counted = max(floor, 0)
    if both >= least_counted:
        _lower(minima, release, FA, column, both, first, second)
        _lower(minima, release, CA, column, both, first, second)
    if no_partner >= least_counted:
        _lower(minima, release, BA, column, no_partner, first, second)


@part
def _lower(minima, release, measure, column, value, first, second):  # type: ignore[no-untyped-def]
    """Keep a value if it is the least so far.

    Of several background knowledges with one value, that of the fewest matching records is named.
    """
    least = minima.value[release, measure]
    fewest = minima.first[release, measure] + minima.second[release, measure]
    if value < least or (value == least and first + second < fewest):
        minima.value[release, measure], minima.column[release, measure] = value, column
        minima.first[release, measure], minima.second[release, measure] = first, second


@part
def _mark_asked(is_symbol, starts, is_asked):  # type: ignore[no-untyped-def]
    """Mark the background knowledge whose symbols all belong to a pair."""
    symbols = len(is_symbol)
    for d in range(len(starts) - 1):
        for k in range(starts[d], starts[d + 1]):
            number = k - starts[d]
            all_belong = True
            for _ in range(d + 1):
                all_belong = all_belong and is_symbol[number % symbols]
                number //= symbols
            is_asked[k] = all_belong
