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
# Generalization by a given taxonomy of activities: a released activity may mean any of its
# specializations.
#
# Source: correspondence-attacks-2021, section 4 ("similar attack analysis can be done for the generalization
# operation"). The taxonomy maps an activity to its generalization (child -> parent); a forest, any depth.


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
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        flat = np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum()))
        return cls(flat, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))

    @classmethod
    def of_keys(cls, keys: Collection[bytes]) -> Sequences:
        """The sequences behind `keys()`."""
        ends = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)) // KEY.itemsize)
        return cls(np.frombuffer(b"".join(keys), KEY).astype(np.int32), np.concatenate(([0], ends)).astype(np.int64))

    def keys(self, code: Codes) -> list[bytes]:
        """Return each sequence as bytes, item i written as code[i]; keys are in the order of their sequences."""
        written = code[self.items].astype(KEY).tobytes()
        return [written[a:b] for a, b in pairwise((self.start * KEY.itemsize).tolist())]

    def __len__(self) -> int:
        return len(self.start) - 1


@content_free()
@dataclass(frozen=True, slots=True)
class RecordClasses:
    """Record classes of one release, by sensitive value and then variant: records with one linked variant and value.

    `linked`, `known`: int32[R] variants; `value`: int32[R]; `count`: int64[R]; `row_of_case`: int32[C].
    """

    linked: Codes
    known: Codes
    value: Codes
    count: Ints
    row_of_case: Codes

    @property
    def n_cases(self) -> int:
        return int(self.count.sum())

    def per_known(self, variants: int) -> Ints:
        """Records of each known variant, int64[variants]."""
        return np.bincount(self.known, weights=self.count, minlength=variants).astype(np.int64)


@content_free()
@dataclass(frozen=True, slots=True)
class ReleasePair:
    """An earlier and a later release.

    `items`: union of the carried items; `linked`: their variants in lexicographic order of codes; `link_related`:
    bool[items, items], which items may mean one activity (identity without a taxonomy); `alphabet`: symbols of
    background knowledge; `known`: item codes of the projected variants, over `known_items`; `match_related`:
    bool[symbols, known items].
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
    seen_as = tuple(known(item) if known else item for item in items)
    known_items = _union(seen_as)
    values = {value: code for code, value in enumerate(_union(earlier.values, later.values))}
    keys = [_variant_keys(log, items) for log in (earlier, later)]
    # In lexicographic order rows that begin alike are neighbours, which linkability reads once.
    distinct = sorted({key for own in keys for key in own if key is not None})
    number: dict[bytes | None, int] = {key: code for code, key in enumerate(distinct)}
    codes = [np.asarray([number.get(key, -1) for key in own], dtype=np.int32) for own in keys]
    linked = Sequences.of_keys(distinct)
    index = {item: code for code, item in enumerate(known_items)}
    projected, known_of = _projected(linked, np.asarray([index[item] for item in seen_as], dtype=np.int32))
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
        earlier=_rows(earlier, codes[0], known_of, values),
        later=_rows(later, codes[1], known_of, values),
    )


def _union(*alphabets: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item for alphabet in alphabets for item in alphabet))


def _variant_keys(log: SimpleLog, items: tuple[Any, ...]) -> list[bytes | None]:
    """The key of each variant over the common items; None where no record has it."""
    index = {item: code for code, item in enumerate(items)}
    code = np.asarray([index[item] for item in log.alphabet], dtype=np.int32)
    used = np.bincount(log.variant, minlength=len(log.variants)) > 0
    keys = Sequences.of(log.variants).keys(code)
    return [key if own else None for key, own in zip(keys, used.tolist(), strict=True)]


def _projected(linked: Sequences, project: Codes) -> tuple[Sequences, Codes]:
    """Distinct projections of the linked variants, and which of them each variant has."""
    if np.array_equal(project, np.arange(len(project))):
        return linked, np.arange(len(linked), dtype=np.int32)
    distinct: dict[bytes, int] = {}
    known_of = [distinct.setdefault(key, len(distinct)) for key in linked.keys(project)]
    return Sequences.of_keys(distinct), np.asarray(known_of, dtype=np.int32)


def _rows(log: SimpleLog, variants: Codes, known_of: Codes, values: Mapping[Any, int]) -> RecordClasses:
    value = np.asarray([values[own] for own in log.values], dtype=np.int32)[log.value]
    linked = variants[log.variant]
    order = np.lexsort((linked, value))
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    linked = linked[order]
    return RecordClasses(linked, known_of[linked], value[order], log.count[order], place[log.row_of_case])


def _relation(
    items: tuple[Any, ...], taxonomy: Mapping[Any, Any] | None, known: Callable[[Any], Any] | None
) -> tuple[Ints, Codes]:
    if not taxonomy:
        return np.arange(len(items) + 1, dtype=np.int64), np.arange(len(items), dtype=np.int32)
    if known is not None:
        raise InputError("a taxonomy applies to releases that carry activities only")
    return _csr([[b for b, other in enumerate(items) if are_related(item, other, taxonomy)] for item in items])


def _symbols_of(
    known_items: tuple[Any, ...], symbols: tuple[Any, ...], taxonomy: Mapping[Any, Any] | None
) -> tuple[Ints, Codes]:
    """Return for each known item the symbols that it may mean."""
    index = {symbol: code for code, symbol in enumerate(symbols)}
    return _csr([[index[own] for own in specializations(item, symbols, taxonomy)] for item in known_items])


def _csr(lists: list[list[int]]) -> tuple[Ints, Codes]:
    joined = Sequences.of(lists)
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
