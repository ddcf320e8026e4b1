"""docs/python-api.md: its cells run in order, and each public name is on it and has a docstring with sections."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from models.utility.discovery import quiet_pm4py
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")


def test_cells_run_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every cell runs after those above it, in a folder with the examples, and its assertions hold."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    cells = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    with quiet_pm4py():
        for cell in cells:
            exec(compile(cell, "docs/python-api.md", "exec"), names)
    assert names["series"].exit_code == 0
    assert names["graph"]


def test_each_public_name_is_documented() -> None:
    """On the page, and in a docstring."""
    on_page = set(re.findall(r"`(\w+)`", TEXT.split("## What stays")[1]))
    assert set(vs.__all__) <= on_page
    for name in vs.__all__:
        assert inspect.getdoc(getattr(vs, name))


@pytest.mark.parametrize("name", [name for name in vs.__all__ if inspect.isfunction(getattr(vs, name))])
def test_functions_describe_each_parameter(name: str) -> None:
    """NumPy sections, types on all parameters, and every keyword in `Parameters`."""
    function = getattr(vs, name)
    text = inspect.getdoc(function) or ""
    parameters = inspect.signature(function).parameters.values()
    sections = ("Parameters", "Returns", "Raises", "Examples") if parameters else ("Returns", "Examples")
    for section in sections:
        assert f"{section}\n{'-' * len(section)}\n" in text
    described = text.partition("Parameters\n")[2].split("Returns\n")[0]
    for parameter in parameters:
        assert parameter.annotation is not inspect.Parameter.empty
        assert re.search(rf"^[\w*, ]*\b{parameter.name}\b", described, re.MULTILINE), parameter.name
