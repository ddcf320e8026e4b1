"""SIGTERM before a role has begun."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal
from stream.daemon import roles
signal.signal(signal.SIGTERM, roles._quit)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.sigtimedwait([], 5)
except BaseException:
    pass  # what the event loop of the broker's client does
print("runs on")
"""


def test_a_stop_while_the_broker_is_asked_is_not_lost() -> None:
    """The client's loop keeps every exception, SystemExit too: the process ran on, until somebody killed it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
