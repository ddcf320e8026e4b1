"""Audit `risk`: uniqueness of the cases of the source, and of those of the release.

Source: reidentification-risk-2020; docs/risk.md. Figures of the source are taken on raw data: for the operator only.
A low uniqueness is not a guarantee by itself: the adversary here knows points drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import AfterValidator, Field

from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Unit
from models.risk.index import TraceIndex
from models.risk.points import (
    ACTIVITY,
    RESOURCE,
    TIME,
    KnownColumns,
    Projection,
    default_case_attributes,
    default_event_attributes,
    view,
)
from models.risk.true_points import search_persons
from models.risk.uniqueness import checked, measure, singleton_variants
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Audit, AuditContext, Reads
from stream.release.documents import RiskRow, TrueTimesRow

_COLUMNS = {"activity": ACTIVITY, "resource": RESOURCE, "relative_time": TIME}

FOLLOWED = 1_000_000
"""Events up to which the source's index is kept for the next release: some 30 bytes an event."""


DRAW_SEED = 0
"""Seed of the random points: two audits of one release must give the same figures."""


class Risk(Audit):
    """Uniqueness given `points` events of a case, over `draws` seeded draws.

    `projections`: of the source (reidentification-risk-2020, Table 3), its times floored to `resolution`; the release
    is measured on what it carries. `worst` is the release's highest mean: what the gate `max_uniqueness` reads.

    Microaggregated times are means that are dealt out at random: nobody knows which of them a record shows, so they are
    no points (`basis` "knowable"). The cases that they would single out if they were known are an upper limit
    (`as_released`), and `true_times` is the attack with true times, carried out. Noised times are a record's own times
    with noise: they stay points (`basis` "as_released").
    """

    name: ClassVar[str] = "risk"
    reads: ClassVar[Reads] = "raw"

    points: tuple[Annotated[int | str, AfterValidator(checked)], ...] = (1, 2, 4, "100%")
    """Events known of a case: numbers or shares of its length. Set it when an officer asks for the risk of a certain
    adversary, such as one who knows ten events."""
    draws: int = Field(default=5, ge=1)
    """Random draws of these events that are averaged. Set it when the standard deviation in the audit is too large to
    decide by (higher)."""
    source: bool = True
    """Whether the uniqueness of the source is measured too. Set it when the source is huge and only the risk of the
    release matters: `false`."""
    projections: tuple[Projection, ...] = ("A", "E")
    """Knowledge of the adversary about an event of the source, A to F (docs/glossary.md). Set it when a report repeats
    the table of the re-identification paper."""
    resolution: Unit = "minutes"
    """Accuracy to which times of the source are floored. Set it when an adversary knows the hour or the day of an
    event, not the minute."""
    adversary: Literal["random", "greedy"] = "random"
    """Known events are drawn at random, or chosen as those that single out fastest (`greedy`). Set it when the
    best informed neighbour counts, not the average one: `greedy`."""

    @property
    def looks_back(self) -> int:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        return 1

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure uniqueness in the source and in the release.

        Returns
        -------
        Mapping
            {status, reason, worst, basis, release: [{m, unique_mean, unique_sd}], source: [{projection, ...}],
            singletons}; with artificial times also {as_released: {worst, rows}, true_times: [{m, right, ...}]}.
        """
        released = context.candidate.log
        if not released.n_cases:
            return {"status": "not_measured", "reason": "the release has no cases"}
        artificial = context.build.time_basis == "microaggregated"
        release = self._rows(self._release_index(context, artificial_times=not artificial))
        result = {
            "status": "ok",
            "reason": "",
            "worst": _worst(release),
            "basis": "as_released" if context.build.time_basis == "noised" else "knowable",
            "carries": [*context.candidate.carries, *context.build.attributes],
            "adversary": self.adversary,
            "release": release,
            "source": self._source(context) if self.source else [],
            "singletons": _singletons(context.exposure.log, released, context.candidate.carries),
        }
        if artificial:
            rows = self._rows(self._release_index(context, artificial_times=True))
            result["as_released"] = {"worst": _worst(rows), "rows": rows}
            result["true_times"] = self._true_times(context)
        return result

    def _true_times(self, context: AuditContext) -> list[TrueTimesRow]:
        """Return the attack by true events: activities alone, then with times at the resolution and by day."""
        rng = np.random.default_rng(DRAW_SEED)
        true, released, origin = context.exposure.log, context.candidate.log, context.build.origin
        accuracies: tuple[Unit | None, ...] = (None, self.resolution)
        if self.resolution != "days":
            accuracies = (*accuracies, "days")
        return [
            {
                "times": unit,
                "m": attack.m,
                "persons": attack.persons,
                "right": attack.right,
                "wrong": attack.wrong,
                "several": attack.several,
                "none": attack.none,
            }
            for unit in accuracies
            for attack in search_persons(true, released, origin, self.points, unit, rng)
        ]

    def _rows(self, index: TraceIndex, **more: str) -> list[RiskRow]:
        rng = np.random.default_rng(DRAW_SEED)
        measured = measure(index, self.points, self.draws, rng, self.adversary)
        rows = ({**more, "m": p.m, "unique_mean": p.unique_mean, "unique_sd": p.unique_sd} for p in measured)
        return [cast(RiskRow, row) for row in rows]

    def _release_index(self, context: AuditContext, *, artificial_times: bool) -> TraceIndex:
        """Return the index of the points that the release carries.

        Every released attribute must match. A time is a point only if the release's times are informative (of the
        case: without `artificial_times`).
        """
        record = context.candidate
        timed = context.build.time_basis == "noised"
        columns = tuple(_COLUMNS[name] for name in record.carries) + ((TIME,) if timed else ())
        if not artificial_times:
            columns = tuple(name for name in columns if name != TIME)
        resolution = record.T if "relative_time" in record.carries else self.resolution
        shown = context.build.attributes
        seen = KnownColumns(tuple(dict.fromkeys(columns)), tuple(shown), resolution)  # type: ignore[arg-type]
        return TraceIndex.build(record.log.with_columns(case=shown), seen, final=True)

    def _source(self, context: AuditContext) -> list[RiskRow]:
        log = context.exposure.log
        events = default_event_attributes(log)
        cases = default_case_attributes(log, context.exposure.sensitive)
        rows: list[RiskRow] = []
        for projection in self.projections:
            try:
                seen = view(projection, events, cases, self.resolution)
            except InputError as error:
                rows.append({"projection": projection, "status": "not available", "reason": str(error)})
                continue
            if log.n_cases and seen.event:
                if context.once is not None:  # none of its cases is in the source of a later release
                    index = TraceIndex.build(log, seen, final=True)
                else:
                    index = _followed(log, seen, context.earlier, context.candidate)
                rows += self._rows(index, projection=projection, resolution=self.resolution)
                index.postings = None  # made again at each cut, and as large as the log
        return rows


def _worst(rows: Sequence[RiskRow]) -> float:
    return max(row["unique_mean"] for row in rows)


def _followed(
    log: EventLog, seen: KnownColumns, earlier: Sequence[ReleaseRecord], candidate: ReleaseRecord
) -> TraceIndex:
    """Return the source's index, taken over from the last release and brought up to date.

    Only cases that grew are coded. The last release keeps the index too: a candidate that is withheld or repaired
    takes nothing with it. Of a log of more than `FOLLOWED` events the index is made again: that takes time in
    proportion to the log, and keeping it memory.
    """
    key = f"risk.source.{seen}"
    of_publication = (record for record in reversed(earlier) if record.publication == candidate.publication)
    last = next(of_publication, None)
    former = None if last is None else last.cache.get(key)
    if log.n_events > FOLLOWED:
        if last is not None:
            last.cache.pop(key, None)
        return TraceIndex.build(log, seen, final=True)
    if former is None:
        former = TraceIndex.build(log, seen)
    else:
        former.update(log)
    candidate.cache[key] = former
    return former


def _singletons(source: EventLog, released: EventLog, carries: Sequence[str]) -> dict[str, int] | None:
    """Count variants of one case in source and release, and of the source those that the release still shows."""
    if "activity" not in carries:
        return None
    labels: dict[str, int] = {}
    in_source, in_release = singleton_variants(source, labels), singleton_variants(released, labels)
    return {"source": len(in_source), "release": len(in_release), "surviving": len(in_source & in_release)}
