"""Attacks on any release: each against its definition, on logs whose answer is known without the code."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm

from models.disclosure.assessment import ATTACKS, Assessment, Attackers, Measure, _shown_unit, assess
from models.disclosure.inference import _further_items, inference
from models.disclosure.intervals import (
    AttackRisk,
    BothWays,
    Successes,
    TargetResults,
    against_guess,
    area_over_folds,
    area_under_curve,
    compared,
    compared_exactly,
    crossed,
    crossed_area,
    newcombe,
    wilson,
)
from models.disclosure.linkability import CANDIDATES, _agreement, _Candidates, linkability
from models.disclosure.material import Material, Profile, drawn, pooled
from models.disclosure.membership import DENSITY, LIKELIHOOD, membership
from models.disclosure.noise import LaplaceCounts
from models.disclosure.reconstruction import reconstruction
from models.disclosure.release_links import release_links
from models.disclosure.singling_out import singling_out
from models.dp.noise import simulated
from models.dp.strict import release_variants
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge

START = datetime(2024, 1, 1, tzinfo=UTC)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""So many that a few of them in order are rare by the chain of the release, and so count as a predicate."""


def _log(prefix: str, traces: list[str], attributes: dict[str, list[str]] | None = None, hours: int = 0) -> EventLog:
    """Return a log with one event a letter; events of a case follow at its own pace if `hours` is not 0."""
    case, activity, time = [], [], []
    for number, trace in enumerate(traces):
        for place, letter in enumerate(trace):
            case.append(f"{prefix}{number}")
            activity.append(letter)
            time.append(START + timedelta(hours=number * hours * place, minutes=place))
    table = {
        name: {f"{prefix}{number}": value for number, value in enumerate(values)}
        for name, values in (attributes or {}).items()
    }
    return EventLog.from_events(case, activity, time, None, table)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _random_traces(count: int, seed: int, length: int = 8, letters: str = "abcdefgh") -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), size=length)) for _ in range(count)]


def _found(assessment: Assessment, attack: str, how: str, profile: int = 0) -> Measure:
    measures = assessment.results[profile].measures
    return next(measure for measure in measures if (measure.attack, measure.how) == (attack, how))


# Intervals


@pytest.mark.parametrize(
    ("first", "n_first", "second", "n_second", "low", "high"),
    [
        # Table II of Newcombe 1998 (Statistics in Medicine 17, 873-890), method 10.
        (56, 70, 48, 80, 0.0524, 0.3339),
        (9, 10, 3, 10, 0.1705, 0.8090),
        (6, 7, 2, 7, 0.0582, 0.8062),
        (5, 56, 0, 29, -0.0381, 0.1926),
        (0, 10, 0, 20, -0.1611, 0.2775),
        (10, 10, 0, 20, 0.6791, 1.0),
        (10, 10, 0, 10, 0.6075, 1.0),
    ],
)
def test_newcombe_is_that_of_the_paper(
    first: int, n_first: int, second: int, n_second: int, low: float, high: float
) -> None:
    interval = newcombe(first / n_first, n_first, second / n_second, n_second)
    assert interval == pytest.approx((low, high), abs=6e-5)


@given(st.integers(0, 40), st.integers(1, 40))
def test_wilson_holds_the_rates_whose_test_it_inverts(successes: int, more: int) -> None:
    targets = successes + more
    rate = successes / targets
    for bound in wilson(rate, targets):
        if 1e-9 < bound < 1 - 1e-9:
            distance = abs(rate - bound) / math.sqrt(bound * (1 - bound) / targets)
            assert distance == pytest.approx(1.959964, abs=1e-4)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.lists(st.integers(0, 5), min_size=2, max_size=12))
def test_area_is_the_share_of_ordered_pairs(members: list[int], others: list[int]) -> None:
    risk = area_under_curve(np.asarray(members, dtype=float), np.asarray(others, dtype=float), 1)
    statistic = mannwhitneyu(members, others).statistic
    assert risk.rate == pytest.approx(statistic / len(members) / len(others))


def test_delong_variance_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(1)
    areas, widths = [], []
    for _ in range(400):
        risk = area_under_curve(rng.normal(0.5, 1, 60), rng.normal(0, 1, 80), 1)
        areas.append(2 * risk.rate - 1)
        assert risk.high is not None
        assert risk.low is not None
        widths.append((risk.high - risk.low) / 2 / 1.96)
    # The mean of 400 standard errors against the spread of 400 areas, which has a relative error of 1/sqrt(800).
    assert np.mean(widths) == pytest.approx(np.std(areas), rel=4 / math.sqrt(800))


def _counted(successes: int, targets: int, by_chance: int, controls: int) -> TargetResults:
    """The results of an attack that succeeds on so many targets of the original, and of the control."""
    original = Successes(np.arange(targets), (np.arange(targets) < successes).astype(np.float64))
    control = Successes(np.arange(controls), (np.arange(controls) < by_chance).astype(np.float64))
    return TargetResults(original, control)


@pytest.mark.parametrize("measures", [1, 26])
def test_the_power_is_the_leak_that_nineteen_of_twenty_runs_see(measures: int) -> None:
    risk = compared(_counted(50, 500, 50, 500), measures)
    assert risk.power is not None
    rng = np.random.default_rng(2)
    rate = 0.1 + risk.power * 0.9
    seen = 0
    for _ in range(1000):
        run = compared(_counted(rng.binomial(500, rate), 500, rng.binomial(500, 0.1), 500), measures)
        seen += run.clear
    # 950 are expected, with a standard deviation of 7; the normal approximation may cost one in a hundred.
    assert 920 <= seen <= 980


@pytest.mark.parametrize("measures", [pytest.param(1, marks=pytest.mark.slow), 26])
def test_the_power_of_an_area_is_the_leak_that_nineteen_of_twenty_runs_see(measures: int) -> None:
    rng = np.random.default_rng(12)
    power = area_under_curve(rng.normal(size=400), rng.normal(size=400), measures).power
    assert power is not None
    # Two normal scores whose means differ by `shift` have this area.
    shift = math.sqrt(2) * float(norm.ppf((1 + power) / 2))
    seen = 0
    for _ in range(1000):
        seen += area_under_curve(rng.normal(shift, 1, 400), rng.normal(size=400), measures).clear
    # 950 are expected, with a standard deviation of 7; the variance at no leak is used, which is a little larger.
    assert 920 <= seen <= 980


@pytest.mark.parametrize("measures", [pytest.param(1, marks=pytest.mark.slow), 26])
def test_the_power_over_both_roles_is_the_leak_that_nineteen_of_twenty_runs_see(measures: int) -> None:
    """The difficulty of a case is the same in both roles. A leak succeeds always, and the others as without it."""
    rng = np.random.default_rng(13)
    halves = (np.arange(200), np.arange(200, 400))
    powers = []
    for _ in range(20):
        risk = _both_roles(rng, halves, 0.0, measures)
        assert risk.power is not None
        powers.append(risk.power)
    seen = 0
    for _ in range(600):
        seen += _both_roles(rng, halves, float(np.mean(powers)), measures).clear
    # At least 570 are expected, with a standard deviation of 5.3: leaks make the results of a case more alike.
    assert seen >= 549


def _both_roles(
    rng: np.random.Generator, halves: tuple[np.ndarray, np.ndarray], lift: float, measures: int
) -> AttackRisk:
    difficulty = rng.beta(2.0, 3.0, size=400)
    leaks = rng.random(400) < lift
    evidence = []
    for inside, outside in (halves, halves[::-1]):
        within = np.where(leaks[inside], 1.0, difficulty[inside])
        members = Successes(np.arange(200), _shares(rng, within, 8), 8)
        others = Successes(np.arange(200), _shares(rng, difficulty[outside], 8), 8)
        evidence.append(compared(TargetResults(members, others), measures))
    risk = crossed([BothWays((evidence[0], evidence[1]), halves)], measures)
    assert risk is not None
    return risk


def _shares(rng: np.random.Generator, probability: np.ndarray, draws: int) -> np.ndarray:
    return np.asarray(rng.binomial(draws, probability) / draws)


def _covers(risk: AttackRisk | None, truth: float) -> bool:
    assert risk is not None
    assert risk.low is not None
    assert risk.high is not None
    return risk.low <= truth <= risk.high


@pytest.mark.parametrize(
    ("shape", "lift"),
    # Shape of the beta distribution of the success of a case, and the share of the cases that the release gives away.
    [
        ((2.0, 3.0), 0.1),
        pytest.param((0.3, 0.3), 0.0, marks=pytest.mark.slow),
        ((0.2, 4.0), 0.05),
        pytest.param((6.0, 1.0), 0.3, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_several_draws_hold_the_true_risk(shape: tuple[float, float], lift: float) -> None:
    """A case given away succeeds always, the others as their own difficulty allows: the risk is exactly `lift`."""
    rng = np.random.default_rng(4)
    covered = narrower = 0
    for _ in range(600):
        sides = []
        for share in (lift, 0.0):
            probability = np.where(rng.random(200) < share, 1.0, rng.beta(*shape, size=200))
            sides.append(Successes(np.arange(200), _shares(rng, probability, 8), 8))
        several = compared(TargetResults(sides[0], sides[1]), 1)
        covered += _covers(several, lift)
        narrower += max(side.effective for side in sides) > 200
    # 570 are expected, with a standard deviation of 5.3; four of them below, and conservative intervals above.
    assert covered >= 548
    assert narrower > 300


@pytest.mark.parametrize(
    ("shape", "lift", "divisions"),
    [
        pytest.param((2.0, 3.0), 0.1, 1, marks=pytest.mark.slow),
        pytest.param((0.3, 0.3), 0.0, 1, marks=pytest.mark.slow),
        ((0.2, 4.0), 0.02, 1),
        ((2.0, 3.0), 0.1, 3),
        pytest.param((0.3, 0.3), 0.0, 3, marks=pytest.mark.slow),
        pytest.param((0.2, 4.0), 0.02, 3, marks=pytest.mark.slow),
    ],
)
def test_intervals_over_both_roles_hold_the_true_risk(shape: tuple[float, float], lift: float, divisions: int) -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        # The same difficulty in both roles. A leak succeeds in place of what fails.
        difficulty = rng.beta(*shape, size=200)
        leaks = rng.random(200) < lift
        runs = []
        for _division in range(divisions):
            order = rng.permutation(200)
            halves = (np.sort(order[:100]), np.sort(order[100:]))
            evidence = []
            for inside, outside in (halves, halves[::-1]):
                within = np.where(leaks[inside], 1.0, difficulty[inside])
                own = Successes(np.arange(100), _shares(rng, within, 4), 4)
                others = Successes(np.arange(100), _shares(rng, difficulty[outside], 4), 4)
                evidence.append(compared(TargetResults(own, others), 1))
            runs.append(BothWays((evidence[0], evidence[1]), halves))
        covered += _covers(crossed(runs, 1), lift)
    # 380 are expected, with a standard deviation of 4.4.
    assert covered >= 362


def test_areas_over_both_roles_hold_the_true_area() -> None:
    """Scores of a case share its difficulty; members score `shift` higher. The true area is that of two draws."""
    rng = np.random.default_rng(6)
    shift = 0.5
    # Scores have variance 2 (difficulty and noise), and so the difference of two different cases has 4.
    truth = 2 * float(norm.cdf(shift / 2)) - 1
    covered = 0
    half_widths = []
    for _ in range(400):
        difficulty = rng.normal(size=200)
        order = rng.permutation(200)
        halves = (np.sort(order[:100]), np.sort(order[100:]))
        risks = []
        for inside, outside in (halves, halves[::-1]):
            members = difficulty[inside] + shift + rng.normal(size=100)
            others = difficulty[outside] + rng.normal(size=100)
            risks.append(area_under_curve(members, others, 1, units=(np.arange(100), np.arange(100))))
        risk = crossed_area([BothWays((risks[0], risks[1]), halves)], 1)
        covered += _covers(risk, truth)
        assert risk is not None
        half_widths.append((risk.half_width, risks[0].half_width))
    assert covered >= 362
    assert np.mean([both for both, _ in half_widths if both]) < 0.7 * np.mean(
        [alone for _, alone in half_widths if alone]
    )


def test_areas_over_folds_hold_the_true_area() -> None:
    """Two models score the same members, and half of the others each. Their scores have scales of their own."""
    rng = np.random.default_rng(8)
    shift = 0.5
    truth = 2 * float(norm.cdf(shift / 2)) - 1
    fold = np.arange(120) % 2
    covered = 0
    for _ in range(400):
        difficulty, other_difficulty = rng.normal(size=100), rng.normal(size=120)
        # The second model adds 5 to all of its scores: only scores of one model may be compared.
        members = [difficulty + shift + 5 * model + rng.normal(size=100) for model in range(2)]
        others = other_difficulty + 5 * fold + rng.normal(size=120)
        covered += _covers(area_over_folds(members, others, fold, 1), truth)
    # 380 are expected, with a standard deviation of 4.4.
    assert covered >= 362


def test_one_fold_is_the_area_under_the_curve() -> None:
    rng = np.random.default_rng(9)
    members, others = rng.normal(size=30), rng.normal(size=40)
    folded = area_over_folds([members], others, np.zeros(40, dtype=np.int64), 1)
    assert folded == area_under_curve(members, others, 1)


def test_the_lower_limit_of_the_risk_is_above_0_exactly_if_that_of_the_difference_is() -> None:
    for successes in range(0, 101, 5):
        for by_chance in range(0, 100, 5):
            found = _counted(successes, 100, by_chance, 100)
            risk = compared(found, 1)
            original, control = found.original, found.control
            low, _ = newcombe(original.rate, original.effective, control.rate, control.effective)
            assert risk.low is not None
            assert (risk.low > 0) == (low > 0)


def test_a_best_guess_is_never_called_a_leak() -> None:
    assert not against_guess(100, 100, 0.1).clear
    assert compared(_counted(100, 100, 10, 100), 1).clear


# Singling out


def test_the_exact_test_accuses_as_often_as_its_level_allows() -> None:
    """All divisions of twelve cases into two halves: six of the cases are singled out, in either half."""
    is_alone = np.arange(12) < 6
    accused = divisions = 0
    for chosen in itertools.combinations(range(12), 6):
        inside = np.isin(np.arange(12), chosen)
        sides = [Successes(np.arange(6), is_alone[part].astype(np.float64)) for part in (inside, ~inside)]
        accused += compared_exactly(TargetResults(sides[0], sides[1]), 1).clear
        divisions += 1
    # All six in the original is 1 of 924 divisions. Five of six is 36 more, above the one-sided level of .025.
    assert (accused, divisions) == (1, 924)


@pytest.mark.parametrize("base", [0.0, *(pytest.param(base, marks=pytest.mark.slow) for base in (0.01, 0.2))])
def test_the_exact_test_sees_a_leak_of_its_power(base: float) -> None:
    rng = np.random.default_rng(8)
    cases = np.arange(350)
    seen = 0
    for _ in range(150):
        by_chance = Successes(cases, (rng.random(350) < base).astype(np.float64))
        power = compared_exactly(TargetResults(by_chance, by_chance), 26).power
        assert power is not None
        rate = 1 - (1 - base) * (1 - power)
        leak = Successes(cases, (rng.random(350) < rate).astype(np.float64))
        outside = Successes(cases, (rng.random(350) < base).astype(np.float64))
        seen += compared_exactly(TargetResults(leak, outside), 26).clear
    # 142.5 are expected at least, with a standard deviation of 2.7; fewer than 135 have a probability of .004. The
    # power of each run comes from another control.
    assert seen >= 135


def test_an_attack_that_reaches_few_people_has_no_power() -> None:
    nobody = Successes(np.arange(350), np.zeros(350))
    assert compared_exactly(TargetResults(nobody, nobody), 1).power is not None
    assert compared_exactly(TargetResults(nobody, nobody, reach=3 / 350), 1).power is None


def test_the_power_is_a_share_of_all_people_if_the_attack_finds_only_some() -> None:
    """Half of the people have a trace of their own: a leak word for word gives away only those of them."""
    rng = np.random.default_rng(14)
    cases = np.arange(350)
    nobody = Successes(cases, np.zeros(350))
    power = compared_exactly(TargetResults(nobody, nobody, reach=0.5), 26).power
    assert power is not None
    has_own_trace = cases < 175
    seen = 0
    for _ in range(150):
        is_leaked = rng.random(350) < power
        found = Successes(cases, (is_leaked & has_own_trace).astype(np.float64))
        seen += compared_exactly(TargetResults(found, nobody), 26).clear
    # 142.5 are expected at least, with a standard deviation of 2.7; fewer than 135 have a probability of .004.
    assert seen >= 135


def test_people_whom_many_records_single_out_count_once() -> None:
    """A negative control: ten people, each singled out by predicates of eight records, original and control by lot.

    A count of predicates or records has 80 of them, and accuses each lot that is not even.
    """
    rng = np.random.default_rng(9)
    ordinary = _random_traces(30, 10, length=5, letters="abcd")
    pieces = [chr(0x4E00 + 3 * number) + chr(0x4E01 + 3 * number) + chr(0x4E02 + 3 * number) for number in range(80)]
    people = ["".join(pieces[8 * number : 8 * number + 8]) for number in range(10)]
    everybody = _log("e", [*people, *ordinary])
    released = _log("r", [*pieces, *(ordinary * 12)])
    accused = singled_out = 0
    for lot in range(100):
        order = rng.permutation(40)
        original, control = (everybody.select_cases(np.sort(part)) for part in (order[:20], order[20:]))
        material = Material.of(original, control, released, Profile(3))
        risk = singling_out(material, 150, 1, np.random.default_rng(lot)).risk
        assert risk is not None
        assert risk.control is not None
        singled_out += round(20 * (risk.rate + risk.control))
        accused += risk.clear
    # The level of a side is .025. More than 8 of 100 has a probability of .001.
    assert accused <= 8
    # Each record is drawn twice at least, so all ten people are singled out in each run.
    assert singled_out == 1000


def test_a_verbatim_release_singles_out_and_another_sample_does_not() -> None:
    original, control, other = (_log(name, _random_traces(300, seed, 12, LETTERS)) for seed, name in enumerate("ocr"))
    profile = Profile(8)
    verbatim = singling_out(Material.of(original, control, original, profile), 200, 1, np.random.default_rng(0)).risk
    safe = singling_out(Material.of(original, control, other, profile), 200, 1, np.random.default_rng(0)).risk
    assert verbatim is not None
    assert safe is not None
    assert verbatim.rate > 0.9
    assert verbatim.clear
    assert not safe.clear


def _timed_log(prefix: str, seed: int, cases: int = 150) -> EventLog:
    """Return cases of five common activities, at random seconds of a day."""
    rng = np.random.default_rng(seed)
    case, activity, time = [], [], []
    for number in range(cases):
        seconds = [0, *np.sort(rng.choice(86_400, size=4, replace=False)).tolist()]
        for letter, second in zip(rng.permutation(list("abcde")).tolist(), seconds, strict=True):
            case.append(f"{prefix}{number}")
            activity.append(letter)
            time.append(START + timedelta(seconds=second))
    return EventLog.from_events(case, activity, time, None, {})


@pytest.mark.parametrize("m", [3, 8])
def test_times_that_one_record_alone_shows_are_rare(m: int) -> None:
    """A second of a day is much rarer than one of 150 cases, although one of 150 records shows it."""
    original, control, other = (_timed_log(name, seed) for seed, name in enumerate("ocr", 20))
    profile = Profile(m, Knowledge("rel", T="seconds"))
    verbatim = singling_out(Material.of(original, control, original, profile), 150, 1, np.random.default_rng(0)).risk
    safe = singling_out(Material.of(original, control, other, profile), 150, 1, np.random.default_rng(0)).risk
    assert verbatim is not None
    assert safe is not None
    assert verbatim.rate > 0.95
    assert verbatim.control == 0
    assert verbatim.clear
    assert safe.rate < 0.05
    assert not safe.clear


def test_every_record_is_drawn() -> None:
    """As many predicates as records: of draws with replacement, 37 % of the records would have none."""
    original, control = (_timed_log(name, seed, 120) for seed, name in enumerate("oc", 30))
    profile = Profile(5, Knowledge("rel", T="seconds"))
    risk = singling_out(Material.of(original, control, original, profile), 20, 1, np.random.default_rng(0)).risk
    assert risk is not None
    assert risk.rate == 1.0


def test_of_a_larger_control_each_result_keeps_its_case() -> None:
    """The results of both roles of a case are put together by its number in the log, also if cases were drawn."""
    everybody = _random_traces(60, 11, 12, LETTERS)
    original, control, released = (_log("o", everybody[:20]), _log("c", everybody[20:]), _log("r", everybody[40:]))
    risk = singling_out(Material.of(original, control, released, Profile(8)), 300, 1, np.random.default_rng(0)).risk
    assert risk is not None
    assert risk.evidence is not None
    outside = risk.evidence.control
    assert len(outside.unit) == 20
    is_released = outside.unit >= 20
    assert 0 < is_released.sum() < 20
    assert outside.share.tolist() == is_released.tolist()
    assert risk.rate == 0


def test_common_predicates_do_not_count() -> None:
    """A predicate that one of n people satisfies by chance singles out 37 % without any release."""
    log = _log("o", ["ab"] * 50 + ["ac"])
    control = _log("c", ["ab"] * 51)
    assert singling_out(Material.of(log, control, log, Profile(2)), 100, 1, np.random.default_rng(0)).risk is None


# Linkability


def test_both_halves_of_a_case_find_its_record() -> None:
    """All cases differ in every item, so each view has one nearest record."""
    traces = ["".join(chr(0x4E00 + 6 * number + place) for place in range(6)) for number in range(60)]
    log, control = _log("o", traces), _log("c", _random_traces(60, 5))
    material = Material.of(log, control, log, Profile())
    everybody = np.arange(60)
    risks = linkability(material, everybody, everybody, 1)
    assert {name: risk and risk.rate for name, risk in risks.items()} == {
        "odd and even items": 1.0,
        "early and late items": 1.0,
    }


@given(st.data())
def test_agreement_is_the_share_of_all_draws(data: st.DataObject) -> None:
    """Against all ways to draw: rows of two records each at most, three candidates a view at most."""
    weight = np.asarray(data.draw(st.lists(st.integers(1, 2), min_size=6, max_size=6)))
    views = []
    for _ in range(2):
        places = data.draw(st.permutations(range(6)))
        certain, tied = sorted(places[: data.draw(st.integers(0, 1))]), sorted(places[1 : data.draw(st.integers(1, 5))])
        records = int(weight[tied].sum())
        drawn_records = data.draw(st.integers(min(1, records), min(3, records)))
        views.append(_Candidates(np.asarray(certain, dtype=int), np.asarray(tied, dtype=int), drawn_records))
    choices = []
    for view in views:
        sure = {(row, copy) for row in view.certain.tolist() for copy in range(weight[row])}
        pool = [(row, copy) for row in view.tied.tolist() for copy in range(weight[row])]
        choices.append([sure | set(draw) for draw in itertools.combinations(pool, view.drawn)])
    agreed = [bool(one & other) for one in choices[0] for other in choices[1]]
    assert _agreement(views[0], views[1], weight) == pytest.approx(np.mean(agreed))


def test_equal_records_are_linked_by_chance_alone() -> None:
    log = _log("o", ["abcd"] * 200)
    material = Material.of(log, None, log, Profile())
    risk = linkability(material, np.arange(200), np.arange(0), 1)["odd and even items"]
    assert risk is not None
    apart = math.comb(200 - CANDIDATES, CANDIDATES) / math.comb(200, CANDIDATES)
    assert risk.control == pytest.approx(1 - apart)
    assert risk.rate == pytest.approx(1 - apart)


# Inference


def test_one_of_two_durations_is_guessed() -> None:
    """Two cases of each trace, an hour and a day long: a guess is right for one of them, and their mean for none."""
    case, activity, time = [], [], []
    for number in range(40):
        long = number % 2
        for place, letter in enumerate((chr(0x4E00 + number // 2), "b", "c")):
            case.append(f"o{number}")
            activity.append(letter)
            time.append(START + place * (timedelta(hours=12) if long else timedelta(minutes=30)))
    original = EventLog.from_events(case, activity, time, None, {})
    control = _log("c", _random_traces(40, 3), hours=1)
    material = Material.of(original, control, original, Profile(3))
    everybody = np.arange(40)
    results = inference(material, everybody, everybody, [], 1, np.random.default_rng(0))
    duration = next(result for result in results if result.secret == "duration within a fifth")
    assert duration.risk is not None
    assert duration.risk.rate == pytest.approx(0.5)


def test_a_value_that_only_the_release_reveals_is_inferred() -> None:
    """Each original case has a trace and a value of its own; people outside have other traces and random values."""
    rng = np.random.default_rng(1)
    traces = _random_traces(200, 1, length=10)
    values = rng.choice(["x", "y", "z"], size=200).tolist()
    other_values = rng.choice(["x", "y", "z"], size=200).tolist()
    original = _log("o", traces, {"diagnosis": values})
    control = _log("c", _random_traces(200, 2, length=10), {"diagnosis": other_values})
    material = Material.of(original, control, original, Profile(8))
    everybody = np.arange(200)
    results = inference(material, everybody, everybody, ["diagnosis"], 1, np.random.default_rng(0))
    value = next(result for result in results if result.secret == "value of diagnosis")
    assert value.risk is not None
    assert value.risk.rate > 0.9
    assert value.risk.clear
    assert value.without_release is not None
    assert value.without_release < 0.6


def test_what_holds_for_everybody_is_no_leak() -> None:
    """The last activity gives the value away in this process: for people outside as well."""
    traces = [trace + "xyz"[number % 3] for number, trace in enumerate(_random_traces(450, 1, length=2))]
    values = [trace[-1] for trace in traces]
    original = _log("o", traces[:150], {"diagnosis": values[:150]})
    control = _log("c", traces[150:300], {"diagnosis": values[150:300]})
    released = _log("r", traces[300:], {"diagnosis": values[300:]})
    material = Material.of(original, control, released, Profile(3))
    everybody = np.arange(150)
    results = inference(material, everybody, everybody, ["diagnosis"], 1, np.random.default_rng(0))
    value = next(result for result in results if result.secret == "value of diagnosis")
    assert value.risk is not None
    assert value.risk.rate > 0.5
    assert not value.risk.clear


def test_who_did_a_known_activity_is_guessed_from_the_own_record() -> None:
    """Each case has two activities of its own, by two people of its own; people outside have none of them."""
    case, activity, time, resource = [], [], [], []
    for number in range(40):
        for place in range(2):
            case.append(f"o{number}")
            activity.append(chr(0x4E00 + 2 * number + place))
            time.append(START + timedelta(hours=place))
            resource.append(f"nurse {number} {place}")
    original = EventLog.from_events(case, activity, time, resource)
    control = EventLog.from_events(["c0", "c0"], ["x", "y"], time[:2], ["nurse x", "nurse y"])
    material = Material.of(original, control, original, Profile(1))
    results = inference(material, np.arange(40), np.arange(1), [], 1, np.random.default_rng(0))
    guessed = next(result for result in results if result.secret == "resource of a known activity")
    assert guessed.risk is not None
    assert guessed.risk.rate == 1.0
    assert guessed.risk.control == 0.0
    assert guessed.without_release == 0.0


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5), st.lists(st.integers(0, 3), max_size=4)
)
def test_further_items_are_those_that_records_have_more_often_than_known(
    records: list[list[int]], known: list[int]
) -> None:
    starts = np.cumsum([0, *map(len, records)])
    codes = np.array([code for record in records for code in record], dtype=np.int32)
    found = _further_items(starts, codes, np.arange(len(records)), np.array(known, dtype=np.int32), 4)
    expected = sum((Counter(record) - Counter(known) for record in records), Counter())
    assert found.tolist() == [expected[item] for item in range(4)]


def test_reasons_are_given_for_what_cannot_be_guessed() -> None:
    original = _log("o", ["ab"] * 4, {"diagnosis": ["x"] * 4})
    released = _log("r", ["ab"] * 4, {"diagnosis": ["class 1"] * 4})
    material = Material.of(original, None, released, Profile(1))
    results = inference(material, np.arange(4), np.arange(0), ["diagnosis", "age"], 1, np.random.default_rng(0))
    reasons = {result.secret: result.reason for result in results if result.risk is None}
    assert "shows classes" in reasons["value of diagnosis"]
    assert reasons["value of age"] == "the original does not carry 'age'"
    assert reasons["resource of a known activity"] == "the original carries no resources"


# Membership


def test_the_noise_of_counts_is_the_one_that_is_drawn() -> None:
    """Released counts of many draws against their probability, above and below the least released count."""
    noise = LaplaceCounts.of(Fraction(1), Fraction(1, 100))
    true, draws = noise.rule.least + 1, 40_000
    counted = Counter()
    source = simulated(1)
    noisy = true + noise.rule.noise(source, draws)
    counted.update(np.where(noisy >= noise.rule.least, noisy, 0).tolist())
    for shown in (0, noise.rule.least, true, true + 2):
        expected = float(np.exp(noise.log_probability(np.asarray([shown]), np.asarray([true])))[0])
        error = math.sqrt(expected * (1 - expected) / draws)
        assert abs(counted[shown] / draws - expected) < 5 * error


def test_the_likelihood_ratio_stays_within_epsilon_and_sees_little_noise() -> None:
    """With a large epsilon the counts are nearly exact: who knows all others sees each case. With a small one, none."""
    traces = ["ab"] * 60 + ["ba"] * 60 + ["aab"] * 60
    outside = ["ab"] * 60 + ["ba"] * 60 + ["abb"] * 60
    original, control = _log("o", traces), _log("c", outside)
    everybody = np.arange(180)
    for epsilon, least, most in ((Fraction(1, 10), 0.45, 0.6), (Fraction(8), 0.95, 1.0)):
        noise = LaplaceCounts.of(epsilon, Fraction(1, 1000))
        areas = []
        for seed in range(40):
            draw = simulated(seed)
            release = release_variants(original, epsilon=epsilon, delta_dp=Fraction(1, 1000), draw=draw).log
            if release.n_events:
                material = Material.of(original, control, release, Profile())
                results = membership(material, everybody, everybody, 1, np.random.default_rng(0), noise)
                areas.append(results[LIKELIHOOD].risk.rate)
        # Cases of a variant share its noise, so one release of three variants says little. Randomized response has the
        # area e^epsilon / (1 + e^epsilon), .525 for .1; the mean of 40 has a standard error of about .025.
        assert least < np.mean(areas) <= most


def test_equal_cases_outside_have_no_lower_density() -> None:
    """A negative control: original, control and release are three samples of a process with few variants.

    A model that had seen the scored people outside, and lacked one random case for members, had a mean area of .44.
    """
    variants = _random_traces(6, 12, length=6)
    areas = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logs = [_log(name, rng.choice(variants, size=60).tolist()) for name in "ocr"]
        material = Material.of(logs[0], logs[1], logs[2], Profile())
        everybody = np.arange(60)
        areas.append(membership(material, everybody, everybody, 1, rng)[DENSITY].risk.rate)
    error = np.std(areas) / math.sqrt(len(areas))
    # The mean of a fair score is within 3.3 standard errors with probability .999.
    assert abs(np.mean(areas) - 0.5) < 3.3 * error
    assert error < 0.01


def test_true_positives_are_counted_above_the_others_of_the_same_model() -> None:
    """Cases of the release have letters of their own, so all pass the score that 1 % of the others pass."""
    original = _log("o", _random_traces(200, 13, length=8, letters="abcd"))
    control = _log("c", _random_traces(200, 14, length=8, letters="efgh"))
    everybody = np.arange(200)
    results = membership(Material.of(original, control, original, Profile()), everybody, everybody, 1, _rng())
    for result in results.values():
        assert result.true_positives == {0.01: 1.0, 0.001: None}


# Absolute times


def test_the_day_on_which_a_case_began_is_used_if_the_release_shows_dates() -> None:
    """All cases have one trace, and days of their own: only the day distinguishes them."""
    case, time, control_time = [], [], []
    for number in range(60):
        case.append(number)
        time.append(START + timedelta(days=3 * number))
        control_time.append(START + timedelta(days=3 * number + 1))
    values = {"v": {f"o{number}": f"value {number}" for number in range(60)}}
    original = EventLog.from_events([f"o{n}" for n in case] * 2, ["a"] * 60 + ["b"] * 60, time * 2, None, values)
    other = {"v": {f"c{number}": f"value {number}" for number in range(60)}}
    control = EventLog.from_events([f"c{n}" for n in case] * 2, ["a"] * 60 + ["b"] * 60, control_time * 2, None, other)
    known = Profile(1, start="days")
    assessment = assess(original, original, control, Attackers([Profile(1), known], ["v"]))
    rates = []
    for profile in (0, 1):
        risk = _found(assessment, "inference", "value of v", profile).risk
        assert risk is not None
        rates.append(risk.rate)
    assert rates[0] < 0.1
    assert rates[1] == 1.0
    assert "when the case began, in days" in known.sentence()
    assert Profile(1).stronger((), dates=True).start == "days"


def test_a_known_start_needs_dates_in_the_release() -> None:
    original = _log("o", ["ab", "ac"])
    relative = replace(_log("r", ["ab", "ac"]), time=np.arange(4) * 1_000_000_000)
    with pytest.raises(InputError, match="the release shows no dates"):
        Material.of(original, None, relative, Profile(1, start="days"))


# Pairs of releases


def test_records_that_grew_are_linked_by_their_beginning() -> None:
    rng = np.random.default_rng(0)
    earlier_traces = ["abc", "bca", "cab", "aabb", "bbcc"]
    earlier = _log("p", earlier_traces)
    later = _log("p", [trace + "d" for trace in earlier_traces])
    links = release_links(earlier, later, 100, rng)
    assert links is not None
    assert (links.common, links.candidates, links.risk.rate) == (5, 1, 1.0)
    assert links.risk.control == pytest.approx(1 / 5)


def test_equal_records_are_linked_as_a_random_record_is() -> None:
    earlier, later = _log("p", ["ab"] * 20), _log("p", ["ab"] * 20)
    links = release_links(earlier, later, 100, np.random.default_rng(0))
    assert links is not None
    assert links.risk.rate == pytest.approx(1 / 20)


def test_releases_without_a_common_case_are_not_linked() -> None:
    assert release_links(_log("p", ["ab"]), _log("q", ["ab"]), 10, np.random.default_rng(0)) is None


# Reconstruction


@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=8),
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=8),
)
def test_pieces_are_those_of_a_plain_search(original: list[str], released: list[str]) -> None:
    if not set("".join(original)) & set("".join(released)):
        return
    material = Material.of(_log("o", original), None, _log("r", released), Profile(1))
    result = reconstruction(material, material.steps, 1, np.random.default_rng(0))

    def pieces(trace: str) -> set[str]:
        return {trace[i:j] for i in range(len(trace)) for j in range(i + 1, len(trace) + 1)}

    cases_with = Counter(piece for trace in original for piece in pieces(trace))
    shown = set().union(*map(pieces, released))
    longest = [
        max((len(piece) for piece in pieces(trace) & shown if cases_with[piece] == 1), default=0) for trace in original
    ]
    assert result.longest == max(longest)
    assert result.pieces.rate == pytest.approx(np.mean([length > 1 for length in longest]))
    assert result.shown_traces == sum(trace in released for trace in original)
    assert result.shown_unique_traces == sum(original.count(trace) == 1 and trace in released for trace in original)


def test_a_trace_that_both_sides_have_is_evidence_for_neither() -> None:
    original, control = _log("o", ["abc", "acb", "bca"]), _log("c", ["abc", "cab", "cba"])
    released = _log("r", ["abc", "acb", "cab"])
    material = Material.of(original, control, released, Profile(2))
    result = reconstruction(material, material.steps, 1, _rng())
    # Of the original only acb, of the control only cab is released and one person's.
    assert (result.traces.rate, result.traces.control) == pytest.approx((1 / 3, 1 / 3))
    assert (result.pieces.rate, result.pieces.control) == pytest.approx((1 / 3, 1 / 3))
    # Within the original alone, abc and acb are traces of one case.
    assert (result.shown_traces, result.shown_unique_traces) == (2, 2)


def test_times_reconstruct_cases_whose_activities_are_common() -> None:
    """All cases have one trace of activities. Each case of the original and its record have a pace of their own."""
    original, control = (_log(name, ["abcd"] * 60, hours=pace) for name, pace in (("o", 2), ("c", 7)))
    assessment = assess(original, original, control, Attackers([Profile(3)]))
    without_times = _found(assessment, "reconstruction", "traces of one case").risk
    with_times = _found(assessment, "reconstruction", "traces of one case with times").risk
    assert without_times is not None
    assert without_times.rate == 0
    assert with_times is not None
    # Paces 2 n and 7 n: every seventh case of the original has a twin in the control.
    assert with_times.rate > 0.7
    assert with_times.clear


@pytest.mark.parametrize(
    ("seconds", "unit"), [([0, 61], "seconds"), ([0, 120], "minutes"), ([0, 7200], "hours"), ([0, 172800], "days")]
)
def test_the_unit_of_shown_times_is_the_longest_without_a_remainder(seconds: list[int], unit: str) -> None:
    moments = [START + timedelta(seconds=second) for second in seconds]
    log = EventLog.from_events(["1"] * len(seconds), ["a"] * len(seconds), moments, None, {})
    assert _shown_unit(log) == unit


# The whole


def test_every_attack_sees_a_release_that_is_the_original() -> None:
    """The negative control of the issue: risk near 1 where the attacker knows enough to ask."""
    rng = np.random.default_rng(7)
    logs = []
    for name, seed in (("o", 1), ("c", 2)):
        values = rng.choice(["v", "w", "x", "y"], size=250).tolist()
        traces = _random_traces(250, seed, length=12, letters=LETTERS)
        logs.append(_log(name, traces, {"diagnosis": values}, hours=1))
    original, control = logs
    profile = Profile(8)
    assessment = assess(original, original, control, Attackers([profile], ["diagnosis"]))
    expected = {
        ("singling out", "known items"): 0.95,
        ("linkability", "odd and even items"): 0.9,
        ("inference", "value of diagnosis"): 0.9,
        ("membership", "whole case, distance to the nearest record"): 0.99,
        ("reconstruction", "traces of one case"): 0.99,
        ("reconstruction", "pieces of one case"): 0.99,
    }
    for (attack, how), least in expected.items():
        risk = _found(assessment, attack, how).risk
        assert risk is not None, how
        assert risk.risk is not None
        assert risk.risk >= least, (attack, how, risk)
        assert risk.clear


def test_a_release_without_times_names_the_attacks_that_need_them() -> None:
    original, control = (_timed_log(name, seed, 60) for seed, name in enumerate("oc", 40))
    release = EventLog.from_traces([(trace, None) for trace in original.traces()])
    assessment = assess(original, release, control, Attackers([Profile(3)], targets=20))
    for attack, how in (("singling out", "known items and hours"), ("reconstruction", "traces of one case with times")):
        measure = _found(assessment, attack, how)
        assert measure.result == "not run"
        assert "carries no times" in measure.sentence()


def test_who_knows_times_uses_the_order_if_the_release_shows_none() -> None:
    """Known seconds fit no place of an event, so a release of everything would look as if it gave nobody away."""
    original, control = (_log(name, _random_traces(60, seed, 12, LETTERS), hours=1) for seed, name in enumerate("oc"))
    release = EventLog.from_traces([(trace, None) for trace in original.traces()])
    timed, ordered = Profile(8, Knowledge("rel", T="seconds")), Profile(8)
    assessment = assess(original, release, control, Attackers([timed, ordered]))
    of_timed, of_ordered = assessment.results
    assert of_timed.profile.knowledge.structure == "seq"
    assert of_timed.measures == of_ordered.measures
    linked = _found(assessment, "linkability", "odd and even items").risk
    assert linked is not None
    assert linked.rate > 0.9


@pytest.mark.slow
def test_another_sample_of_the_process_is_not_accused() -> None:
    """Nothing of the release depends on the people of the original: 20 assessments, 5 % may be accused."""
    accused = 0
    for seed in range(20):
        logs = [
            _log(name, _random_traces(80, 100 * seed + k, length=5, letters="abcd")) for k, name in enumerate("ocr")
        ]
        original, control, released = logs
        assessment = assess(original, released, control, Attackers([Profile(3)], targets=80, seed=seed))
        accused += any(result.seen for result in assessment.results)
    # More than 4 of 20 has a probability of .003 if each is accused with .05.
    assert accused <= 4


def test_a_release_of_another_process_has_no_risk() -> None:
    """A negative control: records that share activities and nothing else. 0 is within all intervals."""
    original, control = (
        _log(name, _random_traces(250, seed, length=8, letters="abcdefgh")) for name, seed in (("o", 1), ("c", 2))
    )
    other = _log("r", ["".join(letters) for letters in itertools.permutations("hgfe")] * 8)
    (result,) = assess(original, other, control, Attackers([Profile(4)])).results
    assert not result.seen
    for measure in result.measures:
        if measure.risk is not None and measure.risk.low is not None:
            assert measure.risk.low <= 0 <= (measure.risk.high or 0.0), measure


def test_cases_from_the_original_in_the_control_accuse_nobody() -> None:
    """A negative control: original and control are random halves of one log, whose release is of all of it."""
    accused = 0
    for seed in range(20):
        everybody = _log("e", _random_traces(160, 500 + seed, length=5, letters="abcd"))
        order = np.random.default_rng(seed).permutation(160)
        original, control = (everybody.select_cases(np.sort(part)) for part in (order[:80], order[80:]))
        assessment = assess(original, everybody, control, Attackers([Profile(3)], targets=80, seed=seed))
        accused += any(result.seen for result in assessment.results)
    # More than 4 of 20 has a probability of .003 if each is accused with .05.
    assert accused <= 4


def test_the_targets_follow_the_width_that_is_asked_for() -> None:
    assert Attackers([Profile()], half_width=0.1).n_targets == 97
    assert Attackers([Profile()], targets=5, half_width=0.1).n_targets == 5
    with pytest.raises(InputError, match=r"between 0 and \.5"):
        Attackers([Profile()], half_width=0.5)


def test_an_assessment_never_says_safe() -> None:
    original, control = (_log(name, _random_traces(40, seed)) for name, seed in (("o", 1), ("c", 2)))
    text = str(assess(original, _log("r", _random_traces(40, 3)), control, Attackers([Profile()])).json())
    assert "safe" not in text.lower()


def test_two_runs_with_one_seed_are_equal() -> None:
    original, control = (_log(name, _random_traces(40, seed), hours=1) for name, seed in (("o", 1), ("c", 2)))
    released = _log("r", _random_traces(40, 3), hours=1)
    runs = [assess(original, released, control, Attackers([Profile()], seed=5)).json() for _ in range(2)]
    assert runs[0] == runs[1]


def test_refusals_name_what_is_wrong() -> None:
    original, other = _log("o", ["ab", "ac"]), _log("o", ["ab"])
    with pytest.raises(InputError, match="1 cases are in the original and in the control"):
        assess(original, original, other, Attackers([Profile()]))
    with pytest.raises(InputError, match="no activity of the release is in the original"):
        assess(original, _log("r", ["xy"]), None, Attackers([Profile()]))
    with pytest.raises(InputError, match="the release has no event"):
        assess(original, original.select_cases(np.zeros(2, dtype=np.bool_)), None, Attackers([Profile()]))
    with pytest.raises(InputError, match="1 to 8 items"):
        Profile(9)


@pytest.mark.parametrize("control", [None, ["a", "b"], ["ab", "ba", "ab", "ba"]])
def test_cases_of_one_event_hinder_attacks_and_end_none(control: list[str] | None) -> None:
    """Nothing can be cut in two, and nothing is left to guess: each attack reports it."""
    original, released = _log("o", ["a", "b", "a"]), _log("r", ["a", "a"])
    outside = None if control is None else _log("c", control)
    (result,) = assess(original, released, outside, Attackers([Profile()], ["diagnosis"])).results
    reasons = {measure.how: measure.reason for measure in result.measures if measure.risk is None}
    assert reasons["odd and even items"] == "no case has two items, one for each view"
    assert reasons["a further item"] == "no target has more than one event"
    assert {measure.attack for measure in result.measures} == set(ATTACKS)


def test_a_stronger_attacker_knows_twice_the_items_in_order() -> None:
    stronger = Profile(3, Knowledge("set")).stronger(["Age"])
    assert (stronger.m, stronger.knowledge.structure, stronger.attributes) == (6, "seq", ("Age",))


def test_pooled_releases_have_all_cases_and_the_common_attributes() -> None:
    first = _log("a", ["ab"], {"x": ["1"], "y": ["2"]})
    second = _log("b", ["cd", "ef"], {"x": ["3", "4"]})
    together = pooled([first, second])
    assert together.traces() == [("a", "b"), ("c", "d"), ("e", "f")]
    assert {name: column.decode() for name, column in together.case_attributes.items()} == {"x": ["1", "3", "4"]}


def test_targets_are_drawn_without_repetition() -> None:
    chosen = drawn(10, 4, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == 4
    assert drawn(3, 10, np.random.default_rng(0)).tolist() == [0, 1, 2]
