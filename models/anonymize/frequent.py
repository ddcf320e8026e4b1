"""Maximal frequent traces (tlkc-privacy-extended-2021, Def. 17), the utility measure of Algorithm 1."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from models.anonymize.view import View
from models.anonymize.violations import Bounds, LevelSearch, single_items
from models.errors import InputError


def maximal_frequent(view: View, theta: float | str | Fraction) -> list[tuple[int, ...]]:
    """The frequent traces (in at least `theta` of the cases) that no longer trace extends, as code tuples.

    `view` is ordered (`seq` or `rel`). The search walks every frequent trace, so a low theta on long traces is slow.
    """
    share = Fraction(str(theta))
    if not 0 < share <= 1:
        raise InputError(f"theta = {theta} is not in (0, 1]")
    bounds = Bounds.of(1, max(1, -(-share.numerator * view.n_cases // share.denominator)), 1)
    single = single_items(view, bounds)
    search = LevelSearch(view, single.candidates[single.support >= bounds.K, 0], bounds)
    result: list[tuple[int, ...]] = []
    while len(search.paths):
        paths = search.paths
        level = search.next_level()
        search.keep(level.support >= bounds.K)
        extended = np.zeros(len(paths), dtype=np.bool_)
        extended[search.deletions] = True
        result.extend(tuple(row) for row in search.alive[paths[~extended]].tolist())
    return sorted(result)
