"""Point 11: a run that releases nothing reports it and does not end with 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.outside.conftest import Command


def test_fewer_cases_than_k_are_reported(veilstream: Command, table: Callable[[int], Path]) -> None:
    outcome = veilstream("replay", str(table(10)), "-o", "out")
    assert outcome.returncode == 3, outcome.stdout
    assert "NOTHING RELEASED" in outcome.stdout + outcome.stderr
    assert "HOLDS" not in veilstream("verify", "out").stdout
