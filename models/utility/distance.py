"""Data utility: how much earth must be moved to turn the source's traces into the release's.

Source: tlkc-privacy-extended-2021, section 6.2.2: du = 1 - the least cost of reallocating the variants' relative
frequencies, with the normalised Levenshtein distance between variants as the cost.

The transport problem is solved in full. Leaving equal variants unmoved, a common shortcut, is optimal for a
metric only, and this distance is none: lev(x, y) / max(|x|, |y|) breaks the triangle inequality (ab -> aba -> ba costs
1/3 + 1/3, ab -> ba costs 1).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, EventLog, Floats, Ints
from models.knowledge import Unit, perspective
from models.utility.transport import corner_arcs, least_cost, least_cost_over

H = TypeVar("H", bound=Hashable)

Distances = Callable[[Sequence[str], Sequence[str]], Floats]
"""float64[rows, columns]: the distance of each row's text to each column's."""

MOST_LETTERS = 1_000_000
"""Distinct items that the letters of kept distances hold. A character can be one of 1,112,063."""


@content_free()
@dataclass
class KeptDistances:
    """The distances of the last cut, so that only those of new variants are computed for the next one.

    From one cut of a series to the next most variants are the same, in the source and in the release. Their distances
    take most of the time of an exact earth mover's distance, and depend on the two variants alone.

    Attributes
    ----------
    letters
        The character of each item, in which the texts are spelt. New items are added.
    rows, columns
        Place of each text in `cost`.
    cost : float64[rows, columns]
        Normalized edit distances of the texts, 0 to 1.
    """

    letters: dict[Hashable, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    cost: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def move_on(
        self, rows: Sequence[str], columns: Sequence[str], items: dict[Hashable, str], computed: Distances
    ) -> Floats:
        """Return the distances of some texts, and keep them for the next call.

        Parameters
        ----------
        rows, columns
            Variants of the source and of the release, as texts of one letter an item.
        items
            The letter of each item in these texts.
        computed
            Computes the distances that are not kept yet.

        Returns
        -------
        Floats
            float64[rows, columns].
        """
        if len(self.letters) + len(items) > MOST_LETTERS:
            self.letters, self.rows, self.columns = {}, {}, {}
        spelt = {
            ord(former_letter): self.letters.setdefault(item, letter(len(self.letters)))
            for item, former_letter in items.items()
        }
        # In the kept letters, one variant is the same text at every cut.
        row_names = [text.translate(spelt) for text in rows]
        column_names = [text.translate(spelt) for text in columns]
        kept_row, kept_column = _places(self.rows, row_names), _places(self.columns, column_names)
        old_rows, new_rows = np.flatnonzero(kept_row >= 0), np.flatnonzero(kept_row < 0)
        old_columns, new_columns = np.flatnonzero(kept_column >= 0), np.flatnonzero(kept_column < 0)

        #               old columns   new columns
        #   old rows    kept          computed
        #   new rows    computed      computed
        cost = np.empty((len(rows), len(columns)))
        kept_cost = self.cost[np.ix_(kept_row[old_rows], kept_column[old_columns])]
        cost[np.ix_(old_rows, old_columns)] = kept_cost
        cost[np.ix_(old_rows, new_columns)] = computed(_at(rows, old_rows), _at(columns, new_columns))
        cost[new_rows] = computed(_at(rows, new_rows), columns)
        self.rows = {name: place for place, name in enumerate(row_names)}
        self.columns = {name: place for place, name in enumerate(column_names)}
        self.cost = cost
        return cost


def data_utility(
    original: EventLog,
    released: EventLog,
    carries: tuple[str, ...] = ("activity",),
    T: Unit = "minutes",
    cases: tuple[Ints | None, Ints | None] = (None, None),
    kept: KeptDistances | None = None,
) -> float:
    """Return 1 - earth mover's distance of the two logs' variants over the perspectives named, in 0..1.

    Perspectives are `activity`, `resource` and `relative_time`. Suppressed cases count by their absence.

    Parameters
    ----------
    cases : int64[C], optional
        Number of cases that each case of either log represents; by default all are equal.
    kept : KeptDistances, optional
        The distances of the cut before, which are updated to this one.

    Raises
    ------
    InputError
        If a log has no cases or lacks a perspective.
    """
    if not original.n_cases or not released.n_cases:
        raise InputError("data utility compares two logs with at least one case each")
    original_items, released_items = perspective(original, carries, T), perspective(released, carries, T)
    codes: dict[Hashable, str] = {}
    original_counts = counted(_texts(original.starts, original_items, codes), cases[0])
    released_counts = counted(_texts(released.starts, released_items, codes), cases[1])
    cost_of = None if kept is None else partial(kept.move_on, items=codes, computed=distances)
    return 1.0 - earth_movers_distance(original_counts, released_counts, cost_of)


def counted(variants: Iterable[H], cases: Ints | None) -> Counter[H]:
    """Count the cases of each variant.

    Parameters
    ----------
    variants
        The variant of each record.
    cases
        int64[records], how many cases each record represents; None: one each.
    """
    if cases is None:
        return Counter(variants)
    counts: Counter[H] = Counter()
    for variant, count in zip(variants, cases.tolist(), strict=True):
        counts[variant] += count
    return counts


def data_utility_at_least(
    original: EventLog, released: EventLog, origin: Ints, carries: tuple[str, ...] = ("activity",)
) -> float:
    """Return a lower bound on `data_utility` in time linear in the cases.

    It is the utility of the best plan that moves each case to its released form, or to an equal one, and the rest
    anywhere.

    Parameters
    ----------
    original, released, carries
        As `data_utility` takes them.
    origin
        int64[released cases], place of each released case in the original; -1 if it has none.
    """
    if not original.n_cases or not released.n_cases:
        raise InputError("data utility compares two logs with at least one case each")
    codes: dict[Hashable, str] = {}
    texts = _texts(original.starts, perspective(original, carries), codes)
    text_of_case = _texts(released.starts, perspective(released, carries), codes)
    original_counts, released_counts = Counter(texts), Counter(text_of_case)
    original_texts, released_texts = sorted(original_counts), sorted(released_counts)
    row = {text: place for place, text in enumerate(original_texts)}
    column = {text: place for place, text in enumerate(released_texts)}
    # Whole numbers: each share times both numbers of cases, so that both sides have the same sum.
    supply = _numbers(original_counts, original_texts) * released.n_cases
    demand = _numbers(released_counts, released_texts) * original.n_cases

    # The plan may use these arcs only: from each case to its released form, between equal texts, and the corner arcs,
    # which move the remaining mass.
    kept_pairs = {
        (row[texts[case]], column[text]) for case, text in zip(origin, text_of_case, strict=True) if case >= 0
    }
    equal = {(row[text], column[text]) for text in original_counts.keys() & released_counts.keys()}
    corner_rows, corner_columns = corner_arcs(supply, demand)
    corners = set(zip(corner_rows.tolist(), corner_columns.tolist(), strict=True))
    arcs = sorted(kept_pairs | equal | corners)

    rows, columns = np.asarray(arcs, dtype=np.int64).T
    cost = _paired(original_texts, released_texts, arcs)
    distance = least_cost_over(supply, demand, (rows, columns), cost)
    return 1.0 - min(max(distance, 0.0), 1.0)


def _paired(first_texts: list[str], second_texts: list[str], arcs: list[tuple[int, int]]) -> Floats:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    first = [first_texts[row] for row, _ in arcs]
    second = [second_texts[column] for _, column in arcs]
    paired_distances = cpdist(first, second, scorer=Levenshtein.normalized_distance, dtype=np.float64, workers=1)
    return np.asarray(paired_distances, dtype=np.float64)


def earth_movers_distance(
    first: Counter[str],
    second: Counter[str],
    cost_of: Distances | None = None,
) -> float:
    """Return the least cost of turning one distribution of strings into the other, in 0..1.

    Parameters
    ----------
    first, second
        Weight of each string; both distributions are normalised to 1.
    cost_of
        Returns float64[rows, columns], the cost of moving from each string of the one to each of the
        other. None: `distances`.
    """
    first_keys, second_keys = sorted(first), sorted(second)
    if first == second:
        return 0.0
    cost = (cost_of or distances)(first_keys, second_keys)
    distance = least_cost(_shares(first, first_keys), _shares(second, second_keys), cost)
    return min(max(distance, 0.0), 1.0)


def distances(
    rows: Sequence[str],
    columns: Sequence[str],
    dtype: type[np.floating[Any]] = np.float64,
    cutoff: float | None = None,
) -> Floats:
    """Return the Levenshtein distance of each pair of texts, divided by the longer length.

    Two empty texts have distance 0. Equal fractions give equal floats.

    Parameters
    ----------
    rows, columns
        Variants as texts of one letter an item.
    dtype
        float64, or float32 for half of the memory.
    cutoff : optional
        Larger distances are not computed and returned as 1, which is several times faster.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    scorer = Levenshtein.normalized_distance
    return np.asarray(cdist(rows, columns, scorer=scorer, dtype=dtype, score_cutoff=cutoff, workers=1))


def _shares(counts: Counter[str], order: list[str]) -> Floats:
    """Return the share of each variant. The counts of a sample are no whole numbers."""
    weights = np.asarray([counts[variant] for variant in order], dtype=np.float64)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _numbers(counts: Counter[str], order: list[str]) -> Ints:
    """Return the number of cases of each variant."""
    return np.asarray([counts[variant] for variant in order], dtype=np.int64)


def _texts(starts: Ints, items: Column, codes: dict[Hashable, str]) -> list[str]:
    """Return the traces as strings, one character an item, which the edit distance reads fastest."""
    letters = [codes.setdefault(value, letter(len(codes))) for value in items.values]
    text = "".join([letters[code] for code in items.codes.tolist()])
    return [text[a:b] for a, b in itertools.pairwise(starts.tolist())]


@lru_cache(maxsize=4096)
def letter(number: int) -> str:
    """Return the character that represents an item.

    Parameters
    ----------
    number
        Number of the item, from 0 on.

    Raises
    ------
    InputError
        If there are more items than characters.
    """
    # Surrogates are not characters; everything above them follows on.
    point = number + 1 if number + 1 < 0xD800 else number + 1 + 0x800
    if point > 0x10FFFF:
        raise InputError("more than a million distinct items: choose a coarser T or fewer perspectives")
    return chr(point)


def _at(texts: Sequence[str], places: Ints) -> list[str]:
    return [texts[place] for place in places.tolist()]


def _places(place_of_name: dict[str, int], names: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.asarray([place_of_name.get(name, -1) for name in names], dtype=np.int64)
