"""The glossary explains the words of the report, and pages for newcomers lead to it."""

from __future__ import annotations

import re

import pytest

from stream.run.compare import COLUMNS
from tests.conftest import ROOT

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
    """Those that are in its tables, figures and verdicts, and those of the commands."""
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
