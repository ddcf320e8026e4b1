"""Number of releases that a budget can still pay for, compared with charging one after the other until a refusal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from models.dp.account import loss
from models.dp.budget import Charge
from models.dp.spending import ReleaseCharge, Spending
from models.dp.zcdp import PURE, Accounting
from stream.release.contract import Mechanism
from stream.release.gate import (
    BudgetLimits,
    GatePolicy,
    before_noise,
    least_of_series,
    over_process_limits,
    releases_left,
)
from stream.release.mechanisms.dp_log import DpLog
from stream.release.mechanisms.dp_synthetic import DpSynthetic
from stream.release.mechanisms.dp_variants import DpVariants

NOTHING = Charge()
NO_LIMITS = BudgetLimits()
DELTA = Fraction(5, 10**7)


def charge(epsilon: str, delta: str = "0") -> Charge:
    """An exact charge."""
    return Charge(Fraction(epsilon), Fraction(delta))


def one_by_one(
    policy: GatePolicy, release: ReleaseCharge, spending: Spending, elsewhere: Spending, limits: BudgetLimits
) -> int:
    """The same by charging: the gate's own rules before each draw, until one refuses."""
    for count in range(1000):
        after = spending.with_release(release)
        together = elsewhere.together(spending), elsewhere.together(after)
        if before_noise(policy, spending, after) or over_process_limits(limits, *together):
            return count
        spending = after
    raise AssertionError("without end")


@pytest.mark.parametrize(
    ("bounds", "asked", "spent", "elsewhere", "limits", "left"),
    [
        ({"max_epsilon": "1"}, charge("1/10"), NOTHING, NOTHING, NO_LIMITS, 10),
        ({"max_epsilon": "1"}, charge("3/10"), charge("9/10"), NOTHING, NO_LIMITS, 0),
        ({"max_epsilon": "1"}, charge("3/10"), charge("7/10"), NOTHING, NO_LIMITS, 1),
        ({"max_epsilon": "1"}, charge("3/10"), charge("1"), NOTHING, NO_LIMITS, 0),
        ({"max_epsilon": "1"}, charge("3/10"), charge("2"), NOTHING, NO_LIMITS, 0),
        ({"max_delta": "1/1000"}, charge("1", "1/4000"), charge("9", "1/2000"), NOTHING, NO_LIMITS, 2),
        ({"max_delta": "1/20"}, charge("1"), charge("1", "1/10"), NOTHING, NO_LIMITS, 0),
        ({"max_epsilon": "8", "max_delta": "1/1000"}, charge("1", "1/4000"), NOTHING, NOTHING, NO_LIMITS, 4),
        ({"max_tpl": "2"}, charge("3/10"), NOTHING, NOTHING, NO_LIMITS, 3),
        ({"max_tpl": "2"}, charge("3/10"), charge("1/2"), NOTHING, NO_LIMITS, 1),
        ({"max_tpl": "6"}, charge("3"), NOTHING, NOTHING, NO_LIMITS, 1),
        ({}, charge("1/2"), charge("1/2"), charge("1"), BudgetLimits(Fraction(3)), 3),
        ({}, charge("1/2"), charge("1/2"), charge("3"), BudgetLimits(Fraction(3)), 0),
        ({}, charge("1/2", "1/10"), charge("1", "1/10"), charge("1", "1/10"), BudgetLimits(None, Fraction(1, 2)), 3),
        ({}, charge("1/2"), charge("1"), charge("1", "1/10"), BudgetLimits(Fraction(9), Fraction(1, 20)), 14),
        ({"max_epsilon": "5", "max_tpl": "4"}, charge("1"), charge("1"), charge("1"), BudgetLimits(Fraction(4)), 1),
    ],
)
def test_releases_left_are_those_that_can_be_charged(
    bounds: dict[str, str],
    asked: Charge,
    spent: Charge,
    elsewhere: Charge,
    limits: BudgetLimits,
    left: int,
) -> None:
    """Each bound alone and together, what others spent, exactly reached and passed."""
    policy = GatePolicy(**bounds)  # type: ignore[arg-type]  # pydantic reads the fractions
    others = Spending(earlier=spent), Spending(earlier=elsewhere)
    assert releases_left(policy, ReleaseCharge(asked), *others, limits) == left
    assert one_by_one(policy, ReleaseCharge(asked), *others, limits) == left


MECHANISMS = [
    DpVariants(epsilon=Fraction(1, 52), delta_dp=DELTA),
    DpLog(epsilon=Fraction(1, 10), delta_dp=DELTA),
    DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a",)),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.kind)
@pytest.mark.parametrize("max_delta", [None, 15 * DELTA])
def test_the_budget_of_a_series_lasts_as_long_as_its_exact_composition(
    mechanism: Mechanism, max_delta: Fraction | None
) -> None:
    """More releases than by sums; each passes the gate, and the first one after the forecast does not."""
    release = ReleaseCharge(mechanism.charge(), mechanism.draws())
    policy = GatePolicy(max_epsilon=Fraction(1), max_delta=max_delta)
    before = Spending(earlier=Charge(Fraction(1, 20), DELTA)).with_release(release, 3)
    left = releases_left(policy, release, before, Spending(), NO_LIMITS)
    assert left == one_by_one(policy, release, before, Spending(), NO_LIMITS)
    if max_delta is None:
        assert left > Fraction(19, 20) / mechanism.charge().epsilon - 3


def test_a_limit_of_the_process_counts_what_all_publications_cost_together() -> None:
    """Another publication with exact noise of its own: the sum of both accounts, with either order of the two."""
    weekly, other = (
        ReleaseCharge(mechanism.charge(), mechanism.draws()) for mechanism in (MECHANISMS[0], MECHANISMS[2])
    )
    elsewhere, limits = Spending().with_release(other, 6), BudgetLimits(Fraction(1))
    left = releases_left(GatePolicy(), weekly, Spending(), elsewhere, limits)
    assert left == one_by_one(GatePolicy(), weekly, Spending(), elsewhere, limits)
    spent = loss(PURE, elsewhere).charge.epsilon
    assert spent < 6 * other.charge.epsilon
    assert loss(PURE, Spending().with_release(weekly, left)).charge.epsilon <= 1 - spent
    assert loss(PURE, Spending().with_release(weekly, left + 1)).charge.epsilon > 1 - spent


def test_a_charge_for_disjoint_cases_pays_for_all_that_follow() -> None:
    """Or for none, if it is above a limit."""
    release = ReleaseCharge(charge("1"), is_disjoint=True)
    for spending in (Spending(), Spending().with_release(release)):
        assert releases_left(GatePolicy(max_epsilon=1), release, spending, Spending(), NO_LIMITS) is None
        assert releases_left(GatePolicy(max_epsilon="1/2"), release, spending, Spending(), NO_LIMITS) == 0


def test_without_charge_or_bound_there_is_no_number() -> None:
    """A publication that spends nothing, or has no limit, can release forever."""

    def left(policy: GatePolicy, asked: Charge, spent: Charge, limits: BudgetLimits = NO_LIMITS) -> int | None:
        return releases_left(policy, ReleaseCharge(asked), Spending(earlier=spent), Spending(), limits)

    both = BudgetLimits(Fraction(1), Fraction(1, 10))
    assert left(GatePolicy(max_epsilon=1), NOTHING, charge("1/2"), both) is None
    assert left(GatePolicy(), charge("1"), charge("1/2")) is None
    assert left(GatePolicy(), charge("1"), NOTHING, BudgetLimits(delta=Fraction(1))) is None
    # a bound on delta does not count draws that spend none
    for spent in (NOTHING, charge("1", "1/10")):  # nor where just that much is spent
        assert left(GatePolicy(max_delta="1/10"), charge("1"), spent) is None
    # what was overspent under an earlier configuration does not hold up who spends nothing
    assert left(GatePolicy(max_epsilon=1), NOTHING, charge("2")) is None


def test_the_doubled_epsilon_is_what_the_gate_reports() -> None:
    """A refusal for TPL names twice the epsilon, as the number that broke the bound."""
    before = Spending(earlier=charge("1/2"))
    (reason,) = before_noise(GatePolicy(max_tpl=2), before, before.with_charge(charge("1")))
    assert (reason.code, reason.bound, reason.value) == ("tpl", 2, 3)


def test_the_least_of_a_series_is_over_all_its_audits() -> None:
    """Releases without a measure do not count."""
    audits: list[Any] = [{"anonymity": {"ka": 9}}, {}, {"anonymity": {"ka": 4}}, {"anonymity": {}}]
    assert least_of_series(audits, "ka") == 4
    assert least_of_series(audits[1:2], "ka") is None


RHO = Accounting("zcdp", Fraction(1, 10**6))


def rho(of: str, delta: str = "0") -> Charge:
    """An exact charge of noise that adds up by rho."""
    return Charge(delta=Fraction(delta), rho=Fraction(of))


def by_rho(limits: BudgetLimits, spent: Charge, asked: Charge) -> int | None:
    """How many more charges by rho fit."""
    policy = GatePolicy.model_construct(max_epsilon=limits.epsilon, max_delta=limits.delta)
    return releases_left(policy, ReleaseCharge(asked), Spending(earlier=spent), Spending(), NO_LIMITS, RHO)


@pytest.mark.parametrize(
    ("limits", "spent", "asked"),
    [
        (BudgetLimits(Fraction(2)), NOTHING, rho("1/100")),
        (BudgetLimits(Fraction(2)), rho("1/20"), rho("1/100")),
        (BudgetLimits(Fraction(2)), rho("1"), rho("1/100")),
        (BudgetLimits(Fraction(2)), NOTHING, rho("1/7000")),
        (BudgetLimits(None, Fraction(5, 10**6)), rho("1"), rho("1/9", "1/1000000")),
        (BudgetLimits(Fraction(2), Fraction(5, 10**6)), NOTHING, rho("1/100", "1/1000000")),
        (BudgetLimits(Fraction(1), Fraction(5, 10**6)), NOTHING, rho("1/40", "1/1000000")),
        (BudgetLimits(Fraction(9), Fraction(1, 10**7)), NOTHING, rho("1/40")),
    ],
)
def test_charges_by_rho_that_fit(limits: BudgetLimits, spent: Charge, asked: Charge) -> None:
    """As many as stay within both limits, and not one more."""

    def within(number: int) -> bool:
        loss = RHO.loss(spent + asked.times(number))
        return all(
            limit is None or used <= limit for limit, used in zip(limits, (loss.epsilon, loss.delta), strict=True)
        )

    assert by_rho(limits, spent, asked) == next(number for number in range(10**6) if not within(number + 1))


def test_a_limit_that_charges_by_rho_just_reach_lets_them_pass() -> None:
    """The loss of three of them is the limit: epsilon, then delta."""
    each = rho("1/100", "1/1000000")
    loss = RHO.loss(each.times(3))
    assert by_rho(BudgetLimits(loss.epsilon), NOTHING, each) == 3
    assert by_rho(BudgetLimits(None, loss.delta), NOTHING, each) == 3


def test_no_more_than_16384_charges_are_looked_for() -> None:
    """2^14 where all of them fit, and where just so many do; without a limit there is no number."""
    each = rho("1/100", "1/65536")
    quarter = Fraction(1, 4)
    for limit, left in ((2 * quarter, 2**14), (quarter, 2**14 - 1), (quarter + RHO.conversion_delta, 2**14)):
        assert by_rho(BudgetLimits(None, limit), NOTHING, each) == left
    assert by_rho(NO_LIMITS, NOTHING, each) is None
    assert by_rho(BudgetLimits(None, 2 * quarter), NOTHING, rho("1/100")) is None
