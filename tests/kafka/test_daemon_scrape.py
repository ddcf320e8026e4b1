"""A real Prometheus and a live daemon on a real broker: every series has data, and alerts fire and clear.

One daemon lives through what an operator meets: events, poison, a source partition that falls silent, a coordinator
that stops, events that retention took before they were read. Durations of the alert rules are 60 times shorter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.deploy.expressions import everything
from tests.deploy.prometheus import Prometheus, Watcher, program
from tests.kafka.broker import shared_broker
from tests.kafka.site import Site, publication
from tests.patience import patient_time
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(1800)]

CASES, LENGTH, WINDOW = 40, 4, 10
POISON = [b"\xff", b"{", None]
SECONDS = 300

BUDGET = "budget = { max_epsilon = 20.0, max_delta = 0.2 }"
PUBLICATIONS = publication(
    "research",
    f"{{ new_cases = {WINDOW} }}",
    'mechanism = { kind = "identity" }\n'
    'audit = { bk_length = 1, n = [0], against = "last", risk = { points = [1], draws = 1 } }\n'
    "gate = { min_ka = 15, min_fa = 2, max_uniqueness = 1.0, min_utility = 0.01 }\n",
) + publication(
    "statistics",
    f"{{ new_cases = {WINDOW} }}",
    'mechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }\n'
    "audit = { leakage = {} }\n"
    "gate = { public_cut = true, max_epsilon = 10.0, max_tpl = 20.0, max_delta = 0.1 }\n"
    'publish_after = "4s"\n',
)


def events(partition: int, first: int, cases: int) -> list[bytes | None]:
    """Events of cases `first`.. of one partition, a minute apart, step by step."""
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=first)
    rows = [(step, case) for step in range(LENGTH) for case in range(first, first + cases)]
    return [
        json.dumps(
            {
                "case:concept:name": f"{partition}-{case}",
                "concept:name": ("register", "check", "decide", "close")[step],
                "time:timestamp": (start + timedelta(minutes=index)).isoformat(),
                "diagnosis": "AB"[case % 2],
            }
        ).encode()
        for index, (step, case) in enumerate(rows)
    ]


@dataclass
class Story:
    """One daemon's life, and what Prometheus said meanwhile."""

    site: Site
    prometheus: Prometheus
    watcher: Watcher
    values: dict[str, float | None] = field(default_factory=dict)
    sent: int = 0

    def until(self, what: str, check: Callable[[], Any], feed: Callable[[], None] = lambda: None) -> None:
        """Watch the metrics until something holds."""
        deadline = patient_time() + SECONDS
        while not check():
            feed()
            assert patient_time() < deadline, f"{what} did not happen\n{self.watcher}\n{self.site.logs()[-4000:]}"
            self.watcher.look()
            time.sleep(0.2)

    def value(self, metric: str, labels: str = "") -> float | None:
        """A sample of the daemon."""
        return self.prometheus.value(f"veilstream_{metric}{{{labels}}}")

    def fires(self, alert: str, feed: Callable[[], None] = lambda: None) -> None:
        """Watch the metrics until an alert of the rules fires."""
        self.until(f"{alert} firing", lambda: f"Veilstream{alert}" in self.watcher.look(), feed)

    def clears(self, *alerts: str) -> None:
        """Watch the metrics until alerts that fired do so no more."""
        wanted = {f"Veilstream{alert}" for alert in alerts}
        self.until(f"{', '.join(alerts)} clearing", lambda: not wanted & self.watcher.look())

    def send(self, partition: int, first: int, cases: int) -> int:
        """Events of new cases into one partition, and how many."""
        values = events(partition, first, cases)
        self.site.send(values, partition)
        self.sent += len(values)
        return len(values)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Healthy, then poison, silence, a stop, and a gap; and the way back each time."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("scrape")
    name = f"scrape{time.time_ns():x}"
    site = Site(
        shared_broker().bootstrap, name, folder, PUBLICATIONS, sensitive='["diagnosis"]', process=BUDGET, partitions=2
    )
    ports = free_ports(2)
    prometheus = Prometheus(folder / "prometheus", [f"127.0.0.1:{port}" for port in ports])
    one = Story(site, prometheus, Watcher(prometheus, everything()))
    try:
        live(one, ports)
        yield one
    finally:
        site.close()
        prometheus.close()


def live(one: Story, ports: list[int]) -> None:
    """The whole story, watched."""
    workers = start(one, ports)
    one.until("counters at 0", lambda: one.value("dlq_records_total", 'reason="schema"') == 0)
    one.until("an active coordinator", lambda: one.value("coordinator_active") == 1)

    read = one.send(0, 0, CASES // 2)
    one.send(1, 0, CASES // 2)
    one.site.send(POISON, 0)
    read += len(POISON)
    released = 'publication="research"'
    one.until("releases", lambda: one.value("releases_total", released) == CASES // WINDOW - 1)  # ten cases: KA is 10
    one.until("everything folded", lambda: one.value("events_total") == one.sent)
    # The lag is measured at intervals, so the last measurement may be older than the last event.
    labels = [partition_label(one, number) for number in (0, 1)]
    one.until("no lag", lambda: all(one.value("ingest_lag_records", label) == 0 for label in labels))
    one.until("an answer to everything", lambda: not one.watcher.silent)
    remember(one)
    one.until("dead letters", lambda: "VeilstreamDeadLetters" in one.watcher.fired)  # it may have cleared by now

    trickle = Trickle(one.site)
    one.fires("StalledWatermark", trickle)  # partition 1 is silent meanwhile

    assert one.site.stop(*workers) == [0, 0]
    for alert in ("NoCoordinator", "Absent", "Down"):  # nothing is left, and that is loud
        one.fires(alert)
    one.send(0, 2 * CASES, 1)
    delete(one, read + trickle.sent + LENGTH // 2)
    start(one, ports)
    one.fires("Gap")
    one.clears("NoCoordinator", "Absent", "Down", "DeadLetters")
    one.values["partitions with gaps"] = one.value("gap_partitions")
    one.site.command("gap", "accept", "-c", str(one.site.config), "-o", str(one.site.output()))
    one.send(1, CASES, WINDOW)
    one.clears("Gap", "StalledWatermark")
    one.until("a release after the gap", lambda: (one.value("releases_total", released) or 0) > 0)
    assert one.site.stop() == [0, 0]


def partition_label(one: Story, number: int) -> str:
    """Return the label of one source partition."""
    return f'partition="{one.site.topic}/{number}"'


class Trickle:
    """Called again and again: one more event of one case into partition 0, once a second."""

    def __init__(self, site: Site) -> None:
        self.site, self.sent, self.last = site, 0, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            self.site.send(events(0, CASES + self.sent, 1)[:1], 0)
            self.sent += 1


def start(one: Story, ports: list[int]) -> list[Any]:
    """Ingest and coordinator, each with a metrics port of its own."""
    return [
        one.site.start(role, VEILSTREAM_METRICS__PORT=str(port))
        for role, port in zip(("ingest", "coordinator"), ports, strict=True)
    ]


def delete(one: Story, before: int) -> None:
    """Delete records of partition 0 that were not read, as retention does."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.site.bootstrap)
    admin.delete_records({TopicPartition(one.site.topic, 0): before})
    admin.close()


def remember(one: Story) -> None:
    """Note the metrics of the healthy daemon, to compare them with the sent events."""
    wanted = {
        "ingest events": ("ingest_events_total", ""),
        "folded events": ("events_total", ""),
        "cases": ("open_cases", ""),
        "gaps": ("gap_partitions", ""),
        "active": ("coordinator_active", ""),
        "checkpoint": ("checkpoint_timestamp_seconds", ""),
        "bytes": ("checkpoint_bytes", ""),
        "checkpoints": ("checkpoint_seconds_count", ""),
        "delta lag": ("delta_lag_records", ""),
        "delta": ("delta_timestamp_seconds", ""),
        "left": ("budget_left_releases", 'publication="statistics"'),
        "withheld": ("withheld_total", 'publication="research"'),
        "withheld for ka": ("withheld_reasons_total", 'publication="research",reason="ka"'),
        "decisions": ("decision_seconds_count", 'publication="statistics"'),
        "bound": ("anonymity_bound_cases", 'attack="ka"'),
        "epsilon": ("budget_spent_epsilon", 'publication="statistics"'),
    }
    wanted |= {reason: ("dlq_records_total", f'reason="{reason}"') for reason in ("not_json", "null_value", "schema")}
    for number in (0, 1):
        here = partition_label(one, number)
        wanted[f"lag {number}"] = ("ingest_lag_records", here)
        wanted[f"watermark {number}"] = ("watermark_timestamp_seconds", here)
    one.values |= {what: one.value(*where) for what, where in wanted.items()}
    one.values["sent"] = one.sent
    one.values["members with an assignment"] = one.prometheus.value("count(veilstream_rebalances_total > 0)")


def test_every_expression_of_panels_and_alerts_has_data(story: Story) -> None:
    """No panel and no alert uses a metric that the daemon never reports."""
    assert len(everything()) > 60
    assert story.watcher.silent == {}


def test_series_of_the_daemon_say_what_happened(story: Story) -> None:
    """Events, deltas, dead letters by reason, lag and watermark by partition, leader, checkpoint, decisions, budget."""
    scraped = dict(story.values)
    assert scraped["ingest events"] == scraped["folded events"] == scraped["sent"] == CASES * LENGTH
    assert (scraped["not_json"], scraped["null_value"], scraped["schema"]) == (2, 1, 0)
    assert (scraped["lag 0"], scraped["lag 1"]) == (0, 0)
    last = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=CASES // 2 * LENGTH - 1)
    assert scraped["watermark 0"] == scraped["watermark 1"] == last.timestamp()
    assert (scraped["cases"], scraped["gaps"], scraped["active"], scraped["bound"]) == (CASES, 0, 1, 15)
    assert (scraped["withheld"], scraped["withheld for ka"]) == (1, 1)
    assert scraped["decisions"] == CASES // WINDOW
    assert scraped["epsilon"] == pytest.approx(0.1 * (CASES // WINDOW))
    assert scraped["left"] == 100 - CASES // WINDOW
    assert 0 <= time.time() - (scraped["checkpoint"] or 0) < 600
    assert 0 <= time.time() - (scraped["delta"] or 0) < 600
    assert (scraped["bytes"] or 0) > 1000
    assert (scraped["checkpoints"] or 0) >= 1  # one after a record with cuts, however many
    assert 0 <= (scraped["delta lag"] or 0) < 100  # ticks and markers of transactions come all the time
    assert scraped["members with an assignment"] == 2


def test_alerts_fire_and_clear_as_the_daemon_fails_and_recovers(story: Story) -> None:
    """Dead letters, a silent partition, no coordinator, a gap: each alarm came with its cause and went with it."""
    scripted = {"DeadLetters", "StalledWatermark", "NoCoordinator", "Absent", "Down", "Gap"}
    assert {f"Veilstream{one}" for one in scripted} <= story.watcher.cleared
    assert story.values["partitions with gaps"] == 1
    healthy = {"TwoCoordinators", "IngestLag", "OldCheckpoint", "ReleaseOverdue", "DeltaLag", "BudgetExhausted"}
    assert not {f"Veilstream{one}" for one in healthy} & story.watcher.fired
