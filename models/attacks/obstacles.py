"""Why no linker exists for some n: Hall witnesses, and the least n with which one would exist.

By Hall's theorem, records that together link to fewer later records than they are prove that no linker exists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.attacks.linkability import LEAST, Edges, Runs, edges
from models.attacks.linker import ANY_PAIR, BaseLinker, Linker, empty_linker, extend_linker, levels, scratch_for
from models.attacks.pairs import RecordClasses, ReleasePair
from models.content_free import content_free
from models.eventlog import Flags, Ints

FIRST_N = 5
"""The search of the least n tries no smaller n than this: to list the links of 1, 2 and 3 costs more than it saves."""


@content_free("earlier", "later", "least_n")
@dataclass(frozen=True, slots=True)
class Obstacle:
    """A Hall witness: records of one sensitive value that link to fewer later records than they are.

    Parameters
    ----------
    value
        The sensitive value.
    earlier, later
        `earlier` records of the earlier release can only be `later` < `earlier` records of the later one.
    least_n
        The smallest n with which the records of this value can all be linked. None if it was not asked for, or if no n
        up to 127 is enough: above all if the later release has fewer records of the value.
    """

    value: Any
    earlier: int
    later: int
    least_n: int | None


def obstacles(
    pair: ReleasePair,
    base: BaseLinker,
    least_ns: dict[int, int | None] | None,
    most: int,
) -> list[Obstacle]:
    """Return a witness for each sensitive value whose records cannot all be linked with this n.

    Parameters
    ----------
    pair, base
        The releases and the linker that leaves records without partner.
    least_ns
        The least n of each value that was searched with a smaller n: it does not depend on n, and takes long. New ones
        are added. None: the least n is not searched.
    most
        The largest n of the audit, the first to be tried.
    """
    values = np.unique(pair.earlier.value[base.excess > 0]).tolist()
    if least_ns is None:
        return [_obstacle(pair, base, value, None) for value in values]
    for value in values:
        if value not in least_ns:
            least_ns[value] = _least_n(_of_one_value(pair, value), base.n, most)
    return [_obstacle(pair, base, value, least_ns[value]) for value in values]


def _obstacle(pair: ReleasePair, base: BaseLinker, value: int, least: int | None) -> Obstacle:
    excess = np.where(pair.earlier.value == value, base.excess, 0)
    reached1, reached2 = _hall_witness(base.linker, base.linkable.runs, base.n, excess)
    return Obstacle(
        value=pair.values[value],
        earlier=int(pair.earlier.count[reached1].sum()),
        later=int(pair.later.count[reached2].sum()),
        least_n=least,
    )


def _hall_witness(linker: Linker, runs: Runs, n: int, excess: Ints) -> tuple[Flags, Flags]:
    """Return earlier rows that together link to fewer later records than they hold, and those later rows.

    These are the rows that alternating paths reach from the first row with a record in `excess`: none of them leads to
    a free record, since the linker places as many records as possible (Hall's theorem).
    """
    scratch = scratch_for(len(excess), len(linker.free))
    scratch.excess[np.flatnonzero(excess)[0]] = 1
    none = np.zeros(1, dtype=np.bool_)
    levels(linker, runs, n, ANY_PAIR, none, none, scratch)
    return scratch.level1 >= 0, scratch.level2 >= 0


def _of_one_value(pair: ReleasePair, value: int) -> ReleasePair:
    """Return the records of one sensitive value."""
    return replace(pair, earlier=_rows_of_value(pair.earlier, value), later=_rows_of_value(pair.later, value))


def _rows_of_value(rows: RecordClasses, value: int) -> RecordClasses:
    keep = rows.value == value
    return RecordClasses(
        rows.linked[keep], rows.known_variant[keep], rows.value[keep], rows.count[keep], rows.row_of_case[:0]
    )


def _least_n(pair: ReleasePair, low: int, high: int) -> int | None:
    """Return the least n with which the records of one sensitive value have a linker, or None.

    n grows by half, then bisection: links far beyond the answer are not listed. With n = longest trace all pairs link.
    `low`: an n without a linker; `high`: where to begin.
    """
    if pair.earlier.n_cases > pair.later.n_cases:
        return None
    longest = min(LEAST, int(np.diff(pair.linked.start).max()))
    if high <= low:
        high = _next_n(low)
    high = min(longest, high)
    linkable = edges(pair, high)
    while high < longest and not _exists(pair, linkable, high):
        low = high
        high = min(longest, _next_n(high))
        linkable = edges(pair, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _exists(pair, linkable, middle):
            high = middle
        else:
            low = middle
    return high if _exists(pair, linkable, high) else None


def _next_n(n: int) -> int:
    """Return the next n that the search of the least n tries."""
    return max(FIRST_N, n + 1, n + n // 2)


def _exists(pair: ReleasePair, linkable: Edges, n: int) -> bool:
    """Return whether the records of one sensitive value have a linker with n."""
    linker = empty_linker(pair.earlier.count, pair.later.count)
    scratch = scratch_for(len(pair.earlier.count), len(pair.later.count))
    scratch.excess[:] = pair.earlier.count
    unplaced = extend_linker(linker, linkable.runs, pair.earlier.linked, pair.later.linked, n, scratch)
    return unplaced == 0


def evident_obstacles(pair: ReleasePair, base: BaseLinker) -> list[Obstacle] | None:
    """Return the witnesses that every linker gives where records are left, or None if they depend on the linker.

    Call it before `scratch` of `base` is used again: it reads the last search for places.

    A witness of `obstacles` begins with the first row of its value that has a record left, so it depends on the linker.
    Two linkers leave different records only if these are exchanged along alternating paths, since no further record can
    be placed. So in any linker a record is left only at rows that such paths reach from the rows with one left in this
    linker. If the first of all these rows links to nothing, it has a record left in every linker. The witness then
    begins there, and consists of this row alone.

    Parameters
    ----------
    pair
        The releases.
    base
        The base linker of an n at which some records have no partner.

    Returns
    -------
    list of Obstacle or None
        One witness for each sensitive value with records left.
    """
    reached = np.flatnonzero(base.scratch.level1 >= 0)
    values = pair.earlier.value[reached]
    start, _, _, least = base.linkable.runs
    witnesses = []
    for value in np.unique(pair.earlier.value[base.excess > 0]).tolist():
        first = int(reached[np.argmax(values == value)])
        least_ns = least[start[first] : start[first + 1]] & LEAST
        if (least_ns <= base.n).any():
            return None
        witnesses.append(Obstacle(pair.values[value], int(pair.earlier.count[first]), 0, None))
    return witnesses
