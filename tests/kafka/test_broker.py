"""Whether Faust works with the pinned broker at all, on which the daemon rests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE
from tests.patience import patient_time

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]


def _produce(bootstrap: str, topic: str, numbers: range) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in numbers:
        producer.send(topic, str(number).encode(), partition=number % 2)
    producer.flush()
    producer.close()


def _seen(folder: Path) -> list[str]:
    path = folder / "seen"
    return [line.split()[2] for line in path.read_text().splitlines()] if path.exists() else []


def _await_seen(folder: Path, wanted: set[str], seconds: float = PATIENCE) -> list[str]:
    deadline = patient_time() + seconds
    while patient_time() < deadline:
        if wanted <= set(_seen(folder)):
            return _seen(folder)
        time.sleep(0.1)
    raise AssertionError(f"only {len(_seen(folder))} of {len(wanted)} events arrived")


def test_faust_joins_commits_and_hands_over(broker: Broker | ForeignBroker, name: str, tmp_path: Path) -> None:
    """A Faust app reads what is there and commits; a second one takes over exactly behind it."""
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(f"{name}.events", 2, 1)])
    admin.close()

    def start(which: str) -> subprocess.Popen[bytes]:
        folder = tmp_path / which
        folder.mkdir()
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.smoke_app", broker.bootstrap, name, f"{name}.events", str(folder)],
                stdout=log,
                stderr=log,
            )

    first = start("first")
    try:
        _produce(broker.bootstrap, f"{name}.events", range(100))
        _await_seen(tmp_path / "first", {str(number) for number in range(100)})
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE) in (0, -signal.SIGTERM)
    finally:
        first.kill()
    second = start("second")
    try:
        _produce(broker.bootstrap, f"{name}.events", range(100, 200))
        seen = _await_seen(tmp_path / "second", {str(number) for number in range(100, 200)})
        assert sorted(map(int, seen)) == list(range(100, 200))
    finally:
        second.kill()
        second.wait()
