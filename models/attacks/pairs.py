"""Two releases side by side: one alphabet, one numbering of variants and of sensitive values.

Linkability reads every item that a release carries; background knowledge reads the audited attribute only. So a
record has two sequences: the carried items (`linked`) and what an adversary may know of them (`known`), the second a
projection of the first, item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints, SimpleLog

# --- Generalization by a taxonomy ---
#
# With a given taxonomy of activities, a released activity may mean any of its specializations. The taxonomy maps an
# activity to its generalization (child -> parent); it is a forest of any depth.
#
# Source: correspondence-attacks-2021, section 4 ("similar attack analysis can be done for the generalization
# operation").


def ancestors(item: Any, taxonomy: Mapping[Any, Any] | None) -> Iterator[Any]:
    """Yield the item itself and all that generalizes it, from special to general.

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


def are_related(one: Any, other: Any, taxonomy: Mapping[Any, Any] | None) -> bool:
    """Return whether two released items may mean one activity: one generalizes the other (in a forest)."""
    return one in ancestors(other, taxonomy) or other in ancestors(one, taxonomy)


def leaves(items: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> tuple[Any, ...]:
    """Return the most special activities that the items may mean; without a taxonomy the items."""
    if not taxonomy:
        return tuple(items)
    nodes = dict.fromkeys([*items, *taxonomy, *taxonomy.values()])
    parents = set(taxonomy.values())
    shown = set(items)
    return tuple(
        node for node in nodes if node not in parents and any(above in shown for above in ancestors(node, taxonomy))
    )


def specializations(item: Any, symbols: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> list[Any]:
    """Return the symbols that `item` may mean."""
    if not taxonomy:
        return [item]
    return [symbol for symbol in symbols if item in ancestors(symbol, taxonomy)]


FOREIGN = "*"
"""The symbol for an activity that no release shows."""

KEY = np.dtype(">i4")
"""How a sequence is written as bytes: big-endian, so that bytes sort as the item codes do."""


@content_free()
@dataclass(frozen=True, slots=True)
class Sequences:
    """Distinct sequences end to end: sequence v is `items[start[v]:start[v + 1]]`."""

    items: Codes
    start: Ints

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Put sequences of item codes end to end."""
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        flat = np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum()))
        return cls(flat, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))

    @classmethod
    def of_keys(cls, keys: Collection[bytes]) -> Sequences:
        """Return the sequences that `keys` wrote."""
        ends = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)) // KEY.itemsize)
        return cls(np.frombuffer(b"".join(keys), KEY).astype(np.int32), np.concatenate(([0], ends)).astype(np.int64))

    def keys(self, code: Codes) -> list[bytes]:
        """Return each sequence as bytes, item i written as code[i]; keys are in the order of their sequences."""
        written = code[self.items].astype(KEY).tobytes()
        return [written[a:b] for a, b in pairwise((self.start * KEY.itemsize).tolist())]

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.start) - 1


@content_free()
@dataclass(frozen=True, slots=True)
class RecordClasses:
    """Record classes of one release: the records with one sensitive value and one linked variant.

    They are sorted by sensitive value and then variant.

    Parameters
    ----------
    linked, known
        int32[R], variant that linkability reads, and variant that background knowledge sees.
    value
        int32[R], code of the sensitive value.
    count
        int64[R], records.
    row_of_case
        int32[C], record class of each case.
    """

    linked: Codes
    known: Codes
    value: Codes
    count: Ints
    row_of_case: Codes

    @property
    def n_cases(self) -> int:
        """Number of records."""
        return int(self.count.sum())

    def per_known(self, variants: int) -> Ints:
        """Return int64[variants]: records of each known variant."""
        return np.bincount(self.known, weights=self.count, minlength=variants).astype(np.int64)


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
    known_items, known
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
    known: Sequences
    match_related: tuple[Ints, Codes]
    values: tuple[Any, ...]
    earlier: RecordClasses
    later: RecordClasses

    @property
    def n_known(self) -> int:
        """Number of known variants."""
        return len(self.known)


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
        Maps a carried item to what background knowledge can be about. None: the item itself.
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
        known=projected,
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
    linked = variants[log.variant]
    order = np.lexsort((linked, value))
    row_of_class = np.empty(len(order), dtype=np.int32)
    row_of_class[order] = np.arange(len(order), dtype=np.int32)
    linked = linked[order]
    return RecordClasses(linked, known_of[linked], value[order], log.count[order], row_of_class[log.row_of_case])


def _relation(
    items: tuple[Any, ...], taxonomy: Mapping[Any, Any] | None, known: Callable[[Any], Any] | None
) -> tuple[Ints, Codes]:
    if not taxonomy:
        return np.arange(len(items) + 1, dtype=np.int64), np.arange(len(items), dtype=np.int32)
    if known is not None:
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
    """Return the symbol codes of a candidate.

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
