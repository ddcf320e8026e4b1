"""The panels that the overview begins with, evaluated by promtool on series made by hand."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.expressions import panels
from tests.deploy.prometheus import program
from tests.deploy.test_grafana_dashboards import BOARDS

VERDICT = panels()["veilstream-overview: Verdict on the latest release A"]
LASTS = panels()["veilstream-overview: Budget lasts until A"]
OUT = "release_timestamp_seconds 100"
BOUNDS = [f'anonymity_bound_cases{{attack="{one}"}} 20' for one in ("ka", "fa", "ca", "ba")]


def worst(**values: int) -> list[str]:
    """Cases left under each attack."""
    return [f'anonymity_worst_cases{{attack="{one}"}} {value}' for one, value in values.items()]


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


@pytest.mark.parametrize(
    ("why", "series", "word"),
    [
        ("nothing is out", ["withheld_streak_attempts 2", *BOUNDS], "0"),
        ("all bounds hold", [OUT, *BOUNDS, *worst(ka=20, fa=25, ca=25, ba=20)], "2"),
        ("a first release has KA alone", [OUT, *BOUNDS, *worst(ka=20)], "2"),
        ("one bound is broken", [OUT, *BOUNDS, *worst(ka=20, fa=25, ca=25, ba=19)], "1"),
        ("one bound is missing", [OUT, *BOUNDS[:3], *worst(ka=20, fa=25, ca=25, ba=30)], "1"),
        ("no bound at all", [OUT, *worst(ka=20)], "1"),
        ("noise under a limit", [OUT, "budget_spent_epsilon 3.5", "budget_limit_epsilon 4"], "2"),
        ("noise without a limit", [OUT, "budget_spent_epsilon 3.5"], "1"),
    ],
)
def test_the_verdict_of_the_latest_release(why: str, series: list[str], word: str, tmp_path: Path) -> None:
    """0: nothing out, 1: LIMITED, 2: SAFE, as the texts of the panel say."""
    streak = [] if any("streak" in one for one in series) else ["withheld_streak_attempts 0"]
    done = evaluated(tmp_path, VERDICT, [*series, *streak], word)
    assert done.returncode == 0, f"{why}: {done.stdout}{done.stderr}"
    (panel,) = [one for one in BOARDS["veilstream-overview"]["panels"] if one["id"] == 11]
    texts = {key: one["text"] for key, one in panel["fieldConfig"]["defaults"]["mappings"][0]["options"].items()}
    assert texts == {"0": "nothing out", "1": "LIMITED", "2": "SAFE"}


def test_a_wrong_verdict_is_found(tmp_path: Path) -> None:
    """The test above can fail."""
    series = [OUT, *BOUNDS, *worst(ka=20, ba=3), "withheld_streak_attempts 0"]
    assert evaluated(tmp_path, VERDICT, series, "2").returncode != 0


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
