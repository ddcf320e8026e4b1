"""kill -9 and its kin on a real broker: nothing lost, nothing doubled, one content per release, every draw paid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
MOST_CASES = 120
"""Events of so many cases are sent until every planted fault has struck."""


def run(broker: AnyBroker, name: str, folder: Path, ingest: list[str], coordinator: list[str]) -> list[str]:
    """The scenario under planted faults until each has struck and everything is settled; what the verifier finds."""
    one = scenario.site(broker.bootstrap, name, folder)
    sent, cases = scenario.events(), scenario.CASES

    def settle() -> None:
        one.wait(lambda: scenario.settled(one, len(sent)), "the end of the scenario")

    try:
        keepers = [Keeper(one, "ingest", ingest), Keeper(one, "coordinator", coordinator)]
        scenario.send(one, sent)
        settle()
        while not all(keeper.struck for keeper in keepers):
            assert cases < MOST_CASES, f"a fault never struck: {[keeper.codes for keeper in keepers]}"
            more = scenario.events(first=cases, cases=scenario.WINDOW)
            scenario.send(one, more)
            sent += more
            cases += scenario.WINDOW
            settle()
        codes = [keeper.stop() for keeper in keepers]
        assert {*codes} <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        for keeper, faults in zip(keepers, (ingest, coordinator), strict=True):
            assert keeper.codes[:-1] == [-9] * len(faults), f"{keeper.codes}\n{one.logs()[-4000:]}"
    finally:
        one.close()
    return scenario.disagreements(one)


def test_without_a_fault_the_verifier_finds_nothing(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """The control: an undisturbed run satisfies the verifier."""
    assert run(broker, name, tmp_path, [], []) == []


def test_coordinator_killed_at_every_boundary_of_a_release(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """kill -9 after each durable step: the next start ends what was begun, and never says it differently."""
    faults = ["opened", "charged", "built", "files_written", "sealed", "renamed", "published", "checkpoint"]
    assert run(broker, name, tmp_path, [], faults) == []


def test_ingest_killed_before_and_after_its_deltas(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """kill -9 with a batch in hand, and with its deltas sent but its events not acknowledged."""
    assert run(broker, name, tmp_path, ["taken:1", "sent:1"], []) == []
