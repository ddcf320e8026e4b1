"""docs/architecture.md against the tree, and the order of the rooms against the imports."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = re.findall(r"^\| `(\w+)` \|", PAGE.split("## The rooms")[1].split("## The way")[0], re.MULTILINE)


def modules() -> dict[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package in ("models", "connectors", "stream", "veilstream"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """Our own modules that a file imports, also inside functions and for types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES or node.module in MODULES:
                    yield inner if inner in MODULES else node.module


@cache
def edges_of_imports() -> dict[str, list[str]]:
    """Return the other modules that each module imports."""
    return {name: sorted({one for one in imports(path) if one != name}) for name, path in MODULES.items()}


def room(module: str) -> str | None:
    """The room of a module of stream; None elsewhere."""
    parts = module.split(".")
    return parts[1] if parts[0] == "stream" and len(parts) > 1 else None


def circles(edges: dict[str, list[str]]) -> list[list[str]]:
    """Strongly connected modules (Tarjan), as sorted lists."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges.get(name, []):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = []
            while not part or part[-1] != name:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for name in edges:
        if name not in index:
            visit(name)
    return found


def test_no_two_files_import_each_other_in_a_circle() -> None:
    """In all three packages, imports inside functions and for types included."""
    assert circles(edges_of_imports()) == []


def test_the_search_for_circles_finds_one() -> None:
    """Negative control: a circle of two and one of three are found, a chain is none."""
    edges = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["e"], "e": ["c"], "f": ["a"]}
    assert sorted(circles(edges)) == [["a", "b"], ["c", "d", "e"]]


def test_every_room_is_on_the_page() -> None:
    """The table names each folder of stream, once."""
    assert sorted(ROOMS) == sorted({name for one in MODULES if (name := room(one))})


def test_no_room_imports_one_below_it_in_the_table() -> None:
    """From the ground up."""
    upward = defaultdict(list)
    for name, others in edges_of_imports().items():
        for other in others:
            here, there = room(name), room(other)
            if here and there and ROOMS.index(there) > ROOMS.index(here):
                upward[here, there].append(f"{name} imports {other}")
    assert dict(upward) == {}


def test_every_file_on_the_page_exists() -> None:
    """A file that moves takes its line along."""
    named = re.findall(r"`((?:stream|models|connectors|tests|docs)/[\w./]+\.(?:py|md))`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_no_class_name_is_used_twice() -> None:
    """A reader who finds a class by its name finds the only one."""
    places = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
