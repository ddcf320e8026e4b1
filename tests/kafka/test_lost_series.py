"""A paid series that leaves the configuration of a daemon and comes back: its cases are not released a second time.

`tests/unit/test_door_lost_series.py` shows what would be released.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, PATIENCE, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

ONCE = """
cases = "completed"
mechanism = { kind = "dp-variants", epsilon = 40, delta_dp = 1e-2 }
audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }
gate = { max_epsilon = 40 }
"""
CASES = 20


def test_a_daemon_refuses_a_series_that_its_state_has_lost(
    broker: Broker | ForeignBroker, name: str, tmp_path: Path
) -> None:
    """A restart with the same configuration continues it; without the publication, the state follows; back, exit 2."""
    everything = publication("everything", f"{{ new_cases = {CASES} }}", f'audience = "others"\n{IDENTITY}')
    once = publication("once", '{ every = "4s", time = "wall" }', ONCE)
    process = 'completion = { end_activities = ["close"] }'
    one = Site(broker.bootstrap, name, tmp_path, everything + once, process=process)
    configured = one.config.read_text()

    def charges() -> int:
        return len(one.ledger("charge"))

    def seals(of: str) -> int:
        return sum(entry["publication"] == of for entry in one.ledger("seal"))

    def configurations() -> int:
        return sum(record["t"] == "config" for _, record in one.json("delta"))

    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        scenario.send(one, scenario.events(cases=CASES), partitions=1)
        one.wait(lambda: charges() >= 1, "a charge")
        assert one.stop(coordinator) == [0]
        coordinator = one.start("coordinator")
        n_charges = charges()
        one.wait(lambda: charges() > n_charges, "a charge after a restart")
        assert one.stop(coordinator) == [0]

        one.config.write_text(configured.replace(once, ""))
        coordinator = one.start("coordinator")
        one.wait(lambda: configurations() == 2, "the configuration without the series")
        one.wait(lambda: "left the configuration" in one.logs(), "the warning")
        scenario.send(one, scenario.events(first=CASES, cases=CASES), partitions=1)
        one.wait(lambda: seals("everything") == 2, "a cut of the other publication")
        assert one.stop(coordinator) == [0]

        one.config.write_text(configured)
        n_charges = charges()
        assert one.start("coordinator").wait(PATIENCE) == 2
        assert "'once': it has released before, and the configuration lacked it since" in one.logs()
        assert (configurations(), charges()) == (2, n_charges)
        one.config.write_text(configured.replace('name = "once"', 'name = "once-2"'))
        coordinator = one.start("coordinator")
        one.wait(lambda: configurations() == 3, "the configuration with a series of another name")
        assert one.stop(coordinator, ingest) == [0, 0]
    finally:
        one.close()
