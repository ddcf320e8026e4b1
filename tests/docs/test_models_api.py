"""docs/models-api.md: its table states the signatures of the code. Its cells run in test_snippets.py."""

from __future__ import annotations

import importlib
import inspect
import re

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "models-api.md").read_text(encoding="utf-8")


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
