"""A second opinion on TLKC-privacy, written to share nothing with the search.

It walks *every* supported candidate of 1..L items depth first (prefix projection), without levels, without pruning by
a smaller candidate and with all classes counted, and stops at the first that violates Def. 14 of
tlkc-privacy-extended-2021; it reads the released items themselves, not the view of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from models.compiled import kernel
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, Ints, starts_of
from models.keys import distinct

# The compiled walk of the checker: every supported candidate, depth first.


@kernel
def _tally(
    rows: Array,
    places: Array,
    size: int,
    starts: Array,
    flat: Array,
    weight: Array,
    values: Array,
    cases_of_item: Array,
    cases_of_class: Array,
) -> None:
    """Count the cases in which each item follows, and those of each class among them: each item once per case."""
    cases_of_item[:] = 0
    cases_of_class[:] = 0
    stamp = np.full(len(cases_of_item), -1, dtype=np.int64)
    for k in range(size):
        row = rows[k]
        for place in range(places[k], starts[row + 1]):
            item = flat[place]
            if stamp[item] != k:
                stamp[item] = k
                cases_of_item[item] += weight[row]
                for a in range(values.shape[0]):
                    if values[a, row] >= 0:
                        cases_of_class[item, values[a, row]] += weight[row]


@kernel
def _project(
    rows: Array,
    places: Array,
    size: int,
    starts: Array,
    flat: Array,
    item: int,
    new_rows: Array,
    new_places: Array,
) -> int:
    """Return the number of cases in which `item` follows; write each with its next place."""
    n = 0
    for k in range(size):
        for place in range(places[k], starts[rows[k] + 1]):
            if flat[place] == item:
                new_rows[n] = rows[k]
                new_places[n] = place + 1
                n += 1
                break
    return n


@kernel
def walk(
    starts: Array,
    flat: Array,
    weight: Array,
    values: Array,
    n_values: int,
    n_items: int,
    L: int,
    K: int,
    c_numerator: int,
    c_denominator: int,
) -> tuple[Array, int, int, int]:
    """Find the first violating candidate, depth first.

    Parameters
    ----------
    starts
        int64[R + 1], where each row begins in `flat`.
    flat
        int64[P], item codes of the rows.
    weight
        int64[R], cases behind each row.
    values
        int64[A, R], class of each row by attribute, -1 if missing.
    n_values, n_items
        Number of classes of all attributes together, and of items.
    L, K
        Largest number of items of a candidate, and least number of matching cases.
    c_numerator, c_denominator
        C as a fraction: n matching cases may have n * c_numerator / c_denominator cases of one class.

    Returns
    -------
    path
        Codes of the candidate.
    depth
        Its length, 0 if no candidate violates.
    support
        Cases that match it.
    worst
        Most of them that share one class.
    """
    n = len(starts) - 1
    rows = np.empty((L + 1, n), dtype=np.int64)
    places = np.empty((L + 1, n), dtype=np.int64)
    sizes = np.zeros(L + 1, dtype=np.int64)
    counts = np.zeros((L, n_items), dtype=np.int64)
    cases_of_class = np.zeros((n_items, n_values), dtype=np.int64)
    path = np.full(L + 1, -1, dtype=np.int64)
    for row in range(n):
        rows[0, row] = row
        places[0, row] = starts[row]
    sizes[0] = n
    depth = 0
    fresh = True
    while depth >= 0:
        if fresh:
            _tally(
                rows[depth], places[depth], sizes[depth], starts, flat, weight, values, counts[depth], cases_of_class
            )
            for item in range(n_items):
                support = counts[depth, item]
                worst = cases_of_class[item].max()
                is_too_frequent = worst > c_numerator * support // c_denominator
                if support > 0 and (support < K or is_too_frequent):
                    path[depth] = item
                    return path, depth + 1, support, worst
            path[depth] = -1
            fresh = False
        path[depth] += 1
        if path[depth] >= n_items or depth == L - 1:
            depth -= 1
        elif counts[depth, path[depth]] > 0:
            sizes[depth + 1] = _project(
                rows[depth], places[depth], sizes[depth], starts, flat, path[depth], rows[depth + 1], places[depth + 1]
            )
            depth += 1
            fresh = True
    return path, 0, 0, 0


Array = Any


@content_free("support", "worst")
@dataclass(frozen=True, slots=True)
class Violation:
    """A candidate that breaks the promise.

    Attributes
    ----------
    candidate
        Its items; empty for the whole log.
    support
        Cases that match it.
    worst
        Cases of its most frequent class.
    """

    candidate: tuple[Any, ...]
    support: int
    worst: int


def first_violation(
    starts: Ints,
    items: Column,
    structure: str,
    classes: Sequence[Column],
    L: int,
    K: int,
    C: Fraction,
    *,
    cases: Ints | None = None,
) -> Violation | None:
    """Return the first violating candidate of a released log, or None if it satisfies TLKC-privacy.

    Cases without events are not part of a release and are ignored. The empty candidate (the whole log) is
    checked too.

    Parameters
    ----------
    starts
        int64[C + 1], where the events of each case begin.
    items
        The item of each event.
    structure
        "set", "mult", "seq" or "rel".
    classes
        The class of each case, one column per sensitive attribute.
    L
        Largest number of items that an adversary knows.
    K
        Least number of matching cases.
    C
        Largest share of one class among the matching cases.
    cases
        int64[C], number of cases that each case represents; None: one each.

    Returns
    -------
    Violation or None
        The candidate, its support and its largest class count.

    Raises
    ------
    ValueError
        If an event has no item.
    InputError
        If C has too many digits for exact 64-bit arithmetic.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 14.
    """
    order = sorted(range(len(items.values)), key=lambda code: repr(items.values[code]))
    rank = {code: place for place, code in enumerate(order)}
    if np.any(items.codes < 0):
        raise ValueError("an event without an item cannot be checked")
    lengths = np.diff(starts)
    codes = np.asarray([rank[code] for code in range(len(order))], dtype=np.int64)[items.codes]
    if structure in ("set", "mult"):
        case = np.repeat(np.arange(len(lengths)), lengths)
    if structure == "set":
        n_items = max(len(order), 1)
        pairs = distinct(case * n_items + codes, len(lengths) * n_items)
        lengths = np.bincount(pairs // n_items, minlength=len(lengths))
        codes = pairs % n_items
    elif structure == "mult":
        codes = codes[np.lexsort((codes, case))]
    present = np.flatnonzero(lengths)
    if not len(present):
        return None
    values, n_values = _side_by_side(classes, present)
    bounds = starts_of(lengths[present])
    weight = np.ones(len(present), dtype=np.int64) if cases is None else cases[present]
    total = int(weight.sum())
    worst_count = 0
    for row in values:
        has_value = row >= 0
        cases_by_value = np.bincount(row[has_value], weight[has_value])
        worst_count = max(worst_count, int(cases_by_value.max(initial=0)))
    if total < K or worst_count * C.denominator > C.numerator * total:
        return Violation((), total, worst_count)
    longest = int(np.diff(bounds).max())
    n_items = max(len(order), 1)
    c_numerator, c_denominator = _in_64_bits(C, total)
    path, depth, support, worst = walk(
        bounds, codes, weight, values, n_values, n_items, min(L, longest), K, c_numerator, c_denominator
    )
    if depth == 0:
        return None
    return Violation(tuple(items.values[order[code]] for code in path[:depth]), int(support), int(worst))


def _in_64_bits(C: Fraction, total: int) -> tuple[int, int]:
    """Return the largest fraction up to C with a denominator of at most `total`, as two numbers.

    Of 0 .. total cases it allows as many as C does, in whole numbers that fit 64 bits.
    """
    near = C.limit_denominator(max(total, 1))
    if near > C:  # its left neighbour in the Farey sequence: a / b with near.numerator b - near.denominator a = 1
        b = pow(near.numerator, -1, near.denominator) if near.denominator > 1 else 0
        b += (total - b) // near.denominator * near.denominator
        near = Fraction(near.numerator * b - 1, near.denominator * b)
    if near.numerator * total >= 2**63:
        raise InputError(f"C has too many digits for {total} cases; give it fewer")
    return near.numerator, near.denominator


def _side_by_side(classes: Sequence[Column], present: Ints) -> tuple[Array, int]:
    values = np.full((len(classes), len(present)), -1, dtype=np.int64)
    used = 0
    for number, column in enumerate(classes):
        codes = column.codes[present].astype(np.int64)
        values[number] = np.where(codes < 0, -1, codes + used)
        used += len(column.values)
    return values, max(used, 1)
