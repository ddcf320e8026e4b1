"""The notebook of docs/models-api.md runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "models-api.md").read_text(encoding="utf-8")


def test_cells_run_in_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell runs after those above it, from the folder of the checkout, and its assertions hold."""
    monkeypatch.chdir(ROOT)
    cells = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(cells) == 7
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "docs/models-api.md", "exec"), names)
    assert "events; suppressed:" in capsys.readouterr().out
