"""Disclosures about every case by the releases of a series, counted by hand from the definitions alone.

A release is what a recipient holds: one trace a case. The oracle knows the identity of the cases, as nobody else does,
so the partner of a record is itself (correspondence-attacks-2021, Def. 7-12, by the real linker). Imports no program
code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

Trace = tuple[str, ...]
Release = Mapping[str, Trace]
"""Released trace by case."""


def knowledge(letters: Sequence[str], length: int) -> list[Trace]:
    """Every sequence of 1..length activities."""
    return [bk for size in range(1, length + 1) for bk in product(letters, repeat=size)]


def matches(trace: Trace, bk: Trace, n: int) -> bool:
    """Whether the trace has all of bk, in order, but for at most n activities (Theorem 1)."""
    return any(_in_order(part, trace) for part in combinations(bk, max(0, len(bk) - n)))


def _in_order(part: Trace, trace: Trace) -> bool:
    rest = iter(trace)
    return all(activity in rest for activity in part)


def smallest(releases: Sequence[Release], length: int, n: int) -> dict[str, int | None]:
    """The least KA, FA, CA and BA above 0 over all releases, all pairs of them and all knowledge of 1..`length`
    activities; None if each is 0.

    * KA: cases that match in one release;
    * FA, CA: matching records of the earlier (later) release whose partner in the other one matches too;
    * BA: matching records of the later release that are nobody's partner in the earlier one.
    """
    found: dict[str, set[int]] = {name: set() for name in ("ka", "fa", "ca", "ba")}
    every_case = {case for release in releases for case in release}
    kinds = Counter(tuple(release.get(case) for release in releases) for case in every_case)
    weight = np.asarray(list(kinds.values()))
    letters = sorted({activity for one in releases for trace in one.values() for activity in trace})
    known = [set(combinations(bk, max(0, len(bk) - n))) for bk in knowledge(letters, length)]
    seen: dict[Trace, npt.NDArray[np.bool_]] = {}

    def row(trace: Trace | None) -> npt.NDArray[np.bool_]:
        if trace is None:
            return np.zeros(len(known), dtype=np.bool_)
        if trace not in seen:
            has = {part for size in range(length - n + 1) for part in combinations(trace, size)}
            seen[trace] = np.asarray([not parts.isdisjoint(has) for parts in known])  # `matches`, all at once
        return seen[trace]

    matching = [np.asarray([row(kind[place]) for kind in kinds]) for place in range(len(releases))]
    present = [np.asarray([kind[place] is not None for kind in kinds]) for place in range(len(releases))]
    for later, match in enumerate(matching):
        found["ka"] |= set((weight @ match).tolist())
        for earlier in range(later):
            both = set((weight @ (matching[earlier] & match)).tolist())
            found["fa"] |= both
            found["ca"] |= both
            found["ba"] |= set((weight @ (match & ~present[earlier][:, None])).tolist())
    return {name: min(values - {0}, default=None) for name, values in found.items()}


def largest_share(release: Release, value: Mapping[str, Hashable], length: int) -> float:
    """The largest share of one value among the cases that match some knowledge of 0..`length` activities in order, or
    some set of that many in any order. A case without a value counts as matching."""
    groups: dict[Any, list[Hashable]] = {}
    for case, trace in release.items():
        for key in set(_keys(trace, length)):
            groups.setdefault(key, []).append(value.get(case))
    worst = 0.0
    for members in groups.values():
        counts = Counter(one for one in members if one is not None)
        worst = max(worst, max(counts.values(), default=0) / len(members))
    return worst


def _keys(trace: Trace, length: int) -> Iterator[tuple[str, Trace]]:
    for size in range(length + 1):
        for part in combinations(trace, size):
            yield "order", part
            yield "any order", tuple(sorted(part))
