"""`veilstream replay --compare`: several publications of one log side by side.

Each is replayed with the same cuts through the whole release life; the comparison reads their audits: what the
attacks leave, how much stays useful, how long cases wait for their first publication, and how much is held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from models.eventlog import EventLog
from stream.config.settings import Publication, Settings
from stream.ledger.layout import OperatorLayout
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Decision
from stream.release.documents import AuditDocument
from stream.release.gate import MEASURES, least_of_series
from stream.release.pipeline import Pipeline
from stream.run.presets import default_publication, grid_edges, series_gate, with_completion
from stream.run.replay import Replay, ReplayOutcome
from stream.run.waits import median_wait, moments_of_cases

BOUNDED = ("K", "L", "C", "knowledge", "attribute", "T", "bins")
COLUMNS = (
    "publication",
    "releases",
    "withheld",
    "ka",
    "fa",
    "ca",
    "ba",
    "events_kept",
    "utility",
    "delay_days",
    "held",
)
SHOWN = ("publication", "out", "not", "KA", "FA", "CA", "BA", "kept", "utility", "days", "waits")
"""The same as headings of a table of 80 columns."""


def alternatives(settings: Settings, log: EventLog) -> Settings:
    """Return the publications to compare.

    Those of a configuration with several; else four ways to publish what the one (or the default) does: anonymized
    again at each cut, the same with repair (which `rel` has not), cohorts, and differentially private. Without a
    rule of completion, a case is complete after its last event in the log.
    """
    if len(settings.publication) > 1:
        return settings
    if settings.publication:
        base = settings.publication[0]
    else:
        base = default_publication(log, settings.process.sensitive)
    mechanism = {key: value for key, value in base.mechanism.items() if key in BOUNDED}
    least = int(mechanism.get("K", 20))
    bounds = series_gate(least)
    edges = {**grid_edges(log, settings.process.sensitive), **mechanism.get("bins", {})}

    def setting(name: str, table: Mapping[str, Any], gate: Mapping[str, Any]) -> Publication:
        return Publication.model_validate(
            # an audience each: they are looked at side by side, and nobody receives them all
            {
                "name": name,
                "audience": name,
                "window": base.window,
                "mechanism": table,
                "audit": base.audit,
                "gate": gate,
            }
        )

    tlkc_mechanism = {**mechanism, "kind": "tlkc"}
    publications = [setting("re-anonymize", tlkc_mechanism, {**bounds, "on_violation": "warn"})]
    if tlkc_mechanism.get("knowledge") != "rel":
        publications.append(setting("repair", tlkc_mechanism, {**bounds, "on_violation": "repair"}))
    publications.append(setting("cohorts", {**mechanism, "kind": "tlkc-cohorts", "bins": edges}, bounds))
    dp_variants = {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-6}
    publications.append(setting("dp", dp_variants, {"public_cut": True}))
    process = with_completion(settings.process)
    return settings.model_copy(update={"publication": tuple(publications), "process": process})


def compare_publications(replay: Replay, outcome: ReplayOutcome, log: EventLog) -> list[Mapping[str, Any]]:
    """Return one row for each publication, in the order of the configuration, with the keys of COLUMNS.

    * `ka` to `ba`: least number over the releases; None if the attack does not apply;
    * `events_kept`: share of the exposed events in the last release;
    * `utility`: data utility of the last release;
    * `delay_days`: median time from the start of a case to its first publication;
    * `held`: share of the events seen that the last release keeps back for later.
    """
    starts = moments_of_cases(log, log.starts[:-1], replay.service.pseudonyms)
    rows = []
    for name, pipeline in replay.service.pipelines.items():
        decisions = [decision for other, decision in outcome.decisions if other == name]
        rows.append(_row(name, decisions, _releases_of(pipeline), starts))
    return rows


def write_comparison(rows: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Write the comparison to the operator's folder, where the report reads it."""
    from msgspec.json import encode
    from msgspec.json import format as indented

    OperatorLayout(output).comparison.write_bytes(indented(encode(rows)))


def _releases_of(pipeline: Pipeline) -> list[ReleaseRecord]:
    """Return the releases of this publication; its audience may hold others."""
    return [record for record in pipeline.earlier if record.publication == pipeline.name]


def _row(
    name: str, decisions: Sequence[Decision], records: Sequence[ReleaseRecord], starts: Mapping[str, float]
) -> Mapping[str, Any]:
    sealed = [decision for decision in decisions if decision.status == "sealed"]
    last = sealed[-1].audit if sealed else AuditDocument()
    counts = last.get("counts") or {}
    audits = [decision.audit for decision in sealed]
    return {
        "publication": name,
        "releases": len(sealed),
        "withheld": sum(decision.refused for decision in decisions),
        **{measure: least_of_series(audits, measure) for measure in MEASURES},
        "events_kept": _share(counts.get("released"), counts.get("exposed")),
        "utility": (last.get("utility") or {}).get("data_utility"),
        "delay_days": median_wait(records, starts),
        "held": _share(counts.get("pending", 0), counts.get("seen")),
    }


def _share(part: int | None, total: int | None) -> float | None:
    return None if part is None or not total else part / total


def cells(row: Mapping[str, Any]) -> list[str]:
    """Format a row for people."""
    return [_cell(row[name]) for name in COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
