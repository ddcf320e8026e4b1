"""TLKC-privacy: the entry point of the mechanism.

Claim: an adversary knows at most L items of a case, in the structure of `knowledge`. Then at least K released cases
match these items, or none does, and no value (class) of a sensitive attribute belongs to more than a share C of them.

Relation: linkage of one case within one release. Unit: one case.

Not claimed: anything against adversaries who know more than L items, another structure or perspective, or the rules of
suppression (see the minimality audit of `local`); anything over several releases; that the absence or shortening of a
case reveals nothing.

References
----------
tlkc-privacy-extended-2021, Def. 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from models.anonymize.result import Anonymized, refuse_empty
from models.anonymize.sensitive import Edges, class_columns, refuse_infeasible
from models.anonymize.suppression import (
    Candidates,
    Caps,
    Weights,
    algorithm_1,
    algorithm_2,
    cases_with,
    losses,
    minimum_cover,
    prune,
    raise_caps,
)
from models.anonymize.view import TraceView, view
from models.anonymize.violations import BELOW_K, LevelSearch, TlkcBounds, Violations, minimal_violations, single_items
from models.content_free import content_free
from models.errors import BoundError, InputError, check_choice
from models.eventlog import Column, EventLog, Flags, Ints, starts_of
from models.knowledge import Attribute, Clock, Knowledge, Structure, Unit
from models.variants import total

if TYPE_CHECKING:
    from models.anonymize.local import Choice


# Maximal frequent traces (tlkc-privacy-extended-2021, Def. 17), the utility measure of Algorithm 1.


def maximal_frequent(view: TraceView, theta: float | str | Fraction) -> list[tuple[int, ...]]:
    """Return the maximal frequent traces as code tuples.

    A trace is frequent if at least `theta` of the cases contain it, and maximal if no longer frequent trace extends
    it. The search walks every frequent trace, so a low theta on long traces is slow.

    Parameters
    ----------
    view
        An ordered view (`seq` or `rel`).
    theta
        Least share of the cases, in (0, 1].

    Raises
    ------
    InputError
        If theta is out of range.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 17 (the utility measure of Algorithm 1).
    """
    share = Fraction(str(theta))
    if not 0 < share <= 1:
        raise InputError(f"theta = {theta} is not in (0, 1]")
    bounds = TlkcBounds.of(1, max(1, -(-share.numerator * view.n_cases // share.denominator)), 1)
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


Suppression = Literal["greedy", "pruned", "exact", "local"]


@dataclass(frozen=True, slots=True)
class SuppressionOptions:
    """Rules by which suppression chooses what to remove. The claim does not depend on it.

    Parameters
    ----------
    suppression
        `greedy`: Algorithm 1 or 2 as printed. `pruned`: the same, without items that turn out not to be needed.
        `exact`: the fewest lost events by branch and bound. `local`: events of single cases.
    algorithm
        Of `greedy` and `pruned`. 1 scores PG / (UL + 1) over maximal frequent traces of share `theta`; 2 scores
        alpha * rPG + beta * nUL.
    theta, alpha, beta
        Parameters of the two scores.
    capping
        Of `pruned` and `exact`: cap multiplicities under `mult` instead of removing items.
    work
        Of `exact`: seconds of branch and bound.
    effort, seed
        Of `local`: number of proposals, and seed of the search.
    max_minimality
        Of `local`: see `models.anonymize.minimality`.
    """

    suppression: Suppression = "exact"
    algorithm: Literal[1, 2] = 2
    theta: float = 0.5
    alpha: float = 0.5
    beta: float = 0.5
    capping: bool = True
    work: float = 20.0
    effort: int = 0
    seed: int = 0
    max_minimality: int | None = None

    @property
    def whole_items(self) -> SuppressionOptions:
        """The same options for a mechanism that only removes whole items: `exact` in place of `local`."""
        if self.suppression != "local":
            return self
        return replace(self, suppression="exact", effort=0, max_minimality=None)

    def __post_init__(self) -> None:
        """Refuse values out of range, and options of another kind of suppression."""
        check_choice("suppression =", self.suppression, get_args(Suppression))
        if self.algorithm not in (1, 2):
            raise InputError(f"algorithm = {self.algorithm!r} is neither 1 nor 2")
        if not 0 < self.theta <= 1:
            raise InputError(f"theta = {self.theta} is not in (0, 1]")
        if min(self.alpha, self.beta) < 0 or Fraction(str(self.alpha)) + Fraction(str(self.beta)) != 1:
            raise InputError(f"alpha = {self.alpha} and beta = {self.beta} are not shares that add up to 1")
        if self.effort < 0:
            raise InputError(f"effort = {self.effort} is negative")
        if self.effort and self.suppression != "local":
            raise InputError(f'effort is of suppression = "local", not "{self.suppression}"')
        if self.max_minimality is not None and self.suppression != "local":
            raise InputError(f'max_minimality needs suppression = "local", not "{self.suppression}"')
        if self.seed < 0:
            raise InputError(f"seed = {self.seed} is negative")


def anonymize(
    log: EventLog,
    *,
    L: int = 2,
    K: int = 20,
    C: float | str | Fraction = 1,
    sensitive: Sequence[str] = (),
    knowledge: Knowledge | Structure = "seq",
    attribute: Attribute = "ac",
    T: Unit = "minutes",
    bins: Mapping[str, Edges] | None = None,
    clock: Clock = "utc",
    also: Sequence[Structure] = (),
    **options: Any,
) -> Anonymized:
    """Remove events until the log satisfies TLKC-privacy.

    Each sensitive attribute is bounded separately.

    Parameters
    ----------
    log
        The source log.
    L
        Largest number of items that an adversary knows of a case.
    K
        Least number of released cases that match such knowledge.
    C
        Largest share of one sensitive value among the matching cases, in (0, 1].
    sensitive
        Names of sensitive attributes.
    knowledge
        Structure of the knowledge (then `attribute`, `T` and `clock` complete it), or the whole `Knowledge`.
    attribute
        Perspectives of an item.
    T
        Unit of relative times.
    bins
        Upper edges of the classes of numeric attributes; quartiles if not given.
    clock
        Clock in which relative times are read.
    also
        Weaker structures for which the bounds must hold too.
    options
        The fields of `SuppressionOptions`.

    Returns
    -------
    Anonymized
        The released log, verified by an independent checker.

    Raises
    ------
    InputError
        If K or C is infeasible, which is reported before any work, or an option is out of range.
    BoundError
        If nothing would be left.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 14 and Algorithms 1 and 2.
    """
    if not isinstance(knowledge, Knowledge):
        knowledge = Knowledge(knowledge, attribute, T, clock)
    bounds, classes = TlkcBounds.of(L, K, C), class_columns(log, sensitive, bins)
    problem = TlkcProblem(log, knowledge, bounds, classes, also=tuple(also))
    return problem.solve(SuppressionOptions(**options))


@content_free("bounds")
@dataclass(frozen=True)
class TlkcProblem:
    """A log, the knowledge of the adversary, the bounds, and the class of each case.

    Parameters
    ----------
    log, knowledge, bounds
        As `anonymize`.
    classes
        The class of each case, by sensitive attribute.
    also
        Weaker structures of knowledge for which the bounds must hold too. Supports grow when knowledge weakens, so K
        carries over. A share does not: two orders may each match cases within C, and their union exceeds C.
    bans
        Candidates (codes of `seen`) that no case may match, whatever their counts.
    cases
        int64[C], number of cases that each case of the log represents (a table of variants). None: one each.
    """

    log: EventLog
    knowledge: Knowledge
    bounds: TlkcBounds
    classes: Mapping[str, Column]
    also: tuple[Structure, ...] = field(default=(), kw_only=True)
    bans: tuple[tuple[int, ...], ...] = field(default=(), kw_only=True)
    cases: Ints | None = field(default=None, kw_only=True)

    def only(self, cases: npt.NDArray[Any]) -> TlkcProblem:
        """Return the same problem for some of the cases (mask or indices).

        Parameters
        ----------
        cases
            bool[C], or numbers of cases.
        """
        chosen = np.flatnonzero(cases) if cases.dtype == np.bool_ else cases
        classes = {name: column.take(chosen) for name, column in self.classes.items()}
        log = self.log.select_cases(chosen)
        weights = None if self.cases is None else self.cases[chosen]
        # Without the bans: they are codes of this log, and the other one has codes of its own.
        return TlkcProblem(log, self.knowledge, self.bounds, classes, also=self.also, cases=weights)

    @cached_property
    def seen(self) -> TraceView:
        """The log as the adversary sees it."""
        return view(self.log, self.knowledge, self.classes, self.cases)

    @cached_property
    def violations(self) -> Violations:
        """The minimal violating candidates of the source, as codes of `seen`."""
        return minimal_violations(self.seen, self.bounds)

    @cached_property
    def candidates(self) -> Candidates:
        """The minimal violating candidates and the bans, as tuples of codes."""
        minimal = self.violations.candidates()
        other_bans = set(self.bans).difference(minimal)
        return [*minimal, *(ban for ban in self.bans if ban in other_bans)]

    @property
    def trial_cost(self) -> int:
        """Number of events, and of candidates to ban, that each trial of a search compares."""
        return self.log.n_events + len(self.violations)

    def reasons(self) -> dict[str, int]:
        """Count the minimal violating candidates below K, and those with a share above C."""
        below = sum(int((level.reason == BELOW_K).sum()) for level in self.violations.levels)
        return {"below_k": below, "above_c": len(self.violations) - below}

    def refuse_infeasible(self) -> None:
        """Refuse bounds that the whole log already violates (InfeasibleError)."""
        n_cases = total(self.log.lengths >= 0, self.cases)
        refuse_infeasible(n_cases, self.classes, self.bounds, self.cases)

    def solve(
        self,
        options: SuppressionOptions,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Anonymized:
        """Suppress events until the bounds hold, and verify the result.

        Parameters
        ----------
        options
            How suppression chooses.
        progress
            Called with the number of finished proposals of local search.

        Raises
        ------
        InfeasibleError
            If the whole log already violates.
        BoundError
            If nothing would be left, or the checker found a violation.
        """
        self.refuse_infeasible()
        return self.settled(lambda problem: problem._once(options, progress))

    def settled(self, once: Callable[[TlkcProblem], Anonymized]) -> Anonymized:
        """Repeat `once` with more bans until no weaker knowledge of `also` violates; then verify.

        Parameters
        ----------
        once
            Suppresses events until the problem's own candidates are gone.

        Raises
        ------
        BoundError
            If nothing is left, or the result does not hold the promise (`verified`).
        """
        problem = self
        while True:
            result = once(problem)
            weak = problem.weaker_violations(result.kept)
            if not weak:
                return problem.verified(result)
            problem = problem.banning(weak)

    def _once(self, options: SuppressionOptions, progress: Callable[[int], None]) -> Anonymized:
        if options.suppression != "local":
            return self.suppress(options)
        caps, _ = _caps(self, options.whole_items)
        return self.local(options, caps, progress)

    def banning(self, candidates: Iterable[tuple[int, ...]]) -> TlkcProblem:
        """Return the same problem with more bans; what was computed of the log is kept.

        Parameters
        ----------
        candidates
            Codes of `seen` that must not occur together.
        """
        problem = replace(self, bans=(*self.bans, *candidates))
        for name in ("seen", "violations"):  # cached properties that do not depend on the bans
            if name in vars(self):
                vars(problem)[name] = vars(self)[name]
        return problem

    def violations_of(self, kept: Flags, structure: Structure) -> Candidates:
        """Return the minimal candidates that the kept events violate under a structure, as codes of `seen`.

        Parameters
        ----------
        kept
            bool[E], events that stay.
        structure
            Structure of the background knowledge: set, multiset, sequence or relative times.
        """
        if not kept.any():
            return []
        code_of = {item: code for code, item in enumerate(self.seen.alphabet)}
        knowledge = replace(self.knowledge, structure=structure)
        shown = view(self.log.select_events(kept), knowledge, self.classes, self.cases)
        minimal = minimal_violations(shown, self.bounds).candidates()
        return [tuple(code_of[item] for item in shown.decode(candidate)) for candidate in minimal]

    def weaker_violations(self, kept: Flags) -> Candidates:
        """Return the candidates that the kept events violate for a weaker structure of `also`.

        They are expressed as candidates of this problem's own structure: every order of the items in which a
        case can match.

        Parameters
        ----------
        kept
            bool[E], events that stay.
        """
        violating: dict[tuple[int, ...], None] = {}  # an ordered set
        for structure in self.also:
            for candidate in self.violations_of(kept, structure):
                items = sorted(candidate)
                orders = permutations(items) if self.knowledge.structure == "seq" else [tuple(items)]
                violating.update(dict.fromkeys(orders))
        return list(violating)

    def suppress(self, options: SuppressionOptions) -> Anonymized:
        """Suppress whole items, or occurrences above a cap, until no candidate is left.

        The result is not verified yet.

        Parameters
        ----------
        options
            Options of global suppression.
        """
        seen = self.seen
        caps, warnings = _caps(self, options)
        limit = np.full(len(seen.alphabet), np.iinfo(np.int64).max)
        for item, cap in caps.items():
            limit[item] = cap
        gone = sorted(item for item, cap in caps.items() if cap == 0)
        capped = [{"item": seen.alphabet[item], "at_most": cap} for item, cap in sorted(caps.items()) if cap]
        return Anonymized(
            self.log,
            _within(seen, limit),
            self.knowledge,
            suppressed=seen.decode(gone),
            warnings=tuple(warnings),
            bounded=bool(warnings),
            details={"violations": self.reasons(), "capped": capped},
            cases=self.cases,
        )

    def local(
        self,
        options: SuppressionOptions,
        preferred: Iterable[int] | Choice,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Anonymized:
        """Suppress events of single cases until no candidate is left.

        The result is not verified yet.

        Parameters
        ----------
        options
            Effort and seed of local suppression.
        preferred
            As for `local.suppress`.
        progress
            Called with the number of finished proposals.
        """
        from models.anonymize.local import kept_events, suppress

        state, minimality = suppress(
            self.seen,
            self.bounds,
            preferred,
            bans=self.bans,
            effort=options.effort,
            seed=options.seed,
            max_minimality=options.max_minimality,
            progress=progress,
        )
        return Anonymized(
            self.log,
            kept_events(self.seen, state.kept),
            self.knowledge,
            suppressed=self.seen.decode(sorted(state.bans.alone.tolist())),
            details={
                "violations": self.reasons(),
                "bans": len(state.bans),
                "rounds": state.rounds,
                "minimality": minimality.json(),
            },
            cases=self.cases,
        )

    def verified(self, result: Anonymized) -> Anonymized:
        """Return the result with the verdict of the independent checker.

        Parameters
        ----------
        result
            A solution of the problem.

        Raises
        ------
        BoundError
            If nothing is left, or the promise does not hold.
        """
        refuse_empty(result, self.name)
        for structure in (self.knowledge.structure, *self.also):
            violation = violation_in(self, result.kept, structure)
            if violation is None:
                continue
            if violation.candidate:
                raise BoundError(
                    f"{self.name}: the checker found a violating set of {len(violation.candidate)} items; not released"
                )
            raise BoundError(
                f"{self.name}: once empty cases are dropped, a value has {violation.worst} of the "
                f"{violation.support} cases left; local suppression keeps more cases, and so do more cases or fewer "
                "and larger classes (bins)"
            )
        details = dict(result.details)
        if self.also:
            details["also"] = {"structures": list(self.also), "bans": len(self.bans)}
        return replace(result, satisfied=True, details=details)

    @property
    def name(self) -> str:
        """Mechanism and bounds, for messages."""
        return (
            f"tlkc ({self.knowledge.structure}, L = {self.bounds.L}, K = {self.bounds.K}, C = {float(self.bounds.C):g})"
        )


def violation_in(
    problem: TlkcProblem,
    kept: npt.NDArray[np.bool_],
    structure: Structure | None = None,
) -> Any:
    """Return the first violation that the independent checker finds in the kept events.

    Parameters
    ----------
    problem
        The log, knowledge, bounds and classes.
    kept
        bool[E], the events that would be released.
    structure
        A weaker structure to check; that of the problem if not given.

    Returns
    -------
    Violation or None
        None if the promise holds.
    """
    # Not imported above: a configuration names this mechanism, and `check` loads the compiler, a third of a second.
    from models.anonymize.check import first_violation

    released = Anonymized(problem.log, kept, problem.knowledge)
    starts = starts_of(released.kept_per_case)
    bounds = problem.bounds
    return first_violation(
        starts,
        released.items,
        structure or problem.knowledge.structure,
        list(problem.classes.values()),
        bounds.L,
        bounds.K,
        bounds.C,
        cases=problem.cases,
    )


def _within(seen: TraceView, limit: Ints) -> npt.NDArray[np.bool_]:
    """Return which events are among the first limit[item] events of their item in their case."""
    if np.isin(limit, (0, np.iinfo(np.int64).max)).all():  # no item is capped
        return (limit > 0)[seen.item_of_event]
    return seen.ordinal_of_event < limit[seen.item_of_event]


def _caps(problem: TlkcProblem, options: SuppressionOptions) -> tuple[Caps, list[str]]:
    """Return the most events of an item that a case may keep (0: none), and warnings; other items keep all."""
    seen, candidates = problem.seen, problem.candidates
    loss = losses(seen)
    capping = options.capping and seen.structure == "mult"
    if options.suppression == "exact":
        cover = minimum_cover(candidates, loss, capping=capping, time_limit=options.work)
        if cover.caps is not None:
            return cover.caps, []
    chosen = _greedy(problem, options)
    if options.suppression == "greedy":
        return dict.fromkeys(chosen, 0), []
    chosen = prune(chosen, candidates, loss)
    caps = raise_caps(chosen, candidates, loss) if capping else dict.fromkeys(chosen, 0)
    late = "exact suppression stopped at its bound on work: the result is safe but may lose more events than needed"
    return caps, [late] if options.suppression == "exact" else []


def _greedy(problem: TlkcProblem, options: SuppressionOptions) -> list[int]:
    """Return items in the order of suppression, by Algorithm 1 or 2 as printed."""
    seen, candidates = problem.seen, problem.candidates
    if options.algorithm == 2:
        weights = Weights(Fraction(str(options.alpha)), Fraction(str(options.beta)))
        return algorithm_2(candidates, cases_with(seen), seen.n_cases, weights)
    knowledge = problem.knowledge
    ordered = replace(knowledge, structure="rel" if knowledge.structure == "rel" else "seq")
    frequent = maximal_frequent(view(problem.log, ordered, {}, problem.cases), options.theta)
    return algorithm_1(candidates, frequent, len(seen.alphabet))
