"""Sockets that the Kafka client of the tests leaves open fail no test run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

LEAVES_ONE_OPEN = """
import socket

def test_leaves_a_socket_open():
    ring = [socket.socket()]
    ring.append(ring)  # closed by the garbage collector alone, which runs when the session ends
"""


def test_a_socket_that_is_collected_at_the_end_fails_no_run(tmp_path: Path) -> None:
    """As kafka-python's, in a run of `pytest tests/kafka/test_chaos.py` alone: all passed, and the exit code was 1."""
    path = tmp_path / "test_one.py"
    path.write_text(LEAVES_ONE_OPEN)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.kafka.conftest"]
    place = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(path)]
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run([*command, *place], capture_output=True, text=True, check=False, **there)
    assert "1 passed" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
