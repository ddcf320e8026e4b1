"""Every promise of docs/guarantees.md has a test: rows are numbered, and guarantees.toml names the tests of each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
TESTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("guarantees.toml").read_text(encoding="utf-8"))
NAMED = [name for names in TESTS.values() for name in names]


def test_every_named_test_exists() -> None:
    """File and function."""
    wrong = []
    for name in NAMED:
        path, _, function = name.partition("::")
        file = ROOT / path
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        definition = f"\ndef {function}(" if function else "\ndef test_"
        if definition not in text:
            wrong.append(name)
    assert wrong == []
    assert len(NAMED) > 40


def test_every_promise_has_a_test() -> None:
    """Each row of a table has a number of its own, and each number a test."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| (?!\||---)", line)]
    numbers = [line.split("|")[1].strip() for line in rows]
    assert len(numbers) == len(set(numbers)) > 35
    assert set(numbers) == set(TESTS)
    assert [number for number, names in TESTS.items() if not names] == []


def test_every_fault_on_the_broker_is_on_the_page() -> None:
    """A fault that is tested and not promised is a promise somebody looks for."""
    wanted = set()
    files = ("crashes", "faults", "rebalance", "operation", "failover", "lost_logs", "own_topics", "hosts")
    for name in (f"test_{one}" for one in files):
        path = f"tests/kafka/{name}.py"
        text = (ROOT / path).read_text()
        wanted |= {f"{path}::{one}" for one in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert wanted - set(NAMED) == set()
