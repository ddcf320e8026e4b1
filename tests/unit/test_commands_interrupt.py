"""Ctrl-C is one line and exit 1, and leaves no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_an_interrupted_replay_says_so(tmp_path: Path) -> None:
    """The bundled log slowed down to last for days."""
    command = [sys.executable, "-m", "stream.commands", "replay", "examples/hospital.xes.gz", "--speed", "1"]
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "veilstream: interrupted" in errors
    assert "Traceback" not in errors
