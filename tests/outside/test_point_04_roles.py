"""Point 4: a column whose name suggests sensitive data is proposed as sensitive."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.outside.conftest import Command


@pytest.mark.parametrize("name", ["underlying_condition", "private_insurance"])
def test_a_sensitive_name_is_recognised(veilstream: Command, tmp_path: Path, name: str) -> None:
    lines = [f"case:concept:name,concept:name,time:timestamp,case:{name}"]
    rows = (f"c{case},admit,2024-01-01T{case % 24:02d}:00:00Z,{'abcd'[case % 4]}" for case in range(100))
    lines.extend(rows)
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    outcome = veilstream("inspect", str(log))
    assert re.search(rf"--sensitive[ =]\S*{name}", outcome.stdout), outcome.stdout
