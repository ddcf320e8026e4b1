"""A process that was stopped ends when it is awake; one that is merely busy or idle goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

WATCHED = """
import sys, time
from stream.daemon.progress import ProgressCheck
check = ProgressCheck(60, asleep=float(sys.argv[1]) if sys.argv[1] else None)
check.watch()
print("watching", flush=True)
end = time.monotonic() + 8
while time.monotonic() < end:
    time.sleep(0.05)
check.stop()
"""


@pytest.mark.parametrize(("asleep", "stopped", "code"), [("2", 3.5, 1), ("2", 0.0, 0), ("", 3.5, 0)])
def test_only_a_sleeper_ends(asleep: str, stopped: float, code: int) -> None:
    """SIGSTOP for longer than `asleep` ends it with 1 at SIGCONT; else it ends by itself."""
    with subprocess.Popen([sys.executable, "-c", WATCHED, asleep], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1.5)  # the watcher looks once a second
        if stopped:
            process.send_signal(signal.SIGSTOP)
            time.sleep(stopped)
            process.send_signal(signal.SIGCONT)
        assert process.wait(60) == code
