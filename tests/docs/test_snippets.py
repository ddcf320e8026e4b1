"""Every block of code on the pages is run or checked: commands, Python, configurations.

A block that a reader cannot use is a defect of its page. Lines that cannot run here are listed with the reason
(`snippets.NOT_RUN`), and are parsed here and in test_commands.py.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from stream.commands import execute
from stream.config.settings import Publication
from stream.operator.dossier.facts import read_facts
from stream.operator.health_profile import read_health_facts
from tests.conftest import ROOT
from tests.docs.command_lines import PAGES
from tests.docs.snippets import ALL, LANGUAGES, NOT_RUN, SKETCHES, Snippet, make_world, not_run, syntax_faults, walk

RUNBOOKS = tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "runbooks").glob("*.md")))
TOGETHER = [
    (
        "docs/howto/publish-every-week.md",
        "docs/howto/sign.md",
        "docs/dossier.md",
        "docs/howto/list-in-a-catalogue.md",
        "docs/howto/erase.md",
    ),
    RUNBOOKS,
]
"""Pages that continue where the one before ended, and pages that look at one folder."""


def test_every_block_names_its_language() -> None:
    """So that none is left out below: `text` is for output and pictures."""
    assert [str(snippet) for snippet in ALL if snippet.language not in LANGUAGES] == []
    fences = sum(len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    assert fences == 2 * len(ALL)
    counts = Counter(snippet.language for snippet in ALL)
    assert min(counts["sh"], counts["python"], counts["toml"]) >= 15


def _walks() -> list[tuple[str, ...]]:
    """The pages that have something to run, in groups."""
    with_lines = []
    for snippet in ALL:
        runs_lines = snippet.language == "sh" and any(not_run(line) is None for line in snippet.commands())
        if runs_lines or (snippet.language == "python" and snippet.page not in SKETCHES):
            with_lines.append(snippet.page)
    grouped = {page for group in TOGETHER for page in group}
    return [*TOGETHER, *((page,) for page in dict.fromkeys(with_lines) if page not in grouped)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages speak of, made once."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pages", _walks(), ids=lambda pages: pages[0])
def test_every_line_works_as_it_is_printed(pages: tuple[str, ...], world: Path, tmp_path: Path) -> None:
    """In a folder of its own, in the order of the page; some pages claim an outcome, which is checked."""
    folder = tmp_path / "walk"
    shutil.copytree(world, folder, symlinks=True)
    for page in pages:
        if page in CLEARED:
            shutil.rmtree(folder / CLEARED[page])
    printed = walk(pages, folder)
    assert printed
    for page in pages:
        if page in OUTCOMES:
            OUTCOMES[page](printed, folder)


CLEARED = {"README.md": "demo-out", "docs/howto/publish-every-week.md": "out"}
"""Folders that a page makes itself."""


def _readme(printed: Mapping[str, str], folder: Path) -> None:
    """The verdicts and rows of the example are those shown."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(?: \d+ +20\d\d-.*|\[.\] .*)$", text, re.MULTILINE)
    assert len(shown) == 6
    # A long verdict goes over several lines, in one width or another.
    everything = " ".join(" ".join(printed.values()).split())
    assert [row for row in shown if " ".join(row.split()) not in everything] == []
    assert (folder / "demo-out" / "report.html").stat().st_size > 0


def _getting_started(printed: Mapping[str, str], folder: Path) -> None:
    """The verdict, the files, the promised name of the proposal's publication, and the miner's figures."""
    page = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    (first,) = [text for line, text in printed.items() if "-o first" in line and " replay " in line]
    assert "[+] SAFE: research: 9 releases" in first
    assert (folder / "first" / "report.html").stat().st_size > 0
    assert (folder / "first" / "statement.html").stat().st_size > 0
    assert "veilstream statement second research" in page
    manifests = list((folder / "second" / "public" / "research").glob("release-*/manifest.json"))
    assert manifests
    (cases,) = re.findall(r"^ 9 .*?completed_cases +(\d+)", first, re.MULTILINE)
    mined = printed["python"].splitlines()
    assert any(line.startswith(f"{cases} cases; Admission, Blood test, CT scan") for line in mined), mined
    assert not any("X-ray" in line for line in mined)


def _weekly(printed: Mapping[str, str], folder: Path) -> None:
    """The budget lasts as long as the page says, and the person is erased."""
    assert "its budget allows 52 releases" in printed["veilstream check-config weekly.toml"]
    assert "1 of 1 cases were in the state" in printed["echo P00017 | veilstream erase -c weekly.toml -o out"]


def _models(printed: Mapping[str, str], folder: Path) -> None:
    """The last lines that the cells print."""
    assert "events; suppressed:" in printed["python"]


OUTCOMES: dict[str, Callable[[Mapping[str, str], Path], None]] = {
    "README.md": _readme,
    "docs/getting-started.md": _getting_started,
    "docs/howto/erase.md": _weekly,
    "docs/models-api.md": _models,
}
"""Checks of the claims of a page about the output of its lines."""


@pytest.mark.parametrize("snippet", [snippet for snippet in ALL if snippet.language == "sh"], ids=str)
def test_every_shell_block_is_parsed(snippet: Snippet) -> None:
    """By bash, also what is not run; the program knows each command and option (test_commands.py)."""
    assert syntax_faults(snippet) == []


def test_what_is_not_run_is_on_a_page() -> None:
    """A row of the table whose lines are gone would hide later ones."""
    lines = [line for snippet in ALL if snippet.language == "sh" for line in snippet.commands()]
    assert [start for start in NOT_RUN if not any(re.match(start, line) for line in lines)] == []
    for reason in NOT_RUN.values():
        for name in re.findall(r"tests/[\w/.]+", reason):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("snippet", [snippet for snippet in ALL if snippet.language == "python"], ids=str)
def test_every_python_block_is_parsed(snippet: Snippet) -> None:
    """Also those that only show a shape."""
    compile(snippet.text, str(snippet), "exec")


BASE: dict[str, Any] = {
    "process": {"name": "base", "attributes": {"sensitive": ["diagnosis"], "public": ["department"]}},
    "publication": [
        {
            "name": "base",
            "start": "2025-01-06T00:00:00Z",
            "window": {"every": "7d"},
            "mechanism": {"kind": "tlkc-cohorts", "K": 20, "L": 2, "C": 0.5, "suppression": "local"},
            "gate": {"min_ka": 20, "min_fa": 20, "min_ca": 20, "min_ba": 20, "max_minimality": 0},
        }
    ],
}
"""A configuration that a fragment of one is put into."""


def whole(fragment: Mapping[str, Any]) -> dict[str, Any]:
    """A fragment as a configuration: its tables in the place of those of BASE, keys of a publication in its table."""
    if fragment.keys() <= Publication.model_fields.keys():
        fragment = {"publication": [fragment]}
    merged = {**BASE, **fragment}
    merged["process"] = {**BASE["process"], **fragment.get("process", {})}
    if "source" in fragment:
        # A source has to name the path of each attribute.
        merged["process"].pop("attributes")
    merged["publication"] = [{**BASE["publication"][0], **table} for table in merged["publication"]]
    for table in merged["publication"]:
        if table["mechanism"]["kind"].startswith("dp-") and table["gate"] is BASE["publication"][0]["gate"]:
            # Bounds on counts are for groups.
            table.pop("gate")
    return merged


@pytest.mark.parametrize("snippet", [snippet for snippet in ALL if snippet.language == "toml"], ids=str)
def test_every_configuration_is_valid(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By check-config: as it is if it has publications of its own, else as part of a small configuration."""
    monkeypatch.chdir(tmp_path)
    table = tomllib.loads(snippet.text)
    if "catalogue" in table:
        # A file of facts for `dossier` and `catalogue`.
        facts = tmp_path / "dossier.toml"
        facts.write_text(snippet.text)
        assert read_facts(facts)
        assert read_health_facts(facts) is not None
        return
    publications = table.get("publication", [{}])
    roles = {"identifier", "sensitive", "quasi", "public"}
    is_configuration = table.keys().isdisjoint(roles)
    is_whole = all({"name", "window", "mechanism"} <= publication.keys() for publication in publications)
    if is_configuration and not is_whole:
        table = whole(table)
    path = tmp_path / "page.toml"
    path.write_text(tomli_w.dumps(table))
    command = ["check-config", str(path)]
    if table.keys() <= {"identifier", "sensitive", "quasi", "public"}:
        # Words of column names, by role: a file for `inspect`.
        command = ["inspect", str(ROOT / "examples" / "hospital.csv.gz"), "--words", str(path)]
    code = execute(command)
    assert code == 0, "".join(capfd.readouterr())


def test_a_misspelt_key_is_seen(tmp_path: Path) -> None:
    """Negative control of the merge."""
    path = tmp_path / "page.toml"
    path.write_text(tomli_w.dumps(whole({"publication": [{"realease_attributes": ["diagnosis"]}]})))
    assert execute(["check-config", str(path)]) == 2
