"""The program of commit d56300e and this one on the same broker, topics and folder, one after the other: upgraded in
place with events in flight, and gone back as docs/upgrading.md says."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

BEFORE = "d56300e"
NOISY = (
    'mechanism = { kind = "dp-variants", epsilon = 4, delta_dp = 1e-2 }\n'
    "gate = { public_cut = true, max_epsilon = 1000 }\n"
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of the earlier program."""
    found = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True)
    if found.returncode:
        pytest.skip(
            f"commit {BEFORE} is not in this clone (`git fetch --unshallow` brings it): nothing to upgrade from"
        )
    tree = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree


def earlier(broker: Broker | ForeignBroker, name: str, folder: Path, old: Path) -> Site:
    """The process as the earlier program made it, topics too."""
    window = f"{{ new_cases = {scenario.WINDOW} }}"
    publications = publication("plain", window) + publication("noisy", window, NOISY)
    one = Site(broker.bootstrap, name, folder, publications, topics=False, tree=old)
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "2")
    return one


def settled(one: Site, sent: int) -> Callable[[], bool]:
    return lambda: scenario.settled(one, sent)


def spent(one: Site) -> Fraction:
    """Epsilon of the charges in the ledger topic."""
    return sum((Fraction(entry["body"]["epsilon"]) for entry in one.ledger("charge")), Fraction())


def test_a_daemon_of_the_earlier_program_is_upgraded_with_events_in_flight_and_goes_back(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path, old: Path
) -> None:
    """It dies between a seal and its release, with deltas that nobody folded and events that nobody read; this program
    ends what was begun. Going back, the earlier program refuses the state and folds the delta topic from its begin;
    its releases lack the chain, and `verify` says of each that it does."""
    one = earlier(broker, name, tmp_path, old)
    before = one.config.read_text()
    sent = scenario.events(cases=20)
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator", fault="sealed:5")
        scenario.send(one, sent)
        one.wait(settled(one, len(sent)), "two releases of each publication")
        more = scenario.events(first=20)
        scenario.send(one, more[:60])
        sent += more
        coordinator.wait(PATIENCE)
        assert one.stop(ingest) == [0]
        scenario.send(one, more[60:])
        assert len(one.ledger("seal")) == 5
        assert one.covered() < len(sent)

        one.tree = ROOT
        one.config.write_text(before.replace(NOISY, NOISY + 'publish_after = "4s"\n'))
        workers = one.start("coordinator"), one.start("ingest")
        one.wait(settled(one, len(sent)), "every cut of what the earlier program left")
        assert one.stop(*workers) == [0, 0]
        assert scenario.disagreements(one) == []
        assert spent(one) == 4 * 6

        one.tree = old
        one.config.write_text(before)
        assert one.start("coordinator").wait(PATIENCE) == 4
        assert "state version 4, newer than 1" in one.logs()
        checkpoints = one.output() / "operator" / "checkpoints"
        checkpoints.rename(tmp_path / "checkpoints")
        last = scenario.events(first=60, cases=20)
        scenario.send(one, last)
        sent += last
        workers = one.start("coordinator"), one.start("ingest")
        one.wait(settled(one, len(sent)), "the releases of the earlier program after all")
        assert one.stop(*workers) == [0, 0]
        assert scenario.disagreements(one) == []
        assert spent(one) == 4 * 8
    finally:
        one.close()
    one.tree = ROOT
    verified = subprocess.run(
        [sys.executable, "-m", "stream.commands", "verify", str(one.output()), "--json"], cwd=ROOT, capture_output=True
    )
    problems = {(one["publication"], one["sequence"], one["kind"]) for one in json.loads(verified.stdout)["problems"]}
    assert problems == {(name, number, "chain") for name in ("plain", "noisy") for number in (7, 8)}
