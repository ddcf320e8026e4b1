"""Selection of labels in dp-synthetic against its definition, and the table of variants that all stages read."""

from __future__ import annotations

import itertools
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from models.dp import noise, zcdp
from models.dp.synthesis import labels
from models.dp.synthesis.labels import UNIT, LabelRule
from models.dp.synthesis.table import VariantCounts, merged, only
from models.errors import InputError
from models.eventlog import EventLog
from tests.unit.known_noise import EqualNoise


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


@lru_cache(maxsize=16)
def _tails(scale: float) -> np.ndarray:
    """P[N >= z] of the discrete Gaussian for z = 0, 1, ..., by the sum of its definition."""
    weights = np.exp(-(np.arange(round(12 * scale) + 6 * UNIT) ** 2) / (2 * scale**2))
    return np.cumsum(weights[::-1])[::-1] / (2 * weights.sum() - 1)


def _persons(cases: int, most: int) -> list[list[tuple[int, ...]]]:
    """Every person with so many cases: the labels of each, which nobody else has."""
    pool = range(cases * most)
    sets = [labels_ for k in range(1, most + 1) for labels_ in itertools.combinations(pool, k)]
    first = [tuple(range(k)) for k in range(1, most + 1)]
    return [[one, *others] for one in first for others in itertools.product(sets, repeat=cases - 1)]


def _shown(scale: float, least: int, person: list[tuple[int, ...]]) -> float:
    """Chance that some label of the person leaves, at most."""
    weight: Counter[int] = Counter()
    for case in person:
        for label in case:
            weight[label] += isqrt(UNIT**2 // len(case))
    return float(sum(_tails(scale)[least - units] for units in weight.values()))


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("most", "cases"), [(1, 1), (6, 1), (1, 3), (3, 2), (2, 3)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 50)])
def test_the_threshold_is_the_least_that_keeps_delta(scale: float, most: int, cases: int, delta: Fraction) -> None:
    """Of every person's cases with labels that nobody else has; the tail is bounded by that of one unit less."""
    units = scale * UNIT
    least = labels.threshold(units, delta, most, cases)
    persons = _persons(cases, most)
    assert max(_shown(units, least, person) for person in persons) <= float(delta) * (1 + 1e-9)
    assert max(_shown(units, least - 3, person) for person in persons) > float(delta)


@pytest.mark.parametrize(("most", "cases"), [(1, 2), (3, 3)])
def test_cases_with_different_labels_decide_the_threshold_under_much_noise(most: int, cases: int) -> None:
    """Noise far above a weight hides how often a label occurs, not how many labels a person has."""
    scale, chance = 40.0 * UNIT, 1e-6
    weight = isqrt(UNIT**2 // most)

    def least(units: int, number: int) -> float:
        """Threshold that so many labels of this weight need."""
        return units + 1 + scale * float(norm.isf(chance / number))

    found = labels.threshold(scale, Fraction(1, 10**6), most, cases)
    assert found == pytest.approx(least(weight, cases * most), abs=2)
    assert found > least(cases * weight, most) + UNIT
    assert found > least(isqrt(UNIT**2 // max(most - 1, 1)), cases * max(most - 1, 1)) + UNIT * (most > 1)


def test_half_of_all_draws_are_above_zero() -> None:
    """Noise of at least 1 has less than half of the chance, so a delta of one half needs no more."""
    assert labels.threshold(UNIT / 2, Fraction(1, 2), 1) == UNIT + 1


def test_noise_of_about_one_unit_needs_a_distance_of_two() -> None:
    """It is at least 1 with chance .3005: the bound of a tail says nothing at a distance of one."""
    assert _tails(1.0)[1] > 0.3 > _tails(1.0)[2]
    assert labels.threshold(1.0, Fraction(3, 10), 1) == UNIT + 2


def test_the_threshold_does_not_depend_on_the_digits_of_the_caller() -> None:
    """A caller that computes with three digits gets the same number."""
    asked = (3.0 * UNIT, Fraction(1, 10**6), 8, 2)
    expected = labels.threshold.__wrapped__(*asked)
    with localcontext() as context:
        context.prec = 3
        assert labels.threshold.__wrapped__(*asked) == expected


def test_many_labels_at_once_decide_the_threshold() -> None:
    """A threshold for one label would let some label of a person with 64 of them out far more often than delta."""
    scale, delta = 3.0 * UNIT, Fraction(1, 100)
    person = [tuple(range(64))]
    assert _shown(scale, labels.threshold(scale, delta, 64), person) <= 0.01
    assert _shown(scale, labels.threshold(scale, delta, 1), person) > 0.1
    assert labels.threshold(scale, delta, 64) > labels.threshold(scale, delta, 8) > labels.threshold(scale, delta, 1)


@pytest.mark.parametrize("delta", [Fraction(2, 5), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)])
def test_a_large_delta_has_a_threshold_above_the_weight_of_a_person(delta: Fraction) -> None:
    """Even if noise above zero would be seldom enough: the tail is convex only above all weights of a person."""
    for most, cases in ((1, 1), (1, 2), (4, 2)):
        least = labels.threshold(UNIT / 2, delta, most, cases)
        assert least > cases * UNIT
        assert max(_shown(UNIT / 2, least, person) for person in _persons(cases, most)) <= float(delta)


def test_the_tail_is_bounded_from_above() -> None:
    """By less than a part in 10^12 from two deviations on; by a library in floats."""
    for x in (0.01, 0.3, 1.0, 2.0, 3.5, 5.0, 8.0, 30.0):
        bound, known = float(labels._log_tail(Decimal(x))), float(log_ndtr(-x))
        assert bound >= known - 1e-12 * abs(known)
        if x >= 2:
            assert bound == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("x", [Decimal(15), Decimal(30)])
def test_rounding_does_not_lower_the_tail(x: Decimal) -> None:
    """By the same fraction with more terms and digits, far beyond what floats tell apart."""
    with localcontext() as context:
        context.prec = labels.DIGITS
        bound = labels._log_tail(x)
    with localcontext() as context:
        context.prec = 2 * labels.DIGITS
        fraction = x
        for term in range(800, 0, -1):
            fraction = x + term / fraction
        known = -x * x / 2 - (2 * labels.PI).ln() / 2 - fraction.ln()
        assert known < bound < known + Decimal("1e-30")


@pytest.mark.parametrize(
    ("delta", "most", "person"), [(0, 1, 1), (-1, 1, 1), (1, 1, 1), (2, 1, 1), (1 / 2, 0, 1), (1 / 2, 1, 0)]
)
def test_labels_without_delta_or_cases_are_refused(delta: float, most: int, person: int) -> None:
    """No threshold keeps them."""
    with pytest.raises(InputError, match="labels need 0 < delta_dp < 1"):
        labels.threshold(float(UNIT), Fraction(delta), most, person)


def test_labels_without_rho_are_refused() -> None:
    """They would have no noise."""
    with pytest.raises(InputError, match="rho > 0"):
        _ = LabelRule(Fraction(0), Fraction(1, 2), 1).scale


@given(st.integers(1, 10_000), st.integers(1, 9))
def test_the_weights_of_a_case_have_a_norm_of_one_at_most(distinct: int, cases: int) -> None:
    """And lose less than a unit each; the noise is that of as many cases as a person has."""
    weight = labels.label_weight(distinct)
    assert distinct * weight**2 <= UNIT**2 < distinct * (weight + 1) ** 2
    rule = LabelRule(Fraction(1, 50), Fraction(1, 100), 8, cases)
    assert Fraction(rule.scale) ** 2 >= Fraction((cases * UNIT) ** 2 * 50, 2)
    assert rule.scale == pytest.approx(5 * cases * UNIT)


def test_labels_leave_from_the_threshold_on() -> None:
    """The noisy weight decides, and is the weight with the noise added; labels that no case has are not looked at."""
    rule = LabelRule(Fraction(2), Fraction(1, 100), 3, 2)
    least = rule.threshold
    cases = least // UNIT + 1
    assert rule.least_cases == cases
    table = VariantCounts.of(_log(*["a"] * cases, *["b"] * (cases - 1), "e"), "abcdef")
    source = EqualNoise()
    assert rule.select(table, source) == ("a",)
    assert source.asked == [(rule.scale, 3)]
    exactly = least - (cases - 1) * UNIT
    assert rule.select(table, EqualNoise(exactly)) == ("a", "b")
    assert rule.select(table, EqualNoise(exactly - 1)) == ("a",)
    assert rule.select(table, EqualNoise(least - UNIT)) == ("a", "b", "e")
    assert rule.select(table, EqualNoise(-cases * UNIT)) == ()


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_a_case_counts_for_each_of_its_first_distinct_labels(most: int) -> None:
    """Once each, in the order in which the case has them, by one over the root of their number."""
    traces = ["abacd", "dda", "", "ccbaca", "abacd", "e"]
    expected: Counter[str] = Counter()
    for trace in traces:
        counted = list(dict.fromkeys(trace))[:most]
        for label in counted:
            expected[label] += int(UNIT / sqrt(len(counted)))
    found = labels.label_weights(VariantCounts.of(_log(*traces), "abcdef"), most)
    assert found.dtype == np.int64
    assert dict(zip("abcdef", found.tolist(), strict=True)) == {name: expected[name] for name in "abcdef"}


def test_a_table_whose_counts_do_not_fit_is_a_fault() -> None:
    """Not a table of fewer cases."""
    with pytest.raises(ValueError, match="longer"):
        labels.label_weights(VariantCounts(("a",), ((0,),), np.asarray([1, 2])), 1)


ALARM = 1e-6
"""Chance that a right selection fails a test that counts draws."""

PERSONS = {
    "one label in one case": ["X"],
    "one label in three cases": ["X", "X", "X"],
    "three labels in three cases": ["X", "Y", "Z"],
    "many labels in one case": ["".join(map(chr, range(0x100, 0x140)))],
    "many labels in three cases": ["".join(map(chr, range(0x100, 0x140)))] * 3,
}


def _times_shown(person: list[str], least_of: LabelRule, runs: int) -> int:
    """In how many of so many selections a label leaves that only the person has."""
    rule = LabelRule(Fraction(1, 20), Fraction(1, 20), 64, 3)
    table = VariantCounts.of(_log(*["AB"] * 9, *person))
    weights = labels.label_weights(table, rule.max_labels)
    private = [place for place, name in enumerate(table.alphabet) if name not in "AB"]
    drawn = noise.simulated(3).gaussian(rule.scale, runs * len(private)).reshape(runs, len(private))
    return int((weights[private] + drawn >= least_of.threshold).any(axis=1).sum())


@pytest.mark.parametrize("person", PERSONS.values(), ids=PERSONS)
def test_labels_of_one_person_leave_no_more_often_than_delta(person: list[str]) -> None:
    """20,000 draws of each; more than delta allows has a chance of one in a million."""
    rule, runs = LabelRule(Fraction(1, 20), Fraction(1, 20), 64, 3), 20_000
    most = int(binom.isf(ALARM, runs, float(rule.delta)))
    assert _times_shown(person, rule, runs) <= most


def test_this_count_of_draws_sees_a_threshold_for_one_label() -> None:
    """The control: without the maximum over labels of a case, a person with many is shown too often."""
    wrong, runs = LabelRule(Fraction(1, 20), Fraction(1, 20), 1, 3), 20_000
    most = int(binom.isf(ALARM, runs, float(wrong.delta)))
    assert _times_shown(PERSONS["many labels in one case"], wrong, runs) > most


def test_noise_of_a_selection_is_that_of_its_rho() -> None:
    """From the cryptographic source: the share of selections with a label of known weight is that of the Gaussian."""
    rule, runs = LabelRule(Fraction(1, 2), Fraction(1, 20), 2), 3_000
    cases = rule.threshold // UNIT
    table = VariantCounts.of(_log(*["A"] * cases))
    chance = float(_tails(rule.scale)[rule.threshold - cases * UNIT])
    shown = sum(rule.select(table, noise.SECURE) == ("A",) for _ in range(runs))
    rare = ALARM / 1000  # these draws have no seed
    assert binom.ppf(rare, runs, chance) <= shown <= binom.isf(rare, runs, chance)


def test_a_label_of_many_leaves_with_frequent_ones() -> None:
    """Every label of a case counts, however late it comes: the ninth label of all cases is selected."""
    log = _log(*["abcdefghij"] * 1_200)
    rule = LabelRule(zcdp.rho_of(Fraction(1, 2), Fraction(1, 10**6)) / 10, Fraction(1, 10**6), 64)
    assert rule.select(VariantCounts.of(log), noise.simulated(1)) == tuple("abcdefghij")


def test_a_table_has_every_case_once() -> None:
    """By its labels, as places in the alphabet: the public one, or that of the log in order."""
    traces = ["ba", "ab", "ba", "", "bab", "", "ba"]
    for alphabet, names in (("bxa", ("b", "x", "a")), (None, ("a", "b"))):
        table = VariantCounts.of(_log(*traces), alphabet)
        assert table.alphabet == names
        assert len(set(table.variants)) == len(table.variants)
        spelled = {
            "".join(names[label] for label in variant): n
            for variant, n in zip(table.variants, table.counts.tolist(), strict=True)
        }
        assert spelled == {"ba": 3, "ab": 1, "": 2, "bab": 1}
        taken = {tuple(names.index(label) for label in "ba"), ()}
        rest, counts = table.without(taken)
        assert dict(zip(rest, counts.tolist(), strict=True)) == {
            variant: n for variant, n in zip(table.variants, table.counts.tolist(), strict=True) if variant not in taken
        }
        assert len(rest) == 2
        assert table.without(table.variants)[1].tolist() == []


def test_labels_of_a_log_are_in_order() -> None:
    """However many."""
    names = [f"label {number}" for number in range(50)]
    log = EventLog.from_events(["1"] * 50, names, np.arange(50, dtype=np.int64), unit="ns")
    assert VariantCounts.of(log).alphabet == tuple(sorted(names))


def test_only_wanted_labels_stay() -> None:
    """Events without an activity go too; every case stays."""
    log = EventLog.from_events(
        ["1", "1", "2", "2", "3"],
        ["a", "x", None, "b", "x"],  # type: ignore[list-item]
        np.arange(5, dtype=np.int64),
        unit="ns",
    )
    kept = only(log, iter(["b", "a", "never"]))
    assert kept.n_cases == 3
    assert sorted(kept.traces()) == [(), ("a",), ("b",)]


def test_other_labels_become_one() -> None:
    """Each event of them, also those that have the name of the new label; events without an activity stay without."""
    log = EventLog.from_events(
        ["1", "1", "2", "2", "2", "3"],
        ["a", "x", None, "b", "other", "y"],  # type: ignore[list-item]
        np.arange(6, dtype=np.int64),
        unit="ns",
    )
    found = merged(log, ["b", "a", "never"], "other")
    assert found.activity.decode() == ["a", "other", None, "b", "other", "other"]
    assert sorted(found.activity.values) == ["a", "b", "other"]
    assert merged(log, [], "z").activity.decode() == ["z", "z", None, "z", "z", "z"]


TRACE = st.lists(st.integers(0, 3), max_size=40).map(tuple)


@given(st.lists(TRACE, min_size=1, max_size=6), TRACE, st.integers(1, 4))
def test_a_case_more_changes_weights_by_one_in_l2(
    cases: list[tuple[int, ...]], more: tuple[int, ...], most: int
) -> None:
    """For any labels, and no weight by more than a case."""
    names = tuple("ABCD")
    before, after = (
        labels.label_weights(VariantCounts.of(_log(*("".join(names[i] for i in case) for case in log)), names), most)
        for log in (cases, [*cases, more])
    )
    assert (after - before).min() >= 0
    assert int(((after - before) ** 2).sum()) <= UNIT**2
    assert np.count_nonzero(after - before) == min(most, len(set(more)))
