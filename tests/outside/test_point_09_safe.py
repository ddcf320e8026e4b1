"""Point 9: SAFE never appears where a reader of the public rules narrows a person down below K."""

from __future__ import annotations

from pathlib import Path

from tests.outside.conftest import Command

CONFIGURATION = """\
[process]
name = "ward"
[[publication]]
name = "p"
window = { new_cases = 30 }
mechanism = { kind = "tlkc", K = 7, L = 2, C = 1.0, suppression = "local" }
gate = { min_ka = 7, min_fa = 7, min_ca = 7, min_ba = 7 }
"""


def test_a_release_that_its_rules_narrow_down_is_not_called_safe(veilstream: Command, tmp_path: Path) -> None:
    """Six of thirty cases have their two activities the other way round; local suppression hides that from others."""
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for case in range(30):
        day, hour = divmod(case, 24)
        for minute, activity in enumerate("ba" if case % 5 == 4 else "ab"):
            lines.append(f"c{case},{activity},2024-01-{day + 1:02d}T{hour:02d}:{minute:02d}:00Z")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "v.toml").write_text(CONFIGURATION, encoding="utf-8")
    outcome = veilstream("replay", "log.csv", "-c", "v.toml", "-o", "out", "--final")
    assert "release" in outcome.stdout.lower(), outcome.stderr
    assert "SAFE" not in outcome.stdout
