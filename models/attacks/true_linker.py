"""Anonymity left by the true linker: the holder knows the real partners and need not search for linkers.

    FA* = CA* = number of records of ms1 whose real partner is in ms2
    BA*       = number of records of ms2 that are no partner of an earlier record

The real linker is one of "any linker". Therefore, on releases that fit the model, these counts are never above the
exact ones. They stay defined where cases were dropped or changed, over the cases that survive.

There are two ways to the same numbers, for a pair alone (`true_linker_of_pair`) and for one release and many earlier
ones (`true_linkers`). `tests/property/test_attacks_real_partners.py` compares both.

References
----------
correspondence-attacks-2021, Def. 9-12, with the one linker that is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from models.attacks.linkability import may_leave
from models.attacks.matching import NextOccurrences, next_occurrences, unmatched
from models.attacks.numbering import Numbered
from models.attacks.outcome import FLOOR, Anonymity, AttackResult, Minimum, attack_result, check_parameters
from models.attacks.pairs import ReleasePair, join_releases
from models.attacks.search import (
    C1,
    C2,
    CURSOR_CELLS,
    LEAST_VALUE,
    LENGTH,
    MEASURES,
    NEVER,
    NEW,
    NO_VALUE,
    PAUSE,
    SURPLUS,
    AddedUp,
    LookedUp,
    N,
    SearchRoom,
    SearchTables,
    search,
    walk,
)
from models.attacks.totals import add_link, add_records
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog

# --- One pair ---


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
    loose = links[may_leave(pair.known, links)]
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
    before = pair.earlier.known[row_of_case]
    partner_row = pair.later.row_of_case[partner]
    after = np.where(partner >= 0, pair.later.known[partner_row], -1)
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
    """Return {fa, ca, ba} of one background knowledge; 0 where no real case is behind a matching set."""
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


# --- One release and many earlier ones ---
#
# Between neighbours of a series few cases differ. So the totals of a pair (models.attacks.totals) are those of the pair
# before, with the cases that differ taken out and put in again: a pair costs what changed in its earlier release.


GONE = -1
"""In the place of a variant: the release does not hold the case."""

SURVIVORS, WITHOUT, CHANGED = 0, 1, 2
"""Columns of `FoundMinima.cases`: cases of the earlier release that the later one holds; that it does not hold; that it
holds with another sensitive value."""


@content_free()
class ByCase(NamedTuple):
    """A release by number of case.

    variant : int32[cases], GONE if the release does not hold the case
    value : int32[cases], number of the sensitive value
    """

    variant: Codes
    value: Codes


@content_free()
@dataclass(frozen=True, slots=True)
class CaseChanges:
    """The cases in which a release differs from the one before it, with their variant and value in the one before."""

    case: Ints
    variant: Codes
    value: Codes


def by_case(one: Numbered, cases: int) -> ByCase | None:
    """Return a release by number of case, or None where a record is no case or a case is several records.

    `cases`: numbers of cases that the numbering has given.
    """
    if int(one.case.min(initial=0)) < 0:
        return None
    variant = np.full(cases, GONE, dtype=np.int32)
    value = np.zeros(cases, dtype=np.int32)
    variant[one.case] = one.variant[one.row_of_case]
    value[one.case] = one.value[one.row_of_case]
    each_case_once = np.count_nonzero(variant != GONE) == len(one.case)
    return ByCase(variant, value) if each_case_once else None


def changes_between(later: Numbered, earlier: Numbered, cases: int) -> CaseChanges | None:
    """Return the cases that differ, those of equal variants together, so that they are moved at once.

    None as in `by_case`.
    """
    two, one = by_case(later, cases), by_case(earlier, cases)
    if one is None or two is None:
        return None
    case = np.flatnonzero((one.variant != two.variant) | (one.value != two.value))
    case = case[np.lexsort((one.variant[case], two.variant[case]))]
    return CaseChanges(case, one.variant[case], one.value[case])


@content_free()
@dataclass(frozen=True, slots=True)
class FoundMinima:
    """The minima of R earlier releases.

    cases : int64[R, 3], columns SURVIVORS, WITHOUT, CHANGED
    best : int64[R, ns, MEASURES], least values (NO_VALUE: none)
    worst : int32[R, ns, MEASURES, length], a bk that attains each, by place in the alphabet of the pair, -1 after its
        end
    """

    cases: Ints
    best: Ints
    worst: Codes


@dataclass(frozen=True, slots=True)
class RealPartners:
    """What the real partners leave of a pair.

    survivors, gone, changed : cases of the earlier release that the later one holds, does not hold, and holds with
        another sensitive value
    least : for fa, ca and ba the least value over all n (None: none), and a bk that attains it
    """

    survivors: int
    gone: int
    changed: int
    least: dict[str, tuple[int | None, list[Any] | None]]


def by_release(found: FoundMinima, alphabets: Sequence[Codes], symbols: Sequence[Any]) -> list[RealPartners]:
    """Return the minima with names in place of codes.

    Parameters
    ----------
    found
        Of `true_linkers`.
    alphabets
        Symbols of each pair, by number; neighbours may share one array.
    symbols
        Names of all symbols, which the alphabets number.
    """
    measures = {name: MEASURES.index(name) for name in ("fa", "ca", "ba")}
    places = list(measures.values())
    least_n = found.best[:, :, places].argmin(axis=1)
    releases = np.arange(len(least_n))[:, None]
    best = found.best[releases, least_n, places].tolist()
    worst = found.worst[releases, least_n, places].tolist()
    names = {id(one): [symbols[code] for code in one.tolist()] for one in alphabets}
    answers = []
    for cases, values, bks, alphabet in zip(found.cases.tolist(), best, worst, alphabets, strict=True):
        survivors, gone, changed = cases
        own_names = names[id(alphabet)]
        least: dict[str, tuple[int | None, list[Any] | None]] = {}
        for attack, value, codes in zip(measures, values, bks, strict=True):
            bk = [own_names[code] for code in codes if code >= 0]
            least[attack] = (value, bk) if value < NO_VALUE else (None, None)
        answers.append(RealPartners(survivors, gone, changed, least))
    return answers


@content_free()
class JoinedChanges(NamedTuple):
    """All changes end to end: those of release r are `start[r]` to `start[r + 1]`."""

    start: Ints
    case: Ints
    variant: Codes
    value: Codes


@content_free()
class Alphabets(NamedTuple):
    """Symbols of each pair: pair r has `symbol[start[r]:start[r + 1]]`."""

    start: Ints
    symbol: Ints


@content_free("symbols")
class Lookup(NamedTuple):
    """The table that the totals are read off.

    table : uint8[variants, bk], of `totals.SharedTotals`
    columns : int64[length + 1], where the bk of each length begin
    symbols : number of symbols
    row : int32[variants given], row of the table of each variant of the numbering (-1: in no release)
    """

    table: Any
    columns: Ints
    symbols: int
    row: Codes


@content_free()
class FollowedTotals(NamedTuple):
    """Totals of the current pair, by n.

    all_in, core, root : int64[ns, 4, ...], by column of weights, as `totals.Totals`
    leaving, core_leaving : int64[ns, ...], records that the real links send out of a matching set, and of its core
    """

    all_in: Ints
    core: Ints
    root: Ints
    leaving: Ints
    core_leaving: Ints


def true_linkers(
    known: Lookup,
    later: ByCase,
    steps: Sequence[CaseChanges],
    alphabets: Sequence[Codes],
    ns: Sequence[int],
    floor: int,
) -> FoundMinima:
    """Return the least of each measure for each earlier release, the last one first.

    Parameters
    ----------
    known
        Symbols that each variant leaves unmatched.
    later
        The release that all are compared with.
    steps
        Changes from the later release to the last one before it, and on backwards.
    alphabets
        Symbols of each pair.
    ns, floor
        Events removed at most; least value that counts (see `search.search`).
    """
    releases, length = len(steps), len(known.columns) - 1
    all_columns, core_columns = known.columns[-1], known.columns[-2]
    sums = FollowedTotals(
        all_in=np.zeros((len(ns), 4, all_columns), dtype=np.int64),
        core=np.zeros((len(ns), 4, core_columns), dtype=np.int64),
        root=np.zeros((len(ns), 4, known.symbols), dtype=np.int64),
        leaving=np.zeros((len(ns), all_columns), dtype=np.int64),
        core_leaving=np.zeros((len(ns), core_columns), dtype=np.int64),
    )
    found = FoundMinima(
        cases=np.zeros((releases, 3), dtype=np.int64),
        best=np.full((releases, len(ns), len(MEASURES)), NO_VALUE, dtype=np.int64),
        worst=np.full((releases, len(ns), len(MEASURES), length), -1, dtype=np.int32),
    )
    joined = JoinedChanges(
        start=_starts([len(one.case) for one in steps]),
        case=np.concatenate([one.case for one in steps]).astype(np.int64),
        variant=np.concatenate([one.variant for one in steps]),
        value=np.concatenate([one.value for one in steps]),
    )
    shown = Alphabets(_starts(list(map(len, alphabets))), np.concatenate(alphabets).astype(np.int64))
    now = ByCase(later.variant.copy(), later.value.copy())
    n_array = np.asarray(ns, dtype=np.int64)
    _follow(known, later, now, joined, shown, n_array, np.int64(floor), sums, found.cases, found.best, found.worst)
    return found


def _starts(lengths: Sequence[int]) -> Ints:
    """Return where each of some parts begins, end to end, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(np.asarray(lengths, dtype=np.int64)))).astype(np.int64)


@kernel
def _follow(known, later, now, steps, shown, ns, floor, sums, cases, best, worst):  # type: ignore[no-untyped-def]
    """Search each pair. `now`: the earlier release by case, at first the later one, which is its own true linker."""
    counts = np.zeros(3, dtype=np.int64)
    records = np.zeros(len(known.table), dtype=np.int64)
    for v in later.variant:
        if v != GONE:
            counts[SURVIVORS] += 1
            records[known.row[v]] += 1
    for row in range(len(records)):
        if records[row] == 0:
            continue
        for k in range(len(ns)):
            _add_weight(known, sums, k, ns[k], C1, row, records[row])
            _add_weight(known, sums, k, ns[k], C2, row, records[row])
    for r in range(len(best)):
        _move(known, later, now, steps, r, ns, sums, counts)
        cases[r] = counts
        symbol = shown.symbol[shown.start[r] : shown.start[r + 1]]
        for k in range(len(ns)):
            _search(known, symbol, sums, k, ns[k], floor, best[r, k], worst[r, k])


@part
def _add_weight(known, sums, k, n, column, row, more):  # type: ignore[no-untyped-def]
    """Add records of one variant to the totals of one column of weights at one n."""
    all_in, core, root = sums.all_in[k, column], sums.core[k, column], sums.root[k, column]
    add_records(known.table[row], known.columns, n, more, all_in, core, root)


@part
def _move(known, later, now, steps, r, ns, sums, counts):  # type: ignore[no-untyped-def]
    """Go from the earlier release `now` to the one before it.

    Changes are sorted, so that cases that change alike follow one another. They are one move: the totals are changed
    once for all of them.
    """
    last_before, last_after, last_partner, records = -2, -2, -2, 0
    for x in range(steps.start[r], steps.start[r + 1]):
        case = steps.case[x]
        before, after, partner = now.variant[case], steps.variant[x], later.variant[case]
        _count(counts, later, case, before, now.value[case], -1)
        now.variant[case] = after
        now.value[case] = steps.value[x]
        _count(counts, later, case, after, steps.value[x], 1)
        if before != last_before or after != last_after or partner != last_partner:
            if records > 0:
                _apply(known, ns, sums, last_before, last_after, last_partner, records)
            last_before, last_after, last_partner, records = int(before), int(after), int(partner), 0
        records += 1
    if records > 0:
        _apply(known, ns, sums, last_before, last_after, last_partner, records)


@part
def _count(counts, later, case, variant, value, more):  # type: ignore[no-untyped-def]
    """Count a case of the earlier release as survivor or not, and whether its sensitive value changed."""
    if variant == GONE:
        return
    if later.variant[case] == GONE:
        counts[WITHOUT] += more
        return
    counts[SURVIVORS] += more
    if value != later.value[case]:
        counts[CHANGED] += more


@part
def _apply(known, ns, sums, before, after, partner, records):  # type: ignore[no-untyped-def]
    """Change the totals for cases that had variant `before` in the earlier release and have `after` now.

    `partner`: their variant in the later release; GONE in all three if the release does not hold them.
    """
    if before == after:
        return
    partner_row = np.int64(-1) if partner == GONE else np.int64(known.row[partner])
    # A later record becomes free when its case leaves the earlier release, and is taken when the case comes in.
    newly_free = np.int64(after == GONE) - np.int64(before == GONE)
    for k in range(len(ns)):
        leaving, core_leaving = sums.leaving[k], sums.core_leaving[k]
        if before != GONE:
            row = np.int64(known.row[before])
            _add_weight(known, sums, k, ns[k], C1, row, -records)
            add_link(known.table, known.columns, ns[k], row, partner_row, -records, leaving, core_leaving)
        if after != GONE:
            row = np.int64(known.row[after])
            _add_weight(known, sums, k, ns[k], C1, row, records)
            add_link(known.table, known.columns, ns[k], row, partner_row, records, leaving, core_leaving)
        if newly_free != 0 and partner_row >= 0:
            _add_weight(known, sums, k, ns[k], NEW, partner_row, newly_free * records)


@part
def _search(known, symbol, sums, k, n, floor, best, worst):  # type: ignore[no-untyped-def]
    """Search one pair at one n. It asks for no flow, so the walk ends at its first return."""
    length, symbols = len(known.columns) - 1, len(symbol)
    none = np.empty(0, np.int64)
    cursor = np.zeros(CURSOR_CELLS, np.int64)
    cursor[N], cursor[LENGTH], cursor[LEAST_VALUE], cursor[SURPLUS] = n, length, floor, -1
    cursor[PAUSE] = NEVER
    nothing = AddedUp(none, np.empty((0, 0), np.int16), np.empty((0, 4), np.int64), np.empty((0, 3), np.int64))
    looked_up = LookedUp(
        known.table,
        none,
        symbol,
        known.columns,
        sums.all_in[k],
        sums.core[k],
        sums.root[k],
        sums.leaving[k],
        sums.core_leaving[k],
    )
    room = SearchRoom(
        np.empty((0, 0, 0), np.int16),
        np.empty((0, 0), np.int16),
        np.empty((0, 0), np.int32),
        np.zeros((length + 1, symbols, 10), np.int64),
        np.zeros((3, length + 2), np.int64),
        np.zeros((3, 4, symbols), np.int64),
        np.zeros((2, symbols), np.int64),
        np.empty((0, 2), np.uint64),
        np.empty((1, 0, 2), np.int64),
        np.empty(0, np.bool_),
        best,
        worst,
        cursor,
    )
    walk(SearchTables(nothing, looked_up), room)
