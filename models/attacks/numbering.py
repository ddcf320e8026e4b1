"""One numbering of items, variants, sensitive values and cases for all releases of a series.

Each release is numbered once, when it is first compared. Common parts of two releases are then found by comparing
integers. A number says only that two things are equal: the order in which numbers were assigned changes no result.
"""

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

    Parameters
    ----------
    items, values
        int32, number of each item of its alphabet, and of each sensitive value.
    variant, value, count
        int32[R], int32[R] and int64[R], by record class: number of the variant and of the value, and records.
    row_of_case
        int32[C], record class of each case.
    case
        int64[C], number of each case; -1 for a record that is not one case.
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
class KnowledgeProjection:
    """Items and variants of a numbering as background knowledge sees them, up to the last question.

    Parameters
    ----------
    symbols, variants
        Number of each symbol, and of each sequence of symbols.
    symbol, variant
        int32, the symbol that each item is seen as, and the sequence that each variant is seen as.
    """

    symbols: dict[Any, int] = field(default_factory=dict)
    variants: dict[bytes, int] = field(default_factory=dict)
    symbol: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    variant: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def extend(
        self,
        known_part: Callable[[Any], Any],
        items: dict[Any, int],
        variants: dict[bytes, int],
    ) -> None:
        """Add the items and variants that are new.

        Parameters
        ----------
        known_part
            Maps an item to the part that background knowledge can cover.
        items, variants
            All items and variants of the numbering, in the order of their numbers.
        """
        new_symbols = [known_part(item) for item in islice(items, len(self.symbol), None)]
        self.symbol = np.concatenate((self.symbol, _numbers(self.symbols, new_symbols)))
        new_variants = list(islice(variants, len(self.variant), None))
        keys = Sequences.of_keys(new_variants).keys(self.symbol)
        self.variant = np.concatenate((self.variant, _numbers(self.variants, keys)))

    def sequences(self, chosen: Ints) -> Sequences:
        """Return the sequences of symbols of some projected variants.

        Parameters
        ----------
        chosen
            Numbers of projected variants.
        """
        keys = list(self.variants)
        return Sequences.of_keys([keys[number] for number in chosen.tolist()])


@content_free()
@dataclass
class Numbering:
    """Numbers of all that the releases of a series have shown so far. It only grows.

    Parameters
    ----------
    items, values, variants, cases
        Number of each item, sensitive value, variant (see `Sequences.keys`) and case.
    projections
        Items and variants as background knowledge sees them, by the function that maps an item.
    links
        Links between classes of earlier releases and of the last candidate, by the largest n.
    kept_tables
        Unmatched symbols of each variant of the last candidate and the releases before it, by what knowledge is about.
    """

    items: dict[Any, int] = field(default_factory=dict)
    values: dict[Any, int] = field(default_factory=dict)
    variants: dict[bytes, int] = field(default_factory=dict)
    cases: dict[str, int] = field(default_factory=dict)
    projections: dict[Callable[[Any], Any], KnowledgeProjection] = field(default_factory=dict)
    links: dict[int, KeptLinks] = field(default_factory=dict)
    kept_tables: dict[Callable[[Any], Any] | None, dict[int, KeptTable]] = field(default_factory=dict)

    def number(self, log: SimpleLog, case_ids: Sequence[str]) -> Numbered:
        """Return a release under the numbering, and number all that it shows for the first time.

        Parameters
        ----------
        log
            The release.
        case_ids
            Identifier of each record, empty for a record that is not one case.
        """
        items = _numbers(self.items, log.alphabet)
        values = _numbers(self.values, log.values)
        keys = Sequences.of(log.variants).keys(items)
        variants = np.full(len(keys), -1, dtype=np.int32)
        used = np.flatnonzero(np.bincount(log.variant, minlength=len(keys)))
        variants[used] = _numbers(self.variants, [keys[place] for place in used.tolist()])
        case = np.full(len(case_ids), -1, dtype=np.int64)
        for place, case_id in enumerate(case_ids):
            if case_id:
                case[place] = self.cases.setdefault(case_id, len(self.cases))
        return Numbered(items, values, variants[log.variant], values[log.value], log.count, log.row_of_case, case)

    def sequences(self, variants: Ints) -> tuple[Sequences, Ints]:
        """Return the sequences of some variants in lexicographic order, and the place of each in `variants`.

        Parameters
        ----------
        variants
            int64[V], numbers of variants.

        Returns
        -------
        sequences
            The variants, sorted.
        order
            int64[V], place of each of them in `variants`.
        """
        keys = list(self.variants)
        chosen = [keys[number] for number in variants.tolist()]
        order = sorted(range(len(chosen)), key=chosen.__getitem__)
        return Sequences.of_keys([chosen[place] for place in order]), np.asarray(order, dtype=np.int64)

    def seen_as(self, known_part: Callable[[Any], Any]) -> KnowledgeProjection:
        """Return all items and variants so far as background knowledge sees them. Equal functions share one.

        Parameters
        ----------
        known_part
            Maps an item to the part that background knowledge can cover.
        """
        projection = self.projections.setdefault(known_part, KnowledgeProjection())
        projection.extend(known_part, self.items, self.variants)
        return projection


def _numbers(number_of: dict[Any, int], names: Sequence[Any]) -> Codes:
    """Return the number of each name; new names get the next numbers."""
    return np.asarray([number_of.setdefault(name, len(number_of)) for name in names], dtype=np.int32)


def numbered_partners(earlier: Numbered, later: Numbered, cases: int) -> Ints:
    """Return where each case of the earlier release is in the later one.

    Parameters
    ----------
    earlier, later
        Two releases under one numbering.
    cases
        Number of cases that the numbering holds.

    Returns
    -------
    int64[cases of earlier], -1 if the later release does not hold the case.
    """
    place = np.full(cases + 1, -1, dtype=np.int64)  # number -1, the last place: records that are not one case
    place[later.case] = np.arange(len(later.case))
    place[-1] = -1
    return place[earlier.case]


@content_free()
class ClassColumns(NamedTuple):
    """Record classes of one side of a comparison.

    linked : int32[classes], variant
    known_variant : int32[classes], variant as background knowledge sees it
    value : int64[classes], number of the sensitive value
    """

    linked: Codes
    known_variant: Codes
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
