"""docs/python-api.md: each public name is on it and has a docstring with sections. Its cells run in tests/docs."""

from __future__ import annotations

import inspect
import re

import pytest

import veilstream as vs
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")


def test_each_public_name_is_documented() -> None:
    """On the page, and in a docstring."""
    on_page = set(re.findall(r"`(\w+)`", TEXT.split("## Stable names")[1]))
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
