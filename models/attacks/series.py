"""Attacks over more than two releases (correspondence-attacks-2021, section 7).

Two kinds of attacks:

* *Optimal micro attack* on one release: for each group (one sensitive value) the other release with the largest crack,
  summed over the groups.
* *Composition*, for releases i < j < l and a victim whose case started in (t_i, t_j]: the B-attack on (i, j), then F or
  C on (j, l). Its formula is a lower bound of the cases that an adversary can exclude: we know no polynomial algorithm
  for the exact value.

`series` proceeds for each n as follows:

1. Ask each pair of releases which background knowledge attains its minima (`PairInSeries.worst`). A pair that no linker
   joins is left out.
2. Try these candidates on every pair, or all candidates if they are few (`PairInSeries.cracks`).
3. Combine the cracks of the pairs of one candidate, and keep the least number left by each attack (`_Least`).

A daemon measures a new series with each release. It keeps the `PairInSeries` of earlier ones and calls `series_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from models.attacks.candidates import CandidateValuer, cracks_by_value, matching_rows, records_by_value
from models.attacks.correspondence import AttackedPair, AttackQuestion, PairAttack
from models.attacks.linker import base_linkers
from models.attacks.pairs import NextOccurrences, ReleasePair, encode, join_releases, next_occurrences, unmatched
from models.attacks.true_linker import real_links, true_linker_minima
from models.content_free import content_free
from models.eventlog import Flags, Ints, SimpleLog

FEW = 400
"""If there are at most so many candidates, all are tried; otherwise only the worst ones of every pair."""

MOST_KEPT = 80_000_000
"""Bytes of the tables of a pair that are kept between two releases, for up to six pairs."""

RUN_BYTES, ITEM_BYTES = 9, 4
"""Bytes of a run of links, and of an item of a variant."""

ATTACKS = ("fa", "ca", "ba", "bf", "bc")
"""Optimal micro attacks F, C and B, and the compositions B-then-F and B-then-C."""

Groups = dict[Any, int]
"""Records by sensitive value."""


@content_free()
@dataclass(frozen=True, slots=True)
class PairCracks:
    """One candidate between two releases.

    Parameters
    ----------
    size1, size2
        Records of each sensitive value in the matching set of the earlier and of the later release.
    f, c, b
        The cracked records among them.
    """

    size1: Groups
    size2: Groups
    f: Groups
    c: Groups
    b: Groups


def pair_cracks(valuer: CandidateValuer, bk: Sequence[Any]) -> PairCracks:
    """Return the cracks of one candidate by sensitive value.

    Parameters
    ----------
    valuer
        The pair of releases and the method, at one n.
    bk
        Symbols of the candidate.

    Raises
    ------
    InputError
        If a symbol occurs in none of the releases.
    """
    codes = encode(valuer.pair, bk)
    f, c, b = cracks_by_value(valuer, codes).T
    inside1, inside2 = matching_rows(valuer, codes)
    size1, size2 = _sizes(valuer.pair, inside1, inside2)
    return _by_value(valuer.pair, size1, size2, f=f, c=c, b=b)


def _sizes(pair: ReleasePair, inside1: Flags, inside2: Flags) -> tuple[Ints, Ints]:
    """Return the records of both matching sets by code of the sensitive value."""
    n_values = len(pair.values)
    return records_by_value(pair.earlier, inside1, n_values), records_by_value(pair.later, inside2, n_values)


def _by_value(pair: ReleasePair, size1: Ints, size2: Ints, *, f: Ints, c: Ints, b: Ints) -> PairCracks:
    """Return the records of both matching sets, and the cracked ones, by sensitive value."""

    def counts(numbers: Ints) -> Groups:
        return dict(zip(pair.values, numbers.tolist(), strict=True))

    return PairCracks(counts(size1), counts(size2), counts(f), counts(c), counts(b))


def best_of(cracks_by_release: Iterable[Groups]) -> int:
    """Return the largest crack of each group, summed over the groups (optimal micro attack).

    Parameters
    ----------
    cracks_by_release
        Cracked records of each sensitive value, for each other release of the series.
    """
    largest: Groups = {}
    for cracks in cracks_by_release:
        for value, crack in cracks.items():
            largest[value] = max(largest.get(value, 0), crack)
    return sum(largest.values())


def b_then_f(first: PairCracks, second: PairCracks) -> int:
    """Return the records of ms_j that B on (i, j) and then F on (j, l) exclude.

    F leaves at most as many records of a group as the group has in ms_l.

    Parameters
    ----------
    first, second
        Cracks of one candidate between releases i and j, and between j and l.
    """
    total = 0
    for value, size in first.size2.items():
        after_b = size - first.b[value]
        after_f = min(after_b, second.size2.get(value, 0))
        total += size - after_f
    return total


def b_then_c(first: PairCracks, second: PairCracks) -> int:
    """Return the records of ms_l that B on (i, j) and then C on (j, l) exclude.

    C leaves at most as many records of a group in ms_l as B has left of it in ms_j.

    Parameters
    ----------
    first, second
        Cracks of one candidate between releases i and j, and between j and l.
    """
    total = 0
    for value, size in second.size2.items():
        after_b = first.size2.get(value, 0) - first.b.get(value, 0)
        total += size - min(after_b, size)
    return total


class PairTables(Protocol):
    """The tables by which one pair of releases is counted, for one way to link their records."""

    @property
    def symbols(self) -> tuple[Any, ...]:
        """Symbols of background knowledge."""

    @property
    def n_bytes(self) -> int:
        """Memory that they take."""

    def worst(self, n: int) -> list[tuple[Any, ...]] | None:
        """Return the background knowledge that attains the minima, or None if no linker joins the pair.

        Parameters
        ----------
        n
            Events removed from a case at most.
        """

    def cracks(self, n: int, bk: tuple[Any, ...]) -> PairCracks:
        """Return the cracks by sensitive value of one candidate.

        Parameters
        ----------
        n
            Events removed from a case at most.
        bk
            Symbols of the candidate.
        """


class AnyLinkerTables:
    """A pair of releases that any linker may join: a crack is the least over all of them (Def. 10-12).

    Parameters
    ----------
    attack
        The pair of releases, and the method.
    """

    def __init__(self, attack: PairAttack) -> None:
        self._attack = attack
        self._valuers: dict[int, CandidateValuer] = {}

    @property
    def symbols(self) -> tuple[Any, ...]:
        """Symbols of background knowledge."""
        return self._attack.pair.alphabet

    @property
    def n_bytes(self) -> int:
        """Memory of links, variants, and next occurrences."""
        runs, items = len(self._attack.linkable.least), len(self._attack.pair.known_variants.items)
        return RUN_BYTES * runs + ITEM_BYTES * items + self._attack.table.n_bytes

    def worst(self, n: int) -> list[tuple[Any, ...]] | None:
        """Return the background knowledge that attains the minima, or None if no linker joins the pair."""
        valuer = self._valuer(n)
        if not valuer.base.exists:
            return None
        result = self._attack.least(valuer.base)
        return [tuple(bk) for bk in result.worst.values() if bk]

    def cracks(self, n: int, bk: tuple[Any, ...]) -> PairCracks:
        """Return the cracks by sensitive value of one candidate."""
        return pair_cracks(self._valuer(n), bk)

    def _valuer(self, n: int) -> CandidateValuer:
        if n not in self._valuers:
            (base,) = base_linkers(self._attack.pair, self._attack.linkable, [n])
            self._valuers[n] = self._attack.valuer(base)
        return self._valuers[n]


class IdentityTables:
    """A pair of releases of which the later one holds every earlier record as it was, and new ones.

    The one linker is the identity: a record of ms1 is in ms2. So F cracks nothing, B cracks the records of
    ms1, and C cracks the other records of ms2. Over a larger set of linkers the cracks are no larger.

    Parameters
    ----------
    pair, table
        The two releases and their next occurrences.
    partner
        int64[cases of the earlier release], the same case in the later one.
    bk_length
        Longest background knowledge.
    """

    def __init__(self, pair: ReleasePair, table: NextOccurrences, partner: Ints, bk_length: int) -> None:
        self._pair, self._table, self._bk_length = pair, table, bk_length
        self._links = real_links(pair, partner)

    @property
    def symbols(self) -> tuple[Any, ...]:
        """Symbols of background knowledge."""
        return self._pair.alphabet

    @property
    def n_bytes(self) -> int:
        """Memory of links, variants, and next occurrences."""
        return self._links.nbytes + ITEM_BYTES * len(self._pair.known_variants.items) + self._table.n_bytes

    def worst(self, n: int) -> list[tuple[Any, ...]] | None:
        """Return the background knowledge that attains the minima."""
        loose = self._links[:0]  # an unchanged record never leaves a matching set
        result = true_linker_minima(self._pair, self._table, self._links, loose, n, self._bk_length, "realisable")
        return [tuple(bk) for bk in result.worst.values() if bk]

    def cracks(self, n: int, bk: tuple[Any, ...]) -> PairCracks:
        """Return the cracks by sensitive value of one candidate."""
        is_inside = unmatched(self._table, encode(self._pair, bk)) <= n
        inside1, inside2 = (is_inside[rows.known_variant] for rows in (self._pair.earlier, self._pair.later))
        size1, size2 = _sizes(self._pair, inside1, inside2)
        return _by_value(self._pair, size1, size2, f=np.zeros_like(size1), c=size2 - size1, b=size1)


class PairInSeries:
    """Two releases of a series, with the answers and tables that later series ask for again.

    The same two releases belong to several series: each new release begins another one. The next series asks this pair
    for nearly the same candidates, and for a few more: the worst ones of the newest release. So answers are always
    kept. Tables are made when they are needed, and kept unless they are large (`MOST_KEPT`).

    Parameters
    ----------
    make
        Makes the tables of the pair.
    make_shared
        Makes the same from tables that the pairs of one candidate share. It returns None if they do not exist.
    """

    def __init__(
        self, make: Callable[[], PairTables], make_shared: Callable[[], PairTables | None] | None = None
    ) -> None:
        self._make, self._make_shared = make, make_shared
        # Symbols of background knowledge, once something was asked.
        self.symbols: tuple[Any, ...] = ()
        self._kept: PairTables | None = None
        self._worst: dict[int, list[tuple[Any, ...]] | None] = {}
        self._cracks: dict[tuple[int, tuple[Any, ...]], PairCracks] = {}

    def worst(self, n: int) -> list[tuple[Any, ...]] | None:
        """Return the background knowledge that attains the minima, or None if no linker joins the pair."""
        if n not in self._worst:
            self._worst[n] = self._tables().worst(n)
        return self._worst[n]

    def cracks(self, n: int, bk: tuple[Any, ...]) -> PairCracks:
        """Return the cracks by sensitive value of one candidate."""
        if (n, bk) not in self._cracks:
            self._cracks[n, bk] = self._tables().cracks(n, bk)
        return self._cracks[n, bk]

    def keep_small_tables(self) -> None:
        """Keep the answers, and tables that are not large, until the next series asks."""
        self._make_shared = None  # it refers to the tables of all pairs of one candidate
        if self._kept is not None and self._kept.n_bytes > MOST_KEPT:
            self.drop_tables()

    def drop_tables(self) -> None:
        """Keep the answers; tables are made again if more is asked."""
        self._kept = self._make_shared = None

    def _tables(self) -> PairTables:
        if self._kept is None and self._make_shared is not None:
            self._kept = self._make_shared()
        if self._kept is None:
            self._kept = self._make()
        self.symbols = self._kept.symbols
        return self._kept


@content_free("n", "values", "complete")
@dataclass(frozen=True, slots=True)
class SeriesResult:
    """Least numbers left over a series at one n.

    Parameters
    ----------
    n
        Events removed at most.
    values
        By ATTACKS, the least number of records left. None if no candidate leaves any.
    worst
        The release and the background knowledge that attain each.
    without_linker
        Pairs of releases, counted from 1, that no linker joins. They are left out.
    complete
        Whether every candidate was tried.
    """

    n: int
    values: dict[str, int | None]
    worst: dict[str, dict[str, Any] | None]
    without_linker: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = False


@content_free("releases", "results")
@dataclass(frozen=True, slots=True)
class SeriesAnonymity:
    """Answer of `series`.

    Attributes
    ----------
    releases
        Number of releases.
    results
        One result for each n, ascending.
    """

    releases: int
    results: list[SeriesResult]

    def json(self) -> dict[str, Any]:
        """Return the `series` entry of the `attack` document."""
        rows = [
            {
                "n": result.n,
                **result.values,
                "worst": result.worst,
                "without_linker": [list(numbers) for numbers in result.without_linker],
                "complete": result.complete,
            }
            for result in self.results
        ]
        return {"releases": self.releases, "results": rows}


def series(question: AttackQuestion, releases: Sequence[SimpleLog]) -> SeriesAnonymity:
    """Return the least numbers left by optimal micro attacks and compositions over all releases, for each n.

    Each pair is counted by the exact method, so micro attacks are what the definitions allow, which is at least what
    the group formulas give.

    Parameters
    ----------
    question, releases
        The options, and the releases as `question.simple_logs` returns them. Method and minimum are not read.

    Raises
    ------
    InputError
        If the logs are too large to be searched.

    References
    ----------
    correspondence-attacks-2021, section 7.
    """
    ns = sorted(set(question.n))
    releases = over_all_activities(releases)
    pairs = {}
    for i, j in combinations(range(len(releases)), 2):
        make = partial(
            any_linker_tables,
            releases[i],
            releases[j],
            question.bk_length,
            ns,
            known=question.known_part,
            taxonomy=question.taxonomy,
            foreign=question.foreign,
        )
        pairs[i, j] = PairInSeries(make)
    return series_of(len(releases), pairs, question.bk_length, ns, FEW)


def document(
    question: AttackQuestion,
    logs: Sequence[SimpleLog],
    pairs: Sequence[AttackedPair],
) -> dict[str, Any]:
    """Return the documented JSON: the first pair, and for more than two releases every pair and the series.

    Parameters
    ----------
    question
        The bounds and options of the attack.
    logs
        The releases in order.
    pairs
        Answers for the pairs, at least one.

    Returns
    -------
    dict
        The first pair as `Anonymity.json`, with `pairs` and `series` besides for more than two releases.
    """
    body = pairs[0].answer.json()
    if len(logs) > 2:
        body["pairs"] = []
        for pair in pairs:
            numbers = {"earlier": pair.earlier + 1, "later": pair.later + 1}
            body["pairs"].append({**numbers, **pair.answer.json()})
        body["series"] = series(question, logs).json()
    return body


def series_of(
    releases: int,
    pairs: Mapping[tuple[int, int], PairInSeries],
    bk_length: int,
    ns: Sequence[int],
    most_candidates: int,
) -> SeriesAnonymity:
    """Return the answer of `series`, given the pairs of releases, which an earlier series may have used.

    Parameters
    ----------
    releases
        Number of releases.
    pairs
        Each pair by the indices of its releases, earlier one first. All pairs have the symbols of all releases.
    bk_length, ns
        Longest background knowledge, and each number of events removed at most, ascending.
    most_candidates
        If there are at most so many candidates, all are tried; otherwise only the worst ones of every pair.
    """
    return SeriesAnonymity(releases, [_result(pairs, n, bk_length, most_candidates) for n in ns])


def any_linker_tables(
    earlier: SimpleLog,
    later: SimpleLog,
    bk_length: int,
    ns: Sequence[int],
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> AnyLinkerTables:
    """Return the tables of one pair of a series that any linker may join.

    Parameters
    ----------
    earlier, later
        Two releases of the series, with the symbols of all of them (`over_all_activities`).
    bk_length, ns, known, taxonomy, foreign
        As of `correspondence.anonymity`; `ns` ascends.

    Raises
    ------
    InputError
        If the logs are too large to be searched.
    """
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return AnyLinkerTables(PairAttack(pair, bk_length, ns, "exact", "realisable"))


def identity_tables(earlier: SimpleLog, later: SimpleLog, partner: Ints, bk_length: int) -> IdentityTables:
    """Return the tables of one pair of a series whose records never change.

    Parameters
    ----------
    earlier, later
        Two releases of the series, with the symbols of all of them (`over_all_activities`).
    partner, bk_length
        As of `IdentityTables`.
    """
    pair = join_releases(earlier, later)
    return IdentityTables(pair, next_occurrences(pair), partner, bk_length)


def over_all_activities(releases: Sequence[SimpleLog]) -> list[SimpleLog]:
    """Return the releases with one alphabet that holds the activities of all of them.

    Background knowledge may name an activity that one release alone shows. With n > 0 it excludes records of the other
    releases as well.

    Parameters
    ----------
    releases
        Releases of a series. Only their alphabets grow, at the end.
    """
    shown_by_any = [item for release in releases for item in release.alphabet]
    joined = []
    for release in releases:
        alphabet = tuple(dict.fromkeys([*release.alphabet, *shown_by_any]))
        joined.append(replace(release, alphabet=alphabet))
    return joined


def _result(
    pairs: Mapping[tuple[int, int], PairInSeries], n: int, bk_length: int, most_candidates: int
) -> SeriesResult:
    """Return the least numbers left at one n."""
    joined: dict[tuple[int, int], PairInSeries] = {}
    without_linker: list[tuple[int, int]] = []
    worst_of_pairs: dict[tuple[Any, ...], None] = {}  # used as a set that keeps its order
    for (i, j), pair in pairs.items():
        worst = pair.worst(n)
        if worst is None:
            without_linker.append((i + 1, j + 1))
        else:
            joined[i, j] = pair
            worst_of_pairs.update(dict.fromkeys(worst))

    symbols = next((pair.symbols for pair in joined.values()), ())
    all_candidates = _all_candidates(symbols, bk_length, most_candidates)
    candidates = list(worst_of_pairs) if all_candidates is None else all_candidates
    least = _Least()
    for bk in candidates:
        cracks = {numbers: pair.cracks(n, bk) for numbers, pair in joined.items()}
        least.try_all(cracks, bk)
    return SeriesResult(n, least.values, least.worst, without_linker, complete=all_candidates is not None)


def _all_candidates(
    symbols: Sequence[Any],
    bk_length: int,
    most_candidates: int,
) -> list[tuple[Any, ...]] | None:
    """Return all candidates, the short ones first, or None if they are more than `most_candidates`."""
    candidates: list[tuple[Any, ...]] = [()]
    longest = candidates
    for _ in range(bk_length):
        if len(candidates) + len(longest) * len(symbols) > most_candidates:
            return None
        longest = [(*bk, symbol) for bk in longest for symbol in symbols]
        candidates = candidates + longest
    return candidates[1:]  # without the empty one


class _Least:
    """The least realisable number left by each attack."""

    def __init__(self) -> None:
        self.values: dict[str, int | None] = dict.fromkeys(ATTACKS)
        self.worst: dict[str, dict[str, Any] | None] = dict.fromkeys(ATTACKS)

    def offer(self, attack: str, records_left: int, release: int, bk: Sequence[Any]) -> None:
        """Keep a number left if it is the least one so far. Candidates that leave no record are not realisable."""
        least = self.values[attack]
        if records_left >= 1 and (least is None or records_left < least):
            self.values[attack] = records_left
            self.worst[attack] = {"release": release + 1, "bk": list(bk)}

    def try_all(self, cracks: Mapping[tuple[int, int], PairCracks], bk: Sequence[Any]) -> None:
        """Offer every micro attack and every composition for one candidate.

        Parameters
        ----------
        cracks
            Cracks of the candidate by pair of releases, earlier one first.
        bk
            The candidate.
        """
        targets = {release for pair_of_releases in cracks for release in pair_of_releases}
        for target in targets:
            # Every pair of the target has the same matching set in it, so its size is read from the first pair.
            with_later = [pair for (earlier, _), pair in cracks.items() if earlier == target]
            with_earlier = [pair for (_, later), pair in cracks.items() if later == target]
            if with_later:
                size = sum(with_later[0].size1.values())
                self.offer("fa", size - best_of(pair.f for pair in with_later), target, bk)
            if with_earlier:
                size = sum(with_earlier[0].size2.values())
                self.offer("ca", size - best_of(pair.c for pair in with_earlier), target, bk)
                self.offer("ba", size - best_of(pair.b for pair in with_earlier), target, bk)
        for (_, middle), first in cracks.items():
            for (begin, last), second in cracks.items():
                if begin != middle:
                    continue
                self.offer("bf", sum(first.size2.values()) - b_then_f(first, second), middle, bk)
                self.offer("bc", sum(second.size2.values()) - b_then_c(first, second), last, bk)
