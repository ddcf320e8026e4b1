"""Audit `loss`: what the release lost of the events that the cut exposes, by activity and variant.

Computed on raw data: for the operator only. No gate reads it: a warning below `warn_below` is all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Protocol

from pydantic import Field

from models.eventlog import EventLog, Ints
from models.utility.loss import loss
from stream.release.contract import Audit, AuditContext, Reads


class Released(Protocol):
    """A release: a candidate of a series, or the build of a single one."""

    @property
    def log(self) -> EventLog:
        """The released cases."""

    @property
    def carries(self) -> tuple[str, ...]:
        """The perspectives that leave."""


class LossAudit(Audit):
    """Events kept in all and of each activity; which frequent activities are gone; variants and cases as they were."""

    name: ClassVar[str] = "loss"
    reads: ClassVar[Reads] = "raw"

    warn_below: float = Field(default=0.8, ge=0, le=1)
    """Share of events below which the audit warns. Set it when a mining question tolerates more loss, or less."""

    @property
    def looks_back(self) -> int:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        return 0

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure what the release lost of its source.

        Returns
        -------
        Mapping
            {status, reason, kept, activities: [{activity, cases, events, released, kept}], frequent, lost,
            variants_in, variants_kept, cases_as_they_were, warnings}; `kept` counts cases that wait for their cohort
            as lost so far.
        """
        build = context.build
        _, waiting_events = build.held
        return self.measured(context.exposure.log, context.candidate, build.origin, waiting_events)

    def measured(
        self, source: EventLog, released: Released, origin: Ints, waiting: int = 0, cases: Ints | None = None
    ) -> dict[str, Any]:
        """Measure one release outside any series.

        Parameters
        ----------
        source, released
            The log, and its release.
        origin
            Index of the source case of each released case.
        waiting
            Events that are kept back for a later release.
        cases
            How many cases each case of the source represents, if it is a table of variants.
        """
        if not source.n_events or "activity" not in released.carries:
            return {"status": "not_measured", "reason": "nothing is exposed, or no activity leaves"}
        lost = loss(source, released.log, origin, cases)
        body = asdict(lost)
        body["activities"] = [asdict(row) | {"kept": row.kept} for row in lost.activities]
        body["lost"] = list(lost.lost)
        body["warnings"] = self._warnings(lost.kept, lost.lost, waiting)
        return {"status": "ok", "reason": "", **body}

    def _warnings(self, kept: float, lost: tuple[str, ...], waiting: int) -> list[str]:
        notes = []
        if kept < self.warn_below:
            wait = f" ({waiting} events wait for a later release)" if waiting else ""
            notes.append(f"{kept:.2f} of the events are in the release{wait}")
        if lost:
            n_activities = "1 activity" if len(lost) == 1 else f"{len(lost)} activities"
            notes.append(f"{n_activities} of at least 5 % of the cases {'is' if len(lost) == 1 else 'are'} missing")
        return notes
