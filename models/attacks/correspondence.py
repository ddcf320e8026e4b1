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

from models.attacks.candidates import CandidateValuer, candidate_values, joint_value, relation_edges, worst_group
from models.attacks.enumeration import enumerate_all
from models.attacks.linkability import Edges, edges
from models.attacks.linker import BaseLinker, Flags, base_linkers, obstacles
from models.attacks.matching import NextOccurrences, next_occurrences
from models.attacks.outcome import (
    FLOOR,
    Anonymity,
    AttackResult,
    Method,
    Minimum,
    attack_result,
    check_parameters,
    result_without_linker,
)
from models.attacks.pairs import ReleasePair, encode, join_releases
from models.attacks.search import ASK_M, C1, C2, MEASURES, NEW, OPEN, FlowAnswer, no_incumbents, search
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
    check_parameters(bk_length, n, method, minimum)
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    return PairAttack(pair, bk_length, sorted(set(n)), method, minimum).run(candidates, joint)


class PairAttack:
    """The audit of one pair: tables that all n share. `ns`: ascending; `table`, `linkable`: of this pair, where they
    are there (links up to the last n); `least_n`: whether the least n is searched where no linker exists."""

    def __init__(
        self, pair: ReleasePair, bk_length: int, ns: Sequence[int], method: Method, minimum: Minimum,
        table: NextOccurrences | None = None, *, linkable: Edges | None = None, least_n: bool = True,
    ) -> None:  # fmt: skip
        self.pair, self.bk_length, self.ns = pair, bk_length, ns
        self.method: Method = method
        self.minimum: Minimum = minimum
        self.table = next_occurrences(pair) if table is None else table
        self.linkable = edges(pair, ns[-1]) if linkable is None else linkable
        self.least_n: dict[int, int | None] | None = {} if least_n else None
        self.compared = self.linkable if method in ("exact", "sound") else relation_edges(pair, ns[-1], method)

    def run(self, candidates: Sequence[Sequence[Any]] = (), joint: bool = False) -> Anonymity:
        """All n, with the values of named candidates."""
        codes = [encode(self.pair, bk) for bk in candidates]
        results: list[AttackResult] = []
        named: list[dict[str, Any]] = []
        for base in base_linkers(self.pair, self.linkable, self.ns):
            results.append(self.least(base))
            named.extend(self.named(base, bk, code, joint) for bk, code in zip(candidates, codes, strict=True))
        cases = (self.pair.earlier.n_cases, self.pair.later.n_cases)
        return Anonymity(self.bk_length, self.method, self.minimum, cases, results, named)

    def valuer(self, base: BaseLinker) -> CandidateValuer:
        """How this method values a candidate at the n of `base`."""
        return CandidateValuer(self.pair, self.table, self.method, base.n, self.compared, base)

    def least(self, base: BaseLinker) -> AttackResult:
        """The minima at one n."""
        if not base.exists:
            return result_without_linker(base.n, obstacles(self.pair, base, self.least_n, self.ns[-1]))
        valuer = self.valuer(base)
        if self.method == "exact":
            best, worst = least(self.pair, self.table, base, self.bk_length, self.minimum)
        else:
            best, worst = enumerated_minima(valuer, self.bk_length, self.minimum)
        found = attack_result(self.pair, self.table, base.n, best, worst)
        for attack in ("fa", "ca", "ba"):
            if found.worst[attack]:
                codes = worst[MEASURES.index(attack)]
                left = found.values[attack] if self.method == "exact" else None
                found.groups[attack] = worst_group(valuer, codes[codes >= 0].tolist(), attack, left)
        return found

    def named(self, base: BaseLinker, bk: Sequence[Any], code: Codes, joint: bool = False) -> dict[str, Any]:
        """One candidate at one n; cracks are None where no linker exists."""
        body = joint_value(self.valuer(base), code) if joint else candidate_values(self.valuer(base), code)
        if not base.exists:
            body = {key: size if key in ("ms1", "ms2") else None for key, size in body.items()}
        return {"bk": list(bk), "n": base.n, **body}


def least(
    pair: ReleasePair, table: NextOccurrences, base: BaseLinker, bk_length: int, minimum: Minimum
) -> tuple[Ints, Codes]:
    """Exact minima for one n by branch and bound: (values, background knowledge), in the order of MEASURES."""
    known1, known2 = pair.earlier.known, pair.later.known
    loose = base.loose.copy()
    loose[:, 0], loose[:, 1] = known1[loose[:, 0]], known2[loose[:, 1]]

    def ask(question: int, inside: Flags, enough: int) -> FlowAnswer:
        in2 = inside[known2]
        try:
            if question == ASK_M:
                in1 = inside[known1]
                return int(pair.earlier.count[in1].sum()) - base.fewest_leaving(in1, in2), None
            free = base.most_free(in2, enough)
            return free, np.bincount(known2, weights=base.linker.free, minlength=pair.n_known).astype(np.int64)
        finally:
            base.undo()

    surplus = pair.later.n_cases - pair.earlier.n_cases
    best, worst, _ = search(table, _weights(pair, base), loose, base.n, bk_length, FLOOR[minimum], surplus, ask)
    return best, worst


def _weights(pair: ReleasePair, base: BaseLinker) -> Ints:
    weights = np.zeros((pair.n_known, 4), dtype=np.int64)
    _tally(
        pair.earlier.known, pair.earlier.count, pair.later.known, pair.later.count, base.linker.free,
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


def enumerated_minima(
    valuer: CandidateValuer, bk_length: int, minimum: Minimum, exactly: bool | None = None
) -> tuple[Ints, Codes]:
    """Minima over every candidate, for methods whose values may grow when bk is extended.

    `exactly`: only bk of length bk_length, as the authors' program does (default: for `reference`).
    """
    best, worst = no_incumbents(bk_length)
    floor = FLOOR[minimum]
    exactly = valuer.method == "reference" if exactly is None else exactly
    for codes, found in enumerate_all(valuer, bk_length):
        ms1, ms2, f, c, b = found.T.astype(np.int64)
        valid = (codes[:, -1] >= 0) if exactly else (codes[:, 0] >= 0)
        both = valid & (ms1 > 0) & (ms2 > 0)
        own = both if valuer.method == "reference" else valid
        counted = {1: own, 0: valid & ((ms1 > 0) | (ms2 > 0)), -1: both}[floor]
        counted = both if valuer.method == "reference" else counted
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
    check_parameters(bk_length, n, method)
    pair = join_releases(earlier, later, known=known, taxonomy=taxonomy, foreign=foreign)
    audit = PairAttack(pair, bk_length, sorted(set(n)), method, "realisable")
    for base in base_linkers(pair, audit.linkable, audit.ns):
        if base.exists:
            for codes, found in enumerate_all(audit.valuer(base), bk_length):
                yield base.n, pair.alphabet, codes, found
