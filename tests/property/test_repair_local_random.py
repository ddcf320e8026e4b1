"""Repair that hides case by case with `local`: random series, attacked and counted by a program of its own."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.contract import Exposure
from stream.release.mechanisms.tlkc import Tlkc
from tests.conftest import random_inputs
from tests.oracles import publishing
from tests.oracles.series import Release, largest_share, matches, smallest
from tests.property.test_default_series import NOTHING_ELSE, changed, defaults, releases, stream
from tests.property.test_repair_random import decide

K, C, STREAMS = 3, 0.7, random_inputs(100)
LOCAL = Tlkc(K=K, C=C, L=2, suppression="local")
EXACT = Tlkc(K=K, C=C, L=2)


Released = tuple[Exposure, ReleaseRecord, str]


def series(mechanism: Tlkc, seed: int, ns: tuple[int, ...]) -> tuple[list[Released], int]:
    """The releases of a random stream of 30 cases of one to five events in five cuts, each with whether it was
    repaired; and how many cuts were withheld."""
    audit, out, withheld = CorrespondenceAudit(bk_length=2, n=ns), list[Released](), 0
    for exposure in publishing.stream(np.random.default_rng(seed), 30, "abcd", 5):
        decision, record = decide(mechanism, exposure, [one for _, one, _ in out], audit)
        if record is None:
            withheld += 1
        else:
            out.append((exposure, record, decision))
    return out, withheld


def traces(record: ReleaseRecord) -> Release:
    return publishing.traces(record)


def test_what_leaves_withstands_all_attacks_and_bounds_values() -> None:
    """No pair of releases leaves 1..K-1 cases to anybody who knows two activities; in each release none or at least K
    cases match, in order or in any, and no value has more than C of them. All outcomes happen."""
    found: Counter[str] = Counter()
    for seed in range(STREAMS):
        n = seed % 2
        releases, withheld = series(LOCAL, seed, (0, 1)[: n + 1])
        found += Counter({"withheld": withheld, **Counter(decision for *_, decision in releases)})
        known = [traces(record) for _, record, _ in releases]
        for missing in range(n + 1):
            left = smallest(known, 2, missing)
            assert all(value is None or value >= K for value in left.values()), (seed, missing, left)
        for exposure, record, _ in releases:
            values = dict(zip(exposure.log.case_ids, exposure.log.case_values("S").decode(), strict=True))
            assert largest_share(traces(record), values, 2) <= C + 1e-9, seed
    assert min(found["passed"], found["repaired"], found["withheld"]) >= STREAMS // 10, found


def test_single_cases_lose_events_and_not_everybody() -> None:
    """Over the series, more leaves than where whole items go, and more series are shortened case by case."""
    events: Counter[str] = Counter()
    some = 0
    seeds = range(0, STREAMS, 3)
    for seed in seeds:
        for name, mechanism in (("local", LOCAL), ("exact", EXACT)):
            releases, _ = series(mechanism, seed, (0,))
            events[name] += sum(record.log.n_events for _, record, _ in releases)
            if name == "local" and releases:
                exposure, record, _ = releases[-1]
                source = dict(zip(exposure.log.case_ids, exposure.log.traces(), strict=True))
                lost = Counter(item for trace in source.values() for item in trace)
                lost.subtract(item for trace in traces(record).values() for item in trace)
                shown = {item for trace in traces(record).values() for item in trace}
                some += any(lost[item] for item in shown)
                assert all(matches(source[case], trace, 0) for case, trace in traces(record).items())
    assert events["local"] > events["exact"], events
    assert some / len(seeds) > 0.55


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_what_was_shown_of_a_case_stays_but_for_items_that_go_everywhere(seed: int) -> None:
    """A repaired release hides nothing of what the one before it showed: a record keeps its partner. (One that passes
    by itself may; there the audit alone decides.)"""
    releases, _ = series(LOCAL, seed, (0,))
    for (_, earlier, _), (_, later, decision) in pairwise(releases):
        if decision != "repaired":
            continue
        after = traces(later)
        shown = {item for trace in after.values() for item in trace}
        for case, trace in traces(earlier).items():
            kept = tuple(item for item in trace if item in shown)
            assert not kept or matches(after[case], kept, 0), (seed, case)


def test_a_replay_of_repaired_releases_withstands_the_same(tmp_path: Path) -> None:
    """The whole program at K = 20, attacked from its public files; some releases are repaired, by `local`."""
    repaired = 0
    for seed in range(0, 24, 3):
        log = stream(seed)
        settings = defaults(log, "S")
        (publication,) = settings.publication
        mechanism = {**publication.mechanism, "kind": "tlkc", "C": 0.6}
        mechanism.pop("bins", None)
        gate = {**publication.gate.bounds, "on_violation": "repair"}
        gate.pop("max_minimality")  # nothing measures it of a repair, so that none would leave
        audit = {**publication.audit, **NOTHING_ELSE}
        folder = tmp_path / str(seed)
        known, values = releases(changed(settings, mechanism=mechanism, gate=gate, audit=audit), log, folder)
        if known:
            found = [smallest(known, 2, n) for n in (0, 1)]
            assert all(value is None or value >= 20 for one in found for value in one.values()), (seed, found)
            assert largest_share(known[-1], values, 2) <= 0.6 + 1e-9
        for manifest in sorted(folder.glob("public/research/release-*/manifest.json")):
            repair = json.loads(manifest.read_text())["mechanism"].get("repair")
            repaired += bool(repair) and repair["suppression"] == "local"
    assert repaired >= 3
