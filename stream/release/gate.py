"""The gate decides which releases leave. Each function returns the reasons to refuse; none is a pass.

In the order of a release: `refuse_impossible` checks the policy when the configuration is read; `before_noise` and
`over_process_limits` check the budget before a draw is charged; `after_audit` compares the measures of the audit with
the bounds. `releases_left` forecasts the checks of the budget.

For KA, FA, CA and BA the strongest attack counts: the least value over all n, all earlier releases, and both the exact
search and the true-linker counts (semantics of correspondence attacks, "What links, and who is real").
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, ConfigDict, Field

from models.dp.account import loss
from models.dp.budget import Charge
from models.dp.spending import NOTHING, ReleaseCharge, Spending
from models.dp.zcdp import PURE, Accounting
from models.errors import InputError
from stream.fold.window import MOST
from stream.release.contract import Mechanism, Reads
from stream.release.documents import (
    AnonymitySection,
    AuditDocument,
    MinimalitySection,
    PairRow,
    SeriesRow,
    SeriesSection,
)
from stream.release.reason import Code, Reason
from stream.values.exact import Exact

Measure = Literal["ka", "fa", "ca", "ba"]
"""Counts of the correspondence attacks."""

MEASURES: tuple[Measure, ...] = get_args(Measure)

BOUNDS: Mapping[str, Reads] = {
    "min_ka": "raw",
    "min_fa": "raw",
    "min_ca": "raw",
    "min_ba": "raw",
    "min_series": "raw",
    "min_utility": "raw",
    "max_minimality": "raw",
    "max_uniqueness": "release",
    "max_tpl": "ledger",
    "max_epsilon": "ledger",
    "max_delta": "ledger",
}
"""Data that the measure behind each bound reads. KA, FA, CA, BA and series follow cases by their source pseudonyms, and
utility compares with the source log, so they read raw data. Uniqueness is computed from the release alone
(`Risk.worst`)."""


class GatePolicy(BaseModel):
    """Bounds of a publication (`gate = {...}`). A bound that is absent is not checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_ka: int | None = Field(default=None, ge=1, le=MOST)
    """Least KA: the cases of a release that match the knowledge of an adversary. Set it when recipients see one
    release alone and must not single a case out in it."""
    min_fa: int | None = Field(default=None, ge=1, le=MOST)
    """Least FA: the cases of an earlier release that remain after the F-attack. Set it when recipients keep earlier
    releases and compare them with a new one."""
    min_ca: int | None = Field(default=None, ge=1, le=MOST)
    """Least CA: the cases of this release that remain after the C-attack. Set it when recipients who keep earlier
    releases may know that a case was in one of them."""
    min_ba: int | None = Field(default=None, ge=1, le=MOST)
    """Least BA: the new cases of this release that remain after the B-attack. Set it when somebody may know that a
    case began only after an earlier release."""
    max_tpl: Exact | None = Field(default=None, gt=0)
    """dp: largest temporal privacy leakage, under replacement (2 epsilon a release at least). Set it when the states
    of a case depend on each other, so that a series reveals more of one state than each release."""
    max_epsilon: Exact | None = Field(default=None, gt=0)
    """dp: largest epsilon of all releases of the publication, composed exactly (`cases = "completed"`: largest charge).
    Set it when a dp publication must end before its privacy loss is too large."""
    max_delta: Exact | None = Field(default=None, ge=0, lt=1)
    """dp: largest delta of all releases of the publication. Composition needs the delta of one more release; without
    room for it, epsilons add up. Set it when the chance that the dp guarantee fails outright must stay small over all
    releases."""
    max_uniqueness: float | None = Field(default=None, ge=0, le=1)
    """Largest share of unique cases of the release (needs audit.risk). Set it when an officer bounds the
    re-identification risk by uniqueness."""
    max_minimality: int | None = Field(default=None, ge=0, le=MOST)
    """Most sets of items that leave fewer than K cases to somebody who knows the rules of `local`. Set it when
    recipients can read the source of this program: 0 for a promise, more for fewer suppressed events."""
    min_utility: float | None = Field(default=None, ge=0, le=1)
    """Least data utility (needs audit.utility). Set it when a poor release misleads its readers and none is better."""
    min_series: int | None = Field(default=None, ge=1, le=MOST)
    """Least cases that attacks on a series leave (needs audit.series). Set it when recipients keep three or more
    releases and combine them."""
    on_violation: Literal["withhold", "warn", "repair"] = "withhold"
    """Consequence of a broken bound: no release (`withhold`), a warning (`warn`), or fewer events until the bound holds
    (`repair`). Set it when releases must come on time (`repair`), or when bounds are only tried out (`warn`)."""
    charge_withheld: bool = False
    """dp: every attempt is paid for, whether it leaves or not. Set it when a bound reads a dp release, such as
    `min_utility`: withholding then depends on the data."""
    public_cut: bool = False
    """dp: allows windows that read the data; the promise then states it. Set it when the moments of dp releases are no
    secret, for example because the number of new cases is published anyway."""

    @property
    def anonymity_bounds(self) -> dict[Measure, int]:
        """{"ka": .., "fa": ..} for the bounds that are set."""
        bounds = zip(MEASURES, (self.min_ka, self.min_fa, self.min_ca, self.min_ba), strict=True)
        return {name: bound for name, bound in bounds if bound is not None}

    @property
    def bounds(self) -> dict[str, float]:
        """Every bound that is set, by its key in the configuration, as a number for people and plots."""
        names = [name for name in type(self).model_fields if name.startswith(("min_", "max_"))]
        values = {name: getattr(self, name) for name in names}
        return {name: float(bound) for name, bound in values.items() if bound is not None}

    def reading(self, source: Reads) -> list[str]:
        """Return the keys of the bounds that are set and whose measure reads `source`.

        A bound that is not listed in `BOUNDS` counts as one that reads raw data.
        """
        return [name for name in self.bounds if BOUNDS.get(name, "raw") == source]


MOST_LEFT = 1 << 14
"""Largest forecast of further releases: 45 years of daily ones. A larger number helps nobody, and compositions of so
many releases take seconds."""


def refuse_impossible(policy: GatePolicy, mechanism: Mechanism, place: str) -> None:
    """Refuse a policy with a bound that does not apply to its mechanism: a configuration error.

    Parameters
    ----------
    policy
        The bounds of the gate.
    mechanism
        The mechanism of the publication.
    place
        Place in the configuration, for the message.

    Raises
    ------
    InputError
        Names the bound, and its place in the configuration.
    """
    spends = mechanism.charge() != Charge()
    if not mechanism.reads_data_in_gate:
        _refuse_bounds_on_data(policy, mechanism, place, spends=spends)
    if policy.max_minimality is not None and getattr(mechanism, "suppression", None) != "local":
        raise InputError(f'{place}: max_minimality needs suppression = "local": other releases have no such rules')
    if policy.on_violation == "repair" and not mechanism.repairable:
        raise InputError(f'{place}: on_violation = "repair" needs a mechanism that can suppress further: tlkc, not rel')
    if policy.max_tpl is not None and mechanism.charge().rho:
        raise InputError(
            f"{place}: gate.max_tpl bounds pure epsilon, and noise of rho has none; use max_epsilon and max_delta"
        )
    bounds_on_spending = (policy.max_tpl, policy.max_epsilon, policy.max_delta)
    if not spends and any(bound is not None for bound in bounds_on_spending):
        raise InputError(
            f"{place}: max_tpl, max_epsilon and max_delta need a mechanism that spends epsilon, not {mechanism.kind}"
        )


def _refuse_bounds_on_data(policy: GatePolicy, mechanism: Mechanism, place: str, *, spends: bool) -> None:
    """Refuse bounds whose decisions would reveal data that no charge pays for."""
    if policy.anonymity_bounds or policy.min_series is not None:
        raise InputError(
            f"{place}: bounds on KA, FA, CA, BA and series do not apply to {mechanism.kind}, and read data; remove them"
        )
    bounds_on_source = policy.reading("raw")
    if bounds_on_source:
        raise InputError(
            f"{place}: gate.{bounds_on_source[0]} reads raw data, so whether a {mechanism.kind} release comes would "
            "reveal data, and no charge pays for that; remove it (audit.json has the figure)"
        )
    bounds_on_release = policy.reading("release")
    if bounds_on_release and not (policy.charge_withheld and spends):
        remedy = ": it spends no epsilon with which a withheld attempt could be paid for"
        if spends:
            remedy = ", or set gate.charge_withheld = true (every attempt is then paid for)"
        raise InputError(
            f"{place}: gate.{bounds_on_release[0]} reads the release, and its decision is an output of a "
            f"{mechanism.kind} mechanism; remove it{remedy}"
        )


class BudgetLimits(NamedTuple):
    """The most epsilon and delta that a publication, or a whole process, may spend; None if not set."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None

    def exceeded(self, spent: Charge, reached: Charge) -> Iterator[ExceededLimit]:
        """Yield the limits that a draw exceeds: the loss is `spent` without it, `reached` with it."""
        if self.epsilon is not None and reached.epsilon > self.epsilon:
            yield ExceededLimit("epsilon", self.epsilon, spent.epsilon, reached.epsilon)
        if self.delta is not None and reached.delta > self.delta:
            yield ExceededLimit("delta", self.delta, spent.delta, reached.delta)


class ExceededLimit(NamedTuple):
    """A limit of epsilon or delta, and what is spent of it without and with a draw."""

    name: Literal["epsilon", "delta"]
    limit: Fraction
    spent: Fraction
    reached: Fraction

    @property
    def text(self) -> str:
        """The amounts, for the reason of a refusal."""
        spent, reached, limit = float(self.spent), float(self.reached), float(self.limit)
        return f"spent {spent:g}, with this release {reached:g}, limit {limit:g}"


def before_noise(
    policy: GatePolicy,
    before: Spending,
    after: Spending,
    leakage: Sequence[Reason] = (),
    accounting: Accounting = PURE,
) -> list[Reason]:
    """Return reasons to refuse before any noise is drawn. They read the ledger only.

    Parameters
    ----------
    policy
        Bounds of the publication.
    before, after
        Everything that was charged to the publication, without and with the draw.
    leakage
        Reasons of audits that read the ledger.
    accounting
        How the charges of the ledger are added up.
    """
    spent = loss(accounting, before, policy.max_delta).charge
    reached = loss(accounting, after, policy.max_delta).charge
    limits = BudgetLimits(policy.max_epsilon, policy.max_delta)
    reasons = list(leakage)
    for over in limits.exceeded(spent, reached):
        text = f"{over.name}: {over.text}"
        reasons.append(Reason(over.name, text, over.limit, over.reached))
    # TPL is defined by sums of epsilon, and the audit states sums. They are used even if the audit states a chain: no
    # TPL is above them, and they read the ledger alone, whereas the estimate of a chain reads data. Under replacement a
    # case changes two counts, so each epsilon counts twice.
    leaked = 2 * after.summed.epsilon
    if policy.max_tpl is not None and not leakage and leaked > policy.max_tpl:
        text = f"tpl: composition gives {float(leaked):g}, bound {float(policy.max_tpl):g}"
        reasons.append(Reason("tpl", text, policy.max_tpl, leaked))
    return reasons


def over_process_limits(
    limits: BudgetLimits, before: Spending, after: Spending, accounting: Accounting = PURE
) -> list[Reason]:
    """Return reasons to refuse a draw by the limits that all publications of the process share.

    Parameters
    ----------
    limits
        The limits of the process.
    before, after
        Everything that was charged to all publications, without and with the draw.
    accounting
        How the charges of the ledger are added up.
    """
    spent = loss(accounting, before, limits.delta).charge
    reached = loss(accounting, after, limits.delta).charge
    reasons = []
    for over in limits.exceeded(spent, reached):
        # A limit that other publications have passed is no reason against a draw that adds nothing to it.
        if over.reached != over.spent:
            text = f"process budget {over.name}: {over.text}"
            reasons.append(Reason("process_budget", text, over.limit, over.reached))
    return reasons


def releases_left(
    policy: GatePolicy,
    release: ReleaseCharge,
    spending: Spending,
    elsewhere: Spending,
    limits: BudgetLimits,
    accounting: Accounting = PURE,
) -> int | None:
    """Return how many further releases the bounds can pay for, by the rules that refuse a draw.

    A leakage chain can refuse earlier than in this forecast.

    Parameters
    ----------
    policy, release
        Bounds of the publication, and the charge of each further release.
    spending, elsewhere
        Everything that was charged to the publication, and to the other publications of the process.
    limits
        Limits of the process.
    accounting
        How the charges of the ledger are added up.

    Returns
    -------
    int or None
        At most `MOST_LEFT`. None if nothing is charged or limited, or if the first charge pays for all releases.
    """
    if release.charge == NOTHING:
        return None
    process_before = elsewhere.together(spending)

    def is_refused(number: int) -> bool:
        after = spending.with_release(release, number)
        process_after = elsewhere.together(after)
        return bool(
            before_noise(policy, spending, after, accounting=accounting)
            or over_process_limits(limits, process_before, process_after, accounting)
        )

    has_epsilon_limit = any(limit is not None for limit in (policy.max_epsilon, policy.max_tpl, limits.epsilon))
    has_delta_limit = policy.max_delta is not None or limits.delta is not None
    is_limited = has_epsilon_limit or (has_delta_limit and release.charge.delta > 0)
    if is_refused(1):
        return 0
    if release.is_disjoint or not is_limited:
        return None
    # Doubled until refused, then halved: compositions of few releases take less time than those of many.
    accepted = 1
    while not is_refused(2 * accepted):
        accepted *= 2
        if accepted == MOST_LEFT:
            return MOST_LEFT
    return accepted + bisect_left(range(accepted + 1, 2 * accepted), True, key=is_refused)


def after_audit(policy: GatePolicy, audit: AuditDocument) -> list[Reason]:
    """Return reasons to refuse, from the results of the audits."""
    uniqueness = (audit.get("risk") or {}).get("worst")
    data_utility = (audit.get("utility") or {}).get("data_utility")
    return [
        *_anonymity(policy, audit.get("anonymity") or {}),
        *_ceiling("uniqueness", policy.max_uniqueness, uniqueness),
        *_minimality(policy, audit.get("minimality") or {}),
        *_floor("utility", policy.min_utility, data_utility),
        *_series(policy, audit.get("series") or {}),
    ]


def _anonymity(policy: GatePolicy, anonymity: AnonymitySection) -> Iterator[Reason]:
    """Check the bounds on KA, FA, CA and BA, and that the attacks they count could be carried out."""
    if not policy.anonymity_bounds:
        return
    if anonymity.get("status") == "not_applicable":
        raise InputError(f"gate: anonymity does not apply to this mechanism ({anonymity.get('reason', '')})")
    if not anonymity:
        yield Reason("premise", "anonymity: not measured, so its bounds are not shown")
    for name, bound in policy.anonymity_bounds.items():
        worst = worst_anonymity(anonymity, name)
        if worst is not None and worst < bound:
            yield Reason(name, f"{name}: {worst} is below {bound}", bound, worst)
    if anonymity.get("status") != "ok":
        return
    # FA, CA and BA suppose that a linker joins both releases. Without one they are not small: they
    # do not exist.
    for pair in anonymity.get("results") or []:
        unlinked_rows = [row for row in pair["results"] if row.get("linker") == "none"]
        if any(_counts_for_gate(row) for row in unlinked_rows):
            text = f"no linker to release {pair.get('earlier')}: the audit's premise does not hold"
            yield Reason("premise", text)


def _counts_for_gate(row: PairRow | SeriesRow, name: str = "") -> bool:
    """Return whether a row of an attack can refuse a release.

    A row with n below n_actual assumes fewer removed events than there were (`assumption` is violated): it
    is reported, and refuses no release. Audits of earlier versions counted cohorts over all linkers, and
    state how many real cases are behind a minimum (`behind`): one without a case harms nobody.
    """
    if row.get("assumption") == "violated":
        return False
    true_counts = cast(PairRow, row).get("behind") or {}
    return true_counts.get(name) != 0


def worst_anonymity(anonymity: AnonymitySection, name: Measure) -> int | None:
    """Return the least KA, FA, CA or BA over all earlier releases, all n, and both ways of counting.

    An exact value counts only if the true count is at least 1: if it is 0, the attack has no victim.

    Parameters
    ----------
    anonymity
        {"ka": least KA of the release alone, "results": [{"earlier", "results": [{"n", "fa", ...}]}],
        "true_linker": [{"earlier", "fa", "ca", "ba"}]}; rows about a release of another publication name it.
    name
        The measure.

    Returns
    -------
    int or None
        None if nothing was measured: the first release has no FA, CA, BA.
    """
    if name == "ka":
        return _least([anonymity.get("ka")])
    # The counts with the real partners of each case, by the earlier release.
    true_counts: dict[tuple[str | None, int], int | None] = {}
    for pair in anonymity.get("true_linker") or []:
        true_counts[pair.get("publication"), pair["earlier"]] = pair.get(name)
    values: list[int | None] = [count for count in true_counts.values() if count]

    # The exact values of the pairs that have a victim, for every n that counts.
    for pair_section in anonymity.get("results") or []:
        earlier_release = (pair_section.get("publication"), pair_section["earlier"])
        if true_counts.get(earlier_release) == 0:
            continue
        linked_rows = [row for row in pair_section["results"] if row.get("linker") != "none"]
        values += [row.get(name) for row in linked_rows if _counts_for_gate(row, name)]
    return _least(values)


def least_of_series(audits: Iterable[AuditDocument], name: Measure) -> int | None:
    """Return the least KA, FA, CA or BA of the releases with those audits; None if not measured."""
    return _least([worst_anonymity(audit.get("anonymity") or {}, name) for audit in audits])


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _minimality(policy: GatePolicy, minimality: MinimalitySection) -> Iterator[Reason]:
    """Check the bound on sets of items that leave fewer than K cases.

    The audit counts the newest cohort only: the gate judged the others when they were new.
    """
    bound, below = policy.max_minimality, minimality.get("below_k")
    if bound is None:
        return
    if below is None:
        yield Reason("mechanism", f"minimality: not measured, so the bound {bound} is not shown", bound)
    elif below > bound:
        text = f"minimality: {below} sets of items leave fewer than K cases, limit {bound}"
        yield Reason("mechanism", text, bound, below)


def _series(policy: GatePolicy, series: SeriesSection) -> Iterator[Reason]:
    """Check the bound on attacks that combine several releases.

    The bound holds before the third release, since there is no series yet. It does not hold if the series was not
    measured, or if no linker joins two of its releases: the numbers then leave these two out.
    """
    if policy.min_series is None:
        return
    if series.get("status") != "ok":
        why = series.get("reason") or "no audit"
        text = f"series: not measured ({why}), so the bound {policy.min_series} is not shown"
        yield Reason("series", text, policy.min_series)
    elif series.get("worst") is not None:
        yield from _floor("series", policy.min_series, series["worst"])
    numbers = series.get("releases") or []
    for row in series.get("results") or []:
        if row["without_linker"] and _counts_for_gate(row):
            # Pairs are given by the places of their releases in the series, from 1; people know
            # release numbers.
            first_place, second_place = row["without_linker"][0]
            first, second = numbers[first_place - 1], numbers[second_place - 1]
            text = f"series: no linker joins releases {first} and {second} at n = {row['n']}: its premise does not hold"
            yield Reason("series", text, policy.min_series)


def _ceiling(name: Code, bound: float | None, value: float | None) -> Iterator[Reason]:
    if bound is None:
        return
    if value is None:
        yield _not_measured(name, bound)
    elif value > bound:
        yield Reason(name, f"{name}: {value:.4g} is above {bound:g}", bound, value)


def _floor(name: Code, bound: float | None, value: float | None) -> Iterator[Reason]:
    if bound is None:
        return
    if value is None:
        yield _not_measured(name, bound)
    elif value < bound:
        yield Reason(name, f"{name}: {value:.4g} is below {bound:g}", bound, value)


def _not_measured(name: Code, bound: float) -> Reason:
    return Reason(name, f"{name}: not measured, so the bound {bound:g} is not shown", bound)
