"""Divided queues on random streams: each cohort satisfies TLKC on its own, and no attack leaves 1..K-1 cases."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.errors import BoundError
from stream.ledger.release_record import ReleaseRecord
from stream.release.mechanisms.cohorts import TlkcCohorts
from tests.conftest import random_inputs
from tests.oracles import publishing
from tests.oracles.tlkc import satisfies

K, STREAMS, LETTERS = 4, max(random_inputs(8), 4), "abcd"


def series(seed: int, **parameters: Any) -> tuple[list[ReleaseRecord], int]:
    """The releases of a stream, and how many cases waited by choice: others of their cut left."""
    mechanism = TlkcCohorts(**{"K": K, "C": 0.7, "suppression": "local", "effort": 1, **parameters})
    memory, released, waited = None, list[ReleaseRecord](), 0
    for exposure in publishing.stream(np.random.default_rng(seed), 80, LETTERS, 6):
        try:
            build = mechanism.build(exposure, memory)
        except BoundError:
            continue
        memory = build.memory
        waited += sum(1 for releases in memory["waiting"].values() if releases)
        released.append(publishing.record(build, exposure, len(released) + 1))
    return released, waited


@pytest.mark.parametrize("knowledge", ["seq", "set", "mult"])
def test_each_cohort_satisfies_tlkc_on_its_own_and_stays(knowledge: str) -> None:
    """By the brute-force checker, on what is new in each release; what is out is there again, unchanged."""
    cohorts = waiting = 0
    for seed in range(STREAMS):
        released, waited = series(seed, knowledge=knowledge)
        waiting += waited
        out: dict[str, tuple[str, ...]] = {}
        for one in released:
            now = publishing.traces(one)
            assert out.items() <= now.items()
            values = dict(zip(one.log.case_ids, one.log.case_values("S").decode(), strict=True))
            fresh = [(trace, {"S": values[name]}) for name, trace in now.items() if name not in out]
            assert len(fresh) >= K
            assert satisfies(fresh, knowledge, 2, K, Fraction("0.7"))
            out, cohorts = now, cohorts + 1
    assert cohorts > STREAMS
    assert waiting > STREAMS


def test_no_attack_between_any_two_releases_leaves_fewer_than_k_cases() -> None:
    """Counted by definition, for every bk up to L + n, n = 0, 1, over all pairs of releases: 0 or at least K."""
    pairs = 0
    streams = max(random_inputs(6), 2)
    for seed in range(streams):
        released, _ = series(seed)
        for earlier, later in itertools.combinations(released, 2):
            pairs += 1
            for n in (0, 1):
                for bk in publishing.knowledge(LETTERS, 2 + n):
                    if len(bk) > n:
                        counts = publishing.left(earlier, later, bk, n)
                        assert all(count == 0 or count >= K for count in counts), (seed, bk, n)
    assert pairs > 15 * streams / 6


def test_waiting_keeps_more_than_leaving_at_once() -> None:
    """Summed over the streams, at the last release; each stream alone may lose by it."""
    kept: Counter[int] = Counter()
    for seed in range(STREAMS):
        for patience in (0, 4):
            released, _ = series(seed, patience=patience)
            kept[patience] += released[-1].log.n_events if released else 0
    assert kept[4] > kept[0]
