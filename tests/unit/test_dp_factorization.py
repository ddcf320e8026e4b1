"""Correlated noise over a series: the matrix, what a person moves, what the noise of each count is, and attackers.

The oracle is a dense matrix C, built here from binomial coefficients.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp import audit, noise
from models.dp.accumulation import Counts, Shape
from models.dp.factorization import BAND, EXPONENTS, UNIT, CorrelatedCounts, Factorization
from models.dp.privacy_loss import gaussian_part, scale_at
from models.errors import InputError
from tests.conftest import examples

HORIZON = 8


class SetNoise(noise.NoiseSource):
    """Noise that the test sets: one array for each draw, zeros after them."""

    __slots__ = ("asked", "draws")

    def __init__(self, *draws: Any) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(3))
        object.__setattr__(self, "draws", [np.asarray(draw, dtype=np.int64) for draw in draws])
        object.__setattr__(self, "asked", [])

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return self.draws.pop(0) if self.draws else np.zeros(size, dtype=np.int64)


def shape(horizon: int = HORIZON) -> Shape:
    return Shape.of("factorized", horizon)


def begun(keys: int = 1, *, horizon: int = HORIZON, scale: float = 100.0, since: int = 1) -> CorrelatedCounts:
    counts = CorrelatedCounts.begin(shape(horizon), scale, since)
    counts.extend(list(range(keys)), SetNoise(), backlog=False)
    return counts


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def exact_coefficient(exponent: Fraction, power: int) -> Fraction:
    """Coefficient of z^power in (1 - z)^-exponent, as a rising factorial over a factorial."""
    rising = math.prod((exponent + step for step in range(power)), start=Fraction(1))
    return rising / math.factorial(power)


def dense(horizon: int, size: int | None = None, exponent: Fraction | None = None) -> np.ndarray:
    """The matrix C in floats, from the coefficients that the module uses."""
    factorization = Factorization.of(horizon)
    size = size or horizon
    if exponent is None:
        coefficients = [coefficient / UNIT for coefficient in factorization.coefficients]
    else:
        coefficients = [float(exact_coefficient(exponent, power)) for power in range(horizon)]
    matrix = np.zeros((size, size))
    for lag, coefficient in enumerate(coefficients[:size]):
        matrix += np.diag(np.full(size - lag, coefficient), -lag)
    return matrix


def release_noise(matrix: np.ndarray) -> float:
    """Deviation of the noisiest single release, in that of independent noise for the same sensitivity."""
    return float(np.linalg.norm(np.linalg.inv(matrix), axis=1).max() * np.linalg.norm(matrix, axis=0).max())


def total_noise(matrix: np.ndarray) -> float:
    """Deviation of the sum of all releases, in that of one release with independent noise."""
    return float(np.linalg.norm(np.linalg.inv(matrix).sum(axis=0)) * np.linalg.norm(matrix, axis=0).max())


# the matrix


@pytest.mark.parametrize("horizon", [1, 2, 7, 24, 260])
def test_coefficients_are_binomials_rounded_down(horizon: int) -> None:
    """Parts of 4096, from exact fractions."""
    factorization = Factorization.of(horizon)
    expected = [math.floor(4096 * exact_coefficient(factorization.exponent, power)) for power in range(horizon)]
    assert list(factorization.coefficients) == expected
    assert expected[0] == UNIT == 4096


@pytest.mark.parametrize("horizon", [1, 2, 5, 24, 100, 260, pytest.param(400, marks=pytest.mark.slow)])
def test_the_exponent_is_the_largest_that_keeps_single_releases(horizon: int) -> None:
    """At most 1.3 times noisier than with independent noise; a hundredth more, up to a half, would be too much."""
    chosen = Factorization.of(horizon).exponent
    assert chosen in EXPONENTS
    assert release_noise(dense(horizon, exponent=chosen)) <= 1.3
    if chosen < Fraction(1, 2):
        assert release_noise(dense(horizon, exponent=chosen + Fraction(1, 100))) > 1.3
    assert max(EXPONENTS) == Fraction(1, 2)
    assert min(EXPONENTS) == 0


@pytest.mark.parametrize(("horizon", "most"), [(24, 2.3), (260, 3.7)])
def test_noise_of_the_running_sum(horizon: int, most: float) -> None:
    """4.9 and 16.1 with independent noise, 2.07 and 2.84 with the square root, which makes releases too noisy."""
    assert total_noise(dense(horizon)) <= most
    assert release_noise(dense(horizon)) <= 1.301


def test_a_long_horizon_is_banded() -> None:
    """The state holds the counts of 512 releases at most, and a series may last longer than its horizon."""
    long = Factorization.of(10_000)
    assert len(long.coefficients) == BAND == 512
    assert long == Factorization.of(BAND)
    assert release_noise(dense(24, 60)) <= 1.32
    assert total_noise(dense(24, 240)) < math.sqrt(240) / 2


@given(st.integers(1, 600))
@examples(20)
def test_the_sensitivity_is_rounded_up(horizon: int) -> None:
    """The least whole number that is not below the norm of a column."""
    factorization = Factorization.of(horizon)
    square = sum(coefficient * coefficient for coefficient in factorization.coefficients)
    assert (factorization.sensitivity - 1) ** 2 < square <= factorization.sensitivity**2


def test_mixed_coefficients() -> None:
    """By the distance of release numbers; none beyond the band."""
    factorization = Factorization.of(3)
    first, second, third = factorization.coefficients
    assert factorization.mixed(ints(2, 0, 1, 3, 900)).tolist() == [third, first, second, 0, 0]


# counts


def test_without_noise_counts_are_exact() -> None:
    """Of each release, and over all of them; for keys from their first release on."""
    counts = begun(2)
    source = SetNoise()
    assert counts.add(1, ints(5, 0), source).tolist() == [5, 0]
    counts.extend(["late"], source, backlog=False)
    assert counts.add(2, ints(1, 2, 9), source).tolist() == [1, 2, 9]
    assert counts.add(5, ints(0, 1, 4), source).tolist() == [0, 1, 4]
    assert counts.total.tolist() == [6, 3, 13]
    assert counts.draws.tolist() == [3, 3, 2]
    assert counts.keys == [0, 1, "late"]
    assert source.asked == [(100.0, 2), (100.0, 3), (100.0, 3)]
    counts.keep(np.asarray([True, False, True]))
    assert counts.keys == [0, "late"]
    assert counts.total.tolist() == [6, 13]
    assert counts.draws.tolist() == [3, 2]
    assert counts.add(6, ints(1, 1), source).tolist() == [1, 1]
    assert counts.total.tolist() == [7, 14]


def test_what_is_refused() -> None:
    """A number that was counted, and keys found in the data."""
    counts = begun(since=4)
    assert counts.last == 3
    with pytest.raises(InputError, match="release 3 was counted before"):
        counts.add(3, ints(1), SetNoise())
    counts.add(4, ints(1), SetNoise())
    assert counts.last == 4
    with pytest.raises(InputError, match="release 4 was counted before"):
        counts.add(4, ints(1), SetNoise())
    with pytest.raises(InputError, match="found in the data"):
        counts.extend(["x"], SetNoise(), backlog=True)


@pytest.mark.parametrize("numbers", [[1, 2, 3, 4, 5, 6], [2, 3, 6, 7, 12, 13], [1, 10, 11, 30]])
def test_noise_of_each_draw_in_each_count(numbers: list[int]) -> None:
    """Counts are C^-1 y with the rows and columns of the releases that were drawn, also beyond the band."""
    matrix = dense(HORIZON, 32)
    rows = np.asarray(numbers) - 1
    inverse = np.linalg.inv(matrix[np.ix_(rows, rows)])
    size = 10**7
    for drawn in range(len(numbers)):
        counts = begun()
        impulses = [[size * UNIT * (place == drawn)] for place in range(len(numbers))]
        source = SetNoise(*impulses)
        noisy = [int(counts.add(number, ints(7), source)[0]) - 7 for number in numbers]
        assert np.allclose(np.asarray(noisy) / size, inverse[:, drawn], atol=1e-6)
        assert int(counts.total[0]) - 7 * len(numbers) == pytest.approx(size * inverse[:, drawn].sum(), abs=2)


@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [3, 4, 8, 20, 21]])
def test_deviations_are_those_of_the_matrix(numbers: list[int]) -> None:
    """Of totals, of the last release, and of a total after one more; for keys of the beginning and later ones."""
    scale, matrix = 5000.0, dense(HORIZON, 32)
    counts = begun(1, scale=scale, since=numbers[0])
    for place, number in enumerate(numbers):
        if place == 1:
            counts.extend(["later", "as late"], SetNoise(), backlog=False)
        counts.add(number, np.zeros(len(counts.keys), dtype=np.int64), SetNoise())
    counts.extend(["never"], SetNoise(), backlog=False)
    for key, first in ((0, 0), (1, 1), (2, 1)):
        rows = np.asarray(numbers[first:]) - 1
        inverse = np.linalg.inv(matrix[np.ix_(rows, rows)])
        total = np.linalg.norm(inverse.sum(axis=0)) * scale / UNIT / math.sqrt(2)
        release = np.linalg.norm(inverse[-1]) * scale / UNIT / math.sqrt(2)
        assert counts.total_scale[key] == pytest.approx(total)
        assert counts.release_scale[key] == pytest.approx(release)
    assert counts.total_scale[3] == counts.release_scale[3] == 0.0
    rows = np.asarray([*numbers, numbers[-1] + 1]) - 1
    inverse = np.linalg.inv(matrix[np.ix_(rows, rows)])
    assert counts.next_scale == pytest.approx(np.linalg.norm(inverse.sum(axis=0)) * scale / UNIT / math.sqrt(2))


def test_deviations_of_a_series_that_has_not_begun() -> None:
    """None of a count; that of a single draw for the next one."""
    counts = begun(2, scale=5000.0, since=7)
    assert counts.total_scale.tolist() == counts.release_scale.tolist() == [0.0, 0.0]
    assert counts.next_scale == pytest.approx(5000 / UNIT / math.sqrt(2))


def test_counts_round_to_the_nearest() -> None:
    """Of a release, and of a total that adds parts up before they are rounded."""
    counts = begun(4, horizon=1)
    half = UNIT // 2
    source = SetNoise([half - 1, half, -half, -half - 1], [half - 1] * 4)
    assert counts.add(1, ints(5, 5, 5, 5), source).tolist() == [5, 6, 5, 4]
    assert counts.add(2, ints(0, 0, 0, 0), source).tolist() == [0, 0, 0, 0]
    assert counts.total.tolist() == [6, 6, 5, 5]


def test_the_section_of_the_manifest() -> None:
    """The way, the horizon and the noise; nothing that the counts decide."""
    counts = begun(1, horizon=1, scale=2.0 * UNIT, since=3)
    counts.add(3, ints(1), SetNoise())
    other = begun(1, horizon=1, scale=2.0 * UNIT, since=3)
    other.add(3, ints(99), SetNoise([12345]))
    assert counts.section() == other.section()
    counts.add(4, ints(1), SetNoise())
    section = counts.section()
    deviations = section["noise"]
    assert deviations.pop("release") == pytest.approx(2.0)
    assert deviations.pop("total") == pytest.approx(2.0 * math.sqrt(2))
    assert section == {
        "how": "factorized",
        "since": 3,
        "horizon": 1,
        "exponent": 0.5,
        "noise": {"kind": "discrete gaussian"},
    }


def test_the_section_states_the_noise_of_the_last_release_alone() -> None:
    """After three releases, by the inverse of the matrix: the last row of C^-1, not the sum of several."""
    counts = begun(1, scale=2.0 * UNIT)
    for number in (1, 2, 3):
        counts.add(number, ints(1), SetNoise())
    inverse = np.linalg.inv(dense(HORIZON, 3))
    deviations = counts.section()["noise"]
    assert deviations["release"] == pytest.approx(2.0 * np.linalg.norm(inverse[-1]))
    assert deviations["total"] == pytest.approx(2.0 * np.linalg.norm(inverse.sum(axis=0)))


@pytest.mark.parametrize(("coefficients", "sensitivity"), [((4, 1), 5), ((3, 4), 5), ((4, 3, 1), 6), ((1,), 1)])
def test_the_sensitivity_is_the_least_whole_number_that_is_no_smaller(
    coefficients: tuple[int, ...], sensitivity: int
) -> None:
    """Of a root that is a whole number that one (25), and of the squares after it (17, 26) the next."""
    assert Factorization(Fraction(1, 2), coefficients).sensitivity == sensitivity


def test_a_series_begins_with_release_1_unless_stated() -> None:
    """The state and the manifest have that number."""
    counts = CorrelatedCounts.begin(shape(), 100.0)
    assert counts.last == 0
    with pytest.raises(InputError, match="release 0 was counted before"):
        counts.add(0, ints(), SetNoise())
    counts.add(1, ints(), SetNoise())
    assert counts.section()["since"] == 1


# state


def test_a_series_goes_on_from_its_state_alone() -> None:
    """JSON and back at every release: the same counts and noise, beyond the band too. The state does not grow."""
    rng = np.random.default_rng(4)
    numbers = [1, 2, 3, 5, 6, 9, 10, 11, 12, 20, 21, 40, 41]
    straight, resumed = begun(3), begun(3)
    for number in numbers:
        true, drawn = rng.integers(0, 50, 3), rng.integers(-5000, 5000, 3)
        expected = straight.add(number, true, SetNoise(drawn))
        state = json.loads(json.dumps(resumed.to_state()))
        again = CorrelatedCounts.from_state(state, list(resumed.keys), shape(), 100.0)
        assert again is not None
        resumed = again
        assert resumed.add(number, true, SetNoise(drawn)).tolist() == expected.tolist()
        assert resumed.total.tolist() == straight.total.tolist()
        assert resumed.total_scale.tolist() == straight.total_scale.tolist()
        held = [drawn_number for drawn_number in resumed.numbers if number + 1 - drawn_number < HORIZON]
        assert len(resumed.true) == len(resumed.noisy) == len(held)
    assert resumed.since == straight.since == 1
    assert resumed.numbers == numbers


def test_a_state_of_something_else_begins_again() -> None:
    """Other coefficients, other noise, or sums of independent noise; and the other way round."""
    counts = begun(1)
    counts.add(1, ints(3), SetNoise())
    state = counts.to_state()
    assert CorrelatedCounts.from_state(state, [0], shape(), 100.0) is not None
    assert CorrelatedCounts.from_state(state, [0], shape(), 101.0) is None
    assert CorrelatedCounts.from_state(state, [0], shape(HORIZON + 1), 100.0) is None
    assert CorrelatedCounts.from_state(state | {"unit": 1}, [0], shape(), 100.0) is None
    assert CorrelatedCounts.from_state(state | {"exponent": 0.1}, [0], shape(), 100.0) is None
    summed = Counts.begin(Shape(), 100.0)
    assert CorrelatedCounts.from_state(summed.to_state(), [], shape(), 100.0) is None
    assert Counts.from_state(state, [0], Shape(), 100.0) is None


def test_a_longer_horizon_of_the_same_band_goes_on() -> None:
    """Beyond the band the horizon decides nothing."""
    counts = begun(1, horizon=BAND)
    counts.add(1, ints(3), SetNoise())
    assert CorrelatedCounts.from_state(counts.to_state(), [0], shape(2 * BAND), 100.0) is not None


def test_a_factorization_needs_a_horizon() -> None:
    """The shape asks for it, and one that is made without has none."""
    with pytest.raises(InputError, match="declare horizon"):
        Shape.of("factorized", None)
    with pytest.raises(InputError, match="declare horizon"):
        _ = CorrelatedCounts.begin(Shape(factorized=True), 1.0).factorization
    assert Shape.of("factorized", 5) == Shape(horizon=5, factorized=True)
    assert [Shape.of(how, 300).how for how in ("sum", "tree", "factorized")] == ["sum", "tree", "factorized"]  # type: ignore[arg-type]


# what a person moves


def moved(windows: list[tuple[int, int]], burned: set[int], *, last: int, dropped: int | None = None) -> float:
    """How much one person moves all draws that somebody may have seen, in L2 and in parts of `UNIT`.

    Parameters
    ----------
    windows
        Number of a release, and the key of a case in it.
    burned
        Numbers that were drawn, may have been seen, and were never sealed: the series continues from the state before.
    dropped
        Number before which key 1 is given up.
    """
    counts, square = begun(2), 0
    for number in range(1, last + 1):
        if number == dropped:
            counts.keep(np.asarray([True, False]))
        true = np.zeros(len(counts.keys), dtype=np.int64)
        for window, key in windows:
            if window == number and key < len(true):
                true[key] += 1
        # Without the person every count is 0, so the exact query is what the person moves.
        square += int((counts.query(number, true) ** 2).sum())
        if number not in burned:
            counts.add(number, true, SetNoise())
    return math.sqrt(square)


WINDOWS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 1)), min_size=1, max_size=4)


@given(WINDOWS, st.sets(st.integers(1, 24)), st.one_of(st.none(), st.integers(2, 20)))
@examples(200)
def test_no_person_moves_the_draws_further(
    windows: list[tuple[int, int]], burned: set[int], dropped: int | None
) -> None:
    """Cases in one window or several, of one key or two, with burned numbers and keys that are given up."""
    sensitivity = Factorization.of(HORIZON).sensitivity
    assert moved(windows, burned, last=24, dropped=dropped) <= len(windows) * sensitivity


def test_the_bound_is_reached() -> None:
    """By a person whose cases are all in one window; fewer releases, or several windows, move less."""
    sensitivity = Factorization.of(HORIZON).sensitivity
    assert sensitivity - 1 < moved([(3, 0)], set(), last=10) <= sensitivity
    assert 3 * (sensitivity - 1) < moved([(3, 0)] * 3, set(), last=10)
    assert moved([(3, 0)], set(), last=9) < sensitivity - 1
    assert moved([(3, 0), (4, 0)], set(), last=24) < 1.95 * sensitivity


def test_noise_drawn_again_after_a_crash_is_caught() -> None:
    """Planted bug: a number that may have been seen is drawn again. A person of an earlier release then moves two draws
    of the same row, which is more than the noise was made for."""
    counts, square = begun(1), 0
    for number in range(1, 13):
        true = ints(int(number == 1))
        times_drawn = 2 if number == 2 else 1
        square += times_drawn * int(counts.query(number, true)[0]) ** 2
        counts.add(number, true, SetNoise())
    assert math.sqrt(square) > 1.02 * Factorization.of(HORIZON).sensitivity


def test_rows_by_position_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: rows counted by position among sealed releases, so that the row of a burned number comes again."""
    burned = {2, 3, 4, 5}
    assert moved([(1, 0)], burned, last=24) <= Factorization.of(HORIZON).sensitivity

    def by_position(counts: CorrelatedCounts, number: int) -> np.ndarray:
        return counts.factorization.mixed(np.arange(len(counts.true), 0, -1))

    monkeypatch.setattr(CorrelatedCounts, "_mixed", by_position)
    assert moved([(1, 0)], burned, last=24) > 1.1 * Factorization.of(HORIZON).sensitivity


# attackers

EPSILON, DELTA = Fraction(1), Fraction(1, 100)
RELEASES = 6


def series_of(
    person: dict[int, int], source: noise.NoiseSource, scale: float, runs: int, redraw: int | None = None
) -> np.ndarray:
    """Released counts of one key in `runs` independent series, int64[releases, runs].

    Parameters
    ----------
    person
        Cases of the person in each release; the others have 40 in each.
    redraw
        Planted bug: this release is drawn a second time, with other noise, and both are seen.
    """
    counts = CorrelatedCounts.begin(shape(RELEASES), scale)
    counts.extend(list(range(runs)), source, backlog=False)
    rows = []
    for number in range(1, RELEASES + 1):
        true = np.full(runs, 40 + person.get(number, 0), dtype=np.int64)
        if number == redraw:
            before = CorrelatedCounts.from_state(counts.to_state(), list(counts.keys), shape(RELEASES), scale)
            assert before is not None
            rows.append(before.add(number, true, source))
        rows.append(counts.add(number, true, source))
    return np.asarray(rows)


def best_statistic(rows: np.ndarray, person: dict[int, int], redraw: int | None = None) -> np.ndarray:
    """The likelihood ratio of an attacker who knows the factorization, the person's windows, and everybody else."""
    matrix = dense(RELEASES)
    direction = matrix @ [person.get(number, 0) for number in range(1, RELEASES + 1)]
    if redraw is None:
        return direction @ matrix @ (rows - 40)
    first = np.delete(rows, redraw, axis=0) - 40
    again = np.delete(rows, redraw - 1, axis=0) - 40
    second_row = matrix[redraw - 1] @ again
    return direction @ matrix @ first + direction[redraw - 1] * second_row


def finding(
    person: dict[int, int], scale: float, statistic: Callable[[np.ndarray], np.ndarray], redraw: int | None = None
) -> audit.Finding:
    """Audit a series with the person against one without."""
    source = noise.simulated(11)
    spread = float(np.std(statistic(series_of({}, source, scale, 2000, redraw))))

    def many(present: dict[int, int]) -> Callable[[int], Counter[Hashable]]:
        def counted(runs: int) -> Counter[Hashable]:
            values = statistic(series_of(present, source, scale, runs, redraw)) / spread
            seen: Counter[Hashable] = Counter()
            for step in range(-8, 17):
                seen["at least", step / 4] = int((values >= step / 4).sum())
                seen["below", step / 4] = int((values < step / 4).sum())
            return +seen

        return counted

    pair = audit.NeighbourPair("series", lambda: (), lambda: (), many_one=many({}), many_other=many(person))
    return audit.audit(pair, 60_000, delta=float(DELTA), alpha=1e-3)


def fair_scale(cases: int) -> float:
    moves = Factorization.of(RELEASES).sensitivity * cases
    return scale_at(gaussian_part(EPSILON, DELTA, []), moves)


PERSONS = [{1: 1}, {2: 1, 5: 1}, {1: 1, 2: 1}, {3: 2}]


@pytest.mark.parametrize(
    "person", [*(pytest.param(person, marks=pytest.mark.slow) for person in PERSONS[:2]), *PERSONS[2:]], ids=str
)
def test_an_attacker_with_all_releases_and_the_factorization(person: dict[int, int]) -> None:
    """The best attacker on a person of one window or two stays below epsilon. With noise for half of the person's
    cases the claim is refuted, so the audit would see it."""
    cases = sum(person.values())

    def statistic(rows: np.ndarray) -> np.ndarray:
        return best_statistic(rows, person)

    assert not finding(person, fair_scale(cases), statistic).refutes(1.0)
    assert finding(person, fair_scale(cases) / 2, statistic).refutes(1.0)


def test_an_attacker_who_differences_two_releases() -> None:
    """Noise of neighbouring releases is correlated, so a difference may show a case better than a release does: still
    below epsilon."""
    person = {2: 1, 3: -1}  # not a person, but what a difference sees twice as well

    def difference(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows[2] - rows[1], dtype=np.float64)

    assert not finding({3: 1}, fair_scale(1), difference).refutes(1.0)
    assert not finding(person, fair_scale(2), difference).refutes(1.0)


@pytest.mark.parametrize("redraw", [None, 2])
def test_the_audit_sees_noise_that_is_drawn_again(redraw: int | None) -> None:
    """Planted bug: after a crash the row of a release that may have been seen is drawn again, with other noise."""
    person = {2: 1}

    def statistic(rows: np.ndarray) -> np.ndarray:
        return best_statistic(rows, person, redraw)

    assert finding(person, fair_scale(1), statistic, redraw).refutes(1.0) == (redraw is not None)
