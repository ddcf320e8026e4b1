"""One release beside many earlier ones: what their pairs share is computed once.

A pair of releases needs a common numbering, tables of next occurrences and the linkable pairs of record classes
(models.attacks.pairs, matching, linkability). Between one candidate and all releases before it nearly all of this is
the same again: the releases show the same variants. So the variants of all of them are numbered together, the tables
are made once, the record classes of all earlier releases are linked to those of the candidate once, and each pair takes
its part. What a pair gets is equal to what it would compute alone; `tests/property/test_attacks_against.py` holds both
against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.kept_links import KeptLinks, Listed
from models.attacks.lacking import Lacking, columns_of
from models.attacks.linkability import Edges, edges
from models.attacks.matching import CELLS, LONGEST, Part, Walk, tables
from models.attacks.numbering import Numbered, Numbering
from models.attacks.pairs import Pair, Rows, Sequences
from models.attacks.real_partners import Lookup
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog


@content_free()
@dataclass(frozen=True, slots=True)
class Known:
    """A release, counted and numbered."""

    log: SimpleLog
    numbered: Numbered


class Against:
    """A later release and the earlier ones that it is compared with, for links up to n = `cap`.

    For releases without a taxonomy. `known`: from a carried item to what background knowledge is about (None: the item
    itself). Errors: InputError where the tables for all releases together would not fit; a pair alone may fit then.
    """

    def __init__(
        self, numbering: Numbering, later: Known, earlier: Sequence[Known], cap: int,
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
        """Place of each number of a variant among those in use, which stand in lexicographic order."""
        self.variants = chosen[order]
        self.place[self.variants] = np.arange(len(chosen), dtype=np.int32)
        self.items = items
        self.related = _itself(len(items))
        self._seen = _Seen.of(numbering, known, self.linked, self.variants)
        self._afters: dict[bytes, npt.NDArray[np.int16]] = {}
        # Sensitive values in the order of the candidate, then those that only earlier releases show.
        values = dict.fromkeys([*later.numbered.values.tolist(), *range(len(numbering.values))])
        self.rank = np.empty(len(numbering.values), dtype=np.int64)
        self.rank[list(values)] = np.arange(len(values))
        self.value_names = tuple(numbering.values)

    @cached_property
    def _walk(self) -> Walk:
        """Over all that is known."""
        seen, symbols = self._seen, len(self._seen.symbols)
        return Walk(seen.first, symbols, partial(tables, seen.known, _itself(symbols), symbols))

    @cached_property
    def _lacking(self) -> Lacking:
        kept = self.numbering.lacking.setdefault(self._known, {})
        return Lacking(self._walk, self._seen.numbers, kept)

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
            whole = Pair(
                self.items, self.linked, self.related, self.items, self.items, self.linked, self.related,
                tuple(range(len(self.rank))), both[0], both[1],
            )  # fmt: skip
            return edges(whole, self.cap).forward

        kept = self.numbering.links.setdefault(self.cap, KeptLinks())
        return keys, kept.move_on(self._lasting(keys), self._lasting(own), listed)

    def _classes(self, keys: Ints) -> Rows:
        size = len(self.linked)
        return _rows((keys % size).astype(np.int32), (keys // size).astype(np.int32), np.ones(len(keys), np.int64))

    def _lasting(self, keys: Ints) -> Ints:
        """Record classes under numbers that hold for the next candidate, too."""
        size, ranked = len(self.linked), np.argsort(self.rank)
        return (ranked[keys // size] << 32) + self.variants[keys % size]

    def _keys(self, one: Numbered) -> Ints:
        """Sensitive value and variant of each record class in one integer, which sorts as rows stand."""
        return self.rank[one.value] * len(self.linked) + self.place[one.variant]

    def pair(self, earlier: Known, others: Sequence[Known] = ()) -> tuple[Pair, Walk]:
        """What `models.attacks.pairs.pair` and `matching.walk` give for the two releases; variants may have other
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
            linked = known = _Part(self.linked, chosen, _recoding(len(self.items), item_codes))
            symbol_codes, known_chosen = item_codes, chosen
            known_of = np.arange(len(linked), dtype=np.int32)
        else:
            # Items are too many to be renumbered for each pair, and under which codes they are linked says nothing.
            items, linked = self.items, _Part(self.linked, chosen, np.arange(len(self.items), dtype=np.int32))
            symbol_codes = _union(len(self._seen.symbols), self._seen.symbol[item_codes])
            known_chosen, where = np.unique(self._seen.known_of[chosen], return_inverse=True)
            known_of = where.astype(np.int32)
            known = _Part(self._seen.known, known_chosen, _recoding(len(self._seen.symbols), symbol_codes))
            symbols = tuple(self._seen.symbols[code] for code in symbol_codes.tolist())
        value_codes = _union(len(self.rank), one.values, two.values)
        value_rank = _recoding(len(self.rank), value_codes)
        both = [self._local_rows(release, local, value_rank, known_of) for release in (one, two)]
        given = Pair(
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
        part = Part(self._walk, known_chosen, symbol_codes, self._lacking)
        first = self._seen.first[known_chosen]
        return given, Walk(first, len(symbol_codes), partial(self._after, symbol_codes), whole=part)

    def together(self, earlier: Sequence[Known]) -> Together:
        """Some of the earlier releases under one numbering of record classes. InputError where the linkable pairs are
        too many."""
        keys, (begins, later, least) = self._all_links
        own = np.unique(np.concatenate([self._keys(one.numbered) for one in earlier]))
        start, at = _slices(begins, np.searchsorted(keys, own))
        linkable = Edges(start, later[at], least[at], len(self.later.numbered.variant), self.cap)
        return Together(own, linkable, self._classes_of(own), *self._later_classes)

    @cached_property
    def _later_classes(self) -> tuple[_Classified, Ints]:
        keys = self._keys(self.later.numbered)
        order = np.argsort(keys)
        return self._classes_of(keys[order]), self.later.numbered.count[order]

    def _classes_of(self, keys: Ints) -> _Classified:
        linked, ranked = (keys % len(self.linked)).astype(np.int32), np.argsort(self.rank)
        return _Classified(linked, self._seen.known_of[linked], ranked[keys // len(self.linked)])

    def whole(self, together: Together, earlier: Known) -> tuple[Pair, Walk]:
        """The same as `pair` over the record classes of several earlier releases, most of which this one has no records
        of. From one of them to the next differ the records of each class, the alphabet and the names of values."""
        one, two, classes1, classes2 = earlier.numbered, self.later.numbered, together.earlier, together.later
        symbol_codes = self.alphabet(earlier)
        symbols = tuple(self._seen.symbols[code] for code in symbol_codes.tolist())
        value_codes = _union(len(self.rank), one.values, two.values)
        # Values that neither release shows have no records: under which code they stand says nothing.
        values = np.maximum(_recoding(len(self.rank), value_codes), 0)
        count = np.zeros(len(together.keys), dtype=np.int64)
        count[np.searchsorted(together.keys, self._keys(one))] = one.count
        recode = _recoding(len(self._seen.symbols), symbol_codes)
        shown = np.concatenate(([0], np.cumsum(recode >= 0))).astype(np.int64)
        given = Pair(
            items=self.items,
            linked=self.linked,
            link_related=self.related,
            alphabet=symbols,
            known_items=self._seen.symbols,
            known=self._seen.known,
            match_related=(shown, recode[recode >= 0]),
            values=tuple(self.value_names[code] for code in value_codes.tolist()),
            earlier=Rows(classes1.linked, classes1.known, values[classes1.value], count, one.row_of_case[:0]),
            later=Rows(classes2.linked, classes2.known, values[classes2.value], together.count, two.row_of_case[:0]),
        )
        part = Part(self._walk, np.arange(len(self._seen.first)), symbol_codes, self._lacking)
        return given, Walk(self._seen.first, len(symbol_codes), partial(self._after, symbol_codes), whole=part)

    def lookup(self, length: int) -> Lookup | None:
        """What background knowledge of up to so many symbols each variant given lacks; None where that is too much."""
        table = self._lacking.table(length)
        if table is None:
            return None
        row, used = np.full(len(self.place), -1, dtype=np.int32), self.place >= 0
        row[used] = self._seen.known_of[self.place[used]]
        return Lookup(table, columns_of(len(self._seen.symbols), length), len(self._seen.symbols), row)

    def alphabet(self, earlier: Known) -> Codes:
        """Symbols of a pair as `pair` orders them, by their place among all (`symbols`)."""
        item_codes = _union(len(self.items), earlier.numbered.items, self.later.numbered.items)
        return item_codes if self._seen.itself else _union(len(self._seen.symbols), self._seen.symbol[item_codes])

    @property
    def symbols(self) -> tuple[Any, ...]:
        """Of background knowledge, over all releases."""
        return self._seen.symbols

    def _local_rows(self, release: Numbered, local: Codes, value_rank: Codes, known_of: Codes) -> Rows:
        linked, value = local[self.place[release.variant]], value_rank[release.value]
        order = np.lexsort((linked, value))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = _rows(linked[order], value[order], release.count[order])
        return replace(rows, known=known_of[rows.linked], row_of_case=place[release.row_of_case])

    def edges(self, earlier: Known, given: Pair) -> Edges:
        """What `models.attacks.linkability.edges(given, cap)` gives, for the pair of that earlier release."""
        one, two = earlier.numbered, self.later.numbered
        shown = _union(len(self.rank), one.values, two.values)
        if np.any(np.diff(self.rank[shown[np.isin(shown, two.values)]]) < 0):
            return edges(given, self.cap)  # the candidate's rows stand in another order there
        keys, (begins, later, least) = self._all_links
        own = self._keys(one)
        value_rank = _recoding(len(self.rank), shown)
        order = np.lexsort((self.place[one.variant], value_rank[one.value]))
        start, at = _slices(begins, np.searchsorted(keys, own[order]))
        return Edges(start, later[at], least[at], len(given.later.linked), self.cap)


def _rows(linked: Codes, value: Codes, count: Ints) -> Rows:
    return Rows(linked, linked, value, count, np.empty(0, dtype=np.int32))


def _slices(begins: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Where the links of each of some rows begin once they stand alone, and where they all stand among all links."""
    begin, counts = begins[rows], np.diff(begins)[rows]
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return start, np.repeat(begin - start[:-1], counts) + np.arange(start[-1])


@content_free()
class _Classified(NamedTuple):
    """Record classes: variant, what is known of it, number of the sensitive value."""

    linked: Codes
    known: Codes
    value: Ints


@content_free()
@dataclass(frozen=True, slots=True)
class Together:
    """Record classes of several earlier releases and of the candidate: `keys` of the earlier ones, ascending; their
    links; the classes of both sides; `count`: records of those of the candidate."""

    keys: Ints
    linkable: Edges
    earlier: _Classified
    later: _Classified
    count: Ints


@content_free()
@dataclass(frozen=True, slots=True)
class _Seen:
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
    def of(cls, numbering: Numbering, known: Callable[[Any], Any] | None, linked: Sequences, variants: Ints) -> _Seen:
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
    """No item can stand for another one."""
    own = np.arange(size + 1, dtype=np.int64)
    return own, own[:-1].astype(np.int32)


def _union(size: int, *parts: Codes) -> Codes:
    """Codes below `size` in order of first appearance."""
    every = np.concatenate(parts)
    place = np.arange(len(every))
    first = np.empty(size, dtype=np.int64)
    first[every[::-1]] = place[::-1]  # of equal codes the last one written stands: the first one
    union: Codes = every[first[every] == place]
    return union


def _recoding(size: int, chosen: Codes) -> Codes:
    """Place of each code among those chosen, -1 for the others."""
    recode = np.full(size, -1, dtype=np.int32)
    recode[chosen] = np.arange(len(chosen), dtype=np.int32)
    return recode


class _Part(Sequences):
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
