"""Attacks over more than two releases (correspondence-attacks-2021, section 7).

Optimal micro attack: for each group (one sensitive value) the background release with the largest crack, summed over
groups. Composition, for i < j < l and a victim started in (t_i, t_j]: the B-attack on (i, j), then F on (j, l) or C on
(j, l). The composed formula is a lower bound of what an adversary can exclude: no polynomial algorithm for the exact
value is known to us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

from models.attacks.candidates import CandidateValuer, cracks_by_value, matching_rows, records_by_value
from models.attacks.correspondence import PairAttack
from models.attacks.linker import base_linkers
from models.attacks.outcome import check_parameters
from models.attacks.pairs import encode, join_releases
from models.content_free import content_free
from models.eventlog import SimpleLog

FEW = 400
"""So many candidates are all tried; of more, only the worst of every pair (then `complete` is false)."""

MOST_KEPT = 1 << 22
"""Links and events of a pair whose tables are kept between two releases (about 20 bytes each, for up to six pairs)."""

Groups = dict[Any, int]
"""Records by sensitive value."""


@content_free()
@dataclass(frozen=True, slots=True)
class PairCracks:
    """One candidate between two releases: group sizes in both matching sets, and the cracks of each group."""

    size1: Groups
    size2: Groups
    f: Groups
    c: Groups
    b: Groups


def pair_cracks(valuer: CandidateValuer, bk: Sequence[Any]) -> PairCracks:
    """Cracks by sensitive value of one candidate (symbols, not codes)."""
    pair = valuer.pair
    code = encode(pair, bk)
    in1, in2 = matching_rows(valuer, code)
    values = len(pair.values)
    columns = [
        records_by_value(pair.earlier, in1, values),
        records_by_value(pair.later, in2, values),
        *cracks_by_value(valuer, code).T,
    ]
    return PairCracks(*(dict(zip(pair.values, column.tolist(), strict=True)) for column in columns))


def best_of(found: Iterable[Groups]) -> int:
    """Per group the largest crack, summed."""
    best: Groups = {}
    for groups in found:
        for value, crack in groups.items():
            best[value] = max(best.get(value, 0), crack)
    return sum(best.values())


def b_then_f(first: PairCracks, second: PairCracks) -> int:
    """Records of ms_j excluded by B on (i, j) and then F on (j, l)."""
    total = 0
    for value, size in first.size2.items():
        left = size - first.b[value]
        total += first.b[value] + left - min(left, second.size2.get(value, 0))
    return total


def b_then_c(first: PairCracks, second: PairCracks) -> int:
    """Records of ms_l excluded by B on (i, j) and then C on (j, l)."""
    return sum(
        size - min(first.size2.get(value, 0) - first.b.get(value, 0), size) for value, size in second.size2.items()
    )


class PairInSeries:
    """Two releases of a series: what was found of them stays, the tables it needs are made when they are asked for.

    Two releases are in several series, the next of which asks nearly the same again, and a little more: what the newest
    release makes the worst is asked of all pairs. So tables stay, too, unless they are large (`MOST_KEPT`).

    `make`: makes the attack on the pair; `make_shared`: the same, for now, from tables that exist (None: they do not).
    """

    def __init__(
        self, make: Callable[[], PairAttack], make_shared: Callable[[], PairAttack | None] | None = None
    ) -> None:
        self._make, self._make_shared = make, make_shared
        self.symbols: tuple[Any, ...] = ()
        """Symbols of background knowledge, once something was asked."""
        self._audit: PairAttack | None = None
        self._valuers: dict[int, CandidateValuer] = {}
        self._worst: dict[int, list[tuple[Any, ...]] | None] = {}
        self._cracks: dict[tuple[int, tuple[Any, ...]], PairCracks] = {}

    def worst(self, n: int) -> list[tuple[Any, ...]] | None:
        """The background knowledge that attains the minima; None where no linker joins the pair."""
        if n not in self._worst:
            valuer = self._valuer(n)
            least = self._audited().least(valuer.base) if valuer.base.exists else None
            self._worst[n] = None if least is None else [tuple(bk) for bk in least.worst.values() if bk]
        return self._worst[n]

    def cracks(self, n: int, bk: tuple[Any, ...]) -> PairCracks:
        """Cracks by sensitive value of one candidate."""
        if (n, bk) not in self._cracks:
            self._cracks[n, bk] = pair_cracks(self._valuer(n), bk)
        return self._cracks[n, bk]

    @property
    def has_tables(self) -> bool:
        """Whether it keeps more than what was found."""
        return self._audit is not None or self._make_shared is not None

    def keep_small_tables(self) -> None:
        """Keep what was found, and tables that are not large, until the next series asks."""
        self._make_shared = None  # it holds what is shared by all pairs of one release
        if self._audit is not None and _cells(self._audit) > MOST_KEPT:
            self.drop_tables()

    def drop_tables(self) -> None:
        """Keep what was found; tables are made anew if more is asked."""
        self._audit = self._make_shared = None
        self._valuers.clear()

    def _audited(self) -> PairAttack:
        if self._audit is None:
            self._audit = (self._make_shared() if self._make_shared else None) or self._make()
            self.symbols = self._audit.pair.alphabet
        return self._audit

    def _valuer(self, n: int) -> CandidateValuer:
        if n not in self._valuers:
            audit = self._audited()
            (base,) = base_linkers(audit.pair, audit.linkable, [n])
            self._valuers[n] = audit.valuer(base)
        return self._valuers[n]


def _cells(audit: PairAttack) -> int:
    return len(audit.linkable.later) + len(audit.pair.linked.items)


@content_free("n", "values", "complete")
@dataclass(frozen=True, slots=True)
class SeriesResult:
    """Least numbers left over the series at one n, each with the releases and background knowledge that attain it.

    `fa`, `ca`, `ba`: optimal micro attacks; `bf`, `bc`: compositions. `without_linker`: pairs of releases (from 1)
    that no linker joins; they are left out. `complete`: every candidate was tried.
    """

    n: int
    values: dict[str, int | None]
    worst: dict[str, dict[str, Any] | None]
    without_linker: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = False


@content_free("releases", "results")
@dataclass(frozen=True, slots=True)
class SeriesAnonymity:
    """Answer of `series`."""

    releases: int
    results: list[SeriesResult]

    def json(self) -> dict[str, Any]:
        """The `series` entry of the `attack` document."""
        return {
            "releases": self.releases,
            "results": [
                {
                    "n": one.n,
                    **one.values,
                    "worst": one.worst,
                    "without_linker": [list(names) for names in one.without_linker],
                    "complete": one.complete,
                }
                for one in self.results
            ],
        }


def series(
    releases: Sequence[SimpleLog],
    *,
    bk_length: int = 2,
    n: Sequence[int] = (0, 1),
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
    few: int = FEW,
) -> SeriesAnonymity:
    """Optimal micro attacks and compositions over all releases, with exact cracks of each pair, for each n.

    Micro attacks then are what the definitions allow, which is at least what the group formulas give. `few`: up to
    so many candidates are all tried.
    """
    check_parameters(bk_length, n)
    ns = sorted(set(n))
    releases = over_all_activities(releases)
    pairs = {
        (i, j): PairInSeries(partial(pair_attack, releases[i], releases[j], bk_length, ns, known, taxonomy, foreign))
        for i, j in combinations(range(len(releases)), 2)
    }
    return series_of(len(releases), pairs, bk_length, ns, few)


def series_of(
    releases: int,
    pairs: Mapping[tuple[int, int], PairInSeries],
    bk_length: int,
    ns: Sequence[int],
    few: int,
) -> SeriesAnonymity:
    """The same from pairs that may be known from another series; all have the symbols of all releases."""
    return SeriesAnonymity(releases, [_at(pairs, number, bk_length, few) for number in ns])


def pair_attack(
    earlier: SimpleLog,
    later: SimpleLog,
    bk_length: int,
    ns: Sequence[int],
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> PairAttack:
    """What is counted of one pair."""
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return PairAttack(pair, bk_length, ns, "exact", "realisable")


def over_all_activities(releases: Sequence[SimpleLog]) -> list[SimpleLog]:
    """Background knowledge may name what one release alone shows; it excludes records of the others as well (n > 0)."""
    every = dict.fromkeys(item for one in releases for item in one.alphabet)
    return [replace(one, alphabet=tuple(dict.fromkeys([*one.alphabet, *every]))) for one in releases]


def _at(pairs: Mapping[tuple[int, int], PairInSeries], n: int, bk_length: int, few: int) -> SeriesResult:
    found = {names: one.worst(n) for names, one in pairs.items()}
    without = [(i + 1, j + 1) for (i, j), worst in found.items() if worst is None]
    joined = {names: pairs[names] for names, worst in found.items() if worst is not None}
    worst = list(dict.fromkeys(bk for own in found.values() if own is not None for bk in own))
    symbols = next((one.symbols for one in joined.values()), ())
    candidates, complete = _candidates(symbols, worst, bk_length, few)
    least = _Least()
    for bk in candidates:
        least.try_all({names: one.cracks(n, bk) for names, one in joined.items()}, bk)
    return SeriesResult(n, least.values, least.worst, without, complete)


def _candidates(
    symbols: Sequence[Any], worst: list[tuple[Any, ...]], bk_length: int, few: int
) -> tuple[list[tuple[Any, ...]], bool]:
    every: list[tuple[Any, ...]] = [()]
    level = every
    for _ in range(bk_length):
        if len(every) + len(level) * len(symbols) > few:
            return worst, False
        level = [(*bk, symbol) for bk in level for symbol in symbols]
        every = every + level
    return every[1:], True


class _Least:
    """The least realisable number left by each attack."""

    def __init__(self) -> None:
        self.values: dict[str, int | None] = dict.fromkeys(("fa", "ca", "ba", "bf", "bc"))
        self.worst: dict[str, dict[str, Any] | None] = dict.fromkeys(self.values)

    def offer(self, attack: str, left: int, release: int, bk: Sequence[Any]) -> None:
        known = self.values[attack]
        if left >= 1 and (known is None or left < known):
            self.values[attack] = left
            self.worst[attack] = {"release": release + 1, "bk": list(bk)}

    def try_all(self, shown: Mapping[tuple[int, int], PairCracks], bk: Sequence[Any]) -> None:
        """Every target release and every composition for one candidate."""
        for target in {release for names in shown for release in names}:
            after = [one for (i, _), one in shown.items() if i == target]
            before = [one for (_, j), one in shown.items() if j == target]
            if after:
                size = sum(after[0].size1.values())
                self.offer("fa", size - best_of(one.f for one in after), target, bk)
            if before:
                size = sum(before[0].size2.values())
                self.offer("ca", size - best_of(one.c for one in before), target, bk)
                self.offer("ba", size - best_of(one.b for one in before), target, bk)
        for i, j in shown:
            for (j2, last), second in shown.items():
                if j2 == j:
                    first = shown[i, j]
                    self.offer("bf", sum(first.size2.values()) - b_then_f(first, second), j, bk)
                    self.offer("bc", sum(second.size2.values()) - b_then_c(first, second), last, bk)
