"""Cohorts on random streams: TLKC for every union, nothing ever changed, and no attack leaves 1..K-1 cases."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize.cohorts import balanced
from models.attacks.correspondence import anonymity
from models.errors import BoundError
from models.eventlog import Column
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Exposure
from stream.release.mechanisms.cohorts import TlkcCohorts
from tests.conftest import random_inputs
from tests.oracles import publishing
from tests.oracles.tlkc import satisfies

STREAMS, LETTERS = max(random_inputs(30), 8), "abcd"


def publish(mechanism: TlkcCohorts, exposures: list[Exposure]) -> list[ReleaseRecord]:
    """The releases of a publication; cuts that have to wait give none."""
    memory: Any = None
    released: list[ReleaseRecord] = []
    for exposure in exposures:
        try:
            build = mechanism.build(exposure, memory)
        except BoundError:
            continue
        memory = build.memory
        released.append(publishing.record(build, exposure, len(released) + 1))
    return released


def series(seed: int, **parameters: Any) -> list[ReleaseRecord]:
    exposures = publishing.stream(np.random.default_rng(seed), 60, LETTERS, 6)
    return publish(TlkcCohorts(K=4, C=0.7, min_share=0.1, **parameters), exposures)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"alphabet": "common"}, {"suppression": "local", "effort": 1}, {"knowledge": "set"}, {"knowledge": "mult"}],
    ids=str,
)
def test_every_release_satisfies_tlkc_and_keeps_what_was_published(parameters: dict[str, Any]) -> None:
    """A union of cohorts is a TLKC log by the brute-force checker, and contains the release before unchanged."""
    found: Counter[int] = Counter()
    for seed in range(STREAMS):
        released = series(seed, **parameters)
        found[len(released)] += 1
        for one in released:
            values = one.log.case_values("S").decode()
            cases = list(zip(one.log.traces(), [{"S": value} for value in values], strict=True))
            assert satisfies(cases, parameters.get("knowledge", "seq"), 2, 4, Fraction("0.7"))
        for before, after in itertools.pairwise(released):
            assert publishing.traces(before).items() <= publishing.traces(after).items()
            assert len(before.log.case_ids) < len(after.log.case_ids)
    assert sum(count for releases, count in found.items() if releases > 1) >= STREAMS // 2


def test_no_attack_between_any_two_releases_leaves_fewer_than_k_cases() -> None:
    """True counts by definition, for bk up to L + n: 0 or at least K, for n = 0, 1."""
    pairs = 0
    streams = max(random_inputs(6), 3)
    for seed in range(streams):
        released = series(seed, **({}, {"suppression": "local", "effort": 1})[seed % 2])
        for later in range(1, len(released)):
            for earlier in range(later):
                pairs += 1
                for n in (0, 1):
                    for bk in publishing.knowledge(LETTERS, 2 + n):
                        if len(bk) > n:
                            counts = publishing.left(released[earlier], released[later], bk, n)
                            assert all(count == 0 or count >= 4 for count in counts), (seed, bk, n)
    assert pairs > 10 * streams / 6


def test_the_exact_attacker_confirms_it() -> None:
    """FA, CA and BA by the exact search, with the knowledge that L covers."""
    for seed in range(STREAMS):
        released = series(seed)
        for later in range(1, len(released)):
            for earlier in range(later):
                one = anonymity(released[earlier].simple(), released[later].simple(), bk_length=2, n=(0,))
                least = [one.results[0].values[name] for name in ("fa", "ca", "ba")]
                assert all(value is None or value >= 4 for value in least), (seed, earlier, later, least)


def test_cohorts_of_a_common_alphabet_show_the_same_items() -> None:
    """With alphabet = "common" no cohort shows an item that the first one did not."""
    for seed in range(STREAMS):
        released = series(seed, alphabet="common")
        for one in released[1:]:
            assert set(one.log.activity.values) <= set(released[0].log.activity.values)


def test_balance_holds_back_the_fewest_of_the_latest_cases() -> None:
    """Six of eight p at most half: four of the last p wait, and nothing else."""
    column = Column.encode(list("ppqpppqp"))
    everyone = np.ones(8, dtype=np.bool_)
    chosen = balanced(everyone, [column], Fraction(1, 2))
    assert chosen.tolist() == [True, True, True, False, False, False, True, False]
    assert balanced(everyone, [column], Fraction(3, 4)).all()
