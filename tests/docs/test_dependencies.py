"""docs/dependencies.md names every dependency and the folders that really import it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict

from tests.conftest import ROOT

MODULES = {"faust-streaming": "faust", "mode-streaming": "mode", "kafka-python": "kafka", "POT": "ot"}
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
BEFORE, AFTER = PAGE.split("## Inner names of libraries")
TABLES = BEFORE + AFTER.split("## Numbers")[1]
ROWS = {
    cells[0].strip("` "): cells[2].strip()
    for cells in (line.split("|")[1:-1] for line in TABLES.splitlines() if line.startswith("| `"))
}


def importers() -> dict[str, set[str]]:
    """Folders by imported module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (path for room in ("models", "connectors", "stream") for path in (ROOT / room).rglob("*.py")):
        folder = str(path.parent.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                found[name.split(".")[0]].add(folder)
    return found


def test_every_dependency_is_on_the_page_and_no_other() -> None:
    """A new entry of pyproject.toml needs a line about its alternative."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[<>=;\[ ]", one)[0] for one in project["dependencies"]}
    assert set(ROWS) == declared


def test_the_folders_are_those_that_import_it() -> None:
    """A library that spreads into another folder has another seam."""
    real = importers()
    for name, where in ROWS.items():
        folders = real[MODULES.get(name, name.replace("-", "_"))]
        if where == "everywhere":
            assert len(folders) > 6, name
        else:
            assert set(re.findall(r"`([\w/]+)`", where)) == folders, name
