"""The adversary who chooses: points that single out fastest, instead of points drawn at random.

Source: reidentification-risk-2020, section 4.2, says that random selection underestimates and names optimized point
selection without giving one. Here each further point is the one that leaves fewest candidates (greedy). The smallest
set of points that singles out is a set cover problem: the greedy number is an upper bound on it, so the uniqueness
reported for m points is a lower bound on what the best m points reach, and never below any random draw at full length.
"""

from __future__ import annotations

import numpy as np

from models.errors import InputError
from models.eventlog import Ints
from models.risk.index import TraceIndex

NEVER = np.iinfo(np.int64).max
"""More points than any trace has: not even all of them single the case out."""


def greedy_points(index: TraceIndex) -> Ints:
    """Return how many points a greedy adversary needs to single out each case, int64[C].

    `NEVER` if all points do not suffice, 0 if the case attributes do alone. Joint semantics only.
    """
    from models.risk.matching import greedy_lengths

    if not index.coder.joint:
        raise InputError("the greedy adversary knows whole points: it needs semantics = 'joint'")
    if index.postings is None:
        raise InputError("the index is empty; update it with a log first")
    # Only what is unique with every point known can be singled out with fewer.
    chosen = index.unique(index.lengths, np.random.default_rng(0))
    posted = index.postings
    needed = greedy_lengths(
        np.ascontiguousarray(index.points[:, 0]),
        index.starts,
        index.group_items,
        chosen,
        posted.base,
        posted.offsets,
        posted.cases,
        posted.row,
        posted.bits,
    )
    return np.where(needed < 0, NEVER, needed)
