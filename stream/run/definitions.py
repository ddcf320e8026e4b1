"""Every metric that veilstream shows: the one table that the registry, docs/metrics.md and the lint come from.

Labels are bounded by the configuration or by this program, never by the data: no case, no activity, no release number.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    "place": "operator: state, ledger and audits; store: releases, where they are in a folder elsewhere",
    "stage": "build, the name of each audit, files, read_back",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `unit` is the base unit, which the name ends with (before `_total`)."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    unit: str
    help: str


def _rows() -> Iterator[Definition]:
    yield from _stream()
    yield from _releases()
    yield from _anonymity()
    yield from _budget()


def _stream() -> Iterator[Definition]:
    def row(
        kind: Literal["gauge", "counter"], name: str, unit: str, text: str, labels: tuple[str, ...] = PROCESS
    ) -> Definition:
        return Definition(PREFIX + name, kind, labels, unit, text)

    partition = ("process", "partition")
    yield row("counter", "ingest_events_total", "events", "Source events that this ingest worker made durable.")
    yield row("counter", "ingest_deltas_total", "deltas", "Delta records that this ingest worker wrote.")
    yield row("gauge", "ingest_lag_records", "records", "Source records not yet taken, at the last report.", partition)
    yield row(
        "counter", "dlq_records_total", "records", "Records sent to the dead-letter queue.", ("process", "reason")
    )
    yield row(
        "counter",
        "ingest_left_out_total",
        "records",
        "Sound records that became no event: of no mapping, unchanged, snapshot, tombstone, transition not asked for.",
        ("process", "reason"),
    )
    yield row("counter", "events_total", "events", "Events that the fold accepted.")
    yield row("counter", "duplicate_events_total", "events", "Events that the fold dropped as repeats.")
    yield row("counter", "foreign_events_total", "events", "Events under another pseudonym key, rejected.")
    yield row("counter", "refused_events_total", "events", "Events of erased or retired cases, rejected.")
    yield row("gauge", "open_cases", "cases", "Cases in the state.")
    yield row("gauge", "pending_events", "events", "Accepted events that no release exposes yet.", PUBLICATION)
    yield row("gauge", "late_events", "events", "Events left out because they came after their window.", PUBLICATION)
    yield row("gauge", "watermark_timestamp_seconds", "seconds", "Latest event time, since 1970.", partition)
    yield row("gauge", "gap_partitions", "partitions", "Source partitions with missing offsets; nothing is released.")
    yield row(
        "gauge",
        "broker_contact_timestamp_seconds",
        "seconds",
        "When the broker last answered this process, since 1970 (daemon).",
    )
    yield row(
        "gauge",
        "unreadable_partitions",
        "partitions",
        "Partitions of this process that stopped at a record batch that cannot be decoded (daemon).",
    )
    yield row("gauge", "delta_timestamp_seconds", "seconds", "Broker's time of the last folded delta, since 1970.")
    yield row("gauge", "checkpoint_timestamp_seconds", "seconds", "When the state was last saved, since 1970.")
    yield row("gauge", "checkpoint_bytes", "bytes", "Size of the newest checkpoint, with the changes behind it.")
    yield row("gauge", "free_bytes", "bytes", "Space left where the coordinator writes.", ("process", "place"))
    yield row("gauge", "free_bound_bytes", "bytes", "Space that a release needs (`min_free_bytes`).")
    yield row("gauge", "last_event_timestamp_seconds", "seconds", "When an event was accepted last, since 1970.")
    yield row("gauge", "coordinator_active", "", "1 where this process decides releases, 0 where it stands by.")
    yield row("gauge", "build_info", "", "1, with the version of the program.", ("process", "version"))


def _releases() -> Iterator[Definition]:
    def row(
        name: str,
        unit: str,
        text: str,
        kind: Literal["gauge", "counter", "histogram"] = "gauge",
        more: tuple[str, ...] = (),
    ) -> Definition:
        return Definition(PREFIX + name, kind, (*PUBLICATION, *more), unit, text)

    yield row("verdict", "", "1 for the verdict on all releases together, 0 for the other words.", more=("verdict",))
    yield row("releases_total", "releases", "Releases sealed since this process started.", "counter", ("mechanism",))
    yield row("withheld_total", "attempts", "Attempts withheld since this process started.", "counter")
    yield row("withheld_reasons_total", "reasons", "Reasons of withheld attempts.", "counter", ("reason",))
    yield row("warned_reasons_total", "reasons", "Reasons that a gate only warned of.", "counter", ("reason",))
    yield row("withheld_streak_attempts", "attempts", "Attempts withheld since the last release, by the ledger.")
    yield row("release_timestamp_seconds", "seconds", "When the latest release was sealed, since 1970.")
    yield row(
        "release_awaited_timestamp_seconds",
        "seconds",
        "Since when a release is awaited, since 1970: the latest one, else when series or process began.",
    )
    yield row("release_cut_timestamp_seconds", "seconds", "Cut of the latest release in event time, since 1970.")
    yield row(
        "release_expected_seconds",
        "seconds",
        "Time between releases: `every` (daemon), else the mean of the last 20 (`metrics.first_release` before two).",
    )
    yield row("waiting_overdue_seconds", "seconds", "How long a sealed release waits past its moment (daemon).")
    yield row("held_releases", "releases", "Sealed releases that wait for a person's approval.")
    yield row("held_age_seconds", "seconds", "How long the oldest of them has waited; 0 where none does.")
    yield row("decision_seconds", "seconds", "From a cut to its durable decision.", "histogram")
    yield row("stage_seconds", "seconds", "Duration of a stage of the latest release.", more=("stage",))
    yield row("released_cases", "cases", "Cases in the latest release (not told of dp releases).")
    yield row("released_events", "events", "Events in the latest release (not told of dp releases).")
    yield row("suppressed_cases", "cases", "Cases that the mechanism left out of the latest release.")
    yield row("suppressed_events", "events", "Events that the mechanism left out of the latest release.")


def _anonymity() -> Iterator[Definition]:
    def row(name: str, unit: str, text: str, *more: str) -> Definition:
        return Definition(PREFIX + name, "gauge", (*PUBLICATION, *more), unit, text)

    yield row("anonymity_cases", "cases", "Least anonymity of the latest release by attack and n.", "attack", "n")
    yield row("anonymity_worst_cases", "cases", "Least anonymity as the gate reads it.", "attack")
    yield row("anonymity_bound_cases", "cases", "Bound of the gate (min_ka and so on).", "attack")
    yield row("cracked_ratio", "ratio", "Highest proportion cracked (FC, CC, BC) against an earlier release.", "attack")
    yield row("series_worst_cases", "cases", "Least anonymity left over a series of releases.")
    yield row("uniqueness_ratio", "ratio", "Highest share of unique cases, by what is known of them.", "direction")
    yield row("uniqueness_bound_ratio", "ratio", "Bound of the gate (max_uniqueness).")
    yield row("utility_data_ratio", "ratio", "Data utility of the latest release.")
    yield row("utility_graph_ratio", "ratio", "F1 of the directly-follows graph of the latest release.")
    yield row("utility_bound_ratio", "ratio", "Bound of the gate (min_utility).")


def _budget() -> Iterator[Definition]:
    def row(name: str, unit: str, text: str, *more: str) -> Definition:
        return Definition(PREFIX + name, "gauge", (*PUBLICATION, *more), unit, text)

    yield row("leakage_epsilon", "epsilon", "Largest BPL, FPL, TPL over the releases (replacement).", "direction")
    yield row("leakage_bound_epsilon", "epsilon", "Bound of the gate (max_tpl).")
    yield row("budget_spent_epsilon", "epsilon", "Epsilon charged so far, withheld attempts included.")
    yield row("budget_limit_epsilon", "epsilon", "Limit of the gate (max_epsilon).")
    yield row("budget_spent_delta", "delta", "Delta charged so far, withheld attempts included.")
    yield row("budget_limit_delta", "delta", "Limit of the gate (max_delta).")
    yield row("budget_left_releases", "releases", "Further releases that every limit of epsilon and delta can pay.")
    for unit in ("epsilon", "delta"):
        text = f"{unit.capitalize()} charged by all publications, former ones included."
        yield Definition(f"{PREFIX}process_budget_spent_{unit}", "gauge", PROCESS, unit, text)
        text = f"Limit over all publications (process.budget.max_{unit})."
        yield Definition(f"{PREFIX}process_budget_limit_{unit}", "gauge", PROCESS, unit, text)


DEFINITIONS = tuple(_rows())


def page() -> str:
    """docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Made by `python -m stream.run.definitions`; a test checks that it is current.",
        "",
        "`veilstream replay LOG --metrics-port PORT` serves them while it runs, `--metrics-textfile FILE` leaves them",
        "for a node exporter; the daemon serves them where the configuration says `[metrics]` (`host`, `port`; with",
        "`--role all` the coordinator takes the next port). They derive from source data, so the endpoint binds to",
        "loopback unless `host` says otherwise. Gauges hold the latest release, counters begin at the start of the",
        "process; history is in the ledger. A gauge that means nothing for a release (anonymity of a dp release, a",
        "bound that is not set) has no series. Over HTTP stand `process_*` too (memory, open files, start);",
        "a textfile lacks them: a node exporter has its own. What an alert means, and what to do: docs/runbooks.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
        *(f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |" for one in DEFINITIONS),
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
