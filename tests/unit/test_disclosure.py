"""Attacks on any release: each against its definition, on logs whose answer is known without the code."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from models.disclosure.assessment import ATTACKS, Assessment, Measure, assess
from models.disclosure.inference import inference
from models.disclosure.intervals import against_control, against_guess, area_under_curve, newcombe, wilson
from models.disclosure.linkability import CANDIDATES, linkability
from models.disclosure.material import Material, Profile, drawn, pooled
from models.disclosure.reconstruction import reconstruction
from models.disclosure.singling_out import exactly_one, singling_out
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge

START = datetime(2024, 1, 1, tzinfo=UTC)


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


def test_the_power_is_the_leak_that_nineteen_of_twenty_runs_see() -> None:
    risk = against_control(50, 500, 50, 500, 1)
    assert risk.power is not None
    rng = np.random.default_rng(2)
    rate = 0.1 + risk.power * 0.9
    seen = 0
    for _ in range(1000):
        run = against_control(float(rng.binomial(500, rate)), 500, float(rng.binomial(500, 0.1)), 500, 1)
        seen += run.low is not None and run.low > 0
    # 950 are expected, with a standard deviation of 7; the normal approximation may cost one in a hundred.
    assert 920 <= seen <= 980


def test_a_best_guess_is_never_called_a_leak() -> None:
    assert not against_guess(100, 100, 0.1).clear
    assert against_control(100, 100, 10, 100, 1).clear


# Singling out


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_exactly_one_counts_the_choices(cases: int, size: int, data: st.DataObject) -> None:
    size = min(size, cases)
    satisfied = data.draw(st.integers(0, cases))
    choices = list(itertools.combinations(range(cases), size))
    right = sum(sum(case < satisfied for case in choice) == 1 for choice in choices)
    assert exactly_one(np.asarray([satisfied]), cases, size)[0] == pytest.approx(right / len(choices))


def test_a_verbatim_release_singles_out_and_another_sample_does_not() -> None:
    original, control = (_log(name, _random_traces(300, seed), hours=1) for name, seed in (("o", 1), ("c", 2)))
    other = _log("r", _random_traces(300, 3), hours=1)
    profile = Profile(6, Knowledge("rel", T="hours"))
    verbatim = singling_out(Material.of(original, control, original, profile), 200, 1, np.random.default_rng(0)).risk
    safe = singling_out(Material.of(original, control, other, profile), 200, 1, np.random.default_rng(0)).risk
    assert verbatim is not None
    assert safe is not None
    assert verbatim.rate > 0.9
    assert verbatim.clear
    assert not safe.clear


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
    risks = linkability(material, everybody, everybody, 1, np.random.default_rng(0))
    assert {name: risk and risk.rate for name, risk in risks.items()} == {
        "odd and even items": 1.0,
        "early and late items": 1.0,
    }


def test_equal_records_are_linked_by_chance_alone() -> None:
    log = _log("o", ["abcd"] * 200)
    material = Material.of(log, None, log, Profile())
    risk = linkability(material, np.arange(200), np.arange(0), 1, np.random.default_rng(0))["odd and even items"]
    assert risk is not None
    apart = math.comb(200 - CANDIDATES, CANDIDATES) / math.comb(200, CANDIDATES)
    assert risk.control == pytest.approx(1 - apart)
    low, high = wilson(risk.rate, 200, 0.999)
    assert low <= 1 - apart <= high


# Inference


def test_a_value_that_only_the_release_tells_is_inferred() -> None:
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


def test_reasons_are_given_for_what_cannot_be_guessed() -> None:
    original = _log("o", ["ab"] * 4, {"diagnosis": ["x"] * 4})
    released = _log("r", ["ab"] * 4, {"diagnosis": ["class 1"] * 4})
    material = Material.of(original, None, released, Profile(1))
    results = inference(material, np.arange(4), np.arange(0), ["diagnosis", "age"], 1, np.random.default_rng(0))
    reasons = {result.secret: result.reason for result in results if result.risk is None}
    assert "shows classes" in reasons["value of diagnosis"]
    assert reasons["value of age"] == "the original does not carry 'age'"
    assert reasons["resource of a known activity"] == "the original carries no resources"


# Reconstruction


@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=8),
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=8),
)
def test_pieces_are_those_of_a_plain_search(original: list[str], released: list[str]) -> None:
    if not set("".join(original)) & set("".join(released)):
        return
    material = Material.of(_log("o", original), None, _log("r", released), Profile(1))
    result = reconstruction(material, 1, np.random.default_rng(0))

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


# The whole


def test_every_attack_sees_a_release_that_is_the_original() -> None:
    """The negative control of the issue: risk near 1 where the attacker knows enough to ask."""
    rng = np.random.default_rng(7)
    logs = []
    for name, seed in (("o", 1), ("c", 2)):
        values = rng.choice(["v", "w", "x", "y"], size=250).tolist()
        traces = _random_traces(250, seed, length=12, letters="abcdefghijklmnop")
        logs.append(_log(name, traces, {"diagnosis": values}, hours=1))
    original, control = logs
    profile = Profile(8)
    assessment = assess(original, original, control, [profile], sensitive=["diagnosis"])
    expected = {
        ("singling out", "known items and hours"): 0.95,
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


def test_another_sample_of_the_process_is_not_accused() -> None:
    """Nothing of the release depends on the people of the original: 20 assessments, 5 % may be accused."""
    accused = 0
    for seed in range(20):
        logs = [
            _log(name, _random_traces(80, 100 * seed + k, length=5, letters="abcd")) for k, name in enumerate("ocr")
        ]
        original, control, released = logs
        assessment = assess(original, released, control, [Profile(3)], seed=seed)
        accused += any(result.seen for result in assessment.results)
    # More than 4 of 20 has a probability of .003 if each is accused with .05.
    assert accused <= 4


def test_an_assessment_never_says_safe() -> None:
    original, control = (_log(name, _random_traces(40, seed)) for name, seed in (("o", 1), ("c", 2)))
    text = str(assess(original, _log("r", _random_traces(40, 3)), control, [Profile()]).json())
    assert "safe" not in text.lower()


def test_two_runs_with_one_seed_are_equal() -> None:
    original, control = (_log(name, _random_traces(40, seed), hours=1) for name, seed in (("o", 1), ("c", 2)))
    released = _log("r", _random_traces(40, 3), hours=1)
    runs = [assess(original, released, control, [Profile()], seed=5).json() for _ in range(2)]
    assert runs[0] == runs[1]


def test_refusals_name_what_is_wrong() -> None:
    original, other = _log("o", ["ab", "ac"]), _log("o", ["ab"])
    with pytest.raises(InputError, match="1 cases are in the original and in the control"):
        assess(original, original, other, [Profile()])
    with pytest.raises(InputError, match="no activity of the release is in the original"):
        assess(original, _log("r", ["xy"]), None, [Profile()])
    with pytest.raises(InputError, match="the release has no event"):
        assess(original, original.select_cases(np.zeros(2, dtype=np.bool_)), None, [Profile()])
    with pytest.raises(InputError, match="1 to 8 items"):
        Profile(9)


@pytest.mark.parametrize("control", [None, ["a", "b"], ["ab", "ba", "ab", "ba"]])
def test_cases_of_one_event_hinder_attacks_and_end_none(control: list[str] | None) -> None:
    """Nothing can be cut in two, and nothing is left to guess: each attack says so."""
    original, released = _log("o", ["a", "b", "a"]), _log("r", ["a", "a"])
    outside = None if control is None else _log("c", control)
    (result,) = assess(original, released, outside, [Profile()], sensitive=["diagnosis"]).results
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
