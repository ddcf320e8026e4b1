"""`tlkc-cohorts`: completed cases in cohorts that each satisfy TLKC and never change again (docs/fcb-safe.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from pydantic import Field

from models.anonymize.cohort_division import Patience, Wanted, divided, frequent, refuse_hopeless, wanted
from models.anonymize.cohorts import Alphabet, CohortRules, balanced, cohort, refuse_moving_bins
from models.anonymize.local import Choice
from models.anonymize.microaggregation import microaggregated_after
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import class_columns
from models.anonymize.tlkc import Problem
from models.chance import Chance
from models.errors import BoundError, TooFewCasesError
from models.eventlog import Ints
from stream.release.contract import Build, Exposure
from stream.release.mechanisms.cohort_memory import Claim, Published
from stream.release.mechanisms.suppression import UNTIMED, operator_view
from stream.release.mechanisms.tlkc_parameters import TlkcMechanism, values_words

OLDER = "shares for weaker knowledge in cohorts of an earlier version (they were not checked for it)"

UNSAID = {"times": "ordinal", "resources": "pseudonyms"}
"""What a claim means that says nothing of it."""


class TlkcCohorts(TlkcMechanism):
    """Cases are published once, when complete, in a cohort that satisfies TLKC on its own; the rest waits."""

    remembers: ClassVar[bool] = True
    shares_memory: ClassVar[bool] = True

    kind: Literal["tlkc-cohorts"] = "tlkc-cohorts"
    alphabet: Alphabet = "per-cohort"
    """`common`: later cohorts show the items of the first one only, and suppress no more of them."""
    min_share: float | None = Field(default=None, ge=0, le=1)
    """The queue waits while a cohort of it would keep less than this share of its events. None: 0.4, but with `local`
    no share is asked of a queue of 3 K cases or more: it leaves as soon as K of them can."""
    balance: float | None = Field(default=None, gt=0, le=1)
    """Largest share of one sensitive class among the cases that leave together (None: C); the rest of it waits."""
    patience: int = Field(default=4, ge=0)
    """`local`: releases that a case waits at most for others like it, where it would lose events now, and three times
    as many for an activity of 4 % of the cases that no cohort has shown; 0: none waits."""

    def promise(self) -> Mapping[str, Any]:
        combined = "" if self.alphabet == "common" else " conclusions from which activities each cohort shows or lacks;"
        return {
            "guaranteed": f"whatever somebody knows of a case, up to {self.L} items ({self.known_words}): in "
            f"every release to this audience none or at least {self.K} cases match it, and as many remain possible "
            "for somebody who compares any two of these releases (attacks F, C, B)"
            f"{values_words(self.C, 'the matching cases of a release')}",
            "to_whom": "released cases",
            "against_whom": f"a recipient of all releases to this audience who knows at most {self.L} items of a "
            "case and when it was first published",
            "relation": None,
            "unit": "case",
            "not_guaranteed": f"anything against somebody who knows more than that;{self.left_words} what "
            "somebody learns by combining this with releases given to others, or with noisy ones; anything against "
            "somebody who knows when a case started;"
            f"{combined} conclusions from when a case first appeared (rare cases, and those of a class that is too "
            "frequent, are published later); cohorts that erasure or retention made smaller",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """The published cases as they were, and a new cohort. BoundError where the queue has to wait: a release that
        repeats the last one would be no release."""
        before, claim = Published.read(memory), self._claim(exposure)
        published = before.taken_over(exposure)
        checked = _checked(published, claim)
        if published.claim not in (None, checked):
            raise BoundError(
                f"tlkc-cohorts: the cohorts that are out promise {_changed(published.claim, claim)}; other bounds "
                "need a publication of their own"
            )
        queue = published.queue(exposure)
        fresh = self._fresh(exposure, queue, published, taken=published.shown != before.shown)
        registry, micro = published, self.times == "microaggregated"
        if fresh is not None:
            common = None
            if self.alphabet == "common":
                common = published.alphabet if published.alphabet is not None else fresh.items.values
            times, pending = None, published.pending
            if micro:
                below, latest = Chance().below, exposure.time_ns
                drawn, pending = microaggregated_after(fresh.log, self.K, self.T, below, pending, latest=latest)
                times = drawn.tolist()
            registry = published.joined(exposure, fresh, common, checked, times, pending).held_back(exposure, queue)
        known = registry.of_publication(exposure.publication)
        log, origin = known.log(exposure)
        return Build(
            log=log,
            origin=origin,
            carries=(*self.known.carries, *(("relative_time",) if micro else ())),
            time_basis="microaggregated" if micro else "relative" if self.knowledge == "rel" else "ordinal",
            T=self.T,
            n_actual=max(known.n_actual),
            held=known.held(exposure),
            immutable=True,
            cohort=known.cohort_of(exposure, origin),
            weakened=checked != claim or known.size > log.n_cases,
            public=_public(known, fresh),
            not_guaranteed=(*self.local_risks, *([OLDER] if checked != claim else []), *((UNTIMED,) if micro else ())),
            operator={
                **({} if fresh is None else operator_view(fresh)),
                "cohorts": known.summary(),
                "late_lost": known.late(exposure),
            },
            memory=registry.memory(),
        )

    def claim(self) -> Mapping[str, Any]:
        """What each cohort must promise for their union to promise it."""
        names = {"knowledge", "attribute", "L", "K", "C", "bins", "alphabet", "also"}
        if self.knowledge == "rel":
            names |= {"T", "clock"}
        elif self.times != "ordinal":
            names |= {"T", "times"}
        return self.model_dump(mode="json", include=names)

    def _claim(self, exposure: Exposure) -> Claim:
        public = {"public": sorted(exposure.public)} if exposure.public else {}
        named = {} if exposure.roles is None else {"resources": "roles"}
        return {**self.claim(), "sensitive": sorted(exposure.sensitive), **public, **named}

    def _fresh(self, exposure: Exposure, queue: Ints, published: Published, *, taken: bool) -> Anonymized | None:
        """A new cohort; None where the queue has to wait, but cohorts of another publication were taken over."""
        try:
            return self._cohort(exposure, queue, published)
        except BoundError:
            if taken:
                return None
            raise

    def _cohort(self, exposure: Exposure, queue: Ints, published: Published) -> Anonymized:
        if not len(queue):
            raise TooFewCasesError("tlkc-cohorts: no completed case is waiting; nothing new to release")
        for name in set(exposure.sensitive) - set(self.bins):
            refuse_moving_bins(name, exposure.log.case_values(name))
        try:
            problem, choice = self._divided(exposure, queue, published)
            return cohort(
                problem, CohortRules(self.options(), self._least_share(len(queue)), published.alphabet, choice)
            )
        except TooFewCasesError as error:
            raise TooFewCasesError(f"tlkc-cohorts: {error}") from None
        except BoundError as error:
            raise BoundError(f"tlkc-cohorts: {error}") from None

    def _divided(self, exposure: Exposure, queue: Ints, published: Published) -> tuple[Problem, Choice]:
        """The queue without the cases that wait for others like them, and without the last cases of classes that are
        too frequent in it."""
        log = exposure.log.select_cases(queue)
        classes = class_columns(log, exposure.sensitive, self.bins)
        whole = Problem(log, self.known, self.bounds, classes, also=self.also)
        share = Fraction(str(self.C if self.balance is None else min(self.balance, self.C)))
        if self.suppression == "local" and self.alphabet == "per-cohort":
            patience = Patience(self.patience, last=exposure.last, seed=self.seed)
            waited, want = published.waited(exposure, queue), self._wanted(exposure, published)
            division = divided(whole, waited, patience, share, self._least_share(len(queue)), want)
            return whole.only(division.cases), division.choice
        refuse_hopeless(whole, share)
        everyone = np.ones(log.n_cases, dtype=np.bool_)
        return whole.only(np.flatnonzero(balanced(everyone, list(classes.values()), share))), Choice()

    def _least_share(self, queue: int) -> float:
        if self.min_share is not None:
            return self.min_share
        return 0.0 if self.suppression == "local" and queue >= 3 * self.K else 0.4

    def _wanted(self, exposure: Exposure, published: Published) -> Wanted:
        """Activities of which much was lost so far count more. Items of other knowledge all count the same."""
        if self.attribute != "ac" or self.knowledge == "rel":
            return Wanted()
        done = exposure.log.select_cases(exposure.complete)
        classes = class_columns(done, exposure.sensitive, self.bins).values()
        return wanted(*published.activities(exposure), frequent(done, classes, self.bounds))

    @classmethod
    def owned(cls, memory: Any, publication: str) -> Any:
        """Cohorts from before audiences shared them: those of the publication that remembers them."""
        if not memory:
            return memory
        published = Published.read(memory)
        return published.memory() if all(published.shown) else published.owned(publication).memory()

    @classmethod
    def forget(cls, memory: Any, cases: Collection[str]) -> Any:
        """Without the erased cases: they leave every later release, and their cohort is that much smaller."""
        return msgspec.to_builtins(Published.read(memory).without(cases).memory()) if memory else memory


def _checked(published: Published, claim: Claim) -> Claim:
    """The claim as far as it holds of all cohorts: earlier versions did not check theirs for weaker knowledge."""
    older = "also" not in (published.claim or {}) if published.cohorts else False
    return {name: value for name, value in claim.items() if not (older and name == "also")}


def _changed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """The parts of an earlier claim that are no more asked for."""
    before, now = ({**UNSAID, **one} for one in (before or {}, now))
    return ", ".join(f"{name} = {value!r}" for name, value in before.items() if now.get(name) != value)


def _public(known: Published, fresh: Anonymized | None) -> Mapping[str, Any]:
    common = {"cohorts": len(known.cohorts), "n_actual": known.n_actual}
    if fresh is None:
        return {**common, "newest": None}
    lost = fresh.source.lengths - fresh.kept_per_case
    newest = {
        "cases": len(fresh.origin),
        "events": fresh.events,
        "suppressed_events": int(np.sum(lost[fresh.origin])),
        "suppressed_items": len(fresh.suppressed),
        "why": fresh.details["violations"],
    }
    return {**common, "newest": newest, **({"warnings": list(fresh.warnings)} if fresh.warnings else {})}
