"""Compiled kernels: does another case contain a multiset of points, and which point singles out fastest.

An item is a point and an occurrence rank: a case contains p twice iff it is posted under (p, 1) and (p, 2), and a
multiset is contained iff the item of each point's multiplicity is. Items of one point are neighbours, so the item
of rank r is `base[p] + r - 1`. Items posted by many cases are bitsets as well (`row[item]` >= 0).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.bits import count_ones
from models.compiled import kernel
from models.content_free import content_free
from models.eventlog import Flags, Ints
from models.risk.points import Whole

Words = npt.NDArray[np.uint64]


@kernel
def posted(item: int, case: int, offsets: Whole, postings: Whole, row: Whole, bits: Words) -> bool:
    """Return whether `case` is in the posting list of `item`.

    Parameters
    ----------
    item, case
        Code of the item, and number of the case.
    offsets, postings
        Cases of each item, ascending, end to end.
    row, bits
        Bitsets of the frequent items: row of each item (-1: none), and uint64[rows, words].
    """
    if row[item] >= 0:
        return bool((bits[row[item], case >> 6] >> np.uint64(case & 63)) & np.uint64(1))
    low, high = offsets[item], offsets[item + 1]
    while low < high:
        middle = (low + high) >> 1
        if postings[middle] < case:
            low = middle + 1
        else:
            high = middle
    return bool(low < offsets[item + 1] and postings[low] == case)


@kernel
def another_listed(
    case: int,
    items: Ints,
    size: int,
    offsets: Whole,
    postings: Whole,
    row: Whole,
    bits: Words,
) -> bool:
    """Return whether another case has all items, walking the posting list of the first (rarest) one.

    Parameters
    ----------
    case
        Number of the case that has them itself.
    items, size
        The items, rarest first, and how many they are.
    offsets, postings, row, bits
        The index (`posted`).
    """
    for place in range(offsets[items[0]], offsets[items[0] + 1]):
        other = postings[place]
        if other == case:
            continue
        has_all = True
        for k in range(1, size):
            if not posted(items[k], other, offsets, postings, row, bits):
                has_all = False
                break
        if has_all:
            return True
    return False


@kernel
def another_dense(case: int, items: Ints, size: int, row: Whole, bits: Words) -> bool:
    """Return whether another case has all items, if the rarest item, and so every item, is a bitset.

    Intersect word by word and stop at the first survivor. Most words are empty after two items.

    Parameters
    ----------
    case
        Number of the case that has them itself.
    items, size
        The items, and how many they are.
    row, bits
        Bitsets of the items (`posted`).
    """
    for word in range(bits.shape[1]):
        shared = bits[row[items[0]], word]
        for k in range(1, size):
            if shared == np.uint64(0):
                break
            shared &= bits[row[items[k]], word]
        if word == case >> 6:
            shared &= ~(np.uint64(1) << np.uint64(case & 63))
        if shared != np.uint64(0):
            return True
    return False


@kernel
def multiset_items(codes: Ints, size: int, base: Whole, items: Ints) -> int:
    """Set the items of a multiset of points: one for each distinct point, at its last occurrence.

    Parameters
    ----------
    codes, size
        Points, of which the first `size` count. They are sorted in place.
    base
        Number of the first item of each point.
    items
        Filled here.

    Returns
    -------
    int
        Number of items.
    """
    codes[:size].sort()
    count = 0
    run = 0
    for k in range(size):
        run = run + 1 if k > 0 and codes[k] == codes[k - 1] else 1
        if k + 1 == size or codes[k + 1] != codes[k]:
            items[count] = base[codes[k]] + run - 1
            count += 1
    return count


@kernel
def rarest_first(items: Ints, size: int, offsets: Whole) -> None:
    """Order items by length of their posting lists, in place.

    Parameters
    ----------
    items, size
        The items, and how many they are.
    offsets
        Place at which the posting list of each item begins.
    """
    for k in range(1, size):
        item = items[k]
        support = offsets[item + 1] - offsets[item]
        place = k
        while place > 0 and offsets[items[place - 1] + 1] - offsets[items[place - 1]] > support:
            items[place] = items[place - 1]
            place -= 1
        items[place] = item


@kernel
def contained_elsewhere(
    case: int, items: Ints, size: int, cases: int, offsets: Whole, postings: Whole, row: Whole, bits: Words
) -> bool:
    """Return whether another case contains all items; no items at all are contained in every case.

    Parameters
    ----------
    case
        Number of the case that has them itself.
    items, size
        The items, and how many they are. Their order changes.
    cases
        Number of cases.
    offsets, postings, row, bits
        The index (`posted`).
    """
    if size == 0:
        return cases > 1
    rarest_first(items, size, offsets)
    if offsets[items[0] + 1] - offsets[items[0]] <= 1:
        return False
    if row[items[0]] >= 0:
        return another_dense(case, items, size, row, bits)
    return another_listed(case, items, size, offsets, postings, row, bits)


@content_free()
class Revealed(NamedTuple):
    """The facts that cases may reveal.

    The points of each event; the first point of each case; its group item (-1: none); the number of events that it
    reveals; whether another case equals it; for each event, whether no other case has a point of it.
    """

    points: Whole
    starts: Ints
    group: Ints
    take: Ints
    twin: Flags
    alone: Flags


@kernel
def unique_cases(
    revealed: Revealed, uniforms: npt.NDArray[np.float64], base: Whole, offsets: Whole, postings: Whole, row: Whole,
    bits: Words, longest: int, begin: int, unique: Flags,
) -> None:  # fmt: skip
    """Evaluate equation 2 for one draw, of the cases from `begin` on that fit into `unique`.

    Case c reveals its group item and `take[c]` of its events, drawn without replacement by a partial
    Fisher-Yates shuffle that consumes `take[c]` of the uniforms. A case with a twin is never unique,
    whatever it reveals, and a case that reveals an event that no other case has always is: neither is
    looked up.

    Parameters
    ----------
    revealed
        Points of the cases, and how many of its events each case reveals.
    uniforms
        float64, a draw for each revealed event.
    base, offsets, postings, row, bits
        The index (`posted`, `multiset_items`).
    longest
        Events of a case at most.
    begin
        The first case.
    unique
        bool, filled here.
    """
    points, starts, group, take, twin, alone = revealed
    width = points.shape[1]
    order = np.empty(longest, dtype=np.int64)
    codes = np.empty(longest * width + 1, dtype=np.int64)
    items = np.empty(longest * width + 1, dtype=np.int64)
    first = 0
    for place in range(len(unique)):
        case = begin + place
        used = first
        first += take[case]
        if twin[case]:
            unique[place] = False
            continue
        length = starts[case + 1] - starts[case]
        for k in range(length):
            order[k] = starts[case] + k
        size = 0
        single = False
        for k in range(take[case]):
            swap = k + int(uniforms[used + k] * (length - k))
            order[k], order[swap] = order[swap], order[k]
            if alone[order[k]]:
                single = True
                break
            for column in range(width):
                codes[size] = points[order[k], column]
                size += 1
        if single:
            unique[place] = True
            continue
        count = multiset_items(codes, size, base, items)
        if group[case] >= 0:
            items[count] = group[case]
            count += 1
        unique[place] = not contained_elsewhere(case, items, count, len(take), offsets, postings, row, bits)


@kernel
def remaining(item: int, candidates: Words, offsets: Whole, postings: Whole, row: Whole, bits: Words) -> int:
    """Count the cases of the bitset `candidates` that are posted under `item`.

    Parameters
    ----------
    item
        The item.
    candidates
        uint64[words], a bit for each case.
    offsets, postings, row, bits
        The index (`posted`).
    """
    count = 0
    if row[item] >= 0:
        for word in range(len(candidates)):
            count += count_ones(candidates[word] & bits[row[item], word])
        return count
    for place in range(offsets[item], offsets[item + 1]):
        case = postings[place]
        count += int((candidates[case >> 6] >> np.uint64(case & 63)) & np.uint64(1))
    return count


@kernel
def restrict(item: int, candidates: Words, offsets: Whole, postings: Whole, row: Whole, bits: Words) -> None:
    """Keep of `candidates` the cases posted under `item`, in place.

    Parameters
    ----------
    item
        The item.
    candidates
        uint64[words], a bit for each case.
    offsets, postings, row, bits
        The index (`posted`).
    """
    if row[item] >= 0:
        for word in range(len(candidates)):
            candidates[word] &= bits[row[item], word]
        return
    kept = np.zeros(len(candidates), dtype=np.uint64)
    for place in range(offsets[item], offsets[item + 1]):
        case = postings[place]
        kept[case >> 6] |= np.uint64(1) << np.uint64(case & 63)
    for word in range(len(candidates)):
        candidates[word] &= kept[word]


@kernel
def greedy_choice(
    points: Ints, used: Ints, most: Ints, size: int, candidates: Words,
    base: Whole, offsets: Whole, postings: Whole, row: Whole, bits: Words,
) -> int:  # fmt: skip
    """Return the place of the point whose next occurrence leaves fewest candidates.

    Ties go to the point whose last occurrence is rarest, since a point that only its repetition makes rare gains
    nothing at first.

    Parameters
    ----------
    points, size
        Distinct points of the case, and how many they are.
    used, most
        How often each point is known so far, and how often the case has it.
    candidates
        uint64[words], a bit for each case that is still possible.
    base, offsets, postings, row, bits
        The index (`posted`, `multiset_items`).

    Returns
    -------
    int
        Place of the point; -1 if all are used.
    """
    best, fewest, rarest = -1, 0, 0
    for k in range(size):
        if used[k] == most[k]:
            continue
        count = remaining(base[points[k]] + used[k], candidates, offsets, postings, row, bits)
        last = base[points[k]] + most[k] - 1
        support = offsets[last + 1] - offsets[last]
        if best < 0 or count < fewest or (count == fewest and support < rarest):
            best, fewest, rarest = k, count, support
    return best


@kernel
def greedy_length(
    points: Ints, most: Ints, size: int, candidates: Words,
    base: Whole, offsets: Whole, postings: Whole, row: Whole, bits: Words,
) -> int:  # fmt: skip
    """Count the points that the greedy adversary needs until one of `candidates` is left; -1 if all are too few.

    Parameters
    ----------
    points, most, size
        Distinct points of the case, how often it has each, and how many they are.
    candidates
        uint64[words], a bit for each case that is possible without any point; restricted here.
    base, offsets, postings, row, bits
        The index (`posted`, `multiset_items`).
    """
    used = np.zeros(size, dtype=np.int64)
    needed = 0
    while True:
        count = 0
        for word in range(len(candidates)):
            count += count_ones(candidates[word])
        if count <= 1:
            return needed
        best = greedy_choice(points, used, most, size, candidates, base, offsets, postings, row, bits)
        if best < 0:
            return -1
        restrict(base[points[best]] + used[best], candidates, offsets, postings, row, bits)
        used[best] += 1
        needed += 1


@kernel
def greedy_lengths(
    points: Whole, starts: Ints, group: Ints, chosen: Flags,
    base: Whole, offsets: Whole, postings: Whole, row: Whole, bits: Words,
) -> Ints:  # fmt: skip
    """Return `greedy_length` of the chosen cases, -1 for the others, int64[C].

    Candidates begin as the cases with the same case attributes.

    Parameters
    ----------
    points
        Point of each event.
    starts
        int64[C + 1], where the events of each case begin.
    group
        int64[C], item of the case attributes of each case, -1 if none are known.
    chosen
        bool[C], cases to look at.
    base, offsets, postings, row, bits
        The index (`posted`, `multiset_items`).
    """
    cases = len(chosen)
    needed = np.full(cases, -1, dtype=np.int64)
    candidates = np.empty((cases + 63) // 64, dtype=np.uint64)
    for case in range(cases):
        if not chosen[case]:
            continue
        candidates[:] = ~np.uint64(0)
        if cases & 63:
            candidates[-1] = (np.uint64(1) << np.uint64(cases & 63)) - np.uint64(1)
        if group[case] >= 0:
            restrict(group[case], candidates, offsets, postings, row, bits)
        codes = np.sort(points[starts[case] : starts[case + 1]])
        distinct = np.empty(len(codes), dtype=np.int64)
        most = np.empty(len(codes), dtype=np.int64)
        size = 0
        for k in range(len(codes)):
            if k == 0 or codes[k] != codes[k - 1]:
                distinct[size] = codes[k]
                most[size] = 0
                size += 1
            most[size - 1] += 1
        needed[case] = greedy_length(distinct, most, size, candidates, base, offsets, postings, row, bits)
    return needed
