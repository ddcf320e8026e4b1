"""Warnings of check-config about budgets: caps of a publication, of the process, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream.config import sources
from stream.config.lint import warnings

TWO = "".join(
    f"""
[[publication]]
name = "{name}"
window = {{ every = "7d", time = "event" }}
mechanism = {{ kind = "dp-variants", epsilon = 0.3, delta_dp = 1e-6 }}
"""
    for name in ("weekly", "other")
)


@pytest.mark.parametrize(
    ("process", "said", "silent"),
    [
        ("", ["losses add up", "grows without a limit"], ["allows"]),
        (
            "[process]\nbudget = { max_epsilon = 1 }\n",
            ["process.budget allows 3 releases"],
            ["add up", "without a limit"],
        ),
    ],
)
def test_a_process_budget_is_a_cap(tmp_path: Path, process: str, said: list[str], silent: list[str]) -> None:
    """Without any cap the loss grows forever, and two publications add up; a cap of the process ends both warnings."""
    path = tmp_path / "c.toml"
    path.write_text(process + TWO)
    found = warnings(sources.load(path))
    assert all(any(text in warning for warning in found) for text in said)
    assert not any(text in warning for warning in found for text in silent)
