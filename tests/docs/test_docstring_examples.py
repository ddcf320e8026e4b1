"""The examples in docstrings run, and print what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT

WITH_EXAMPLES = [
    path.relative_to(ROOT)
    for package in ("models", "connectors", "stream", "veilstream")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_print_what_they_show(path: Path) -> None:
    """Each example of the module's docstrings gives the output below it."""
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
