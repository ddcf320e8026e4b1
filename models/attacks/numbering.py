"""One numbering of items, variants, sensitive values and cases for all releases of a series.

Each release is numbered once, when it comes; what two releases have in common is then found by comparing integers. A
number means nothing but "the same": the order in which they were given changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from models.attacks.linkability import Edges, KeptLinks
from models.attacks.pairs import Sequences
from models.attacks.totals import KeptTable
from models.content_free import content_free
from models.eventlog import Codes, Ints, SimpleLog


@content_free()
@dataclass(frozen=True, slots=True)
class Numbered:
    """A release under the numbering.

    `items`: number of each item of its alphabet; `values`: of each sensitive value; `variant`: int32[R] and `value`:
    int32[R], of each record class, `count`: int64[R]; `row_of_case`: int32[C]; `case`: int64[C], number of each case,
    -1 for a record that is no one case.
    """

    items: Codes
    values: Codes
    variant: Codes
    value: Codes
    count: Ints
    row_of_case: Codes
    case: Ints


@content_free()
@dataclass
class Numbering:
    """What the releases of a series have shown so far; it only grows."""

    items: dict[Any, int] = field(default_factory=dict)
    values: dict[Any, int] = field(default_factory=dict)
    variants: dict[bytes, int] = field(default_factory=dict)
    cases: dict[str, int] = field(default_factory=dict)
    projections: dict[Callable[[Any], Any], KnowledgeProjection] = field(default_factory=dict)
    links: dict[int, KeptLinks] = field(default_factory=dict)
    """Links between classes of earlier releases and of the last candidate, by the largest n."""
    kept_tables: dict[Callable[[Any], Any] | None, dict[int, KeptTable]] = field(default_factory=dict)
    """What each variant lacks, of the last candidate and the releases before it, by what knowledge is about."""

    def number(self, log: SimpleLog, case_ids: Sequence[str]) -> Numbered:
        """Number a release."""
        items = _numbers(self.items, log.alphabet)
        values = _numbers(self.values, log.values)
        keys = Sequences.of(log.variants).keys(items)
        variants = np.full(len(keys), -1, dtype=np.int32)
        used = np.flatnonzero(np.bincount(log.variant, minlength=len(keys)))
        variants[used] = [self.variants.setdefault(keys[own], len(self.variants)) for own in used.tolist()]
        known = self.cases
        case = np.asarray([known.setdefault(name, len(known)) if name else -1 for name in case_ids], dtype=np.int64)
        return Numbered(
            items, values, variants[log.variant], values[log.value], log.count, log.row_of_case, case
        )  # fmt: skip

    def sequences(self, variants: Ints) -> tuple[Sequences, Ints]:
        """The sequences of some variants in lexicographic order, and which of `variants` each is."""
        keys = list(self.variants)
        chosen = [keys[own] for own in variants.tolist()]
        order = sorted(range(len(chosen)), key=chosen.__getitem__)
        return Sequences.of_keys([chosen[own] for own in order]), np.asarray(order, dtype=np.int64)

    def seen_as(self, known: Callable[[Any], Any]) -> KnowledgeProjection:
        """What background knowledge sees of all items and variants so far. Equal functions share one projection."""
        if known not in self.projections:
            self.projections[known] = KnowledgeProjection()
        found = self.projections[known]
        found.extend(known, self.items, self.variants)
        return found


@content_free()
@dataclass
class KnowledgeProjection:
    """Items and variants as background knowledge sees them, for those that a numbering held when it was last asked.

    `symbols`, `variants`: numbers given; `symbol`: int32, of each item; `variant`: int32, of each variant.
    """

    symbols: dict[Any, int] = field(default_factory=dict)
    variants: dict[bytes, int] = field(default_factory=dict)
    symbol: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    variant: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def extend(self, known: Callable[[Any], Any], items: dict[Any, int], variants: dict[bytes, int]) -> None:
        """Take in what is new."""
        fresh = list(map(known, islice(items, len(self.symbol), None)))
        self.symbol = np.concatenate((self.symbol, _numbers(self.symbols, fresh)))
        keys = Sequences.of_keys(list(islice(variants, len(self.variant), None))).keys(self.symbol)
        self.variant = np.concatenate((self.variant, _numbers(self.variants, keys)))

    def sequences(self, chosen: Ints) -> Sequences:
        """The sequences of some projected variants."""
        keys = list(self.variants)
        return Sequences.of_keys([keys[own] for own in chosen.tolist()])


def _numbers(known: dict[Any, int], names: Sequence[Any]) -> Codes:
    return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int32)


def partners(earlier: Numbered, later: Numbered, cases: int) -> Ints:
    """int64[cases of earlier]: the same case in the later release, -1 where it is not there. `cases`: numbers given."""
    place = np.full(cases + 1, -1, dtype=np.int64)  # the last place is that of records that are no one case
    place[later.case] = np.arange(len(later.case))
    place[-1] = -1
    return place[earlier.case]


@content_free()
class ClassColumns(NamedTuple):
    """Record classes of one side of a comparison.

    linked : int32[classes], variant
    known : int32[classes], variant as background knowledge sees it
    value : int64[classes], number of the sensitive value
    """

    linked: Codes
    known: Codes
    value: Ints


@content_free()
@dataclass(frozen=True, slots=True)
class SharedClasses:
    """Record classes of several earlier releases and of the candidate, under one numbering.

    Parameters
    ----------
    keys
        int64[earlier classes], ascending: sensitive value and variant in one integer.
    linkable
        Linkable pairs between the classes of both sides.
    earlier, later
        The classes of both sides.
    count
        int64[later classes], records of the candidate.
    """

    keys: Ints
    linkable: Edges
    earlier: ClassColumns
    later: ClassColumns
    count: Ints
