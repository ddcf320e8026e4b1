"""One linker as arrays: who sends how many records to whom, and how that is changed and taken back (compiled).

A linker sends every record of the earlier release to a record of its own in the later one (Def. 9). On classes with
counts it is a list of (earlier row, later row, records), threaded here through two linked lists, so that a step along a
residual path costs the degree of the rows it touches:

    (head1, head2, pairs, free, log, used)

`pairs[p]`: next pair of the same earlier row, next of the same later row, earlier row, later row, records (0: unused).
`free[j]`: records of later row j that no one links to. `used`: the first unused pair, and how many changes `log` holds
since the last `undo`, so that a question about one candidate leaves no trace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.compiled import kernel, part
from models.content_free import content_free
from models.eventlog import Ints

NEXT1, NEXT2, ROW1, ROW2, RECORDS = 0, 1, 2, 3, 4
"""Columns of `pairs`."""

SPARE, LOGGED = 0, 1
"""Entries of `used`."""

MOST_CHANGES = 1 << 21
"""Changes that one candidate may make; the system gives memory for touched pages only."""


@content_free()
class Linker(NamedTuple):
    """The arrays of one linker, in the order that the kernels take."""

    head1: Ints
    head2: Ints
    pairs: Ints
    free: Ints
    log: npt.NDArray[np.int32]
    used: Ints


def no_links(counts1: Ints, counts2: Ints, records: int = 0) -> Linker:
    """No record linked. A pair holds at least one record, so there are never more pairs than records. `records`: so
    many can be earlier ones later on, where these are more."""
    slots = max(int(counts1.sum()), records) + 1
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


def copied(one: Linker) -> Linker:
    """The same linker to go on with. Both write the same log, so what one of them changed is to be undone, or forgotten
    (`used`), before the other is asked."""
    head1, head2, pairs, free, log, used = one
    return Linker(head1.copy(), head2.copy(), pairs.copy(), free.copy(), log, used.copy())


@part
def shift(linker, i, j, change):  # type: ignore[no-untyped-def]
    """Add `change` to the records that row i sends to row j, and write it down."""
    head1, head2, pairs, free, log, used = linker
    at = used[LOGGED]
    if at == len(log):
        raise RuntimeError("a linker changed more often than its log can hold")
    log[at, 0], log[at, 1], log[at, 2] = i, j, change
    used[LOGGED] = at + 1
    free[j] -= change
    p = head1[i]
    before = -1
    while p >= 0 and pairs[p, ROW2] != j:
        before = p
        p = pairs[p, NEXT1]
    if p < 0:
        p = used[SPARE]
        used[SPARE] = pairs[p, NEXT1]
        pairs[p, ROW1], pairs[p, ROW2], pairs[p, RECORDS] = i, j, change
        pairs[p, NEXT1], pairs[p, NEXT2] = head1[i], head2[j]
        head1[i] = p
        head2[j] = p
        return
    pairs[p, RECORDS] += change
    if pairs[p, RECORDS] != 0:
        return
    if before < 0:
        head1[i] = pairs[p, NEXT1]
    else:
        pairs[before, NEXT1] = pairs[p, NEXT1]
    q = head2[j]
    before = -1
    while q != p:
        before = q
        q = pairs[q, NEXT2]
    if before < 0:
        head2[j] = pairs[p, NEXT2]
    else:
        pairs[before, NEXT2] = pairs[p, NEXT2]
    pairs[p, NEXT1] = used[SPARE]
    used[SPARE] = p


@kernel
def undo(linker):  # type: ignore[no-untyped-def]
    """Back to where the log began."""
    log, used = linker[4], linker[5]
    for at in range(used[LOGGED] - 1, -1, -1):
        used[LOGGED] = at
        shift(linker, log[at, 0], log[at, 1], -log[at, 2])
    used[LOGGED] = 0


@part
def held(linker, i, j):  # type: ignore[no-untyped-def]
    """Records that row i sends to row j."""
    pairs = linker[2]
    p = linker[0][i]
    while p >= 0:
        if pairs[p, ROW2] == j:
            return pairs[p, RECORDS]
        p = pairs[p, NEXT1]
    return 0
