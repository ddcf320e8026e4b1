"""The counts of dp-model: shares, chosen weights, drawn noise, consistency, and intervals against their definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.dp import process_map
from models.dp.noise import simulated
from models.dp.privacy_loss import gaussian_distance
from models.dp.process_map import (
    NoisyNorms,
    NoisyNumber,
    NoisyStages,
    map_design,
    release_map,
    usual_case_weight,
    usual_shares,
)
from models.dp.strict import Terms
from models.dp.synthesis import contexts, drawn_times, times
from models.dp.synthesis.spreading import Spread
from models.dp.synthesis.table import VariantCounts
from models.dp.synthetic import Design, StageBudget
from models.errors import InputError
from models.eventlog import EventLog
from tests.unit.known_noise import DAY_MS, EqualNoise, RecordingNoise, timed_log

NAMES = ("a", "b", "c")
LOG = EventLog.from_traces([*[("abc", None)] * 300, *[("ac", None)] * 200, *[("abbbbbbbbbbbbbbbbbbbbc", None)] * 20])
TRUE = {("start", "a"): 520, ("a", "b"): 320, ("b", "b"): 380, ("b", "c"): 320, ("a", "c"): 200, ("c", "end"): 520}


def _place(name: str) -> int:
    return 3 if name in ("start", "end") else NAMES.index(name)


def test_the_whole_account_goes_to_cases_variants_steps_and_labels() -> None:
    """A twentieth each to the cases, to variants and to selected labels; shares add up to 1 exactly."""
    twentieth = Fraction(1, 20)
    for labels in (False, True):
        shares = usual_shares(labels=labels)
        assert shares.weights == shares.variants == twentieth
        assert shares.labels == twentieth * int(labels)
        assert shares.times == 0
        assert shares.labels + shares.variants + shares.model + shares.weights == 1


@pytest.mark.parametrize("weight", [None, 7])
def test_noise_of_a_release_is_that_of_its_budget(weight: int | None) -> None:
    """One Laplace draw for the cases, then Gaussian noise for each of the three variants, for each range of norms if no
    B is declared, and for each pair of the four places, in proportion to B. Norms have a 24th of the rho of steps."""
    source = RecordingNoise(seed=3)
    design = map_design(activities=NAMES, case_weight=weight)
    released = release_map(
        LOG, epsilon="2", delta_dp="1e-4", design=design, adapt_weight=weight is None, cases_per_person=2, draw=source
    )
    budget = StageBudget.of(Terms.of("2", "1e-4", 2), design)
    used = released.steps.case_weight
    assert used == weight if weight else 2 <= used < 24
    cases_scale = 2 / float(process_map.epsilon_of_cases(budget))
    variants_scale = 2 / math.sqrt(2 * float(budget.rho("variants")))
    rho = float(budget.rho("model"))
    of_steps = rho if weight else rho * 23 / 24
    expected = [(cases_scale, 1), (variants_scale, 3), (used * contexts.UNIT * 2 / math.sqrt(2 * of_steps), 16)]
    if not weight:
        expected.insert(2, (contexts.UNIT * 2 / math.sqrt(2 * rho / 24), 9))
    assert source.asked == [(pytest.approx(scale), size) for scale, size in expected]


def test_few_cases_have_no_variants_counted() -> None:
    """Below four thresholds the steps have the part of the variants, and nothing is drawn for these."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES)
    budget = StageBudget.of(terms, design)
    threshold = budget.frequent(terms).threshold
    assert process_map.budget_after_cases(4 * threshold, budget, terms) == budget
    without = process_map.budget_after_cases(4 * threshold - 1, budget, terms)
    assert without.variants == 0
    assert without.rho("model") == budget.rho("variants") + budget.rho("model")

    few = VariantCounts.of(EventLog.from_traces([("abc", None)] * (4 * threshold - 1)), NAMES)
    source = EqualNoise(0)
    noisy = process_map.noisy_stages(few, design, budget, terms, source)
    rho = float(without.rho("model"))
    norms_scale = contexts.UNIT / math.sqrt(2 * rho / 24)
    steps_scale = noisy.case_weight * contexts.UNIT / math.sqrt(2 * rho * 23 / 24)
    assert source.asked == [
        (pytest.approx(1 / float(budget.pure("weights"))), 1),
        (pytest.approx(norms_scale), 9),
        (pytest.approx(steps_scale), 16),
    ]
    assert (noisy.variants, noisy.variants_deviation) == ({}, 0.0)


def test_the_level_lacks_the_cases_of_frequent_variants() -> None:
    """Their noisy counts are known; all other cases are in the level, with their weights."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES, case_weight=24)
    budget = StageBudget.of(terms, design)
    log = EventLog.from_traces([*[("abc", None)] * 2_000, *[("ac", None)] * 20])
    noisy = process_map.noisy_stages(
        VariantCounts.of(log, NAMES), design, budget, terms, EqualNoise(7), adapt_weight=False
    )
    assert noisy.cases.count == 2_027
    assert noisy.variants == {(0, 1, 2): 2_007}
    assert noisy.variants_deviation == pytest.approx(1 / math.sqrt(2 * float(budget.rho("variants"))))
    assert noisy.cases_deviation == process_map.cases_deviation(budget, terms)
    of_others = np.zeros((4, 4), dtype=np.int64)
    for place in ((3, 0), (0, 2), (2, 3)):
        of_others[place] = 20 * contexts.UNIT
    assert (noisy.level.cells == of_others + 7).all()


def test_steps_of_a_frequent_variant_have_the_interval_of_its_count() -> None:
    """A case of `abb` adds one step to three pairs and two to none; of `aab` two steps of one pair would count double.

    1.959964 is the normal quantile of .975; the level adds its own noise to every pair."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES, case_weight=24, sample=50)
    budget = StageBudget.of(terms, design)
    frequent = (0, 1, 1, 1)
    table = VariantCounts.of(EventLog.from_traces([("abbb", None)] * 2_000), NAMES)
    noisy = process_map.noisy_stages(table, design, budget, terms, EqualNoise(0), adapt_weight=False)
    assert noisy.variants == {frequent: 2_000}
    steps = process_map.consistent_steps(noisy, NAMES, design, simulated(1))
    assert abs(steps.traces[frequent] - 2_000) <= 20
    for place, times_taken in {(3, 0): 1, (0, 1): 1, (1, 1): 2, (1, 3): 1, (2, 1): 0}.items():
        margin = 1.959964 * math.hypot(steps.deviation, times_taken * noisy.variants_deviation)
        count = int(steps.counts[place])
        assert steps.low[place] == min(math.floor(max(2_000 * times_taken - margin, 0)), count)
        assert steps.high[place] == max(math.ceil(2_000 * times_taken + margin), count)


def test_each_pair_is_stretched_by_the_cases_that_have_it() -> None:
    """A case of seven `b` weighs 1 / sqrt(38) with a B of 1: it has one step to the first `b`, six between them, and
    one to the end. Ten cases of `a` weigh 1 / sqrt(2) each. A pair that no trace has is stretched by the mean, all
    steps to all weights. 1.959964 is the normal quantile of .975."""
    level = contexts.ContextLevel(np.arange(4), np.zeros((4, 4), dtype=np.int64), np.full(4, 3.0 * contexts.UNIT))
    noisy = NoisyStages(NoisyNumber(11, 11, 11), 1.0, {}, 0.0, level, 1)
    low, high = process_map._intervals(noisy, [(0,), (1,) * 7], np.asarray([10, 1]))
    deviation = 3.0 * math.sqrt(2)
    rare, common = math.sqrt(38), math.sqrt(2)
    mean = 28 / (20 / common + 8 / rare)
    for place, steps, stretch in (((3, 1), 1, rare), ((1, 1), 6, rare), ((3, 0), 10, common), ((2, 1), 0, mean)):
        missing = 0.5 * (steps - steps / stretch)
        assert high[place] == math.ceil(1.959964 * math.hypot(deviation * stretch, missing))
    assert not low.any()


def test_traces_are_drawn_and_fitted_otherwise_beside_frequent_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of all cases pay by their labels, those of other cases 1.3 times what the number of labels asks for. If
    B leaves out half of their steps, a second model is built of numbers of steps."""
    used: list[Any] = []
    plain = {name: getattr(process_map, name) for name in ("thinned", "thinned_by_labels", "fitted")}

    def thinned(level: contexts.ContextLevel, price: float, ratios: Any = None) -> Any:
        used.append(("price", price) if ratios is None else ("price of steps", price))
        return plain["thinned"](level, price, ratios)

    def thinned_by_labels(level: contexts.ContextLevel) -> Any:
        used.append("by labels")
        return plain["thinned_by_labels"](level)

    def fitted(prior: Any, cells: Any, faith: float) -> Any:
        used.append(("prior", faith, len(prior)))
        return plain["fitted"](prior, cells, faith)

    monkeypatch.setattr(process_map, "thinned", thinned)
    monkeypatch.setattr(process_map, "thinned_by_labels", thinned_by_labels)
    monkeypatch.setattr(process_map, "fitted", fitted)
    design = map_design(activities=NAMES, sample=50)
    cells = np.zeros((4, 4), dtype=np.int64)
    cells[[3, 0, 1], [0, 1, 3]] = 500 * contexts.UNIT
    level = contexts.ContextLevel(np.arange(4), cells, np.full(4, 1.0 * contexts.UNIT))
    variant = {(0, 2): 40}
    for variants, left_out, expected in (
        (variant, 0.49, [("price", 1.3), ("prior", 0.03, 2)]),
        (variant, 0.5, [("price", 1.3), ("price of steps", 1.3), ("prior", 0.03, 2)]),
        ({}, 0.5, ["by labels", ("prior", 0.1, 1)]),
    ):
        noisy = NoisyStages(NoisyNumber(500, 0, 500), 1.0, variants, 1.0, level, 2, left_out)
        process_map.consistent_steps(noisy, NAMES, design, simulated(1))
        assert used == expected
        used.clear()


def test_a_second_model_has_the_steps_that_the_bound_leaves_out() -> None:
    """Of 4,000 other cases of different loops of `b`, B leaves out most steps: the first model draws shorter loops. The
    loops of the second one are nearer to the true part of steps from `b` to `b`."""
    traces = [("a" + "b" * n + "c", None) for n in range(2, 42) for _ in range(100)]
    log = EventLog.from_traces(traces)
    table, terms = VariantCounts.of(log, NAMES), Terms.of("1", "1e-6")
    true = process_map._step_cells(table.variants, table.counts, 3)
    design = map_design(activities=NAMES, case_weight=2)
    noisy = process_map.noisy_stages(
        table, design, StageBudget.of(terms, design).without_variants(), terms, EqualNoise(), adapt_weight=False
    )
    far = {}
    for left_out in (0.4, 0.6):
        drawn, cases = process_map._drawn(replace(noisy, variants={(0,): 1}, left_out=left_out), design, simulated(1))
        steps = process_map._step_cells(list(drawn), np.asarray(list(drawn.values())), 3)
        far[left_out] = abs(steps[1, 1] / steps.sum() - true[1, 1] / true.sum())
        assert cases > 0
    assert far[0.6] < far[0.4] / 2


def test_steps_that_a_bound_leaves_out_follow_from_norms() -> None:
    """1 - B / m of the m^1.3 steps of a case of norm m; numbers below two deviations count as 0."""
    norms = _norms(range_4=10.0, range_8=2.0, range_7=1.9)
    of_seven, of_thirty_two = 10 * 7**1.3, 2 * 32**1.3
    assert norms.steps().tolist() == pytest.approx([0, 0, 0, 0, of_seven, 0, 0, 0, of_thirty_two])
    left_out = norms.left_out(np.asarray([2, 7, 16, 40]))
    expected = [of_seven * 5 / 7 + of_thirty_two * 30 / 32, of_thirty_two * 25 / 32, of_thirty_two / 2, 0]
    assert left_out.tolist() == pytest.approx(expected)
    assert process_map._part_left_out(norms, 16) == pytest.approx(of_thirty_two / 2 / (of_seven + of_thirty_two))
    assert process_map._part_left_out(_norms(), 16) == 0.0


def test_a_frequent_variant_without_events_has_no_trace() -> None:
    """Its cases are known, and a map has no place for them."""
    near = Spread(((0,), (1,)), np.zeros(2, dtype=np.int64), np.asarray([5.0, 3.0]))
    both = process_map._with_variants(near, {(): 40, (1,): 30, (2,): 20})
    assert dict(zip(both.traces, both.cases.tolist(), strict=True)) == {(0,): 5.0, (1,): 30.0, (2,): 20.0}
    assert both.cell.tolist() == [0, 0, 0]


def test_the_budget_covers_every_case_weight() -> None:
    """Discrete noise of the least B has the largest distance, and the budget counts that one."""
    terms = Terms.of("1", "1e-6")
    design = map_design(activities=NAMES)
    budget = StageBudget.of(terms, design)
    counted = budget.composition(terms, design)
    for weight in (2, 3, 10, 24):
        drawn = budget.composition(terms, map_design(activities=NAMES, case_weight=weight))
        assert drawn.distance <= counted.distance
        assert drawn.pure == counted.pure
    assert counted.delta(Fraction(1)) <= float(budget.delta_composed)


def test_case_weight_grows_with_cases_and_falls_with_noise_and_labels() -> None:
    """It is within its range, and 3 for a log of no cases."""
    terms = Terms.of("1", "1e-6")
    rho = StageBudget.of(terms, map_design(activities=NAMES)).rho("model")
    deviation = 1 / math.sqrt(2 * float(rho))
    usual = [usual_case_weight(cases, 10, rho, terms) for cases in (0, 1_000, 4_000, 10**7)]
    assert usual[0] == 3
    assert usual[1] == round(1.5 * math.sqrt(1_000 / (deviation * 10)))
    assert usual_case_weight(100, 1, rho, terms) == round(1.5 * math.sqrt(100 / deviation))
    assert usual[0] <= usual[1] < usual[2] < usual[3] == 24
    assert usual_case_weight(4_000, 40, rho, terms) < usual[2]
    assert usual_case_weight(4_000, 10, rho, Terms.of("1", "1e-6", 3)) < usual[2]


def test_a_case_is_in_the_range_of_the_norm_of_its_steps() -> None:
    """`abb` takes four different steps, so its norm is 2; a case of 25 `a` takes 24 equal steps and two others.
    Frequent variants are left out."""
    terms, rho = Terms.of("1", "1e-4"), Fraction(1, 2)
    log = EventLog.from_traces([*[("abb", None)] * 7, *[("a" * 25, None)] * 5, *[("abc", None)] * 90])
    table = VariantCounts.of(log, NAMES)
    norms = process_map.measure_norms(table, {(0, 1, 2): 80}, rho, terms, EqualNoise(0))
    assert norms.cases.tolist() == [7, 0, 0, 0, 0, 0, 0, 0, 5]
    assert norms.deviation == 1  # 1 / sqrt(2 rho), for one case
    of_three = process_map.measure_norms(table, {}, rho, Terms.of("1", "1e-4", 3), EqualNoise(-contexts.UNIT))
    assert of_three.cases.tolist() == [96, -1, -1, -1, -1, -1, -1, -1, 4]
    assert of_three.deviation == 3


def test_ranges_of_norms_begin_above_the_end_of_the_one_before() -> None:
    """A case of n `a` takes n - 1 equal steps and two others. So 3 has a norm of 2.4, 4 of 3.3, 5 of 4.2, and 24 and 25
    of 23.04 and 24.04: for each end of a range there is a norm within one below it, and one within one above it."""
    ranges = {1: 0, 3: 1, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 5, 12: 5, 13: 6, 16: 6, 17: 7, 24: 7, 25: 8}
    traces = [(0,) * length for length in ranges]
    assert process_map._ranges_of_norms(traces, 1).tolist() == list(ranges.values())


def test_each_range_of_norms_has_its_own_norm() -> None:
    """The norm of a range is in it, so a B at the upper end of the range caps none of its cases. That of
    the first one is its end, up to which nobody is capped. The others have their middle, which the last
    range has not."""
    ends = (0, *process_map.NORM_ENDS, math.inf)
    norms = process_map.NORMS
    assert len(norms) == len(ends) - 1
    assert all(low < norm <= high for low, norm, high in zip(ends[:-1], norms, ends[1:], strict=True))
    assert norms[0] == ends[1]
    assert norms[1:-1] == tuple((low + high) / 2 for low, high in itertools.pairwise(process_map.NORM_ENDS))


def _norms(**cases: float) -> NoisyNorms:
    """So many cases in ranges that are named by their place, and a deviation of 1."""
    numbers = np.zeros(9)
    for name, number in cases.items():
        numbers[int(name.removeprefix("range_"))] = number
    return NoisyNorms(numbers, 1.0)


def test_case_weight_leaves_out_few_steps_for_little_noise() -> None:
    """With hardly any noise no case is capped, with much noise B is the least one, and between them it falls with the
    noise and with the labels, which have more cells of noise. Ranges of two cases or more count."""

    def weight(norms: NoisyNorms, variance: int | Fraction, labels: int = 10, persons_cases: int = 1) -> int:
        terms = Terms.of("1", "1e-6", persons_cases)
        return process_map.case_weight_by_norms(norms, 2, labels, Fraction(1) / variance, terms)

    little, much = Fraction(1, 10**6), 10**6
    of_seven = _norms(range_4=1_000.0)
    assert weight(of_seven, little) == 7
    assert weight(of_seven, much) == 2
    assert process_map.case_weight_by_norms(of_seven, 4, 10, Fraction(1, much), Terms.of("1", "1e-6")) == 4
    assert weight(_norms(range_4=2.0), little) == 7
    assert weight(_norms(range_4=1.9), little) == 2
    long = _norms(range_4=1_000.0, range_8=1_000.0)
    found = [weight(long, variance) for variance in (10, 10**3, 10**5)]
    assert 24 == found[0] > found[1] > found[2] == 2
    assert weight(long, 10, labels=100) < 24
    assert weight(long, 10**3, persons_cases=3) < found[1]


def test_case_weight_weighs_what_is_left_out_against_the_noise() -> None:
    """A case of norm 32 has 32^1.3 steps and leaves out 1 / 32 of them for each unit of B that is missing. A unit of B
    costs 13 deviations for each of ten labels. So B is the largest one up to a deviation, and the least one beyond."""
    balance = 100 * 32**0.3 / 130
    for factor, weight in ((0.99, 24), (1.01, 2)):
        rho = Fraction(1 / (2 * (balance * factor) ** 2))
        terms = Terms.of("1", "1e-6")
        assert process_map.case_weight_by_norms(_norms(range_8=100.0), 2, 10, rho, terms) == weight


def test_a_log_of_short_cases_has_a_small_case_weight() -> None:
    """Twelve thousand cases alone would ask for a B of 24, whatever their norms. It is 2 if variants are frequent, 4 if
    none is. A declared B is used as it is."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES)
    budget = StageBudget.of(terms, design)
    table = VariantCounts.of(EventLog.from_traces([("abc", None), ("acb", None), ("bac", None)] * 4_000), NAMES)
    assert usual_case_weight(12_000, 3, budget.rho("model"), terms) == 24
    assert process_map.noisy_stages(table, design, budget, terms, simulated(1)).case_weight == 2
    without = process_map.noisy_stages(table, design, budget.without_variants(), terms, simulated(1))
    assert (without.variants, without.case_weight) == ({}, 4)
    declared = map_design(activities=NAMES, case_weight=9)
    noisy = process_map.noisy_stages(table, declared, budget, terms, simulated(1), adapt_weight=False)
    assert (noisy.case_weight, noisy.left_out) == (9, 0.0), "no norms are counted"


@pytest.mark.parametrize(("usual", "has_norms"), [(4, False), (5, True)])
def test_norms_are_counted_where_they_may_lower_the_case_weight(
    usual: int, has_norms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without frequent variants the least B is 4. Norms of long cases never raise the B of the number of cases."""
    monkeypatch.setattr(process_map, "usual_case_weight", lambda *_: usual)
    terms, design = Terms.of("100", "1e-3"), map_design(activities=NAMES)
    budget = StageBudget.of(terms, design).without_variants()
    table = VariantCounts.of(EventLog.from_traces([("ab" * 30, None)] * 500), NAMES)
    source = RecordingNoise(seed=3)
    noisy = process_map.noisy_stages(table, design, budget, terms, source)
    assert noisy.case_weight == usual
    assert [size for _, size in source.asked] == [1, *[9] * has_norms, 16]


def test_without_noise_counts_are_the_true_ones() -> None:
    """Also the steps of the cases of which the level has a part only."""
    design = map_design(activities=NAMES, case_weight=24)
    steps = release_map(
        LOG, epsilon="100", delta_dp="1e-3", design=design, adapt_weight=False, draw=EqualNoise(seed=5)
    ).steps
    assert steps.labels == NAMES
    assert steps.cases.count == 520
    for (before, after), true in TRUE.items():
        place = _place(before), _place(after)
        assert abs(int(steps.counts[place]) - true) <= 0.08 * true
        assert steps.low[place] <= true <= steps.high[place]


def test_counts_are_whole_consistent_and_within_their_intervals() -> None:
    """The entries of each label are its exits, however strong the noise is."""
    for seed in range(5):
        steps = release_map(
            LOG, epsilon="0.5", delta_dp="1e-3", design=map_design(activities=NAMES), draw=simulated(seed)
        ).steps
        assert steps.counts.dtype == np.int64
        assert (steps.counts.sum(axis=0) == steps.counts.sum(axis=1)).all()
        assert (steps.counts >= 0).all()
        assert (steps.low <= steps.counts).all()
        assert (steps.counts <= steps.high).all()
        assert (steps.low >= 0).all()


@pytest.mark.parametrize("cases_a_threshold", [0, 10**6])
def test_intervals_cover_the_steps_that_a_level_has_in_full(
    cases_a_threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of cases that are not capped: 95 %, over 200 draws of 9 pairs. A share below .92 has chance 1e-8 at .95. Both
    variants are counted, or both are in the level."""
    monkeypatch.setattr(process_map, "CASES_A_THRESHOLD", cases_a_threshold)
    log = EventLog.from_traces([*[("abc", None)] * 600, *[("acb", None)] * 400])
    true = np.zeros((4, 4), dtype=np.int64)
    for (before, after), number in {
        (3, 0): 5,
        (0, 1): 3,
        (1, 2): 3,
        (2, 3): 3,
        (0, 2): 2,
        (2, 1): 2,
        (1, 3): 2,
    }.items():
        true[before, after] = number * 200
    terms, design = Terms.of("1", "1e-6"), map_design(activities=NAMES, sample=100)
    budget = StageBudget.of(terms, design)
    covered, cases = [], []
    for seed in range(200):
        steps = process_map.map_within(log, terms, budget, design, simulated(seed)).steps
        occurs = true > 0
        covered.append(((steps.low <= true) & (true <= steps.high))[occurs].mean())
        cases.append(steps.cases.low <= 1_000 <= steps.cases.high)
    assert 0.92 <= float(np.mean(covered)) <= 0.98
    assert 0.90 <= float(np.mean(cases)) <= 0.99


def test_parameters_that_are_not_given_are_those_of_a_log() -> None:
    """Labels are selected, contexts have one label, and the budget counts a B of 2, the least, or a declared one."""
    assert map_design() == Design(order=1, case_weight=2, sample=20_000, shares=usual_shares(labels=True))
    assert map_design(case_weight=5).case_weight == 5


def _of_level(
    table: VariantCounts, budget: StageBudget, terms: Terms, design: Design, noise: int, cases: NoisyNumber
) -> NoisyStages:
    """The level of all cases, every cell with the same noise, and no frequent variant."""
    level = process_map.measure_steps(table, {}, budget.rho("model"), terms, design, EqualNoise(noise))
    return NoisyStages(cases, process_map.cases_deviation(budget, terms), {}, 0.0, level, design.case_weight)


@pytest.mark.parametrize(("epsilon", "cases"), [("1", 400), ("100", 2)])
def test_an_interval_is_stretched_by_what_the_level_lacks(epsilon: str, cases: int) -> None:
    """Cases of one trace with a B of 1: each of the four steps weighs a half, so the noise counts twice, and half
    of what the level lacks is added. Pairs that no trace has are as likely of capped cases: their noise counts twice
    too. The interval begins at that of the level as it was measured, if this is less. 1.959964 is the normal quantile
    of .975."""
    terms, design = Terms.of(epsilon, "1e-4"), map_design(activities=NAMES, case_weight=1, sample=50)
    budget = StageBudget.of(terms, design)
    table = VariantCounts.of(EventLog.from_traces([("abc", None)] * cases), NAMES)
    noisy = _of_level(table, budget, terms, design, 0, NoisyNumber(cases, cases, cases))
    steps = process_map.consistent_steps(noisy, NAMES, design, simulated(1))
    ((trace, number),) = steps.traces.items()
    assert (trace, abs(number - cases) <= 2) == ((0, 1, 2), True)
    deviation = 1 / math.sqrt(2 * float(budget.rho("model")))
    assert steps.deviation == pytest.approx(deviation)
    margin = 1.959964 * math.hypot(2 * deviation, number / 4)
    for before, after in ((3, 0), (0, 1), (1, 2), (2, 3)):
        assert steps.counts[before, after] == number
        least = min(cases - margin, cases / 2 - 1.959964 * deviation)
        assert steps.low[before, after] == min(math.floor(max(least, 0)), number)
        assert steps.high[before, after] == math.ceil(cases + margin)
    assert steps.counts[1, 0] == steps.low[1, 0] == 0
    assert steps.high[1, 0] == math.ceil(1.959964 * 2 * deviation)


def test_an_interval_holds_the_measured_one_and_the_stretched_one() -> None:
    """A case of five `a` with a B of 1 weighs 1 / sqrt(18), so the steps to its first `a` are stretched by sqrt(18).
    The one of two intervals that is lower, or higher, gives the end. 1.959964 is the normal quantile of .975."""
    stretch, trace = math.sqrt(18), (0,) * 5

    def interval(cell: float, deviation: float, variants: dict[tuple[int, ...], int], cases: int) -> tuple[int, int]:
        cells = np.zeros((2, 2), dtype=np.int64)
        cells[1, 0] = cell * contexts.UNIT
        scale = np.full(2, deviation * contexts.UNIT / contexts.LAPLACE)
        level = contexts.ContextLevel(np.arange(2), cells, scale)
        noisy = NoisyStages(NoisyNumber(cases, 0, cases), 1.0, variants, 50.0, level, 1)
        low, high = process_map._intervals(noisy, [trace], np.asarray([cases]))
        return int(low[1, 0]), int(high[1, 0])

    # A negative cell moves farther down if it is stretched, and the noise of a variant stays.
    low, high = interval(-15, 10, {(0,): 100}, 1)
    margin = 1.959964 * math.hypot(10 * stretch, 0.5 * (1 - 1 / stretch), 50)
    assert low == 0 == math.floor(max(100 - 15 * stretch - margin, 0))
    assert high == math.ceil(100 - 15 + 1.959964 * math.hypot(10, 50)) > math.ceil(100 - 15 * stretch + margin)

    # If fitted traces lack little in the level, the measured interval is lower; else the stretched one is.
    for cases, stretched_is_lower in ((10, False), (1_000, True)):
        low, high = interval(200, 1, {}, cases)
        margin = 1.959964 * math.hypot(stretch, 0.5 * cases * (1 - 1 / stretch))
        stretched_low, measured_low = 200 * stretch - margin, 200 - 1.959964
        assert low == math.floor(min(stretched_low, measured_low))
        assert (stretched_low < measured_low) is stretched_is_lower
        assert high == math.ceil(200 * stretch + margin)


@pytest.mark.parametrize("epsilon", ["0.2", "1", "4"])
def test_intervals_keep_their_promise_if_b_is_the_norm_of_every_case(epsilon: str) -> None:
    """No case is capped, though drawn traces with repeated steps are: the intervals cover 95 % at least. Over 100 draws
    of 7 pairs a share below .92 has chance 1e-4 at .95."""
    true = np.zeros((4, 4), dtype=np.int64)
    for trace, cases in (((0, 1, 2), 600), ((0, 2, 1), 400)):
        for before, after in zip((3, *trace), (*trace, 3), strict=True):
            true[before, after] += cases
    log = EventLog.from_traces([*[("abc", None)] * 600, *[("acb", None)] * 400])
    terms, design = Terms.of(epsilon, "1e-6"), map_design(activities=NAMES, case_weight=2, sample=100)
    budget = StageBudget.of(terms, design).without_variants()
    covered = []
    for seed in range(100):
        steps = process_map.map_within(log, terms, budget, design, simulated(seed), adapt_weight=False).steps
        assert steps.case_weight == 2
        covered.append(((steps.low <= true) & (true <= steps.high))[true > 0].mean())
    assert float(np.mean(covered)) >= 0.92


@pytest.mark.parametrize("number", [5, 9_000])
def test_an_interval_holds_its_count_though_it_is_far_from_the_cell(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit of all cells may be outside of the interval of one: 400 cases in the cells, and other ones fitted."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES, case_weight=1, sample=50)
    budget = StageBudget.of(terms, design)
    table = VariantCounts.of(EventLog.from_traces([("abc", None)] * 400), NAMES)
    noisy = _of_level(table, budget, terms, design, 0, NoisyNumber(400, 400, 400))
    monkeypatch.setattr(process_map, "MISSING_DEVIATION", 0.0)
    monkeypatch.setattr(process_map, "_fitted_traces", lambda *_: ([(0, 1, 2)], np.asarray([number])))
    steps = process_map.consistent_steps(noisy, NAMES, design, simulated(1))
    for place in ((3, 0), (0, 1), (1, 2), (2, 3)):
        assert steps.counts[place] == number
        assert steps.low[place] <= number <= steps.high[place]


def test_an_interval_below_zero_is_zero() -> None:
    """Of a pair whose noisy count is ten deviations below 0."""
    terms, design = Terms.of("1", "1e-4"), map_design(activities=NAMES)
    budget = StageBudget.of(terms, design)
    table = VariantCounts.of(EventLog.from_traces([("abc", None)]), NAMES)
    deviation = 2 * contexts.UNIT / math.sqrt(2 * float(budget.rho("model")))
    noisy = _of_level(table, budget, terms, design, round(-10 * deviation), NoisyNumber(1, 0, 9))
    steps = process_map.consistent_steps(noisy, NAMES, design, simulated(1))
    assert not steps.low.any()
    assert not steps.high.any()


def test_the_number_of_cases_is_a_cell_of_every_trace() -> None:
    """Its noise is discrete Laplace noise: a deviation of the square root of two scales."""
    near = Spread(((0,), (1,), (0, 1)), np.zeros(3, dtype=np.int64), np.asarray([1.0, 2.0, 3.0]))
    cell = process_map._number_of_cases(near, NoisyNumber(40, 30, 50), 2.5)
    assert cell.of.toarray().tolist() == [[1.0, 1.0, 1.0]]
    assert cell.misfit(near.cases).tolist() == [(6 - 40) / 2.5]
    terms = Terms.of("1", "1e-6", 3)
    budget = StageBudget.of(terms, map_design(activities=NAMES))
    scale = 3 / float(process_map.epsilon_of_cases(budget))
    assert process_map.cases_deviation(budget, terms) == pytest.approx(math.sqrt(2) * scale)


@pytest.mark.parametrize(("weight", "noise"), [(4_000.0, 5.0), (100.0, 5.0), (0.9, 0.05), (2.0, 5.0), (0.0, 5.0)])
def test_the_interval_of_a_median_is_that_of_the_share_below_it(weight: float, noise: float) -> None:
    """Of 21 equal bins with noise of deviation s each: a share of a half has the deviation s sqrt(21 / 4) / weight."""
    shape = np.full(21, 1 / 21)
    margin = min(1.959964 * noise * math.sqrt(21 / 4) / weight, 0.5) if weight else 0.5
    found = process_map._median(shape, weight, noise, BOUNDS, is_readable=False)
    at = np.asarray([0.5, 0.5 - margin, 0.5 + margin])
    expected = drawn_times.quantiles(shape, BOUNDS.step_edges, at)
    assert [found.median, found.low, found.high] == pytest.approx(expected.tolist(), rel=1e-4)
    assert not found.is_readable


def test_the_interval_of_the_cases_is_that_of_the_noise() -> None:
    """Three scales to both sides, since exp(-3) is .05; never below 0."""
    terms = Terms.of("1", "1e-6")
    budget = StageBudget.of(terms, map_design(activities=NAMES))
    table = VariantCounts.of(LOG, NAMES)
    margin = math.ceil(math.log(20) / float(process_map.epsilon_of_cases(budget)))
    assert process_map.count_cases(table, budget, terms, EqualNoise(5)) == NoisyNumber(525, 525 - margin, 525 + margin)
    none = process_map.count_cases(table, budget, terms, EqualNoise(-520))
    assert none == NoisyNumber(0, 0, margin)


def test_a_log_of_noise_alone_gives_an_empty_map() -> None:
    """No trace is drawn from a model of nothing; the intervals remain."""
    empty = EventLog.from_traces([((), None)] * 5)
    without_noise = release_map(
        empty, epsilon="1", delta_dp="1e-6", design=map_design(activities=NAMES), draw=EqualNoise(0)
    )
    steps = without_noise.steps
    assert not steps.counts.any()
    assert not steps.low.any()
    assert (steps.high > 0).all()
    (warning,) = without_noise.operator["warnings"]
    assert warning.startswith("the noisy number of cases is 0: the counts of this map are mostly noise")
    assert release_map(empty, epsilon="1", delta_dp="1e-6", design=map_design(activities=NAMES)).private


def test_no_label_may_leave() -> None:
    """The map is then of start and end alone, and the operator learns it."""
    log = EventLog.from_traces([("ab", None)])
    released = release_map(log, epsilon="1", delta_dp="1e-6", design=map_design(), draw=simulated(1))
    assert released.selected_labels == ()
    assert released.steps.counts.shape == (1, 1)
    assert released.operator["warnings"] == [
        "no event of the log has a label that may leave: declare activities, or raise epsilon"
    ]


def test_labels_of_an_earlier_release_are_kept() -> None:
    """The release selects none, and variants and steps divide the rho of the labels too. Without `b` all cases have
    one variant."""
    source = RecordingNoise(seed=3)
    released = release_map(LOG, epsilon="1", delta_dp="1e-4", design=map_design(), draw=source, kept_labels=("a", "c"))
    assert released.selected_labels == ("a", "c")
    budget = StageBudget.of(Terms.of("1", "1e-4"), map_design()).after_labels()
    variants_scale = 1 / math.sqrt(2 * float(budget.rho("variants")))
    rho = float(budget.rho("model"))
    steps_scale = released.steps.case_weight * contexts.UNIT / math.sqrt(2 * rho * 23 / 24)
    variants, _, steps = source.asked[1:]
    assert (variants, steps) == ((pytest.approx(variants_scale), 1), (pytest.approx(steps_scale), 9))


def test_dropped_events_are_reported_to_the_operator() -> None:
    """Counts of the source are the operator's alone."""
    released = release_map(
        LOG, epsilon="1", delta_dp="1e-4", design=map_design(activities=("a", "b")), draw=simulated(1)
    )
    assert released.operator["labels"] == {"may_leave": 2, "dropped_events": 520}
    assert released.operator["cases"] == {"in": 520, "out": released.steps.cases.count}
    assert not released.private, "the noise was seeded"
    assert released.operator["warnings"] == [
        f"520 of {LOG.n_events} events have labels that are not declared or not frequent enough, and were dropped: "
        "2 labels may leave"
    ]


def test_terms_that_cannot_be_drawn_are_refused() -> None:
    """Before any noise."""
    with pytest.raises(InputError, match="too small"):
        release_map(LOG, epsilon="1e-30", delta_dp="1e-6", design=map_design(activities=NAMES))


HOUR_MS = 3_600_000
BOUNDS = times.PublicTimeBounds(30 * DAY_MS)
TIMED = timed_log(*[("abc", (0, HOUR_MS, 49 * HOUR_MS))] * 400, *[("ac", (0, 5 * HOUR_MS))] * 200, ("cb", (0, HOUR_MS)))


def test_half_of_the_account_goes_to_times() -> None:
    """If they are released; the steps give it."""
    shares = usual_shares(labels=True, times=True)
    assert (shares.times, shares.weights, shares.labels) == (Fraction(1, 2), Fraction(1, 20), Fraction(1, 20))
    assert shares.variants == Fraction(1, 20)
    assert shares.model == Fraction(7, 20)


def test_medians_without_noise_are_near_the_true_ones() -> None:
    """Within a bin, whose edges differ by a factor of 2.1; the interval is around the median."""
    design = map_design(activities=NAMES, bounds=BOUNDS)
    released = release_map(TIMED, epsilon="100", delta_dp="1e-3", design=design, draw=EqualNoise(seed=5))
    found = released.times
    assert found is not None
    true = {(0, 1): HOUR_MS, (1, 2): 48 * HOUR_MS, (0, 2): 5 * HOUR_MS}
    for pair, median in true.items():
        assert median / 2.2 < found.steps[pair].median < median * 2.2
        assert found.steps[pair].low <= found.steps[pair].median <= found.steps[pair].high
        assert found.steps[pair].is_readable
    assert 49 * HOUR_MS / 1.5 < found.throughput < 49 * HOUR_MS * 1.5
    assert found.throughput <= found.throughput_90 < 49 * HOUR_MS * 1.5


def test_throughput_times_of_a_map_are_pulled_towards_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map has no drawn cases that could predict them: every bin has the same share, and all together one."""
    parents, plain = [], drawn_times.throughput_shape

    def throughput_shape(noisy: Any, total: float, parent: Any) -> Any:
        parents.append(parent)
        return plain(noisy, total, parent)

    monkeypatch.setattr(drawn_times, "throughput_shape", throughput_shape)
    design = map_design(activities=NAMES, bounds=BOUNDS)
    release_map(TIMED, epsilon="1", delta_dp="1e-3", design=design, draw=EqualNoise(seed=5))
    (parent,) = parents
    assert parent == pytest.approx(np.full(len(BOUNDS.throughput_edges) - 1, parent[0]))
    assert parent.sum() == pytest.approx(1.0)


def test_intervals_of_medians_cover_them() -> None:
    """Durations are even on the scale of the bins, so that a median is where its bin is read to have it: .95 of 100
    draws and three pairs, less for shapes that are pulled to each other. Below .85 has chance 1e-8 at .95."""
    rng = np.random.default_rng(3)
    cases = []
    for number in range(1_500):
        first, second = (1000 * (BOUNDS.duration / 1000) ** rng.random(2)).astype(int).tolist()
        cases.append(("abc", (0, first, first + second)) if number % 3 else ("ac", (0, first)))
    log = timed_log(*cases)
    true: dict[tuple[int, int], list[int]] = {(0, 1): [], (1, 2): [], (0, 2): []}
    for trace, moments in cases:
        places = [NAMES.index(label) for label in trace]
        for k in range(1, len(places)):
            true[places[k - 1], places[k]].append(moments[k] - moments[k - 1])
    design = map_design(activities=NAMES, sample=50, bounds=BOUNDS)
    terms = Terms.of("1", "1e-6")
    budget = StageBudget.of(terms, design)
    covered = []
    for seed in range(100):
        found = process_map.map_within(log, terms, budget, design, simulated(seed)).times
        assert found is not None
        for pair, durations in true.items():
            median = found.steps.get(pair)
            covered.append(median is not None and median.low <= np.median(durations) <= median.high)
    assert float(np.mean(covered)) >= 0.85


def test_a_rare_pair_is_not_readable() -> None:
    """Its median would be that of other pairs."""
    design = map_design(activities=NAMES, bounds=BOUNDS)
    for seed in range(10):
        found = release_map(TIMED, epsilon="0.5", delta_dp="1e-3", design=design, draw=simulated(seed)).times
        assert found is not None
        assert not any(median.is_readable for pair, median in found.steps.items() if pair == (2, 1))


@pytest.mark.parametrize(("of_steps", "declared", "of_times"), [(2, None, 2), (18, None, 3), (None, 7, 7)])
def test_noise_of_times_is_in_proportion_to_their_bound(
    of_steps: int | None, declared: int | None, of_times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One draw for all histograms. Their B is half of that of the steps, or a declared one."""
    if of_steps:
        monkeypatch.setattr(process_map, "case_weight_by_norms", lambda *_: of_steps)
        monkeypatch.setattr(process_map, "usual_case_weight", lambda *_: of_steps)
    source = RecordingNoise(seed=3)
    design = map_design(activities=NAMES, bounds=BOUNDS, case_weight=declared)
    adapt = declared is None
    release_map(TIMED, epsilon="1", delta_dp="1e-4", design=design, adapt_weight=adapt, draw=source)
    budget = StageBudget.of(Terms.of("1", "1e-4"), design)
    assert source.asked[-1][0] == pytest.approx(times.case_norm(of_times) / math.sqrt(2 * float(budget.rho("times"))))


def test_the_budget_covers_every_bound_of_times() -> None:
    """Discrete noise of the least B has the largest distance, and the budget counts that one."""
    terms, design = Terms.of("1", "1e-6"), map_design(activities=NAMES, bounds=BOUNDS)
    budget = StageBudget.of(terms, design)
    (counted,) = [draw for draw in budget.draws(terms, design) if draw.sensitivity == design.times_norm]
    for case_weight in range(2, 25):
        weight = process_map.usual_time_weight(case_weight)
        assert weight == {2: 2, 3: 2, 4: 2, 5: 2}.get(case_weight, 3)
        norm = times.case_norm(weight)
        scale = budget.times_scale(terms, replace(design, case_weight=weight))
        assert gaussian_distance(scale, norm) <= gaussian_distance(counted.scale, counted.sensitivity)
    assert budget.composition(terms, design).delta(Fraction(1)) <= float(budget.delta_composed)
