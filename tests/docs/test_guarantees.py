"""Every promise of docs/guarantees.md names a test that exists."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_named_test_exists() -> None:
    """File and function."""
    wrong = []
    named = NAMED.findall(PAGE)
    for path, function in named:
        file = ROOT / path
        text = file.read_text() if file.exists() else ""
        if function and f"\ndef {function}(" not in text:
            wrong.append(f"{path}::{function}")
        if not function and "\ndef " not in text:
            wrong.append(path)
    assert wrong == []
    assert len(named) > 40


def test_every_line_of_the_tables_has_a_test() -> None:
    """Its own, or "the same" as the line above."""
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    cells = [cells[-1] for cells in rows if cells[-1].strip() != "test"]
    assert len(cells) > 35
    assert [cell for cell in cells if not NAMED.search(cell) and not cell.strip().startswith("the same")] == []


def test_every_fault_on_the_broker_is_on_the_page() -> None:
    """A fault that is tested and not promised is a promise somebody looks for."""
    wanted = set()
    files = ("crashes", "faults", "rebalance", "operation", "failover", "lost_logs", "own_topics", "hosts")
    for name in (f"test_{one}" for one in files):
        path = f"tests/kafka/{name}.py"
        text = (ROOT / path).read_text()
        wanted |= {f"{path}::{one}" for one in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert wanted - {f"{path}::{function}" for path, function in NAMED.findall(PAGE)} == set()
