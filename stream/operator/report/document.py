"""The data of a report as types: what `veilstream report --json` prints, and the page is drawn from.

Sections of audits are here as the audits left them (`stream.release.documents`), with labels for activities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from models.dp.account import Rule
from stream.operator.history import HistoryRow
from stream.release.documents import AnonymitySection, Manifest, MechanismSection, PairSection, Spent


class LabelledRow(HistoryRow):
    """An attempt with a short name: the release number, or w1, w2, ... for cuts that released nothing."""

    label: str


class AttemptRow(LabelledRow):
    """An attempt with the counts of its cut.

    Attributes
    ----------
    warned
        Whether it left although a bound did not hold.
    repaired
        Whether events were removed until the bounds held. `reasons` are then those before the removal.
    """

    new_cases: int | None
    new_events: int | None
    suppressed_cases: int | None
    suppressed_events: int | None
    pending: int | None
    published: str | None
    warned: bool
    repaired: bool


class AnonymityRow(AnonymitySection, total=False):
    """The attacks on one release: the least of each over all pairs and n (`worst`), and every pair."""

    label: str
    worst: Mapping[str, int | None]
    pairs: Sequence[PairSection]


class ChargeRow(TypedDict):
    """One charge of the ledger, what it costs alone, and the outcome of its attempt."""

    cut: str
    epsilon: float
    delta: float
    became: str


class SpendingPoint(TypedDict):
    """Epsilon of the first so many charges together, by the account."""

    charges: int
    epsilon: float


class BudgetSection(TypedDict):
    """Every charge in order; the course of the spending, at some of many charges; spending by now, and limit."""

    charges: list[ChargeRow]
    course: list[SpendingPoint]
    spent: Spent | None
    limit: float | None


class Graph(TypedDict):
    """A directly-follows graph: its heaviest nodes and edges, and how many of each are left out."""

    title: str
    nodes: list[Mapping[str, Any]]
    edges: list[Mapping[str, Any]]
    left_out: Mapping[str, int]


class WorstRow(TypedDict):
    """The worst number of one attack.

    Attributes
    ----------
    release, against
        Labels of the attacked release, and of the one that it was compared with.
    knowledge
        The background knowledge that attains the number.
    """

    measure: str
    value: int
    bound: float | None
    release: str
    against: str | None
    knowledge: list[str]
    sentence: str


class SeriesMinimum(TypedDict):
    """The least number of cases that attacks on several releases leave.

    Attributes
    ----------
    n
        The number holds if at most so many events were removed from a case.
    left
        The number.
    violated
        Whether more events were removed from some case, so that the number bounds nothing.
    """

    releases: list[int]
    n: int
    left: int
    violated: bool


class SafeAnswer(TypedDict):
    """The answer to “Is it safe?”.

    Attributes
    ----------
    rules
        Sentence on the conclusions of somebody who knows the rules of suppression.
    series, series_bound
        Least numbers that attacks on several releases leave, for each n, and the bound of the gate on them.
    """

    verdict: str
    meaning: str
    sentence: str
    rules: str | None
    worst: list[WorstRow]
    series: list[SeriesMinimum]
    series_bound: float | None


class BudgetAnswer(TypedDict):
    """The rest of epsilon under the tighter of two limits, of the publication and of the process.

    Attributes
    ----------
    last_paid
        Moment of the last release that the rest pays for, at the pace so far.
    rule
        Rule by which `spent` was computed.
    """

    spent: float
    limit: float | None
    each: float
    left: float | None
    releases_left: int | None
    last_paid: str | None
    rule: Rule


class KeptRow(TypedDict):
    """Events of one activity in the source and in the release."""

    activity: str
    events: int
    released: int
    kept: float


class CostAnswer(TypedDict):
    """Events and activities that the releases keep.

    Attributes
    ----------
    label, kept
        The last release, and the share of the seen events that it keeps.
    frequent, lost
        Number of frequent activities, and those of them that the release lacks.
    by_release
        Share of kept events of each release.
    """

    label: str
    kept: float | None
    activities: list[KeptRow]
    frequent: int | None
    lost: list[str]
    variants_in: int | None
    variants_kept: int | None
    cases_as_they_were: float | None
    by_release: list[tuple[str, float | None]]


class HappenedRow(TypedDict):
    """One line of the ledger for the operator. It has the time of its cut, if it is about one."""

    what: str
    publication: str
    label: str
    time: str | None
    cases: int | None
    why: str


class PublicationReport(TypedDict):
    """One publication: its last release's promise, every attempt, every audit, the ledger's charges, its graphs."""

    name: str
    released: int
    process: str | None
    mechanism: MechanismSection | None
    promise: Mapping[str, Any] | None
    carries: list[str] | None
    bounds: Mapping[str, float]
    attempts: list[AttemptRow]
    anonymity: list[AnonymityRow]
    series: Mapping[str, Any]
    leakage: Mapping[str, Any]
    budget: BudgetSection | None
    risk: list[Mapping[str, Any]]
    utility: list[Mapping[str, Any]]
    graphs: list[Graph]
    graphs_of: str
    manifest: Manifest | None
    attacks: str
    safe: SafeAnswer
    left: BudgetAnswer | None
    cost: CostAnswer | None


class Report(TypedDict):
    """A whole output folder."""

    folder: str
    process: str | None
    values_shown: bool
    comparison: list[Mapping[str, Any]]
    verdicts: list[Mapping[str, Any]]
    happened: list[HappenedRow]
    publications: list[PublicationReport]
