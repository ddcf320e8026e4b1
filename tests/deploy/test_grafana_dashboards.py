"""Dashboards and provisioning, by Grafana's published schema and by their structure; Grafana itself is not run."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream.run.metric_table import DEFINITIONS
from tests.conftest import ROOT
from tests.deploy.node import HERE, MODULES, node, run

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


def checked(folder: Path, boards: dict[str, Any]) -> dict[str, list[str]]:
    """Return the compiler's errors about each dashboard as a literal of the schema's types (board.ts); [] if it
    conforms.
    """
    node()
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "board.ts").write_text((HERE / "board.ts").read_text())
    for name, board in boards.items():
        literal = json.dumps(board, indent=1)
        (folder / f"{name}.ts").write_text(
            f'import type {{ Board }} from "./board";\nexport const _: Board = {literal};'
        )
    options = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "esnext",
        "--pretty",
        "false",
    ]
    files = [f"{name}.ts" for name in ("board", *boards)]
    done = run("typescript", *options, "--moduleResolution", "bundler", "--types", "", *files, cwd=folder)
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith(("board.ts", "error"))], done.stdout
    return {name: [line for line in lines if line.startswith(f"{name}.ts")] for name in boards}


def test_dashboards_conform_to_the_published_schema(tmp_path: Path) -> None:
    """Every key and value has a place in the types of @grafana/schema, down to the options of each panel."""
    assert checked(tmp_path, BOARDS) == {name: [] for name in BOARDS}


def test_the_schema_sees_planted_faults(tmp_path: Path) -> None:
    """A key too many, one too few, a wrong value: each is found, wherever it appears."""
    faults: dict[str, Callable[[dict[str, Any]], Any]] = {
        "unknown_key": lambda board: board.update(tittle="x"),
        "unknown_key_of_panel": lambda board: board["panels"][0].update(gridpos={}),
        "unknown_option": lambda board: board["panels"][0]["options"].update(tolltip={}),
        "unknown_kind_of_panel": lambda board: board["panels"][0].update(type="graph"),
        "wrong_option": lambda board: board["panels"][2]["options"].update(tooltip={"mode": "many"}),
        "wrong_refresh": lambda board: board["templating"]["list"][0].update(refresh=7),
        "no_version": lambda board: board.pop("schemaVersion"),
        "no_place": lambda board: board["panels"][0]["gridPos"].pop("x"),
        "no_query": lambda board: board["panels"][0]["targets"][0].pop("expr"),
        "no_enable": lambda board: board["annotations"]["list"][0].pop("enable"),
        "half_a_link": lambda board: board["links"][0].pop("icon"),
    }
    boards = {}
    for name, plant in faults.items():
        boards[name] = copy.deepcopy(BOARDS["veilstream-overview"])
        plant(boards[name])
    assert [name for name, found in checked(tmp_path, boards).items() if not found] == []


def test_the_schema_is_of_the_grafana_that_compose_runs() -> None:
    """A dashboard that a later Grafana understands would not do."""
    image = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["grafana"]["image"]
    schema = json.loads((HERE / "package.json").read_text())["dependencies"]["@grafana/schema"]
    assert image == f"grafana/grafana:{schema}"


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
    assert {one.name for one in DEFINITIONS} - shown == set()


NAMES = re.compile(r"veilstream_[a-z_]+")


def test_provisioning_names_the_source_of_the_panels() -> None:
    """The provisioned data source has the uid that the panels ask for."""
    assert f"uid: {SOURCE}\n" in (FOLDER / "provisioning/datasources/prometheus.yml").read_text()
    assert "path: /etc/grafana/dashboards\n" in (FOLDER / "provisioning/dashboards/veilstream.yml").read_text()
