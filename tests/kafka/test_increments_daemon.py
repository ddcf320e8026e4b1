"""Series of new cases by a daemon, as increments or each case once: killed around the seal, nothing is shown twice.

`tests/replay/test_increments.py` kills at every boundary.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream.ledger.release_record import read
from stream.release.failpoints import Failpoint
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication
from veilstream import read_series

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
BATCH = 20
"""Cases that are sent together. The first event of a batch opens no window; its last new case closes one."""

GROUPS = (
    'mechanism = { kind = "tlkc-cohorts", L = 1, K = 3, C = 1 }\n'
    'release = "increment"\n'
    'formats = ["parquet"]\n'
    "audit = { utility = false }\n"
)


def test_a_daemon_killed_around_the_seal_continues_a_set(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Each event of the series is in one file and on `released-events` once; the manifests name one set."""
    table = publication("groups", f"{{ new_cases = {BATCH} }}", GROUPS)
    completion = 'completion = { end_activities = ["close"] }'
    one = Site(broker.bootstrap, name, tmp_path, table, process=completion, partitions=2)
    around_the_seal = (Failpoint.FILES_WRITTEN, Failpoint.SEALED, Failpoint.PUBLISHED)
    faults = [f"{boundary}:1" for boundary in around_the_seal]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        for batch in range(5):
            scenario.send(one, scenario.events(first=batch * BATCH, cases=BATCH))
        one.wait(lambda: len(one.ledger("published")) >= 3, "three published increments")
        one.wait(lambda: len(coordinator.codes) >= len(faults), "every planted fault")
        one.wait(lambda: not list(one.output().glob("public/groups/.*")), "an end of what was begun")
        codes = {coordinator.stop(), ingest.stop()}
        assert codes <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]

        folder = one.output() / "public" / "groups"
        manifests = [json.loads(path.read_text()) for path in sorted(folder.glob("release-*/manifest.json"))]
        numbers = [manifest["sequence"] for manifest in manifests]
        newest = manifests[-1]
        assert {manifest["increment"]["first"] for manifest in manifests} == {numbers[0]}
        assert [member["sequence"] for member in newest["increment"]["earlier"]] == numbers[:-1]
        assert 0 < newest["increment"]["new"]["cases"] < newest["counts"]["cases"]
        log = read_series(folder)
        assert len(log) == newest["counts"]["events"]

        # A release that was announced again after a kill has the same frames again.
        frames = {}
        for _, record in one.json("released-events"):
            if record["t"] == "events":
                frames[record["sequence"], record["first"]] = record["rows"]
        streamed = [tuple(map(str, row)) for rows in frames.values() for row in rows]
        assert len(streamed) == len(set(streamed)) == newest["counts"]["events"]
        assert json.loads(one.command("verify", str(one.output()), "--json"))["holds"]
    finally:
        one.close()


ONCE = GROUPS.replace('release = "increment"', 'cases = "completed"')


def test_a_daemon_killed_around_the_seal_shows_each_case_once(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Cuts are decided by another thread while records are folded, and the process dies around three seals: no case is
    in two releases, no event is announced twice, and the cases that have left are out of the next saved state."""
    table = publication("groups", f"{{ new_cases = {BATCH} }}", ONCE)
    completion = 'completion = { end_activities = ["close"] }'
    one = Site(broker.bootstrap, name, tmp_path, table, process=completion, partitions=2)
    around_the_seal = (Failpoint.FILES_WRITTEN, Failpoint.SEALED, Failpoint.PUBLISHED)
    faults = [f"{boundary}:1" for boundary in around_the_seal]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        for batch in range(6):
            scenario.send(one, scenario.events(first=batch * BATCH, cases=BATCH))
        one.wait(lambda: len(one.ledger("published")) >= 4, "four published releases")
        one.wait(lambda: len(coordinator.codes) >= len(faults), "every planted fault")
        one.wait(lambda: not list(one.output().glob("public/groups/.*")), "an end of what was begun")
        codes = {coordinator.stop(), ingest.stop()}
        assert codes <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]

        folder = one.output() / "public" / "groups"
        manifests = [json.loads(path.read_text()) for path in sorted(folder.glob("release-*/manifest.json"))]
        assert {manifest["cases"] for manifest in manifests} == {"completed"}
        log = read_series(folder)
        assert len(log) == sum(manifest["counts"]["events"] for manifest in manifests)
        records = [read(path) for path in sorted((one.output() / "operator" / "groups").glob("*/variants.parquet"))]
        shown = [case for record in records for case in record.case_ids]
        assert len(shown) == len(set(shown)) == log["case:concept:name"].nunique()

        frames = {}
        for _, record in one.json("released-events"):
            if record["t"] == "events":
                frames[record["sequence"], record["first"]] = record["rows"]
        streamed = [tuple(map(str, row)) for rows in frames.values() for row in rows]
        assert len(streamed) == len(set(streamed)) == len(log)
        assert json.loads(one.command("verify", str(one.output()), "--json"))["holds"]
    finally:
        one.close()
