"""The archive of a daemon: killed around its segments, each event is in the state or in the archive once.

`tests/replay/test_archive.py` kills a replay, `tests/property/test_archive_random.py` tries sizes and erasures.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from connectors import read_log
from stream.config import sources
from stream.ledger.folder import read_key
from stream.run.service import archive_of
from stream.values.pseudonym import Pseudonyms
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
BATCH = 20
"""Cases that are sent together."""
ONCE = """
cases = "completed"
mechanism = { kind = "dp-variants", epsilon = 40, delta_dp = 1e-2 }
audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }
gate = { max_epsilon = 40 }
"""
PROCESS = 'completion = { end_activities = ["close"] }\narchive = "for ever"'


def test_a_daemon_killed_around_segments_loses_and_doubles_no_event(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """kill -9 behind a first and a second segment, and behind the checkpoint; then an erasure that reaches them."""
    table = publication("once", '{ every = "8s", time = "wall" }', ONCE)
    key = f'checkpoint_key = "{"ab" * 32}"'
    one = Site(broker.bootstrap, name, tmp_path, table, process=PROCESS, partitions=2, top=key)
    faults = ["archived:1", "archived:1", "checkpoint:3"]
    sent: list[bytes | None] = []
    settings = sources.load(one.config)
    archive = archive_of(settings, one.output(), None)
    try:
        ingest, coordinator = Keeper(one, "ingest"), Keeper(one, "coordinator", faults)
        for batch in range(4):
            events = scenario.events(first=batch * BATCH, cases=BATCH)
            sent += [event for event in events if event is not None and b"case:concept:name" in event]
            scenario.send(one, events)
            n_cases = (batch + 1) * BATCH
            one.wait(lambda n=n_cases: _archived_cases(archive) >= n, f"an archive of {n_cases} cases")  # type: ignore[misc]
        one.wait(lambda: coordinator.struck, "every planted fault")
        pseudonyms = Pseudonyms(read_key(one.output() / "operator" / "key"))
        assert _held(one, tmp_path / "before.parquet") == _source(sent, pseudonyms)

        one.command("erase", "-c", str(one.config), "-o", str(one.output()), stdin="case-3\n")
        erased = pseudonyms.case("case-3")
        one.wait(lambda: len(one.ledger("erased")) >= 1, "the erasure in the ledger")
        assert one.ledger("erased")[0]["body"]["archived_events"] == scenario.LENGTH
        one.wait(lambda: not _has(archive, erased), "an archive without the erased case")
        codes = {coordinator.stop(), ingest.stop()}
        assert codes <= {0, -15}, one.logs()[-4000:]  # -15: stopped before it had begun
        assert coordinator.codes[:-1] == [-9] * len(faults), one.logs()[-4000:]

        remaining = Counter({row: n for row, n in _source(sent, pseudonyms).items() if row[0] != erased})
        assert _held(one, tmp_path / "after.parquet") == remaining
        for path in (one.output() / "operator").rglob("*"):
            assert not path.is_file() or erased.encode() not in path.read_bytes()
        assert json.loads(one.command("verify", str(one.output()), "-c", str(one.config), "--json"))["holds"]
    finally:
        one.close()


def _archived_cases(archive: object) -> int:
    return len(_cases(archive))


def _has(archive: object, pseudonym: str) -> bool:
    return pseudonym in _cases(archive)


def _cases(archive: object) -> set[str]:
    """Cases in the archive of a daemon that runs: a segment may be removed while they are read."""
    found: set[str] = set()
    for table in archive.read(until=1 << 40):  # type: ignore[attr-defined]
        found.update(table.column("case").to_pylist())
    return found


def _held(one: Site, path: Path) -> Counter[tuple[str, str, int]]:
    """Events that `veilstream archive` writes."""
    one.command("archive", str(one.output()), "-c", str(one.config), "-o", str(path))
    log = read_log(path)
    cases = [log.case_ids[case] for case in log.case_of_event.tolist()]
    return Counter(zip(cases, log.activity.decode(), log.time.tolist(), strict=True))


def _source(sent: list[bytes | None], pseudonyms: Pseudonyms) -> Counter[tuple[str, str, int]]:
    """Events that were sent and are valid."""
    rows: Counter[tuple[str, str, int]] = Counter()
    for event in sent:
        body = json.loads(event or b"null")
        moment = datetime.fromisoformat(body["time:timestamp"])
        rows[pseudonyms.case(body["case:concept:name"]), body["concept:name"], int(moment.timestamp()) * 10**9] += 1
    return rows
