"""Repair: suppression beyond TLKC, so that no correspondence attack on earlier releases leaves 1..K-1 cases.

Real partners (correspondence-attacks-2021, Def. 10-12), n = 0, cases that only grow. If no event that an earlier
release R showed is hidden now, but for items suppressed in every case, then FA* = CA* = |ms(bk) in R| or 0: at least
R's own KA. And BA*(bk) = the cases outside R that match bk. So the bounds hold iff 0 or at least K cases outside each
earlier release match each bk. If 1..K-1 cases match (`exposing`), something must be suppressed:

* by events: these cases lose all events of one item of bk that no release showed yet. Shown events are fixed: hiding
  them again would leave 1..K-1 of R's records with their partner.
* by items, if the mode asks for it or a case shows bk by fixed events only: an item of bk is suppressed everywhere,
  chosen with TLKC's own candidates in one minimum cover.
* with local suppression (`local`), single cases lose the events that violate TLKC in the same way, and whole items are
  suppressed only for candidates that shown events alone violate.

Suppressing an item changes no count of a candidate without it. Hiding single events does: both conditions, and TLKC,
are looked at again until nothing is left to do; each round hides an event or suppresses an item, so it ends.

With n >= 1 a matching set is a union of those of shorter knowledge; BA* stays 0 or >= K, but FA* and CA* can fall
(an item that one release shows and the other not): what is left then is found by the audit, and suppressed greedily
by crack contribution per event lost (`choose`). Not guaranteed: more than the audit measures, and adversaries who know
the rules of hiding (docs/fcb-safe.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.hiding import Hiding, Mode, Target
from models.anonymize.result import Anonymized
from models.anonymize.shown import ShownItems
from models.anonymize.suppression import Candidates, losses
from models.anonymize.tlkc import SuppressionOptions, TlkcProblem
from models.anonymize.view import TraceView, view_of_items
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.content_free import content_free
from models.eventlog import Flags
from models.knowledge import items

Banned = tuple[Any, ...]
"""Items of which at least one has to go."""


@content_free()
@dataclass(frozen=True)
class Repaired(TlkcProblem):
    """A TLKC problem with further candidates that must lose an item.

    Attributes
    ----------
    banned
        Items of each further candidate.
    """

    banned: tuple[Banned, ...] = ()

    @classmethod
    def of(cls, problem: TlkcProblem, banned: Iterable[Banned]) -> Repaired:
        """Return `problem` with further candidates, given by their items.

        Candidates with an item that the log does not have need no suppression.

        Parameters
        ----------
        problem
            The problem that was solved before.
        banned
            Items of each further candidate.
        """
        further = cls(problem.log, problem.knowledge, problem.bounds, problem.classes, tuple(banned))
        # Cached properties that are the same for both problems.
        vars(further).update(seen=problem.seen, violations=problem.violations)
        return further

    @cached_property
    def candidates(self) -> Candidates:
        """TLKC's minimal violating candidates and the banned ones."""
        code_of = {item: code for code, item in enumerate(self.seen.alphabet)}
        banned: set[tuple[int, ...]] = set()
        for items_of_ban in self.banned:
            if all(item in code_of for item in items_of_ban):
                banned.add(tuple(code_of[item] for item in items_of_ban))
        return [*self.violations.candidates(), *sorted(banned)]


def repaired(
    problem: TlkcProblem,
    shown: ShownItems,
    targets: Sequence[Target],
    options: SuppressionOptions,
    *,
    gone: Sequence[Any],
    mode: Mode,
    local: bool = False,
) -> Anonymized:
    """Return the log without the events that no release may show yet.

    Parameters
    ----------
    problem
        The log, knowledge, bounds and classes.
    shown
        Items that earlier releases showed of each case.
    targets
        Numbers of cases that background knowledge must match outside earlier releases.
    options
        How whole items are chosen.
    gone
        Items that are suppressed in any case.
    mode
        Whether single cases may lose events, or only whole items go.
    local
        Single cases also lose what violates TLKC-privacy; needs `mode` "events".

    Returns
    -------
    Anonymized
        The release; `details["hidden"]` counts events of remaining items that left single cases, and these
        cases.

    Raises
    ------
    BoundError
        If nothing would be left.

    References
    ----------
    correspondence-attacks-2021, Def. 10-12.
    """
    problem.refuse_infeasible()
    hiding = Hiding(problem, shown, targets, mode)
    if local:
        kept, given_up = hiding.close_locally(lambda shown: _violating(problem, shown))
    else:
        kept, given_up = hiding.close(problem.suppress(options).kept)
    banned = [(item,) for item in gone]
    banned += [problem.seen.decode(bk) for bk in sorted(given_up | hiding.rare(kept))]
    result = Repaired.of(problem if kept.all() else _showing(problem, kept), banned).suppress(options)
    final = kept.copy()
    final[kept] = result.kept
    hidden = _hidden(problem, kept, result.suppressed)
    return problem.verified(
        replace(result, source=problem.log, kept=final, details={**result.details, "hidden": hidden})
    )


def _violating(problem: TlkcProblem, kept: Flags) -> list[tuple[int, ...]]:
    """Return the TLKC violations of the kept events, as codes of `problem.seen`.

    The knowledge itself and every weaker structure of `also` is checked. A candidate appears in every order
    in which a case can match it.
    """
    violating: dict[tuple[int, ...], None] = {}  # an ordered set
    for structure in (problem.knowledge.structure, *problem.also):
        for candidate in problem.violations_of(kept, structure):
            violating.update(dict.fromkeys([candidate] if structure == "seq" else permutations(candidate)))
    return list(violating)


def _showing(problem: TlkcProblem, kept: Flags) -> TlkcProblem:
    return TlkcProblem(problem.log.select_events(kept), problem.knowledge, problem.bounds, problem.classes)


def _hidden(problem: TlkcProblem, kept: Flags, suppressed: Collection[Any]) -> dict[str, int]:
    stays = np.asarray([item not in suppressed for item in problem.seen.alphabet], dtype=np.bool_)
    lost = ~kept & stays[problem.seen.item_of_event]
    return {"events": int(lost.sum()), "cases": len(np.unique(problem.log.case_of_event[lost]))}


def fresh_violations(problem: TlkcProblem, published: Collection[str], K: int, length: int) -> list[Banned]:
    """Return the minimal background knowledge that 1..K-1 cases outside an earlier release match.

    Parameters
    ----------
    problem
        The log and the knowledge.
    published
        Case ids of the earlier release.
    K
        Least number of matching cases, unless none matches.
    length
        Largest number of items of background knowledge.
    """
    outside = np.asarray([name not in published for name in problem.log.case_ids], dtype=np.bool_)
    if not outside.any():
        return []
    seen = _view(problem, outside)
    violations = minimal_violations(seen, TlkcBounds(length, K, Fraction(1)))
    return [seen.decode(candidate) for candidate in violations.candidates()]


def _view(problem: TlkcProblem, cases: npt.NDArray[np.bool_]) -> TraceView:
    """Return the chosen cases in order, as an attacker sees them, whatever structure is protected."""
    column = items(problem.log, problem.knowledge).take(cases[problem.log.case_of_event])
    return view_of_items(problem.log.select_cases(cases).starts, column, "seq", {})


def choose(problem: TlkcProblem, worst: Sequence[Banned], gone: Collection[Any]) -> Any | None:
    """Return the item that occurs in most of the worst background knowledge per event lost.

    Parameters
    ----------
    problem
        The problem to repair.
    worst
        Background knowledge of which at least one item has to go.
    gone
        Items that are suppressed already.

    Returns
    -------
    item or None
        None if no item is left.
    """
    seen = problem.seen
    loss = {item: int(by_cap.sum()) for item, by_cap in zip(seen.alphabet, losses(seen), strict=True)}
    count: dict[Any, int] = {}
    for bk in worst:
        for item in set(bk) - set(gone):
            if loss.get(item):
                count[item] = count.get(item, 0) + 1
    if not count:
        return None
    order: Mapping[Any, int] = {item: number for number, item in enumerate(seen.alphabet)}
    return max(count, key=lambda item: (Fraction(count[item], loss[item]), -order[item]))
