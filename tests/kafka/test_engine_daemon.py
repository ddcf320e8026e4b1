"""A daemon whose releases an engine builds: killed and stopped on its way, it releases what a build in memory does.

`tests/replay/test_engine_replay.py` has the same for a replay, and more mechanisms.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Config
from stream.fold.rules import FoldRules
from stream.run.service import ReleaseService
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.refold import released
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

BATCH = 20
"""Cases that are sent together. Each batch has the new cases of one cut."""
KEY = f'key = "{"ab" * 32}"\n'
"""Of pseudonyms: both builds name cases alike."""
ENGINE = '[engine]\nkind = "duckdb"\nmemory = "256MB"\n'
GROUPS = (
    'mechanism = { kind = "tlkc", knowledge = "seq", attribute = "ac", L = 2, K = 3, suppression = "exact" }\n'
    "audit = { bk_length = 1, n = [0], risk = false, utility = false }\n"
)


def test_a_daemon_with_an_engine_releases_what_memory_does(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """kill -9 behind the first build and behind the second seal, then a stop and a start before the last events."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    table = publication("groups", f"{{ new_cases = {BATCH} }}", GROUPS)
    one = Site(broker.bootstrap, name, tmp_path, table, partitions=2, top=KEY + ENGINE)
    faults = ["built:1", "sealed:1"]
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        for batch in range(2):
            scenario.send(one, scenario.events(first=batch * BATCH, cases=BATCH))
        one.wait(lambda: len(one.ledger("published")) >= 2, "two published releases")
        one.wait(lambda: coordinator.struck, "every planted fault")
        assert {coordinator.stop(), ingest.stop()} <= {0, -15}, one.logs()[-4000:]
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]

        scenario.send(one, scenario.events(first=2 * BATCH, cases=BATCH))
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator")
        one.wait(lambda: len(one.ledger("published")) >= 3, "a published release after the restart")
        assert {coordinator.stop(), ingest.stop()} <= {0, -15}, one.logs()[-4000:]

        seals = one.ledger("seal")
        assert all(seal["body"].get("plan") for seal in seals), "a release that the engine did not build"
        left = [path.name for path in (one.output() / "operator").iterdir() if path.name.startswith(".cut-")]
        assert not left, "working files of a killed build"
        cuts = _built_in_memory(one, tmp_path / "memory")
        assert [seal["cut"] for seal in seals] == cuts
        from_engine, in_memory = released(one.output(), "groups", ()), released(tmp_path / "memory", "groups", ())
        assert len(from_engine) >= 3
        assert from_engine == in_memory
        assert json.loads(one.command("verify", str(one.output()), "--json"))["holds"]
    finally:
        one.close()


def _built_in_memory(one: Site, output: Path) -> list[str]:
    """Release the recorded deltas without an engine; return the names of the cuts that left."""
    path = output.with_suffix(".toml")
    path.write_text(one.config.read_text().replace(ENGINE, ""))
    records = []
    for _, offset, value in one.records(f"veilstream.{one.name}.delta"):
        records.append((offset, msgspec.json.decode(value or b"", type=AnyRecord)))
    rules = next(record.body for _, record in records if isinstance(record, Config))
    cuts = []
    with closing(ReleaseService(sources.load(path), output)) as service:
        fold = Fold(FoldRules.from_mapping(rules))
        for offset, record in records:
            cuts.extend(cut.id for cut in fold.apply(offset, record) if service.decide(fold, cut).status == "sealed")
    return cuts
