"""One candidate: its matching sets and crack sizes, in every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import CLOSED_FORM, LEAST, THEOREM_2, THEOREM_2_EMPTY_PREFIX, Edges, edges
from models.attacks.linker import BaseLinker, Flags
from models.attacks.matching import NextOccurrences, unmatched
from models.attacks.pairs import RecordClasses, ReleasePair, encode
from models.compiled import kernel, part
from models.errors import InputError
from models.eventlog import Codes, Ints

RELATION = {
    "exact": CLOSED_FORM,
    "sound": CLOSED_FORM,
    "sizes": CLOSED_FORM,
    "paper": THEOREM_2,
    "reference": THEOREM_2_EMPTY_PREFIX,
}


@dataclass(slots=True)
class CandidateValuer:
    """All that one method needs to value candidates at one n. `cracked`: what `worst_group` found; the worst
    background knowledge of several attacks is often the same."""

    pair: ReleasePair
    table: NextOccurrences
    method: str
    n: int
    linkable: Edges
    base: BaseLinker
    cracked: dict[tuple[int, ...], Ints] = field(default_factory=dict)

    def starts(self) -> tuple[Ints, Ints]:
        """Where each value's rows begin, in both releases."""
        codes = np.arange(len(self.pair.values) + 1)
        return (
            np.searchsorted(self.pair.earlier.value, codes).astype(np.int64),
            np.searchsorted(self.pair.later.value, codes).astype(np.int64),
        )


def relation_edges(pair: ReleasePair, cap: int, method: str) -> Edges:
    """Linkable or comparable pairs as the method defines them."""
    return edges(pair, cap, RELATION[method])


def candidate_values(valuer: CandidateValuer, bk: Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
    """ms1, ms2, f, c, b, fa, ca, ba of one candidate (symbol codes)."""
    pair = valuer.pair
    in1, in2 = matching_rows(valuer, bk)
    ms1, ms2 = int(pair.earlier.count[in1].sum()), int(pair.later.count[in2].sum())
    f, c, b = (int(crack) for crack in _cracks(valuer, in1, in2).sum(axis=0))
    return {"ms1": ms1, "ms2": ms2, "f": f, "c": c, "b": b, "fa": ms1 - f, "ca": ms2 - c, "ba": ms2 - b}


def cracks_by_value(valuer: CandidateValuer, bk: Sequence[int] | npt.NDArray[Any]) -> Ints:
    """int64[values, 3]: F, C and B of each sensitive value; cracks add up over values."""
    return _cracks(valuer, *matching_rows(valuer, bk))


def matching_rows(valuer: CandidateValuer, bk: Sequence[int] | npt.NDArray[Any]) -> tuple[Flags, Flags]:
    """Which rows of the earlier and of the later release are in the matching sets."""
    inside = unmatched(valuer.table, bk) <= valuer.n
    return inside[valuer.pair.earlier.known], inside[valuer.pair.later.known]


def _cracks(valuer: CandidateValuer, in1: Flags, in2: Flags) -> Ints:
    """int64[values, 3]: a best linker is best for every value, since links never leave one."""
    pair = valuer.pair
    if valuer.method != "exact":
        table = np.zeros((len(pair.values), 3), dtype=np.int64)
        group_cracks(
            *valuer.starts(), pair.earlier.count, pair.later.count, valuer.linkable.forward, valuer.linkable.backward,
            valuer.n, METHODS[valuer.method], in1, in2, np.zeros(len(in1), dtype=np.bool_), table,
        )  # fmt: skip
        return table
    ms1, ms2 = (
        records_by_value(pair.earlier, in1, len(pair.values)),
        records_by_value(pair.later, in2, len(pair.values)),
    )
    base = valuer.base
    try:
        base.fewest_leaving(in1, in2)
        links = base.links()
        stay = links[in1[links[:, 0]] & in2[links[:, 1]]]
        kept = np.bincount(pair.earlier.value[stay[:, 0]], weights=stay[:, 2], minlength=len(pair.values))
    finally:
        base.undo()
    try:
        base.most_free(in2, int(ms2.sum()))
        free = np.bincount(pair.later.value, weights=base.linker.free * in2, minlength=len(pair.values))
    finally:
        base.undo()
    return np.column_stack((ms1 - kept, ms2 - kept, ms2 - free)).astype(np.int64)


def records_by_value(rows: RecordClasses, inside: Flags, values: int) -> Ints:
    """int64[values]: records of each sensitive value in a matching set."""
    return np.bincount(rows.value, weights=rows.count * inside, minlength=values).astype(np.int64)


def worst_group(valuer: CandidateValuer, bk: Sequence[int], attack: str, left: int | None = None) -> dict[str, Any]:
    """The sensitive value with the most cracked records under a candidate: {value, ms1, ms2, cracked}. `left`: the
    records that no linker excludes, where that is known: the one value of a log without sensitive ones has the rest."""
    pair = valuer.pair
    in1, in2 = matching_rows(valuer, bk)
    if left is not None and len(pair.values) == 1:
        both = int(pair.earlier.count[in1].sum()), int(pair.later.count[in2].sum())
        cracked_records = both[0 if attack == "fa" else 1] - left
        return {"value": pair.values[0], "ms1": both[0], "ms2": both[1], "cracked": cracked_records}
    key = tuple(bk)
    if key not in valuer.cracked:
        valuer.cracked[key] = _cracks(valuer, in1, in2)
    cracked = valuer.cracked[key][:, ("fa", "ca", "ba").index(attack)]
    ms1, ms2 = (
        records_by_value(pair.earlier, in1, len(pair.values)),
        records_by_value(pair.later, in2, len(pair.values)),
    )
    own = int(np.lexsort((ms1 + ms2, cracked))[-1])
    return {"value": pair.values[own], "ms1": int(ms1[own]), "ms2": int(ms2[own]), "cracked": int(cracked[own])}


# --- Group formulas of the paper ---
#
# Crack sizes of one candidate by the group formulas of the paper (compiled); the exact ones need flows
# (best_linker).
#
# Groups are the maximal classes of one sensitive value; rows are sorted by value, so a group is a slice.


SOUND, PAPER, REFERENCE, SIZES = 1, 2, 3, 4
METHODS = {"sound": SOUND, "paper": PAPER, "reference": REFERENCE, "sizes": SIZES}
"""`sizes` is `sound` without the comparability test: F and C by the sizes of the groups alone, as section 7 adds them.
Sound as well, since a link never leaves its sensitive value (docs/decisions/010)."""


@kernel
def group_cracks(start1, start2, count1, count2, forward, backward, n, method, in1, in2, g1, linked):  # type: ignore[no-untyped-def]
    """linked[s] = [F, C, B] of each sensitive value; they add up. `g1`: scratch for the rows of G1.

    paper: Theorems 3-5 as printed, an empty group is comparable to all; sound: the same over the exact relation, with
    `|G2 minus g2|`; reference: values of ms2 only, no comparability test, nothing when G1 is empty, nothing at all
    when a matching set is empty.
    """
    any1, any2 = False, False
    for i in range(len(in1)):
        any1 |= in1[i]
    for j in range(len(in2)):
        any2 |= in2[j]
    for s in range(len(linked)):
        linked[s, 0], linked[s, 1], linked[s, 2] = 0, 0, 0
    if method == REFERENCE and not (any1 and any2):
        return
    for s in range(len(start1) - 1):
        size1, size2, rows1, rows2 = 0, 0, 0, 0
        for i in range(start1[s], start1[s + 1]):
            size1 += count1[i] * in1[i]
            rows1 += in1[i]
        for j in range(start2[s], start2[s + 1]):
            size2 += count2[j] * in2[j]
            rows2 += in2[j]
        if size1 == 0 and size2 == 0:
            continue
        if method == REFERENCE and size2 == 0:
            continue
        if method >= REFERENCE or _comparable(start1[s], start1[s + 1], forward, n, in1, in2, rows1 * rows2):
            linked[s, 0] = size1 - min(size1, size2)
            linked[s, 1] = size2 - min(size1, size2)
        if size2 > 0:
            linked[s, 2] = _backward(s, start1, start2, count1, count2, forward, backward, n, method, in2, g1, size2)


@part
def _comparable(low, high, forward, n, in1, in2, pairs):  # type: ignore[no-untyped-def]
    """Def. 15: every record of the one group is comparable to every record of the other."""
    found = 0
    for i in range(low, high):
        if in1[i]:
            for k in range(forward[0][i], forward[0][i + 1]):
                found += in2[forward[1][k]] and (forward[2][k] & LEAST) <= n
    return found == pairs


@part
def _backward(s, start1, start2, count1, count2, forward, backward, n, method, in2, g1, size2):  # type: ignore[no-untyped-def]
    """Theorem 5 for the group of value s in ms2."""
    all1, all2, outside2 = 0, 0, 0
    for i in range(start1[s], start1[s + 1]):
        g1[i] = False
        for k in range(forward[0][i], forward[0][i + 1]):
            if in2[forward[1][k]] and (forward[2][k] & LEAST) <= n:
                g1[i] = True
                all1 += count1[i]
                break
    if all1 == 0 and method != PAPER:
        return 0
    for j in range(start2[s], start2[s + 1]):
        for k in range(backward[0][j], backward[0][j + 1]):
            if g1[backward[1][k]] and (backward[2][k] & LEAST) <= n:
                all2 += count2[j]
                outside2 += 0 if in2[j] else count2[j]
                break
    return max(0, all1 - (outside2 if method in (SOUND, SIZES) else all2 - size2))


# --- Joint links ---
#
# The stricter reading of a link: one pair of originals is linkable *and* contains bk before the earlier
# release.
#
# Not used by the paper (which asks the two questions apart). A pair (s1, s2) of ms1 x ms2 then counts for F
# and C only if for some prefix u of s2 the shortest common supersequence of s1, u and bk has at most
# min(|s1|, |u|) + n events. B is as before: its victim is not in the earlier release.


MOST_JOINT_LINKS = 20_000_000
"""Record by record, links are 16 bytes each; beyond this the answer would need more than 300 MB."""


def joint_value(valuer: CandidateValuer, bk: Codes) -> dict[str, Any]:
    """`candidates.value` with joint links, by a minimum weight matching of records (exact only)."""
    pair = valuer.pair
    if valuer.method != "exact":
        raise InputError("joint links are an option of method exact")
    if pair.items != pair.known_items or len(pair.link_related[1]) != len(pair.items):
        raise InputError("joint links need releases that carry the audited attribute alone, without a taxonomy")
    body = candidate_values(valuer, bk)
    if not valuer.base.exists:
        return body
    in1, in2 = matching_rows(valuer, bk)
    costs = _costs(
        pair.linked.items, pair.linked.start, pair.earlier.linked, pair.later.linked, valuer.linkable.forward,
        valuer.n, bk, in1, in2,
    )  # fmt: skip
    most = int(pair.earlier.count[in1].sum()) - _least_cost(valuer, costs)
    body.update({"f": body["ms1"] - most, "c": body["ms2"] - most, "fa": most, "ca": most})
    return body


def _least_cost(valuer: CandidateValuer, costs: Ints) -> int:
    """Fewest ms1 records without a counted link, over all total linkers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    pair = valuer.pair
    count1, count2 = pair.earlier.count, pair.later.count
    row = np.repeat(np.arange(len(count1)), np.diff(valuer.linkable.start))
    kept = np.flatnonzero(costs >= 0)
    sizes = count1[row[kept]] * count2[valuer.linkable.later[kept]]
    if int(sizes.sum()) > MOST_JOINT_LINKS:
        raise InputError(
            f"{int(sizes.sum())} links between records are too many for joint links (at most {MOST_JOINT_LINKS})"
        )
    first1, first2 = np.cumsum(count1) - count1, np.cumsum(count2) - count2
    which = np.repeat(kept, sizes)
    within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    i, j = row[which], valuer.linkable.later[which]
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


# --- Attribute linkage after an attack ---
#
# Attribute linkage after the correspondence attacks (section 7): l-diversity, (alpha, k)-anonymity,
# confidence.
#
# Cracked records leave a matching set; what an adversary may then conclude about a victim's sensitive value
# is bounded by the groups that stay. With `size_s` records of value s in the matching set and `crack_s` of
# them excluded, the largest share that s can reach is `left_s / sum of left`, where `left_s = size_s -
# crack_s`: cracks are counted per value and hold for every linker, so no linker leaves fewer of them.


Attack = Literal["f", "c", "b"]


@dataclass(frozen=True, slots=True)
class Diversity:
    """A matching set after an attack.

    `k`: records left; `l`: distinct values left (a missing value is a value); `confidence`: largest share of a known
    value (TLKC: a missing value is none that could be learned), None where nothing is left; `value`: which one.
    """

    k: int
    l: int  # noqa: E741 - the letter of l-diversity
    confidence: float | None
    value: Any

    def alpha_k(self, alpha: float, k: int) -> bool:
        """(alpha, k)-anonymity of this matching set: at least k records, no value with a share above alpha."""
        return self.k >= k and (self.confidence is None or self.confidence <= alpha)


def diversity_after(valuer: CandidateValuer, bk: Sequence[Any], attack: Attack | None) -> Diversity:
    """The matching set that `attack` aims at (earlier release for F, later for C and B), without what it excludes.

    `attack` None: the later matching set before any attack. `bk`: symbols. The linker must exist.
    """
    pair, code = valuer.pair, encode(valuer.pair, bk)
    in1, in2 = matching_rows(valuer, code)
    rows, inside = (pair.earlier, in1) if attack == "f" else (pair.later, in2)
    left = records_by_value(rows, inside, len(pair.values))
    if attack is not None:
        left = left - cracks_by_value(valuer, code)[:, "fcb".index(attack)]
    return _of(left.tolist(), pair.values)


def _of(left: list[int], values: Sequence[Any]) -> Diversity:
    total = sum(left)
    known = [(count, place) for place, count in enumerate(left) if values[place] is not None and count > 0]
    count, place = max(known, default=(0, -1))
    return Diversity(
        total, sum(count > 0 for count in left), count / total if total else None, values[place] if known else None
    )
