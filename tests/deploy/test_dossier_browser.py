"""The dossier of a series like the demo's, as an officer gets it: its numbers, its two pages, its widths, and markup in
its values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors import read_log, write_log
from stream.commands import execute
from stream.commands.demo import BUNDLED
from stream.operator.dossier.texts import LANGUAGES
from tests.deploy.browsing import chromium, open_page
from tests.deploy.test_report_browser import HOSTILE, IMAGE, SCRIPT, faults
from tests.dossiers import FACTS, write_facts
from tests.serving import start

LEGAL = (
    "95 %",
    "95 of 100",
    "Article 29 Working Party",
    "Opinion 05/2014",
    "C-413/23 P",
    "NIST SP 800-226",
    "ISO/IEC 27559",
    "Regulation (EU) 2025/327",
    "Article 66",
    "recital 77",
    "(1 − control)",
    "(sha256)",
)
"""Numbers of laws, standards and formulas, which measure nothing."""


CASES, WINDOW = 400, 80
"""Of the log of the demo, which has 2,041: the dossier replays it for each value that it compares."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the demo, with an assessment of its last releases and one of a trial release of half of the log."""
    folder = tmp_path_factory.mktemp("dossier") / "demo"
    folder.mkdir()
    bundled = read_log(BUNDLED / "hospital.xes.gz")
    write_log(bundled.select_cases(np.arange(CASES)), folder / "hospital.xes.gz")
    config = (BUNDLED / "hospital.toml").read_text(encoding="utf-8")
    assert "completed_cases = 200" in config
    config = config.replace("completed_cases = 200", f"completed_cases = {WINDOW}")
    (folder / "hospital.toml").write_text(config, encoding="utf-8")
    words = ["-c", str(folder / "hospital.toml"), "-o", str(folder / "releases"), "--final"]
    assert execute(["replay", str(folder / "hospital.xes.gz"), *words]) == 0
    releases = [str(path) for path in sorted((folder / "releases" / "public" / "research").glob("release-*"))[-2:]]
    log, sensitive = str(folder / "hospital.xes.gz"), ["--sensitive", "diagnosis"]
    trial = [f"--set={key}" for key in ("K=20", "L=2", "C=0.5", "suppression=local", "times=microaggregated")]
    _keep(folder / "releases.json", ["assess", *releases, "--original", log, *sensitive])
    _keep(folder / "trial.json", ["assess", "--original", log, "--mechanism", "tlkc-cohorts", *trial, *sensitive])
    write_facts(folder / "dossier.toml", FACTS)
    assert execute([*_words(folder), "--original", log, "-o", str(folder / "dossier.md")]) == 0
    return folder


def _keep(path: Path, words: list[str]) -> None:
    """Write what a command prints as JSON."""
    path.write_text(printed(words), encoding="utf-8")


def printed(words: list[str]) -> str:
    """The JSON that a command prints."""
    program = [sys.executable, "-m", "stream.commands", *words, "--json"]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def _words(folder: Path) -> list[str]:
    files = [f"--assessment={folder / name}.json" for name in ("releases", "trial")]
    return ["dossier", str(folder / "releases"), "research", *files, "-c", str(folder / "hospital.toml")]


def _html(folder: Path, language: str, *more: str) -> Path:
    page = folder / f"dossier-{language}.html"
    assert execute([*_words(folder), "--language", language, "-o", str(page), *more]) == 0
    return page


# numbers


def _numbers(value: Any) -> Iterator[float]:
    """Every number of a JSON document."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


class Sources:
    """Everything that the dossier may repeat: manifests, the last audit, the assessments and the alternatives."""

    def __init__(self, folder: Path) -> None:
        output = folder / "releases"
        manifests = [json.loads(path.read_text()) for path in sorted(output.glob("public/research/*/manifest.json"))]
        last = max((output / "public" / "research").glob("release-*")).name.removeprefix("release-")
        audit = json.loads((output / "operator" / "research" / last / "audit.json").read_text())
        measured = {name: audit[name] for name in ("anonymity", "series", "risk", "minimality", "bounds", "counts")}
        assessments = [json.loads((folder / f"{name}.json").read_text()) for name in ("releases", "trial")]
        kept = output / "operator" / "for_officers" / "research" / "alternatives.json"
        self.documents = [*manifests, measured, *assessments, json.loads(kept.read_text())]
        self.text = json.dumps(self.documents) + (folder / "hospital.toml").read_text()
        self.text += "".join(path.read_text() for path in output.glob("operator/research/*/audit.json"))
        self.numbers = list(_numbers(self.documents)) + [float(WINDOW)]  # of the configuration

    def has(self, shown: str, *, percent: bool) -> bool:
        """Whether a number as it is printed is one of these, rounded to its decimals."""
        decimals = len(shown.partition(".")[2])
        scale = 100 if percent else 1
        wanted = {shown, f"{float(shown):g}"}
        return any(f"{scale * number:.{decimals}f}" in wanted for number in self.numbers)


def _unknown(text: str, sources: Sources, allowed: set[str]) -> list[str]:
    """Every number of a text that is in no source."""
    for phrase in LEGAL:
        text = text.replace(phrase, "")
    text = re.sub(r"\bparts? \d( and \d)?|^## \d\.", "", text, flags=re.MULTILINE)
    found = []
    for digest in re.findall(r"\b[0-9a-f]{64}\b", text):
        text = text.replace(digest, "")
    for day in re.findall(r"\d{4}-\d{2}-\d{2}", text):
        if day not in sources.text and day not in allowed:
            found.append(day)
        text = text.replace(day, "")
    text = text.replace("\N{MINUS SIGN}", "-")
    for number, percent in re.findall(r"((?<!\w)-?\d+(?:\.\d+)?)(\s?%)?", text):
        if number not in allowed and not sources.has(number, percent=bool(percent)):
            found.append(number + percent)
    return found


def test_each_number_is_in_a_manifest_an_audit_or_an_assessment(demo: Path) -> None:
    text = (demo / "dossier.md").read_text(encoding="utf-8")
    today = datetime.now(UTC).date().isoformat()
    version = json.loads(printed(_words(demo)))["written_by"]["version"]
    assert _unknown(text.replace(version, ""), Sources(demo), {today}) == []


def test_a_number_of_nowhere_would_be_found(demo: Path) -> None:
    """The check above can fail: a figure, a share and a date that no source has."""
    sources = Sources(demo)
    assert _unknown("up to 987654 steps, 61.73 % since 1999-01-01", sources, set()) == [
        "1999-01-01",
        "987654",
        "61.73 %",
    ]


def test_each_digest_is_that_of_its_document(demo: Path) -> None:
    text = (demo / "dossier.md").read_text(encoding="utf-8")
    found = json.loads(printed(_words(demo)))
    digests = [found["manifest_sha256"], found["config_digest"], *(one["sha256"] for one in found["assessments"])]
    assert sorted(re.findall(r"\b[0-9a-f]{64}\b", text)) == sorted(digests)


def test_no_question_is_open_but_those_that_are_marked(demo: Path) -> None:
    """Without facts each one is asked for in a mark; with all of them nothing is left to ask."""
    asked = _html(demo, "en").read_text(encoding="utf-8")
    assert asked.count("<mark>Open question: ") == asked.count("Open question: ") == len(FACTS)
    facts = ["--facts", str(demo / "dossier.toml")]
    assert "Open question" not in _html(demo, "en", *facts).read_text(encoding="utf-8")


# paper and screen


def _pages(page: Path) -> int:
    """Pages of paper, by printing to a PDF."""
    pdf = page.with_suffix(".pdf")
    command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    subprocess.run([*command, f"--print-to-pdf={pdf}", page.as_uri()], capture_output=True, check=True, timeout=300)
    return len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))


@pytest.mark.chromium
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("answered", [True, False])
def test_it_fits_on_two_pages_of_paper(demo: Path, language: str, answered: bool) -> None:
    facts = ["--facts", str(demo / "dossier.toml")] if answered else []
    assert _pages(_html(demo, language, *facts)) == 2


@pytest.mark.chromium
def test_a_longer_document_has_more_pages(demo: Path) -> None:
    """The count above can fail."""
    page = demo / "long.html"
    content = _html(demo, "en").read_text(encoding="utf-8")
    page.write_text(content.replace("</main>", "<p>more</p>" * 400 + "</main>"), encoding="utf-8")
    assert _pages(page) > 2


@pytest.mark.chromium
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_clean_at_three_widths_and_in_print(demo: Path, language: str, pictures: Path | None) -> None:
    """No overflow, message, request or fault of axe, with questions and with answers."""
    for facts in ([], ["--facts", str(demo / "dossier.toml")]):
        page = _html(demo, language, *facts)
        found = open_page(page, pictures and pictures / "dossier" / language, looks="light,tablet,phone-light,print")
        assert faults(found) == []
        assert found["light"]["keys"]["unreached"] == 0


# markup in values


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose activities, resources, attribute and values are markup, and facts that are."""
    folder = tmp_path_factory.mktemp("hostile")
    labels = (SCRIPT, IMAGE, "</svg></style><b>visit")
    rows = []
    for case in range(20):
        for step, label in enumerate(labels):
            row = {"case:concept:name": f"c{case}", "concept:name": label, "org:resource": label}
            row |= {"time:timestamp": f"2025-01-{1 + case:02d}T0{step}:00:00Z"}
            row |= {f"case:{SCRIPT}": SCRIPT if case % 3 else IMAGE}
            rows.append(row)
    pd.DataFrame(rows).to_csv(folder / "log.csv", index=False)
    named = HOSTILE.replace('sensitive = ["diagnosis"]', f"sensitive = ['{SCRIPT}']")
    (folder / "c.toml").write_text(named + f"release_attributes = ['{SCRIPT}']\n")
    words = ["replay", str(folder / "log.csv"), "-c", str(folder / "c.toml"), "-o", str(folder / "out")]
    assert execute(words) == 0
    release = folder / "out" / "public" / "research" / "release-000001"
    attack = ["assess", str(release), "--original", str(folder / "log.csv"), "--sensitive", SCRIPT]
    _keep(folder / "assessment.json", attack)
    assert execute([*attack, "-o", str(folder / "assessment.html")]) == 0
    (folder / "dossier.toml").write_text("".join(f"{key} = '{SCRIPT} {IMAGE}'\n" for key in FACTS))
    return folder


def _dossier_words(hostile: Path) -> list[str]:
    return [
        *("dossier", str(hostile / "out"), "research", "-c", str(hostile / "c.toml")),
        *("--assessment", str(hostile / "assessment.json"), "--facts", str(hostile / "dossier.toml")),
    ]


@pytest.mark.chromium
def test_markup_is_text_on_every_page(hostile: Path) -> None:
    """Dossier, assessment, report and statement: shown letter by letter, nothing runs or loads."""
    assert execute([*_dossier_words(hostile), "-o", str(hostile / "dossier.html")]) == 0
    source = ["--source", str(hostile / "log.csv")]
    assert execute(["report", str(hostile / "out"), "-o", str(hostile / "report.html"), *source]) == 0
    assert execute(["statement", str(hostile / "out"), "research", "-o", str(hostile / "statement.html")]) == 0
    for name in ("dossier", "assessment", "report", "statement"):
        for look, seen in open_page(hostile / f"{name}.html", looks="light,print").items():
            assert (seen["messages"], seen["requests"]) == ([], []), (name, look)
            assert SCRIPT in seen["text"], name


@pytest.mark.chromium
def test_markup_is_text_in_the_console(hostile: Path) -> None:
    assert execute([*_dossier_words(hostile), "-o", str(hostile / "dossier.html")]) == 0
    console = start(hostile / "out", hostile / "serving.log")
    try:
        console.sign_in()
        for path in ("/", "/report", "/papers/research/dossier", "/papers/research/assessment"):
            found = open_page(f"http://127.0.0.1:{console.port}{path}", cookie=console.cookie, looks="light")
            assert (found["light"]["messages"], found["light"]["requests"]) == ([], []), path
    finally:
        console.end()


@pytest.mark.parametrize("name", ["dossier", "assessment", "statement"])
def test_markup_is_text_in_markdown(hostile: Path, name: str) -> None:
    """Every `<` of a value is escaped, so that no renderer reads a tag."""
    page = hostile / f"{name}.md"
    release = hostile / "out" / "public" / "research" / "release-000001"
    words = {
        "dossier": _dossier_words(hostile),
        "assessment": ["assess", str(release), "--original", str(hostile / "log.csv"), "--sensitive", SCRIPT],
        "statement": ["statement", str(hostile / "out"), "research"],
    }
    assert execute([*words[name], "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "script\\>" in text
    assert re.findall(r"(?<!\\)<", text) == []
