"""A real Prometheus and a live replay: it scrapes, evaluates every expression, and alerts fire and clear.

Everything here is seen while the replay runs. The daemon has its own test: tests/kafka/test_daemon_scrape.py.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.config.settings import Settings
from stream.config.sources import load
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from tests.conftest import ROOT
from tests.deploy.expressions import RULES, alerts, everything, of_a_replay
from tests.deploy.prometheus import Prometheus, Watcher, program
from tests.ports import free_ports

FOLDER = ROOT / "deploy" / "prometheus"
LOG = ROOT / "examples" / "hospital.xes.gz"

CONFIGURATION = """
[process]
name = "live"
sensitive = ["diagnosis"]
budget = { max_epsilon = 0.6, max_delta = 0.2 }
[[publication]]
name = "research"
window = { new_cases = 200 }
mechanism = { kind = "identity" }
audit = { bk_length = 1, n = [0], against = "last", risk = { points = [1], draws = 1 } }
gate = { min_ka = 28, min_fa = 2, max_uniqueness = 0.99, min_utility = 0.01, on_violation = "warn" }
[[publication]]
name = "strict"
window = { new_cases = 200 }
mechanism = { kind = "identity" }
audit = { bk_length = 1, n = [0], against = "last", series = false, risk = false, utility = false }
gate = { min_ka = 60, on_violation = "withhold" }
[[publication]]
name = "statistics"
start = 2025-01-01T00:00:00Z
window = { every = "30d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }
audit = { leakage = {} }
gate = { max_epsilon = 0.5, max_tpl = 20.0, max_delta = 0.1 }
"""
"""Every bound is set, so that every panel has something to show. The rarest activity is seen 9, 22, 30, 41, 53, 25, 68,
81, 88, 92 times at the ten cuts: `research` warns twice, `strict` withholds six times, and both are content later."""


CLEARED = {"VeilstreamAnonymityBelowBound", "VeilstreamGateWithholds"}
"""Alerts that fire and clear as releases come and go."""


@dataclass
class Seen:
    """Answers of Prometheus during the replay."""

    answers: int = 0
    silent: dict[str, str] = field(default_factory=dict)
    fired: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)
    withheld: list[float] = field(default_factory=list)
    code: int = -1


class Pace:
    """Holds a replay at its first record and after each decision until Prometheus has scraped and judged what appears
    then. A clock in its place would need a machine that keeps up: here nothing is missed, however slow it is."""

    def __init__(self, prometheus: Prometheus, watcher: Watcher, found: Seen) -> None:
        self.prometheus, self.watcher, self.found = prometheus, watcher, found
        self.begun = False

    def until(self, check: Callable[[], Any]) -> None:
        """Look until something holds; the test's own timeout ends what never comes."""
        while not check():
            self.look()
            time.sleep(0.1)

    def look(self) -> None:
        """Return the alerts that are true and firing now."""
        self.watcher.look()
        self.found.answers += bool(self.prometheus.value('up{job="veilstream"}'))

    def begin(self) -> None:
        """The counters at 0 are seen before anything is decided."""
        if not self.begun:
            self.begun = True
            self.until(lambda: self.prometheus.value('up{job="veilstream"}'))

    def hold(self, metrics: Metrics) -> None:
        """Until this decision has been scraped, and every rule judged on it."""
        self.until(lambda: self._counted() == _decisions(metrics))
        judged = self.prometheus.evaluations()
        self.until(lambda: self.prometheus.evaluations() >= judged + 2)
        self.look()

    def _counted(self) -> float | None:
        return self.prometheus.value("sum(veilstream_releases_total) + sum(veilstream_withheld_total)")


def _decisions(metrics: Metrics) -> float:
    wanted = ("veilstream_releases_total", "veilstream_withheld_total")
    samples = (sample for family in metrics.registry.collect() for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name in wanted)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """`veilstream replay --metrics-port` of the bundled log under the eyes of a Prometheus, from begin to end."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("live")
    (folder / "live.toml").write_text(CONFIGURATION)
    (port,) = free_ports(1)
    prometheus = Prometheus(folder / "prometheus", [f"127.0.0.1:{port}"])
    found, watcher = Seen(), Watcher(prometheus, of_a_replay())
    pace, folded, decided = Pace(prometheus, watcher, found), MetricsObserver.folded, MetricsObserver.decided

    def first(watch: MetricsObserver, *arguments: Any, **more: Any) -> None:
        folded(watch, *arguments, **more)
        pace.begin()
        if more.get("last"):  # an alert stays for a while, lest a restart end it and begin it again
            pace.until(lambda: watcher.cleared >= CLEARED)

    def each(watch: MetricsObserver, *arguments: Any) -> None:
        decided(watch, *arguments)
        pace.hold(watch.metrics)

    command = ["replay", str(LOG), "-c", str(folder / "live.toml"), "-o", str(folder / "out")]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MetricsObserver, "folded", first)
            patch.setattr(MetricsObserver, "decided", each)
            found.code = execute([*command, "--metrics-port", str(port)])
        # Every sample that was scraped: asked for in between, one would now and then be missed.
        (streak,) = prometheus.query('veilstream_withheld_streak_attempts{publication="strict"}[1h]')
        found.withheld = [value for value, _ in groupby(float(text) for _, text in streak["values"])]
    finally:
        prometheus.close()
    found.silent, found.fired, found.cleared = watcher.silent, watcher.fired, watcher.cleared
    return found


def test_the_replay_was_scraped_while_it_ran(seen: Seen) -> None:
    """It answered again and again until it ended by itself, with the exit code for withheld releases."""
    assert seen.answers > 10
    assert seen.code == 3


def test_every_expression_of_panels_and_alerts_has_data(seen: Seen) -> None:
    """An expression that matches no series would stay silent forever: none does, but those only a daemon answers."""
    assert len(of_a_replay()) > 45
    assert seen.silent == {}


def test_alerts_fire_and_clear_as_releases_come_and_go(seen: Seen) -> None:
    """Anonymity below a bound that only warns, and a gate that withholds, until enough cases have come."""
    assert seen.cleared >= CLEARED
    assert seen.withheld == [0, 1, 2, 3, 4, 5, 6, 0]


def test_a_spent_budget_fires(seen: Seen) -> None:
    """The fifth release of 0.1 spends the limit of 0.5, and 0.5 is 83 % of what the process may spend in all; it stays
    so. Nothing is wrong with the stream itself."""
    spent = {"BudgetAt80Percent", "BudgetSpent", "BudgetExhausted", "ProcessBudgetAt80Percent"}
    assert {f"Veilstream{one}" for one in spent} <= seen.fired - seen.cleared
    assert (
        not {"VeilstreamProcessBudgetSpent", "VeilstreamGap", "VeilstreamTwoCoordinators", "VeilstreamLeakageAtBound"}
        & seen.fired
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "rules/veilstream.yml"),
        ("test", "rules", "rules_test.yml"),
        ("test", "rules", "rules_test_days.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts(arguments: tuple[str, ...]) -> None:
    """Configuration and rules are valid, and every alert's unit test passes."""
    done = subprocess.run([program("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_unit_test() -> None:
    """An alert that nothing tests could never fire."""
    tests = "".join(path.read_text() for path in sorted(FOLDER.glob("rules_test*.yml")))
    assert len(alerts()) == RULES.read_text().count("- alert:") == 34
    assert [name for name in alerts() if f"alertname: {name.removeprefix('alert ')}\n" not in tests] == []


def test_comparisons_of_alerts_are_all_found() -> None:
    """Expressions that test whether an alert could ever see data have no filter: every comparison of a rule is a
    `bool`.
    """
    assert len(everything()) == len(alerts()) - 2 + len([name for name in everything() if ": " in name])
    for text in alerts().values():
        assert " bool " in text
        assert "bool bool" not in text


def test_promtool_accepts_the_textfile(tmp_path: Path) -> None:
    """The file of --metrics-textfile follows the conventions of the exposition format."""
    (tmp_path / "live.toml").write_text(CONFIGURATION)
    settings: Settings = load(tmp_path / "live.toml")
    metrics = Metrics("lint")
    MetricsObserver(settings, metrics)
    metrics.write(tmp_path / "v.prom")
    text = (tmp_path / "v.prom").read_bytes()
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
