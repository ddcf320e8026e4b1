"""Fill the metrics from decisions and from the fold: implements `stream.release.contract.ReleaseObserver`."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from models.dp.budget import Charge
from models.errors import RefusedError
from stream.config.settings import Settings
from stream.release.contract import Decision, DecisionOutcome
from stream.release.documents import AuditDocument
from stream.release.verdict import PublicationSeries, judged
from stream.run.exporter import RECENT, Metrics, published
from stream.run.figures import series_by_publication

if TYPE_CHECKING:
    from stream.fold.fold import Fold
    from stream.release.pipeline import Pipeline
    from stream.run.service import ReleaseService

NANOSECONDS = 1_000_000_000
LATE = ("late",)
FIRST_RELEASE_SECONDS = 7 * 86_400.0
"""When the first release is expected of a window that counts: until two releases show how far apart they are, nothing
else says how long it takes."""


class MetricsObserver:
    """Reports decisions of a service and progress of its fold to `metrics`. It reads counts, never records."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.metrics = metrics
        self._service: ReleaseService | None = None
        self._series: dict[str, PublicationSeries] = {}
        self._counted_at = -math.inf
        self._saved = -1
        cap = settings.process.budget
        limits = [None if limit is None else float(limit) for limit in (cap.max_epsilon, cap.max_delta)]
        metrics.capped(*limits)
        for publication in settings.publication:
            window = publication.build_window
            length = None if window.every is None else window.every / NANOSECONDS
            first = None if window.manual else FIRST_RELEASE_SECONDS
            metrics.configured(publication.name, publication.build_mechanism.kind, publication.gate, length, first)
        if any(publication.late == "dlq" for publication in settings.publication):
            metrics.dead_letters(LATE)

    @property
    def _pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines by publication; none before the service is attached."""
        return {} if self._service is None else self._service.pipelines

    def decided(self, publication: str, decision: Decision, spent: Charge, seconds: float) -> None:
        """Count a durable decision on a cut.

        Parameters
        ----------
        publication
            Name of the publication.
        decision
            The decision.
        spent
            Epsilon and delta of everything that was charged to the publication so far.
        seconds
            Seconds from the cut until the decision was durable.
        """
        self.metrics.decided(publication, decision, seconds)
        self.metrics.budget(publication, spent)
        if publication in self._pipelines:
            self.metrics.streak(publication, self._pipelines[publication].account.streak)
        self._add(publication, decision)
        self._budgets()
        self._held()

    def ruled(self, outcome: DecisionOutcome, audit: AuditDocument | None) -> None:
        """Count a decision on a held release."""
        self.metrics.ruled(outcome, audit)
        if outcome.status == "approved":
            self._series_of(outcome.publication).add(audit or AuditDocument())
            self._verdicts()
        self._held()

    def _held(self) -> None:
        for name, pipeline in self._pipelines.items():
            account = pipeline.account
            since = [(account.seals[number].body.held_at or 0) / NANOSECONDS for number in account.held]
            self.metrics.held(name, since)

    def opened(self, service: ReleaseService) -> None:
        """Report that this process is active; gauges then show figures of the last release."""
        self.metrics.active(True)
        self.attached(service)

    def attached(self, service: ReleaseService) -> None:
        """Report what the ledger contains, and read counts from this service from now on."""
        self._service, self._series = service, series_by_publication(service)
        live = self.metrics.live
        for name, pipeline in service.pipelines.items():
            self.metrics.budget(name, pipeline.spent.charge)
            audits = _last_audits(pipeline, RECENT if live else 1)
            if audits:
                self.metrics.resumed(name, audits[-1])
            self.metrics.streak(name, pipeline.account.streak)
            # The moments of a replay are those of its log, and no wait is counted from them.
            moments = [moment for moment in map(published, audits) if live and moment is not None]
            waits_since = moments[-1] if moments else self._begun(service, name)
            self.metrics.awaited(name, waits_since, moments)
        saved = service.checkpoints.newest()
        if saved is not None:
            self.metrics.checkpoint(saved.size, saved.saved)
        self._verdicts()
        self._budgets()
        self._held()

    def _add(self, publication: str, decision: Decision) -> None:
        series = self._series_of(publication)
        if decision.status == "withheld":
            series.refuse([reason.text for reason in decision.because])
        elif decision.status == "sealed":  # what is held has not left
            series.add(decision.audit)
        self._verdicts()

    def _series_of(self, publication: str) -> PublicationSeries:
        return self._series.setdefault(publication, PublicationSeries(publication))

    def _verdicts(self) -> None:
        """Set the verdicts of all publications: a release of one can end the promise of another."""
        for name, pipeline in self._pipelines.items():
            self._series_of(name).held = len(pipeline.account.held)
        for verdict in judged(self._series):
            self.metrics.verdict(verdict.publication, verdict.verdict)

    def _begun(self, service: ReleaseService, name: str) -> float:
        """Return since when a publication without a release waits: its first record in the ledger, else now."""
        seen = service.first_seen(name) if self.metrics.live else None
        return time.time() if seen is None else seen / NANOSECONDS

    def _budgets(self) -> None:
        """Set the budgets of all publications after each decision: they share that of the process."""
        for name, pipeline in self._pipelines.items():
            self.metrics.affordable(name, pipeline.releases_left)
            self.metrics.process_budget(pipeline.spent_by_process.charge)

    def late(self, letters: int) -> None:
        """Count events that were too late and went to the dead-letter queue."""
        self.metrics.dead_letters(LATE, letters)

    def saved(self, position: int) -> None:
        """Report that the checkpoint contains the delta topic up to `position`."""
        if position != self._saved:
            self._saved = position
            self.metrics.checkpointed()

    def folded(self, fold: Fold, *, last: bool = False, last_record_at: float | None = None) -> None:
        """Report progress after records were folded.

        Counting takes time, so it is done at most once a second, and after the last record of a replay.

        Parameters
        ----------
        fold
            The fold.
        last
            Whether this was the last record of a replay.
        last_record_at
            The broker's time of the last record, if known.
        """
        now = time.monotonic()
        if now - self._counted_at < 1 and not last:
            return
        self._counted_at = now
        if last_record_at is not None:
            self.metrics.last_delta_record(last_record_at)
        # The thread that makes a decision changes the ledger and what waits for its moment.
        if not fold.awaits_decision:
            self._files()
        for name in fold.publications:
            self.metrics.accounted(name, fold.accounting(name))
        partitions = fold.state.partitions
        latest = {}
        for (source, number), partition in partitions.items():
            latest[f"{source}/{number}"] = partition.latest
        self.metrics.partitions(latest, sum(partition.gap for partition in partitions.values()))

    def _files(self) -> None:
        """Report releases that wait for their moment, and the size of the checkpoint."""
        if self._service is None:
            return
        for name, pipeline in self._pipelines.items():
            due = (seal.body.publish_at for seal in pipeline.waiting.values())
            moments = [moment for moment in due if moment is not None]
            self.metrics.waiting(name, min(moments) / NANOSECONDS if moments else None)
        self._held()
        saved = self._service.checkpoints.newest()
        if saved is not None:
            self.metrics.checkpoint(saved.size)


def watch_space(metrics: Metrics, settings: Settings, output: Path) -> None:
    """Export the free space of the output folder and, where releases go to another folder, of that one.

    Called before anything is written, so that a process that cannot begin on a full disk exports the reason.
    """
    metrics.free_bound(settings.min_free_bytes)
    places = {"operator": output}
    if settings.store is not None and "://" not in settings.store.removeprefix("file://"):
        places["store"] = Path(settings.store.removeprefix("file://"))
    for place, folder in places.items():
        metrics.free_space(place, partial(_free_bytes, folder))


def _free_bytes(folder: Path) -> float:
    """Free bytes of the file system of a folder that may not have been made yet; NaN if it does not answer."""
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    try:
        return float(shutil.disk_usage(existing).free)
    except OSError:
        return math.nan


def _last_audits(pipeline: Pipeline, most: int) -> list[AuditDocument]:
    """Return the audits of the last releases, oldest first. One that cannot be read is left out."""
    audits = []
    for number in pipeline.account.released_numbers[-most:]:
        with contextlib.suppress(RefusedError):  # the series of the verdict has reported it
            audits.append(pipeline.audit_of(number))
    return audits


def serve(settings: Settings) -> Metrics | None:
    """Serve the metrics of a daemon where `[metrics]` names a port; None without one."""
    endpoint = settings.metrics
    if endpoint.port is None:
        return None
    metrics = Metrics(settings.process.name, live=True)
    metrics.serve(endpoint.port, endpoint.host)
    return metrics
