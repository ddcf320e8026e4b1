"""A second opinion on TLKC-privacy, written to share nothing with the search.

It walks *every* supported candidate of 1..L items depth first (prefix projection), without levels, without pruning by
what a smaller candidate did and with all classes counted, and stops at the first that violates Def. 14 of
tlkc-privacy-extended-2021; it reads the released items themselves, not the view of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, Ints
from models.keys import distinct

Array = Any


@content_free("support", "worst")
@dataclass(frozen=True, slots=True)
class Violation:
    """A candidate that breaks the promise: its items (empty for the whole log), support and worst class count."""

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
    """The first violating candidate of a released log, or None where it satisfies TLKC-privacy.

    Cases without events are no part of a release and are left out. The empty candidate (the whole log) is included.
    `cases`: int64[C], how many cases each one stands for; None: one each.
    """
    order = sorted(range(len(items.values)), key=lambda code: repr(items.values[code]))
    rank = {code: place for place, code in enumerate(order)}
    if np.any(items.codes < 0):
        raise ValueError("an event without an item cannot be checked")
    case = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    codes = np.asarray([rank[code] for code in range(len(order))], dtype=np.int64)[items.codes]
    if structure == "set":
        pairs = distinct(case * max(len(order), 1) + codes, (len(starts) - 1) * max(len(order), 1))
        case, codes = pairs // max(len(order), 1), pairs % max(len(order), 1)
    elif structure == "mult":
        codes = codes[np.lexsort((codes, case))]
    lengths = np.bincount(case, minlength=len(starts) - 1)
    present = np.flatnonzero(lengths)
    if not len(present):
        return None
    values, n_values = _side_by_side(classes, present)
    flat = codes
    bounds = np.concatenate(([0], np.cumsum(lengths[present]))).astype(np.int64)
    stands = np.ones(len(present), dtype=np.int64) if cases is None else cases[present]
    total = int(stands.sum())
    whole = max((int(np.bincount(row[row >= 0], stands[row >= 0]).max(initial=0)) for row in values), default=0)
    if total < K or whole * C.denominator > C.numerator * total:
        return Violation((), total, whole)
    from models.anonymize.check_walk import walk

    longest = int(np.diff(bounds).max())
    share = _share(C, total)
    path, depth, support, worst = walk(
        bounds, flat, stands, values, n_values, max(len(order), 1), min(L, longest), K, *share
    )
    if depth == 0:
        return None
    return Violation(tuple(items.values[order[code]] for code in path[:depth]), int(support), int(worst))


def _share(C: Fraction, total: int) -> tuple[int, int]:
    """Numerator and denominator of the largest fraction up to C whose denominator is at most `total`: of 0 .. total
    cases it allows as many as C does, in whole numbers that fit 64 bits."""
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
