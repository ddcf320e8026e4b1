"""The notebook of docs/models-api.md runs."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "models-api.md").read_text(encoding="utf-8")


def test_cells_run_in_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell runs after those above it, from the folder of the checkout, and its assertions hold."""
    monkeypatch.chdir(ROOT)
    cells = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(cells) == 8
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "docs/models-api.md", "exec"), names)
    assert "events; suppressed:" in capsys.readouterr().out


ENTRY_POINTS = {
    "models.anonymize.tlkc.anonymize",
    "models.attacks.correspondence.anonymity",
    "models.dp.amun.release",
    "models.leakage.accumulation.leakage_step",
    "models.risk.uniqueness.trace_uniqueness",
}
"""Promised to stay (the design, section 5)."""


def test_signatures_are_those_of_the_code() -> None:
    """Every line of the table is what Python says of the function, and the promised ones are there."""
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w+)(\(.*\)) -> (\w+)` \|$", TEXT, re.MULTILINE)
    assert {f"{module}.{name}" for module, name, _, _ in rows} >= ENTRY_POINTS
    for module, name, written, returned in rows:
        function = getattr(importlib.import_module(module), name)
        signature = inspect.signature(function)
        bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
        assert written == str(signature.replace(parameters=bare, return_annotation=signature.empty))
        assert returned == signature.return_annotation
        assert function.__doc__
