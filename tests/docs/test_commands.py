"""Every command that a page asks the reader to type exists, with its options; every page can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.command_lines import PAGES, faults, lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist_with_their_options(page: Path) -> None:
    """Commands, options, make targets, modules and test files."""
    wrong = {line: found for line in lines(page.read_text(encoding="utf-8")) if (found := faults(line))}
    assert wrong == {}


def test_pages_are_full_of_commands() -> None:
    """The walk above is not empty, and sees code blocks, running text and what is behind another program."""
    found = [line for page in PAGES for line in lines(page.read_text(encoding="utf-8"))]
    assert len(found) > 60
    assert "veilstream releases /var/lib/veilstream" in found
    assert "veilstream check-config proposed.toml" in found
    assert any(line.startswith("make soak") for line in found)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("veilstream repay LOG", "repay"),
        ("veilstream replay LOG --metric-port 1", "--metric-port"),
        ("veilstream topics create|chek -c FILE", "chek"),
        ("make demos", "demos"),
        ("python -m benchmarks.nothing --json", "benchmarks.nothing"),
        ("pytest tests/nothing.py", "tests/nothing.py"),
    ],
)
def test_a_wrong_command_is_seen(line: str, fault: str) -> None:
    """Negative control: one letter is enough."""
    assert faults(line) == [fault]


def test_every_page_is_linked() -> None:
    """From the README, over any number of links, a reader comes to every page."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if "://" not in link and target.exists():
                waiting += sorted(target.glob("*.md")) if target.is_dir() else [target] * (target.suffix == ".md")
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_every_decision_is_in_the_index() -> None:
    """The site has no navigation entry per decision: the index page is the way to find one."""
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records
    assert [name for name in records if f"]({name})" not in index] == []
