"""A process that ends at each start is seen as such: its metrics answer before it looks for the broker."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import ROOT
from tests.ports import free_ports

CONFIG = """\
[process]
name = "p"
[source]
topics = ["orders"]
bootstrap = "127.0.0.1:{broker}"
[metrics]
port = {metrics}
[[publication]]
name = "plain"
window = {{ new_cases = 10 }}
mechanism = {{ kind = "identity" }}
"""


def _started_at(port: int) -> str:
    """The line of the process's start, "" if nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("process_start_time_seconds ")), "")


@pytest.mark.parametrize("role", ["ingest", pytest.param("coordinator", marks=pytest.mark.slow)])
def test_a_start_that_waits_for_its_broker_is_scraped(tmp_path: Path, role: str) -> None:
    """A broker that takes the connection and never answers. The alert of a restart loop counts these starts."""
    (metrics,) = free_ports(1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = tmp_path / "veilstream.toml"
        config.write_text(CONFIG.format(broker=silent.getsockname()[1], metrics=metrics))
        command = [sys.executable, "-m", "stream.commands", "run", "--role", role, "-c", str(config)]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen([*command, "-o", str(tmp_path / "out")], cwd=ROOT, stdout=log, stderr=log)
        try:
            while not (line := _started_at(metrics)):
                assert process.poll() is None, "it ended, and nobody saw that it had started"
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    assert float(line.split()[1]) > 0
