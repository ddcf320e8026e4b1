"""A broker that hangs, as seen by every check: `status`, readiness of both roles, and the gauge of the last contact."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, new_broker
from tests.kafka.site import IDENTITY, Site, publication
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AWAY = "veilstream_broker_contact_timestamp_seconds"


@pytest.fixture
def lone() -> Iterator[Broker]:
    """A broker of this test's own, which it may stop."""
    broker = new_broker()
    yield broker
    broker.signal(signal.SIGCONT)
    broker.close()


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def _status(one: Site) -> subprocess.CompletedProcess[str]:
    return one.outcome("status", "-o", str(one.output()))


def _contact(port: int) -> float:
    """The gauge, seconds since 1970."""
    lines = _get(port, "/metrics")[1].splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(AWAY))


def test_every_check_says_that_the_broker_is_away(lone: Broker, name: str, tmp_path: Path) -> None:
    """The broker is stopped (SIGSTOP: its connections stay open). A coordinator, a standby and an ingest worker are
    ready before, not ready while it is away, and ready again when it answers."""
    ports = dict(zip(("ingest", "coordinator", "standby"), free_ports(3), strict=True))
    (metrics,) = free_ports(1)
    # A session that outlasts the test: nobody is put out of its group, and no progress check ends a process.
    one = Site(
        lone.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ manual = true }", IDENTITY),
    )
    one.config.write_text(one.config.read_text().replace('session_timeout = "3s"', 'session_timeout = "60s"'))

    def ready() -> list[int]:
        return [_get(port, "/readyz")[0] for port in ports.values()]

    def start(role: str, which: str, host: str = "a", **more: str) -> None:
        one.start(role, host, VEILSTREAM_HEALTH_PORT=str(ports[which]), **more)

    try:
        start("ingest", "ingest")
        start("coordinator", "coordinator", VEILSTREAM_METRICS__PORT=str(metrics))
        one.wait(lambda: _get(ports["coordinator"], "/readyz")[0] == 200, "an active coordinator")
        start("coordinator", "standby", host="b")
        one.send(scenario.events(cases=5)[:5], 0)
        one.wait(lambda: one.covered() == 5, "the events")
        one.wait(lambda: ready() == [200, 200, 200], "readiness of all")
        one.wait(lambda: _status(one).returncode == 0, "a status without a fault")
        stopped_at = time.time()
        lone.signal(signal.SIGSTOP)
        _until(lambda: ready() == [503, 503, 503])
        for port in ports.values():
            body = json.loads(_get(port, "/readyz")[1])
            assert body["state"] == "broker away"
            assert body["broker_contact_seconds"] >= 30  # printed with one decimal
        _until(lambda: "no contact with the broker since" in _status(one).stdout)
        assert _status(one).returncode == 4
        assert _contact(metrics) <= stopped_at + 30  # an answer may have been on its way
        assert time.time() - _contact(metrics) > 30
        lone.signal(signal.SIGCONT)
        _until(lambda: ready() == [200, 200, 200])
        _until(lambda: _status(one).returncode == 0)
        assert time.time() - _contact(metrics) < 30
        assert [process.poll() for process in one.processes] == [None, None, None]
    finally:
        lone.signal(signal.SIGCONT)
        one.close()


def _until(check: object) -> None:
    """Until it holds; the test's own timeout ends what never comes. A site's own wait would ask the broker."""
    assert callable(check)
    while not check():
        time.sleep(0.5)
