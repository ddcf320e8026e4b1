"""The JSON documents of a release as types: `Manifest` (public, docs/manifest.md), `AuditDocument` (the operator's).

They are written once and passed on as they are: a key that a release does not have is absent, and older releases lack
keys that came later. Sections that mechanisms and audits add are plain mappings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from connectors.store.base import FileEntry
from models.dp.account import Rule
from stream.ledger.entries import CutPosition


class Amount(TypedDict):
    """An epsilon and a delta, or their limits."""

    epsilon: float | None
    delta: float | None


class Spent(Amount):
    """Epsilon and delta of everything that was charged, and how they were computed (`models.dp.account.Rule`).

    Programs before the account added up all charges, and stated no rule.
    """

    rule: NotRequired[Rule]


class ProcessSpending(TypedDict):
    """Spending of all publications of the process together."""

    spent: Spent
    limit: Amount


class Zcdp(TypedDict):
    """Charges that add up as rho.

    Of this release, of the publication and of the process with it; and the delta at which the epsilons of the budget
    are stated.
    """

    rho: float
    spent: float
    process: float
    conversion_delta: float


class Budget(TypedDict, total=False):
    """Spending of a release, of its publication with it, and its limit of epsilon.

    `scope`: `cases` if each case is in one release, so that the spending of releases does not add up. `accounting`:
    `zcdp` if rho is added up (`zcdp`) and epsilons are derived from it; absent: epsilons are charged.
    """

    epsilon: float
    delta: float
    spent: Spent
    limit: float | None
    process: ProcessSpending
    scope: str
    accounting: str
    zcdp: Zcdp


class Chain(TypedDict):
    """The digest of the last release's manifest, and how many numbers the process has sealed, this one included."""

    previous_manifest: str | None
    releases: int


class MechanismSection(TypedDict, total=False):
    """Kind and parameters; each kind adds its public facts about the release."""

    kind: str
    parameters: Mapping[str, Any]


class SetMember(TypedDict):
    """An earlier release of the set that an increment belongs to. `manifest`: sha256 of its manifest.json."""

    sequence: int
    manifest: str


class IncrementSection(TypedDict):
    """The set that an increment belongs to, whose files together are the log that was audited.

    `first`: the release that began the set, and held everything so far; `earlier`: the releases of the set
    before this one; `new`: cases, events and variants in the files of this one.
    """

    first: int
    earlier: list[SetMember]
    new: NotRequired[Mapping[str, int]]


class Manifest(TypedDict, total=False):
    """manifest.json. `content` is `map` if the release holds a process map and no log, and is absent otherwise.

    `cases`: "completed" if each case is in one release of the publication. `increment`: of a release whose files hold
    new cases alone; `counts` are of its whole set.
    """

    version: int
    process: str
    publication: str
    audience: str
    sequence: int
    previous: int | None
    chain: Chain
    published: str
    content: str
    cases: str
    mechanism: MechanismSection
    promise: Mapping[str, Any]
    budget: Budget | None
    time_basis: str
    reading: list[str]
    carries: list[str]
    config_digest: str
    software: Mapping[str, str]
    clock: str
    gaps_accepted: int
    approval: str
    counts: Mapping[str, int | None]
    increment: IncrementSection
    files: list[FileEntry]


class PairRow(TypedDict, total=False):
    """One n of a pair of releases: the exact counts, proportions, and the background knowledge that attains each.

    `assumption`: "violated" where n does not cover what was removed; `groups`, `witness`: name sensitive
    values; `least_n`: smallest n with a linker; `behind`, of earlier versions: the true count at that
    background knowledge.
    """

    n: int
    linker: Literal["exists", "none"]
    ka1: int | None
    ka2: int | None
    fa: int | None
    ca: int | None
    ba: int | None
    fc: float | None
    cc: float | None
    bc: float | None
    worst: dict[str, Any]
    groups: Mapping[str, Any]
    witness: Sequence[Mapping[str, Any]]
    least_n: int | None
    behind: dict[str, int]
    assumption: str


class PairSection(TypedDict, total=False):
    """The exact attacks between an earlier release and this one."""

    earlier: int
    publication: str
    n_actual: int
    results: list[PairRow]


class TrueLinkerRow(TypedDict, total=False):
    """The attacks with the real partners, least over all n; `publication` if the release is of another one."""

    earlier: int
    publication: str
    survivors: int
    fa: int
    ca: int
    ba: int
    worst: dict[str, Any]


class Measured(TypedDict, total=False):
    """Status of every measure: numbers mean something only if `status` is ok."""

    status: str
    reason: str


class AnonymitySection(Measured, total=False):
    """KA of the release alone, and F, C and B against each earlier release."""

    append_only: bool | None
    time_basis: str
    linkable_on: list[str]
    bk_on: list[str]
    bk_length: int
    n: list[int]
    method: str
    taxonomy: Mapping[str, str] | None
    n_actual: int | None
    cases_dropped: int
    linker: str
    cohorts: list[int]
    ka: int | None
    results: list[PairSection] | None
    true_linker: list[TrueLinkerRow] | None


def is_empty(document: Mapping[str, Any]) -> bool:
    """Return whether a release with noise is a log or a map that shows nothing, by its audit.

    The released labels and the number of released cases are public.
    """
    if document.get("budget") is None:
        return False
    labels = (document.get("dp") or {}).get("labels")
    if isinstance(labels, Mapping) and labels.get("may_leave") == 0:
        # A map has a noisy number of cases even if no step leaves.
        return True
    cases = (document.get("dp") or {}).get("cases")
    return isinstance(cases, Mapping) and cases.get("out") == 0


class SeriesRow(TypedDict, total=False):
    """One n of the attacks on all releases together."""

    n: int
    without_linker: list[tuple[int, int]]
    worst: Mapping[str, Any]
    assumption: str


class SeriesSection(Measured, total=False):
    """Three releases or more: `worst` is the least number left by any attack at any n."""

    worst: int | None
    releases: list[int] | None
    results: list[SeriesRow] | None


class LeakageRow(TypedDict):
    """Backward, forward and total leakage of one release."""

    release: int
    bpl: float
    fpl: float
    tpl: float


class LeakageSection(Measured, total=False):
    """Temporal leakage of the releases so far.

    `state`: where the next audit continues. `series`: where the rows before the last one are, once later releases
    repeat them. `because`, `not_said`: of releases in which each case counts once, why nothing adds up, and what that
    does not cover.
    """

    relation: str
    method: str
    releases: list[LeakageRow]
    max_tpl: float
    sum_epsilon: float
    sum_delta: float
    because: str
    not_said: str
    state: Mapping[str, Any]
    series: str


class RiskRow(TypedDict, total=False):
    """Share of cases that m known points make unique."""

    projection: str
    resolution: str
    status: str
    reason: str
    m: int
    unique_mean: float
    unique_sd: float


class TrueTimesRow(TypedDict):
    """Shares of persons who were looked for by m true events.

    See `models.risk.true_points.PersonSearch`. `times`: accuracy of the known times; None: activities alone.
    """

    times: str | None
    m: int | str
    persons: int
    right: float
    wrong: float
    several: float
    none: float


class RiskSection(Measured, total=False):
    """Uniqueness in the release (`worst` over m) and in the source.

    `basis`: whether `release` counts what somebody can know, or all times as released. `as_released`: {worst, rows}
    with artificial times counted as known.
    """

    worst: float
    basis: str
    as_released: Mapping[str, Any]
    true_times: list[TrueTimesRow]
    carries: list[str]
    adversary: str
    release: list[RiskRow]
    source: list[RiskRow]
    singletons: Mapping[str, Any]


class UtilitySection(Measured, total=False):
    """Utility of the release compared with its source."""

    data_utility: float | None
    dfg: Mapping[str, float] | None


class MinimalitySection(Measured, total=False):
    """Sets of items that leave fewer than K cases, where the rule of suppression is known."""

    below_k: int | None


class LossSection(Measured, total=False):
    """Events that the release keeps, and the frequent activities that it lost."""

    kept: float
    lost: list[str]
    warnings: list[str]


class GateSection(TypedDict, total=False):
    """Decision of the gate, with its reasons as sentences."""

    decision: Literal["passed", "warned", "repaired", "withheld"]
    reasons: list[str]


class Resources(TypedDict):
    """Form of resource names in the release; `roles`: those that it shows, if it shows roles."""

    named_by: str
    note: str
    roles: NotRequired[list[str]]


class AuditDocument(Manifest, total=False):
    """audit.json: the manifest, the position of the cut, and everything that was measured; the operator's alone.

    `counts` are of the fold here; `seconds`: by stage; `bounds`: those of the gate; `bounded`: sensitive attributes
    whose values C bounds; `doubts`: a sentence for each of these with doubtful values, or with none, or
    none among the newest cases;
    `suppressed`: items by name; `late_lost`: events so far that came to a case after its cohort was published;
    `looser`: terms that protect less than those of the release before.
    """

    cut: CutPosition
    trigger: str
    certain: bool
    anonymity: AnonymitySection | None
    series: SeriesSection
    minimality: MinimalitySection
    cohorts: list[Mapping[str, Any]]
    leakage: LeakageSection
    risk: RiskSection
    utility: UtilitySection
    loss: LossSection
    dp: Mapping[str, Any]
    suppressed: Sequence[Any]
    n_actual: int | None
    resources: Resources
    seconds: dict[str, float]
    bounds: dict[str, float]
    bounded: list[str]
    doubts: list[str]
    gate: GateSection
    looser: list[str]
    late_lost: int
    on_violation: str
