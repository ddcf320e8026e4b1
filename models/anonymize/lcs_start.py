"""`lcs-start`: the naive algorithm of correspondence-attacks-2021, section 7.

Every case starts from the longest common subsequence of all cases, which is the same for everybody; then items are
given back, most utility (events) per privacy lost (background knowledge that K or more, but not all, cases match)
first, as long as an audit allows it. If even the start does not pass, nothing is released. An item is given back in
all cases at once, so what is said of global suppression holds here: candidates without it keep their counts.

Guaranteed: what the given audit measures, nothing else. Unit: one case.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.baselines import common, leftmost
from models.anonymize.result import Anonymized
from models.errors import BoundError
from models.eventlog import EventLog, Flags
from models.knowledge import Knowledge, items


def common_subsequence(traces: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a common subsequence of all traces.

    It is the longest common subsequence of the first two, then of that and the next, and so on: exact for two
    traces, a lower bound for more (the exact problem is NP-hard).

    Parameters
    ----------
    traces
        Item codes of each trace. Equal traces count once.

    Returns
    -------
    tuple of int
        Item codes; empty if there is no trace, or if nothing is in common.
    """
    distinct = sorted(set(traces), key=lambda trace: (len(trace), trace))
    if not distinct:
        return ()
    longest = len(distinct[-1])
    table = np.zeros((longest + 1, longest + 1), dtype=np.int64)
    shared = np.asarray(distinct[0], dtype=np.int32)
    for trace in distinct[1:]:
        shared = common(shared, np.asarray(trace, dtype=np.int32), table)
        if not len(shared):
            break
    return tuple(shared.tolist())


def lcs_start(log: EventLog, knowledge: Knowledge, allowed: Callable[[Flags], bool]) -> Anonymized:
    """Build a release from the common subsequence of all cases upwards.

    Parameters
    ----------
    log
        The source log.
    knowledge
        The perspectives of an item.
    allowed
        Whether a mask of kept events, bool[E], may be released.

    Returns
    -------
    Anonymized
        The largest mask that was allowed.

    Raises
    ------
    BoundError
        If neither the common subsequence nor any single item is allowed.

    References
    ----------
    correspondence-attacks-2021, section 7.
    """
    column = items(log, knowledge)
    codes = column.codes
    traces = [tuple(codes[a:b].tolist()) for a, b in itertools.pairwise(log.starts.tolist())]
    shared = common_subsequence(traces)
    kept = np.concatenate([np.zeros(0, dtype=np.bool_), *(leftmost(trace, shared) for trace in traces)])
    fine = bool(kept.any()) and allowed(kept)
    if not fine:
        kept = np.zeros(log.n_events, dtype=np.bool_)
    gone = []
    for item in _order(log, codes, len(column.values)):
        more = kept | (codes == item)
        if allowed(more):
            kept, fine = more, True
        else:
            gone.append(item)
    if not fine:
        raise BoundError("lcs-start: not even the common subsequence of the cases passes; nothing is released")
    return Anonymized(log, kept, knowledge, suppressed=tuple(column.values[item] for item in gone))


def _order(log: EventLog, codes: npt.NDArray[Any], n_items: int) -> list[int]:
    """Return the items by events gained per privacy lost, best first.

    The loss is p (1 - p) for the share p of cases that have the item: an item of every case, or of none,
    reveals nothing.
    """
    owner = log.case_of_event
    gain = np.bincount(codes, minlength=n_items)
    width = max(n_items, 1)
    pairs = np.unique(owner * width + codes)  # each case and each of its items once
    cases = np.bincount(pairs % width, minlength=n_items)
    price = [int(count) * (log.n_cases - int(count)) + 1 for count in cases]
    return sorted(range(n_items), key=lambda item: (-Fraction(int(gain[item]), price[item]), item))
