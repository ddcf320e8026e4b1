"""The data of a report, as JSON can hold it.

Everything is read from an output folder as it was written, except for two things that are computed here: the
directly-follows graphs, and what the charges of the ledger cost together by now.

A measure that does not apply to a mechanism keeps its `status` and `reason`; it never becomes a number.

`collect`, in the last part of the file, makes the whole report. Before it come the parts that it puts
together:

* `ItemNames`: labels of activities and of background knowledge, or numbers in their place.
* graphs: `flow_of`, `graph_for_page`.
* answers: `safe_answer` (is it safe?), `budget_answer` (what is left, and until when?), `cost_answer` (what
  did it cost the analysts?), `happened` (what happened?).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar, cast

import msgspec
import numpy as np

from connectors.store.base import MANIFEST, local_release
from models.errors import InputError
from models.eventlog import EventLog
from models.utility.graphs import directly_follows
from stream.ledger import release_record
from stream.ledger.entries import (
    ApprovalEntry,
    ErasedEntry,
    NoteEntry,
    SealEntry,
    WithheldEntry,
)
from stream.ledger.layout import MAP_COUNTS, VARIANTS, OperatorLayout
from stream.ledger.view import Account, HistoryEntry, LedgerView
from stream.operator.history import (
    HistoryRow,
    attacks_sentence,
    audit,
    current_ledger_view,
    read_from,
    read_json,
)
from stream.operator.report.document import (
    AnonymityRow,
    AttemptRow,
    BudgetAnswer,
    BudgetSection,
    ChargeRow,
    CostAnswer,
    Graph,
    HappenedRow,
    KeptRow,
    LabelledRow,
    PublicationReport,
    Report,
    SafeAnswer,
    SeriesMinimum,
    WorstRow,
)
from stream.operator.spending import affordable_releases, budget_by_now, course
from stream.release.documents import (
    AnonymitySection,
    AuditDocument,
    Budget,
    LossSection,
    Manifest,
    PairRow,
    PairSection,
    SeriesRow,
    TrueLinkerRow,
)
from stream.release.gate import MEASURES, Measure, worst_anonymity
from stream.release.verdict import Verdict, Word
from stream.values.amounts import number_of

# Labels of items.


class ItemNames:
    """Labels of the items of one publication: the items themselves, or numbers if a page must not show them.

    Numbers follow the sorted names of released values. They mean the same all over one report, and nothing
    outside of it.

    Attributes
    ----------
    shown
        Whether a label is the item itself.
    """

    def __init__(self, activities: Iterable[str], *, shown: bool) -> None:
        self.shown = shown
        self._numbers: dict[str, int] = {}
        for activity in sorted(set(activities)):
            self.number(activity)

    def number(self, item: Any) -> int:
        """Return the number of an item, from 1; an item that was not seen before gets the next one.

        Parameters
        ----------
        item
            An item of background knowledge.
        """
        key = item if isinstance(item, str) else msgspec.json.encode(item).decode()
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def label(self, item: Any) -> str:
        """Return the item as text where values are shown, else `#` and its number.

        Parameters
        ----------
        item
            An item of background knowledge: a text, or a list of its parts.
        """
        if not self.shown:
            return f"#{self.number(item)}"
        if isinstance(item, list | tuple):
            return " ".join(str(part) for part in item)
        return str(item)

    def labels(self, items: Sequence[Any] | None) -> list[str]:
        """Return background knowledge as labels, in its order.

        Parameters
        ----------
        items
            Background knowledge; None if there is none.
        """
        return [self.label(item) for item in items or []]


# Directly-follows graphs of releases, as the report draws them: the heaviest edges, numbered activities.

MOST_NODES, MOST_EDGES = 24, 36
"""Most nodes and edges of a graph: a reader cannot follow more. The page states how many are left out."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Activities with their events, and how often one directly follows another."""

    nodes: Counter[str]
    edges: Counter[tuple[str, str]]


def flow_of(log: EventLog) -> Flow:
    """Return the directly-follows counts of a log; events without an activity are not counted."""
    edges: Counter[tuple[str, str]] = Counter()
    for (activity, next_activity), occurrences in directly_follows(log).count.items():
        edges[str(activity), str(next_activity)] = occurrences
    codes, names = log.activity.codes, log.activity.values
    seen, counts = np.unique(codes[codes >= 0], return_counts=True)
    nodes = {str(names[code]): count for code, count in zip(seen.tolist(), counts.tolist(), strict=True)}
    return Flow(Counter(nodes), edges)


def flow_of_map(counts: Mapping[str, Any]) -> Flow:
    """Return the counts of a released map, without the start and the end of cases.

    Parameters
    ----------
    counts
        Document of the map: `activities` and `steps` with their counts.
    """
    edges: Counter[tuple[str, str]] = Counter()
    for row in counts["steps"]:
        if row["count"] and row["from"] is not None and row["to"] is not None:
            edges[row["from"], row["to"]] = row["count"]
    nodes = {row["name"]: row["count"] for row in counts["activities"] if row["count"]}
    return Flow(Counter(nodes), edges)


def released_log(folder: Path) -> EventLog | None:
    """Return the content of a release, from the operator's variants.parquet; None if it is not kept.

    Parameters
    ----------
    folder
        The operator's folder of the release.
    """
    path = folder / VARIANTS
    return release_record.read(path).log if path.is_file() else None


def graph_for_page(flow: Flow, names: ItemNames, title: str, other: Flow | None) -> Graph:
    """Return the graph for the page: its heaviest nodes and edges, and how many of each it leaves out.

    An edge is `shared` if the other graph has it too (null without another graph).

    Parameters
    ----------
    flow
        Nodes and edges of the log.
    names
        Labels of the items.
    title
        Title of the graph.
    other
        Nodes and edges of the other log; None if there is none.
    """
    kept = dict(flow.nodes.most_common(MOST_NODES))
    edges: list[Mapping[str, Any]] = []
    for (before, after), occurrences in _drawn_edges(flow, set(kept)):
        is_shared = None if other is None else (before, after) in other.edges
        ends = {"from": names.label(before), "to": names.label(after)}
        edges.append({**ends, "count": occurrences, "shared": is_shared})
    return {
        "title": title,
        "nodes": [{"name": names.label(name), "count": count} for name, count in kept.items()],
        "edges": edges,
        "left_out": {"nodes": len(flow.nodes) - len(kept), "edges": len(flow.edges) - len(edges)},
    }


def _drawn_edges(flow: Flow, kept: set[str]) -> list[tuple[tuple[str, str], int]]:
    """Return the edges to draw between the kept activities, heaviest first.

    The heaviest edge into each activity is always drawn, so that no activity is isolated.
    """
    inside = [(edge, count) for edge, count in flow.edges.most_common() if set(edge) <= kept]
    heaviest_into: dict[str, tuple[str, str]] = {}
    for (before, after), _ in inside:
        if before != after:
            heaviest_into.setdefault(after, (before, after))
    drawn = set(heaviest_into.values())

    other_edges = [edge for edge, _ in inside if edge not in drawn]
    room = max(0, MOST_EDGES - len(drawn))
    drawn.update(other_edges[:room])
    return [(edge, count) for edge, count in inside if edge in drawn]


# Answers to the questions that a report begins with, each from audits, ledger and verdict; nothing is
# measured again.
#
# Is it safe? What is left of the budget, and until when? What did it cost the analysts? What happened?

MEANING: Mapping[Word, str] = {
    "SAFE": "Bounds on all four attacks were set. Each release alone and all pairs that were compared hold them.",
    "LIMITED": "Something was not bounded, not measured, or only warned about, or holds only against somebody who does "
    "not know the public rules. Read what it is before you rely on it.",
    "WAITING": "Nothing of this publication is released yet: a person decides, or too few cases have come.",
    "WITHHELD": "Nothing of this publication is released: the mechanism, the gate or a person refused it.",
    "NOTHING RELEASED": "Nothing of this publication is released, and nothing waits to be.",
    "DP VOID": "The noise protects only people who never see another publication of the same cases.",
}
SAFE_BY_NOISE = "A limit of epsilon was set, and all releases together stay within it. No record is a person."
SAFE_ONCE = "Each case is in one release, and every release keeps its epsilon. No record is a person."
"""SAFE by noise: there are no groups, so there is no bound on the attacks that count them."""
SERIES_ATTACKS = ("fa", "ca", "ba", "bf", "bc")
"""Columns of a series with numbers of cases left (`models.attacks.series.ATTACKS`)."""
ADVERSARY: Mapping[Measure, str] = {
    "ka": "holds release {release} alone",
    "fa": "holds releases {against} and {release} and looks in release {against} for a person who is in both",
    "ca": "holds releases {against} and {release} and looks in release {release} for a person who is in both",
    "ba": "holds releases {against} and {release} and looks for a person who is new in release {release}",
}
"""correspondence-attacks-2021: the forward, cross and backward attack differ in where the person is looked for."""


def safe_answer(
    verdict: Verdict,
    rows: Sequence[AnonymityRow],
    bounds: Mapping[str, float],
    series: Any,
    budget: Budget | None = None,
) -> SafeAnswer:
    """Return the verdict with the worst number of each attack: at which release, against which, and by whom.

    Parameters
    ----------
    verdict
        The verdict on the publication.
    rows
        Rows of the table of anonymity.
    bounds
        Bounds of the last release, by their names in the configuration.
    series
        The part of the last audit on the series.
    budget
        Budget of the last release, if noise protects it.
    """
    releases = [row for row in rows if row["label"].isdigit()]  # withheld attempts are labelled w1, w2, ...
    worst_by_measure = [_worst(releases, measure, bounds) for measure in MEASURES]
    worst = [row for row in worst_by_measure if row is not None]
    return {
        "verdict": verdict.verdict,
        "meaning": _meaning(verdict.verdict, budget),
        "sentence": verdict.sentence,
        "rules": verdict.rules,
        "worst": worst,
        "series": list(series_minima(series)),
        "series_bound": bounds.get("min_series"),
    }


def series_minima(series: Any) -> Iterator[SeriesMinimum]:
    """Yield the least number that attacks on several releases leave, for each n of the audit of the series.

    Parameters
    ----------
    series
        The audit of the series.
    """
    if series.get("status") != "ok":
        return
    for row in series.get("results") or []:
        numbers_left = [row[attack] for attack in SERIES_ATTACKS if row.get(attack) is not None]
        if numbers_left:
            yield {
                "releases": list(series["releases"]),
                "n": row["n"],
                "left": min(numbers_left),
                "violated": row.get("assumption") == "violated",
            }


def _meaning(word: Word, budget: Budget | None) -> str:
    if word == "SAFE" and budget:
        return SAFE_ONCE if budget.get("scope") == "cases" else SAFE_BY_NOISE
    return MEANING[word]


def _worst(rows: Sequence[AnonymityRow], measure: Measure, bounds: Mapping[str, float]) -> WorstRow | None:
    """Return the release with the least value of a measure, and who attains it; None if not measured."""
    measured = [row for row in rows if row["worst"].get(measure) is not None]
    if not measured:
        return None
    row = min(measured, key=lambda entry: cast(int, entry["worst"][measure]))
    value = cast(int, row["worst"][measure])
    against: str | None = None
    knowledge: list[str] = []
    if measure != "ka":
        against, knowledge = _place_of_minimum(row, measure, value)

    n_items = row.get("bk_length")
    knows = f"knows up to {n_items} items of a person" if n_items else "knows something of a person"
    cases_left = number_of(value, "case")
    holds = ADVERSARY[measure].format(release=row["label"], against=against)
    return {
        "measure": measure.upper(),
        "value": value,
        "bound": bounds.get(f"min_{measure}"),
        "release": row["label"],
        "against": against,
        "knowledge": knowledge,
        "sentence": f"In the worst case {cases_left} fit. The adversary {knows}, and {holds}.",
    }


def _place_of_minimum(row: AnonymityRow, measure: Measure, value: int) -> tuple[str | None, list[str]]:
    """Return the earlier release that gives the value, and the knowledge about the person there."""
    for true_row in row.get("true_linker") or []:
        if true_row.get(measure) == value:
            knowledge = true_row.get("worst", {}).get(measure)
            return _earlier_release(true_row), list(knowledge or [])
    for pair in row["pairs"]:
        for result in pair["results"]:
            if result.get(measure) == value and result.get("linker") != "none":
                knowledge = result.get("worst", {}).get(measure)
                return _earlier_release(pair), list(knowledge or [])
    return None, []


def _earlier_release(pair: Any) -> str:
    """Return the number of the earlier release, with the name of its publication if it is another one."""
    other = pair.get("publication")
    if other:
        return f"{pair['earlier']} of {other}"
    return str(pair["earlier"])


def budget_answer(
    attempts: Sequence[AttemptRow],
    stated: Budget,
    releases_left: int | None,
) -> BudgetAnswer | None:
    """Return what is spent and left of epsilon, and until when that lasts.

    Parameters
    ----------
    attempts
        Every attempt of the publication; the pace is the median time between releases.
    stated
        The budget with everything that was charged by now; empty if the publication never spends anything.
    releases_left
        How many more releases the limits pay for; None if nothing limits them.

    Returns
    -------
    BudgetAnswer or None
        None if the publication never spends anything.
    """
    if not stated:
        return None
    differences = [limit - used for used, limit in _limits(stated) if limit is not None]
    epsilon_left = max(0.0, min(differences)) if differences else None

    # The pace so far gives the date of the last release that the remaining budget pays for.
    times = [row["time"] for row in attempts if row["label"].isdigit() and row["time"]]
    moments = [datetime.fromisoformat(time) for time in times]
    seconds_between = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    last_paid: str | None = None
    if releases_left is not None and seconds_between:
        last_paid = _after(moments[-1], releases_left * median(seconds_between))
    spent = stated["spent"]
    return {
        "spent": spent["epsilon"] or 0.0,
        "limit": stated["limit"],
        "each": stated["epsilon"],
        "left": epsilon_left,
        "releases_left": releases_left,
        "last_paid": last_paid,
        "rule": spent.get("rule", "sum"),
    }


def _after(moment: datetime, seconds: float) -> str | None:
    """Return the moment so much later; None if no calendar has it."""
    try:
        return (moment + timedelta(seconds=seconds)).isoformat(timespec="minutes")
    except OverflowError:
        return None


def _limits(stated: Budget) -> Iterator[tuple[float, float | None]]:
    """Yield the spent epsilon and its limit: of the publication, and of the process."""
    yield stated["spent"]["epsilon"] or 0.0, stated["limit"]
    process = stated.get("process")
    if process is not None:
        yield process["spent"]["epsilon"] or 0.0, process["limit"]["epsilon"]


def cost_answer(audits: Mapping[str, AuditDocument], labels: ItemNames) -> CostAnswer | None:
    """Return how much the last release keeps, by activity, and each release as a whole; None if not measured.

    Parameters
    ----------
    audits
        Audits by label of the attempt; releases have a number.
    labels
        Names of items, or numbers in their place.
    """
    losses = {label: _loss(document) for label, document in audits.items() if label.isdigit()}
    measured = {label: loss for label, loss in losses.items() if loss}
    if not measured:
        return None
    label, last = list(measured.items())[-1]
    rows = cast(Sequence[Mapping[str, Any]], last.get("activities") or [])
    return {
        "label": label,
        "kept": last.get("kept"),
        "activities": [_kept_row(row, labels) for row in rows],
        "frequent": cast(int | None, last.get("frequent")),
        "lost": labels.labels(last.get("lost")),
        "variants_in": cast(int | None, last.get("variants_in")),
        "variants_kept": cast(int | None, last.get("variants_kept")),
        "cases_as_they_were": cast(float | None, last.get("cases_as_they_were")),
        "by_release": [(number, loss.get("kept")) for number, loss in measured.items()],
    }


def _loss(document: AuditDocument) -> LossSection | None:
    loss = document.get("loss")
    return loss if loss and loss.get("status") == "ok" else None


def _kept_row(row: Mapping[str, Any], labels: ItemNames) -> KeptRow:
    return {
        "activity": labels.label(row["activity"]),
        "events": row["events"],
        "released": row["released"],
        "kept": row["kept"],
    }


def happened(history: Sequence[HistoryEntry], attempts: Mapping[str, Sequence[AttemptRow]]) -> list[HappenedRow]:
    """Return what happened, in the order of the ledger.

    These are releases, withheld attempts, lost numbers, decisions, erasures and accepted gaps. Erasures and gaps have
    no time: they appear at their position in the ledger.
    """
    attempts_in_order = {name: iter(rows) for name, rows in attempts.items()}
    lines = [_happened(entry, attempts_in_order) for entry in history]
    return [line for line in lines if line is not None]


def _happened(entry: HistoryEntry, attempts: Mapping[str, Iterator[AttemptRow]]) -> HappenedRow | None:
    """Return the row of one entry; None if it is of no interest here.

    Seals and withheld attempts are in the ledger in the order of `attempts`, so each takes the next row.
    """
    if isinstance(entry, SealEntry | WithheldEntry):
        row = next(attempts[entry.publication])
        if row["status"] == "burned":
            return _line("number lost", entry.publication, row["label"], row["time"], None, _BURNED)
        outcome = "released, with a warning" if row["warned"] else _OUTCOMES[row["status"]]
        why = "; ".join(row["reasons"])
        if row["repaired"]:
            outcome, why = "released after a repair", f"more events were removed, since {why}"
        return _line(outcome, entry.publication, row["label"], row["time"], row["cases"], why)
    if isinstance(entry, ApprovalEntry) and entry.body.decision in ("approved", "refused"):
        body = entry.body
        outcome = "approved" if body.decision == "approved" else "approval refused by the gate"
        why = f"by {body.by}: {body.why}"
        if body.reasons:
            why += f" ({'; '.join(body.reasons)})"
        return _line(outcome, entry.publication, str(entry.sequence), None, None, why)
    if isinstance(entry, ErasedEntry):
        erased = number_of(entry.body.cases, "case")
        if entry.body.known not in (msgspec.UNSET, entry.body.cases):
            erased = f"{entry.body.known} of {erased} known here, and"
        releases = ", ".join(map(str, entry.body.releases))
        place = f"held by release {releases}" if releases else "in no release"
        return _line("erasure", entry.publication, "", None, None, f"{erased} erased; {place}")
    if isinstance(entry, NoteEntry):
        return _line("gap accepted", entry.publication, "", None, None, _GAP)
    return None


_OUTCOMES = {
    "withheld": "withheld",
    "waiting": "waiting",
    "sealed": "sealed, not yet public",
    "published": "released",
    "held": "held for approval",
    "rejected": "rejected",
    "superseded": "superseded",
}
_BURNED = "a crash came between sealing and publishing; the number is not used again"
_GAP = "source events are missing; the operator continued without them"


def _line(
    outcome: str,
    publication: str,
    label: str,
    time: str | None,
    cases: int | None,
    why: str,
) -> HappenedRow:
    return {
        "what": outcome,
        "publication": publication,
        "label": label,
        "time": time or None,
        "cases": cases,
        "why": why,
    }


RELEASED = ("published", "sealed")
UNRELEASED = ("withheld", "waiting")
_Row = TypeVar("_Row", PairRow, TrueLinkerRow)
ABSENT = {"status": "not_measured", "reason": "this audit is not switched on for the publication"}


def collect(output: Path, *, show_values: bool = True, source: EventLog | None = None) -> Report:
    """Return the data of the report: {folder, process, values_shown, publications: [...]}.

    Parameters
    ----------
    output
        The output folder.
    show_values
        Whether activities and resources have their names; numbers otherwise.
    source
        The source log, to compare its graph with that of the last release.
    """
    view = current_ledger_view(output)
    history = read_from(output, view)
    rows = history.rows
    if not rows and not history.names:
        raise InputError(f"{output}: its ledger holds no release and no withheld attempt yet")
    compared = _comparison(output, {row["publication"] for row in rows})
    # Publications in the order of the comparison, then in that of their first attempt, then those
    # without one.
    names_of_rows = [row["publication"] for row in (*compared, *rows)]
    names = list(dict.fromkeys([*names_of_rows, *history.names]))
    verdicts = history.verdicts()
    verdict_of = {verdict.publication: verdict for verdict in verdicts}
    publications = [_publication(output, verdict_of[name], view, rows, source, show_values) for name in names]
    attempts_of = {publication["name"]: publication["attempts"] for publication in publications}
    process = next((publication["process"] for publication in publications if publication["process"]), None)
    return {
        "folder": output.resolve().name,
        "process": process,
        "values_shown": show_values,
        "comparison": compared,
        "verdicts": [{**verdict.as_json(), "line": verdict.line()} for verdict in verdicts],
        "happened": happened(view.history, attempts_of),
        "publications": publications,
    }


def _comparison(output: Path, names: set[str]) -> list[Mapping[str, Any]]:
    """Return the rows of `replay --compare`; none without it, or if the folder has other publications by now."""
    path = OperatorLayout(output).comparison
    if not path.is_file():
        return []
    rows: list[Mapping[str, Any]] = read_json(path)
    return rows if {row["publication"] for row in rows} == names else []


def _publication(
    output: Path,
    verdict: Verdict,
    view: LedgerView,
    rows: Sequence[HistoryRow],
    source: EventLog | None,
    show_values: bool,
) -> PublicationReport:
    """Return everything that the report shows of one publication."""
    name = verdict.publication
    account = view.account(name)
    attempts = _labelled([row for row in rows if row["publication"] == name])
    released_numbers = [row["sequence"] for row in attempts if row["status"] in RELEASED]
    audits = _audits(output, attempts, account)
    flows = _flows(output, name, released_numbers, source)
    labels = ItemNames((node for _, flow in flows for node in flow.nodes), shown=show_values)

    # Facts of the publication are those of its last release: from its audit, or from its manifest if no audit
    # is kept.
    manifest = _manifest(output, name, released_numbers)
    last_audit: AuditDocument = {}
    attacks = ""
    if released_numbers:
        last_audit = audit(output, name, released_numbers[-1])
        attacks = attacks_sentence(output, name, released_numbers[-1])
    last = cast(AuditDocument, last_audit or manifest or {})

    attempt_rows = [_attempt(row, audits.get(row["label"], {})) for row in attempts]
    anonymity = [_anonymity(label, document, labels) for label, document in _audits_of("anonymity", audits)]
    bounds = _bounds(last, audits)
    series = _series(last, labels)
    spent_by_now = budget_by_now(last, view, account)
    releases_left = affordable_releases(last, view, account)
    return {
        "name": name,
        "released": len(released_numbers),
        "process": last.get("process"),
        "mechanism": last.get("mechanism"),
        "promise": last.get("promise"),
        "carries": last.get("carries"),
        "bounds": bounds,
        "attempts": attempt_rows,
        "anonymity": anonymity,
        "series": series,
        "leakage": _leakage(last),
        "budget": _budget(account, last, spent_by_now),
        "risk": _measured("risk", audits),
        "utility": _measured("utility", audits),
        "graphs": _graphs(flows, labels),
        "graphs_of": "source" if source is not None else "releases",
        "manifest": manifest,
        "attacks": attacks,
        "safe": safe_answer(verdict, anonymity, bounds, series, last.get("budget")),
        "left": budget_answer(attempt_rows, spent_by_now, releases_left),
        "cost": cost_answer(audits, labels),
    }


def _bounds(last: AuditDocument, audits: Mapping[str, AuditDocument]) -> dict[str, float]:
    """Return the bounds of the last release, or of the last attempt if none passed."""
    newest_first = reversed(list(audits.values()))
    for document in (last, *newest_first):
        if "bounds" in document:
            return dict(document["bounds"])
    return {}


def _labelled(rows: Sequence[HistoryRow]) -> list[LabelledRow]:
    """Return the attempts with a short name each: the release number, or w1, w2, ... if the cut released nothing."""
    labelled: list[LabelledRow] = []
    unreleased = count(1)
    for row in rows:
        label = f"w{next(unreleased)}" if row["status"] in UNRELEASED else str(row["sequence"])
        labelled.append({"label": label, **row})
    return labelled


def _audits(output: Path, attempts: Sequence[LabelledRow], account: Account) -> dict[str, AuditDocument]:
    """Return the audit of every attempt that has one, by its short name: withheld ones keep theirs in the ledger."""
    documents: dict[str, AuditDocument] = {}
    for row in attempts:
        if row["status"] in UNRELEASED:
            withheld = account.withheld.get(row["cut"])
            document = AuditDocument() if withheld is None else cast(AuditDocument, withheld.body.audit)
        else:
            document = audit(output, row["publication"], row["sequence"])
        if document:
            documents[row["label"]] = document
    return documents


def _measured(measure: Literal["risk", "utility"], audits: Mapping[str, AuditDocument]) -> list[Mapping[str, Any]]:
    kept = _audits_of(measure, audits)
    return [{"label": label, **document.get(measure, ABSENT)} for label, document in kept]


def _audits_of(measure: str, audits: Mapping[str, AuditDocument]) -> Iterator[tuple[str, AuditDocument]]:
    """Yield the audits of all releases, and those of withheld attempts that have the measure.

    The ledger may keep only the reasons of a withheld attempt.
    """
    for label, document in audits.items():
        if measure in document or label.isdigit():
            yield label, document


def _attempt(row: LabelledRow, document: AuditDocument) -> AttemptRow:
    counts = document.get("counts", {})
    return {
        **row,
        "new_cases": counts.get("new_cases"),
        "new_events": counts.get("new_events"),
        "suppressed_cases": counts.get("suppressed_cases"),
        "suppressed_events": counts.get("suppressed_events"),
        "pending": counts.get("pending"),
        "published": document.get("published"),
        "warned": row["status"] in RELEASED and row["decision"] == "warned",
        "repaired": row["status"] in RELEASED and row["decision"] == "repaired",
    }


def _anonymity(label: str, document: AuditDocument, labels: ItemNames) -> AnonymityRow:
    """Return KA of one release, the least FA, CA and BA, and every pair by n with its worst background knowledge."""
    measured = document.get("anonymity") or cast(AnonymitySection, ABSENT)
    pairs = [_with_labelled_rows(pair, labels) for pair in measured.get("results") or []]
    facts = {key: value for key, value in measured.items() if key not in ("results", "true_linker")}
    row: Mapping[str, Any] = {
        "label": label,
        **facts,
        "worst": {name: worst_anonymity(measured, name) for name in MEASURES},
        "pairs": pairs,
        "true_linker": [_with_labels(row, labels) for row in measured.get("true_linker") or []],
    }
    return cast(AnonymityRow, row)


def _with_labelled_rows(pair: PairSection, labels: ItemNames) -> PairSection:
    return {**pair, "results": [_pair_row(row, labels) for row in pair["results"]]}


def _pair_row(row: PairRow, labels: ItemNames) -> PairRow:
    """One n of a pair; the sensitive values of its groups and of its witness only where values are shown."""
    shown = _with_labels(row, labels)
    if labels.shown:
        return shown
    shown["groups"] = {name: _without_value(group) for name, group in (row.get("groups") or {}).items()}
    if "witness" in row:
        shown["witness"] = [_without_value(value) for value in row["witness"]]
    return shown


def _with_labels(row: _Row, labels: ItemNames) -> _Row:
    labelled = row.copy()
    labelled["worst"] = {
        name: labels.labels(items) for name, items in row.get("worst", {}).items() if items is not None
    }
    return labelled


def _without_value(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in entry.items() if key != "value"}


def _series(last: AuditDocument, labels: ItemNames) -> Mapping[str, Any]:
    """Return the audit's series with its background knowledge by label."""
    measured = last.get("series")
    if not measured:
        return dict(ABSENT)
    return {**measured, "results": [_series_row(row, labels) for row in measured.get("results") or []]}


def _series_row(row: SeriesRow, labels: ItemNames) -> Mapping[str, Any]:
    worst = {
        name: {**entry, "bk": labels.labels(entry.get("bk"))}
        for name, entry in (row.get("worst") or {}).items()
        if entry is not None
    }
    return {**row, "worst": worst}


def _leakage(last: AuditDocument) -> Mapping[str, Any]:
    measured = last.get("leakage") or ABSENT
    hidden = ("state", "witness", "automaton")  # large, or sequences of persons' activities
    return {key: value for key, value in measured.items() if key not in hidden}


def _budget(account: Account, last: AuditDocument, by_now: Budget) -> BudgetSection | None:
    """Return every charge in ledger order with the outcome of its draw; None if nothing was charged."""
    if not account.charges:
        return None
    charges: list[ChargeRow] = []
    for entry in account.charge_entries.values():
        outcome = account.outcome(entry)
        alone = account.accounting.loss(entry.body.charge)
        charges.append(
            {
                "cut": entry.cut,
                "epsilon": float(alone.epsilon),
                "delta": float(alone.delta),
                "became": "released" if outcome in RELEASED else outcome,
            }
        )
    return {
        "charges": charges,
        "course": [{"charges": number, "epsilon": epsilon} for number, epsilon in course(last, account)],
        "spent": by_now.get("spent"),
        "limit": by_now.get("limit"),
    }


def _flows(
    output: Path,
    name: str,
    released_numbers: Sequence[int],
    source: EventLog | None,
) -> list[tuple[str, Flow]]:
    """Return before and after: the source log and the last release, or the last two releases without a source."""
    flows = []
    if source is not None and source.n_events:
        flows.append(("Source log", flow_of(source)))
    n_releases = 2 if source is None else 1
    for number in released_numbers[-n_releases:]:
        counts = local_release(output, name, number) / MAP_COUNTS
        log = released_log(OperatorLayout(output).release(name, number))
        if counts.is_file():
            flows.append((f"Release {number}", flow_of_map(read_json(counts))))
        elif log is not None and log.n_events:
            flows.append((f"Release {number}", flow_of(log)))
    return flows


def _graphs(flows: Sequence[tuple[str, Flow]], labels: ItemNames) -> list[Graph]:
    """Return one or two graphs; each of two is compared with the other one."""
    graphs = []
    for place, (title, flow) in enumerate(flows):
        other = flows[1 - place][1] if len(flows) == 2 else None
        graphs.append(graph_for_page(flow, labels, title, other))
    return graphs


def _manifest(output: Path, name: str, released_numbers: Sequence[int]) -> Manifest | None:
    """Return the public manifest of the last release; None if the releases are elsewhere."""
    if not released_numbers:
        return None
    path = local_release(output, name, released_numbers[-1]) / MANIFEST
    manifest: Manifest | None = read_json(path) if path.is_file() else None
    return manifest
