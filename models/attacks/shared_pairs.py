"""One release and many earlier ones: the tables that their pairs share, and the attacks on all of them.

A pair of releases needs a common numbering, tables of next occurrences and the linkable pairs of record classes
(models.attacks.pairs, matching, linkability). Between one candidate and all releases before it nearly all of this is
the same again: the releases show the same variants. So the variants of all of them are numbered together, the tables
are made once, the record classes of all earlier releases are linked to those of the candidate once, and each pair takes
its part. What a pair gets is equal to what it would compute alone; `tests/property/test_attacks_against.py` compares
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks import flows
from models.attacks.correspondence import PairAttack
from models.attacks.linkability import Edges, KeptLinks, Listed, edges
from models.attacks.linker import FollowedLinker, Obstacle, base_linkers, evident_obstacles
from models.attacks.matching import CELLS, LONGEST, NextOccurrences, PartOfTables, next_occurrence_table
from models.attacks.numbering import ClassColumns, Numbered, Numbering, SharedClasses
from models.attacks.outcome import AttackResult, Minimum, result_without_linker
from models.attacks.pairs import RecordClasses, ReleasePair, Sequences
from models.attacks.totals import SharedTotals
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog


@content_free()
@dataclass(frozen=True, slots=True)
class NumberedRelease:
    """A release, counted and numbered."""

    log: SimpleLog
    numbered: Numbered


class SharedPairs:
    """A later release and the earlier ones that it is compared with, for links up to n = `cap`.

    For releases without a taxonomy. `known`: from a carried item to what background knowledge is about (None: the item
    itself). Errors: InputError where the tables for all releases together would not fit; a pair alone may fit then.
    """

    def __init__(
        self, numbering: Numbering, later: NumberedRelease, earlier: Sequence[NumberedRelease], cap: int,
        known: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        self.numbering, self.later, self.cap, self._known = numbering, later, cap, known
        every = [later.numbered, *(one.numbered for one in earlier)]
        self.earlier = list(earlier)
        items = tuple(numbering.items)
        present = np.zeros(len(numbering.variants), dtype=np.bool_)
        for one in every:
            present[one.variant] = True
        chosen = np.flatnonzero(present)
        self.linked, order = numbering.sequences(chosen)
        self.place = np.full(len(numbering.variants), -1, dtype=np.int32)
        """Place of each number of a variant among those in use, in lexicographic order."""
        self.variants = chosen[order]
        self.place[self.variants] = np.arange(len(chosen), dtype=np.int32)
        self.items = items
        self.related = _itself(len(items))
        self._seen = _KnowledgeView.of(numbering, known, self.linked, self.variants)
        self._afters: dict[bytes, npt.NDArray[np.int16]] = {}
        # Sensitive values in the order of the candidate, then those that only earlier releases show.
        values = dict.fromkeys([*later.numbered.values.tolist(), *range(len(numbering.values))])
        self.rank = np.empty(len(numbering.values), dtype=np.int64)
        self.rank[list(values)] = np.arange(len(values))
        self.value_names = tuple(numbering.values)

    @cached_property
    def _walk(self) -> NextOccurrences:
        """Over all that is known."""
        seen, symbols = self._seen, len(self._seen.symbols)
        return NextOccurrences(
            seen.first, symbols, partial(next_occurrence_table, seen.known, _itself(symbols), symbols)
        )

    @cached_property
    def _shared_totals(self) -> SharedTotals:
        kept = self.numbering.kept_tables.setdefault(self._known, {})
        return SharedTotals(self._walk, self._seen.numbers, kept)

    def _after(self, alphabet: Codes) -> npt.NDArray[np.int16]:
        """The tables of next occurrences in all that is known, with a column for each symbol of an alphabet."""
        key = alphabet.tobytes()
        if key not in self._afters:
            every = np.arange(self._walk.symbols, dtype=np.int32)
            after = self._walk.after
            self._afters[key] = after if np.array_equal(alphabet, every) else np.ascontiguousarray(after[:, alphabet])
        return self._afters[key]

    @cached_property
    def _all_links(self) -> tuple[Ints, Listed]:
        """(key of each record class of any earlier release, its links to those of the candidate)."""
        keys = np.unique(np.concatenate([self._keys(one.numbered) for one in self.earlier]))
        own = np.sort(self._keys(self.later.numbered))

        def listed(one: Ints, two: Ints) -> Listed:
            both = [self._classes(keys[one]), self._classes(own[two])]
            whole = ReleasePair(
                self.items, self.linked, self.related, self.items, self.items, self.linked, self.related,
                tuple(range(len(self.rank))), both[0], both[1],
            )  # fmt: skip
            return edges(whole, self.cap).forward

        kept = self.numbering.links.setdefault(self.cap, KeptLinks())
        return keys, kept.move_on(self._lasting(keys), self._lasting(own), listed)

    def _classes(self, keys: Ints) -> RecordClasses:
        size = len(self.linked)
        return _rows((keys % size).astype(np.int32), (keys // size).astype(np.int32), np.ones(len(keys), np.int64))

    def _lasting(self, keys: Ints) -> Ints:
        """Record classes under numbers that hold for the next candidate, too."""
        size, ranked = len(self.linked), np.argsort(self.rank)
        return (ranked[keys // size] << 32) + self.variants[keys % size]

    def _keys(self, one: Numbered) -> Ints:
        """Sensitive value and variant of each record class in one integer, which sorts as rows do."""
        return self.rank[one.value] * len(self.linked) + self.place[one.variant]

    def pair(
        self, earlier: NumberedRelease, others: Sequence[NumberedRelease] = ()
    ) -> tuple[ReleasePair, NextOccurrences]:
        """Return what `join_releases` and `next_occurrences` return for the two releases; variants may have other
        numbers. `others`: releases whose items belong to the alphabet as well, in this order."""
        one, two = earlier.numbered, self.later.numbered
        item_codes = _union(len(self.items), one.items, *(other.numbered.items for other in others), two.items)
        inside = np.zeros(len(self.linked), dtype=np.bool_)
        inside[self.place[one.variant]] = True
        inside[self.place[two.variant]] = True
        chosen = np.flatnonzero(inside)
        local = np.full(len(self.linked), -1, dtype=np.int32)
        local[chosen] = np.arange(len(chosen), dtype=np.int32)
        if self._seen.itself:
            items = symbols = tuple(self.items[code] for code in item_codes.tolist())
            linked = known = _PartOfSequences(self.linked, chosen, _recoding(len(self.items), item_codes))
            symbol_codes, known_chosen = item_codes, chosen
            known_of = np.arange(len(linked), dtype=np.int32)
        else:
            # Items are too many to be renumbered for each pair, and their codes have no meaning.
            items, linked = (
                self.items,
                _PartOfSequences(self.linked, chosen, np.arange(len(self.items), dtype=np.int32)),
            )
            symbol_codes = _union(len(self._seen.symbols), self._seen.symbol[item_codes])
            known_chosen, where = np.unique(self._seen.known_of[chosen], return_inverse=True)
            known_of = where.astype(np.int32)
            known = _PartOfSequences(self._seen.known, known_chosen, _recoding(len(self._seen.symbols), symbol_codes))
            symbols = tuple(self._seen.symbols[code] for code in symbol_codes.tolist())
        value_codes = _union(len(self.rank), one.values, two.values)
        value_rank = _recoding(len(self.rank), value_codes)
        both = [self._local_rows(release, local, value_rank, known_of) for release in (one, two)]
        pair = ReleasePair(
            items=items,
            linked=linked,
            link_related=_itself(len(items)),
            alphabet=symbols,
            known_items=symbols,
            known=known,
            match_related=_itself(len(symbols)),
            values=tuple(self.value_names[code] for code in value_codes.tolist()),
            earlier=both[0],
            later=both[1],
        )
        part = PartOfTables(self._walk, known_chosen, symbol_codes, self._shared_totals)
        first = self._seen.first[known_chosen]
        return pair, NextOccurrences(first, len(symbol_codes), partial(self._after, symbol_codes), whole=part)

    def together(self, earlier: Sequence[NumberedRelease]) -> SharedClasses:
        """Some of the earlier releases under one numbering of record classes. InputError where the linkable pairs are
        too many."""
        keys, (begins, later, least) = self._all_links
        own = np.unique(np.concatenate([self._keys(one.numbered) for one in earlier]))
        start, at = _slices(begins, np.searchsorted(keys, own))
        linkable = Edges(start, later[at], least[at], len(self.later.numbered.variant), self.cap)
        return SharedClasses(own, linkable, self._classes_of(own), *self._later_classes)

    @cached_property
    def _later_classes(self) -> tuple[ClassColumns, Ints]:
        keys = self._keys(self.later.numbered)
        order = np.argsort(keys)
        return self._classes_of(keys[order]), self.later.numbered.count[order]

    def _classes_of(self, keys: Ints) -> ClassColumns:
        linked, ranked = (keys % len(self.linked)).astype(np.int32), np.argsort(self.rank)
        return ClassColumns(linked, self._seen.known_of[linked], ranked[keys // len(self.linked)])

    def whole(self, together: SharedClasses, earlier: NumberedRelease) -> tuple[ReleasePair, NextOccurrences]:
        """The same as `pair` over the record classes of several earlier releases, most of which this one has no records
        of. From one of them to the next differ the records of each class, the alphabet and the names of values."""
        one, two, classes1, classes2 = earlier.numbered, self.later.numbered, together.earlier, together.later
        symbol_codes = self.alphabet(earlier)
        symbols = tuple(self._seen.symbols[code] for code in symbol_codes.tolist())
        value_codes = _union(len(self.rank), one.values, two.values)
        # Values that neither release shows have no records: their code has no meaning.
        values = np.maximum(_recoding(len(self.rank), value_codes), 0)
        count = np.zeros(len(together.keys), dtype=np.int64)
        count[np.searchsorted(together.keys, self._keys(one))] = one.count
        recode = _recoding(len(self._seen.symbols), symbol_codes)
        shown = np.concatenate(([0], np.cumsum(recode >= 0))).astype(np.int64)
        pair = ReleasePair(
            items=self.items,
            linked=self.linked,
            link_related=self.related,
            alphabet=symbols,
            known_items=self._seen.symbols,
            known=self._seen.known,
            match_related=(shown, recode[recode >= 0]),
            values=tuple(self.value_names[code] for code in value_codes.tolist()),
            earlier=RecordClasses(classes1.linked, classes1.known, values[classes1.value], count, one.row_of_case[:0]),
            later=RecordClasses(
                classes2.linked, classes2.known, values[classes2.value], together.count, two.row_of_case[:0]
            ),
        )
        part = PartOfTables(self._walk, np.arange(len(self._seen.first)), symbol_codes, self._shared_totals)
        return pair, NextOccurrences(
            self._seen.first, len(symbol_codes), partial(self._after, symbol_codes), whole=part
        )

    def has_table(self, length: int) -> bool:
        """Return whether the totals over background knowledge of up to `length` symbols fit into one table."""
        return self._shared_totals.table(length) is not None

    def alphabet(self, earlier: NumberedRelease) -> Codes:
        """Symbols of a pair as `pair` orders them, by their place among all (`symbols`)."""
        item_codes = _union(len(self.items), earlier.numbered.items, self.later.numbered.items)
        return item_codes if self._seen.itself else _union(len(self._seen.symbols), self._seen.symbol[item_codes])

    @property
    def symbols(self) -> tuple[Any, ...]:
        """Of background knowledge, over all releases."""
        return self._seen.symbols

    def _local_rows(self, release: Numbered, local: Codes, value_rank: Codes, known_of: Codes) -> RecordClasses:
        linked, value = local[self.place[release.variant]], value_rank[release.value]
        order = np.lexsort((linked, value))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = _rows(linked[order], value[order], release.count[order])
        return replace(rows, known=known_of[rows.linked], row_of_case=place[release.row_of_case])

    def edges(self, earlier: NumberedRelease, pair: ReleasePair) -> Edges:
        """What `models.attacks.linkability.edges(given, cap)` gives, for the pair of that earlier release."""
        one, two = earlier.numbered, self.later.numbered
        shown = _union(len(self.rank), one.values, two.values)
        if np.any(np.diff(self.rank[shown[np.isin(shown, two.values)]]) < 0):
            return edges(pair, self.cap)  # the candidate's rows have another order there
        keys, (begins, later, least) = self._all_links
        own = self._keys(one)
        value_rank = _recoding(len(self.rank), shown)
        order = np.lexsort((self.place[one.variant], value_rank[one.value]))
        start, at = _slices(begins, np.searchsorted(keys, own[order]))
        return Edges(start, later[at], least[at], len(pair.later.linked), self.cap)


def _rows(linked: Codes, value: Codes, count: Ints) -> RecordClasses:
    return RecordClasses(linked, linked, value, count, np.empty(0, dtype=np.int32))


def _slices(begins: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return where the links of some rows begin among themselves, and their places among all links."""
    begin, counts = begins[rows], np.diff(begins)[rows]
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return start, np.repeat(begin - start[:-1], counts) + np.arange(start[-1])


@content_free("itself")
@dataclass(frozen=True, slots=True)
class _KnowledgeView:
    """Variants as background knowledge sees them: `symbols`, `symbol` of each item, distinct sequences `known`, which
    of them each linked variant is, their numbers, and where each begins in the tables of next occurrences. `itself`:
    nothing is hidden."""

    symbols: tuple[Any, ...]
    symbol: Codes
    known: Sequences
    known_of: Codes
    numbers: Ints
    first: Ints
    itself: bool

    @classmethod
    def of(
        cls, numbering: Numbering, known: Callable[[Any], Any] | None, linked: Sequences, variants: Ints
    ) -> _KnowledgeView:
        """`variants`: numbers of the sequences `linked`. InputError where the tables would not fit."""
        if known is None:
            symbols, symbol = tuple(numbering.items), np.arange(len(numbering.items), dtype=np.int32)
            sequences, place, numbers = linked, np.arange(len(linked)), variants
        else:
            projected = numbering.seen_as(known)
            symbols, symbol = tuple(projected.symbols), projected.symbol
            used, place = np.unique(projected.variant[variants], return_inverse=True)
            numbers = used.astype(np.int64)
            sequences = projected.sequences(numbers)
        lengths = np.diff(sequences.start)
        positions = int(lengths.sum() + len(lengths))
        if positions * max(1, len(symbols)) > CELLS or int(lengths.max(initial=0)) > LONGEST:
            raise InputError("the variants of all releases together need more than fit")
        first = (sequences.start[:-1] + np.arange(len(lengths))).astype(np.int64)
        return cls(symbols, symbol, sequences, place.astype(np.int32), numbers, first, known is None)


def _itself(size: int) -> tuple[Ints, Codes]:
    """Return the relation in which every item means itself alone."""
    own = np.arange(size + 1, dtype=np.int64)
    return own, own[:-1].astype(np.int32)


def _union(size: int, *parts: Codes) -> Codes:
    """Codes below `size` in order of first appearance."""
    every = np.concatenate(parts)
    place = np.arange(len(every))
    first = np.empty(size, dtype=np.int64)
    first[every[::-1]] = place[::-1]  # of equal codes the last write remains, which is the first place
    union: Codes = every[first[every] == place]
    return union


def _recoding(size: int, chosen: Codes) -> Codes:
    """Place of each code among those chosen, -1 for the others."""
    recode = np.full(size, -1, dtype=np.int32)
    recode[chosen] = np.arange(len(chosen), dtype=np.int32)
    return recode


@content_free()
class _PartOfSequences(Sequences):
    """Some of the sequences, their items under other codes. They are made when they are read: what pairs share is
    known by number, and most pairs never read a sequence."""

    __slots__ = ("_chosen", "_made", "_recode", "_source")
    _source: Sequences
    """All sequences; once they were read, those of this part alone."""
    _chosen: Ints
    _recode: Codes
    _made: bool

    def __init__(self, whole: Sequences, chosen: Ints, recode: Codes) -> None:
        for name, value in (("_source", whole), ("_chosen", chosen), ("_recode", recode), ("_made", False)):
            object.__setattr__(self, name, value)

    def _read(self) -> Sequences:
        if not self._made:
            whole = self._source
            lengths = np.diff(whole.start)[self._chosen]
            start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
            at = np.repeat(whole.start[self._chosen] - start[:-1], lengths) + np.arange(start[-1])
            object.__setattr__(self, "_source", Sequences(self._recode[whole.items[at]], start))
            object.__setattr__(self, "_made", True)
        return self._source

    @property
    def items(self) -> Codes:
        return self._read().items

    @property
    def start(self) -> Ints:
        return self._read().start

    def __len__(self) -> int:
        return len(self._chosen)


BLOCK = 16
"""Earlier releases whose classes are numbered together. A larger block makes each search pass by more classes, a
smaller one makes more numberings. Between 8 and 32 the cuts of BPIC 2012 cost the same."""


def followed_attacks(
    against: SharedPairs, earlier: Sequence[NumberedRelease], bk_length: int, ns: Sequence[int], minimum: Minimum,
    alone: Callable[[int], PairAttack],
) -> list[list[AttackResult]]:  # fmt: skip
    """Return the exact minima of each earlier release for each n, by linkers that follow the series.

    They equal what `PairAttack.run` returns for each pair alone: a search does not depend on the linker that it starts
    from. `tests/property/test_attacks_followed_linkers.py` compares both. Only the witness of a missing linker depends
    on it; where it is not evident, the pair alone is asked.

    Parameters
    ----------
    against
        The candidate and the tables that its pairs share.
    earlier
        Earlier releases of `against`, in their order.
    bk_length, ns, minimum
        As `correspondence.anonymity`; `ns` ascending.
    alone
        The attack on the pair of one earlier release (by its place) by itself.

    Raises
    ------
    InputError
        If the linkable pairs of the releases together would not fit.
    """
    most_records = max(int(one.numbered.count.sum()) for one in earlier)
    linkers: list[FollowedLinker] = []
    results: list[list[AttackResult]] = []
    for place, classes in _backwards(against, earlier):
        pair, table = against.whole(classes, earlier[place])
        if not linkers:
            linkers = list(FollowedLinker.each(pair, classes, ns, most_records))
        attack = PairAttack(pair, bk_length, ns, "exact", minimum, table, linkable=classes.linkable, least_n=False)
        scratch = flows.scratch_for(len(pair.earlier.count), len(pair.later.count))
        linked: list[AttackResult] = []
        witnesses: list[list[Obstacle] | None] = []
        for linker in linkers:
            base = linker.move_to(pair, classes, scratch)
            if base.exists:
                linked.append(attack.least(base))
            else:
                witnesses.append(evident_obstacles(pair, base))
        unlinked_ns = ns[: len(witnesses)]  # what links with n also links with more
        results.append([*_unlinkable(unlinked_ns, witnesses, partial(alone, place)), *linked])
    return results[::-1]


def _backwards(against: SharedPairs, earlier: Sequence[NumberedRelease]) -> Iterator[tuple[int, SharedClasses]]:
    """Yield the place of each earlier release, the last one first, and a numbering of its classes.

    A numbering holds BLOCK releases and the one behind them, whose linkers go on in it:

        41 releases     0 .. 8     9 .. 24     25 .. 40
        numbering of    0 .. 9     9 .. 25     25 .. 40
    """
    for end in range(len(earlier), 0, -BLOCK):
        begin = max(0, end - BLOCK)
        classes = against.together(earlier[begin : end + 1])
        for place in range(end - 1, begin - 1, -1):
            yield place, classes


def _unlinkable(
    ns: Sequence[int], witnesses: Sequence[list[Obstacle] | None], alone: Callable[[], PairAttack]
) -> Iterator[AttackResult]:
    """Yield the results of the n without a linker, from the pair alone if a witness is not evident."""
    evident = [one for one in witnesses if one is not None]
    if len(evident) == len(ns):
        yield from map(result_without_linker, ns, evident)
    else:
        attack = alone()
        yield from map(attack.least, base_linkers(attack.pair, attack.linkable, ns))
