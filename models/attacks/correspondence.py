"""F-, C- and B-anonymity between two releases (correspondence-attacks-2021, Def. 9-12 and 16-18).

Adversary: knows a subsequence of a victim's activities (bk, at most `bk_length`), when the case started (before or
after the earlier release), and that releases are incremental: every earlier case is in the later release. Guaranteed
by the numbers: for every such bk at least that many records stay possible, whichever linker is true. Not covered:
other knowledge (times, resources unless linked), several victims at once, recipients who hold the raw data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.candidates import Judge, joint_value, relation_edges, value, worst_group
from models.attacks.enumeration import enumerate_all
from models.attacks.linkability import Edges, edges
from models.attacks.linker import BaseLinker, Flags, base_linkers, obstacles
from models.attacks.matching import Walk, walk
from models.attacks.outcome import FLOOR, Anonymity, Method, Minimum, Result, check, result, unlinkable
from models.attacks.pairs import Pair, encode, pair
from models.attacks.search import MEASURES, Answer, nothing_found, search
from models.attacks.search_kernels import C1, C2, NEW, OPEN, M
from models.compiled import kernel
from models.eventlog import Codes, Ints, SimpleLog


def anonymity(
    earlier: SimpleLog,
    later: SimpleLog,
    *,
    bk_length: int = 2,
    n: Sequence[int] = (0, 1),
    method: Method = "exact",
    minimum: Minimum = "realisable",
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
    joint: bool = False,
    candidates: Sequence[Sequence[Any]] = (),
) -> Anonymity:
    """Least KA, FA, CA and BA over all background knowledge of length 1..bk_length, for each n.

    `earlier`, `later`: simple logs over every item that the releases carry; `known` maps an item to what background
    knowledge can be about (None: the item itself). `taxonomy`: child -> parent, for generalized activities.
    `foreign`: background knowledge may hold one activity that no release shows (written `*`). `candidates`: named
    background knowledge whose values are reported as well; `joint`: their F and C count a link only if one pair of
    originals is linkable and contains bk before t1 (stricter; the paper does not use it). Errors: InputError for
    parameters out of range and for logs that cannot be searched.
    """
    check(bk_length, n, method, minimum)
    given = pair(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return Audit(given, bk_length, sorted(set(n)), method, minimum).run(candidates, joint)


class Audit:
    """The audit of one pair: tables that all n share. `ns`: ascending; `table`, `linkable`: of this pair, where they
    are there (links up to the last n); `least_n`: whether the least n is searched where no linker exists."""

    def __init__(
        self, given: Pair, bk_length: int, ns: Sequence[int], method: Method, minimum: Minimum,
        table: Walk | None = None, *, linkable: Edges | None = None, least_n: bool = True,
    ) -> None:  # fmt: skip
        self.given, self.bk_length, self.ns = given, bk_length, ns
        self.method: Method = method
        self.minimum: Minimum = minimum
        self.table = walk(given) if table is None else table
        self.linkable = edges(given, ns[-1]) if linkable is None else linkable
        self.least_n: dict[int, int | None] | None = {} if least_n else None
        self.compared = self.linkable if method in ("exact", "sound") else relation_edges(given, ns[-1], method)

    def run(self, candidates: Sequence[Sequence[Any]] = (), joint: bool = False) -> Anonymity:
        """All n, with the values of named candidates."""
        codes = [encode(self.given, bk) for bk in candidates]
        results: list[Result] = []
        named: list[dict[str, Any]] = []
        for base in base_linkers(self.given, self.linkable, self.ns):
            results.append(self.least(base))
            named.extend(self.named(base, bk, code, joint) for bk, code in zip(candidates, codes, strict=True))
        cases = (self.given.earlier.n_cases, self.given.later.n_cases)
        return Anonymity(self.bk_length, self.method, self.minimum, cases, results, named)

    def judge(self, base: BaseLinker) -> Judge:
        """How this method values a candidate at the n of `base`."""
        return Judge(self.given, self.table, self.method, base.n, self.compared, base)

    def least(self, base: BaseLinker) -> Result:
        """The minima at one n."""
        if not base.exists:
            return unlinkable(base.n, obstacles(self.given, base, self.least_n, self.ns[-1]))
        judge = self.judge(base)
        if self.method == "exact":
            best, worst = least(self.given, self.table, base, self.bk_length, self.minimum)
        else:
            best, worst = enumerated(judge, self.bk_length, self.minimum)
        found = result(self.given, self.table, base.n, best, worst)
        for attack in ("fa", "ca", "ba"):
            if found.worst[attack]:
                codes = worst[MEASURES.index(attack)]
                left = found.values[attack] if self.method == "exact" else None
                found.groups[attack] = worst_group(judge, codes[codes >= 0].tolist(), attack, left)
        return found

    def named(self, base: BaseLinker, bk: Sequence[Any], code: Codes, joint: bool = False) -> dict[str, Any]:
        """One candidate at one n; cracks are None where no linker exists."""
        body = joint_value(self.judge(base), code) if joint else value(self.judge(base), code)
        if not base.exists:
            body = {key: size if key in ("ms1", "ms2") else None for key, size in body.items()}
        return {"bk": list(bk), "n": base.n, **body}


def least(given: Pair, table: Walk, base: BaseLinker, bk_length: int, minimum: Minimum) -> tuple[Ints, Codes]:
    """Exact minima for one n by branch and bound: (values, background knowledge), in the order of MEASURES."""
    known1, known2 = given.earlier.known, given.later.known
    loose = base.loose.copy()
    loose[:, 0], loose[:, 1] = known1[loose[:, 0]], known2[loose[:, 1]]

    def ask(question: int, inside: Flags, enough: int) -> Answer:
        in2 = inside[known2]
        try:
            if question == M:
                in1 = inside[known1]
                return int(given.earlier.count[in1].sum()) - base.fewest_leaving(in1, in2), None
            free = base.most_free(in2, enough)
            return free, np.bincount(known2, weights=base.linker.free, minlength=given.n_known).astype(np.int64)
        finally:
            base.undo()

    surplus = given.later.n_cases - given.earlier.n_cases
    best, worst, _ = search(table, _weights(given, base), loose, base.n, bk_length, FLOOR[minimum], surplus, ask)
    return best, worst


def _weights(given: Pair, base: BaseLinker) -> Ints:
    weights = np.zeros((given.n_known, 4), dtype=np.int64)
    _tally(
        given.earlier.known, given.earlier.count, given.later.known, given.later.count, base.linker.free,
        base.reachable, weights,
    )  # fmt: skip
    return weights


@kernel
def _tally(known1, count1, known2, count2, free, reachable, weights):  # type: ignore[no-untyped-def]
    """Add up the `weights` of `search` by variant."""
    for i in range(len(known1)):
        weights[known1[i], C1] += count1[i]
    for j in range(len(known2)):
        weights[known2[j], C2] += count2[j]
        weights[known2[j], NEW] += free[j]
        weights[known2[j], OPEN] += np.int64(reachable[j])


def enumerated(judge: Judge, bk_length: int, minimum: Minimum, exactly: bool | None = None) -> tuple[Ints, Codes]:
    """Minima over every candidate, for methods whose values may grow when bk is extended.

    `exactly`: only bk of length bk_length, as the authors' program does (default: for `reference`).
    """
    best, worst = nothing_found(bk_length)
    floor = FLOOR[minimum]
    exactly = judge.method == "reference" if exactly is None else exactly
    for codes, found in enumerate_all(judge, bk_length):
        ms1, ms2, f, c, b = found.T.astype(np.int64)
        valid = (codes[:, -1] >= 0) if exactly else (codes[:, 0] >= 0)
        both = valid & (ms1 > 0) & (ms2 > 0)
        own = both if judge.method == "reference" else valid
        counted = {1: own, 0: valid & ((ms1 > 0) | (ms2 > 0)), -1: both}[floor]
        counted = both if judge.method == "reference" else counted
        columns = (
            (ms1, own & (ms1 > 0)), (ms2, own & (ms2 > 0)), (ms1, both), (ms2, both),
            (ms1 - f, counted), (ms2 - c, counted), (ms2 - b, counted),
        )  # fmt: skip
        for at, (numbers, allowed) in enumerate(columns):
            _take_least(
                best, worst, at, numbers, allowed & ((numbers >= 1) if floor == 1 or at < 4 else allowed), codes
            )
    return best, worst


def _take_least(best: Ints, worst: Codes, at: int, numbers: Ints, allowed: Any, codes: npt.NDArray[Any]) -> None:
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return
    row = rows[np.argmin(numbers[rows])]
    if numbers[row] < best[at]:
        best[at], worst[at] = numbers[row], codes[row]


def every_candidate(
    earlier: SimpleLog,
    later: SimpleLog,
    *,
    bk_length: int,
    n: Sequence[int],
    method: Method = "exact",
    known: Callable[[Any], Any] | None = None,
    taxonomy: Mapping[Any, Any] | None = None,
    foreign: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...], Any, Any]]:
    """Every background knowledge with its values, in blocks: (n, symbols, int16[N, L] codes, int32[N, 5] values).

    Codes are -1 after the end of a candidate; values are ms1, ms2, F, C, B. An n without a linker gives no block.
    """
    check(bk_length, n, method)
    given = pair(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    audit = Audit(given, bk_length, sorted(set(n)), method, "realisable")
    for base in base_linkers(given, audit.linkable, audit.ns):
        if base.exists:
            for codes, found in enumerate_all(audit.judge(base), bk_length):
                yield base.n, given.alphabet, codes, found
