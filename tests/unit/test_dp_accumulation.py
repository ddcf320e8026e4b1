"""Counts over a series: what a tree adds up, the noise that it holds, and thresholds against exact tails."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.accumulation import Counts, Shape, delta_of, threshold
from models.dp.noise import NoiseSource, simulated
from models.dp.series import release_variants
from models.dp.strict import Terms
from models.errors import InputError
from models.eventlog import EventLog

ONE = Fraction(1)


class Silent:
    """A source whose noise is 0, and which counts the draws."""

    def __init__(self) -> None:
        self.drawn = 0

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.drawn += size
        return np.zeros(size, dtype=np.int64)


SHAPES = st.sampled_from([Shape(), Shape(2, 3), Shape(3, 2), Shape(3, 4), Shape(4, 2, 16)])
RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=40)
"""How many cases of the key each number has; 3: the number was burned."""


@settings(max_examples=200, deadline=None)
@given(SHAPES, RELEASES)
def test_a_count_is_that_of_all_releases(shape: Shape, releases: list[int]) -> None:
    """Whatever the shape, and whichever numbers were burned: what stands is counted once."""
    counts = Counts.begin(shape, 1.0)
    counts.extend(["key"], Silent(), backlog=False)
    expected = 0
    for number, cases in enumerate(releases, start=1):
        if cases == 3:
            continue
        counts.add(number, np.asarray([cases]), Silent())
        expected += cases
        assert counts.total.tolist() == [expected]
        again = Counts.from_state(counts.to_state(), ["key"], shape, 1.0)
        assert again is not None
        assert again.to_state() == counts.to_state()


@settings(max_examples=100, deadline=None)
@given(SHAPES, st.integers(1, 60))
def test_a_case_enters_one_node_a_level(shape: Shape, releases: int) -> None:
    """So many draws as releases and ended nodes, never two for the same node; a count holds as many as the digits of
    its number say."""
    counts, silent = Counts.begin(shape, 1.0), Silent()
    counts.extend(["key"], silent, backlog=False)
    for number in range(1, releases + 1):
        counts.add(number, np.asarray([1]), silent)
    nodes = sum(releases // shape.arity**level if level else releases for level in range(shape.levels))
    assert silent.drawn == nodes
    assert counts.draws.tolist() == [sum(shape.digits(releases))] == [sum(counts.nodes)]


def test_a_burned_number_never_draws_its_node_again() -> None:
    """Number 4 would have ended a node of two levels; it was burned, perhaps seen. No later release draws the node of
    the cases before it: what they were counted as stays what it was."""
    counts, silent = Counts.begin(Shape(3, 2), 1.0), Silent()
    counts.extend(["key"], silent, backlog=False)
    for number in (1, 2, 3):
        counts.add(number, np.asarray([1]), silent)
    assert counts.nodes == [1, 1, 0]
    before = silent.drawn
    counts.add(5, np.asarray([1]), silent)
    assert (silent.drawn - before, counts.nodes) == (1, [1, 0, 2])
    assert counts.open.tolist() == [[0], [1], [1]]  # of release 5 alone


def test_a_key_that_is_found_late_has_the_noise_of_the_beginning() -> None:
    """As if it had been there from the first release on; one that noisy counts opened has none of before."""
    for backlog, expected in ((True, 5), (False, 1)):
        counts = Counts.begin(Shape(), 1.0)
        counts.extend(["old"], Silent(), backlog=False)
        for number in range(1, 5):
            counts.add(number, np.asarray([1]), simulated(number))
        counts.extend(["new"], simulated(9), backlog=backlog)
        counts.add(5, np.asarray([1, 1]), simulated(5))
        assert counts.draws.tolist() == [5, expected]


@pytest.mark.parametrize("draws", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 4)])
def test_the_threshold_is_the_least_that_keeps_delta(draws: int, epsilon: Fraction) -> None:
    """Against the tail of the sum by exact fractions of a geometric series: P[sum of n >= t] computed from the negative
    binomial law of the two halves."""
    scale, delta = float(1 / epsilon), Fraction(1, 10**6)
    least = threshold(scale, draws, delta)
    tail = _tail(math.exp(-1 / scale), draws, 600)
    assert tail[least - 1] <= 1e-6 < tail[least - 2]


def _tail(a: float, draws: int, most: int) -> list[float]:
    """P[X - Y >= t], t = 0 .. most, X and Y negative binomial: the noises' positive and negative halves added up."""
    mass = [(1 - a) ** draws]
    for k in range(1, 3 * most):
        mass.append(mass[-1] * a * (draws + k - 1) / k)
    whole = np.asarray(mass)
    beyond = np.cumsum(whole[::-1])[::-1]
    return [float(beyond[t : t + most] @ whole[:most]) for t in range(most)]


def test_thresholds_of_one_draw_are_those_of_a_single_release() -> None:
    """`models.dp.counts` computes them in decimals."""
    from models.dp import counts

    for epsilon in (Fraction(1), Fraction(1, 10), Fraction(3)):
        for delta in (Fraction(1, 1000), Fraction(1, 10**9)):
            assert threshold(float(1 / epsilon), 1, delta) == counts.threshold(epsilon, delta)


def test_large_noise_is_bounded_on_the_safe_side() -> None:
    """Chernoff, never below what the exact tail asks for."""
    from models.dp import accumulation

    for draws in (1, 4, 30):
        exact = accumulation._exact_tail(20.0, draws, 1e-8)
        bound = accumulation._chernoff(20.0, draws, 1e-8)
        assert exact <= bound <= 1.5 * exact
    assert threshold(5000.0, 3, Fraction(1, 10**6)) > 5000


@pytest.mark.parametrize("horizon", [None, 260])
def test_delta_is_never_spent_twice(horizon: int | None) -> None:
    """Over all releases its parts add up to no more than delta; behind the horizon there is none."""
    total = sum(delta_of(number, ONE, horizon) for number in range(1, 2000))
    assert total <= 1
    assert (delta_of(261, ONE, horizon) == 0) == (horizon is not None)


@pytest.mark.parametrize(("horizon", "levels"), [(24, 1), (260, 2), (1000, 3)])
def test_the_shape_follows_from_the_horizon(horizon: int, levels: int) -> None:
    """No other number of levels has less variance on average over the horizon."""
    best = Shape.of("tree", horizon)
    assert best.levels == levels

    def mean(shape: Shape) -> float:
        return sum(sum(shape.digits(n)) for n in range(1, horizon + 1)) / horizon * shape.levels**2

    others = [Shape(n, next(k for k in range(2, 2000) if k**n >= horizon)) for n in range(2, 9)]
    assert all(mean(best) <= mean(other) for other in [Shape(), *others])


def test_a_tree_needs_a_horizon() -> None:
    """It decides what each level costs."""
    with pytest.raises(InputError, match="declare horizon"):
        Shape.of("tree", None)
    assert Shape.of("sum", None) == Shape()


def _series(
    terms: Terms, shape: Shape, source: NoiseSource, releases: int, each: int
) -> tuple[list[Counter], list[Counter]]:
    """Variants of each release, and of each accumulated log, where every release has so many cases a b."""
    state, own, whole = None, [], []
    log = EventLog.from_traces([("ab", None)] * each)
    for number in range(1, releases + 1):
        found = release_variants(log, terms=terms, shape=shape, number=number, state=state, draw=source)
        state = found.state
        own.append(Counter(found.release.log.traces()))
        whole.append(Counter() if found.log is None else Counter(found.log.traces()))
    return own, whole


def test_a_variant_that_no_release_shows_comes_through_in_time() -> None:
    """Four cases a release are below every threshold; after 40 releases 160 are above that of their sum."""
    own, whole = _series(Terms.of("1", "1e-6"), Shape.of("sum", 40), simulated(3), 40, 4)
    assert not any(own)
    assert not whole[3]
    assert abs(whole[-1][("a", "b")] - 160) < 60


@pytest.mark.parametrize("levels", [1, 2])
def test_the_noise_of_an_accumulated_count_is_what_is_said(levels: int) -> None:
    """Its variance over many series: draws times that of one draw at L / epsilon, within a tenth; half of it, or twice
    it, is not."""
    shape = Shape() if levels == 1 else Shape(2, 4)
    found = []
    counts = Counts.begin(shape, 2.0 * levels)
    source = simulated(11)
    counts.extend(list(range(6000)), source, backlog=False)
    for number in range(1, 12):
        counts.add(number, np.full(6000, 7), source)
    found = counts.total - 77
    a = math.exp(-1 / (2.0 * levels))
    expected = sum(shape.digits(11)) * 2 * a / (1 - a) ** 2
    assert abs(float(np.var(found)) / expected - 1) < 0.1
    assert abs(float(np.mean(found))) < 5 * math.sqrt(expected / 6000)


def test_counts_under_other_noise_do_not_go_on() -> None:
    """Another epsilon, or another shape: the accumulated log begins anew, and says since when."""
    terms = Terms.of("10", "1e-3")
    log = EventLog.from_traces([("ab", None)] * 30)
    first = release_variants(log, terms=terms, shape=Shape(), number=1, draw=simulated(1))
    more = release_variants(log, terms=terms, shape=Shape(), number=2, state=first.state, draw=simulated(2))
    assert (more.public["since"], more.public["noise"]["draws"]) == (1, 2)
    other = Terms.of("20", "1e-3")
    anew = release_variants(log, terms=other, shape=Shape(), number=3, state=more.state, draw=simulated(3))
    assert (anew.public["since"], anew.public["noise"]["draws"]) == (3, 1)
    planned = release_variants(log, terms=other, shape=Shape.of("sum", 5), number=4, state=anew.state)
    assert planned.public["since"] == 4, "parts of delta by another horizon would add up to more than delta"
    assert abs(Counter(anew.log.traces())[("a", "b")] - 30) < 5  # type: ignore[union-attr]
