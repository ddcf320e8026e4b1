"""The account of a ledger: never below references in balls of 200 bits, close to them, and safe where it must add."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import account, privacy_loss
from models.dp.account import LEAST_GAIN, MOST_RELEASES, agrees, composed, loss, loss_of_stretch, threshold_delta
from models.dp.budget import Charge, Draw
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.spending import MOST_STRETCHES, NOTHING, ReleaseCharge, Spending, Stretch
from models.dp.zcdp import PURE, Accounting
from stream.release.contract import Mechanism
from stream.release.mechanisms.dp_log import DpLog
from stream.release.mechanisms.dp_synthetic import DpSynthetic
from stream.release.mechanisms.dp_variants import DpVariants
from tests.conftest import examples
from tests.oracles.privacy_loss import ball, precision, reference

DELTA = Fraction(5, 10**7)
CLOSE = Fraction(1, 1000)
"""Most that an epsilon may exceed the true one."""


@pytest.fixture(autouse=True)
def two_hundred_bits() -> Iterator[None]:
    """Compute references in balls of 200 bits."""
    with precision(200):
        yield


def spent_by(mechanism: Mechanism, number: int) -> Spending:
    """So many releases of one configuration."""
    return Spending().with_charge(mechanism.charge(), mechanism.draws(), number)


def pure(epsilon: Fraction, delta: Fraction = DELTA) -> tuple[Charge, tuple[Draw, ...]]:
    """A release of counts with Laplace noise and a threshold."""
    return Charge(epsilon, delta), (Draw("laplace", 1 / epsilon, Fraction(1), delta),)


# one configuration


@pytest.mark.parametrize(("number", "most"), [(52, 0.57), (100, 0.41)])
def test_equal_releases_cost_what_they_cost_together(number: int, most: float) -> None:
    """So many weekly releases of 1 / so many, at the delta of one release: by sums they cost 1."""
    mechanism = DpVariants(epsilon=Fraction(1, number), delta_dp=DELTA)
    stated = loss(PURE, spent_by(mechanism, number))
    assert stated.rule == "composed"
    assert stated.charge.epsilon <= most
    assert stated.charge.delta == (number + 1) * DELTA
    stages = [Fraction(1, number)] * number
    assert not ball(DELTA) < reference(Fraction(0), stages, stated.charge.epsilon)
    assert reference(Fraction(0), stages, stated.charge.epsilon - CLOSE) > ball(DELTA)


@given(
    st.fractions(Fraction(1, 100), Fraction(1, 2), max_denominator=100),
    st.integers(4, 60),
    st.integers(2, 24),
)
@examples(40)
def test_gaussian_and_pure_stages_of_a_series_are_never_below_the_reference(
    epsilon: Fraction, scale: int, number: int
) -> None:
    """Never below it, and less than a thousandth above, at the delta of one release next to those of thresholds."""
    draws = (Draw("gaussian", Fraction(scale), Fraction(1), DELTA / 10), Draw("pure", Fraction(1), epsilon))
    charge = Charge(composed(draws).epsilon(DELTA * 9 / 10), DELTA)
    spending = Spending().with_charge(charge, draws, number)
    stated = loss(PURE, spending)
    distance = number * gaussian_distance(scale, 1)
    if stated.rule == "sum":
        assert stated.charge == spending.summed
        return
    assert stated.charge.delta == number * DELTA / 10 + DELTA
    assert not ball(DELTA) < reference(distance, [epsilon] * number, stated.charge.epsilon)
    if stated.charge.epsilon > CLOSE:
        assert reference(distance, [epsilon] * number, stated.charge.epsilon - CLOSE) > ball(DELTA)


@pytest.mark.parametrize(
    "mechanism",
    [
        DpVariants(epsilon=Fraction(1, 10), delta_dp=DELTA),
        DpLog(epsilon=Fraction(1, 10), delta_dp=DELTA),
        DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a",)),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_each_release_costs_something_and_none_more_than_its_charge(mechanism: Mechanism) -> None:
    """The spending grows with each release, stays below the sums, and equals the charge for one release."""
    before = loss(PURE, spent_by(mechanism, 1)).charge
    assert before == mechanism.charge()
    for number in range(2, 40):
        after = loss(PURE, spent_by(mechanism, number)).charge
        assert before.epsilon < after.epsilon <= number * mechanism.charge().epsilon
        assert after.delta in (number * DELTA, number * threshold_delta(mechanism.draws()) + DELTA)
        before = after
    assert before.epsilon < 30 * mechanism.charge().epsilon


def test_a_release_without_stated_noise_is_composed_by_its_epsilon_and_delta() -> None:
    """Entries of earlier programs: whatever is (epsilon, delta)-DP is no worse than randomized response."""
    mechanism = DpVariants(epsilon=Fraction(1, 52), delta_dp=DELTA)
    earlier = Spending().with_charge(mechanism.charge(), number=52)
    assert loss(PURE, earlier) == loss(PURE, spent_by(mechanism, 52))


def test_the_delta_of_one_more_release_is_not_spent_for_little() -> None:
    """Two releases would save a millionth of epsilon."""
    stated = loss(PURE, Spending().with_charge(*pure(Fraction(1, 10)), 2))
    assert stated == (Charge(Fraction(1, 5), 2 * DELTA), "sum")


def test_a_limit_of_delta_is_kept() -> None:
    """Without room for the delta of one more release, the sums are stated."""
    spending = Spending().with_charge(*pure(Fraction(1, 52)), 52)
    assert loss(PURE, spending, 53 * DELTA).rule == "composed"
    assert loss(PURE, spending, 53 * DELTA - Fraction(1, 10**12)) == (Charge(Fraction(1), 52 * DELTA), "sum")


def test_thresholds_leave_delta_that_a_series_needs_once_only() -> None:
    """A limit below the sum of all deltas allows a composition whose delta is smaller."""
    spending = spent_by(DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a",)), 20)
    stated = loss(PURE, spending, DELTA)
    assert stated == loss(PURE, spending)
    assert stated.charge.delta == 2 * DELTA
    # Beside a publication that needs more delta: the limit has room for both, in either order.
    laplace = Spending().with_charge(*pure(Fraction(1, 52)), 52)
    for both in (spending.together(laplace), laplace.together(spending)):
        assert loss(PURE, both, 55 * DELTA) == loss(PURE, both)
        assert loss(PURE, both).charge.delta == 55 * DELTA
        assert loss(PURE, both, 54 * DELTA).charge == stated.charge + laplace.summed


def test_truncated_noise_is_no_worse_than_randomized_response_with_its_delta() -> None:
    """Two releases of the same count, by the probabilities of their noise, against the bound, for several epsilons."""
    scale, reach = 5.0, 30
    chances = [math.exp(-abs(z) / scale) for z in range(-reach, reach + 1)]
    total = sum(chances)
    release = {z: chance / total for z, chance in zip(range(-reach, reach + 1), chances, strict=True)}
    end = release[reach]
    for epsilon in (0.0, 0.1, 0.2, 0.3, 0.39):
        true = 0.0
        for first, first_chance in release.items():
            for second, second_chance in release.items():
                other = release.get(first - 1, 0.0) * release.get(second - 1, 0.0)
                true += max(first_chance * second_chance - math.exp(epsilon) * other, 0.0)
        bound = Composition(Fraction(0), ((1 / Fraction(scale), 2),)).delta(epsilon) + 2 * end
        assert true <= bound * (1 + 1e-9)


# a configuration that changes


def test_a_change_in_mid_series_adds_up_what_each_stretch_costs() -> None:
    """The ended stretch has its own epsilon, of a smaller delta, and the current one that of its releases."""
    first, second = pure(Fraction(1, 52)), pure(Fraction(1, 100))
    spending = Spending().with_charge(*first, 52).with_charge(*second, 100)
    stated = loss(PURE, spending)
    assert stated.rule == "parts"
    composition = Composition(Fraction(0), ((Fraction(1, 52), 52),))
    ended = composition.epsilon(DELTA / (52 * 53))
    current = loss(PURE, Spending().with_charge(*second, 100)).charge
    assert stated.charge.epsilon == ended + current.epsilon
    assert composition.epsilon(DELTA) < ended < 1
    assert stated.charge.delta == 53 * DELTA + current.delta


def test_the_end_of_a_stretch_may_be_chosen_by_looking_at_it() -> None:
    """An operator who changes the configuration as soon as a release shows more than the account says.

    The expectation beyond the account is computed exactly over all ways to that end. Under the rule for ended stretches
    it is at most delta. Under the rule for a fixed number of releases it is not: the negative control.
    """
    charge, draws = pure(Fraction(1, 4), Fraction(1, 10))
    ended = [loss_of_stretch(Stretch(charge, draws, n), True).epsilon for n in range(1, 200)]
    fixed = [loss_of_stretch(Stretch(charge, draws, n), False).epsilon for n in range(1, 200)]
    assert _expected_excess(Fraction(1, 4), ended) <= 0.1
    assert _expected_excess(Fraction(1, 4), fixed) > 0.1


def _expected_excess(epsilon: Fraction, stated: list[Fraction]) -> float:
    """Return E[1 - exp(stated - loss)] at the first release whose loss exceeds what is stated."""
    higher = 1 / (1 + math.exp(-epsilon))
    going_on, excess = {0: 1.0}, 0.0
    for at_most in stated:
        following: dict[int, float] = {}
        for steps, chance in going_on.items():
            for move, move_chance in ((1, higher), (-1, 1 - higher)):
                beyond = float(epsilon) * (steps + move) - float(at_most)
                if beyond > 1e-12:
                    excess += chance * move_chance * -math.expm1(-beyond)
                else:
                    following[steps + move] = following.get(steps + move, 0.0) + chance * move_chance
        going_on = following
    return excess


def test_a_change_and_back_makes_three_stretches() -> None:
    """Equal releases that are not consecutive are not composed with each other."""
    first, second = pure(Fraction(1, 10)), pure(Fraction(1, 20))
    spending = Spending().with_charge(*first, 3).with_charge(*second, 2).with_charge(*first)
    assert [stretch.number for stretch in spending.ended] == [3, 2]
    assert spending.current == (Stretch(*first, 1),)
    assert spending.summed == Charge(Fraction(1, 2), 6 * DELTA)
    noise = (Draw("laplace", Fraction(11), Fraction(1), DELTA),)
    assert len(Spending().with_charge(*first).with_charge(first[0], noise).ended) == 1


def test_equal_releases_lengthen_a_stretch() -> None:
    """Three and four more are seven; with other noise, or another charge, a new one begins."""
    charge, draws = pure(Fraction(1, 10))
    assert Spending().with_charge(charge, draws, 3).with_charge(charge, draws, 4).current == (
        Stretch(charge, draws, 7),
    )
    assert Spending().with_charge(charge, draws, 3).with_charge(charge, (), 4).current == (Stretch(charge, (), 4),)


def test_the_earliest_stretch_is_added_up_first() -> None:
    """64 ended ones are kept apart: of 67 charges that differ the first two have only a sum. Sums of two add up."""
    spending = Spending()
    for place in range(67):
        spending = spending.with_charge(*pure(Fraction(1, 100 + place)), 2)
    assert spending.earlier == Charge(Fraction(2, 100) + Fraction(2, 101), 4 * DELTA)
    assert spending.ended[0].charge.epsilon == Fraction(1, 102)
    assert spending.together(spending).earlier == spending.earlier.times(2)


def test_charges_that_change_with_every_release_need_no_more_memory() -> None:
    """Early stretches count by their sums."""
    spending = Spending()
    for place in range(3 * MOST_STRETCHES):
        spending = spending.with_charge(*pure(Fraction(1, 10 + place % 2)))
    assert len(spending.ended) == MOST_STRETCHES == 64
    expected = Charge((Fraction(1, 10) + Fraction(1, 11)) * 3 * MOST_STRETCHES / 2, 3 * MOST_STRETCHES * DELTA)
    assert spending.summed == expected
    assert spending.earlier.epsilon > 0
    assert loss(PURE, spending) == (expected, "sum")


def test_an_early_sum_makes_the_rule_that_of_parts() -> None:
    """One stretch is left, and more was charged before it."""
    spending = replace(Spending().with_charge(*pure(Fraction(1, 52)), 52), earlier=Charge(Fraction(1), DELTA))
    assert loss(PURE, spending).rule == "parts"
    disjoint = Spending().with_charge(*pure(Fraction(1, 52)), 52).with_disjoint(Charge(Fraction(1), DELTA))
    assert loss(PURE, disjoint).rule == "parts"


# persons, publications, rho


def test_publications_add_up() -> None:
    """Each is composed by itself; one may have been changed after a look at the other."""
    both = [spent_by(DpVariants(epsilon=Fraction(1, n), delta_dp=DELTA), n) for n in (52, 100)]
    alone = [loss(PURE, spending).charge for spending in both]
    together = loss(PURE, both[0].together(both[1]))
    assert together == (alone[0] + alone[1], "parts")


def test_releases_of_disjoint_cases_cost_the_largest_of_them() -> None:
    """No person is in two of them: nothing adds up, and nothing is composed."""
    spending = Spending()
    for epsilon in (Fraction(1, 10), Fraction(1, 5), Fraction(1, 10)):
        spending = spending.with_disjoint(Charge(epsilon, DELTA))
    assert loss(PURE, spending) == (Charge(Fraction(1, 5), DELTA), "largest")
    earlier = Charge(Fraction(1), DELTA)
    assert loss(PURE, replace(spending, earlier=earlier)) == (Charge(Fraction(6, 5), 2 * DELTA), "sum")
    assert loss(PURE, spending.with_charge(earlier)) == (Charge(Fraction(6, 5), 2 * DELTA), "sum")
    assert spending.together(spending).disjoint == Charge(Fraction(2, 5), 2 * DELTA)


def test_several_cases_of_a_person_are_part_of_the_noise() -> None:
    """The scale grows with them, so that the account of persons with three cases is that of persons with one."""
    one, three = (DpVariants(epsilon=Fraction(1, 52), delta_dp=DELTA, cases_per_person=number) for number in (1, 3))
    assert three.draws()[0].sensitivity == 3
    assert loss(PURE, spent_by(one, 52)).charge == loss(PURE, spent_by(three, 52)).charge


def test_rho_is_added_up_and_converted() -> None:
    """A ledger of zCDP keeps its rule."""
    zcdp = Accounting("zcdp", Fraction(1, 10**6))
    mechanism = DpVariants(rho=Fraction(1, 100), delta_dp=DELTA)
    spending = spent_by(mechanism, 30)
    assert loss(zcdp, spending) == (zcdp.loss(mechanism.charge().times(30)), "zcdp")
    assert agrees(mechanism.charge(), mechanism.draws())


def test_nothing_spent_costs_nothing() -> None:
    """The account of an empty ledger, and of no further release."""
    assert loss(PURE, Spending()) == (NOTHING, "sum")
    assert Spending().with_charge(*pure(Fraction(1)), 0) == Spending()


def test_a_delta_is_at_most_1() -> None:
    """Many releases whose deltas add up to more."""
    spending = Spending().with_charge(Charge(Fraction(1), Fraction(9, 10)), (), 3)
    assert loss(PURE, spending).charge == Charge(Fraction(3), Fraction(1))


# entries that do not agree

GAUSSIAN = DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA, activities=("a",))


@pytest.mark.parametrize("epsilon", ["0.05", "0.1", "0.3", "0.5", "1", "2", "4"])
@pytest.mark.parametrize("labels", [None, ("a", "b")])
@pytest.mark.parametrize("max_duration", [None, "30d"])
def test_every_charge_of_a_mechanism_agrees_with_its_noise(
    epsilon: str, labels: tuple[str, ...] | None, max_duration: str | None
) -> None:
    """The noise allows the epsilon that was charged, and not one that is a hundredth smaller."""
    mechanism = DpSynthetic(epsilon=epsilon, delta_dp=DELTA, activities=labels, max_duration=max_duration)
    assert mechanism.draws()
    assert agrees(mechanism.charge(), mechanism.draws())


def changed(draws: tuple[Draw, ...], place: int, **fields: Fraction | int) -> tuple[Draw, ...]:
    """The draws with another number in one of them."""
    return (*draws[:place], replace(draws[place], **fields), *draws[place + 1 :])  # type: ignore[arg-type]


def test_noise_that_does_not_agree_with_its_charge_is_not_believed() -> None:
    """Wider noise would lower the account, narrower noise was not paid for: epsilon and delta count instead."""
    charge, draws = GAUSSIAN.charge(), GAUSSIAN.draws()
    model = next(place for place, draw in enumerate(draws) if draw.kind == "gaussian" and not draw.delta)
    scale = draws[model].scale
    assert not agrees(charge, changed(draws, model, scale=scale * 2))
    assert not agrees(charge, changed(draws, model, scale=scale / 2))
    assert not agrees(charge, changed(draws, model, sensitivity=Fraction(1)))
    assert not agrees(charge, changed(draws, model, delta=DELTA))
    assert not agrees(charge, changed(draws, model, scale=Fraction(1)))
    assert not agrees(charge, draws[1:])
    wider = changed(draws, model, scale=scale * 2)
    assert loss(PURE, Spending().with_charge(charge, wider, 30)) == loss(PURE, Spending().with_charge(charge, (), 30))
    assert loss(PURE, Spending().with_charge(charge, draws, 30)).charge.epsilon < 20


def test_laplace_noise_agrees_with_its_charge_alone() -> None:
    """Epsilons of pure stages add up to that of the charge."""
    charge, draws = pure(Fraction(1, 10))
    assert agrees(charge, draws)
    assert agrees(charge, ())
    assert not agrees(charge, changed(draws, 0, scale=Fraction(11)))
    assert not agrees(charge, changed(draws, 0, scale=Fraction(9)))
    assert not agrees(charge, changed(draws, 0, times=2))
    assert not agrees(charge, changed(draws, 0, delta=2 * DELTA))
    assert agrees(charge, changed(draws, 0, scale=Fraction(10) + Fraction(1, 20)))


def test_rho_agrees_with_gaussian_noise_of_its_own() -> None:
    """Rho is the sum of sensitivity^2 / (2 scale^2), and delta is that of the threshold."""
    charge = Charge(Fraction(0), DELTA, Fraction(1, 200))
    draws = (Draw("gaussian", Fraction(10), Fraction(1), DELTA),)
    assert agrees(charge, draws)
    assert not agrees(charge, changed(draws, 0, scale=Fraction(11)))
    assert not agrees(charge, changed(draws, 0, scale=Fraction(9)))
    assert not agrees(charge, changed(draws, 0, delta=DELTA / 2))
    assert not agrees(charge, (Draw("laplace", Fraction(10), Fraction(1), DELTA),))


def test_draws_that_a_release_repeats_count_so_often() -> None:
    """Two draws of one kind are one draw twice."""
    draw = Draw("gaussian", Fraction(20), Fraction(1), DELTA)
    assert composed((draw, draw)) == composed((replace(draw, times=2),))
    assert composed((draw,), 2) == composed((draw, draw))
    assert threshold_delta((draw, replace(draw, times=2))) == 3 * DELTA
    laplace = Draw("laplace", Fraction(20), Fraction(1))
    assert composed((laplace, laplace), 3) == Composition(Fraction(0), ((Fraction(1, 20), 6),))
    narrow = Draw("laplace", Fraction(10), Fraction(1))
    assert composed((laplace, narrow)) == composed((narrow, laplace))


def test_a_stretch_beyond_what_floats_hold_counts_by_its_sum() -> None:
    """A million releases and one."""
    charge, draws = pure(Fraction(1, 10**6))
    assert MOST_RELEASES == 10**6
    longest = Stretch(charge, draws, MOST_RELEASES)
    assert loss_of_stretch(longest, False).epsilon < longest.summed.epsilon
    longer = Stretch(charge, draws, MOST_RELEASES + 1)
    assert loss_of_stretch(longer, False) == longer.summed


# time


@pytest.mark.parametrize("number", [100, 10_000])
def test_a_charge_takes_as_many_steps_after_ten_thousand_as_after_a_hundred(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more release is one more composition of the whole stretch: about forty deltas, however long it is."""
    mechanism = DpSynthetic(epsilon=Fraction(1, 100), delta_dp=DELTA, activities=("a",), max_duration="30d")
    spending = spent_by(mechanism, number)
    loss(PURE, spending)
    calls, sizes = [], []
    original, losses = Composition.delta, privacy_loss._pure_losses

    def counted(self: Composition, epsilon: Fraction | float) -> float:
        calls.append(epsilon)
        sizes.append(len(losses(self.pure)[0]))
        return original(self, epsilon)

    monkeypatch.setattr(Composition, "delta", counted)
    account.loss_of_stretch.cache_clear()
    loss(PURE, spending.with_charge(mechanism.charge(), mechanism.draws()))
    assert 10 < len(calls) < 60
    assert max(sizes) <= privacy_loss.MAX_ATOMS
    assert LEAST_GAIN < 1


# a limit that has room for one of two publications only


def laplace(number: int, delta: Fraction = DELTA) -> Spending:
    """So many releases of 1 / so many, whose composition needs the delta of one more."""
    return Spending().with_charge(*pure(Fraction(1, number), delta), number)


def test_a_limit_of_delta_leaves_the_largest_saving_in_force() -> None:
    """In whichever order the publications came: gate, manifest and verify compute one number."""
    few, many = laplace(52), laplace(100)
    limit = 153 * DELTA
    alone = loss(PURE, many).charge
    expected = Charge(1 + alone.epsilon, 153 * DELTA)
    for both in (few.together(many), many.together(few)):
        assert loss(PURE, both, limit) == (expected, "parts")
        assert loss(PURE, both, limit - Fraction(1, 10**12)) == (Charge(Fraction(2), 152 * DELTA), "sum")
        assert loss(PURE, both, limit + DELTA).charge == loss(PURE, both).charge


def test_the_delta_that_a_manifest_states_gives_its_epsilon_again() -> None:
    """`verify` does not know the limit: with the stated delta in its place, the same stretches are composed."""
    both = (
        laplace(52)
        .together(laplace(100))
        .together(spent_by(DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a",)), 20))
    )
    for parts in range(150, 180):
        stated = loss(PURE, both, parts * DELTA)
        assert loss(PURE, both, stated.charge.delta) == stated


def test_a_release_is_added_by_its_kind_of_composition() -> None:
    """Disjoint cases, overlapping cases, none of them, and one that costs nothing."""
    charge, draws = pure(Fraction(1, 10))
    release, disjoint = ReleaseCharge(charge, draws), ReleaseCharge(charge, draws, is_disjoint=True)
    assert Spending().with_release(release, 3) == Spending().with_charge(charge, draws, 3)
    assert Spending().with_release(release) == Spending().with_charge(charge, draws)
    assert Spending().with_release(disjoint, 3) == Spending().with_disjoint(charge)
    assert Spending().with_release(release, 0) == Spending().with_release(disjoint, 0) == Spending()
    assert Spending().with_release(ReleaseCharge(NOTHING, draws), 2) == Spending()
    assert ReleaseCharge(charge) == ReleaseCharge(charge, (), is_disjoint=False)


# where a rule begins


def test_a_composition_begins_where_it_saves_a_hundredth() -> None:
    """15 releases, whose epsilon is changed by 4e-5: one composition saves .010006 of the sum, the other .009997."""
    saving, too_little = (Spending().with_charge(*pure(Fraction(k, 100_000)), 15) for k in (6696, 6700))
    assert loss(PURE, saving).rule == "composed"
    assert loss(PURE, too_little).rule == "sum"
    stretch = saving.current[0]
    assert loss(PURE, saving).charge == loss_of_stretch(stretch, False)
    assert loss_of_stretch(stretch, False).epsilon <= stretch.summed.epsilon * Fraction(99, 100)


def test_noise_agrees_down_to_a_hundredth_below_its_charge() -> None:
    """Laplace noise of .99 of the epsilon agrees, of .9899 does not; Gaussian noise by rho alike."""
    charge, draws = pure(Fraction(1, 10))
    assert agrees(charge, changed(draws, 0, scale=Fraction(1000, 99)))
    assert not agrees(charge, changed(draws, 0, scale=Fraction(100_000, 9899)))
    gaussian = (Draw("gaussian", Fraction(100), Fraction(10), DELTA),)  # a rho of 1/200
    for share, fits in ((Fraction(1), True), (Fraction(99, 100), True), (Fraction(9899, 10_000), False)):
        assert agrees(Charge(Fraction(0), DELTA, Fraction(1, 200) / share), gaussian) is fits


def test_noise_of_a_charge_by_rho_must_have_its_delta() -> None:
    """A threshold of another delta than the charge names, above or below it, is not what was paid for."""
    charge = Charge(Fraction(0), DELTA, Fraction(1, 200))
    draws = (Draw("gaussian", Fraction(10), Fraction(1), DELTA),)
    assert agrees(charge, draws)
    assert not agrees(charge, changed(draws, 0, delta=DELTA / 2))
    assert not agrees(charge, changed(draws, 0, delta=2 * DELTA))


def test_a_rule_has_a_text_for_people() -> None:
    """Each rule that an account can state."""
    assert set(account.RULE_TEXTS) == set(get_args(account.Rule))
    assert len(set(account.RULE_TEXTS.values())) == len(account.RULE_TEXTS)


def test_a_stretch_whose_composition_has_no_room_below_1_is_added_up() -> None:
    """A delta of 1 promises nothing: the sums of epsilon stay in force."""
    spending = Spending().with_charge(*pure(Fraction(1, 52), Fraction(1, 53)), 52)
    assert loss(PURE, spending) == (Charge(Fraction(1), Fraction(52, 53)), "sum")
    smaller = Spending().with_charge(*pure(Fraction(1, 52), Fraction(1, 54)), 52)
    assert loss(PURE, smaller).rule == "composed"
    assert loss(PURE, smaller).charge.delta == Fraction(53, 54)


def with_threshold(part: Fraction, number: int = 52) -> Spending:
    """So many releases of 1 / so many, whose thresholds have this part of the delta of each release."""
    charge = Charge(Fraction(1, number), DELTA)
    return Spending().with_charge(charge, (Draw("laplace", Fraction(number), Fraction(1), part * DELTA),), number)


def test_a_saving_that_leaves_delta_is_made_before_one_that_needs_it() -> None:
    """Though its epsilon is smaller: five releases of dp-synthetic leave 3.75 deltas, and 52 of Laplace noise need one.
    A limit of what both cost together has room for both."""
    synthetic = spent_by(DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a",)), 5)
    weekly = laplace(52)
    alone = [loss(PURE, spending).charge for spending in (synthetic, weekly)]
    assert 0 < synthetic.summed.epsilon - alone[0].epsilon < weekly.summed.epsilon - alone[1].epsilon
    limit = alone[0].delta + alone[1].delta
    for both in (synthetic.together(weekly), weekly.together(synthetic)):
        assert loss(PURE, both, limit) == (alone[0] + alone[1], "parts")


def test_of_equal_savings_the_one_that_needs_less_delta_is_made() -> None:
    """One needs a delta more, the other half of one; a limit has room for either."""
    dear, cheap = with_threshold(Fraction(1)), with_threshold(1 - Fraction(1, 104))
    epsilon = loss(PURE, dear).charge.epsilon
    assert loss(PURE, cheap).charge.epsilon == epsilon
    for both in (dear.together(cheap), cheap.together(dear)):
        assert loss(PURE, both, 105 * DELTA) == (Charge(1 + epsilon, Fraction(209, 2) * DELTA), "parts")


def test_a_saving_that_needs_no_more_delta_is_made_beyond_any_limit() -> None:
    """52 thresholds of 51/52 of a delta, and one delta, are the 52 deltas that were charged."""
    spending = with_threshold(Fraction(51, 52))
    stated = loss(PURE, spending, Fraction(0))
    assert stated.rule == "composed"
    assert stated.charge == Charge(loss(PURE, laplace(52)).charge.epsilon, 52 * DELTA)


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_single_release_costs_its_charge(has_ended: bool) -> None:
    """A stretch of one is not composed: its epsilon is that of the charge, and so is its delta."""
    for charge, draws in (pure(Fraction(1, 10)), (GAUSSIAN.charge(), GAUSSIAN.draws())):
        assert loss_of_stretch(Stretch(charge, draws, 1), has_ended) == charge


def test_charges_without_epsilon_or_without_delta_add_up() -> None:
    """A composition needs both: three deltas are three deltas, and a tenth five times is a half."""
    assert loss_of_stretch(Stretch(Charge(Fraction(0), DELTA), (), 3), False) == Charge(Fraction(0), 3 * DELTA)
    without_delta = Spending().with_charge(Charge(Fraction(1, 10)), (Draw("pure", Fraction(1), Fraction(1, 10)),), 5)
    assert loss(PURE, without_delta) == (Charge(Fraction(1, 2)), "sum")
