"""The solvers of dp-synthetic: when they end, what a step may change, and what they make least. They read noisy counts
alone, so this is of time and of utility, not of privacy."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csr_array

from models.dp.synthesis import fitting, flows, spreading
from models.dp.synthesis.contexts import UNIT, ContextLevel, step_weights
from models.dp.synthesis.fitting import Cells, fit, fitted, follows
from models.dp.synthesis.spreading import Spread
from tests.unit.known_noise import NoisePerKey


class SolverCalls:
    """A solver that notes what it is asked and gives the start back."""

    def __init__(self) -> None:
        self.options: dict[str, float] = {}
        self.dual: Callable[[Any], tuple[float, Any]] = lambda _: (0.0, None)

    def __call__(self, dual: Any, start: np.ndarray, **how: Any) -> SimpleNamespace:
        self.dual, self.options = dual, how["options"]
        return SimpleNamespace(x=start)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> SolverCalls:
    found = SolverCalls()
    monkeypatch.setattr(scipy.optimize, "minimize", found)
    return found


@pytest.mark.parametrize(("labels", "steps"), [(3, 1_000), (1_000, 1_000), (1_001, 998), (2_000, 250)])
def test_steps_of_a_circulation_are_bounded_by_its_cells(labels: int, steps: int, asked: SolverCalls) -> None:
    """A thousand, and at most 10^9 cells in all of them; each step may look at the sum twice."""
    flows.circulation(np.ones((labels, labels)))
    assert (asked.options["maxiter"], asked.options["maxfun"]) == (steps, 2 * steps)


def test_ten_steps_at_least(asked: SolverCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cells there are."""
    for work, steps in ((11 * 9 + 8, 11), (10 * 9, 10), (9 * 9, 10), (1, 10)):
        monkeypatch.setattr(flows, "MOST_WORK", work)
        flows.circulation(np.ones((3, 3)))
        assert asked.options["maxiter"] == steps


def test_the_gradient_is_that_of_the_sum(asked: SolverCalls) -> None:
    """By differences of the sum in each unknown."""
    flows.circulation(np.random.default_rng(3).normal(0, 9, (4, 4)))
    at = np.asarray([0.1, -0.2, 0.05, 0.3])
    slope = asked.dual(at)[1]
    for place in range(4):
        step = np.eye(4)[place] * 1e-6
        assert slope[place] == pytest.approx((asked.dual(at + step)[0] - asked.dual(at - step)[0]) / 2e-6, abs=1e-6)


def test_a_circulation_that_fits_nearly_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inflow and outflow differ by less than a part of 10^9: the fit continues no further."""
    taken = []
    solve = scipy.optimize.minimize

    def noted(*given: Any, **how: Any) -> Any:
        found = solve(*given, **how)
        taken.append(found.nit)
        return found

    monkeypatch.setattr(scipy.optimize, "minimize", noted)
    for off in (1e-10, 1e-6):
        cells = np.asarray([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0 + off, 0.0, 0.0]])
        flows.circulation(cells)
    assert taken[0] == 0 < taken[1]


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every sum that a fit computes."""
    found: list[float] = []
    compute = fitting._sum

    def noted(*given: Any) -> float:
        found.append(compute(*given))
        return found[-1]

    monkeypatch.setattr(fitting, "_sum", noted)
    return found


def _cell(weights: list[float], noisy: float, deviation: float = 1.0) -> Cells:
    return Cells(csr_array(np.asarray([weights])), np.asarray([noisy]), np.asarray([deviation]))


def test_a_fit_ends_where_ten_steps_lessen_nothing(sums: list[float]) -> None:
    """A prior that is met costs the first sum and those of ten steps."""
    prior = np.asarray([3.0, 1.0])
    assert fitted(prior, [_cell([1.0, 1.0], 4.0)]) == pytest.approx(prior)
    assert len(sums) == 1 + 10


def test_a_fit_ends_where_ten_steps_lessen_little(sums: list[float]) -> None:
    """Two cells that contradict each other leave a sum above 0: it is reached long before the last step."""
    found = fitted(np.asarray([9.0]), [_cell([1.0], 10.0), _cell([1.0], 30.0)])
    assert found[0] == pytest.approx(20, abs=0.5)
    assert len(sums) < 100
    assert sums[-1] > 50


def test_a_sum_below_one_is_made_less() -> None:
    """A part of it ends the fit, not a whole number."""
    assert fitted(np.asarray([9.0]), [_cell([1.0], 10.0)]) == pytest.approx([9.99], abs=0.02)


def test_a_fit_takes_two_hundred_steps_at_most(sums: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit never tests whether it gains."""
    monkeypatch.setattr(fitting, "LOOK", 10**9)
    fitted(np.asarray([3.0]), [_cell([1.0], 3.0)])
    assert len(sums) == 1 + 200


def test_a_step_changes_cases_by_a_bounded_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """By e^3, up and down."""
    monkeypatch.setattr(fitting, "STEPS", 1)
    e3 = 20.085536923187668
    assert fitted(np.asarray([1.0]), [_cell([1.0], 1e6)]) == pytest.approx([e3])
    assert fitted(np.asarray([1e6]), [_cell([1.0], 1.0)]) == pytest.approx([1e6 / e3])


def test_what_one_case_of_relative_entropy_weighs() -> None:
    """A tenth: where the slope of the squares is that of the entropy against it."""
    (found,) = fitted(np.asarray([4.0]), [_cell([1.0], 40.0, 2.0)])
    assert (found - 40) / 4 + 0.1 * np.log(found / 4) == pytest.approx(0, abs=1e-3)
    (found,) = fitted(np.asarray([4.0]), [_cell([1.0], 40.0, 2.0)], 2.0)
    assert (found - 40) / 4 + 2.0 * np.log(found / 4) == pytest.approx(0, abs=1e-3)


def test_the_sum_is_that_of_squares_and_entropy() -> None:
    """Half a square of each cell in deviations; a tenth of the relative entropy, which is 0 at the prior."""
    cases, prior, cell = np.asarray([2.0, 5.0]), np.asarray([1.0, 10.0]), _cell([1.0, 2.0], 6.0, 3.0)
    entropy = 2 * np.log(2) - 2 + 1 + 5 * np.log(0.5) - 5 + 10
    found = fitting._sum(prior, cases, np.log(cases / prior), cell.misfit(cases), 0.1)
    assert found == pytest.approx(0.1 * entropy + 2**2 / 2)
    assert fitting._sum(prior, prior, np.zeros(2), np.zeros(0), 0.1) == 0


def test_fitted_traces_leave_as_whole_numbers() -> None:
    """Without cells the prior's own; a spread with other cases than traces is a fault."""
    near = Spread(((0, 1), (2,)), np.arange(2), np.asarray([4.0, 3.0]))
    assert fit(near, [], NoisePerKey()) == [((0, 1), 4), ((2,), 3)]
    with pytest.raises(ValueError, match="shorter"):
        near.whole_cases(np.asarray([4.0]), NoisePerKey())


def test_a_frequent_case_without_events_is_counted_in_the_first_level() -> None:
    """It begins and ends at once, also where one label is declared."""
    near = Spread(((0,), ()), np.arange(2), np.ones(2))
    cells = follows(
        near, ContextLevel(np.arange(2), np.zeros((2, 2), dtype=np.int64), np.ones(2) * UNIT), 4, step_weights, {(): 10}
    )
    assert cells.of.toarray().tolist() == [[1, 0], [1, 0], [0, 1]]
    assert cells.noisy.tolist() == [0, 0, 10], "the end after 0, 0 after the start, the end after the start"


def test_two_thousand_drawn_traces_are_compared() -> None:
    """Of more; and they are those that a random order puts first, not those that were drawn first."""

    class Backwards(NoisePerKey):
        def permutation(self, size: int) -> np.ndarray:
            return np.arange(size, dtype=np.int64)[::-1]

    drawn = {(0, *map(int, f"{number:04}")): 1 for number in range(2_500)}
    near = Spread.of([((0,), 10**6)], [(0,)], drawn, Backwards())
    assert set(near.traces) == set(list(drawn)[500:])
    assert len(near.traces) == 2_000 == spreading.POOL
