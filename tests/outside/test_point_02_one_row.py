"""Point 2: one person's row does not decide whether there is a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outside.conftest import Command

NOISE = ["--mechanism", "dp-variants", "--epsilon", "1", "--delta-dp", "0.01"]
DECLARED = ["--encoding", "utf-8", "--separator", "comma", "--time-format", "%d/%m/%Y %H:%M", "--timezone", "UTC"]


def write(path: Path, *more: bytes) -> Path:
    """Write sixty cases whose dates do not distinguish day and month, and further rows."""
    rows = [b"case:concept:name,concept:name,time:timestamp"]
    for case in range(60):
        for hour, activity in ((10, "A"), (11, "B")):
            rows.append(f"c{case},{activity},0{1 + case % 9}/03/2024 {hour}:00".encode())
    path.write_bytes(b"\n".join([*rows, *more]) + b"\n")
    return path


@pytest.mark.parametrize("row", [b"her,A,03/25/2024 10:00", b"her,M\xfcller,02/03/2024 10:00"])
def test_a_row_that_cannot_be_read_refuses_no_release(veilstream: Command, tmp_path: Path, row: bytes) -> None:
    """Everything is declared: her row is left out, and the release leaves."""
    log = write(tmp_path / "with.csv", row)
    outcome = veilstream("anonymize", str(log), "-o", "out.xes", *NOISE, *DECLARED)
    assert outcome.returncode == 0, outcome.stderr
