"""The broker hangs: an operator asks `status`, and an orchestrator asks `/readyz`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka.broker import Broker
from tests.kafka.site import Site
from tests.outside.brokers import broker, events, releases_every_five_cases

__all__ = ["broker"]

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

# Below the range from which systems take ports for outgoing connections; two test processes have different ones.
INGEST_PORT = 20_000 + 2 * (os.getpid() % 5_000)
COORDINATOR_PORT = INGEST_PORT + 1
AWAY_SECONDS = 150
"""How long the broker is away: on c16efcb every check was green for 146 s and more."""


def _ready(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        return int(error.code)
    except OSError:
        return 0


def _status(site: Site) -> int:
    command = [sys.executable, "-m", "stream.commands", "status", "-o", str(site.output())]
    return subprocess.run(command, cwd=site.tree, capture_output=True, check=False).returncode


def _readiness() -> dict[str, int]:
    return {"ingest /readyz": _ready(INGEST_PORT), "coordinator /readyz": _ready(COORDINATOR_PORT)}


def _checks(site: Site) -> dict[str, int]:
    return {**_readiness(), "status": _status(site)}


def test_status_and_readiness_report_a_broker_that_does_not_answer(broker: Broker, tmp_path: Path) -> None:
    site = releases_every_five_cases(broker.bootstrap, tmp_path)
    # Nobody leaves a group during the test: only the contact with the broker can make a check fail.
    site.config.write_text(site.config.read_text().replace('session_timeout = "3s"', 'session_timeout = "60s"'))
    green = {"ingest /readyz": 200, "coordinator /readyz": 200, "status": 0}
    red = {"ingest /readyz": 503, "coordinator /readyz": 503, "status": 4}
    try:
        site.start("ingest", VEILSTREAM_HEALTH_PORT=str(INGEST_PORT))
        site.start("coordinator", VEILSTREAM_HEALTH_PORT=str(COORDINATOR_PORT))
        site.send(list(events(5)), 0)
        site.wait(lambda: bool(site.json("releases")), "a release")
        site.wait(lambda: set(_readiness().values()) == {200}, "two ready roles")
        site.wait(lambda: _checks(site) == green, "green checks while the broker answers")
        broker.signal(signal.SIGSTOP)
        deadline = time.monotonic() + AWAY_SECONDS
        # `status` starts a process: not before the two cheap checks are red.
        while set(_readiness().values()) != {503} and time.monotonic() < deadline:
            time.sleep(2)
        seen = _checks(site)
        while seen != red and time.monotonic() < deadline:
            time.sleep(2)
            seen = _checks(site)
        assert seen == red
    finally:
        broker.signal(signal.SIGCONT)
        site.close()
