"""Ctrl-C is one line and exit 1, and leaves no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def _leave(handler: signal.Handlers) -> None:
    """Leave SIGINT to the child as `handler` states; if it is ignored, blocked too."""
    signal.signal(signal.SIGINT, handler)
    signal.pthread_sigmask(signal.SIG_BLOCK if handler is signal.SIG_IGN else signal.SIG_UNBLOCK, {signal.SIGINT})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(signal.SIG_DFL, id="heard", marks=pytest.mark.slow),
        pytest.param(signal.SIG_IGN, id="ignored before"),
    ],
)
def test_an_interrupted_replay_is_reported(tmp_path: Path, given: signal.Handlers) -> None:
    """The bundled log slowed down to last for days. Behind nohup or `&` a process begins with SIGINT ignored, and its
    children too: the command sets its own handler."""
    command = [sys.executable, "-m", "stream.commands", "replay", "examples/hospital.xes.gz", "--speed", "1"]
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _leave(given),
    ) as process:
        try:
            while not (tmp_path / "out").exists():
                assert process.poll() is None
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 1
    assert "veilstream: interrupted" in errors
    assert "Traceback" not in errors
