"""Log of a daemon: no error if all is well, and one line for a refusal."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker, new_broker
from tests.kafka.site import PATIENCE, Site

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker


def errors(one: Site) -> list[str]:
    """Return the lines that were logged as errors, and every line that is not a log record (a stack trace)."""
    found = []
    for line in filter(lambda text: text and not text.startswith("== "), one.logs().splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            found.append(line)
            continue
        if record["level"] in ("error", "critical") or "exception" in record:
            found.append(line)
    return found


def test_a_healthy_first_start_logs_no_error(name: str, tmp_path: Path) -> None:
    """A broker that has never had a group, new topics, an empty folder, events, releases, SIGTERM."""
    broker = new_broker()
    try:
        one = scenario.site(broker.bootstrap, name, tmp_path)
        _live(one)
    finally:
        broker.close()
    assert errors(one) == []
    assert one.command("status", "-o", str(one.output()), expect=4) == ""


def _live(one: Site) -> None:
    values = scenario.events(cases=20)
    try:
        workers = one.start("ingest"), one.start("coordinator")
        scenario.send(one, values)
        one.wait(lambda: scenario.settled(one, len(values)), "the releases")
        one.command("status", "-o", str(one.output()))
        assert one.stop(*workers) == [0, 0]
    finally:
        one.close()


def test_a_refusal_is_one_line(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Exit 4 (a delta of a later version) and exit 2 (a port that is taken): what, where, and no stack trace."""
    from kafka import KafkaProducer

    one = scenario.site(broker.bootstrap, name, tmp_path)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(f"veilstream.{name}.delta", b'{"t":"delta","v":3}', partition=0).get(timeout=60)
    producer.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        try:
            assert one.start("coordinator").wait(PATIENCE) == 4
            assert one.start("ingest", VEILSTREAM_HEALTH_PORT=str(taken.getsockname()[1])).wait(PATIENCE) == 2
        finally:
            one.close()
    (refused, unusable) = errors(one)
    assert "delta offset 0: version 3; this program reads versions 1 and 2" in refused
    assert "Address already in use; choose another port" in unusable
