"""The catalogue of faults: what each does, and what must come of it (DESIGN section 3).

A fault is a function of the world and its drawn numbers; it returns when the fault is over (healed), and the daemon
then has to come to rest by itself. `quiet` faults strike alone: an operator's hand is in them, or they damage what
does not change. `last` faults end a round: a topic is not what it was, so only the tally of the last release judges, or
the daemon has to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kafka import verifier
from tests.kafka.chaos import faults
from tests.kafka.chaos.kinds import CATALOGUE, WAITS, Draw, Finding
from tests.kafka.chaos.world import World

__all__ = ["CATALOGUE", "JUDGED_BY_REFUSAL", "WAITS", "Draw", "Finding", "faults", "former_events"]

JUDGED_BY_REFUSAL = {"delta-garbage", "ledger-garbage", "ledger-recreated"}
"""Kinds after which nothing continues: the judge requires that the daemon reports this."""


def former_events(world: World) -> list[dict[str, Any]]:
    """Return good events of the source topic, also of its deleted predecessors; each event has its own time."""
    good: dict[tuple[str, str], dict[str, Any]] = {}
    for records in (*world.former, list(world.site.records(world.site.topic))):
        for event in _good(records):
            good[event["case:concept:name"], event["time:timestamp"]] = event
    return list(good.values())


def _good(records: Sequence[tuple[int, int, bytes | None]]) -> list[dict[str, Any]]:
    class _Records:
        topic = ""

        def records(self, _topic: str) -> Sequence[tuple[int, int, bytes | None]]:
            return records

    return list(verifier.source_events(_Records())[0].values())
