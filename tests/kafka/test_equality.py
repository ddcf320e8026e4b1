"""The output of the daemon is the result of an embedded fold of the same events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log, write_log
from stream.daemon.status import read_status
from stream.fold.fold import Fold
from stream.fold.rules import FoldRules
from stream.ledger.folder import read_key
from stream.run.log_source import log_facts, records_from_log
from stream.values.pseudonym import Pseudonyms
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.refold import Release, content, refold, released
from tests.kafka.scenario import Keeper
from tests.kafka.site import IDENTITY, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow, pytest.mark.logs]

CARRIED = {"sepsis": ("Diagnose",), "bpic2012-app": ("AMOUNT_REQ",)}
"""An attribute that leaves as it is: so the comparison sees the values of the cases too."""
ENDS = {"sepsis": ["Release A", "Release B"], "bpic2012-app": ["A_DECLINED", "A_CANCELLED"]}
CASES = {"sepsis": 1050, "bpic2012-app": 4000}
"""Sepsis whole, of BPIC 2012 the first 4,000 of 13,087 cases: seven minutes for the rest showed nothing more."""


def _publications(log: str, events: int) -> str:
    share = events // 4
    more = f"{IDENTITY}release_attributes = {list(CARRIED[log])}\n"
    windows = {
        "cases": f"{{ new_cases = {share // 15} }}",
        "completed": f"{{ completed_cases = {share // 20} }}",
        "events": f"{{ new_events = {share} }}",
        "exactly": f'{{ new_events = {share}, events_per_case = {{ x = 2, mode = "exactly" }} }}',
        "months": '{ every = "60d", time = "event" }',
        "upto": f'{{ new_events = {share}, events_per_case = {{ x = 3, mode = "up_to" }} }}',
    }
    return "".join(publication(name, window, more) for name, window in windows.items())


def _run(
    broker: Broker | ForeignBroker, name: str, folder: Path, log: str, file: Path, partitions: int, events: int
) -> Site:
    """Publish a log, let two ingest workers and a coordinator take it in, and stop them."""
    site = Site(
        broker.bootstrap,
        name,
        folder,
        _publications(log, events),
        process=f"completion = {{ end_activities = {ENDS[log]} }}\nattributes = {{ public = {list(CARRIED[log])} }}",
        partitions=partitions,
    )
    try:
        # A worker that took over a partition in a rebalance may end with 1, to read from its delta again.
        keepers = [Keeper(site, role) for role in ("ingest", "ingest", "coordinator")]
        site.command("publish", str(file), "-c", str(site.config))
        site.wait(lambda: site.covered() == events, "all events in the delta topic")
        position = site.json("delta")[-1][0]
        site.wait(lambda: _done(site, position), "the fold of all deltas")
        assert [keeper.stop() for keeper in keepers] == [0, 0, 0]
    finally:
        site.close()
    return site


def _done(site: Site, position: int) -> bool:
    status = read_status(site.output())
    return status is not None and status["position"] >= position


def _embedded(site: Site, file: Path, log: str, rules: FoldRules) -> Iterator[Release]:
    """The same publications over the file itself, as `replay` folds it."""
    from dataclasses import replace

    pseudonyms = Pseudonyms(read_key(site.output() / "operator" / "key"))
    events = read_log(file)
    fold = Fold(replace(rules, embedded=True, sources=()), log_facts(events))
    records = records_from_log(
        events,
        pseudonym=pseudonyms.case,
        attributes=CARRIED[log],
        key=pseudonyms.id,
        resource=pseudonyms.resource,
    )
    for position, record in records:
        for cut in fold.apply(position, record):
            yield Release(cut, content(fold.exposed(cut).log, CARRIED[log]))
            fold.decided(cut, released=True)


def _deltas(site: Site) -> list[tuple[int, bytes]]:
    return [(offset, value or b"") for _, offset, value in site.records(f"veilstream.{site.name}.delta")]


@pytest.mark.parametrize(("log", "partitions"), [("sepsis", 4), ("sepsis", 1), ("bpic2012-app", 4)])
def test_releases_equal_the_refold(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path, logs: Path, log: str, partitions: int
) -> None:
    """Every trigger gives exactly the cuts and the logs of a re-fold of the delta topic; event-time windows, and one
    partition, exactly those of the file."""
    read = read_log(logs / f"{log}.xes.gz")
    cases = read.select_cases(np.arange(CASES[log]))
    file = tmp_path / f"{log}.xes.gz"
    write_log(cases, file)
    site = _run(broker, name, tmp_path, log, file, partitions, cases.n_events)
    fold, expected = refold(_deltas(site), CARRIED[log])
    assert fold.accounting("cases")["seen"] == cases.n_events
    seals = [(entry["publication"], entry["cut"], entry["sequence"]) for entry in site.ledger("seal")]
    numbers: dict[str, int] = {}
    wanted = []
    for release in expected:
        numbers[release.cut.publication] = numbers.get(release.cut.publication, 0) + 1
        wanted.append((release.cut.publication, release.cut.id, numbers[release.cut.publication]))
    assert seals == wanted
    assert set(numbers) == {"cases", "completed", "events", "exactly", "months", "upto"}
    for one in numbers:
        mine = [release.content for release in expected if release.cut.publication == one]
        assert released(site.output(), one, CARRIED[log]) == mine, one
    embedded = list(_embedded(site, file, log, fold.rules))
    _compare_with_file(site, expected, embedded, partitions)


def _compare_with_file(site: Site, expected: list[Release], embedded: list[Release], partitions: int) -> None:
    latest: dict[tuple[str, int], int] = {}
    place: dict[tuple[int, int], int] = {}
    for offset, record in site.json("delta"):
        if record["t"] == "delta":
            key = (record["src"], record["p"])
            latest[key] = max(latest.get(key, 0), record["wm"] or 0)
            place.update(((offset, row), values[0]) for row, values in enumerate(record["rows"]))
    reached = min(latest.values())
    windows = [one for one in embedded if one.cut.publication == "months" and one.cut.window[1] <= reached]
    ours = [one for one in expected if one.cut.publication == "months"]
    assert [(one.cut.window, one.content) for one in ours] == [(one.cut.window, one.content) for one in windows]
    if partitions > 1:
        return
    for one in {release.cut.publication for release in expected} - {"months"}:
        from_kafka = [(r.cut.position, r.cut.row, r.content) for r in expected if r.cut.publication == one]
        from_file = [(r.cut.position, r.content) for r in embedded if r.cut.publication == one]
        assert [(place[position, row], bag) for position, row, bag in from_kafka] == from_file, one
