"""Number of releases that a budget can still pay for, compared with charging one after the other until a refusal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import Charge
from models.dp.zcdp import Accounting
from stream.release.gate import GatePolicy, before_noise, fitting, least_of_series, releases_left

NOTHING = Charge()
WITHOUT_LIMIT = (None, None)


def charge(epsilon: str, delta: str = "0") -> Charge:
    """An exact charge."""
    return Charge(Fraction(epsilon), Fraction(delta))


def one_by_one(policy: GatePolicy, asked: Charge, spent: Charge, elsewhere: Charge, most: tuple[Any, Any]) -> int:
    """The same by charging: the gate's own rule, and the process's two limits, before each draw."""
    for count in range(1000):
        total = spent + elsewhere + asked
        over = most[0] is not None and total.epsilon > most[0]
        over |= most[1] is not None and asked.delta > 0 and total.delta > most[1]
        if over or before_noise(policy, spent, asked, ()):
            return count
        spent = spent + asked
    raise AssertionError("without end")


@pytest.mark.parametrize(
    ("bounds", "asked", "spent", "elsewhere", "most", "left"),
    [
        ({"max_epsilon": "1"}, charge("1/10"), NOTHING, NOTHING, WITHOUT_LIMIT, 10),
        ({"max_epsilon": "1"}, charge("3/10"), charge("9/10"), NOTHING, WITHOUT_LIMIT, 0),
        ({"max_epsilon": "1"}, charge("3/10"), charge("7/10"), NOTHING, WITHOUT_LIMIT, 1),
        ({"max_epsilon": "1"}, charge("3/10"), charge("1"), NOTHING, WITHOUT_LIMIT, 0),
        ({"max_epsilon": "1"}, charge("3/10"), charge("2"), NOTHING, WITHOUT_LIMIT, 0),
        ({"max_delta": "1/1000"}, charge("1", "1/4000"), charge("9", "1/2000"), NOTHING, WITHOUT_LIMIT, 2),
        ({"max_epsilon": "8", "max_delta": "1/1000"}, charge("1", "1/4000"), NOTHING, NOTHING, WITHOUT_LIMIT, 4),
        ({"max_tpl": "2"}, charge("3/10"), NOTHING, NOTHING, WITHOUT_LIMIT, 3),
        ({"max_tpl": "2"}, charge("3/10"), charge("1/2"), NOTHING, WITHOUT_LIMIT, 1),
        ({"max_tpl": "6"}, charge("3"), NOTHING, NOTHING, WITHOUT_LIMIT, 1),
        ({}, charge("1/2"), charge("1/2"), charge("1"), (Fraction(3), None), 3),
        ({}, charge("1/2"), charge("1/2"), charge("3"), (Fraction(3), None), 0),
        ({}, charge("1/2", "1/10"), charge("1", "1/10"), charge("1", "1/10"), (None, Fraction(1, 2)), 3),
        ({}, charge("1/2"), charge("1"), charge("1", "1/10"), (Fraction(9), Fraction(1, 20)), 14),
        ({"max_epsilon": "5", "max_tpl": "4"}, charge("1"), charge("1"), charge("1"), (Fraction(4), None), 1),
    ],
)
def test_releases_left_are_those_that_can_be_charged(
    bounds: dict[str, str],
    asked: Charge,
    spent: Charge,
    elsewhere: Charge,
    most: tuple[Fraction | None, Fraction | None],
    left: int,
) -> None:
    """Each bound alone and together, what others spent, exactly reached and passed."""
    policy = GatePolicy(**bounds)  # type: ignore[arg-type]  # pydantic reads the fractions
    assert releases_left(policy, asked, spent, elsewhere, most) == left
    assert one_by_one(policy, asked, spent, elsewhere, most) == left


def test_without_charge_or_bound_there_is_no_number() -> None:
    """A publication that spends nothing, or has no limit, can release forever."""
    most = (Fraction(1), Fraction(1, 10))
    assert releases_left(GatePolicy(max_epsilon=1), NOTHING, charge("1/2"), NOTHING, most) is None
    assert releases_left(GatePolicy(), charge("1"), charge("1/2"), NOTHING, WITHOUT_LIMIT) is None
    assert releases_left(GatePolicy(), charge("1"), NOTHING, NOTHING, (None, Fraction(1))) is None
    # a bound on delta does not count draws that spend none
    for spent in (NOTHING, charge("1", "1/10")):  # nor where just that much is spent
        assert releases_left(GatePolicy(max_delta="1/10"), charge("1"), spent, NOTHING, WITHOUT_LIMIT) is None
    # what was overspent under an earlier configuration does not hold up who spends nothing
    assert releases_left(GatePolicy(max_epsilon=1), NOTHING, charge("2"), NOTHING, WITHOUT_LIMIT) is None


def test_the_doubled_epsilon_is_what_the_gate_reports() -> None:
    """A refusal for TPL names twice the epsilon, as the number that broke the bound."""
    (reason,) = before_noise(GatePolicy(max_tpl=2), charge("1"), charge("1/2"), ())
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


@pytest.mark.parametrize(
    ("most", "spent", "asked"),
    [
        ((Fraction(2), None), NOTHING, rho("1/100")),
        ((Fraction(2), None), rho("1/20"), rho("1/100")),
        ((Fraction(2), None), rho("1"), rho("1/100")),
        ((Fraction(2), None), NOTHING, rho("1/7000")),
        ((None, Fraction(5, 10**6)), rho("1"), rho("1/9", "1/1000000")),
        ((Fraction(2), Fraction(5, 10**6)), NOTHING, rho("1/100", "1/1000000")),
        ((Fraction(1), Fraction(5, 10**6)), NOTHING, rho("1/40", "1/1000000")),
        ((Fraction(9), Fraction(1, 10**7)), NOTHING, rho("1/40")),
    ],
)
def test_charges_by_rho_that_fit(most: tuple[Fraction | None, Fraction | None], spent: Charge, asked: Charge) -> None:
    """As many as stay within both limits, and not one more."""

    def within(number: int) -> bool:
        loss = RHO.loss(spent + asked.times(number))
        return all(limit is None or used <= limit for limit, used in zip(most, (loss.epsilon, loss.delta), strict=True))

    left = fitting(RHO, most, spent, asked)
    assert left == next(number for number in range(10**6) if not within(number + 1))


def test_a_limit_that_charges_by_rho_just_reach_lets_them_pass() -> None:
    """The loss of three of them is the limit: epsilon, then delta."""
    each = rho("1/100", "1/1000000")
    loss = RHO.loss(each.times(3))
    assert fitting(RHO, (loss.epsilon, None), NOTHING, each) == 3
    assert fitting(RHO, (None, loss.delta), NOTHING, each) == 3


def test_no_more_than_a_million_charges_by_rho_are_looked_for() -> None:
    """2^20 where all of them fit, and where just so many do; without a limit there is no number."""
    each = rho("1/100", "1/4194304")
    quarter = Fraction(1, 4)
    for limit, left in ((2 * quarter, 2**20), (quarter, 2**20 - 5), (quarter + RHO.conversion_delta, 2**20)):
        assert fitting(RHO, (None, limit), NOTHING, each) == left
    assert fitting(RHO, (None, None), NOTHING, each) is None
