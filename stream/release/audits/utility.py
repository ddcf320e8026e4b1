"""Audit `utility`: usefulness of the release, compared with the part of the source that the cut exposes.

Source: tlkc-privacy-extended-2021, section 6; differentially-private-release-2023, Table 6 (edge distances).
Computed on raw data: for the operator only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import Field

from models.eventlog import EventLog
from models.utility.distance import KeptDistances, data_utility, data_utility_at_least
from models.utility.graphs import agreement, bottlenecks, directly_follows, edge_distance, handover
from models.utility.mining import mining
from stream.release.contract import Audit, AuditContext, Reads


class Utility(Audit):
    """Data utility, graphs and, if configured, the discovered model."""

    name: ClassVar[str] = "utility"
    reads: ClassVar[Reads] = "raw"

    discovery: Literal["none", "replay", "alignment"] = "none"
    """Whether a process model is discovered and compared: by token `replay` (seconds) or `alignment` (minutes on logs
    like Sepsis). Set it when recipients discover models from the releases."""
    most_pairs: int = Field(default=2_000_000, ge=1)
    """Pairs of variants up to which the earth mover's distance is exact (2 million: about a second); beyond it a
    lower bound. Set it when `exact` is false in the audit and the true value is worth minutes."""

    @property
    def looks_back(self) -> int:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        return 0

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure the utility of the release against its source.

        Returns
        -------
        Mapping
            {status, reason, data_utility, exact, dfg, handover, discovery, emd_frequency, emd_time_months, ...}: the
            shape of `veilstream utility --json`; null for values that the release does not carry.
        """
        source, released = context.exposure.log, context.candidate.log
        if not released.n_events or not source.n_events:
            return {"status": "not_measured", "reason": "the release has no events", "data_utility": 0.0}
        carries = tuple(name for name in context.candidate.carries if name != "relative_time")
        # The exact transport compares all pairs of variants; with more pairs a lower bound is reported.
        exact = _pairs(source, released) <= self.most_pairs
        if exact:
            utility = data_utility(source, released, carries, kept=_kept(context, carries))
        else:
            utility = data_utility_at_least(source, released, context.build.origin, carries)
        timed = context.build.time_basis != "ordinal"
        shows_activities = "activity" in carries
        graphs = _graphs(source, released, timed=timed)
        if not shows_activities:
            graphs = dict.fromkeys(graphs)
        model = self._model(source, released, carries)
        words = None
        if shows_activities:
            words = mining(source, released, utility, model["discovery"], timed=timed).as_json()
        return {
            "status": "ok",
            "reason": "",
            "data_utility": utility,
            "exact": exact,
            "perspective": list(carries),
            **graphs,
            **model,
            "handover": _handover(source, released, carries),
            "mining": words,
        }

    def _model(self, source: EventLog, released: EventLog, carries: tuple[str, ...]) -> Mapping[str, Any]:
        if self.discovery == "none" or "activity" not in carries:
            return {"discovery": None}
        from models.utility.discovery import discovery_quality

        quality = discovery_quality(source, released, self.discovery)
        return {"discovery": quality.as_json() | {"method": self.discovery}}


def _kept(context: AuditContext, carries: tuple[str, ...]) -> KeptDistances:
    """Take over the distances that the last release's audit computed.

    The last release keeps them no longer: a candidate that is withheld or repaired takes them with it, and the next
    one computes its own.
    """
    name, candidate = f"utility.distances.{carries}", context.candidate
    newest_first = reversed(context.earlier)
    of_publication = (record for record in newest_first if record.publication == candidate.publication)
    last = next(of_publication, None)
    kept: KeptDistances = KeptDistances() if last is None else last.cache.pop(name, None) or KeptDistances()
    candidate.cache[name] = kept
    return kept


def _pairs(source: EventLog, released: EventLog) -> int:
    return len(set(source.trace_keys({}))) * len(set(released.trace_keys({})))


def _graphs(source: EventLog, released: EventLog, *, timed: bool) -> Mapping[str, Any]:
    source_graph, released_graph = directly_follows(source), directly_follows(released)
    body = {
        "dfg": agreement(source_graph, released_graph).as_json(),
        **asdict(edge_distance(source_graph, released_graph)),
    }
    if not timed:
        return {**body, "emd_time_months": None, "mae_time_months": None, "bottlenecks": None}
    return {**body, "bottlenecks": asdict(bottlenecks(source, released))}


def _handover(source: EventLog, released: EventLog, carries: tuple[str, ...]) -> dict[str, float] | None:
    network = handover(source, released) if "resource" in carries else None
    return network.as_json() if network else None
