"""The table of all metrics: the registry, docs/metrics.md and the lint are made from it.

Labels are bounded by the configuration or by this program, never by the data: no case, no activity, no release number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stream.release.reason import CODES

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
    """One metric.

    Attributes
    ----------
    name
        With the prefix. It ends with the unit, and that of a counter with `_total` after it.
    kind
        Type of the metric.
    labels
        Names of its labels, all of them keys of `LABELS`.
    unit
        Base unit; "" for a number without one.
    help
        Description of the metric, as a scrape shows it.
    situation
        Situation in which somebody looks at it.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    unit: str
    help: str
    situation: str

    def markdown(self) -> str:
        """Return the row of docs/metrics.md."""
        situation = self.situation.removeprefix(SITUATION)
        return f"| `{self.name}` | {self.kind} | {', '.join(self.labels)} | {self.help} | {situation} |"


def _gauge(name: str, unit: str, labels: tuple[str, ...], meaning: str, situation: str) -> Definition:
    return Definition(PREFIX + name, "gauge", labels, unit, meaning, situation)


def _counter(name: str, unit: str, labels: tuple[str, ...], meaning: str, situation: str) -> Definition:
    return Definition(PREFIX + name, "counter", labels, unit, meaning, situation)


def _seconds_histogram(name: str, labels: tuple[str, ...], meaning: str, situation: str) -> Definition:
    return Definition(PREFIX + name, "histogram", labels, "seconds", meaning, situation)


# Of an ingest worker.
INTAKE = (
    _counter(
        "ingest_events_total",
        "events",
        PROCESS,
        "Source events that this ingest worker made durable.",
        "Look at it when a worker may be slower than its topic.",
    ),
    _gauge(
        "ingest_lag_records",
        "records",
        (*PROCESS, "partition"),
        "Source records not yet taken, at the last report.",
        "Look at it when releases lack the newest events, or to decide on further workers.",
    ),
    _counter(
        "dlq_records_total",
        "records",
        (*PROCESS, "reason"),
        "Records sent to the dead-letter queue.",
        "Look at it when a producer was changed, since its records may no longer be readable.",
    ),
    _counter(
        "ingest_left_out_total",
        "records",
        (*PROCESS, "reason"),
        "Sound records that became no event: of no mapping, unchanged, snapshot, tombstone, transition not asked for.",
        "Look at it when events of a table are missing although nothing is in the dlq.",
    ),
)

# Of the events and cases in the state.
FOLD = (
    _counter(
        "events_total",
        "events",
        PROCESS,
        "Events that the fold accepted.",
        "Look at it when the daemon may receive nothing any more.",
    ),
    _counter(
        "duplicate_events_total",
        "events",
        PROCESS,
        "Events that the fold dropped as repeats.",
        "Look at it when a producer sends again after a failure.",
    ),
    _counter(
        "foreign_events_total",
        "events",
        PROCESS,
        "Events under another pseudonym key, rejected.",
        "Look at it when a host was set up with a key of its own by mistake.",
    ),
    _counter(
        "refused_events_total",
        "events",
        PROCESS,
        "Events of erased or retired cases, rejected.",
        "Look at it when a person was erased and the information system still sends events.",
    ),
    _gauge(
        "open_cases",
        "cases",
        PROCESS,
        "Cases in the state.",
        "Look at it when the coordinator's memory grows, and `process.retention` may be missing.",
    ),
    _gauge(
        "pending_events",
        "events",
        PUBLICATION,
        "Accepted events that no release exposes yet.",
        "Look at it when recipients ask how much the next release will bring.",
    ),
    _gauge(
        "late_events",
        "events",
        PUBLICATION,
        "Events in no release because they came after their window, or after the cut that took their case.",
        "Look at it when `allowed_lateness` or a completion may be too short for a source.",
    ),
    _gauge(
        "watermark_timestamp_seconds",
        "seconds",
        (*PROCESS, "partition"),
        "Latest event time, since 1970.",
        "Look at it when an event-time window does not close: one partition may lag.",
    ),
    _gauge(
        "gap_partitions",
        "partitions",
        PROCESS,
        "Source partitions with missing offsets; nothing is released.",
        "Look at it when releases stop after a topic was truncated or deleted.",
    ),
)

# Of the topics, as the daemon sees them.
BROKER = (
    _gauge(
        "broker_contact_timestamp_seconds",
        "seconds",
        PROCESS,
        "When the broker last answered this process, since 1970 (daemon).",
        "Look at it when nothing moves and the network may be the cause.",
    ),
    _gauge(
        "unreadable_partitions",
        "partitions",
        PROCESS,
        "Partitions of this process that stopped at a record batch that cannot be decoded (daemon).",
        "Look at it when one partition no longer advances after a disk fault.",
    ),
    _gauge(
        "delta_timestamp_seconds",
        "seconds",
        PROCESS,
        "Broker's time of the last folded delta, since 1970.",
        "Look at it when the coordinator may have fallen behind the ingest workers.",
    ),
    _gauge(
        "delta_lag_records",
        "records",
        PROCESS,
        "Records of the delta topic that the active coordinator has not folded yet, at the last report; "
        "markers of transactions count (daemon).",
        "Look at it when a build is under way, to see how much waits behind it.",
    ),
    _counter(
        "rebalances_total",
        "rebalances",
        PROCESS,
        "Assignments of partitions that this process received from its group, the one at its start included (daemon).",
        "Look at it when intake stops for seconds again and again: a member may come and go.",
    ),
)

# Of the process that releases: its checkpoints, its disk, its role.
PROCESS_STATE = (
    _seconds_histogram(
        "checkpoint_seconds",
        PROCESS,
        "Duration of a checkpoint, its mirror included (daemon).",
        "Look at it when a slow disk or store may delay releases: nothing is folded meanwhile.",
    ),
    _gauge(
        "checkpoint_timestamp_seconds",
        "seconds",
        PROCESS,
        "When the state was last saved, since 1970.",
        "Look at it when a restart would have to read many deltas again.",
    ),
    _gauge(
        "checkpoint_bytes",
        "bytes",
        PROCESS,
        "Size of the newest checkpoint, with the changes behind it.",
        "Look at it when you plan disk space, or checkpoints become slow.",
    ),
    _gauge(
        "free_bytes",
        "bytes",
        (*PROCESS, "place"),
        "Space left where the coordinator writes.",
        "Look at it when the disk fills: releases stop before it is full.",
    ),
    _gauge(
        "free_bound_bytes",
        "bytes",
        PROCESS,
        "Space that a release needs (`min_free_bytes`).",
        "Look at it when free space is judged: below this bound no release is built.",
    ),
    _gauge(
        "last_event_timestamp_seconds",
        "seconds",
        PROCESS,
        "When an event was accepted last, since 1970.",
        "Look at it when the information system may have stopped sending.",
    ),
    _gauge(
        "coordinator_active",
        "",
        PROCESS,
        "1 if this process decides releases, 0 if it is on standby.",
        "Look at it when a failover happened: exactly one host must show 1.",
    ),
    _gauge(
        "build_info",
        "",
        (*PROCESS, "version"),
        "1, with the version of the program.",
        "Look at it when hosts are upgraded one by one, and one may run the old program.",
    ),
)

# Of the decisions on attempts.
DECISIONS = (
    _gauge(
        "verdict",
        "",
        (*PUBLICATION, "verdict"),
        "1 for the verdict on all releases together, 0 for the other words.",
        "Look at it when an officer asks whether recipients may keep what they have.",
    ),
    _counter(
        "releases_total",
        "releases",
        (*PUBLICATION, "mechanism"),
        "Releases sealed since this process started.",
        "Look at it when you compare how often publications release.",
    ),
    _counter(
        "withheld_total",
        "attempts",
        PUBLICATION,
        "Attempts withheld since this process started.",
        "Look at it when recipients wait although windows close.",
    ),
    _counter(
        "withheld_reasons_total",
        "reasons",
        (*PUBLICATION, "reason"),
        "Reasons of withheld attempts.",
        "Look at it when a gate withholds, to learn which bound is broken.",
    ),
    _counter(
        "warned_reasons_total",
        "reasons",
        (*PUBLICATION, "reason"),
        "Reasons that a gate only warned of.",
        'Look at it when bounds are tried out with `on_violation = "warn"`.',
    ),
    _gauge(
        "withheld_streak_attempts",
        "attempts",
        PUBLICATION,
        "Attempts withheld since the last release, by the ledger.",
        "Look at it when single withheld attempts are normal and only a row of them is a fault.",
    ),
)

# Of the time that releases take and wait.
PACE = (
    _gauge(
        "release_timestamp_seconds",
        "seconds",
        PUBLICATION,
        "When the latest release was sealed, since 1970.",
        "Look at it when recipients ask how old their release is.",
    ),
    _gauge(
        "release_awaited_timestamp_seconds",
        "seconds",
        PUBLICATION,
        "Since when a release is awaited, since 1970: the latest one, else when series or process began.",
        "Look at it when a new publication has published nothing yet.",
    ),
    _gauge(
        "release_expected_seconds",
        "seconds",
        PUBLICATION,
        "Time between releases: `every` (daemon), else the mean of the last 20 (a week before two).",
        "Look at it when an alert on a missing release needs a pace to compare with.",
    ),
    _gauge(
        "waiting_overdue_seconds",
        "seconds",
        PUBLICATION,
        "Wait of a sealed release past its moment (daemon).",
        "Look at it when a dp release was sealed and is not published in time.",
    ),
    _gauge(
        "held_releases",
        "releases",
        PUBLICATION,
        "Sealed releases that wait for a person's approval.",
        "Look at it when officers share the work of approving.",
    ),
    _gauge(
        "held_age_seconds",
        "seconds",
        PUBLICATION,
        "Wait of the oldest of them so far; 0 if none waits.",
        "Look at it when an officer may have forgotten an approval.",
    ),
    _seconds_histogram(
        "decision_seconds",
        PUBLICATION,
        "From a cut to its durable decision.",
        "Look at it when releases come later than recipients were promised.",
    ),
)

# Of the latest release.
LATEST = (
    _gauge(
        "stage_seconds",
        "seconds",
        (*PUBLICATION, "stage"),
        "Duration of a stage of the latest release.",
        "Look at it when a release takes long, to learn whether mechanism, audit or disk is slow.",
    ),
    _gauge(
        "released_cases",
        "cases",
        PUBLICATION,
        "Cases in the latest release (not reported for dp releases).",
        "Look at it when a release is smaller than recipients expect.",
    ),
    _gauge(
        "released_events",
        "events",
        PUBLICATION,
        "Events in the latest release (not reported for dp releases).",
        "Look at it when you follow how much of the log recipients see.",
    ),
    _gauge(
        "suppressed_cases",
        "cases",
        PUBLICATION,
        "Cases that the mechanism left out of the latest release.",
        "Look at it when whole cases disappear: bounds may be too strict for this log.",
    ),
    _gauge(
        "suppressed_events",
        "events",
        PUBLICATION,
        "Events that the mechanism left out of the latest release.",
        "Look at it when models mined from releases lack activities.",
    ),
)

# Of the audits of the latest release, with the bounds of the gate.
RISK_AND_UTILITY = (
    _gauge(
        "anonymity_cases",
        "cases",
        (*PUBLICATION, "attack", "n"),
        "Least anonymity of the latest release by attack and n.",
        "Look at it when you ask how much an adversary gains who allows for removed events.",
    ),
    _gauge(
        "anonymity_worst_cases",
        "cases",
        (*PUBLICATION, "attack"),
        "Least anonymity as the gate reads it.",
        "Look at it when anonymity approaches the bound, before a gate withholds.",
    ),
    _gauge(
        "anonymity_bound_cases",
        "cases",
        (*PUBLICATION, "attack"),
        "Bound of the gate (min_ka and so on).",
        "Look at it when anonymity is judged: a figure below this line broke the gate.",
    ),
    _gauge(
        "cracked_ratio",
        "ratio",
        (*PUBLICATION, "attack"),
        "Highest proportion cracked (FC, CC, BC) against an earlier release.",
        "Look at it when an officer asks which share of a group the attacks exclude.",
    ),
    _gauge(
        "series_worst_cases",
        "cases",
        PUBLICATION,
        "Least anonymity left over a series of releases.",
        "Look at it when recipients keep many releases, and pairs alone look fine.",
    ),
    _gauge(
        "uniqueness_ratio",
        "ratio",
        (*PUBLICATION, "direction"),
        "Highest share of unique cases, by the attacker's knowledge.",
        "Look at it when you compare the risk of a release with that of its source.",
    ),
    _gauge(
        "uniqueness_bound_ratio",
        "ratio",
        PUBLICATION,
        "Bound of the gate (max_uniqueness).",
        "Look at it when uniqueness is judged: a share above this line broke the gate.",
    ),
    _gauge(
        "utility_data_ratio",
        "ratio",
        PUBLICATION,
        "Data utility of the latest release.",
        "Look at it when recipients doubt that frequencies of variants are still true.",
    ),
    _gauge(
        "utility_graph_ratio",
        "ratio",
        PUBLICATION,
        "F1 of the directly-follows graph of the latest release.",
        "Look at it when recipients draw process maps from releases.",
    ),
    _gauge(
        "utility_bound_ratio",
        "ratio",
        PUBLICATION,
        "Bound of the gate (min_utility).",
        "Look at it when utility is judged: a release below this line is withheld.",
    ),
)

# Of privacy loss: leakage of a publication, and budgets.
LOSS = (
    _gauge(
        "leakage_epsilon",
        "epsilon",
        (*PUBLICATION, "direction"),
        "Largest BPL, FPL, TPL over the releases (replacement).",
        "Look at it when a dp series grows longer, since leakage grows with it.",
    ),
    _gauge(
        "leakage_bound_epsilon",
        "epsilon",
        PUBLICATION,
        "Bound of the gate (max_tpl).",
        "Look at it when leakage is judged: above this line a series ends.",
    ),
    _gauge(
        "budget_spent_epsilon",
        "epsilon",
        PUBLICATION,
        "Epsilon of all charges so far, composed exactly, withheld attempts included.",
        "Look at it when you decide how many dp releases may still follow.",
    ),
    _gauge(
        "budget_limit_epsilon",
        "epsilon",
        PUBLICATION,
        "Limit of the gate (max_epsilon).",
        "Look at it when the epsilon that is left is computed: limit less spending.",
    ),
    _gauge(
        "budget_spent_delta",
        "delta",
        PUBLICATION,
        "Delta at which that epsilon holds, withheld attempts included.",
        "Look at it when delta rather than epsilon ends a dp series.",
    ),
    _gauge(
        "budget_limit_delta",
        "delta",
        PUBLICATION,
        "Limit of the gate (max_delta).",
        "Look at it when the delta that is left is computed: limit less spending.",
    ),
    _gauge(
        "budget_left_releases",
        "releases",
        PUBLICATION,
        "Further releases that every limit of epsilon and delta can pay.",
        "Look at it when a budget runs out and recipients must hear of it in time.",
    ),
    _gauge(
        "process_budget_spent_epsilon",
        "epsilon",
        PROCESS,
        "Epsilon of all charges of all publications by the account, former ones included.",
        "Look at it when several publications or renamed ones spend the epsilon of the same people.",
    ),
    _gauge(
        "process_budget_limit_epsilon",
        "epsilon",
        PROCESS,
        "Limit over all publications (process.budget.max_epsilon).",
        "Look at it when the epsilon that all publications together have left is computed.",
    ),
    _gauge(
        "process_budget_spent_delta",
        "delta",
        PROCESS,
        "Delta of all charges of all publications by the account, former ones included.",
        "Look at it when several publications or renamed ones spend the delta of the same people.",
    ),
    _gauge(
        "process_budget_limit_delta",
        "delta",
        PROCESS,
        "Limit over all publications (process.budget.max_delta).",
        "Look at it when the delta that all publications together have left is computed.",
    ),
)

DEFINITIONS = (
    *INTAKE,
    *FOLD,
    *BROKER,
    *PROCESS_STATE,
    *DECISIONS,
    *PACE,
    *LATEST,
    *RISK_AND_UTILITY,
    *LOSS,
)
"""All metrics, in the order of docs/metrics.md."""


def page() -> str:
    """Return the content of docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Made by `python -m stream.run.metric_table`; a test checks that it is current.",
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
