"""Dashboards and provisioning by their structure: Grafana itself is not run here."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stream.metrics_table import DEFINITIONS
from tests.conftest import ROOT

FOLDER = ROOT / "deploy" / "grafana"
SOURCE = "veilstream-prometheus"
UIDS = ["veilstream-attacks", "veilstream-health", "veilstream-leakage", "veilstream-overview"]
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("dashboards/*.json"))}
SUFFIXES = ("", "_bucket", "_count", "_sum")


def expressions(board: dict[str, Any]) -> list[str]:
    """Everything that a dashboard asks Prometheus for."""
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [one["query"]["query"] for one in board["templating"]["list"]]
    return targets + variables + [one["target"]["expr"] for one in board["annotations"]["list"]]


def test_the_four_dashboards_are_there() -> None:
    """Fixed uids: links to a dashboard outlive an update."""
    assert [board["uid"] for board in BOARDS.values()] == UIDS == list(BOARDS)


@pytest.mark.parametrize("board", BOARDS.values(), ids=UIDS)
def test_dashboard_has_what_an_operator_needs(board: dict[str, Any]) -> None:
    """Variables, annotations at releases and withheld attempts, one data source, panels that do not overlap."""
    assert [one["name"] for one in board["templating"]["list"]] == ["process", "publication"]
    assert [one["name"] for one in board["annotations"]["list"]] == ["Releases", "Withheld attempts"]
    sources = {panel["datasource"]["uid"] for panel in board["panels"]}
    assert sources == {SOURCE}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert len(set(ids)) == len(ids)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])
    assert all(panel["type"] in ("timeseries", "stat") and panel["title"] for panel in board["panels"])


def test_every_metric_asked_for_exists_and_every_metric_is_shown() -> None:
    """A dashboard names no metric that veilstream has not, and none of veilstream's is out of sight."""
    known = {one.name + suffix: one.name for one in DEFINITIONS for suffix in SUFFIXES}
    asked = {name for board in BOARDS.values() for text in expressions(board) for name in NAMES.findall(text)}
    assert asked <= set(known)
    shown = {known[name] for name in asked}
    assert {one.name for one in DEFINITIONS} - shown == UNSHOWN


NAMES = re.compile(r"veilstream_[a-z_]+")
UNSHOWN = {"veilstream_ingest_deltas_total", "veilstream_release_cut_timestamp_seconds"}
"""Of use to whoever debugs, not to whoever watches."""


def test_provisioning_names_the_source_of_the_panels() -> None:
    """The provisioned data source has the uid that the panels ask for."""
    assert f"uid: {SOURCE}\n" in (FOLDER / "provisioning/datasources/prometheus.yml").read_text()
    assert "path: /etc/grafana/dashboards\n" in (FOLDER / "provisioning/dashboards/veilstream.yml").read_text()
