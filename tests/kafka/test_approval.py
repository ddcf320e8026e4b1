"""Held releases in a running daemon: decisions are orders, and kill -9 at any boundary publishes nothing unapproved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream.daemon.status import read_status
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import IDENTITY, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
HELD = IDENTITY + 'approval = "required"\n'


def publications() -> str:
    """Two that need an approval, with one window."""
    window = f"{{ new_cases = {scenario.WINDOW} }}"
    return publication("first", window, HELD) + publication("second", window, HELD)


def decide(one: Site, order: str, name: str, number: int) -> None:
    """An order to the daemon, by the command line."""
    one.command(order, name, str(number), "-c", str(one.config), "--by", "Ann", "--why", "looked at it")


def rulings(one: Site) -> list[tuple[str, int, str]]:
    """Every decision on the ledger topic, in order."""
    return [(each["publication"], each["sequence"], each["body"]["decision"]) for each in one.ledger("approval")]


def announced(one: Site) -> set[tuple[str, int]]:
    """The releases that were announced, once or again."""
    found: list[dict[str, Any]] = [record["manifest"] for _, record in one.json("releases")]
    return {(manifest["publication"], manifest["sequence"]) for manifest in found}


def seals(one: Site) -> list[tuple[str, int]]:
    return [(each["publication"], each["sequence"]) for each in one.ledger("seal")]


def published(one: Site) -> set[tuple[str, int]]:
    return {(each["publication"], each["sequence"]) for each in one.ledger("published")}


def test_a_daemon_killed_at_every_boundary_of_a_decision(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Sealed and held, approved, moved, renamed, announced; rejected and deleted: each start ends what was begun, an
    order that comes again changes nothing, and what nobody approved is on no topic and in no public folder."""
    one = Site(broker.bootstrap, name, tmp_path, publications(), partitions=2)
    faults = ["sealed:1", "held:1", "approved:1", "moved:1", "renamed:1", "published:1", "rejected:1", "dropped:1"]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        scenario.send(one, scenario.events(cases=scenario.WINDOW))
        one.wait(lambda: len(coordinator.codes) >= 2 and len(seals(one)) == 2, "two held releases")
        assert announced(one) == published(one) == set()
        assert list((one.output() / "public").rglob("*")) == []
        decide(one, "approve", "first", 1)
        one.wait(lambda: ("first", 1) in published(one), "the first release")
        decide(one, "approve", "second", 1)
        one.wait(lambda: ("second", 1) in published(one) and len(coordinator.codes) >= 6, "the second release")
        scenario.send(one, scenario.events(first=scenario.WINDOW, cases=scenario.WINDOW))
        one.wait(lambda: ("first", 2) in seals(one), "a later candidate")
        decide(one, "reject", "first", 2)
        one.wait(lambda: len(coordinator.codes) >= len(faults), "every planted fault")
        decide(one, "approve", "first", 2)  # too late
        one.wait(lambda: "was rejected by Ann" in one.logs(), "the answer to the second order")
        assert read_held(one) == [("second", 2)]
        assert [coordinator.stop(), ingest.stop()] == [0, 0]
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]
        assert rulings(one) == [("first", 1, "approved"), ("second", 1, "approved"), ("first", 2, "rejected")]
        assert announced(one) == published(one) == {("first", 1), ("second", 1)}
        found = sorted(str(path.relative_to(one.output())) for path in one.output().glob("public/*/*"))
        assert found == ["public/first/release-000001", "public/second/release-000001"]
        assert [path.name for path in one.output().glob("operator/first/held/*")] == []
        checked = json.loads(one.command("verify", str(one.output()), "--json"))
        assert [(row["name"], row["releases"], row["held"], row["rejected"]) for row in checked["publications"]] == [
            ("first", 1, 0, 1),
            ("second", 1, 1, 0),
        ]
    finally:
        one.close()


def read_held(one: Site) -> list[tuple[str, int]]:
    """Return the held releases of status.json."""
    status = read_status(one.output())
    return [] if status is None else [(each["publication"], each["number"]) for each in status["held"]]
