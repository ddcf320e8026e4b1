"""State that audits keep about releases, so that comparing a candidate with many earlier ones costs little.

Each release is counted and numbered once (`record.cache`). The numbering is passed from release to release, and begins
again if erasure wrote a record again, or if most of its numbers are in no release any more. It never changes a result:
`models.attacks.shared_pairs` gives each pair the same values as a computation of the pair alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from models.attacks.correspondence import AttackResult, Method, PairAttack
from models.attacks.linkability import Edges
from models.attacks.numbering import Numbered, Numbering, numbered_partners
from models.attacks.pairs import NextOccurrences, ReleasePair, join_releases, next_occurrences
from models.attacks.search import Minimum
from models.attacks.series import (
    AnyLinkerTables,
    IdentityTables,
    PairInSeries,
    PairTables,
    any_linker_tables,
    identity_tables,
)
from models.attacks.shared_pairs import NumberedRelease, SharedPairs, followed_attacks
from models.attacks.true_linker import least_true_counts
from models.errors import InputError
from models.eventlog import Codes, Column, Ints, SimpleLog
from models.knowledge import NANOSECONDS
from stream.ledger.release_record import ReleaseRecord

NUMBERING, NUMBERED, SIMPLE = "attacks.numbering", "attacks.numbered", "simple"
COMPARISON, SERIES = "attacks.comparison", "attacks.series"
HELD, SHOWN = "attacks.held", "attacks.shown"
SEEN, FINGERPRINTS = "attacks.seen", "attacks.fingerprints"

MASK = (1 << 64) - 1
"""Bits of a fingerprint."""

SPARE = 1000
"""Variants of withheld candidates and of releases beyond the look-back that are kept before a numbering begins
again."""


def simple(record: ReleaseRecord) -> SimpleLog:
    """Return the simple log over all that the release carries, kept with the record."""
    if SIMPLE not in record.cache:
        record.cache[SIMPLE] = record.simple()
    kept: SimpleLog = record.cache[SIMPLE]
    return kept


def seen_as(record: ReleaseRecord, columns: tuple[str, ...]) -> ReleaseRecord:
    """Return a release as if it carried only what an adversary knows; kept with it.

    The identity joins releases whose cases never change, so the other columns link nothing. Times would
    make nearly every case a record class of its own.
    """
    kept: dict[tuple[str, ...], ReleaseRecord] = record.cache.setdefault(SEEN, {})
    if columns not in kept:
        _fingerprints(record)  # its file is then read once for both
        kept[columns] = record.carrying(columns)
    kept[columns].stored = record.stored  # a candidate gets its file when it is released
    return kept[columns]


def forget(candidate: ReleaseRecord) -> None:
    """Drop the tables that audits of one candidate share, which are as large as the releases."""
    for seen in candidate.cache.get(SEEN, {}).values():
        forget(seen)
    candidate.cache.pop(COMPARISON, None)


class Comparison:
    """A candidate and the earlier releases with which an audit compares it."""

    def __init__(
        self,
        candidate: ReleaseRecord,
        earlier: Sequence[ReleaseRecord],
        cap: int,
        known_part: Callable[[Any], Any] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """Assign numbers to the releases, and build what their pairs share.

        Parameters
        ----------
        candidate, earlier
            The releases.
        cap
            The largest n.
        known_part
            See `models.attacks.pairs.join_releases`.
        alone
            Whether no other comparison reads the earlier releases. Their numbering is then enough, and the logs of all
            but the last one leave memory.
        """
        self.candidate, self.later, self.earlier, self.cap = candidate, simple(candidate), list(earlier), cap
        self.known_part = known_part
        for earlier_record in earlier:
            forget(earlier_record)
        candidate.cache[COMPARISON] = self
        numbering = _numbering(earlier)
        for record in (*earlier, candidate):
            _number(numbering, record)
        for earlier_record in self.earlier[:-1] if alone else ():
            earlier_record.leave_memory()
        candidate.cache[NUMBERING] = numbering
        self.numbering = numbering
        self.against: SharedPairs | None = None
        try:
            self.against = SharedPairs(
                numbering,
                _numbered_release(candidate),
                [_numbered_release(record) for record in earlier],
                cap,
                known_part,
            )
        except InputError:
            return  # the tables of all releases together do not fit; each pair is then tried alone

    def pair(self, earlier: ReleaseRecord) -> tuple[ReleasePair, NextOccurrences]:
        """Return the pair and its tables."""
        if self.against is not None:
            return self.against.pair(_numbered_release(earlier))
        pair = join_releases(simple(earlier), self.later, known=self.known_part)
        return pair, next_occurrences(pair)

    def alone(self) -> tuple[ReleasePair, NextOccurrences]:
        """Return the pair of the candidate with itself, and its tables."""
        return self.pair(self.candidate)

    def alone_with(
        self,
        earlier: ReleaseRecord,
        bk_length: int,
        ns: Sequence[int],
        method: Method,
        minimum: Minimum,
    ) -> PairAttack:
        """Count the attacks of one pair by itself.

        Parameters
        ----------
        earlier
            The earlier release.
        bk_length, ns
            Longest background knowledge, and the values of n.
        method, minimum
            See `models.attacks.correspondence.PairAttack`.
        """
        pair, table = self.pair(earlier)
        linkable = self.edges(earlier, pair)
        return PairAttack(pair, bk_length, ns, method, minimum, table, linkable=linkable, least_n=False)

    def followed(
        self,
        bk_length: int,
        ns: Sequence[int],
        minimum: Minimum,
    ) -> list[list[AttackResult]] | None:
        """Count the exact attacks on each earlier release for each n, from one of them to the next.

        None if nothing is shared, or too much for one table: each pair counts for itself.

        Parameters
        ----------
        bk_length
            Number of items that the adversary knows.
        ns
            Numbers of removed events that the adversary allows for.
        minimum
            Over which background knowledge the minimum is taken.
        """
        if self.against is None or len(self.earlier) < 2 or not self.against.has_table(bk_length):
            return None

        def alone(place: int) -> PairAttack:
            return self.alone_with(self.earlier[place], bk_length, ns, "exact", minimum)

        releases = [_numbered_release(record) for record in self.earlier]
        try:
            return followed_attacks(self.against, releases, bk_length, ns, minimum, alone)
        except InputError:
            return None

    def true_counts(
        self, partners: Iterable[Ints], bk_length: int, ns: Sequence[int], minimum: Minimum
    ) -> list[list[AttackResult]] | None:
        """Count what the real partners leave of each earlier release for each n; None as in `followed`.

        Parameters
        ----------
        partners
            For each earlier release, the place of its cases in the candidate; -1 if absent.
        bk_length
            Number of items that the adversary knows.
        ns
            Numbers of removed events that the adversary allows for.
        minimum
            Over which background knowledge the minimum is taken.
        """
        if self.against is None or not self.earlier:
            return None
        releases = [_numbered_release(record) for record in self.earlier]
        return least_true_counts(self.against, releases, partners, bk_length, ns, minimum)

    def any_linker_tables(
        self, records: Sequence[ReleaseRecord], earlier: ReleaseRecord, bk_length: int, ns: Sequence[int]
    ) -> AnyLinkerTables | None:
        """Return the tables of a pair in the series `records` from those that exist; None if they do not.

        Parameters
        ----------
        records
            The series, oldest first.
        earlier
            The earlier release of the pair; the later one is the last of `records`.
        bk_length
            Number of items that the adversary knows.
        ns
            Numbers of removed events that the adversary allows for.
        """
        shared = self._pair_in_series(records, earlier)
        if shared is None or self.cap != ns[-1]:
            return None
        pair, table = shared
        linkable = self.edges(earlier, pair)
        attack = PairAttack(pair, bk_length, ns, "exact", "realisable", table, linkable=linkable)
        return AnyLinkerTables(attack)

    def identity_tables(
        self, records: Sequence[ReleaseRecord], earlier: ReleaseRecord, partner: Ints, bk_length: int
    ) -> IdentityTables | None:
        """Return the same tables for releases whose records never change.

        Parameters
        ----------
        records, earlier, bk_length
            As above.
        partner
            int64[cases of the earlier release], place of each case in the candidate.
        """
        shared = self._pair_in_series(records, earlier)
        return None if shared is None else IdentityTables(*shared, partner, bk_length)

    def _pair_in_series(
        self, records: Sequence[ReleaseRecord], earlier: ReleaseRecord
    ) -> tuple[ReleasePair, NextOccurrences] | None:
        """Return a pair over the alphabet of a series, and its tables; None if nothing is shared."""
        if self.against is None:
            return None
        if not any(record is earlier for record in self.earlier):
            return None  # the tables are of other releases
        if any(_numbered(self.numbering, record) is None for record in records):
            return None  # it was read back after a restart, and no audit has compared it since
        numbered = [_numbered_release(record) for record in records]
        return self.against.pair(_numbered_release(earlier), numbered)

    def edges(self, earlier: ReleaseRecord, pair: ReleasePair) -> Edges | None:
        """Return the linkable pairs if they are shared; None if each audit lists its own."""
        if self.against is None:
            return None
        try:
            return self.against.edges(_numbered_release(earlier), pair)
        except InputError:
            return None


def pairs_in_series(
    records: Sequence[ReleaseRecord],
    bk_length: int,
    ns: Sequence[int],
    known_part: Callable[[Any], Any] | None,
    about: Sequence[str],
    *,
    unchanged: bool = False,
) -> dict[tuple[int, int], PairInSeries]:
    """Return all pairs of the series `records`, the last of which is the candidate.

    Pairs that were in the series of the last release are reused. The results of a pair are kept with its later release,
    and are valid only for the same object of the earlier record, the same alphabet and the same question: a release
    that erasure wrote again is another object.

    Parameters
    ----------
    records
        The series, oldest first.
    bk_length
        Number of items that the adversary knows.
    ns
        Numbers of removed events that the adversary allows for.
    known_part
        Returns the part of an item that the adversary knows; None for the whole item.
    about
        Columns of the background knowledge.
    unchanged
        Whether each release holds every record of those before it as it was. The identity then joins each
        pair, and the records carry what the adversary knows, so `known_part` is None.
    """
    # Two records may be equal, but each entry belongs to one object.
    members = {id(member) for member in records}
    for record in records:
        entries = record.cache.get(SERIES, {}).items()
        record.cache[SERIES] = {key: entry for key, entry in entries if id(entry[0]) in members}
    alphabets, logs = _over_all(records, known_part)
    shared: Comparison | None = records[-1].cache.pop(COMPARISON, None)

    def new_pair(i: int, j: int) -> PairInSeries:
        # The audit of pairs has left tables of the candidate with all earlier releases: the series counts by them.
        of_candidate = shared if j == len(records) - 1 else None
        make: Callable[[], PairTables]
        make_shared: Callable[[], PairTables | None] | None = None
        if unchanged:
            partner = partners(records[i], records[j])
            make = partial(identity_tables, logs[i], logs[j], partner, bk_length)
            if of_candidate is not None:
                make_shared = partial(of_candidate.identity_tables, records, records[i], partner, bk_length)
        else:
            make = partial(any_linker_tables, logs[i], logs[j], bk_length, ns, known_part)
            if of_candidate is not None:
                make_shared = partial(of_candidate.any_linker_tables, records, records[i], bk_length, ns)
        return PairInSeries(make, make_shared)

    question = (bk_length, tuple(ns), tuple(about), unchanged)
    pairs = {}
    for i, j in combinations(range(len(records)), 2):
        kept = records[j].cache[SERIES]
        key = (records[i].key, alphabets[i], question)
        of, pair = kept.get(key, (None, None))
        if of is not records[i]:
            pair = new_pair(i, j)
            kept[key] = records[i], pair
        pairs[i, j] = pair

    with_pairs = [record for record in records[:-1] if HELD in record.cache]
    pairs_before = with_pairs[-1].cache[HELD] if with_pairs else ()
    for pair in pairs_before:
        if not any(pair is other for other in pairs.values()):
            pair.drop_tables()  # its earlier release is in no series any more
    records[-1].cache[HELD] = tuple(pairs.values())
    return pairs


def _over_all(
    records: Sequence[ReleaseRecord], known_part: Callable[[Any], Any] | None
) -> tuple[list[tuple[Any, ...]], list[SimpleLog]]:
    """Extend each release by the symbols of all, in the order in which its pairs see them.

    Returns for each release the symbols of background knowledge, and its log with an item of each of them
    (`models.attacks.series.over_all_activities`, if knowledge is about the items themselves). Items that carry times
    are new in every release, but their symbols are not: results of a pair stay valid as long as the symbols do.
    """
    every: dict[Any, Any] = {}
    for record in records:
        for symbol, item in _shown(record, known_part).items():
            every.setdefault(symbol, item)
    alphabets, logs = [], []
    for record in records:
        shown, log = _shown(record, known_part), simple(record)
        more = {symbol: item for symbol, item in every.items() if symbol not in shown}
        alphabets.append((*shown, *more))
        logs.append(replace(log, alphabet=(*log.alphabet, *more.values())) if more else log)
    return alphabets, logs


def _shown(record: ReleaseRecord, known_part: Callable[[Any], Any] | None) -> Mapping[Any, Any]:
    """Return the first item of a release for each symbol, in order of appearance; kept with it."""
    kept: dict[Any, dict[Any, Any]] = record.cache.setdefault(SHOWN, {})
    if known_part not in kept:
        items = simple(record).alphabet
        symbols = items if known_part is None else list(map(known_part, items))
        shown = dict.fromkeys(symbols)  # in order of appearance
        shown.update(zip(reversed(symbols), reversed(items), strict=True))
        kept[known_part] = shown
    return kept[known_part]


def _numbering(earlier: Sequence[ReleaseRecord]) -> Numbering:
    """Return the numbering of the last release, unless most of its numbers are unused by now."""
    numbering: Numbering | None = next(
        (record.cache[NUMBERING] for record in reversed(earlier) if NUMBERING in record.cache), None
    )
    if numbering is None:
        return Numbering()
    used = np.zeros(len(numbering.variants), dtype=np.bool_)
    for record in earlier:
        numbered = _numbered(numbering, record)
        if numbered is not None:
            used[numbered.variant] = True
    # Arrays of a comparison are as long as the numbering. After retention or erasure most of it may be unused.
    if len(used) > 2 * int(used.sum()) + SPARE:
        return Numbering()
    return numbering


def _numbered(numbering: Numbering, record: ReleaseRecord) -> Numbered | None:
    by, numbered = record.cache.get(NUMBERED, (None, None))
    return numbered if by is numbering else None


def _number(numbering: Numbering, record: ReleaseRecord) -> None:
    if _numbered(numbering, record) is None:
        record.cache[NUMBERED] = (numbering, numbering.number(simple(record), record.case_ids))


def _numbered_release(record: ReleaseRecord) -> NumberedRelease:
    return NumberedRelease(simple(record), record.cache[NUMBERED][1])


def together(earlier: ReleaseRecord, later: ReleaseRecord) -> tuple[Numbering, Numbered, Numbered] | None:
    """Return both releases under one numbering, if they have been compared."""
    by, numbered = earlier.cache.get(NUMBERED, (None, None))
    other = None if by is None else _numbered(by, later)
    return None if numbered is None or other is None else (by, numbered, other)


def partners(earlier: ReleaseRecord, later: ReleaseRecord) -> Ints:
    """Return the place of each earlier case in the later release, int64[cases of earlier]; -1 if it is absent."""
    both = together(earlier, later)
    if both is not None:
        numbering, before, after = both
        return numbered_partners(before, after, len(numbering.cases))
    # A record that is nobody's case has the empty id: it is in no index, so it has no partner.
    place = {case: index for index, case in enumerate(later.case_ids) if case}
    return np.asarray([place.get(case, -1) for case in earlier.case_ids], dtype=np.int64)


def changes(earlier: ReleaseRecord, later: ReleaseRecord, partner: Ints) -> int:
    """Count the cases that have another sensitive value in the later release, if all have a partner.

    Parameters
    ----------
    earlier, later
        The two releases.
    partner
        int64[cases of earlier], place of each case in the later release.
    """
    both = together(earlier, later)
    if both is not None:
        _, numbered, other = both
        return _differing(numbered.value[numbered.row_of_case], other.value[other.row_of_case], partner)
    before = earlier.log.sensitive(earlier.sensitive).decode()
    after = later.log.sensitive(later.sensitive).decode()
    return sum(value != after[place] for value, place in zip(before, partner.tolist(), strict=True))


def altered(earlier: ReleaseRecord, later: ReleaseRecord, partner: Ints) -> int:
    """Count the cases of which the later release shows something else, over all columns of the releases.

    Parameters
    ----------
    earlier, later, partner
        As of `changes`.
    """
    return _differing(_fingerprints(earlier), _fingerprints(later), partner)


def _fingerprints(record: ReleaseRecord) -> Ints:
    """Return a number of 64 bits for each case, of all that the release shows of it; kept with the release.

    Equal cases have equal numbers in one process. Cases that differ have the same one with a probability of
    about 2 ** -64.
    """
    if FINGERPRINTS not in record.cache:
        log = record.log
        place = np.arange(log.n_events) - log.starts[log.case_of_event]
        of_event = _mixed(place.astype(np.uint64))
        for name in record.carries:
            if name == "relative_time":
                numbers = (log.time // NANOSECONDS[record.T]).astype(np.uint64)
            else:
                column = log.activity if name == "activity" else log.resource
                numbers = _of_values(column, str)
            of_event = _mixed(of_event + numbers)
        of_case = log.lengths.astype(np.uint64)
        np.add.at(of_case, log.case_of_event, of_event)
        for name in record.sensitive:
            of_case = _mixed(of_case + _of_values(log.case_values(name), msgspec.json.encode))
        record.cache[FINGERPRINTS] = of_case.view(np.int64)
    kept: Ints = record.cache[FINGERPRINTS]
    return kept


def _of_values(column: Column, written: Callable[[Any], str | bytes]) -> npt.NDArray[np.uint64]:
    """Return a number for the value of each row; a missing value has one, too.

    `written`: how the operator's file has a value, so that a release and the same one read from its file
    agree.
    """
    as_written = [None if value is None else written(value) for value in column.values]
    numbers = [hash(value) & MASK for value in (*as_written, None)]
    return np.asarray(numbers, dtype=np.uint64)[column.codes]


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread numbers over all bits (the last steps of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _differing(before: Codes | Ints, after: Codes | Ints, partner: Ints) -> int:
    """Count the earlier cases whose number is another one in the later release."""
    return int(np.count_nonzero(before != after[partner]))
