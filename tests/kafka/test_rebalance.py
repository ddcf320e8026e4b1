"""Members come while events arrive: nothing is lost between two generations of a group, and nobody hangs forever."""

from __future__ import annotations

import secrets
import time
import urllib.request
from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import PATIENCE, AnyProcess
from tests.patience import patient_time
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker

SMALL_DELTAS = {"TEST_DELTA_BYTES": "1250"}
"""A worker that writes a delta of few events, so that a coordinator has many to read."""

ATTEMPTS = 4
"""The broker decides whether the open fetch brings the events before or after the rebalance. The planted hole shows in
the first case only, so the control is tried again in the other one."""


@pytest.mark.parametrize(("fault", "ended"), [("wide", []), ("wide-hole", [1])])
def test_first_events_that_arrive_during_a_rebalance_are_not_lost(
    broker: AnyBroker, name: str, tmp_path: Path, fault: str, ended: list[int]
) -> None:
    """The group has committed nothing yet, and the worker's fetch is open: what it brings is thrown away and must be
    fetched again, though there is no committed offset to go back to. If the consumer does not go back, the worker
    sees that events were skipped, or that it makes no progress before the end of the log, and ends with 1; the next
    one reads them."""
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        codes, reported = _worker_in_a_rebalance(broker, f"{name}-{attempt}", folder, fault)
        if (codes, reported) == (ended, bool(ended)):
            return
        assert ended, "a worker saw a hole that nobody planted"
        assert codes == []
    pytest.fail(f"the planted hole ended no worker in {ATTEMPTS} attempts")


def _worker_in_a_rebalance(broker: AnyBroker, name: str, folder: Path, fault: str) -> tuple[list[int], bool]:
    """Send events while a second worker joins, and check that all arrive.

    Return the exit codes of the first worker before its stop, and whether it reported a hole.
    """
    one = scenario.site(broker.bootstrap, name, folder)
    values = scenario.events(cases=20)

    def reported() -> bool:
        return any(line in one.logs() for line in ("were skipped", "no progress for"))

    try:
        first = Keeper(one, "ingest", [fault])
        one.wait(lambda: {r["p"] for _, r in one.json("delta") if r["t"] == "hb"} == {0, 1}, "an idle worker")
        hold = one.folder / "hold"
        hold.touch()
        second = one.start("ingest")
        deadline = patient_time() + PATIENCE
        while "because it is rebalancing" not in one.logs():
            assert patient_time() < deadline, one.logs()
            time.sleep(0.05)
        scenario.send(one, values)
        hold.unlink()
        one.wait(lambda: one.covered() == len(values), "all events in the delta topic")
        if reported():
            # The second worker may read the events while the first one is ending; a stop then would hide its code.
            one.wait(lambda: bool(first.codes), "the end of the worker that saw the hole")
        assert first.stop() in (0, -15)  # -15: stopped before it had begun
        assert one.stop(second) == [0]
    finally:
        one.close()
    return first.codes[:-1], reported()


def test_a_worker_with_batches_in_hand_continues_when_another_one_starts(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """The rebalance comes while the broker is asked about a batch, and the batch before it is not acknowledged. The
    worker compared the batch with the committed position, saw a hole that nobody made, and ended with 1."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    values = scenario.events(cases=20)
    half = len(values) // 2
    try:
        scenario.send(one, values[:half])
        first = one.start("ingest", fault="in-hand")
        one.wait(lambda: one.covered() > 0, "a first batch in the delta topic")
        scenario.send(one, values[half:])
        one.wait(lambda: "two batches are in hand" in one.logs(), "a second batch")
        second = one.start("ingest")
        one.wait(lambda: one.covered() == len(values), "all events in the delta topic")
        assert "were skipped" not in one.logs()
        assert one.stop(first, second) == [0, 0]
    finally:
        one.close()


def test_a_standby_that_takes_over_gets_every_record(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """The standby had no partition, the active one dies, and many records wait: those that the client fetches while
    the flow is about to be resumed are not thrown away in the middle of what was handed over."""
    top = f'key = "{secrets.token_hex(32)}"\n'
    one = scenario.site(broker.bootstrap, name, tmp_path, top=top)
    values = scenario.events(cases=120)
    try:
        active = one.start("coordinator", "a", "sleep opened:1")  # what comes waits for its successor
        one.wait(lambda: "coordinator is active" in one.logs(), "an active coordinator")
        standby = one.start("coordinator", "b", "late")
        one.wait(lambda: "on standby" in one.logs(), "a standby")
        worker = one.start("ingest", **SMALL_DELTAS)
        scenario.send(one, values)
        one.wait(lambda: one.covered() == len(values), "all events in the delta topic")
        assert len(one.json("delta")) > 200  # more than one batch of the coordinator
        active.kill()
        one.wait(lambda: len(one.ledger("published")) >= 2 * 120 // scenario.WINDOW, "every release")
        assert one.stop(standby, worker) == [0, 0]
    finally:
        one.close()
    assert "are missing" not in one.logs()
    assert "was left out by one consumer" not in one.logs()  # nor was it lost and found


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_a_delta_that_the_coordinator_is_not_given(broker: AnyBroker, name: str, tmp_path: Path, always: bool) -> None:
    """A second consumer is asked before anything behind it is folded. If that copy has it, every release is made. If
    no copy has it, a gap is reported, and nothing is released any more."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    every = 2 * scenario.CASES // scenario.WINDOW
    try:
        # The deltas are there before the coordinator: its batches are large, whatever the speed of the machine.
        worker = one.start("ingest", **SMALL_DELTAS)
        values = scenario.events()
        scenario.send(one, values)
        one.wait(lambda: one.covered() == len(values), "all events in the delta topic")
        coordinator = one.start("coordinator", fault="deaf-always" if always else "deaf-once")
        if always:
            one.wait(lambda: "are missing; nothing is released" in one.logs(), "a gap")
        else:
            one.wait(lambda: len(one.ledger("published")) >= every, "every release")
        assert one.stop(coordinator, worker) == [0, 0]
    finally:
        one.close()
    assert ("are missing" in one.logs()) == always
    assert ("was left out by one consumer" in one.logs()) == (not always)
    assert (len(one.ledger("seal")) < every) == always


def test_a_group_that_does_not_know_its_topic_yet_looks_again(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A member joins while the broker comes back and its metadata is empty: it gets nothing, alone in the group, and
    takes its partition when the topic is known, long before the client's five minutes."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    try:
        process = one.start("coordinator", fault="blind")
        one.wait(lambda: "on standby" in one.logs(), "a group without topics")
        one.wait(lambda: "coordinator: state at delta offset" in one.logs(), "an active coordinator", 120)
        assert one.stop(process) == [0]
    finally:
        one.close()


def test_a_worker_that_hangs_ends_and_its_successor_goes_on(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """The progress check: no move while events wait, and the process is gone; the service manager does the rest."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    values = scenario.events(cases=10)
    try:
        scenario.send(one, values)
        worker = Keeper(one, "ingest", ["hang"])
        one.wait(lambda: one.covered() == len(values), "all events in the delta topic")
        assert worker.stop() in (0, -15)
        assert worker.codes[:-1] == [1]
    finally:
        one.close()
    assert "no progress for" in one.logs()


SESSION = {"VEILSTREAM_SOURCE__SESSION_TIMEOUT": "85s"}
"""Longer than the start of a process on a busy machine, so that a killed worker comes back within its session."""


def _scraped(port: int, metric: str) -> list[float]:
    """Return the samples of a metric of one process; none if it does not answer yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return []
    return [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"veilstream_{metric}{{")]


def test_a_static_member_that_starts_again_stops_no_other_worker(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Two named workers have a partition each. One is killed, and takes its partition back within its session: the
    other one sees no rebalance, and every event arrives."""
    client = '[source.client]\nclient.rack = "a"\nfetch.max.wait.ms = 400\n"max.partition.fetch.bytes" = 600000\n'
    one = scenario.site(broker.bootstrap, name, tmp_path, source=client)
    ports = free_ports(2)

    def start(number: int) -> AnyProcess:
        member = {
            "VEILSTREAM_SOURCE__CLIENT__GROUP_INSTANCE_ID": f"worker-{number}",
            "VEILSTREAM_METRICS__PORT": str(ports[number]),
        }
        return one.start("ingest", **SESSION, **member)

    early, later = scenario.events(cases=10), scenario.events(first=10, cases=10)
    try:
        first, second = start(0), start(1)
        one.wait(
            lambda: all(len(_scraped(port, "ingest_lag_records")) == 1 for port in ports), "a partition for each worker"
        )
        scenario.send(one, early)
        one.wait(lambda: one.covered() == len(early), "the early events")
        rebalances = _scraped(ports[0], "rebalances_total")
        second.kill()
        second.wait()
        scenario.send(one, later)
        second = start(1)
        one.wait(lambda: one.covered() == len(early) + len(later), "all events")
        assert _scraped(ports[0], "rebalances_total") == rebalances
        assert _scraped(ports[1], "rebalances_total") == [1]
        assert one.stop(first, second) == [0, 0]
    finally:
        one.close()
