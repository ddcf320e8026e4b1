"""An earlier program and this one on the same broker, topics and folder, one after the other.

Upgraded in place with events in flight, and gone back as docs/upgrading.md says.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

MOMENT = 'publish_after = "4s"\n'
"""Four seconds in place of the longest time of a build, for which a test does not wait."""


@dataclass(frozen=True)
class Earlier:
    """A program that others have run."""

    commit: str
    knows_moments: bool
    """Whether its releases with noise wait for `publish_after`; without the key for a quarter of an hour."""
    state: int
    """Version of the state that it writes, and the newest that it reads."""
    chains: bool
    """Whether its manifests name the release before."""


EARLIER = (
    Earlier("d56300e", knows_moments=False, state=1, chains=False),
    Earlier("c16efcb", knows_moments=True, state=2, chains=True),
)
NOISY = (
    'mechanism = { kind = "dp-variants", epsilon = 4, delta_dp = 1e-2 }\n'
    "gate = { public_cut = true, max_epsilon = 1000 }\n"
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
)


def tree_of(commit: str, tree: Path) -> Path:
    """Unpack the source tree of a commit."""
    found = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if found.returncode:
        pytest.skip(
            f"commit {commit} is not in this clone (`git fetch --unshallow` brings it): nothing to upgrade from"
        )
    tree.mkdir()
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree


def made_by(earlier: Earlier, broker: Broker | ForeignBroker, name: str, folder: Path) -> Site:
    """The process as the earlier program made it, topics too."""
    window = f"{{ new_cases = {scenario.WINDOW} }}"
    noisy = NOISY + MOMENT if earlier.knows_moments else NOISY
    publications = publication("plain", window) + publication("noisy", window, noisy)
    tree = tree_of(earlier.commit, folder / "old")
    one = Site(broker.bootstrap, name, folder, publications, topics=False, tree=tree)
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "2")
    return one


def settled(one: Site, sent: int) -> Callable[[], bool]:
    return lambda: scenario.settled(one, sent)


def spent(one: Site) -> Fraction:
    """Epsilon of the charges in the ledger topic."""
    return sum((Fraction(entry["body"]["epsilon"]) for entry in one.ledger("charge")), Fraction())


@pytest.mark.parametrize("earlier", EARLIER, ids=lambda earlier: earlier.commit)
def test_a_daemon_of_an_earlier_program_is_upgraded_with_events_in_flight_and_goes_back(
    earlier: Earlier, broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """It dies between a seal and its release, with deltas that nobody folded and events that nobody read.

    This program ends what was begun. Going back, the earlier program refuses the state and folds the delta topic from
    its begin; where its releases lack the chain, `verify` says so of each.
    """
    one = made_by(earlier, broker, name, tmp_path)
    old, before = one.tree, one.config.read_text()
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
        if not earlier.knows_moments:
            one.config.write_text(before.replace(NOISY, NOISY + MOMENT))
        workers = one.start("coordinator"), one.start("ingest")
        one.wait(settled(one, len(sent)), "every cut of what the earlier program left")
        assert one.stop(*workers) == [0, 0]
        assert scenario.disagreements(one) == []
        assert spent(one) == 4 * 6

        one.tree = old
        one.config.write_text(before)
        assert one.start("coordinator").wait(PATIENCE) == 4
        assert f"state version 4, newer than {earlier.state}" in one.logs()
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
    unchained = () if earlier.chains else (7, 8)
    assert problems == {(name, number, "chain") for name in ("plain", "noisy") for number in unchained}
