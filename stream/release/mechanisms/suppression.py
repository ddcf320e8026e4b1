"""Shared steps of the mechanisms that only remove events.

Makes a build of a log with events removed, and checks whether a release that was read back satisfies TLKC-privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

import numpy as np

from models.anonymize.check import first_violation
from models.anonymize.microaggregation import microaggregated
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import Edges, class_columns, quartile_classes
from models.anonymize.values import text_of
from models.anonymize.violations import TlkcBounds
from models.chance import Chance
from models.errors import BoundError
from models.eventlog import MISSING, Column, EventLog, Ints
from models.knowledge import NANOSECONDS, Knowledge, Structure, Unit
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Applicability, Build, Exposure

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
    """Return a build that carries just what `knowledge` protects.

    Its items, and the sensitive values of the cases.

    Parameters
    ----------
    log
        The released cases.
    origin
        int64[C], case of the exposed log.
    knowledge
        Knowledge of the adversary. The release carries its perspectives and no other.
    sensitive
        Names of the sensitive attributes.
    ticks
        int64[E], relative times in units of T, anchored at the start of the *source* case (for `rel`).
    more
        Further fields of the build.
    """
    values = {name: log.case_values(name) for name in sensitive}
    times = log.time if ticks is None else ticks * NANOSECONDS[knowledge.T]
    return Build(
        log=replace(log, time=times, case_attributes=values, event_attributes={}, offset=None),
        origin=origin,
        carries=knowledge.carries,
        time_basis="ordinal" if ticks is None else "relative",
        T=knowledge.T,
        **more,
    )


def timed(build: Build, K: int, unit: Unit, latest: int) -> Build:
    """Return the build with microaggregated times.

    Its log still has the true times of its events. The assignment to cases is drawn from the system's cryptographic
    source, and drawn again with every build.

    Parameters
    ----------
    build
        Build with the true times of its events.
    K
        Least cases of a mean.
    unit
        Accuracy of times.
    latest
        Time (ns) after which no time leaves.
    """
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
    """Counts of a removal; `why`: how many sets broke a bound, if they were counted."""

    items: int
    events: int
    cases: int
    why: NotRequired[Mapping[str, int]]


class ManifestSection(TypedDict):
    """Section of the manifest on a removal: counts, nothing of a case."""

    n_actual: int
    suppressed: Suppressed
    satisfied: bool
    warnings: NotRequired[list[str]]


def manifest_section(result: Anonymized) -> ManifestSection:
    """Return the section of the manifest on a removal."""
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
    """Return the section of audit.json on a removal.

    Items by name, and every finding (the minimality audit among them).
    """
    findings = {"suppressed": list(result.suppressed), "satisfied": result.satisfied, **result.details}
    return {**findings, "warnings": list(result.warnings)}


def removed(result: Anonymized, sensitive: Sequence[str], **more: Any) -> Build:
    """Return the build of a removal.

    Dropped cases end the incremental premise, and the build states that they do.
    """
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


# Whether a release that was read back from its file satisfies TLKC-privacy.


def faults(
    released: ReleaseRecord,
    exposure: Exposure,
    structures: Sequence[Structure],
    bounds: TlkcBounds,
    bins: Mapping[str, Edges],
) -> list[str]:
    """Return a line for each structure of knowledge with a violating candidate: counts, no item.

    The checker shares no code with the search.

    Parameters
    ----------
    released, exposure
        The release as it was read back, and the exposed log.
    structures, bounds
        Structures of knowledge, and the bounds L, K and C.
    bins
        Class edges of numeric sensitive attributes.
    """
    classes = list(classes_read(released.log, exposure, bins).values())
    doubts = []
    for structure in structures:
        names = tuple(name for name in released.carries if name != "relative_time" or structure == "rel")
        fault = first_violation(
            released.log.starts, released.items(names), structure, classes, bounds.L, bounds.K, bounds.C
        )
        if fault is not None:
            doubts.append(
                f"{structure}: {len(fault.candidate)} items match {fault.support} cases, {fault.worst} of them with "
                f"one value (L = {bounds.L}, K = {bounds.K}, C = {float(bounds.C):g})"
            )
    return doubts


def classes_read(read: EventLog, exposure: Exposure, bins: Mapping[str, Edges]) -> dict[str, Column]:
    """Return the class of each case by sensitive attribute, as `class_columns` does for the exposed log.

    Values are compared by their text: that is what they have in common in all formats. Given bins are applied to the
    values that were read; quartiles are those of the exposed log, of which a release may be a part.

    Parameters
    ----------
    read
        The log that was read back.
    exposure
        The events that the release was made from.
    bins
        Declared classes of numbers, by attribute.
    """
    return {name: _classes(name, read, exposure, bins) for name in exposure.sensitive}


def _classes(name: str, read: EventLog, exposure: Exposure, bins: Mapping[str, Edges]) -> Column:
    if name not in read.case_attributes:  # a format leaves out an attribute that no case has
        return Column(np.full(read.n_cases, MISSING, dtype=np.int32), ())
    if name in bins:
        return class_columns(read, [name], {name: bins[name]})[name]
    column, values_of_log = read.case_attributes[name], exposure.log.case_values(name)
    by_text = {}
    if values_of_log.values and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values_of_log.values
    ):
        pairs = zip(values_of_log.decode(), quartile_classes(values_of_log).decode(), strict=True)
        by_text = {text_of(value): label for value, label in pairs}
    texts = [text_of(value) for value in column.values]
    labels = Column.encode(by_text.get(text, text) or None for text in texts)
    return Column(np.append(labels.codes, np.int32(MISSING))[column.codes], labels.values)
