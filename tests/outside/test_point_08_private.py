"""Point 8: a log in a notebook shows no case, and the folder of a run is private."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from connectors import read_log
from tests.outside.conftest import Command


def test_a_log_shows_no_case(table: Callable[[int], Path]) -> None:
    assert "case-17" not in repr(read_log(str(table(30))))


def test_the_folder_of_a_run_is_private(veilstream: Command, table: Callable[[int], Path], tmp_path: Path) -> None:
    """No checkout takes it, and nobody else reads ledger and checkpoints."""
    veilstream("replay", str(table(60)), "-o", "out", "--final")
    out = tmp_path / "out"
    ignored = out / ".gitignore"
    assert ignored.is_file()
    assert ignored.read_text(encoding="utf-8").strip() == "*"
    assert stat.S_IMODE((out / "operator" / "ledger.sqlite").stat().st_mode) == 0o600
    assert stat.S_IMODE((out / "operator" / "checkpoints").stat().st_mode) == 0o700
