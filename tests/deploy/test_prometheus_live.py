"""A real Prometheus: scrapes a live replay, evaluates every expression, and its alerts fire and clear."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from connectors import read_log
from stream.metrics import Metrics
from stream.release.contract import Charge
from stream.replay import Replay
from stream.settings import Settings
from stream.watch import Watch
from tests.conftest import ROOT
from tests.deploy.prometheus import Prometheus, eventually, program

FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "rules" / "veilstream.yml"
CONFIGURATION = {
    "process": {"name": "live", "sensitive": ["diagnosis"]},
    "publication": [
        {
            "name": "research",
            "window": {"new_cases": 500},
            "mechanism": {"kind": "identity"},
            "audit": {"bk_length": 1, "n": [0], "against": "last", "risk": {"points": [1], "draws": 1}},
            "gate": {"min_ka": 2, "min_fa": 2, "max_uniqueness": 0.99, "min_utility": 0.01, "on_violation": "warn"},
        },
        {
            "name": "statistics",
            "window": {"every": "30d", "time": "event"},
            "mechanism": {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-6},
            "audit": {"leakage": {}},
            "gate": {"max_epsilon": 10.0, "max_tpl": 20.0, "max_delta": 0.1},
        },
    ],
}
"""Every bound is set, so that every panel has something to show."""


@dataclass
class Live:
    """A Prometheus, and the metrics that it scrapes."""

    prometheus: Prometheus
    metrics: Metrics
    watch: Watch


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A replay of the bundled log under the eyes of a Prometheus."""
    program("prometheus")
    settings = Settings.model_validate(CONFIGURATION)
    metrics = Metrics("live")
    port, server = metrics.serve(0)
    folder = tmp_path_factory.mktemp("live")
    prometheus = Prometheus(folder / "prometheus", [f"127.0.0.1:{port}"], RULES)
    try:
        watch = Watch(settings, metrics)
        Replay(settings, folder / "out", watch=watch).run(read_log(ROOT / "examples" / "hospital.xes.gz"))
        yield Live(prometheus, metrics, watch)
    finally:
        prometheus.close()
        server.shutdown()
        server.server_close()


def panels() -> dict[str, str]:
    """`dashboard: panel` -> expression with its variables as "All", annotations included."""
    found = {}
    for path in sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                found[f"{path.stem}: {panel['title']} {target['refId']}"] = target["expr"]
        for one in board["annotations"]["list"]:
            found[f"{path.stem}: annotation {one['name']}"] = one["expr"]
    return {name: text.replace("$process", ".*").replace("$publication", ".*") for name, text in found.items()}


EMPTY = {
    "veilstream_ingest_": "an ingest worker of the daemon says it; a replay has none",
    "veilstream_dlq_records_total": "a healthy stream has no dead letters",
    "veilstream_coordinator_active": "a coordinator of the daemon says it; a replay has none",
    "changes(veilstream_withheld_total": "marks a moment; a healthy gate withholds nothing",
    "changes(veilstream_releases_total": "marks a moment: data only in the minute after a release",
}
"""Expressions that a healthy replay answers with nothing, and why."""


def test_every_panel_has_data_or_a_reason(live: Live) -> None:
    """A panel whose expression matches no series would stay empty for ever: none does without a reason."""
    eventually(lambda: live.prometheus.query('veilstream_events_total{process="live"} > 11000'))
    expected = {name: text for name, text in panels().items() if not any(start in text for start in EMPTY)}
    assert len(expected) > 30

    def silent() -> list[str]:
        return [name for name, text in expected.items() if not live.prometheus.query(text)]

    for _attempt in range(10):
        if not silent():
            break
        time.sleep(0.5)
    assert silent() == []


def test_excused_panels_are_about_metrics_that_exist(live: Live) -> None:
    """What is excused from having data has data once the daemon's own metrics are there."""
    live.metrics.ingested(5, 1, {"json": 0}, {"events/0": 3})
    live.metrics.active(True)
    excused = {name: text for name, text in panels().items() if any(start in text for start in tuple(EMPTY)[:3])}
    assert excused
    eventually(lambda: all(live.prometheus.query(text) for text in excused.values()))


def test_alerts_fire_and_clear(live: Live) -> None:
    """A gap, a gate that withholds, and a budget that runs out: each fires, and clears when the cause is gone."""
    metrics, prometheus = live.metrics, live.prometheus
    wanted = {"VeilstreamGap", "VeilstreamGateWithholds", "VeilstreamBudgetSpent"}
    assert not wanted & prometheus.firing()
    spent = Charge(Fraction(10), Fraction(0))
    streak = {"publication": "research"}
    metrics.partitions({}, 2)
    metrics._set("withheld_streak_attempts", 3, **streak)
    metrics.budget("statistics", spent)
    eventually(lambda: wanted <= prometheus.firing())
    metrics.partitions({}, 0)
    metrics._set("withheld_streak_attempts", 0, **streak)
    metrics.budget("statistics", Charge(Fraction(1), Fraction(0)))
    eventually(lambda: not wanted & prometheus.firing())


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "rules/veilstream.yml"),
        ("test", "rules", "rules_test.yml"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_accepts(arguments: tuple[str, ...]) -> None:
    """Configuration and rules are valid, and every alert's unit test passes."""
    done = subprocess.run([program("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_unit_test() -> None:
    """An alert that nothing tests could never fire."""
    rules, tests = RULES.read_text(), (FOLDER / "rules_test.yml").read_text()
    alerts = [line.split()[-1] for line in rules.splitlines() if "- alert:" in line]
    assert len(alerts) == 14
    assert [name for name in alerts if f"alertname: {name}\n" not in tests] == []


def test_promtool_accepts_the_textfile(tmp_path: Path) -> None:
    """What --metrics-textfile leaves follows the conventions of the exposition format."""
    metrics = Metrics("lint")
    Watch(Settings.model_validate(CONFIGURATION), metrics)
    metrics.write(tmp_path / "v.prom")
    text = (tmp_path / "v.prom").read_bytes()
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
