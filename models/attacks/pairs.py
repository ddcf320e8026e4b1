"""Two releases side by side: one numbering of variants and sensitive values, and tables of next occurrences.

Linkability reads every item that a release carries; background knowledge reads the audited attribute only. So a
record has two sequences: the carried items (`linked`) and what an adversary may know of them (`known`), the second a
projection of the first, item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from models.compiled import inlined_part, kernel, part
from models.content_free import content_free
from models.errors import InputError, TooLargeError
from models.eventlog import Codes, Ints, SimpleLog, places_of, starts_of

# --- Generalization by a taxonomy ---
#
# With a given taxonomy of activities, a released activity may mean any of its specializations. The taxonomy maps an
# activity to its generalization (child -> parent); it is a forest of any depth.
#
# Source: correspondence-attacks-2021, section 4 ("similar attack analysis can be done for the generalization
# operation").


def ancestors(item: Any, taxonomy: Mapping[Any, Any] | None) -> Iterator[Any]:
    """Yield the item itself and all that generalizes it, from special to general.

    Parameters
    ----------
    item
        An activity.
    taxonomy
        Generalization of each activity (child -> parent); None: there is none.

    Raises
    ------
    InputError
        If the taxonomy has a cycle.
    """
    seen = set()
    while True:
        if item in seen:
            raise InputError("the taxonomy has a cycle")
        seen.add(item)
        yield item
        if not taxonomy or item not in taxonomy:
            return
        item = taxonomy[item]


def are_related(item: Any, other: Any, taxonomy: Mapping[Any, Any] | None) -> bool:
    """Return whether two released items may mean one activity: one generalizes the other (in a forest).

    Parameters
    ----------
    item, other
        Released items.
    taxonomy
        Generalization of each activity (child -> parent). None: only equal items are related.
    """
    return item in ancestors(other, taxonomy) or other in ancestors(item, taxonomy)


def leaves(items: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> tuple[Any, ...]:
    """Return the most special activities that the items may mean; without a taxonomy the items.

    Parameters
    ----------
    items
        Items that a release shows.
    taxonomy
        Generalization of each activity (child -> parent).
    """
    if not taxonomy:
        return tuple(items)
    nodes = dict.fromkeys([*items, *taxonomy, *taxonomy.values()])
    parents = set(taxonomy.values())
    shown = set(items)
    special_nodes = [node for node in nodes if node not in parents]
    return tuple(node for node in special_nodes if not shown.isdisjoint(ancestors(node, taxonomy)))


def specializations(item: Any, symbols: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> list[Any]:
    """Return the symbols that `item` may mean.

    Parameters
    ----------
    item
        A released item.
    symbols
        Symbols of background knowledge.
    taxonomy
        Generalization of each activity (child -> parent). None: an item means itself.
    """
    if not taxonomy:
        return [item]
    return [symbol for symbol in symbols if item in ancestors(symbol, taxonomy)]


FOREIGN = "*"
"""The symbol for an activity that no release shows."""

KEY = np.dtype(">i4")
"""The type by which a sequence is written as bytes: big-endian, so that bytes sort as the item codes do."""


@content_free()
@dataclass(frozen=True, slots=True)
class Sequences:
    """Distinct sequences end to end: sequence v is `items[start[v]:start[v + 1]]`.

    Attributes
    ----------
    items
        int32, item codes of all sequences.
    start
        int64[sequences + 1], where each begins.
    """

    items: Codes
    start: Ints

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Put sequences of item codes end to end.

        Parameters
        ----------
        sequences
            Item codes of each sequence.
        """
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        flat = np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum()))
        return cls(flat, starts_of(lengths))

    @classmethod
    def of_keys(cls, keys: Collection[bytes]) -> Sequences:
        """Return the sequences that `keys` wrote.

        Parameters
        ----------
        keys
            Sequences as bytes, as `Sequences.keys` writes them.
        """
        lengths = np.fromiter(map(len, keys), np.int64, len(keys)) // KEY.itemsize
        return cls(np.frombuffer(b"".join(keys), KEY).astype(np.int32), starts_of(lengths))

    def keys(self, code: Codes) -> list[bytes]:
        """Return each sequence as bytes, item i written as code[i]; keys are in the order of their sequences.

        Parameters
        ----------
        code
            int32[items], the code by which each item is written, at least 0.
        """
        written = code[self.items].astype(KEY).tobytes()
        return [written[a:b] for a, b in pairwise((self.start * KEY.itemsize).tolist())]

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.start) - 1

    def take(self, numbers: Ints) -> Sequences:
        """Return some of the sequences, in the given order.

        Parameters
        ----------
        numbers
            int64, places of sequences; one may be named more than once.
        """
        start, places = places_of(self.start, numbers)
        return Sequences(self.items[places], start)

    @property
    def first_positions(self) -> Ints:
        """Place of the first position of each sequence, int64[len]; n items have n + 1 positions."""
        return (self.start[:-1] + np.arange(len(self))).astype(np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class RecordClasses:
    """Record classes of one release: the records with one sensitive value and one linked variant.

    They are sorted by sensitive value and then variant.

    Parameters
    ----------
    linked, known_variant
        int32[R], variant that linkability reads, and variant that background knowledge sees.
    value
        int32[R], code of the sensitive value.
    count
        int64[R], records.
    row_of_case
        int32[C], record class of each case.
    """

    linked: Codes
    known_variant: Codes
    value: Codes
    count: Ints
    row_of_case: Codes

    @classmethod
    def of(
        cls,
        linked: Codes,
        known_of: Codes,
        value: Codes,
        count: Ints,
        row_of_case: Codes,
    ) -> RecordClasses:
        """Sort record classes by sensitive value and linked variant.

        Parameters
        ----------
        linked, value, count, row_of_case
            As the attributes, in any order of the classes.
        known_of
            int32[linked variants], the known variant of each.
        """
        order = np.lexsort((linked, value))
        row_of_class = np.empty(len(order), dtype=np.int32)
        row_of_class[order] = np.arange(len(order), dtype=np.int32)
        linked = linked[order]
        return cls(linked, known_of[linked], value[order], count[order], row_of_class[row_of_case])

    @property
    def n_cases(self) -> int:
        """Number of records."""
        return int(self.count.sum())

    def per_known(self, variants: int) -> Ints:
        """Return int64[variants]: records of each known variant.

        Parameters
        ----------
        variants
            Number of known variants.
        """
        return np.bincount(self.known_variant, weights=self.count, minlength=variants).astype(np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class ReleasePair:
    """An earlier and a later release under one numbering.

    Relations are start and related items, as `Sequences`: item i is related to `related[start[i]:start[i + 1]]`.

    Parameters
    ----------
    items
        Union of the carried items.
    linked
        Variants over `items`. Rows of one sensitive value are in lexicographic order of these.
    link_related
        For each item the items that may mean the same activity; without a taxonomy itself alone.
    alphabet
        Symbols of background knowledge.
    known_items, known_variants
        Items as background knowledge sees them, and the variants over these.
    match_related
        For each known item the symbols that it may mean.
    values
        Sensitive values.
    earlier, later
        Record classes of both releases.
    """

    items: tuple[Any, ...]
    linked: Sequences
    link_related: tuple[Ints, Codes]
    alphabet: tuple[Any, ...]
    known_items: tuple[Any, ...]
    known_variants: Sequences
    match_related: tuple[Ints, Codes]
    values: tuple[Any, ...]
    earlier: RecordClasses
    later: RecordClasses

    @property
    def n_known(self) -> int:
        """Number of known variants."""
        return len(self.known_variants)


def join_releases(
    earlier: SimpleLog,
    later: SimpleLog,
    *,
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> ReleasePair:
    """Bring two simple logs under one numbering.

    Parameters
    ----------
    earlier, later
        Simple logs over every item that the releases carry.
    known
        Maps a carried item to the part that background knowledge can cover. None: the item itself.
    taxonomy
        Maps an activity to its generalization (child -> parent). Background knowledge is then over the most special
        activities.
    foreign
        Whether background knowledge may hold one activity that no release shows.

    Raises
    ------
    InputError
        If the taxonomy has a cycle, or is used with `known`.
    """
    items = _union(earlier.alphabet, later.alphabet)
    seen_as = items if known is None else tuple(known(item) for item in items)
    known_items = _union(seen_as)
    values = {value: code for code, value in enumerate(_union(earlier.values, later.values))}

    # In lexicographic order rows that begin alike are neighbours, which linkability reads once.
    keys1, keys2 = _variant_keys(earlier, items), _variant_keys(later, items)
    distinct = sorted({key for key in (*keys1, *keys2) if key is not None})
    number: dict[bytes | None, int] = {key: code for code, key in enumerate(distinct)}
    variants1 = np.asarray([number.get(key, -1) for key in keys1], dtype=np.int32)
    variants2 = np.asarray([number.get(key, -1) for key in keys2], dtype=np.int32)

    linked = Sequences.of_keys(distinct)
    code_of = {item: code for code, item in enumerate(known_items)}
    projected, known_of = _projected(linked, np.asarray([code_of[item] for item in seen_as], dtype=np.int32))
    symbols = leaves(known_items, taxonomy) + ((FOREIGN,) if foreign else ())
    return ReleasePair(
        items=items,
        linked=linked,
        link_related=_relation(items, taxonomy, known),
        alphabet=symbols,
        known_items=known_items,
        known_variants=projected,
        match_related=_symbols_of(known_items, symbols, taxonomy),
        values=tuple(values),
        earlier=_rows(earlier, variants1, known_of, values),
        later=_rows(later, variants2, known_of, values),
    )


def _union(*alphabets: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item for alphabet in alphabets for item in alphabet))


def _variant_keys(log: SimpleLog, items: tuple[Any, ...]) -> list[bytes | None]:
    """Return the key of each variant over the common items, or None if no record has the variant."""
    code_of = {item: code for code, item in enumerate(items)}
    codes = np.asarray([code_of[item] for item in log.alphabet], dtype=np.int32)
    is_used = np.bincount(log.variant, minlength=len(log.variants)) > 0
    keys = Sequences.of(log.variants).keys(codes)
    return [key if used else None for key, used in zip(keys, is_used.tolist(), strict=True)]


def _projected(linked: Sequences, project: Codes) -> tuple[Sequences, Codes]:
    """Return the distinct projections of the linked variants, and which of them each variant has."""
    if np.array_equal(project, np.arange(len(project))):
        return linked, np.arange(len(linked), dtype=np.int32)
    distinct: dict[bytes, int] = {}
    known_of = [distinct.setdefault(key, len(distinct)) for key in linked.keys(project)]
    return Sequences.of_keys(distinct), np.asarray(known_of, dtype=np.int32)


def _rows(log: SimpleLog, variants: Codes, known_of: Codes, values: Mapping[Any, int]) -> RecordClasses:
    value = np.asarray([values[name] for name in log.values], dtype=np.int32)[log.value]
    return RecordClasses.of(variants[log.variant], known_of, value, log.count, log.row_of_case)


def _relation(
    items: tuple[Any, ...], taxonomy: Mapping[Any, Any] | None, known_part: Callable[[Any], Any] | None
) -> tuple[Ints, Codes]:
    if not taxonomy:
        return np.arange(len(items) + 1, dtype=np.int64), np.arange(len(items), dtype=np.int32)
    if known_part is not None:
        raise InputError("a taxonomy applies to releases that carry activities only")
    related = [_related_codes(item, items, taxonomy) for item in items]
    return _relation_of(related)


def _related_codes(item: Any, items: tuple[Any, ...], taxonomy: Mapping[Any, Any]) -> list[int]:
    return [code for code, other in enumerate(items) if are_related(item, other, taxonomy)]


def _symbols_of(
    known_items: tuple[Any, ...], symbols: tuple[Any, ...], taxonomy: Mapping[Any, Any] | None
) -> tuple[Ints, Codes]:
    """Return for each known item the symbols that it may mean."""
    code_of = {symbol: code for code, symbol in enumerate(symbols)}
    meanings = [specializations(item, symbols, taxonomy) for item in known_items]
    return _relation_of([[code_of[symbol] for symbol in meant] for meant in meanings])


def _relation_of(related: list[list[int]]) -> tuple[Ints, Codes]:
    """Return start and related items (see `ReleasePair`)."""
    joined = Sequences.of(related)
    return joined.start, joined.items


def encode(pair: ReleasePair, bk: Sequence[Any]) -> npt.NDArray[np.int32]:
    """Return the symbol codes of a candidate, int32[symbols].

    Parameters
    ----------
    pair
        The two releases.
    bk
        Symbols of `pair.alphabet`.

    Raises
    ------
    InputError
        If an activity occurs in none of the releases; it names the place, not the activity.
    """
    index = {symbol: code for code, symbol in enumerate(pair.alphabet)}
    for place, symbol in enumerate(bk, start=1):
        if symbol not in index:
            raise InputError(f"background knowledge: activity {place} of {len(bk)} occurs in none of the releases")
    return np.asarray([index[symbol] for symbol in bk], dtype=np.int32)


# --- Matching sets (Def. 8, Theorem 1) ---
#
# The records that can belong to a case of which background knowledge (bk) is known: a record is in ms^n(bk) iff
# |bk| - LCS(bk, trace) <= n. For each variant a walk over bk keeps `position[k]`, the earliest position that it can
# have reached with k symbols of bk unmatched:
#
#     position'[k] = min(after[position[k]][symbol], position[k - 1])

LONGEST = 32_000
"""Positions are int16, two bytes per position and symbol: a longer trace would overflow them silently."""

CELLS = 1 << 30
"""Most cells of `NextOccurrences.after` (2 GiB). With more, the system would end the program without a message."""


@content_free("symbols")
@dataclass(frozen=True)
class NextOccurrences:
    """Next occurrence of each symbol in each known variant.

    `after[first[v] + p, a]` is the position after the next symbol a at or after position p of variant v, -1 if there
    is none. For variant v = `aba` and symbols a, b:

        p          0  1  2  3
        after a    1  3  3 -1
        after b    2  2 -1 -1

    Parameters
    ----------
    first
        int64[variants], row of position 0 of each variant.
    symbols
        Number of symbols.
    make
        Returns `after`. It is called at the first use, since a part of larger tables often needs no table of its own.
    answers
        Answers of `unmatched`, which several measures and several n ask again.
    part_of
        The tables over more releases that these are a part of. They are asked once for all of their parts.
    """

    first: Ints
    symbols: int
    make: Callable[[], npt.NDArray[np.int16]]
    answers: dict[bytes, npt.NDArray[np.int16]] = field(default_factory=dict, compare=False)
    part_of: PartOfTables | None = None

    @cached_property
    def after(self) -> npt.NDArray[np.int16]:
        """int16[positions of all variants, symbols]."""
        return self.make()

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables that were made so far, the larger ones included."""
        n_bytes = self.after.nbytes if "after" in self.__dict__ else 0
        if self.part_of is not None:
            n_bytes += self.part_of.occurrences.n_bytes
        return n_bytes


@content_free()
@dataclass(frozen=True, slots=True)
class PartOfTables:
    """A part of larger tables.

    Parameters
    ----------
    occurrences
        The tables of all parts.
    variants, symbols
        The variants and symbols of this part, by their place in `occurrences`.
    shared
        Totals that the searches of all parts share (`totals.SharedTotals`). None if there are none.
    """

    occurrences: NextOccurrences
    variants: Ints
    symbols: Codes
    shared: Any = None


def next_occurrences(pair: ReleasePair) -> NextOccurrences:
    """Return the tables of next occurrences in the known variants of a pair.

    Parameters
    ----------
    pair
        The releases under one numbering.

    Raises
    ------
    TooLargeError
        If they would not fit: very long traces, or very many activities.
    """
    lengths = np.diff(pair.known_variants.start)
    positions, symbols = int(lengths.sum() + len(lengths)), len(pair.alphabet)
    if lengths.size and int(lengths.max()) > LONGEST:
        raise TooLargeError(f"a trace has {int(lengths.max())} events; at most {LONGEST} can be searched")
    if positions * symbols > CELLS:
        raise TooLargeError(
            f"{symbols} activities and {positions} positions need {positions * symbols} cells, more than {CELLS}: "
            "project the log on fewer activities"
        )
    after = next_occurrence_table(pair.known_variants, pair.match_related, symbols)
    return NextOccurrences(pair.known_variants.first_positions, symbols, lambda: after)


def identity_relation(size: int) -> tuple[Ints, Codes]:
    """Return the relation in which every item is related to itself alone: start and related items.

    Parameters
    ----------
    size
        Number of items.

    Returns
    -------
    start
        int64[size + 1].
    related
        int32[size].
    """
    start = np.arange(size + 1, dtype=np.int64)
    return start, start[:-1].astype(np.int32)


def next_occurrence_table(
    variants: Sequences,
    related: tuple[Ints, Codes],
    symbols: int,
) -> npt.NDArray[np.int16]:
    """Return `NextOccurrences.after` of some variants, int16[positions, symbols].

    Parameters
    ----------
    variants
        Sequences of known items.
    related
        Start and related symbols of each item (see `ReleasePair`): the symbols that the item may mean.
    symbols
        Number of symbols.
    """
    after = np.full((len(variants.items) + len(variants), symbols), -1, dtype=np.int16)
    _fill_after(variants.items, variants.start, *related, after)
    return after


@kernel
def _fill_after(items, start, related_start, related, after):  # type: ignore[no-untyped-def]
    """Fill the rows of each variant from its end: a row is the one behind it, but for the symbols of its own item."""
    for v in range(len(start) - 1):
        for p in range(start[v + 1] - start[v] - 1, -1, -1):
            row = start[v] + v + p
            for a in range(after.shape[1]):
                after[row, a] = after[row + 1, a]
            item = items[start[v] + p]
            for k in range(related_start[item], related_start[item + 1]):
                after[row, related[k]] = p + 1


@inlined_part
def advance(begin, after, position, a, n, reached):  # type: ignore[no-untyped-def]
    """Set the positions of one variant after symbol a.

    `position[k]` is the earliest position with k symbols of bk unmatched, -1 if k cannot be. With k
    unmatched after a, either a is matched behind position[k], or a is the last unmatched one:

        reached[k] = min(after[position[k], a], position[k - 1])

    Parameters
    ----------
    begin
        First row of the variant in `after`.
    after
        int16[positions, symbols] (`NextOccurrences.after`).
    position, reached
        Positions by number of unmatched symbols, before and after a. Both may be the same array.
    a
        Code of the symbol.
    n
        Symbols that may be unmatched at most.

    Returns
    -------
    int
        Symbols unmatched at least; n + 1 if these are too many.
    """
    previous, least = -1, n + 1
    for k in range(n + 1):
        before = position[k]
        behind = -1 if before < 0 else np.int64(after[begin + before, a])
        if previous >= 0 and (behind < 0 or previous < behind):
            behind = previous
        reached[k] = behind
        if behind >= 0 and k < least:
            least = k
        previous = before
    return least


@part
def is_in(first, after, position, missing, v, a, n):  # type: ignore[no-untyped-def]
    """Return whether variant v leaves at most n symbols unmatched after one more symbol a.

    Parameters
    ----------
    first
        int64[variants], first row of each variant in `after`.
    after
        int16[positions, symbols] (`NextOccurrences.after`).
    position
        Positions of each variant by number of unmatched symbols (`advance`).
    missing
        Symbols that each variant left unmatched before.
    v, a
        The variant, and the code of the symbol.
    n
        Symbols that may be unmatched at most.
    """
    if missing[v] != n:
        return missing[v] < n
    return after[first[v] + position[v, n], a] >= 0


@kernel
def _count_unmatched(first, after, bk, position, result):  # type: ignore[no-untyped-def]
    """Set result[v] to |bk| - LCS(bk, v)."""
    for v in range(len(first)):
        position[:] = 0
        result[v] = 0
        for a in bk:
            result[v] = advance(first[v], after, position, a, len(bk), position)


MOST_ANSWERS = 64
"""Answers of `unmatched` kept with the tables: the worst bk of a few measures are asked again and again."""


def unmatched(table: NextOccurrences, bk: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Return |bk| - LCS(bk, v) for each known variant v.

    Parameters
    ----------
    table
        Next occurrences.
    bk
        Symbol codes of one background knowledge.

    Returns
    -------
    int16[variants], not to be written to. v is in ms^n(bk) iff its number is at most n (Def. 8, Theorem 1).
    """
    codes = np.asarray(bk, dtype=np.int32)
    key = codes.tobytes()
    answer = table.answers.get(key)
    if answer is not None:
        return answer
    if table.part_of is not None:
        answer = _unmatched_in_part(table.part_of, table.part_of.symbols[codes])
    else:
        answer = np.zeros(len(table.first), dtype=np.int16)
        position = np.zeros(len(codes) + 1, dtype=np.int16)
        _count_unmatched(table.first, table.after, codes, position, answer)
    _remember(table.answers, key, answer)
    return answer


def _unmatched_in_part(part: PartOfTables, codes: Codes) -> npt.NDArray[np.int16]:
    """Return the same for a part of the tables, read from the totals of all parts if they hold it."""
    answers, key = part.occurrences.answers, codes.tobytes()
    if part.shared is not None and key not in answers:
        column = part.shared.column(codes)
        if column is not None:
            _remember(answers, key, column.astype(np.int16))
    return unmatched(part.occurrences, codes)[part.variants]


def _remember(answers: dict[bytes, npt.NDArray[np.int16]], key: bytes, answer: npt.NDArray[np.int16]) -> None:
    if len(answers) >= MOST_ANSWERS:
        answers.clear()
    answers[key] = answer
