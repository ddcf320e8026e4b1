"""kill -9 of a daemon whose publication counts each case once: with a person's cap, and with an accumulated log."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import NoEventsError
from stream.ledger.entries import ChargeEntry
from stream.ledger.sqlite import open_readonly, read_view
from stream.operator.verify import verify
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication
from tests.kafka.test_crashes import AnyBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

PERSONS = 24
ONCE = """
cases = "completed"
accumulate = "sum"
publish_after = "60s"
mechanism = { kind = "dp-variants", epsilon = 40, delta_dp = 1e-2 }
audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }
gate = { max_epsilon = 40 }
"""
"""So little noise that counts are true (it is 0 but for one draw in e^40); one charge is the whole budget. A build that
takes longer than publish_after is withheld, and its cases are lost. Three kills in a row hit the first cut, and with
twice as many processes as cores each restart took up to seven seconds: a minute is long enough for a busy machine."""
PROCESS = 'completion = { end_activities = ["close"] }\nattributes = { person = ["customer"] }'
BOUNDARIES = ["charged", "files_written", "sealed", "renamed", "checkpoint"]


def events(round_: int) -> list[bytes | None]:
    """A case of every person, completed."""
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=round_)
    rows = []
    for step, activity in enumerate(("open", "close")):
        for person in range(PERSONS):
            body = {
                "case:concept:name": f"case-{round_}-{person}",
                "concept:name": activity,
                "time:timestamp": (start + timedelta(minutes=person, hours=step)).isoformat(),
                "customer": f"someone-{person}",
            }
            rows.append(json.dumps(body).encode())
    return list(rows)


def counts(path: Path) -> Counter[tuple[str, ...]]:
    """Cases by variant of a released file."""
    try:
        return Counter(tuple(map(str, trace)) for trace in read_log(path).traces())
    except NoEventsError:
        return Counter()


def folders(one: Site) -> list[Path]:
    """The releases that are visible, in order of their numbers."""
    return sorted((one.output() / "public" / "weekly").glob("release-*"))


def charged(one: Site) -> list[ChargeEntry]:
    entries = open_readonly(one.output() / "operator" / "ledger.sqlite")
    return [entry for entry in entries if isinstance(entry, ChargeEntry)]


def all_in(one: Site) -> bool:
    """Whether the accumulated log shows as many cases as there are persons."""
    found = folders(one)
    path = found[-1] / "accumulated.xes.gz" if found else None
    return path is not None and path.exists() and counts(path).total() >= PERSONS


def test_each_case_leaves_once_and_is_paid_once_through_kills(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """kill -9 of the coordinator after charge, files, seal, rename and checkpoint, while two cases of each person
    arrive. The releases together hold one case a person, no more (the cap) and no fewer; the last accumulated log says
    the same; all draws together cost one charge; `verify` finds nothing; no name of a
    person is in the ledger."""
    one = Site(
        broker.bootstrap,
        name,
        tmp_path,
        publication("weekly", '{ every = "3s", time = "wall" }', ONCE),
        process=PROCESS,
    )
    try:
        keepers = [Keeper(one, "ingest"), Keeper(one, "coordinator", BOUNDARIES)]
        for number in range(2):
            one.send(events(number), 0)
            time.sleep(4)
        one.wait(lambda: keepers[1].struck, "every boundary")
        one.wait(lambda: all_in(one), "all cases in the accumulated log")
        before = len(folders(one))
        one.wait(lambda: len(folders(one)) > before, "one release more")
        codes = [keeper.stop() for keeper in keepers]
        assert {*codes} <= {0, -15}, one.logs()[-4000:]
        assert keepers[1].codes[:-1] == [-9] * len(BOUNDARIES), one.logs()[-4000:]
    finally:
        one.close()
    _holds(one)


def _holds(one: Site) -> None:
    found = folders(one)
    together = sum((counts(path / "log.xes.gz") for path in found), Counter[tuple[str, ...]]())
    accumulated = counts(found[-1] / "accumulated.xes.gz")
    burned = [e for e in open_readonly(one.output() / "operator" / "ledger.sqlite") if e.kind == "burned"]
    assert burned == []
    assert together == accumulated == Counter({("open", "close"): PERSONS})
    account = read_view(one.output() / "operator" / "ledger.sqlite", one.name).account("weekly")
    assert account.spending.summed.epsilon == 40
    assert len({(entry.cut, entry.body.redraw) for entry in charged(one)}) == len(charged(one)) >= len(found)
    promised: dict[str, Any] = json.loads((found[-1] / "manifest.json").read_text())["promise"]
    assert "accumulated" in promised["guaranteed"]
    assert "every person that the source names" in promised["to_whom"]
    assert verify(one.output()).problems == []
    assert b"someone-" not in (one.output() / "operator" / "ledger.sqlite").read_bytes()
