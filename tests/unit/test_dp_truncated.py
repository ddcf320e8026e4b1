"""Truncated geometric noise: its inequality, exactly, over all counts; its least reach; what it lets through."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import noise, strict, truncated
from models.dp.counts import release_counts, rule_of, threshold
from models.errors import InputError
from models.eventlog import EventLog
from tests.conftest import examples

FALSE_ALARM = 1e-9


def outcomes(a: Fraction, k: int, count: int) -> dict[int, Fraction]:
    """Chance of each released count, 0 represents no release: from the definition, exactly."""
    if count == 0:
        return {0: Fraction(1)}
    weights = {z: a ** abs(z) for z in range(-k, k + 1)}
    total, found = sum(weights.values()), {0: Fraction(0)}
    for z, weight in weights.items():
        shown = count + z if count + z > k else 0
        found[shown] = found.get(shown, Fraction(0)) + weight / total
    return found


def delta_between(here: dict[int, Fraction], there: dict[int, Fraction], factor: Fraction) -> Fraction:
    """The least delta with P[S] <= factor P'[S] + delta for every set S."""
    return sum((max(p - factor * there.get(shown, Fraction(0)), Fraction(0)) for shown, p in here.items()), Fraction(0))


def least_reach(a: Fraction, delta: Fraction) -> int:
    """By looking at one after the other, in exact fractions."""
    return next(k for k in range(2000) if a**k * (1 - a) <= delta * (1 + a - 2 * a ** (k + 1)))


def neighbours(a: Fraction, k: int, cases: int) -> Iterator[tuple[dict[int, Fraction], dict[int, Fraction]]]:
    """Every pair of counts that differ by so many cases: beyond 2 k + 2 all are alike."""
    for count in range(2 * k + 4):
        one, other = outcomes(a, k, count), outcomes(a, k, count + cases)
        yield one, other
        yield other, one


@given(st.fractions(Fraction(1, 5), Fraction(19, 20), max_denominator=20), st.integers(2, 400))
@examples(40)
def test_the_inequality_holds_exactly_for_all_counts(a: Fraction, inverse: int) -> None:
    """Over all counts and every set of outputs, both ways; and with a reach of one less it does not hold."""
    delta = Fraction(1, inverse)
    k = least_reach(a, delta)
    assert max(delta_between(one, other, 1 / a) for one, other in neighbours(a, k, 1)) <= delta
    if k:
        assert max(delta_between(one, other, 1 / a) for one, other in neighbours(a, k - 1, 1)) > delta


@pytest.mark.parametrize("cases", [2, 3, 5])
@pytest.mark.parametrize("a", [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10)])
def test_a_person_with_several_cases_is_covered(a: Fraction, cases: int) -> None:
    """All cases of one variant: delta (1 + 1/a + ...) at the factor a^-c, as the steps add up; over two variants no
    more, since what each of them costs is convex in its cases."""
    delta = Fraction(1, 50)
    k = least_reach(a, delta)
    whole = [delta * sum((a**-step for step in range(part)), Fraction(0)) for part in range(cases + 1)]
    for part in range(1, cases + 1):
        worst = max(delta_between(one, other, a**-part) for one, other in neighbours(a, k, part))
        assert worst <= whole[part]
        assert whole[part] + whole[cases - part] <= whole[cases]


@given(st.floats(0.2, 300.0), st.floats(1e-9, 0.3), st.integers(1, 6))
@examples(200)
def test_reach_is_the_least_one(scale: float, delta: float, cases: int) -> None:
    """By the sum of the distribution in floating point, within its error."""
    k = truncated.reach(scale, Fraction(delta), cases)
    a = math.exp(-1 / scale)
    each = delta / math.fsum(a**-step for step in range(cases))

    def edge(reach: int) -> float:
        return a**reach / math.fsum(a ** abs(z) for z in range(-reach, reach + 1))

    assert edge(k) <= each * (1 + 1e-9)
    assert k == 0 or edge(k - 1) > each * (1 - 1e-9)


def edge_of(scale: float, reach: int, steps: int = 1) -> Fraction:
    """P(reach) of the float scale, to 100 digits, times the sum of e^(step / scale) over so many steps."""
    with localcontext() as context:
        context.prec = 100
        a = (-1 / Decimal(scale)).exp()
        weights = [a ** abs(z) for z in range(-reach, reach + 1)]
        return Fraction(weights[0] / sum(weights) * sum(a**-step for step in range(steps)))


@pytest.mark.parametrize(("scale", "reach"), [(1.0, 5), (10.0, 60), (0.5, 4)])
@pytest.mark.parametrize("cases", [1, 2, 3])
def test_reach_at_the_edge_of_delta(scale: float, reach: int, cases: int) -> None:
    """A delta that the edge passes by one part in 10^41 is not kept by that reach; one above the edge by one in 10^30
    is. A delta between the two counts as above."""
    edge = edge_of(scale, reach, cases)
    assert truncated.reach(scale, edge * (1 - Fraction(1, 10**41)), cases) == reach + 1
    assert truncated.reach(scale, edge * (1 + Fraction(1, 10**41)), cases) == reach + 1
    assert truncated.reach(scale, edge * (1 + Fraction(1, 10**30)), cases) == reach


def test_a_delta_that_needs_no_noise_has_a_reach_of_0() -> None:
    """P(0) is 1 on the one value there is; for delta just below 1 the least reach is the first with P(k) <= delta."""
    assert truncated.reach(1.0, Fraction(999, 1000)) == 1
    assert truncated.reach(0.125, Fraction(1, 2)) == 1


def test_figures_of_the_docs() -> None:
    """At epsilon .1 and delta 1e-6 counts from 110 on may leave instead of from 133 on; at epsilon 1 nothing changes,
    nor does the noise."""
    tiny = Fraction(1, 10**6)
    assert (rule_of(Fraction(1, 10), tiny).least, threshold(Fraction(1, 10), tiny)) == (110, 133)
    assert rule_of(Fraction(1), tiny).reach is None
    assert rule_of(Fraction(1), tiny).least == threshold(Fraction(1), tiny) == 15


@pytest.mark.parametrize("cases", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)])
def test_the_rule_never_lets_less_through(epsilon: Fraction, cases: int) -> None:
    """Every count is kept at least as often as with endless noise, by both distributions' definition; as many
    cases as one person may have are below delta by either rule."""
    delta = Fraction(1, 10**6)
    found, old = rule_of(epsilon, delta, cases), threshold(epsilon, delta, cases)
    assert found.least <= old
    a, reach = math.exp(-1 / found.scale), found.reach
    if reach is None:
        return

    def endless(least: int) -> float:
        return a**least / (1 + a) if least > 0 else 1 - a ** (1 - least) / (1 + a)

    z = np.arange(-reach, reach + 1)
    mass = a ** np.abs(z)
    for count in range(cases + 1, 2 * reach + 2, max(1, reach // 40)):
        kept = mass[count + z >= found.least].sum() / mass.sum()
        assert kept >= endless(old - count) * (1 - 1e-6)


def test_draws_follow_the_definition_and_no_other() -> None:
    """Chi-square against the truncated distribution; against that of a scale a tenth off it fails. None is beyond."""
    from scipy.stats import chisquare

    drawn = truncated.draw(noise.SECURE, 3.0, 5, 120_000)
    assert np.abs(drawn).max() == 5
    for scale, fits in ((3.0, True), (3.3, False), (2.7, False)):
        mass = np.exp(-np.abs(np.arange(-5, 6)) / scale)
        found = chisquare(np.bincount(drawn + 5), mass / mass.sum() * len(drawn)).pvalue
        assert (found > FALSE_ALARM) == fits


def test_a_count_behind_the_reach_always_leaves_and_a_single_case_seldom() -> None:
    """2 k + 1 cases leave in every release; one case with a chance below delta, which a delta of .2 lets be seen."""
    epsilon, delta = Fraction(1, 10), Fraction(1, 5)
    found = rule_of(epsilon, delta)
    assert found.reach is not None
    # The edge is .184. The share of 15,000 draws has a relative standard deviation of .017, so that a tenth is 5.8 of
    # them. A reach that is one larger has an edge of .125, which is a third away.
    single_cases = 300
    counts = np.asarray([2 * found.reach + 1, 0, *[1] * single_cases], dtype=np.int64)
    seen = np.zeros(len(counts))
    for _ in range(50):
        released = release_counts(counts, epsilon, delta, noise.SECURE)
        assert released.threshold == found.least
        assert (released.counts >= found.least).all()
        seen[released.variants] += 1
    assert seen[0] == 50
    assert seen[1] == 0
    share = seen[2:].sum() / (50 * single_cases)
    a = math.exp(-1 / 10)
    edge = a**found.reach / sum(a ** abs(z) for z in range(-found.reach, found.reach + 1))
    assert share == pytest.approx(edge, rel=0.1)
    assert edge <= float(delta)


@pytest.mark.parametrize(
    "terms",
    [(1.0, Fraction(0), 1), (1.0, Fraction(1), 1), (1.0, Fraction(1, 2), 0)],
)
def test_terms_that_are_none_are_refused(terms: tuple[float, Fraction, int]) -> None:
    """As for thresholds."""
    with pytest.raises(InputError):
        truncated.reach(*terms)


def test_an_epsilon_beyond_all_sense_has_endless_noise() -> None:
    """As before, where the steps of many cases would leave the arithmetic of exact numbers."""
    found = rule_of(Fraction(10**7), Fraction(1, 2), 10**4)
    assert found.reach is None
    assert found.least == threshold(Fraction(10**7), Fraction(1, 2), 10**4)


def test_a_rule_that_saves_one_case_is_used() -> None:
    """Endless noise where truncated noise needs as many cases, truncated noise where it needs one less."""
    tiny, found = Fraction(1, 10**6), {}
    for tenths in range(1, 21):
        epsilon = Fraction(tenths, 10)
        saved = threshold(epsilon, tiny) - 1 - truncated.reach(float(1 / epsilon), tiny)
        found.setdefault(saved, set()).add(rule_of(epsilon, tiny).reach is None)
    assert found[0] == {True}
    assert found[1] == {False}
    assert max(found) > 10


def test_least_counts_that_no_log_reaches_are_refused() -> None:
    """The statement about a release's least count is about a release that can be made."""
    for least in (strict.least_count, strict.released_from):
        with pytest.raises(InputError, match="epsilon is too small: a variant would need"):
            least(Fraction(1, 10**6), Fraction(1, 10**6))


def test_the_least_count_of_a_release_is_the_one_that_is_published() -> None:
    """Operators and recipients read one number, and it is the rule's."""
    log = EventLog.from_traces([(("A", "B"), None)] * 300)
    found = strict.release_variants(log, epsilon="0.1", delta_dp="1e-6")
    assert found.threshold == strict.released_from(Fraction(1, 10), Fraction(1, 10**6)) == 110


@pytest.mark.parametrize(("scale", "reach"), [(1.0, 3), (10.0, 1), (1000.0, 4), (5e7, 0), (5e7, 10**9)])
def test_the_share_of_draws_in_reach(scale: float, reach: int) -> None:
    """By the sum of its chances, in exact arithmetic on the decimals of a."""
    with localcontext() as context:
        context.prec = 60
        a = (-1 / Decimal(scale)).exp()
        share = 1 - 2 * a ** (reach + 1) / (1 + a)
    assert truncated.kept(scale, reach) == pytest.approx(float(share), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [("1/1000", "1/10"), ("1/100000", "1/100"), ("1/100000", "1/10")])
def test_a_reach_far_below_the_scale_is_not_used(epsilon: str, delta: str) -> None:
    """Hundreds of draws for one that is kept: noise without an end then, under its own threshold."""
    chosen = rule_of(Fraction(epsilon), Fraction(delta))
    assert chosen.reach is None
    assert chosen.least == threshold(Fraction(epsilon), Fraction(delta))


@given(st.fractions(Fraction(1, 10**5), Fraction(5)), st.fractions(Fraction(1, 10**6), Fraction(1, 2)))
@examples(100)
def test_a_rule_keeps_enough_of_its_draws(epsilon: Fraction, delta: Fraction) -> None:
    """One of twenty, whatever the terms."""
    chosen = rule_of(epsilon, delta)
    assert chosen.reach is None or truncated.kept(chosen.scale, chosen.reach) >= 0.05
