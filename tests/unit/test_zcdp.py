"""zCDP: exact tails and thresholds of its noise, a conversion that never says too little, and what adds up."""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import zcdp
from models.dp.budget import Charge, parallel
from models.dp.counts import threshold as laplace_threshold
from models.dp.spending import ReleaseCharge, Spending
from models.dp.zcdp import Accounting, Gaussian, epsilon_of, scale_of, tail, threshold
from models.errors import InputError
from stream.ledger.entries import charge_entry, read_entry, write_entry
from stream.release import gate
from stream.release.gate import BudgetLimits, GatePolicy, releases_left
from tests.conftest import examples

TINY = Fraction(1, 10**6)


def probabilities(scale: float, reach: int = 600) -> dict[int, float]:
    """P(N = z) of the discrete Gaussian, from its definition."""
    weights = {z: math.exp(-(z**2) / (2 * scale**2)) for z in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


@given(st.fractions(Fraction(1, 10**6), 100), st.integers(1, 9))
@examples(200)
def test_noise_is_never_smaller_than_rho_asks_for(rho: Fraction, cases: int) -> None:
    """c^2 / (2 s^2) <= rho exactly, and the float below would not do."""
    scale = scale_of(rho, cases)
    assert Fraction(cases**2) / (2 * Fraction(scale) ** 2) <= rho
    below = Fraction(math.nextafter(math.nextafter(scale, 0.0), 0.0))
    assert Fraction(cases**2) / (2 * below**2) > rho


@pytest.mark.parametrize("scale", [0.4, 1.0, 1.9, 2.1, 5.5, 30.0])
@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 100), TINY])
@pytest.mark.parametrize("cases", [1, 2, 5])
def test_threshold_is_the_least_that_keeps_delta(scale: float, delta: Fraction, cases: int) -> None:
    """Over every division of a person's cases among new variants, by the definition of the noise; one less does not
    keep it (or would release variants of fewer than all their cases without noise)."""
    chances = probabilities(scale)

    def above(least: int) -> float:
        return math.fsum(chance for z, chance in chances.items() if z >= least)

    def worst(least: int) -> float:
        return max(sum(above(least - part) for part in parts) for parts in partitions(cases))

    found = threshold(scale, delta, cases)
    assert worst(found) <= float(delta)
    assert found == cases or worst(found - 1) > float(delta)


def partitions(number: int, largest: int | None = None) -> list[list[int]]:
    """All ways to write a number as a sum."""
    largest = number if largest is None else largest
    if number == 0:
        return [[]]
    return [[one, *rest] for one in range(min(number, largest), 0, -1) for rest in partitions(number - one, one)]


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.1, 30.0])
def test_tails_are_above_the_true_ones_and_near(scale: float) -> None:
    """Rounded up, by less than a millionth."""
    chances = probabilities(scale)
    for least in (0, 1, 2, math.ceil(3 * scale)):
        true = math.fsum(chance for z, chance in chances.items() if z >= least)
        assert true * (1 - 1e-12) <= math.exp(tail(scale, least)) <= true * (1 + 1e-6)


def exact_tail(scale: float, least: int) -> Decimal:
    """P[N >= least] from the definition, to 80 digits."""
    with localcontext() as context:
        context.prec = 90
        width, reach = 2 * Decimal(scale) ** 2, math.ceil(25 * scale) + least
        weights = [(-(Decimal(z) ** 2) / width).exp() for z in range(reach + 1)]
        return sum(weights[least:], Decimal(0)) / (2 * sum(weights, Decimal(0)) - 1)


@pytest.mark.parametrize("scale", [2.0**-10, 0.12, 0.25, 1.0, 1.9, 2.0, 2.1, 2.9, 12.5])
@pytest.mark.parametrize("scales", [0, 1, 4, 8, 30])
def test_tails_are_rounded_up_by_less_than_a_hundred_millionth(scale: float, scales: int) -> None:
    """Never below the true one, not even by its last digit, and above it by less than 10^-8 of itself."""
    least = math.ceil(scales * scale)
    with localcontext() as context:
        context.prec = 90
        above = Decimal(tail(scale, least)) - exact_tail(scale, least).ln()
    assert 0 < above < Decimal("1e-8")


def test_tails_begin_at_zero() -> None:
    """P[N >= 0] is above a half; below 0 nothing is asked."""
    assert tail(3.0, 0) > math.log(0.5)
    with pytest.raises(InputError, match="begins at 0"):
        tail(3.0, -1)


@pytest.mark.parametrize(("scale", "cases"), [(1.0, 1), (3.0, 1), (2.1, 3)])
def test_a_threshold_at_the_edge_of_delta(scale: float, cases: int) -> None:
    """A delta just above what one person's new variants show at T is kept by T, one just below needs T + 1: the worst
    of all divisions of the cases, each variant from the definition."""
    for least in (cases + 2, cases + 5):
        chance = max(sum(exact_tail(scale, least - part) for part in parts) for parts in partitions(cases))
        assert threshold(scale, Fraction(chance * (1 + Decimal(10) ** -7)), cases) == least
        assert threshold(scale, Fraction(chance * (1 - Decimal(10) ** -12)), cases) == least + 1


WIDE = [Fraction(1, 10), Fraction(1, 11), Fraction(1, 13), Fraction(1, 100), Fraction(1, 1000), TINY]


@pytest.mark.parametrize(("delta", "cases"), [(Fraction(4995, 10_000), 1), (TINY, 3), *((delta, 1) for delta in WIDE)])
def test_a_threshold_of_wide_noise_is_the_least(delta: Fraction, cases: int) -> None:
    """Here the search goes by steps of more than one; at a delta near one half the threshold is near the cases."""
    chances = probabilities(300.0, 2500)
    found = threshold(300.0, delta, cases)

    def worst(least: int) -> float:
        above = {part: math.fsum(p for z, p in chances.items() if z >= least - part) for part in range(1, cases + 1)}
        return max(sum(above[part] for part in parts) for parts in partitions(cases))

    assert worst(found) <= float(delta) < worst(found - 1)


def test_the_threshold_of_the_widest_noise() -> None:
    """Scale 50,000: the tail is that of the normal distribution a half lower, within less than a millionth (there the
    sum of a smooth function at whole numbers is its integral, to the second order)."""

    def beyond(place: float) -> float:
        return math.erfc(place / 50_000.0 / math.sqrt(2)) / 2

    for cases in (1, 1000):
        found = threshold(50_000.0, TINY, cases)
        above = {part: beyond(found - part - 0.5) for part in (0, 1, 2, cases, cases + 1)}
        assert max(above[cases], cases * above[1]) <= 1e-6 * (1 + 1e-6)
        assert max(above[cases + 1], cases * above[2]) > 1e-6 * (1 - 1e-6)


@pytest.mark.parametrize("scale", [3.0, 300.0])
def test_a_threshold_is_not_below_the_cases(scale: float) -> None:
    """At a delta above P[N >= 0] every count may leave that a person's cases reach, one unless said otherwise."""
    assert threshold(scale, Fraction(6, 10)) == 1
    assert threshold(scale, Fraction(6, 10), 1) == 1


@pytest.mark.parametrize("terms", [(1.0, Fraction(0), 1), (1.0, Fraction(1), 1), (1.0, Fraction(1, 2), 0)])
def test_thresholds_of_no_terms_are_refused(terms: tuple[float, Fraction, int]) -> None:
    """A delta at 0 or 1, nobody's cases."""
    with pytest.raises(InputError, match="the threshold needs"):
        threshold(*terms)


@pytest.mark.parametrize(
    ("rho", "cases", "scale"),
    [(Fraction(1, 2), 1, 1.0), (Fraction(1, 18), 1, 3.0), (Fraction(1, 2), 2, 2.0), (Fraction(1, 18), 5, 15.0)],
)
def test_a_scale_that_is_exact_is_not_rounded(rho: Fraction, cases: int, scale: float) -> None:
    """c^2 / (2 s^2) = rho at a whole s: the least float is s itself."""
    assert scale_of(rho, cases) == scale


def test_scales_at_the_edge_of_what_noise_can_have() -> None:
    """Noise of 2^50 is drawn, more is not named a float; without rho or cases there is none."""
    assert scale_of(Fraction(1, 2**101)) == 2.0**50
    with pytest.raises(InputError, match="rho is too small"):
        scale_of(Fraction(1, 2**101) * Fraction(10**6 - 1, 10**6))
    for rho, cases in ((Fraction(0), 1), (Fraction(-1), 1), (Fraction(1), 0)):
        with pytest.raises(InputError, match="noise needs rho"):
            scale_of(rho, cases)


def test_the_widest_noise_that_is_checked() -> None:
    """Scale 50,000 is allowed, half more is not; rho / cases^2 says which."""
    assert zcdp.checked(Fraction(1, 2 * 50_000**2), "1e-6", 1).scale == 50_000.0
    assert zcdp.checked(Fraction(4, 2 * 50_000**2), "1e-6", 2).scale == 50_000.0
    with pytest.raises(InputError, match="no variant of a log"):
        zcdp.checked(Fraction(2, 100_001**2), "1e-6", 1)


def test_the_conversion_where_nothing_is_lost_and_where_it_means_nothing() -> None:
    """rho 0 is epsilon 0; no bound is ever below 0; delta is inside 0 .. 1 and rho is not negative."""
    assert [epsilon_of(Fraction(0), delta) for delta in (TINY, Fraction(1, 10**12))] == [0, 0]
    assert epsilon_of(Fraction(1, 10**9), Fraction(1, 2)) == 0
    for rho, delta in ((Fraction(-1), TINY), (Fraction(1), Fraction(0)), (Fraction(1), Fraction(1))):
        with pytest.raises(InputError, match="a conversion needs"):
            epsilon_of(rho, delta)


def test_the_conversion_at_a_delta_that_floats_take_for_one() -> None:
    """ln(1 / delta) is 0 then, and so is the best a - 1; the nearest order that is used gives a bound all the same:
    rho - ln((a - 1) / a) and so on, at a = 1 + 10^-9."""
    expected = 30 * (1 + 1e-9) + math.log(1e-9) - 1
    assert float(epsilon_of(Fraction(30), 1 - Fraction(1, 10**20))) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(10)])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 1000), TINY, Fraction(1, 10**12)])
def test_the_rho_that_an_epsilon_allows_is_the_largest(epsilon: Fraction, delta: Fraction) -> None:
    """In parts of 2^-30 of epsilon: that one is not more than epsilon, one part more is."""
    rho, part = zcdp.rho_of(epsilon, delta), epsilon / 2**30
    assert (rho / part).denominator == 1
    assert epsilon_of(rho, delta) <= epsilon < epsilon_of(rho + part, delta)


def test_the_rho_of_an_epsilon_has_ends() -> None:
    """Never more than all of epsilon, though a wide delta would allow it; none if one part is too much already. An
    epsilon is above 0."""
    tenth, wide = Fraction(1, 10), Fraction(1, 3)
    assert epsilon_of(tenth * 11 / 10, wide) <= tenth
    assert zcdp.rho_of(tenth, wide) == tenth
    little, narrow = Fraction(1, 10**9), Fraction(1, 10**12)
    assert epsilon_of(little / 2**30, narrow) > little
    assert zcdp.rho_of(little, narrow) == 0
    for epsilon in (Fraction(0), Fraction(-1)):
        with pytest.raises(InputError, match="a rho needs epsilon > 0"):
            zcdp.rho_of(epsilon, TINY)


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(50)])
@pytest.mark.parametrize(("rho", "delta"), [(Fraction(1, 10), TINY), (Fraction(3), Fraction(1, 1000))])
def test_any_order_gives_a_bound_that_is_rounded_up(
    order: Fraction, rho: Fraction, delta: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proposition 12 at whatever order the search finds: in parts of 10^-12, at most one of them above it."""
    monkeypatch.setattr(zcdp, "_best_order", lambda *_: float(order))
    epsilon_of.cache_clear()
    found = epsilon_of(rho, delta)
    epsilon_of.cache_clear()
    with localcontext() as context:
        context.prec = 90
        a, r, d = (Decimal(one.numerator) / Decimal(one.denominator) for one in (order, rho, delta))
        true = Fraction(a * r + (1 - 1 / a).ln() + (-d.ln() - a.ln()) / (a - 1))
    assert true <= found <= true + Fraction(1, 10**12)
    assert (found * 10**12).denominator == 1


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4)])
def test_a_bound_just_above_a_part_is_the_next_part(order: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is above a part of 10^-12 by 10^-45 is not that part; nor is one that is below it by 10^-42, since
    sixty digits do not distinguish it safely."""
    monkeypatch.setattr(zcdp, "_best_order", lambda *_: float(order))
    with localcontext() as context:
        context.prec = 120
        a, d = (
            Decimal(order.numerator) / Decimal(order.denominator),
            Decimal(TINY.numerator) / Decimal(TINY.denominator),
        )
        without_rho = Fraction((1 - 1 / a).ln() + (-d.ln() - a.ln()) / (a - 1))
    part = Fraction(40 * 10**12 + 1, 10**12)
    for offset, found in ((Fraction(1, 10**45), 1), (Fraction(-1, 10**42), 1), (Fraction(-1, 10**30), 0)):
        epsilon_of.cache_clear()
        assert epsilon_of((part + offset - without_rho) / order, TINY) == part + found * Fraction(1, 10**12)
    epsilon_of.cache_clear()


def test_accounting_by_default_and_by_zcdp() -> None:
    """Epsilon and delta add up unless said otherwise; the conversion spends 10^-6 of delta, which is never above 1, and
    nothing if nothing was spent."""
    assert Accounting() == zcdp.PURE == Accounting("pure", TINY)
    spent = Charge(Fraction(1, 3), Fraction(1, 7))
    assert Accounting().loss(spent) == spent
    adds = Accounting("zcdp")
    assert adds.loss(Charge()) == Charge()
    assert adds.loss(Charge(delta=Fraction(1, 9))).delta == Fraction(1, 9) + TINY
    assert adds.loss(Charge(rho=Fraction(1, 9))).delta == TINY
    assert adds.loss(Charge(delta=Fraction(1), rho=Fraction(1, 9))).delta == 1


def test_only_variants_that_occur_and_reach_the_threshold_leave() -> None:
    """A count of 0 draws no noise, one of 1 does; the threshold itself leaves, one below does not."""
    terms = Gaussian(Fraction(1, 18), TINY)
    least = terms.threshold

    class Fixed:
        def gaussian(self, scale: float, size: int) -> np.ndarray:
            assert (scale, size) == (3.0, 4)
            return np.asarray([0, least - 1, 0, -1], dtype=np.int64)

    counts = np.asarray([least - 1, 0, 1, least, least + 1], dtype=np.int64)
    found = terms.counts(counts, Fixed())  # type: ignore[arg-type]
    assert found.variants.tolist() == [2, 3, 4]
    assert found.counts.tolist() == [least, least, least]
    assert found.threshold == least


def delta_of(scale: float, releases: int, epsilon: float) -> float:
    """The true delta at epsilon of so many releases of one count, by convolution of privacy losses: no bound."""
    chances = probabilities(scale, 400)
    one = np.asarray([chances[z] for z in range(-400, 401)])
    total = one
    for _ in range(releases - 1):
        total = np.convolve(total, one)
    # The loss of outputs z_1 .. z_n, drawn at 0, against neighbours at 1: sum of (1 - 2 z_i) / (2 scale^2).
    sums = np.arange(len(total)) - 400 * releases
    losses = (releases - 2 * sums) / (2 * scale**2)
    return float(np.sum(total * (1 - np.exp(np.minimum(epsilon - losses, 0)))))


@pytest.mark.parametrize(("scale", "releases"), [(3.0, 1), (3.0, 4), (20.0, 25), (1.0, 2)])
def test_conversion_never_says_less_than_is_lost(scale: float, releases: int) -> None:
    """At the epsilon of the conversion the true delta of so many releases is not above the one converted at."""
    for delta in (TINY, Fraction(1, 1000)):
        epsilon = epsilon_of(releases / (2 * Fraction(scale) ** 2), delta)
        assert 0 < delta_of(scale, releases, float(epsilon)) <= float(delta)


@given(st.fractions(Fraction(1, 10**8), 50), st.fractions(Fraction(1, 10**12), Fraction(1, 2)))
@examples(150)
def test_conversion_is_below_the_textbook_one_and_near_the_best(rho: Fraction, delta: Fraction) -> None:
    """Below rho + 2 sqrt(rho ln(1 / delta)) (Bun and Steinke, proposition 1.3), and no grid of orders finds a better
    epsilon by a thousandth."""
    found, toll = float(epsilon_of(rho, delta)), -math.log(float(delta))
    assert found <= float(rho) + 2 * math.sqrt(float(rho) * toll) + 1e-9
    orders = 1 + np.geomspace(1e-4, 1e7, 4000)
    bounds = orders * float(rho) + np.log1p(-1 / orders) + (toll - np.log(orders)) / (orders - 1)
    assert found >= max(float(bounds.min()), 0.0) * (1 - 1e-3) - 1e-9
    assert found <= max(float(bounds.min()), 0.0) * 1.001 + 1e-9


def test_many_releases_show_far_more_under_the_same_budget() -> None:
    """Epsilon 1 and delta 1e-6 for 100 releases: a variant needs about a fifth of the cases. For one release Laplace
    noise is the better one, and the words of the docs report it."""
    total, delta = Fraction(1), TINY
    adds = Accounting("zcdp", delta / 2)

    def least(releases: int) -> tuple[int, int]:
        pure = laplace_threshold(total / releases, delta / releases)
        parts = bisect_right(range(10**6), total, key=lambda n: epsilon_of(Fraction(n, 10**6), delta / 2)) - 1
        terms = Gaussian(Fraction(parts, 10**6) / releases, delta / 2 / releases)
        whole = adds.loss(Charge(delta=terms.delta_dp, rho=terms.rho).times(releases))
        assert whole.epsilon <= total
        assert whole.delta <= delta
        return pure, terms.threshold

    pure, zcdp = least(100)
    assert 4 * zcdp < pure
    pure, zcdp = least(1)
    assert pure < zcdp


def test_epsilon_of_equal_noise_is_smaller_after_many_releases() -> None:
    """Noise of one and the same variance, 200 releases: what is spent of epsilon by rho is below a third of the sum."""
    rho = Fraction(1, 200)  # scale 10
    epsilon = Fraction(math.sqrt(2)) / 10  # Laplace noise of standard deviation 10
    assert 3 * epsilon_of(200 * rho, TINY) < 200 * epsilon


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8))
@examples(60)
def test_loss_grows_with_every_charge(parts: list[tuple[int, int]]) -> None:
    """And each sum is exact, in whatever order."""
    adds = Accounting("zcdp")
    charges = [Charge(delta=Fraction(d, 10**9), rho=Fraction(r, 1000)) for r, d in parts]
    sums = [sum(charges[:end], Charge()) for end in range(len(charges) + 1)]
    assert sums[-1] == sum(reversed(charges), Charge())
    for before, after in pairwise(adds.loss(one) for one in sums):
        assert before.epsilon < after.epsilon
        assert before.delta < after.delta
    assert parallel(charges).rho == max(one.rho for one in charges)


def test_forecast_and_gate_agree() -> None:
    """As many releases as the forecast says pass the gate, and the next one does not; by epsilon and by delta."""
    adds, each = Accounting("zcdp", Fraction(1, 10**7)), Charge(delta=Fraction(1, 10**7), rho=Fraction(1, 500))
    nothing, release = Spending(), ReleaseCharge(each)
    for policy in (
        GatePolicy(max_epsilon=1),
        GatePolicy(max_delta="6e-7"),
        GatePolicy(max_epsilon=1, max_delta="6e-7"),
    ):
        left = releases_left(policy, release, nothing, nothing, BudgetLimits(), adds)
        assert left is not None
        assert left > 1
        before, last, beyond = (nothing.with_release(release, number) for number in (left - 1, left, left + 1))
        assert gate.before_noise(policy, before, last, (), adds) == []
        assert gate.before_noise(policy, last, beyond, (), adds) != []
    assert releases_left(GatePolicy(max_delta="6e-7"), release, nothing, nothing, BudgetLimits(), adds) == 5
    assert releases_left(GatePolicy(), release, nothing, nothing, BudgetLimits(), adds) is None
    elsewhere, limits = nothing.with_release(release, 3), BudgetLimits(delta=Fraction(6, 10**7))
    assert releases_left(GatePolicy(), release, nothing, elsewhere, limits, adds) == 2


def test_an_older_program_counts_too_much_never_too_little() -> None:
    """The fields that it knows hold what the draw alone is as (epsilon, delta), and it adds those up."""
    adds, charge = Accounting("zcdp", TINY), Charge(delta=TINY, rho=Fraction(1, 50))
    body = read_entry(write_entry(charge_entry("p", "c", charge, 0, adds))).body  # type: ignore[union-attr]
    assert body.charge == charge
    old = Charge(Fraction(body.epsilon), Fraction(body.delta))
    for releases in (1, 3, 30):
        loss = adds.loss(charge.times(releases))
        assert releases * old.epsilon >= loss.epsilon
        assert releases * old.delta >= loss.delta
    pure = write_entry(charge_entry("p", "c", Charge(Fraction(1, 10), TINY)))
    assert b"rho" not in pure
    assert b"tail" not in pure


def test_a_rho_that_no_noise_can_have_is_named() -> None:
    """Not epsilon, which was not given."""
    with pytest.raises(InputError, match="lower rho") as caught:
        zcdp.checked("1e9", "1e-6", 1)
    assert "epsilon" not in str(caught.value)
