"""Cells that fit each other: what the solution of the least squares must satisfy, and what it is good for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from models.dp.synthesis.contexts import ContextLevel
from models.dp.synthesis.flows import balanced, circulation, thinned, thinned_by_labels


def cycles(size: int) -> list[np.ndarray]:
    """Every simple cycle of a complete graph with loops: all circulations are sums of them with weights >= 0."""
    found = []
    for length in range(1, size + 1):
        for nodes in itertools.permutations(range(size), length):
            if nodes[0] == min(nodes):
                cells = np.zeros((size, size))
                for a, b in zip(nodes, (*nodes[1:], nodes[0]), strict=True):
                    cells[a, b] = 1.0
                found.append(cells)
    return found


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_it_is_the_nearest_of_all_that_fit(size: int) -> None:
    """Nothing negative, rows add up to columns; of the cone of circulations it is the nearest: what is left is
    orthogonal to it, and no cycle would come nearer."""
    for seed in range(6):
        wanted = np.random.default_rng(seed).normal(0, 1000, (size, size))
        found = circulation(wanted)
        assert found.min() >= 0
        assert found.sum(axis=0) == pytest.approx(found.sum(axis=1), abs=1e-3)
        left = found - wanted
        assert float((left * found).sum()) == pytest.approx(0, abs=1e-3 * float(np.abs(wanted).sum()))
        for cycle in cycles(size):
            assert float((left * cycle).sum()) >= -1e-3


def test_what_fits_stays() -> None:
    """A circulation is its own nearest one; of what has no cycle nothing is left."""
    fits = 3.0 * cycles(3)[-1] + 5.0 * cycles(3)[0]
    assert circulation(fits) == pytest.approx(fits)
    assert circulation(np.zeros((3, 3))).tolist() == [[0.0] * 3] * 3
    assert circulation(np.full((2, 2), -7.0)).tolist() == [[0.0] * 2] * 2
    dangling = np.full((3, 3), -9.0)
    dangling[1, 0] = 4.0
    assert circulation(dangling) == pytest.approx(np.zeros((3, 3)), abs=1e-6)


def test_every_cell_pays_its_price() -> None:
    """In scales of its own noise; whole numbers come back, and no noise is left to be above."""
    cells = np.asarray([[0, 0, 90], [90, 7, 0], [0, 90, 0]])
    level = ContextLevel(np.arange(3), cells, np.asarray([4.0, 4.0, 4.0]))
    assert balanced(level, 1.5).cells.tolist() == [[0, 0, 84], [84, 1, 0], [0, 84, 0]]
    assert balanced(level, 2.0).cells.tolist() == [[0, 0, 82], [82, 0, 0], [0, 82, 0]]
    rows = balanced(ContextLevel(np.arange(3), cells, np.asarray([2.0, 4.0, 6.0])), 1.5)
    assert rows.cells.tolist() == [[0, 0, 84], [84, 1, 0], [0, 84, 0]], "the cycle pays 3 + 6 + 9"
    assert rows.scale.tolist() == [0.0] * 3
    assert rows.cells.dtype == np.int64
    assert rows.contexts.tolist() == [0, 1, 2]


def test_the_price_goes_by_the_number_of_labels() -> None:
    """Half the logarithm of the number of rows: the more cells, the more of them noise alone fills."""
    for rows in (1, 2, 9, 50):
        level = ContextLevel(np.arange(rows), np.diag(np.full(rows, 1000)), np.full(rows, 100.0))
        assert np.diag(balanced(level).cells).tolist() == [round(1000 - 50 * math.log(rows))] * rows


def test_of_gaussian_noise_the_price_is_in_deviations() -> None:
    """The scale of a level is that of Laplace noise, whose deviation is a factor of the root of 2 more."""
    for rows in (1, 2, 9, 50):
        level = ContextLevel(np.arange(rows), np.diag(np.full(rows, 10_000)), np.full(rows, 100.0))
        deviation = 100 * math.sqrt(2)
        assert np.diag(thinned(level).cells).tolist() == [round(10_000 - deviation * math.log(rows) / 2)] * rows
        doubled = [round(10_000 - deviation * math.log(rows))] * rows
        assert np.diag(thinned(level, 2.0).cells).tolist() == doubled


def test_a_cell_of_frequent_labels_pays_less() -> None:
    """Two loops of 1,000 and 200 steps and 4 labels without any: the first result has each less the price p. By chance
    their cells have n_a n_b / n steps, the others none. The mean of all 36 cells is a 36th of the sum of both products,
    so the cell of the larger loop has far more than twice the mean and pays .7 p. That of the smaller one has less."""
    cells = np.zeros((6, 6), dtype=np.int64)
    cells[0, 0], cells[1, 1] = 100_000, 20_000
    level = ContextLevel(np.arange(6), cells, np.full(6, 1_000.0))
    price = 1_000 * math.sqrt(2) * math.log(6) / 2
    large, small = round(100_000 - price), round(20_000 - price)
    mean = (large + small) ** 2 / 36
    assert small**2 < 2 * mean < large**2
    found = thinned_by_labels(level)
    expected = np.zeros((6, 6))
    expected[0, 0] = 100_000 - 0.7 * price
    expected[1, 1] = 20_000 - price * (1.3 - 0.3 * small**2 / mean)
    assert found.cells.tolist() == np.rint(expected).tolist()
    assert found.scale.tolist() == [0.0] * 6


def test_a_cell_of_rare_labels_pays_more() -> None:
    """Seven labels and the start follow each other in a ring of 5,000, and a loop at one more label has less than 1.3
    prices: the price leaves it, 1.3 prices do not. A cell of two labels of the ring is never of a log without them."""
    cells = np.zeros((9, 9), dtype=np.int64)
    ring = np.arange(1, 9)
    cells[ring, np.roll(ring, 1)] = 500_000
    price = 1_000 * math.sqrt(2) * math.log(9) / 2
    cells[0, 0] = round(1.2 * price)
    level = ContextLevel(np.arange(9), cells, np.full(9, 1_000.0))
    assert thinned(level).cells[0, 0] == pytest.approx(0.2 * price, abs=1)
    assert thinned_by_labels(level).cells[0, 0] == 0
    cells[0, 0] = round(1.4 * price)
    assert thinned_by_labels(level).cells[0, 0] == pytest.approx(0.1 * price, abs=1)


def test_starts_and_ends_pay_the_price_at_most() -> None:
    """A label that cases repeat has a loop of 5,000. Few cases start with it, and as many end after it: these two cells
    have far fewer steps by chance than the mean. They pay the price, where those of another label pay 1.3 prices."""
    price = 1_000 * math.sqrt(2) * math.log(9) / 2
    for other, is_kept in ((8, True), (7, False)):
        cells = np.zeros((9, 9), dtype=np.int64)
        cells[0, 0] = 500_000
        cells[0, other] = cells[other, 0] = round(1.2 * price)
        level = ContextLevel(np.arange(9), cells, np.full(9, 1_000.0))
        found = thinned_by_labels(level).cells
        for cell in ((0, other), (other, 0)):
            assert found[cell] == (pytest.approx(0.2 * price, abs=1) if is_kept else 0)


def test_starts_and_ends_of_a_frequent_label_pay_less() -> None:
    """All cases have one label: its start and its end have more than twice the mean, and pay .7 prices."""
    cells = np.zeros((9, 9), dtype=np.int64)
    cells[8, 0] = cells[0, 8] = 500_000
    found = thinned_by_labels(ContextLevel(np.arange(9), cells, np.full(9, 1_000.0))).cells
    price = 1_000 * math.sqrt(2) * math.log(9) / 2
    assert found[8, 0] == found[0, 8] == round(500_000 - 0.7 * price)


def test_a_level_of_noise_alone_has_no_labels_to_go_by() -> None:
    """All cells are below their price."""
    level = ContextLevel(np.arange(3), np.full((3, 3), 5), np.full(3, 100.0))
    assert thinned_by_labels(level).cells.tolist() == [[0] * 3] * 3


def test_steps_between_labels_by_chance_are_found_better_by_labels() -> None:
    """Twelve labels follow each other by chance, and few of them are frequent. The noise is larger
    than the mean cell. In 12 draws of 12 the steps are nearer to the true relative frequencies."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        shares = rng.exponential(1.0, 12) ** 2
        true = 10_000 * np.outer(shares, shares) / shares.sum() ** 2
        noisy = np.rint(true + rng.normal(0, 100.0, true.shape)).astype(np.int64)
        level = ContextLevel(np.arange(12), noisy, np.full(12, 100.0 / math.sqrt(2)))
        assert far(thinned_by_labels(level).cells, true) < far(thinned(level).cells, true)


def test_noise_that_does_not_fit_goes() -> None:
    """Nearer to the true relative frequencies than cells with those below 1.5 scales left out, in each of 12 draws."""
    rng = np.random.default_rng(4)
    true = np.zeros((20, 20))
    for _ in range(12):
        nodes = rng.permutation(20)[: rng.integers(2, 7)]
        true[nodes, np.roll(nodes, -1)] += rng.integers(20, 400)
    for _ in range(12):
        noisy = np.rint(true + rng.laplace(0, 40.0, true.shape)).astype(np.int64)
        level = ContextLevel(np.arange(20), noisy, np.full(20, 40.0))
        assert far(balanced(level).cells, true) < far(np.where(noisy >= 60, noisy, 0), true)


def far(cells: np.ndarray, true: np.ndarray) -> float:
    """Total variation of relative frequencies."""
    return float(0.5 * np.abs(cells / cells.sum() - true / true.sum()).sum())
