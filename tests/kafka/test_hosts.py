"""Hosts as they are in the field: a clock that is set, a second host on the same folder or on one of its own."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from stream.fold.records import Tick
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker


def _events(prefix: str, count: int, when: datetime) -> list[bytes | None]:
    return [
        json.dumps(
            {
                "case:concept:name": f"{prefix}-{number}",
                "concept:name": "a",
                "time:timestamp": (when + timedelta(seconds=number)).isoformat(),
            }
        ).encode()
        for number in range(count)
    ]


def _seals(one: Site, name: str) -> int:
    return sum(entry["publication"] == name for entry in one.ledger("published"))


def _noisy(window: str) -> str:
    return publication(
        "noisy",
        window,
        'mechanism = { kind = "dp-variants", epsilon = 4, delta_dp = 1e-2 }\n'
        "gate = { public_cut = true, max_epsilon = 1000 }\n"
        'publish_after = "20s"\n'  # four seconds are too few for the build on a machine with other load
        "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n",
    )


def test_hosts_whose_clocks_are_wrong_move_nothing(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Both processes a day ahead, then a day behind: the broker's clock counts. No window closes early, none rests, a
    release with a dp promise is published at its moment, and an event of now is none of the future."""
    clock = tmp_path / "clock"
    clock.write_text("86400")
    # Hours of the clock would end during one of a hundred runs; this one ends in half an hour.
    begun = datetime.now(UTC) - timedelta(minutes=30)
    hourly = publication("hourly", '{ every = "1h", time = "wall" }', f'start = "{begun.isoformat()}"\n{IDENTITY}')
    windows = hourly + publication("counted", "{ new_cases = 5 }")
    one = Site(broker.bootstrap, name, tmp_path, windows + _noisy("{ new_cases = 5 }"))
    past = datetime(2024, 1, 1, tzinfo=UTC)
    try:
        workers = [one.start(role, TEST_CLOCK=str(clock)) for role in ("ingest", "coordinator")]
        one.send(_events("first", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 1, "a release by count")
        clock.write_text("-86400")
        one.wait(lambda: _seals(one, "noisy") == 1, "the release with noise at its moment")
        one.send([*_events("second", 4, past), *_events("now", 1, datetime.now(UTC))], 0)
        one.wait(lambda: _seals(one, "counted") == 2, "a release by count under the clock that was set back")
        one.wait(lambda: _seals(one, "noisy") == 2, "the second release with noise")
        ticks = [record["at"] for _, record in one.json("delta") if record["t"] == "tick"]
        manifests = [record["manifest"] for _, record in one.json("releases")]
        assert one.stop(*workers) == [0, 0]
    finally:
        one.close()
    assert ticks
    assert all(abs(at / 1e9 - time.time()) < 3600 for at in ticks)  # a day off, were they a host's
    assert one.json("dlq") == []
    assert _seals(one, "hourly") == 0
    assert "the wall clock was set back by" not in one.logs()
    assert [one["counts"]["cases"] for one in manifests if one["publication"] == "counted"] == [5, 10]
    moments = [datetime.fromisoformat(one["published"]) for one in manifests if one["publication"] == "noisy"]
    assert [abs(moment - datetime.now(UTC)) < timedelta(hours=1) for moment in moments] == [True, True]


def test_the_brokers_clock_set_forth_and_back_loses_nothing(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Ticks as they come of a broker two hours ahead: windows by the wall clock close as after a pause. Ticks of now
    behind them: the windows rest, and the log reports it; events continue. Ahead again: they continue."""
    windows = publication("hourly", '{ every = "1h", time = "wall" }') + publication("counted", "{ new_cases = 5 }")
    one = Site(broker.bootstrap, name, tmp_path, windows)
    past = datetime(2024, 1, 1, tzinfo=UTC)
    from kafka import KafkaProducer

    def tick(hours: int) -> None:
        record = Tick(at=time.time_ns() + hours * 3_600_000_000_000)
        producer = KafkaProducer(bootstrap_servers=one.bootstrap)
        producer.send(f"veilstream.{one.name}.delta", msgspec.json.encode(record), partition=0).get(timeout=20)
        producer.close()

    try:
        workers = [one.start(role) for role in ("ingest", "coordinator")]
        one.send(_events("first", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 1, "a release by count")
        # The first tick opens the hour: without one of now before it, the tick ahead would open and close nothing.
        one.wait(lambda: any(record["t"] == "tick" for _, record in one.json("delta")), "a tick of now")
        tick(2)
        one.wait(lambda: _seals(one, "hourly") >= 1, "the hour, passed at once")
        one.wait(lambda: "the wall clock was set back by" in one.logs(), "the line about the clock")
        hours = _seals(one, "hourly")  # all that the tick closed: the line is about a later record
        one.send(_events("second", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 2, "a release by count under the clock that was set back")
        assert _seals(one, "hourly") == hours
        tick(4)
        one.wait(lambda: _seals(one, "hourly") > hours, "the next hour")
        manifests = [record["manifest"] for _, record in one.json("releases")]
        assert [one["counts"]["cases"] for one in manifests if one["publication"] == "counted"] == [5, 10]
        assert one.stop(*workers) == [0, 0]
    finally:
        one.close()


def test_a_second_host_on_the_same_folder_goes_on_and_one_on_another_refuses(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """Of three coordinators one is active. The one that shares its folder takes over; one with a folder of its own and
    no store between them has nothing to audit against, and ends with 4 instead of beginning again."""
    one = Site(broker.bootstrap, name, tmp_path, publication("counted", "{ new_cases = 5 }"))
    past = datetime(2024, 1, 1, tzinfo=UTC)
    try:
        one.start("ingest")
        first = one.start("coordinator")
        one.wait(lambda: "coordinator is active" in one.logs(), "an active coordinator")
        second = one.start("coordinator")
        one.wait(lambda: one.logs().count("coordinator is on standby") == 1, "a standby")
        one.send(_events("first", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 1, "a release")
        first.kill()
        one.send(_events("second", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 2, "a release of the second host")
        # the key of the first host: with one of its own the third would refuse for that
        (one.output("b") / "operator").mkdir(parents=True)
        (one.output("b") / "operator" / "key").write_bytes((one.output() / "operator" / "key").read_bytes())
        (one.output("b") / "operator" / "key").chmod(0o600)
        third = one.start("coordinator", "b")
        one.wait(lambda: one.logs().count("coordinator is on standby") == 2, "another standby")
        time.sleep(2)
        assert second.poll() is None
        second.kill()
        assert third.wait(PATIENCE) == 4
        assert "was published and is gone from the store" in one.logs()
        assert not (one.output("b") / "public" / "counted").exists() or not list(
            (one.output("b") / "public" / "counted").glob("release-*")
        )
        one.start("coordinator")
        one.send(_events("third", 5, past), 0)
        one.wait(lambda: _seals(one, "counted") == 3, "a release of a host with the folder")
        assert [entry["sequence"] for entry in one.ledger("seal")] == [1, 2, 3]
        one.stop()
    finally:
        one.close()
