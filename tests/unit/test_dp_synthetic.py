"""The stages of dp-synthetic: what one case can change, which noise they draw, and what is public of them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp import noise, synthetic
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, labels, times
from models.dp.synthesis.table import VariantCounts, only
from models.dp.zcdp import rho_of
from models.errors import InputError
from models.eventlog import EventLog
from tests.oracles.dp import tail

HOUR = 3_600_000
DAY = 24 * HOUR
TRACE = st.lists(st.integers(0, 3), max_size=40).map(tuple)


class Recorder(noise.NoiseSource):
    """A seeded source that notes every scale and size it was asked for; without noise where `silent`."""

    __slots__ = ("asked", "silent")

    def __init__(self, *, silent: bool = False) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "silent", silent)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        drawn = super().laplace(scale, size)
        return np.zeros_like(drawn) if self.silent else drawn

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        drawn = super().gaussian(scale, size)
        return np.zeros_like(drawn) if self.silent else drawn


def _gaussian(rho: Fraction, sensitivity: int) -> float:
    return sensitivity / (2 * float(rho)) ** 0.5


def _log(traces: list[str], step: int = HOUR) -> EventLog:
    case, activity, time = [], [], []
    for number, trace in enumerate(traces):
        for place, name in enumerate(trace):
            case.append(str(number))
            activity.append(name)
            time.append((number * HOUR + place * step) * 1_000_000)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


@pytest.mark.parametrize(("q", "c"), [(1, 1), (4, 1), (3, 2), (8, 3)])
def test_threshold_of_labels_is_the_least_that_keeps_delta(q: int, c: int) -> None:
    """However a person's q c places divide over new labels, some label passes with chance at most delta; with one less
    it would not."""
    epsilon, delta = Fraction(3, 2), 0.001
    least = labels.threshold(epsilon, Fraction(delta), q, c)
    divisions = [[c] * q, [1] * (q * c), [c] * (q - 1) + [1] * c]
    each = float(epsilon) / (q * c)
    assert max(sum(tail(each, least - part) for part in parts) for parts in divisions) <= delta * (1 + 1e-9)
    assert max(sum(tail(each, least - 1 - part) for part in parts) for parts in divisions) > delta * (1 - 1e-9)


@given(st.lists(TRACE, min_size=1, max_size=6), TRACE, st.integers(1, 4))
def test_a_case_counts_for_first_labels_only(cases: list[tuple[int, ...]], more: tuple[int, ...], q: int) -> None:
    """One case more changes at most q counts of labels, each by one."""
    names = tuple("ABCD")
    before, after = (
        labels.first_labels(VariantCounts.of(_log(["".join(names[i] for i in case) for case in log]), names), q)
        for log in (cases, [*cases, more])
    )
    assert (after - before).max() <= 1
    assert (after - before).min() >= 0
    assert (after - before).sum() == min(q, len(set(more)))


@given(TRACE, st.integers(1, 6), st.integers(1, 3))
def test_a_case_weighs_at_most_b_on_every_level(trace: tuple[int, ...], bound: int, order: int) -> None:
    """However long a case is, what it adds to the cells of a level is at most B, in sum or in L2, by its weights."""
    opened = np.arange(5**order, dtype=np.int64)  # every context there can be
    steps = contexts.VariantSteps.of([trace], 4)
    weights = np.full(len(trace) + 1, contexts.case_weight(len(trace), bound), dtype=np.int64)
    cells = contexts.true_cells(steps, weights, opened, order)
    assert 0 <= cells.sum() <= bound * contexts.UNIT
    weights = contexts.step_weights([trace], 4, bound)[np.zeros(len(trace) + 1, dtype=np.int64)]
    cells = contexts.true_cells(steps, weights, opened, order)
    assert sum(cell**2 for cell in cells[cells > 0].tolist()) <= (bound * contexts.UNIT) ** 2


def test_steps_of_a_level_by_hand() -> None:
    """Level 1: what follows each label and the start; level 2: what follows each two, the start counting as one."""
    opened = [np.arange(4**order, dtype=np.int64) for order in (1, 2)]
    steps = contexts.VariantSteps.of([(0, 1, 0), (2,)], 3)
    weights = np.asarray([1, 1, 1, 1, 10, 10], dtype=np.int64)
    first, second = (contexts.true_cells(steps, weights, opened[order - 1], order) for order in (1, 2))
    start, end = 3, 3
    assert {(int(a), int(b)): int(n) for (a, b), n in np.ndenumerate(first) if n} == {
        (start, 0): 1, (0, 1): 1, (1, 0): 1, (0, end): 1, (start, 2): 10, (2, end): 10,
    }  # fmt: skip
    key = {(a, b): a * 4 + b for a in range(4) for b in range(4)}
    assert {(int(a), int(b)): int(n) for (a, b), n in np.ndenumerate(second) if n} == {
        (key[start, 0], 1): 1, (key[0, 1], 0): 1, (key[1, 0], end): 1, (key[start, 2], end): 10,
    }  # fmt: skip


def test_every_cell_of_an_opened_context_gets_noise() -> None:
    """Draws of a level are its contexts times labels and the end, whoever fills them; scales are B c / sqrt(2 rho)."""
    source = Recorder()
    levels = contexts.measure(
        [(0, 1)], np.asarray([500]), 6, [Fraction(1, 2), Fraction(1, 4)], 3, source, cases_per_person=2
    )
    scales = [_gaussian(rho, 3 * 2 * contexts.UNIT) for rho in (Fraction(1, 2), Fraction(1, 4))]
    assert source.asked == [
        (pytest.approx(scales[0]), 7 * 7), (pytest.approx(scales[1]), len(levels[1].contexts) * 7),
    ]  # fmt: skip


def test_contexts_open_by_noisy_counts_alone() -> None:
    """With the same noisy cells the same contexts open, whatever the cases were."""
    first = contexts.ContextLevel(
        np.arange(3, dtype=np.int64), np.asarray([[0, 90, 0], [0, 0, 5], [80, 10, 0]]), np.full(3, 20.0)
    )
    assert contexts._next_contexts([first], 2).tolist() == [0 * 3 + 1, 2 * 3 + 0]


def test_a_model_without_noise_gives_its_traces() -> None:
    """Noise switched off, a model of order 2 gives back what is determined by two labels."""
    variants = [(0, 1, 2), (1, 0, 2, 2)]
    levels = contexts.measure(variants, np.asarray([700, 300]), 3, [Fraction(10**4)] * 2, 100, Recorder(silent=True))
    drawn = contexts.Model.of(levels, 3).sample(4000, 30, noise.simulated(1))
    shares = {variant: n / 4000 for variant, n in drawn.items()}
    assert shares[0, 1, 2] == pytest.approx(0.7, abs=0.05)
    assert shares[1, 0, 2, 2] == pytest.approx(0.3, abs=0.05)
    assert max(map(len, drawn)) <= 30


def test_nearest_by_hand() -> None:
    """Normalised Levenshtein: abc is 1/3 from abd and 1/2 from abcdef; ties go to the first."""
    assert candidates.nearest([(0, 1, 2)], [(0, 1, 2, 3, 4, 5), (0, 1, 3)]).tolist() == [1]
    assert candidates.nearest([(0,), ()], [(1,), (2,)]).tolist() == [0, 0]


def test_representatives_are_spread() -> None:
    """The first one is nearest to the most; the next one comes from what it does not reach; none is taken already."""
    drawn = {(0, 1, 2, 3): 50, (0, 1, 2): 30, (7, 7, 7, 7): 20, (8, 8): 1}
    assert candidates.representative(drawn, [], 2) == [(0, 1, 2, 3), (7, 7, 7, 7)]
    assert candidates.representative(drawn, [(0, 1, 2, 3)], 1) == [(7, 7, 7, 7)]


@settings(deadline=None)
@given(st.lists(TRACE.filter(len), min_size=1, max_size=5), TRACE.filter(len), st.integers(1, 4))
def test_times_of_a_case_are_bounded(cases: list[tuple[int, ...]], more: tuple[int, ...], bound: int) -> None:
    """One case more adds at most B to all histograms of durations together, and one to each histogram of starts."""
    bounds = times.PublicTimeBounds(7 * DAY, (0, 60 * DAY))
    pairs = np.arange(16, dtype=np.int64)
    sums = []
    for log in (cases, [*cases, more]):
        source = _log(["".join("ABCD"[i] for i in case) for case in log], step=5 * HOUR)
        codes = times._codes(source, "ABCD")
        starts = times.starts_of(source, bounds)
        sums.append((times.durations_of(source, codes, 4, pairs, bounds, bound), *starts))
    changes = [after - before for before, after in zip(*sums, strict=True)]
    assert all(change.min() >= 0 for change in changes)
    assert changes[0].sum() <= bound * contexts.UNIT
    assert [int(change.sum()) for change in changes[1:]] == [1, 1]


def test_bins_of_durations_by_hand() -> None:
    """0 and below a second; then two bins a doubling up to the bound."""
    assert times.PublicTimeBounds(4_000).edges.tolist() == [0, 1000, 1414, 2000, 2828, 4000]


def test_every_stage_draws_with_its_share() -> None:
    """Scales are sensitivity over the stage's part of epsilon: q c for labels, c for weights, B c for durations; over
    the root of twice its part of rho: c for variants, B c for the model's levels."""
    source = Recorder()
    bounds = times.PublicTimeBounds(DAY, (0, 30 * DAY))
    shares = synthetic.Shares.of(
        {"labels": "0.1", "variants": "0.2", "model": "0.2", "weights": "0.2", "times": "0.3"}, labels=True, times=True
    )
    design = synthetic.Design(max_labels=3, case_weight=2, bounds=bounds, shares=shares, sample=50, candidates=5)
    log = _log(["abc"] * 900 + ["acb"] * 500)
    released = synthetic.release_synthetic(
        log, epsilon=2, delta_dp="1e-3", design=design, cases_per_person=2, draw=source
    )
    scales = [scale for scale, _ in source.asked]
    unit = contexts.UNIT
    rho = rho_of(Fraction(8, 10), Fraction(1, 3000))  # of variants and model together, half each
    model = _gaussian(rho / 4, 2 * 2 * unit)
    expected = [3 * 2 / 0.2, _gaussian(rho / 2, 2), model, model, 2 / 0.4, 2 * 2 * unit / 0.4]
    assert scales == pytest.approx([*expected, 2 / 0.1, 2 / 0.1], rel=1e-9)
    assert released.log.n_cases > 0


@given(st.booleans(), st.booleans(), st.fractions(Fraction(1, 1000), 10))
def test_usual_shares_add_up(labels_: bool, times_: bool, epsilon: Fraction) -> None:
    """The defaults add up to 1 exactly, whichever stages run."""
    usual = synthetic.Shares.usual(labels=labels_, times=times_, epsilon=epsilon)
    assert sum(getattr(usual, stage) for stage in synthetic.STAGES) == 1
    synthetic.Shares.of({s: getattr(usual, s) for s in synthetic.STAGES}, labels=labels_, times=times_)


def test_parts_of_epsilon_and_delta_add_up() -> None:
    """What the stages get is the whole, and delta is divided among those that select and the conversion."""
    for design in (synthetic.Design(), synthetic.Design(activities=("a",), bounds=times.PublicTimeBounds(DAY))):
        budget = synthetic.StageBudget.of(Terms.of("0.7", "1e-5"), design)
        assert sum(getattr(budget, stage) for stage in synthetic.STAGES) == Fraction(7, 10)
        assert budget.delta_labels + budget.delta_variants + budget.delta_rho == Fraction(1, 10**5)


def test_the_order_of_the_log_does_not_show() -> None:
    """What stage 3 counts comes in one order, whichever case stood first: ties among cases would follow it."""
    design = synthetic.Design(activities=("a", "b", "c"))
    terms = Terms.of(50, "0.1")
    budget = synthetic.StageBudget.of(terms, design)
    orders = [
        list(synthetic.frequent_variants(VariantCounts.of(_log(traces), "abc"), budget, terms, noise.simulated(1)))
        for traces in (["ab"] * 90 + ["cb"] * 90, ["cb"] * 90 + ["ab"] * 90)
    ]
    assert orders == [[(0, 1), (2, 1)]] * 2


def test_declared_labels_fix_what_is_drawn() -> None:
    """Whether the log has all declared labels or one of them does not show in how much noise is drawn first."""
    asked = []
    for traces in (["ab"] * 50, ["abcd"] * 50):
        source = Recorder()
        design = synthetic.Design(activities=tuple("abcde"), order=1, sample=50, candidates=5)
        synthetic.release_synthetic(_log(traces), epsilon=1, delta_dp="1e-3", design=design, draw=source)
        asked.append([size for _, size in source.asked][1])
    assert asked == [36, 36]


def test_events_of_other_labels_are_dropped_case_by_case() -> None:
    """Cases without a label that is left stay, empty."""
    kept = only(_log(["abx", "xx", "b"]), ["a", "b"])
    assert kept.traces() == [("a", "b"), (), ("b",)]


@pytest.mark.parametrize("traces", [[], ["secret"]])
def test_a_log_of_nothing_frequent_gives_a_release(traces: list[str]) -> None:
    """No label passes: a release without events, and a word to the operator; no error, which would tell."""
    result = synthetic.release_synthetic(_log(traces), epsilon=1, delta_dp="1e-9")
    assert result.log.n_events == 0
    assert bool(result.operator["warnings"]) == bool(traces)


def test_seeds_are_never_private_and_no_stage_takes_one() -> None:
    """A release drawn from a seeded source says so."""
    given: dict[str, Any] = {"epsilon": 5, "delta_dp": "1e-3", "design": synthetic.Design(activities=("a", "b"))}
    assert synthetic.release_synthetic(_log(["ab"] * 9), **given).private
    assert not synthetic.release_synthetic(_log(["ab"] * 9), **given, draw=noise.simulated(1)).private


def test_counts_follow_the_log() -> None:
    """With little noise a log of three variants comes back with about its counts."""
    log = _log(["abc"] * 300 + ["acb"] * 100 + ["ab"] * 50)
    design = synthetic.Design(activities=("a", "b", "c"), sample=2000, candidates=50)
    released = synthetic.release_synthetic(log, epsilon=50, delta_dp="0.01", design=design).log
    counts = Counter("".join(trace) for trace in released.traces())
    assert abs(counts["abc"] - 300) <= 3
    assert abs(counts["acb"] - 100) <= 3
    assert abs(counts["ab"] - 50) <= 3


def test_a_design_refuses_what_cannot_be() -> None:
    """Bounds of the model out of range, and a model whose contexts no number holds."""
    for changed in ({"order": 5}, {"case_weight": 0}, {"max_length": 0}, {"sample": 0}, {"candidates": 0}):
        with pytest.raises(InputError, match=next(iter(changed))):
            synthetic.Design(**changed)
    with pytest.raises(InputError, match="lower the order"):
        contexts.measure([], np.zeros(0, dtype=np.int64), 10**5, [Fraction(1)] * 4, 1, Recorder())
