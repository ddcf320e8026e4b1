"""The true linker of one release beside many earlier ones, from one earlier release to the next by what differs.

What the real partners leave (models.attacks.true_linker) is read off totals over background knowledge
(models.attacks.lacking). Between neighbours of a series few cases differ, so the totals of a pair are those of the pair
before with these cases taken out and put in again, and a pair costs what changed in its earlier release. The walk is
that of models.attacks.shared_search. What it gives is equal to what each pair gives alone;
`tests/property/test_attacks_real_partners.py` holds both against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from models.attacks.flows import FAR
from models.attacks.lacking import add_link, add_records
from models.attacks.numbering import Numbered
from models.attacks.search import MEASURES
from models.attacks.search_kernels import C1, C2, CELLS, LENGTH, LIMIT, NEW, SURPLUS, N
from models.attacks.shared_search import SharedRoom, SharedTables, walk_shared
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Codes, Ints

GONE = -1
"""In the place of a variant: the release does not hold the case."""

SURVIVORS, WITHOUT, CHANGED = 0, 1, 2
"""Columns of `Found.cases`: cases of the earlier release that are in the later one, that are not, and that are with
another sensitive value."""


@content_free()
class ByCase(NamedTuple):
    """A release by number of case: int32 variant (GONE: not in it) and sensitive value."""

    variant: Codes
    value: Codes


@content_free()
@dataclass(frozen=True, slots=True)
class Step:
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


def step_between(later: Numbered, earlier: Numbered, cases: int) -> Step | None:
    """What differs, cases of equal variants together, so that they are moved at once; None as in `by_case`."""
    two, one = by_case(later, cases), by_case(earlier, cases)
    if one is None or two is None:
        return None
    case = np.flatnonzero((one.variant != two.variant) | (one.value != two.value))
    case = case[np.lexsort((one.variant[case], two.variant[case]))]
    return Step(case, one.variant[case], one.value[case])


@content_free()
@dataclass(frozen=True, slots=True)
class Found:
    """By earlier release: `cases` int64[R, 3] (columns SURVIVORS, WITHOUT, CHANGED); least value of each measure,
    int64[R, ns, MEASURES] (FAR: none), and the background knowledge that attains it, int32[R, ns, MEASURES, length], by
    place in the alphabet of the pair, -1 after its end."""

    cases: Ints
    best: Ints
    worst: Codes


@content_free("survivors", "gone", "changed")
@dataclass(frozen=True, slots=True)
class RealPartners:
    """A pair: cases of the earlier release that are in the later one (`survivors`), that are not (`gone`), and that are
    with another sensitive value (`changed`); for fa, ca and ba the least over all n (None: none), and the background
    knowledge that attains it."""

    survivors: int
    gone: int
    changed: int
    least: dict[str, tuple[int | None, list[Any] | None]]


def by_release(found: Found, alphabets: Sequence[Codes], symbols: Sequence[Any]) -> list[RealPartners]:
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
                attack: (value, [own[code] for code in codes if code >= 0]) if value < FAR else (None, None)
                for attack, value, codes in zip(attacks, values, bks, strict=True)
            },
        )
        for (survivors, gone, changed), values, bks, own in zip(
            found.cases.tolist(), best, worst, [names[id(one)] for one in alphabets], strict=True
        )
    ]


@content_free()
class Steps(NamedTuple):
    """All steps end to end: those of release r are `start[r]` to `start[r + 1]`."""

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
    """What the totals are read off: `table` of models.attacks.lacking with its `columns`, over `symbols` symbols; `row`
    of the table for each variant given (-1: in no release)."""

    table: Any
    columns: Ints
    symbols: int
    row: Codes


@content_free()
class Sums(NamedTuple):
    """Totals by n, and by kind of weights; what links send out, by n."""

    all_in: Ints
    core: Ints
    often: Ints
    out: Ints
    core_out: Ints


def true_linkers(
    known: Lookup, later: ByCase, steps: Sequence[Step], alphabets: Sequence[Codes], ns: Sequence[int], floor: int
) -> Found:
    """The least of each measure for each earlier release, the last one first. `steps`: from the later release to the
    last one before it, and on backwards; `alphabets`: of each pair; `floor`: see `models.attacks.search.search`."""
    columns, length, releases = known.columns, len(known.columns) - 1, len(steps)
    sums = Sums(
        *(np.zeros((len(ns), 4, size), dtype=np.int64) for size in (columns[-1], columns[-2], known.symbols)),
        *(np.zeros((len(ns), size), dtype=np.int64) for size in (columns[-1], columns[-2])),
    )
    found = Found(
        np.zeros((releases, 3), dtype=np.int64),
        np.full((releases, len(ns), len(MEASURES)), FAR, dtype=np.int64),
        np.full((releases, len(ns), len(MEASURES), length), -1, dtype=np.int32),
    )
    joined = Steps(
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
        sums.often[k, column],
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
            add_link(known.table, known.columns, ns[k], one, two, -records, sums.out[k], sums.core_out[k])
        if after != GONE:
            one = np.int64(known.row[after])
            _weigh(known, sums, k, ns[k], C1, one, records)
            add_link(known.table, known.columns, ns[k], one, two, records, sums.out[k], sums.core_out[k])
        if free != 0 and two >= 0:  # no case of the earlier release is this later record any more, or one is again
            _weigh(known, sums, k, ns[k], NEW, two, free * records)


@part
def _search(known, symbol, sums, k, n, floor, best, worst):  # type: ignore[no-untyped-def]
    """The walk of one pair at one n, which asks for no flow."""
    length = len(known.columns) - 1
    cursor = np.zeros(CELLS, dtype=np.int64)
    cursor[N], cursor[LENGTH], cursor[LIMIT], cursor[SURPLUS] = n, length, floor, -1
    tables = SharedTables(
        known.table,
        np.empty(0, dtype=np.int64),
        symbol,
        known.columns,
        sums.all_in[k],
        sums.core[k],
        sums.often[k],
        sums.out[k],
        sums.core_out[k],
    )
    room = SharedRoom(
        np.zeros((length + 1, len(symbol), 10), dtype=np.int64),
        np.zeros((3, length + 2), dtype=np.int64),
        np.zeros((1, 0, 2), dtype=np.int64),
        np.zeros(0, dtype=np.bool_),
        best,
        worst,
        cursor,
    )
    walk_shared(tables, room)
