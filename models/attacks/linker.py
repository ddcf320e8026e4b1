"""The linkers of a pair of releases: one linker as arrays, its paths, and the base linker of each n.

A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). The exact attacks
ask about the best of all linkers for each background knowledge. They start from one linker for each n, the base linker
(`base_linkers`), and change it along residual paths: on these, records make room for one another.

On record classes with counts, a linker is a list of pairs (earlier row, later row, records). Each pair is in two linked
lists, that of its earlier row and that of its later row, so that a step along a residual path costs the degree of the
rows it touches:

    head1[i] -> p -> pairs[p, NEXT1] -> ... -> -1     the pairs of earlier row i
    head2[j] -> p -> pairs[p, NEXT2] -> ... -> -1     the pairs of later row j

An alternating path leads from an earlier row with a record to place, over links to later rows and back over pairs of
the linker, to a later row with a free record. Along it every record moves to the next later row:

    i0 --link--> j0 ==pair== i1 --link--> j1 ==pair== i2 --link--> j2 (free)
    becomes   i0 == j0,  i1 == j1,  i2 == j2

Arguments of the compiled functions: `linker`, the arrays of `Linker`; `runs`, the links by earlier rows, as
`linkability.Edges` lists them; `scratch`, the arrays of `Scratch`; `in1`, `in2`, which rows are in the matching sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import LEAST, SUBSEQUENCE, Edges
from models.attacks.pairs import ReleasePair
from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Flags, Ints

# --- One linker ---


NEXT1, NEXT2, ROW1, ROW2, RECORDS = 0, 1, 2, 3, 4
"""Columns of `pairs`."""

SPARE, LOGGED = 0, 1
"""Entries of `used`."""

MOST_CHANGES = 1 << 21
"""Changes that one candidate may make. The system gives memory for touched pages only."""


@content_free()
class Linker(NamedTuple):
    """The arrays of one linker, in the order that the kernels take.

    head1, head2 : int64[earlier rows], int64[later rows], first pair of each row, -1 if it has none
    pairs : int64[slots, 5], columns NEXT1 to RECORDS; unused slots are a list of their own, along NEXT1
    free : int64[later rows], records that no earlier record is sent to
    log : int32[MOST_CHANGES, 3], changes since the last `undo`: earlier row, later row, records
    used : int64[2], first unused slot (SPARE) and number of logged changes (LOGGED)
    """

    head1: Ints
    head2: Ints
    pairs: Ints
    free: Ints
    log: npt.NDArray[np.int32]
    used: Ints


def empty_linker(counts1: Ints, counts2: Ints, records: int = 0) -> Linker:
    """Return a linker without links.

    Parameters
    ----------
    counts1, counts2
        Records of each earlier and of each later row.
    records
        Earlier records that the linker may hold later on, if these are more.
    """
    slots = max(int(counts1.sum()), records) + 1  # a pair holds at least one record
    pairs = np.zeros((slots, 5), dtype=np.int64)
    pairs[:, NEXT1] = np.arange(1, slots + 1)
    return Linker(
        np.full(len(counts1), -1, dtype=np.int64),
        np.full(len(counts2), -1, dtype=np.int64),
        pairs,
        counts2.astype(np.int64).copy(),
        np.empty((MOST_CHANGES, 3), dtype=np.int32),
        np.zeros(2, dtype=np.int64),
    )


def copy_linker(linker: Linker) -> Linker:
    """Return a copy of a linker.

    Both write the same log. Undo or forget (`used`) the changes of one before the other is asked.

    Parameters
    ----------
    linker
        The linker to copy.
    """
    head1, head2, pairs, free, log, used = linker
    return Linker(head1.copy(), head2.copy(), pairs.copy(), free.copy(), log, used.copy())


@part
def shift(linker, i, j, change):  # type: ignore[no-untyped-def]
    """Add `change` to the records that row i sends to row j, and log it.

    Parameters
    ----------
    linker
        Arrays of the linker; `free`, `pairs` and `log` change.
    i, j
        Earlier row and later row.
    change
        Records to add, below 0 to take out. A pair that keeps no record is removed from both lists.

    Raises
    ------
    RuntimeError
        If the log is full (`MOST_CHANGES`).
    """
    head1, head2, pairs, free, log, used = linker

    # Log the change, and count the free records of row j.
    entry = used[LOGGED]
    if entry == len(log):
        raise RuntimeError("a linker changed more often than its log can hold")
    log[entry, 0], log[entry, 1], log[entry, 2] = i, j, change
    used[LOGGED] = entry + 1
    free[j] -= change

    # Find the pair p of both rows in the list of row i, and the pair before it.
    before_in_list1, p = -1, head1[i]
    while p >= 0 and pairs[p, ROW2] != j:
        before_in_list1 = p
        p = pairs[p, NEXT1]

    # There is none: take a spare slot for it, and put it first into both lists.
    if p < 0:
        p = used[SPARE]
        used[SPARE] = pairs[p, NEXT1]
        pairs[p, ROW1], pairs[p, ROW2], pairs[p, RECORDS] = i, j, change
        pairs[p, NEXT1], pairs[p, NEXT2] = head1[i], head2[j]
        head1[i] = p
        head2[j] = p
        return

    # There is one: change its records.
    pairs[p, RECORDS] += change
    if pairs[p, RECORDS] != 0:
        return

    # It holds no record any more: take it out of both lists, and give its slot back.
    if before_in_list1 < 0:
        head1[i] = pairs[p, NEXT1]
    else:
        pairs[before_in_list1, NEXT1] = pairs[p, NEXT1]
    before_in_list2, q = -1, head2[j]
    while q != p:
        before_in_list2 = q
        q = pairs[q, NEXT2]
    if before_in_list2 < 0:
        head2[j] = pairs[p, NEXT2]
    else:
        pairs[before_in_list2, NEXT2] = pairs[p, NEXT2]
    pairs[p, NEXT1] = used[SPARE]
    used[SPARE] = p


@kernel
def undo(linker):  # type: ignore[no-untyped-def]
    """Take back all logged changes, the last one first.

    Parameters
    ----------
    linker
        Arrays of the linker. Its log is empty afterwards.
    """
    log, used = linker.log, linker.used
    for entry in range(used[LOGGED] - 1, -1, -1):
        used[LOGGED] = entry  # what `shift` logs now goes over this entry
        shift(linker, log[entry, 0], log[entry, 1], -log[entry, 2])
    used[LOGGED] = 0


@part
def records_sent(linker, i, j):  # type: ignore[no-untyped-def]
    """Return the records that row i sends to row j.

    Parameters
    ----------
    linker
        Arrays of the linker.
    i, j
        Earlier row and later row.
    """
    pairs = linker.pairs
    p = linker.head1[i]
    while p >= 0:
        if pairs[p, ROW2] == j:
            return pairs[p, RECORDS]
        p = pairs[p, NEXT1]
    return 0


UNREACHED = 1 << 30
"""A distance longer than any path, and a number larger than that of any records."""

ANY_PAIR, SUBSEQUENCE_PAIRS, STAYING_PAIRS = 0, 1, 2
"""Links that a search for places may use (`mode`): all linkable pairs; those whose earlier trace is a subsequence of
the later one; those that do not leave the matching sets."""


@content_free()
class Scratch(NamedTuple):
    """The arrays of a search for paths, int64.

    came1, came2 : by earlier and by later row, where the path came from
    queue : rows to visit
    excess : by earlier row, records that have still to be placed
    level1, level2 : steps from those records to each row, -1 if no path leads there
    next1 : by earlier row, the first run of links that has not been tried in this phase
    next1_row : by earlier row, the first later row of that run that has not been tried
    next2 : by later row and one more, where to look for the next row that a search has not passed (`not_passed`)

    A path that places records begins at an earlier row. Its `came2[j]` is an earlier row, over a link. Its `came1[i]`
    is the number of earlier rows + the later row whose pair it went back over, and i itself where the path begins.

    The search for rows that can become free begins at later rows with a free record. Its `came1[i]` is a later row,
    over a link. Its `came2[j]` is the earlier row whose pair it went over, and the number of earlier rows where it
    begins.

    A path that moves records out of a matching set begins at a later row that holds some. Its `came1[i]` is the later
    row whose pair it went back over. Its `came2[j]` is the earlier row whose link it went over, and the number of
    earlier rows where the path begins.
    """

    came1: Ints
    came2: Ints
    queue: Ints
    excess: Ints
    level1: Ints
    level2: Ints
    next1: Ints
    next1_row: Ints
    next2: Ints


def scratch_for(rows1: int, rows2: int) -> Scratch:
    """Return the arrays for searches between `rows1` earlier and `rows2` later rows.

    Parameters
    ----------
    rows1, rows2
        Number of earlier and of later rows.
    """
    sizes = (rows1, rows2, max(rows1, rows2) + 1, rows1, rows1, rows2, rows1, rows1, rows2 + 1)
    return Scratch(*(np.zeros(size, dtype=np.int64) for size in sizes))


@part
def _run_is_open(link, n, mode):  # type: ignore[no-untyped-def]
    """Whether a run of links may be used, by its least n (and SUBSEQUENCE) and the `mode`."""
    if (link & LEAST) > n:
        return False
    return mode != SUBSEQUENCE_PAIRS or (link & SUBSEQUENCE) != 0


@part
def _may_send(mode, in1, in2, i, j):  # type: ignore[no-untyped-def]
    """Whether row i may send a record to row j of an open run: with STAYING_PAIRS none leaves the matching sets."""
    return mode != STAYING_PAIRS or not in1[i] or in2[j]


@part
def not_passed(next2, j):  # type: ignore[no-untyped-def]
    """Return the first later row from j on that a search has not passed, and the number of rows if there is none.

    next2[j] is j for a row that was not passed, otherwise a later row from where to go on. Each call shortens the way
    for the next ones, so that the runs of many earlier rows are read in nearly linear time.

    Parameters
    ----------
    next2
        int64[later rows + 1]; shortened on the way.
    j
        Later row at which to begin.
    """
    while next2[j] != j:
        next2[j] = next2[next2[j]]
        j = next2[j]
    return j


@kernel
def levels(linker, runs, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Set `level1` and `level2` of `scratch`: the steps from earlier rows with something in `scratch.excess`.

    Breadth first, up to the nearest later rows with a free record.

    Parameters
    ----------
    linker, runs, scratch
        See the head of this module.
    n
        Events removed from a case at most.
    mode
        Links that may be used: ANY_PAIR, SUBSEQUENCE_PAIRS or STAYING_PAIRS.
    in1, in2
        bool, rows in the matching sets. Only STAYING_PAIRS reads them.

    Returns
    -------
    bool
        Whether a free record can be reached.
    """
    start, begin, end, least = runs
    queue, excess, level1, level2 = scratch.queue, scratch.excess, scratch.level1, scratch.level2
    next2 = scratch.next2
    head2, pairs, free = linker.head2, linker.pairs, linker.free

    # Begin at the earlier rows with records to place.
    queued, visited = 0, 0
    for j in range(len(level2)):
        level2[j] = -1
        next2[j] = j
    next2[len(level2)] = len(level2)
    for i in range(len(level1)):
        level1[i] = -1
        if excess[i] > 0:
            level1[i] = 0
            queue[queued] = i
            queued += 1

    nearest_free = UNREACHED  # level of the later rows at which the search ends
    while visited < queued and level1[queue[visited]] + 1 <= nearest_free:
        i = queue[visited]
        visited += 1
        for k in range(start[i], start[i + 1]):
            if not _run_is_open(least[k], n, mode):
                continue
            j = not_passed(next2, begin[k])
            while j < end[k]:
                # Go over a link to a later row that was not reached before.
                if _may_send(mode, in1, in2, i, j):
                    level2[j] = level1[i] + 1
                    next2[j] = j + 1
                    if free[j] > 0:
                        nearest_free = level2[j]
                    if level2[j] < nearest_free:
                        # Go back over its pairs to the earlier rows whose records could make room.
                        p = head2[j]
                        while p >= 0:
                            other = pairs[p, ROW1]
                            if level1[other] < 0:
                                level1[other] = level2[j] + 1
                                queue[queued] = other
                                queued += 1
                            p = pairs[p, NEXT2]
                j = not_passed(next2, j + 1)
    return nearest_free < UNREACHED


@part
def _place(linker, runs, n, mode, in1, in2, source, units, scratch):  # type: ignore[no-untyped-def]
    """Walk one augmenting path from row `source` along rising levels to a free later record.

    Returns how many records it carries, 0 if there is none. A row that leads nowhere loses its level, and `next1` and
    `next1_row` of `scratch` skip links tried in vain, so that a phase tries each link once.
    """
    came1, came2 = scratch.came1, scratch.came2
    level1, level2 = scratch.level1, scratch.level2
    head2, pairs, free = linker.head2, linker.pairs, linker.free
    n_earlier = len(came1)
    came1[source] = source
    i = source
    while True:
        j = _on_next_level(runs, n, mode, in1, in2, i, scratch)
        if j >= 0:
            came2[j] = i
            if free[j] > 0:
                return carry(linker, came1, came2, j, units)
        elif i == source:
            return 0
        else:
            # Row i leads nowhere: try another pair of the later row that the path came from.
            level1[i] = -1
            j = came1[i] - n_earlier

        # From row j, find a pair back to an earlier row on the next level.
        p = head2[j]
        while p >= 0 and level1[pairs[p, ROW1]] != level2[j] + 1:
            p = pairs[p, NEXT2]
        if p >= 0:
            i = pairs[p, ROW1]
            came1[i] = n_earlier + j
        else:
            # Row j leads nowhere: try another link of the earlier row that the path came from.
            level2[j] = -1
            i = came2[j]


@part
def _on_next_level(runs, n, mode, in1, in2, i, scratch):  # type: ignore[no-untyped-def]
    """Return a later row on the next level that row i links to and that was not tried in vain, -1 if there is none."""
    start, begin, end, least = runs
    next1, next1_row, level2 = scratch.next1, scratch.next1_row, scratch.level2
    next_level = scratch.level1[i] + 1
    while next1[i] < start[i + 1]:
        k = next1[i]
        if _run_is_open(least[k], n, mode):
            for j in range(max(begin[k], next1_row[i]), end[k]):
                if level2[j] == next_level and _may_send(mode, in1, in2, i, j):
                    next1_row[i] = j
                    return j
        next1[i] += 1
        next1_row[i] = 0  # runs ascend: the next one begins where it begins
    return -1


@part
def carry(linker, came1, came2, end, units):  # type: ignore[no-untyped-def]
    """Move as many records as fit, at most `units`, along the path that ends in the free later row `end`.

    Parameters
    ----------
    linker
        Arrays of the linker.
    came1, came2
        The path backwards (`Scratch`).
    end
        Later row with free records.
    units
        Records to move at most.

    Returns
    -------
    int
        Records moved: the least of `units`, the free records of `end` and the records of each pair on the
        path.
    """
    n_earlier = len(came1)
    carried = min(units, _most_along(linker, came1, came2, end))
    j = end
    while True:
        # Row i sends these records to row j, and no longer to the later row that the path came from.
        i = came2[j]
        shift(linker, i, j, carried)
        if came1[i] < n_earlier:
            return carried
        j = came1[i] - n_earlier
        shift(linker, i, j, -carried)


@part
def _most_along(linker, came1, came2, end):  # type: ignore[no-untyped-def]
    """Return how many records fit along the path that ends in the free later row `end`."""
    n_earlier = len(came1)
    most = linker.free[end]
    i = came2[end]
    while came1[i] >= n_earlier:
        j = came1[i] - n_earlier
        most = min(most, records_sent(linker, i, j))
        i = came2[j]
    return most


@part
def _beginning(came1, came2, end):  # type: ignore[no-untyped-def]
    """Return the earlier row at which the path to the later row `end` begins."""
    n_earlier = len(came1)
    i = came2[end]
    while came1[i] >= n_earlier:
        i = came2[came1[i] - n_earlier]
    return i


@kernel
def place_all(linker, runs, n, mode, in1, in2, scratch):  # type: ignore[no-untyped-def]
    """Place the records of `scratch.excess` along shortest paths, phase by phase (Dinitz).

    Only after STAYING_PAIRS can the changes be undone: the other modes build a linker, which nobody takes
    back.

    Parameters
    ----------
    linker, runs, scratch
        See the head of this module. `scratch.excess` keeps the records that found no place.
    n
        Events removed from a case at most.
    mode
        Links that may be used: ANY_PAIR, SUBSEQUENCE_PAIRS or STAYING_PAIRS.
    in1, in2
        bool, rows in the matching sets. Only STAYING_PAIRS reads them.

    Returns
    -------
    int
        Records that found no place.
    """
    start = runs[0]
    excess, next1, next1_row = scratch.excess, scratch.next1, scratch.next1_row
    unplaced = 0
    for i in range(len(excess)):
        unplaced += excess[i]
    while unplaced > 0 and levels(linker, runs, n, mode, in1, in2, scratch):
        # One phase: all paths of the present shortest length.
        for i in range(len(excess)):
            next1[i] = start[i]
            next1_row[i] = 0
        for i in range(len(excess)):
            moved = 1
            while excess[i] > 0 and moved > 0:
                moved = _place(linker, runs, n, mode, in1, in2, i, excess[i], scratch)
                excess[i] -= moved
                unplaced -= moved
                if mode != STAYING_PAIRS:
                    linker.used[LOGGED] = 0
    return unplaced


@kernel
def link_equal(linker, runs, linked1, linked2, excess):  # type: ignore[no-untyped-def]
    """Link records of equal variants, as far as both sides go; `excess` keeps those without a partner.

    Parameters
    ----------
    linker, runs
        See the head of this module.
    linked1, linked2
        int32[rows], linked variant of each earlier and of each later row.
    excess
        int64[earlier rows], records to link; lowered by those that found a partner.
    """
    start, begin, end, _ = runs
    free, used = linker.free, linker.used
    for i in range(len(excess)):
        if excess[i] == 0:
            continue
        for k in range(start[i], start[i + 1]):
            # The later rows of a run are in the order of their variants.
            j = _first_from(linked2, begin[k], end[k], linked1[i])
            if j < end[k] and linked2[j] == linked1[i] and excess[i] > 0 and free[j] > 0:
                moved = min(excess[i], free[j])
                shift(linker, i, j, moved)
                excess[i] -= moved
                used[LOGGED] = 0  # the links of a base linker are never undone


@part
def _first_from(ascending, low, high, value):  # type: ignore[no-untyped-def]
    """Return the first place of ascending[low:high] that holds at least `value`, `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def give_back(linker, before, now, excess):  # type: ignore[no-untyped-def]
    """Take out the records of each earlier row that `now` holds no more, those without a partner first.

    Parameters
    ----------
    linker
        Arrays of the linker.
    before, now
        int64[earlier rows], records that the linker holds, and is to hold.
    excess
        int64[earlier rows], those of `before` without a partner; lowered by the ones taken out.
    """
    head1, pairs, used = linker.head1, linker.pairs, linker.used
    for i in range(len(now)):
        surplus = max(0, before[i] - now[i])
        unplaced = min(surplus, excess[i])
        excess[i] -= unplaced
        surplus -= unplaced
        while surplus > 0:
            p = head1[i]
            records = min(surplus, pairs[p, RECORDS])
            shift(linker, i, pairs[p, ROW2], -records)
            used[LOGGED] = 0
            surplus -= records


@kernel
def loose_links(linker, runs, loose):  # type: ignore[no-untyped-def]
    """Fill `loose` with the links that are not subsequence pairs.

    Parameters
    ----------
    linker, runs
        See the head of this module.
    loose
        int64[P, 3], earlier row, later row, records. It has room for all pairs of the linker.

    Returns
    -------
    int
        Rows of `loose` that were filled.
    """
    start, _, end, least = runs
    head1, pairs = linker.head1, linker.pairs
    n_loose = 0
    for i in range(len(head1)):
        p = head1[i]
        while p >= 0:
            j = pairs[p, ROW2]
            run = _first_from(end, start[i], start[i + 1], j + 1)
            if (least[run] & SUBSEQUENCE) == 0:
                loose[n_loose, 0], loose[n_loose, 1], loose[n_loose, 2] = i, j, pairs[p, RECORDS]
                n_loose += 1
            p = pairs[p, NEXT1]
    return n_loose


def extend_linker(linker: Linker, runs: Any, linked1: Any, linked2: Any, n: int, scratch: Scratch) -> int:
    """Extend a linker to one with n: equal variants first, then subsequence pairs, then any linkable pair.

    Records that stay within subsequence pairs never leave a matching set, so a search needs few flows.

    Parameters
    ----------
    linker
        The linker with a smaller n, or an empty one. It is changed.
    runs
        Linkable pairs of rows (`linkability.Edges.runs`), up to n or more.
    linked1, linked2
        Linked variant of each earlier and of each later row.
    n
        Events removed from a case at most.
    scratch
        Arrays of the flows. `excess` has the records without a partner by earlier row, before and after
        the call.

    Returns
    -------
    int
        Records that find no partner; 0 means that a linker exists.
    """
    link_equal(linker, runs, linked1, linked2, scratch.excess)
    everywhere = np.zeros(1, dtype=np.bool_)  # no matching sets: any record may go anywhere
    for mode in (SUBSEQUENCE_PAIRS, ANY_PAIR):
        unplaced = place_all(linker, runs, n, mode, everywhere, everywhere, scratch)
    return int(unplaced)


@kernel
def reachable_rows(linker, runs, n, scratch):  # type: ignore[no-untyped-def]
    """Set `came2` of `scratch` >= 0 at the later rows with a record that some linker leaves free.

    Exact BA >= 1 iff one of these rows is in ms2.

    Begins at the later rows with a free record: a record whose row could link to a reached row may move there and leave
    its own place free. Each pass asks all earlier rows that are not reached yet, until a pass reaches no further one.
    `came1` and `came2` of rows that are not reached are -1.

    Parameters
    ----------
    linker, runs, scratch
        See the head of this module.
    n
        Events removed from a case at most.
    """
    start, begin, end, least = runs
    came1, came2, next_reached = scratch.came1, scratch.came2, scratch.next2
    head1, pairs, free = linker.head1, linker.pairs, linker.free
    n_earlier, n_later = len(came1), len(came2)
    for i in range(n_earlier):
        came1[i] = -1
    for j in range(n_later):
        came2[j] = n_earlier if free[j] > 0 else -1

    reaches_more = True
    while reaches_more:
        reaches_more = False
        next_reached[n_later] = n_later
        for j in range(n_later - 1, -1, -1):
            next_reached[j] = j if came2[j] >= 0 else next_reached[j + 1]
        for i in range(n_earlier):
            if came1[i] >= 0:
                continue
            # Is there a link from row i to a reached row?
            for k in range(start[i], start[i + 1]):
                j = next_reached[begin[k]]
                if j < end[k] and (least[k] & LEAST) <= n:
                    came1[i] = j
                    break
            if came1[i] < 0:
                continue
            # Go on over its pairs to the later rows whose places would become free.
            p = head1[i]
            while p >= 0:
                other = pairs[p, ROW2]
                if came2[other] < 0:
                    came2[other] = i
                    reaches_more = True
                p = pairs[p, NEXT1]


# --- The best linker for one candidate ---
#
# The two numbers behind the exact crack sizes (Def. 10-12):
#
#     M          most records of ms1 that a linker sends into ms2: F = |ms1| - M, C = |ms2| - M
#     most free  most records of ms2 that a linker leaves free:    B = |ms2| - most free
#
# Both searches start from a base linker and leave it changed: call `undo` afterwards.


@kernel
def most_free(linker, runs, n, in2, rows, enough, scratch):  # type: ignore[no-untyped-def]
    """Return the exact BA: the most records of ms2 that one linker leaves free.

    BA = |ms2| - |L1| + nu(L1, L2 minus ms2).

    It changes the linker until `undo`.

    Parameters
    ----------
    linker, runs, scratch
        See the head of this module.
    n
        Events removed from a case at most.
    in2
        bool[later rows], rows of ms2.
    rows
        int64[4], first and last + 1 row to look at, of the earlier and of the later release. Links never
        leave a sensitive value, so the rows of one value or of all values are such ranges.
    enough
        Records at which the search stops.
    """
    free = linker.free
    all_free, free_inside = 0, 0
    for j in range(rows[2], rows[3]):
        all_free += free[j]
        if in2[j]:
            free_inside += free[j]
    enough = min(enough, all_free)
    while free_inside < enough:
        moved = _move_out(linker, runs, n, in2, rows, enough - free_inside, scratch)
        if moved == 0:
            break
        free_inside += moved
    return free_inside


@part
def _move_out(linker, runs, n, in2, rows, most, scratch):  # type: ignore[no-untyped-def]
    """Move records from rows inside ms2 to free places outside it, along the paths of one search.

    A record moves directly, or to a row whose own records move on. Returns how many moved, 0 if no path exists;
    stops once `most` have. The search begins at the rows inside ms2, of which a candidate has few. The free places
    outside it are nearly all of the later release if the earlier one is old. It does not go back into ms2, since
    another path begins there. One path may take a place or a record that another path needs. That path then moves
    nothing, and the next search looks for it again.
    """
    start, begin, end, least = runs
    came1, came2, queue, next2 = scratch.came1, scratch.came2, scratch.queue, scratch.next2
    ends = scratch.level2  # later rows outside ms2 with a free record that the pairs of row j lead to
    head2, pairs, free = linker.head2, linker.pairs, linker.free

    # Begin at the later rows inside ms2 that hold records.
    for i in range(rows[0], rows[1]):
        came1[i] = -1
    queued, visited, total = 0, 0, 0
    next2[rows[3]] = rows[3]
    for j in range(rows[2], rows[3]):
        came2[j] = -1
        next2[j] = j + 1 if in2[j] else j
        if in2[j] and head2[j] >= 0:
            came2[j] = len(came1)
            queue[queued] = j
            queued += 1

    while visited < queued and total < most:
        j = queue[visited]
        visited += 1
        n_ends = 0
        p = head2[j]
        while p >= 0:
            # Go back over a pair to an earlier row, and on over its links to later rows outside ms2.
            i, records = pairs[p, ROW1], pairs[p, RECORDS]
            p = pairs[p, NEXT2]
            if came1[i] >= 0:
                continue
            came1[i] = j
            places = 0  # free places for the records of this pair
            for k in range(start[i], start[i + 1]):
                if (least[k] & LEAST) > n or places >= records:
                    continue
                other = not_passed(next2, begin[k])
                while other < end[k] and places < records:
                    if came2[other] < 0:  # another pair of row j may have led to it
                        came2[other] = i
                        if free[other] == 0:
                            queue[queued] = other
                            queued += 1
                            next2[other] = other + 1
                        else:
                            ends[n_ends] = other
                            n_ends += 1
                            places += free[other]
                    other = not_passed(next2, other + 1)
        # Only now, since moving changes the pairs that the loop above reads. Other paths may end in the same rows: if
        # the first one kept them all to itself, a search would move the records of one row and end.
        for k in range(n_ends):
            if total < most:
                total += _move_along(linker, came1, came2, ends[k], most - total)
        for k in range(n_ends):
            came2[ends[k]] = -1
    return total


@part
def _move_along(linker, came1, came2, end, most):  # type: ignore[no-untyped-def]
    """Move as many records as fit, at most `most`, along the path to the free places of the later row `end`.

    Returns 0 if another path has taken what it needs.
    """
    n_earlier = len(came1)
    moved = min(most, linker.free[end])
    j = end
    while came2[j] < n_earlier:
        i = came2[j]
        j = came1[i]
        moved = min(moved, records_sent(linker, i, j))
    if moved == 0:
        return 0
    j = end
    while came2[j] < n_earlier:
        i = came2[j]
        shift(linker, i, j, moved)
        j = came1[i]
        shift(linker, i, j, -moved)
    return moved


@kernel
def fewest_leaving(linker, runs, n, in1, in2, loose, scratch):  # type: ignore[no-untyped-def]
    """Return the fewest records of ms1 that one total linker sends out of ms2, |ms1| - M.

    The pairs that leave are taken out, and placed again without leaving as far as possible. If all of them
    fit, or none, the number is known. Shortest paths are needed only if some fit and some do not, since one
    that stays may then force another one to leave. The linker is changed until `undo`.

    Parameters
    ----------
    linker, runs, scratch
        See the head of this module.
    n
        Events removed from a case at most.
    in1, in2
        bool, rows in the matching sets.
    loose
        int64[P, 3], pairs of the linker (earlier row, later row, records) that are not subsequence pairs.
        The other pairs never leave a matching set.
    """
    excess = scratch.excess
    for i in range(len(excess)):
        excess[i] = 0
    leaving = 0
    for k in range(len(loose)):
        i, j, records = loose[k, 0], loose[k, 1], loose[k, 2]
        if in1[i] and not in2[j]:
            shift(linker, i, j, -records)
            excess[i] += records
            leaving += records
    unplaced = place_all(linker, runs, n, STAYING_PAIRS, in1, in2, scratch)
    if unplaced == 0 or unplaced == leaving:
        return unplaced
    return _cheapest(linker, runs, n, in1, in2, unplaced, scratch)


@part
def _cheapest(linker, runs, n, in1, in2, unplaced, scratch):  # type: ignore[no-untyped-def]
    """Place the `unplaced` records with the fewest pairs that leave the matching sets; returns that number.

    Successive shortest paths. A link from inside ms1 to outside ms2 costs 1, every other link 0; the way back over a
    pair of the linker costs the negative.
    """
    free, excess = linker.free, scratch.excess
    came1, came2 = scratch.came1, scratch.came2
    rows1, rows2 = len(in1), len(in2)
    distance1, distance2 = np.empty(rows1, np.int64), np.empty(rows2, np.int64)
    is_queued = np.empty(rows1, np.bool_)
    cost = 0
    while unplaced > 0:
        _measure_distances(linker, runs, n, in1, in2, scratch, distance1, distance2, is_queued)
        nearest = UNREACHED
        for j in range(rows2):
            if free[j] > 0:
                nearest = min(nearest, distance2[j])
        # Every link on these paths is tight (the distances are potentials), and so is the way back along it: a path
        # stays a shortest one whichever others of its length were used before.
        for end in range(rows2):
            if free[end] > 0 and distance2[end] == nearest:
                moved = _place_along(linker, came1, came2, end, excess)
                unplaced -= moved
                cost += moved * nearest
    return cost


@part
def _measure_distances(linker, runs, n, in1, in2, scratch, distance1, distance2, is_queued):  # type: ignore[no-untyped-def]
    """Set the least costs of a path from a record in `scratch.excess` to each row (see `_cheapest`).

    Bellman-Ford with a queue of earlier rows: a row is queued again whenever a cheaper path reaches it. The queue is a
    ring of one place more than there are earlier rows.
    """
    start, begin, end, least = runs
    came1, came2, queue, excess = scratch.came1, scratch.came2, scratch.queue, scratch.excess
    head2, pairs = linker.head2, linker.pairs
    rows1, rows2 = len(in1), len(in2)

    # Begin at the earlier rows with records to place.
    first, behind = 0, 0  # of the queue: the next row to visit, and the place behind the last one
    for j in range(rows2):
        distance2[j] = UNREACHED
    for i in range(rows1):
        distance1[i] = UNREACHED
        is_queued[i] = False
        if excess[i] > 0:
            distance1[i] = 0
            came1[i] = i
            is_queued[i] = True
            queue[behind] = i
            behind += 1

    while first != behind:
        i = queue[first]
        first = first + 1 if first < rows1 else 0
        is_queued[i] = False
        for k in range(start[i], start[i + 1]):
            if (least[k] & LEAST) > n:
                continue
            for j in range(begin[k], end[k]):
                # Go over a link, if that is cheaper than all paths to row j before.
                distance = distance1[i] + (in1[i] and not in2[j])
                if distance >= distance2[j]:
                    continue
                distance2[j] = distance
                came2[j] = i
                # Go back over the pairs of row j.
                p = head2[j]
                while p >= 0:
                    other = pairs[p, ROW1]
                    distance_back = distance - (in1[other] and not in2[j])
                    if distance_back < distance1[other]:
                        distance1[other] = distance_back
                        came1[other] = rows1 + j
                        if not is_queued[other]:
                            is_queued[other] = True
                            queue[behind] = other
                            behind = behind + 1 if behind < rows1 else 0
                    p = pairs[p, NEXT2]


@part
def _place_along(linker, came1, came2, end, excess):  # type: ignore[no-untyped-def]
    """Place as many records as fit along the path to the free later row `end`.

    Returns 0 if another path has taken what it needs.
    """
    beginning = _beginning(came1, came2, end)
    units = min(excess[beginning], _most_along(linker, came1, came2, end))
    if units > 0:
        carry(linker, came1, came2, end, units)
        excess[beginning] -= units
    return units


# --- The base linker of each n ---


@content_free("n", "left")
@dataclass(frozen=True, slots=True)
class BaseLinker:
    """One linker for one n, as a flow over record classes, from which every candidate starts.

    Parameters
    ----------
    n
        Events removed at most.
    linkable
        Linkable pairs of record classes.
    linker, scratch
        The arrays. They move on when the linker of the next n is made.
    unplaced
        Records of the earlier release without a partner; 0 if a linker exists.
    excess
        int64[earlier rows], these by row.
    loose
        int64[P, 3], the links that are not subsequence pairs (earlier row, later row, records). Only these can leave a
        matching set. Empty if no linker exists.
    reachable
        bool[later rows], rows of which some linker leaves a record free. Empty if no linker exists.
    """

    n: int
    linkable: Edges
    linker: Linker
    scratch: Scratch
    unplaced: int
    excess: Ints
    loose: Ints
    reachable: Flags

    @classmethod
    def of(cls, linker: Linker, linkable: Edges, n: int, unplaced: int, scratch: Scratch) -> Self:
        """Return the base linker of one n.

        Parameters
        ----------
        linker
            Arrays in which the records are placed.
        linkable
            Linkable pairs of record classes, up to n or more.
        n
            Events removed at most.
        unplaced
            Records without a partner.
        scratch
            Arrays of the flows. `excess` has the records without a partner by earlier row.
        """
        excess = scratch.excess.copy()
        if unplaced > 0:
            no_links, no_rows = np.zeros((0, 3), dtype=np.int64), np.zeros(0, dtype=np.bool_)
            return cls(n, linkable, linker, scratch, unplaced, excess, no_links, no_rows)
        loose = np.empty((len(linker.pairs), 3), dtype=np.int64)
        n_loose = loose_links(linker, linkable.runs, loose)
        reachable_rows(linker, linkable.runs, n, scratch)
        return cls(n, linkable, linker, scratch, unplaced, excess, loose[:n_loose].copy(), scratch.came2 >= 0)

    @property
    def exists(self) -> bool:
        """Whether a linker exists for this n."""
        return self.unplaced == 0

    def links(self) -> Ints:
        """Return the current pairs: int64[P, 3], earlier row, later row, records."""
        pairs = self.linker.pairs
        used = np.flatnonzero(pairs[:, RECORDS] > 0)
        return pairs[used][:, [ROW1, ROW2, RECORDS]]

    def most_free(self, in2: Flags, enough: int) -> int:
        """Return the exact BA of a candidate, or `enough` if it is not less. Changes the linker until `undo`.

        Parameters
        ----------
        in2
            bool[later rows], rows in the matching set of the later release.
        enough
            Records at which the search stops.
        """
        rows = _all_rows(self.linker)
        return int(most_free(self.linker, self.linkable.runs, self.n, in2, rows, enough, self.scratch))

    def fewest_leaving(self, in1: Flags, in2: Flags) -> int:
        """Return |ms1| - M of a candidate: the fewest records of ms1 that a linker sends out of ms2.

        It changes the linker until `undo`.

        Parameters
        ----------
        in1, in2
            bool[earlier rows] and bool[later rows], rows in the matching sets.
        """
        starts_inside, ends_inside = in1[self.loose[:, 0]], in2[self.loose[:, 1]]
        if not (starts_inside & ~ends_inside).any():
            return 0
        return int(fewest_leaving(self.linker, self.linkable.runs, self.n, in1, in2, self.loose, self.scratch))

    def undo(self) -> None:
        """Go back to the base linker."""
        undo(self.linker)


def _all_rows(linker: Linker) -> Ints:
    """Return the range of earlier rows and the range of later rows that the compiled searches look at."""
    return np.asarray([0, len(linker.head1), 0, len(linker.free)], dtype=np.int64)


def base_linkers(pair: ReleasePair, linkable: Edges, ns: Sequence[int], records: int = 0) -> Iterator[BaseLinker]:
    """Yield one base linker for each n, ascending: what links with n also links with n + 1.

    Use each before the next: all of them continue in the same arrays.

    Parameters
    ----------
    pair, linkable
        The releases and their linkable pairs, up to the largest n.
    ns
        Events removed at most.
    records
        Records that an earlier release may hold to which the linker moves later on, if these are more.
    """
    linker = empty_linker(pair.earlier.count, pair.later.count, records)
    scratch = scratch_for(len(pair.earlier.count), len(pair.later.count))
    excess = pair.earlier.count.astype(np.int64)
    for n in sorted(ns):
        scratch.excess[:] = excess
        unplaced = extend_linker(linker, linkable.runs, pair.earlier.linked, pair.later.linked, n, scratch)
        base = BaseLinker.of(linker, linkable, n, unplaced, scratch)
        excess = base.excess
        yield base
