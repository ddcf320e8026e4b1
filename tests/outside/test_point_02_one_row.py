"""Point 2: one person's row decides neither how the others are read nor whether there is a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outside.conftest import Command

NOISE = ["--mechanism", "dp-variants", "--epsilon", "1", "--delta-dp", "0.01"]
DECLARED = ["--encoding", "utf-8", "--separator", "comma", "--time-format", "%d/%m/%Y %H:%M", "--timezone", "UTC"]


def write(path: Path, *more: bytes) -> Path:
    """Write sixty cases whose dates do not tell day and month apart, and further rows."""
    rows = [b"case:concept:name,concept:name,time:timestamp"]
    for case in range(60):
        for hour, activity in ((10, "A"), (11, "B")):
            rows.append(f"c{case},{activity},0{1 + case % 9}/03/2024 {hour}:00".encode())
    path.write_bytes(b"\n".join([*rows, *more]) + b"\n")
    return path


@pytest.mark.parametrize("date", [b"25/03/2024", b"03/25/2024"])
def test_a_date_does_not_decide_whether_a_guess_is_released(veilstream: Command, tmp_path: Path, date: bytes) -> None:
    """Nothing is declared: the same answer with and without her row."""
    without = write(tmp_path / "without.csv")
    her = write(tmp_path / "with.csv", b"her,A," + date + b" 10:00")
    codes = [veilstream("anonymize", str(log), "-o", "out.xes", *NOISE).returncode for log in (without, her)]
    assert codes[0] == codes[1]


@pytest.mark.parametrize("row", [b"her,A,03/25/2024 10:00", b"her,M\xfcller,02/03/2024 10:00"])
def test_a_row_that_cannot_be_read_refuses_no_release(veilstream: Command, tmp_path: Path, row: bytes) -> None:
    """Everything is declared: her row is left out, and the release leaves."""
    log = write(tmp_path / "with.csv", row)
    outcome = veilstream("anonymize", str(log), "-o", "out.xes", *NOISE, *DECLARED)
    assert outcome.returncode == 0, outcome.stderr
