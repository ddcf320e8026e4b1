"""The pages of one folder do not contradict each other, nor themselves: what an officer found who had to sign."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from stream.commands import execute

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[process]
name = "hospital"
[process.attributes]
sensitive = ["diagnosis"]
[process.completion]
end_activities = ["Discharge"]
inactivity = "30d"
[[publication]]
name = "groups"
audience = "analysts"
window = { new_cases = 800 }
mechanism = { kind = "tlkc-cohorts", L = 2, K = 20, C = 0.5, suppression = "local", times = "microaggregated" }
audit = { bk_length = 2, n = [0, 1], method = "exact", against = "all" }
gate = { min_ka = 20, min_fa = 20, min_ca = 20, min_ba = 20, max_minimality = 0 }
[[publication]]
name = "noise"
audience = "public"
start = "2025-01-01T00:00:00Z"
window = { every = "56d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-6 }
audit = { leakage = true }
gate = { max_epsilon = 4.0 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups for analysts and noise for the public, of the same cases."""
    place = tmp_path_factory.mktemp("pages")
    (place / "v.toml").write_text(CONFIG, encoding="utf-8")
    command = ["replay", str(ROOT / "examples" / "hospital.xes.gz"), "-c", str(place / "v.toml"), "--final"]
    assert execute([*command, "-o", str(place / "out")]) == 0
    return place / "out"


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    """The text of the report, one line a block."""
    target = folder.parent / "report.html"
    assert execute(["report", str(folder), "-o", str(target)]) == 0
    text = re.sub(r"<(style|svg).*?</\1>", " ", target.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"<(tr|p|li|h\d|dt|dd|section|summary)([ >])", r"\n<\1\2", text)
    return html.unescape(re.sub(r"[ \t]+", " ", re.sub(r"<[^>]*>", " ", text)))


def statement_of(folder: Path, *arguments: str) -> str:
    target = folder.parent / "statement.md"
    assert execute(["statement", str(folder), *arguments, "-o", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def test_the_variants_of_report_and_statement_add_up(folder: Path, page: str) -> None:
    """The statement counts the variants of the release; the report says how many of them are in the source."""
    found = re.search(r"variants of the log, (\d+) are in the release\. (\d+) further .* the release has (\d+)", page)
    assert found is not None
    kept, new, shown = map(int, found.groups())
    last = sorted((folder / "public" / "groups").iterdir())[-1]
    assert kept + new == shown == json.loads((last / "manifest.json").read_text())["counts"]["variants"]
    assert f"| {shown} | log.xes.gz |" in statement_of(folder, "groups")


def test_safe_means_bounds_on_attacks_or_a_limit_of_epsilon(page: str) -> None:
    """Each kind gets the sentence that holds for it."""
    answers = page.split("Is it safe?")[2].split("What is left of the budget", maxsplit=1)[0]
    _, first, one, second, two = re.split(r"SAFE +(groups|noise)\s", answers)
    said = {first: one, second: two}
    groups, noise = said["groups"], said["noise"]
    assert "all four attacks" in groups
    assert "all four attacks" not in noise
    assert "limit of epsilon" in noise


def test_leakage_and_budget_name_the_same_spending(page: str) -> None:
    """Four releases of 0.5: epsilon 2, and 4 by the comparison of the leakage; both deltas next to their epsilon."""
    budget = page.split("What is left of the budget, and until when?")[1].split("What did it cost", maxsplit=1)[0]
    assert re.search(r"TPL 4 with delta \S+ and epsilon 2 with delta 4e-06 are about the same releases", budget)
    details = page.split("Details: publication noise")[1].split("Temporal leakage")[1]
    assert "by the budget's comparison 2" in details


def test_a_day_that_is_over_is_no_forecast(page: str) -> None:
    """The log ends in 2025: no day is promised for the last release, and the page says why."""
    budget = page.split("What is left of the budget, and until when?")[1].split("What did it cost", maxsplit=1)[0]
    assert "more can leave." in budget
    assert "in the time of the log" in budget
    assert "at the pace so far" not in budget


def test_left_out_cases_and_whole_cases_are_not_confused(page: str) -> None:
    """Cases left out whole are one thing, cases that lack events another."""
    releases = page.split("Details: publication groups")[1]
    assert "cases left out whole" in releases
    assert re.search(r"[\d.]+ % of the released cases kept all their events", releases.split("Anonymity before")[0])
    assert "suppressed cases" not in page


def test_the_statement_of_noise_names_what_takes_it_away(folder: Path) -> None:
    """Exact counts of the same cases leave in addition to the noise, to another audience here."""
    text = statement_of(folder, "noise")
    assert "Publication “groups” for audience “analysts” shows exact counts" in text
    assert "A recipient of both can subtract" in text
    assert "DP VOID" not in text


def test_the_statement_says_dp_void_where_the_verdict_does(folder: Path, tmp_path: Path) -> None:
    """The same two publications for one audience. Nothing but public manifests is read."""
    import shutil

    shutil.copytree(folder / "public", tmp_path / "public")
    for path in (tmp_path / "public" / "groups").rglob("manifest.json"):
        path.write_text(path.read_text().replace('"analysts"', '"public"'))
    assert "DP VOID" in statement_of(tmp_path / "public", "noise")


def test_the_statement_of_groups_has_no_such_section(folder: Path) -> None:
    assert "Together with other publications" not in statement_of(folder, "groups")
