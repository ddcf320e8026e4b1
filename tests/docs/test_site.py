"""The site: seven parts with their readers, a place for each page, and pictures that need nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.conftest import ROOT

DOCS = ROOT / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


@pytest.fixture(scope="module")
def site() -> Any:
    """mkdocs.yml, without the names of Python objects."""
    return yaml.safe_load(re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))


def test_the_site_has_seven_parts_with_readers_and_a_search(site: Any) -> None:
    """The strict build of `make check` refuses a page without a place, and a hook one without readers."""
    parts = [next(iter(part)) for part in site["nav"] if isinstance(part, dict)]
    assert parts == ["Tutorial", "How to", "Concepts", "Reference", "Operating", "Research", "Contributing"]
    assert set(parts) <= set(site["extra"]["readers"])
    plugins = [plugin if isinstance(plugin, str) else next(iter(plugin)) for plugin in site["plugins"]]
    assert {"search", "mkdocstrings"} <= set(plugins)
    assert site["theme"]["font"] is False


def test_the_tutorial_and_the_reference_of_python_have_a_place(site: Any) -> None:
    """The one is made of the notebook, the other of docstrings, when the site is built."""
    places = str(site["nav"])
    assert "tutorial.md" in places
    assert (DOCS / "tutorial.ipynb").is_file()
    assert "::: veilstream" in (DOCS / "python-reference.md").read_text(encoding="utf-8")
    assert "python-reference.md" in places


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_described_and_complete_in_itself(path: Path) -> None:
    """A title and a description for those who do not see it; no script, font or picture of another host."""
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"title", "desc"} <= names
    assert not names & {"script", "image", "foreignObject", "use"}
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    shown = [page for page in DOCS.rglob("*.md") if f"pictures/{path.name})" in page.read_text(encoding="utf-8")]
    assert shown
