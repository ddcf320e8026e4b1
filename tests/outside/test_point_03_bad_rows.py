"""Point 3: an inspection that finds bad rows proposes no command that must fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.outside.conftest import Command


def test_an_inspection_of_fifty_bad_rows_ends_with_2(veilstream: Command, table: Callable[[int], Path]) -> None:
    log = table(200)
    with log.open("a", encoding="utf-8") as file:
        for number in range(50):
            file.write(f"bad-{number},admit,tomorrow\n")
    outcome = veilstream("inspect", str(log))
    assert outcome.returncode == 2, outcome.stdout
    assert "50" in outcome.stdout + outcome.stderr
    assert "continue with" not in outcome.stdout
