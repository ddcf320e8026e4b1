"""Cases of released traces: spread over drawn traces, fitted to all noisy cells, and made whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from models.dp.synthesis import fitting, spreading
from models.dp.synthesis.contexts import UNIT, ContextLevel, root_weights, step_weights
from models.dp.synthesis.fitting import Cells, fit, fitted, follows, nearby
from models.dp.synthesis.spreading import Spread
from models.dp.synthetic import Design
from tests.unit.known_noise import NoisePerKey

AB, C, BBB = (0, 1), (2,), (1, 1, 1)


NONE = np.zeros(0)


def by_trace(near: Spread) -> dict[tuple[int, ...], tuple[int, float]]:
    """Cell and cases of each trace."""
    found = dict(zip(near.traces, zip(near.cell.tolist(), near.cases.tolist(), strict=True), strict=True))
    assert len(found) == len(near.traces)
    return found


def test_a_cell_is_divided_by_how_often_each_near_trace_was_drawn() -> None:
    """Nine draws are near AB, five of them are AB itself; a cell that the model gave nothing for keeps all."""
    drawn = {(0, 1, 0): 3, (0, 1, 1): 1, (2, 2): 4, (): 9, AB: 5}
    near = Spread.of([(AB, 900), (C, 6), (BBB, 5)], [AB, C, BBB], drawn, NoisePerKey())
    assert by_trace(near) == {
        AB: (0, 500.0), (0, 1, 0): (0, 300.0), (0, 1, 1): (0, 100.0),
        (2, 2): (1, 6.0),
        BBB: (2, 5.0),
    }  # fmt: skip
    assert near.cell.tolist() == sorted(near.cell.tolist())


def test_a_candidate_that_the_model_did_not_give_keeps_half_at_least() -> None:
    """C was never drawn, BBB once in four times, AB in three of four."""
    drawn = {(0, 1, 0): 1, AB: 3, (2, 2): 4, (1, 1, 1, 1): 3, BBB: 1}
    listed = [AB, C, BBB]
    near = Spread.of([(AB, 8), (C, 6), (BBB, 8)], listed, drawn, NoisePerKey(), keep_half=listed)
    assert by_trace(near) == {
        AB: (0, 6.0), (0, 1, 0): (0, 2.0), C: (1, 3.0), (2, 2): (1, 3.0), BBB: (2, 4.0), (1, 1, 1, 1): (2, 4.0)
    }  # fmt: skip


def test_a_frequent_variant_keeps_its_own_count() -> None:
    """As far as its cell has so many; where that is all, nothing is spread. It need not be among the draws."""
    drawn = {(0, 1, 0): 1, (2, 2): 1, (1, 1, 1, 1): 1, BBB: 1}
    near = Spread.of([(AB, 100), (C, 10), (BBB, 9)], [AB, C, BBB], drawn, NoisePerKey(), {AB: 70, C: 30})
    assert by_trace(near) == {
        AB: (0, 70.0), (0, 1, 0): (0, 30.0), C: (1, 10.0), BBB: (2, 4.5), (1, 1, 1, 1): (2, 4.5)
    }  # fmt: skip


def test_cells_that_were_dropped_have_no_trace() -> None:
    """A drawn trace that is nearest to one of them is not released; without cells nothing is."""
    near = Spread.of([(C, 6)], [AB, C], {(0, 1, 1): 5, (2, 2): 1, C: 1}, NoisePerKey())
    assert by_trace(near) == {C: (1, 3.0), (2, 2): (1, 3.0)}
    empty = Spread.of([], [AB], {(0, 1, 1): 5}, NoisePerKey())
    assert (empty.traces, len(empty.cell), len(empty.cases)) == ((), 0, 0)
    assert fit(empty, [], NoisePerKey()) == []
    assert by_trace(Spread.of([(AB, 3)], [AB], {}, NoisePerKey())) == {AB: (0, 3.0)}


def test_a_part_of_the_drawn_traces_is_compared() -> None:
    """As many as the pool has, each as likely: of ten traces that were drawn once, three."""
    drawn = {(0, 1, last): 1 for last in range(10)}
    near = Spread.of([(AB, 400)], [AB], drawn, NoisePerKey(), pool=3)
    assert len(near.traces) == 3
    assert set(near.traces) <= set(drawn)
    assert near.cases.sum() == pytest.approx(400)


class Uniform(NoisePerKey):
    """One number between 0 and 1."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        super().__init__()
        object.__setattr__(self, "value", value)

    def words(self, size: int) -> np.ndarray:
        return np.full(size, int(self.value * 2**53) << 11, dtype=np.uint64)


def test_whole_numbers_keep_their_sums() -> None:
    """Of every run of traces to within one; and on average over the draws each is what it was."""
    cases = np.asarray([0.3, 2.5, 0.1, 0.1, 7.0, 0.75])
    near = Spread(tuple((place,) for place in range(6)), np.zeros(6, dtype=np.int64), cases)
    total = np.zeros(6)
    for step in range(1000):
        found = dict(near.whole_cases(cases, Uniform((step + 0.5) / 1000)))
        assert all(count > 0 for count in found.values())
        whole = np.asarray([found.get((place,), 0) for place in range(6)])
        for first in range(6):
            for last in range(first, 6):
                assert abs(whole[first : last + 1].sum() - cases[first : last + 1].sum()) < 1
        total += whole
    assert total / 1000 == pytest.approx(cases, abs=0.002)


def test_cells_of_the_weights_by_hand() -> None:
    """A case of each trace adds to its own candidate's cell."""
    near = Spread((AB, (0, 1, 1), C), np.asarray([0, 0, 2]), np.asarray([4.0, 4.0, 3.0]))
    cells = nearby(near, np.asarray([9, 0, 2]), np.asarray([2.0, 2.0, 4.0]))
    assert cells.of.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert cells.misfit(near.cases) == pytest.approx([-1 / 8**0.5, 0, 1 / 32**0.5])


def test_cells_of_the_first_level_by_hand() -> None:
    """A case adds B over the norm of its steps to each; frequent variants add their noisy counts to what the model saw;
    a trace with a label that the model does not know adds nothing."""
    near = Spread(((0,), (0, 0, 1), (2,)), np.arange(3), np.ones(3))
    noisy = np.asarray([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) * UNIT
    cells = follows(
        near, ContextLevel(np.arange(3), noisy, np.asarray([1.0, 2.0, 3.0]) * UNIT), 1, step_weights, {(1,): 10}
    )
    two = int(UNIT / 2**0.5) / UNIT  # two steps, each once; four of them weigh a half each
    assert cells.of.toarray().tolist() == [[0, 0.5, 0], [0, 0.5, 0], [two, 0, 0], [0, 0.5, 0], [two, 0.5, 0]]
    expected = [1, 2, 3, 6 + 10 * two, 7]
    assert cells.noisy == pytest.approx(expected), "of 0 after 0, 1 after 0, the end after 0 and 1, 0 after the start"
    assert cells.deviation == pytest.approx(np.asarray([1, 1, 1, 2, 3]) * 2**0.5)
    without = follows(near, ContextLevel(np.arange(3), noisy, np.ones(3)), 2, step_weights)
    assert without.noisy.tolist() == [1, 2, 3, 6, 7]


def test_a_label_beyond_the_model_changes_no_other_trace() -> None:
    """Steps are numbered variant by variant, nine numbers each for two labels. The step from 0 to 11 would have
    the number of the next variant's end after 0, which would then count as repeated."""
    level = ContextLevel(np.arange(3), np.zeros((3, 3), dtype=np.int64), np.ones(3))
    alone = follows(Spread(((0,),), np.arange(1), np.ones(1)), level, 1, root_weights)
    beside = follows(Spread(((0, 11), (0,)), np.arange(2), np.ones(2)), level, 1, root_weights)
    assert beside.of.toarray().tolist() == [[0, *row] for row in alone.of.toarray().tolist()]


def test_cells_of_a_longer_context_by_hand() -> None:
    """Of two opened contexts, (0, 0) and (start, 0): a first step has none, and a context that is not open no cell."""
    near = Spread(((0,), (0, 0, 1), (2,)), np.arange(3), np.ones(3))
    noisy = np.asarray([[1, 2, 3], [4, 5, 6]]) * UNIT
    level = ContextLevel(np.asarray([0, 6]), noisy, np.asarray([1.0, 2.0]) * UNIT)
    cells = follows(near, level, 1, step_weights, {(0,): 10}, order=2)
    two = int(UNIT / 2**0.5) / UNIT  # the weight of a step is that of the first level: two steps, each once
    assert cells.of.toarray().tolist() == [[0, 0.5, 0], [0, 0.5, 0], [two, 0, 0]]
    assert cells.noisy == pytest.approx([2, 4, 6 + 10 * two]), "1 after (0, 0), 0 and the end after (start, 0)"
    assert cells.deviation == pytest.approx(np.asarray([1, 2, 2]) * 2**0.5)


def test_without_cells_the_prior_is_fitted() -> None:
    """And one cell alone is met up to what the prior weighs."""
    prior = np.asarray([3.0, 1.0])
    assert fitted(prior, []) == pytest.approx(prior)
    cell = Cells(csr_array(np.ones((1, 2))), np.asarray([40.0]), np.asarray([2.0]))
    found = fitted(prior, [cell])
    assert found[0] / found[1] == pytest.approx(3.0)
    total = float(found.sum())
    assert (total - 40) / 4 + fitting.FAITH * np.log(total / 4) == pytest.approx(0, abs=1e-3)


def test_the_fit_has_the_least_sum() -> None:
    """Of squares in standard deviations and of the relative entropy, as another solver finds it."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        prior = rng.uniform(1, 20, 6)
        parts = [
            Cells(csr_array(rng.integers(0, 3, (4, 6)).astype(float)), rng.uniform(0, 60, 4), rng.uniform(1, 5, 4))
            for _ in range(2)
        ]

        def loss(logs: np.ndarray, prior: np.ndarray = prior, parts: list[Cells] = parts) -> float:
            cases = np.exp(logs)
            entropy = (cases * (logs - np.log(prior)) - cases + prior).sum()
            squares = sum((((part.of.toarray() @ cases - part.noisy) / part.deviation) ** 2).sum() for part in parts)
            return float(fitting.FAITH * entropy + squares / 2)

        found = fitted(prior, parts)
        assert found.min() > 0
        least = minimize(loss, np.log(prior), method="BFGS", options={"maxiter": 5000}).fun
        assert loss(np.log(found)) <= least * 1.02 + 1e-6


def test_rare_traces_are_compared_if_few_draws_repeat_one() -> None:
    """Seven of ten draws that repeat a trace are enough for the small pool; a model that gave nothing has it too."""
    drawn = {AB: 5, C: 2, BBB: 1, (0,): 1, (1,): 1}
    assert spreading.pool_size(drawn) == spreading.POOL
    assert spreading.pool_size(drawn | {(2, 2): 1}) == spreading.LARGE_POOL
    assert spreading.pool_size({}) == spreading.POOL


def test_a_pool_has_five_million_distances_at_most() -> None:
    """With the usual number of candidates. Few of them have the whole pool, and very many the small one."""
    no_repeats = {(number,): 1 for number in range(3)}
    pool = spreading.pool_size(no_repeats)
    assert spreading.affordable_pool(pool, Design().candidates) * Design().candidates == 5_000_000
    assert spreading.affordable_pool(pool, 200) == pool
    assert spreading.affordable_pool(pool, 50_000) == spreading.POOL
    assert spreading.affordable_pool(pool, 0) == pool
    assert spreading.affordable_pool(20_000_000, 1) == 5_000_000


def test_draws_divide_the_cases_of_the_model() -> None:
    """Each trace has its part of the draws; draws without a label have none, and alone they give no trace."""
    near = Spread.like_drawn({AB: 6, C: 3, BBB: 1, (): 5}, 40.0, NoisePerKey())
    assert by_trace(near) == {AB: (0, 24.0), C: (0, 12.0), BBB: (0, 4.0)}
    assert Spread.like_drawn({(): 5}, 40.0, NoisePerKey()).traces == ()


def test_a_large_pool_has_all_drawn_traces() -> None:
    """Of 2,500 draws of as many traces near one candidate; the usual pool has 2,000."""
    drawn = {(0, *map(int, f"{number:04}")): 1 for number in range(2_500)}
    listed = [((0,), 10**6)]
    assert len(Spread.of(listed, [(0,)], drawn, NoisePerKey(), pool=20_000).traces) == 2_500
    assert len(Spread.like_drawn(drawn, 100.0, NoisePerKey(), 20_000).traces) == 2_500
    assert len(Spread.like_drawn(drawn, 100.0, NoisePerKey()).traces) == 2_000
