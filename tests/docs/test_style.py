"""Plain English, as far as a program can tell: no sentence that nobody can read in one breath, none of the phrases that
readers stumbled over, and a glossary that has the words of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from stream.commands import build_app
from stream.replay.compare import COLUMNS
from tests.conftest import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "deploy/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
SHOWN = [*PAGES, *sorted((ROOT / "stream").rglob("*.py")), *sorted((ROOT / "stream" / "report").glob("*.html"))]
"""Whatever a user may read: pages, and the sources that hold help texts, errors, promises and the report."""

MOST_WORDS = 40
"""Of one clause: a colon or a semicolon ends it as a full stop does. Technical prose needs 15 to 25."""

BANNED = (
    # what the review of the report and the manifests collected
    "several releases together, but for",
    "what it tells that an item is missing",
    "nothing everywhere",
    "no linker joins it to release",
    "least over all n and all earlier releases, of the exact search",
    "epsilon: field required",
    # pictures in place of the field's words
    "tell the world",
    "ball of wool",
    "a moment for people",
    "hangs in the air",
    # words that say nothing, and claims that nothing holds
    "in order to",
    "it should be noted",
    "state-of-the-art",
    "cutting-edge",
    "military-grade",
    "100% safe",
    "completely anonymous",
    "fully anonymous",
    "guaranteed anonymous",
    "simply put",
    "utilize",
    "leverage",
)


def clauses(text: str) -> list[str]:
    """Sentences and their parts between colons and semicolons, of paragraphs, lists and cells of tables."""
    text = re.sub(r"^```.*?^```", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    found, open_ = [], list[str]()
    for line in [*text.splitlines(), ""]:
        part = line.strip()
        begins = re.match(r"([*-]|\d+\.) ", part)
        if not part or part.startswith(("#", "|", "<")) or begins or (line.startswith("    ") and not open_):
            found.append(" ".join(open_))
            open_ = [part[begins.end() :]] if begins else []
            if part.startswith("|"):
                found += [cell.strip() for cell in part.strip("|").split("|")]
        else:
            open_.append(part)
    return [one for text in found for one in re.split(r"(?<=[.!?:;)])\s+(?=[A-Z`*(\[])|[;:]\s", text) if one]


def words(clause: str) -> int:
    """Names of files and code in one pair of backticks are one word."""
    return len(re.findall(r"[^\W\d_][\w'-]*", re.sub(r"`[^`]*`", "code", clause)))


def test_how_clauses_are_counted() -> None:
    """By hand: code is one word, a table has a clause a cell, a list item is a clause of its own."""
    text = "One two.\nThree four: five `a b c`.\n\n* six\n  seven\n* eight\n\n| nine ten | eleven |\n\n```\nno\n```\n"
    assert [words(one) for one in clauses(text)] == [2, 2, 2, 2, 1, 2, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_longer_than_a_breath(page: Path) -> None:
    """A longer one says two things, and becomes two."""
    found = [one for one in clauses(page.read_text(encoding="utf-8")) if words(one) > MOST_WORDS]
    assert found == []


@pytest.mark.parametrize("phrase", BANNED)
def test_no_phrase_that_readers_stumbled_over(phrase: str) -> None:
    """In no page, help text, error or template."""
    holds = [str(path.relative_to(ROOT)) for path in SHOWN if phrase in _flat(path)]
    assert holds == []


def _flat(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").casefold().split())


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = [term.strip() for row in re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY, re.MULTILINE) for term in row.split(",")]


def test_the_glossary_has_each_word_once() -> None:
    """A word with two meanings would have none."""
    assert len(TERMS) > 80
    assert len(set(TERMS)) == len(TERMS)


@pytest.mark.parametrize(
    "term",
    ["n", "linker", "nats", "projection A to F", "satisfied", "KA", "FA", "CA", "BA", "epsilon", "delta", "TPL", "kept"]
    + [
        "SAFE",
        "LIMITED",
        "WITHHELD",
        "DP VOID",
        "L",
        "K",
        "C",
        "bk_length",
        "n_actual",
        "unique",
        "cohort",
        "manifest",
    ],
)
def test_the_words_of_the_report_are_explained(term: str) -> None:
    """Those that stand in its tables, figures and verdicts, and those of the commands."""
    assert any(term == one.removesuffix(" (bk)") or one.endswith(f" {term}") for one in TERMS), term


def test_measures_of_a_comparison_are_explained() -> None:
    """KA to BA, by the names of the columns."""
    assert {one.upper() for one in COLUMNS if len(one) == 2} <= set(" ".join(TERMS).replace(",", "").split())


@pytest.mark.parametrize("name", ["README.md", "docs/getting-started.md", "docs/for-officers.md"])
def test_who_begins_finds_the_glossary(name: str) -> None:
    """The pages for readers who are new link to it, and to each other."""
    assert "glossary.md" in (ROOT / name).read_text(encoding="utf-8")


EXPLAINED = [
    "gate",
    "ledger",
    "manifest",
    "KA",
    "FA",
    "CA",
    "BA",
    "epsilon",
    "variant",
    "cut",
    "cohort",
    "gap",
    "daemon",
    "audience",
    "sha256",
    "budget",
    "item",
]
"""Words that an officer does not bring along. `attack` and `case` are explained by what is said of them."""


@pytest.mark.parametrize("name", ["for-officers", "approval", "console"])
def test_pages_of_officers_explain_their_words_where_they_begin(name: str) -> None:
    """Each such word that the page uses is among the words at its begin, in bold, and is not used before them."""
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", page, flags=re.DOTALL)
    before, after = text.split("Words of this page")
    used = [word for word in EXPLAINED if re.search(rf"\b{word}s?\b", text)]
    assert len(used) > 3
    assert [word for word in used if f"**{word}**" not in after] == []
    assert [word for word in used if re.search(rf"\b{word}s?\b", before)] == []


def test_help_begins_with_a_short_sentence() -> None:
    """Every command: what it does, in at most 25 words, with a full stop."""
    long = {}
    commands = typer.main.get_command(build_app()).commands
    for name, command in commands.items():
        first = re.split(r"(?<=[.:;])\s|\n\n", " ".join((command.help or "").split("\f")[0].split()))[0]
        if not first.endswith((".", ":", ";")) or words(first) > 25:
            long[name] = first
    assert long == {}
    assert len(commands) > 15
