"""Counts over a series: the noise that a tree adds up, and thresholds against exact tails."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import accumulation
from models.dp.accumulation import Counts, Shape, delta_of, threshold
from models.dp.noise import NoiseSource, simulated
from models.dp.series import release_variants
from models.dp.strict import Terms
from models.errors import InputError
from models.eventlog import EventLog
from tests.conftest import examples
from tests.oracles.dp import tails


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


@examples(200)
@given(SHAPES, RELEASES)
def test_a_count_is_that_of_all_releases(shape: Shape, releases: list[int]) -> None:
    """For every shape, and for all burned numbers, each remaining release is counted once."""
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


@examples(100)
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
    """Another epsilon, or another shape: the accumulated log begins again, and says since when."""
    terms = Terms.of("10", "1e-3")
    log = EventLog.from_traces([("ab", None)] * 30)
    first = release_variants(log, terms=terms, shape=Shape(), number=1, draw=simulated(1))
    more = release_variants(log, terms=terms, shape=Shape(), number=2, state=first.state, draw=simulated(2))
    assert (more.public["since"], more.public["noise"]["draws"]) == (1, 2)
    other = Terms.of("20", "1e-3")
    restarted = release_variants(log, terms=other, shape=Shape(), number=3, state=more.state, draw=simulated(3))
    assert (restarted.public["since"], restarted.public["noise"]["draws"]) == (3, 1)
    planned = release_variants(log, terms=other, shape=Shape.of("sum", 5), number=4, state=restarted.state)
    assert planned.public["since"] == 4, "parts of delta by another horizon would add up to more than delta"
    assert abs(Counter(restarted.log.traces())[("a", "b")] - 30) < 5  # type: ignore[union-attr]


SMALL_SHAPES = [Shape(), Shape(2, 2), Shape(2, 4), Shape(3, 2), Shape(3, 3)]


class Marked(NoiseSource):
    """Noise that says which draw it was: 1, 2, 4, 8, ... for the draws of a key; notes every scale and size."""

    __slots__ = ("asked", "bit")

    def __init__(self) -> None:
        object.__setattr__(self, "generator", None)
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "bit", 0)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        if not size:
            return np.zeros(0, dtype=np.int64)
        object.__setattr__(self, "bit", self.bit + 1)
        return np.full(size, 1 << (self.bit - 1 + SHIFT), dtype=np.int64)


SHIFT = 10
"""Below it appear the true counts (fewer than 1,024 cases)."""


def by_hand(shape: Shape, kept: list[int]) -> tuple[list[tuple[int, int]], list[set[int]]]:
    """Nodes as (level, last release) in the order in which they are drawn, and what the count over all releases so far
    adds up behind each release: those nodes whose parts no drawn node holds. A node is drawn by the release that ends
    it, if that number was not burned."""
    drawn: list[tuple[int, int]] = []
    added: list[set[int]] = []
    for number in kept:
        drawn += [(level, number) for level in range(shape.levels) if not level or number % shape.arity**level == 0]
        whole = [(end - (shape.arity**level if level else 1), end) for level, end in drawn]
        inside = {
            place
            for place, (begin, end) in enumerate(whole)
            if any(
                drawn[other][0] > drawn[place][0] and whole[other][0] <= begin and end <= whole[other][1]
                for other in range(len(drawn))
            )
        }
        added.append(set(range(len(drawn))) - inside)
    return drawn, added


@pytest.mark.parametrize("shape", SMALL_SHAPES, ids=str)
@pytest.mark.parametrize("burned", [(), (4,), (8, 9), (2, 6, 12), (3, 4, 5, 6, 7, 8), (1, 9)])
def test_a_count_adds_up_the_largest_drawn_nodes(shape: Shape, burned: tuple[int, ...]) -> None:
    """Each true case once, and the noise of just those nodes that no larger drawn node holds; a node is drawn once, at
    the one scale, by the release that ends it, and never where that number was burned."""
    kept = [number for number in range(1, 19) if number not in burned]
    drawn, added = by_hand(shape, kept)
    counts, source = Counts.begin(shape, 3.0), Marked()
    counts.extend(["key", "other"], source, backlog=True)
    expected = 0
    for number, nodes in zip(kept, added, strict=True):
        begun = source.bit
        own = counts.add(number, np.asarray([number, 0]), source)
        expected += number
        assert own.tolist() == [number + (1 << (begun + SHIFT)), 1 << (begun + SHIFT)]
        assert int(counts.total[0]) & ((1 << SHIFT) - 1) == expected
        assert {bit for bit in range(source.bit) if int(counts.total[0]) >> (bit + SHIFT) & 1} == nodes
        assert int(counts.total[0] - counts.total[1]) == expected
        assert counts.draws.tolist() == [len(nodes)] * 2
        assert sum(counts.nodes) == len(nodes)
        assert counts.last == number
    assert source.bit == len(drawn)
    assert {(scale, size) for scale, size in source.asked if size} == {(3.0, 2)}


def test_a_key_of_the_data_gets_a_noise_for_each_node_so_far() -> None:
    """As many draws a level as there are nodes in the count; a public key gets none, and holds fewer noises."""
    counts, source = Counts.begin(Shape(2, 4), 5.0), Marked()
    for number in range(1, 7):
        counts.add(number, np.zeros(0, dtype=np.int64), source)
    assert counts.nodes == [2, 1]
    source = Marked()
    counts.extend(["a", "b", "c"], source, backlog=True)
    assert [(scale, size) for scale, size in source.asked if size] == [(5.0, 2 * 3), (5.0, 1 * 3)]
    assert counts.draws.tolist() == [3] * 3
    assert counts.sums.tolist() == [[2 << SHIFT] * 3, [2 << SHIFT] * 3]
    counts.extend(["d"], source, backlog=False)
    assert (counts.keys, counts.draws.tolist(), int(counts.total[3])) == (["a", "b", "c", "d"], [3, 3, 3, 0], 0)
    counts.add(7, np.asarray([1, 0, 0, 1]), source)
    assert counts.draws.tolist() == [4, 4, 4, 1]
    assert counts.open[1].tolist() == [1, 0, 0, 1]


def test_keys_that_are_kept_keep_their_counts() -> None:
    """The others are gone from every table."""
    counts = Counts.begin(Shape(2, 2), 1.0)
    counts.extend(["a", "b", "c"], Marked(), backlog=False)
    counts.add(1, np.asarray([5, 6, 7]), Marked())
    noise = 1 << SHIFT
    counts.keep(np.asarray([True, False, True]))
    assert counts.keys == ["a", "c"]
    assert counts.total.tolist() == [5 + noise, 7 + noise]
    assert counts.open.tolist() == [[0, 0], [5, 7]]
    assert counts.noises.tolist() == [[1, 1], [0, 0]]
    with pytest.raises(ValueError, match="shorter"):
        counts.keep(np.asarray([True]))


def test_a_number_is_counted_once_and_never_before_the_beginning() -> None:
    """A series begins with its release: an earlier one, or the same again, is refused before anything is drawn."""
    none = np.zeros((1, 0), dtype=np.int64)
    for unsaid in (Counts.begin(Shape(), 1.0), Counts(Shape(), 1.0, [], none, none, none, [0])):
        assert (unsaid.since, unsaid.last) == (1, 0), "a series begins with release 1"
    counts, source = Counts.begin(Shape(), 1.0, since=5), Marked()
    assert (counts.since, counts.last) == (5, 4)
    counts.extend(["a"], source, backlog=True)
    asked = list(source.asked)
    with pytest.raises(InputError, match="release 4 was counted before"):
        counts.add(4, np.asarray([1]), source)
    counts.add(5, np.asarray([1]), source)
    with pytest.raises(InputError, match="release 5 was counted before"):
        counts.add(5, np.asarray([1]), source)
    assert len(source.asked) == len(asked) + 1


def test_a_state_gives_back_the_counts() -> None:
    """Of several keys and levels; under another scale, arity, number of levels or horizon it does not continue."""
    shape = Shape(2, 3, 9)
    counts, source = Counts.begin(shape, 2.0, since=2), Marked()
    counts.extend(["a", "b", "c"], source, backlog=True)
    for number in range(2, 6):
        counts.add(number, np.asarray([number, 0, 1]), source)
    state = counts.to_state()
    again = Counts.from_state(state, ["a", "b", "c"], shape, 2.0)
    assert again is not None
    assert (again.keys, again.nodes, again.last, again.since) == (["a", "b", "c"], counts.nodes, 5, 2)
    for one, other in ((again.sums, counts.sums), (again.noises, counts.noises), (again.open, counts.open)):
        assert one.dtype == np.int64
        assert one.tolist() == other.tolist()
    again.add(6, np.asarray([1, 1, 1]), source)
    assert state == counts.to_state(), "what continues does not change the state that it came from"
    for other_shape, scale in ((Shape(2, 4, 9), 2.0), (Shape(2, 3, 8), 2.0), (Shape(2, 3), 2.0), (shape, 2.5)):
        assert Counts.from_state(state, ["a", "b", "c"], other_shape, scale) is None
    assert Counts.from_state({**state, "levels": 3}, ["a", "b", "c"], shape, 2.0) is None


@pytest.mark.parametrize("shape", [Shape(2, 2), Shape(3, 3), Shape(4, 2)], ids=str)
def test_nodes_end_where_their_width_says(shape: Shape) -> None:
    """Node m of level j holds the releases (m - 1) k^j + 1 to m k^j; one that ended between two releases was lost."""
    for level in range(shape.levels):
        width = shape.arity**level
        ends = {number for number in range(1, 61) if number % width == 0}
        assert {number for number in range(1, 61) if shape.closes(level, number)} == ends
        for last in range(20):
            for number in range(last + 1, 40):
                assert shape.lost(level, last, number) == (level > 0 and any(last < end < number for end in ends))


def test_digits_add_up_to_the_number() -> None:
    """Each below the arity, but for the last, which continues behind the horizon."""
    for shape in (Shape(), Shape(2, 3), Shape(3, 4)):
        for number in range(1, 200):
            digits = shape.digits(number)
            assert len(digits) == shape.levels
            assert sum(digit * shape.arity**level for level, digit in enumerate(digits)) == number
            assert all(0 <= digit < shape.arity for digit in digits[:-1])


def _mean(levels: int, arity: int, horizon: int) -> Fraction:
    """Draws of a count times L^2, which its variance is proportional to, on average over the horizon."""
    total = 0
    for number in range(1, horizon + 1):
        for _ in range(levels - 1):
            number, digit = divmod(number, arity)
            total += digit
        total += number
    return Fraction(total * levels**2, horizon)


@pytest.mark.parametrize(
    "horizon", [1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 30, 46, 47, 48, 49, 50, 64, 100, 260, 365, 921, 922, 1000]
)
def test_the_tree_is_that_of_least_variance(horizon: int) -> None:
    """Among all numbers of levels, each with the least arity that reaches the horizon; of equal ones the fewest (47 and
    48 releases: one level and two are equal)."""
    best, least = (1, 0), _mean(1, 0, horizon)
    for levels in range(2, 13):
        arity = next(k for k in range(1, horizon + 2) if k**levels >= horizon)
        if arity > 1 and _mean(levels, arity, horizon) < least:
            best, least = (levels, arity), _mean(levels, arity, horizon)
    shape = Shape.of("tree", horizon)
    assert (shape.levels, shape.arity if best[0] > 1 else 0, shape.horizon) == (*best, horizon)


def test_a_horizon_is_a_number_of_releases() -> None:
    """From 1 to 100,000, for a sum and for a tree."""
    for horizon in (1, 100_000):
        assert Shape.of("sum", horizon) == Shape(1, 0, horizon)
    assert Shape.of("tree", 1) == Shape(1, 0, 1)
    for how in ("sum", "tree"):
        for horizon in (-1, 0, 100_001):
            with pytest.raises(InputError, match="between 1 and 100000 releases"):
                Shape.of(how, horizon)  # type: ignore[arg-type]
    assert Shape.of("sum", None) == Shape(1, 0, None)
    with pytest.raises(InputError, match="declare horizon"):
        Shape.of("tree", None)


def test_parts_of_delta_without_a_horizon_add_up_to_delta() -> None:
    """The first N parts are N / (N + 1) of it, so all together are delta, and no part can be larger."""
    delta = Fraction(1, 1000)
    spent = Fraction(0)
    for number in range(1, 300):
        spent += delta_of(number, delta, None)
        assert spent == delta * Fraction(number, number + 1)
    assert sum(delta_of(number, delta, 7) for number in range(1, 8)) == delta
    assert [delta_of(number, delta, 7) for number in (7, 8, 9)] == [delta / 7, 0, 0]


def least_count(scale: float, draws: int, delta: Fraction, person: int, most: int) -> int:
    """The smallest k + 1 >= 2 with c P[c + noise >= k + 1] <= delta."""
    bound = Decimal(delta.numerator) / Decimal(delta.denominator) / person
    return max(next(t for t, chance in enumerate(tails(scale, draws, most)) if chance <= bound) + person, 2)


@pytest.mark.parametrize(("scale", "draws"), [(1.0, 1), (0.5, 2), (2.0, 3), (1.5, 6)])
@pytest.mark.parametrize("person", [1, 3])
def test_a_threshold_is_the_first_that_reaches_delta(scale: float, draws: int, person: int) -> None:
    """A delta one part in two million below what a threshold costs asks for the next one; a part in a million (what is
    left for rounding) and a half above it does not."""
    chances = tails(scale, draws, 60)
    for t in [t for t in range(4, 50, 9) if chances[t] > Decimal(10) ** -20]:
        chance = chances[t]
        delta = Fraction(chance) * person
        assert threshold(scale, draws, delta * (1 - Fraction(1, 2**21)), person) == t + 1 + person
        assert threshold(scale, draws, delta * (1 + Fraction(3, 2**21)), person) == t + person


def test_one_case_alone_never_passes_by_its_own_count() -> None:
    """With hardly any noise the threshold is 2: a count of 1 is never released, and one of 2 where delta allows."""
    assert threshold(0.1, 1, Fraction(999_999, 1_000_000)) == 2
    assert threshold(0.1, 1, Fraction(1, 10_000)) == 2
    assert least_count(0.1, 1, Fraction(1, 10_000), 1, 20) == 2
    assert threshold(0.1, 1, Fraction(1, 10_000), 4) == least_count(0.1, 1, Fraction(1, 10_000), 4, 20)


def _tiny() -> Iterator[Fraction]:
    for nats in range(50, 80, 3):
        yield Fraction(math.exp(-nats))
    yield Fraction(21, 10) * Fraction(math.exp(-61))
    yield Fraction(12, 10) * Fraction(math.exp(-61))  # one draw of scale 1: just above what its distribution leaves out
    yield Fraction(1, 10**40)


@pytest.mark.parametrize(("scale", "draws"), [(1.0, 1), (0.7, 2), (1.0, 3), (1.0, 5), (2.0, 1)])
def test_a_tiny_delta_is_kept_where_the_tail_ends(scale: float, draws: int) -> None:
    """If a chance is as small as the part that the computed distribution leaves out (e^-60), the threshold still keeps
    delta, and is larger than the least by a seventh at most.
    """
    chances = tails(scale, draws, math.ceil(140 * scale) + 20)
    for delta in _tiny():
        found = threshold(scale, draws, delta) - 1
        bound = Decimal(delta.numerator) / Decimal(delta.denominator)
        least = next(t for t, chance in enumerate(chances) if chance <= bound)
        assert least <= found <= 1.15 * least + 2, float(delta)


def test_a_tail_is_bounded_where_the_error_is_no_smaller_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that a distribution leaves out is at most its stated error, and at least two fifths of it; every tail is
    between the computed one and that with the error. The reach is made short, so that the difference shows.
    """
    monkeypatch.setattr(accumulation, "FAR", 6)
    accumulation._distribution.cache_clear()
    try:
        for draws in (1, 2, 3, 4, 5, 7, 8, 11, 15):
            pmf, error = accumulation._distribution(4.0, draws)
            assert len(pmf) % 2 == 1
            assert pmf.tolist() == pytest.approx(pmf[::-1].tolist())
            left_out = 1 - float(pmf.sum())
            assert 0.4 * error <= left_out <= error
            middle = len(pmf) // 2
            exact = tails(4.0, draws, 80)
            for t in range(0, min(middle, 80), 5):
                there = float(pmf[middle + t :].sum())
                assert there <= float(exact[t]) * (1 + 1e-9) <= (there + error) * (1 + 2e-9)
    finally:
        accumulation._distribution.cache_clear()


@pytest.mark.parametrize("scale", [0.5, 1.0, 7.0])
def test_a_draw_is_computed_up_to_the_first_number_beyond_60_scales(scale: float) -> None:
    """The part beyond is the error, twice e^-60 at most."""
    pmf, error = accumulation._distribution(scale, 1)
    assert len(pmf) == 2 * (round(60 * scale) + 1) + 1
    assert error <= 2 * math.exp(-60)


@pytest.mark.parametrize(("scale", "draws"), [(0.7, 4), (1.0, 6), (1.3, 9)])
def test_chances_too_small_to_matter_are_left_out(scale: float, draws: int) -> None:
    """Below 10^-40, and none above it; they are in the error together with those of the parts."""
    pmf, error = accumulation._distribution(scale, draws)
    middle = len(pmf) // 2
    exact = tails(scale, draws, middle + 3)
    assert exact[middle] - exact[middle + 1] >= Decimal(10) ** -40 > exact[middle + 1] - exact[middle + 2]
    assert error > 2 * accumulation._distribution(scale, draws // 2)[1]


def test_a_distribution_is_that_of_the_sum() -> None:
    """Differences of exact tails, for odd and even numbers of draws."""
    for scale, draws in ((1.0, 1), (2.0, 2), (1.0, 3), (1.0, 6), (0.6, 9)):
        pmf, error = accumulation._distribution(scale, draws)
        exact = tails(scale, draws, 45)
        middle = len(pmf) // 2
        for t in range(44):
            assert pmf[middle + t] == pytest.approx(float(exact[t] - exact[t + 1]), rel=1e-9)
        assert error < 1e-24


def test_a_bounded_threshold_is_what_the_best_exponent_proves() -> None:
    """Chernoff: P[sum >= t] <= E[e^(r Z)]^n e^(-r t) for every r, the moment by the chances of the distribution, added
    up term by term. No t is below what the best r proves, and none 2 above it."""
    for scale in (3.0, 7.0, 20.0):
        z = np.arange(-round(600 * scale), round(600 * scale) + 1)
        chance = np.exp(-np.abs(z) / scale)
        chance /= chance.sum()
        rates = np.arange(40, 761) / 800 / scale
        moments = np.asarray([float(chance @ np.exp(rate * z)) for rate in rates.tolist()])
        for draws, nats in ((12, 8), (12, 15), (40, 12), (40, 30), (100, 25), (9, 9)):
            best = float(((draws * np.log(moments) + nats) / rates).min())
            bound = accumulation._chernoff(scale, draws, math.exp(-nats))
            assert best <= bound < best + 2 + best * 1e-4


@pytest.mark.parametrize(("draws", "nats"), [(1, 650), (1_000_000, 1)])
def test_a_bound_is_no_worse_than_that_of_extreme_exponents(draws: int, nats: int) -> None:
    """From a four-hundredth of the largest exponent to all but that: where few draws are far out, and where many are
    hardly so."""
    scale = 3.0
    a = math.exp(-1 / scale)
    rates = np.linspace(1 / 400, 399 / 400, 20_000) / scale
    moments = (1 - a) ** 2 / ((1 - a * np.exp(rates)) * (1 - a * np.exp(-rates)))
    best = float(((draws * np.log(moments) + nats) / rates).min())
    assert accumulation._chernoff(scale, draws, math.exp(-nats)) <= best * (1 + 1e-5) + 2


def test_a_bound_of_millions_is_rounded_up() -> None:
    """Noise of a large scale s is nearly Laplace noise: E[e^(r Z)] = 1 / (1 - (r s)^2). With delta such that r s = 1/2
    proves most, the bound is that proof, a hundred-thousandth above it at most, and never below."""
    scale, draws = 2.0**17, 40
    nats = draws * (2 / 3 + math.log(3 / 4))  # the derivative of the proof in r is 0 there
    proven = (draws * math.log(4 / 3) + nats) * 2 * scale
    assert proven <= accumulation._chernoff(scale, draws, math.exp(-nats)) <= proven * (1 + 1e-5)


def test_noise_of_a_large_scale_is_bounded_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a scale of 300; up to it the exact least."""

    def never(*_: Any) -> Any:
        raise AssertionError("the other way of computing it")

    threshold.cache_clear()
    monkeypatch.setattr(accumulation, "_chernoff", never)
    exact = threshold(300.0, 1, Fraction(1, 1000))
    a = math.exp(-1 / 300)
    assert a ** (exact - 1) / (1 + a) <= 1e-3 < a ** (exact - 2) / (1 + a)
    monkeypatch.undo()
    monkeypatch.setattr(accumulation, "_exact_tail", never)
    assert threshold(301.0, 1, Fraction(1, 1000)) >= exact


@pytest.mark.parametrize(
    ("draws", "delta", "person"),
    [(0, Fraction(1, 2), 1), (1, Fraction(0), 1), (1, Fraction(1), 1), (1, Fraction(-1, 2), 1), (1, Fraction(3, 2), 1),
     (1, Fraction(1, 2), 0)],
)  # fmt: skip
def test_a_threshold_without_noise_or_delta_is_refused(draws: int, delta: Fraction, person: int) -> None:
    """No count can be released under it."""
    with pytest.raises(InputError, match="a threshold needs noise"):
        threshold(1.0, draws, delta, person)
