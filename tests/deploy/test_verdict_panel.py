"""The panels that the overview begins with, evaluated by promtool on series made by hand."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml

from stream.release.verdict import Word
from stream.run.exporter import Metrics
from tests.deploy.expressions import panels
from tests.deploy.prometheus import program
from tests.deploy.test_grafana_dashboards import BOARDS

VERDICT = panels()["veilstream-overview: Verdict A"]
LASTS = panels()["veilstream-overview: Budget lasts until A"]


def evaluated(folder: Path, expression: str, series: list[str], value: str | None) -> subprocess.CompletedProcess[str]:
    """Whether promtool finds that value for publication `a` of process `p` (None: no answer)."""
    named = []
    for one in series:
        name, _, number = one.rpartition(" ")
        bare, _, more = name.rstrip("}").partition("{")
        labels = ",".join(filter(None, ('process="p"', 'publication="a"', more)))
        named.append({"series": f"veilstream_{bare}{{{labels}}}", "values": f"{number}x5"})
    samples = [] if value is None else [{"labels": '{process="p", publication="a"}', "value": float(value)}]
    case = {"expr": expression, "eval_time": "3m", "exp_samples": samples}
    test = {"rule_files": [], "tests": [{"interval": "1m", "input_series": named, "promql_expr_test": [case]}]}
    (folder / "t.yml").write_text(yaml.safe_dump(test, width=10_000))
    command = [program("promtool"), "test", "rules", str(folder / "t.yml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def shown(word: Word) -> list[str]:
    """The series of a publication with this verdict, as the exporter shows them."""
    metrics = Metrics("p")
    metrics.verdict("a", word)
    samples = [one for family in metrics.registry.collect() for one in family.samples if "verdict" in one.labels]
    return [f'verdict{{verdict="{one.labels["verdict"]}"}} {one.value:g}' for one in samples]


@pytest.mark.parametrize("word", get_args(Word))
def test_the_panel_shows_the_verdict(word: Word, tmp_path: Path) -> None:
    """The text of the number that the expression gives is the word."""
    (panel,) = [one for one in BOARDS["veilstream-overview"]["panels"] if one["id"] == 11]
    texts = {key: one["text"] for key, one in panel["fieldConfig"]["defaults"]["mappings"][0]["options"].items()}
    (number,) = [key for key, text in texts.items() if text == word]
    done = evaluated(tmp_path, VERDICT, shown(word), number)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_verdict_is_found(tmp_path: Path) -> None:
    """The test above can fail."""
    assert evaluated(tmp_path, VERDICT, shown("LIMITED"), "3").returncode != 0


def test_the_day_on_which_the_budget_ends(tmp_path: Path) -> None:
    """Now (180 s) and two releases of a day each, in milliseconds as Grafana wants them."""
    series = ["budget_left_releases 2", "release_expected_seconds 86400"]
    done = evaluated(tmp_path, LASTS, series, str(1000 * (180 + 2 * 86400)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_every_panel_says_in_words_what_it_shows(name: str) -> None:
    """A sentence at least, and no panel repeats the text of another."""
    texts = [panel.get("description", "") for panel in BOARDS[name]["panels"]]
    assert [text for text in texts if len(text) < 40 or not text.endswith((".", ")"))] == []
    assert len(set(texts)) == len(texts)


def test_a_bound_is_dashed_and_red_wherever_it_is_drawn() -> None:
    """Colours mean the same on every dashboard."""
    for board in BOARDS.values():
        for panel in board["panels"]:
            legends = " ".join(target.get("legendFormat", "") for target in panel["targets"])
            if panel["type"] == "timeseries" and ("bound" in legends or "limit" in legends):
                assert '"fixedColor": "red"' in json.dumps(panel["fieldConfig"]["overrides"])
