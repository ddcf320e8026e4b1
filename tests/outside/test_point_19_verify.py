"""Point 19: `verify` finds a truncated file of the operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.outside.conftest import Command

CONFIGURATION = """\
[process]
name = "ward"
[[publication]]
name = "p"
window = { new_cases = 20 }
mechanism = { kind = "identity" }
"""


def test_a_truncated_table_of_variants_is_found(
    veilstream: Command, table: Callable[[int], Path], tmp_path: Path
) -> None:
    (tmp_path / "v.toml").write_text(CONFIGURATION, encoding="utf-8")
    veilstream("replay", str(table(60)), "-c", "v.toml", "-o", "out", "--final")
    assert veilstream("verify", "out").returncode == 0
    path = sorted((tmp_path / "out" / "operator").rglob("variants.parquet"))[0]
    body = path.read_bytes()
    path.write_bytes(body[: len(body) // 2])
    outcome = veilstream("verify", "out")
    assert outcome.returncode != 0
    assert "variants.parquet" in outcome.stdout + outcome.stderr
