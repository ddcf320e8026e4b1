"""Deadlines of tests follow the CPU that the machine had to give, not the wall clock alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import patience
from tests.patience import patient_time, wait_for_end


@pytest.mark.parametrize(("starved", "passed"), [(0.0, 100.0), (50.0, 55.0), (100.0, 10.0)])
def test_time_passes_slower_while_processes_wait_for_a_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starved: float, passed: float
) -> None:
    """100 s by the clock in which somebody waited for a CPU all the time are 10 s, and never less."""
    now, pressure = [1000.0], tmp_path / "cpu"
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience, "PRESSURE", pressure)
    pressure.write_text("some avg10=62.86 avg60=64.41 avg300=68.73 total=5000000\nfull avg10=0.00 total=0\n")
    before = patient_time()
    now[0] += 100.0
    pressure.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={5_000_000 + int(starved * 1e6)}\n")
    assert patient_time() - before == pytest.approx(passed)


def test_a_kernel_that_does_not_say_leaves_the_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other systems than Linux, and kernels without the file."""
    monkeypatch.setattr(patience, "PRESSURE", tmp_path / "none")
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    assert patient_time() == 7.0


def test_the_end_of_a_process_is_waited_for() -> None:
    """Its exit code; an error if it does not end."""
    ends = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert wait_for_end(ends, 600) == 3
    stays = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_for_end(stays, 0.2)
    finally:
        stays.kill()
        stays.wait()
