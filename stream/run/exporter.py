"""Export figures of releases, stream and budget to Prometheus, from a registry of their own.

The metrics are defined in `stream.run.metric_table`. Nothing here reads a clock of the data or decides anything. A
figure that is missing is a missing series, never a zero.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
    write_to_textfile,
)
from prometheus_client.registry import Collector

from models.dp.budget import Charge
from models.errors import InputError
from stream.release.contract import Decision, DecisionOutcome
from stream.release.documents import AnonymitySection, AuditDocument, LeakageSection
from stream.release.gate import MEASURES, GatePolicy, worst_anonymity
from stream.release.manifest import software
from stream.release.reason import CODES, Reason
from stream.release.verdict import Word
from stream.run.metric_table import DEFINITIONS, PREFIX

HOST = "127.0.0.1"
"""Figures derive from source data: loopback by default."""

BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
DIRECTIONS = {"backward": "bpl", "forward": "fpl", "total": "tpl"}
RECENT = 21
"""Moments of releases of which the expected time between two is the mean. More would follow a change later; to read
the audits of many at a start takes time."""

KINDS: dict[str, Any] = {"gauge": Gauge, "counter": Counter, "histogram": Histogram}


class Metrics:
    """All metrics of one process.

    Parameters
    ----------
    process
        Name of the process in the configuration.
    live
        Whether event time goes with wall time, as in a daemon.
    """

    def __init__(self, process: str, *, live: bool = False) -> None:
        self.process, self.live = process, live
        self.registry = CollectorRegistry()
        # By publication: length of its window (s), moments of its last releases, the moment at which its oldest sealed
        # release is due, and since when its oldest held release waits (s since 1970).
        self._every: dict[str, float] = {}
        self._sealed: dict[str, deque[float]] = {}
        self._due: dict[str, float | None] = {}
        self._held_since: dict[str, float | None] = {}
        # Totals that counters have reached, by name of the metric and values of its labels.
        self._counted: dict[tuple[str, ...], float] = {}
        # Source partitions whose lag was reported last.
        self._lagging: set[str] = set()
        self._metrics: dict[str, Any] = {}
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the series of every counter
        for definition in DEFINITIONS:
            more = {"buckets": BUCKETS} if definition.kind == "histogram" else {}
            self._metrics[definition.name] = KINDS[definition.kind](
                definition.name, definition.help, definition.labels, registry=self.registry, **more
            )
        self._set("build_info", 1, version=software()["version"])

    # --- One value ---

    def _set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge; None or NaN removes its series."""
        gauge, labels = self._metrics[PREFIX + name], {"process": self.process, **labels}
        if value is not None and not math.isnan(value):
            gauge.labels(**labels).set(value)
        else:
            gauge.remove_by_labels(labels)

    def _count(self, name: str, more: float = 1, **labels: str) -> None:
        self._metrics[PREFIX + name].labels(process=self.process, **labels).inc(more)

    def _reach(self, name: str, total: float, **labels: str) -> None:
        """Bring a counter up to a total that is kept elsewhere; a total that fell (erasure) counts as no change."""
        key = (name, *labels.values())
        before = self._counted.get(key, 0.0)
        self._count(name, max(0.0, total - before), **labels)
        self._counted[key] = total

    # --- Configuration ---

    def configured(
        self,
        publication: str,
        mechanism: str,
        policy: GatePolicy,
        every: float | None = None,
        first: float | None = None,
    ) -> None:
        """Export the bounds of a publication, and its counters at 0.

        A counter that began at 1 would be invisible to `increase`.

        Parameters
        ----------
        publication, mechanism, policy
            Name, kind of mechanism, and bounds.
        every
            Length of its window in seconds, if it has one.
        first
            Expected seconds between releases without such a window, until two releases show the real ones.
        """
        for attack, bound in policy.anonymity_bounds.items():
            self._set("anonymity_bound_cases", bound, publication=publication, attack=attack)
        for name, limit in (
            ("leakage_bound_epsilon", policy.max_tpl),
            ("budget_limit_epsilon", policy.max_epsilon),
            ("budget_limit_delta", policy.max_delta),
            ("uniqueness_bound_ratio", policy.max_uniqueness),
            ("utility_bound_ratio", policy.min_utility),
        ):
            self._set(name, None if limit is None else float(limit), publication=publication)
        self._count("releases_total", 0, publication=publication, mechanism=mechanism)
        self._count("withheld_total", 0, publication=publication)
        for reason in CODES:
            self._count("withheld_reasons_total", 0, publication=publication, reason=reason)
            self._count("warned_reasons_total", 0, publication=publication, reason=reason)
        self._set("withheld_streak_attempts", 0, publication=publication)
        self.held(publication, ())
        age = self._metrics[PREFIX + "held_age_seconds"].labels(self.process, publication)
        age.set_function(lambda: self._held_age(publication))
        if self.live:
            overdue = self._metrics[PREFIX + "waiting_overdue_seconds"].labels(self.process, publication)
            overdue.set_function(lambda: self._overdue(publication))
            if every is not None:
                self._every[publication] = every
            self._set("release_expected_seconds", every or first, publication=publication)

    def capped(self, max_epsilon: float | None, max_delta: float | None) -> None:
        """Export the process's own budget, over all of its publications."""
        self._set("process_budget_limit_epsilon", max_epsilon)
        self._set("process_budget_limit_delta", max_delta)

    # --- Releases ---

    def decided(self, publication: str, decision: Decision, seconds: float) -> None:
        """Count a decision on a cut.

        Parameters
        ----------
        publication
            Name of the publication.
        decision
            The decision.
        seconds
            From the cut until the decision was durable.
        """
        self._metrics[PREFIX + "decision_seconds"].labels(self.process, publication).observe(seconds)
        if decision.status == "withheld":
            self._count("withheld_total", publication=publication)
            self._reasons("withheld_reasons_total", publication, decision.because)
        elif decision.status == "sealed":
            self._released(publication, decision.because, decision.audit)

    def streak(self, publication: str, attempts: int) -> None:
        """Export the attempts withheld in a row, as the ledger counts them: a restart changes nothing."""
        self._set("withheld_streak_attempts", attempts, publication=publication)

    def verdict(self, publication: str, word: Word) -> None:
        """Export the verdict on all releases of a publication: 1 for the word that holds, 0 for the others."""
        for verdict_word in get_args(Word):
            self._set("verdict", verdict_word == word, publication=publication, verdict=verdict_word)

    def _reasons(self, name: str, publication: str, reasons: Iterable[Reason]) -> None:
        for code in {reason.code for reason in reasons}:
            self._count(name, publication=publication, reason=code)

    def _released(self, publication: str, warnings: Iterable[Reason], audit: AuditDocument) -> None:
        """Count a release, with the reasons that its gate only warned of, and export its figures."""
        self._reasons("warned_reasons_total", publication, warnings)
        mechanism = (audit.get("mechanism") or {}).get("kind", "")
        self._count("releases_total", publication=publication, mechanism=mechanism)
        self._sealed_at(publication, time.time())
        self._latest(publication, audit)

    def held(self, publication: str, since: Sequence[float]) -> None:
        """Export how many releases of a publication wait for a person's approval.

        Parameters
        ----------
        publication
            Name of the publication.
        since
            Start of the wait of each of these releases, in seconds since 1970.
        """
        self._held_since[publication] = min(since, default=None)
        self._set("held_releases", len(since), publication=publication)

    def _held_age(self, publication: str) -> float:
        """Return how long the oldest held release has waited, in seconds.

        A scrape calls this, since nothing else has to happen while a release is held.
        """
        since = self._held_since.get(publication)
        return 0.0 if since is None else max(0.0, time.time() - since)

    def ruled(self, outcome: DecisionOutcome, audit: AuditDocument | None) -> None:
        """Count a person's decision on a held release. An approved one is the latest release from then on."""
        if outcome.status == "approved":
            self._released(outcome.publication, outcome.because, audit or AuditDocument())

    def resumed(self, publication: str, audit: AuditDocument) -> None:
        """Export the figures of the latest release if an earlier process made it. No counter counts it."""
        self._set("release_timestamp_seconds", published(audit), publication=publication)
        self._latest(publication, audit)

    def awaited(self, publication: str, since: float, before: Sequence[float]) -> None:
        """Record since when a release is awaited.

        Parameters
        ----------
        publication
            Name of the publication.
        since
            Start of the wait, in seconds since 1970.
        before
            Moments of the last releases, which an earlier process made.
        """
        self._set("release_awaited_timestamp_seconds", since, publication=publication)
        self._sealed[publication] = deque(before, RECENT)
        self._expect(publication)

    def waiting(self, publication: str, due: float | None) -> None:
        """Export the moment of the oldest sealed release that waits, if there is one."""
        self._due[publication] = due

    def _overdue(self, publication: str) -> float:
        """Return for how long the oldest sealed release is overdue, in seconds.

        A scrape calls this, so that the figure also grows while the coordinator hangs.
        """
        due = self._due.get(publication)
        return 0.0 if due is None else max(0.0, time.time() - due)

    def _latest(self, publication: str, audit: AuditDocument) -> None:
        """Export the figures of the latest release."""
        counts = audit.get("counts") or {}
        self._set("released_events", counts.get("released"), publication=publication)
        for name in ("released_cases", "suppressed_cases", "suppressed_events"):
            self._set(name, counts.get(name), publication=publication)
        for stage, seconds in (audit.get("seconds") or {}).items():
            self._set("stage_seconds", seconds, publication=publication, stage=stage)
        self._anonymity(publication, audit.get("anonymity") or {})
        self._leakage(publication, audit.get("leakage") or {})
        self._measures(publication, audit)

    def _sealed_at(self, publication: str, now: float) -> None:
        """Export the moment of a release, from which the next one is awaited."""
        self._sealed.setdefault(publication, deque(maxlen=RECENT)).append(now)
        for name in ("release_timestamp_seconds", "release_awaited_timestamp_seconds"):
            self._set(name, now, publication=publication)
        self._expect(publication)

    def _expect(self, publication: str) -> None:
        """Export the mean time between the last releases, unless windows have a fixed length."""
        moments = self._sealed[publication]
        if len(moments) > 1 and publication not in self._every:
            mean = (moments[-1] - moments[0]) / (len(moments) - 1)
            self._set("release_expected_seconds", mean, publication=publication)

    def _anonymity(self, publication: str, anonymity: AnonymitySection) -> None:
        for attack in MEASURES:
            worst = worst_anonymity(anonymity, attack)
            self._set("anonymity_worst_cases", worst, publication=publication, attack=attack)
        rows = [row for pair in anonymity.get("results") or () for row in pair["results"]]
        for n in anonymity.get("n") or ():
            rows_of_n = [row for row in rows if row.get("n") == n and row.get("linker") != "none"]
            for attack, key in (("ka", "ka2"), ("fa", "fa"), ("ca", "ca"), ("ba", "ba")):
                least = min(_numbers(rows_of_n, key), default=None)
                self._set("anonymity_cases", least, publication=publication, attack=attack, n=str(n))
        for attack, key in (("fa", "fc"), ("ca", "cc"), ("ba", "bc")):
            most = max(_numbers(rows, key), default=None)
            self._set("cracked_ratio", most, publication=publication, attack=attack)

    def _leakage(self, publication: str, leakage: LeakageSection) -> None:
        rows = leakage.get("releases") or ()
        for direction, key in DIRECTIONS.items():
            most = max(_numbers(rows, key), default=None)
            if direction == "total" and most is None:
                most = leakage.get("max_tpl")
            self._set("leakage_epsilon", most, publication=publication, direction=direction)

    def _measures(self, publication: str, audit: AuditDocument) -> None:
        risk, utility = audit.get("risk") or {}, audit.get("utility") or {}
        source = max(_numbers(risk.get("source") or (), "unique_mean"), default=None)
        self._set("uniqueness_ratio", risk.get("worst"), publication=publication, direction="release")
        self._set("uniqueness_ratio", source, publication=publication, direction="source")
        self._set("series_worst_cases", (audit.get("series") or {}).get("worst"), publication=publication)
        self._set("utility_data_ratio", utility.get("data_utility"), publication=publication)
        self._set("utility_graph_ratio", (utility.get("dfg") or {}).get("f1"), publication=publication)

    def budget(self, publication: str, spent: Charge) -> None:
        """Export the charges of a publication, if its mechanism ever charges."""
        if spent != Charge():
            self._set("budget_spent_epsilon", float(spent.epsilon), publication=publication)
            self._set("budget_spent_delta", float(spent.delta), publication=publication)

    def affordable(self, publication: str, releases_left: int | None) -> None:
        """Export how many further releases the limits can pay for; None if nothing bounds them."""
        self._set("budget_left_releases", releases_left, publication=publication)

    def process_budget(self, spent: Charge) -> None:
        """Export the charges of all publications together, former ones included."""
        if spent != Charge():
            self._set("process_budget_spent_epsilon", float(spent.epsilon))
            self._set("process_budget_spent_delta", float(spent.delta))

    # --- Stream ---

    def accounted(self, publication: str, accounting: Mapping[str, int]) -> None:
        """Export counts of the fold (`Fold.accounting`)."""
        self._set("pending_events", accounting["pending"], publication=publication)
        self._set("late_events", accounting["late"], publication=publication)
        self._set("open_cases", accounting["cases"])
        accepted = accounting["seen"] + accounting["removed_events"]
        counted_before = self._counted.get(("events_total",))
        if counted_before is None and self.live:
            # The first report of a daemon counts the events of the state that it restored. None of them came now.
            counted_before = accepted
        if accepted > (counted_before or 0):
            self._set("last_event_timestamp_seconds", time.time())
        self._reach("events_total", accepted)
        self._reach("duplicate_events_total", accounting["duplicates"])
        self._reach("foreign_events_total", accounting["foreign"])
        self._reach("refused_events_total", accounting["refused"])

    def partitions(self, latest: Mapping[str, int | None], gaps: int) -> None:
        """Export the latest event time (ns) of each partition, and how many partitions miss offsets."""
        for partition, moment in latest.items():
            self._set("watermark_timestamp_seconds", None if moment is None else moment / 1e9, partition=partition)
        self._set("gap_partitions", gaps)

    def contact(self, at: float) -> None:
        """Report when the broker answered last, in seconds since 1970."""
        self._set("broker_contact_timestamp_seconds", at)

    def unreadable(self, partitions: int) -> None:
        """Export how many partitions stopped at a record batch that cannot be decoded."""
        self._set("unreadable_partitions", partitions)

    def ingested(
        self,
        events: int,
        dead: Mapping[str, int],
        lag: Mapping[str, int],
        left_out: Mapping[str, int],
    ) -> None:
        """Export totals of an ingest worker, and its lag by partition (`topic/number`).

        A partition that is not in `lag` any more belongs to another worker: its series ends here.

        Parameters
        ----------
        events
            Total of source events that the worker made durable.
        dead
            Total of dead letters, by reason.
        lag
            Records that were not read yet, by partition.
        left_out
            Total of records that became no event without a fault, by reason.
        """
        self._reach("ingest_events_total", events)
        for reason, count in dead.items():
            self._reach("dlq_records_total", count, reason=reason)
        for reason, count in left_out.items():
            self._reach("ingest_left_out_total", count, reason=reason)
        for partition in self._lagging - lag.keys():
            self._set("ingest_lag_records", None, partition=partition)
        for partition, records in lag.items():
            self._set("ingest_lag_records", records, partition=partition)
        self._lagging = set(lag)

    def dead_letters(self, reasons: Iterable[str], count: int = 0) -> None:
        """Count `count` more dead letters of each reason.

        0 creates the series; without it `increase` would not see the first dead letter.
        """
        for reason in reasons:
            self._count("dlq_records_total", count, reason=reason)

    def leaves_out(self, reasons: Iterable[str]) -> None:
        """Create the counters of records that become no event before the first such record."""
        for reason in reasons:
            self._count("ingest_left_out_total", 0, reason=reason)

    def rebalanced(self, count: int = 1) -> None:
        """Count assignments of partitions.

        0 creates the series; without it `increase` would not see the first assignment.
        """
        self._count("rebalances_total", count)

    def delta_lag(self, records: int) -> None:
        """Export how many records of the delta topic are not folded yet."""
        self._set("delta_lag_records", records)

    def checkpoint_took(self, seconds: float) -> None:
        """Count a checkpoint by its duration."""
        self._metrics[PREFIX + "checkpoint_seconds"].labels(self.process).observe(seconds)

    def checkpointed(self) -> None:
        """Record that the state was saved now."""
        self._set("checkpoint_timestamp_seconds", time.time())

    def checkpoint(self, size: int, saved: float | None = None) -> None:
        """Export the size of the newest checkpoint, and the moment `saved` at which an earlier process wrote it."""
        self._set("checkpoint_bytes", size)
        if saved is not None:
            self._set("checkpoint_timestamp_seconds", saved)

    def last_delta_record(self, moment: float) -> None:
        """Export the broker's time of the last delta record that was folded."""
        self._set("delta_timestamp_seconds", moment)

    def free_space(self, place: str, ask: Callable[[], float]) -> None:
        """Export the free bytes of a place.

        `ask` is called at each scrape, so a standby, or a process that ends before each release, exports
        them too.
        """
        self._metrics[PREFIX + "free_bytes"].labels(self.process, place).set_function(ask)

    def free_bound(self, least: int) -> None:
        """Export how many bytes a release needs (`min_free_bytes`)."""
        self._set("free_bound_bytes", least)

    def active(self, yes: bool) -> None:
        """Export whether this process decides releases."""
        self._set("coordinator_active", int(yes))

    # --- Output ---

    def serve(self, port: int, host: str = HOST) -> tuple[int, Any]:
        """Serve on host:port from a thread; return the port (0 takes a free one) and the server.

        `process_*` metrics are served too: in a textfile they would be taken for the node exporter's own.
        """
        served = CollectorRegistry()
        served.register(_Registered(self.registry))
        ProcessCollector(registry=served)
        try:
            server, _thread = start_http_server(port, addr=host, registry=served)
        except OSError as error:
            raise InputError(f"metrics port {host}:{port}: {error.strerror}; choose another port") from None
        return int(server.server_port), server

    def write(self, path: Path) -> None:
        """Replace a textfile for a node exporter."""
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None


class _Registered(Collector):
    """Collects the metrics of one registry for another one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def collect(self) -> Iterable[Metric]:
        return self.registry.collect()

    def describe(self) -> Iterable[Metric]:
        """Return no names. The registry has already checked that they are unique."""
        return ()


def _numbers(rows: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [value for row in rows if (value := row.get(key)) is not None]


def published(audit: AuditDocument) -> float | None:
    """Return the time at which a release was published; None without a real clock."""
    moment = audit.get("published")
    if moment is None or audit.get("clock") == "simulated":
        return None
    return datetime.fromisoformat(moment).timestamp()
