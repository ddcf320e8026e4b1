"""The risk of a log as one table, in the shape of Figure 2: projections by amounts of knowledge."""

from __future__ import annotations

from typing import Any, get_args

from models.risk.points import Projection
from models.risk.uniqueness import Uniqueness

ALL: tuple[Projection, ...] = get_args(Projection)


def as_json(found: Uniqueness) -> dict[str, Any]:
    """Return the stable JSON shape of one projection; further keys may be added."""
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
