"""One candidate: its matching sets and crack sizes, in every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.attacks.cracks import METHODS, group_cracks
from models.attacks.linkability import CLOSED_FORM, THEOREM_2, THEOREM_2_EMPTY_PREFIX, Edges, edges
from models.attacks.linker import BaseLinker, Flags
from models.attacks.matching import Walk, unmatched
from models.attacks.pairs import Pair, Rows
from models.content_free import content_free
from models.eventlog import Ints

RELATION = {
    "exact": CLOSED_FORM,
    "sound": CLOSED_FORM,
    "sizes": CLOSED_FORM,
    "paper": THEOREM_2,
    "reference": THEOREM_2_EMPTY_PREFIX,
}


@content_free("method", "n")
@dataclass(slots=True)
class Judge:
    """All that one method needs to value candidates at one n. `cracked`: what `worst_group` found; the worst
    background knowledge of several attacks is often the same."""

    given: Pair
    table: Walk
    method: str
    n: int
    linkable: Edges
    base: BaseLinker
    cracked: dict[tuple[int, ...], Ints] = field(default_factory=dict)

    def starts(self) -> tuple[Ints, Ints]:
        """Where each value's rows begin, in both releases."""
        codes = np.arange(len(self.given.values) + 1)
        return (
            np.searchsorted(self.given.earlier.value, codes).astype(np.int64),
            np.searchsorted(self.given.later.value, codes).astype(np.int64),
        )


def relation_edges(given: Pair, cap: int, method: str) -> Edges:
    """Linkable or comparable pairs as the method defines them."""
    return edges(given, cap, RELATION[method])


def value(judge: Judge, bk: Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
    """ms1, ms2, f, c, b, fa, ca, ba of one candidate (symbol codes)."""
    given = judge.given
    in1, in2 = matching(judge, bk)
    ms1, ms2 = int(given.earlier.count[in1].sum()), int(given.later.count[in2].sum())
    f, c, b = (int(crack) for crack in _cracks(judge, in1, in2).sum(axis=0))
    return {"ms1": ms1, "ms2": ms2, "f": f, "c": c, "b": b, "fa": ms1 - f, "ca": ms2 - c, "ba": ms2 - b}


def by_value(judge: Judge, bk: Sequence[int] | npt.NDArray[Any]) -> Ints:
    """int64[values, 3]: F, C and B of each sensitive value; cracks add up over values."""
    return _cracks(judge, *matching(judge, bk))


def matching(judge: Judge, bk: Sequence[int] | npt.NDArray[Any]) -> tuple[Flags, Flags]:
    """Which rows of the earlier and of the later release are in the matching sets."""
    inside = unmatched(judge.table, bk) <= judge.n
    return inside[judge.given.earlier.known], inside[judge.given.later.known]


def _cracks(judge: Judge, in1: Flags, in2: Flags) -> Ints:
    """int64[values, 3]: a best linker is best for every value, since links never leave one."""
    given = judge.given
    if judge.method != "exact":
        table = np.zeros((len(given.values), 3), dtype=np.int64)
        group_cracks(
            *judge.starts(), given.earlier.count, given.later.count, judge.linkable.forward, judge.linkable.backward,
            judge.n, METHODS[judge.method], in1, in2, np.zeros(len(in1), dtype=np.bool_), table,
        )  # fmt: skip
        return table
    ms1, ms2 = sizes(given.earlier, in1, len(given.values)), sizes(given.later, in2, len(given.values))
    base = judge.base
    try:
        base.fewest_leaving(in1, in2)
        links = base.links()
        stay = links[in1[links[:, 0]] & in2[links[:, 1]]]
        kept = np.bincount(given.earlier.value[stay[:, 0]], weights=stay[:, 2], minlength=len(given.values))
    finally:
        base.undo()
    try:
        base.most_free(in2, int(ms2.sum()))
        free = np.bincount(given.later.value, weights=base.linker.free * in2, minlength=len(given.values))
    finally:
        base.undo()
    return np.column_stack((ms1 - kept, ms2 - kept, ms2 - free)).astype(np.int64)


def sizes(rows: Rows, inside: Flags, values: int) -> Ints:
    """int64[values]: records of each sensitive value in a matching set."""
    return np.bincount(rows.value, weights=rows.count * inside, minlength=values).astype(np.int64)


def worst_group(judge: Judge, bk: Sequence[int], attack: str, left: int | None = None) -> dict[str, Any]:
    """The sensitive value with the most cracked records under a candidate: {value, ms1, ms2, cracked}. `left`: the
    records that no linker excludes, where that is known: the one value of a log without sensitive ones has the rest."""
    given = judge.given
    in1, in2 = matching(judge, bk)
    if left is not None and len(given.values) == 1:
        both = int(given.earlier.count[in1].sum()), int(given.later.count[in2].sum())
        cracked_records = both[0 if attack == "fa" else 1] - left
        return {"value": given.values[0], "ms1": both[0], "ms2": both[1], "cracked": cracked_records}
    key = tuple(bk)
    if key not in judge.cracked:
        judge.cracked[key] = _cracks(judge, in1, in2)
    cracked = judge.cracked[key][:, ("fa", "ca", "ba").index(attack)]
    ms1, ms2 = sizes(given.earlier, in1, len(given.values)), sizes(given.later, in2, len(given.values))
    own = int(np.lexsort((ms1 + ms2, cracked))[-1])
    return {"value": given.values[own], "ms1": int(ms1[own]), "ms2": int(ms2[own]), "cracked": int(cracked[own])}
