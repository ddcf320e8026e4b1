"""Audit `loss`: what the release lost of the events that the cut exposes, by activity and variant.

Computed on raw data: for the operator only. No gate reads it: a warning below `warn_below` is all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import Field

from models.utility.loss import loss
from stream.release.contract import Audit, AuditContext, Reads


class LossAudit(Audit):
    """Events kept in all and of each activity; which frequent activities are gone; variants and cases as they were."""

    name: ClassVar[str] = "loss"
    reads: ClassVar[Reads] = "raw"

    warn_below: float = Field(default=0.8, ge=0, le=1)
    """Share of events below which the audit warns."""

    @property
    def looks_back(self) -> int:
        return 0

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """{status, reason, kept, activities: [{activity, cases, events, released, kept}], frequent, lost, variants_in,
        variants_kept, cases_as_they_were, warnings}; `kept` counts cases that wait for their cohort as lost so far."""
        source, released = context.exposure.log, context.candidate.log
        if not source.n_events or "activity" not in context.candidate.carries:
            return {"status": "not_measured", "reason": "nothing is exposed, or no activity leaves"}
        found = loss(source, released, context.build.origin)
        body = asdict(found)
        body["activities"] = [asdict(row) | {"kept": row.kept} for row in found.activities]
        body["lost"] = list(found.lost)
        return {"status": "ok", "reason": "", **body, "warnings": list(self._warnings(found.kept, found.lost, context))}

    def _warnings(self, kept: float, lost: tuple[str, ...], context: AuditContext) -> list[str]:
        waiting = context.build.held[1]
        said = []
        if kept < self.warn_below:
            wait = f" ({waiting} events wait for a later release)" if waiting else ""
            said.append(f"{kept:.2f} of the events are in the release{wait}")
        if lost:
            what = "1 activity" if len(lost) == 1 else f"{len(lost)} activities"
            said.append(f"{what} of at least 5 % of the cases {'is' if len(lost) == 1 else 'are'} missing")
        return said
