"""One release and many earlier ones: the tables that their pairs share, and the attacks on all of them.

A pair of releases needs a common numbering, tables of next occurrences and the linkable pairs of record classes
(models.attacks.pairs, linkability). Between one candidate and all releases before it nearly all of this is
the same again: the releases show the same variants. So the variants of all of them are numbered together, the tables
are made once, the record classes of all earlier releases are linked to those of the candidate once, and each pair takes
its part. The result of a pair equals the result that it would compute alone; `tests/property/test_attacks_against.py`
compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.correspondence import AttackResult, PairAttack, result_without_linker
from models.attacks.linkability import LEAST, SUBSEQUENCE, Edges, KeptLinks, Runs, edges
from models.attacks.linker import (
    ANY_PAIR,
    RECORDS,
    ROW1,
    SUBSEQUENCE_PAIRS,
    BaseLinker,
    Linker,
    Scratch,
    base_linkers,
    copy_linker,
    give_back,
    link_equal,
    place_all,
    scratch_for,
)
from models.attacks.numbering import ClassColumns, Numbered, Numbering, SharedClasses
from models.attacks.obstacles import Obstacle, evident_obstacles
from models.attacks.pairs import (
    CELLS,
    LONGEST,
    NextOccurrences,
    PartOfTables,
    RecordClasses,
    ReleasePair,
    Sequences,
    identity_relation,
    next_occurrence_table,
)
from models.attacks.search import Minimum
from models.attacks.totals import SharedTotals, Table
from models.content_free import content_free
from models.errors import TooLargeError
from models.eventlog import Codes, Flags, Ints, SimpleLog, starts_of


@content_free()
@dataclass(frozen=True, slots=True)
class NumberedRelease:
    """A release, counted and numbered."""

    log: SimpleLog
    numbered: Numbered


class SharedPairs:
    """A candidate (the later release) and the earlier releases that it is compared with.

    For releases without a taxonomy. Three numberings meet here:

    * `numbering` numbers items, variants and sensitive values of the whole series, in order of appearance;
    * `place` numbers the variants of these releases alone, in lexicographic order (-1: of none of them);
    * `rank` numbers sensitive values, those of the candidate first.

    The key of a record class joins the last two in one integer that sorts as rows do: rank * variants + place.

    Parameters
    ----------
    numbering
        The numbering of the series.
    later, earlier
        The candidate and the releases before it.
    cap
        Largest n of linkable pairs.
    known_part
        Maps a carried item to the part that background knowledge covers. None: the item itself.

    Raises
    ------
    InputError
        If the tables for all releases together would not fit. A pair alone may fit then.
    """

    def __init__(
        self,
        numbering: Numbering,
        later: NumberedRelease,
        earlier: Sequence[NumberedRelease],
        cap: int,
        known_part: Callable[[Any], Any] | None = None,
    ) -> None:
        self.numbering, self.later, self.cap, self._known_part = numbering, later, cap, known_part
        self.earlier = list(earlier)
        self.items = tuple(numbering.items)
        self.related = identity_relation(len(self.items))

        is_used = np.zeros(len(numbering.variants), dtype=np.bool_)
        for release in (later, *earlier):
            is_used[release.numbered.variant] = True
        used = np.flatnonzero(is_used)
        self.linked, order = numbering.sequences(used)
        self.variants = used[order]  # number of the variant in each place
        self.place = np.full(len(numbering.variants), -1, dtype=np.int32)
        self.place[self.variants] = np.arange(len(used), dtype=np.int32)

        values = dict.fromkeys([*later.numbered.values.tolist(), *range(len(numbering.values))])
        self.value_of_rank = np.asarray(list(values), dtype=np.int64)
        self.rank = np.empty(len(values), dtype=np.int64)
        self.rank[self.value_of_rank] = np.arange(len(values))
        self.value_names = tuple(numbering.values)

        self._view = _KnowledgeView.of(numbering, known_part, self.linked, self.variants)
        self._after_by_alphabet: dict[bytes, npt.NDArray[np.int16]] = {}

    # --- Tables of background knowledge ---

    @cached_property
    def _occurrences(self) -> NextOccurrences:
        """Next occurrences of all symbols in the variants of all releases."""
        symbols = len(self._view.symbols)
        make = partial(next_occurrence_table, self._view.known_variants, identity_relation(symbols), symbols)
        return NextOccurrences(self._view.first, symbols, make)

    @cached_property
    def _shared_totals(self) -> SharedTotals:
        kept = self.numbering.kept_tables.setdefault(self._known_part, {})
        return SharedTotals(self._view.known_variants, len(self._view.symbols), self._view.numbers, kept)

    def table(self, length: int) -> Table | None:
        """Return the unmatched symbols of each known variant by background knowledge (`SharedTotals.table`).

        None if the background knowledge of up to `length` symbols does not fit into one table.

        Parameters
        ----------
        length
            Symbols of the longest background knowledge.
        """
        return self._shared_totals.table(length)

    def has_table(self, length: int) -> bool:
        """Return whether the background knowledge of up to `length` symbols fits into one table.

        Parameters
        ----------
        length
            Symbols of the longest background knowledge.
        """
        return self.table(length) is not None

    @property
    def n_known(self) -> int:
        """Number of known variants of all releases."""
        return len(self._view.known_variants)

    def known_of_case(self, release: NumberedRelease) -> Codes:
        """Return the known variant of each case of a release, int32[cases].

        Parameters
        ----------
        release
            The candidate or one of the earlier releases.
        """
        numbered = release.numbered
        return self._view.known_of[self.place[numbered.variant]][numbered.row_of_case]

    def is_symbol(self, earlier: NumberedRelease) -> npt.NDArray[np.bool_]:
        """Return which symbols of background knowledge the pair of an earlier release shows, bool[symbols].

        Parameters
        ----------
        earlier
            One of the earlier releases.
        """
        shown = np.zeros(len(self._view.symbols), dtype=np.bool_)
        for release in (earlier, self.later):
            shown[self._view.symbol[release.numbered.items]] = True
        return shown

    def knowledge(self, column: int, starts: Ints) -> list[Any]:
        """Return the symbols of the background knowledge in a column of the table.

        Parameters
        ----------
        column
            Column of the table.
        starts
            int64[length + 1], column at which each length begins (`totals.column_starts`).
        """
        length = int(np.searchsorted(starts, column, side="right"))
        number, symbols = column - int(starts[length - 1]), len(self._view.symbols)
        codes: list[int] = []
        for _ in range(length):
            number, code = divmod(number, symbols)
            codes.append(code)
        return [self._view.symbols[code] for code in reversed(codes)]

    def _after(self, alphabet: Codes) -> npt.NDArray[np.int16]:
        """Return `NextOccurrences.after` over all variants, with a column for each symbol of an alphabet."""
        key = alphabet.tobytes()
        if key not in self._after_by_alphabet:
            after = self._occurrences.after
            if not np.array_equal(alphabet, np.arange(after.shape[1])):
                after = np.ascontiguousarray(after[:, alphabet])
            self._after_by_alphabet[key] = after
        return self._after_by_alphabet[key]

    def _part_of_tables(self, variants: Ints, symbol_codes: Codes) -> NextOccurrences:
        """Return the tables of some known variants and of one alphabet, as a part of those of all releases."""
        part = PartOfTables(self._occurrences, variants, symbol_codes, self._shared_totals)
        first = self._view.first[variants]
        return NextOccurrences(first, len(symbol_codes), partial(self._after, symbol_codes), part_of=part)

    # --- Links between record classes ---

    @cached_property
    def _all_links(self) -> tuple[Ints, Runs]:
        """Key of each record class of any earlier release, and its links to the classes of the candidate."""
        keys1 = np.unique(np.concatenate([self._keys(release.numbered) for release in self.earlier]))
        keys2 = np.sort(self._keys(self.later.numbered))

        def list_links(rows1: Ints, rows2: Ints) -> Runs:
            pair = ReleasePair(
                items=self.items,
                linked=self.linked,
                link_related=self.related,
                alphabet=self.items,
                known_items=self.items,
                known_variants=self.linked,
                match_related=self.related,
                values=tuple(range(len(self.rank))),
                earlier=self._classes_with_links_only(keys1[rows1]),
                later=self._classes_with_links_only(keys2[rows2]),
            )
            return edges(pair, self.cap).runs

        kept = self.numbering.links.setdefault(self.cap, KeptLinks())
        return keys1, kept.move_on(self._lasting_keys(keys1), self._lasting_keys(keys2), list_links)

    def _classes_with_links_only(self, keys: Ints) -> RecordClasses:
        """Return record classes to be linked; their known variants and counts mean nothing."""
        rank, place = np.divmod(keys, len(self.linked))
        place = place.astype(np.int32)
        no_cases, count = np.empty(0, dtype=np.int32), np.ones(len(keys), dtype=np.int64)
        return RecordClasses(place, place, rank.astype(np.int32), count, no_cases)

    def _keys(self, release: Numbered) -> Ints:
        """Return the key of each record class of a release."""
        return self.rank[release.value] * len(self.linked) + self.place[release.variant]

    def _lasting_keys(self, keys: Ints) -> Ints:
        """Return keys of the same classes that hold for the next candidate, too: numbers of the series."""
        rank, place = np.divmod(keys, len(self.linked))
        return (self.value_of_rank[rank] << 32) + self.variants[place]

    def edges(self, earlier: NumberedRelease, pair: ReleasePair) -> Edges:
        """Return `linkability.edges(pair, cap)` for the pair of an earlier release, from the links of all of them.

        Parameters
        ----------
        earlier
            One of the earlier releases.
        pair
            This release and the candidate, as `pair` returns them.
        """
        numbered1, numbered2 = earlier.numbered, self.later.numbered
        value_codes = _union(len(self.rank), numbered1.values, numbered2.values)
        ranks_of_later = self.rank[value_codes[np.isin(value_codes, numbered2.values)]]
        if np.any(np.diff(ranks_of_later) < 0):
            return edges(pair, self.cap)  # the candidate's rows have another order in this pair
        keys, runs = self._all_links
        value_rank = _recoding(len(self.rank), value_codes)
        order = np.lexsort((self.place[numbered1.variant], value_rank[numbered1.value]))
        return Edges(*_of_rows(runs, np.searchsorted(keys, self._keys(numbered1)[order])), self.cap)

    # --- One pair ---

    def pair(
        self, earlier: NumberedRelease, further_releases: Sequence[NumberedRelease] = ()
    ) -> tuple[ReleasePair, NextOccurrences]:
        """Return what `join_releases` and `next_occurrences` return for the candidate and one earlier release.

        Items, variants and their numbers are those of all releases; background knowledge has an alphabet and variants
        of its own.

        Parameters
        ----------
        earlier
            One of the earlier releases, or the candidate itself.
        further_releases
            Releases whose items belong to the alphabet as well, in this order.
        """
        numbered1, numbered2, view = earlier.numbered, self.later.numbered, self._view
        other_items = [other.numbered.items for other in further_releases]
        shown = _union(len(self.items), numbered1.items, *other_items, numbered2.items)
        symbol_codes = self._symbol_codes(shown)
        symbols = tuple(view.symbols[code] for code in symbol_codes.tolist())

        is_known = np.zeros(len(view.known_variants), dtype=np.bool_)
        for release in (numbered1, numbered2):
            is_known[view.known_of[self.place[release.variant]]] = True
        known_variants = np.flatnonzero(is_known)
        known_of = _recoding(len(view.known_variants), known_variants)[view.known_of]

        value_codes = _union(len(self.rank), numbered1.values, numbered2.values)
        value_code = _recoding(len(self.rank), value_codes)
        pair = ReleasePair(
            items=self.items,
            linked=self.linked,
            link_related=self.related,
            alphabet=symbols,
            known_items=symbols,
            known_variants=_some_sequences(
                view.known_variants, known_variants, _recoding(len(view.symbols), symbol_codes)
            ),
            match_related=identity_relation(len(symbols)),
            values=tuple(self.value_names[code] for code in value_codes.tolist()),
            earlier=self._rows(numbered1, value_code, known_of),
            later=self._rows(numbered2, value_code, known_of),
        )
        return pair, self._part_of_tables(known_variants, symbol_codes)

    def _rows(self, release: Numbered, value_code: Codes, known_of: Codes) -> RecordClasses:
        """Return the record classes of a release, as rows of a pair."""
        linked, value = self.place[release.variant], value_code[release.value]
        return RecordClasses.of(linked, known_of, value, release.count, release.row_of_case)

    def _symbol_codes(self, item_codes: Codes) -> Codes:
        """Return the symbols of background knowledge that some items are seen as, in order of first appearance."""
        return _union(len(self._view.symbols), self._view.symbol[item_codes])

    # --- Many pairs, under one numbering of record classes ---

    def shared_classes(self, earlier: Sequence[NumberedRelease]) -> SharedClasses:
        """Return one numbering of the record classes of some earlier releases.

        Parameters
        ----------
        earlier
            Some of the earlier releases.

        Raises
        ------
        InputError
            If the linkable pairs are too many.
        """
        keys, runs = self._all_links
        keys_of_these = np.unique(np.concatenate([self._keys(release.numbered) for release in earlier]))
        linkable = Edges(*_of_rows(runs, np.searchsorted(keys, keys_of_these)), self.cap)
        return SharedClasses(keys_of_these, linkable, self._class_columns(keys_of_these), *self._later_classes)

    @cached_property
    def _later_classes(self) -> tuple[ClassColumns, Ints]:
        """The record classes of the candidate in the order of their keys, and their records."""
        keys = self._keys(self.later.numbered)
        order = np.argsort(keys)
        return self._class_columns(keys[order]), self.later.numbered.count[order]

    def _class_columns(self, keys: Ints) -> ClassColumns:
        rank, place = np.divmod(keys, len(self.linked))
        linked = place.astype(np.int32)
        return ClassColumns(linked, self._view.known_of[linked], self.value_of_rank[rank])

    def pair_among(
        self,
        classes: SharedClasses,
        earlier: NumberedRelease,
    ) -> tuple[ReleasePair, NextOccurrences]:
        """Return the same as `pair`, over the record classes of several earlier releases.

        This release has no records of most of them. From one release to the next only the records of each class, the
        alphabet, and the names of values differ.

        Parameters
        ----------
        classes
            Record classes of several earlier releases (`shared_classes`).
        earlier
            One of these releases.

        Returns
        -------
        pair
            The release and the candidate.
        table
            Next occurrences of its symbols.
        """
        numbered1, numbered2, view = earlier.numbered, self.later.numbered, self._view
        classes1, classes2 = classes.earlier, classes.later
        symbol_codes = self._symbol_codes(_union(len(self.items), numbered1.items, numbered2.items))
        symbols = tuple(view.symbols[code] for code in symbol_codes.tolist())

        # A symbol of other releases alone is known, but no symbol of this pair: it is related to none.
        code_of_symbol = _recoding(len(view.symbols), symbol_codes)
        is_symbol = code_of_symbol >= 0
        related_start = starts_of(is_symbol)

        # Values that neither release shows have no records here: their code has no meaning.
        value_codes = _union(len(self.rank), numbered1.values, numbered2.values)
        value_code = np.maximum(_recoding(len(self.rank), value_codes), 0)
        count = np.zeros(len(classes.keys), dtype=np.int64)
        count[np.searchsorted(classes.keys, self._keys(numbered1))] = numbered1.count
        no_cases = numbered1.row_of_case[:0]
        value1, value2 = value_code[classes1.value], value_code[classes2.value]
        pair = ReleasePair(
            items=self.items,
            linked=self.linked,
            link_related=self.related,
            alphabet=symbols,
            known_items=view.symbols,
            known_variants=view.known_variants,
            match_related=(related_start, code_of_symbol[is_symbol]),
            values=tuple(self.value_names[code] for code in value_codes.tolist()),
            earlier=RecordClasses(classes1.linked, classes1.known_variant, value1, count, no_cases),
            later=RecordClasses(classes2.linked, classes2.known_variant, value2, classes.count, no_cases),
        )
        return pair, self._part_of_tables(np.arange(len(view.known_variants)), symbol_codes)


@content_free()
@dataclass(frozen=True, slots=True)
class _KnowledgeView:
    """The variants of all releases as background knowledge sees them.

    Parameters
    ----------
    symbols
        Symbols of background knowledge.
    symbol
        int32[items], the symbol that each item is seen as.
    known_variants
        Distinct sequences of symbols.
    known_of
        int32[linked variants], which of them each variant is seen as.
    numbers
        int64[known variants], their numbers in the numbering of the series.
    first
        int64[known variants], where each begins in the tables of next occurrences.
    """

    symbols: tuple[Any, ...]
    symbol: Codes
    known_variants: Sequences
    known_of: Codes
    numbers: Ints
    first: Ints

    @classmethod
    def of(
        cls, numbering: Numbering, known_part: Callable[[Any], Any] | None, linked: Sequences, variants: Ints
    ) -> _KnowledgeView:
        """Return the view of the sequences `linked`, whose numbers are `variants`.

        Raises
        ------
        InputError
            If the tables of next occurrences would not fit.
        """
        if known_part is None:
            symbols, symbol = tuple(numbering.items), np.arange(len(numbering.items), dtype=np.int32)
            sequences, known_of, numbers = linked, np.arange(len(linked)), variants
        else:
            projected = numbering.seen_as(known_part)
            symbols, symbol = tuple(projected.symbols), projected.symbol
            numbers, known_of = np.unique(projected.variant[variants], return_inverse=True)
            numbers = numbers.astype(np.int64)
            sequences = projected.sequences(numbers)
        lengths = np.diff(sequences.start)
        positions = int(lengths.sum() + len(lengths))
        if positions * max(1, len(symbols)) > CELLS or int(lengths.max(initial=0)) > LONGEST:
            raise TooLargeError("the variants of all releases together need more than fit")
        first = sequences.first_positions
        return cls(symbols, symbol, sequences, known_of.astype(np.int32), numbers, first)


def _union(size: int, *parts: Codes) -> Codes:
    """Return the distinct codes (below `size`) in order of first appearance."""
    codes = np.concatenate(parts)
    place = np.arange(len(codes))
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = place[::-1]  # of equal codes the last write remains, which is the first place
    union: Codes = codes[first[codes] == place]
    return union


def _recoding(size: int, chosen: Ints | Codes) -> Codes:
    """Return the place of each code (below `size`) among those chosen, -1 for the others."""
    recode = np.full(size, -1, dtype=np.int32)
    recode[chosen] = np.arange(len(chosen), dtype=np.int32)
    return recode


def _slices(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the start of some rows among themselves, and the place of their elements among those of all rows."""
    lengths = np.diff(start)[rows]
    own_start = starts_of(lengths)
    places = np.repeat(start[rows] - own_start[:-1], lengths) + np.arange(own_start[-1])
    return own_start, places


def _of_rows(links: Runs, rows: Ints) -> Runs:
    """Return the links of some earlier rows."""
    all_start, begin, end, least = links
    start, places = _slices(all_start, rows)
    return start, begin[places], end[places], least[places]


def _some_sequences(sequences: Sequences, chosen: Ints, code_of_item: Codes) -> Sequences:
    """Return some of the sequences, with other codes for their items."""
    start, places = _slices(sequences.start, chosen)
    return Sequences(code_of_item[sequences.items[places]], start)


# --- Linkers that follow a series ---


@content_free("n")
@dataclass
class FollowedLinker:
    """The base linker of one n, which moves from one earlier release of a series to the next.

    A base linker takes most of the time of a pair: it places every record of the earlier release. Between neighbours
    of a series few records differ. So the links of records that the next release does not hold are taken out, the
    other records that it holds find their place, and all other links stay. The result of a search does not depend on
    the linker that it starts from.

    Parameters
    ----------
    n
        Events removed at most.
    classes
        The record classes among which the linker moves.
    linker
        Its arrays, for this n alone.
    count
        int64[earlier classes], records that it holds.
    excess
        int64[earlier classes], those of them without a partner.
    """

    n: int
    classes: SharedClasses
    linker: Linker
    count: Ints
    excess: Ints
    _links: Runs = field(init=False)
    _subsequence_links: Runs = field(init=False)

    def __post_init__(self) -> None:
        """Select the links of this n."""
        self._select_links()

    @classmethod
    def each(
        cls, pair: ReleasePair, classes: SharedClasses, ns: Sequence[int], records: int
    ) -> Iterator[FollowedLinker]:
        """Yield one for each n, ascending, that holds the earlier release of `pair`.

        Parameters
        ----------
        pair
            The first earlier release and the candidate, over `classes`.
        classes
            Record classes of several earlier releases.
        ns
            Events removed from a case at most.
        records
            The most records of any release of the series.
        """
        for base in base_linkers(pair, classes.linkable, ns, records):
            yield cls(base.n, classes, copy_linker(base.linker), pair.earlier.count, base.excess)

    def move_to(self, pair: ReleasePair, classes: SharedClasses, scratch: Scratch) -> BaseLinker:
        """Return the base linker of another earlier release. Use it before the next move.

        Parameters
        ----------
        pair
            This earlier release and the candidate, over `classes`.
        classes
            Record classes, among them those of the release that the linker holds now.
        scratch
            Arrays for the searches.
        """
        if classes is not self.classes:
            self._renumber(classes)
        count = pair.earlier.count
        give_back(self.linker, self.count, count, self.excess)
        scratch.excess[:] = np.maximum(count - self.count, 0)
        link_equal(self.linker, self._links, pair.earlier.linked, pair.later.linked, scratch.excess)
        everywhere = np.zeros(1, dtype=np.bool_)  # no matching sets: any record may go anywhere
        if self.n > 0:  # without removed events all links are subsequence pairs
            links = self._subsequence_links
            place_all(self.linker, links, self.n, SUBSEQUENCE_PAIRS, everywhere, everywhere, scratch)
        scratch.excess[:] += self.excess
        unplaced = place_all(self.linker, self._links, self.n, ANY_PAIR, everywhere, everywhere, scratch)
        base = BaseLinker.of(self.linker, classes.linkable, self.n, int(unplaced), scratch)
        self.count, self.excess = count, base.excess
        return base

    def _select_links(self) -> None:
        """Select the links of this n once, so that no search passes over those of a larger n."""
        linkable = self.classes.linkable
        self._links = _selected(linkable.runs, (linkable.least & LEAST) <= self.n)
        self._subsequence_links = self._links
        if self.n > 0:
            *_, least = self._links
            self._subsequence_links = _selected(self._links, (least & SUBSEQUENCE) != 0)

    def _renumber(self, classes: SharedClasses) -> None:
        """Go on among other record classes; those that both numberings have keep their links."""
        old_keys, new_keys = self.classes.keys, classes.keys
        self.classes = classes
        self._select_links()
        stay = np.flatnonzero(np.isin(old_keys, new_keys))
        new_row = np.full(len(old_keys), -1, dtype=np.int64)
        new_row[stay] = np.searchsorted(new_keys, old_keys[stay])
        count = np.zeros(len(new_keys), dtype=np.int64)
        excess = np.zeros(len(new_keys), dtype=np.int64)
        head1 = np.full(len(new_keys), -1, dtype=np.int64)
        count[new_row[stay]] = self.count[stay]
        excess[new_row[stay]] = self.excess[stay]
        head1[new_row[stay]] = self.linker.head1[stay]
        used = self.linker.pairs[:, RECORDS] > 0
        self.linker.pairs[used, ROW1] = new_row[self.linker.pairs[used, ROW1]]
        self.count, self.excess, self.linker = count, excess, self.linker._replace(head1=head1)


def _selected(links: Runs, chosen: Flags) -> Runs:
    """Return some of the runs, in their order."""
    start, begin, end, least = links
    chosen_before = starts_of(chosen)
    return chosen_before[start], begin[chosen], end[chosen], least[chosen]


BLOCK = 16
"""Earlier releases whose classes are numbered together.

A larger block makes each search pass by more classes, a smaller one makes more numberings. Between 8 and 32 the cuts of
BPIC 2012 cost the same."""


def followed_attacks(
    against: SharedPairs,
    earlier: Sequence[NumberedRelease],
    bk_length: int,
    ns: Sequence[int],
    minimum: Minimum,
    alone: Callable[[int], PairAttack],
) -> list[list[AttackResult]]:
    """Return the exact minima of each earlier release for each n, by linkers that follow the series.

    They equal what `PairAttack.run` returns for each pair alone: a search does not depend on the linker that it starts
    from. `tests/property/test_attacks_followed_linkers.py` compares both. Only the witness of a missing linker depends
    on it; if it is not evident, the pair alone is asked.

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
    most_records = max(int(release.numbered.count.sum()) for release in earlier)
    linkers: list[FollowedLinker] = []
    results: list[list[AttackResult]] = []
    for place, classes in _backwards(against, earlier):
        pair, table = against.pair_among(classes, earlier[place])
        if not linkers:
            linkers = list(FollowedLinker.each(pair, classes, ns, most_records))
        attack = PairAttack(pair, bk_length, ns, "exact", minimum, table, linkable=classes.linkable, least_n=False)
        scratch = scratch_for(len(pair.earlier.count), len(pair.later.count))
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

    A numbering holds BLOCK releases and the one behind them, whose linkers continue in it:

        41 releases     0 .. 8     9 .. 24     25 .. 40
        numbering of    0 .. 9     9 .. 25     25 .. 40
    """
    for end in range(len(earlier), 0, -BLOCK):
        begin = max(0, end - BLOCK)
        classes = against.shared_classes(earlier[begin : end + 1])
        for place in range(end - 1, begin - 1, -1):
            yield place, classes


def _unlinkable(
    ns: Sequence[int], witnesses: Sequence[list[Obstacle] | None], alone: Callable[[], PairAttack]
) -> Iterator[AttackResult]:
    """Yield the results of the n without a linker, from the pair alone if a witness is not evident."""
    evident = [witness for witness in witnesses if witness is not None]
    if len(evident) == len(ns):
        yield from map(result_without_linker, ns, evident)
    else:
        attack = alone()
        yield from map(attack.least, base_linkers(attack.pair, attack.linkable, ns))
