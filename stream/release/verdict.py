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

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
        sets = f"up to {self.worst} sets of items of a group fall" if self.worst else "no set of items falls"
        bound = "measured, no bound is set" if self.bound is None else f"bound {self.bound}"
        gaps = f"; {self.not_measured} of {self.groups} groups not measured" if self.not_measured else ""
        return f"for somebody who knows the rules of suppression {sets} below K ({bound}{gaps})"


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


def verdicts(
    released: Mapping[str, Sequence[AuditDocument]], withheld: Mapping[str, Sequence[Sequence[str]]]
) -> list[Verdict]:
    """One for each publication. `released`: audits of what stands, in order; `withheld`: reasons of each attempt that
    did not leave."""
    names = list(dict.fromkeys((*released, *withheld)))
    plain = {name: _audience(released[name]) for name in names if not all(map(_private, released.get(name, ())))}
    return [
        _verdict(
            name,
            released.get(name, ()),
            withheld.get(name, ()),
            [other for other, audience in plain.items() if audience == _audience(released.get(name, ()))],
        )
        for name in names
    ]


def _audience(audits: Sequence[AuditDocument]) -> str:
    """To whom the releases go; releases of earlier programs name nobody, which is everybody."""
    return str(audits[-1].get("audience", AUDIENCE)) if audits else AUDIENCE


def _private(audit: AuditDocument) -> bool:
    return audit.get("budget") is not None


def _verdict(
    name: str, audits: Sequence[AuditDocument], refused: Sequence[Sequence[str]], plain: Sequence[str]
) -> Verdict:
    if not audits:
        why = "; ".join(refused[-1]) if refused else "no window has closed"
        return Verdict(name, "WITHHELD", f"nothing has left: {why}", None, (), 0, len(refused))
    budget = audits[-1].get("budget")
    if budget is not None:
        return _of_budget(name, budget, (len(audits), len(refused)), tuple(other for other in plain if other != name))
    return _of_counts(name, audits, len(refused))


def _of_budget(name: str, budget: Budget, attempts: tuple[int, int], void_by: tuple[str, ...]) -> Verdict:
    """`attempts`: how many were released, and how many withheld."""
    each = f"each release is ({budget['epsilon']:g}, {budget['delta']:g})-differentially private"
    spent = f"{budget['spent']['epsilon']:g} spent"
    known = (None, (), *attempts)
    once = budget.get("scope") == "cases"
    if once:
        total = budget["spent"]
        each = (
            f"all releases together are ({total['epsilon']:g}, {total['delta']:g})-differentially private: each case "
            "is in one of them"
        )
    if void_by:
        others = ", ".join(void_by)
        sentence = f"{each}, but {others} shows the same cases without: it holds for who never sees {others}"
        return Verdict(name, "DP VOID", sentence, *known, void_by)
    if once:
        return Verdict(name, "SAFE", each, *known)
    if budget["limit"] is None:
        return Verdict(name, "LIMITED", f"{each}; {spent}, and no limit is set: the loss grows with every one", *known)
    return Verdict(name, "SAFE", f"{each}; {spent} of {budget['limit']:g}", *known)


def _of_counts(name: str, audits: Sequence[AuditDocument], refused: int) -> Verdict:
    smallest = _smallest(audits)
    bounds = [set(audit.get("bounds") or {}) for audit in audits]
    open_ = tuple(measure.upper() for measure in MEASURES if not all(f"min_{measure}" in asked for asked in bounds))
    rules = _rules(audits)
    known = (smallest, open_, len(audits), refused, (), rules)
    least = f"; smallest: {smallest.sentence()}" if smallest else ""
    least += f"; {rules.sentence()}" if rules else ""
    warned = [audit for audit in audits if (audit.get("gate") or {}).get("decision") == "warned"]
    unmeasured = [audit for audit in audits if (audit.get("anonymity") or {}).get("status") in (None, "not_applicable")]
    if warned:
        why = "; ".join(warned[-1]["gate"]["reasons"])
        return Verdict(name, "LIMITED", f"release {warned[-1]['sequence']} left in spite of: {why}{least}", *known)
    if unmeasured:
        anonymity = unmeasured[-1].get("anonymity") or {}
        why = anonymity.get("reason") or "the audit is switched off"
        return Verdict(name, "LIMITED", f"attacks over the releases were not measured ({why})", *known)
    if open_:
        return Verdict(name, "LIMITED", f"no bound was set on {', '.join(open_)}{least}", *known)
    asked = min(int(audits[-1]["bounds"][f"min_{measure}"]) for measure in MEASURES)
    sentence = f"{len(audits)} releases, alone and together: none or at least {asked} cases{least}"
    return Verdict(name, "SAFE", sentence, *known)


def _rules(audits: Sequence[AuditDocument]) -> Rules | None:
    """Of every cohort that the last release shows; of every release where each is a group of its own."""
    cohorts = audits[-1].get("cohorts") or []
    if ((audits[-1].get("mechanism") or {}).get("parameters") or {}).get("suppression") != "local":
        return None
    parts = [one.get("minimality_below_k") for one in cohorts]
    found = parts or [(audit.get("minimality") or {}).get("below_k") for audit in audits]
    known = [value for value in found if value is not None]
    asked = [(audit.get("bounds") or {}).get("max_minimality") for audit in audits]
    bounds = [int(bound) for bound in asked if bound is not None]
    bound = max(bounds) if len(bounds) == len(audits) else None
    return Rules(max(known, default=None), len(found), len(found) - len(known), bound)


def _smallest(audits: Sequence[AuditDocument]) -> Smallest | None:
    found = []
    for audit in audits:
        anonymity = audit.get("anonymity") or {}
        for measure in MEASURES:
            value = worst_anonymity(anonymity, measure)
            if value is not None:
                found.append(Smallest(measure, value, audit["sequence"], _against(anonymity, measure, value)))
    return min(found, key=lambda one: one.value, default=None)


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
