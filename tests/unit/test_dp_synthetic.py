"""dp-synthetic as a whole: the share of each stage, the noise that it draws, refusals, and what a release contains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import noise, synthetic, zcdp
from models.dp.noise import NoiseSource
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, spreading, times
from models.dp.synthesis.contexts import UNIT, ContextLevel
from models.dp.synthesis.labels import LabelRule
from models.dp.synthesis.table import VariantCounts
from models.dp.synthetic import Design, Shares, StageBudget
from models.dp.zcdp import rho_of, scale_of, tail
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from tests.oracles.privacy_loss import ball, precision, reference
from tests.unit.known_noise import EqualNoise, RecordingNoise

HOUR = 3_600_000


def _gaussian(rho: Fraction, sensitivity: int) -> float:
    return sensitivity / (2 * float(rho)) ** 0.5


def _hourly_log(traces: list[str], step: int = HOUR) -> EventLog:
    case, activity, time = [], [], []
    for number, trace in enumerate(traces):
        for place, name in enumerate(trace):
            case.append(str(number))
            activity.append(name)
            time.append((number * HOUR + place * step) * 1_000_000)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


def test_every_stage_draws_with_its_share() -> None:
    """Scales are sensitivity over the stage's part of epsilon: c for weights; over the root of twice its part of rho: c
    for labels and variants, B c for the model's levels, 3/2 of it for the times. All are lower by one factor, the gain
    of exact composition (`test_a_release_draws_the_least_noise_that_keeps_its_promise`)."""
    source = RecordingNoise()
    bounds = times.PublicTimeBounds(DAY, (0, 30 * DAY))
    shares = synthetic.Shares.of(
        {"labels": "0.1", "variants": "0.2", "model": "0.2", "weights": "0.2", "times": "0.3"}, labels=True, times=True
    )
    design = synthetic.Design(max_labels=3, case_weight=2, bounds=bounds, shares=shares, sample=50, candidates=5)
    log = _hourly_log(["abc"] * 900 + ["acb"] * 500)
    released = synthetic.release_synthetic(
        log, epsilon=2, delta_dp="1e-3", design=design, cases_per_person=2, draw=source
    )
    scales = [scale for scale, _ in source.asked]
    unit = contexts.UNIT
    # Labels have an eighth, variants and model two, times three; two thresholds have a twentieth of delta each.
    rho = rho_of(Fraction(16, 10), Fraction(9, 10_000))
    model = _gaussian(rho / 8, 2 * 2 * unit)
    expected = [_gaussian(rho / 8, 2 * unit), _gaussian(rho / 4, 2), model, model, 2 / 0.4]
    expected.append(_gaussian(rho * 3 / 8, 3 * 2 * unit))
    gains = [before / scale for before, scale in zip(expected, scales, strict=True)]
    assert gains == pytest.approx([gains[0]] * len(scales), rel=1e-9)
    assert gains[0] > 1
    assert released.log.n_cases > 0


@pytest.mark.parametrize(
    ("epsilon", "cases", "common", "counts_variants"),
    [("1", 1, 900, True), ("0.1", 1, 9_000, True), ("0.1", 1, 90, False), ("0.4", 3, 90, False), ("0.5", 3, 900, True)],
)
def test_a_release_draws_the_least_noise_that_keeps_its_promise(
    epsilon: str, cases: int, common: int, counts_variants: bool
) -> None:
    """The scales that a release asks for, composed in balls of 200 bits: (epsilon, delta_dp) holds, and with noise that
    is lower by a two-hundredth it would not. A small log of small epsilon has no counts of variants."""
    source = RecordingNoise()
    design = synthetic.Design(activities=("a", "b", "c"), sample=50, candidates=5)
    terms = Terms.of(epsilon, "1e-6", cases)
    log = _hourly_log(["abc"] * common + ["acb"] * (common // 2))
    synthetic.release_synthetic(
        log, epsilon=epsilon, delta_dp="1e-6", design=design, cases_per_person=cases, draw=source
    )
    *gaussian, weights = [scale for scale, _ in source.asked]
    # Variants are counted in cases, steps of the model in parts of 2^-16.
    sensitivity = design.case_weight * contexts.UNIT * cases
    of_variants = [scale for scale in gaussian if scale < contexts.UNIT]
    levels = [scale for scale in gaussian if scale >= contexts.UNIT]
    assert len(of_variants) == counts_variants
    distance = sum(gaussian_distance(scale, cases) for scale in of_variants)
    distance += sum(gaussian_distance(level, sensitivity) for level in levels)
    pure = cases / Fraction(weights)
    # The threshold of variants, as the manifest names it, lets a single person's variants pass this often.
    threshold = StageBudget.of(terms, design).thresholds(terms, design)["threshold"]
    variants = StageBudget.of(terms, design).frequent(terms).scale
    most = max(math.exp(tail(variants, threshold - cases)), cases * math.exp(tail(variants, threshold - 1)))
    lower = Fraction(200, 199)
    with precision(200):
        allowed = ball(terms.delta_dp) - ball(most)
        assert reference(distance, [pure], terms.epsilon) < allowed
        assert reference(distance * lower**2, [pure * lower], terms.epsilon) > allowed


@given(st.booleans(), st.booleans(), st.fractions(Fraction(1, 1000), 10))
def test_usual_shares_add_up(labels_: bool, times_: bool, epsilon: Fraction) -> None:
    """The defaults add up to 1 exactly, whichever stages run."""
    usual = synthetic.Shares.usual(labels=labels_, times=times_, epsilon=epsilon)
    assert sum(getattr(usual, stage) for stage in synthetic.STAGES) == 1
    synthetic.Shares.of({s: getattr(usual, s) for s in synthetic.STAGES}, labels=labels_, times=times_)


def test_parts_of_epsilon_and_delta_add_up() -> None:
    """The parts of the stages add up to the whole, and delta is divided among those that select and the conversion."""
    for design in (synthetic.Design(), synthetic.Design(activities=("a",), bounds=times.PublicTimeBounds(DAY))):
        budget = synthetic.StageBudget.of(Terms.of("0.7", "1e-5"), design)
        assert sum(getattr(budget, stage) for stage in synthetic.STAGES) == Fraction(7, 10)
        assert budget.delta_labels + budget.delta_variants + budget.delta_composed == Fraction(1, 10**5)


def test_the_order_of_the_log_does_not_show() -> None:
    """The counts of stage 3 come in one order, independent of the order of cases: ties among cases would follow it."""
    design = synthetic.Design(activities=("a", "b", "c"))
    terms = Terms.of(50, "0.1")
    budget = synthetic.StageBudget.of(terms, design)
    orders = [
        list(
            synthetic.frequent_variants(VariantCounts.of(_hourly_log(traces), "abc"), budget, terms, noise.simulated(1))
        )
        for traces in (["ab"] * 90 + ["cb"] * 90, ["cb"] * 90 + ["ab"] * 90)
    ]
    assert orders == [[(0, 1), (2, 1)]] * 2


def test_declared_labels_fix_what_is_drawn() -> None:
    """Whether the log has all declared labels or one of them does not show in how much noise is drawn first."""
    asked = []
    for traces in (["ab"] * 50, ["abcd"] * 50):
        source = RecordingNoise()
        design = synthetic.Design(activities=tuple("abcde"), order=1, sample=50, candidates=5)
        synthetic.release_synthetic(_hourly_log(traces), epsilon=1, delta_dp="1e-3", design=design, draw=source)
        asked.append([size for _, size in source.asked][1])
    assert asked == [36, 36]


@pytest.mark.parametrize("traces", [[], ["secret"]])
def test_a_log_of_nothing_frequent_gives_a_release(traces: list[str]) -> None:
    """No label passes: a release without events, and a message to the operator; no error, which would reveal it."""
    result = synthetic.release_synthetic(_hourly_log(traces), epsilon=1, delta_dp="1e-9")
    assert result.log.n_events == 0
    assert bool(result.operator["warnings"]) == bool(traces)


def test_seeds_are_never_private_and_no_stage_takes_one() -> None:
    """A release drawn from a seeded source reports it."""
    given: dict[str, Any] = {"epsilon": 5, "delta_dp": "1e-3", "design": synthetic.Design(activities=("a", "b"))}
    assert synthetic.release_synthetic(_hourly_log(["ab"] * 9), **given).private
    assert not synthetic.release_synthetic(_hourly_log(["ab"] * 9), **given, draw=noise.simulated(1)).private


def test_counts_follow_the_log() -> None:
    """With little noise a log of three variants comes back with about its counts."""
    log = _hourly_log(["abc"] * 300 + ["acb"] * 100 + ["ab"] * 50)
    design = synthetic.Design(activities=("a", "b", "c"), sample=2000, candidates=50)
    released = synthetic.release_synthetic(log, epsilon=50, delta_dp="0.01", design=design).log
    counts = Counter("".join(trace) for trace in released.traces())
    assert abs(counts["abc"] - 300) <= 3
    assert abs(counts["acb"] - 100) <= 3
    assert abs(counts["ab"] - 50) <= 3


DAY = 86_400_000


NONE = Fraction(0)


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def _counts(log: EventLog) -> dict[str, int]:
    return dict(Counter("".join(trace) for trace in log.traces()))


def _parts(shares: Any) -> dict[str, Fraction]:
    return {stage: getattr(shares, stage) for stage in synthetic.STAGES}


def test_shares_by_default() -> None:
    """Three tenths for times if they run; of the rest .05 for variants, .57 for the model and .38 for the
    weights; below an epsilon of a half .05, .75 and .2. Labels have .05 of those of the model, or .1. If
    releases add up: of the rest seven tenths and three."""
    for labels in (False, True):
        for timed in (False, True):
            rest = 1 - Fraction(3 * timed, 10)
            usual, small = (5, 57, 38, 5), (5, 75, 20, 10)
            for epsilon, parts in ((1, usual), (Fraction(1, 2), usual), (Fraction(499, 1000), small)):
                of_labels = parts[3] * labels
                assert _parts(Shares.usual(labels=labels, times=timed, epsilon=Fraction(epsilon))) == {
                    "labels": rest * Fraction(of_labels, 100),
                    "variants": rest * Fraction(parts[0], 100),
                    "model": rest * Fraction(parts[1] - of_labels, 100),
                    "weights": rest * Fraction(parts[2], 100),
                    "times": Fraction(3 * timed, 10),
                }
    for timed in (False, True):
        rest = 1 - Fraction(timed, 5)
        assert _parts(Shares.adding_up(times=timed)) == {
            "labels": 0, "variants": 0, "model": rest * Fraction(7, 10), "weights": rest * Fraction(3, 10),
            "times": Fraction(timed, 5),
        }  # fmt: skip


def test_a_design_that_is_not_given_is_that_of_the_reference() -> None:
    """docs/configuration.md; its shares are the usual ones of the stages that run, given ones stay."""
    usual = Design()
    said = (usual.max_labels, usual.order, usual.case_weight, usual.candidates, usual.max_length, usual.sample)
    assert said == (64, 2, 3, 1000, 200, 10_000)
    assert (usual.activities, usual.other, usual.given, usual.bounds, usual.shares) == (None, None, (), None, None)
    for epsilon in (Fraction(1), Fraction(1, 10)):
        assert Design().split(epsilon) == Shares.usual(labels=True, times=False, epsilon=epsilon)
        timed = Design(activities=("a",), bounds=times.PublicTimeBounds(DAY)).split(epsilon)
        assert timed == Shares.usual(labels=False, times=True, epsilon=epsilon)
        given = Shares.adding_up(times=False)
        assert Design(shares=given).split(epsilon) == given


def test_shares_that_are_written() -> None:
    """They stay as written, exactly; a stage that is not named gets none."""
    found = Shares.of({"model": "0.7", "weights": "0.3"}, labels=False, times=False)
    assert _parts(found) == {
        "labels": 0, "variants": 0, "model": Fraction(7, 10), "weights": Fraction(3, 10), "times": 0,
    }  # fmt: skip
    whole = {"labels": "0.1", "variants": "0.2", "model": "0.3", "weights": "0.15", "times": "0.25"}
    assert _parts(Shares.of(whole, labels=True, times=True)) == {key: Fraction(part) for key, part in whole.items()}


@pytest.mark.parametrize(
    ("given", "labels", "timed", "said"),
    [
        ({"model": "0.5", "zzz": 1, "mid": 1}, False, False, "unknown stage mid; use labels"),
        ({"model": "0.5", "weights": "0.4"}, False, False, "shares add up to 0.9, not to 1"),
        ({"model": "0.5", "weights": "0.6"}, False, False, "shares add up to 1.1, not to 1"),
        ({"weights": 1}, False, False, "shares.model must be above 0: no release without it"),
        ({"model": 1}, False, False, "shares.weights must be above 0: no release without it"),
        ({"model": "0.5", "weights": "0.5"}, True, False, "shares.labels must be above 0: no activities are declared"),
        ({"model": "0.5", "weights": "0.5"}, False, True, "shares.times must be above 0: max_duration asks for times"),
        ({"model": "0.4", "weights": "0.5", "labels": "0.1"}, False, False,
         "shares.labels must be 0: activities declares the labels"),
        ({"model": "0.4", "weights": "0.5", "times": "0.1"}, False, False,
         "shares.times must be 0: no max_duration is declared, so no times leave"),
    ],
)  # fmt: skip
def test_shares_that_cannot_be(given: dict[str, Any], labels: bool, timed: bool, said: str) -> None:
    """Shares that do not add up, an unknown stage, a stage that runs without a share, and one that has a share and does
    not run.
    """
    with pytest.raises(InputError, match=said):
        Shares.of(given, labels=labels, times=timed)


@pytest.mark.parametrize(
    ("name", "most"),
    [("max_labels", 10_000), ("order", 4), ("case_weight", 1_000), ("candidates", 2_000), ("max_length", 10_000),
     ("sample", 1_000_000)],
)  # fmt: skip
def test_a_parameter_is_within_its_range(name: str, most: int) -> None:
    """From 1 to the most, both of them; beyond, the range is named."""
    for value in (1, most):
        assert getattr(Design(**{name: value}), name) == value
    for value in (0, most + 1):
        with pytest.raises(InputError, match=f"{name} must be between 1 and {most}$"):
            Design(**{name: value})


def test_a_declared_alphabet_has_labels() -> None:
    """None declared is another thing than none selected."""
    with pytest.raises(InputError, match="declares no label"):
        Design(activities=())
    assert Design(activities=("a",)).activities == ("a",)


def test_epsilon_and_delta_of_each_stage() -> None:
    """Shares of epsilon; each stage that selects has a twentieth of delta, the composition of all has the remainder."""
    shares = Shares(Fraction(1, 8), Fraction(1, 8), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4))
    terms = Terms.of(4, "1e-3")
    both = StageBudget.of(terms, Design(shares=shares, bounds=times.PublicTimeBounds(DAY)))
    assert _parts(both) == {stage: part * 4 for stage, part in _parts(shares).items()}
    assert (both.delta_labels, both.delta_variants) == (Fraction(1, 20_000),) * 2
    assert both.delta_composed == Fraction(9, 10_000)
    declared = StageBudget.of(terms, Design(activities=("a",)))
    assert (declared.labels, declared.delta_labels) == (0, 0)
    assert (declared.delta_variants, declared.delta_composed) == (Fraction(1, 20_000), Fraction(19, 20_000))
    labels = Shares(Fraction(1, 2), NONE, Fraction(1, 4), Fraction(1, 4), NONE)
    selected = StageBudget.of(terms, Design(shares=labels))
    assert (selected.delta_labels, selected.delta_variants) == (Fraction(1, 20_000), 0)
    assert selected.delta_composed == Fraction(19, 20_000)
    none = StageBudget.of(terms, Design(activities=("a",), shares=Shares.adding_up(times=False)))
    assert (none.delta_labels, none.delta_variants, none.delta_composed) == (0, 0, Fraction(1, 1000))


LEAST, MOST = Fraction(1, 2**10), 2**56
"""Scales that noise can have."""


def _budget(**changed: Fraction) -> StageBudget:
    usual = dict.fromkeys(synthetic.STAGES, NONE) | {"model": Fraction(1), "weights": Fraction(1)}
    deltas = dict.fromkeys(("delta_labels", "delta_variants", "delta_composed"), Fraction(1, 100))
    return StageBudget(**(usual | deltas | changed))


@pytest.mark.parametrize("person", [1, 3])
def test_weights_whose_noise_would_be_none_or_would_not_fit_are_refused(person: int) -> None:
    """Noise of the least and of the largest scale passes, a little beyond it is refused. Above 2^56 a draw could leave
    64 bits."""
    design, terms = Design(max_labels=5, order=3, case_weight=7), Terms.of(1, "0.01", person)
    most, least = person / LEAST, Fraction(person, MOST)
    for weights in (most, least):
        _budget(weights=weights).check(terms, design)
    with pytest.raises(InputError, match="outside"):
        _budget(weights=most * Fraction(1_000_001, 1_000_000)).check(terms, design)
    with pytest.raises(InputError, match="does not fit 64 bits"):
        _budget(weights=least * Fraction(999_999, 1_000_000)).check(terms, design)


def test_rho_is_that_of_all_gaussian_stages_divided_by_their_shares() -> None:
    """The largest that their epsilon together allows at the delta of the conversion."""
    budget = _budget(labels=Fraction(1, 2), variants=Fraction(1, 2), model=Fraction(3))
    whole = budget.rho("labels") + budget.rho("variants") + budget.rho("model")
    assert budget.rho("model") == 6 * budget.rho("variants") == 6 * budget.rho("labels")
    assert (
        zcdp.epsilon_of(whole, Fraction(1, 100))
        <= 4
        < zcdp.epsilon_of(whole * Fraction(10001, 10000), Fraction(1, 100))
    )


@pytest.mark.parametrize("person", [1, 3])
def test_gaussian_noise_that_cannot_be_is_refused(person: int) -> None:
    """None at all, and more than 64 bits hold; of variants also what no log would reach."""
    design, terms = Design(order=3, case_weight=7), Terms.of(1, "0.01", person)
    for model in (Fraction(1, 10**5), Fraction(10**9)):
        _budget(model=model).check(terms, design)
    for model, said in ((Fraction(10**20), "outside"), (Fraction(1, 10**24), "too small")):
        with pytest.raises(InputError, match=said):
            _budget(model=model).check(terms, design)
    _budget(variants=Fraction(1, 10**4)).check(terms, design)
    with pytest.raises(InputError, match="a variant would need more than"):
        _budget(variants=Fraction(1, 10**12)).check(terms, design)
    with pytest.raises(InputError, match="outside"):
        _budget(variants=Fraction(10**20)).check(terms, design)


@pytest.fixture
def whole_rho(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fraction], None]:
    """Sets the rho that variants and model have together."""
    return lambda rho: monkeypatch.setattr(synthetic, "rho_of", lambda epsilon, delta: rho)


@pytest.mark.parametrize("person", [1, 3])
def test_the_ends_of_the_noise_of_a_level(person: int, whole_rho: Callable[[Fraction], None]) -> None:
    """(B c)^2 / (2 scale^2) is a measurement's part of rho: its scale is 2^-10 to 2^50, ends included.

    Of three levels the least part is a sixth (a third for the first level, and a half for contexts of two labels), and
    the largest is two thirds (all that is left, for the first level again).
    """
    design, terms = Design(order=3, case_weight=7), Terms.of(1, "0.01", person)
    square = Fraction((7 * UNIT * person) ** 2, 2)
    whole_rho(6 * square / 2**100)
    _budget().check(terms, design)
    whole_rho(6 * square / 2**100 * Fraction(999_999, 1_000_000))
    with pytest.raises(InputError, match="rho is too small"):
        _budget().check(terms, design)
    whole_rho(square * 2**20 * 3 / 2)
    _budget().check(terms, design)
    whole_rho(square * 2**20 * 3 / 2 * Fraction(1_000_001, 1_000_000))
    with pytest.raises(InputError, match="outside"):
        _budget().check(terms, design)


@pytest.mark.parametrize("person", [1, 3])
def test_the_ends_of_the_noise_of_times(person: int, whole_rho: Callable[[Fraction], None]) -> None:
    """(N c)^2 / (2 scale^2) is the part of the times, N = 3/2 B; without times there is no such noise."""
    terms = Terms.of(1, "0.01", person)
    design = Design(order=1, case_weight=6, bounds=times.PublicTimeBounds(DAY))
    # The model has far more noise than the times, or far less: it does not decide.
    square = Fraction((9 * UNIT * person) ** 2, 2)
    little, much = Fraction(1, 1000), Fraction(1000)
    whole_rho(square * 2**20 * (1 + little))
    _budget(times=Fraction(1), model=little).check(terms, design)
    whole_rho(square * 2**20 * (1 + little) * Fraction(1_000_001, 1_000_000))
    with pytest.raises(InputError, match="outside"):
        _budget(times=Fraction(1), model=little).check(terms, design)
    _budget(times=NONE, model=little).check(terms, Design(order=1, case_weight=1000))
    whole_rho(square / 2**100 * (1 + much))
    _budget(times=Fraction(1), model=much).check(terms, design)
    whole_rho(square / 2**100 * (1 + much) * Fraction(999_999, 1_000_000))
    with pytest.raises(InputError, match="rho is too small"):
        _budget(times=Fraction(1), model=much).check(terms, design)


@pytest.mark.parametrize("person", [1, 3])
def test_the_widest_noise_of_variants(
    person: int, whole_rho: Callable[[Fraction], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scale of 50,000 is allowed where its threshold is, and more is not; the largest threshold is."""
    terms, budget = Terms.of(1, "0.3", person), _budget(variants=Fraction(1), delta_variants=Fraction(3, 10))
    widest = Fraction(person**2, 2 * 50_000**2)
    whole_rho(2 * widest)
    budget.check(terms, Design())
    least = budget.frequent(terms).threshold
    monkeypatch.setattr(synthetic, "MAX_THRESHOLD", least)
    budget.check(terms, Design())
    monkeypatch.setattr(synthetic, "MAX_THRESHOLD", least - 1)
    with pytest.raises(InputError, match=f"a variant would need more than {least - 1} cases"):
        budget.check(terms, Design())
    monkeypatch.setattr(synthetic, "MAX_THRESHOLD", 10 * least)
    whole_rho(2 * widest * Fraction(999_999, 1_000_000))
    with pytest.raises(InputError, match=f"a variant would need more than {10 * least} cases"):
        budget.check(terms, Design())


@pytest.mark.parametrize("person", [1, 3])
def test_the_ends_of_the_noise_of_labels(person: int, whole_rho: Callable[[Fraction], None]) -> None:
    """(c UNIT)^2 / (2 scale^2) is the part of labels in rho: the scale is 2^-10 at least and 2^50 at most."""
    design, terms = Design(order=3, case_weight=7), Terms.of(1, "0.01", person)
    budget = _budget(labels=Fraction(1, 10**9), model=1 - Fraction(1, 10**9))
    square = Fraction((UNIT * person) ** 2, 2)
    whole_rho(10**9 * square / 2**100)
    budget.check(terms, design)
    whole_rho(10**9 * square / 2**100 * Fraction(999_999, 1_000_000))
    with pytest.raises(InputError, match="rho is too small"):
        budget.check(terms, design)
    loud = _budget(labels=1 - Fraction(1, 10**9), model=Fraction(1, 10**9))
    whole_rho(square * 2**20 / (1 - Fraction(1, 10**9)))
    loud.check(terms, design)
    whole_rho(square * 2**20 * Fraction(1_000_001, 1_000_000) / (1 - Fraction(1, 10**9)))
    with pytest.raises(InputError, match="outside"):
        loud.check(terms, design)


def test_an_epsilon_that_is_no_rho_at_all_is_refused() -> None:
    """If its smallest counted part would be too much, epsilon is named, as rho was not given."""
    assert zcdp.rho_of(Fraction(1, 10**9), Fraction(1, 10**12)) == 0
    with pytest.raises(InputError, match="epsilon is too small: noise of the model"):
        _budget(model=Fraction(1, 10**9), delta_composed=Fraction(1, 10**12)).rho("model")


def test_thresholds_that_a_release_says() -> None:
    """Those of the stages that select, and no others."""
    terms, design = Terms.of(1, "0.02"), Design(max_labels=2)
    found = _budget(variants=Fraction(2), labels=Fraction(3)).thresholds(terms, design)
    assert set(found) == {"label_threshold", "threshold"}
    rule = _budget(variants=Fraction(2)).frequent(terms)
    alone = zcdp.threshold(rule.scale, Fraction(1, 100))
    assert rule.rho == zcdp.rho_of(Fraction(3), Fraction(1, 100)) * 2 / 3
    assert _budget(variants=Fraction(2)).thresholds(terms, design) == {"threshold": alone}
    of_labels = _budget(labels=Fraction(3)).label_rule(terms, design)
    assert of_labels == LabelRule(zcdp.rho_of(Fraction(4), Fraction(1, 100)) * 3 / 4, Fraction(1, 100), 2, 1)
    expected = {"label_threshold": of_labels.least_cases}
    assert _budget(labels=Fraction(3)).thresholds(terms, design) == expected
    cases = of_labels.threshold / UNIT
    assert cases <= of_labels.least_cases < cases + 1
    assert _budget().thresholds(terms, design) == {}
    with pytest.raises(InputError, match="epsilon is too small"):
        _budget(variants=Fraction(1, 10**12)).check(terms, design)
    with pytest.raises(InputError, match="epsilon is too small"):
        StageBudget.of(Terms.of("1e-5", "1e-9"), Design(activities=("a",)))


def _over(
    log: EventLog, design: Design, budget: StageBudget, terms: Terms, source: NoiseSource, **more: Any
) -> tuple[tuple[str, ...], EventLog, VariantCounts]:
    may_leave = synthetic.chosen_labels(log, design, budget, terms, source, **more)
    kept, table = synthetic.over_labels(log, may_leave, design)
    return table.alphabet, kept, table


def test_declared_labels_are_the_alphabet() -> None:
    """Each once, in order, whatever the log has; others are dropped from it, or become the declared other label."""
    design, terms, source = Design(activities=("c", "a", "c", "b")), Terms.of(1, "0.1"), EqualNoise(seed=7)
    log = _log("axb", "b", "x", "zx")
    alphabet, kept, table = _over(log, design, _budget(), terms, source)
    assert alphabet == table.alphabet == ("a", "b", "c")
    assert _counts(kept) == {"ab": 1, "b": 1, "": 2}
    assert dict(zip(table.variants, table.counts.tolist(), strict=True)) == {(0, 1): 1, (1,): 1, (): 2}
    alphabet, kept, table = _over(log, Design(activities=("c", "a", "b"), other="x"), _budget(), terms, source)
    assert alphabet == table.alphabet == ("a", "b", "c", "x")
    assert _counts(kept) == {"axb": 1, "b": 1, "x": 1, "xx": 1}
    many = tuple(f"label {number}" for number in range(50))
    assert _over(_log("a"), Design(activities=many), _budget(), terms, source)[0] == tuple(sorted(many))
    assert source.asked == []
    with pytest.raises(InputError, match="other is also one of activities"):
        Design(activities=("a", "b"), other="b")


def test_selected_labels_are_those_above_the_threshold() -> None:
    """By their part of rho and their delta, c cases a person, and the first `max_labels` of each case."""
    budget = _budget(labels=Fraction(2))
    terms, design = Terms.of(1, "0.01", 2), Design(max_labels=3)
    rule = budget.label_rule(terms, design)
    cases = rule.least_cases
    log = _log(*["a"] * cases, *["b"] * cases, *["c"] * (cases - 1), *["dea"] * 2, "acbd")
    source = EqualNoise(seed=7)
    alphabet, kept, table = _over(log, design, budget, terms, source)
    assert alphabet == ("a", "b", "c") == table.alphabet
    assert source.asked == [(rule.scale, 5)]
    assert _counts(kept) == {"a": cases + 2, "b": cases, "c": cases - 1, "acb": 1}
    quiet = EqualNoise(-2 * cases * UNIT, seed=7)
    assert _over(log, design, budget, terms, quiet)[0] == ()


def test_the_other_label_is_not_selected() -> None:
    """It may leave because it is declared, and takes the events of all labels that may not."""
    budget, terms = _budget(labels=Fraction(2)), Terms.of(1, "0.01")
    cases = budget.label_rule(terms, Design(other="o")).least_cases
    log = _log(*["a"] * cases, *["o"] * 2 * cases, "axo")
    source = EqualNoise(seed=7)
    alphabet, kept, _ = _over(log, Design(other="o"), budget, terms, source)
    assert alphabet == ("a", "o")
    assert [size for _, size in source.asked] == [2]
    assert _counts(kept) == {"a": cases, "o": 2 * cases, "aoo": 1}
    assert _over(_log("xy"), Design(other="o"), budget, terms, source)[:1] == (("o",),)


def test_labels_that_an_earlier_release_selected_are_kept() -> None:
    """Nothing is drawn for them; the rho and delta of all Gaussian stages together stay as they were."""
    terms, design, source = Terms.of(1, "0.01"), Design(), EqualNoise(seed=7)
    budget = StageBudget.of(terms, design)
    log = _log(*["abx"] * 900)
    assert _over(log, design, budget, terms, source, kept_labels=("a", "q"))[0] == ("a", "q")
    assert source.asked == []
    later = budget.after_labels()
    assert (later.labels, later.delta_labels) == (0, 0)
    assert sum(_parts(later).values()) == sum(_parts(budget).values())
    together = budget.rho("labels") + budget.rho("variants") + budget.rho("model")
    assert later.rho("variants") + later.rho("model") == together
    assert later.rho("model") / later.rho("variants") == budget.rho("model") / budget.rho("variants")
    assert later.delta_variants == budget.delta_labels + budget.delta_variants
    assert (later.delta_composed, later.weights, later.times) == (budget.delta_composed, budget.weights, budget.times)
    without_variants = _budget(labels=Fraction(1)).after_labels()
    assert without_variants.model == 2
    assert without_variants.delta_variants == 0


def test_a_release_with_kept_labels_draws_as_later_ones_do() -> None:
    """The scales of a release are those of the budget without labels; a declared alphabet needs none."""
    log = _log(*["ab"] * 300)
    first, later = RecordingNoise(), RecordingNoise()
    terms: dict[str, Any] = {"epsilon": 4, "delta_dp": "1e-3", "design": Design(sample=50, candidates=5)}
    released = synthetic.release_synthetic(log, **terms, draw=first)
    assert released.labels == ("a", "b")
    again = synthetic.release_synthetic(log, **terms, draw=later, kept_labels=released.labels)
    assert again.labels == ("a", "b")
    budget = StageBudget.of(Terms.of(4, "1e-3"), Design())
    assert first.scales[0] == budget.label_rule(Terms.of(4, "1e-3"), Design()).scale
    assert first.scales[1] == budget.frequent(Terms.of(4, "1e-3")).scale
    assert later.scales[0] == budget.after_labels().frequent(Terms.of(4, "1e-3")).scale < first.scales[1]


def test_frequent_variants_come_in_the_order_of_their_labels() -> None:
    """Those that reach the threshold, with their counts; without a share none, and nothing is drawn."""
    terms = Terms.of(1, "0.01", 2)
    least = _budget(variants=Fraction(2)).thresholds(terms, Design())["threshold"]
    log = _log(*["cb"] * (least + 3), *["ba"] * (least - 1), *["ab"] * least)
    source = EqualNoise(seed=7)
    found = synthetic.frequent_variants(VariantCounts.of(log, "abc"), _budget(variants=Fraction(2)), terms, source)
    assert list(found.items()) == [((0, 1), least), ((2, 1), least + 3)]
    budget = _budget(variants=Fraction(2))
    assert source.asked == [(pytest.approx(2 / (2 * float(budget.rho("variants"))) ** 0.5), 3)]
    assert synthetic.frequent_variants(VariantCounts.of(log, "abc"), _budget(), terms, source) == {}
    assert len(source.asked) == 1


def test_the_model_sees_the_cases_that_were_not_taken() -> None:
    """Each level with an equal part of the model's rho. A case of two steps weighs as one of four: 3 / 2 a step."""
    source, design = EqualNoise(seed=7), Design(activities=("a", "b"), order=2, case_weight=3)
    table = VariantCounts.of(_log(*["ab"] * 9, *["b"] * 4), "ab")
    budget = _budget(model=Fraction(10**6))
    first, second = synthetic.residual_model(table, {(0, 1): 9}, design, budget, Terms.of(1, "0.1", 2), source)
    assert first.cells.tolist() == [[0, 0, 0], [0, 0, 6 * contexts.UNIT], [0, 6 * contexts.UNIT, 0]]
    each = float(budget.rho("model")) / 2
    assert [scale for scale, _ in source.asked] == pytest.approx([3 * contexts.UNIT * 2 / (2 * each) ** 0.5] * 2)
    assert second.contexts.tolist() == [2 * 3 + 1]  # the start, then b


def _previewed(
    cases: int, others: int, shares: Shares, order: int, epsilon: str = "0.49"
) -> tuple[dict[tuple[int, ...], int], list[ContextLevel], tuple[list[float], float, float]]:
    """Return stages 1 and 2 of cases "ab" and others "b", and the rhos of the noise of the model."""
    source, design = EqualNoise(seed=7), Design(activities=("a", "b"), order=order, case_weight=3, shares=shares)
    terms = Terms.of(epsilon, "0.1", 2)
    budget = StageBudget.of(terms, design)
    table = VariantCounts.of(_log(*["ab"] * cases, *["b"] * others), "ab")
    frequent, levels = synthetic.variants_and_model(table, design, budget, terms, source)
    rhos = [(3 * UNIT * 2) ** 2 / (2 * scale**2) for scale, _ in source.asked if scale > UNIT]
    whole, of_variants = float(budget.rho("model")), float(budget.rho("variants")) if budget.variants else 0.0
    return frequent, levels, (rhos, whole, of_variants)


SHARES_BELOW = Shares(NONE, Fraction(1, 4), Fraction(1, 2), Fraction(1, 4), NONE)


def test_below_an_epsilon_of_a_half_a_preview_of_noise_leaves_all_to_the_first_level() -> None:
    """The rho of variants too: none of them is counted. The level is the mean of both measurements of all cases."""
    frequent, (level,), (rhos, whole, of_variants) = _previewed(20, 40, SHARES_BELOW, 3)
    assert frequent == {}
    assert rhos == pytest.approx([whole / 24, whole * 23 / 24 + of_variants])
    # A case of few steps weighs as one of four: 3 / 2 a step.
    assert level.cells.tolist() == [[0, 30 * UNIT, 0], [0, 0, 90 * UNIT], [30 * UNIT, 60 * UNIT, 0]]
    assert level.scale[0] * 2**0.5 == pytest.approx(3 * UNIT * 2 / (2 * (whole + of_variants)) ** 0.5)


def test_a_preview_is_part_of_the_first_level_of_the_cases_whose_variant_is_not_frequent() -> None:
    """Of its rho too. Noisy counts take the frequent variant out of the preview."""
    frequent, levels, (rhos, whole, of_variants) = _previewed(4_000, 2, SHARES_BELOW, 2)
    assert frequent == {(0, 1): 4_000}
    assert of_variants > 0
    assert rhos[:2] == pytest.approx([whole / 24, whole / 2 - whole / 24])
    first = levels[0]
    assert first.cells.tolist() == [[0, 0, 0], [0, 0, 3 * UNIT], [0, 3 * UNIT, 0]]
    # Two cases are too few for longer contexts: the first level is measured again with all of the rest.
    assert rhos[2:] == pytest.approx([whole / 2])
    assert first.scale[0] * 2**0.5 == pytest.approx(3 * UNIT * 2 / (2 * whole) ** 0.5)


@given(
    epsilon=st.fractions(Fraction(1, 50), Fraction(49, 100), max_denominator=1000),
    variants=st.fractions(Fraction(1, 100), Fraction(4, 5), max_denominator=1000),
    cases=st.integers(1, 5),
    bounds=st.booleans(),
)
def test_a_release_without_variants_has_no_larger_privacy_loss(
    epsilon: Fraction, variants: Fraction, cases: int, bounds: bool
) -> None:
    """With any shares the pair of its Gaussian stages is no farther, and those of the other stages are the same.

    What is measured in two parts, the preview and the rest, has no farther a pair than one measurement. Scales are
    floats that are rounded up: the margin of `exact_gain`, a part in 10^9, covers what that may add.
    """
    timed = (1 - variants) / 4 if bounds else NONE
    rest = 1 - variants - timed
    shares = Shares(NONE, variants, rest / 2, rest / 2, timed)
    design = Design(activities=("a",), shares=shares, bounds=times.PublicTimeBounds(DAY) if bounds else None)
    terms = Terms.of(epsilon, "1e-6", cases)
    budget = StageBudget.of(terms, design)
    either, without = budget, budget.without_variants()
    assert without.rho("model") == either.rho("model") + either.rho("variants")
    assert without.pure("weights") == either.pure("weights")
    assert (without.variants, without.delta_variants) == (0, 0)
    larger = either.composition(terms, design).distance * (1 + Fraction(1, 10**14))
    assert without.composition(terms, design).distance <= larger
    sensitivity = design.case_weight * UNIT * cases
    preview = either.rho("model") / 24
    parts = [
        gaussian_distance(scale_of(rho, sensitivity), sensitivity) for rho in (preview, without.rho("model") - preview)
    ]
    whole = gaussian_distance(scale_of(without.rho("model"), sensitivity), sensitivity)
    assert sum(parts) <= whole * (1 + Fraction(1, 10**14))


def test_from_an_epsilon_of_a_half_on_there_is_no_preview() -> None:
    """The first measurement has the whole rho of the first level."""
    _, _, (rhos, whole, _) = _previewed(20, 40, SHARES_BELOW, 2, epsilon="0.5")
    assert rhos[0] == pytest.approx(whole / 2)


def test_without_a_share_for_variants_there_is_no_preview() -> None:
    """It would decide nothing."""
    shares = Shares(NONE, NONE, Fraction(1, 2), Fraction(1, 2), NONE)
    frequent, _, (rhos, whole, _) = _previewed(20, 40, shares, 2)
    assert frequent == {}
    assert rhos[0] == pytest.approx(whole / 2)


def _level(cells: list[list[int]], scale: float) -> ContextLevel:
    return ContextLevel(np.arange(len(cells)), np.asarray(cells, dtype=np.int64), np.full(len(cells), scale))


def _divided(cells: list[list[int]], scale: float) -> list[Fraction]:
    """Divide a rho of 12 evenly over three levels, and return what a first level leaves of it."""
    return synthetic.divided(_level(cells, scale), [Fraction(4)] * 3, [Fraction(3), Fraction(2)])


def test_the_rho_that_is_left_is_divided_by_the_steps_of_a_cell() -> None:
    """On average over the cells that are left once each has paid ln(rows) / 2 deviations: below 1.6 scales all for the
    first level, below 5.7 parts of the whole for longer contexts, from there on all for these."""
    scale = 1000.0
    paid = 2**0.5 * scale * np.log(2) / 2
    for least, below, from_there in ((1.6, [8], [3, 3, 2]), (5.7, [3, 3, 2], [0, 4, 4])):
        cell = round(least * scale + paid)
        assert _divided([[cell, 0], [0, cell]], scale) == from_there
        assert _divided([[cell - 1, 0], [0, cell - 1]], scale) == below
        assert _divided([[cell + 500, 0], [0, cell - 500]], scale) == from_there
        assert _divided([[cell + 500, 0], [0, cell - 501]], scale) == below
        assert _divided([[cell, 0], [0, 0]], scale) == from_there, "a cell without steps is not one that is left"
    assert _divided([[0, 0], [0, 0]], scale) == [8]
    assert _divided([[-9_000, 0], [0, round(paid)]], scale) == [8]
    two = _level([[3_000, 0], [0, 3_000]], scale)
    assert synthetic.divided(two, [Fraction(6), Fraction(6)], [Fraction(4)]) == [2, 4]
    assert synthetic.divided(two, [Fraction(6), Fraction(6)], [Fraction(6)]) == [0, 6]


def test_the_longest_contexts_have_the_parts_of_all_that_are_longer() -> None:
    """From one label, which leaves none, to four, for which there is no further part."""
    parts = (Fraction(3, 10), Fraction(1, 5))
    assert [synthetic.parts_of(parts, order) for order in (1, 2, 3, 4)] == [(), (Fraction(1, 2),), parts, parts]
    assert synthetic.parts_of(parts[:1], 3) == parts[:1]


@pytest.mark.parametrize(("epsilon", "parts"), [("0.49", [0.3, 0.2]), ("0.5", [1 / 3])])
def test_the_parts_of_longer_contexts_follow_from_epsilon(epsilon: str, parts: list[float]) -> None:
    """Of the rho of the model, by the noise that is drawn: a first level of 4 scales a cell, which is not sure. A third
    for contexts of two labels; or three tenths for these, and a fifth for those of three."""
    source, design = EqualNoise(seed=7), Design(activities=("a",), order=3, case_weight=1)
    budget, terms = _budget(), Terms.of(epsilon, "0.1")
    whole = float(budget.rho("model"))
    # Each case has the steps to a and to the end, each of a weight of 1 / sqrt(2).
    scale_of_first = 1 / (2 * whole / 3) ** 0.5
    cases = round(4 * scale_of_first / 2**0.5 * 2**0.5 + 2**0.5 * math.log(2) / 2 * scale_of_first)
    table = VariantCounts(("a",), ((0,),), np.asarray([cases]))
    synthetic.residual_model(table, {}, design, budget, terms, source)
    expected = [whole / 3, whole * (2 / 3 - sum(parts)), *(whole * part for part in parts)]
    drawn = [contexts.UNIT**2 / (2 * scale**2) for scale, _ in source.asked]
    assert drawn == pytest.approx(expected)


def test_the_order_of_the_model_by_default() -> None:
    """Three labels, or two for more than a hundred declared ones."""
    hundred = tuple(f"a{place}" for place in range(100))
    assert synthetic.usual_order(None) == synthetic.usual_order(hundred) == 3
    assert synthetic.usual_order((*hundred, *hundred)) == 3, "a label that is declared twice is one"
    assert synthetic.usual_order((*hundred, "b")) == 2


def _like(
    drawn: dict[tuple[int, ...], int], cases: float, level: ContextLevel, sample: int
) -> tuple[dict[tuple[int, ...], int], float]:
    design = Design(case_weight=2, sample=sample)  # steps of cases with at most four of them weigh 1
    return synthetic.like_level(drawn, cases, level, design, EqualNoise(seed=7), spreading.POOL)


def test_drawn_traces_are_as_frequent_as_the_first_level_says() -> None:
    """300 cases of one event and 100 of two, whatever the model drew and however many cases it is asked for; a sample
    of as many as the design says. A case without events is not a trace that represents others."""
    level = _level([[100 * UNIT, 400 * UNIT], [400 * UNIT, 0]], UNIT / 100)
    for cases in (1.0, 50.0, 900.0):
        found, total = _like({(0,): 2, (): 5, (0, 0): 8}, cases, level, 1000)
        assert total == pytest.approx(400, abs=0.1)
        assert set(found) == {(0,), (0, 0)}
        assert found[0,] == pytest.approx(750, abs=2)
        assert sum(found.values()) == pytest.approx(1000, abs=1)


def test_what_the_first_level_does_not_distinguish_stays_as_it_was_drawn() -> None:
    """Two traces of the same six steps in another order: three of one were drawn for each of the other."""
    one, other = (0, 1, 0, 2, 0), (0, 2, 0, 1, 0)
    cells = np.zeros((4, 4), dtype=np.int64)
    for before, after in ((3, 0), (0, 1), (1, 0), (0, 2), (2, 0), (0, 3)):
        cells[before, after] = round(90 * UNIT * 2 / 6**0.5)
    found, total = _like({one: 30, other: 10}, 40.0, _level(cells.tolist(), UNIT / 100), 400)
    assert total == pytest.approx(90, abs=0.1)
    assert (found[one], found[other]) == (pytest.approx(300, abs=1), pytest.approx(100, abs=1))


def test_a_part_of_the_drawn_traces_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is time for, each as likely as it was drawn."""
    monkeypatch.setattr(spreading, "POOL", 40)
    level = _level([[100 * UNIT, 400 * UNIT], [400 * UNIT, 0]], UNIT / 100)
    often = {(0,): 10_000, **{(0,) * length: 1 for length in range(2, 102)}}
    found, _ = _like(often, 400.0, level, 1000)
    assert (0,) in found
    assert len(found) < 10
    each = {(0,) * length: 1 for length in range(1, 101)}
    monkeypatch.setattr(synthetic, "fitted", lambda prior, cells: prior)
    found, total = _like(each, 400.0, level, 40_000)
    assert total == pytest.approx(400)
    assert list(found.values()) == [1000] * 40
    assert set(found) != set(list(each)[:40]), "not those that were drawn first"


def test_a_model_of_no_case_is_not_fitted() -> None:
    """Fewer than one case, or no trace with an event: what was drawn stays."""
    level = _level([[0, 400 * UNIT], [400 * UNIT, 0]], UNIT / 100)
    drawn = {(0, 0): 3, (): 2, (0,): 1}
    assert _like(drawn, 0.999, level, 100) == (drawn, 0.999)
    assert _like({(): 7}, 50.0, level, 100) == ({(): 7}, 50.0)


def _listed(
    weights: Fraction,
    candidates: int,
    frequent: dict[tuple[int, ...], int],
    given: tuple[tuple[str, ...], ...] = (),
    epsilon: str = "1",
) -> tuple[list[tuple[int, ...]], tuple[str, ...]]:
    """Candidates for 64 cases, all of two of eight labels, and those of the frequent variants."""
    names = tuple("abcdefgh")
    log = _log(*[one + other for one in names for other in names])
    design = Design(activities=names, case_weight=10, candidates=candidates, sample=2_000, given=given)
    budget, terms = _budget(model=Fraction(10**7), weights=weights), Terms.of(epsilon, "0.1", 2)
    levels = synthetic.residual_model(VariantCounts.of(log, names), {}, design, budget, terms, EqualNoise(seed=7))
    listed = synthetic.candidate_list(levels, frequent, names, design, budget, terms, EqualNoise(seed=7))
    return listed.traces, listed.alphabet


def test_so_many_candidates_as_their_noise_allows() -> None:
    """One for every 1.4 scales of the noise that there are cases (2 below an epsilon of a half): frequent
    cases, and those of the model; one at least, and no more than the design says."""
    scale = Fraction(2)  # 2 cases a person
    weights = 2 / scale
    assert len(_listed(weights, 1000, {})[0]) == int(64 / 2.8)
    assert len(_listed(weights, 1000, {(0, 0, 0): 37})[0]) == 1 + int((64 + 37) / 2.8)
    small = "0.49"
    assert len(_listed(weights, 1000, {}, epsilon=small)[0]) == 64 // 4 - 1  # the fitted cases are a little below 64
    assert len(_listed(weights, 1000, {(0, 0, 0): 37}, epsilon=small)[0]) == 1 + (64 + 37) // 4
    assert len(_listed(weights, 9, {(0, 0, 0): 37})[0]) == 1 + 9
    assert len(_listed(Fraction(1, 1000), 1000, {})[0]) == 1


def test_candidates_are_listed_once_in_the_order_of_stages() -> None:
    """Frequent variants, then given traces, then those of the model; labels that only given ones have follow behind the
    alphabet, in order."""
    given = (("a", "z"), ("b", "a"), ("a", "y"), ("a", "z"))
    listed, alphabet = _listed(Fraction(1), 1000, {(1, 0): 5, (0, 0, 0): 7}, given)
    assert alphabet == (*"abcdefgh", "y", "z")
    assert listed[:4] == [(1, 0), (0, 0, 0), (0, 9), (0, 8)]
    assert len(set(listed)) == len(listed)
    assert len(listed) == 4 + int((64 + 12) / 2.8)
    many = tuple(f"label {number}" for number in range(50))
    assert _listed(Fraction(1, 2), 1000, {}, (many,))[1] == (*"abcdefgh", *sorted(many))


def _release(log: EventLog, draw: NoiseSource | None = None, **design: Any) -> Any:
    plan = Design(**({"activities": ("a", "b", "c"), "sample": 500, "candidates": 5} | design))
    return synthetic.release_synthetic(log, epsilon=400, delta_dp="0.1", design=plan, draw=draw or EqualNoise(seed=7))


def test_a_release_says_what_it_is_to_the_operator() -> None:
    """Cases and variants in and out, what was invented, and what was dropped with a warning."""
    log = _log(*["ab"] * 60, *["abc"] * 30, *["axb"] * 9, "xx")
    found = _release(log, given=(("a", "b", "b"), (), ("q",)))
    assert _counts(found.log) == {"ab": 69, "abc": 30}
    assert found.operator == {
        "variants": {"in": 3, "out": 2, "invented": 0},
        "cases": {"in": 100, "frequent": 99, "out": 99},
        "labels": {"may_leave": 3, "dropped_events": 11},
        "frequent_variants": 2,
        "warnings": [
            "11 of 239 events have labels that are not declared or not frequent enough, and were dropped: "
            "3 labels may leave"
        ],
    }
    assert found.terms == Terms.of(400, "0.1")
    assert (
        found.threshold
        == StageBudget.of(found.terms, Design(activities=("a",))).thresholds(found.terms, Design())["threshold"]
    )
    assert not found.private
    assert _release(_log("ab")).operator["warnings"] == []
    empty = _release(_log("xx", "x"))
    assert empty.operator["warnings"] == [
        "no event of the log has a label that may leave: declare activities, or raise epsilon"
    ]
    assert _release(_log()).operator["warnings"] == []


def test_a_table_whose_counts_do_not_fit_is_a_fault() -> None:
    """Not a report on fewer cases."""
    table = VariantCounts(("a",), ((0,),), np.asarray([1, 2]))
    with pytest.raises(ValueError, match="longer"):
        synthetic._operator(1, 0, table, {}, [])


def test_candidates_come_from_all_levels_of_the_model() -> None:
    """The label before c determines what follows: with the first level alone "acf" would be drawn as well."""
    names = tuple("abcdef")
    log = _log(*["acd"] * 40, *["bcf"] * 40)
    for order in (2, 3):
        design = Design(activities=names, order=order, sample=400, candidates=50)
        budget, terms = _budget(model=Fraction(10**7)), Terms.of(1, "0.1")
        levels = synthetic.residual_model(VariantCounts.of(log, names), {}, design, budget, terms, EqualNoise(seed=7))
        listed = synthetic.candidate_list(levels, {}, names, design, budget, terms, EqualNoise(seed=7))
        assert set(listed.drawn) == {(0, 2, 3), (1, 2, 5)}


def _of_level(level: ContextLevel, epsilon: str, sample: int) -> tuple[dict[tuple[int, ...], int], int, float]:
    """Return the drawn traces of a first level over two labels, the pool, and the scales that drop a cell."""
    names = ("a", "b")
    design = Design(activities=names, sample=sample, candidates=5)
    budget, terms = _budget(model=Fraction(10**7)), Terms.of(epsilon, "0.1")
    listed = synthetic.candidate_list([level], {}, names, design, budget, terms, EqualNoise(seed=7))
    return listed.drawn, listed.pool, listed.drop


@pytest.mark.parametrize(
    ("epsilon", "prices", "is_kept"),
    [("0.49", 1.1, False), ("0.49", 1.2, True), ("0.5", 1.5, False), ("0.5", 1.7, True)],
)
def test_a_cell_costs_more_from_an_epsilon_of_a_half_on(epsilon: str, prices: float, is_kept: bool) -> None:
    """The start of a case with a rare label is in a model of one level if it has more than 1.15 prices below
    that epsilon, and 1.6 from there on."""
    scale = 100 * UNIT
    price = 2**0.5 * math.log(3) / 2 * scale
    sure, rare = 1_000 * UNIT, round(prices * price)
    level = _level([[0, 0, sure], [0, 0, rare], [sure, rare, 0]], scale)
    drawn, _, _ = _of_level(level, epsilon, 2_000)
    assert set(drawn) == ({(0,), (1,)} if is_kept else {(0,)})


@pytest.mark.parametrize(
    ("epsilon", "prices", "is_kept"),
    [("0.49", 0.75, False), ("0.49", 0.9, True), ("0.5", 1.5, False), ("0.5", 1.9, True)],
)
def test_a_cell_of_a_frequent_label_costs_less_below_an_epsilon_of_a_half(
    epsilon: str, prices: float, is_kept: bool
) -> None:
    """Its label has far more than twice the mean, so it pays .7 times 1.15 prices. From a half on it pays 1.6."""
    scale = 100 * UNIT
    sure, repeated = 1_000 * UNIT, round(prices * 2**0.5 * math.log(3) / 2 * scale)
    level = _level([[repeated, 0, sure], [0, 0, 0], [sure, 0, 0]], scale)
    drawn, _, _ = _of_level(level, epsilon, 5_000)
    assert ((0, 0) in drawn) is is_kept


def test_the_variants_of_a_model_decide_the_pool_and_which_cells_are_dropped() -> None:
    """Traces of about 33 labels are seldom drawn twice. Few variants have a small pool, and cells of one scale stay;
    below an epsilon of a half no pool is large, and cells of less than two scales are dropped."""
    many = _level([[97 * UNIT, 0, 3 * UNIT], [0, 0, 0], [3 * UNIT, 0, 0]], 1e-3)
    few = _level([[0, 0, 9 * UNIT], [0, 0, 0], [9 * UNIT, 0, 0]], 1e-3)
    assert _of_level(many, "0.5", 50)[1:] == (spreading.LARGE_POOL, 2.0)
    assert _of_level(few, "0.5", 50)[1:] == (spreading.POOL, 1.0)
    assert _of_level(many, "0.49", 50)[1:] == (5_000, 2.0)
    assert _of_level(few, "0.49", 50)[1:] == (spreading.POOL, 2.0)


@pytest.mark.parametrize(("epsilon", "brought_near"), [("0.49", candidates.POOL), ("0.5", candidates.LARGE_POOL)])
def test_a_few_representatives_bring_more_variants_near_from_an_epsilon_of_a_half_on(
    epsilon: str, brought_near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five of them are compared with the large pool there."""
    pools = []

    def representative(drawn: Any, known: Any, most: int, pool: int) -> list[Any]:
        pools.append(pool)
        return []

    monkeypatch.setattr(candidates, "representative", representative)
    _of_level(_level([[0, 0, 9 * UNIT], [0, 0, 0], [9 * UNIT, 0, 0]], 1e-3), epsilon, 50)
    assert pools == [brought_near]


def _models_of(
    levels: list[ContextLevel], monkeypatch: pytest.MonkeyPatch, *, is_small: bool = False
) -> list[list[ContextLevel]]:
    """Draw a sample of levels over two labels, and return the levels of each model that it is drawn from."""
    seen, plain = [], contexts.Model.of

    def noted(of_model: Any) -> Any:
        seen.append(list(of_model))
        return plain(of_model)

    monkeypatch.setattr(contexts.Model, "of", noted)
    design = Design(activities=("a", "b"), sample=500)
    drawn, _, _ = synthetic.model_sample(levels, design, EqualNoise(seed=7), is_small=is_small)
    assert sum(drawn.values()) == pytest.approx(500, abs=1)
    return seen


def test_longer_contexts_are_those_of_a_model_of_numbers_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred cases "aaab": of five steps two are from a to a. They weigh the root of two times as much as one step,
    and about twice as much in the second model, by traces like these; there is none without longer contexts."""
    variant, cases = [(0, 0, 0, 1)], np.asarray([100])
    budget = _budget(model=Fraction(10**12))
    table = VariantCounts.of(_log(*["aaab"] * 100), "ab")
    assert (list(table.variants), table.counts.tolist()) == (variant, cases.tolist())
    design = Design(activities=("a", "b"), order=2)
    levels = synthetic.residual_model(table, {}, design, budget, Terms.of(1, "0.1"), EqualNoise(seed=7))
    as_measured, in_steps = _models_of(levels, monkeypatch)
    for level, expected in ((as_measured[0], 2**0.5), (in_steps[0], 2.0)):
        cells = level.cells
        assert cells[0, 0] / cells[2, 0] == pytest.approx(expected, rel=0.1)
        assert cells[0, 1] == pytest.approx(cells[2, 0], rel=0.1)
    assert as_measured[1] is levels[1]
    assert in_steps[1].contexts.tolist() == levels[1].contexts.tolist()
    monkeypatch.undo()
    assert len(_models_of(levels[:1], monkeypatch)) == 1


def test_longer_contexts_keep_cells_above_the_noise_as_numbers_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of 1.5 scales of the noise is kept, one of a unit less is not. The step to "b" occurs once in
    each case and the one to "a" several times, so a unit of its weight is fewer steps than the mean."""
    first = _level([[0, 0, 0], [0, 0, 0], [0, 0, 0]], 1.0)
    first.cells[2, 0] = first.cells[0, 1] = first.cells[1, 2] = 100 * UNIT
    first.cells[0, 0] = round(100 * 2**0.5 * UNIT)
    for at_limit, kept in ((15 * UNIT, True), (15 * UNIT - 1, False)):
        second = ContextLevel(np.asarray([0]), np.asarray([[at_limit, 90 * UNIT, -UNIT]]), np.full(1, 10.0 * UNIT))
        _, in_steps = _models_of([first, second], monkeypatch)
        repeated, to_b, end = in_steps[1].cells[0].tolist()
        assert end == 0
        assert (repeated > 0) is kept
        ratio = to_b / (90 * UNIT)
        assert 0.5 < ratio < 0.99
        monkeypatch.undo()


def test_the_first_of_two_models_gives_fewer_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It only shows how many steps a unit of weight is. A design may ask for fewer traces than it takes for that."""
    sizes, plain = [], contexts.Model.sample

    def sample(model: Any, size: int, *arguments: Any) -> Any:
        sizes.append(size)
        return plain(model, size, *arguments)

    monkeypatch.setattr(contexts.Model, "sample", sample)
    first = _level([[0, 0, 9 * UNIT], [0, 0, 0], [9 * UNIT, 0, 0]], 1e-3)
    second = ContextLevel(np.asarray([0]), np.asarray([[0, 0, 9 * UNIT]]), np.full(1, 1e-3))
    for asked, of_first in ((6_000, 2_000), (700, 700)):
        design = Design(activities=("a", "b"), sample=asked)
        synthetic.model_sample([first, second], design, EqualNoise(seed=7), is_small=False)
        assert sizes == [of_first, asked]
        sizes.clear()


def test_below_an_epsilon_of_a_half_the_second_model_goes_half_of_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the cases above the second model has the root of 2 times 2 steps from a to a for each step at the start."""
    table = VariantCounts.of(_log(*["aaab"] * 100), "ab")
    design = Design(activities=("a", "b"), order=2)
    budget = _budget(model=Fraction(10**12))
    levels = synthetic.residual_model(table, {}, design, budget, Terms.of(1, "0.1"), EqualNoise(seed=7))
    _, in_steps = _models_of(levels, monkeypatch, is_small=True)
    cells = in_steps[0].cells
    assert cells[0, 0] / cells[2, 0] == pytest.approx((2**0.5 * 2.0) ** 0.5, rel=0.1)


@pytest.mark.parametrize(("prices", "is_kept"), [(1.5, False), (1.7, True)])
def test_below_an_epsilon_of_a_half_a_cell_costs_more_with_longer_contexts(prices: float, is_kept: bool) -> None:
    """1.6 prices, as from there on; the contexts hold no step."""
    scale = 100 * UNIT
    sure, rare = 1_000 * UNIT, round(prices * 2**0.5 * math.log(3) / 2 * scale)
    first = _level([[0, 0, sure], [0, 0, rare], [sure, rare, 0]], scale)
    second = ContextLevel(np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64), np.zeros(0))
    design = Design(activities=("a", "b"), sample=2_000)
    drawn, _, _ = synthetic.model_sample([first, second], design, EqualNoise(seed=7), is_small=True)
    assert set(drawn) == ({(0,), (1,)} if is_kept else {(0,)})


def test_the_cells_of_a_release_are_dropped_as_its_list_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of the list of candidates is the one by which small counts are set to 0."""
    asked: list[float] = []

    def reweigh(*arguments: Any, drop: float) -> Any:
        asked.append(drop)
        return np.zeros(len(arguments[1]), dtype=np.int64)

    monkeypatch.setattr(synthetic.candidates, "reweigh", reweigh)
    for epsilon in ("0.49", "0.5"):
        design = Design(activities=("a", "b"), sample=50)
        synthetic.release_synthetic(
            _log(*["ab"] * 400), epsilon=epsilon, delta_dp="1e-3", design=design, draw=EqualNoise(seed=7)
        )
    assert asked == [2.0, 1.0]


def test_cases_are_spread_over_the_pool_alone() -> None:
    """Three drawn traces are near one candidate that was not drawn: a pool of one has one of them.

    The candidate itself is released only if it is declared.
    """
    drawn = {(0, 0): 1, (0, 1): 1, (0, 0, 0): 1}
    level = _level([[0, 0, 0], [0, 0, 0], [0, 0, 0]], 1e9 * UNIT)
    for pool, declared, n_traces in ((1, (), 1), (3, (), 3), (3, [(0,)], 4)):
        listed = synthetic.CandidateList([(0,)], ("a", "b"), drawn, pool, frozenset(declared))
        assert len(listed.fitted(np.asarray([400]), 1.0, [level], {}, 100, EqualNoise(seed=7))) == n_traces
    first = _level([[0, 0, 40 * UNIT], [0, 0, 0], [40 * UNIT, 0, 0]], UNIT)
    design = Design(case_weight=100, sample=30)
    alike, _ = synthetic.like_level(drawn, 40.0, first, design, EqualNoise(seed=7), 1)
    assert len(alike) == 1


@pytest.mark.parametrize(("scale", "weight"), [(1.0, 0.1), (13.5, 0.1), (27.0, 0.05), (135.0, 0.01)])
def test_a_noisy_prior_weighs_less(scale: float, weight: float) -> None:
    """Twice the noise has half the weight; if the first level alone was measured, noise does not count."""
    assert synthetic.weight_of_prior(scale, 2) == pytest.approx(weight)
    assert synthetic.weight_of_prior(scale, 1) == 0.1


def test_the_noise_of_the_weights_decides_how_much_the_prior_of_the_last_fit_weighs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fortieth of a thousandth of epsilon 400 makes a scale of more than 50, so less than half of a tenth is left."""
    weights_asked = []

    def fit(near: spreading.Spread, cells: Any, draw: NoiseSource, faith: float) -> Any:
        weights_asked.append(faith)
        return original(near, cells, draw, faith)

    original = synthetic.fit
    monkeypatch.setattr(synthetic, "fit", fit)
    tiny, source = Fraction(1, 40_000), EqualNoise(seed=7)
    shares = Shares(NONE, NONE, 1 - tiny, tiny, NONE)
    assert _counts(_release(_log(*["ab"] * 300), source, shares=shares).log) == {"ab": 300}
    scale_of_weights = source.asked[-1][0]
    assert scale_of_weights > 50
    assert weights_asked == [pytest.approx(0.1 * 13.5 / scale_of_weights)]


def test_cases_that_stand_for_several() -> None:
    """A table of variants with how many cases each has is released as the cases themselves; times need these."""
    shares = Shares(NONE, Fraction(1, 2), Fraction(1, 4), Fraction(1, 4), NONE)
    plan = Design(activities=("a", "b", "c"), shares=shares, sample=500, candidates=5)
    asked = {"epsilon": 400, "delta_dp": "0.1", "cases": np.asarray([60, 30, 1])}
    found = synthetic.release_synthetic(_log("ab", "abc", "ax"), design=plan, draw=EqualNoise(seed=7), **asked)
    whole = _log(*["ab"] * 60, *["abc"] * 30, "ax")
    each = synthetic.release_synthetic(whole, epsilon=400, delta_dp="0.1", design=plan, draw=EqualNoise(seed=7))
    assert _counts(found.log) == _counts(each.log)
    assert found.operator == each.operator
    assert found.operator["cases"]["in"] == 91
    timed = Design(activities=("a", "b", "c"), bounds=times.PublicTimeBounds(DAY))
    with pytest.raises(InputError, match="read off the cases themselves"):
        synthetic.release_synthetic(_log("ab", "abc", "ax"), design=timed, draw=EqualNoise(seed=7), **asked)


def test_a_trace_that_nobody_had_is_invented() -> None:
    """A case nearest to a given candidate leaves as that."""
    shares = Shares(NONE, NONE, Fraction(1, 2), Fraction(1, 2), NONE)
    found = _release(_log(*["abc"] * 50), given=(("a", "b", "b"),), shares=shares, order=1, sample=1, candidates=1)
    assert set(_counts(found.log)) <= {"abb", "abc"}
    figures = found.operator["variants"]
    assert figures["invented"] == ("abb" in _counts(found.log))
    assert found.threshold == 0
    only = _release(_log(*["acb"] * 50), given=(("a", "c", "c"),), shares=shares, max_length=1)
    assert only.operator["variants"] == {"in": 1, "out": 1, "invented": 1}
    ((trace, cases),) = _counts(only.log).items()
    assert trace == "acc"
    assert 45 <= cases <= 50, "the first level holds no step from c to c: the fit may take a few cases"


def test_times_without_bounds_say_nothing() -> None:
    """One event a second from 1970 on, in every case."""
    release = _release(_log(*["ab"] * 60, *["abc"] * 40))
    log = release.log
    assert release.facts == {}
    for begin, end in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True):
        assert log.time[begin:end].tolist() == [place * 10**9 for place in range(end - begin)]


def test_times_with_bounds_are_drawn() -> None:
    """From the true cases' histograms, at the stage's part of rho, B and c."""
    source = EqualNoise(seed=7)
    bounds = times.PublicTimeBounds(DAY)
    plan = Design(activities=("a", "b"), sample=100, candidates=5, bounds=bounds, case_weight=3)
    log = EventLog.from_events(
        [str(n // 2) for n in range(800)], ["a", "b"] * 400,
        np.asarray([n // 2 * DAY + n % 2 * 7_200_000 for n in range(800)], dtype=np.int64) * 1_000_000,
        unit="ns",
    )  # fmt: skip
    release = synthetic.release_synthetic(
        log, epsilon=100, delta_dp="0.1", design=plan, cases_per_person=2, draw=source
    )
    found = release.log
    assert _counts(found) == {"ab": 400}
    edges = bounds.step_edges
    place = int(np.searchsorted(edges, 7_200_000, side="right"))
    took = (found.time[found.starts[:-1] + 1] - found.time[found.starts[:-1]]) // 1_000_000
    assert np.mean((took >= edges[place - 1]) & (took <= edges[place])) > 0.95
    assert release.facts["throughput_seconds"]["median"] == pytest.approx(7_200, rel=0.2)
    assert release.facts["unreadable"] == []
    scales = [scale for scale, _ in source.asked]
    unit = 3 * contexts.UNIT * 2
    budget = StageBudget.of(Terms.of(100, "0.1", 2), plan)
    model = unit / (2 * float(budget.rho("model")) / 2) ** 0.5
    variants = 2 / (2 * float(budget.rho("variants"))) ** 0.5
    timed = 1.5 * unit / (2 * float(budget.rho("times"))) ** 0.5
    assert scales == pytest.approx([variants, model, model, 2 / (26.6 * float(budget.gain)), timed], rel=1e-12)
    assert [size for scale, size in source.asked][-1] == len(edges) - 1 + len(bounds.throughput_edges) - 1


def test_too_many_events_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the limit leave, one more is refused with the number."""
    log = _log(*["ab"] * 60, *["abc"] * 30)
    monkeypatch.setattr(synthetic, "MAX_EVENTS", 210)
    assert _release(log).log.n_events == 210
    monkeypatch.setattr(synthetic, "MAX_EVENTS", 209)
    with pytest.raises(BoundError, match="add up to 210 events"):
        _release(log)


@pytest.mark.parametrize("decisive", [1, 2])
def test_released_cases_agree_with_every_level(decisive: int) -> None:
    """300 cases are "ab" and 100 "ba" by one level of the model; the other one and the counts of stage 3 are noise.
    With a bound of 2 each of their three steps weighs 1."""
    one, other = (0, 1), (1, 0)
    scales = [UNIT / 100 if order == decisive else 1e5 * UNIT for order in (1, 2)]
    first = _level([[0, 300 * UNIT, 100 * UNIT], [100 * UNIT, 0, 300 * UNIT], [300 * UNIT, 100 * UNIT, 0]], scales[0])
    # Its contexts are the start, then a, and the start, then b.
    cells = np.asarray([[0, 300 * UNIT, 0], [100 * UNIT, 0, 0]], dtype=np.int64)
    second = ContextLevel(np.asarray([2 * 3 + 0, 2 * 3 + 1]), cells, np.full(2, scales[1]))
    listed = synthetic.CandidateList([one, other], ("a", "b"), {}, pool=9)
    found = dict(listed.fitted(np.asarray([200, 200]), 1e5, [first, second], {}, 2, EqualNoise(seed=7)))
    assert found == {one: pytest.approx(300, abs=2), other: pytest.approx(100, abs=2)}


# the account of a series


def _selecting(**shares: str) -> Design:
    bounds = times.PublicTimeBounds(DAY, (0, 30 * DAY)) if "times" in shares else None
    written = Shares.of(shares, labels=True, times=bounds is not None)
    return Design(max_labels=3, case_weight=2, bounds=bounds, shares=written)


EVERY_STAGE = {"labels": "0.1", "variants": "0.2", "model": "0.2", "weights": "0.2", "times": "0.3"}


@pytest.mark.parametrize("person", [1, 3])
def test_the_noise_of_every_stage_is_accounted_for(person: int) -> None:
    """A person with c = 1 or 3 cases changes c cases of one label, c variants, B c of the model, 3/2 of it of times."""
    terms, design = Terms.of(1, "1e-3", person), _selecting(**EVERY_STAGE)
    budget = StageBudget.of(terms, design)
    labels, variants, model, timed, weights = budget.draws(terms, design)
    assert [draw.sensitivity for draw in (labels, variants, model, timed)] == [
        UNIT * person,
        person,
        2 * UNIT * person,
        3 * UNIT * person,
    ]
    for draw, stage in ((labels, "labels"), (variants, "variants"), (model, "model"), (timed, "times")):
        assert draw.kind == "gaussian"
        assert float(draw.scale) == pytest.approx(_gaussian(budget.rho(stage), int(draw.sensitivity)), rel=1e-12)
    assert (labels.delta, variants.delta, model.delta, timed.delta) == (Fraction(1, 20_000), Fraction(1, 20_000), 0, 0)
    assert (weights.kind, weights.epsilon) == ("pure", Fraction(2, 10) * budget.gain)


@pytest.mark.parametrize(
    "design",
    [
        Design(activities=("a", "b")),
        _selecting(**EVERY_STAGE),
        _selecting(labels="0.1", model="0.6", weights="0.3"),
        _selecting(labels="0.5", variants="0.1", model="0.2", weights="0.2"),
    ],
)
@pytest.mark.parametrize("person", [1, 2])
def test_a_gain_is_the_largest_that_every_release_of_the_series_keeps(design: Design, person: int) -> None:
    """In parts of 1,024. The release that selects labels and the later ones keep delta; with one part more, one of
    them does not."""
    terms = Terms.of(2, "1e-3", person)
    budget = StageBudget.of(terms, design)
    assert budget.gain > 1
    assert 1024 % budget.gain.denominator == 0

    def deltas(gain: Fraction) -> list[float]:
        first = replace(budget, gain=gain)
        releases = [first, first.after_labels()] if first.labels else [first]
        return [release.composition(terms, design).delta(2) - float(release.delta_composed) for release in releases]

    assert max(deltas(budget.gain)) <= 0
    assert max(deltas(budget.gain + Fraction(1, 1024))) > 0


def test_noise_of_so_small_a_scale_has_no_gain() -> None:
    """Its privacy loss is not known exactly: epsilons are added up."""
    terms = Terms.of(20, "0.1")
    assert StageBudget.of(terms, Design(activities=("a", "b"))).gain == 1


def test_the_release_of_the_larger_loss_stands_for_a_series() -> None:
    """With frequent variants that is a later one: their noise has the smallest scale, and they get a part of that of
    labels. If nearly all of it goes to a model of long cases, whose scale is larger, it is the first one."""
    terms = Terms.of(1, "1e-3")
    long_cases = replace(_selecting(labels="0.6", model="0.1", weights="0.3"), case_weight=20)
    for design, is_later in ((_selecting(**EVERY_STAGE), True), (long_cases, False)):
        budget = StageBudget.of(terms, design)
        later = budget.after_labels()
        assert (later.composition(terms, design).distance > budget.composition(terms, design).distance) == is_later
        expected = (later if is_later else budget).draws(terms, design)
        assert synthetic.series_draws(budget, terms, design) == expected
        assert synthetic.series_draws(later, terms, design) == later.draws(terms, design)


def test_a_series_of_too_small_a_scale_has_no_known_noise() -> None:
    """The ledger then keeps its epsilon."""
    terms, design = Terms.of(20, "0.1"), Design(activities=("a", "b"))
    assert synthetic.series_draws(StageBudget.of(terms, design), terms, design) == ()


@pytest.mark.parametrize("timed", [False, True])
def test_labels_of_added_releases_are_paid_by_the_model(timed: bool) -> None:
    """A tenth of what times leave: the model has six tenths in place of seven."""
    left = Fraction(4, 5) if timed else Fraction(1)
    assert Shares.adding_up(times=timed, labels=True) == Shares(
        labels=left / 10, variants=Fraction(0), model=left * 6 / 10, weights=left * 3 / 10, times=1 - left
    )


def _pair(terms: Terms, design: Design) -> tuple[Fraction, Fraction]:
    """Return the squared Gaussian distance of a release, and its pure epsilon."""
    draws = StageBudget.of(terms, design).draws(terms, design)
    gaussian = (gaussian_distance(draw.scale, draw.sensitivity) for draw in draws if draw.kind == "gaussian")
    return sum(gaussian, start=NONE), sum((draw.epsilon for draw in draws if draw.kind == "pure"), start=NONE)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "1e-4"), ("1", "1e-6"), ("4", "1e-9")])
def test_a_series_of_each_case_once_keeps_its_promise_if_shares_change(epsilon: str, delta: str) -> None:
    """Some cases of a person leave before an upgrade, with the former default shares, and the others after it."""
    terms, names = Terms.of(epsilon, delta), ("a", "b")
    former = Shares(NONE, Fraction(1, 10), Fraction(9, 20), Fraction(9, 20), NONE)
    before, pure_before = _pair(terms, Design(activities=names, shares=former))
    after, pure_after = _pair(terms, Design(activities=names))
    assert before != after
    allowed = float(StageBudget.of(terms, Design(activities=names)).delta_composed)
    for part in (Fraction(tenth, 10) for tenth in range(11)):
        rest = 1 - part
        pures = [pure for pure in (part * pure_before, rest * pure_after) if pure]
        together = Composition.of([part**2 * before + rest**2 * after], pures)
        assert together.delta(terms.epsilon) <= allowed
