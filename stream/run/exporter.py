"""Prometheus: what is measured of releases, stream and budget, in a registry of one's own.

Nothing here reads a clock of the data or decides anything; a missing figure is a missing series, never a zero.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

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

# Every metric that veilstream shows: the one table that the registry, docs/metrics.md and the lint come
# from.
#
# Labels are bounded by the configuration or by this program, never by the data: no case, no activity, no
# release number.

PREFIX = "veilstream_"
PROCESS = ("process",)
PUBLICATION = ("process", "publication")

LABELS = {
    "process": "`process.name` of the configuration",
    "publication": "`publication.name` of the configuration",
    "attack": "ka, fa, ca, ba (proportion cracked: fa, ca, ba)",
    "direction": "leakage: backward, forward, total; uniqueness: source, release",
    "mechanism": "`mechanism.kind` of the publication",
    "reason": "a closed list: what the gate, the dead-letter queue or the mappings name",
    "partition": "`topic/number` of a source partition; `log/0` in a replay",
    "n": "`audit.n` of the publication (a handful)",
    "version": "of the program, as in manifests",
    "verdict": "SAFE, LIMITED, DP VOID, WAITING, WITHHELD, NOTHING RELEASED",
    "place": "operator: state, ledger and audits; store: releases, if they are in another folder",
    "stage": "build, the name of each audit, files, read_back",
}


SITUATION = "Look at it when "


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `unit` is the base unit, which the name ends with (before `_total`).

    `text` defines the metric, and ends with the situation in which somebody looks at it.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    unit: str
    text: str

    @property
    def help(self) -> str:
        """Description of the metric, as a scrape shows it."""
        return self.text.partition(SITUATION)[0].strip()

    @property
    def situation(self) -> str:
        """Situation in which somebody looks at it."""
        _, start, situation = self.text.partition(SITUATION)
        return start + situation

    def markdown(self) -> str:
        """Return the row of docs/metrics.md."""
        situation = self.situation.removeprefix(SITUATION)
        return f"| `{self.name}` | {self.kind} | {', '.join(self.labels)} | {self.help} | {situation} |"


def _rows() -> Iterator[Definition]:
    yield from _stream()
    yield from _releases()
    yield from _anonymity()
    yield from _budget()


def _stream() -> Iterator[Definition]:
    def row(
        kind: Literal["gauge", "counter", "histogram"],
        name: str,
        unit: str,
        text: str,
        labels: tuple[str, ...] = PROCESS,
    ) -> Definition:
        return Definition(PREFIX + name, kind, labels, unit, text)

    partition = ("process", "partition")
    yield row(
        "counter",
        "ingest_events_total",
        "events",
        "Source events that this ingest worker made durable. Look at it when a worker may be slower than its topic.",
    )
    yield row(
        "gauge",
        "ingest_lag_records",
        "records",
        "Source records not yet taken, at the last report. Look at it when releases lack the newest "
        "events, or to decide on further workers.",
        partition,
    )
    yield row(
        "counter",
        "dlq_records_total",
        "records",
        "Records sent to the dead-letter queue. Look at it when a producer was changed, since its "
        "records may no longer be readable.",
        ("process", "reason"),
    )
    yield row(
        "counter",
        "ingest_left_out_total",
        "records",
        "Sound records that became no event: of no mapping, unchanged, snapshot, tombstone, transition "
        "not asked for. Look at it when events of a table are missing although nothing is in the dlq.",
        ("process", "reason"),
    )
    yield row(
        "counter",
        "events_total",
        "events",
        "Events that the fold accepted. Look at it when the daemon may receive nothing any more.",
    )
    yield row(
        "counter",
        "duplicate_events_total",
        "events",
        "Events that the fold dropped as repeats. Look at it when a producer sends again after a failure.",
    )
    yield row(
        "counter",
        "foreign_events_total",
        "events",
        "Events under another pseudonym key, rejected. Look at it when a host was set up with a key of "
        "its own by mistake.",
    )
    yield row(
        "counter",
        "refused_events_total",
        "events",
        "Events of erased or retired cases, rejected. Look at it when a person was erased and the "
        "information system still sends events.",
    )
    yield row(
        "gauge",
        "open_cases",
        "cases",
        "Cases in the state. Look at it when the coordinator's memory grows, and `process.retention` may be missing.",
    )
    yield row(
        "gauge",
        "pending_events",
        "events",
        "Accepted events that no release exposes yet. Look at it when recipients ask how much the next "
        "release will bring.",
        PUBLICATION,
    )
    yield row(
        "gauge",
        "late_events",
        "events",
        "Events left out because they came after their window. Look at it when `allowed_lateness` may be "
        "too short for a source.",
        PUBLICATION,
    )
    yield row(
        "gauge",
        "watermark_timestamp_seconds",
        "seconds",
        "Latest event time, since 1970. Look at it when an event-time window does not close: one partition may lag.",
        partition,
    )
    yield row(
        "gauge",
        "gap_partitions",
        "partitions",
        "Source partitions with missing offsets; nothing is released. Look at it when releases stop "
        "after a topic was truncated or deleted.",
    )
    yield row(
        "gauge",
        "broker_contact_timestamp_seconds",
        "seconds",
        "When the broker last answered this process, since 1970 (daemon). "
        "Look at it when nothing moves and the network may be the cause.",
    )
    yield row(
        "gauge",
        "unreadable_partitions",
        "partitions",
        "Partitions of this process that stopped at a record batch that cannot be decoded (daemon). Look "
        "at it when one partition no longer advances after a disk fault.",
    )
    yield row(
        "gauge",
        "delta_timestamp_seconds",
        "seconds",
        "Broker's time of the last folded delta, since 1970. Look at it when the coordinator may have "
        "fallen behind the ingest workers.",
    )
    yield row(
        "gauge",
        "delta_lag_records",
        "records",
        "Records of the delta topic that the active coordinator has not folded yet, at the last report; markers of "
        "transactions count (daemon). Look at it when a build is under way, to see how much waits behind it.",
    )
    yield row(
        "counter",
        "rebalances_total",
        "rebalances",
        "Assignments of partitions that this process received from its group, the one at its start included (daemon). "
        "Look at it when intake stops for seconds again and again: a member may come and go.",
    )
    yield row(
        "histogram",
        "checkpoint_seconds",
        "seconds",
        "Duration of a checkpoint, its mirror included (daemon). Look at it when a slow disk or store may delay "
        "releases: nothing is folded meanwhile.",
    )
    yield row(
        "gauge",
        "checkpoint_timestamp_seconds",
        "seconds",
        "When the state was last saved, since 1970. Look at it when a restart would have to read many deltas again.",
    )
    yield row(
        "gauge",
        "checkpoint_bytes",
        "bytes",
        "Size of the newest checkpoint, with the changes behind it. Look at it when you plan disk space, "
        "or checkpoints become slow.",
    )
    yield row(
        "gauge",
        "free_bytes",
        "bytes",
        "Space left where the coordinator writes. Look at it when the disk fills: releases stop before it is full.",
        ("process", "place"),
    )
    yield row(
        "gauge",
        "free_bound_bytes",
        "bytes",
        "Space that a release needs (`min_free_bytes`). Look at it when free space is judged: below this "
        "bound no release is built.",
    )
    yield row(
        "gauge",
        "last_event_timestamp_seconds",
        "seconds",
        "When an event was accepted last, since 1970. Look at it when the information system may have stopped sending.",
    )
    yield row(
        "gauge",
        "coordinator_active",
        "",
        "1 if this process decides releases, 0 if it is on standby. Look at it when a failover "
        "happened: exactly one host must show 1.",
    )
    yield row(
        "gauge",
        "build_info",
        "",
        "1, with the version of the program. "
        "Look at it when hosts are upgraded one by one, and one may run the old program.",
        ("process", "version"),
    )


def _releases() -> Iterator[Definition]:
    def row(
        name: str,
        unit: str,
        text: str,
        kind: Literal["gauge", "counter", "histogram"] = "gauge",
        more: tuple[str, ...] = (),
    ) -> Definition:
        return Definition(PREFIX + name, kind, (*PUBLICATION, *more), unit, text)

    yield row(
        "verdict",
        "",
        "1 for the verdict on all releases together, 0 for the other words. Look at it when an officer "
        "asks whether recipients may keep what they have.",
        more=("verdict",),
    )
    yield row(
        "releases_total",
        "releases",
        "Releases sealed since this process started. Look at it when you compare how often publications release.",
        "counter",
        ("mechanism",),
    )
    yield row(
        "withheld_total",
        "attempts",
        "Attempts withheld since this process started. Look at it when recipients wait although windows close.",
        "counter",
    )
    yield row(
        "withheld_reasons_total",
        "reasons",
        "Reasons of withheld attempts. Look at it when a gate withholds, to learn which bound is broken.",
        "counter",
        ("reason",),
    )
    yield row(
        "warned_reasons_total",
        "reasons",
        'Reasons that a gate only warned of. Look at it when bounds are tried out with `on_violation = "warn"`.',
        "counter",
        ("reason",),
    )
    yield row(
        "withheld_streak_attempts",
        "attempts",
        "Attempts withheld since the last release, by the ledger. Look at it when single withheld "
        "attempts are normal and only a row of them is a fault.",
    )
    yield row(
        "release_timestamp_seconds",
        "seconds",
        "When the latest release was sealed, since 1970. Look at it when recipients ask how old their release is.",
    )
    yield row(
        "release_awaited_timestamp_seconds",
        "seconds",
        "Since when a release is awaited, since 1970: the latest one, else when series or process began. "
        "Look at it when a new publication has published nothing yet.",
    )
    yield row(
        "release_expected_seconds",
        "seconds",
        "Time between releases: `every` (daemon), else the mean of the last 20 (a week before two). Look "
        "at it when an alert on a missing release needs a pace to compare with.",
    )
    yield row(
        "waiting_overdue_seconds",
        "seconds",
        "Wait of a sealed release past its moment (daemon). Look at it when a dp release was "
        "sealed and is not published in time.",
    )
    yield row(
        "held_releases",
        "releases",
        "Sealed releases that wait for a person's approval. Look at it when officers share the work of approving.",
    )
    yield row(
        "held_age_seconds",
        "seconds",
        "Wait of the oldest of them so far; 0 if none waits. "
        "Look at it when an officer may have forgotten an approval.",
    )
    yield row(
        "decision_seconds",
        "seconds",
        "From a cut to its durable decision. Look at it when releases come later than recipients were promised.",
        "histogram",
    )
    yield row(
        "stage_seconds",
        "seconds",
        "Duration of a stage of the latest release. Look at it when a release takes long, to learn "
        "whether mechanism, audit or disk is slow.",
        more=("stage",),
    )
    yield row(
        "released_cases",
        "cases",
        "Cases in the latest release (not reported for dp releases). Look at it when a release is "
        "smaller than recipients expect.",
    )
    yield row(
        "released_events",
        "events",
        "Events in the latest release (not reported for dp releases). Look at it when you follow how "
        "much of the log recipients see.",
    )
    yield row(
        "suppressed_cases",
        "cases",
        "Cases that the mechanism left out of the latest release. Look at it when whole cases disappear: "
        "bounds may be too strict for this log.",
    )
    yield row(
        "suppressed_events",
        "events",
        "Events that the mechanism left out of the latest release. Look at it when models mined from "
        "releases lack activities.",
    )


def _anonymity() -> Iterator[Definition]:
    def row(name: str, unit: str, text: str, *more: str) -> Definition:
        return Definition(PREFIX + name, "gauge", (*PUBLICATION, *more), unit, text)

    yield row(
        "anonymity_cases",
        "cases",
        "Least anonymity of the latest release by attack and n. Look at it when you ask how much an "
        "adversary gains who allows for removed events.",
        "attack",
        "n",
    )
    yield row(
        "anonymity_worst_cases",
        "cases",
        "Least anonymity as the gate reads it. Look at it when anonymity approaches the bound, before a "
        "gate withholds.",
        "attack",
    )
    yield row(
        "anonymity_bound_cases",
        "cases",
        "Bound of the gate (min_ka and so on). Look at it when anonymity is judged: a figure below this "
        "line broke the gate.",
        "attack",
    )
    yield row(
        "cracked_ratio",
        "ratio",
        "Highest proportion cracked (FC, CC, BC) against an earlier release. Look at it when an officer "
        "asks which share of a group the attacks exclude.",
        "attack",
    )
    yield row(
        "series_worst_cases",
        "cases",
        "Least anonymity left over a series of releases. Look at it when recipients keep many releases, "
        "and pairs alone look fine.",
    )
    yield row(
        "uniqueness_ratio",
        "ratio",
        "Highest share of unique cases, by the attacker's knowledge. Look at it when you compare the risk "
        "of a release with that of its source.",
        "direction",
    )
    yield row(
        "uniqueness_bound_ratio",
        "ratio",
        "Bound of the gate (max_uniqueness). Look at it when uniqueness is judged: a share above this "
        "line broke the gate.",
    )
    yield row(
        "utility_data_ratio",
        "ratio",
        "Data utility of the latest release. Look at it when recipients doubt that frequencies of "
        "variants are still true.",
    )
    yield row(
        "utility_graph_ratio",
        "ratio",
        "F1 of the directly-follows graph of the latest release. Look at it when recipients draw process "
        "maps from releases.",
    )
    yield row(
        "utility_bound_ratio",
        "ratio",
        "Bound of the gate (min_utility). Look at it when utility is judged: a release below this line is withheld.",
    )


def _budget() -> Iterator[Definition]:
    def row(name: str, unit: str, text: str, *more: str) -> Definition:
        return Definition(PREFIX + name, "gauge", (*PUBLICATION, *more), unit, text)

    yield row(
        "leakage_epsilon",
        "epsilon",
        "Largest BPL, FPL, TPL over the releases (replacement). Look at it when a dp series grows "
        "longer, since leakage grows with it.",
        "direction",
    )
    yield row(
        "leakage_bound_epsilon",
        "epsilon",
        "Bound of the gate (max_tpl). Look at it when leakage is judged: above this line a series ends.",
    )
    yield row(
        "budget_spent_epsilon",
        "epsilon",
        "Epsilon of all charges so far, composed exactly, withheld attempts included. Look at it when you "
        "decide how many dp releases may still follow.",
    )
    yield row(
        "budget_limit_epsilon",
        "epsilon",
        "Limit of the gate (max_epsilon). Look at it when the epsilon that is left is computed: limit less spending.",
    )
    yield row(
        "budget_spent_delta",
        "delta",
        "Delta at which that epsilon holds, withheld attempts included. Look at it when delta rather than epsilon "
        "ends a dp series.",
    )
    yield row(
        "budget_limit_delta",
        "delta",
        "Limit of the gate (max_delta). Look at it when the delta that is left is computed: limit less spending.",
    )
    yield row(
        "budget_left_releases",
        "releases",
        "Further releases that every limit of epsilon and delta can pay. Look at it when a budget runs "
        "out and recipients must hear of it in time.",
    )
    for unit in ("epsilon", "delta"):
        text = (
            f"{unit.capitalize()} of all charges of all publications by the account, former ones included. Look at it "
            f"when several publications or renamed ones spend the {unit} of the same people."
        )
        yield Definition(f"{PREFIX}process_budget_spent_{unit}", "gauge", PROCESS, unit, text)
        text = (
            f"Limit over all publications (process.budget.max_{unit}). Look at it when the {unit} that all "
            "publications together have left is computed."
        )
        yield Definition(f"{PREFIX}process_budget_limit_{unit}", "gauge", PROCESS, unit, text)


DEFINITIONS = tuple(_rows())


def page() -> str:
    """docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Made by `python -m stream.run.exporter`; a test checks that it is current.",
        "",
        "`veilstream replay LOG --metrics-port PORT` serves them while it runs, `--metrics-textfile FILE` leaves them",
        "for a node exporter; the daemon serves them at `[metrics]` (`host`, `port`; with `--role all` the coordinator",
        "takes the next port). They derive from source data: the default is loopback. Gauges hold the latest release,",
        "counters begin at the start of the process; history is in the ledger. A gauge without meaning for a release",
        "(anonymity of a dp release, a bound that is not set) has no series. The endpoint also serves `process_*`",
        "(memory, open files, start); a textfile does not. Alerts: [runbooks](runbooks/README.md).",
        "",
        "| metric | type | labels | meaning | look at it when |",
        "| --- | --- | --- | --- | --- |",
        *(definition.markdown() for definition in DEFINITIONS),
        "",
        "| label | values |",
        "| --- | --- |",
        *(f"| {name} | {values} |" for name, values in LABELS.items()),
        "",
        f"Reasons of gates: {', '.join(CODES)}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())


HOST = "127.0.0.1"
"""Figures derive from source data: loopback by default."""

BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
DIRECTIONS = {"backward": "bpl", "forward": "fpl", "total": "tpl"}
RECENT = 21
"""Moments of releases of which the expected time between two is the mean. More would follow a change later; to read
the audits of many at a start takes time."""

KINDS: dict[str, Any] = {"gauge": Gauge, "counter": Counter, "histogram": Histogram}


class Metrics:
    """All metrics of one process, in `registry`. `live`: event time goes with wall time (daemon)."""

    def __init__(self, process: str, registry: CollectorRegistry | None = None, *, live: bool = False) -> None:
        self.process, self.live = process, live
        self.registry = CollectorRegistry() if registry is None else registry
        self._every: dict[str, float] = {}
        self._sealed: dict[str, deque[float]] = {}
        self._due: dict[str, float | None] = {}
        self._held: dict[str, float | None] = {}
        self._counted: dict[tuple[str, ...], float] = {}
        self._lagging: set[str] = set()
        """Source partitions whose lag was reported last."""
        self._metrics: dict[str, Any] = {}
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the series of every counter
        for definition in DEFINITIONS:
            more = {"buckets": BUCKETS} if definition.kind == "histogram" else {}
            self._metrics[definition.name] = KINDS[definition.kind](
                definition.name, definition.help, definition.labels, registry=self.registry, **more
            )
        self._set("build_info", 1, version=software()["version"])

    # one value

    def _set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge; None takes its series away: what does not apply has no number."""
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

    # configuration

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

    # releases

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
            self._release(publication, decision)

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

    def _release(self, publication: str, decision: Decision) -> None:
        self._reasons("warned_reasons_total", publication, decision.because)
        self._leaves(publication, decision.audit)

    def _leaves(self, publication: str, audit: AuditDocument) -> None:
        mechanism = (audit.get("mechanism") or {}).get("kind", "")
        self._count("releases_total", publication=publication, mechanism=mechanism)
        self._sealed_at(publication, time.time())
        self._latest(publication, audit)

    def held(self, publication: str, since: Sequence[float]) -> None:
        """Since when (seconds since 1970) each release of a publication that waits for a person has waited."""
        self._held[publication] = min(since, default=None)
        self._set("held_releases", len(since), publication=publication)

    def _held_age(self, publication: str) -> float:
        """Asked at each scrape: nothing else has to happen while a release is held."""
        since = self._held.get(publication)
        return 0.0 if since is None else max(0.0, time.time() - since)

    def ruled(self, outcome: DecisionOutcome, audit: AuditDocument | None) -> None:
        """Count a person's decision on a held release; a published one is the latest release from then on."""
        if outcome.status == "approved":
            self._reasons("warned_reasons_total", outcome.publication, outcome.because)
            self._leaves(outcome.publication, audit or AuditDocument())

    def resumed(self, publication: str, audit: AuditDocument) -> None:
        """Export the latest release of an earlier process: its figures, which are counted nowhere."""
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
        """Asked at each scrape: it grows also where the coordinator hangs."""
        due = self._due.get(publication)
        return 0.0 if due is None else max(0.0, time.time() - due)

    def _latest(self, publication: str, audit: AuditDocument) -> None:
        counts = audit.get("counts") or {}
        for name, key in (("released_events", "released"), *((k, k) for k in KEPT)):
            self._set(name, counts.get(key), publication=publication)
        for stage, seconds in (audit.get("seconds") or {}).items():
            self._set("stage_seconds", seconds, publication=publication, stage=stage)
        self._anonymity(publication, audit.get("anonymity") or {})
        self._leakage(publication, audit.get("leakage") or {})
        self._measures(publication, audit)

    def _sealed_at(self, publication: str, now: float) -> None:
        self._sealed.setdefault(publication, deque(maxlen=RECENT)).append(now)
        for name in ("release_timestamp_seconds", "release_awaited_timestamp_seconds"):
            self._set(name, now, publication=publication)
        self._expect(publication)

    def _expect(self, publication: str) -> None:
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
        """Export what the ledger charged; nothing for a mechanism that never charges."""
        if spent != Charge():
            self._set("budget_spent_epsilon", float(spent.epsilon), publication=publication)
            self._set("budget_spent_delta", float(spent.delta), publication=publication)

    def affordable(self, publication: str, releases_left: int | None) -> None:
        """Export how many further releases the limits can pay for; None if nothing bounds them."""
        self._set("budget_left_releases", releases_left, publication=publication)

    def process_budget(self, spent: Charge) -> None:
        """Export what all publications charged together, former ones included."""
        if spent != Charge():
            self._set("process_budget_spent_epsilon", float(spent.epsilon))
            self._set("process_budget_spent_delta", float(spent.delta))

    # stream

    def accounted(self, publication: str, accounting: Mapping[str, int]) -> None:
        """Export counts of the fold (`Fold.accounting`)."""
        self._set("pending_events", accounting["pending"], publication=publication)
        self._set("late_events", accounting["late"], publication=publication)
        self._set("open_cases", accounting["cases"])
        accepted = accounting["seen"] + accounting["removed_events"]
        counted_before = self._counted.get(("events_total",))
        # At its first look a daemon sees the events of the state that it restored: none of them came now.
        came = accepted > (accepted if counted_before is None and self.live else counted_before or 0)
        if came:
            self._set("last_event_timestamp_seconds", time.time())
        self._reach("events_total", accepted)
        self._reach("duplicate_events_total", accounting["duplicates"])
        self._reach("foreign_events_total", accounting["foreign"])
        self._reach("refused_events_total", accounting["refused"])

    def partitions(self, latest: Mapping[str, int | None], gaps: int) -> None:
        """Latest event time (ns) of each partition, and how many miss offsets."""
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
        """`count` more dead letters of each reason; 0 shows the series, or `increase` would not see its first one."""
        for reason in reasons:
            self._count("dlq_records_total", count, reason=reason)

    def leaves_out(self, reasons: Iterable[str]) -> None:
        """Create the counters of records that become no event before the first such record."""
        for reason in reasons:
            self._count("ingest_left_out_total", 0, reason=reason)

    def rebalanced(self, count: int = 1) -> None:
        """Count an assignment of partitions; 0 shows the series, or `increase` would not see its first one."""
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
        """Size of the newest checkpoint; `saved`: when an earlier process wrote it."""
        self._set("checkpoint_bytes", size)
        if saved is not None:
            self._set("checkpoint_timestamp_seconds", saved)

    def last_delta_record(self, moment: float) -> None:
        """Broker's time of the last delta record that was folded."""
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
        """Return whether this process decides releases."""
        self._set("coordinator_active", int(yes))

    # out

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
    """The metrics of a registry, as a part of another one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def collect(self) -> Iterable[Metric]:
        return self.registry.collect()

    def describe(self) -> Iterable[Metric]:
        """No names: that they are unique, the registry itself has checked."""
        return ()


KEPT = ("released_cases", "suppressed_cases", "suppressed_events")


def _numbers(rows: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [value for row in rows if (value := row.get(key)) is not None]


def published(audit: AuditDocument) -> float | None:
    """Return the time at which a release was published; None without a real clock."""
    moment = audit.get("published")
    if moment is None or audit.get("clock") == "simulated":
        return None
    return datetime.fromisoformat(moment).timestamp()
