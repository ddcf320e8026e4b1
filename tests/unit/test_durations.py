"""Relative times leave as durations where asked, and come back exact."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log, write_log
from models.errors import InputError
from models.eventlog import EventLog
from stream.commands import execute

TIMES = [0, 1, 3_723_000_000_000, 86_400_000_000_000 * 400 + 5_000_000]
WRITTEN = ["P0DT0H0M0S", "P0DT0H0M0.000000001S", "P0DT1H2M3S", "P400DT0H0M0.005S"]


@pytest.fixture
def log() -> EventLog:
    """One case of four events."""
    return EventLog.from_events(["1"] * 4, list("ABCD"), np.asarray(TIMES), unit="ns")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_durations_come_back_exact(log: EventLog, tmp_path: Path, suffix: str) -> None:
    """To the nanosecond, without a zone being asked for."""
    file = tmp_path / f"log.{suffix}"
    write_log(log, file, durations=True, time_basis="relative")
    assert read_log(file).time.tolist() == TIMES


def test_they_are_written_as_iso_8601(log: EventLog, tmp_path: Path) -> None:
    """One text a time, by the standard."""
    write_log(log, tmp_path / "log.csv", durations=True)
    with (tmp_path / "log.csv").open(newline="") as stream:
        assert [row["time:timestamp"] for row in csv.DictReader(stream)] == WRITTEN


def test_what_has_no_durations_is_refused(log: EventLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """XES has no such type, an ordinal time is not a duration, and nothing is written."""
    with pytest.raises(InputError, match="XES has no durations"):
        write_log(log, tmp_path / "log.xes", durations=True)
    early = EventLog.from_events(["1"], ["A"], np.asarray([-1]), unit="ns")
    with pytest.raises(InputError, match="before the start"):
        write_log(early, tmp_path / "log.csv", durations=True)
    rows = "".join(f"c{n},{name},2025-01-0{day}T00:0{n}:00Z\n" for n in range(4) for day, name in ((1, "a"), (3, "b")))
    source = tmp_path / "in.csv"
    source.write_text("Case ID,Activity,Timestamp\n" + rows)
    out = tmp_path / "out.csv"
    words = ["anonymize", str(source), "-o", str(out), "--L", "2", "--K", "2", "--C", "1", "--T", "days"]
    assert execute([*words, "--knowledge", "seq", "--format", "duration"]) == 2
    assert "for relative times" in capsys.readouterr().err
    assert execute([*words, "--format", "weeks"]) == 2
    assert not out.exists()
    assert execute([*words, "--knowledge", "rel", "--format", "duration"]) == 0
    with out.open(newline="") as stream:
        assert {row["time:timestamp"] for row in csv.DictReader(stream)} == {"P0DT0H0M0S", "P2DT0H0M0S"}
