"""Fill the metrics from decisions and from the fold: implements `stream.release.contract.ReleaseObserver`."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from models.dp.budget import Charge
from stream.config.settings import Settings
from stream.metrics.exporter import Metrics
from stream.release.contract import Decision

if TYPE_CHECKING:
    from stream.fold.fold import Fold
    from stream.runtime.service import ReleaseService

NANOSECONDS = 1_000_000_000
LATE = ("late",)


class MetricsObserver:
    """Reports to `metrics` what a service decided and where its fold stands. It reads counts, never records."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.metrics = metrics
        self._told = -math.inf
        self._saved = -1
        cap = settings.process.budget
        metrics.capped(*(None if one is None else float(one) for one in (cap.max_epsilon, cap.max_delta)))
        for one in settings.publication:
            every = one.build_window.every
            length = None if every is None else every / NANOSECONDS
            metrics.configured(one.name, one.build_mechanism.kind, one.gate, length)
        if any(one.late == "dlq" for one in settings.publication):
            metrics.dead_letters(LATE)

    def decided(self, publication: str, decision: Decision, spent: Charge, seconds: float) -> None:
        """A cut has its durable decision."""
        self.metrics.decided(publication, decision, seconds)
        self.metrics.budget(publication, spent)

    def opened(self, service: ReleaseService) -> None:
        """Called when this process becomes active; the gauges then hold the figures of the latest earlier release."""
        self.metrics.active(True)
        for name, pipeline in service.pipelines.items():
            self.metrics.budget(name, pipeline.account.spent)
            if pipeline.account.standing:
                self.metrics.resumed(name, pipeline.audit_of(pipeline.account.standing[-1]))

    def late(self, letters: int) -> None:
        """Events too late for a publication were sent to the dead-letter queue."""
        self.metrics.dead_letters(LATE, letters)

    def saved(self, position: int) -> None:
        """The checkpoint holds the delta topic up to `position`."""
        if position != self._saved:
            self._saved = position
            self.metrics.checkpointed()

    def folded(self, fold: Fold, *, last: bool = False) -> None:
        """Called after records were folded. Counting takes time, so it is done at most once a second, and after the
        last record of a replay."""
        now = time.monotonic()
        if now - self._told < 1 and not last:
            return
        self._told = now
        for name in fold.publications:
            self.metrics.accounted(name, fold.accounting(name))
        partitions = fold.state.partitions
        latest = {f"{source}/{number}": one.latest for (source, number), one in partitions.items()}
        self.metrics.partitions(latest, sum(one.gap for one in partitions.values()))


def serve(settings: Settings) -> Metrics | None:
    """Serve the metrics of a daemon where `[metrics]` names a port; None without one."""
    endpoint = settings.metrics
    if endpoint.port is None:
        return None
    metrics = Metrics(settings.process.name, live=True)
    metrics.serve(endpoint.port, endpoint.host)
    return metrics
