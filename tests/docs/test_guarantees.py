"""Every promise of docs/guarantees.md has a test: rows are numbered, and the last table names the tests."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PROMISES, TESTS = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").split("\n## Tests\n")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
ROW = re.compile(r"^\| (\d+) \|(.*)\|$", re.MULTILINE)


def test_every_named_test_exists() -> None:
    """File and function."""
    wrong = []
    named = NAMED.findall(TESTS)
    for path, function in named:
        file = ROOT / path
        text = file.read_text() if file.exists() else ""
        if function and f"\ndef {function}(" not in text:
            wrong.append(f"{path}::{function}")
        if not function and "\ndef " not in text:
            wrong.append(path)
    assert wrong == []
    assert len(named) > 40


def test_every_promise_has_a_test() -> None:
    """The numbers of the rows appear once each, in both tables; no row of the tables of promises lacks a number."""
    numbers = [number for number, _ in ROW.findall(PROMISES)]
    tested = dict(ROW.findall(TESTS))
    rows = [line for line in PROMISES.splitlines() if re.match(r"\| (?!\||---)", line)]
    assert len(numbers) == len(set(numbers)) == len(rows) > 35
    assert set(tested) == set(numbers)
    assert [number for number, cell in tested.items() if not NAMED.search(cell)] == []


def test_every_fault_on_the_broker_is_on_the_page() -> None:
    """A fault that is tested and not promised is a promise somebody looks for."""
    wanted = set()
    files = ("crashes", "faults", "rebalance", "operation", "failover", "lost_logs", "own_topics", "hosts")
    for name in (f"test_{one}" for one in files):
        path = f"tests/kafka/{name}.py"
        text = (ROOT / path).read_text()
        wanted |= {f"{path}::{one}" for one in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert wanted - {f"{path}::{function}" for path, function in NAMED.findall(TESTS)} == set()
