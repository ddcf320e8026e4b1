"""The long crash matrix (`make crash`): every boundary several times, both roles, pairs of faults, and planted bugs.

Not collected by a plain `pytest`: `python -m pytest tests/kafka/crash_matrix.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.bugs import BUGS
from tests.kafka.chaos import run as chaos
from tests.kafka.scenario import Keeper
from tests.kafka.site import PATIENCE
from tests.kafka.test_crashes import AnyBroker, run
from tests.patience import patient_time

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BOUNDARIES = ("opened", "charged", "built", "files_written", "sealed", "renamed", "published", "checkpoint")
INTAKE = (("taken", (1, 2, 4)), ("sent", (1, 2, 40)))
FAULTS = [
    *(([], [f"{point}:{number}"]) for point in BOUNDARIES for number in (1, 2, 4)),
    *(([f"{point}:{number}"], []) for point, numbers in INTAKE for number in numbers),
    (["sent:1", "taken:1"], ["sealed:1", "renamed:1"]),
    (["taken:1", "sent:5"], ["checkpoint:1", "checkpoint:1", "published:1"]),
]


@pytest.mark.parametrize(("ingest", "coordinator"), FAULTS, ids=lambda faults: "+".join(faults) or "-")
def test_fault(broker: AnyBroker, name: str, tmp_path: Path, ingest: list[str], coordinator: list[str]) -> None:
    """kill -9 at this point: the verifier finds nothing."""
    assert run(broker, name, tmp_path, ingest, coordinator) == []


WHERE = {
    "skip_high_water_mark": ("coordinator", "", "does not hold the events"),
    "acknowledge_before_durable": ("ingest", "", "lost: source event"),
    "acknowledge_early": ("ingest", "taken:1", "lost: source event"),
    "draw_again": ("coordinator", "sealed:1", "decisions"),
    "drop_dead_letters": ("ingest", "", "is not in the dlq"),
    "charge_late": ("coordinator", "", "before its charge"),
    "forget_charge": ("coordinator", "", "before its charge"),
    "rename_first": ("coordinator", "", "exist, the ledger sealed"),
    "cut_twice": ("coordinator", "", "nothing calls for"),
}


PLANTED = 2
"""The process has its bug at its first start and its second, after which it is restarted in health."""


LOSES = ("acknowledge_before_durable", "acknowledge_early")
"""A worker with such a bug loses all that it has taken when it dies, and has nothing to die of at its second start:
half of the events come after the first."""


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_planted_bug_is_caught(broker: AnyBroker, name: str, tmp_path: Path, bug: str) -> None:
    """With this bug in the daemon, the verifier names what went wrong."""
    role, fault, finding = WHERE[bug]
    one = scenario.site(broker.bootstrap, name, tmp_path)
    values = scenario.events(cases=20)
    planted = {role: f"bug {bug} {fault}".strip()}
    try:
        if bug == "skip_high_water_mark":
            _repeat(one, values)
        keepers = [Keeper(one, kind, [planted.get(kind, "")] * PLANTED) for kind in ("ingest", "coordinator")]
        first = len(values) // 2 if bug in LOSES else len(values)
        scenario.send(one, values[:first])
        deadline = patient_time() + PATIENCE
        while patient_time() < deadline and not _over(one, len(values), keepers, bug):
            if first < len(values) and keepers[0].codes:
                scenario.send(one, values[first:])
                first = len(values)
            time.sleep(2)
        for keeper in keepers:
            keeper.stop()
    finally:
        one.close()
    found = scenario.disagreements(one)
    assert any(finding in line for line in found), found


def _over(one: scenario.Site, sent: int, keepers: list[Keeper], bug: str) -> bool:
    """The scenario is settled, or the process died of its bug as often as it had it: what is lost never settles."""
    if bug in (*LOSES, "rename_first"):
        return any(len(keeper.codes) >= PLANTED for keeper in keepers)
    return scenario.settled(one, sent)


def _repeat(one: scenario.Site, values: list[bytes | None]) -> None:
    """The first events are in the delta topic already, as if their acknowledgement had been lost: too few for a
    cut, so that each release holds what comes twice."""
    scenario.send(one, values[: scenario.WINDOW - 1])
    deadline = patient_time() + PATIENCE
    while not one.json("delta") and patient_time() < deadline:  # killed before the broker had them: once more
        one.start("ingest", fault="sent:1").wait(PATIENCE)


IN_CHAOS = {
    "acknowledge_early": ("kill-ingest", "lost"),
    "cut_twice": ("kill-coordinator", "doubled"),
    "forget_charge": ("kill-coordinator", "under-counted"),
}


@pytest.mark.parametrize("bug", sorted(IN_CHAOS))
def test_chaos_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this bug in the daemon, `make chaos` ends with a finding of its kind."""
    kind, finding = IN_CHAOS[bug]
    monkeypatch.setattr(chaos, "HANG_SECONDS", 120.0)
    figures = chaos.run(18, [kind], seconds=240, most=12, rounds=[1], bug=bug)
    assert figures["verdict"] == "broken"
    assert finding in {one["kind"] for one in figures["findings"]}, figures
