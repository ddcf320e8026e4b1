"""Compiled loops of the level-wise search: one pass over the parents of a level.

Plain arrays in and out, so that numba compiles each function once; violations.py describes the search.
"""

from typing import Any, NamedTuple

import numpy as np

from models.compiled import kernel
from models.content_free import content_free

Codes = Any
"""int32 array; numba's own types would refuse numpy's generic ones."""

Ints = Any
"""int64 array."""


@kernel
def first_occurrences(starts: Ints, codes: Codes, n_items: int) -> tuple[Ints, Codes, Ints]:
    """List the items that still occur after each position, with their first occurrence.

    Positions are shifted by the row number, so that each row has an end position of its own. For the first row a b a:

        position   0       1       2    3 (its end)
        items      a  b    b  a    a
        ends       1  2    2  3    3

    Parameters
    ----------
    starts
        int64[R + 1], where each row begins.
    codes
        int32[P], item at each position.
    n_items
        Number of items.

    Returns
    -------
    offsets
        int64[P + R + 1], where the entries of each position begin.
    items
        int32, the items that occur from the position on.
    ends
        int64, the position after the first occurrence of each.
    """
    # A position has as many entries as distinct items from it to the end of the row: counted from the end.
    rows = len(starts) - 1
    total = 0
    seen = np.full(n_items, -1, dtype=np.int64)
    for row in range(rows):
        distinct = 0
        for p in range(starts[row + 1] - 1, starts[row] - 1, -1):
            if seen[codes[p]] != row:
                seen[codes[p]] = row
                distinct += 1
            total += distinct
    offsets = np.zeros(starts[rows] + rows + 1, dtype=np.int64)
    items = np.empty(total, dtype=np.int32)
    ends = np.empty(total, dtype=np.int64)
    _fill_occurrences(starts, codes, n_items, offsets, items, ends)
    return offsets, items, ends


@kernel
def _fill_occurrences(
    starts: Ints,
    codes: Codes,
    n_items: int,
    offsets: Ints,
    items: Codes,
    ends: Ints,
) -> None:
    seen = np.full(n_items, -1, dtype=np.int64)
    filled = 0
    stamp = 0
    for row in range(len(starts) - 1):
        for p in range(starts[row], starts[row + 1] + 1):
            # A new stamp for each position: an item is listed once, at its first occurrence from there on.
            stamp += 1
            offsets[p + row] = filled
            for q in range(p, starts[row + 1]):
                item = codes[q]
                if seen[item] != stamp:
                    seen[item] = stamp
                    items[filled] = item
                    ends[filled] = q + 1 + row
                    filled += 1
    offsets[starts[-1] + len(starts) - 1] = filled


@kernel
def _advance(
    item: Any,
    rows: Codes,
    ends: Ints,
    size: Any,
    out_rows: Codes,
    out_ends: Ints,
    occurrences: Any,
) -> int:
    """Rows that still match after one more item, with their new earliest end; returns how many."""
    offsets, items, positions = occurrences
    n = 0
    for r in range(size):
        for k in range(offsets[ends[r]], offsets[ends[r] + 1]):
            if items[k] == item:
                out_rows[n] = rows[r]
                out_ends[n] = positions[k]
                n += 1
                break
    return n


@kernel
def _candidates(parent: int, deletions: Codes, child_start: Ints, child_item: Codes, hits: Codes) -> None:
    """hits[item] = how many deletions of `parent` have a surviving child `item`."""
    hits[:] = 0
    for k in range(deletions.shape[1]):
        node = deletions[parent, k]
        for c in range(child_start[node], child_start[node + 1]):
            hits[child_item[c]] += 1


@kernel
def _count(
    rows: Codes,
    ends: Ints,
    size: Any,
    hits_of_extension: int,
    hits: Codes,
    occurrences: Any,
    weight: Ints,
    values: Codes,
    support: Ints,
    shares: Ints,
) -> None:
    """Support of every one-item extension with so many hits, and the count of every sensitive class within it."""
    offsets, items, _ = occurrences
    support[:] = 0
    shares[:] = 0
    for r in range(size):
        row = rows[r]
        for k in range(offsets[ends[r]], offsets[ends[r] + 1]):
            item = items[k]
            if hits[item] == hits_of_extension:
                support[item] += weight[row]
                for a in range(values.shape[0]):
                    if values[a, row] >= 0:
                        shares[item, values[a, row]] += weight[row]


@kernel
def _worst(shares: Ints) -> int:
    worst = 0
    for value in shares:
        worst = max(worst, value)
    return worst


@kernel
def _shared(paths: Codes, parent: int, at: int, shared_depth: int) -> int:
    """Length of the common prefix with the parent whose states are on the stack."""
    for d in range(shared_depth):
        if paths[parent, d] != paths[at, d]:
            return d
    return shared_depth


@content_free()
class Parents(NamedTuple):
    """The parents of one level of the search.

    Attributes
    ----------
    paths
        int32[N, k], items of each parent, in lexicographic order.
    deletions
        int32[N, k], nodes of the level above without one item each.
    child_start
        First child of each node of the level above.
    child_item
        Items of these children.
    """

    paths: Codes
    deletions: Codes
    child_start: Ints
    child_item: Codes


@content_free()
class Cases(NamedTuple):
    """The distinct rows that are counted.

    Attributes
    ----------
    occurrences
        See `first_occurrences`.
    starts
        First item of each row, and the end of the last one.
    weight
        Cases of each row.
    values
        Class of each row, by sensitive attribute.
    """

    occurrences: Any
    starts: Ints
    weight: Ints
    values: Codes


@content_free()
class Extended(NamedTuple):
    """Candidates found, in arrays of one length.

    Attributes
    ----------
    parent
        int32[N], number of the parent.
    item
        int32[N], item that follows it.
    support
        int64[N], cases that match.
    bad
        int32[N]: 0 survives, 1 below K, 2 (not below K and) a value above C.
    """

    parent: Codes
    item: Codes
    support: Ints
    bad: Codes


@kernel
def extend(
    first: int, parents: Parents, cases: Cases, n_items: int, n_values: int, K: int, most: Ints, out: Extended
) -> tuple[int, int]:
    """Extend the parents from `first` on by one item each, until `out` is full.

    Parameters
    ----------
    first
        Number of the first parent.
    parents
        Parents of the level, with the nodes above them.
    cases
        The rows that are counted.
    n_items, n_values
        Number of items, and of classes of all attributes together.
    K
        Least cases of a candidate.
    most
        int64[cases + 1], how many of so many cases may have one class.
    out
        Room for the candidates; filled here.

    Returns
    -------
    next_parent
        Number of the first parent that was not extended.
    written
        Candidates in `out`.
    """
    paths, occurrences, starts, weight = parents.paths, cases.occurrences, cases.starts, cases.weight
    depth = paths.shape[1]
    n_rows = len(weight)
    # Level d of the stacks: the rows that contain the first d items of a parent, and where the earliest match ends.
    stack_rows = np.empty((depth + 1, n_rows), dtype=np.int32)
    stack_ends = np.empty((depth + 1, n_rows), dtype=np.int64)
    sizes = np.zeros(depth + 1, dtype=np.int64)
    for row in range(n_rows):
        stack_rows[0, row] = row
        stack_ends[0, row] = starts[row] + row
    sizes[0] = n_rows
    hits = np.zeros(n_items, dtype=np.int32)
    support = np.zeros(n_items, dtype=np.int64)
    shares = np.zeros((n_items, n_values), dtype=np.int64)
    written = 0
    at = first
    shared_depth = 0
    for parent in range(first, len(paths)):
        # The output may be full after this parent: the caller takes what there is, and continues here.
        if written + n_items > len(out.parent):
            return parent, written
        _candidates(parent, parents.deletions, parents.child_start, parents.child_item, hits)
        # A candidate is counted only if every part of it with one item less survives: all `depth` deletions of the
        # parent then have its last item as a child.
        if hits.max() < depth:
            continue
        # Parents are in lexicographic order, so the levels of their common prefix are still on the stacks.
        shared_depth = _shared(paths, parent, at, shared_depth)
        at = parent
        for d in range(shared_depth, depth):
            sizes[d + 1] = _advance(
                paths[parent, d],
                stack_rows[d],
                stack_ends[d],
                sizes[d],
                stack_rows[d + 1],
                stack_ends[d + 1],
                occurrences,
            )
        shared_depth = depth
        _count(
            stack_rows[depth],
            stack_ends[depth],
            sizes[depth],
            depth,
            hits,
            occurrences,
            weight,
            cases.values,
            support,
            shares,
        )
        for item in range(n_items):
            if hits[item] == depth and support[item] > 0:
                bad = 1 if support[item] < K else 0
                if bad == 0 and _worst(shares[item]) > most[support[item]]:
                    bad = 2
                out.parent[written] = parent
                out.item[written] = item
                out.support[written] = support[item]
                out.bad[written] = bad
                written += 1
    return len(paths), written


@kernel
def alone(
    starts: Ints,
    codes: Codes,
    weight: Ints,
    value: Codes,
    n_values: int,
    support: Ints,
    worst: Ints,
) -> None:
    """Count the cases of each single item, and of its most frequent class.

    Parameters
    ----------
    starts, codes, weight
        Rows, their items, and the cases of each row.
    value
        int32[R], class of each row, -1: none.
    n_values
        Number of classes.
    support
        int64[items], set to the cases of each item.
    worst
        int64[items], raised to the most cases of the item that share one class.
    """
    n_items = len(support)
    seen = np.full(n_items, -1, dtype=np.int64)
    shares = np.zeros((n_items, n_values), dtype=np.int64)
    support[:] = 0
    for row in range(len(starts) - 1):
        for p in range(starts[row], starts[row + 1]):
            item = codes[p]
            # A case counts once for each of its items.
            if seen[item] != row:
                seen[item] = row
                support[item] += weight[row]
                if value[row] >= 0:
                    shares[item, value[row]] += weight[row]
    for item in range(n_items):
        worst[item] = max(worst[item], _worst(shares[item]))


@kernel
def followed(starts: Ints, codes: Codes, weight: Ints, values: Codes, support: Ints, shares: Ints) -> None:
    """Set support[a, b] to the cases in which some b follows some a, and shares[a, b] to those of them by class.

    Some b follows some a iff the first a comes before the last b. One pass over the distinct items of a row therefore
    answers it for all of their pairs, instead of one pass over the rows for each parent.

    Parameters
    ----------
    starts, codes, weight
        Rows, their items, and the cases of each row.
    values
        int32[attributes, R], class of each row by sensitive attribute, -1: none. The classes of all attributes are
        numbered together.
    support
        int64[items, items], set here.
    shares
        int64[items, items, classes], set here.
    """
    n_items = len(support)
    stamp = np.full(n_items, -1, dtype=np.int64)
    first, last = np.empty(n_items, dtype=np.int64), np.empty(n_items, dtype=np.int64)
    distinct = np.empty(n_items, dtype=np.int64)
    support[:] = 0
    shares[:] = 0
    for row in range(len(starts) - 1):
        n_distinct = 0
        for p in range(starts[row], starts[row + 1]):
            item = codes[p]
            if stamp[item] != row:
                stamp[item] = row
                first[item] = p
                distinct[n_distinct] = item
                n_distinct += 1
            last[item] = p
        for x in range(n_distinct):
            a = distinct[x]
            for y in range(n_distinct):
                b = distinct[y]
                if first[a] < last[b]:
                    support[a, b] += weight[row]
                    for k in range(values.shape[0]):
                        if values[k, row] >= 0:
                            shares[a, b, values[k, row]] += weight[row]


@kernel
def judged(support: Ints, shares: Ints, K: int, most: Ints, bad: Codes) -> None:
    """Set bad[a, b] as `extend` does: 1 below K, 2 a value above C (and not below K), 0 neither.

    Parameters
    ----------
    support, shares
        Counts of pairs of items (`followed`).
    K
        Least cases of a candidate.
    most
        int64[cases + 1], how many of so many cases may have one class.
    bad
        int32[items, items], set here.
    """
    for a in range(len(support)):
        for b in range(len(support)):
            bad[a, b] = 1 if support[a, b] < K else 0
            if bad[a, b] == 0 and _worst(shares[a, b]) > most[support[a, b]]:
                bad[a, b] = 2


@kernel
def most_often(starts: Ints, codes: Codes, most: Ints) -> None:
    """Raise most[item] to the largest number of times that a row has the item.

    Parameters
    ----------
    starts, codes
        Rows and their items.
    most
        int64[items], raised here.
    """
    count = np.zeros(len(most), dtype=np.int64)
    for row in range(len(starts) - 1):
        for p in range(starts[row], starts[row + 1]):
            count[codes[p]] += 1
            most[codes[p]] = max(most[codes[p]], count[codes[p]])
        # Only the items of the row are reset: the table has those of the whole alphabet.
        for p in range(starts[row], starts[row + 1]):
            count[codes[p]] = 0


@kernel
def at_least(starts: Ints, codes: Codes, weight: Ints, begins: Ints, cases: Ints) -> None:
    """Add to cases[begins[item] + t - 1] those that have an item at least t times.

    Parameters
    ----------
    starts, codes, weight
        Rows, their items, and the cases of each row.
    begins
        int64[items], place of each item in `cases`.
    cases
        int64, by item and then t; raised here.
    """
    count = np.zeros(len(begins), dtype=np.int64)
    for row in range(len(starts) - 1):
        for p in range(starts[row], starts[row + 1]):
            cases[begins[codes[p]] + count[codes[p]]] += weight[row]
            count[codes[p]] += 1
        for p in range(starts[row], starts[row + 1]):
            count[codes[p]] = 0
