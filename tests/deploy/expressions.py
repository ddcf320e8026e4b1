"""Expressions of dashboards and alerts that Prometheus evaluates, and those without an answer, with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

BOARDS = ROOT / "deploy" / "grafana" / "dashboards"
RULES = ROOT / "deploy" / "prometheus" / "rules" / "veilstream.yml"
COMPARISON = re.compile(r" (==|!=|>=|<=|>|<) ")
DURATION = re.compile(r"(?<=\[)\d+[smhd](?=\])|(?<=for: )\d+[smhd]")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
HURRY = 60
"""How many times shorter ranges and waits of alerts are in tests than in deploy/prometheus: a minute is a second."""

EMPTY_ALWAYS = {
    "alert VeilstreamNoCoordinator": "`unless` takes away what has a coordinator: an answer is the alarm itself",
    "alert VeilstreamAbsent": "`absent` answers where there is nothing",
}
EMPTY_IN_A_REPLAY = {
    "veilstream_ingest_": "an ingest worker of the daemon reports it; a replay reads a file",
    "veilstream_dlq_records_total": "dead letters need a topic; a replay ends at the first unusable event",
    "veilstream_waiting_overdue_seconds": "moments of a replay are simulated: nothing is overdue",
    "veilstream_delta_timestamp_seconds": "the delta topic is the daemon's",
    "veilstream_delta_lag_records": "the delta topic is the daemon's",
    "veilstream_rebalances_total": "a replay is a member of no group",
    "veilstream_checkpoint_seconds": "the daemon measures its checkpoints",
    "veilstream_broker_contact_timestamp_seconds": "a replay has no broker",
    "veilstream_unreadable_partitions": "a replay reads no record batches",
    "veilstream_coordinator_active": "a coordinator of the daemon reports it; a replay is alone",
}
"""Part of an expression -> why a replay never answers it. The daemon answers every one of them."""


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> dict[str, str]:
    """`dashboard: panel` -> expression with its variables as "All"; annotations and variables included."""
    found = {}
    for path in sorted(BOARDS.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                found[f"{path.stem}: {panel['title']} {target['refId']}"] = target["expr"]
        for one in board["annotations"]["list"]:
            found[f"{path.stem}: annotation {one['name']}"] = one["target"]["expr"]
        for one in board["templating"]["list"]:
            metric = re.fullmatch(r"label_values\((.*), \w+\)", one["query"]["query"])
            assert metric is not None
            found[f"{path.stem}: variable {one['name']}"] = metric[1]
    return {name: text.replace("$process", ".*").replace("$publication", ".*") for name, text in found.items()}


def alerts() -> dict[str, str]:
    """`alert NAME` -> its expression with every comparison as 0 or 1 (`bool`): an answer in good health too.

    Without `bool` a comparison keeps only what is wrong, and a misspelt metric or labels that never match would look
    like health forever.
    """
    return {f"alert {rule['alert']}": COMPARISON.sub(r" \1 bool ", rule["expr"]) for rule in rules()}


def everything() -> dict[str, str]:
    """Return all expressions except those that have a reason to be always empty."""
    return {name: text for name, text in {**panels(), **alerts()}.items() if name not in EMPTY_ALWAYS}


def of_a_replay() -> dict[str, str]:
    """Return the expressions that only a replay answers."""
    return {name: text for name, text in everything().items() if not any(part in text for part in EMPTY_IN_A_REPLAY)}


def hurried(folder: Path) -> Path:
    """Return the rules with every duration (range or `for`) divided by HURRY, and nothing else changed."""

    def shorter(found: re.Match[str]) -> str:
        return f"{int(found[0][:-1]) * SECONDS[found[0][-1]] * 1000 // HURRY}ms"

    path = folder / RULES.name
    path.write_text(DURATION.sub(shorter, RULES.read_text(encoding="utf-8")), encoding="utf-8")
    return path
