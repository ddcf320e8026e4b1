"""Every stage of dp-synthetic and the whole against its own claim; planted bugs are caught.

Runs are seeded, so each audit is decided once. `ALPHA` is the chance that an audit of a right stage refutes it; the
power is stated where a bug must be seen: an event that never happens on the other log refutes a claim of 1 at 600 runs
where it happens in a fifth of the runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from models.dp import audit, noise, synthetic
from models.dp.neighbours import DAY, HOUR, Stage, count_pairs, hourly_log, observed
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, labels, spreading, times
from models.dp.synthesis.neighbours import LONG, _budget, stage_pairs
from models.dp.synthesis.table import Variant, VariantCounts
from models.dp.synthetic import StageBudget
from models.dp.zcdp import rho_of, scale_of
from models.eventlog import EventLog
from tests.unit.known_noise import timed_log

EPSILON, DELTA = Fraction(1), Fraction(1, 100)
ALPHA = 1e-3
RUNS = 600

LABEL_STAGES = ("label", "label of many", "labels at once", "near labels")
TIME_STAGES = ("times", "times of many", "many times")
OTHER_STAGES = ("variants", "counts", "taken", "preview", "model", "weights", "nearest")
IN_FAST_LANE = ("label", "variants", "taken", "preview", "model", "nearest", "times")
"""Pairs that `make fast` has as well: at least one of each stage."""


def _finding(stage: str, runs: int = RUNS) -> tuple[audit.Finding, float]:
    (found,) = stage_pairs(EPSILON, DELTA, noise.simulated(5), only=[stage])
    return audit.audit(found.pair, runs, delta=float(found.claim.delta), alpha=ALPHA), float(found.claim.epsilon)


@pytest.mark.parametrize(
    "stage",
    [
        stage if stage in IN_FAST_LANE else pytest.param(stage, marks=pytest.mark.slow)
        for stage in (*LABEL_STAGES, *OTHER_STAGES, *TIME_STAGES)
    ],
)
def test_no_stage_is_refuted(stage: str) -> None:
    """A bound above the claim of a stage would refute it."""
    finding, claimed = _finding(stage)
    assert not finding.refutes(claimed)


def test_power_of_these_audits() -> None:
    """At 600 runs an event of frequency .2 that the other log never shows refutes a claim of 1."""
    needed = audit.power(RUNS, 1.0, delta=0.0, alpha=ALPHA).probability
    assert needed is not None
    assert needed <= 0.2


def test_the_auditor_is_not_blind() -> None:
    """On the weights, which count cases, it sees a good part of their epsilon."""
    finding, _ = _finding("nearest", 1000)
    assert finding.epsilon > 0.3


class _Half(noise.NoiseSource):
    """Noise of half the scale, or deviation."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return super().laplace(scale / 2, size)

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return super().gaussian(scale / 2, size)


def test_half_the_scale_is_caught() -> None:
    """Noise of half the scale spends twice the epsilon of the weights."""
    (found,) = stage_pairs(EPSILON, DELTA, _Half(np.random.default_rng(6)), only=["nearest"])
    finding = audit.audit(found.pair, 1500, delta=float(found.claim.delta), alpha=ALPHA)
    assert finding.refutes(1.0)


@pytest.mark.parametrize(("source", "refuted"), [(noise.NoiseSource, False), (_Half, True)])
def test_half_the_deviation_is_caught(source: type[noise.NoiseSource], refuted: bool) -> None:
    """Of the counts of frequent variants, in bulk: half the noise refutes the claim, the right noise does not, and much
    of its epsilon is seen."""
    draw = source(np.random.default_rng(9))
    rule = _budget(variants=EPSILON, delta=DELTA).frequent(Terms.of(EPSILON, DELTA))
    pair, *_ = count_pairs(lambda true: rule.counts(true, draw), 200)
    finding = audit.audit(pair, 40_000, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(1.0) == refuted
    assert finding.epsilon > 0.4


def test_steps_of_a_model_with_half_the_deviation_are_caught() -> None:
    """The cells of the longest trace, in bulk: right noise passes."""
    bound = 3 * contexts.UNIT
    scale = scale_of(rho_of(EPSILON, DELTA), bound)
    rng = np.random.default_rng(10)

    def cell(true: int, part: float) -> Callable[[int], Counter[Hashable]]:
        def many(runs: int) -> Counter[Hashable]:
            noisy = true + noise.NoiseSource(rng).gaussian(scale / part, runs)
            steps = [round(step * scale / 2) for step in range(-4, 9)]
            return Counter({("at least", step): int((noisy >= step).sum()) for step in steps})

        return many

    for part, refuted in ((1.0, False), (2.0, True)):
        pair = audit.NeighbourPair("cell", lambda: (), lambda: (), many_one=cell(0, part), many_other=cell(bound, part))
        finding = audit.audit(pair, 100_000, delta=float(DELTA), alpha=ALPHA)
        assert finding.refutes(1.0) == refuted


@pytest.mark.parametrize("bug", ["none", "half the noise", "cap of cases forgotten"])
def test_times_with_too_little_noise_are_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All histograms of times along the direction in which a person with three long cases moves them, in bulk."""
    if bug == "cap of cases forgotten":
        plain = StageBudget.times_scale

        def for_one_case(budget: StageBudget, terms: Terms, design: synthetic.Design) -> float:
            return plain(budget, replace(terms, cases_per_person=1), design)

        monkeypatch.setattr(StageBudget, "times_scale", for_one_case)
    bounds = times.PublicTimeBounds(30 * DAY)
    design = synthetic.Design(activities=("A", "B", "C"), bounds=bounds)
    terms = Terms.of(EPSILON, DELTA, 3)
    scale = _budget(times=EPSILON, delta=DELTA).times_scale(terms, design)
    if bug == "half the noise":
        scale /= 2
    norm = times.case_norm(design.case_weight)
    # A case with steps in 30 cells, each once, has all the weight that a case may have.
    moments = np.cumsum([0, *(1_500 * 2 ** (step // 2) for step in range(30))])
    others = [("AB", [0, HOUR])] * 50
    cells = [
        times.true_cells(timed_log(*others, *person), ("A", "B", "C"), np.arange(9), bounds, norm)
        for person in ([], [("AB" * 15 + "A", moments.tolist())] * 3)
    ]
    change = [(cells[1][name] - cells[0][name]).ravel() for name in cells[0]]
    moved = round(float(np.sqrt(sum(float((block.astype(float) ** 2).sum()) for block in change))))
    bound = 3 * norm
    assert 0.98 * bound <= moved <= bound
    rng = np.random.default_rng(11)

    def along(true: int) -> Callable[[int], Counter[Hashable]]:
        def many(runs: int) -> Counter[Hashable]:
            noisy = true + noise.NoiseSource(rng).gaussian(scale, runs)
            steps = [round(step * scale / 2) for step in range(-4, 9)]
            return Counter({("at least", step): int((noisy >= step).sum()) for step in steps})

        return many

    pair = audit.NeighbourPair("times", lambda: (), lambda: (), many_one=along(0), many_other=along(moved))
    finding = audit.audit(pair, 100_000, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(float(EPSILON)) == (bug != "none")
    assert finding.epsilon > 0.4


def test_steps_that_weigh_one_in_every_case_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: 200 long steps of one case count in full."""
    monkeypatch.setattr(times, "step_weight", lambda square, part, norm: contexts.UNIT)
    finding, _ = _finding("many times", 200)
    assert finding.refutes(1.0)


def test_times_of_empty_cells_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: only cells that somebody fills get noise."""
    plain = times.true_cells
    filled: list[np.ndarray] = []

    def noted(*arguments: Any) -> dict[str, np.ndarray]:
        cells = plain(*arguments)
        filled.append(np.concatenate([block.ravel() for block in cells.values()]) > 0)
        return cells

    class Sparse(noise.NoiseSource):
        def gaussian(self, scale: float, size: int) -> np.ndarray:
            return np.where(filled[-1], super().gaussian(scale, size), 0)

    monkeypatch.setattr(times, "true_cells", noted)
    (found,) = stage_pairs(EPSILON, DELTA, Sparse(np.random.default_rng(7)), only=["times"])
    assert audit.audit(found.pair, 200, delta=float(DELTA), alpha=ALPHA).refutes(1.0)


def test_noise_left_out_for_empty_cells_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: only cells that somebody fills get noise, so an empty one is exactly 0 and a filled one is not."""
    plain = contexts.true_cells
    filled: list[np.ndarray] = []

    def noted(*arguments: Any) -> np.ndarray:
        filled.append(plain(*arguments) > 0)
        return plain(*arguments)

    class Sparse(noise.NoiseSource):
        def gaussian(self, scale: float, size: int) -> np.ndarray:
            return np.where(filled[-1].ravel(), super().gaussian(scale, size), 0)

    monkeypatch.setattr(contexts, "true_cells", noted)
    (found,) = stage_pairs(EPSILON, DELTA, Sparse(np.random.default_rng(7)), only=["model"])
    finding = audit.audit(found.pair, 200, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(1.0)


def test_longer_contexts_of_true_cells_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the cells without noise decide which longer contexts are counted, so one person opens A C."""
    plain = contexts.true_cells
    true: list[np.ndarray] = []

    def noted(*arguments: Any) -> np.ndarray:
        cells = plain(*arguments)
        true.append(cells.copy())
        return cells

    def by_true_cells(levels: list[contexts.ContextLevel]) -> np.ndarray:
        n_labels = levels[-1].labels
        row, label = np.nonzero(true[-1][:, :n_labels])
        return np.sort(levels[-1].contexts[row] * (n_labels + 1) + label)

    monkeypatch.setattr(contexts, "true_cells", noted)
    monkeypatch.setattr(contexts, "_next_contexts", by_true_cells)
    finding, _ = _finding("model", 200)
    assert finding.refutes(1.0)
    assert "A C" in finding.witness


def test_longer_contexts_without_noise_of_their_own_are_caught() -> None:
    """Planted bug: the second level gets no noise. Where noise opens A C, its cell is 0 without the person alone."""
    calls: list[int] = []

    class FirstLevelOnly(noise.NoiseSource):
        def gaussian(self, scale: float, size: int) -> np.ndarray:
            calls.append(size)
            is_first_level = len(calls) % 2 == 1
            return super().gaussian(scale, size) if is_first_level else np.zeros(size, dtype=np.int64)

    (found,) = stage_pairs(EPSILON, DELTA, FirstLevelOnly(np.random.default_rng(7)), only=["model"])
    finding = audit.audit(found.pair, 1500, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(1.0)
    assert "A C then A" in finding.witness


def test_a_preview_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: true cells decide whether variants are counted, so one person decides."""
    plain = synthetic.steps_a_cell
    true_cells = contexts.true_cells
    true: list[np.ndarray] = []

    def noted(*arguments: Any) -> np.ndarray:
        cells = true_cells(*arguments)
        true.append(cells.copy())
        return cells

    def of_true_cells(level: contexts.ContextLevel) -> float:
        return plain(replace(level, cells=true[-1]))

    monkeypatch.setattr(contexts, "true_cells", noted)
    monkeypatch.setattr(synthetic, "steps_a_cell", of_true_cells)
    finding, _ = _finding("preview", 200)
    assert finding.refutes(1.0)


def test_weights_without_a_cap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: every step of a long case counts in full."""
    monkeypatch.setattr(
        contexts, "root_weights", lambda steps, bound, order: np.full(len(steps.variant), contexts.UNIT)
    )
    finding, _ = _finding("model", 200)
    assert finding.refutes(1.0)
    assert LONG > 100  # the victim's case is long enough to be seen at all


@pytest.mark.parametrize("stage", ["label", "label of many", "labels at once"])
def test_labels_of_the_raw_log_are_caught(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the alphabet is the log's."""
    monkeypatch.setattr(labels.LabelRule, "select", lambda self, table, draw: table.alphabet)
    finding, _ = _finding(stage, 200)
    assert finding.refutes(1.0)


def test_labels_that_weigh_one_in_every_case_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a case of 64 labels counts in full for each of them, with a norm of eight."""
    monkeypatch.setattr(labels, "label_weight", lambda distinct_labels: labels.UNIT)
    finding, _ = _finding("near labels")
    assert finding.refutes(1.0)


def test_a_threshold_for_one_label_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: no maximum over the labels of a case, so that some of many labels of one person leave too often."""
    plain = labels.threshold
    monkeypatch.setattr(labels, "threshold", lambda scale, delta, max_labels, person: plain(scale, delta, 1, person))
    finding, _ = _finding("labels at once")
    assert finding.unbounded


def _whole(log: EventLog, epsilon: Fraction = EPSILON, **changed: Any) -> Callable[[], Iterator[Hashable]]:
    source = noise.simulated(8)
    plan: dict[str, Any] = {"activities": ("A", "B", "C"), "sample": 200, "candidates": 20, **changed}
    design = synthetic.Design(**plan)

    def run() -> Iterator[Hashable]:
        released = synthetic.release_synthetic(log, epsilon=epsilon, delta_dp=DELTA, design=design, draw=source)
        yield from observed(released.log, 60)

    return run


def _neighbours() -> tuple[EventLog, EventLog]:
    """60 cases, and one more of a variant that nobody has."""
    scene = Stage(common=60)
    return scene.log(60), scene.log(61, last="CBCBCA")


@pytest.mark.slow
def test_the_whole_with_times_is_not_refuted() -> None:
    """A person with one step of 29 days, where all other steps take an hour."""
    scene = Stage(common=60)
    logs = (scene.log(60), scene.log(61, last_duration=29 * DAY))
    runs = (_whole(log, bounds=times.PublicTimeBounds(30 * DAY)) for log in logs)
    finding = audit.audit(audit.NeighbourPair("whole", *runs), 300, delta=float(DELTA), alpha=ALPHA)
    assert not finding.refutes(float(EPSILON))


@pytest.mark.slow
def test_the_whole_is_not_refuted() -> None:
    """All stages together stay below epsilon, on a log with one more person, of a variant of her own."""
    one, other = _neighbours()
    finding = audit.audit(
        audit.NeighbourPair("whole", _whole(one), _whole(other)), 400, delta=float(DELTA), alpha=ALPHA
    )
    assert not finding.refutes(float(EPSILON))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"other": "O"}])
def test_the_whole_with_selected_labels_is_not_refuted(more: dict[str, Any]) -> None:
    """A person with a variant of labels that nobody else has, among labels that pass the threshold in most runs."""
    runs = (_whole(log, activities=None, **more) for log in _own_labels())
    finding = audit.audit(audit.NeighbourPair("whole", *runs), 200, delta=float(DELTA), alpha=ALPHA)
    assert not finding.refutes(float(EPSILON))


@pytest.mark.parametrize("raw", [pytest.param(False, marks=pytest.mark.slow), True])
def test_labels_of_one_person_in_the_whole(raw: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so little noise that all else of her is seen, a label of hers leaves no more often than delta. The control
    takes the alphabet of the log, and is caught."""
    if raw:
        monkeypatch.setattr(labels.LabelRule, "select", lambda self, table, draw: table.alphabet)
    without, with_her = _own_labels()
    runs = (_whole(log, Fraction(40), activities=None) for log in (without, with_her))

    def possible_without_her(event: Hashable) -> bool:
        is_of_traces = isinstance(event, tuple) and len(event) > 1 and isinstance(event[1], tuple)
        return not (is_of_traces and set("XYZ") & set(event[1]))  # type: ignore[index]

    pair = audit.NeighbourPair("whole", *runs, possible_one=possible_without_her)
    assert audit.audit(pair, 100, delta=float(DELTA), alpha=ALPHA).unbounded == raw


def _own_labels() -> tuple[EventLog, EventLog]:
    """120 cases, and one more of labels that nobody has."""
    scene = Stage(common=120)
    return scene.log(120), scene.log(121, last="XYZXYZ")


@pytest.mark.slow
def test_candidates_made_of_raw_cases_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the true variants appear among the candidates, so a variant of one person can leave, and without her
    it cannot."""
    plain = synthetic.candidate_list
    raw: list[VariantCounts] = []
    model = synthetic.residual_model

    def noted(table: VariantCounts, *rest: Any) -> Any:
        raw.append(table)
        return model(table, *rest)

    def leaky(*arguments: Any) -> Any:
        listed = plain(*arguments)
        return replace(listed, traces=list(dict.fromkeys([*raw[-1].variants, *listed.traces])))

    monkeypatch.setattr(synthetic, "residual_model", noted)
    monkeypatch.setattr(synthetic, "candidate_list", leaky)
    one, other = _neighbours()
    # Most of epsilon goes to the weights: a cell of one case then leaves almost always, and not by chance.
    shares = synthetic.Shares.of({"model": "1/11", "weights": "10/11"}, labels=False, times=False)
    runs = (_whole(log, Fraction(22, 10), shares=shares) for log in (one, other))
    finding = audit.audit(audit.NeighbourPair("whole", *runs), 400, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(2.2)
    assert "'C', 'B', 'C', 'B', 'C', 'A'" in finding.witness


MANY_VARIANTS = ["A" + "B" * bs + "C" * cs for bs in range(1, 5) for cs in range(1, 5)]
"""Ten cases of each give a model of which more than half of the releases repeat .925 of the draws."""


def _numbers_of_variants(monkeypatch: pytest.MonkeyPatch) -> audit.NeighbourPair:
    """Return 160 cases of many variants, and one more of a variant of her own, by how many variants a release has.

    Releases with the small pool have at most five variants, those with the large one have nine and more.
    """
    monkeypatch.setattr(spreading, "POOL", 1)
    monkeypatch.setattr(spreading, "LARGE_POOL", 50)
    monkeypatch.setattr(spreading, "REPEATED", 0.925)
    without_her = [(variant, HOUR) for variant in MANY_VARIANTS for _ in range(10)]
    source = noise.simulated(8)
    design = synthetic.Design(activities=("A", "B", "C"), sample=200, candidates=20)

    def run(log: EventLog) -> Iterator[Hashable]:
        released = synthetic.release_synthetic(log, epsilon=EPSILON, delta_dp=DELTA, design=design, draw=source)
        n_variants = len(set(released.log.traces()))
        yield from (("at least" if n_variants >= bound else "fewer than", bound) for bound in range(1, 20))

    runs = (partial(run, hourly_log(cases)) for cases in (without_her, [*without_her, ("CBCBCA", HOUR)]))
    return audit.NeighbourPair("whole", *runs)


@pytest.mark.slow
def test_the_choice_of_the_pool_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pools occur, and how often each does differs by no more than epsilon allows."""
    chosen: list[int] = []
    plain = spreading.pool_size

    def noted(drawn: Mapping[Variant, int]) -> int:
        chosen.append(plain(drawn))
        return chosen[-1]

    monkeypatch.setattr(synthetic, "pool_size", noted)
    finding = audit.audit(_numbers_of_variants(monkeypatch), 200, delta=float(DELTA), alpha=ALPHA)
    assert not finding.refutes(float(EPSILON))
    assert min(Counter(chosen)[pool] for pool in (1, 50)) >= 40


@pytest.mark.slow
def test_a_pool_by_the_true_variants_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the pool is large if the log has more than 16 variants, so one person decides."""
    model = synthetic.residual_model
    true_variants: list[int] = []

    def noted(table: VariantCounts, *rest: Any) -> Any:
        true_variants.append(len(table.variants))
        return model(table, *rest)

    monkeypatch.setattr(synthetic, "residual_model", noted)
    monkeypatch.setattr(synthetic, "pool_size", lambda _: 50 if true_variants[-1] > len(MANY_VARIANTS) else 1)
    finding = audit.audit(_numbers_of_variants(monkeypatch), 100, delta=float(DELTA), alpha=ALPHA)
    assert finding.refutes(float(EPSILON))


def test_a_near_candidate_moves_one_case_only() -> None:
    """One case more changes one cell by one, whatever the candidates."""
    rng = np.random.default_rng(1)
    listed = [tuple(rng.integers(0, 4, rng.integers(0, 9)).tolist()) for _ in range(40)]
    whole = [tuple(rng.integers(0, 4, rng.integers(0, 12)).tolist()) for _ in range(100)]
    counts = np.bincount(candidates.nearest(whole, listed), minlength=len(listed))
    for less in range(0, 100, 7):
        fewer = np.bincount(candidates.nearest(whole[:less] + whole[less + 1 :], listed), minlength=len(listed))
        assert np.abs(counts - fewer).sum() == 1
