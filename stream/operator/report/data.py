"""What a report says, as JSON-able data: read from an output folder, nothing computed anew but graphs.

A measure that does not apply to a mechanism keeps its `status` and `reason`; it never becomes a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from models.dp.budget import Charge
from models.dp.zcdp import Accounting
from models.errors import InputError
from models.eventlog import EventLog
from stream.ledger.entries import BurnedEntry, ChargeEntry, Entry, SealEntry, WithheldEntry
from stream.operator.history import HistoryRow, audit, entries, read, read_json
from stream.operator.report import answers, graphs
from stream.operator.report.document import (
    AnonymityRow,
    AttemptRow,
    BudgetSection,
    ChargeRow,
    Graph,
    LabelledRow,
    PublicationReport,
    Report,
)
from stream.operator.report.knowledge import Names
from stream.release.documents import (
    AnonymitySection,
    AuditDocument,
    Budget,
    Manifest,
    PairRow,
    PairSection,
    SeriesRow,
    TrueLinkerRow,
)
from stream.release.gate import MEASURES, worst_anonymity
from stream.release.verdict import Verdict

STANDING = ("published", "sealed")
_Row = TypeVar("_Row", PairRow, TrueLinkerRow)
ABSENT = {"status": "not_measured", "reason": "this audit is not switched on for the publication"}


def collect(output: Path, *, show_values: bool = True, source: EventLog | None = None) -> Report:
    """{folder, process, values_shown, publications: [...]}. InputError where its ledger names no publication."""
    found, known = entries(output), read(output)
    rows = known.rows
    if not rows and not known.names:
        raise InputError(f"{output}: its ledger holds no release and no withheld attempt yet")
    compared = _comparison(output, {row["publication"] for row in rows})
    names = list(dict.fromkeys((*(row["publication"] for row in (*compared, *rows)), *known.names)))
    verdicts = known.verdicts()
    said = {one.publication: one for one in verdicts}
    publications = [_publication(output, said[name], found, rows, source, show_values) for name in names]
    process = next((one["process"] for one in publications if one["process"]), None)
    return {
        "folder": output.resolve().name,
        "process": process,
        "values_shown": show_values,
        "comparison": compared,
        "verdicts": [{**one.as_json(), "line": one.line()} for one in verdicts],
        "happened": answers.happened(found, {one["name"]: one["attempts"] for one in publications}),
        "publications": publications,
    }


def _comparison(output: Path, names: set[str]) -> list[Mapping[str, Any]]:
    """What `replay --compare` left; [] without it, and where the folder has come to hold other publications."""
    path = output / "operator" / "comparison.json"
    if not path.is_file():
        return []
    rows: list[Mapping[str, Any]] = read_json(path)
    return rows if {row["publication"] for row in rows} == names else []


def _publication(
    output: Path,
    verdict: Verdict,
    found: Sequence[Entry],
    rows: Sequence[HistoryRow],
    source: EventLog | None,
    show_values: bool,
) -> PublicationReport:
    name = verdict.publication
    attempts = _labelled([row for row in rows if row["publication"] == name])
    standing = [row["sequence"] for row in attempts if row["status"] in STANDING]
    audits = _audits(output, attempts, found)
    flows = _flows(output, name, standing, source)
    labels = Names((node for _, flow in flows for node in flow.nodes), shown=show_values)
    manifest = _manifest(output, name, standing)
    last = cast(AuditDocument, (audit(output, name, standing[-1]) if standing else {}) or manifest or {})
    told = [_attempt(row, audits.get(row["label"], {})) for row in attempts]
    anonymity = [_anonymity(label, document, labels) for label, document in _kept("anonymity", audits)]
    bounds, series = _bounds(last, audits), _series(last, labels)
    return {
        "name": name,
        "released": len(standing),
        "process": last.get("process"),
        "mechanism": last.get("mechanism"),
        "promise": last.get("promise"),
        "carries": last.get("carries"),
        "bounds": bounds,
        "attempts": told,
        "anonymity": anonymity,
        "series": series,
        "leakage": _leakage(last),
        "budget": _budget(name, found, last, attempts),
        "risk": _measured("risk", audits),
        "utility": _measured("utility", audits),
        "graphs": _graphs(flows, labels),
        "graphs_of": "source" if source is not None else "releases",
        "manifest": manifest,
        "safe": answers.safe(verdict, anonymity, bounds, series, last.get("budget")),
        "left": answers.budget(told, last),
        "cost": answers.cost(audits, labels),
    }


def _bounds(last: AuditDocument, audits: Mapping[str, AuditDocument]) -> dict[str, float]:
    """What the gate asked of the last release, or of the last attempt where none passed it."""
    asked = [document["bounds"] for document in (last, *reversed([*audits.values()])) if "bounds" in document]
    return dict(asked[0]) if asked else {}


def _labelled(rows: Sequence[HistoryRow]) -> list[LabelledRow]:
    """The attempts with a short name each: the release number, or w1, w2, ... for what was withheld."""
    withheld = count(1)
    return [
        {"label": f"w{next(withheld)}" if row["status"] == "withheld" else str(row["sequence"]), **row} for row in rows
    ]


def _audits(output: Path, attempts: Sequence[LabelledRow], found: Sequence[Entry]) -> dict[str, AuditDocument]:
    """The audit of every attempt that has one, by its short name: withheld ones keep theirs in the ledger."""
    refused = {one.cut: cast(AuditDocument, one.body.audit) for one in found if isinstance(one, WithheldEntry)}
    documents = {
        row["label"]: refused.get(row["cut"], AuditDocument())
        if row["status"] == "withheld"
        else audit(output, row["publication"], row["sequence"])
        for row in attempts
    }
    return {label: document for label, document in documents.items() if document}


def _measured(measure: Literal["risk", "utility"], audits: Mapping[str, AuditDocument]) -> list[Mapping[str, Any]]:
    return [{"label": label, **document.get(measure, ABSENT)} for label, document in _kept(measure, audits)]


def _kept(measure: str, audits: Mapping[str, AuditDocument]) -> Iterator[tuple[str, AuditDocument]]:
    """Audits that can speak of a measure: of a withheld attempt the ledger may keep the reasons only."""
    return ((label, document) for label, document in audits.items() if measure in document or label.isdigit())


def _attempt(row: LabelledRow, document: AuditDocument) -> AttemptRow:
    counts = document.get("counts", {})
    return {
        **row,
        "new_cases": counts.get("new_cases"),
        "new_events": counts.get("new_events"),
        "suppressed_cases": counts.get("suppressed_cases"),
        "suppressed_events": counts.get("suppressed_events"),
        "pending": counts.get("pending"),
        "late": counts.get("late"),
        "published": document.get("published"),
        "warned": row["status"] in STANDING and bool(row["reasons"]) and row["decision"] != "repaired",
        "repaired": row["status"] in STANDING and row["decision"] == "repaired",
    }


def _anonymity(label: str, document: AuditDocument, labels: Names) -> AnonymityRow:
    """Of one release: KA, the least FA, CA and BA, and every pair by n with its worst background knowledge."""
    measured = document.get("anonymity") or cast(AnonymitySection, ABSENT)
    pairs: list[PairSection] = [
        {**pair, "results": [_pair_row(row, labels) for row in pair["results"]]}
        for pair in measured.get("results") or []
    ]
    row: Mapping[str, Any] = {
        "label": label,
        **{key: value for key, value in measured.items() if key not in ("results", "true_linker")},
        "worst": {name: worst_anonymity(measured, name) for name in MEASURES},
        "pairs": pairs,
        "true_linker": [_with_labels(one, labels) for one in measured.get("true_linker") or []],
    }
    return cast(AnonymityRow, row)


def _pair_row(row: PairRow, labels: Names) -> PairRow:
    """One n of a pair; the sensitive values of its groups and of its witness only where values are shown."""
    shown = _with_labels(row, labels)
    if labels.shown:
        return shown
    shown["groups"] = {name: _without_value(group) for name, group in (row.get("groups") or {}).items()}
    if "witness" in row:
        shown["witness"] = [_without_value(one) for one in row["witness"]]
    return shown


def _with_labels(row: _Row, labels: Names) -> _Row:
    labelled = row.copy()
    labelled["worst"] = {
        name: labels.labels(items) for name, items in row.get("worst", {}).items() if items is not None
    }
    return labelled


def _without_value(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in entry.items() if key != "value"}


def _series(last: AuditDocument, labels: Names) -> Mapping[str, Any]:
    """The audit's series with its background knowledge by label."""
    measured = last.get("series")
    if not measured:
        return dict(ABSENT)
    return {**measured, "results": [_series_row(row, labels) for row in measured.get("results") or []]}


def _series_row(row: SeriesRow, labels: Names) -> Mapping[str, Any]:
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


def _budget(
    name: str, found: Sequence[Entry], last: AuditDocument, rows: Sequence[LabelledRow]
) -> BudgetSection | None:
    """Every charge of the ledger in order, with what became of its attempt; None where nothing is ever spent."""
    account = [one for one in found if one.publication == name]
    charged = [one for one in account if isinstance(one, ChargeEntry)]
    if not charged:
        return None
    redraws: Counter[str] = Counter()
    outcome: dict[tuple[str, int], str] = {}
    hidden = {row["sequence"]: row["status"] for row in rows if row["status"] in ("held", "rejected", "superseded")}
    for one in account:
        if isinstance(one, SealEntry | WithheldEntry | BurnedEntry):
            became = _BECAME[one.kind] if one.sequence not in hidden else hidden[one.sequence]
            outcome[one.cut, redraws[one.cut]] = became
        redraws[one.cut] += isinstance(one, BurnedEntry)
    charges, spent = [], Charge()
    for entry in charged:
        became = outcome.get((entry.cut, entry.body.redraw), "not finished")
        row = _charge(entry, became)
        if entry.body.rho:  # what it adds to the epsilon of all before it
            at = Accounting("zcdp", Fraction(entry.body.delta) - Fraction(entry.body.tail))
            more = at.loss(spent + entry.body.charge)
            row["epsilon"], row["delta"] = (
                float(more.epsilon - at.loss(spent).epsilon),
                float(more.delta - at.loss(spent).delta),
            )
            spent += entry.body.charge
        charges.append(row)
    stated = last.get("budget") or Budget()
    return {"charges": charges, "spent": stated.get("spent"), "limit": stated.get("limit")}


_BECAME = {"seal": "released", "withheld": "withheld", "burned": "burned"}


def _charge(entry: ChargeEntry, became: str) -> ChargeRow:
    charge = entry.body.charge
    return {"cut": entry.cut, "epsilon": float(charge.epsilon), "delta": float(charge.delta), "became": became}


def _flows(output: Path, name: str, standing: Sequence[int], source: EventLog | None) -> list[tuple[str, graphs.Flow]]:
    """Before and after: the source log and the last release, or the last two releases where no source is given."""
    logs = [
        (f"Release {number}", graphs.released(output / "operator" / name / f"{number:06d}"))
        for number in standing[-1 if source is not None else -2 :]
    ]
    if source is not None:
        logs.insert(0, ("Source log", source))
    return [(title, graphs.flow(log)) for title, log in logs if log is not None and log.n_events]


def _graphs(flows: Sequence[tuple[str, graphs.Flow]], labels: Names) -> list[Graph]:
    others = [flow for _, flow in reversed(flows)] if len(flows) > 1 else [None] * len(flows)
    return [graphs.shown(flow, labels, title, other) for (title, flow), other in zip(flows, others, strict=True)]


def _manifest(output: Path, name: str, standing: Sequence[int]) -> Manifest | None:
    """The public manifest of the last release; None where the releases lie elsewhere."""
    if not standing:
        return None
    path = output / "public" / name / f"release-{standing[-1]:06d}" / "manifest.json"
    found: Manifest | None = read_json(path) if path.is_file() else None
    return found
