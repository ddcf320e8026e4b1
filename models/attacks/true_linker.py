"""The anonymity left when the real partners are known: what the holder can count without any search for linkers.

`FA* = CA* = #{records of ms1 whose real partner is in ms2}`, `BA* = |ms2 minus image(L1)|` (semantics/attacks.md). The
real linker is one of "any linker", so on releases that fit the model these counts are never above the exact ones; and
they stay defined where cases were dropped or changed, on the cases that survive.
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
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog


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
    """The same on a numbered pair and its tables, which other measures share."""
    links = real_links(pair, partner)
    leaving = links[may_leave(pair.known, links)]
    results = [least(pair, table, links, leaving, number, bk_length, minimum) for number in sorted(set(n))]
    return Anonymity(bk_length, "true_linker", minimum, (pair.earlier.n_cases, pair.later.n_cases), results)


def real_links(pair: ReleasePair, partner: Ints) -> Ints:
    """int64[P, 3]: known variant, its partner's known variant (-1: none), records."""
    if len(partner) != len(pair.earlier.row_of_case):
        raise InputError(f"{len(partner)} partners for {len(pair.earlier.row_of_case)} cases of the earlier release")
    survived = partner[partner >= 0]
    if np.bincount(survived).max(initial=0) > 1:
        raise InputError("two cases of the earlier release have the same partner in the later one")
    before = pair.earlier.known[pair.earlier.row_of_case]
    after = np.where(partner >= 0, pair.later.known[pair.later.row_of_case[partner]], -1)
    width = pair.n_known + 1  # both variants in one integer, which sorts as the pair does
    pairs, count = np.unique(before * np.int64(width) + after + 1, return_counts=True)
    return np.column_stack((pairs // width, pairs % width - 1, count)).astype(np.int64)


def least(
    pair: ReleasePair, table: NextOccurrences, links: Ints, leaving: Ints, n: int, bk_length: int, minimum: Minimum
) -> AttackResult:
    """One n. `leaving`: the links that can leave a matching set."""
    variants = pair.n_known
    taken = np.zeros(variants, dtype=np.int64)
    met = links[links[:, 1] >= 0]
    np.add.at(taken, met[:, 1], met[:, 2])
    before, after = pair.earlier.per_known(variants), pair.later.per_known(variants)
    weights = np.column_stack((before, after, after - taken, np.zeros_like(taken)))
    best, worst, _ = search(table, weights, leaving, n, bk_length, FLOOR[minimum])
    return attack_result(pair, table, n, best, worst)


def true_counts(pair: ReleasePair, table: NextOccurrences, partner: Ints, bk: Sequence[Any], n: int) -> dict[str, int]:
    """{fa, ca, ba} of one background knowledge by the real partners: 0 where no real case is behind a matching set."""
    return true_counts_of_links(pair, table, real_links(pair, partner), bk, n)


def true_counts_of_links(
    pair: ReleasePair, table: NextOccurrences, links: Ints, bk: Sequence[Any], n: int
) -> dict[str, int]:
    """The same from the links of `real_links`, which several candidates share."""
    code = {symbol: number for number, symbol in enumerate(pair.alphabet)}
    match = unmatched(table, [code[symbol] for symbol in bk]) <= n
    met = links[links[:, 1] >= 0]
    both = int(met[match[met[:, 0]] & match[met[:, 1]], 2].sum())
    later_size = int(pair.later.per_known(pair.n_known)[match].sum())
    return {"fa": both, "ca": both, "ba": later_size - int(met[match[met[:, 1]], 2].sum())}


# --- The true linker, followed through a series ---
#
# The true linker of one release beside many earlier ones, from one earlier release to the next by what
# differs.
#
# What the real partners leave (models.attacks.true_linker) is read off totals over background knowledge
# (models.attacks.totals). Between neighbours of a series few cases differ, so the totals of a pair are those
# of the pair before with these cases taken out and put in again, and a pair costs what changed in its earlier
# release. The walk is that of models.attacks.search. What it gives is equal to what each pair gives
# alone; `tests/property/test_attacks_real_partners.py` holds both against each other.


GONE = -1
"""In the place of a variant: the release does not hold the case."""

SURVIVORS, WITHOUT, CHANGED = 0, 1, 2
"""Columns of `FoundMinima.cases`: cases of the earlier release that the later one holds; that it does not hold; that it
holds with another sensitive value."""


class ByCase(NamedTuple):
    """A release by number of case: int32 variant (GONE: not in it) and sensitive value."""

    variant: Codes
    value: Codes


@dataclass(frozen=True, slots=True)
class CaseChanges:
    """From a release to the one before it: the cases that differ, with their variant and value in the one before."""

    case: Ints
    variant: Codes
    value: Codes


def by_case(one: Numbered, cases: int) -> ByCase | None:
    """A release by number of case, of `cases` given so far; None where records are no cases, or one case is several."""
    if int(one.case.min(initial=0)) < 0:
        return None
    variant, value = np.full(cases, GONE, dtype=np.int32), np.zeros(cases, dtype=np.int32)
    variant[one.case], value[one.case] = one.variant[one.row_of_case], one.value[one.row_of_case]
    return ByCase(variant, value) if np.count_nonzero(variant != GONE) == len(one.case) else None


def changes_between(later: Numbered, earlier: Numbered, cases: int) -> CaseChanges | None:
    """What differs, cases of equal variants together, so that they are moved at once; None as in `by_case`."""
    two, one = by_case(later, cases), by_case(earlier, cases)
    if one is None or two is None:
        return None
    case = np.flatnonzero((one.variant != two.variant) | (one.value != two.value))
    case = case[np.lexsort((one.variant[case], two.variant[case]))]
    return CaseChanges(case, one.variant[case], one.value[case])


@dataclass(frozen=True, slots=True)
class FoundMinima:
    """What a series of R earlier releases gave.

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
    """A pair: cases of the earlier release that are in the later one (`survivors`), that are not (`gone`), and that are
    with another sensitive value (`changed`); for fa, ca and ba the least over all n (None: none), and the background
    knowledge that attains it."""

    survivors: int
    gone: int
    changed: int
    least: dict[str, tuple[int | None, list[Any] | None]]


def by_release(found: FoundMinima, alphabets: Sequence[Codes], symbols: Sequence[Any]) -> list[RealPartners]:
    """What was found in words. `symbols`: those of all releases, which the alphabets name."""
    attacks = {name: MEASURES.index(name) for name in ("fa", "ca", "ba")}
    places = list(attacks.values())
    at = found.best[:, :, places].argmin(axis=1)
    rows = np.arange(len(at))[:, None]
    best, worst = found.best[rows, at, places].tolist(), found.worst[rows, at, places].tolist()
    names = {id(one): [symbols[code] for code in one.tolist()] for one in alphabets}
    return [
        RealPartners(
            survivors,
            gone,
            changed,
            {
                attack: (value, [own[code] for code in codes if code >= 0]) if value < NO_VALUE else (None, None)
                for attack, value, codes in zip(attacks, values, bks, strict=True)
            },
        )
        for (survivors, gone, changed), values, bks, own in zip(
            found.cases.tolist(), best, worst, [names[id(one)] for one in alphabets], strict=True
        )
    ]


class JoinedChanges(NamedTuple):
    """All steps end to end: those of release r are `start[r]` to `start[r + 1]`."""

    start: Ints
    case: Ints
    variant: Codes
    value: Codes


class Alphabets(NamedTuple):
    """Symbols of each pair: pair r has `symbol[start[r]:start[r + 1]]`."""

    start: Ints
    symbol: Ints


class Lookup(NamedTuple):
    """What the totals are read off: `table` of models.attacks.totals with its `columns`, over `symbols` symbols; `row`
    of the table for each variant given (-1: in no release)."""

    table: Any
    columns: Ints
    symbols: int
    row: Codes


class FollowedTotals(NamedTuple):
    """Totals by n, and by kind of weights; what links send out, by n."""

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
    """The least of each measure for each earlier release, the last one first. `steps`: from the later release to the
    last one before it, and on backwards; `alphabets`: of each pair; `floor`: see `models.attacks.search.search`."""
    columns, length, releases = known.columns, len(known.columns) - 1, len(steps)
    sums = FollowedTotals(
        *(np.zeros((len(ns), 4, size), dtype=np.int64) for size in (columns[-1], columns[-2], known.symbols)),
        *(np.zeros((len(ns), size), dtype=np.int64) for size in (columns[-1], columns[-2])),
    )
    found = FoundMinima(
        np.zeros((releases, 3), dtype=np.int64),
        np.full((releases, len(ns), len(MEASURES)), NO_VALUE, dtype=np.int64),
        np.full((releases, len(ns), len(MEASURES), length), -1, dtype=np.int32),
    )
    joined = JoinedChanges(
        _starts([len(one.case) for one in steps]),
        np.concatenate([one.case for one in steps]).astype(np.int64),
        np.concatenate([one.variant for one in steps]),
        np.concatenate([one.value for one in steps]),
    )
    shown = Alphabets(_starts(list(map(len, alphabets))), np.concatenate(alphabets).astype(np.int64))
    now = ByCase(later.variant.copy(), later.value.copy())
    _follow(
        known, later, now, joined, shown, np.asarray(ns, dtype=np.int64), np.int64(floor), sums, found.cases,
        found.best, found.worst,
    )  # fmt: skip
    return found


def _starts(lengths: Sequence[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(np.asarray(lengths, dtype=np.int64)))).astype(np.int64)


@kernel
def _follow(known, later, now, steps, shown, ns, floor, sums, cases, best, worst):  # type: ignore[no-untyped-def]
    """`now`: the earlier release by case, at first the later one, which is its own true linker."""
    counts, records = np.zeros(3, dtype=np.int64), np.zeros(len(known.table), dtype=np.int64)
    for v in later.variant:
        if v != GONE:
            counts[SURVIVORS] += 1
            records[known.row[v]] += 1
    for row in range(len(records)):
        for k in range(len(ns) if records[row] > 0 else 0):
            _weigh(known, sums, k, ns[k], C1, row, records[row])
            _weigh(known, sums, k, ns[k], C2, row, records[row])
    for r in range(len(best)):
        _move(known, later, now, steps, r, ns, sums, counts)
        cases[r] = counts
        symbol = shown.symbol[shown.start[r] : shown.start[r + 1]]
        for k in range(len(ns)):
            _search(known, symbol, sums, k, ns[k], floor, best[r, k], worst[r, k])


@part
def _weigh(known, sums, k, n, column, row, more):  # type: ignore[no-untyped-def]
    """Add records of one variant to the totals of one kind at one n."""
    add_records(
        known.table[row],
        known.columns,
        n,
        more,
        sums.all_in[k, column],
        sums.core[k, column],
        sums.root[k, column],
    )


@part
def _move(known, later, now, steps, r, ns, sums, counts):  # type: ignore[no-untyped-def]
    """From the earlier release `now` to the one before it. Cases that stand together and move alike are one move."""
    last1, last2, last3, records = -2, -2, -2, 0
    for x in range(steps.start[r], steps.start[r + 1]):
        case = steps.case[x]
        before, after, partner = now.variant[case], steps.variant[x], later.variant[case]
        _count(counts, later, case, before, now.value[case], -1)
        now.variant[case], now.value[case] = after, steps.value[x]
        _count(counts, later, case, after, steps.value[x], 1)
        if before != last1 or after != last2 or partner != last3:
            if records > 0:
                _apply(known, ns, sums, last1, last2, last3, records)
            last1, last2, last3, records = int(before), int(after), int(partner), 0
        records += 1
    if records > 0:
        _apply(known, ns, sums, last1, last2, last3, records)


@part
def _count(counts, later, case, variant, value, more):  # type: ignore[no-untyped-def]
    """Whether a case of the earlier release survived, and with its sensitive value."""
    if variant != GONE:
        if later.variant[case] == GONE:
            counts[WITHOUT] += more
        else:
            counts[SURVIVORS] += more
            if value != later.value[case]:
                counts[CHANGED] += more


@part
def _apply(known, ns, sums, before, after, partner, records):  # type: ignore[no-untyped-def]
    """`records` cases with variant `before` in the earlier release and `partner` in the later one have `after` now."""
    if before == after:
        return
    two = np.int64(-1) if partner == GONE else np.int64(known.row[partner])
    free = np.int64(after == GONE) - np.int64(before == GONE)
    for k in range(len(ns)):
        if before != GONE:
            one = np.int64(known.row[before])
            _weigh(known, sums, k, ns[k], C1, one, -records)
            add_link(known.table, known.columns, ns[k], one, two, -records, sums.leaving[k], sums.core_leaving[k])
        if after != GONE:
            one = np.int64(known.row[after])
            _weigh(known, sums, k, ns[k], C1, one, records)
            add_link(known.table, known.columns, ns[k], one, two, records, sums.leaving[k], sums.core_leaving[k])
        if free != 0 and two >= 0:  # no case of the earlier release is this later record any more, or one is again
            _weigh(known, sums, k, ns[k], NEW, two, free * records)


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
