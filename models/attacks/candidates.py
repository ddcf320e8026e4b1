"""One candidate: its matching sets and crack sizes, in every method.

A candidate is one background knowledge (bk). Rows of a release are its record classes (one sensitive value and one
variant each), sorted by sensitive value; so the rows of a value are a slice.

References
----------
correspondence-attacks-2021, Def. 10-12 (exact) and Theorems 3-5 (group formulas).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.linkability import CLOSED_FORM, LEAST, THEOREM_2, THEOREM_2_EMPTY_PREFIX, Bytes, Edges, edges
from models.attacks.linker import BaseLinker
from models.attacks.pairs import NextOccurrences, RecordClasses, ReleasePair, unmatched
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Flags, Ints

RELATION = {
    "exact": CLOSED_FORM,
    "sound": CLOSED_FORM,
    "sizes": CLOSED_FORM,
    "paper": THEOREM_2,
    "reference": THEOREM_2_EMPTY_PREFIX,
}
"""The relation of linkability.edges that each method uses."""

SOUND, PAPER, REFERENCE, SIZES = 1, 2, 3, 4
METHODS = {"sound": SOUND, "paper": PAPER, "reference": REFERENCE, "sizes": SIZES}
"""Group formulas by name.

`sizes` is `sound` without the comparability test: F and C by the sizes of the groups alone, as section 7 adds them. It
is sound as well, since a link never leaves its sensitive value (docs/decisions/010)."""

Symbols = Sequence[int] | npt.NDArray[Any]
"""Symbol codes of one background knowledge."""


@content_free("method", "n")
@dataclass(slots=True)
class CandidateValuer:
    """Values candidates by one method at one n.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    method
        A key of RELATION.
    n
        Events removed from a case at most.
    linkable
        The relation of the method.
    base
        The base linker of n.
    cracked
        Cracks that `worst_group` counted: the worst bk of several attacks is often the same.
    """

    pair: ReleasePair
    table: NextOccurrences
    method: str
    n: int
    linkable: Edges
    base: BaseLinker
    cracked: dict[tuple[int, ...], Ints] = field(default_factory=dict)

    def value_starts(self) -> tuple[Ints, Ints]:
        """Return the row at which each sensitive value begins, in both releases: int64[values + 1]."""
        codes = np.arange(len(self.pair.values) + 1)
        start1 = np.searchsorted(self.pair.earlier.value, codes)
        start2 = np.searchsorted(self.pair.later.value, codes)
        return start1.astype(np.int64), start2.astype(np.int64)


def relation_edges(pair: ReleasePair, cap: int, method: str) -> Edges:
    """Return the linkable or comparable pairs as a method defines them.

    Parameters
    ----------
    pair
        The releases.
    cap
        Largest n of the pairs.
    method
        A key of `RELATION`.

    Raises
    ------
    InputError
        If the pairs are too many (`linkability.edges`).
    """
    return edges(pair, cap, RELATION[method])


def candidate_values(valuer: CandidateValuer, bk: Symbols) -> dict[str, Any]:
    """Return the matching sets and crack sizes of one candidate.

    Parameters
    ----------
    valuer
        The method, at one n.
    bk
        Symbol codes of the candidate.

    Returns
    -------
    dict
        ms1, ms2: records of the matching sets; f, c, b: cracked records among them; fa, ca, ba: the
        records left.
    """
    pair = valuer.pair
    in1, in2 = matching_rows(valuer, bk)
    ms1, ms2 = int(pair.earlier.count[in1].sum()), int(pair.later.count[in2].sum())
    f, c, b = (int(crack) for crack in _cracks(valuer, in1, in2).sum(axis=0))
    return {"ms1": ms1, "ms2": ms2, "f": f, "c": c, "b": b, "fa": ms1 - f, "ca": ms2 - c, "ba": ms2 - b}


def cracks_by_value(valuer: CandidateValuer, bk: Symbols) -> Ints:
    """Return the cracks of one candidate by sensitive value. They add up over values.

    Parameters
    ----------
    valuer
        The method, at one n.
    bk
        Symbol codes of the candidate.

    Returns
    -------
    Ints
        int64[values, 3]: F, C and B, in records.
    """
    in1, in2 = matching_rows(valuer, bk)
    return _cracks(valuer, in1, in2)


def matching_rows(valuer: CandidateValuer, bk: Symbols) -> tuple[Flags, Flags]:
    """Return which rows of the earlier and of the later release are in the matching sets.

    Parameters
    ----------
    valuer
        The releases, and the n with which they match.
    bk
        Symbol codes of the candidate.

    Returns
    -------
    Flags, Flags
        bool[earlier rows] and bool[later rows].
    """
    inside = unmatched(valuer.table, bk) <= valuer.n
    return inside[valuer.pair.earlier.known_variant], inside[valuer.pair.later.known_variant]


def records_by_value(rows: RecordClasses, inside: Flags, values: int) -> Ints:
    """Return the records of each sensitive value in a matching set.

    Parameters
    ----------
    rows
        Record classes of a release.
    inside
        bool[rows], those in the matching set.
    values
        Number of sensitive values.

    Returns
    -------
    Ints
        int64[values].
    """
    return np.bincount(rows.value, weights=rows.count * inside, minlength=values).astype(np.int64)


def worst_group(valuer: CandidateValuer, bk: Symbols, attack: str) -> dict[str, Any]:
    """Return the sensitive value with the most cracked records under a candidate.

    Parameters
    ----------
    valuer, bk
        The method and the candidate.
    attack
        "fa", "ca" or "ba".

    Returns
    -------
    {value, ms1, ms2, cracked}
    """
    pair = valuer.pair
    in1, in2 = matching_rows(valuer, bk)
    key = tuple(int(code) for code in bk)
    if key not in valuer.cracked:
        valuer.cracked[key] = _cracks(valuer, in1, in2)
    cracked = valuer.cracked[key][:, ("fa", "ca", "ba").index(attack)]
    sizes1 = records_by_value(pair.earlier, in1, len(pair.values))
    sizes2 = records_by_value(pair.later, in2, len(pair.values))
    worst = int(np.lexsort((sizes1 + sizes2, cracked))[-1])
    return {
        "value": pair.values[worst],
        "ms1": int(sizes1[worst]),
        "ms2": int(sizes2[worst]),
        "cracked": int(cracked[worst]),
    }


def _cracks(valuer: CandidateValuer, in1: Flags, in2: Flags) -> Ints:
    """Return int64[values, 3]: F, C and B of each sensitive value."""
    if valuer.method == "exact":
        return _exact_cracks(valuer, in1, in2)
    pair, linkable = valuer.pair, valuer.linkable
    start1, start2 = valuer.value_starts()
    cracks = np.zeros((len(pair.values), 3), dtype=np.int64)
    group_cracks(
        start1, start2, pair.earlier.count, pair.later.count, linkable.runs, valuer.n,
        METHODS[valuer.method], in1, in2, cracks,
    )  # fmt: skip
    return cracks


def _exact_cracks(valuer: CandidateValuer, in1: Flags, in2: Flags) -> Ints:
    """Return the cracks by Def. 10-12.

    A best linker is best for every sensitive value, since links never leave one: F = ms1 - M and C = ms2 - M with M the
    records of ms1 that it keeps in ms2, and B = ms2 - (the records of ms2 that it leaves free).
    """
    pair, base, values = valuer.pair, valuer.base, len(valuer.pair.values)
    ms1 = records_by_value(pair.earlier, in1, values)
    ms2 = records_by_value(pair.later, in2, values)
    try:
        base.fewest_leaving(in1, in2)
        links = base.links()
        stays = in1[links[:, 0]] & in2[links[:, 1]]
        staying = links[stays]
        m = np.bincount(pair.earlier.value[staying[:, 0]], weights=staying[:, 2], minlength=values)
    finally:
        base.undo()
    try:
        base.most_free(in2, int(ms2.sum()))
        free = np.bincount(pair.later.value, weights=base.linker.free * in2, minlength=values)
    finally:
        base.undo()
    return np.column_stack((ms1 - m, ms2 - m, ms2 - free)).astype(np.int64)


# --- Group formulas of the paper (compiled) ---
#
# Groups are the maximal classes of one sensitive value s. The rows of s are a slice of the rows of each release:
#
#     earlier rows   start1[s] ... start1[s + 1] - 1     those of them that are in ms1 are the group g1
#     later rows     start2[s] ... start2[s + 1] - 1     those of them that are in ms2 are the group g2
#
# Links are the `runs` of `linkability.Edges`. `before2[j]` is the number of rows of ms2 before later row j. So a run
# holds before2[end] - before2[begin] of them.


@kernel
def group_cracks(start1, start2, count1, count2, runs, n, method, in1, in2, cracks):  # type: ignore[no-untyped-def]
    """Set cracks[s] to F, C and B of each sensitive value.

    paper: Theorems 3-5 as printed; an empty group is comparable to all. sound: the same over the exact relation, with
    `|G2 minus g2|`. reference: values of ms2 alone, no comparability test, nothing when G1 is empty, nothing at all
    when a matching set is empty.

    Parameters
    ----------
    start1, start2
        int64[values + 1], row at which each sensitive value begins in the earlier and in the later release.
    count1, count2
        int64[rows], records of each row.
    runs
        The comparable or linkable pairs of the method (`linkability.Edges.runs`).
    n
        Events removed from a case at most.
    method
        A number of `METHODS`.
    in1, in2
        bool[rows], rows in the matching sets.
    cracks
        int64[values, 3], filled here.
    """
    for s in range(len(cracks)):
        cracks[s, 0], cracks[s, 1], cracks[s, 2] = 0, 0, 0
    if method == REFERENCE and not (in1.any() and in2.any()):
        return
    tests_comparability = method < REFERENCE
    before2 = np.zeros(len(in2) + 1, dtype=np.int64)
    for j in range(len(in2)):
        before2[j + 1] = before2[j] + in2[j]
    for s in range(len(start1) - 1):
        # Records and rows of the groups g1 and g2.
        size1, rows1 = _group_size(count1, in1, start1[s], start1[s + 1])
        size2, rows2 = _group_size(count2, in2, start2[s], start2[s + 1])
        if size1 == 0 and size2 == 0:
            continue
        if method == REFERENCE and size2 == 0:
            continue

        # F and C: records of the larger group that find no partner in the smaller one.
        is_comparable = True
        if tests_comparability:
            is_comparable = _is_comparable(start1[s], start1[s + 1], runs, n, in1, before2, rows1 * rows2)
        if is_comparable:
            matched = min(size1, size2)
            cracks[s, 0] = size1 - matched
            cracks[s, 1] = size2 - matched

        # B: records of g2 that cannot all be new.
        if size2 > 0:
            cracks[s, 2] = _b_crack(s, start1, start2, count1, count2, runs, n, method, in2, before2, size2)


@part
def _group_size(count, inside, begin, end):  # type: ignore[no-untyped-def]
    """Count the records and the rows of a group, among the rows begin..end - 1."""
    records, rows = 0, 0
    for row in range(begin, end):
        records += count[row] * inside[row]
        rows += inside[row]
    return records, rows


@part
def _is_comparable(first1, behind1, runs, n, in1, before2, pairs):  # type: ignore[no-untyped-def]
    """Def. 15: every record of the one group is comparable to every record of the other (`pairs` pairs of rows)."""
    start, begin, end, least = runs
    linked = 0
    for i in range(first1, behind1):
        if not in1[i]:
            continue
        for k in range(start[i], start[i + 1]):
            if (least[k] & LEAST) <= n:
                linked += before2[end[k]] - before2[begin[k]]
    return linked == pairs


@part
def _b_crack(s, start1, start2, count1, count2, runs, n, method, in2, before2, size2):  # type: ignore[no-untyped-def]
    """Theorem 5 for the group g2 of value s.

    G1: the earlier rows of s that link to a row of g2. G2: the later rows of s that link to a row of G1.
    """
    # The records of G1. `covering` counts the runs of G1 that begin at a later row, less those that end before it.
    start, begin, end, least = runs
    first2, behind2 = start2[s], start2[s + 1]
    covering = np.zeros(behind2 - first2 + 1, dtype=np.int64)
    records_g1 = 0
    for i in range(start1[s], start1[s + 1]):
        is_in_g1 = False
        for k in range(start[i], start[i + 1]):
            is_in_g1 |= (least[k] & LEAST) <= n and before2[end[k]] > before2[begin[k]]
        if not is_in_g1:
            continue
        records_g1 += count1[i]
        for k in range(start[i], start[i + 1]):
            if (least[k] & LEAST) <= n:
                covering[begin[k] - first2] += 1
                covering[end[k] - first2] -= 1
    if records_g1 == 0 and method != PAPER:
        return 0

    # The records of G2, and those of them outside g2.
    records_g2, outside_g2, runs_here = 0, 0, 0
    for j in range(first2, behind2):
        runs_here += covering[j - first2]
        if runs_here > 0:
            records_g2 += count2[j]
            if not in2[j]:
                outside_g2 += count2[j]

    # Records of G1 that find no place outside g2 are in g2. The printed formula counts |G2| - |g2| such places, which
    # is too small where g2 is not within G2.
    places_outside = outside_g2 if method in (SOUND, SIZES) else records_g2 - size2
    return max(0, records_g1 - places_outside)


# --- Joint links ---
#
# The stricter reading of a link: one pair of originals is linkable *and* contains bk before the earlier release. The
# paper asks the two questions apart. A pair (s1, s2) of ms1 x ms2 then counts for F and C only if for some prefix u of
# s2 the shortest common supersequence of s1, u and bk has at most min(|s1|, |u|) + n events. B is as before: its
# victim is not in the earlier release.


MOST_JOINT_LINKS = 20_000_000
"""Record by record, links are 16 bytes each; with more the answer would need more than 300 MB."""


def joint_value(valuer: CandidateValuer, bk: Codes) -> dict[str, Any]:
    """Return `candidate_values` with joint links, by a minimum weight matching of records.

    Parameters
    ----------
    valuer
        The method `exact`, at one n.
    bk
        Symbol codes of the candidate.

    Raises
    ------
    InputError
        If the method is not exact, the releases carry more than the audited attribute, or the links are too many.
    """
    pair = valuer.pair
    if valuer.method != "exact":
        raise InputError("joint links are an option of method exact")
    if pair.items != pair.known_items or len(pair.link_related[1]) != len(pair.items):
        raise InputError("joint links need releases that carry the audited attribute alone, without a taxonomy")
    values = candidate_values(valuer, bk)
    if not valuer.base.exists:
        return values
    in1, in2 = matching_rows(valuer, bk)
    linked1, linked2 = pair.earlier.linked, pair.later.linked
    items, starts = pair.linked.items, pair.linked.start
    if valuer.linkable.n_links > MOST_JOINT_LINKS:
        raise InputError(_too_many_joint_links(valuer.linkable.n_links))
    links = valuer.linkable.links()
    costs = _joint_costs(items, starts, linked1, linked2, links, valuer.n, bk, in1, in2)
    m = int(pair.earlier.count[in1].sum()) - _least_cost(valuer, links, costs)
    values.update({"f": values["ms1"] - m, "c": values["ms2"] - m, "fa": m, "ca": m})
    return values


def _too_many_joint_links(links: int) -> str:
    return f"{links} links between records are too many for joint links (at most {MOST_JOINT_LINKS})"


def _least_cost(valuer: CandidateValuer, links: tuple[Ints, Ints, Bytes], costs: Ints) -> int:
    """Return the fewest records of ms1 without a counted link, over all total linkers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    count1, count2 = valuer.pair.earlier.count, valuer.pair.later.count
    row1, row2, _ = links
    usable = np.flatnonzero(costs >= 0)
    record_pairs = count1[row1[usable]] * count2[row2[usable]]
    total = int(record_pairs.sum())
    if total > MOST_JOINT_LINKS:
        raise InputError(_too_many_joint_links(total))
    # Each link of two rows becomes count1 * count2 links of records:
    #
    #     link           the link that each record pair belongs to
    #     pair_of_link   its number among the record pairs of that link, from 0
    #     first1[i]      number of the first record of earlier row i, among all records of the earlier release
    link = np.repeat(usable, record_pairs)
    first_pair = np.cumsum(record_pairs) - record_pairs
    pair_of_link = np.arange(len(link)) - np.repeat(first_pair, record_pairs)
    i, j = row1[link], row2[link]
    first1 = np.cumsum(count1) - count1
    first2 = np.cumsum(count2) - count2
    record1 = first1[i] + pair_of_link // count2[j]
    record2 = first2[j] + pair_of_link % count2[j]
    # Weights 1 and 2 in place of 0 and 1: a sparse matrix takes a stored zero for no link.
    shape = (int(count1.sum()), int(count2.sum()))
    matrix = csr_array((costs[link] + 1, (record1, record2)), shape=shape)
    rows, columns = min_weight_full_bipartite_matching(matrix)
    return int(matrix[rows, columns].sum()) - len(rows)


@kernel
def _joint_costs(items, starts, linked1, linked2, links, n, bk, in1, in2):  # type: ignore[no-untyped-def]
    """Return the cost of each link, -1 if it is not linkable with n.

    1: it leaves ms1 without counting. 0: it counts, or its record is not in ms1.
    """
    row1, row2, least = links
    costs = np.zeros(len(least), dtype=np.int64)
    for k in range(len(least)):
        i, j = row1[k], row2[k]
        if (least[k] & LEAST) > n:
            costs[k] = -1
        elif in1[i]:
            s1 = items[starts[linked1[i]] : starts[linked1[i] + 1]]
            s2 = items[starts[linked2[j]] : starts[linked2[j] + 1]]
            is_counted = in2[j] and _is_joint(s1, s2, bk, n)
            costs[k] = 0 if is_counted else 1
    return costs


@kernel
def _is_joint(s1, s2, bk, n):  # type: ignore[no-untyped-def]
    """Whether some prefix of s2, s1 and bk have a common supersequence that is short enough for both originals.

    shortest[i, j, k]: length of the shortest common supersequence of s1[:i], s2[:j] and bk[:k]. Its last symbol is the
    last one of at least one of the three.
    """
    shortest = np.zeros((len(s1) + 1, len(s2) + 1, len(bk) + 1), dtype=np.int32)
    for i in range(len(s1) + 1):
        for j in range(len(s2) + 1):
            for k in range(len(bk) + 1):
                if i + j + k == 0:
                    continue
                least = 1 << 30
                if i > 0:
                    least = min(least, _length_ending_in(s1[i - 1], shortest, s1, s2, bk, i, j, k))
                if j > 0:
                    least = min(least, _length_ending_in(s2[j - 1], shortest, s1, s2, bk, i, j, k))
                if k > 0:
                    least = min(least, _length_ending_in(bk[k - 1], shortest, s1, s2, bk, i, j, k))
                shortest[i, j, k] = least
    is_short_enough = False
    for j in range(len(s2) + 1):
        is_short_enough |= shortest[len(s1), j, len(bk)] <= min(len(s1), j) + n
    return is_short_enough


@part
def _length_ending_in(symbol, shortest, s1, s2, bk, i, j, k):  # type: ignore[no-untyped-def]
    """Length of the shortest supersequence of s1[:i], s2[:j] and bk[:k] that ends in a symbol (see `_is_joint`).

    The symbol is the last one of all three that end in it, and the rest is as short as it can be.
    """
    rest1 = i - 1 if i > 0 and s1[i - 1] == symbol else i
    rest2 = j - 1 if j > 0 and s2[j - 1] == symbol else j
    rest_of_bk = k - 1 if k > 0 and bk[k - 1] == symbol else k
    return 1 + shortest[rest1, rest2, rest_of_bk]
