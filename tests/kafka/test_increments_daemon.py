"""Series of new cases by a daemon, as increments or each case once: killed around the seal, nothing is shown twice.

`tests/replay/test_increments.py` kills at every boundary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream.ledger.release_record import read
from stream.release.failpoints import Failpoint
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import PATIENCE, Site, publication
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


@contextmanager
def killed_around_the_seal(
    broker: AnyBroker, name: str, folder: Path, more: str, *, batches: int, releases: int
) -> Iterator[Site]:
    """A daemon that dies around three seals of `groups`, and runs until some releases are published."""
    table = publication("groups", f"{{ new_cases = {BATCH} }}", more)
    completion = 'completion = { end_activities = ["close"] }'
    one = Site(broker.bootstrap, name, folder, table, process=completion, partitions=2)
    around_the_seal = (Failpoint.FILES_WRITTEN, Failpoint.SEALED, Failpoint.PUBLISHED)
    faults = [f"{boundary}:1" for boundary in around_the_seal]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        for batch in range(batches):
            scenario.send(one, scenario.events(first=batch * BATCH, cases=BATCH))
        one.wait(lambda: len(one.ledger("published")) >= releases, f"{releases} published releases")
        one.wait(lambda: len(coordinator.codes) >= len(faults), "every planted fault")
        one.wait(lambda: not list(one.output().glob("public/groups/.*")), "an end of what was begun")
        codes = {coordinator.stop(), ingest.stop()}
        assert codes <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]
        yield one
        assert json.loads(one.command("verify", str(one.output()), "--json"))["holds"]
    finally:
        one.close()


def manifests_of(one: Site) -> list[dict[str, Any]]:
    """The manifests of its releases, in order."""
    paths = sorted((one.output() / "public" / "groups").glob("release-*/manifest.json"))
    return [json.loads(path.read_text()) for path in paths]


def streamed(one: Site) -> list[tuple[str, ...]]:
    """The events on `released-events`; a release that was announced twice counts once."""
    frames = {}
    for _, record in one.json("released-events"):
        if record["t"] == "events":
            frames[record["sequence"], record["first"]] = record["rows"]
    return [tuple(map(str, row)) for rows in frames.values() for row in rows]


def test_a_daemon_killed_around_the_seal_continues_a_set(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Each event of the series is in one file and on `released-events` once; the manifests name one set."""
    with killed_around_the_seal(broker, name, tmp_path, GROUPS, batches=5, releases=3) as one:
        manifests = manifests_of(one)
        numbers = [manifest["sequence"] for manifest in manifests]
        newest = manifests[-1]
        assert {manifest["increment"]["first"] for manifest in manifests} == {numbers[0]}
        assert [member["sequence"] for member in newest["increment"]["earlier"]] == numbers[:-1]
        assert 0 < newest["increment"]["new"]["cases"] < newest["counts"]["cases"]
        assert len(read_series(one.output() / "public" / "groups")) == newest["counts"]["events"]
        events = streamed(one)
        assert len(events) == len(set(events)) == newest["counts"]["events"]


ONCE = GROUPS.replace('release = "increment"', 'cases = "completed"')


def test_a_daemon_killed_around_the_seal_shows_each_case_once(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Another thread decides cuts while records are folded: no case or event is released twice."""
    with killed_around_the_seal(broker, name, tmp_path, ONCE, batches=6, releases=4) as one:
        manifests = manifests_of(one)
        assert {manifest["cases"] for manifest in manifests} == {"completed"}
        log = read_series(one.output() / "public" / "groups")
        assert len(log) == sum(manifest["counts"]["events"] for manifest in manifests)
        records = [read(path) for path in sorted((one.output() / "operator" / "groups").glob("*/variants.parquet"))]
        shown = [case for record in records for case in record.case_ids]
        assert len(shown) == len(set(shown)) == log["case:concept:name"].nunique()
        events = streamed(one)
        assert len(events) == len(set(events)) == len(log)
        # A start with another value of `cases` ends before it is recorded: the state would follow it.
        one.config.write_text(one.config.read_text().replace('cases = "completed"\n', ""))
        assert one.start("coordinator").wait(PATIENCE) == 2
        assert "with another value the state would lose cases of the series" in one.logs()
