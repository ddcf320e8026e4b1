"""Repair on random streams: what leaves holds its bounds by brute force; what cannot is withheld, with reasons."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, cast

import numpy as np

from models.errors import BoundError
from stream.ledger.release_record import ReleaseRecord
from stream.release import gate, repair
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.contract import AuditContext, Build, Exposure
from stream.release.gate import GatePolicy
from stream.release.mechanisms.tlkc import Tlkc
from stream.release.stages import Audited, Built, Charged
from tests.conftest import random_inputs
from tests.oracles import publishing

STREAMS, LETTERS, K = random_inputs(200), "abc", 3
POLICY = GatePolicy(min_ka=K, min_fa=K, min_ca=K, min_ba=K, on_violation="repair")
CHARGED: Charged = cast(Charged, None)  # the search does not look at how an attempt began
MECHANISM = Tlkc(K=K, C=1.0, L=2)
MECHANISMS = (
    MECHANISM,
    Tlkc(K=K, C=1.0, L=2, repair_by="items"),
    Tlkc(K=K, C=1.0, L=2, suppression="local"),
)


def judge(build: Build, exposure: Exposure, earlier: list[ReleaseRecord], audit: CorrespondenceAudit) -> Audited:
    candidate = publishing.record(build, exposure, len(earlier) + 1)
    context = AuditContext(candidate, earlier, build, exposure, MECHANISM, (), {})
    results = {"anonymity": dict(audit.measure(context, {})), "n_actual": build.n_actual}
    built = Built(CHARGED, build, {})
    return Audited(built, candidate, results, gate.after_audit(POLICY, results), {})


def decide(
    mechanism: Tlkc, exposure: Exposure, earlier: list[ReleaseRecord], audit: CorrespondenceAudit
) -> tuple[str, ReleaseRecord | None]:
    """One cut's way, without files: passed, repaired or withheld."""
    try:
        first = judge(mechanism.build(exposure), exposure, earlier, audit)
    except BoundError:
        return "withheld", None
    if not first.reasons:
        return "passed", _kept(first)
    last = repair.walk(
        first, mechanism, exposure, POLICY, audit, earlier, lambda build: judge(build, exposure, earlier, audit)
    )
    if last.reasons:
        return "withheld", None
    assert last.build.public["repair"]["events"] == first.build.log.n_events - last.build.log.n_events
    return "repaired", _kept(last)


def _kept(judged: Audited) -> ReleaseRecord:
    """The release as later audits read it."""
    judged.record.audit = judged.measures
    return judged.record


def holds(earlier: ReleaseRecord, later: ReleaseRecord, ns: tuple[int, ...]) -> bool:
    """FA*, CA*, BA* by counting: 0 or at least K, for all background knowledge of up to 2 items."""
    return all(
        count == 0 or count >= K
        for n, bk in itertools.product(ns, publishing.knowledge(LETTERS, 2))
        for count in publishing.left(earlier, later, bk, n)
    )


def run(seed: int, ns: tuple[int, ...], found: Counter[str]) -> None:
    audit = CorrespondenceAudit(bk_length=2, n=ns)
    earlier: list[ReleaseRecord] = []
    for exposure in publishing.stream(np.random.default_rng(seed), 20, LETTERS, 3):
        decision, record = decide(MECHANISMS[seed // 2 % 3], exposure, earlier, audit)
        found[decision] += 1
        if record is not None:
            assert all(holds(one, record, ns) for one in earlier), (seed, ns)
            earlier.append(record)


def test_repair_reaches_its_bounds_or_withholds() -> None:
    """Never a release below a bound, and all three outcomes happen."""
    found: Counter[str] = Counter()
    for seed in range(STREAMS):
        run(seed, ((0,), (0, 1))[seed % 2], found)
    assert min(found["passed"], found["repaired"], found["withheld"]) >= STREAMS // 10, found


def test_the_cover_alone_is_enough_for_n_zero() -> None:
    """With n = 0 the first try passes: no greedy round is needed (one item at a time would cost more)."""
    rounds: list[Any] = []
    audit = CorrespondenceAudit(bk_length=2, n=(0,))
    for seed in range(15):
        earlier: list[ReleaseRecord] = []
        for exposure in publishing.stream(np.random.default_rng(seed), 40, LETTERS, 4):
            try:
                first = judge(MECHANISM.build(exposure), exposure, earlier, audit)
                build = MECHANISM.repair(exposure, repair.shown(earlier), repair.targets(POLICY, audit, earlier), ())
            except BoundError:
                continue
            again = judge(build, exposure, earlier, audit)
            if first.reasons:
                rounds.append(again.reasons)
            if not again.reasons:
                earlier.append(again.record)
                earlier[-1].audit = again.measures
    assert len(rounds) > 5
    assert not any(rounds)
