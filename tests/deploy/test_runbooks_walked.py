"""Runbooks of what a gate and a budget say, walked: real releases make the fault, the alert fires on their metrics in
promtool, the commands of the page see it, and what the page says to do ends it."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.config.settings import Settings
from stream.release.contract import Attempt, Exposure
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.service import ReleaseService
from tests.conftest import ROOT
from tests.deploy.prometheus import program

pytestmark = pytest.mark.prometheus

RULES = ROOT / "deploy" / "prometheus" / "rules" / "veilstream.yml"
NOISE = {"mechanism": {"kind": "dp-variants", "epsilon": 0.5, "delta_dp": 1e-6}}
PLAIN = {"mechanism": {"kind": "identity"}}
QUIET = {"anonymity": False, "series": False, "leakage": False, "risk": False, "utility": False}
CAP = {"max_epsilon": 1, "max_delta": 2e-6}


@dataclass(frozen=True)
class Walk:
    """A publication whose gate or budget is `before`, so many cuts, and what the page says to set (`after`)."""

    alerts: set[str]
    publication: dict[str, Any]
    cuts: int
    before: dict[str, Any]
    after: dict[str, Any]
    audit: dict[str, Any] = field(default_factory=dict)
    process: bool = False
    """Whether these are keys of `process.budget`."""

    def settings(self, bounds: dict[str, Any]) -> Settings:
        gate = {"public_cut": True} if self.publication is NOISE else {}
        own = {"window": {"new_cases": 1}, "gate": {**gate, **({} if self.process else bounds)}}
        table = {"name": "p", **self.publication, **own, "audit": {**QUIET, **self.audit}}
        budget = {"budget": bounds} if self.process else {}
        return Settings.model_validate({"process": {"name": "walked", **budget}, "publication": [table]})


WALKS = {
    "epsilon": Walk(
        {"VeilstreamBudgetAt80Percent", "VeilstreamBudgetSpent", "VeilstreamBudgetExhausted"},
        NOISE, 3, {"max_epsilon": 1}, {"max_epsilon": 10},
    ),
    "delta": Walk(
        {"VeilstreamDeltaBudgetAt80Percent", "VeilstreamDeltaBudgetSpent"},
        NOISE, 3, {"max_delta": 2e-6}, {"max_delta": 1e-4},
    ),
    "process": Walk(
        {
            "VeilstreamProcessBudgetAt80Percent", "VeilstreamProcessBudgetSpent",
            "VeilstreamProcessDeltaBudgetAt80Percent", "VeilstreamProcessDeltaBudgetSpent",
        },
        NOISE, 3, CAP, {"max_epsilon": 10, "max_delta": 1e-4}, process=True,
    ),
    "leakage": Walk(
        {"VeilstreamLeakageAt80Percent", "VeilstreamLeakageAtBound"},
        NOISE, 3, {"max_tpl": 2}, {"max_tpl": 20}, {"leakage": True},
    ),
    "withheld": Walk({"VeilstreamGateWithholds"}, PLAIN, 3, {"min_ka": 1000}, {"min_ka": 1}, {"anonymity": True}),
    "anonymity": Walk(
        {"VeilstreamAnonymityBelowBound"},
        PLAIN, 1, {"min_ka": 1000, "on_violation": "warn"}, {"min_ka": 1}, {"anonymity": True},
    ),
    "uniqueness": Walk(
        {"VeilstreamUniquenessAboveBound"},
        PLAIN, 1, {"max_uniqueness": 0.01, "on_violation": "warn"}, {"max_uniqueness": 1}, {"risk": True},
    ),
    "utility": Walk(
        {"VeilstreamUtilityBelowBound"},
        {"mechanism": {"kind": "tlkc", "L": 2, "K": 20, "C": 1}}, 1,
        {"min_utility": 0.999, "on_violation": "warn"}, {"min_utility": 0.01}, {"utility": True},
    ),
}  # fmt: skip


def _log() -> EventLog:
    """Most cases alike, and three that nobody else resembles."""
    return EventLog.from_traces([(tuple("abcd"), None)] * 60 + [(tuple(one), None) for one in ("xyz", "uvw", "rst")])


def _run(walk: Walk, bounds: dict[str, Any], folder: Path, cuts: range) -> Metrics:
    """A daemon's metrics after so many cuts under these bounds."""
    chosen, metrics = walk.settings(bounds), Metrics("walked", live=True)
    watch = MetricsObserver(chosen, metrics)
    service = ReleaseService(chosen, folder, watch=watch)
    try:
        watch.opened(service)
        for number in cuts:
            log = _log()
            exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
            started = time.monotonic()
            decision = service.pipelines["p"].attempt(Attempt(f"p/{number}/0/0", "new_cases", 0, exposure, {}))
            watch.decided("p", decision, service.pipelines["p"].spent.charge, time.monotonic() - started)
    finally:
        service.close()
    return metrics


def _series(metrics: Metrics) -> list[dict[str, str]]:
    """The samples as promtool takes them, for a quarter of an hour; its clock begins at 0."""
    now, found = time.time(), []
    for family in metrics.registry.collect():
        for sample in family.samples:
            labels = ",".join(f'{name}="{text}"' for name, text in sample.labels.items())
            value = sample.value - now if sample.name.endswith("timestamp_seconds") else sample.value
            found.append({"series": f"{sample.name}{{{labels}}}", "values": f"{value!r}x15"})
    return found


def _firing(metrics: Metrics, folder: Path) -> set[str]:
    """Return the alerts that fire and were not expected, according to promtool."""
    names = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    asked = [{"alertname": name, "eval_time": "12m", "exp_alerts": []} for name in names]
    group = {"interval": "1m", "input_series": _series(metrics), "alert_rule_test": asked}
    (folder / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": [group]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    fired = {name for name in names if f"alertname: {name}," in said}
    assert bool(fired) == bool(done.returncode), said
    return fired


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_the_fault_fires_and_what_the_page_says_ends_it(
    walk: Walk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else of the process fires, before or after."""
    out = tmp_path / "out"
    assert _firing(_run(walk, walk.before, out, range(walk.cuts)), tmp_path) - {"VeilstreamAbsent"} >= walk.alerts
    expected_code = 3 if walk is WALKS["withheld"] else 0  # its gate lets nothing leave
    assert veilstream(["releases", str(out), "--json"]) == expected_code
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    assert any(row["reasons"] for row in attempts)
    assert veilstream(["verify", str(out)]) == expected_code
    after = _firing(_run(walk, walk.after, out, range(walk.cuts, walk.cuts + 1)), tmp_path)
    assert not after & walk.alerts, after
    for name in walk.alerts:
        assert f"tests/deploy/{Path(__file__).name}" in (ROOT / "docs" / "runbooks" / "README.md").read_text(), name
