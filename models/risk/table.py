"""The risk of a log as one table, in the shape of Figure 2: projections by amounts of knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from models.eventlog import EventLog
from models.risk.points import Projection
from models.risk.uniqueness import Points, Uniqueness, trace_uniqueness

ALL: tuple[Projection, ...] = get_args(Projection)


def risk_table(
    log: EventLog, projections: Sequence[Projection], points: Sequence[Points], **options: Any
) -> list[Uniqueness]:
    """`trace_uniqueness` of each projection; those that the log cannot give are marked, not left out."""
    return [trace_uniqueness(log, projection, points, **options) for projection in projections]


def as_json(found: Uniqueness) -> dict[str, Any]:
    """The stable shape of one projection; further keys may join."""
    return {
        "projection": found.projection,
        "resolution": found.resolution,
        "points": [
            {"m": point.m, "unique_mean": point.unique_mean, "unique_sd": point.unique_sd, "draws": point.draws}
            for point in found.points
        ],
        "case_uniqueness": found.case_uniqueness,
        "semantics": found.semantics,
        "unit": found.unit,
        "adversary": found.adversary,
        "cases": found.cases,
        "event_attributes": list(found.event_attributes),
        "case_attributes": list(found.case_attributes),
        "status": found.status,
        "reason": found.reason,
        "notes": list(found.notes),
    }
