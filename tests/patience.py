"""Waiting times of tests for results that must come: longer on a machine with other load."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

PRESSURE = Path("/proc/pressure/cpu")
"""Linux: for how long in all some process had work and no CPU to do it."""

SLOWDOWN = 10.0
"""If no CPU is left at all, time passes this much more slowly. With no limit, what hangs on a busy machine would be
waited for until the test's own timeout ends it, without a word about what was missing."""


def patient_time() -> float:
    """Return seconds for deadlines, which pass slower while processes wait for a CPU.

    A wait by the wall clock ends too early on a machine with four times as much to do as it has CPUs: what is waited
    for has had a quarter of the time. Only differences of two values have a meaning.
    """
    return time.monotonic() - starved_seconds() * (1 - 1 / SLOWDOWN)


def starved_seconds() -> float:
    """Return for how long, since the machine began, some process waited for a CPU; 0 if the kernel does not report
    it."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except (OSError, IndexError):
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6


class WaitedProcess(Protocol):
    """A process that can be waited for: that of `subprocess`, or one like it."""

    args: Any

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""


def wait_for_end(process: WaitedProcess, seconds: float) -> int:
    """Return the exit code of a process; subprocess.TimeoutExpired where it runs on for so long."""
    deadline = patient_time() + seconds
    while patient_time() < deadline:
        code = process.poll()
        if code is not None:
            return code
        time.sleep(0.05)
    raise subprocess.TimeoutExpired(process.args, seconds)
