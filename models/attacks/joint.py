"""The stricter reading of a link: one pair of originals is linkable *and* contains bk before the earlier release.

Not used by the paper (which asks the two questions apart). A pair (s1, s2) of ms1 x ms2 then counts for F and C only if
for some prefix u of s2 the shortest common supersequence of s1, u and bk has at most min(|s1|, |u|) + n events.
B is as before: its victim is not in the earlier release.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.attacks.candidates import Judge, matching, value
from models.attacks.linkability import LEAST
from models.compiled import kernel
from models.errors import InputError
from models.eventlog import Codes, Ints

MOST_LINKS = 20_000_000
"""Record by record, links are 16 bytes each; beyond this the answer would need more than 300 MB."""


def joint_value(judge: Judge, bk: Codes) -> dict[str, Any]:
    """`candidates.value` with joint links, by a minimum weight matching of records (exact only)."""
    given = judge.given
    if judge.method != "exact":
        raise InputError("joint links are an option of method exact")
    if given.items != given.known_items or len(given.link_related[1]) != len(given.items):
        raise InputError("joint links need releases that carry the audited attribute alone, without a taxonomy")
    body = value(judge, bk)
    if not judge.base.exists:
        return body
    in1, in2 = matching(judge, bk)
    costs = _costs(
        given.linked.items, given.linked.start, given.earlier.linked, given.later.linked, judge.linkable.forward,
        judge.n, bk, in1, in2,
    )  # fmt: skip
    most = int(given.earlier.count[in1].sum()) - _least_cost(judge, costs)
    body.update({"f": body["ms1"] - most, "c": body["ms2"] - most, "fa": most, "ca": most})
    return body


def _least_cost(judge: Judge, costs: Ints) -> int:
    """Fewest ms1 records without a counted link, over all total linkers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    given = judge.given
    count1, count2 = given.earlier.count, given.later.count
    row = np.repeat(np.arange(len(count1)), np.diff(judge.linkable.start))
    kept = np.flatnonzero(costs >= 0)
    sizes = count1[row[kept]] * count2[judge.linkable.later[kept]]
    if int(sizes.sum()) > MOST_LINKS:
        raise InputError(
            f"{int(sizes.sum())} links between records are too many for joint links (at most {MOST_LINKS})"
        )
    first1, first2 = np.cumsum(count1) - count1, np.cumsum(count2) - count2
    which = np.repeat(kept, sizes)
    within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    i, j = row[which], judge.linkable.later[which]
    records1, records2 = first1[i] + within // count2[j], first2[j] + within % count2[j]
    # Weights 1 and 2 in place of 0 and 1: a sparse matrix takes a stored zero for no link.
    matrix = csr_array((costs[which] + 1, (records1, records2)), shape=(int(count1.sum()), int(count2.sum())))
    rows, columns = min_weight_full_bipartite_matching(matrix)
    return int(matrix[rows, columns].sum()) - len(rows)


@kernel
def _costs(items, starts, linked1, linked2, forward, n, bk, in1, in2):  # type: ignore[no-untyped-def]
    """Per link: -1 not linkable with n; 1 it leaves ms1 without counting; 0 it counts, or its record is not in ms1."""
    start, later, least = forward
    costs = np.zeros(len(later), dtype=np.int64)
    for i in range(len(linked1)):
        s1 = items[starts[linked1[i]] : starts[linked1[i] + 1]]
        for k in range(start[i], start[i + 1]):
            j = later[k]
            if (least[k] & LEAST) > n:
                costs[k] = -1
            elif in1[i]:
                s2 = items[starts[linked2[j]] : starts[linked2[j] + 1]]
                costs[k] = 0 if in2[j] and _joint(s1, s2, bk, n) else 1
    return costs


@kernel
def _joint(s1, s2, bk, n):  # type: ignore[no-untyped-def]
    """Whether some prefix of s2, s1 and bk have a common supersequence that is short enough for both originals."""
    shortest = np.zeros((len(s1) + 1, len(s2) + 1, len(bk) + 1), dtype=np.int32)
    for i in range(len(s1) + 1):
        for j in range(len(s2) + 1):
            for k in range(len(bk) + 1):
                if i + j + k == 0:
                    continue
                least = 1 << 30
                for turn in range(3):
                    if (turn == 0 and i == 0) or (turn == 1 and j == 0) or (turn == 2 and k == 0):
                        continue
                    symbol = s1[i - 1] if turn == 0 else (s2[j - 1] if turn == 1 else bk[k - 1])
                    a = i - 1 if i > 0 and s1[i - 1] == symbol else i
                    b = j - 1 if j > 0 and s2[j - 1] == symbol else j
                    c = k - 1 if k > 0 and bk[k - 1] == symbol else k
                    least = min(least, 1 + shortest[a, b, c])
                shortest[i, j, k] = least
    found = False
    for j in range(len(s2) + 1):
        found |= shortest[len(s1), j, len(bk)] <= min(len(s1), j) + n
    return found
