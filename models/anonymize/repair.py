"""Repair: what must be suppressed beyond TLKC so that no correspondence attack on earlier releases leaves 1..K-1 cases.

For a release that only suppresses items of a log that only grew, and real partners (correspondence-attacks-2021,
Def. 10-12): a record of an earlier release R that matches bk matches it here too unless an item of bk is suppressed,
so FA* = CA* = |ms(bk) in R| or 0; and BA*(bk) = the cases outside R that match bk, or 0. So with n = 0 the bounds hold
iff each bk that fewer than K (and at least one) cases outside R match loses an item: the minimal violating candidates
of the log *without* the cases of R, with C = 1. They join the candidates of TLKC itself; one minimum cover hits both.
Suppressing an item changes no count of a candidate without it, so one pass is enough.

With n >= 1 a matching set is a union of those of shorter knowledge; BA* stays 0 or >= K, but FA* and CA* can fall
(an item that one release shows and the other not): what is left then is found by the audit, and suppressed greedily
by crack contribution per event lost (`choose`). Not guaranteed: more than the audit measures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.suppression import Candidates, losses
from models.anonymize.tlkc import Problem
from models.anonymize.view import View, view_of_items
from models.anonymize.violations import Bounds, minimal_violations
from models.knowledge import items

Banned = tuple[Any, ...]
"""Items of which at least one has to go."""


@dataclass(frozen=True)
class Repaired(Problem):
    """A TLKC problem with further candidates that must lose an item."""

    banned: tuple[Banned, ...] = ()

    @classmethod
    def of(cls, problem: Problem, banned: Iterable[Banned]) -> Repaired:
        """`problem` with candidates by item value; those with an item the log lacks are hit already."""
        return cls(problem.log, problem.knowledge, problem.bounds, problem.classes, tuple(banned))

    @cached_property
    def candidates(self) -> Candidates:
        """TLKC's minimal violating candidates and the banned ones."""
        code = {item: number for number, item in enumerate(self.seen.alphabet)}
        known = [tuple(code[item] for item in one) for one in self.banned if all(item in code for item in one)]
        return [*self.violations.candidates(), *sorted(set(known))]


def fresh_violations(problem: Problem, published: Collection[str], K: int, length: int) -> list[Banned]:
    """Minimal background knowledge of at most `length` items that 1..K-1 cases outside an earlier release match.

    `published`: case ids of that release. What every candidate below K shares with a single item is one item.
    """
    outside = np.asarray([name not in published for name in problem.log.case_ids], dtype=np.bool_)
    if not outside.any():
        return []
    seen = _view(problem, outside)
    found = minimal_violations(seen, Bounds(length, K, Fraction(1)))
    return [seen.decode(candidate) for candidate in found.candidates()]


def _view(problem: Problem, cases: npt.NDArray[np.bool_]) -> View:
    """The chosen cases as an attacker sees them: in order, whatever structure the mechanism protects."""
    column = items(problem.log, problem.knowledge).take(cases[problem.log.case_of_event])
    return view_of_items(problem.log.select_cases(cases).starts, column, "seq", {})


def choose(problem: Problem, worst: Sequence[Banned], gone: Collection[Any]) -> Any | None:
    """The item of the worst background knowledge with the most of it per event lost; None where none is left."""
    seen = problem.seen
    loss = {item: int(one.sum()) for item, one in zip(seen.alphabet, losses(seen), strict=True)}
    count: dict[Any, int] = {}
    for bk in worst:
        for item in set(bk) - set(gone):
            if loss.get(item):
                count[item] = count.get(item, 0) + 1
    if not count:
        return None
    order: Mapping[Any, int] = {item: number for number, item in enumerate(seen.alphabet)}
    return max(count, key=lambda item: (Fraction(count[item], loss[item]), -order[item]))
