"""From a log with events removed to a build: what every mechanism that only removes has in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

from models.anonymize.microaggregation import microaggregated
from models.anonymize.result import Anonymized
from models.chance import Chance
from models.errors import BoundError
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Knowledge, Unit
from stream.release.contract import Applicability, Build

UNTIMED = (
    "times, against somebody who knows how many cases took so long, or the times of everybody else in the same mean"
)


def in_knowledge(
    log: EventLog,
    origin: Ints,
    knowledge: Knowledge,
    sensitive: Sequence[str],
    ticks: Ints | None = None,
    **more: Any,
) -> Build:
    """A build that carries just what `knowledge` protects: its items, and the sensitive values of the cases.

    `ticks`: int64[E] relative times in units of T, anchored at the start of the *source* case (for `rel`).
    """
    values = {name: log.case_values(name) for name in sensitive}
    times = log.time if ticks is None else ticks * NANOSECONDS[knowledge.T]
    bare = log.with_columns(case=values, event={})
    return Build(
        log=EventLog(
            case_ids=bare.case_ids,
            starts=bare.starts,
            activity=bare.activity,
            time=times,
            resource=bare.resource,
            row=bare.row,
            case_attributes=bare.case_attributes,
        ),
        origin=origin,
        carries=knowledge.carries,
        time_basis="ordinal" if ticks is None else "relative",
        T=knowledge.T,
        **more,
    )


def timed(build: Build, K: int, unit: Unit, latest: int) -> Build:
    """The build with microaggregated times, none after `latest`; its log still has the true times of its events. Which
    case shows which is drawn from the system's cryptographic source, and drawn anew with every build."""
    if build.log.n_cases < K:
        raise BoundError(f"times: {build.log.n_cases} released cases are fewer than K = {K}")
    times = microaggregated(build.log, K, unit, Chance().below, latest=latest)
    return replace(
        build,
        log=replace(build.log, time=times),
        time_basis="microaggregated",
        not_guaranteed=(*build.not_guaranteed, UNTIMED),
    )


class Suppressed(TypedDict):
    """How much a removal took; `why`: how many sets broke a bound, where they were counted."""

    items: int
    events: int
    cases: int
    why: NotRequired[Mapping[str, int]]


class ManifestSection(TypedDict):
    """What the manifest says of a removal: counts, nothing of a case."""

    n_actual: int
    suppressed: Suppressed
    satisfied: bool
    warnings: NotRequired[list[str]]


def manifest_section(result: Anonymized) -> ManifestSection:
    """What the manifest says of a removal."""
    suppressed: Suppressed = {
        "items": len(result.suppressed),
        "events": result.source_events - result.events,
        "cases": result.cases_dropped,
    }
    if "violations" in result.details:
        suppressed["why"] = result.details["violations"]
    body: ManifestSection = {"n_actual": result.n_actual, "suppressed": suppressed, "satisfied": result.satisfied}
    if result.warnings:
        body["warnings"] = list(result.warnings)
    return body


def operator_view(result: Anonymized) -> Mapping[str, Any]:
    """What audit.json says of a removal: items by name, and every finding (the minimality audit among them)."""
    findings = {"suppressed": list(result.suppressed), "satisfied": result.satisfied, **result.details}
    return {**findings, "warnings": list(result.warnings)}


def removed(result: Anonymized, sensitive: Sequence[str], **more: Any) -> Build:
    """The build of a removal: dropped cases end the incremental premise, and are said so."""
    origin = result.origin
    dropped = result.cases_dropped
    ticks = None
    if result.knowledge.structure == "rel":
        ticks = result.relative_ns // NANOSECONDS[result.knowledge.T]
    applies = {}
    if dropped:
        reason = f"{dropped} cases lost every event; partners are counted on the surviving cases only"
        applies = {"anonymity": Applicability("cases_dropped", reason)}
    source = result.log.with_columns(
        case={name: result.source.case_values(name).take(origin) for name in sensitive}, event={}
    )
    return in_knowledge(
        source,
        origin,
        result.knowledge,
        sensitive,
        ticks,
        n_actual=result.n_actual,
        cases_dropped=dropped,
        public=manifest_section(result),
        operator=operator_view(result),
        applies=applies,
        **more,
    )
