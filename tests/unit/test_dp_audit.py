"""The auditor: strict mechanisms stay below their claim, planted bugs do not, Amun is unbounded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from models.dp import amun, audit, counts, noise, strict
from models.dp.neighbours import Stage, pairs
from models.errors import BoundError, InputError
from models.eventlog import EventLog

EPSILON, DELTA = 1, 0.01
ALPHA = 1e-3
"""Chance that an audit of a right mechanism refutes it (the seeds are fixed, so this is decided once)."""


class _Half(noise.NoiseSource):
    """Planted bug: half the scale."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return super().laplace(scale / 2, size)


class _NoTimes(noise.NoiseSource):
    """Planted bug: epsilon forgotten on one attribute, the times."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64) if scale > 1e6 else super().laplace(scale, size)


def _source(kind: type[noise.NoiseSource] = noise.NoiseSource) -> noise.NoiseSource:
    return kind(np.random.default_rng(11))


def _variants(source: noise.NoiseSource) -> Callable[[EventLog], EventLog]:
    return lambda log: strict.release_variants(log, epsilon=EPSILON, delta_dp=DELTA, draw=source).log


def _times(source: noise.NoiseSource) -> Callable[[EventLog], EventLog]:
    return lambda log: strict.release_log(log, epsilon=EPSILON, delta_dp=DELTA, draw=source).log


def _audit(
    run: Callable[[EventLog], EventLog], name: str, runs: int, *, rule: bool = False
) -> tuple[audit.Finding, int]:
    pair = next(pair for pair in pairs(run, rule=rule) if pair.name == name)
    delta = 0.0 if rule else audit.group_delta(EPSILON, DELTA, pair.steps)
    return audit.audit(pair, runs, delta=delta, alpha=ALPHA), pair.steps


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("a case added", 500),
        ("a case of a new variant added", 500),
        ("an event changed", 500),
        ("a time shifted", 500),
    ],
)
def test_strict_log_stays_below_its_claim(name: str, runs: int) -> None:
    """No neighbouring pair refutes dp-log."""
    finding, steps = _audit(_times(_source()), name, runs)
    assert not finding.refutes(EPSILON, steps)


def test_strict_variants_stay_below_and_come_near() -> None:
    """dp-variants is not refuted, and the auditor sees a good part of its epsilon: it is not blind."""
    finding, steps = _audit(_variants(_source()), "a case added", 1000)
    assert not finding.refutes(EPSILON, steps)
    assert finding.epsilon > 0.4


def test_half_the_scale_is_caught() -> None:
    """Planted bug 1: noise of half the scale spends 2 epsilon, and the audit says so."""
    finding, steps = _audit(_variants(_source(_Half)), "a case added", 1000)
    assert finding.refutes(EPSILON, steps)
    assert finding.epsilon < 2 * EPSILON + 0.05


def test_forgotten_attribute_is_caught() -> None:
    """Planted bug 2: times without noise."""
    finding, steps = _audit(_times(_source(_NoTimes)), "a time shifted", 600)
    assert finding.refutes(EPSILON, steps)
    assert "takes" in finding.witness


def test_missing_threshold_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug 3: variants released without a threshold, so a new variant gives its owner away."""
    monkeypatch.setattr(counts, "threshold", lambda *_: 1)
    finding, steps = _audit(_variants(_source()), "a case of a new variant added", 400)
    assert finding.refutes(EPSILON, steps)
    assert "('A', 'C')" in finding.witness


@pytest.mark.parametrize("design", ["sampling", "oversampling"])
def test_amun_is_unbounded(design: amun.Design) -> None:
    """Amun releases only variants that were there, so a new variant is impossible without its owner: no epsilon."""
    source = _source()
    finding, _ = _audit(
        lambda log: amun.release(log, delta=0.2, variant=design, draw=source).log,
        "a case of a new variant added",
        200,
        rule=True,
    )
    assert finding.unbounded
    assert finding.epsilon == math.inf
    assert finding.refutes(1e9)


def test_clopper_pearson() -> None:
    """The bounds are the exact binomial ones."""
    from scipy.stats import binom

    for hits, runs in ((0, 50), (3, 50), (50, 50)):
        low, high = audit.lower_bound(hits, runs, 0.01), audit.upper_bound(hits, runs, 0.01)
        assert low <= hits / runs <= high
        assert low == 0 if hits == 0 else binom.sf(hits - 1, runs, low) == pytest.approx(0.01)
        assert high == 1 if hits == runs else binom.cdf(hits, runs, high) == pytest.approx(0.01)


def test_coverage_of_the_bound() -> None:
    """A mechanism that does not depend on its input is refuted in no more than the stated share of audits."""
    random = np.random.default_rng(3)

    def coin() -> list[str]:
        return ["heads" if random.random() < 0.5 else "tails"]

    found = [audit.audit(audit.NeighbourPair("same", coin, coin), 200, alpha=0.05).epsilon > 0 for _ in range(100)]
    assert sum(found) <= 12  # 5 % asked; more than 12 of 100 has chance 0.001


def test_a_refusal_is_an_event() -> None:
    """A mechanism that refuses on one log and not on the other is told apart by that."""

    def run(log: EventLog) -> EventLog:
        if ("A", "C") in log.traces():
            raise BoundError("nothing is left")
        return log

    pair = next(pair for pair in pairs(run) if pair.name == "a case of a new variant added")
    assert list(pair.other()) == ["nothing is released"]
    finding = audit.audit(pair, 100, alpha=ALPHA)
    assert finding.refutes(EPSILON)


def test_delta_grows_with_the_steps() -> None:
    """Two changes of an (e, d)-DP mechanism are (2 e, d + e^e d); never a delta of 1 or more, however large epsilon is.

    A mechanism that uses its delta on each of two steps is right, and only this delta does not refute it.
    """
    assert audit.group_delta(1, 0.01, 1) == 0.01
    assert audit.group_delta(1, 0.01, 2) == pytest.approx(0.01 + 0.01 * math.e)
    assert audit.group_delta(1, 0, 2) == 0
    assert audit.group_delta(800, 1e-9, 2) == audit.group_delta(5, 0.5, 2) < 1
    random = np.random.default_rng(5)
    first = 0.001
    second = math.e * first + 0.2
    third = math.e * second + 0.2  # each log is one step from the one before, and the step uses up (1, 0.2)

    def tells(chance: float) -> Callable[[], list[str]]:
        return lambda: ["told" if random.random() < chance else "silent"]

    pair = audit.NeighbourPair("two steps", tells(first), tells(third), 2)
    one_step, two_steps = (
        audit.audit(pair, 4000, delta=delta, alpha=ALPHA).refutes(1, 2) for delta in (0.2, audit.group_delta(1, 0.2, 2))
    )
    assert one_step
    assert not two_steps


def test_audit_needs_runs() -> None:
    """Too few runs, or a delta that is no probability, is bad input."""
    pair = pairs(_variants(_source()), Stage())[0]
    for arguments in ({"runs": 5}, {"runs": 100, "delta": 1.0}, {"runs": 100, "alpha": 0.0}):
        with pytest.raises(InputError):
            audit.audit(pair, **arguments)  # type: ignore[arg-type]
