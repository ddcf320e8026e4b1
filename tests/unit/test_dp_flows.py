"""Cells that fit each other: what the solution of the least squares must satisfy, and what it is good for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from models.dp.synthesis.contexts import ContextLevel
from models.dp.synthesis.flows import balanced, circulation, thinned


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
