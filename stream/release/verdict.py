"""The verdict on a publication: what its releases are together, in one word and one sentence.

* `SAFE`: every bound of the series was asked (KA, FA, CA, BA; for dp kinds a limit of epsilon), and all releases hold;
* `LIMITED`: something was not asked, not measured or only warned about; the smallest number measured stands beside it;
* `WITHHELD`: nothing has left, and why;
* `DP VOID`: another publication of the same cases leaves without such a promise, so that the dp claim holds only for
  recipients who never see that one.

It is made from the audits alone, by the same rule for replay, list and report. SAFE says that the promise of the
manifest was kept and checked over the series, no more: what the promise leaves out stands there too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from models.dp.budget import told
from stream.release.contract import AUDIENCE
from stream.release.documents import AnonymitySection, AuditDocument, Budget
from stream.release.gate import MEASURES, Measure, worst_anonymity

Word = Literal["SAFE", "LIMITED", "WITHHELD", "DP VOID"]

SYMBOLS: Mapping[Word, str] = {"SAFE": "+", "LIMITED": "!", "WITHHELD": "x", "DP VOID": "x"}
"""One character each, so that the words differ without colour."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest count above 0: `against` is the earlier release of the attack, None for KA of a release alone."""

    measure: Measure
    value: int
    release: int
    against: int | None

    def sentence(self) -> str:
        """`BA = 4 at release 3 against release 1`."""
        beside = "" if self.against is None else f" against release {self.against}"
        return f"{self.measure.upper()} = {self.value} at release {self.release}{beside}"


@dataclass(frozen=True, slots=True)
class Rules:
    """What is left to who knows the rules of local suppression: sets of items with fewer than K possible cases, most of
    them in one of `groups` (cohorts, or releases where each is one); `not_measured`: groups of earlier programs;
    `bound`: `max_minimality` where every release was gated by it."""

    worst: int | None
    groups: int
    not_measured: int
    bound: int | None

    def sentence(self) -> str:
        """As part of the verdict's."""
        if self.worst is None:
            return "what somebody learns who knows the rules of suppression was not measured"
        sets = f"up to {self.worst} sets of items of a group have" if self.worst else "no set of items has"
        bound = "measured only" if self.bound is None else f"bound {self.bound}"
        gaps = f"; {self.not_measured} of {self.groups} groups not measured" if self.not_measured else ""
        return f"for somebody who knows the rules of suppression {sets} fewer than K possible cases ({bound}{gaps})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One publication. `not_gated`: measures of the series without a bound; `withheld`: attempts that did not leave;
    `minimality`: of releases by local suppression."""

    publication: str
    verdict: Word
    sentence: str
    smallest: Smallest | None
    not_gated: tuple[str, ...]
    released: int
    withheld: int
    void_by: tuple[str, ...] = ()
    minimality: Rules | None = None

    def line(self) -> str:
        """For people: symbol, word, publication, sentence."""
        word = f"DP VOID BY {', '.join(self.void_by)}" if self.void_by else self.verdict
        return f"[{SYMBOLS[self.verdict]}] {word}: {self.publication}: {self.sentence}"

    def as_json(self) -> Mapping[str, Any]:
        """With the same names."""
        return asdict(self)


@dataclass(slots=True)
class _RulesSeen:
    """Of each release: what is left to who knows the rules of local suppression, and the bound of its gate."""

    releases: int = 0
    measured: int = 0
    worst: int | None = None
    bounded: int = 0
    bound: int | None = None

    def add(self, audit: AuditDocument) -> None:
        self.releases += 1
        below = (audit.get("minimality") or {}).get("below_k")
        if below is not None:
            self.measured += 1
            self.worst = max(below, self.worst or 0)
        bound = (audit.get("bounds") or {}).get("max_minimality")
        if bound is not None:
            self.bounded += 1
            self.bound = max(int(bound), self.bound or 0)

    def found(self, last: AuditDocument) -> Rules | None:
        """Of every cohort that the last release shows; of every release where each is a group of its own."""
        if ((last.get("mechanism") or {}).get("parameters") or {}).get("suppression") != "local":
            return None
        bound = self.bound if self.bounded == self.releases else None
        cohorts = [one.get("minimality_below_k") for one in last.get("cohorts") or []]
        if not cohorts:
            return Rules(self.worst, self.releases, self.releases - self.measured, bound)
        known = [value for value in cohorts if value is not None]
        return Rules(max(known, default=None), len(cohorts), len(cohorts) - len(known), bound)


@dataclass(slots=True)
class Series:
    """What a verdict needs of a publication: releases that stand and attempts that were withheld, added one by one, so
    that a verdict costs the same after ten thousand releases."""

    publication: str
    released: int = 0
    withheld: int = 0
    _why: Sequence[str] = ()
    _last: AuditDocument | None = None
    _private: bool = True
    _smallest: Smallest | None = None
    _open: set[Measure] = field(default_factory=set)
    _warned: AuditDocument | None = None
    _unmeasured: AuditDocument | None = None
    _rules: _RulesSeen = field(default_factory=_RulesSeen)
    _lost: int = 0

    def refuse(self, reasons: Sequence[str]) -> None:
        """An attempt did not leave."""
        self.withheld += 1
        self._why = reasons

    def add(self, audit: AuditDocument) -> None:
        """The next release that stands; an empty audit where it is gone or damaged. That release counts as not
        measured: what it promised nobody can tell, so it ends no promise of others either."""
        self.released += 1
        if not audit:
            self._lost += 1
            return
        self._last = audit
        self._private = self._private and audit.get("budget") is not None
        if (audit.get("gate") or {}).get("decision") == "warned":
            self._warned = audit
        anonymity = audit.get("anonymity") or {}
        if anonymity.get("status") in (None, "not_applicable"):
            self._unmeasured = audit
        asked = audit.get("bounds") or {}
        self._open |= {measure for measure in MEASURES if f"min_{measure}" not in asked}
        self._rules.add(audit)
        for measure in MEASURES:
            value = worst_anonymity(anonymity, measure)
            if value is not None and (self._smallest is None or value < self._smallest.value):
                self._smallest = Smallest(measure, value, audit["sequence"], _against(anonymity, measure, value))

    @property
    def voids(self) -> bool:
        """Whether it leaves without a promise of differential privacy, and so ends that of others."""
        return not self._private

    @property
    def audience(self) -> str:
        """To whom the releases go; releases of earlier programs name nobody, which is everybody."""
        return AUDIENCE if self._last is None else str(self._last.get("audience", AUDIENCE))

    def verdict(self, plain: Sequence[str]) -> Verdict:
        """`plain`: publications for the same audience that leave without a promise of differential privacy."""
        if self._last is None and self._lost:
            return self._unread()
        if self._last is None:
            why = "; ".join(self._why) if self._why else "no window has closed"
            return Verdict(self.publication, "WITHHELD", f"nothing has left ({why})", None, (), 0, self.withheld)
        budget = self._last.get("budget")
        if budget is not None:
            others = tuple(other for other in plain if other != self.publication)
            told = _of_budget(self.publication, budget, (self.released, self.withheld), others)
            if not self._lost or told.verdict == "DP VOID":
                return told
            return replace(told, verdict="LIMITED", sentence=f"{told.sentence}; {self._missing}")
        return self._of_counts(self._last)

    @property
    def _missing(self) -> str:
        return f"{self._lost} of {self.released} audits are gone or damaged, so those releases count as not measured"

    def _unread(self) -> Verdict:
        return Verdict(self.publication, "LIMITED", self._missing, None, (), self.released, self.withheld)

    def _of_counts(self, last: AuditDocument) -> Verdict:
        name, smallest, rules = self.publication, self._smallest, self._rules.found(last)
        open_ = tuple(measure.upper() for measure in MEASURES if measure in self._open)
        known = (smallest, open_, self.released, self.withheld, (), rules)
        least = f"; smallest: {smallest.sentence()}" if smallest else ""
        least += f"; {rules.sentence()}" if rules else ""
        if self._warned is not None:
            why = "; ".join(self._warned["gate"]["reasons"])
            spite = f"release {self._warned['sequence']} left in spite of: {why}{least}"
            return Verdict(name, "LIMITED", spite, *known)
        if self._unmeasured is not None:
            why = (self._unmeasured.get("anonymity") or {}).get("reason") or "the audit is switched off"
            return Verdict(name, "LIMITED", f"attacks over the releases were not measured ({why})", *known)
        if self._lost:
            return Verdict(name, "LIMITED", f"{self._missing}{least}", *known)
        if open_:
            return Verdict(name, "LIMITED", f"no bound was set on {', '.join(open_)}{least}", *known)
        asked = min(int(last["bounds"][f"min_{measure}"]) for measure in MEASURES)
        which = "1 release" if self.released == 1 else f"{self.released} releases, alone and together"
        sentence = f"{which}: none or at least {asked} cases{least}"
        return Verdict(name, "SAFE", sentence, *known)


def verdicts(
    released: Mapping[str, Sequence[AuditDocument]], withheld: Mapping[str, Sequence[Sequence[str]]]
) -> list[Verdict]:
    """One for each publication. `released`: audits of what stands, in order; `withheld`: reasons of each attempt that
    did not leave."""
    found = {name: Series(name) for name in dict.fromkeys((*released, *withheld))}
    for name, series in found.items():
        for audit in released.get(name, ()):
            series.add(audit)
        for reasons in withheld.get(name, ()):
            series.refuse(reasons)
    return judged(found)


def judged(found: Mapping[str, Series]) -> list[Verdict]:
    """One for each publication: a promise of differential privacy ends where another one leaves without, for the same
    audience."""
    plain = {name: series.audience for name, series in found.items() if series.voids}
    return [
        series.verdict([name for name, audience in plain.items() if audience == series.audience])
        for series in found.values()
    ]


def _told(spent: float | None) -> str:
    return told(math.inf if spent is None else spent, 6)


def _of_budget(name: str, budget: Budget, attempts: tuple[int, int], void_by: tuple[str, ...]) -> Verdict:
    """`attempts`: how many were released, and how many withheld."""
    each = f"each release is ({told(budget['epsilon'], 6)}, {told(budget['delta'], 6)})-differentially private"
    spent = f"{_told(budget['spent']['epsilon'])} spent"
    known = (None, (), *attempts)
    once = budget.get("scope") == "cases"
    if once:
        total = budget["spent"]
        each = (
            f"all releases together are ({_told(total['epsilon'])}, {_told(total['delta'])})-differentially private: "
            "each case is in one of them"
        )
    if void_by:
        others = ", ".join(void_by)
        sentence = f"{each}, but {others} shows the same cases without: it holds for who never sees {others}"
        return Verdict(name, "DP VOID", sentence, *known, void_by)
    if once:
        return Verdict(name, "SAFE", each, *known)
    if budget["limit"] is None:
        return Verdict(name, "LIMITED", f"{each}; {spent}, and no limit is set: the loss grows with every one", *known)
    return Verdict(name, "SAFE", f"{each}; {spent} of {told(budget['limit'], 6)}", *known)


def _against(anonymity: AnonymitySection, measure: Measure, value: int) -> int | None:
    """The earlier release that gives the value."""
    if measure == "ka":
        return None
    for true in anonymity.get("true_linker") or []:
        if true.get(measure) == value:
            return int(true["earlier"])
    for pair in anonymity.get("results") or []:
        if any(row.get(measure) == value for row in pair["results"]):
            return int(pair["earlier"])
    return None
