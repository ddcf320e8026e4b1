"""Process maps by a daemon: killed around the seal, each map is announced once or again, without events.

`tests/replay/test_process_map_replay.py` kills at every boundary.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream.release.failpoints import Failpoint
from stream.release.map_files import FILES
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
MAPS = (
    'mechanism = { kind = "dp-model", epsilon = 4, delta_dp = 1e-2, '
    'activities = ["register", "check", "decide", "pay", "reject", "close"] }\n'
    "gate = { public_cut = true, max_epsilon = 1000 }\n"
    'publish_after = "60s"\n'
)
"""A build takes seconds, and a minute on a machine that does much else is enough for it."""


def test_a_daemon_killed_around_the_seal_publishes_its_maps(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Every file of every map is what the ledger sealed, nothing is on `released-events`, and no charge is lost."""
    table = publication("maps", f"{{ new_cases = {scenario.WINDOW} }}", MAPS)
    one = Site(broker.bootstrap, name, tmp_path, table, partitions=2)
    # Only these boundaries have to do with the files of a map; the daemon's other ones are killed with logs.
    around_the_seal = (Failpoint.FILES_WRITTEN, Failpoint.SEALED, Failpoint.PUBLISHED)
    faults = [f"{boundary}:1" for boundary in around_the_seal]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        scenario.send(one, scenario.events(cases=2 * scenario.WINDOW))
        one.wait(lambda: len(one.ledger("published")) >= 2, "two published maps")
        one.wait(lambda: len(coordinator.codes) >= len(faults), "every planted fault")
        one.wait(lambda: not list(one.output().glob("public/maps/.*")), "an end of what was begun")
        codes = {coordinator.stop(), ingest.stop()}
        assert codes <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]
        announced = [record for _, record in one.json("releases")]
        assert {record["manifest"]["content"] for record in announced} == {"map"}
        assert {record["events"] for record in announced} == {"none"}
        assert one.json("released-events") == []
        folders = sorted(one.output().glob("public/maps/release-*"))
        assert {record["manifest"]["sequence"] for record in announced} == {int(path.name[-6:]) for path in folders}
        for folder in folders:
            assert {path.name for path in folder.iterdir()} == {*FILES, "manifest.json"}
            assert json.loads((folder / "dfg.json").read_text())["cases"]["high"] > 0
        assert json.loads(one.command("verify", str(one.output()), "--json"))["holds"]
    finally:
        one.close()
