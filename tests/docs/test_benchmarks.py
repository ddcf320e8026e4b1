"""`make bench` runs every benchmark with `--json`: each one takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))


def test_make_bench_runs_these_files() -> None:
    """The pattern of the target is the one looked at here."""
    assert "for file in benchmarks/[a-z]*.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_benchmark_takes_json(path: Path) -> None:
    """One that refuses the option would end the target before those that come after it."""
    assert '"--json"' in path.read_text(encoding="utf-8")
