"""The installed command line, and a log that a user might bring."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def veilstream(tmp_path: Path) -> Command:
    """Run the installed program in a folder of the test's own."""
    program = Path(sys.executable).with_name("veilstream")

    def run(*arguments: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    return run


@pytest.fixture
def table(tmp_path: Path) -> Callable[[int], Path]:
    """Write a CSV file of so many cases, each an admission and a discharge."""

    def write(cases: int) -> Path:
        lines = ["case:concept:name,concept:name,time:timestamp"]
        for case in range(cases):
            day, hour = divmod(case, 24)
            for minute, activity in ((10, "admit"), (20, "discharge")):
                lines.append(f"case-{case},{activity},2024-01-{day + 1:02d}T{hour:02d}:{minute}:00Z")
        path = tmp_path / "log.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write
