"""Ten faults of a seeded schedule on a daemon of two hosts, and that their judge can say no. `make chaos` runs more."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from tests.kafka.broker import classpath
from tests.kafka.chaos import judge
from tests.kafka.chaos.catalogue import CATALOGUE, WAITS
from tests.kafka.chaos.run import run
from tests.kafka.chaos.schedule import PLACES, allowed, strikes
from tests.kafka.chaos.world import Witness, World

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

SEED, FAULTS = 18, 10

Spoil = Callable[[list[dict[str, Any]], list[dict[str, Any]]], None]


def _forget_a_charge(_deltas: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> None:
    """Of a cut that was sealed, and however often it was charged: a crash leaves charges that no release used."""
    sealed = {entry["cut"] for entry in ledger if entry["kind"] == "seal"}
    cut = next(entry["cut"] for entry in ledger if entry["kind"] == "charge" and entry["cut"] in sealed)
    ledger[:] = [entry for entry in ledger if entry["kind"] != "charge" or entry["cut"] != cut]


def _lose_an_event(deltas: list[dict[str, Any]], _ledger: list[dict[str, Any]]) -> None:
    next(delta for delta in deltas if delta["t"] == "delta" and delta["rows"])["rows"].pop()


def _release_a_cut_twice(_deltas: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> None:
    seals = [entry for entry in ledger if entry["kind"] == "seal" and entry["publication"] == "plain"]
    ledger.append({**seals[0], "sequence": max(one["sequence"] for one in seals) + 1})


def _charge_more_than_the_manifest_states(_deltas: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> None:
    charge = next(entry for entry in ledger if entry["kind"] == "charge")
    ledger.insert(0, {**charge, "cut": "another", "body": {**charge["body"], "epsilon": "1"}})


SPOILS: dict[str, tuple[Spoil, str]] = {
    "a charge is forgotten": (_forget_a_charge, "under-counted"),
    "an event is lost": (_lose_an_event, "lost"),
    "a cut is released twice": (_release_a_cut_twice, "doubled"),
    "a charge is not in what a release says": (_charge_more_than_the_manifest_states, "under-counted"),
}


def _spoiled(site: Witness, spoil: Spoil) -> list[str]:
    """Return the findings of the judge if the topics hold something else."""
    names = [f"veilstream.{site.name}.{kind}" for kind in ("delta", "ledger")]
    kept = {name: (list(site._seen[name]), list(site._decoded[name])) for name in names}
    bodies = [[json.loads(value or b"null") for _, _, value in kept[name][0]] for name in names]
    spoil(*bodies)
    for name, records in zip(names, bodies, strict=True):
        site._seen[name] = [(0, number, json.dumps(body).encode()) for number, body in enumerate(records)]
        site._decoded[name] = []
    try:
        return judge.disagreements(site)
    finally:
        for name in names:
            site._seen[name], site._decoded[name] = kept[name]


def test_ten_seeded_faults_lose_nothing_and_their_judge_can_say_no() -> None:
    """Random faults of the catalogue: nothing lost, doubled, under-counted or hung, however long it takes. The results
    of the run are then damaged in four ways, and the judge reports each."""
    classpath()  # skips if there is no Java
    said: dict[str, set[str]] = {}

    def look(world: World) -> None:
        before = {*judge.disagreements(world.site)}  # the release that was ordered at the end is not a cut of a window
        for name, (spoil, _) in SPOILS.items():
            said[name] = {judge.kind_of(line) for line in {*_spoiled(world.site, spoil)} - before}

    figures = run(SEED, allowed(), seconds=inf, most=FAULTS, rounds=[1], look=look)
    assert figures["findings"] == []
    assert figures["verdict"] == "sound"
    assert figures["struck"] >= FAULTS - 1  # one may find that another has taken away what it needs
    assert figures["events"]["folded"] + figures["events"]["dlq"] == figures["events"]["produced"] > 0
    assert figures["releases"] > 0
    for name, (_, kind) in SPOILS.items():
        assert kind in said[name], (name, said[name])


def test_a_seed_gives_the_same_schedule_and_another_one_gives_another() -> None:
    """A run can be repeated from its output."""
    kinds = allowed()
    first, again = ([list(strikes(seed, 3, kinds))] for seed in (SEED, SEED))
    assert first == again
    assert list(strikes(SEED + 1, 3, kinds)) != first[0]
    assert list(strikes(SEED, 4, kinds)) != first[0]


def test_every_kind_says_what_must_come_of_it_and_each_can_be_drawn() -> None:
    """Each entry has an outcome and a place in the schedule; what waits for a mend is drawn only when asked for."""
    assert WAITS.keys() <= CATALOGUE.keys()
    assert all(kind.outcome and kind.place in PLACES for kind in CATALOGUE.values())
    asked = allowed(also=["waiting"])
    drawn = {fault.kind for number in range(60) for faults in strikes(SEED, number, asked) for fault in faults}
    assert drawn == CATALOGUE.keys()
    assert {fault.kind for number in range(60) for faults in strikes(SEED, number, allowed()) for fault in faults} == (
        CATALOGUE.keys() - WAITS.keys()
    )
